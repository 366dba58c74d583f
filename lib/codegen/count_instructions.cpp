// What a value of one element takes a thread to compute, roughly.
#include "codegen/estimate_kernel.h"
#include "codegen/value_range.h"

namespace tsc::codegen {

namespace {

using ir::Op;

constexpr double kLogSumScan = 30; // an exponential and a logarithm, and what a warp tells
constexpr double kWideConversion = 8;
constexpr double kWelfordStep = 6; // of a mean and squared distances, an element alone
constexpr double kExpSumStep = 14; // of a maximum and a sum of exponentials, an element alone

double instructions_of(Op op, bool is_wide) {
  switch (ir::op_cost(op)) {
  case ir::OpCost::instruction:
    return is_wide ? 2 : 1;
  case ir::OpCost::function:
    return 8;
  case ir::OpCost::angle:
    return 40;
  case ir::OpCost::series:
    return 100;
  }
  return 1;
}

} // namespace

// What is true or false stands in predicates, which several instructions share.
double instructions_of(const KernelGraph &graph, const Value &value) {
  if (value.op == Op::index_expr || value.dtype == DType::boolean)
    return 0.5;
  const auto is_product = [&](ValueId arg) { return graph[arg].op == Op::mul; };
  const bool is_wide = value.dtype == DType::i64 || value.dtype == DType::u64;
  switch (value.op) {
  case Op::to_dtype:
    // Between floats and 64-bit integers: 16 a clock and multiprocessor.
    if (const DType from = graph[value.args[0]].dtype;
        (is_wide && tensor::is_floating(from) &&
         !value_range(graph, static_cast<ValueId>(&value - graph.values.data()))) ||
        (tensor::is_floating(value.dtype) && (from == DType::i64 || from == DType::u64)))
      return kWideConversion;
    return 1;
  case Op::constant:
    return 0;
  case Op::add: // with its factors
    if (tensor::is_floating(value.dtype) &&
        (is_product(value.args[0]) || is_product(value.args[1])))
      return 0;
    return 1;
  case Op::load:
  case Op::store:
  case Op::store_reduction:
    return 3;
  case Op::reduction:
    if (value.reduction == ir::ReductionKind::online_softmax_reduce)
      return kExpSumStep;
    if (value.reduction == ir::ReductionKind::welford_reduce)
      return kWelfordStep;
    return value.reduction != ir::ReductionKind::sum ? 4 : is_product(value.args[0]) ? 0 : 1;
  case Op::scan: {
    if (!value.combine)
      return value.scan == ir::ScanKind::logsumexp ? kLogSumScan : 4;
    double count = 0; // in its run, and with what comes before the run
    for (const ir::CombineOp &op : value.combine.code->ops)
      count += ir::operand_count(op.op) > 0 ? 2 * instructions_of(op.op, is_wide) : 0;
    return count;
  }
  default:
    break;
  }
  if (exact_factor(graph, value))
    return 1;
  return instructions_of(value.op, is_wide);
}

} // namespace tsc::codegen
