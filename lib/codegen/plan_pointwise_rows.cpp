// The GPU's plans of pointwise loops by rows: where rows start anywhere, runs go by the memory's
// lines, and threads of a row load one run beside another.
#include "codegen/plan.h"
#include "codegen/plan_steps.h"

#include <algorithm>
#include <cmath>

namespace tsc::codegen {

namespace {

/// Bytes of memory behind the accesses of elements of one kind.
/// `elements`: in all rows, if that is known.
double bytes_accessed(const ir::Module &module, const KernelPlan &plan, Access access,
                      Expr elements) {
  double bytes = 0;
  for (ValueId id = 0; id < plan.graph.values.size(); ++id) {
    const Value &value = plan.graph[id];
    if (value.buffer == ir::kNone || value.level != Level::element || plan.access[id] != access)
      continue;
    constexpr int64_t kOfAnySize = int64_t{1} << 24;
    const ir::Buffer &buffer = module.buffer(value.buffer);
    const int64_t held = buffer.layout.storage_size().as_integer().value_or(kOfAnySize);
    const int64_t asked = elements.as_integer().value_or(held);
    bytes += static_cast<double>(std::min(held, asked)) * // some of it may be left out
             static_cast<double>(tensor::size_in_bytes(buffer.dtype));
  }
  return bytes;
}

/// Threads of a pointwise row, or of its parts, and runs of each: few idle ones first, then about
/// two runs. A part takes one run more where it starts within one. Nobody tells its neighbours
/// anything, so a short row may have any number of threads.
RowWalk choose_parts(int64_t runs, int vector) {
  constexpr int64_t kEnds = 8;      // runs that the ends of a part cost as much as
  constexpr double kDivision = 1.6; // and that such blocks are alone in their launch
  constexpr int kFewestExactly = 12;
  RowWalk walk;
  double best = 1e30;
  const auto consider = [&](int threads, int steps, double more) {
    const int64_t slots = int64_t{threads} * steps, parts = (runs + slots - 2) / (slots - 1);
    const double idle = static_cast<double>(parts * (slots + kEnds) - runs);
    const double cost =
        idle / static_cast<double>(runs) * 4 + std::fabs(std::log2(steps / 2.0)) * 0.5 + more;
    if (cost < best) {
      best = cost;
      walk.threads = threads;
      walk.steps = steps;
    }
  };
  for (int threads = 32; threads <= 256; threads *= 2)
    for (int steps = 1; steps <= 4; ++steps)
      consider(threads, steps, 0);
  for (int steps = 1; steps <= 2; ++steps)
    if (const int64_t exactly = (runs + steps) / steps;
        exactly >= kFewestExactly && exactly < kRowBlock)
      consider(static_cast<int>(exactly), steps, kDivision);
  // As many rows a block as leave the fewest lanes of its warps idle.
  constexpr int kWarp = 32;
  double busiest = 0;
  for (int rows = 1; walk.threads % kWarp != 0 && rows * walk.threads <= kRowBlock; ++rows) {
    const int threads = rows * walk.threads, lanes = (threads + kWarp - 1) / kWarp * kWarp;
    if (const double busy = static_cast<double>(threads) / lanes; busy >= busiest) {
      busiest = busy;
      walk.rows = rows;
    }
  }
  walk.vector = vector;
  return walk;
}

/// A pointwise graph as rows: elements of its last loop; of long ones parts of at most `most`
/// elements, all but the last of the same number of whole runs.
KernelGraph as_rows(const KernelGraph &graph, int vector, int64_t most) {
  KernelGraph rows = graph;
  const Expr variable = rows.element_variables.back();
  const int64_t size = rows.element_sizes.back().value();
  rows.row_variables.assign(rows.element_variables.begin(), rows.element_variables.end() - 1);
  rows.row_sizes.assign(rows.element_sizes.begin(), rows.element_sizes.end() - 1);
  rows.element_variables = {variable};
  rows.element_sizes = {Expr(size)};
  const int64_t parts = (size + most - 1) / most;
  if (parts > 1) {
    const int64_t run = vector, length = ((size + parts - 1) / parts + run - 1) / run * run;
    const Expr part = symbolic::symbol(symbolic::SymbolSort::row, 0);
    rows.row_variables.push_back(part);
    rows.row_sizes.emplace_back((size + length - 1) / length);
    rows.element_sizes = {symbolic::minimum(length, Expr(size) - part * length)};
    rows.ranges.set_size(part, rows.row_sizes.back());
    rows.ranges.set_size(variable, length);
    for (Value &value : rows.values)
      value.index = symbolic::simplify(
          symbolic::substitute(value.index, {{variable, part * length + variable}}), rows.ranges);
  }
  assign_phases(rows);
  return rows;
}

} // namespace

bool plan_pointwise_rows(const Request &request, KernelPlan &plan) {
  constexpr int64_t kFewestParts = 2; // a multiprocessor
  constexpr double kMostSingly = 0.6; // bytes that go by single elements, of the others
  const auto &[module, group, target, given, checked, like, choice] = request;
  const std::vector<Expr> &sizes = plan.graph.element_sizes;
  if (like || !checked.sizes.empty() || sizes.empty() || !sizes.back().is_integer() ||
      plan.graph.elements().is_integer(0) ||
      adds_at_own_indices(plan.graph, plan.graph.element_variables.back()))
    return false;
  KernelPlan rows;
  RowWalk walk;
  walk.vector = choose_vector(module, plan);
  rows.graph = as_rows(plan.graph, 1, sizes.back().value());
  align_in_memory(module, rows, walk);
  if (!rows.origin)
    return false;
  const int64_t length = sizes.back().value();
  const PlanChoice chosen = request.chosen();
  walk = choose_parts((length + walk.vector - 1) / walk.vector, walk.vector);
  if (chosen.threads != 0) {
    walk.threads = chosen.threads;
    walk.rows = 1;
  }
  rows.graph =
      as_rows(plan.graph, walk.vector, (int64_t{walk.threads} * walk.steps - 1) * walk.vector);
  const auto origin = choose_origin(module, rows.graph);
  if (!origin || origin->vector != walk.vector ||
      rows.graph.rows().as_integer().value_or(INT64_MAX) < kFewestParts * target.multiprocessors)
    return false;
  rows.origin = origin->index;
  classify_accesses(module, rows, walk.vector);
  find_shifts(module, rows, walk.vector, true);
  const Expr elements = plan.graph.elements();
  if (bytes_accessed(module, rows, Access::vector, elements) * kMostSingly <
      bytes_accessed(module, rows, Access::element, elements))
    return false;
  preload_all(rows);
  fill_phases(module, rows, group, true);
  plan = std::move(rows);
  finish_rows(request, plan, walk);
  plan.has_barriers = plan.row_stores_wait || !plan.by_lanes.empty(); // warps wait for their lanes
  plan.description = "pointwise by rows, " + threads_text(walk) + std::to_string(walk.steps) +
                     (walk.steps == 1 ? " run" : " runs") + " of " + std::to_string(walk.vector) +
                     " elements a thread, " + access_text(module, plan, walk.vector) +
                     ", rows start anywhere";
  return true;
}

} // namespace tsc::codegen
