#include "ops/passes/attention_pattern.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

namespace tsc::ops {

namespace {

using graph::NodeId;

constexpr NodeId kOutput = static_cast<NodeId>(-1);
/// Finite numbers from here down are meant to hide.
constexpr double kHides = -1e4;

template <size_t N>
bool is_one_of(const Node &node, const std::array<std::string_view, N> &targets) {
  return std::find(targets.begin(), targets.end(), node.target) != targets.end();
}
/// Elements are where they are told to be, and stay what they are.
bool is_view(const Node &node) {
  return is_reshape(node) ||
         is_one_of(node, std::array<std::string_view, 8>{
                             "aten.expand.default", "aten.transpose.int", "aten.permute.default",
                             "aten.unsqueeze.default", "aten.squeeze.dim", "aten.t.default",
                             "aten.mT.default", "aten.swapaxes.default"});
}
bool is_conversion(const Node &node) {
  return is_one_of(node, std::array<std::string_view, 4>{"prims.convert_element_type.default",
                                                         "aten._to_copy.default", "aten.to.dtype",
                                                         "aten.type_as.default"});
}
/// Which argument is the left factor, if it is a product.
std::optional<size_t> left_factor(const Node &node) {
  if (is_one_of(node, std::array<std::string_view, 3>{"aten.bmm.default", "aten.matmul.default",
                                                      "aten.mm.default"}))
    return 0;
  if (node.target == "aten.baddbmm.default")
    return 1;
  return std::nullopt;
}
bool is_softmax(const Node &node) {
  return is_one_of(node,
                   std::array<std::string_view, 3>{"aten._softmax.default", "aten.softmax.int",
                                                   "aten._safe_softmax.default"});
}

std::optional<double> number_of(const Argument &argument) {
  if (const auto *number = std::get_if<double>(&argument.value))
    return *number;
  if (const auto *number = std::get_if<int64_t>(&argument.value))
    return static_cast<double>(*number);
  return std::nullopt;
}
std::optional<double> keyword(const Node &node, std::string_view name, double otherwise) {
  for (const auto &[key, argument] : node.kwargs)
    if (key == name)
      return number_of(argument);
  return otherwise;
}
/// What leaves weights of a softmax as they are: dropout that drops nothing, a number for NaN,
/// which only rows without any key have.
bool leaves_weights(const Node &node) {
  if (node.target == "aten.dropout.default" && node.args.size() == 3)
    return number_of(node.args[1]) == 0.0 || node.args[2] == Argument(false);
  if (node.target == "aten.nan_to_num.default")
    return node.args.size() == 1 || node.args[1].is_none() || number_of(node.args[1]) == 0.0;
  return is_conversion(node);
}
/// Whether an argument is -1, or [-1], or the last dimension by its number.
bool is_last(const Argument &argument, size_t rank) {
  if (const Argument::List *list = argument.list())
    return list->size() == 1 && is_last((*list)[0], rank);
  const auto *dimension = std::get_if<int64_t>(&argument.value);
  return dimension && (*dimension == -1 || *dimension == static_cast<int64_t>(rank) - 1);
}
std::optional<double> scale_of(const Node &node) {
  const bool times = node.target == "aten.mul.Tensor" || node.target == "aten.mul.Scalar",
             by = node.target == "aten.div.Tensor" || node.target == "aten.div.Scalar";
  if ((!times && !by) || node.args.size() != 2 || !node.kwargs.empty())
    return std::nullopt;
  const std::optional<double> number = number_of(node.args[1]);
  if (!number || *number == 0 || !std::isfinite(*number))
    return std::nullopt;
  return times ? *number : 1 / *number;
}

/// The dimensions that a permutation takes, in its order; none: it is no permutation of them.
std::vector<size_t> order_of(const Node &node, size_t rank) {
  const Argument::List *list = node.target == "aten.permute.default" && node.args.size() == 2
                                   ? node.args[1].list()
                                   : nullptr;
  std::vector<size_t> order;
  for (size_t i = 0; list && i < list->size(); ++i) {
    const auto *given = std::get_if<int64_t>(&(*list)[i].value);
    const auto all = static_cast<int64_t>(rank);
    if (!given || *given < -all || *given >= all)
      return {};
    order.push_back(static_cast<size_t>(*given < 0 ? *given + all : *given));
  }
  return order;
}
/// Whether dimensions of more than one element stay in their order.
bool in_order(const std::vector<size_t> &order, const std::vector<Expr> &sizes) {
  std::vector<size_t> many;
  std::copy_if(order.begin(), order.end(), std::back_inserter(many),
               [&](size_t dimension) { return !sizes[dimension].is_integer(1); });
  return std::is_sorted(many.begin(), many.end());
}

} // namespace

bool is_reshape(const Node &node) {
  return is_one_of(
      node, std::array<std::string_view, 6>{"aten.view.default", "aten.reshape.default",
                                            "aten._unsafe_view.default", "aten.clone.default",
                                            "aten.contiguous.default", "aten.flatten.using_ints"});
}
bool moves_elements(const Node &node) {
  return is_view(node) || is_one_of(node, std::array<std::string_view, 4>{
                                              "aten.select.int", "aten.slice.Tensor",
                                              "aten.narrow.default", "operator.getitem"});
}

bool exchanges_last_two(const Node &node, size_t rank) {
  if (rank < 2)
    return false;
  if (node.target == "aten.t.default" || node.target == "aten.mT.default")
    return true;
  const auto is = [&](const Argument &argument, size_t dimension) {
    const auto *given = std::get_if<int64_t>(&argument.value);
    return given && (*given < 0 ? *given + static_cast<int64_t>(rank) : *given) ==
                        static_cast<int64_t>(dimension);
  };
  if (node.target == "aten.transpose.int" || node.target == "aten.swapaxes.default")
    return node.args.size() == 3 && ((is(node.args[1], rank - 1) && is(node.args[2], rank - 2)) ||
                                     (is(node.args[1], rank - 2) && is(node.args[2], rank - 1)));
  const Argument::List *order = node.target == "aten.permute.default" && node.args.size() == 2
                                    ? node.args[1].list()
                                    : nullptr;
  if (order == nullptr || order->size() != rank)
    return false;
  for (size_t i = 0; i < rank; ++i)
    if (!is((*order)[i], i + 2 < rank ? i : i + 1 < rank ? rank - 1 : rank - 2))
      return false;
  return true;
}

AttentionPattern::AttentionPattern(const Graph &graph)
    : graph_(graph), constants_(graph::constants_of(graph)), users_(graph.nodes.size()) {
  const auto visit = [&](NodeId user) {
    return [this, user](graph::NodeRef ref) { users_[ref.id].push_back(user); };
  };
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    if (graph.nodes[id].target == "aten._assert_tensor_metadata.default") // holds when compiled
      continue;
    for (const Argument &argument : graph.nodes[id].args) {
      graph::for_each_node(argument, visit(id));
      if (graph.nodes[id].target == "aten.type_as.default") // the other gives a dtype alone
        break;
    }
    for (const auto &[name, argument] : graph.nodes[id].kwargs)
      graph::for_each_node(argument, visit(id));
  }
  for (const graph::OutputSpec &output : graph.outputs)
    graph::for_each_node(output.value, visit(kOutput));
  for (const graph::InputSpec &input : graph.inputs)
    if (input.kind == graph::InputKind::constant_tensor)
      constant_inputs_.emplace(input.node, input.target);
}

