// What went wrong, as text on stderr or as one JSON object on stdout (docs/command-line-json.md).
#pragma once

#include "driver/check.h"
#include "support/diagnostic.h"

#include <nlohmann/json.hpp>

namespace tsc::app {

nlohmann::json to_json(const support::Diagnostic &diagnostic);
/// With the operator's call and its places, where the problem is one of calls.
nlohmann::json to_json(const driver::Problem &problem);

/// Prints `error`, with `as_json` as {"exit_code", "problems"}. Returns its exit code.
int report(const support::UserError &error, bool as_json);
/// The same for a fault of ours.
int report_fault(const std::string &what, bool as_json);

} // namespace tsc::app
