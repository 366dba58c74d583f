// tsc run and tsc compile: numbers, files, and everything that can be wrong with inputs.
#include "tsc_process.h"

#include "testing/catch.h"

#include <nlohmann/json.hpp>

#include <cstring>
#include <filesystem>

using namespace tsc;
using testing::Outcome;
using testing::ramp;
using testing::sample;
using testing::Workplace;

namespace {

// seed_004: the row sums of arg0_1 + arg1_1, both float32 [64, 128].
const std::string kGraph = sample("seed_004.json");
const std::vector<int64_t> kShape = {64, 128};

tensor::TensorMap good_inputs() {
  return {{"input_0", ramp(kShape, 0, 0.25)}, {"arg1_1", ramp(kShape, 1, 0)}};
}
tensor::HostTensor row_sums() {
  tensor::HostTensor sums(tensor::DType::f32, {64});
  for (int64_t row = 0; row < 64; ++row)
    sums.set_double(row, 0.25 * (128.0 * 128.0 * static_cast<double>(row) + 127 * 64) + 128);
  return sums;
}

void check_refused(const Workplace &place, const std::string &inputs, const std::string &text) {
  Outcome outcome = place.run({"run", kGraph, "--device=host", "--inputs", inputs});
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.out == "");
  CHECK(outcome.err == text);
}

} // namespace

TEST_CASE("every device that needs no GPU gives the expected numbers") {
  Workplace place;
  place.tensors("in.npz", good_inputs());
  place.tensors("expected.safetensors", {{"output_0", row_sums()}});
  const std::vector<std::vector<std::string>> devices = {
      {"--device=reference"},
      {"--device=host"},
      {"--device=host", "--plan=cuda"},
      {"--device=host", "--plan=cuda", "--reverse"}};
  for (const std::vector<std::string> &device : devices) {
    std::vector<std::string> arguments = {"run", kGraph, "--inputs=in.npz", "--expect",
                                          "expected.safetensors"};
    arguments.insert(arguments.end(), device.begin(), device.end());
    Outcome outcome = place.run(arguments);
    INFO(device.back() << "\n" << outcome.out << outcome.err);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.err == "");
    CHECK(outcome.out.find("output_0: agrees, ") != std::string::npos);
    CHECK(outcome.out.find("output_0: torch.float32 [64] min 2160 ") != std::string::npos);
  }
}

TEST_CASE("numbers that differ have exit code 1, in text and in JSON") {
  Workplace place;
  place.tensors("in.npz", good_inputs());
  tensor::HostTensor wrong = row_sums();
  wrong.set_double(17, 0);
  place.tensors("expected.npz", {{"output_0", wrong}});
  const std::vector<std::string> arguments = {"run", kGraph, "--device=host", "--inputs=in.npz",
                                              "--expect=expected.npz"};
  Outcome outcome = place.run(arguments);
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.out.find("output_0: DIFFERS, ") != std::string::npos);
  std::vector<std::string> with_json = arguments;
  with_json.push_back("--json");
  outcome = place.run(with_json);
  CHECK(outcome.exit_code == 1);
  nlohmann::json report = nlohmann::json::parse(outcome.out);
  CHECK(report.at("device") == "host");
  CHECK(report.at("kernels") == 1);
  CHECK(report.at("comparisons").at(0).at("name") == "output_0");
  CHECK(report.at("comparisons").at(0).at("agrees") == false);
}

TEST_CASE("expected values that contradict their reference do not agree with anything") {
  Workplace place;
  place.tensors("in.npz", good_inputs());
  tensor::HostTensor wrong = row_sums(), reference(tensor::DType::f64, {64});
  for (int64_t i = 0; i < 64; ++i) {
    reference.set_double(i, wrong.get_double(i));
    wrong.set_double(i, 1.2 * wrong.get_double(i));
  }
  place.tensors("expected.npz", {{"output_0", wrong}, {"reference_0", reference}});
  const Outcome outcome =
      place.run({"run", kGraph, "--device=host", "--inputs=in.npz", "--expect=expected.npz"});
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.out.find("output_0: DIFFERS, ") != std::string::npos);
  CHECK(outcome.out.find("the expected values and their reference disagree with each other: the "
                         "relative error of the norm is 0.") != std::string::npos);
}

