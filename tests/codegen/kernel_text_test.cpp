#include "testing/catch.h"

#include "codegen/generate.h"
#include "sample_modules.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

using namespace tsc;
using symbolic::Expr;
using tensor::DType;

namespace {

program::Program compile(const test::SampleModule &sample) {
  codegen::CodegenOptions options;
  options.target = &target::find_target("sm_90");
  const scheduler::Schedule schedule = sample.schedule();
  program::Program program = codegen::generate(sample.module, schedule, options);
  // TSC_WRITE_KERNELS=FOLDER leaves the texts where one can look at them.
  if (const char *folder = std::getenv("TSC_WRITE_KERNELS"))
    for (const program::Kernel &kernel : program.kernels) {
      std::ofstream(std::string(folder) + "/" + kernel.name + ".cu") << kernel.cuda.text;
      std::ofstream(std::string(folder) + "/" + kernel.name + "_serial.cpp") << kernel.serial.text;
    }
  return program;
}

std::string plan_of(const test::SampleModule &sample) {
  const program::Program program = compile(sample);
  REQUIRE(program.kernels.size() == 1);
  return program.kernels[0].plan;
}

size_t count(const std::string &text, const std::string &part) {
  size_t result = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
    ++result;
  return result;
}

} // namespace

TEST_CASE("short rows share a warp, long ones take a block, the longest are walked again") {
  CHECK(plan_of(test::row_sum(262144, 256, DType::f16)) ==
        "row reduction, 8 threads a row, 32 rows a block, row kept in registers (32 elements a "
        "thread), 16-byte "
        "accesses");
  CHECK(plan_of(test::softmax(32768, 4096, DType::bf16)) ==
        "row reduction, 128 threads a row, 1 row a block, row kept in registers (32 elements a "
        "thread), 16-byte "
        "accesses");
  CHECK(plan_of(test::softmax(128, 100000, DType::f32)) ==
        "row reduction, 512 threads a row, 1 row a block, 2 walks over the row, 16-byte accesses");
}

TEST_CASE("rows that are no whole number of runs are read in the memory's, short ones by element") {
  const program::Program program = compile(test::row_sum(1000, 255, DType::f32));
  CHECK(program.kernels[0].plan.find("16-byte accesses, rows start anywhere") != std::string::npos);
  const std::string &text = program.kernels[0].cuda.text;
  CHECK(text.find("const int before = (255*x0) & 3;") != std::string::npos);
  CHECK(text.find("tc_load_vec_inside<4>(in0 + r0 + 255*x0, 255000 - (r0 + 255*x0))") !=
        std::string::npos);
  const program::Program few = compile(test::row_sum(1000, 61, DType::f32));
  CHECK(few.kernels[0].plan.find("one element an access") != std::string::npos);
}

TEST_CASE("pointwise rows of odd length that share a weight go by the memory's runs") {
  const program::Program program = compile(test::broadcast_relu(333, 1023, DType::bf16));
  CHECK(program.kernels[0].plan.find("pointwise by rows, ") == 0);
  const std::string &text = program.kernels[0].cuda.text;
  CHECK(text.find("const int before = (1023*i0) & 7;") != std::string::npos);
  CHECK(count(text, "tc_store_vec_inside<8>") == 1);
  // Too few rows to fill the GPU with.
  CHECK(plan_of(test::broadcast_relu(33, 1023, DType::bf16)).find("pointwise, ") == 0);
}

TEST_CASE("steps that cannot reach a row's end have neither guards nor selections") {
  const program::Program program = compile(test::softmax(1000, 1013, DType::bf16));
  const std::string &text = program.kernels[0].cuda.text;
  CHECK(text.find("const bool whole = k < ") != std::string::npos);
  CHECK(text.find("(whole && k > 0) || tc_is_inside(r0 + j, 1013)") != std::string::npos);
}

