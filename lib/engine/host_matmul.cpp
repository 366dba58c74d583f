#include "engine/host_matmul.h"

#include "engine/host_blas.h"
#include "engine/host_threads.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace tsc_engine {
namespace {

// Element types. `Stored` is what lies in memory, `Value` what is computed with.

float float_from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
uint32_t bits_from_float(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

template <class T> struct Plain {
  using Stored = T;
  // Unsigned 64-bit arithmetic wraps around, and its low bits are those of every integer type.
  using Value = std::conditional_t<std::is_floating_point_v<T>, T, uint64_t>;
  static Value load(T stored) { return static_cast<Value>(stored); }
  static T store(Value value) { return static_cast<T>(value); }
  static Value scalar(double value) {
    if constexpr (std::is_floating_point_v<T>)
      return static_cast<Value>(value);
    else
      return static_cast<Value>(static_cast<int64_t>(value));
  }
};

struct Bf16 {
  using Stored = uint16_t;
  using Value = float;
  static float load(uint16_t stored) { return float_from_bits(uint32_t(stored) << 16); }
  static uint16_t store(float value) {
    uint32_t bits = bits_from_float(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
      return static_cast<uint16_t>(bits >> 16 | 0x40u);
    return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
  }
  static float scalar(double value) { return static_cast<float>(value); }
};

struct F16 {
  using Stored = uint16_t;
  using Value = float;
  static float load(uint16_t stored) {
    const uint32_t sign = uint32_t(stored & 0x8000u) << 16, magnitude = stored & 0x7fffu;
    if (magnitude >= 0x7c00u) // infinity, NaN
      return float_from_bits(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    // As an f32 whose exponent is off by 112: exact for normal and subnormal numbers alike.
    return float_from_bits(sign | bits_from_float(float_from_bits(magnitude << 13) * 0x1p112f));
  }
  static uint16_t store(float value) {
    const uint32_t bits = bits_from_float(value);
    const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
      return static_cast<uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x477ff000u) // rounds to 65536 or more
      return static_cast<uint16_t>(sign | 0x7c00u);
    if (magnitude <
        0x38800000u) { // subnormal: adding 0.5 leaves multiples of 2^-24 in the low bits
      float shifted = float_from_bits(magnitude) + 0.5f;
      return static_cast<uint16_t>(sign | (bits_from_float(shifted) - 0x3f000000u));
    }
    const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
  static float scalar(double value) { return static_cast<float>(value); }
};

/// The bits of an 8-bit float as an f32 whose exponent is too small: e4m3fn and e5m2.
template <int Mantissa, int Bias, unsigned Largest> struct Float8 {
  using Stored = uint8_t;
  using Value = float;
  static float load(uint8_t stored) {
    const uint32_t sign = uint32_t(stored & 0x80u) << 24, rest = stored & 0x7fu,
                   shifted = rest << (23 - Mantissa);
    if (rest > Largest)
      return float_from_bits(sign | 0x7f800000u | shifted);
    return float_from_bits(
        sign | bits_from_float(float_from_bits(shifted) * float_from_bits((254u - Bias) << 23)));
  }
};

using Strides = MatmulShape::Strides;

/// Memory that is not cleared first.
template <class T> class Scratch {
public:
  explicit Scratch(int64_t count) : values_(new T[static_cast<size_t>(count)]) {}
  T *data() const { return values_.get(); }

private:
  std::unique_ptr<T[]> values_;
};

/// rows x columns elements into row-major memory.
template <class Type>
void pack(typename Type::Value *packed, const typename Type::Stored *from, const Strides &strides,
          int64_t rows, int64_t columns) {
  // Walks along the memory where only rows are adjacent.
  if (strides.row == 1 && strides.column != 1) {
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t i = 0; i < rows; ++i)
        packed[i * columns + j] = Type::load(from[i + j * strides.column]);
    return;
  }
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      packed[i * columns + j] = Type::load(from[i * strides.row + j * strides.column]);
}

/// out = alpha * sums + beta * c for a row-major block of sums, c and out of `Type`.
template <class Type>
void store_block(const typename Type::Value *sums, const MatmulShape &shape,
                 const typename Type::Stored *c, typename Type::Stored *out, int64_t rows,
                 int64_t columns) {
  const auto alpha = Type::scalar(shape.alpha), beta = Type::scalar(shape.beta);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      auto value = alpha * sums[i * columns + j];
      if (c)
        value += beta * Type::load(c[i * shape.c.row + j * shape.c.column]);
      out[i * shape.out.row + j * shape.out.column] = Type::store(value);
    }
  }
}

template <class Value>
void multiply_rows(const Value *a, const Value *b, Value *sums, int64_t rows, int64_t columns,
                   int64_t depth) {
  for (int64_t i = 0; i < rows; ++i) {
    Value *row = sums + i * columns;
    std::fill(row, row + columns, Value(0));
    for (int64_t l = 0; l < depth; ++l) {
      const Value factor = a[i * depth + l];
      for (int64_t j = 0; j < columns; ++j)
        row[j] += factor * b[l * columns + j];
    }
  }
}

void gemm(const HostBlas &blas, bool ta, bool tb, int m, int n, int k, double alpha, const float *a,
          int lda, const float *b, int ldb, double beta, float *out, int ldo) {
  blas.sgemm(ta, tb, m, n, k, static_cast<float>(alpha), a, lda, b, ldb, static_cast<float>(beta),
             out, ldo);
}
void gemm(const HostBlas &blas, bool ta, bool tb, int m, int n, int k, double alpha,
          const double *a, int lda, const double *b, int ldb, double beta, double *out, int ldo) {
  blas.dgemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, out, ldo);
}

