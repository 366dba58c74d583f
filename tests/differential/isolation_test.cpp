// One bad case costs one case: processes that crash, hang or ask for too much are named, and the
// others go on.
#include "isolation.h"
#include "program_batch.h"
#include "verdict.h"

#include "driver/compile.h"
#include "graph/read.h"
#include "support/diagnostic.h"
#include "testing/catch.h"
#include "testing/graph_json.h"

#include <csignal>
#include <unistd.h>

using namespace tsc;
using namespace tsc::differential;

namespace {

struct Outcome {
  std::vector<std::string> lines;
  bool died = false, timed_out = false;
  std::string reason;
};

Workers::Job job(Outcome &outcome,
                 std::function<void(const std::function<void(std::string_view)> &)> body) {
  return {std::move(body),
          [&](std::string_view line) { outcome.lines.emplace_back(line); },
          [&](const Death *death) {
            outcome.died = death != nullptr;
            if (death) {
              outcome.timed_out = death->timed_out;
              outcome.reason = death->reason;
            }
          },
          {}};
}

/// x * factor, of three elements.
driver::Compilation multiplication(const std::string &factor) {
  const std::string text = R"({"format": "tsc-graph", "version": 1, "nodes": [
      {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": [3]}},
      {"name": "mul", "op": "call_function", "target": "aten.mul.Tensor",
       "args": [{"node": "x"}, )" +
                           factor + R"(]},
      {"name": "output", "op": "output", "args": [[{"node": "mul"}]]}],
      "signature": {"inputs": [{"node": "x", "kind": "user"}],
                    "outputs": [{"kind": "user", "value": {"node": "mul"}}]}})";
  return driver::compile(graph::parse_graph(text, "multiplication"), {});
}

} // namespace

TEST_CASE("a process that crashes, hangs or throws costs nothing but its own work") {
  Limits limits;
  limits.seconds = 0.5;
  Workers workers(2, limits);
  Outcome good, crashed, hung, thrown;
  workers.add(job(crashed, [](const auto &send) {
    send("begun");
    raise(SIGKILL); // a handler of the test framework would report others
  }));
  workers.add(job(hung, [](const auto &send) {
    send("begun");
    for (;;)
      pause();
  }));
  workers.add(job(thrown, [](const auto &) { throw std::runtime_error("no such thing"); }));
  workers.add(job(good, [](const auto &send) {
    send("first");
    send("second");
  }));
  workers.run();
  CHECK_FALSE(good.died);
  CHECK(good.lines == std::vector<std::string>{"first", "second"});
  CHECK(crashed.died);
  CHECK(crashed.lines == std::vector<std::string>{"begun"});
  CHECK_FALSE(crashed.timed_out);
  CHECK(hung.timed_out);
  CHECK(thrown.died);
  CHECK(thrown.reason == "exit code 1: no such thing\n");
}

TEST_CASE("of programs compiled together, the one that does not compile is found") {
  std::vector<driver::Compilation> compilations;
  for (const char *factor : {"2.0", "3.0", "4.0", "5.0", "6.0"})
    compilations.push_back(multiplication(factor));
  compilations[3].program.kernels[0].serial.text += "\nnonsense;\n";
  std::vector<const program::Program *> programs;
  for (const driver::Compilation &compilation : compilations)
    programs.push_back(&compilation.program);
  tensor::HostTensor input(tensor::DType::f32, {3});
  for (int64_t i = 0; i < 3; ++i)
    input.set_double(i, static_cast<double>(i + 1));
  std::vector<double> third(programs.size(), 0);
  std::vector<size_t> failed;
  runtime::SessionOptions options;
  options.use_cache = false;
  make_batches(
      programs, options,
      [&](const ProgramBatch &batch, const std::vector<size_t> &positions) {
        for (size_t i = 0; i < positions.size(); ++i)
          third[positions[i]] = batch.session(i, {})->run({input})[0].get_double(2);
      },
      [&](size_t position) {
        failed.push_back(position);
        Verdict verdict;
        describe_exception(verdict);
        CHECK(verdict.status == Status::compiler_error);
        CHECK(verdict.code == "TSC-R011");
      });
  CHECK(failed == std::vector<size_t>{3});
  CHECK(third == std::vector<double>{6, 9, 12, 0, 18});
}

TEST_CASE("kernels of one name and different texts may meet in a batch") {
  std::vector<driver::Compilation> compilations;
  compilations.push_back(multiplication("2.0"));
  compilations.push_back(multiplication("3.0"));
  program::Kernel &second = compilations[1].program.kernels[0];
  for (program::KernelVariant *variant : {&second.cuda, &second.serial})
    for (size_t at; (at = variant->text.find(second.name)) != std::string::npos;)
      variant->text.replace(at, second.name.size(), "same_name");
  second.name = "same_name";
  program::Kernel &first = compilations[0].program.kernels[0];
  for (program::KernelVariant *variant : {&first.cuda, &first.serial})
    for (size_t at; (at = variant->text.find(first.name)) != std::string::npos;)
      variant->text.replace(at, first.name.size(), "same_name");
  first.name = "same_name";
  runtime::SessionOptions options;
  options.use_cache = false;
  const ProgramBatch batch({&compilations[0].program, &compilations[1].program}, options);
  tensor::HostTensor input(tensor::DType::f32, {3});
  for (int64_t i = 0; i < 3; ++i)
    input.set_double(i, 1);
  CHECK(batch.session(0, {})->run({input})[0].get_double(0) == 2);
  CHECK(batch.session(1, {})->run({input})[0].get_double(0) == 3);
}

TEST_CASE("a verdict is one line and reads back") {
  Verdict verdict{"a/case", "host", Status::differ, "output_0", "", "two\nlines \"quoted\""};
  const std::string line = to_json(verdict);
  CHECK(line == R"({"case":"a/case","device":"host","status":"differ","output":"output_0",)"
                R"("code":"","reason":"two\nlines \"quoted\""})");
  CHECK(to_json(verdict_from_json(line)) == line);
}
