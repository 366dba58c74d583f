// Gathers and scatters.
#include "ops/families/checks.h"
#include "ops/families/data_sizes.h"
#include "ops/families/slice_bounds.h"
#include "ops/table/memory_format.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

void require_integers(const Call &call, const TensorMeta &indices) {
  if (!tensor::is_integral(indices.dtype))
    call.fail("TSC-O043",
              call.node().target + ": indices of " + std::string(tensor::torch_name(indices.dtype)),
              "convert the indices to int64");
}

Value embedding_value(const Call &call) {
  const TensorMeta &weight = call.tensor("weight"), &indices = call.tensor("indices");
  require_integers(call, indices);
  if (weight.layout.rank() != 2)
    call.fail("TSC-O043",
              "aten.embedding: the weight has " + std::to_string(weight.layout.rank()) +
                  " dimensions",
              "pass a matrix");
  Sizes sizes = indices.layout.sizes;
  sizes.push_back(weight.layout.sizes[1]);
  return contiguous_value(weight.dtype, sizes, weight.device);
}

bool is_mask(const TensorMeta &meta) {
  return meta.dtype == DType::boolean || meta.dtype == DType::u8;
}

/// How many places the masks of index_put pick that stand beside other indices: as many as these
/// have elements, or as there are values; nullopt if those are one for all. Refused: other indices
/// of several dimensions.
std::optional<Expr> picked_beside(const Call &call) {
  size_t dims = 0, indexed = 0, first = SIZE_MAX, end = 0, masks = 0; // of self
  for (const Argument &item : *call["indices"].list()) {
    const Value *value = call.value_of(item);
    const TensorMeta *meta = value ? value->tensor() : nullptr;
    const size_t covered = meta && is_mask(*meta) ? meta->layout.rank() : 1;
    dims += covered;
    if (meta == nullptr)
      continue;
    first = std::min(first, dims - covered);
    end = dims;
    indexed += covered;
    if (is_mask(*meta)) {
      ++masks;
      continue;
    }
    if (meta->layout.rank() > 1)
      call.refuse("TSC-O004",
                  call.node().target + " with a mask and an index of " +
                      std::to_string(meta->layout.rank()) + " dimensions",
                  "use torch.where, or integer indices");
    if (meta->layout.rank() == 1 && !meta->layout.sizes[0].is_integer(1))
      return meta->layout.sizes[0];
  }
  const Sizes &values = call.tensor("values").layout.sizes;
  const size_t rank = call.tensor("self").layout.rank();
  const size_t behind = rank - std::min(rank, end - first == indexed ? end : indexed);
  if (values.size() > behind && !values[values.size() - behind - 1].is_integer(1))
    return values[values.size() - behind - 1];
  if (masks > 1)
    call.refuse("TSC-O004", call.node().target + " with several masks and one value for all places",
                "use torch.where, or integer indices");
  return std::nullopt;
}

/// What stands for `mask` among indices: one of as many elements as it picks for each dimension.
void add_mask(const Call &call, const TensorMeta &mask,
              std::vector<std::optional<TensorMeta>> &metas) {
  const Sizes &self = call.tensor("self").layout.sizes, &sizes = mask.layout.sizes;
  const bool is_put = call.schema().parameters.size() > 2; // values
  const std::optional<Expr> count =
      is_put ? picked_beside(call).value_or(Expr(1)) : masked_size(call);
  if (!count || sizes.empty())
    call.refuse("TSC-O004",
                call.node().target +
                    " with a mask of no dimensions: the result's size depends on data",
                "use torch.where, or integer indices");
  bool fits = metas.size() + sizes.size() <= self.size();
  for (size_t i = 0; fits && i < sizes.size(); ++i)
    fits = taken_equal(call, sizes[i], self[metas.size() + i]);
  if (!fits)
    call.fail("TSC-O043",
              call.node().target + ": a mask of sizes " + print_sizes(sizes) + " at dimension " +
                  std::to_string(metas.size()) + " of " + print_sizes(self),
              "pass a mask of the sizes of the dimensions that it stands for");
  TensorMeta places;
  places.dtype = DType::i64;
  places.device = mask.device;
  places.layout = tensor::Layout{{*count}, {Expr(1)}, Expr(0)};
  metas.insert(metas.end(), sizes.size(), places);
}

