// Short rows whose neighbours share accesses or elements: a thread takes a tile of rows.
#include "codegen/plan.h"
#include "codegen/plan_steps.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tsc::codegen {

namespace {

using ir::Op;

constexpr int kBlock = 128;
constexpr int64_t kFewestRows = 2048;
constexpr int64_t kLongestRow = 64; // that any number of rows is walked alone for
/// The same where a thread has a tile of runs: so many sums are under way that few threads do.
constexpr int64_t kLongestRowOfTile = 256;
constexpr int64_t kLongestRowOfMany = 1024;
constexpr int64_t kManyThreads = 1024; // a multiprocessor
constexpr int64_t kFewThreads = 512;   // a multiprocessor: more of them, a row each, share columns
constexpr int64_t kFewestShared = 32;  // elements of a row that several threads share
constexpr int64_t kWidestStep = 4;     // elements between the loads of neighbouring threads
constexpr int kLargestTile = 8, kMostTaps = 64;
constexpr int64_t kFarthestApart = 8; // rows of a tile
constexpr int kMostRegisters = 112;   // that a thread's results and window take
constexpr double kLoadCost = 3;       // of an operation's: address, load, conversion
/// What larger tiles of single rows of few elements cost beside smaller ones: registers leave fewer
/// threads, which wait. (Measured: 3 x 3, 8 rows took 1.07 to 1.38 times as long as 4, which load
/// more; of 3 x 7 less.)
constexpr int kEasyTile = 4;
constexpr int64_t kFewElements = 16;
constexpr double kLargeTileCost = 1.25;
/// Of a line that a warp's load asks for, in the unit of kLoadCost (measured: means and depthwise
/// convolutions of 3 x 3 and 5 x 5, steps of 1 to 3, tiles of 1 to 8).
constexpr double kWaveCost = 2;

/// Elements of buffers this many times smaller than the rows come from a cache.
constexpr int64_t kCached = 16;

bool is_access(const Value &value) {
  return value.op == Op::load || value.op == Op::store || value.op == Op::store_reduction;
}

/// Puts the row variable last along which most bytes are neighbours, or lie close (windows that
/// move by a few elements). False if there is none.
bool put_close_rows_last(const ir::Module &module, KernelGraph &graph) {
  size_t best = graph.row_variables.size();
  double most = 0;
  for (size_t i = 0; i < graph.row_variables.size(); ++i) {
    double bytes = 0;
    for (const Value &value : graph.values) {
      if (!is_access(value))
        continue;
      const auto step = step_along(value.index, graph.row_variables[i]);
      if (!step || *step < 1 || *step > (value.op == Op::load ? kWidestStep : 1))
        continue;
      const ir::Buffer &buffer = module.buffer(value.buffer);
      bytes += static_cast<double>(tensor::size_in_bytes(buffer.dtype)) *
               static_cast<double>(likely(module, buffer.layout.storage_size()).value_or(1 << 20)) /
               static_cast<double>(*step);
    }
    if (bytes > 0 && bytes >= most) {
      most = bytes;
      best = i;
    }
  }
  if (best == graph.row_variables.size())
    return false;
  const auto at = static_cast<ptrdiff_t>(best);
  std::rotate(graph.row_variables.begin() + at, graph.row_variables.begin() + at + 1,
              graph.row_variables.end());
  std::rotate(graph.row_sizes.begin() + at, graph.row_sizes.begin() + at + 1,
              graph.row_sizes.end());
  return true;
}

class WindowPlanner {
public:
  WindowPlanner(const ir::Module &module, KernelPlan &plan, const target::Target &target,
                const PlanChoice *choice, bool in_runs)
      : module_(module), plan_(plan), target_(target), choice_(choice), in_runs_(in_runs) {}

  /// What a row is, and how many there are: without this a thread a row makes no sense.
  bool has_short_rows() const {
    const auto elements = plan_.graph.elements().as_integer(),
               rows = likely(module_, plan_.graph.rows());
    return elements && *elements <= kLongestRowOfMany && (!rows || *rows >= kFewestRows) &&
           reads_rows_once();
  }
  /// One walk over the elements, of which nothing is stored.
  bool reads_rows_once() const {
    const KernelGraph &graph = plan_.graph;
    if (graph.row_variables.empty() || graph.element_variables.empty())
      return false;
    return std::all_of(graph.values.begin(), graph.values.end(), [](const Value &value) {
      const bool serves = value.op != Op::set_indirect && value.op != Op::scan &&
                          value.op != Op::sort && (value.op != Op::reduction || value.phase == 0);
      return serves && (value.level == Level::row || !is_store(value));
    });
  }

