// Factorizations of matrices. ATen's operators choose among the results of tsc.* rows, clear
// triangles, and assert that they succeeded.
#include "ops/families/assertions.h"
#include "ops/families/linear_algebra.h"
#include "ops/table/complex_calls.h"
#include "ops/table/memory_format.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

namespace tsc::ops {

using Sizes = std::vector<Expr>;

namespace {

Argument lower(GraphBuilder &builder, const Argument &x, int64_t diagonal = 0) {
  return builder.call("aten.tril.default", {x, diagonal});
}
Argument upper(GraphBuilder &builder, const Argument &x) {
  return builder.call("aten.triu.default", {x, 0});
}
// ---- Cholesky

/// (factor, info), the other triangle zero.
Argument cholesky(GraphBuilder &builder, const Argument &self, bool is_upper) {
  const LibraryResult result(builder, "tsc.cholesky.default", {self, is_upper});
  const Argument whole = result.matrix(0);
  const Argument factor = is_upper ? upper(builder, whole) : lower(builder, whole);
  return Arguments{by_columns(builder, factor), result.item(1)};
}

Argument checked_cholesky(GraphBuilder &builder, const Argument &self, bool is_upper,
                          const std::string &name) {
  const Argument result = cholesky(builder, self, is_upper);
  assert_no_info(builder, (*result.list())[1],
                 name + ": The factorization could not be completed because the input is not "
                        "positive-definite.");
  return result;
}

void add_cholesky(Table &table) {
  table
      .add("linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> "
           "(Tensor L, Tensor info)")
      .decompose([](GraphBuilder &builder, const Call &call) {
        square_matrices(call, "self");
        if (call.boolean("check_errors"))
          return checked_cholesky(builder, call["self"], call.boolean("upper"),
                                  "linalg.cholesky_ex");
        return cholesky(builder, call["self"], call.boolean("upper"));
      });
  for (const bool is_old : {false, true})
    table
        .add(is_old ? "cholesky(Tensor self, bool upper=False) -> Tensor"
                    : "linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor")
        .decompose([is_old](GraphBuilder &builder, const Call &call) {
          square_matrices(call, "self");
          const Argument result = checked_cholesky(builder, call["self"], call.boolean("upper"),
                                                   is_old ? "cholesky" : "linalg.cholesky");
          return (*result.list())[0];
        });
}

// ---- LU

/// (LU, pivots, info)
Argument lu_factors(GraphBuilder &builder, const Call &call, std::string_view parameter) {
  matrices(call, parameter);
  if (!call.boolean("pivot"))
    call.refuse("TSC-O142", call.node().target + " without pivots",
                "leave out pivot=False, which PyTorch has on a GPU alone");
  const LibraryResult result(builder, "tsc.lu.default", {call[parameter]});
  return Arguments{result.matrix(0), result.item(1), result.item(2)};
}

void assert_factored(GraphBuilder &builder, const Argument &info, const std::string &name) {
  assert_no_info(builder, info,
                 name +
                     ": an element of U's diagonal is zero and using it on lu_solve would result "
                     "in a division by zero.");
}

/// P of the pivots [.., k]: solving P^T x = 1, as unit factors and these pivots say it.
Argument permutation(GraphBuilder &builder, const TensorMeta &lu, Argument pivots) {
  const Expr m = rows_of(lu), k = columns_of(builder.meta(pivots));
  const Sizes batch = batch_of(lu);
  if (k != m) { // rows beyond stay where they are
    const Argument own = builder.call("aten.arange.start_step",
                                      {size_argument(k + Expr(1)), size_argument(m + Expr(1)), 1},
                                      {{"dtype", DType::i32}});
    const Argument rest = expanded(builder, own, batched_sizes(batch, {m - k}));
    pivots = builder.call("aten.cat.default", {Arguments{pivots, rest}, -1});
  }
  const Argument unit = unit_matrices(builder, batch, m, part_dtype(lu.dtype));
  const LibraryResult result(builder, "tsc.lu_solve.default", {unit, pivots, unit, true});
  return convert(builder, result.matrix(), lu.dtype);
}

/// (P, L, U); P and the factors empty where they are not asked for.
Argument unpacked(GraphBuilder &builder, const Argument &factors, const Argument &pivots, bool data,
                  bool permutations) {
  const TensorMeta lu = builder.meta(factors);
  const Expr k = least_of(lu);
  Argument p = no_elements(builder, lu.dtype), l = p, u = p;
  if (permutations)
    p = contiguous(builder, permutation(builder, lu, pivots));
  if (data) {
    const Argument below = lower(builder, first(builder, factors, -1, k), -1);
    const Argument unit = builder.call("aten.eye.m", {size_argument(rows_of(lu)), size_argument(k)},
                                       {{"dtype", lu.dtype}});
    l = contiguous(builder, builder.call(kAdd, {below, unit}));
    u = contiguous(builder, upper(builder, first(builder, factors, -2, k)));
  }
  return Arguments{p, l, u};
}

Argument lu_unpack(GraphBuilder &builder, const Call &call) {
  const TensorMeta lu = matrices(call, "LU_data");
  if (call.tensor("LU_pivots").dtype != DType::i32)
    call.fail("TSC-O127",
              call.node().target + ": pivots of " +
                  std::string(tensor::torch_name(call.tensor("LU_pivots").dtype)),
              "give what lu_factor gave: torch.int32");
  if (call.boolean("unpack_pivots") &&
      call.tensor("LU_pivots").layout.rank() + 1 != lu.layout.rank())
    call.fail("TSC-O129",
              call.node().target + ": 'LU_pivots' of sizes " +
                  print_sizes(call.tensor("LU_pivots").layout.sizes) + " for 'LU_data' of sizes " +
                  print_sizes(lu.layout.sizes),
              "give what lu_factor gave: a row for each matrix");
  Argument pivots = call["LU_pivots"];
  if (call.boolean("unpack_pivots")) {
    const Argument low = builder.call("aten.ge.Scalar", {pivots, 1});
    const Argument high = builder.call("aten.le.Scalar", {pivots, size_argument(rows_of(lu))});
    const Argument within = builder.call("aten.logical_and.default", {low, high});
    assert_condition(builder, builder.call("aten.all.default", {within}),
                     "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive");
    pivots = builder.call("aten.clamp.default", {pivots, 1, size_argument(rows_of(lu))});
    pivots = convert(builder, pivots, DType::i32);
  }
  return unpacked(builder, call["LU_data"], pivots, call.boolean("unpack_data"),
                  call.boolean("unpack_pivots"));
}

void add_lu(Table &table) {
  table
      .add("linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor "
           "LU, Tensor pivots, Tensor info)")
      .decompose([](GraphBuilder &builder, const Call &call) {
        const Argument result = lu_factors(builder, call, "A");
        if (call.boolean("check_errors"))
          assert_factored(builder, (*result.list())[2], "torch.linalg.lu_factor_ex");
        return result;
      });
  table.add("linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)")
      .decompose([](GraphBuilder &builder, const Call &call) -> Argument {
        const Argument result = lu_factors(builder, call, "A");
        assert_factored(builder, (*result.list())[2], "torch.linalg.lu_factor");
        return Arguments{(*result.list())[0], (*result.list())[1]};
      });
  table
      .add("_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) -> (Tensor LU, "
           "Tensor pivots, Tensor info)")
      .decompose([](GraphBuilder &builder, const Call &call) {
        const Argument result = lu_factors(builder, call, "self");
        if (call.boolean("check_errors"))
          assert_factored(builder, (*result.list())[2], "torch.linalg.lu_factor");
        return result;
      });
  table.add("linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)")
      .decompose([](GraphBuilder &builder, const Call &call) {
        const Argument result = lu_factors(builder, call, "A");
        return unpacked(builder, (*result.list())[0], (*result.list())[1], true, true);
      });
  table
      .add("lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool "
           "unpack_pivots=True) -> (Tensor P, Tensor L, Tensor U)")
      .decompose(lu_unpack);
}

// ---- LDL

void add_ldl(Table &table) {
  const auto factors = [](GraphBuilder &builder, const Call &call) -> Argument {
    square_matrices(call, "self");
    const LibraryResult result(builder, "tsc.ldl.default",
                               {call["self"], call.boolean("hermitian")});
    const Argument factors = by_columns(builder, lower(builder, result.matrix(0)));
    return Arguments{factors, result.item(1), result.item(2)};
  };
  const auto check = [](GraphBuilder &builder, const Argument &info) {
    assert_no_info(builder, info, "torch.linalg.ldl_factor: an element of D is zero.");
  };
  table
      .add("linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> "
           "(Tensor LD, Tensor pivots, Tensor info)")
      .decompose([=](GraphBuilder &builder, const Call &call) {
        const Argument result = factors(builder, call);
        if (call.boolean("check_errors"))
          check(builder, (*result.list())[2]);
        return result;
      });
  table.add("linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)")
      .decompose([=](GraphBuilder &builder, const Call &call) -> Argument {
        const Argument result = factors(builder, call);
        check(builder, (*result.list())[2]);
        return Arguments{(*result.list())[0], (*result.list())[1]};
      });
}

// ---- QR

/// `x` with columns of zeros behind its own, up to `columns`, or without those beyond.
Argument with_columns(GraphBuilder &builder, const Argument &x, Expr columns) {
  const Expr own = columns_of(builder.meta(x));
  if (own == columns)
    return x;
  if (symbolic::minimum(own, columns) == columns)
    return first(builder, x, -1, columns);
  return builder.call("aten.constant_pad_nd.default",
                      {x, Arguments{0, size_argument(columns - own)}, 0.0});
}

Argument orthogonal(GraphBuilder &builder, const Argument &reflections, const Argument &factors) {
  return LibraryResult(builder, "tsc.orthogonal.default", {reflections, factors}).matrix();
}

Argument qr(GraphBuilder &builder, const Call &call, const Argument &self,
            const std::string &mode) {
  if (mode != "reduced" && mode != "complete" && mode != "r")
    call.fail("TSC-O143", call.node().target + " of mode '" + mode + "'",
              "use 'reduced', 'complete' or 'r'");
  const TensorMeta meta = builder.meta(self);
  const Expr m = rows_of(meta), p = least_of(meta);
  const LibraryResult result(builder, "tsc.reflections.default", {self});
  const Argument reflections = result.matrix(0);
  const Argument rows = mode == "complete" ? reflections : first(builder, reflections, -2, p);
  const Argument r = by_columns(builder, upper(builder, rows));
  if (mode == "r")
    return Arguments{no_elements(builder, meta.dtype), r};
  const Argument columns = with_columns(builder, reflections, mode == "complete" ? m : p);
  return Arguments{orthogonal(builder, columns, result.matrix(1)), r};
}

/// [.., m, n] reflections with [.., k] factors, m >= n >= k.
Argument householder(GraphBuilder &builder, const Call &call, std::string_view reflections,
                     std::string_view factors) {
  const TensorMeta &self = matrices(call, reflections), &tau = call.tensor(factors);
  const Expr m = rows_of(self), n = columns_of(self);
  const auto greater = [](Expr a, Expr b) {
    return a.is_integer() && b.is_integer() && a.value() > b.value();
  };
  Sizes leading(tau.layout.sizes.begin(), tau.layout.sizes.end() - (tau.layout.rank() > 0 ? 1 : 0));
  if (tau.layout.rank() + 1 != self.layout.rank() || leading != batch_of(self) || greater(n, m) ||
      greater(tau.layout.sizes.back(), n))
    call.fail("TSC-O129",
              call.node().target + ": '" + std::string(reflections) + "' of sizes " +
                  print_sizes(self.layout.sizes) + " does not fit '" + std::string(factors) +
                  "' of sizes " + print_sizes(tau.layout.sizes),
              "give what geqrf gives");
  if (tau.dtype != self.dtype)
    call.fail("TSC-O041",
              call.node().target + " of " + std::string(tensor::torch_name(self.dtype)) + " and " +
                  std::string(tensor::torch_name(tau.dtype)),
              "convert both to one dtype");
  return orthogonal(builder, call[reflections], call[factors]);
}

/// Q or its adjoint, times a matrix from the left or right.
Argument ormqr(GraphBuilder &builder, const Call &call) {
  const TensorMeta &self = matrices(call, "self"), &other = matrices(call, "input3");
  for (const TensorMeta &each : {call.tensor("input2"), other})
    if (each.dtype != self.dtype)
      call.fail("TSC-O041",
                call.node().target + " of " + std::string(tensor::torch_name(self.dtype)) +
                    " and " + std::string(tensor::torch_name(each.dtype)),
                "convert both to one dtype");
  const bool left = call.boolean("left");
  const Expr n = left ? rows_of(other) : columns_of(other);
  const Argument square = with_columns(builder, call["self"], n);
  Argument q = orthogonal(builder, square, call["input2"]);
  if (call.boolean("transpose"))
    q = adjoint(builder, q);
  const Argument result =
      left ? product(builder, q, call["input3"]) : product(builder, call["input3"], q);
  return by_columns(builder, result);
}

void add_qr(Table &table) {
  table.add("geqrf(Tensor self) -> (Tensor a, Tensor tau)")
      .decompose([](GraphBuilder &builder, const Call &call) -> Argument {
        matrices(call, "self");
        const LibraryResult result(builder, "tsc.reflections.default", {call["self"]});
        return Arguments{result.matrix(0), result.matrix(1)};
      });
  table.add("linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)")
      .decompose([](GraphBuilder &builder, const Call &call) {
        matrices(call, "A");
        return qr(builder, call, call["A"], call.string("mode").value_or("reduced"));
      });
  table.add("qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)")
      .decompose([](GraphBuilder &builder, const Call &call) {
        matrices(call, "self");
        return qr(builder, call, call["self"], call.boolean("some") ? "reduced" : "complete");
      });
  table.add("linalg_householder_product(Tensor input, Tensor tau) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return householder(builder, call, "input", "tau");
      });
  table.add("orgqr(Tensor self, Tensor input2) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return householder(builder, call, "self", "input2");
      });
  table
      .add("ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) "
           "-> Tensor")
      .decompose(ormqr);
}

