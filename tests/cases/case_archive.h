// The files of a family of recorded cases: packed as scripts/record/case_archive.py packs them, or
// unpacked.
#pragma once

#include "tensor/host_tensor.h"

#include <string>
#include <vector>

namespace tsc::testing {

struct CaseFiles {
  std::string graphs;        // the text of graphs.json: a list of {"name", "model"}
  tensor::TensorMap tensors; // by the names of tests/cases/README.md; every bit as recorded
};

/// tests/cases/FAMILY/graphs.json and tensors.safetensors where that folder is there, else
/// tests/cases/FAMILY.zip. Throws where neither is, or where the archive contradicts itself.
CaseFiles read_case_files(const std::string &family);

/// The names of all families, sorted.
std::vector<std::string> case_families();

} // namespace tsc::testing
