#include "graph/data_symbols.h"
#include "ops/families/assertions.h"
#include "ops/families/control_flow.h"
#include "ops/passes/branch_results.h"
#include "ops/passes/clean_up.h"
#include "ops/passes/data_sizes.h"
#include "ops/passes/decompose.h"
#include "ops/passes/functionalize.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/rewrite.h"
#include "ops/table/source_line.h"

#include <algorithm>
#include <set>

namespace tsc::ops {

using graph::NodeId;
using graph::NodeKind;
using graph::NodeRef;

namespace {

using Subgraphs = std::map<std::string, Graph>;

[[noreturn]] void refuse(const Node &call, const std::string &message, std::string next_step) {
  throw support::UserError(support::ExitCode::unsupported,
                           {"TSC-O125", "the call of " + call.target + ": " + message, "", "",
                            call.origins.empty() ? call.name : call.origins.front(),
                            source_line(call), std::move(next_step)});
}

/// `subgraph` as `call` calls it: placeholder k is a tensor like `metas[k]`, or stands for the
/// number `operands[k]`; with both it is a tensor that holds the number, a symbol.
Graph bind_operands(Graph subgraph, const Node &call, const Arguments &operands,
                    const std::vector<const TensorMeta *> &metas, const Graph &outer) {
  const size_t placeholders = static_cast<size_t>(
      std::count_if(subgraph.nodes.begin(), subgraph.nodes.end(),
                    [](const Node &node) { return node.kind == NodeKind::placeholder; }));
  if (placeholders != operands.size())
    refuse(call,
           "a subgraph takes " + std::to_string(placeholders) + " operands, and the call gives " +
               std::to_string(operands.size()),
           "export the graph again");
  subgraph.symbols = outer.symbols;
  subgraph.inputs.clear();
  subgraph.outputs.clear();
  Subgraphs inner = std::move(subgraph.subgraphs);
  Rewrite rewrite(std::move(subgraph));
  std::vector<NodeId> inputs;
  std::vector<std::pair<NodeRef, Expr>> definitions; // of numbers that the data decides
  for (NodeId id = 0; id < rewrite.source().nodes.size(); ++id) {
    if (id == placeholders) {
      rewrite.builder().set_source(call);
      for (const auto &[tensor, symbol] : definitions)
        rewrite.builder().emit(kDefine, {tensor, symbol});
    }
    if (id >= placeholders) {
      rewrite.copy(id);
      continue;
    }
    if (!metas[id]) {
      rewrite.replace(id, operands[id]);
      continue;
    }
    Node node = rewrite.take_mapped(id);
    node.value = Value{*metas[id]};
    inputs.push_back(rewrite.builder().append(std::move(node)));
    const Expr *symbol = std::get_if<Expr>(&operands[id].value);
    rewrite.replace(id, symbol ? operands[id] : Argument(NodeRef{inputs.back()}));
    if (symbol)
      definitions.emplace_back(NodeRef{inputs.back()}, *symbol);
  }
  Graph result = rewrite.take();
  result.subgraphs = std::move(inner);
  for (const NodeId input : inputs)
    result.inputs.push_back({graph::InputKind::user, input, "", true, {}});
  Argument &yielded = result.nodes.back().args.at(0);
  if (!yielded.list())
    yielded = Arguments{yielded};
  for (const Argument &value : *yielded.list())
    result.outputs.push_back({graph::OutputKind::user, value, ""});
  return result;
}

void check_subgraph(const Graph &subgraph, const Node &call) {
  if (has_ordered_operators(subgraph))
    refuse(call, "a subgraph communicates", "do it outside of the branch");
  for (const graph::OutputSpec &output : subgraph.outputs) {
    if (output.kind != graph::OutputKind::user)
      refuse(call, "a subgraph writes to its operand " + output.target,
             "return the new value instead, and write it outside of the branch");
    const NodeRef *node = output.value.node();
    if (!node || !subgraph.node(node->id).value || !subgraph.node(node->id).value->tensor())
      refuse(call, "a subgraph yields something not a tensor",
             "make it a tensor: torch.tensor(number)");
  }
}

/// What is yielded has sizes that are known outside.
void check_results(const Graph &subgraph, const Node &call) {
  for (const graph::OutputSpec &output : subgraph.outputs)
    for (const Expr size : subgraph.node(output.value.node()->id).value->tensor()->layout.sizes)
      if (mentions_own_size(subgraph, size))
        refuse(call, "a subgraph yields a tensor whose size its data decides",
               "pad it to a size that is known outside");
}

/// The passes that every graph goes through before this one, then this one.
Graph run_passes(Graph graph, const PassOptions &options) {
  for (const GraphPass &pass : graph_passes()) {
    if (pass.name == "inline_effects" || pass.name == "inline_subgraphs" ||
        pass.name == "write_results" || pass.name == "cut_by_tensors" ||
        pass.name == "check_operators")
      continue;
    graph = pass.function(std::move(graph), options);
    if (pass.name == "prepare_subgraphs")
      break;
  }
  return graph;
}

/// Tells the sizes that subgraphs define apart: two calls of one subgraph name them alike.
class OwnSizes {
public:
  explicit OwnSizes(Graph &graph) : next_(next_symbol_number(graph, symbolic::SymbolSort::size)) {}

