#include "ops/table/operator.h"
#include "ops/table/suggest.h"
#include "ops/table/varying_dtypes.h"

namespace tsc::ops {
namespace {

std::string_view describe(Effect effect) {
  switch (effect) {
  case Effect::none:
    return "";
  case Effect::view:
    return "view";
  case Effect::mutates:
    return "mutates";
  case Effect::random:
    return "never merged";
  case Effect::assertion:
    return "checked when compiling, bound or run";
  case Effect::ordered:
    return "in order, in place";
  }
  return "";
}

/// What becomes of a call.
std::string describe_way(const Operator &row) {
  if (!row.functional.empty())
    return "functionalized to `" + std::string(row.functional) + "`";
  std::string way;
  if (row.decompose)
    way = "decomposed";
  if (!row.lowering.empty())
    way += (way.empty() ? "lowered as `" : " or lowered as `") + std::string(row.lowering) + "`";
  return way;
}

std::string notes(const Operator &row) {
  const std::string effect(describe(row.effect)), dtypes(why_dtypes_vary(row.name));
  return effect + (effect.empty() || dtypes.empty() ? "" : "; ") + dtypes;
}

} // namespace

std::string operators_markdown() {
  std::string text =
      "# Operators\n\n"
      "Generated from the operator table by `tsc::ops::operators_markdown()`; do not edit.\n\n"
      "| operator | arguments | way | note |\n|---|---|---|---|\n";
  for (const Operator &row : operators()) {
    std::string arguments;
    for (const Parameter &parameter : row.schema.parameters) {
      arguments += arguments.empty() ? "" : ", ";
      arguments += parameter.name;
      if (parameter.default_value || parameter.type.back() == '?')
        arguments += "=";
    }
    text += "| `" + std::string(row.name) + "` | " + arguments + " | " + describe_way(row) + " | " +
            notes(row) + " |\n";
  }
  return text + declined_markdown();
}

} // namespace tsc::ops
