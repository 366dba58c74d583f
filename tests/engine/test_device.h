// A device of host memory whose kernels are those of tests/program/sample_program.h, written out in
// C++.
#pragma once

#include "engine/device.h"

#include <set>

namespace tsc_engine {

class TestDevice : public Device {
public:
  bool is_host() const override { return true; }
  void *allocate(size_t bytes) override;
  void release(void *memory) override;
  void upload(void *to, const void *from, size_t bytes, Stream stream) override;
  void download(void *to, const void *from, size_t bytes, Stream stream) override;
  void copy(void *to, const void *from, size_t bytes, Stream stream) override;
  void fill(void *memory, int byte, size_t bytes, Stream stream) override;
  void synchronize(Stream) override {}
  void launch(size_t kernel, const LaunchGeometry &geometry, void **arguments,
              Stream stream) override;
  size_t prepare_matmul(const MatmulShape &shape) override;
  size_t matmul_scratch_bytes(size_t plan) override;
  void matmul(size_t plan, const void *a, const void *b, const void *c, void *out, void *scratch,
              Stream stream) override;

  void make_tensor_map(const TensorMapShape &shape, const void *address, void *map) override;

  std::set<void *> live;
  size_t allocations = 0, prepared = 0, launches = 0;
  size_t maps = 0, map_launches = 0; // launches that found their map
  TensorMapShape last_map;
  size_t fail_at_launch = SIZE_MAX;
  LaunchGeometry last_geometry;

private:
  std::vector<MatmulShape> shapes_;
};

} // namespace tsc_engine
