// Plans that a tuner may choose: each computes what the planner's computes, the fastest are found,
// and a lock hands them on.
#include "codegen/generate.h"
#include "driver/lock.h"
#include "driver/tune.h"
#include "made_graph.h"
#include "support/diagnostic.h"
#include "testing/catch.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

using namespace tsc;
using nlohmann::json;
using testing::MadeGraph;

namespace {

const target::Target &target_of(const driver::Compilation &compilation) {
  return target::find_target(compilation.program.archs.at(0));
}

json one(const std::string &target, const json &arguments) {
  return json::array({{"y", target, arguments}});
}

/// A graph for each kind of plan, of sizes that nothing divides.
std::vector<MadeGraph> graphs() {
  return {
      {"elements", {{"x", "float32", {513, 1031}}}, one("aten.sigmoid.default", {"$x"}), {"y"}},
      {"elements, 16 bits",
       {{"x", "bfloat16", {64, 1032}}},
       one("aten.gelu.default", {"$x"}),
       {"y"}},
      {"rows",
       {{"x", "float16", {300, 1000}}},
       one("aten._softmax.default", {"$x", 1, false}),
       {"y"}},
      {"rows that no registers hold",
       {{"x", "float32", {140, 50001}},
        {"b", "float32", {140, 50001}},
        {"c", "float32", {50001}},
        {"d", "float32", {50001}},
        {"e", "float32", {50001}}},
       {{"f", "aten.add.Tensor", {"$x", "$b"}},
        {"g", "aten.add.Tensor", {"$f", "$c"}},
        {"h", "aten.add.Tensor", {"$g", "$d"}},
        {"i", "aten.add.Tensor", {"$h", "$e"}},
        {"y", "aten._softmax.default", {"$i", 1, false}}},
       {"y"}},
      {"rows that are scanned",
       {{"x", "float32", {130, 700}}},
       one("aten.cumsum.default", {"$x", 1}),
       {"y"}},
      {"columns", {{"x", "float32", {517, 4100}}}, one("aten.var.correction", {"$x", {0}}), {"y"}},
      {"columns, short and many",
       {{"x", "float32", {41, 34003}}},
       one("aten.amax.default", {"$x", {0}}),
       {"y"}},
      {"windows",
       {{"x", "float16", {8, 64, 57, 61}}},
       one("aten.max_pool2d.default", {"$x", {3, 3}, {2, 2}, {1, 1}}),
       {"y"}},
      {"windows of a convolution in a product",
       {{"x", "float16", {2, 16, 30, 31}}, {"w", "float16", {24, 16, 3, 3}, -0.2, 0.2}},
       {{"c", "aten.conv2d.default", {"$x", "$w", nullptr, {1, 1}, {1, 1}}},
        {"y", "aten.relu.default", {"$c"}}},
       {"y"}},
      {"windows of a convolution in a product of floats",
       {{"x", "float32", {8, 16, 48, 47}}, {"w", "float32", {64, 16, 3, 3}, -0.2, 0.2}},
       {{"c", "aten.conv2d.default", {"$x", "$w", nullptr, {1, 1}, {1, 1}}},
        {"y", "aten.relu.default", {"$c"}}},
       {"y"}},
  };
}

program::Program generate(const driver::Compilation &compilation, codegen::Tuning &tuning) {
  return codegen::generate(compilation.module, compilation.schedule,
                           {&target_of(compilation), &tuning});
}

/// Every alternative of every kernel, all kernels of a graph at once.
void check_alternatives(const runtime::SessionOptions &way) {
  size_t plans = 0;
  for (const MadeGraph &graph : graphs()) {
    driver::Compilation compilation = testing::compile_made(graph, false);
    codegen::Tuning planned;
    const program::Program program = generate(compilation, planned);
    const testing::MadeRun run = testing::make_run(graph, compilation, 0);
    INFO(graph.name);
    REQUIRE(!planned.kernels.empty());
    size_t most = 0;
    for (const codegen::TunableKernel &kernel : planned.kernels) {
      CHECK(!kernel.is_chosen);
      CHECK(kernel.alternatives.size() <= 7);
      most = std::max(most, kernel.alternatives.size());
    }
    bool changes = false;
    for (size_t i = 0; i < most; ++i) {
      codegen::Tuning tuning;
      for (const codegen::TunableKernel &kernel : planned.kernels)
        if (i < kernel.alternatives.size())
          tuning.chosen[kernel.key] = kernel.alternatives[i];
      compilation.program = generate(compilation, tuning);
      REQUIRE(tuning.kernels.size() == planned.kernels.size());
      for (const codegen::TunableKernel &kernel : tuning.kernels) {
        INFO(i);
        CHECK(kernel.is_chosen == (i < kernel.alternatives.size()));
        changes = changes || compilation.program.kernels[kernel.kernel].cuda.text !=
                                 program.kernels[kernel.kernel].cuda.text;
      }
      std::string chosen; // of a difference: which plans were run
      for (const codegen::TunableKernel &kernel : tuning.kernels)
        chosen += compilation.program.kernels[kernel.kernel].name + ": " +
                  compilation.program.kernels[kernel.kernel].plan + "\n";
      INFO("alternative " << i << " of\n" << chosen);
      testing::check_run(graph, run, compilation, {way});
      ++plans;
    }
    CHECK(changes);
  }
  CHECK(plans >= 30);
}

/// Nanoseconds of each step as a rule says: no clock.
std::function<std::vector<double>(const program::Program &)>
timer(std::function<double(const program::Kernel &)> rule) {
  return [rule = std::move(rule)](const program::Program &program) {
    std::vector<double> times;
    for (const program::Step &step : program.steps) {
      const auto *launch = std::get_if<program::Launch>(&step.kind);
      times.push_back(launch ? rule(program.kernels[launch->kernel]) : 5);
    }
    return times;
  };
}

MadeGraph two_kernels() {
  return {"two kernels",
          {{"x", "float32", {517, 4100}}},
          {{"c", "aten.sum.dim_IntList", {"$x", {0}}}, {"e", "aten.exp.default", {"$x"}}},
          {"c", "e"}};
}

void check_refused(const std::string &text, const std::string &place) {
  try {
    driver::parse_lock(text, "a.lock");
    FAIL("taken: " << text);
  } catch (const support::UserError &error) {
    const support::Diagnostic &first = error.diagnostics().front();
    CHECK(first.code == "TSC-C020");
    CHECK(first.file == "a.lock");
    CHECK(first.place == place);
  }
}

} // namespace