TEST_CASE("a maximum and the exponentials that wait for it are one walk over a long row") {
  const program::Program program = compile(test::softmax(128, 100001, DType::bf16));
  const std::string &text = program.kernels.at(0).cuda.text;
  CHECK(program.kernels[0].plan.find("2 walks over the row") != std::string::npos);
  // The runs inside, and those at the row's ends.
  CHECK(count(text, "tc_online_softmax::take_run(") == 2);
  CHECK(count(text, "tc_vec<tc_bf16, 8> v0[4];") == 2);
  CHECK(text.find("if (lane < 2) {") != std::string::npos);
}

TEST_CASE("a row that is walked again stays in the cache until the last walk") {
  const program::Program again = compile(test::softmax(128, 100000, DType::f32));
  const std::string &text = again.kernels.at(0).cuda.text;
  CHECK(count(text, "tc_keep_vec<4>(in0") == 1);
  CHECK(count(text, "tc_stream_vec<4>(in0") == 1);
  CHECK(text.find("tc_keep_vec") < text.find("tc_stream_vec"));
  CHECK(count(text, "tc_load_vec") == 0);
  const program::Program once = compile(test::softmax(32768, 4096, DType::bf16));
  CHECK(count(once.kernels.at(0).cuda.text, "tc_keep_vec") == 0);
}

TEST_CASE("large inputs of a kernel that writes next to nothing leave the caches first") {
  // 134 MB of 50 MiB of cache; twice as much, or as much again that is written, and nothing is
  // said.
  CHECK(count(compile(test::row_sum(8192, 4096, DType::f32)).kernels.at(0).cuda.text,
              "tc_stream_vec<4>") == 1);
  CHECK(count(compile(test::row_sum(32768, 4096, DType::f32)).kernels.at(0).cuda.text,
              "tc_stream_vec") == 0);
  CHECK(count(compile(test::softmax(8192, 4096, DType::f32)).kernels.at(0).cuda.text,
              "tc_stream_vec") == 0);
}

TEST_CASE("a tangent that 1 is added to, or that 16 bits keep, has a quick form") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const bool adds_one : {true, false}) {
      CAPTURE(dtype, adds_one);
      test::SampleModule sample;
      const test::LoopId x = sample.load(sample.input("x", dtype, {Expr(4096)}));
      const test::LoopId tangent = sample.apply(ir::Op::tanh, {x});
      sample.output(sample.pointwise(
          adds_one ? sample.apply(ir::Op::add, {tangent, sample.constant(1.0, tangent)})
                   : tangent));
      const std::string text = compile(sample).kernels.at(0).cuda.text;
      CHECK(count(text, "tc_tanh_plus_1(") == size_t{adds_one});
      const bool is_narrow = dtype != DType::f32;
      CHECK(count(text, "tc_tanh(") == size_t{!adds_one && !is_narrow});
      CHECK(count(text, "tc_near_tanh(") == size_t{!adds_one && is_narrow});
    }
  }
}

TEST_CASE("softmax is one kernel that reads its input once") {
  const program::Program program = compile(test::softmax(32768, 4096, DType::bf16));
  REQUIRE(program.steps.size() == 1);
  const std::string &text = program.kernels[0].cuda.text;
  CHECK(count(text, "tc_load_vec") == 1);
  CHECK(count(text, "tc_store_vec") == 1);
  CHECK(count(text, "tc_quick_exp(") == 1); // its results have 16 bits
  CHECK(count(text, "tc_quick_divide(") == 1);
  const std::string exact = compile(test::softmax(32768, 4096, DType::f32)).kernels[0].cuda.text;
  CHECK(count(exact, "tc_exp(") == 1);
  CHECK(count(exact, "tc_divide(") == 1);
  CHECK(program.kernels[0].bytes_read == symbolic::Expr(int64_t{32768} * 4096 * 2));
  CHECK(program.kernels[0].bytes_written == symbolic::Expr(int64_t{32768} * 4096 * 2));
  CHECK(program.kernels[0].cuda.grid[0] == symbolic::Expr(32768));
  CHECK(program.kernels[0].cuda.block[0] == 128);
}