/// The index tensors of aten.index: their metas, nullopt for whole dimensions. A mask counts as an
/// index of each dimension that it covers.
std::vector<std::optional<TensorMeta>> index_metas(const Call &call) {
  std::vector<std::optional<TensorMeta>> metas;
  const Argument::List *list = call["indices"].list();
  for (const Argument &item : list ? *list : Argument::List{}) {
    const Value *value = call.value_of(item);
    if (!value || !value->tensor()) {
      metas.emplace_back();
      continue;
    }
    const TensorMeta &meta = *value->tensor();
    if (is_mask(meta)) {
      add_mask(call, meta, metas);
      continue;
    }
    require_integers(call, meta);
    metas.emplace_back(meta);
  }
  return metas;
}

/// Of self[indices]: the broadcast index dimensions stand where the (adjacent) indexed dimensions
/// were, else in front; strides are self's, 0 of the index dimensions.
struct Indexed {
  Sizes sizes, strides;
};
Indexed indexed_by(const Call &call, std::vector<std::optional<TensorMeta>> metas) {
  const TensorMeta &self = call.tensor("self");
  if (metas.size() > self.layout.rank())
    call.fail("TSC-O043",
              call.node().target + ": " + std::to_string(metas.size()) + " indices for " +
                  std::to_string(self.layout.rank()) + " dimensions",
              "pass one index a dimension at most");
  metas.resize(self.layout.rank());
  std::vector<Sizes> shapes;
  size_t first = metas.size(), last = 0;
  for (size_t i = 0; i < metas.size(); ++i) {
    if (!metas[i])
      continue;
    shapes.push_back(metas[i]->layout.sizes);
    first = std::min(first, i);
    last = i;
  }
  Sizes replacement = broadcast(call, shapes);
  bool adjacent = !shapes.empty() && last - first + 1 == shapes.size();
  Indexed result;
  auto add_replacement = [&] {
    result.sizes.insert(result.sizes.end(), replacement.begin(), replacement.end());
    result.strides.insert(result.strides.end(), replacement.size(), Expr(0));
  };
  if (!adjacent)
    add_replacement();
  for (size_t i = 0; i < metas.size(); ++i) {
    if (adjacent && i == first)
      add_replacement();
    if (metas[i])
      continue;
    result.sizes.push_back(self.layout.sizes[i]);
    result.strides.push_back(self.layout.strides[i]);
  }
  return result;
}

/// The result's strides follow self's order of the remaining dimensions.
Value index_value(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  const auto [sizes, strides] = indexed_by(call, index_metas(call));
  Sizes result(sizes.size(), Expr(1));
  Expr next(1);
  bool row_major = true;
  std::vector<size_t> order = iteration_order(sizes, {strides}, call.ranges());
  for (size_t i = 0; i < order.size(); ++i) {
    row_major = row_major && order[i] == order.size() - 1 - i;
    result[order[i]] = next;
    next *= sizes[order[i]];
  }
  if (row_major)
    return contiguous_value(self.dtype, sizes, self.device);
  return tensor_value(self.dtype, sizes, result, self.device);
}

Value gather_value(const Call &call) {
  const TensorMeta &self = call.tensor("self"), &index = call.tensor("index");
  require_integers(call, index);
  normalize_dim(call, call.integer("dim"), self.layout.rank());
  if (self.layout.rank() != index.layout.rank() && self.layout.rank() != 0 &&
      index.layout.rank() != 0)
    call.fail("TSC-O043",
              "aten.gather: self has " + std::to_string(self.layout.rank()) +
                  " dimensions, index " + std::to_string(index.layout.rank()),
              "make them equal");
  return contiguous_value(self.dtype, index.layout.sizes, self.device);
}

