// Schedule -> Program: a kernel plan per group, then its text under both plans, then buffers and
// steps.
#pragma once

#include "codegen/tuning.h"
#include "ir/ir.h"
#include "program/program.h"
#include "scheduler/schedule.h"
#include "target/target.h"

namespace tsc::codegen {

struct CodegenOptions {
  const target::Target *target = nullptr; // required
  Tuning *tuning = nullptr;               // what to choose, and what could be; or null
};
program::Program generate(const ir::Module &module, const scheduler::Schedule &schedule,
                          const CodegenOptions &options);

/// Files that kernel texts include, by name ("tsc_prelude.h"), embedded at build time from
/// codegen/prelude/.
struct PreludeFile {
  std::string_view name;
  std::string_view text;
};
const std::vector<PreludeFile> &prelude_files();

/// The first lines of a translation unit of kernels: includes of tsc_prelude.h and of what else the
/// texts include, each once. They stand outside of the scopes that kernels are put in.
std::string prelude_includes(const std::vector<std::string_view> &texts);

} // namespace tsc::codegen
