// The GPU's plans of rows that neighbouring threads share: kept on the chip, or read again.
#include "codegen/estimate_kernel.h"
#include "codegen/plan.h"
#include "codegen/plan_steps.h"

#include "support/diagnostic.h"

#include <algorithm>
#include <cmath>

namespace tsc::codegen {

namespace {

using ir::Op;

constexpr int kWarpsRowBlock = 128; // the least threads of a block whose rows are whole warps
constexpr int kRunsInFlight = 4;    // runs a thread loads before the first use
constexpr int kLargestLoopedRow = 512;
constexpr int kFewestNarrow = 4;    // threads of a row of single elements
constexpr int kManyRows = 16;       // a multiprocessor
constexpr int kManyColumns = 64;    // a multiprocessor, that are scanned
constexpr int kSortedElements = 16; // of a row, that a thread sorts
constexpr int kComparedAlone = 4;   // of a row: packing them takes longer than comparing
constexpr int kOrderedAlone = 8;    // of a row that a thread sorts or scans, if that is all it has
/// Threads a multiprocessor that hide what blocks wait for each other, if what they keep of their
/// parts leaves the registers for so many.
constexpr int kThreadsWhileWaiting = 1024;
constexpr double kRegistersWhileWaiting = 64; // what is loaded and then scanned counts twice

} // namespace

bool varies_by_row(const KernelGraph &graph, ValueId id) {
  return !graph.reduces || graph.row_variables.empty() ||
         std::any_of(graph.row_variables.begin(), graph.row_variables.end(), [&](Expr variable) {
           return symbolic::depends_on(graph[id].index, variable);
         });
}

namespace {

/// Inputs that cannot stay in the L2 cache, of a kernel that writes next to nothing, are marked as
/// read once: what the cache holds survives. Far larger ones gain nothing (measured: 134 MB 8%
/// faster, 537 MB 4% slower).
void stream_loads(const ir::Module &module, KernelPlan &plan, const target::Target &target) {
  constexpr double kMostCaches = 5;
  double bytes = 0;
  for (const Value &value : plan.graph.values)
    if (value.op == Op::store && value.level == Level::element)
      return;
  for (const ValueId id : plan.preloads) {
    const auto size = module.buffer(plan.graph[id].buffer).layout.storage_size().as_integer();
    bytes += static_cast<double>(size.value_or(0)) *
             static_cast<double>(tensor::size_in_bytes(module.buffer(plan.graph[id].buffer).dtype));
  }
  if (bytes <= target.l2_bytes || bytes > target.l2_bytes * kMostCaches)
    return;
  for (const ValueId id : plan.preloads)
    plan.streamed[id] = true;
}

/// A row that does not fit on the chip is read once a walk.
void mark_walked_again(KernelPlan &plan) {
  const auto reads = [&](const PhasePlan &phase, ValueId id) {
    return std::find(phase.run_values.begin(), phase.run_values.end(), id) !=
           phase.run_values.end();
  };
  for (auto phase = plan.phases.begin(); phase != plan.phases.end(); ++phase) {
    const auto in_phase = [&](ValueId id) {
      return [&reads, id](const PhasePlan &other) { return reads(other, id); };
    };
    for (const ValueId id : phase->run_values) {
      const Value &value = plan.graph[id];
      if (value.op != Op::load || plan.access[id] != Access::vector ||
          !varies_by_row(plan.graph, id))
        continue;
      if (std::any_of(phase + 1, plan.phases.end(), in_phase(id)))
        phase->read_again.push_back(id);
      else if (std::any_of(plan.phases.begin(), phase, in_phase(id)))
        phase->read_last.push_back(id);
    }
  }
}

/// Threads a row, `fewest` at least, and runs a thread, for a row of `runs` runs: no idle threads
/// first, then about `wanted` runs each. Rows of a few runs have two threads, and neighbouring rows
/// are what a warp reads; rows of one run have `least`.
void choose_row_threads(RowWalk &walk, int64_t runs, int wanted, int most,
                        int fewest = kFewestRowThreads, int least = 2) {
  double best = 1e30;
  while (fewest > (runs == 1 ? least : 2) && fewest > runs / 2)
    fewest /= 2;
  for (int threads = fewest; threads <= 1024; threads *= 2) {
    const int64_t steps = (runs + threads - 1) / threads;
    if (steps > most)
      continue;
    const double idle = static_cast<double>(steps * threads - runs) / static_cast<double>(runs);
    const double distance = std::fabs(std::log2(static_cast<double>(steps) / wanted));
    const double cost = std::floor(idle * 10) * 2 + distance + (threads > 512 ? 1.5 : 0);
    if (cost < best) {
      best = cost;
      walk.threads = threads;
      walk.steps = static_cast<int>(steps);
    }
  }
}

/// Threads of a row that is walked over in a loop: a block of enough of them to hide memory, none
/// of them idle for long.
void choose_looped_threads(RowWalk &walk, int64_t runs) {
  constexpr int kLeast = 128;
  double best = 1e30;
  for (int threads = kLeast; threads <= kLargestLoopedRow; threads *= 2) {
    const int64_t steps = (runs + threads - 1) / threads;
    const double idle = static_cast<double>(steps * threads - runs) / static_cast<double>(runs);
    if (const double cost = idle + (threads == kLeast ? 0.1 : 0); cost < best) {
      best = cost;
      walk.threads = threads;
    }
  }
}

/// Whether short rows are stored that start within sectors: pieces of them that few threads store
/// at once share sectors with others'.
bool starts_in_sectors(const ir::Module &module, const KernelPlan &plan, int64_t runs) {
  constexpr int64_t kSector = 32, kMostRuns = 64;
  if (plan.graph.row_variables.empty() || plan.origin || runs > kMostRuns)
    return false;
  return std::any_of(plan.graph.values.begin(), plan.graph.values.end(), [&](const Value &value) {
    const auto id = static_cast<ValueId>(&value - plan.graph.values.data());
    if (value.op != Op::store || value.level != Level::element || plan.access[id] != Access::vector)
      return false;
    const auto step = symbolic::coefficient_of(value.index, plan.graph.row_variables.back());
    return step && step->is_integer() && step->value() != 0 &&
           step->value() *
                   static_cast<int64_t>(tensor::size_in_bytes(module.buffer(value.buffer).dtype)) %
                   kSector !=
               0;
  });
}

/// The same for a row that is kept: a thread of single elements wants more of them under way, which
/// fewer threads have, as long as those of a row load 16 bytes at once.
void choose_kept_rows(const ir::Module &module, const target::Target &target,
                      const KernelPlan &plan, RowWalk &walk, int64_t runs, int most) {
  constexpr int kNarrow = 4, kLeastBytes = 16;
  int bytes = 0;
  for (const Value &value : plan.graph.values)
    if (value.op == Op::load && value.level == Level::element)
      bytes = std::max(bytes, walk.vector * static_cast<int>(tensor::size_in_bytes(
                                                module.buffer(value.buffer).dtype)));
  const bool narrow = bytes > 0 && bytes <= kNarrow;
  // Rows that leave multiprocessors idle take as long as one thread does, not as all of them: what
  // parts of long rows gave, say.
  constexpr int kShortest = 2, kMostOfFew = 512;
  if (const auto rows = plan.graph.rows().as_integer();
      rows && *rows <= target.multiprocessors && runs > kFewestRowThreads) {
    walk.threads = kFewestRowThreads;
    while (walk.threads < kMostOfFew && runs > int64_t{walk.threads} * kShortest)
      walk.threads *= 2;
    walk.steps = static_cast<int>((runs + walk.threads - 1) / walk.threads);
    if (walk.steps <= most)
      return;
  }
  // Rows of 52 floats: 4 threads 24.5 us, 8 or 16 21.9; of 212 floats 32 are 10% faster than 16.
  const int steps = starts_in_sectors(module, plan, runs) ? kRunsInFlight / 2 : kRunsInFlight;
  choose_row_threads(walk, runs, std::min((narrow ? 2 : 1) * steps, most), most,
                     narrow ? std::clamp(kLeastBytes / bytes, kFewestNarrow, kFewestRowThreads)
                            : kFewestRowThreads,
                     1);
}

/// Registers of a thread that may hold its part of a row: a block's threads share 65536, and each
/// computes with some.
double registers_for_row(int threads) {
  constexpr double kAll = 65536, kToCompute = 24;
  return std::min<double>(kRegistersForRow, kAll / threads - kToCompute);
}

/// Threads of a row of any length that is likely to have so many runs.
int threads_for(int64_t runs) {
  int threads = kFewestRowThreads;
  while (threads < kLargestLoopedRow && runs > int64_t{threads} * kRunsInFlight)
    threads *= 2;
  return threads;
}

/// Shared memory that the rows of a block take while they are sorted (tc_sort.h, tc_sort_packed.h).
int bytes_to_sort(const KernelGraph &graph, const RowWalk &walk) {
  int bytes = 0;
  const int elements = walk.threads * walk.steps * walk.vector;
  const int pitch = elements + elements / 32 + 1;
  if (walk.packed)
    return walk.threads == 1 ? 0 : static_cast<int>(sizeof(uint32_t)) * walk.rows * pitch;
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    if (graph[id].op != Op::sort)
      continue;
    // f16 and bf16 are floats here
    const int value = std::max<int>(static_cast<int>(tensor::size_in_bytes(graph[id].dtype)),
                                    tensor::is_floating(graph[id].dtype) ? 4 : 1);
    const int values = (value * walk.rows * pitch + 1) / 2 * 2;
    bytes = std::max(bytes, values + (graph.finds_positions(id) ? 2 * walk.rows * pitch : 0));
  }
  return bytes;
}

KernelGraph looped_graph(const Request &request) {
  const GraphOptions options = {.two_pass_statistics = false, .scans_end_phases = false};
  KernelGraph graph =
      request.given ? *request.given : build_kernel_graph(request.module, request.group, options);
  graph.scans_end_phases = false;
  assign_phases(graph);
  return graph;
}
/// Loads of a kept row that its first walk does not need, from memory that the kernel does not
/// change.
std::vector<ValueId> late_loads(const ir::Module &module, const KernelPlan &plan) {
  const KernelGraph &graph = plan.graph;
  std::vector<bool> needed(graph.values.size(), false);
  for (ValueId id = static_cast<ValueId>(graph.values.size()); id-- > 0;) {
    const Value &value = graph[id];
    if (!needed[id] && (value.op != Op::reduction || value.phase != 0))
      continue;
    for (const ValueId arg : value.args)
      needed[arg] = true;
    if (value.guard != ir::kNone)
      needed[value.guard] = true;
  }
  const auto is_changed = [&](ValueId load) {
    return std::any_of(graph.stores.begin(), graph.stores.end(), [&](ValueId store) {
      return module.storage_of(graph[store].buffer) == module.storage_of(graph[load].buffer);
    });
  };
  std::vector<ValueId> late;
  for (const ValueId id : plan.preloads)
    if (!needed[id] && !is_changed(id))
      late.push_back(id);
  return late;
}
/// Where a multiprocessor has registers for one block, between whose walks it waits, but for two
/// that do not hold what the first walk leaves alone: that is loaded when it is needed, while the
/// other block computes.
void load_late(const ir::Module &module, KernelPlan &plan, const RowWalk &walk,
               const scheduler::Group &group) {
  constexpr double kAll = 65536, kToCompute = 24;
  const auto blocks = [&](double registers) {
    return std::floor(kAll / (walk.threads * (registers * walk.vector * walk.steps + kToCompute)));
  };
  const std::vector<ValueId> late = late_loads(module, plan);
  const double all = registers_per_element(module, plan);
  double of_late = 0;
  for (const ValueId id : late)
    of_late +=
        static_cast<double>(tensor::size_in_bytes(module.buffer(plan.graph[id].buffer).dtype)) /
        sizeof(float);
  if (late.empty() || blocks(all) >= 2 || blocks(all - of_late) < 2)
    return;
  for (const ValueId id : late) {
    plan.preloaded[id] = false;
    std::erase(plan.preloads, id);
  }
  fill_phases(module, plan, group, true);
  plan.resident = 2;
}
/// Instructions of a thread for one element of a row.
double instructions_of_element(const KernelGraph &graph) {
  double count = 0;
  for (const Value &value : graph.values)
    if (value.level == Level::element || value.op == Op::reduction)
      count += instructions_of(graph, value);
  return count;
}
} // namespace

