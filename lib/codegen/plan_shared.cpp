// Pointwise kernels that compute much which is the same along a loop: the places and weights of a
// resampling for all channels, a gather's indices for all rows. A thread takes several elements
// along that loop, so that what they share is computed once, and their loads are under way at once.
#include "codegen/estimate_kernel.h"
#include "codegen/order_elements.h"
#include "codegen/plan.h"
#include "codegen/plan_steps.h"

#include <algorithm>
#include <tuple>

namespace tsc::codegen {

namespace {

using ir::Op;

constexpr int64_t kMostCopies = 8, kMostOfRuns = 4;
/// Copies of what streams through, whose loads are under way already: eight streams at once took
/// 1.02 to 1.5 times as long (bilinear of 240 x 320 to a quarter, flips, nearest, repeats; H200).
constexpr int64_t kMostOfStreams = 4;
constexpr double kMostSkipped = 16;
constexpr int kInTurnBlock = 256;
constexpr int64_t kWrittenOut = 4;       // elements of a thread that need no loop
constexpr size_t kMostValues = 480;      // that a thread computes
constexpr double kMostRegisters = 64;    // that hold what a thread loads
constexpr double kPlaceInstructions = 6; // of a loop's variable, from the element's number
constexpr double kIssued = 96;           // instructions a clock and multiprocessor
constexpr double kClock = 1.7e9;         // a second
constexpr double kLeastGain = 0.8;       // of the time before: what is worth more text
// Of memory's time, which hides fewer instructions; less where they stand before the loads.
constexpr double kOfMemory = 1, kOfMemoryBeforeLoads = 0.5;
constexpr int64_t kFewestThreads = 512, kFewestOfRuns = 2048; // a multiprocessor
constexpr size_t kBytesBesideGather = 4; // of a thread's access, lanes being neighbours
constexpr double kFirstLevelCache = 192 * 1024, kPartlyCached = 1024 * 1024; // bytes
constexpr double kBlocksAtOnce = 8;                                          // of a multiprocessor
constexpr double kMostRepeated = 1.0 / 16; // of the work: elements that two threads compute

size_t bytes_of(const ir::Module &module, const Value &value) {
  return tensor::size_in_bytes(module.buffer(value.buffer).dtype);
}

/// Loads whose places are looked up, element by element.
bool gathers(const KernelPlan &plan) {
  const KernelGraph &graph = plan.graph;
  return std::any_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
    const auto id = static_cast<ValueId>(&value - graph.values.data());
    return value.op == Op::load && !value.args.empty() && plan.access[id] == Access::element;
  });
}

/// Elements that lie apart, whose lines the cache holds from one run to the next: more of them at
/// once would not fit.
bool strides(const KernelPlan &plan) {
  const KernelGraph &graph = plan.graph;
  return std::any_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
    const auto id = static_cast<ValueId>(&value - graph.values.data());
    return value.buffer != ir::kNone && value.level == Level::element &&
           plan.access[id] == Access::element;
  });
}

/// Of what is gathered at places that the data decides, the bytes that neighbouring threads may
/// touch: the buffer's, by the loops that go through it in order. 0 if nothing is; -1 if sizes are
/// symbols.
double gathered_bytes(const ir::Module &module, const KernelGraph &graph) {
  const std::vector<bool> loaded = decided_by_data(graph);
  double most = 0;
  for (const Value &value : graph.values) {
    if (value.op != Op::load || std::none_of(value.args.begin(), value.args.end(),
                                             [&](ValueId arg) { return loaded[arg]; }))
      continue;
    const auto held = module.buffer(value.buffer).layout.storage_size().as_integer();
    double bytes =
        held ? static_cast<double>(*held) * static_cast<double>(bytes_of(module, value)) : -1;
    for (size_t k = 0; k < graph.element_variables.size(); ++k)
      if (symbolic::depends_on(value.index, graph.element_variables[k])) {
        const auto size = graph.element_sizes[k].as_integer();
        bytes = size && bytes >= 0 ? bytes / static_cast<double>(std::max<int64_t>(1, *size)) : -1;
      }
    if (bytes < 0)
      return -1;
    most = std::max(most, bytes);
  }
  return most;
}

