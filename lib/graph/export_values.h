// The small values of torch.export's schema 8: dtypes, devices, sizes, tensor metas. Internal to
// lib/graph; each reader throws UserError with the place of what it cannot read.
#pragma once

#include "graph/graph.h"
#include "graph/json_document.h"
#include "graph/symbol_names.h"

namespace tsc::graph {

DType read_export_dtype(const JsonValue &value);
MemoryFormat read_export_memory_format(const JsonValue &value);
TensorLayoutKind read_export_layout(const JsonValue &value);
Device read_export_device(const JsonValue &value);
/// {"as_int": 4} or {"as_expr": {"expr_str": ..., "hint": ...}}.
Expr read_export_sym_int(const JsonValue &value, SymbolNames &names);
TensorMeta read_export_tensor_meta(const JsonValue &value, SymbolNames &names);

/// Throws TSC-G013 (negative size) or TSC-G014 (more than 2^63 - 1 bytes) at `at`. Symbolic sizes
/// pass.
void check_tensor_size(const JsonValue &at, const TensorMeta &meta);
/// Likewise the strides and the offset: not negative, and the extent fits int64 (in bytes).
void check_tensor_strides(const JsonValue &at, const TensorMeta &meta);

} // namespace tsc::graph
