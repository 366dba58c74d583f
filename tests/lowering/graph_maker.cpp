#include "graph_maker.h"

#include "graph/read.h"
#include "ops/passes/passes.h"

#include <algorithm>

namespace tsc::lowering::testing {

NodeRef GraphMaker::input(const std::string &name, DType dtype, std::vector<graph::Expr> sizes,
                          std::vector<graph::Expr> strides) {
  graph::Node node;
  node.name = node.target = name;
  node.kind = graph::NodeKind::placeholder;
  node.origins = {name};
  graph::TensorMeta meta;
  meta.dtype = dtype;
  meta.layout = tensor::contiguous_layout(std::move(sizes));
  if (!strides.empty())
    meta.layout.strides = std::move(strides);
  node.value = graph::Value{meta};
  const auto id = static_cast<graph::NodeId>(graph_.nodes.size());
  graph_.nodes.push_back(std::move(node));
  graph::InputSpec spec;
  spec.node = id;
  graph_.inputs.push_back(std::move(spec));
  return {id};
}

NodeRef GraphMaker::call(const std::string &target, std::vector<Argument> args,
                         std::vector<std::pair<std::string, Argument>> kwargs) {
  graph::Node node;
  node.name = "node_" + std::to_string(graph_.nodes.size());
  node.target = target;
  node.args = std::move(args);
  node.kwargs = std::move(kwargs);
  node.origins = {node.name};
  graph_.nodes.push_back(std::move(node));
  return {static_cast<graph::NodeId>(graph_.nodes.size() - 1)};
}

void GraphMaker::mutate(const std::string &name, NodeRef value) {
  graph::OutputSpec spec;
  spec.kind = graph::OutputKind::input_mutation;
  spec.value = value;
  spec.target = name;
  mutations_.push_back(std::move(spec));
}

void GraphMaker::output(NodeRef value) {
  graph::OutputSpec spec;
  spec.value = value;
  outputs_.push_back(std::move(spec));
}

graph::Graph GraphMaker::graph() const {
  graph::Graph graph = graph_;
  graph.outputs = mutations_;
  graph.outputs.insert(graph.outputs.end(), outputs_.begin(), outputs_.end());
  graph::Node node;
  node.name = node.target = "output";
  node.kind = graph::NodeKind::output;
  Argument::List values;
  for (const graph::OutputSpec &output : graph.outputs)
    values.push_back(output.value);
  node.args = {Argument(values)};
  graph.nodes.push_back(std::move(node));
  return graph;
}

ir::Module GraphMaker::lower(const target::Policy &policy, bool clean_up) {
  LoweringOptions options;
  options.policy = &policy;
  options.target = &target::find_target("sm_80");
  ops::PassOptions passes;
  passes.cleanup = clean_up;
  return lowering::lower(ops::run_graph_passes(graph(), passes), options);
}

std::string body_of(const ir::Module &module, size_t operation) {
  const ir::LoopBody body =
      ir::simplify_and_reorder(module, ir::trace(module, module.operations.at(operation)));
  const std::string text = ir::to_text(module, body, "body");
  return text.substr(text.find('\n') + 1);
}

namespace {

std::string list(const std::vector<graph::Expr> &values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i)
    text += (i ? ", " : "") + symbolic::print(values[i]);
  return text + "]";
}

std::string kind_of(const ir::Operation &operation) {
  if (const auto *reduction = std::get_if<ir::Reduction>(&operation.kind))
    return std::string(ir::reduction_name(reduction->kind));
  if (const auto *library = std::get_if<ir::Extern>(&operation.kind))
    return library->library == ir::Library::concatenate ? "concatenate" : library->kernel;
  static const std::vector<std::string> names = {"pointwise", "scatter", "reduction",
                                                 "scan",      "sort",    "extern"};
  return names[operation.kind.index()];
}

void add_once(std::vector<std::string> &names, const std::string &name) {
  if (std::find(names.begin(), names.end(), name) == names.end())
    names.push_back(name);
}

std::vector<std::string> reads_of(const ir::Module &module, const ir::Operation &operation) {
  std::vector<std::string> names;
  if (const auto *library = std::get_if<ir::Extern>(&operation.kind)) {
    for (const ir::BufferView &view : library->inputs)
      names.push_back(module.buffer(view.buffer).name + list(view.layout.strides));
    return names;
  }
  for (const ir::BodyOp &op : ir::trace(module, operation).ops)
    if (op.op == ir::Op::load)
      add_once(names, module.buffer(op.buffer).name);
  return names;
}

} // namespace

std::string summary(const ir::Module &module) {
  std::string text;
  for (const ir::Operation &operation : module.operations) {
    const ir::Buffer &buffer = module.buffer(operation.outputs[0]);
    text += operation.name + " " + kind_of(operation) + " " + buffer.name;
    if (buffer.mutates != ir::kNone)
      text += " => " + module.buffer(buffer.mutates).name;
    if (buffer.view_of != ir::kNone) {
      text += " in " + module.buffer(buffer.view_of).name + " from " +
              symbolic::print(buffer.layout.offset);
    }
    text += " " + std::string(tensor::short_name(buffer.dtype)) + " " + list(buffer.layout.sizes) +
            " " + list(buffer.layout.strides) + " <-";
    const std::vector<std::string> reads = reads_of(module, operation);
    for (size_t i = 0; i < reads.size(); ++i)
      text += (i ? ", " : " ") + reads[i];
    text += "\n";
  }
  return text;
}

ir::Module lower_file(const std::string &path, const target::Policy &policy) {
  graph::Graph graph = graph::read_graph(std::string(TSC_SOURCE_DIR) + "/" + path);
  ops::PassOptions passes;
  passes.cleanup = graph.stage != "post_grad";
  LoweringOptions options;
  options.policy = &policy;
  return lowering::lower(ops::run_graph_passes(std::move(graph), passes), options);
}

} // namespace tsc::lowering::testing