bool is_long_text(const KernelPlan &plan, const RowWalk &walk) {
  constexpr double kMostInstructions = 1500;
  return instructions_of_element(plan.graph) * walk.vector * walk.steps > kMostInstructions;
}

namespace {

/// Threads that stay at their places in a row's pieces need no division to find their elements,
/// which takes longer than the elements themselves: as many pieces at a time as the threads hold,
/// if few of them are left over. Runs ahead are such that they divide the pieces, if any do.
void choose_pieces(KernelPlan &plan, RowWalk &walk) {
  constexpr double kLeastBusy = 0.8;
  const KernelGraph &graph = plan.graph;
  const auto piece = graph.element_sizes.back().as_integer();
  const bool finds_positions =
      std::any_of(graph.values.begin(), graph.values.end(), [](const Value &value) {
        return value.op == Op::reduction && (value.reduction == ir::ReductionKind::argmax ||
                                             value.reduction == ir::ReductionKind::argmin);
      });
  if (!piece || *piece % walk.vector != 0 || walk.ahead < 2 || finds_positions)
    return;
  const int runs = static_cast<int>(*piece / walk.vector), pieces = walk.threads / runs;
  if (runs < 2 || pieces * runs < kLeastBusy * walk.threads)
    return;
  walk.pieces = pieces;
  const Expr all = symbolic::numel(
      std::span<const Expr>(graph.element_sizes).first(graph.element_sizes.size() - 1));
  for (int ahead = walk.ahead + 1; ahead * 2 > walk.ahead; --ahead)
    if (symbolic::known_multiple_of(all, int64_t{pieces} * ahead, graph.ranges)) {
      walk.ahead = ahead;
      return;
    }
}

/// Sums of exponentials among the single-pass statistics, and none that a thread had better not
/// have in one pass: Welford's step divides.
bool sums_exponentials(const KernelGraph &graph) {
  const auto has = [&](ir::ReductionKind kind) {
    return std::any_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
      return value.op == Op::reduction && value.reduction == kind;
    });
  };
  return has(ir::ReductionKind::online_softmax_reduce) && !has(ir::ReductionKind::welford_reduce);
}