/// Row-major sums = a b.
template <class Value>
void multiply(const Value *a, const Value *b, Value *sums, int64_t rows, int64_t columns,
              int64_t depth, unsigned threads) {
  if constexpr (std::is_floating_point_v<Value>) {
    if (const HostBlas *blas = host_blas()) {
      const auto m = static_cast<int>(rows), n = static_cast<int>(columns),
                 k = static_cast<int>(depth);
      return gemm(*blas, false, false, m, n, k, 1, a, k, b, n, 0, sums, n);
    }
  }
  HostThreads::shared()->run(rows, threads, [&](unsigned, int64_t begin, int64_t end) {
    multiply_rows(a + begin * depth, b, sums + begin * columns, end - begin, columns, depth);
  });
}

/// How CBLAS sees a matrix, if it can: one stride is 1 and the other a leading dimension.
struct Leading {
  bool possible = false, transposed = false;
  int dimension = 0;
};
Leading leading(const Strides &strides, int64_t rows, int64_t columns) {
  constexpr int64_t kMost = INT32_MAX;
  Leading result;
  if ((strides.column == 1 || columns == 1) && (strides.row >= columns || rows == 1)) {
    const int64_t dimension = std::max(rows == 1 ? columns : strides.row, columns);
    result = {dimension <= kMost, false, static_cast<int>(dimension)};
  } else if ((strides.row == 1 || rows == 1) && (strides.column >= rows || columns == 1)) {
    const int64_t dimension = std::max(columns == 1 ? rows : strides.column, rows);
    result = {dimension <= kMost, true, static_cast<int>(dimension)};
  }
  return result;
}

/// The whole product in one CBLAS call, without copies; false if the strides do not allow it.
template <class T>
bool multiply_in_place(const MatmulShape &shape, const T *a, const T *b, const T *c, T *out) {
  const HostBlas *blas = host_blas();
  if (!blas)
    return false;
  const Leading la = leading(shape.a, shape.m, shape.k), lb = leading(shape.b, shape.k, shape.n),
                lo = leading(shape.out, shape.m, shape.n);
  if (shape.k == 0 || !la.possible || !lb.possible || !lo.possible)
    return false;
  if (std::max({shape.m, shape.n, shape.k}) > INT32_MAX)
    return false;
  if (c && c != out) {
    for (int64_t i = 0; i < shape.m; ++i)
      for (int64_t j = 0; j < shape.n; ++j)
        out[i * shape.out.row + j * shape.out.column] = c[i * shape.c.row + j * shape.c.column];
  }
  const auto m = static_cast<int>(shape.m), n = static_cast<int>(shape.n),
             k = static_cast<int>(shape.k);
  const double beta = c ? shape.beta : 0;
  if (!lo.transposed)
    gemm(*blas, la.transposed, lb.transposed, m, n, k, shape.alpha, a, la.dimension, b,
         lb.dimension, beta, out, lo.dimension);
  else // out' = b' a'
    gemm(*blas, !lb.transposed, !la.transposed, n, m, k, shape.alpha, b, lb.dimension, a,
         la.dimension, beta, out, lo.dimension);
  return true;
}

