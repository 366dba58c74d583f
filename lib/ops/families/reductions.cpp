// Reductions and scans. Results are contiguous.
#include "ops/table/complex_calls.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <algorithm>
#include <cmath>

namespace tsc::ops {
namespace {

std::vector<Expr> reduced_sizes(const std::vector<Expr> &sizes, const std::vector<size_t> &dims,
                                bool keep) {
  std::vector<Expr> result;
  for (size_t i = 0; i < sizes.size(); ++i) {
    bool reduced = std::find(dims.begin(), dims.end(), i) != dims.end();
    if (!reduced)
      result.push_back(sizes[i]);
    else if (keep)
      result.push_back(Expr(1));
  }
  return result;
}

/// self reduced over the parameter dim (or all dimensions), as `dtype`.
Value reduced_value(const Call &call, DType dtype, bool has_dim = true) {
  const TensorMeta &self = call.tensor("self");
  std::vector<size_t> dims =
      has_dim ? reduced_dims(call, "dim", self.layout.rank()) : std::vector<size_t>();
  if (!has_dim)
    return contiguous_value(dtype, {}, self.device);
  return contiguous_value(dtype, reduced_sizes(self.layout.sizes, dims, call.boolean("keepdim")),
                          self.device);
}

/// Sums and products of ints and bools are int64.
DType sum_dtype(const Call &call) {
  DType self = call.tensor("self").dtype;
  return call.dtype("dtype").value_or(tensor::is_integral(self, true) ? DType::i64 : self);
}

Expr reduced_count(const TensorMeta &self, const std::vector<size_t> &dims) {
  Expr count(1);
  for (size_t dim : dims)
    count *= self.layout.sizes[dim];
  return count;
}

Argument all_dims() { return Arguments{}; }

/// The sum in f32 or wider over the number of elements.
Argument mean_over(GraphBuilder &builder, const Call &call, const Argument &dim, bool keepdim) {
  const TensorMeta self = call.tensor("self");
  DType dtype = call.dtype("dtype").value_or(self.dtype);
  if (!tensor::is_floating(dtype) && !tensor::is_complex(dtype))
    call.fail("TSC-O036", "aten.mean of " + std::string(tensor::torch_name(dtype)),
              "convert to a floating dtype first");
  std::vector<size_t> dims;
  if (call.schema().parameters.size() > 2)
    dims = reduced_dims(call, "dim", self.layout.rank());
  else
    for (size_t i = 0; i < self.layout.rank(); ++i)
      dims.push_back(i);
  Argument x = convert(builder, call["self"], accumulation_dtype(dtype));
  Argument total = builder.call("aten.sum.dim_IntList", {x, dim, keepdim});
  Argument mean = builder.call(kDiv, {total, size_argument(reduced_count(self, dims))});
  return convert(builder, mean, dtype);
}

void add_sums(Table &table) {
  table.add("tsc::xor_sum(Tensor self, int[] dim, bool keepdim=False) -> Tensor")
      .shape([](const Call &call) { return reduced_value(call, call.tensor("self").dtype); })
      .lowers("xor_sum");
  table
      .add("sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? "
           "dtype=None) -> Tensor")
      .shape([](const Call &call) { return reduced_value(call, sum_dtype(call)); })
      .lowers("sum");
  table.add("sum(Tensor self, *, ScalarType? dtype=None) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return builder.call("aten.sum.dim_IntList", {call["self"], all_dims(), false},
                            {{"dtype", sum_dtype(call)}});
      });
  table
      .add("prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> "
           "Tensor")
      .shape([](const Call &call) { return reduced_value(call, sum_dtype(call)); })
      .lowers("prod");
  table.add("prod(Tensor self, *, ScalarType? dtype=None) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        Expr numel = symbolic::numel(call.tensor("self").layout.sizes);
        Argument flat =
            builder.call("aten.reshape.default", {call["self"], Arguments{size_argument(numel)}});
        return builder.call("aten.prod.dim_int", {flat, 0, false}, {{"dtype", sum_dtype(call)}});
      });
  table.add("mean(Tensor self, *, ScalarType? dtype=None) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return mean_over(builder, call, all_dims(), false);
      });
  table
      .add("mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> "
           "Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return mean_over(builder, call, call["dim"], call.boolean("keepdim"));
      });
}

