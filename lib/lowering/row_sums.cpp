// Sums of rows by where they go (templates/sums/tc_sums.h): a launch for each of the three steps.
#include "ops/families/row_sums.h"
#include "lowering/build.h"
#include "lowering/registry.h"
#include "lowering/template_call.h"

#include <algorithm>

namespace tsc::lowering {

namespace {

constexpr int64_t kThreads = 256, kMostThreadsOfRow = 128;
/// Threads that share columns of a piece, at most: each has some of its positions.
constexpr int64_t kMostShares = 32, kThreadsOfPiece = 512;
static_assert(ops::kSumPiece % kMostShares == 0);
/// Results up to which each has a block, if so many rows go to one on average.
constexpr int64_t kFewRows = 8192, kManyOfRow = 8;

struct SumCall : TemplateCall {
  SumCall(Context &of, const ops::Call &node) : TemplateCall(of, node, "tc_sums.h") {}
};

/// Neighbouring columns that are one access, of 16 bytes at most; 1 where rows start anywhere.
int64_t columns_of_access(const Context &context, const ir::BufferView &source) {
  const tensor::Layout &layout = source.layout;
  const auto bytes = static_cast<int64_t>(tensor::size_in_bytes(source.dtype));
  int64_t wide = source.dtype == DType::f64 ? 1 : 16 / bytes;
  const auto divides = [&](Expr x) {
    return symbolic::known_multiple_of(x, wide, *context.ranges);
  };
  while (wide > 1 && !(layout.strides[1].is_integer(1) && divides(layout.sizes[1]) &&
                       divides(layout.strides[0]) && divides(layout.offset)))
    wide /= 2;
  return wide;
}

/// Threads side by side along the columns, and what is left to blocks: rows so many that their
/// threads fill a machine go on along theirs, where what goes there is near by then. (65,536 rows
/// of 910 of 16 bits, of which one in six has something, took 222 us an element a thread, H200.)
void spread(ir::CustomKernel &kernel, Expr columns, int64_t width, Expr rows) {
  const Expr accesses = symbolic::ceil_div(columns, Expr(width));
  int64_t threads = kMostThreadsOfRow;
  while (accesses.is_integer() && threads > 1 && threads / 2 >= accesses.value())
    threads /= 2;
  kernel.block[0] = static_cast<int>(threads);
  const Expr blocks = symbolic::ceil_div(accesses, Expr(threads));
  constexpr int64_t kMostBlocks = 64; // of one row
  constexpr int64_t kManyThreads = 1 << 19;
  int64_t most = kMostBlocks;
  if (rows.is_integer() && rows.value() > 0)
    most = std::clamp<int64_t>(kManyThreads / (rows.value() * threads), 1, kMostBlocks);
  kernel.grid[1] = blocks.is_integer() ? Expr(std::min(blocks.value(), most)) : Expr(1);
}

/// That the threads of a block add up what they share in.
Expr shared_bytes(const ir::CustomKernel &kernel, DType source, int64_t width) {
  const int64_t sum = source == DType::f64 ? 8 : 4;
  return Expr(kernel.block[0] * kernel.block[1] * width * sum);
}

NodeValue sum_starts(Context &context, const ops::Call &call) {
  SumCall of(context, call);
  of.add_dense("keys");
  of.parallel.arguments.push_back(TemplateCall::result(0));
  const Expr rows = call.size("rows");
  for (const Expr size : {call.tensor("keys").layout.sizes[0], rows, call.size("least")})
    of.parallel.arguments.push_back(TemplateCall::integer(size));
  of.parallel.grid[0] = symbolic::ceil_div(rows + Expr(1), Expr(kThreads));
  of.parallel.block[0] = static_cast<int>(kThreads);
  return of.finish("tc_sum_starts", "", "", {});
}

NodeValue sum_pieces(Context &context, const ops::Call &call) {
  SumCall of(context, call);
  const ir::BufferView source = of.add("source");
  of.add_dense("keys");
  const Expr count = of.add_dense("order").layout.sizes[0];
  of.parallel.arguments.push_back(TemplateCall::result(0));
  const tensor::Layout &layout = source.layout;
  for (const Expr size : {layout.strides[0], layout.strides[1], layout.sizes[1]})
    of.parallel.arguments.push_back(TemplateCall::integer(size));
  const int64_t width = columns_of_access(context, source);
  const Expr pieces = symbolic::floor_div(count, Expr(ops::kSumPiece));
  spread(of.parallel, layout.sizes[1], width, pieces);
  of.parallel.block[1] =
      static_cast<int>(std::min(kMostShares, kThreadsOfPiece / of.parallel.block[0]));
  of.parallel.grid[0] = pieces;
  of.parallel.shared_bytes = shared_bytes(of.parallel, source.dtype, width);
  const std::string types = "<" + std::to_string(width) + ">";
  return of.finish("tc_sum_pieces", types, types, {TemplateCall::integer(count)});
}

NodeValue sum_rows(Context &context, const ops::Call &call) {
  SumCall of(context, call);
  const ir::BufferView source = of.add("source");
  const auto count = of.add_dense("order").layout.sizes[0].as_integer();
  of.add_dense("starts");
  const bool is_double = source.dtype == DType::f64;
  std::string pieces_type;
  if (call.has("pieces"))
    of.add_dense("pieces");
  else
    of.parallel.arguments.push_back(TemplateCall::absent());
  of.parallel.arguments.push_back(TemplateCall::result(0));
  const tensor::Layout &layout = source.layout;
  const Expr rows = call.size("rows");
  for (const Expr size : {layout.strides[0], layout.strides[1], layout.sizes[1], rows})
    of.parallel.arguments.push_back(TemplateCall::integer(size));
  const int64_t width = columns_of_access(context, source);
  spread(of.parallel, layout.sizes[1], width, rows);
  const bool are_few = rows.is_integer() && rows.value() <= kFewRows;
  const bool together = are_few && count && *count >= kManyOfRow * rows.value();
  of.parallel.block[1] =
      static_cast<int>(together ? std::min(kMostShares, kThreadsOfPiece / of.parallel.block[0])
                                : kThreads / of.parallel.block[0]);
  of.parallel.grid[0] = together ? rows : symbolic::ceil_div(rows, Expr(of.parallel.block[1]));
  of.parallel.shared_bytes = shared_bytes(of.parallel, source.dtype, width);
  const std::string sum = is_double ? "double" : "float", of_width = std::to_string(width);
  return of.finish("tc_sum_rows", "<" + of_width + ", " + sum + (together ? ", true>" : ", false>"),
                   "<" + of_width + ", " + sum + ">", {});
}

} // namespace

void add_row_sums(Registry &registry) {
  registry["sum_starts"] = sum_starts;
  registry["sum_pieces"] = sum_pieces;
  registry["sum_rows"] = sum_rows;
}

} // namespace tsc::lowering