const TensorMeta *AttentionPattern::tensor(NodeId id) const {
  const Node &node = graph_.node(id);
  return node.value ? node.value->tensor() : nullptr;
}

/// The number that an argument is, or that all elements of a tensor are.
std::optional<double> AttentionPattern::number_in(const Argument &argument) const {
  if (const graph::NodeRef *ref = argument.node()) {
    const Node &node = graph_.node(ref->id);
    if (const auto input = constant_inputs_.find(ref->id); input != constant_inputs_.end()) {
      const auto constant = constants_.find(input->second);
      if (constant == constants_.end() || constant->second->numel() != 1 ||
          !tensor::is_floating(constant->second->dtype()))
        return std::nullopt;
      return constant->second->get_double(0);
    }
    if ((node.target == "aten.full.default" || node.target == "aten.full_like.default") &&
        node.args.size() == 2)
      return number_of(node.args[1]);
    if (node.target == "aten.scalar_tensor.default" && !node.args.empty())
      return number_of(node.args[0]);
    if (node.target == "aten.zeros.default")
      return 0.0;
    const bool same =
        is_view(node) || is_conversion(node) ||
        is_one_of(node, std::array<std::string_view, 5>{
                            "aten.lift_fresh_copy.default", "aten.lift_fresh.default",
                            "aten.detach.default", "aten.detach_.default", "aten.alias.default"});
    return same && !node.args.empty() ? number_in(node.args[0]) : std::nullopt;
  }
  return number_of(argument);
}

