// How elements are accessed: how long runs are, where the rows of runs start, which accesses are
// vectors.
#include "codegen/expression.h"
#include "codegen/plan.h"
#include "codegen/plan_steps.h"

#include <algorithm>
#include <numeric>

namespace tsc::codegen {

using ir::Op;

namespace {

/// Elements that a run's first index must be a multiple of for one aligned access (16 bytes at
/// most).
int64_t alignment_of(DType dtype, int vector) {
  return std::min<int64_t>(
      vector, std::max<int64_t>(1, 16 / static_cast<int64_t>(tensor::size_in_bytes(dtype))));
}

} // namespace

namespace {

/// How wide elements are that go by runs.
struct AccessWidths {
  size_t narrowest = 16, widest = 1, widest_stored = 1;
  bool stores_doubles = false;

  void add(const ir::Module &module, const Value &value) {
    const ir::DType dtype = module.buffer(value.buffer).dtype;
    const size_t bytes = tensor::size_in_bytes(dtype);
    narrowest = std::min(narrowest, bytes);
    widest = std::max(widest, bytes);
    if (value.op != Op::store || value.level != Level::element ||
        value.mode != ir::StoreMode::plain)
      return;
    widest_stored = std::max(widest_stored, bytes);
    stores_doubles = stores_doubles || dtype == ir::DType::f64 || dtype == ir::DType::c128;
  }
  /// Elements a run, at most: 16 bytes of the narrowest, 32 of the widest; 16 of what is stored: of
  /// two accesses each would leave every other half of a sector to the next one. (40 million floats
  /// of 16 bits each: 67.9 us in runs of 4, 70.3 of 8; images of 16 bits beside a mask of
  /// bytes 44.9 in runs of 8, 50.9 of 16; float32 softmax of 32768 rows of 4096 bf16 204 us, 271;
  /// H200.) Of reductions not where all are as wide (what is loaded would be no better off), nor of
  /// doubles, sorts and scans in parts, which go by what a run computes (a running float32 sum of
  /// rows of two million bf16: 120 us in runs of 4, 80 of 8; a softmax in float64 of 8192 rows of
  /// 2048 floats 69 in runs of 2, 60 of 4).
  int longest(const KernelGraph &graph) const {
    size_t result = std::min(16 / narrowest, std::max<size_t>(1, 32 / widest));
    const bool sorts = std::any_of(graph.values.begin(), graph.values.end(),
                                   [](const Value &value) { return value.op == Op::sort; });
    const bool computes = stores_doubles || narrowest == widest_stored;
    if (!sorts && !graph.look_back && !(graph.reduces && computes))
      result = std::min(result, std::max<size_t>(1, 16 / widest_stored));
    return static_cast<int>(result);
  }
};

/// `rows`: row values are accessed in runs, too.
int choose_vector_along(const ir::Module &module, const KernelPlan &plan, Expr variable, Expr size,
                        bool rows) {
  const KernelGraph &graph = plan.graph;
  AccessWidths widths;
  bool any = false;
  for (const Value &value : graph.values) {
    if ((value.level != Level::element && !rows) || (value.op != Op::load && !is_store(value)))
      continue;
    if (access_of(value.index, variable, 2, 2, plan.checked) != Access::vector)
      continue;
    any = true;
    widths.add(module, value);
  }
  if (!any)
    return 1;
  int vector = widths.longest(graph);
  while (vector > 1 && !is_multiple(size, vector, graph.ranges, plan.checked))
    vector /= 2;
  return vector;
}

} // namespace

std::optional<int64_t> step_along(Expr index, Expr variable) {
  if (!symbolic::depends_on(index, variable))
    return 0;
  const auto step = symbolic::coefficient_of(index, variable);
  return step ? step->as_integer() : std::nullopt;
}

bool adds_at_own_indices(const KernelGraph &graph, Expr variable) {
  std::vector<bool> varies(graph.values.size(), false);
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const Value &value = graph[id];
    varies[id] =
        symbolic::depends_on(value.index, variable) ||
        std::any_of(value.args.begin(), value.args.end(), [&](ValueId arg) { return varies[arg]; });
    if (value.op != Op::store || value.mode == ir::StoreMode::plain)
      continue;
    const auto step = symbolic::coefficient_of(value.index, variable);
    for (ValueId index = 0; index < id && step && step->is_integer(1); ++index)
      if (graph[index].op == Op::set_indirect && varies[index] &&
          symbolic::depends_on(value.index, graph[index].symbol))
        return true;
  }
  return false;
}

