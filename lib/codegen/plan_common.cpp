// Parts of planning that every walk shares: runs, phases, index width.
#include "codegen/expression.h"
#include "codegen/plan.h"
#include "codegen/plan_steps.h"

#include <algorithm>
#include <numeric>

namespace tsc::codegen {

using ir::Op;

int vector_of(const Walk &walk) {
  if (const auto *flat = std::get_if<FlatWalk>(&walk))
    return flat->vector;
  if (const auto *tile = std::get_if<TileWalk>(&walk))
    return tile->vector;
  if (const auto *row = std::get_if<RowWalk>(&walk))
    return row->vector;
  if (const auto *window = std::get_if<WindowWalk>(&walk))
    return window->vector;
  if (const auto *serial = std::get_if<SerialWalk>(&walk))
    return serial->vector;
  if (const auto *product = std::get_if<ProductWalk>(&walk))
    return product->vector;
  return 1;
}

int steps_of(const Walk &walk) {
  if (const auto *flat = std::get_if<FlatWalk>(&walk))
    return flat->steps;
  if (const auto *tile = std::get_if<TileWalk>(&walk))
    return tile->steps;
  if (const auto *row = std::get_if<RowWalk>(&walk))
    return row->steps;
  if (std::holds_alternative<ProductWalk>(walk))
    return 1;
  return 0;
}

const Interleaved *interleaved_of(const KernelPlan &plan, ValueId id) {
  for (const Interleaved &each : plan.interleaved)
    if (std::find(each.members.begin(), each.members.end(), id) != each.members.end())
      return &each;
  return nullptr;
}

int interleaved_with(const KernelPlan &plan, ValueId id) {
  const Interleaved *with = interleaved_of(plan, id);
  return with == nullptr ? 1 : static_cast<int>(with->members.size());
}

bool is_by_lanes(const KernelPlan &plan, ValueId id) {
  return !plan.by_lanes.empty() && plan.by_lanes[id];
}

bool draws_by_warp(const KernelPlan &plan, ValueId id) {
  return !plan.by_warp.empty() && plan.by_warp[id];
}

int slots_across(const ir::Module &module, const KernelPlan &plan) {
  constexpr int kSlot = 16;
  int slots = 0;
  for (const Interleaved &each : plan.interleaved)
    if (each.across) {
      const auto bytes = vector_of(plan.walk) * static_cast<int>(each.members.size()) *
                         static_cast<int>(tensor::size_in_bytes(
                             module.buffer(plan.graph[each.members.front()].buffer).dtype));
      const int piece = std::gcd(bytes, kSlot), pieces = bytes / piece;
      const int places = pieces % 2 == 0 ? pieces * 36 : pieces * 32; // see tc_across.h
      slots = std::max(slots, (places * piece + kSlot - 1) / kSlot);
    }
  return slots;
}

void find_choices(const ir::Module &module, KernelPlan &plan) {
  const KernelGraph &graph = plan.graph;
  std::vector<uint32_t> uses(graph.values.size(), 0);
  for (const Value &value : graph.values) {
    for (const ValueId arg : value.args)
      ++uses[arg];
    if (value.guard != ir::kNone)
      ++uses[value.guard];
  }
  // The load whose elements `id` are, if nobody else asks for them.
  const auto load_of = [&](ValueId id) {
    ValueId load = id;
    while (uses[load] == 1 && graph[load].args.size() == 1 &&
           is_alias(graph[load], graph[graph[load].args[0]]))
      load = graph[load].args[0];
    const Value &value = graph[load];
    const bool serves = value.op == Op::load && uses[load] == 1 && value.args.empty() &&
                        plan.access[load] == Access::vector && !plan.preloaded[load] &&
                        (value.guard == ir::kNone || plan.uniform[value.guard]);
    return serves ? load : ir::kNone;
  };
  for (ValueId id = static_cast<ValueId>(graph.values.size()); id-- > 0;) {
    Choice choice;
    choice.root = id;
    ValueId at = id;
    DType stored = DType::f32;
    const auto takes = [&](ValueId load) {
      const DType dtype = module.buffer(graph[load].buffer).dtype;
      const bool same = choice.places.empty() || dtype == stored;
      stored = dtype;
      return same;
    };
    while (graph[at].op == Op::where && (at == id || uses[at] == 1) &&
           plan.uniform[graph[at].args[0]]) {
      const ValueId condition = graph[at].args[0], load = load_of(graph[at].args[1]);
      if (load == ir::kNone || !takes(load) ||
          (graph[load].guard != ir::kNone && graph[load].guard != condition))
        break;
      choice.places.emplace_back(condition, load);
      at = graph[at].args[2];
    }
    const ValueId last = choice.places.empty() ? ir::kNone : load_of(at);
    const bool inside =
        std::any_of(plan.choices.begin(), plan.choices.end(), [&](const Choice &of) {
          return std::any_of(of.places.begin(), of.places.end(), [&](const auto &place) {
            return !choice.places.empty() && place.second == choice.places.back().second;
          });
        });
    if (last == ir::kNone || inside || !takes(last) ||
        graph[id].dtype != graph[choice.places[0].second].dtype)
      continue;
    choice.places.emplace_back(ir::kNone, last);
    plan.choices.push_back(std::move(choice));
  }
}

std::optional<int64_t> longest_row(const KernelGraph &graph) {
  constexpr int64_t kNoBound = int64_t{1} << 31;
  const int64_t high = symbolic::bounds(graph.elements(), graph.ranges).high;
  return high > 0 && high < kNoBound ? std::optional(high) : std::nullopt;
}

std::optional<int64_t> likely_row(const ir::Module &module, const KernelGraph &graph) {
  if (const auto known = longest_row(graph))
    return known;
  // Of rows that are parts of longer ones, the first is as long as any.
  symbolic::Substitution first;
  for (const Expr variable : graph.row_variables)
    first.emplace(variable, Expr(0));
  return likely(module, symbolic::substitute(graph.elements(), first));
}

int64_t blocks_by_shared_memory(const target::Target &target, int64_t bytes) {
  constexpr int64_t kSystem = 1024; // of each block's
  return std::max<int64_t>(1, target.shared_bytes_per_multiprocessor / (bytes + kSystem));
}

bool needs_wide_index(const KernelGraph &graph) {
  constexpr int64_t kLimit = (int64_t{1} << 31) - (int64_t{1} << 22); // room for runs past the end
  const auto too_large = [&](Expr e) {
    const symbolic::Interval interval = symbolic::bounds(e, graph.ranges);
    return interval.low < -kLimit || interval.high > kLimit;
  };
  if (too_large(graph.elements()) || too_large(graph.rows()))
    return true;
  return std::any_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
    return (value.buffer != ir::kNone || value.op == Op::index_expr) && too_large(value.index);
  });
}

