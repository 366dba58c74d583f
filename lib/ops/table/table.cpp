#include "ops/table/table.h"

#include "ops/table/builder.h"
#include "ops/table/in_place_forms.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <unordered_map>

namespace tsc::ops {

std::string_view keep_text(std::string text) {
  static std::mutex mutex;
  static std::deque<std::string> texts;
  std::lock_guard<std::mutex> lock(mutex);
  texts.push_back(std::move(text));
  return texts.back();
}

namespace {

std::string name_of(std::string_view schema) {
  std::string name(schema.substr(0, schema.find('(')));
  std::string space = "aten";
  size_t colons = name.find("::");
  if (colons != std::string::npos) {
    space = name.substr(0, colons);
    name = name.substr(colons + 2);
  }
  if (space == "operator" || space == "torch" || space == "math" ||
      space == "higher_order") // Python's own functions, and branches and loops
    return space + "." + name;
  return space + "." + name + (name.find('.') == std::string::npos ? ".default" : "");
}

std::string in_place_schema(std::string_view schema) {
  std::string text(schema);
  text.insert(text.find_first_of(".("), "_");
  size_t self = text.find("Tensor ");
  text.insert(self + 6, "(a!)");
  support::require(text.substr(text.size() - 9) == "-> Tensor", "table", text);
  return text + "(a!)";
}

} // namespace

Operator &Table::new_row(std::string_view schema) {
  Operator &row = rows_.emplace_back();
  row.name = keep_text(name_of(schema));
  row.schema = parse_schema(schema);
  return row;
}

Row Table::add(std::string_view schema) { return Row(new_row(schema)); }

Row Table::add_with_in_place(std::string_view schema) {
  Operator &row = new_row(schema);
  add_mutating(in_place_schema(schema), row.name);
  return Row(row);
}

namespace {

/// The parameter that a result is, or nullptr for a fresh result.
const Parameter *written_parameter(const Schema &schema, const Parameter &result) {
  if (!is_written(result))
    return nullptr;
  for (const Parameter &parameter : schema.parameters)
    if (parameter.alias == result.alias)
      return &parameter;
  return nullptr;
}

/// Written arguments keep their values' metas; fresh results are those of the functional operator.
Value value_of_mutating(const Call &call, std::string_view functional) {
  const Schema &schema = call.schema();
  const bool has_fresh =
      std::any_of(schema.returns.begin(), schema.returns.end(), [&](const Parameter &result) {
        return written_parameter(schema, result) == nullptr;
      });
  Value computed;
  if (has_fresh) {
    Node node = call.node();
    node.target = std::string(functional);
    computed = infer_value(call.graph(), node, call.shared_ranges());
  }
  Value::List results;
  size_t next = 0;
  for (const Parameter &result : schema.returns) {
    const Parameter *written = written_parameter(schema, result);
    if (written)
      results.push_back(Value{call.tensor(written->name)});
    else
      results.push_back(computed.list() ? computed.list()->at(next++) : computed);
  }
  if (results.empty())
    return Value{};
  return results.size() == 1 ? results[0] : Value{std::move(results)};
}

} // namespace

Row Table::add_mutating(std::string_view schema, std::string_view functional) {
  Operator &row = new_row(schema);
  support::require(row.schema.is_mutable(), "table", std::string(schema) + " writes nothing");
  row.effect = Effect::mutates;
  row.functional = functional;
  row.shape = [functional](const Call &call) { return value_of_mutating(call, functional); };
  return Row(row);
}

void Table::add_in_place_forms() {
  std::unordered_map<std::string_view, const Operator *> known;
  for (const Operator &row : rows_)
    known.emplace(row.name, &row);
  for (const InPlaceForm &form : in_place_forms()) {
    const std::string name = "aten." + std::string(form.name);
    const auto functional = known.find("aten." + std::string(form.functional));
    if (functional == known.end() || known.count(name) != 0)
      continue;
    Operator row;
    row.name = keep_text(name);
    row.schema = functional->second->schema;
    const std::string_view target = functional->second->name;
    if (form.is_view) {
      row.effect = Effect::view;
      row.passes_elements = functional->second->passes_elements;
      row.shape = functional->second->shape;
      row.decompose = [target](GraphBuilder &builder, const Call &call) {
        return builder.call(target, call.node().args, call.node().kwargs);
      };
    } else {
      row.schema.parameters[0].alias = "a!";
      row.schema.returns[0].alias = "a!";
      row.effect = Effect::mutates;
      row.functional = target;
      row.shape = [target](const Call &call) { return value_of_mutating(call, target); };
    }
    rows_.push_back(std::move(row));
  }
}

bool has_ordered_operators(const Graph &graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node &node) {
    const bool call = node.kind == graph::NodeKind::call_function;
    const Operator *row = call ? find_operator(node.target) : nullptr;
    return row != nullptr && row->effect == Effect::ordered;
  });
}

bool writes_in_place(const Graph &graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node &node) {
    const bool waits = node.target == "_c10d_functional.wait_tensor.default";
    const Operator *row = waits ? nullptr : find_operator(node.target);
    return row != nullptr &&
           std::any_of(row->schema.parameters.begin(), row->schema.parameters.end(), is_written);
  });
}

bool passes_elements(const Node &node) {
  const Operator *row =
      node.kind == graph::NodeKind::call_function ? find_operator(node.target) : nullptr;
  return row != nullptr && row->passes_elements;
}

bool mutates(const Operator &row, const Call &call) {
  return row.effect == Effect::mutates && (!row.mutates_if || row.mutates_if(call));
}

std::vector<Operator> Table::take() {
  std::vector<Operator> rows(std::make_move_iterator(rows_.begin()),
                             std::make_move_iterator(rows_.end()));
  std::sort(rows.begin(), rows.end(),
            [](const Operator &a, const Operator &b) { return a.name < b.name; });
  for (size_t i = 1; i < rows.size(); ++i)
    support::require(rows[i - 1].name != rows[i].name, "table",
                     "two rows are named " + std::string(rows[i].name));
  return rows;
}

} // namespace tsc::ops
