// How the matrices of a product lie in memory: whether a template's kernel takes them as they are.
#pragma once

#include "symbolic/expr.h"
#include "tensor/layout.h"

#include <cstdint>

namespace tsc::scheduler {

/// A matrix in memory, or one for each of a batch, whose runs of `run` elements along one dimension
/// are whole 16-byte words. How many runs, and matrices, there are need not be known, nor how far
/// apart matrices lie, if that is a multiple of `run` in `ranges`.
bool has_runs(const tensor::Layout &layout, int64_t run, const symbolic::Ranges &ranges);

/// A matrix whose rows, of known length, lie in memory as they are, padded maybe; those of a batch
/// one below the other.
bool has_rows(const tensor::Layout &layout);

/// Whether its terms lie beside each other: those of a left operand in a row. `terms`: which of the
/// last two dimensions they are.
bool is_deep(const tensor::Layout &layout, size_t terms);

} // namespace tsc::scheduler
