// Arguments that an operator may take, by the types and names of its schema.
#pragma once

#include "random_graph.h"

#include <functional>
#include <optional>

namespace tsc::differential {

/// What a call under construction may refer to.
struct Surroundings {
  const graph::Graph *graph = nullptr;
  std::vector<graph::NodeId> tensors; // that may be referred to
  /// A new input of this type and shape; integers in [low, high].
  std::function<std::optional<graph::NodeId>(tensor::DType, std::vector<int64_t>, int64_t low,
                                             int64_t high)>
      new_input;
};

/// One value a parameter that is given, by position where it may be, else by keyword; nothing if
/// some parameter is of a type that nothing is known of. Likely, but not sure to be well-formed.
struct RandomArguments {
  std::vector<graph::Argument> args;
  std::vector<std::pair<std::string, graph::Argument>> kwargs;
};
std::optional<RandomArguments>
random_arguments(const ops::Operator &row, const Surroundings &surroundings, RandomSource &random);

} // namespace tsc::differential
