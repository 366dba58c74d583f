// Pointwise kernels whose operands are contiguous along different variables (a transposed operand):
// tiles through shared memory, so that every access of global memory is contiguous.
#include "codegen/order_elements.h"
#include "codegen/plan.h"
#include "codegen/plan_steps.h"

#include <algorithm>
#include <numeric>

namespace tsc::codegen {

namespace {

using ir::Op;

constexpr int kBlock = 256;
constexpr int kWideEdge = 64;          // of tiles whose accesses are vectors
constexpr int kNarrowEdge = 32;        // else, or if wide tiles take too much shared memory
constexpr int kSharedBytes = 40 << 10; // of wide tiles; three such blocks fit on a multiprocessor
constexpr size_t kMostOperands = 8;
constexpr int64_t kSmallestEdge = 16; // else what lies along it is no whole sector
constexpr int64_t kLongestEdge = 512;

size_t bytes_of(const ir::Module &module, const Value &value) {
  return tensor::size_in_bytes(module.buffer(value.buffer).dtype);
}

bool unit_stride(const Value &value, Expr variable) {
  const auto stride = symbolic::coefficient_of(value.index, variable);
  return stride && stride->is_integer(1);
}

/// Whether neighbours along `variable` are neighbours in memory, in its order or against it, but
/// where a minimum or a maximum of positions holds them at one place.
bool beside(Expr index, Expr variable) {
  if (!symbolic::depends_on(index, variable))
    return false;
  if (const auto stride = symbolic::coefficient_of(index, variable))
    return stride->is_integer(1) || stride->is_integer(-1);
  const symbolic::Kind kind = index.kind();
  if (kind == symbolic::Kind::add) { // of one term alone
    size_t terms = 0, fitting = 0;
    for (const Expr term : index.operands())
      if (symbolic::depends_on(term, variable)) {
        ++terms;
        fitting += beside(term, variable) ? 1 : 0;
      }
    return terms == 1 && fitting == 1;
  }
  if (kind != symbolic::Kind::minimum && kind != symbolic::Kind::maximum)
    return false;
  size_t fitting = 0;
  for (const Expr part : index.operands()) {
    if (symbolic::depends_on(part, variable) && !beside(part, variable))
      return false;
    fitting += symbolic::depends_on(part, variable) ? 1 : 0;
  }
  return fitting == 1;
}

/// The share of a graph's elements that an access tells apart; 1 where sizes are symbols. What does
/// not depend on a loop is read again for each step of it, from a cache.
double distinct_share(const KernelGraph &graph, const Value &value) {
  double share = 1;
  for (size_t i = 0; i < graph.element_variables.size(); ++i)
    if (!symbolic::depends_on(value.index, graph.element_variables[i]))
      share /= static_cast<double>(
          std::max<int64_t>(1, graph.element_sizes[i].as_integer().value_or(1)));
  return share;
}

/// The position among the element variables that most bytes of `counts` are contiguous along;
/// `distinct`: bytes of memory, not of what a thread accesses.
template <class Counts>
std::optional<size_t>
most_contiguous(const ir::Module &module, const KernelGraph &graph, const Counts &counts,
                bool (*contiguous)(const Value &, Expr) = unit_stride, bool distinct = false) {
  std::vector<double> bytes(graph.element_variables.size(), 0);
  for (const Value &value : graph.values)
    for (size_t i = 0; i < bytes.size(); ++i)
      if (counts(value) && contiguous(value, graph.element_variables[i]))
        bytes[i] += static_cast<double>(bytes_of(module, value)) *
                    (distinct ? distinct_share(graph, value) : 1);
  const auto best = std::max_element(bytes.begin(), bytes.end());
  if (best == bytes.end() || *best == 0)
    return std::nullopt;
  return static_cast<size_t>(best - bytes.begin());
}

bool long_enough(const KernelGraph &graph, size_t position) {
  const auto size = graph.element_sizes[position].as_integer();
  return !size || *size >= kSmallestEdge;
}

void move_to_end(KernelGraph &graph, size_t position) {
  const auto rotate = [&](std::vector<Expr> &list) {
    const auto from = list.begin() + static_cast<std::ptrdiff_t>(position);
    std::rotate(from, from + 1, list.end());
  };
  rotate(graph.element_variables);
  rotate(graph.element_sizes);
}

bool may_be_tiled(const KernelGraph &graph, const Value &value, bool guarded) {
  return value.op == Op::load && value.level == Level::element && value.args.empty() &&
         (value.guard == ir::kNone || (guarded && is_of_place(graph, value.guard)));
}

bool is_store_of_elements(const Value &value) {
  return value.op == Op::store && value.level == Level::element && value.args.size() == 1;
}

/// The variable that `inner`, of `size`, continues in all accesses of `counts`: one of its steps is
/// `size` of inner's, which are of one element. None: the position of `inner`.
template <class Counts>
size_t continued_by(const KernelGraph &graph, size_t inner, Expr size, const Counts &counts) {
  const Expr variable = graph.element_variables[inner];
  for (size_t i = 0; i < graph.element_variables.size(); ++i) {
    const auto continues = [&](const Value &value) {
      if (!counts(value) || !unit_stride(value, variable))
        return true;
      const auto step = symbolic::coefficient_of(value.index, graph.element_variables[i]);
      return step && *step == size;
    };
    if (i != inner && std::all_of(graph.values.begin(), graph.values.end(), continues))
      return i;
  }
  return inner;
}

/// Of the variables besides these two the one whose steps are the smallest in what is stored; the
/// position of `variable` if there is none.
size_t inner_of_others(const KernelGraph &graph, Expr variable, Expr other) {
  size_t result = 0;
  std::optional<int64_t> least;
  for (size_t i = 0; i < graph.element_variables.size(); ++i) {
    const Expr candidate = graph.element_variables[i];
    if (candidate == variable)
      result = least ? result : i;
    if (candidate == variable || candidate == other || !graph.element_sizes[i].is_integer())
      continue;
    for (const Value &value : graph.values) {
      const auto step = is_store_of_elements(value)
                            ? symbolic::coefficient_of(value.index, candidate)
                            : std::nullopt;
      if (step && step->is_integer() && step->value() > 0 && (!least || step->value() < *least)) {
        least = step->value();
        result = i;
      }
    }
  }
  return result;
}

/// Short variables leave most of a tile's edge empty: those that accesses go through next belong to
/// it. `other`: the variable of the other edge.
template <class Counts>
void lengthen(KernelGraph &graph, Expr variable, Expr other, const Counts &counts,
              int64_t until = kWideEdge) {
  for (;;) {
    const auto found =
        std::find(graph.element_variables.begin(), graph.element_variables.end(), variable);
    const auto at = static_cast<size_t>(found - graph.element_variables.begin());
    const auto size = graph.element_sizes[at].as_integer();
    if (!size || *size >= until)
      return;
    size_t next = continued_by(graph, at, graph.element_sizes[at], counts);
    if (until > kWideEdge && (next == at || graph.element_variables[next] == other))
      next = inner_of_others(graph, variable, other);
    if (next == at || graph.element_variables[next] == other)
      return;
    merge_variables(graph, variable, graph.element_variables[next]);
  }
}

/// Puts the variable that stores are contiguous along last and the one that the tiled loads are
/// contiguous along before it; says which loads these are. Nothing if there are none. `guarded`:
/// also those under conditions of their place.
std::vector<ValueId> arrange_variables(const ir::Module &module, KernelGraph &graph,
                                       TileEdges edges, bool guarded) {
  const auto store = most_contiguous(module, graph, is_store_of_elements);
  if (!store)
    return {};
  const Expr across = graph.element_variables[*store];
  const auto turned = [&](const Value &value) {
    return may_be_tiled(graph, value, guarded) && !beside(value.index, across) &&
           symbolic::depends_on(value.index, across);
  };
  const auto is_beside = [](const Value &value, Expr variable) {
    return beside(value.index, variable);
  };
  const auto load = most_contiguous(module, graph, turned, is_beside, guarded);
  if (!load || *load == *store)
    return {};
  const Expr down = graph.element_variables[*load];
  std::vector<ValueId> loads; // merged variables may divide their indices
  for (ValueId id = 0; id < graph.values.size(); ++id)
    if (turned(graph[id]) && is_beside(graph[id], down))
      loads.push_back(id);
  lengthen(graph, across, down, is_store_of_elements);
  lengthen(graph, down, across, turned);
  const auto place = [&](Expr variable) {
    return static_cast<size_t>(
        std::find(graph.element_variables.begin(), graph.element_variables.end(), variable) -
        graph.element_variables.begin());
  };
  if (edges == TileEdges::any) {
    if (long_enough(graph, place(across)) == long_enough(graph, place(down)))
      return {}; // tiles of long edges, or nothing
    if (long_enough(graph, place(across)))
      lengthen(graph, across, down, is_store_of_elements, kLongestEdge);
    else
      lengthen(graph, down, across, turned, kLongestEdge);
  }
  for (const Expr variable : {down, across}) {
    const size_t at = place(variable);
    if (edges == TileEdges::long_ones && !long_enough(graph, at))
      return {};
    move_to_end(graph, at);
  }
  return loads;
}

/// The widest run of 16 bytes at most that all tiled loads may be read in.
int choose_across(const ir::Module &module, const KernelPlan &plan, int most) {
  const KernelGraph &graph = plan.graph;
  const Expr variable = graph.element_variables[graph.element_variables.size() - 2];
  int width = most;
  for (ValueId id = 0; id < graph.values.size(); ++id)
    if (plan.tiled[id])
      width = std::min(width, static_cast<int>(16 / bytes_of(module, graph[id])));
  const auto same_along = [&](ValueId guard) { // a run has one condition
    std::vector<ValueId> places;
    is_of_place(graph, guard, &places);
    return std::none_of(places.begin(), places.end(), [&](ValueId place) {
      return symbolic::depends_on(graph[place].index, variable);
    });
  };
  const auto fits = [&](ValueId id) {
    return !plan.tiled[id] ||
           (access_of(graph[id].index, variable, width, width, plan.checked) == Access::vector &&
            (graph[id].guard == ir::kNone || same_along(graph[id].guard)));
  };
  const Expr size = graph.element_sizes[graph.element_sizes.size() - 2];
  const auto all_fit = [&] {
    for (ValueId id = 0; id < graph.values.size(); ++id)
      if (!fits(id))
        return false;
    return is_multiple(size, width, graph.ranges, plan.checked);
  };
  while (width > 1 && !all_fit())
    width /= 2;
  return width;
}

/// Marks as many of `loads` as a tile holds; their bytes an element.
size_t mark_tiled(const ir::Module &module, KernelPlan &plan, const std::vector<ValueId> &loads) {
  plan.tiled.assign(plan.graph.values.size(), false);
  size_t bytes = 0;
  for (size_t i = 0; i < loads.size() && i < kMostOperands; ++i) {
    plan.tiled[loads[i]] = true;
    bytes += bytes_of(module, plan.graph[loads[i]]);
  }
  return bytes;
}

/// What fills a block's threads and runs of both edges best: tiles of 64 x 64 leave most of their
/// threads idle where a loop has 68 elements, or 21. Sizes are numbers; `walk` has square tiles.
/// `chosen`: elements at most, or 0.
void fit_edges(const KernelGraph &graph, TileWalk &walk, int chosen) {
  constexpr double kWorthIt = 0.85, kTile = 1; // what a tile costs besides, in steps
  const auto width = graph.element_sizes.back().as_integer(),
             height = graph.element_sizes[graph.element_sizes.size() - 2].as_integer();
  if (!width || !height)
    return;
  const auto parts = [](int64_t size, int64_t edge) { return (size + edge - 1) / edge; };
  const auto cost = [&](const TileWalk &tile) {
    const int steps = tile.steps_of(tile.vector) * tile.vector;
    return static_cast<double>(parts(*width, tile.edge) * parts(*height, tile.height)) *
           (steps + kTile * tile.vector);
  };
  const auto longest = [&](int64_t size, int64_t multiple) {
    return std::min(kLongestEdge, parts(size, multiple) * multiple);
  };
  const int64_t least_edge = std::min(kSmallestEdge, parts(*width, walk.vector) * walk.vector),
                least_height = std::min(kSmallestEdge, parts(*height, walk.across) * walk.across);
  const auto cheapest = [&](int most, double least) {
    std::optional<TileWalk> best; // of at most so many elements that costs less
    for (int64_t edge = longest(*width, walk.vector); edge >= least_edge; edge -= walk.vector)
      for (int64_t high = longest(*height, walk.across); high >= least_height;
           high -= walk.across) {
        TileWalk tile = walk;
        tile.edge = static_cast<int>(edge);
        tile.height = static_cast<int>(high);
        if (tile.elements() > most || cost(tile) >= least)
          continue;
        least = cost(tile);
        best = tile;
      }
    return best;
  };
  const int most =
      chosen != 0 ? chosen : walk.elements() * (walk.vector == 1 ? 2 : 1) + kBlock * walk.vector;
  const std::optional<TileWalk> fits = cheapest(most, cost(walk) * kWorthIt);
  if (!fits)
    return;
  // Few blocks of many elements have less under way than many of few: of 11 kernels ten were up to
  // 38% faster on an H100 with half as many elements, one 8% slower.
  constexpr int kElementsOfThread = 8;
  const std::optional<TileWalk> small =
      chosen != 0 ? fits : cheapest(kBlock * std::max(kElementsOfThread, walk.vector), 1e30);
  walk = small ? *small : *fits;
}

} // namespace

bool is_of_place(const KernelGraph &graph, ValueId id, std::vector<ValueId> *places) {
  constexpr int kLongest = 16; // values: the text has each as often as it is used
  int left = kLongest;
  const auto computed = [&](const auto &self, ValueId at) -> bool {
    const Value &value = graph[at];
    if (--left < 0)
      return false;
    if (value.op == Op::index_expr && places)
      places->push_back(at);
    if (value.op == Op::constant || value.op == Op::index_expr)
      return true;
    const bool computes = value.buffer == ir::kNone && value.guard == ir::kNone && !value.combine &&
                          !value.args.empty() && value.op != Op::reduction &&
                          value.op != Op::scan && value.op != Op::sort &&
                          value.op != Op::set_indirect && !ir::is_random(value.op);
    return computes && std::all_of(value.args.begin(), value.args.end(),
                                   [&](ValueId arg) { return self(self, arg); });
  };
  return computed(computed, id);
}

bool order_elements(const ir::Module &module, KernelGraph &graph, bool by_short_ones) {
  if (graph.element_variables.size() < 2)
    return false;
  const auto accesses = [](const Value &value) {
    return value.level == Level::element && (value.op == Op::load || value.op == Op::store);
  };
  const std::optional<size_t> best = most_contiguous(module, graph, accesses);
  if (!best || (!by_short_ones && !long_enough(graph, *best)))
    return false;
  const Expr variable = graph.element_variables[*best], last = graph.element_variables.back();
  const bool serves_stores =
      std::all_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
        return value.op != Op::store || value.level != Level::element ||
               (unit_stride(value, variable) && !unit_stride(value, last));
      });
  if (serves_stores)
    move_to_end(graph, *best);
  return serves_stores;
}

