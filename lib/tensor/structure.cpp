#include "tensor/structure.h"

#include <nlohmann/json.hpp>

#include <stdexcept>

namespace tsc::tensor {
namespace {

using Json = nlohmann::ordered_json;
using Kind = Structure::Kind;

void add_paths(const Structure &structure, const std::string &path,
               std::vector<std::string> &paths) {
  if (structure.kind == Kind::leaf)
    paths.push_back(path);
  for (size_t i = 0; i < structure.children.size(); ++i) {
    const std::string key =
        structure.keys.empty() ? std::to_string(i) : structure.keys[i]; // of a tuple or list
    add_paths(structure.children[i], path.empty() ? key : path + "." + key, paths);
  }
}

Json write(const Structure &structure) {
  if (structure.kind == Kind::leaf)
    return "*";
  if (structure.kind == Kind::none)
    return nullptr;
  Json children = Json::array();
  for (size_t i = 0; i < structure.children.size(); ++i)
    if (structure.keys.empty())
      children.push_back(write(structure.children[i]));
    else
      children.push_back(Json::array({structure.keys[i], write(structure.children[i])}));
  switch (structure.kind) {
  case Kind::record:
    return {{"record", structure.type}, {"fields", std::move(children)}};
  case Kind::dict:
    return {{"dict", std::move(children)}};
  case Kind::list:
    return {{"list", std::move(children)}};
  default:
    return {{"tuple", std::move(children)}};
  }
}

[[noreturn]] void refuse(const Json &json) {
  throw std::invalid_argument("'" + json.dump(-1, ' ', false, Json::error_handler_t::replace) +
                              "' is no structure of results");
}

Structure read(const Json &json, size_t depth) {
  if (depth > kMaxStructureDepth)
    throw std::invalid_argument("the structure of results is deeper than " +
                                std::to_string(kMaxStructureDepth));
  Structure result;
  if (json == "*")
    return result;
  result.kind = Kind::none;
  if (json.is_null())
    return result;
  const bool is_record = json.is_object() && json.size() == 2 && json.contains("record") &&
                         json.contains("fields") && json["record"].is_string();
  if (!is_record && (!json.is_object() || json.size() != 1))
    refuse(json);
  const std::string word = is_record ? "fields" : json.begin().key();
  result.kind = is_record         ? Kind::record
                : word == "dict"  ? Kind::dict
                : word == "list"  ? Kind::list
                : word == "tuple" ? Kind::tuple
                                  : Kind::leaf;
  const Json &children = json[word];
  if (result.kind == Kind::leaf || !children.is_array())
    refuse(json);
  if (is_record)
    result.type = json["record"];
  const bool has_keys = result.kind == Kind::dict || is_record;
  for (const Json &child : children) {
    if (has_keys && (!child.is_array() || child.size() != 2 || !child[0].is_string()))
      refuse(child);
    if (has_keys)
      result.keys.push_back(child[0]);
    result.children.push_back(read(has_keys ? child[1] : child, depth + 1));
  }
  return result;
}

} // namespace

size_t count_leaves(const Structure &structure) {
  size_t count = structure.kind == Kind::leaf;
  for (const Structure &child : structure.children)
    count += count_leaves(child);
  return count;
}

std::vector<std::string> paths_of(const Structure &structure) {
  std::vector<std::string> paths;
  add_paths(structure, "", paths);
  return paths;
}

std::string to_json(const Structure &structure) {
  return write(structure).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Structure structure_from_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded())
    throw std::invalid_argument("the structure of results is not JSON");
  return read(json, 0);
}

} // namespace tsc::tensor
