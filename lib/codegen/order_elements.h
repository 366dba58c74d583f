// Loops over elements and rows in the order in which these lie in memory.
#pragma once

#include "codegen/kernel_graph.h"

#include <optional>

namespace tsc::codegen {

/// Makes one loop over elements of `inner` and of `outer`, its place in a nest of both; `inner`
/// stands for it. What goes along both as along one goes along it, what else depends on them
/// divides.
void merge_variables(KernelGraph &graph, Expr inner, Expr outer);

/// Takes the loops over elements apart that loads divide, once each; false where none is, or where
/// sizes are symbols (the graph may have changed then).
bool divide_element_loops(KernelGraph &graph);

/// Takes the loop over elements apart of which conditions tell parts of one length (tensors of one
/// size, one behind another: a concatenation), and gives the place of the loop over parts: at most
/// `most`. A loop over single elements that they tell apart (a stack) is one already. Nothing, and
/// nothing done, where there is none.
std::optional<size_t> divide_into_parts(KernelGraph &graph, int64_t most);

/// Takes the loops of a row apart where loads divide them (channels and pixels of a group,
/// flattened by a view), and puts the one that most bytes are neighbours along last, if that is
/// another one. Not where the order of elements is told or kept (positions, scans, sorts), nor of
/// sizes that are symbols. A row's elements are the same, in another order.
void order_row_elements(const ir::Module &module, KernelGraph &graph);

/// The loop at `place` of the rows as two, the inner one, behind it, of `length`, which divides it.
void divide_row_loop(KernelGraph &graph, size_t place, int64_t length);

/// Takes apart the loops over rows that loads divide (instances and channels, which a view made
/// one) where these go through memory in order then.
void divide_row_loops(const ir::Module &module, KernelGraph &graph);

/// Puts the loops over rows in the order in which most bytes lie along them, neighbours last, where
/// that is another one than the result's (channels innermost in what is read, not in what is
/// stored): neighbouring rows, which neighbouring threads take, then share sectors. Not of scans
/// and sorts.
void order_rows(const ir::Module &module, KernelGraph &graph);

/// A graph that reduces nothing any more as a pointwise one: rows are its outer loops.
void make_pointwise(KernelGraph &graph);

/// The graph with neighbouring loops over a row's elements as one, the inner one of the two, where
/// whatever reductions are fed with goes along both as along one (a group's channels and pixels);
/// what else depends on them divides. Value ids stay. Nothing where that joins no loops, of scans
/// and sorts, and of symbolic sizes.
std::optional<KernelGraph> join_element_loops(const KernelGraph &graph);

/// Puts the outermost loop of a row last where most bytes that are loaded are neighbours along it.
/// Not where the order of elements is told or kept.
void put_neighbours_last(const ir::Module &module, KernelGraph &graph);

/// Where the outermost loop of a row has few rounds beside `parts` and another one has more: that
/// one, or a number of equal runs of it near `parts`, comes first, so that parts of the row can be
/// divided among blocks. Not where the order of elements is told or kept, nor of symbolic sizes.
void bring_out_loop(KernelGraph &graph, int64_t parts);

} // namespace tsc::codegen