/// Whether an element gathers at several places that the data decides (the corners of a sample),
/// elements along `loop` far from each other. Corners beside each other share a sector: the cache
/// has it as long as not too much else is asked for between the two (grid_sample from planes of
/// 2 MB: 8 elements at once took 755 us, one 377).
bool gathers_corners(const ir::Module &module, const KernelGraph &graph, Expr loop) {
  constexpr double kSector = 32;
  const std::vector<bool> loaded = decided_by_data(graph);
  std::vector<BufferId> seen;
  bool several = false;
  for (const Value &value : graph.values) {
    const bool decided =
        value.op == Op::load &&
        std::any_of(value.args.begin(), value.args.end(), [&](ValueId arg) { return loaded[arg]; });
    const auto step = decided ? symbolic::coefficient_of(value.index, loop) : std::nullopt;
    if (!step || !step->is_integer() ||
        static_cast<double>(step->value()) * static_cast<double>(bytes_of(module, value)) < kSector)
      continue;
    several = several || std::find(seen.begin(), seen.end(), value.buffer) != seen.end();
    seen.push_back(value.buffer);
  }
  return several;
}

/// Bytes of memory an element; of sizes that are symbols, as if nothing were shared. `skipped`:
/// where more is held than there are elements (resampling to fewer), what lies between those that
/// are read counts, too.
double bytes_of_element(const ir::Module &module, const KernelGraph &graph, bool skipped = false) {
  const auto elements = graph.elements().as_integer();
  std::vector<BufferId> counted;
  double bytes = 0;
  for (const Value &value : graph.values) {
    if (value.buffer == ir::kNone ||
        std::find(counted.begin(), counted.end(), value.buffer) != counted.end())
      continue;
    counted.push_back(value.buffer);
    const auto held = module.buffer(value.buffer).layout.storage_size().as_integer();
    const double share = held && elements
                             ? std::min(skipped ? kMostSkipped : 1.0,
                                        static_cast<double>(*held) /
                                            static_cast<double>(std::max<int64_t>(1, *elements)))
                             : 1.0;
    bytes += share * static_cast<double>(bytes_of(module, value));
  }
  return bytes;
}

/// A loop along which a thread takes several elements.
struct SharedLoop : DividedLoop {
  double before = 0, after = 0; // instructions an element
};

class Search {
public:
  /// `plan`: accesses are classified for the runs that it would have.
  /// `looks_up`: it gathers. Else its runs are under way already: fewer copies of them.
  Search(const Request &request, const KernelPlan &plan, bool looks_up)
      : request_(request), plan_(plan), graph_(plan.graph), vector_(vector_of(plan.walk)),
        looks_up_(looks_up) {}

  std::optional<SharedLoop> best() const {
    std::optional<SharedLoop> result;
    for (size_t loop = 0; loop + 1 < graph_.element_variables.size(); ++loop) {
      const auto found = along(loop);
      const bool beside = found && loads_neighbours(loop),
                 had = result && loads_neighbours(result->loop);
      if (found && (!result || (beside != had ? beside : found->after < result->after)))
        result = found;
    }
    return result;
  }

  /// The same where what several elements gather at once does not fit in the first-level cache, and
  /// what one gathers just does, or where each gathers what lies beside each other: as many as
  /// leave some rounds of blocks.
  std::optional<SharedLoop> best_in_turn() const {
    const double gathered = gathered_bytes(request_.module, graph_);
    const bool just_fits = gathered * 2 > kFirstLevelCache && gathered <= kPartlyCached;
    if (!looks_up_ || !graph_.elements().is_integer())
      return std::nullopt;
    std::optional<SharedLoop> result;
    for (size_t loop = 0; loop + 1 < graph_.element_variables.size(); ++loop) {
      if (!just_fits && !gathers_corners(request_.module, graph_, graph_.element_variables[loop]))
        continue;
      constexpr int64_t kRounds = 3;
      auto found = in_turn(loop, kRounds * kFewestOfRuns);
      if (!found && !just_fits)
        found = in_turn(loop, kFewestThreads);
      if (found && (!result || found->after < result->after))
        result = found;
    }
    return result;
  }

private:
  const Request &request_;
  const KernelPlan &plan_;
  const KernelGraph &graph_;
  int vector_;
  bool looks_up_;

