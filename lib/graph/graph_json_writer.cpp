#include "graph/graph_json.h"
#include "graph/read.h"
#include "support/diagnostic.h"
#include "support/text.h"

#include <cmath>

namespace tsc::graph {

namespace {

constexpr char kDigits[] = "0123456789abcdef";

/// Prints JSON text: one node a line, keys in the order of docs/graph-format.md.
class Writer {
public:
  /// `outer`: names of symbols around a subgraph.
  Writer(const Graph &graph, std::string &text, std::vector<SymbolRange> outer = {})
      : graph_(graph), text_(text), symbols_(std::move(outer)), name_of_(symbol_writer(symbols_)) {
    symbols_.insert(symbols_.end(), graph.symbols.begin(), graph.symbols.end());
  }

  void write(const std::string &indent, bool outermost) {
    std::string inner = indent + "  ";
    text_ += "{\n";
    if (outermost)
      text_ += inner + "\"format\": \"tsc-graph\",\n" + inner +
               "\"version\": " + std::to_string(kGraphJsonVersion) + ",\n";
    if (!graph_.name.empty())
      entry(inner, "name", graph_.name);
    if (!graph_.stage.empty())
      entry(inner, "stage", graph_.stage);
    write_symbols(inner);
    write_subgraphs(inner);
    write_constants(inner);
    text_ += inner + "\"nodes\": [";
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      text_ += (i == 0 ? "\n  " : ",\n  ") + inner;
      write_node(graph_.nodes[i]);
    }
    text_ += "\n" + inner + "],\n";
    write_signature(inner);
    text_ += "\n" + indent + "}";
  }

private:
  void string(std::string_view value) {
    text_ += '"';
    for (char c : value) {
      auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        text_ += '\\';
        text_ += c;
      } else if (c == '\n') {
        text_ += "\\n";
      } else if (byte < 0x20) {
        text_ += "\\u00";
        text_ += kDigits[byte >> 4];
        text_ += kDigits[byte & 15];
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }
  void entry(const std::string &indent, std::string_view key, std::string_view value) {
    text_ += indent;
    string(key);
    text_ += ": ";
    string(value);
    text_ += ",\n";
  }
  void tagged(std::string_view key, std::string_view value) {
    text_ += '{';
    string(key);
    text_ += ": ";
    string(value);
    text_ += '}';
  }
  void number(double value) {
    if (std::isfinite(value))
      text_ += support::python_repr(value);
    else
      string(support::python_repr(value));
  }

  /// A size: an integer, or text.
  void expression(Expr value) {
    if (value.is_integer())
      text_ += std::to_string(value.value());
    else
      string(symbolic::print(value, name_of_));
  }
  void expressions(const std::vector<Expr> &values) {
    text_ += '[';
    for (size_t i = 0; i < values.size(); ++i) {
      if (i != 0)
        text_ += ", ";
      expression(values[i]);
    }
    text_ += ']';
  }

  void argument(const Argument &value) {
    std::visit([this](const auto &v) { print(v); }, value.value);
  }
  void print(None) { text_ += "null"; }
  void print(bool value) { text_ += value ? "true" : "false"; }
  void print(int64_t value) { text_ += std::to_string(value); }
  void print(double value) {
    if (std::isfinite(value))
      text_ += support::python_repr(value);
    else
      tagged("float", support::python_repr(value));
  }
  void print(const std::string &value) { string(value); }
  void print(Expr value) { tagged("expr", symbolic::print(value, name_of_)); }
  void print(NodeRef value) { tagged("node", graph_.node(value.id).name); }
  void print(DType value) { tagged("dtype", tensor::torch_name(value).substr(6)); }
  void print(const Device &value) { tagged("device", tensor::to_string(value)); }
  void print(MemoryFormat value) { tagged("memory_format", memory_format_json_name(value)); }
  void print(const TensorLayoutKind &value) { tagged("layout", value.name.substr(6)); }
  void print(const GraphRef &value) { tagged("graph", value.name); }
  void print(const Complex &value) {
    text_ += "{\"complex\": [";
    number(value.real);
    text_ += ", ";
    number(value.imaginary);
    text_ += "]}";
  }
  void print(const CustomObject &value) {
    text_ += "{\"custom_object\": {\"name\": ";
    string(value.name);
    key("class");
    string(value.class_name);
    text_ += "}}";
  }
  void print(const Argument::Dictionary &dictionary) {
    text_ += "{\"dict\": ";
    entries(dictionary.entries);
    text_ += '}';
  }
  void entries(const std::vector<std::pair<std::string, Argument>> &list) {
    text_ += '{';
    for (size_t i = 0; i < list.size(); ++i) {
      if (i != 0)
        text_ += ", ";
      string(list[i].first);
      text_ += ": ";
      argument(list[i].second);
    }
    text_ += '}';
  }
  void print(const Argument::List &list) {
    text_ += '[';
    for (size_t i = 0; i < list.size(); ++i) {
      if (i != 0)
        text_ += ", ";
      argument(list[i]);
    }
    text_ += ']';
  }

  void value(const Value &v) {
    std::visit([this](const auto &content) { print_value(content); }, v.value);
  }
  void print_value(None) { text_ += "null"; }
  void print_value(const TensorMeta &meta) {
    text_ += "{\"dtype\": ";
    string(tensor::torch_name(meta.dtype).substr(6));
    text_ += ", \"size\": ";
    expressions(meta.layout.sizes);
    if (meta.layout.strides != tensor::contiguous_strides(meta.layout.sizes)) {
      text_ += ", \"stride\": ";
      expressions(meta.layout.strides);
    }
    if (!meta.layout.offset.is_integer(0)) {
      text_ += ", \"offset\": ";
      expression(meta.layout.offset);
    }
    text_ += ", \"device\": ";
    string(tensor::to_string(meta.device));
    if (meta.requires_grad)
      text_ += ", \"requires_grad\": true";
    text_ += '}';
  }
  void print_value(Expr v) {
    text_ += "{\"int\": ";
    expression(v);
    text_ += '}';
  }
  void print_value(double v) {
    text_ += "{\"float\": ";
    number(v);
    text_ += '}';
  }
  void print_value(bool v) { text_ += v ? "{\"bool\": true}" : "{\"bool\": false}"; }
  void print_value(const std::string &v) { tagged("string", v); }
  void print_value(const CustomObject &v) { tagged("custom_object", v.class_name); }
  void print_value(const Value::List &list) {
    text_ += '[';
    for (size_t i = 0; i < list.size(); ++i) {
      if (i != 0)
        text_ += ", ";
      value(list[i]);
    }
    text_ += ']';
  }

  void key(std::string_view name) {
    text_ += ", ";
    string(name);
    text_ += ": ";
  }

  void write_node(const Node &node) {
    constexpr std::string_view kKinds[] = {"placeholder", "get_attr", "call_function", "output"};
    text_ += "{\"name\": ";
    string(node.name);
    key("op");
    string(kKinds[static_cast<size_t>(node.kind)]);
    bool implied = (node.kind == NodeKind::placeholder && node.target == node.name) ||
                   (node.kind == NodeKind::output && node.target == "output");
    if (!implied) {
      key("target");
      string(node.target);
    }
    if (!node.args.empty()) {
      key("args");
      print(node.args);
    }
    if (!node.kwargs.empty()) {
      key("kwargs");
      entries(node.kwargs);
    }
    if (node.value) {
      key("val");
      value(*node.value);
    }
    if (!node.stack_trace.empty()) {
      key("stack_trace");
      string(node.stack_trace);
    }
    if (!node.nn_module_stack.empty()) {
      key("nn_module_stack");
      string(node.nn_module_stack);
    }
    if (node.origins != std::vector<std::string>{node.name})
      write_origins(node);
    text_ += '}';
  }

  void write_origins(const Node &node) {
    key("origins");
    text_ += '[';
    for (size_t i = 0; i < node.origins.size(); ++i) {
      if (i != 0)
        text_ += ", ";
      string(node.origins[i]);
    }
    text_ += ']';
  }

  void write_symbols(const std::string &indent) {
    if (graph_.symbols.empty())
      return;
    text_ += indent + "\"symbols\": {";
    for (size_t i = 0; i < graph_.symbols.size(); ++i) {
      const SymbolRange &range = graph_.symbols[i];
      if (i != 0)
        text_ += ", ";
      string(name_of_(range.symbol));
      text_ += ": [" + std::to_string(range.low) + ", ";
      text_ += range.high == INT64_MAX ? "null" : std::to_string(range.high);
      text_ += range.hint ? ", " + std::to_string(*range.hint) : "";
      text_ += ']';
    }
    text_ += "},\n";
  }

  void write_subgraphs(const std::string &indent) {
    if (graph_.subgraphs.empty())
      return;
    text_ += indent + "\"subgraphs\": {";
    bool first = true;
    for (const auto &subgraph : graph_.subgraphs) {
      text_ += (first ? "\n  " : ",\n  ") + indent;
      first = false;
      string(subgraph.first);
      text_ += ": ";
      Writer(subgraph.second, text_, symbols_).write(indent + "  ", false);
    }
    text_ += "\n" + indent + "},\n";
  }

  void write_constants(const std::string &indent) {
    auto tensors = constants_of(graph_);
    if (tensors.empty())
      return;
    text_ += indent + "\"constants\": {";
    bool first = true;
    for (const auto &constant : tensors) {
      text_ += (first ? "\n  " : ",\n  ") + indent;
      first = false;
      string(constant.first);
      text_ += ": ";
      write_constant(*constant.second);
    }
    text_ += "\n" + indent + "},\n";
  }

  void write_constant(const tensor::HostTensor &tensor) {
    text_ += "{\"dtype\": ";
    string(tensor::torch_name(tensor.dtype()).substr(6));
    text_ += ", \"size\": [";
    for (size_t i = 0; i < tensor.sizes().size(); ++i)
      text_ += (i == 0 ? "" : ", ") + std::to_string(tensor.sizes()[i]);
    if (!is_listed(tensor.dtype())) {
      text_ += "], \"bytes\": ";
      string(hexadecimal(tensor.contiguous()));
      text_ += '}';
      return;
    }
    text_ += "], \"data\": [";
    bool integral = tensor::is_integral(tensor.dtype(), true);
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      if (i != 0)
        text_ += ", ";
      if (integral)
        text_ += std::to_string(tensor.get_int64(i));
      else
        constant_number(tensor.get_double(i));
    }
    text_ += "]}";
  }
  static std::string hexadecimal(const tensor::HostTensor &tensor) {
    std::string text;
    for (size_t i = 0; i < tensor.size_in_bytes(); ++i) {
      auto byte = static_cast<unsigned char>(tensor.data()[i]);
      text += kDigits[byte >> 4];
      text += kDigits[byte & 15];
    }
    return text;
  }
  void constant_number(double value) {
    if (std::isfinite(value))
      text_ += support::python_repr(value);
    else
      text_ += std::isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  }

