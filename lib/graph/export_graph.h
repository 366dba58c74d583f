// One graph of torch.export's schema 8 -> Graph without signature. Internal to lib/graph.
#pragma once

#include "graph/graph.h"
#include "graph/json_document.h"
#include "graph/problems.h"
#include "graph/symbol_names.h"

#include <deque>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace tsc::graph {

/// Names of the FX namespace: each given once; a taken one gets "_1", "_2", ... as in torch.fx.
class NodeNames {
public:
  /// Names that the file gives itself: unique() leaves them alone.
  void reserve(std::string_view name) { reserved_.insert(name); }
  /// True if `name` was free and is now taken.
  bool take(const std::string &name) { return taken_.insert(name).second; }
  std::string unique(const std::string &base);

private:
  std::unordered_set<std::string> taken_;
  std::unordered_set<std::string_view> reserved_; // views of the document
  std::unordered_map<std::string, size_t> next_;
};

/// True if `node` yields a tuple with one element.
bool is_tuple_of_one(const JsonValue &node);

/// Reads "graph" of a GraphModule, and the graphs nested in it. Problems of single nodes go to
/// `problems` and reading goes on, so that one report names all of them; problems of the graph's
/// frame throw.
class ExportGraphReader {
public:
  /// `symbols`: names of the whole file.
  ExportGraphReader(Problems &problems, SymbolNames &symbols)
      : problems_(problems), symbols_(symbols) {}

  /// `placeholder_names`: for inputs that are constants, the names that the signature gives them
  /// ("" else).
  Graph read(const JsonValue &graph, const std::vector<std::string> &placeholder_names);

  /// The node that a tensor or symbol of this name became. Throws TSC-G010 if there is none.
  NodeRef lookup(const JsonValue &name) const;
  /// The Argument union. A graph becomes a get_attr node.
  Argument read_argument(const JsonValue &value);

private:
  void index_values(const JsonValue &graph);
  void read_input(const JsonValue &input, const std::string &name);
  void read_node(const JsonValue &node);
  void read_node_inputs(const JsonValue &inputs, Node &node);
  Argument read_graph_argument(const JsonValue &value);
  Argument read_custom_object(const JsonValue &value) const;
  void read_node_outputs(const JsonValue &node, const JsonValue &outputs, NodeId id);
  std::optional<Value> read_output(const JsonValue &output, NodeId owner, size_t index);
  std::optional<Value> read_output_list(const JsonValue &list, NodeId owner);
  void add_getitem(NodeId owner, size_t index, const JsonValue &name, std::optional<Value> value);
  void read_outputs(const JsonValue &graph);
  const JsonValue *own_value(const JsonValue &node) const;
  std::string name_after_operator(const JsonValue &node);
  void name_node(const JsonValue &value, Node &node);
  NodeId append(Node node, const JsonValue &at);
  void bind(const JsonValue &name, NodeId id);
  std::optional<Value> value_of(const JsonValue &name, std::string_view kind) const;
  Argument read_list(const JsonValue &list);
  Argument read_symbolic(const JsonValue &value) const;

  Problems &problems_;
  SymbolNames &symbols_;
  Graph graph_;
  const Node *owner_ = nullptr; // whose arguments are read
  NodeNames names_;
  std::unordered_map<std::string_view, NodeId> ids_;
  std::unordered_map<std::string_view, const JsonValue *> tensors_, sym_ints_, sym_floats_,
      sym_bools_;
};

} // namespace tsc::graph
