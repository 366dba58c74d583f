// Kernels with two paths over one grid: where symbolic sizes keep accesses from being vectors the
// launch checks the sizes and says which path is taken; parts of long rows of which the last is
// shorter.
#include "codegen/alignment.h"
#include "codegen/plan.h"
#include "codegen/plan_steps.h"
#include "support/diagnostic.h"

#include <algorithm>

namespace tsc::codegen {

using ir::Op;

namespace {

/// The directions that a plan's runs go along, with the loads and stores of elements that go with
/// them.
std::vector<RunDirection> directions_of(const KernelPlan &plan) {
  const KernelGraph &graph = plan.graph;
  std::vector<RunDirection> result;
  if (graph.element_variables.empty() || std::holds_alternative<ColumnWalk>(plan.walk) ||
      std::holds_alternative<WindowWalk>(plan.walk))
    return result;
  const size_t last = graph.element_variables.size() - 1;
  const bool tile = std::holds_alternative<TileWalk>(plan.walk);
  for (size_t i = last; i + (tile ? 2 : 1) > last; --i) {
    result.push_back({graph.element_variables[i], graph.element_sizes[i], {}});
    for (ValueId id = 0; id < graph.values.size(); ++id) {
      const Value &value = graph[id];
      const bool accesses = value.op == Op::load || value.op == Op::store;
      if (accesses && value.level == Level::element && plan.tiled[id] == (i != last))
        result.back().accesses.push_back(id);
    }
    if (i == 0)
      break;
  }
  return result;
}

/// The same with vector accesses alone.
std::vector<RunDirection> vectors_of(const KernelPlan &plan) {
  std::vector<RunDirection> result;
  for (RunDirection direction : directions_of(plan)) {
    std::erase_if(direction.accesses,
                  [&](ValueId id) { return !plan.tiled[id] && plan.access[id] != Access::vector; });
    if (!direction.accesses.empty())
      result.push_back(std::move(direction));
  }
  return result;
}

/// Elements that one access of `plan` may hold.
int widest_run(const KernelPlan &plan) {
  const auto *tile = std::get_if<TileWalk>(&plan.walk);
  return std::max(vector_of(plan.walk), tile ? tile->loaded_run() : 1);
}
/// Elements of the narrowest type that an access of 16 bytes holds.
int64_t longest_run(const ir::Module &module, const KernelGraph &graph,
                    const std::vector<RunDirection> &directions) {
  size_t narrowest = 16;
  for (const RunDirection &direction : directions)
    for (const ValueId id : direction.accesses)
      narrowest = std::min(narrowest, tensor::size_in_bytes(module.buffer(graph[id].buffer).dtype));
  return static_cast<int64_t>(16 / narrowest);
}

/// Elements of the runs that launches are to check for: the most, up to `checked.of`, that the
/// likely sizes allow, or as many as are checked where these allow none (of more than `narrow`).
int64_t likely_run(const ir::Module &module, const Divisibility &checked, int64_t narrow) {
  int64_t of = checked.of;
  for (const Expr size : checked.sizes) {
    const std::optional<int64_t> number = likely(module, size);
    if (!number)
      return checked.of;
    while (*number % of != 0)
      of /= 2;
  }
  return of > narrow ? of : checked.of;
}

/// Parts that look back: the last of a row may be shorter than the others. These get a path without
/// guards, if that makes vectors of their accesses.
std::optional<KernelPlan> plan_whole_parts(const Request &request) {
  const KernelGraph &given = *request.given;
  if (given.element_sizes[0].is_integer())
    return std::nullopt;
  KernelGraph whole = given;
  whole.element_sizes[0] = given.look_back->length;
  Request of_whole = request;
  of_whole.given = &whole;
  KernelPlan plan = make_plan(of_whole);
  for (ValueId id = 0; id < plan.graph.values.size(); ++id)
    if (plan.graph[id].level == Level::element && plan.graph[id].buffer != ir::kNone &&
        plan.access[id] == Access::element)
      return std::nullopt;
  Request of_last = request;
  of_last.like = &plan.walk;
  KernelPlan last = make_plan(of_last);
  support::require(last.block == plan.block, "codegen", "a row's last part has another block");
  plan.otherwise = std::make_shared<KernelPlan>(std::move(last));
  return plan;
}

/// " where s0, s1 are multiples of 8".
std::string where_multiples(const Divisibility &checked) {
  std::string sizes;
  for (const Expr size : checked.sizes)
    sizes += (sizes.empty() ? "" : ", ") + symbolic::print(size);
  return " where " + sizes +
         (checked.sizes.size() == 1 ? " is a multiple of " : " are multiples of ") +
         std::to_string(checked.of);
}

/// Columns of which a thread reads one at a time, because sizes are symbols: runs of columns where
/// the launch finds that sizes allow them, in blocks of as many columns and threads.
std::optional<KernelPlan> plan_columns_by_sizes(const Request &request, const KernelPlan &plain) {
  if (!std::holds_alternative<ColumnWalk>(plain.walk) || plain.graph.row_variables.empty() ||
      plain.graph.rows().is_integer())
    return std::nullopt;
  RunDirection direction{plain.graph.row_variables.back(), plain.graph.row_sizes.back(), {}};
  for (ValueId id = 0; id < plain.graph.values.size(); ++id)
    if (plain.graph[id].op == Op::load && plain.graph[id].level == Level::element)
      direction.accesses.push_back(id);
  const std::vector<RunDirection> directions = {direction};
  KernelPlan wide;
  wide.graph =
      request.given ? *request.given : build_kernel_graph(request.module, request.group, {});
  wide.checked =
      sizes_to_check(plain.graph, directions, longest_run(request.module, plain.graph, directions));
  if (const int64_t of = likely_run(request.module, wide.checked, 1); of != wide.checked.of)
    wide.checked = sizes_to_check(plain.graph, directions, of);
  if (wide.checked.sizes.empty() ||
      !plan_wide_columns(request.module, request.group, wide, request.target, request.choice))
    return std::nullopt;
  const auto &walk = std::get<WindowWalk>(wide.walk);
  PlanChoice choice = request.chosen();
  choice.threads = walk.threads / walk.vector;
  if (walk.threads % walk.vector != 0 || choice.threads == 0)
    return std::nullopt;
  Request single = request;
  single.choice = &choice;
  KernelPlan otherwise;
  otherwise.graph = plain.graph;
  plan_columns(single, otherwise, walk.columns() * walk.vector);
  support::require(otherwise.block == wide.block, "codegen",
                   "columns of other sizes have other blocks");
  finish_plan(request, wide);
  finish_plan(request, otherwise);
  wide.grid = otherwise.grid;
  std::get<WindowWalk>(wide.walk).guard = true;
  wide.description += where_multiples(wide.checked) + ", else one element an access";
  wide.otherwise = std::make_shared<KernelPlan>(std::move(otherwise));
  return wide;
}

} // namespace

/// Where symbolic sizes keep accesses from being vectors, the kernel gets two paths over one grid:
/// the launch checks the sizes and says which.
KernelPlan plan_cuda(const ir::Module &module, const scheduler::Group &group,
                     const target::Target &target, const KernelGraph *given,
                     const PlanChoice *choice) {
  Request request{module, group, target, given, {}, nullptr, choice};
  if (given && given->look_back && !combines(*given))
    if (auto plan = plan_whole_parts(request))
      return *std::move(plan);
  KernelPlan plain = make_plan(request);
  if (plan_block_copies(module, target, plain))
    return plain;
  if (std::optional<KernelPlan> columns = plan_columns_by_sizes(request, plain))
    return *std::move(columns);
  if (!plain.interleaved.empty() || plain.copies > 1)
    return plain;
  const std::vector<RunDirection> directions = directions_of(plain);
  const int narrow = widest_run(plain);
  for (int64_t of = longest_run(module, plain.graph, directions); of > narrow; of /= 2) {
    request.checked = sizes_to_check(plain.graph, directions, of);
    if (!request.checked.sizes.empty())
      break;
  }
  if (const int64_t of = likely_run(module, request.checked, narrow); of != request.checked.of)
    request.checked = sizes_to_check(plain.graph, directions, of);
  if (request.checked.sizes.empty())
    return plain;
  KernelPlan aligned = make_plan(request);
  if (aligned.walk.index() != plain.walk.index() || widest_run(aligned) <= narrow)
    return plain;
  // Only what became a vector asks for anything, and for no more than its runs are long.
  request.checked = sizes_to_check(aligned.graph, vectors_of(aligned), widest_run(aligned));
  aligned = make_plan(request);
  if (request.checked.sizes.empty() || widest_run(aligned) <= narrow)
    return plain;
  request.checked = {};
  request.like = &aligned.walk;
  KernelPlan otherwise = make_plan(request);
  support::require(otherwise.walk.index() == aligned.walk.index() &&
                       otherwise.block == aligned.block,
                   "codegen", "a plan for other sizes has other blocks");
  aligned.description += where_multiples(aligned.checked) + ", else " +
                         access_text(module, otherwise, vector_of(otherwise.walk));
  aligned.has_barriers = aligned.has_barriers || otherwise.has_barriers;
  aligned.otherwise = std::make_shared<KernelPlan>(std::move(otherwise));
  return aligned;
}

} // namespace tsc::codegen
