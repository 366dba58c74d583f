// ATen's in-place operators that take the arguments of a functional one.
#pragma once

#include <span>
#include <string_view>

namespace tsc::ops {

struct InPlaceForm {
  std::string_view name;       // "add_.Tensor"
  std::string_view functional; // "add.Tensor"
  bool is_view = false;        // only sizes and strides change
};
/// In name order. Random operators are not among them: their functional forms differ.
std::span<const InPlaceForm> in_place_forms();

/// True for a target ("aten.t_.default") that changes only sizes and strides of its tensor.
bool is_view_in_place(std::string_view target);

} // namespace tsc::ops
