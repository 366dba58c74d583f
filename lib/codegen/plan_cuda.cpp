// The GPU's plans. What decides is memory: 16-byte accesses, enough of them in flight before the
// first use, every element read once.
#include "codegen/matrix_loops.h"
#include "codegen/order_elements.h"
#include "codegen/plan.h"
#include "codegen/plan_steps.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace tsc::codegen {

namespace {

using ir::Op;

constexpr int kFlatBlock = 256;
constexpr int kRunsInFlight = 4; // runs a thread loads before the first use

/// Of all elements, those that an access happens for: guarded, of each element of memory one.
double share_of_elements(const ir::Module &module, const KernelGraph &graph, const Value &value) {
  const auto all = graph.elements().as_integer();
  const auto held = module.buffer(value.buffer).layout.storage_size().as_integer();
  if (value.guard == ir::kNone || !all || !held || *all == 0)
    return 1;
  return std::min(1.0, static_cast<double>(*held) / static_cast<double>(*all));
}

/// Clocks in which a multiprocessor's load and store units move what 32 elements access: a warp's
/// access takes one for each 128 bytes that it touches. Lanes are `vector` elements apart.
double access_clocks(const ir::Module &module, const KernelPlan &plan) {
  const int vector = vector_of(plan.walk);
  const Expr variable = plan.graph.element_variables.back();
  double clocks = 0;
  for (ValueId id = 0; id < plan.graph.values.size(); ++id) {
    const Value &value = plan.graph[id];
    if (value.buffer == ir::kNone || value.level != Level::element)
      continue;
    const double bytes =
        static_cast<double>(tensor::size_in_bytes(module.buffer(value.buffer).dtype));
    const auto step = symbolic::coefficient_of(value.index, variable);
    const double apart = step && step->is_integer() ? std::fabs(static_cast<double>(step->value()))
                                                    : 1.0; // across inner sizes, mostly
    double each = 0;
    if (plan.access[id] == Access::vector)
      each = bytes * 32 / 128 * (shift_of(plan, id) != 0 ? 2 : 1);
    else if (plan.access[id] == Access::element && value.args.size() <= 1)
      each = std::min(32.0, std::max(1.0, apart * vector * bytes * 32 / 128));
    clocks += each * share_of_elements(module, plan.graph, value);
  }
  return clocks;
}

/// Bytes of memory that 32 elements stand for; 0 where sizes are symbols.
double bytes_of_warp(const ir::Module &module, const KernelGraph &graph) {
  const auto elements = graph.elements().as_integer();
  std::vector<BufferId> counted;
  double bytes = 0;
  for (const Value &value : graph.values) {
    if (value.buffer == ir::kNone ||
        std::find(counted.begin(), counted.end(), value.buffer) != counted.end())
      continue;
    const ir::Buffer &buffer = module.buffer(value.buffer);
    const auto size = buffer.layout.storage_size().as_integer();
    if (!size || !elements || *elements == 0)
      return 0;
    counted.push_back(value.buffer);
    bytes += static_cast<double>(std::min(*size, *elements) * // some of it may be left out
                                 static_cast<int64_t>(tensor::size_in_bytes(buffer.dtype)));
  }
  return elements ? bytes / static_cast<double>(std::max<int64_t>(1, *elements)) * 32 : 0;
}

/// Shorter runs where long ones, whose elements are not all neighbours, keep the load and store
/// units busy for longer than memory takes.
void shorten_runs(const Request &request, KernelPlan &plan, FlatWalk &walk) {
  if (walk.vector == 1)
    return;
  constexpr double kClock = 1.7e9, kSpare = 2, kGain = 0.75;
  const double bytes = bytes_of_warp(request.module, plan.graph);
  const double of_memory =
      bytes * kClock * request.target.multiprocessors / request.target.bandwidth;
  const auto clocks = [&](int vector) {
    plan.walk = FlatWalk{vector, walk.steps, walk.block, walk.guard};
    classify_accesses(request.module, plan, vector);
    find_shifts(request.module, plan, vector, true);
    return access_clocks(request.module, plan);
  };
  for (double now = clocks(walk.vector); bytes > 0 && walk.vector > 1; walk.vector /= 2) {
    const double then = clocks(walk.vector / 2);
    if (now * kSpare <= of_memory || then > now * kGain)
      return;
    now = then;
  }
}

/// Elements that one access at run-time indices changes, where neighbours in memory are neighbours
/// of a run: the second-level cache works by sectors, and what a warp changes there at once had
/// better be whole ones. `otherwise`: without such accesses. After classify_accesses.
int changed_run(const ir::Module &module, const KernelPlan &plan, int otherwise) {
  const KernelGraph &graph = plan.graph;
  int run = otherwise;
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const Value &value = graph[id];
    const bool is_plain = value.mode == ir::StoreMode::plain;
    if (value.op != Op::store || graph.element_variables.empty() ||
        (is_plain && (value.args.size() < 2 || plan.access[id] == Access::vector)))
      continue;
    const auto step = symbolic::coefficient_of(value.index, graph.element_variables.back());
    const DType dtype = module.buffer(value.buffer).dtype;
    if (step && step->is_integer(1))
      run = std::min(run, is_plain ? 1 : atomic_vector(value.mode, dtype));
  }
  return run;
}

