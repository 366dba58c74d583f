// Gradients of pools, and what else adds up, for each element, what the few windows hold that cover
// it. Where they lie follows from divisions by their stride, so elements a stride apart differ by a
// constant, and those between them look in the same windows. A thread takes elements of a whole
// stride, of several dimensions: what it adds up stands written out, each load once, without a
// division, conditions decided where they can be.
#include "codegen/estimate_kernel.h"
#include "codegen/plan.h"
#include "codegen/plan_steps.h"

#include <algorithm>
#include <numeric>

namespace tsc::codegen {

namespace {

using ir::Op;

constexpr int64_t kMostTaps = 64;       // of an element
constexpr int64_t kLongestPeriod = 8;   // in elements along a loop
constexpr int64_t kMostCopies = 32;     // elements of a thread
constexpr size_t kMostValues = 900;     // that a thread computes
constexpr int64_t kFewestThreads = 512; // a multiprocessor
constexpr int64_t kAccessBytes = 16;

/// After how many steps along `variable` all divisions in `index` are further by whole numbers; 0
/// where that cannot be told.
int64_t period_of(Expr index, Expr variable) {
  if (!symbolic::depends_on(index, variable) || index.is_symbol())
    return 1;
  const symbolic::Kind kind = index.kind();
  const auto operands = index.operands();
  int64_t period = 1;
  if (kind == symbolic::Kind::floor_div || kind == symbolic::Kind::mod) {
    const auto step = symbolic::coefficient_of(operands[0], variable);
    if (!operands[1].is_integer() || !step || !step->is_integer())
      return 0;
    period = operands[1].value() / std::gcd(operands[1].value(), step->value());
  } else if (kind != symbolic::Kind::add && kind != symbolic::Kind::mul) {
    return 0;
  }
  for (const Expr operand : operands)
    period = std::lcm(period, period_of(operand, variable));
  return period;
}

/// Of all indices, along each loop; empty where that cannot be told.
std::vector<int64_t> periods_of(const KernelGraph &graph) {
  std::vector<int64_t> periods;
  for (const Expr variable : graph.element_variables) {
    int64_t period = 1;
    for (const Value &value : graph.values) {
      period = std::lcm(period, period_of(value.index, variable));
      if (period == 0 || period > kLongestPeriod)
        return {};
    }
    periods.push_back(period);
  }
  return periods;
}

/// The loop as two, the inner one of `copies` elements, the last variable.
struct Divided {
  KernelGraph graph;
  ValueId inside = ir::kNone; // where elements are; kNone: copies divide them
};
Divided divided(const KernelGraph &source, size_t loop, int64_t copies) {
  const Expr variable = source.element_variables[loop], size = source.element_sizes[loop];
  const Expr within = unused_variable(source), place = variable * Expr(copies) + within;
  const Expr count = Expr((size.value() + copies - 1) / copies);
  Divided result{source, ir::kNone};
  KernelGraph &graph = result.graph;
  graph.ranges.set_size(variable, count);
  graph.ranges.set_size(within, copies);
  graph.element_sizes[loop] = count;
  graph.element_variables.push_back(within);
  graph.element_sizes.emplace_back(copies);
  graph.values.clear();
  if (size.value() % copies != 0) {
    Value at, end, less;
    at.op = Op::index_expr;
    at.dtype = end.dtype = less.source_dtype = DType::i64;
    at.index = place;
    end.constant = size.value();
    less.op = Op::lt;
    less.dtype = DType::boolean;
    less.args = {0, 1};
    graph.values = {at, end, less};
    result.inside = 2;
  }
  const auto first = static_cast<ValueId>(graph.values.size());
  for (Value value : source.values) {
    for (ValueId &arg : value.args)
      arg += first;
    if (value.guard != ir::kNone)
      value.guard += first;
    value.index =
        symbolic::simplify(symbolic::substitute(value.index, {{variable, place}}), graph.ranges);
    graph.values.push_back(std::move(value));
  }
  for (ValueId &store : graph.stores)
    store += first;
  return result;
}

/// Bytes of what a graph loads, or stores, each buffer once.
Expr bytes_of(const Request &request, const KernelGraph &graph, Op op) {
  std::vector<BufferId> counted;
  int64_t total = 0;
  for (const Value &value : graph.values) {
    if (value.op != op || std::find(counted.begin(), counted.end(), value.buffer) != counted.end())
      continue;
    counted.push_back(value.buffer);
    const ir::Buffer &buffer = request.module.buffer(value.buffer);
    total += buffer.layout.storage_size().as_integer().value_or(0) *
             static_cast<int64_t>(tensor::size_in_bytes(buffer.dtype));
  }
  return total;
}

} // namespace

double planned_time(const Request &request, const KernelPlan &plan) {
  return estimate_kernel(request.module, plan, bytes_of(request, plan.graph, Op::load),
                         bytes_of(request, plan.graph, Op::store), request.target)
      .planned();
}

namespace {

/// Elements that a thread takes along each loop.
using Copies = std::vector<int64_t>;

struct CoveredPlan {
  KernelPlan plan;
  double time = 0; // nanoseconds
};

class CoveredPlanner {
public:
  CoveredPlanner(const Request &request, KernelGraph graph)
      : request_(request), graph_(std::move(graph)), periods_(periods_of(graph_)) {}

