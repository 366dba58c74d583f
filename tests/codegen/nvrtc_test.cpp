// Every kernel of the samples compiles for sm_80 and sm_90, without spilling, and accesses memory
// as its plan says.
#include "codegen/generate.h"
#include "join_samples.h"
#include "testing/catch.h"
#include "testing/nvrtc.h"

#include <regex>

using namespace tsc;
using tensor::DType;

namespace {

int registers(const std::string &log) {
  std::smatch match;
  return std::regex_search(log, match, std::regex("Used ([0-9]+) registers")) ? std::stoi(match[1])
                                                                              : -1;
}

void check_sample(const test::SampleModule &sample, int most_registers) {
  codegen::CodegenOptions options;
  options.target = &target::find_target("sm_90");
  const scheduler::Schedule schedule = sample.schedule();
  const program::Program program = codegen::generate(sample.module, schedule, options);
  for (const program::Kernel &kernel : program.kernels) {
    for (const char *arch : {"sm_80", "sm_90"}) {
      const testing::NvrtcUnit compiled = testing::compile_with_nvrtc(kernel.cuda.text, arch);
      INFO(kernel.cuda.text << compiled.log);
      CHECK(compiled.log.find("0 bytes spill stores, 0 bytes spill loads") != std::string::npos);
      CHECK(registers(compiled.log) > 0);
      CHECK(registers(compiled.log) <= most_registers);
      CHECK(compiled.log.find("warning") == std::string::npos);
      if (kernel.plan.find("16-byte accesses") != std::string::npos)
        CHECK(std::regex_search(compiled.ptx, std::regex("ld\\.global(\\.nc|\\.cs)?\\.v4")));
      // In pieces, stores of a run take as many times the requests.
      if (kernel.cuda.text.find("tc_store_vec") != std::string::npos)
        CHECK(std::regex_search(compiled.ptx, std::regex("st\\.global\\.v[24]")));
    }
  }
}

} // namespace

TEST_CASE("a row that is walked again is kept in the cache, then let go") {
  const test::SampleModule sample = test::softmax(128, 100000, DType::f32);
  codegen::CodegenOptions options;
  options.target = &target::find_target("sm_90");
  const scheduler::Schedule schedule = sample.schedule();
  const program::Program program = codegen::generate(sample.module, schedule, options);
  for (const char *arch : {"sm_80", "sm_90"}) {
    const testing::NvrtcUnit compiled =
        testing::compile_with_nvrtc(program.kernels.at(0).cuda.text, arch);
    CHECK(compiled.log.find("warning") == std::string::npos);
    CHECK(compiled.log.find("0 bytes spill stores, 0 bytes spill loads") != std::string::npos);
    for (const char *part : {"createpolicy.fractional.L2::evict_last.b64",
                             "ld.global.L2::cache_hint.v4.u32", "ld.global.cs.v4"}) {
      INFO(part);
      CHECK(compiled.ptx.find(part) != std::string::npos);
    }
  }
}

TEST_CASE("row reductions compile without spills") {
  check_sample(test::row_sum(262144, 256, DType::f16), 40);
  check_sample(test::row_sum(1000, 255, DType::f32), 80);
  check_sample(test::softmax(1000, 1013, DType::bf16), 80);
  check_sample(test::layer_norm_gelu(1000, 1013, DType::bf16), 100);
  check_sample(test::add_sum(8192, 8192), 64);
  check_sample(test::softmax(32768, 4096, DType::bf16), 64);
  check_sample(test::softmax(128, 100000, DType::f32), 64);
  check_sample(test::softmax(128, 100001, DType::bf16), 80);
  check_sample(test::softmax(4, 131072, DType::bf16), 80);
  check_sample(test::layer_norm_gelu(32768, 4096, DType::bf16), 80);
  check_sample(test::layer_norm_gelu(8192, 768, DType::bf16), 80);
}

