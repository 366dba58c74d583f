#include "codegen/softmax_statistics.h"

#include "codegen/expression.h"

#include <map>
#include <utility>

namespace tsc::codegen {

namespace {

using ir::Op;
using ir::ReductionKind;

/// What `id` is another name of.
ValueId unnamed(const KernelGraph &graph, ValueId id) {
  while (graph[id].args.size() == 1 && is_alias(graph[id], graph[graph[id].args[0]]))
    id = graph[id].args[0];
  return id;
}

bool is_reduction_of(const Value &value, ReductionKind kind) {
  return value.op == Op::reduction && value.reduction == kind && value.args.size() == 1;
}

/// Whether a value of the row is computed from `of`.
bool is_computed_from(const KernelGraph &graph, ValueId id, ValueId of) {
  if (id == of)
    return true;
  if (graph[id].level != Level::row || graph[id].phase <= graph[of].phase)
    return false;
  for (const ValueId arg : graph[id].args)
    if (is_computed_from(graph, arg, of))
      return true;
  return false;
}

/// A sum of exponentials: what its terms' distances are taken of, and from what.
struct ExpSum {
  ValueId x = ir::kNone, from = ir::kNone;
};
std::optional<ExpSum> exp_sum(const KernelGraph &graph, const Value &sum) {
  if (!is_reduction_of(sum, ReductionKind::sum) ||
      (sum.dtype != DType::f32 && sum.dtype != DType::f64))
    return std::nullopt;
  const Value &term = graph[unnamed(graph, sum.args[0])];
  if (term.op != Op::exp || term.dtype != sum.dtype)
    return std::nullopt;
  const Value &distance = graph[unnamed(graph, term.args[0])];
  if (distance.op != Op::sub || distance.dtype != sum.dtype)
    return std::nullopt;
  return ExpSum{unnamed(graph, distance.args[0]), distance.args[1]};
}

/// The maximum, of the same dtype, that a sum waits for; kNone if it waits for none.
ValueId maximum_of(const KernelGraph &graph, const ExpSum &terms, DType dtype) {
  for (ValueId id = 0; id < graph.values.size(); ++id)
    if (is_reduction_of(graph[id], ReductionKind::max) && graph[id].dtype == dtype &&
        graph[id].guard == ir::kNone && unnamed(graph, graph[id].args[0]) == terms.x &&
        is_computed_from(graph, unnamed(graph, terms.from), id))
      return id;
  return ir::kNone;
}

} // namespace

void join_softmax_statistics(KernelGraph &graph) {
  std::map<ValueId, std::pair<ValueId, ValueId>>
      sums;                          // to its maximum, and what distances are from
  std::map<ValueId, ValueId> tuples; // of maxima
  for (ValueId id = 0; id < graph.values.size(); ++id)
    if (const std::optional<ExpSum> terms = exp_sum(graph, graph[id]))
      if (const ValueId maximum = maximum_of(graph, *terms, graph[id].dtype);
          maximum != ir::kNone) {
        sums[id] = {maximum, terms->from};
        tuples[maximum] = ir::kNone;
      }
  if (sums.empty())
    return;
  std::vector<Value> values;
  std::vector<ValueId> moved(graph.values.size());
  const auto add = [&](Op op, DType dtype, std::vector<ValueId> args) {
    Value value;
    value.op = op;
    value.dtype = dtype;
    value.args = std::move(args);
    values.push_back(std::move(value));
    return static_cast<ValueId>(values.size() - 1);
  };
  const auto item = [&](ValueId tuple, uint32_t number) {
    const ValueId id = add(Op::get_item, values[tuple].dtype, {tuple});
    values[id].item = number;
    return id;
  };
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    Value value = graph[id];
    for (ValueId &arg : value.args)
      arg = moved[arg];
    if (value.guard != ir::kNone)
      value.guard = moved[value.guard];
    if (const auto sum = sums.find(id); sum != sums.end()) {
      const auto &[maximum, from] = sum->second;
      const ValueId distance = add(Op::sub, value.dtype, {moved[maximum], moved[from]});
      const ValueId scale = add(Op::exp, value.dtype, {distance});
      moved[id] = add(Op::mul, value.dtype, {item(tuples[maximum], 1), scale});
      continue;
    }
    values.push_back(std::move(value));
    moved[id] = static_cast<ValueId>(values.size() - 1);
    if (const auto tuple = tuples.find(id); tuple != tuples.end()) {
      values.back().reduction = ReductionKind::online_softmax_reduce;
      tuple->second = moved[id];
      moved[id] = item(tuple->second, 0);
    }
  }
  for (ValueId &store : graph.stores)
    store = moved[store];
  graph.values = std::move(values);
  remove_dead_values(graph);
  assign_phases(graph);
}

} // namespace tsc::codegen
