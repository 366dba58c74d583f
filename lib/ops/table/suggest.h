// What to do about an operator that tsc does not have.
#pragma once

#include <string>

namespace tsc::ops {

/// The next step for `target`, from the most to the least certain: what is known to take its place,
/// the operator's other overloads, the nearest name of the table, the list of what is supported.
/// Precondition: find_operator(target) is null.
std::string suggest_operator(const std::string &target);
/// A section of docs/operators.md: the operators that are declined with a reason.
std::string declined_markdown();

} // namespace tsc::ops
