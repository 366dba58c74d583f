// Expressions in the rows of custom operators, over the sizes and numbers of a call:
//
//   expression:  term (("+" | "-") term)*
//   term:        factor (("*" | "//" | "%") factor)*
//   factor:      "-" factor | integer | "(" expression ")" | name
//                | tensor "." property | ("min" | "max" | "ceil_div") "(" expression, expression
//                ")"
//   property:    "size(" integer ")" | "stride(" integer ")" | "numel()" | "rank()" | "itemsize()"
//   condition:   expression ("==" | "!=" | "<" | "<=" | ">" | ">=") expression
//
// As Python computes: // rounds toward minus infinity, % has the sign of the divisor, which must be
// positive.
#pragma once

#include "ops/table/operator.h"

#include <map>
#include <stdexcept>
#include <string>

namespace tsc::ops {

/// A text that is outside of the grammar, or names what is not there; column from 1.
class ExpressionError : public std::runtime_error {
public:
  ExpressionError(const std::string &message, size_t column)
      : std::runtime_error(message), column_(column) {}
  size_t column() const { return column_; }

private:
  size_t column_;
};

/// What names stand for in one call.
struct RowNames {
  std::map<std::string, TensorMeta, std::less<>> tensors; // strides in elements
  std::map<std::string, Expr, std::less<>> integers;
  symbolic::Ranges ranges;
};
Expr read_expression(std::string_view text, const RowNames &names);

struct RowCondition {
  std::string comparison; // "=="
  Expr left, right;
};
RowCondition read_condition(std::string_view text, const RowNames &names);
/// 1 where it holds, else 0.
Expr indicator(const RowCondition &condition);

/// What a text mentions, each once: found without values. Throws as read_expression does.
struct RowMentions {
  std::vector<std::pair<std::string, std::string>> properties; // tensor, property
  std::vector<std::string> names;                              // of integers
};
RowMentions mentions_of(std::string_view text, bool is_condition);

} // namespace tsc::ops
