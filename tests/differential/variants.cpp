#include "variants.h"

#include "rebuild.h"

#include "graph/read.h"
#include "ops/table/in_place_forms.h"
#include "ops/table/rewrite.h"
#include "support/diagnostic.h"
#include "target/policy.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tsc::differential {
namespace {

using graph::Argument;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::NodeKind;
using graph::NodeRef;
using symbolic::Expr;
using tensor::DType;

using Arguments = Argument::List;
using Outcome = std::optional<Variant>;

Variant same(const Subject &subject, std::string name) {
  Variant variant;
  variant.name = std::move(name);
  variant.subject = subject;
  variant.outputs.resize(subject.graph.outputs.size());
  std::iota(variant.outputs.begin(), variant.outputs.end(), int64_t{0});
  return variant;
}

// ---- the same graph, compiled in another way

Outcome other_policy(const Subject &subject, RandomSource &) {
  Variant variant = same(subject, "policy inductor-2.5");
  variant.compile.policy = "inductor-2.5";
  return variant;
}

std::string random_value(const target::PolicyOption &option, RandomSource &random) {
  if (option.value == "on" || option.value == "off")
    return option.value == "on" ? "off" : "on";
  if (option.name == "concatenation")
    return option.value == "inductor" ? "fewest_launches" : "inductor";
  static const std::vector<std::string> kValues = {"0", "1",  "2",   "3",      "4",
                                                   "8", "30", "100", "1000000"};
  // Sums that are written out round after every term: a million of them is another sum.
  if (option.name == "unroll_reductions_threshold")
    return std::to_string(random.below(33));
  return random.pick(kValues);
}

Outcome random_options(const Subject &subject, RandomSource &random) {
  Variant variant = same(subject, "options");
  if (random.chance(30))
    variant.compile.policy = "inductor-2.5";
  const target::Policy &policy = target::find_policy(variant.compile.policy);
  for (const target::PolicyOption &option : target::options_of(policy))
    if (option.name != "tf32" && random.chance(30)) // which is about numbers
      variant.compile.policy_options.push_back(std::string(option.name) + "=" +
                                               random_value(option, random));
  variant.name += " " + variant.compile.policy;
  for (const std::string &option : variant.compile.policy_options)
    variant.name += " " + option;
  return variant;
}

Outcome nothing_fused(const Subject &subject, RandomSource &random) {
  Variant variant = same(subject, "nothing fused");
  variant.compile.policy_options = {"max_fusion_size=1", "combo_kernels=off"};
  if (random.chance(50)) // nor inlined
    for (const char *option : {"realize_reads_threshold=0", "realize_accumulated_reads_threshold=0",
                               "realize_opcount_threshold=0"})
      variant.compile.policy_options.emplace_back(option);
  return variant;
}

// ---- the same computation, written in another way

Outcome read_again(const Subject &subject, RandomSource &) {
  Variant variant = same(subject, "written as JSON and read");
  const std::string text = graph::to_json(subject.graph);
  variant.subject.graph = graph::parse_graph(text, "again");
  if (graph::to_json(variant.subject.graph) != text)
    throw support::InternalError("graph JSON", "to_json", "what is read is written otherwise");
  return variant;
}

Outcome without_values(const Subject &subject, RandomSource &) {
  Variant variant = same(subject, "without recorded values");
  for (Node &node : variant.subject.graph.nodes)
    if (node.kind == NodeKind::call_function)
      node.value.reset();
  return variant;
}

Outcome permuted(const Subject &subject, RandomSource &random) {
  if (has_mutations(subject.graph))
    return std::nullopt;
  const Graph &graph = subject.graph;
  std::vector<size_t> missing(graph.nodes.size(), 0);
  std::vector<std::vector<NodeId>> users(graph.nodes.size());
  std::vector<NodeId> ready, order;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    if (graph.nodes[id].kind == NodeKind::placeholder)
      continue;
    for_each_argument(graph, id, [&](NodeId argument) {
      if (graph.nodes[argument].kind == NodeKind::placeholder)
        return;
      ++missing[id];
      users[argument].push_back(id);
    });
  }
  for (const graph::InputSpec &input : graph.inputs)
    order.push_back(input.node);
  for (NodeId id = 0; id < graph.nodes.size(); ++id)
    if (graph.nodes[id].kind != NodeKind::placeholder && missing[id] == 0 &&
        graph.nodes[id].kind != NodeKind::output)
      ready.push_back(id);
  while (!ready.empty()) {
    const size_t place = random.below(ready.size());
    const NodeId id = ready[place];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(place));
    order.push_back(id);
    for (const NodeId user : users[id])
      if (--missing[user] == 0 && graph.nodes[user].kind != NodeKind::output)
        ready.push_back(user);
  }
  order.push_back(static_cast<NodeId>(graph.nodes.size() - 1));
  if (order.size() != graph.nodes.size())
    return std::nullopt;
  Variant variant = same(subject, "in another order");
  variant.subject.graph = in_order(graph, order);
  return variant;
}

