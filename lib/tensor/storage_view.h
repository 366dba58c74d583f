// Tensors as strided views of storages: what PyTorch's own files hold.
#pragma once

#include "tensor/host_tensor.h"
#include "tensor/zip_archive.h"

#include <optional>
#include <vector>

namespace tsc::tensor {

/// Sizes, strides and offset count elements.
struct StorageView {
  DType dtype = DType::f32;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
};

/// Bytes of storage that the view reaches, 0 if it is empty; nothing if a number is negative or the
/// end leaves 64 bits. Precondition: as many strides as sizes.
std::optional<int64_t> bytes_reached(const StorageView &view);

/// A stored value may be expanded to many elements (strides of 0); beyond this many bytes, and
/// beyond its storage's, that is no tensor but a trap.
constexpr int64_t kMaxRepeatedBytes = int64_t{1} << 32;

/// The tensor over `storage`, not copied unless the storage is not aligned to its elements.
/// Precondition: bytes_reached(view) is at most storage.size.
HostTensor view_storage(const Payload &storage, const StorageView &view);

} // namespace tsc::tensor