/// self, copied to contiguous memory and written to.
Value scatter_value(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  require_integers(call, call.tensor("index"));
  normalize_dim(call, call.integer("dim"), self.layout.rank());
  return contiguous_value(self.dtype, self.layout.sizes, self.device);
}

/// As self.clone() is written to.
Value like_clone(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  return tensor_value(self.dtype, self.layout.sizes, preserved_strides(self.layout, call.ranges()),
                      self.device);
}

/// [None, .., index] for dimension `dim`.
Arguments index_at(const Argument &index, size_t dim) {
  Arguments indices(dim, graph::None{});
  indices.push_back(index);
  return indices;
}

Argument index_select(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  size_t dim = normalize_dim(call, call.integer("dim"), self.layout.rank());
  if (self.layout.rank() == 0) {
    Argument only = builder.call("aten.reshape.default", {call["index"], Arguments{}});
    return builder.call("aten.gather.default", {call["self"], 0, only});
  }
  // One place without a dimension leaves one of size 1.
  Argument places = builder.meta(call["index"]).layout.rank() == 0
                        ? builder.call("aten.unsqueeze.default", {call["index"], 0})
                        : call["index"];
  Argument index = checked_range(builder, places, self.layout.sizes[dim]);
  Argument picked = builder.call("aten.index.Tensor", {call["self"], index_at(index, dim)});
  if (builder.meta(picked).layout.is_contiguous())
    return picked;
  return builder.call("aten.clone.default", {picked},
                      {{"memory_format", graph::MemoryFormat::contiguous}});
}

/// The position of the only index, if it is a mask.
std::optional<size_t> only_mask(const Call &call) {
  std::optional<size_t> at;
  const Argument::List *list = call["indices"].list();
  for (size_t i = 0; list && i < list->size(); ++i) {
    const Value *value = call.value_of((*list)[i]);
    if (!value || !value->tensor())
      continue;
    if (at || !is_mask(*value->tensor()))
      return std::nullopt;
    at = i;
  }
  return at;
}

/// Throws TSC-O043 or -O020 unless the mask has the sizes of the dimensions that it stands for, and
/// the values broadcast to what it picks, however much that is.
void require_mask_fits(const Call &call, size_t at) {
  const Sizes self = call.tensor("self").layout.sizes, values = call.tensor("values").layout.sizes;
  const Sizes mask = call.value_of(call["indices"].list()->at(at))->tensor()->layout.sizes;
  bool fits = at + mask.size() <= self.size();
  for (size_t i = 0; fits && i < mask.size(); ++i)
    fits = taken_equal(call, mask[i], self[at + i]);
  if (!fits)
    call.fail("TSC-O043",
              call.node().target + ": a mask of sizes " + print_sizes(mask) + " at dimension " +
                  std::to_string(at) + " of " + print_sizes(self),
              "pass a mask of the sizes of the dimensions that it stands for");
  Sizes picked = self;
  picked.erase(picked.begin() + static_cast<ptrdiff_t>(at),
               picked.begin() + static_cast<ptrdiff_t>(at + mask.size()));
  const size_t behind = picked.size() - at;
  const Expr count = values.size() > behind ? values[values.size() - behind - 1] : Expr(1);
  picked.insert(picked.begin() + static_cast<ptrdiff_t>(at), count);
  const bool one_value = symbolic::numel(values).is_integer(1) && !call.boolean("accumulate");
  if (!one_value) // which PyTorch fills with, whatever its dimensions
    require_expandable(call, "values", values, picked);
}