Outcome dead_code(const Subject &subject, RandomSource &random) {
  Variant variant = same(subject, "with dead code");
  add_calls(variant.subject, random, 1 + random.below(4), 2000, false, false);
  return variant;
}

/// Tensors that calls yield, and inputs.
std::vector<NodeId> tensors_of(const Graph &graph, bool inputs) {
  std::vector<NodeId> tensors;
  for (NodeId id = 0; id < graph.nodes.size(); ++id)
    if (graph.nodes[id].value && graph.nodes[id].value->tensor() &&
        (graph.nodes[id].kind == NodeKind::call_function ||
         (inputs && graph.nodes[id].kind == NodeKind::placeholder)))
      tensors.push_back(id);
  return tensors;
}

Outcome more_outputs(const Subject &subject, RandomSource &random) {
  Variant variant = same(subject, "with more outputs:");
  Graph &graph = variant.subject.graph;
  const std::vector<NodeId> tensors = tensors_of(graph, true);
  if (tensors.empty())
    return std::nullopt;
  for (size_t i = 0; i < 1 + random.below(3); ++i) {
    const NodeId id = random.pick(tensors);
    variant.name += " " + graph.nodes[id].name;
    graph.outputs.push_back({graph::OutputKind::user, NodeRef{id}, ""});
  }
  refresh_output_node(graph);
  return variant;
}

Outcome fewer_outputs(const Subject &subject, RandomSource &random) {
  Variant variant = same(subject, "with fewer outputs, kept:");
  Graph &graph = variant.subject.graph;
  std::vector<graph::OutputSpec> kept;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    if (graph.outputs[i].kind == graph::OutputKind::user && random.chance(60) &&
        !(kept.empty() && i + 1 == graph.outputs.size())) {
      variant.outputs[i] = -1;
      continue;
    }
    variant.outputs[i] = static_cast<int64_t>(kept.size());
    variant.name += " " + std::to_string(i);
    kept.push_back(graph.outputs[i]);
  }
  if (kept.size() == graph.outputs.size())
    return std::nullopt;
  graph.outputs = std::move(kept);
  refresh_output_node(graph);
  return variant;
}

// ---- nodes replaced

/// Copies a graph, letting `change` put something in the place of a node.
template <class Change> Graph rewritten(const Graph &graph, const Change &change) {
  ops::Rewrite rewrite(graph);
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    rewrite.builder().set_source(graph.nodes[id]);
    change(rewrite, id);
  }
  return rewrite.take();
}

Outcome decomposed_further(const Subject &subject, RandomSource &random) {
  std::vector<NodeId> candidates;
  for (NodeId id = 0; id < subject.graph.nodes.size(); ++id) {
    const ops::Operator *row = ops::find_operator(subject.graph.nodes[id].target);
    if (row && row->decompose && !row->schema.is_mutable())
      candidates.push_back(id);
  }
  // A call that gives its argument itself gives it away to what turns values in place, too.
  const bool turns =
      std::any_of(subject.graph.nodes.begin(), subject.graph.nodes.end(),
                  [](const Node &node) { return ops::is_view_in_place(node.target); });
  if (candidates.empty() || turns || has_mutations(subject.graph))
    return std::nullopt;
  const NodeId chosen = random.pick(candidates);
  Variant variant = same(subject, "decomposed: " + subject.graph.nodes[chosen].name);
  variant.subject.graph = rewritten(subject.graph, [&](ops::Rewrite &rewrite, NodeId id) {
    if (id != chosen)
      return rewrite.copy(id);
    Node node = rewrite.take_mapped(id);
    rewrite.replace(id, rewrite.builder().call(node.target, node.args, node.kwargs));
  });
  refresh_output_node(variant.subject.graph);
  for (const Node &node : variant.subject.graph.nodes)
    for (const Argument &argument : node.args) // a list in the place of a tuple's node
      if (node.target == "operator.getitem" && !argument.node() && argument.list())
        return std::nullopt;
  return variant;
}

