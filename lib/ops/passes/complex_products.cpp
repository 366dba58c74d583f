#include "ops/passes/complex_products.h"

#include "ops/table/shape_rules.h"

namespace tsc::ops {
namespace {

Pair parts_of(const RealMath &math, ComplexValues &values, const Argument &x) {
  return {values.part(x, 0, math.dtype()), values.part(x, 1, math.dtype())};
}

/// Of operands a and b: re = aa - bb, im = ab + ba.
template <class Product>
Pair product_of(const RealMath &math, const Pair &a, const Pair &b, const Product &product) {
  return {math.sub(product(a.re, b.re), product(a.im, b.im)),
          math.add(product(a.re, b.im), product(a.im, b.re))};
}

/// Matrices of at least so many rows are multiplied as one product of real ones, whose right factor
/// is made first: what it holds twice is less then than what four products read.
constexpr int64_t kRowsOfOne = 32;

/// Of a [.., m, k] the rows with parts beside each other, [.., m, 2 k], by b [.., k, n] with the
/// rows (re, im) and (-im, re) for each of its own, [.., 2 k, 2 n]: [.., m, n, 2].
Argument as_one_product(const RealMath &math, ComplexValues &values, const Argument &a,
                        const Argument &b, std::string_view target) {
  GraphBuilder &builder = math.builder();
  const auto beside = [&](const Argument &x, const Argument &y, int64_t dim) {
    return builder.call("aten.stack.default", {Arguments{x, y}, dim});
  };
  const auto flat = [&](const Argument &x, const std::vector<Expr> &sizes) {
    return builder.call("aten.reshape.default", {x, sizes_argument(sizes)});
  };
  const std::vector<Expr> left = builder.meta(a).layout.sizes, right = builder.meta(b).layout.sizes;
  std::vector<Expr> rows = left, columns = right, result = left;
  rows.back() = rows.back() * Expr(2);
  columns.back() = columns.back() * Expr(2);
  columns[columns.size() - 2] = rows.back();
  result.back() = right.back();
  result.emplace_back(2);
  const Argument *memory = values.memory(a);
  const Pair of_a = memory ? Pair{} : parts_of(math, values, a), of_b = parts_of(math, values, b);
  const Argument lines = flat(memory ? *memory : beside(of_a.re, of_a.im, -1), rows);
  const Argument both =
      beside(beside(of_b.re, of_b.im, -1), beside(math.negate(of_b.im), of_b.re, -1), -3);
  return flat(builder.call(target, {lines, flat(both, columns)}), result);
}

bool is_one_product(const RealMath &math, ComplexValues &values, const Argument &a,
                    const Argument &b) {
  const std::vector<Expr> &sizes = math.builder().meta(a).layout.sizes;
  return sizes[sizes.size() - 2].as_integer().value_or(0) >= kRowsOfOne && values.is_complex(a) &&
         values.is_complex(b);
}

Pair matrix_product(const RealMath &math, ComplexValues &values, const Call &call,
                    std::string_view first, std::string_view second, std::string_view target) {
  if (is_one_product(math, values, call[first], call[second])) {
    const Argument product = as_one_product(math, values, call[first], call[second], target);
    return {math.builder().call("aten.select.int", {product, -1, 0}),
            math.builder().call("aten.select.int", {product, -1, 1})};
  }
  const Pair a = parts_of(math, values, call[first]), b = parts_of(math, values, call[second]);
  return product_of(math, a, b, [&](const Argument &x, const Argument &y) {
    return math.builder().call(target, {x, y});
  });
}

bool is_number(const Argument &argument, int64_t expected) {
  if (const int64_t *integer = std::get_if<int64_t>(&argument.value))
    return *integer == expected;
  const double *real = std::get_if<double>(&argument.value);
  return real != nullptr && *real == static_cast<double>(expected);
}

/// beta * self + alpha * mat1 mat2; a beta of 0 ignores self, NaN included.
Pair matrix_sum(const RealMath &math, ComplexValues &values, const Call &call) {
  Pair sum = matrix_product(math, values, call, "mat1", "mat2", "aten.mm.default");
  if (!is_number(call["alpha"], 1))
    sum = pairs::multiply(math, sum, values.operand(math, call["alpha"]));
  if (is_number(call["beta"], 0))
    return sum;
  Pair self = values.operand(math, call["self"]);
  if (!is_number(call["beta"], 1))
    self = pairs::multiply(math, self, values.operand(math, call["beta"]));
  return pairs::add(math, self, sum);
}

Pair convolution(const RealMath &math, ComplexValues &values, const Call &call) {
  const Pair x = parts_of(math, values, call["input"]),
             weight = parts_of(math, values, call["weight"]);
  const bool has_bias = call.has("bias");
  const Pair bias = has_bias ? parts_of(math, values, call["bias"]) : Pair{};
  const auto convolved = [&](const Argument &a, const Argument &b, const Argument &added) {
    Arguments args = {a, b, added};
    for (size_t i = 3; i < call.schema().parameters.size(); ++i)
      args.push_back(call[call.schema().parameters[i].name]);
    return math.builder().call(call.node().target, args);
  };
  const Argument none = graph::None{};
  return {math.sub(convolved(x.re, weight.re, bias.re), convolved(x.im, weight.im, none)),
          math.add(convolved(x.re, weight.im, bias.im), convolved(x.im, weight.re, none))};
}

/// One dimension of a pair of tensors.
class Along {
public:
  Along(const RealMath &math, const Call &call) : math_(math) {
    const TensorMeta &self = call.tensor("self");
    dim_ = static_cast<int64_t>(normalize_dim(call, call.integer("dim"), self.layout.rank()));
    const Expr size =
        self.layout.rank() == 0 ? Expr(1) : self.layout.sizes[static_cast<size_t>(dim_)];
    if (!size.is_integer())
      call.refuse("TSC-O152",
                  call.node().target + " of complex numbers over a dimension of size " +
                      symbolic::print(size),
                  "export the graph with a fixed size of this dimension");
    size_ = size.value();
  }

