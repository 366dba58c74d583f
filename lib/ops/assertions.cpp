// What the export left to be checked. Shapes and dtypes are known when compiling, so nothing
// remains at run time.
#include "ops/table.h"

namespace tsc::ops {

void add_assertions(Table &table) {
  const std::string_view schemas[] = {
      "_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? "
      "dtype=None, *, "
      "Device? device=None, Layout? layout=None) -> ()",
      "_assert_async(Tensor self) -> ()",
      "_assert_async.msg(Tensor self, str assert_msg) -> ()",
      "_assert_scalar(Scalar self, str assert_msg) -> ()",
      "sym_constrain_range(Scalar size, *, int? min=None, int? max=None) -> ()",
      "sym_constrain_range_for_size(Scalar size, *, int? min=None, int? max=None) -> ()",
      "torch::_check(Scalar condition) -> ()"};
  for (std::string_view schema : schemas)
    table.add(schema).effect(Effect::assertion).shape([](const Call &) { return Value{}; });
}

} // namespace tsc::ops
