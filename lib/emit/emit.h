// Program -> folder: kernel sources, wrapper with the C ABI, support layer, CMakeLists,
// program.json, weights.
#pragma once

#include "program/kernel_images.h"
#include "program/program.h"
#include "tensor/host_tensor.h"

#include <span>
#include <vector>

namespace tsc::emit {

struct EmitOptions {
  /// Weights to write into the folder (weights.safetensors); may be empty.
  const tensor::TensorMap *weights = nullptr;
};
/// Writes `folder` aside and puts it in its place. An existing folder is taken only if it is empty
/// or was written by tsc (it holds program.json); otherwise UserError (usage) TSC-E001. What others
/// put there stays (folder_writer.h).
/// `plans`: one program or more of one graph, each for another architecture; the folder's library
/// holds all and takes the one for its device. InternalError unless they have one signature.
void emit(std::span<const program::Program> plans, const std::string &folder,
          const EmitOptions &options);
inline void emit(const program::Program &program, const std::string &folder,
                 const EmitOptions &options) {
  emit(std::span(&program, 1), folder, options);
}

/// True if `path` is such a folder or a package (package.h).
bool is_emitted(const std::string &path);
/// True if `path` is such a folder, or what is left of one.
bool is_emitted_folder(const std::string &path);
/// Errors: UserError (bad_input) TSC-E005 for every file that the folder's list names and that is
/// not there, TSC-E004 if the program cannot be read, TSC-P0nn if it is broken or of another
/// version.
std::vector<program::Program> read_emitted_plans(const std::string &folder);
tensor::TensorMap read_emitted_weights(const std::string &folder); // empty if there are none

struct EmittedFolder {
  std::vector<program::Program> plans; // one or more
  tensor::TensorMap weights;
  std::vector<program::KernelImages> images; // by plan, of a package; a folder has none
};
/// All of it, or a package; of one and the same writer however often the folder is replaced
/// meanwhile.
EmittedFolder read_emitted_folder(const std::string &folder);

} // namespace tsc::emit