  bool neighbours_are_close() const {
    const KernelGraph &graph = plan_.graph;
    const int64_t rows = many_rows().value_or(int64_t{1} << 24);
    return std::all_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
      if (value.op != Op::load)
        return true;
      const auto size = module_.buffer(value.buffer).layout.storage_size().as_integer();
      if (size && *size * kCached <= rows)
        return true;
      const auto step = step_along(value.index, graph.row_variables.back());
      return step && *step >= 0 && *step <= kWidestStep;
    });
  }

  /// The longest run of rows in which every access is one vector or does not move, and that leaves
  /// `least` threads. `elements_only`: what happens once a row may be anything.
  int choose_vector(int64_t least, bool elements_only) {
    int vector = choose_row_vector(module_, plan_);
    for (; vector > 1; vector /= 2) {
      classify_row_accesses(module_, plan_, vector);
      const auto &values = plan_.graph.values;
      bool serves = threads(vector, 1) >= least;
      for (ValueId id = 0; id < values.size() && serves; ++id)
        serves = !is_access(values[id]) || plan_.access[id] != Access::element ||
                 (elements_only && values[id].level == Level::row);
      if (serves)
        return vector;
    }
    classify_row_accesses(module_, plan_, 1);
    return 1;
  }

  /// The longest run of rows in which some loads of elements are vectors, and all others are
  /// neighbours along the elements.
  int choose_mixed_vector() {
    const KernelGraph &graph = plan_.graph;
    for (int vector = choose_row_vector(module_, plan_); vector > 1; vector /= 2) {
      classify_row_accesses(module_, plan_, vector);
      bool serves = true, has_runs = false;
      for (ValueId id = 0; id < graph.values.size() && serves; ++id) {
        if (!is_access(graph[id]) || graph[id].level != Level::element)
          continue;
        const auto step = step_along(graph[id].index, graph.element_variables.back());
        has_runs = has_runs || plan_.access[id] == Access::vector;
        serves = plan_.access[id] != Access::element || (step && *step == 1);
      }
      if (serves && has_runs)
        return vector;
    }
    classify_row_accesses(module_, plan_, 1);
    return 1;
  }

  WindowWalk choose(int vector) {
    const KernelGraph &graph = plan_.graph;
    WindowWalk best;
    best.vector = vector;
    best.reach.assign(graph.values.size(), Reach::all);
    double least = 1e30;
    // Of a run of rows, neighbours along the last variable are in it already.
    const size_t variables = graph.row_variables.size() - (vector > 1 ? 1 : 0);
    for (size_t along = 0; along < variables; ++along)
      for (size_t tap = 0; tap < graph.element_variables.size(); ++tap) {
        WindowWalk walk;
        walk.vector = vector;
        walk.along = along;
        walk.tap = tap;
        if (!find_stride(walk))
          continue;
        find_reach(walk);
        consider(walk, best, least);
      }
    if (best.tile == 1)
      best.reach.assign(graph.values.size(), Reach::all);
    return best;
  }

  /// Threads of the grid; of sizes that nothing is said of, many.
  int64_t threads(int vector, int tile) const {
    const auto rows = many_rows();
    return rows ? *rows / vector / tile : int64_t{1} << 40;
  }
  /// Rows; where they are a symbol, more than the graph says are likely: tiles are to serve those
  /// as well.
  std::optional<int64_t> many_rows() const {
    constexpr int64_t kMore = 16;
    const Expr rows = plan_.graph.rows();
    const auto count = likely(module_, rows);
    return count && !rows.is_integer() ? std::optional(*count * kMore) : count;
  }

