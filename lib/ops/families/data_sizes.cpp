// What is picked, and how much of it, is up to the data: nonzero and its kin, masks as indices,
// counts. A place is found from where it goes: the k-th element that a mask picks is where the
// running count of the mask reaches k + 1, so that nothing is scattered and every loop is over the
// size itself.
#include "ops/families/data_sizes.h"

#include "graph/data_symbols.h"
#include "graph/indicators.h"
#include "ops/families/assertions.h"
#include "ops/families/checks.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <algorithm>

namespace tsc::ops {

namespace {

using Sizes = std::vector<Expr>;

bool is_one_of(const Node &node, std::initializer_list<std::string_view> names) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
    return node.target.substr(0, node.target.rfind('.')) == name || node.target == name;
  });
}

const TensorMeta *meta_of(const Graph &graph, const Argument &argument) {
  const graph::NodeRef *node = argument.node();
  return node && graph.node(node->id).value ? graph.node(node->id).value->tensor() : nullptr;
}
const Argument *argument_of(const Node &node, size_t position, std::string_view name) {
  if (position < node.args.size())
    return &node.args[position];
  for (const auto &[keyword, argument] : node.kwargs)
    if (keyword == name)
      return &argument;
  return nullptr;
}
std::optional<int64_t> integer_of(const Node &node, size_t position, std::string_view name) {
  const Argument *argument = argument_of(node, position, name);
  const auto *number = argument ? std::get_if<int64_t>(&argument->value) : nullptr;
  return number ? std::optional(*number) : std::nullopt;
}
bool is_given(const Node &node, size_t position, std::string_view name) {
  const Argument *argument = argument_of(node, position, name);
  return argument && !argument->is_none();
}
bool is_mask(const TensorMeta &meta) {
  return meta.dtype == DType::boolean || meta.dtype == DType::u8;
}

/// Of x[mask]: the last dimension of what the indices broadcast to, where there is a mask.
std::optional<size_t> masked_dimension(const Graph &graph, const Node &node) {
  const Argument *indices = argument_of(node, 1, "indices");
  if (!indices || !indices->list())
    return std::nullopt;
  size_t dim = 0, first = SIZE_MAX, rank = 0, runs = 0;
  bool any_mask = false, in_run = false;
  for (const Argument &index : *indices->list()) {
    const TensorMeta *meta = meta_of(graph, index);
    if (!meta) {
      in_run = false;
      ++dim;
      continue;
    }
    runs += !in_run;
    in_run = true;
    first = std::min(first, dim);
    any_mask = any_mask || is_mask(*meta);
    rank = std::max(rank, is_mask(*meta) ? size_t{1} : meta->layout.rank());
    dim += is_mask(*meta) ? meta->layout.rank() : 1;
  }
  if (!any_mask)
    return std::nullopt;
  return (runs > 1 ? 0 : first) + rank - 1;
}

std::vector<DataSize> of_each_result(const Node &node) {
  std::vector<DataSize> places;
  const Value::List *list = node.value->list();
  for (size_t i = 0; list && i < list->size(); ++i)
    places.push_back({i, 0});
  return places;
}

/// Of results that may as well be padded: the file says that the data decides this size.
bool is_recorded_as_of_data(const Node &node, DataSize place) {
  const Value::List *list = node.value->list();
  const TensorMeta *meta =
      list && place.result < list->size() ? (*list)[place.result].tensor() : nullptr;
  return meta && place.dim < meta->layout.rank() &&
         graph::depends_on_data(meta->layout.sizes[place.dim]);
}