/// One batch, through packed blocks of at most 16 MiB each.
template <class Type, class Result>
void multiply_blocks(const MatmulShape &shape, const typename Type::Stored *a,
                     const typename Type::Stored *b, const typename Result::Stored *c,
                     typename Result::Stored *out, unsigned threads) {
  using Value = typename Type::Value;
  constexpr int64_t kBlockElements = (16 << 20) / sizeof(Value);
  const int64_t depth = shape.k;
  const int64_t block = std::clamp<int64_t>(kBlockElements / std::max<int64_t>(depth, 1), 32, 1024);
  const int64_t rows = std::min(block, shape.m), columns = std::min(block, shape.n);
  const Scratch<Value> packed_a(rows * depth), packed_b(depth * columns), sums(rows * columns);
  for (int64_t j = 0; j < shape.n; j += columns) {
    const int64_t width = std::min(columns, shape.n - j);
    pack<Type>(packed_b.data(), b + j * shape.b.column, shape.b, depth, width);
    for (int64_t i = 0; i < shape.m; i += rows) {
      const int64_t height = std::min(rows, shape.m - i);
      pack<Type>(packed_a.data(), a + i * shape.a.row, shape.a, height, depth);
      if (depth == 0)
        std::fill(sums.data(), sums.data() + height * width, Value(0));
      else
        multiply(packed_a.data(), packed_b.data(), sums.data(), height, width, depth, threads);
      store_block<Result>(sums.data(), shape,
                          c ? c + i * shape.c.row + j * shape.c.column : nullptr,
                          out + i * shape.out.row + j * shape.out.column, height, width);
    }
  }
}

template <class Type, class Result = Type>
void multiply_batches(const MatmulShape &shape, const void *a_memory, const void *b_memory,
                      const void *c_memory, void *out_memory, unsigned threads) {
  using Stored = typename Type::Stored;
  using Written = typename Result::Stored;
  const auto *a = static_cast<const Stored *>(a_memory), *b = static_cast<const Stored *>(b_memory);
  const auto *c = static_cast<const Written *>(shape.has_c && shape.beta != 0 ? c_memory : nullptr);
  auto *out = static_cast<Written *>(out_memory);
  for (int64_t i = 0; i < shape.batch; ++i) {
    const Stored *batch_a = a + i * shape.a.batch, *batch_b = b + i * shape.b.batch;
    const Written *batch_c = c ? c + i * shape.c.batch : nullptr;
    Written *batch_out = out + i * shape.out.batch;
    if constexpr (std::is_same_v<Stored, float> || std::is_same_v<Stored, double>) {
      if (multiply_in_place(shape, batch_a, batch_b, batch_c, batch_out))
        continue;
    }
    multiply_blocks<Type, Result>(shape, batch_a, batch_b, batch_c, batch_out, threads);
  }
}

/// Factors of `Type`, whose sums are stored as f32 if the product is wide.
template <class Type>
void multiply_narrow(const MatmulShape &shape, const void *a, const void *b, const void *c,
                     void *out, unsigned threads) {
  if (shape.wide)
    return multiply_batches<Type, Plain<float>>(shape, a, b, c, out, threads);
  multiply_batches<Type>(shape, a, b, c, out, threads);
}

} // namespace

void host_matmul(const MatmulShape &shape, const void *a, const void *b, const void *c, void *out,
                 unsigned threads) {
  if (shape.batch == 0 || shape.m == 0 || shape.n == 0)
    return;
  switch (shape.dtype) {
  case DType::boolean:
    throw Error(Status::bad_argument, "a matrix product of booleans");
  case DType::u8:
    return multiply_batches<Plain<uint8_t>>(shape, a, b, c, out, threads);
  case DType::i8:
    if (shape.wide)
      return multiply_batches<Plain<int8_t>, Plain<int32_t>>(shape, a, b, c, out, threads);
    return multiply_batches<Plain<int8_t>>(shape, a, b, c, out, threads);
  case DType::i16:
    return multiply_batches<Plain<int16_t>>(shape, a, b, c, out, threads);
  case DType::i32:
    return multiply_batches<Plain<int32_t>>(shape, a, b, c, out, threads);
  case DType::i64:
    return multiply_batches<Plain<int64_t>>(shape, a, b, c, out, threads);
  case DType::u16:
    return multiply_batches<Plain<uint16_t>>(shape, a, b, c, out, threads);
  case DType::u32:
    return multiply_batches<Plain<uint32_t>>(shape, a, b, c, out, threads);
  case DType::u64:
    return multiply_batches<Plain<uint64_t>>(shape, a, b, c, out, threads);
  case DType::f16:
    return multiply_narrow<F16>(shape, a, b, c, out, threads);
  case DType::bf16:
    return multiply_narrow<Bf16>(shape, a, b, c, out, threads);
  case DType::f32:
    return multiply_batches<Plain<float>>(shape, a, b, c, out, threads);
  case DType::f64:
    return multiply_batches<Plain<double>>(shape, a, b, c, out, threads);
  case DType::f8e4m3fn:
    if (shape.wide)
      return multiply_batches<Float8<3, 7, 0x7e>, Plain<float>>(shape, a, b, c, out, threads);
    break;
  case DType::f8e5m2:
    if (shape.wide)
      return multiply_batches<Float8<2, 15, 0x7b>, Plain<float>>(shape, a, b, c, out, threads);
    break;
  default:
    break;
  }
  throw Error(Status::internal, "a matrix product of an unknown element type");
}

} // namespace tsc_engine