private:
  const ir::Module &module_;
  KernelPlan &plan_;
  const target::Target &target_;
  const PlanChoice *const choice_; // or null
  const bool in_runs_;             // windows may be brought so

  /// What the reductions are fed with, of any level.
  std::vector<ValueId> fed() const {
    const std::vector<bool> feeds = fed_values(plan_.graph);
    std::vector<ValueId> result;
    for (ValueId id = static_cast<ValueId>(feeds.size()); id-- > 0;)
      if (feeds[id] && plan_.graph[id].op != Op::reduction)
        result.push_back(id);
    return result;
  }

  /// How many taps neighbours of the tile are apart, and how many rows; false if they share
  /// nothing.
  bool find_stride(WindowWalk &walk) const {
    const KernelGraph &graph = plan_.graph;
    const Expr row = graph.row_variables[walk.along], tap = graph.element_variables[walk.tap];
    const auto taps = graph.element_sizes[walk.tap].as_integer();
    if (!taps || *taps > kMostTaps)
      return false;
    for (const ValueId id : fed()) {
      const auto by_row = step_along(graph[id].index, row),
                 by_tap = step_along(graph[id].index, tap);
      if (graph[id].op != Op::load || !by_row || !by_tap || *by_tap == 0 || *by_row == 0)
        continue;
      const int64_t apart = std::abs(*by_tap) / std::gcd(*by_row, *by_tap),
                    stride = *by_row * apart / *by_tap;
      const bool is_last = walk.along + 1 == graph.row_variables.size();
      if (stride < 1 || stride >= *taps || apart > kFarthestApart || (is_last && apart > 1))
        continue; // each row loads its own
      walk.stride = static_cast<int>(stride);
      walk.apart = static_cast<int>(apart);
      walk.taps = static_cast<int>(*taps);
      return true;
    }
    return false;
  }

  void find_reach(WindowWalk &walk) const {
    const KernelGraph &graph = plan_.graph;
    const Expr row = graph.row_variables[walk.along], tap = graph.element_variables[walk.tap];
    walk.reach.assign(graph.values.size(), Reach::all);
    for (ValueId id = 0; id < graph.values.size(); ++id) {
      const Value &value = graph[id];
      if (value.op == Op::reduction) {
        walk.reach[id] = Reach::own;
        continue;
      }
      Reach reach = Reach::all;
      if (is_access(value) || value.op == Op::index_expr) {
        const auto by_row = step_along(value.index, row), by_tap = step_along(value.index, tap);
        if (!by_row || (*by_row != 0 && (!by_tap || *by_row * walk.apart != walk.stride * *by_tap)))
          reach = Reach::own;
        else if (*by_row != 0)
          reach = Reach::window;
        else if (!by_tap || *by_tap != 0)
          reach = Reach::tap;
      }
      const auto meet = [&](ValueId other) {
        if (walk.reach[other] != Reach::all && walk.reach[other] != reach)
          reach = reach == Reach::all ? walk.reach[other] : Reach::own;
      };
      for (const ValueId arg : value.args)
        meet(arg);
      if (value.guard != ir::kNone)
        meet(value.guard);
      walk.reach[id] = reach;
    }
  }

  /// Loads whose places of a tile are whole runs, wherever they start.
  std::vector<WindowRun> find_runs(const WindowWalk &walk) const {
    const KernelGraph &graph = plan_.graph;
    const Expr row = graph.row_variables[walk.along], tap = graph.element_variables[walk.tap];
    std::vector<WindowRun> result;
    if (!in_runs_ || walk.vector > 1 || walk.tile == 1 || walk.apart > 1 || walk.overlaps ||
        walk.along + 1 != graph.row_variables.size())
      return result;
    for (const ValueId id : fed()) {
      const Value &value = graph[id];
      const auto by_tap = step_along(value.index, tap);
      if (value.op != Op::load || !value.args.empty() || walk.reach[id] != Reach::window ||
          !by_tap || *by_tap != 1)
        continue;
      const ir::Buffer &buffer = module_.buffer(value.buffer);
      const Expr first = symbolic::simplify(
          symbolic::substitute(value.index, {{row, row * Expr(walk.tile)}, {tap, Expr(0)}}),
          graph.ranges);
      if (const WindowRun run = run_from(first, buffer); run.vector > 1)
        result.push_back({id, run.vector, run.before});
    }
    return result;
  }
  /// The longest runs of 16 bytes and fewer that hold the element at `first`, and start at
  /// multiples of their length.
  WindowRun run_from(Expr first, const ir::Buffer &buffer) const {
    constexpr int kBytes = 16;
    const symbolic::Ranges &ranges = plan_.graph.ranges;
    for (int vector = kBytes / static_cast<int>(tensor::size_in_bytes(buffer.dtype)); vector > 1;
         vector /= 2)
      if (const auto before = behind_run(first, vector, buffer.layout.storage_size(), ranges))
        return {ir::kNone, vector, *before};
    return {};
  }

  /// Takes the walk with the tile that costs least a row, if that is less than `least`.
  void consider(WindowWalk walk, WindowWalk &best, double &least) const {
    const KernelGraph &graph = plan_.graph;
    const std::vector<ValueId> values = fed();
    double window = 0, tap = 0, own = 0; // operations a place, a tap, an element
    for (const ValueId id : values) {
      const double cost = graph[id].op == Op::load       ? kLoadCost
                          : graph[id].op == Op::constant ? 0
                                                         : 1;
      (walk.reach[id] == Reach::window ? window : walk.reach[id] == Reach::own ? own : tap) += cost;
    }
    double results = 0;
    for (const Value &value : graph.values)
      results += value.op == Op::reduction ? words(value) : 0;
    const double shared = words_of_window(walk);
    const Expr size = graph.row_sizes[walk.along];
    const auto count = size.as_integer();
    const bool few = graph.elements().as_integer().value_or(kFewElements) <= kFewElements;
    for (walk.tile = 1; walk.tile <= kLargestTile; ++walk.tile) {
      const int tile = walk.tile;
      if (choice_ && choice_->tile != 0 && choice_->tile != tile)
        continue;
      if (symbolic::bounds(size, graph.ranges).low < walk.span())
        break;
      walk.overlaps = !symbolic::known_multiple_of(size, walk.span(), graph.ranges);
      const bool last = walk.along + 1 == graph.row_variables.size();
      if (last && (walk.overlaps || (tile & (tile - 1)) != 0))
        continue; // what a tile stores is one access
      walk.runs = find_runs(walk);
      double loaded = 0; // operations that runs save
      for (const WindowRun &run : walk.runs)
        loaded += kLoadCost * (walk.places() - run.count(walk.places()));
      const double registers = walk.vector * (tile * results + walk.places() * shared);
      if (tile > 1 && ((walk.overlaps && stores_what_is_read()) || registers > kMostRegisters ||
                       threads(walk.vector, tile) < int64_t{kBlock} * target_.multiprocessors))
        continue;
      const double done = // rows, those done twice among them
          count ? static_cast<double>((*count + walk.span() - 1) / walk.span() * walk.span()) /
                      static_cast<double>(*count)
                : 1.1;
      // A tile that leaves threads too few to hide memory has them wait for one access after the
      // other (measured: a pool of 26,000 threads took 49 us, of 185,000, which each load more,
      // 29).
      constexpr double kBusy = 1024, kHurts = 0.4;
      const double busy = kBusy * target_.multiprocessors,
                   all = static_cast<double>(threads(walk.vector, tile));
      const bool waits = // and does not compute, as convolutions do
          tap + own == 0 && static_cast<double>(threads(walk.vector, 1)) >= busy;
      const double idle = waits ? std::max(1.0, std::pow(busy / all, kHurts)) : 1;
      const double cost =
          std::max(
              (window * walk.places() - loaded + tap * walk.taps + (own + 1) * walk.taps * tile) /
                  tile,
              last ? waves_of(walk) * kWaveCost : 0) *
          done * idle * (tile > kEasyTile && few && walk.vector == 1 ? kLargeTileCost : 1);
      if (cost >= least * 0.99)
        continue;
      least = cost;
      best = walk;
    }
  }
  /// Lines of 128 bytes that a warp's loads of the window ask for, each a turn of the
  /// multiprocessor's loads, for a row of each thread: of a tile along the rows that neighbouring
  /// threads have, loads are as far apart as tiles.
  double waves_of(const WindowWalk &walk) const {
    double waves = 0;
    for (const ValueId id : fed()) {
      const Value &value = plan_.graph[id];
      const auto step = value.op == Op::load && walk.reach[id] == Reach::window
                            ? step_along(value.index, plan_.graph.row_variables[walk.along])
                            : std::nullopt;
      if (!step)
        continue;
      const auto bytes =
          static_cast<int64_t>(tensor::size_in_bytes(module_.buffer(value.buffer).dtype));
      const WindowRun *run = walk.run_of(id);
      const auto apart = static_cast<double>(walk.tile * std::abs(*step) * bytes * walk.vector),
                 least = static_cast<double>(run ? run->vector * bytes : bytes);
      waves += std::max(1.0, std::max(apart, least) * 32 / 128) *
               (run ? run->count(walk.places()) : walk.places()) / walk.tile;
    }
    return waves;
  }
  double words(const Value &value) const {
    return std::max(1.0, static_cast<double>(tensor::size_in_bytes(value.dtype)) / 4);
  }
  /// Registers of one place of the window.
  double words_of_window(const WindowWalk &walk) const {
    double result = 0;
    for (const ValueId id : shared_values(plan_.graph, walk))
      result += words(plan_.graph[id]);
    return result;
  }
  /// Rows that are done twice must be able to.
  bool stores_what_is_read() const {
    return plan_.row_stores_wait ||
           std::any_of(plan_.row_stores.begin(), plan_.row_stores.end(),
                       [&](ValueId id) { return plan_.graph[id].mode != ir::StoreMode::plain; });
  }

