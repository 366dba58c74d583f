// Functions of matrices that factorizations and products give: pseudo-inverses, ranks, conditions,
// least squares, norms by singular values, powers, exponentials.
#include "ops/families/assertions.h"
#include "ops/families/linear_algebra.h"
#include "ops/table/complex_calls.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <algorithm>
#include <cmath>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

Argument part(const Argument &result, size_t index) { return (*result.list())[index]; }
Argument appended(GraphBuilder &builder, const Argument &x) {
  return builder.call("aten.unsqueeze.default", {x, -1});
}
bool is_empty(const TensorMeta &meta) { return symbolic::numel(meta.layout.sizes).is_integer(0); }
Argument zeros(GraphBuilder &builder, const Sizes &sizes, DType dtype) {
  return builder.call("aten.full.default", {sizes_argument(sizes), 0}, {{"dtype", dtype}});
}

// ---- tolerances

/// Absolute and relative: numbers, or tensors that broadcast to the batch.
struct Tolerance {
  Argument absolute = 0.0, relative = 0.0;
};
double precision_of(const TensorMeta &matrix) {
  return part_dtype(matrix.dtype) == DType::f64 ? 0x1p-52 : 0x1p-23;
}
/// eps * max(rows, columns): a number, or where sizes are symbols a tensor of rank 0.
Argument usual_relative(GraphBuilder &builder, const TensorMeta &matrix) {
  const Expr longest = symbolic::maximum(rows_of(matrix), columns_of(matrix));
  if (longest.is_integer())
    return precision_of(matrix) * static_cast<double>(longest.value());
  const Argument length = builder.call("aten.full.default", {Arguments{}, size_argument(longest)},
                                       {{"dtype", part_dtype(matrix.dtype)}});
  return builder.call(kMul, {length, precision_of(matrix)});
}
/// As `atol` and `rtol` say it: without rtol the usual one, unless atol is above 0.
Tolerance given_tolerance(GraphBuilder &builder, const Call &call, const TensorMeta &matrix) {
  Tolerance tolerance;
  if (call.has("atol"))
    tolerance.absolute = call["atol"];
  if (call.has("rtol")) {
    tolerance.relative = call["rtol"];
    return tolerance;
  }
  tolerance.relative = usual_relative(builder, matrix);
  if (!call.has("atol"))
    return tolerance;
  if (call["atol"].node() == nullptr) {
    if (call.number("atol") > 0)
      tolerance.relative = 0.0;
    return tolerance;
  }
  const Argument positive = builder.call("aten.gt.Scalar", {call["atol"], 0});
  tolerance.relative = builder.call(kWhere, {positive, 0.0, tolerance.relative});
  return tolerance;
}

/// max(absolute, relative * largest) for values [batch.., n].
Argument threshold(GraphBuilder &builder, const Argument &values, const Tolerance &tolerance) {
  const auto along = [&](const Argument &bound) {
    return bound.node() != nullptr && builder.meta(bound).layout.rank() > 0
               ? appended(builder, bound)
               : bound;
  };
  const Argument largest = builder.call("aten.amax.default", {values, Arguments{-1}, true});
  const Argument relative = builder.call(kMul, {largest, along(tolerance.relative)});
  const Argument absolute = along(tolerance.absolute);
  if (const double *number = std::get_if<double>(&absolute.value); number && *number == 0)
    return builder.call("aten.clamp_min.default", {relative, 0.0});
  if (absolute.node() == nullptr)
    return builder.call("aten.clamp_min.default", {relative, absolute});
  return builder.call("aten.maximum.default", {relative, absolute});
}

/// 1 / values where `sizes`, their absolute values, are above the threshold, else 0.
Argument inverted_above(GraphBuilder &builder, const Argument &values, const Argument &sizes,
                        const Tolerance &tolerance) {
  const Argument large =
      builder.call("aten.gt.Tensor", {sizes, threshold(builder, sizes, tolerance)});
  return builder.call(kWhere, {large, builder.call("aten.reciprocal.default", {values}), 0.0});
}

