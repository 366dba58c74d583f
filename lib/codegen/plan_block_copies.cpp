// Blocks that add to copies of their own: where what is changed at run-time indices is small, many
// threads meet at one place of it, which the second-level cache serves one after the other. Shared
// memory does so in every multiprocessor at once.
#include "codegen/plan.h"
#include "scheduler/cost.h"

#include <algorithm>

namespace tsc::codegen {

namespace {

using ir::Op;
using ir::StoreMode;

/// What a block's copy of what `store` changes is made of; nothing where there can be none.
std::optional<DType> copy_dtype(const KernelGraph &graph, const Value &store, DType memory) {
  if (store.mode == StoreMode::atomic_mul)
    return std::nullopt;
  if (tensor::is_reduced_float(memory))
    return DType::f32;
  if (memory == DType::i64 && store.mode == StoreMode::atomic_add) {
    // Counted in half the bytes, by an instruction instead of a loop: there are no more elements.
    const Value &value = graph[store.args[0]];
    const auto *one = std::get_if<int64_t>(&value.constant);
    if (value.op == Op::constant && one != nullptr && *one == 1)
      return DType::i32;
  }
  const bool has_atomics = memory == DType::f32 || memory == DType::f64 || memory == DType::i32 ||
                           memory == DType::i64;
  return has_atomics ? std::optional(memory) : std::nullopt;
}

struct Copies {
  std::vector<BlockCopy> list;
  int64_t bytes = 0;
  std::vector<scheduler::AtomicWork> works;
};

/// Copies of all that the kernel changes at run-time indices; none where one cannot be copied.
std::optional<Copies> copies_of(const ir::Module &module, const KernelPlan &plan, double updates) {
  const KernelGraph &graph = plan.graph;
  Copies copies;
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const Value &store = graph[id];
    if (store.op != Op::store || store.mode == StoreMode::plain)
      continue;
    const BufferId storage = module.storage_of(store.buffer);
    const DType memory = module.buffer(storage).dtype;
    const auto elements = module.buffer(storage).layout.storage_size().as_integer();
    const auto dtype = copy_dtype(graph, store, memory);
    if (!elements || *elements < 1 || !dtype || store.dtype != memory ||
        store.level != Level::element)
      return std::nullopt;
    const auto step = graph.element_variables.empty()
                          ? std::nullopt
                          : symbolic::coefficient_of(store.index, graph.element_variables.back());
    constexpr int64_t kAligned = 16;
    copies.list.push_back({id, *elements, *dtype, copies.bytes});
    copies.bytes += (*elements * static_cast<int64_t>(tensor::size_in_bytes(*dtype)) + kAligned - 1) /
                    kAligned * kAligned;
    copies.works.push_back({updates, static_cast<double>(*elements),
                            static_cast<int64_t>(tensor::size_in_bytes(memory)),
                            step && step->is_integer(1)});
  }
  return copies;
}

} // namespace

const BlockCopy *block_copy_of(const KernelPlan &plan, const Value &store) {
  for (const BlockCopy &copy : plan.block_copies)
    if (&plan.graph[copy.store] == &store)
      return &copy;
  return nullptr;
}

bool plan_block_copies(const ir::Module &module, const target::Target &target, KernelPlan &plan,
                       const std::function<KernelPlan(int)> &again) {
  const auto *flat = std::get_if<FlatWalk>(&plan.walk);
  const auto *row = std::get_if<RowWalk>(&plan.walk);
  const auto rows = plan.graph.rows().as_integer(), blocks = plan.grid.as_integer();
  const auto elements = plan.graph.varies_by_row(plan.graph.elements())
                            ? longest_row(plan.graph)
                            : plan.graph.elements().as_integer();
  if (plan.graph.reduces || (!flat && !row) || plan.has_barriers || plan.otherwise || !rows ||
      !blocks || !elements || plan.shared_bytes > 0 || !plan.checked.sizes.empty() ||
      !plan.row_stores.empty())
    return false;
  const double updates = static_cast<double>(*rows) * static_cast<double>(*elements);
  const std::optional<Copies> copies = copies_of(module, plan, updates);
  constexpr int64_t kSystem = 1024; // of each block's shared memory
  if (!copies || copies->list.empty() || copies->bytes > target.shared_bytes_per_block ||
      updates > 2e9)
    return false;
  const int64_t most_blocks = // of a multiprocessor
      std::min<int64_t>(target.max_threads_per_multiprocessor / plan.block,
                        target.shared_bytes_per_multiprocessor / (copies->bytes + kSystem));
  const int threads = !flat || most_blocks >= 4 ? plan.block : most_blocks >= 2 ? 512 : 1024;
  double direct = 0, least = 0;
  for (const scheduler::AtomicWork &work : copies->works)
    direct += scheduler::atomic_nanoseconds(work);
  int64_t chosen = 0;
  for (int64_t each = 1; each <= most_blocks; ++each) {
    double time = 0;
    for (const scheduler::AtomicWork &work : copies->works)
      time += scheduler::block_copies_nanoseconds(
          target, work, static_cast<double>(each * target.multiprocessors), threads);
    if (chosen == 0 || time < least) {
      least = time;
      chosen = each;
    }
  }
  if (chosen == 0 || least >= direct)
    return false;
  if (threads != plan.block)
    plan = again(threads);
  plan.block_copies = copies->list;
  plan.turns = plan.grid.as_integer().value_or(0);
  plan.grid = Expr(std::min(plan.turns, chosen * target.multiprocessors));
  plan.shared_bytes = static_cast<int>(copies->bytes);
  plan.has_barriers = true;
  plan.description += "; blocks add to copies of their own in shared memory, " +
                      std::to_string(copies->bytes) + " bytes";
  return true;
}

} // namespace tsc::codegen
