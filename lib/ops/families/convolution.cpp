// Convolution over [N, C, spatial..]: its shapes, and the operators that are forms of it.
#include "ops/families/convolution.h"

#include "ops/table/memory_format.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <algorithm>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

void check_shapes(const Call &call, const Convolution &convolution) {
  const Sizes &x = convolution.input.layout.sizes, &w = convolution.weight.layout.sizes;
  const Expr groups = convolution.groups;
  const Expr channels = convolution.transposed ? w[0] : w[1] * groups;
  if (x[1].is_integer() && channels.is_integer() && x[1] != channels)
    call.fail("TSC-O048",
              "aten.convolution: the input has " + symbolic::print(x[1]) +
                  " channels, the weight takes " + symbolic::print(channels),
              "make them equal");
  if (groups.is_integer() && w[0].is_integer() &&
      (groups.value() < 1 || w[0].value() % groups.value() != 0))
    call.fail("TSC-O048",
              "aten.convolution: " + symbolic::print(groups) + " groups of " +
                  symbolic::print(w[0]) +
                  (convolution.transposed ? " input channels" : " output channels"),
              "choose groups that divide the channels");
  for (size_t i = 0; i < convolution.rank(); ++i) {
    const Expr stride = convolution.window.stride[i], dilation = convolution.window.dilation[i],
               size = convolution.positions[i];
    if ((stride.is_integer() && stride.value() < 1) ||
        (dilation.is_integer() && dilation.value() < 1))
      call.fail("TSC-O048",
                "aten.convolution: stride " + print_sizes(convolution.window.stride) +
                    ", dilation " + print_sizes(convolution.window.dilation),
                "use 1 or more");
    if (size.is_integer() && size.value() < 1)
      call.fail("TSC-O048",
                "aten.convolution: a window of " + print_sizes(convolution.window.kernel) +
                    " does not fit into " + print_sizes(x),
                "make the input larger, or pad it");
  }
}

TensorMeta result_of(const Convolution &convolution) {
  const Sizes &w = convolution.weight.layout.sizes;
  Sizes sizes = {convolution.input.layout.sizes[0],
                 convolution.transposed ? w[1] * convolution.groups : w[0]};
  sizes.insert(sizes.end(), convolution.positions.begin(), convolution.positions.end());
  const TensorMeta &input = convolution.input;
  // An export on a GPU records contiguous results; one on the CPU keeps channels-last.
  const bool channels_last =
      input.device.type != tensor::DeviceType::cuda &&
      (is_channels_last(input.layout) || is_channels_last(convolution.weight.layout));
  Sizes strides = channels_last ? channels_last_strides(sizes) : tensor::contiguous_strides(sizes);
  return *tensor_value(input.dtype, std::move(sizes), std::move(strides), input.device).tensor();
}

/// conv1d, conv2d, conv3d and the transposed ones: a batch of one for an input without batches,
/// padding by name.
struct Form {
  size_t rank;
  bool transposed;
};

/// Pads the input by hand where "same" pads one side more than the other; the rest of the padding.
Sizes named_padding(GraphBuilder &builder, const Call &call, Argument &input, size_t rank) {
  const std::string name = call.string("padding").value_or("valid");
  if (name != "same" && name != "valid")
    call.fail("TSC-O048", call.node().target + " with padding '" + name + "'",
              "use 'valid', 'same' or a number a dimension");
  Sizes padding(rank, Expr(0));
  if (name == "valid")
    return padding;
  const Sizes kernel = call.tensor("weight").layout.sizes;
  const Sizes dilation = spread(call, "dilation", rank, Expr(1));
  Sizes uneven; // (before, after) for the last dimensions, the last first
  bool any = false;
  for (size_t i = rank; i-- > 0;) {
    const Expr total = dilation[i] * (kernel[i + 2] - Expr(1));
    padding[i] = symbolic::floor_div(total, Expr(2));
    const Expr more = symbolic::simplify(total - Expr(2) * padding[i], call.ranges());
    uneven.push_back(Expr(0));
    uneven.push_back(more);
    any = any || !more.is_integer(0);
  }
  if (any)
    input = builder.call("aten.constant_pad_nd.default", {input, sizes_argument(uneven), 0});
  return padding;
}