/// The matrix with `factors` [.., n] on its rows.
Argument scaled_rows(GraphBuilder &builder, const Argument &matrix, const Argument &factors) {
  return builder.call(kMul, {appended(builder, factors), matrix});
}

Argument pseudo_inverse(GraphBuilder &builder, const Call &call, const Tolerance &tolerance,
                        bool hermitian) {
  const std::string name = call.schema().parameters[0].name;
  const TensorMeta self = hermitian ? square_matrices(call, name) : matrices(call, name);
  if (is_empty(self))
    return zeros(builder, batched_sizes(batch_of(self), {columns_of(self), rows_of(self)}),
                 self.dtype);
  if (hermitian) {
    const Argument eigen = builder.call("aten.linalg_eigh.default", {call[name], "L"});
    const Argument values = part(eigen, 0);
    const Argument sizes = builder.call("aten.abs.default", {values});
    const Argument inverted = inverted_above(builder, values, sizes, tolerance);
    const Argument rows = adjoint(builder, part(eigen, 1));
    return product(builder, part(eigen, 1), scaled_rows(builder, rows, inverted));
  }
  const Argument svd = builder.call("aten.linalg_svd.default", {call[name], false});
  const Argument inverted = inverted_above(builder, part(svd, 1), part(svd, 1), tolerance);
  const Argument rows = adjoint(builder, part(svd, 0));
  const Argument scaled = scaled_rows(builder, rows, inverted);
  return product(builder, adjoint(builder, part(svd, 2)), scaled);
}

void add_pseudo_inverses(Table &table) {
  for (const char *schema :
       {"linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool "
        "hermitian=False) -> Tensor",
        "linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool "
        "hermitian=False) -> Tensor"})
    table.add(schema).decompose([](GraphBuilder &builder, const Call &call) {
      const TensorMeta self = matrices(call, "self");
      return pseudo_inverse(builder, call, given_tolerance(builder, call, self),
                            call.boolean("hermitian"));
    });
  for (const char *schema :
       {"linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor",
        "linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False) -> Tensor"})
    table.add(schema).decompose([](GraphBuilder &builder, const Call &call) {
      return pseudo_inverse(builder, call, {0.0, call["rcond"]}, call.boolean("hermitian"));
    });
  table.add("pinverse(Tensor self, float rcond=1e-15) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return pseudo_inverse(builder, call, {0.0, call["rcond"]}, false);
      });
}

// ---- ranks and conditions

Argument singular_values(GraphBuilder &builder, const Argument &x) {
  return builder.call("aten.linalg_svdvals.default", {x});
}

Argument rank_of(GraphBuilder &builder, const Call &call, const Tolerance &tolerance) {
  const std::string name = call.schema().parameters[0].name;
  const bool hermitian = call.boolean("hermitian");
  const TensorMeta self = hermitian ? square_matrices(call, name) : matrices(call, name);
  if (is_empty(self))
    return zeros(builder, batch_of(self), DType::i64);
  Argument values = hermitian ? builder.call("aten.linalg_eigvalsh.default", {call[name], "L"})
                              : singular_values(builder, call[name]);
  if (hermitian)
    values = builder.call("aten.abs.default", {values});
  const Argument large =
      builder.call("aten.gt.Tensor", {values, threshold(builder, values, tolerance)});
  return builder.call("aten.sum.dim_IntList", {large, Arguments{-1}, false});
}

void add_ranks(Table &table) {
  for (const char *schema :
       {"linalg_matrix_rank(Tensor self, float tol, bool hermitian=False) -> Tensor",
        "linalg_matrix_rank.tol_tensor(Tensor input, Tensor tol, bool hermitian=False) -> Tensor"})
    table.add(schema).decompose([](GraphBuilder &builder, const Call &call) {
      return rank_of(builder, call, {call["tol"], 0.0});
    });
  for (const char *schema :
       {"linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? "
        "rtol=None, bool hermitian=False) -> Tensor",
        "linalg_matrix_rank.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, "
        "bool hermitian=False) -> Tensor"})
    table.add(schema).decompose([](GraphBuilder &builder, const Call &call) {
      const TensorMeta self = matrices(call, call.schema().parameters[0].name);
      return rank_of(builder, call, given_tolerance(builder, call, self));
    });
}