/// The node that an argument is, if it yields floats and nobody else reads it.
std::optional<NodeId> AttentionPattern::alone(const Argument &argument) const {
  const graph::NodeRef *ref = argument.node();
  if (ref == nullptr || users_[ref->id].size() != 1 || users_[ref->id][0] == kOutput)
    return std::nullopt;
  const TensorMeta *meta = tensor(ref->id);
  return meta && tensor::is_floating(meta->dtype) ? std::optional<NodeId>(ref->id) : std::nullopt;
}

std::optional<AttentionMatch> AttentionPattern::match(NodeId id) const {
  const Node &product = graph_.node(id);
  const std::optional<size_t> left = left_factor(product);
  if (left != size_t{0} || !tensor(id) || product.args.size() != 2)
    return std::nullopt;
  AttentionMatch match;
  constexpr int kMostChoices = 6;
  const std::optional<NodeId> scores = scores_before(product.args[0]);
  if (!scores || !find_scores(*scores, match, kMostChoices))
    return std::nullopt;
  const std::optional<AttentionFactor> value = factor(product.args[1], false);
  if (!value)
    return std::nullopt;
  match.value = *value;
  match.weights = tensor(product.args[0].node()->id)->layout.sizes;
  match.result = tensor(id)->layout.sizes;
  match.dtype = tensor(id)->dtype;
  match.scale *= match.query.scale * match.key.scale;
  const bool fits = match.key.dtype == match.query.dtype &&
                    match.value.dtype == match.query.dtype && match.value.scale == 1 &&
                    match.scale > 0 && std::isfinite(match.scale);
  if (!fits || (match.dtype != match.query.dtype && !is_narrowed(id, match.query.dtype)))
    return std::nullopt;
  return match;
}

/// Whether a node is a view that leaves its elements in their order: dimensions of one element may
/// come, go and move.
bool AttentionPattern::keeps_order(NodeId id) const {
  const Node &node = graph_.node(id);
  if (is_reshape(node) || node.target == "aten.unsqueeze.default" ||
      is_one_of(node, std::array<std::string_view, 2>{"aten.squeeze.dim", "aten.squeeze.dims"}))
    return true;
  const graph::NodeRef *ref = node.args.empty() ? nullptr : node.args[0].node();
  const TensorMeta *from = ref ? tensor(ref->id) : nullptr;
  if (!from)
    return false;
  if (node.target == "aten.expand.default")
    return from->layout.sizes == tensor(id)->layout.sizes;
  const std::vector<size_t> order = order_of(node, from->layout.rank());
  return !order.empty() && in_order(order, from->layout.sizes);
}

/// What two permutations, one after the other, take, if they leave its elements in their order.
std::optional<NodeId> AttentionPattern::before_turns(NodeId id) const {
  const Node &outer = graph_.node(id);
  const std::optional<NodeId> between =
      outer.target == "aten.permute.default" ? alone(outer.args[0]) : std::nullopt;
  const std::optional<NodeId> from =
      between && graph_.node(*between).target == "aten.permute.default"
          ? alone(graph_.node(*between).args[0])
          : std::nullopt;
  if (!from)
    return std::nullopt;
  const size_t rank = tensor(*from)->layout.rank();
  const std::vector<size_t> first = order_of(graph_.node(*between), rank),
                            second = order_of(outer, rank);
  if (first.size() != rank || second.size() != rank)
    return std::nullopt;
  std::vector<size_t> both;
  both.reserve(second.size());
  for (const size_t dimension : second)
    both.push_back(first[dimension]);
  return in_order(both, tensor(*from)->layout.sizes) ? from : std::nullopt;
}

