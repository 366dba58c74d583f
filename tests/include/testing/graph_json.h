// Graph JSON written by hand.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace tsc::testing {

/// "$name" becomes a reference to the node, at any depth.
inline nlohmann::json with_references(const nlohmann::json &value) {
  if (value.is_string() && value.get<std::string>().rfind('$', 0) == 0)
    return {{"node", value.get<std::string>().substr(1)}};
  if (!value.is_structured())
    return value;
  nlohmann::json result = value;
  for (auto &item : result)
    item = with_references(item);
  return result;
}

} // namespace tsc::testing