/// True if a block's row leaves no registers for a second block, which would load while the first
/// one computes. Where it computes little, the row alone may fill half of them. (8192 x 4096 floats
/// rounded to 8 bits and back, in parts: kept 59 us, walked 49; sums of squares and rows of 32,000
/// exponentials of 16 bits take 1.04 and 1.1 times as long walked, H200.)
bool fills_multiprocessor(const ir::Module &module, const KernelPlan &plan, const RowWalk &walk) {
  constexpr double kMostRegisters = 32768, kToCompute = 24, kMuch = 12; // instructions an element
  const bool computes =
      instructions_of_element(plan.graph) > kMuch && !sums_exponentials(plan.graph);
  return (registers_per_element(module, plan) * walk.vector * walk.steps +
          (computes ? kToCompute : 0)) *
             walk.threads >
         kMostRegisters;
}

/// What takes the elements of a run together.
void choose_by_run(KernelPlan &plan, const RowWalk &walk) {
  plan.by_run.assign(plan.graph.values.size(), false);
  for (ValueId id = 0; walk.vector > 1 && id < plan.graph.values.size(); ++id)
    plan.by_run[id] = plan.graph.is_reduction(id) && plan.graph[id].args.size() == 1 &&
                      (plan.graph[id].reduction == ir::ReductionKind::online_softmax_reduce ||
                       plan.graph[id].reduction == ir::ReductionKind::welford_reduce);
}

