#include "lowering/data_numbers.h"

#include "graph/data_symbols.h"
#include "lowering/build.h"
#include "lowering/checks.h"
#include "lowering/realize.h"
#include "lowering/registry.h"
#include "ops/table/source_line.h"
#include "support/diagnostic.h"

#include <algorithm>

namespace tsc::lowering {

namespace {

uint32_t number_check(Context &context, Expr number, NegativeIndex negative,
                      const std::string &what) {
  std::string sources;
  for (const Expr symbol : symbolic::free_symbols(number)) {
    const auto found = context.data_sources.find(symbol);
    if (found != context.data_sources.end())
      sources += (sources.empty() ? "" : " and ") + found->second;
  }
  return value_check(context,
                     what + " {value}, " + (number.is_symbol() ? "read from " : "computed from ") +
                         (sources.empty() ? "numbers of the data" : sources) + ", is not in " +
                         (negative == NegativeIndex::wraps ? "[-{size}, {size})" : "[0, {size})"),
                     negative);
}

class Resolver {
public:
  explicit Resolver(Context &context) : context_(context) {}

  void run() {
    const size_t count = context_.module.loops.size(); // those made here are resolved
    for (LoopId id = 0; id < count; ++id) {
      resolve_operands(id);
      resolve_expression(id);
    }
    for (ir::Operation &operation : context_.module.operations)
      resolve_operation(operation);
  }

  /// The value of `e` (i64) over a domain of `sizes`.
  Operand value_of(Expr e, std::span<const Expr> sizes) {
    if (!graph::depends_on_data(e))
      return index_operand(context_, e, DType::i64, sizes);
    switch (e.kind()) {
    case symbolic::Kind::symbol:
      return number(e, sizes);
    case symbolic::Kind::add:
      return fold(Op::add, e, sizes);
    case symbolic::Kind::mul:
      return fold(Op::mul, e, sizes);
    case symbolic::Kind::power: {
      const Operand base = value_of(e.operands()[0], sizes);
      Operand result = base;
      for (int64_t i = 1; i < e.operands()[1].value(); ++i)
        result = binary(Op::mul, sizes, result, base);
      return result;
    }
    case symbolic::Kind::floor_div:
      return fold(Op::floordiv, e, sizes);
    case symbolic::Kind::modular_index: {
      const Operand dividend = value_of(e.operands()[0], sizes);
      const Operand divisor = value_of(e.operands()[1], sizes);
      const Operand quotient = binary(Op::floordiv, sizes, dividend, divisor);
      const Operand modulus = value_of(e.operands()[2], sizes);
      return binary(Op::mod, sizes, quotient, modulus);
    }
    case symbolic::Kind::mod:
      return fold(Op::mod, e, sizes);
    case symbolic::Kind::minimum:
      return fold(Op::minimum, e, sizes);
    case symbolic::Kind::maximum:
      return fold(Op::maximum, e, sizes);
    case symbolic::Kind::identity:
      return value_of(e.operands()[0], sizes);
    case symbolic::Kind::integer:
      break;
    }
    throw support::InternalError("lowering", symbolic::print(e), "an expression of no known kind");
  }

private:
  Context &context_;

  static bool is_resolved(const std::vector<Expr> &index) {
    return std::none_of(index.begin(), index.end(), graph::depends_on_data);
  }

  Operand constant(int64_t value) {
    return constant_operand(context_, tensor::Scalar(value), DType::i64);
  }
  Operand binary(Op op, std::span<const Expr> sizes, const Operand &a, const Operand &b) {
    std::vector<Operand> operands = {a, b};
    return elementwise_operand(context_, op, DType::i64, sizes, std::move(operands));
  }
  Operand fold(Op op, Expr e, std::span<const Expr> sizes) {
    Operand result = value_of(e.operands()[0], sizes);
    for (size_t i = 1; i < e.operands().size(); ++i) {
      const Operand next = value_of(e.operands()[i], sizes);
      result = binary(op, sizes, result, next);
    }
    return result;
  }

  Operand number(Expr symbol, std::span<const Expr> sizes) {
    const auto found = context_.data_numbers.find(symbol);
    if (found == context_.data_numbers.end()) {
      throw support::UserError(
          support::ExitCode::bad_input,
          {"TSC-O126", "nothing in the graph says what " + symbolic::print(symbol) + " is", "", "",
           "", "", "sizes have other names than u0, u1, ..., which item() defines"});
    }
    return broadcast_operand(context_, found->second, sizes);
  }

  /// `operand` over a domain of `sizes`, its index without numbers of the data.
  Operand resolved(const Operand &operand, const std::vector<Expr> &sizes) {
    Operand viewed = operand;
    std::vector<Operand> run_time;
    std::vector<Expr> extents;
    std::vector<uint32_t> checks;
    const std::vector<Expr> dimensions = context_.module.loops[operand.node].sizes;
    for (size_t k = 0; k < viewed.index.size(); ++k) {
      if (!graph::depends_on_data(viewed.index[k]))
        continue;
      run_time.push_back(value_of(viewed.index[k], sizes));
      extents.push_back(dimensions[k]);
      // A number alone is what x[n] reads at; a computed one has been brought to the front.
      const NegativeIndex negative =
          viewed.index[k].is_symbol() ? NegativeIndex::wraps : NegativeIndex::fails;
      checks.push_back(number_check(context_, viewed.index[k], negative, "index"));
      viewed.index[k] = ir::operand_value(run_time.size());
    }
    const DType dtype = context_.module.loops[operand.node].dtype;
    return {view_loop(context_, dtype, sizes, std::move(viewed), std::move(run_time),
                      std::move(extents), checks),
            identity_index(sizes.size())};
  }

