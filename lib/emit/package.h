// A compiled model as one file: programs with their kernels' texts, compiled code, weights.
#pragma once

#include "program/kernel_images.h"
#include "program/program.h"
#include "tensor/host_tensor.h"

#include <span>
#include <string>
#include <vector>

namespace tsc::emit {

/// The first member of the archive: as JSON, which programs, code and weights the others are.
inline constexpr const char *kPackageMark = "tsc-package";
inline constexpr const char *kPackageEnding = ".tsc";

struct Package {
  std::vector<program::Program> plans;
  std::vector<program::KernelImages> images; // by plan
  tensor::TensorMap weights;                 // mapped, not copied
};

/// True for the name of a package that is to be written.
bool names_package(const std::string &path);
/// True if there is a package at `path`.
bool is_package(const std::string &path);
/// Written aside and renamed: stored members that can be mapped; the first lists all others.
/// `images` by plan; `weights` may be empty. Errors: UserError (usage) TSC-E070 if something
/// else stands there, (bad_input) TSC-T005.
void write_package(std::span<const program::Program> plans,
                   std::span<const program::KernelImages> images, const tensor::TensorMap &weights,
                   const std::string &path);
/// A package is a program: code of whoever wrote it runs when it is loaded. What is checked is that
/// it is whole. Errors: UserError (bad_input) TSC-E071 for an archive that lacks something or holds
/// what its list does not name, TSC-T0nn, TSC-P0nn.
Package read_package(const std::string &path);

} // namespace tsc::emit
