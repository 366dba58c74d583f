#include "scheduler/fusion.h"

#include <algorithm>

namespace tsc::scheduler {

namespace {

/// Fusing may lengthen the life of buffers that would else be reused at once; it is refused when
/// that costs this many times the bytes that it saves.
constexpr int64_t kMemoryOverheadFactor = 32;

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
Refusal check_read(const Fusion &fusion, GroupId earlier, const Dependency &read) {
  const NodeId producer = fusion.state.producer[buffer_of(read)];
  if (producer == ir::kNone || fusion.graph.group_of(producer) != earlier)
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
Refusal check_mutation(const Fusion &fusion, GroupId earlier, const Node &mutator,
                       BufferId mutating) {
  const State &state = fusion.state;
  const MemoryDep *write = nullptr;
  for (const Dependency &dependency : mutator.writes) {
    if (buffer_of(dependency) == mutating)
      write = std::get_if<MemoryDep>(&dependency);
  }
  if (!write || is_indirect(*write))
    return Refusal::memory_deps_differ;
  const BufferId storage = state.module.storage_of(mutating);
  for (const NodeId member : fusion.graph.members(earlier)) {
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
std::vector<BufferId> single_user_inputs(const Fusion &fusion, GroupId id) {
  const State &state = fusion.state;
  std::vector<BufferId> buffers;
  for (const BufferId buffer : fusion.group(id).buffers) {
    const NodeId producer = state.producer[buffer];
    if (producer != ir::kNone && fusion.graph.group_of(producer) != id &&
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

Refusal check_memory(const Fusion &fusion, GroupId earlier, GroupId later) {
  for (const NodeId member : fusion.graph.members(later)) {
    const Node &node = fusion.node(member);
    for (const Dependency &read : node.reads) {
      Refusal refusal = Refusal::none;
      if (const auto *weak = std::get_if<WeakDep>(&read)) {
        const NodeId producer = fusion.state.producer[weak->buffer];
        if (producer != ir::kNone && fusion.graph.group_of(producer) == earlier)
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

bool would_raise_peak_memory(const Fusion &fusion, GroupId a, GroupId b, int64_t shared_bytes) {
  const ir::Module &module = fusion.state.module;
  using ReuseKey =
      std::tuple<int, int, int, int64_t>; // device, dtype, bytes: what can be reused for it
  const auto keys = [&](GroupId id) {
    std::vector<ReuseKey> found;
    for (const BufferId buffer : single_user_inputs(fusion, id)) {
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
  for (const ReuseKey &key : keys(b)) {
    if (std::binary_search(in_a.begin(), in_a.end(), key))
      overhead += std::get<3>(key);
  }
  return overhead > kMemoryOverheadFactor * shared_bytes;
}

// Cheap questions first: most pairs end early.
Verdict judge(Fusion &fusion, GroupId earlier, GroupId later) {
  const target::Policy &policy = fusion.state.policy();
  const WorkGroup &a = fusion.group(earlier), &b = fusion.group(later);
  const auto refuse = [](Refusal refusal, int64_t bytes) { return Verdict{refusal, bytes, {}, 0}; };
  if (a.node_class != NodeClass::scheduler || b.node_class != NodeClass::scheduler)
    return refuse(Refusal::not_loops, 0);
  if (!(a.device == b.device))
    return refuse(Refusal::device, 0);
  const int64_t bytes = fusion.shared_bytes(earlier, later);
  const size_t size = fusion.graph.members(earlier).size() + fusion.graph.members(later).size();
  if (size > policy.max_fusion_size)
    return refuse(Refusal::too_large, bytes);
  const Refusal shapes = check_shapes(a, b);
  if (shapes != Refusal::none)
    return refuse(shapes, bytes);
  if (bytes == 0) {
    const Refusal memory = check_memory(fusion, earlier, later);
    return refuse(memory == Refusal::none ? Refusal::no_shared_data : memory, bytes);
  }
  const bool direct = fusion.graph.is_direct(earlier, later);
  if (direct) {
    const Refusal memory = check_memory(fusion, earlier, later);
    if (memory != Refusal::none)
      return refuse(memory, bytes);
  } else if (bytes < policy.fusion_memory_threshold) {
    return refuse(Refusal::low_score, bytes);
  } else if (fusion.distance(earlier, later) > policy.max_distance) {
    return refuse(Refusal::far_apart, bytes);
  }
  const GroupGraph::Detour detour = fusion.graph.find_detour(earlier, later);
  if (detour == GroupGraph::Detour::found) {
    Verdict verdict = refuse(direct ? Refusal::intermediate_nodes : Refusal::cycle, bytes);
    verdict.between = fusion.graph.detour();
    return verdict;
  }
  if (detour == GroupGraph::Detour::unknown)
    return refuse(Refusal::far_apart, bytes);
  if (would_raise_peak_memory(fusion, earlier, later, bytes))
    return refuse(Refusal::peak_memory, bytes);
  const WorkGroup &whole = a.reduces ? a : b;
  auto nest = join_nests(a.nest, b.nest, whole.numel, whole.reduction_numel);
  if (!nest)
    return refuse(Refusal::shapes, bytes);
  return {Refusal::none, bytes, std::move(*nest), 0};
}

} // namespace tsc::scheduler