/// Loads of one element a run are issued first, too.
void preload_single(KernelPlan &plan, int vector) {
  for (ValueId id = 0; id < plan.graph.values.size(); ++id) {
    const Value &value = plan.graph[id];
    if (value.op == Op::load && value.level == Level::element && value.args.empty() &&
        value.guard == ir::kNone && !plan.preloaded[id] &&
        (vector == 1 || plan.access[id] == Access::constant)) {
      plan.preloads.push_back(id);
      plan.preloaded[id] = true;
    }
  }
}

/// Bytes of the widest vector access; 0 if there is none.
int widest_access(const ir::Module &module, const KernelPlan &plan, int vector) {
  size_t widest = 0;
  for (ValueId id = 0; id < plan.graph.values.size(); ++id)
    if (plan.access[id] == Access::vector && plan.graph[id].buffer != ir::kNone)
      widest = std::max(widest, tensor::size_in_bytes(module.buffer(plan.graph[id].buffer).dtype) *
                                    static_cast<size_t>(vector));
  return static_cast<int>(widest);
}

/// Runs a thread, `wanted` of them if that leaves every multiprocessor four blocks.
int steps_that_fill(const ir::Module &module, Expr runs, int block, int wanted,
                    const target::Target &target) {
  const std::optional<int64_t> count = likely(module, runs);
  int steps = wanted;
  while (steps > 1 && (!count || *count < int64_t{4} * target.multiprocessors * block * steps))
    steps /= 2;
  return steps;
}

/// Bytes of the widest element that is loaded or stored.
int widest_element(const ir::Module &module, const KernelPlan &plan) {
  size_t widest = 0;
  for (const Value &value : plan.graph.values)
    if (value.buffer != ir::kNone && value.level == Level::element)
      widest = std::max(widest, tensor::size_in_bytes(module.buffer(value.buffer).dtype));
  return static_cast<int>(widest);
}

/// The same of what is not read over and over from a table of few numbers, such as one a channel.
int widest_streamed(const ir::Module &module, const KernelPlan &plan) {
  constexpr int64_t kTable = 4096; // elements
  const auto elements = plan.graph.elements().as_integer();
  size_t widest = 0;
  for (const Value &value : plan.graph.values) {
    if (value.buffer == ir::kNone || value.level != Level::element)
      continue;
    const auto held = module.buffer(value.buffer).layout.storage_size().as_integer();
    const bool is_table =
        value.op == Op::load && held && elements && *held <= kTable && *held * 16 <= *elements;
    if (!is_table)
      widest = std::max(widest, tensor::size_in_bytes(module.buffer(value.buffer).dtype));
  }
  return static_cast<int>(widest);
}

