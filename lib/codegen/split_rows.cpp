#include "codegen/split_rows.h"

#include "codegen/plan_steps.h"

#include <algorithm>
#include <cmath>

namespace tsc::codegen {

namespace {

using ir::Op;

constexpr int64_t kSmallestRow = 1 << 15;  // elements that a block would take: some 10 microseconds
constexpr int64_t kSmallestPart = 1 << 11; // elements of a part: enough for a block
constexpr int64_t kMostParts = 4096; // of a row: one block merges them in a few loads a thread
constexpr int kBlocksPerMultiprocessor = 8;

/// Rows that one block takes at a time where neighbouring threads take neighbouring rows.
int64_t rows_per_block(bool columns) { return columns ? kColumnsPerBlock : 1; }

bool few_blocks(int64_t blocks, const target::Target &target) {
  return blocks > 0 && blocks * 2 <= target.multiprocessors;
}

bool is_plain(ir::ReductionKind kind) {
  return ir::tuple_size(kind) == 1 && kind != ir::ReductionKind::argmax &&
         kind != ir::ReductionKind::argmin;
}

/// Every reduction takes elements as they are loaded, and nothing but row values comes after.
bool is_single_walk(const KernelGraph &graph) {
  return std::all_of(graph.values.begin(), graph.values.end(), [](const Value &value) {
    if (value.op == Op::scan || value.op == Op::sort ||
        (value.op == Op::reduction && !is_plain(value.reduction)))
      return false;
    if (value.op == Op::store && value.mode != ir::StoreMode::plain)
      return false;
    return value.level == Level::row || value.phase == 0;
  });
}

/// Parts of a row: a divisor of the outermost element loop that fills the GPU with blocks, leaves
/// each of them enough elements and keeps vectors whole; 1 if there is none.
int64_t choose_parts(const KernelGraph &graph, int64_t blocks, bool columns,
                     const target::Target &target) {
  const int64_t outermost = *graph.element_sizes[0].as_integer();
  const int64_t elements = *graph.elements().as_integer();
  const double wanted = static_cast<double>(target.multiprocessors) * kBlocksPerMultiprocessor /
                        static_cast<double>(blocks);
  const bool vectors = !columns && graph.element_sizes.size() == 1;
  double best = 1e30;
  int64_t result = 1;
  for (int64_t parts = 2; parts <= std::min(kMostParts, outermost); ++parts) {
    if (outermost % parts != 0 || elements / parts * rows_per_block(columns) < kSmallestPart)
      continue;
    double cost = std::fabs(std::log2(static_cast<double>(parts) / wanted));
    for (int64_t width = 4; vectors && width <= 16; width *= 2)
      cost += outermost % width == 0 && outermost / parts % width != 0 ? 1.5 : 0;
    if (cost < best) {
      best = cost;
      result = parts;
    }
  }
  return result;
}

Expr flat_row(const KernelGraph &graph) {
  Expr flat = 0, inner = 1;
  for (size_t i = graph.row_variables.size(); i-- > 0;) {
    flat = flat + graph.row_variables[i] * inner;
    inner = inner * graph.row_sizes[i];
  }
  return flat;
}

class Splitter {
public:
  Splitter(ir::Module &module, const KernelGraph &graph, int64_t parts)
      : module_(module), graph_(graph), parts_(parts), row_(flat_row(graph)) {}

  SplitGraphs split() {
    for (ValueId id = 0; id < graph_.values.size(); ++id)
      if (graph_.is_reduction(id))
        partials_.emplace_back(id, add_buffer(graph_[id]));
    SplitGraphs result;
    result.parts = parts_graph();
    result.merge = merge_graph();
    return result;
  }

private:
  ir::Module &module_;
  const KernelGraph &graph_;
  int64_t parts_;
  Expr row_;
  std::vector<std::pair<ValueId, BufferId>> partials_; // a reduction, where its parts are

  BufferId add_buffer(const Value &reduction) {
    ir::Buffer buffer;
    buffer.name = "parts" + std::to_string(module_.buffers.size());
    buffer.dtype = tensor::is_reduced_float(reduction.dtype) ? DType::f32 : reduction.dtype;
    buffer.layout = tensor::contiguous_layout({graph_.rows() * Expr(parts_)});
    buffer.role = ir::Buffer::Role::computed;
    module_.buffers.push_back(std::move(buffer));
    return static_cast<BufferId>(module_.buffers.size() - 1);
  }
  BufferId buffer_of(ValueId reduction) const {
    for (const auto &[id, buffer] : partials_)
      if (id == reduction)
        return buffer;
    return ir::kNone;
  }

