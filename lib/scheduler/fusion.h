// Fusion in work: what groups are known to hold, whether two may become one, and which pairs to
// try.
#pragma once

#include "scheduler/dependency.h"
#include "scheduler/group_graph.h"
#include "scheduler/loop_nest.h"
#include "scheduler/state.h"

#include <unordered_map>
#include <vector>

namespace tsc::scheduler {

/// What fusion asks of a group. Its members are in the GroupGraph.
struct WorkGroup {
  NodeClass node_class = NodeClass::scheduler;
  bool reduces = false;
  bool alive = true;
  int changed_in_round = 1; // the last round that made or enlarged it
  tensor::Device device;
  Expr numel, reduction_numel;
  LoopNest nest;
  std::vector<uint32_t>
      dependencies;              // reads and writes, numbered by the DependencyTable, ascending
  std::vector<BufferId> buffers; // read or written, ascending
  size_t min_order = 0, max_order = 0; // of the members

  // Lists alone
  uint32_t list = ir::kNone;       // position in Schedule::lists
  std::vector<WorkGroup> elements; // one kernel each, side by side in one launch
  std::vector<NodeId> members;     // of an element: those of a group are in the GroupGraph
  bool is_list() const { return !elements.empty(); }
};

/// What becomes one kernel: a group, or one element of a group that is a list.
struct Part {
  GroupId group = 0;
  uint32_t element = 0;
};

struct Fusion {
  explicit Fusion(State &state);

  State &state;
  DependencyTable table;
  GroupGraph graph;
  std::vector<WorkGroup> groups;    // by GroupId
  std::vector<uint32_t> element_of; // by node: which element of its list it is in, else 0
  int round = 0;
  std::vector<bool> is_aliased; // by buffer

  const WorkGroup &group(GroupId id) const { return groups[id]; }
  const WorkGroup &work(Part part) const {
    const WorkGroup &whole = groups[part.group];
    return whole.is_list() ? whole.elements[part.element] : whole;
  }
  const std::vector<NodeId> &members(Part part) const {
    const WorkGroup &whole = groups[part.group];
    return whole.is_list() ? whole.elements[part.element].members : graph.members(part.group);
  }
  bool holds(Part part, NodeId id) const {
    return graph.group_of(id) == part.group && element_of[id] == part.element;
  }
  const Node &node(NodeId id) const { return state.schedule.nodes[id]; }
  /// Computed by a member and read by members alone: a kernel of them never stores it. `members`
  /// ascend.
  bool stays_inside(BufferId buffer, const std::vector<NodeId> &members) const;
  /// Bytes of the accesses that both make.
  int64_t shared_bytes(const WorkGroup &a, const WorkGroup &b) const;
  /// Between the farthest members of the two, in nodes.
  static size_t distance(const WorkGroup &a, const WorkGroup &b);
  /// True if a member of `later` must directly follow one of `earlier`.
  bool is_direct(Part earlier, Part later) const;
};

/// Two parts that become one kernel when their groups do.
struct PartPair {
  Part earlier, later;
};

struct TurnedLoops;

struct Verdict {
  Refusal refusal = Refusal::none;
  int64_t shared_bytes = 0;
  // When nothing refuses: what becomes one, and over which loops. When something does: `pairs` ends
  // with those that it is about.
  std::vector<PartPair> pairs;
  std::vector<LoopNest> nests;
  GroupId between =
      0; // intermediate_nodes, cycle: a group that waits for one and that the other waits for
  std::shared_ptr<TurnedLoops> turned; // what must be exchanged before the two are merged
  std::string text;                    // loop_order, slower: both sides in numbers
};

/// Whether `earlier` and `later` may become one kernel. Precondition: rank(earlier) < rank(later).
/// If nothing refuses, the graph's last search is the one that GroupGraph::merge wants.
Verdict judge(Fusion &fusion, GroupId earlier, GroupId later);

/// The same, and where accesses are all that refuses, once more with the loops of one side turned,
/// if that makes memory move less (turn_loops.h). Leaves all loops as they are.
Verdict judge_and_turn(Fusion &fusion, GroupId earlier, GroupId later);

/// The rules that `judge` asks, each alone.
Refusal check_shapes(const WorkGroup &a, const WorkGroup &b);
/// Every access of `later` to what `earlier` writes or reads and `later` mutates is to the same
/// element.
Refusal check_memory(const Fusion &fusion, Part earlier, Part later);
bool would_raise_peak_memory(const Fusion &fusion, Part a, Part b, int64_t shared_bytes);
/// Which parts of two groups become one kernel each: the groups themselves; or the elements of two
/// lists, one after the other; or a group and the one element of a list that waits for it or that
/// it waits for.
Refusal pair_parts(const Fusion &fusion, GroupId earlier, GroupId later,
                   std::vector<PartPair> &pairs);
/// Makes `earlier` of the two, as `verdict` found it possible; the GroupGraph is not touched.
void merge_work(Fusion &fusion, GroupId earlier, GroupId later, Verdict verdict);

/// A pair of groups worth judging, with what it is ranked by.
struct Candidate {
  GroupId first = 0, second = 0;
  int64_t shared_bytes = 0;
  uint32_t distance = 0;
  uint32_t discovery = 0; // buffers are numbered as the groups mention them
  bool same_kind = false; // both reduce, or neither
};

/// Pairs that share a buffer, at least one changed in the last round, best first. `order`: the
/// groups. Refused ones are handed to `refuse` instead.
std::vector<Candidate>
find_candidates(Fusion &fusion, const std::vector<GroupId> &order,
                const std::function<void(GroupId, GroupId, const Verdict &)> &refuse);

/// "op0_op1"
std::string name_of(const Fusion &fusion, GroupId id);
/// One sentence with names, sizes and indices that explains a refusal.
std::string explain(const Fusion &fusion, GroupId earlier, GroupId later, const Verdict &verdict);

} // namespace tsc::scheduler
