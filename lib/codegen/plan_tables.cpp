// Pointwise kernels whose neighbouring elements look up in a part of a tensor at places that the
// data decides: planes of an image that is sampled, rows whose elements are taken in another order,
// tables of numbers. A block brings its part to shared memory first. In memory each lane asks for a
// line of its own, of which a multiprocessor serves two a clock; of shared memory a warp takes what
// meets in few banks at once.
#include "codegen/estimate_kernel.h"
#include "codegen/order_elements.h"
#include "codegen/plan.h"
#include "codegen/plan_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tsc::codegen {

namespace {

using ir::Op;

constexpr int64_t kBeforeTable = 16; // tc_table_at
constexpr int64_t kMostCopies = 8;   // parts of a block that share places
constexpr size_t kMostValues = 480;  // that a thread computes
constexpr double kLookedUpAgain = 1; // times that each element of a part is looked up, the fewest
constexpr double kBroughtBytes = 40; // a nanosecond, by one multiprocessor
constexpr double kClock = 1.7;       // a nanosecond
constexpr int kWarp = 32, kLine = 128;
constexpr int64_t kBytesBesideLookUp = 4; // of a thread's access, lanes being neighbours
constexpr double kIssued = 160;           // instructions of threads a nanosecond, by one
constexpr int kFewestThreads = 256;       // a block
constexpr int64_t kMostResident = 1536; // threads of a multiprocessor whose registers are asked for
/// Of what an element looks up several places in, a part: corners of a sample mostly share sectors,
/// which the first-level cache has (planes of 107 x 103 floats: 55 us, 45 from memory, but 50 and
/// 98 where samples lie anywhere; of 56 x 56 29 and 27, 30 and 61; H200).
constexpr int64_t kMostOfCorners = 36 << 10;
constexpr double kThreadsThatFill = 1280; // a multiprocessor

int64_t bytes_of(const ir::Module &module, const Value &value) {
  return static_cast<int64_t>(tensor::size_in_bytes(module.buffer(value.buffer).dtype));
}

/// Loads whose places the data decides anew for neighbours along the innermost loop, of memory that
/// the kernel does not change. (What positions alone decide, as in a resampling, is near for
/// neighbours.)
std::vector<ValueId> looked_up(const ir::Module &module, const KernelGraph &graph) {
  const std::vector<bool> varies = varying(graph, graph.element_variables.back()),
                          decided = decided_by_data(graph);
  std::vector<ValueId> result;
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const Value &value = graph[id];
    const auto is_own = [&](ValueId arg) {
      return varies[arg] && decided[arg] && graph[arg].op == Op::set_indirect &&
             symbolic::depends_on(value.index, graph[arg].symbol);
    };
    const auto changes = [&](const Value &other) {
      return is_store(other) && module.storage_of(other.buffer) == module.storage_of(value.buffer);
    };
    if (value.op == Op::load && std::any_of(value.args.begin(), value.args.end(), is_own) &&
        std::none_of(graph.values.begin(), graph.values.end(), changes))
      result.push_back(id);
  }
  return result;
}

/// What loads reach while the loops outside of element variable `inner` stand still; nothing where
/// that is more than `most` bytes, or cannot be told.
std::optional<std::vector<HeldTable>> tables_of(const ir::Module &module, const KernelGraph &graph,
                                                const std::vector<ValueId> &loads, size_t inner,
                                                int64_t most) {
  std::vector<HeldTable> tables;
  int64_t bytes = 0;
  for (const ValueId id : loads) {
    const Value &value = graph[id];
    Expr outside = 0;
    for (size_t i = 0; i < inner; ++i) {
      const Expr variable = graph.element_variables[i];
      const auto step = symbolic::coefficient_of(value.index, variable);
      if (!step || !step->is_integer())
        return std::nullopt;
      outside = outside + *step * variable;
    }
    const Expr within = symbolic::simplify(value.index - outside, graph.ranges);
    for (size_t i = 0; i < inner; ++i)
      if (symbolic::depends_on(within, graph.element_variables[i]))
        return std::nullopt;
    const symbolic::Interval reached = symbolic::bounds(within, graph.ranges);
    if (reached.low < 0 || reached.high > std::numeric_limits<int32_t>::max())
      return std::nullopt;
    auto table = std::find_if(tables.begin(), tables.end(), [&](const HeldTable &other) {
      return other.buffer == value.buffer &&
             symbolic::simplify(other.first - outside, graph.ranges).is_integer();
    });
    if (table == tables.end()) {
      HeldTable fresh;
      fresh.buffer = value.buffer;
      fresh.first = symbolic::simplify(outside + Expr(reached.low), graph.ranges);
      fresh.elements = reached.high - reached.low + 1;
      table = tables.insert(tables.end(), std::move(fresh));
    } else {
      const int64_t start = symbolic::simplify(table->first - outside, graph.ranges).value(),
                    first = std::min<int64_t>(0, reached.low - start),
                    last = std::max(table->elements - 1, reached.high - start);
      table->first = symbolic::simplify(table->first + Expr(first), graph.ranges);
      table->elements = last - first + 1;
    }
    table->loads.push_back(id);
  }
  for (HeldTable &table : tables) {
    constexpr int64_t kAligned = 16;
    table.offset = bytes;
    bytes += (table.elements * bytes_of(module, graph[table.loads.front()]) + kBeforeTable +
              kAligned - 1) /
             kAligned * kAligned;
    if (bytes > most)
      return std::nullopt;
  }
  return tables;
}