TEST_CASE("a file to compare with is checked before anything runs") {
  Workplace place;
  place.tensors("in.npz", good_inputs());
  const auto refused = [&](const std::string &file) {
    Outcome outcome = place.run({"run", kGraph, "--device=host", "--inputs=in.npz", "--expect",
                                 file, "--outputs=out.safetensors"});
    CHECK(outcome.exit_code == 3);
    CHECK(outcome.out == "");
    CHECK_FALSE(std::filesystem::exists(place.path("out.safetensors")));
    return outcome.err;
  };
  place.tensors("other.npz", {{"output_1", row_sums()}, {"reference_0", row_sums()}});
  CHECK(refused("other.npz") ==
        "error TSC-R123: output 'output_0' has no expected value\n  at other.npz\n"
        "  next: add it to the file\n"
        "error TSC-R123: the file holds 'output_1', which is no output of the graph\n"
        "  at other.npz\n  next: did you mean 'output_0'?\n  the graph gives: output_0\n");
  place.tensors("wide.npz", {{"output_0", tensor::HostTensor(tensor::DType::f64, {64})}});
  CHECK(refused("wide.npz") ==
        "error TSC-R125: output 'output_0' is float32[64], the file has float64[64]\n"
        "  at wide.npz\n  next: save the values that PyTorch gives for these inputs, unconverted\n"
        "  the graph gives: output_0\n");
  place.tensors("reference.npz", {{"output_0", row_sums()},
                                  {"reference_0", tensor::HostTensor(tensor::DType::f64, {63})}});
  CHECK(refused("reference.npz") ==
        "error TSC-R125: 'reference_0' is float64[63], 'output_0' is float32[64]\n"
        "  at reference.npz\n  next: save a reference of the same shape, or none\n"
        "  the graph gives: output_0\n");
  place.tensors("short.npz", {{"output_0", ramp({63}, 0, 1)}});
  CHECK(refused("short.npz")
            .rfind("error TSC-R125: output 'output_0' is float32[64], the file has "
                   "float32[63]\n",
                   0) == 0);
}

TEST_CASE("inputs that do not fit are refused with both sides, all at once") {
  Workplace place;
  place.tensors("one.npz", {{"input_0", ramp(kShape, 0, 1)}});
  check_refused(place, "one.npz",
                "error TSC-R121: input 'arg1_1' (or 'input_1') is missing\n  at one.npz\n"
                "  next: add it to the file\n"
                "  the graph takes, and the file gives:\n"
                "    arg0_1 float32[64, 128], input_0 float32[64, 128]\n"
                "    arg1_1 float32[64, 128], nothing\n");
  place.tensors("names.npz", {{"arg0_1", ramp(kShape, 0, 1)}, {"arg11", ramp({3}, 0, 1)}});
  check_refused(place, "names.npz",
                "error TSC-R121: input 'arg1_1' (or 'input_1') is missing\n  at names.npz\n"
                "  next: is it the file's 'arg11'? rename that\n"
                "error TSC-R121: the file holds 'arg11', which the graph does not take\n"
                "  at names.npz\n  next: did you mean 'arg1_1'?\n"
                "  the graph takes, and the file gives:\n"
                "    arg0_1 float32[64, 128], arg0_1 float32[64, 128]\n"
                "    arg1_1 float32[64, 128], nothing\n"
                "    nothing, arg11 float32[3]\n");
  // Rank, dtype and a name too many: in one report.
  place.tensors("kinds.npz", {{"input_0", ramp({8192}, 0, 1)},
                              {"input_1", tensor::HostTensor(tensor::DType::f64, kShape)},
                              {"mask", ramp({1}, 0, 1)}});
  check_refused(
      place, "kinds.npz",
      "error TSC-R121: the file holds 'mask', which the graph does not take\n"
      "  at kinds.npz\n  next: remove it\n"
      "error TSC-R112: input 'arg0_1' is float32[8192], the graph takes float32[64, 128]\n"
      "  at kinds.npz\n  next: give a tensor of 2 dimensions\n"
      "error TSC-R111: input 'arg1_1' is float64[64, 128], the graph takes float32[64, 128]\n"
      "  at kinds.npz\n  next: convert it before it is saved\n"
      "  the graph takes, and the file gives:\n"
      "    arg0_1 float32[64, 128], input_0 float32[8192]\n"
      "    arg1_1 float32[64, 128], input_1 float64[64, 128]\n"
      "    nothing, mask float32[1]\n");
  place.tensors("size.npz", {{"input_0", ramp({5, 128}, 0, 1)}, {"input_1", ramp(kShape, 0, 1)}});
  check_refused(
      place, "size.npz",
      "error TSC-R112: input 'arg0_1' is float32[5, 128], the graph takes float32[64, 128]\n"
      "  at size.npz\n"
      "  next: give a tensor of this shape, or export the graph with dynamic shapes\n"
      "  the graph takes, and the file gives:\n"
      "    arg0_1 float32[64, 128], input_0 float32[5, 128]\n"
      "    arg1_1 float32[64, 128], input_1 float32[64, 128]\n");
  check_refused(place, "absent.npz",
                "error TSC-T002: cannot read the file: No such file or directory\n"
                "  at absent.npz\n");
}

