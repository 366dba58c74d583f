// .pt2 archives: the zip directory, the export inside, and the weights behind it.
#include "check_graph.h"
#include "tensor/zip_archive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char *>(data), size);
  if (!tsc::tensor::ZipArchive::is_zip(bytes))
    return 0;
  try {
    tsc::fuzz::check_graph(tsc::graph::parse_graph(bytes, "fuzz"));
  } catch (const tsc::support::UserError &) {
  }
  return 0;
}
