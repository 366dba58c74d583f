// A folder of custom operators that a test writes.
#pragma once

#include "temporary_folder.h"

#include <nlohmann/json.hpp>

#include <fstream>
#include <functional>
#include <string>

namespace tsc::testing {

/// Has the texts twice.cu and twice.cpp, and rows that tests make of a sound one:
/// mine::twice(Tensor x) -> Tensor.
class CustomFolder {
public:
  CustomFolder() {
    write("twice.cu", "__global__ void twice(const float *x, float *y, int n) {\n"
                      "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                      "  if (i < n)\n    y[i] = x[i] * 2;\n}\n");
    write("twice.cpp", "extern \"C\" void twice(const float *x, float *y, int n) {\n"
                       "  for (int i = 0; i < n; ++i)\n    y[i] = x[i] * 2;\n}\n");
  }
  std::string path() const { return folder_.path.string(); }
  void write(const std::string &name, const std::string &text) const {
    std::ofstream(folder_.path / name) << text;
  }
  /// NAME.json: the sound row as `change` leaves it.
  void row(const std::string &name, const std::function<void(nlohmann::json &)> &change) const {
    nlohmann::json row = nlohmann::json::parse(R"row({
      "schema": "mine::twice(Tensor x) -> Tensor",
      "results": [{"dtype": "x", "sizes": "x"}],
      "cuda": {"file": "twice.cu", "function": "twice", "arguments": ["x", "out", "int x.numel()"],
               "grid": ["ceil_div(x.numel(), 128)"], "block": [128]},
      "host": {
    "file" : "twice.cpp", "function" : "twice"
  }})row");
    change(row);
    write(name + ".json", row.dump(2));
  }

private:
  TemporaryFolder folder_;
};

} // namespace tsc::testing
