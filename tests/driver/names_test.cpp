// What a user calls things decides nothing: symbols with the names of kernels' own variables, of
// the language or of the prelude, nodes whose names would end a comment, weights and inputs of one
// name, kernels whose hashes collide.
#include "codegen/generate.h"
#include "driver/check.h"
#include "driver/compile.h"
#include "driver/inputs.h"
#include "driver/match_inputs.h"
#include "driver/reference.h"
#include "emit/model_source.h"
#include "graph/read.h"
#include "program/tables.h"
#include "runtime/session.h"
#include "support/diagnostic.h"
#include "support/text.h"
#include "temporary_folder.h"
#include "testing/catch.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace tsc;
using tensor::HostTensor;

namespace {

std::string data(const std::string &name) {
  return read_text(std::string(TSC_SOURCE_DIR) + "/tests/driver/data/" + name);
}

bool in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

void replace_all(std::string &text, const std::string &from, const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

/// A file whose symbols FIRST and SECOND get these names.
graph::Graph named(const std::string &file, const std::string &first, const std::string &second) {
  std::string text = data(file);
  replace_all(text, "FIRST", first);
  replace_all(text, "SECOND", second);
  return graph::parse_graph(text, "g.json");
}

std::string kernels_of(const driver::Compilation &compilation) {
  std::string text;
  for (const program::Kernel &kernel : compilation.program.kernels)
    text += kernel.name + "\n" + kernel.cuda.text + kernel.serial.text;
  return text;
}

HostTensor filled(tensor::DType dtype, std::vector<int64_t> sizes) {
  HostTensor tensor(dtype, std::move(sizes));
  for (int64_t i = 0; i < tensor.numel(); ++i)
    if (tensor::is_floating(dtype))
      tensor.set_double(i, std::sin(static_cast<double>(i)));
    else
      tensor.set_int64(i, i * 3 % tensor.numel());
  return tensor;
}

/// What the program gives on each device, beside the oracle.
void check_devices(const driver::Compilation &compilation, const std::vector<HostTensor> &inputs) {
  const std::vector<HostTensor> expected = driver::run_reference(compilation, inputs, {});
  for (const runtime::Plan plan : {runtime::Plan::serial, runtime::Plan::cuda}) {
    runtime::SessionOptions options;
    options.plan = plan;
    const auto outputs = runtime::Session::create(compilation.program, {}, options)->run(inputs);
    REQUIRE(outputs.size() == expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      REQUIRE(outputs[i].sizes() == expected[i].sizes());
      double worst = 0, largest = 1; // sums lose digits of their terms, not of themselves
      for (int64_t k = 0; k < outputs[i].numel(); ++k) {
        largest = std::max(largest, std::abs(expected[i].get_double(k)));
        const double off = std::abs(outputs[i].get_double(k) - expected[i].get_double(k));
        worst = std::isnan(off) ? INFINITY : std::max(worst, off);
      }
      INFO("output " << i << (plan == runtime::Plan::cuda ? ", cuda plan" : ", serial"));
      CHECK(worst < 1e-5 * largest);
    }
  }
}

std::vector<HostTensor> inputs_of_two_sizes() {
  return {filled(tensor::DType::f32, {3, 5}), filled(tensor::DType::f32, {5, 3})};
}
std::vector<HostTensor> inputs_of_one_size() {
  return {filled(tensor::DType::f32, {7, 6}), filled(tensor::DType::f32, {7, 14}),
          filled(tensor::DType::i64, {7}), filled(tensor::DType::f32, {7, 5})};
}

/// Every word that text of kernels may hold: of C++, of CUDA, of the prelude, of symbols.
std::set<std::string> words_of_kernels() {
  std::set<std::string> words;
  for (const char *list :
       {"alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t "
        "char16_t char32_t class compl concept const consteval constexpr constinit const_cast "
        "continue co_await co_return co_yield decltype default delete do double dynamic_cast else "
        "enum explicit export extern false float for friend goto if inline int long mutable "
        "namespace new noexcept not not_eq nullptr operator or or_eq private protected public "
        "register reinterpret_cast requires return short signed sizeof static static_assert "
        "static_cast struct switch template this thread_local throw true try typedef typeid "
        "typename union unsigned using virtual void volatile wchar_t while xor xor_eq",
        "threadIdx blockIdx blockDim gridDim warpSize __syncthreads __global__ __shared__ "
        "__launch_bounds__ __restrict__ NULL INT64_MAX INFINITY NAN main errno std size_t int64_t "
        "_ __LINE__ __FILE__ linux unix i386 min max abs exp log sin floor div index y0 y1 j0 "
        "failure misaligned check merging memory shared results values place problem mask out "
        "FloorDiv ModularIndexing Mod Min Max True False None N batch s00 u007 s99999999999"})
    for (const std::string &word : support::split(list, ' '))
      words.insert(word);
  for (size_t sort = 0; sort < symbolic::kSymbolSorts; ++sort) {
    const std::string word(symbolic::spelling_of(static_cast<symbolic::SymbolSort>(sort)));
    words.insert(word);
    for (const char *number : {"0", "1", "2", "17"})
      words.insert(word + number);
  }
  for (const char *word :
       {"t",    "v", "w", "a", "c",    "p",   "in",    "out",  "n",    "end",  "blocks",
        "part", "e", "k", "x", "lane", "row", "first", "last", "live", "tile", "outer"})
    for (const char *number : {"", "0", "1"})
      words.insert(std::string(word) + number);
  for (const codegen::PreludeFile &file : codegen::prelude_files()) {
    size_t taken = 0; // of each file every fourth of its own names
    for (size_t at = file.text.find("tc_"); at != std::string_view::npos;
         at = file.text.find("tc_", at + 1)) {
      size_t end = at;
      while (end < file.text.size() && in_word(file.text[end]))
        ++end;
      if ((at == 0 || !in_word(file.text[at - 1])) && ++taken % 4 == 0)
        words.insert(std::string(file.text.substr(at, end - at)));
    }
  }
  for (const char *data : {"u0", "u1", "u2", "u17", "u007"}) // numbers of the data, not sizes
    words.erase(data);
  return words;
}

std::string problems_of(const std::function<void()> &work) {
  try {
    work();
  } catch (const support::UserError &error) {
    return error.what();
  }
  return "";
}

} // namespace

TEST_CASE("kernels do not depend on what symbols are called") {
  const driver::Compilation two = driver::compile(named("two_sizes.json", "s0", "s1"), {}),
                            one = driver::compile(named("one_size.json", "s0", ""), {});
  const std::string two_kernels = kernels_of(two), one_kernels = kernels_of(one);
  REQUIRE(two_kernels.find("long long s1") != std::string::npos);
  const std::set<std::string> words = words_of_kernels();
  CHECK(words.size() > 300);
  std::string before = "other_size";
  size_t different = 0, unnamed = 0;
  for (const std::string &word : words) {
    INFO(word);
    // The names that mean themselves stay what they are: s1 before s0 is another graph.
    const bool own = symbolic::symbol_spelled(word) && word[0] == 's';
    const driver::Compilation first = driver::compile(named("one_size.json", word, ""), {});
    if (!own)
      different += kernels_of(first) != one_kernels;
    unnamed +=
        first.program.symbols.size() != 1 ||
        (first.program.symbols[0].name.empty() ? first.program.symbols[0].symbol.spelling() != word
                                               : first.program.symbols[0].name != word);
    const driver::Compilation both =
        driver::compile(named("two_sizes.json", word, own ? word + "x" : before), {});
    if (!own) {
      different += kernels_of(both) != two_kernels;
      before = word;
    }
    CHECK(different == 0);
    CHECK(unnamed == 0);
  }
}

TEST_CASE("numbers do not depend on what symbols are called") {
  const std::pair<const char *, const char *> pairs[] = {
      {"s0", "s1"},    {"k", "j"},   {"row", "lane"},        {"z1", "z0"}, {"i1", "i0"},
      {"in0", "out0"}, {"t0", "t1"}, {"merged0", "merged1"}, {"x0", "r0"}, {"int", "float"},
      {"s1", "s0"},    {"s0", "i0"}, {"i0", "s0"},           {"s7", "s3"}};
  const std::vector<HostTensor> inputs = inputs_of_two_sizes();
  for (const auto &[first, second] : pairs) {
    INFO(first << ", " << second);
    const driver::Compilation compilation =
        driver::compile(named("two_sizes.json", first, second), {});
    const auto outputs = driver::run_reference(compilation, inputs, {});
    for (int64_t i = 0; i < 3; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < 5; ++j) {
        const double x = inputs[0].get_double(i * 5 + j) + inputs[1].get_double(j * 3 + i);
        CHECK(outputs[1].get_double(i * 5 + j) == Approx(std::exp(x)));
        sum += x;
      }
      CHECK(outputs[0].get_double(i) == Approx(sum));
    }
    check_devices(compilation, inputs);
  }
  for (const char *name : {"s0", "k", "j", "row", "i2", "number_of_check"}) {
    INFO(name);
    check_devices(driver::compile(named("one_size.json", name, ""), {}), inputs_of_one_size());
  }
}

