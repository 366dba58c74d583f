// What convolutions pass back. The gradient of the input is the opposite convolution of what comes
// from above; that of the weight is a product over all windows.
#include "ops/families/convolution.h"
#include "ops/table/memory_format.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "ops/table/term.h"

#include <algorithm>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;
using Order = std::vector<size_t>;

/// The windows of one part of the batch take this many bytes at most, written out.
constexpr int64_t kLargestColumns = int64_t{256} << 20;
constexpr int64_t kMostParts = 32;
/// Rows and columns of a group's product that no matrix product is worth.
constexpr int64_t kFewOutputs = 4;

Sizes spatial(const TensorMeta &meta) {
  return Sizes(meta.layout.sizes.begin() + 2, meta.layout.sizes.end());
}
Sizes then(Sizes sizes, const Sizes &more) {
  sizes.insert(sizes.end(), more.begin(), more.end());
  return sizes;
}
Order then(Order order, size_t first, size_t count) {
  for (size_t i = 0; i < count; ++i)
    order.push_back(first + i);
  return order;
}

/// `x` without what lies behind these spatial sizes: positions of a window that no one asks for.
Term cut_to(Term x, const Sizes &sizes) {
  for (size_t i = 0; i < sizes.size(); ++i)
    if (!same_size(x.meta().layout.sizes[i + 2], sizes[i], x.builder().ranges()))
      x = x.then("aten.slice.Tensor", {static_cast<int64_t>(i) + 2, 0, size_argument(sizes[i])});
  return x;
}

/// One tap at every position, of one group.
bool is_product(const Convolution &c) {
  const auto all = [](const Sizes &sizes, int64_t value) {
    return std::all_of(sizes.begin(), sizes.end(), [=](Expr e) { return e.is_integer(value); });
  };
  return !c.transposed && c.groups.is_integer(1) && all(c.window.kernel, 1) &&
         all(c.window.stride, 1) && all(c.window.padding, 0);
}

/// Whether `x` comes with its channels outermost, and lies so: what the graph is given does, values
/// of its own lie as their readers want them.
bool comes_outermost(const Term &x) {
  const graph::NodeRef *ref = x.value().node();
  return ref != nullptr && x.builder().graph().node(ref->id).kind == graph::NodeKind::placeholder &&
         x.meta().layout.is_contiguous();
}

/// The opposite convolution of `above`, as large as the input.
Argument of_input(GraphBuilder &builder, const Call &call, const Convolution &c,
                  const Argument &above) {
  if (is_product(c)) { // a plain one of the turned weight
    const Term turned = permuted(given(builder, call, "weight"), then({1, 0}, 2, c.rank()));
    return builder.call("aten.convolution.default",
                        {above, turned.value(), graph::None{}, call["stride"], call["padding"],
                         call["dilation"], false, call["output_padding"], call["groups"]});
  }
  const Sizes from = spatial(c.input);
  Sizes extra(c.rank(), Expr(0)); // what a transposed window does not reach by itself
  if (!c.transposed)
    for (size_t i = 0; i < c.rank(); ++i) {
      const Window &w = c.window;
      const Expr reached = (c.positions[i] - Expr(1)) * w.stride[i] - Expr(2) * w.padding[i] +
                           w.dilation[i] * (w.kernel[i] - Expr(1)) + Expr(1);
      extra[i] = symbolic::simplify(from[i] - reached, call.ranges());
    }
  const Term whole(builder, builder.call("aten.convolution.default",
                                         {above, call["weight"], graph::None{}, call["stride"],
                                          call["padding"], call["dilation"], !c.transposed,
                                          sizes_argument(extra), call["groups"]}));
  return cut_to(whole, from).value();
}

