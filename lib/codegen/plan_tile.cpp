// Pointwise kernels whose operands are contiguous along different variables (a transposed operand):
// tiles through shared memory, so that every access of global memory is contiguous.
#include "codegen/order_elements.h"
#include "codegen/plan.h"
#include "codegen/plan_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>
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

size_t place_of(const KernelGraph &graph, Expr variable) {
  const auto &variables = graph.element_variables;
  return static_cast<size_t>(std::find(variables.begin(), variables.end(), variable) -
                             variables.begin());
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
  const auto place = [&](Expr variable) { return place_of(graph, variable); };
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

/// The variable whose steps are `step` elements in all of `accesses`; none: nothing.
std::optional<size_t> stepping_by(const KernelGraph &graph, Expr step,
                                  const std::vector<ValueId> &accesses) {
  for (size_t i = 0; i < graph.element_variables.size(); ++i)
    if (std::all_of(accesses.begin(), accesses.end(), [&](ValueId id) {
          const auto found = symbolic::coefficient_of(graph[id].index, graph.element_variables[i]);
          return found && *found == step;
        }))
      return i;
  return std::nullopt;
}

/// The same for tiles of groups: `size` neighbours along `within`, which what is stored and tiled
/// loads alike go through first, and then along different variables.
struct Groups {
  Expr within, across, down;
  int64_t size = 0;
  std::vector<ValueId> loads;
};
std::optional<Groups> find_groups(const ir::Module &module, const KernelGraph &graph) {
  constexpr int64_t kMostBytes = 16; // of a group; more are whole accesses
  std::vector<ValueId> stores;
  for (ValueId id = 0; id < graph.values.size(); ++id)
    if (is_store_of_elements(graph[id]))
      stores.push_back(id);
  const auto inner = stepping_by(graph, 1, stores);
  const auto size = inner ? graph.element_sizes[*inner].as_integer() : std::nullopt;
  if (stores.empty() || !size || *size < 2 || *size > kMostBytes)
    return std::nullopt;
  Groups groups;
  groups.within = graph.element_variables[*inner];
  groups.size = *size;
  const auto across = stepping_by(graph, groups.size, stores);
  if (!across)
    return std::nullopt;
  groups.across = graph.element_variables[*across];
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const Value &value = graph[id];
    if (!may_be_tiled(graph, value, false) || !unit_stride(value, groups.within) ||
        !symbolic::depends_on(value.index, groups.across) ||
        groups.size * static_cast<int64_t>(bytes_of(module, value)) > kMostBytes)
      continue;
    const auto step = symbolic::coefficient_of(value.index, groups.across);
    if (!step || *step != groups.size)
      groups.loads.push_back(id);
  }
  const auto down = stepping_by(graph, groups.size, groups.loads);
  if (groups.loads.empty() || !down || *down == *across)
    return std::nullopt;
  groups.down = graph.element_variables[*down];
  return groups;
}

/// One loop along the edge of `groups`, whose elements are neighbours, and another one that goes
/// from group to group where tiled loads read: the last two. False, and the graph is of no use,
/// where edges are short.
bool arrange_groups(KernelGraph &graph, const Groups &groups) {
  merge_variables(graph, groups.within, groups.across);
  const auto place = [&](Expr variable) { return place_of(graph, variable); };
  lengthen(graph, groups.within, groups.down, is_store_of_elements);
  for (;;) { // what tiled loads go through next
    const auto length = graph.element_sizes[place(groups.down)].as_integer();
    if (!length || *length >= kWideEdge)
      break;
    const auto next = stepping_by(graph, *length * groups.size, groups.loads);
    if (!next || graph.element_variables[*next] == groups.within)
      break;
    merge_variables(graph, groups.down, graph.element_variables[*next]);
  }
  for (const Expr variable : {groups.down, groups.within}) {
    if (!long_enough(graph, place(variable)))
      return false;
    move_to_end(graph, place(variable));
  }
  return true;
}

