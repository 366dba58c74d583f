#include "ranks/group_table.h"

#include "support/diagnostic.h"
#include "support/text.h"

#include <algorithm>
#include <numeric>

namespace tsc::ranks {
namespace {

[[noreturn]] void refuse(const std::string &option, const std::string &text, const char *code,
                         const std::string &why) {
  throw support::UserError(
      support::ExitCode::usage,
      {.code = code,
       .message = option + " '" + text + "' " + why,
       .next_step = option == "--mesh" ? "give NAME=SIZE,NAME=SIZE, whose product is the number of "
                                         "ranks"
                                       : "give NAME=0,1/2,3: each rank in one list, lists of one "
                                         "length"});
}

/// -1 for what is no number of a rank.
int64_t number(const std::string &text) {
  if (text.empty() || text.size() > 6 || text.find_first_not_of("0123456789") != std::string::npos)
    return -1;
  return std::stoll(text);
}

void add_group(GroupTable &table, const std::string &text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    refuse("--group", text, "TSC-C051", "has no name");
  std::vector<std::vector<int64_t>> lists;
  std::vector<bool> seen(static_cast<size_t>(table.world), false);
  size_t count = 0;
  for (const std::string &list : support::split(text.substr(equals + 1), '/')) {
    lists.emplace_back();
    for (const std::string &word : support::split(list, ',')) {
      const int64_t rank = number(word);
      if (rank < 0 || rank >= table.world)
        refuse("--group", text, "TSC-C051",
               "has '" + word + "', no rank of 0 to " + std::to_string(table.world - 1));
      if (seen[static_cast<size_t>(rank)])
        refuse("--group", text, "TSC-C051", "has rank " + word + " twice");
      seen[static_cast<size_t>(rank)] = true;
      ++count;
      lists.back().push_back(rank);
    }
    if (lists.back().size() != lists.front().size())
      refuse("--group", text, "TSC-C051", "has lists of different lengths");
  }
  if (count != seen.size())
    refuse("--group", text, "TSC-C051",
           "leaves out rank " +
               std::to_string(std::find(seen.begin(), seen.end(), false) - seen.begin()));
  if (!table.groups.emplace(text.substr(0, equals), std::move(lists)).second)
    refuse("--group", text, "TSC-C051", "describes a group for the second time");
}

void add_mesh(GroupTable &table, const std::string &text) {
  std::vector<std::pair<std::string, int64_t>> dimensions;
  int64_t product = 1;
  for (const std::string &part : support::split(text, ',')) {
    const size_t equals = part.find('=');
    const int64_t size = equals == std::string::npos ? -1 : number(part.substr(equals + 1));
    if (size < 1 || equals == 0)
      refuse("--mesh", text, "TSC-C051", "has '" + part + "', which is no NAME=SIZE");
    dimensions.emplace_back(part.substr(0, equals), size);
    product *= size;
    if (product > table.world)
      break;
  }
  if (product != table.world)
    refuse("--mesh", text, "TSC-C051", "does not have " + std::to_string(table.world) + " ranks");
  int64_t stride = table.world;
  for (const auto &[name, size] : dimensions) {
    stride /= size;
    std::vector<std::vector<int64_t>> lists;
    for (int64_t first = 0; first < table.world; ++first)
      if (first / stride % size == 0) {
        lists.emplace_back();
        for (int64_t i = 0; i < size; ++i)
          lists.back().push_back(first + i * stride);
      }
    if (!table.groups.emplace(name, std::move(lists)).second)
      refuse("--mesh", text, "TSC-C051", "describes the group '" + name + "' for the second time");
  }
}

} // namespace

std::vector<int64_t> GroupTable::members(const std::string &name, int64_t rank) const {
  const auto found = groups.find(name);
  if (found != groups.end())
    for (const std::vector<int64_t> &list : found->second)
      if (std::find(list.begin(), list.end(), rank) != list.end())
        return list;
  std::vector<int64_t> all(static_cast<size_t>(world));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::string GroupTable::text() const {
  std::string text;
  for (const auto &[name, lists] : groups) {
    text += (text.empty() ? "" : " ") + name + "=";
    for (size_t i = 0; i < lists.size(); ++i) {
      std::vector<std::string> words;
      for (const int64_t rank : lists[i])
        words.push_back(std::to_string(rank));
      text += (i == 0 ? "" : "/") + support::join(words, ",");
    }
  }
  return text + (text.empty() ? "" : " ") + "of " + std::to_string(world);
}

GroupTable make_group_table(int64_t world, const std::vector<std::string> &groups,
                            const std::string &mesh) {
  GroupTable table;
  table.world = world;
  for (const std::string &group : groups)
    add_group(table, group);
  if (!mesh.empty())
    add_mesh(table, mesh);
  return table;
}

} // namespace tsc::ranks
