// Discrete Fourier transforms: of short lengths as real matrix products over the parts of complex
// numbers, else by a library. docs/complex.md says what they cost.
#include "ops/families/fourier.h"

#include "ops/table/complex_calls.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

constexpr int64_t kMostComplex = 32; // lengths that are one matrix product
constexpr int64_t kMostReal = 64;    // the same, of real signals
constexpr size_t kMostDims = 3;      // of a library's call

Argument reshape(GraphBuilder &builder, const Argument &x, const Sizes &sizes) {
  return builder.call("aten.reshape.default", {x, sizes_argument(sizes)});
}

Argument places(GraphBuilder &builder, Expr count, tensor::Device device) {
  return builder.call("prims.iota.default", {size_argument(count)},
                      {{"start", 0},
                       {"step", 1},
                       {"dtype", DType::i64},
                       {"device", device},
                       {"requires_grad", false}});
}

/// Dimension `dim` moved to the end, or the end to `dim`.
Argument moved(GraphBuilder &builder, const Argument &x, int64_t from, int64_t to) {
  return builder.call("aten.movedim.int", {x, from, to});
}

/// exp(2 pi i sign a b / n) over pairs of places a < rows, b < columns: cosine and sine in f64.
struct Roots {
  Argument cosine, sine;
};
Roots roots(GraphBuilder &builder, int64_t n, int64_t rows, int64_t columns, double sign,
            tensor::Device device) {
  const Argument row =
      builder.call("aten.unsqueeze.default", {places(builder, Expr(rows), device), 1});
  const Argument product = builder.call(kMul, {row, places(builder, Expr(columns), device)});
  // Of the circle's n-th parts, no more than half around: the angle is exact but for one rounding.
  const Argument part = builder.call("aten.remainder.Tensor", {product, n});
  const Argument beyond = builder.call("aten.gt.Tensor", {part, n / 2});
  const Argument nearest = builder.call(kWhere, {beyond, builder.call(kSub, {part, n}), part});
  const Argument angle = builder.call(kMul, {convert(builder, nearest, DType::f64),
                                             sign * 2 * std::numbers::pi / static_cast<double>(n)});
  return {builder.call("aten.cos.default", {angle}), builder.call("aten.sin.default", {angle})};
}

Argument stacked(GraphBuilder &builder, const Argument &a, const Argument &b, int64_t dim) {
  return builder.call("aten.stack.default", {Arguments{a, b}, dim});
}

/// The complex matrix c + is as a real one that takes rows of parts to rows of parts,
/// [2 rows, 2 columns]: (x + iy)(c + is) = (xc - ys) + i(xs + yc).
Argument matrix_of_parts(GraphBuilder &builder, const Roots &roots, double scale, int64_t rows,
                         int64_t columns, DType dtype) {
  const auto scaled = [&](const Argument &x, double factor) {
    return factor == 1 ? x : builder.call(kMul, {x, factor});
  };
  const Argument c = scaled(roots.cosine, scale), s = scaled(roots.sine, scale);
  const Argument of_real = stacked(builder, c, s, -1),
                 of_imaginary = stacked(builder, builder.call("aten.neg.default", {s}), c, -1);
  const Argument both = stacked(builder, of_real, of_imaginary, 1);
  return convert(builder, reshape(builder, both, {Expr(2 * rows), Expr(2 * columns)}), dtype);
}

/// x [.., k] times a matrix [k, m].
Argument times_matrix(GraphBuilder &builder, const Argument &x, const Argument &matrix) {
  return builder.call("aten.matmul.default", {x, matrix});
}

/// A complex tensor [.., n] as real rows [.., 2n], and back.
Argument parts_in_rows(GraphBuilder &builder, const Argument &x) {
  Sizes sizes = builder.meta(x).layout.sizes;
  sizes.back() = sizes.back() * Expr(2);
  return reshape(builder, builder.call("aten.view_as_real.default", {x}), sizes);
}
Argument rows_as_complex(GraphBuilder &builder, const Argument &rows) {
  Sizes sizes = builder.meta(rows).layout.sizes;
  sizes.back() = symbolic::floor_div(sizes.back(), Expr(2));
  sizes.emplace_back(2);
  return builder.call("aten.view_as_complex.default", {reshape(builder, rows, sizes)});
}

/// By products, along the last dimension.
class Products {
public:
  Products(GraphBuilder &builder, const Argument &x, bool forward)
      : builder_(builder), part_(part_dtype(builder.meta(x).dtype)),
        device_(builder.meta(x).device), sign_(forward ? -1.0 : 1.0) {}

