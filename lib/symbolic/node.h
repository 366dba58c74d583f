// The nodes behind Expr, and the intern tables that make structurally equal ones the same.
// Internal to lib/symbolic.
#pragma once

#include "symbolic/expr.h"

namespace tsc::symbolic {

/// Deepest nesting of FloorDiv, ModularIndexing, Min, ... that is built (TSC-G092 beyond it), so
/// that walks over an expression may recurse.
inline constexpr uint32_t kMaxDepth = 400;
/// Parts of an expression as a tree, shared ones counted each time (TSC-G092 beyond it): printing
/// and evaluating walk the tree, which sharing lets grow exponentially in the number of nodes.
inline constexpr uint64_t kMaxParts = 200'000;
/// Largest exponent that is built (TSC-G092 beyond it): any larger power of 2 leaves 64 bits.
inline constexpr int64_t kMaxExponent = 64;

struct Node {
  Kind kind = Kind::integer;
  uint32_t depth = 0;       // 0 for integers and symbols
  uint32_t parts = 1;       // nodes of the tree, this one included
  uint64_t hash = 0;        // of the content
  int64_t value = 0;        // integer: the value; mul: the coefficient; symbol: the number
  uint64_t symbol_mask = 0; // bit (hash of a symbol mod 64) for every symbol below
  SymbolSort sort = SymbolSort::size; // symbol
  std::string spelling;               // symbol
  std::vector<Expr> operands;
  const void *home = nullptr;     // the table that made it; null: everybody's
  const Node *monomial = nullptr; // mul with a coefficient other than 1: the product without it
};

/// The one door to nodes.
struct Builder {
  static const Node *node(Expr e) { return e.node_; }
  static Expr expr(const Node *node) { return Expr(node); }
  /// The unique node of this content. `operands` are in canonical order.
  static Expr intern(Kind kind, std::vector<Expr> operands, int64_t value = 0);
  static Expr intern_symbol(SymbolSort sort, size_t number);
  static const Node *intern_integer(int64_t value);
};

// ---- terms: coefficient * monomial; the monomial of an integer is 1 -----------------------------

struct Term {
  int64_t coefficient = 0;
  Expr monomial; // integer 1, an atom, a power, or a mul without coefficient
};
Term term_of(Expr e); // precondition: not an add
Expr make_term(int64_t coefficient, Expr monomial);
/// The terms of `e`: its operands if it is an add, none if it is 0, else itself.
std::span<const Expr> terms_of(const Expr &e);
/// The factors of a monomial (none for 1): atoms and powers in canonical order.
std::span<const Expr> factors_of(const Expr &monomial);
struct Factor {
  Expr base;
  int64_t exponent = 1;
};
Factor factor_of(Expr e);
/// Positive integer that divides every term's coefficient (0 for 0).
int64_t content_of(Expr e);
/// e / divisor for an integer that divides every coefficient.
Expr divide_exactly(Expr e, int64_t divisor);
/// term / divisor where both are single terms, if that is again a term.
std::optional<Expr> divide_term(Expr term, Expr divisor);

// ---- order
// -----------------------------------------------------------------------------------------

/// sympy's default_sort_key: <0, 0, >0.
int compare(Expr a, Expr b);
/// Order of terms inside a sum, as sympy prints them: lexicographic by exponents, largest first.
int compare_monomials(Expr a, Expr b);

// ---- checked arithmetic
// ------------------------------------------------------------------------------

[[noreturn]] void throw_overflow(const char *operation, int64_t a, int64_t b);
[[noreturn]] void throw_bad_divisor(const char *operation, int64_t divisor);
int64_t checked_add(int64_t a, int64_t b);
int64_t checked_mul(int64_t a, int64_t b);
int64_t floor_quotient(int64_t a, int64_t b);  // b > 0
int64_t floor_remainder(int64_t a, int64_t b); // b > 0, result in [0, b)

/// Bounds of FloorDiv of values within `x` and `divisor`.
Interval quotient_bounds(Interval x, Interval divisor);

/// base ** exponent, expanded.
Expr power(Expr base, int64_t exponent);

/// Rebuilds `e` with other operands, through the public constructors. Precondition: not a leaf.
Expr rebuild(Expr e, std::span<const Expr> operands);

} // namespace tsc::symbolic
