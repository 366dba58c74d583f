// Where inputs and weights come from: files, or random data that the graph can digest.
#pragma once

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
};
/// Hints for the integer inputs of `graph`: a placeholder that reaches an embedding or an index
/// through views, casts and copies stays below the extent it indexes.
std::map<std::string, DataHint> data_hints(const graph::Graph &graph);

/// User inputs of `program`, in its order, from a file (names: the input's own, or input_0.. by
/// position) or at random. Symbolic sizes of random inputs take `symbol_value`. Errors: UserError
/// (bad_input) TSC-R121: missing, surplus or unknown names, both sides listed.
std::vector<tensor::HostTensor> load_inputs(const program::Program &program,
                                            const DataSource &source,
                                            const std::map<std::string, DataHint> &hints);

/// All weights of `program`: those of the graph's own archive, overridden or supplied by `source`
/// if given. Errors: UserError (bad_input) TSC-R122 listing every weight that is missing or differs
/// in dtype or shape.
tensor::TensorMap load_weights(const program::Program &program, const tensor::TensorMap &from_graph,
                               const std::optional<DataSource> &source);

} // namespace tsc::driver