TEST_CASE("short columns that are walked again are a thread's, though no element is stored") {
  test::SampleModule sample;
  const ir::BufferId x = sample.input("x", DType::f32, {6, 65536});
  const ir::BufferId most = sample.reduce_first(ir::ReductionKind::max, sample.load(x), DType::f32);
  const ir::LoopId spread = sample.load_at(most, {6, 65536}, {ir::variable(1)});
  const ir::LoopId distance = sample.apply(ir::Op::sub, {sample.load(x), spread});
  sample.output(sample.reduce_first(ir::ReductionKind::sum, distance, DType::f32));
  CHECK(plan_of(sample) == "short columns, a thread a column, which it holds");
}

TEST_CASE("rows whose outer loop is innermost in memory are taken in memory's order") {
  test::SampleModule sample;
  const ir::BufferId x = sample.input("x", DType::f32, {4096, 100, 64});
  const ir::LoopId turned =
      sample.load_at(x, {64, 4096, 100}, {ir::variable(1), ir::variable(2), ir::variable(0)});
  sample.output(sample.reduce(ir::ReductionKind::max, turned, DType::f32));
  CHECK(plan_of(sample).find("column reduction") == 0);
}

TEST_CASE("neighbouring columns of narrow elements are one access") {
  CHECK(plan_of(test::column_sum(4096, 8192, DType::bf16)) ==
        "column reduction, 128 threads a column, 64 columns a block, 1 walk over the column, "
        "16-byte accesses");
}

TEST_CASE("columns are reduced across rows of threads") {
  CHECK(plan_of(test::column_sum(4096, 8192, DType::f32)) ==
        "column reduction, 16 threads a column, 32 columns a block, 1 walk over the column");
  // As few threads as keep enough on its way, so that all blocks are there at once; loads of five
  // elements together, which divide what a thread has.
  const program::Program middle = compile(test::column_sum(1000, 16640, DType::f32));
  CHECK(middle.kernels[0].plan ==
        "column reduction, 8 threads a column, 32 columns a block, 1 walk over the column");
  CHECK(plan_of(test::column_sum(198, 91245, DType::f32)) ==
        "column reduction, 2 threads a column, 64 columns a block, 1 walk over the column");
  CHECK(middle.kernels[0].cuda.text.find("tc_vec<float, 1> v0[5];") != std::string::npos);
}

TEST_CASE("few long rows, and few columns, are reduced in parts by a first kernel") {
  const program::Program rows = compile(test::row_sum(4, 1048576, DType::f32));
  REQUIRE(rows.steps.size() == 2);
  REQUIRE(rows.kernels.size() == 2);
  CHECK(rows.kernels[0].cuda.grid[0] == symbolic::Expr(1024));
  CHECK(rows.kernels[0].bytes_written == symbolic::Expr(4 * 1024));
  CHECK(rows.kernels[1].bytes_read == symbolic::Expr(4 * 1024));
  CHECK(program::writes(rows, rows.steps[0]) == program::reads(rows, rows.steps[1]));
  const program::Program columns = compile(test::column_sum(32768, 768, DType::f16));
  REQUIRE(columns.kernels.size() == 2);
  CHECK(columns.kernels[0].plan.find("column reduction") == 0);
  CHECK(columns.kernels[1].plan.find("row reduction") == 0);
  CHECK(compile(test::row_sum(4, 1000, DType::f32)).kernels.size() == 1);
  CHECK(compile(test::row_sum(4096, 1048576, DType::f32)).kernels.size() == 1);
  // A row of a prime number of elements has no equal parts: the last one is what is left.
  const program::Program prime = compile(test::row_sum(4, 1048573, DType::f32));
  REQUIRE(prime.kernels.size() == 2);
  CHECK(prime.kernels[0].cuda.text.find("+ 1048573)") != std::string::npos);
}

