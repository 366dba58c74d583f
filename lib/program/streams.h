// Steps of several streams: what must wait for what.
//
// A program says of each step on which stream it runs and for which earlier steps of other streams
// it waits (Step::stream, Step::waits); the engine makes events of that. Results are those of one
// stream, whatever a device does meanwhile, if any two steps that touch the same memory, one of
// them writing, are in order by their streams and waits.
#pragma once

#include "program/program.h"
#include "support/diagnostic.h"

#include <vector>

namespace tsc::program {

/// TSC-P014 for every step that touches memory which a step of another stream may still be working
/// on, for streams that steps cannot run on (a step that runs once, or that depends on a condition,
/// is of stream 0; there are at most engine's kMaxStreams), and for waits for a step that a
/// condition may leave out. Memory that the engine packs is its own business. Precondition:
/// indices lie in their tables, waits are for earlier steps, steps that depend on others lie within
/// them (validate).
std::vector<support::Diagnostic> check_streams(const Program &program);

/// Gives every step the fewest waits that keep results those of one stream: one for each stream
/// that has a conflicting step which is not known to be done by then. A collective of another
/// stream than 0 waits for all of stream 0 that stands before it, too: it begins where it was
/// placed, and not as soon as its own operands are there, so that what is dead by then gives it its
/// memory. Replaces what was there. Precondition: as check_streams, and what it says of streams
/// holds; no step decides (decides()).
void add_waits(Program &program);

/// What the engine calls the number of streams: one more than the highest that a step names.
size_t count_streams(const Program &program);

} // namespace tsc::program
