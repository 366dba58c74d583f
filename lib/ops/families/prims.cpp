// The primitives of PyTorch's own decompositions (prims.*), which graphs traced with them hold:
// most are an aten operator by another name. Dtypes are not promoted: a graph has equal ones.
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <algorithm>
#include <functional>
#include <optional>

namespace tsc::ops {
namespace {

struct SecondName {
  std::string_view name, target; // target: aten's, "" if it is aten.NAME.default
};

/// Functions of one tensor.
constexpr SecondName kUnary[] = {
    {"abs", ""},
    {"acos", ""},
    {"acosh", ""},
    {"asin", ""},
    {"asinh", ""},
    {"atan", ""},
    {"atanh", ""},
    {"bessel_i0", "aten.i0.default"},
    {"bessel_i0e", "aten.special_i0e.default"},
    {"bessel_i1", "aten.special_i1.default"},
    {"bessel_i1e", "aten.special_i1e.default"},
    {"bessel_j0", "aten.special_bessel_j0.default"},
    {"bessel_j1", "aten.special_bessel_j1.default"},
    {"bitwise_not", ""},
    {"ceil", ""},
    {"cos", ""},
    {"cosh", ""},
    {"digamma", ""},
    {"erf", ""},
    {"erf_inv", "aten.erfinv.default"},
    {"erfc", ""},
    {"erfcx", "aten.special_erfcx.default"},
    {"exp", ""},
    {"exp2", ""},
    {"expm1", ""},
    {"floor", ""},
    {"isfinite", ""},
    {"lgamma", ""},
    {"log", ""},
    {"log10", ""},
    {"log1p", ""},
    {"log2", ""},
    {"ndtri", "aten.special_ndtri.default"},
    {"neg", ""},
    {"reciprocal", ""},
    {"round", ""},
    {"rsqrt", ""},
    {"sign", ""},
    {"sin", ""},
    {"sinh", ""},
    {"spherical_bessel_j0", "aten.special_spherical_bessel_j0.default"},
    {"sqrt", ""},
    {"tan", ""},
    {"tanh", ""},
    {"trunc", ""},
};

/// Functions of two tensors; a missing target is aten.NAME.Tensor here.
constexpr SecondName kBinary[] = {
    {"add", ""},
    {"atan2", "aten.atan2.default"},
    {"bitwise_and", ""},
    {"bitwise_or", ""},
    {"bitwise_xor", ""},
    {"eq", ""},
    {"fmax", "aten.fmax.default"},
    {"fmin", "aten.fmin.default"},
    {"fmod", ""},
    {"gcd", "aten.gcd.default"},
    {"ge", ""},
    {"gt", ""},
    {"hypot", "aten.hypot.default"},
    {"igamma", "aten.igamma.default"},
    {"igammac", "aten.igammac.default"},
    {"le", ""},
    {"lt", ""},
    {"maximum", "aten.maximum.default"},
    {"minimum", "aten.minimum.default"},
    {"mul", ""},
    {"ne", ""},
    {"nextafter", "aten.nextafter.default"},
    {"pow", "aten.pow.Tensor_Tensor"},
    {"remainder", ""},
    {"shift_left", "aten.bitwise_left_shift.Tensor"},
    {"shift_right_arithmetic", "aten.bitwise_right_shift.Tensor"},
    {"sub", ""},
    {"zeta", "aten.special_zeta.default"},
};

/// The whole schema without "prims::", for an aten operator that takes the same positions.
constexpr SecondName kOthers[] = {
    {"as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt "
     "storage_offset) -> Tensor",
     "aten.as_strided_scatter.default"},
    {"cat(Tensor[] tensors, int dim) -> Tensor", "aten.cat.default"},
    {"fill(Tensor self, Scalar value) -> Tensor", "aten.fill.Scalar"},
    {"frexp(Tensor self) -> (Tensor mantissa, Tensor exponent)", "aten.frexp.Tensor"},
    {"rev(Tensor a, int[] dims) -> Tensor", "aten.flip.default"},
    {"where(Tensor pred, Tensor a, Tensor b) -> Tensor", "aten.where.self"},
};
constexpr SecondName kViews[] = {
    {"as_strided(Tensor(a) a, SymInt[] size, SymInt[] stride, SymInt storage_offset) -> Tensor(a)",
     "aten.as_strided.default"},
    {"squeeze(Tensor(a) a, int[] dimensions) -> Tensor(a)", "aten.squeeze.dims"},
    {"transpose(Tensor(a) a, int[] permutation) -> Tensor(a)", "aten.permute.default"},
    {"view_of_dtype(Tensor(a) a, ScalarType dtype) -> Tensor(a)", "aten.view.dtype"},
};

/// Calls `target` with all arguments in the schema's order.
Decomposition as(std::string_view target) {
  return [target](GraphBuilder &builder, const Call &call) {
    Arguments arguments;
    for (const Parameter &parameter : call.schema().parameters)
      arguments.push_back(call[parameter.name]);
    return builder.call(target, arguments);
  };
}

Row add_prim(Table &table, std::string_view schema) {
  return table.add(keep_text("prims::" + std::string(schema)));
}

void add_second_names(Table &table) {
  const auto target_of = [](const SecondName &row, std::string_view overload) {
    return !row.target.empty() ? row.target
                               : keep_text("aten." + std::string(row.name) + std::string(overload));
  };
  for (const SecondName &row : kUnary)
    add_prim(table, std::string(row.name) + "(Tensor self) -> Tensor")
        .decompose(as(target_of(row, ".default")));
  for (const SecondName &row : kBinary)
    add_prim(table, std::string(row.name) + "(Tensor self, Tensor other) -> Tensor")
        .decompose(as(target_of(row, ".Tensor")));
  for (const SecondName &row : kOthers)
    add_prim(table, row.name).decompose(as(row.target));
  for (const SecondName &row : kViews)
    add_prim(table, row.name).effect(Effect::view).decompose(as(row.target));
}

// ---- arithmetic of its own

/// Integers are divided toward zero.
Argument divide(GraphBuilder &builder, const Call &call) {
  const DType dtype = promote_operands(elementwise_operands(call, {"self", "other"}));
  if (!tensor::is_integral(dtype, true))
    return builder.call(kDiv, {call["self"], call["other"]});
  return builder.call("aten.div.Tensor_mode", {call["self"], call["other"]},
                      {{"rounding_mode", "trunc"}});
}

Argument cube_root(GraphBuilder &builder, const Call &call) {
  const DType dtype = call.tensor("self").dtype;
  const Argument x = widen_to_floating(builder, call["self"]);
  const Argument size = builder.call("aten.abs.default", {x});
  const Argument root = builder.call("aten.pow.Tensor_Scalar", {size, 1.0 / 3});
  return convert(builder, builder.call("aten.copysign.Tensor", {root, x}), dtype);
}

/// The largest element, and the sum of exp(a - largest), along one dimension.
Argument softmax_parts(GraphBuilder &builder, const Call &call) {
  const DType dtype = call.tensor("a").dtype;
  const Argument x = widen(builder, call["a"]);
  const Argument dims = Arguments{call["dim"]};
  const Argument largest = builder.call("aten.amax.default", {x, dims, true});
  const Argument power = builder.call("aten.exp.default", {builder.call(kSub, {x, largest})});
  const Argument sum = builder.call("aten.sum.dim_IntList", {power, dims, true});
  return Arguments{convert(builder, largest, dtype), convert(builder, sum, dtype)};
}

void add_arithmetic(Table &table) {
  add_prim(table, "div(Tensor self, Tensor other) -> Tensor").decompose(divide);
  add_prim(table, "cbrt(Tensor self) -> Tensor").decompose(cube_root);
  // PyTorch's rule gives it the tensor's dtype; what uses it converts it to bool.
  add_prim(table, "signbit(Tensor self) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return convert(builder, builder.call("aten.signbit.default", {call["self"]}),
                       call.tensor("self").dtype);
      });
  add_prim(table, "fma(Tensor a, Tensor b, Tensor c) -> Tensor")
      .shape(elementwise(Promotion::common, {"a", "b", "c"}))
      .lowers("fma");
  add_prim(table, "prepare_softmax_online(Tensor a, int dim) -> (Tensor, Tensor)")
      .decompose(softmax_parts);
}

