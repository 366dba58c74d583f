// Runs the real binary, as a user would.
#pragma once

#include "tensor/host_tensor.h"

#include <string>
#include <vector>

namespace tsc::testing {

struct Outcome {
  int exit_code = -1; // -1: killed by a signal
  std::string out, err;
};

/// A folder that is removed at the end; kernels are cached inside it.
class Workplace {
public:
  Workplace();
  ~Workplace();
  Workplace(const Workplace &) = delete;
  Workplace &operator=(const Workplace &) = delete;

  std::string path(const std::string &name) const { return folder_ + "/" + name; }
  /// Writes a file and gives its path.
  std::string file(const std::string &name, const std::string &text) const;
  std::string tensors(const std::string &name, const tensor::TensorMap &tensors) const;
  /// Runs tsc inside the folder.
  Outcome run(const std::vector<std::string> &arguments) const;
  /// The same after shell commands: limits, traps.
  Outcome run_after(const std::string &commands, const std::vector<std::string> &arguments) const;
  /// With a terminal for stderr: what a person would see there, control codes included.
  Outcome run_on_terminal(const std::vector<std::string> &arguments) const;

private:
  std::string folder_;
  Outcome spawn(std::vector<std::string> words, const std::string &err) const;
};

/// Graph JSON of x @ fc.weight.T + fc.bias: x float32 [2, 4], fc.weight [3, 4], fc.bias [3].
std::string linear_graph();
/// Path below graphs/.
std::string sample(const std::string &name);
std::string read_text(const std::string &path);
/// float32, element i is `first + i * step`.
tensor::HostTensor ramp(std::vector<int64_t> sizes, double first, double step);

} // namespace tsc::testing
