// Archives that PyTorch 2.8 to 2.11 wrote (scripts/record/export_archives.py), read and compared
// with what each PyTorch says of them.
#include "files.h"
#include "graph/read.h"
#include "support/diagnostic.h"
#include "tensor/mapped_file.h"
#include "testing/catch.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace tsc::graph;
using tsc::tensor::HostTensor;
using tsc::testing::file_text;
using tsc::testing::source_path;

namespace {

namespace fs = std::filesystem;

const char *kVersions[] = {"2.8", "2.9", "2.10", "2.11"};

std::vector<std::string> programs(const std::string &version) {
  std::vector<std::string> names;
  for (const fs::path path : tsc::testing::source_files("tests/graph/data/" + version))
    if (path.extension() == ".pt2")
      names.push_back(path.stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string data_path(const std::string &version, const std::string &name) {
  return "tests/graph/data/" + version + "/" + name;
}

/// Elements as doubles in row-major order; real and imaginary parts of complex ones.
std::vector<double> elements(const HostTensor &tensor) {
  std::vector<double> values;
  if (tsc::tensor::is_complex(tensor.dtype())) {
    HostTensor dense = tensor.contiguous();
    for (int64_t i = 0; i < 2 * dense.numel(); ++i)
      values.push_back(reinterpret_cast<const float *>(dense.data())[i]);
    return values;
  }
  for (int64_t i = 0; i < tensor.numel(); ++i)
    values.push_back(tensor.get_double(i));
  return values;
}

void check_tensor(const HostTensor &tensor, const nlohmann::json &expected) {
  CHECK(tsc::tensor::torch_name(tensor.dtype()) ==
        "torch." + expected.at("dtype").get<std::string>());
  CHECK(tensor.sizes() == expected.at("sizes").get<std::vector<int64_t>>());
  if (tensor.numel() > 0) // an empty tensor's strides say nothing
    CHECK(tensor.strides() == expected.at("strides").get<std::vector<int64_t>>());
  std::vector<double> values = elements(tensor);
  REQUIRE(values.size() == expected.at("data").size());
  for (size_t i = 0; i < values.size(); ++i) {
    const nlohmann::json &value = expected.at("data")[i];
    CHECK(values[i] == (value.is_string() ? INFINITY : value.get<double>()));
  }
}

/// True if `pointer` lies in memory that is mapped from `path`.
bool is_mapped_from(const void *pointer, const std::string &path) {
  std::ifstream maps("/proc/self/maps");
  std::string line, name = fs::path(path).filename().string();
  while (std::getline(maps, line)) {
    std::istringstream fields(line);
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    fields >> std::hex >> begin >> dash >> end;
    auto at = reinterpret_cast<uintptr_t>(pointer);
    if (at >= begin && at < end)
      return line.size() > name.size() &&
             line.compare(line.size() - name.size(), name.size(), name) == 0;
  }
  return false;
}

} // namespace

TEST_CASE("archives of PyTorch 2.8 to 2.11 give the text that torch.export.load gives") {
  size_t compared = 0;
  for (const char *version : kVersions)
    for (const std::string &name : programs(version)) {
      INFO(version << " " << name);
      Graph graph = read_graph(source_path(data_path(version, name) + ".pt2"));
      // PyTorch cannot load every program that it saves (regions of autocast without results).
      if (!fs::exists(source_path(data_path(version, name) + ".txt")))
        continue;
      CHECK(to_text(graph) == file_text(data_path(version, name) + ".txt"));
      ++compared;
    }
  CHECK(compared == 37);
}

TEST_CASE("weights of an archive that is mapped are not copied") {
  const std::string path = source_path("graphs/zoo/bert/default.pt2"); // small files are read
  REQUIRE(fs::file_size(path) > tsc::tensor::MappedFile::kReadBytes);
  size_t weights = 0;
  for (const auto &[name, tensor] : read_graph(path).weights) {
    INFO(name);
    CHECK(is_mapped_from(tensor.data(), path));
    ++weights;
  }
  CHECK(weights > 30);
}

TEST_CASE("archives of PyTorch 2.8 to 2.11 give the weights that were saved") {
  for (const char *version : kVersions) {
    auto all = nlohmann::json::parse(file_text(data_path(version, "weights.json")));
    for (const std::string &name : programs(version)) {
      std::string path = source_path(data_path(version, name) + ".pt2");
      Graph graph = read_graph(path);
      const nlohmann::json &expected = all.at(name);
      CHECK(graph.weights.size() == expected.size());
      for (const auto &entry : graph.weights) {
        INFO(version << " " << name << " " << entry.first);
        REQUIRE(expected.contains(entry.first));
        check_tensor(entry.second, expected.at(entry.first));
      }
    }
    Graph graph = read_graph(source_path(data_path(version, "weights.pt2")));
    CHECK(graph.weights.at("first.weight").data() == graph.weights.at("second.weight").data());
    CHECK(graph.weights.at("spread").strides() == std::vector<int64_t>{0, 0});
    // One storage: values[12:] and column 1 of values as [6, 4].
    CHECK(graph.weights.at("tail").data() - graph.weights.at("column").data() == 11 * 4);
  }
}

TEST_CASE("the signature of a program with inputs and outputs of every kind") {
  for (const char *version : kVersions) {
    INFO(version);
    Graph graph = read_graph(source_path(data_path(version, "nested.pt2")));
    std::vector<std::string> inputs;
    for (const InputSpec &input : graph.inputs) {
      CHECK(input.kind == InputKind::user);
      inputs.push_back(graph.node(input.node).name);
    }
    CHECK(inputs == std::vector<std::string>{"x", "table_a", "table_b", "parts_0", "parts_1_0",
                                             "nothing", "flag", "mode"});
    CHECK(graph.inputs[4].constant == std::nullopt);
    CHECK(graph.inputs[5].constant == Argument(None{}));
    CHECK(graph.inputs[6].constant == Argument(false));
    CHECK(graph.inputs[7].constant == Argument("max"));
    REQUIRE(graph.outputs.size() == 9);
    CHECK(graph.outputs[2].value == Argument(None{}));
    CHECK(graph.outputs[3].value == Argument(3));
    CHECK(graph.outputs[5].value == Argument(2.5));
    CHECK(graph.outputs[6].value == Argument(false));
    CHECK(graph.outputs[8].value == Argument(None{}));
  }
}

TEST_CASE("mutations and gradients are in the signature") {
  for (const char *version : {"2.8", "2.11"}) {
    INFO(version);
    Graph written = read_graph(source_path(data_path(version, "mutation.pt2")));
    CHECK(written.outputs.size() == 1); // the default form writes in place
    Graph functional = read_graph(source_path(data_path(version, "mutation_functional.pt2")));
    REQUIRE(functional.outputs.size() == 4);
    CHECK(functional.outputs[0].kind == OutputKind::buffer_mutation);
    CHECK(functional.outputs[0].target == "count");
    CHECK(functional.outputs[1].kind == OutputKind::buffer_mutation);
    CHECK(functional.outputs[1].target == "cache");
    CHECK(functional.outputs[2].kind == OutputKind::input_mutation);
    CHECK(functional.outputs[2].target == "x");
    CHECK(functional.outputs[3].kind == OutputKind::user);
    Graph gradients = read_graph(source_path(data_path(version, "gradients.pt2")));
    REQUIRE(gradients.outputs.size() == 3);
    CHECK(gradients.outputs[0].kind == OutputKind::loss);
    CHECK(gradients.outputs[1].kind == OutputKind::gradient);
    CHECK(gradients.outputs[1].target == "linear.weight");
    CHECK(gradients.outputs[2].target == "linear.bias");
  }
}

TEST_CASE("symbols of dynamic programs, and only those of integers") {
  for (const char *version : kVersions) {
    INFO(version);
    Graph graph = read_graph(source_path(data_path(version, "dynamic.pt2")));
    const TensorMeta &x = *graph.nodes[0].value->tensor(), &y = *graph.nodes[1].value->tensor();
    CHECK(x.layout.sizes[0].is_symbol());
    CHECK(y.layout.sizes[0] == 2 * x.layout.sizes[0]);
    CHECK(graph.ranges().interval_of(x.layout.sizes[0]) == tsc::symbolic::Interval{2, 100});
    Expr n = std::get<Expr>(graph.nodes[2].value->value);
    CHECK(n.is_symbol());
    CHECK(graph.ranges().interval_of(n).low == 0);
    CHECK(graph.symbols.size() == 3); // with the data's u0
  }
}

TEST_CASE("every recorded program survives graph JSON") {
  for (const char *version : kVersions)
    for (const std::string &name : programs(version)) {
      INFO(version << " " << name);
      Graph graph = read_graph(source_path(data_path(version, name) + ".pt2"));
      std::string json = to_json(graph);
      Graph again = parse_graph(json, "again");
      CHECK(again == graph);
      CHECK(to_json(again) == json);
      CHECK(to_text(again) == to_text(graph));
    }
}
