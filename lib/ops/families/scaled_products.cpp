// Products of 8-bit floats with scales: one for a whole matrix, one a row, one a block of 128.
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <string>

namespace tsc::ops {
namespace {

constexpr int64_t kBlock = 128; // elements that share a scale where blocks do
constexpr std::string_view kForms =
    "give float32 scales: one for a whole matrix, one a row of the first and a column of the "
    "second, or one for blocks of 128 terms of one row, or of 128";

std::string named(const TensorMeta &meta) {
  return std::string(tensor::torch_name(meta.dtype)) + print_sizes(meta.layout.sizes);
}

[[noreturn]] void refuse_form(const Call &call, const std::string &what) {
  call.refuse("TSC-O217", call.node().target + " in a form that is not computed: " + what,
              std::string(kForms));
}

enum class Scale : uint8_t { whole, lines, blocks };

/// How `scale` lies over a matrix of `lines` lines of `terms` terms (rows of the first factor,
/// columns of the second); `turned` has the terms first, as the second factor has.
Scale form_of(const Call &call, std::string_view parameter, Expr lines, Expr terms, bool turned) {
  const TensorMeta &scale = call.tensor(parameter);
  std::vector<Expr> sizes = scale.layout.sizes;
  const auto wrong = [&] { refuse_form(call, "'" + std::string(parameter) + "' " + named(scale)); };
  if (scale.dtype != DType::f32)
    wrong();
  if (symbolic::numel(sizes).is_integer(1))
    return Scale::whole;
  if (sizes.size() != 2)
    wrong();
  if (turned)
    std::swap(sizes[0], sizes[1]);
  const auto blocks = [&](Expr size) {
    return symbolic::simplify(symbolic::ceil_div(size, Expr(kBlock)), call.ranges());
  };
  if (sizes[1].is_integer(1) && taken_equal(call, sizes[0], lines))
    return Scale::lines;
  const bool one_each = same_size(sizes[0], lines, call.ranges()),
             blocks_of_lines = same_size(sizes[0], blocks(lines), call.ranges());
  if (!same_size(sizes[1], blocks(terms), call.ranges()) || !(one_each || blocks_of_lines))
    wrong();
  return Scale::blocks;
}

/// A scale of blocks, one for each element of a matrix of `sizes`.
Argument spread(GraphBuilder &builder, Argument scale, const std::vector<Expr> &sizes) {
  for (size_t dim = 0; dim < 2; ++dim) {
    if (builder.meta(scale).layout.sizes[dim] == sizes[dim])
      continue;
    const auto d = static_cast<int64_t>(dim);
    scale = builder.call("aten.repeat_interleave.self_int", {scale, kBlock, d});
    scale = builder.call("aten.slice.Tensor", {scale, d, 0, size_argument(sizes[dim])});
  }
  return scale;
}

/// a b in f32. Tensor cores add up products of 8-bit floats to fewer bits than f32 has: such sums
/// serve results of 16 bits and less, as PyTorch's do; bf16 holds the factors exactly for others.
Argument product_of(GraphBuilder &builder, const Call &call, DType result) {
  const TensorMeta &a = call.tensor("self"), &b = call.tensor("mat2");
  const auto whole_vectors = [](Expr size) {
    return size.is_integer() && size.value() > 0 && size.value() % 16 == 0;
  };
  if (a.dtype == DType::f8e4m3fn && b.dtype == DType::f8e4m3fn && result != DType::f32 &&
      whole_vectors(b.layout.sizes[0]) && whole_vectors(b.layout.sizes[1]))
    return builder.call("tsc.mm_of_float8.default", {call["self"], call["mat2"]});
  return builder.call("aten.mm.dtype", {convert(builder, call["self"], DType::bf16),
                                        convert(builder, call["mat2"], DType::bf16), DType::f32});
}

void check_factors(const Call &call) {
  const TensorMeta &a = call.tensor("self"), &b = call.tensor("mat2");
  const auto is_factor = [](DType dtype) {
    return tensor::is_float8(dtype) && dtype != DType::f8e8m0fnu;
  };
  if (!is_factor(a.dtype) || !is_factor(b.dtype))
    call.fail("TSC-O127", call.node().target + " of " + named(a) + " and " + named(b),
              "give two matrices of 8-bit floats");
}

DType result_of(const Call &call) {
  const DType dtype = call.dtype("out_dtype").value_or(call.tensor("self").dtype);
  if (!tensor::is_floating(dtype) || dtype == DType::f64 || dtype == DType::f8e8m0fnu)
    call.fail("TSC-O127",
              call.node().target + " with out_dtype " + std::string(tensor::torch_name(dtype)),
              "ask for float32, a 16-bit or an 8-bit float");
  return dtype;
}

/// In f32, rounded once: (a * scale_a) (b * scale_b) + bias.
Argument scaled_product(GraphBuilder &builder, const Call &call) {
  check_factors(call);
  const std::vector<Expr> a = call.tensor("self").layout.sizes,
                          b = call.tensor("mat2").layout.sizes;
  if (a.size() != 2 || b.size() != 2 || !taken_equal(call, a[1], b[0]))
    call.fail("TSC-O040",
              call.node().target + ": sizes " + print_sizes(a) + " and " + print_sizes(b) +
                  " do not multiply",
              "make the last size of the first equal the second last of the second");
  if (call.has("scale_result"))
    refuse_form(call, "'scale_result'");
  const DType result = result_of(call);
  const Scale form_a = form_of(call, "scale_a", a[0], a[1], false),
              form_b = form_of(call, "scale_b", b[1], b[0], true);
  Argument product;
  if (form_a == Scale::blocks || form_b == Scale::blocks) {
    const auto scaled = [&](std::string_view name, std::string_view scale, Scale form,
                            const std::vector<Expr> &sizes) {
      const Argument wide = convert(builder, call[name], DType::f32);
      return builder.call(
          kMul, {wide, form == Scale::blocks ? spread(builder, call[scale], sizes) : call[scale]});
    };
    const Argument left = scaled("self", "scale_a", form_a, a);
    const Argument right = scaled("mat2", "scale_b", form_b, b);
    product = builder.call("aten.mm.default", {left, right});
  } else {
    product = product_of(builder, call, result);
    for (const std::string_view scale : {"scale_a", "scale_b"}) {
      const bool is_whole = (scale == "scale_a" ? form_a : form_b) == Scale::whole;
      const Argument factor =
          is_whole ? builder.call("aten.reshape.default", {call[scale], Arguments{}}) : call[scale];
      product = builder.call(kMul, {product, factor});
    }
  }
  if (const TensorMeta *bias = call.optional_tensor("bias")) {
    if (bias->layout.rank() != 1 || !taken_equal(call, bias->layout.sizes[0], b[1]) ||
        !tensor::is_floating(bias->dtype) || tensor::is_float8(bias->dtype))
      call.fail("TSC-O129", call.node().target + ": 'bias' " + named(*bias),
                "give one number a column of the second matrix");
    product = builder.call(kAdd, {product, convert(builder, call["bias"], DType::f32)});
  }
  return convert(builder, product, result);
}

/// The newer form: lists of scales, each with a recipe that says what its sizes say too.
Argument scaled_product_by_recipe(GraphBuilder &builder, const Call &call) {
  // torch.nn.functional.ScalingType: whole, rows, .., blocks of 1 x 128, of 128 x 128.
  const auto is_known = [](int64_t recipe) { return recipe <= 1 || recipe == 4 || recipe == 5; };
  const auto one = [&](const std::string &which) {
    const std::vector<int64_t> recipes = call.integers("recipe_" + which),
                               swizzles = call.integers("swizzle_" + which);
    const Arguments *scales = call["scale_" + which].list();
    if (scales == nullptr || scales->size() != 1 || recipes.size() != 1 || !is_known(recipes[0]) ||
        (!swizzles.empty() && swizzles != std::vector<int64_t>{0}))
      refuse_form(call, "scales of another recipe, or in another order");
    return scales->front();
  };
  if (!call.integers("contraction_dim").empty())
    refuse_form(call, "'contraction_dim'");
  const Argument scale_a = one("a"), scale_b = one("b");
  return builder.call("aten._scaled_mm.default",
                      {call["self"], call["mat2"], scale_a, scale_b, call["bias"]},
                      {{"out_dtype", call["out_dtype"]}});
}

} // namespace

void add_scaled_products(Table &table) {
  table
      .add("_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? "
           "bias=None, Tensor? scale_result=None, ScalarType? out_dtype=None, bool "
           "use_fast_accum=False) -> Tensor")
      .decompose(scaled_product);
  table
      .add("_scaled_mm_v2(Tensor self, Tensor mat2, Tensor[] scale_a, int[] recipe_a, int[] "
           "swizzle_a, Tensor[] scale_b, int[] recipe_b, int[] swizzle_b, Tensor? bias, "
           "ScalarType? out_dtype, int[] contraction_dim=[], bool use_fast_accum=False) -> Tensor")
      .decompose(scaled_product_by_recipe);
}

} // namespace tsc::ops
