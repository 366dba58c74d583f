// Programs of libtsc_api.so on the host, run as tests of several threads and processes do.
#pragma once

#include "api/tsc_api.h"

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tsc {

struct Destroy {
  void operator()(TscApiProgram *program) const { tsc_api_destroy(program); }
};
using HostProgram = std::unique_ptr<TscApiProgram, Destroy>;

/// Null if it fails: then tsc_api_error() says why.
inline HostProgram compile_host(const std::string &graph, const std::string &options) {
  TscApiProgram *program = nullptr;
  tsc_api_compile(graph.data(), graph.size(), "test.json", options.c_str(), &program);
  return HostProgram(program);
}

/// Memory of `bytes` that runs take: whole pages' worth of alignment.
class Memory {
public:
  explicit Memory(size_t bytes) : bytes_(bytes + 256) {}
  char *data() {
    const auto at = reinterpret_cast<uintptr_t>(bytes_.data());
    return bytes_.data() + (256 - at % 256);
  }

private:
  std::vector<char> bytes_;
};

/// What a run gives for inputs of these sizes, all of float32 or int64 (0, 1, 2, ... mod 7): the
/// outputs' bytes, one after the other; else, behind "error ", what tsc_api_error() says.
inline std::string run_host(TscApiProgram *program,
                            const std::vector<std::vector<int64_t>> &input_sizes) {
  const auto failed = [] { return std::string("error ") + tsc_api_error(); };
  size_t inputs = 0, outputs = 0, workspace_bytes = 0;
  if (tsc_api_count(program, &inputs, &outputs) != TSC_API_OK || inputs != input_sizes.size())
    return "error of the test's inputs";
  std::vector<TscApiTensor> tensors;
  for (size_t i = 0; i < inputs; ++i) {
    int32_t dtype = 0;
    tsc_api_input_info(program, i, nullptr, &dtype, nullptr);
    tensors.push_back({nullptr, dtype, static_cast<int32_t>(input_sizes[i].size()),
                       input_sizes[i].data(), nullptr});
  }
  if (tsc_api_bind(program, tensors.data(), inputs, &workspace_bytes) != TSC_API_OK)
    return failed();
  std::deque<Memory> memories;
  std::vector<void *> in, out;
  std::vector<std::pair<char *, size_t>> results;
  for (size_t i = 0; i < inputs; ++i) {
    size_t bytes = 0;
    tsc_api_input(program, i, nullptr, &bytes);
    in.push_back(memories.emplace_back(bytes).data());
    if (tensors[i].dtype == 11) // float32
      for (size_t k = 0; k < bytes / 4; ++k)
        static_cast<float *>(in[i])[k] = static_cast<float>(k % 7);
    else
      for (size_t k = 0; k < bytes / 8; ++k)
        static_cast<int64_t *>(in[i])[k] = static_cast<int64_t>(k % 7);
  }
  for (size_t i = 0; i < outputs; ++i) {
    size_t bytes = 0;
    if (tsc_api_output_bytes(program, i, &bytes) != TSC_API_OK)
      return failed();
    results.emplace_back(memories.emplace_back(bytes).data(), bytes);
    out.push_back(results.back().first);
  }
  Memory workspace(workspace_bytes);
  if (tsc_api_run(program, nullptr, in.data(), out.data(), workspace.data()) != TSC_API_OK)
    return failed();
  std::string found;
  for (const auto &[data, bytes] : results)
    found.append(data, bytes);
  return found;
}

} // namespace tsc