public:
  /// What a window hands on to the rows of its tile.
  static std::vector<ValueId> shared_values(const KernelGraph &graph, const WindowWalk &walk) {
    std::vector<bool> shared(graph.values.size(), false);
    const auto hand_on = [&](ValueId id) {
      if (walk.reach[id] == Reach::window)
        shared[id] = true;
    };
    for (ValueId id = 0; id < graph.values.size(); ++id) {
      const Value &value = graph[id];
      if (walk.reach[id] != Reach::own || is_store(value))
        continue;
      for (const ValueId arg : value.args)
        hand_on(arg);
      if (value.guard != ir::kNone)
        hand_on(value.guard);
    }
    std::vector<ValueId> result;
    for (ValueId id = 0; id < graph.values.size(); ++id)
      if (shared[id])
        result.push_back(id);
    return result;
  }
};

/// Whether what `count` neighbours along the last row variable store is one access.
bool is_run(const KernelPlan &plan, ValueId store, int count) {
  const Value &value = plan.graph[store];
  const bool always = value.guard == ir::kNone && value.args.size() == 1;
  return always && access_of(value.index, plan.graph.row_variables.back(), count, count,
                             plan.checked) == Access::vector;
}

std::string tile_text(const KernelGraph &graph, const WindowWalk &walk) {
  std::string text = "short rows, a thread ";
  if (walk.vector > 1)
    text += std::to_string(walk.vector) + " neighbours";
  if (walk.tile > 1)
    text += (walk.vector > 1 ? " of " : "") + std::to_string(walk.tile) + " rows along " +
            graph.row_variables[walk.along].spelling() +
            (walk.apart > 1 ? ", " + std::to_string(walk.apart) + " apart," : "") + " that share " +
            std::to_string(walk.places()) + " places of a window";
  return text;
}

} // namespace

