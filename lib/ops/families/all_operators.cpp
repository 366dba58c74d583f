// Every family's rows, in one table.
#include "ops/custom/custom_operator.h"
#include "ops/table/table.h"

#include <unordered_map>

namespace tsc::ops {

#define TSC_FAMILY(name) void add_##name(Table &table);
#include "ops/families/families.def"
#undef TSC_FAMILY

const std::vector<Operator> &operators() {
  static const std::vector<Operator> rows = [] {
    Table table;
#define TSC_FAMILY(name) add_##name(table);
#include "ops/families/families.def"
#undef TSC_FAMILY
    table.add_in_place_forms();
    return table.take();
  }();
  return rows;
}

const Operator *find_operator(std::string_view name) {
  static const std::unordered_map<std::string_view, const Operator *> by_name = [] {
    std::unordered_map<std::string_view, const Operator *> map;
    for (const Operator &row : operators())
      map.emplace(row.name, &row);
    return map;
  }();
  auto found = by_name.find(name);
  if (found != by_name.end())
    return found->second;
  const CustomOperators *custom = CustomOperatorScope::current();
  return custom != nullptr ? custom->find(name) : nullptr;
}

} // namespace tsc::ops