void plan_flat(const Request &request, KernelPlan &plan) {
  const auto &[module, group, target, given, checked, like, choice] = request;
  FlatWalk walk;
  walk.vector = choose_vector(module, plan);
  if (!like)
    shorten_runs(request, plan, walk);
  const int whole = walk.vector;
  classify_accesses(module, plan, whole);
  walk.vector = std::min(whole, changed_run(module, plan, whole));
  if (request.chosen().vector != 0)
    walk.vector = request.chosen().vector;
  classify_accesses(module, plan, walk.vector);
  find_shifts(module, plan, walk.vector, true);
  preload_all(plan);
  // What waits for an index, or for its turn to change memory, is not waited for by the next load.
  const bool waits =
      std::any_of(plan.graph.values.begin(), plan.graph.values.end(), [](const Value &value) {
        return value.op == Op::set_indirect ||
               (value.op == Op::store && value.mode != ir::StoreMode::plain);
      });
  const bool loads_several =
      walk.vector == 1 &&
      steps_that_fill(module, plan.graph.elements(), kFlatBlock, kRunsInFlight, target) > 1;
  if (waits || loads_several)
    preload_single(plan, walk.vector);
  if (walk.vector > 1)
    find_choices(module, plan);
  // One 16-byte access a thread streams best (4.26 TB/s against 4.06 with four), two where they
  // wait for an index (a gather of rows: 247 us against 267); narrower ones need company, as many
  // as make 16 bytes of most, if that leaves every multiprocessor four blocks (a number a plane of
  // 196 in runs of 8 bytes: 17.8 us of 33.7 MB, two runs 12.7).
  constexpr int kNarrow = 4, kHalf = 8; // bytes
  const int widest =
      walk.vector == 1 ? widest_element(module, plan) : widest_access(module, plan, walk.vector);
  const bool narrow = walk.vector == 1 || widest <= kNarrow;
  const int wanted = narrow ? kRunsInFlight * (widest > 0 && widest < kNarrow ? 2 : 1)
                     : waits || widest <= kHalf ? 2
                                                : 1;
  const int parts = std::max(1, whole / walk.vector); // as many bytes on their way in short runs
  finish_flat(request, plan, walk, std::min(2 * kRunsInFlight, wanted * parts));
  plan.description = "pointwise, " + plan.description;
}

/// True if rows are so short, and so many, that a thread had better take a whole one: windows of
/// pools and depthwise convolutions, whose neighbours along the row variable are neighbours in
/// memory.
bool has_short_rows(const KernelGraph &graph) {
  constexpr int64_t kLongest = 64, kFewest = 2048, kWidestStep = 4, kLongestLookedUp = 8;
  const auto rows = graph.rows().as_integer(), elements = graph.elements().as_integer();
  if (!elements || *elements > kLongest || (rows && *rows < kFewest) ||
      graph.row_variables.empty() || graph.element_variables.empty())
    return false;
  return std::all_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
    if (value.op != Op::load || value.level != Level::element)
      return value.level != Level::element || value.op != Op::store;
    // A row that is looked up lies anywhere: its elements are neighbours, its neighbours' are not.
    if (!value.args.empty() && symbolic::depends_on(value.index, graph.element_variables.back()) &&
        *elements > kLongestLookedUp)
      return false;
    const auto step = symbolic::coefficient_of(value.index, graph.row_variables.back());
    return step && step->is_integer() && step->value() >= 0 && step->value() <= kWidestStep;
  });
}

/// Whether a thread a row is a small part of what the target runs at once, and each would wait for
/// many loads.
bool leaves_threads_idle(const KernelGraph &graph, const target::Target &target) {
  constexpr int64_t kManyLoads = 16;
  const auto rows = graph.rows().as_integer(), elements = graph.elements().as_integer();
  return rows && elements && *elements >= kManyLoads &&
         *rows * 4 <= int64_t{target.multiprocessors} * target.max_threads_per_multiprocessor;
}

} // namespace

void choose_divisions(KernelPlan &plan) {
  plan.divides_by_row.assign(plan.graph.values.size(), false);
  const bool has_row = !std::holds_alternative<WindowWalk>(plan.walk); // that is the thread's
  const auto *flat = std::get_if<FlatWalk>(&plan.walk);
  const bool has_runs = (flat != nullptr || std::holds_alternative<ProductWalk>(plan.walk)) &&
                        vector_of(plan.walk) > 1;
  std::map<ValueId, int> divided; // by a thread's own number, how many
  if (flat != nullptr)
    for (const Value &value : plan.graph.values)
      if (value.op == Op::truediv && plan.graph[value.args[1]].op != Op::constant)
        ++divided[value.args[1]];
  for (ValueId id = 0; id < plan.graph.values.size(); ++id) {
    const Value &value = plan.graph[id];
    if (value.op != Op::truediv || (has_row && value.level != Level::element) ||
        value.dtype == DType::f64 || !tensor::is_floating(value.dtype) ||
        exact_factor(plan.graph, value))
      continue;
    const Value &divisor = plan.graph[value.args[1]];
    const bool steady = divided[value.args[1]] > 1 ||
                        (has_runs && plan.uniform[value.args[1]] && !plan.uniform[id]) ||
                        (has_row ? divisor.level == Level::row || divisor.op == Op::reduction
                                 : divisor.op == Op::constant);
    plan.divides_by_row[id] =
        steady && divisor.dtype != DType::f64 && tensor::is_floating(divisor.dtype);
  }
}