// ---- reductions: of no dimension, if the list of them is empty, unlike aten's

/// The dimensions that are reduced; nothing if none is.
std::optional<Argument> reduced(const Call &call) {
  const Arguments *dims = call["dims"].list();
  if (dims != nullptr && dims->empty() && call.tensor("inp").layout.rank() != 0)
    return std::nullopt;
  return dims != nullptr ? call["dims"] : Argument(Arguments{});
}
DType output_dtype(const Call &call) {
  return call.dtype("output_dtype").value_or(call.tensor("inp").dtype);
}

Decomposition reduction(std::string_view target) {
  return [target](GraphBuilder &builder, const Call &call) {
    const DType dtype = output_dtype(call);
    const std::optional<Argument> dims = reduced(call);
    Argument result = call["inp"];
    if (target == "aten.sum.dim_IntList" && dims)
      return builder.call(target, {result, *dims, false}, {{"dtype", dtype}});
    if (dims)
      result = builder.call(target, {result, *dims, false});
    return convert(builder, result, dtype);
  };
}

/// One dimension after another, the last first.
Argument product(GraphBuilder &builder, const Call &call) {
  const DType dtype = output_dtype(call);
  const size_t rank = call.tensor("inp").layout.rank();
  Argument result = convert(builder, call["inp"], dtype);
  if (!reduced(call))
    return result;
  std::vector<size_t> dims = reduced_dims(call, "dims", rank);
  std::sort(dims.rbegin(), dims.rend());
  for (const size_t dim : dims)
    result = builder.call("aten.prod.dim_int", {result, static_cast<int64_t>(dim), false},
                          {{"dtype", dtype}});
  return result;
}

