// Systems of linear equations: solutions, inverses, determinants, least squares.
#include "ops/families/assertions.h"
#include "ops/families/linear_algebra.h"
#include "ops/table/complex_calls.h"
#include "ops/table/memory_format.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <cmath>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

Argument part(const Argument &result, size_t index) { return (*result.list())[index]; }

/// Both are of one dtype, and matrices of sizes that go together.
void require_fit(const Call &call, std::string_view matrix, std::string_view side, Expr a, Expr b) {
  const TensorMeta &first = call.tensor(matrix), &second = call.tensor(side);
  if (first.dtype != second.dtype)
    call.fail("TSC-O041",
              call.node().target + " of " + std::string(tensor::torch_name(first.dtype)) + " and " +
                  std::string(tensor::torch_name(second.dtype)),
              "convert both to one dtype");
  if (!taken_equal(call, a, b))
    call.fail("TSC-O129",
              call.node().target + ": '" + std::string(matrix) + "' of sizes " +
                  print_sizes(first.layout.sizes) + " does not fit '" + std::string(side) +
                  "' of sizes " + print_sizes(second.layout.sizes),
              "give tensors of sizes that fit");
}

Sizes common_batch(GraphBuilder &builder, const Call &call, const Argument &a, const Argument &b) {
  return broadcast(call, {batch_of(builder.meta(a)), batch_of(builder.meta(b))});
}
/// Matrices `x`, repeated to `batch`.
Argument in_batch(GraphBuilder &builder, const Argument &x, const Sizes &batch) {
  const TensorMeta meta = builder.meta(x);
  return expanded(builder, x, batched_sizes(batch, {rows_of(meta), columns_of(meta)}));
}

// ---- triangles

struct Triangle {
  bool upper = false, transposed = false, unit = false;
};
/// The solution x of op(a) x = b, batches broadcast.
Argument solve_triangle(GraphBuilder &builder, const Call &call, const Argument &a,
                        const Argument &b, const Triangle &triangle) {
  const Sizes batch = common_batch(builder, call, a, b);
  const Argument left = in_batch(builder, a, batch);
  const Argument right = in_batch(builder, b, batch);
  return LibraryResult(builder, "tsc.triangular_solve.default",
                       {left, right, triangle.upper, triangle.transposed, triangle.unit})
      .matrix();
}

Argument linalg_solve_triangular(GraphBuilder &builder, const Call &call) {
  const TensorMeta &a = square_matrices(call, "self"), &b = matrices(call, "B");
  const bool left = call.boolean("left");
  require_fit(call, "self", "B", rows_of(a), left ? rows_of(b) : columns_of(b));
  const Triangle triangle{call.boolean("upper"), !left, call.boolean("unitriangular")};
  if (left)
    return solve_triangle(builder, call, call["self"], call["B"], triangle);
  // x a = b is a' x' = b'
  const Argument x =
      solve_triangle(builder, call, call["self"], transposed(builder, call["B"]), triangle);
  return by_columns(builder, transposed(builder, x));
}

Argument triangular_solve(GraphBuilder &builder, const Call &call) {
  const TensorMeta &a = square_matrices(call, "A"), &b = matrices(call, "self");
  require_fit(call, "A", "self", rows_of(a), rows_of(b));
  const Triangle triangle{call.boolean("upper"), call.boolean("transpose"),
                          call.boolean("unitriangular")};
  const Argument x = solve_triangle(builder, call, call["A"], call["self"], triangle);
  const Sizes batch = batch_of(builder.meta(x));
  const Argument copied = builder.call("aten.clone.default", {in_batch(builder, call["A"], batch)});
  return Arguments{x, by_columns(builder, copied)};
}

/// x of l l' x = b, or of u' u x = b, for adjoints l' and u': a' x = b is a^T conj(x) = conj(b).
Argument solve_cholesky(GraphBuilder &builder, const Call &call, const Argument &factor,
                        const Argument &b, bool upper) {
  const auto solved = [&](const Argument &side) {
    return solve_triangle(builder, call, factor, side, {upper, false, false});
  };
  const auto solved_by_adjoint = [&](const Argument &side) {
    const Argument x =
        solve_triangle(builder, call, factor, conjugated(builder, side), {upper, true, false});
    return conjugated(builder, x);
  };
  return upper ? solved(solved_by_adjoint(b)) : solved_by_adjoint(solved(b));
}