// ---- eigenvalues, singular values

/// (values, vectors); these without elements where they are not asked for.
Argument symmetric_eigen(GraphBuilder &builder, const Call &call, const Argument &self,
                         bool vectors) {
  const std::string triangle = call.string("UPLO").value_or("L");
  if (triangle != "L" && triangle != "l" && triangle != "U" && triangle != "u")
    call.fail("TSC-O143", call.node().target + " of the triangle '" + triangle + "'",
              "use 'L' or 'U'");
  const bool is_upper = triangle == "U" || triangle == "u";
  const LibraryResult result(builder, "tsc.symmetric_eigen.default", {self, is_upper, vectors});
  assert_no_info(builder, result.item(2),
                 "linalg.eigh: The algorithm failed to converge because the input matrix is "
                 "ill-conditioned or has too many repeated eigenvalues.");
  return Arguments{result.item(1),
                   vectors ? result.matrix(0) : no_elements(builder, builder.meta(self).dtype)};
}

/// (values, vectors), complex; without vectors, the values.
Argument eigen(GraphBuilder &builder, const Call &call, bool vectors) {
  square_matrices(call, "self");
  const Argument finite = builder.call("aten.isfinite.default", {call["self"]});
  assert_condition(builder, builder.call("aten.all.default", {finite}),
                   "torch.linalg.eig: input tensor should not contain infs or NaNs.");
  const LibraryResult result(builder, "tsc.eigen.default", {call["self"], vectors});
  assert_no_info(builder, result.item(2),
                 "torch.linalg.eig: The algorithm failed to converge because the input matrix is "
                 "ill-conditioned or has too many repeated eigenvalues.");
  const Argument values = result.complex_matrix(1);
  return vectors ? Arguments{values, result.complex_matrix(0)} : values;
}

