#include "tensor/complex_memory.h"

#include "support/diagnostic.h"

#include <algorithm>
#include <memory>

namespace tsc::tensor {
namespace {

HostTensor seen_as(const HostTensor &tensor, DType dtype, std::vector<int64_t> sizes) {
  const auto kept = std::make_shared<HostTensor>(tensor.contiguous());
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<int64_t>(sizes[i], 1);
  return {dtype, std::move(sizes), std::move(strides), kept, kept->data(), kept->writable()};
}

} // namespace

HostTensor as_real(const HostTensor &tensor) {
  if (!is_complex(tensor.dtype()))
    return tensor;
  std::vector<int64_t> sizes = tensor.sizes();
  sizes.push_back(2);
  return seen_as(tensor, tensor.dtype() == DType::c128 ? DType::f64 : DType::f32, sizes);
}

HostTensor as_complex(const HostTensor &tensor) {
  std::vector<int64_t> sizes = tensor.sizes();
  const bool fits = !sizes.empty() && sizes.back() == 2 &&
                    (tensor.dtype() == DType::f32 || tensor.dtype() == DType::f64);
  support::require(fits, "tensor", "no complex numbers lie so");
  sizes.pop_back();
  return seen_as(tensor, tensor.dtype() == DType::f64 ? DType::c128 : DType::c64, sizes);
}

} // namespace tsc::tensor
