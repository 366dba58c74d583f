// Ints and bools that depend on sizes. They vanish: their users take the expression.
#include "graph/data_symbols.h"
#include "graph/indicators.h"
#include "graph/sympy_text.h"
#include "ops/families/assertions.h"
#include "ops/table/builder.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <cmath>

namespace tsc::ops {

Argument decided(GraphBuilder &builder, Expr condition) {
  if (graph::depends_on_data(condition))
    return condition;
  const Expr simple = symbolic::simplify(condition, builder.ranges());
  const symbolic::Interval bounds = symbolic::bounds(simple, builder.ranges());
  if (bounds.low == bounds.high)
    return bounds.low != 0;
  return simple;
}

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
  table.add("sym_is_contiguous(Tensor self, MemoryFormat memory_format=contiguous_format) -> bool")
      .decompose([](GraphBuilder &, const Call &call) {
        const tensor::Layout &layout = call.tensor("self").layout;
        const auto *given = std::get_if<graph::MemoryFormat>(&call["memory_format"].value);
        const graph::MemoryFormat asked = given ? *given : graph::MemoryFormat::contiguous;
        const std::vector<Expr> dense = strides_in_format(call, layout, asked);
        bool is_dense = true;
        for (size_t i = 0; i < layout.rank(); ++i) // those of single elements do not count
          is_dense = is_dense && (layout.sizes[i].is_integer(1) || layout.strides[i] == dense[i]);
        return Argument(is_dense);
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

/// The number that `parameter` is, if it is known.
std::optional<double> known_number(const Call &call, std::string_view parameter) {
  if (is_tensor(call[parameter], call))
    return std::nullopt;
  if (const std::optional<double> real = known_real(call[parameter], call))
    return real;
  const Expr size = call.size(parameter);
  return size.is_integer() ? std::optional(static_cast<double>(size.value())) : std::nullopt;
}

/// `parameter` as a tensor of rank 0, f64.
Argument as_real(GraphBuilder &builder, const Call &call, std::string_view parameter) {
  if (is_tensor(call[parameter], call)) {
    const TensorMeta meta = builder.meta(call[parameter]);
    const bool is_real = meta.dtype == DType::f64 && !meta.is_number;
    return is_real
               ? call[parameter]
               : builder.call("prims.convert_element_type.default", {call[parameter], DType::f64});
  }
  const std::optional<double> number = known_real(call[parameter], call);
  Argument fill = number ? Argument(*number) : size_argument(call.size(parameter));
  return builder.call("aten.full.default", {Arguments{}, fill},
                      {{"dtype", DType::f64}, {"device", device_of(builder.graph())}});
}

/// `result`, computed from the arguments of `call`: a number if one of them is.
Argument number_like(GraphBuilder &builder, const Call &call, const Argument &result) {
  for (const Parameter &parameter : call.schema().parameters)
    if (const TensorMeta *meta = call.optional_tensor(parameter.name); meta && meta->is_number)
      return builder.call("tsc.number.default", {result});
  return result;
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
  return number_like(
      builder, call,
      builder.call(operation.tensor, {as_real(builder, call, "a"), as_real(builder, call, "b")}));
}

/// 2 ** exponent, or base ** exponent: the exponent is a number.
Expr power(const Call &call, Expr base, Expr exponent) {
  constexpr int64_t kMost = 62;
  const std::string problem = call.node().target + ": argument 'b' is '" +
                              symbolic::print(exponent) + "', a number is needed";
  const std::string next_step = "make this value static when exporting";
  if (!exponent.is_integer())
    call.refuse("TSC-O016", problem, next_step);
  if (exponent.value() < 0 || exponent.value() > kMost)
    call.fail("TSC-O016", problem, next_step);
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

/// A real that depends on sizes is computed when the program runs; what it is as an integer, the
/// size of a tensor say, is what the exporter wrote of it.
Argument recorded_integer(const Call &call) {
  const std::optional<Value> &value = call.node().value;
  if (const Expr *recorded = value ? std::get_if<Expr>(&value->value) : nullptr)
    return size_argument(*recorded);
  call.refuse("TSC-O016", call.node().target + ": argument 'a' is a real that depends on sizes",
              "compute with integers: // rounds down, -(-a // b) rounds up");
}

/// An operator on one number.
void add_unary(Table &table) {
  table.add("operator::neg(Scalar a) -> Scalar")
      .decompose([](GraphBuilder &builder, const Call &call) -> Argument {
        if (is_tensor(call["a"], call))
          return number_like(builder, call,
                             builder.call("aten.neg.default", {as_real(builder, call, "a")}));
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
        return number_like(builder, call, as_real(builder, call, "a"));
      });
  for (std::string_view name : {"torch::_sym_sqrt", "torch::sym_sqrt"})
    table.add(keep_text(std::string(name) + "(Scalar a) -> Scalar"))
        .decompose([](GraphBuilder &builder, const Call &call) -> Argument {
          if (const std::optional<double> number = known_real(call["a"], call))
            return std::sqrt(*number);
          return number_like(builder, call,
                             builder.call("aten.sqrt.default", {as_real(builder, call, "a")}));
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
            return recorded_integer(call);
          return size_argument(call.size("a"));
        });
  }
}

// ---- conditions
//
// A condition is True or False where the ranges decide it, else an integer expression that is 1 or
// 0; about reals that are not known it is a bool tensor of rank 0.

Argument condition(GraphBuilder &builder, Expr value) { return decided(builder, value); }

/// `parameter` as a bool tensor of rank 0.
Argument as_truth(GraphBuilder &builder, const Call &call, std::string_view parameter) {
  if (is_tensor(call[parameter], call) && call.tensor(parameter).dtype == DType::boolean)
    return call[parameter];
  return builder.call("aten.ne.Scalar", {as_real(builder, call, parameter), 0});
}

/// 0 or 1: a condition, or as good as one.
bool is_truth(GraphBuilder &builder, Expr value) {
  const symbolic::Interval bounds =
      symbolic::bounds(symbolic::simplify(value, builder.ranges()), builder.ranges());
  return bounds.low >= 0 && bounds.high <= 1;
}

/// n & 6: of integers, Python's operators work on their bits.
Argument bits_of(const Call &call, std::string_view operation, Expr a, Expr b) {
  if (const std::optional<Expr> value = graph::bitwise(operation, a, b))
    return size_argument(symbolic::simplify(*value, call.ranges()));
  call.refuse("TSC-O016",
              call.node().target + ": arguments '" + symbolic::print(a) + "' and '" +
                  symbolic::print(b) + "', a number is needed",
              "make one of them static when exporting");
}

struct Comparison {
  std::string_view name;
  Expr (*integer)(Expr, Expr);
  bool (*real)(double, double);
  std::string_view tensor;
  bool of_truths = false;
};

Argument compare(GraphBuilder &builder, const Call &call, const Comparison &comparison) {
  bool any_tensor = false, any_real = false;
  for (std::string_view side : {"a", "b"}) {
    any_tensor = any_tensor || is_tensor(call[side], call);
    any_real = any_real || known_real(call[side], call);
  }
  if (!any_tensor && !any_real) {
    const Expr left = call.size("a"), right = call.size("b");
    if (comparison.of_truths && !(is_truth(builder, left) && is_truth(builder, right)))
      return bits_of(call, comparison.name.substr(0, comparison.name.size() - 1), left, right);
    return condition(builder, comparison.integer(left, right));
  }
  const std::optional<double> a = known_number(call, "a"), b = known_number(call, "b");
  if (a && b)
    return comparison.real(*a, *b);
  const auto operand = comparison.of_truths ? as_truth : as_real;
  const Argument left = operand(builder, call, "a"), right = operand(builder, call, "b");
  return number_like(builder, call, builder.call(comparison.tensor, {left, right}));
}

void add_number_comparisons(Table &table) {
  const Comparison forms[] = {
      {"gt", [](Expr a, Expr b) { return graph::less(b, a); },
       [](double a, double b) { return a > b; }, "aten.gt.Tensor"},
      {"ge", [](Expr a, Expr b) { return graph::less_or_equal(b, a); },
       [](double a, double b) { return a >= b; }, "aten.ge.Tensor"},
      {"lt", graph::less, [](double a, double b) { return a < b; }, "aten.lt.Tensor"},
      {"le", graph::less_or_equal, [](double a, double b) { return a <= b; }, "aten.le.Tensor"},
      {"ne", graph::unequal, [](double a, double b) { return a != b; }, "aten.ne.Tensor"},
      {"eq", [](Expr a, Expr b) { return graph::negation(graph::unequal(a, b)); },
       [](double a, double b) { return a == b; }, "aten.eq.Tensor"},
      {"and_", [](Expr a, Expr b) { return symbolic::minimum(a, b); },
       [](double a, double b) { return a != 0 && b != 0; }, "aten.logical_and.default", true},
      {"or_", [](Expr a, Expr b) { return symbolic::maximum(a, b); },
       [](double a, double b) { return a != 0 || b != 0; }, "aten.logical_or.default", true}};
  for (const Comparison &form : forms)
    table.add(keep_text("operator::" + std::string(form.name) + "(Scalar a, Scalar b) -> bool"))
        .decompose([form](GraphBuilder &builder, const Call &call) {
          return compare(builder, call, form);
        });
  table.add("operator::xor(Scalar a, Scalar b) -> Scalar")
      .decompose([](GraphBuilder &, const Call &call) {
        return bits_of(call, "xor", call.size("a"), call.size("b"));
      });
}

/// Whether two tensors have the same sizes.
Argument same_sizes(GraphBuilder &builder, const Call &call) {
  const std::vector<Expr> &mine = call.tensor("self").layout.sizes,
                          &others = call.tensor("other").layout.sizes;
  if (mine.size() != others.size())
    return false;
  Expr are(1);
  for (size_t i = 0; i < mine.size(); ++i)
    are = symbolic::minimum(are, graph::negation(graph::unequal(mine[i], others[i])));
  return condition(builder, are);
}
Argument same_storage(GraphBuilder &builder, const Call &call) {
  const Expr mine = call.tensor("self").layout.storage_size(),
             other = call.tensor("other").layout.storage_size();
  return condition(builder, graph::negation(graph::unequal(mine, other)));
}

/// Questions about dtypes and tensors as such: tracing has answered them, and keeps the call
/// without its result.
void add_answered(Table &table) {
  for (const std::string_view schema :
       {"result_type.Tensor(Tensor tensor, Tensor other) -> ()",
        "result_type.Scalar(Tensor tensor, Scalar other) -> ()",
        "result_type.Scalar_Tensor(Scalar scalar, Tensor tensor) -> ()",
        "result_type.Scalar_Scalar(Scalar scalar1, Scalar scalar2) -> ()",
        "can_cast(ScalarType from_, ScalarType to) -> ()",
        "promote_types(ScalarType type1, ScalarType type2) -> ()",
        "is_distributed(Tensor self) -> ()", "is_vulkan_available() -> ()"})
    table.add(schema)
        .shape([](const Call &) { return Value{}; })
        .decompose([](GraphBuilder &, const Call &) { return Argument{}; });
}

void add_conditions(Table &table) {
  add_number_comparisons(table);
  table.add("is_same_size(Tensor self, Tensor other) -> bool").decompose(same_sizes);
  table.add("_has_same_storage_numel(Tensor self, Tensor other) -> bool").decompose(same_storage);
  for (std::string_view name : {"operator::not_", "torch::sym_not"})
    table.add(keep_text(std::string(name) + "(Scalar a) -> bool"))
        .decompose([](GraphBuilder &builder, const Call &call) {
          if (!is_tensor(call["a"], call))
            return condition(builder, graph::negation(call.size("a")));
          return number_like(
              builder, call,
              builder.call("aten.logical_not.default", {as_truth(builder, call, "a")}));
        });
  table.add("torch::sym_ite(Scalar c, Scalar a, Scalar b) -> Scalar")
      .decompose([](GraphBuilder &builder, const Call &call) -> Argument {
        if (is_tensor(call["c"], call)) {
          const Argument choice = as_truth(builder, call, "c");
          const Argument a = as_real(builder, call, "a"), b = as_real(builder, call, "b");
          return number_like(builder, call, builder.call("aten.where.self", {choice, a, b}));
        }
        const Argument choice = condition(builder, call.size("c"));
        if (const bool *known = std::get_if<bool>(&choice.value))
          return call[*known ? "a" : "b"];
        const Expr value =
            graph::chosen(std::get<Expr>(choice.value), call.size("a"), call.size("b"));
        return size_argument(symbolic::simplify(value, builder.ranges()));
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
  add_answered(table);
  table.add("operator::getitem(Any[] value, int index) -> Any")
      .shape(getitem_value)
      .lowers("getitem");
}

} // namespace tsc::ops