/// self[mask] = values, where there is one of the values for each of the `count` places.
Argument put_at_places(GraphBuilder &builder, const Call &call, size_t at, Expr count) {
  const Argument mask = convert(builder, call["indices"].list()->at(at), DType::boolean);
  const Argument places = true_places(
      builder, builder.call("aten.reshape.default", {mask, Arguments{-1}}), count, true);
  Arguments indices(at, graph::None{});
  for (Argument &index : unflattened(builder, places, builder.meta(mask).layout.sizes))
    indices.push_back(std::move(index));
  return builder.call("aten.index_put.default",
                      {call["self"], indices, call["values"], call["accumulate"]});
}

/// self[mask] = values: where the mask holds, the values, which must not depend on how many places
/// that is, or else be one for each place of a whole tensor.
Argument masked_put(GraphBuilder &builder, const Call &call, size_t at) {
  const TensorMeta self = call.tensor("self"), values = call.tensor("values");
  Argument mask = call["indices"].list()->at(at);
  Sizes sizes = builder.meta(mask).layout.sizes;
  const size_t rank = self.layout.rank(), covered = sizes.size();
  const size_t behind = rank - std::min(rank, at + covered);
  Sizes shape = values.layout.sizes;
  if (symbolic::numel(shape).is_integer(1) && !call.boolean("accumulate"))
    shape.clear();
  const bool counted = shape.size() > behind && !shape[shape.size() - behind - 1].is_integer(1);
  if (counted) {
    if (covered != rank || shape.size() != 1 || call.boolean("accumulate"))
      return put_at_places(builder, call, at, shape[shape.size() - behind - 1]);
    const Argument picks = builder.call(
        "aten.sum.dim_IntList", {convert(builder, mask, DType::boolean), Arguments{}, false},
        {{"dtype", DType::i64}});
    assert_count(builder, picks, shape[0], "a mask picks as many elements as there are values");
    return builder.call("aten.masked_scatter.default", {call["self"], mask, call["values"]});
  }
  sizes.insert(sizes.end(), behind, Expr(1));
  mask = convert(builder, builder.call("aten.reshape.default", {mask, sizes_argument(sizes)}),
                 DType::boolean);
  if (shape.size() > behind) { // one dimension of size 1 stands for all that the mask covers
    const auto place = shape.end() - static_cast<ptrdiff_t>(behind) - 1;
    if (covered == 0)
      shape.erase(place);
    else
      shape.insert(place, covered - 1, Expr(1));
  }
  Argument source = builder.call("aten.reshape.default", {call["values"], sizes_argument(shape)});
  source = convert(builder, source, self.dtype);
  if (call.boolean("accumulate"))
    source = builder.call(kAdd, {call["self"], source});
  return builder.call(kWhere, {mask, source, call["self"]});
}

/// Whether a mask stands among the indices.
bool has_mask(const Call &call) {
  const Arguments *list = call["indices"].list();
  return list && std::any_of(list->begin(), list->end(), [&](const Argument &item) {
           const Value *value = call.value_of(item);
           return value && value->tensor() && is_mask(*value->tensor());
         });
}

