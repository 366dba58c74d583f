#include "ops/families/checks.h"

#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "support/text.h"

#include <cmath>

namespace tsc::ops {
namespace {

Value held(const Call &call, DType dtype) {
  const TensorMeta &self = call.tensor("self");
  return tensor_value(dtype, self.layout.sizes, preserved_strides(self.layout, call.ranges()),
                      self.device);
}

} // namespace

Argument checked_range(GraphBuilder &builder, const Argument &values, Expr size,
                       std::string_view what) {
  return checked_with(builder, values, size,
                      std::string(what) + " {value} of {subject} is not in [0, {size})");
}

Argument checked_with(GraphBuilder &builder, const Argument &values, Expr size,
                      std::string message) {
  return builder.call("tsc.check_range.default", {values, size_argument(size), std::move(message)});
}

Argument checked_float(GraphBuilder &builder, const Argument &values, double high, UpperEnd end,
                       std::string_view what) {
  const bool wide = builder.meta(values).dtype == DType::f64;
  std::string message =
      std::string(what) + (wide ? " {float64}" : " {float32}") + " of {subject} is not in [0, ";
  message += std::isinf(high) ? "inf" : support::python_repr(high);
  message += end == UpperEnd::counts ? "]" : ")";
  return builder.call("tsc.check_float.default",
                      {values, high, end == UpperEnd::is_outside, std::move(message)});
}

void add_checks(Table &table) {
  table.add("tsc::check_range(Tensor self, SymInt size, str message) -> Tensor")
      .shape([](const Call &call) { return held(call, DType::i64); })
      .passes_elements()
      .lowers("check_range");
  table.add("tsc::check_float(Tensor self, float high, bool below, str message) -> Tensor")
      .shape([](const Call &call) { return held(call, call.tensor("self").dtype); })
      .passes_elements()
      .lowers("check_float");
}

} // namespace tsc::ops
