#include "case_file.h"

#include "case_archive.h"

#include <nlohmann/json.hpp>

namespace tsc::testing {
namespace {

std::vector<tensor::HostTensor> numbered(const tensor::TensorMap &tensors,
                                         const std::string &prefix) {
  std::vector<tensor::HostTensor> list;
  for (size_t i = 0;; ++i) {
    auto found = tensors.find(prefix + std::to_string(i));
    if (found == tensors.end())
      return list;
    list.push_back(found->second);
  }
}

/// References of 16-bit results are recorded in 32 bits, which hold more digits than such a result
/// is asked for.
tensor::HostTensor reference_of(const tensor::HostTensor &recorded,
                                const tensor::HostTensor &output) {
  if (recorded.dtype() != tensor::DType::f32 || !tensor::is_reduced_float(output.dtype()))
    return recorded;
  tensor::HostTensor wide(tensor::DType::f64, recorded.sizes());
  for (int64_t i = 0; i < recorded.numel(); ++i)
    wide.set_double(i, recorded.get_double(i));
  return wide;
}

} // namespace

std::vector<Case> read_cases(const std::string &family) {
  const CaseFiles files = read_case_files(family);
  const nlohmann::json graphs = nlohmann::json::parse(files.graphs);
  const tensor::TensorMap &tensors = files.tensors;
  std::vector<Case> cases;
  for (const nlohmann::json &graph : graphs) {
    Case one;
    one.name = graph.at("name").get<std::string>();
    one.model = graph.at("model").dump();
    const std::string prefix = one.name + "/weight/";
    for (auto at = tensors.lower_bound(prefix); at != tensors.end(); ++at) {
      if (at->first.compare(0, prefix.size(), prefix) != 0)
        break;
      one.weights.emplace(at->first.substr(prefix.size()), at->second);
    }
    one.inputs = numbered(tensors, one.name + "/input_");
    one.outputs = numbered(tensors, one.name + "/output_");
    for (size_t i = 0; i < one.outputs.size(); ++i) {
      auto found = tensors.find(one.name + "/reference_" + std::to_string(i));
      one.references.push_back(found == tensors.end()
                                   ? tensor::HostTensor()
                                   : reference_of(found->second, one.outputs[i]));
    }
    cases.push_back(std::move(one));
  }
  return cases;
}

} // namespace tsc::testing