TEST_CASE("scans and reductions of columns compile for elements of every type") {
  std::string text = "#include \"tsc_prelude.h\"\n"
                     "template <class T> TC_FN void scan(T *p) {\n"
                     "  __shared__ T scratch[2048];\n"
                     "  T x[6], y[4];\n"
                     "  for (int i = 0; i < 6; ++i) x[i] = p[i];\n"
                     "  for (int i = 0; i < 4; ++i) y[i] = p[i];\n"
                     "  tc_row_scan<tc_max, 128, 2>(x, scratch);\n"
                     "  tc_row_scan<tc_max, 16, 1>(x, scratch);\n"
                     "  tc_columns_reduce<tc_max, 8, 32>(y, scratch);\n"
                     "  for (int i = 0; i < 6; ++i) p[i] = x[i];\n"
                     "  for (int i = 0; i < 4; ++i) p[6 + i] = y[i];\n"
                     "}\n";
  int number = 0;
  for (const char *type : {"bool", "unsigned char", "signed char", "short", "unsigned short", "int",
                           "unsigned", "long long", "unsigned long long", "float", "double"})
    text += "TC_KERNEL void k" + std::to_string(number++) + "(" + type + " *p) { scan(p); }\n";
  for (const char *arch : {"sm_80", "sm_90"}) {
    const testing::NvrtcUnit compiled = testing::compile_with_nvrtc(text, arch);
    INFO(compiled.log);
    CHECK(compiled.log.find("error") == std::string::npos);
    CHECK(compiled.log.find("0 bytes spill stores, 0 bytes spill loads") != std::string::npos);
  }
}

TEST_CASE("column reductions and pointwise kernels compile without spills") {
  check_sample(test::column_sum(4096, 1000, DType::f32), 64);
  check_sample(test::column_sum(4096, 8192, DType::bf16), 64);
  check_sample(test::broadcast_relu(333, 1024, DType::bf16), 64);
  check_sample(test::broadcast_relu(7, 13, DType::f32), 64);
  check_sample(test::broadcast_relu(333, 1023, DType::bf16), 64);
  check_sample(test::broadcast_relu(333, 4097, DType::f32), 64);
}

TEST_CASE("kernels of symbolic sizes compile without spills, with vectors where sizes allow") {
  const symbolic::Expr s0 = symbolic::symbol(symbolic::SymbolSort::size, 0),
                       s1 = symbolic::symbol(symbolic::SymbolSort::size, 1),
                       s2 = symbolic::symbol(symbolic::SymbolSort::size, 2);
  const std::vector<graph::SymbolRange> few = {{s0, 1, 1 << 15}, {s1, 1, 4096}},
                                        any = {{s0, 1}, {s1, 1}},
                                        planes = {{s0, 1, 64}, {s1, 1, 512}, {s2, 1, 512}};
  for (const auto &symbols : {few, any}) {
    check_sample(with_symbols(test::broadcast_relu(s0, s1, DType::bf16), symbols), 64);
    check_sample(with_symbols(test::softmax(s0, s1, DType::bf16), symbols), 128);
    check_sample(with_symbols(test::transposed_add(s0, s1, DType::f32), symbols), 96);
    check_sample(with_symbols(test::softmax(s0, 1013, DType::bf16), symbols), 80);
    check_sample(with_symbols(test::broadcast_relu(s0, 1023, DType::bf16), symbols), 64);
  }
  check_sample(with_symbols(test::convolved_relu(s0, s1, s2), planes), 64);
}

TEST_CASE("tiles and split rows compile without spills") {
  check_sample(test::transposed_add(16384, 16384, DType::f32), 80);
  check_sample(test::transposed_add(1000, 96, DType::f16), 80);
  check_sample(test::transposed_add(1001, 999, DType::f32), 80);
  check_sample(test::transposed_add(40960, 4, DType::f16), 64);
  check_sample(test::transposed_add(3, 40960, DType::f32), 64);
  check_sample(test::transposed_add(40960, 3, DType::f16), 64);
  check_sample(test::transposed_add(40968, 7, DType::f16), 96);
  check_sample(test::transposed_add(5, 40968, DType::bf16), 96);
  check_sample(test::row_sum(4, 1048576, DType::f32), 64);
  check_sample(test::column_sum(32768, 768, DType::f16), 64);
}

