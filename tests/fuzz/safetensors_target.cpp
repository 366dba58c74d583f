// .safetensors as tsc reads it (the support layer of emitted folders has a reader of its own: the
// target program).
#include "check_tensors.h"
#include "tensor/file_parts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto owner = std::make_shared<std::string>(reinterpret_cast<const char *>(data), size);
  if (!tsc::tensor::is_safetensors(*owner))
    return 0;
  try {
    for (const auto &entry : tsc::tensor::parse_tensors(owner, *owner, "fuzz"))
      tsc::fuzz::check_tensor(entry.second);
  } catch (const tsc::support::UserError &) {
  }
  return 0;
}
