// Columns that are reduced and walked again (a softmax over channels), and that registers hold:
// short ones those of a thread, longer ones those of a block's threads. They are read once.
#include "codegen/plan.h"
#include "codegen/plan_steps.h"
#include "target/held_columns.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tsc::codegen {

using ir::Op;

namespace {

/// True of columns that are walked again after their sums are known, and whose loads a thread can
/// hold: all of them are under way at once, none is made twice.
bool has_held_columns(const ir::Module &module, const KernelGraph &graph) {
  constexpr int64_t kWidestStep = 1;
  const auto rows = graph.rows().as_integer(), elements = graph.elements().as_integer();
  if (graph.phases < 2 || !elements || *elements > target::kLongestHeldColumn ||
      (rows && *rows < target::kFewestHeldColumns) || graph.row_variables.empty() ||
      graph.element_variables.empty() || !prefers_columns(module, graph))
    return false;
  int64_t words = 0;
  bool walks_again = false;
  for (const Value &value : graph.values) {
    walks_again = walks_again || (value.op == Op::reduction && value.phase > 0);
    if (value.buffer == ir::kNone || value.level != Level::element)
      continue;
    const auto step = symbolic::coefficient_of(value.index, graph.row_variables.back());
    if (!step || !step->is_integer() || step->value() < 0 || step->value() > kWidestStep)
      return false;
    walks_again = walks_again || value.op == Op::store;
    if (value.op == Op::load)
      words += *elements * target::registers_of(tensor::size_in_bytes(value.dtype));
  }
  return walks_again && words <= target::kHeldColumnRegisters;
}

} // namespace

int64_t held_words(const KernelPlan &plan) {
  int64_t words = 0;
  for (ValueId id = 0; id < plan.graph.values.size(); ++id)
    if (plan.kept[id])
      words += plan.graph.elements().value() *
               target::registers_of(tensor::size_in_bytes(plan.graph[id].dtype));
  return words;
}

bool plan_held_columns(const Request &request, KernelPlan &plan) {
  if (request.like || !has_held_columns(request.module, plan.graph))
    return false;
  KernelPlan held = plan;
  plan_short_rows(request.module, request.group, held, true);
  if (held_words(held) > target::kKeptColumnRegisters)
    return false;
  plan = std::move(held);
  return true;
}

bool walks_again(const KernelPlan &plan) {
  return std::holds_alternative<ColumnWalk>(plan.walk) &&
         std::count_if(plan.phases.begin(), plan.phases.end(),
                       [](const PhasePlan &phase) { return !phase.empty(); }) > 1;
}

namespace {

/// Columns that registers hold: how many a block has, threads of each, and elements of a thread.
struct KeptShape {
  int columns = 0, threads = 0, steps = 0, resident = 0; // resident: blocks of a multiprocessor
};

/// `words`: registers that an element takes; `bytes`: that a thread loads of one, the narrowest;
/// `whole`: lines of columns start at sectors; `most`: elements of a thread. What is added for
/// lines, threads and steps is what seven kernels in up to 14 forms each took on an H200
/// (docs/kernels.md).
std::optional<KeptShape> choose_kept_shape(const target::Target &target, int64_t rows,
                                           int64_t elements, double words, int64_t bytes,
                                           bool whole, int most) {
  constexpr int kSector = 32, kHalfLine = 64, kLine = 128, kFewestThreads = 128,
                kMostThreads = 1024;
  constexpr int kFewSteps = 8, kManySteps = 32, kStepsInRegisters = 48;
  constexpr double kToCompute = 28, kMostOfThread = 255;
  constexpr double kOfSectors = .35, kOddSectors = .7, kOfHalfLines = .08, kOddHalfLines = .25,
                   kOddLines = .08;
  constexpr int kSmallBlock = 256;
  constexpr double kOfHalfBlocks = .03, kOfLargeBlocks = .1, kOfLargeNarrowBlocks = .3;
  constexpr double kOfFewSteps = .1, kOfManySteps = .02, kOfMostSteps = .3;
  constexpr double kBytesUnderWay = 24 << 10; // of a multiprocessor, that hide memory
  std::optional<KeptShape> best;
  double least = std::numeric_limits<double>::infinity();
  for (const int columns : {64, 32, 16, 8})
    for (int threads = 2; threads <= kMostThreads / columns; threads *= 2) {
      const int64_t line = columns * bytes, block = int64_t{columns} * threads,
                    steps = (elements + threads - 1) / threads;
      const double registers = kToCompute + words * static_cast<double>(steps);
      const auto resident = static_cast<int64_t>(
          std::min(target.max_threads_per_multiprocessor / static_cast<double>(block),
                   target.registers_per_multiprocessor / (registers * static_cast<double>(block))));
      if (line < kSector || (line > kLine && columns > 32) || block < kFewestThreads || steps < 2 ||
          steps > most || registers > kMostOfThread || resident < 1)
        continue;
      const bool is_narrow = bytes < 4;
      const double of_line = line < kHalfLine ? (whole ? kOfSectors : kOddSectors)
                             : line < kLine && !(is_narrow && whole)
                                 ? (whole ? kOfHalfLines : kOddHalfLines)
                             : whole ? 0
                                     : kOddLines;
      const double of_block = block <= kSmallBlock   ? 0
                              : block < kMostThreads ? kOfHalfBlocks
                              : is_narrow            ? kOfLargeNarrowBlocks
                                                     : kOfLargeBlocks;
      const double of_steps = steps < kFewSteps           ? kOfFewSteps
                              : steps > kStepsInRegisters ? kOfMostSteps
                              : steps > kManySteps        ? kOfManySteps
                                                          : 0;
      const double blocks = std::ceil(static_cast<double>(rows) / columns),
                   waves = blocks / static_cast<double>(resident * target.multiprocessors);
      const double last = waves > 1 ? std::ceil(waves) / waves // blocks come as others end
                          : blocks < target.multiprocessors ? target.multiprocessors / blocks
                                                            : 1;
      const double under_way = static_cast<double>(resident * block * steps * bytes);
      const double cost = static_cast<double>(steps * threads) / static_cast<double>(elements) *
                          (1 + of_line + of_block + of_steps) * (waves > 4 ? 1 : (1 + last) / 2) *
                          std::max(1.0, kBytesUnderWay / under_way);
      if (cost < least) {
        least = cost;
        best = KeptShape{columns, threads, static_cast<int>(steps), static_cast<int>(resident)};
      }
    }
  return best;
}

} // namespace