  void resolve_operands(LoopId id) {
    for (size_t i = 0; i < context_.module.loops[id].operands.size(); ++i) {
      const Operand operand = context_.module.loops[id].operands[i];
      if (is_resolved(operand.index))
        continue;
      const std::vector<Expr> sizes = context_.module.loops[id].sizes;
      const std::vector<uint32_t> origins = context_.module.loops[id].origins;
      context_.current = origins.empty() ? context_.current : origins.front();
      const LoopNode &node = context_.module.loops[id];
      if (node.op == Op::view && i == 0 && node.operands.size() > 1)
        support::require(false, "lowering", "a run-time index beside a number of the data");
      const Operand replacement = resolved(operand, sizes);
      context_.module.loops[id].operands[i] = replacement;
    }
  }

  /// An index expression becomes what computes it.
  void resolve_expression(LoopId id) {
    LoopNode node = context_.module.loops[id];
    if (node.op != Op::index_expr || !graph::depends_on_data(node.expr))
      return;
    context_.current = node.origins.empty() ? context_.current : node.origins.front();
    const Operand value = value_of(node.expr, node.sizes);
    node.op = node.dtype == DType::i64 ? Op::view : Op::to_dtype;
    node.source_dtype = DType::i64;
    node.operands = {value};
    node.expr = Expr();
    context_.module.loops[id] = std::move(node);
  }

  void resolve_operation(ir::Operation &operation) {
    const auto over = [&](Operand &operand, const std::vector<Expr> &sizes) {
      if (!is_resolved(operand.index))
        operand = resolved(operand, sizes);
    };
    const std::vector<Expr> sizes = context_.module.buffer(operation.outputs[0]).layout.sizes;
    if (auto *pointwise = std::get_if<ir::Pointwise>(&operation.kind)) {
      over(pointwise->value, sizes);
    } else if (auto *scatter = std::get_if<ir::Scatter>(&operation.kind)) {
      over(scatter->value, scatter->sizes);
      for (Operand &index : scatter->indices)
        over(index, scatter->sizes);
      support::require(is_resolved(scatter->index), "lowering",
                       "a number of the data decides where a scatter stores");
    } else if (auto *reduction = std::get_if<ir::Reduction>(&operation.kind)) {
      std::vector<Expr> domain = sizes;
      domain.insert(domain.end(), reduction->reduction_sizes.begin(),
                    reduction->reduction_sizes.end());
      for (Operand &input : reduction->inputs)
        over(input, domain);
    } else if (auto *scan = std::get_if<ir::Scan>(&operation.kind)) {
      for (const Operand &input : scan->inputs)
        support::require(is_resolved(input.index), "lowering",
                         "a number of the data decides where a scan reads");
    }
  }
};

/// The host reads the number, which is the size `symbol` from now on.
NodeValue define_size(Context &context, const ops::Call &call, TensorValue value) {
  ir::Extern read;
  read.kernel = "tsc.define_size";
  read.ir_class = "DynamicScalar";
  read.library = ir::Library::define_size;
  read.symbol = call.size("symbol");
  if (call.has("bound"))
    read.bound = call.size("bound");
  if (value.storage->realized() &&
      context.module.buffer(value.storage->buffer).role == ir::Buffer::Role::input)
    value = copy(context, value); // of the program's own
  read.inputs = {require_strides(context, value, {})};
  const BufferId output = register_buffer(context, {}, DType::i64, context.device);
  decide_layout_as(context, output, {});
  const ir::OperationId operation = register_operation(context, std::move(read), {output});
  context.module.operations[operation].has_side_effects = true;
  return graph::None{};
}

/// The number that `symbol` is from now on. Its memory must not change while it is used.
NodeValue define(Context &context, const ops::Call &call) {
  TensorValue value = tensor_argument(context, call, "self");
  if (!graph::is_data_symbol(call.size("symbol")))
    return define_size(context, call, std::move(value));
  const bool is_given =
      value.storage->realized() && !value.is_view() &&
      context.module.buffer(value.storage->buffer).role != ir::Buffer::Role::input;
  if (!is_given)
    value = copy(context, value);
  context.data_numbers.emplace(call.size("symbol"), value);
  context.data_sources.emplace(call.size("symbol"), check_subject(context, call["self"]));
  return value;
}

NodeValue assertion(Context &context, const ops::Call &call) {
  ir::SizeAssertion row;
  row.condition = call.size("condition");
  const graph::Node &node = call.node();
  row.assertion = {call.string("message").value_or(""),
                   node.origins.empty() ? node.name : node.origins.front(), ops::source_line(node)};
  context.module.size_assertions.push_back(std::move(row));
  return graph::None{};
}

} // namespace

void resolve_data_numbers(Context &context) {
  if (!context.data_numbers.empty())
    Resolver(context).run();
}

Operand held_number(Context &context, Expr number, Expr extent, NegativeIndex negative,
                    std::span<const Expr> sizes, const std::string &what) {
  const uint32_t check = number_check(context, number, negative, what);
  const Operand value = Resolver(context).value_of(number, sizes);
  return {view_loop(context, DType::i64, sizes, any_position(context, extent), {value}, {extent},
                    {check}),
          identity_index(sizes.size())};
}

void add_data_numbers(Registry &registry) {
  registry["define"] = define;
  registry["assert"] = assertion;
  registry["number"] = [](Context &context, const ops::Call &call) -> NodeValue {
    return tensor_argument(context, call, "self");
  };
}

} // namespace tsc::lowering
