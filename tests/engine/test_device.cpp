#include "test_device.h"

#include <cstdlib>
#include <cstring>

namespace tsc_engine {

void *TestDevice::allocate(size_t bytes) {
  void *memory = std::aligned_alloc(256, (bytes + 256) / 256 * 256);
  live.insert(memory);
  ++allocations;
  return memory;
}
void TestDevice::release(void *memory) {
  if (live.erase(memory) != 1)
    std::abort(); // released twice, or not ours
  std::free(memory);
}
void TestDevice::upload(void *to, const void *from, size_t bytes, Stream) {
  std::memcpy(to, from, bytes);
}
void TestDevice::download(void *to, const void *from, size_t bytes, Stream) {
  std::memcpy(to, from, bytes);
}
void TestDevice::copy(void *to, const void *from, size_t bytes, Stream) {
  std::memcpy(to, from, bytes);
}
void TestDevice::fill(void *memory, int byte, size_t bytes, Stream) {
  std::memset(memory, byte, bytes);
}

void TestDevice::make_tensor_map(const TensorMapShape &shape, const void *address, void *map) {
  ++maps;
  last_map = shape;
  std::memset(map, 0x5A, kTensorMapBytes);
  std::memcpy(map, &address, sizeof(address));
}
void TestDevice::launch(size_t kernel, const LaunchGeometry &geometry, void **arguments, Stream) {
  if (launches++ == fail_at_launch)
    throw Error(Status::device, "the device is tired");
  last_geometry = geometry;
  const void *in = *static_cast<const void **>(arguments[0]);
  void *out = *static_cast<void **>(arguments[1]);
  int64_t n = *static_cast<int64_t *>(arguments[2]);
  if (kernel == 1 && maps > 0) { // of the kernel's input, behind its parameters
    const auto *map = static_cast<const unsigned char *>(arguments[3]);
    map_launches += *static_cast<const void *const *>(arguments[3]) == in && map[127] == 0x5A;
  }
  for (int64_t i = 0; i < n; ++i) {
    const auto *in_f32 = static_cast<const float *>(in);
    auto *out_f32 = static_cast<float *>(out);
    if (kernel == 0)
      out_f32[i] = 2 * in_f32[i];
    else if (kernel == 1)
      out_f32[i] = in_f32[i] + 1;
    else if (kernel == 2)
      out_f32[i] = in_f32[i] > 0 ? in_f32[i] : 0;
    else
      static_cast<int64_t *>(out)[i] = static_cast<const int64_t *>(in)[i] + 1;
  }
}

size_t TestDevice::prepare_matmul(const MatmulShape &shape) {
  ++prepared;
  shapes_.push_back(shape);
  return shapes_.size() - 1;
}

size_t TestDevice::matmul_scratch_bytes(size_t plan) { return plan % 2 == 0 ? 96 : 1000; }

void TestDevice::matmul(size_t plan, const void *a, const void *b, const void *c, void *out,
                        void *scratch, Stream) {
  if (reinterpret_cast<uintptr_t>(scratch) % 256 != 0)
    throw Error(Status::internal, "scratch memory is not aligned");
  // What the scratch memory overlaps is destroyed.
  std::memset(scratch, 0x7F, matmul_scratch_bytes(plan));
  const MatmulShape &shape = shapes_[plan];
  auto at = [](const void *p, const MatmulShape::Strides &strides, int64_t i, int64_t j) {
    return static_cast<const float *>(p)[i * strides.row + j * strides.column];
  };
  for (int64_t i = 0; i < shape.m; ++i)
    for (int64_t j = 0; j < shape.n; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < shape.k; ++k)
        sum += double(at(a, shape.a, i, k)) * double(at(b, shape.b, k, j));
      double bias = shape.has_c ? shape.beta * double(at(c, shape.c, i, j)) : 0;
      static_cast<float *>(out)[i * shape.out.row + j * shape.out.column] =
          static_cast<float>(shape.alpha * sum + bias);
    }
}

} // namespace tsc_engine