Argument variance(GraphBuilder &builder, const Call &call) {
  const std::optional<Argument> dims = reduced(call);
  Keywords keywords = {{"correction", call["correction"]}, {"keepdim", false}};
  if (dims)
    return convert(builder, builder.call("aten.var.correction", {call["inp"], *dims}, keywords),
                   output_dtype(call));
  const Argument column = builder.call("aten.unsqueeze.default", {call["inp"], -1});
  return convert(builder, builder.call("aten.var.correction", {column, Arguments{-1}}, keywords),
                 output_dtype(call));
}

Argument exclusive_or(GraphBuilder &builder, const Call &call) {
  const DType dtype = call.tensor("inp").dtype;
  if (tensor::is_floating(dtype) || tensor::is_complex(dtype))
    call.fail("TSC-O127", call.node().target + " of " + std::string(tensor::torch_name(dtype)),
              "give integers or booleans");
  Argument result =
      dtype == DType::boolean ? convert(builder, call["inp"], DType::u8) : call["inp"];
  if (const std::optional<Argument> dims = reduced(call))
    result = builder.call("tsc.xor_sum.default", {result, *dims, false});
  return convert(builder, result, output_dtype(call));
}

void add_reductions_of_prims(Table &table) {
  constexpr std::string_view kRest =
      "(Tensor inp, int[]? dims, *, ScalarType? output_dtype=None) -> "
      "Tensor";
  const auto named = [&](std::string_view name) { return std::string(name) + std::string(kRest); };
  add_prim(table, named("amax")).decompose(reduction("aten.amax.default"));
  add_prim(table, named("amin")).decompose(reduction("aten.amin.default"));
  add_prim(table, named("sum")).decompose(reduction("aten.sum.dim_IntList"));
  add_prim(table, named("prod")).decompose(product);
  add_prim(table, named("xor_sum")).decompose(exclusive_or);
  add_prim(table, "var(Tensor inp, int[]? dims, float? correction=1, *, ScalarType? "
                  "output_dtype=None) -> Tensor")
      .decompose(variance);
}

