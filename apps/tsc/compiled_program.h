// What was compiled before: a folder OUT or a package NAME.tsc.
#pragma once

#include "options.h"

#include "driver/compile.h"
#include "program/kernel_images.h"
#include "tensor/host_tensor.h"

#include <memory>
#include <string>

namespace tsc::app {

struct CompiledProgram {
  program::Program program;
  std::shared_ptr<const program::KernelImages> images; // of a package
  tensor::TensorMap weights;
};
/// The plan for --arch; or else for `preferred`, if there is one, or the first. Throws UserError
/// (usage) TSC-C030 if there is none for --arch.
CompiledProgram read_compiled(const CompileFlags &flags, const std::string &path,
                              const std::string &preferred = "");

/// What is known of such a program where a compilation is asked for: no graph and no schedule, and
/// of its sizes those that `shapes` gives. Errors: those of driver::bind_shapes.
driver::Compilation compilation_of(program::Program program, const driver::Shapes &shapes);

} // namespace tsc::app
