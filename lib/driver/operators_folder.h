// Folders of operators that the user brings (docs/custom-operators.md): a row as JSON for each, and
// the texts of its kernels.
#pragma once

#include "ops/custom/custom_operator.h"

#include <memory>
#include <string>

namespace tsc::driver {

/// Reads every FOLDER/*.json, in order of their names. All problems of all rows in one report:
/// UserError (bad_input) TSC-O200 (nothing that could be read), O201 (a row that is no such
/// object), O202 to O207 (ops::check_custom_operator; O204 also of two rows of one name), O208 (a
/// text that is not there).
std::shared_ptr<const ops::CustomOperators> read_operators(const std::string &folder);

} // namespace tsc::driver
