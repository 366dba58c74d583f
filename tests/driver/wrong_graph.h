// Graph JSON made of calls, for errors.
#pragma once

#include "graph/graph.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace tsc::testing {

/// Nodes in order; "$x" in arguments stands for the node x. Call number k is at line k of model.py.
class WrongGraph {
public:
  WrongGraph &input(const std::string &name, const std::string &dtype, nlohmann::json size);
  /// `value`: {"dtype", "size"}, as a file may record it.
  WrongGraph &call(const std::string &name, const std::string &target, nlohmann::json arguments,
                   nlohmann::json keywords = nlohmann::json::object(), nlohmann::json value = {});
  WrongGraph &symbol(const std::string &name, int64_t low, int64_t high);
  std::string text(const std::vector<std::string> &outputs) const;
  graph::Graph graph(const std::vector<std::string> &outputs) const;

private:
  nlohmann::json nodes_ = nlohmann::json::array(), inputs_ = nlohmann::json::array(),
                 symbols_ = nlohmann::json::object();
  size_t calls_ = 0;
};

} // namespace tsc::testing