  int64_t size() const { return size_; }

  Pair slice(const Pair &x, int64_t from, int64_t to) const {
    const auto cut = [&](const Argument &part) {
      return math_.builder().call("aten.slice.Tensor", {part, dim_, from, to});
    };
    return {cut(x.re), cut(x.im)};
  }
  Pair join(const Pair &a, const Pair &b) const {
    const auto joined = [&](const Argument &x, const Argument &y) {
      return math_.builder().call("aten.cat.default", {Arguments{x, y}, dim_});
    };
    return {joined(a.re, b.re), joined(a.im, b.im)};
  }
  Pair without(const Pair &x) const {
    const auto squeezed = [&](const Argument &part) {
      return math_.builder().call("aten.squeeze.dims", {part, Arguments{dim_}});
    };
    return {squeezed(x.re), squeezed(x.im)};
  }

private:
  const RealMath &math_;
  int64_t dim_ = 0, size_ = 0;
};

/// The first half times the second, until one element is left.
Pair product_along(const RealMath &math, ComplexValues &values, const Call &call) {
  const Along along(math, call);
  Pair x = parts_of(math, values, call["self"]);
  const bool has_dimensions = call.tensor("self").layout.rank() > 0;
  if (along.size() == 0)
    return {1.0, 0.0};
  for (int64_t size = along.size(); size > 1;) {
    const int64_t half = size / 2;
    Pair product = pairs::multiply(math, along.slice(x, 0, half), along.slice(x, half, 2 * half));
    if (size % 2 != 0)
      product = along.join(product, along.slice(x, size - 1, size));
    x = product;
    size = half + size % 2;
  }
  return has_dimensions && !call.boolean("keepdim") ? along.without(x) : x;
}

/// Element i holds the product of the last 1, 2, 4, ... elements up to it.
Pair running_product(const RealMath &math, ComplexValues &values, const Call &call) {
  const Along along(math, call);
  Pair x = parts_of(math, values, call["self"]);
  if (call.tensor("self").layout.rank() == 0)
    return x;
  for (int64_t step = 1; step < along.size(); step *= 2)
    x = along.join(along.slice(x, 0, step),
                   pairs::multiply(math, along.slice(x, step, along.size()),
                                   along.slice(x, 0, along.size() - step)));
  return x;
}

} // namespace

std::optional<Argument> complex_product_memory(const RealMath &math, ComplexValues &values,
                                               const Call &call) {
  const std::string &target = call.node().target;
  if ((target != "aten.mm.default" && target != "aten.bmm.default") ||
      !is_one_product(math, values, call["self"], call["mat2"]))
    return std::nullopt;
  return as_one_product(math, values, call["self"], call["mat2"], target);
}

std::optional<Pair> complex_product(const RealMath &math, ComplexValues &values, const Call &call) {
  const std::string &target = call.node().target;
  if (target == "aten.mm.default" || target == "aten.bmm.default")
    return matrix_product(math, values, call, "self", "mat2", target);
  if (target == "aten.addmm.default")
    return matrix_sum(math, values, call);
  if (target == "aten.convolution.default")
    return convolution(math, values, call);
  if (target == "aten.prod.dim_int")
    return product_along(math, values, call);
  if (target == "aten.cumprod.default")
    return running_product(math, values, call);
  return std::nullopt;
}

} // namespace tsc::ops
