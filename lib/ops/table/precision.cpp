#include "ops/table/precision.h"

#include "ops/table/pointwise_rules.h"
#include "ops/table/shape_rules.h"

namespace tsc::ops {

Argument convert(GraphBuilder &builder, const Argument &x, DType dtype) {
  return builder.meta(x).dtype == dtype ? x : builder.call(kConvert, {x, dtype});
}

Argument widen(GraphBuilder &builder, const Argument &x) {
  return convert(builder, x, accumulation_dtype(builder.meta(x).dtype));
}

Argument widen_to_floating(GraphBuilder &builder, const Argument &x) {
  return convert(builder, x, to_floating(accumulation_dtype(builder.meta(x).dtype)));
}

} // namespace tsc::ops
