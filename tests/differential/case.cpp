#include "case.h"

#include "../cases/case_file.h"

#include "driver/inputs.h"
#include "driver/match_inputs.h"
#include "graph/read.h"
#include "support/diagnostic.h"
#include "support/text.h"
#include "tensor/complex_memory.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <filesystem>
#include <optional>
#include <set>

namespace tsc::differential {
namespace {

using tensor::HostTensor;
using tensor::TensorMap;

std::string graph_file(const std::string &folder) {
  for (const char *name : {"/model.pt2", "/model.json", "/graph.json"})
    if (std::filesystem::exists(folder + name))
      return folder + name;
  throw support::UserError(
      support::ExitCode::usage,
      {.code = "TSC-T002",
       .message = "'" + folder + "' holds no model.pt2, model.json, graph.json",
       .next_step = "give folders of cases"});
}

TensorMap read_if_there(const std::string &path) {
  return std::filesystem::exists(path) ? tensor::read_tensors(path) : TensorMap{};
}

/// References may be recorded in 32 bits, which hold all digits that a 16-bit result is asked for.
HostTensor widened(const HostTensor &recorded) {
  if (recorded.dtype() == tensor::DType::f64 || !tensor::is_floating(recorded.dtype()))
    return recorded;
  HostTensor wide(tensor::DType::f64, recorded.sizes());
  for (int64_t i = 0; i < recorded.numel(); ++i)
    wide.set_double(i, recorded.get_double(i));
  return wide;
}

/// "mutated_x", or under the position of that input: "mutated_input_0".
std::vector<std::string> names_of(const program::Program &program, const std::string &output) {
  std::vector<std::string> names = {output};
  for (size_t i = 0; i < program.inputs.size(); ++i)
    if (output == "mutated_" + program.inputs[i].name)
      names.push_back("mutated_input_" + std::to_string(i));
  return names;
}

const HostTensor *find(const TensorMap &tensors, const std::vector<std::string> &names) {
  for (const std::string &name : names)
    if (const auto found = tensors.find(name); found != tensors.end())
      return &found->second;
  return nullptr;
}

std::vector<std::string> reference_names(const std::vector<std::string> &names) {
  std::vector<std::string> result;
  for (const std::string &name : names) {
    const std::string own = support::starts_with(name, "output_") ? name.substr(7) : name;
    result.push_back("ref_" + own);
    result.push_back("reference_" + own);
  }
  return result;
}

/// `reference` rounded to what eager mode yields.
HostTensor rounded(const HostTensor &reference, const HostTensor &like) {
  if (tensor::is_complex(like.dtype()))
    return tensor::as_complex(rounded(tensor::as_real(reference), tensor::as_real(like)));
  HostTensor result(like.dtype(), like.sizes());
  for (int64_t i = 0; i < reference.numel(); ++i)
    result.set_double(i, reference.get_double(i));
  return result;
}

/// `expected` with its columns (`of_rows`: rows) each multiplied by the number of size 1 that
/// brings it nearest to that of `actual`: a sign, of complex numbers a phase. Of each column
/// `parts` numbers stand beside each other in a row: 1, or real and imaginary part. Precondition:
/// real, two dimensions at least beside that of the parts.
HostTensor with_phases_of(const HostTensor &actual, const HostTensor &expected, int64_t parts,
                          bool of_rows) {
  HostTensor result = expected.clone();
  const size_t last = expected.sizes().size() - static_cast<size_t>(parts);
  const int64_t columns = expected.sizes()[last], rows = expected.sizes()[last - 1];
  const int64_t row = columns * parts;
  const auto number = [&](const HostTensor &tensor, int64_t i) {
    return std::complex<double>(tensor.get_double(i), parts == 2 ? tensor.get_double(i + 1) : 0);
  };
  for (int64_t matrix = 0; matrix < expected.numel(); matrix += rows * row)
    for (int64_t line = 0; line < (of_rows ? rows : columns); ++line) {
      const auto each = [&](const auto &visit) {
        for (int64_t i = 0; i < (of_rows ? columns : rows); ++i)
          visit(of_rows ? matrix + line * row + i * parts : matrix + i * row + line * parts);
      };
      std::complex<double> product = 0;
      each([&](int64_t i) { product += number(actual, i) * std::conj(number(expected, i)); });
      const double size = std::abs(product);
      if (!std::isfinite(size) || size == 0)
        continue;
      each([&](int64_t i) {
        const std::complex<double> turned = number(expected, i) * (product / size);
        result.set_double(i, turned.real());
        if (parts == 2)
          result.set_double(i + 1, turned.imag());
      });
    }
  return result;
}

/// Whether `actual` is at most three times as far from the reference as eager mode, which is near
/// it (rule 5 of docs/numbers.md, of a recording that fails rule 6 by little).
bool is_as_near(const HostTensor &actual, const HostTensor &expected, const HostTensor &reference) {
  if (!tensor::is_floating(expected.dtype()))
    return false;
  double own = 0, eager = 0, squares = 0, eager_squares = 0;
  for (int64_t i = 0; i < expected.numel(); ++i) {
    const double truth = reference.get_double(i), a = actual.get_double(i),
                 e = expected.get_double(i);
    if (!std::isfinite(truth) || !std::isfinite(a) || !std::isfinite(e))
      return false;
    own = std::max(own, std::fabs(a - truth));
    eager = std::max(eager, std::fabs(e - truth));
    squares += truth * truth;
    eager_squares += (e - truth) * (e - truth);
  }
  return eager_squares <= 1e-4 * squares && own <= 3 * eager;
}

/// Whether each element of vectors of size 1 is as near as their largest ones have to be: what
/// rounds a vector turns it, and moves its small elements as far as the others.
bool is_near_as_vectors(const HostTensor &actual, const HostTensor &reference) {
  const double bound = actual.dtype() == tensor::DType::f64 ? 1e-12 : 1e-5;
  double most = 0;
  for (int64_t i = 0; i < reference.numel(); ++i)
    most = std::max(most, std::fabs(reference.get_double(i)));
  for (int64_t i = 0; i < reference.numel(); ++i)
    if (!(std::fabs(actual.get_double(i) - reference.get_double(i)) <= bound * most))
      return false;
  return true;
}

/// Whether a graph computes eigenvectors or singular vectors, which are unique but for a factor of
/// size 1 each: libraries choose theirs.
bool computes_vectors(const graph::Graph &graph) {
  const std::set<std::string> makers = {"aten.linalg_svd",  "aten._linalg_svd",  "aten.svd",
                                        "aten.linalg_eigh", "aten._linalg_eigh", "aten.linalg_eig"};
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node &node) {
    return makers.count(node.target.substr(0, node.target.rfind('.'))) != 0;
  });
}

