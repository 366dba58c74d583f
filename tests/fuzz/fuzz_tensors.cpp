// .safetensors and .npz: reading may refuse, never crash, and every element that is promised can be
// read.
#include "support/diagnostic.h"
#include "tensor/host_tensor.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto owner = std::make_shared<std::string>(reinterpret_cast<const char *>(data), size);
  try {
    for (const auto &entry : tsc::tensor::parse_tensors(owner, *owner, "fuzz")) {
      const tsc::tensor::HostTensor &tensor = entry.second;
      if (tsc::tensor::is_complex(tensor.dtype()) || tensor.numel() == 0)
        continue;
      tensor.get_double(0);
      tensor.get_double(tensor.numel() - 1);
      tensor.clone();
    }
  } catch (const tsc::support::UserError &) {
    return 0;
  }
  return 0;
}