bool plan_windows(const ir::Module &module, const scheduler::Group &group, KernelPlan &plan,
                  const target::Target &target, const PlanChoice *choice, bool long_ones,
                  bool in_runs) {
  KernelPlan wanted;
  wanted.checked = plan.checked;
  wanted.graph = plan.graph;
  WindowPlanner planner(module, wanted, target, choice, in_runs);
  if (!planner.has_short_rows() || !put_close_rows_last(module, wanted.graph) ||
      !planner.neighbours_are_close())
    return false;
  const int vector = planner.choose_vector(int64_t{kBlock} * target.multiprocessors, false);
  wanted.preloaded.assign(wanted.graph.values.size(), false);
  fill_phases(module, wanted, group, false);
  WindowWalk walk = planner.choose(vector);
  const int64_t threads = planner.threads(walk.vector, walk.tile);
  const int64_t elements = wanted.graph.elements().value();
  const bool alone = walk.tile == 1 && elements >= kFewestShared; // may share rows instead
  if ((walk.vector == 1 && walk.tile == 1) || (long_ones && walk.tile == 1) ||
      (!long_ones &&
       elements > (walk.vector > 1 && walk.tile > 1 ? kLongestRowOfTile : kLongestRow) &&
       threads < kManyThreads * target.multiprocessors) ||
      (alone && threads < kFewThreads * target.multiprocessors && !choice))
    return false;
  walk.block = kBlock;
  Expr count = 1;
  for (size_t i = 0; i < wanted.graph.row_sizes.size(); ++i) {
    const bool last = i + 1 == wanted.graph.row_sizes.size();
    const Expr size = wanted.graph.row_sizes[i];
    const bool tiled = walk.tile > 1 && i == walk.along;
    count = count * (tiled  ? symbolic::ceil_div(size, walk.span()) * Expr(walk.apart)
                     : last ? symbolic::floor_div(size, walk.vector)
                            : size);
  }
  walk.guard = !symbolic::known_multiple_of(count, walk.block, wanted.graph.ranges);
  wanted.grid = symbolic::ceil_div(count, walk.block);
  wanted.block = walk.block;
  if (walk.tile > 1) {
    for (const ValueId id : WindowPlanner::shared_values(wanted.graph, walk))
      wanted.kept[id] = wanted.graph[id].op != Op::constant;
    for (ValueId id = 0; id < wanted.graph.values.size(); ++id) // loaded before the first is used
      if (wanted.graph[id].op == Op::load && wanted.access[id] == Access::vector &&
          walk.reach[id] == Reach::window)
        wanted.kept[id] = true;
  }
  if (walk.tile == 1)
    walk.runs.clear();
  if (walk.tile > 1 && walk.along + 1 == wanted.graph.row_variables.size())
    for (const ValueId id : wanted.row_stores)
      if (wanted.graph[id].mode == ir::StoreMode::plain && is_run(wanted, id, walk.tile))
        walk.tile_stores.push_back(id);
  wanted.description =
      tile_text(wanted.graph, walk) + ", " + access_text(module, wanted, walk.vector) +
      (walk.runs.empty() ? ""
                         : ", which are brought in runs of " + std::to_string(walk.runs[0].vector));
  wanted.walk = std::move(walk);
  plan = std::move(wanted);
  return true;
}

