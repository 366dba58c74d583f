#include "driver/inputs.h"

#include "support/diagnostic.h"
#include "support/hash.h"
#include "support/text.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace tsc::driver {
namespace {

using support::Diagnostic;
using support::ExitCode;
using support::UserError;
using tensor::HostTensor;

std::string shape_text(const std::vector<int64_t> &sizes) {
  std::vector<std::string> parts;
  for (int64_t size : sizes)
    parts.push_back(std::to_string(size));
  return "[" + support::join(parts, ", ") + "]";
}

/// Sizes with symbols set to a small value of their range.
std::vector<int64_t> concrete_sizes(const program::Program &program, const tensor::Layout &layout) {
  symbolic::Bindings bindings;
  for (const program::Symbol &symbol : program.symbols)
    bindings[symbol.symbol] = std::clamp<int64_t>(8, symbol.low, symbol.high);
  std::vector<int64_t> sizes;
  for (symbolic::Expr size : layout.sizes)
    sizes.push_back(symbolic::evaluate(size, bindings));
  return sizes;
}

/// The placeholder that `id` is a reindexed or cast copy of, if any.
std::optional<graph::NodeId> origin_of(const graph::Graph &graph, graph::NodeId id) {
  static const std::set<std::string> kTransparent = {
      "aten.view.default",     "aten.reshape.default", "aten.unsqueeze.default",
      "aten.expand.default",   "aten.clone.default",   "aten.alias.default",
      "aten._to_copy.default", "aten.to.dtype",        "aten.slice.Tensor",
      "aten.select.int",       "aten.permute.default", "aten.contiguous.default",
      "aten.squeeze.dim",      "aten.transpose.int",   "prims.convert_element_type.default"};
  for (;;) {
    const graph::Node &node = graph.node(id);
    if (node.kind == graph::NodeKind::placeholder)
      return id;
    if (!kTransparent.count(node.target) || node.args.empty() || !node.args[0].node())
      return std::nullopt;
    id = node.args[0].node()->id;
  }
}

void bound(const graph::Graph &graph, std::map<std::string, DataHint> &hints,
           const graph::Argument &index, const graph::Argument &table, int64_t dimension) {
  if (!index.node() || !table.node())
    return;
  const graph::Node &source = graph.node(table.node()->id);
  const graph::TensorMeta *meta = source.value ? source.value->tensor() : nullptr;
  std::optional<graph::NodeId> origin = origin_of(graph, index.node()->id);
  if (!meta || !origin || meta->layout.rank() == 0)
    return;
  if (dimension < 0)
    dimension += static_cast<int64_t>(meta->layout.rank());
  if (dimension < 0 || dimension >= static_cast<int64_t>(meta->layout.rank()))
    return;
  std::optional<int64_t> extent = meta->layout.sizes[static_cast<size_t>(dimension)].as_integer();
  if (!extent)
    return;
  auto [hint, inserted] = hints.try_emplace(graph.node(*origin).name, DataHint{*extent - 1, false});
  if (!inserted)
    hint->second.high = std::min(hint->second.high, *extent - 1);
}

HostTensor random_for(const std::string &name, tensor::DType dtype, std::vector<int64_t> sizes,
                      uint64_t seed, const DataHint &hint, double scale) {
  tensor::RandomSpec spec;
  spec.seed = support::hash_bytes(name, seed);
  spec.scale = scale;
  spec.positive = hint.positive;
  spec.low = 0;
  spec.high = std::max<int64_t>(0, hint.high);
  return tensor::random_tensor(dtype, std::move(sizes), spec);
}

} // namespace

DataSource parse_data_source(const std::string &text) {
  DataSource source;
  if (text == "random" || support::starts_with(text, "random:")) {
    source.random = true;
    std::string digits = text.size() > 7 ? text.substr(7) : "0";
    if (digits.find_first_not_of("0123456789") != std::string::npos || digits.size() > 18)
      throw UserError(ExitCode::usage,
                      Diagnostic{"TSC-C010", "'" + text + "' is not random[:SEED]", "", "", "", "",
                                 "give a seed in decimal digits, as in random:7"});
    source.seed = std::stoull(digits);
    return source;
  }
  source.path = text;
  return source;
}

