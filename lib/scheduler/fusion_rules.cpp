#include "scheduler/fusion.h"

#include <algorithm>
#include <tuple>

namespace tsc::scheduler {

namespace {

bool writes_to(const State &state, const Node &node, BufferId storage) {
  return std::any_of(node.writes.begin(), node.writes.end(), [&](const Dependency &write) {
    return state.module.storage_of(buffer_of(write)) == storage;
  });
}

/// True if `read` is of the very element that `write` stores, at every point of the loops.
bool is_same_element(const MemoryDep &read, const MemoryDep &write) {
  return !is_indirect(read) && !is_indirect(write) && read.index == write.index &&
         read.sizes.size() >= write.sizes.size() &&
         std::equal(write.sizes.begin(), write.sizes.end(), read.sizes.begin());
}

/// `read`, of a buffer that a member of `earlier` writes.
Refusal check_read(const Fusion &fusion, Part earlier, const Dependency &read) {
  const NodeId producer = fusion.state.producer[buffer_of(read)];
  if (producer == ir::kNone || !fusion.holds(earlier, producer))
    return Refusal::none;
  const auto *memory = std::get_if<MemoryDep>(&read);
  if (!memory)
    return Refusal::memory_deps_differ;
  for (const Dependency &dependency : fusion.node(producer).writes) {
    const auto *write = std::get_if<MemoryDep>(&dependency);
    if (!write || write->buffer != memory->buffer)
      continue;
    if (write->mode != ir::StoreMode::plain)
      return Refusal::atomic;
    if (is_same_element(*memory, *write))
      return Refusal::none;
  }
  return Refusal::memory_deps_differ;
}

/// `mutator` writes over the storage of `mutating`, which members of `earlier` read: it may do so
/// in the same kernel only where each has read exactly the element that it then overwrites.
Refusal check_mutation(const Fusion &fusion, Part earlier, const Node &mutator, BufferId mutating) {
  const State &state = fusion.state;
  const MemoryDep *write = nullptr;
  for (const Dependency &dependency : mutator.writes)
    if (buffer_of(dependency) == mutating)
      write = std::get_if<MemoryDep>(&dependency);
  if (!write || is_indirect(*write))
    return Refusal::memory_deps_differ;
  // Written by several iterations, an element would be read after the first of them.
  if (symbolic::numel(write->sizes) != mutator.numel)
    return Refusal::memory_deps_differ;
  for (size_t i = 0; i < write->sizes.size(); ++i)
    if (!write->sizes[i].is_integer(1) && !symbolic::depends_on(write->index, write->variables[i]))
      return Refusal::memory_deps_differ;
  const BufferId storage = state.module.storage_of(mutating);
  for (const NodeId member : fusion.members(earlier)) {
    for (const Dependency &read : fusion.node(member).reads) {
      if (is_weak(read) || state.module.storage_of(buffer_of(read)) != storage)
        continue;
      const auto *memory = std::get_if<MemoryDep>(&read);
      if (!memory || is_indirect(*memory) || memory->index != write->index ||
          memory->sizes != write->sizes)
        return Refusal::memory_deps_differ;
    }
    if (writes_to(state, fusion.node(member), storage))
      return Refusal::memory_deps_differ;
  }
  return Refusal::none;
}

/// Buffers with one user that the group reads: without fusion their memory is free at once.
std::vector<BufferId> single_user_inputs(const Fusion &fusion, Part part) {
  const State &state = fusion.state;
  std::vector<BufferId> buffers;
  for (const BufferId buffer : fusion.work(part).buffers) {
    const NodeId producer = state.producer[buffer];
    if (producer != ir::kNone && !fusion.holds(part, producer) &&
        state.schedule.users[buffer].size() == 1)
      buffers.push_back(buffer);
  }
  return buffers;
}

} // namespace

Refusal check_shapes(const WorkGroup &a, const WorkGroup &b) {
  if (!a.reduces && !b.reduces)
    return a.numel == b.numel ? Refusal::none : Refusal::shapes;
  if (a.reduces && b.reduces) {
    const bool equal = a.numel == b.numel && a.reduction_numel == b.reduction_numel;
    return equal ? Refusal::none : Refusal::reduction_shapes;
  }
  const WorkGroup &reduction = a.reduces ? a : b;
  const WorkGroup &pointwise = a.reduces ? b : a;
  const bool fits = pointwise.numel == reduction.numel ||
                    pointwise.numel == reduction.numel * reduction.reduction_numel;
  return fits ? Refusal::none : Refusal::reduction_shapes;
}

Refusal check_memory(const Fusion &fusion, Part earlier, Part later) {
  for (const NodeId member : fusion.members(later)) {
    const Node &node = fusion.node(member);
    for (const Dependency &read : node.reads) {
      Refusal refusal = Refusal::none;
      if (const auto *weak = std::get_if<WeakDep>(&read)) {
        const NodeId producer = fusion.state.producer[weak->buffer];
        if (producer != ir::kNone && fusion.holds(earlier, producer))
          refusal = check_mutation(fusion, earlier, node, weak->mutating);
      } else {
        refusal = check_read(fusion, earlier, read);
      }
      if (refusal != Refusal::none)
        return refusal;
    }
  }
  return Refusal::none;
}

bool would_raise_peak_memory(const Fusion &fusion, Part a, Part b, int64_t shared_bytes) {
  const ir::Module &module = fusion.state.module;
  using ReuseKey =
      std::tuple<int, int, int, int64_t>; // device, dtype, bytes: what can be reused for it
  const auto keys = [&](Part part) {
    std::vector<ReuseKey> found;
    for (const BufferId buffer : single_user_inputs(fusion, part)) {
      const ir::Buffer &b = module.buffer(buffer);
      const int64_t bytes = size_hint(module, b.layout.storage_size() - b.layout.offset) *
                            static_cast<int64_t>(tensor::size_in_bytes(b.dtype));
      found.emplace_back(static_cast<int>(b.device.type), b.device.index, static_cast<int>(b.dtype),
                         bytes);
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  };
  const std::vector<ReuseKey> in_a = keys(a);
  if (in_a.empty())
    return false;
  int64_t overhead = 0;
  for (const ReuseKey &key : keys(b))
    if (std::binary_search(in_a.begin(), in_a.end(), key))
      overhead += std::get<3>(key);
  return overhead > fusion.state.policy().peak_memory_factor * shared_bytes;
}

namespace {

/// Whether two parts may share a kernel, as far as what they do and touch decides it. Cheap
/// questions first: most pairs end early.
Refusal check_sharing(const Fusion &fusion, const PartPair &pair, int64_t bytes, bool direct) {
  const target::Policy &policy = fusion.state.policy();
  const WorkGroup &a = fusion.work(pair.earlier), &b = fusion.work(pair.later);
  const size_t size = fusion.members(pair.earlier).size() + fusion.members(pair.later).size();
  if (size > policy.max_fusion_size)
    return Refusal::too_large;
  const Refusal shapes = check_shapes(a, b);
  if (shapes != Refusal::none)
    return shapes;
  if (bytes == 0 || direct) {
    const Refusal memory = check_memory(fusion, pair.earlier, pair.later);
    return memory == Refusal::none && bytes == 0 ? Refusal::no_shared_data : memory;
  }
  if (bytes < policy.fusion_memory_threshold)
    return Refusal::low_score;
  return Fusion::distance(a, b) > policy.max_distance ? Refusal::far_apart : Refusal::none;
}

/// The loops of both parts, if nothing speaks against one kernel for them.
Refusal check_kernel(const Fusion &fusion, const PartPair &pair, int64_t bytes,
                     std::vector<LoopNest> &nests) {
  if (would_raise_peak_memory(fusion, pair.earlier, pair.later, bytes))
    return Refusal::peak_memory;
  const WorkGroup &a = fusion.work(pair.earlier), &b = fusion.work(pair.later);
  const WorkGroup &whole = a.reduces ? a : b;
  auto nest = join_nests(a.nest, b.nest, whole.numel, whole.reduction_numel);
  if (!nest)
    return Refusal::shapes;
  nests.push_back(std::move(*nest));
  return Refusal::none;
}

Verdict refuse(Refusal refusal, int64_t bytes, std::vector<PartPair> about) {
  return {refusal, bytes, std::move(about), {}, 0, nullptr, {}};
}

} // namespace

Verdict judge(Fusion &fusion, GroupId earlier, GroupId later) {
  const WorkGroup &a = fusion.group(earlier), &b = fusion.group(later);
  if (a.node_class != NodeClass::scheduler || b.node_class != NodeClass::scheduler)
    return refuse(Refusal::not_loops, 0, {});
  if (!(a.device == b.device))
    return refuse(Refusal::device, 0, {});
  Verdict verdict;
  const Refusal pairing = pair_parts(fusion, earlier, later, verdict.pairs);
  if (pairing != Refusal::none)
    return refuse(pairing, fusion.shared_bytes(a, b), {});
  bool any_direct = false;
  std::vector<int64_t> bytes;
  for (const PartPair &pair : verdict.pairs) {
    bytes.push_back(fusion.shared_bytes(fusion.work(pair.earlier), fusion.work(pair.later)));
    verdict.shared_bytes += bytes.back();
    const bool direct = fusion.is_direct(pair.earlier, pair.later);
    any_direct = any_direct || direct;
    const Refusal refusal = check_sharing(fusion, pair, bytes.back(), direct);
    if (refusal != Refusal::none)
      return refuse(refusal, bytes.back(), {pair});
  }
  const GroupGraph::Detour detour = fusion.graph.find_detour(earlier, later);
  if (detour == GroupGraph::Detour::found) {
    verdict.refusal = any_direct ? Refusal::intermediate_nodes : Refusal::cycle;
    verdict.between = fusion.graph.detour();
    return verdict;
  }
  if (detour == GroupGraph::Detour::unknown)
    return refuse(Refusal::far_apart, verdict.shared_bytes, {verdict.pairs[0]});
  for (size_t i = 0; i < verdict.pairs.size(); ++i) {
    const Refusal refusal = check_kernel(fusion, verdict.pairs[i], bytes[i], verdict.nests);
    if (refusal != Refusal::none)
      return refuse(refusal, bytes[i], {verdict.pairs[i]});
  }
  return verdict;
}

} // namespace tsc::scheduler
