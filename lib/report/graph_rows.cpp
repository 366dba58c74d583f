#include "report/rows.h"

#include "graph/symbol_names.h"
#include "support/text.h"

namespace tsc::report {
namespace {

constexpr const char *kKinds[] = {"placeholder", "get_attr", "call_function", "output"};

class Writer {
public:
  Writer(const GraphRows *users, Texts &texts, const std::vector<graph::SymbolRange> &symbols)
      : users_(users), texts_(texts), name_of_(graph::symbol_writer(symbols)) {}

  GraphRows take() { return std::move(result_); }

  void write(const graph::Graph &graph, const std::string &prefix) {
    const auto first = static_cast<uint32_t>(result_.rows.size());
    result_.first_of[prefix] = first;
    for (const graph::Node &node : graph.nodes) {
      result_.by_name.emplace(prefix + node.name, static_cast<uint32_t>(result_.rows.size()));
      result_.rows.push_back(row(node, prefix, first));
    }
    for (const auto &[name, subgraph] : graph.subgraphs)
      write(subgraph, prefix + name + "/");
  }

private:
  const GraphRows *users_;
  Texts &texts_;
  symbolic::SymbolWriter name_of_;
  GraphRows result_;

  Json row(const graph::Node &node, const std::string &prefix, uint32_t first) {
    Json arguments = Json::array();
    const auto add = [&](graph::NodeRef ref) { arguments.push_back(first + ref.id); };
    for (const graph::Argument &argument : node.args)
      graph::for_each_node(argument, add);
    for (const auto &[name, argument] : node.kwargs)
      graph::for_each_node(argument, add);
    const bool is_called = node.kind == graph::NodeKind::call_function;
    const std::string target = is_called ? node.target : kKinds[static_cast<int>(node.kind)];
    Json row =
        Json::array({prefix + node.name, static_cast<int>(node.kind), texts_.number_of(target),
                     texts_.number_of(type_of(node.value)), texts_.number_of(node.nn_module_stack),
                     texts_.number_of(node.stack_trace), std::move(arguments)});
    if (users_)
      row.push_back(origins_of(node, prefix));
    return row;
  }

  Json origins_of(const graph::Node &node, const std::string &prefix) const {
    Json origins = Json::array();
    for (const std::string &origin : node.origins) {
      auto found = users_->by_name.find(prefix + origin);
      if (found == users_->by_name.end())
        found = users_->by_name.find(origin);
      if (found != users_->by_name.end())
        origins.push_back(found->second);
    }
    return origins;
  }

  std::string type_of(const std::optional<graph::Value> &value) const {
    return value ? type_of(*value) : "";
  }

  std::string type_of(const graph::Value &value) const {
    if (const graph::TensorMeta *meta = value.tensor()) {
      std::vector<std::string> sizes;
      for (symbolic::Expr size : meta->layout.sizes)
        sizes.push_back(symbolic::print(size, name_of_));
      return std::string(tensor::short_name(meta->dtype)) + "[" + support::join(sizes, ", ") + "]";
    }
    if (const graph::Value::List *list = value.list()) {
      std::vector<std::string> items;
      for (const graph::Value &item : *list)
        items.push_back(type_of(item));
      return "(" + support::join(items, ", ") + ")";
    }
    if (const auto *expression = std::get_if<symbolic::Expr>(&value.value))
      return symbolic::print(*expression, name_of_);
    return "";
  }
};

} // namespace

GraphRows graph_rows(const graph::Graph &graph, const GraphRows *users, Texts &texts) {
  Writer writer(users, texts, graph.symbols);
  writer.write(graph, "");
  return writer.take();
}

} // namespace tsc::report
