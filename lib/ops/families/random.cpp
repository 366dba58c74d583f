// Operators that draw: their numbers are not PyTorch's, their distributions are (docs/random.md).
#include "ops/families/checks.h"
#include "ops/families/draws.h"
#include "ops/families/factories.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "support/text.h"

#include <cmath>

namespace tsc::ops {
namespace {

using Draw = std::function<Argument(GraphBuilder &, const Call &, const DrawnTensor &)>;

/// What a factory draws for: its size, dtype (f32) and device.
DrawnTensor fresh(const Call &call, DType dtype = DType::f32) {
  return {call.sizes("size"), call.dtype("dtype").value_or(dtype), device_argument(call, {})};
}

/// NAME_like and the in-place operators: sizes and strides of self.
Decomposition like_self(Draw draw) {
  return [draw](GraphBuilder &builder, const Call &call) {
    const TensorMeta self = call.tensor("self");
    DrawnTensor result{{}, self.dtype, self.device};
    for (const Parameter &parameter : call.schema().parameters) {
      if (parameter.name == "dtype")
        result.dtype = call.dtype("dtype").value_or(self.dtype);
      if (parameter.name == "device")
        result.device = device_argument(call, self.device);
    }
    return made_like(builder, call, [&](const std::vector<Expr> &sizes) {
      result.sizes = sizes;
      return draw(builder, call, result);
    });
  };
}

void need_floats(const Call &call, DType dtype) {
  if (!tensor::is_floating(dtype))
    call.fail("TSC-O032",
              call.node().target + " of " + std::string(tensor::torch_name(dtype)) +
                  " has no meaning",
              "ask for a floating-point dtype");
}

void need_floats_or_complex(const Call &call, DType dtype) {
  if (!tensor::is_complex(dtype))
    need_floats(call, dtype);
}

Argument plain_uniform(GraphBuilder &builder, const Call &call, const DrawnTensor &result) {
  need_floats_or_complex(call, result.dtype);
  return draw_uniform(builder, result);
}
Argument plain_normal(GraphBuilder &builder, const Call &call, const DrawnTensor &result) {
  need_floats_or_complex(call, result.dtype);
  return draw_normal(builder, result);
}

/// The schema of a factory that is given a generator, which says nothing here (docs/random.md).
std::string_view with_generator(const std::string &parameters) {
  return keep_text(parameters +
                   ", *, Generator? generator=None, ScalarType? dtype=None, Layout? "
                   "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor");
}

void add_uniform_and_normal(Table &table) {
  const std::pair<std::string_view, Draw> forms[] = {{"rand", plain_uniform},
                                                     {"randn", plain_normal}};
  for (const auto &[name, draw] : forms) {
    Draw each = draw;
    table.add(factory(std::string(name) + "(SymInt[] size"))
        .decompose([each](GraphBuilder &builder, const Call &call) {
          return each(builder, call, fresh(call));
        });
    table.add(with_generator(std::string(name) + ".generator(SymInt[] size"))
        .decompose([each](GraphBuilder &builder, const Call &call) {
          return each(builder, call, fresh(call));
        });
    table.add(factory(std::string(name) + "_like(Tensor self", true)).decompose(like_self(draw));
  }
  Draw uniform = [](GraphBuilder &builder, const Call &call, const DrawnTensor &result) {
    need_floats_or_complex(call, result.dtype);
    const double low = call.number("from"), high = call.number("to");
    if (!(low <= high))
      call.fail("TSC-O032",
                call.node().target + ": nothing lies between " + support::python_repr(low) +
                    " and " + support::python_repr(high),
                "pass from <= to");
    return draw_uniform(builder, result, low, high);
  };
  table
      .add_with_in_place(
          "uniform(Tensor self, float from=0, float to=1, *, Generator? generator=None) -> Tensor")
      .decompose(like_self(uniform));
}

double deviation(const Call &call) {
  const double value = call.number("std");
  if (!(value >= 0))
    call.fail("TSC-O032",
              call.node().target + ": the standard deviation is " + support::python_repr(value),
              "pass a number that is not negative");
  return value;
}

/// mean + std * normal over the sizes that both broadcast to; each is a tensor or a number.
Argument normal_of(GraphBuilder &builder, const Call &call) {
  const TensorMeta *mean = call.optional_tensor("mean"), *spread = call.optional_tensor("std");
  const TensorMeta like = mean ? *mean : *spread;
  std::vector<std::vector<Expr>> shapes;
  for (const TensorMeta *each : {mean, spread})
    if (each)
      shapes.push_back(each->layout.sizes);
  if (!spread)
    deviation(call);
  need_floats_or_complex(call, like.dtype);
  Argument numbers = draw_normal(builder, {broadcast(call, shapes), like.dtype, like.device});
  Argument scale = call["std"];
  if (spread) {
    need_floats(call, spread->dtype);
    scale = checked_float(builder, widen(builder, scale), INFINITY, UpperEnd::counts,
                          "standard deviation");
  }
  Argument scaled = builder.call(kMul, {numbers, scale});
  return convert(builder, builder.call(kAdd, {scaled, call["mean"]}), like.dtype);
}

void add_normal(Table &table) {
  Draw normal = [](GraphBuilder &builder, const Call &call, const DrawnTensor &result) {
    need_floats_or_complex(call, result.dtype);
    return draw_normal(builder, result, call.number("mean"), deviation(call));
  };
  const std::string parameters =
      "(Tensor self, float mean=0, float std=1, *, Generator? generator=None) -> Tensor";
  table.add(keep_text("normal_functional" + parameters)).decompose(like_self(normal));
  std::string in_place = "normal_" + parameters + "(a!)";
  in_place.replace(in_place.find("Tensor self"), 11, "Tensor(a!) self");
  table.add_mutating(keep_text(in_place), "aten.normal_functional.default");
  table.add("normal.Tensor_float(Tensor mean, float std=1, *, Generator? generator=None) -> Tensor")
      .decompose(normal_of);
  table.add("normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor")
      .decompose(normal_of);
  table.add("normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor")
      .decompose(normal_of);
  table
      .add("normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, "
           "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
           "pin_memory=None) -> Tensor")
      .decompose([normal](GraphBuilder &builder, const Call &call) {
        return normal(builder, call, fresh(call));
      });
}

/// low + bits mod (high - low): the bias of the remainder is below (high - low) / 2^64.
Argument integers(GraphBuilder &builder, const Call &call, const DrawnTensor &result, Expr low,
                  Expr high) {
  Expr range = symbolic::simplify(high - low, builder.ranges());
  if (range.is_integer() && range.value() <= 0)
    call.fail("TSC-O032",
              call.node().target + ": no integer lies from " + symbolic::print(low) + " to " +
                  symbolic::print(high) + ", which is excluded",
              "pass low < high");
  Argument bits = draw_bits(builder, {result.sizes, DType::i64, result.device});
  Argument rest = builder.call("aten.remainder.Tensor", {bits, size_argument(range)});
  return convert(builder, builder.call(kAdd, {rest, size_argument(low)}), result.dtype);
}

void add_integers(Table &table) {
  auto from_zero = [](GraphBuilder &builder, const Call &call, const DrawnTensor &result) {
    return integers(builder, call, result, Expr(0), call.size("high"));
  };
  auto from_low = [](GraphBuilder &builder, const Call &call, const DrawnTensor &result) {
    return integers(builder, call, result, call.size("low"), call.size("high"));
  };
  for (const std::string_view form :
       {factory("randint(SymInt high, SymInt[] size"),
        with_generator("randint.generator(SymInt high, SymInt[] size")})
    table.add(form).decompose([from_zero](GraphBuilder &builder, const Call &call) {
      return from_zero(builder, call, fresh(call, DType::i64));
    });
  for (const std::string_view form :
       {factory("randint.low(SymInt low, SymInt high, SymInt[] size"),
        with_generator("randint.low_generator(SymInt low, SymInt high, SymInt[] size")})
    table.add(form).decompose([from_low](GraphBuilder &builder, const Call &call) {
      return from_low(builder, call, fresh(call, DType::i64));
    });
  table.add(factory("randint_like(Tensor self, SymInt high", true)).decompose(like_self(from_zero));
  table.add(factory("randint_like.low_dtype(Tensor self, SymInt low, SymInt high", true))
      .decompose(like_self(from_low));
}

/// 1 with the probability that an element of `probabilities` is, in the dtype of `result`.
Argument bernoulli_of(GraphBuilder &builder, const Argument &probabilities,
                      const DrawnTensor &result) {
  const bool wide = builder.meta(probabilities).dtype == DType::f64;
  DrawnTensor drawn{result.sizes, wide ? DType::f64 : DType::f32, result.device};
  Argument numbers = draw_uniform(builder, drawn);
  Argument held =
      checked_float(builder, widen(builder, probabilities), 1, UpperEnd::counts, "probability");
  Argument ones = builder.call("aten.lt.Tensor", {numbers, held});
  return convert(builder, ones, result.dtype);
}

void add_bernoulli(Table &table) {
  table.add("bernoulli(Tensor self, *, Generator? generator=None) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        const TensorMeta self = call.tensor("self");
        need_floats(call, self.dtype);
        return bernoulli_of(builder, call["self"], {self.layout.sizes, self.dtype, self.device});
      });
  Draw of_number = [](GraphBuilder &builder, const Call &call, const DrawnTensor &result) {
    check_probability(call, call.number("p"));
    return convert(builder, draw_bernoulli(builder, result, call.number("p")), result.dtype);
  };
  table.add("bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor")
      .decompose(like_self(of_number));
  table.add("tsc::bernoulli(Tensor self, float p=0.5, *, Generator? generator=None) -> Tensor")
      .decompose(like_self(of_number));
  table.add_mutating("bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? generator=None) "
                     "-> Tensor(a!)",
                     "tsc.bernoulli.default");
  table
      .add_with_in_place(
          "bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        const TensorMeta self = call.tensor("self");
        return bernoulli_of(builder, call["p"], {self.layout.sizes, self.dtype, self.device});
      });
}