/// A value that is `x`, computed in a roundabout way; nothing if the way drawn does not apply.
/// `views`: only ways that view the same memory.
std::optional<Argument> roundabout(ops::GraphBuilder &builder, const Argument &x, bool views,
                                   RandomSource &random, std::string &how) {
  const graph::TensorMeta meta = builder.meta(x);
  const int64_t rank = static_cast<int64_t>(meta.layout.rank());
  const int64_t dim = rank > 0 ? random.between(0, rank - 1) : 0;
  const auto size = [&](int64_t axis) { return meta.layout.sizes[static_cast<size_t>(axis)]; };
  const auto call = [&](const char *target, Arguments args) {
    return builder.emit(target, std::move(args));
  };
  const auto say = [&](const char *what) { how = what; };
  switch (random.below(views ? 3 : 16)) { // nothing may be written through what is expanded
  case 0: {
    if (rank < 2)
      return std::nullopt;
    say("transposed twice");
    const int64_t other = random.between(0, rank - 1);
    return call("aten.transpose.int", {call("aten.transpose.int", {x, dim, other}), dim, other});
  }
  case 1:
    say("unsqueezed and squeezed");
    return call("aten.squeeze.dim", {call("aten.unsqueeze.default", {x, dim}), dim});
  case 2: {
    say("a slice of all");
    if (rank == 0)
      return std::nullopt;
    return call("aten.slice.Tensor", {x, dim, int64_t{0}, INT64_MAX});
  }
  case 3: {
    if (rank == 0 || !size(dim).is_integer())
      return std::nullopt;
    say("expanded and selected");
    Arguments sizes = {int64_t{2}};
    for (const symbolic::Expr one : meta.layout.sizes)
      sizes.push_back(ops::size_argument(one));
    return call("aten.select.int", {call("aten.expand.default",
                                         {call("aten.unsqueeze.default", {x, int64_t{0}}), sizes}),
                                    int64_t{0}, random.between(0, 1)});
  }
  case 4: {
    if (rank == 0 || !size(dim).is_integer() || size(dim).value() < 2)
      return std::nullopt;
    say("cut and joined");
    const int64_t at = random.between(1, size(dim).value() - 1);
    return call("aten.cat.default", {Arguments{call("aten.slice.Tensor", {x, dim, int64_t{0}, at}),
                                               call("aten.slice.Tensor", {x, dim, at, INT64_MAX})},
                                     dim});
  }
  case 5:
    say("cloned");
    return call("aten.clone.default", {x});
  case 6:
    if (rank == 0)
      return std::nullopt;
    say("flipped twice");
    return call("aten.flip.default",
                {call("aten.flip.default", {x, Arguments{dim}}), Arguments{dim}});
  case 7: {
    if (meta.dtype == DType::boolean || !tensor::is_integral(meta.dtype, false))
      return std::nullopt;
    say("plus 0");
    return call("aten.add.Scalar", {x, int64_t{0}});
  }
  case 8:
    if (meta.dtype == DType::boolean)
      return std::nullopt;
    say("negated twice");
    return call("aten.neg.default", {call("aten.neg.default", {x})});
  case 9: {
    if (meta.dtype != DType::f32 && meta.dtype != DType::f16 && meta.dtype != DType::bf16)
      return std::nullopt;
    say("through float64");
    return builder.emit(
        "prims.convert_element_type.default",
        {builder.emit("prims.convert_element_type.default", {x, DType::f64}), meta.dtype});
  }
  case 10: {
    if (rank == 0 || !size(dim).is_integer() || size(dim).value() == 0)
      return std::nullopt;
    say("rolled there and back");
    const int64_t shift = random.between(1, size(dim).value());
    return call("aten.roll.default",
                {call("aten.roll.default", {x, Arguments{shift}, Arguments{dim}}),
                 Arguments{-shift}, Arguments{dim}});
  }
  case 11: {
    say("chosen by where");
    return call("aten.where.self", {call("aten.eq.Tensor", {x, x}), x, x});
  }
  case 12: {
    if (rank == 0)
      return std::nullopt;
    say("stacked and selected");
    return call("aten.select.int",
                {call("aten.stack.default", {Arguments{x, x}, dim}), dim, random.between(0, 1)});
  }
  case 13: {
    if (rank == 0 || meta.dtype == DType::boolean)
      return std::nullopt;
    say("padded and cut");
    Arguments pad = {int64_t{1}, int64_t{2}};
    const Argument padded = call("aten.constant_pad_nd.default", {x, pad, int64_t{7}});
    return call("aten.slice.Tensor",
                {padded, rank - 1, int64_t{1}, ops::size_argument(size(rank - 1) + 1)});
  }
  case 14: {
    if (rank == 0 || !size(dim).is_integer())
      return std::nullopt;
    say("gathered by arange");
    const Argument places =
        builder.emit("aten.arange.start_step", {int64_t{0}, size(dim).value(), int64_t{1}},
                     {{"dtype", DType::i64}});
    return call("aten.index_select.default", {x, dim, places});
  }
  default: {
    say("flattened and reshaped");
    Arguments sizes;
    for (const symbolic::Expr one : meta.layout.sizes)
      sizes.push_back(ops::size_argument(one));
    return call("aten.reshape.default",
                {call("aten.reshape.default",
                      {x, Arguments{ops::size_argument(symbolic::numel(meta.layout.sizes))}}),
                 sizes});
  }
  }
}

