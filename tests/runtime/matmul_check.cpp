#include "matmul_check.h"

#include "testing/catch.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace matmul_check {
namespace {

using namespace tsc_engine;
using Strides = MatmulShape::Strides;

} // namespace

double f16_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31)
    return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * HUGE_VAL;
  return sign * (exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24));
}
double bf16_value(uint16_t bits) {
  const uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return static_cast<double>(value);
}

namespace {

/// One element type: reads and writes elements as doubles (integers small enough to be exact).
struct Access {
  DType dtype;
  size_t bytes;
  double (*get)(const void *);
  void (*put)(void *, int); // small integers: exact in every type
  bool wide = false;        // c and out are f32
};
template <class T> Access plain(DType dtype) {
  return {dtype, sizeof(T),
          [](const void *memory) {
            T value;
            std::memcpy(&value, memory, sizeof value);
            return static_cast<double>(value);
          },
          [](void *memory, int value) {
            T stored = static_cast<T>(value);
            std::memcpy(memory, &stored, sizeof stored);
          }};
}
template <uint16_t (*Encode)(int), double (*Decode)(uint16_t)> Access half(DType dtype) {
  return {dtype, 2,
          [](const void *memory) {
            uint16_t bits;
            std::memcpy(&bits, memory, 2);
            return Decode(bits);
          },
          [](void *memory, int value) {
            uint16_t bits = Encode(value);
            std::memcpy(memory, &bits, 2);
          }};
}
/// Encodes by search: the bits whose value is `value`.
template <double (*Decode)(uint16_t)> uint16_t encode(int value) {
  static const std::vector<uint16_t> table = [] {
    std::vector<uint16_t> bits(17);
    for (uint32_t candidate = 0; candidate < 65536; ++candidate)
      for (int v = -8; v <= 8; ++v)
        if (Decode(static_cast<uint16_t>(candidate)) == v && candidate != 0x8000)
          bits[static_cast<size_t>(v + 8)] = static_cast<uint16_t>(candidate);
    return bits;
  }();
  return table.at(static_cast<size_t>(value + 8));
}

Access wide(Access type) {
  type.wide = true;
  return type;
}
Access result_of(const Access &type) { return type.wide ? plain<float>(DType::f32) : type; }

const std::vector<Access> &accesses() {
  static const std::vector<Access> all = {
      plain<float>(DType::f32),
      plain<double>(DType::f64),
      half<&encode<&f16_value>, &f16_value>(DType::f16),
      half<&encode<&bf16_value>, &bf16_value>(DType::bf16),
      wide(half<&encode<&f16_value>, &f16_value>(DType::f16)),
      wide(half<&encode<&bf16_value>, &bf16_value>(DType::bf16)),
      plain<int8_t>(DType::i8),
      plain<int16_t>(DType::i16),
      plain<int32_t>(DType::i32),
      plain<int64_t>(DType::i64),
  };
  return all;
}

int64_t extent(const Strides &s, int64_t batch, int64_t rows, int64_t columns) {
  if (batch == 0 || rows == 0 || columns == 0)
    return 0;
  return (batch - 1) * s.batch + (rows - 1) * s.row + (columns - 1) * s.column + 1;
}

std::vector<char> numbers(const Access &type, int64_t count, int seed) {
  std::vector<char> memory(static_cast<size_t>(count) * type.bytes);
  for (int64_t i = 0; i < count; ++i)
    type.put(memory.data() + static_cast<size_t>(i) * type.bytes,
             static_cast<int>((i * 7 + seed) % 5) - 2);
  return memory;
}

/// Bytes in the device's memory.
class Copy {
public:
  Copy(Device &device, const std::vector<char> &bytes)
      : device_(device), data_(device.allocate(bytes.size())) {
    device.upload(data_, bytes.data(), bytes.size(), nullptr);
    device.synchronize(nullptr);
  }
  ~Copy() { device_.release(data_); }
  Copy(const Copy &) = delete;
  Copy &operator=(const Copy &) = delete;
  void *data() const { return data_; }

private:
  Device &device_;
  void *data_;
};

/// Runs `shape` and compares every element with the definition; elements between stay as they were.
void check_product(Device &device, const Access &type, MatmulShape shape) {
  shape.dtype = type.dtype;
  shape.wide = type.wide;
  const Access result = result_of(type);
  INFO("dtype " << static_cast<int>(type.dtype) << (type.wide ? " wide" : "") << " batch "
                << shape.batch << " m " << shape.m << " n " << shape.n << " k " << shape.k << " a "
                << shape.a.row << "," << shape.a.column << " b " << shape.b.row << ","
                << shape.b.column << " out " << shape.out.row << "," << shape.out.column << " beta "
                << shape.beta);
  const int64_t a_count = extent(shape.a, shape.batch, shape.m, shape.k),
                b_count = extent(shape.b, shape.batch, shape.k, shape.n),
                c_count = extent(shape.c, shape.batch, shape.m, shape.n),
                out_count = extent(shape.out, shape.batch, shape.m, shape.n);
  const auto a = numbers(type, a_count, 1), b = numbers(type, b_count, 2),
             c = numbers(result, c_count, 3), before = numbers(result, out_count, 4);
  auto out = before;
  const Copy device_a(device, a), device_b(device, b), device_c(device, c), device_out(device, out);
  const size_t plan = device.prepare_matmul(shape);
  const Copy scratch(device, std::vector<char>(device.matmul_scratch_bytes(plan)));
  device.matmul(plan, device_a.data(), device_b.data(), shape.has_c ? device_c.data() : nullptr,
                device_out.data(), scratch.data(), nullptr);
  device.download(out.data(), device_out.data(), out.size(), nullptr);
  device.synchronize(nullptr);
  const auto at = [&](const std::vector<char> &memory, int64_t i) {
    return type.get(memory.data() + static_cast<size_t>(i) * type.bytes);
  };
  const auto result_at = [&](const std::vector<char> &memory, int64_t i) {
    return result.get(memory.data() + static_cast<size_t>(i) * result.bytes);
  };
  std::vector<bool> written(static_cast<size_t>(out_count));
  int64_t wrong = 0;
  for (int64_t g = 0; g < shape.batch; ++g) {
    for (int64_t i = 0; i < shape.m; ++i) {
      for (int64_t j = 0; j < shape.n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < shape.k; ++l)
          sum += at(a, g * shape.a.batch + i * shape.a.row + l * shape.a.column) *
                 at(b, g * shape.b.batch + l * shape.b.row + j * shape.b.column);
        sum *= shape.alpha;
        if (shape.has_c)
          sum +=
              shape.beta * result_at(c, g * shape.c.batch + i * shape.c.row + j * shape.c.column);
        const int64_t place = g * shape.out.batch + i * shape.out.row + j * shape.out.column;
        written[static_cast<size_t>(place)] = true;
        wrong += result_at(out, place) != sum;
      }
    }
  }
  for (int64_t i = 0; i < out_count; ++i)
    wrong += !written[static_cast<size_t>(i)] && result_at(out, i) != result_at(before, i);
  REQUIRE(wrong == 0);
}

