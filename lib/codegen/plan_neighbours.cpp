// Pointwise kernels whose elements read neighbours of theirs along the innermost loop: stencils,
// differences, padded shifts, windows that are written out. A run's neighbours lie in a few whole
// runs, which a thread brings once; elements take them from registers, under their conditions.
#include "codegen/plan.h"
#include "codegen/plan_steps.h"

#include <algorithm>

namespace tsc::codegen {

namespace {

using ir::Op;

constexpr int64_t kAccessBytes = 16;
constexpr int64_t kLeastBytes = 8;  // of a run: shorter ones, one a thread, leave memory idle
constexpr int64_t kMostRuns = 5;    // of a group
constexpr int64_t kMostBytes = 384; // that a thread brings

/// Where a load's run of elements starts, at the first element of the innermost loop; nothing of
/// loads that are looked up, or do not go along it one by one.
std::optional<Expr> start_of(const KernelGraph &graph, const Value &value) {
  const Expr variable = graph.element_variables.back();
  const auto step = symbolic::coefficient_of(value.index, variable);
  if (value.op != Op::load || value.level != Level::element || !value.args.empty() || !step ||
      !step->is_integer(1))
    return std::nullopt;
  return symbolic::simplify(symbolic::substitute(value.index, {{variable, Expr(0)}}), graph.ranges);
}

/// Loads of one buffer whose starts are numbers apart.
struct Group {
  BufferId buffer = ir::kNone;
  Expr start = 0;                                   // of its first member
  std::vector<std::pair<ValueId, int64_t>> members; // how far from there
};

std::vector<Group> groups_of(const KernelPlan &plan, int64_t vector) {
  const KernelGraph &graph = plan.graph;
  std::vector<Group> result;
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const Value &value = graph[id];
    const auto start = plan.access[id] == Access::constant ? std::nullopt : start_of(graph, value);
    if (!start)
      continue;
    const auto apart = [&](const Group &group) {
      return group.buffer == value.buffer ? (*start - group.start).as_integer() : std::nullopt;
    };
    const auto found = std::find_if(result.begin(), result.end(), [&](const Group &group) {
      const auto far = apart(group);
      return far && std::abs(*far) <= vector * (kMostRuns - 2) / 2;
    });
    if (found == result.end())
      result.push_back({value.buffer, *start, {{id, 0}}});
    else
      found->members.emplace_back(id, *apart(*found));
  }
  const auto are_runs = [&](const Group &group) { // all of them, as they are
    return std::all_of(group.members.begin(), group.members.end(), [&](const auto &member) {
      return plan.access[member.first] == Access::vector;
    });
  };
  std::erase_if(result, are_runs);
  return result;
}

/// The runs that hold a group's elements; none where nobody knows how these lie.
Neighbours runs_of(const ir::Module &module, const KernelGraph &graph, const Group &group,
                   int64_t vector) {
  const auto by_place = [](const auto &a, const auto &b) { return a.second < b.second; };
  const auto [first, last] =
      std::minmax_element(group.members.begin(), group.members.end(), by_place);
  const Expr start = group.start + Expr(first->second);
  Neighbours result;
  const auto before = behind_run(start, static_cast<int>(vector),
                                 module.buffer(group.buffer).layout.storage_size(), graph.ranges);
  if (!before)
    return result;
  const int64_t span = *before + last->second - first->second + vector;
  result.first = start - Expr(*before);
  result.runs = static_cast<int>((span + vector - 1) / vector);
  for (const auto &[id, far] : group.members)
    result.members.push_back({id, static_cast<int>(*before + far - first->second)});
  return result;
}

/// Elements of a run: of the narrowest access 16 bytes; 1 where stores are not whole runs then.
int choose_run(const ir::Module &module, KernelPlan &plan) {
  size_t narrowest = kAccessBytes;
  for (const Value &value : plan.graph.values)
    if (value.op == Op::store || start_of(plan.graph, value))
      narrowest = std::min(narrowest, tensor::size_in_bytes(module.buffer(value.buffer).dtype));
  for (int vector = static_cast<int>(kAccessBytes / static_cast<int64_t>(narrowest)); vector > 1;
       vector /= 2) {
    if (vector * static_cast<int64_t>(narrowest) < kLeastBytes)
      break;
    if (!symbolic::known_multiple_of(plan.graph.element_sizes.back(), vector, plan.graph.ranges))
      continue;
    classify_accesses(module, plan, vector);
    bool serves = true;
    for (ValueId id = 0; id < plan.graph.values.size(); ++id)
      serves = serves && (!is_store(plan.graph[id]) || plan.access[id] == Access::vector);
    if (serves)
      return vector;
  }
  return 1;
}

} // namespace

const Neighbours *neighbours_of(const KernelPlan &plan, ValueId load) {
  for (const Neighbours &each : plan.neighbours)
    for (const Neighbour &member : each.members)
      if (member.load == load)
        return &each;
  return nullptr;
}

bool plan_neighbours(const Request &request, KernelPlan &plan) {
  const ir::Module &module = request.module;
  if (request.like || !request.checked.sizes.empty() || plan.graph.reduces ||
      plan.graph.element_variables.empty() || request.target.is_host)
    return false;
  KernelPlan fresh;
  fresh.graph = plan.graph;
  FlatWalk walk;
  walk.vector = choose_run(module, fresh);
  if (walk.vector == 1)
    return false;
  int64_t bytes = 0;
  for (const Group &group : groups_of(fresh, walk.vector)) {
    Neighbours runs = runs_of(module, fresh.graph, group, walk.vector);
    const auto size =
        static_cast<int64_t>(tensor::size_in_bytes(module.buffer(group.buffer).dtype));
    bytes += runs.runs * walk.vector * size;
    if (runs.members.empty() || walk.vector * size > 2 * kAccessBytes)
      continue;
    for (const Neighbour &member : runs.members)
      fresh.access[member.load] = Access::element;
    fresh.neighbours.push_back(std::move(runs));
  }
  if (fresh.neighbours.empty() || bytes > kMostBytes)
    return false;
  preload_all(fresh);
  finish_flat(request, fresh, walk, 1);
  fresh.description = "pointwise, neighbours in whole runs, " + fresh.description;
  plan = std::move(fresh);
  return true;
}

} // namespace tsc::codegen