/// Where eager mode is no rounding of its own float64 (sums that overflow, signs of vectors, 16-bit
/// arithmetic): what is computed has to agree with either. `free_phases`: where the recording is
/// settled, too, complex vectors may have other phases (real ones have LAPACK's signs). "" if it
/// does not agree.
std::string side_taken(const HostTensor &actual, const HostTensor &expected,
                       const HostTensor &reference, bool free_phases) {
  if (reference.sizes() != expected.sizes())
    return "";
  const bool settled = tensor::compare(expected, expected, &reference).ok;
  if (settled && !(free_phases && tensor::is_complex(expected.dtype())))
    return "";
  if (!settled) {
    const HostTensor narrow = rounded(reference, expected);
    const std::string disagree = "eager mode and its float64 disagree; this agrees with ";
    if (tensor::compare(actual, expected, nullptr).ok)
      return disagree + "eager mode";
    if (tensor::compare(actual, narrow, nullptr).ok)
      return disagree + "float64";
    if (actual.sizes() == expected.sizes() && is_as_near(actual, expected, reference))
      return disagree + "float64 as nearly as eager mode";
  }
  const std::string said = settled ? "agrees with eager mode "
                                   : "eager mode and its float64 disagree; this agrees with both ";
  // Eigenvectors and their kin have signs of their own, of complex numbers phases.
  const bool is_matrix =
      expected.numel() > 0 && expected.sizes().size() >= 2 && actual.sizes() == expected.sizes();
  if (!is_matrix)
    return "";
  const bool has_parts = tensor::is_complex(expected.dtype());
  for (const bool of_rows : {false, true}) {
    const auto turned = [&](const HostTensor &other) {
      const HostTensor result = with_phases_of(tensor::as_real(actual), tensor::as_real(other),
                                               has_parts ? 2 : 1, of_rows);
      return has_parts ? tensor::as_complex(result) : result;
    };
    const HostTensor wide = turned(reference);
    if (tensor::compare(actual, turned(expected), &wide).ok ||
        (has_parts && is_near_as_vectors(tensor::as_real(actual), tensor::as_real(wide))))
      return said + "but for " + (has_parts ? "phases" : "signs") +
             (of_rows ? " of rows" : " of columns");
  }
  return "";
}

