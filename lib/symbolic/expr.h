// Integer expressions: every size, stride, offset, index and numel is one.
//
// An Expr is a handle to a hash-consed, immutable node in canonical form: structurally equal
// expressions are the same node, so == is a pointer comparison. The canonical form is an expanded
// polynomial (a sum of integer * product of powers) over atoms: symbols, FloorDiv, ModularIndexing,
// Mod, Min, Max. Whose nodes are and how long they live: expression_scope.h; threads may make them.
//
// Semantics: values are mathematical integers held in int64; FloorDiv rounds toward minus infinity;
// ModularIndexing(x, d, m) = FloorDiv(x, d) mod m with a result in [0, m). Divisors and moduli are
// positive. Constant folding that would leave int64 throws support::UserError TSC-G090 (bad_input);
// G092: nesting or expansion beyond all reason; G093: a constant divisor that is not positive.
// Order and hashes depend on content only, never on addresses or creation order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tsc::symbolic {

enum class Kind : uint8_t {
  integer,
  symbol,
  add,           // 2+ operands, canonical order, the integer (if any) in `constant`
  mul,           // integer coefficient and 1+ factors
  power,         // operand ** positive integer
  floor_div,     // (x, d)
  modular_index, // (x, d, m)
  mod,           // (x, m), result in [0, m)
  minimum,
  maximum,
  identity, // (x): a group that sums and products do not expand, as newer TorchInductor keeps them
};

/// What a symbol stands for. A symbol is its sort and a number and nothing else: the names that a
/// user gave stand with the graph (graph::SymbolNames). Each sort has a spelling of its own, so
/// that no two symbols print equal: a word, behind it the number; a sort that has one symbol only
/// is spelled without. The spellings are those of the field where it has some.
enum class SymbolSort : uint8_t {
  size,          // s0: a size that the inputs of a program decide
  data,          // u0: an integer that the data decides
  computed_size, // ps0: computed from sizes before a launch
  dimension,     // i0: index into the result of a node; loop over a kernel's elements
  operand,       // v0: value of an operand
  loop,          // z0: of a loop body
  log_loop,      // p0: of a loop body, as newer logs print it
  dependency,    // d0: loop of a dependency
  merged_loop,   // c0: loop of a dependency whose loops are merged
  passing,       // merged0: loop on the way from one loop body to another
  unread,        // unused0: a dimension of size 1, which no index mentions
  whole_row,     // y0, q0: loops of a kernel's rows and of what they reduce, before they are merged
  whole_reduced, //
  row,           // x0: loop over a kernel's rows, or what indices take from the row alone
  reduced,       // r0: loop of a kernel over what it reduces
  indirect,      // indirect0: index loaded at run time, in a loop body
  loaded,        // tmp0: the same in a dependency and in a kernel
  run_time,      // runtime0: the same while a loop body is interpreted
  vector_element, // j: element of a vector
  matrix_row,     // row, column, term: where a matrix product is
  matrix_column,  //
  matrix_term,    //
  check,          // number_of_check: of a launch's own assertion
};
inline constexpr size_t kSymbolSorts = static_cast<size_t>(SymbolSort::check) + 1;
/// Numbers are below this.
inline constexpr size_t kMostSymbols = size_t{1} << 31;

struct Node;

class Expr {
public:
  Expr() : Expr(int64_t{0}) {}
  Expr(int64_t value); // NOLINT: integers are expressions
  Expr(int value) : Expr(static_cast<int64_t>(value)) {}

  Kind kind() const;
  bool is_integer() const { return kind() == Kind::integer; }
  bool is_integer(int64_t value) const { return is_integer() && this->value() == value; }
  bool is_symbol() const { return kind() == Kind::symbol; }
  /// Precondition: is_integer().
  int64_t value() const;
  std::optional<int64_t> as_integer() const;
  /// Precondition of these: is_symbol(). Sort and number are the identity; the spelling is theirs.
  SymbolSort sort() const;
  size_t number() const;
  const std::string &spelling() const;
  bool is_symbol(SymbolSort sort) const { return is_symbol() && this->sort() == sort; }
  /// add: its terms (an integer term last); mul: integer coefficient first if it is not 1;
  /// power: {base, exponent}; others as in Kind.
  std::span<const Expr> operands() const;
  /// Content hash, the same in every run.
  uint64_t hash() const;

  friend bool operator==(Expr a, Expr b) { return a.node_ == b.node_; }
  friend bool operator!=(Expr a, Expr b) { return a.node_ != b.node_; }

private:
  friend struct Builder;
  explicit Expr(const Node *node) : node_(node) {}
  const Node *node_;
};

struct ExprHash {
  size_t operator()(Expr e) const { return static_cast<size_t>(e.hash()); }
};
/// Total order by content (as sympy would print terms); use it for deterministic containers.
struct ExprLess {
  bool operator()(Expr a, Expr b) const;
};

Expr integer(int64_t value);
/// Expressions that stay, and those of the scope that the thread is in: each content once.
size_t expression_count();
/// `number` is below kMostSymbols, and 0 for a sort of one symbol.
Expr symbol(SymbolSort sort, size_t number = 0);
/// The symbol of this spelling, if there is one: "s0" is, "s00" and "batch" are not.
std::optional<Expr> symbol_spelled(std::string_view spelling);
/// The word that the spellings of a sort begin with, or are.
std::string_view spelling_of(SymbolSort sort);
bool has_numbers(SymbolSort sort);

Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator-(Expr a);
Expr operator*(Expr a, Expr b);
Expr &operator+=(Expr &a, Expr b);
Expr &operator*=(Expr &a, Expr b);
Expr sum(std::span<const Expr> terms);
Expr product(std::span<const Expr> factors);
Expr floor_div(Expr x, Expr divisor);
Expr modular_index(Expr x, Expr divisor, Expr modulus);
Expr mod(Expr x, Expr modulus);
Expr ceil_div(Expr x, Expr divisor); // FloorDiv(x + divisor - 1, divisor)
Expr minimum(Expr a, Expr b);
Expr maximum(Expr a, Expr b);
/// x, kept as one atom: sums and products around it do not expand it. simplify keeps it.
Expr identity(Expr x);