namespace {

/// Draws by elements of which a thread's are no neighbours: neighbouring lanes' are.
void find_draws_by_warp(KernelPlan &plan, const FlatWalk &walk) {
  constexpr int kWarp = 32, kFewestSteps = 2;
  constexpr int kMostShared = 24 << 10, kElementsOfBlock = 4, kBlockBytes = 16; // of words
  const KernelGraph &graph = plan.graph;
  plan.by_warp.clear();
  if (walk.vector != 1 || walk.steps < kFewestSteps || walk.block % kWarp != 0 ||
      plan.copies != 1 || graph.reduces)
    return;
  const Expr flat = graph.place_in_order();
  int left = kMostShared / (walk.block * walk.steps / kElementsOfBlock * kBlockBytes); // draws
  std::vector<bool> found(graph.values.size(), false);
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const Value &value = graph[id];
    if (!ir::is_random(value.op) || value.op == Op::rand_bits || value.dtype == DType::f64 ||
        value.level != Level::element)
      continue;
    const Value &offset = graph[value.args[2]];
    found[id] = left > 0 && graph[value.args[0]].level == Level::row &&
                graph[value.args[1]].level == Level::row && offset.op == Op::index_expr &&
                symbolic::simplify(offset.index - flat, graph.ranges).is_integer(0);
    left -= found[id] ? 1 : 0;
  }
  if (std::find(found.begin(), found.end(), true) != found.end())
    plan.by_warp = std::move(found);
}

} // namespace

void finish_flat(const Request &request, KernelPlan &plan, FlatWalk walk, int wanted) {
  const auto &[module, group, target, given, checked, like, choice] = request;
  const PlanChoice chosen = request.chosen();
  walk.block = chosen.block != 0 ? chosen.block : kFlatBlock;
  const Expr runs = symbolic::floor_div(plan.graph.elements(), walk.vector);
  walk.steps = steps_that_fill(module, runs, walk.block, wanted, target);
  if (like) {
    const FlatWalk &model = std::get<FlatWalk>(*like);
    walk.steps = model.steps * model.vector / walk.vector;
  }
  if (chosen.steps != 0)
    walk.steps = chosen.steps;
  const int64_t per_block = int64_t{walk.block} * walk.steps;
  walk.guard = !symbolic::known_multiple_of(runs, per_block, plan.graph.ranges);
  // Over elements where the launch decides what a run is.
  plan.grid = plan.checked.sizes.empty()
                  ? symbolic::ceil_div(runs, per_block)
                  : symbolic::ceil_div(plan.graph.elements(), per_block * walk.vector);
  plan.block = walk.block;
  plan.walk = walk;
  find_draws_by_warp(plan, walk);
  plan.has_barriers = plan.has_barriers || !plan.by_warp.empty(); // warps wait for their lanes
  plan.description = std::to_string(walk.steps) + (walk.steps == 1 ? " run" : " runs") + " of " +
                     std::to_string(walk.vector) + " elements a thread, " +
                     access_text(module, plan, walk.vector);
  fill_phases(module, plan, group, true);
}

double registers_per_element(const ir::Module &module, const KernelPlan &plan) {
  double bytes = 0;
  for (const ValueId id : plan.preloads)
    bytes += static_cast<double>(tensor::size_in_bytes(module.buffer(plan.graph[id].buffer).dtype));
  for (ValueId id = 0; id < plan.graph.values.size(); ++id)
    for (size_t member = 0; plan.kept[id] && member < scanned_members(plan.graph[id]); ++member)
      bytes += std::max<double>(
          4, static_cast<double>(tensor::size_in_bytes(member_dtype(plan.graph[id], member))));
  return std::max(1.0, bytes / 4);
}

std::vector<ValueId> preload_candidates(const KernelPlan &plan) {
  std::vector<ValueId> result;
  for (ValueId id = 0; id < plan.graph.values.size(); ++id) {
    const Value &value = plan.graph[id];
    if (value.op == Op::load && value.level == Level::element &&
        plan.access[id] == Access::vector && value.args.empty() && value.guard == ir::kNone)
      result.push_back(id);
  }
  return result;
}

void preload_all(KernelPlan &plan) {
  plan.preloads = preload_candidates(plan);
  plan.preloaded.assign(plan.graph.values.size(), false);
  for (const ValueId id : plan.preloads)
    plan.preloaded[id] = true;
}

