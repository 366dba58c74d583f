// Text as sympy's str and TorchInductor's logs have it.
#include "symbolic/node.h"

#include "support/diagnostic.h"

namespace tsc::symbolic {
namespace {

// sympy's precedences; FloorDiv, ModularIndexing and Mod declare themselves looser than a sum.
constexpr int kIdentity = 10, kDivision = 35, kAdd = 40, kMul = 50, kPower = 60, kAtom = 1000;

int precedence(Expr e) {
  switch (e.kind()) {
  case Kind::integer:
    return e.value() < 0 ? kAdd : kAtom;
  case Kind::add:
    return kAdd;
  case Kind::mul:
    return term_of(e).coefficient < 0 ? kAdd : kMul;
  case Kind::power:
    return kPower;
  case Kind::floor_div:
  case Kind::modular_index:
  case Kind::mod:
    return kDivision;
  case Kind::identity:
    return kIdentity;
  default:
    return kAtom;
  }
}

class Printer {
public:
  /// `name_of` null: symbols as they are spelled.
  explicit Printer(const SymbolWriter *name_of) : name_of_(name_of) {}

  void print_to(std::string &text, Expr e) {
    switch (e.kind()) {
    case Kind::integer:
      text += std::to_string(e.value());
      return;
    case Kind::symbol:
      text += name_of_ ? (*name_of_)(e) : e.spelling();
      return;
    case Kind::add:
      return print_sum(text, e);
    case Kind::mul:
      return print_product(text, e);
    case Kind::power:
      print_operand(text, e.operands()[0], kPower, false);
      text += "**";
      return print_operand(text, e.operands()[1], kPower, true);
    case Kind::floor_div:
      text += '(';
      print_operand(text, e.operands()[0], kAtom, true);
      text += "//";
      print_operand(text, e.operands()[1], kAtom, true);
      text += ')';
      return;
    case Kind::modular_index:
      return print_call(text, "ModularIndexing", e.operands());
    case Kind::mod:
      return print_call(text, "Mod", e.operands());
    case Kind::minimum:
      return print_call(text, "Min", e.operands());
    case Kind::maximum:
      return print_call(text, "Max", e.operands());
    case Kind::identity:
      text += '(';
      print_to(text, e.operands()[0]);
      text += ')';
      return;
    }
  }

private:
  /// In parentheses if it binds no tighter than `level` (or exactly as tight, unless `strict`).
  void print_operand(std::string &text, Expr e, int level, bool strict) {
    int own = precedence(e);
    bool parenthesize = own < level || (!strict && own == level);
    if (parenthesize)
      text += '(';
    print_to(text, e);
    if (parenthesize)
      text += ')';
  }

  void print_call(std::string &text, const char *name, std::span<const Expr> operands) {
    text += name;
    text += '(';
    for (size_t i = 0; i < operands.size(); ++i) {
      if (i != 0)
        text += ", ";
      print_to(text, operands[i]);
    }
    text += ')';
  }

  void print_product(std::string &text, Expr e) {
    Term term = term_of(e);
    bool first = true;
    if (term.coefficient == -1) {
      text += '-';
    } else if (term.coefficient != 1) {
      text += std::to_string(term.coefficient);
      first = false;
    }
    for (Expr factor : factors_of(term.monomial)) {
      if (!first)
        text += '*';
      first = false;
      print_operand(text, factor, kMul, false);
    }
  }

  void print_sum(std::string &text, Expr e) {
    bool first = true;
    for (Expr term : e.operands()) {
      std::string part;
      print_operand(part, term, kAdd, true);
      bool negative = part[0] == '-';
      if (first)
        text += part;
      else
        text += (negative ? " - " : " + ") + part.substr(negative ? 1 : 0);
      first = false;
    }
  }

  const SymbolWriter *name_of_;
};

} // namespace

std::string print(Expr e) {
  std::string text;
  Printer(nullptr).print_to(text, e);
  return text;
}
std::string print(Expr e, const SymbolWriter &name_of) {
  std::string text;
  Printer(&name_of).print_to(text, e);
  return text;
}

} // namespace tsc::symbolic
