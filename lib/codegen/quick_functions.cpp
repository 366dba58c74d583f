// Where a function's quick form will do: what it gets wrong is not seen in what becomes of it.
#include "codegen/plan.h"
#include "codegen/plan_steps.h"

#include <algorithm>

namespace tsc::codegen {

namespace {

using ir::Op;

/// Of float32, or of a narrower float, whose values are float32 until they are stored.
bool is_computed_in_f32(const Value &value) {
  return value.dtype == DType::f32 || tensor::is_reduced_float(value.dtype);
}

/// Operations whose result is as near to the right one, by its size, as their operands are.
bool keeps_nearness(Op op) {
  switch (op) {
  case Op::mul:
  case Op::truediv:
  case Op::where:
  case Op::neg:
  case Op::abs:
  case Op::relu:
  case Op::tanh:
  case Op::maximum:
  case Op::minimum:
    return true;
  default:
    return false;
  }
}

/// Values that are only rounded to 16 bits or fewer: stored so, or factors of what is, or chosen.
std::vector<bool> narrowed_values(const ir::Module &module, const KernelGraph &graph) {
  std::vector<bool> narrowed(graph.values.size(), true), used(graph.values.size(), false);
  for (ValueId id = static_cast<ValueId>(graph.values.size()); id-- > 0;) {
    const Value &value = graph[id];
    const bool stores = value.op == Op::store || value.op == Op::store_reduction;
    const bool keeps = stores
                           ? tensor::is_reduced_float(module.buffer(value.buffer).dtype) &&
                                 value.mode == ir::StoreMode::plain
                           : (value.op == Op::to_dtype && tensor::is_reduced_float(value.dtype)) ||
                                 (keeps_nearness(value.op) && used[id] && narrowed[id]);
    for (const ValueId arg : value.args) {
      used[arg] = true;
      narrowed[arg] = narrowed[arg] && keeps;
    }
    if (value.guard != ir::kNone)
      narrowed[value.guard] = false;
  }
  return narrowed;
}

/// True of a row's maximum and of what is computed from it for the row.
bool follows_maximum(const KernelGraph &graph, ValueId id) {
  const Value &value = graph[id];
  if (value.op == Op::reduction)
    return value.reduction == ir::ReductionKind::max ||
           value.reduction == ir::ReductionKind::online_softmax_reduce;
  return value.level == Level::row &&
         std::any_of(value.args.begin(), value.args.end(),
                     [&](ValueId arg) { return follows_maximum(graph, arg); });
}

/// x + 1: what a number near 0 has in its last places is not seen.
bool adds_one(const KernelGraph &graph, const Value &value) {
  return value.op == Op::add && std::any_of(value.args.begin(), value.args.end(), [&](ValueId arg) {
           const auto *number =
               graph[arg].op == Op::constant ? std::get_if<double>(&graph[arg].constant) : nullptr;
           return number && *number == 1;
         });
}

/// Whether all that reads an error function or a hyperbolic tangent adds 1 to it.
bool is_beside_one(const KernelGraph &graph, ValueId id) {
  return std::all_of(graph.values.begin(), graph.values.end(), [&](const Value &user) {
    return std::find(user.args.begin(), user.args.end(), id) == user.args.end() ||
           adds_one(graph, user);
  });
}

} // namespace

std::vector<bool> quick_functions(const ir::Module &module, const KernelGraph &graph) {
  const std::vector<bool> narrowed = narrowed_values(module, graph);
  std::vector<bool> quick(graph.values.size(), false);
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const Value &value = graph[id];
    if (!is_computed_in_f32(value))
      continue;
    const bool is_near = value.op == Op::sigmoid || value.op == Op::log1p || value.op == Op::tanh;
    quick[id] = is_near && narrowed[id];
    if (value.op == Op::erf || value.op == Op::tanh)
      quick[id] = quick[id] || is_beside_one(graph, id);
  }
  return quick;
}

void choose_quick(const ir::Module &module, KernelPlan &plan) {
  const KernelGraph &graph = plan.graph;
  const std::vector<bool> narrowed = narrowed_values(module, graph);
  plan.quick = quick_functions(module, graph);
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const Value &value = graph[id];
    if (value.op == Op::truediv)
      plan.quick[id] = plan.divides_by_row[id] && narrowed[id];
    if (value.op != Op::exp || !is_computed_in_f32(value) || value.level != Level::element)
      continue;
    const Value &distance = graph[value.args[0]];
    const auto suffices = [&](const Value &user) {
      if (std::find(user.args.begin(), user.args.end(), id) == user.args.end())
        return true;
      const auto place = static_cast<size_t>(&user - graph.values.data());
      const bool stores = user.op == Op::store;
      return user.op == Op::reduction ? user.reduction == ir::ReductionKind::sum
             : stores                 ? tensor::is_reduced_float(module.buffer(user.buffer).dtype)
                      : (user.op == Op::mul || user.op == Op::truediv) && narrowed[place];
    };
    const auto is_of_log = [&](const Value &user) { // of softplus
      const bool uses = std::find(user.args.begin(), user.args.end(), id) != user.args.end();
      const auto place = static_cast<size_t>(&user - graph.values.data());
      return !uses || (user.op == Op::log1p && plan.quick[place]);
    };
    if (std::all_of(graph.values.begin(), graph.values.end(), is_of_log)) {
      plan.quick[id] = true;
      continue;
    }
    plan.quick[id] = distance.op == Op::sub && follows_maximum(graph, distance.args[1]) &&
                     std::all_of(graph.values.begin(), graph.values.end(), suffices);
  }
}

void find_exact(KernelPlan &plan) {
  const KernelGraph &graph = plan.graph;
  const auto cuts = [&](const Value &value) {
    switch (value.op) {
    case Op::floor:
    case Op::ceil:
    case Op::round:
    case Op::trunc:
    case Op::floordiv:
    case Op::truncdiv:
    case Op::fmod:
    case Op::mod:
      return true;
    case Op::to_dtype:
      return !tensor::is_floating(value.dtype) && value.dtype != DType::boolean;
    default:
      return false;
    }
  };
  std::vector<bool> decides(graph.values.size(), false); // users come behind their arguments
  plan.exact.assign(graph.values.size(), false);
  for (size_t id = graph.values.size(); id-- > 0;) {
    const Value &value = graph.values[id];
    const bool adds = value.op == Op::add || value.op == Op::sub || value.op == Op::mul;
    plan.exact[id] = decides[id] && adds && tensor::is_floating(value.dtype);
    plan.quick[id] = plan.quick[id] && !decides[id];
    const bool ends = value.op == Op::reduction || value.op == Op::scan || value.op == Op::sort ||
                      value.op == Op::load;
    for (const ValueId arg : value.args)
      decides[arg] = decides[arg] || cuts(value) || (decides[id] && !ends);
  }
}

} // namespace tsc::codegen
