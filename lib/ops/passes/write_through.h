// What a write through a view does to what is viewed.
#pragma once

#include "ops/table/builder.h"

namespace tsc::ops {

/// A view with the layouts that PyTorch gives its memory; values that stand for it may lie
/// otherwise.
struct WrittenView {
  const Node &view;
  TensorMeta base, seen; // of what is viewed, and of the view
};

/// True if several elements of the view are one in memory: it is an expanded tensor.
bool repeats_elements(const WrittenView &through);

/// The value of what is viewed, `before` so far, once `written` has been stored through the view by
/// `call`. Throws TSC-O072 where several elements of the view are one in memory and PyTorch does
/// not write either.
graph::NodeId write_through(GraphBuilder &builder, const WrittenView &through, graph::NodeId before,
                            graph::NodeId written, const Call &call);

} // namespace tsc::ops
