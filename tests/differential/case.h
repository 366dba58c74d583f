// A program with inputs and what PyTorch gave for them: a folder, or one of tests/cases.
#pragma once

#include "verdict.h"

#include "driver/compile.h"
#include "graph/graph.h"
#include "tensor/host_tensor.h"

#include <memory>
#include <string>
#include <vector>

namespace tsc::differential {

/// As it stands in a folder, or in memory.
struct CaseSource {
  std::string name;
  std::string folder;        // "": the rest says all
  std::string model;         // torch.export's JSON
  tensor::TensorMap weights; // besides those of the graph
  tensor::TensorMap inputs, expected;
};

/// A graph compiled, with data that fits it.
struct CompiledCase {
  std::string name;
  std::unique_ptr<driver::Compilation> compilation;
  tensor::TensorMap weights;
  std::vector<tensor::HostTensor> inputs;
  /// output_K, mutated_NAME as PyTorch gave them; ref_K, ref_mutated_NAME in float64. Empty: what
  /// the first device gives is taken.
  tensor::TensorMap expected;
  /// Columns or rows of its results may have other factors of size 1: it computes eigenvectors or
  /// singular vectors.
  bool has_free_phases = false;
};

/// The cases of tests/cases/FAMILY.
std::vector<CaseSource> recorded_cases(const std::string &family);

/// Errors: those of reading and compiling.
CompiledCase compile_case(const CaseSource &source, const driver::CompileOptions &options);

/// Compares what a device gave with what is expected, or takes it for that where nothing is. Fills
/// in all of the verdict but its names.
void judge(CompiledCase &subject, const std::vector<tensor::HostTensor> &outputs, Verdict &verdict);

} // namespace tsc::differential
