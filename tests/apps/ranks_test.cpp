// tsc run --world-size: graphs whose ranks exchange data.
#include "tsc_process.h"

#include "testing/catch.h"

#include <algorithm>

using namespace tsc;
using testing::Outcome;
using testing::ramp;
using testing::sample;
using testing::Workplace;

namespace {

struct Case {
  std::string name;
  int ranks, layers;
};
const Case kCases[] = {{"bf16", 2, 3},
                       {"uneven", 3, 2},
                       {"sum", 2, 4},
                       {"one_rank", 1, 1},
                       {"more_ranks_than_rows", 4, 2}};

std::string file(const std::string &name, const std::string &part) {
  return std::string(TSC_SOURCE_DIR) + "/tests/cases/fsdp/" + name + "/" + part;
}

std::vector<std::string> run_of(const Case &c, const std::vector<std::string> &more) {
  std::vector<std::string> arguments = {"run",          file(c.name, "graph.json"),
                                        "--inputs",     file(c.name, "inputs.safetensors"),
                                        "--expect",     file(c.name, "expected.safetensors"),
                                        "--world-size", std::to_string(c.ranks)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

size_t count(const std::string &text, const std::string &part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

} // namespace

TEST_CASE("gradients of FSDP graphs are PyTorch's on every rank") {
  Workplace place;
  const std::vector<std::vector<std::string>> devices = {
      {"--device=reference"},
      {"--device=host"},
      {"--device=host", "--plan=cuda"},
      {"--device=host", "--policy=inductor-2.5"}};
  for (const Case &c : kCases) {
    for (const std::vector<std::string> &device : devices) {
      const Outcome outcome = place.run(run_of(c, device));
      INFO(c.name << " " << device.back() << "\n" << outcome.out << outcome.err);
      CHECK(outcome.exit_code == 0);
      CHECK(outcome.err == "");
      // A gradient and a whole weight a layer on each rank.
      CHECK(count(outcome.out, ": agrees, ") == static_cast<size_t>(2 * c.layers * c.ranks));
    }
  }
}

TEST_CASE("activations of a forward graph are PyTorch's on every rank") {
  Workplace place;
  for (const char *device : {"--device=reference", "--device=host"}) {
    const Outcome outcome = place.run(run_of({"forward", 2, 3}, {device}));
    INFO(device << "\n" << outcome.out << outcome.err);
    CHECK(outcome.exit_code == 0);
    CHECK(count(outcome.out, ": agrees, ") == 2 * (7 + 3)); // results, and whole weights
  }
}

TEST_CASE("collectives of every kind give PyTorch's numbers on every rank") {
  struct Recorded {
    std::string name;
    int ranks;
    size_t outputs;
    std::string groups;
    std::string file = "graph.json";
  };
  const Recorded cases[] = {{"reductions", 3, 39, ""},
                            {"forms", 3, 16, ""},
                            {"tensor_parallel", 2, 3, ""},
                            {"mesh", 4, 4, "--mesh=dp=2,tp=2"},
                            {"mesh", 4, 4, "--group=tp=0,1/2,3"},
                            {"experts", 4, 2, ""},
                            {"routing", 2, 1, "", "graph.pt2"}};
  Workplace place;
  for (const Recorded &c : cases)
    for (const std::vector<std::string> &device : std::vector<std::vector<std::string>>{
             {"--device=reference"}, {"--device=host"}, {"--device=host", "--plan=cuda"}}) {
      const std::string folder = TSC_UNPACKED_DIR "/tests/cases/collectives/" + c.name + "/";
      std::vector<std::string> words = {"run",          folder + c.file,
                                        "--inputs",     folder + "inputs.safetensors",
                                        "--expect",     folder + "expected.safetensors",
                                        "--world-size", std::to_string(c.ranks)};
      words.insert(words.end(), device.begin(), device.end());
      if (!c.groups.empty())
        words.push_back(c.groups);
      if (c.groups.rfind("--group", 0) == 0)
        words.push_back("--group=dp=0,2/1,3");
      const Outcome outcome = place.run(words);
      INFO(c.name << " " << device.back() << "\n" << outcome.out << outcome.err);
      CHECK(outcome.exit_code == 0);
      CHECK(count(outcome.out, ": agrees, ") == c.outputs * static_cast<size_t>(c.ranks));
    }
}

TEST_CASE("products and collectives in pieces give PyTorch's numbers on every rank") {
  struct Recorded {
    std::string name;
    size_t outputs;
    std::vector<std::string> told; // of explain
  };
  const Recorded cases[] = {
      {"tensor_parallel", 3, {"n6 and n7 run in 2 pieces", "n13 and n14 run in 2 pieces"}},
      {"products_in_pieces",
       5,
       {"n9, n11 and n5 run in 2 pieces", "n14 and n15 run in 2 pieces",
        "n22 and n19 run in 2 pieces", "n24 and n26 run in 2 pieces",
        "n28 and n31 run in 2 pieces"}}};
  Workplace place;
  for (const Recorded &c : cases) {
    const std::string folder = TSC_UNPACKED_DIR "/tests/cases/collectives/" + c.name + "/";
    const std::vector<std::string> pieces = {"--policy-option=product_pieces=3",
                                             "--policy-option=product_pieces_percent=1000000"};
    for (const std::vector<std::string> &device : std::vector<std::vector<std::string>>{
             {"--device=reference"}, {"--device=host"}, {"--device=host", "--plan=cuda"}}) {
      std::vector<std::string> words = {"run",           folder + "graph.json",
                                        "--inputs",      folder + "inputs.safetensors",
                                        "--expect",      folder + "expected.safetensors",
                                        "--world-size=2"};
      words.insert(words.end(), device.begin(), device.end());
      words.insert(words.end(), pieces.begin(), pieces.end());
      const Outcome outcome = place.run(words);
      INFO(c.name << " " << device.back() << "\n" << outcome.out << outcome.err);
      CHECK(outcome.exit_code == 0);
      CHECK(count(outcome.out, ": agrees, ") == 2 * c.outputs);
    }
    std::vector<std::string> words = {"explain", folder + "graph.json", "--arch=sm_90"};
    words.insert(words.end(), pieces.begin(), pieces.end());
    const Outcome told = place.run(words);
    INFO(told.out << told.err);
    for (const std::string &text : c.told)
      CHECK(told.out.find(text) != std::string::npos);
  }
}

TEST_CASE("products are cut where pieces are expected to hide what is sent") {
  // Half of the terms of a layer on each of two ranks; then a product that could run beside the
  // sum.
  const auto graph = [](const std::string &rows, bool beside) {
    const auto tensor = [](const std::string &name, const std::string &sizes) {
      return R"({"name": ")" + name + R"(", "op": "placeholder", "val": {"dtype": "bfloat16", )" +
             R"("size": [)" + sizes + R"(], "device": "cpu"}},)";
    };
    const auto call = [](const std::string &name, const std::string &target,
                         const std::string &arguments) {
      return R"({"name": ")" + name + R"(", "op": "call_function", "target": ")" + target +
             R"(", "args": [)" + arguments + "]},";
    };
    const auto node = [](const std::string &name) { return R"({"node": ")" + name + "\"}"; };
    return R"({"format": "tsc-graph", "version": 1, "name": "layer", "nodes": [)" +
           tensor("x", rows + ", 4096") + tensor("w", "4096, 8192") + tensor("v", "8192, 4096") +
           call("product", "aten.mm.default", node("x") + "," + node("w")) +
           call("sum", "_c10d_functional.all_reduce.default", node("product") + R"(, "sum", "0")") +
           (beside ? call("other", "aten.mm.default", node("w") + "," + node("v")) : "") +
           call("done", "_c10d_functional.wait_tensor.default", node("sum")) +
           R"({"name": "output", "op": "output", "args": [[)" + node("done") +
           (beside ? "," + node("other") : "") + "]]}]}";
  };
  Workplace place;
  const auto told = [&](const std::string &rows, bool beside) {
    const Outcome outcome = place.run({"explain", place.file("layer.json", graph(rows, beside)),
                                       "--arch=sm_90", "--policy-option=product_pieces=4"});
    INFO(outcome.err);
    CHECK(outcome.exit_code == 0);
    return outcome.out;
  };
  const auto says = [&](const std::string &rows, bool beside, const std::string &text) {
    const std::string out = told(rows, beside);
    INFO(out);
    CHECK(out.find(text) != std::string::npos);
  };
  says("8192", false, "product and sum run in 4 pieces");
  says("8192", true, "product and sum stay whole");
  says("64", false, "product and sum stay whole");
}