Argument condition_number(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = matrices(call, "self");
  const Argument order = call.has("p") ? call["p"] : Argument(2);
  const std::string *name = std::get_if<std::string>(&order.value);
  const double number = name == nullptr ? call.has("p") ? call.number("p") : 2 : 0;
  if (is_empty(self))
    return zeros(builder, batch_of(self), self.dtype);
  if (name == nullptr && std::abs(number) == 2) {
    const Argument values = singular_values(builder, call["self"]);
    const Argument largest = builder.call("aten.select.int", {values, -1, 0});
    const Argument smallest = builder.call("aten.select.int", {values, -1, -1});
    return number > 0 ? builder.call(kDiv, {largest, smallest})
                      : builder.call(kDiv, {smallest, largest});
  }
  square_matrices(call, "self");
  if (name != nullptr && *name == "nuc") { // the inverse's singular values are these, inverted
    const Argument values = singular_values(builder, call["self"]);
    const auto sum = [&](const Argument &x) {
      return builder.call("aten.sum.dim_IntList", {x, Arguments{-1}, false});
    };
    const Argument inverted = builder.call("aten.reciprocal.default", {values});
    const Argument own = sum(values);
    return builder.call(kMul, {own, sum(inverted)});
  }
  const Argument inverse = builder.call("aten.linalg_inv_ex.default", {call["self"]});
  const Argument singular = builder.call("aten.gt.Scalar", {part(inverse, 1), 0});
  const std::string_view norm =
      name ? "aten.linalg_matrix_norm.str_ord" : "aten.linalg_matrix_norm.default";
  const Argument own = builder.call(norm, {call["self"], order});
  const Argument condition =
      builder.call(kMul, {own, builder.call(norm, {part(inverse, 0), order})});
  return builder.call("aten.masked_fill.Scalar", {condition, singular, HUGE_VAL});
}

// ---- least squares

/// (solution, residuals, rank, singular values): by singular values, which give the solution of the
/// least norm whatever the rank.
Argument least_squares(GraphBuilder &builder, const Call &call) {
  const TensorMeta a = matrices(call, "self"), b = call.tensor("b");
  const bool is_vector = is_vector_side(a, b);
  if (!is_vector)
    matrices(call, "b");
  const std::string driver = call.string("driver").value_or("gelsy");
  if (driver != "gels" && driver != "gelsy" && driver != "gelsd" && driver != "gelss")
    call.fail("TSC-O143", call.node().target + " by the driver '" + driver + "'",
              "use 'gels', 'gelsy', 'gelsd' or 'gelss'");
  const Argument side = is_vector ? appended(builder, call["b"]) : call["b"];
  const TensorMeta right = builder.meta(side);
  if (b.dtype != a.dtype || !taken_equal(call, rows_of(a), rows_of(right)))
    call.fail("TSC-O129",
              call.node().target + ": 'self' of sizes " + print_sizes(a.layout.sizes) +
                  " does not fit 'b' of sizes " + print_sizes(b.layout.sizes),
              "give tensors of one dtype and of sizes that fit");
  const Expr m = rows_of(a), n = columns_of(a), k = columns_of(right);
  const bool has_rank = driver != "gels", has_values = driver == "gelsd" || driver == "gelss";
  const Sizes batch = broadcast(call, {batch_of(a), batch_of(right)});
  const Argument nothing = no_elements(builder, part_dtype(a.dtype));
  const Argument svd = builder.call("aten.linalg_svd.default", {call["self"], false});
  const Argument values = part(svd, 1);
  Argument solution, rank = no_elements(builder, DType::i64);
  if (is_empty(a)) {
    solution = zeros(builder, batched_sizes(batch, {n, k}), a.dtype);
    if (has_rank)
      rank = zeros(builder, batch_of(a), DType::i64);
  } else {
    Tolerance tolerance;
    if (has_rank)
      tolerance.relative = call.has("rcond") && call.number("rcond") >= 0
                               ? call["rcond"]
                               : usual_relative(builder, a);
    const Argument inverted = inverted_above(builder, values, values, tolerance);
    const Argument projected = product(builder, adjoint(builder, part(svd, 0)), side);
    const Argument scaled = scaled_rows(builder, projected, inverted);
    solution = product(builder, adjoint(builder, part(svd, 2)), scaled);
    if (has_rank) {
      const Argument large =
          builder.call("aten.gt.Tensor", {values, threshold(builder, values, tolerance)});
      rank = builder.call("aten.sum.dim_IntList", {large, Arguments{-1}, false});
    }
  }
  Argument residuals = nothing;
  if (symbolic::known_less(n, m, builder.ranges())) {
    // PyTorch has them where every rank is full.
    if (has_rank && !is_empty(a)) {
      const Argument full = builder.call("aten.eq.Scalar", {rank, size_argument(n)});
      assert_condition(builder, builder.call("aten.all.default", {full}),
                       "linalg.lstsq: a matrix has not full rank; its residuals then have no "
                       "elements, which is known only when it runs");
    }
    const Argument found = product(builder, call["self"], solution);
    const Argument difference = builder.call(kSub, {side, found});
    const Argument size = builder.call("aten.abs.default", {difference});
    const Argument squares = builder.call(kMul, {size, size});
    residuals = builder.call("aten.sum.dim_IntList", {squares, Arguments{-2}, false});
    if (is_vector)
      residuals = builder.call("aten.squeeze.dims", {residuals, Arguments{-1}});
  }
  if (is_vector)
    solution = builder.call("aten.squeeze.dims", {solution, Arguments{-1}});
  return Arguments{solution, residuals, rank, has_values ? values : nothing};
}

