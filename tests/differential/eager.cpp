#include "eager.h"

#include "rebuild.h"

#include "driver/compile.h"
#include "driver/reference.h"
#include "ops/families/storage_bounds.h"
#include "ops/table/rewrite.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>

namespace tsc::differential {
namespace {

using graph::Argument;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::NodeKind;
using graph::NodeRef;
using tensor::DType;
using tensor::HostTensor;

/// Memory, and the elements of it that a tensor is made of, in row-major order.
struct Eager {
  std::shared_ptr<HostTensor> memory;
  std::vector<int64_t> sizes, places;

  HostTensor read() const {
    HostTensor result(memory->dtype(), sizes);
    const size_t width = tensor::size_in_bytes(memory->dtype());
    for (size_t i = 0; i < places.size(); ++i)
      std::copy_n(memory->data() + static_cast<size_t>(places[i]) * width, width,
                  result.data() + i * width);
    return result;
  }
  void write(const HostTensor &value) {
    const HostTensor from = value.contiguous();
    const size_t width = tensor::size_in_bytes(memory->dtype());
    for (size_t i = 0; i < places.size(); ++i)
      std::copy_n(from.data() + i * width, width,
                  memory->data() + static_cast<size_t>(places[i]) * width);
  }
};

Eager owned(const HostTensor &value) {
  Eager result;
  result.memory = std::make_shared<HostTensor>(value.clone());
  result.sizes = value.sizes();
  result.places.resize(static_cast<size_t>(value.numel()));
  std::iota(result.places.begin(), result.places.end(), int64_t{0});
  return result;
}

class EagerRun {
public:
  explicit EagerRun(const Subject &subject) : graph_(subject.graph) {
    for (size_t i = 0; i < graph_.inputs.size(); ++i)
      values_[graph_.inputs[i].node] = {owned(subject.inputs[i])};
  }

  std::optional<EagerResult> run() {
    const bool mutates = has_mutations(graph_);
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const Node &node = graph_.nodes[id];
      if (node.kind != NodeKind::call_function)
        continue;
      if (node.target == "operator.getitem") {
        const NodeId from = node.args[0].node()->id;
        values_[id] = {
            values_.at(from).at(static_cast<size_t>(std::get<int64_t>(node.args[1].value)))};
        continue;
      }
      const ops::Operator *row = ops::find_operator(node.target);
      if (!row || (row->schema.is_mutable() && row->effect == ops::Effect::view) ||
          node.target.find("as_strided") != std::string::npos) // of whole memory, which nobody has
        return std::nullopt;
      if (row->schema.is_mutable())
        run_mutating(id, *row);
      else if (row->effect != ops::Effect::view || !mutates)
        run_functional(id);
      else if (!run_view(id, *row))
        return std::nullopt;
    }
    EagerResult result;
    for (const graph::OutputSpec &output : graph_.outputs) {
      if (!output.value.node())
        return std::nullopt;
      result.outputs.push_back(values_.at(output.value.node()->id).at(0).read());
    }
    for (const graph::InputSpec &input : graph_.inputs)
      result.inputs.push_back(values_.at(input.node).at(0).read());
    return result;
  }

private:
  const Graph &graph_;
  const std::shared_ptr<const symbolic::Ranges> ranges_ =
      std::make_shared<const symbolic::Ranges>(graph_.ranges());
  std::map<NodeId, std::vector<Eager>> values_; // several of a tuple

