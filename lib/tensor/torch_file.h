// Files of torch.save that hold a dict of plain tensors: a zip archive of a pickle and storages.
#pragma once

#include "tensor/host_tensor.h"
#include "tensor/zip_archive.h"

#include <string>

namespace tsc::tensor {

/// True if the archive is laid out as torch.save does it: ROOT/data.pkl and its kin.
bool is_torch_file(const ZipArchive &archive);

/// Tensors are views of the archive's storages, tied ones of one storage. Nothing of the pickle is
/// executed (torch_pickle.h). `label` stands for the file in messages. Errors: UserError as of
/// ZipArchive and read_pickled_tensors; (bad_input) TSC-T042 (a storage is missing or too short),
/// (unsupported) TSC-T043 (big-endian).
TensorMap parse_torch_file(const ZipArchive &archive, const std::string &label);

} // namespace tsc::tensor
