#include "ir/custom_call.h"

namespace tsc::ir {

std::optional<Layout> boxes_of(Layout layout, const symbolic::Ranges &ranges) {
  constexpr int kWord = 8; // elements
  const auto whole = [&](Expr e) {
    return symbolic::simplify(symbolic::mod(e, Expr(kWord)), ranges).is_integer(0);
  };
  for (size_t k = 0; k + 1 < layout.rank(); ++k)
    if (layout.sizes[k].is_integer(1)) // any will do
      layout.strides[k] = Expr(kWord);
    else if (symbolic::bounds(layout.strides[k], ranges).low <= 0 || !whole(layout.strides[k]))
      return std::nullopt;
  if (!layout.strides.back().is_integer(1) || !whole(layout.offset))
    return std::nullopt;
  return layout;
}

} // namespace tsc::ir
