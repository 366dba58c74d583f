// A cache that is mutated in place moves what is new of it, and nothing else.
#include "case_file.h"

#include "driver/compile.h"
#include "graph/read.h"
#include "testing/catch.h"

#include <algorithm>
#include <set>

using namespace tsc;

namespace {

int64_t bytes_of(symbolic::Expr bytes) {
  REQUIRE(bytes.is_integer());
  return bytes.value();
}

bool is_mutated(const program::Program &program, const program::Operand &operand) {
  return program.buffers[operand.buffer].mutated;
}

/// The most bytes that one launch into a mutated buffer writes, all its outputs together.
int64_t largest_update(const program::Program &program) {
  int64_t largest = 0;
  for (const program::Step &step : program.steps) {
    const auto *launch = std::get_if<program::Launch>(&step.kind);
    if (!launch)
      continue;
    const program::Kernel &kernel = program.kernels[launch->kernel];
    size_t pointer = 0;
    for (const program::KernelParameter &parameter : kernel.parameters) {
      if (parameter.kind != program::KernelParameter::Kind::pointer)
        continue;
      if (!parameter.is_const && is_mutated(program, launch->pointers[pointer]))
        largest = std::max(largest, bytes_of(kernel.bytes_written));
      ++pointer;
    }
  }
  return largest;
}

bool copies_memory(const program::Program &program) {
  return std::any_of(program.steps.begin(), program.steps.end(), [](const program::Step &step) {
    return std::holds_alternative<program::Copy>(step.kind);
  });
}

int64_t largest_own_buffer(const program::Program &program) {
  int64_t largest = 0;
  for (const program::Buffer &buffer : program.buffers)
    if (buffer.role == program::Role::intermediate || buffer.role == program::Role::output)
      largest = std::max(largest, bytes_of(buffer.bytes));
  return largest;
}

} // namespace

TEST_CASE("a cache is updated in place, without copying it") {
  // Each cache holds 2 * 3 * 8 * 4 floats, 768 bytes (of_layers: two layers of two such halves);
  // what a step brings is an eighth of it, and its kernel may give a row of attention besides.
  const std::set<std::string> in_place = {"cache_index_copy", "cache_index_put",  "cache_slices",
                                          "cache_of_layers",  "cache_transposed", "cache_counted",
                                          "cache_buffers"};
  size_t found = 0;
  for (const testing::Case &one : testing::read_cases("mutations")) {
    if (in_place.count(one.name) == 0)
      continue;
    ++found;
    INFO(one.name);
    const program::Program program =
        driver::compile(graph::parse_graph(one.model, one.name), {}).program;
    CHECK(largest_update(program) > 0);
    CHECK(largest_update(program) <= 768 / 2);
    CHECK(largest_own_buffer(program) < 768);
    CHECK_FALSE(copies_memory(program));
  }
  CHECK(found == in_place.size());
}

TEST_CASE("a cache whose old contents are needed is copied") {
  for (const testing::Case &one : testing::read_cases("mutations")) {
    if (one.name != "cache_old_needed")
      continue;
    const program::Program program =
        driver::compile(graph::parse_graph(one.model, one.name), {}).program;
    CHECK(largest_update(program) == 768 / 8);
    CHECK(largest_own_buffer(program) == 768);
  }
}
