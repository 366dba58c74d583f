#include "ops/passes/write_results.h"

#include "ops/table/argument_kinds.h"
#include "ops/table/rewrite.h"
#include "ops/table/source_line.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <map>

namespace tsc::ops {

using graph::NodeId;
using graph::NodeKind;
using graph::NodeRef;

namespace {

/// Whether ATen's overload of this name takes tensors for its results: "out", "IntList_out", or
/// named after the first of them.
bool is_given_results(std::string_view overload) {
  static constexpr std::string_view kNames[] = {"L",
                                                "Q",
                                                "U",
                                                "X",
                                                "a",
                                                "dim_max",
                                                "dim_min",
                                                "dim_values",
                                                "eigenvalues",
                                                "eigvals",
                                                "grad_input",
                                                "inverse",
                                                "out",
                                                "out_mode",
                                                "output",
                                                "result",
                                                "sign",
                                                "values",
                                                "values_stable"};
  constexpr std::string_view kEnd = "_out";
  return (overload.size() > kEnd.size() &&
          overload.substr(overload.size() - kEnd.size()) == kEnd) ||
         std::find(std::begin(kNames), std::end(kNames), overload) != std::end(kNames);
}

/// Whether ATen wants the result's own dtype of the tensor that is given for it: kernels that make
/// their results without a TensorIterator, which casts ("Expected out tensor to have dtype ..";
/// each of these was asked).
bool keeps_dtype(std::string_view packet) {
  static constexpr std::string_view kNames[] = {
      "_log_softmax", "_softmax",       "addmm",        "addmv",        "amax",
      "amin",         "aminmax",        "argmax",       "argmin",       "avg_pool2d",
      "avg_pool3d",   "baddbmm",        "bmm",          "cummax",       "cummin",
      "gather",       "index_add",      "index_copy",   "index_reduce", "index_select",
      "isin",         "kthvalue",       "linalg_cross", "logcumsumexp", "masked_select",
      "mm",           "mode",           "multinomial",  "renorm",       "scatter",
      "scatter_add",  "scatter_reduce", "sort",         "take",         "topk",
      "tril",         "triu",           "unfold_copy"};
  constexpr std::string_view kAten = "aten.";
  return packet.substr(0, kAten.size()) == kAten &&
         std::find(std::begin(kNames), std::end(kNames), packet.substr(kAten.size())) !=
             std::end(kNames);
}

/// A call without the tensors given for its results.
struct Functional {
  const Operator *row = nullptr; // nullptr: there is none
  Node node;
  std::vector<Argument> results; // what was given, in the order of the row's results
};

/// `node` as a call of `row`: what the row has no parameter for are results. Whether it is one is
/// left to its schema.
Functional as_call_of(const Operator &row, const Node &node) {
  Functional call;
  call.row = &row;
  call.node = node;
  call.node.target = std::string(row.name);
  call.node.kwargs.clear();
  call.node.value.reset();
  for (const auto &keyword : node.kwargs) {
    const auto &parameters = row.schema.parameters;
    const bool is_known = std::any_of(parameters.begin(), parameters.end(),
                                      [&](const Parameter &p) { return p.name == keyword.first; });
    if (is_known)
      call.node.kwargs.push_back(keyword);
    else
      call.results.push_back(keyword.second);
  }
  return call;
}

bool fits(const Graph &graph, const Functional &call) {
  const std::vector<Parameter> &returns = call.row->schema.returns;
  if (call.results.empty() || call.results.size() != returns.size() ||
      !std::all_of(returns.begin(), returns.end(),
                   [](const Parameter &result) { return result.type == "Tensor"; }) ||
      !std::all_of(call.results.begin(), call.results.end(),
                   [](const Argument &result) { return result.node() != nullptr; }))
    return false;
  try {
    return check_argument_kinds(Call(graph, call.node, call.row->schema)).empty();
  } catch (const support::UserError &) {
    return false;
  }
}

/// "aten.add" -> its rows that write nothing.
using Packets = std::map<std::string, std::vector<const Operator *>, std::less<>>;
const Packets &packets() {
  static const Packets result = [] {
    Packets rows;
    for (const Operator &row : operators())
      if (row.effect != Effect::mutates && row.effect != Effect::view)
        rows[std::string(row.name.substr(0, row.name.rfind('.')))].push_back(&row);
    return rows;
  }();
  return result;
}

/// The form that the overload's own name says ("dim_out": "dim") comes first.
Functional functional_of(const Graph &graph, const Node &node) {
  const size_t dot = node.target.rfind('.');
  if (node.kind != NodeKind::call_function || dot == std::string::npos ||
      find_operator(node.target) != nullptr)
    return {};
  const std::string overload = node.target.substr(dot + 1);
  const auto packet = packets().find(node.target.substr(0, dot));
  if (!is_given_results(overload) || packet == packets().end())
    return {};
  std::vector<const Operator *> rows = packet->second;
  std::stable_partition(rows.begin(), rows.end(), [&](const Operator *row) {
    return std::string(row->name.substr(dot + 1)) + "_out" == overload;
  });
  for (const Operator *row : rows)
    if (Functional call = as_call_of(*row, node); fits(graph, call))
      return call;
  return {};
}

const TensorMeta *recorded(const Graph &graph, const Argument &argument) {
  const std::optional<Value> &value = graph.node(argument.node()->id).value;
  return value ? value->tensor() : nullptr;
}

/// The place of result `k` as the file says that it is after the call; nullptr if it does not.
const TensorMeta *recorded_result(const Node &node, size_t k) {
  if (!node.value)
    return nullptr;
  const Value::List *list = node.value->list();
  return !list ? node.value->tensor() : k < list->size() ? list->at(k).tensor() : nullptr;
}

class Writer {
public:
  explicit Writer(Graph graph) : rewrite_(std::move(graph)) {}

