// All steps of a recurrent layer's direction in one launch (templates/recurrent/tc_recurrent.h).
#include "lowering/realize.h"
#include "lowering/registry.h"
#include "lowering/template_call.h"
#include "templates/recurrent/tc_recurrent_geometry.h"

#include <algorithm>

namespace tsc::lowering {

namespace {

/// Numbers of cells, in the order of ops/families/recurrent.cpp, and gates of each.
constexpr int kLstm = 0;
constexpr int64_t kGates[] = {4, 3, 1, 1};
constexpr int64_t kWarps = tc_recurrent_warps, kColumns = tc_recurrent_columns;
constexpr int64_t kWordsOfGroup = tc_recurrent_group_words, kMostOfCluster = 8;
constexpr int64_t kBatchOfSymbol = 8; // where nobody knows how many rows there are

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// A layer, on a device.
struct Work {
  int64_t gates = 1, batch = 1, width = 1;
  int64_t item = 4, sum = 4; // bytes of an element, and of what is added up
  bool has_matrix_units = false, has_clusters = false;
  int64_t multiprocessors = 132, shared_bytes = 227 * 1024;
};
/// How it is divided.
struct Shape {
  int64_t rows = 1, blocks = 1, groups = 1, shared_bytes = 0;
  bool by_matrix_units = false, is_cluster = false;
  double cycles = 0; // of a step, of all tiles
};

/// Shared memory that does not hold weights, and what a line of weights takes.
int64_t fixed_bytes(const Work &work, const Shape &shape, int64_t &line) {
  const int64_t run = shape.by_matrix_units ? 8 : 4, whole = shape.by_matrix_units ? 16 : 4;
  const int64_t pitch = (ceil_div(ceil_div(work.width, whole) * whole, run) | 1) * run;
  const int64_t state = shape.by_matrix_units ? work.item : work.sum;
  line = pitch * work.item;
  const int64_t copies = shape.blocks > 1 ? 1 : 2;
  return copies * (ceil_div(shape.rows * pitch * state, 16) * 16) +
         work.sum * (shape.by_matrix_units ? 1 : kWarps) * shape.rows * kColumns;
}

/// Cycles of a step: weights come from shared memory at 128 bytes a cycle, or where it has no room
/// from the L2 cache; 128 multiplications with addition (as long as two accesses of the state for
/// them); what a step waits for whatever its size is: each other, the state, sums.
double cycles_of(const Work &work, const Shape &shape, int64_t room, int64_t line) {
  constexpr double kTogether = 1500, kEach = 6, kCluster = 400, kState = 700, kFinish = 300;
  // What matrix units multiply comes in words of four bytes, and few of them at a time.
  const double from_cache = shape.by_matrix_units ? 2 : 12; // bytes a cycle
  const int64_t columns = work.gates * ceil_div(work.width, shape.blocks);
  const auto bytes = static_cast<double>(columns * line);
  const double beyond = std::max(0.0, bytes - static_cast<double>(room));
  const auto each = static_cast<double>(columns * work.width) / 128;
  const double products =
      shape.by_matrix_units
          ? static_cast<double>(ceil_div(columns, 16) * ceil_div(work.width, 16)) *
                (2 + static_cast<double>(shape.rows) / 4)
          : each * static_cast<double>(shape.rows) * 1.5 * (work.sum == 8 ? 2 : 1);
  const double together =
      shape.blocks > 1
          ? (shape.is_cluster ? kCluster : kTogether + kEach * static_cast<double>(shape.blocks)) +
                kState + static_cast<double>(shape.rows * work.width * work.item) / 64
          : 0;
  return std::max((bytes - beyond) / 128, products) + beyond / from_cache + together +
         kFinish * static_cast<double>(ceil_div(columns, kColumns));
}

Shape choose(const Work &work) {
  Shape best;
  const auto consider = [&](int64_t rows, bool by_matrix_units) {
    Shape shape;
    shape.rows = rows;
    shape.by_matrix_units = by_matrix_units;
    const int64_t tiles = std::max<int64_t>(1, ceil_div(work.batch, rows));
    for (shape.blocks = 1; shape.blocks <= std::min(work.multiprocessors, work.width);
         ++shape.blocks) {
      shape.is_cluster = work.has_clusters && shape.blocks > 1 && shape.blocks <= kMostOfCluster;
      int64_t line = 0;
      const int64_t fixed = fixed_bytes(work, shape, line), room = work.shared_bytes - fixed;
      if (room < 0)
        continue;
      shape.groups = std::min(tiles, work.multiprocessors / shape.blocks);
      shape.cycles =
          static_cast<double>(ceil_div(tiles, shape.groups)) * cycles_of(work, shape, room, line);
      const int64_t lines = work.gates * ceil_div(work.width, shape.blocks);
      shape.shared_bytes = fixed + std::min(room, lines * line);
      if (best.shared_bytes == 0 || shape.cycles < best.cycles)
        best = shape;
    }
  };
  for (const int64_t rows : {1, 2, 4, 8})
    consider(rows, false);
  for (const int64_t rows : {8, 16, 32})
    if (work.has_matrix_units)
      consider(rows, true);
  return best;
}

NodeValue recurrent_steps(Context &context, const ops::Call &call) {
  TemplateCall of(context, call, "tc_recurrent.h");
  const bool is_lstm = call.node().target == "tsc.lstm_steps.default";
  const int64_t cell = is_lstm ? kLstm : call.integer("cell");
  const tensor::Layout parts = of.add_dense("parts").layout;
  const ir::BufferView weights = of.add_dense("weights");
  const bool batch_first = call.boolean("batch_first");
  const Expr steps = parts.sizes[batch_first ? 1 : 0], batch = parts.sizes[batch_first ? 0 : 1],
             width = weights.layout.sizes[1];
  if (!is_lstm && call.optional_tensor("bias") != nullptr)
    of.add_dense("bias");
  else
    of.parallel.arguments.push_back(TemplateCall::absent());
  of.add_dense("hidden");
  if (is_lstm)
    of.add_dense("cells");
  else
    of.parallel.arguments.push_back(TemplateCall::absent());
  of.parallel.arguments.push_back(TemplateCall::result(0));
  of.parallel.arguments.push_back(is_lstm ? TemplateCall::result(1) : TemplateCall::absent());

  Work work;
  work.gates = kGates[cell];
  work.batch = batch.is_integer() ? batch.value() : kBatchOfSymbol;
  work.width = width.value();
  work.item = static_cast<int64_t>(tensor::size_in_bytes(weights.dtype));
  work.sum = std::max<int64_t>(4, work.item);
  work.has_matrix_units = work.item == 2 && work.width % 8 == 0;
  if (context.target != nullptr && !context.target->is_host) {
    work.multiprocessors = context.target->multiprocessors;
    work.shared_bytes = context.target->shared_bytes_per_block;
    work.has_clusters = context.target->has_wgmma;
  }
  const Shape shape = choose(work);
  const bool together = shape.blocks > 1 && !shape.is_cluster;
  if (together) {
    of.exchange_words = register_buffer(context, {Expr(work.multiprocessors * kWordsOfGroup)},
                                        DType::i64, context.device);
    context.module.buffers[of.exchange_words].role = ir::Buffer::Role::exchange;
    decide_layout_as(context, of.exchange_words, {Expr(1)});
  }
  of.parallel.arguments.push_back(together ? TemplateCall::exchange() : TemplateCall::absent());
  for (const Expr size :
       {steps, batch, width, Expr(batch_first ? 1 : 0), Expr(call.boolean("backwards") ? 1 : 0),
        Expr(shape.shared_bytes), Expr(shape.blocks)})
    of.parallel.arguments.push_back(TemplateCall::integer(size));
  of.parallel.together = together;
  of.parallel.cluster = shape.is_cluster ? static_cast<int>(shape.blocks) : 1;
  of.parallel.block[0] = tc_recurrent_threads;
  const int64_t groups = batch.is_integer() ? shape.groups : work.multiprocessors / shape.blocks;
  of.parallel.grid[0] = Expr(shape.blocks * groups);
  of.parallel.shared_bytes = Expr(shape.shared_bytes);
  const std::string of_cell = std::to_string(cell);
  return of.finish("tc_recurrent",
                   "<" + of_cell + ", " + std::to_string(shape.rows) +
                       (shape.by_matrix_units ? ", true" : ", false") +
                       (shape.is_cluster ? ", true>" : ", false>"),
                   "<" + of_cell + ">", {});
}

} // namespace

void add_recurrences(Registry &registry) { registry["recurrent_steps"] = recurrent_steps; }

} // namespace tsc::lowering
