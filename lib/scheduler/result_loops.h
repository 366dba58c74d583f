// Loops beside a matrix product, over its results or its left operand: whether a kernel of products
// can run them where it has a row and a column.
#pragma once

#include "scheduler/state.h"

#include <vector>

namespace tsc::scheduler {

/// True if every access of `body` to `buffer` is at the iteration's own position, in a matrix whose
/// rows may be padded.
bool follows(const State &state, const ir::LoopBody &body, BufferId buffer);

/// True if iterations come in whole runs along the innermost loop.
bool has_whole_runs(const ir::LoopBody &body, int64_t run);

/// Of a body that copies matrices, one after another: elements of memory from what it reads for one
/// of `count` to the next one's. Nothing where they do not lie a constant apart, or masks differ.
std::optional<int64_t> step_of_matrices(const ir::LoopBody &body, int64_t count);

/// `bodies`, of the same loops, with these in the order in which they load `results`, the elements
/// of memory one after the other; a loop that their load divides is two. Nothing unless that is
/// another order of the same loops.
std::vector<ir::LoopBody> in_order_of(const State &state, const std::vector<ir::LoopBody> &bodies,
                                      BufferId results);

/// Whether all that `bodies` store lies along the loop before those over `columns`, as far as it
/// goes: results of neighbouring rows beside each other, in whole runs of `run`.
bool stores_along_rows(const std::vector<ir::LoopBody> &bodies, int64_t columns, int64_t run = 1);
/// Whether runs of `run` neighbours along the innermost loop are neighbours in all that is stored.
bool stores_in_runs(const std::vector<ir::LoopBody> &bodies, int64_t run);

/// True if what is stored is what was loaded, or zero where a mask hides it, and a run of it is a
/// run of memory: it can be copied as it is.
bool is_copy(const State &state, const ir::LoopBody &body, tensor::DType dtype);

/// Instructions of a result, roughly. What depends on the column alone is found once a thread.
/// `is_half`: the result is rounded to 16 bits, for which some functions have a quicker form.
int64_t instructions_of(const ir::LoopBody &body, int64_t columns, bool is_half);

/// Of an element of an operand whose runs are written out: conditions on places, and half of what
/// they choose between, are not computed.
int64_t elements_instructions(const ir::LoopBody &body);

/// Whether elements of a run along the innermost loop, of whatever a large buffer packs several in,
/// are neighbours in memory, and start at multiples of 8 bytes.
bool reads_neighbours(const ir::Module &module, const ir::LoopBody &body);
/// The same of runs whose terms are pairs, `terms` of a column (term_of_pairs): weights that lie as
/// mma.sync has them.
bool reads_pairs(const ir::Module &module, const ir::LoopBody &body, int64_t terms);
/// Term `within` of run `run`, of `length` terms, where four runs have pairs of the same
/// neighbours in turn: 0, 1, 8, 9, ... those of the first, 2, 3, 10, 11, ... of the next one.
Expr term_of_pairs(Expr run, Expr within, int64_t length);

} // namespace tsc::scheduler