int64_t bytes_of(const ir::Module &module, const KernelGraph &graph,
                 const std::vector<HeldTable> &tables) {
  const HeldTable &last = tables.back();
  const int64_t end =
      last.offset + last.elements * bytes_of(module, graph[last.loads.front()]) + kBeforeTable;
  return (end + 15) / 16 * 16;
}

/// The loops outside of `inner` as rows, of which each is `parts` parts of the first loop within.
void take_rows(KernelGraph &graph, size_t inner, int64_t parts) {
  const auto at = static_cast<std::ptrdiff_t>(inner);
  graph.row_variables.assign(graph.element_variables.begin(), graph.element_variables.begin() + at);
  graph.row_sizes.assign(graph.element_sizes.begin(), graph.element_sizes.begin() + at);
  graph.element_variables.erase(graph.element_variables.begin(),
                                graph.element_variables.begin() + at);
  graph.element_sizes.erase(graph.element_sizes.begin(), graph.element_sizes.begin() + at);
  if (parts > 1) {
    const Expr variable = graph.element_variables.front(), size = graph.element_sizes.front();
    const int64_t length = size.value() / parts;
    const Expr part = symbolic::symbol(symbolic::SymbolSort::row, 0);
    graph.row_variables.push_back(part);
    graph.row_sizes.emplace_back(parts);
    graph.element_sizes.front() = length;
    graph.ranges.set_size(part, parts);
    graph.ranges.set_size(variable, length);
    for (Value &value : graph.values)
      value.index = symbolic::simplify(
          symbolic::substitute(value.index, {{variable, part * Expr(length) + variable}}),
          graph.ranges);
  }
  assign_phases(graph);
}

/// How blocks take the rows that the loops outside are.
struct Turns {
  int64_t parts = 0;      // that each row's elements are divided into; 0: they are too few
  int threads = 0;        // of a block
  bool are_taken = false; // by blocks that have several, else each has one
  double time = 0;        // in nanoseconds
};

/// Rows, their elements, the bytes that each looks up in, and what an element takes.
struct RowWork {
  int64_t rows = 1, elements = 1, bytes = 0;
  int vector = 1;
  double spent = 0; // nanoseconds of a multiprocessor
};

/// The multiprocessors' rounds are whole, each part brings the table again, and where each block
/// has one, all bring theirs at once, and then none. 0: there are not more parts than blocks.
double nanoseconds_of(const target::Target &target, const RowWork &work, const Turns &turns) {
  constexpr double kFirst = 1200; // nanoseconds until the first of it is there
  const int64_t blocks = std::min(
                    blocks_by_shared_memory(target, work.bytes * (turns.are_taken ? 2 : 1)),
                    kMostResident / turns.threads),
                parts = work.rows * turns.parts, at_once = blocks * target.multiprocessors,
                step = int64_t{turns.threads} * work.vector,
                steps = (work.elements / turns.parts + step - 1) / step;
  if (turns.are_taken && parts <= at_once)
    return 0;
  const double rounds = std::ceil(static_cast<double>(parts) / static_cast<double>(at_once)),
               bring = static_cast<double>(work.bytes * blocks) / kBroughtBytes,
               busy = std::min(1.0, static_cast<double>(turns.threads * blocks) / kThreadsThatFill),
               compute = work.spent * static_cast<double>(steps * step * blocks) / busy;
  return turns.are_taken ? kFirst + bring + rounds * std::max(bring, compute)
                         : rounds * (kFirst + bring + compute);
}

