// Dropout of attention's weights, whose mask is drawn in the forward pass and again in the backward
// pass: the forward forms that save a random state (philox_seed and philox_offset, or rng_state)
// save two numbers, of which the mask is a function. docs/training.md.
#pragma once

#include "ops/table/builder.h"

namespace tsc::ops {

/// int64 [2]: drawn; the upper half of the second number says that tsc drew it.
Argument new_dropout_state(GraphBuilder &builder, tensor::Device device);
/// What a forward form gives for return number `position`: the state in the form that PyTorch's has
/// (`rng_state` uint64 [2], `unused` uint64 []; `philox_seed` and `philox_offset` int64 []), zeros
/// for other tensors, and where nothing was drawn (`state` is None).
Argument saved_dropout_state(GraphBuilder &builder, const Call &call, size_t position,
                             const Argument &state);
/// The state that a backward form was given. Errors: TSC-O032 where it was given none.
Argument given_dropout_state(GraphBuilder &builder, const Call &call);
/// A boolean of rank 0: whether tsc drew `state`. Of another's state the mask cannot be told.
Argument is_own_dropout_state(GraphBuilder &builder, const Argument &state);

/// `weights` [.., rows, columns], those that stay multiplied by 1 / (1 - p), the others by 0; the
/// mask is a function of `state` and of the position in `weights`.
Argument dropped_weights(GraphBuilder &builder, const Argument &weights, const Argument &state,
                         double p);

} // namespace tsc::ops