/// (u, values, v'); the vectors without elements where they are not asked for.
Argument svd(GraphBuilder &builder, const Argument &self, bool full, bool vectors) {
  const LibraryResult result(builder, "tsc.svd.default", {self, full && vectors, vectors});
  assert_no_info(builder, result.item(3),
                 "linalg.svd: The algorithm failed to converge because the input matrix contained "
                 "non-finite values, is ill-conditioned or has too many repeated singular values.");
  const Argument nothing = vectors ? Argument() : no_elements(builder, builder.meta(self).dtype);
  return Arguments{vectors ? result.matrix(0) : nothing, result.item(1),
                   vectors ? result.matrix(2) : nothing};
}

void add_eigen(Table &table) {
  table.add("linalg_eigh(Tensor self, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)")
      .decompose([](GraphBuilder &builder, const Call &call) {
        square_matrices(call, "self");
        return symmetric_eigen(builder, call, call["self"], true);
      });
  table.add("linalg_eigvalsh(Tensor self, str UPLO='L') -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        square_matrices(call, "self");
        return (*symmetric_eigen(builder, call, call["self"], false).list())[0];
      });
  table
      .add("_linalg_eigh(Tensor A, str UPLO='L', bool compute_v=True) -> (Tensor eigenvalues, "
           "Tensor eigenvectors)")
      .decompose([](GraphBuilder &builder, const Call &call) {
        square_matrices(call, "A");
        return symmetric_eigen(builder, call, call["A"], call.boolean("compute_v"));
      });
  table.add("linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)")
      .decompose(
          [](GraphBuilder &builder, const Call &call) { return eigen(builder, call, true); });
  for (const char *schema :
       {"linalg_eigvals(Tensor self) -> Tensor", "_linalg_eigvals(Tensor self) -> Tensor"})
    table.add(schema).decompose(
        [](GraphBuilder &builder, const Call &call) { return eigen(builder, call, false); });
}

