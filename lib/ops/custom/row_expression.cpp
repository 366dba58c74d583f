#include "ops/custom/row_expression.h"

#include "graph/indicators.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace tsc::ops {
namespace {

constexpr int kDeepest = 64; // of parentheses

/// What a reader makes of names: values of a call, or a list of them.
class Names {
public:
  virtual ~Names() = default;
  virtual Expr property(const std::string &tensor, const std::string &property, int64_t dimension,
                        size_t column) = 0;
  virtual Expr integer(const std::string &name, size_t column) = 0;
  /// Throws unless `divisor` is surely positive.
  virtual void check_divisor(Expr divisor, size_t column) = 0;
};

class Reader {
public:
  Reader(std::string_view text, Names &names) : text_(text), names_(names) {}

  Expr whole_expression() {
    const Expr result = expression();
    finish();
    return result;
  }
  RowCondition whole_condition() {
    RowCondition condition;
    condition.left = expression();
    for (const char *word : {"==", "!=", "<=", ">=", "<", ">"})
      if (accept(word)) {
        condition.comparison = word;
        condition.right = expression();
        finish();
        return condition;
      }
    fail("a comparison (==, !=, <, <=, >, >=) is missing");
  }

private:
  std::string_view text_;
  Names &names_;
  size_t at_ = 0;
  int depth_ = 0;

  [[noreturn]] void fail(const std::string &message) const {
    throw ExpressionError(message, at_ + 1);
  }
  void finish() {
    skip_spaces();
    if (at_ != text_.size())
      fail("'" + std::string(text_.substr(at_)) + "' is not understood");
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
  void expect(std::string_view word) {
    if (!accept(word))
      fail("'" + std::string(word) + "' is missing");
  }
  std::string word() {
    skip_spaces();
    const size_t start = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      ++at_;
    return std::string(text_.substr(start, at_ - start));
  }

  Expr expression() {
    Expr result = term();
    for (;;)
      if (accept("+"))
        result = result + term();
      else if (accept("-"))
        result = result - term();
      else
        return result;
  }
  Expr divisor() {
    skip_spaces();
    const size_t column = at_ + 1;
    const Expr result = factor();
    names_.check_divisor(result, column);
    return result;
  }
  Expr term() {
    Expr result = factor();
    for (;;)
      if (accept("*"))
        result = result * factor();
      else if (accept("//"))
        result = symbolic::floor_div(result, divisor());
      else if (accept("%"))
        result = symbolic::mod(result, divisor());
      else
        return result;
  }
  int64_t number() {
    skip_spaces();
    const bool negative = accept("-");
    const std::string digits = word();
    int64_t value = 0;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || end.ec != std::errc() || end.ptr != digits.data() + digits.size())
      fail("an integer is missing");
    return negative ? -value : value;
  }
  Expr factor() {
    if (++depth_ > kDeepest)
      fail("the expression is nested too deeply");
    const Expr result = simple_factor();
    --depth_;
    return result;
  }
  Expr simple_factor() {
    if (accept("-"))
      return -factor();
    if (accept("(")) {
      const Expr result = expression();
      expect(")");
      return result;
    }
    skip_spaces();
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0)
      return number();
    const size_t column = at_ + 1;
    const std::string name = word();
    if (name.empty())
      fail(at_ == text_.size() ? "the expression ends too early" : "a value is missing");
    if (accept("(")) {
      if (name != "min" && name != "max" && name != "ceil_div")
        throw ExpressionError("no function is called '" + name + "'", column);
      const Expr a = expression();
      expect(",");
      const Expr b = name == "ceil_div" ? divisor() : expression();
      expect(")");
      return name == "min"   ? symbolic::minimum(a, b)
             : name == "max" ? symbolic::maximum(a, b)
                             : symbolic::ceil_div(a, b);
    }
    if (!accept("."))
      return names_.integer(name, column);
    const std::string property = word();
    int64_t dimension = 0;
    expect("(");
    if (property == "size" || property == "stride")
      dimension = number();
    else if (property != "numel" && property != "rank" && property != "itemsize")
      throw ExpressionError("a tensor has no '" + property + "'", column);
    expect(")");
    return names_.property(name, property, dimension, column);
  }
};