/// Whether nobody but these nodes reads what `id` yields.
bool AttentionPattern::only_read_by(NodeId id, std::initializer_list<NodeId> readers) const {
  const std::vector<NodeId> &users = users_[id];
  return std::all_of(users.begin(), users.end(), [&](NodeId user) {
    return std::find(readers.begin(), readers.end(), user) != readers.end();
  });
}
/// The node of an argument, if it calls `target`.
std::optional<NodeId> AttentionPattern::call_of(const Argument &argument,
                                                std::string_view target) const {
  const graph::NodeRef *ref = argument.node();
  return ref && graph_.node(ref->id).target == target && !graph_.node(ref->id).args.empty()
             ? std::optional<NodeId>(ref->id)
             : std::nullopt;
}

/// where(not any(not (scores == -inf)), 0, softmax(scores)): a row without any key is zero, as the
/// kernel has it.
std::optional<NodeId> AttentionPattern::softmax_with_zeros(NodeId id) const {
  const Node &choice = graph_.node(id);
  if (choice.target != "aten.where.self" || choice.args.size() != 3 ||
      number_in(choice.args[1]) != 0.0)
    return std::nullopt;
  const graph::NodeRef *softmax = choice.args[2].node();
  const auto none = call_of(choice.args[0], "aten.logical_not.default");
  const auto any = none ? call_of(graph_.node(*none).args[0], "aten.any.dim") : std::nullopt;
  const auto shown =
      any ? call_of(graph_.node(*any).args[0], "aten.logical_not.default") : std::nullopt;
  const auto equal = shown ? call_of(graph_.node(*shown).args[0], "aten.eq.Scalar") : std::nullopt;
  if (!equal || !softmax || !is_softmax(graph_.node(softmax->id)) ||
      graph_.node(*any).args.size() != 3 ||
      !is_last(graph_.node(*any).args[1], tensor(*shown)->layout.rank()) ||
      number_of(graph_.node(*equal).args[1]) != -INFINITY ||
      !(graph_.node(*equal).args[0] == graph_.node(softmax->id).args[0]))
    return std::nullopt;
  const graph::NodeRef *zeros = choice.args[1].node(), *scores = graph_.node(*equal).args[0].node();
  const bool alone = scores && only_read_by(softmax->id, {id, zeros ? zeros->id : id}) &&
                     (!zeros || only_read_by(zeros->id, {id})) && only_read_by(*none, {id}) &&
                     only_read_by(*any, {*none}) && only_read_by(*shown, {*any}) &&
                     only_read_by(*equal, {*shown}) &&
                     only_read_by(scores->id, {*equal, softmax->id});
  return alone ? std::optional<NodeId>(softmax->id) : std::nullopt;
}

/// exp(scores - amax(scores)) / sum(exp(..)), over the last dimension: the scores.
std::optional<NodeId> AttentionPattern::scores_of_quotient(NodeId id) const {
  const Node &quotient = graph_.node(id);
  if (quotient.target != "aten.div.Tensor" || quotient.args.size() != 2)
    return std::nullopt;
  const auto power = call_of(quotient.args[0], "aten.exp.default"),
             sum = call_of(quotient.args[1], "aten.sum.dim_IntList");
  const auto difference =
      power ? call_of(graph_.node(*power).args[0], "aten.sub.Tensor") : std::nullopt;
  const auto largest = difference && graph_.node(*difference).args.size() == 2
                           ? call_of(graph_.node(*difference).args[1], "aten.amax.default")
                           : std::nullopt;
  if (!sum || !largest)
    return std::nullopt;
  const Node &total = graph_.node(*sum), &most = graph_.node(*largest);
  const graph::NodeRef *scores = graph_.node(*difference).args[0].node();
  const size_t rank = tensor(*power)->layout.rank();
  const bool same = scores && total.args.size() == 3 && most.args.size() == 3 &&
                    total.args[0].node()->id == *power && total.args[2] == Argument(true) &&
                    most.args[0].node() && most.args[0].node()->id == scores->id &&
                    most.args[2] == Argument(true) && is_last(total.args[1], rank) &&
                    is_last(most.args[1], rank);
  const bool alone = same && only_read_by(scores->id, {*difference, *largest}) &&
                     only_read_by(*difference, {*power}) && only_read_by(*largest, {*difference}) &&
                     only_read_by(*power, {*sum, id}) && only_read_by(*sum, {id});
  return alone && tensor::is_floating(tensor(scores->id)->dtype) ? std::optional<NodeId>(scores->id)
                                                                 : std::nullopt;
}