namespace {

/// Single-pass statistics: a thread has the row to itself.
bool plan_short_rows_of_neighbours(const Request &request, KernelPlan &plan,
                                   bool long_ones = false) {
  KernelPlan fresh;
  fresh.checked = plan.checked;
  fresh.graph = request.given ? plan.graph : build_kernel_graph(request.module, request.group, {});
  KernelPlan alone = fresh; // places one by one
  const auto make = [&](KernelPlan &made, bool in_runs) {
    return plan_windows(request.module, request.group, made, request.target, request.choice,
                        long_ones, in_runs);
  };
  if (!make(fresh, true))
    return false;
  const auto *walk = std::get_if<WindowWalk>(&fresh.walk);
  const bool is_slower = walk && !walk->runs.empty() && make(alone, false) &&
                         planned_time(request, alone) < planned_time(request, fresh);
  plan = is_slower ? std::move(alone) : std::move(fresh);
  return true;
}

/// Whether `other` is estimated to be so much faster than `plan` that it is worth its text.
constexpr double kLeastGain = 0.85; // of the time before
bool is_faster(const Request &request, const KernelPlan &other, const KernelPlan &plan,
               double least_gain = kLeastGain) {
  constexpr double kLaunch = 1000; // nanoseconds in which any kernel begins and ends
  return kLaunch + planned_time(request, other) <
         least_gain * (kLaunch + planned_time(request, plan));
}

/// Whether runs of some loads are put together of pieces, wherever they start.
bool reads_anywhere(const KernelPlan &plan) {
  for (ValueId id = 0; id < plan.graph.values.size(); ++id)
    if (shift_of(plan, id) == kAnyShift)
      return true;
  return false;
}

/// A pointwise kernel whose accesses are contiguous along one loop, or by few elements along
/// another one.
void plan_elements(const Request &request, KernelPlan &plan) {
  constexpr double kLong = 5000; // nanoseconds: below, launches are what takes time
  constexpr double kLate = 1.25; // by memory's time: something else is what takes long
  // Of the estimate before: at 0.59 of it kernels took 0.8 of their time, at 0.8 to 0.85 they took
  // 1.4 to 1.5 times as long.
  constexpr double kSharesPlaces = 0.7;
  // Rows whose other operands start elsewhere turn long runs in many registers: 10,367 rows of 1500
  // of 16 bits beside two masks 42 us (22 estimated), in runs of four elements 26 (26), H200.
  constexpr double kTurnedRows = 1.25;
  const KernelGraph graph = plan.graph;
  if (!plan_shared(request, plan) && !plan_in_turn(request, plan) &&
      !plan_pointwise_rows(request, plan))
    plan_flat(request, plan);
  const auto try_instead = [&](const auto &make, double least_gain = kLeastGain) {
    KernelPlan other;
    other.graph = graph;
    if (make(other) && is_faster(request, other, plan, least_gain))
      plan = std::move(other);
  };
  if (request.like || !request.checked.sizes.empty())
    return;
  // Rows that start anywhere ask for what lies along them, and is another row's as well, element by
  // element.
  if (std::holds_alternative<RowWalk>(plan.walk) && planned_time(request, plan) > kLong)
    try_instead(
        [&](KernelPlan &other) {
          plan_flat(request, other);
          return true;
        },
        reads_anywhere(plan) ? kTurnedRows : kLeastGain);
  try_instead([&](KernelPlan &other) { return plan_taps(request, other); });
  try_instead([&](KernelPlan &other) { return plan_beside(request, other, Beside::loads); });
  if (std::holds_alternative<FlatWalk>(plan.walk) && plan.copies == 1 &&
      planned_time(request, plan) > kLate * memory_time(request, plan.graph))
    try_instead([&](KernelPlan &other) {
      return plan_beside(request, other, Beside::any) &&
             planned_time(request, other) < kSharesPlaces * planned_time(request, plan);
    });
  if (planned_time(request, plan) <= kLong)
    return;
  try_instead([&](KernelPlan &other) {
    return plan_tile(request.module, request.group, other, request.target, nullptr,
                     request.chosen(), TileEdges::any);
  });
}

/// Whether elements that are neighbours in the last loop are neighbours in memory, or one, wherever
/// they are read.
bool reads_neighbours(const KernelGraph &graph) {
  return std::all_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
    if (value.op != Op::load || value.level != Level::element)
      return true;
    const auto step = symbolic::coefficient_of(value.index, graph.element_variables.back());
    return !symbolic::depends_on(value.index, graph.element_variables.back()) ||
           (step && step->is_integer(1));
  });
}