std::map<std::string, DataHint> data_hints(const graph::Graph &graph) {
  std::map<std::string, DataHint> hints;
  for (const graph::Node &node : graph.nodes) {
    if (node.target == "aten.embedding.default" && node.args.size() >= 2)
      bound(graph, hints, node.args[1], node.args[0], 0);
    if ((node.target == "aten.gather.default" || node.target == "aten.index_select.default") &&
        node.args.size() >= 3) {
      const int64_t *dimension = std::get_if<int64_t>(&node.args[1].value);
      bound(graph, hints, node.args[2], node.args[0], dimension ? *dimension : 0);
    }
    if ((node.target == "aten.index.Tensor" || node.target == "aten.index_put.default") &&
        node.args.size() >= 2 && node.args[1].list()) {
      for (size_t i = 0; i < node.args[1].list()->size(); ++i)
        bound(graph, hints, (*node.args[1].list())[i], node.args[0], static_cast<int64_t>(i));
    }
  }
  return hints;
}

std::vector<HostTensor> load_inputs(const program::Program &program, const DataSource &source,
                                    const std::map<std::string, DataHint> &hints) {
  std::vector<HostTensor> inputs;
  if (source.random) {
    for (const program::InputInfo &input : program.inputs) {
      const program::Buffer &buffer = program.buffers[input.buffer];
      auto hint = hints.find(input.name);
      inputs.push_back(random_for(input.name, buffer.dtype, concrete_sizes(program, buffer.layout),
                                  source.seed, hint == hints.end() ? DataHint{} : hint->second,
                                  1.0));
    }
    return inputs;
  }
  tensor::TensorMap file = tensor::read_tensors(source.path);
  std::vector<std::string> missing, wanted;
  std::set<std::string> used;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    std::string positional = "input_" + std::to_string(i);
    wanted.push_back(program.inputs[i].name);
    auto found = file.find(program.inputs[i].name);
    if (found == file.end())
      found = file.find(positional);
    if (found == file.end()) {
      missing.push_back(program.inputs[i].name + " (or " + positional + ")");
      continue;
    }
    used.insert(found->first);
    inputs.push_back(found->second.contiguous());
  }
  std::vector<std::string> names;
  for (const auto &entry : file) {
    names.push_back(entry.first);
    if (!used.count(entry.first) && missing.empty())
      throw UserError(
          ExitCode::bad_input,
          Diagnostic{"TSC-R121",
                     "the inputs hold '" + entry.first + "', which the graph does not take",
                     source.path, "", "", "", "the graph takes: " + support::join(wanted, ", ")});
  }
  if (!missing.empty())
    throw UserError(ExitCode::bad_input,
                    Diagnostic{"TSC-R121", "inputs are missing: " + support::join(missing, ", "),
                               source.path, "", "", "",
                               "the file holds: " + support::join(names, ", ")});
  return inputs;
}

tensor::TensorMap load_weights(const program::Program &program, const tensor::TensorMap &from_graph,
                               const std::optional<DataSource> &source) {
  tensor::TensorMap file;
  if (source && !source->random)
    file = tensor::read_tensors(source->path);
  tensor::TensorMap weights;
  std::vector<Diagnostic> problems;
  for (const program::Buffer &buffer : program.buffers) {
    if (buffer.role != program::Role::weight || weights.count(buffer.weight))
      continue;
    std::vector<int64_t> sizes = concrete_sizes(program, buffer.layout);
    const HostTensor *tensor = nullptr;
    if (auto found = file.find(buffer.weight); found != file.end())
      tensor = &found->second;
    else if (auto own = from_graph.find(buffer.weight); own != from_graph.end())
      tensor = &own->second;
    if (tensor) {
      if (tensor->dtype() != buffer.dtype || tensor->sizes() != sizes)
        problems.push_back(
            {"TSC-R122",
             "weight '" + buffer.weight + "' is " +
                 std::string(tensor::torch_name(tensor->dtype())) + " " +
                 shape_text(tensor->sizes()) + ", the graph has " +
                 std::string(tensor::torch_name(buffer.dtype)) + " " + shape_text(sizes),
             source ? source->path : "", "", "", "", "give a weight of that dtype and shape"});
      weights[buffer.weight] = *tensor;
      continue;
    }
    if (source && source->random) {
      DataHint hint;
      hint.positive = buffer.weight.find("running_var") != std::string::npos;
      double fan_in = sizes.size() >= 2 ? static_cast<double>(sizes.back()) : 1.0;
      weights[buffer.weight] = random_for(buffer.weight, buffer.dtype, sizes, source->seed, hint,
                                          1.0 / std::sqrt(std::max(1.0, fan_in)));
      continue;
    }
    problems.push_back(
        {"TSC-R122", "weight '" + buffer.weight + "' is missing", source ? source->path : "", "",
         "", "", "give it with --weights FILE (safetensors, by this name), or --weights random"});
  }
  if (!problems.empty())
    throw UserError(ExitCode::bad_input, std::move(problems));
  return weights;
}

} // namespace tsc::driver
