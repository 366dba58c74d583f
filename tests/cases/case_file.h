// The recorded cases of one family.
#pragma once

#include "graph/graph.h"
#include "tensor/host_tensor.h"

#include <string>
#include <vector>

namespace tsc::testing {

struct Case {
  std::string name;
  std::string model;         // torch.export's model.json
  tensor::TensorMap weights; // buffers and constants
  std::vector<tensor::HostTensor> inputs;
  std::vector<tensor::HostTensor> outputs;    // eager; what was mutated in front
  std::vector<tensor::HostTensor> references; // float64; an empty tensor where there is none
};

std::vector<Case> read_cases(const std::string &family);

} // namespace tsc::testing