TEST_CASE("sizes out of range, and sizes that contradict each other, are refused") {
  Workplace place;
  place.file("dynamic.json", R"({
    "format": "tsc-graph", "version": 1, "name": "dynamic", "symbols": {"s0": [2, 16]},
    "nodes": [
      {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": ["s0", 3]}},
      {"name": "y", "op": "placeholder", "val": {"dtype": "float32", "size": ["2*s0", 3]}},
      {"name": "z", "op": "call_function", "target": "aten.cat.default",
       "args": [[{"node": "x"}, {"node": "y"}], 0]},
      {"name": "output", "op": "output", "args": [[{"node": "z"}]]}],
    "signature": {"inputs": [{"node": "x", "kind": "user"}, {"node": "y", "kind": "user"}],
                  "outputs": [{"kind": "user", "value": {"node": "z"}}]}})");
  const auto run = [&](int64_t x, int64_t y, const std::string &device) {
    place.tensors("in.npz", {{"x", ramp({x, 3}, 0, 1)}, {"y", ramp({y, 3}, 0, 1)}});
    return place.run({"run", "dynamic.json", "--device", device, "--inputs=in.npz"});
  };
  for (const std::string device : {"host", "reference"}) {
    CHECK(run(4, 8, device).exit_code == 0);
    Outcome outcome = run(17, 8, device);
    CHECK(outcome.exit_code == 3);
    CHECK(outcome.err ==
          "error TSC-R114: input 'x' is float32[17, 3]: size 17 of dimension 0 is outside [2, 16], "
          "the range of s0\n  at in.npz\n"
          "  next: give a size in the range, or export the graph with another one\n"
          "error TSC-R112: input 'y' is float32[8, 3], the graph takes float32[2*s0, 3]: size 8 of "
          "dimension 0, expected 2*s0 = 34\n  at in.npz\n"
          "  next: make the sizes of all inputs agree\n"
          "  the graph takes, and the file gives:\n"
          "    x float32[s0, 3], x float32[17, 3]\n"
          "    y float32[2*s0, 3], y float32[8, 3]\n");
  }
}

TEST_CASE("scalars that the export made constant may be given, but not differ") {
  Workplace place;
  place.file("scaled.json", R"({"format": "tsc-graph", "version": 1, "name": "scaled",
    "nodes": [
      {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": [4]}},
      {"name": "n", "op": "placeholder", "val": {"int": 3}},
      {"name": "y", "op": "call_function", "target": "aten.mul.Tensor", "args": [{"node": "x"}, 3]},
      {"name": "output", "op": "output", "args": [[{"node": "y"}]]}],
    "signature": {"inputs": [{"node": "x", "kind": "user"},
                             {"node": "n", "kind": "user", "constant": 3}],
      "outputs": [{"kind": "user", "value": {"node": "y"}}]}})");
  tensor::HostTensor scalar(tensor::DType::i64, {});
  const auto run = [&](double value) {
    scalar.set_double(0, value);
    place.tensors("in.npz", {{"x", ramp({4}, 0, 1)}, {"n", scalar}});
    return place.run({"run", "scaled.json", "--device=reference", "--inputs=in.npz"});
  };
  CHECK(run(3).exit_code == 0);
  const Outcome other = run(4);
  CHECK(other.exit_code == 3);
  CHECK(other.err == "error TSC-R115: input 'n' is 4, the graph was exported with 3\n  at in.npz\n"
                     "  next: leave it out, or export the graph with this value\n"
                     "  the graph takes, and the file gives:\n"
                     "    x float32[4], x float32[4]\n"
                     "    n = 3, n int64[]\n");
}

TEST_CASE("integer inputs and multiples of symbols are bound, and held to their ranges") {
  Workplace place;
  place.file("scaled.json", R"({
    "format": "tsc-graph", "version": 1, "name": "scaled",
    "symbols": {"s0": [2, 16], "s1": [0, null]},
    "nodes": [
      {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": ["2*s0"]}},
      {"name": "n", "op": "placeholder", "val": {"int": "s1"}},
      {"name": "y", "op": "call_function", "target": "aten.mul.Tensor",
       "args": [{"node": "x"}, {"node": "n"}]},
      {"name": "output", "op": "output", "args": [[{"node": "y"}]]}],
    "signature": {"inputs": [{"node": "x", "kind": "user"}, {"node": "n", "kind": "user"}],
                  "outputs": [{"kind": "user", "value": {"node": "y"}}]}})");
  const auto run = [&](int64_t size, int64_t n, const std::string &device) {
    tensor::HostTensor integer(tensor::DType::i64, {});
    integer.set_int64(0, n);
    place.tensors("in.safetensors", {{"x", ramp({size}, 1, 0)}, {"n", integer}});
    return place.run({"run", "scaled.json", "--device", device, "--inputs=in.safetensors",
                      "--outputs=out.safetensors"});
  };
  const std::string both_sides = "  next: give a size in the range, or export the graph with "
                                 "another one\n  the graph takes, and the file gives:\n";
  for (const std::string device : {"host", "reference"}) {
    CHECK(run(6, 7, device).exit_code == 0);
    const tensor::HostTensor y = tensor::read_tensors(place.path("out.safetensors")).at("output_0");
    REQUIRE(y.sizes() == std::vector<int64_t>{6});
    CHECK(y.get_double(5) == 7 * ramp({6}, 1, 0).get_double(5));
    CHECK(run(40, 7, device).err ==
          "error TSC-R114: input 'x' is float32[40]: size 40 of dimension 0 makes s0 20, which is "
          "outside [2, 16], the range of s0\n  at in.safetensors\n" +
              both_sides + "    x float32[2*s0], x float32[40]\n    n int64[], n int64[]\n");
    CHECK(run(6, -1, device).err ==
          "error TSC-R114: input 'n' is int64[]: the value -1 is outside [0, inf], the range of "
          "s1\n  at in.safetensors\n" +
              both_sides + "    x float32[2*s0], x float32[6]\n    n int64[], n int64[]\n");
  }
  CHECK(run(7, 1, "reference").err ==
        "error TSC-R102: input \"x\", dimension 0: size 7 is not 2*s0 with s0 in [2, 16]\n"
        "  next: pass inputs of sizes in that range\n");
  CHECK(run(7, 1, "host").err ==
        "error TSC-R116: the program cannot run with inputs of these shapes: input \"x\", "
        "dimension 0: size 7 is not 2*s0 with s0 in [2, 16]\n"
        "  next: compare with the signature of the graph\n");
}