/// `wanted`: threads, or 0.
Turns choose_turns(const target::Target &target, const KernelGraph &graph, size_t inner,
                   RowWork work, int wanted) {
  constexpr int64_t kMostParts = 1024;
  const int64_t size = graph.element_sizes[inner].value();
  const bool innermost = inner + 1 == graph.element_sizes.size();
  for (size_t i = 0; i < graph.element_sizes.size(); ++i)
    (i < inner ? work.rows : work.elements) *= graph.element_sizes[i].value();
  std::vector<int64_t> divisors;
  for (int64_t parts = 1; parts <= std::min(size, kMostParts); ++parts)
    if (size % parts == 0 && (!innermost || size / parts % work.vector == 0))
      divisors.push_back(parts);
  Turns best;
  for (const bool are_taken : {false, true})
    for (const int threads : {1024, 768, 512, 384, 256})
      for (const int64_t parts : divisors) {
        Turns turns{parts, threads, are_taken, 0};
        const bool fits = work.bytes * (are_taken ? 2 : 1) <= target.shared_bytes_per_block,
                   leaves_idle = parts > 1 && work.elements / parts < threads * work.vector;
        if (!fits || leaves_idle || (wanted != 0 && threads != wanted))
          continue;
        turns.time = nanoseconds_of(target, work, turns);
        if (turns.time > 0 && (best.parts == 0 || turns.time < best.time))
          best = turns;
      }
  return work.rows * best.parts >= target.multiprocessors / 2 ? best : Turns{};
}

struct Planned {
  KernelPlan plan;
  double time = 0; // as of Turns
};

/// Of an access to memory, the share of a line that an element takes.
double line_of(const ir::Module &module, const KernelPlan &plan, ValueId id, int vector) {
  const Value &value = plan.graph[id];
  const auto bytes = static_cast<double>(bytes_of(module, value));
  if (plan.access[id] != Access::element)
    return bytes / kLine;
  const auto step = symbolic::coefficient_of(value.index, plan.graph.element_variables.back());
  const double apart =
      step && step->is_integer() ? std::fabs(static_cast<double>(step->value())) : 1;
  return std::clamp(apart * vector * bytes / kLine, bytes / kLine, 1.0);
}

/// Elements of a thread's run. Corners of a sample are shared by neighbours, as far as they lie
/// together: lanes are neighbours then.
int choose_run(const ir::Module &module, const KernelPlan &plan, bool has_corners) {
  const KernelGraph &graph = plan.graph;
  int vector = choose_vector(module, plan);
  if (has_corners) {
    int64_t narrowest = kBytesBesideLookUp;
    for (const Value &value : graph.values)
      if (value.op == Op::store)
        narrowest = std::min(narrowest, bytes_of(module, value));
    vector = std::min(vector, static_cast<int>(kBytesBesideLookUp / narrowest));
  }
  while (vector > 1 &&
         !symbolic::known_multiple_of(graph.element_sizes.back(), vector, graph.ranges))
    vector /= 2;
  return vector;
}

/// Nanoseconds of a multiprocessor for an element, by its instructions or by what the first-level
/// cache and shared memory move. After classify_accesses.
double spent_on_element(const ir::Module &module, const KernelPlan &plan,
                        const std::vector<ValueId> &loads, int vector) {
  double instructions = 0, clocks = 0;
  for (ValueId id = 0; id < plan.graph.values.size(); ++id) {
    const Value &value = plan.graph[id];
    if (value.level != Level::element)
      continue;
    instructions += instructions_of(plan.graph, value);
    if (std::find(loads.begin(), loads.end(), id) != loads.end())
      clocks += kBanksMet / kWarp;
    else if (value.buffer != ir::kNone)
      clocks += line_of(module, plan, id, vector);
  }
  return std::max(instructions / kIssued, clocks / kClock);
}

