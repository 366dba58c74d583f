// Sliding windows are index maps with a mask where they reach beyond what they slide over: padding
// and window fuse with whatever reads them.
#include "ops/families/windows.h"
#include "lowering/build.h"
#include "lowering/realize.h"
#include "lowering/registry.h"

namespace tsc::lowering {

namespace {

/// The positions at which all of several conditions on index expressions hold.
class Conditions {
public:
  Conditions(Context &context, std::span<const Expr> sizes)
      : context_(context), sizes_(sizes.begin(), sizes.end()), ranges_(*context.ranges) {
    for (size_t k = 0; k < sizes_.size(); ++k)
      ranges_.set_size(ir::variable(k), sizes_[k]);
  }

  /// Demands that `index` lies in [0, extent); what can be proved is not asked at run time.
  void require_inside(Expr index, Expr extent) {
    if (!symbolic::known_nonnegative(index, ranges_))
      require(Op::ge, index, 0);
    if (!symbolic::known_less(index, extent, ranges_))
      require(Op::lt, index, extent);
  }

  void require(Op comparison, Expr index, Expr bound) {
    const Operand left = index_operand(context_, index, DType::i64, sizes_);
    const Operand right = index_operand(context_, bound, DType::i64, sizes_);
    const Operand holds =
        elementwise_operand(context_, comparison, DType::boolean, sizes_, {left, right});
    mask_ = mask_ ? elementwise_operand(context_, Op::logical_and, DType::boolean, sizes_,
                                        {*mask_, holds})
                  : holds;
  }

