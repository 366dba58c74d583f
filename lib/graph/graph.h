// The FX graph: what a file holds, before any rewriting.
//
// Nodes are in execution order; an argument refers to a node by its position (NodeId), which stays
// valid until the graph is rebuilt. Passes take a Graph and return a new one.
#pragma once

#include "symbolic/expr.h"
#include "tensor/dtype.h"
#include "tensor/host_tensor.h"
#include "tensor/layout.h"
#include "tensor/structure.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tsc::graph {

using symbolic::Expr;
using tensor::Device;
using tensor::DType;
using tensor::Layout;

using NodeId = uint32_t;

struct None {
  friend bool operator==(None, None) = default;
};
struct NodeRef {
  NodeId id = 0;
  friend bool operator==(NodeRef, NodeRef) = default;
};
enum class MemoryFormat : uint8_t { contiguous, channels_last, channels_last_3d, preserve };
struct TensorLayoutKind { // torch.strided and its kin
  std::string name;       // "torch.strided"
  friend bool operator==(const TensorLayoutKind &, const TensorLayoutKind &) = default;
};
struct GraphRef { // a subgraph as argument
  std::string name;
  friend bool operator==(const GraphRef &, const GraphRef &) = default;
};

struct Complex {
  double real = 0, imaginary = 0;
  friend bool operator==(const Complex &, const Complex &); // NaN equals itself
};
/// A script object: as an argument the name under which the file keeps it, as a value its class
/// only.
struct CustomObject {
  std::string name, class_name;
  friend bool operator==(const CustomObject &, const CustomObject &) = default;
};

/// An argument of a node. Symbolic ints that are not a node's value are Expr (an integer Expr is
/// never stored: plain int64 is used).
struct Argument {
  using List = std::vector<Argument>;
  struct Dictionary { // in order, as in Python
    std::vector<std::pair<std::string, Argument>> entries;
    friend bool operator==(const Dictionary &, const Dictionary &);
  };
  std::variant<None, bool, int64_t, double, std::string, Expr, NodeRef, DType, Device, MemoryFormat,
               TensorLayoutKind, GraphRef, Complex, CustomObject, List, Dictionary>
      value;

  Argument() = default;
  template <class T> Argument(T v) : value(std::move(v)) {} // NOLINT
  Argument(const char *text) : value(std::string(text)) {}  // NOLINT
  Argument(int v) : value(int64_t{v}) {}                    // NOLINT

  bool is_none() const { return std::holds_alternative<None>(value); }
  const NodeRef *node() const { return std::get_if<NodeRef>(&value); }
  const List *list() const { return std::get_if<List>(&value); }
  const Dictionary *dictionary() const { return std::get_if<Dictionary>(&value); }
  friend bool operator==(const Argument &, const Argument &);
};

/// What a tensor-valued node yields.
struct TensorMeta {
  DType dtype = DType::f32;
  Layout layout;
  Device device;
  bool requires_grad = false;
  /// Stands for a number that the data decides (rank 0; f64 or bool): it counts as a Python number
  /// in dtype promotion.
  bool is_number = false;
  friend bool operator==(const TensorMeta &, const TensorMeta &) = default;
};
/// None: a node without a value; int/bool/float: Python scalars (an Expr for a symbolic int).
/// Symbolic floats and bools have no Value: they are what their node computes.
struct Value {
  using List = std::vector<Value>;
  std::variant<None, TensorMeta, Expr, double, bool, std::string, CustomObject, List> value;
  const TensorMeta *tensor() const { return std::get_if<TensorMeta>(&value); }
  const List *list() const { return std::get_if<List>(&value); }
  friend bool operator==(const Value &, const Value &);
};

enum class NodeKind : uint8_t { placeholder, get_attr, call_function, output };

struct Node {
  std::string name;
  NodeKind kind = NodeKind::call_function;
  /// "aten.add.Tensor", "operator.getitem", "prims.convert_element_type.default"; for a placeholder
  /// its name, for get_attr the constant's or subgraph's name.
  std::string target;
  std::vector<Argument> args;
  std::vector<std::pair<std::string, Argument>> kwargs;
  std::optional<Value> value; // always present after ops::infer_shapes
  std::string stack_trace;    // the user's frames, as exported
  std::string nn_module_stack;
  /// Names of the user's nodes that this one came from; {name} for a node as read.
  std::vector<std::string> origins;
  /// What this node yields is an element of the result of the list operator of this name
  /// (aten._foreach_*); "" for others.
  std::string list;
  /// The strides that the file gives this tensor, where they or those of what it views are not the
  /// ones that ops::infer_shapes finds.
  std::vector<Expr> recorded_strides;
};

