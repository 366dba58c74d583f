// How ranks reduce what they hold.
#pragma once

#include <array>
#include <string_view>

namespace tsc::tensor {

/// As PyTorch calls them, in the order of tsc_engine::Reduction.
inline constexpr std::array<std::string_view, 8> kRankReductions = {
    "sum", "avg", "max", "min", "product", "band", "bor", "bxor"};

} // namespace tsc::tensor
