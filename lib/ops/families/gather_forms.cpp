// Gathers and scatters by other names, bags of embeddings, and what cannot be compiled because the
// result's size depends on data.
#include "ops/families/checks.h"
#include "ops/families/row_sums.h"
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

struct SummedBags {
  Argument sums, sizes; // [bags, width], of the dtype in which is added; [bags]
};
/// Bags whose rows are added in their order, by one kernel; `bag`: of each index.
SummedBags sums_of_bags(GraphBuilder &builder, const Call &call, const Argument &starts,
                        const Argument &end, const Argument &bag, Expr bags) {
  const TensorMeta weight = call.tensor("weight"), indices = call.tensor("indices");
  const Argument limits =
      builder.call("aten.cat.default", {Arguments{convert(builder, starts, DType::i64), end}, 0});
  const Argument next = builder.call("aten.slice.Tensor", {limits, 0, 1});
  const Argument sizes = builder.call(
      kSub, {next, builder.call("aten.slice.Tensor", {limits, 0, 0, size_argument(bags)})});
  const Argument order =
      checked_range(builder, convert(builder, call["indices"], DType::i64), weight.layout.sizes[0]);
  Argument pieces = graph::None{};
  if (symbolic::bounds(indices.layout.sizes[0], builder.ranges()).high >= kSumPiece)
    pieces = builder.call("tsc.sum_pieces.default", {call["weight"], bag, order});
  const Argument sums =
      builder.call("tsc.sum_rows.default", {call["weight"], order, limits, pieces,
                                            size_argument(bags), accumulation_dtype(weight.dtype)});
  return {sums, sizes};
}

struct Largest {
  Argument values, indices; // [bags, width]; 0 of empty bags
};
Argument column_of(GraphBuilder &builder, const Argument &x) {
  return builder.call("aten.unsqueeze.default", {x, -1});
}
/// What the larger of a bag's rows follow from, NaN being larger than none.
Argument without_nan(GraphBuilder &builder, const Argument &rows) {
  return builder.call(kWhere, {builder.call("aten.isnan.default", {rows}), -INFINITY, rows});
}
/// `largest`: without NaN, `at`: where that is; `first`: of each bag the place of the first row
/// that counts, and that row. As ATen's kernels do it: a bag's first row counts whatever it holds,
/// later ones where they are larger, which NaN is not.
Largest largest_with_first(GraphBuilder &builder, const Call &call, const Argument &largest,
                           const Argument &at, const Argument &first, const Argument &first_row,
                           const Argument &sizes) {
  const Argument starts_as_nan = builder.call("aten.isnan.default", {first_row});
  const Argument stays =
      builder.call("aten.logical_or.default",
                   {starts_as_nan, builder.call("aten.eq.Scalar", {largest, -INFINITY})});
  const Argument empty = column_of(builder, builder.call("aten.eq.Tensor", {sizes, 0}));
  const Argument values = builder.call(kWhere, {starts_as_nan, first_row, largest});
  const Argument position = builder.call(kWhere, {stays, column_of(builder, first), at});
  const Argument index = builder.call("aten.index.Tensor", {call["indices"], Arguments{position}});
  return {builder.call(kWhere, {empty, 0.0, values}),
          convert(builder, builder.call(kWhere, {empty, 0, index}), DType::i64)};
}

/// The largest of each bag's rows [indices, width] and the index it came from; `counted`:
/// [indices], 0 where a row does not count, `bag`: where it does.
Largest largest_of_bags(GraphBuilder &builder, const Call &call, const Argument &rows,
                        const Argument &counted, const Argument &bag, Expr bags,
                        const Argument &sizes) {
  const TensorMeta meta = builder.meta(rows);
  const Expr count = meta.layout.sizes[0], width = meta.layout.sizes[1];
  const auto reduced = [&](const Argument &initial, const Argument &at, const Argument &values,
                           const char *how) {
    return builder.call("aten.scatter_reduce.two", {initial, 0, at, values, std::string(how)});
  };
  const auto whole = [&](std::vector<Expr> sizes_of, const Argument &value, DType dtype) {
    return builder.call("aten.full.default", {sizes_argument(sizes_of), value},
                        {{"dtype", dtype}, {"device", meta.device}});
  };
  const Argument counts = builder.call("aten.ne.Scalar", {counted, 0});
  const Argument numbers =
      builder.call(kWhere, {column_of(builder, counts), without_nan(builder, rows), -INFINITY});
  const Argument at = builder.call("aten.expand.default",
                                   {column_of(builder, bag), sizes_argument({count, width})});
  const Argument largest =
      reduced(whole({bags, width}, -INFINITY, meta.dtype), at, numbers, "amax");
  const Argument last = size_argument(count - Expr(1));
  const Argument places = builder.call("aten.arange.default", {size_argument(count)},
                                       {{"dtype", DType::i64}, {"device", meta.device}});
  const Argument first = reduced(whole({bags}, last, DType::i64), bag,
                                 builder.call(kWhere, {counts, places, last}), "amin");
  const Argument is_it = builder.call(
      "aten.logical_and.default",
      {column_of(builder, counts),
       builder.call("aten.eq.Tensor",
                    {numbers, builder.call("aten.index.Tensor", {largest, Arguments{bag}})})});
  const Argument position =
      reduced(whole({bags, width}, last, DType::i64), at,
              builder.call(kWhere, {is_it, column_of(builder, places), last}), "amin");
  const Argument first_row = builder.call("aten.index.Tensor", {rows, Arguments{first}});
  return largest_with_first(builder, call, largest, position, first, first_row, sizes);
}

