// An optimizer's step over lists of parameters, and the scaling of gradients in mixed precision.
// Each parameter is computed by itself, in f32 or wider; the step's number and what follows from it
// in f64.
#include "ops/table/pointwise_rules.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "ops/table/term.h"

#include <optional>

namespace tsc::ops {
namespace {

/// All lists are as long as the list of parameters, or empty where the call does without them.
size_t checked_length(const Call &call) {
  const size_t count = call["self"].list()->size();
  for (const Parameter &parameter : call.schema().parameters) {
    const Arguments *list = call[parameter.name].list();
    const bool may_lack =
        parameter.name == "max_exp_avg_sqs" || parameter.name == "momentum_buffer_list";
    if (list && list->size() != count && !(may_lack && list->empty()))
      call.fail("TSC-O077",
                call.node().target + ": " + parameter.name + " has " +
                    std::to_string(list->size()) + " elements, the list has " +
                    std::to_string(count),
                "pass lists of one length");
  }
  return count;
}

/// What one parameter's step reads, and the new values that it leaves.
class Step {
public:
  Step(GraphBuilder &builder, const Call &call, size_t index)
      : builder_(builder), call_(call), index_(index) {}

  GraphBuilder &builder() const { return builder_; }
  /// The element of a list, widened.
  Term element(std::string_view list) const { return raw(list).wide(); }
  /// A number of the call, given as a number or as a tensor, in f64; what is computed with it is
  /// rounded once, by `scalar`.
  Argument number(std::string_view name) const {
    return call_[name].node() ? Term(builder_, call_[name]).as(DType::f64) : call_[name];
  }
  Argument scalar(const Argument &number) const {
    return number.node() ? Term(builder_, number).as(element("self").meta().dtype) : number;
  }
  /// The number of this step in f64.
  Term count() const { return {builder_, raw("state_steps").as(DType::f64)}; }

  /// The gradient as the step takes it: unscaled, of the other sign where it maximizes. Unscaled
  /// gradients are left in the list.
  Term gradient() const {
    Term result = unscaled();
    return call_.boolean("maximize") ? -result : result;
  }
  Argument left_gradient() const {
    return call_.has("grad_scale") ? left("grads", unscaled()) : raw("grads").value();
  }
  /// `value` as the new value of the list's element; the old one where an infinity was found.
  Argument left(std::string_view list, const Term &value) const {
    const Term old = raw(list);
    const Term narrow(builder_, value.as(old.meta().dtype));
    Argument result = call_.has("found_inf")
                          ? where(equal(Term(builder_, call_["found_inf"]), 1), old, narrow).value()
                          : narrow.value();
    builder_.mark_element(result);
    return result;
  }
  Argument kept(std::string_view list) const { return raw(list).value(); }

private:
  GraphBuilder &builder_;
  const Call &call_;
  size_t index_;

