// Sums of rows by where they go (templates/sums/tc_sums.h): a launch for each of the three steps.
#include "ops/families/row_sums.h"
#include "ir/custom_call.h"
#include "lowering/build.h"
#include "lowering/realize.h"
#include "lowering/registry.h"
#include "lowering/tuple_call.h"

#include <algorithm>

namespace tsc::lowering {

namespace {

using Kind = ir::CustomArgument::Kind;

constexpr int64_t kThreads = 256, kMostThreadsOfRow = 128;

ir::CustomArgument argument(Kind kind, size_t position = 0) {
  ir::CustomArgument result;
  result.kind = kind;
  result.position = position;
  return result;
}
ir::CustomArgument integer(Expr value) {
  ir::CustomArgument result = argument(Kind::integer);
  result.size = value;
  result.type = "long long";
  return result;
}

/// One call of a function of tc_sums.h in the making.
struct SumCall {
  Context &context;
  const ops::Call &call;
  ir::Extern kernel;
  ir::CustomKernel parallel;

  SumCall(Context &of, const ops::Call &node) : context(of), call(node) {
    kernel.kernel = call.node().target;
    kernel.ir_class = "FallbackKernel";
    kernel.library = ir::Library::user_kernel;
    parallel.file = "tc_sums.h";
  }

  /// Adds the tensor `parameter` as it lies.
  const ir::BufferView &add(std::string_view parameter) {
    TensorValue value = tensor_argument(context, call, parameter);
    if (value.dtype != value.storage->dtype) // reinterpreted bits
      value = copy(context, value);
    return add(realized_view(context, value));
  }
  /// The same without gaps.
  void add_dense(std::string_view parameter) {
    TensorValue value = tensor_argument(context, call, parameter);
    if (value.dtype != value.storage->dtype)
      value = copy(context, value);
    add(require_strides(context, value, tensor::contiguous_strides(value.sizes)));
  }
  const ir::BufferView &add(ir::BufferView view) {
    parallel.arguments.push_back(argument(Kind::input, kernel.inputs.size()));
    kernel.inputs.push_back(std::move(view));
    return kernel.inputs.back();
  }
  /// `alone`: what only one thread that does everything is told.
  NodeValue finish(const std::string &function, const std::string &of_types,
                   const std::vector<ir::CustomArgument> &alone) {
    auto custom = std::make_shared<ir::CustomCall>();
    custom->name = call.node().target;
    custom->results = 1;
    ir::CustomKernel serial;
    serial.file = parallel.file;
    serial.function = function + "_alone" + of_types;
    serial.arguments = parallel.arguments;
    serial.arguments.insert(serial.arguments.end(), alone.begin(), alone.end());
    custom->host = std::move(serial);
    parallel.function = function + of_types;
    custom->cuda = std::move(parallel);
    kernel.custom = std::move(custom);
    return std::get<std::vector<TensorValue>>(
        tuple_call(context, std::move(kernel), {*call.node().value->tensor()}))[0];
  }
};

/// Neighbouring columns that are one access of 16 bytes; 1 where rows do not start with one.
int64_t columns_of_access(const Context &context, const ir::BufferView &source) {
  const tensor::Layout &layout = source.layout;
  const auto bytes = static_cast<int64_t>(tensor::size_in_bytes(source.dtype));
  const int64_t wide = source.dtype == DType::f64 ? 1 : 16 / bytes;
  const auto divides = [&](Expr x) {
    return symbolic::known_multiple_of(x, wide, *context.ranges);
  };
  return layout.strides[1].is_integer(1) && divides(layout.sizes[1]) &&
                 divides(layout.strides[0]) && divides(layout.offset)
             ? wide
             : 1;
}

/// Threads side by side along the columns, and what is left to blocks.
void spread(ir::CustomKernel &kernel, Expr columns, int64_t width) {
  const Expr accesses = symbolic::ceil_div(columns, Expr(width));
  int64_t threads = kMostThreadsOfRow;
  while (accesses.is_integer() && threads > 1 && threads / 2 >= accesses.value())
    threads /= 2;
  kernel.block[0] = static_cast<int>(threads);
  const Expr blocks = symbolic::ceil_div(accesses, Expr(threads));
  constexpr int64_t kMostBlocks = 64; // of one row
  kernel.grid[1] = blocks.is_integer() ? Expr(std::min(blocks.value(), kMostBlocks)) : Expr(1);
}

NodeValue sum_starts(Context &context, const ops::Call &call) {
  SumCall of(context, call);
  of.add_dense("keys");
  of.parallel.arguments.push_back(argument(Kind::result));
  const Expr rows = call.size("rows");
  for (const Expr size : {call.tensor("keys").layout.sizes[0], rows, call.size("least")})
    of.parallel.arguments.push_back(integer(size));
  of.parallel.grid[0] = symbolic::ceil_div(rows + Expr(1), Expr(kThreads));
  of.parallel.block[0] = static_cast<int>(kThreads);
  return of.finish("tc_sum_starts", "", {});
}

NodeValue sum_pieces(Context &context, const ops::Call &call) {
  SumCall of(context, call);
  const ir::BufferView source = of.add("source");
  of.add_dense("keys");
  of.add_dense("order");
  of.parallel.arguments.push_back(argument(Kind::result));
  const tensor::Layout &layout = source.layout;
  for (const Expr size : {layout.strides[0], layout.strides[1], layout.sizes[1]})
    of.parallel.arguments.push_back(integer(size));
  const int64_t width = columns_of_access(context, source);
  spread(of.parallel, layout.sizes[1], width);
  of.parallel.grid[0] = symbolic::floor_div(layout.sizes[0], Expr(ops::kSumPiece));
  return of.finish("tc_sum_pieces", "<" + std::to_string(width) + ">", {integer(layout.sizes[0])});
}

NodeValue sum_rows(Context &context, const ops::Call &call) {
  SumCall of(context, call);
  const ir::BufferView source = of.add("source");
  of.add_dense("order");
  of.add_dense("starts");
  const bool is_double = source.dtype == DType::f64;
  std::string pieces_type;
  if (call.has("pieces"))
    of.add_dense("pieces");
  else
    of.parallel.arguments.push_back(argument(Kind::absent));
  of.parallel.arguments.push_back(argument(Kind::result));
  const tensor::Layout &layout = source.layout;
  const Expr rows = call.size("rows");
  for (const Expr size : {layout.strides[0], layout.strides[1], layout.sizes[1], rows})
    of.parallel.arguments.push_back(integer(size));
  const int64_t width = columns_of_access(context, source);
  spread(of.parallel, layout.sizes[1], width);
  of.parallel.block[1] = static_cast<int>(kThreads) / of.parallel.block[0];
  of.parallel.grid[0] = symbolic::ceil_div(rows, Expr(of.parallel.block[1]));
  return of.finish("tc_sum_rows",
                   "<" + std::to_string(width) + ", " + (is_double ? "double" : "float") + ">", {});
}

} // namespace

void add_row_sums(Registry &registry) {
  registry["sum_starts"] = sum_starts;
  registry["sum_pieces"] = sum_pieces;
  registry["sum_rows"] = sum_rows;
}

} // namespace tsc::lowering
