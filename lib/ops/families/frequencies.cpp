// The most frequent value of a row.
#include "ops/table/builder.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

namespace tsc::ops {
namespace {

/// The value that stands most often in a row, of several the smallest, and the last place where it
/// stands.
Argument mode(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const size_t rank = self.layout.rank(), dim = normalize_dim(call, call.integer("dim"), rank);
  if (rank == 0) {
    Argument zero = builder.call("aten.full.default", {Arguments{}, 0},
                                 {{"dtype", DType::i64}, {"device", self.device}});
    return Arguments{builder.call("aten.clone.default", {call["self"]}), zero};
  }
  const Expr length = self.layout.sizes[dim];
  if (length.is_integer(0))
    call.fail("TSC-O049", call.node().target + " of no elements", "pass one or more a row");
  const auto d = static_cast<int64_t>(dim);
  Argument sorted = builder.call("aten.sort.stable", {call["self"]},
                                 {{"stable", true}, {"dim", d}, {"descending", false}});
  const Argument values = builder.item(sorted, 0), indices = builder.item(sorted, 1);
  // How many equal ones end at each place: its distance to the last beginning of a run.
  const auto part = [&](int64_t first, int64_t last) {
    return builder.call("aten.slice.Tensor", {values, d, first, last, 1});
  };
  // NaN equals nothing, not even NaN.
  Argument begins = builder.call("aten.ne.Tensor", {part(0, -1), part(1, INT64_MAX)});
  Expr later = symbolic::simplify(length - Expr(1), builder.ranges());
  std::vector<Expr> shape(rank, Expr(1)), first = self.layout.sizes;
  shape[dim] = later;
  first[dim] = Expr(1);
  Argument places = builder.call(
      "aten.reshape.default", {builder.call("aten.arange.start_step", {1, size_argument(length), 1},
                                            {{"dtype", DType::i64}}),
                               sizes_argument(shape)});
  Argument starts = builder.call(kWhere, {begins, places, 0});
  Argument zero = builder.call("aten.full.default", {sizes_argument(first), 0},
                               {{"dtype", DType::i64}, {"device", self.device}});
  starts = builder.call("aten.cat.default", {Arguments{zero, starts}, d});
  starts = builder.item(builder.call("aten.cummax.default", {starts, d}), 0);
  shape[dim] = length;
  places = builder.call("aten.reshape.default",
                        {builder.call("aten.arange.start_step", {0, size_argument(length), 1},
                                      {{"dtype", DType::i64}}),
                         sizes_argument(shape)});
  Argument lengths = builder.call(kSub, {places, starts});
  Argument longest = builder.call("aten.argmax.default", {lengths, d, true});
  Argument value = builder.call("aten.gather.default", {values, d, longest});
  Argument index = builder.call("aten.gather.default", {indices, d, longest});
  if (!call.boolean("keepdim")) {
    value = builder.call("aten.squeeze.dim", {value, d});
    index = builder.call("aten.squeeze.dim", {index, d});
  }
  return Arguments{value, index};
}

} // namespace

void add_frequencies(Table &table) {
  table.add("mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)")
      .decompose(mode);
}

} // namespace tsc::ops