  int64_t most_copies() const {
    double all = 0;
    for (ValueId id = 0; id < graph_.values.size(); ++id)
      all += graph_[id].level == Level::element ? instructions(id) : 0;
    const double memory = bytes_of_element(request_.module, graph_, true) * kClock *
                          request_.target.multiprocessors / request_.target.bandwidth;
    return all / kIssued < memory ? kMostOfStreams : kMostCopies;
  }
  /// Whether elements along a loop load what lies beside each other, of what is no small table:
  /// what is fetched is used.
  bool loads_neighbours(size_t loop) const {
    constexpr int64_t kTable = 16; // times smaller than the results
    const auto elements = graph_.elements().as_integer();
    return std::any_of(graph_.values.begin(), graph_.values.end(), [&](const Value &value) {
      const auto step = symbolic::coefficient_of(value.index, graph_.element_variables[loop]);
      if (value.op != Op::load || !step || !step->is_integer(1))
        return false;
      const auto held = request_.module.buffer(value.buffer).layout.storage_size().as_integer();
      return held && elements && *held * kTable > *elements;
    });
  }
  double instructions(ValueId id) const {
    const bool once = plan_.uniform[id] || plan_.access[id] == Access::vector;
    return instructions_of(graph_, graph_[id]) / (once ? vector_ : 1);
  }
  /// Of an element's instructions, those that are the same along a loop, and its own; registers of
  /// what it loads, and values that it has to itself.
  struct Split {
    double shared = 0, own = 0, loaded = 0;
    size_t copied = 0;
  };
  /// Nothing where run-time indices depend on the loop: their symbols stand in indices.
  std::optional<Split> split(size_t loop) const {
    const std::vector<bool> varies = varying(graph_, graph_.element_variables[loop]);
    Split result;
    result.shared =
        kPlaceInstructions * static_cast<double>(graph_.element_variables.size() - 1) / vector_;
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      const Value &value = graph_[id];
      if (value.op == Op::set_indirect && varies[id])
        return std::nullopt;
      if (value.level != Level::element)
        continue;
      (varies[id] ? result.own : result.shared) += instructions(id);
      result.copied += varies[id] ? 1 : 0;
      if (varies[id] && value.op == Op::load)
        result.loaded +=
            std::max(4.0, static_cast<double>(bytes_of(request_.module, value)) * vector_) / 4;
    }
    return result;
  }
  /// `threads`: a multiprocessor, the fewest.
  std::optional<SharedLoop> in_turn(size_t loop, int64_t threads) const {
    constexpr int64_t kMostInTurn = 32, kFewestInTurn = 3;
    const std::optional<Split> parts = split(loop);
    const auto size = graph_.element_sizes[loop].as_integer();
    std::optional<SharedLoop> result;
    for (int64_t copies = kMostInTurn; parts && size && copies >= kFewestInTurn; --copies) {
      const int64_t turns = (*size + copies - 1) / copies;
      const double repeated = static_cast<double>(turns * copies) / static_cast<double>(*size) - 1;
      const bool fills =
          graph_.elements().value() / copies >= threads * request_.target.multiprocessors;
      if (!fills || copies > *size || repeated > kMostRepeated || (repeated > 0 && !may_repeat()))
        continue;
      const double after =
          (parts->shared / static_cast<double>(copies) + parts->own) * (1 + repeated);
      if (!result || after < result->after)
        result = SharedLoop{{loop, copies, repeated > 0}, parts->shared + parts->own, after};
    }
    return result;
  }
  std::optional<SharedLoop> along(size_t loop) const {
    const std::optional<Split> parts = split(loop);
    if (!parts)
      return std::nullopt;
    const auto [shared, own, loaded, copied] = *parts;
    const Expr size = graph_.element_sizes[loop];
    const double gathered = gathered_bytes(request_.module, graph_);
    if (gathers_corners(request_.module, graph_, graph_.element_variables[loop]))
      return std::nullopt; // in turn
    std::optional<SharedLoop> result;
    const int64_t most = looks_up_ ? most_copies() : kMostOfRuns;
    for (int64_t copies = 2; copies <= most; ++copies) {
      // What one element gathers from anywhere may stay in the first-level cache, what several do
      // would not (grid_sample from planes of 256 KB: 161 us, by eights 269), nor what the blocks
      // of a multiprocessor gather, each from rows of its own (index_select from rows of 16 KB: 83
      // us, by twos 153, by eights 164).
      if (gathered < 0 ||
          (gathered <= kPartlyCached &&
           gathered * static_cast<double>(copies) * kBlocksAtOnce > kFirstLevelCache))
        continue;
      SharedLoop found{{loop, copies, false}, shared + own, 0};
      const auto length = size.as_integer();
      double repeated = 0;
      if (!symbolic::known_multiple_of(size, copies, graph_.ranges)) {
        if (symbolic::bounds(size, graph_.ranges).low < copies || !looks_up_ || !may_repeat())
          continue;
        found.overlaps = true;
        constexpr double kOfAnySize = 1.0 / 32;
        repeated = length ? static_cast<double>((*length + copies - 1) / copies * copies) /
                                    static_cast<double>(*length) -
                                1
                          : kOfAnySize;
      }
      const auto elements = graph_.elements().as_integer();
      if (repeated > kMostRepeated || loaded * static_cast<double>(copies) > kMostRegisters ||
          copied * static_cast<size_t>(copies) > kMostValues ||
          (elements &&
           *elements / (copies * vector_) <
               (looks_up_ ? kFewestThreads : kFewestOfRuns) * request_.target.multiprocessors))
        continue;
      found.after = (shared / static_cast<double>(copies) + own) * (1 + repeated);
      if (!result || found.after < result->after)
        result = found;
    }
    return result;
  }
  /// Elements that two threads compute are stored twice, as they are.
  bool may_repeat() const {
    return std::all_of(graph_.values.begin(), graph_.values.end(), [&](const Value &value) {
      if (value.op != Op::store)
        return true;
      const auto &inplace = request_.group.inplace;
      const bool overwrites = std::any_of(inplace.begin(), inplace.end(), [&](const auto &pair) {
        return pair.first == value.buffer;
      });
      const auto reads = [&](const Value &other) {
        return other.op == Op::load &&
               request_.module.storage_of(other.buffer) == request_.module.storage_of(value.buffer);
      };
      return value.mode == ir::StoreMode::plain && !overwrites &&
             std::none_of(graph_.values.begin(), graph_.values.end(), reads);
    });
  }
};

