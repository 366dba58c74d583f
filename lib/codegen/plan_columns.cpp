// Columns whose elements several threads of a block share, neighbouring threads having neighbouring
// columns.
#include "codegen/plan.h"
#include "codegen/plan_steps.h"

#include <algorithm>

namespace tsc::codegen {

using ir::Op;

namespace {

constexpr int kMixedColumns = 16;   // of a block: a sector of 16-bit elements
constexpr int kFewMixedColumns = 8; // one of 32 bits, and as much of what lies along them

/// Nanoseconds that the multiprocessor with the most of `blocks` works on them, `at_once` at a
/// time, of which each brings `bytes`, `in_flight` of them under way; memory brings all of them no
/// faster than it can.
double time_of_blocks(const target::Target &target, int64_t blocks, int at_once, double bytes,
                      double in_flight) {
  constexpr double kLatency = 800, kStart = 1000; // nanoseconds
  constexpr double kMostShares = 3; // of memory's bandwidth, that one multiprocessor may have
  const double share = target.bandwidth * 1e-9 / target.multiprocessors;
  const auto round_of = [&](int64_t count) {
    const auto together = static_cast<double>(count);
    return kStart +
           together * bytes / std::min(together * in_flight / kLatency, kMostShares * share);
  };
  const int64_t most = blocks / target.multiprocessors + (blocks % target.multiprocessors != 0);
  const int64_t left_over = most % at_once;
  const double time = static_cast<double>(most / at_once) * round_of(at_once) +
                      (left_over > 0 ? round_of(left_over) : 0);
  return std::max(time, static_cast<double>(blocks) * bytes / (target.bandwidth * 1e-9));
}

/// Whether lines of memory that a block's columns take do not start at sectors: those at the edges
/// are brought for the neighbouring block, too, which should have them soon.
bool has_ragged_lines(const ir::Module &module, const KernelGraph &graph) {
  constexpr int64_t kSector = 32;
  return std::any_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
    if (value.op != Op::load || value.level != Level::element || graph.element_variables.empty() ||
        graph.row_variables.empty() ||
        !symbolic::depends_on(value.index, graph.row_variables.back())) // one line, of all columns
      return false;
    const auto step = symbolic::coefficient_of(value.index, graph.element_variables.back());
    return step && step->is_integer() &&
           step->value() *
                   static_cast<int64_t>(tensor::size_in_bytes(module.buffer(value.buffer).dtype)) %
                   kSector !=
               0;
  });
}

/// Columns of elements that fill a lane's word, walked once: as few threads a column as keep enough
/// on its way, half of what the machine holds; more of them come in a second round, and merge. 0:
/// of other columns. (H200, threads a column, us: 198 x 91,245 floats 2 28.7, 4 30.1, 8 32.0; 197 x
/// 40,212 2 19.7, 4 16.0, 8 17.3; 72 x 145,634 1 19.3, 2 20.6, 4 20.9; 1003 x 20,000 4 38.1,
/// 8 30.1, 16 31.8; 516 x 65,536 1 60.7, 2 45.8, 4 50.3, 8 46.5. Of 16 bits 512 x 69,675 4 47,
/// 16 40.) Statistics wait for what they last came to, as often as a thread has elements, so more
/// threads are wanted (131,072 of them or twice that: 1,048,576 x 64 floats 93.8 and 77.8, 8192 x
/// 2048 35.5 and 29.2; 200,000 or twice that, two rounds: 300 x 50000 24.8 and 27.5).
int threads_that_suffice(const target::Target &target, const KernelGraph &graph, int64_t rows,
                         int64_t elements, double bytes) {
  constexpr double kShare = 0.47, kShareOfStatistics = 0.6, kWord = 4;
  constexpr int kMost = 32, kLeastElements = 4, kMostLoads = 3;
  const bool again = // or stored
      std::any_of(graph.values.begin(), graph.values.end(), [](const Value &value) {
        return value.level == Level::element &&
               (value.op == Op::store || (value.op == Op::load && value.phase > 0));
      });
  // Neighbours of windows come from a cache, and many sums have other limits.
  const auto loads = std::count_if(graph.values.begin(), graph.values.end(), [](const Value &v) {
    return v.op == Op::load && v.level == Level::element;
  });
  if (bytes < kWord || loads > kMostLoads || again || target.is_host)
    return 0;
  const bool is_statistics =
      std::any_of(graph.values.begin(), graph.values.end(), [](const Value &value) {
        return value.op == Op::reduction && value.reduction == ir::ReductionKind::welford_reduce;
      });
  const double wanted = (is_statistics ? kShareOfStatistics : kShare) * target.multiprocessors *
                        target.max_threads_per_multiprocessor;
  int threads = 1;
  while (threads < kMost && static_cast<double>(rows) * threads < wanted &&
         elements >= kLeastElements * threads)
    threads *= 2;
  return threads;
}

