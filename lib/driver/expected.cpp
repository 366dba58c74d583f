#include "driver/expected.h"

#include "support/diagnostic.h"
#include "support/text.h"

namespace tsc::driver {

std::vector<OutputAgreement> compare_with_file(const program::Program &program,
                                               const std::vector<tensor::HostTensor> &outputs,
                                               const std::string &expect) {
  const tensor::TensorMap file = tensor::read_tensors(expect);
  std::vector<OutputAgreement> results;
  std::vector<std::string> missing, names;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    if (program.outputs[i].buffer < 0)
      continue;
    const std::string &name = program.outputs[i].name;
    names.push_back(name);
    const auto expected = file.find(name);
    if (expected == file.end()) {
      missing.push_back(name);
      continue;
    }
    const bool numbered = support::starts_with(name, "output_");
    const auto reference = file.find("reference_" + (numbered ? name.substr(7) : name));
    results.push_back(
        {name, tensor::compare(outputs[i], expected->second,
                               reference != file.end() ? &reference->second : nullptr)});
  }
  if (!missing.empty() || results.empty())
    throw support::UserError(
        support::ExitCode::bad_input,
        support::Diagnostic{"TSC-R123", "no expected values for: " + support::join(missing, ", "),
                            expect, "", "", "", "the graph gives: " + support::join(names, ", ")});
  return results;
}

} // namespace tsc::driver
