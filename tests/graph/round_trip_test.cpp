// Graph JSON holds everything: of random graphs, and of every graph in the repository.
#include "files.h"
#include "round_trip.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <random>

using namespace tsc::graph;
using tsc::testing::source_path;

namespace {

namespace fs = std::filesystem;

/// Graphs without meaning: every kind of node, argument, value, input and output, at random.
class RandomGraph {
public:
  explicit RandomGraph(unsigned seed) : random_(seed) {}

  Graph make(int depth = 0) {
    Graph graph;
    graph.name = depth == 0 && coin() ? text() : "";
    graph.stage = depth == 0 && coin() ? "post_grad" : "";
    if (depth == 0)
      for (const auto &[spelling, name] :
           {std::pair("s0", "z1"), std::pair("s1", "z0"), std::pair("u0", "")})
        graph.symbols.push_back({*tsc::symbolic::symbol_spelled(spelling), pick(5),
                                 coin() ? INT64_MAX : 5 + pick(1000), coin() ? name : ""});
    if (depth < 2)
      for (int64_t i = pick(2); i > 0; --i)
        graph.subgraphs.emplace(identifier(), make(depth + 1));
    for (int64_t i = pick(3); i > 0; --i)
      graph.weights.emplace(identifier(), constant());
    add_inputs(graph);
    add_nodes(graph);
    add_outputs(graph);
    return graph;
  }

private:
  int64_t pick(int64_t count) { // in [0, count)
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(count));
  }
  bool coin() { return pick(2) == 0; }
  template <class T> T one_of(std::initializer_list<T> values) {
    return values.begin()[pick(static_cast<int64_t>(values.size()))];
  }

  std::string identifier() { return "n" + std::to_string(counter_++); }
  std::string text() {
    return one_of<std::string>({"", "mean", "a \"quoted\" text", "two\nlines\t\\", "\x01\x1f",
                                "ä→𝄞", "{\"node\": \"x\"}", "null"});
  }
  double number() {
    return one_of({0.0, -0.0, 1.0, 0.1, 1e-300, 1.7976931348623157e308, 5e-324, 123456789.125,
                   std::numeric_limits<double>::infinity(),
                   -std::numeric_limits<double>::infinity(),
                   std::numeric_limits<double>::quiet_NaN()});
  }
  int64_t integer() {
    return one_of<int64_t>({0, 1, -1, 7, INT64_MAX, INT64_MIN, int64_t{1} << 53});
  }
  DType dtype() { return static_cast<DType>(pick(static_cast<int64_t>(DType::c128) + 1)); }
  Device device() {
    Device device;
    device.type = one_of({tsc::tensor::DeviceType::cpu, tsc::tensor::DeviceType::cuda,
                          tsc::tensor::DeviceType::meta});
    device.index = device.type == tsc::tensor::DeviceType::cuda ? static_cast<int>(pick(3)) : 0;
    return device;
  }
  Expr expression() {
    using tsc::symbolic::symbol;
    using tsc::symbolic::SymbolSort;
    Expr s0 = symbol(SymbolSort::size, 0), s1 = symbol(SymbolSort::size, 1),
         u0 = symbol(SymbolSort::data, 0);
    return one_of<Expr>({s0, 4 * s1 + 1, s0 * s1, tsc::symbolic::floor_div(s0 + 3, 2),
                         tsc::symbolic::mod(u0, 7), tsc::symbolic::maximum(s0, s1),
                         tsc::symbolic::minimum(s0, Expr(5)),
                         tsc::symbolic::modular_index(s0, 2, 3)});
  }
  Expr size() { return coin() ? Expr(pick(9)) : expression(); }

  tsc::tensor::HostTensor constant() {
    tsc::tensor::HostTensor tensor(dtype(), {pick(3), pick(4)});
    bool boolean = tensor.dtype() == DType::boolean;
    for (size_t i = 0; i < tensor.size_in_bytes(); ++i) // no NaN: exponents stay small
      tensor.data()[i] = static_cast<std::byte>(boolean ? pick(2) : pick(0x40));
    return tensor;
  }

  TensorMeta meta() {
    TensorMeta meta;
    meta.dtype = dtype();
    for (int64_t i = pick(4); i > 0; --i) {
      meta.layout.sizes.push_back(size());
      meta.layout.strides.push_back(size());
    }
    if (coin())
      meta.layout.strides = tsc::tensor::contiguous_strides(meta.layout.sizes);
    meta.layout.offset = coin() ? Expr(0) : size();
    meta.device = device();
    meta.requires_grad = coin();
    return meta;
  }

  Value value(int depth = 0) {
    switch (pick(depth < 2 ? 8 : 7)) {
    case 0:
      return Value{None{}};
    case 1:
      return Value{size()};
    case 2:
      return Value{number()};
    case 3:
      return Value{coin()};
    case 4:
      return Value{text()};
    case 5:
      return Value{CustomObject{"", text()}};
    case 6:
      return Value{meta()};
    default:
      break;
    }
    Value::List list;
    for (int64_t i = pick(3); i > 0; --i)
      list.push_back(value(depth + 1));
    return Value{std::move(list)};
  }

