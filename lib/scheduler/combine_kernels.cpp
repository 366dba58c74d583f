// Combo kernels: groups that do not wait for each other, and that nothing fused, as one launch.
#include "scheduler/cost.h"
#include "scheduler/dependency.h"
#include "scheduler/steps.h"
#include "scheduler/topological_order.h"
#include "scheduler/weights_only.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace tsc::scheduler {

namespace {

class KernelCombiner {
public:
  explicit KernelCombiner(State &state)
      : state_(state), groups_(state.schedule.groups),
        group_of_(state.schedule.nodes.size(), ir::kNone) {
    for (uint32_t i = 0; i < groups_.size(); ++i)
      for (const NodeId member : groups_[i].members)
        group_of_[member] = i;
  }

  void run() {
    find_levels();
    weights_only_ = find_weights_only(state_).groups; // joined, it would run every time
    for (const auto &[level, groups] : by_level_)
      combine(groups);
    if (combined_)
      order_groups();
  }

private:
  State &state_;
  std::vector<Group> &groups_;
  std::vector<uint32_t> group_of_; // by node
  std::map<size_t, std::vector<uint32_t>> by_level_;
  std::vector<bool> weights_only_; // by group
  bool combined_ = false;
  /// Parts of a launch that read the same: each is one more text with registers of its own.
  static constexpr size_t kMostReadTogether = 4;
  static constexpr double kWhole = 0.9; // of a tensor: windows may leave a rest at the end

  const target::Policy &policy() const { return state_.policy(); }
  const Node &node(NodeId id) const { return state_.schedule.nodes[id]; }

  /// Groups by how many others stand one behind the other before them: no path leads from a level
  /// to itself, nor back, whatever is joined inside of levels. Lists stand at one level.
  void find_levels() {
    std::vector<size_t> level(groups_.size(), 0);
    for (size_t begin = 0, end; begin < groups_.size(); begin = end) {
      size_t own = 0;
      for (end = begin; end == begin || is_same_list(begin, end); ++end)
        for (const NodeId member : groups_[end].members)
          for (const NodeId producer : node(member).ancestors_hint) {
            const uint32_t awaited = group_of_[producer];
            if (awaited < begin)
              own = std::max(own, level[awaited] + 1);
          }
      std::fill(level.begin() + static_cast<ptrdiff_t>(begin),
                level.begin() + static_cast<ptrdiff_t>(end), own);
      if (groups_[begin].list == ir::kNone && groups_[begin].node_class == NodeClass::scheduler)
        by_level_[own].push_back(static_cast<uint32_t>(begin));
    }
  }
  bool is_same_list(size_t a, size_t b) const {
    return b < groups_.size() && groups_[a].list != ir::kNone && groups_[a].list == groups_[b].list;
  }

  /// Reducing large angles takes local memory, and so may series; registers are the same for all
  /// parts of a launch.
  bool needs_local_memory(const Group &group) const {
    return std::any_of(group.members.begin(), group.members.end(), [&](NodeId member) {
      const std::vector<ir::BodyOp> &ops = node(member).body.ops;
      return std::any_of(ops.begin(), ops.end(), [](const ir::BodyOp &op) {
        const ir::OpCost cost = ir::op_cost(op.op);
        return cost == ir::OpCost::angle || cost == ir::OpCost::series;
      });
    });
  }

  /// Loads and stores, which take few registers: each part of such a launch fills the machine as
  /// well as it would alone.
  bool only_moves(const Group &group) const {
    return std::all_of(group.members.begin(), group.members.end(), [&](NodeId member) {
      const std::vector<ir::BodyOp> &ops = node(member).body.ops;
      return std::all_of(ops.begin(), ops.end(), [](const ir::BodyOp &op) {
        return op.op == ir::Op::load || op.op == ir::Op::store;
      });
    });
  }

  // ---- one level

  void combine(const std::vector<uint32_t> &groups) {
    std::map<std::tuple<int, int, bool>, std::vector<uint32_t>> kinds;
    std::vector<uint32_t> large;
    uint32_t previous = ir::kNone;
    for (const uint32_t i : groups) {
      if (needs_local_memory(groups_[i])) {
        if (groups.size() > 1)
          refuse(i, i == groups[0] ? groups[1] : groups[0], Refusal::large_kernel,
                 "it computes sines, which take registers from all parts of a launch");
        continue;
      }
      const int64_t bytes = moved_bytes(groups_[i]);
      if (bytes > policy().combo_max_bytes && !only_moves(groups_[i])) {
        large.push_back(i);
        if (groups.size() > 1)
          refuse(i, i == groups[0] ? groups[1] : groups[0], Refusal::large_kernel,
                 std::to_string(bytes) + " bytes, at most " +
                     std::to_string(policy().combo_max_bytes) + " are moved by a part of a launch");
        continue;
      }
      if (previous != ir::kNone && weights_only_[previous] != weights_only_[i])
        refuse(previous, i, Refusal::weights_only, std::string(to_string(Refusal::weights_only)));
      else if (previous != ir::kNone && !(device_of(previous) == device_of(i)))
        refuse(previous, i, Refusal::device,
               tensor::to_string(device_of(previous)) + " and " + tensor::to_string(device_of(i)));
      previous = i;
      const tensor::Device device = device_of(i);
      kinds[{static_cast<int>(device.type), device.index, weights_only_[i]}].push_back(i);
    }
    for (const auto &[kind, alike] : kinds)
      cut(alike, std::get<bool>(kind));
    read_together(large);
  }
  tensor::Device device_of(uint32_t group) const {
    return state_.operation(groups_[group].members[0]).device;
  }

