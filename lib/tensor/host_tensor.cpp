#include "tensor/host_tensor.h"

#include "support/diagnostic.h"
#include "support/text.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace tsc::tensor {

namespace {

constexpr size_t kAlignment = 64; // bytes: a cache line, and what the widest host vectors want
/// Bytes of the system's large pages, which tensors of at least two are asked for: a first write to
/// each of 200,000 small ones takes longer than bringing 800 MB from a GPU.
constexpr size_t kLargePage = size_t{1} << 21;

/// Uninitialized; null if there is none.
void *allocate(size_t bytes) {
  const bool is_large = bytes >= 2 * kLargePage;
  const size_t unit = is_large ? kLargePage : kAlignment;
  const size_t whole = std::max(unit, (bytes + unit - 1) / unit * unit);
  void *memory = whole < bytes ? nullptr : std::aligned_alloc(unit, whole);
  if (memory != nullptr && is_large)
    madvise(memory, whole, MADV_HUGEPAGE); // a wish
  return memory;
}

int64_t product(const std::vector<int64_t> &sizes) {
  int64_t result = 1;
  for (int64_t size : sizes)
    result *= size;
  return result;
}

std::vector<int64_t> row_major_strides(const std::vector<int64_t> &sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= sizes[i] > 1 ? sizes[i] : 1;
  }
  return strides;
}

bool is_row_major(const std::vector<int64_t> &sizes, const std::vector<int64_t> &strides) {
  int64_t expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 0)
      return true;
    if (sizes[i] != 1 && strides[i] != expected)
      return false;
    expected *= sizes[i];
  }
  return true;
}

/// Throws unless no size is negative and the bytes fit int64, empty dimensions counted as 1 (as
/// strides do).
void check_sizes(DType dtype, const std::vector<int64_t> &sizes) {
  auto bytes = static_cast<int64_t>(tensor::size_in_bytes(dtype));
  for (int64_t size : sizes) {
    support::require(size >= 0, "HostTensor", "a size is negative");
    support::require(size == 0 || !__builtin_mul_overflow(bytes, size, &bytes), "HostTensor",
                     "a tensor of more than 2^63 bytes");
  }
}

[[noreturn]] void throw_out_of_memory(DType dtype, const std::vector<int64_t> &sizes,
                                      size_t bytes) {
  std::vector<std::string> parts;
  for (int64_t size : sizes)
    parts.push_back(std::to_string(size));
  throw support::UserError(
      support::ExitCode::device,
      {.code = "TSC-R001",
       .message = "out of memory: a tensor " + std::string(torch_name(dtype)).substr(6) + "[" +
                  support::join(parts, ", ") + "] needs " + std::to_string(bytes) + " bytes",
       .next_step = "free memory, raise its limit (ulimit -v), or use smaller sizes"});
}

template <class T> T load(const std::byte *at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T> void store(std::byte *at, T value) { std::memcpy(at, &value, sizeof value); }

[[noreturn]] void throw_unsupported_element(DType dtype, const char *what) {
  support::Diagnostic diagnostic;
  diagnostic.code = "TSC-T003";
  diagnostic.message =
      std::string(what) + " of " + std::string(torch_name(dtype)) + " are not supported";
  diagnostic.next_step = "convert the tensor to float32 before saving it";
  throw support::UserError(support::ExitCode::unsupported, diagnostic);
}

double load_double(DType dtype, const std::byte *at) {
  switch (dtype) {
  case DType::boolean:
    return load<uint8_t>(at) != 0 ? 1.0 : 0.0;
  case DType::u8:
    return load<uint8_t>(at);
  case DType::i8:
    return load<int8_t>(at);
  case DType::i16:
    return load<int16_t>(at);
  case DType::i32:
    return load<int32_t>(at);
  case DType::i64:
    return static_cast<double>(load<int64_t>(at));
  case DType::u16:
    return load<uint16_t>(at);
  case DType::u32:
    return load<uint32_t>(at);
  case DType::u64:
    return static_cast<double>(load<uint64_t>(at));
  case DType::f16:
    return f16_to_float(load<uint16_t>(at));
  case DType::bf16:
    return bf16_to_float(load<uint16_t>(at));
  case DType::f32:
    return load<float>(at);
  case DType::f64:
    return load<double>(at);
  case DType::f8e4m3fn:
  case DType::f8e5m2:
  case DType::f8e4m3fnuz:
  case DType::f8e5m2fnuz:
  case DType::f8e8m0fnu:
    return f8_to_float(dtype, load<uint8_t>(at));
  case DType::c64:
  case DType::c128:
    break;
  }
  throw_unsupported_element(dtype, "elements");
}

int64_t load_int64(DType dtype, const std::byte *at) {
  if (dtype == DType::i64)
    return load<int64_t>(at);
  if (dtype == DType::u64)
    return static_cast<int64_t>(load<uint64_t>(at));
  return std::get<int64_t>(cast_scalar(load_double(dtype, at), DType::i64));
}

void store_int64(DType dtype, std::byte *at, int64_t value) {
  switch (dtype) {
  case DType::boolean:
    return store<uint8_t>(at, value != 0 ? 1 : 0);
  case DType::u8:
  case DType::i8:
    return store(at, static_cast<uint8_t>(value));
  case DType::i16:
  case DType::u16:
    return store(at, static_cast<uint16_t>(value));
  case DType::i32:
  case DType::u32:
    return store(at, static_cast<uint32_t>(value));
  case DType::i64:
  case DType::u64:
    return store(at, value);
  case DType::f16:
    return store(at, float_to_f16(static_cast<float>(value)));
  case DType::bf16:
    return store(at, float_to_bf16(static_cast<float>(value)));
  case DType::f32:
    return store(at, static_cast<float>(value));
  case DType::f64:
    return store(at, static_cast<double>(value));
  default:
    if (is_float8(dtype))
      return store(at, float_to_f8(dtype, static_cast<float>(value)));
    throw_unsupported_element(dtype, "stores");
  }
}

void store_double(DType dtype, std::byte *at, double value) {
  switch (dtype) {
  case DType::boolean:
    return store<uint8_t>(at, value != 0 ? 1 : 0);
  case DType::f16:
    return store(at, float_to_f16(static_cast<float>(value)));
  case DType::bf16:
    return store(at, float_to_bf16(static_cast<float>(value)));
  case DType::f32:
    return store(at, static_cast<float>(value));
  case DType::f64:
    return store(at, value);
  case DType::u64:
    if (value >= 9223372036854775808.0 && value < 18446744073709551616.0)
      return store(at, static_cast<uint64_t>(value));
    break;
  default:
    break;
  }
  if (is_float8(dtype))
    return store(at, float_to_f8(dtype, static_cast<float>(value)));
  if (!is_integral(dtype))
    throw_unsupported_element(dtype, "stores");
  store_int64(dtype, at, std::get<int64_t>(cast_scalar(value, DType::i64)));
}

} // namespace

