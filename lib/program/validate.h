// Checks a program as a whole, so that whoever holds one may index its tables without looking.
#pragma once

#include "program/program.h"

#include <string>

namespace tsc::program {

/// Holds afterwards: every index lies in its table, alias chains end, every size, grid
/// and byte count is not known to be negative, every symbol is declared and is exactly one
/// dimension of some input, operands match the parameters of their kernel, and no step reads what
/// is not yet or no longer in memory (check_memory.h). Errors: UserError (bad_input) TSC-P005 to
/// TSC-P009, TSC-P013, all that were found (at most 20), places as JSON pointers into program.json.
void validate(const Program &program, const std::string &label);

} // namespace tsc::program
