// Looking values up among others: searchsorted by halving, isin and one_hot by comparing with all
// of them, and counts.
#include "ops/families/checks.h"
#include "ops/table/memory_format.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <variant>

namespace tsc::ops {
namespace {

/// The steps of a binary search in `length` elements: each halves what is left.
int64_t search_steps(Expr length, const symbolic::Ranges &ranges) {
  constexpr int64_t kMost = 40; // no memory holds more elements than 2^40
  const int64_t longest = symbolic::bounds(length, ranges).high;
  int64_t steps = 0;
  while (steps < kMost && (longest >> steps) > 0)
    ++steps;
  return steps;
}

/// Where `values` go into `sorted`: before elements that are equal, or behind them with `right`.
/// PyTorch's own binary search, step by step, so that rows which are not in order, or hold NaN,
/// give its numbers: a comparison with NaN goes right. With `nan_last` NaN is behind all numbers,
/// where sorting puts it. `sorted` is one sequence, or as many as `values` has rows in its last
/// dimension. Places are counted in 32 bits where that is enough.
Argument insertion_points(GraphBuilder &builder, const Argument &sorted, const Argument &values,
                          bool right, bool as_int32, bool nan_last = false) {
  const TensorMeta sequence = builder.meta(sorted), sought = builder.meta(values);
  const Expr length = sequence.layout.sizes.back();
  const bool is_short = symbolic::bounds(length, builder.ranges()).high < (int64_t{1} << 30);
  const DType counter = is_short ? DType::i32 : DType::i64;
  const auto filled = [&](const Argument &number) {
    return builder.call("aten.full.default", {sizes_argument(sought.layout.sizes), number},
                        {{"dtype", counter}, {"device", sought.device}});
  };
  Argument first = filled(0),
           left = filled(size_argument(length)); // so many are left from there on
  Argument elements = sorted;
  if (!symbolic::known_less_equal(Expr(1), length, builder.ranges())) // one there always is
    elements = builder.call("aten.constant_pad_nd.default", {sorted, Arguments{0, 1}, 0});
  const Expr end = builder.meta(elements).layout.sizes.back() - Expr(1);
  const int64_t steps = search_steps(length, builder.ranges());
  for (int64_t step = steps; step > 0; --step) {
    const Argument half = builder.call("aten.bitwise_right_shift.Tensor_Scalar", {left, 1});
    const Argument middle = builder.call(kAdd, {first, half});
    Argument inside =
        builder.call("aten.clamp.default", {middle, 0, size_argument(end)}); // where all is found
    if (sequence.layout.rank() != 1)
      inside = convert(builder, inside, DType::i64);
    const Argument element = sequence.layout.rank() == 1
                                 ? builder.call("aten.index.Tensor", {elements, Arguments{inside}})
                                 : builder.call("aten.gather.default", {elements, -1, inside});
    Argument moves;
    if (nan_last)
      moves = builder.call(right ? "aten.le.Tensor" : "aten.lt.Tensor", {element, values});
    else
      moves = builder.call(
          "aten.logical_not.default",
          {builder.call(right ? "aten.gt.Tensor" : "aten.ge.Tensor", {element, values})});
    if (step != steps || !symbolic::known_less_equal(Expr(1), length, builder.ranges())) {
      const Argument some = builder.call("aten.gt.Scalar", {left, 0});
      moves = builder.call("aten.logical_and.default", {moves, some});
    }
    const Argument behind = builder.call(kAdd, {middle, 1});
    first = builder.call(kWhere, {moves, behind, first});
    if (step == 1)
      break;
    const Argument after = builder.call(kSub, {left, builder.call(kAdd, {half, 1})});
    left = builder.call(kWhere, {moves, after, half});
  }
  return convert(builder, first, as_int32 ? DType::i32 : DType::i64);
}

Argument value_tensor(GraphBuilder &builder, const Call &call, const TensorMeta &like) {
  if (call.optional_tensor("self"))
    return call["self"];
  const bool is_real = std::holds_alternative<double>(call["self"].value);
  const DType dtype = is_real ? to_floating(like.dtype) : like.dtype; // 2.5 among integers
  return builder.call("aten.full.default", {Arguments{}, call["self"]},
                      {{"dtype", dtype}, {"device", like.device}});
}

Argument searchsorted(GraphBuilder &builder, const Call &call) {
  const TensorMeta sequence = call.tensor("sorted_sequence");
  bool right = call.boolean("right");
  if (std::optional<std::string> side = call.string("side")) {
    if (*side != "left" && *side != "right")
      call.fail("TSC-O030", call.node().target + ": unknown side '" + *side + "'",
                "use 'left' or 'right'");
    right = *side == "right";
  }
  Argument sorted = call["sorted_sequence"];
  if (call.has("sorter"))
    sorted = builder.call("aten.gather.default", {sorted, -1, call["sorter"]});
  return insertion_points(builder, sorted, value_tensor(builder, call, sequence), right,
                          call.boolean("out_int32"));
}

Argument bucketize(GraphBuilder &builder, const Call &call) {
  const Argument values = value_tensor(builder, call, call.tensor("boundaries"));
  return insertion_points(builder, call["boundaries"], values, call.boolean("right"),
                          call.boolean("out_int32"));
}

/// Whether `values` are among `candidates`, of one dtype: each is looked up where it would stand.
Argument is_among_sorted(GraphBuilder &builder, const Argument &values,
                         const Argument &candidates) {
  const Argument sorted =
      builder.item(builder.call("aten.sort.default", {candidates, 0, false}), 0);
  const Expr last = builder.meta(sorted).layout.sizes[0] - Expr(1);
  const Argument place = insertion_points(builder, sorted, values, false, true, true);
  const Argument inside = builder.call("aten.clamp.default", {place, 0, size_argument(last)});
  const Argument there = builder.call("aten.index.Tensor", {sorted, Arguments{inside}});
  return builder.call("aten.eq.Tensor", {there, values});
}

/// Whether sorting the candidates pays: each element is compared with all of them otherwise.
bool pays_to_sort(GraphBuilder &builder, const TensorMeta &values, const TensorMeta &candidates) {
  constexpr int64_t kFew = 64, kCompared = int64_t{1} << 24;
  const auto count = symbolic::bounds(symbolic::numel(candidates.layout.sizes), builder.ranges());
  const auto elements = symbolic::bounds(symbolic::numel(values.layout.sizes), builder.ranges());
  return count.low >= 1 && count.high > kFew && count.high < (int64_t{1} << 30) &&
         elements.high > kCompared / count.high;
}

Argument is_in(GraphBuilder &builder, const Call &call) {
  std::string_view elements = call.schema().parameters[0].name,
                   candidates = call.schema().parameters[1].name;
  Argument found;
  const TensorMeta *values_meta = call.optional_tensor(elements),
                   *candidates_meta = call.optional_tensor(candidates);
  if (values_meta != nullptr && candidates_meta != nullptr &&
      pays_to_sort(builder, *values_meta, *candidates_meta)) {
    const DType dtype = promote_operands(elementwise_operands(call, {elements, candidates}));
    const Argument all = builder.call("aten.reshape.default", {call[candidates], Arguments{-1}});
    found = is_among_sorted(builder, convert(builder, call[elements], dtype),
                            convert(builder, all, dtype));
  } else if (candidates_meta == nullptr) {
    found = builder.call("aten.eq.Tensor", {call[elements], call[candidates]});
  } else {
    Argument values = call[elements];
    if (call.optional_tensor(elements))
      values = builder.call("aten.unsqueeze.default", {values, -1});
    Argument all = builder.call("aten.reshape.default", {call[candidates], Arguments{-1}});
    Argument equal = builder.call("aten.eq.Tensor", {all, values});
    found = builder.call("aten.any.dim", {equal, -1, false});
  }
  return call.boolean("invert") ? builder.call("aten.logical_not.default", {found}) : found;
}

Argument one_hot(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  Expr classes = call.size("num_classes");
  if (classes.is_integer() && classes.value() < 0)
    call.refuse("TSC-O004",
                call.node().target + " without num_classes: the result's size depends on data",
                "pass num_classes");
  Argument own = checked_range(builder, call["self"], classes, "class");
  Argument column = builder.call("aten.unsqueeze.default", {own, -1});
  Argument numbers = builder.call("aten.arange.default", {size_argument(classes)},
                                  {{"dtype", DType::i64}, {"device", self.device}});
  return convert(builder, builder.call("aten.eq.Tensor", {column, numbers}), DType::i64);
}

Argument dims_of(const Call &call) {
  if (!call.has("dim"))
    return Arguments{};
  return call["dim"].list() ? call["dim"] : Arguments{call["dim"]};
}

Argument count_nonzero(GraphBuilder &builder, const Call &call) {
  Argument nonzero = builder.call("aten.ne.Tensor", {call["self"], 0});
  return builder.call("aten.sum.dim_IntList", {nonzero, dims_of(call), false});
}

/// The sum of what is not NaN.
Argument nan_sum(GraphBuilder &builder, const Call &call) {
  Keywords dtype;
  if (call.has("dtype"))
    dtype.emplace_back("dtype", call["dtype"]);
  Argument x = call["self"];
  if (tensor::is_floating(call.tensor("self").dtype)) {
    Argument invalid = builder.call("aten.isnan.default", {x});
    x = builder.call(kWhere, {invalid, 0.0, x});
  }
  return builder.call("aten.sum.dim_IntList", {x, dims_of(call), call["keepdim"]}, dtype);
}

Argument nan_mean(GraphBuilder &builder, const Call &call) {
  DType dtype = call.dtype("dtype").value_or(call.tensor("self").dtype);
  Argument x = widen(builder, convert(builder, call["self"], dtype));
  Argument invalid = builder.call("aten.isnan.default", {x});
  Argument valid = builder.call("aten.logical_not.default", {invalid});
  Argument count = builder.call("aten.sum.dim_IntList", {valid, dims_of(call), call["keepdim"]});
  Argument numbers = builder.call(kWhere, {invalid, 0.0, x});
  Argument sum = builder.call("aten.sum.dim_IntList", {numbers, dims_of(call), call["keepdim"]});
  return convert(builder, builder.call(kDiv, {sum, count}), dtype);
}

/// Sums what was broadcast: the inverse of expand.
Argument sum_to_size(GraphBuilder &builder, const Call &call) {
  std::vector<Expr> from = call.tensor("self").layout.sizes, to = call.sizes("size");
  if (to.size() > from.size())
    call.fail("TSC-O022",
              call.node().target + ": sizes " + print_sizes(to) + " do not hold the sums of " +
                  print_sizes(from),
              "choose sizes that broadcast to the tensor's");
  size_t lead = from.size() - to.size();
  std::vector<size_t> dims, dropped;
  for (size_t i = 0; i < from.size(); ++i) {
    if (i < lead)
      dropped.push_back(i);
    if (i < lead || (to[i - lead].is_integer(1) && !from[i].is_integer(1)))
      dims.push_back(i);
  }
  Argument x = call["self"];
  if (!dims.empty())
    x = builder.call("aten.sum.dim_IntList", {x, ints_argument(dims), true});
  if (!dropped.empty())
    x = builder.call("aten.squeeze.dims", {x, ints_argument(dropped)});
  return x;
}

} // namespace

void add_searches(Table &table) {
  for (std::string_view self : {"Tensor", "Scalar"}) {
    std::string type(self);
    table
        .add(keep_text("searchsorted." + type + "(Tensor sorted_sequence, " + type +
                       " self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? "
                       "sorter=None) -> Tensor"))
        .decompose(searchsorted);
    table
        .add(keep_text("bucketize." + type + "(" + type +
                       " self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> "
                       "Tensor"))
        .decompose(bucketize);
  }
  for (std::string_view form : {"Tensor_Tensor(Tensor elements, Tensor test_elements",
                                "Tensor_Scalar(Tensor elements, Scalar test_element",
                                "Scalar_Tensor(Scalar element, Tensor test_elements"})
    table
        .add(keep_text("isin." + std::string(form) +
                       ", *, bool assume_unique=False, bool invert=False) -> Tensor"))
        .decompose(is_in);
  table.add("one_hot(Tensor self, int num_classes=-1) -> Tensor").decompose(contiguously(one_hot));
  table.add("count_nonzero(Tensor self, int? dim=None) -> Tensor").decompose(count_nonzero);
  table.add("count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor").decompose(count_nonzero);
  for (bool mean : {false, true})
    table
        .add(keep_text(std::string(mean ? "nanmean" : "nansum") +
                       "(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? "
                       "dtype=None) -> Tensor"))
        .decompose(mean ? nan_mean : nan_sum);
  table.add("sum_to_size(Tensor self, SymInt[] size) -> Tensor")
      .effect(Effect::view) // where it has these sizes
      .decompose(sum_to_size);
}

} // namespace tsc::ops
