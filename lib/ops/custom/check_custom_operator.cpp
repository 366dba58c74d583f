// What may be wrong with the row of a custom operator, all of it at once.
#include "ops/custom/custom_operator.h"
#include "ops/custom/row_expression.h"
#include "ops/custom/schema_text.h"
#include "support/diagnostic.h"
#include "support/text.h"

#include <algorithm>
#include <regex>

namespace tsc::ops {
namespace {

using support::Diagnostic;

constexpr const char *kPage = "docs/custom-operators.md says what a row holds";

bool is_tensor(const Parameter &parameter) {
  return parameter.type == "Tensor" || parameter.type == "Tensor?";
}
bool is_integer(const Parameter &parameter) {
  return parameter.type == "int" || parameter.type == "SymInt" || parameter.type == "bool";
}

class Checker {
public:
  explicit Checker(const CustomOperator &row) : row_(row) {}

  std::vector<Diagnostic> run() {
    problems_ = schema_problems(row_.schema);
    if (!problems_.empty())
      return std::move(problems_); // names mean nothing without it
    schema_ = parse_schema(row_.schema);
    check_names();
    check_inputs();
    for (size_t i = 0; i < row_.requirements.size(); ++i)
      check_expression(row_.requirements[i], "/require/" + std::to_string(i), true, false);
    check_results();
    if (!row_.workspace_bytes.empty())
      check_expression(row_.workspace_bytes, "/workspace_bytes", false, true);
    check_function(row_.cuda, "/cuda");
    check_launch();
    if (row_.host)
      check_function(*row_.host, "/host");
    return std::move(problems_);
  }

private:
  const CustomOperator &row_;
  Schema schema_;
  std::vector<Diagnostic> problems_;

  void report(const char *code, std::string message, std::string place,
              std::string next_step = kPage) {
    problems_.push_back(
        {code, std::move(message), "", std::move(place), "", "", std::move(next_step)});
  }
  const Parameter *parameter(std::string_view name) const {
    const auto found = std::find_if(schema_.parameters.begin(), schema_.parameters.end(),
                                    [&](const Parameter &p) { return p.name == name; });
    return found == schema_.parameters.end() ? nullptr : &*found;
  }
  bool is_result(std::string_view name) const {
    return std::any_of(row_.results.begin(), row_.results.end(),
                       [&](const CustomResult &result) { return result.name == name; });
  }
  std::string near(const std::string &name) const {
    std::vector<std::string> known = {std::string(kWorkspace)};
    for (const Parameter &p : schema_.parameters)
      known.push_back(p.name);
    for (const CustomResult &result : row_.results)
      known.push_back(result.name);
    const std::string close = support::did_you_mean(name, known);
    return close.empty() ? "there are " + support::join(known, ", ")
                         : "did you mean '" + close + "'?";
  }

  void check_names() {
    const std::string name = custom_operator_name(row_.schema);
    if (find_operator(name) != nullptr)
      report("TSC-O204", "the operator " + name + " is there already", "/schema",
             "give yours a namespace of its own: \"mylib::" + name.substr(name.find('.') + 1) +
                 "(...\"");
    std::set<std::string> names = {std::string(kWorkspace)};
    for (const Parameter &p : schema_.parameters)
      if (!names.insert(p.name).second)
        report("TSC-O204", "two parameters, or one and the workspace, are called '" + p.name + "'",
               "/schema", "give each a name of its own");
    for (size_t i = 0; i < row_.results.size(); ++i)
      if (!names.insert(row_.results[i].name).second)
        report("TSC-O204",
               "the result '" + row_.results[i].name +
                   "' has the name of a parameter, of another result or of the workspace",
               "/results/" + std::to_string(i) + "/name", "give each a name of its own");
  }

  void check_dtype(DType dtype, const std::string &place) {
    if (dtype > DType::f64)
      report("TSC-O206",
             "kernels do not take elements of " + std::string(tensor::torch_name(dtype)), place,
             "the element types are bool, integers, float16, bfloat16, float32 and float64");
  }
  void check_inputs() {
    for (const auto &[name, input] : row_.inputs) {
      const Parameter *known = parameter(name);
      if (known == nullptr || !is_tensor(*known))
        report("TSC-O204", "the schema has no tensor '" + name + "'", "/inputs/" + name,
               near(name));
      for (size_t i = 0; i < input.dtypes.size(); ++i)
        check_dtype(input.dtypes[i], "/inputs/" + name + "/dtypes/" + std::to_string(i));
    }
  }