std::vector<DataSize> candidates(const Graph &graph, const Node &node) {
  if (node.target == "aten.nonzero_numpy.default" || node.target == "aten.where.default")
    return of_each_result(node);
  if (is_one_of(node, {"aten.nonzero", "aten.argwhere", "aten.masked_select", "aten.bincount"}))
    return {{0, 0}};
  if (node.target == "aten.repeat_interleave.Tensor" && !is_given(node, 1, "output_size"))
    return {{0, 0}};
  if (node.target == "aten._ctc_loss.Tensor" && is_recorded_as_of_data(node, {1, 2}))
    return {{1, 2}};
  const TensorMeta *self = node.args.empty() ? nullptr : meta_of(graph, node.args[0]);
  const auto dim_of = [&](size_t position) -> size_t {
    const std::optional<int64_t> dim = integer_of(node, position, "dim");
    if (!dim || !self)
      return 0;
    return static_cast<size_t>(*dim < 0 ? *dim + static_cast<int64_t>(self->layout.rank()) : *dim);
  };
  if (node.target == "aten.repeat_interleave.self_Tensor" && !is_given(node, 3, "output_size"))
    return {{0, dim_of(2)}};
  const auto asks = [&](size_t position, std::string_view name) {
    const Argument *flag = argument_of(node, position, name);
    const auto *truth = flag ? std::get_if<bool>(&flag->value) : nullptr;
    return truth && *truth;
  };
  std::vector<DataSize> places;
  if (is_one_of(node, {"aten._unique", "aten._unique2"})) {
    places = {{0, 0}};
    if (asks(3, "return_counts"))
      places.push_back({2, 0});
  } else if (is_one_of(node, {"aten.unique_dim"})) {
    places = {{0, dim_of(1)}, {2, 0}};
  } else if (is_one_of(node, {"aten.unique_consecutive"})) {
    places = {{0, dim_of(3)}};
    if (asks(2, "return_counts") || is_given(node, 3, "dim"))
      places.push_back({2, 0});
  } else if (is_one_of(node, {"aten.index", "aten._unsafe_index"})) {
    if (const std::optional<size_t> dim = masked_dimension(graph, node))
      places = {{0, *dim}};
  }
  return places;
}

} // namespace

std::vector<DataSize> data_sizes_of(const Graph &graph, const Node &node) {
  if (!node.value)
    return {};
  std::vector<DataSize> places = candidates(graph, node);
  for (const DataSize &place : places) {
    const Value::List *list = node.value->list();
    const Value *value =
        list ? (place.result < list->size() ? &(*list)[place.result] : nullptr) : &*node.value;
    if (!value || !value->tensor() || place.dim >= value->tensor()->layout.rank())
      return {};
  }
  return places;
}

Expr data_size(const Call &call, size_t result, size_t dim) {
  const Value *value = call.node().value ? &*call.node().value : nullptr;
  if (value && value->list())
    value = result < value->list()->size() ? &(*value->list())[result] : nullptr;
  const TensorMeta *meta = value ? value->tensor() : nullptr;
  if (!meta || dim >= meta->layout.rank() || !meta->layout.sizes[dim].is_symbol())
    call.refuse("TSC-O004",
                call.node().target + ": the result's size depends on data, and its val does not "
                                     "name it",
                "export the graph with torch.export, which names the size u0");
  return meta->layout.sizes[dim];
}

void define_size(GraphBuilder &builder, const Argument &count, Expr symbol,
                 std::optional<Expr> bound) {
  Arguments args = {convert(builder, count, DType::i64), symbol};
  if (bound)
    args.push_back(size_argument(*bound));
  builder.emit(kDefine, std::move(args));
}

void assert_count(GraphBuilder &builder, const Argument &count, Expr size, std::string message) {
  const Argument expected =
      builder.call("aten.full.default", {Arguments{}, size_argument(size)},
                   {{"dtype", DType::i64}, {"device", builder.meta(count).device}});
  assert_condition(builder,
                   builder.call("aten.eq.Tensor", {convert(builder, count, DType::i64), expected}),
                   std::move(message));
}

namespace {

Argument flat(GraphBuilder &builder, const Argument &x) {
  return builder.call("aten.reshape.default", {x, Arguments{-1}});
}
Argument numbers_to(GraphBuilder &builder, Expr count, tensor::Device device) {
  return builder.call("aten.arange.start_step", {0, size_argument(count), 1},
                      {{"dtype", DType::i64}, {"device", device}});
}
/// The running count of `mask`, or sum of integers: int64.
Argument running(GraphBuilder &builder, const Argument &x) {
  return builder.call("aten.cumsum.default", {x, 0}, {{"dtype", DType::i64}});
}
Argument total(GraphBuilder &builder, const Argument &x) {
  return builder.call("aten.sum.dim_IntList", {x, Arguments{}, false}, {{"dtype", DType::i64}});
}
/// Element k: how many of `sums`, which do not fall, are at most k.
Argument places_in(GraphBuilder &builder, const Argument &sums, Expr count) {
  const Argument numbers = numbers_to(builder, count, builder.meta(sums).device);
  return builder.call("aten.searchsorted.Tensor", {sums, numbers}, {{"right", true}});
}
Argument picked(GraphBuilder &builder, const Argument &x, const Argument &places) {
  return builder.call("aten.index.Tensor", {x, Arguments{places}});
}
Argument truths(GraphBuilder &builder, const Argument &x) {
  if (builder.meta(x).dtype == DType::boolean)
    return x;
  return builder.call("aten.ne.Scalar", {x, 0});
}

} // namespace

