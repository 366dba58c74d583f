#include "driver/inputs.h"

#include "ops/table/operator.h"
#include "support/diagnostic.h"
#include "support/hash.h"
#include "support/text.h"
#include "tensor/complex_memory.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace tsc::driver {
namespace {

using support::Diagnostic;
using support::ExitCode;
using support::UserError;
using tensor::HostTensor;

std::vector<int64_t> concrete_sizes(const symbolic::Bindings &bindings,
                                    const tensor::Layout &layout) {
  std::vector<int64_t> sizes;
  for (symbolic::Expr size : layout.sizes)
    sizes.push_back(symbolic::evaluate(size, bindings));
  return sizes;
}

/// The placeholder that `id` is a reindexed, cast or partly replaced copy of, if any.
std::optional<graph::NodeId> origin_of(const graph::Graph &graph, graph::NodeId id) {
  for (;;) {
    const graph::Node &node = graph.node(id);
    if (node.kind == graph::NodeKind::placeholder)
      return id;
    const bool replaces = node.target == "aten.where.self";
    if (!ops::passes_elements(node) && !replaces)
      return std::nullopt;
    const size_t source = replaces ? 1 : 0;
    if (node.args.size() <= source || !node.args[source].node())
      return std::nullopt;
    id = node.args[source].node()->id;
  }
}

using Hints = std::map<std::string, DataHint>;

void bound_by(const graph::Graph &graph, Hints &hints, const graph::Argument &index,
              std::optional<int64_t> extent) {
  const std::optional<graph::NodeId> origin =
      index.node() ? origin_of(graph, index.node()->id) : std::nullopt;
  if (!origin || !extent)
    return;
  auto [hint, inserted] = hints.try_emplace(graph.node(*origin).name, DataHint{*extent - 1, false});
  if (!inserted)
    hint->second.high = std::min(hint->second.high, *extent - 1);
}

void bound(const graph::Graph &graph, Hints &hints, const graph::Argument &index,
           const graph::Argument &table, int64_t dimension) {
  if (!index.node() || !table.node())
    return;
  const graph::Node &source = graph.node(table.node()->id);
  const graph::TensorMeta *meta = source.value ? source.value->tensor() : nullptr;
  if (!meta)
    return;
  if (meta->layout.rank() == 0)
    return bound_by(graph, hints, index, 1);
  if (dimension < 0)
    dimension += static_cast<int64_t>(meta->layout.rank());
  if (dimension < 0 || dimension >= static_cast<int64_t>(meta->layout.rank()))
    return;
  bound_by(graph, hints, index, meta->layout.sizes[static_cast<size_t>(dimension)].as_integer());
}

/// What tsc.check_range and tsc.check_float hold.
void hold(const graph::Graph &graph, Hints &hints, const graph::Node &check) {
  if (check.target == "tsc.check_range.default") {
    if (const int64_t *size = std::get_if<int64_t>(&check.args[1].value))
      bound_by(graph, hints, check.args[0], *size);
    return;
  }
  const graph::NodeRef *checked = check.args[0].node();
  const auto origin = checked ? origin_of(graph, checked->id) : std::nullopt;
  const double *high = std::get_if<double>(&check.args[1].value);
  if (origin && high)
    hints[graph.node(*origin).name] = {1, true, std::isinf(*high) ? 1 : *high / 2};
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
    if (node.target == "tsc.check_range.default" || node.target == "tsc.check_float.default")
      hold(graph, hints, node);
    if (node.target == "aten.embedding.default" && node.args.size() >= 2)
      bound(graph, hints, node.args[1], node.args[0], 0);
    if ((node.target == "aten.gather.default" ||
         support::starts_with(node.target, "aten.scatter")) &&
        node.args.size() >= 3) {
      const int64_t *dimension = std::get_if<int64_t>(&node.args[1].value);
      bound(graph, hints, node.args[2], node.args[0], dimension ? *dimension : 0);
    }
    if ((node.target == "aten.index.Tensor" || node.target == "aten.index_put.default") &&
        node.args.size() >= 2 && node.args[1].list())
      for (size_t i = 0; i < node.args[1].list()->size(); ++i)
        bound(graph, hints, (*node.args[1].list())[i], node.args[0], static_cast<int64_t>(i));
  }
  return hints;
}

std::vector<HostTensor> load_inputs(const program::Program &program, const DataSource &source,
                                    const std::map<std::string, DataHint> &hints,
                                    const Constants &constants, const Shapes &shapes) {
  std::vector<HostTensor> inputs;
  const symbolic::Bindings bindings = bind_shapes(program.symbols, shapes);
  if (source.random) {
    for (const program::InputInfo &input : program.inputs) {
      const program::Buffer &buffer = program.buffers[input.buffer];
      if (input.value) {
        inputs.emplace_back(tensor::DType::i64, std::vector<int64_t>{});
        inputs.back().set_int64(0, symbolic::evaluate(*input.value, bindings));
        continue;
      }
      auto hint = hints.find(input.name);
      const DataHint chosen = hint == hints.end() ? DataHint{} : hint->second;
      inputs.push_back(random_for(input.name, buffer.dtype, concrete_sizes(bindings, buffer.layout),
                                  source.seed, chosen, chosen.scale));
      if (buffer.is_complex)
        inputs.back() = tensor::as_complex(inputs.back());
    }
    return inputs;
  }
  return match_inputs(program, tensor::read_tensors(source.path), source.path, constants);
}

