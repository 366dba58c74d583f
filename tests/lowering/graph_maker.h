// Builds graphs by hand, runs the graph passes and lowers them.
#pragma once

#include "graph/graph.h"
#include "ir/body.h"
#include "lowering/lower.h"

#include <string>
#include <vector>

namespace tsc::lowering::testing {

using graph::Argument;
using graph::NodeRef;
using tensor::DType;

class GraphMaker {
public:
  /// Contiguous unless `strides` are given.
  NodeRef input(const std::string &name, DType dtype, std::vector<graph::Expr> sizes,
                std::vector<graph::Expr> strides = {});
  NodeRef call(const std::string &target, std::vector<Argument> args,
               std::vector<std::pair<std::string, Argument>> kwargs = {});
  /// The new value of input `name`.
  void mutate(const std::string &name, NodeRef value);
  void output(NodeRef value);
  /// As made, with its outputs; no pass has run.
  graph::Graph graph() const;
  /// Runs the passes and lowers. Without clean-up the graph is lowered node by node as it stands.
  ir::Module lower(const target::Policy &policy = target::default_policy(), bool clean_up = true);

private:
  graph::Graph graph_;
  std::vector<graph::OutputSpec> mutations_, outputs_;
};

/// The body's text after simplify_and_reorder, without its first line.
std::string body_of(const ir::Module &module, size_t operation);
/// One line an operation: "op0 pointwise buf0 f32 [4, 8] [8, 1] <- x, y"; mutations as "buf1 => x",
/// slices as "buf1 in buf2 from 12" (elements).
std::string summary(const ir::Module &module);
ir::Module lower_file(const std::string &path,
                      const target::Policy &policy = target::default_policy());

} // namespace tsc::lowering::testing