Argument in_batches(GraphBuilder &builder, const Call &call, Form form) {
  const size_t rank = form.rank;
  const TensorMeta meta = call.tensor("input");
  const size_t weight_rank = call.tensor("weight").layout.rank();
  if (weight_rank != rank + 2 || (meta.layout.rank() != rank + 2 && meta.layout.rank() != rank + 1))
    call.fail("TSC-O048",
              call.node().target + ": input " + print_sizes(meta.layout.sizes) + ", weight " +
                  print_sizes(call.tensor("weight").layout.sizes),
              "pass " + std::to_string(rank) + " spatial dimensions after the channels");
  const bool single = meta.layout.rank() == rank + 1;
  Argument input = call["input"];
  if (single)
    input = builder.call("aten.unsqueeze.default", {input, 0});
  const bool named = call.string("padding").has_value();
  const Sizes padding =
      named ? named_padding(builder, call, input, rank) : spread(call, "padding", rank, Expr(0));
  auto list = [&](std::string_view name, Expr fallback) {
    return sizes_argument(spread(call, name, rank, fallback));
  };
  const Argument extra =
      form.transposed ? list("output_padding", Expr(0)) : sizes_argument(Sizes(rank, Expr(0)));
  const Argument result = builder.call(
      "aten.convolution.default",
      {input, call["weight"], call["bias"], list("stride", Expr(1)), sizes_argument(padding),
       list("dilation", Expr(1)), form.transposed, extra, call["groups"]});
  return single ? builder.call("aten.squeeze.dims", {result, Arguments{0}}) : result;
}

/// Time, batch, channels; the weight is [kernel, channels, results].
Argument convolution_over_time(GraphBuilder &builder, const Call &call) {
  for (const std::string_view name : {"self", "weight"})
    if (call.tensor(name).layout.rank() != 3)
      call.fail("TSC-O048",
                call.node().target + ": '" + std::string(name) + "' of sizes " +
                    print_sizes(call.tensor(name).layout.sizes),
                "pass three dimensions");
  const auto permuted = [&](const Argument &x, Arguments order) {
    return builder.call("aten.permute.default", {x, std::move(order)});
  };
  const Argument input = permuted(call["self"], {1, 2, 0});
  const Argument weight = permuted(call["weight"], {2, 1, 0});
  const Argument result = builder.call(
      "aten.conv1d.default", {input, weight, call["bias"], Arguments{1}, Arguments{call["pad"]}});
  return permuted(result, {2, 0, 1});
}

void add_forms(Table &table, size_t rank) {
  const std::string dims = std::to_string(rank), ints = "SymInt[" + dims + "]";
  const std::string tensors = "(Tensor input, Tensor weight, Tensor? bias=None, ";
  const auto decompose = [rank](bool transposed) {
    return [form = Form{rank, transposed}](GraphBuilder &builder, const Call &call) {
      return in_batches(builder, call, form);
    };
  };
  table
      .add(keep_text("conv" + dims + "d" + tensors + ints + " stride=1, " + ints + " padding=0, " +
                     ints + " dilation=1, SymInt groups=1) -> Tensor"))
      .decompose(decompose(false));
  table
      .add(keep_text("conv" + dims + "d.padding" + tensors + ints +
                     " stride=1, str padding='valid', " + ints +
                     " dilation=1, SymInt groups=1) -> Tensor"))
      .decompose(decompose(false));
  table
      .add(keep_text("conv_transpose" + dims + "d" + (rank == 1 ? "" : ".input") + tensors + ints +
                     " stride=1, " + ints + " padding=0, " + ints +
                     " output_padding=0, SymInt groups=1, " + ints + " dilation=1) -> Tensor"))
      .decompose(decompose(true));
}

} // namespace

