#include "driver/expected.h"

#include "driver/match_inputs.h"
#include "support/diagnostic.h"
#include "support/text.h"

#include <algorithm>
#include <map>
#include <set>

namespace tsc::driver {
namespace {

using support::Diagnostic;

std::string reference_name(const std::string &output) {
  const bool numbered = support::starts_with(output, "output_");
  return "reference_" + (numbered ? output.substr(7) : output);
}

bool same_sizes(const std::vector<int64_t> &computed, const std::vector<int64_t> &expected) {
  return std::equal(computed.begin(), computed.end(), expected.begin(), expected.end(),
                    [](int64_t a, int64_t b) { return a == b || a == kUnknownSize; });
}

/// What is called by its path gets its output's name.
tensor::TensorMap by_output_name(const program::Program &program,
                                 const tensor::TensorMap &expected) {
  std::map<std::string, std::string> names;
  const std::vector<std::string> paths = program::output_paths(program);
  for (size_t i = 0; i < paths.size(); ++i)
    if (const std::string &name = program.outputs[i].name; !paths[i].empty()) {
      names.emplace(paths[i], name);
      names.emplace("reference_" + paths[i], reference_name(name));
    }
  for (const program::OutputInfo &output : program.outputs) { // own names come first
    names[output.name] = output.name;
    names[reference_name(output.name)] = reference_name(output.name);
  }
  tensor::TensorMap renamed;
  for (const auto &[name, tensor] : expected) {
    const auto found = names.find(name);
    const std::string &own = found == names.end() ? name : found->second;
    renamed.emplace(own != name && expected.count(own) != 0 ? name : own, tensor); // twice: unknown
  }
  return renamed;
}

} // namespace

void check_expected(const program::Program &program, const std::vector<std::vector<int64_t>> &sizes,
                    const tensor::TensorMap &given, const std::string &path) {
  const tensor::TensorMap expected = by_output_name(program, given);
  std::vector<Diagnostic> problems;
  const auto add = [&](const char *code, std::string message, std::string next_step) {
    problems.push_back({code, std::move(message), path, "", "", "", std::move(next_step)});
  };
  std::vector<std::string> names;
  std::set<std::string> known;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const program::OutputInfo output = program::seen(program.outputs[i]);
    if (output.buffer < 0)
      continue;
    names.push_back(output.name);
    known.insert({output.name, reference_name(output.name)});
    auto found = expected.find(output.name);
    if (found == expected.end()) {
      add("TSC-R123", "output '" + output.name + "' has no expected value", "add it to the file");
      continue;
    }
    if (output.dtype != found->second.dtype() || !same_sizes(sizes[i], found->second.sizes()))
      add("TSC-R125",
          "output '" + output.name + "' is " +
              describe_tensor(output.dtype, {sizes[i].begin(), sizes[i].end()}) +
              ", the file has " + describe_tensor(found->second),
          "save the values that PyTorch gives for these inputs, unconverted");
    auto reference = expected.find(reference_name(output.name));
    if (reference != expected.end() && reference->second.sizes() != found->second.sizes())
      add("TSC-R125",
          "'" + reference->first + "' is " + describe_tensor(reference->second) + ", '" +
              output.name + "' is " + describe_tensor(found->second),
          "save a reference of the same shape, or none");
  }
  if (names.empty())
    add("TSC-R123", "no output of the graph is a tensor: there is nothing to compare",
        "run without --expect");
  constexpr size_t kMostNames = 20; // that are told one by one
  size_t unknown = 0;
  for (const auto &entry : expected) {
    if (known.count(entry.first) || ++unknown > kMostNames)
      continue;
    const std::string near = support::did_you_mean(entry.first, names);
    add("TSC-R123", "the file holds '" + entry.first + "', which is no output of the graph",
        near.empty() ? "remove it" : "did you mean '" + near + "'?");
  }
  if (unknown > kMostNames)
    add("TSC-R123",
        "the file holds " + std::to_string(unknown - kMostNames) +
            " more names that are no outputs of the graph",
        "remove them");
  if (problems.empty())
    return;
  if (!names.empty())
    problems.back().next_step += "\n  the graph gives: " + support::join(names, ", ");
  throw support::UserError(support::ExitCode::bad_input, std::move(problems));
}

std::vector<OutputAgreement> compare_outputs(const program::Program &program,
                                             const std::vector<tensor::HostTensor> &outputs,
                                             const tensor::TensorMap &given) {
  const tensor::TensorMap expected = by_output_name(program, given);
  const std::vector<std::string> paths = program::output_paths(program);
  std::vector<OutputAgreement> results;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    if (program.outputs[i].buffer < 0)
      continue;
    const std::string &name = program.outputs[i].name;
    const auto reference = expected.find(reference_name(name));
    results.push_back(
        {name, paths[i],
         tensor::compare(outputs[i], expected.at(name),
                         reference != expected.end() ? &reference->second : nullptr)});
  }
  return results;
}

std::vector<OutputAgreement> compare_with_file(const program::Program &program,
                                               const std::vector<tensor::HostTensor> &outputs,
                                               const std::string &expect) {
  const tensor::TensorMap file = tensor::read_tensors(expect);
  std::vector<std::vector<int64_t>> sizes;
  sizes.reserve(outputs.size());
  for (const tensor::HostTensor &output : outputs)
    sizes.push_back(output.sizes());
  check_expected(program, sizes, file, expect);
  return compare_outputs(program, outputs, file);
}

} // namespace tsc::driver
