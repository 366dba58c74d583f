// What a process finds around it: descriptors, signals, limits.
#pragma once

#include <string>

namespace tsc::app {

/// Opens standard descriptors that are closed, so that no file of ours takes their numbers; a
/// closed pipe becomes an error of writing; children can be waited for.
void set_up_process();

/// Writes out what stdout holds. If that fails, or failed before: TSC-C017 on stderr, and exit code
/// 5 instead of `code` where that is 0 or 1.
int finish_output(int code);

/// Prints TSC-R001 with what was being done when memory ran out. Allocates next to nothing.
int report_out_of_memory();

} // namespace tsc::app