void add_exponential(Table &table) {
  Draw exponential = [](GraphBuilder &builder, const Call &call, const DrawnTensor &result) {
    need_floats(call, result.dtype);
    const double rate = call.number("lambd");
    if (!(rate > 0))
      call.fail("TSC-O032", call.node().target + ": the rate is " + support::python_repr(rate),
                "pass a number above 0");
    return draw_exponential(builder, result, rate);
  };
  table
      .add_with_in_place(
          "exponential(Tensor self, float lambd=1, *, Generator? generator=None) -> Tensor")
      .decompose(like_self(exponential));
}

double positive(const Call &call, std::string_view name) {
  const double value = call.number(name);
  if (!(value > 0))
    call.fail("TSC-O032",
              call.node().target + ": " + std::string(name) + " is " + support::python_repr(value),
              "pass a number above 0");
  return value;
}

/// exp of a normal; median + sigma * tan(pi * (u - 1/2)); the number of tries until one of
/// probability p succeeds, ceil(log(u) / log(1 - p)) and at least 1, for u in (0, 1].
void add_transformed(Table &table) {
  const auto wide = [](const DrawnTensor &result) {
    return DrawnTensor{result.sizes, result.dtype == DType::f64 ? DType::f64 : DType::f32,
                       result.device};
  };
  Draw log_normal = [wide](GraphBuilder &builder, const Call &call, const DrawnTensor &result) {
    need_floats(call, result.dtype);
    const double spread = positive(call, "std");
    Argument normal = draw_normal(builder, wide(result), call.number("mean"), spread);
    return convert(builder, builder.call("aten.exp.default", {normal}), result.dtype);
  };
  Draw cauchy = [wide](GraphBuilder &builder, const Call &call, const DrawnTensor &result) {
    need_floats(call, result.dtype);
    const double spread = positive(call, "sigma");
    Argument angle =
        builder.call(kMul, {draw_uniform(builder, wide(result), -0.5, 0.5), std::acos(-1.0)});
    Argument slope = builder.call(kMul, {builder.call("aten.tan.default", {angle}), spread});
    return convert(builder, builder.call(kAdd, {slope, call["median"]}), result.dtype);
  };
  Draw geometric = [wide](GraphBuilder &builder, const Call &call, const DrawnTensor &result) {
    const double p = call.number("p");
    if (!(p > 0 && p < 1))
      call.fail("TSC-O032", call.node().target + ": the probability is " + support::python_repr(p),
                "pass a number between 0 and 1");
    Argument below_one = draw_uniform(builder, wide(result)); // [0, 1)
    Argument u = builder.call("aten.rsub.Scalar", {below_one, 1});
    Argument tries =
        builder.call("aten.ceil.default",
                     {builder.call(kDiv, {builder.call("aten.log.default", {u}), std::log1p(-p)})});
    return convert(builder, builder.call("aten.clamp_min.default", {tries, 1}), result.dtype);
  };
  const std::pair<std::string_view, Draw> forms[] = {
      {"log_normal(Tensor self, float mean=1., float std=2.", log_normal},
      {"cauchy(Tensor self, float median=0., float sigma=1.", cauchy},
      {"geometric(Tensor self, float p", geometric}};
  for (const auto &[name, draw] : forms)
    table
        .add_with_in_place(
            keep_text(std::string(name) + ", *, Generator? generator=None) -> Tensor"))
        .decompose(like_self(draw));
}