TEST_CASE("every plan that could be chosen computes the same") {
  runtime::SessionOptions way;
  way.plan = runtime::Plan::cuda;
  check_alternatives(way);
}

TEST_CASE("every plan that could be chosen computes the same on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_alternatives(ways.front());
}

TEST_CASE("what is faster twice is chosen, and a lock hands it on") {
  const driver::Compilation compilation = testing::compile_made(two_kernels(), false);
  driver::TuneOptions options;
  size_t shown = 0;
  options.progress = [&](size_t, size_t) { ++shown; };
  options.time_steps = timer(
      [](const program::Kernel &kernel) { return kernel.cuda.block[0] == 512 ? 700.0 : 1000.0; });
  driver::Lock lock = driver::tune(compilation, target_of(compilation), options);
  CHECK(shown > 4);
  REQUIRE(lock.kernels.size() == 2);
  for (const driver::LockedKernel &kernel : lock.kernels) {
    INFO(kernel.kernel << ": " << kernel.plan);
    CHECK(kernel.planned_nanoseconds >= kernel.expected_nanoseconds);
    CHECK(kernel.expected_nanoseconds == 700);
  }
  // Two words say it twice: written, read, written.
  lock.device = "a \"device\"";
  lock.arch = "sm_90";
  const std::string text = to_text(lock);
  CHECK(to_text(driver::parse_lock(text, "a.lock")) == text);

  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / "tsc_tuning_test.lock";
  std::ofstream(file) << text;
  driver::CompileOptions compile_options;
  compile_options.locks = {file.string()};
  const driver::Compilation locked =
      driver::compile(graph::Graph(compilation.graph), compile_options);
  CHECK(locked.unlocked.empty());
  for (const program::Kernel &kernel : locked.program.kernels)
    CHECK(kernel.cuda.block[0] == 512);
  CHECK(
      program::to_json(driver::compile(graph::Graph(compilation.graph), compile_options).program) ==
      program::to_json(locked.program));
  // Planned for something else, a kernel is another: named, and planned as without a lock.
  compile_options.arch = "sm_80";
  const driver::Compilation other =
      driver::compile(graph::Graph(compilation.graph), compile_options);
  CHECK(other.unlocked.size() == other.program.kernels.size());
  compile_options.locks.clear();
  CHECK(
      program::to_json(driver::compile(graph::Graph(compilation.graph), compile_options).program) ==
      program::to_json(other.program));
  // As is a choice that is none of the kernel's.
  for (driver::LockedKernel &kernel : lock.kernels)
    kernel.choice = {.block = 96};
  std::ofstream(file) << to_text(lock);
  compile_options.arch = "sm_90";
  compile_options.locks = {file.string()};
  CHECK(driver::compile(graph::Graph(compilation.graph), compile_options).unlocked.size() == 2);
  std::filesystem::remove(file);
}

