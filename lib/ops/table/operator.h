// The one table of operators: schema, shape and dtype rule, decomposition, lowering key. The
// importer, the checker, the passes, the documentation and the tests are driven by it.
#pragma once

#include "graph/graph.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tsc::ops {

using graph::Argument;
using graph::DType;
using graph::Expr;
using graph::Graph;
using graph::Node;
using graph::TensorMeta;
using graph::Value;

/// Parsed from ATen's own schema text, "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) ->
/// Tensor".
struct Parameter {
  std::string name;
  std::string type;  // "Tensor", "Tensor?", "int[]", "SymInt[2]", "Scalar", "ScalarType?", ...
  std::string alias; // "a", "a!", or ""
  bool keyword_only = false;
  std::optional<Argument> default_value;
};
struct Schema {
  std::vector<Parameter> parameters;
  std::vector<Parameter> returns;
  bool is_mutable() const; // some parameter's alias ends in '!'
};
/// "a!", "a! -> *": the call writes to this argument.
bool is_written(const Parameter &parameter);

/// The arguments of one call, one per schema parameter, defaults filled in, plus what shape rules
/// need.
/// Pairs of sizes that calls take to be one, in the order in which they do.
using SizePairs = std::vector<std::pair<Expr, Expr>>;

class Call {
public:
  /// Binds args and kwargs of `node` to `schema`. Throws UserError TSC-O010 to -O013 on wrong arity
  /// or names. `node` need not be in `graph`; both must outlive the call. `ranges` (may be null)
  /// saves gathering the graph's ranges again.
  Call(const Graph &graph, const Node &node, const Schema &schema,
       std::shared_ptr<const symbolic::Ranges> ranges = nullptr);

  const Argument &operator[](std::string_view parameter) const;
  bool has(std::string_view parameter) const; // given and not None
  /// UserError if it is not a tensor. The reference lives as long as this Call, also while the
  /// graph grows.
  const TensorMeta &tensor(std::string_view parameter) const;
  const TensorMeta *optional_tensor(std::string_view parameter) const;
  std::vector<TensorMeta> tensors(std::string_view parameter) const; // Tensor[]
  Expr size(std::string_view parameter) const;                       // int or SymInt
  int64_t integer(std::string_view parameter) const;
  double number(std::string_view parameter) const;
  bool boolean(std::string_view parameter) const;
  std::vector<Expr> sizes(std::string_view parameter) const; // int[] or SymInt[]
  std::vector<int64_t> integers(std::string_view parameter) const;
  std::optional<DType> dtype(std::string_view parameter) const;
  std::optional<std::string> string(std::string_view parameter) const;
  tensor::Scalar scalar(std::string_view parameter) const;
  /// Meta of any node-valued argument.
  const Value *value_of(const Argument &argument) const;
  const Graph &graph() const { return *graph_; }
  const Node &node() const { return *node_; }
  const Schema &schema() const { return *schema_; }
  const symbolic::Ranges &ranges() const;
  const std::shared_ptr<const symbolic::Ranges> &shared_ranges() const;
  /// Where rules note which sizes they take to be one (may be null; must outlive the call).
  void note_equal_sizes(SizePairs *pairs) { equal_sizes_ = pairs; }
  SizePairs *equal_sizes() const { return equal_sizes_; }
  /// A UserError with code, this node's name and its source line.
  [[noreturn]] void fail(std::string code, std::string message, std::string next_step) const;
  /// The same for what is well-formed, but not supported.
  [[noreturn]] void refuse(std::string code, std::string message, std::string next_step) const;

private:
  const Graph *graph_;
  const Node *node_;
  const Schema *schema_;
  mutable std::shared_ptr<const symbolic::Ranges> ranges_; // gathered on first use
  std::vector<Argument> arguments_;
  mutable std::vector<std::optional<TensorMeta>> metas_; // one a parameter, filled on first use
  SizePairs *equal_sizes_ = nullptr;

  size_t position(std::string_view parameter) const;
};

/// "add.Tensor(Tensor self, ...) -> Tensor" without the name. Throws InternalError on a malformed
/// text: the texts are ours.
Schema parse_schema(std::string_view text);

/// Shape and dtype rule: the result's Value, from the arguments alone.
using ShapeRule = std::function<Value(const Call &)>;

/// Emits replacement nodes into a graph under construction. Every emitted node gets the shape
/// rule's Value and the origins and source lines of the node that is being replaced.
class GraphBuilder;
/// Decomposition: builds the replacement and returns its value (a List for several outputs).
using Decomposition = std::function<Argument(GraphBuilder &, const Call &)>;

enum class Effect : uint8_t {
  none,
  view,    // output aliases an input, no computation
  mutates, // writes an argument: functionalized to `functional`
  random,  // never merged by CSE
  assertion,
  /// Writes arguments that its schema marks, or communicates, and is lowered as it stands: never
  /// functionalized, merged or removed. A graph with such operators is a compiler's own.
  ordered,
};

struct Operator {
  std::string_view name; // "aten.add.Tensor"
  Schema schema;
  Effect effect = Effect::none;
  ShapeRule shape;           // empty: the decomposition's result
  Decomposition decompose;   // empty: lowered directly
  std::string_view lowering; // key into lowering's registry; "" if always decomposed
  /// Of a mutating operator: the operator that computes the new values (Table::add_mutating).
  std::string_view functional;
  /// Of an operator that writes under some arguments only (batch_norm: in training); empty: always.
  std::function<bool(const Call &)> mutates_if;
  bool yields_number = false; // see TensorMeta::is_number
  /// What it yields are elements of its first argument, perhaps in another dtype: views and copies.
  bool passes_elements = false;
};

/// Operator::passes_elements of a node's target; false if tsc does not know it.
bool passes_elements(const Node &node);

/// Whether some node of the graph has Effect::ordered.
bool has_ordered_operators(const Graph &graph);

/// Whether some node of the graph other than a wait writes to an argument.
bool writes_in_place(const Graph &graph);

/// Whether this call writes to an argument.
bool mutates(const Operator &row, const Call &call);

/// The dtype in which an elementwise operator computes: operands are converted to it first. It is
/// the result's dtype but for comparisons, logical operators and their kin, whose result is bool.
DType computation_dtype(const Call &call);

/// nullptr if tsc does not know the operator.
const Operator *find_operator(std::string_view name);
/// All rows, in name order.
const std::vector<Operator> &operators();
/// The whole table as docs/operators.md shows it.
std::string operators_markdown();

} // namespace tsc::ops