/// A category is drawn where weight / exponential is largest (the race of exponential clocks).
Argument multinomial(GraphBuilder &builder, const Call &call) {
  TensorMeta weights = call.tensor("self");
  need_floats(call, weights.dtype);
  const size_t rank = weights.layout.rank();
  if (rank != 1 && rank != 2)
    call.fail("TSC-O035", call.node().target + " of " + std::to_string(rank) + " dimensions",
              "pass [categories] or [rows, categories]");
  const int64_t samples = call.integer("num_samples");
  Argument self = checked_float(builder, widen(builder, call["self"]), INFINITY,
                                UpperEnd::is_outside, "probability");
  const DType dtype = builder.meta(self).dtype;
  std::vector<Expr> sizes = weights.layout.sizes;
  Argument total = builder.call("aten.sum.dim_IntList", {self, Arguments{-1}, true});
  Argument is_empty = builder.call("aten.le.Scalar", {total, 0});
  is_empty = checked_with(builder, convert(builder, is_empty, DType::i64), 1,
                          "the probabilities to draw from sum to 0");
  self = builder.call(kWhere, {builder.call("aten.eq.Scalar", {is_empty, 0}), self, 1});
  if (samples == 1) {
    Argument clocks = draw_exponential(builder, {sizes, dtype, weights.device});
    return builder.call("aten.argmax.default", {builder.call(kDiv, {self, clocks}), -1, true});
  }
  if (!call.boolean("replacement")) {
    Argument clocks = draw_exponential(builder, {sizes, dtype, weights.device});
    Argument race = builder.call(kDiv, {self, clocks});
    return builder.item(builder.call("aten.topk.default", {race, samples, -1, true, true}), 1);
  }
  sizes.insert(sizes.end() - 1, Expr(samples)); // one race a sample
  Argument clocks = draw_exponential(builder, {sizes, dtype, weights.device});
  Argument rows = builder.call("aten.unsqueeze.default", {self, -2});
  return builder.call("aten.argmax.default", {builder.call(kDiv, {rows, clocks}), -1, false});
}