  void write_signature(const std::string &indent) {
    text_ += indent + "\"signature\": {\n" + indent + "  \"inputs\": [";
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      text_ += (i == 0 ? "\n    " : ",\n    ") + indent;
      write_input(graph_.inputs[i]);
    }
    text_ += graph_.inputs.empty() ? "],\n" : "\n" + indent + "  ],\n";
    text_ += indent + "  \"outputs\": [";
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      text_ += (i == 0 ? "\n    " : ",\n    ") + indent;
      const OutputSpec &output = graph_.outputs[i];
      text_ += "{\"kind\": ";
      string(output_kind_name(output.kind));
      key("value");
      argument(output.value);
      if (!output.target.empty()) {
        key("target");
        string(output.target);
      }
      text_ += '}';
    }
    text_ += graph_.outputs.empty() ? "]" : "\n" + indent + "  ]";
    if (graph_.structure)
      text_ += ",\n" + indent + "  \"structure\": " + tensor::to_json(*graph_.structure);
    text_ += "\n" + indent + "}";
  }

  void write_input(const InputSpec &input) {
    text_ += "{\"node\": ";
    string(graph_.node(input.node).name);
    key("kind");
    string(input_kind_name(input.kind));
    if (!input.target.empty()) {
      key("target");
      string(input.target);
    }
    if (!input.persistent)
      text_ += ", \"persistent\": false";
    if (input.constant) {
      key("constant");
      argument(*input.constant);
    }
    text_ += '}';
  }

  const Graph &graph_;
  std::string &text_;
  std::vector<SymbolRange> symbols_; // that expressions mention
  symbolic::SymbolWriter name_of_;
};

} // namespace

std::string to_json(const Graph &graph) {
  std::string text;
  Writer(graph, text).write("", true);
  return text + "\n";
}

} // namespace tsc::graph