// ---- shapes

/// A view with new dimensions where `broadcast_dimensions` names none, expanded to `shape`.
Argument broadcast_in_dim(GraphBuilder &builder, const Call &call) {
  const std::vector<int64_t> kept = call.integers("broadcast_dimensions");
  const size_t rank = call.sizes("shape").size();
  const bool ascending =
      std::is_sorted(kept.begin(), kept.end(), std::less_equal<>()) &&
      (kept.empty() || (kept.front() >= 0 && kept.back() < static_cast<int64_t>(rank)));
  if (!ascending || kept.size() != call.tensor("a").layout.rank())
    call.fail("TSC-O024",
              call.node().target + ": the dimensions do not name each of the " +
                  std::to_string(call.tensor("a").layout.rank()) + " dimensions once, in order",
              "give each dimension of the tensor its place in the shape");
  Argument result = call["a"];
  for (size_t axis = 0; axis < rank; ++axis)
    if (std::find(kept.begin(), kept.end(), static_cast<int64_t>(axis)) == kept.end())
      result = builder.call("aten.unsqueeze.default", {result, static_cast<int64_t>(axis)});
  return builder.call("aten.expand.default", {result, call["shape"]});
}

/// The sizes with the dimensions from `start` to `end`, the latter included, as one.
Argument collapsed_sizes(const Call &call) {
  std::vector<Expr> sizes = call.tensor("a").layout.sizes;
  const int64_t rank = std::max<int64_t>(1, static_cast<int64_t>(sizes.size()));
  const int64_t start = call.integer("start"), end = call.integer("end");
  for (const int64_t dim : {start, end})
    if (dim < 0 || dim >= rank)
      call.fail("TSC-O021",
                call.node().target + ": dimension " + std::to_string(dim) + " is not in [0, " +
                    std::to_string(rank - 1) + "]",
                "use a dimension of the tensor");
  if (end < start)
    call.fail("TSC-O021",
              call.node().target + ": dimension " + std::to_string(end) + " is before dimension " +
                  std::to_string(start),
              "give the first dimension first");
  if (sizes.empty())
    return sizes_argument({Expr(1)});
  const auto first = sizes.begin() + start, last = sizes.begin() + end + 1;
  const Expr length = symbolic::numel(std::vector<Expr>(first, last));
  sizes.erase(first + 1, last);
  sizes[static_cast<size_t>(start)] = length;
  return sizes_argument(sizes);
}

Argument contiguous_copy(GraphBuilder &builder, const Argument &x) {
  return builder.call("aten.clone.default", {x},
                      {{"memory_format", graph::MemoryFormat::contiguous}});
}

Argument split_dimension(GraphBuilder &builder, const Call &call) {
  std::vector<Expr> sizes = call.tensor("a").layout.sizes;
  const size_t dim = existing_dim(call, call.integer("dim"), sizes.size());
  const Expr outer = call.size("outer_length"), inner = symbolic::floor_div(sizes[dim], outer);
  sizes[dim] = outer;
  sizes.insert(sizes.begin() + static_cast<ptrdiff_t>(dim) + 1, inner);
  return builder.call("aten.view.default", {call["a"], sizes_argument(sizes)});
}

/// A copy, or the tensor itself where it has them, of given strides.
Decomposition with_strides(std::string_view source) {
  return [source](GraphBuilder &builder, const Call &call) {
    const tensor::Layout wanted{call.tensor(source).layout.sizes, call.sizes("stride")};
    if (wanted.sizes.size() != wanted.strides.size())
      call.fail("TSC-O079",
                call.node().target + ": " + std::to_string(wanted.sizes.size()) + " sizes and " +
                    std::to_string(wanted.strides.size()) + " strides",
                "give each dimension a stride");
    if (!is_non_overlapping_and_dense(wanted, call.ranges()))
      call.refuse("TSC-O002", call.node().target + " with strides that leave gaps or overlap",
                  "give strides of a dense tensor");
    return builder.emit("tsc.clone_strided.default", {call[source], call["stride"]});
  };
}