/// Steps of kept runs that the end of a row does not fall into, wherever it starts.
void find_whole_steps(const KernelPlan &plan, RowWalk &walk) {
  const int64_t shortest = symbolic::bounds(plan.graph.elements(), plan.graph.ranges).low;
  if (walk.steps == 0 || !walk.guard_run || walk.order != RunOrder::interleaved)
    return;
  walk.whole_steps = static_cast<int>(
      std::min<int64_t>(walk.steps, std::max<int64_t>(0, shortest) / walk.vector / walk.threads));
}

/// Neighbouring rows whose pieces are neighbours in memory, each shorter than a few sectors (a sum
/// over the first and the last of three loops): rows of a block that together read whole lines.
/// Blocks of one row each would ask for most sectors twice, at different times. 0: there are none.
int rows_of_pieces(const ir::Module &module, const KernelGraph &graph,
                   const target::Target &target) {
  constexpr int64_t kLongestPiece = 256, kMostRows = 32, kManyOfMore = 16;
  if (graph.element_variables.size() < 2 || graph.row_variables.empty())
    return 0;
  const auto piece = graph.element_sizes.back().as_integer(),
             neighbours = graph.row_sizes.back().as_integer(), rows = graph.rows().as_integer();
  if (!piece || !neighbours || !rows || *neighbours < 2)
    return 0;
  for (const Value &value : graph.values) {
    if (value.op != Op::load || value.level != Level::element)
      continue;
    const auto step = symbolic::coefficient_of(value.index, graph.element_variables.back()),
               row_step = symbolic::coefficient_of(value.index, graph.row_variables.back());
    const auto bytes =
        static_cast<int64_t>(tensor::size_in_bytes(module.buffer(value.buffer).dtype));
    if (!step || !step->is_integer(1) || !row_step || !row_step->is_integer(*piece) ||
        *piece * bytes > kLongestPiece)
      return 0;
  }
  const int64_t together = *neighbours <= kMostRows ? *neighbours : kManyOfMore;
  return *rows / together >= target.multiprocessors ? static_cast<int>(together) : 0;
}

} // namespace

void align_in_memory(const ir::Module &module, KernelPlan &plan, RowWalk &walk) {
  constexpr int64_t kFewestRuns = 16;
  // 8 bytes an access are nearly as good as 16, where a thread has few registers for more of them.
  const int shorter = plan.graph.look_back ? 2 : 4;
  const std::optional<RowOrigin> origin = choose_origin(module, plan.graph);
  if (!origin || origin->vector < walk.vector * shorter ||
      longest_row(plan.graph).value() < kFewestRuns * origin->vector)
    return;
  const bool scans = // whose runs a thread goes through alone, the longer the better
      std::any_of(plan.graph.values.begin(), plan.graph.values.end(),
                  [](const Value &value) { return value.op == Op::scan; });
  KernelPlan aligned;
  aligned.graph = plan.graph;
  aligned.origin = origin->index;
  classify_accesses(module, aligned, origin->vector);
  for (ValueId id = 0; id < plan.graph.values.size() && !scans; ++id)
    if (plan.graph[id].op == Op::store && plan.graph[id].mode == ir::StoreMode::plain &&
        plan.graph[id].level == Level::element && aligned.access[id] != Access::vector)
      return;
  plan.origin = origin->index;
  walk.vector = origin->vector;
}

