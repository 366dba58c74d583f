#include "ops/families/factories.h"

#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

namespace tsc::ops {

std::string_view factory(std::string_view parameters, bool with_format) {
  constexpr std::string_view kOptions =
      "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None";
  std::string format = with_format ? ", MemoryFormat? memory_format=None" : "";
  return keep_text(std::string(parameters) + ", *, " + std::string(kOptions) + format +
                   ") -> Tensor");
}

Argument made_like(GraphBuilder &builder, const Call &call,
                   const std::function<Argument(const std::vector<Expr> &)> &make) {
  const tensor::Layout like = call.tensor("self").layout;
  graph::MemoryFormat format = graph::MemoryFormat::preserve;
  for (const Parameter &parameter : call.schema().parameters)
    if (parameter.name == "memory_format")
      if (const auto *given = std::get_if<graph::MemoryFormat>(&call["memory_format"].value))
        format = *given;
  return made_in_order(builder, like.sizes, strides_in_format(call, like, format), make);
}

Argument made_in_order(GraphBuilder &builder, const std::vector<Expr> &sizes,
                       const std::vector<Expr> &strides,
                       const std::function<Argument(const std::vector<Expr> &)> &make) {
  if (strides == tensor::contiguous_strides(sizes))
    return make(sizes);
  std::vector<size_t> order = tensor::stride_order(strides), inverse(order.size());
  std::vector<Expr> ordered;
  for (size_t i = 0; i < order.size(); ++i) {
    ordered.push_back(sizes[order[i]]);
    inverse[order[i]] = i;
  }
  return builder.call("aten.permute.default", {make(ordered), ints_argument(inverse)});
}

} // namespace tsc::ops
