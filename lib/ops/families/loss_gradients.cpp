// Backward forms of losses, in f32 or wider: of the scores, as PyTorch differentiates them.
#include "ops/families/checks.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "ops/table/term.h"

namespace tsc::ops {
namespace {

constexpr int64_t kMean = 1, kSum = 2;

int64_t reduction_of(const Call &call) {
  const int64_t value = call.integer("reduction");
  if (value < 0 || value > kSum)
    call.fail("TSC-O092", call.node().target + ": unknown reduction " + std::to_string(value),
              "use 0 (none), 1 (mean) or 2 (sum)");
  return value;
}

/// The gradient of each element's loss: what comes from above, shared by all elements for a mean.
Term share_of(GraphBuilder &builder, const Call &call, const Expr &count) {
  const Term above = wide(builder, call, "grad_output");
  return reduction_of(call) == kMean ? above / size_argument(count) : above;
}

/// The elementwise losses: the body gets the share, the input and the target, all widened.
using Body = Term (*)(const Call &, const Term &share, const Term &x, const Term &target);
Decomposition gradient(Body body) {
  return [body](GraphBuilder &builder, const Call &call) -> Argument {
    const Term x = wide(builder, call, "self"), target = wide(builder, call, "target");
    const std::vector<Expr> sizes =
        broadcast(call, {x.meta().layout.sizes, target.meta().layout.sizes});
    const Term share = share_of(builder, call, symbolic::numel(sizes));
    const DType dtype = promote_operands(elementwise_operands(call, {"self", "target"}));
    return body(call, share, x, target).as(dtype);
  };
}

Term of_squared_error(const Call &, const Term &g, const Term &x, const Term &target) {
  return (x - target) * 2.0 * g;
}

Term of_smooth_l1(const Call &call, const Term &g, const Term &x, const Term &target) {
  const double beta = call.number("beta");
  const Term apart = x - target;
  const Term line = g * apart.then("aten.sign.default");
  return beta == 0 ? line : where(abs(apart) < beta, g * apart / beta, line);
}

Term of_huber(const Call &call, const Term &g, const Term &x, const Term &target) {
  const double delta = call.number("delta");
  const Term apart = x - target;
  return where(apart < -delta, -(g * delta), where(apart > delta, g * delta, g * apart));
}

/// The slope is bounded where a probability is 0 or 1.
Term of_probabilities(const Call &call, const Term &g, const Term &x, const Term &target) {
  constexpr double kLeast = 1e-12;
  const Term slope = ((1.0 - x) * x).then("aten.maximum.default", {kLeast});
  const Term result = g * (x - target) / slope;
  return call.has("weight") ? result * call["weight"] : result;
}

Term of_soft_margin(const Call &, const Term &g, const Term &x, const Term &target) {
  const Term z = exp(-(x * target));
  return -(target * z) / (z + 1.0) * g;
}

/// The dimension of the classes: the second, or the only one.
size_t class_dim(const TensorMeta &scores) { return scores.layout.rank() > 1 ? 1 : 0; }

/// -weight * gradient at the target's class, 0 at others and where ignored.
Argument of_nll(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const size_t rank = self.layout.rank(), dim = class_dim(self);
  const Term target = given(builder, call, "target");
  if (rank == 0 || target.meta().layout.rank() + 1 != rank)
    call.fail("TSC-O093",
              call.node().target + ": scores of " + std::to_string(rank) +
                  " dimensions, targets of " + std::to_string(target.meta().layout.rank()),
              "pass scores [batch, classes, ..] and targets [batch, ..]");
  Term above = wide(builder, call, "grad_output");
  if (reduction_of(call) == kMean)
    above = above / wide(builder, call, "total_weight");
  const Expr classes = self.layout.sizes[dim];
  const Term valid = target.then("aten.ne.Tensor", {call["ignore_index"]});
  const Term own(builder, checked_range(builder, where(valid, target, 0), classes, "target"));
  Term loss = -above;
  if (call.has("weight"))
    loss =
        loss *
        wide(builder, call, "weight").then("aten.index.Tensor", {Argument(Arguments{own.value()})});
  loss = where(valid, loss, 0.0);
  std::vector<Expr> along(rank - dim, Expr(1));
  along[0] = classes;
  const Term numbers = reshaped(counting(builder, classes, self.device), along);
  const auto column = [&](const Term &x) {
    return x.then("aten.unsqueeze.default", {static_cast<int64_t>(dim)});
  };
  return where(equal(numbers, column(own)), column(loss), 0.0).as(self.dtype);
}

/// What a row's classes add up to: each that comes closer to its own than the margin is pushed away
/// from it.
Argument of_multi_margin(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const Expr classes = last_size(call, "self");
  const int64_t p = call.integer("p");
  if (p != 1 && p != 2)
    call.fail("TSC-O093", call.node().target + ": the power is " + std::to_string(p), "use 1 or 2");
  const Term x = wide(builder, call, "self");
  Term target(builder, checked_range(builder, call["target"], classes, "target"));
  if (self.layout.rank() == 1)
    target = reshaped(target, {});
  const Term column = target.then("aten.unsqueeze.default", {-1});
  const Term is_own = equal(counting(builder, classes, self.device), column);
  const Term z = x - x.then("aten.gather.default", {-1, column.value()}) + call["margin"];
  Term push = p == 1 ? filled(builder, {}, 1.0, x.meta().dtype, self.device) : z * 2.0;
  if (call.has("weight"))
    push = push * wide(builder, call, "weight")
                      .then("aten.index.Tensor", {Argument(Arguments{column.value()})});
  push = where(z > 0, where(is_own, 0.0, push), 0.0);
  const std::vector<size_t> last = {self.layout.rank() - 1};
  const Term moved = where(is_own, -sum(push, last, true), push) / size_argument(classes);
  Term above = wide(builder, call, "grad_output");
  if (above.meta().layout.rank() > 0)
    above = above.then("aten.unsqueeze.default", {-1});
  if (reduction_of(call) == kMean && self.layout.rank() > 1)
    above = above / size_argument(self.layout.sizes[0]);
  return (moved * above).as(self.dtype);
}

/// Rows of class numbers up to the first negative one, every pair of one of them and a class that
/// is none of them: [.., targets, classes].
struct Pairs {
  Term own;       // the targets' one-hot rows
  Term is_target; // [.., classes]
  Term margin;    // 1 - own score + the class's, where it counts, else 0
};
Pairs pairs_of(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const Expr classes = last_size(call, "self");
  const size_t rank = self.layout.rank();
  if (rank == 0 || rank > 2 || call.tensor("target").layout.rank() != rank)
    call.fail("TSC-O093",
              call.node().target + ": scores " + print_sizes(self.layout.sizes) + ", targets " +
                  print_sizes(call.tensor("target").layout.sizes),
              "pass scores and targets [batch, classes]");
  const Term target = given(builder, call, "target"), x = wide(builder, call, "self");
  const Term ended = (target < 0).then("prims.convert_element_type.default", {DType::i64});
  const Term listed = equal(ended.then("aten.cumsum.default", {static_cast<int64_t>(rank - 1)}), 0);
  const Term place(builder, checked_range(builder, where(listed, target, 0), classes, "target"));
  const auto column = [&](const Term &t) { return t.then("aten.unsqueeze.default", {-1}); };
  const auto row = [&](const Term &t) { return t.then("aten.unsqueeze.default", {-2}); };
  const Term own =
      both(equal(counting(builder, classes, self.device), column(place)), column(listed));
  const Term is_target = own.then("aten.any.dims", {ints_argument({rank - 1}), false});
  const Term scores = x.then("aten.gather.default", {-1, place.value()});
  const Term margin = row(x) - column(scores) + 1.0;
  const Term none = both(column(listed), row(is_target.then("aten.logical_not.default")));
  return {own, is_target, where(both(none, margin > 0), margin, 0.0)};
}

/// (loss, whether each class is a target, in the dtype of the scores).
Argument multilabel_margin(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const size_t rank = self.layout.rank();
  if (rank == 0 && call.tensor("target").layout.rank() <= 1) { // a row of one class
    const auto row = [&](std::string_view name) {
      return builder.call("aten.reshape.default", {call[name], Arguments{1}});
    };
    const Argument both = builder.call("aten.multilabel_margin_loss_forward.default",
                                       {row("self"), row("target"), call["reduction"]});
    return Arguments{
        both.list()->at(0),
        builder.call("aten.reshape.default",
                     {both.list()->at(1), sizes_argument(call.tensor("target").layout.sizes)})};
  }
  const Pairs pairs = pairs_of(builder, call);
  Term loss = sum(pairs.margin, {rank - 1, rank}, false) / size_argument(last_size(call, "self"));
  if (reduction_of(call) != 0 && rank > 1)
    loss = loss.then(reduction_of(call) == kMean ? "aten.mean.default" : "aten.sum.default");
  return Arguments{loss.as(self.dtype), pairs.is_target.as(self.dtype)};
}

Argument of_multilabel_margin(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const size_t rank = self.layout.rank();
  const Pairs pairs = pairs_of(builder, call);
  const Term pushes = where(pairs.margin > 0, 1.0, 0.0);
  const Term away = sum(pushes, {rank - 1}, false);
  const Term towards = where(pairs.own, sum(pushes, {rank}, true), 0.0);
  Term above = wide(builder, call, "grad_output");
  if (above.meta().layout.rank() > 0)
    above = above.then("aten.unsqueeze.default", {-1});
  if (reduction_of(call) == kMean && rank > 1)
    above = above / size_argument(self.layout.sizes[0]);
  const Term moved =
      (away - sum(towards, {rank - 1}, false)) / size_argument(last_size(call, "self"));
  return (moved * above).as(self.dtype);
}

} // namespace

void add_loss_gradients(Table &table) {
  const std::string three = "_backward(Tensor grad_output, Tensor self, Tensor target, ";
  const auto add = [&](std::string_view name, std::string_view rest, Decomposition decomposition) {
    table.add(keep_text(std::string(name) + three + std::string(rest) + ") -> Tensor"))
        .decompose(std::move(decomposition));
  };
  add("mse_loss", "int reduction", gradient(of_squared_error));
  add("smooth_l1_loss", "int reduction, float beta", gradient(of_smooth_l1));
  add("huber_loss", "int reduction, float delta", gradient(of_huber));
  add("binary_cross_entropy", "Tensor? weight=None, int reduction=1", gradient(of_probabilities));
  add("soft_margin_loss", "int reduction", gradient(of_soft_margin));
  for (const std::string_view name : {"nll_loss", "nll_loss2d"})
    add(name, "Tensor? weight, int reduction, SymInt ignore_index, Tensor total_weight", of_nll);
  add("multi_margin_loss", "Scalar p, Scalar margin, Tensor? weight=None, int reduction=1",
      of_multi_margin);
  table
      .add("multilabel_margin_loss_forward(Tensor self, Tensor target, int reduction) -> (Tensor "
           "output, Tensor is_target)")
      .decompose(multilabel_margin);
  table.add("multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return multilabel_margin(builder, call).list()->front();
      });
  add("multilabel_margin_loss", "int reduction, Tensor is_target", of_multilabel_margin);
}

} // namespace tsc::ops
