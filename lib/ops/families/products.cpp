// Products that lead to mm and bmm, or to a product and a sum: inner, outer, Kronecker, tensordot.
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

Argument reshape(GraphBuilder &builder, const Argument &x, const Sizes &sizes) {
  return builder.call("aten.reshape.default", {x, sizes_argument(sizes)});
}

/// beta * self + alpha * product; a beta of 0 ignores self, NaN included.
Argument scaled_sum(GraphBuilder &builder, const Call &call, Argument product) {
  const DType dtype = builder.meta(product).dtype;
  const bool whole = tensor::is_integral(dtype, true); // factors are cut, too
  const auto number = [&](std::string_view name) {     // of a complex one only that it is neither
    if (std::holds_alternative<graph::Complex>(call[name].value))
      return std::numeric_limits<double>::quiet_NaN();
    return whole ? std::trunc(call.number(name)) : call.number(name);
  };
  const auto factor = [&](std::string_view name) -> Argument {
    return whole ? Argument(static_cast<int64_t>(number(name))) : call[name];
  };
  if (number("alpha") != 1)
    product = builder.call(kMul, {product, factor("alpha")});
  const double beta = number("beta");
  if (beta == 0)
    return product;
  Argument self = beta == 1 ? call["self"] : builder.call(kMul, {call["self"], factor("beta")});
  return builder.call(kAdd, {self, product});
}

/// Sums of a times b over pairs of dimensions, as one matrix product.
Argument tensordot(GraphBuilder &builder, const Call &call, Argument a, Argument b,
                   const std::vector<int64_t> &dims_a, const std::vector<int64_t> &dims_b) {
  if (dims_a.size() != dims_b.size())
    call.fail("TSC-O095",
              call.node().target + ": " + std::to_string(dims_a.size()) + " and " +
                  std::to_string(dims_b.size()) + " dimensions are contracted",
              "name as many dimensions of the one as of the other");
  std::vector<size_t> inner_a, inner_b;
  for (size_t i = 0; i < dims_a.size(); ++i) {
    size_t da = existing_dim(call, dims_a[i], builder.meta(a).layout.rank());
    size_t db = existing_dim(call, dims_b[i], builder.meta(b).layout.rank());
    if (std::count(inner_a.begin(), inner_a.end(), da) +
            std::count(inner_b.begin(), inner_b.end(), db) >
        0)
      call.fail("TSC-O095", call.node().target + ": a dimension is contracted twice",
                "name each dimension once");
    Expr sa = builder.meta(a).layout.sizes[da], sb = builder.meta(b).layout.sizes[db];
    // A dimension of size 1 goes along with any: the other is summed.
    if (sa.is_integer(1) && !sb.is_integer(1))
      b = builder.call("aten.sum.dim_IntList", {b, Arguments{static_cast<int64_t>(db)}, true});
    else if (sb.is_integer(1) && !sa.is_integer(1))
      a = builder.call("aten.sum.dim_IntList", {a, Arguments{static_cast<int64_t>(da)}, true});
    inner_a.push_back(da);
    inner_b.push_back(db);
  }
  auto outer = [&](const Argument &x, const std::vector<size_t> &inner) {
    std::vector<size_t> dims;
    for (size_t i = 0; i < builder.meta(x).layout.rank(); ++i)
      if (std::find(inner.begin(), inner.end(), i) == inner.end())
        dims.push_back(i);
    return dims;
  };
  std::vector<size_t> outer_a = outer(a, inner_a), outer_b = outer(b, inner_b);
  auto extent = [&](const Argument &x, const std::vector<size_t> &dims) {
    Expr product(1);
    for (size_t dim : dims)
      product *= builder.meta(x).layout.sizes[dim];
    return product;
  };
  Sizes result;
  for (size_t dim : outer_a)
    result.push_back(builder.meta(a).layout.sizes[dim]);
  for (size_t dim : outer_b)
    result.push_back(builder.meta(b).layout.sizes[dim]);
  Expr rows = extent(a, outer_a), inner = extent(a, inner_a), columns = extent(b, outer_b);
  std::vector<size_t> order_a = outer_a, order_b = inner_b;
  order_a.insert(order_a.end(), inner_a.begin(), inner_a.end());
  order_b.insert(order_b.end(), outer_b.begin(), outer_b.end());
  a = builder.call("aten.permute.default", {a, ints_argument(order_a)});
  b = builder.call("aten.permute.default", {b, ints_argument(order_b)});
  Argument left = reshape(builder, a, {rows, inner});
  Argument right = reshape(builder, b, {inner, columns});
  return reshape(builder, builder.call("aten.mm.default", {left, right}), result);
}

