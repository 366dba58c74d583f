// Many programs on one device, their kernels compiled together: the start-up of the compiler is
// most of what a small program costs.
#pragma once

#include "program/program.h"
#include "runtime/session.h"

#include <functional>
#include <memory>
#include <vector>

namespace tsc::differential {

class ProgramBatch {
public:
  /// The programs must outlive the batch. Errors: those of Session::create that are about
  /// compiling; which program is at fault is not known.
  ProgramBatch(std::vector<const program::Program *> programs,
               const runtime::SessionOptions &options);
  ~ProgramBatch();
  ProgramBatch(ProgramBatch &&) noexcept;

  size_t size() const;
  /// Program number `number`, ready to run; must not outlive the batch. Errors: those of
  /// Session::create about weights.
  std::unique_ptr<runtime::Session> session(size_t number, const tensor::TensorMap &weights) const;

private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Makes batches of programs, halving them where the kernels of a whole one do not compile. Calls
/// `ready` with each batch and the positions of its programs in `programs`, and `failed`, inside a
/// catch block, with the position of a program that does not compile alone.
void make_batches(
    const std::vector<const program::Program *> &programs, const runtime::SessionOptions &options,
    const std::function<void(const ProgramBatch &, const std::vector<size_t> &)> &ready,
    const std::function<void(size_t)> &failed);

} // namespace tsc::differential