// ---- powers

Argument matrix_power(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  if (self.layout.rank() < 2 || !taken_equal(call, rows_of(self), columns_of(self)))
    call.fail("TSC-O129",
              call.node().target + ": 'self' of sizes " + print_sizes(self.layout.sizes) +
                  " is no square matrix",
              "give square matrices");
  int64_t power = call.integer("n");
  if (power == 0) {
    const Argument unit = unit_matrices(builder, batch_of(self), rows_of(self), self.dtype);
    return builder.call("aten.clone.default", {unit});
  }
  Argument base = call["self"];
  if (power == 1)
    return builder.call("aten.clone.default", {base});
  if (power < 0) {
    matrices(call, "self");
    base = builder.call("aten.linalg_inv.default", {base});
    power = -power;
  }
  if (power == 3)
    return product(builder, product(builder, base, base), base);
  Argument result;
  bool has_result = false;
  for (Argument square = base;;) {
    if (power % 2 == 1) {
      result = has_result ? product(builder, result, square) : square;
      has_result = true;
    }
    power /= 2;
    if (power == 0)
      return result;
    square = product(builder, square, square);
  }
}

/// 1 + x / 1! + ... + x^16 / 16! by powers up to x^4: of a 1-norm up to 1 what is left out is below
/// 2^-48 of it. Larger matrices are divided by powers of two, and the result is squared as often:
/// each time its errors double, so that all of it is computed in float64.
Argument matrix_exp(GraphBuilder &builder, const Call &call) {
  constexpr int64_t kSquarings = 16;
  const TensorMeta self = call.tensor("self");
  if (!tensor::is_floating(self.dtype) && !tensor::is_complex(self.dtype))
    call.fail("TSC-O127", call.node().target + " of " + std::string(tensor::torch_name(self.dtype)),
              "convert it to torch.float32 or torch.float64 first");
  if (self.layout.rank() < 2 || !taken_equal(call, rows_of(self), columns_of(self)))
    call.fail("TSC-O129",
              call.node().target + ": 'self' of sizes " + print_sizes(self.layout.sizes) +
                  " is no square matrix",
              "give square matrices");
  if (is_empty(self))
    return builder.call("aten.clone.default", {call["self"]});
  if (rows_of(self).is_integer(1))
    return builder.call("aten.exp.default", {call["self"]});
  const DType dtype = tensor::is_complex(self.dtype) ? DType::c128 : DType::f64;
  Argument x = convert(builder, call["self"], dtype);
  const Argument sizes = builder.call("aten.abs.default", {x});
  const Argument sums = builder.call("aten.sum.dim_IntList", {sizes, Arguments{-2}, true});
  const Argument norm = builder.call("aten.amax.default", {sums, Arguments{-1}, true});
  const Argument logarithm = builder.call("aten.log2.default", {norm});
  const Argument halvings =
      builder.call("aten.clamp_min.default", {builder.call("aten.ceil.default", {logarithm}), 0.0});
  const Argument beyond =
      builder.call("aten.gt.Scalar", {halvings, static_cast<double>(kSquarings)});
  const Argument finite = builder.call("aten.isfinite.default", {norm});
  const Argument refused = builder.call("aten.logical_and.default", {beyond, finite});
  const Argument any = builder.call("aten.any.default", {refused});
  assert_condition(builder, builder.call("aten.logical_not.default", {any}),
                   "matrix_exp: the 1-norm of a matrix is above 2**16");
  const Argument factor =
      builder.call("aten.exp2.default", {builder.call("aten.neg.default", {halvings})});
  x = builder.call(kMul, {x, factor});
  const Argument unit = unit_matrices(builder, batch_of(self), rows_of(self), dtype);
  const Argument x2 = product(builder, x, x), x3 = product(builder, x2, x),
                 x4 = product(builder, x2, x2);
  const auto coefficient = [](int k) { return 1.0 / std::tgamma(k + 1.0); };
  /// Terms first .. first + 3, divided by x^first.
  const auto four = [&](int first) {
    Argument sum = builder.call(kMul, {unit, coefficient(first)});
    const Argument *powers[] = {&x, &x2, &x3};
    for (int k = 1; k < 4; ++k) {
      const Argument term = builder.call(kMul, {*powers[k - 1], coefficient(first + k)});
      sum = builder.call(kAdd, {sum, term});
    }
    return sum;
  };
  const Argument last = builder.call(kMul, {x4, coefficient(16)});
  Argument result = builder.call(kAdd, {four(12), last});
  for (const int first : {8, 4, 0})
    result = builder.call(kAdd, {four(first), product(builder, result, x4)});
  for (int64_t i = 0; i < kSquarings; ++i) {
    const Argument more = builder.call("aten.gt.Scalar", {halvings, static_cast<double>(i)});
    result = builder.call(kWhere, {more, product(builder, result, result), result});
  }
  return convert(builder, result, self.dtype);
}