/// Lanes that are neighbours in memory share the lines of what they gather; long runs are for what
/// a thread reads and writes as it lies.
int choose_run(const ir::Module &module, KernelPlan &plan) {
  int vector = choose_vector(module, plan);
  classify_accesses(module, plan, vector);
  if (!gathers(plan))
    return vector;
  size_t narrowest = kBytesBesideGather;
  for (const Value &value : plan.graph.values)
    if (value.op == Op::store)
      narrowest = std::min(narrowest, bytes_of(module, value));
  return std::min(vector, static_cast<int>(kBytesBesideGather / narrowest));
}

} // namespace

namespace {

/// Whether places follow from that loop by a factor alone.
bool is_linear(const KernelGraph &graph, Expr variable) {
  return std::all_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
    const auto step = symbolic::depends_on(value.index, variable)
                          ? symbolic::coefficient_of(value.index, variable)
                          : std::optional<Expr>(Expr(0));
    return step && step->is_integer() &&
           (value.args.empty() || value.op != Op::load); // nothing is looked up
  });
}

/// How many elements along a loop a thread takes; 0: none.
int64_t copies_beside(const KernelGraph &graph, size_t loop, Beside loops) {
  const Expr variable = graph.element_variables[loop], inner = graph.element_variables.back();
  const auto size = graph.element_sizes[loop].as_integer();
  const auto steps_by_one = [](const Value &value, Expr along) {
    const auto step = symbolic::coefficient_of(value.index, along);
    return step && step->is_integer(1);
  };
  const bool lies_beside =
      std::any_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
        return value.op == Op::load && value.level == Level::element && value.args.empty() &&
               steps_by_one(value, variable) && symbolic::depends_on(value.index, inner) &&
               !steps_by_one(value, inner);
      });
  if (!size || (loops == Beside::loads ? !lies_beside : !is_linear(graph, variable)))
    return 0;
  int64_t copies = loops == Beside::loads ? kMostCopies : kMostOfStreams;
  while (copies > 1 && *size % copies != 0)
    --copies;
  return copies > 1 ? copies : 0;
}

/// Whether one load is all that is read, and the same along a loop.
bool repeats(const KernelGraph &graph, Expr variable) {
  int loads = 0, repeated = 0;
  for (const Value &value : graph.values)
    if (value.op == Op::load) {
      ++loads;
      repeated += symbolic::depends_on(value.index, variable) ? 0 : 1;
    }
  return loads == 1 && repeated == 1;
}