namespace {

/// Instructions that compute an element from its position and its row alone; more than `most` if
/// they are more, or it takes anything else. A choice by position is a register an element
/// otherwise.
int steps_from_position(const KernelGraph &graph, ValueId id, int most) {
  const Value &value = graph[id];
  if (value.level == Level::row || value.op == Op::constant || value.op == Op::index_expr)
    return 0;
  const bool computes = value.buffer == ir::kNone && value.op != Op::reduction &&
                        value.op != Op::scan && value.op != Op::sort && value.op != Op::get_item &&
                        value.op != Op::set_indirect && value.guard == ir::kNone &&
                        !ir::is_random(value.op) &&
                        ir::op_cost(value.op) == ir::OpCost::instruction;
  int steps = computes ? 1 : most + 1;
  for (size_t i = 0; i < value.args.size() && steps <= most; ++i)
    steps += steps_from_position(graph, value.args[i], most - steps);
  return steps;
}

/// Values that cost next to nothing to have again: literals, positions and few steps from them,
/// reinterpretations of what is in registers.
bool is_free(const KernelPlan &plan, ValueId id) {
  const Value &value = plan.graph[id];
  if (value.op == Op::constant || value.op == Op::index_expr || value.op == Op::set_indirect)
    return true;
  if (value.op == Op::load)
    return plan.preloaded[id];
  if (value.op == Op::get_item && plan.graph[value.args[0]].op == Op::sort)
    return true;
  constexpr int kFewSteps = 4;
  if (steps_from_position(plan.graph, id, kFewSteps) <= kFewSteps)
    return true;
  return value.op == Op::to_dtype && value.args.size() == 1 && tensor::is_floating(value.dtype) &&
         plan.graph[value.args[0]].op == Op::load && plan.preloaded[value.args[0]];
}

class PhaseFiller {
public:
  PhaseFiller(KernelPlan &plan, bool keep) : plan_(plan), graph_(plan.graph), keep_(keep) {
    computed_in_.assign(graph_.values.size(), ir::kNone);
    listed_.assign(plan.phases.size(), std::vector<bool>(graph_.values.size(), false));
  }
  void fill(uint32_t phase, const std::vector<ValueId> &roots) {
    std::vector<ValueId> work = roots, list;
    while (!work.empty()) {
      const ValueId id = work.back();
      work.pop_back();
      if (!visit(id, phase))
        continue;
      list.push_back(id);
      if (const Choice *choice = choice_of(plan_, id)) {
        for (const auto &[condition, load] : choice->places)
          if (const ValueId asked = condition == ir::kNone ? graph_[load].guard : condition;
              asked != ir::kNone)
            work.push_back(asked);
        continue;
      }
      work.insert(work.end(), graph_[id].args.begin(), graph_[id].args.end());
      if (graph_[id].guard != ir::kNone)
        work.push_back(graph_[id].guard);
    }
    std::sort(list.begin(), list.end());
    for (const ValueId id : list)
      place(id, phase);
  }

  bool is_computed(ValueId id) const { return computed_in_[id] != ir::kNone; }

private:
  KernelPlan &plan_;
  const KernelGraph &graph_;
  bool keep_;
  std::vector<uint32_t> computed_in_;
  std::vector<std::vector<bool>> listed_; // a phase

