#include "ops/table/operator.h"
#include "ops/table/suggest.h"
#include "ops/table/varying_dtypes.h"

#include <algorithm>
#include <iterator>

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

/// Lowered to a call of a library, at least where no kernel here is faster: products, linear
/// algebra, what ranks do together.
bool is_of_library(std::string_view lowering) {
  static constexpr std::string_view kKeys[] = {"addmm",
                                               "all_gather",
                                               "all_reduce",
                                               "all_to_all",
                                               "bmm",
                                               "broadcast",
                                               "cholesky",
                                               "eigen",
                                               "fourier",
                                               "fourier_of_real",
                                               "fourier_to_real",
                                               "ldl",
                                               "ldl_solve",
                                               "lu",
                                               "lu_solve",
                                               "mm",
                                               "orthogonal",
                                               "reduce_scatter",
                                               "reflections",
                                               "svd",
                                               "symmetric_eigen",
                                               "triangular_solve"};
  return std::find(std::begin(kKeys), std::end(kKeys), lowering) != std::end(kKeys);
}

/// How many rows go each way.
std::string counts() {
  size_t functional = 0, decomposed = 0, both = 0, lowered = 0, library = 0;
  for (const Operator &row : operators())
    ++(!row.functional.empty()       ? functional
       : row.lowering.empty()        ? decomposed
       : row.decompose               ? both
       : is_of_library(row.lowering) ? library
                                     : lowered);
  const auto line = [](std::string_view way, size_t count) {
    return "| " + std::string(way) + " | " + std::to_string(count) + " |\n";
  };
  return "| way | rows |\n|---|---|\n" + line("functionalized: it writes", functional) +
         line("decomposed", decomposed) + line("decomposed or lowered, by its arguments", both) +
         line("lowered to loops", lowered) +
         line("lowered to a library's call, where that is the fastest", library) +
         line("all", operators().size()) + "\n";
}

/// What passes replace before operators are looked up.
constexpr std::string_view kReplaced =
    "\n## Replaced\n\nCalls that are gone before operators are looked up.\n\n"
    "| call | becomes |\n|---|---|\n"
    "| every overload of a row's operator that takes tensors for its results: `out`, `*_out`, "
    "`values`, `grad_input`, .. | the operator, and writes of its results |\n"
    "| `higher_order.with_effects` | the operator that it names |\n"
    "| `higher_order.invoke_subgraph`, `higher_order.wrap`, `higher_order.hints_wrapper`, "
    "`higher_order.strict_mode`, `higher_order.wrap_activation_checkpoint`, "
    "`higher_order.tag_activation_checkpoint`, `higher_order.wrap_with_set_grad_enabled`, "
    "`higher_order.wrap_with_autocast` | what their subgraph holds |\n";

} // namespace

std::string operators_markdown() {
  std::string text =
      "# Operators\n\n"
      "Generated from the operator table by `tsc::ops::operators_markdown()`; do not edit.\n\n" +
      counts() + "| operator | arguments | way | note |\n|---|---|---|---|\n";
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
  return text + std::string(kReplaced) + declined_markdown();
}

} // namespace tsc::ops