void add_triangles(Table &table) {
  table
      .add("linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool "
           "unitriangular=False) -> Tensor")
      .decompose(linalg_solve_triangular);
  table
      .add("triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool "
           "unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)")
      .decompose(triangular_solve);
  for (const char *schema : {"cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> "
                             "Tensor",
                             "_cholesky_solve_helper(Tensor self, Tensor A, bool upper) -> Tensor"})
    table.add(schema).decompose([](GraphBuilder &builder, const Call &call) {
      const std::string factor = call.schema().parameters[1].name;
      const TensorMeta &b = matrices(call, "self"), &l = square_matrices(call, factor);
      require_fit(call, factor, "self", rows_of(l), rows_of(b));
      return solve_cholesky(builder, call, call[factor], call["self"], call.boolean("upper"));
    });
  table.add("cholesky_inverse(Tensor self, bool upper=False) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        const TensorMeta self = square_matrices(call, "self");
        const Argument diagonal = builder.call("aten.diagonal.default", {call["self"], 0, -2, -1});
        const Argument nonzero = builder.call("aten.ne.Scalar", {diagonal, 0});
        assert_condition(builder, builder.call("aten.all.default", {nonzero}),
                         "cholesky_inverse: A diagonal element is zero, the inversion could not be "
                         "completed because the input matrix is singular.");
        const Argument unit = unit_matrices(builder, batch_of(self), rows_of(self), self.dtype);
        return solve_cholesky(builder, call, call["self"], unit, call.boolean("upper"));
      });
}

// ---- LU

/// x of a x = b, or of a^T x = b, for the factors of a, batches broadcast.
Argument solve_factored(GraphBuilder &builder, const Call &call, const Argument &factors,
                        const Argument &pivots, const Argument &b, bool is_transposed) {
  const Sizes batch = common_batch(builder, call, factors, b);
  const Argument lu = in_batch(builder, factors, batch);
  const Argument places =
      expanded(builder, pivots, batched_sizes(batch, {columns_of(builder.meta(pivots))}));
  return LibraryResult(builder, "tsc.lu_solve.default",
                       {lu, places, in_batch(builder, b, batch), is_transposed})
      .matrix();
}

/// The same for factors that the user gives.
Argument lu_solve(GraphBuilder &builder, const Call &call, const char *factors,
                  const char *pivots_name, const char *side, bool left, bool by_adjoint) {
  const TensorMeta &lu = square_matrices(call, factors), &b = matrices(call, side);
  const TensorMeta &places = call.tensor(pivots_name);
  require_fit(call, factors, side, rows_of(lu), left ? rows_of(b) : columns_of(b));
  if (places.dtype != DType::i32)
    call.fail("TSC-O127",
              call.node().target + ": pivots of " + std::string(tensor::torch_name(places.dtype)),
              "give what lu_factor gave: torch.int32");
  if (places.layout.sizes != batched_sizes(batch_of(lu), {rows_of(lu)}))
    call.fail("TSC-O129",
              call.node().target + ": '" + std::string(factors) + "' of sizes " +
                  print_sizes(lu.layout.sizes) + " does not fit '" + std::string(pivots_name) +
                  "' of sizes " + print_sizes(places.layout.sizes),
              "give what lu_factor gave");
  // No pivot, whatever it is, leads out of the matrix.
  Argument pivots =
      builder.call("aten.clamp.default", {call[pivots_name], 1, size_argument(rows_of(lu))});
  pivots = convert(builder, pivots, DType::i32);
  // a' x = b is a^T conj(x) = conj(b); x a = b is a^T x^T = b^T; x a' = b is a x' = b'.
  const auto there = [&](const Argument &x) {
    const Argument conjugate = by_adjoint ? conjugated(builder, x) : x;
    return left ? conjugate : transposed(builder, conjugate);
  };
  return there(
      solve_factored(builder, call, call[factors], pivots, there(call[side]), left == by_adjoint));
}

Argument ldl_solve(GraphBuilder &builder, const Call &call) {
  const TensorMeta &ld = square_matrices(call, "LD"), &b = matrices(call, "B");
  require_fit(call, "LD", "B", rows_of(ld), rows_of(b));
  if (call.tensor("pivots").dtype != DType::i32)
    call.fail("TSC-O127",
              call.node().target + ": pivots of " +
                  std::string(tensor::torch_name(call.tensor("pivots").dtype)),
              "give what ldl_factor gave: torch.int32");
  const Sizes batch = common_batch(builder, call, call["LD"], call["B"]);
  const Argument factors = in_batch(builder, call["LD"], batch);
  const Argument pivots = expanded(builder, call["pivots"], batched_sizes(batch, {rows_of(ld)}));
  const Argument side = in_batch(builder, call["B"], batch);
  return LibraryResult(builder, "tsc.ldl_solve.default",
                       {factors, pivots, side, call.boolean("hermitian")})
      .matrix();
}