Argument inner(GraphBuilder &builder, const Call &call) {
  if (call.tensor("self").layout.rank() == 0 || call.tensor("other").layout.rank() == 0)
    return builder.call(kMul, {call["self"], call["other"]});
  return tensordot(builder, call, call["self"], call["other"], {-1}, {-1});
}

/// Every element of self times the whole of other: [s0, 1, s1, 1] * [1, o0, 1, o1], merged.
Argument kronecker(GraphBuilder &builder, const Call &call) {
  Sizes a = call.tensor("self").layout.sizes, b = call.tensor("other").layout.sizes;
  size_t rank = std::max(a.size(), b.size());
  a.insert(a.begin(), rank - a.size(), Expr(1));
  b.insert(b.begin(), rank - b.size(), Expr(1));
  Sizes first, second, result;
  for (size_t i = 0; i < rank; ++i) {
    first.insert(first.end(), {a[i], Expr(1)});
    second.insert(second.end(), {Expr(1), b[i]});
    result.push_back(a[i] * b[i]);
  }
  Argument left = reshape(builder, call["self"], first);
  Argument right = reshape(builder, call["other"], second);
  return reshape(builder, builder.call(kMul, {left, right}), result);
}

/// beta * self + alpha * the sum of all products of the batch: one product over batch and depth.
Argument addbmm(GraphBuilder &builder, const Call &call) {
  Sizes a = call.tensor("batch1").layout.sizes, b = call.tensor("batch2").layout.sizes;
  if (a.size() != 3 || b.size() != 3)
    call.fail("TSC-O040",
              call.node().target + ": sizes " + print_sizes(a) + " and " + print_sizes(b) +
                  " do not multiply",
              "pass batches of matrices");
  Argument left = builder.call("aten.permute.default", {call["batch1"], Arguments{1, 0, 2}});
  left = reshape(builder, left, {a[1], a[0] * a[2]});
  Argument right = reshape(builder, call["batch2"], {b[0] * b[1], b[2]});
  return scaled_sum(builder, call, builder.call("aten.mm.default", {left, right}));
}

Argument addr(GraphBuilder &builder, const Call &call) {
  Argument outer = builder.call("aten.outer.default", {call["vec1"], call["vec2"]});
  return scaled_sum(builder, call, outer);
}

Argument chain(GraphBuilder &builder, const Call &call) {
  const Arguments *list = call[call.schema().parameters[0].name].list();
  if (!list || list->empty())
    call.fail("TSC-O044", call.node().target + " of no tensors", "pass one or more");
  Argument result = list->front();
  for (size_t i = 1; i < list->size(); ++i)
    result = builder.call("aten.matmul.default", {result, (*list)[i]});
  return result;
}

/// out[.., o] = sum over i, j of x[.., i] weight[o, i, j] y[.., j] (+ bias[o])
Argument bilinear(GraphBuilder &builder, const Call &call) {
  Sizes x = call.tensor("input1").layout.sizes, y = call.tensor("input2").layout.sizes,
        w = call.tensor("weight").layout.sizes;
  if (w.size() != 3 || x.empty() || y.size() != x.size())
    call.fail("TSC-O040",
              call.node().target + ": sizes " + print_sizes(x) + ", " + print_sizes(y) + " and " +
                  print_sizes(w) + " do not multiply",
              "pass inputs [.., i] and [.., j] and a weight [o, i, j]");
  Sizes result(x.begin(), x.end() - 1);
  Expr rows = symbolic::numel(result);
  Argument first = reshape(builder, call["input1"], {rows, x.back()});
  Argument matrix = builder.call("aten.permute.default", {call["weight"], Arguments{1, 0, 2}});
  matrix = reshape(builder, matrix, {w[1], w[0] * w[2]});
  Argument partial = builder.call("aten.mm.default", {first, matrix});
  partial = reshape(builder, partial, {rows, w[0], w[2]});
  Argument second = reshape(builder, call["input2"], {rows, y.back(), Expr(1)});
  Argument product = builder.call("aten.bmm.default", {partial, second});
  result.push_back(w[0]);
  Argument shaped = reshape(builder, product, result);
  return call.has("bias") ? builder.call(kAdd, {shaped, call["bias"]}) : shaped;
}

/// The sum over `sumdim` of three tensors that broadcast once dimensions of size 1 are inserted.
Argument trilinear(GraphBuilder &builder, const Call &call) {
  Argument product;
  for (const char *number : {"1", "2", "3"}) {
    Argument x = widen(builder, call["i" + std::string(number)]);
    std::vector<int64_t> inserted = call.integers("expand" + std::string(number));
    std::sort(inserted.begin(), inserted.end());
    for (int64_t dim : inserted)
      x = builder.call("aten.unsqueeze.default", {x, dim});
    product = product.is_none() ? x : builder.call(kMul, {product, x});
  }
  Argument sum = builder.call("aten.sum.dim_IntList", {product, call["sumdim"]});
  return convert(builder, sum, call.tensor("i1").dtype);
}

