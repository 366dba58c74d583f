#include "ops/table/suggest.h"

#include "ops/table/operator.h"
#include "support/diagnostic.h"
#include "support/text.h"

namespace tsc::ops {
namespace {

constexpr std::string_view kList = "docs/operators.md lists what is supported";

struct Replacement {
  std::string_view operation; // without the overload; a prefix if it ends in a dot
  std::string_view advice;
};
/// Operators without a row of their own, and what to do without them.
constexpr Replacement kReplacements[] = {
    {"quantized.", "quantized models are not compiled: export the floating model"},
    {"aten._weight_int4pack_mm_for_cpu",
     "its weights lie in an order that the vector width of the CPU decides where they were packed, "
     "and no file says it: export with the weights as they were before packing"},
    {"aten._convert_weight_to_int4pack_for_cpu",
     "the order of its result depends on the vector width of the CPU: export with the weights as "
     "they are before packing"},
    {"aten._convert_weight_to_int4pack",
     "pack the weights before exporting: aten._weight_int4pack_mm takes them packed"},
    {"aten._weight_int4pack_mm_with_scales_and_zeros",
     "an operator of another kind of GPU: use aten._weight_int4pack_mm"},
    {"aten._dyn_quant_matmul_4bit",
     "its weights lie in an order of the library of one kind of CPU: export with the weights as "
     "they were before packing"},
    {"aten._dyn_quant_pack_4bit_weight",
     "the order of its result is that of the library of one kind of CPU: export with the weights "
     "as they are before packing"},
    {"aten._cudnn_ctc_loss",
     "export with torch.backends.cudnn.enabled = False, so that the graph calls aten._ctc_loss"},
    {"aten._use_cudnn_ctc_loss",
     "export with torch.backends.cudnn.enabled = False, so that the graph calls aten._ctc_loss"},
    {"aten._scaled_grouped_mm_v2", "use aten._scaled_grouped_mm, with one scale a row"},
};

/// "aten.add.Tensor" -> "aten.add"; "operator.getitem" stays.
std::string operation_of(std::string_view target) {
  size_t first = target.find('.'), last = target.rfind('.');
  return std::string(first == last ? target : target.substr(0, last));
}

std::string_view replacement_for(const std::string &target) {
  const std::string operation = operation_of(target);
  for (const Replacement &row : kReplacements)
    if (row.operation == operation ||
        (row.operation.back() == '.' && support::starts_with(target, row.operation)))
      return row.advice;
  return {};
}

bool has_namespace_of_torch(const std::string &target) {
  for (std::string_view name : {"aten.", "prims.", "operator.", "higher_order.", "math.", "torch."})
    if (support::starts_with(target, name))
      return true;
  return false;
}

} // namespace

std::string declined_markdown() {
  std::string text = "\n## Declined\n\nWhat has no row of its own, why, and what to do instead. "
                     "A name that ends in a dot stands for all that begin with it.\n\n"
                     "| operator | next step |\n|---|---|\n";
  for (const Replacement &row : kReplacements)
    text += "| `" + std::string(row.operation) + "` | " + std::string(row.advice) + " |\n";
  return text;
}

std::string suggest_operator(const std::string &target) {
  if (std::string_view advice = replacement_for(target); !advice.empty())
    return std::string(advice);
  const std::string operation = operation_of(target);
  std::vector<std::string> overloads, known;
  for (const Operator &row : operators()) {
    known.emplace_back(row.name);
    if (operation_of(row.name) == operation)
      overloads.emplace_back(row.name);
  }
  if (!overloads.empty())
    return "supported forms of it: " + support::join(overloads, ", ");
  if (std::string near = support::did_you_mean(target, known); !near.empty())
    return "did you mean " + near + "? " + std::string(kList);
  if (!has_namespace_of_torch(target))
    return "this is an operator of your own: bring its kernel with --operators FOLDER "
           "(docs/custom-operators.md), or replace it by ATen's with "
           "run_decompositions({op: function}) before saving";
  return std::string(kList);
}

} // namespace tsc::ops
