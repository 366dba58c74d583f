#include "bounded_device.h"

#include <cstdlib>
#include <cstring>

namespace tsc::fuzz {

using tsc_engine::Error;
using tsc_engine::MatmulShape;
using tsc_engine::Status;
using tsc_engine::Stream;

namespace {

constexpr size_t kAlignment = 256; // what the engine relies on

/// Reads (and writes, if `value` is given) the first and last of rows * columns elements in `batch`
/// matrices.
void touch(const void *base, const MatmulShape::Strides &strides, int64_t batch, int64_t rows,
           int64_t columns, size_t element, bool written) {
  if (batch == 0 || rows == 0 || columns == 0)
    return;
  int64_t last =
      (batch - 1) * strides.batch + (rows - 1) * strides.row + (columns - 1) * strides.column;
  for (int64_t at : {int64_t{0}, last}) {
    auto *bytes =
        static_cast<volatile char *>(const_cast<void *>(base)) + at * static_cast<int64_t>(element);
    char first = bytes[0], end = bytes[element - 1];
    if (written) {
      bytes[0] = first;
      bytes[element - 1] = end;
    }
  }
}

} // namespace

void *BoundedDevice::allocate(size_t bytes) {
  if (bytes > left_)
    throw Error(Status::out_of_memory,
                "the device has no " + std::to_string(bytes) + " bytes left");
  left_ -= bytes;
  // Exactly as large as asked for, so that the sanitizer sees the first byte beyond.
  void *memory = nullptr;
  if (posix_memalign(&memory, kAlignment, bytes == 0 ? 1 : bytes) != 0)
    throw Error(Status::out_of_memory, "the host has no memory left");
  return memory;
}
void BoundedDevice::release(void *memory) { std::free(memory); }

void BoundedDevice::upload(void *to, const void *from_host, size_t bytes, Stream) {
  if (bytes != 0)
    std::memcpy(to, from_host, bytes);
}
void BoundedDevice::download(void *to_host, const void *from, size_t bytes, Stream) {
  if (bytes != 0)
    std::memcpy(to_host, from, bytes);
}
void BoundedDevice::copy(void *to, const void *from, size_t bytes, Stream) {
  if (bytes != 0)
    std::memmove(to, from, bytes);
}
void BoundedDevice::fill(void *memory, int byte, size_t bytes, Stream) {
  if (bytes != 0)
    std::memset(memory, byte, bytes);
}

size_t BoundedDevice::prepare_matmul(const MatmulShape &shape) {
  plans_.push_back(shape);
  return plans_.size() - 1;
}

void BoundedDevice::matmul(size_t plan, const void *a, const void *b, const void *c, void *out,
                           void *scratch, Stream) {
  const MatmulShape &shape = plans_[plan];
  const size_t element = tsc_engine::size_in_bytes(shape.dtype),
               result = shape.wide ? sizeof(float) : element;
  touch(a, shape.a, shape.batch, shape.m, shape.k, element, false);
  touch(b, shape.b, shape.batch, shape.k, shape.n, element, false);
  if (shape.has_c)
    touch(c, shape.c, shape.batch, shape.m, shape.n, result, false);
  touch(out, shape.out, shape.batch, shape.m, shape.n, result, true);
  std::memset(scratch, 0, matmul_scratch_bytes(plan));
}

} // namespace tsc::fuzz
