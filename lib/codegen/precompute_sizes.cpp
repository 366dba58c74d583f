#include "codegen/precompute_sizes.h"

#include "symbolic/divide_terms.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tsc::codegen {

namespace {

using symbolic::Kind;

constexpr size_t kFewTerms = 2; // "s0 + 1" is as good as a name

std::span<const Expr> terms_of(const Expr &e) {
  return e.kind() == Kind::add ? e.operands() : std::span<const Expr>(&e, 1);
}
std::span<const Expr> factors_of(const Expr &e) {
  return e.kind() == Kind::mul ? e.operands() : std::span<const Expr>(&e, 1);
}
int64_t coefficient_of_term(Expr term) {
  const Expr first = factors_of(term)[0];
  return first.is_integer() ? first.value() : 1;
}

class Namer {
public:
  Namer(KernelGraph &graph, std::vector<PrecomputedSize> &sizes) : graph_(graph), sizes_(sizes) {
    for (const auto *list : {&graph.row_variables, &graph.element_variables})
      variables_.insert(variables_.end(), list->begin(), list->end());
    for (const Value &value : graph.values)
      if (value.op == ir::Op::set_indirect)
        variables_.push_back(value.symbol);
  }

  void run() {
    name_sizes(graph_.row_variables, graph_.row_sizes);
    name_sizes(graph_.element_variables, graph_.element_sizes);
    for (Value &value : graph_.values) {
      value.index = named(value.index);
      value.extent = named(value.extent);
      if (value.op == ir::Op::set_indirect)
        graph_.ranges.set_size(value.symbol, value.extent);
    }
  }

private:
  KernelGraph &graph_;
  std::vector<PrecomputedSize> &sizes_;
  std::vector<Expr> variables_;
  std::unordered_map<Expr, Expr, symbolic::ExprHash> memo_;

  void name_sizes(const std::vector<Expr> &variables, std::vector<Expr> &sizes) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      sizes[i] = named(sizes[i]);
      graph_.ranges.set_size(variables[i], sizes[i]);
    }
  }
  bool varies(Expr e) const {
    return std::any_of(variables_.begin(), variables_.end(),
                       [&](Expr variable) { return symbolic::depends_on(e, variable); });
  }
  static bool divides(Expr e) {
    if (e.is_integer() || e.is_symbol())
      return false;
    const std::span<const Expr> operands = e.operands();
    return (e.kind() != Kind::add && e.kind() != Kind::mul && e.kind() != Kind::power) ||
           std::any_of(operands.begin(), operands.end(), divides);
  }
  static bool is_costly(Expr e) { return divides(e) || terms_of(e).size() > kFewTerms; }

  /// `e`, which depends on sizes alone, over named sizes.
  Expr named_size(Expr e) {
    if (!is_costly(e))
      return e;
    int64_t common = 0;
    for (const Expr term : terms_of(e))
      common = std::gcd(common, coefficient_of_term(term));
    if (coefficient_of_term(terms_of(e)[0]) < 0)
      common = -common;
    if (common != 1) // exact: common divides every term
      return Expr(common) * named_size(symbolic::divide_terms(e, common).quotient);
    for (const PrecomputedSize &size : sizes_) {
      const symbolic::Quotient part = symbolic::divide_terms(e, size.value);
      if (part.rest.is_integer(0)) {
        const Expr known = know(size); // first: naming the quotient may move what `size` refers to
        return known * named_size(part.quotient);
      }
    }
    sizes_.push_back({symbolic::symbol(symbolic::SymbolSort::computed_size, sizes_.size()), e});
    return know(sizes_.back());
  }
  Expr know(const PrecomputedSize &size) {
    const Kind kind = size.value.kind();
    if (kind == Kind::mod || kind == Kind::modular_index) // below its modulus, as a place is
      graph_.ranges.set_size(size.symbol, size.value.operands().back());
    else
      graph_.ranges.set(size.symbol, symbolic::bounds(size.value, graph_.ranges));
    return size.symbol;
  }

  /// Any expression: its coefficients, and the sizes inside its divisions.
  Expr named(Expr e) {
    if (e.is_integer() || e.is_symbol())
      return e;
    if (!varies(e))
      return named_size(e);
    if (const auto found = memo_.find(e); found != memo_.end())
      return found->second;
    std::map<Expr, Expr, symbolic::ExprLess> coefficients; // by what varies
    for (const Expr term : terms_of(e)) {
      Expr coefficient = 1, rest = 1;
      for (const Expr factor : factors_of(term))
        (varies(factor) ? rest : coefficient) *= factor;
      coefficients[rest] += coefficient;
    }
    Expr result = 0;
    for (const auto &[rest, coefficient] : coefficients)
      result += named_size(coefficient) * named_atoms(rest);
    memo_.emplace(e, result);
    return result;
  }
  /// A product of things that vary.
  Expr named_atoms(Expr product) {
    Expr result = 1;
    for (const Expr factor : factors_of(product))
      result *= named_atom(factor);
    return result;
  }
  Expr named_atom(Expr e) {
    const auto operand = [&](size_t i) { return named(e.operands()[i]); };
    switch (e.kind()) {
    case Kind::floor_div:
      return symbolic::floor_div(operand(0), operand(1));
    case Kind::modular_index:
      return symbolic::modular_index(operand(0), operand(1), operand(2));
    case Kind::mod:
      return symbolic::mod(operand(0), operand(1));
    case Kind::minimum:
    case Kind::maximum: {
      Expr result = operand(0);
      for (size_t i = 1; i < e.operands().size(); ++i)
        result = e.kind() == Kind::minimum ? symbolic::minimum(result, operand(i))
                                           : symbolic::maximum(result, operand(i));
      return result;
    }
    default: // symbols and their powers
      return e;
    }
  }
};

} // namespace

void precompute_sizes(KernelGraph &graph, std::vector<PrecomputedSize> &sizes) {
  Namer(graph, sizes).run();
}

} // namespace tsc::codegen
