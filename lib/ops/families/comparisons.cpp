// Comparisons and logical operators: the result is bool.
#include "ops/table/builder.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/table.h"

namespace tsc::ops {

void add_comparisons(Table &table) {
  struct Form {
    std::string_view name, second_name;
  };
  const Form forms[] = {{"eq", ""},           {"ne", "not_equal"}, {"lt", "less"},
                        {"le", "less_equal"}, {"gt", "greater"},   {"ge", "greater_equal"}};
  for (const Form &form : forms) {
    std::string name(form.name);
    table.add_with_in_place(keep_text(name + ".Tensor(Tensor self, Tensor other) -> Tensor"))
        .shape(elementwise(Promotion::boolean, {"self", "other"}))
        .lowers(form.name);
    std::string_view target = keep_text("aten." + name + ".Tensor");
    auto decomposition = [target](GraphBuilder &builder, const Call &call) {
      return builder.call(target, {call["self"], call["other"]});
    };
    table.add_with_in_place(keep_text(name + ".Scalar(Tensor self, Scalar other) -> Tensor"))
        .decompose(decomposition);
    if (form.second_name.empty())
      continue;
    std::string second(form.second_name);
    table.add(keep_text(second + ".Tensor(Tensor self, Tensor other) -> Tensor"))
        .decompose(decomposition);
    table.add(keep_text(second + ".Scalar(Tensor self, Scalar other) -> Tensor"))
        .decompose(decomposition);
  }
  for (std::string_view name : {"logical_and", "logical_or", "logical_xor"})
    table.add_with_in_place(keep_text(std::string(name) + "(Tensor self, Tensor other) -> Tensor"))
        .shape(elementwise(Promotion::boolean, {"self", "other"}))
        .lowers(name);
}

} // namespace tsc::ops