/// How many indices each bag has, where that is known: offsets are 0, n, 2 n, ..., as those of a
/// matrix of indices are.
std::optional<Expr> equal_length(const GraphBuilder &builder, const Call &call) {
  const graph::NodeRef *ref = call["offsets"].node();
  if (ref == nullptr || call.boolean("include_last_offset"))
    return std::nullopt;
  const Node &node = builder.graph().node(ref->id);
  const auto number = [&node](std::string_view name) {
    for (const auto &[key, value] : node.kwargs) {
      if (const auto *found = std::get_if<int64_t>(&value.value); key == name && found != nullptr)
        return Expr(*found);
      if (const auto *size = std::get_if<Expr>(&value.value); key == name && size != nullptr)
        return *size;
    }
    return Expr(-1);
  };
  const symbolic::Ranges &ranges = builder.ranges();
  const Expr step = number("step"), bags = call.tensor("offsets").layout.sizes[0],
             left = call.tensor("indices").layout.sizes[0] - bags * step;
  if (node.target != "prims.iota.default" || !number("start").is_integer(0) ||
      symbolic::bounds(step, ranges).low < 1 || !symbolic::simplify(left, ranges).is_integer(0))
    return std::nullopt;
  return step;
}

/// The results of bags of `length` indices each: a reduction of rows that an index picks.
Argument equal_bags(GraphBuilder &builder, const Call &call, BagMode mode, Expr bags, Expr length,
                    int64_t padding) {
  const TensorMeta weight = call.tensor("weight");
  const Arguments shape = {size_argument(bags), size_argument(length)};
  const auto in_bags = [&](const Argument &x) {
    return builder.call("aten.reshape.default", {x, shape});
  };
  const Argument indices = in_bags(call["indices"]);
  Argument rows = widen(builder, builder.call("aten.embedding.default", {call["weight"], indices}));
  if (call.has("per_sample_weights"))
    rows = builder.call(
        kMul, {rows, widen(builder, column_of(builder, in_bags(call["per_sample_weights"])))});
  Argument counts;
  if (padding >= 0)
    counts = builder.call("aten.ne.Scalar", {indices, padding});
  const auto counted = [&](const Argument &x, double otherwise) {
    return counts.is_none() ? x : builder.call(kWhere, {column_of(builder, counts), x, otherwise});
  };
  const Argument sizes = counts.is_none()
                             ? builder.call("aten.full.default",
                                            {Arguments{size_argument(bags)}, size_argument(length)},
                                            {{"dtype", DType::i64}, {"device", weight.device}})
                             : builder.call("aten.sum.dim_IntList", {counts, Arguments{1}, false});
  const Argument places = builder.call("aten.arange.default", {size_argument(bags * length)},
                                       {{"dtype", DType::i64}, {"device", weight.device}});
  const Argument bag = builder.call("aten.div.Tensor_mode", {places, size_argument(length)},
                                    {{"rounding_mode", std::string("floor")}});
  if (mode == BagMode::max) {
    const Argument numbers = counted(without_nan(builder, rows), -INFINITY);
    const Argument largest = builder.call("aten.amax.default", {numbers, Arguments{1}, false});
    const Argument starts =
        builder.call("aten.reshape.default",
                     {builder.call("aten.slice.Tensor", {places, 0, 0, size_argument(bags * length),
                                                         size_argument(length)}),
                      Arguments{size_argument(bags)}});
    Argument first = starts, first_row = builder.call("aten.select.int", {rows, 1, 0});
    if (!counts.is_none()) {
      first = builder.call(
          kAdd, {starts, builder.call("aten.argmax.default",
                                      {convert(builder, counts, DType::i64), 1, false})});
      const Argument flat = builder.call(
          "aten.reshape.default", {rows, sizes_argument({bags * length, weight.layout.sizes[1]})});
      first_row = builder.call("aten.index.Tensor", {flat, Arguments{first}});
    }
    const Argument at =
        builder.call(kAdd, {column_of(builder, starts),
                            builder.call("aten.argmax.default", {numbers, 1, false})});
    const Largest found = largest_with_first(builder, call, largest, at, first, first_row, sizes);
    return Arguments{found.values, bag, sizes, found.indices};
  }
  Argument result = builder.call("aten.sum.dim_IntList", {counted(rows, 0.0), Arguments{1}, false});
  if (mode == BagMode::mean)
    result = builder.call(
        kDiv, {result, column_of(builder, builder.call("aten.maximum.default", {sizes, 1}))});
  return Arguments{result, bag, sizes, sizes};
}

