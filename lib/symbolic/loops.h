// Algebra of loop nests: merging and reordering loops that index expressions allow.
#pragma once

#include "symbolic/expr.h"

namespace tsc::symbolic {

/// The outcome of merging adjacent loops: new loop sizes, and each old variable as an expression of
/// the new variables.
struct MergedLoops {
  std::vector<Expr> sizes;
  std::vector<Expr> variables;     // the new variables, one a size
  std::vector<Expr> old_variables; // old variable i = old_variables[i] (over `variables`)
};

/// Drops loops of size 1 and merges neighbours (a, b) wherever every index agrees that
/// stride(a) == stride(b) * size(b): TorchInductor's _simplify_loops. New variables are
/// symbol(sort, 0...). `indices` are expressions over `variables`, one per access.
MergedLoops merge_loops(std::span<const Expr> variables, std::span<const Expr> sizes,
                        std::span<const Expr> indices, SymbolSort sort, const Ranges &ranges = {});

/// Order in which loops should nest, outermost first, as positions into sizes: seed 004's
/// pick_loop_order over `strides` (one row per access, one entry per loop; priority as in the
/// seed), ties keep the larger index first. Sizes of 1 go last.
std::vector<size_t> pick_loop_order(const std::vector<std::vector<Expr>> &strides,
                                    std::span<const Expr> sizes);

/// Index expressions, one a target dimension, for reading a tensor of shape `from` as shape `to`
/// (equal numel) at `index` over `to`: the index algebra of View.dynamic_reshape_indexer
/// (merge, or FloorDiv/ModularIndexing split).
std::vector<Expr> reshape_index(std::span<const Expr> from, std::span<const Expr> to,
                                std::span<const Expr> index);

} // namespace tsc::symbolic