TEST_CASE("transposed operands go through shared memory") {
  CHECK(plan_of(test::transposed_add(16384, 16384, DType::f32)) ==
        "pointwise, tiles of 32 x 64 elements through shared memory, runs of 4 elements, 4 of "
        "transposed operands, 16-byte accesses");
  CHECK(plan_of(test::transposed_add(1001, 999, DType::f32)) ==
        "pointwise, tiles of 64 x 32 elements through shared memory, runs of 1 elements, 1 of "
        "transposed operands, one element an access");
  const program::Program ragged = compile(test::transposed_add(1000, 96, DType::f16));
  CHECK(ragged.kernels[0].cuda.text.find("if (i1 < 96 && i0 < 1000)") != std::string::npos);
  CHECK(plan_of(test::transposed_add(3, 4096, DType::f32)).find("tiles") == std::string::npos);
}

TEST_CASE("a short loop that is innermost in some accesses only is a thread's") {
  const program::Program program = compile(test::transposed_add(40960, 4, DType::f16));
  CHECK(program.kernels[0].plan == "pointwise, a short loop a thread, 4 x 1 run of 2 elements a "
                                   "thread, 16-byte accesses");
  const std::string &text = program.kernels[0].cuda.text;
  CHECK(count(text, "tc_load_vec<8>(") == 1); // all four of two rows
  CHECK(count(text, "tc_load_vec<2>(") == 4); // two of each column
  CHECK(count(text, "tc_store_vec<8>(") == 1);
  CHECK(text.find("s0[j * 4 + 3] = ") != std::string::npos);
  // Runs of 48 bytes: lanes exchange parts of 16.
  const program::Program exchanged = compile(test::transposed_add(40968, 3, DType::f16));
  const std::string &lanes = exchanged.kernels[0].cuda.text;
  CHECK(lanes.find("tc_bytes16 across[8][96];") != std::string::npos);
  CHECK(lanes.find("tc_store_across<24>(out0 + 3*i0, s0, shared.across[threadIdx.x / 32], "
                   "(40968 - i0) / 8);") != std::string::npos);
}

TEST_CASE("broadcast operands are read once a run, and small pointwise kernels are guarded") {
  const program::Program program = compile(test::broadcast_relu(333, 1024, DType::bf16));
  const std::string &text = program.kernels[0].cuda.text;
  CHECK(program.kernels[0].plan == "pointwise, 1 run of 8 elements a thread, 16-byte accesses");
  CHECK(text.find("const float t0 = tc_get(in1[i0]);") != std::string::npos);
  CHECK(text.find("if (e < 340992)") != std::string::npos);
}

