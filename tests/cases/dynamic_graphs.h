// Graphs with dynamic shapes as scripts/record/dynamic_cases.py records them: compiled, with their
// weights and runs.
#pragma once

#include "driver/compile.h"
#include "tensor/host_tensor.h"

#include <string>
#include <vector>

namespace tsc::testing {

struct DynamicRun {
  std::vector<tensor::HostTensor> inputs;
  std::vector<tensor::HostTensor> outputs;    // PyTorch's
  std::vector<tensor::HostTensor> references; // the same in float64, or none
};
struct DynamicGraph {
  std::string name;
  graph::Graph graph; // as read
  driver::Compilation compilation;
  tensor::TensorMap weights;
  std::vector<DynamicRun> runs;
};

/// All graphs of tests/cases/FAMILY.
std::vector<DynamicGraph> read_dynamic_graphs(const std::string &family);

} // namespace tsc::testing
