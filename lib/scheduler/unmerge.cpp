#include "scheduler/unmerge.h"

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
  for (const Dependency &dependency : named)
    if (!is_weak(dependency))
      versions.emplace(first_version(module, buffer_of(dependency)), buffer_of(dependency));
  for (Dependency &dependency : found) {
    const auto version = versions.find(first_version(module, buffer_of(dependency)));
    if (version != versions.end())
      set_buffer(dependency, version->second);
  }
}

/// Names buffers as the node's reads do, and adds those of its reads that are not of elements.
void take_names(const ir::Module &module, const Node &node, Accesses &accesses) {
  take_versions(module, node.reads, accesses.reads);
  for (const Dependency &read : node.reads)
    if (!std::holds_alternative<MemoryDep>(read))
      accesses.reads.push_back(read);
}

} // namespace

UnmergedNode unmerge(const ir::Module &module, const Node &node) {
  if (node.node_class != NodeClass::scheduler)
    return {{}, node.reads, node.writes};
  UnmergedNode result;
  const ir::Operation &operation = module.operations[node.operation];
  result.body = ir::reorder_loops(module, ir::trace(module, operation));
  Accesses accesses = find_unmerged_accesses(module, result.body);
  take_names(module, node, accesses);
  result.reads = std::move(accesses.reads);
  result.writes = std::move(accesses.writes);
  return result;
}

Accesses find_named_accesses(const ir::Module &module, const Node &node, const ir::LoopBody &body) {
  Accesses accesses = find_accesses(module, body);
  take_names(module, node, accesses);
  return accesses;
}

} // namespace tsc::scheduler