  Graph with_own_names(Graph subgraph) {
    symbolic::Substitution replacements;
    next_ = std::max(next_, next_symbol_number(subgraph, symbolic::SymbolSort::size));
    gather(subgraph, replacements);
    return replacements.empty() ? std::move(subgraph)
                                : with_symbols(std::move(subgraph), replacements);
  }

private:
  size_t next_;
  std::set<Expr, symbolic::ExprLess> taken_;

  void gather(const Graph &graph, symbolic::Substitution &replacements) {
    for (const Node &node : graph.nodes) {
      const Expr *symbol = node.target == kDefine && node.args.size() > 1
                               ? std::get_if<Expr>(&node.args[1].value)
                               : nullptr;
      if (symbol && !graph::is_data_symbol(*symbol) && !taken_.insert(*symbol).second) {
        const Expr own = symbolic::symbol(symbolic::SymbolSort::size, next_++);
        taken_.insert(own);
        replacements.emplace(*symbol, own);
      }
    }
    for (const auto &entry : graph.subgraphs)
      gather(entry.second, replacements);
  }
};

class Preparer {
public:
  Preparer(Graph graph, const PassOptions &options)
      : options_(options), sizes_(graph), sources_(std::move(graph.subgraphs)),
        rewrite_(std::move(graph)) {}

  Graph run() {
    for (NodeId id = 0; id < rewrite_.source().nodes.size(); ++id) {
      const Node &source = rewrite_.source().node(id);
      if (source.target == "operator.getitem" && source.args.at(0).node())
        if (const Arguments *results = rewrite_.replacement(source.args[0].node()->id).list()) {
          const auto place = static_cast<size_t>(std::get<int64_t>(source.args.at(1).value));
          rewrite_.replace(id, results->at(place));
          continue;
        }
      if (!is_control_flow(source)) {
        rewrite_.copy(id);
        continue;
      }
      Node node = rewrite_.take_mapped(id);
      rewrite_.builder().set_source(node);
      const bool is_single = node.value && node.value->tensor();
      if (is_single) // from here on calls yield tuples
        node.value = Value{Value::List{Value{*node.value}}};
      const std::optional<BranchResults> padded = prepare(node);
      const Argument result = NodeRef{rewrite_.builder().append(std::move(node))};
      if (padded && padded->any()) {
        Arguments results = padded->cut(rewrite_.builder(), result);
        rewrite_.replace(id, is_single ? results.at(0) : Argument(std::move(results)));
        continue;
      }
      rewrite_.replace(id, is_single ? rewrite_.builder().item(result, 0) : result);
    }
    Graph result = rewrite_.take();
    result.subgraphs = std::move(prepared_);
    return result;
  }

private:
  const PassOptions &options_;
  OwnSizes sizes_;
  Subgraphs sources_, prepared_;
  Rewrite rewrite_;

  std::string name_of(const Node &call, size_t argument) const {
    const Argument &given = call.args.at(argument);
    const auto *direct = std::get_if<graph::GraphRef>(&given.value);
    const NodeRef *node = given.node();
    std::string name = direct ? direct->name
                       : node ? rewrite_.builder().graph().node(node->id).target
                              : "";
    if (sources_.count(name) == 0)
      refuse(call, "argument " + std::to_string(argument) + " is no subgraph",
             "name one of the graph's subgraphs");
    return name;
  }

