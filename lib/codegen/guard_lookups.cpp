// Conditions of loads at run-time indices.
#include "codegen/kernel_graph.h"

#include <algorithm>

namespace tsc::codegen {

using ir::Op;

namespace {

/// By value, which loops (rows' first, a bit each) it moves with.
std::vector<uint64_t> loops_behind(const KernelGraph &graph) {
  std::vector<uint64_t> result(graph.values.size(), 0);
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const Value &value = graph[id];
    uint64_t loops = value.guard == ir::kNone ? 0 : result[value.guard];
    for (const ValueId arg : value.args)
      loops |= result[arg];
    const auto add = [&](const std::vector<Expr> &variables, size_t first) {
      for (size_t i = 0; i < variables.size(); ++i)
        if (symbolic::depends_on(value.index, variables[i]))
          loops |= uint64_t{1} << std::min<size_t>(63, first + i);
    };
    add(graph.row_variables, 0);
    add(graph.element_variables, graph.row_variables.size());
    result[id] = loops;
  }
  return result;
}

} // namespace

void put_in_order(KernelGraph &graph) {
  std::vector<ValueId> moved(graph.values.size(), ir::kNone);
  std::vector<Value> values;
  const auto place = [&](auto &self, ValueId id) -> void {
    if (moved[id] != ir::kNone)
      return;
    for (const ValueId arg : graph[id].args)
      self(self, arg);
    if (graph[id].guard != ir::kNone)
      self(self, graph[id].guard);
    moved[id] = static_cast<ValueId>(values.size());
    values.push_back(graph[id]);
  };
  for (ValueId id = 0; id < graph.values.size(); ++id)
    place(place, id);
  for (Value &value : values) {
    for (ValueId &arg : value.args)
      arg = moved[arg];
    value.guard = value.guard == ir::kNone ? ir::kNone : moved[value.guard];
  }
  for (ValueId &store : graph.stores)
    store = moved[store];
  graph.values = std::move(values);
}

void guard_lookups(KernelGraph &graph) {
  constexpr ValueId kMany = ir::kNone - 1;
  std::vector<ValueId> user(graph.values.size(), ir::kNone); // the one there is
  const auto use = [&](ValueId id, ValueId by) { user[id] = user[id] == ir::kNone ? by : kMany; };
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    for (const ValueId arg : graph[id].args)
      use(arg, id);
    if (graph[id].guard != ir::kNone)
      use(graph[id].guard, kMany);
  }
  for (const ValueId store : graph.stores)
    use(store, kMany);
  const std::vector<uint64_t> loops = loops_behind(graph);
  bool found = false;
  const size_t count = graph.values.size();
  std::vector<ValueId> same(count); // where(condition, what is 0 where that fails, 0)
  for (ValueId id = 0; id < count; ++id)
    same[id] = id;
  for (ValueId id = 0; id < count; ++id) {
    if (graph[id].op != Op::load || graph[id].args.empty() || graph[id].guard != ir::kNone)
      continue;
    uint64_t of_place = 0;
    for (const ValueId arg : graph[id].args)
      of_place |= loops[arg];
    std::vector<ValueId> conditions;
    for (ValueId at = id; user[at] != ir::kNone && user[at] != kMany; at = user[at]) {
      const Value &next = graph[user[at]];
      if (next.op == Op::to_dtype)
        continue;
      if (next.op != Op::where || next.args[1] != at || next.args[0] == at ||
          graph[next.args[2]].op != Op::constant)
        break;
      if ((loops[next.args[0]] & ~of_place) != 0)
        continue;
      conditions.push_back(next.args[0]);
      if (is_positive_zero(graph[next.args[2]].constant) && next.dtype == graph[at].dtype)
        same[user[at]] = at;
    }
    ValueId guard = ir::kNone;
    for (const ValueId condition : conditions) {
      if (guard != ir::kNone) {
        Value both;
        both.op = Op::logical_and;
        both.dtype = ir::DType::boolean;
        both.args = {guard, condition};
        graph.values.push_back(std::move(both));
        guard = static_cast<ValueId>(graph.values.size() - 1);
      } else {
        guard = condition;
      }
    }
    graph.values[id].guard = guard;
    found = found || guard != ir::kNone;
  }
  if (!found)
    return;
  for (ValueId id = 0; id < count; ++id)
    same[id] = same[same[id]]; // arguments come before
  for (Value &value : graph.values)
    for (ValueId &arg : value.args)
      arg = arg < count ? same[arg] : arg;
  put_in_order(graph);
  remove_dead_values(graph);
}

} // namespace tsc::codegen
