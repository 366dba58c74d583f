// Gathers and scatters by other names, bags of embeddings, and what cannot be compiled because the
// result's size depends on data.
#include "ops/families/checks.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <cmath>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

Argument flat(GraphBuilder &builder, const Argument &x) {
  return builder.call("aten.reshape.default", {x, Arguments{-1}});
}

Argument shaped_like(GraphBuilder &builder, const Argument &x, const TensorMeta &meta) {
  return builder.call("aten.reshape.default", {x, sizes_argument(meta.layout.sizes)});
}

/// self seen as a vector, at `index`.
Argument take(GraphBuilder &builder, const Call &call) {
  return builder.call("aten.index.Tensor", {flat(builder, call["self"]), Arguments{call["index"]}});
}

Argument put(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  Argument values = flat(builder, call["self"]);
  Argument index = flat(builder, call["index"]);
  Argument source = flat(builder, call["source"]);
  Argument written = builder.call("aten.index_put.default",
                                  {values, Arguments{index}, source, call["accumulate"]});
  return shaped_like(builder, written, self);
}

/// The mean of what is scattered to each place, the place's own value among it if asked.
Argument scatter_mean(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  auto divided = [&](const Argument &sums, const Argument &counts) {
    if (tensor::is_floating(self.dtype))
      return builder.call(kDiv, {sums, counts});
    return builder.call("aten.div.Tensor_mode", {sums, counts}, {{"rounding_mode", "floor"}});
  };
  Argument wide = widen(builder, call["self"]);
  Argument source = widen(builder, call["src"]);
  Argument zeros = builder.call("aten.zeros_like.default", {wide});
  Argument ones = builder.call("aten.ones_like.default", {source});
  Argument counts =
      builder.call("aten.scatter_add.default", {zeros, call["dim"], call["index"], ones});
  if (call.boolean("include_self")) {
    Argument sums =
        builder.call("aten.scatter_add.default", {wide, call["dim"], call["index"], source});
    Argument mean = divided(sums, builder.call(kAdd, {counts, 1}));
    return convert(builder, mean, self.dtype);
  }
  Argument sums =
      builder.call("aten.scatter_add.default", {zeros, call["dim"], call["index"], source});
  Argument untouched = builder.call("aten.eq.Tensor", {counts, 0});
  Argument mean = divided(sums, builder.call("aten.maximum.default", {counts, 1}));
  return convert(builder, builder.call(kWhere, {untouched, wide, mean}), self.dtype);
}

enum class BagMode : uint8_t { sum, mean, max };

/// The number of indices, where the last bag ends, as a vector of one: what include_last_offset
/// gives reaches no further, and where PyTorch's fast kernels sum bags it is that number.
Argument checked_last_offset(GraphBuilder &builder, const Call &call, Expr indices) {
  const Expr last = call.tensor("offsets").layout.sizes[0] - Expr(1);
  Argument end = builder.call("aten.slice.Tensor", {call["offsets"], 0, size_argument(last)});
  end = checked_range(builder, end, indices + 1, "offset");
  const DType dtype = call.tensor("weight").dtype;
  if (static_cast<BagMode>(call.integer("mode")) == BagMode::max ||
      (dtype != DType::f32 && !tensor::is_reduced_float(dtype)))
    return builder.call("aten.maximum.default", {end, size_argument(indices)});
  Argument over = builder.call("aten.rsub.Scalar", {end, size_argument(indices)});
  over = checked_with(builder, over, 1, "the last offset leaves {value} indices in no bag");
  return builder.call(kAdd, {end, over});
}

