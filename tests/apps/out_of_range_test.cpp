// Values that only a run knows, out of the range that their operator takes: one message, whatever
// the device, and nothing said where PyTorch says nothing.
#include "tsc_process.h"

#include "testing/catch.h"
#include "testing/skip.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace tsc;
using tensor::DType;
using tensor::HostTensor;
using testing::Outcome;
using testing::Workplace;

namespace {

HostTensor tensor_of(DType dtype, std::vector<int64_t> sizes, const std::vector<double> &values) {
  HostTensor tensor(dtype, std::move(sizes));
  for (size_t i = 0; i < values.size(); ++i)
    tensor.set_double(static_cast<int64_t>(i), values[i]);
  return tensor;
}

/// A graph in the making: placeholders, calls, and every call's (first) result as an output.
struct GraphText {
  std::string placeholders, nodes, outputs, more;
  tensor::TensorMap inputs;

  void input(const std::string &name, const HostTensor &value,
             const std::string &sizes = std::string()) {
    std::string list;
    for (const int64_t size : value.sizes())
      list += (list.empty() ? "" : ", ") + std::to_string(size);
    placeholders += R"({"name": ")" + name + R"(", "op": "placeholder", "val": {"dtype": ")" +
                    std::string(tensor::torch_name(value.dtype())).substr(6) + R"(", "size": )" +
                    (sizes.empty() ? "[" + list + "]" : sizes) + "}},\n";
    inputs[name] = value;
  }
  void call(const std::string &name, const std::string &target, const std::string &arguments,
            const std::string &rest = std::string(), bool returned = true) {
    nodes += R"({"name": ")" + name + R"(", "op": "call_function", "target": ")" + target +
             R"(", "args": [)" + arguments + "]" + rest + "},\n";
    if (returned)
      outputs += (outputs.empty() ? "" : ", ") + (R"({"node": ")" + name + R"("})");
  }
  std::string text() const {
    return R"({"format": "tsc-graph", "version": 1, )" + more + R"("nodes": [)" + placeholders +
           nodes + R"({"name": "output", "op": "output", "args": [[)" + outputs + "]]}]}";
  }
};
std::string node(const std::string &name) { return R"({"node": ")" + name + R"("})"; }

struct Wrong {
  std::string input;
  int64_t position;
  double value;
  std::string message; // "index 9 of input 'i' is not in [0, 3) (node gather)"
};

/// A graph, its inputs as they are right, what it then gives (as far as that is written down), and
/// what is wrong with other inputs.
struct Table {
  GraphText graph;
  std::vector<Wrong> cases;
  std::map<std::string, std::vector<double>> results; // by output

  void wrong(const std::string &input, int64_t position, double value, const std::string &text,
             const std::string &name) {
    cases.push_back({input, position, value, text + " (node " + name + ")"});
  }
  /// The call's result, which is to be returned, is `values`.
  void gives(const std::vector<double> &values) {
    const auto count = std::count(graph.outputs.begin(), graph.outputs.end(), '{');
    results["output_" + std::to_string(count - 1)] = values;
  }
};

using Device = std::vector<std::string>; // arguments that choose it
const std::vector<Device> kDevices = {
    {"--device=reference"}, {"--device=host"}, {"--device=host", "--plan=cuda"}};