  Term raw(std::string_view list) const { return {builder_, call_[list].list()->at(index_)}; }
  Term unscaled() const {
    const Term given = element("grads");
    return call_.has("grad_scale") ? given / call_["grad_scale"] : given;
  }
};

/// a * b of numbers, or of tensors of rank 0.
Argument product(GraphBuilder &builder, const Argument &a, double b) {
  const double *number = std::get_if<double>(&a.value);
  return number ? Argument(*number * b) : (Term(builder, a) * b).value();
}

/// 1 - beta^step in f64.
Term correction(const Step &step, double beta) {
  return 1.0 -
         Term(step.builder(), step.builder().call("aten.pow.Scalar", {beta, step.count().value()}));
}

/// (parameter, gradient, average, average of squares, largest average of squares).
Arguments adam_step(const Call &call, const Step &step, bool decoupled) {
  const double beta1 = call.number("beta1"), beta2 = call.number("beta2"),
               decay = call.number("weight_decay");
  const Argument rate = step.number("lr");
  Term parameter = step.element("self"), gradient = step.gradient();
  if (decay != 0 && decoupled)
    parameter = parameter - parameter * step.scalar(product(step.builder(), rate, decay));
  else if (decay != 0)
    gradient = gradient + parameter * decay;
  const Term old = step.element("exp_avgs");
  const Term average = old + (gradient - old) * (1 - beta1);
  const Term squares = step.element("exp_avg_sqs") * beta2 + square(gradient) * (1 - beta2);
  std::optional<Term> largest;
  if (call.boolean("amsgrad"))
    largest = step.element("max_exp_avg_sqs").then("aten.maximum.default", {squares.value()});
  const Term root = sqrt(correction(step, beta2)), first = correction(step, beta1);
  const Argument size = rate.node() ? (Term(step.builder(), rate) / first).value()
                                    : (call.number("lr") / first).value();
  const Term spread = sqrt(largest ? *largest : squares) / step.scalar(root) + call["eps"];
  parameter = parameter - average / spread * step.scalar(size);
  return {step.left("self", parameter), step.left_gradient(), step.left("exp_avgs", average),
          step.left("exp_avg_sqs", squares),
          largest ? step.left("max_exp_avg_sqs", *largest) : Argument()};
}

/// (parameter, gradient, momentum).
Arguments sgd_step(const Call &call, const Step &step) {
  const double decay = call.number("weight_decay"), momentum = call.number("momentum");
  const Term parameter = step.element("self");
  Term gradient = step.gradient();
  if (decay != 0)
    gradient = gradient + parameter * decay;
  Argument left_momentum;
  if (momentum != 0) {
    const Term moved = call.boolean("is_first_step")
                           ? gradient
                           : step.element("momentum_buffer_list") * momentum +
                                 gradient * (1 - call.number("dampening"));
    left_momentum = step.left("momentum_buffer_list", moved);
    gradient = call.boolean("nesterov") ? gradient + moved * momentum : moved;
  }
  return {step.left("self", parameter - gradient * step.scalar(step.number("lr"))),
          step.left_gradient(), left_momentum};
}

/// (parameter, gradient, sum of squares, number of the step).
Arguments adagrad_step(const Call &call, const Step &step) {
  const double decay = call.number("weight_decay");
  const Term parameter = step.element("self");
  Term gradient = step.gradient();
  if (decay != 0)
    gradient = gradient + parameter * decay;
  const Term total = step.element("state_sums") + square(gradient);
  const Term slower = (step.count() - 1.0) * call["lr_decay"] + 1.0;
  const Argument rate = step.number("lr");
  const Term size = rate.node() ? Term(step.builder(), rate) / slower : call.number("lr") / slower;
  const Term moved = parameter - gradient / (sqrt(total) + call["eps"]) * step.scalar(size.value());
  return {step.left("self", moved), step.left_gradient(), step.left("state_sums", total),
          step.kept("state_steps")};
}

/// Lists by result from steps by element; a result that no step gives is an empty list.
Decomposition over_parameters(std::function<Arguments(const Call &, const Step &)> one) {
  return [one = std::move(one)](GraphBuilder &builder, const Call &call) -> Argument {
    const size_t count = checked_length(call);
    std::vector<Arguments> lists(call.schema().returns.size());
    for (size_t i = 0; i < count; ++i) {
      const Arguments results = one(call, Step(builder, call, i));
      for (size_t k = 0; k < lists.size(); ++k)
        if (!results[k].is_none())
          lists[k].push_back(results[k]);
    }
    Arguments all;
    for (size_t k = 0; k < lists.size(); ++k) { // lists that the step does not touch stay
      const Argument &own = call[call.schema().parameters[k].name];
      all.push_back(lists[k].empty() ? own : Argument(lists[k]));
    }
    return all;
  };
}

/// NAME and NAME_, whose first `written` parameters are the lists that it leaves new values in,
/// with a learning rate that is a number or a tensor.
void add_optimizer(Table &table, const std::string &name, const std::vector<std::string> &lists,
                   size_t written, const std::string &rest,
                   const std::function<Arguments(const Call &, const Step &)> &one) {
  for (const bool tensor_rate : {false, true}) {
    const std::string overload = tensor_rate ? ".tensor_lr" : "";
    std::string plain, marked;
    for (size_t i = 0; i < lists.size(); ++i) {
      plain += "Tensor[] " + lists[i] + ", ";
      marked += (i < written ? "Tensor(" + std::string(1, static_cast<char>('a' + i)) + "!)[] "
                             : "Tensor[] ") +
                lists[i] + ", ";
    }
    const std::string keywords = std::string("*, ") + (tensor_rate ? "Tensor" : "float") + " lr, " +
                                 rest + ", Tensor? grad_scale=None, Tensor? found_inf=None) -> ";
    std::string results = "(";
    for (size_t i = 0; i < written; ++i)
      results += std::string(i == 0 ? "" : ", ") + "Tensor[]";
    table.add(keep_text(name + overload + "(" + plain + keywords + results + ")"))
        .decompose(over_parameters(one));
    table.add_mutating(keep_text(name + "_" + overload + "(" + marked + keywords + "()"),
                       keep_text("aten." + name + (tensor_rate ? ".tensor_lr" : ".default")));
  }
}

Term is_not_finite(const Term &x) {
  return either(x.then("aten.isnan.default"), x.then("aten.isinf.default"));
}

/// (gradients times inv_scale, 1 where one of them was not finite before).
Argument unscale(GraphBuilder &builder, const Call &call) {
  Arguments unscaled;
  Term found = given(builder, call, "found_inf");
  for (const Argument &one : *call["self"].list()) {
    const Term gradient(builder, one);
    unscaled.push_back((gradient.wide() * call["inv_scale"]).as(gradient.meta().dtype));
    builder.mark_element(unscaled.back());
    found = where(is_not_finite(gradient).then("aten.any.default"), 1.0, found);
  }
  return Arguments{unscaled, found.as(call.tensor("found_inf").dtype)};
}

/// (scale, steps since it last changed): less after an infinity, more after enough steps without.
Argument update_scale(GraphBuilder &builder, const Call &call) {
  const Term scale = given(builder, call, "self"), tracker = given(builder, call, "growth_tracker");
  const Term failed = given(builder, call, "found_inf").then("aten.ne.Tensor", {0});
  const Term next = tracker + 1;
  const Term enough = equal(next, call["growth_interval"]);
  const Term grown = scale * call["scale_growth_factor"];
  const Term larger = where(is_not_finite(grown), scale, grown);
  const Term shrunk = scale * call["scale_backoff_factor"];
  const Term zero_if_enough = where(enough, 0, next);
  return Arguments{where(failed, shrunk, where(enough, larger, scale)).as(scale.meta().dtype),
                   where(failed, 0, zero_if_enough).as(tracker.meta().dtype)};
}

} // namespace

void add_optimizers(Table &table) {
  for (const bool decoupled : {false, true})
    add_optimizer(table, decoupled ? "_fused_adamw" : "_fused_adam",
                  {"self", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs", "state_steps"}, 5,
                  "float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool "
                  "maximize",
                  [decoupled](const Call &call, const Step &step) {
                    return adam_step(call, step, decoupled);
                  });
  add_optimizer(table, "_fused_sgd", {"self", "grads", "momentum_buffer_list"}, 3,
                "float weight_decay, float momentum, float dampening, bool nesterov, bool "
                "maximize, bool is_first_step",
                sgd_step);
  add_optimizer(table, "_fused_adagrad", {"self", "grads", "state_sums", "state_steps"}, 4,
                "float lr_decay, float weight_decay, float eps, bool maximize", adagrad_step);
  table
      .add("_amp_foreach_non_finite_check_and_unscale(Tensor[] self, Tensor found_inf, Tensor "
           "inv_scale) -> (Tensor[] self_out, Tensor found_inf_out)")
      .decompose(unscale);
  table.add_mutating("_amp_foreach_non_finite_check_and_unscale_(Tensor(a!)[] self, Tensor(b!) "
                     "found_inf, Tensor inv_scale) -> ()",
                     "aten._amp_foreach_non_finite_check_and_unscale.default");
  table
      .add("_amp_update_scale(Tensor self, Tensor growth_tracker, Tensor found_inf, float "
           "scale_growth_factor, float scale_backoff_factor, int growth_interval) -> (Tensor, "
           "Tensor growth_tracker_out)")
      .decompose(update_scale);
  table.add_mutating("_amp_update_scale_(Tensor(a!) self, Tensor(b!) growth_tracker, Tensor "
                     "found_inf, float scale_growth_factor, float scale_backoff_factor, int "
                     "growth_interval) -> Tensor(a!)",
                     "aten._amp_update_scale.default");
}

} // namespace tsc::ops
