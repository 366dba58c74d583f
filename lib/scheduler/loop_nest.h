// Loop nests of groups: what several bodies can share, and bodies re-expressed over it.
#pragma once

#include "ir/body.h"

#include <optional>
#include <span>
#include <vector>

namespace tsc::scheduler {

using ir::Expr;

/// Loops that all members of a group run over, outermost first.
struct LoopNest {
  std::vector<Expr> iteration, reduction;
  /// The members' loops have no common refinement: one loop each, members divide it.
  bool flattened = false;
};

/// q if a == q * b holds for all values of the symbols.
std::optional<Expr> exact_quotient(Expr a, Expr b);

/// The coarsest list of loops of which every loop of `a` and of `b` is a product of neighbours;
/// nothing if there is none, as for {6, 4} and {8, 3}. Precondition: equal products.
std::optional<std::vector<Expr>> common_refinement(std::span<const Expr> a,
                                                   std::span<const Expr> b);

/// The nest shared by two groups over (numel, reduction_numel), each over the same numbers, or over
/// numel alone, or, with no reduction of its own, over their product. Nothing if a loop would
/// straddle the border between iteration and reduction.
std::optional<LoopNest> join_nests(const LoopNest &a, const LoopNest &b, Expr numel,
                                   Expr reduction_numel);

/// `body` over `nest`. Its numel is that of the iteration, or that of iteration times reduction.
ir::LoopBody express_over(const ir::LoopBody &body, const LoopNest &nest);

} // namespace tsc::scheduler