/// Runs the graph with the inputs as they are, then with one value changed. False if there is no
/// such device.
bool check_runs(const Table &table, const std::vector<Device> &devices) {
  const GraphText &graph = table.graph;
  Workplace place;
  place.file("g.json", graph.text());
  place.tensors("good.safetensors", graph.inputs);
  for (const Device &device : devices) {
    const auto run = [&](const std::string &inputs) {
      std::vector<std::string> arguments = {"run", "g.json", "--inputs", inputs,
                                            "--outputs=out.npz"};
      arguments.insert(arguments.end(), device.begin(), device.end());
      return place.run(arguments);
    };
    const Outcome good = run("good.safetensors");
    INFO(device.back());
    if (good.err.find("error TSC-R020") == 0) { // CUDA cannot be used
      testing::skip(good.err);
      return false;
    }
    {
      INFO(good.err);
      REQUIRE(good.exit_code == 0);
    }
    const tensor::TensorMap outputs = tensor::read_tensors(place.path("out.npz"));
    for (const auto &[name, values] : table.results)
      for (size_t i = 0; i < values.size(); ++i) {
        INFO(name << " " << i);
        CHECK(outputs.at(name).get_double(static_cast<int64_t>(i)) == values[i]);
      }
    for (const Wrong &one : table.cases) {
      tensor::TensorMap inputs = graph.inputs;
      HostTensor changed = inputs.at(one.input).clone();
      if (tensor::is_floating(changed.dtype()))
        changed.set_double(one.position, one.value);
      else
        changed.set_int64(one.position, static_cast<int64_t>(one.value));
      inputs[one.input] = changed;
      place.tensors("wrong.safetensors", inputs);
      const Outcome outcome = run("wrong.safetensors");
      CHECK(outcome.exit_code == 3);
      CHECK(outcome.err == "error TSC-R127: a value is out of range: " + one.message +
                               "\n  next: give values in that range\n");
    }
  }
  return true;
}

HostTensor rows(int64_t first, int64_t second) {
  std::vector<double> values;
  for (int64_t i = 0; i < first * second; ++i)
    values.push_back(0.25 * static_cast<double>(i));
  return tensor_of(DType::f32, {first, second}, values);
}
HostTensor indices(const std::vector<double> &values) {
  return tensor_of(DType::i64, {static_cast<int64_t>(values.size())}, values);
}

