// Softmax and its logarithm: maximum, exponential, sum, division, in f32 for reduced floats.
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <cmath>

namespace tsc::ops {
namespace {

constexpr std::string_view kSum = "aten.sum.dim_IntList";

/// `x` as a contiguous tensor: softmax results are contiguous in PyTorch.
Argument contiguous(GraphBuilder &builder, const Argument &x) {
  if (builder.meta(x).layout.is_contiguous())
    return x;
  return builder.call("aten.clone.default", {x},
                      {{"memory_format", graph::MemoryFormat::contiguous}});
}

struct Shifted {
  Argument values;       // x - max(x)
  Argument exponentials; // of them
  Argument sums;         // along dim, kept
};

Shifted shift(GraphBuilder &builder, const Call &call, const Argument &x) {
  TensorMeta meta = builder.meta(x);
  normalize_dim(call, call.integer("dim"), meta.layout.rank());
  Argument dims = Arguments{call["dim"]};
  if (meta.layout.rank() == 0)
    dims = Arguments{};
  Shifted result;
  if (symbolic::numel(meta.layout.sizes).is_integer(0)) { // nothing to divide
    result = {x, x, x};
    return result;
  }
  Argument largest = builder.call("aten.amax.default", {x, dims, true});
  result.values = builder.call(kSub, {x, largest});
  result.exponentials = builder.call("aten.exp.default", {result.values});
  result.sums = builder.call(kSum, {result.exponentials, dims, true});
  return result;
}

Argument soft(GraphBuilder &builder, const Call &call, const Argument &x, DType result,
              bool logarithm) {
  if (!tensor::is_floating(result))
    call.fail("TSC-O036", call.node().target + " in " + std::string(tensor::torch_name(result)),
              "choose a floating dtype");
  Argument wide = widen_to_floating(builder, contiguous(builder, x));
  Shifted shifted = shift(builder, call, wide);
  Argument value;
  if (logarithm) {
    Argument log_sum = builder.call("aten.log.default", {shifted.sums});
    value = builder.call(kSub, {shifted.values, log_sum});
  } else {
    value = builder.call(kDiv, {shifted.exponentials, shifted.sums});
  }
  return convert(builder, value, result);
}

void add_pair(Table &table, std::string_view name, bool logarithm) {
  std::string text(name);
  table.add(keep_text("_" + text + "(Tensor self, int dim, bool half_to_float) -> Tensor"))
      .decompose([logarithm](GraphBuilder &builder, const Call &call) {
        DType dtype = call.tensor("self").dtype;
        return soft(builder, call, call["self"], call.boolean("half_to_float") ? DType::f32 : dtype,
                    logarithm);
      });
  auto composite = [logarithm](GraphBuilder &builder, const Call &call) {
    DType dtype = call.dtype("dtype").value_or(to_floating(call.tensor("self").dtype));
    Argument x = convert(builder, call["self"], dtype);
    return soft(builder, call, x, dtype, logarithm);
  };
  table.add(keep_text(text + ".int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"))
      .decompose(composite);
  table
      .add(keep_text("special_" + text +
                     "(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"))
      .decompose(composite);
}

/// log(sum(exp(x - m))) + m, where an infinite maximum m counts as 0.
Argument logsumexp(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  Argument x = widen_to_floating(builder, call["self"]);
  if (symbolic::numel(self.layout.sizes).is_integer(0)) { // log(0), where there is a row at all
    const Argument total = builder.call(kSum, {x, call["dim"], call["keepdim"]});
    return builder.call("aten.full_like.default", {total, -INFINITY},
                        {{"dtype", to_floating(self.dtype)}});
  }
  // Of complex numbers the largest real part.
  const bool is_complex = tensor::is_complex(self.dtype);
  Argument size = is_complex ? builder.call("tsc.real_part.default", {x}) : x;
  Argument largest = builder.call("aten.amax.default", {size, call["dim"], true});
  Argument magnitude = builder.call("aten.abs.default", {largest});
  Argument infinite = builder.call("aten.eq.Tensor", {magnitude, INFINITY});
  Argument base = builder.call(kWhere, {infinite, 0.0, largest});
  Argument shifted = builder.call(kSub, {x, base});
  Argument exponentials = builder.call("aten.exp.default", {shifted});
  Argument sums = builder.call(kSum, {exponentials, call["dim"], call["keepdim"]});
  if (is_complex) // a sum of zeros is 0, not -0, of which the logarithm has another angle
    sums = builder.call(kAdd, {sums, 0.0});
  Argument log_sum = builder.call("aten.log.default", {sums});
  if (!call.boolean("keepdim"))
    base = builder.call("aten.squeeze.dims",
                        {base, call["dim"].list() ? call["dim"] : Arguments{call["dim"]}});
  Argument result = builder.call(kAdd, {log_sum, base});
  return convert(builder, result, to_floating(self.dtype));
}

} // namespace

void add_softmax(Table &table) {
  add_pair(table, "softmax", false);
  add_pair(table, "log_softmax", true);
  table.add("logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor")
      .decompose(logsumexp);
}

} // namespace tsc::ops
