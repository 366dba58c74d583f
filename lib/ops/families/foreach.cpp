// Operators over lists of tensors (aten._foreach_*), one element after the other. Each element's
// result is marked as one of the list: the scheduler may launch them together.
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <algorithm>

namespace tsc::ops {
namespace {

/// Element `i` of a list argument: of numbers or tensors.
Argument element(const Call &call, std::string_view parameter, size_t i) {
  return call[parameter].list()->at(i);
}

size_t length_of(const Call &call) {
  const Arguments *self = call[call["self"].list() ? "self" : "exponent"].list();
  if (self->empty())
    call.fail("TSC-O076", call.node().target + " of an empty list", "pass one or more tensors");
  return self->size();
}

/// All lists are as long as the first.
void check_lengths(const Call &call) {
  const size_t count = length_of(call);
  for (const Parameter &parameter : call.schema().parameters) {
    const Arguments *list = call[parameter.name].list();
    if (list && list->size() != count)
      call.fail("TSC-O077",
                call.node().target + ": " + parameter.name + " has " +
                    std::to_string(list->size()) + " elements, the list has " +
                    std::to_string(count),
                "pass lists of one length");
  }
}

using ElementResult = std::function<Argument(GraphBuilder &, const Call &, size_t)>;

Decomposition by_element(ElementResult result) {
  return [result = std::move(result)](GraphBuilder &builder, const Call &call) -> Argument {
    check_lengths(call);
    Arguments results;
    for (size_t i = 0; i < length_of(call); ++i) {
      results.push_back(result(builder, call, i));
      builder.mark_element(results.back());
    }
    return results;
  };
}

/// `target` of each element, its arguments the call's in order: of lists their element, of others
/// what they are.
Decomposition each(std::string_view target, size_t positional) {
  return by_element([target, positional](GraphBuilder &builder, const Call &call, size_t i) {
    Arguments args;
    Keywords kwargs;
    for (const Parameter &parameter : call.schema().parameters) {
      const Argument &given = call[parameter.name];
      Argument own = given.list() ? given.list()->at(i) : given;
      if (args.size() < positional)
        args.push_back(std::move(own));
      else
        kwargs.emplace_back(parameter.name == "scalars" ? "value" : parameter.name, std::move(own));
    }
    return builder.call(target, std::move(args), std::move(kwargs));
  });
}

/// "_foreach_add.List(Tensor[] self, ..) -> Tensor[]" and its in-place form.
void add_list(Table &table, const std::string &schema, Decomposition decomposition) {
  table.add(keep_text(schema)).decompose(std::move(decomposition));
  std::string in_place = schema;
  in_place.insert(in_place.find_first_of(".("), "_");
  in_place.insert(in_place.find("Tensor[] self") + 6, "(a!)");
  in_place.replace(in_place.rfind("Tensor[]"), 8, "()");
  std::string functional = "aten." + schema.substr(0, schema.find('('));
  if (functional.find('.', 5) == std::string::npos)
    functional += ".default";
  table.add_mutating(keep_text(in_place), keep_text(functional));
}

void add_unary(Table &table) {
  for (std::string_view name :
       {"abs",   "acos", "asin",  "atan",       "ceil",  "cos",    "cosh",    "erf",
        "erfc",  "exp",  "expm1", "floor",      "frac",  "lgamma", "log",     "log10",
        "log1p", "log2", "neg",   "reciprocal", "round", "rsqrt",  "sigmoid", "sign",
        "sin",   "sinh", "sqrt",  "tan",        "tanh",  "trunc"})
    add_list(table, "_foreach_" + std::string(name) + "(Tensor[] self) -> Tensor[]",
             each(keep_text("aten." + std::string(name) + ".default"), 1));
  add_list(table, "_foreach_zero(Tensor[] self) -> Tensor[]", each("aten.zeros_like.default", 1));
  table.add("_foreach_max(Tensor[] self) -> Tensor[]").decompose(each("aten.max.default", 1));
}

void add_binary(Table &table) {
  const std::string list = "(Tensor[] self, Tensor[] other", scalars = "(Tensor[] self, Scalar[] ";
  for (std::string_view plain : {"add", "sub", "mul", "div"}) {
    const std::string name = "_foreach_" + std::string(plain);
    const std::string_view target = keep_text("aten." + std::string(plain) + ".Tensor");
    const bool scaled = plain == "add" || plain == "sub";
    const std::string alpha = scaled ? ", *, Scalar alpha=1) -> Tensor[]" : ") -> Tensor[]";
    add_list(table, name + ".Scalar(Tensor[] self, Scalar scalar) -> Tensor[]", each(target, 2));
    add_list(table, name + ".List" + list + alpha, each(target, 2));
    add_list(table, name + ".ScalarList" + scalars + "scalars) -> Tensor[]", each(target, 2));
    if (plain != "sub")
      add_list(table,
               name + ".Tensor(Tensor[] self, Tensor other" +
                   (plain == "add" ? alpha : ") -> Tensor[]"),
               each(target, 2));
  }
  struct Bound {
    std::string_view name, scalar, tensor;
  };
  for (const Bound &bound :
       {Bound{"maximum", "aten.clamp_min.default", "aten.maximum.default"},
        Bound{"minimum", "aten.clamp_max.default", "aten.minimum.default"},
        Bound{"clamp_min", "aten.clamp_min.default", "aten.maximum.default"},
        Bound{"clamp_max", "aten.clamp_max.default", "aten.minimum.default"}}) {
    const std::string name = "_foreach_" + std::string(bound.name);
    add_list(table, name + ".Scalar(Tensor[] self, Scalar scalar) -> Tensor[]",
             each(bound.scalar, 2));
    add_list(table, name + ".List" + list + ") -> Tensor[]", each(bound.tensor, 2));
    add_list(table, name + ".ScalarList" + scalars + "scalars) -> Tensor[]", each(bound.scalar, 2));
  }
  const std::string power = "_foreach_pow";
  add_list(table, power + ".List(Tensor[] self, Tensor[] exponent) -> Tensor[]",
           each("aten.pow.Tensor_Tensor", 2));
  add_list(table, power + ".Scalar(Tensor[] self, Scalar exponent) -> Tensor[]",
           each("aten.pow.Tensor_Scalar", 2));
  add_list(table, power + ".ScalarList" + scalars + "exponent) -> Tensor[]",
           each("aten.pow.Tensor_Scalar", 2));
  table.add("_foreach_pow.ScalarAndTensor(Scalar self, Tensor[] exponent) -> Tensor[]")
      .decompose(each("aten.pow.Scalar", 2));
}

/// self + scalars[i] * tensor1 (op) tensor2, the scalars being the elements of one tensor.
Decomposition add_scaled_by_tensor(std::string_view combine) {
  return by_element([combine](GraphBuilder &builder, const Call &call, size_t i) {
    const std::vector<Expr> sizes = call.tensor("scalars").layout.sizes;
    if (sizes.size() != 1 ||
        !may_equal(sizes[0], Expr(static_cast<int64_t>(length_of(call))), call.ranges()))
      call.fail("TSC-O077",
                call.node().target + ": scalars has sizes " + print_sizes(sizes) +
                    ", the list has " + std::to_string(length_of(call)),
                "pass a vector of as many elements");
    Argument scale = builder.call("aten.select.int", {call["scalars"], 0, static_cast<int64_t>(i)});
    const bool product = combine == kMul;
    Argument term = element(call, "tensor1", i);
    if (product)
      term = builder.call(kMul, {term, element(call, "tensor2", i)});
    term = builder.call(kMul, {term, scale});
    if (!product)
      term = builder.call(kDiv, {term, element(call, "tensor2", i)});
    return builder.call(kAdd, {element(call, "self", i), term});
  });
}

void add_ternary(Table &table) {
  const std::string three = "(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, ";
  for (std::string_view plain : {"addcmul", "addcdiv"}) {
    const std::string name = "_foreach_" + std::string(plain);
    const std::string_view target = keep_text("aten." + std::string(plain) + ".default");
    add_list(table, name + ".Scalar" + three + "Scalar value=1) -> Tensor[]", each(target, 3));
    add_list(table, name + ".ScalarList" + three + "Scalar[] scalars) -> Tensor[]",
             each(target, 3));
    add_list(table, name + ".Tensor" + three + "Tensor scalars) -> Tensor[]",
             add_scaled_by_tensor(plain == "addcmul" ? kMul : kDiv));
  }
  const std::string two = "(Tensor[] self, Tensor[] tensors1, ";
  add_list(table, "_foreach_lerp.List" + two + "Tensor[] weights) -> Tensor[]",
           each("aten.lerp.Tensor", 3));
  add_list(table, "_foreach_lerp.Scalar" + two + "Scalar weight) -> Tensor[]",
           each("aten.lerp.Scalar", 3));
  add_list(table, "_foreach_lerp.ScalarList" + two + "Scalar[] weight) -> Tensor[]",
           each("aten.lerp.Scalar", 3));
}

} // namespace

void add_foreach(Table &table) {
  add_unary(table);
  add_binary(table);
  add_ternary(table);
  add_list(table, "_foreach_copy(Tensor[] self, Tensor[] src, bool non_blocking=False) -> Tensor[]",
           each("aten.copy.default", 3));
  table.add("_foreach_norm.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]")
      .decompose(each("aten.linalg_vector_norm.default", 2));
}

} // namespace tsc::ops
