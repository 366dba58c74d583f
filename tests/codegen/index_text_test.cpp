// Random index expressions as the text that kernels hold, compiled against the prelude's host half
// and evaluated. TSC_RANDOM_EXPRESSIONS in the environment: how many.
#include "../symbolic/random_expressions.h"

#include "runtime/host_compiler.h"
#include "runtime/process.h"
#include "testing/catch.h"

#include <cstdlib>
#include <dlfcn.h>
#include <fstream>

using namespace tsc::testing;

namespace {

constexpr int64_t kBatch = 5000; // expressions a translation unit
constexpr int kPoints = 4;       // an expression
constexpr size_t kVariables = 9; // of a Space, in variables_of's order

struct Printed {
  std::string text; // a function
  Expr e;
  std::vector<int64_t> points, expected;
};

std::vector<Expr> variables_of(const Space &space) {
  std::vector<Expr> variables;
  for (const Space::Loop &loop : space.loops)
    variables.push_back(loop.variable);
  variables.insert(variables.end(), {space.s0, space.s1, space.signed_variable});
  return variables;
}

/// True if every part of `e` fits into 32 bits: kernels then count in int.
bool is_narrow(Expr e, const Ranges &ranges) {
  const Interval interval = bounds(e, ranges);
  if (interval.low < -(int64_t{1} << 30) || interval.high > int64_t{1} << 30)
    return false;
  if (e.is_integer() || e.is_symbol())
    return true;
  // A sum's terms are added from left to right: all of them at their ends must fit.
  int64_t most = 0;
  for (const Expr operand : e.operands()) {
    if (!is_narrow(operand, ranges))
      return false;
    const Interval part = bounds(operand, ranges);
    most += std::max(std::abs(part.low), std::abs(part.high));
  }
  return e.kind() != Kind::mul && e.kind() != Kind::add ? true : most < int64_t{1} << 30;
}

Printed print_one(Random &random, int64_t number) {
  Space space(random);
  const Sample asked = sample(random, space, number);
  Printed printed;
  printed.e = simplify(asked.e, space.ranges);
  const std::string index = is_narrow(printed.e, space.ranges) ? "int " : "long long ";
  std::string parameters;
  for (const Expr variable : variables_of(space)) {
    const bool size = variable == space.s0 || variable == space.s1;
    parameters +=
        (parameters.empty() ? "" : ", ") + (size ? "long long " : index) + variable.spelling();
  }
  printed.text = "static long long f" + std::to_string(number % kBatch) + "(" + parameters +
                 ") { return " + print_cpp(printed.e, space.ranges) + "; }\n";
  for (int point = 0; point < kPoints; ++point) {
    const Bindings bindings = space.point(random);
    for (const Expr variable : variables_of(space))
      printed.points.push_back(bindings.at(variable));
    printed.expected.push_back(value_of(asked, bindings));
  }
  return printed;
}

std::string unit_text(const std::vector<Printed> &batch) {
  std::string text = "#include \"tc_host.h\"\n#include \"tc_numeric.h\"\n";
  for (const Printed &printed : batch)
    text += printed.text;
  text += "extern \"C\" void evaluate(const long long *p, long long *out) {\n";
  std::string arguments;
  for (size_t i = 0; i < kVariables; ++i)
    arguments += (i > 0 ? ", p[" : "p[") + std::to_string(i) + "]";
  for (size_t i = 0; i < batch.size(); ++i)
    text += "  for (int k = 0; k < " + std::to_string(kPoints) +
            "; ++k, p += " + std::to_string(kVariables) + ")\n    *out++ = f" + std::to_string(i) +
            "(" + arguments + ");\n";
  return text + "}\n";
}

std::vector<long long> evaluate_compiled(const std::vector<Printed> &batch) {
  const tsc::runtime::TemporaryFolder folder;
  const std::string source = folder.path() + "/unit.cpp", library = folder.path() + "/unit.so";
  std::ofstream(source) << unit_text(batch);
  std::vector<std::string> command = tsc::runtime::find_host_compiler().command;
  for (const char *argument : {"-std=c++20", "-O0", "-w", "-fPIC", "-shared", "-I", TSC_PRELUDE})
    command.emplace_back(argument);
  command.insert(command.end(), {source, "-o", library});
  const tsc::runtime::ProcessResult compiled = tsc::runtime::run_process(command);
  INFO(compiled.output);
  REQUIRE(compiled.exit_code == 0);
  void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(handle != nullptr);
  const auto evaluate =
      reinterpret_cast<void (*)(const long long *, long long *)>(dlsym(handle, "evaluate"));
  REQUIRE(evaluate != nullptr);
  std::vector<long long> points, out(batch.size() * kPoints);
  for (const Printed &printed : batch)
    points.insert(points.end(), printed.points.begin(), printed.points.end());
  evaluate(points.data(), out.data());
  dlclose(handle);
  return out;
}

} // namespace

TEST_CASE("index expressions have their values as compiled C++ text") {
  const char *wanted = std::getenv("TSC_RANDOM_EXPRESSIONS");
  const int64_t count = wanted ? std::atoll(wanted) : 2000;
  Random random(20260721);
  int64_t wrong = 0, narrow = 0;
  std::string example;
  for (int64_t first = 0; first < count; first += kBatch) {
    std::vector<Printed> batch;
    for (int64_t i = first; i < std::min(count, first + kBatch); ++i)
      batch.push_back(print_one(random, i));
    const std::vector<long long> values = evaluate_compiled(batch);
    for (size_t i = 0; i < batch.size(); ++i) {
      narrow += batch[i].text.find("(int ") != std::string::npos ? 1 : 0;
      for (size_t k = 0; k < kPoints; ++k)
        if (values[i * kPoints + k] != batch[i].expected[k] && ++wrong == 1)
          example = print(batch[i].e) + " as " + batch[i].text + " is " +
                    std::to_string(values[i * kPoints + k]) + ", expected " +
                    std::to_string(batch[i].expected[k]);
    }
  }
  INFO(example);
  CHECK(wrong == 0);
  CHECK(narrow > count / 4);
  CHECK(narrow < count);
}