  /// Groups that may be one launch, in order: as many at a time as one may hold.
  void cut(const std::vector<uint32_t> &groups, bool once) {
    std::vector<uint32_t> chunk;
    for (const uint32_t i : groups) {
      const size_t order = order_of(i), first = chunk.empty() ? order : order_of(chunk[0]);
      const size_t apart = order < first ? first - order : order - first; // memory may reorder
      const bool far = !once && apart > policy().combo_max_distance;
      if (!chunk.empty() && (chunk.size() >= policy().combo_max_kernels || far)) {
        refuse(chunk.back(), i, far ? Refusal::far_apart : Refusal::too_large,
               far ? std::to_string(apart) + " operations from the first to the last, at most " +
                         std::to_string(policy().combo_max_distance)
                   : std::to_string(policy().combo_max_kernels) + " kernels at most in a launch");
        launch(chunk);
        chunk.clear();
      }
      chunk.push_back(i);
    }
    launch(chunk);
  }

  // ---- large kernels that read the same

  /// What a group reads whole, in the order of its outermost loop, from one end to the other: bytes
  /// by storage. Blocks of kernels follow that loop, so that two groups are at the same place of it
  /// when they have run the same share of their blocks.
  std::map<BufferId, int64_t> walked_in_order(uint32_t group) const {
    std::map<BufferId, std::map<Expr, double, symbolic::ExprLess>> touched; // by index: elements
    for (const ir::LoopBody &body : groups_[group].bodies)
      for (const ir::BodyOp &op : body.ops) {
        const NodeId producer = op.op == ir::Op::load ? state_.producer[op.buffer] : ir::kNone;
        if (op.op == ir::Op::load && (producer == ir::kNone || group_of_[producer] != group))
          note_walk(body, op, touched[state_.module.storage_of(op.buffer)]);
      }
    std::map<BufferId, int64_t> walked;
    for (const auto &[storage, by_index] : touched) {
      const ir::Buffer &buffer = state_.module.buffer(storage);
      const int64_t elements = size_hint(state_.module, buffer.layout.storage_size());
      double read = 0; // slices of one tensor are no whole
      for (const auto &[index, count] : by_index)
        read += count;
      if (read >= kWhole * static_cast<double>(elements))
        walked[storage] = elements * static_cast<int64_t>(tensor::size_in_bytes(buffer.dtype));
    }
    return walked;
  }
  /// Elements that the load touches, if it goes from one end of its storage to the other along the
  /// outermost loop.
  void note_walk(const ir::LoopBody &body, const ir::BodyOp &load,
                 std::map<Expr, double, symbolic::ExprLess> &touched) const {
    const std::span<const Expr> sizes = body.iteration_sizes();
    const auto outermost =
        std::find_if(sizes.begin(), sizes.end(), [](Expr size) { return size != Expr(1); });
    if (outermost == sizes.end())
      return;
    const Expr index = body.indices[load.index],
               variable = body.variables[static_cast<size_t>(outermost - sizes.begin())];
    const ir::Buffer &buffer = state_.module.buffer(state_.module.storage_of(load.buffer));
    const int64_t elements = size_hint(state_.module, buffer.layout.storage_size());
    const std::optional<Expr> step = symbolic::coefficient_of(index, variable);
    const int64_t reach = step ? size_hint(state_.module, *step * *outermost) : 0;
    if (reach > elements || static_cast<double>(reach) < kWhole * static_cast<double>(elements))
      return;
    double count = 1;
    for (size_t i = 0; i < body.variables.size(); ++i)
      if (symbolic::depends_on(index, body.variables[i]))
        count *= static_cast<double>(size_hint(state_.module, body.sizes[i]));
    touched[index] = std::min(count, static_cast<double>(elements));
  }