/// Bytes of an element's loads that are the same along a loop, of what a first-level cache does not
/// hold; 0 if they are not most of what it loads. Not of loads under conditions, as windows are.
double repeated_bytes(const ir::Module &module, const KernelGraph &graph, Expr variable) {
  double bytes = 0, all = 0;
  for (const Value &value : graph.values) {
    if (value.op != Op::load)
      continue;
    const auto size = static_cast<double>(bytes_of(module, value));
    const auto held = module.buffer(value.buffer).layout.storage_size().as_integer();
    const bool is_large = !held || static_cast<double>(*held) * size > kFirstLevelCache;
    all += size;
    bytes += is_large && value.guard == ir::kNone && !symbolic::depends_on(value.index, variable)
                 ? size
                 : 0;
  }
  return 2 * bytes > all ? bytes : 0;
}

} // namespace

KernelGraph divide_loop(KernelGraph graph, const DividedLoop &divided, Expr within) {
  const Expr variable = graph.element_variables[divided.loop],
             size = graph.element_sizes[divided.loop], copies = divided.copies;
  const Expr count = symbolic::ceil_div(size, copies);
  graph.ranges.set_size(variable, count);
  graph.ranges.set_size(within, copies);
  const Expr first =
      divided.overlaps ? symbolic::minimum(variable * copies, size - copies) : variable * copies;
  graph.element_sizes[divided.loop] = divided.overlaps ? count : symbolic::floor_div(size, copies);
  graph.element_variables.push_back(within);
  graph.element_sizes.push_back(copies);
  const bool is_all = graph.element_sizes[divided.loop].is_integer(1); // of the loop, a thread's
  for (Value &value : graph.values)
    value.index = symbolic::simplify(
        symbolic::substitute(value.index, {{variable, is_all ? within : first + within}}),
        graph.ranges);
  if (is_all) {
    const auto at = static_cast<std::ptrdiff_t>(divided.loop);
    graph.element_variables.erase(graph.element_variables.begin() + at);
    graph.element_sizes.erase(graph.element_sizes.begin() + at);
  }
  return graph;
}

double memory_time(const Request &request, const KernelGraph &graph) {
  const auto elements = graph.elements().as_integer();
  return elements ? bytes_of_element(request.module, graph) * static_cast<double>(*elements) /
                        request.target.bandwidth * 1e9
                  : 0;
}

bool plan_beside(const Request &request, KernelPlan &plan, Beside loops) {
  constexpr int64_t kMostParts = 8;
  const ir::Module &module = request.module;
  if (request.like || !request.checked.sizes.empty())
    return false;
  KernelGraph apart = plan.graph;
  const std::optional<size_t> parts =
      loops == Beside::parts ? divide_into_parts(apart, kMostParts) : std::nullopt;
  const KernelGraph &graph = parts ? apart : plan.graph;
  if (graph.element_variables.size() < 2 || (loops == Beside::parts && !parts))
    return false;
  SharedLoop shared;
  // What is repeated along a loop is read once: all there is, or the most bytes.
  std::tuple<bool, double, int64_t> most(false, 0, 1); // and copies
  for (size_t loop = parts.value_or(0); loop + 1 < graph.element_variables.size(); ++loop) {
    const Expr variable = graph.element_variables[loop];
    const std::tuple<bool, double, int64_t> found(repeats(graph, variable),
                                                  repeated_bytes(module, graph, variable),
                                                  copies_beside(graph, loop, loops));
    if (std::get<2>(found) > 1 && found > most) {
      most = found;
      shared.loop = loop;
      shared.copies = std::get<2>(found);
    }
    if (parts)
      break;
  }
  const auto elements = graph.elements().as_integer();
  if (shared.copies == 1 || !elements ||
      *elements / shared.copies < kFewestOfRuns * request.target.multiprocessors)
    return false;
  const KernelGraph by_copies = divide_loop(graph, shared, unused_variable(graph));
  std::optional<Unrolled> unrolled =
      unroll(by_copies, by_copies.element_variables.size() - 1, kMostValues);
  if (!unrolled)
    return false;
  KernelPlan fresh;
  fresh.graph = std::move(unrolled->graph);
  remove_dead_values(fresh.graph); // of parts that an element is not in
  fresh.copies = static_cast<int>(shared.copies);
  fresh.bytes_shared = std::get<1>(most);
  assign_phases(fresh.graph);
  FlatWalk walk;
  walk.vector = choose_vector(module, fresh);
  classify_accesses(module, fresh, walk.vector);
  preload_all(fresh);
  const std::string variable = graph.element_variables[shared.loop].spelling();
  plan = std::move(fresh);
  finish_flat(request, plan, walk, 1);
  plan.description = "pointwise, " + std::to_string(shared.copies) + " elements along " + variable +
                     (loops == Beside::loads   ? " a thread, which lie beside each other, "
                      : loops == Beside::parts ? " a thread, one of each part, "
                                               : " a thread, which share their places, ") +
                     plan.description;
  return true;
}