TEST_CASE("what is faster once, or hardly, or not timed, stays as planned") {
  const driver::Compilation compilation = testing::compile_made(two_kernels(), false);
  const auto changed = [&](const driver::TuneOptions &options) {
    const driver::Lock lock = driver::tune(compilation, target_of(compilation), options);
    return std::count_if(lock.kernels.begin(), lock.kernels.end(),
                         [](const auto &kernel) { return !kernel.choice.is_planned(); });
  };
  driver::TuneOptions options;
  std::set<std::string> seen;
  options.time_steps = timer([&](const program::Kernel &kernel) {
    return seen.insert(kernel.cuda.text).second && seen.size() > 2 ? 100.0 : 1000.0;
  });
  CHECK(changed(options) == 0);
  const auto planned = [&](const program::Kernel &kernel) {
    const auto &kernels = compilation.program.kernels;
    return std::any_of(kernels.begin(), kernels.end(), [&](const program::Kernel &other) {
      return other.cuda.text == kernel.cuda.text;
    });
  };
  options.time_steps =
      timer([&](const program::Kernel &kernel) { return planned(kernel) ? 1000.0 : 985.0; });
  CHECK(changed(options) == 0);
  options.time_steps =
      timer([&](const program::Kernel &kernel) { return planned(kernel) ? 1000.0 : 975.0; });
  CHECK(changed(options) == 2);
  options.time_steps = timer([](const program::Kernel &) { return 0.0; });
  CHECK(driver::tune(compilation, target_of(compilation), options).kernels.size() == 2);
  CHECK(changed(options) == 0);
}

TEST_CASE("choices are read as they are written") {
  const codegen::PlanChoice choice{.vector = 4, .steps = 2, .tile = 8};
  CHECK(to_text(choice) == "vector=4 steps=2 tile=8");
  CHECK(codegen::parse_choice(to_text(choice)) == choice);
  CHECK(codegen::parse_choice("") == codegen::PlanChoice{});
  for (const char *text :
       {"vector", "vector=", "vector=x", "vector=0", "vector=-1", "speed=2", "vector=2 vector=4",
        " vector=2", "vector=2,steps=1", "vector=4294967297"})
    CHECK(!codegen::parse_choice(text));
}

TEST_CASE("what is no lock is refused, and where") {
  const std::string start = R"({"format": "tsc-lock", "version": 1, "device": "d", "arch": "a", )";
  const auto row = [](const std::string &key, const std::string &rest) {
    return R"({"key": ")" + key + R"(", "kernel": "k", "plan": "p", )" + rest + "}";
  };
  const std::string good = R"("choice": "", "planned_ns": 1, "expected_ns": 1)";
  CHECK(driver::parse_lock(start + R"("kernels": [)" + row("a", good) + "]}", "").kernels.size() ==
        1);
  check_refused("", "");
  check_refused("[]", "");
  check_refused("{}", "/format");
  check_refused(R"({"format": "tsc-program"})", "/format");
  check_refused(R"({"format": "tsc-lock", "version": 2})", "/version");
  check_refused(R"({"format": "tsc-lock", "version": 1, "device": 1})", "/device");
  check_refused(start + R"("kernels": {}})", "/kernels");
  check_refused(start + R"("kernels": [1]})", "/kernels/0");
  check_refused(start + R"("kernels": [)" + row("a", good) + "," + row("a", good) + "]}",
                "/kernels/1/key");
  check_refused(start + R"("kernels": [)" +
                    row("a", R"("choice": "block=x", "planned_ns": 1, "expected_ns": 1)") + "]}",
                "/kernels/0/choice");
  check_refused(start + R"("kernels": [)" +
                    row("a", R"("choice": "", "planned_ns": -1, "expected_ns": 1)") + "]}",
                "/kernels/0/planned_ns");
}