  /// Large kernels that walk through the same tensor, more than the second-level cache holds, from
  /// one end to the other: one launch, whose blocks are dealt to them in turn.
  void read_together(const std::vector<uint32_t> &large) {
    const target::Target *target = state_.options.target;
    if (!target || target->is_host || large.size() < 2)
      return;
    std::vector<std::map<BufferId, int64_t>> walked;
    walked.reserve(large.size());
    for (const uint32_t i : large)
      walked.push_back(walked_in_order(i));
    for (size_t i = 0; i < large.size(); ++i) {
      if (groups_[large[i]].list != ir::kNone)
        continue;
      std::vector<uint32_t> together = {large[i]};
      int64_t again = 0;
      for (size_t j = i + 1; j < large.size(); ++j) {
        if (groups_[large[j]].list != ir::kNone || together.size() == kMostReadTogether ||
            weights_only_[large[i]] != weights_only_[large[j]] ||
            !(device_of(large[i]) == device_of(large[j])) ||
            order_of(large[j]) > order_of(large[i]) + policy().combo_max_distance)
          continue;
        int64_t common = 0;
        for (const auto &[storage, bytes] : walked[i])
          if (walked[j].count(storage) > 0)
            common += bytes;
        if (common <= target->l2_bytes)
          continue;
        together.push_back(large[j]);
        again += common;
      }
      launch(together, again);
    }
  }

  size_t order_of(uint32_t group) const {
    size_t order = SIZE_MAX;
    for (const NodeId member : groups_[group].members)
      order = std::min(order, node(member).min_order);
    return order;
  }

  void launch(const std::vector<uint32_t> &chunk, int64_t read_together = 0) {
    if (chunk.size() < 2)
      return;
    combined_ = true;
    const auto list = static_cast<uint32_t>(state_.schedule.lists.size());
    state_.schedule.lists.push_back({GroupList::Kind::combo, "", read_together});
    for (const uint32_t i : chunk)
      groups_[i].list = list;
  }

  void refuse(uint32_t first, uint32_t second, Refusal refusal, const std::string &detail) {
    FusionDecision decision;
    decision.first = groups_[first].members[0];
    decision.second = groups_[second].members[0];
    decision.refusal = refusal;
    decision.detail = name_of(first) + " and " + name_of(second) + ", one launch: " + detail;
    state_.schedule.decisions.push_back(std::move(decision));
  }
  std::string name_of(uint32_t group) const {
    std::string name;
    for (const NodeId member : groups_[group].members)
      name += (name.empty() ? "" : "_") + state_.operation(member).name;
    return name;
  }

  /// As the cost model counts; which buffers stay inside a group is not noted yet.
  int64_t moved_bytes(const Group &group) const {
    const auto inside = [&](NodeId id) {
      return id != ir::kNone && group_of_[id] == group_of_[group.members[0]];
    };
    return scheduler::moved_bytes(
        state_.module, state_.schedule, group.members, [&](BufferId buffer) {
          const std::vector<User> &users = state_.schedule.users[buffer];
          return inside(state_.producer[buffer]) &&
                 std::all_of(users.begin(), users.end(),
                             [&](const User &user) { return inside(user.node); });
        });
  }

  // ---- order

  /// Lists whole, each where its first group stands if what it waits for has run there, else later.
  void order_groups() {
    std::vector<uint32_t> first_of(groups_.size()); // the first group of each one's list, or itself
    std::map<uint32_t, uint32_t> first_of_list;
    std::vector<std::vector<uint32_t>> whole_of(groups_.size()); // by first group
    std::vector<uint32_t> firsts;
    for (uint32_t i = 0; i < groups_.size(); ++i) {
      first_of[i] = groups_[i].list == ir::kNone
                        ? i
                        : first_of_list.try_emplace(groups_[i].list, i).first->second;
      if (first_of[i] == i)
        firsts.push_back(i);
      whole_of[first_of[i]].push_back(i);
    }
    const std::vector<uint32_t> order =
        topological_order(firsts, groups_.size(), [&](uint32_t first) {
          std::vector<NodeId> members;
          for (const uint32_t i : whole_of[first])
            members.insert(members.end(), groups_[i].members.begin(), groups_[i].members.end());
          std::vector<uint32_t> awaited;
          for (const NodeId producer : producers_by_name(state_, members))
            awaited.push_back(first_of[group_of_[producer]]);
          return awaited;
        });
    std::vector<Group> ordered;
    for (const uint32_t first : order)
      for (const uint32_t i : whole_of[first])
        ordered.push_back(std::move(groups_[i]));
    groups_ = std::move(ordered);
  }
};

} // namespace

void combine_kernels(State &state) {
  // Where ranks communicate, the order serves that.
  if (state.policy().combo_kernels && !state.has_collectives)
    KernelCombiner(state).run();
}

} // namespace tsc::scheduler