/// Indices into x [3, 4], whose element i is i / 4, or with y [2, 4] of the same kind.
Table indices_table() {
  Table table;
  GraphText &graph = table.graph;
  graph.input("x", rows(3, 4));
  graph.input("y", rows(2, 4));
  const std::string x = node("x"), y = node("y");
  /// A call with an index input of its own; `wraps`: -3 is an index too.
  const auto indexed = [&](const std::string &name, const std::string &target, bool wraps,
                           const HostTensor &index, const std::string &before,
                           const std::string &after = "", bool in_list = false,
                           const std::string &rest = "") {
    const std::string input = "i_" + name;
    graph.input(input, index);
    graph.call(name, target,
               before + ", " + (in_list ? "[" + node(input) + "]" : node(input)) + after, rest);
    const std::string range = wraps ? "[-3, 3)" : "[0, 3)";
    for (const int64_t value : {3, wraps ? -4 : -1})
      table.wrong(input, 1, static_cast<double>(value),
                  "index " + std::to_string(value) + " of input '" + input + "' is not in " + range,
                  name);
  };
  const HostTensor two = indices({2, 0}), wrapped = indices({-3, -1}),
                   narrow = tensor_of(DType::i32, {2}, {2, 0}),
                   many = tensor_of(DType::i64, {2, 4}, {2, 0, 1, 2, 0, 1, 0, 1});
  indexed("embedding", "aten.embedding.default", false, two, x);
  indexed("embedding_int32", "aten.embedding.default", false, narrow, x);
  indexed("embedding_padded", "aten.embedding.default", false, two, x, ", 2");
  indexed("index", "aten.index.Tensor", true, wrapped, x, "", true);
  table.gives({0, 0.25, 0.5, 0.75, 2, 2.25, 2.5, 2.75});
  indexed("unsafe_index", "aten._unsafe_index.Tensor", true, wrapped, x, "", true);
  indexed("index_select", "aten.index_select.default", false, two, x + ", 0");
  indexed("gather", "aten.gather.default", false, many, x + ", 0");
  indexed("scatter", "aten.scatter.src", false, many, x + ", 0", ", " + y);
  indexed("scatter_value", "aten.scatter.value", false, many, x + ", 0", ", 7.0");
  indexed("scatter_add", "aten.scatter_add.default", false, many, x + ", 0", ", " + y);
  indexed("scatter_multiply", "aten.scatter.reduce", false, many, x + ", 0", ", " + y, false,
          R"(, "kwargs": {"reduce": "multiply"})");
  for (const char *reduce : {"sum", "amax", "mean"})
    indexed(std::string("scatter_") + reduce, "aten.scatter_reduce.two", false, many, x + ", 0",
            ", " + y + ", \"" + reduce + "\"");
  indexed("index_put", "aten.index_put.default", true, wrapped, x, ", " + y, true);
  table.gives({0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 1, 1.25, 1.5, 1.75});
  indexed("index_put_add", "aten.index_put.default", true, wrapped, x, ", " + y + ", true", true);
  indexed("index_add", "aten.index_add.default", false, two, x + ", 0", ", " + y);
  indexed("index_copy", "aten.index_copy.default", false, two, x + ", 0", ", " + y);
  indexed("index_fill", "aten.index_fill.int_Scalar", true, wrapped, x + ", 0", ", 7.0");
  table.gives({7, 7, 7, 7, 1, 1.25, 1.5, 1.75, 7, 7, 7, 7});
  indexed("index_reduce", "aten.index_reduce.default", false, two, x + ", 0",
          ", " + y + R"(, "amin")");
  // Seen through other operators, at the second of two dimensions.
  graph.input("i_shifted", two);
  graph.call("shifted", "aten.add.Tensor", node("i_shifted") + ", 1", "", false);
  graph.call("computed", "aten.index_select.default", y + ", 1, " + node("shifted"));
  table.wrong("i_shifted", 0, 3, "index 4 of node 'shifted' is not in [0, 4)", "computed");
  graph.input("i_first", two);
  graph.input("i_second", indices({-4, 3}));
  graph.call("both", "aten.index.Tensor",
             x + ", [" + node("i_first") + ", " + node("i_second") + "]");
  table.gives({2, 0.75});
  table.wrong("i_first", 0, 3, "index 3 of input 'i_first' is not in [-3, 3)", "both");
  table.wrong("i_second", 1, 4, "index 4 of input 'i_second' is not in [-4, 4)", "both");
  // Of rank 0, and with no address that depends on the index.
  graph.input("s", tensor_of(DType::f32, {}, {5}));
  graph.input("i_scalar", tensor_of(DType::i64, {}, {0}));
  graph.call("gather_scalar", "aten.gather.default", node("s") + ", 0, " + node("i_scalar"));
  table.wrong("i_scalar", 0, 5, "index 5 of input 'i_scalar' is not in [0, 1)", "gather_scalar");
  graph.input("one_row", rows(1, 4));
  graph.input("i_one", indices({0, 0}));
  graph.call("of_one", "aten.embedding.default", node("one_row") + ", " + node("i_one"));
  table.wrong("i_one", 1, 1, "index 1 of input 'i_one' is not in [0, 1)", "of_one");
  // Of all elements.
  graph.input("i_take", indices({-12, 11}));
  graph.call("take", "aten.take.default", x + ", " + node("i_take"));
  table.gives({0, 2.75});
  table.wrong("i_take", 0, 12, "index 12 of input 'i_take' is not in [-12, 12)", "take");
  graph.input("i_put", indices({-12, 11}));
  graph.input("v_put", tensor_of(DType::f32, {2}, {8, 9}));
  graph.call("put", "aten.put.default", x + ", " + node("i_put") + ", " + node("v_put"));
  table.gives({8, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.25, 2.5, 9});
  table.wrong("i_put", 0, -13, "index -13 of input 'i_put' is not in [-12, 12)", "put");
  graph.input("i_flat", indices({11, 0}));
  graph.call("flat", "aten.take_along_dim.default", x + ", " + node("i_flat"));
  table.wrong("i_flat", 1, -1, "index -1 of input 'i_flat' is not in [0, 12)", "flat");
  graph.input("i_along", tensor_of(DType::i64, {1, 4}, {-4, 3, 100, 0})); // modulo the size
  graph.call("along", "aten.take_along_dim.default", x + ", " + node("i_along") + ", 0");
  table.gives({2, 0.25, 1.5, 0.75});
  return table;
}

/// Bags of rows: `more` are arguments behind the offsets.
void add_bags(Table &table, const std::string &name, const std::string &more,
              const HostTensor &offsets) {
  GraphText &graph = table.graph;
  graph.input("bag_" + name, indices({0, 5, 1, 2}));
  graph.input("offsets_" + name, offsets);
  graph.call(name, "aten.embedding_bag.default",
             node("table") + ", " + node("bag_" + name) + ", " + node("offsets_" + name) + more, "",
             false);
  graph.call("rows_" + name, "operator.getitem", node(name) + ", 0");
}

