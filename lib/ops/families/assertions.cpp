// What the export left to be checked. Conditions that compiling decides vanish or are refused; the
// others become tsc.assert, which stays until record_assertions says who checks it.
#include "ops/families/assertions.h"

#include "graph/data_symbols.h"
#include "graph/indicators.h"
#include "graph/symbol_names.h"
#include "ops/table/builder.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/table.h"

#include <algorithm>

namespace tsc::ops {

Argument assert_condition(GraphBuilder &builder, const Argument &condition, std::string message) {
  if (const bool *known = std::get_if<bool>(&condition.value); known && *known)
    return {};
  if (const int64_t *known = std::get_if<int64_t>(&condition.value); known && *known != 0)
    return {};
  builder.emit(kAssert, {condition, std::move(message)});
  return {};
}

namespace {

Argument truth(GraphBuilder &builder, const Argument &condition) {
  if (!condition.node() || builder.meta(condition).dtype == DType::boolean)
    return condition;
  return builder.call("aten.ne.Scalar", {condition, 0});
}

/// The condition of a call: a number, an expression or a tensor of one element.
Argument condition_of(GraphBuilder &builder, const Call &call, std::string_view parameter) {
  const Argument &argument = call[parameter];
  if (const Value *value = call.value_of(argument)) {
    if (const Expr *expr = std::get_if<Expr>(&value->value))
      return size_argument(*expr);
    if (const bool *known = std::get_if<bool>(&value->value))
      return *known;
  }
  return truth(builder, argument);
}

void add_conditions(Table &table) {
  const auto add = [&](std::string_view schema, std::string_view condition,
                       std::string_view message) {
    table.add(schema)
        .effect(Effect::assertion)
        .shape([](const Call &) { return Value{}; })
        .decompose([=](GraphBuilder &builder, const Call &call) {
          std::string text =
              message.empty() ? "a condition does not hold" : call.string(message).value_or("");
          return assert_condition(builder, condition_of(builder, call, condition), std::move(text));
        });
  };
  add("_assert_async(Tensor self) -> ()", "self", "");
  add("_assert_async.msg(Tensor self, str assert_msg) -> ()", "self", "assert_msg");
  add("_assert_scalar(Scalar self, str assert_msg) -> ()", "self", "assert_msg");
  add("torch::_check(Scalar condition) -> ()", "condition", "");
  // The token is an order of calls that a graph has anyway.
  table.add("_functional_assert_async.msg(Tensor self, str assert_msg, Tensor dep_token) -> Tensor")
      .effect(Effect::assertion)
      .decompose([](GraphBuilder &builder, const Call &call) {
        assert_condition(builder, condition_of(builder, call, "self"),
                         call.string("assert_msg").value_or(""));
        return call["dep_token"];
      });
}

void add_ranges(Table &table) {
  for (const bool is_size : {false, true}) {
    table
        .add(keep_text(std::string("sym_constrain_range") + (is_size ? "_for_size" : "") +
                       "(Scalar size, *, int? min=None, int? max=None) -> ()"))
        .effect(Effect::assertion)
        .shape([](const Call &) { return Value{}; })
        .decompose([is_size](GraphBuilder &builder, const Call &call) {
          const Expr value = call.size("size");
          const symbolic::SymbolWriter name_of = graph::symbol_writer(builder.graph().symbols);
          const std::string name = symbolic::print(value, name_of);
          const auto bound = [&](Expr condition, const std::string &text) {
            assert_condition(builder, decided(builder, condition), "Invalid value range: " + text);
          };
          if (call.has("min") || is_size) {
            const int64_t low = call.has("min") ? call.integer("min") : 0;
            bound(graph::less_or_equal(low, value), name + " >= " + std::to_string(low));
          }
          if (call.has("max"))
            bound(graph::less_or_equal(value, call.size("max")),
                  name + " <= " + symbolic::print(call.size("max"), name_of));
          return Argument();
        });
  }
}

/// Everything of a tensor but its data is known when compiling, or when sizes are bound.
Argument assert_metadata(GraphBuilder &builder, const Call &call) {
  const TensorMeta meta = call.tensor("a");
  const symbolic::SymbolWriter name_of = graph::symbol_writer(builder.graph().symbols);
  const auto compare = [&](const char *what, const std::vector<Expr> &expected,
                           const std::vector<Expr> &found) {
    if (expected.size() != found.size())
      assert_condition(builder, false, std::string("Tensor ") + what + " mismatch");
    for (size_t i = 0; i < std::min(expected.size(), found.size()); ++i)
      assert_condition(
          builder, decided(builder, graph::negation(graph::unequal(expected[i], found[i]))),
          std::string("Tensor ") + what + " mismatch in dimension " + std::to_string(i) + ": " +
              symbolic::print(expected[i], name_of) + " and " + symbolic::print(found[i], name_of));
  };
  if (call.has("size"))
    compare("size", call.sizes("size"), meta.layout.sizes);
  if (call.has("stride"))
    compare("stride", call.sizes("stride"), meta.layout.strides);
  if (const std::optional<DType> dtype = call.dtype("dtype"); dtype && *dtype != meta.dtype)
    assert_condition(builder, false,
                     "Tensor dtype mismatch: " + std::string(tensor::torch_name(*dtype)) + " and " +
                         std::string(tensor::torch_name(meta.dtype)));
  return {};
}

} // namespace

bool mentions_own_size(const Graph &graph, Expr e) {
  return !e.is_integer() &&
         std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node &node) {
           if (node.target != kDefine)
             return false;
           const Expr symbol = std::get<Expr>(node.args.at(1).value);
           return !graph::is_data_symbol(symbol) && symbolic::depends_on(e, symbol);
         });
}

void add_assertions(Table &table) {
  add_conditions(table);
  add_ranges(table);
  table
      .add("_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, "
           "ScalarType? dtype=None, *, Device? device=None, Layout? layout=None) -> ()")
      .effect(Effect::assertion)
      .shape([](const Call &) { return Value{}; })
      .decompose(assert_metadata);
  table.add("tsc::assert(Scalar condition, str message, bool last=False) -> ()")
      .effect(Effect::assertion)
      .shape([](const Call &) { return Value{}; })
      .lowers("assert");
}

} // namespace tsc::ops