  KernelGraph parts_graph() const {
    KernelGraph graph = graph_;
    const Expr part = symbolic::symbol(symbolic::SymbolSort::row, graph.row_variables.size());
    const Expr outermost = graph.element_variables[0];
    const int64_t size = *graph.element_sizes[0].as_integer() / parts_;
    graph.element_sizes[0] = size;
    graph.ranges.set_size(outermost, size);
    graph.ranges.set_size(part, parts_);
    const symbolic::Substitution place = {{outermost, part * Expr(size) + outermost}};
    for (Value &value : graph.values)
      value.index = symbolic::simplify(symbolic::substitute(value.index, place), graph.ranges);
    std::erase_if(graph.stores, [&](ValueId id) { return graph[id].level == Level::row; });
    for (const auto &[id, buffer] : partials_) {
      Value store;
      store.op = Op::store_reduction;
      store.dtype = module_.buffer(buffer).dtype;
      store.buffer = buffer;
      store.index = row_ * Expr(parts_) + part;
      store.args = {id};
      graph.stores.push_back(static_cast<ValueId>(graph.values.size()));
      graph.values.push_back(std::move(store));
    }
    // Outermost: neighbouring rows stay neighbours where columns are reduced.
    graph.row_variables.insert(graph.row_variables.begin(), part);
    graph.row_sizes.insert(graph.row_sizes.begin(), Expr(parts_));
    remove_dead_values(graph);
    assign_phases(graph);
    return graph;
  }

  KernelGraph merge_graph() const {
    KernelGraph graph = graph_;
    const Expr part = symbolic::symbol(symbolic::SymbolSort::reduced);
    graph.element_variables = {part};
    graph.element_sizes = {Expr(parts_)};
    graph.ranges.set_size(part, parts_);
    graph.values.clear();
    graph.stores.clear();
    std::vector<ValueId> moved(graph_.values.size(), ir::kNone);
    const auto add = [&](Value value) {
      graph.values.push_back(std::move(value));
      return static_cast<ValueId>(graph.values.size() - 1);
    };
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      Value value = graph_[id];
      if (graph_.is_reduction(id)) {
        Value load;
        load.op = Op::load;
        load.buffer = buffer_of(id);
        load.dtype = module_.buffer(load.buffer).dtype;
        load.index = row_ * Expr(parts_) + part;
        value.source_dtype = load.dtype;
        value.args = {add(std::move(load))};
      } else if (value.level == Level::row) {
        for (ValueId &arg : value.args)
          arg = moved[arg];
        value.guard = value.guard == ir::kNone ? ir::kNone : moved[value.guard];
      } else {
        continue;
      }
      moved[id] = add(std::move(value));
    }
    for (const ValueId id : graph_.stores)
      if (graph_[id].level == Level::row)
        graph.stores.push_back(moved[id]);
    remove_dead_values(graph);
    assign_phases(graph);
    return graph;
  }
};

} // namespace

bool may_split_rows(const scheduler::Group &group, const target::Target &target) {
  return std::any_of(group.bodies.begin(), group.bodies.end(), [&](const ir::LoopBody &body) {
    const auto all = symbolic::numel(body.sizes).as_integer();
    const auto rows = symbolic::numel(body.iteration_sizes()).as_integer();
    // Reductions over everything may come with all loops counted as iteration loops.
    const bool reduces = std::any_of(body.ops.begin(), body.ops.end(), [](const ir::BodyOp &op) {
      return op.op == Op::store_reduction;
    });
    return reduces && all && rows && *all >= kSmallestRow &&
           (!body.is_reduction() || few_blocks(*rows / kColumnsPerBlock + 1, target));
  });
}

std::optional<SplitGraphs> split_rows(ir::Module &module, const scheduler::Group &group,
                                      const target::Target &target) {
  const KernelGraph graph = build_kernel_graph(module, group, {.two_pass_statistics = true});
  const auto rows = graph.rows().as_integer(), elements = graph.elements().as_integer();
  if (!graph.reduces || !rows || !elements || graph.element_sizes.empty() || !is_single_walk(graph))
    return std::nullopt;
  const bool columns = prefers_columns(module, graph);
  const int64_t blocks = (*rows + rows_per_block(columns) - 1) / rows_per_block(columns);
  if (!few_blocks(blocks, target) || *elements * rows_per_block(columns) < kSmallestRow)
    return std::nullopt;
  const int64_t parts = choose_parts(graph, blocks, columns, target);
  if (parts * blocks < std::min<int64_t>(blocks * 4, target.multiprocessors / 4))
    return std::nullopt;
  return Splitter(module, graph, parts).split();
}

} // namespace tsc::codegen