TEST_CASE("the seed decides what a graph draws") {
  Workplace place;
  place.file("draw.json", R"({"format": "tsc-graph", "version": 1, "name": "draw",
    "nodes": [{"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": [100]}},
      {"name": "y", "op": "call_function", "target": "aten.dropout.default",
       "args": [{"node": "x"}, 0.5, true]},
      {"name": "output", "op": "output", "args": [[{"node": "y"}]]}]})");
  place.tensors("x.safetensors", {{"x", ramp({100}, 1, 1)}});
  const auto draw = [&](const std::string &device, const std::string &seed) {
    const Outcome outcome =
        place.run({"run", "draw.json", "--device", device, "--inputs=x.safetensors", "--seed", seed,
                   "--outputs=y.safetensors"});
    CHECK(outcome.exit_code == 0);
    const tensor::HostTensor y = tensor::read_tensors(place.path("y.safetensors")).at("output_0");
    std::string kept;
    for (int64_t i = 0; i < y.numel(); ++i)
      kept += y.get_double(i) != 0 ? '1' : '0';
    return kept;
  };
  const std::string first = draw("host", "1");
  CHECK(draw("host", "1") == first);
  CHECK(draw("reference", "1") == first);
  CHECK(draw("host", "18446744073709551615") != first);
}

TEST_CASE("what no device computes with is passed on as it is") {
  Workplace place;
  place.file("pass.json", R"({"format": "tsc-graph", "version": 1, "name": "pass",
    "nodes": [{"name": "x", "op": "placeholder", "val": {"dtype": "float8_e4m3fn", "size": [2]}},
      {"name": "output", "op": "output", "args": [[{"node": "x"}]]}],
    "signature": {"inputs": [{"node": "x", "kind": "user"}],
      "outputs": [{"kind": "user", "value": {"node": "x"}}]}})");
  tensor::HostTensor bytes(tensor::DType::f8e4m3fn, {2});
  std::memcpy(bytes.data(), "\x38\x7b", 2);
  place.tensors("x.safetensors", {{"x", bytes}});
  const Outcome host = place.run(
      {"run", "pass.json", "--device=host", "--inputs=x.safetensors", "--outputs=y.safetensors"});
  CHECK(host.exit_code == 0);
  const tensor::TensorMap result = tensor::read_tensors(place.path("y.safetensors"));
  CHECK(std::memcmp(result.at("output_0").data(), bytes.data(), 2) == 0);
  const Outcome reference = place.run({"run", "pass.json", "--device=reference",
                                       "--inputs=x.safetensors", "--outputs=z.safetensors"});
  CHECK(reference.exit_code == 0);
  const tensor::TensorMap same = tensor::read_tensors(place.path("z.safetensors"));
  CHECK(std::memcmp(same.at("output_0").data(), bytes.data(), 2) == 0);
}

TEST_CASE("without --inputs the inputs are random, and that is said") {
  Workplace place;
  Outcome silent = place.run({"run", kGraph, "--device=reference"});
  CHECK(silent.exit_code == 0);
  CHECK(silent.err == "note: no --inputs; the inputs are random (seed 0)\n");
  Outcome asked = place.run({"run", kGraph, "--device=reference", "--inputs=random:0"});
  CHECK(asked.err == "");
  // The report's times differ from run to run; the outputs do not.
  auto summary = [](const std::string &text) { return text.substr(text.find("output_0:")); };
  CHECK(summary(asked.out) == summary(silent.out));
  Outcome other = place.run({"run", kGraph, "--device=reference", "--inputs=random:1"});
  CHECK(summary(other.out) != summary(silent.out));
}

TEST_CASE("every missing weight is listed") {
  Workplace place;
  Outcome outcome =
      place.run({"run", sample("anchors/mlp_gelu/model.json"), "--device=host", "--inputs=random"});
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.out == "");
  std::string expected;
  for (const char *name : {"0.weight", "0.bias", "2.weight", "2.bias"})
    expected += std::string("error TSC-R122: weight '") + name +
                "' is missing\n  next: give it with --weights FILE (safetensors, by this name), "
                "or --weights random\n";
  CHECK(outcome.err == expected);
}

