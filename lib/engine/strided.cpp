#include "engine/engine.h"

#include <cstring>

namespace tsc_engine {
namespace {

/// Calls visit(offset in elements) for every element in row-major order.
template <class Visit>
void for_each_offset(size_t rank, const int64_t *sizes, const int64_t *strides, int64_t offset,
                     const Visit &visit) {
  for (size_t i = 0; i < rank; ++i)
    if (sizes[i] == 0)
      return;
  std::vector<int64_t> index(rank, 0);
  for (;;) {
    visit(offset);
    size_t axis = rank;
    while (axis-- > 0) {
      offset += strides[axis];
      if (++index[axis] < sizes[axis])
        break;
      offset -= strides[axis] * sizes[axis];
      index[axis] = 0;
    }
    if (axis == SIZE_MAX)
      return;
  }
}

} // namespace

void scatter_to_strided(void *storage, const void *contiguous, size_t element_bytes, size_t rank,
                        const int64_t *sizes, const int64_t *strides, int64_t offset) {
  const char *from = static_cast<const char *>(contiguous);
  for_each_offset(rank, sizes, strides, offset, [&](int64_t element) {
    std::memcpy(static_cast<char *>(storage) + static_cast<size_t>(element) * element_bytes, from,
                element_bytes);
    from += element_bytes;
  });
}

void gather_from_strided(void *contiguous, const void *storage, size_t element_bytes, size_t rank,
                         const int64_t *sizes, const int64_t *strides, int64_t offset) {
  char *to = static_cast<char *>(contiguous);
  for_each_offset(rank, sizes, strides, offset, [&](int64_t element) {
    std::memcpy(to,
                static_cast<const char *>(storage) + static_cast<size_t>(element) * element_bytes,
                element_bytes);
    to += element_bytes;
  });
}

bool is_contiguous(const std::vector<int64_t> &sizes, const std::vector<int64_t> &strides) {
  int64_t expected = 1;
  for (size_t axis = sizes.size(); axis-- > 0;) {
    if (sizes[axis] == 0)
      return true;
    if (sizes[axis] != 1 && strides[axis] != expected)
      return false;
    expected *= sizes[axis];
  }
  return true;
}

} // namespace tsc_engine
