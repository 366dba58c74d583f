#include "tensor/storage_view.h"

#include "support/diagnostic.h"

#include <algorithm>
#include <cstring>

namespace tsc::tensor {

std::optional<int64_t> bytes_reached(const StorageView &view) {
  int64_t last = view.offset;
  bool wrong = last < 0, empty = false;
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    int64_t size = view.sizes[i], stride = view.strides[i], step = 0;
    wrong = wrong || size < 0 || stride < 0;
    empty = empty || size == 0;
    wrong = wrong || __builtin_mul_overflow(std::max<int64_t>(size - 1, 0), stride, &step) ||
            __builtin_add_overflow(last, step, &last);
  }
  auto element = static_cast<int64_t>(size_in_bytes(view.dtype));
  wrong = wrong || __builtin_add_overflow(last, int64_t{1}, &last) ||
          __builtin_mul_overflow(last, element, &last);
  if (wrong)
    return std::nullopt;
  return empty ? 0 : last;
}

HostTensor view_storage(const Payload &storage, const StorageView &view) {
  std::optional<int64_t> reached = bytes_reached(view);
  support::require(reached && static_cast<uint64_t>(*reached) <= storage.size, "view_storage",
                   "the view leaves its storage");
  if (*reached == 0) // an empty tensor: its offset may lie outside
    return HostTensor(view.dtype, view.sizes);
  auto element = static_cast<int64_t>(size_in_bytes(view.dtype));
  std::shared_ptr<void> owner = storage.owner;
  // Mapped pages are read-only; nothing writes to a tensor that is not writable().
  auto *data = const_cast<std::byte *>(storage.data);
  // torch aligns storages to 64 bytes; another writer's may not even be aligned to their elements.
  if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(std::min<int64_t>(element, 8)) !=
      0) {
    HostTensor copy(DType::u8, {*reached});
    std::memcpy(copy.data(), data, static_cast<size_t>(*reached));
    data = copy.data();
    owner = std::make_shared<HostTensor>(std::move(copy));
  }
  return HostTensor(view.dtype, view.sizes, view.strides, std::move(owner),
                    data + view.offset * element, false);
}

} // namespace tsc::tensor