bool plan_in_turn(const Request &request, KernelPlan &plan) {
  const auto &[module, group, target, given, checked, like, choice] = request;
  if (like || !checked.sizes.empty() || plan.graph.element_variables.size() < 2)
    return false;
  KernelPlan before;
  before.graph = plan.graph;
  before.walk = FlatWalk{};
  classify_accesses(module, before, choose_vector(module, before));
  if (!gathers(before)) // whole runs are looked up (rows of 56 floats in turn: 41.6 us)
    return false;
  classify_accesses(module, before, 1);
  const std::optional<SharedLoop> shared = Search(request, before, true).best_in_turn();
  if (!shared || shared->after > shared->before * kLeastGain)
    return false;
  const std::string variable = plan.graph.element_variables[shared->loop].spelling();
  KernelPlan fresh;
  fresh.graph = divide_loop(plan.graph, *shared, unused_variable(plan.graph));
  KernelGraph &graph = fresh.graph;
  const auto split_off = [](std::vector<Expr> &elements, std::vector<Expr> &rows) {
    rows.assign(elements.begin(), elements.end() - 1);
    elements.erase(elements.begin(), elements.end() - 1);
  };
  split_off(graph.element_variables, graph.row_variables);
  split_off(graph.element_sizes, graph.row_sizes);
  assign_phases(graph);
  ColumnWalk walk;
  walk.columns = kInTurnBlock;
  walk.threads = 1;
  walk.in_turn = shared->copies > kWrittenOut;
  classify_accesses(module, fresh, 1);
  fill_phases(module, fresh, group, false);
  walk.guard_row = !symbolic::known_multiple_of(graph.rows(), walk.columns, graph.ranges);
  fresh.grid = symbolic::ceil_div(graph.rows(), walk.columns);
  fresh.block = walk.block();
  fresh.walk = walk;
  fresh.description = "pointwise, " + std::to_string(shared->copies) + " elements along " +
                      variable +
                      " a thread, one after the other, which share what does not "
                      "depend on it, one element an access";
  plan = std::move(fresh);
  return true;
}

bool plan_shared(const Request &request, KernelPlan &plan) {
  const auto &[module, group, target, given, checked, like, choice] = request;
  if (like || !checked.sizes.empty() || plan.graph.element_variables.size() < 2)
    return false;
  KernelPlan before;
  before.graph = plan.graph;
  FlatWalk walk;
  walk.vector = choose_run(module, before);
  before.walk = walk;
  classify_accesses(module, before, walk.vector);
  const bool looks_up = gathers(before);
  if (!looks_up &&
      (!plan.graph.element_sizes.back().is_integer() || walk.vector == 1 || strides(before)))
    return false; // runs that the launch may find to be whole, or rows', are worth more
  const std::optional<SharedLoop> shared = Search(request, before, looks_up).best();
  if (!shared || shared->after > shared->before * kLeastGain)
    return false;
  const double of_memory =
      bytes_of_element(module, plan.graph) * kClock * target.multiprocessors / target.bandwidth;
  if (shared->before / kIssued < of_memory * (looks_up ? kOfMemoryBeforeLoads : kOfMemory))
    return false;
  const KernelGraph by_copies = divide_loop(plan.graph, *shared, unused_variable(plan.graph));
  std::optional<Unrolled> unrolled =
      unroll(by_copies, by_copies.element_variables.size() - 1, kMostValues * 2);
  if (!unrolled)
    return false;
  KernelPlan fresh;
  fresh.graph = std::move(unrolled->graph);
  fresh.copies = static_cast<int>(shared->copies);
  assign_phases(fresh.graph);
  if (const int chosen = request.chosen().vector; chosen != 0)
    walk.vector = chosen;
  classify_accesses(module, fresh, walk.vector);
  find_shifts(module, fresh, walk.vector, true);
  preload_all(fresh);
  if (walk.vector > 1)
    find_choices(module, fresh);
  const std::string variable = plan.graph.element_variables[shared->loop].spelling();
  plan = std::move(fresh);
  finish_flat(request, plan, walk, 1);
  plan.description = "pointwise, " + std::to_string(shared->copies) + " elements along " +
                     variable + " a thread, which share what does not depend on it, " +
                     plan.description;
  return true;
}

} // namespace tsc::codegen
