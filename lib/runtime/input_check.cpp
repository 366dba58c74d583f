#include "runtime/input_check.h"

#include "support/diagnostic.h"
#include "support/text.h"

#include <string>

namespace tsc::runtime {
namespace {

using support::Diagnostic;
using support::ExitCode;
using support::UserError;

std::string shape_text(const std::vector<int64_t> &sizes) {
  std::vector<std::string> parts;
  for (int64_t size : sizes)
    parts.push_back(std::to_string(size));
  return "[" + support::join(parts, ", ") + "]";
}

/// As the program states it: numbers, or expressions over symbols.
std::string shape_text(const tsc_engine::Tables &tables, const tsc_engine::Range &range) {
  std::vector<std::string> parts;
  for (int32_t i = 0; i < range.count; ++i) {
    const tsc_engine::Size &size = tables.sizes[static_cast<size_t>(range.first + i)];
    parts.push_back(size.expression < 0
                        ? std::to_string(size.value)
                        : tables.expressions[static_cast<size_t>(size.expression)].text);
  }
  return "[" + support::join(parts, ", ") + "]";
}

bool shape_fits(const tsc_engine::Tables &tables, const tsc_engine::Range &range,
                const std::vector<int64_t> &sizes) {
  if (sizes.size() != static_cast<size_t>(range.count))
    return false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const tsc_engine::Size &size = tables.sizes[static_cast<size_t>(range.first) + i];
    if (size.expression < 0 && size.value != sizes[i])
      return false;
  }
  return true;
}

} // namespace

void check_inputs(const std::vector<program::InputInfo> &expected,
                  const std::vector<tensor::DType> &dtypes, const tsc_engine::Tables &tables,
                  const std::vector<tensor::HostTensor> &inputs) {
  if (inputs.size() != expected.size()) {
    std::vector<std::string> names;
    for (const program::InputInfo &input : expected)
      names.push_back(input.name);
    throw UserError(ExitCode::bad_input,
                    {.code = "TSC-R110",
                     .message = std::to_string(inputs.size()) +
                                " inputs were given, the graph has " +
                                std::to_string(expected.size()) + ": " + support::join(names, ", "),
                     .next_step = "give one tensor for each of them"});
  }
  std::vector<Diagnostic> problems;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string name = expected[i].name;
    if (inputs[i].dtype() != dtypes[i])
      problems.push_back({.code = "TSC-R111",
                          .message = "input '" + name + "' is " +
                                     std::string(tensor::torch_name(inputs[i].dtype())) +
                                     ", the graph takes " +
                                     std::string(tensor::torch_name(dtypes[i])),
                          .next_step = "convert it before it is saved"});
    const tsc_engine::Range &sizes = tables.inputs[i].view.sizes;
    if (!shape_fits(tables, sizes, inputs[i].sizes()))
      problems.push_back({.code = "TSC-R112",
                          .message = "input '" + name + "' is " + shape_text(inputs[i].sizes()) +
                                     ", the graph takes " + shape_text(tables, sizes),
                          .next_step = "give a tensor of this shape, or export the graph with "
                                       "dynamic shapes"});
  }
  if (!problems.empty())
    throw UserError(ExitCode::bad_input, problems);
}

} // namespace tsc::runtime
