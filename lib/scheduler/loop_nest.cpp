#include "scheduler/loop_nest.h"

#include "symbolic/loops.h"

namespace tsc::scheduler {

namespace {

std::vector<Expr> concatenate(std::span<const Expr> a, std::span<const Expr> b) {
  std::vector<Expr> all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

/// `loops` cut where the product of the leading ones is `numel`.
std::optional<LoopNest> cut(std::span<const Expr> loops, Expr numel) {
  Expr product(1);
  size_t count = 0;
  while (count < loops.size() && product != numel)
    product *= loops[count++];
  if (product != numel)
    return std::nullopt;
  LoopNest nest;
  nest.iteration.assign(loops.begin(), loops.begin() + count);
  nest.reduction.assign(loops.begin() + count, loops.end());
  return nest;
}

LoopNest flat_nest(Expr numel, Expr reduction_numel) {
  LoopNest nest;
  nest.flattened = true;
  nest.iteration = {numel};
  if (!reduction_numel.is_integer(1))
    nest.reduction = {reduction_numel};
  return nest;
}

std::vector<Expr> loop_variables(size_t count) {
  std::vector<Expr> variables;
  for (size_t i = 0; i < count; ++i)
    variables.push_back(symbolic::symbol(symbolic::SymbolSort::loop, i));
  return variables;
}

/// Each of `from`'s variables over `to`'s, where every loop of `from` is a product of neighbours in
/// `to`; nothing otherwise.
std::optional<std::vector<Expr>> combine_neighbours(std::span<const Expr> from,
                                                    std::span<const Expr> to,
                                                    std::span<const Expr> variables) {
  std::vector<Expr> result(from.size(), Expr(0));
  size_t next = to.size();
  for (size_t i = from.size(); i-- > 0;) {
    Expr stride(1);
    while (stride != from[i]) {
      if (next == 0)
        return std::nullopt;
      --next;
      result[i] += stride * variables[next];
      stride *= to[next];
    }
  }
  return result;
}

} // namespace

std::optional<Expr> exact_quotient(Expr a, Expr b) {
  if (a == b)
    return Expr(1);
  if (b.is_integer() && b.value() <= 0)
    return std::nullopt;
  const Expr quotient = symbolic::floor_div(a, b);
  if (quotient * b == a)
    return quotient;
  return std::nullopt;
}

std::optional<std::vector<Expr>> common_refinement(std::span<const Expr> a,
                                                   std::span<const Expr> b) {
  std::vector<Expr> reversed;
  size_t next_a = a.size(), next_b = b.size();
  Expr left_a(1), left_b(1); // of the loops at next_a and next_b, what is not yet covered
  while (true) {
    while (left_a.is_integer(1) && next_a > 0)
      left_a = a[--next_a];
    while (left_b.is_integer(1) && next_b > 0)
      left_b = b[--next_b];
    if (left_a.is_integer(1) && left_b.is_integer(1))
      break;
    if (const auto quotient = exact_quotient(left_a, left_b); quotient && !left_b.is_integer(1)) {
      reversed.push_back(left_b);
      left_a = *quotient;
      left_b = Expr(1);
    } else if (const auto inverse = exact_quotient(left_b, left_a);
               inverse && !left_a.is_integer(1)) {
      reversed.push_back(left_a);
      left_b = *inverse;
      left_a = Expr(1);
    } else {
      return std::nullopt;
    }
  }
  return std::vector<Expr>(reversed.rbegin(), reversed.rend());
}

std::optional<LoopNest> join_nests(const LoopNest &a, const LoopNest &b, Expr numel,
                                   Expr reduction_numel) {
  if (a.flattened || b.flattened)
    return flat_nest(numel, reduction_numel);
  const std::vector<Expr> all_a = concatenate(a.iteration, a.reduction);
  const std::vector<Expr> all_b = concatenate(b.iteration, b.reduction);
  const Expr numel_a = symbolic::numel(all_a), numel_b = symbolic::numel(all_b);
  if (numel_a == numel_b) {
    // The border is a cut of the nest that reduces, hence of the refinement.
    if (auto loops = common_refinement(all_a, all_b)) {
      if (auto nest = cut(*loops, numel))
        return nest;
    }
    if (reduction_numel.is_integer(1) || (!a.reduction.empty() && !b.reduction.empty()))
      return flat_nest(numel, reduction_numel);
    return std::nullopt;
  }
  const bool a_is_whole = !a.reduction.empty();
  const LoopNest &whole = a_is_whole ? a : b;
  const LoopNest &row = a_is_whole ? b : a;
  if (whole.reduction.empty() || !row.reduction.empty())
    return std::nullopt;
  LoopNest nest;
  if (auto loops = common_refinement(whole.iteration, row.iteration)) {
    nest.iteration = std::move(*loops);
    nest.reduction = whole.reduction;
    return nest;
  }
  return flat_nest(numel, reduction_numel);
}

ir::LoopBody express_over(const ir::LoopBody &body, const LoopNest &nest) {
  const std::vector<Expr> all = concatenate(nest.iteration, nest.reduction);
  const bool whole = symbolic::numel(body.sizes) == symbolic::numel(all);
  const std::vector<Expr> &sizes = whole ? all : nest.iteration;
  if (body.sizes == sizes && body.iteration_count == nest.iteration.size())
    return body;
  const std::vector<Expr> variables = loop_variables(sizes.size());
  auto old_variables = combine_neighbours(body.sizes, sizes, variables);
  if (!old_variables) // a flattened nest
    old_variables = symbolic::reshape_index(body.sizes, sizes, variables);
  return ir::reindex(body, variables, sizes, nest.iteration.size(), *old_variables);
}

} // namespace tsc::scheduler