/// self[.., mask, index, ..] = values: the places that a mask picks in the place of the mask. Where
/// nothing says how many these are, all places, and what the mask leaves out keeps what is there.
Argument put_beside_masks(GraphBuilder &builder, const Call &call) {
  const std::optional<Expr> count = picked_beside(call);
  Arguments indices;
  Argument kept; // the mask, where all places stand for it
  for (const Argument &item : *call["indices"].list()) {
    const Value *value = call.value_of(item);
    if (!value || !value->tensor() || !is_mask(*value->tensor())) {
      indices.push_back(item);
      continue;
    }
    const Sizes sizes = value->tensor()->layout.sizes;
    const Argument mask = builder.call("aten.reshape.default",
                                       {convert(builder, item, DType::boolean), Arguments{-1}});
    Argument places;
    if (count) {
      places = true_places(builder, mask, *count, true);
    } else {
      kept = mask;
      places = builder.call("aten.arange.default", {size_argument(symbolic::numel(sizes))},
                            {{"dtype", DType::i64}, {"device", value->tensor()->device}});
    }
    for (Argument &index : unflattened(builder, places, sizes))
      indices.push_back(std::move(index));
  }
  if (count)
    return builder.call("aten.index_put.default",
                        {call["self"], indices, call["values"], call["accumulate"]});
  const TensorMeta self = call.tensor("self");
  const Argument there = builder.call("aten.index.Tensor", {call["self"], indices});
  size_t first = indices.size(), last = 0, given = 0;
  for (size_t i = 0; i < indices.size(); ++i)
    if (indices[i].node()) {
      first = std::min(first, i);
      last = i;
      ++given;
    }
  const size_t before = last - first + 1 == given ? first : 0; // where the places stand
  Sizes sizes(builder.meta(there).layout.rank() - before, Expr(1));
  sizes[0] = builder.meta(kept).layout.sizes[0];
  const Argument holds = builder.call("aten.reshape.default", {kept, sizes_argument(sizes)});
  const bool adds = call.boolean("accumulate");
  const Argument values = convert(
      builder,
      builder.call(kWhere, {holds, convert(builder, call["values"], self.dtype),
                            adds ? builder.call("aten.zeros_like.default", {there}) : there}),
      self.dtype);
  return builder.call("aten.index_put.default",
                      {call["self"], indices, values, call["accumulate"]});
}

Argument index_put(GraphBuilder &builder, const Call &call) {
  const std::optional<size_t> mask = only_mask(call);
  if (!mask && has_mask(call))
    return put_beside_masks(builder, call);
  return mask ? masked_put(builder, call, *mask) : builder.keep(call);
}

/// Numbers among vectors count as vectors of one element: `target` of such, of the sizes of
/// `shaped`. None if there are none among them.
Argument of_vectors(GraphBuilder &builder, const Call &call, std::string_view shaped) {
  bool numbers = false, vectors = false;
  Arguments args;
  for (const Parameter &parameter : call.schema().parameters) {
    const TensorMeta *meta = call.optional_tensor(parameter.name);
    numbers = numbers || (meta && meta->layout.rank() == 0);
    vectors = vectors || (meta && meta->layout.rank() == 1);
    args.push_back(call[parameter.name]);
    if (meta && meta->layout.rank() == 0)
      args.back() = builder.call("aten.reshape.default", {args.back(), Arguments{1}});
  }
  if (!numbers || !vectors)
    return graph::None{};
  Keywords kwargs;
  for (size_t i = args.size(); i-- > 0 && call.schema().parameters[i].keyword_only;) {
    kwargs.emplace_back(call.schema().parameters[i].name, args.back());
    args.pop_back();
  }
  const Sizes sizes = call.tensor(shaped).layout.sizes;
  return builder.call("aten.reshape.default",
                      {builder.call(call.node().target, args, kwargs), sizes_argument(sizes)});
}

Decomposition vectors_or_kept(std::string_view shaped) {
  return [shaped](GraphBuilder &builder, const Call &call) {
    const Argument result = of_vectors(builder, call, shaped);
    return result.is_none() ? builder.keep(call) : result;
  };
}

