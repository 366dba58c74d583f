// Rows that are reduced, or columns: where operands lie either way, what is estimated to be faster.
#include "codegen/plan.h"
#include "codegen/plan_steps.h"
#include "target/held_columns.h"

#include <algorithm>
#include <optional>

namespace tsc::codegen {

namespace {

constexpr double kLaunch = 1000; // nanoseconds in which any kernel begins and ends

/// The rows of a request that checks no sizes, planned with other numbers.
KernelPlan rows_with(Request request, const KernelGraph &graph, const PlanChoice &choice) {
  request.choice = &choice;
  KernelPlan plan;
  plan.graph = graph;
  plan_rows(request, plan);
  return plan;
}

/// Shorter runs where those of 16 bytes keep the lanes of what is not contiguous far apart: what a
/// stride of a window leaves out.
void shorten_row_runs(const Request &request, const KernelGraph &graph, KernelPlan &plan) {
  constexpr double kLeastGain = 0.8;
  const auto *walk = std::get_if<RowWalk>(&plan.walk);
  if (request.like || request.choice || !request.checked.sizes.empty() || !walk || graph.look_back)
    return;
  const bool stores = // whose runs are worth their length
      std::any_of(graph.stores.begin(), graph.stores.end(),
                  [&](ValueId id) { return graph[id].level == Level::element; });
  if (stores)
    return;
  const int longest = walk->vector;
  double least = kLeastGain * planned_time(request, plan);
  for (int vector = longest / 2; vector >= 1; vector /= 2) {
    KernelPlan other = rows_with(request, graph, {.vector = vector});
    if (const double time = planned_time(request, other); time < least) {
      least = time;
      plan = std::move(other);
    }
  }
}

/// More threads a row that is kept, up to a warp, where few threads' single elements are parts of
/// many lines.
void share_rows_more(const Request &request, const KernelGraph &graph, KernelPlan &plan) {
  constexpr double kLeastGain = 0.85, kMostIdle = 1.5;
  constexpr int kWarp = 32;
  const auto *walk = std::get_if<RowWalk>(&plan.walk);
  if (request.like || request.choice || !request.checked.sizes.empty() || !walk || graph.sorts() ||
      graph.look_back || walk->steps <= 1 || walk->columns)
    return;
  const auto elements = static_cast<double>(longest_row(graph).value_or(0));
  double least = kLeastGain * (kLaunch + planned_time(request, plan));
  for (int threads = walk->threads * 2; threads <= kWarp; threads *= 2) {
    KernelPlan other = rows_with(request, graph, {.threads = threads});
    const auto *shared = std::get_if<RowWalk>(&other.walk);
    if (!shared || shared->steps == 0 ||
        shared->threads * shared->steps * shared->vector > kMostIdle * elements)
      continue;
    // Of equal ones that with more threads: its accesses are fewer.
    if (const double time = kLaunch + planned_time(request, other); time <= least) {
      least = time;
      plan = std::move(other);
    }
  }
}

/// A thread a row, of many short ones: wherever their elements lie. What is walked over again it
/// holds.
std::optional<KernelPlan> plan_rows_alone(const Request &request, const KernelGraph &graph) {
  constexpr int64_t kLongest = 64, kFewest = 8192, kLongestHeld = 16;
  const auto rows = graph.rows().as_integer(), elements = graph.elements().as_integer();
  if (request.like || request.choice || !request.checked.sizes.empty() || !rows || !elements ||
      *rows < kFewest || *elements > kLongest || graph.row_variables.empty() ||
      graph.element_variables.empty() || graph.look_back)
    return std::nullopt;
  KernelPlan plan;
  plan.graph = request.given ? graph : build_kernel_graph(request.module, request.group, {});
  const bool holds = !reads_once(plan.graph);
  if (holds)
    plan.graph = graph;
  plan_short_rows(request.module, request.group, plan, holds);
  return !holds || (*elements <= kLongestHeld && held_words(plan) <= target::kHeldColumnRegisters)
             ? std::optional(std::move(plan))
             : std::nullopt;
}

/// Of the accesses to elements some are neighbours along rows, others along elements.
bool lies_either_way(const KernelGraph &graph) {
  if (graph.row_variables.empty() || graph.element_variables.empty())
    return false;
  const auto any_along = [&](Expr variable) {
    return std::any_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
      const auto step = symbolic::coefficient_of(value.index, variable);
      return value.buffer != ir::kNone && value.level == Level::element && step &&
             step->is_integer(1);
    });
  };
  return any_along(graph.row_variables.back()) && any_along(graph.element_variables.back());
}

} // namespace

void plan_rows_in_order(const Request &request, KernelPlan &plan) {
  const KernelGraph graph = plan.graph;
  plan_rows(request, plan);
  share_rows_more(request, graph, plan);
}

void plan_rows_or_columns(const Request &request, KernelPlan &plan, bool columns) {
  constexpr double kLeastGain = 0.8;
  // A warp has so many columns times four or eight of their elements: sectors of operands that lie
  // along either.
  constexpr int kFewColumns[] = {16, 8};
  int block_columns = 0;
  const KernelGraph graph = plan.graph;
  const auto made = [&](const Request &wanted, bool by_columns, int count = 0) {
    KernelPlan result;
    result.checked = plan.checked;
    result.graph = graph;
    if (by_columns && !wanted.given)
      result.graph = build_kernel_graph(wanted.module, wanted.group, {});
    if (by_columns) {
      plan_columns(wanted, result, count);
    } else {
      plan_rows(wanted, result);
      shorten_row_runs(wanted, graph, result);
      share_rows_more(wanted, graph, result);
    }
    return result;
  };
  if (!request.like && lies_either_way(graph)) {
    Request without_choice = request;
    without_choice.choice = nullptr;
    double least = planned_time(request, made(without_choice, columns));
    const auto other = planned_time(request, made(without_choice, !columns));
    if (other > 0 && other < kLeastGain * least) {
      least = other;
      columns = !columns;
    }
    // Which of several small kernels, nothing says: they begin and end.
    const auto is_faster = [&](double time) {
      return time > 0 && kLaunch + time < kLeastGain * (kLaunch + least);
    };
    double shortest = least;
    int few = 0;
    for (const int count : kFewColumns)
      if (const double time = planned_time(request, made(without_choice, true, count));
          time > 0 && time < shortest) {
        shortest = time;
        few = count;
      }
    if (is_faster(shortest)) {
      least = shortest;
      columns = true;
      block_columns = few;
    }
    KernelPlan wide;
    wide.graph = request.given ? graph : build_kernel_graph(request.module, request.group, {});
    if (request.checked.sizes.empty() &&
        plan_wide_columns(request.module, request.group, wide, request.target, request.choice,
                          true) &&
        is_faster(planned_time(request, wide))) {
      plan = std::move(wide);
      return;
    }
  }
  plan = made(request, columns, block_columns);
  if (std::optional<KernelPlan> alone = plan_rows_alone(request, graph);
      alone && kLaunch + planned_time(request, *alone) <
                   kLeastGain * (kLaunch + planned_time(request, plan)))
    plan = *std::move(alone);
}

} // namespace tsc::codegen
