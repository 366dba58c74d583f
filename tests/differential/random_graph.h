// Random graphs over the table of operators, with inputs that they can digest.
#pragma once

#include "random_source.h"

#include "graph/graph.h"
#include "ops/table/operator.h"
#include "tensor/host_tensor.h"

#include <string>
#include <vector>

namespace tsc::differential {

/// A graph as an export would hold it, and one value for each of its inputs.
struct Subject {
  graph::Graph graph;
  std::vector<tensor::HostTensor> inputs; // user inputs, in order
};

/// An operator of the table and how often it is taken.
struct VocabularyEntry {
  const ops::Operator *row = nullptr;
  unsigned weight = 1;
};
/// What a random graph is made of: every operator of the table but those whose results depend on
/// more than their arguments, that communicate, or that yield no tensor.
const std::vector<VocabularyEntry> &vocabulary();

struct GrammarOptions {
  size_t least_calls = 2, most_calls = 14;
  int64_t most_elements = 4096;        // of any tensor
  const ops::Operator *only = nullptr; // every call's; null: any
  unsigned mutating_percent = 25;      // of the graphs that have in-place operators at all
};

/// A graph of its own. Never fails: a call that does not fit is another one.
Subject random_subject(RandomSource &random, const GrammarOptions &options);

/// `subject` with random calls after its own, and outputs for some of them.
Subject extended(Subject subject, RandomSource &random, const GrammarOptions &options);

/// Appends up to `count` calls, each over what is there, before the output node; gives how many. No
/// call writes unless `mutating`, and none takes a new input unless `new_inputs`.
size_t add_calls(Subject &subject, RandomSource &random, size_t count, int64_t most_elements,
                 bool mutating, bool new_inputs);

/// True if some node writes to an argument.
bool has_mutations(const graph::Graph &graph);

} // namespace tsc::differential