/// Whether PyTorch's CPU kernels add up bags without noting which index is in which bag.
bool adds_without_notes(const Call &call, int64_t padding) {
  const DType dtype = call.tensor("weight").dtype;
  return padding < 0 && (dtype == DType::f32 || tensor::is_reduced_float(dtype));
}

/// The results as PyTorch's CUDA kernels give them: bags and sizes always, of the indices' type;
/// indices of the largest of maxima alone.
Argument noted_on_gpu(GraphBuilder &builder, const Call &call, BagMode mode, const Argument &result,
                      const Argument &bag, Argument sizes, Argument largest_at) {
  const TensorMeta weight = call.tensor("weight");
  const bool is_wide =
      call.tensor("indices").dtype == DType::i64 || call.tensor("offsets").dtype == DType::i64;
  const DType dtype = is_wide ? DType::i64 : DType::i32;
  if (call.boolean("include_last_offset")) // whose bag is none
    sizes = builder.call("aten.constant_pad_nd.default", {sizes, Arguments{0, 1}, 0});
  if (mode != BagMode::max)
    largest_at = builder.call("aten.full.default", {Arguments{0}, 0},
                              {{"dtype", dtype}, {"device", weight.device}});
  return Arguments{convert(builder, result, weight.dtype), convert(builder, bag, dtype),
                   convert(builder, sizes, dtype), convert(builder, largest_at, dtype)};
}

/// The results as PyTorch's CPU kernels give them.
Argument noted(GraphBuilder &builder, const Call &call, BagMode mode, Expr bags, int64_t padding,
               const Argument &result, Argument bag, Argument sizes, Argument largest_at) {
  const TensorMeta weight = call.tensor("weight");
  if (weight.device.type == tensor::DeviceType::cuda)
    return noted_on_gpu(builder, call, mode, result, bag, sizes, largest_at);
  if (mode == BagMode::sum) {
    const bool all_offsets = call.node().target == "aten._embedding_bag_forward_only.default";
    sizes = largest_at = builder.call(
        "aten.full.default",
        {sizes_argument({all_offsets ? call.tensor("offsets").layout.sizes[0] : bags}), 0},
        {{"dtype", DType::i64}, {"device", weight.device}});
    if (adds_without_notes(call, padding))
      bag = builder.call("aten.full.default", {Arguments{0}, 0},
                         {{"dtype", DType::i64}, {"device", weight.device}});
  }
  return Arguments{convert(builder, result, weight.dtype), bag, sizes, largest_at};
}

/// (bags [count, width], bag of every index, size of every bag, indices of the largest). The last
/// three are what a backward pass reads, with the sizes and values of PyTorch's kernels for the
/// graph's device: on a CPU sums note no sizes and mostly no bags.
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
  int64_t padding = -1;
  for (const Parameter &parameter : call.schema().parameters)
    if (parameter.name == "padding_idx" && call.has("padding_idx"))
      padding = call.integer("padding_idx");
  const bool nothing = indices.layout.sizes[0].is_integer(0);
  if (const std::optional<Expr> length = equal_length(builder, call); length && !nothing) {
    const Argument made = equal_bags(builder, call, mode, bags, *length, padding);
    const Arguments &results = *made.list();
    return noted(builder, call, mode, bags, padding, results[0], results[1], results[2],
                 results[3]);
  }
  Argument place = builder.call("aten.arange.default", {size_argument(indices.layout.sizes[0])},
                                {{"dtype", DType::i64}, {"device", weight.device}});
  Argument bag = builder.call("aten.searchsorted.Tensor", {starts, place}, {{"right", true}});
  bag = builder.call(kSub, {bag, 1});
  if (mode != BagMode::max && !nothing && padding < 0 && !call.has("per_sample_weights") &&
      !bags.is_integer(0) && !weight.layout.sizes[1].is_integer(0)) {
    const SummedBags summed = sums_of_bags(builder, call, starts, end, bag, bags);
    Argument result = summed.sums;
    if (mode == BagMode::mean) {
      const Argument divisor = builder.call("aten.maximum.default", {summed.sizes, 1});
      result = builder.call(kDiv, {result, column_of(builder, divisor)});
    }
    return noted(builder, call, mode, bags, padding, result, bag, summed.sizes, summed.sizes);
  }
  Argument rows =
      widen(builder, builder.call("aten.embedding.default", {call["weight"], call["indices"]}));
  if (call.has("per_sample_weights")) {
    Argument column = builder.call("aten.unsqueeze.default", {call["per_sample_weights"], -1});
    rows = builder.call(kMul, {rows, widen(builder, column)});
  }
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
  if (mode == BagMode::max && !nothing) {
    Largest largest = largest_of_bags(builder, call, rows, counted, bag, bags, sizes);
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
  return noted(builder, call, mode, bags, padding, result, bag, sizes, largest_at);
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
