// Attention as one node.
#pragma once

#include "ops/table/builder.h"
#include "ops/table/operator.h"

#include <functional>

struct tc_few_work; // templates/attention/tc_attention_geometry.h

namespace tsc::ops {

/// Calls of tsc.attention whose keys and values were repeated for the heads of a group (unsqueeze,
/// expand, a copy, view) take them as they were before: nothing is repeated in memory.
void share_heads(graph::Graph &graph);

/// Into how many parts keys are cut where queries are few; 0: a kernel of many queries takes them.
using AttentionParts = std::function<int64_t(const tc_few_work &)>;
/// Whether a kernel of floats is faster than products and a softmax; sizes that are not known are
/// guessed.
using FloatAttentionPays = std::function<bool(const tc_few_work &, bool causal)>;
struct AttentionKernels {
  int64_t deepest = 0;           // elements of a row of 16-bit floats that one takes at most
  AttentionParts parts;          // empty: few queries are left to products
  FloatAttentionPays floats_pay; // empty: floats are left to products
};
/// Marks the tsc.attention nodes that one kernel computes whole: they become
/// tsc.attention.output_only, or with_sums where somebody takes their logsumexp, or in_parts where
/// queries are few and `kernels.parts` would have their keys so.
void choose_fused_attention(graph::Graph &graph, const AttentionKernels &kernels);

/// (output [batch.., rows, depth], logsumexp [batch.., rows]) of a call of tsc.attention.
Value attention_value(const Call &call);
/// Whether the schema of `call` has a parameter of that name: not all forms of attention have all.
bool has_parameter(const Call &call, std::string_view name);
/// Gives the output of attention the strides that attention_value promises.
Argument in_promised_order(GraphBuilder &builder, const Argument &output, const TensorMeta &query);

/// Backward forms of attention (aten's names), which wait for what the target can do.
bool is_attention_backward(std::string_view target);
const std::vector<std::string_view> &attention_backward_forms();

} // namespace tsc::ops
