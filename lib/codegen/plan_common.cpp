// Parts of planning that every walk shares: runs, phases, index width.
#include "codegen/plan.h"

#include <algorithm>

namespace tsc::codegen {

using ir::Op;

int vector_of(const Walk &walk) {
  if (const auto *flat = std::get_if<FlatWalk>(&walk))
    return flat->vector;
  if (const auto *tile = std::get_if<TileWalk>(&walk))
    return tile->vector;
  if (const auto *row = std::get_if<RowWalk>(&walk))
    return row->vector;
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

namespace {

bool is_store(const Value &value) {
  return value.op == Op::store || value.op == Op::store_reduction;
}

/// Elements that a run's first index must be a multiple of for one aligned access (16 bytes at
/// most).
int64_t alignment_of(DType dtype, int vector) {
  return std::min<int64_t>(
      vector, std::max<int64_t>(1, 16 / static_cast<int64_t>(tensor::size_in_bytes(dtype))));
}

} // namespace

int choose_vector(const ir::Module &module, const KernelPlan &plan) {
  const KernelGraph &graph = plan.graph;
  if (graph.element_variables.empty())
    return 1;
  const Expr variable = graph.element_variables.back();
  const Expr size = graph.element_sizes.back();
  size_t narrowest = 16, widest = 1;
  bool any = false;
  for (const Value &value : graph.values) {
    if (value.level != Level::element || (value.op != Op::load && !is_store(value)))
      continue;
    const size_t bytes = tensor::size_in_bytes(module.buffer(value.buffer).dtype);
    if (access_of(value.index, variable, 2, 2, plan.checked) != Access::vector)
      continue;
    any = true;
    narrowest = std::min(narrowest, bytes);
    widest = std::max(widest, bytes);
  }
  if (!any)
    return 1;
  int vector = static_cast<int>(std::min(16 / narrowest, std::max<size_t>(1, 32 / widest)));
  while (vector > 1 && !is_multiple(size, vector, graph.ranges, plan.checked))
    vector /= 2;
  return vector;
}

void classify_accesses(const ir::Module &module, KernelPlan &plan, int vector) {
  const KernelGraph &graph = plan.graph;
  const size_t count = graph.values.size();
  plan.access.assign(count, Access::element);
  plan.uniform.assign(count, false);
  plan.streamed.assign(count, false);
  if (vector == 1 || graph.element_variables.empty())
    return;
  const Expr variable = graph.element_variables.back();
  for (ValueId id = 0; id < count; ++id) {
    const Value &value = graph[id];
    if (value.level != Level::element || value.op == Op::reduction || value.op == Op::scan ||
        value.op == Op::sort)
      continue;
    const auto steady = [&](ValueId arg) {
      return graph[arg].level == Level::row || graph[arg].op == Op::reduction || plan.uniform[arg];
    };
    const bool store = is_store(value);
    const bool args_steady =
        std::all_of(value.args.begin() + (store ? 1 : 0), value.args.end(), steady) &&
        (value.guard == ir::kNone || steady(value.guard));
    Access access = Access::constant;
    if (value.op == Op::load || store || value.op == Op::index_expr) {
      const int64_t alignment =
          value.buffer == ir::kNone ? 1 : alignment_of(module.buffer(value.buffer).dtype, vector);
      access = access_of(value.index, variable, vector, alignment, plan.checked);
    }
    if (!args_steady)
      access = Access::element;
    if (store && (access == Access::constant || value.mode != ir::StoreMode::plain))
      access = Access::element;
    plan.access[id] = access;
    plan.uniform[id] = !store && access == Access::constant;
  }
}

std::optional<int64_t> longest_row(const KernelGraph &graph) {
  constexpr int64_t kNoBound = int64_t{1} << 31;
  const int64_t high = symbolic::bounds(graph.elements(), graph.ranges).high;
  return high > 0 && high < kNoBound ? std::optional(high) : std::nullopt;
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

/// Values that cost nothing to have again: literals, positions, reinterpretations of what is in
/// registers.
bool is_free(const KernelPlan &plan, ValueId id) {
  const Value &value = plan.graph[id];
  if (value.op == Op::constant || value.op == Op::index_expr || value.op == Op::set_indirect)
    return true;
  if (value.op == Op::load)
    return plan.preloaded[id];
  if (value.op == Op::get_item && plan.graph[value.args[0]].op == Op::sort)
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
    else if (plan_.uniform[id] || (value.op == Op::load && plan_.access[id] == Access::vector))
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

} // namespace tsc::codegen