/// The row "NAME(Tensor self)" is "NAME.dims" over everything, "NAME.dim" over one dimension.
void add_truth(Table &table, std::string_view name) {
  std::string text(name);
  std::string_view target = keep_text("aten." + text + ".dims");
  table.add(keep_text(text + ".dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor"))
      .shape([](const Call &call) {
        bool byte = call.tensor("self").dtype == DType::u8;
        return reduced_value(call, byte ? DType::u8 : DType::boolean);
      })
      .decompose([target](GraphBuilder &builder, const Call &call) {
        const Arguments *dims = call["dim"].list();
        const bool none = dims && dims->empty(); // unlike sum: no dimension, nothing is reduced
        if (tensor::is_complex(call.tensor("self").dtype) && !none)
          return builder.call(target, {convert(builder, call["self"], DType::boolean), call["dim"],
                                       call["keepdim"]});
        if (call.tensor("self").dtype != DType::u8)
          return none ? convert(builder, call["self"], DType::boolean) : builder.keep(call);
        // The result is uint8 too, but 0 or 1.
        Argument truth = convert(builder, call["self"], DType::boolean);
        if (!none)
          truth = builder.call(target, {truth, call["dim"], call["keepdim"]});
        return convert(builder, truth, DType::u8);
      })
      .lowers(name);
  table.add(keep_text(text + ".dim(Tensor self, int dim, bool keepdim=False) -> Tensor"))
      .decompose([target](GraphBuilder &builder, const Call &call) {
        return builder.call(target, {call["self"], Arguments{call["dim"]}, call["keepdim"]});
      });
  table.add(keep_text(text + "(Tensor self) -> Tensor"))
      .decompose([target](GraphBuilder &builder, const Call &call) {
        return builder.call(target, {call["self"], graph::None{}, false});
      });
}

void add_extremes(Table &table) {
  for (std::string_view name : {"max", "min"}) {
    std::string text(name);
    std::string_view value = keep_text("aten.a" + text + ".default");
    std::string_view index = keep_text("aten.arg" + text + ".default");
    table.add(keep_text("a" + text + "(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"))
        .shape([](const Call &call) { return reduced_value(call, call.tensor("self").dtype); })
        .lowers(name == "max" ? "amax" : "amin");
    table
        .add(keep_text("arg" + text + "(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"))
        .shape([](const Call &call) { return reduced_value(call, DType::i64); })
        .lowers(name == "max" ? "argmax" : "argmin");
    table.add(keep_text(text + "(Tensor self) -> Tensor"))
        .decompose([value](GraphBuilder &builder, const Call &call) {
          return builder.call(value, {call["self"], all_dims(), false});
        });
    table
        .add(keep_text(
            text +
            ".dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"))
        .decompose([value, index](GraphBuilder &builder, const Call &call) {
          Argument values =
              builder.call(value, {call["self"], Arguments{call["dim"]}, call["keepdim"]});
          Argument indices = builder.call(index, {call["self"], call["dim"], call["keepdim"]});
          return Arguments{values, indices};
        });
  }
  table
      .add("aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)")
      .decompose([](GraphBuilder &builder, const Call &call) {
        Argument dim = call.has("dim") ? Argument(Arguments{call["dim"]}) : all_dims();
        Argument low = builder.call("aten.amin.default", {call["self"], dim, call["keepdim"]});
        Argument high = builder.call("aten.amax.default", {call["self"], dim, call["keepdim"]});
        return Arguments{low, high};
      });
}

Value var_mean_value(const Call &call) {
  const DType dtype = call.tensor("self").dtype;
  return Value{Value::List{reduced_value(call, part_dtype(dtype)), reduced_value(call, dtype)}};
}

enum class Spread : uint8_t { variance, deviation };

/// The variance of a complex number is the sum of those of its parts.
Argument complex_statistics(GraphBuilder &builder, const Call &call, Spread spread,
                            const Argument &dim, const Argument &correction, bool keepdim) {
  const auto of_part = [&](std::string_view part) {
    return builder.emit("aten.var_mean.correction", {builder.call(part, {call["self"]}), dim},
                        {{"correction", correction}, {"keepdim", keepdim}});
  };
  const Argument re = of_part("tsc.real_part.default"), im = of_part("tsc.imaginary_part.default");
  Argument distance = builder.call(kAdd, {builder.item(re, 0), builder.item(im, 0)});
  if (spread == Spread::deviation)
    distance = builder.call("aten.sqrt.default", {distance});
  return Arguments{
      distance, builder.call("aten.complex.default", {builder.item(re, 1), builder.item(im, 1)})};
}