void plan_pointwise(const Request &request, KernelPlan &plan) {
  // What is stored one element of 16 bits after the other takes longer than is estimated, and what
  // is stored in runs, their elements read one by one, less: 3840 planes padded from 56 x 56 to
  // 63 x 63 39 us and 35 (30.8 and 35.2 estimated), before places were counted on from the first.
  constexpr int kNarrowElement = 2;
  constexpr double kNoSlower = 1.4;
  // Single elements stream less than whole runs do, where both are estimated to wait for memory.
  constexpr double kNoSlowerInRuns = 1.05;
  const auto *tile = request.like ? std::get_if<TileWalk>(request.like) : nullptr;
  std::optional<KernelPlan> covered = plan_covered(request, plan.graph);
  // Other orders: loops that loads divide apart (blocks of pixels among channels), short ones last.
  std::vector<KernelPlan> others;
  std::optional<size_t> in_parts; // of them
  const bool may_join = !request.like && request.checked.sizes.empty() &&
                        widest_streamed(request.module, plan) <= kNarrowElement;
  const std::optional<OneLoop> one_loop = may_join ? as_one_loop(plan.graph) : std::nullopt;
  for (const bool divides : {false, true}) {
    KernelPlan other;
    other.graph = plan.graph;
    if (request.like || !request.checked.sizes.empty() ||
        (divides && !divide_element_loops(other.graph)))
      continue;
    const bool moves = order_elements(request.module, other.graph, true);
    if (!moves && !divides)
      continue;
    plan_elements(request, other);
    others.push_back(std::move(other));
  }
  {
    KernelPlan other;
    other.graph = plan.graph;
    if (plan_beside(request, other, Beside::parts)) {
      in_parts = others.size();
      others.push_back(std::move(other));
    }
  }
  {
    KernelPlan other;
    other.graph = plan.graph;
    if (plan_neighbours(request, other))
      others.push_back(std::move(other));
  }
  {
    KernelPlan other;
    other.graph = plan.graph;
    order_elements(request.module, other.graph);
    if (plan_tables(request, other))
      others.push_back(std::move(other));
  }
  for (const TileEdges edges : {TileEdges::long_ones, TileEdges::any}) {
    KernelPlan other;
    other.graph = plan.graph;
    if (!request.like && request.checked.sizes.empty() &&
        plan_tile(request.module, request.group, other, request.target, nullptr, request.chosen(),
                  edges, true))
      others.push_back(std::move(other));
  }
  {
    KernelPlan other;
    other.graph = plan.graph;
    if (!request.like && request.checked.sizes.empty() &&
        plan_tile(request.module, request.group, other, request.target, nullptr, request.chosen(),
                  TileEdges::of_groups))
      others.push_back(std::move(other));
  }
  {
    KernelPlan other;
    other.graph = plan.graph;
    if (plan_interleaved(request, other, Interleaving::of_tables))
      others.push_back(std::move(other));
  }
  if (!plan_tile(request.module, request.group, plan, request.target, tile, request.chosen(),
                 tile && tile->group > 1 ? TileEdges::of_groups : TileEdges::long_ones)) {
    KernelPlan plain; // runs of neighbours, whatever else there is
    plain.checked = plan.checked;
    plain.graph = plan.graph;
    const bool is_interleaved = plan_interleaved(request, plan);
    if (!is_interleaved || (!request.like && request.checked.sizes.empty())) {
      order_elements(request.module, plain.graph);
      plan_elements(request, plain);
      if (is_interleaved)
        others.push_back(std::move(plain));
      else
        plan = std::move(plain);
    }
  }
  if (covered)
    others.push_back(*std::move(covered));
  if (one_loop && std::holds_alternative<FlatWalk>(plan.walk) && vector_of(plan.walk) == 1 &&
      reads_neighbours(plan.graph)) {
    KernelPlan other;
    other.graph = one_loop->graph;
    PlanChoice choice = request.chosen();
    if (choice.vector == 0) // where its first element is, is found once a run
      choice.vector = choose_vector(request.module, other);
    Request whole = request;
    whole.choice = &choice;
    plan_flat(whole, other);
    if (const auto row = one_loop->loops.sizes.back().as_integer();
        row && *row >= vector_of(other.walk))
      other.joined = one_loop->loops;
    if (vector_of(other.walk) > 1 &&
        planned_time(request, other) < kNoSlower * planned_time(request, plan))
      plan = std::move(other);
  }
  for (KernelPlan &other : others) {
    // Groups that are read from where others lie between them take longer than is estimated: those
    // of 8 bytes 138 us where 78 were expected. A thread that has one of each part asks no
    // conditions: its text is no longer.
    const auto *through = std::get_if<TileWalk>(&other.walk);
    const bool is_simple =
        (through && through->group > 1) || (in_parts && &other == &others[*in_parts]);
    const bool in_runs = !other.neighbours.empty() &&
                         (vector_of(plan.walk) < vector_of(other.walk) || plan.joined.has_value());
    // As many elements along another loop, which fetch less (that of the first one is not
    // estimated).
    const bool reads_less = other.bytes_shared > plan.bytes_shared && plan.copies > 1 &&
                            other.copies >= plan.copies &&
                            vector_of(other.walk) >= vector_of(plan.walk);
    if (reads_less || is_faster(request, other, plan,
                                in_runs     ? kNoSlowerInRuns
                                : is_simple ? 1
                                            : kLeastGain))
      plan = std::move(other);
  }
}