/// The order of random numbers.
Argument randperm(GraphBuilder &builder, const Call &call) {
  DrawnTensor keys{{call.size("n")}, DType::i64, device_argument(call, {})};
  Argument sorted = builder.call("aten.sort.default", {draw_bits(builder, keys), 0, false});
  return convert(builder, builder.item(sorted, 1), call.dtype("dtype").value_or(DType::i64));
}

/// (result, slopes): negative elements times a slope, drawn for each in training, else the middle
/// one. Slopes of others are 1; where none is drawn they are None.
Argument random_leaky_relu(GraphBuilder &builder, const Call &call) {
  const double low = call.number("lower"), high = call.number("upper");
  const TensorMeta self = call.tensor("self");
  if (!call.boolean("training"))
    return Arguments{builder.call("aten.leaky_relu.default", {call["self"], (low + high) / 2}),
                     graph::None{}};
  if (!(low <= high))
    call.fail("TSC-O032",
              call.node().target + ": nothing lies between " + support::python_repr(low) + " and " +
                  support::python_repr(high),
              "pass from <= to");
  Argument x = widen(builder, call["self"]);
  DrawnTensor slopes{self.layout.sizes, builder.meta(x).dtype, self.device};
  const Argument positive = builder.call("aten.gt.Tensor", {x, 0});
  const Argument slope =
      builder.call(kWhere, {positive, 1.0, draw_uniform(builder, slopes, low, high)});
  return Arguments{convert(builder,
                           builder.call(kWhere, {positive, x, builder.call(kMul, {x, slope})}),
                           self.dtype),
                   convert(builder, slope, self.dtype)};
}

} // namespace

void add_random(Table &table) {
  add_uniform_and_normal(table);
  add_normal(table);
  add_integers(table);
  add_bernoulli(table);
  add_exponential(table);
  add_transformed(table);
  table
      .add("multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? "
           "generator=None) -> Tensor")
      .decompose(multinomial);
  table.add(factory("randperm(SymInt n")).decompose(randperm);
  table.add(with_generator("randperm.generator(SymInt n")).decompose(randperm);
  table
      .add_with_in_place("rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.3333333333333333, "
                         "bool training=False, Generator? generator=None) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) -> Argument {
        return (*random_leaky_relu(builder, call).list())[0];
      });
  // The slopes are written to `noise`, for a backward pass.
  table
      .add("rrelu_with_noise_functional(Tensor self, Tensor noise, Scalar lower=0.125, Scalar "
           "upper=0.3333333333333333, bool training=False, Generator? generator=None) -> (Tensor, "
           "Tensor noise_out)")
      .decompose([](GraphBuilder &builder, const Call &call) -> Argument {
        const Argument results = random_leaky_relu(builder, call);
        const Argument &slopes = (*results.list())[1];
        return Arguments{(*results.list())[0], slopes.is_none() ? call["noise"] : slopes};
      });
}

} // namespace tsc::ops
