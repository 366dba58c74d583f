// Blocks that add to copies of their own: where what is changed at run-time indices is small, many
// threads meet at one place of it, which the second-level cache serves one after the other. Shared
// memory does so in every multiprocessor at once.
#include "codegen/plan.h"
#include "codegen/plan_steps.h"
#include "scheduler/cost.h"

#include <algorithm>

namespace tsc::codegen {

namespace {

using ir::Op;
using ir::StoreMode;

/// What a block's copy of what `store` changes is made of; nothing where there can be none.
std::optional<DType> copy_dtype(const KernelGraph &graph, const Value &store, DType memory) {
  if (store.mode == StoreMode::plain)
    return memory;
  if (store.mode == StoreMode::atomic_mul)
    return std::nullopt;
  if (tensor::is_reduced_float(memory)) // what copies came to would be rounded once for each
    return store.mode == StoreMode::atomic_add ? std::nullopt : std::optional(DType::f32);
  if (memory == DType::i64 && store.mode == StoreMode::atomic_add) {
    // Counted in half the bytes, by an instruction instead of a loop: there are no more elements.
    const Value &value = graph[store.args[0]];
    const auto *one = std::get_if<int64_t>(&value.constant);
    if (value.op == Op::constant && one != nullptr && *one == 1)
      return DType::i32;
  }
  const bool has_atomics =
      memory == DType::f32 || memory == DType::f64 || memory == DType::i32 || memory == DType::i64;
  return has_atomics ? std::optional(memory) : std::nullopt;
}

/// Whether `id` writes single elements at run-time indices: where several go to one place, any of
/// them stays. Nobody reads the memory.
bool is_put(const ir::Module &module, const KernelPlan &plan, ValueId id) {
  const Value &store = plan.graph[id];
  const BufferId storage = module.storage_of(store.buffer);
  return store.op == Op::store && store.args.size() > 1 && plan.access[id] != Access::vector &&
         std::none_of(plan.graph.values.begin(), plan.graph.values.end(), [&](const Value &value) {
           return value.op == Op::load && module.storage_of(value.buffer) == storage;
         });
}

/// Whether neighbouring elements have run-time indices of their own.
bool picks_along(const KernelGraph &graph, const Value &store) {
  std::vector<bool> moves(graph.values.size(), false); // arguments come before their users
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const Value &value = graph[id];
    moves[id] =
        symbolic::depends_on(value.index, graph.element_variables.back()) ||
        std::any_of(value.args.begin(), value.args.end(), [&](ValueId arg) { return moves[arg]; });
  }
  return std::any_of(store.args.begin() + 1, store.args.end(),
                     [&](ValueId index) { return moves[index]; });
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
    const bool is_plain = store.mode == StoreMode::plain;
    if (store.op != Op::store || (is_plain && !is_put(module, plan, id)))
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
    const auto take = [&copies](int64_t bytes) {
      constexpr int64_t kAligned = 16;
      const int64_t offset = copies.bytes;
      copies.bytes += (bytes + kAligned - 1) / kAligned * kAligned;
      return offset;
    };
    BlockCopy copy;
    copy.store = id;
    copy.elements = *elements;
    copy.dtype = *dtype;
    copy.offset = take(*elements * static_cast<int64_t>(tensor::size_in_bytes(*dtype)));
    if (is_plain)
      copy.marks = take(*elements);
    copies.list.push_back(copy);
    copies.works.push_back({updates, static_cast<double>(*elements),
                            static_cast<int64_t>(tensor::size_in_bytes(memory)),
                            step && step->is_integer(1) && !picks_along(graph, store)});
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

const HeldTable *table_of(const KernelPlan &plan, const Value &load) {
  for (const HeldTable &table : plan.tables)
    for (const ValueId id : table.loads)
      if (&plan.graph[id] == &load)
        return &table;
  return nullptr;
}

bool plan_block_copies(const ir::Module &module, const target::Target &target, KernelPlan &plan) {
  const auto *flat = std::get_if<FlatWalk>(&plan.walk);
  const auto *row = std::get_if<RowWalk>(&plan.walk);
  // Of sizes that are symbols what is likely: the blocks that a launch has share the work anyway.
  const auto rows = likely(module, plan.graph.rows()), blocks = likely(module, plan.grid);
  const auto elements = plan.graph.varies_by_row(plan.graph.elements())
                            ? longest_row(plan.graph)
                            : likely(module, plan.graph.elements());
  if (plan.graph.reduces || (!flat && !row) || plan.has_barriers || plan.otherwise || !rows ||
      !blocks || !elements || plan.shared_bytes > 0 || !plan.checked.sizes.empty() ||
      !plan.row_stores.empty())
    return false;
  const double updates = static_cast<double>(*rows) * static_cast<double>(*elements);
  const std::optional<Copies> copies = copies_of(module, plan, updates);
  if (!copies || copies->list.empty() || copies->bytes > target.shared_bytes_per_block ||
      updates > 2e9)
    return false;
  double direct = 0, least = 0;
  for (const scheduler::AtomicWork &work : copies->works)
    direct += scheduler::atomic_nanoseconds(work);
  // Several of the walk's blocks beside each other share a copy: there is less to bring back.
  constexpr int64_t kMostThreads = 1024; // of a block
  int64_t chosen = 0;
  int beside = 1;
  for (int together = 1; together == 1 || together * plan.block <= kMostThreads; together *= 2) {
    const int64_t most = // blocks of a multiprocessor
        std::min<int64_t>(target.max_threads_per_multiprocessor / (together * plan.block),
                          blocks_by_shared_memory(target, copies->bytes));
    for (int64_t each = 1; each <= most; ++each) {
      double time = 0;
      for (const scheduler::AtomicWork &work : copies->works)
        time += scheduler::block_copies_nanoseconds(
            target, work, static_cast<double>(each * target.multiprocessors),
            together * plan.block);
      if (chosen == 0 || time < least) {
        least = time;
        chosen = each;
        beside = together;
      }
    }
  }
  if (chosen == 0)
    return false;
  if (least >= direct)
    return false;
  plan.block_copies = copies->list;
  plan.turns = plan.grid;
  plan.beside = beside;
  plan.block *= beside;
  plan.grid = symbolic::minimum(symbolic::ceil_div(plan.grid, Expr(beside)),
                                Expr(chosen * target.multiprocessors));
  plan.shared_bytes = static_cast<int>(copies->bytes);
  plan.has_barriers = true;
  plan.description += "; blocks add to copies of their own in shared memory, " +
                      std::to_string(copies->bytes) + " bytes";
  return true;
}

} // namespace tsc::codegen
