#include "scheduler/few_queries.h"

#include "scheduler/cost.h"

#include <algorithm>

namespace tsc::scheduler {

Expr rows_that_share_keys(const ir::Extern &attention) {
  const std::vector<Expr> &query = attention.inputs[0].layout.sizes,
                          &key = attention.inputs[1].layout.sizes;
  return query[2] * symbolic::floor_div(query[1], key[1]);
}

bool is_of_few_queries(const target::Target &target, const ir::Extern &attention) {
  if (attention.scores)
    return false;
  if (attention.parts > 0)
    return true;
  const std::vector<Expr> &query = attention.inputs[0].layout.sizes,
                          &key = attention.inputs[1].layout.sizes;
  if (!query[2].is_integer() || !rows_that_share_keys(attention).is_integer())
    return false;
  if (query[2].value() <= tc_few_products)
    return true;
  if (!std::all_of(query.begin(), query.end(), [](Expr size) { return size.is_integer(); }) ||
      !key[1].is_integer() || !key[2].is_integer())
    return false;
  const tc_few_work work = {query[0].value(), query[1].value(), key[1].value(),
                            query[2].value(), key[2].value(),   static_cast<int>(query[3].value())};
  return attention_parts(target, work) == 1;
}

std::optional<std::vector<Expr>> loops_at(const tensor::Layout &view, std::span<const Expr> place,
                                          std::span<const Expr> sizes,
                                          const symbolic::Ranges &ranges) {
  const auto is = [&](Expr a, Expr b) { return symbolic::simplify(a - b, ranges).is_integer(0); };
  /// a / b, if that is a whole number.
  const auto part = [&](Expr a, Expr b) -> std::optional<Expr> {
    const Expr whole = symbolic::simplify(symbolic::floor_div(a, b), ranges);
    return is(whole * b, a) ? std::optional(whole) : std::nullopt;
  };
  struct Dimension {
    Expr place, extent, stride; // what is left of it
  };
  if (!view.offset.is_integer(0))
    return std::nullopt;
  std::vector<Dimension> open;
  for (size_t k = 0; k < view.rank(); ++k)
    if (!view.sizes[k].is_integer(1) && !view.strides[k].is_integer(0))
      open.push_back({place[k], view.sizes[k], view.strides[k]});
  std::vector<Expr> loops(sizes.size());
  Expr inner = 1; // elements from one turn of the loop, as far as it is filled, to the next
  for (size_t i = sizes.size(); i-- > 0;) {
    Expr left = sizes[i], times = 1;
    loops[i] = 0;
    while (!left.is_integer(1)) {
      const auto found = std::find_if(open.begin(), open.end(), [&](const Dimension &each) {
        return !each.extent.is_integer(1) && is(each.stride, inner);
      });
      if (found == open.end())
        return std::nullopt;
      if (const auto rest = part(left, found->extent)) { // all of the dimension
        loops[i] = loops[i] + found->place * times;
        times = times * found->extent;
        inner = inner * found->extent;
        left = *rest;
        found->extent = 1;
      } else if (const auto over = part(found->extent, left)) { // a part of it
        loops[i] = loops[i] + symbolic::mod(found->place, left) * times;
        found->place = symbolic::floor_div(found->place, left);
        found->extent = *over;
        found->stride = found->stride * left;
        inner = inner * left;
        left = 1;
      } else {
        return std::nullopt;
      }
    }
  }
  return loops;
}

} // namespace tsc::scheduler