  /// The call alone, its tensors as inputs.
  Graph alone(NodeId id, std::vector<NodeId> &arguments) const {
    Graph single;
    std::map<NodeId, NodeId> places;
    for_each_argument(graph_, id, [&](NodeId argument) {
      if (places.count(argument))
        return;
      places[argument] = static_cast<NodeId>(single.nodes.size());
      arguments.push_back(argument);
      Node input;
      input.name = "a" + std::to_string(single.nodes.size());
      input.kind = NodeKind::placeholder;
      input.target = input.name;
      graph::TensorMeta meta = *graph_.nodes[argument].value->tensor();
      const std::vector<size_t> order = tensor::stride_order(meta.layout.strides);
      meta.layout.strides = tensor::strides_in_order(meta.layout.sizes, order);
      meta.layout.offset = 0;
      input.value = graph::Value{meta};
      single.nodes.push_back(std::move(input));
      graph::InputSpec spec;
      spec.node = places[argument];
      single.inputs.push_back(spec);
    });
    Node node = graph_.nodes[id];
    node.value.reset();
    const auto renamed = [&](NodeRef reference) {
      return Argument(NodeRef{places.at(reference.id)});
    };
    for (Argument &argument : node.args)
      argument = ops::map_references(argument, renamed);
    for (auto &[name, argument] : node.kwargs)
      argument = ops::map_references(argument, renamed);
    const NodeId call = static_cast<NodeId>(single.nodes.size());
    single.nodes.push_back(std::move(node));
    const graph::Value::List *list = graph_.nodes[id].value->list();
    for (size_t i = 0; i < (list ? list->size() : 1); ++i) {
      NodeId from = call;
      if (list) {
        if (!(*list)[i].tensor())
          continue;
        Node item;
        item.name = "item" + std::to_string(i);
        item.target = "operator.getitem";
        item.args = {NodeRef{call}, static_cast<int64_t>(i)};
        from = static_cast<NodeId>(single.nodes.size());
        single.nodes.push_back(std::move(item));
      }
      single.outputs.push_back({graph::OutputKind::user, NodeRef{from}, ""});
    }
    Node output;
    output.name = "output";
    output.kind = NodeKind::output;
    output.target = "output";
    single.nodes.push_back(std::move(output));
    refresh_output_node(single);
    return single;
  }

  struct Ran {
    std::vector<HostTensor> outputs;           // of users
    std::map<std::string, HostTensor> mutated; // by input's name
  };
  static Ran compute(Graph single, const std::vector<HostTensor> &inputs) {
    const driver::Compilation compilation = driver::compile(std::move(single), {});
    const std::vector<HostTensor> results = driver::run_reference(compilation, inputs, {});
    Ran ran;
    for (size_t i = 0; i < results.size(); ++i) {
      const program::OutputInfo &info = compilation.program.outputs[i];
      if (info.is_mutation)
        ran.mutated[info.name.substr(8)] = results[i];
      else
        ran.outputs.push_back(results[i]);
    }
    return ran;
  }

  std::vector<Eager> spread(NodeId id, const std::vector<HostTensor> &outputs) const {
    std::vector<Eager> values;
    const graph::Value::List *list = graph_.nodes[id].value->list();
    size_t next = 0;
    for (size_t i = 0; i < (list ? list->size() : 1); ++i)
      values.push_back(list && !(*list)[i].tensor() ? Eager{} : owned(outputs.at(next++)));
    return values;
  }

  void run_functional(NodeId id) {
    std::vector<NodeId> arguments;
    Graph single = alone(id, arguments);
    std::vector<HostTensor> inputs;
    for (const NodeId argument : arguments)
      inputs.push_back(values_.at(argument).at(0).read());
    values_[id] = spread(id, compute(std::move(single), inputs).outputs);
  }

  /// What may be views and copies, as dtypes, sizes and strides have it: the operators that the
  /// call stands for say so. False where they do not say which memory is seen.
  bool run_view(NodeId id, const ops::Operator &row) {
    ops::DecomposedAlone call;
    if (row.decompose) {
      call = ops::decompose_alone(graph_, graph_.nodes[id], row, ranges_);
    } else { // a view, always
      call.graph = alone(id, call.arguments);
      const auto first = static_cast<NodeId>(call.arguments.size());
      call.graph.nodes[first].value = graph_.nodes[id].value;
      call.result = NodeRef{first};
    }
    const Argument::List *list = call.result.list();
    std::vector<Eager> values;
    size_t copies = 0;
    for (const Argument &result : list ? *list : Argument::List{call.result}) {
      std::vector<NodeId> chain = ops::chain_of_views(call.graph, result.node()->id);
      if (call.graph.node(chain.back()).kind != NodeKind::placeholder) {
        ++copies;
        continue;
      }
      const Eager &viewed = values_.at(call.arguments[chain.back()]).at(0);
      chain.pop_back();
      for (const NodeId view : chain)
        if (call.graph.node(view).target == "aten.view.dtype") // other bits
          return false;
      values.push_back(chain.empty() ? viewed : seen_through(call.graph, chain, viewed));
    }
    if (copies == 0) {
      values_[id] = std::move(values);
      return true;
    }
    run_functional(id);
    return values.empty();
  }

