#include "ops/table/varying_dtypes.h"

namespace tsc::ops {
namespace {

struct Varying {
  std::string_view target, reason;
};

constexpr std::string_view kStatistics =
    "statistics have the input's dtype on CPUs, mostly f32 on GPUs: as recorded";

constexpr Varying kVarying[] = {
    {"aten.native_layer_norm.default", kStatistics},
    {"aten.native_group_norm.default", kStatistics},
    {"aten._fused_rms_norm.default", kStatistics},
    {"aten._weight_norm_interface.default", kStatistics},
    {"aten.ldexp.Tensor", "before PyTorch 2.11 whole powers made 16-bit floats f32: as recorded"}};

} // namespace

std::string_view why_dtypes_vary(std::string_view target) {
  for (const Varying &varying : kVarying)
    if (varying.target == target)
      return varying.reason;
  return {};
}

} // namespace tsc::ops