Table values_table() {
  Table table;
  GraphText &graph = table.graph;
  graph.input("c", indices({0, 4, 2}));
  graph.call("one_hot", "aten.one_hot.default", node("c") + ", 5");
  table.gives({1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0});
  table.wrong("c", 1, 5, "class 5 of input 'c' is not in [0, 5)", "one_hot");
  table.wrong("c", 2, -1, "class -1 of input 'c' is not in [0, 5)", "one_hot");

  graph.input("scores", rows(3, 4));
  graph.input("t_nll", indices({0, -100, 3}));
  graph.call("nll", "aten.nll_loss.default", node("scores") + ", " + node("t_nll"));
  table.wrong("t_nll", 0, 4, "target 4 of input 't_nll' is not in [0, 4)", "nll");
  table.wrong("t_nll", 0, -1, "target -1 of input 't_nll' is not in [0, 4)", "nll");
  graph.input("maps", tensor_of(DType::f32, {1, 4, 1, 3}, std::vector<double>(12, 0.5)));
  graph.input("t_2d", tensor_of(DType::i64, {1, 1, 3}, {0, -100, 3}));
  graph.call("nll2d", "aten.nll_loss2d.default", node("maps") + ", " + node("t_2d"));
  table.wrong("t_2d", 1, 4, "target 4 of input 't_2d' is not in [0, 4)", "nll2d");
  graph.input("t_ce", indices({0, 77, 3}));
  graph.call("ce", "aten.cross_entropy_loss.default",
             node("scores") + ", " + node("t_ce") + ", null, 1, 77");
  table.wrong("t_ce", 2, -100, "target -100 of input 't_ce' is not in [0, 4)", "ce");
  graph.input("t_margin", indices({0, 1, 3}));
  graph.call("margin", "aten.multi_margin_loss.default", node("scores") + ", " + node("t_margin"));
  table.wrong("t_margin", 1, 4, "target 4 of input 't_margin' is not in [0, 4)", "margin");

  graph.input("sorted", tensor_of(DType::f32, {3}, {5, 1, 3}));
  graph.input("sorter", indices({1, 2, 0}));
  graph.call("found", "aten.searchsorted.Tensor", node("sorted") + ", " + node("sorted"),
             R"(, "kwargs": {"sorter": {"node": "sorter"}})");
  table.wrong("sorter", 2, 3, "index 3 of input 'sorter' is not in [0, 3)", "found");

  graph.input("mask", tensor_of(DType::boolean, {5}, {1, 0, 1, 0, 0}));
  graph.input("to", tensor_of(DType::f32, {5}, {1, 2, 3, 4, 5}));
  graph.input("source", tensor_of(DType::f32, {2}, {8, 9}));
  graph.call("masked", "aten.masked_scatter.default",
             node("to") + ", " + node("mask") + ", " + node("source"));
  table.gives({8, 2, 9, 4, 5});
  table.wrong("mask", 4, 1, "the mask takes 3 elements of the source, not in [0, 3)", "masked");
  graph.input("no_mask", tensor_of(DType::boolean, {5}, {0, 0, 0, 0, 0}));
  graph.input("nothing", tensor_of(DType::f32, {0}, {}));
  graph.call("masked_nothing", "aten.masked_scatter.default",
             node("to") + ", " + node("no_mask") + ", " + node("nothing"));
  table.gives({1, 2, 3, 4, 5});
  table.wrong("no_mask", 1, 1, "the mask takes 1 elements of the source, not in [0, 1)",
              "masked_nothing");
  return table;
}