  /// `viewed` through a chain of views, the outermost first: the same calls on the elements' places
  /// say which they see.
  static Eager seen_through(const Graph &calls, const std::vector<NodeId> &chain,
                            const Eager &viewed) {
    Graph graph;
    Node input;
    input.name = input.target = "places";
    input.kind = NodeKind::placeholder;
    graph::TensorMeta meta;
    meta.dtype = DType::i64;
    meta.layout = tensor::contiguous_layout({viewed.sizes.begin(), viewed.sizes.end()});
    input.value = graph::Value{meta};
    graph.nodes.push_back(std::move(input));
    graph.inputs.emplace_back();
    for (size_t i = chain.size(); i-- > 0;) {
      Node view = calls.node(chain[i]);
      view.args[0] = NodeRef{static_cast<NodeId>(graph.nodes.size() - 1)};
      view.name = "view" + std::to_string(i);
      view.value.reset();
      view.origins.clear();
      graph.nodes.push_back(std::move(view));
    }
    graph.outputs.push_back(
        {graph::OutputKind::user, NodeRef{static_cast<NodeId>(graph.nodes.size() - 1)}, ""});
    Node output;
    output.name = output.target = "output";
    output.kind = NodeKind::output;
    graph.nodes.push_back(std::move(output));
    refresh_output_node(graph);
    HostTensor places(DType::i64, viewed.sizes);
    for (size_t i = 0; i < viewed.places.size(); ++i)
      places.set_int64(static_cast<int64_t>(i), viewed.places[i]);
    const HostTensor seen = compute(std::move(graph), {places}).outputs.at(0);
    Eager view{viewed.memory, seen.sizes(), {}};
    for (int64_t i = 0; i < seen.numel(); ++i)
      view.places.push_back(seen.get_int64(i));
    return view;
  }

  void run_mutating(NodeId id, const ops::Operator &row) {
    std::vector<NodeId> arguments;
    Graph single = alone(id, arguments);
    std::vector<HostTensor> inputs;
    for (const NodeId argument : arguments)
      inputs.push_back(values_.at(argument).at(0).read());
    const Ran ran = compute(std::move(single), inputs);
    for (size_t i = 0; i < arguments.size(); ++i)
      if (const auto found = ran.mutated.find("a" + std::to_string(i)); found != ran.mutated.end())
        values_.at(arguments[i]).at(0).write(found->second);
    // What an in-place call yields is what it writes.
    const Node &node = graph_.nodes[id];
    if (row.schema.returns.size() == 1 && !row.schema.returns[0].alias.empty() &&
        !node.args.empty() && node.args[0].node())
      values_[id] = {values_.at(node.args[0].node()->id).at(0)};
    else
      values_[id] = spread(id, ran.outputs);
  }
};

} // namespace

std::optional<EagerResult> run_eagerly(const Subject &subject) {
  for (const Node &node : subject.graph.nodes) {
    if (node.kind == NodeKind::output)
      continue;
    const graph::Value::List *list = node.value ? node.value->list() : nullptr;
    if (!list && !static_sizes(node.value))
      return std::nullopt;
    for (size_t i = 0; list && i < list->size(); ++i)
      if ((*list)[i].tensor() && !static_sizes((*list)[i]))
        return std::nullopt;
  }
  return EagerRun(subject).run();
}

} // namespace tsc::differential