  Graph run() {
    for (NodeId id = 0; id < rewrite_.source().nodes.size(); ++id) {
      const Node &node = rewrite_.source().node(id);
      if (const Argument *result = item_of_replaced(node))
        rewrite_.replace(id, *result);
      else if (const Functional call = functional_of(rewrite_.source(), node); call.row)
        write(id, call);
      else
        rewrite_.copy(id);
    }
    return rewrite_.take();
  }

private:
  Rewrite rewrite_;

  /// What `node` takes of a call that was replaced; null if it takes nothing of one, or what there
  /// is not, which who looks at its arguments says.
  const Argument *item_of_replaced(const Node &node) const {
    if (node.target != "operator.getitem" || node.args.size() != 2 || !node.args[0].node())
      return nullptr;
    const Arguments *results = rewrite_.replacement(node.args[0].node()->id).list();
    const auto *item = std::get_if<int64_t>(&node.args[1].value);
    const bool is_there =
        results && item && *item >= 0 && *item < static_cast<int64_t>(results->size());
    return is_there ? &results->at(static_cast<size_t>(*item)) : nullptr;
  }

  void write(NodeId id, const Functional &call) {
    const Node source = rewrite_.source().node(id);
    Node node = rewrite_.take_mapped(id);
    node.target = call.node.target;
    node.value.reset();
    node.kwargs.clear();
    for (const auto &keyword : call.node.kwargs)
      node.kwargs.emplace_back(keyword.first, rewrite_.mapped(keyword.second));
    add_dtype(node, call);
    const Node like = node; // names and places for what follows
    const NodeRef computed{rewrite_.builder().append(std::move(node))};
    Arguments results;
    for (size_t k = 0; k < call.results.size(); ++k) {
      Argument result = computed;
      if (call.results.size() > 1)
        result = append(like, "operator.getitem", {computed, static_cast<int64_t>(k)});
      results.push_back(written(source, like, call.results[k], result, k));
    }
    rewrite_.replace(id, results.size() == 1 ? results[0] : Argument(std::move(results)));
  }

  /// ATen computes in the dtype of the result's place what has a dtype to choose.
  void add_dtype(Node &node, const Functional &call) const {
    const auto &parameters = call.row->schema.parameters;
    const bool chooses = std::any_of(parameters.begin(), parameters.end(), [](const Parameter &p) {
      return p.name == "dtype" && p.type == "ScalarType?";
    });
    const bool is_given = std::any_of(node.kwargs.begin(), node.kwargs.end(),
                                      [](const auto &keyword) { return keyword.first == "dtype"; });
    if (const TensorMeta *place = recorded(rewrite_.source(), call.results[0]);
        chooses && !is_given && place)
      node.kwargs.emplace_back("dtype", place->dtype);
  }

  Argument append(const Node &like, const std::string &target, Arguments args) {
    Node node = like;
    node.name = rewrite_.builder().fresh_name(target);
    node.target = target;
    node.args = std::move(args);
    node.kwargs.clear();
    return NodeRef{rewrite_.builder().append(std::move(node))};
  }

  /// What stands for `place` (of the source) after `result` was written to it.
  Argument written(const Node &source, const Node &like, const Argument &place,
                   const Argument &result, size_t k) {
    const NodeId id = place.node()->id;
    const TensorMeta *before = recorded(rewrite_.source(), place),
                     *after = recorded_result(source, k);
    if (!before || !after || before->layout.sizes == after->layout.sizes)
      return append(
          like, "tsc.write_result.default",
          {rewrite_.mapped(place), result,
           keeps_dtype(std::string_view(source.target).substr(0, source.target.rfind('.')))});
    const std::vector<symbolic::Expr> &sizes = before->layout.sizes;
    const bool is_empty =
        std::any_of(sizes.begin(), sizes.end(), [](Expr size) { return size.is_integer(0); });
    if (!is_empty || rewrite_.source().node(id).kind != NodeKind::call_function)
      throw support::UserError(
          support::ExitCode::unsupported,
          {"TSC-O070", source.target + " gives the tensor that it writes to other sizes", "", "",
           source.name, source_line(source),
           "make that tensor inside of the graph, with the sizes of the result"});
    const Argument now = append(like, "aten.to.dtype", {result, before->dtype});
    rewrite_.replace(id, now);
    return now;
  }
};

bool gives_results(const Graph &graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [&](const Node &node) { return functional_of(graph, node).row != nullptr; });
}

} // namespace

graph::Graph write_results(graph::Graph graph, const PassOptions &options) {
  for (auto &subgraph : graph.subgraphs)
    subgraph.second = write_results(std::move(subgraph.second), options);
  return gives_results(graph) ? Writer(std::move(graph)).run() : std::move(graph);
}

} // namespace tsc::ops