void add_factored(Table &table) {
  table
      .add("linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool "
           "adjoint=False) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return lu_solve(builder, call, "LU", "pivots", "B", call.boolean("left"),
                        call.boolean("adjoint"));
      });
  table.add("lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return lu_solve(builder, call, "LU_data", "LU_pivots", "self", true, false);
      });
  table
      .add("linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> "
           "Tensor")
      .decompose(ldl_solve);
}

// ---- systems

struct Factored {
  Argument factors, pivots, info;
};
Factored factored(GraphBuilder &builder, const Argument &a) {
  const LibraryResult result(builder, "tsc.lu.default", {a});
  return {result.matrix(0), result.item(1), result.item(2)};
}
/// For determinants, which transposes share: where matrices are row-major their transposes'
/// factors, PyTorch's choice too. They lie as the library wants them.
Factored factored_either_way(GraphBuilder &builder, const Argument &a) {
  return factored(builder, builder.meta(a).layout.is_contiguous() ? transposed(builder, a) : a);
}

/// (x, LU, pivots, info) of a x = b, or of x a = b.
Argument solve(GraphBuilder &builder, const Call &call, bool left) {
  const TensorMeta a = square_matrices(call, "A"), b = call.tensor("B");
  const bool is_vector = is_vector_side(a, b);
  if (is_vector && !left)
    call.fail("TSC-O129", call.node().target + ": a vector stands on the right of a matrix",
              "leave out left=False, or give a matrix");
  if (!is_vector)
    matrices(call, "B");
  Argument side = is_vector ? builder.call("aten.unsqueeze.default", {call["B"], -1}) : call["B"];
  const TensorMeta meta = builder.meta(side);
  require_fit(call, "A", "B", rows_of(a), left ? rows_of(meta) : columns_of(meta));
  const Factored lu = factored(builder, call["A"]);
  if (!left)
    side = transposed(builder, side);
  Argument x = solve_factored(builder, call, lu.factors, lu.pivots, side, !left);
  if (!left)
    x = transposed(builder, x);
  if (is_vector)
    x = builder.call("aten.squeeze.dims", {x, Arguments{-1}});
  return Arguments{x, lu.factors, lu.pivots, lu.info};
}

void assert_solved(GraphBuilder &builder, const Argument &info, const char *name) {
  assert_no_info(builder, info,
                 std::string(name) + ": The solver failed because the input matrix is singular.");
}

/// (inverse, info)
Argument inverse(GraphBuilder &builder, const Call &call, std::string_view parameter) {
  const TensorMeta a = square_matrices(call, parameter);
  const Factored lu = factored(builder, call[parameter]);
  const Argument unit = unit_matrices(builder, batch_of(a), rows_of(a), a.dtype);
  const Argument x = solve_factored(builder, call, lu.factors, lu.pivots, unit, false);
  return Arguments{x, lu.info};
}
void assert_inverted(GraphBuilder &builder, const Argument &info) {
  assert_no_info(builder, info,
                 "linalg.inv: A diagonal element is zero, the inversion could not be completed "
                 "because the input matrix is singular.");
}

void add_systems(Table &table) {
  table
      .add("_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> "
           "(Tensor result, Tensor LU, Tensor pivots, Tensor info)")
      .decompose([](GraphBuilder &builder, const Call &call) {
        const Argument result = solve(builder, call, call.boolean("left"));
        if (call.boolean("check_errors"))
          assert_solved(builder, part(result, 3), "torch.linalg.solve");
        return result;
      });
  table
      .add("linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> "
           "(Tensor result, Tensor info)")
      .decompose([](GraphBuilder &builder, const Call &call) -> Argument {
        const Argument result = solve(builder, call, call.boolean("left"));
        if (call.boolean("check_errors"))
          assert_solved(builder, part(result, 3), "torch.linalg.solve_ex");
        return Arguments{part(result, 0), part(result, 3)};
      });
  table.add("linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        const Argument result = solve(builder, call, call.boolean("left"));
        assert_solved(builder, part(result, 3), "torch.linalg.solve");
        return part(result, 0);
      });
  table.add("linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)")
      .decompose([](GraphBuilder &builder, const Call &call) {
        const Argument result = inverse(builder, call, "A");
        if (call.boolean("check_errors"))
          assert_inverted(builder, part(result, 1));
        return result;
      });
  for (const char *schema : {"linalg_inv(Tensor A) -> Tensor", "inverse(Tensor self) -> Tensor"})
    table.add(schema).decompose([](GraphBuilder &builder, const Call &call) {
      const Argument result = inverse(builder, call, call.schema().parameters[0].name);
      assert_inverted(builder, part(result, 1));
      return part(result, 0);
    });
  table.add("_linalg_check_errors(Tensor info, str api_name, *, bool is_matrix) -> ()")
      .effect(Effect::assertion)
      .shape([](const Call &) { return Value{}; })
      .decompose([](GraphBuilder &builder, const Call &call) {
        assert_no_info(builder, call["info"],
                       call.string("api_name").value_or("") +
                           ": The input matrix is singular, not positive-definite, or the "
                           "algorithm failed to converge.");
        return Argument();
      });
}