/// (variance or deviation, mean) with the given correction, computed in f32 or wider and rounded at
/// the end.
Argument statistics(GraphBuilder &builder, const Call &call, Spread spread, const Argument &dim,
                    const Argument &correction, bool keepdim) {
  const TensorMeta self = call.tensor("self");
  if (tensor::is_complex(self.dtype))
    return complex_statistics(builder, call, spread, dim, correction, keepdim);
  if (!tensor::is_floating(self.dtype))
    call.fail("TSC-O036", call.node().target + " of " + std::string(tensor::torch_name(self.dtype)),
              "convert to a floating dtype first");
  Argument x = widen(builder, call["self"]);
  Argument pair = builder.emit("aten.var_mean.correction", {x, dim},
                               {{"correction", correction}, {"keepdim", keepdim}});
  Argument distance = builder.item(pair, 0);
  if (spread == Spread::deviation)
    distance = builder.call("aten.sqrt.default", {distance});
  distance = convert(builder, distance, self.dtype);
  Argument mean = convert(builder, builder.item(pair, 1), self.dtype);
  return Arguments{distance, mean};
}

/// The three ways in which ATen asks for the correction: unbiased, dim + unbiased, dim +
/// correction.
Argument statistics_of(GraphBuilder &builder, const Call &call, Spread spread) {
  bool has_dim = false, has_unbiased = false;
  for (const Parameter &parameter : call.schema().parameters) {
    has_dim = has_dim || parameter.name == "dim";
    has_unbiased = has_unbiased || parameter.name == "unbiased";
  }
  Argument correction = 1;
  if (has_unbiased)
    correction = call.boolean("unbiased") ? 1 : 0;
  else if (call.has("correction"))
    correction = call["correction"];
  if (has_dim && call.has("dim"))
    return statistics(builder, call, spread, call["dim"], correction, call.boolean("keepdim"));
  return statistics(builder, call, spread, all_dims(), correction,
                    has_dim && call.boolean("keepdim"));
}

void add_variances(Table &table) {
  const std::string_view parameters[] = {
      "(Tensor self, bool unbiased=True)",
      ".dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False)",
      ".correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, "
      "bool keepdim=False)"};
  for (std::string_view form : parameters) {
    std::string text(form);
    table.add(keep_text("var" + text + " -> Tensor"))
        .decompose([](GraphBuilder &builder, const Call &call) {
          return builder.item(statistics_of(builder, call, Spread::variance), 0);
        });
    table.add(keep_text("std" + text + " -> Tensor"))
        .decompose([](GraphBuilder &builder, const Call &call) {
          return builder.item(statistics_of(builder, call, Spread::deviation), 0);
        });
    Row row = table.add(keep_text("var_mean" + text + " -> (Tensor, Tensor)"));
    if (form[1] == 'c') {
      row.shape(var_mean_value).lowers("var_mean");
      row.decompose([](GraphBuilder &builder, const Call &call) {
        const DType dtype = call.tensor("self").dtype;
        const bool direct = !tensor::is_reduced_float(dtype) && !tensor::is_complex(dtype) &&
                            call.has("correction");
        return direct ? builder.keep(call) : statistics_of(builder, call, Spread::variance);
      });
    } else {
      row.decompose([](GraphBuilder &builder, const Call &call) {
        return statistics_of(builder, call, Spread::variance);
      });
    }
    table.add(keep_text("std_mean" + text + " -> (Tensor, Tensor)"))
        .decompose([](GraphBuilder &builder, const Call &call) {
          return statistics_of(builder, call, Spread::deviation);
        });
  }
}

Value scan_value(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  normalize_dim(call, call.integer("dim"), self.layout.rank());
  return contiguous_value(sum_dtype(call), self.layout.sizes, self.device);
}