bool plan_kept_columns(const Request &request, KernelPlan &plan) {
  const ir::Module &module = request.module;
  const auto rows = likely(module, plan.graph.rows()),
             elements = plan.graph.elements().as_integer();
  if (request.like || !request.checked.sizes.empty() || request.target.is_host || !rows ||
      !elements || *elements <= target::kLongestHeldColumn || plan.graph.row_variables.empty() ||
      reads_once(plan.graph) || !prefers_columns(module, plan.graph))
    return false;
  if (has_few_neighbours(plan.graph))
    return false;
  KernelPlan kept;
  kept.checked = plan.checked;
  kept.graph = plan.graph;
  classify_accesses(module, kept, 1);
  load_apart(kept);
  kept.preloaded.assign(kept.graph.values.size(), false);
  int64_t narrowest = 16;
  for (const ValueId id : preload_candidates(kept)) {
    if (!varies_by_row(kept.graph, id))
      continue;
    kept.preloads.push_back(id);
    kept.preloaded[id] = true;
    narrowest = std::min(narrowest, static_cast<int64_t>(tensor::size_in_bytes(
                                        module.buffer(kept.graph[id].buffer).dtype)));
  }
  if (kept.preloads.empty())
    return false;
  fill_phases(module, kept, request.group, true);
  // Each has registers of its own; what was loaded is mostly of no more use once what is kept is
  // computed of it.
  double loaded = 0, computed = 0;
  for (const ValueId id : kept.preloads)
    loaded +=
        target::registers_of(tensor::size_in_bytes(module.buffer(kept.graph[id].buffer).dtype));
  for (ValueId id = 0; id < kept.graph.values.size(); ++id)
    if (kept.kept[id])
      computed += target::registers_of(tensor::size_in_bytes(kept.graph[id].dtype));
  const double words = std::max(loaded, computed) + std::min(loaded, computed) / 4;
  constexpr int64_t kSector = 32;
  const auto neighbours = plan.graph.row_sizes.back().as_integer();
  const bool whole = neighbours && *neighbours * narrowest % kSector == 0;
  constexpr int kMostSteps = 64;
  RowWalk walk;
  for (walk.steps = kMostSteps; walk.steps > 1 && is_long_text(kept, walk);)
    --walk.steps;
  const PlanChoice chosen = request.chosen();
  const std::optional<KeptShape> shape =
      chosen.rows != 0 && chosen.threads != 0
          ? std::optional(
                KeptShape{chosen.rows, chosen.threads,
                          static_cast<int>((*elements + chosen.threads - 1) / chosen.threads)})
          : choose_kept_shape(request.target, *rows, *elements, words, narrowest, whole,
                              walk.steps);
  if (!shape)
    return false;
  walk.columns = true;
  walk.rows = shape->columns;
  walk.threads = shape->threads;
  walk.steps = shape->steps;
  kept.resident = shape->resident;
  finish_rows(request, kept, walk);
  kept.has_barriers = true;
  kept.description = "column reduction, " + std::to_string(walk.threads) + " threads a column, " +
                     std::to_string(walk.rows) + " columns a block, columns kept in registers (" +
                     std::to_string(walk.steps) + " elements a thread)";
  plan = std::move(kept);
  return true;
}

} // namespace tsc::codegen