  void check_property(const std::string &tensor, const std::string &property,
                      const std::string &place, bool results) {
    const Parameter *known = parameter(tensor);
    if (!(known != nullptr && is_tensor(*known)) && !(results && is_result(tensor)))
      report("TSC-O203", "there is no tensor '" + tensor + "' here", place, near(tensor));
    else if (property == "stride" && known != nullptr && !row_.is_strided(tensor))
      report("TSC-O203", "'" + tensor + "' is contiguous; its strides follow from its sizes", place,
             "say \"layout\": \"strided\" of it to get it as it lies in memory");
  }
  void check_mentions(const std::string &text, const std::string &place, bool is_condition,
                      bool results) {
    const RowMentions mentions = mentions_of(text, is_condition);
    for (const auto &[tensor, property] : mentions.properties)
      check_property(tensor, property, place, results);
    for (const std::string &name : mentions.names) {
      const Parameter *known = parameter(name);
      if (known == nullptr || !is_integer(*known))
        report("TSC-O203",
               known == nullptr ? "there is no integer '" + name + "'"
                                : "'" + name + "' is a " + known->type + ", not an integer",
               place,
               known != nullptr && is_tensor(*known) ? "name a size: " + name + ".size(0)"
                                                     : near(name));
    }
  }
  /// `results`: whether those may be named.
  void check_expression(const std::string &text, const std::string &place, bool is_condition,
                        bool results) {
    try {
      check_mentions(text, place, is_condition, results);
    } catch (const ExpressionError &error) {
      report("TSC-O203",
             "\"" + text + "\", column " + std::to_string(error.column()) + ": " + error.what(),
             place,
             "expressions have integers, sizes as in q.size(0), + - * // %, min, max, ceil_div");
    }
  }

  void check_tensor_name(const std::string &name, const std::string &place) {
    const Parameter *known = parameter(name);
    if (known == nullptr || !is_tensor(*known))
      report("TSC-O204", "the schema has no tensor '" + name + "'", place, near(name));
  }
  void check_results() {
    if (row_.results.size() != schema_.returns.size())
      report("TSC-O202",
             "the schema returns " + std::to_string(schema_.returns.size()) +
                 " tensors, and \"results\" has " + std::to_string(row_.results.size()),
             "/results");
    for (size_t i = 0; i < row_.results.size(); ++i) {
      const CustomResult &result = row_.results[i];
      const std::string place = "/results/" + std::to_string(i);
      if (const auto *name = std::get_if<std::string>(&result.dtype))
        check_tensor_name(*name, place + "/dtype");
      else
        check_dtype(std::get<DType>(result.dtype), place + "/dtype");
      if (!result.like.empty())
        check_tensor_name(result.like, place + "/sizes");
      for (size_t k = 0; k < result.sizes.size(); ++k)
        check_expression(result.sizes[k], place + "/sizes/" + std::to_string(k), false, false);
    }
  }

  void check_parameter(const CustomParameter &given, const std::string &place) {
    const Parameter *known = parameter(given.text);
    if (given.type.empty()) {
      if (given.text == kWorkspace) {
        if (row_.workspace_bytes.empty())
          report("TSC-O206", "the row has no workspace", place,
                 "say how large it is: \"workspace_bytes\"");
      } else if (!is_result(given.text) && !(known != nullptr && is_tensor(*known))) {
        report("TSC-O206",
               known != nullptr ? "the number '" + given.text + "' needs a type"
                                : "there is no tensor '" + given.text + "'",
               place,
               known != nullptr ? "write \"int " + given.text +
                                      "\", or another of int64, float, "
                                      "double, bool"
                                : near(given.text));
      }
    } else if (given.type == "float" || given.type == "double") {
      static const std::regex number(R"(-?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?)");
      if (!(known != nullptr && known->type == "float") && !std::regex_match(given.text, number))
        report("TSC-O206", "'" + given.text + "' is neither a float of the schema nor a number",
               place, near(given.text));
    } else {
      check_expression(given.text, place, false, true);
    }
  }
  void check_function(const CustomFunction &function, const std::string &where) {
    static const std::regex name(R"([A-Za-z_]\w*(::[A-Za-z_]\w*)*)");
    if (!std::regex_match(function.function, name))
      report("TSC-O205", "'" + function.function + "' is no name of a function",
             where + "/function");
    else if (!std::regex_search(
                 function.text,
                 std::regex("\\b" + function.function.substr(function.function.rfind(':') + 1) +
                            "\\b")))
      report("TSC-O205", function.file + " has no function '" + function.function + "'",
             where + "/function", "name the function that the file defines");
    if (&function != &row_.cuda && function.parameters == row_.cuda.parameters)
      return; // told once
    for (size_t i = 0; i < function.parameters.size(); ++i)
      check_parameter(function.parameters[i], where + "/arguments/" + std::to_string(i));
    for (const CustomResult &result : row_.results)
      if (std::none_of(function.parameters.begin(), function.parameters.end(),
                       [&](const CustomParameter &given) {
                         return given.type.empty() && given.text == result.name;
                       }))
        report("TSC-O206", "the function is not given the result '" + result.name + "'",
               where + "/arguments", "add \"" + result.name + "\": the function writes it");
  }
  void check_launch() {
    for (size_t i = 0; i < row_.cuda.grid.size(); ++i)
      check_expression(row_.cuda.grid[i], "/cuda/grid/" + std::to_string(i), false, true);
    check_expression(row_.cuda.shared_bytes, "/cuda/shared_bytes", false, true);
    int64_t threads = 1;
    for (const int size : row_.cuda.block)
      threads = size < 1 || size > 1024 ? 1025 : threads * size;
    if (threads > 1024)
      report("TSC-O206", "a block has 1 to 1024 threads", "/cuda/block",
             "choose sizes whose product is in that range");
  }
};

} // namespace

std::vector<Diagnostic> check_custom_operator(const CustomOperator &row) {
  return Checker(row).run();
}

} // namespace tsc::ops