  Argument of_complex(const Argument &x, int64_t n, double scale) const {
    if (n == 1)
      return scale == 1 ? x : builder_.call(kMul, {x, scale});
    const Roots root = roots(builder_, n, n, n, sign_, device_);
    const Argument matrix = matrix_of_parts(builder_, root, scale, n, n, part_);
    return rows_as_complex(builder_, times_matrix(builder_, parts_in_rows(builder_, x), matrix));
  }

  /// Of a real tensor: the first `kept` results, complex.
  Argument of_real(const Argument &x, int64_t n, int64_t kept, double scale) const {
    const Roots root = roots(builder_, n, n, kept, sign_, device_);
    const Argument matrix = stacked(builder_, root.cosine, root.sine, -1);
    const Argument scaled = scale == 1 ? matrix : builder_.call(kMul, {matrix, scale});
    const Argument typed =
        convert(builder_, reshape(builder_, scaled, {Expr(n), Expr(2 * kept)}), part_);
    return rows_as_complex(builder_, times_matrix(builder_, x, typed));
  }

  /// The real result, of size n, of the half of a spectrum that a real signal has: [.., n/2 + 1].
  Argument to_real(const Argument &x, int64_t n, double scale) const {
    const int64_t half = n / 2 + 1;
    // The other half is its mirror: all but what mirrors itself counts twice.
    const Roots root = roots(builder_, n, half, n, sign_, device_);
    const Argument place =
        builder_.call("aten.unsqueeze.default", {places(builder_, Expr(half), device_), 1});
    const Argument twin =
        builder_.call("aten.remainder.Tensor", {builder_.call("aten.neg.default", {place}), n});
    const Argument weight =
        builder_.call(kWhere, {builder_.call("aten.eq.Tensor", {place, twin}), scale, 2 * scale});
    const Argument wide = convert(builder_, weight, DType::f64);
    const Argument c = builder_.call(kMul, {root.cosine, wide}),
                   s = builder_.call(kMul, {root.sine, wide});
    const Argument matrix =
        stacked(builder_, c, builder_.call("aten.neg.default", {s}), 1); // [half, 2, n]
    const Argument typed =
        convert(builder_, reshape(builder_, matrix, {Expr(2 * half), Expr(n)}), part_);
    return times_matrix(builder_, parts_in_rows(builder_, x), typed);
  }

private:
  GraphBuilder &builder_;
  DType part_;
  tensor::Device device_;
  double sign_;
};

/// A transform takes float32 and float64, and lengths above 0.
void check_dtype(const Call &call, const TensorMeta &meta) {
  const DType part = part_dtype(meta.dtype);
  if (part != DType::f32 && part != DType::f64)
    call.refuse("TSC-O150",
                call.node().target + " of " + std::string(tensor::torch_name(meta.dtype)) +
                    " is not supported",
                "convert to float32 first");
}
void check_length(const Call &call, Expr size) {
  if (size.is_integer() && size.value() < 1)
    call.fail("TSC-O154",
              call.node().target + ": a transform of " + symbolic::print(size) + " elements",
              "give a length of 1 or more");
}

double scale_of(Scaling scaling, int64_t n) {
  const auto count = static_cast<double>(n);
  return scaling == Scaling::none      ? 1
         : scaling == Scaling::by_root ? 1 / std::sqrt(count)
                                       : 1 / count;
}

/// `x` divided by the number of elements of a transform, or its root.
Argument scaled(GraphBuilder &builder, const Argument &x, Scaling scaling, Expr count) {
  if (scaling == Scaling::none || count.is_integer(1))
    return x;
  if (count.is_integer())
    return builder.call(kMul, {x, scale_of(scaling, count.value())});
  const DType part = part_dtype(builder.meta(x).dtype);
  Argument number = builder.call("aten.full.default", {Arguments{}, size_argument(count)},
                                 {{"dtype", part}, {"device", builder.meta(x).device}});
  if (scaling == Scaling::by_root)
    number = builder.call("aten.sqrt.default", {number});
  return builder.call(kDiv, {x, number});
}

/// Dimensions `dims` moved to the end, in their order, and back.
class Order {
public:
  Order(size_t rank, const std::vector<size_t> &dims) {
    for (size_t i = 0; i < rank; ++i)
      if (std::find(dims.begin(), dims.end(), i) == dims.end())
        to_.push_back(i);
    to_.insert(to_.end(), dims.begin(), dims.end());
    back_.resize(rank);
    for (size_t i = 0; i < rank; ++i)
      back_[to_[i]] = i;
  }
  Argument moved(GraphBuilder &builder, const Argument &x) const {
    return permuted(builder, x, to_);
  }
  Argument restored(GraphBuilder &builder, const Argument &x) const {
    return permuted(builder, x, back_);
  }

private:
  std::vector<size_t> to_, back_;
  static Argument permuted(GraphBuilder &builder, const Argument &x,
                           const std::vector<size_t> &order) {
    if (std::is_sorted(order.begin(), order.end()))
      return x;
    return builder.call("aten.permute.default", {x, ints_argument(order)});
  }
};

