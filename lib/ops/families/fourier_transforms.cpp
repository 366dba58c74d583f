// torch.fft: ATen's three transforms, and the forms that lead to them.
#include "ops/families/factories.h"
#include "ops/families/fourier.h"
#include "ops/table/complex_calls.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <algorithm>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

Scaling scaling_of_number(const Call &call) {
  const int64_t mode = call.integer("normalization");
  if (mode < 0 || mode > 2)
    call.fail("TSC-O154", call.node().target + ": normalization " + std::to_string(mode),
              "give 0 (none), 1 (by the root of the length) or 2 (by the length)");
  return static_cast<Scaling>(mode);
}

Scaling scaling_of_word(const Call &call, bool forward) {
  const std::string norm = call.string("norm").value_or("backward");
  if (norm == "ortho")
    return Scaling::by_root;
  if (norm != "forward" && norm != "backward")
    call.fail("TSC-O154", call.node().target + ": norm '" + norm + "'",
              "give 'forward', 'backward' or 'ortho'");
  return (norm == "forward") == forward ? Scaling::by_length : Scaling::none;
}

/// Integers as float32; with `complex`, reals as complex numbers.
Argument promoted(GraphBuilder &builder, const Call &call, const Argument &x, bool complex) {
  const DType dtype = builder.meta(x).dtype;
  if (tensor::is_reduced_float(dtype))
    call.refuse("TSC-O150",
                call.node().target + " of " + std::string(tensor::torch_name(dtype)) +
                    " is not supported",
                "convert to float32 first");
  const DType floating = to_floating(dtype);
  return convert(builder, x, complex ? dtype_of_parts(floating) : floating);
}

Argument promoted_real(GraphBuilder &builder, const Call &call, const Argument &x) {
  if (tensor::is_complex(builder.meta(x).dtype))
    call.fail("TSC-O151", call.node().target + " of complex numbers", "give a real tensor");
  return promoted(builder, call, x, false);
}

/// Dimension `dim` cut or filled with zeros to `size`.
Argument resized(GraphBuilder &builder, const Call &call, const Argument &x, size_t dim,
                 Expr size) {
  const TensorMeta meta = builder.meta(x);
  const Expr present = meta.layout.sizes[dim];
  if (present == size)
    return x;
  if (size.is_integer() && size.value() < 1)
    call.fail("TSC-O154",
              call.node().target + ": a transform of " + symbolic::print(size) + " elements",
              "give a length of 1 or more");
  const auto at = static_cast<int64_t>(dim);
  if (symbolic::known_less_equal(size, present, builder.ranges()))
    return builder.call("aten.slice.Tensor", {x, at, 0, size_argument(size)});
  if (!symbolic::known_less_equal(present, size, builder.ranges()))
    call.refuse("TSC-O153",
                call.node().target + " over " + symbolic::print(size) +
                    " elements of a dimension of size " + symbolic::print(present) +
                    ", which may be more or fewer",
                "cut or pad the dimension first");
  Arguments pad;
  for (size_t i = meta.layout.rank(); i-- > dim;) {
    pad.emplace_back(0);
    pad.push_back(i == dim ? size_argument(size - present) : Argument(0));
  }
  return builder.call("aten.constant_pad_nd.default", {x, pad, 0});
}

// ---- ATen's three

std::vector<size_t> dims_of(const Call &call) {
  std::vector<size_t> dims;
  for (const int64_t dim : call.integers("dim"))
    dims.push_back(existing_dim(call, dim, call.tensor("self").layout.rank()));
  return dims;
}

std::vector<size_t> without_last(const Call &call, const std::vector<size_t> &dims) {
  if (dims.empty())
    call.fail("TSC-O154", call.node().target + " over no dimension", "name one or more");
  return {dims.begin(), dims.end() - 1};
}