  bool is_known() const { return !periods_.empty(); }
  bool has_periods() const {
    return std::any_of(periods_.begin(), periods_.end(), [](int64_t period) { return period > 1; });
  }

  /// The plan that takes least, of those that there are.
  std::optional<CoveredPlan> best() const {
    std::optional<CoveredPlan> result;
    for (const Copies &copies : candidates()) {
      std::optional<KernelPlan> plan = planned(copies);
      if (!plan)
        continue;
      const double time = planned_time(request_, *plan);
      if (!result || time < result->time * 0.98)
        result = CoveredPlan{*std::move(plan), time};
    }
    return result;
  }

private:
  const Request &request_;
  const KernelGraph graph_;
  const std::vector<int64_t> periods_;

  size_t narrowest_store() const {
    size_t result = kAccessBytes;
    for (const Value &value : graph_.values)
      if (value.op == Op::store)
        result =
            std::min(result, tensor::size_in_bytes(request_.module.buffer(value.buffer).dtype));
    return result;
  }
  /// Whole periods of some of the loops that have any; of the innermost loop as many as an access
  /// holds.
  std::vector<Copies> candidates() const {
    const size_t count = periods_.size();
    std::vector<Copies> result = {Copies(count, 1)};
    for (size_t loop = 0; loop < count; ++loop) {
      const size_t before = result.size();
      const int64_t most = loop + 1 < count
                               ? periods_[loop]
                               : kAccessBytes / static_cast<int64_t>(narrowest_store());
      for (int64_t taken = std::max<int64_t>(periods_[loop], loop + 1 < count ? 1 : 2);
           taken > 1 && (taken == periods_[loop] || taken <= most); taken *= 2)
        for (size_t i = 0; i < before; ++i) {
          result.push_back(result[i]);
          result.back()[loop] = taken;
        }
    }
    std::erase_if(result, [&](const Copies &copies) { return !fills(copies); });
    return result;
  }
  bool fills(const Copies &copies) const {
    int64_t taken = 1;
    for (size_t i = 0; i < copies.size(); ++i) {
      if (graph_.element_sizes[i].value() < copies[i])
        return false;
      taken *= copies[i];
    }
    return taken <= kMostCopies &&
           (taken == 1 ||
            graph_.elements().value() / taken >= kFewestThreads * request_.target.multiprocessors);
  }