Table bags_table() {
  Table table;
  table.graph.input("table", rows(6, 2));
  const HostTensor three = indices({0, 2, 4});
  add_bags(table, "sums", "", three);
  table.wrong("bag_sums", 3, 6, "index 6 of input 'bag_sums' is not in [0, 6)", "sums");
  table.wrong("offsets_sums", 2, 5, "offset 5 of input 'offsets_sums' is not in [0, 5)", "sums");
  table.wrong("offsets_sums", 1, -1, "offset -1 of input 'offsets_sums' is not in [0, 5)", "sums");
  table.wrong("offsets_sums", 0, 1, "offset 1 of input 'offsets_sums', the first, is not 0",
              "sums");
  table.wrong("offsets_sums", 2, 1, "a bag has -1 indices: its offset is behind the next one",
              "sums");
  add_bags(table, "means", ", false, 1", three);
  table.wrong("bag_means", 0, -1, "index -1 of input 'bag_means' is not in [0, 6)", "means");
  add_bags(table, "largest", ", false, 2", three);
  table.wrong("offsets_largest", 2, 5, "offset 5 of input 'offsets_largest' is not in [0, 5)",
              "largest");
  const std::string last = ", false, null, true"; // include_last_offset
  add_bags(table, "ends", ", false, 0" + last, three);
  table.wrong("offsets_ends", 2, 5, "offset 5 of input 'offsets_ends' is not in [0, 5)", "ends");
  table.wrong("offsets_ends", 2, 3, "the last offset leaves 1 indices in no bag", "ends");
  add_bags(table, "largest_ends", ", false, 2" + last, indices({0, 2, 3})); // taken for 4
  table.wrong("offsets_largest_ends", 2, 5,
              "offset 5 of input 'offsets_largest_ends' is not in [0, 5)", "largest_ends");
  return table;
}

Table probabilities_table() {
  Table table;
  GraphText &graph = table.graph;
  const double nan = std::nan("");
  graph.input("p", tensor_of(DType::f32, {3}, {0, -0.0, 1}));
  graph.call("drawn", "aten.bernoulli.default", node("p"));
  table.gives({0, 0, 1});
  table.wrong("p", 1, 1.5, "probability 1.5 of input 'p' is not in [0, 1.0]", "drawn");
  table.wrong("p", 1, -0.25, "probability -0.25 of input 'p' is not in [0, 1.0]", "drawn");
  table.wrong("p", 0, nan, "probability nan of input 'p' is not in [0, 1.0]", "drawn");
  graph.input("half", tensor_of(DType::bf16, {3}, {0, 0.5, 1}));
  graph.call("drawn_half", "aten.bernoulli.default", node("half"));
  table.wrong("half", 1, 1.0078125, "probability 1.0078125 of input 'half' is not in [0, 1.0]",
              "drawn_half");
  graph.input("q", tensor_of(DType::f64, {2}, {0.5, 1}));
  graph.input("wanted", tensor_of(DType::f64, {2}, {0, 1}));
  graph.call("bce", "aten.binary_cross_entropy.default", node("q") + ", " + node("wanted"));
  table.wrong("q", 1, 1.1, "probability 1.1 of input 'q' is not in [0, 1.0]", "bce");
  table.wrong("wanted", 0, -1, "target -1 of input 'wanted' is not in [0, 1.0]", "bce");
  graph.input("weights", tensor_of(DType::f32, {3}, {0, 0.5, 0}));
  graph.call("picked", "aten.multinomial.default", node("weights") + ", 1");
  table.gives({1});
  table.wrong("weights", 0, -1, "probability -1 of input 'weights' is not in [0, inf)", "picked");
  table.wrong("weights", 1, 0, "the probabilities to draw from sum to 0", "picked");
  table.wrong("weights", 1, INFINITY, "probability inf of input 'weights' is not in [0, inf)",
              "picked");
  graph.input("many_weights", tensor_of(DType::f32, {2, 3}, {0, 0.5, 0, 1, 2, 3}));
  graph.call("picked_many", "aten.multinomial.default", node("many_weights") + ", 4, true");
  table.wrong("many_weights", 4, nan, "probability nan of input 'many_weights' is not in [0, inf)",
              "picked_many");
  graph.input("spread", tensor_of(DType::f32, {2}, {0, INFINITY}));
  graph.call("normal", "aten.normal.float_Tensor", "0.0, " + node("spread"));
  table.wrong("spread", 0, -2, "standard deviation -2 of input 'spread' is not in [0, inf]",
              "normal");
  return table;
}

/// Numbers that item() reads from inputs n_NAME.
struct Numbers {
  Table &table;
  int count = 0;