void add_primitives(Table &table) {
  table.add("_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return fourier_of_complex(builder, call, call["self"], dims_of(call),
                                  scaling_of_number(call), call.boolean("forward"));
      });
  table.add("_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        const std::vector<size_t> dims = dims_of(call);
        without_last(call, dims);
        return fourier_of_real(builder, call, call["self"], dims, scaling_of_number(call), true,
                               call.boolean("onesided"));
      });
  table.add("_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        const std::vector<size_t> dims = dims_of(call), others = without_last(call, dims);
        const Scaling scaling = scaling_of_number(call);
        const Argument rest =
            fourier_of_complex(builder, call, call["self"], others, scaling, false);
        return fourier_to_real(builder, call, rest, dims.back(), call.size("last_dim_size"),
                               scaling);
      });
}

// ---- one dimension

struct OneDimension {
  Argument x;
  size_t dim;
};

OneDimension one_dimension(GraphBuilder &builder, const Call &call, const Argument &x,
                           bool has_size = true) {
  const size_t rank = builder.meta(x).layout.rank();
  const size_t dim = existing_dim(call, call.integer("dim"), rank);
  const bool resizes = has_size && call.has("n");
  return {resizes ? resized(builder, call, x, dim, call.size("n")) : x, dim};
}

Argument conjugate(GraphBuilder &builder, const Argument &x) {
  return builder.call("aten.conj_physical.default", {x});
}

/// fft, ifft: all results. A real signal backward is the conjugate of forward.
Argument all_results(GraphBuilder &builder, const Call &call, bool forward) {
  const auto [x, dim] = one_dimension(builder, call, promoted(builder, call, call["self"], false));
  const Scaling scaling = scaling_of_word(call, forward);
  if (tensor::is_complex(builder.meta(x).dtype))
    return fourier_of_complex(builder, call, x, {dim}, scaling, forward);
  return fourier_of_real(builder, call, x, {dim}, scaling, forward, false);
}

/// The size of the signal, and the half spectrum that says it.
struct Half {
  Argument x;
  Expr size;
};
Half half_spectrum(GraphBuilder &builder, const Call &call, const Argument &x, size_t dim,
                   std::optional<Expr> size) {
  const Expr present = builder.meta(x).layout.sizes[dim];
  const Expr wanted = size ? *size : (present - Expr(1)) * Expr(2);
  if (wanted.is_integer() && wanted.value() < 1)
    call.fail("TSC-O154",
              call.node().target + ": a transform of " + symbolic::print(wanted) + " elements",
              "give a length of 1 or more");
  const Expr half = symbolic::floor_div(wanted, Expr(2)) + Expr(1);
  return {size ? resized(builder, call, x, dim, half) : x, wanted};
}

std::optional<Expr> size_argument_of(const Call &call, std::string_view name) {
  return call.has(name) ? std::optional(call.size(name)) : std::nullopt;
}

Argument to_signal(GraphBuilder &builder, const Call &call, bool forward) {
  const Argument given = promoted(builder, call, call["self"], true);
  const size_t dim = one_dimension(builder, call, given, false).dim;
  const Half half = half_spectrum(builder, call, given, dim, size_argument_of(call, "n"));
  const Argument x = forward ? conjugate(builder, half.x) : half.x;
  return fourier_to_real(builder, call, x, dim, half.size, scaling_of_word(call, forward));
}

Argument from_signal(GraphBuilder &builder, const Call &call, bool forward) {
  const auto [x, dim] = one_dimension(builder, call, promoted_real(builder, call, call["self"]));
  return fourier_of_real(builder, call, x, {dim}, scaling_of_word(call, forward), forward, true);
}

void add_one_dimensional(Table &table) {
  struct Form {
    std::string_view name;
    Argument (*function)(GraphBuilder &, const Call &, bool);
    bool forward;
  };
  for (const Form &form :
       {Form{"fft_fft", all_results, true}, Form{"fft_ifft", all_results, false},
        Form{"fft_rfft", from_signal, true}, Form{"fft_ihfft", from_signal, false},
        Form{"fft_irfft", to_signal, false}, Form{"fft_hfft", to_signal, true}})
    table
        .add(keep_text(std::string(form.name) +
                       "(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor"))
        .decompose([form](GraphBuilder &builder, const Call &call) {
          return form.function(builder, call, form.forward);
        });
}