/// As many groups at a time as make the widest accesses of a run that all tiled loads may be read
/// in; 0 where not even one may.
int choose_groups_across(const ir::Module &module, const KernelGraph &graph,
                         const Divisibility &checked, const std::vector<ValueId> &loads,
                         int group) {
  constexpr size_t kWidest = 16, kMostBytes = 48; // of an access, and of those of a run
  constexpr int kMostElements = 16;
  const size_t last = graph.element_variables.size() - 1;
  const Expr across = graph.element_variables[last], down = graph.element_variables[last - 1];
  const auto access_bytes = [&](int width) { // of the narrowest; 0: not a run
    size_t narrowest = kWidest;
    for (const ValueId id : loads) {
      const size_t size = bytes_of(module, graph[id]),
                   bytes = size * static_cast<size_t>(width) * static_cast<size_t>(group),
                   access = std::gcd(bytes, kWidest);
      const Expr first =
          symbolic::simplify(symbolic::substitute(graph[id].index, {{across, across * Expr(group)},
                                                                    {down, down * Expr(width)}}),
                             graph.ranges);
      const auto step = symbolic::coefficient_of(graph[id].index, down);
      if (bytes > kMostBytes || (width > 1 && !(step && step->is_integer(group))) ||
          !symbolic::known_multiple_of(first, static_cast<int64_t>(access / size), graph.ranges))
        return size_t{0};
      narrowest = std::min(narrowest, access);
    }
    return narrowest;
  };
  int best = 0;
  size_t widest = 0;
  for (int width = 1; width * group <= std::max(kMostElements, group); width *= 2) {
    const size_t bytes = access_bytes(width);
    if (bytes > widest &&
        (width == 1 || is_multiple(graph.element_sizes[last - 1], width, graph.ranges, checked))) {
      widest = bytes;
      best = width;
    }
  }
  return best;
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

/// What a tile takes, in steps of one element: fitted to 12 kernels (transposed matrices, images,
/// windows) of elements of 1, 2 and 4 bytes in 11 forms each on an H200. The form that it chooses
/// is 3% slower than the best one on average.
struct TileCost {
  static constexpr double kTile = 4;                  // besides its elements
  static constexpr double kStored = 2, kLoaded = 0.5; // of the sectors that pieces share
  static constexpr double kManyBytes = 6144, kEachKibibyte = .05; // fewer tiles at once
  static constexpr double kSector = 32, kTilesAtOnce = 4;         // of a multiprocessor
  double width, height, others;                                   // of the loops
  double stored, loaded;                                          // bytes of an element
  double bytes;                                                   // of all tiled operands
  bool whole_stores, whole_loads;                                 // lines start at whole sectors
  double multiprocessors;

  double operator()(const TileWalk &tile) const {
    const auto shared = [](double piece, double line, double size, bool whole) {
      if (whole && std::fmod(piece * size, kSector) == 0)
        return 0.0;
      return (piece < line ? kSector : kSector / 2) / (piece * size);
    };
    const double tiles = std::ceil(width / tile.edge) * std::ceil(height / tile.height) * others;
    const double stores = shared(tile.edge, width, stored, whole_stores),
                 loads = shared(tile.height, height, loaded, whole_loads);
    const double each = kTile + tile.steps_of(false) * tile.vector * (1 + kStored * stores) +
                        tile.steps_of(true) * tile.loaded_run() * (1 + kLoaded * loads);
    const double many = std::max(0.0, tile.elements() * bytes - kManyBytes) / 1024;
    return std::max(1.0, tiles / (kTilesAtOnce * multiprocessors)) * each *
           (1 + kEachKibibyte * many);
  }
};

/// The edges that cost least; `chosen`: elements at most, or 0. Sizes that are symbols are taken
/// for large ones.
void fit_edges(const ir::Module &module, const KernelPlan &plan, const target::Target &target,
               size_t bytes, TileWalk &walk, int chosen) {
  constexpr int kMostElements = 8192;
  constexpr double kLarge = 1 << 14;
  const KernelGraph &graph = plan.graph;
  const size_t last = graph.element_sizes.size() - 1;
  const auto size = [&](size_t position) {
    return static_cast<double>(likely(module, graph.element_sizes[position]).value_or(kLarge));
  };
  TileCost cost{.width = size(last),
                .height = size(last - 1),
                .others = 1,
                .stored = 1,
                .loaded = 1,
                .bytes = static_cast<double>(bytes),
                .whole_stores = true,
                .whole_loads = true,
                .multiprocessors = static_cast<double>(target.multiprocessors)};
  for (size_t i = 0; i + 1 < last; ++i)
    cost.others *= size(i);
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const auto each =
        static_cast<double>(graph[id].buffer == ir::kNone ? 0 : bytes_of(module, graph[id]));
    if (plan.tiled[id])
      cost.loaded = std::max(cost.loaded, each * walk.group);
    else if (is_store_of_elements(graph[id]))
      cost.stored = std::max(cost.stored, each);
  }
  cost.whole_stores = std::fmod(cost.width * cost.stored, TileCost::kSector) == 0;
  cost.whole_loads = std::fmod(cost.height * cost.loaded, TileCost::kSector) == 0;
  const auto candidates = [](double whole, double other, int multiple, double longest_whole) {
    constexpr int kLongest = 160;
    std::vector<int> edges;
    for (const int edge : {32, 64, 96, 128, 256, static_cast<int>(kLongestEdge)})
      if (edge < whole && edge % multiple == 0 &&
          (edge < kLongest || other < kSmallestEdge)) // long beside a short one
        edges.push_back(edge);
    if (whole <= longest_whole || edges.empty())
      edges.push_back(static_cast<int>((whole + multiple - 1) / multiple) * multiple);
    return edges;
  };
  // Lines of no whole number of warps have their warps read from two of them: single elements are
  // better off in lines of 32.
  constexpr double kWholeEdge = 160, kWholeLine = 32;
  const double whole_line = walk.vector > 1 ? kWholeEdge : kWholeLine;
  double least = std::numeric_limits<double>::infinity();
  std::optional<TileWalk> best;
  const int whole = std::lcm(walk.vector, walk.group);
  for (const int edge : candidates(cost.width, cost.height, whole, kWholeEdge))
    for (const int height : candidates(cost.height, cost.width, walk.across, whole_line)) {
      TileWalk tile = walk;
      tile.edge = edge;
      tile.height = height;
      const int most = chosen != 0 ? chosen : kMostElements;
      if (tile.elements() > most || tile.elements() * bytes > kSharedBytes ||
          (best && tile.elements() < kBlock)) // threads that have nothing
        continue;
      const double takes = cost(tile);
      if (takes < least || (best && best->elements() < kBlock)) {
        least = takes;
        best = tile;
      }
    }
  if (best)
    walk = *best;
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
               const target::Target &target, const TileWalk *like, const PlanChoice &choice,
               TileEdges edges, bool guarded) {
  if (plan.graph.element_variables.size() < 2)
    return false;
  KernelGraph graph = plan.graph;
  std::vector<ValueId> loads;
  TileWalk walk;
  if (edges == TileEdges::of_groups) {
    const std::optional<Groups> groups = find_groups(module, graph);
    if (!groups || !arrange_groups(graph, *groups))
      return false;
    loads = groups->loads;
    walk.group = static_cast<int>(groups->size);
    walk.across = choose_groups_across(module, graph, plan.checked, loads, walk.group);
    if (walk.across == 0)
      return false;
  } else {
    loads = arrange_variables(module, graph, edges, guarded);
  }
  const auto has_guard = [&](ValueId id) { return graph[id].guard != ir::kNone; };
  if (loads.empty() || (guarded && std::none_of(loads.begin(), loads.end(), has_guard)))
    return false;
  plan.graph = std::move(graph);
  const size_t bytes = mark_tiled(module, plan, loads);
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
  if (walk.group > 1) {
    const int whole = std::lcm(walk.vector, walk.group);
    walk.edge = std::max(whole, walk.edge / whole * whole);
    walk.across = std::gcd(walk.across, walk.height);
  } else {
    walk.across = std::gcd(choose_across(module, plan, most), walk.height);
  }
  if (!like)
    fit_edges(module, plan, target, bytes, walk, chosen);
  walk.steps = walk.steps_of(false);
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
                     (walk.group > 1 ? " groups of " + std::to_string(walk.group) : "") +
                     " of transposed operands, " + access_text(module, plan, walk.vector);
  fill_phases(module, plan, group, true);
  return true;
}

} // namespace tsc::codegen
