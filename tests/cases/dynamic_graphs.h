// Graphs with dynamic shapes as scripts/record/dynamic_cases.py records them: compiled, with their
// weights and runs.
#pragma once

#include "driver/compile.h"
#include "runtime/session.h"
#include "tensor/host_tensor.h"

#include <functional>
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

using Runner =
    std::function<std::vector<tensor::HostTensor>(const std::vector<tensor::HostTensor> &)>;

/// Runs every graph of a family (of `count`) with all its inputs and compares with what was
/// recorded.
void check_graphs(const std::string &family, size_t count,
                  const std::function<Runner(const DynamicGraph &)> &runner);

/// Runs on one session, so that what a run leaves behind shows in the next.
Runner in_session(const DynamicGraph &graph, const runtime::SessionOptions &options);

} // namespace tsc::testing