TEST_CASE("weights that do not fit are refused with both sides, together with the inputs") {
  Workplace place;
  place.tensors("w.safetensors", {{"model.lm_head.weight", ramp({509, 63}, 0, 1)},
                                  {"model.lm_head.bias", ramp({509}, 0, 1)}});
  place.tensors("in.npz", {{"ids", ramp({1}, 0, 1)}});
  Outcome outcome = place.run({"run", sample("gpt2_small/default.pt2"), "--device=host", "--inputs",
                               sample("gpt2_small/inputs.npz"), "--weights", "w.safetensors"});
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.out == "");
  const std::string weights =
      "error TSC-R122: weight 'model.lm_head.weight' is float32[509, 63], the graph takes "
      "float32[509, 64]\n  at w.safetensors\n"
      "  next: give a weight of that dtype and shape\n";
  CHECK(outcome.err == weights);
  outcome = place.run({"run", sample("gpt2_small/default.pt2"), "--device=host", "--inputs=in.npz",
                       "--weights=w.safetensors"});
  CHECK(outcome.err.rfind("error TSC-R121: ", 0) == 0);
  CHECK(outcome.err.substr(outcome.err.find("error TSC-R122")) == weights);
}

TEST_CASE("a missing weight names the file's nearest; names that nothing takes are said") {
  Workplace place;
  const std::string graph = place.file("linear.json", testing::linear_graph());
  tensor::TensorMap weights = {{"fc.weight", ramp({3, 4}, 0, 1)}, {"fc.bais", ramp({3}, 0, 1)}};
  place.tensors("renamed.safetensors", weights);
  Outcome outcome = place.run(
      {"run", graph, "--device=host", "--inputs=random", "--weights=renamed.safetensors"});
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.err == "error TSC-R122: weight 'fc.bias' is missing\n  at renamed.safetensors\n"
                       "  next: is it the file's 'fc.bais'? rename that\n");
  // More than the graph takes, as whole checkpoints hold.
  weights["fc.bias"] = weights["fc.bais"];
  weights["step"] = ramp({1}, 0, 1);
  place.tensors("checkpoint.safetensors", weights);
  const std::string warnings =
      "warning: the weights hold 'fc.bais' (did you mean 'fc.bias'?), which the graph does not "
      "take\n  at checkpoint.safetensors\n"
      "warning: the weights hold 'step', which the graph does not take\n"
      "  at checkpoint.safetensors\n";
  outcome = place.run(
      {"run", graph, "--device=host", "--inputs=random", "--weights=checkpoint.safetensors"});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err == warnings);
  outcome = place.run({"compile", graph, "-o", "out", "--weights=checkpoint.safetensors"});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err == warnings);
  for (int i = 0; i < 7; ++i)
    weights["optimizer_" + std::to_string(i)] = ramp({1}, 0, 1);
  place.tensors("checkpoint.safetensors", weights);
  outcome = place.run({"compile", graph, "-o", "out", "--weights=checkpoint.safetensors"});
  CHECK(outcome.err.find("warning: the weights hold 4 more names that the graph does not take\n") !=
        std::string::npos);
  place.tensors("other.safetensors", {{"encoder.weight", ramp({1}, 0, 1)}});
  outcome =
      place.run({"run", "out", "--device=host", "--inputs=random", "--weights=other.safetensors"});
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.err == "error TSC-R124: no name in the file is a weight of the graph, "
                       "'encoder.weight' neither\n  at other.safetensors\n"
                       "  next: the graph takes 'fc.bias' and 1 more\n");
}

TEST_CASE("a compiled folder gives the numbers of its graph") {
  Workplace place;
  place.tensors("in.npz", good_inputs());
  Outcome compiled = place.run({"compile", kGraph, "-o", "out"});
  CHECK(compiled.exit_code == 0);
  CHECK(compiled.err == "");
  CHECK(compiled.out.rfind("out: 1 kernels, 1 launches, 0 library calls, ", 0) == 0);
  Outcome graph =
      place.run({"run", kGraph, "--device=host", "--inputs=in.npz", "--outputs=graph.safetensors"});
  CHECK(graph.exit_code == 0);
  Outcome folder =
      place.run({"run", "out", "--device=host", "--inputs=in.npz", "--outputs=folder.safetensors"});
  CHECK(folder.exit_code == 0);
  CHECK(testing::read_text(place.path("graph.safetensors")) ==
        testing::read_text(place.path("folder.safetensors")));
  Outcome reference = place.run({"run", "out", "--device=reference", "--inputs=in.npz"});
  CHECK(reference.exit_code == 2);
  CHECK(reference.err ==
        "error TSC-C007: the reference device runs graphs, not compiled folders\n  at out\n"
        "  next: give the graph the folder was compiled from\n");
}

TEST_CASE("a GPT-2 with its weights runs as a graph and as a folder") {
  Workplace place;
  const std::string inputs = sample("gpt2_small/inputs.npz");
  const std::string expected = sample("gpt2_small/expected.npz");
  const std::string graph = sample("gpt2_small/default.pt2");
  CHECK(place.run({"compile", graph, "-o", "out"}).exit_code == 0);
  for (const std::string &subject : {graph, std::string("out")}) {
    Outcome outcome = place.run(
        {"run", subject, "--device=host", "--inputs", inputs, "--expect", expected, "--json"});
    INFO(subject << outcome.err);
    CHECK(outcome.exit_code == 0);
    CHECK(nlohmann::json::parse(outcome.out).at("comparisons").at(0).at("agrees") == true);
  }
}

