#include "graph/output_structure.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace tsc::graph {
namespace {

using Json = nlohmann::json;
using tensor::Structure;
using Kind = Structure::Kind;

/// Results that the model gives, mutations left out. With tokens among them nothing is known.
size_t count_results(const std::vector<OutputSpec> &outputs) {
  return static_cast<size_t>(
      std::count_if(outputs.begin(), outputs.end(), [](const OutputSpec &output) {
        return output.kind != OutputKind::buffer_mutation &&
               output.kind != OutputKind::input_mutation &&
               output.kind != OutputKind::parameter_mutation;
      }));
}

/// A form of torch.utils._pytree that is not known.
struct Unknown {};

std::vector<std::string> texts(const Json &list) {
  std::vector<std::string> result;
  if (!list.is_array())
    throw Unknown();
  for (const Json &entry : list)
    result.push_back(entry.is_string() ? entry.get<std::string>() : entry.dump());
  return result;
}

/// Reads what treespec_dumps of PyTorch 2.8 to 2.11 writes. `namedtuples`: fields by type.
class TreespecReader {
public:
  explicit TreespecReader(const JsonValue *namedtuples) : namedtuples_(namedtuples) {}

  Structure read(const Json &node, size_t depth = 0) const {
    const Json &type = node.at("type");
    const Json &children = node.at("children_spec");
    if (depth > tensor::kMaxStructureDepth || !children.is_array())
      throw Unknown();
    Structure result;
    if (type.is_null())
      return result;
    for (const Json &child : children)
      result.children.push_back(read(child, depth + 1));
    const Json &context = node.at("context");
    describe(type.get<std::string>(), context.is_string() ? context.get<std::string>() : "null",
             result);
    if (!result.keys.empty() && result.keys.size() != result.children.size())
      throw Unknown();
    return result;
  }

private:
  const JsonValue *namedtuples_;

  void describe(const std::string &type, const std::string &context, Structure &result) const {
    const Json parsed = Json::parse(context, nullptr, false);
    if (type == "builtins.tuple") {
      result.kind = Kind::tuple;
    } else if (type == "builtins.list" || type == "collections.deque") {
      result.kind = Kind::list;
    } else if (type == "builtins.dict" || type == "collections.OrderedDict") {
      result.kind = Kind::dict;
      result.keys = texts(parsed);
    } else if (type == "collections.defaultdict") {
      result.kind = Kind::dict;
      result.keys = texts(parsed.at("dict_context"));
    } else if (type == "collections.namedtuple") {
      result.kind = Kind::record;
      result.type = context;
      result.keys = fields_of(context);
    } else {
      describe_registered(type, parsed, result);
    }
  }

  std::vector<std::string> fields_of(const std::string &namedtuple) const {
    const JsonValue *row = namedtuples_ == nullptr ? nullptr : namedtuples_->find(namedtuple);
    if (row == nullptr)
      throw Unknown();
    std::vector<std::string> fields;
    for (const JsonValue &field : expect_array(member(*row, "field_names")))
      fields.emplace_back(expect_string(field));
    return fields;
  }

  /// Classes that somebody registered. Dataclasses tell the names of their fields and of those that
  /// were None, other output classes the names alone; what tells neither has positions.
  static void describe_registered(const std::string &type, const Json &context, Structure &result) {
    result.kind = Kind::record;
    result.type = type;
    const auto is_names = [&](const Json &list) {
      return list.is_array() && list.size() == result.children.size() &&
             std::all_of(list.begin(), list.end(),
                         [](const Json &name) { return name.is_string(); });
    };
    if (is_names(context)) {
      result.keys = texts(context);
    } else if (context.is_array() && context.size() == 2 && is_names(context[0])) {
      result.keys = texts(context[0]);
      for (std::string &name : texts(context[1])) {
        result.keys.push_back(std::move(name));
        result.children.emplace_back().kind = Kind::none;
      }
    } else {
      for (size_t i = 0; i < result.children.size(); ++i)
        result.keys.push_back(std::to_string(i));
    }
  }
};

} // namespace