TEST_CASE("messages and files keep the user's names of symbols") {
  const graph::Graph graph = named("two_sizes.json", "row", "z0");
  CHECK(graph.symbols[0].symbol.spelling() == "s0");
  CHECK(graph.symbols[0].name == "row");
  const std::string json = graph::to_json(graph);
  CHECK(json.find("\"symbols\": {\"row\": [2, 64], \"z0\": [2, 64]}") != std::string::npos);
  CHECK(json.find("\"size\": [\"row\", \"z0\"]") != std::string::npos);
  CHECK(graph::parse_graph(json, "g.json") == graph);

  const driver::Compilation compilation = driver::compile(graph, {});
  const program::Program again = program::from_json(program::to_json(compilation.program), "p");
  REQUIRE(again.symbols.size() == 2);
  CHECK(again.symbols[1].symbol == compilation.program.symbols[1].symbol);
  CHECK(again.symbols[1].name == "z0");
  const program::OwnedTables owned = program::build_tables(again);
  CHECK(std::string(owned.tables.symbols[0].name) == "row");

  const std::vector<HostTensor> wrong = {filled(tensor::DType::f32, {3, 5}),
                                         filled(tensor::DType::f32, {5, 4})};
  CHECK(problems_of([&] { driver::run_reference(compilation, wrong, {}); }) ==
        "error TSC-R101: input \"y\", dimension 1: size 4, expected 3, the value of row\n"
        "  next: pass a tensor of that shape");
  const std::string refusal = problems_of([&] {
    driver::match_inputs(compilation.program, {{"x", wrong[0]}, {"y", wrong[1]}}, "in.npz", {});
  });
  CHECK(refusal.find("the graph takes float32[z0, row]: size 4 of dimension 1, expected row = 3") !=
        std::string::npos);
  const std::string large = problems_of([&] {
    driver::run_reference(
        compilation, {filled(tensor::DType::f32, {65, 5}), filled(tensor::DType::f32, {5, 65})},
        {});
  });
  CHECK(large.find("size 65 is outside [2, 64], the range of row") != std::string::npos);
  // Errors of passes say what a spelling stands for.
  std::string text = data("two_sizes.json");
  replace_all(text, "FIRST", "row");
  replace_all(text, "SECOND", "z0");
  replace_all(text, "\"target\": \"aten.permute.default\", \"args\": [{\"node\": \"y\"}, [1, 0]]",
              "\"target\": \"aten.unbind.int\", \"args\": [{\"node\": \"y\"}, 0]");
  const std::string pass =
      problems_of([&] { driver::compile(graph::parse_graph(text, "g.json"), {}); });
  INFO(pass);
  CHECK(pass.find("a dimension of symbolic size s1 (s1 is 'z0' in the file)") != std::string::npos);
}