TEST_CASE("compile replaces only what it wrote itself") {
  Workplace place;
  CHECK(place.run({"compile", kGraph, "-o", "out", "--json"}).exit_code == 0);
  std::filesystem::create_directory(place.path("out/build"));
  place.file("out/build/letter.txt", "dear");
  Outcome again = place.run({"compile", kGraph, "-o", "out", "--json"});
  CHECK(again.exit_code == 0);
  CHECK(nlohmann::json::parse(again.out).at("kernels") == 1);
  CHECK(testing::read_text(place.path("out/build/letter.txt")) == "dear");
  std::filesystem::create_directory(place.path("empty"));
  CHECK(place.run({"compile", kGraph, "-o", "empty"}).exit_code == 0);
  std::filesystem::create_directory(place.path("mine"));
  place.file("mine/letter.txt", "dear");
  Outcome refused = place.run({"compile", kGraph, "-o", "mine"});
  CHECK(refused.exit_code == 2);
  CHECK(refused.out == "");
  CHECK(refused.err.rfind("error TSC-E001: there is something that tsc did not write\n", 0) == 0);
  CHECK(testing::read_text(place.path("mine/letter.txt")) == "dear");
  // Nothing written aside is left behind.
  for (const auto &entry : std::filesystem::directory_iterator(place.path(".")))
    CHECK(entry.path().filename().string().find("out.") == std::string::npos);
}

TEST_CASE("indices out of range name their operator, and nothing is read or written there") {
  Workplace place;
  tensor::HostTensor ids(tensor::DType::i64, {2, 3}), rows(tensor::DType::i64, {2});
  const auto fill = [&](std::vector<int64_t> of_ids, std::vector<int64_t> of_rows) {
    for (size_t i = 0; i < of_ids.size(); ++i)
      ids.set_int64(static_cast<int64_t>(i), of_ids[i]);
    for (size_t i = 0; i < of_rows.size(); ++i)
      rows.set_int64(static_cast<int64_t>(i), of_rows[i]);
    place.tensors("in.npz", {{"table", ramp({7, 8}, 0, 1)}, {"ids", ids}, {"rows", rows}});
  };
  const std::string next = ")\n  next: give values in that range\n";
  const std::vector<std::vector<std::string>> devices = {
      {"--device=reference"}, {"--device=host"}, {"--device=host", "--plan=cuda"}};
  for (const std::vector<std::string> &device : devices) {
    INFO(device.back());
    std::vector<std::string> run = {"run", sample("lookup.json"), "--inputs=in.npz"};
    run.insert(run.end(), device.begin(), device.end());
    fill({0, 1, 6, 3, 2, 5}, {-7, 6});
    CHECK(place.run(run).exit_code == 0);
    for (const int64_t wrong : {int64_t{7}, int64_t{-1}, INT64_MIN, INT64_MAX}) {
      fill({0, 1, wrong, 3, 2, 5}, {-7, 6});
      const Outcome outcome = place.run(run);
      CHECK(outcome.exit_code == 3);
      CHECK(outcome.err == "error TSC-R127: a value is out of range: index " +
                               std::to_string(wrong) +
                               " of input 'ids' is not in [0, 7) (node embedding" + next);
    }
    for (const int64_t wrong : {int64_t{-8}, int64_t{1} << 40}) {
      fill({0, 1, 6, 3, 2, 5}, {6, wrong});
      const Outcome outcome = place.run(run);
      CHECK(outcome.exit_code == 3);
      CHECK(outcome.err == "error TSC-R127: a value is out of range: index " +
                               std::to_string(wrong) +
                               " of input 'rows' is not in [-7, 7) (node index_put" + next);
    }
  }
}