/// What a softmax over the last dimension takes that gives a product its left factor.
std::optional<NodeId> AttentionPattern::scores_before(const Argument &argument) const {
  std::optional<NodeId> id = alone(argument);
  while (id)
    if (leaves_weights(graph_.node(*id)) || keeps_order(*id))
      id = alone(graph_.node(*id).args[0]);
    else if (const std::optional<NodeId> before = before_turns(*id))
      id = before;
    else
      break;
  if (!id)
    return std::nullopt;
  if (const std::optional<NodeId> scores = scores_of_quotient(*id))
    return scores;
  const std::optional<NodeId> safe = softmax_with_zeros(*id);
  const NodeId softmax = safe.value_or(*id);
  const Node &node = graph_.node(softmax);
  if (!is_softmax(node) || node.args.size() < 2 ||
      !is_last(node.args[1], tensor(softmax)->layout.rank()))
    return std::nullopt;
  if (!safe)
    return alone(node.args[0]);
  const NodeId scores = node.args[0].node()->id;
  return tensor::is_floating(tensor(scores)->dtype) ? std::optional<NodeId>(scores) : std::nullopt;
}

/// What is added to scores, as attention takes it: booleans would hide.
bool AttentionPattern::is_added(const Argument &argument) const {
  const graph::NodeRef *ref = argument.node();
  const TensorMeta *meta = ref ? tensor(ref->id) : nullptr;
  return meta && meta->layout.rank() >= 1 &&
         (tensor::is_reduced_float(meta->dtype) || meta->dtype == DType::f32);
}

void AttentionPattern::add_sum_steps(const Node &node, const std::vector<Expr> &frame,
                                     std::vector<Step> &steps) const {
  const bool adds = node.target == "aten.add.Tensor" || node.target == "aten.add.Scalar",
             takes = node.target == "aten.sub.Tensor" || node.target == "aten.sub.Scalar";
  if ((!adds && !takes) || node.args.size() != 2 || !node.kwargs.empty())
    return;
  for (size_t scores = 0; scores < (adds ? 2u : 1u); ++scores) {
    const Argument &other = node.args[1 - scores];
    const std::optional<double> number = number_in(other);
    if (number && std::isfinite(*number)) // softmax does not see it
      steps.push_back({scores, 1, std::nullopt, Step::Kind::shift});
    else if (is_added(other))
      steps.push_back(
          {scores, 1,
           ScoreChange{ScoreChange::Kind::add, other.node()->id, adds ? 1.0 : -1.0, false, frame}});
  }
}

void AttentionPattern::add_scale_steps(const Node &node, const std::vector<Expr> &frame,
                                       std::vector<Step> &steps) const {
  if (const std::optional<double> by = scale_of(node)) {
    steps.push_back({0, *by, std::nullopt});
    return;
  }
  const bool times = node.target == "aten.mul.Tensor", by = node.target == "aten.div.Tensor";
  if ((!times && !by) || node.args.size() != 2 || !node.kwargs.empty())
    return;
  for (size_t scores = 0; scores < (times ? 2u : 1u); ++scores) {
    const graph::NodeRef *other = node.args[1 - scores].node();
    const TensorMeta *meta = other ? tensor(other->id) : nullptr;
    const bool same = meta &&
                      (tensor::is_reduced_float(meta->dtype) || meta->dtype == DType::f32) &&
                      (meta->layout.rank() == 0 || meta->layout.sizes.back().is_integer(1));
    if (same)
      steps.push_back({scores, 1, ScoreChange{ScoreChange::Kind::scale, other->id, 1, by, frame}});
  }
}