namespace {

/// Bytes of the narrowest elements that the walk over a column loads; 16 if there are none.
int narrowest_load(const ir::Module &module, const KernelGraph &graph) {
  size_t bytes = 16;
  for (const Value &value : graph.values)
    if (value.op == Op::load && value.level == Level::element)
      bytes = std::min(bytes, tensor::size_in_bytes(module.buffer(value.buffer).dtype));
  return static_cast<int>(bytes);
}

} // namespace

int64_t accumulator_bytes(const KernelGraph &graph) {
  int64_t bytes = 0;
  for (const Value &value : graph.values)
    if (value.op == Op::reduction)
      bytes += value.reduction == ir::ReductionKind::argmax ||
                       value.reduction == ir::ReductionKind::argmin
                   ? 16
                   : static_cast<int64_t>(tensor::size_in_bytes(value.dtype) *
                                          ir::tuple_size(value.reduction));
  return bytes;
}

bool plan_wide_columns(const ir::Module &module, const scheduler::Group &group, KernelPlan &plan,
                       const target::Target &target, const PlanChoice *choice, bool mixed) {
  constexpr int kLine = 128, kSector = 32,
                kFewestBytes = 4; // 4 bytes and more fill a line with one column each
  constexpr int kLeastBlock = 64, kWantedBlock = 512, kLargestBlock = 1024;
  constexpr int64_t kThreadsOfMultiprocessor = 1024, kLeastThreads = 64; // of a multiprocessor
  constexpr int64_t kHalfBusy = 600;                                     // threads of it
  constexpr int64_t kLeastElements = 4, kManyElements = 24;              // of a thread
  constexpr int64_t kMostShared = 24576, kFewWords = 16;
  // Of parts of rows, the last may be shorter.
  const auto rows = likely(module, plan.graph.rows()), elements = likely_row(module, plan.graph);
  const int narrowest = narrowest_load(module, plan.graph);
  if (!rows || !elements || narrowest >= kFewestBytes)
    return false;
  KernelPlan wanted;
  wanted.checked = plan.checked;
  wanted.graph = plan.graph;
  WindowPlanner planner(module, wanted, target, choice, false);
  if (!planner.reads_rows_once() || !put_close_rows_last(module, wanted.graph))
    return false;
  WindowWalk walk;
  walk.vector = mixed ? planner.choose_mixed_vector() : planner.choose_vector(0, true);
  // Sums of many kinds (the taps of a depthwise convolution's weights) leave room for few columns.
  const int64_t words_of_column = accumulator_bytes(wanted.graph) / 4;
  const int widest = walk.vector;
  while (walk.vector > 1 && words_of_column * walk.vector > kMostRegisters)
    walk.vector /= 2;
  if (walk.vector == 1)
    return false;
  if (walk.vector != widest)
    classify_row_accesses(module, wanted, walk.vector);
  // A warp's access is a line, or half of one where there would be too few blocks.
  const auto blocks = [&](int columns) { return (*rows / walk.vector + columns - 1) / columns; };
  // Of operands that lie either way it has whole sectors: so many columns, and more elements.
  int columns = mixed ? std::max(1, kSector / (walk.vector * narrowest))
                      : std::clamp(kLine / (walk.vector * narrowest), 4, 32);
  constexpr double kEnoughBusy = 0.9; // of the multiprocessors: half lines cost a quarter
  if (columns > 4 && static_cast<double>(blocks(columns)) < kEnoughBusy * target.multiprocessors)
    columns /= 2;
  const auto shared = [&](int threads) {
    return int64_t{columns} * threads / 32 * columns * walk.vector *
           accumulator_bytes(wanted.graph);
  };
  walk.threads = kWantedBlock / columns;
  const int64_t words = words_of_column * walk.vector;
  if (blocks(columns) * kWantedBlock < kThreadsOfMultiprocessor * target.multiprocessors &&
      words <= kFewWords) // else they want more registers than so many threads have
    walk.threads = kLargestBlock / columns;
  if (choice && choice->threads != 0)
    walk.threads = choice->threads;
  while (walk.threads * columns > kLeastBlock &&
         (*elements < kLeastElements * walk.threads || shared(walk.threads) > kMostShared))
    if (shared(walk.threads) > kMostShared && columns * walk.vector * narrowest > kSector)
      columns /= 2; // a warp has whole sectors of several elements
    else
      walk.threads /= 2;
  // Threads that are there at once, and load as much before they merge, do it sooner than ones that
  // come later. (147 rows of 142,656 of 16 bits: 32 threads a column 21.5 us, 8 19.6; 1003 of
  // 10,448: 128 and 64 threads, 18.7 and 14.3, H200.)
  while (!(choice && choice->threads != 0) && walk.threads * columns > kLeastBlock &&
         *elements < kManyElements * walk.threads &&
         blocks(columns) * walk.threads * columns >= 2 * kHalfBusy * target.multiprocessors)
    walk.threads /= 2;
  if (blocks(columns) * walk.threads * columns < kLeastThreads * target.multiprocessors &&
      !(choice && choice->threads != 0))
    return false;
  walk.block = walk.threads * columns;
  wanted.preloaded.assign(wanted.graph.values.size(), false);
  fill_phases(module, wanted, group, false);
  walk.ahead = runs_ahead(module, wanted, walk.vector, 1, walk.threads);
  walk.reach.assign(wanted.graph.values.size(), Reach::all);
  const Expr runs = symbolic::floor_div(plan.graph.rows(), Expr(walk.vector));
  walk.guard = !symbolic::known_multiple_of(runs, columns, wanted.graph.ranges);
  wanted.grid = symbolic::ceil_div(runs, columns);
  wanted.block = walk.block;
  wanted.has_barriers = true;
  wanted.description = "column reduction, " + std::to_string(walk.threads) + " threads a column, " +
                       std::to_string(columns * walk.vector) +
                       " columns a block, 1 walk over the column, " +
                       access_text(module, wanted, walk.vector);
  wanted.walk = std::move(walk);
  plan = std::move(wanted);
  return true;
}

} // namespace tsc::codegen
