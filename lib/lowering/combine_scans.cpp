#include "lowering/combine_scans.h"

#include "lowering/build.h"
#include "lowering/realize.h"
#include "lowering/registry.h"
#include "lowering/views.h"
#include "ops/families/combine_scans.h"
#include "ops/families/flex_attention.h"

#include <algorithm>

namespace tsc::lowering {

namespace {

constexpr std::string_view kScan = "tsc.associative_scan.default";

NodeValue combine_operand(Context &context, const ops::Call &call) {
  const graph::TensorMeta &meta = result_meta(context);
  LoopNode node;
  node.op = Op::operand;
  node.dtype = meta.dtype;
  node.sizes = meta.layout.sizes;
  node.constant = call.integer("number");
  return tensor_of(context, add_loop(context, std::move(node)));
}

/// The only element of a value of the combine function.
Operand only_element(Context &context, const TensorValue &value) {
  return reindexed(operand_of(context, value), std::vector<Expr>(value.sizes.size(), Expr(0)));
}

/// Whether a node is flip(.., [axis]).
bool flips(const Context &context, graph::NodeId id, size_t axis, size_t rank) {
  const graph::Node &node = context.graph.node(id);
  if (node.target != "aten.flip.default" || node.args.size() != 2 || !node.args[1].list())
    return false;
  const graph::Argument::List &dims = *node.args[1].list();
  const auto *dim = dims.size() == 1 ? std::get_if<int64_t>(&dims[0].value) : nullptr;
  return dim && dimension_of(*dim, rank) == axis;
}

/// A scan between flips runs from the last element to the first: its results stand in memory as
/// they are asked for, and the flips behind it have nothing to do.
bool runs_backwards(const Context &context, size_t axis, size_t rank) {
  const graph::Argument::List &xs = *context.graph.node(context.current).args[0].list();
  const auto is_flipped = [&](const graph::Argument &x) {
    return flips(context, x.node()->id, axis, rank);
  };
  const auto is_turned_back = [&](graph::NodeId item) {
    const std::vector<graph::NodeId> &users = context.users[item];
    return !context.returned[item] && !users.empty() &&
           std::all_of(users.begin(), users.end(),
                       [&](graph::NodeId user) { return flips(context, user, axis, rank); });
  };
  const std::vector<graph::NodeId> &items = context.users[context.current];
  return std::all_of(xs.begin(), xs.end(), is_flipped) &&
         std::all_of(items.begin(), items.end(), is_turned_back);
}

NodeValue associative_scan(Context &context, const ops::Call &call) {
  const std::vector<TensorValue> xs = tensor_arguments(context, call, "xs");
  const std::vector<Expr> sizes = xs[0].sizes;
  const size_t rank = sizes.size(), axis = dimension_argument(call, "dim", rank);
  if (sizes[axis].is_integer(1) || symbolic::numel(sizes).is_integer(0))
    return xs;
  std::vector<Expr> index; // the scanned dimension is the last loop
  for (size_t k = 0; k < rank; ++k)
    index.push_back(ir::variable(k < axis ? k : k == axis ? rank - 1 : k - 1));
  ir::Scan scan;
  scan.kind = ir::ScanKind::combine;
  scan.axis = axis;
  scan.backwards = runs_backwards(context, axis, rank);
  for (const TensorValue &x : xs)
    scan.inputs.push_back(reindexed(operand_of(context, x), index));
  for (const TensorValue &value : tensor_arguments(context, call, "combined"))
    scan.combined.push_back(only_element(context, value));
  std::vector<TensorValue> results;
  for (scan.item = 0; scan.item < xs.size(); ++scan.item) {
    const BufferId buffer =
        register_buffer(context, sizes, xs[scan.item].dtype, result_device(context));
    register_operation(context, scan, {buffer});
    // As what it reads does, which reads that go backwards do not say.
    const graph::Value &known = (*context.graph.node(context.current).value->list())[scan.item];
    decide_layout_as(context, buffer, known.tensor()->layout.strides);
    TensorValue result = tensor_of_buffer(context, buffer);
    if (scan.backwards) {
      result.index = identity_index(rank);
      (*result.index)[axis] = sizes[axis] - 1 - ir::variable(axis);
    }
    results.push_back(std::move(result));
  }
  return results;
}

} // namespace

std::vector<bool> find_combine_values(const graph::Graph &graph) {
  std::vector<bool> found(graph.nodes.size(), false);
  for (graph::NodeId id = 0; id < graph.nodes.size(); ++id) {
    const graph::Node &node = graph.nodes[id];
    if (node.kind != graph::NodeKind::call_function || node.target == kScan ||
        ops::is_fused_flex_attention(node.target))
      continue; // their results are tensors again
    found[id] = node.target == ops::kCombineOperand || node.target == ops::kScoreOperand;
    const auto add = [&](graph::NodeRef argument) { found[id] = found[id] || found[argument.id]; };
    for (const graph::Argument &argument : node.args)
      graph::for_each_node(argument, add);
    for (const auto &[name, argument] : node.kwargs)
      graph::for_each_node(argument, add);
  }
  return found;
}

void add_combine_scans(Registry &registry) {
  registry["combine_operand"] = combine_operand;
  registry["associative_scan"] = associative_scan;
}

} // namespace tsc::lowering