/// Rows of a few elements, of which nothing is stored, as a pointwise kernel over the rows: those
/// of a thread are read as whole vectors, and walked in registers as often as is wanted.
std::optional<KernelPlan> plan_written_rows(const Request &request, const KernelGraph &graph) {
  constexpr int64_t kLongest = 8;
  constexpr size_t kMostValues = 160; // that a thread computes for a row
  const auto elements = graph.elements().as_integer();
  if (request.like || request.choice || !request.checked.sizes.empty() || !elements ||
      *elements > kLongest || graph.row_variables.empty() || graph.element_variables.empty())
    return std::nullopt;
  std::optional<KernelGraph> rows = unroll_rows(graph, kMostValues);
  if (!rows)
    return std::nullopt;
  KernelPlan plan;
  plan.checked = request.checked;
  plan.graph = *std::move(rows);
  return plan_taps(request, plan) ? std::optional(std::move(plan)) : std::nullopt;
}

/// `stores_elements`: besides what it reduces; `whole_rows`: that are kept in one order.
void plan_reduction(const Request &request, KernelPlan &plan, bool stores_elements,
                    bool whole_rows) {
  if (!whole_rows && stores_elements && plan_held_columns(request, plan)) {
  } else if (!whole_rows && plan_short_rows_of_neighbours(request, plan)) {
  } else if (!whole_rows && plan_held_columns(request, plan)) {
  } else if (!whole_rows &&
             (has_short_rows(plan.graph) || prefers_columns(request.module, plan.graph))) {
    const bool short_rows =
        has_short_rows(plan.graph) && !(leaves_threads_idle(plan.graph, request.target) &&
                                        prefers_columns(request.module, plan.graph));
    const KernelGraph two_passes = plan.graph;
    if (!request.given)
      plan.graph = build_kernel_graph(request.module, request.group, {});
    constexpr int64_t kFewestShared = 32; // elements of a row that several threads may share
    const auto elements = plan.graph.elements().as_integer();
    const bool shares = !short_rows || (elements && *elements >= kFewestShared &&
                                        prefers_columns(request.module, plan.graph));
    if (!request.like && shares &&
        plan_wide_columns(request.module, request.group, plan, request.target, request.choice)) {
    } else if (short_rows) {
      plan_short_rows(request.module, request.group, plan, false);
    } else {
      plan.graph = two_passes;
      plan_rows_or_columns(request, plan, true);
    }
  } else if (whole_rows) {
    plan_rows_in_order(request, plan);
  } else {
    plan_rows_or_columns(request, plan, false);
  }
}

} // namespace

void finish_plan(const Request &request, KernelPlan &plan) {
  plan.wide_index = needs_wide_index(plan.graph);
  choose_divisions(plan);
  choose_quick(request.module, plan);
  find_exact(plan);
}

