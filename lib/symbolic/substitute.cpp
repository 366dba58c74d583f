// Replacing symbols, and reading an expression's dependence on them.
#include "symbolic/node.h"

#include <algorithm>
#include <set>

namespace tsc::symbolic {
namespace {

uint64_t mask_of(Expr e) { return Builder::node(e)->symbol_mask; }

class Substituter {
public:
  explicit Substituter(const Substitution &replacements) : replacements_(replacements) {
    for (const auto &replacement : replacements)
      mask_ |= mask_of(replacement.first);
  }

  Expr visit(Expr e) {
    if ((mask_of(e) & mask_) == 0)
      return e;
    if (e.is_symbol()) {
      auto found = replacements_.find(e);
      return found == replacements_.end() ? e : found->second;
    }
    bool remember = Builder::node(e)->depth > 1;
    if (remember) {
      auto found = memo_.find(e);
      if (found != memo_.end())
        return found->second;
    }
    std::vector<Expr> operands;
    operands.reserve(e.operands().size());
    bool changed = false;
    for (Expr operand : e.operands()) {
      operands.push_back(visit(operand));
      changed = changed || operands.back() != operand;
    }
    Expr result = changed ? rebuild(e, operands) : e;
    if (remember)
      memo_.emplace(e, result);
    return result;
  }

private:
  const Substitution &replacements_;
  uint64_t mask_ = 0;
  std::unordered_map<Expr, Expr, ExprHash> memo_;
};

void collect_symbols(Expr e, std::set<Expr, ExprLess> &symbols,
                     std::unordered_map<Expr, bool, ExprHash> &seen) {
  if (mask_of(e) == 0)
    return;
  if (e.is_symbol()) {
    symbols.insert(e);
    return;
  }
  if (Builder::node(e)->depth > 1 && !seen.emplace(e, true).second)
    return;
  for (Expr operand : e.operands())
    collect_symbols(operand, symbols, seen);
}

bool find_symbol(Expr e, Expr symbol, std::unordered_map<Expr, bool, ExprHash> &seen) {
  if (e == symbol)
    return true;
  if ((mask_of(e) & mask_of(symbol)) == 0)
    return false;
  if (Builder::node(e)->depth > 1 && !seen.emplace(e, true).second)
    return false;
  for (Expr operand : e.operands())
    if (find_symbol(operand, symbol, seen))
      return true;
  return false;
}

} // namespace

Expr substitute(Expr e, const Substitution &replacements) {
  return Substituter(replacements).visit(e);
}

std::vector<Expr> free_symbols(Expr e) {
  std::set<Expr, ExprLess> symbols;
  std::unordered_map<Expr, bool, ExprHash> seen;
  collect_symbols(e, symbols, seen);
  return {symbols.begin(), symbols.end()};
}

bool depends_on(Expr e, Expr symbol) {
  std::unordered_map<Expr, bool, ExprHash> seen;
  return find_symbol(e, symbol, seen);
}

std::optional<Expr> coefficient_of(Expr e, Expr symbol) {
  std::vector<Expr> coefficients;
  for (Expr term : terms_of(e)) {
    if (!depends_on(term, symbol))
      continue;
    std::optional<Expr> coefficient = divide_term(term, symbol);
    if (!coefficient || depends_on(*coefficient, symbol))
      return std::nullopt;
    coefficients.push_back(*coefficient);
  }
  return sum(coefficients);
}

Expr offset_of(Expr e, std::span<const Expr> variables) {
  Substitution zeros;
  for (Expr variable : variables)
    zeros.emplace(variable, Expr(0));
  return substitute(e, zeros);
}

int64_t divisor_of(Expr e, Expr variable) {
  if (e.is_integer() || e.is_symbol())
    return 0;
  const auto operands = e.operands();
  const bool divides = e.kind() == Kind::floor_div || e.kind() == Kind::mod;
  if (divides && operands[0] == variable && operands[1].is_integer())
    return operands[1].value();
  if (e.kind() == Kind::modular_index && operands[0] == variable && operands[1].is_integer(1) &&
      operands[2].is_integer())
    return operands[2].value();
  for (const Expr operand : operands)
    if (const int64_t found = divisor_of(operand, variable); found != 0)
      return found;
  return 0;
}

std::vector<Expr> stride_vars(Expr e, std::span<const Expr> variables) {
  Substitution values;
  for (Expr variable : variables)
    values.emplace(variable, Expr(0));
  Expr offset = substitute(e, values);
  std::vector<Expr> strides;
  strides.reserve(variables.size());
  for (Expr variable : variables) {
    if (!depends_on(e, variable)) {
      strides.push_back(Expr(0));
      continue;
    }
    values[variable] = Expr(1);
    strides.push_back(substitute(e, values) - offset);
    values[variable] = Expr(0);
  }
  return strides;
}

bool is_affine(Expr e, std::span<const Expr> variables) {
  for (Expr variable : variables) {
    std::optional<Expr> coefficient = coefficient_of(e, variable);
    if (!coefficient)
      return false;
    for (Expr other : variables)
      if (depends_on(*coefficient, other))
        return false;
  }
  return true;
}

} // namespace tsc::symbolic
