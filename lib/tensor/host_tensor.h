// Tensors in host memory, and the files that hold them.
#pragma once

#include "tensor/dtype.h"

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tsc::tensor {

/// A strided view of shared bytes. The bytes may be a mapped file; writable() says whether `data`
/// may be written.
class HostTensor {
public:
  HostTensor() = default;
  /// Allocates contiguous, 64-byte aligned, uninitialized memory.
  HostTensor(DType dtype, std::vector<int64_t> sizes);
  /// A view of `bytes` (kept alive by `owner`). Strides in elements, offset in bytes already
  /// applied. Precondition: every element lies inside what `owner` holds.
  HostTensor(DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides,
             std::shared_ptr<void> owner, std::byte *data, bool writable);

  DType dtype() const { return dtype_; }
  const std::vector<int64_t> &sizes() const { return sizes_; }
  const std::vector<int64_t> &strides() const { return strides_; } // elements
  int64_t numel() const;
  size_t size_in_bytes() const; // numel * element size
  bool is_contiguous() const;
  HostTensor contiguous() const; // this if contiguous, else a copy
  HostTensor clone() const;      // always a contiguous, writable copy
  std::byte *data() const { return data_; }
  bool writable() const { return writable_; }

  /// Element at `index` (row-major position in [0, numel)), as a double; int64 beyond 2^53 loses
  /// bits.
  double get_double(int64_t index) const;
  int64_t get_int64(int64_t index) const;
  /// Stores with PyTorch's cast from double (or int64) to dtype().
  void set_double(int64_t index, double value);
  void set_int64(int64_t index, int64_t value);

private:
  DType dtype_ = DType::f32;
  std::vector<int64_t> sizes_, strides_;
  std::shared_ptr<void> owner_;
  std::byte *data_ = nullptr;
  bool writable_ = true;
  bool contiguous_ = true; // computed once: element access depends on it
  int64_t offset_of(int64_t index) const;
};

/// Name -> tensor, in name order.
using TensorMap = std::map<std::string, HostTensor>;

/// Reads .safetensors, .npz or a folder of .npy, recognized by content. .safetensors payloads are
/// mapped, not copied. Errors: UserError TSC-T0nn (bad_input) with the path and byte offset. Memory
/// use is bounded by the file's size.
TensorMap read_tensors(const std::string &path);
/// The same from memory, for .safetensors and .npz; `owner` keeps `bytes` alive, `label` stands for
/// the path.
TensorMap parse_tensors(const std::shared_ptr<void> &owner, std::string_view bytes,
                        const std::string &label);
/// Writes .safetensors, .npz (stored), or a folder of .npy, by the ending of `path` (none: a
/// folder). Written aside, then renamed. "-": .safetensors to standard output.
void write_tensors(const std::string &path, const TensorMap &tensors);

/// Deterministic random data, the same bytes on every machine (counter-based; no <random>
/// distributions). `fan_in` > 0 scales floats by 1/sqrt(fan_in); `low`..`high` bound integers
/// (inclusive); bool is a coin.
struct RandomSpec {
  uint64_t seed = 0;
  double scale = 1.0;
  bool positive = false; // variances
  int64_t low = 0, high = 1;
};
HostTensor random_tensor(DType dtype, std::vector<int64_t> sizes, const RandomSpec &spec);

/// How far `actual` is from `expected` (recorded, in its dtype) under the agreement rule of
/// docs/numbers.md: ints and bools exact; NaN and inf in the same places; relative norm within
/// `norm_bound`; every element within `ulps` units in the last place of dtype at its row's rms plus
/// 3 * eager_error.
struct Agreement {
  bool ok = false;
  double norm_error = 0; // ||a - e|| / ||e|| over finite elements
  double norm_bound = 0;
  double worst_element = 0; // largest |a - e| / allowed
  int64_t worst_index = -1; // row-major
  int64_t nonfinite = 0;    // elements of `expected` that are not finite
  std::string reason;       // "" when ok; else one sentence with both values
};
struct AgreementRule {
  double norm_bound = 0; // 0: by dtype, 1e-5 fp32, 5e-3 fp16, 2e-2 bf16 (whole model)
  double ulps = 0;       // 0: 16 for f32 and f64, 4 else
};
/// `reference` is float64 (or recorded in a wider dtype) if there is one, else null: then
/// `expected` serves. Rows are the last dimension.
Agreement compare(const HostTensor &actual, const HostTensor &expected, const HostTensor *reference,
                  const AgreementRule &rule = {});

} // namespace tsc::tensor
