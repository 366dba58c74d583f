// Discrete Fourier transforms along one dimension as real matrix products over the parts of complex
// numbers: docs/complex.md says what they cost.
#include "ops/families/fourier.h"

#include "ops/table/complex_calls.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

constexpr int64_t kMostDirect = 64;    // a composite length is split into factors up to this
constexpr int64_t kMostPrime = 1024;   // a prime length is one product up to this
constexpr int64_t kMostProducts = 128; // of a real transform in one product

Argument reshape(GraphBuilder &builder, const Argument &x, const Sizes &sizes) {
  return builder.call("aten.reshape.default", {x, sizes_argument(sizes)});
}

Argument places(GraphBuilder &builder, int64_t count, tensor::Device device) {
  return builder.call("prims.iota.default", {count},
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
  const Argument row = builder.call("aten.unsqueeze.default", {places(builder, rows, device), 1});
  const Argument product = builder.call(kMul, {row, places(builder, columns, device)});
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

/// The largest divisor of n up to `most`; 1 if there is none.
int64_t largest_factor(int64_t n, int64_t most) {
  for (int64_t factor = std::min(n, most); factor > 1; --factor)
    if (n % factor == 0)
      return factor;
  return 1;
}

/// The first of the factors that a transform of length n is split into; 1 for primes. Where two
/// factors up to the most do, those of the least sum: it is what the products cost.
int64_t first_factor(int64_t n) {
  int64_t best = largest_factor(n, kMostDirect);
  for (int64_t factor = 2; factor <= kMostDirect && factor < n; ++factor)
    if (n % factor == 0 && n / factor <= kMostDirect &&
        (n / best > kMostDirect || factor + n / factor < best + n / best))
      best = factor;
  return best;
}

class Transform {
public:
  Transform(GraphBuilder &builder, DType part, tensor::Device device, double sign)
      : builder_(builder), part_(part), device_(device), sign_(sign) {}

  /// Of the last dimension of a complex tensor, whose size is n, times `scale`.
  Argument of_complex(const Argument &x, int64_t n, double scale) const {
    const int64_t factor = first_factor(n);
    if (n <= kMostDirect || (factor == 1 && n <= kMostPrime))
      return direct(x, n, scale);
    return factor == 1 ? by_chirp(x, n, scale) : by_factors(x, n, factor, scale);
  }

  /// Of the last dimension of a real tensor: the first `kept` results, complex.
  Argument of_real(const Argument &x, int64_t n, int64_t kept, double scale) const {
    const int64_t factor = first_factor(n);
    if (n <= kMostProducts || (factor == 1 && n <= kMostPrime)) {
      const Roots root = roots(builder_, n, n, kept, sign_, device_);
      const Argument matrix = stacked(builder_, root.cosine, root.sine, -1);
      const Argument typed = convert(
          builder_, reshape(builder_, scaled(matrix, scale), {Expr(n), Expr(2 * kept)}), part_);
      return rows_as_complex(builder_, times_matrix(builder_, x, typed));
    }
    const Argument whole = of_complex(convert(builder_, x, dtype_of_parts(part_)), n, scale);
    return builder_.call("aten.slice.Tensor", {whole, -1, 0, kept});
  }

  /// The real result, of size n, of the half of a spectrum that a real signal has: [.., n/2 + 1].
  Argument to_real(const Argument &x, int64_t n, double scale) const {
    const int64_t half = n / 2 + 1;
    if (n <= kMostProducts) {
      // The other half is its mirror: all but what mirrors itself counts twice.
      const Roots root = roots(builder_, n, half, n, sign_, device_);
      const Argument place =
          builder_.call("aten.unsqueeze.default", {places(builder_, half, device_), 1});
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
    const Argument mirrored = builder_.call("aten.slice.Tensor", {x, -1, 1, n - half + 1});
    const Argument rest = builder_.call(
        "aten.flip.default", {builder_.call("aten.conj.default", {mirrored}), Arguments{-1}});
    const Argument whole = builder_.call("aten.cat.default", {Arguments{x, rest}, -1});
    return builder_.call("tsc.real_part.default", {of_complex(whole, n, scale)});
  }

private:
  GraphBuilder &builder_;
  DType part_;
  tensor::Device device_;
  double sign_;

  Argument scaled(const Argument &x, double scale) const {
    return scale == 1 ? x : builder_.call(kMul, {x, scale});
  }

  Argument direct(const Argument &x, int64_t n, double scale) const {
    if (n == 1)
      return scaled(x, scale);
    const Roots root = roots(builder_, n, n, n, sign_, device_);
    const Argument matrix = matrix_of_parts(builder_, root, scale, n, n, part_);
    return rows_as_complex(builder_, times_matrix(builder_, parts_in_rows(builder_, x), matrix));
  }

  /// n = a b, element j = b j1 + j2, result k = k1 + a k2: transforms of length a, a turn by
  /// j2 k1 parts of the circle, transforms of length b.
  Argument by_factors(const Argument &x, int64_t n, int64_t a, double scale) const {
    const int64_t b = n / a;
    Sizes sizes = builder_.meta(x).layout.sizes;
    sizes.back() = Expr(a);
    sizes.emplace_back(b);
    const Argument columns = moved(builder_, reshape(builder_, x, sizes), -2, -1); // [.., j2, j1]
    const Argument first = of_complex(columns, a, 1);                              // [.., j2, k1]
    const Roots turn = roots(builder_, n, b, a, sign_, device_);
    const Argument factor =
        builder_.call("aten.complex.default",
                      {convert(builder_, turn.cosine, part_), convert(builder_, turn.sine, part_)});
    const Argument turned = moved(builder_, builder_.call(kMul, {first, factor}), -2, -1);
    const Argument second = of_complex(turned, b, scale); // [.., k1, k2]
    sizes.pop_back();
    sizes.back() = Expr(n);
    return reshape(builder_, moved(builder_, second, -2, -1), sizes);
  }

  /// A length with a large prime as a convolution with a chirp (Bluestein): jk = (j^2 + k^2 -
  /// (k - j)^2) / 2.
  Argument by_chirp(const Argument &x, int64_t n, double scale) const {
    int64_t m = 1;
    while (m < 2 * n - 1)
      m *= 2;
    const Argument place = places(builder_, n, device_);
    const Argument square =
        builder_.call("aten.remainder.Tensor", {builder_.call(kMul, {place, place}), 2 * n});
    const Argument angle = builder_.call(kMul, {convert(builder_, square, DType::f64),
                                                sign_ * std::numbers::pi / static_cast<double>(n)});
    const auto typed = [&](std::string_view function) {
      return convert(builder_, builder_.call(function, {angle}), part_);
    };
    const Argument chirp = builder_.call("aten.complex.default",
                                         {typed("aten.cos.default"), typed("aten.sin.default")});
    const auto padded = [&](const Argument &values) {
      return builder_.call("aten.constant_pad_nd.default", {values, Arguments{0, m - n}, 0});
    };
    // The chirp's conjugate at distances -(n - 1) .. n - 1, around a circle of m places.
    const Argument back = builder_.call("aten.conj.default", {chirp});
    const Argument before = builder_.call(
        "aten.flip.default", {builder_.call("aten.slice.Tensor", {back, 0, 1, n}), Arguments{0}});
    const Argument gap = builder_.call("aten.full.default", {Arguments{m - 2 * n + 1}, 0},
                                       {{"dtype", dtype_of_parts(part_)}, {"device", device_}});
    const Argument around = builder_.call("aten.cat.default", {Arguments{back, gap, before}, 0});
    const Transform forward(builder_, part_, device_, -1), backward(builder_, part_, device_, 1);
    const Argument spectrum = forward.of_complex(around, m, 1.0 / static_cast<double>(m));
    const Argument turned = padded(builder_.call(kMul, {x, chirp}));
    const Argument product = builder_.call(kMul, {forward.of_complex(turned, m, 1), spectrum});
    const Argument whole = backward.of_complex(product, m, 1);
    const Argument kept = builder_.call("aten.slice.Tensor", {whole, -1, 0, n});
    return scaled(builder_.call(kMul, {kept, chirp}), scale);
  }
};

/// A transform takes float32 and float64; its length is a number above 0.
int64_t length_of(const Call &call, Expr size) {
  if (!size.is_integer())
    call.refuse("TSC-O153", call.node().target + " of a dimension of size " + symbolic::print(size),
                "export the graph with a fixed size of this dimension");
  if (size.value() < 1)
    call.fail("TSC-O154",
              call.node().target + ": a transform of " + symbolic::print(size) + " elements",
              "give a length of 1 or more");
  return size.value();
}

Transform transform(GraphBuilder &builder, const Call &call, const Argument &x, bool forward) {
  const TensorMeta meta = builder.meta(x);
  const DType part = part_dtype(meta.dtype);
  if (part != DType::f32 && part != DType::f64)
    call.refuse("TSC-O150",
                call.node().target + " of " + std::string(tensor::torch_name(meta.dtype)) +
                    " is not supported",
                "convert to float32 first");
  return {builder, part, meta.device, forward ? -1.0 : 1.0};
}

double scale_of(Scaling scaling, int64_t n) {
  const auto count = static_cast<double>(n);
  return scaling == Scaling::none      ? 1
         : scaling == Scaling::by_root ? 1 / std::sqrt(count)
                                       : 1 / count;
}

Expr size_at(GraphBuilder &builder, const Argument &x, size_t dim) {
  return builder.meta(x).layout.sizes[dim];
}

} // namespace

Argument fourier_of_complex(GraphBuilder &builder, const Call &call, Argument x,
                            const std::vector<size_t> &dims, Scaling scaling, bool forward) {
  for (const size_t dim : dims) {
    const int64_t n = length_of(call, size_at(builder, x, dim));
    const auto at = static_cast<int64_t>(dim);
    const Argument last = moved(builder, x, at, -1);
    const Argument result =
        transform(builder, call, x, forward).of_complex(last, n, scale_of(scaling, n));
    x = moved(builder, result, -1, at);
  }
  return x;
}

Argument fourier_of_real(GraphBuilder &builder, const Call &call, const Argument &x, size_t dim,
                         Scaling scaling, bool forward, bool onesided) {
  const int64_t n = length_of(call, size_at(builder, x, dim));
  const auto at = static_cast<int64_t>(dim);
  const Argument last = moved(builder, x, at, -1);
  const Argument result = transform(builder, call, x, forward)
                              .of_real(last, n, onesided ? n / 2 + 1 : n, scale_of(scaling, n));
  return moved(builder, result, -1, at);
}

Argument fourier_to_real(GraphBuilder &builder, const Call &call, const Argument &x, size_t dim,
                         Expr size, Scaling scaling) {
  const int64_t n = length_of(call, size);
  const auto at = static_cast<int64_t>(dim);
  const Argument half =
      builder.call("aten.slice.Tensor", {moved(builder, x, at, -1), -1, 0, n / 2 + 1});
  const Argument result = transform(builder, call, x, false).to_real(half, n, scale_of(scaling, n));
  return moved(builder, result, -1, at);
}

} // namespace tsc::ops
