// Rows that a thread has alone, and whose elements a warp's lanes bring and store together.
#include "codegen/plan.h"
#include "codegen/plan_steps.h"

#include <algorithm>

namespace tsc::codegen {

using ir::Op;

namespace {

constexpr int kWarp = 32;
constexpr int64_t kMostForOwnRows = 40 << 10; // bytes of shared memory

/// A load or store of rows that lie one behind another, each of its elements one by one.
bool goes_along_rows(const KernelGraph &graph, const Value &value) {
  const bool plain = value.op == Op::load ? value.args.empty()
                                          : value.op == Op::store && value.args.size() == 1 &&
                                                value.mode == ir::StoreMode::plain;
  const Expr place = graph.row_in_order() * graph.elements() + graph.place_in_order();
  return plain && value.guard == ir::kNone && value.level == Level::element &&
         symbolic::simplify(value.index - place, graph.ranges).is_integer();
}

/// Whether neighbouring rows' elements are neighbours, nothing but that being asked for.
bool goes_across_rows(const KernelGraph &graph, const Value &value) {
  const bool plain = value.op == Op::load ? value.args.empty()
                                          : value.op == Op::store && value.args.size() == 1 &&
                                                value.mode == ir::StoreMode::plain;
  const auto step = graph.row_variables.empty()
                        ? std::nullopt
                        : symbolic::coefficient_of(value.index, graph.row_variables.back());
  return plain && value.guard == ir::kNone && step && step->is_integer(1);
}

/// Bytes that a lane keeps of a row of its own in shared memory, of one load or store.
int64_t kept_of_row(const ir::Module &module, const KernelGraph &graph, const Value &value) {
  return (graph.elements().value() + 1) * // tc_own_slot
         static_cast<int64_t>(tensor::size_in_bytes(module.buffer(value.buffer).dtype));
}

} // namespace

bool holds_own_rows(const ir::Module &module, const KernelPlan &plan,
                    const target::Target &target) {
  constexpr int64_t kLongest = 64, kThreads = 256; // elements; of a multiprocessor
  constexpr double kMostRegisters = 128;           // for what is scanned
  const KernelGraph &graph = plan.graph;
  const auto rows = graph.rows().as_integer(), elements = graph.elements().as_integer();
  if (target.is_host || !rows || !elements || *elements > kLongest || *elements < 2 ||
      *rows < kThreads * target.multiprocessors || plan.origin ||
      graph.element_variables.size() != 1)
    return false;
  int64_t bytes = 0;
  for (const Value &value : graph.values) {
    if (value.buffer == ir::kNone || value.level != Level::element)
      continue;
    if (goes_along_rows(graph, value))
      bytes += kept_of_row(module, graph, value);
    else if (!goes_across_rows(graph, value)) // neighbouring lanes' are neighbours as they are
      return false;
  }
  double registers = 0;
  for (const Value &value : graph.values)
    if (value.op == Op::scan)
      registers += std::max<double>(1, static_cast<double>(tensor::size_in_bytes(value.dtype)) / 4);
  return bytes * kWarp <= kMostForOwnRows &&
         registers * static_cast<double>(*elements) <= kMostRegisters;
}

void find_rows_by_lanes(const ir::Module &module, KernelPlan &plan, const RowWalk &walk) {
  constexpr int64_t kWhole = 16; // bytes
  const KernelGraph &graph = plan.graph;
  const int64_t elements = int64_t{walk.steps} * walk.vector;
  if (!graph.elements().is_integer(elements) || graph.element_variables.size() != 1 ||
      walk.block() % kWarp != 0 || elements < 2)
    return;
  std::vector<bool> found(graph.values.size(), false);
  int64_t shared = 0;
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const Value &value = graph[id];
    if (value.buffer == ir::kNone || !goes_along_rows(graph, value) ||
        (value.op == Op::load && !plan.preloaded[id]))
      continue;
    const auto size =
        static_cast<int64_t>(tensor::size_in_bytes(module.buffer(value.buffer).dtype));
    const bool one_access =
        walk.steps == 1 && plan.access[id] == Access::vector && elements * size <= kWhole;
    const int64_t bytes = walk.block() * kept_of_row(module, graph, value);
    found[id] = !one_access && shared + bytes <= kMostForOwnRows;
    shared += found[id] ? bytes : 0;
  }
  if (std::find(found.begin(), found.end(), true) != found.end())
    plan.by_lanes = std::move(found);
}

int own_rows_of_block(const ir::Module &module, const KernelPlan &plan, int most) {
  const KernelGraph &graph = plan.graph;
  int64_t bytes = 0;
  for (const Value &value : graph.values)
    if (value.buffer != ir::kNone && graph.elements().is_integer() && goes_along_rows(graph, value))
      bytes += kept_of_row(module, graph, value);
  constexpr int kOwnRows = 128; // threads, of many registers each
  int rows = std::min(most, kOwnRows);
  while (rows > kWarp && bytes * rows > kMostForOwnRows)
    rows /= 2;
  return rows;
}

} // namespace tsc::codegen
