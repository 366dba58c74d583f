// Attention of few queries whose keys are cut into parts: each part's weighted sums of values by
// one kernel (templates/attention/tc_attention_few.h), and what puts the parts together.
#include "ops/families/attention.h"

#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <array>
#include <cmath>

namespace tsc::ops {
namespace {

constexpr int64_t kParts = 0; // the dimension of parts

/// (sums [parts, batch.., rows, depth], bases and totals [parts, batch.., rows]), all f32: weights
/// are relative to the powers of two `bases`.
Value parts_value(const Call &call) {
  const Value whole = attention_value(call);
  std::vector<Expr> rows = (*whole.list())[1].tensor()->layout.sizes;
  rows.insert(rows.begin(), Expr(call.integer("parts")));
  std::vector<Expr> sums = rows;
  sums.push_back(call.tensor("value").layout.sizes.back());
  const tensor::Device device = call.tensor("query").device;
  return Value{Value::List{contiguous_value(DType::f32, sums, device),
                           contiguous_value(DType::f32, rows, device),
                           contiguous_value(DType::f32, rows, device)}};
}

/// What weights were relative to in each part becomes the largest of them; a row that sees nothing
/// is zero. All reductions run over the same elements, so that one kernel computes them.
Argument together(GraphBuilder &builder, const Call &call) {
  const Argument found =
      builder.call("tsc.attention_parts.default",
                   {call["query"], call["key"], call["value"], call["attn_mask"], call["is_causal"],
                    call["scale"], call["enable_gqa"], call["parts"]});
  const Argument sums = builder.item(found, 0);
  const std::vector<Expr> sizes = builder.meta(sums).layout.sizes;
  const auto along_rows = [&](const Argument &x) {
    return builder.call("aten.expand.default",
                        {builder.call("aten.unsqueeze.default", {x, -1}), sizes_argument(sizes)});
  };
  const auto weigh = [&](const Argument &bases, const Argument &totals) {
    const Arguments parts{kParts};
    const Argument largest = builder.call("aten.amax.default", {bases, parts, true});
    const Argument hidden = builder.call("aten.eq.Tensor", {largest, -INFINITY});
    const Argument base = builder.call(kWhere, {hidden, 0.0, largest});
    const Argument weights = builder.call("aten.exp2.default", {builder.call(kSub, {bases, base})});
    const Argument total =
        builder.call("aten.sum.dim_IntList", {builder.call(kMul, {weights, totals}), parts, false});
    return std::array<Argument, 3>{weights, total,
                                   builder.call("aten.squeeze.dims", {base, parts})};
  };
  const Argument bases = builder.item(found, 1), totals = builder.item(found, 2);
  const auto [weights, total, base] = weigh(along_rows(bases), along_rows(totals));
  const Argument sum = builder.call(
      "aten.sum.dim_IntList", {builder.call(kMul, {weights, sums}), Arguments{kParts}, false});
  const Argument empty = builder.call("aten.eq.Scalar", {total, 0.0});
  const Argument divisor = builder.call(kWhere, {empty, 1.0, total});
  const Argument output =
      convert(builder, builder.call(kDiv, {sum, divisor}), call.tensor("query").dtype);
  // Of each row alone; where nobody takes it nothing is left of it.
  const auto of_rows = weigh(bases, totals);
  const Argument logarithm = builder.call("aten.log.default", {of_rows[1]});
  const Argument of_base = builder.call(kMul, {of_rows[2], std::log(2.0)});
  return Arguments{in_promised_order(builder, output, call.tensor("query")),
                   builder.call(kAdd, {logarithm, of_base})};
}

} // namespace

void add_attention_parts(Table &table) {
  const std::string operands = "(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool "
                               "is_causal, float scale, bool enable_gqa, ";
  table
      .add(keep_text("tsc::attention.in_parts" + operands +
                     "float dropout_p=0.0, *, int parts) -> (Tensor output, Tensor logsumexp)"))
      .shape(attention_value)
      .decompose(together);
  table
      .add(keep_text("tsc::attention_parts" + operands +
                     "int parts) -> (Tensor sums, Tensor bases, Tensor totals)"))
      .shape(parts_value)
      .lowers("fused_attention");
}

} // namespace tsc::ops