void add_svd(Table &table) {
  table
      .add(
          "linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor "
          "S, Tensor Vh)")
      .decompose([](GraphBuilder &builder, const Call &call) {
        matrices(call, "A");
        return svd(builder, call["A"], call.boolean("full_matrices"), true);
      });
  table
      .add("_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? "
           "driver=None) -> (Tensor U, Tensor S, Tensor Vh)")
      .decompose([](GraphBuilder &builder, const Call &call) {
        matrices(call, "A");
        return svd(builder, call["A"], call.boolean("full_matrices"), call.boolean("compute_uv"));
      });
  table.add("linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        matrices(call, "A");
        return (*svd(builder, call["A"], false, false).list())[1];
      });
  table
      .add("svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor "
           "V)")
      .decompose([](GraphBuilder &builder, const Call &call) -> Argument {
        const TensorMeta self = matrices(call, "self");
        const bool vectors = call.boolean("compute_uv");
        const Argument result = svd(builder, call["self"], !call.boolean("some"), vectors);
        const Arguments &parts = *result.list();
        if (vectors)
          return Arguments{parts[0], parts[1], adjoint(builder, parts[2])};
        const auto zeros = [&](Expr n) {
          return builder.call("aten.full.default",
                              {sizes_argument(batched_sizes(batch_of(self), {n, n})), 0.0},
                              {{"dtype", self.dtype}});
        };
        const Argument u = zeros(rows_of(self));
        return Arguments{u, parts[1], zeros(columns_of(self))};
      });
}

} // namespace

void add_factorizations(Table &table) {
  add_cholesky(table);
  add_lu(table);
  add_ldl(table);
  add_qr(table);
  add_eigen(table);
  add_svd(table);
}

} // namespace tsc::ops
