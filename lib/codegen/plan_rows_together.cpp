// Rows of which a thread has several elements, or several rows, that share what they read: values
// that depend on the loop stand once for each of them in the value graph, the others once.
#include "codegen/order_elements.h"
#include "codegen/plan_steps.h"

#include <algorithm>

namespace tsc::codegen {

namespace {

/// The plan of rows of a graph that was written out, each by as many threads as `before`.
KernelPlan plan_written(const Request &request, KernelGraph graph, const RowWalk &before,
                        const std::string &what) {
  KernelPlan plan;
  plan.checked = request.checked;
  plan.graph = std::move(graph);
  PlanChoice choice = request.chosen();
  if (choice.threads == 0)
    choice.threads = before.threads;
  Request like_before = request;
  like_before.choice = &choice;
  plan_rows(like_before, plan);
  plan.description += ", " + what;
  return plan;
}

} // namespace

std::optional<KernelPlan> plan_row_parts(const Request &request, const KernelGraph &graph,
                                         const RowWalk &whole) {
  constexpr int64_t kMostParts = 4;
  constexpr size_t kMostValues = 240; // that a thread computes for an element of each
  KernelGraph parts = graph;
  if (request.like || !request.checked.sizes.empty() || parts.element_variables.size() != 1 ||
      !divide_into_parts(parts, kMostParts) || parts.element_variables.size() != 2)
    return std::nullopt;
  std::optional<Unrolled> unrolled = unroll(parts, 0, kMostValues);
  if (!unrolled)
    return std::nullopt;
  remove_dead_values(unrolled->graph);
  assign_phases(unrolled->graph);
  return plan_written(request, std::move(unrolled->graph), whole, "one of each part");
}

std::optional<KernelPlan> plan_rows_beside(const Request &request, const KernelGraph &graph,
                                           const RowWalk &alone, int64_t copies) {
  constexpr size_t kMostValues = 160; // that a thread computes for an element
  const auto size = graph.row_sizes.empty() ? std::nullopt : graph.row_sizes.back().as_integer();
  const auto rows = graph.rows().as_integer();
  if (request.like || !request.checked.sizes.empty() || !size || *size % copies != 0 || !rows ||
      *rows / copies * alone.threads <
          int64_t{request.target.multiprocessors} * request.target.max_threads_per_multiprocessor)
    return std::nullopt;
  const Expr row = graph.row_variables.back();
  const auto is_own = [&](const Value &value) {
    return value.level == Level::element && symbolic::depends_on(value.index, row);
  };
  if (std::any_of(graph.values.begin(), graph.values.end(), is_own))
    return std::nullopt;
  KernelGraph divided = graph;
  divide_row_loop(divided, divided.row_variables.size() - 1, copies);
  std::optional<KernelGraph> several =
      unroll_row_loop(divided, divided.row_variables.size() - 1, kMostValues);
  return several ? std::optional(
                       plan_written(request, *std::move(several), alone,
                                    std::to_string(copies) + " rows of the same elements a thread"))
                 : std::nullopt;
}

} // namespace tsc::codegen