/// Along a dimension of size 3: (a1 b2 - a2 b1, a2 b0 - a0 b2, a0 b1 - a1 b0).
Argument cross(GraphBuilder &builder, const Call &call) {
  Sizes sizes =
      broadcast(call, {call.tensor("self").layout.sizes, call.tensor("other").layout.sizes});
  size_t dim = 0;
  if (call.has("dim"))
    dim = normalize_dim(call, call.integer("dim"), sizes.size());
  else
    while (dim < sizes.size() && !sizes[dim].is_integer(3))
      ++dim;
  if (dim >= sizes.size() || !sizes[dim].is_integer(3))
    call.fail("TSC-O095", call.node().target + ": no dimension of size 3 in " + print_sizes(sizes),
              "pass vectors of 3 elements");
  auto rolled = [&](std::string_view parameter, int64_t shift) {
    Argument x = builder.call("aten.expand.default", {call[parameter], sizes_argument(sizes)});
    return builder.call("aten.roll.default",
                        {x, Arguments{shift}, Arguments{static_cast<int64_t>(dim)}});
  };
  Argument a_next = rolled("self", -1);
  Argument b_last = rolled("other", -2);
  Argument first = builder.call(kMul, {a_next, b_last});
  Argument a_last = rolled("self", -2);
  Argument b_next = rolled("other", -1);
  Argument second = builder.call(kMul, {a_last, b_next});
  return builder.call(kSub, {first, second});
}

void add_named(Table &table) {
  table.add("inner(Tensor self, Tensor other) -> Tensor").decompose(inner);
  table.add("kron(Tensor self, Tensor other) -> Tensor").decompose(kronecker);
  table.add("tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return tensordot(builder, call, call["self"], call["other"], call.integers("dims_self"),
                         call.integers("dims_other"));
      });
  table.add("cross(Tensor self, Tensor other, int? dim=None) -> Tensor").decompose(cross);
  table.add("linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor").decompose(cross);
  table.add("linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        DType dtype = promote_operands(elementwise_operands(call, {"x", "y"}));
        Argument x = builder.call("aten.conj.default", {widen(builder, call["x"])});
        Argument product = builder.call(kMul, {x, widen(builder, call["y"])});
        Argument sum =
            builder.call("aten.sum.dim_IntList", {product, Arguments{call["dim"]}, false});
        return convert(builder, sum, dtype);
      });
  table.add("trace(Tensor self) -> Tensor").decompose([](GraphBuilder &builder, const Call &call) {
    return builder.call("aten.sum.default",
                        {builder.call("aten.diagonal.default", {call["self"]})});
  });
}

} // namespace

void add_products(Table &table) {
  add_named(table);
  table
      .add_with_in_place("addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, "
                         "Scalar alpha=1) -> Tensor")
      .decompose(addbmm);
  table
      .add_with_in_place("addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar "
                         "alpha=1) -> Tensor")
      .decompose(addr);
  table.add("chain_matmul(Tensor[] matrices) -> Tensor").decompose(chain);
  table.add("linalg_multi_dot(Tensor[] tensors) -> Tensor").decompose(chain);
  table.add("bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor")
      .decompose(bilinear);
  table
      .add("_trilinear(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] "
           "expand3, int[] sumdim, int unroll_dim=1) -> Tensor")
      .decompose(trilinear);
  table
      .add("_addmm_activation(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar "
           "alpha=1, bool use_gelu=False) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        Argument product =
            builder.call("aten.addmm.default", {call["self"], call["mat1"], call["mat2"]},
                         {{"beta", call["beta"]}, {"alpha", call["alpha"]}});
        if (call.boolean("use_gelu"))
          return builder.call("aten.gelu.default", {product}, {{"approximate", "tanh"}});
        return builder.call("aten.relu.default", {product});
      });
  table.add("_int_mm(Tensor self, Tensor mat2) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        if (call.tensor("self").dtype == DType::i8 && call.tensor("mat2").dtype == DType::i8)
          return builder.call("tsc.mm_of_int8.default", {call["self"], call["mat2"]});
        Argument self = convert(builder, call["self"], DType::i32);
        Argument other = convert(builder, call["mat2"], DType::i32);
        return builder.call("aten.mm.default", {self, other});
      });
}

} // namespace tsc::ops