void AttentionPattern::add_choice_steps(const Node &node, const std::vector<Expr> &frame,
                                        std::vector<Step> &steps) const {
  const bool fills =
      node.target == "aten.masked_fill.Scalar" || node.target == "aten.masked_fill.Tensor";
  const bool chooses = node.target == "aten.where.self" ||
                       node.target == "aten.where.ScalarOther" ||
                       node.target == "aten.where.ScalarSelf";
  if ((!fills && !chooses) || node.args.size() != 3)
    return;
  const graph::NodeRef *condition = node.args[fills ? 1 : 0].node();
  const TensorMeta *meta = condition ? tensor(condition->id) : nullptr;
  if (!meta || meta->dtype != DType::boolean)
    return;
  for (const size_t scores : {size_t{1}, size_t{2}}) {
    const size_t at = fills ? 0 : scores;
    const std::optional<double> number = number_in(node.args[fills ? 2 : 3 - scores]);
    if (number && *number <= kHides)
      steps.push_back({at, 1,
                       ScoreChange{ScoreChange::Kind::hide, condition->id, *number,
                                   !fills && scores == 1, frame}});
    if (fills)
      break;
  }
}

/// The ways in which scores may come through a node that is no product.
std::vector<AttentionPattern::Step> AttentionPattern::steps_of(NodeId id) const {
  const Node &node = graph_.node(id);
  std::vector<Step> steps;
  const std::vector<Expr> &frame = tensor(id)->layout.sizes;
  const bool moves = keeps_order(id);
  if (moves || is_conversion(node)) {
    steps.push_back({});
  } else if (node.target == "aten.tanh.default") {
    steps.push_back({0, 1, std::nullopt, Step::Kind::cap});
  } else {
    add_scale_steps(node, frame, steps);
    add_sum_steps(node, frame, steps);
    add_choice_steps(node, frame, steps);
  }
  // Scores that something else spreads over more rows are not those of the product.
  std::erase_if(steps, [&](const Step &step) {
    const graph::NodeRef *ref = node.args[step.scores].node();
    return !ref || !tensor(ref->id) || (!moves && tensor(ref->id)->layout.sizes != frame);
  });
  return steps;
}

/// What a step back from the softmax does to a match; false: no kernel has scores like that. What
/// comes before a tangent is scales alone.
bool AttentionPattern::take(const Step &step, AttentionMatch &match) {
  if (match.cap && (step.change || step.kind != Step::Kind::plain))
    return false;
  const bool scaled =
      !match.changes.empty() && match.changes.back().kind == ScoreChange::Kind::scale;
  if (step.kind == Step::Kind::cap) {
    if (scaled || !(match.scale > 0) || !std::isfinite(match.scale))
      return false;
    match.cap = std::exchange(match.scale, 1);
    return true;
  }
  if (step.change) {
    // What came before a tensor's scale would have to be scaled by it, too.
    if (scaled && step.change->kind != ScoreChange::Kind::scale)
      return false;
    match.changes.push_back(*step.change);
    ScoreChange &change = match.changes.back();
    if (change.kind == ScoreChange::Kind::hide && match.scale < 0)
      return false;
    if (change.kind == ScoreChange::Kind::add)
      change.number *= match.scale;
  }
  match.scale *= step.scale;
  return true;
}

/// From the softmax's operand `id` back to the product of queries and keys. `choices`: nodes at
/// most that scores may have come through in two ways; of several the first is taken.
bool AttentionPattern::find_scores(NodeId id, AttentionMatch &match, int choices) const {
  std::optional<NodeId> at = id;
  while (at && !left_factor(graph_.node(*at))) {
    const std::vector<Step> steps = steps_of(*at);
    if (keeps_order(*at))
      match.frames.push_back(tensor(*at)->layout.sizes);
    if (steps.empty() || (steps.size() > 1 && choices == 0))
      return false;
    if (steps.size() > 1) {
      for (const Step &step : steps) {
        AttentionMatch with = match;
        const std::optional<NodeId> next = alone(graph_.node(*at).args[step.scores]);
        if (next && take(step, with) && find_scores(*next, with, choices - 1)) {
          match = std::move(with);
          return true;
        }
      }
      return false;
    }
    if (!take(steps[0], match))
      return false;
    at = alone(graph_.node(*at).args[steps[0].scores]);
  }
  return at && find_factors(*at, match);
}

