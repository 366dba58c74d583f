// The connectionist temporal classification loss: the probability of all ways in which a sequence
// of labels, blanks between them, can be spread over steps. tsc.ctc_paths computes the recurrence
// over the steps; everything around it is loops as any others.
#include "ops/families/assertions.h"
#include "ops/families/checks.h"
#include "ops/families/data_sizes.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "ops/table/term.h"

#include <algorithm>
#include <cmath>

namespace tsc::ops {
namespace {

constexpr std::string_view kUnsqueeze = "aten.unsqueeze.default", kIndex = "aten.index.Tensor",
                           kSlice = "aten.slice.Tensor";

/// What sequences are aligned, checked. Lengths are int64 [batch].
struct Sequences {
  Argument scores; // [steps, batch, classes]
  Expr steps = 0, batch = 0, classes = 0;
  Argument inputs, targets;
  std::optional<int64_t> longest; // of the targets, where lengths are numbers
  Expr most = 0;                  // labels that a target can have, as far as sizes tell
  tensor::Device device;
};

/// Integers that the graph names, as a tensor: equal neighbours are one choice.
Term numbers(GraphBuilder &builder, const std::vector<int64_t> &values, tensor::Device device) {
  const Expr count(static_cast<int64_t>(values.size()));
  Term result = filled(builder, {count}, values[0], DType::i64, device);
  const Term place = counting(builder, count, device);
  for (size_t i = 1; i < values.size(); ++i)
    if (values[i] != values[i - 1])
      result = where(place < static_cast<int64_t>(i), result, values[i]);
  return result;
}

/// The lengths `parameter`, each in [0, most].
Argument lengths(GraphBuilder &builder, const Call &call, std::string_view parameter,
                 const Sequences &sequences, Expr most, std::optional<int64_t> *longest) {
  const std::string name(parameter);
  if (call[parameter].list() == nullptr) {
    TensorMeta meta = call.tensor(parameter);
    Argument given = call[parameter];
    if (meta.layout.rank() == 0 && sequences.batch.is_integer(1)) {
      given = builder.call(kUnsqueeze, {given, 0});
      meta = builder.meta(given);
    }
    if (meta.layout.rank() != 1 || !tensor::is_integral(meta.dtype, false) ||
        !taken_equal(call, meta.layout.sizes[0], sequences.batch))
      call.fail("TSC-O094",
                call.node().target + ": " + name + " of sizes " + print_sizes(meta.layout.sizes),
                "pass integers, one for each sequence");
    return checked_range(builder, given, most + Expr(1), name);
  }
  const std::vector<int64_t> values = call.integers(parameter);
  if (values.empty() ||
      !taken_equal(call, Expr(static_cast<int64_t>(values.size())), sequences.batch))
    call.fail("TSC-O094",
              call.node().target + ": " + name + " of " + std::to_string(values.size()) +
                  " sequences",
              "pass one for each sequence");
  for (const int64_t value : values)
    if (value < 0 || (most.is_integer() && value > most.value()))
      call.fail("TSC-O094", call.node().target + ": " + name + " has " + std::to_string(value),
                "pass lengths in [0, " + symbolic::print(most) + "]");
  if (longest != nullptr)
    *longest = *std::max_element(values.begin(), values.end());
  const Term tensor = numbers(builder, values, sequences.device);
  if (most.is_integer())
    return tensor;
  return checked_range(builder, tensor, most + Expr(1), name);
}

Sequences sequences_of(GraphBuilder &builder, const Call &call, bool may_be_one) {
  const TensorMeta meta = call.tensor("log_probs");
  const TensorMeta targets = call.tensor("targets");
  Sequences sequences;
  sequences.scores = call["log_probs"];
  sequences.device = meta.device;
  if (meta.dtype != DType::f32 && meta.dtype != DType::f64)
    call.fail("TSC-O094",
              call.node().target + ": log_probs of " + std::string(tensor::torch_name(meta.dtype)),
              "convert them to float32");
  std::vector<Expr> sizes = meta.layout.sizes;
  if (sizes.size() == 2 && may_be_one) {
    sizes.insert(sizes.begin() + 1, Expr(1));
    sequences.scores = builder.call(kUnsqueeze, {sequences.scores, 1});
  }
  const bool is_flat = targets.layout.rank() == 1;
  if (sizes.size() != 3 || targets.layout.rank() == 0 || targets.layout.rank() > 2 ||
      !tensor::is_integral(targets.dtype, false) ||
      (!is_flat && !taken_equal(call, targets.layout.sizes[0], sizes[1])))
    call.fail(
        "TSC-O094",
        call.node().target + ": log_probs " + print_sizes(meta.layout.sizes) + ", targets " +
            print_sizes(targets.layout.sizes),
        "pass log_probs [steps, batch, classes] and integer targets [batch, labels] or [labels]");
  for (const Expr size : sizes)
    if (size.is_integer(0))
      call.fail("TSC-O094", call.node().target + ": log_probs " + print_sizes(meta.layout.sizes),
                "pass some");
  sequences.steps = sizes[0];
  sequences.batch = sizes[1];
  sequences.classes = sizes[2];
  const int64_t blank = call.integer("blank");
  if (blank < 0 || (sizes[2].is_integer() && blank >= sizes[2].value()))
    call.fail("TSC-O094",
              call.node().target + ": the blank " + std::to_string(blank) + " is none of " +
                  symbolic::print(sizes[2]) + " classes",
              "pass the class that stands for no label");
  sequences.most = targets.layout.sizes.back();
  sequences.inputs = lengths(builder, call, "input_lengths", sequences, sequences.steps, nullptr);
  sequences.targets =
      lengths(builder, call, "target_lengths", sequences, sequences.most, &sequences.longest);
  return sequences;
}

/// The targets as [batch, columns] with the blank behind what counts, each a class. Flat ones lie
/// one sequence behind the other.
Argument labels_of(GraphBuilder &builder, const Call &call, const Sequences &sequences,
                   Expr columns) {
  const TensorMeta meta = call.tensor("targets");
  const Term place = counting(builder, columns, sequences.device);
  const Term ends = Term(builder, sequences.targets).then(kUnsqueeze, {1});
  const Term counts = place < ends;
  Term labels(builder, convert(builder, call["targets"], DType::i64));
  if (meta.layout.rank() == 1) {
    const Term sums = Term(builder, sequences.targets).then("aten.cumsum.default", {0});
    assert_count(builder, Term(builder, sequences.targets).then("aten.sum.default"),
                 meta.layout.sizes[0], "target_lengths that add up to the number of targets");
    const Term at = sums.then(kUnsqueeze, {1}) - ends + place;
    const Term padded = labels.then("aten.constant_pad_nd.default", {Arguments{0, 1}, 0});
    labels =
        padded.then(kIndex, {Arguments{where(counts, at, size_argument(meta.layout.sizes[0]))}});
  } else if (!same_size(meta.layout.sizes[1], columns, call.ranges())) {
    labels = labels.then(kIndex, {Arguments{graph::None{}, place}});
  }
  labels = where(counts, labels, call["blank"]);
  return checked_range(builder, labels, sequences.classes, "target");
}

Term paths(GraphBuilder &builder, const Call &call, const Sequences &sequences,
           const Argument &labels, Expr states, bool backwards) {
  return {builder, builder.call("tsc.ctc_paths.default",
                                {sequences.scores, labels, sequences.inputs, sequences.targets,
                                 size_argument(states), call["blank"], backwards})};
}

/// The loss [batch] of each sequence: what the paths that end at its last label, and at the blank
/// behind it, add up to.
Term losses(GraphBuilder &builder, const Sequences &sequences, const Term &alpha) {
  const Term inputs(builder, sequences.inputs), targets(builder, sequences.targets);
  const Term sequence = counting(builder, sequences.batch, sequences.device);
  const auto ending = [&](const Term &state) {
    const Term last = (inputs - 1).then("aten.clamp_min.default", {0});
    return alpha.then(kIndex, {Arguments{sequence, last, state}});
  };
  const Term blank = ending(targets * 2);
  const Term has_labels = targets > 0;
  const Term label =
      where(has_labels, ending((targets * 2 - 1).then("aten.clamp_min.default", {0})), -INFINITY);
  const Term most = blank.then("aten.maximum.default", {label});
  const Term base = where(equal(most, -INFINITY), 0.0, most);
  const Term sum = where(has_labels, log(exp(blank - base) + exp(label - base)) + base, blank);
  // No steps are one path for no labels, and none for others.
  const Term nothing = where(has_labels, -INFINITY, 0.0);
  return -where(inputs > 0, sum, nothing.as(alpha.meta().dtype));
}

/// The states of log_alpha that the file records, where it names no symbol for them: then targets
/// are padded to that many.
std::optional<Expr> padded_states(const Call &call) {
  const Value::List *list = call.node().value ? call.node().value->list() : nullptr;
  const TensorMeta *meta = list && list->size() == 2 ? (*list)[1].tensor() : nullptr;
  if (!meta || meta->layout.rank() != 3 || meta->layout.sizes[2].is_symbol())
    return std::nullopt;
  return meta->layout.sizes[2];
}

/// Targets of so many states and no more.
void hold_labels(GraphBuilder &builder, Sequences &sequences, Expr states) {
  sequences.targets = checked_range(
      builder, sequences.targets, symbolic::floor_div(states, Expr(2)) + Expr(1), "target_lengths");
}

/// (loss, log_alpha)
Argument ctc_with_paths(GraphBuilder &builder, const Call &call) {
  Sequences sequences = sequences_of(builder, call, false);
  Expr states = 0;
  if (sequences.longest) {
    states = Expr(2 * *sequences.longest + 1);
  } else if (const std::optional<Expr> given = padded_states(call)) {
    states = *given;
    hold_labels(builder, sequences, states);
  } else { // as many as the longest target has
    states = data_size(call, 1, 2);
    const Term longest = Term(builder, sequences.targets).then("aten.amax.default", {Arguments{0}});
    define_size(builder, longest * 2 + 1, states, sequences.most * Expr(2) + Expr(1));
  }
  const Expr columns = symbolic::floor_div(states, Expr(2));
  const Argument labels = labels_of(builder, call, sequences, columns);
  const Term alpha = paths(builder, call, sequences, labels, states, false);
  return Arguments{losses(builder, sequences, alpha), alpha};
}

Argument ctc_loss(GraphBuilder &builder, const Call &call) {
  const bool is_one = call.tensor("log_probs").layout.rank() == 2;
  const Sequences sequences = sequences_of(builder, call, true);
  const Expr columns = sequences.longest ? Expr(*sequences.longest) : sequences.most;
  const Argument labels = labels_of(builder, call, sequences, columns);
  const Term alpha = paths(builder, call, sequences, labels, columns * Expr(2) + Expr(1), false);
  Term loss = losses(builder, sequences, alpha);
  if (call.boolean("zero_infinity"))
    loss = where(equal(loss, INFINITY), 0.0, loss);
  const int64_t reduction = call.integer("reduction");
  if (reduction < 0 || reduction > 2)
    call.fail("TSC-O092", call.node().target + ": unknown reduction " + std::to_string(reduction),
              "use 0 (none), 1 (mean) or 2 (sum)");
  if (reduction == 1) {
    const Term labels_of_each =
        Term(builder, sequences.targets).then("aten.clamp_min.default", {1});
    return (loss / labels_of_each).then("aten.mean.default");
  }
  if (reduction == 2)
    return loss.then("aten.sum.default");
  return is_one ? loss.then("aten.squeeze.dims", {Arguments{0}}) : loss;
}

/// Of the scores before log_softmax, as PyTorch has it: exp(score) minus the share of all paths
/// that have the class at the step. 0 behind a sequence's steps.
Argument ctc_gradient(GraphBuilder &builder, const Call &call) {
  Sequences sequences = sequences_of(builder, call, false);
  const TensorMeta given_alpha = call.tensor("log_alpha");
  const DType dtype = call.tensor("log_probs").dtype;
  bool fits = given_alpha.layout.rank() == 3 && given_alpha.dtype == dtype &&
              taken_equal(call, given_alpha.layout.sizes[0], sequences.batch) &&
              taken_equal(call, given_alpha.layout.sizes[1], sequences.steps);
  for (std::string_view name : {"grad", "neg_log_likelihood"}) {
    const TensorMeta meta = call.tensor(name);
    fits = fits && meta.layout.rank() == 1 && meta.dtype == dtype &&
           taken_equal(call, meta.layout.sizes[0], sequences.batch);
  }
  const Expr states = fits ? given_alpha.layout.sizes[2] : Expr(1);
  if (!fits ||
      (sequences.longest && states.is_integer() && states.value() < 2 * *sequences.longest + 1))
    call.fail("TSC-O094",
              call.node().target + ": log_alpha " + print_sizes(given_alpha.layout.sizes),
              "pass what aten._ctc_loss yields for these sequences");
  const Expr columns = symbolic::floor_div(states, Expr(2));
  if (!sequences.longest || !states.is_integer())
    hold_labels(builder, sequences, states);
  const Argument labels = labels_of(builder, call, sequences, columns);
  const Term beta = paths(builder, call, sequences, labels, states, true);
  const auto outer = [](const Term &x) { return x.then(kUnsqueeze, {1}).then(kUnsqueeze, {2}); };
  const Term step = counting(builder, sequences.steps, sequences.device).then(kUnsqueeze, {1});
  const Term is_step = step < outer(Term(builder, sequences.inputs));
  const Term state = counting(builder, states, sequences.device);
  const Term is_state = state < outer(Term(builder, sequences.targets) * 2 + 1);
  const Term joint =
      where(both(is_step, is_state), given(builder, call, "log_alpha") + beta, -INFINITY);

  const Term nll = outer(given(builder, call, "neg_log_likelihood"));
  const Term scores =
      Term(builder, sequences.scores).then("aten.permute.default", {Arguments{1, 0, 2}});
  const auto every_second = [&](int64_t first) {
    return joint.then(kSlice, {2, first, size_argument(states), 2});
  };
  // The state's share. Blanks are the even states, and all one class.
  const Term of_blank = scores.then(kSlice, {2, call["blank"], call.integer("blank") + 1, 1});
  const Term blanks = sum(exp(every_second(0) + nll - of_blank), {2}, true);
  // A class that no state has: 0, or NaN where there is nothing to share.
  Term shares = exp(nll - scores + -INFINITY);
  const Term is_blank =
      equal(counting(builder, sequences.classes, sequences.device), call["blank"]);
  shares = where(is_blank, blanks, shares);
  if (!columns.is_integer(0)) {
    const Term of_each = expanded(Term(builder, labels).then(kUnsqueeze, {1}),
                                  {sequences.batch, sequences.steps, columns});
    const Term own = scores.then("aten.gather.default", {2, of_each});
    shares =
        shares.then("aten.scatter_add.default", {2, of_each, exp(every_second(1) + nll - own)});
  }
  Term result = (exp(scores) - shares) * outer(given(builder, call, "grad"));
  Term counts = is_step;
  if (call.boolean("zero_infinity"))
    counts = both(counts, nll.then("aten.ne.Scalar", {INFINITY}));
  result = where(counts, result, 0.0);
  return result.then("aten.permute.default", {Arguments{1, 0, 2}})
      .then("aten.clone.default", {}, {{"memory_format", graph::MemoryFormat::contiguous}});
}

Value value_of_paths(const Call &call) {
  const TensorMeta &scores = call.tensor("scores");
  return contiguous_value(scores.dtype,
                          {scores.layout.sizes[1], scores.layout.sizes[0], call.size("states")},
                          scores.device);
}

} // namespace

void add_alignments(Table &table) {
  table
      .add("tsc::ctc_paths(Tensor scores, Tensor labels, Tensor input_lengths, Tensor "
           "target_lengths, SymInt states, int blank, bool backwards) -> Tensor")
      .shape(value_of_paths)
      .lowers("ctc_paths");
  for (std::string_view overload : {"IntList", "Tensor"}) {
    const bool is_list = overload == "IntList";
    const std::string type = is_list ? "int[]" : "Tensor", suffix = is_list ? "" : ".Tensor";
    const std::string of = "Tensor log_probs, Tensor targets, " + type + " input_lengths, " + type +
                           " target_lengths, ";
    table
        .add(keep_text("ctc_loss." + std::string(overload) + "(" + of +
                       "int blank=0, int reduction=1, bool zero_infinity=False) -> Tensor"))
        .decompose(ctc_loss);
    table
        .add(keep_text("_ctc_loss" + suffix + "(" + of +
                       "int blank=0, bool zero_infinity=False) -> (Tensor, Tensor)"))
        .decompose(ctc_with_paths);
    table
        .add(keep_text("_ctc_loss_backward" + suffix + "(Tensor grad, " + of +
                       "Tensor neg_log_likelihood, Tensor log_alpha, int blank, bool "
                       "zero_infinity=False) -> Tensor"))
        .decompose(ctc_gradient);
  }
}

} // namespace tsc::ops