/// sum over n and p of rows[n, r, p] * slid[n, s, p * stride + k * dilation - padding] as [R, S /
/// G, kernel..]: the weight's gradient, its rows and columns named as a convolution that is not
/// transposed has them. Products have a column for each channel of each tap, as channels lie beside
/// each other in what 16-bit convolutions read.
class WeightProduct {
public:
  WeightProduct(GraphBuilder &builder, const Convolution &c, const Term &rows, const Term &slid)
      : builder_(builder), c_(c), rows_(rows), slid_(slid), positions_(spatial(rows.meta())),
        groups_(c.groups), row_count_(symbolic::floor_div(rows.meta().layout.sizes[1], c.groups)),
        column_count_(symbolic::floor_div(slid.meta().layout.sizes[1], c.groups)) {}

  Term compute() const {
    const Sizes result = then({row_count_ * groups_, column_count_}, c_.window.kernel);
    if (symbolic::numel(rows_.meta().layout.sizes).is_integer(0))
      return filled(builder_, result, 0.0, c_.weight.dtype, c_.weight.device);
    if (!tensor::is_floating(c_.weight.dtype) || few_terms())
      return reshaped(sum_of_products(), result);
    std::vector<std::pair<int64_t, int64_t>> parts = parts_of_batch();
    if (parts.size() == 1)
      return channels_first(product(rows_, slid_));
    std::optional<Term> total;
    for (const auto &[from, to] : parts) {
      const Arguments part = {0, from, to};
      const Term one =
          product(rows_.then("aten.slice.Tensor", part), slid_.then("aten.slice.Tensor", part))
              .wide();
      total = total ? *total + one : one;
    }
    return channels_first(*total);
  }

private:
  GraphBuilder &builder_;
  const Convolution &c_;
  Term rows_, slid_;
  Sizes positions_;
  Expr groups_, row_count_, column_count_;

  Expr batch_of(const Term &x) const { return x.meta().layout.sizes[0]; }

  /// [R, S / G, kernel..] of a product's [G, R / G, taps * S / G].
  Term channels_first(const Term &x) const {
    const size_t rank = c_.rank();
    Sizes apart = then({row_count_ * groups_}, c_.window.kernel);
    apart.push_back(column_count_);
    return permuted(reshaped(x, apart), then({0, rank + 1}, 1, rank));
  }

  /// Depthwise and the like: a sum for each weight.
  bool few_terms() const {
    const Expr columns = column_count_ * c_.window.taps();
    return !groups_.is_integer(1) && row_count_.is_integer() && row_count_.value() <= kFewOutputs &&
           columns.is_integer() && columns.value() <= 64;
  }

  std::vector<std::pair<int64_t, int64_t>> parts_of_batch() const {
    const Expr one = column_count_ * groups_ * c_.window.taps() * symbolic::numel(positions_);
    const std::optional<int64_t> batch = batch_of(rows_).as_integer(), each = one.as_integer();
    if (!batch || !each || *each == 0)
      return {{0, 0}};
    const int64_t largest =
        kLargestColumns / static_cast<int64_t>(tensor::size_in_bytes(c_.weight.dtype));
    int64_t together = std::max<int64_t>(1, largest / *each);
    together = std::max(together, (*batch + kMostParts - 1) / kMostParts);
    std::vector<std::pair<int64_t, int64_t>> parts;
    for (int64_t from = 0; from < *batch; from += together)
      parts.emplace_back(from, std::min(*batch, from + together));
    return parts;
  }