  explicit Numbers(Table &table) : table(table) { table.graph.more = R"("symbols": {)"; }
  /// The node that reads the number.
  std::string item(const std::string &name, int64_t value, const char *low = "-9223372036854775807",
                   const char *high = "9223372036854775806") {
    GraphText &graph = table.graph;
    graph.input("n_" + name, tensor_of(DType::i64, {}, {static_cast<double>(value)}));
    const std::string symbol = "u" + std::to_string(count);
    graph.more +=
        std::string(count++ == 0 ? "" : ", ") + "\"" + symbol + "\": [" + low + ", " + high + "]";
    graph.call("item_" + name, "aten.item.default", node("n_" + name),
               R"(, "val": {"int": ")" + symbol + R"("})", false);
    return node("item_" + name);
  }
  void wrong(const std::string &name, int64_t value, const std::string &text) {
    table.wrong("n_" + name, 0, static_cast<double>(value), text, name);
  }
  void end() { table.graph.more += "}, "; }
};

Table numbers_table() {
  Table table;
  GraphText &graph = table.graph;
  graph.input("x", rows(5, 2));
  graph.input("y", rows(2, 2));
  graph.input("z", tensor_of(DType::f32, {2}, {7, 8}));
  const std::string x = node("x");
  Numbers numbers(table);
  graph.call("select", "aten.select.int", x + ", 0, " + numbers.item("select", -5));
  table.gives({0, 0.25});
  numbers.wrong("select", 5, "index 5, read from input 'n_select', is not in [-5, 5)");
  numbers.wrong("select", -6, "index -6, read from input 'n_select', is not in [-5, 5)");
  graph.call("next", "operator.add", numbers.item("after", -2) + ", 1", "", false);
  graph.call("after", "aten.select.int", x + ", 0, " + node("next"));
  table.gives({2, 2.25});
  numbers.wrong("after", 4, "index 5, computed from input 'n_after', is not in [0, 5)");
  numbers.wrong("after", -7, "index -1, computed from input 'n_after', is not in [0, 5)");
  // Of a part of a tensor: the part's own dimension counts.
  graph.call("part", "aten.slice.Tensor", x + ", 0, 1, 4", "", false);
  graph.call("of_part", "aten.select.int", node("part") + ", 0, " + numbers.item("of_part", -1));
  table.gives({1.5, 1.75});
  numbers.wrong("of_part", 3, "index 3, read from input 'n_of_part', is not in [-3, 3)");
  numbers.wrong("of_part", -4, "index -4, read from input 'n_of_part', is not in [-3, 3)");
  graph.call("narrow", "aten.narrow.default", x + ", 0, " + numbers.item("narrow", -2) + ", 2");
  table.gives({1.5, 1.75, 2, 2.25});
  numbers.wrong("narrow", 4, "index 5, computed from input 'n_narrow', is not in [0, 5)");
  numbers.wrong("narrow", -1, "index 5, computed from input 'n_narrow', is not in [0, 5)");
  numbers.wrong("narrow", -6, "index -1, computed from input 'n_narrow', is not in [0, 5)");
  // A slice's bounds: x[-1:0] has no element, so that a start does not count from the end.
  const std::string first = numbers.item("slice", 4);
  graph.call("slice_end", "operator.add", first + ", 1", "", false);
  graph.call("slice", "aten.slice.Tensor", x + ", 0, " + first + ", " + node("slice_end"));
  table.gives({2, 2.25});
  numbers.wrong("slice", -1, "index -1, computed from input 'n_slice', is not in [0, 5)");
  numbers.wrong("slice", 5, "index 5, computed from input 'n_slice', is not in [0, 5)");
  graph.call("row", "aten.select_scatter.default",
             x + ", " + node("z") + ", 0, " + numbers.item("row", -1));
  table.gives({0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 7, 8});
  numbers.wrong("row", 5, "index 5, read from input 'n_row', is not in [-5, 5)");
  const std::string start = numbers.item("rows", 3);
  graph.call("end", "operator.add", start + ", 2", "", false);
  graph.call("rows", "aten.slice_scatter.default",
             x + ", " + node("y") + ", 0, " + start + ", " + node("end"));
  table.gives({0, 0.25, 0.5, 0.75, 1, 1.25, 0, 0.25, 0.5, 0.75});
  numbers.wrong("rows", 4, "start 4, read from input 'n_rows', is not in [0, 4)");
  numbers.wrong("rows", -1, "start -1, read from input 'n_rows', is not in [0, 4)");
  numbers.end();
  return table;
}