/// One plan: the loops from `inner` on within a block, `copies` elements of the loop before a
/// thread.
std::optional<Planned> plan_with(const Request &request, const KernelGraph &given, size_t inner,
                                 int64_t copies) {
  const ir::Module &module = request.module;
  KernelPlan plan;
  plan.graph = given;
  std::string shared; // for the description
  if (copies > 1) {
    const KernelGraph by_copies =
        divide_loop(given, {inner - 1, copies, false}, unused_variable(given));
    std::optional<Unrolled> unrolled =
        unroll(by_copies, by_copies.element_variables.size() - 1, kMostValues);
    if (!unrolled)
      return std::nullopt;
    plan.graph = std::move(unrolled->graph);
    shared = std::to_string(copies) + " elements along " +
             given.element_variables[inner - 1].spelling() +
             " a thread, which share what does not depend on it, ";
    inner -= given.element_sizes[inner - 1].is_integer(copies) ? 1 : 0; // that loop is gone
    plan.copies = static_cast<int>(copies);
  }
  KernelGraph &graph = plan.graph;
  const std::vector<ValueId> loads = looked_up(module, graph);
  const bool has_corners = loads.size() > static_cast<size_t>(copies);
  std::optional<std::vector<HeldTable>> tables =
      tables_of(module, graph, loads, inner, request.target.shared_bytes_per_block);
  if (!tables || tables->empty())
    return std::nullopt;
  const int64_t bytes = bytes_of(module, graph, *tables);
  double held = 0, looked = static_cast<double>(loads.size());
  for (const HeldTable &table : *tables)
    held += static_cast<double>(table.elements);
  for (size_t i = inner; i < graph.element_sizes.size(); ++i)
    looked *= static_cast<double>(graph.element_sizes[i].value());
  if (looked < kLookedUpAgain * held || (has_corners && bytes > copies * kMostOfCorners))
    return std::nullopt;
  RowWalk walk;
  assign_phases(graph);
  walk.vector = choose_run(module, plan, has_corners);
  classify_accesses(module, plan, walk.vector);
  RowWork work;
  work.bytes = bytes;
  work.vector = walk.vector;
  work.spent = spent_on_element(module, plan, loads, walk.vector);
  const Turns turns = choose_turns(request.target, graph, inner, work, request.chosen().threads);
  if (turns.parts == 0)
    return std::nullopt;
  walk.threads = turns.threads;
  take_rows(graph, inner, turns.parts);
  const auto within = graph.elements().value() / walk.vector;
  while (walk.threads > kFewestThreads && walk.threads > within)
    walk.threads /= 2;
  plan.tables = *std::move(tables);
  plan.shared_bytes = static_cast<int>(bytes * (turns.are_taken ? 2 : 1));
  plan.walk = walk;
  classify_accesses(module, plan, walk.vector);
  if (walk.vector == 1)
    load_apart(plan);
  plan.preloaded.assign(graph.values.size(), false);
  constexpr int kMostAhead = 2; // other blocks' loads are under way as well
  walk.ahead =
      std::min(kMostAhead, runs_ahead(module, plan, walk.vector, walk.vector, walk.threads));
  fill_phases(module, plan, request.group, false);
  plan.grid = graph.rows();
  plan.block = walk.block();
  plan.walk = walk;
  plan.has_barriers = true;
  const int64_t blocks = blocks_by_shared_memory(request.target, plan.shared_bytes);
  plan.resident = static_cast<int>(std::min(blocks, kMostResident / plan.block));
  if (turns.are_taken) {
    plan.turns = plan.grid;
    plan.grid =
        Expr(std::min(plan.grid.value(), plan.resident * int64_t{request.target.multiprocessors}));
  }
  plan.description = "pointwise, what elements look up in in shared memory, " +
                     std::to_string(bytes) + " bytes a block of " + std::to_string(walk.threads) +
                     " threads, " + shared + access_text(module, plan, walk.vector);
  return Planned{std::move(plan), turns.time};
}

} // namespace

bool plan_tables(const Request &request, KernelPlan &plan) {
  const KernelGraph &graph = plan.graph;
  if (request.like || !request.checked.sizes.empty() || graph.element_variables.empty() ||
      !graph.elements().is_integer() || graph.elements().is_integer(0))
    return false;
  const std::vector<ValueId> loads = looked_up(request.module, graph);
  const bool adds = std::any_of(graph.values.begin(), graph.values.end(), [](const Value &value) {
    return value.op == Op::store && value.mode != ir::StoreMode::plain;
  });
  if (loads.empty() || adds || !graph.stores.size())
    return false;
  std::optional<Planned> best;
  for (size_t inner = 0; inner < graph.element_variables.size(); ++inner)
    for (int64_t copies = 1; copies <= kMostCopies; ++copies) {
      const bool divides =
          copies == 1 ||
          (inner > 0 && graph.element_sizes[inner - 1].value() % copies == 0 &&
           symbolic::depends_on(graph[loads.front()].index, graph.element_variables[inner - 1]));
      std::optional<Planned> made =
          divides ? plan_with(request, graph, inner, copies) : std::nullopt;
      if (made && (!best || made->time < best->time))
        best = std::move(made);
    }
  if (!best)
    return false;
  plan = std::move(best->plan);
  return true;
}

} // namespace tsc::codegen