Convolution convolution_of(const Call &call) {
  Convolution result;
  result.input = call.tensor("input");
  result.weight = call.tensor("weight");
  const Sizes &x = result.input.layout.sizes, &w = result.weight.layout.sizes;
  if (x.size() < 3 || w.size() != x.size())
    call.fail("TSC-O048",
              "aten.convolution: input " + print_sizes(x) + ", weight " + print_sizes(w),
              "pass [N, C, ..] and [O, C / groups, ..] with as many dimensions");
  const size_t rank = x.size() - 2;
  result.window = {Sizes(w.begin() + 2, w.end()), spread(call, "stride", rank, Expr(1)),
                   spread(call, "padding", rank, Expr(0)), spread(call, "dilation", rank, Expr(1))};
  result.transposed = call.boolean("transposed");
  result.groups = call.size("groups");
  const Sizes extra = spread(call, "output_padding", rank, Expr(0));
  const Window &window = result.window;
  for (size_t i = 0; i < rank; ++i) {
    const Expr reach = window.dilation[i] * (window.kernel[i] - Expr(1));
    const Expr twice = Expr(2) * window.padding[i];
    const bool sound = !window.stride[i].is_integer() || window.stride[i].value() > 0;
    const Expr size =
        !sound ? Expr(1)
        : result.transposed
            ? (x[i + 2] - Expr(1)) * window.stride[i] - twice + reach + extra[i] + Expr(1)
            : symbolic::floor_div(x[i + 2] + twice - reach - Expr(1), window.stride[i]) + Expr(1);
    result.positions.push_back(symbolic::simplify(size, call.ranges()));
  }
  check_shapes(call, result);
  result.result = result_of(result);
  return result;
}

Convolution of_likely_batch(Convolution c, const graph::Graph &graph) {
  c.input.layout.sizes[0] = c.result.layout.sizes[0] = likely_size(c.batch(), graph);
  return c;
}

void add_convolution(Table &table) {
  table.add("conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor")
      .decompose(contiguously(convolution_over_time));
  const std::string_view parameters =
      "(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] "
      "dilation, bool transposed, SymInt[] output_padding, SymInt groups";
  table.add(keep_text("convolution" + std::string(parameters) + ") -> Tensor"))
      .shape([](const Call &call) { return Value{convolution_of(call).result}; })
      .decompose([](GraphBuilder &builder, const Call &call) {
        return compute_convolution(builder, call, Channels::by_dtype);
      });
  // The same, where its values were chosen to lie with their channels innermost, or as they come.
  for (const auto &[name, channels] :
       {std::pair{"inside", Channels::inside}, std::pair{"outside", Channels::outside}})
    table
        .add(keep_text("tsc::convolution_" + std::string(name) + std::string(parameters) +
                       ") -> Tensor"))
        .shape([](const Call &call) { return Value{convolution_of(call).result}; })
        .decompose([channels = channels](GraphBuilder &builder, const Call &call) {
          return compute_convolution(builder, call, channels);
        });
  for (std::string_view flags :
       {"", ".deprecated"}) // how the library may go about it: no business of ours
    table
        .add(keep_text("_convolution" + std::string(flags) + std::string(parameters) +
                       ", bool benchmark, bool deterministic, bool cudnn_enabled" +
                       (flags.empty() ? ", bool allow_tf32" : "") + ") -> Tensor"))
        .decompose([](GraphBuilder &builder, const Call &call) {
          return builder.call("aten.convolution.default",
                              {call["input"], call["weight"], call["bias"], call["stride"],
                               call["padding"], call["dilation"], call["transposed"],
                               call["output_padding"], call["groups"]});
        });
  for (size_t rank = 1; rank <= 3; ++rank)
    add_forms(table, rank);
}

} // namespace tsc::ops
