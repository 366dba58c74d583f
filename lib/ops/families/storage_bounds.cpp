#include "ops/families/storage_bounds.h"

#include "graph/data_symbols.h"
#include "graph/indicators.h"
#include "ops/families/assertions.h"
#include "ops/table/shape_rules.h"

namespace tsc::ops {

namespace {

/// Fails where `condition` never holds; asserts it where sizes decide.
void require_condition(GraphBuilder &builder, const Call &call, Expr condition,
                       const std::string &otherwise) {
  const Argument known = decided(builder, condition);
  if (const bool *holds = std::get_if<bool>(&known.value); holds && !*holds)
    call.fail("TSC-O079", call.node().target + " leaves its memory: " + otherwise,
              "choose sizes, strides and an offset within the tensor's memory");
  assert_condition(builder, known, call.node().target + ": " + otherwise);
}

} // namespace

std::vector<graph::NodeId> chain_of_views(const Graph &graph, graph::NodeId id) {
  std::vector<graph::NodeId> chain = {id};
  while (true) {
    const Node &node = graph.node(chain.back());
    const bool is_view = node.kind == graph::NodeKind::call_function &&
                         find_operator(node.target)->effect == Effect::view && !node.args.empty() &&
                         node.args[0].node();
    if (!is_view)
      return chain;
    chain.push_back(node.args[0].node()->id);
  }
}

void require_strides(const Call &call, const std::vector<Expr> &sizes,
                     const std::vector<Expr> &strides) {
  if (sizes.size() != strides.size())
    call.fail("TSC-O079",
              call.node().target + ": " + std::to_string(sizes.size()) + " sizes and " +
                  std::to_string(strides.size()) + " strides",
              "pass a stride for each size");
}

void require_within(GraphBuilder &builder, const Call &call, const StridedRegion &region,
                    Expr elements) {
  std::vector<Expr> numbers = region.sizes;
  numbers.insert(numbers.end(), region.strides.begin(), region.strides.end());
  numbers.push_back(region.offset);
  for (const Expr number : numbers) {
    if (graph::depends_on_data(number))
      call.refuse("TSC-O004", call.node().target + ": the region depends on data",
                  "use index_select, gather or narrow");
    if (!symbolic::known_nonnegative(number, builder.ranges()))
      require_condition(builder, call, graph::less_or_equal(0, number),
                        symbolic::print(number) + " is negative");
  }
  Expr reach = region.offset + 1;
  for (size_t i = 0; i < region.sizes.size(); ++i)
    reach += (region.sizes[i] - 1) * region.strides[i];
  const Expr count = symbolic::numel(region.sizes);
  const Expr empty = graph::less_or_equal(count, 0);
  require_condition(builder, call, symbolic::maximum(empty, graph::less_or_equal(reach, elements)),
                    "sizes " + print_sizes(region.sizes) + " with strides " +
                        print_sizes(region.strides) + " from element " +
                        symbolic::print(region.offset) + " on reach " + symbolic::print(reach) +
                        " elements, the memory has " + symbolic::print(elements));
}

void require_behind_start(GraphBuilder &builder, const Call &call, const StridedRegion &region,
                          Expr start) {
  const Expr empty = graph::less_or_equal(symbolic::numel(region.sizes), 0);
  require_condition(builder, call,
                    symbolic::maximum(empty, graph::less_or_equal(start, region.offset)),
                    "element " + symbolic::print(region.offset) +
                        " lies before the input, whose memory is given from element " +
                        symbolic::print(start) + " on");
}

} // namespace tsc::ops