/// Threads a column, each of which has some elements: so many that blocks fill the machine, and
/// that few of them are left over for a last round. `may_widen`: the block may have more columns.
void choose_column_threads(const Request &request, const KernelPlan &plan, ColumnWalk &walk,
                           bool may_widen) {
  constexpr int kLeastElements = 4;
  const int few = walk.columns < kMixedColumns ? kColumnsPerBlock / walk.columns : 1;
  // 4096 x 4095 floats: 8 threads a column 483 us, 16 458, 32 430 (H100).
  constexpr int64_t kManyElements = 1024;
  const bool ragged = plan.graph.elements().as_integer().value_or(0) >= kManyElements &&
                      has_ragged_lines(request.module, plan.graph);
  // Short columns that are many: fewer threads have more of each before they merge. (Maxima and
  // their places of 145,634 columns of 72 floats: 8 threads 28.8 us, 4 22.6; 100 to 200 floats
  // up to 0.95 of the time, 300 and more longer; H200.)
  constexpr int64_t kShortColumn = 256, kThreadsOfMultiprocessor = 1024;
  const auto known_rows = plan.graph.rows().as_integer(),
             known_elements = plan.graph.elements().as_integer();
  const bool short_columns =
      may_widen && walk.columns == kColumnsPerBlock && known_rows && known_elements &&
      *known_elements < kShortColumn && !request.target.is_host &&
      *known_rows * 4 >= kThreadsOfMultiprocessor * request.target.multiprocessors;
  if (short_columns)
    walk.columns *= 2;
  const int most = short_columns ? 8 : 32 * few;
  const int fewest = ragged ? most : short_columns ? 4 : 8 * few;
  constexpr double kRegisters = 20, kMerge = 20; // of a thread; nanoseconds a thread of a column
  const auto &[module, group, target, given, checked, like, choice] = request;
  const KernelGraph &graph = plan.graph;
  const auto rows = likely(module, graph.rows()), elements = likely_row(module, graph);
  double bytes = 0, words = 0; // of an element; of what a thread adds up
  for (const Value &value : graph.values)
    if (value.op == Op::load && value.level == Level::element)
      bytes += static_cast<double>(tensor::size_in_bytes(module.buffer(value.buffer).dtype));
    else if (value.op == Op::reduction)
      words += ir::tuple_size(value.reduction) +
               static_cast<double>(tensor::size_in_bytes(value.dtype)) / 4;
  if (may_widen && walk.columns >= kColumnsPerBlock && !ragged && rows && elements)
    if (const int threads = threads_that_suffice(target, graph, *rows, *elements, bytes)) {
      constexpr int kSmallest = 128, kWidest = 64; // threads of a block; columns
      walk.threads = threads;
      walk.columns =
          threads == 1 ? kSmallest : std::clamp(kSmallest / threads, kColumnsPerBlock, kWidest);
      return;
    }
  double best = 0;
  for (int threads = fewest; threads <= most; threads *= 2) {
    if (threads > fewest && elements && *elements < int64_t{kLeastElements} * threads / 2)
      break;
    const int block = walk.columns * threads;
    const double ahead = runs_ahead(module, plan, 1, 1, threads) * bytes;
    const double registers = kRegisters + words + std::max(1.0, ahead / 4);
    const int at_once = std::max(
        1, std::min(target.max_threads_per_multiprocessor / block,
                    static_cast<int>(target.registers_per_multiprocessor / registers) / block));
    const int64_t blocks = rows ? *rows / walk.columns + (*rows % walk.columns != 0) : 1;
    const double time =
        time_of_blocks(target, blocks, at_once,
                       static_cast<double>(elements.value_or(1 << 16)) * bytes * walk.columns,
                       ahead * block) +
        kMerge * threads;
    if (best == 0 || time < best) {
      best = time;
      walk.threads = threads;
    }
  }
}

} // namespace

bool has_few_neighbours(const KernelGraph &graph) {
  constexpr int64_t kWarp = 32;
  const auto neighbours =
      graph.row_sizes.empty() ? std::nullopt : graph.row_sizes.back().as_integer();
  return neighbours && *neighbours < kWarp;
}

