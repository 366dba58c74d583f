// A program made ready on a device, for callers that have the memory: what tsc_api.h hands out.
#pragma once

#include "driver/check.h"
#include "driver/compile.h"
#include "engine/engine.h"
#include "program/tables.h"
#include "runtime/engine_session.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tsc::api {

struct Options {
  driver::CompileOptions compile;
  runtime::SessionOptions session;
};
/// From the JSON of tsc_api.h; "" means none. Errors: UserError (usage) TSC-C031.
Options parse_options(std::string_view json);

class ReadyProgram {
public:
  /// Errors: those of Session::create.
  /// `kept`: whether load_weights() may later give some of the weights only. They are then mapped,
  /// or held a second time.
  ReadyProgram(const program::Program &program, const tensor::TensorMap &weights,
               const runtime::SessionOptions &options, bool kept = false);

  /// Other weights from here on: those of the file, and for names that it lacks those from before.
  /// No kernel is compiled or loaded again. What was bound has to be bound again. Errors: UserError
  /// (bad_input) TSC-R124 for every name that the program lacks, TSC-R113, those of reading the
  /// file; the program then has the weights it had.
  void load_weights(const std::string &file);

  /// JSON, as tsc_api.h says.
  const std::string &description() const { return description_; }
  tsc_engine::Instance &instance() { return *instance_; }
  const tsc_engine::Instance &instance() const { return *instance_; }
  const tsc_engine::Tables &tables() const { return tables_.tables; }

private:
  std::string describe(const program::Program &program, const runtime::Timing &timing,
                       const runtime::SessionOptions &options) const;

  runtime::ReadyDevice device_;
  program::OwnedTables tables_;
  tensor::TensorMap weights_; // the present ones, if they are kept
  std::unique_ptr<tsc_engine::Instance> instance_;
  std::string description_;
};

/// Errors: those of the passes, all in one report, and of Session::create.
std::unique_ptr<ReadyProgram> compile(std::string_view bytes, const std::string &label,
                                      const Options &options);
/// Of a folder that `tsc compile -o` wrote: the plan for what runs here.
std::unique_ptr<ReadyProgram> load(const std::string &folder, const Options &options);
/// JSON, as tsc_api.h says.
std::string check(std::string_view bytes, const std::string &label, const Options &options);

} // namespace tsc::api
