// One element of each row by its place among the sorted ones (templates/select/tc_select.h).
#include "lowering/registry.h"
#include "lowering/template_call.h"

namespace tsc::lowering {

namespace {

/// Threads that share a row, keys that each holds (0: the row is read again for each digit), and
/// bits of a digit.
struct SelectShape {
  int threads = 1024, keys = 0, bits = 11;
};

SelectShape shape_of(int64_t length) {
  constexpr int kMostKeys = 16, kFewKeys = 4;
  SelectShape shape;
  for (const int threads : {32, 256, 512, 1024})
    if (length <= int64_t{threads} * kMostKeys) {
      shape.threads = threads;
      shape.bits = threads == 32 ? 8 : 11;
      const auto keys = static_cast<int>((length + threads - 1) / threads);
      shape.keys = (keys + kFewKeys - 1) / kFewKeys * kFewKeys;
      break;
    }
  return shape;
}

NodeValue select_rows(Context &context, const ops::Call &call) {
  TemplateCall of(context, call, "tc_select.h");
  const tensor::Layout layout = of.add_dense("self").layout;
  const Expr rows = layout.sizes[0], length = layout.sizes[1];
  of.parallel.arguments.push_back(TemplateCall::result(0));
  of.parallel.arguments.push_back(TemplateCall::result(1));
  for (const Expr size : {length, call.size("at"), rows})
    of.parallel.arguments.push_back(TemplateCall::integer(size));
  const SelectShape shape = shape_of(length.value());
  constexpr int kBlock = 256;
  const int together = shape.threads == 32 ? kBlock / 32 : 1; // rows of a block
  of.parallel.block[0] = shape.threads * together;
  of.parallel.grid[0] = symbolic::ceil_div(rows, Expr(together));
  const int words = (1 << shape.bits) + shape.threads / 32 + 3; // tc_select_memory
  of.parallel.shared_bytes = Expr(int64_t{4} * words * together);
  const std::string kind = std::to_string(call.integer("kind"));
  return of.finish("tc_select_rows",
                   "<" + std::to_string(shape.threads) + ", " + std::to_string(shape.bits) + ", " +
                       std::to_string(shape.keys) + ", " + kind + ">",
                   "<" + kind + ">", {});
}

} // namespace

void add_selections(Registry &registry) { registry["select_rows"] = select_rows; }

} // namespace tsc::lowering
