// Loss functions, in f32 or wider; `reduction` is 0 for none, 1 for the mean, 2 for the sum.
#include "ops/families/checks.h"
#include "ops/table/complex_calls.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <cmath>
#include <numbers>

namespace tsc::ops {
namespace {

enum class Reduction : uint8_t { none, mean, sum };

Reduction reduction_of(const Call &call) {
  int64_t value = call.integer("reduction");
  if (value < 0 || value > 2)
    call.fail("TSC-O092", call.node().target + ": unknown reduction " + std::to_string(value),
              "use 0 (none), 1 (mean) or 2 (sum)");
  return static_cast<Reduction>(value);
}

constexpr std::string_view kSum = "aten.sum.default";

Argument reduced(GraphBuilder &builder, const Call &call, const Argument &loss, DType dtype) {
  Reduction reduction = reduction_of(call);
  Argument result = loss;
  if (reduction != Reduction::none)
    result = builder.call(reduction == Reduction::sum ? kSum : "aten.mean.default", {loss});
  return convert(builder, result, dtype);
}

/// A loss that is elementwise but for the reduction: the body gets the widened first two arguments.
using Body = Argument (*)(GraphBuilder &, const Call &, const Argument &, const Argument &);
Decomposition elementwise_loss(Body body, bool of_integers_is_float) {
  return [body, of_integers_is_float](GraphBuilder &builder, const Call &call) {
    std::string_view first = call.schema().parameters[0].name,
                     second = call.schema().parameters[1].name;
    DType dtype = part_dtype(promote_operands(elementwise_operands(call, {first, second})));
    if (of_integers_is_float)
      dtype = to_floating(dtype);
    Argument x = widen(builder, call[first]);
    Argument target = widen(builder, call[second]);
    return reduced(builder, call, body(builder, call, x, target), dtype);
  };
}

Argument distance(GraphBuilder &builder, const Argument &x, const Argument &target) {
  Argument difference = builder.call(kSub, {x, target});
  return builder.call("aten.abs.default", {difference});
}

Argument squared_error(GraphBuilder &builder, const Call &, const Argument &x,
                       const Argument &target) {
  Argument difference = builder.call(kSub, {x, target});
  return builder.call(kMul, {difference, difference});
}

Argument absolute_error(GraphBuilder &builder, const Call &, const Argument &x,
                        const Argument &target) {
  return distance(builder, x, target);
}

Argument smooth_l1(GraphBuilder &builder, const Call &call, const Argument &x,
                   const Argument &target) {
  double beta = call.number("beta");
  Argument z = distance(builder, x, target);
  if (beta == 0)
    return z;
  Argument near = builder.call("aten.lt.Tensor", {z, beta});
  Argument square = builder.call(kMul, {z, z});
  Argument curve = builder.call(kDiv, {builder.call(kMul, {square, 0.5}), beta});
  Argument line = builder.call(kSub, {z, 0.5 * beta});
  return builder.call(kWhere, {near, curve, line});
}

Argument huber(GraphBuilder &builder, const Call &call, const Argument &x, const Argument &target) {
  double delta = call.number("delta");
  Argument z = distance(builder, x, target);
  Argument near = builder.call("aten.le.Tensor", {z, delta});
  Argument square = builder.call(kMul, {z, z});
  Argument curve = builder.call(kMul, {square, 0.5});
  Argument line = builder.call(kSub, {z, 0.5 * delta});
  Argument scaled = builder.call(kMul, {line, delta});
  return builder.call(kWhere, {near, curve, scaled});
}

/// x log(x), 0 where x is 0.
Argument x_log_x(GraphBuilder &builder, const Argument &x) {
  return builder.call("aten.xlogy.Tensor", {x, x});
}

Argument kl_divergence(GraphBuilder &builder, const Call &call, const Argument &x,
                       const Argument &target) {
  if (call.boolean("log_target")) {
    Argument probability = builder.call("aten.exp.default", {target});
    Argument difference = builder.call(kSub, {target, x});
    return builder.call(kMul, {probability, difference});
  }
  Argument entropy = x_log_x(builder, target);
  Argument cross = builder.call(kMul, {target, x});
  return builder.call(kSub, {entropy, cross});
}

Argument weighted(GraphBuilder &builder, const Call &call, const Argument &loss) {
  return call.has("weight") ? builder.call(kMul, {loss, call["weight"]}) : loss;
}

/// Logarithms are kept above -100, as PyTorch does.
Argument cross_entropy_of_probabilities(GraphBuilder &builder, const Call &call,
                                        const Argument &input, const Argument &wanted) {
  Argument x = checked_float(builder, input, 1, UpperEnd::counts, "probability");
  Argument target = checked_float(builder, wanted, 1, UpperEnd::counts, "target");
  Argument log_x = builder.call("aten.log.default", {x});
  log_x = builder.call("aten.maximum.default", {log_x, -100.0});
  Argument negated = builder.call("aten.neg.default", {x});
  Argument log_rest = builder.call("aten.log1p.default", {negated});
  log_rest = builder.call("aten.maximum.default", {log_rest, -100.0});
  Argument rest = builder.call(kSub, {target, 1.0});
  Argument other = builder.call(kMul, {rest, log_rest});
  Argument own = builder.call(kMul, {target, log_x});
  return weighted(builder, call, builder.call(kSub, {other, own}));
}

/// (1 - t) x - (1 + (pos_weight - 1) t) log(sigmoid(x))
Argument cross_entropy_of_logits(GraphBuilder &builder, const Call &call, const Argument &x,
                                 const Argument &target) {
  Argument log_probability = builder.call("aten.log_sigmoid.default", {x});
  if (call.has("pos_weight")) {
    Argument excess = builder.call(kSub, {call["pos_weight"], 1.0});
    Argument share = builder.call(kMul, {excess, target});
    Argument factor = builder.call(kAdd, {share, 1.0});
    log_probability = builder.call(kMul, {factor, log_probability});
  }
  Argument rest = builder.call(kSub, {1.0, target});
  Argument linear = builder.call(kMul, {rest, x});
  return weighted(builder, call, builder.call(kSub, {linear, log_probability}));
}

Argument soft_margin(GraphBuilder &builder, const Call &, const Argument &x,
                     const Argument &target) {
  Argument product = builder.call(kMul, {x, target});
  Argument negated = builder.call("aten.neg.default", {product});
  Argument exponential = builder.call("aten.exp.default", {negated});
  return builder.call("aten.log1p.default", {exponential});
}

Argument hinge_embedding(GraphBuilder &builder, const Call &call, const Argument &x,
                         const Argument &target) {
  Argument gap = builder.call(kSub, {call["margin"], x});
  Argument margin = builder.call("aten.maximum.default", {gap, 0.0});
  Argument not_similar = builder.call("aten.ne.Tensor", {target, 1});
  Argument not_different = builder.call("aten.ne.Tensor", {target, -1});
  Argument first = builder.call(kWhere, {not_similar, margin, 0.0});
  Argument second = builder.call(kWhere, {not_different, x, 0.0});
  return builder.call(kAdd, {first, second});
}

Argument poisson(GraphBuilder &builder, const Call &call, const Argument &x,
                 const Argument &target) {
  Argument loss;
  if (call.boolean("log_input")) {
    Argument rate = builder.call("aten.exp.default", {x});
    Argument product = builder.call(kMul, {target, x});
    loss = builder.call(kSub, {rate, product});
  } else {
    Argument shifted = builder.call(kAdd, {x, call["eps"]});
    Argument log_rate = builder.call("aten.log.default", {shifted});
    Argument product = builder.call(kMul, {target, log_rate});
    loss = builder.call(kSub, {x, product});
  }
  if (!call.boolean("full"))
    return loss;
  // Stirling's approximation of log(target!), from 2 on.
  Argument logarithm = builder.call("aten.log.default", {target});
  Argument power = builder.call(kMul, {target, logarithm});
  Argument falling = builder.call(kSub, {power, target});
  Argument scaled = builder.call(kMul, {target, 2 * std::numbers::pi});
  Argument log_scaled = builder.call("aten.log.default", {scaled});
  Argument half = builder.call(kMul, {log_scaled, 0.5});
  Argument stirling = builder.call(kAdd, {falling, half});
  Argument large = builder.call("aten.gt.Tensor", {target, 1});
  Argument correction = builder.call(kWhere, {large, stirling, 0.0});
  return builder.call(kAdd, {loss, correction});
}

/// The dimension of the classes: the second, or the only one.
size_t class_dim(const TensorMeta &scores) { return scores.layout.rank() > 1 ? 1 : 0; }

struct Picked {
  Argument losses;  // -weight * score of the target's class, 0 where ignored; the target's sizes
  Argument weights; // of the targets, 0 where ignored
  Argument valid;   // bool
};

/// `scores` are logarithms of probabilities, wide.
Picked pick(GraphBuilder &builder, const Call &call, const Argument &scores,
            const Argument &target) {
  TensorMeta meta = builder.meta(scores);
  int64_t dim = static_cast<int64_t>(class_dim(meta));
  size_t target_rank = builder.meta(target).layout.rank();
  if (meta.layout.rank() == 0 || target_rank + 1 != meta.layout.rank())
    call.fail("TSC-O093",
              call.node().target + ": scores of " + std::to_string(meta.layout.rank()) +
                  " dimensions, targets of " + std::to_string(target_rank),
              "pass scores [batch, classes, ..] and targets [batch, ..]");
  if (!tensor::is_integral(builder.meta(target).dtype))
    call.fail("TSC-O093",
              call.node().target + ": targets of " +
                  std::string(tensor::torch_name(builder.meta(target).dtype)),
              "convert the targets to int64");
  Picked result;
  result.valid = builder.call("aten.ne.Tensor", {target, call["ignore_index"]});
  Argument classes = builder.call(kWhere, {result.valid, target, 0});
  classes = checked_range(builder, classes, meta.layout.sizes[class_dim(meta)], "target");
  Argument column = builder.call("aten.unsqueeze.default", {classes, dim});
  Argument own = builder.call("aten.gather.default", {scores, dim, column});
  Argument score = builder.call("aten.squeeze.dims", {own, Arguments{dim}});
  Argument loss = builder.call("aten.neg.default", {score});
  Argument weight = 1.0;
  if (call.has("weight")) {
    weight =
        builder.call("aten.index.Tensor", {widen(builder, call["weight"]), Arguments{classes}});
    loss = builder.call(kMul, {loss, weight});
  }
  result.losses = builder.call(kWhere, {result.valid, loss, 0.0});
  result.weights = call.has("weight")
                       ? builder.call(kWhere, {result.valid, weight, 0.0})
                       : builder.call(kConvert, {result.valid, builder.meta(scores).dtype});
  return result;
}

struct Total {
  Argument loss, weight; // the weight is 0 without a reduction
};
Total total_of(GraphBuilder &builder, const Call &call, const Picked &picked) {
  Reduction reduction = reduction_of(call);
  TensorMeta meta = builder.meta(picked.losses);
  if (reduction == Reduction::none)
    return {picked.losses, builder.call("aten.full.default", {Arguments{}, 0.0},
                                        {{"dtype", meta.dtype}, {"device", meta.device}})};
  Total total;
  total.weight = builder.call(kSum, {picked.weights});
  total.loss = builder.call(kSum, {picked.losses});
  if (reduction == Reduction::mean)
    total.loss = builder.call(kDiv, {total.loss, total.weight});
  return total;
}

Argument nll_loss_with_weight(GraphBuilder &builder, const Call &call) {
  DType dtype = call.tensor("self").dtype;
  Picked picked = pick(builder, call, widen(builder, call["self"]), call["target"]);
  Total total = total_of(builder, call, picked);
  Argument loss = convert(builder, total.loss, dtype);
  return Arguments{loss, convert(builder, total.weight, dtype)};
}

Argument nll_loss(GraphBuilder &builder, const Call &call) {
  return nll_loss_with_weight(builder, call).list()->at(0);
}

/// The weight of each class as [C, 1, ..] so that it broadcasts over [N, C, ..]; or [C].
Argument class_weights(GraphBuilder &builder, const Call &call, size_t rank) {
  Argument weight = widen(builder, call["weight"]);
  for (size_t i = 2; i < rank; ++i)
    weight = builder.call("aten.unsqueeze.default", {weight, -1});
  return weight;
}

/// -sum over the classes of score * weight.
Argument summed_over_classes(GraphBuilder &builder, const Call &call, Argument scores) {
  TensorMeta meta = builder.meta(scores);
  int64_t dim = static_cast<int64_t>(class_dim(meta));
  if (call.has("weight")) {
    Argument weight = class_weights(builder, call, meta.layout.rank());
    scores = builder.call(kMul, {scores, weight});
  }
  Argument sum = builder.call("aten.sum.dim_IntList", {scores, Arguments{dim}});
  return builder.call("aten.neg.default", {sum});
}

/// Targets are probabilities of the classes.
Argument cross_entropy_with_probabilities(GraphBuilder &builder, const Call &call,
                                          const Argument &scores) {
  TensorMeta meta = builder.meta(scores);
  size_t dim = class_dim(meta);
  double smoothing = call.number("label_smoothing");
  Argument target = widen(builder, call["target"]);
  Expr classes = meta.layout.sizes[dim];
  if (smoothing > 0) {
    Argument share = builder.call(kMul, {target, 1 - smoothing});
    Argument even = builder.call("aten.full.default", {Arguments{}, smoothing},
                                 {{"dtype", meta.dtype}, {"device", meta.device}});
    even = builder.call(kDiv, {even, size_argument(classes)});
    target = builder.call(kAdd, {share, even});
  }
  Argument product = builder.call(kMul, {scores, target});
  Argument loss = summed_over_classes(builder, call, product);
  return reduced(builder, call, loss, call.tensor("self").dtype);
}

/// (1 - smoothing) * nll + smoothing / classes * the mean of all classes' losses.
Argument smoothed(GraphBuilder &builder, const Call &call, const Argument &scores,
                  const Picked &picked, const Argument &nll) {
  double smoothing = call.number("label_smoothing");
  TensorMeta meta = builder.meta(scores);
  Argument all = summed_over_classes(builder, call, scores);
  all = builder.call(kWhere, {picked.valid, all, 0.0});
  Reduction reduction = reduction_of(call);
  if (reduction != Reduction::none)
    all = builder.call(kSum, {all});
  if (reduction == Reduction::mean) {
    Argument weight = builder.call(kSum, {picked.weights});
    all = builder.call(kDiv, {all, weight});
  }
  Argument rest = builder.call(kMul, {nll, 1 - smoothing});
  Argument scaled = builder.call(kMul, {all, smoothing});
  scaled = builder.call(kDiv, {scaled, size_argument(meta.layout.sizes[class_dim(meta)])});
  return builder.call(kAdd, {rest, scaled});
}

Argument cross_entropy(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  int64_t dim = static_cast<int64_t>(class_dim(self));
  Argument wide = widen(builder, call["self"]);
  Argument scores = builder.call("aten._log_softmax.default", {wide, dim, false});
  if (tensor::is_floating(call.tensor("target").dtype))
    return cross_entropy_with_probabilities(builder, call, scores);
  Picked picked = pick(builder, call, scores, call["target"]);
  Argument loss = total_of(builder, call, picked).loss;
  if (call.number("label_smoothing") > 0)
    loss = smoothed(builder, call, scores, picked, loss);
  return convert(builder, loss, self.dtype);
}

Argument margin_ranking(GraphBuilder &builder, const Call &call) {
  DType dtype = promote_operands(elementwise_operands(call, {"input1", "input2", "target"}));
  if (!tensor::is_floating(dtype)) // the margin is a float
    dtype = DType::f32;
  Argument first = widen(builder, call["input1"]);
  Argument difference = builder.call(kSub, {call["input2"], first});
  Argument product = builder.call(kMul, {difference, call["target"]});
  Argument shifted = builder.call(kAdd, {product, call["margin"]});
  Argument loss = builder.call("aten.maximum.default", {shifted, 0.0});
  return reduced(builder, call, loss, dtype);
}

Argument cosine_embedding(GraphBuilder &builder, const Call &call) {
  const DType dtype =
      to_floating(promote_operands(elementwise_operands(call, {"input1", "input2"})));
  Argument x = widen(builder, call["input1"]);
  Argument y = widen(builder, call["input2"]);
  auto dot = [&](const Argument &a, const Argument &b) {
    Argument product = builder.call(kMul, {a, b});
    return builder.call("aten.sum.dim_IntList", {product, Arguments{-1}});
  };
  Argument product = dot(x, y);
  Argument x_square = builder.call(kAdd, {dot(x, x), 1e-12});
  Argument y_square = builder.call(kAdd, {dot(y, y), 1e-12});
  Argument squares = builder.call(kMul, {x_square, y_square});
  Argument length = builder.call("aten.sqrt.default", {squares});
  Argument cosine = builder.call(kDiv, {product, length});
  Argument apart = builder.call(kSub, {1.0, cosine});
  Argument beyond = builder.call(kSub, {cosine, call["margin"]});
  Argument close = builder.call("aten.maximum.default", {beyond, 0.0});
  Argument similar = builder.call("aten.eq.Tensor", {call["target"], 1});
  Argument different = builder.call("aten.eq.Tensor", {call["target"], -1});
  Argument first = builder.call(kWhere, {similar, apart, 0.0});
  Argument second = builder.call(kWhere, {different, close, 0.0});
  return reduced(builder, call, builder.call(kAdd, {first, second}), dtype);
}

Argument triplet_margin(GraphBuilder &builder, const Call &call) {
  const DType dtype = part_dtype(to_floating(call.tensor("anchor").dtype));
  const auto wide = [&](std::string_view name) { // integers are subtracted as such
    const bool is_floating = tensor::is_floating(call.tensor(name).dtype);
    return is_floating ? widen_to_floating(builder, call[name]) : call[name];
  };
  auto apart = [&](std::string_view a, std::string_view b) {
    return builder.call("aten.pairwise_distance.default",
                        {wide(a), wide(b), call["p"], call["eps"]});
  };
  Argument positive = apart("anchor", "positive");
  Argument negative = apart("anchor", "negative");
  if (call.boolean("swap"))
    negative = builder.call("aten.minimum.default", {negative, apart("positive", "negative")});
  Argument gap = builder.call(kSub, {positive, negative});
  Argument shifted = builder.call(kAdd, {gap, call["margin"]});
  Argument loss = builder.call("aten.maximum.default", {shifted, 0.0});
  return reduced(builder, call, loss, dtype);
}

/// The mean over the classes of max(0, margin - own + other)^p, the own class left out. What is not
/// above 0 counts nothing, whatever its weight; so does NaN.
Argument multi_margin(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  int64_t p = call.integer("p");
  if (p != 1 && p != 2)
    call.fail("TSC-O093", call.node().target + ": the power is " + std::to_string(p), "use 1 or 2");
  const auto as_row = [&](std::string_view name) { // one element is a row of one class
    const bool is_number = call.tensor(name).layout.rank() == 0;
    return is_number ? builder.call("aten.unsqueeze.default", {call[name], 0}) : call[name];
  };
  Argument x = widen(builder, as_row("self"));
  if (self.layout.rank() == 1 && call.tensor("target").layout.rank() == 1) // a batch of one row
    x = builder.call("aten.unsqueeze.default", {x, 0});
  const Expr classes = self.layout.rank() == 0 ? Expr(1) : self.layout.sizes.back();
  const bool is_one = self.layout.rank() == 0 || // a row and its class have one loss
                      (self.layout.rank() == 1 && call.tensor("target").layout.rank() == 0);
  Argument label = self.layout.rank() == 1 ? call["target"] : as_row("target");
  if (self.layout.rank() == 0)
    label = builder.call("aten.reshape.default", {label, Arguments{}});
  Argument target = checked_range(builder, label, classes, "target");
  Argument column = builder.call("aten.unsqueeze.default", {target, -1});
  Argument own = builder.call("aten.gather.default", {x, -1, column});
  Argument gap = builder.call(kAdd, {builder.call(kSub, {x, own}), call["margin"]});
  Argument counts = builder.call("aten.gt.Tensor", {gap, 0.0});
  Argument loss = p == 2 ? builder.call(kMul, {gap, gap}) : gap;
  if (call.has("weight"))
    loss = builder.call(kMul,
                        {loss, builder.call("aten.index.Tensor",
                                            {widen(builder, call["weight"]), Arguments{column}})});
  Argument numbers = builder.call("aten.arange.default", {size_argument(classes)},
                                  {{"dtype", DType::i64}, {"device", self.device}});
  Argument is_own = builder.call("aten.eq.Tensor", {numbers, column});
  loss = builder.call(kWhere, {counts, loss, 0.0});
  loss = builder.call(kWhere, {is_own, 0.0, loss});
  Argument mean = builder.call("aten.mean.dim", {loss, Arguments{-1}, false});
  if (is_one)
    return convert(builder, builder.call("aten.reshape.default", {mean, Arguments{}}), self.dtype);
  return reduced(builder, call, mean, self.dtype);
}

void add_elementwise(Table &table) {
  struct Form {
    std::string_view schema;
    Body body;
  };
  const Form forms[] = {
      {"mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", squared_error},
      {"l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", absolute_error},
      {"smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.0) -> Tensor",
       smooth_l1},
      {"huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.0) -> Tensor", huber},
      {"kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor",
       kl_divergence},
      {"binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> "
       "Tensor",
       cross_entropy_of_probabilities},
      {"binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? "
       "pos_weight=None, int reduction=1) -> Tensor",
       cross_entropy_of_logits},
      {"soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", soft_margin},
      {"hinge_embedding_loss(Tensor self, Tensor target, float margin=1.0, int reduction=1) -> "
       "Tensor",
       hinge_embedding},
      {"poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int "
       "reduction) -> Tensor",
       poisson}};
  for (const Form &form : forms)
    table.add(form.schema).decompose(elementwise_loss(form.body, form.body == poisson));
}

} // namespace

void add_losses(Table &table) {
  add_elementwise(table);
  for (std::string_view name : {"nll_loss", "nll_loss2d", "nll_loss_nd"})
    table
        .add(keep_text(std::string(name) + "(Tensor self, Tensor target, Tensor? weight=None, int "
                                           "reduction=1, SymInt ignore_index=-100) -> Tensor"))
        .decompose(nll_loss);
  for (std::string_view name : {"nll_loss_forward", "nll_loss2d_forward"})
    table
        .add(keep_text(std::string(name) +
                       "(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt "
                       "ignore_index) -> (Tensor output, Tensor total_weight)"))
        .decompose(nll_loss_with_weight);
  table
      .add("cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, "
           "SymInt ignore_index=-100, float label_smoothing=0.0) -> Tensor")
      .decompose(cross_entropy);
  table
      .add("margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int "
           "reduction=1) -> Tensor")
      .decompose(margin_ranking);
  table
      .add("cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, "
           "int reduction=1) -> Tensor")
      .decompose(cosine_embedding);
  table
      .add("triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, "
           "float p=2.0, float eps=1e-06, bool swap=False, int reduction=1) -> Tensor")
      .decompose(triplet_margin);
  table
      .add("multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? "
           "weight=None, int reduction=1) -> Tensor")
      .decompose(multi_margin);
}

} // namespace tsc::ops
