// What lowering carries from node to node: the module under construction and the value of every
// graph node.
#pragma once

#include "graph/graph.h"
#include "ir/ir.h"
#include "lowering/lower.h"

#include <map>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

namespace tsc::lowering {

using ir::BufferId;
using ir::DType;
using ir::Expr;
using ir::kNone;
using ir::Layout;
using ir::LoopId;
using ir::LoopNode;
using ir::Op;
using ir::Operand;

/// What evaluating an unrealized value costs once.
struct LoopCost {
  size_t operations = 0;
  size_t reads = 0;            // distinct (buffer, index) pairs
  size_t nontrivial_reads = 0; // those whose index is not a constant
  size_t draws = 0;            // of random numbers
  size_t functions = 0;        // operations that take several instructions
  size_t lookups = 0;          // indices that follow from data
  int64_t gathered_bytes = 0;  // of the largest result of an all-gather that is read
};

/// Where a tensor's elements come from; shared by all views of it. Exactly one of `loop` (not
/// realized) and `buffer` (realized) is set, but for realized values that read nothing: they keep
/// `loop`, and readers compute them again instead of loading.
struct Storage {
  std::vector<Expr> sizes;
  DType dtype = DType::f32;
  tensor::Device device;
  LoopId loop = kNone;
  BufferId buffer = kNone;
  std::optional<LoopCost> cost; // of `loop`, counted on first need
  uint32_t list = kNone;        // an element of the result of this list operator (Module::lists)

  bool realized() const { return buffer != kNone; }
};

/// A tensor: a storage, seen as it is, or through a strided layout (realized storage only), or
/// through an index map (one expression per dimension of the storage, over ir::variable(k) of this
/// value).
struct TensorValue {
  std::shared_ptr<Storage> storage;
  std::vector<Expr> sizes;
  DType dtype =
      DType::f32; // differs from the storage's only under `layout`: the bits are reinterpreted
  std::optional<Layout> layout;
  std::optional<std::vector<Expr>> index;

  bool is_view() const { return layout || index; }
};

/// Result of a graph node. Poison: its lowering failed and was reported.
struct Poison {};
using NodeValue =
    std::variant<Poison, graph::None, TensorValue, std::vector<TensorValue>, Expr, double, bool>;

/// An update that is stored into the memory of a mutated input (in_place.h).
struct InPlaceUpdate {
  graph::NodeId input = 0;
  TensorValue place; // where its result lies in the input: an index map over an unrealized whole
  /// slice_scatter or select_scatter whose source is an update of that very region: when it comes
  /// to this node, nothing is left to do.
  bool region_is_updated = false;
};

/// Where a part of a concatenation is stored when it is computed, before the concatenation comes.
struct PlannedSlice {
  graph::NodeId join = 0;
  tensor::Layout layout; // of the part's own sizes, in the memory of all
};

/// A tensor input's memory.
struct InputMemory {
  BufferId buffer = kNone;
  std::vector<graph::NodeId> names; // nodes whose value is this memory since its last update
};

struct Context {
  Context(const graph::Graph &graph, const LoweringOptions &options);

  const graph::Graph &graph;
  const target::Policy &policy;
  const target::Target *target;
  tensor::Device device; // where everything is computed: the first GPU that a tensor of the graph
                         // is on, if any
  const std::vector<graph::TensorMeta> *results; // of a subgraph
  std::shared_ptr<const symbolic::Ranges> ranges;
  ir::Module module;
  std::vector<NodeValue> values;                 // by NodeId
  std::vector<std::vector<graph::NodeId>> users; // by NodeId, each user once, ascending
  std::vector<bool> returned;                    // by NodeId: a user output
  std::vector<bool> realized_lists;              // by position in Module::lists
  std::vector<bool> weight_values;  // by NodeId: find_weight_values, under policies that use it
  std::vector<bool> combine_values; // by NodeId: find_combine_values
  std::unordered_map<graph::NodeId, const graph::InputSpec *> input_specs;
  graph::NodeId current = 0;                                   // the node that is being lowered
  std::map<graph::NodeId, InPlaceUpdate> in_place;             // by the updating node
  std::map<graph::NodeId, PlannedSlice> slices;                // by the part's node: plan_slices
  std::map<graph::NodeId, BufferId> joined;                    // by join: memory that parts are in
  std::unordered_map<graph::NodeId, InputMemory> input_memory; // by placeholder
  std::unordered_map<BufferId, BufferId> present_buffers;      // of inputs updated in place
  std::unordered_map<uint64_t, std::vector<LoopId>>
      loads;                                  // load nodes by hash of buffer and layout
  std::unordered_set<BufferId> strided_loads; // buffers that some load node sees through a layout
  bool in_place_operators = false;            // some node has ops::Effect::ordered
  /// With those: nodes whose values have no memory yet and are used later, and how far nodes were
  /// looked at for them.
  std::vector<graph::NodeId> pending;
  graph::NodeId pending_end = 0;
  /// Masks of attention whose keys were no neighbours, and what they were copied to: layers share
  /// one. Not kept where operators change memory in between.
  std::vector<std::pair<ir::BufferView, ir::BufferView>> turned_masks;
  std::map<BufferId, BufferId> set_inputs; // inputs whose storage was set -> their last version
  /// Tensors of rank 0 (i64) that say what the integers are that the data decides.
  std::unordered_map<Expr, TensorValue, symbolic::ExprHash> data_numbers;
  std::unordered_map<Expr, std::string, symbolic::ExprHash> data_sources; // "input 'n'"
  size_t buffer_count = 0; // computed ones: the next is buf<buffer_count>
};

} // namespace tsc::lowering
