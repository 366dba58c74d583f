// Loads of one element under conditions that are intervals of one position: parts of a tensor that
// were put side by side again, where they lay, after something else was done to each.
#include "codegen/expression.h"
#include "codegen/kernel_graph.h"

#include <algorithm>
#include <map>

namespace tsc::codegen {

using ir::Op;
using symbolic::Interval;

namespace {

/// Disjoint, in ascending order; both ends are inside.
using Region = std::vector<Interval>;

Region intersection(const Region &a, const Region &b) {
  Region result;
  for (const Interval &x : a)
    for (const Interval &y : b)
      if (const Interval both{std::max(x.low, y.low), std::min(x.high, y.high)};
          both.low <= both.high)
        result.push_back(both);
  return result;
}

/// What of `whole`, one interval, is not in `a`, which lies in it.
Region complement(const Region &a, Interval whole) {
  Region result;
  int64_t next = whole.low;
  for (const Interval &x : a) {
    if (next < x.low)
      result.push_back({next, x.low - 1});
    next = x.high + 1;
  }
  if (next <= whole.high)
    result.push_back({next, whole.high});
  return result;
}

Region union_of(const Region &a, const Region &b, Interval whole) {
  return complement(intersection(complement(a, whole), complement(b, whole)), whole);
}

bool within(const Region &a, const Region &b) { return intersection(a, b) == a; }

/// Constants that conditions compare positions with.
constexpr int64_t kMostNumber = int64_t{1} << 52;
/// Values that are made: where more were, the graph stays as it is.
constexpr size_t kMostMade = 1000;

class Joiner {
public:
  explicit Joiner(KernelGraph &graph) : graph_(graph) {}

  /// Joins what has conditions on one position. False: nothing, and the graph is as it was.
  bool join() {
    const size_t count = graph_.values.size();
    for (ValueId id = 0; id < count; ++id)
      if (graph_[id].op == Op::index_expr && graph_[id].args.empty() && join_at(id))
        return true;
    return false;
  }

private:
  KernelGraph &graph_;
  ValueId position_ = ir::kNone;
  Interval whole_;
  struct Joint {
    std::vector<ValueId> loads;
    Region region; // of all together
    ValueId joint = ir::kNone;
  };
  std::map<ValueId, Region> guards_; // of loads that are joined
  std::map<ValueId, ValueId> joints_;
  std::map<std::pair<ValueId, std::vector<std::pair<int64_t, int64_t>>>, ValueId> known_;
  size_t first_made_ = 0;

  std::optional<int64_t> number(ValueId id) const {
    const Value &value = graph_[id];
    if (value.op != Op::constant)
      return std::nullopt;
    if (const auto *integer = std::get_if<int64_t>(&value.constant))
      return std::abs(*integer) < kMostNumber ? std::optional(*integer) : std::nullopt;
    return std::nullopt;
  }

  /// Where a condition on the position holds; nothing: it is another one.
  std::optional<Region> region_of(ValueId id, int depth = 0) const {
    const Value &value = graph_[id];
    constexpr int kDeepest = 8;
    if (depth > kDeepest)
      return std::nullopt;
    const Region all = {whole_};
    if (value.op == Op::logical_and || value.op == Op::logical_or) {
      const auto a = region_of(value.args[0], depth + 1), b = region_of(value.args[1], depth + 1);
      if (!a || !b)
        return std::nullopt;
      return value.op == Op::logical_and ? intersection(*a, *b) : union_of(*a, *b, whole_);
    }
    if (value.op == Op::logical_not) {
      const auto a = region_of(value.args[0], depth + 1);
      return a ? std::optional(complement(*a, whole_)) : std::nullopt;
    }
    if (value.args.size() != 2 || value.args[0] != position_)
      return std::nullopt;
    const std::optional<int64_t> limit = number(value.args[1]);
    if (!limit)
      return std::nullopt;
    switch (value.op) {
    case Op::lt:
      return intersection(all, {{whole_.low, *limit - 1}});
    case Op::le:
      return intersection(all, {{whole_.low, *limit}});
    case Op::gt:
      return intersection(all, {{*limit + 1, whole_.high}});
    case Op::ge:
      return intersection(all, {{*limit, whole_.high}});
    default:
      return std::nullopt;
    }
  }

  ValueId add(Value value) {
    for (size_t id = first_made_; id < graph_.values.size(); ++id)
      if (is_same(graph_.values[id], value))
        return static_cast<ValueId>(id);
    graph_.values.push_back(std::move(value));
    return static_cast<ValueId>(graph_.values.size() - 1);
  }
  ValueId zero(ir::DType dtype) {
    Value value;
    value.op = Op::constant;
    value.dtype = dtype;
    value.constant = tensor::is_floating(dtype)    ? tensor::Scalar(0.0)
                     : dtype == ir::DType::boolean ? tensor::Scalar(false)
                                                   : tensor::Scalar(int64_t{0});
    return add(std::move(value));
  }

  static bool is_pure(const Value &value) {
    return (ir::operand_count(value.op) > 0 || value.op == Op::to_dtype) &&
           !ir::is_random(value.op) && value.guard == ir::kNone;
  }