bool plan_tile(const ir::Module &module, const scheduler::Group &group, KernelPlan &plan,
               const TileWalk *like, const PlanChoice &choice, TileEdges edges, bool guarded) {
  if (plan.graph.element_variables.size() < 2)
    return false;
  KernelGraph graph = plan.graph;
  const std::vector<ValueId> loads = arrange_variables(module, graph, edges, guarded);
  const auto has_guard = [&](ValueId id) { return graph[id].guard != ir::kNone; };
  if (loads.empty() || (guarded && std::none_of(loads.begin(), loads.end(), has_guard)))
    return false;
  plan.graph = std::move(graph);
  const size_t bytes = mark_tiled(module, plan, loads);
  TileWalk walk;
  walk.block = kBlock;
  walk.vector = choose_vector(module, plan);
  if (choice.vector != 0)
    walk.vector = std::min(walk.vector, choice.vector);
  walk.edge = walk.vector > 1 && bytes * kWideEdge * (kWideEdge + 4) <= kSharedBytes ? kWideEdge
                                                                                     : kNarrowEdge;
  walk.height = walk.edge;
  const int chosen = choice.tile * kBlock; // elements
  while (chosen != 0 && walk.elements() > chosen)
    (walk.height > walk.edge / 2 ? walk.height : walk.edge) /= 2;
  if (like) {
    walk.edge = like->edge;
    walk.height = like->height;
  }
  const int most = like ? 16 : walk.elements() / kBlock; // every thread has a run
  walk.vector = std::gcd(std::min(walk.vector, most), walk.edge);
  walk.across = std::gcd(choose_across(module, plan, most), walk.height);
  if (!like)
    fit_edges(plan.graph, walk, chosen);
  walk.steps = walk.steps_of(walk.vector);
  classify_accesses(module, plan, walk.vector);
  preload_all(plan);
  const Expr width = plan.graph.element_sizes.back(),
             height = plan.graph.element_sizes[plan.graph.element_sizes.size() - 2];
  walk.guard = !symbolic::known_multiple_of(width, walk.edge, plan.graph.ranges) ||
               !symbolic::known_multiple_of(height, walk.height, plan.graph.ranges);
  plan.grid = symbolic::ceil_div(width, walk.edge) * symbolic::ceil_div(height, walk.height);
  for (size_t i = 0; i + 2 < plan.graph.element_sizes.size(); ++i)
    plan.grid = plan.grid * plan.graph.element_sizes[i];
  plan.block = walk.block;
  plan.has_barriers = true;
  plan.walk = walk;
  plan.description = "pointwise, tiles of " + std::to_string(walk.edge) + " x " +
                     std::to_string(walk.height) + " elements through shared memory, runs of " +
                     std::to_string(walk.vector) + " elements, " + std::to_string(walk.across) +
                     " of transposed operands, " + access_text(module, plan, walk.vector);
  fill_phases(module, plan, group, true);
  return true;
}

} // namespace tsc::codegen
