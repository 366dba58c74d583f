// Concatenation without a copy: who computes a part stores it into its slice of the result.
#pragma once

#include "lowering/context.h"
#include "ops/table/operator.h"

#include <optional>
#include <span>

namespace tsc::lowering {

/// `tensors` (of the result's dtype, two or more, none empty along `dimension`) one after the other
/// along `dimension`, in memory that they are slices of: parts that loops or products compute are
/// stored there at once, others are copied. Nothing where Policy::concatenation prefers one kernel
/// that reads every part under a mask.
std::optional<TensorValue> concatenate_in_place(Context &context, const ops::Call &call,
                                                std::vector<TensorValue> &tensors,
                                                size_t dimension);

/// Finds parts of concatenations that a scatter makes in a copy of its input: the copy is made
/// where the part belongs, so that readers before the concatenation read it there (a step of
/// decoding that returns its layers' caches stacked). After plan_in_place, before the first node is
/// lowered.
void plan_slices(Context &context);

/// Puts `target`, of which nobody knows yet how it lies, where plan_slices said for the current
/// node; false if it said nothing.
bool store_in_slice(Context &context, BufferId target);

/// `parts` as tsc.interleave takes them (ops/families/windows.h), all of the result's dtype, stored
/// where they belong in the result, which lies as the node says. Nothing where memory is arranged
/// by others (context.in_place_operators).
std::optional<TensorValue> interleave_in_place(Context &context, std::vector<TensorValue> &parts,
                                               std::span<const int64_t> strides);

} // namespace tsc::lowering
