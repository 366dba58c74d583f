// .pt2 archives as torch.export.save writes them: a zip of model.json and raw weights. Internal to
// lib/graph.
#pragma once

#include "graph/graph.h"
#include "tensor/zip_archive.h"

namespace tsc::graph {

/// Reads the one exported program of the archive; weights are views of `bytes`.
Graph read_pt2(tensor::Payload bytes, const std::string &label);

} // namespace tsc::graph
