// Quantiles: what stands at a fraction of a sorted row, between two elements where the fraction
// falls between them (ATen's native/Sorting.cpp: quantile). NaN in a row is its quantile, or is
// ignored.
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "ops/table/term.h"

#include <algorithm>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

/// The wanted fractions, [count], in the dtype of self, and whether they are a list.
struct Fractions {
  Term values;
  bool is_list;
};

Fractions fractions_of(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  if (call["q"].node() == nullptr) {
    const double q = call.number("q");
    if (!(q >= 0 && q <= 1))
      call.fail("TSC-O049", call.node().target + ": a fraction of " + std::to_string(q),
                "pass 0 to 1");
    return {filled(builder, {Expr(1)}, q, self.dtype, self.device), false};
  }
  const TensorMeta &q = call.tensor("q");
  if (q.layout.rank() > 1 || q.dtype != self.dtype)
    call.fail("TSC-O049",
              call.node().target + ": fractions of sizes " + print_sizes(q.layout.sizes) +
                  " and another dtype, or more than one dimension",
              "pass a number, or a list in the dtype of 'self'");
  const Term given_q = given(builder, call, "q");
  return {reshaped(given_q, {symbolic::numel(q.layout.sizes)}), q.layout.rank() == 1};
}

Term rounded(const Term &ranks, const Call &call, const std::string &interpolation) {
  if (interpolation == "linear" || interpolation == "midpoint")
    return ranks;
  if (interpolation == "lower")
    return ranks.then("aten.floor.default");
  if (interpolation == "higher")
    return ranks.then("aten.ceil.default");
  if (interpolation == "nearest")
    return ranks.then("aten.round.default");
  call.fail("TSC-O049", call.node().target + ": interpolation '" + interpolation + "'",
            "use linear, lower, higher, midpoint or nearest");
}

Argument quantile(GraphBuilder &builder, const Call &call, bool ignore_nan) {
  const TensorMeta self = call.tensor("self");
  if (self.dtype != DType::f32 && self.dtype != DType::f64)
    call.fail("TSC-O070", call.node().target + " of " + std::string(tensor::torch_name(self.dtype)),
              "convert it to float32 or float64");
  if (symbolic::numel(self.layout.sizes).is_integer(0))
    call.fail("TSC-O049", call.node().target + " of no elements", "pass at least one element");
  const size_t rank = self.layout.rank();
  const bool has_dim = call.has("dim") && rank > 0, keeps = call.boolean("keepdim");
  const Fractions q = fractions_of(builder, call);
  // Rows last, the sorted dimension of size 1 where it was.
  const Term x = given(builder, call, "self");
  Sizes kept(rank, Expr(1));
  Term rows = reshaped(x, {symbolic::numel(self.layout.sizes)});
  size_t dim = 0;
  if (has_dim) {
    dim = normalize_dim(call, call.integer("dim"), rank);
    kept = self.layout.sizes;
    kept[dim] = 1;
    std::vector<size_t> order(rank + 1);
    for (size_t i = 0; i < rank; ++i)
      order[i] = i == dim ? rank : i;
    order[rank] = dim;
    Sizes apart = self.layout.sizes;
    apart.push_back(1);
    rows = permuted(reshaped(x, apart), order);
  }
  const Argument pair = builder.call("aten.sort.default", {rows.value(), -1, false});
  const Term sorted(builder, builder.item(pair, 0));
  const Sizes row_sizes = sorted.meta().layout.sizes;
  const Expr last = row_sizes.back() - Expr(1);
  const Term nan = sorted.then("aten.isnan.default");
  const auto as_float = [&](const Term &term) { return Term(builder, term.as(self.dtype)); };
  Sizes rank_sizes = row_sizes;
  rank_sizes.back() = q.values.meta().layout.sizes[0];
  Term ranks = q.values;
  if (ignore_nan) {
    const Term numbers = nan.then("aten.logical_not.default");
    const Term counts = numbers.then("aten.sum.dim_IntList", {Arguments{-1}, true});
    ranks = q.values * as_float(counts - Argument(int64_t{1})).value();
    ranks = ranks.then("aten.clamp_min.default", {0.0});
  } else {
    const Term end = as_float(filled(builder, {}, size_argument(last), DType::i64, self.device));
    ranks = where(nan.then("aten.slice.Tensor", {-1, -1}), end, q.values * end.value());
  }
  ranks = expanded(ranks, rank_sizes);
  const std::string interpolation = call.string("interpolation").value_or("linear");
  ranks = rounded(ranks, call, interpolation);
  const Term below(builder, ranks.as(DType::i64));
  Term values = sorted.then("aten.gather.default", {-1, below.value()});
  if (interpolation == "linear" || interpolation == "midpoint") {
    const Term above(builder, ranks.then("aten.ceil.default").as(DType::i64));
    const Term upper = sorted.then("aten.gather.default", {-1, above.value()});
    const Term weights = interpolation == "midpoint"
                             ? filled(builder, {}, 0.5, self.dtype, self.device)
                             : ranks - as_float(below).value();
    values =
        values.then("aten.lerp.Tensor", {upper.value(), expanded(weights, rank_sizes).value()});
  }
  // The fractions first, if they are a list.
  std::vector<size_t> order(rank_sizes.size());
  order[0] = rank_sizes.size() - 1;
  for (size_t i = 1; i < order.size(); ++i)
    order[i] = i - 1;
  Sizes result;
  if (q.is_list)
    result.push_back(rank_sizes.back());
  for (size_t i = 0; i < rank; ++i)
    if (keeps || (has_dim && i != dim))
      result.push_back(kept[i]);
  return reshaped(permuted(values, order), result).value();
}

} // namespace

void add_quantiles(Table &table) {
  for (const bool ignore_nan : {false, true}) {
    const std::string name = ignore_nan ? "nanquantile" : "quantile";
    for (const auto &[overload, q] : {std::pair{"", "Tensor q"}, std::pair{".scalar", "float q"}})
      table
          .add(keep_text(name + overload + "(Tensor self, " + q +
                         ", int? dim=None, bool keepdim=False, *, str interpolation='linear') -> "
                         "Tensor"))
          .decompose([ignore_nan](GraphBuilder &builder, const Call &call) {
            return quantile(builder, call, ignore_nan);
          });
  }
}

} // namespace tsc::ops
