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
  std::vector<Expr> strides = strides_in_format(call, like, format);
  if (strides == tensor::contiguous_strides(like.sizes))
    return make(like.sizes);
  std::vector<size_t> order = tensor::stride_order(strides), inverse(order.size());
  std::vector<Expr> sizes;
  for (size_t i = 0; i < order.size(); ++i) {
    sizes.push_back(like.sizes[order[i]]);
    inverse[order[i]] = i;
  }
  return builder.call("aten.permute.default", {make(sizes), ints_argument(inverse)});
}

} // namespace tsc::ops