TEST_CASE("ranks differ in what they get, and agree on what they gather") {
  Workplace place;
  const Case &c = kCases[0];
  const Outcome outcome = place.run(run_of(c, {"--device=host", "--outputs=out.safetensors"}));
  REQUIRE(outcome.exit_code == 0);
  const tensor::TensorMap outputs = tensor::read_tensors(place.path("out.safetensors"));
  CHECK(outputs.size() == 12);
  const auto same = [&](const std::string &name) {
    const tensor::HostTensor &a = outputs.at("rank_0/" + name), &b = outputs.at("rank_1/" + name);
    for (int64_t i = 0; i < a.numel(); ++i)
      if (a.get_double(i) != b.get_double(i))
        return false;
    return true;
  };
  CHECK_FALSE(same("output_0"));
  CHECK_FALSE(same("output_2"));
  CHECK(same("mutated_arg2_1"));
  CHECK(same("mutated_arg7_1"));
}

TEST_CASE("the sample of two ranks runs on random inputs, which differ") {
  Workplace place;
  const Outcome outcome =
      place.run({"run", sample("seed_001.json"), "--world-size=2", "--device=host"});
  INFO(outcome.out << outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(count(outcome.out, "rank_0/output_") == 3);
  CHECK(count(outcome.out, "rank_1/mutated_arg") == 3);
}

TEST_CASE("the number of ranks is the graph's") {
  Workplace place;
  const auto refused = [&](const std::vector<std::string> &arguments, int code,
                           const std::string &text) {
    const Outcome outcome = place.run(arguments);
    CHECK(outcome.exit_code == code);
    CHECK(outcome.out == "");
    CHECK(outcome.err == text);
  };
  const std::string graph = sample("seed_001.json"), plain = sample("seed_004.json");
  refused({"run", graph, "--inputs=random", "--device=host"}, 2,
          "error TSC-C011: the graph communicates among 2 ranks, and --world-size is not given\n"
          "  next: give --world-size 2\n");
  refused({"run", graph, "--inputs=random", "--device=reference", "--world-size=3"}, 2,
          "error TSC-C011: the graph communicates among 2 ranks, and --world-size is 3\n"
          "  next: give --world-size 2\n");
  refused({"run", plain, "--inputs=random", "--device=host", "--world-size=2"}, 2,
          "error TSC-C011: the graph has no collectives, and --world-size is 2\n"
          "  next: leave --world-size out\n");
}

TEST_CASE("a compiled folder runs its ranks too") {
  Workplace place;
  const Case &c = kCases[1];
  REQUIRE(place.run({"compile", file(c.name, "graph.json"), "-o", "out"}).exit_code == 0);
  const Outcome outcome =
      place.run({"run", "out", "--inputs", file(c.name, "inputs.safetensors"), "--expect",
                 file(c.name, "expected.safetensors"), "--world-size=3", "--device=host"});
  INFO(outcome.out << outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(count(outcome.out, ": agrees, ") == 12);
}

TEST_CASE("a program of several ranks is not verified by itself") {
  Workplace place;
  const testing::Outcome outcome = place.run({"verify", sample("seed_001.json"), "--device=host"});
  CHECK(outcome.exit_code == 4);
  CHECK(outcome.out == "");
  CHECK(outcome.err == "error TSC-C029: a program that communicates is not verified by itself\n"
                       "  next: compare its ranks with tsc run --expect\n");
}
