// Pointwise kernels whose operands are contiguous along different variables (a transposed operand):
// square tiles through shared memory, so that every access of global memory is contiguous.
#include "codegen/plan.h"
#include "codegen/plan_steps.h"

#include <algorithm>

namespace tsc::codegen {

namespace {

using ir::Op;

constexpr int kBlock = 256;
constexpr int kWideEdge = 64;          // of tiles whose accesses are vectors
constexpr int kNarrowEdge = 32;        // else, or if wide tiles take too much shared memory
constexpr int kSharedBytes = 40 << 10; // of wide tiles; three such blocks fit on a multiprocessor
constexpr size_t kMostOperands = 8;
constexpr int64_t kSmallestEdge = 16; // a shorter variable would leave most of a tile empty

size_t bytes_of(const ir::Module &module, const Value &value) {
  return tensor::size_in_bytes(module.buffer(value.buffer).dtype);
}

bool unit_stride(const Value &value, Expr variable) {
  const auto stride = symbolic::coefficient_of(value.index, variable);
  return stride && stride->is_integer(1);
}

/// The position among the element variables that most bytes of `counts` are contiguous along.
template <class Counts>
std::optional<size_t> most_contiguous(const ir::Module &module, const KernelGraph &graph,
                                      const Counts &counts) {
  std::vector<size_t> bytes(graph.element_variables.size(), 0);
  for (const Value &value : graph.values)
    for (size_t i = 0; i < bytes.size(); ++i)
      if (counts(value) && unit_stride(value, graph.element_variables[i]))
        bytes[i] += bytes_of(module, value);
  const auto best = std::max_element(bytes.begin(), bytes.end());
  if (best == bytes.end() || *best == 0)
    return std::nullopt;
  return static_cast<size_t>(best - bytes.begin());
}

bool long_enough(const KernelGraph &graph, size_t position) {
  const auto size = graph.element_sizes[position].as_integer();
  return !size || *size >= kSmallestEdge;
}

void move_to_end(KernelGraph &graph, size_t position) {
  const auto rotate = [&](std::vector<Expr> &list) {
    const auto from = list.begin() + static_cast<std::ptrdiff_t>(position);
    std::rotate(from, from + 1, list.end());
  };
  rotate(graph.element_variables);
  rotate(graph.element_sizes);
}

bool may_be_tiled(const Value &value) {
  return value.op == Op::load && value.level == Level::element && value.args.empty() &&
         value.guard == ir::kNone;
}

bool is_store_of_elements(const Value &value) {
  return value.op == Op::store && value.level == Level::element && value.args.size() == 1;
}

/// The variable that `inner`, of `size`, continues in all accesses of `counts`: one of its steps is
/// `size` of inner's, which are of one element. None: the position of `inner`.
template <class Counts>
size_t continued_by(const KernelGraph &graph, size_t inner, Expr size, const Counts &counts) {
  const Expr variable = graph.element_variables[inner];
  for (size_t i = 0; i < graph.element_variables.size(); ++i) {
    const auto continues = [&](const Value &value) {
      if (!counts(value) || !unit_stride(value, variable))
        return true;
      const auto step = symbolic::coefficient_of(value.index, graph.element_variables[i]);
      return step && *step == size;
    };
    if (i != inner && std::all_of(graph.values.begin(), graph.values.end(), continues))
      return i;
  }
  return inner;
}

/// Makes one variable of `inner` and of `outer`: its place in a nest of both.
void merge_variables(KernelGraph &graph, Expr inner, Expr outer) {
  const auto place = [&](Expr variable) {
    return static_cast<size_t>(
        std::find(graph.element_variables.begin(), graph.element_variables.end(), variable) -
        graph.element_variables.begin());
  };
  const Expr size = graph.element_sizes[place(inner)],
             all = size * graph.element_sizes[place(outer)];
  const symbolic::Substitution apart = {{outer, symbolic::floor_div(inner, size)},
                                        {inner, symbolic::mod(inner, size)}};
  graph.element_sizes[place(inner)] = all;
  graph.ranges.set_size(inner, all);
  for (Value &value : graph.values) {
    const auto step = symbolic::coefficient_of(value.index, inner),
               outer_step = symbolic::coefficient_of(value.index, outer);
    if (!symbolic::depends_on(value.index, inner) && !symbolic::depends_on(value.index, outer))
      continue;
    value.index = step && outer_step && *outer_step == *step * size
                      ? symbolic::substitute(value.index, {{outer, Expr(0)}})
                      : symbolic::simplify(symbolic::substitute(value.index, apart), graph.ranges);
  }
  const auto at = static_cast<std::ptrdiff_t>(place(outer));
  graph.element_variables.erase(graph.element_variables.begin() + at);
  graph.element_sizes.erase(graph.element_sizes.begin() + at);
}

/// Short variables leave most of a tile's edge empty: those that accesses go through next belong to
/// it. `other`: the variable of the other edge.
template <class Counts>
void lengthen(KernelGraph &graph, Expr variable, Expr other, const Counts &counts) {
  for (;;) {
    const auto found =
        std::find(graph.element_variables.begin(), graph.element_variables.end(), variable);
    const auto at = static_cast<size_t>(found - graph.element_variables.begin());
    const auto size = graph.element_sizes[at].as_integer();
    if (!size || *size >= kWideEdge)
      return;
    const size_t next = continued_by(graph, at, graph.element_sizes[at], counts);
    if (next == at || graph.element_variables[next] == other)
      return;
    merge_variables(graph, variable, graph.element_variables[next]);
  }
}

/// Puts the variable that stores are contiguous along last and the one that the tiled loads are
/// contiguous along before it. False if there are no such loads.
bool arrange_variables(const ir::Module &module, KernelGraph &graph) {
  const auto store = most_contiguous(module, graph, is_store_of_elements);
  if (!store)
    return false;
  const Expr across = graph.element_variables[*store];
  const auto turned = [&](const Value &value) {
    return may_be_tiled(value) && !unit_stride(value, across) &&
           symbolic::depends_on(value.index, across);
  };
  const auto load = most_contiguous(module, graph, turned);
  if (!load || *load == *store)
    return false;
  const Expr down = graph.element_variables[*load];
  lengthen(graph, across, down, is_store_of_elements);
  lengthen(graph, down, across, turned);
  for (const Expr variable : {down, across}) {
    const auto found =
        std::find(graph.element_variables.begin(), graph.element_variables.end(), variable);
    const auto at = static_cast<size_t>(found - graph.element_variables.begin());
    if (!long_enough(graph, at))
      return false;
    move_to_end(graph, at);
  }
  return true;
}

/// The widest run of 16 bytes at most that all tiled loads may be read in.
int choose_across(const ir::Module &module, const KernelPlan &plan, int most) {
  const KernelGraph &graph = plan.graph;
  const Expr variable = graph.element_variables[graph.element_variables.size() - 2];
  int width = most;
  for (ValueId id = 0; id < graph.values.size(); ++id)
    if (plan.tiled[id])
      width = std::min(width, static_cast<int>(16 / bytes_of(module, graph[id])));
  const auto fits = [&](ValueId id) {
    return !plan.tiled[id] ||
           access_of(graph[id].index, variable, width, width, plan.checked) == Access::vector;
  };
  const Expr size = graph.element_sizes[graph.element_sizes.size() - 2];
  const auto all_fit = [&] {
    for (ValueId id = 0; id < graph.values.size(); ++id)
      if (!fits(id))
        return false;
    return is_multiple(size, width, graph.ranges, plan.checked);
  };
  while (width > 1 && !all_fit())
    width /= 2;
  return width;
}

size_t choose_tiled(const ir::Module &module, KernelPlan &plan) {
  const KernelGraph &graph = plan.graph;
  const Expr across = graph.element_variables.back(),
             down = graph.element_variables[graph.element_variables.size() - 2];
  plan.tiled.assign(graph.values.size(), false);
  size_t count = 0, bytes = 0;
  for (ValueId id = 0; id < graph.values.size() && count < kMostOperands; ++id) {
    const Value &value = graph[id];
    if (!may_be_tiled(value) || !unit_stride(value, down) || unit_stride(value, across) ||
        !symbolic::depends_on(value.index, across))
      continue;
    plan.tiled[id] = true;
    ++count;
    bytes += bytes_of(module, value);
  }
  return bytes;
}

} // namespace

void order_elements(const ir::Module &module, KernelGraph &graph) {
  if (graph.element_variables.size() < 2)
    return;
  const auto accesses = [](const Value &value) {
    return value.level == Level::element && (value.op == Op::load || value.op == Op::store);
  };
  const std::optional<size_t> best = most_contiguous(module, graph, accesses);
  if (!best || !long_enough(graph, *best))
    return;
  const Expr variable = graph.element_variables[*best], last = graph.element_variables.back();
  const bool serves_stores =
      std::all_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
        return value.op != Op::store || value.level != Level::element ||
               (unit_stride(value, variable) && !unit_stride(value, last));
      });
  if (serves_stores)
    move_to_end(graph, *best);
}