TEST_CASE("classes and masks that do not fit are errors; take_along_dim takes any index") {
  Workplace place;
  place.file("g.json", R"({"format": "tsc-graph", "version": 1, "nodes": [
    {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": [3, 4]}},
    {"name": "i", "op": "placeholder", "val": {"dtype": "int64", "size": [1, 4]}},
    {"name": "c", "op": "placeholder", "val": {"dtype": "int64", "size": [2]}},
    {"name": "mask", "op": "placeholder", "val": {"dtype": "bool", "size": [4]}},
    {"name": "source", "op": "placeholder", "val": {"dtype": "float32", "size": [2]}},
    {"name": "along", "op": "call_function", "target": "aten.take_along_dim.default",
     "args": [{"node": "x"}, {"node": "i"}, 0]},
    {"name": "one_hot", "op": "call_function", "target": "aten.one_hot.default",
     "args": [{"node": "c"}, 3]},
    {"name": "row", "op": "call_function", "target": "aten.select.int",
     "args": [{"node": "x"}, 0, 0]},
    {"name": "masked", "op": "call_function", "target": "aten.masked_scatter.default",
     "args": [{"node": "row"}, {"node": "mask"}, {"node": "source"}]},
    {"name": "output", "op": "output",
     "args": [[{"node": "along"}, {"node": "one_hot"}, {"node": "masked"}]]}]})");
  const auto integers = [](tensor::DType dtype, std::vector<int64_t> sizes,
                           const std::vector<int64_t> &values) {
    tensor::HostTensor tensor(dtype, std::move(sizes));
    for (size_t i = 0; i < values.size(); ++i)
      tensor.set_int64(static_cast<int64_t>(i), values[i]);
    return tensor;
  };
  const auto inputs = [&](const std::vector<int64_t> &classes, const std::vector<int64_t> &mask) {
    place.tensors("in.npz", {{"x", ramp({3, 4}, 4, 1)},
                             {"i", integers(tensor::DType::i64, {1, 4}, {-4, 3, 100, 0})},
                             {"c", integers(tensor::DType::i64, {2}, classes)},
                             {"mask", integers(tensor::DType::boolean, {4}, mask)},
                             {"source", ramp({2}, 0, 1)}});
  };
  for (const char *plan : {"serial", "cuda"}) {
    const std::vector<std::string> run = {"run", "g.json",          "--device=host",    "--plan",
                                          plan,  "--inputs=in.npz", "--outputs=out.npz"};
    inputs({0, 2}, {1, 0, 0, 1});
    REQUIRE(place.run(run).exit_code == 0);
    const tensor::TensorMap outputs = tensor::read_tensors(place.path("out.npz"));
    const tensor::HostTensor x = ramp({3, 4}, 4, 1);
    const std::vector<int64_t> rows = {2, 0, 1, 0}; // as PyTorch has it: modulo the size
    for (int64_t k = 0; k < 4; ++k)
      CHECK(outputs.at("output_0").get_double(k) ==
            x.get_double(4 * rows[static_cast<size_t>(k)] + k));
    for (const int64_t wrong : {3, -1}) {
      inputs({0, wrong}, {1, 0, 0, 1});
      const Outcome outcome = place.run(run);
      CHECK(outcome.exit_code == 3);
      CHECK(outcome.err.find("error TSC-R127: ") == 0);
    }
    inputs({0, 2}, {1, 1, 0, 1}); // three places for two elements
    const Outcome outcome = place.run(run);
    CHECK(outcome.exit_code == 3);
    CHECK(outcome.err.find("error TSC-R127: ") == 0);
  }
}

TEST_CASE("reductions that lowering splits agree with those that it leaves whole") {
  // Sums, extremes and moments of 3 rows of 10007 elements: two parts, the last one masked; as
  // columns: many parts.
  std::string graph = R"({"format": "tsc-graph", "version": 1, "name": "split", "nodes": [
    {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": [3, 10007]}},
    {"name": "y", "op": "placeholder", "val": {"dtype": "float32", "size": [10007, 3]}},
    {"name": "i", "op": "placeholder", "val": {"dtype": "int32", "size": [3, 10007]}},)";
  std::string outputs, specs;
  const auto call = [&](const std::string &name, const std::string &target,
                        const std::string &arguments, bool returned = true) {
    graph += R"({"name": ")" + name + R"(", "op": "call_function", "target": ")" + target +
             R"(", "args": [)" + arguments + "]},\n";
    if (returned) {
      outputs += (outputs.empty() ? "" : ", ") + (R"({"node": ")" + name + R"("})");
      specs += (specs.empty() ? "" : ", ") +
               (R"({"kind": "user", "value": {"node": ")" + name + R"("}})");
    }
  };
  const std::string x = R"({"node": "x"})", y = R"({"node": "y"})", i = R"({"node": "i"})";
  call("sum", "aten.sum.dim_IntList", x + ", [1]");
  call("all_of_it", "aten.sum.dim_IntList", x + ", [0, 1]");
  call("columns", "aten.sum.dim_IntList", y + ", [0]");
  call("largest", "aten.amax.default", x + ", [1]");
  call("smallest", "aten.amin.default", i + ", [1]");
  call("most", "aten.amax.default", i + ", [1]");
  call("size", "aten.abs.default", x, false); // a mean that is not near zero
  call("moments", "aten.var_mean.correction", R"({"node": "size"}, [1])", false);
  call("variance", "operator.getitem", R"({"node": "moments"}, 0)");
  call("mean", "operator.getitem", R"({"node": "moments"}, 1)");
  graph += R"({"name": "output", "op": "output", "args": [[)" + outputs + R"(]]}],
    "signature": {"inputs": [{"node": "x", "kind": "user"}, {"node": "y", "kind": "user"},
      {"node": "i", "kind": "user"}], "outputs": [)" +
           specs + "]}}";
  Workplace place;
  place.file("split.json", graph);
  const std::vector<std::string> run = {"run", "split.json", "--inputs", "random:7"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), run.begin(), run.end());
    return place.run(more);
  };
  const Outcome whole = with({"--device=reference", "--outputs", "whole.safetensors"});
  REQUIRE(whole.err == "");
  const Outcome log = place.run(
      {"dump-schedule", "split.json", "--policy=inductor-2.5", "--no-code", "--stage=pre-fusion"});
  CHECK(log.out.find("masked_subblock1 = self.masked_subblock1(lt, -inf)") != std::string::npos);
  CHECK(log.out.find("'welford_combine'") != std::string::npos);
  for (const char *plan : {"serial", "cuda"}) {
    const Outcome split = with({"--device=host", std::string("--plan=") + plan,
                                "--policy=inductor-2.5", "--expect", "whole.safetensors"});
    INFO(split.out << split.err);
    CHECK(split.exit_code == 0);
  }
  const Outcome split =
      with({"--device=reference", "--policy=inductor-2.5", "--expect", "whole.safetensors"});
  INFO(split.out << split.err);
  CHECK(split.exit_code == 0);
}