enum class InputKind : uint8_t {
  user,
  parameter,
  buffer,
  constant_tensor,
  token,
  custom_object,
  random_state, // {seed, call number}, int64: made by ops::seed_random, kept by what runs the
                // program
  failure,      // the number of the first assertion that failed, 0 before, int64 of rank 0: made by
                // ops::record_assertions, kept by what runs the program
};
struct InputSpec {
  InputKind kind = InputKind::user;
  NodeId node = 0;        // the placeholder
  std::string target;     // parameter's, buffer's or constant's qualified name; "" for user inputs
  bool persistent = true; // buffers
  /// User inputs that are not tensors: the constant they were exported with, if specialized.
  std::optional<Argument> constant;
};
enum class OutputKind : uint8_t {
  user,
  buffer_mutation,
  input_mutation,
  parameter_mutation,
  token,
  loss,
  gradient
};
struct OutputSpec {
  OutputKind kind = OutputKind::user;
  Argument value; // NodeRef, None, or a constant
  /// The mutated buffer's or parameter's qualified name, or the input's node; of a gradient, the
  /// parameter or the input that it belongs to.
  std::string target;
};

struct SymbolRange {
  Expr symbol;
  int64_t low = 0;
  int64_t high = INT64_MAX;
  /// What the file calls it; "" where that is the symbol's spelling.
  std::string name = {};
  /// A value that it may well have, as that of the exported example: plans are made for it, and
  /// serve all others.
  std::optional<int64_t> hint = {};
};

/// What must hold of data while the graph runs.
struct Assertion {
  std::string message, node, source_line;
  friend bool operator==(const Assertion &, const Assertion &) = default;
};

/// Two sizes that a call takes to be one and that nothing proves equal.
struct EqualSizes {
  Expr a, b;
  Assertion assertion;
};

/// "the sum is negative (node _assert_async) in File "m.py", line 3, in forward: ..."
std::string to_string(const Assertion &assertion);

struct Graph {
  std::string name;                // from the file's metadata, or ""
  std::string stage;               // "" or "post_grad" (seeds: skip clean-up)
  std::vector<Node> nodes;         // placeholders first; the last node is the output node
  std::vector<InputSpec> inputs;   // in placeholder order
  std::vector<OutputSpec> outputs; // mutations first, as in torch.export
  /// How those that are no mutations lie in what the user's model gives, if the file says it.
  std::optional<tensor::Structure> structure;
  std::vector<SymbolRange> symbols;
  std::map<std::string, Graph> subgraphs;
  /// Parameters, buffers and constants that came with the file, by qualified name (mapped, not
  /// copied).
  tensor::TensorMap weights;
  /// Of this graph and of its subgraphs; the failure input counts them from 1.
  std::vector<Assertion> assertions;
  /// Found by ops::infer_shapes in the calls of the file, also those whose values nothing reads;
  /// checked when sizes are bound.
  std::vector<EqualSizes> equal_sizes;

  const Node &node(NodeId id) const { return nodes[id]; }
  symbolic::Ranges ranges() const;
};

/// The tensors that stand in the graph itself, by name: lifted constants and what get_attr names.
std::map<std::string, const tensor::HostTensor *> constants_of(const Graph &graph);

/// Equal in everything that graph JSON carries: all but parameters and buffers' values.
bool operator==(const Graph &, const Graph &);

/// Number of nodes that use each node (arguments, nested lists and the output included).
std::vector<uint32_t> count_users(const Graph &graph);
/// Calls `visit` for every NodeRef inside `argument`, in order.
void for_each_node(const Argument &argument, const std::function<void(NodeRef)> &visit);

/// "(0.5-2j)": no ".0", no real part that is 0, as in Python.
std::string python_repr(const Complex &value);

/// The FX text form: equal, byte for byte, to str(ExportedProgram.graph) of PyTorch 2.11.
std::string to_text(const Graph &graph);

} // namespace tsc::graph