Argument true_places(GraphBuilder &builder, const Argument &mask, Expr count, bool is_known) {
  const Expr length = builder.meta(mask).layout.sizes.at(0);
  if (is_known)
    assert_count(builder, total(builder, mask), count,
                 "a mask picks as many elements as there are values");
  else
    define_size(builder, total(builder, mask), count, length);
  return places_in(builder, running(builder, mask), count);
}

Arguments unflattened(GraphBuilder &builder, const Argument &positions, const Sizes &sizes) {
  Arguments indices(sizes.size());
  Argument rest = positions;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    if (dim == 0) {
      indices[0] = rest;
      break;
    }
    const Argument size = size_argument(symbolic::maximum(sizes[dim], 1)); // of an empty tensor
    indices[dim] = builder.call("aten.remainder.Scalar", {rest, size});
    rest = builder.call("aten.div.Tensor_mode", {rest, size}, {{"rounding_mode", "floor"}});
  }
  return indices;
}

namespace {

/// The indices of the elements of self that are not zero, one [count] a dimension.
Arguments nonzero_indices(GraphBuilder &builder, const Argument &self, Expr count) {
  const Sizes sizes = builder.meta(self).layout.sizes;
  const Argument places = true_places(builder, flat(builder, truths(builder, self)), count);
  return unflattened(builder, places, sizes);
}

/// [count, rank], stored by columns as PyTorch stores it.
Argument nonzero(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const Expr count = data_size(call, 0, 0);
  const Arguments indices = nonzero_indices(builder, call["self"], count);
  if (indices.empty())
    return builder.call("aten.empty.memory_format", {Arguments{size_argument(count), 0}},
                        {{"dtype", DType::i64}, {"device", self.device}});
  const Argument rows = builder.call("aten.stack.default", {indices, 0});
  return builder.call("aten.permute.default", {rows, Arguments{1, 0}});
}

/// As nonzero; a number counts as a vector of one.
Argument nonzero_numpy(GraphBuilder &builder, const Call &call, std::string_view name) {
  Argument self = call[name];
  if (builder.meta(self).layout.rank() == 0)
    self = builder.call("aten.unsqueeze.default", {self, 0});
  return nonzero_indices(builder, self, data_size(call, 0, 0));
}

Argument masked_select(GraphBuilder &builder, const Call &call) {
  const Sizes sizes =
      broadcast(call, {call.tensor("self").layout.sizes, call.tensor("mask").layout.sizes});
  const auto spread = [&](std::string_view name) {
    return flat(builder, builder.call("aten.expand.default", {call[name], sizes_argument(sizes)}));
  };
  const Argument places =
      true_places(builder, truths(builder, spread("mask")), data_size(call, 0, 0));
  return picked(builder, spread("self"), places);
}

/// How often each of [0, count) occurs, or the sum of its weights.
Argument bincount(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  std::optional<TensorMeta> weights; // by value: the graph grows
  if (call.has("weights"))
    weights = call.tensor("weights");
  if (self.layout.rank() != 1 || !tensor::is_integral(self.dtype, false))
    call.fail("TSC-O043", call.node().target + " takes integers of one dimension",
              "flatten the tensor");
  if (weights && (weights->layout.rank() != 1 ||
                  !taken_equal(call, weights->layout.sizes[0], self.layout.sizes[0])))
    call.fail("TSC-O043", call.node().target + ": weights that are not one an element",
              "pass weights of the sizes of self");
  const Expr count = data_size(call, 0, 0), least = call.size("minlength");
  const Argument values = convert(builder, call["self"], DType::i64);
  // One more than the largest, 0 of none.
  const Argument behind = builder.call(
      "aten.amax.default", {builder.call("aten.constant_pad_nd.default",
                                         {builder.call(kAdd, {values, 1}), Arguments{0, 1}, 0}),
                            Arguments{0}, false});
  define_size(builder, builder.call("aten.maximum.default", {behind, size_argument(least)}), count,
              std::nullopt);
  const DType dtype = !weights                       ? DType::i64
                      : weights->dtype == DType::f32 ? DType::f32
                                                     : DType::f64;
  const Argument zeros = builder.call("aten.full.default", {Arguments{size_argument(count)}, 0},
                                      {{"dtype", dtype}, {"device", self.device}});
  const Argument each =
      weights ? convert(builder, call["weights"], dtype)
              : builder.call("aten.full.default", {sizes_argument(self.layout.sizes), 1},
                             {{"dtype", dtype}, {"device", self.device}});
  const Argument places = checked_range(builder, values, count, "value");
  return builder.call("aten.index_put.default", {zeros, Arguments{places}, each, true});
}

/// Element k of the result is element place(k) of what is repeated.
Argument repeated_places(GraphBuilder &builder, const Call &call, const Argument &repeats,
                         Expr count, bool is_known) {
  const TensorMeta meta = builder.meta(repeats);
  if (meta.dtype != DType::i64 && meta.dtype != DType::i32)
    call.fail("TSC-O043",
              call.node().target + ": repeats of " + std::string(tensor::torch_name(meta.dtype)),
              "convert them to int64");
  const Argument times =
      checked_with(builder, repeats, Expr(INT64_MAX), "repeats {value} of {subject} is negative");
  const Argument sum = total(builder, times);
  if (is_known)
    assert_count(builder, sum, count, "repeats that make output_size in all");
  else
    define_size(builder, sum, count, std::nullopt);
  const Argument places = places_in(builder, running(builder, times), count);
  return places;
}

Argument repeat_interleave_places(GraphBuilder &builder, const Call &call) {
  if (call.tensor("repeats").layout.rank() != 1)
    call.fail("TSC-O043", call.node().target + " takes repeats of one dimension",
              "flatten the repeats");
  const bool is_known = call.has("output_size");
  const Argument places =
      repeated_places(builder, call, call["repeats"],
                      is_known ? call.size("output_size") : data_size(call, 0, 0), is_known);
  return convert(builder, places, call.tensor("repeats").dtype);
}

Argument repeat_interleave(GraphBuilder &builder, const Call &call) {
  Argument self = call["self"], repeats = call["repeats"];
  size_t dim = 0;
  if (call.has("dim"))
    dim = normalize_dim(call, call.integer("dim"), call.tensor("self").layout.rank());
  else
    self = flat(builder, self);
  if (builder.meta(self).layout.rank() == 0)
    self = flat(builder, self);
  const Expr size = builder.meta(self).layout.sizes[dim];
  if (builder.meta(repeats).layout.rank() == 0)
    repeats = builder.call("aten.unsqueeze.default", {repeats, 0});
  const Sizes times = builder.meta(repeats).layout.sizes;
  if (times.size() != 1 || (!times[0].is_integer(1) && !taken_equal(call, times[0], size)))
    call.fail("TSC-O043",
              call.node().target + ": repeats of sizes " + print_sizes(times) + " for a size of " +
                  symbolic::print(size),
              "pass one number, or one an element of the dimension");
  if (times[0].is_integer(1))
    repeats = builder.call("aten.expand.default", {repeats, sizes_argument({size})});
  const bool is_known = call.has("output_size");
  const Argument places =
      repeated_places(builder, call, repeats,
                      is_known ? call.size("output_size") : data_size(call, 0, dim), is_known);
  return builder.call("aten.index_select.default", {self, static_cast<int64_t>(dim), places});
}

} // namespace