/// n-th difference along a dimension.
Argument diff(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  int64_t n = call.integer("n");
  int64_t dim = static_cast<int64_t>(existing_dim(call, call.integer("dim"), self.layout.rank()));
  if (n == 0) // nothing is joined either
    return builder.call("aten.clone.default", {call["self"]});
  Arguments parts;
  if (call.has("prepend"))
    parts.push_back(call["prepend"]);
  parts.push_back(call["self"]);
  if (call.has("append"))
    parts.push_back(call["append"]);
  Argument x = parts.size() == 1 ? call["self"] : builder.call("aten.cat.default", {parts, dim});
  for (int64_t i = 0; i < n; ++i) {
    TensorMeta meta = builder.meta(x);
    Expr size = meta.layout.sizes[static_cast<size_t>(dim)];
    Argument later = builder.call("aten.slice.Tensor", {x, dim, 1, size_argument(size)});
    Argument earlier =
        builder.call("aten.slice.Tensor", {x, dim, 0, size_argument(size - Expr(1))});
    std::string_view op = meta.dtype == DType::boolean ? "aten.logical_xor.default" : kSub;
    x = builder.call(op, {later, earlier});
  }
  return x;
}

/// The p-norm of linalg.vector_norm for the orders that models use.
Argument vector_norm(GraphBuilder &builder, const Argument &self, double order, const Argument &dim,
                     bool keepdim, DType dtype) {
  if (tensor::is_complex(builder.meta(self).dtype) || tensor::is_complex(dtype)) {
    const Argument typed = tensor::is_complex(dtype) ? convert(builder, self, dtype) : self;
    return vector_norm(builder, builder.call("aten.abs.default", {typed}), order, dim, keepdim,
                       part_dtype(dtype));
  }
  Argument x = widen(builder, convert(builder, self, dtype));
  Argument magnitude = builder.call("aten.abs.default", {x});
  Argument result;
  if (order == INFINITY) {
    result = builder.call("aten.amax.default", {magnitude, dim, keepdim});
  } else if (order == -INFINITY) {
    result = builder.call("aten.amin.default", {magnitude, dim, keepdim});
  } else if (order == 0) {
    Argument nonzero = builder.call("aten.ne.Tensor", {x, 0});
    Argument counted = convert(builder, nonzero, builder.meta(x).dtype);
    result = builder.call("aten.sum.dim_IntList", {counted, dim, keepdim});
  } else {
    Argument powered = order == 1   ? magnitude
                       : order == 2 ? builder.call(kMul, {x, x})
                                    : builder.call("aten.pow.Tensor_Scalar", {magnitude, order});
    result = builder.call("aten.sum.dim_IntList", {powered, dim, keepdim});
    if (order == 2)
      result = builder.call("aten.sqrt.default", {result});
    else if (order != 1)
      result = builder.call("aten.pow.Tensor_Scalar", {result, 1.0 / order});
  }
  return convert(builder, result, dtype);
}

void add_norms(Table &table) {
  auto norm = [](GraphBuilder &builder, const Call &call) {
    bool linalg = call.schema().parameters[1].name == "ord";
    std::string_view order = linalg ? "ord" : "p";
    bool has_dim = call.schema().parameters.size() > 2;
    Argument dim = has_dim && call.has("dim") ? call["dim"] : all_dims();
    if (!dim.list())
      dim = Arguments{dim};
    DType dtype = call.tensor("self").dtype;
    if (linalg)
      dtype = call.dtype("dtype").value_or(dtype);
    return vector_norm(builder, call["self"], call.has(order) ? call.number(order) : 2, dim,
                       has_dim && call.boolean("keepdim"), dtype);
  };
  table
      .add("linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
           "ScalarType? "
           "dtype=None) -> Tensor")
      .decompose(norm);
  table.add("norm.Scalar(Tensor self, Scalar p=2) -> Tensor").decompose(norm);
  table.add("norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor")
      .decompose(norm);
}

} // namespace

void add_reductions(Table &table) {
  add_sums(table);
  add_truth(table, "any");
  add_truth(table, "all");
  add_extremes(table);
  add_variances(table);
  for (std::string_view name : {"cumsum", "cumprod"})
    table
        .add_with_in_place(keep_text(std::string(name) +
                                     "(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"))
        .shape(scan_value)
        .lowers(name);
  table
      .add("diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> "
           "Tensor")
      .decompose(diff);
  add_norms(table);
}

} // namespace tsc::ops
