// The .npy format, versions 1 to 3. Internal to lib/tensor.
#pragma once

#include "tensor/host_tensor.h"
#include "tensor/zip_archive.h"

namespace tsc::tensor {

/// A tensor over the payload (copied only if it is not aligned to its elements). NumPy has no
/// bfloat16: a 2-byte void ("V2") is read as one, as ml_dtypes and PyTorch users save it. `place`
/// names the file or member. Errors: UserError TSC-T020 (malformed header), TSC-T021 (too short),
/// TSC-T022 (unsupported dtype).
HostTensor parse_npy(const Payload &payload, const std::string &place);
/// Magic, version 1.0 and the header dictionary, padded to 64 bytes. bfloat16 is written as "<V2".
/// Throws UserError (unsupported) TSC-T022 for dtypes that NumPy lacks.
std::string npy_header(const HostTensor &tensor, const std::string &name);

} // namespace tsc::tensor
