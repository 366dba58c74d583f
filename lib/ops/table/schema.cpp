// Reads ATen's schema text.
#include "ops/table/operator.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <charconv>

namespace tsc::ops {
namespace {

class Parser {
public:
  explicit Parser(std::string_view text) : text_(text) {}

  Schema schema() {
    Schema schema;
    size_t open = text_.find('(');
    support::require(open != std::string_view::npos, "parse_schema", std::string(text_));
    at_ = open + 1;
    bool keyword_only = false;
    while (!accept(")")) {
      if (accept("*,") || accept("*"))
        keyword_only = true;
      else
        schema.parameters.push_back(parameter(keyword_only));
      accept(",");
    }
    require(accept("->"), "no '->'");
    if (!accept("(")) {
      schema.returns.push_back(parameter(false));
      return schema;
    }
    while (!accept(")")) {
      schema.returns.push_back(parameter(false));
      accept(",");
    }
    return schema;
  }

private:
  std::string_view text_;
  size_t at_ = 0;

  void require(bool condition, const char *message) {
    support::require(condition, "parse_schema", std::string(message) + ": " + std::string(text_));
  }
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ')
      ++at_;
  }
  bool accept(std::string_view word) {
    skip_spaces();
    if (text_.substr(at_, word.size()) != word)
      return false;
    at_ += word.size();
    return true;
  }
  std::string word() {
    skip_spaces();
    size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  text_[at_] == '_' || text_[at_] == '.'))
      ++at_;
    return std::string(text_.substr(start, at_ - start));
  }

  /// Type, alias set, list and optional marks, then a name and a default.
  Parameter parameter(bool keyword_only) {
    Parameter result;
    result.keyword_only = keyword_only;
    result.type = word();
    require(!result.type.empty(), "no type");
    if (at_ < text_.size() && text_[at_] == '(') {
      size_t close = text_.find(')', at_);
      result.alias = std::string(text_.substr(at_ + 1, close - at_ - 1));
      at_ = close + 1;
    }
    while (at_ < text_.size() && (text_[at_] == '?' || text_[at_] == '[')) {
      size_t end = text_[at_] == '?' ? at_ : text_.find(']', at_);
      result.type += std::string(text_.substr(at_, end + 1 - at_));
      at_ = end + 1;
    }
    result.name = word();
    if (accept("="))
      result.default_value = default_value();
    return result;
  }

  Argument default_value() {
    if (accept("[")) {
      Argument::List list;
      while (!accept("]")) {
        list.push_back(default_value());
        accept(",");
      }
      return list;
    }
    if (accept("'")) {
      size_t end = text_.find('\'', at_);
      std::string value(text_.substr(at_, end - at_));
      at_ = end + 1;
      return value;
    }
    bool negative = accept("-");
    std::string text = word();
    if (text.find('e') != std::string::npos && at_ < text_.size() && text_[at_] == '-' &&
        std::isdigit(static_cast<unsigned char>(text[0])) != 0) {
      ++at_; // 1e-05
      text += '-' + word();
    }
    if (text == "None")
      return graph::None{};
    if (text == "True" || text == "False")
      return text == "True";
    if (text == "contiguous_format")
      return graph::MemoryFormat::contiguous;
    if (text == "Mean")
      return 1;
    if (text.find_first_of(".e") == std::string::npos) {
      int64_t value = 0;
      auto end = std::from_chars(text.data(), text.data() + text.size(), value);
      require(end.ec == std::errc(), "bad default");
      return negative ? -value : value;
    }
    double value = 0;
    auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    require(end.ec == std::errc(), "bad default");
    return negative ? -value : value;
  }
};

} // namespace

bool is_written(const Parameter &parameter) {
  return parameter.alias.find('!') != std::string::npos;
}

bool Schema::is_mutable() const {
  return std::any_of(parameters.begin(), parameters.end(), is_written);
}

Schema parse_schema(std::string_view text) { return Parser(text).schema(); }

} // namespace tsc::ops