namespace {

/// Stores whose rows start elsewhere in memory than the runs do.
void find_stores_by_lanes(const ir::Module &module, KernelPlan &plan, const RowWalk &walk) {
  constexpr int kWarp = 32, kFewest = 4;    // elements of a run
  constexpr int64_t kMostShared = 24 << 10; // beside what threads tell one another
  const KernelGraph &graph = plan.graph;
  plan.by_lanes.clear();
  if (walk.threads == 1)
    return find_rows_by_lanes(module, plan, walk);
  if (walk.steps == 0 || walk.vector < kFewest || walk.columns || walk.block() % kWarp != 0 ||
      (walk.threads % kWarp != 0 && kWarp % walk.threads != 0) ||
      walk.order == RunOrder::by_thread || graph.element_variables.size() != 1 || graph.sorts())
    return;
  std::vector<bool> found(graph.values.size(), false);
  int64_t shared = 0;
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const Value &value = graph[id];
    if (value.op != Op::store || value.level != Level::element ||
        value.mode != ir::StoreMode::plain || value.args.size() != 1 || value.guard != ir::kNone ||
        plan.access[id] != Access::element)
      continue;
    const auto step = symbolic::coefficient_of(value.index, graph.element_variables[0]);
    const int64_t bytes =
        int64_t{walk.block()} * walk.vector *
        static_cast<int64_t>(tensor::size_in_bytes(module.buffer(value.buffer).dtype));
    found[id] = step && step->is_integer(1) && shared + bytes <= kMostShared;
    shared += found[id] ? bytes : 0;
  }
  if (std::find(found.begin(), found.end(), true) != found.end())
    plan.by_lanes = std::move(found);
}

} // namespace

std::optional<KernelPlan> plan_of_full_rows(const KernelPlan &plan) {
  const auto *row = std::get_if<RowWalk>(&plan.walk);
  const bool gathers = std::find(plan.by_run.begin(), plan.by_run.end(), true) != plan.by_run.end();
  if (row == nullptr || row->rows != 1 || row->steps < 2 || row->vector < 2 || !plan.origin ||
      !gathers || plan.graph.elements().is_integer() ||
      !symbolic::known_multiple_of(*plan.origin, row->vector, plan.graph.ranges))
    return std::nullopt;
  const int64_t longest = symbolic::bounds(plan.graph.elements(), plan.graph.ranges).high;
  const int64_t held = int64_t{row->steps} * row->threads * row->vector;
  if (longest <= 0 || longest > held || longest % row->vector != 0 ||
      plan.graph.element_sizes.size() != 1)
    return std::nullopt;
  KernelPlan full = plan;
  full.origin.reset();
  full.graph.element_sizes = {Expr(longest)};
  RowWalk walk = *row;
  walk.guard_run = longest != held;
  walk.whole_steps = 0;
  full.walk = walk;
  return full;
}

/// Rows of a block whose threads hold so much that a multiprocessor has registers for one such
/// block, where blocks of half as many rows leave it more threads. (H200, rows of 511 halves, 72 of
/// them a thread: 16 rows for 32 are 0.71, 0.81, 0.96 and 0.98 of the time; of threads that hold 24
/// elements 0.97 to 1.03.)
int rows_that_registers_allow(const ir::Module &module, const KernelPlan &plan,
                              const RowWalk &walk) {
  constexpr double kAll = 65536, kToCompute = 24;
  constexpr int kManyThreads = 640, kManyElements = 48;
  const double registers =
      kToCompute + registers_per_element(module, plan) * walk.steps * walk.vector;
  const auto resident = [&](int rows) {
    const int block = rows * walk.threads;
    return static_cast<int>(kAll / (registers * block)) * block;
  };
  const int half = walk.rows / 2;
  return half > 0 && walk.steps * walk.vector >= kManyElements &&
                 resident(walk.rows) < kManyThreads && resident(half) > resident(walk.rows)
             ? half
             : walk.rows;
}

