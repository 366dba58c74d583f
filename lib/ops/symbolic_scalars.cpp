// Ints and bools that depend on sizes. They vanish: their users take the expression.
#include "ops/builder.h"
#include "ops/shape_rules.h"
#include "ops/table.h"

#include <cmath>

namespace tsc::ops {
namespace {

using Arithmetic = Expr (*)(Expr, Expr);

void add_size_queries(Table &table) {
  table.add("sym_size.int(Tensor self, int dim) -> SymInt")
      .decompose([](GraphBuilder &, const Call &call) {
        const tensor::Layout &layout = call.tensor("self").layout;
        return size_argument(
            layout.sizes.at(normalize_dim(call, call.integer("dim"), layout.rank())));
      });
  table.add("sym_stride.int(Tensor self, int dim) -> SymInt")
      .decompose([](GraphBuilder &, const Call &call) {
        const tensor::Layout &layout = call.tensor("self").layout;
        return size_argument(
            layout.strides.at(normalize_dim(call, call.integer("dim"), layout.rank())));
      });
  table.add("sym_numel(Tensor self) -> SymInt").decompose([](GraphBuilder &, const Call &call) {
    return size_argument(symbolic::numel(call.tensor("self").layout.sizes));
  });
  table.add("sym_storage_offset(Tensor self) -> SymInt")
      .decompose([](GraphBuilder &, const Call &call) {
        return size_argument(call.tensor("self").layout.offset);
      });
}

bool is_real(const Argument &argument, const Call &call) {
  if (std::holds_alternative<double>(argument.value))
    return true;
  const Value *value = call.value_of(argument);
  return value && std::holds_alternative<double>(value->value);
}

void add_arithmetic(Table &table) {
  struct Form {
    std::string_view name;
    Arithmetic compute;
    double (*real)(double, double);
  };
  const Form forms[] = {{"operator::add", [](Expr a, Expr b) { return a + b; },
                         [](double a, double b) { return a + b; }},
                        {"operator::sub", [](Expr a, Expr b) { return a - b; },
                         [](double a, double b) { return a - b; }},
                        {"operator::mul", [](Expr a, Expr b) { return a * b; },
                         [](double a, double b) { return a * b; }},
                        {"operator::floordiv",
                         [](Expr a, Expr b) { return symbolic::floor_div(a, b); },
                         [](double a, double b) { return std::floor(a / b); }},
                        {"operator::mod", [](Expr a, Expr b) { return symbolic::mod(a, b); },
                         [](double a, double b) { return a - b * std::floor(a / b); }},
                        {"torch::sym_max", [](Expr a, Expr b) { return symbolic::maximum(a, b); },
                         [](double a, double b) { return a < b ? b : a; }},
                        {"torch::sym_min", [](Expr a, Expr b) { return symbolic::minimum(a, b); },
                         [](double a, double b) { return b < a ? b : a; }}};
  for (const Form &form : forms) {
    Arithmetic compute = form.compute;
    auto real = form.real;
    table.add(keep_text(std::string(form.name) + "(Scalar a, Scalar b) -> Scalar"))
        .decompose([compute, real](GraphBuilder &builder, const Call &call) -> Argument {
          if (is_real(call["a"], call) || is_real(call["b"], call))
            return real(call.number("a"), call.number("b"));
          return size_argument(
              symbolic::simplify(compute(call.size("a"), call.size("b")), builder.ranges()));
        });
  }
  table.add("operator::neg(Scalar a) -> Scalar").decompose([](GraphBuilder &, const Call &call) {
    return size_argument(-call.size("a"));
  });
  table.add("operator::truediv(Scalar a, Scalar b) -> Scalar")
      .decompose([](GraphBuilder &, const Call &call) -> Argument {
        return call.number("a") / call.number("b"); // TSC-O016 if it depends on a symbol
      });
}

/// Comparisons of sizes guard the export; they are true where the ranges do not say otherwise.
void add_conditions(Table &table) {
  for (std::string_view name : {"eq", "ne", "lt", "le", "gt", "ge", "and_", "or_"})
    table.add(keep_text("operator::" + std::string(name) + "(Scalar a, Scalar b) -> bool"))
        .effect(Effect::assertion)
        .shape([](const Call &) { return Value{true}; });
  table.add("operator::not_(Scalar a) -> bool").effect(Effect::assertion).shape([](const Call &) {
    return Value{true};
  });
}

Value getitem_value(const Call &call) {
  int64_t index = call.integer("index");
  const Value *value = call.value_of(call["value"]);
  const Value::List *list = value ? value->list() : nullptr;
  if (!list || index < 0 || index >= static_cast<int64_t>(list->size()))
    call.fail("TSC-O046",
              "operator.getitem: index " + std::to_string(index) + " of " +
                  (list ? std::to_string(list->size()) + " results" : "a single result"),
              "choose one of the results");
  return (*list)[static_cast<size_t>(index)];
}

} // namespace

void add_symbolic_scalars(Table &table) {
  add_size_queries(table);
  add_arithmetic(table);
  add_conditions(table);
  table.add("operator::getitem(Any[] value, int index) -> Any")
      .shape(getitem_value)
      .lowers("getitem");
}

} // namespace tsc::ops