class ValueNames : public Names {
public:
  explicit ValueNames(const RowNames &names) : names_(names) {}
  Expr property(const std::string &tensor, const std::string &property, int64_t dimension,
                size_t column) override {
    const auto found = names_.tensors.find(tensor);
    if (found == names_.tensors.end())
      throw ExpressionError("the tensor '" + tensor + "' is not given", column);
    const tensor::Layout &layout = found->second.layout;
    const auto rank = static_cast<int64_t>(layout.rank());
    if (property == "rank")
      return rank;
    if (property == "numel")
      return symbolic::numel(layout.sizes);
    if (property == "itemsize")
      return static_cast<int64_t>(tensor::size_in_bytes(found->second.dtype));
    if (dimension < -rank || dimension >= rank)
      throw ExpressionError("'" + tensor + "' of rank " + std::to_string(rank) +
                                " has no dimension " + std::to_string(dimension),
                            column);
    const auto axis = static_cast<size_t>(dimension < 0 ? dimension + rank : dimension);
    return property == "size" ? layout.sizes[axis] : layout.strides[axis];
  }
  Expr integer(const std::string &name, size_t column) override {
    const auto found = names_.integers.find(name);
    if (found == names_.integers.end())
      throw ExpressionError("no integer is called '" + name + "'", column);
    return found->second;
  }
  void check_divisor(Expr divisor, size_t column) override {
    if (symbolic::bounds(divisor, names_.ranges).low < 1)
      throw ExpressionError("the divisor " + symbolic::print(divisor) + " may be less than 1",
                            column);
  }

private:
  const RowNames &names_;
};

/// Stands a symbol for everything, so that nothing but the text decides.
class MentionNames : public Names {
public:
  Expr property(const std::string &tensor, const std::string &property, int64_t, size_t) override {
    add(mentions.properties, {tensor, property});
    return symbolic::symbol(symbolic::SymbolSort::size, next_++);
  }
  Expr integer(const std::string &name, size_t) override {
    add(mentions.names, name);
    return symbolic::symbol(symbolic::SymbolSort::size, next_++);
  }
  void check_divisor(Expr divisor, size_t column) override {
    if (divisor.is_integer() && divisor.value() < 1)
      throw ExpressionError("the divisor " + symbolic::print(divisor) + " is not positive", column);
  }
  RowMentions mentions;

private:
  size_t next_ = 0;
  template <class T> static void add(std::vector<T> &list, T item) {
    if (std::find(list.begin(), list.end(), item) == list.end())
      list.push_back(std::move(item));
  }
};

/// Integers beyond 64 bits are what is wrong with a text, too.
template <class Function> auto guarded(const Function &function) {
  try {
    return function();
  } catch (const support::UserError &error) {
    throw ExpressionError(error.diagnostics().front().message, 1);
  }
}

} // namespace

Expr read_expression(std::string_view text, const RowNames &names) {
  ValueNames values(names);
  return guarded(
      [&] { return symbolic::simplify(Reader(text, values).whole_expression(), names.ranges); });
}

RowCondition read_condition(std::string_view text, const RowNames &names) {
  ValueNames values(names);
  return guarded([&] { return Reader(text, values).whole_condition(); });
}

Expr indicator(const RowCondition &condition) {
  const Expr a = condition.left, b = condition.right;
  const std::string &word = condition.comparison;
  if (word == "==" || word == "!=")
    return word == "!=" ? graph::unequal(a, b) : graph::negation(graph::unequal(a, b));
  if (word == "<" || word == ">")
    return word == "<" ? graph::less(a, b) : graph::less(b, a);
  return word == "<=" ? graph::less_or_equal(a, b) : graph::less_or_equal(b, a);
}

RowMentions mentions_of(std::string_view text, bool is_condition) {
  MentionNames names;
  return guarded([&] {
    Reader reader(text, names);
    if (is_condition)
      reader.whole_condition();
    else
      reader.whole_expression();
    return std::move(names.mentions);
  });
}

} // namespace tsc::ops