TEST_CASE("kernels of symbolic sizes have a path of vectors that the launch chooses") {
  const symbolic::Expr s0 = symbolic::symbol(symbolic::SymbolSort::size, 0),
                       s1 = symbolic::symbol(symbolic::SymbolSort::size, 1);
  const std::vector<graph::SymbolRange> symbols = {{s0, 1, 1 << 15}, {s1, 1, 4096}};
  const program::Program rows = compile(with_symbols(test::softmax(s0, s1, DType::bf16), symbols));
  REQUIRE(rows.kernels.size() == 1);
  CHECK(rows.kernels[0].plan ==
        "row reduction, 128 threads a row, 1 row a block, row kept in registers (32 elements a "
        "thread), 16-byte accesses where s1 is a multiple of 8, else one element an access");
  const std::string &text = rows.kernels[0].cuda.text;
  CHECK(text.find("  if (misaligned == 0) {\n") != std::string::npos);
  CHECK(count(text, "tc_load_vec<8>") == 1);
  CHECK(count(text, "tc_store_vec<8>") == 1);
  CHECK(count(text, "  const int s1 = static_cast<int>(s1_64);\n") == 1);
  const auto &launch = std::get<program::Launch>(rows.steps[0].kind);
  CHECK(launch.sizes.back() == symbolic::mod(s1, 8));
  CHECK(rows.kernels[0].cuda.grid[0] == s0);
  // Both paths go over one grid: blocks of elements, not of runs.
  const program::Program flat =
      compile(with_symbols(test::broadcast_relu(s0, s1, DType::f32), symbols));
  CHECK(flat.kernels[0].plan ==
        "pointwise, 1 run of 4 elements a thread, 16-byte accesses where s1 is a multiple of 4, "
        "else one element an access");
  CHECK(flat.kernels[0].cuda.grid[0] == symbolic::ceil_div(s0 * s1, 1024));
  const program::Program tiles =
      compile(with_symbols(test::transposed_add(s0, s1, DType::f32), symbols));
  CHECK(
      tiles.kernels[0].plan ==
      "pointwise, tiles of 32 x 64 elements through shared memory, runs of 4 elements, 4 of "
      "transposed operands, 16-byte accesses where s1, s0 are multiples of 4, else one element an "
      "access");
  // Sizes that are multiples anyway are not asked about.
  CHECK(plan_of(with_symbols(test::broadcast_relu(s0, 4 * s1, DType::f32), symbols)) ==
        "pointwise, 1 run of 4 elements a thread, 16-byte accesses");
}

TEST_CASE("sizes that hold divisions come ready made") {
  const symbolic::Expr s0 = symbolic::symbol(symbolic::SymbolSort::size, 0),
                       s1 = symbolic::symbol(symbolic::SymbolSort::size, 1),
                       s2 = symbolic::symbol(symbolic::SymbolSort::size, 2);
  const program::Program program = compile(
      with_symbols(test::convolved_relu(s0, s1, s2), {{s0, 1, 64}, {s1, 1, 512}, {s2, 1, 512}}));
  REQUIRE(!program.kernels.empty());
  const program::Kernel &kernel = program.kernels[0];
  const std::string text = kernel.cuda.text.substr(kernel.cuda.text.find("TC_KERNEL"));
  CHECK(text.find("long long ps0_64, long long ps1_64") != std::string::npos);
  CHECK(text.find("/ 2)") == std::string::npos);
  const auto &sizes = std::get<program::Launch>(program.steps[0].kind).sizes;
  std::vector<std::string> names;
  for (const program::KernelParameter &parameter : kernel.parameters)
    if (parameter.kind == program::KernelParameter::Kind::size)
      names.push_back(parameter.name);
  REQUIRE(names.size() == sizes.size());
  CHECK(names[0] == "ps0");
  CHECK(sizes[0] == symbolic::floor_div(s1 - 1, 2) + 1);
}

TEST_CASE("names depend on content alone") {
  const program::Program one = compile(test::softmax(64, 512, DType::f32));
  const program::Program two = compile(test::softmax(64, 512, DType::f32));
  CHECK(one.kernels[0].name == two.kernels[0].name);
  CHECK(program::to_json(one) == program::to_json(two));
  CHECK(compile(test::softmax(64, 1024, DType::f32)).kernels[0].name != one.kernels[0].name);
}

TEST_CASE("the prelude is embedded whole") {
  std::set<std::string> headers, embedded;
  for (const char *folder : {"/lib/codegen/prelude", "/lib/templates"})
    for (const auto &entry :
         std::filesystem::recursive_directory_iterator(std::string(TSC_SOURCE_DIR) + folder))
      if (entry.path().extension() == ".h")
        headers.insert(entry.path().filename().string());
  for (const codegen::PreludeFile &file : codegen::prelude_files())
    embedded.insert(std::string(file.name));
  CHECK(embedded == headers);
  REQUIRE(!codegen::prelude_files().empty());
  CHECK(codegen::prelude_files()[0].name == "tsc_prelude.h");
  for (const codegen::PreludeFile &file : codegen::prelude_files())
    CHECK(file.text.find("#pragma once") != std::string_view::npos);
}