/// Where bags start: the first at 0, none behind the last index, none before the one before it. The
/// last bag ends at `end`.
Argument checked_offsets(GraphBuilder &builder, const Argument &starts, Expr bags, Expr indices,
                         const Argument &end) {
  Argument all = checked_range(builder, starts, indices + 1, "offset");
  Argument number = builder.call("aten.arange.default", {size_argument(bags)},
                                 {{"dtype", DType::i64}, {"device", builder.meta(starts).device}});
  Argument is_first = builder.call("aten.eq.Scalar", {number, 0});
  Argument first = checked_with(builder, builder.call(kWhere, {is_first, starts, 0}), 1,
                                "offset {value} of {subject}, the first, is not 0");
  Argument held = builder.call(kWhere, {is_first, first, all});
  if (bags.is_integer(0))
    return held;
  Argument next = builder.call("aten.slice.Tensor", {held, 0, 1});
  next = builder.call("aten.cat.default", {Arguments{next, end}, 0});
  Argument lengths = checked_with(builder, builder.call(kSub, {next, held}), indices + 1,
                                  "a bag has {value} indices: its offset is behind the next one");
  return builder.call(kSub, {next, lengths});
}

struct Largest {
  Argument values, indices; // [bags, width]; 0 of empty bags
};
/// The largest of each bag's rows and the index it came from. As ATen's kernels do it: a bag's
/// first row counts whatever it holds, later ones where they are larger, which NaN is not. `own`:
/// [bags, indices], the rows that count.
Largest largest_of_bags(GraphBuilder &builder, const Call &call, const Argument &rows,
                        const Argument &own, const Argument &sizes) {
  const auto column = [&](const Argument &x) {
    return builder.call("aten.unsqueeze.default", {x, -1});
  };
  // Every bag looks at every row: [bags, indices, width].
  Argument numbers =
      builder.call(kWhere, {builder.call("aten.isnan.default", {rows}), -INFINITY, rows});
  Argument seen = builder.call(kWhere, {column(own), numbers, -INFINITY});
  Argument largest = builder.call("aten.amax.default", {seen, Arguments{1}, false});
  Argument position = builder.call("aten.argmax.default", {seen, 1, false});
  Argument first =
      builder.call("aten.argmax.default", {convert(builder, own, DType::i64), 1, false});
  Argument first_row = builder.call("aten.index.Tensor", {rows, Arguments{first}});
  Argument starts_as_nan = builder.call("aten.isnan.default", {first_row});
  Argument stays =
      builder.call("aten.logical_or.default",
                   {starts_as_nan, builder.call("aten.eq.Scalar", {largest, -INFINITY})});
  Argument empty = column(builder.call("aten.eq.Tensor", {sizes, 0}));
  Argument values = builder.call(kWhere, {starts_as_nan, first_row, largest});
  position = builder.call(kWhere, {stays, column(first), position});
  Argument index = builder.call("aten.index.Tensor", {call["indices"], Arguments{position}});
  return {builder.call(kWhere, {empty, 0.0, values}),
          convert(builder, builder.call(kWhere, {empty, 0, index}), DType::i64)};
}

/// Whether PyTorch's CPU kernels add up bags without noting which index is in which bag.
bool adds_without_notes(const Call &call, int64_t padding) {
  const DType dtype = call.tensor("weight").dtype;
  return padding < 0 && (dtype == DType::f32 || tensor::is_reduced_float(dtype));
}