std::vector<Table> all_tables() {
  std::vector<Table> tables;
  for (const auto &make :
       {indices_table, values_table, bags_table, probabilities_table, numbers_table})
    tables.push_back(make());
  return tables;
}

/// An embedding of weights alone, which is computed once; times x.
const char *const kFoldedGraph = R"({"format": "tsc-graph", "version": 1, "nodes": [
    {"name": "table", "op": "placeholder", "val": {"dtype": "float32", "size": [3, 4]}},
    {"name": "ids", "op": "placeholder", "val": {"dtype": "int64", "size": [2]}},
    {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": [2, 4]}},
    {"name": "embedding", "op": "call_function", "target": "aten.embedding.default",
     "args": [{"node": "table"}, {"node": "ids"}]},
    {"name": "t", "op": "call_function", "target": "aten.t.default", "args": [{"node": "x"}]},
    {"name": "mm", "op": "call_function", "target": "aten.mm.default",
     "args": [{"node": "embedding"}, {"node": "t"}]},
    {"name": "output", "op": "output", "args": [[{"node": "mm"}]]}],
    "signature": {"inputs": [{"node": "table", "kind": "parameter", "target": "table"},
      {"node": "ids", "kind": "buffer", "target": "deep.ids"}, {"node": "x", "kind": "user"}],
      "outputs": [{"kind": "user", "value": {"node": "mm"}}]}})";

Outcome run_on(const Workplace &place, std::vector<std::string> arguments, const Device &device) {
  arguments.insert(arguments.end(), device.begin(), device.end());
  return place.run(arguments);
}

/// The graph asserts something about an element that stands at an index.
GraphText asserting_graph() {
  GraphText graph;
  graph.input("x", tensor_of(DType::f32, {3}, {-1, 1, 1}));
  graph.input("i", indices({1, 2}));
  graph.call("picked", "aten.index_select.default", node("x") + ", 0, " + node("i"));
  graph.call("positive", "aten.gt.Scalar", node("picked") + ", 0", "", false);
  graph.call("all", "aten.all.default", node("positive"), "", false);
  graph.call("assert", "aten._assert_async.msg", node("all") + R"(, "all are positive")", "",
             false);
  return graph;
}

} // namespace

TEST_CASE("values out of range name value, source, range and node on every device") {
  for (const Table &table : all_tables())
    check_runs(table, kDevices);
}
TEST_CASE("values out of range name value, source, range and node on the GPU", "[gpu]") {
  for (const Table &table : all_tables())
    if (!check_runs(table, {{"--device=cuda"}}))
      break;
}

TEST_CASE("random inputs are values that the graph takes") {
  Workplace place;
  for (const auto &make : {indices_table, probabilities_table, numbers_table}) {
    place.file("g.json", make().graph.text());
    for (const char *seed : {"random:1", "random:2"}) {
      const Outcome outcome = place.run({"run", "g.json", "--device=host", "--inputs", seed});
      INFO(outcome.err);
      CHECK(outcome.exit_code == 0);
    }
  }
}

TEST_CASE("indices among the weights are checked where they are used once, when weights are "
          "loaded") {
  Workplace place;
  place.file("g.json", kFoldedGraph);
  place.tensors("x.npz", {{"x", rows(2, 4)}});
  for (const Device &device : kDevices) {
    for (const int64_t index : {2, 3, -1}) {
      place.tensors("w.safetensors", {{"table", rows(3, 4)},
                                      {"deep.ids", indices({0, static_cast<double>(index)})}});
      const Outcome outcome =
          run_on(place, {"run", "g.json", "--inputs=x.npz", "--weights=w.safetensors"}, device);
      INFO(device.back() << " " << index << "\n" << outcome.err);
      CHECK(outcome.exit_code == (index == 2 ? 0 : 3));
      if (index != 2)
        CHECK(outcome.err == "error TSC-R127: a value is out of range: index " +
                                 std::to_string(index) +
                                 " of weight 'deep.ids' is not in [0, 3) (node embedding)\n"
                                 "  next: give values in that range\n");
    }
  }
}