enum class Form { rows, columns, padded, spread };
Strides strides(Form form, int64_t rows, int64_t columns) {
  switch (form) {
  case Form::rows:
    return {columns, 1, rows * columns};
  case Form::columns:
    return {1, rows, rows * columns};
  case Form::padded:
    return {columns + 3, 1, rows * (columns + 3) + 5};
  case Form::spread: // neither stride is 1
    return {2 * columns, 2, 2 * rows * columns};
  }
  return {};
}

} // namespace

void check_strides(Device &device) {
  const Form forms[] = {Form::rows, Form::columns, Form::padded, Form::spread};
  for (const Access &type : accesses()) {
    for (Form fa : forms) {
      for (Form fb : forms) {
        for (Form fo : forms) {
          MatmulShape shape;
          shape.batch = 2;
          shape.m = 5;
          shape.n = 4;
          shape.k = 7;
          shape.a = strides(fa, 5, 7);
          shape.b = strides(fb, 7, 4);
          shape.out = strides(fo, 5, 4);
          check_product(device, type, shape);
        }
      }
    }
  }
}

void check_sizes(Device &device) {
  for (const Access &type : accesses()) {
    for (int64_t m : {0, 1, 3})
      for (int64_t n : {0, 1, 17})
        for (int64_t k : {0, 1, 33}) {
          for (Form form : {Form::rows, Form::columns, Form::spread}) {
            MatmulShape shape;
            shape.batch = 3;
            shape.m = m;
            shape.n = n;
            shape.k = k;
            shape.a = strides(form, m, k);
            shape.a.batch = 0; // one matrix for all batches
            shape.b = strides(form, k, n);
            shape.out = strides(Form::rows, m, n);
            check_product(device, type, shape);
            shape.a.row = 0; // one row for all rows
            check_product(device, type, shape);
            shape.b.column = 0;
            check_product(device, type, shape);
          }
        }
    MatmulShape none;
    none.batch = 0;
    none.m = none.n = none.k = 4;
    check_product(device, type, none);
  }
}

void check_added(Device &device) {
  for (const Access &type : accesses()) {
    for (int64_t k : {0, 6}) {
      for (Form form : {Form::rows, Form::columns, Form::spread}) {
        MatmulShape shape;
        shape.batch = 2;
        shape.m = 4;
        shape.n = 3;
        shape.k = k;
        shape.a = strides(Form::rows, 4, k);
        shape.b = strides(Form::columns, k, 3);
        shape.out = strides(Form::rows, 4, 3);
        shape.has_c = true;
        shape.c = strides(form, 4, 3);
        shape.alpha = 2;
        shape.beta = 3;
        check_product(device, type, shape);
        shape.beta = 1;
        shape.c = {0, 1, 0}; // bias
        check_product(device, type, shape);
      }
    }
  }
}

void check_large(Device &device) {
  for (const Access &type : accesses()) {
    if (type.dtype != DType::bf16 && type.dtype != DType::i32 && type.dtype != DType::f32)
      continue;
    MatmulShape shape;
    shape.batch = 1;
    shape.m = 1030;
    shape.n = 1029;
    shape.k = 3;
    shape.a = strides(Form::spread, 1030, 3);
    shape.b = strides(Form::columns, 3, 1029);
    shape.out = strides(Form::padded, 1030, 1029);
    check_product(device, type, shape);
    // Rows at multiples of 16 bytes, columns that do not fill them: alone, with a bias, with a
    // matrix added.
    shape.m = 40;
    shape.k = 24;
    shape.a = {24, 1, 0};
    shape.b = {1, 24, 0};
    shape.out = {1032, 1, 0};
    check_product(device, type, shape);
    shape.has_c = true;
    shape.beta = 1;
    shape.c = {0, 1, 0};
    check_product(device, type, shape);
    shape.c = {1032, 1, 0};
    shape.beta = 2;
    check_product(device, type, shape);
  }
}

} // namespace matmul_check
