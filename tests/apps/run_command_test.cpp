// tsc run and tsc compile: numbers, files, and everything that can be wrong with inputs.
#include "tsc_process.h"

#include "testing/catch.h"

#include <nlohmann/json.hpp>

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

TEST_CASE("a file to compare with must hold every output") {
  Workplace place;
  place.tensors("other.npz", {{"output_7", row_sums()}});
  Outcome outcome =
      place.run({"run", kGraph, "--device=host", "--inputs=random", "--expect=other.npz"});
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.out == "");
  CHECK(outcome.err == "error TSC-R123: no expected values for: output_0\n  at other.npz\n"
                       "  next: the graph gives: output_0\n");
}

TEST_CASE("inputs that do not fit are refused with both sides") {
  Workplace place;
  place.tensors("one.npz", {{"input_0", ramp(kShape, 0, 1)}});
  check_refused(place, "one.npz",
                "error TSC-R121: inputs are missing: arg1_1 (or input_1)\n  at one.npz\n"
                "  next: the file holds: input_0\n");
  place.tensors("names.npz", {{"left", ramp(kShape, 0, 1)}, {"right", ramp(kShape, 0, 1)}});
  check_refused(place, "names.npz",
                "error TSC-R121: inputs are missing: arg0_1 (or input_0), arg1_1 (or input_1)\n"
                "  at names.npz\n  next: the file holds: left, right\n");
  tensor::TensorMap many = good_inputs();
  many["input_2"] = ramp({1}, 0, 1);
  place.tensors("many.npz", many);
  check_refused(place, "many.npz",
                "error TSC-R121: the inputs hold 'input_2', which the graph does not take\n"
                "  at many.npz\n  next: the graph takes: arg0_1, arg1_1\n");
  // Rank and dtype of different inputs: both in one report.
  place.tensors("kinds.npz", {{"input_0", ramp({8192}, 0, 1)},
                              {"input_1", tensor::HostTensor(tensor::DType::f64, kShape)}});
  check_refused(place, "kinds.npz",
                "error TSC-R112: input 'arg0_1' is [8192], the graph takes [64, 128]\n"
                "  next: give a tensor of this shape, or export the graph with dynamic shapes\n"
                "error TSC-R111: input 'arg1_1' is torch.float64, the graph takes torch.float32\n"
                "  next: convert it before it is saved\n");
  place.tensors("size.npz", {{"input_0", ramp({5, 128}, 0, 1)}, {"input_1", ramp(kShape, 0, 1)}});
  check_refused(place, "size.npz",
                "error TSC-R112: input 'arg0_1' is [5, 128], the graph takes [64, 128]\n"
                "  next: give a tensor of this shape, or export the graph with dynamic shapes\n");
  check_refused(place, "absent.npz",
                "error TSC-T002: cannot read the file: No such file or directory\n"
                "  at absent.npz\n");
}

TEST_CASE("the reference device refuses inputs of another dtype") {
  Workplace place;
  place.tensors("wide.npz", {{"input_0", ramp(kShape, 0, 1)},
                             {"input_1", tensor::HostTensor(tensor::DType::f64, kShape)}});
  Outcome outcome = place.run({"run", kGraph, "--device=reference", "--inputs=wide.npz"});
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.out == "");
  CHECK(outcome.err ==
        "error TSC-R111: input 'arg1_1' is torch.float64, the graph takes torch.float32\n"
        "  next: convert it before it is saved\n");
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

TEST_CASE("a weight that does not fit is refused with both sides") {
  Workplace place;
  place.tensors("w.safetensors", {{"model.lm_head.weight", ramp({509, 63}, 0, 1)}});
  Outcome outcome = place.run({"run", sample("gpt2_small/default.pt2"), "--device=host", "--inputs",
                               sample("gpt2_small/inputs.npz"), "--weights", "w.safetensors"});
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.out == "");
  CHECK(outcome.err ==
        "error TSC-R122: weight 'model.lm_head.weight' is torch.float32 [509, 63], the graph has "
        "torch.float32 [509, 64]\n  at w.safetensors\n"
        "  next: give a weight of that dtype and shape\n");
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
  place.file("out/left_over.txt", "old");
  Outcome again = place.run({"compile", kGraph, "-o", "out", "--json"});
  CHECK(again.exit_code == 0);
  CHECK(nlohmann::json::parse(again.out).at("kernels") == 1);
  CHECK_FALSE(std::filesystem::exists(place.path("out/left_over.txt")));
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