Argument index_by_masks(GraphBuilder &builder, const Call &call) {
  Arguments indices;
  bool is_known = false; // as many as the first mask picks
  for (const Argument &index : *call["indices"].list()) {
    const Value *value = call.value_of(index);
    if (!value || !value->tensor() || !is_mask(*value->tensor())) {
      indices.push_back(index);
      continue;
    }
    const Sizes sizes = value->tensor()->layout.sizes; // by value: the graph grows
    const Argument places =
        true_places(builder, flat(builder, truths(builder, index)), *masked_size(call), is_known);
    for (Argument &one : unflattened(builder, places, sizes))
      indices.push_back(std::move(one));
    is_known = true;
  }
  return builder.call("aten.index.Tensor", {call["self"], indices});
}

std::optional<Expr> masked_size(const Call &call) {
  const std::optional<size_t> dim = masked_dimension(call.graph(), call.node());
  return dim ? std::optional(data_size(call, 0, *dim)) : std::nullopt;
}

void add_data_sizes(Table &table) {
  for (std::string_view name : {"nonzero", "argwhere"})
    table.add(keep_text(std::string(name) + "(Tensor self) -> Tensor")).decompose(nonzero);
  table.add("nonzero_numpy(Tensor self) -> Tensor[]")
      .decompose([](GraphBuilder &builder, const Call &call) -> Argument {
        return nonzero_numpy(builder, call, "self");
      });
  table.add("where(Tensor condition) -> Tensor[]")
      .decompose([](GraphBuilder &builder, const Call &call) -> Argument {
        return nonzero_numpy(builder, call, "condition");
      });
  table.add("masked_select(Tensor self, Tensor mask) -> Tensor").decompose(masked_select);
  table.add("bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor")
      .decompose(bincount);
  table.add("repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor")
      .decompose(repeat_interleave_places);
  table
      .add("repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? "
           "output_size=None) -> Tensor")
      .decompose(repeat_interleave);
}

} // namespace tsc::ops
