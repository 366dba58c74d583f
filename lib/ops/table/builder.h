// Emits nodes into a graph under construction.
#pragma once

#include "ops/table/operator.h"
#include "support/diagnostic.h"

#include <unordered_map>
#include <unordered_set>

namespace tsc::ops {

using Arguments = Argument::List;
using Keywords = std::vector<std::pair<std::string, Argument>>;

/// An int that is static is int64_t, as Argument demands.
Argument size_argument(Expr size);
Argument sizes_argument(const std::vector<Expr> &sizes);
Argument ints_argument(const std::vector<size_t> &values);

/// What decompositions may know of the target.
struct Facilities {
  bool product_kernels = false; // which read a convolution's windows where they come from
  /// Elements of a row that kernels of attention's backward pass take at most; 0: there are none.
  int64_t attention_backward = 0;
  /// Where there is no mask, groups of warps divide their work (wgmma).
  bool attention_backward_groups = false;
  int64_t attention = 0; // the same of those of its forward pass
};

class GraphBuilder {
public:
  /// Appends to `graph`. `composites` stay as they are (one node each) though the table could
  /// decompose them.
  GraphBuilder(Graph &graph, std::shared_ptr<const symbolic::Ranges> ranges,
               std::unordered_set<std::string_view> composites = {});

  /// The node that emitted nodes stand for: they take its origins, stack trace and module stack.
  /// Kept by value, without its arguments: the node may move or go.
  void set_source(const Node &node);
  /// Keeps new names apart from names that are still to come.
  void reserve_name(const std::string &name) { names_.insert(name); }

  /// Calls an operator: decomposed if it has a decomposition, else one node. The result is a
  /// reference, or a List for several results.
  Argument call(std::string_view target, Arguments args, Keywords kwargs = {});
  /// One node, never decomposed.
  Argument emit(std::string_view target, Arguments args, Keywords kwargs = {});
  /// The source node itself, with the arguments of `call`: what a decomposition returns that has
  /// nothing to do.
  Argument keep(const Call &call);
  /// The source node under its own name, with these arguments.
  Argument keep(const Call &call, Arguments args);
  /// Element `index` of a result.
  Argument item(const Argument &result, int64_t index);

  /// Says that `result` is an element of what the list operator yields that is the source (or, of
  /// a rewritten graph, the one called `list`).
  void mark_element(const Argument &result);
  void mark_element(const Argument &result, const std::string &list);

  /// Where the calls of decompositions note which sizes they take to be one (may be null).
  void note_equal_sizes(SizePairs *pairs) { equal_sizes_ = pairs; }

  /// By value: the graph grows.
  TensorMeta meta(const Argument &argument) const;
  const Graph &graph() const { return *graph_; }
  const symbolic::Ranges &ranges() const { return *ranges_; }
  const std::shared_ptr<const symbolic::Ranges> &shared_ranges() const { return ranges_; }
  void set_facilities(const Facilities &facilities) { facilities_ = facilities; }
  const Facilities &facilities() const { return facilities_; }
  bool is_composite(std::string_view name) const { return composites_.count(name) != 0; }

  /// Appends `node` as it is, its value included.
  graph::NodeId append(Node node);
  /// Keeps a graph that nodes may name. Returns the name that it has: `name`, or one like it.
  std::string add_subgraph(const std::string &name, Graph subgraph);
  /// A name that no other node has: "exp", "exp_1", ...
  std::string fresh_name(std::string_view target);

private:
  Graph *graph_;
  std::shared_ptr<const symbolic::Ranges> ranges_;
  std::unordered_set<std::string_view> composites_;
  std::optional<Node> source_;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, size_t> next_suffix_;
  SizePairs *equal_sizes_ = nullptr;
  Facilities facilities_;

  Argument emit_named(std::string name, std::string_view target, Arguments args, Keywords kwargs);
  /// Throws `error` again, its diagnostics naming the source node instead of one that the user
  /// never wrote.
  [[noreturn]] void throw_for_source(const support::UserError &error) const;
};

/// The Value that `node` yields, by its operator's shape rule or decomposition. UserError if the
/// arguments are wrong. `equal_sizes` (may be null) gets the sizes that are taken to be one.
Value infer_value(const Graph &graph, const Node &node,
                  const std::shared_ptr<const symbolic::Ranges> &ranges,
                  SizePairs *equal_sizes = nullptr);

/// A decomposition in a graph of its own that holds the node's arguments only, as placeholders.
struct DecomposedAlone {
  Graph graph;
  Argument result;
  std::vector<graph::NodeId> arguments; // by placeholder: the node of the graph around it
};
/// Strides of the arguments are those that were inferred, or those that the file records.
enum class ArgumentStrides : uint8_t { inferred, recorded };
DecomposedAlone decompose_alone(const Graph &graph, const Node &node, const Operator &row,
                                const std::shared_ptr<const symbolic::Ranges> &ranges,
                                SizePairs *equal_sizes = nullptr,
                                ArgumentStrides strides = ArgumentStrides::inferred);

} // namespace tsc::ops
