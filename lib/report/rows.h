// Parts of the data: rows of graphs and of memory, and the table of texts that they share. Internal
// to lib/report.
#pragma once

#include "driver/compile.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace tsc::report {

using Json = nlohmann::json;

/// Texts that stand in many rows, once each: a row has the number. 0 is "".
class Texts {
public:
  Texts() { number_of(""); }
  uint32_t number_of(const std::string &text) {
    const auto [found, is_new] = numbers_.emplace(text, static_cast<uint32_t>(list_.size()));
    if (is_new)
      list_.push_back(text);
    return found->second;
  }
  const std::vector<std::string> &list() const { return list_; }

private:
  std::unordered_map<std::string, uint32_t> numbers_;
  std::vector<std::string> list_;
};

/// Rows of a graph's nodes and of its subgraphs' behind it; a node of a subgraph is called
/// SUBGRAPH/NAME.
struct GraphRows {
  Json rows = Json::array();
  std::unordered_map<std::string, uint32_t> by_name; // position of the row
  /// By the prefix of a graph ("" or "SUBGRAPH/"): the position of its node 0.
  std::unordered_map<std::string, uint32_t> first_of;
};
/// `users`: the rows that nodes' origins name, or null: there are none yet.
GraphRows graph_rows(const graph::Graph &graph, const GraphRows *users, Texts &texts);

/// {"pieces": [[buffer, bytes, first, last], ..], ..}, or {"unknown": why}.
Json memory_of(const driver::Compilation &compilation, bool on_host);

} // namespace tsc::report