void finish_rows(const Request &request, KernelPlan &plan, RowWalk &walk) {
  if (walk.rows == 1) {
    walk.rows = std::max(1, (walk.threads <= 32 ? kRowBlock : kWarpsRowBlock) / walk.threads);
    if (walk.threads > 1 && walk.threads <= 32 && walk.steps > 0 && plan.graph.reduces)
      walk.rows = rows_that_registers_allow(request.module, plan, walk);
  }
  if (walk.threads == 1 && walk.steps > 0)
    walk.rows = own_rows_of_block(request.module, plan, walk.rows);
  if (request.chosen().rows != 0 && !walk.columns)
    walk.rows = request.chosen().rows;
  const Expr runs = symbolic::floor_div(plan.graph.elements(), walk.vector);
  walk.guard_run =
      walk.steps > 0 && (plan.origin || !(runs == Expr(int64_t{walk.steps} * walk.threads)));
  walk.guard_row = walk.rows > 1 &&
                   !symbolic::known_multiple_of(plan.graph.rows(), walk.rows, plan.graph.ranges);
  Expr blocks = symbolic::ceil_div(plan.graph.rows(), walk.rows);
  if (walk.columns && plan.graph.look_back) {
    const LookBack &parts = *plan.graph.look_back;
    walk.guard_row = !symbolic::known_multiple_of(parts.rows, walk.rows, plan.graph.ranges);
    blocks = parts.parts * symbolic::ceil_div(parts.rows, walk.rows);
  }
  find_whole_steps(plan, walk);
  choose_by_run(plan, walk);
  find_stores_by_lanes(request.module, plan, walk);
  plan.grid = blocks;
  plan.block = walk.block();
  plan.walk = walk;
}

std::string threads_text(const RowWalk &walk) {
  return std::to_string(walk.threads) + " threads a row, " + std::to_string(walk.rows) +
         (walk.rows == 1 ? " row" : " rows") + " a block, ";
}

int runs_ahead(const ir::Module &module, const KernelPlan &plan, int vector, int elements,
               int threads) {
  constexpr double kBytes = 128, kNarrow = 8;
  double widest = 1;
  for (const PhasePlan &phase : plan.phases) {
    double bytes = 0;
    for (const ValueId id : phase.run_values)
      if (plan.graph[id].op == Op::load && plan.access[id] == Access::vector)
        bytes += static_cast<double>(
            tensor::size_in_bytes(module.buffer(plan.graph[id].buffer).dtype) * vector);
    widest = std::max(widest, bytes);
  }
  int most = std::clamp(static_cast<int>(kBytes / widest), 1,
                        widest <= kNarrow ? 2 * kRunsInFlight : kRunsInFlight);
  const Expr runs = symbolic::floor_div(plan.graph.elements(), elements);
  if (const auto count = runs.as_integer()) // no more than a thread has
    most = static_cast<int>(std::clamp<int64_t>((*count + threads - 1) / threads, 1, most));
  for (int ahead = most; ahead * 2 > most; --ahead)
    if (symbolic::known_multiple_of(runs, int64_t{threads} * ahead, plan.graph.ranges))
      return ahead;
  return most;
}

bool reads_once(const KernelGraph &graph) {
  return std::none_of(graph.values.begin(), graph.values.end(), [](const Value &value) {
    return value.op == Op::reduction ? value.phase > 0
                                     : value.op == Op::store && value.level == Level::element;
  });
}

void load_apart(KernelPlan &plan) {
  for (ValueId id = 0; id < plan.graph.values.size(); ++id) {
    const Value &value = plan.graph[id];
    if (value.op == Op::load && value.level == Level::element && value.args.empty() &&
        value.guard == ir::kNone && plan.access[id] == Access::element)
      plan.access[id] = Access::vector;
  }
}