  /// [G, R / G, N * positions] @ [G, N * positions, taps * S / G].
  Term product(const Term &rows, const Term &slid) const {
    const size_t rank = c_.rank();
    const Expr batch = batch_of(rows), terms = batch * symbolic::numel(positions_);
    const Expr columns = column_count_ * c_.window.taps();
    if (has_images(batch))
      return product_of_images(rows, slid);
    const Term windows(builder_,
                       windows_of(builder_, with_channels_beside(slid), positions_, c_.window, 0));
    if (groups_.is_integer(1)) {
      const Term left = reshaped(permuted(rows, then({1, 0}, 2, rank)), {row_count_, terms});
      Order order = then({0}, 2, 2 * rank);
      order.push_back(1);
      const Term right = reshaped(permuted(windows, order), {terms, columns});
      return left.then("aten.mm.default", {right.value()});
    }
    // Groups and parts of the batch are the product's batch: no library divides the terms of these.
    const int64_t parts = parts_of_terms(batch, terms, columns);
    const Expr one = symbolic::floor_div(batch, parts), all = groups_ * parts;
    const Term apart = reshaped(rows, then({parts, one, groups_, row_count_}, positions_));
    const Term left = reshaped(permuted(apart, then({2, 0, 3, 1}, 4, rank)),
                               {all, row_count_, one * symbolic::numel(positions_)});
    const Term split = reshaped(
        windows, then(then({parts, one, groups_, column_count_}, positions_), c_.window.kernel));
    Order order = then({2, 0, 1}, 4, 2 * rank);
    order.push_back(3);
    const Term right =
        reshaped(permuted(split, order), {all, one * symbolic::numel(positions_), columns});
    if (parts == 1)
      return left.then("aten.bmm.default", {right.value()});
    const bool is_narrow = tensor::is_reduced_float(c_.weight.dtype);
    const Term sums = is_narrow ? left.then("aten.bmm.dtype", {right.value(), DType::f32})
                                : left.then("aten.bmm.default", {right.value()});
    return {
        builder_,
        sum(reshaped(sums, {groups_, parts, row_count_, columns}), {1}, false).as(c_.weight.dtype)};
  }

  /// Columns have channels beside each other: what every tap reads had better have them so, too.
  Argument with_channels_beside(const Term &slid) const {
    constexpr int64_t kRun = 8; // halves, 16 bytes
    const bool pays = builder_.facilities().product_kernels &&
                      tensor::is_reduced_float(c_.weight.dtype) && column_count_.is_integer() &&
                      column_count_.value() % kRun == 0 && !c_.window.taps().is_integer(1);
    return pays ? builder_.emit("tsc.channels_inside.default", {slid.value()}) : slid.value();
  }

  /// Whether each image is a product of matrices as they lie, channels outermost, and what these
  /// give in float32, written and read, is fewer bytes than factors would be that are turned first.
  bool has_images(const Expr &batch) const {
    constexpr int64_t kFewestTerms = 256;
    const Expr positions = symbolic::numel(positions_);
    if (!builder_.facilities().product_kernels || !is_product(c_) || !batch.is_integer() ||
        !positions.is_integer() || !row_count_.is_integer() || !column_count_.is_integer() ||
        !tensor::is_reduced_float(c_.weight.dtype) || positions.value() < kFewestTerms ||
        positions.value() % 8 != 0 || !comes_outermost(rows_) || !comes_outermost(slid_))
      return false;
    const int64_t given = 2 * (row_count_.value() + column_count_.value()) * positions.value(),
                  yielded = 4 * row_count_.value() * column_count_.value();
    return yielded * 3 <= given * 2; // products of few terms are slower, too
  }
  /// [N, R, positions] @ [N, positions, S], summed over the images.
  Term product_of_images(const Term &rows, const Term &slid) const {
    const Expr batch = batch_of(rows), positions = symbolic::numel(positions_);
    const Term left = reshaped(rows, {batch, row_count_, positions}),
               right = permuted(reshaped(slid, {batch, column_count_, positions}), {0, 2, 1});
    const Term sums = left.then("aten.bmm.dtype", {right.value(), DType::f32});
    return {builder_, sum(sums, {0}, false).as(c_.weight.dtype)};
  }