/// Whether some call reads memory by strides of its own, so that how its operand lies is seen.
bool sees_memory(const Graph &graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node &node) {
    return node.target.find("as_strided") != std::string::npos;
  });
}

Outcome with_identity(const Subject &subject, RandomSource &random) {
  if (sees_memory(subject.graph))
    return std::nullopt;

  const std::vector<NodeId> tensors = tensors_of(subject.graph, true);
  if (tensors.empty())
    return std::nullopt;
  const bool views = has_mutations(subject.graph);
  const NodeId chosen = random.pick(tensors);
  const bool is_input = subject.graph.nodes[chosen].kind == NodeKind::placeholder;
  if (is_input && views)
    return std::nullopt;
  std::string how;
  Variant variant = same(subject, "");
  bool applied = false;
  variant.subject.graph = rewritten(subject.graph, [&](ops::Rewrite &rewrite, NodeId id) {
    rewrite.copy(id);
    // Inputs stand together: after the last of them.
    const NodeId after = is_input ? subject.graph.inputs.back().node : chosen;
    if (id != after)
      return;
    const auto other =
        roundabout(rewrite.builder(), rewrite.replacement(chosen), views, random, how);
    if (!other)
      return;
    applied = true;
    if (is_input)
      rewrite.replace_uses(chosen, *other);
    else
      rewrite.replace(chosen, *other);
  });
  if (!applied)
    return std::nullopt;
  refresh_output_node(variant.subject.graph);
  variant.name = "identity: " + subject.graph.nodes[chosen].name + " " + how;
  return variant;
}

