// torch.export's model.json (schema 8, PyTorch 2.8 to 2.11) -> Graph. Internal to lib/graph.
#pragma once

#include "graph/graph.h"
#include "graph/json_document.h"

namespace tsc::graph {

/// True if the document's outermost keys are those of an ExportedProgram.
bool is_export_program(const JsonValue &root);
/// `label` stands for the path in messages. Weights are not part of this file.
Graph read_export_program(const JsonValue &root, const std::string &label);

} // namespace tsc::graph
