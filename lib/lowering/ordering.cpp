// Sorting along a dimension, and where keys belong in sorted chunks.
#include "ops/families/ordering.h"
#include "lowering/build.h"
#include "lowering/realize.h"
#include "lowering/reductions.h"
#include "lowering/registry.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <limits>

namespace tsc::lowering {

namespace {

/// Nodes over one domain, spelled as expressions.
class Domain {
public:
  Domain(Context &context, std::vector<Expr> sizes) : context_(context), sizes_(std::move(sizes)) {}

  const std::vector<Expr> &sizes() const { return sizes_; }
  Operand call(Op op, DType dtype, std::vector<Operand> operands) {
    return elementwise_operand(context_, op, dtype, sizes_, std::move(operands));
  }
  Operand test(Op op, const Operand &left, const Operand &right) {
    return call(op, DType::boolean, {left, right});
  }
  /// `value` at `at`, which may mention ir::operand_value(1): `position`, in [0, extent).
  Operand element(const TensorValue &value, const std::vector<Expr> &at, const Operand &position,
                  Expr extent) {
    const Operand viewed = reindexed(operand_of(context_, value), at);
    return {view_loop(context_, value.dtype, sizes_, viewed, {position}, {extent}),
            identity_index(sizes_.size())};
  }

private:
  Context &context_;
  std::vector<Expr> sizes_;
};

/// Integers that order as the elements do: NaN above everything, -0.0 with 0.0. The bits of a float
/// are sign and magnitude; turning the magnitude of negative ones around makes them two's
/// complement.
NodeValue order_keys(Context &context, const ops::Call &call) {
  const DType dtype = result_meta(context).dtype;
  TensorValue value = rounded(context, tensor_argument(context, call, "self"));
  const bool floating = tensor::is_floating(value.dtype);
  const int64_t bytes = static_cast<int64_t>(tensor::size_in_bytes(dtype));
  if (!floating || bytes != static_cast<int64_t>(tensor::size_in_bytes(value.dtype)))
    value = convert(context, value, !floating ? dtype : DType::f32); // of 8 bits
  Domain domain(context, value.sizes);
  Operand keys = operand_of(context, value);
  if (floating) {
    const Operand x = keys, zero = constant_operand(context, 0.0, value.dtype);
    const Operand one_zero =
        domain.call(Op::where, value.dtype, {domain.test(Op::eq, x, zero), zero, x});
    const Operand bits = domain.call(Op::to_dtype_bitcast, dtype, {one_zero});
    context.module.loops[bits.node].source_dtype = value.dtype;
    const auto number = [&](int64_t n) { return constant_operand(context, n, dtype); };
    const int64_t magnitude_bits = 8 * bytes - 1;
    const Operand magnitude = number(std::numeric_limits<int64_t>::max() >> (63 - magnitude_bits));
    const Operand sign =
        domain.call(Op::bitwise_right_shift, dtype, {bits, number(magnitude_bits)});
    const Operand turned = domain.call(Op::bitwise_and, dtype, {sign, magnitude});
    const Operand ordered = domain.call(Op::bitwise_xor, dtype, {bits, turned});
    const Operand nan = domain.call(Op::isnan, DType::boolean, {x});
    keys = domain.call(Op::where, dtype, {nan, magnitude, ordered});
  }
  if (call.boolean("descending"))
    keys = domain.call(Op::bitwise_not, dtype, {keys});
  const TensorValue result = tensor_of(context, view_loop(context, dtype, value.sizes, keys));
  if (call.boolean("stored"))
    realize_hint(context, *result.storage);
  return result;
}

/// For each key [rows, n] the elements of all other chunks [rows, chunks, length] that come before
/// it: a binary search in each. Chunk n / length is its own; equal keys of earlier chunks come
/// before, those of later chunks after.
NodeValue places(Context &context, const ops::Call &call) {
  const TensorValue sorted = tensor_argument(context, call, "sorted");
  const TensorValue keys = tensor_argument(context, call, "keys");
  const std::optional<int64_t> length = sorted.sizes[2].as_integer();
  support::require(length && *length > 0 && (*length & (*length - 1)) == 0, "lowering",
                   "sorted chunks hold a power of two of keys");
  Domain domain(context, {keys.sizes[0], keys.sizes[1], sorted.sizes[1]});
  const std::vector<Expr> at = {ir::variable(0), ir::variable(2), ir::operand_value(1)};
  const Operand key =
      reindexed(operand_of(context, keys), std::vector<Expr>{ir::variable(0), ir::variable(1)});
  const DType dtype = *length < int64_t{1} << 30 ? DType::i32 : DType::i64;
  const auto number = [&](int64_t value) { return constant_operand(context, value, dtype); };
  const auto index = [&](Expr expr) { return index_operand(context, expr, dtype, domain.sizes()); };
  const Operand own = index(symbolic::floor_div(ir::variable(1), sorted.sizes[2]));
  const Operand chunk = index(ir::variable(2));
  const Operand earlier = domain.test(Op::lt, chunk, own);
  Operand found = number(0);
  // Each step knows that `found` elements come before; one more step than the logarithm, for all.
  for (int64_t step = *length / 2; true; step /= 2) {
    const int64_t width = std::max<int64_t>(step, 1);
    const Operand probe =
        width == 1 ? found : domain.call(Op::add, dtype, {found, number(width - 1)});
    const Operand other = domain.element(sorted, at, probe, sorted.sizes[2]);
    const Operand ties = domain.test(Op::logical_and, domain.test(Op::eq, other, key), earlier);
    const Operand before = domain.test(Op::logical_or, domain.test(Op::lt, other, key), ties);
    const Operand further = domain.call(Op::add, dtype, {found, number(width)});
    found = domain.call(Op::where, dtype, {before, further, found});
    if (step == 0)
      break;
  }
  const Operand elsewhere =
      domain.call(Op::where, dtype, {domain.test(Op::eq, chunk, own), number(0), found});
  ReductionSpec spec;
  spec.kind = ir::ReductionKind::sum;
  spec.dtype = spec.source_dtype = DType::i64;
  spec.sizes = keys.sizes;
  spec.reduction_sizes = {sorted.sizes[1]};
  spec.inputs = {domain.call(Op::to_dtype, DType::i64, {elsewhere})};
  return reduce(context, spec)[0];
}

/// Whether some node takes result `item` of the node that is being lowered.
bool is_taken(const Context &context, int64_t item) {
  const std::vector<graph::NodeId> &users = context.users[context.current];
  return std::any_of(users.begin(), users.end(), [&](graph::NodeId user) {
    const graph::Node &node = context.graph.node(user);
    const auto *which = node.target == "operator.getitem" && node.args.size() == 2
                            ? std::get_if<int64_t>(&node.args[1].value)
                            : nullptr;
    return which == nullptr || *which == item;
  });
}

/// Rows that no block holds: a call, of which what nobody takes is left out.
NodeValue sort_rows(Context &context, const ops::Call &call, TensorValue value) {
  const std::vector<Expr> sizes = value.sizes;
  support::require(sizes.size() == 2 && call.integer("dim") == 1 &&
                       call.size("first").is_integer(0) && call.size("count") == sizes[1],
                   "lowering", "long rows are sorted whole, along the last of two dimensions");
  const std::vector<Expr> strides = tensor::contiguous_strides(sizes);
  ir::Extern sort;
  sort.kernel = "tsc.sort_rows";
  sort.ir_class = "TemplateBuffer";
  sort.library = ir::Library::sort;
  sort.descending = call.boolean("descending");
  sort.values = is_taken(context, 0);
  sort.positions = is_taken(context, 1) || !sort.values;
  ir::BufferView rows = require_strides(context, value, strides);
  const auto is_whole = [&] {
    return rows.layout.offset.is_integer(0) &&
           rows.dtype == context.module.buffer(rows.buffer).dtype;
  };
  if (!is_whole()) {
    TensorValue whole = copy(context, value);
    rows = require_strides(context, whole, strides);
  }
  sort.inputs = {rows};
  std::vector<BufferId> outputs;
  std::vector<TensorValue> results;
  for (const auto &[wanted, dtype] :
       {std::pair(sort.values, value.dtype), std::pair(sort.positions, DType::i64)}) {
    if (!wanted) {
      const Operand zero = constant_operand(context, int64_t{0}, dtype);
      results.push_back(tensor_of(context, view_loop(context, dtype, sizes, zero)));
      continue;
    }
    const BufferId buffer = register_buffer(context, sizes, dtype, result_device(context));
    context.module.buffers[buffer].layout.strides = strides;
    context.module.buffers[buffer].layout_kind = ir::LayoutKind::fixed;
    outputs.push_back(buffer);
    results.push_back(tensor_of_buffer(context, buffer));
  }
  register_operation(context, std::move(sort), outputs);
  return results;
}

/// Two operations over one input, values and positions: where both are wanted, one kernel sorts
/// once.
NodeValue sort(Context &context, const ops::Call &call) {
  const TensorValue value = rounded(context, tensor_argument(context, call, "self"));
  const size_t rank = value.sizes.size();
  if (symbolic::bounds(value.sizes[dimension_argument(call, "dim", rank)], *context.ranges).high >
      ops::longest_sorted_by_block(value.dtype))
    return sort_rows(context, call, value);
  ir::Sort sort;
  sort.axis = dimension_argument(call, "dim", rank);
  sort.length = value.sizes[sort.axis];
  sort.first = call.size("first");
  sort.descending = call.boolean("descending");
  sort.dtype = value.dtype;
  std::vector<Expr> index, sizes = value.sizes;
  for (size_t k = 0; k < rank; ++k)
    index.push_back(ir::variable(k < sort.axis ? k : k == sort.axis ? rank - 1 : k - 1));
  sort.input = reindexed(operand_of(context, value), index);
  sizes[sort.axis] = call.size("count");
  if (symbolic::numel(sizes).is_integer(0)) {
    std::vector<TensorValue> nothing;
    for (const DType dtype : {value.dtype, DType::i64}) {
      const Operand zero = constant_operand(context, int64_t{0}, dtype);
      nothing.push_back(tensor_of(context, view_loop(context, dtype, sizes, zero)));
    }
    return nothing;
  }
  std::vector<TensorValue> results;
  for (const bool positions : {false, true}) {
    sort.positions = positions;
    const BufferId buffer = register_buffer(context, sizes, positions ? DType::i64 : value.dtype,
                                            result_device(context));
    register_operation(context, sort, {buffer});
    results.push_back(tensor_of_buffer(context, buffer));
  }
  return results;
}

} // namespace

void add_ordering(Registry &registry) {
  registry["sort"] = sort;
  registry["order_keys"] = order_keys;
  registry["places"] = places;
}

} // namespace tsc::lowering