/// Inclusive bounds; int64 extremes stand for unbounded, arithmetic on them saturates.
struct Interval {
  int64_t low = INT64_MIN;
  int64_t high = INT64_MAX;
  friend bool operator==(const Interval &, const Interval &) = default;
};
/// What is known of symbols. A loop variable of size n has [0, n - 1]; a size symbol its range from
/// the graph (default [0, 2^63 - 1] of sizes and data; of others unbounded).
class Ranges {
public:
  void set(Expr symbol, Interval interval);
  /// Records that a loop variable runs over [0, size).
  void set_size(Expr symbol, Expr size);
  Interval interval_of(Expr symbol) const;
  /// Upper end as an expression (size - 1), if set_size gave a symbolic size.
  std::optional<Expr> size_of(Expr symbol) const;

private:
  std::unordered_map<Expr, Interval, ExprHash> intervals_;
  std::unordered_map<Expr, Expr, ExprHash> sizes_;
};

Interval bounds(Expr e, const Ranges &ranges);
/// Provable facts only: false means "not known".
bool known_nonnegative(Expr e, const Ranges &ranges);
bool known_less(Expr a, Expr b, const Ranges &ranges); // a < b
bool known_less_equal(Expr a, Expr b, const Ranges &ranges);
/// Whether `x` is at most one symbolic `modulus` away from its remainder by it: a rotation.
bool wraps_once(Expr x, Expr modulus, const Ranges &ranges);
bool known_multiple_of(Expr e, int64_t divisor, const Ranges &ranges = {});

/// Equivalent on all points of `ranges`, with FloorDiv, ModularIndexing, Mod, Min, Max reduced
/// where the ranges allow. Returns the same node if nothing applies. Follows the rules that
/// TorchInductor's sizevars.simplify_with_ranges states; verified by evaluation in tests.
Expr simplify(Expr e, const Ranges &ranges);

using Substitution = std::unordered_map<Expr, Expr, ExprHash>;
/// Replaces symbols (keys are symbols), all at once.
Expr substitute(Expr e, const Substitution &replacements);
/// Symbols of `e` in ExprLess order, each once.
std::vector<Expr> free_symbols(Expr e);
bool depends_on(Expr e, Expr symbol);
/// Coefficient c when e = c*symbol + rest and neither c nor rest mentions `symbol`; else nothing.
std::optional<Expr> coefficient_of(Expr e, Expr symbol);
/// What `variable` is divided by within `e`: the inner size of a loop that is two in one; 0 if
/// nothing divides it.
int64_t divisor_of(Expr e, Expr variable);
/// Strides of `e` over `variables`: e(v=1, others 0) - e(all 0), as TorchInductor's stride_vars
/// does (exact when e is affine, a hint otherwise).
std::vector<Expr> stride_vars(Expr e, std::span<const Expr> variables);
/// e with all `variables` set to 0.
Expr offset_of(Expr e, std::span<const Expr> variables);
/// True if e = offset + sum(stride_i * v_i) with strides and offset free of `variables`.
bool is_affine(Expr e, std::span<const Expr> variables);

using Bindings = std::unordered_map<Expr, int64_t, ExprHash>;
/// Value of `e`. Throws InternalError when a symbol is unbound, UserError TSC-G090 on overflow.
int64_t evaluate(Expr e, const Bindings &bindings);

/// As sympy and TorchInductor's logs print it: "256*z0 + z1", "(z0//4)", "ModularIndexing(z0, 1,
/// 64)", "s0**2", "Min(s0, s1)". parse(print(e)) == e.
std::string print(Expr e);
/// The same with what `name_of` gives in place of the symbols' spellings.
using SymbolWriter = std::function<std::string(Expr symbol)>;
std::string print(Expr e, const SymbolWriter &name_of);
/// Reads what print writes, and the spellings of torch.export and of the 2.11 logs ("s77*4",
/// "FloorDiv(a, b)", "Mod", "PythonMod", "Max", "CeilDiv", "**"). Throws UserError TSC-G091 with
/// the column on a syntax error and on a name that spells no symbol; nesting is bounded.
Expr parse(std::string_view text);
/// The same with names that `symbol_of` knows (nothing: no symbol) in place of spellings.
using SymbolReader = std::function<std::optional<Expr>(std::string_view name)>;
Expr parse(std::string_view text, const SymbolReader &symbol_of);
/// As parse, for logs that hold identity(): a pair of parentheses that print would not have written
/// around a plain group ("((p1 - 64)) + 128*p0", or "(p1)" alone) is read as identity.
/// parse_log(print(e)) == e also for those.
Expr parse_log(std::string_view text);
/// C++ text over int64 (or int32) variables, through the prelude's tc_floor_div / tc_mod where a
/// dividend may be negative under `ranges`, plain / and % where it cannot, tc_wrap for wraps_once.
std::string print_cpp(Expr e, const Ranges &ranges);
/// The same where it divides, as a factor. A size that may be 0 divides places in what has no
/// elements, which are not used: a processor would not divide by it (tc_divisor of the prelude).
std::string print_cpp_divisor(Expr e, const Ranges &ranges);

/// product over sizes; 1 if empty.
Expr numel(std::span<const Expr> sizes);

} // namespace tsc::symbolic