  /// Into how many parts the batch is cut whose products are added up: groups have a matrix each,
  /// whose few tiles would leave most of a GPU idle for as long as the terms last.
  int64_t parts_of_terms(Expr batch, Expr terms, Expr columns) const {
    constexpr int64_t kTile = 128, kMostTiles = 264, kFewestTerms = 1024; // of a part
    if (!builder_.facilities().product_kernels || !batch.is_integer() || !terms.is_integer() ||
        !columns.is_integer() || !row_count_.is_integer() || !groups_.is_integer())
      return 1;
    const auto tiles = [](const Expr &count) { return (count.value() + kTile - 1) / kTile; };
    const int64_t one = groups_.value() * tiles(row_count_) * tiles(columns);
    int64_t parts = 1;
    for (int64_t count = 2; count <= batch.value() && count * one <= kMostTiles &&
                            terms.value() / count >= kFewestTerms;
         ++count)
      if (batch.value() % count == 0)
        parts = count;
    return parts;
  }

  /// [N, G, R / G, S / G, positions.., kernel..] summed over batch and positions.
  Term sum_of_products() const {
    const size_t rank = c_.rank();
    const Sizes ones(rank, Expr(1));
    const Expr batch = batch_of(rows_);
    const Term windows(builder_, windows_of(builder_, slid_, positions_, c_.window, 0));
    const Term right =
        reshaped(windows, then(then({batch, groups_, Expr(1), column_count_}, positions_),
                               c_.window.kernel));
    const Term left =
        reshaped(rows_, then(then({batch, groups_, row_count_, Expr(1)}, positions_), ones));
    return sum(left.wide() * right.wide(), then({0}, 4, rank), false);
  }
};

/// (of the input, of the weight, of the bias), None for what the mask leaves out.
Argument convolution_backward(GraphBuilder &builder, const Call &call) {
  const Convolution c = convolution_of(call);
  const Term above = given(builder, call, "grad_output"), input = given(builder, call, "input");
  const Sizes &given_sizes = above.meta().layout.sizes;
  bool fits = given_sizes.size() == c.result.layout.rank();
  for (size_t i = 0; fits && i < given_sizes.size(); ++i)
    fits = may_equal(given_sizes[i], c.result.layout.sizes[i], call.ranges());
  if (!fits)
    call.fail("TSC-O129",
              call.node().target + ": 'grad_output' of sizes " + print_sizes(given_sizes) +
                  " is not a gradient of the result of sizes " + print_sizes(c.result.layout.sizes),
              "give tensors of sizes that fit");
  const Arguments *mask = call["output_mask"].list();
  const auto wanted = [&](size_t i) { return mask && mask->at(i) == Argument(true); };
  Arguments results(3);
  if (wanted(0))
    results[0] = of_input(builder, call, c, above);
  if (wanted(1)) {
    const WeightProduct product = c.transposed ? WeightProduct(builder, c, input, above)
                                               : WeightProduct(builder, c, above, input);
    const bool channels_last =
        c.input.device.type != tensor::DeviceType::cuda &&
        (is_channels_last(c.input.layout) || is_channels_last(c.weight.layout));
    const Sizes &sizes = c.weight.layout.sizes;
    const Sizes strides =
        channels_last ? channels_last_strides(sizes) : tensor::contiguous_strides(sizes);
    results[1] =
        in_layout(builder, product.compute().as(c.weight.dtype), {sizes, strides, Expr(0)});
  }
  if (wanted(2)) {
    const Order dims = then({0}, 2, c.rank());
    results[2] = sum(above.wide(), dims, false).as(c.input.dtype);
  }
  return results;
}

} // namespace

void add_convolution_gradients(Table &table) {
  const std::string_view rest =
      "SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] "
      "output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)";
  table
      .add(keep_text("convolution_backward(Tensor grad_output, Tensor input, Tensor weight, "
                     "SymInt[]? bias_sizes, " +
                     std::string(rest)))
      .decompose(convolution_backward);
  table
      .add(keep_text("convolution_backward_overrideable(Tensor grad_output, Tensor input, Tensor "
                     "weight, " +
                     std::string(rest)))
      .decompose(convolution_backward);
}

} // namespace tsc::ops