bool prefers_columns(const ir::Module &module, const KernelGraph &graph) {
  if (graph.row_variables.empty() || graph.element_variables.empty())
    return false;
  // What is the same along a loop is read once from memory, then from a cache.
  constexpr int64_t kManyOfAnyNumber = 4096;
  const auto count_of = [&](Expr index, std::span<const Expr> variables,
                            std::span<const Expr> sizes) {
    double count = 1;
    for (size_t i = 0; i < variables.size(); ++i)
      if (symbolic::depends_on(index, variables[i]))
        count *= static_cast<double>(likely(module, sizes[i]).value_or(kManyOfAnyNumber));
    return count;
  };
  double along_rows = 0, along_elements = 0;
  for (const Value &value : graph.values) {
    if (value.buffer == ir::kNone || value.level != Level::element)
      continue;
    const double bytes =
        static_cast<double>(tensor::size_in_bytes(module.buffer(value.buffer).dtype)) *
        count_of(value.index, graph.row_variables, graph.row_sizes) *
        count_of(value.index, graph.element_variables, graph.element_sizes);
    const auto row = symbolic::coefficient_of(value.index, graph.row_variables.back());
    const auto element = symbolic::coefficient_of(value.index, graph.element_variables.back());
    along_rows += row && row->is_integer(1) ? bytes : 0;
    along_elements += element && element->is_integer(1) ? bytes : 0;
  }
  // Of operands that lie either way, a block of columns has whole sectors of both: what one of its
  // threads leaves of a sector those at the next elements take.
  constexpr double kAsMany = 0.8; // but for what a row or a column has of statistics
  const bool mixed = along_rows > 0 && along_rows >= kAsMany * along_elements && graph.reduces &&
                     std::none_of(graph.values.begin(), graph.values.end(), [](const Value &value) {
                       return value.op == Op::scan || value.op == Op::sort ||
                              (value.op == Op::store && value.level == Level::element);
                     });
  return along_rows > along_elements || mixed;
}

void plan_columns(const Request &request, KernelPlan &plan, int columns) {
  const ir::Module &module = request.module;
  ColumnWalk walk;
  // Some operands lie along the column.
  const auto is_mixed = [&](size_t widest) {
    return std::any_of(plan.graph.values.begin(), plan.graph.values.end(), [&](const Value &value) {
      const auto step = symbolic::coefficient_of(value.index, plan.graph.element_variables.back());
      return value.op == Op::load && value.level == Level::element && step && step->is_integer(1) &&
             !plan.graph.row_variables.empty() &&
             symbolic::depends_on(value.index, plan.graph.row_variables.back()) &&
             tensor::size_in_bytes(module.buffer(value.buffer).dtype) <= widest;
    });
  };
  const bool is_known = plan.graph.rows().is_integer() && plan.graph.elements().is_integer();
  if (columns > 0)
    walk.columns = columns;
  else if (request.chosen().columns != 0)
    walk.columns = request.chosen().columns;
  else if (!is_known && is_mixed(sizeof(double))) // nobody estimates what they take
    walk.columns = kFewMixedColumns;
  else
    walk.columns = is_mixed(sizeof(float) - 1) ? kMixedColumns : kColumnsPerBlock;
  classify_accesses(module, plan, 1);
  load_apart(plan);
  plan.preloaded.assign(plan.graph.values.size(), false);
  fill_phases(module, plan, request.group, false);
  choose_column_threads(request, plan, walk, columns == 0 && request.chosen().columns == 0);
  if (request.chosen().threads != 0)
    walk.threads = request.chosen().threads;
  walk.ahead = runs_ahead(module, plan, 1, 1, walk.threads);
  walk.guard_row = !symbolic::known_multiple_of(plan.graph.rows(), walk.columns, plan.graph.ranges);
  plan.grid = symbolic::ceil_div(plan.graph.rows(), walk.columns);
  plan.block = walk.block();
  plan.walk = walk;
  plan.has_barriers = true;
  plan.description = "column reduction, " + std::to_string(walk.threads) + " threads a column, " +
                     std::to_string(walk.columns) + " columns a block, " +
                     walks_text(plan, "column");
}

void plan_short_rows(const ir::Module &module, const scheduler::Group &group, KernelPlan &plan,
                     bool hold) {
  constexpr int kBlock = 256;
  ColumnWalk walk;
  walk.columns = kBlock;
  walk.threads = 1;
  classify_accesses(module, plan, 1);
  plan.preloaded.assign(plan.graph.values.size(), false);
  fill_phases(module, plan, group, hold);
  walk.guard_row = !symbolic::known_multiple_of(plan.graph.rows(), walk.columns, plan.graph.ranges);
  plan.grid = symbolic::ceil_div(plan.graph.rows(), walk.columns);
  plan.block = walk.block();
  plan.walk = walk;
  plan.description = hold ? "short columns, a thread a column, which it holds"
                          : "short rows, a thread a row, " + walks_text(plan, "row");
}

} // namespace tsc::codegen
