// tsc's graph JSON (docs/graph-format.md). Internal to lib/graph; the writer is to_json in read.h.
#pragma once

#include "graph/graph.h"
#include "graph/json_document.h"
#include "graph/symbol_names.h"

#include <functional>
#include <set>

namespace tsc::graph {

constexpr int64_t kGraphJsonVersion = 1;
constexpr std::string_view kGraphJsonFormat = "tsc-graph";

bool is_graph_json(const JsonValue &root);
/// `label` stands for the path in messages.
Graph read_graph_json(const JsonValue &root, const std::string &label);

/// Names of the kinds of inputs and outputs in "signature"; "" and nothing if unknown.
std::string_view input_kind_name(InputKind kind);
std::string_view output_kind_name(OutputKind kind);
std::optional<InputKind> parse_input_kind(std::string_view name);
std::optional<OutputKind> parse_output_kind(std::string_view name);
std::string_view memory_format_json_name(MemoryFormat format);
/// True if a constant of this dtype lists its elements as numbers; others give their bytes.
bool is_listed(DType dtype);

/// Reads arguments and values; what they refer to must be known.
class GraphJsonValues {
public:
  /// `lookup` gives the node of a name that stands at a place, or throws.
  using Lookup = std::function<NodeRef(const JsonValue &name)>;
  explicit GraphJsonValues(Lookup lookup) : lookup_(std::move(lookup)) {}

  const GraphJsonValues *outer = nullptr; // of the graph around a subgraph
  SymbolNames *names = nullptr;           // of the whole file
  std::set<std::string> symbols;          // declared
  std::set<std::string> subgraphs;        // names that {"graph": ...} may give

  Argument read_argument(const JsonValue &value) const;
  Value read_value(const JsonValue &value) const;
  /// An integer or the text of an expression over declared symbols.
  Expr read_expression(const JsonValue &value) const;

private:
  TensorMeta read_tensor(const JsonValue &value) const;
  Argument read_structured(const JsonValue &choice) const;
  Argument read_tagged(const JsonValue &value) const;
  std::vector<Expr> read_expressions(const JsonValue &value) const;
  bool is_declared(const std::string &symbol) const;
  Lookup lookup_;
};

} // namespace tsc::graph