Expr elements_of(const GraphBuilder &builder, const Argument &x, const std::vector<size_t> &dims) {
  Expr count(1);
  for (const size_t dim : dims)
    count = count * builder.meta(x).layout.sizes[dim];
  return count;
}

Argument parts_of(GraphBuilder &builder, const Argument &x) {
  return builder.call("aten.view_as_real.default", {x});
}
Argument complex_of(GraphBuilder &builder, const Argument &parts) {
  return builder.call("aten.view_as_complex.default", {parts});
}
Argument conjugate(GraphBuilder &builder, const Argument &x) {
  return builder.call("aten._conj.default", {x});
}

/// By a library, over up to kMostDims dimensions at once.
Argument complex_by_library(GraphBuilder &builder, const Argument &x,
                            const std::vector<size_t> &dims, Scaling scaling, bool forward) {
  const Order order(builder.meta(x).layout.rank(), dims);
  const Argument given = scaled(builder, x, scaling, elements_of(builder, x, dims));
  const Argument result =
      builder.call("tsc.fourier.default", {parts_of(builder, order.moved(builder, given)),
                                           static_cast<int64_t>(dims.size()), forward});
  return order.restored(builder, complex_of(builder, result));
}

/// The half spectrum of a real tensor over the last of `dims`.
Argument real_by_library(GraphBuilder &builder, const Argument &x, const std::vector<size_t> &dims,
                         Scaling scaling, bool forward) {
  const Order order(builder.meta(x).layout.rank(), dims);
  const Argument given = scaled(builder, x, scaling, elements_of(builder, x, dims));
  const Argument result = complex_of(
      builder, builder.call("tsc.fourier_of_real.default",
                            {order.moved(builder, given), static_cast<int64_t>(dims.size())}));
  return order.restored(builder, forward ? result : conjugate(builder, result));
}

/// All n elements of the last dimension of the spectrum of a real signal, of the first n/2 + 1.
Argument whole_spectrum(GraphBuilder &builder, const Argument &half, size_t dim, Expr n) {
  const auto at = static_cast<int64_t>(dim);
  const Expr kept = symbolic::floor_div(n, Expr(2)) + Expr(1);
  const Argument mirrored =
      builder.call("aten.slice.Tensor", {half, at, 1, size_argument(n - kept + Expr(1))});
  const Argument rest =
      builder.call("aten.flip.default", {conjugate(builder, mirrored), Arguments{at}});
  return builder.call("aten.cat.default", {Arguments{half, rest}, at});
}

/// Along the last dimension of half a spectrum, [.., n/2 + 1].
Argument to_real_by_library(GraphBuilder &builder, const Argument &x, Expr n, Scaling scaling) {
  const TensorMeta meta = builder.meta(x);
  // A real signal's spectrum has real elements where it is its own mirror; libraries differ in what
  // they make of others.
  const Argument place = places(builder, meta.layout.sizes.back(), meta.device);
  const Argument at_start = builder.call("aten.eq.Scalar", {place, 0});
  const Argument twice = builder.call(kMul, {place, 2});
  const Argument at_end = builder.call("aten.eq.Scalar", {twice, size_argument(n)});
  const Argument is_real = builder.call("aten.logical_or.default", {at_start, at_end});
  const Argument imaginary =
      builder.call(kWhere, {is_real, 0.0, builder.call("tsc.imaginary_part.default", {x})});
  const Argument typed = convert(builder, imaginary, part_dtype(meta.dtype));
  const Argument half =
      builder.call("aten.complex.default", {builder.call("tsc.real_part.default", {x}), typed});
  return builder.call("tsc.fourier_to_real.default",
                      {parts_of(builder, scaled(builder, half, scaling, n)), size_argument(n)});
}

bool is_long(GraphBuilder &builder, const Argument &x, size_t dim, int64_t most) {
  const Expr size = builder.meta(x).layout.sizes[dim];
  return !size.is_integer() || size.value() > most;
}

} // namespace

