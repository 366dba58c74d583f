// What a write through a view does to what is viewed.
#pragma once

#include "ops/builder.h"

namespace tsc::ops {

/// The value of what `view` (a view of node `viewed`) views, `before` so far, once `written` has
/// been stored through the view. Throws TSC-O072 where several elements of the view are
/// one in memory.
graph::NodeId write_through(GraphBuilder &builder, const Node &view, graph::NodeId viewed,
                            graph::NodeId before, graph::NodeId written, const Call &call);

} // namespace tsc::ops
