// Ints and bools that depend on sizes. They vanish: their users take the expression.
#include "graph/indicators.h"
#include "ops/builder.h"
#include "ops/shape_rules.h"
#include "ops/table.h"

#include <cmath>

namespace tsc::ops {
namespace {

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

// ---- reals
//
// A real that depends on sizes is a tensor of rank 0 (f64), computed with everything else.

/// Where the graph computes.
tensor::Device device_of(const Graph &graph) {
  for (const Node &node : graph.nodes)
    if (node.value && node.value->tensor())
      return node.value->tensor()->device;
  return {};
}

bool is_tensor(const Argument &argument, const Call &call) {
  const Value *value = call.value_of(argument);
  return value && value->tensor();
}
/// The number that `argument` is, if it is a real and known.
std::optional<double> known_real(const Argument &argument, const Call &call) {
  if (const double *number = std::get_if<double>(&argument.value))
    return *number;
  const Value *value = call.value_of(argument);
  if (value && std::holds_alternative<double>(value->value))
    return std::get<double>(value->value);
  return std::nullopt;
}

/// `parameter` as a tensor of rank 0.
Argument as_real(GraphBuilder &builder, const Call &call, std::string_view parameter) {
  if (is_tensor(call[parameter], call))
    return call[parameter];
  const std::optional<double> number = known_real(call[parameter], call);
  Argument fill = number ? Argument(*number) : size_argument(call.size(parameter));
  return builder.call("aten.full.default", {Arguments{}, fill},
                      {{"dtype", DType::f64}, {"device", device_of(builder.graph())}});
}

/// A binary operator on integers, on known reals, and on reals that depend on sizes.
struct Arithmetic {
  Expr (*integer)(const Call &, Expr, Expr); // null: the result is real
  double (*real)(double, double);
  std::string_view tensor;
};

Argument compute(GraphBuilder &builder, const Call &call, const Arithmetic &operation) {
  const std::string_view names[] = {"a", "b"};
  bool any_tensor = false, any_real = operation.integer == nullptr, all_known = true;
  double known[2] = {};
  for (int i = 0; i < 2; ++i) {
    const Argument &argument = call[names[i]];
    const bool tensor = is_tensor(argument, call);
    any_tensor = any_tensor || tensor;
    if (const std::optional<double> number = known_real(argument, call)) {
      any_real = true;
      known[i] = *number;
    } else if (!tensor) {
      const Expr size = call.size(names[i]);
      all_known = all_known && size.is_integer();
      known[i] = size.is_integer() ? static_cast<double>(size.value()) : 0;
    }
  }
  if (operation.real == nullptr || (!any_tensor && !any_real))
    return size_argument(symbolic::simplify(operation.integer(call, call.size("a"), call.size("b")),
                                            builder.ranges()));
  if (!any_tensor && all_known)
    return operation.real(known[0], known[1]);
  return builder.call(operation.tensor, {as_real(builder, call, "a"), as_real(builder, call, "b")});
}

/// 2 ** exponent, or base ** exponent: the exponent is a number.
Expr power(const Call &call, Expr base, Expr exponent) {
  constexpr int64_t kMost = 62;
  if (!exponent.is_integer() || exponent.value() < 0 || exponent.value() > kMost)
    call.fail("TSC-O016",
              call.node().target + ": argument 'b' is '" + symbolic::print(exponent) +
                  "', a number is needed",
              "make this value static when exporting");
  Expr result = 1;
  for (int64_t i = 0; i < exponent.value(); ++i)
    result = result * base;
  return result;
}

void add_arithmetic(Table &table) {
  struct Form {
    std::string_view name;
    Arithmetic operation;
  };
  const Form forms[] = {
      {"operator::add",
       {[](const Call &, Expr a, Expr b) { return a + b; },
        [](double a, double b) { return a + b; }, "aten.add.Tensor"}},
      {"operator::sub",
       {[](const Call &, Expr a, Expr b) { return a - b; },
        [](double a, double b) { return a - b; }, "aten.sub.Tensor"}},
      {"operator::mul",
       {[](const Call &, Expr a, Expr b) { return a * b; },
        [](double a, double b) { return a * b; }, "aten.mul.Tensor"}},
      {"operator::floordiv",
       {[](const Call &, Expr a, Expr b) { return symbolic::floor_div(a, b); },
        [](double a, double b) { return std::floor(a / b); }, "aten.floor_divide.default"}},
      {"operator::mod",
       {[](const Call &, Expr a, Expr b) { return symbolic::mod(a, b); },
        [](double a, double b) { return a - b * std::floor(a / b); }, "aten.remainder.Tensor"}},
      {"operator::pow",
       {power, [](double a, double b) { return std::pow(a, b); }, "aten.pow.Tensor_Tensor"}},
      {"operator::lshift",
       {[](const Call &call, Expr a, Expr b) { return a * power(call, Expr(2), b); }, nullptr, ""}},
      {"operator::rshift",
       {[](const Call &call, Expr a, Expr b) {
          return symbolic::floor_div(a, power(call, Expr(2), b));
        },
        nullptr, ""}},
      {"operator::truediv", {nullptr, [](double a, double b) { return a / b; }, "aten.div.Tensor"}},
      {"torch::sym_max",
       {[](const Call &, Expr a, Expr b) { return symbolic::maximum(a, b); },
        [](double a, double b) { return a < b ? b : a; }, "aten.maximum.default"}},
      {"torch::sym_min",
       {[](const Call &, Expr a, Expr b) { return symbolic::minimum(a, b); },
        [](double a, double b) { return b < a ? b : a; }, "aten.minimum.default"}}};
  for (const Form &form : forms) {
    const Arithmetic operation = form.operation;
    table.add(keep_text(std::string(form.name) + "(Scalar a, Scalar b) -> Scalar"))
        .decompose([operation](GraphBuilder &builder, const Call &call) {
          return compute(builder, call, operation);
        });
  }
}

/// An operator on one number.
void add_unary(Table &table) {
  table.add("operator::neg(Scalar a) -> Scalar")
      .decompose([](GraphBuilder &builder, const Call &call) -> Argument {
        if (is_tensor(call["a"], call))
          return builder.call("aten.neg.default", {call["a"]});
        if (const std::optional<double> number = known_real(call["a"], call))
          return -*number;
        return size_argument(-call.size("a"));
      });
  table.add("operator::pos(Scalar a) -> Scalar").decompose([](GraphBuilder &, const Call &call) {
    return call["a"];
  });
  table.add("torch::sym_float(Scalar a) -> Scalar")
      .decompose([](GraphBuilder &builder, const Call &call) -> Argument {
        if (const std::optional<double> number = known_real(call["a"], call))
          return *number;
        return as_real(builder, call, "a");
      });
  for (std::string_view name : {"torch::_sym_sqrt", "torch::sym_sqrt"})
    table.add(keep_text(std::string(name) + "(Scalar a) -> Scalar"))
        .decompose([](GraphBuilder &builder, const Call &call) -> Argument {
          if (const std::optional<double> number = known_real(call["a"], call))
            return std::sqrt(*number);
          return builder.call("aten.sqrt.default", {as_real(builder, call, "a")});
        });
  for (std::string_view name : {"torch::sym_int", "math::trunc", "math::floor", "math::ceil"}) {
    const bool up = name == "math::ceil", down = name == "math::floor";
    table.add(keep_text(std::string(name) + "(Scalar a) -> Scalar"))
        .decompose([up, down](GraphBuilder &, const Call &call) -> Argument {
          if (const std::optional<double> number = known_real(call["a"], call)) {
            constexpr double kLimit = 9.2e18; // fits an int64
            const double whole = up     ? std::ceil(*number)
                                 : down ? std::floor(*number)
                                        : std::trunc(*number);
            if (!(std::fabs(whole) < kLimit))
              call.fail("TSC-O016", call.node().target + ": argument 'a' is too large",
                        "pass a number that fits 64 bits");
            return static_cast<int64_t>(whole);
          }
          if (is_tensor(call["a"], call))
            call.fail("TSC-O016",
                      call.node().target + ": argument 'a' is a real that depends on sizes",
                      "compute with integers: // rounds down, -(-a // b) rounds up");
          return size_argument(call.size("a"));
        });
  }
}

// ---- conditions
//
// A condition is True or False where the ranges decide it, else an integer expression that is 1 or
// 0. What the export asserts holds where the ranges do, and is dropped.

Argument condition(GraphBuilder &builder, Expr value) {
  const Expr simple = symbolic::simplify(value, builder.ranges());
  const symbolic::Interval bounds = symbolic::bounds(simple, builder.ranges());
  if (bounds.low == bounds.high)
    return bounds.low != 0;
  return simple;
}

void add_conditions(Table &table) {
  using Compare = Expr (*)(Expr, Expr);
  const std::pair<std::string_view, Compare> forms[] = {
      {"gt", [](Expr a, Expr b) { return graph::less(b, a); }},
      {"ge", [](Expr a, Expr b) { return graph::less_or_equal(b, a); }},
      {"lt", graph::less},
      {"le", graph::less_or_equal},
      {"ne", graph::unequal},
      {"eq", [](Expr a, Expr b) { return graph::negation(graph::unequal(a, b)); }},
      {"and_", [](Expr a, Expr b) { return symbolic::minimum(a, b); }},
      {"or_", [](Expr a, Expr b) { return symbolic::maximum(a, b); }}};
  for (const auto &[name, compare] : forms) {
    Compare each = compare;
    table.add(keep_text("operator::" + std::string(name) + "(Scalar a, Scalar b) -> bool"))
        .decompose([each](GraphBuilder &builder, const Call &call) -> Argument {
          for (std::string_view side : {"a", "b"})
            if (is_tensor(call[side], call) || known_real(call[side], call))
              return graph::None{}; // an assertion may ask, nothing else can
          return condition(builder, each(call.size("a"), call.size("b")));
        });
  }
  for (std::string_view name : {"operator::not_", "torch::sym_not"})
    table.add(keep_text(std::string(name) + "(Scalar a) -> bool"))
        .decompose([](GraphBuilder &builder, const Call &call) {
          return condition(builder, graph::negation(call.size("a")));
        });
  table.add("torch::sym_ite(Scalar c, Scalar a, Scalar b) -> Scalar")
      .decompose([](GraphBuilder &builder, const Call &call) -> Argument {
        const Argument choice = condition(builder, call.size("c"));
        if (const bool *known = std::get_if<bool>(&choice.value))
          return call[*known ? "a" : "b"];
        const Expr value =
            graph::chosen(std::get<Expr>(choice.value), call.size("a"), call.size("b"));
        return size_argument(symbolic::simplify(value, builder.ranges()));
      });
}

/// What a tensor holds is known when the graph runs; nothing may depend on it before.
void add_data_dependent(Table &table) {
  for (std::string_view name : {"item", "_local_scalar_dense"})
    table.add(keep_text(std::string(name) + "(Tensor self) -> Scalar"))
        .decompose([](GraphBuilder &, const Call &call) -> Argument {
          call.fail("TSC-O004", call.node().target + ": a number of the graph depends on data",
                    "keep it a tensor (torch.where, index_select, masks), or pass it as an input");
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
  add_unary(table);
  add_conditions(table);
  add_data_dependent(table);
  table.add("operator::getitem(Any[] value, int index) -> Any")
      .shape(getitem_value)
      .lowers("getitem");
}

} // namespace tsc::ops
