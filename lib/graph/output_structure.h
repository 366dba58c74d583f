// The structure of what the user's model gives, as exports and graph JSON hold it. Internal to
// lib/graph.
#pragma once

#include "graph/graph.h"
#include "graph/json_document.h"

#include <optional>

namespace tsc::graph {

/// Of an export's "graph_module". Nothing if it does not say, says it in a way that is not known,
/// or says another number of results than `outputs` has: only names would come of it.
std::optional<tensor::Structure> read_treespec(const JsonValue &module,
                                               const std::vector<OutputSpec> &outputs);
/// Of graph JSON's signature. Errors: UserError (bad_input) TSC-G070.
tensor::Structure read_structure(const JsonValue &value, const std::vector<OutputSpec> &outputs);

} // namespace tsc::graph