  /// True if `id` is to be computed in this phase.
  bool visit(ValueId id, uint32_t phase) {
    const Value &value = graph_[id];
    if (value.level == Level::row || value.op == Op::reduction || listed_[phase][id])
      return false;
    if (value.op == Op::sort || (value.op == Op::scan && graph_.scans_end_phases)) {
      plan_.kept[id] = true;
      return false;
    }
    if (computed_in_[id] != ir::kNone && computed_in_[id] < phase && keep_ && !is_free(plan_, id)) {
      plan_.kept[id] = true;
      return false;
    }
    if (computed_in_[id] == ir::kNone)
      computed_in_[id] = phase;
    listed_[phase][id] = true;
    return true;
  }
  void place(ValueId id, uint32_t phase) {
    const Value &value = graph_[id];
    PhasePlan &plan = plan_.phases[phase];
    if (value.op == Op::store || value.op == Op::store_reduction)
      plan.stores.push_back(id);
    else if (value.op == Op::load && (plan_.preloaded[id] || plan_.tiled[id]))
      return;
    else if (plan_.uniform[id] || choice_of(plan_, id) != nullptr ||
             (value.op == Op::load && plan_.access[id] == Access::vector))
      plan.run_values.push_back(id);
    else
      plan.elements.push_back(id);
  }
};

} // namespace

namespace {

/// True if the store writes over memory that the kernel also loads: of a buffer that it mutates, or
/// of an input whose memory its output takes over.
bool overwrites_what_is_read(const ir::Module &module, const scheduler::Group &group,
                             const KernelGraph &graph, const Value &store) {
  const auto storage = [&](ir::BufferId id) {
    for (const auto &[output, input] : group.inplace)
      if (output == id)
        return module.storage_of(input);
    return module.storage_of(id);
  };
  const ir::BufferId written = storage(store.buffer);
  return std::any_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
    return value.op == Op::load && !is_store(value) && module.storage_of(value.buffer) == written;
  });
}

} // namespace

void fill_phases(const ir::Module &module, KernelPlan &plan, const scheduler::Group &group,
                 bool keep) {
  const KernelGraph &graph = plan.graph;
  plan.phases.assign(graph.phases, {});
  plan.kept.assign(graph.values.size(), false);
  if (plan.tiled.empty())
    plan.tiled.assign(graph.values.size(), false);
  if (plan.preloaded.empty())
    plan.preloaded.assign(graph.values.size(), false);
  std::vector<std::vector<ValueId>> roots(graph.phases);
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const Value &value = graph[id];
    if (is_store(value)) {
      const bool overwrites = overwrites_what_is_read(module, group, graph, value);
      if (value.level == Level::row) {
        plan.row_stores.push_back(id);
        plan.row_stores_wait = plan.row_stores_wait || overwrites;
      } else { // what overwrites is stored once no phase reads the old contents any more
        roots[overwrites && !keep ? graph.phases - 1 : value.phase].push_back(id);
      }
    } else if (value.op == Op::reduction || value.op == Op::scan || value.op == Op::sort) {
      plan.phases[value.phase].reductions.push_back(id);
      plan.kept[id] = value.op == Op::sort || (value.op == Op::scan && graph.scans_end_phases);
      roots[value.phase].insert(roots[value.phase].end(), value.args.begin(), value.args.end());
    } else if (value.level == Level::row) {
      plan.phases[value.phase].row_values.push_back(id);
    }
  }
  PhaseFiller filler(plan, keep);
  for (uint32_t phase = 0; phase < graph.phases; ++phase)
    filler.fill(phase, roots[phase]);
  for (ValueId id = 0; id < graph.values.size(); ++id) // checked, though no address depends on it
    if (graph[id].op == Op::set_indirect && !filler.is_computed(id))
      filler.fill(graph[id].phase, {id});
}

std::string walks_text(const KernelPlan &plan, const char *over) {
  const auto walks = std::count_if(plan.phases.begin(), plan.phases.end(),
                                   [](const PhasePlan &phase) { return !phase.empty(); });
  return std::to_string(walks) + (walks == 1 ? " walk over the " : " walks over the ") + over;
}

std::string access_text(const ir::Module &module, const KernelPlan &plan, int vector) {
  constexpr size_t kMost = 16;
  size_t widest = 0;
  for (ValueId id = 0; id < plan.graph.values.size(); ++id)
    if (plan.access[id] == Access::vector && plan.graph[id].buffer != ir::kNone &&
        vector * interleaved_with(plan, id) > 1)
      widest = std::max(
          widest,
          std::gcd(kMost, tensor::size_in_bytes(module.buffer(plan.graph[id].buffer).dtype) *
                              vector * static_cast<size_t>(interleaved_with(plan, id))));
  if (widest == 0)
    return "one element an access";
  return std::to_string(widest) + "-byte accesses";
}

} // namespace tsc::codegen