namespace {

/// Chooses every weight from the file, the graph's own archive or at random, and notes what is
/// wrong with the file.
class WeightLoader {
public:
  WeightLoader(const program::Program &program, const tensor::TensorMap &from_graph,
               const std::optional<DataSource> &source)
      : program_(program), bindings_(bind_shapes(program.symbols, {})), from_graph_(from_graph),
        source_(source) {
    if (source && !source->random)
      file_ = tensor::read_tensors(source->path);
  }

  tensor::TensorMap run(std::vector<std::string> &warnings) {
    for (const program::Buffer &buffer : program_.buffers)
      if (buffer.role == program::Role::weight && names_.insert(buffer.weight).second)
        load(buffer);
    check_names(warnings);
    if (!problems_.empty())
      throw UserError(ExitCode::bad_input, std::move(problems_));
    return std::move(weights_);
  }

private:
  const program::Program &program_;
  const symbolic::Bindings bindings_;
  const tensor::TensorMap &from_graph_;
  const std::optional<DataSource> &source_;
  tensor::TensorMap file_, weights_;
  std::set<std::string> names_;
  std::vector<std::string> missing_, names_of_file_;
  std::vector<Diagnostic> problems_;
  static constexpr size_t kMostNames = 5; // that are compared with all others

  void add(const char *code, std::string message, std::string next_step) {
    problems_.push_back(
        {code, std::move(message), source_ ? source_->path : "", "", "", "", std::move(next_step)});
  }

  void load(const program::Buffer &buffer) {
    const std::vector<int64_t> sizes = concrete_sizes(bindings_, buffer.layout);
    const HostTensor *tensor = nullptr;
    if (auto found = file_.find(buffer.weight); found != file_.end())
      tensor = &found->second;
    else if (auto own = from_graph_.find(buffer.weight); own != from_graph_.end())
      tensor = &own->second;
    if (tensor) {
      const HostTensor parts = tensor::as_real(*tensor); // also given as they are
      const program::Buffer seen = program::seen(buffer);
      const std::vector<int64_t> seen_sizes = concrete_sizes(bindings_, seen.layout);
      const bool is_expected = tensor->dtype() == seen.dtype && tensor->sizes() == seen_sizes;
      if (!is_expected && (parts.dtype() != buffer.dtype || parts.sizes() != sizes))
        add("TSC-R122",
            "weight '" + buffer.weight + "' is " + describe_tensor(*tensor) + ", the graph takes " +
                describe_tensor(seen.dtype, {seen_sizes.begin(), seen_sizes.end()}),
            "give a weight of that dtype and shape");
      weights_[buffer.weight] = buffer.is_complex ? parts : *tensor;
    } else if (source_ && source_->random) {
      DataHint hint;
      hint.positive = buffer.weight.find("running_var") != std::string::npos;
      const double fan_in = sizes.size() >= 2 ? static_cast<double>(sizes.back()) : 1.0;
      weights_[buffer.weight] = random_for(buffer.weight, buffer.dtype, sizes, source_->seed, hint,
                                           1.0 / std::sqrt(std::max(1.0, fan_in)));
    } else {
      missing_.push_back(buffer.weight);
      if (names_of_file_.empty())
        for (const auto &entry : file_)
          names_of_file_.push_back(entry.first);
      const std::string near =
          missing_.size() > kMostNames ? "" : support::did_you_mean(buffer.weight, names_of_file_);
      add("TSC-R122", "weight '" + buffer.weight + "' is missing",
          near.empty()
              ? "give it with --weights FILE (safetensors, by this name), or --weights random"
              : "is it the file's '" + near + "'? rename that");
    }
  }

  /// A checkpoint may hold more than the graph takes: that is said, and an error only if the file
  /// holds nothing else.
  void check_names(std::vector<std::string> &warnings) {
    std::vector<std::string> unknown;
    for (const auto &entry : file_)
      if (!names_.count(entry.first))
        unknown.push_back(entry.first);
    if (unknown.empty())
      return;
    const std::vector<std::string> known(names_.begin(), names_.end());
    const auto text_of = [&](const std::string &name) {
      const std::string near = support::did_you_mean(name, known);
      return "'" + name + "'" + (near.empty() ? "" : " (did you mean '" + near + "'?)");
    };
    if (unknown.size() == file_.size()) {
      add("TSC-R124",
          "no name in the file is a weight of the graph, " + text_of(unknown.front()) + " neither",
          known.empty()
              ? "the graph takes no weights: leave --weights out"
              : "the graph takes '" + known.front() + "'" +
                    (known.size() == 1 ? ""
                                       : " and " + std::to_string(known.size() - 1) + " more"));
      return;
    }
    for (size_t i = 0; i < unknown.size() && i < kMostNames; ++i)
      warnings.push_back("the weights hold " + text_of(unknown[i]) +
                         ", which the graph does not take");
    if (unknown.size() > kMostNames)
      warnings.push_back("the weights hold " + std::to_string(unknown.size() - kMostNames) +
                         " more names that the graph does not take");
  }
};

} // namespace

tensor::TensorMap load_weights(const program::Program &program, const tensor::TensorMap &from_graph,
                               const std::optional<DataSource> &source,
                               std::vector<std::string> *warnings) {
  std::vector<std::string> ignored;
  return WeightLoader(program, from_graph, source).run(warnings ? *warnings : ignored);
}

} // namespace tsc::driver