bool plan_tile(const ir::Module &module, const scheduler::Group &group, KernelPlan &plan,
               const TileWalk *like) {
  if (plan.graph.element_variables.size() < 2)
    return false;
  KernelGraph graph = plan.graph;
  if (!arrange_variables(module, graph))
    return false;
  plan.graph = std::move(graph);
  const size_t bytes = choose_tiled(module, plan);
  TileWalk walk;
  walk.block = kBlock;
  walk.vector = choose_vector(module, plan);
  walk.edge = walk.vector > 1 && bytes * kWideEdge * (kWideEdge + 4) <= kSharedBytes ? kWideEdge
                                                                                     : kNarrowEdge;
  if (like)
    walk.edge = like->edge;
  const int most = walk.edge * walk.edge / kBlock; // every thread has a run
  walk.vector = std::min(walk.vector, most);
  walk.across = choose_across(module, plan, most);
  walk.steps = walk.edge * walk.edge / (walk.vector * kBlock);
  classify_accesses(module, plan, walk.vector);
  preload_all(plan);
  const Expr width = plan.graph.element_sizes.back(),
             height = plan.graph.element_sizes[plan.graph.element_sizes.size() - 2];
  walk.guard = !symbolic::known_multiple_of(width, walk.edge, plan.graph.ranges) ||
               !symbolic::known_multiple_of(height, walk.edge, plan.graph.ranges);
  plan.grid = symbolic::ceil_div(width, walk.edge) * symbolic::ceil_div(height, walk.edge);
  for (size_t i = 0; i + 2 < plan.graph.element_sizes.size(); ++i)
    plan.grid = plan.grid * plan.graph.element_sizes[i];
  plan.block = walk.block;
  plan.has_barriers = true;
  plan.walk = walk;
  plan.description = "pointwise, tiles of " + std::to_string(walk.edge) + " x " +
                     std::to_string(walk.edge) + " elements through shared memory, runs of " +
                     std::to_string(walk.vector) + " elements, " + std::to_string(walk.across) +
                     " of transposed operands, " + access_text(module, plan, walk.vector);
  fill_phases(module, plan, group, true);
  return true;
}

} // namespace tsc::codegen