std::optional<Structure> read_treespec(const JsonValue &module,
                                       const std::vector<OutputSpec> &outputs) {
  const JsonValue *calls = module.find("module_call_graph");
  if (calls == nullptr || calls->kind != JsonKind::array)
    return std::nullopt;
  try {
    for (const JsonValue &call : *calls) {
      const JsonValue *name = call.find("fqn");
      if (name == nullptr || !expect_string(*name).empty()) // that of the whole model is unnamed
        continue;
      const JsonValue *signature = optional_member(call, "signature");
      const JsonValue *treespec =
          signature == nullptr ? nullptr : optional_member(*signature, "out_spec");
      if (treespec == nullptr)
        return std::nullopt;
      const Json json = Json::parse(expect_string(*treespec), nullptr, false);
      if (!json.is_array() || json.size() != 2 || json[0] != 1)
        return std::nullopt;
      Structure structure = TreespecReader(module.find("treespec_namedtuple_fields")).read(json[1]);
      if (tensor::count_leaves(structure) == count_results(outputs))
        return structure;
      return std::nullopt;
    }
  } catch (const Unknown &) {
  } catch (const Json::exception &) {
  } catch (const support::UserError &) {
  }
  return std::nullopt;
}

namespace {

[[noreturn]] void refuse_structure(const JsonValue &at, const std::string &what) {
  fail_at(at, "TSC-G070", "the structure of results " + what,
          "leave it out, or write it as docs/graph-format.md says");
}

Structure read_part(const JsonValue &value, size_t depth) {
  Structure result;
  if (value.kind == JsonKind::string && value.string == "*")
    return result;
  result.kind = Kind::none;
  if (value.is_null())
    return result;
  const bool is_object = value.kind == JsonKind::object && depth < tensor::kMaxStructureDepth;
  const JsonValue *type = is_object ? value.find("record") : nullptr;
  if (!is_object || value.count != (type == nullptr ? 1u : 2u))
    refuse_structure(value, "is not of a form that is known, or too deep");
  const JsonValue *children = type != nullptr ? value.find("fields") : value.begin();
  if (children == nullptr || children->kind != JsonKind::array)
    refuse_structure(value, "has no list of parts here");
  constexpr std::pair<std::string_view, Kind> kWords[] = {
      {"tuple", Kind::tuple}, {"list", Kind::list}, {"dict", Kind::dict}, {"fields", Kind::record}};
  const auto *word = std::find_if(std::begin(kWords), std::end(kWords), [&](const auto &row) {
    return row.first == children->key && (row.second == Kind::record) == (type != nullptr);
  });
  if (word == std::end(kWords))
    refuse_structure(value, "is not of a form that is known, or too deep");
  result.kind = word->second;
  if (type != nullptr)
    result.type = expect_string(*type);
  const bool has_keys = result.kind == Kind::dict || result.kind == Kind::record;
  for (const JsonValue &child : *children) {
    if (has_keys && (child.kind != JsonKind::array || child.count != 2))
      refuse_structure(child, "has a part here that is no pair of a key and what it is of");
    if (has_keys)
      result.keys.emplace_back(expect_string(child.begin()[0]));
    result.children.push_back(read_part(has_keys ? child.begin()[1] : child, depth + 1));
  }
  return result;
}

} // namespace

Structure read_structure(const JsonValue &value, const std::vector<OutputSpec> &outputs) {
  Structure structure = read_part(value, 0);
  const size_t leaves = tensor::count_leaves(structure), results = count_results(outputs);
  if (leaves != results)
    refuse_structure(value, "has " + std::to_string(leaves) + " of them, the graph gives " +
                                std::to_string(results));
  return structure;
}

} // namespace tsc::graph
