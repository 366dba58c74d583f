// Compiles kernels' text as the CUDA device does. Only for test programs that link NVRTC.
#pragma once

#include "codegen/generate.h"
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
  const std::string arch_option = "--gpu-architecture=" + arch;
  const char *options[] = {arch_option.c_str(), "--std=c++20", "--ptxas-options=-v"};
  const nvrtcResult result = nvrtcCompileProgram(program, 3, options);
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