void differ(Verdict &verdict, const std::string &output, const std::string &reason) {
  verdict.status = Status::differ;
  verdict.output = output;
  verdict.reason = reason;
}

} // namespace

std::vector<CaseSource> recorded_cases(const std::string &family) {
  std::vector<CaseSource> sources;
  for (testing::Case &one : testing::read_cases(family)) {
    CaseSource source;
    source.name = family + "/" + one.name;
    source.model = std::move(one.model);
    source.weights = std::move(one.weights);
    for (size_t i = 0; i < one.inputs.size(); ++i)
      source.inputs["input_" + std::to_string(i)] = one.inputs[i];
    for (size_t i = 0; i < one.outputs.size(); ++i) {
      // By position, what was mutated in front; compile_case knows the names.
      source.expected["position_" + std::to_string(i)] = one.outputs[i];
      if (one.references[i].data() != nullptr)
        source.expected["ref_position_" + std::to_string(i)] = one.references[i];
    }
    sources.push_back(std::move(source));
  }
  return sources;
}

CompiledCase compile_case(const CaseSource &source, const driver::CompileOptions &options) {
  CompiledCase result;
  result.name = source.name;
  const bool in_memory = source.folder.empty();
  graph::Graph graph = in_memory ? graph::parse_graph(source.model, source.name)
                                 : graph::read_graph(graph_file(source.folder));
  const driver::Constants constants = driver::constants_of(graph);
  result.has_free_phases = computes_vectors(graph);
  const TensorMap inputs =
      in_memory ? source.inputs : read_if_there(source.folder + "/inputs.safetensors");
  const TensorMap expected =
      in_memory ? source.expected : read_if_there(source.folder + "/expected.safetensors");
  result.compilation =
      std::make_unique<driver::Compilation>(driver::compile(std::move(graph), options));
  const program::Program &program = result.compilation->program;
  TensorMap weights = result.compilation->graph.weights;
  for (const auto &[name, weight] :
       in_memory ? source.weights : read_if_there(source.folder + "/weights.safetensors"))
    weights[name] = weight;
  result.weights = driver::load_weights(program, weights, std::nullopt);
  result.inputs = driver::match_inputs(program, inputs, source.name, constants);
  for (const auto &[name, value] : expected) {
    const bool reference = support::starts_with(name, "ref");
    std::string own = name;
    if (const size_t at = name.find("position_"); at != std::string::npos) {
      const size_t position = std::stoul(name.substr(at + 9));
      if (position < program.outputs.size()) {
        own = program.outputs[position].name;
        if (reference)
          own = reference_names({own})[0];
      }
    }
    result.expected[own] = reference ? widened(value) : value;
  }
  return result;
}

void judge(CompiledCase &subject, const std::vector<HostTensor> &outputs, Verdict &verdict) {
  const program::Program &program = subject.compilation->program;
  verdict.status = Status::agree;
  if (subject.expected.empty()) {
    for (size_t i = 0; i < outputs.size(); ++i)
      if (program.outputs[i].buffer >= 0)
        subject.expected[program.outputs[i].name] = outputs[i].clone();
    return;
  }
  std::set<std::string> compared;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    if (program.outputs[i].buffer < 0)
      continue;
    const std::vector<std::string> names = names_of(program, program.outputs[i].name);
    compared.insert(names.begin(), names.end());
    const HostTensor *expected = find(subject.expected, names);
    if (!expected && program.outputs[i].is_mutation) // not recorded
      continue;
    if (!expected)
      return differ(verdict, names[0], "PyTorch gives no such output");
    const HostTensor *reference = find(subject.expected, reference_names(names));
    const tensor::Agreement agreement = tensor::compare(outputs[i], *expected, reference);
    if (agreement.ok)
      continue;
    const std::string side =
        reference ? side_taken(outputs[i], *expected, *reference, subject.has_free_phases) : "";
    if (side.empty())
      return differ(verdict, names[0], agreement.reason);
    verdict.output = names[0];
    verdict.reason = side;
  }
  for (const auto &[name, value] : subject.expected)
    if (!support::starts_with(name, "ref") && compared.count(name) == 0)
      return differ(verdict, name, "the program gives no such output");
}

} // namespace tsc::differential