TEST_CASE("launches of several kernels compile without spills") {
  check_sample(test::equal_and_other(), 40);
  check_sample(test::rows_of_one_matrix(), 64);
  check_sample(test::symbolic_rows(symbolic::symbol(symbolic::SymbolSort::size, 0),
                                   symbolic::symbol(symbolic::SymbolSort::size, 1)),
               40);
  check_sample(test::many_vectors(64), 40);
}

TEST_CASE("attention of floats compiles without spills in blocks of every size") {
  std::string text = "#include \"tsc_prelude.h\"\n#include \"tc_attention_floats.h\"\n";
  int count = 0;
  const auto add = [&](int depth, int rows, const std::string &mask, bool causal) {
    const std::string sizes = std::to_string(depth) + ", " + std::to_string(rows);
    text += "TC_KERNEL void __launch_bounds__(tc_float_threads(" + std::to_string(rows) +
            "), tc_float_blocks(" + sizes + ", " + mask + "::present)) attention_" +
            std::to_string(count++) + "(tc_attention_problem<float, " + mask + "> problem) { " +
            (mask == "tc_no_mask" ? "" : "problem.mask.within = 1; ") + // as kernels have it
            "tc_attention_floats<" + sizes + (causal ? ", true" : ", false") + ">(problem); }\n";
  };
  for (const auto &[depth, rows] :
       {std::pair(64, 128), {40, 128}, {64, 64}, {80, 64}, {128, 64}, {96, 32}, {8, 32}})
    add(depth, rows, "tc_no_mask", rows == 64);
  add(64, 128, "tc_mask<float, 4>", true);
  add(128, 64, "tc_mask<bool, 1>", false);
  add(128, 32, "tc_mask<tc_f16, 2>", false);
  for (const char *arch : {"sm_80", "sm_90"}) {
    const testing::NvrtcUnit compiled = testing::compile_with_nvrtc(text, arch);
    INFO(compiled.log);
    CHECK_FALSE(std::regex_search(compiled.log, std::regex("[1-9][0-9]* bytes spill")));
    CHECK(compiled.log.find("warning") == std::string::npos);
  }
}

TEST_CASE("attention compiles without spills at every depth and with every mask") {
  std::string text = "#include \"tsc_prelude.h\"\n#include \"tc_attention.h\"\n";
  int count = 0;
  const auto add = [&](int depth, const std::string &type, const std::string &mask, bool causal) {
    const std::string name = "attention_" + std::to_string(count++);
    text += "TC_KERNEL void __launch_bounds__(" + std::string("tc_attention_tiles<") +
            std::to_string(depth) + ", " + mask + ">::threads, 256 / tc_attention_tiles<" +
            std::to_string(depth) + ", " + mask + ">::threads" + ") " + name +
            "(tc_attention_problem<" + type + ", " + mask + "> problem) { " +
            (mask == "tc_no_mask" ? "" : "problem.mask.within = 1; ") + // as kernels have it
            "tc_attention<" + std::to_string(depth) + (causal ? ", true" : ", false") +
            ">(problem); }\n";
  };
  for (const int depth : {8, 24, 32, 64, 72, 80, 96, 128})
    add(depth, depth % 16 == 0 ? "tc_bf16" : "tc_f16", "tc_no_mask", depth % 32 == 0);
  for (const char *mask : {"tc_mask<bool, 8>", "tc_mask<bool, 1>", "tc_mask<float, 4>",
                           "tc_mask<tc_f16, 1>", "tc_mask<tc_bf16, 2>"}) {
    add(64, "tc_bf16", mask, false);
    add(128, "tc_f16", mask, true);
  }
  for (const char *arch : {"sm_80", "sm_90"}) {
    const testing::NvrtcUnit compiled = testing::compile_with_nvrtc(text, arch);
    INFO(compiled.log);
    CHECK_FALSE(std::regex_search(compiled.log, std::regex("[1-9][0-9]* bytes spill")));
    CHECK(compiled.log.find("warning") == std::string::npos);
    CHECK(std::regex_search(compiled.ptx, std::regex("mma\\.sync\\.aligned\\.m16n8k16")));
  }
}