  /// `id` where the position is in `region`, which is not empty.
  ValueId inside(ValueId id, const Region &region) {
    if (graph_.values.size() > first_made_ + kMostMade)
      return id;
    std::vector<std::pair<int64_t, int64_t>> key;
    for (const Interval &one : region)
      key.emplace_back(one.low, one.high);
    const auto known = known_.find({id, key});
    if (known != known_.end())
      return known->second;
    const ValueId result = inside_anew(id, region);
    known_.emplace(std::pair(id, std::move(key)), result);
    return result;
  }
  ValueId inside_anew(ValueId id, const Region &region) {
    if (const auto joint = joints_.find(id); joint != joints_.end()) {
      const Region &guard = guards_.at(id);
      if (within(region, guard))
        return joint->second;
      if (intersection(region, guard).empty())
        return zero(graph_[id].dtype);
      return chosen(graph_[id].guard, joint->second, zero(graph_[id].dtype), graph_[id].dtype);
    }
    if (!is_pure(graph_[id]))
      return id;
    if (graph_[id].op == Op::where)
      if (const auto taken = region_of(graph_[id].args[0])) {
        const Value where = graph_[id];
        const Region here = intersection(region, *taken),
                     there = intersection(region, complement(*taken, whole_));
        const ValueId left = here.empty() ? ir::kNone : inside(where.args[1], here),
                      right = there.empty() ? ir::kNone : inside(where.args[2], there);
        const ValueId only = left == ir::kNone || left == right ? right
                             : right == ir::kNone               ? left
                                                                : ir::kNone;
        if (only != ir::kNone && value_type(graph_[only].dtype) == value_type(where.dtype))
          return only;
        return chosen(where.args[0], left == ir::kNone ? right : left,
                      right == ir::kNone ? left : right, where.dtype);
      }
    std::vector<ValueId> args = graph_[id].args;
    for (ValueId &arg : args)
      arg = inside(arg, region);
    if (args == graph_[id].args)
      return id;
    Value value = graph_[id];
    value.args = std::move(args);
    return add(std::move(value));
  }
  ValueId chosen(ValueId condition, ValueId left, ValueId right, ir::DType dtype) {
    Value value;
    value.op = Op::where;
    value.dtype = dtype;
    value.args = {condition, left, right};
    return add(std::move(value));
  }

  bool join_at(ValueId position) {
    position_ = position;
    whole_ = symbolic::bounds(graph_[position].index, graph_.ranges);
    if (whole_.low < 0 || whole_.high >= kMostNumber)
      return false;
    guards_.clear();
    std::vector<Joint> found;
    const size_t count = graph_.values.size();
    const auto of_same_place = [&](const Value &value) {
      return std::find_if(found.begin(), found.end(), [&](const Joint &joint) {
        const Value &other = graph_[joint.loads[0]];
        return other.buffer == value.buffer && other.index == value.index &&
               other.args == value.args && other.dtype == value.dtype;
      });
    };
    for (ValueId id = 0; id < count; ++id) {
      const Value &value = graph_[id];
      if (value.op != Op::load || value.guard == ir::kNone)
        continue;
      std::optional<Region> region = region_of(value.guard);
      if (!region || region->empty())
        continue;
      const auto same = of_same_place(value);
      Joint &joint = same == found.end() ? found.emplace_back() : *same;
      joint.loads.push_back(id);
      joint.region = union_of(joint.region, *region, whole_);
      guards_[id] = std::move(*region);
    }
    for (ValueId id = 0; id < count && !found.empty(); ++id)
      if (const Value &value = graph_[id]; value.op == Op::load && value.guard == ir::kNone)
        if (const auto same = of_same_place(value); same != found.end()) {
          same->joint = id;
          same->region = {whole_};
        }
    // Of what no condition leaves out: elsewhere a branch would stand before the one load.
    const auto stays = [&](const Joint &joint) {
      return (joint.joint == ir::kNone && joint.loads.size() < 2) ||
             !complement(joint.region, whole_).empty();
    };
    found.erase(std::remove_if(found.begin(), found.end(), stays), found.end());
    if (found.empty())
      return false;
    const std::vector<Value> before = graph_.values;
    first_made_ = count;
    known_.clear();
    joints_.clear();
    for (Joint &joint : found) {
      if (joint.joint == ir::kNone) {
        Value load = graph_[joint.loads[0]];
        load.guard = ir::kNone;
        joint.joint = add(std::move(load));
      }
      for (const ValueId id : joint.loads)
        joints_[id] = joint.joint;
    }
    for (ValueId id = 0; id < count; ++id) {
      if (is_pure(graph_[id]) || graph_[id].op == Op::constant)
        continue;
      std::vector<ValueId> args = graph_[id].args;
      for (ValueId &arg : args)
        arg = inside(arg, {whole_});
      graph_.values[id].args = std::move(args);
    }
    if (graph_.values.size() > first_made_ + kMostMade) {
      graph_.values = before;
      return false;
    }
    put_in_order(graph_);
    remove_dead_values(graph_);
    return true;
  }
};

} // namespace

void join_guarded_loads(KernelGraph &graph) {
  const auto guarded = std::count_if(graph.values.begin(), graph.values.end(), [](const Value &v) {
    return v.op == Op::load && v.guard != ir::kNone;
  });
  constexpr ptrdiff_t kMost = 200;
  for (int again = 0; guarded > 0 && guarded < kMost && again < 8; ++again) {
    if (!Joiner(graph).join())
      return;
  }
}

} // namespace tsc::codegen
