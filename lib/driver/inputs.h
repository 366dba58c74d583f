// Where inputs and weights come from: files, or random data that the graph can digest.
#pragma once

#include "driver/match_inputs.h"
#include "driver/shapes.h"
#include "graph/graph.h"
#include "program/program.h"
#include "tensor/host_tensor.h"

#include <optional>
#include <string>
#include <vector>

namespace tsc::driver {

/// A FILE, or random[:SEED].
struct DataSource {
  std::string path;
  bool random = false;
  uint64_t seed = 0;
};
/// Throws UserError (usage) TSC-C010 for "random:x".
DataSource parse_data_source(const std::string &text);

/// What random data must respect, by placeholder's or weight's name.
struct DataHint {
  int64_t high = 1;      // integers: largest value (inclusive)
  bool positive = false; // variances
  double scale = 1;      // of floats; 0.5 with `positive`: probabilities, in [0.25, 0.75)
};
/// Hints for the inputs of `graph`: a placeholder whose elements an index or a checked value
/// (ops/checks.h) takes, through views, casts and copies, stays within what that is held to.
std::map<std::string, DataHint> data_hints(const graph::Graph &graph);

/// User inputs of `program`, in its order, from a file (match_inputs) or at random. Symbolic sizes
/// of random inputs are what `shapes` says, else small values. Errors: those of match_inputs and
/// bind_shapes.
std::vector<tensor::HostTensor> load_inputs(const program::Program &program,
                                            const DataSource &source,
                                            const std::map<std::string, DataHint> &hints,
                                            const Constants &constants = {},
                                            const Shapes &shapes = {});

/// All weights of `program`: those of the graph's own archive, overridden or supplied by `source`
/// if given. A file may hold names that the graph does not take, as whole checkpoints do: each of
/// the first is a line of `warnings` (may be null), with the nearest name that the graph takes.
/// Errors: UserError (bad_input) with all problems: TSC-R122 for every weight that is missing or
/// differs in dtype or shape, TSC-R124 if the file holds no weight of the graph at all.
tensor::TensorMap load_weights(const program::Program &program, const tensor::TensorMap &from_graph,
                               const std::optional<DataSource> &source,
                               std::vector<std::string> *warnings = nullptr);

} // namespace tsc::driver
