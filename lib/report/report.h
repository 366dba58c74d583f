// What a compilation decided and what it expects, as data and as one page that shows the data.
#pragma once

#include "driver/compile.h"
#include "target/target.h"

#include <string>
#include <string_view>
#include <vector>

namespace tsc::report {

/// The version of the data: readers refuse another.
inline constexpr int kVersion = 1;

/// What a run took, step by step.
struct Measured {
  std::string device;                    // "cuda", "host", and what it is called
  std::vector<double> step_milliseconds; // one a step of the program
};

/// The data of docs/report.md as JSON. `graph`: what the file is called. `measured` may be null.
/// Precondition: the compilation has reached Form::program, with the graph as it was read; or it
/// has a program and its sizes alone, and is reported by kernels, steps and memory. Text of the
/// model that is no UTF-8 is replaced where it is not.
std::string to_json(const driver::Compilation &compilation, const target::Target &target,
                    const std::string &graph, const Measured *measured);

/// One file that needs no other: the data within a page. Nothing in the data can end the element
/// that it stands in.
std::string to_html(std::string_view json);

} // namespace tsc::report