int choose_vector(const ir::Module &module, const KernelPlan &plan) {
  const KernelGraph &graph = plan.graph;
  return graph.element_variables.empty() ||
                 adds_at_own_indices(graph, graph.element_variables.back())
             ? 1
             : choose_vector_along(module, plan, graph.element_variables.back(),
                                   graph.element_sizes.back(), false);
}

int choose_row_vector(const ir::Module &module, const KernelPlan &plan) {
  const KernelGraph &graph = plan.graph;
  return choose_vector_along(module, plan, graph.row_variables.back(), graph.row_sizes.back(),
                             true);
}

namespace {

/// Where the row of an access starts, if its elements are neighbours.
std::optional<Expr> row_start(const Value &access, Expr variable) {
  const Expr start = symbolic::substitute(access.index, {{variable, Expr(0)}});
  return access.index == start + variable ? std::optional(start) : std::nullopt;
}

/// Of runs that start at multiples of `alignment` from `origin` on, anywhere in the row.
Access access_beside(Expr index, Expr variable, Expr origin, int64_t alignment,
                     const symbolic::Ranges &ranges) {
  if (!symbolic::depends_on(index, variable))
    return Access::constant;
  const Expr apart = symbolic::simplify(index - variable - origin, ranges);
  return !symbolic::depends_on(apart, variable) &&
                 symbolic::known_multiple_of(apart, alignment, ranges)
             ? Access::vector
             : Access::element;
}

} // namespace

std::optional<Expr> access_end(const ir::Module &module, const KernelGraph &graph,
                               const Value &load) {
  if (const auto held = module.buffer(load.buffer).layout.storage_size().as_integer())
    return Expr(std::min(symbolic::bounds(load.index, graph.ranges).high + 1, *held));
  symbolic::Substitution last;
  const auto take = [&](std::span<const Expr> variables, std::span<const Expr> sizes) {
    for (size_t i = 0; i < variables.size(); ++i) {
      const auto step = symbolic::coefficient_of(load.index, variables[i]);
      if (!step || symbolic::bounds(*step, graph.ranges).low < 0)
        return false;
      last[variables[i]] = sizes[i] - 1;
    }
    return true;
  };
  if (!load.args.empty() || !take(graph.row_variables, graph.row_sizes) ||
      !take(graph.element_variables, graph.element_sizes))
    return std::nullopt;
  return symbolic::substitute(load.index, last) + 1;
}

std::optional<RowOrigin> choose_origin(const ir::Module &module, const KernelGraph &graph) {
  const bool is_static = graph.rows().is_integer();
  if (graph.element_variables.size() != 1 || !longest_row(graph) ||
      (!is_static && !graph.elements().is_integer()))
    return std::nullopt;
  const Expr variable = graph.element_variables[0];
  const auto accesses_element = [](const Value &value) {
    return value.level == Level::element && (value.op == Op::load || is_store(value));
  };
  const auto of_rows = [&](Expr start) {
    return std::none_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
      return value.op == Op::set_indirect && symbolic::depends_on(start, value.symbol);
    });
  };
  constexpr int64_t kLongest = 16;
  const auto goes_along = [&](const Value &value, Expr start) {
    return access_beside(value.index, variable, start, kLongest, graph.ranges) == Access::vector;
  };
  const auto bytes_of = [&](const Value &value) {
    constexpr int64_t kOfAnySize = int64_t{1} << 24;
    const ir::Buffer &buffer = module.buffer(value.buffer);
    return buffer.layout.storage_size().as_integer().value_or(kOfAnySize) *
           static_cast<int64_t>(tensor::size_in_bytes(buffer.dtype));
  };
  std::optional<RowOrigin> origin;
  int64_t most = 0;
  for (const Value &value : graph.values) {
    if (!accesses_element(value))
      continue;
    if (is_static && !module.buffer(value.buffer).layout.storage_size().is_integer())
      return std::nullopt; // what lies behind a row may not be there
    const std::optional<Expr> start = row_start(value, variable);
    if (!start || !of_rows(*start))
      continue;
    int64_t bytes = 0;
    for (const Value &other : graph.values)
      bytes += accesses_element(other) && goes_along(other, *start) ? bytes_of(other) : 0;
    if (bytes > most) {
      most = bytes;
      origin = RowOrigin{*start, 1};
    }
  }
  if (!origin)
    return std::nullopt;
  AccessWidths widths;
  for (const Value &value : graph.values) {
    if (!accesses_element(value) || !goes_along(value, origin->index))
      continue;
    if (value.op == Op::load && !access_end(module, graph, value))
      return std::nullopt;
    widths.add(module, value);
  }
  origin->vector = widths.longest(graph);
  return origin;
}

