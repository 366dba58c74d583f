// What a user may write as a schema: PyTorch's text, of the types that kernels can be given.
#pragma once

#include "support/diagnostic.h"

#include <string>
#include <vector>

namespace tsc::ops {

/// Codes TSC-O202 (not a schema, or a type that kernels cannot be given), TSC-O207 (an operator
/// that writes its arguments, or returns views of them); place "/schema". parse_schema takes a text
/// without problems.
std::vector<support::Diagnostic> schema_problems(const std::string &schema);

} // namespace tsc::ops
