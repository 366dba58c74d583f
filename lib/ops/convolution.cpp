// Convolution and pooling over [N, C, spatial..].
#include "ops/pointwise_rules.h"
#include "ops/precision.h"
#include "ops/shape_rules.h"
#include "ops/table.h"
#include "support/diagnostic.h"

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

/// int[2] arguments may hold one value for all spatial dimensions.
Sizes spread(const Sizes &values, size_t count, Expr fallback) {
  if (values.empty())
    return Sizes(count, fallback);
  return values.size() == 1 ? Sizes(count, values[0]) : values;
}

/// Results keep the channels-last order of `input`.
Value like_input(const TensorMeta &input, DType dtype, Sizes sizes) {
  bool channels_last = sizes.size() == 4 && input.layout.rank() == 4 &&
                       !input.layout.is_contiguous() &&
                       channels_last_strides(input.layout.sizes) == input.layout.strides;
  Sizes strides = channels_last ? channels_last_strides(sizes) : tensor::contiguous_strides(sizes);
  return tensor_value(dtype, std::move(sizes), std::move(strides), input.device);
}

Value convolution_value(const Call &call) {
  const TensorMeta &input = call.tensor("input"), &weight = call.tensor("weight");
  const Sizes &x = input.layout.sizes, &w = weight.layout.sizes;
  size_t rank = x.size();
  if (rank < 3 || w.size() != rank)
    call.fail("TSC-O048",
              "aten.convolution: input " + print_sizes(x) + ", weight " + print_sizes(w),
              "pass [N, C, ..] and [O, C / groups, ..] with as many dimensions");
  size_t count = rank - 2;
  Sizes stride = spread(call.sizes("stride"), count, Expr(1));
  Sizes padding = spread(call.sizes("padding"), count, Expr(0));
  Sizes dilation = spread(call.sizes("dilation"), count, Expr(1));
  Sizes extra = spread(call.sizes("output_padding"), count, Expr(0));
  bool transposed = call.boolean("transposed");
  Expr groups = call.size("groups");
  Expr channels = transposed ? w[0] : w[1] * groups;
  if (x[1].is_integer() && channels.is_integer() && x[1] != channels)
    call.fail("TSC-O048",
              "aten.convolution: the input has " + symbolic::print(x[1]) +
                  " channels, the weight takes " + symbolic::print(channels),
              "make them equal");
  Sizes sizes = {x[0], transposed ? w[1] * groups : w[0]};
  for (size_t i = 0; i < count; ++i) {
    Expr reach = dilation[i] * (w[i + 2] - Expr(1));
    Expr size =
        transposed
            ? (x[i + 2] - Expr(1)) * stride[i] - Expr(2) * padding[i] + reach + extra[i] + Expr(1)
            : symbolic::floor_div(x[i + 2] + Expr(2) * padding[i] - reach - Expr(1), stride[i]) +
                  Expr(1);
    sizes.push_back(symbolic::simplify(size, call.ranges()));
  }
  // An export on a GPU records contiguous results; one on the CPU keeps channels-last.
  if (input.device.type == tensor::DeviceType::cuda)
    return contiguous_value(input.dtype, std::move(sizes), input.device);
  return like_input(input, input.dtype, std::move(sizes));
}

Argument named_convolution(GraphBuilder &builder, const Call &call) {
  size_t count = call.tensor("weight").layout.rank() - 2;
  auto list = [&](std::string_view name, Expr fallback) {
    return sizes_argument(spread(call.sizes(name), count, fallback));
  };
  Argument stride = list("stride", Expr(1)), padding = list("padding", Expr(0)),
           dilation = list("dilation", Expr(1));
  return builder.call("aten.convolution.default",
                      {call["input"], call["weight"], call["bias"], stride, padding, dilation,
                       false, sizes_argument(Sizes(count, Expr(0))), call["groups"]});
}

