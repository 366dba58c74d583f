// Program -> folder: kernel sources, wrapper with the C ABI, support layer, CMakeLists,
// program.json, weights.
#pragma once

#include "program/program.h"
#include "tensor/host_tensor.h"

namespace tsc::emit {

struct EmitOptions {
  /// Weights to write into the folder (weights.safetensors); may be empty.
  const tensor::TensorMap *weights = nullptr;
};
/// Writes `folder` aside and renames it. An existing folder is replaced only if it is empty or was
/// written by tsc (it holds program.json); otherwise UserError (usage) TSC-E001.
void emit(const program::Program &program, const std::string &folder, const EmitOptions &options);

/// True if `path` is such a folder.
bool is_emitted_folder(const std::string &path);
program::Program read_emitted_program(const std::string &folder);
tensor::TensorMap read_emitted_weights(const std::string &folder); // empty if there are none

} // namespace tsc::emit