int64_t longest_row_in_runs(const KernelPlan &plan, int vector) {
  const int64_t elements = longest_row(plan.graph).value() + (plan.origin ? vector - 1 : 0);
  return (elements + vector - 1) / vector;
}

namespace {

/// Whether a comparison of a position with `bound` is the same for all of a run that starts at a
/// multiple of `vector`. `first`: the position stands first.
bool splits_no_run(Op op, bool first, const Value &bound, Expr variable, int vector,
                   const KernelPlan &plan) {
  const bool strict = op == Op::lt || op == Op::gt;
  const bool less = op == Op::lt || op == Op::le;
  if (!strict && op != Op::le && op != Op::ge)
    return false;
  // x < c and x >= c change between c - 1 and c, x <= c and x > c between c and c + 1.
  const int64_t behind = (strict == less) == first ? 0 : 1;
  if (bound.op == Op::constant && !tensor::is_floating(bound.dtype)) {
    const auto *number = std::get_if<int64_t>(&bound.constant);
    return number && (*number + behind) % vector == 0;
  }
  return bound.op == Op::index_expr && bound.level == Level::row &&
         !symbolic::depends_on(bound.index, variable) && behind == 0 &&
         is_multiple(bound.index, vector, plan.graph.ranges, plan.checked);
}

/// Positions along the run that are only compared, with bounds between runs, or drawn by: where the
/// run starts says it all. Of runs that start where the memory's do (KernelPlan::origin), a bound
/// says nothing.
std::vector<bool> positions_of_runs(const KernelPlan &plan, Expr variable, int vector) {
  constexpr int kPair = 2; // even offsets and the next ones share a block (tc_random.h)
  const KernelGraph &graph = plan.graph;
  std::vector<bool> result(graph.values.size(), false);
  for (ValueId id = 0; id < graph.values.size(); ++id)
    if (const Expr index = graph[id].index; graph[id].op == Op::index_expr)
      result[id] = Access::vector ==
                   (plan.origin ? access_beside(index, variable, *plan.origin, vector, graph.ranges)
                                : access_of(index, variable, vector, vector, plan.checked));
  const auto draws = [&](const Value &user, size_t i) {
    return ir::is_random(user.op) && i == 2 && vector % kPair == 0;
  };
  const auto compares = [&](const Value &user, size_t i) {
    return !plan.origin && user.args.size() == 2 && user.guard != user.args[i] &&
           splits_no_run(user.op, i == 0, graph[user.args[1 - i]], variable, vector, plan);
  };
  for (const Value &user : graph.values)
    for (size_t i = 0; i < user.args.size(); ++i)
      if (result[user.args[i]] && !draws(user, i) && !compares(user, i))
        result[user.args[i]] = false;
  return result;
}

bool may_be_vector(const ir::Module &module, const Value &store) {
  return store.mode == ir::StoreMode::plain ||
         atomic_vector(store.mode, module.buffer(store.buffer).dtype) > 1;
}

} // namespace

int atomic_vector(ir::StoreMode mode, DType dtype) {
  constexpr int kBytes = 16;
  return mode == ir::StoreMode::atomic_add && tensor::is_floating(dtype) && dtype != DType::f64
             ? kBytes / static_cast<int>(tensor::size_in_bytes(dtype))
             : 1;
}