  Argument argument(const Graph &graph, int depth = 0) {
    switch (pick(depth < 3 ? 16 : 14)) {
    case 0:
      return None{};
    case 1:
      return coin();
    case 2:
      return integer();
    case 3:
      return number();
    case 4:
      return text();
    case 5:
      return expression();
    case 6:
      return dtype();
    case 7:
      return device();
    case 8:
      return one_of({MemoryFormat::contiguous, MemoryFormat::channels_last,
                     MemoryFormat::channels_last_3d, MemoryFormat::preserve});
    case 9:
      return TensorLayoutKind{one_of<std::string>({"torch.strided", "torch.sparse_coo"})};
    case 10:
      return Complex{number(), number()};
    case 11:
      return CustomObject{identifier(), text()};
    case 12:
      if (!graph.subgraphs.empty())
        return GraphRef{graph.subgraphs.begin()->first};
      [[fallthrough]];
    case 13:
      if (!graph.nodes.empty())
        return NodeRef{static_cast<NodeId>(pick(static_cast<int64_t>(graph.nodes.size())))};
      return None{};
    case 14: {
      Argument::Dictionary dictionary;
      for (int64_t i = pick(3); i > 0; --i)
        dictionary.entries.emplace_back(text() + std::to_string(i), argument(graph, depth + 1));
      return dictionary;
    }
    default:
      break;
    }
    Argument::List list;
    for (int64_t i = pick(4); i > 0; --i)
      list.push_back(argument(graph, depth + 1));
    return list;
  }

  void add_inputs(Graph &graph) {
    for (int64_t i = pick(5); i > 0; --i) {
      Node node;
      node.kind = NodeKind::placeholder;
      node.name = node.target = identifier();
      node.origins = {node.name};
      node.value = value();
      InputSpec input;
      input.kind = static_cast<InputKind>(pick(6));
      input.node = static_cast<NodeId>(graph.nodes.size());
      if (input.kind != InputKind::user && input.kind != InputKind::token)
        input.target = input.kind == InputKind::constant_tensor && !graph.weights.empty()
                           ? graph.weights.begin()->first
                           : identifier();
      input.persistent = coin();
      if (input.kind == InputKind::user && coin())
        input.constant = argument({});
      graph.inputs.push_back(std::move(input));
      graph.nodes.push_back(std::move(node));
    }
  }

  void add_nodes(Graph &graph) {
    for (int64_t i = pick(8); i > 0; --i) {
      Node node;
      node.name = identifier();
      node.origins =
          coin() ? std::vector<std::string>{node.name} : std::vector<std::string>{"a", text()};
      node.target =
          one_of<std::string>({"aten.add.Tensor", "operator.getitem", "higher_order.cond"});
      if (coin() && !(graph.weights.empty() && graph.subgraphs.empty())) {
        node.kind = NodeKind::get_attr;
        node.target =
            graph.weights.empty() ? graph.subgraphs.begin()->first : graph.weights.begin()->first;
      }
      for (int64_t k = pick(4); k > 0; --k)
        node.args.push_back(argument(graph));
      for (int64_t k = pick(3); k > 0; --k)
        node.kwargs.emplace_back("k" + std::to_string(k), argument(graph));
      if (coin())
        node.value = value();
      node.stack_trace = text();
      node.nn_module_stack = text();
      graph.nodes.push_back(std::move(node));
    }
  }

  void add_outputs(Graph &graph) {
    Argument::List results;
    for (int64_t i = pick(4); i > 0; --i) {
      OutputSpec output;
      output.value = argument(graph);
      output.kind = one_of({OutputKind::user, OutputKind::token, OutputKind::loss});
      for (const InputSpec &input : graph.inputs)
        if (input.kind == InputKind::buffer && coin()) {
          output.kind = OutputKind::buffer_mutation;
          output.target = input.target;
        }
      results.push_back(output.value);
      graph.outputs.push_back(std::move(output));
    }
    Node node;
    node.kind = NodeKind::output;
    node.name = identifier();
    node.origins = {node.name};
    node.target = "output";
    bool single = results.size() == 1 && !results[0].list() && coin();
    node.args = {single ? results[0] : Argument(std::move(results))};
    graph.nodes.push_back(std::move(node));
  }

  std::mt19937_64 random_;
  int counter_ = 0;
};

} // namespace

TEST_CASE("random graphs of every kind of node, argument, value, input and output survive") {
  for (unsigned seed = 0; seed < 500; ++seed) {
    INFO("seed " << seed);
    Graph graph = RandomGraph(seed).make();
    INFO(to_json(graph));
    check_round_trip(graph);
  }
}

TEST_CASE("every graph in the repository survives") {
  size_t graphs = 0;
  for (const char *folder : {"graphs", "tests/graph/data"})
    for (const fs::path path : tsc::testing::source_files(folder)) {
      const std::string name = path.filename().string();
      if (path.extension() != ".pt2" && name != "model.json" && name.rfind("seed_", 0) != 0)
        continue;
      INFO(path.string());
      check_round_trip(read_graph(path.string()));
      ++graphs;
    }
  CHECK(graphs >= 50);
}
