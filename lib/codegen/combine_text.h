// The function that a scan combines two tuples with, as text.
#pragma once

#include "ir/combine.h"

#include <string>

namespace tsc::codegen {

/// A structure: its `value` has the members m0, m1, ..; value apply(value a, value b) combines, and
/// each(f, x) is the tuple of what f gives for the members (prelude/tc_combine.h).
std::string combine_text(const ir::Combine &combine, const std::string &name);

/// The same in double, for one thread that carries a tuple along far more elements than float keeps
/// apart; the same where it rounds or reads bits on purpose.
ir::CombineFunction widened(const ir::CombineFunction &combine);

/// Whether every operation is an instruction or a few.
bool is_cheap(const ir::Combine &combine);

} // namespace tsc::codegen
