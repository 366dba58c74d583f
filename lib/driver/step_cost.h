// What a step of a program is expected to take, of the program alone.
#pragma once

#include "program/program.h"
#include "scheduler/cost.h"
#include "target/target.h"

#include <functional>

namespace tsc::driver {

/// Bytes and time of a launch by its kernel's plan, of a product by the library's rates. What moves
/// bytes alone has bytes; others have nothing. `number`: what a size expression is.
scheduler::Cost step_cost(const program::Program &program, const program::Step &step,
                          const target::Target &target,
                          const std::function<double(symbolic::Expr)> &number);

/// What `program` is planned for.
const target::Target &target_of(const program::Program &program);

} // namespace tsc::driver