Argument fourier_of_complex(GraphBuilder &builder, const Call &call, Argument x,
                            const std::vector<size_t> &dims, Scaling scaling, bool forward) {
  if (dims.empty())
    return x;
  check_dtype(call, builder.meta(x));
  bool any_long = false;
  for (const size_t dim : dims) {
    check_length(call, builder.meta(x).layout.sizes[dim]);
    any_long |= is_long(builder, x, dim, kMostComplex);
  }
  if (any_long) {
    for (size_t end = dims.size(); end > 0; end -= std::min(end, kMostDims)) {
      const size_t count = std::min(end, kMostDims);
      const auto last = dims.begin() + static_cast<std::ptrdiff_t>(end);
      x = complex_by_library(builder, x,
                             std::vector<size_t>(last - static_cast<std::ptrdiff_t>(count), last),
                             scaling, forward);
    }
    return x;
  }
  for (const size_t dim : dims) {
    const int64_t n = builder.meta(x).layout.sizes[dim].value();
    const auto at = static_cast<int64_t>(dim);
    const Argument result = Products(builder, x, forward)
                                .of_complex(moved(builder, x, at, -1), n, scale_of(scaling, n));
    x = moved(builder, result, -1, at);
  }
  return x;
}

Argument fourier_of_real(GraphBuilder &builder, const Call &call, const Argument &x,
                         const std::vector<size_t> &dims, Scaling scaling, bool forward,
                         bool onesided) {
  check_dtype(call, builder.meta(x));
  bool any_long = is_long(builder, x, dims.back(), kMostReal);
  for (const size_t dim : dims) {
    check_length(call, builder.meta(x).layout.sizes[dim]);
    any_long |= dim != dims.back() && is_long(builder, x, dim, kMostComplex);
  }
  const Expr n = builder.meta(x).layout.sizes[dims.back()];
  const auto at = static_cast<int64_t>(dims.back());
  std::vector<size_t> others(dims.begin(), dims.end() - 1);
  Argument spectrum;
  if (any_long) {
    const size_t count = onesided ? std::min(dims.size(), kMostDims) : 1;
    const auto first = dims.end() - static_cast<std::ptrdiff_t>(count);
    spectrum =
        real_by_library(builder, x, std::vector<size_t>(first, dims.end()), scaling, forward);
    if (!onesided)
      spectrum = whole_spectrum(builder, spectrum, dims.back(), n);
    others.assign(dims.begin(), first);
  } else {
    const int64_t length = n.value();
    const Argument last =
        Products(builder, x, forward)
            .of_real(moved(builder, x, at, -1), length, onesided ? length / 2 + 1 : length,
                     scale_of(scaling, length));
    spectrum = moved(builder, last, -1, at);
  }
  return fourier_of_complex(builder, call, spectrum, others, scaling, forward);
}

Argument fourier_to_real(GraphBuilder &builder, const Call &call, const Argument &x, size_t dim,
                         Expr size, Scaling scaling) {
  check_dtype(call, builder.meta(x));
  check_length(call, size);
  const auto at = static_cast<int64_t>(dim);
  const Argument half = builder.call("aten.slice.Tensor",
                                     {moved(builder, x, at, -1), -1, 0,
                                      size_argument(symbolic::floor_div(size, Expr(2)) + Expr(1))});
  const bool is_short = size.is_integer() && size.value() <= kMostReal;
  const Argument result =
      is_short
          ? Products(builder, x, false).to_real(half, size.value(), scale_of(scaling, size.value()))
          : to_real_by_library(builder, half, size, scaling);
  return moved(builder, result, -1, at);
}

void add_fourier_calls(Table &table) {
  table.add("tsc::fourier(Tensor self, int dims, bool forward) -> Tensor")
      .shape([](const Call &call) {
        const TensorMeta &self = call.tensor("self");
        return contiguous_value(self.dtype, self.layout.sizes, self.device);
      })
      .lowers("fourier");
  table.add("tsc::fourier_of_real(Tensor self, int dims) -> Tensor")
      .shape([](const Call &call) {
        const TensorMeta &self = call.tensor("self");
        Sizes sizes = self.layout.sizes;
        sizes.back() = symbolic::floor_div(sizes.back(), Expr(2)) + Expr(1);
        sizes.emplace_back(2);
        return contiguous_value(self.dtype, sizes, self.device);
      })
      .lowers("fourier_of_real");
  table.add("tsc::fourier_to_real(Tensor self, SymInt length) -> Tensor")
      .shape([](const Call &call) {
        const TensorMeta &self = call.tensor("self");
        Sizes sizes = self.layout.sizes;
        sizes.pop_back();
        sizes.back() = call.size("length");
        return contiguous_value(self.dtype, sizes, self.device);
      })
      .lowers("fourier_to_real");
}

} // namespace tsc::ops