TEST_CASE("names of nodes, inputs and weights end no comment and no literal") {
  // Names of nodes have no white space: reading refuses it. Other texts may.
  const std::string name = "x*/INJECTED\\\"INJECTED\\\\INJECTED?"
                           "?/INJECTED\\\\";
  const std::string free = "x\\n#error INJECTED\\r*/ INJECTED \\\\\\n\\\"INJECTED?"
                           "?/\\nINJECTED";
  std::string text =
      R"({"format": "tsc-graph", "version": 1, "name": "FREE", "nodes": [
{"name": "NAME", "op": "placeholder", "val": {"dtype": "float32", "size": [4]}},
{"name": "wNAME", "op": "placeholder", "val": {"dtype": "float32", "size": [4]}},
{"name": "aNAME", "op": "call_function", "target": "aten.sin.default", "args": [{"node": "NAME"}],
 "stack_trace": "  File \"FREE\", line 3, in FREE\n    FREE"},
{"name": "bNAME", "op": "call_function", "target": "aten.mul.Tensor",
 "args": [{"node": "aNAME"}, {"node": "wNAME"}]},
{"name": "output", "op": "output", "args": [[{"node": "bNAME"}]]}],
"signature": {"inputs": [{"node": "NAME", "kind": "user"},
{"node": "wNAME", "kind": "parameter", "target": "tFREE"}],
"outputs": [{"kind": "user", "value": {"node": "bNAME"}}]}})";
  replace_all(text, "NAME", name);
  replace_all(text, "FREE", free);
  const driver::Compilation compilation = driver::compile(graph::parse_graph(text, "g.json"), {});
  REQUIRE(compilation.program.kernels.size() == 1);
  const program::Kernel &kernel = compilation.program.kernels[0];
  CHECK(kernel.cuda.text.find("INJECTED") != std::string::npos);
  for (const std::string &source : {kernel.cuda.text, kernel.serial.text})
    for (const std::string &line : support::split(source, '\n'))
      if (line.find("INJECTED") != std::string::npos) {
        INFO(line);
        CHECK(line.substr(0, 2) == "//");
        CHECK(line.back() != '\\');
        CHECK(line.back() != '/');
      }
  // In the tables names stand in literals, where no byte is what it says, and behind //.
  for (const std::string &line :
       support::split(emit::model_source(std::span(&compilation.program, 1)), '\n'))
    if (const size_t at = line.find("INJECTED"); at != std::string::npos) {
      INFO(line);
      const std::string in_front = line.substr(0, at);
      // What was made an identifier (the model's name) has no character that could end one.
      const bool is_identifier = !in_front.empty() && in_front.back() == '_';
      CHECK((is_identifier || in_front.find('"') != std::string::npos ||
             in_front.find("//") != std::string::npos));
      CHECK(line.find("\\\"") == std::string::npos);
      CHECK(line.back() != '\\');
    }
  const HostTensor x = filled(tensor::DType::f32, {4}), w = filled(tensor::DType::f32, {4});
  const std::string target = compilation.program.buffers[1].weight;
  const auto outputs = runtime::Session::create(compilation.program, {{target, w}}, {})->run({x});
  CHECK(outputs[0].get_double(2) == Approx(std::sin(x.get_double(2)) * w.get_double(2)));
}