void plan_rows(const Request &request, KernelPlan &plan) {
  const auto &[module, group, target, given, checked, like, choice] = request;
  RowWalk walk;
  const KernelGraph &graph = plan.graph;
  const bool sorts = graph.sorts();
  const bool in_order =
      sorts || std::any_of(graph.values.begin(), graph.values.end(),
                           [](const Value &value) { return value.op == Op::scan; });
  // Columns that are scanned: neighbouring threads carry neighbouring ones along.
  const auto count = graph.rows().as_integer();
  const bool looks_back_columns = graph.look_back && graph.look_back->columns > 0;
  const bool carries = !like && in_order && !sorts && count && !looks_back_columns &&
                       *count >= int64_t{kManyColumns} * target.multiprocessors &&
                       prefers_columns(module, graph);
  if (!in_order)
    if (KernelGraph single = looped_graph(request); reads_once(single) && sums_exponentials(single))
      plan.graph = std::move(single);
  const bool scans_alone = in_order && !sorts && !graph.look_back && !combines(graph);
  walk.vector = looks_back_columns ? 1 : choose_vector(module, plan);
  constexpr int kLeastLookBackThreads = 64; // two warps wait for others
  const bool combines_parts = graph.look_back && !looks_back_columns && combines(graph);
  while (combines_parts &&
         longest_row(graph).value() < int64_t{kLeastLookBackThreads} * walk.vector)
    walk.vector /= 2;
  // What is combined in order has no element that changes nothing, for places before the row.
  const int longest_run = request.chosen().vector;
  if (longest_run != 0 && !in_order)
    walk.vector = std::min(walk.vector, longest_run);
  if (longest_run == 0 && !sorts && !carries && !like && !combines(graph) && checked.sizes.empty())
    align_in_memory(module, plan, walk);
  classify_accesses(module, plan, walk.vector);
  const bool own_rows = scans_alone && !like && holds_own_rows(module, plan, target);
  if (own_rows && walk.vector == 1)
    load_apart(plan);
  plan.preloaded.assign(graph.values.size(), false);
  for (const ValueId id : preload_candidates(plan))
    if (varies_by_row(graph, id))
      plan.preloads.push_back(id);
  for (const ValueId id : plan.preloads)
    plan.preloaded[id] = true;
  fill_phases(module, plan, group, true);
  const auto elements = longest_row(graph);
  walk.steps = 0;
  if (like) {
    const RowWalk &model = std::get<RowWalk>(*like);
    walk.threads = model.threads;
    walk.steps = model.steps * model.vector / walk.vector;
    walk.columns = model.columns;
    walk.rows = model.columns ? model.rows : walk.rows;
  } else if (elements && !carries) {
    const double per_run = registers_per_element(module, plan) * walk.vector;
    const int most = std::max(1, static_cast<int>(kRegistersForRow / per_run));
    const int64_t runs = longest_row_in_runs(plan, walk.vector);
    walk.packed = graph.sorts_packed() && runs * walk.vector > kComparedAlone;
    if (((sorts || scans_alone) && runs * walk.vector <= kOrderedAlone) || own_rows) {
      walk.threads = 1;
      walk.steps = static_cast<int>(runs);
    } else if (walk.packed) { // powers of two
      const int64_t held =
          runs * walk.vector <= 2 * kOrderedAlone ? kOrderedAlone : kSortedElements;
      walk.steps = static_cast<int>(std::max<int64_t>(1, held / walk.vector));
      walk.threads = 2;
      while (int64_t{walk.threads} * walk.steps < runs)
        walk.threads *= 2;
    } else if (sorts) // a sort needs all of the row; more elements a thread are fewer merges, in
                      // more registers
      choose_row_threads(walk, runs, std::max(1, kSortedElements / walk.vector),
                         static_cast<int>(std::max<int64_t>(
                             std::max(1, kSortedElements / walk.vector), (runs + 1023) / 1024)));
    else
      choose_kept_rows(module, target, plan, walk, runs, most);
    // Fewer threads have more registers each; a row that does not fit in theirs is read again.
    while (!in_order && walk.steps > 0 && per_run * walk.steps > registers_for_row(walk.threads)) {
      const int threads = walk.threads / 2;
      const auto steps = static_cast<int>((runs + threads - 1) / threads);
      const bool fits =
          threads >= kFewestRowThreads && per_run * steps <= registers_for_row(threads);
      walk.threads = fits ? threads : walk.threads;
      walk.steps = fits ? steps : 0;
    }
    if (looks_back_columns) {
      walk.columns = true;
      walk.rows = graph.look_back->columns;
      walk.threads = kColumnPartBlock / walk.rows;
      walk.steps = static_cast<int>((runs + walk.threads - 1) / walk.threads);
    } else if (combines_parts) { // a block has one part
      walk.threads = runs < kWarpsRowBlock ? kLeastLookBackThreads : kWarpsRowBlock;
      while (walk.threads < 1024 && walk.threads * kRunsInFlight < runs)
        walk.threads *= 2;
      walk.steps = static_cast<int>((runs + walk.threads - 1) / walk.threads);
    } else if (graph.look_back) {
      walk.threads = graph.look_back->threads;
      walk.steps = static_cast<int>((runs + walk.threads - 1) / walk.threads);
    }
    support::require(!combines_parts ||
                         int64_t{walk.threads} * walk.steps * walk.vector == *elements,
                     "codegen", "a part of tuples is not what its block holds");
    const int threads = graph.look_back ? 0 : request.chosen().threads;
    if (threads != 0 && walk.steps > 0 && (runs + threads - 1) / threads <= most) {
      walk.threads = threads;
      walk.steps = static_cast<int>((runs + threads - 1) / threads);
    }
  }
  support::require(walk.steps > 0 || !sorts, "codegen", "rows to sort have no bound");
  std::optional<KernelGraph> looped;
  const bool is_long = walk.steps > 0 && !in_order && !like && is_long_text(plan, walk);
  if (walk.steps == 0 || is_long ||
      (!in_order && !like && fills_multiprocessor(module, plan, walk)))
    looped = looped_graph(request);
  bool in_loops = false; // what registers would hold
  if (walk.steps > 0 && looped && reads_once(*looped)) {
    in_loops = is_long && !fills_multiprocessor(module, plan, walk);
    walk.steps = 0;
  }
  // A warp a row, as far as that leaves each thread some runs; more where such blocks are few.
  constexpr int kPieceThreads = 32, kMostPieceThreads = 512;
  constexpr int64_t kFewestRuns = 8, kThreadsThatHideMemory = 1024; // a multiprocessor
  int pieces = 0;
  if (!in_order && !like && checked.sizes.empty() && !plan.origin && elements &&
      *elements >= kFewestRuns * kPieceThreads * walk.vector)
    pieces = rows_of_pieces(module, graph, target);
  if (pieces > 0 && walk.steps > 0) {
    looped = looped_graph(request);
    if (reads_once(*looped))
      walk.steps = 0;
  }
  if (walk.steps == 0) { // the row does not fit: read it again in every phase
    KernelPlan fresh;
    fresh.graph = std::move(*looped);
    fresh.checked = checked;
    fresh.origin = plan.origin;
    plan = std::move(fresh);
    classify_accesses(module, plan, walk.vector);
    const bool loads_first = !in_order || carries; // one thread's loads come before their turn
    if (walk.vector == 1 && loads_first)
      load_apart(plan);
    plan.preloaded.assign(plan.graph.values.size(), false);
    fill_phases(module, plan, group, false);
    mark_walked_again(plan);
    // Many rows of any length may be many short ones. A scan too long for the chip: one thread
    // carries it.
    const auto rows = plan.graph.rows().as_integer();
    const bool short_ones =
        !elements && rows && *rows >= int64_t{kManyRows} * target.multiprocessors;
    if (!like) { // else those that it has
      walk.threads = in_order ? 1 : short_ones || pieces > 0 ? kPieceThreads : kLargestLoopedRow;
      while (pieces > 0 && walk.threads * 2 * pieces <= kMostPieceThreads &&
             *rows * walk.threads < kThreadsThatHideMemory * target.multiprocessors &&
             *elements >= kFewestRuns * walk.threads * 2 * walk.vector)
        walk.threads *= 2;
      if (const auto expected = likely(module, plan.graph.elements());
          !in_order && !elements && expected)
        walk.threads = threads_for(*expected / walk.vector);
      if (in_loops && pieces == 0)
        choose_looped_threads(walk, longest_row_in_runs(plan, walk.vector));
    }
    walk.rows = std::max(1, pieces);
    if (walk.threads == kLargestLoopedRow && request.chosen().threads != 0)
      walk.threads = request.chosen().threads;
    if (loads_first) {
      walk.ahead = runs_ahead(module, plan, walk.vector, walk.vector, walk.threads);
      while (in_loops && walk.ahead > 1 &&
             is_long_text(plan, {.vector = walk.vector, .steps = 2 * walk.ahead}))
        walk.ahead /= 2;
      if (pieces > 0)
        choose_pieces(plan, walk);
      walk.ends_apart = plan.origin.has_value();
    }
  } else if (in_order) {
    walk.order = (sorts && !walk.packed) || walk.columns ? RunOrder::by_thread : RunOrder::by_warp;
  } else if (!like && !graph.look_back && walk.rows <= 1) {
    load_late(module, plan, walk, group);
  }
  stream_loads(module, plan, target);
  finish_rows(request, plan, walk);
  plan.has_barriers = true;
  if (plan.graph.look_back && !combines(plan.graph) && !plan.origin &&
      registers_per_element(module, plan) * walk.steps * walk.vector <= kRegistersWhileWaiting)
    plan.resident = kThreadsWhileWaiting / walk.threads;
  plan.shared_bytes = bytes_to_sort(plan.graph, walk);
  plan.description =
      (sorts ? "row sort, " : "row reduction, ") + threads_text(walk) +
      (walk.steps > 0 ? "row kept in registers (" + std::to_string(walk.steps * walk.vector) +
                            " elements a thread)"
                      : walks_text(plan, "row")) +
      (walk.packed ? ", elements packed with their places" : "") +
      (walk.pieces > 0 ? ", " + std::to_string(walk.pieces) + " pieces at a time" : "") + ", " +
      (walk.columns           ? "parts of neighbouring columns look back, "
       : plan.graph.look_back ? "parts of rows look back, "
                              : "") +
      access_text(module, plan, walk.vector) + (plan.origin ? ", rows start anywhere" : "");
}

} // namespace tsc::codegen
