// A device that computes nothing and checks everything: for fuzzing what leads up to the kernels.
#pragma once

#include "engine/device.h"

#include <vector>

namespace tsc::fuzz {

/// Memory is the host's (so that a sanitizer sees every copy) and bounded; a launch runs nothing; a
/// product touches the first and last element of its operands.
class BoundedDevice final : public tsc_engine::Device {
public:
  explicit BoundedDevice(size_t max_bytes) : left_(max_bytes) {}
  bool is_host() const override { return true; }
  void *allocate(size_t bytes) override;
  void release(void *memory) override;
  void upload(void *to, const void *from_host, size_t bytes, tsc_engine::Stream) override;
  void download(void *to_host, const void *from, size_t bytes, tsc_engine::Stream) override;
  void copy(void *to, const void *from, size_t bytes, tsc_engine::Stream) override;
  void fill(void *memory, int byte, size_t bytes, tsc_engine::Stream) override;
  void synchronize(tsc_engine::Stream) override {}
  void launch(size_t, const tsc_engine::LaunchGeometry &, void **, tsc_engine::Stream) override {}
  size_t prepare_matmul(const tsc_engine::MatmulShape &shape) override;
  size_t matmul_scratch_bytes(size_t) override { return 64; }
  void matmul(size_t plan, const void *a, const void *b, const void *c, void *out, void *scratch,
              tsc_engine::Stream) override;

private:
  size_t left_; // bytes; what was released does not come back
  std::vector<tsc_engine::MatmulShape> plans_;
};

} // namespace tsc::fuzz
