// Running extremes with their places, and the running logarithm of a sum of exponentials.
#include "ops/families/log_sums.h"
#include "ops/table/builder.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

namespace tsc::ops {
namespace {

/// `call`'s dimension of `self`, which may have none.
int64_t dimension(const Call &call, const TensorMeta &self) {
  return static_cast<int64_t>(normalize_dim(call, call.integer("dim"), self.layout.rank()));
}

/// (values, indices): of equal elements the last counts, and NaN is above all. An element stands
/// where the running extreme last changed or was met again, and that place only grows.
Argument running_extreme(GraphBuilder &builder, const Call &call, bool largest) {
  const TensorMeta self = call.tensor("self");
  const int64_t dim = dimension(call, self);
  const size_t rank = self.layout.rank();
  if (rank == 0) {
    const Argument zero = builder.call("aten.full.default", {Arguments{}, 0},
                                       {{"dtype", DType::i64}, {"device", self.device}});
    return Arguments{builder.call("aten.clone.default", {call["self"]}), zero};
  }
  const Argument values = builder.call(
      largest ? "tsc.running_maximum.default" : "tsc.running_minimum.default", {call["self"], dim});
  Argument along = builder.call("aten.arange.default",
                                {size_argument(self.layout.sizes[static_cast<size_t>(dim)])},
                                {{"dtype", DType::i64}, {"device", self.device}});
  for (size_t i = static_cast<size_t>(dim) + 1; i < rank; ++i)
    along = builder.call("aten.unsqueeze.default", {along, -1});
  Argument met = builder.call("aten.eq.Tensor", {call["self"], values});
  if (tensor::is_floating(self.dtype)) {
    const Argument nan = builder.call("aten.isnan.default", {call["self"]});
    met = builder.call("aten.logical_or.default", {met, nan});
  }
  const Argument places = builder.call(kWhere, {met, along, 0});
  return Arguments{values, builder.call("tsc.running_maximum.default", {places, dim})};
}

/// log(cumsum(exp(self))) without overflow.
Argument log_cumulative_sum(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  if (tensor::is_complex(self.dtype))
    return complex_log_cumulative_sum(builder, call);
  const int64_t dim = dimension(call, self);
  const DType dtype = to_floating(self.dtype);
  const Argument wide = widen_to_floating(builder, call["self"]);
  return convert(builder, builder.call("tsc.running_logsumexp.default", {wide, dim}), dtype);
}

} // namespace

void add_running_scans(Table &table) {
  for (std::string_view name : {"running_maximum", "running_minimum", "running_logsumexp"})
    table.add(keep_text("tsc::" + std::string(name) + "(Tensor self, int dim) -> Tensor"))
        .shape([](const Call &call) {
          const TensorMeta &self = call.tensor("self");
          normalize_dim(call, call.integer("dim"), self.layout.rank());
          return contiguous_value(self.dtype, self.layout.sizes, self.device);
        })
        .lowers(name);
  for (bool largest : {true, false})
    table
        .add(largest ? "cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)"
                     : "cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)")
        .decompose([largest](GraphBuilder &builder, const Call &call) {
          return running_extreme(builder, call, largest);
        });
  for (std::string_view name : {"logcumsumexp", "_logcumsumexp"})
    table.add(keep_text(std::string(name) + "(Tensor self, int dim) -> Tensor"))
        .decompose(log_cumulative_sum);
}

} // namespace tsc::ops