TEST_CASE("another order of the groups shrinks the workspace and changes no number") {
  // Six products, then a row maximum of each: made first, all six would be alive at once. They are
  // too large for combined kernels.
  std::string nodes, sums, last;
  const auto call = [](const std::string &name, const std::string &target,
                       const std::string &args) {
    return R"({"name": ")" + name + R"(", "op": "call_function", "target": ")" + target +
           R"(", "args": )" + args + "}, ";
  };
  for (int i = 0; i < 6; ++i) {
    const std::string n = std::to_string(i);
    nodes += call("p" + n, "aten.mm.default",
                  i == 0 ? R"([{"node": "x"}, {"node": "x"}])"
                         : R"([{"node": "x"}, {"node": "y)" + n + "\"}]");
    sums += call("s" + n, "aten.amax.default", R"([{"node": "p)" + n + R"("}, [1]])");
    last += (i == 0 ? "" : ", ") + (R"({"node": "s)" + n + "\"}");
  }
  std::string inputs = R"({"name": "x", "op": "placeholder",
                           "val": {"dtype": "float32", "size": [1024, 1024]}}, )";
  for (int i = 1; i < 6; ++i)
    inputs += R"({"name": "y)" + std::to_string(i) + R"(", "op": "placeholder",
                  "val": {"dtype": "float32", "size": [1024, 1024]}}, )";
  Workplace place;
  place.file("wide.json", R"({"format": "tsc-graph", "version": 1, "name": "wide", "nodes": [)" +
                              inputs + nodes + sums +
                              R"({"name": "output", "op": "output", "args": [[)" + last + "]]}]}");
  const auto run = [&](const std::string &option) {
    const Outcome outcome = place.run({"run", "wide.json", "--inputs=random:3", "--json",
                                       "--policy-option=reorder_for_peak_memory=" + option,
                                       "--outputs=" + option + ".npz"});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return nlohmann::json::parse(outcome.out).at("workspace_bytes").get<int64_t>();
  };
  const int64_t product = 1024 * 1024 * 4;
  CHECK(run("off") >= 6 * product);
  CHECK(run("on") < 2 * product);
  CHECK(testing::read_text(place.path("on.npz")) == testing::read_text(place.path("off.npz")));
}

TEST_CASE("outputs have their paths in the model's result, and keep their numbers") {
  Workplace place;
  std::string graph = testing::linear_graph();
  const std::string end = R"("outputs": [{"kind": "user", "value": {"node": "z"}}]}})";
  graph.replace(graph.find(end), end.size(),
                R"("outputs": [{"kind": "user", "value": {"node": "z"}}],
                    "structure": {"dict": [["logits", "*"]]}}})");
  place.file("graph.json", graph);
  const std::vector<std::string> run = {"run", "graph.json", "--device=host", "--inputs=random",
                                        "--weights=random"};
  const auto with = [&](const std::vector<std::string> &more) {
    std::vector<std::string> arguments = run;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return place.run(arguments);
  };
  CHECK(with({}).out.find("\noutput_0 (logits): torch.float32 [2, 3] min ") != std::string::npos);
  REQUIRE(with({"--outputs=numbers.npz"}).exit_code == 0);
  REQUIRE(with({"--outputs=paths.npz", "--output-names=paths"}).exit_code == 0);
  const tensor::TensorMap numbers = tensor::read_tensors(place.path("numbers.npz"));
  const tensor::TensorMap paths = tensor::read_tensors(place.path("paths.npz"));
  REQUIRE(numbers.count("output_0") == 1);
  REQUIRE(paths.count("logits") == 1);
  CHECK(paths.size() == 1);
  CHECK(std::memcmp(numbers.at("output_0").data(), paths.at("logits").data(), 24) == 0);
  for (const char *file : {"numbers.npz", "paths.npz"}) {
    const Outcome outcome = with({"--expect", file});
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.out.find("output_0 (logits): agrees, ") != std::string::npos);
  }
  place.tensors("both.npz", {{"logits", paths.at("logits")}, {"output_0", paths.at("logits")}});
  CHECK(with({"--expect=both.npz"})
            .err.find("TSC-R123: the file holds 'logits', which is no output of the graph") !=
        std::string::npos);
  // A folder says the same, and so do the tables of its library.
  REQUIRE(place.run({"compile", "graph.json", "--arch=host", "--weights=random", "-o", "out"})
              .exit_code == 0);
  CHECK(place.run({"run", "out", "--device=host", "--inputs=random"})
            .out.find("\noutput_0 (logits): ") != std::string::npos);
  CHECK(testing::read_text(place.path("out/model.cpp")).find("\"logits\"") != std::string::npos);
}
