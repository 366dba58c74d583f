#include "program/tables.h"
#include "sample_program.h"
#include "support/diagnostic.h"

#include "testing/catch.h"

#include <cmath>

using namespace tsc;
using program::Program;

namespace {

/// What from_json says of `text`.
std::string error_of(const std::string &text) {
  try {
    program::from_json(text, "p.json");
  } catch (const support::UserError &error) {
    return error.what();
  }
  return "no error";
}
std::string replaced(std::string text, const std::string &from, const std::string &to) {
  size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

} // namespace

TEST_CASE("A program survives JSON", "[program]") {
  Program sample = program::sample_program();
  std::string text = program::to_json(sample);
  Program again = program::from_json(text, "p.json");
  CHECK(program::to_json(again) == text);
  REQUIRE(again.steps.size() == 5);
  const auto &matmul = std::get<program::Matmul>(again.steps[2].kind);
  CHECK(matmul.m == symbolic::symbol(symbolic::SymbolSort::size, 0));
  CHECK(matmul.c->row_stride == symbolic::Expr(0));
  CHECK(again.kernels[1].cuda.text == sample.kernels[1].cuda.text);
  CHECK(again.kernels[1].cuda.grid[0] == sample.kernels[1].cuda.grid[0]);
  CHECK(again.buffers[7].alias_of == 6);
  CHECK(again.outputs[1].text == "None");
  CHECK(again.outputs[1].buffer == -1);
}

TEST_CASE("The structure of results survives JSON, and gives outputs their paths", "[program]") {
  Program sample = program::sample_program();
  CHECK(program::output_paths(sample) == std::vector<std::string>(sample.outputs.size()));
  tensor::Structure structure;
  structure.kind = tensor::Structure::Kind::dict;
  for (size_t i = 0; i < sample.outputs.size(); ++i) {
    if (sample.outputs[i].is_mutation)
      continue;
    structure.keys.push_back("key" + std::to_string(i));
    structure.children.emplace_back();
  }
  sample.structure = structure;
  const std::string text = program::to_json(sample);
  const Program again = program::from_json(text, "p.json");
  CHECK(program::to_json(again) == text);
  CHECK(again.structure == structure);
  const std::vector<std::string> paths = program::output_paths(again);
  const program::OwnedTables tables = program::build_tables(again);
  for (size_t i = 0; i < paths.size(); ++i) {
    CHECK(paths[i] == (sample.outputs[i].is_mutation ? "" : "key" + std::to_string(i)));
    CHECK(tables.tables.outputs[i].path == paths[i]);
  }
  sample.structure->children.emplace_back();
  sample.structure->keys.push_back("more");
  CHECK(error_of(program::to_json(sample)).rfind("error TSC-P009: the structure has ", 0) == 0);
  CHECK(error_of(replaced(text, "\"structure\": {", "\"structure\": {\"x\": 1,"))
            .rfind("error TSC-P003: ", 0) == 0);
}

TEST_CASE("Tensor maps survive JSON", "[program]") {
  Program sample = program::sample_program();
  sample.kernels[1].cuda.maps = {
      {0,
       symbolic::Expr(4),
       {symbolic::Expr(4), symbolic::symbol(symbolic::SymbolSort::size, 0)},
       {symbolic::Expr(1), symbolic::Expr(4)},
       {32, 16}}};
  const std::string text = program::to_json(sample);
  const Program again = program::from_json(text, "p.json");
  CHECK(program::to_json(again) == text);
  REQUIRE(again.kernels[1].cuda.maps.size() == 1);
  const program::TensorMap &map = again.kernels[1].cuda.maps[0];
  CHECK(map.offset == symbolic::Expr(4));
  CHECK(map.sizes[1] == symbolic::symbol(symbolic::SymbolSort::size, 0));
  CHECK(map.box == std::vector<int>{32, 16});
}

TEST_CASE("Linear algebra survives JSON", "[program]") {
  Program sample = program::sample_program();
  program::Solver solver;
  solver.routine = tsc_engine::Routine::svd;
  solver.flags = tsc_engine::kVectors;
  solver.m = symbolic::symbol(symbolic::SymbolSort::size, 0);
  solver.n = 3;
  solver.a = {4, symbolic::Expr(0)};
  solver.out = {5, symbolic::Expr(2)};
  solver.second = program::Operand{5, symbolic::Expr(0)};
  sample.steps.push_back({solver, "svd"});
  const std::string text = program::to_json(sample);
  const Program again = program::from_json(text, "p.json");
  CHECK(program::to_json(again) == text);
  const auto &read = std::get<program::Solver>(again.steps.back().kind);
  CHECK(read.routine == tsc_engine::Routine::svd);
  CHECK(read.flags == tsc_engine::kVectors);
  CHECK(read.out.offset == symbolic::Expr(2));
  CHECK((read.second && !read.b && !read.info));
}

TEST_CASE("What is complex survives JSON, and is seen without the dimension of parts",
          "[program]") {
  Program sample = program::sample_program();
  sample.buffers.push_back(
      program::make_buffer("z", program::Role::input, {3, 2}, tensor::DType::f64));
  sample.buffers.back().is_complex = true;
  sample.inputs.push_back({"z", 8});
  const std::string text = program::to_json(sample);
  const Program again = program::from_json(text, "p.json");
  CHECK(program::to_json(again) == text);
  REQUIRE(again.buffers[8].is_complex);
  const program::Buffer seen = program::seen(again.buffers[8]);
  CHECK(seen.dtype == tensor::DType::c128);
  CHECK(seen.layout.sizes == std::vector<symbolic::Expr>{3});
  CHECK(seen.layout.strides == std::vector<symbolic::Expr>{1});
  CHECK(program::seen(again.buffers[0]).dtype == again.buffers[0].dtype);
}

TEST_CASE("Zeros and collectives survive JSON", "[program]") {
  Program sample = program::sample_program();
  const symbolic::Expr s0 = symbolic::symbol(symbolic::SymbolSort::size, 0);
  program::Collective collective;
  collective.kind = program::Collective::Kind::reduce_scatter;
  collective.reduction = program::Collective::Reduction::maximum;
  collective.dtype = program::DType::bf16;
  collective.ranks = 4;
  collective.group = "0";
  collective.from = {5, symbolic::Expr(0)};
  collective.to = {7, symbolic::Expr(3)};
  collective.count = s0;
  sample.steps.push_back({collective, "reduce"});
  sample.steps.push_back({program::Fill{{5, symbolic::Expr(1)}, 4 * s0}, "zeros"});
  const std::string text = program::to_json(sample);
  const Program again = program::from_json(text, "p.json");
  CHECK(program::to_json(again) == text);
  CHECK(program::group_sizes(again) == std::map<std::string, int64_t>{{"0", 4}});
  const auto &read = std::get<program::Collective>(again.steps[5].kind);
  CHECK(read.kind == program::Collective::Kind::reduce_scatter);
  CHECK(read.reduction == program::Collective::Reduction::maximum);
  CHECK(read.group == "0");
  CHECK(read.count == s0);
  CHECK(std::get<program::Fill>(again.steps[6].kind).bytes == 4 * s0);
  CHECK(program::reads(again, again.steps[5]) == std::vector<uint32_t>{5});
  CHECK(program::writes(again, again.steps[5]) == std::vector<uint32_t>{7});
  CHECK(program::reads(again, again.steps[6]).empty());
  CHECK(program::writes(again, again.steps[6]) == std::vector<uint32_t>{5});
}

TEST_CASE("Infinite factors and foreign bytes survive JSON", "[program]") {
  Program sample = program::sample_program();
  std::get<program::Matmul>(sample.steps[2].kind).alpha = -INFINITY;
  sample.kernels[0].serial.text += "// \xff\n";
  std::string text = program::to_json(sample);
  Program again = program::from_json(text, "p.json");
  CHECK(std::get<program::Matmul>(again.steps[2].kind).alpha == -INFINITY);
  CHECK(program::to_json(again) == text);
}

TEST_CASE("A program that is cut is refused", "[program]") {
  std::string text = program::to_json(program::sample_program());
  for (size_t length = 0; length + 3 < text.size(); length += 97)
    CHECK(error_of(text.substr(0, length)).find("TSC-P002: this is not JSON") != std::string::npos);
}

TEST_CASE("JSON that no reader should take is refused", "[program]") {
  std::string text = program::to_json(program::sample_program());
  const std::string next =
      "  at p.json\n  next: compile the graph again; the file was cut or edited";
  CHECK(error_of(replaced(text, "\"version\": 1", "\"version\": 1e999")) ==
        "error TSC-P002: a number of the JSON is beyond the range of a double\n" + next);
  CHECK(error_of(replaced(text, "\"version\": 1", "\"version\": 1, \"version\": 1")) ==
        "error TSC-P002: the key \"version\" stands twice in one object\n" + next);
  CHECK(error_of(std::string(100, '[') + std::string(100, ']')) ==
        "error TSC-P002: the JSON is nested more than 32 levels deep\n" + next);
}

TEST_CASE("Errors of program.json name the place", "[program]") {
  std::string text = program::to_json(program::sample_program());
  CHECK(error_of(replaced(text, "\"version\": 1", "\"version\": 7")) ==
        "error TSC-P001: the program has version 7, this tsc reads 1\n"
        "  at p.json: /version\n"
        "  next: compile the graph again with this version of tsc");
  CHECK(error_of("{\"format\": 3}") == "error TSC-P003: expected a string, found number\n"
                                       "  at p.json: /format\n"
                                       "  next: compile the graph again with this version of tsc");
  CHECK(error_of("[]").find("TSC-P003: expected an object, found array") != std::string::npos);
  CHECK(error_of(replaced(text, "\"kernel\": 1", "\"kernel\": 9"))
            .find("TSC-P006: kernel 9 does not exist: there are 4\n  at p.json: /steps/1") !=
        std::string::npos);
  CHECK(error_of(replaced(text, "\"kernel\": 1", "\"kernel\": -1"))
            .find("TSC-P006: the value -1 is outside [0, 2147483647]\n  at p.json: "
                  "/steps/1/kernel") != std::string::npos);
  CHECK(error_of(replaced(text, "\"m\": \"s0\"", "\"m\": \"s0 +\""))
            .find("TSC-P004: \"s0 +\" is no size expression") != std::string::npos);
  // Sizes and numbers of the data alone: nothing that a kernel has a meaning for.
  for (const char *name : {"z0", "k", "tmp0", "s00", "number_of_check"})
    CHECK(error_of(replaced(text, "\"name\": \"s0\"", "\"name\": \"" + std::string(name) + "\""))
              .find("TSC-P004: \"" + std::string(name) +
                    "\" is no symbol\n  at p.json: /symbols/0/name") != std::string::npos);
  CHECK(error_of(replaced(text, "\"name\": \"s0\"", "\"name\": \"s0\", \"called\": \"a\\nb\""))
            .find("is no symbol\n  at p.json: /symbols/0/called") != std::string::npos);
  CHECK(error_of(replaced(text, "\"m\": \"s0\"", "\"m\": \"s9\""))
            .find("TSC-P008: the symbol \"s9\" is not declared\n  at p.json: /steps/2") !=
        std::string::npos);
  CHECK(error_of(replaced(text, "\"m\": \"s0\"", "\"m\": -3"))
            .find("TSC-P007: size -3 is negative\n  at p.json: /steps/2") != std::string::npos);
  CHECK(error_of(replaced(text, "\"dtype\": \"f32\"", "\"dtype\": \"f33\""))
            .find("TSC-P005: unknown element type \"f33\"") != std::string::npos);
  CHECK(error_of(replaced(text, "\"role\": \"weight\"", "\"role\": \"wait\""))
            .find("TSC-P005: unknown word \"wait\"\n  at p.json: /buffers/1/role") !=
        std::string::npos);
}