TEST_CASE("an input may be called as a buffer is: the buffer's mutation is the buffer's") {
  const graph::Graph graph = graph::parse_graph(
      R"({"format": "tsc-graph", "version": 1, "nodes": [
{"name": "state", "op": "placeholder", "val": {"dtype": "float32", "size": [4]}},
{"name": "b_state", "op": "placeholder", "val": {"dtype": "float32", "size": [4]}},
{"name": "sum", "op": "call_function", "target": "aten.add.Tensor",
 "args": [{"node": "state"}, {"node": "b_state"}]},
{"name": "twice", "op": "call_function", "target": "aten.mul.Tensor", "args": [{"node": "sum"}, 2]},
{"name": "output", "op": "output", "args": [[{"node": "sum"}, {"node": "twice"}]]}],
"signature": {"inputs": [{"node": "state", "kind": "user"},
{"node": "b_state", "kind": "buffer", "target": "state"}],
"outputs": [{"kind": "buffer_mutation", "value": {"node": "sum"}, "target": "state"},
{"kind": "user", "value": {"node": "twice"}}]}})",
      "g.json");
  const driver::Compilation compilation = driver::compile(graph, {});
  for (const program::InputInfo &input : compilation.program.inputs)
    CHECK_FALSE(input.mutated);
  const HostTensor x = filled(tensor::DType::f32, {4}), b = filled(tensor::DType::f32, {4});
  const auto outputs = runtime::Session::create(compilation.program, {{"state", b}}, {})->run({x});
  CHECK(outputs[0].get_double(1) == Approx(2 * std::sin(1.0)));
  CHECK(outputs[1].get_double(1) == Approx(4 * std::sin(1.0)));
}

TEST_CASE("kernels that are not the same have names that are not the same") {
  for (const char *file : {"kernel_name_collision.json", "kernel_name_collision_oob.json",
                           "kernel_name_control.json"}) {
    INFO(file);
    const driver::Compilation compilation =
        driver::compile(graph::parse_graph(data(file), file), {});
    std::set<std::string> names;
    for (const program::Kernel &kernel : compilation.program.kernels)
      CHECK(names.insert(kernel.name).second);
    CHECK(names.size() == 2);
    std::vector<HostTensor> inputs;
    for (const program::InputInfo &input : compilation.program.inputs) {
      std::vector<int64_t> sizes;
      for (const symbolic::Expr size : compilation.program.buffers[input.buffer].layout.sizes)
        sizes.push_back(size.value());
      inputs.push_back(filled(tensor::DType::f32, sizes));
    }
    check_devices(compilation, inputs);
  }
}
