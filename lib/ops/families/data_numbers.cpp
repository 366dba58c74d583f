// Numbers that the data decides: what item() reads. An integer is a symbol (u0), which
// tsc.define gives its value; a real or a bool is a tensor of rank 0 that counts as a number.
#include "graph/data_symbols.h"
#include "graph/indicators.h"
#include "graph/symbol_names.h"
#include "ops/families/assertions.h"
#include "ops/table/builder.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <optional>

namespace tsc::ops {
namespace {

/// The symbol that the export gave the integer that `node` reads.
const Expr *symbol_of(const Node &node) {
  const Expr *symbol = node.value ? std::get_if<Expr>(&node.value->value) : nullptr;
  return symbol && symbol->is_symbol() ? symbol : nullptr; // of the data, or a size
}

/// The number that the export found it to be: what it asserts leaves no other.
std::optional<int64_t> number_of(const Node &node) {
  const Expr *number = node.value ? std::get_if<Expr>(&node.value->value) : nullptr;
  return number && number->is_integer() ? std::optional(number->value()) : std::nullopt;
}

/// The export says that nobody takes the number.
bool is_unused(const Node &node) {
  return node.value && std::holds_alternative<graph::None>(node.value->value);
}

bool is_integer(DType dtype) { return tensor::is_integral(dtype, false); }

Value item_value(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  for (Expr size : self.layout.sizes)
    if (size.is_integer() && !size.is_integer(1))
      call.fail("TSC-O004", call.node().target + ": a number of more than one element",
                "reduce the tensor to one element before");
  if (is_integer(self.dtype)) {
    if (is_unused(call.node()))
      return Value{};
    if (!symbol_of(call.node()) && !number_of(call.node()))
      call.fail("TSC-O004",
                call.node().target + ": its val is not the name of a number of the data",
                "leave the node's val out, or name it {\"int\": \"u0\"}");
    return *call.node().value;
  }
  TensorMeta number;
  number.dtype = self.dtype == DType::boolean ? DType::boolean : DType::f64;
  number.device = self.device;
  number.is_number = true;
  return Value{number};
}

/// The range that everything relies on; checked after what the graph itself asserts.
void assert_range(GraphBuilder &builder, const Call &call, Expr symbol) {
  const symbolic::Interval range = builder.ranges().interval_of(symbol);
  Expr holds = 1;
  std::string text;
  // Without a bound exports write the largest numbers but one.
  if (range.low > INT64_MIN + 1) {
    holds = graph::less_or_equal(range.low, symbol);
    text = std::to_string(range.low) + " <= ";
  }
  text += symbolic::print(symbol, graph::symbol_writer(builder.graph().symbols));
  if (range.high < INT64_MAX - 1) {
    holds = symbolic::minimum(holds, graph::less_or_equal(symbol, range.high));
    text += " <= " + std::to_string(range.high);
  }
  if (!holds.is_integer())
    builder.emit(kAssert,
                 {holds, "the number that " + call.node().target + " reads: " + text, true});
}

Argument item(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  Argument value = call["self"];
  if (!self.layout.sizes.empty())
    value = builder.call("aten.view.default", {value, Arguments{}});
  if (!is_integer(self.dtype)) {
    if (self.dtype != DType::boolean && self.dtype != DType::f64)
      value = builder.call(kConvert, {value, DType::f64});
    return builder.call("tsc.number.default", {value});
  }
  if (is_unused(call.node()))
    return {};
  if (const std::optional<int64_t> number = number_of(call.node())) {
    builder.emit(kAssert, {builder.call("aten.eq.Tensor", {value, *number}),
                           "the number that " + call.node().target + " reads is " +
                               std::to_string(*number)});
    return *number;
  }
  if (!symbol_of(call.node()))
    item_value(call); // says what is missing
  const Expr symbol = *symbol_of(call.node());
  if (self.dtype != DType::i64)
    value = builder.call(kConvert, {value, DType::i64});
  builder.emit(kDefine, {value, symbol});
  assert_range(builder, call, symbol);
  return symbol;
}

/// Whether two tensors have the same sizes and elements: a bool that the data decides.
Argument equal_tensors(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self"), other = call.tensor("other");
  const std::vector<Expr> &mine = self.layout.sizes, &others = other.layout.sizes;
  if (self.dtype != other.dtype)
    call.fail("TSC-O127",
              call.node().target + " of " + std::string(tensor::torch_name(self.dtype)) + " and " +
                  std::string(tensor::torch_name(other.dtype)),
              "convert one to the dtype of the other");
  bool may_be = mine.size() == others.size(), are = may_be;
  for (size_t i = 0; i < mine.size() && i < others.size(); ++i) {
    may_be = may_be && may_equal(mine[i], others[i], call.ranges());
    are = are && same_size(mine[i], others[i], call.ranges());
  }
  if (may_be && !are)
    call.refuse("TSC-O016",
                call.node().target + " of sizes " + print_sizes(mine) + " and " +
                    print_sizes(others) + ", of which it is not known whether they are the same",
                "compare tensors of the same sizes");
  Argument same;
  if (!are)
    same = builder.call("aten.full.default", {Arguments{}, false},
                        {{"dtype", DType::boolean}, {"device", self.device}});
  else
    same = builder.call("aten.all.default",
                        {builder.call("aten.eq.Tensor", {call["self"], call["other"]})});
  return builder.call("tsc.number.default", {same});
}

} // namespace

void add_data_numbers(Table &table) {
  for (std::string_view name : {"item", "_local_scalar_dense"})
    table.add(keep_text(std::string(name) + "(Tensor self) -> Scalar"))
        .shape(item_value)
        .yields_number()
        .decompose(item);
  table.add("equal(Tensor self, Tensor other) -> bool").yields_number().decompose(equal_tensors);
  table.add("tsc::number(Tensor self) -> Tensor")
      .shape([](const Call &call) {
        TensorMeta meta = call.tensor("self");
        meta.is_number = true;
        return Value{meta};
      })
      .yields_number()
      .lowers("number");
  table.add("tsc::define(Tensor self, SymInt symbol, SymInt? bound=None) -> ()")
      .shape([](const Call &) { return Value{}; })
      .lowers("define");
}

} // namespace tsc::ops
