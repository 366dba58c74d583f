// Library calls that yield several results.
#pragma once

#include "lowering/context.h"

namespace tsc::lowering {

/// Registers the call, whose output is a tuple, and behind it an operation for each of `results`,
/// whose buffer is laid out as the graph says. The value is the list of them.
NodeValue tuple_call(Context &context, ir::Extern call,
                     const std::vector<graph::TensorMeta> &results);

} // namespace tsc::lowering