/// Output length of a pooling window.
Expr pooled(const Call &call, Expr size, Expr kernel, Expr stride, Expr padding, Expr dilation) {
  Expr span = size + Expr(2) * padding - dilation * (kernel - Expr(1)) - Expr(1);
  if (!call.boolean("ceil_mode"))
    return symbolic::simplify(symbolic::floor_div(span, stride) + Expr(1), call.ranges());
  Expr length = symbolic::ceil_div(span, stride) + Expr(1);
  // The last window must start inside the input or its left padding.
  if (length.is_integer() && stride.is_integer() && size.is_integer() && padding.is_integer() &&
      (length.value() - 1) * stride.value() >= size.value() + padding.value())
    length = length - Expr(1);
  return symbolic::simplify(length, call.ranges());
}

Sizes pooled_sizes(const Call &call, bool dilated) {
  Sizes sizes = call.tensor("self").layout.sizes;
  if (sizes.size() < 3)
    call.fail("TSC-O048", call.node().target + " of " + print_sizes(sizes),
              "pass [N, C, H, W] or [C, H, W]");
  Sizes kernel = spread(call.sizes("kernel_size"), 2, Expr(1));
  Sizes stride = call.sizes("stride").empty() ? kernel : spread(call.sizes("stride"), 2, Expr(1));
  Sizes padding = spread(call.sizes("padding"), 2, Expr(0));
  Sizes dilation = dilated ? spread(call.sizes("dilation"), 2, Expr(1)) : Sizes(2, Expr(1));
  for (size_t i = 0; i < 2; ++i) {
    Expr &size = sizes[sizes.size() - 2 + i];
    size = pooled(call, size, kernel[i], stride[i], padding[i], dilation[i]);
  }
  return sizes;
}

void add_pooling(Table &table) {
  table
      .add("max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] "
           "padding=0, int[2] "
           "dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)")
      .shape([](const Call &call) {
        const TensorMeta &self = call.tensor("self");
        Sizes sizes = pooled_sizes(call, true);
        Value values = like_input(self, self.dtype, sizes);
        return Value{Value::List{values, like_input(self, DType::i64, sizes)}};
      })
      .lowers("max_pool2d_with_indices");
  table
      .add("max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] "
           "dilation=1, bool "
           "ceil_mode=False) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        Argument pair = builder.call("aten.max_pool2d_with_indices.default",
                                     {call["self"], call["kernel_size"], call["stride"],
                                      call["padding"], call["dilation"], call["ceil_mode"]});
        return builder.item(pair, 0);
      });
  table
      .add("avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool "
           "ceil_mode=False, bool "
           "count_include_pad=True, int? divisor_override=None) -> Tensor")
      .shape([](const Call &call) {
        const TensorMeta &self = call.tensor("self");
        return like_input(self, self.dtype, pooled_sizes(call, false));
      })
      .lowers("avg_pool2d");
  for (std::string_view name : {"adaptive_avg_pool2d", "_adaptive_avg_pool2d"})
    table.add(keep_text(std::string(name) + "(Tensor self, SymInt[2] output_size) -> Tensor"))
        .decompose([](GraphBuilder &builder, const Call &call) {
          for (Expr size : call.sizes("output_size"))
            if (!size.is_integer(1))
              throw support::UserError(
                  support::ExitCode::unsupported,
                  support::Diagnostic{
                      "TSC-O007",
                      "adaptive_avg_pool2d to " + print_sizes(call.sizes("output_size")) +
                          " is not supported",
                      "", "", call.node().name, "", "pool to [1, 1], or use avg_pool2d"});
          return builder.call("aten.mean.dim", {call["self"], Arguments{-1, -2}, true});
        });
}

} // namespace

void add_convolution(Table &table) {
  table
      .add("convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] "
           "padding, SymInt[] "
           "dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor")
      .shape(convolution_value)
      .lowers("convolution");
  for (std::string_view form :
       {"conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] ",
        "conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] ",
        "conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] "})
    table
        .add(keep_text(std::string(form) +
                       "stride=1, SymInt[] padding=0, SymInt[] dilation=1, SymInt groups=1) -> "
                       "Tensor"))
        .decompose(named_convolution);
  add_pooling(table);
}

} // namespace tsc::ops