  /// `element` where the conditions hold, `fill` elsewhere.
  TensorValue choose(DType dtype, const Operand &element, const tensor::Scalar &fill) const {
    const LoopId loop = mask_ ? masked_operand(context_, dtype, sizes_, *mask_, element, fill).node
                              : view_loop(context_, dtype, sizes_, element);
    return tensor_of(context_, loop);
  }

private:
  Context &context_;
  std::vector<Expr> sizes_;
  symbolic::Ranges ranges_;
  std::optional<Operand> mask_;
};

std::vector<Expr> strides_with_channels_innermost(const std::vector<Expr> &sizes) {
  std::vector<size_t> order = {0};
  for (size_t k = 2; k < sizes.size(); ++k)
    order.push_back(k);
  order.push_back(1);
  return tensor::strides_in_order(sizes, order);
}

NodeValue channels_innermost(Context &context, const ops::Call &call) {
  TensorValue value = copy(context, tensor_argument(context, call, "self"));
  decide_layout_as(context, value.storage->buffer, strides_with_channels_innermost(value.sizes));
  return value;
}

/// What is not stored yet is stored like that; what lies otherwise is copied.
NodeValue channels_inside(Context &context, const ops::Call &call) {
  TensorValue value = tensor_argument(context, call, "self");
  const std::vector<Expr> strides = strides_with_channels_innermost(value.sizes);
  if (!value.is_view())
    decide_layout_as(context, realize(context, *value.storage), strides);
  if (value.storage->realized())
    if (const auto view = strided_view(context, value);
        view && view->layout.strides[1].is_integer(1))
      return value;
  value = copy(context, value);
  decide_layout_as(context, value.storage->buffer, strides);
  return value;
}

NodeValue stored(Context &context, const ops::Call &call) {
  return copy(context, tensor_argument(context, call, "self"));
}

/// What the windows slide over: a value that is more than one read is computed once, not once a
/// window.
TensorValue source_argument(Context &context, const ops::Call &call, bool overlaps = false) {
  const TensorValue value = tensor_argument(context, call, "self");
  realize_hint(context, *value.storage, overlaps);
  return value;
}
/// Whether windows next to each other share elements.
bool windows_overlap(const ops::Call &call) {
  const std::vector<Expr> kernel = call.sizes("kernel"), stride = call.sizes("stride");
  for (size_t k = 0; k < kernel.size(); ++k)
    if (kernel[k].is_integer() && stride[k].is_integer() && kernel[k].value() > stride[k].value())
      return true;
  return false;
}

/// Says what windows are, to whom brings them by bulk copies.
void note_windows(Context &context, const ops::Call &call, const TensorValue &value,
                  const std::vector<Expr> &sizes) {
  const size_t count = call.sizes("stride").size();
  if (value.sizes.size() != count + 2 || count > 3 || tensor::to_double(call.scalar("fill")) != 0)
    return;
  bool known = true;
  const auto numbers = [&](std::span<const Expr> expressions) {
    std::vector<int64_t> result;
    for (const Expr e : expressions) {
      known = known && e.is_integer();
      result.push_back(e.as_integer().value_or(0));
    }
    return result;
  };
  const std::span<const Expr> result(sizes), source(value.sizes);
  ir::Windows windows{static_cast<uint32_t>(context.current),
                      source[0],
                      numbers(source.subspan(1, 1))[0],
                      {value.sizes.begin() + 2, value.sizes.end()},
                      {sizes.begin() + 2, sizes.begin() + 2 + static_cast<int64_t>(count)},
                      numbers(result.subspan(2 + count, count)),
                      numbers(call.sizes("stride")),
                      numbers(call.sizes("padding")),
                      numbers(call.sizes("dilation"))};
  if (known)
    context.module.windows.push_back(std::move(windows));
}

NodeValue windows(Context &context, const ops::Call &call) {
  const TensorValue value = source_argument(context, call, windows_overlap(call));
  const std::vector<Expr> &sizes = result_meta(context).layout.sizes;
  const std::vector<Expr> stride = call.sizes("stride"), padding = call.sizes("padding"),
                          dilation = call.sizes("dilation");
  note_windows(context, call, value, sizes);
  const size_t lead = value.sizes.size() - stride.size();
  std::vector<Expr> index = identity_index(value.sizes.size());
  Conditions inside(context, sizes);
  for (size_t k = 0; k < stride.size(); ++k) {
    const Expr position = ir::variable(lead + k), tap = ir::variable(lead + stride.size() + k);
    index[lead + k] = position * stride[k] + tap * dilation[k] - padding[k];
    inside.require_inside(index[lead + k], value.sizes[lead + k]);
  }
  return inside.choose(value.dtype, reindexed(operand_of(context, value), index),
                       call.scalar("fill"));
}

NodeValue overlaps(Context &context, const ops::Call &call) {
  const TensorValue value = source_argument(context, call);
  const std::vector<Expr> &sizes = result_meta(context).layout.sizes;
  const std::vector<Expr> stride = call.sizes("stride"), padding = call.sizes("padding"),
                          dilation = call.sizes("dilation");
  const size_t count = stride.size(), lead = value.sizes.size() - 2 * count;
  std::vector<Expr> index = identity_index(value.sizes.size());
  Conditions inside(context, sizes);
  for (size_t k = 0; k < count; ++k) {
    const Expr at =
        ir::variable(lead + k) + padding[k] - ir::variable(lead + count + k) * dilation[k];
    if (!stride[k].is_integer(1))
      inside.require(Op::eq, symbolic::mod(at, stride[k]), 0);
    index[lead + k] = symbolic::floor_div(at, stride[k]);
    inside.require_inside(index[lead + k], value.sizes[lead + k]);
  }
  return inside.choose(value.dtype, reindexed(operand_of(context, value), index), int64_t{0});
}

/// Of element `at` (padding included) of one dimension and its window number `turn`: which tap of
/// it the element is, and the window. Windows are found from the last one that may hold it.
NodeValue covering_windows(Context &context, const ops::Call &call) {
  const TensorValue value = source_argument(context, call);
  const std::vector<Expr> &sizes = result_meta(context).layout.sizes;
  const std::vector<Expr> stride = call.sizes("stride"), padding = call.sizes("padding"),
                          dilation = call.sizes("dilation"), kernel = call.sizes("kernel");
  const size_t count = stride.size(), lead = value.sizes.size() - 2 * count;
  std::vector<Expr> index = identity_index(value.sizes.size());
  Conditions inside(context, sizes);
  for (size_t k = 0; k < count; ++k) {
    const ops::Covering covering =
        ops::covering_of(kernel[k].value(), stride[k].value(), dilation[k].value());
    const Expr at = ir::variable(lead + k) + padding[k];
    const Expr turn = Expr(covering.most - 1) - ir::variable(lead + count + k);
    const Expr whole = symbolic::floor_div(at, covering.divisor);
    const Expr first = symbolic::mod(whole * Expr(covering.inverse), covering.taps_apart);
    const Expr tap = first + turn * Expr(covering.taps_apart);
    if (covering.divisor != 1)
      inside.require(Op::eq, symbolic::mod(at, covering.divisor), 0);
    if (kernel[k].value() % covering.taps_apart != 0)
      inside.require(Op::lt, tap, kernel[k]);
    const Expr last = symbolic::floor_div(at, stride[k]);
    const bool adjoin = covering.inverse * dilation[k].value() == 1; // tap 0's window is the last
    index[lead + k] = covering.taps_apart == 1
                          ? last - tap * Expr(dilation[k].value() / stride[k].value())
                      : adjoin ? last - turn
                               : symbolic::floor_div(at - tap * dilation[k], stride[k]);
    index[lead + count + k] = tap;
    inside.require_inside(index[lead + k], value.sizes[lead + k]);
  }
  return inside.choose(value.dtype, reindexed(operand_of(context, value), index), int64_t{0});
}

NodeValue adaptive_windows(Context &context, const ops::Call &call) {
  const TensorValue value = source_argument(context, call);
  const std::vector<Expr> &sizes = result_meta(context).layout.sizes;
  const std::vector<Expr> positions = call.sizes("size");
  const size_t lead = value.sizes.size() - positions.size();
  std::vector<Expr> index = identity_index(value.sizes.size());
  Conditions inside(context, sizes);
  for (size_t k = 0; k < positions.size(); ++k) {
    const Expr size = value.sizes[lead + k], position = ir::variable(lead + k);
    const Expr tap = ir::variable(lead + positions.size() + k);
    if (const auto equal = ops::equal_windows(size, positions[k], *context.ranges)) {
      index[lead + k] = position * equal->stride + tap; // which hold all of their taps
      continue;
    }
    const Expr parts = ops::at_least_one(positions[k], *context.ranges);
    index[lead + k] = symbolic::floor_div(position * size, parts) + tap;
    inside.require(Op::lt, index[lead + k], symbolic::ceil_div((position + 1) * size, parts));
  }
  return inside.choose(value.dtype, reindexed(operand_of(context, value), index),
                       call.scalar("fill"));
}

} // namespace

void add_windows(Registry &registry) {
  registry["windows"] = windows;
  registry["channels_innermost"] = channels_innermost;
  registry["channels_inside"] = channels_inside;
  registry["stored"] = stored;
  registry["overlaps"] = overlaps;
  registry["covering_windows"] = covering_windows;
  registry["adaptive_windows"] = adaptive_windows;
}

} // namespace tsc::lowering
