#include "tensor/touch.h"

#include "support/thread_pool.h"

#include <algorithm>

namespace tsc::tensor {

void touch(const HostTensor &tensor) {
  constexpr size_t kSmall = 4 << 20, kPart = 8 << 20, kPage = 4096;
  const size_t bytes = tensor.size_in_bytes();
  if (!tensor.writable() || !tensor.is_contiguous() || bytes < kSmall)
    return;
  support::parallel_for((bytes + kPart - 1) / kPart, [&](size_t part) {
    for (size_t i = part * kPart; i < std::min(bytes, (part + 1) * kPart); i += kPage)
      tensor.data()[i] = std::byte(0);
  });
}

} // namespace tsc::tensor