TEST_CASE("an index out of range is said beside an assertion that fails because of it") {
  Workplace place;
  GraphText graph = asserting_graph();
  place.file("g.json", graph.text());
  const auto run = [&](const Device &device, double index, double first) {
    graph.inputs["i"] = indices({1, index});
    graph.inputs["x"] = tensor_of(DType::f32, {3}, {first, 1, 1});
    place.tensors("in.npz", graph.inputs);
    return run_on(place, {"run", "g.json", "--inputs=in.npz"}, device).err;
  };
  const std::string index = "index 3 of input 'i' is not in [0, 3) (node picked)\n",
                    assertion =
                        "error TSC-R127: the graph asserts: all are positive (node assert)\n",
                    next = "  next: give inputs of which it holds\n";
  for (const Device &device : kDevices) {
    INFO(device.back());
    CHECK(run(device, 2, -1) == "");
    CHECK(run(device, 0, -1) == assertion + next);
    CHECK(run(device, 3, -1) == assertion + "  besides, " + index + next); // reads element 0
    CHECK(run(device, 3, 1) == "error TSC-R127: a value is out of range: " + index +
                                   "  next: give values in that range\n");
  }
}

TEST_CASE("a loop ends where an index out of range decides how long it runs") {
  // while i < 4: i = i + table[i], which beyond the table is element 0, so that it would not end.
  Workplace place;
  place.file("g.json", R"({"format": "tsc-graph", "version": 1, "nodes": [
    {"name": "table", "op": "placeholder", "val": {"dtype": "int64", "size": [3]}},
    {"name": "i", "op": "placeholder", "val": {"dtype": "int64", "size": [1]}},
    {"name": "goes_on", "op": "get_attr", "target": "goes_on"},
    {"name": "body", "op": "get_attr", "target": "body"},
    {"name": "loop", "op": "call_function", "target": "higher_order.while_loop",
     "args": [{"node": "goes_on"}, {"node": "body"}, [{"node": "i"}], [{"node": "table"}]]},
    {"name": "last", "op": "call_function", "target": "operator.getitem",
     "args": [{"node": "loop"}, 0]},
    {"name": "output", "op": "output", "args": [[{"node": "last"}]]}],
    "subgraphs": {
    "goes_on": {"nodes": [
      {"name": "i", "op": "placeholder", "val": {"dtype": "int64", "size": [1]}},
      {"name": "table", "op": "placeholder", "val": {"dtype": "int64", "size": [3]}},
      {"name": "lt", "op": "call_function", "target": "aten.lt.Scalar", "args": [{"node": "i"}, 4]},
      {"name": "all", "op": "call_function", "target": "aten.all.default", "args": [{"node": "lt"}]},
      {"name": "output", "op": "output", "args": [{"node": "all"}]}]},
    "body": {"nodes": [
      {"name": "i", "op": "placeholder", "val": {"dtype": "int64", "size": [1]}},
      {"name": "table", "op": "placeholder", "val": {"dtype": "int64", "size": [3]}},
      {"name": "step", "op": "call_function", "target": "aten.index_select.default",
       "args": [{"node": "table"}, 0, {"node": "i"}]},
      {"name": "add", "op": "call_function", "target": "aten.add.Tensor",
       "args": [{"node": "i"}, {"node": "step"}]},
      {"name": "output", "op": "output", "args": [[{"node": "add"}]]}]}}})");
  for (const Device &device : kDevices) {
    INFO(device.back());
    const auto run = [&](const std::vector<double> &table) {
      place.tensors("in.npz", {{"table", indices(table)}, {"i", indices({1})}});
      return run_on(place, {"run", "g.json", "--inputs=in.npz"}, device);
    };
    CHECK(run({0, 1, 2}).exit_code == 0);
    const Outcome outcome = run({0, 2, 0});
    CHECK(outcome.exit_code == 3);
    CHECK(outcome.err == "error TSC-R127: a value is out of range: index 3 of input 'i' is not in "
                         "[0, 3) (node step)\n"
                         "  next: give values in that range\n");
  }
}