// ---- tensors as matrices

Argument reshaped(GraphBuilder &builder, const Argument &x, const Sizes &sizes) {
  return builder.call("aten.reshape.default", {x, sizes_argument(sizes)});
}

Argument tensor_inverse(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const int64_t split = call.integer("ind");
  const auto rank = static_cast<int64_t>(self.layout.rank());
  const Sizes &sizes = self.layout.sizes;
  if (split <= 0 || split > rank)
    call.fail("TSC-O129",
              call.node().target + ": ind is " + std::to_string(split) + " of " +
                  std::to_string(rank) + " dimensions",
              "give a number of dimensions from 1 up");
  Sizes outer(sizes.begin(), sizes.begin() + split), inner(sizes.begin() + split, sizes.end());
  if (!taken_equal(call, symbolic::numel(outer), symbolic::numel(inner)))
    call.fail("TSC-O129",
              call.node().target + ": 'self' of sizes " + print_sizes(sizes) + " is not square",
              "give a tensor whose first and last dimensions have as many elements");
  const Argument matrix =
      reshaped(builder, call["self"], {symbolic::numel(outer), symbolic::numel(inner)});
  const Argument inverse = builder.call("aten.linalg_inv.default", {matrix});
  inner.insert(inner.end(), outer.begin(), outer.end());
  return reshaped(builder, inverse, inner);
}

