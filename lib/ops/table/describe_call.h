// A call as a user reads it in an error: the operator with what it was given.
#pragma once

#include "ops/table/operator.h"

namespace tsc::ops {

struct DescribedArgument {
  std::string name;  // of the schema's parameter; "" if the operator or the parameter is unknown
  std::string value; // "x", "2", "[0, None]", "torch.float32"
  std::string type;  // of a tensor: "float32[2, 3]"; "" for all else
};
/// The arguments of `node` as they are written, by position, then by name. Dtypes and sizes are the
/// values that the graph's nodes have now, if any. Lists are cut off after 8 elements.
std::vector<DescribedArgument> describe_arguments(const Graph &graph, const Node &node);
/// "aten.add.Tensor(self=x: float32[2, 3], other=2)".
std::string describe_call(const std::string &target,
                          const std::vector<DescribedArgument> &arguments);
/// "2", "x", "[0, None]".
std::string describe_argument(const Graph &graph, const Argument &argument);
/// "aten.neg.default(Tensor self)": a row of the table as its schema has it.
std::string describe_schema(std::string_view target, const Schema &schema);

} // namespace tsc::ops