KernelPlan make_plan(const Request &request) {
  KernelPlan plan;
  plan.checked = request.checked;
  plan.graph = request.given ? *request.given
                             : build_kernel_graph(request.module, request.group,
                                                  {.two_pass_statistics = true});
  const bool whole_rows = // that are kept in one order
      std::any_of(plan.graph.values.begin(), plan.graph.values.end(),
                  [](const Value &value) { return value.op == Op::scan || value.op == Op::sort; });
  const bool stores_elements =
      std::any_of(plan.graph.stores.begin(), plan.graph.stores.end(),
                  [&](ValueId id) { return plan.graph[id].level == Level::element; });
  if (!plan.graph.reduces) {
    plan_pointwise(request, plan);
  } else {
    std::optional<KernelPlan> covered =
        whole_rows ? std::nullopt : plan_covered(request, plan.graph);
    const bool stores_rows = !whole_rows && !stores_elements;
    std::optional<KernelPlan> written =
        stores_rows ? plan_written_rows(request, plan.graph) : std::nullopt;
    const bool may_keep = stores_rows && keeps_few(plan.graph);
    KernelPlan columns;
    columns.checked = plan.checked;
    columns.graph = plan.graph;
    const auto is_had_in_one_walk = [&] { // moments, say
      return !stores_elements && !request.given &&
             reads_once(
                 build_kernel_graph(request.module, request.group, {.two_pass_statistics = false}));
    };
    const bool keeps_columns =
        !whole_rows && plan_kept_columns(request, columns) && !is_had_in_one_walk();
    plan_reduction(request, plan, stores_elements, whole_rows);
    // What neighbours along a short row are is one access of threads that share it; columns that
    // few of are neighbours (colours of the samples along a ray) leave less to a column's threads.
    const auto *alone = std::get_if<ColumnWalk>(&plan.walk);
    if (!whole_rows && !stores_elements && !request.like && !request.choice && alone &&
        alone->threads == 1 &&
        (has_few_neighbours(columns.graph) || !prefers_columns(request.module, columns.graph))) {
      KernelPlan rows;
      rows.checked = plan.checked;
      rows.graph = columns.graph;
      plan_rows(request, rows);
      if (is_faster(request, rows, plan))
        plan = std::move(rows);
    }
    // A second walk finds less in the cache than is expected of it, where columns are many.
    constexpr double kBesideWalks = 1.15;
    const PlanChoice chosen = request.chosen();
    const bool asked = chosen.rows != 0 && chosen.threads != 0; // for such columns
    if (keeps_columns && (asked || chosen.is_planned()) &&
        (asked || is_faster(request, columns, plan, walks_again(plan) ? kBesideWalks : kLeastGain)))
      plan = std::move(columns);
    KernelPlan pieces;
    if (request.given)
      pieces.graph = *request.given;
    // Of equal times that one for which rows were divided (split_rows); whole sectors stay columns.
    constexpr double kNoSlower = 1.02;
    if (may_keep && plan_pieces(request, pieces) &&
        kept_in_pieces(request.module, pieces.graph, request.target) > 0 &&
        is_faster(request, pieces, plan, kNoSlower))
      plan = std::move(pieces);
    // Windows of many taps whose rows share most of them (7 x 7 x 7).
    KernelPlan shared;
    shared.checked = plan.checked;
    if (request.given)
      shared.graph = *request.given;
    const bool is_chosen = request.choice && request.choice->tile != 0; // one of these
    const auto *windows = std::get_if<WindowWalk>(&plan.walk);
    if (!whole_rows && !request.like && (!request.choice || is_chosen) &&
        (!windows || windows->tile == 1) && plan_short_rows_of_neighbours(request, shared, true) &&
        (is_chosen || is_faster(request, shared, plan)))
      plan = std::move(shared);
    // A thread that holds a row loads it element by element: whole vectors stream better.
    constexpr double kInVectors = 1.25;
    const auto *held = std::get_if<ColumnWalk>(&plan.walk);
    const bool holds = held && held->threads == 1 && held_words(plan) > 0;
    if (written && is_faster(request, *written, plan, holds ? kInVectors : kLeastGain))
      plan = *std::move(written);
    if (const auto *row = std::get_if<RowWalk>(&plan.walk); row && !whole_rows && stores_elements) {
      std::optional<KernelPlan> parts = plan_row_parts(request, plan.graph, *row);
      if (parts && is_faster(request, *parts, plan, kNoSlower))
        plan = *std::move(parts);
    }
    for (const int64_t copies : {4, 2}) {
      const auto *row = std::get_if<RowWalk>(&plan.walk);
      if (row == nullptr || whole_rows || stores_elements || request.given)
        break;
      std::optional<KernelPlan> beside = plan_rows_beside(request, plan.graph, *row, copies);
      if (beside && is_faster(request, *beside, plan)) {
        plan = *std::move(beside);
        break;
      }
    }
    // Sums over few elements are written out, unless threads that share a row are faster by far.
    if (covered && !is_faster(request, plan, *covered))
      plan = *std::move(covered);
  }
  finish_plan(request, plan);
  return plan;
}

} // namespace tsc::codegen
