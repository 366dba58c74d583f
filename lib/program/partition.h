// Parts of a program that can each be captured in a CUDA graph, and what lies between them.
#pragma once

#include "program/program.h"

namespace tsc::program {

/// Steps that follow each other. `inputs` are read before the part writes them, `outputs` written
/// by it and wanted outside of it: by another part, or after the run. What steps that run once do
/// is there before any part runs.
struct Partition {
  uint32_t first = 0, count = 0;         // steps
  uint32_t depth = 0;                    // branches and loops around it
  bool capturable = true;                // else one step that the host decides or does
  std::vector<uint32_t> inputs, outputs; // buffers, ascending
};

/// In the order of steps; a branch or loop whose predicate the host reads is a part by itself, and
/// its own steps are parts that follow it. Branches that sizes decide are captured with what is
/// around them. Precondition: validate holds.
std::vector<Partition> partition(const Program &program);

/// The partitions as text, a paragraph each (`dump-schedule --stage=partitions`).
std::string to_text(const Program &program, const std::vector<Partition> &partitions);

} // namespace tsc::program