/// (bags [count, width], bag of every index, size of every bag, indices of the largest). The last
/// three are what a backward pass reads, with the sizes and values of PyTorch's CPU kernels: sums
/// note no sizes and mostly no bags.
Argument embedding_bag(GraphBuilder &builder, const Call &call) {
  const TensorMeta weight = call.tensor("weight"), indices = call.tensor("indices"),
                   offsets = call.tensor("offsets");
  int64_t mode_number = call.integer("mode");
  if (weight.layout.rank() != 2 || indices.layout.rank() != 1 || offsets.layout.rank() != 1 ||
      mode_number < 0 || mode_number > 2)
    call.fail("TSC-O102",
              call.node().target + ": weight " + print_sizes(weight.layout.sizes) + ", indices " +
                  print_sizes(indices.layout.sizes) + ", offsets " +
                  print_sizes(offsets.layout.sizes),
              "pass a matrix, and vectors of indices and offsets");
  const auto is_index = [](DType dtype) { return dtype == DType::i32 || dtype == DType::i64; };
  if (!tensor::is_floating(weight.dtype) || !is_index(indices.dtype) || !is_index(offsets.dtype))
    call.fail("TSC-O102",
              call.node().target + " of " + std::string(tensor::torch_name(weight.dtype)) +
                  " with indices of " + std::string(tensor::torch_name(indices.dtype)) +
                  " and offsets of " + std::string(tensor::torch_name(offsets.dtype)),
              "pass floats, and int32 or int64 for indices and offsets");
  BagMode mode = static_cast<BagMode>(mode_number);
  Expr bags = offsets.layout.sizes[0];
  const Expr count = indices.layout.sizes[0];
  Argument starts = call["offsets"];
  Argument end = builder.call("aten.full.default", {Arguments{1}, size_argument(count)},
                              {{"dtype", DType::i64}, {"device", weight.device}});
  if (call.boolean("include_last_offset")) {
    bags = bags - Expr(1);
    end = checked_last_offset(builder, call, count);
    starts = builder.call("aten.slice.Tensor", {starts, 0, 0, size_argument(bags)});
  }
  starts = checked_offsets(builder, starts, bags, count, end);
  Argument place = builder.call("aten.arange.default", {size_argument(indices.layout.sizes[0])},
                                {{"dtype", DType::i64}, {"device", weight.device}});
  Argument bag = builder.call("aten.searchsorted.Tensor", {starts, place}, {{"right", true}});
  bag = builder.call(kSub, {bag, 1});
  Argument rows =
      widen(builder, builder.call("aten.embedding.default", {call["weight"], call["indices"]}));
  if (call.has("per_sample_weights")) {
    Argument column = builder.call("aten.unsqueeze.default", {call["per_sample_weights"], -1});
    rows = builder.call(kMul, {rows, widen(builder, column)});
  }
  int64_t padding = -1;
  for (const Parameter &parameter : call.schema().parameters)
    if (parameter.name == "padding_idx" && call.has("padding_idx"))
      padding = call.integer("padding_idx");
  Argument counted = builder.call("aten.full.default", {sizes_argument(indices.layout.sizes), 1},
                                  {{"dtype", DType::i64}, {"device", weight.device}});
  if (padding >= 0) {
    Argument valid = builder.call("aten.ne.Tensor", {call["indices"], padding});
    counted = convert(builder, valid, DType::i64);
    Argument column = builder.call("aten.unsqueeze.default", {valid, -1});
    rows = builder.call(kWhere, {column, rows, 0.0});
  }
  Argument no_counts = builder.call("aten.full.default", {sizes_argument({bags}), 0},
                                    {{"dtype", DType::i64}, {"device", weight.device}});
  Argument sizes =
      builder.call("aten.index_put.default", {no_counts, Arguments{bag}, counted, true});
  Argument result, largest_at = sizes;
  const bool nothing = indices.layout.sizes[0].is_integer(0);
  if (mode == BagMode::max && !nothing) {
    Argument numbers = builder.call("aten.arange.default", {size_argument(bags)},
                                    {{"dtype", DType::i64}, {"device", weight.device}});
    Argument own = builder.call("aten.eq.Tensor",
                                {builder.call("aten.unsqueeze.default", {numbers, -1}), bag});
    own = builder.call("aten.logical_and.default", {own, counted});
    Largest largest = largest_of_bags(builder, call, rows, own, sizes);
    result = largest.values;
    largest_at = largest.indices;
  } else {
    Argument zeros =
        builder.call("aten.full.default", {sizes_argument({bags, weight.layout.sizes[1]}), 0.0},
                     {{"dtype", builder.meta(rows).dtype}, {"device", weight.device}});
    result = builder.call("aten.index_put.default", {zeros, Arguments{bag}, rows, true});
    if (mode == BagMode::mean) {
      Argument divisor = builder.call("aten.maximum.default", {sizes, 1});
      Argument column = builder.call("aten.unsqueeze.default", {divisor, -1});
      result = builder.call(kDiv, {result, column});
    }
  }
  if (mode == BagMode::max && nothing)
    largest_at =
        builder.call("aten.full.default", {sizes_argument({bags, weight.layout.sizes[1]}), 0},
                     {{"dtype", DType::i64}, {"device", weight.device}});
  if (mode == BagMode::sum) {
    const bool all_offsets = call.node().target == "aten._embedding_bag_forward_only.default";
    sizes = largest_at = builder.call(
        "aten.full.default", {sizes_argument({all_offsets ? offsets.layout.sizes[0] : bags}), 0},
        {{"dtype", DType::i64}, {"device", weight.device}});
    if (adds_without_notes(call, padding))
      bag = builder.call("aten.full.default", {Arguments{0}, 0},
                         {{"dtype", DType::i64}, {"device", weight.device}});
  }
  return Arguments{convert(builder, result, weight.dtype), bag, sizes, largest_at};
}

