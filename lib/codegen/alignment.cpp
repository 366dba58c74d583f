#include "codegen/alignment.h"

#include <algorithm>
#include <map>

namespace tsc::codegen {

namespace {

using symbolic::Kind;

constexpr size_t kMostChecks = 16; // sizes that one kernel checks

class Checks {
public:
  Checks(const KernelGraph &graph, const std::vector<RunDirection> &directions, int64_t of)
      : graph_(graph), directions_(directions) {
    checked_.of = of;
  }

  Divisibility find() {
    for (const RunDirection &direction : directions_) {
      if (symbolic::known_multiple_of(direction.size, checked_.of, graph_.ranges))
        continue;
      // No launch will find a number to be one, or the last of the parts of a row.
      if (direction.size.is_integer() || !is_size(direction.size))
        return {};
      add(direction.size);
    }
    for (const RunDirection &direction : directions_)
      for (const ValueId id : direction.accesses)
        find_sizes_of(graph_[id].index, direction.variable);
    if (wanted_.empty()) // aligned sizes would give no vector
      return {};
    drop_implied();
    if (checked_.sizes.size() > kMostChecks)
      return {};
    return checked_;
  }

private:
  struct Wanted {
    Expr index, variable;
  };
  const KernelGraph &graph_;
  const std::vector<RunDirection> &directions_;
  Divisibility checked_;
  std::vector<Wanted> wanted_; // accesses that are vectors once sizes are checked

  static bool is_vector(Expr index, Expr variable, const Divisibility &checked) {
    return access_of(index, variable, checked.of, checked.of, checked) == Access::vector;
  }
  void add(Expr size) {
    if (std::find(checked_.sizes.begin(), checked_.sizes.end(), size) == checked_.sizes.end())
      checked_.sizes.push_back(size);
  }
  void find_sizes_of(Expr index, Expr variable) {
    Divisibility trial = checked_;
    collect(index, trial.sizes);
    if (!is_vector(index, variable, trial))
      return;
    wanted_.push_back({index, variable});
    for (const Expr size : trial.sizes)
      add(size);
  }

  bool is_size(Expr e) const {
    const auto varies = [&](std::span<const Expr> variables) {
      return std::any_of(variables.begin(), variables.end(),
                         [&](Expr variable) { return symbolic::depends_on(e, variable); });
    };
    return !varies(graph_.row_variables) && !varies(graph_.element_variables) &&
           std::none_of(graph_.values.begin(), graph_.values.end(), [&](const Value &value) {
             return value.op == ir::Op::set_indirect && symbolic::depends_on(e, value.symbol);
           });
  }
  /// Coefficients of products of variables (a stride may stand expanded, as several terms), and
  /// symbolic divisors and moduli.
  void collect(Expr e, std::vector<Expr> &sizes) const {
    std::map<Expr, Expr, symbolic::ExprLess> coefficients; // by what varies
    const std::span<const Expr> terms =
        e.kind() == Kind::add ? e.operands() : std::span<const Expr>(&e, 1);
    for (const Expr term : terms) {
      Expr coefficient = 1, rest = 1;
      const std::span<const Expr> factors =
          term.kind() == Kind::mul ? term.operands() : std::span<const Expr>(&term, 1);
      for (const Expr factor : factors) {
        if (is_size(factor)) {
          coefficient = coefficient * factor;
          continue;
        }
        rest = rest * factor;
        if (factor.kind() == Kind::floor_div || factor.kind() == Kind::modular_index ||
            factor.kind() == Kind::mod) {
          collect(factor.operands()[0], sizes);
          for (const Expr divisor : factor.operands().subspan(1))
            push(divisor, sizes);
        }
      }
      coefficients[rest] += coefficient;
    }
    for (const auto &[rest, coefficient] : coefficients)
      push(coefficient, sizes);
  }
  void push(Expr size, std::vector<Expr> &sizes) const {
    if (!size.is_integer() && is_size(size) &&
        !symbolic::known_multiple_of(size, checked_.of, graph_.ranges) &&
        std::find(sizes.begin(), sizes.end(), size) == sizes.end())
      sizes.push_back(size);
  }

  /// Sizes that the others imply, or that no access needs, longest first.
  void drop_implied() {
    std::vector<Expr> order = checked_.sizes;
    std::stable_sort(order.begin(), order.end(), [](Expr a, Expr b) {
      return symbolic::free_symbols(a).size() > symbolic::free_symbols(b).size();
    });
    for (const Expr size : order) {
      Divisibility without = checked_;
      without.sizes.erase(std::find(without.sizes.begin(), without.sizes.end(), size));
      const bool fine =
          std::all_of(wanted_.begin(), wanted_.end(),
                      [&](const Wanted &wanted) {
                        return is_vector(wanted.index, wanted.variable, without);
                      }) &&
          std::all_of(directions_.begin(), directions_.end(), [&](const RunDirection &direction) {
            return is_multiple(direction.size, checked_.of, graph_.ranges, without);
          });
      if (fine)
        checked_ = std::move(without);
    }
  }
};

} // namespace

Divisibility sizes_to_check(const KernelGraph &graph, const std::vector<RunDirection> &directions,
                            int64_t of) {
  return Checks(graph, directions, of).find();
}

Expr remainder_of(const Divisibility &checked) {
  Expr result = 0;
  for (const Expr size : checked.sizes)
    result = result + symbolic::mod(size, checked.of);
  return result;
}

} // namespace tsc::codegen