HostTensor::HostTensor(DType dtype, std::vector<int64_t> sizes)
    : dtype_(dtype), sizes_(std::move(sizes)) {
  check_sizes(dtype_, sizes_);
  strides_ = row_major_strides(sizes_);
  void *memory = allocate(size_in_bytes());
  if (memory == nullptr)
    throw_out_of_memory(dtype_, sizes_, size_in_bytes());
  owner_ = std::shared_ptr<void>(memory, std::free);
  data_ = static_cast<std::byte *>(memory);
}

HostTensor::HostTensor(DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides,
                       std::shared_ptr<void> owner, std::byte *data, bool writable)
    : dtype_(dtype), sizes_(std::move(sizes)), strides_(std::move(strides)),
      owner_(std::move(owner)), data_(data), writable_(writable) {
  check_sizes(dtype_, sizes_);
  support::require(strides_.size() == sizes_.size(), "HostTensor",
                   "sizes and strides differ in rank");
  contiguous_ = is_row_major(sizes_, strides_);
}

int64_t HostTensor::numel() const { return product(sizes_); }

size_t HostTensor::size_in_bytes() const {
  return static_cast<size_t>(numel()) * tensor::size_in_bytes(dtype_);
}

bool HostTensor::is_contiguous() const { return contiguous_; }

HostTensor HostTensor::contiguous() const { return is_contiguous() ? *this : clone(); }

HostTensor HostTensor::clone() const {
  HostTensor copy(dtype_, sizes_);
  if (is_contiguous()) {
    if (size_in_bytes() != 0)
      std::memcpy(copy.data_, data_, size_in_bytes());
    return copy;
  }
  size_t bytes = tensor::size_in_bytes(dtype_);
  for (int64_t i = 0, count = numel(); i < count; ++i)
    std::memcpy(copy.data_ + static_cast<size_t>(i) * bytes,
                data_ + offset_of(i) * static_cast<int64_t>(bytes), bytes);
  return copy;
}

int64_t HostTensor::offset_of(int64_t index) const {
  if (contiguous_)
    return index;
  int64_t offset = 0;
  for (size_t i = sizes_.size(); i-- > 0;) {
    offset += index % sizes_[i] * strides_[i];
    index /= sizes_[i];
  }
  return offset;
}

double HostTensor::get_double(int64_t index) const {
  auto bytes = static_cast<int64_t>(tensor::size_in_bytes(dtype_));
  return load_double(dtype_, data_ + offset_of(index) * bytes);
}

int64_t HostTensor::get_int64(int64_t index) const {
  auto bytes = static_cast<int64_t>(tensor::size_in_bytes(dtype_));
  return load_int64(dtype_, data_ + offset_of(index) * bytes);
}

void HostTensor::set_double(int64_t index, double value) {
  support::require(writable_, "HostTensor::set_double", "the tensor is read-only");
  auto bytes = static_cast<int64_t>(tensor::size_in_bytes(dtype_));
  store_double(dtype_, data_ + offset_of(index) * bytes, value);
}

void HostTensor::set_int64(int64_t index, int64_t value) {
  support::require(writable_, "HostTensor::set_int64", "the tensor is read-only");
  auto bytes = static_cast<int64_t>(tensor::size_in_bytes(dtype_));
  store_int64(dtype_, data_ + offset_of(index) * bytes, value);
}

} // namespace tsc::tensor
