// Compiles kernels' text as the CUDA device does, with its own options. Only for test programs that
// link NVRTC.
#pragma once

#include "codegen/generate.h"
#include "engine/cuda_compiler.h"
#include "testing/catch.h"

#include <nvrtc.h>

#include <string>
#include <vector>

namespace tsc::testing {

struct NvrtcUnit {
  std::string log, ptx;
};

/// `text` against the prelude, for `arch` ("sm_90"), with ptxas's report of registers and spills in
/// the log. Fails the test, showing the log, if it does not compile.
inline NvrtcUnit compile_with_nvrtc(const std::string &text, const std::string &arch) {
  std::vector<std::string> names, texts;
  std::vector<const char *> name_pointers, text_pointers;
  for (const codegen::PreludeFile &file : codegen::prelude_files()) {
    names.emplace_back(file.name);
    texts.emplace_back(file.text);
  }
  for (size_t i = 0; i < names.size(); ++i) {
    name_pointers.push_back(names[i].c_str());
    text_pointers.push_back(texts[i].c_str());
  }
  nvrtcProgram program = nullptr;
  REQUIRE(nvrtcCreateProgram(&program, text.c_str(), "kernels.cu", static_cast<int>(names.size()),
                             text_pointers.data(), name_pointers.data()) == NVRTC_SUCCESS);
  std::vector<std::string> option_texts = tsc_engine::cuda_compiler_options(arch);
  option_texts.emplace_back("--ptxas-options=-v");
  std::vector<const char *> options;
  for (const std::string &option : option_texts)
    options.push_back(option.c_str());
  const nvrtcResult result =
      nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
  NvrtcUnit unit;
  size_t size = 0;
  nvrtcGetProgramLogSize(program, &size);
  unit.log.resize(size);
  nvrtcGetProgramLog(program, unit.log.data());
  INFO(unit.log);
  REQUIRE(result == NVRTC_SUCCESS);
  nvrtcGetPTXSize(program, &size);
  unit.ptx.resize(size);
  nvrtcGetPTX(program, unit.ptx.data());
  nvrtcDestroyProgram(&program);
  return unit;
}

} // namespace tsc::testing
