// What the readers of tensor files share. Internal to lib/tensor.
#pragma once

#include "support/diagnostic.h"
#include "tensor/host_tensor.h"
#include "tensor/zip_archive.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tsc::tensor {

[[noreturn]] void fail_file(const char *code, std::string message, std::string place,
                            std::string next_step = "",
                            support::ExitCode exit_code = support::ExitCode::bad_input);

/// Bytes of a tensor of these sizes; nothing if one is negative or the product (empty dimensions
/// counted as 1) leaves int64.
std::optional<uint64_t> tensor_bytes(DType dtype, const std::vector<int64_t> &sizes);

/// A tensor over payload bytes [offset, offset + its size), column-major if `fortran`. Copied if
/// the bytes are not aligned to its elements. Precondition: the range lies inside the payload and
/// tensor_bytes() has a value.
HostTensor view_payload(const Payload &payload, uint64_t offset, DType dtype,
                        std::vector<int64_t> sizes, bool fortran);

/// Calls `write` with the path of a new file beside `path`, then renames it to `path`. The file is
/// removed if `write` throws. Throws UserError (bad_input) TSC-T005 if the folder cannot be
/// written.
void write_aside(const std::string &path, const std::function<void(const std::string &)> &write);

/// Sequential output with errors checked; TSC-T005.
class OutputFile {
public:
  explicit OutputFile(const std::string &path);
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;
  void write(const void *data, size_t size);
  void close();

private:
  std::string path_;
  int descriptor_ = -1;
};

// The formats; `bytes` is the whole file.
TensorMap parse_safetensors(const Payload &bytes, const std::string &path);
bool is_safetensors(std::string_view bytes);
void write_safetensors(const std::string &path, const TensorMap &tensors);
/// The bytes of such a file, part by part: the header, then every tensor where it lies.
std::vector<Payload> safetensors_parts(const TensorMap &tensors);
TensorMap parse_npz(const ZipArchive &archive, const std::string &path);
void write_npz(const std::string &path, const TensorMap &tensors);

} // namespace tsc::tensor