  /// A bool of rank 0, an expression, or a number.
  Argument predicate(const Argument &given) {
    GraphBuilder &builder = rewrite_.builder();
    const Expr *expr = std::get_if<Expr>(&given.value);
    if (expr && graph::depends_on_data(*expr))
      return builder.call(
          "aten.ne.Scalar",
          {builder.call("aten.full.default", {Arguments{}, *expr}, {{"dtype", DType::i64}}), 0});
    if (!given.node())
      return given;
    Argument result = given;
    if (builder.meta(result).dtype != DType::boolean)
      result = builder.call("aten.ne.Scalar", {result, 0});
    if (!builder.meta(result).layout.sizes.empty())
      result = builder.call("aten.view.default", {result, Arguments{}});
    return result;
  }

  const TensorMeta *meta_of(const Argument &argument) const {
    const NodeRef *node = argument.node();
    return node ? rewrite_.builder().graph().node(node->id).value->tensor() : nullptr;
  }

  std::string add(Graph subgraph, const std::string &name) {
    std::string unique = name;
    for (size_t i = 1; prepared_.count(unique) != 0; ++i)
      unique = name + "_" + std::to_string(i);
    subgraph.name = unique;
    prepared_.emplace(unique, std::move(subgraph));
    return unique;
  }

  /// Gives the call graphs of its own, and drops the operands that are numbers.
  std::optional<BranchResults> prepare(Node &node) {
    const bool loops = node.target == kWhileLoop;
    const size_t first = loops ? 0 : 1; // of the subgraphs among the arguments
    const size_t operands_at = loops ? 2 : 3;
    Arguments operands = list_of(node, operands_at);
    const size_t carried = loops ? operands.size() : 0;
    if (loops) {
      const Arguments others = list_of(node, 3);
      operands.insert(operands.end(), others.begin(), others.end());
    }
    std::vector<const TensorMeta *> metas;
    for (size_t k = 0; k < operands.size(); ++k) {
      metas.push_back(meta_of(operands[k]));
      if (k < carried && !metas[k])
        refuse(node, "it carries a number", "carry a tensor: torch.tensor(number)");
      if (k < carried) // where the carried value lies while the loop runs
        metas[k] = (*node.value->list()).at(k).tensor();
    }
    Arguments given = operands; // what the outer graph passes
    TensorMeta number;
    number.dtype = DType::i64;
    for (size_t k = carried; k < operands.size(); ++k) {
      const Expr *expr = std::get_if<Expr>(&operands[k].value);
      if (!expr || !graph::depends_on_data(*expr))
        continue;
      if (!expr->is_symbol())
        refuse(node, "an operand is computed from a number that the data decides",
               "compute it inside of the subgraphs");
      metas[k] = &number;
      given[k] = rewrite_.builder().call("aten.full.default", {Arguments{}, *expr},
                                         {{"dtype", DType::i64}});
    }
    std::vector<Graph> subgraphs;
    for (size_t i = first; i < first + 2; ++i) {
      Graph subgraph = bind_operands(sources_.at(name_of(node, i)), node, operands, metas,
                                     rewrite_.builder().graph());
      subgraph = run_passes(std::move(subgraph), options_);
      check_subgraph(subgraph, node);
      subgraphs.push_back(sizes_.with_own_names(std::move(subgraph)));
    }
    std::optional<BranchResults> padded;
    if (!loops)
      padded.emplace(node, subgraphs, rewrite_.builder().ranges());
    std::vector<std::string> names;
    for (size_t i = 0; i < 2; ++i) {
      check_results(subgraphs[i], node);
      names.push_back(add(std::move(subgraphs[i]), name_of(node, first + i)));
    }
    Arguments args;
    if (!loops)
      args.push_back(predicate(node.args.at(0)));
    for (std::string &name : names)
      args.emplace_back(graph::GraphRef{std::move(name)});
    args.emplace_back(tensors(given, metas, 0, loops ? carried : operands.size()));
    if (loops)
      args.emplace_back(tensors(given, metas, carried, given.size()));
    node.args = std::move(args);
    node.kwargs.clear();
    return padded;
  }
  static Arguments list_of(const Node &node, size_t position) {
    const Arguments *list = position < node.args.size() ? node.args[position].list() : nullptr;
    return list ? *list : Arguments{};
  }
  static Arguments tensors(const Arguments &operands, const std::vector<const TensorMeta *> &metas,
                           size_t begin, size_t end) {
    Arguments result;
    for (size_t k = begin; k < end; ++k)
      if (metas[k])
        result.push_back(operands[k]);
    return result;
  }
};

} // namespace

graph::Graph prepare_subgraphs(graph::Graph graph, const PassOptions &options) {
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), is_control_flow))
    return graph;
  return Preparer(std::move(graph), options).run();
}

} // namespace tsc::ops
