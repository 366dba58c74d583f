// What adds at run-time indices does so in a fixed order where that is asked for, or pays, and else
// 16-bit floats in float32 where many meet.
#include "ops/families/row_sums.h"
#include "ops/passes/decompose.h"
#include "ops/table/source_line.h"
#include "support/diagnostic.h"

#include <algorithm>

namespace tsc::ops {

namespace {

/// Products of floats at run-time indices: no order of theirs is fixed.
void require_ordered(const graph::Node &node) {
  if (node.target != "aten.scatter_reduce.two" || !tensor::is_floating(node.value->tensor()->dtype))
    return;
  const auto *name = node.args.size() > 4 ? std::get_if<std::string>(&node.args[4].value) : nullptr;
  if (name != nullptr && *name == "prod")
    throw support::UserError(
        support::ExitCode::unsupported,
        {.code = "TSC-O218",
         .message = node.target +
                    " of floats with reduce='prod' multiplies in the order in which threads come",
         .node = users_name(node),
         .source_line = source_line(node),
         .next_step = "compile without --deterministic, or multiply another way"});
}

} // namespace

graph::Graph order_sums(graph::Graph graph, const PassOptions &options) {
  bool changes = false;
  for (graph::Node &node : graph.nodes) {
    if (node.kind != graph::NodeKind::call_function)
      continue;
    if (options.deterministic)
      require_ordered(node);
    const std::string_view target = in_fixed_order(node);
    if (target.empty())
      continue;
    if (options.sorted_sums && few_places_pay(graph, node)) {
      node.target = "tsc.sum_at_few_places.default";
      changes = true;
    } else if (options.deterministic || (options.sorted_sums && fixed_order_pays(graph, node))) {
      node.target = target;
      changes = true;
    } else if (const std::string_view wide = in_float32(graph, node); !wide.empty()) {
      node.target = wide;
      changes = true;
    }
    changes = changes || node.target == kSumAt;
  }
  return changes ? decompose_keeping(std::move(graph), {}, {options.product_kernels})
                 : std::move(graph);
}

} // namespace tsc::ops