// ---- determinants

/// 1 or -1: every pivot that is not its own row exchanges two.
Argument sign_of_pivots(GraphBuilder &builder, const Argument &pivots, DType dtype) {
  const Expr n = columns_of(builder.meta(pivots));
  const Argument own = builder.call("aten.arange.start_step", {1, size_argument(n + Expr(1)), 1},
                                    {{"dtype", DType::i32}});
  const Argument moved = builder.call("aten.ne.Tensor", {pivots, own});
  const Argument count = builder.call("aten.sum.dim_IntList", {moved, Arguments{-1}, false});
  const Argument odd = builder.call("aten.bitwise_and.Scalar", {count, 1});
  const Argument negative = builder.call(kMul, {odd, -2});
  return convert(builder, builder.call(kAdd, {negative, 1}), dtype);
}

Argument diagonal_of(GraphBuilder &builder, const Argument &matrix) {
  return builder.call("aten.diagonal.default", {matrix, 0, -2, -1});
}

/// (det, LU, pivots)
Argument determinant(GraphBuilder &builder, const Call &call, std::string_view parameter) {
  const DType dtype = part_dtype(square_matrices(call, parameter).dtype);
  const Factored lu = factored_either_way(builder, call[parameter]);
  const Argument diagonal = diagonal_of(builder, lu.factors);
  const Argument all = builder.call("aten.prod.dim_int", {diagonal, -1, false});
  const Argument sign = sign_of_pivots(builder, lu.pivots, dtype);
  return Arguments{builder.call(kMul, {all, sign}), lu.factors, lu.pivots};
}

/// (sign, logarithm of the absolute value, LU, pivots)
Argument log_determinant(GraphBuilder &builder, const Call &call, std::string_view parameter) {
  const DType dtype = part_dtype(square_matrices(call, parameter).dtype);
  const Factored lu = factored_either_way(builder, call[parameter]);
  const Argument diagonal = diagonal_of(builder, lu.factors);
  const Argument signs = builder.call("aten.sgn.default", {diagonal});
  const Argument all = builder.call("aten.prod.dim_int", {signs, -1, false});
  const Argument sign = builder.call(kMul, {all, sign_of_pivots(builder, lu.pivots, dtype)});
  const Argument sizes = builder.call("aten.abs.default", {diagonal});
  const Argument logarithms = builder.call("aten.log.default", {sizes});
  const Argument sum = builder.call("aten.sum.dim_IntList", {logarithms, Arguments{-1}, false});
  return Arguments{sign, sum, lu.factors, lu.pivots};
}

void add_determinants(Table &table) {
  table.add("_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)")
      .decompose(
          [](GraphBuilder &builder, const Call &call) { return determinant(builder, call, "A"); });
  for (const char *schema : {"linalg_det(Tensor A) -> Tensor", "det(Tensor self) -> Tensor"})
    table.add(schema).decompose([](GraphBuilder &builder, const Call &call) {
      return part(determinant(builder, call, call.schema().parameters[0].name), 0);
    });
  table
      .add("_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return log_determinant(builder, call, "A");
      });
  for (const char *schema : {"linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)",
                             "slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)"})
    table.add(schema).decompose([](GraphBuilder &builder, const Call &call) -> Argument {
      const Argument result = log_determinant(builder, call, call.schema().parameters[0].name);
      return Arguments{part(result, 0), part(result, 1)};
    });
  table.add("logdet(Tensor self) -> Tensor").decompose([](GraphBuilder &builder, const Call &call) {
    const Argument result = log_determinant(builder, call, "self");
    if (tensor::is_complex(call.tensor("self").dtype)) { // NaN of singular matrices: 0 * -inf
      const Argument size = builder.call(kMul, {part(result, 1), graph::Complex{1, 0}});
      return builder.call(kAdd, {builder.call("aten.log.default", {part(result, 0)}), size});
    }
    const Argument negative = builder.call("aten.eq.Scalar", {part(result, 0), -1.0});
    return builder.call("aten.masked_fill.Scalar", {part(result, 1), negative, NAN});
  });
}

} // namespace

void add_linear_systems(Table &table) {
  add_triangles(table);
  add_factored(table);
  add_systems(table);
  add_determinants(table);
}

} // namespace tsc::ops
