// One thread a block: plain loops over a chunk, which a host compiler vectorizes; the runtime
// spreads blocks over cores.
#include "codegen/plan.h"

#include <algorithm>

namespace tsc::codegen {

namespace {

constexpr int64_t kChunkElements = 16384; // elements of work a block: some 10 microseconds
constexpr int64_t kKeptBytes = 1 << 16;   // stack that values kept between phases may take
constexpr int kRun = 16;                  // elements of an inner loop: a cache line of floats

/// One thread adds a whole row up: where many numbers go into one sum, their own precision would
/// lose digits (equal ones are all rounded to the same side). Without vectors a double costs what a
/// float does.
void choose_sum_types(KernelPlan &plan, int accumulators) {
  const auto longest = [&](tensor::DType dtype) {
    const int64_t chain = accumulators > 1 ? 64 : dtype == tensor::DType::f64 ? 256 : 2;
    return chain * accumulators;
  };
  const KernelGraph &graph = plan.graph;
  const auto elements = graph.elements().as_integer();
  plan.summed_wider.assign(graph.values.size(), false);
  for (ValueId id = 0; id < graph.values.size(); ++id)
    plan.summed_wider[id] =
        graph.is_reduction(id) && (!elements || *elements > longest(graph[id].dtype)) &&
        graph[id].reduction == ir::ReductionKind::sum && tensor::is_floating(graph[id].dtype);
}

} // namespace

KernelPlan plan_serial(const ir::Module &module, const scheduler::Group &group,
                       const KernelGraph *given) {
  KernelPlan plan;
  plan.graph = given ? *given
                     : build_kernel_graph(module, group,
                                          {.two_pass_statistics = true, .scans_end_phases = false});
  if (plan.graph.scans_end_phases) { // given: one thread carries scans along
    plan.graph.scans_end_phases = false;
    assign_phases(plan.graph);
  }
  const KernelGraph &graph = plan.graph;
  SerialWalk walk;
  const bool in_order =
      std::any_of(graph.values.begin(), graph.values.end(), [](const Value &value) {
        return value.op == ir::Op::scan || value.op == ir::Op::sort;
      });
  if (!graph.element_sizes.empty() && !in_order &&
      symbolic::known_multiple_of(graph.element_sizes.back(), kRun, graph.ranges))
    walk.vector = kRun;
  classify_accesses(module, plan, walk.vector);
  for (Access &access : plan.access) // the host compiler makes vectors of plain loops
    access = access == Access::vector ? Access::element : access;
  const auto elements = graph.elements().as_integer();
  fill_phases(module, plan, group, elements && *elements * 8 <= kKeptBytes);
  choose_sum_types(plan, walk.vector);
  if (graph.reduces) {
    walk.chunk =
        elements ? std::max<int64_t>(1, kChunkElements / std::max<int64_t>(1, *elements)) : 1;
    plan.grid = symbolic::ceil_div(graph.rows(), walk.chunk);
  } else {
    walk.chunk = kChunkElements / walk.vector;
    plan.grid = symbolic::ceil_div(graph.elements(), walk.chunk * walk.vector);
  }
  plan.walk = walk;
  plan.wide_index = needs_wide_index(graph);
  plan.description = graph.reduces ? "rows one after the other" : "a plain loop";
  return plan;
}

} // namespace tsc::codegen