bool AttentionPattern::find_factors(NodeId product, AttentionMatch &match) const {
  const Node &node = graph_.node(product);
  const size_t left = *left_factor(node);
  if (node.args.size() != left + 2)
    return false;
  match.scores = tensor(product)->layout.sizes;
  if (left == 1) { // beta * [0] + alpha * [1] @ [2]
    const std::optional<double> beta = keyword(node, "beta", 1), alpha = keyword(node, "alpha", 1);
    const std::optional<double> number = number_in(node.args[0]);
    if (!beta || !alpha || *alpha == 0)
      return false;
    if (match.cap && *beta != 0 && number != 0.0)
      return false;
    if (*beta != 0 && !(number && std::isfinite(*number))) {
      const bool scaled =
          !match.changes.empty() && match.changes.back().kind == ScoreChange::Kind::scale;
      if (!is_added(node.args[0]) || scaled)
        return false;
      match.changes.push_back({ScoreChange::Kind::add, node.args[0].node()->id, *beta * match.scale,
                               false, match.scores});
    }
    match.scale *= *alpha;
  } else if (!node.kwargs.empty()) {
    return false;
  }
  const std::optional<AttentionFactor> query = factor(node.args[left], true),
                                       key = factor(node.args[left + 1], true);
  if (!query || !key)
    return false;
  match.query = *query;
  match.key = *key;
  return true;
}

/// Where the tensor of `id` was before its leading dimensions became one: a node that has the sizes
/// `wanted`, but for dimensions of one element, and the same elements in the same order; else `id`.
NodeId AttentionPattern::before_merging(NodeId id, const std::vector<Expr> &wanted) const {
  const auto many = [](std::vector<Expr> sizes) {
    std::erase_if(sizes, [](Expr size) { return size.is_integer(1); });
    return sizes;
  };
  const std::vector<Expr> sizes = many(wanted);
  NodeId found = id;
  for (NodeId at = id;;) {
    const TensorMeta *meta = tensor(at);
    if (!meta || meta->dtype != tensor(id)->dtype)
      break;
    if (many(meta->layout.sizes) == sizes)
      found = at;
    const graph::NodeRef *from =
        graph_.node(at).args.empty() ? nullptr : graph_.node(at).args[0].node();
    if (!from || !keeps_order(at))
      break;
    at = from->id;
  }
  return found;
}

/// Back to where a factor has 16 bits, else as it is; `scales`: and over what multiplies it by a
/// number there.
std::optional<AttentionFactor> AttentionPattern::factor(const Argument &argument,
                                                        bool scales) const {
  const graph::NodeRef *ref = argument.node();
  if (ref == nullptr || !tensor(ref->id))
    return std::nullopt;
  std::optional<AttentionFactor> found, whole; // of 16 bits; of 32
  AttentionFactor at;
  at.sizes = tensor(ref->id)->layout.sizes;
  NodeId id = ref->id;
  while (tensor(id)) {
    const bool is_half = tensor::is_reduced_float(tensor(id)->dtype);
    if (found ? tensor(id)->dtype != found->dtype : !is_half && tensor(id)->dtype != DType::f32)
      break;
    const Node &node = graph_.node(id);
    std::optional<AttentionFactor> &nearest = is_half ? found : whole;
    if (!nearest || (scales && at.scale != nearest->scale)) {
      at.base = id;
      at.dtype = tensor(id)->dtype;
      nearest = at;
    }
    if ((found && !scales) || node.args.empty() || node.args[0].node() == nullptr)
      break;
    if (is_view(node))
      at.views.insert(at.views.begin(), node);
    else if (const std::optional<double> by = scale_of(node))
      at.scale *= *by;
    else if (!is_conversion(node))
      break;
    id = node.args[0].node()->id;
  }
  return found ? found : whole;
}

/// Whether what a float32 result becomes is of `dtype` again.
bool AttentionPattern::is_narrowed(NodeId id, DType dtype) const {
  while (users_[id].size() == 1 && users_[id][0] != kOutput) {
    id = users_[id][0];
    if (is_conversion(graph_.node(id)))
      return tensor(id) && tensor(id)->dtype == dtype;
    if (!is_view(graph_.node(id)))
      return false;
  }
  return false;
}

} // namespace tsc::ops
