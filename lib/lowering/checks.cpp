#include "lowering/checks.h"

#include "lowering/build.h"
#include "lowering/registry.h"
#include "ops/table/source_line.h"

#include <bit>

namespace tsc::lowering {

namespace {

uint32_t add_check(Context &context, ir::DataCheck check) {
  const graph::Node &node = context.graph.node(context.current);
  check.assertion.node = ops::users_name(node);
  check.assertion.source_line = ops::source_line(node);
  context.module.checks.push_back(std::move(check));
  return static_cast<uint32_t>(context.module.checks.size() - 1);
}

/// As the operator's `message` says, {subject} being where its values come from.
uint32_t message_check(Context &context, const ops::Call &call) {
  constexpr std::string_view kSubject = "{subject}";
  std::string message = call.string("message").value_or("");
  if (const size_t at = message.find(kSubject); at != std::string::npos)
    message.replace(at, kSubject.size(), check_subject(context, call["self"]));
  return value_check(context, std::move(message), NegativeIndex::fails);
}

/// The values themselves: element i of 0, 1, 2, ...
NodeValue check_range(Context &context, const ops::Call &call) {
  const TensorValue value = convert(context, tensor_argument(context, call, "self"), DType::i64);
  const Expr size = call.size("size");
  const uint32_t check = message_check(context, call);
  return tensor_of(context, view_loop(context, DType::i64, value.sizes, any_position(context, size),
                                      {operand_of(context, value)}, {size}, {check}));
}

/// Numbers that are not negative order as their bits do, NaN behind infinity.
NodeValue check_float(Context &context, const ops::Call &call) {
  const TensorValue self = tensor_argument(context, call, "self");
  const bool wide = self.dtype == DType::f64;
  const DType dtype = wide ? DType::f64 : DType::f32, bits_dtype = wide ? DType::i64 : DType::i32;
  const TensorValue value = convert(context, self, dtype);
  const uint32_t check = message_check(context, call);
  const double high = call.number("high");
  const int64_t last =
      wide ? std::bit_cast<int64_t>(high) : std::bit_cast<int32_t>(static_cast<float>(high));
  const Expr size = last + (call.boolean("below") ? 0 : 1);
  const auto compute = [&](Op op, DType result, std::vector<Operand> operands) {
    return elementwise_operand(context, op, result, value.sizes, std::move(operands));
  };
  const Operand x = operand_of(context, value), zero = constant_operand(context, 0.0, dtype);
  const Operand is_zero = compute(Op::eq, DType::boolean, {x, zero}); // of either sign
  const Operand bits =
      compute(Op::to_dtype_bitcast, bits_dtype, {compute(Op::where, dtype, {is_zero, zero, x})});
  context.module.loops[bits.node].source_dtype = dtype;
  const Operand wide_bits = wide ? bits : compute(Op::to_dtype, DType::i64, {bits});
  context.module.loops[wide_bits.node].source_dtype = wide ? dtype : bits_dtype;
  const Operand checked = {view_loop(context, DType::i64, value.sizes, any_position(context, size),
                                     {wide_bits}, {size}, {check}),
                           identity_index(value.sizes.size())};
  Operand narrow = checked;
  if (!wide) {
    narrow = compute(Op::to_dtype, DType::i32, {checked});
    context.module.loops[narrow.node].source_dtype = DType::i64;
  }
  const Operand result = compute(Op::to_dtype_bitcast, dtype, {narrow});
  context.module.loops[result.node].source_dtype = bits_dtype;
  return convert(context, tensor_of(context, result.node), self.dtype);
}

} // namespace

std::string check_subject(const Context &context, const graph::Argument &argument) {
  const graph::NodeRef *reference = argument.node();
  while (reference != nullptr) {
    const graph::Node &node = context.graph.node(reference->id);
    const graph::NodeRef *next = nullptr;
    if (ops::passes_elements(node) && !node.args.empty())
      next = node.args[0].node();
    else if (node.target == "aten.where.self" && node.args[2].node() == nullptr)
      next = node.args[1].node(); // the others were replaced by a number
    if (next == nullptr) {
      const auto spec = context.input_specs.find(reference->id);
      if (spec != context.input_specs.end() && !spec->second->target.empty())
        return "weight '" + spec->second->target + "'";
      const bool is_input = node.kind == graph::NodeKind::placeholder;
      return (is_input ? "input '" + node.name : "node '" + ops::users_name(node)) + "'";
    }
    reference = next;
  }
  return "a number";
}

uint32_t index_check(Context &context, const graph::Argument &argument, NegativeIndex negative) {
  return value_check(context,
                     "index {value} of " + check_subject(context, argument) + " is not in " +
                         (negative == NegativeIndex::wraps ? "[-{size}, {size})" : "[0, {size})"),
                     negative);
}

uint32_t value_check(Context &context, std::string message, NegativeIndex negative) {
  ir::DataCheck check;
  check.wraps = negative == NegativeIndex::wraps;
  check.assertion.message = std::move(message);
  return add_check(context, std::move(check));
}

Operand any_position(Context &context, Expr size) {
  const std::vector<Expr> domain = {size};
  LoopNode node;
  node.op = Op::index_expr;
  node.dtype = DType::i64;
  node.sizes = domain;
  node.expr = ir::variable(0);
  return {add_loop(context, std::move(node)), {ir::operand_value(1)}};
}

Operand unchecked(const Context &context, const Operand &index, Expr extent, uint32_t &check) {
  const LoopNode &node = context.module.loops[index.node];
  const bool is_check = node.op == Op::view && node.operands.size() == 2 &&
                        node.indirect_extents[0] == extent &&
                        context.module.loops[node.operands[0].node].op == Op::index_expr &&
                        context.module.loops[node.operands[0].node].expr == ir::variable(0) &&
                        node.operands[0].index == std::vector<Expr>{ir::operand_value(1)};
  if (!is_check || context.module.check_of(ir::check_at(node.checks, 0)).wraps)
    return index;
  check = node.checks[0];
  return reindexed(node.operands[1], index.index);
}

void add_checks(Registry &registry) {
  registry["check_range"] = check_range;
  registry["check_float"] = check_float;
}

} // namespace tsc::lowering