// ---- several dimensions

struct Extents {
  std::vector<size_t> dims;
  std::vector<std::optional<Expr>> sizes; // nothing: as it is
};

Extents extents_of(const Call &call, size_t rank) {
  Extents extents;
  const bool has_sizes = call.has("s"), has_dims = call.has("dim");
  const Sizes sizes = has_sizes ? call.sizes("s") : Sizes{};
  if (has_dims) {
    for (const int64_t dim : call.integers("dim"))
      extents.dims.push_back(existing_dim(call, dim, rank));
  } else {
    const size_t count = has_sizes ? sizes.size() : rank;
    for (size_t i = count > rank ? 0 : rank - count; i < rank; ++i)
      extents.dims.push_back(i);
  }
  std::vector<size_t> sorted = extents.dims;
  std::sort(sorted.begin(), sorted.end());
  if ((has_sizes && sizes.size() != extents.dims.size()) ||
      std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    call.fail("TSC-O154", call.node().target + ": sizes and dimensions do not fit each other",
              "give one size for each dimension, each dimension once");
  for (size_t i = 0; i < extents.dims.size(); ++i)
    extents.sizes.push_back(has_sizes && sizes[i] != Expr(-1) ? std::optional(sizes[i])
                                                              : std::nullopt);
  return extents;
}

Argument resized_all(GraphBuilder &builder, const Call &call, Argument x, const Extents &extents,
                     size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (extents.sizes[i])
      x = resized(builder, call, x, extents.dims[i], *extents.sizes[i]);
  return x;
}

Argument all_results_n(GraphBuilder &builder, const Call &call, bool forward) {
  Argument x = promoted(builder, call, call["self"], true);
  const Extents extents = extents_of(call, builder.meta(x).layout.rank());
  x = resized_all(builder, call, x, extents, extents.dims.size());
  if (extents.dims.empty())
    return builder.call("aten.clone.default", {x});
  return fourier_of_complex(builder, call, x, extents.dims, scaling_of_word(call, forward),
                            forward);
}

Argument from_signal_n(GraphBuilder &builder, const Call &call, bool forward) {
  Argument x = promoted_real(builder, call, call["self"]);
  const Extents extents = extents_of(call, builder.meta(x).layout.rank());
  without_last(call, extents.dims);
  x = resized_all(builder, call, x, extents, extents.dims.size());
  return fourier_of_real(builder, call, x, extents.dims, scaling_of_word(call, forward), forward,
                         true);
}

Argument to_signal_n(GraphBuilder &builder, const Call &call, bool forward) {
  Argument x = promoted(builder, call, call["self"], true);
  const Extents extents = extents_of(call, builder.meta(x).layout.rank());
  const std::vector<size_t> others = without_last(call, extents.dims);
  x = resized_all(builder, call, x, extents, others.size());
  const size_t last = extents.dims.back();
  const std::optional<Expr> &size = extents.sizes.back();
  const Scaling scaling = scaling_of_word(call, forward);
  // Zeros that fill up the last dimension are none of the others' business.
  const bool grows =
      size && symbolic::known_less_equal(builder.meta(x).layout.sizes[last],
                                         symbolic::floor_div(*size, Expr(2)) + 1, builder.ranges());
  if (grows)
    x = fourier_of_complex(builder, call, x, others, scaling, forward);
  const Half half = half_spectrum(builder, call, x, last, size);
  x = grows ? half.x : fourier_of_complex(builder, call, half.x, others, scaling, forward);
  if (forward)
    x = conjugate(builder, x);
  return fourier_to_real(builder, call, x, last, half.size, scaling);
}

void add_many_dimensional(Table &table) {
  struct Form {
    std::string_view name;
    Argument (*function)(GraphBuilder &, const Call &, bool);
    bool forward;
  };
  for (const Form &form :
       {Form{"fft_fft", all_results_n, true}, Form{"fft_ifft", all_results_n, false},
        Form{"fft_rfft", from_signal_n, true}, Form{"fft_ihfft", from_signal_n, false},
        Form{"fft_irfft", to_signal_n, false}, Form{"fft_hfft", to_signal_n, true}})
    for (const std::string_view suffix :
         {"2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1]", // and over all dimensions
          "n(Tensor self, SymInt[1]? s=None, int[1]? dim=None"})
      table
          .add(keep_text(std::string(form.name) + std::string(suffix) +
                         ", str? norm=None) -> Tensor"))
          .decompose([form](GraphBuilder &builder, const Call &call) {
            return form.function(builder, call, form.forward);
          });
}

// ---- around

/// The zero frequency in the middle, or back.
Argument shifted(GraphBuilder &builder, const Call &call, bool back) {
  const TensorMeta self = call.tensor("self");
  std::vector<size_t> dims;
  if (call.has("dim"))
    for (const int64_t dim : call.integers("dim"))
      dims.push_back(existing_dim(call, dim, self.layout.rank()));
  else
    for (size_t i = 0; i < self.layout.rank(); ++i)
      dims.push_back(i);
  if (dims.empty())
    return builder.call("aten.clone.default", {call["self"]});
  Arguments shifts;
  for (const size_t dim : dims)
    shifts.push_back(
        size_argument(symbolic::floor_div(self.layout.sizes[dim] + Expr(back ? 1 : 0), Expr(2))));
  return builder.call("aten.roll.default", {call["self"], shifts, ints_argument(dims)});
}

/// k / (n d), the upper half of the places counted from -1 down.
Argument frequencies(GraphBuilder &builder, const Call &call, bool onesided) {
  const Expr n = call.size("n");
  const Expr count = onesided ? symbolic::floor_div(n, Expr(2)) + Expr(1) : n;
  const DType dtype = call.dtype("dtype").value_or(DType::f32);
  Argument place = builder.call("prims.iota.default", {size_argument(count)},
                                {{"start", 0},
                                 {"step", 1},
                                 {"dtype", DType::i64},
                                 {"device", device_argument(call, {})},
                                 {"requires_grad", false}});
  if (!onesided) {
    const Expr half = symbolic::floor_div(n + Expr(1), Expr(2));
    const Argument upper = builder.call("aten.ge.Tensor", {place, size_argument(half)});
    place = builder.call(kWhere, {upper, builder.call(kSub, {place, size_argument(n)}), place});
  }
  const Argument wide = convert(builder, place, dtype);
  if (n.is_integer()) {
    const double step = 1.0 / (static_cast<double>(n.value()) * call.number("d"));
    return builder.call(kMul, {wide, step});
  }
  const Argument steps = builder.call(kMul, {wide, 1.0 / call.number("d")});
  return builder.call(kDiv, {steps, size_argument(n)});
}

void add_helpers(Table &table) {
  for (const bool back : {false, true})
    table
        .add(back ? "fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor"
                  : "fft_fftshift(Tensor self, int[1]? dim=None) -> Tensor")
        .decompose([back](GraphBuilder &builder, const Call &call) {
          return shifted(builder, call, back);
        });
  for (const bool onesided : {false, true})
    table
        .add(factory(onesided ? "fft_rfftfreq(SymInt n, float d=1.0"
                              : "fft_fftfreq(SymInt n, float d=1.0"))
        .decompose([onesided](GraphBuilder &builder, const Call &call) {
          return frequencies(builder, call, onesided);
        });
}

} // namespace

void add_fourier_transforms(Table &table) {
  add_fourier_calls(table);
  add_primitives(table);
  add_one_dimensional(table);
  add_many_dimensional(table);
  add_helpers(table);
}

} // namespace tsc::ops
