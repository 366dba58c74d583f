// Scans that lowering has no kernel for, in log2(n) elementwise steps: after step k every element
// combines the 2^k elements that end at it.
#include "ops/builder.h"
#include "ops/pointwise_rules.h"
#include "ops/precision.h"
#include "ops/shape_rules.h"
#include "ops/table.h"

namespace tsc::ops {
namespace {

/// `combine` gets earlier and later elements of each tensor that is scanned together; it is
/// associative.
using Combine = std::function<Arguments(const Arguments &earlier, const Arguments &later)>;

Arguments scan(GraphBuilder &builder, const Call &call, Arguments tensors, const Combine &combine) {
  TensorMeta meta = builder.meta(tensors[0]);
  if (meta.layout.rank() == 0)
    return tensors;
  size_t d = normalize_dim(call, call.integer("dim"), meta.layout.rank());
  int64_t dim = static_cast<int64_t>(d);
  Expr size = meta.layout.sizes[d];
  if (!size.is_integer())
    call.fail("TSC-O016",
              call.node().target + ": the size of dimension " + std::to_string(dim) + " is '" +
                  symbolic::print(size) + "', a number is needed",
              "make this value static when exporting");
  auto part = [&](const Arguments &all, int64_t start, int64_t end) {
    Arguments parts;
    for (const Argument &x : all)
      parts.push_back(builder.call("aten.slice.Tensor", {x, dim, start, end}));
    return parts;
  };
  for (int64_t step = 1; step < size.value(); step *= 2) {
    Arguments earlier = part(tensors, 0, size.value() - step);
    Arguments later = part(tensors, step, size.value());
    Arguments combined = combine(earlier, later);
    Arguments alone = part(tensors, 0, step);
    for (size_t i = 0; i < tensors.size(); ++i)
      tensors[i] = builder.call("aten.cat.default", {Arguments{alone[i], combined[i]}, dim});
  }
  return tensors;
}

/// (values, indices): of equal elements the last counts, and NaN is above all.
Argument running_extreme(GraphBuilder &builder, const Call &call, bool largest) {
  const TensorMeta self = call.tensor("self");
  Argument indices =
      builder.call("aten.zeros_like.default", {call["self"]},
                   {{"dtype", DType::i64}, {"memory_format", graph::MemoryFormat::contiguous}});
  if (self.layout.rank() > 0) {
    size_t dim = normalize_dim(call, call.integer("dim"), self.layout.rank());
    Argument along = builder.call("aten.arange.default", {size_argument(self.layout.sizes[dim])},
                                  {{"dtype", DType::i64}, {"device", self.device}});
    for (size_t i = dim + 1; i < self.layout.rank(); ++i)
      along = builder.call("aten.unsqueeze.default", {along, -1});
    indices = builder.call(kAdd, {indices, along});
  }
  bool floating = tensor::is_floating(self.dtype);
  Combine combine = [&](const Arguments &earlier, const Arguments &later) {
    Argument wins = builder.call(largest ? "aten.ge.Tensor" : "aten.le.Tensor",
                                 {later[0], earlier[0]}); // false where the earlier is NaN
    if (floating) {
      Argument invalid = builder.call("aten.isnan.default", {later[0]});
      wins = builder.call("aten.logical_or.default", {wins, invalid});
    }
    Argument value = builder.call(kWhere, {wins, later[0], earlier[0]});
    return Arguments{value, builder.call(kWhere, {wins, later[1], earlier[1]})};
  };
  return scan(builder, call, {call["self"], indices}, combine);
}

/// log(cumsum(exp(self))) without overflow.
Argument log_cumulative_sum(GraphBuilder &builder, const Call &call) {
  DType dtype = call.tensor("self").dtype;
  Combine combine = [&](const Arguments &earlier, const Arguments &later) {
    return Arguments{builder.call("aten.logaddexp.default", {earlier[0], later[0]})};
  };
  return convert(builder, scan(builder, call, {widen(builder, call["self"])}, combine)[0], dtype);
}

} // namespace

void add_stepwise_scans(Table &table) {
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
