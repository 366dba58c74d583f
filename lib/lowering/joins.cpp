// Operators whose result takes each element from one of several places: masked regions.
#include "graph/data_symbols.h"
#include "lowering/build.h"
#include "lowering/concatenation.h"
#include "lowering/data_numbers.h"
#include "lowering/in_place.h"
#include "lowering/realize.h"
#include "lowering/registry.h"
#include "lowering/views.h"
#include "ops/families/slice_bounds.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace tsc::lowering {

namespace {

/// index_expr `op` bound, over `sizes`.
Operand compare_index(Context &context, Op op, Expr index, Expr bound,
                      std::span<const Expr> sizes) {
  const Operand left = index_operand(context, index, DType::i64, sizes);
  const Operand right = index_operand(context, bound, DType::i64, sizes);
  return elementwise_operand(context, op, DType::boolean, sizes, {left, right});
}

Operand both(Context &context, const std::optional<Operand> &first, const Operand &second,
             std::span<const Expr> sizes) {
  return first ? elementwise_operand(context, Op::logical_and, DType::boolean, sizes,
                                     {*first, second})
               : second;
}

/// What a place along `dimension` counts in elements of rows that no access of 16 bytes divides,
/// where all tensors lie in memory without gaps from there on: planes of 21 x 21, say. Asked for
/// that, masks hold for whole stretches of memory, and loops over it become one. 1 elsewhere.
Expr elements_behind(Context &context, const std::vector<TensorValue> &tensors, size_t dimension) {
  constexpr int64_t kVector = 16; // bytes
  if (context.policy.concatenation != target::Concatenation::fewest_launches)
    return 1;
  Expr behind = 1;
  for (size_t k = dimension + 1; k < tensors[0].sizes.size(); ++k)
    behind = behind * tensors[0].sizes[k];
  const auto bytes = static_cast<int64_t>(tensor::size_in_bytes(tensors[0].dtype));
  if (!behind.is_integer() || behind.value() * bytes % kVector == 0)
    return 1;
  for (const TensorValue &tensor : tensors) {
    const auto view = tensor.storage->realized() ? strided_view(context, tensor) : std::nullopt;
    if (!view)
      return 1;
    Expr stride = 1;
    for (size_t k = tensor.sizes.size(); k-- > dimension; stride = stride * tensor.sizes[k])
      if (!tensor.sizes[k].is_integer(1) && view->layout.strides[k] != stride)
        return 1;
  }
  return behind;
}

/// First inputs win: where(mask 0, input 0, where(mask 1, input 1, ... input n - 1)).
NodeValue cat(Context &context, const ops::Call &call) {
  const graph::TensorMeta &result = result_meta(context);
  const std::vector<Expr> &sizes = result.layout.sizes;
  const size_t dimension = dimension_argument(call, "dim", sizes.size());
  std::vector<TensorValue> tensors;
  for (const TensorValue &tensor : tensor_arguments(context, call, "tensors")) {
    for (size_t k = 0; k < sizes.size(); ++k)
      if (k != dimension)
        assume_equal(context, tensor.sizes[k], sizes[k]);
    if (!tensor.sizes[dimension].is_integer(0))
      tensors.push_back(convert(context, tensor, result.dtype));
  }
  if (tensors.empty()) { // nobody reads it
    return tensor_of(context, view_loop(context, result.dtype, sizes,
                                        constant_operand(context, int64_t{0}, result.dtype)));
  }
  if (tensors.size() == 1) {
    const Operand operand = operand_of(context, tensors[0]);
    return tensor_of(context, view_loop(context, result.dtype, sizes, operand));
  }
  if (std::optional<TensorValue> whole = concatenate_in_place(context, call, tensors, dimension))
    return *whole;
  const Expr behind = elements_behind(context, tensors, dimension);
  Expr place = ir::variable(dimension);
  if (!behind.is_integer(1))
    for (size_t k = dimension + 1; k < sizes.size(); ++k)
      place = place * sizes[k] + ir::variable(k);
  std::vector<Operand> masks, values;
  Expr start = 0;
  for (size_t k = 0; k < tensors.size(); ++k) {
    const Expr end = start + tensors[k].sizes[dimension], position = ir::variable(dimension);
    std::optional<Operand> mask;
    if (k > 0)
      mask = compare_index(context, Op::ge, place, start * behind, sizes);
    if (k + 1 < tensors.size())
      mask = both(context, mask, compare_index(context, Op::lt, place, end * behind, sizes), sizes);
    std::vector<Expr> index = identity_index(sizes.size());
    index[dimension] = position - start;
    const Operand value = reindexed(operand_of(context, tensors[k]), index);
    masks.push_back(*mask);
    values.push_back(masked_operand(context, result.dtype, sizes, *mask, value, int64_t{0}));
    start = end;
  }
  Operand chosen = values.back();
  for (size_t k = values.size() - 1; k-- > 0;) {
    chosen =
        elementwise_operand(context, Op::where, result.dtype, sizes, {masks[k], values[k], chosen});
  }
  return tensor_of(context, chosen.node);
}

/// Where parts are not stored in place, each element asks whether it is the part's that it reads.
NodeValue interleave(Context &context, const ops::Call &call) {
  const graph::TensorMeta &result = result_meta(context);
  const std::vector<Expr> &sizes = result.layout.sizes;
  const std::vector<int64_t> strides = call.integers("stride");
  std::vector<TensorValue> parts = tensor_arguments(context, call, "parts");
  if (const std::optional<TensorValue> whole = interleave_in_place(context, parts, strides))
    return *whole;
  const size_t first_spatial = sizes.size() - strides.size();
  const auto places = static_cast<size_t>(
      std::accumulate(strides.begin(), strides.end(), int64_t{1}, std::multiplies<>()));
  std::optional<Operand> chosen;
  Expr end = sizes[0];
  for (size_t k = parts.size(); k-- > 0;) {
    const Expr sample = end - parts[k].sizes[0];
    std::vector<Expr> index = identity_index(sizes.size());
    index[0] = index[0] - sample;
    std::optional<Operand> mask = compare_index(context, Op::ge, ir::variable(0), sample, sizes);
    mask = both(context, mask, compare_index(context, Op::lt, ir::variable(0), end, sizes), sizes);
    auto rest = static_cast<int64_t>(k % places);
    for (size_t i = strides.size(); i-- > 0; rest /= strides[i]) {
      const Expr position = ir::variable(first_spatial + i), stride(strides[i]);
      index[first_spatial + i] = symbolic::floor_div(position, stride);
      const Operand is_here =
          compare_index(context, Op::eq, symbolic::mod(position, stride), rest % strides[i], sizes);
      mask = both(context, mask, is_here, sizes);
    }
    const Operand value =
        masked_operand(context, result.dtype, sizes, *mask,
                       reindexed(operand_of(context, parts[k]), index), int64_t{0});
    chosen = chosen ? elementwise_operand(context, Op::where, result.dtype, sizes,
                                          {*mask, value, *chosen})
                    : value;
    if (k % places == 0)
      end = sample;
  }
  return tensor_of(context, chosen->node);
}

NodeValue constant_pad(Context &context, const ops::Call &call) {
  const graph::TensorMeta &result = result_meta(context);
  const std::vector<Expr> &sizes = result.layout.sizes;
  const TensorValue value = tensor_argument(context, call, "self");
  const std::vector<Expr> pad = call.sizes("pad"); // pairs (before, after), last dimension first
  std::vector<Expr> index = identity_index(sizes.size());
  std::optional<Operand> inside;
  for (size_t k = sizes.size() - pad.size() / 2; k < sizes.size(); ++k) {
    const size_t pair = 2 * (sizes.size() - 1 - k);
    index[k] = index[k] - pad[pair];
    if (!pad[pair].is_integer(0))
      inside = both(context, inside, compare_index(context, Op::ge, index[k], 0, sizes), sizes);
    if (!pad[pair + 1].is_integer(0)) {
      inside = both(context, inside,
                    compare_index(context, Op::lt, index[k], value.sizes[k], sizes), sizes);
    }
  }
  const Operand source = reindexed(operand_of(context, value), index);
  if (!inside)
    return tensor_of(context, view_loop(context, result.dtype, sizes, source));
  return tensor_of(
      context,
      masked_operand(context, result.dtype, sizes, *inside, source, call.scalar("value")).node);
}

NodeValue flip(Context &context, const ops::Call &call) {
  const TensorValue value = tensor_argument(context, call, "self");
  std::vector<Expr> index = identity_index(value.sizes.size());
  for (int64_t dimension : call.integers("dims")) {
    const size_t k = dimension_of(dimension, value.sizes.size());
    if (index.empty()) // a tensor of rank 0 has dimensions 0 and -1 by name only
      continue;
    index[k] = value.sizes[k] - 1 - ir::variable(k);
  }
  if (value.index && !value.layout) { // what is flipped already may stand in memory as asked for
    symbolic::Substitution at;
    for (size_t k = 0; k < index.size(); ++k)
      at.emplace(ir::variable(k), index[k]);
    std::vector<Expr> places = *value.index;
    for (Expr &place : places)
      place = symbolic::simplify(symbolic::substitute(place, at), *context.ranges);
    if (places == identity_index(index.size()) && value.storage->sizes == value.sizes) {
      TensorValue back = value;
      back.index.reset();
      return back;
    }
  }
  // A copy: no strides walk backwards.
  const Operand element = reindexed(operand_of(context, value), index);
  return tensor_of(context, view_loop(context, value.dtype, value.sizes, element));
}

/// Along `dim` the elements from position `first` on, then those before it.
NodeValue rotate(Context &context, const ops::Call &call) {
  const TensorValue value = tensor_argument(context, call, "self");
  std::vector<Expr> index = identity_index(value.sizes.size());
  const size_t k = dimension_of(call.integer("dim"), value.sizes.size());
  index[k] = symbolic::mod(ir::variable(k) + call.size("first"), value.sizes[k]);
  const Operand element = reindexed(operand_of(context, value), index);
  return tensor_of(context, view_loop(context, value.dtype, value.sizes, element));
}

/// The position along a dimension `op` a number that the data decides, over `sizes`.
Operand compare_position(Context &context, Op op, size_t dimension, const Operand &number,
                         std::span<const Expr> sizes) {
  const Operand position = index_operand(context, ir::variable(dimension), DType::i64, sizes);
  return elementwise_operand(context, op, DType::boolean, sizes, {position, number});
}

/// where(position is written, source at its place there, self).
NodeValue overwrite(Context &context, const TensorValue &self, const Operand &source,
                    const Operand &written) {
  const graph::TensorMeta &result = result_meta(context);
  const std::vector<Expr> &sizes = result.layout.sizes;
  const Operand inserted =
      masked_operand(context, result.dtype, sizes, written, source, int64_t{0});
  const Operand kept = operand_of(context, self);
  return tensor_of(context,
                   elementwise(context, Op::where, result.dtype, sizes, {written, inserted, kept}));
}

/// Stores `source` into the memory of `self`, which is a mutated input: element (i...) at
/// index(i...).
std::optional<TensorValue> store_region(Context &context, const TensorValue &self,
                                        const TensorValue &source, std::vector<Expr> sizes,
                                        std::vector<Expr> index) {
  if (std::any_of(index.begin(), index.end(), graph::depends_on_data))
    return std::nullopt; // the update is made beside the input, and copied
  ir::Scatter scatter;
  scatter.value = broadcast_operand(context, source, sizes);
  scatter.sizes = std::move(sizes);
  scatter.index = std::move(index);
  return scatter_in_place(context, self, std::move(scatter));
}

NodeValue slice_scatter(Context &context, const ops::Call &call) {
  const TensorValue self = tensor_argument(context, call, "self");
  const TensorValue source = convert(context, tensor_argument(context, call, "src"), self.dtype);
  if (const std::optional<TensorValue> updated = updated_in_place(context, source))
    return *updated;
  const std::vector<Expr> &sizes = self.sizes;
  const ops::SliceBounds bounds = ops::slice_bounds(call, sizes);
  const size_t dimension = bounds.dim;
  const Expr size = sizes[dimension], step = bounds.step, start = bounds.start;
  const Expr position = ir::variable(dimension);
  const bool by_data = graph::depends_on_data(start);
  const Expr end = by_data ? start + (source.sizes[dimension] - 1) * step + 1 : bounds.end;
  std::vector<Expr> region = identity_index(sizes.size());
  region[dimension] = region[dimension] * step + start;
  std::vector<Expr> region_sizes = sizes;
  region_sizes[dimension] = source.sizes[dimension];
  if (symbolic::numel(region_sizes).is_integer(0))
    return self;
  if (std::optional<TensorValue> stored = store_region(context, self, source, region_sizes, region))
    return *stored;
  std::optional<Operand> written;
  if (by_data) {
    const Expr extent = size - (source.sizes[dimension] - 1) * step;
    written = compare_position(
        context, Op::ge, dimension,
        held_number(context, start, extent, NegativeIndex::fails, sizes, "start"), sizes);
  } else if (!start.is_integer(0)) {
    written = compare_index(context, Op::ge, position, start, sizes);
  }
  if (end != size)
    written = both(context, written, compare_index(context, Op::lt, position, end, sizes), sizes);
  if (!step.is_integer(1)) {
    const Expr phase = symbolic::mod(position - start, step);
    written = both(context, written, compare_index(context, Op::eq, phase, 0, sizes), sizes);
  }
  if (!written)
    return tensor_of(context, view_loop(context, self.dtype, sizes, operand_of(context, source)));
  std::vector<Expr> index = identity_index(sizes.size());
  index[dimension] = symbolic::floor_div(position - start, step);
  return overwrite(context, self,
                   reindexed(broadcast_operand(context, source, source.sizes), index), *written);
}

NodeValue select_scatter(Context &context, const ops::Call &call) {
  const TensorValue self = tensor_argument(context, call, "self");
  const TensorValue source = convert(context, tensor_argument(context, call, "src"), self.dtype);
  const size_t dimension = dimension_argument(call, "dim", self.sizes.size());
  Expr at = call.size("index");
  if (at.is_integer() && at.value() < 0)
    at = at + self.sizes[dimension];
  else if (graph::depends_on_data(at) && !at.is_symbol()) // a symbol alone wraps
    at = in_front(context, at, self.sizes[dimension]);
  if (const std::optional<TensorValue> updated = updated_in_place(context, source))
    return *updated;
  std::vector<Expr> region_sizes = self.sizes, region = identity_index(self.sizes.size() - 1);
  region_sizes.erase(region_sizes.begin() + static_cast<std::ptrdiff_t>(dimension));
  region.insert(region.begin() + static_cast<std::ptrdiff_t>(dimension), at);
  if (std::optional<TensorValue> stored = store_region(context, self, source, region_sizes, region))
    return *stored;
  const Operand written =
      graph::depends_on_data(at)
          ? compare_position(
                context, Op::eq, dimension,
                held_number(context, at, self.sizes[dimension],
                            at.is_symbol() ? NegativeIndex::wraps : NegativeIndex::fails,
                            self.sizes, "index"),
                self.sizes)
          : compare_index(context, Op::eq, ir::variable(dimension), at, self.sizes);
  std::vector<Expr> index;
  for (size_t k = 0; k < self.sizes.size(); ++k)
    if (k != dimension)
      index.push_back(ir::variable(k));
  return overwrite(context, self, reindexed(operand_of(context, source), index), written);
}

} // namespace

void add_joins(Registry &registry) {
  registry["cat"] = cat;
  registry["interleave"] = interleave;
  registry["constant_pad_nd"] = constant_pad;
  registry["flip"] = flip;
  registry["rotate"] = rotate;
  registry["slice_scatter"] = slice_scatter;
  registry["select_scatter"] = select_scatter;
}

} // namespace tsc::lowering
