// Sizes that a step defines while a run is under way.
#include "engine/engine.h"
#include "first_elements.h"
#include "program/tables.h"
#include "program/validate.h"
#include "test_device.h"

#include "support/diagnostic.h"
#include "testing/catch.h"

#include <numeric>

namespace {

using namespace tsc;
using namespace tsc_engine;
using program::taking_first;
using symbolic::Expr;
using symbolic::SymbolSort;

struct Run {
  program::OwnedTables owned;
  std::shared_ptr<TestDevice> device = std::make_shared<TestDevice>();
  std::unique_ptr<Instance> instance;
  struct alignas(256) Memory {
    int64_t numbers[1024] = {};
  };
  Memory x, n, z, workspace;

  explicit Run(const program::Program &program) : owned(program::build_tables(program)) {
    auto model = std::make_shared<const Model>(owned.tables, tsc_engine::Plan::serial);
    instance = std::make_unique<Instance>(
        std::make_shared<WeightSet>(model, device, [](const char *) { return WeightData(); }));
    instance->set_poison(true);
    std::iota(x.numbers, x.numbers + 1024, 100);
  }
  size_t bind(int64_t rows) {
    const int64_t *shapes[] = {&rows, nullptr};
    return instance->bind(shapes);
  }
  /// What went wrong, "" if nothing.
  std::string run(int64_t count) {
    n.numbers[0] = count;
    void *inputs[] = {x.numbers, n.numbers}, *outputs[] = {z.numbers};
    try {
      instance->run(nullptr, inputs, outputs, workspace.numbers);
    } catch (const Error &error) {
      CHECK(error.status == Status::assertion);
      return error.what();
    }
    return "";
  }
  std::vector<int64_t> output() {
    const std::vector<int64_t> sizes = instance->output_sizes(0);
    REQUIRE(sizes.size() == 2);
    CHECK(sizes[0] == 2);
    const auto *memory = static_cast<const int64_t *>(instance->output_memory(0, z.numbers));
    return {memory, memory + sizes[0] * sizes[1]};
  }
};

std::string problem_of(const program::Program &program) {
  try {
    program::validate(program, "");
  } catch (const support::UserError &error) {
    return error.diagnostics().front().code + ": " + error.diagnostics().front().message;
  }
  return "";
}

} // namespace

TEST_CASE("A size that a step defines is bounded when shapes are bound", "[engine]") {
  const Expr rows = symbolic::symbol(SymbolSort::size, 0);
  const program::Program program = taking_first(rows);
  CHECK(problem_of(program) == "");
  CHECK(program::to_json(program::from_json(program::to_json(program), "p")) ==
        program::to_json(program));
  Run run(program);
  CHECK(reads_predicates(run.owned.tables));
  CHECK(run.bind(5) >= 40);
  CHECK(run.instance->output_bytes(0) == 80);
  CHECK_THROWS_AS(run.instance->output_sizes(0), Error); // no run has said it yet
  for (int64_t count : {3, 0, 5, 5, 1}) {
    CHECK(run.run(count) == "");
    std::vector<int64_t> expected;
    for (int64_t i = 0; i < 2 * count; ++i)
      expected.push_back(100 + i % count);
    CHECK(run.output() == expected);
  }
  CHECK(run.run(6) == "u0 <= s0 (node check)");
  CHECK_THROWS_AS(run.instance->output_sizes(0), Error);
  CHECK(run.run(-1) == "the size u0 is -1, not in [0, 5] (define)");
  CHECK(run.run(2) == "");
  CHECK(run.output() == std::vector<int64_t>{100, 101, 100, 101});
  run.bind(1);
  CHECK(run.run(1) == "");
  CHECK(run.output() == std::vector<int64_t>{100, 100});
}

TEST_CASE("Where nothing bounds a size the instance has the memory", "[engine]") {
  Run run(taking_first(program::Define::kUnbounded));
  CHECK(run.bind(700) == 0);
  CHECK(run.instance->output_bytes(0) == 0);
  const size_t held = run.device->live.size();
  for (int64_t count : {3, 700, 0, 2}) {
    CHECK(run.run(count) == "");
    CHECK(run.output().size() == static_cast<size_t>(2 * count));
    CHECK(run.device->live.size() == held + 2); // kept, and made larger
  }
  CHECK(run.output() == std::vector<int64_t>{100, 101, 100, 101});
  CHECK(run.run(701) == "u0 <= s0 (node check)");
  run.instance.reset();
  CHECK(run.device->live.empty());
}

TEST_CASE("A size is not used before its step", "[engine]") {
  program::Program program = taking_first(symbolic::symbol(SymbolSort::size, 0));
  std::swap(program.steps[0], program.steps[1]);
  CHECK(problem_of(program) == "TSC-P008: \"s1\" is used before a step says what it is");
  program = taking_first(symbolic::symbol(SymbolSort::size, 1));
  CHECK(problem_of(program) == "TSC-P008: \"s1\" is used before a step says what it is");
  program = taking_first(0);
  program.steps.push_back(program.steps[0]);
  CHECK(problem_of(program) ==
        "TSC-P009: \"s1\" is no symbol that one step, and nothing else, says");
  program = taking_first(0);
  program.steps.erase(program.steps.begin());
  CHECK(problem_of(program) ==
        "TSC-P008: no dimension of an input says what \"s1\" is: nothing binds it");
}