namespace {

void classify_along(const ir::Module &module, KernelPlan &plan, int vector, Expr variable,
                    bool rows) {
  const KernelGraph &graph = plan.graph;
  const size_t count = graph.values.size();
  const std::vector<bool> starts = positions_of_runs(plan, variable, vector);
  for (ValueId id = 0; id < count; ++id) {
    const Value &value = graph[id];
    if ((value.level != Level::element && !rows) || value.op == Op::reduction ||
        value.op == Op::scan || value.op == Op::sort)
      continue;
    const auto steady = [&](ValueId arg) {
      const bool same_row = graph[arg].level == Level::row || graph[arg].op == Op::reduction;
      return (same_row && !rows) || plan.uniform[arg];
    };
    const bool store = is_store(value);
    const bool args_steady =
        std::all_of(value.args.begin() + (store ? 1 : 0), value.args.end(), steady) &&
        (value.guard == ir::kNone || steady(value.guard));
    Access access = Access::constant;
    if (value.op == Op::load || store || value.op == Op::index_expr) {
      const int64_t alignment =
          value.buffer == ir::kNone ? 1 : alignment_of(module.buffer(value.buffer).dtype, vector);
      access = plan.origin
                   ? access_beside(value.index, variable, *plan.origin, vector, graph.ranges)
                   : access_of(value.index, variable, vector, alignment, plan.checked);
    }
    if (starts[id])
      access = Access::constant;
    if (!args_steady || (ir::is_random(value.op) && starts[value.args[2]]))
      access = Access::element;
    if (!plan.tiled.empty() && plan.tiled[id]) // of shared memory, which has an element a place
      access = Access::element;
    if (store && (access == Access::constant || !may_be_vector(module, value) ||
                  (plan.origin && value.mode != ir::StoreMode::plain)))
      access = Access::element;
    plan.access[id] = access;
    plan.uniform[id] = !store && access == Access::constant;
  }
}

void reset_accesses(KernelPlan &plan) {
  const size_t count = plan.graph.values.size();
  plan.access.assign(count, Access::element);
  plan.uniform.assign(count, false);
  plan.streamed.assign(count, false);
}

} // namespace

void classify_accesses(const ir::Module &module, KernelPlan &plan, int vector) {
  reset_accesses(plan);
  if (vector > 1 && !plan.graph.element_variables.empty())
    classify_along(module, plan, vector, plan.graph.element_variables.back(), false);
}

void classify_row_accesses(const ir::Module &module, KernelPlan &plan, int vector) {
  reset_accesses(plan);
  if (vector > 1)
    classify_along(module, plan, vector, plan.graph.row_variables.back(), true);
}

const Choice *choice_of(const KernelPlan &plan, ValueId id) {
  const auto found = std::find_if(plan.choices.begin(), plan.choices.end(),
                                  [&](const Choice &choice) { return choice.root == id; });
  return found == plan.choices.end() ? nullptr : &*found;
}

int shift_of(const KernelPlan &plan, ValueId id) { return plan.shift.empty() ? 0 : plan.shift[id]; }

void find_shifts(const ir::Module &module, KernelPlan &plan, int vector, bool anywhere) {
  constexpr int kShortest = 4; // two accesses for that many single ones
  // Putting together what starts anywhere takes more instructions than four loads.
  constexpr size_t kFewestBytes = 8, kWidest = 4, kFewest = 5;
  const KernelGraph &graph = plan.graph;
  plan.shift.assign(graph.values.size(), 0);
  if (vector < kShortest || graph.element_variables.empty())
    return;
  const Expr variable = graph.element_variables.back();
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const Value &value = graph[id];
    if (value.op != Op::load || value.level != Level::element || !value.args.empty() ||
        value.guard != ir::kNone || plan.access[id] != Access::element ||
        !symbolic::depends_on(value.index, variable))
      continue;
    const auto held = module.buffer(value.buffer).layout.storage_size().as_integer();
    // Runs that lie by another access's rows start at other places in this one's from row to row.
    for (int shift = 1; held && !plan.origin && shift < vector; ++shift) {
      const auto moved = [&](int by) {
        return symbolic::simplify(
            symbolic::substitute(value.index, {{variable, variable + Expr(by)}}), graph.ranges);
      };
      const Expr low = moved(-shift), high = moved(vector - shift);
      const auto lies_inside = [&](Expr start) { // all of what is read
        const symbolic::Interval places = symbolic::bounds(start, graph.ranges);
        return places.low >= 0 && places.high + 1 <= *held;
      };
      const auto is_vector = [&](Expr start) {
        return access_of(start, variable, vector, vector, plan.checked) == Access::vector;
      };
      if (!is_vector(low) || !is_vector(high) || !lies_inside(low) || !lies_inside(high))
        continue;
      plan.access[id] = Access::vector;
      plan.shift[id] = shift;
      break;
    }
    const auto step = symbolic::coefficient_of(value.index, variable);
    const size_t size = tensor::size_in_bytes(module.buffer(value.buffer).dtype);
    if (anywhere && held && plan.access[id] == Access::element && step && step->is_integer(1) &&
        size <= kWidest && static_cast<size_t>(vector) * size >= kFewestBytes &&
        (size < kWidest || static_cast<size_t>(vector) >= kFewest)) {
      plan.access[id] = Access::vector;
      plan.shift[id] = kAnyShift;
    }
  }
}

} // namespace tsc::codegen
