// A package (tsc compile -o NAME.tsc) or folder in a C++ program (C++20), over the C functions of
// libtsc_api.so: objects that free what they hold, exceptions with the library's text.
//
//   tsc_package::Package model("model.tsc", R"({"device": "host"})");
//   const std::vector<float> x(2 * 3);
//   const auto outputs = model.run({{x.data(), {2, 3}}});
//   std::span<const float> logits = outputs.at("logits").elements<float>();
#pragma once

#include "api/tsc_api.h"

#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tsc_package {

class Error : public std::runtime_error {
public:
  explicit Error(TscApiStatus status) : std::runtime_error(tsc_api_error()), status_(status) {}
  TscApiStatus status() const { return status_; }

private:
  TscApiStatus status_;
};

inline void need(TscApiStatus status) {
  if (status != TSC_API_OK)
    throw Error(status);
}

/// Memory of the program's device, aligned to 256 bytes.
using Allocate = std::function<std::shared_ptr<void>(size_t bytes)>;
inline std::shared_ptr<void> allocate_on_host(size_t bytes) {
  constexpr size_t kAlignment = 256;
  void *memory = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
  if (memory == nullptr)
    throw std::bad_alloc();
  return {memory, std::free};
}

/// Memory of the caller on the program's device, laid out as the program says (contiguous unless it
/// was exported otherwise) and aligned to 16 bytes; of an integer, its value in host memory.
struct Input {
  const void *data;
  std::vector<int64_t> sizes = {};
};

/// Element (i, j, ..) is at offset + i * strides[0] + j * strides[1] + .. elements of `memory`.
/// Where nothing bounds a size that the data decides, the memory is the program's, good until the
/// next run.
struct Output {
  std::shared_ptr<void> memory;
  int32_t dtype = -1; // TscDType; -1: a constant, without memory
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;

  size_t count() const {
    size_t elements = 1;
    for (const int64_t size : sizes)
      elements *= static_cast<size_t>(size);
    return elements;
  }
  /// On the host, of contiguous outputs.
  template <class T> std::span<const T> elements() const {
    return {static_cast<const T *>(memory.get()) + offset, count()};
  }
};

/// Used by one thread at a time.
class Package {
public:
  explicit Package(const std::string &path, const std::string &options = "",
                   Allocate allocate = allocate_on_host)
      : allocate_(std::move(allocate)) {
    TscApiProgram *program = nullptr;
    need(tsc_api_load(path.c_str(), options.c_str(), &program));
    program_ = {program, tsc_api_destroy};
    need(tsc_api_count(program, &input_count_, &output_count_));
  }

  /// Others from here on; names that the file lacks keep theirs.
  void load_weights(const std::string &file) {
    need(tsc_api_load_weights(program_.get(), file.c_str()));
  }

  /// Inputs in the order of the signature; outputs by path ("logits") or, without one, by name.
  std::map<std::string, Output> run(const std::vector<Input> &inputs, void *stream = nullptr) {
    bind(inputs);
    std::vector<void *> input_memory, output_memory;
    for (const Input &input : inputs)
      input_memory.push_back(const_cast<void *>(input.data)); // written if the model mutates it
    std::map<std::string, Output> outputs;
    std::vector<Output *> in_order;
    for (size_t i = 0; i < output_count_; ++i) {
      const char *name = nullptr, *path = nullptr;
      size_t rank = 0, bytes = 0;
      Output output;
      need(tsc_api_output_info(program_.get(), i, &name, &path, &output.dtype, &rank));
      output.sizes.resize(rank);
      output.strides.resize(rank);
      if (output.dtype >= 0) {
        need(tsc_api_output_bytes(program_.get(), i, &bytes));
        output.memory = allocate_(bytes);
      }
      output_memory.push_back(output.memory.get());
      in_order.push_back(&(outputs[*path != '\0' ? path : name] = std::move(output)));
    }
    need(tsc_api_run(program_.get(), stream, input_memory.data(), output_memory.data(),
                     workspace_.get()));
    need(tsc_api_check_runs(program_.get(), stream));
    for (size_t i = 0; i < output_count_; ++i) { // as they are after the run
      if (in_order[i]->dtype < 0)
        continue;
      need(tsc_api_output(program_.get(), i, in_order[i]->sizes.data(), in_order[i]->strides.data(),
                          &in_order[i]->offset));
      void *memory = nullptr;
      need(tsc_api_output_memory(program_.get(), i, output_memory[i], &memory));
      if (memory != output_memory[i])
        in_order[i]->memory = {program_, memory};
    }
    return outputs;
  }

private:
  void bind(const std::vector<Input> &inputs) {
    if (inputs.size() != input_count_)
      throw std::invalid_argument("the program has " + std::to_string(input_count_) +
                                  " inputs, given are " + std::to_string(inputs.size()));
    std::vector<TscApiTensor> tensors;
    for (size_t i = 0; i < inputs.size(); ++i) {
      int32_t dtype = 0;
      need(tsc_api_input_info(program_.get(), i, nullptr, &dtype, nullptr));
      tensors.push_back({const_cast<void *>(inputs[i].data), dtype,
                         static_cast<int32_t>(inputs[i].sizes.size()), inputs[i].sizes.data(),
                         nullptr});
    }
    size_t bytes = 0;
    need(tsc_api_bind(program_.get(), tensors.data(), tensors.size(), &bytes));
    if (bytes > workspace_bytes_ || !workspace_) {
      workspace_ = allocate_(bytes);
      workspace_bytes_ = bytes;
    }
  }

  Allocate allocate_;
  std::shared_ptr<TscApiProgram> program_;
  std::shared_ptr<void> workspace_;
  size_t workspace_bytes_ = 0, input_count_ = 0, output_count_ = 0;
};

} // namespace tsc_package
