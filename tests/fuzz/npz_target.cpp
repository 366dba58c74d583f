// .npz archives, and single .npy files as they stand in a folder.
#include "check_tensors.h"
#include "tensor/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto owner = std::make_shared<std::string>(reinterpret_cast<const char *>(data), size);
  try {
    if (tsc::tensor::ZipArchive::is_zip(*owner)) {
      for (const auto &entry : tsc::tensor::parse_tensors(owner, *owner, "fuzz"))
        tsc::fuzz::check_tensor(entry.second);
    } else {
      const auto *bytes = reinterpret_cast<const std::byte *>(owner->data());
      tsc::fuzz::check_tensor(tsc::tensor::parse_npy({owner, bytes, owner->size()}, "fuzz"));
    }
  } catch (const tsc::support::UserError &) {
  }
  return 0;
}
