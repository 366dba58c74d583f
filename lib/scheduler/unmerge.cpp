#include "scheduler/unmerge.h"

#include "scheduler/dependency.h"

#include <unordered_map>

namespace tsc::scheduler {

namespace {

/// The buffer whose memory `buffer` is a version of.
BufferId first_version(const ir::Module &module, BufferId buffer) {
  while (module.buffer(buffer).mutates != ir::kNone)
    buffer = module.buffer(buffer).mutates;
  return buffer;
}

/// Gives `found`, taken from the body, the buffer versions that mutations gave to `named`.
void take_versions(const ir::Module &module, const std::vector<Dependency> &named,
                   std::vector<Dependency> &found) {
  std::unordered_map<BufferId, BufferId> versions;
  for (const Dependency &dependency : named) {
    if (!is_weak(dependency))
      versions.emplace(first_version(module, buffer_of(dependency)), buffer_of(dependency));
  }
  for (Dependency &dependency : found) {
    const auto version = versions.find(first_version(module, buffer_of(dependency)));
    if (version != versions.end())
      set_buffer(dependency, version->second);
  }
}

} // namespace

UnmergedNode unmerge(const ir::Module &module, const Node &node) {
  if (node.node_class != NodeClass::scheduler)
    return {{}, node.reads, node.writes};
  UnmergedNode result;
  const ir::Operation &operation = module.operations[node.operation];
  result.body = ir::reorder_loops(module, ir::trace(module, operation));
  Accesses accesses = find_unmerged_accesses(module, result.body);
  result.reads = std::move(accesses.reads);
  result.writes = std::move(accesses.writes);
  take_versions(module, node.reads, result.reads);
  for (const Dependency &read : node.reads) {
    if (!std::holds_alternative<MemoryDep>(read))
      result.reads.push_back(read);
  }
  return result;
}

} // namespace tsc::scheduler
