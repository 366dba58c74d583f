#include "program/tables.h"
#include "sample_program.h"
#include "support/diagnostic.h"

#include "testing/catch.h"

#include <cstring>

using namespace tsc;
using symbolic::Expr;

TEST_CASE("Tables hold what the program says", "[program]") {
  program::OwnedTables owned = program::build_tables(program::sample_program());
  const tsc_engine::Tables &tables = owned.tables;
  CHECK(std::strcmp(tables.name, "sample") == 0);
  REQUIRE(tables.symbols.count == 1);
  CHECK(tables.symbols[0].input == 0);
  CHECK(tables.symbols[0].dimension == 0);
  CHECK(tables.weights.count == 3);
  CHECK(std::strcmp(tables.weights[2].name, "layer.count") == 0);
  CHECK(tables.weights[2].mutated);
  CHECK(std::strcmp(tables.kernels[1].parameters, "pws") == 0);
  CHECK(tables.steps[0].once);
  CHECK(tables.matmuls[0].has_c);
  CHECK(tables.buffers[1].bytes.value == 48);
}

TEST_CASE("Expression code gives what the expression gives", "[program]") {
  Expr s0 = symbolic::symbol(symbolic::SymbolSort::size, 0),
       s1 = symbolic::symbol(symbolic::SymbolSort::size, 1);
  std::vector<Expr> cases = {s0 * s0 * s0 * 5 + s1 * -3 + 7,
                             symbolic::floor_div(s0 * s1 - 11, Expr(4)),
                             symbolic::modular_index(s0 * 7 + s1, Expr(3), Expr(5)),
                             symbolic::mod(s0 - 9, Expr(4)),
                             symbolic::minimum(s0, symbolic::maximum(s1, s0 - s1)),
                             symbolic::ceil_div(s0 * 4, Expr(32)) * symbolic::ceil_div(s1, s0)};
  program::Program sample;
  sample.symbols = {{s0, 1, 100}, {s1, 1, 100}};
  sample.buffers = {program::make_buffer("x", program::Role::input, {s0, s1})};
  sample.inputs = {{"x", 0, false}};
  for (Expr e : cases) {
    program::OutputInfo output{"o", 0, {}, program::DType::f32, false, ""};
    output.layout.offset = e;
    sample.outputs.push_back(output);
  }
  program::OwnedTables owned = program::build_tables(sample);
  for (int64_t a = 1; a < 14; ++a)
    for (int64_t b = 1; b < 14; ++b)
      for (size_t i = 0; i < cases.size(); ++i) {
        int64_t symbols[] = {a, b};
        int64_t expected = symbolic::evaluate(cases[i], {{s0, a}, {s1, b}});
        CHECK(tsc_engine::evaluate(owned.tables, owned.tables.outputs[i].view.offset, symbols) ==
              expected);
      }
}

TEST_CASE("An expression whose code would explode is refused", "[program]") {
  program::Program sample = program::sample_program();
  Expr e = symbolic::symbol(symbolic::SymbolSort::size, 0);
  for (int i = 0; i < 4; ++i) { // 60^4 multiplications, were they written out
    Expr part = symbolic::floor_div(e, Expr(2));
    e = 1;
    for (int j = 0; j < 60; ++j)
      e *= part;
  }
  sample.outputs[0].layout.offset = e;
  CHECK_THROWS_WITH(
      program::build_tables(sample),
      Catch::Matchers::StartsWith("error TSC-P010: the size expression ") &&
          Catch::Matchers::EndsWith(" is too large to evaluate when shapes are bound\n"
                                    "  next: make the symbol's dimension static"));
}

TEST_CASE("Steps elsewhere are refused", "[program]") {
  program::Program sample = program::sample_program();
  sample.steps[1].device = 1;
  CHECK_THROWS_WITH(program::build_tables(sample),
                    "error TSC-P011: step \"add_one\" runs on device 1\n"
                    "  next: a run has one device: give each rank a run");
}

TEST_CASE("Expressions beyond the engine are refused", "[program]") {
  program::Program sample = program::sample_program();
  symbolic::Expr power = symbolic::symbol(symbolic::SymbolSort::size, 0);
  for (int i = 0; i < 6; ++i)
    power = power * power;
  std::get<program::Copy>(sample.steps.emplace_back(program::Step{program::Copy{}, "copy"}).kind)
      .bytes = power;
  CHECK_THROWS_WITH(
      program::build_tables(sample),
      "error TSC-P010: the size expression s0**64 is too large to evaluate when shapes are bound\n"
      "  next: make the symbol's dimension static");
}