void add_shapes(Table &table) {
  add_prim(table,
           "broadcast_in_dim(Tensor(a) a, SymInt[] shape, int[] broadcast_dimensions) -> Tensor(a)")
      .effect(Effect::view)
      .decompose(broadcast_in_dim);
  add_prim(table, "collapse_view(Tensor(a) a, int start, int end) -> Tensor(a)")
      .effect(Effect::view)
      .decompose([](GraphBuilder &builder, const Call &call) {
        return builder.call("aten.view.default", {call["a"], collapsed_sizes(call)});
      });
  add_prim(table, "collapse(Tensor a, int start, int end) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return builder.call("aten.view.default",
                            {contiguous_copy(builder, call["a"]), collapsed_sizes(call)});
      });
  add_prim(table, "reshape(Tensor a, SymInt[] shape) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return builder.call("aten.view.default",
                            {contiguous_copy(builder, call["a"]), call["shape"]});
      });
  add_prim(table, "split_dim(Tensor(a) a, int dim, SymInt outer_length) -> Tensor(a)")
      .effect(Effect::view)
      .decompose(split_dimension);
  add_prim(table, "clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return builder.call("aten.clone.default", {call["self"]},
                            {{"memory_format", call["memory_format"]}});
      });
  table.add("tsc::clone_strided(Tensor self, SymInt[] stride) -> Tensor")
      .shape([](const Call &call) {
        const TensorMeta &self = call.tensor("self");
        return tensor_value(self.dtype, self.layout.sizes, call.sizes("stride"), self.device);
      })
      .passes_elements()
      .lowers("clone");
  add_prim(table, "copy_strided(Tensor a, SymInt[] stride) -> Tensor").decompose(with_strides("a"));
  add_prim(table, "inductor_force_stride_order(Tensor input, SymInt[] stride) -> Tensor")
      .decompose(with_strides("input"));
}

// ---- creation and writing

void add_creation_of_prims(Table &table) {
  struct Factory {
    std::string_view schema, target, first, second;
  };
  const Factory factories[] = {
      {"empty(SymInt[] shape, *, ScalarType dtype, Device device, bool requires_grad) -> Tensor",
       "aten.empty.memory_format", "shape", ""},
      {"empty_strided(SymInt[] shape, SymInt[] strides, *, ScalarType dtype, Device device, bool "
       "requires_grad) -> Tensor",
       "aten.empty_strided.default", "shape", "strides"},
      {"full(SymInt[] shape, Scalar fill_value, *, ScalarType dtype, Device device, bool "
       "requires_grad) -> Tensor",
       "aten.full.default", "shape", "fill_value"},
      {"full_like(Tensor a, Scalar fill_value, *, ScalarType dtype, Device device, bool "
       "requires_grad) -> Tensor",
       "aten.full_like.default", "a", "fill_value"},
      {"scalar_tensor(Scalar s, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
       "aten.scalar_tensor.default", "s", ""}};
  for (const Factory &factory : factories)
    add_prim(table, factory.schema).decompose([factory](GraphBuilder &builder, const Call &call) {
      Arguments arguments = {call[factory.first]};
      if (!factory.second.empty())
        arguments.push_back(call[factory.second]);
      return builder.call(factory.target, arguments,
                          {{"dtype", call["dtype"]}, {"device", call["device"]}});
    });
  table.add("tsc::copy_to(Tensor a, Tensor b) -> Tensor").decompose(as("aten.copy.default"));
  table.add_mutating("prims::copy_to(Tensor(a!) a, Tensor b) -> Tensor(a!)", "tsc.copy_to.default");
  table.add_mutating("prims::_unsafe_index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, "
                     "bool accumulate=False) -> Tensor(a!)",
                     "aten.index_put.default");
}

} // namespace

void add_prims(Table &table) {
  add_second_names(table);
  add_arithmetic(table);
  add_reductions_of_prims(table);
  add_shapes(table);
  add_creation_of_prims(table);
}

} // namespace tsc::ops