/// Some sizes of inputs become symbols; whoever said the number may say the symbol.
Outcome with_symbols(const Subject &subject, RandomSource &random) {
  if (sees_memory(subject.graph))
    return std::nullopt;
  Variant variant = same(subject, "symbolic sizes:");
  Graph &graph = variant.subject.graph;
  std::map<int64_t, symbolic::Expr> symbols;
  for (const graph::InputSpec &input : graph.inputs) {
    const auto sizes = static_sizes(graph.nodes[input.node].value);
    if (!sizes || input.kind != graph::InputKind::user)
      continue;
    for (const int64_t size : *sizes)
      if (size >= 2 && symbols.count(size) == 0 && random.chance(60))
        symbols[size] = symbolic::symbol(symbolic::SymbolSort::size, symbols.size());
  }
  if (symbols.empty())
    return std::nullopt;
  for (const auto &[size, symbol] : symbols) {
    graph.symbols.push_back({symbol, 2, 1000});
    variant.name += " " + std::to_string(size);
  }
  const bool in_arguments = random.chance(50);
  const auto replace = [&](Expr size) {
    const auto found = size.is_integer() ? symbols.find(size.value()) : symbols.end();
    return found == symbols.end() ? size : found->second;
  };
  const std::function<void(Argument &)> replace_argument = [&](Argument &argument) {
    if (auto *list = std::get_if<Argument::List>(&argument.value)) {
      for (Argument &item : *list)
        replace_argument(item);
    } else if (const auto *number = std::get_if<int64_t>(&argument.value)) {
      if (const auto found = symbols.find(*number); found != symbols.end())
        argument = found->second;
    }
  };
  for (Node &node : graph.nodes) {
    if (node.kind == NodeKind::call_function) {
      node.value.reset();
      for (std::string_view part : {"view", "reshape", "expand", "broadcast_to"})
        if (in_arguments && node.target.find(part) != std::string::npos)
          for (Argument &argument : node.args)
            if (argument.list())
              replace_argument(argument);
    }
    if (node.kind != NodeKind::placeholder || !node.value || !node.value->tensor())
      continue;
    graph::TensorMeta meta = *node.value->tensor();
    const std::vector<size_t> order = tensor::stride_order(meta.layout.strides);
    for (Expr &size : meta.layout.sizes)
      size = replace(size);
    meta.layout.strides = tensor::strides_in_order(meta.layout.sizes, order);
    node.value = graph::Value{meta};
  }
  return variant;
}

struct Kind {
  const char *name;
  Outcome (*make)(const Subject &, RandomSource &);
};
constexpr Kind kKinds[] = {
    {"policy", other_policy},
    {"options", random_options},
    {"not fused", nothing_fused},
    {"JSON", read_again},
    {"values left out", without_values},
    {"order", permuted},
    {"dead code", dead_code},
    {"more outputs", more_outputs},
    {"fewer outputs", fewer_outputs},
    {"decomposed", decomposed_further},
    {"identity", with_identity},
    {"symbols", with_symbols},
};

} // namespace

const std::vector<std::string> &variant_kinds() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const Kind &kind : kKinds)
      result.emplace_back(kind.name);
    return result;
  }();
  return names;
}

std::optional<Variant> make_variant(const Subject &subject, size_t kind, RandomSource &random) {
  try {
    return kKinds[kind].make(subject, random);
  } catch (const support::UserError &) { // what was put in does not fit
    return std::nullopt;
  }
}

namespace {

/// Whether a call computes nothing itself: a view, or an element of a list of views.
bool is_view(const Graph &graph, const Node &node) {
  const Node *source = &node;
  if (node.target == "operator.getitem" && node.args[0].node())
    source = &graph.nodes[node.args[0].node()->id];
  const ops::Operator *row = ops::find_operator(source->target);
  return source->kind != NodeKind::call_function || !row || row->effect == ops::Effect::view;
}

} // namespace

Subject rounded(const Subject &subject) {
  Subject result = subject;
  result.graph = rewritten(subject.graph, [&](ops::Rewrite &rewrite, NodeId id) {
    rewrite.copy(id);
    const Node &node = subject.graph.nodes[id];
    const graph::TensorMeta *meta = node.value ? node.value->tensor() : nullptr;
    if (node.kind != NodeKind::call_function || !meta || !tensor::is_reduced_float(meta->dtype) ||
        is_view(subject.graph, node))
      return;
    const auto convert = [&](const Argument &value, DType dtype) {
      return rewrite.builder().emit("prims.convert_element_type.default", {value, dtype});
    };
    rewrite.replace(id, convert(convert(rewrite.replacement(id), DType::f32), meta->dtype));
  });
  refresh_output_node(result.graph);
  return result;
}