void add_bags(Table &table) {
  std::string common = "(Tensor weight, Tensor indices, Tensor offsets, bool "
                       "scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? "
                       "per_sample_weights=None, bool include_last_offset=False";
  std::string results = ") -> (Tensor, Tensor, Tensor, Tensor)";
  table.add(keep_text("embedding_bag" + common + results)).decompose(embedding_bag);
  for (std::string_view name : {"_embedding_bag", "_embedding_bag_forward_only"})
    table.add(keep_text(std::string(name) + common + ", int padding_idx=-1" + results))
        .decompose(embedding_bag);
  table
      .add(keep_text("embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, "
                     "bool scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, "
                     "bool include_last_offset, int? padding_idx" +
                     results))
      .decompose(embedding_bag);
}

/// The rows that are named, scaled down to the norm that they are above. A row that is named twice
/// is scaled once: both write the same.
Argument shortened_rows(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self"), indices = call.tensor("indices");
  if (self.layout.rank() != 2 || !tensor::is_integral(indices.dtype))
    call.fail("TSC-O043",
              call.node().target + ": rows of " + print_sizes(self.layout.sizes) + " by " +
                  std::string(tensor::torch_name(indices.dtype)),
              "pass a matrix, and int64 indices");
  Argument places = builder.call("aten.reshape.default", {call["indices"], Arguments{-1}});
  places = checked_range(builder, places, self.layout.sizes[0]);
  const Argument rows = builder.call("aten.index.Tensor", {call["self"], Arguments{places}});
  Argument norm = builder.call("aten.linalg_vector_norm.default",
                               {rows, call["norm_type"], Arguments{1}, true});
  norm = widen(builder, norm);
  const Argument length = builder.call(kAdd, {convert(builder, norm, DType::f64), 1e-7});
  const Argument factor = convert(builder, builder.call(kDiv, {call["max_norm"], length}),
                                  accumulation_dtype(self.dtype));
  const Argument scaled =
      convert(builder, builder.call(kMul, {widen(builder, rows), factor}), self.dtype);
  const Argument is_long = builder.call("aten.gt.Tensor", {norm, call["max_norm"]});
  return builder.call(
      "aten.index_put.default",
      {call["self"], Arguments{places}, builder.call(kWhere, {is_long, scaled, rows}), false});
}

} // namespace

void add_gather_forms(Table &table) {
  table.add("take(Tensor self, Tensor index) -> Tensor").decompose(take);
  table
      .add_with_in_place(
          "put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor")
      .decompose(put);
  table
      .add("tsc::scatter_mean(Tensor self, int dim, Tensor index, Tensor src, bool include_self) "
           "-> Tensor")
      .decompose(scatter_mean);
  table
      .add("tsc::embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type) -> "
           "Tensor")
      .decompose(shortened_rows);
  table.add_mutating("embedding_renorm_(Tensor(a!) self, Tensor indices, float max_norm, float "
                     "norm_type) -> Tensor(a!)",
                     "tsc.embedding_renorm.default");
  add_bags(table);
}

} // namespace tsc::ops