  std::optional<KernelPlan> planned(const Copies &copies) const {
    KernelPlan plan;
    plan.graph = graph_;
    std::vector<std::vector<ValueId>> stores; // neighbours of one thread
    for (size_t loop = 0; loop < copies.size(); ++loop) {
      if (copies[loop] == 1)
        continue;
      const Divided parts = divided(plan.graph, loop, copies[loop]);
      std::optional<Unrolled> unrolled =
          unroll(parts.graph, plan.graph.element_variables.size(), kMostValues, parts.inside);
      if (!unrolled)
        return std::nullopt;
      stores.clear();
      plan.graph = std::move(unrolled->graph);
      if (loop + 1 < copies.size())
        continue;
      for (const std::vector<ValueId> &members : unrolled->copies)
        if (members.size() > 1 && plan.graph[members.front()].op == Op::store)
          stores.push_back(members);
    }
    plan.copies = static_cast<int>(
        std::accumulate(copies.begin(), copies.end(), int64_t{1}, std::multiplies<>()));
    assign_phases(plan.graph);
    FlatWalk walk;
    walk.vector = copies.back() > 1 ? 1 : choose_vector(request_.module, plan);
    classify_accesses(request_.module, plan, walk.vector);
    find_shifts(request_.module, plan, walk.vector);
    for (const std::vector<ValueId> &members : stores)
      join_stores(plan, members);
    preload_all(plan);
    finish_flat(request_, plan, walk, 1);
    plan.wide_index = needs_wide_index(plan.graph);
    describe(plan, copies);
    return plan;
  }
  /// Neighbours that are one access.
  void join_stores(KernelPlan &plan, const std::vector<ValueId> &members) const {
    const Value &first = plan.graph[members.front()];
    const auto count = static_cast<int64_t>(members.size());
    const auto bytes =
        count *
        static_cast<int64_t>(tensor::size_in_bytes(request_.module.buffer(first.buffer).dtype));
    if (bytes > kAccessBytes || (bytes & (bytes - 1)) != 0 ||
        !symbolic::known_multiple_of(first.index, count, plan.graph.ranges))
      return;
    for (size_t i = 0; i < members.size(); ++i) {
      const Value &store = plan.graph[members[i]];
      if (store.guard != ir::kNone || store.mode != ir::StoreMode::plain ||
          store.args.size() != 1 || !(store.index == first.index + Expr(static_cast<int64_t>(i))))
        return;
    }
    for (const ValueId member : members)
      plan.access[member] = Access::vector;
    plan.interleaved.push_back({members, false});
  }
  void describe(KernelPlan &plan, const Copies &copies) const {
    std::string taken;
    for (size_t loop = 0; loop < copies.size(); ++loop)
      if (copies[loop] > 1)
        taken += (taken.empty() ? "" : " x ") + std::to_string(copies[loop]) + " along " +
                 graph_.element_variables[loop].spelling();
    plan.description = "pointwise, windows written out" +
                       (taken.empty() ? "" : ", elements " + taken + " a thread") + ", " +
                       plan.description;
  }
};

bool has_known_sizes(const KernelGraph &graph) {
  const auto is_number = [](Expr e) { return e.is_integer(); };
  return std::all_of(graph.row_sizes.begin(), graph.row_sizes.end(), is_number) &&
         std::all_of(graph.element_sizes.begin(), graph.element_sizes.end(), is_number);
}

/// A short sum for each row as a pointwise graph over the rows.
std::optional<KernelGraph> written_out(const KernelGraph &graph) {
  if (graph.row_variables.empty() || graph.element_variables.empty() ||
      graph.elements().value() > kMostTaps)
    return std::nullopt;
  const bool stores_rows =
      std::all_of(graph.values.begin(), graph.values.end(), [](const Value &value) {
        return value.op != Op::set_indirect &&
               ((value.op != Op::store && value.op != Op::store_reduction) ||
                value.level == Level::row);
      });
  return stores_rows ? unroll_rows(graph, kMostValues) : std::nullopt;
}

/// Whether windows that overlap are walked several times: a pool that also says where its largest
/// elements are.
bool walks_windows_again(const KernelGraph &graph) {
  const auto step_of = [](const Value &value, Expr variable) {
    return step_along(value.index, variable).value_or(0);
  };
  return graph.phases > 2 &&
         std::any_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
           for (size_t i = 0; value.op == Op::load && i < graph.element_variables.size(); ++i) {
             const int64_t tap = step_of(value, graph.element_variables[i]),
                           row = step_of(value, graph.row_variables.back());
             if (tap > 0 && row > 0 && row % tap == 0 && row / tap < graph.element_sizes[i].value())
               return true;
           }
           return false;
         });
}

/// The loop that all stores are contiguous along last; false if that is so, or there is none.
bool order_stores(KernelGraph &graph) {
  for (size_t i = 0; i + 1 < graph.element_variables.size(); ++i) {
    const bool serves =
        std::all_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
          const auto step = symbolic::coefficient_of(value.index, graph.element_variables[i]);
          return value.op != Op::store || (step && step->is_integer(1));
        });
    if (!serves)
      continue;
    const auto at = static_cast<ptrdiff_t>(i);
    for (std::vector<Expr> *list : {&graph.element_variables, &graph.element_sizes})
      std::rotate(list->begin() + at, list->begin() + at + 1, list->end());
    return true;
  }
  return false;
}

} // namespace

std::optional<KernelPlan> plan_covered(const Request &request, const KernelGraph &given) {
  if (request.like || !request.checked.sizes.empty() || !has_known_sizes(given))
    return std::nullopt;
  std::optional<KernelGraph> graph = given.reduces ? written_out(given) : given;
  if (!graph || graph->element_variables.empty())
    return std::nullopt;
  CoveredPlanner planner(request, *graph);
  if (!planner.is_known() ||
      !(planner.has_periods() || (given.reduces && walks_windows_again(given))))
    return std::nullopt;
  std::optional<CoveredPlan> best = planner.best();
  if (order_stores(*graph))
    if (std::optional<CoveredPlan> other = CoveredPlanner(request, *graph).best();
        other && (!best || other->time < best->time))
      best = std::move(other);
  return best ? std::optional(std::move(best->plan)) : std::nullopt;
}

} // namespace tsc::codegen
