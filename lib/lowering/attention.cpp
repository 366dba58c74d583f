// Attention that one kernel computes whole: an external call on realized, strided operands.
#include "lowering/attention_operands.h"
#include "lowering/registry.h"

#include <algorithm>
#include <set>

namespace tsc::lowering {

namespace {

/// True if `e` is surely a multiple of `factor`.
bool is_multiple(const Context &context, Expr e, int64_t factor) {
  return symbolic::simplify(symbolic::mod(e, Expr(factor)), *context.ranges).is_integer(0);
}

/// A head of its own for what has no batch dimension.
tensor::Layout with_batch(tensor::Layout layout, size_t rank = 4) {
  while (layout.rank() < rank) {
    layout.sizes.insert(layout.sizes.begin(), Expr(1));
    layout.strides.insert(layout.strides.begin(), Expr(0));
  }
  return layout;
}
/// Rank 5: whether its batches of batches are batches, one after the other.
bool is_one_batch(const Context &context, const tensor::Layout &layout) {
  const Expr gap = layout.strides[0] - layout.sizes[1] * layout.strides[1];
  return layout.sizes[0].is_integer(1) || layout.sizes[1].is_integer(1) ||
         symbolic::simplify(gap, *context.ranges).is_integer(0);
}
tensor::Layout with_one_batch(tensor::Layout layout) {
  if (layout.rank() != 5)
    return layout;
  const size_t inner = layout.sizes[1].is_integer(1) ? 0 : 1;
  const Expr stride = layout.strides[inner];
  layout.sizes[0] = layout.sizes[0] * layout.sizes[1];
  layout.strides[0] = stride;
  layout.sizes.erase(layout.sizes.begin() + 1);
  layout.strides.erase(layout.strides.begin() + 1);
  return layout;
}

} // namespace

ir::BufferView rows_operand(Context &context, TensorValue value) {
  ir::BufferView view = realized_view(context, value);
  const auto fits = [&](const tensor::Layout &layout) {
    const size_t last = layout.rank() - 1;
    bool result = is_multiple(context, layout.offset, 8) && layout.strides[last].is_integer(1) &&
                  (layout.rank() != 5 || is_one_batch(context, layout));
    for (size_t k = 0; k < last; ++k)
      result =
          result && (layout.sizes[k].is_integer(1) || is_multiple(context, layout.strides[k], 8));
    return result;
  };
  if (!fits(view.layout)) {
    TensorValue dense = copy(context, value);
    decide_layout_as(context, dense.storage->buffer, tensor::contiguous_strides(dense.sizes));
    view = *strided_view(context, dense);
  }
  view.layout = with_batch(with_one_batch(view.layout));
  return view;
}

/// Strides of rows one after another, each of which starts at a multiple of `run` elements.
std::vector<Expr> strides_of_rows(const std::vector<Expr> &sizes, int64_t run) {
  std::vector<Expr> strides(sizes.size(), Expr(1));
  for (size_t k = sizes.size() - 1; k-- > 0;)
    strides[k] = k + 2 == sizes.size() ? symbolic::ceil_div(sizes[k + 1], Expr(run)) * Expr(run)
                                       : strides[k + 1] * sizes[k + 1];
  return strides;
}

ir::BufferView mask_operand(Context &context, TensorValue value, const std::vector<Expr> &scores) {
  constexpr int64_t kRun = 8; // elements that threads read at once
  ir::BufferView view = realized_view(context, value);
  // Every row of queries reads its row of the mask, every batch anew: one that is computed with its
  // heads innermost is turned once.
  if (view.layout.rank() > 1 && !view.layout.sizes.back().is_integer(1) &&
      !view.layout.strides.back().is_integer(0) && !view.layout.strides.back().is_integer(1)) {
    const auto found = std::find_if(
        context.turned_masks.begin(), context.turned_masks.end(), [&](const auto &pair) {
          return pair.first.buffer == view.buffer && pair.first.layout == view.layout;
        });
    if (found != context.turned_masks.end()) {
      view = found->second;
    } else {
      TensorValue rows = copy(context, value);
      decide_layout_as(context, rows.storage->buffer, strides_of_rows(rows.sizes, kRun));
      const ir::BufferView turned = *strided_view(context, rows);
      if (!context.in_place_operators)
        context.turned_masks.emplace_back(view, turned);
      view = turned;
    }
  }
  const size_t rank = std::max<size_t>(4, scores.size());
  view.layout = with_batch(view.layout, rank);
  std::vector<Expr> sizes = scores;
  sizes.insert(sizes.begin(), rank - sizes.size(), Expr(1));
  for (size_t k = 0; k < rank; ++k)
    if (view.layout.sizes[k].is_integer(1))
      view.layout.strides[k] = 0;
  view.layout.sizes = std::move(sizes);
  return view;
}

namespace {

/// The call of a kernel that computes attention, and its first three operands.
ir::Extern attention_of(Context &context, const ops::Call &call, const char *name) {
  ir::Extern kernel;
  kernel.kernel = name;
  kernel.ir_class = "TemplateBuffer";
  kernel.library = ir::Library::attention;
  kernel.alpha = call.number("scale");
  for (const char *operand : {"query", "key", "value"})
    kernel.inputs.push_back(rows_operand(context, tensor_argument(context, call, operand)));
  return kernel;
}

/// Registers it; its results lie as the node's value says.
NodeValue registered(Context &context, const ops::Call &call, ir::Extern kernel) {
  const graph::Value &result = *call.node().value;
  std::vector<BufferId> outputs;
  std::vector<TensorValue> values;
  const auto add = [&](const graph::TensorMeta &meta) {
    const BufferId buffer = register_buffer(context, meta.layout.sizes, meta.dtype, context.device);
    ir::Buffer &out = context.module.buffers[buffer];
    out.layout.strides = meta.layout.strides;
    out.layout_kind = ir::LayoutKind::fixed;
    outputs.push_back(buffer);
    values.push_back(tensor_of_buffer(context, buffer));
  };
  if (const graph::TensorMeta *one = result.tensor())
    add(*one);
  else
    for (const graph::Value &each : *result.list())
      add(*each.tensor());
  register_operation(context, std::move(kernel), outputs);
  if (result.tensor())
    return values[0];
  return values;
}

NodeValue fused_attention(Context &context, const ops::Call &call) {
  ir::Extern kernel = attention_of(context, call, "tsc.fused_attention");
  kernel.causal = call.boolean("is_causal");
  if (call.node().target == "tsc.attention_parts.default")
    kernel.parts = call.integer("parts");
  if (call.has("attn_mask")) {
    std::vector<Expr> scores = call.tensor("query").layout.sizes;
    scores.back() = kernel.inputs[1].layout.sizes[2];
    kernel.inputs.push_back(
        mask_operand(context, tensor_argument(context, call, "attn_mask"), scores));
  }
  return registered(context, call, std::move(kernel));
}

/// The buffers that loops under `roots` read, each once, in the order in which they are met.
std::vector<ir::BufferView> buffers_read(Context &context, const std::vector<LoopId> &roots) {
  std::vector<ir::BufferView> found;
  std::vector<LoopId> open = roots;
  std::set<LoopId> seen(open.begin(), open.end());
  for (size_t i = 0; i < open.size(); ++i) {
    const LoopNode &node = context.module.loops[open[i]];
    for (const Operand &operand : node.operands)
      if (seen.insert(operand.node).second)
        open.push_back(operand.node);
    const bool is_new = node.op == Op::load &&
                        std::none_of(found.begin(), found.end(),
                                     [&](const auto &each) { return each.buffer == node.buffer; });
    if (!is_new)
      continue;
    const BufferId buffer = node.buffer;
    decide_layout(context, buffer);
    const ir::Buffer &memory = context.module.buffer(buffer);
    found.push_back({buffer, memory.layout, memory.dtype});
  }
  return found;
}

NodeValue fused_flex_attention(Context &context, const ops::Call &call) {
  ir::Extern kernel = attention_of(context, call, "tsc.fused_flex_attention");
  auto scores = std::make_shared<ir::ScoreFunctions>();
  const std::vector<Expr> &query = kernel.inputs[0].layout.sizes;
  scores->sizes = {query[0], query[1], query[2], kernel.inputs[1].layout.sizes[2]};
  scores->score =
      broadcast_operand(context, tensor_argument(context, call, "score"), scores->sizes);
  std::vector<LoopId> roots = {scores->score.node};
  if (call.has("seen")) {
    scores->seen =
        broadcast_operand(context, tensor_argument(context, call, "seen"), scores->sizes);
    roots.push_back(scores->seen->node);
  }
  std::vector<TensorValue> lists = tensor_arguments(context, call, "lists");
  if (!lists.empty()) {
    const std::vector<int64_t> block = call.integers("block");
    scores->block_rows = block[0];
    scores->block_columns = block[1];
  }
  for (TensorValue &list : lists)
    kernel.inputs.push_back(realized_view(context, list));
  for (ir::BufferView &read : buffers_read(context, roots))
    kernel.inputs.push_back(std::move(read));
  kernel.scores = std::move(scores);
  return registered(context, call, std::move(kernel));
}

/// Number 0: the score, which is there inside the kernel alone. Others: where it stands.
NodeValue score_operand(Context &context, const ops::Call &call) {
  const graph::TensorMeta &meta = result_meta(context);
  const int64_t number = call.integer("number");
  LoopNode node;
  node.op = number == 0 ? Op::operand : Op::index_expr;
  node.dtype = meta.dtype;
  node.sizes = meta.layout.sizes;
  node.constant = int64_t{0};
  if (number > 0)
    node.expr = ir::variable(static_cast<size_t>(number - 1));
  return tensor_of(context, add_loop(context, std::move(node)));
}

} // namespace

void add_attention(Registry &registry) {
  registry["fused_attention"] = fused_attention;
  registry["fused_flex_attention"] = fused_flex_attention;
  registry["score_operand"] = score_operand;
}

} // namespace tsc::lowering