void add_gathers(Table &table) {
  table
      .add("embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool "
           "scale_grad_by_freq=False, bool "
           "sparse=False) -> Tensor")
      .shape(embedding_value)
      .lowers("embedding");
  table.add("index.Tensor(Tensor self, Tensor?[] indices) -> Tensor")
      .shape(index_value)
      .decompose([](GraphBuilder &builder, const Call &call) {
        return masked_size(call) ? index_by_masks(builder, call) : builder.keep(call);
      })
      .lowers("index");
  table.add("_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return builder.call("aten.index.Tensor", {call["self"], call["indices"]});
      });
  table.add("gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor")
      .shape(gather_value)
      .decompose(vectors_or_kept("index"))
      .lowers("gather");
  table.add("index_select(Tensor self, int dim, Tensor index) -> Tensor").decompose(index_select);
  table.add("take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        if (call.has("dim")) { // any index counts, modulo the size
          const TensorMeta meta = call.tensor("self");
          const size_t dim = normalize_dim(call, call.integer("dim"), meta.layout.rank());
          const Expr size = meta.layout.rank() == 0 ? Expr(1) : meta.layout.sizes[dim];
          const auto d = static_cast<int64_t>(dim);
          Argument self = call["self"];
          Argument index =
              builder.call("aten.remainder.Scalar", {call["indices"], size_argument(size)});
          const TensorMeta indices = call.tensor("indices");
          if (meta.layout.rank() != indices.layout.rank())
            call.fail("TSC-O129",
                      call.node().target + ": indices " + print_sizes(indices.layout.sizes) +
                          " for " + print_sizes(meta.layout.sizes),
                      "pass indices with as many dimensions");
          if (meta.layout.rank() > 0) { // the other dimensions broadcast
            std::vector<Expr> one = meta.layout.sizes, other = indices.layout.sizes;
            one[dim] = other[dim] = Expr(1);
            std::vector<Expr> rows = broadcast(call, {one, other});
            rows[dim] = size;
            self = builder.call("aten.expand.default", {self, sizes_argument(rows)});
            rows[dim] = indices.layout.sizes[dim];
            index = builder.call("aten.expand.default", {index, sizes_argument(rows)});
          }
          return builder.call("aten.gather.default", {self, d, index});
        }
        Argument self = builder.call("aten.reshape.default", {call["self"], Arguments{-1}});
        Argument indices = builder.call("aten.reshape.default", {call["indices"], Arguments{-1}});
        return builder.call("aten.gather.default", {self, 0, indices});
      });
}

/// The old names of scatter_reduce's ways: "add" and "multiply".
Argument scatter_with_reduction(GraphBuilder &builder, const Call &call) {
  std::string reduce = call.string("reduce").value_or("");
  Argument source = call[call.schema().parameters[3].name];
  if (!source.node()) {
    const TensorMeta self = call.tensor("self"), index = call.tensor("index");
    source = builder.call("aten.full.default", {sizes_argument(index.layout.sizes), source},
                          {{"dtype", self.dtype}, {"device", self.device}});
  }
  if (reduce == "add")
    return builder.call("aten.scatter_add.default",
                        {call["self"], call["dim"], call["index"], source});
  if (reduce != "multiply")
    call.fail("TSC-O030", call.node().target + ": unknown reduction '" + reduce + "'",
              "use 'add' or 'multiply'");
  return builder.call("aten.scatter_reduce.two",
                      {call["self"], call["dim"], call["index"], source, "prod"});
}

/// What changes no other value under `reduce`; nothing for a `reduce` that is not known.
std::optional<Argument> neutral(const std::string &reduce, DType dtype) {
  if (reduce == "sum")
    return 0;
  if (reduce == "prod")
    return 1;
  if (reduce != "amax" && reduce != "amin")
    return std::nullopt;
  const bool largest = reduce == "amin";
  if (tensor::is_floating(dtype))
    return largest ? INFINITY : -INFINITY;
  if (dtype == DType::boolean || dtype == DType::u8)
    return largest ? (dtype == DType::u8 ? 255 : 1) : 0;
  const auto bits = static_cast<int>(8 * tensor::size_in_bytes(dtype));
  const int64_t most = std::numeric_limits<int64_t>::max() >> (64 - bits);
  return largest ? most : -most - 1;
}

/// What is scattered to counts alone: its places forget what they held.
Argument scatter_without_self(GraphBuilder &builder, const Call &call) {
  const std::string reduce = call.string("reduce").value_or("");
  const std::optional<Argument> nothing = neutral(reduce, call.tensor("self").dtype);
  if (!nothing)
    return builder.keep(call);
  const Argument emptied =
      builder.call("aten.scatter.value", {call["self"], call["dim"], call["index"], *nothing});
  return builder.call("aten.scatter_reduce.two",
                      {emptied, call["dim"], call["index"], call["src"], reduce});
}