Argument tensor_solve(GraphBuilder &builder, const Call &call) {
  const size_t rank = call.tensor("self").layout.rank();
  Argument self = call["self"];
  if (call.has("dims")) {
    std::vector<size_t> order, last;
    for (const int64_t dim : call.integers("dims"))
      last.push_back(normalize_dim(call, dim, rank));
    for (size_t i = 0; i < rank; ++i)
      if (std::find(last.begin(), last.end(), i) == last.end())
        order.push_back(i);
    order.insert(order.end(), last.begin(), last.end());
    self = builder.call("aten.permute.default", {self, ints_argument(order)});
  }
  const Sizes sizes = builder.meta(self).layout.sizes;
  const TensorMeta other = call.tensor("other");
  const size_t rows = std::min(other.layout.rank(), sizes.size());
  const Sizes result(sizes.begin() + static_cast<std::ptrdiff_t>(rows), sizes.end());
  const Expr count = symbolic::numel(other.layout.sizes);
  const Argument matrix = reshaped(builder, self, {count, symbolic::numel(result)});
  const Argument side = reshaped(builder, call["other"], {count});
  const Argument x = builder.call("aten.linalg_solve.default", {matrix, side});
  return reshaped(builder, x, result);
}

/// Powers 0 to n - 1 of the last dimension's elements, one a row.
Argument vandermonde(GraphBuilder &builder, const Argument &x, const Expr &n) {
  const TensorMeta meta = builder.meta(x);
  Sizes sizes = meta.layout.sizes;
  if (n.is_integer(0)) {
    sizes.push_back(n);
    return zeros(builder, sizes, meta.dtype);
  }
  sizes.push_back(n - Expr(1));
  const Argument repeated = expanded(builder, appended(builder, x), sizes);
  const Argument powers = builder.call("aten.cumprod.default", {repeated, -1});
  sizes.back() = Expr(1);
  const Argument ones =
      builder.call("aten.full.default", {sizes_argument(sizes), 1}, {{"dtype", meta.dtype}});
  return builder.call("aten.cat.default", {Arguments{ones, powers}, -1});
}

void add_tensors(Table &table) {
  table.add("linalg_tensorinv(Tensor self, int ind=2) -> Tensor").decompose(tensor_inverse);
  table.add("linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor")
      .decompose(tensor_solve);
  table.add("linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        const Expr n = call.has("N") ? call.size("N") : last_size(call, "x");
        if (n.is_integer() && n.value() <= 1)
          call.fail("TSC-O129", call.node().target + ": N is " + std::to_string(n.value()),
                    "give at least 2 columns");
        const bool is_number = call.tensor("x").layout.rank() == 0;
        return vandermonde(
            builder, is_number ? builder.call("aten.unsqueeze.default", {call["x"], 0}) : call["x"],
            n);
      });
  table.add("vander(Tensor x, int? N=None, bool increasing=False) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        const Expr n = call.has("N") ? call.size("N") : last_size(call, "x");
        const Argument powers = vandermonde(builder, call["x"], n);
        return call.boolean("increasing")
                   ? powers
                   : builder.call("aten.flip.default", {powers, Arguments{-1}});
      });
}

} // namespace

void add_matrix_functions(Table &table) {
  add_pseudo_inverses(table);
  add_ranks(table);
  table.add("linalg_cond(Tensor self, Scalar? p=None) -> Tensor").decompose(condition_number);
  table.add("linalg_cond.p_str(Tensor self, str p) -> Tensor").decompose(condition_number);
  table
      .add("linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> (Tensor "
           "solution, Tensor residuals, Tensor rank, Tensor singular_values)")
      .decompose(least_squares);
  for (const char *schema : {"linalg_matrix_power(Tensor self, int n) -> Tensor",
                             "matrix_power(Tensor self, int n) -> Tensor"})
    table.add(schema).decompose(matrix_power);
  for (const char *schema :
       {"linalg_matrix_exp(Tensor self) -> Tensor", "matrix_exp(Tensor self) -> Tensor"})
    table.add(schema).decompose(matrix_exp);
  add_tensors(table);
}

} // namespace tsc::ops
