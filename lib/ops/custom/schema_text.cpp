#include "ops/custom/schema_text.h"

#include "support/text.h"

#include <algorithm>
#include <iterator>
#include <regex>

namespace tsc::ops {
namespace {

using support::Diagnostic;

constexpr const char *kExample =
    "as PyTorch writes it: \"mylib::fused_rope(Tensor q, int heads=1) -> (Tensor, Tensor)\"";

class SchemaChecker {
public:
  explicit SchemaChecker(const std::string &text) : text_(text) {}

  std::vector<Diagnostic> run() {
    static const std::regex whole(
        R"(([A-Za-z_]\w*)::([A-Za-z_]\w*)(\.[A-Za-z_]\w*)?\((.*)\) *-> *(.+))");
    std::smatch parts;
    if (!std::regex_match(text_, parts, whole)) {
      report("TSC-O202", "\"" + text_ + "\" is no schema of an operator", kExample);
      return std::move(problems_);
    }
    if (!trimmed(parts[4]).empty())
      for (const std::string &parameter : support::split(parts[4].str(), ','))
        check_parameter(trimmed(parameter));
    check_returns(trimmed(parts[5]));
    return std::move(problems_);
  }

private:
  const std::string &text_;
  std::vector<Diagnostic> problems_;

  void report(const char *code, std::string message, std::string next_step) {
    problems_.push_back({code, std::move(message), "", "/schema", "", "", std::move(next_step)});
  }
  static std::string trimmed(const std::string &text) {
    const size_t first = text.find_first_not_of(' ');
    return first == std::string::npos ? ""
                                      : text.substr(first, text.find_last_not_of(' ') - first + 1);
  }
  void check_alias(const std::string &type, const std::string &where) {
    if (type.find('(') != std::string::npos)
      report("TSC-O207",
             "'" + where +
                 "' is written or viewed: kernels of custom operators read their "
                 "arguments and yield tensors of their own",
             "return the new value instead, and copy_() it where it belongs");
  }

  void check_parameter(const std::string &text) {
    if (text == "*")
      return;
    static const std::regex form(
        R"(([A-Za-z]+)(\([^)]*\))?((\[\d*\]|\?)*) +([A-Za-z_]\w*)( *= *(\S+))?)");
    std::smatch parts;
    if (!std::regex_match(text, parts, form)) {
      report("TSC-O202", "'" + text + "' is no parameter of a schema", kExample);
      return;
    }
    const std::string type = parts[1].str() + parts[3].str(), value = parts[7];
    check_alias(parts[2], text);
    static const std::vector<std::string> types = {"Tensor", "Tensor?", "int",
                                                   "SymInt", "float",   "bool"};
    if (std::find(types.begin(), types.end(), type) == types.end()) {
      report("TSC-O202", "'" + text + "': kernels are not given arguments of type " + type,
             "the types are " + support::join(types, ", "));
      return;
    }
    static const std::regex integer(R"(-?\d{1,18})"),
        number(R"(-?(\d+(\.\d*)?|\.\d+)(e-?\d{1,3})?)");
    const bool fits = value.empty()       ? true
                      : type == "Tensor"  ? false
                      : type == "Tensor?" ? value == "None"
                      : type == "bool"    ? value == "True" || value == "False"
                      : type == "float"   ? std::regex_match(value, number)
                                          : std::regex_match(value, integer);
    if (!fits)
      report("TSC-O202", "'" + text + "': the default is no " + type, kExample);
  }

  void check_returns(std::string text) {
    if (text.size() > 1 && text.front() == '(' && text.back() == ')')
      text = text.substr(1, text.size() - 2);
    static const std::regex form(R"(Tensor(\([^)]*\))?( +[A-Za-z_]\w*)?)");
    for (const std::string &part : support::split(text, ',')) {
      const std::string result = trimmed(part);
      std::smatch parts;
      if (!std::regex_match(result, parts, form))
        report("TSC-O202", "'" + result + "' is no result of a custom operator",
               "it returns one Tensor or several: -> (Tensor, Tensor)");
      else
        check_alias(parts[1], result);
    }
  }
};

} // namespace

std::vector<Diagnostic> schema_problems(const std::string &schema) {
  return SchemaChecker(schema).run();
}

} // namespace tsc::ops