/// Slices along `dim` of self at the places that `index` names, which do not count from the end;
/// numbers count as vectors of one.
Argument put_slices(GraphBuilder &builder, const Call &call, const Argument &source, bool add) {
  const TensorMeta self = call.tensor("self");
  const size_t dim = normalize_dim(call, call.integer("dim"), self.layout.rank());
  const auto vector = [&](const Argument &x) {
    return builder.meta(x).layout.rank() == 0
               ? builder.call("aten.reshape.default", {x, Arguments{1}})
               : x;
  };
  const Expr size = self.layout.rank() == 0 ? Expr(1) : self.layout.sizes[dim];
  const Argument index = checked_range(builder, vector(call["index"]), size);
  const Argument written = builder.call(
      "aten.index_put.default", {vector(call["self"]), index_at(index, dim), vector(source), add});
  return self.layout.rank() == 0 ? builder.call("aten.reshape.default", {written, Arguments{}})
                                 : written;
}

/// index_reduce hits whole slices: scatter_reduce with the index of each slice for all its
/// elements.
Argument index_reduce(GraphBuilder &builder, const Call &call) {
  const TensorMeta source = call.tensor("source");
  const size_t rank = source.layout.rank();
  const size_t dim = normalize_dim(call, call.integer("dim"), rank);
  Sizes column(rank, Expr(1));
  if (rank > 0)
    column[dim] = source.layout.sizes[dim];
  Argument index = builder.call("aten.reshape.default", {call["index"], sizes_argument(column)});
  index = builder.call("aten.expand.default", {index, sizes_argument(source.layout.sizes)});
  return builder.call("aten.scatter_reduce.two",
                      {call["self"], call["dim"], index, call["source"], call["reduce"]},
                      {{"include_self", call["include_self"]}});
}

