// What is made of every choice of some elements: combinations of a vector, distances between the
// rows of a matrix.
#include "ops/table/memory_format.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "ops/table/term.h"

#include <tuple>

namespace tsc::ops {
namespace {

constexpr int64_t kMostElements = 1024; // one piece each

int64_t known_count(const Call &call, Expr size) {
  if (!size.is_integer() || size.value() > kMostElements)
    call.refuse("TSC-O016",
                call.node().target + ": the number of elements is '" + symbolic::print(size) +
                    "', a number of at most " + std::to_string(kMostElements) + " is needed",
                "make this value static when exporting");
  return size.value();
}

/// In lexicographic order, so that the choices from element i on are the last ones of all choices
/// of one element less: element i in front of those is what begins with i.
Argument combinations(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const int64_t chosen = call.integer("r");
  if (self.layout.rank() != 1)
    call.fail("TSC-O128",
              call.node().target + ": 'self' has " + std::to_string(self.layout.rank()) +
                  " dimensions, 1 is needed",
              "pass a vector");
  if (chosen < 0)
    call.fail("TSC-O031", call.node().target + " of " + std::to_string(chosen) + " elements",
              "ask for 0 or more");
  if (chosen == 0)
    return builder.call("aten.empty.memory_format", {Arguments{0}},
                        {{"dtype", self.dtype}, {"device", self.device}});
  const int64_t count = known_count(call, self.layout.sizes[0]);
  const bool repeats = call.boolean("with_replacement");
  const auto element = [&](int64_t i) {
    return builder.call("aten.slice.Tensor", {call["self"], 0, i, i + 1, 1});
  };
  // starts[i]: how many choices begin before element i.
  std::vector<int64_t> starts;
  for (int64_t i = 0; i <= count; ++i)
    starts.push_back(i);
  Argument rows = builder.call("aten.unsqueeze.default", {call["self"], 1});
  for (int64_t length = 2; length <= chosen; ++length) {
    Arguments pieces;
    std::vector<int64_t> next = {0};
    for (int64_t i = 0; i < count; ++i) {
      const int64_t from = starts[static_cast<size_t>(repeats ? i : i + 1)];
      const int64_t behind = starts.back() - from;
      next.push_back(next.back() + behind);
      if (behind == 0)
        continue;
      const Argument lead = builder.call(
          "aten.expand.default",
          {builder.call("aten.unsqueeze.default", {element(i), 1}), Arguments{behind, 1}});
      const Argument rest = builder.call("aten.slice.Tensor", {rows, 0, from, starts.back(), 1});
      pieces.push_back(builder.call("aten.cat.default", {Arguments{lead, rest}, 1}));
    }
    starts = std::move(next);
    if (pieces.empty())
      return builder.call("aten.empty.memory_format", {Arguments{0, chosen}},
                          {{"dtype", self.dtype}, {"device", self.device}});
    rows = builder.call("aten.cat.default", {pieces, 0});
  }
  return rows;
}

/// Row numbers (i, j), i < j, of every pair of `count` rows.
std::pair<Argument, Argument> pairs(GraphBuilder &builder, Expr count, tensor::Device device) {
  const Argument places =
      builder.call("aten.triu_indices.default", {size_argument(count), size_argument(count), 1},
                   {{"dtype", DType::i64}, {"device", device}});
  return {builder.call("aten.select.int", {places, 0, 0}),
          builder.call("aten.select.int", {places, 0, 1})};
}

struct PairedRows {
  Argument first, second; // row numbers
  Argument difference;    // [pairs, columns], wide
};
PairedRows paired_rows(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  if (self.layout.rank() != 2)
    call.fail("TSC-O128",
              call.node().target + ": 'self' has " + std::to_string(self.layout.rank()) +
                  " dimensions, 2 are needed",
              "pass [rows, columns]");
  if (!tensor::is_floating(self.dtype))
    call.fail("TSC-O127", call.node().target + " of " + std::string(tensor::torch_name(self.dtype)),
              "convert it to a floating dtype first");
  if (!(call.number("p") >= 0))
    call.fail("TSC-O031", call.node().target + ": the order is negative", "use one of 0 or more");
  PairedRows rows;
  std::tie(rows.first, rows.second) = pairs(builder, self.layout.sizes[0], self.device);
  const Argument x = widen(builder, call["self"]);
  const auto taken = [&](const Argument &places) {
    return builder.call("aten.index.Tensor", {x, Arguments{places}});
  };
  rows.difference = builder.call(kSub, {taken(rows.first), taken(rows.second)});
  return rows;
}

Argument distances_of_pairs(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const PairedRows rows = paired_rows(builder, call);
  if (self.layout.sizes[1].is_integer(0))
    return builder.call("aten.full.default",
                        {sizes_argument({builder.meta(rows.difference).layout.sizes[0]}), 0},
                        {{"dtype", self.dtype}, {"device", self.device}});
  const Argument norm = builder.call("aten.linalg_vector_norm.default",
                                     {rows.difference, call["p"], Arguments{-1}, false});
  return convert(builder, norm, self.dtype);
}

/// Every pair pulls its first row one way and its second row the other.
Argument gradient_of_pairs(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const PairedRows rows = paired_rows(builder, call);
  const double p = call.number("p");
  const Term difference(builder, rows.difference);
  const auto column = [&](std::string_view name) {
    return wide(builder, call, name).then("aten.unsqueeze.default", {1});
  };
  const Term distance = column("pdist"), above = column("grad");
  const Term direction = difference.then("aten.sign.default");
  const auto zero = [&] { return distance.then("aten.eq.Scalar", {0}); };
  Term share = difference * 0.0;
  if (p == 1) {
    share = above * direction;
  } else if (p == 2) {
    share = where(zero(), 0.0, above * difference / distance);
  } else if (p - p != 0) { // the largest
    share = above * direction *
            convert(builder, equal(abs(difference), distance), difference.meta().dtype);
  } else if (p != 0) {
    const Term power = abs(difference).then("aten.pow.Tensor_Scalar", {p - 1});
    const Term scale = distance.then("aten.pow.Tensor_Scalar", {p - 1});
    share = where(zero(), 0.0, direction * power * above / scale);
    if (p < 1) // where two elements are equal nothing moves
      share = where(difference.then("aten.eq.Scalar", {0}), 0.0, share);
  }
  const Term zeros = filled(builder, self.layout.sizes, 0.0, difference.meta().dtype, self.device);
  const Term first =
      zeros.then("aten.index_put.default", {Argument(Arguments{rows.first}), share.value(), true});
  return first
      .then("aten.index_put.default", {Argument(Arguments{rows.second}), (-share).value(), true})
      .as(self.dtype);
}

} // namespace

void add_combinations(Table &table) {
  table.add("combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor")
      .decompose(contiguously(combinations));
  for (const std::string_view name : {"pdist(Tensor self, float p=2) -> Tensor",
                                      "_pdist_forward(Tensor self, float p=2) -> Tensor"})
    table.add(name).decompose(distances_of_pairs);
  table.add("_pdist_backward(Tensor grad, Tensor self, float p, Tensor pdist) -> Tensor")
      .decompose(contiguously(gradient_of_pairs));
}

} // namespace tsc::ops