bool computes_moments(const Node &node) {
  for (const char *part : {"var", "std", "norm"})
    if (node.target.find(part) != std::string::npos)
      return true;
  return false;
}

Subject without_infinities(const Subject &subject) {
  Subject result = subject;
  result.graph = rewritten(subject.graph, [&](ops::Rewrite &rewrite, NodeId id) {
    const Node &node = subject.graph.nodes[id];
    const graph::NodeRef *operand = node.args.empty() ? nullptr : node.args[0].node();
    const Node *source = operand ? &subject.graph.nodes[operand->id] : nullptr;
    const graph::TensorMeta *meta = source && source->value ? source->value->tensor() : nullptr;
    if (node.kind != NodeKind::call_function || !computes_moments(node) || !meta ||
        !tensor::is_floating(meta->dtype)) {
      rewrite.copy(id);
      return;
    }
    // x + (x - x), for this node alone.
    const Argument plain = rewrite.replacement(operand->id);
    const Argument nothing = rewrite.builder().emit("aten.sub.Tensor", {plain, plain});
    rewrite.replace(operand->id, rewrite.builder().emit("aten.add.Tensor", {plain, nothing}));
    rewrite.copy(id);
    rewrite.replace(operand->id, plain);
  });
  refresh_output_node(result.graph);
  return result;
}

Subject perturbed(const Subject &subject, RandomSource &random) {
  Subject result = subject;
  const bool mutates = has_mutations(subject.graph);
  result.graph = rewritten(subject.graph, [&](ops::Rewrite &rewrite, NodeId id) {
    rewrite.copy(id);
    const Node &node = subject.graph.nodes[id];
    const graph::TensorMeta *meta = node.value ? node.value->tensor() : nullptr;
    const bool is_value = node.kind == NodeKind::placeholder ||
                          (node.kind == NodeKind::call_function && !is_view(subject.graph, node));
    if (!is_value || !meta || !tensor::is_floating(meta->dtype) || mutates)
      return;
    const double unit = meta->dtype == DType::bf16  ? 0x1p-7
                        : meta->dtype == DType::f16 ? 0x1p-10
                        : meta->dtype == DType::f32 ? 0x1p-22
                                                    : 0x1p-50;
    const double moved = random.chance(50) ? unit : -unit;
    // Neighbours along every dimension in opposite directions, so that what cancels does so no
    // more.
    ops::GraphBuilder &builder = rewrite.builder();
    Argument sign = 1.0;
    for (const Expr size : meta->layout.sizes) {
      if (!size.is_integer())
        return;
      const Argument place =
          builder.emit("aten.arange.start_step", {int64_t{0}, size.value(), int64_t{1}},
                       {{"dtype", DType::f64}});
      const Argument odd = builder.emit("aten.remainder.Scalar", {place, int64_t{2}});
      const Argument own =
          builder.emit("aten.rsub.Scalar", {builder.emit("aten.mul.Scalar", {odd, 2.0}), 1.0});
      if (sign.node())
        sign = builder.emit("aten.unsqueeze.default", {sign, int64_t{-1}});
      sign = sign.node() ? builder.emit("aten.mul.Tensor", {sign, own}) : own;
    }
    const Argument factor =
        sign.node()
            ? builder.emit("aten.add.Scalar", {builder.emit("aten.mul.Scalar", {sign, moved}), 1.0})
            : Argument(1.0 + moved);
    const Argument scaled = builder.emit("aten.mul.Tensor", {rewrite.replacement(id), factor});
    const Argument other =
        builder.emit("prims.convert_element_type.default", {scaled, meta->dtype});
    if (node.kind == NodeKind::placeholder)
      rewrite.replace_uses(id, other);
    else
      rewrite.replace(id, other);
  });
  refresh_output_node(result.graph);
  for (tensor::HostTensor &input : result.inputs) {
    if (!tensor::is_floating(input.dtype()))
      continue;
    input = input.clone();
    const double unit = tensor::is_reduced_float(input.dtype()) ? 0 : 0x1p-22;
    for (int64_t i = 0; i < input.numel(); ++i)
      input.set_double(i, input.get_double(i) * (1 + (random.chance(50) ? unit : -unit)));
  }
  return result;
}

} // namespace tsc::differential