void add_scatters(Table &table) {
  table
      .add_with_in_place("index_put(Tensor self, Tensor?[] indices, Tensor values, bool "
                         "accumulate=False) -> Tensor")
      .shape([](const Call &call) {
        if (tensor::is_complex(call.tensor("values").dtype) &&
            !tensor::is_complex(call.tensor("self").dtype))
          call.fail("TSC-O070",
                    call.node().target + ": complex values are not written to a real tensor",
                    "write their real or imaginary part");
        if (const std::optional<size_t> mask = only_mask(call))
          require_mask_fits(call, *mask);
        else
          require_expandable(call, "values", call.tensor("values").layout.sizes,
                             indexed_by(call, index_metas(call)).sizes);
        return like_clone(call);
      })
      .decompose(index_put)
      .lowers("index_put");
  const auto put = [](GraphBuilder &builder, const Call &call) {
    return builder.call("aten.index_put.default",
                        {call["self"], call["indices"], call["values"], call["accumulate"]});
  };
  table
      .add("_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool "
           "accumulate=False) -> Tensor")
      .decompose(put);
  table
      .add_with_in_place("_index_put_impl(Tensor self, Tensor?[] indices, Tensor values, bool "
                         "accumulate=False, bool unsafe=False) -> Tensor")
      .decompose(put);
  table.add_with_in_place("scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor")
      .shape(scatter_value)
      .decompose(vectors_or_kept("self"))
      .lowers("scatter");
  table
      .add_with_in_place(
          "scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor")
      .shape(scatter_value)
      .decompose(vectors_or_kept("self"))
      .lowers("scatter");
  table.add_with_in_place("scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor")
      .shape(scatter_value)
      .decompose(vectors_or_kept("self"))
      .lowers("scatter_add");
  table
      .add_with_in_place(
          "scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool "
          "include_self=True) -> Tensor")
      .shape(scatter_value)
      .decompose([](GraphBuilder &builder, const Call &call) {
        if (Argument result = of_vectors(builder, call, "self"); !result.is_none())
          return result;
        if (call.string("reduce").value_or("") != "mean")
          return call.boolean("include_self") ? builder.keep(call)
                                              : scatter_without_self(builder, call);
        return builder.call("tsc.scatter_mean.default", {call["self"], call["dim"], call["index"],
                                                         call["src"], call["include_self"]});
      })
      .lowers("scatter_reduce");
  for (std::string_view source : {"reduce(Tensor self, int dim, Tensor index, Tensor src",
                                  "value_reduce(Tensor self, int dim, Tensor index, Scalar value"})
    table
        .add_with_in_place(
            keep_text("scatter." + std::string(source) + ", *, str reduce) -> Tensor"))
        .decompose(scatter_with_reduction);
  table
      .add_with_in_place("index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar "
                         "alpha=1) -> Tensor")
      .decompose(contiguously([](GraphBuilder &builder, const Call &call) {
        Argument source = call["source"];
        if (call.number("alpha") != 1)
          source = builder.call(kMul, {source, call["alpha"]});
        return put_slices(builder, call, source, true);
      }));
  table
      .add_with_in_place("index_reduce(Tensor self, int dim, Tensor index, Tensor source, str "
                         "reduce, *, bool include_self=True) -> Tensor")
      .decompose(index_reduce);
  table.add_with_in_place("index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor")
      .decompose(contiguously([](GraphBuilder &builder, const Call &call) {
        return put_slices(builder, call, call["source"], false);
      }));
  table
      .add("embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, "
           "SymInt padding_idx, bool "
           "scale_grad_by_freq) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        const TensorMeta gradient = call.tensor("grad_output");
        const Expr columns = last_size(call, "grad_output");
        Argument source = call["grad_output"];
        if (call.boolean("scale_grad_by_freq")) { // by how often each row is asked for
          const Argument padding =
              builder.call("aten.eq.Tensor", {call["indices"], call["padding_idx"]});
          Argument rows = builder.call(kWhere, {padding, 0, call["indices"]});
          rows = checked_range(builder, rows, call.size("num_weights"));
          Argument none = builder.call("aten.full.default", {Arguments{call["num_weights"]}, 0},
                                       {{"dtype", DType::i64}, {"device", gradient.device}});
          Argument one =
              builder.call(kWhere, {padding, 0, builder.call("aten.full_like.default", {rows, 1})});
          Argument often =
              builder.call("aten.index_put.default", {none, Arguments{rows}, one, true});
          Argument counts = builder.call("aten.index.Tensor", {often, Arguments{rows}});
          counts = builder.call("aten.clamp_min.default", {counts, 1}); // of padding
          // Its leading dimensions may be other ones than the indices' of as many elements.
          Sizes sizes = call.tensor("indices").layout.sizes;
          sizes.push_back(columns);
          source =
              builder.call("aten.reshape.default", {widen(builder, source), sizes_argument(sizes)});
          source =
              builder.call(kDiv, {source, builder.call("aten.unsqueeze.default", {counts, -1})});
        }
        return builder.call("tsc.sum_at.default",
                            {source, call["indices"], call["num_weights"], call["padding_idx"]},
                            {{"dtype", gradient.dtype}});
      });
}

void add_region_scatters(Table &table) {
  table
      .add("slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? "
           "end=None, SymInt step=1) -> "
           "Tensor")
      .shape([](const Call &call) {
        Sizes region = call.tensor("self").layout.sizes;
        const SliceBounds bounds = slice_bounds(call, region);
        region[bounds.dim] = bounds.length;
        require_sizes(call, "src", region);
        return like_clone(call);
      })
      .lowers("slice_scatter");
  table.add("select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor")
      .shape([](const Call &call) {
        normalize_dim(call, call.integer("dim"), call.tensor("self").layout.rank());
        return like_clone(call);
      })
      .lowers("select_scatter");
}

} // namespace

void add_indexing(Table &table) {
  add_gathers(table);
  add_scatters(table);
  add_region_scatters(table);
}

} // namespace tsc::ops
