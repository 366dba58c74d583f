// Reduces divisions where the ranges of the variables allow.
//
// The rules are those that TorchInductor's simplify_with_ranges applies (terms too small to reach
// the divisor vanish, a modulus that its dividend cannot reach vanishes, quotient and remainder of
// one value join again), stated for any interval instead of [0, n) only.
#include "symbolic/node.h"

#include "support/diagnostic.h"

#include <algorithm>
#include <numeric>

namespace tsc::symbolic {
namespace {

constexpr int kMaxRounds = 100;

bool is_point(Interval interval) {
  return interval.low == interval.high && interval.low != INT64_MIN && interval.low != INT64_MAX;
}

/// x div d (and mod m, where there is one): the one form behind FloorDiv, ModularIndexing and Mod.
struct Division {
  Expr x, divisor;
  std::optional<Expr> modulus;

  Expr build() const {
    return modulus ? modular_index(x, divisor, *modulus) : floor_div(x, divisor);
  }
};

class Simplifier {
public:
  explicit Simplifier(const Ranges &ranges) : ranges_(ranges) {}

  Expr visit(Expr e) {
    if (e.is_integer() || e.is_symbol())
      return e;
    auto found = memo_.find(e);
    if (found != memo_.end())
      return found->second;
    std::vector<Expr> operands;
    bool changed = false;
    for (Expr operand : e.operands()) {
      operands.push_back(visit(operand));
      changed = changed || operands.back() != operand;
    }
    Expr result = apply_rules(changed ? rebuild(e, operands) : e);
    memo_.emplace(e, result);
    return result;
  }

private:
  Expr apply_rules(Expr e) {
    switch (e.kind()) {
    case Kind::floor_div:
      return simplify_division({e.operands()[0], e.operands()[1], std::nullopt}, e);
    case Kind::modular_index:
      return simplify_division({e.operands()[0], e.operands()[1], e.operands()[2]}, e);
    case Kind::mod: {
      // Mod keeps its spelling unless the rules find something.
      Expr same = modular_index(e.operands()[0], 1, e.operands()[1]);
      if (same.kind() != Kind::modular_index)
        return same;
      Expr reduced =
          simplify_division({same.operands()[0], same.operands()[1], same.operands()[2]}, same);
      return reduced == same ? e : reduced;
    }
    case Kind::minimum:
    case Kind::maximum:
      return simplify_extremum(e);
    case Kind::add:
      return join_divisions(e);
    default:
      return e;
    }
  }

  Expr simplify_division(Division division, Expr unchanged) {
    if (auto result = fold_by_range(division))
      return *result;
    if (auto result = drop_small_terms(division))
      return *result;
    if (auto result = merge_nested(division))
      return *result;
    return unchanged;
  }

  /// The quotient is one number, or stays inside one period of the modulus.
  std::optional<Expr> fold_by_range(const Division &division) {
    Interval quotient =
        quotient_bounds(bounds(division.x, ranges_), bounds(division.divisor, ranges_));
    if (!division.modulus) {
      if (is_point(quotient))
        return Expr(quotient.low);
      if (!division.divisor.is_integer() && known_nonnegative(division.x, ranges_) &&
          known_less(division.x, division.divisor, ranges_))
        return Expr(0);
      return std::nullopt;
    }
    if (division.modulus->is_integer()) {
      int64_t modulus = division.modulus->value();
      bool finite = quotient.low != INT64_MIN && quotient.high != INT64_MAX;
      if (finite &&
          floor_quotient(quotient.low, modulus) == floor_quotient(quotient.high, modulus)) {
        int64_t period = checked_mul(floor_quotient(quotient.low, modulus), modulus);
        return floor_div(division.x, division.divisor) - Expr(period);
      }
      return std::nullopt;
    }
    if (known_nonnegative(division.x, ranges_) &&
        known_less(division.x, division.divisor * *division.modulus, ranges_))
      return floor_div(division.x, division.divisor);
    return std::nullopt;
  }

  /// x = g*a + r with r inside one period of g, and g divides the divisor: r only adds a constant.
  std::optional<Expr> drop_small_terms(const Division &division) {
    if (division.divisor.is_integer())
      return drop_small_terms_of_constant(division);
    // A symbolic divisor: terms that it divides are gone already (or wait inside the modulus).
    std::vector<Expr> multiples, rest;
    for (Expr term : terms_of(division.x)) {
      bool is_multiple =
          division.divisor.kind() != Kind::add && divide_term(term, division.divisor).has_value();
      (is_multiple ? multiples : rest).push_back(term);
    }
    Expr small = sum(rest);
    if (multiples.empty() || rest.empty() || !known_nonnegative(small, ranges_) ||
        !known_less(small, division.divisor, ranges_))
      return std::nullopt;
    return Division{sum(multiples), division.divisor, division.modulus}.build();
  }

  std::optional<Expr> drop_small_terms_of_constant(const Division &division) {
    int64_t divisor = division.divisor.value();
    std::vector<int64_t> candidates;
    for (Expr term : terms_of(division.x)) {
      int64_t common = std::gcd(term_of(term).coefficient, divisor);
      if (common > 1)
        candidates.push_back(common);
    }
    std::sort(candidates.begin(), candidates.end(), std::greater<>());
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
    for (int64_t step : candidates) {
      std::vector<Expr> multiples, rest;
      for (Expr term : terms_of(division.x))
        if (term_of(term).coefficient % step == 0)
          multiples.push_back(divide_exactly(term, step));
        else
          rest.push_back(term);
      if (rest.empty())
        continue;
      Interval interval = bounds(sum(rest), ranges_);
      if (interval.low == INT64_MIN || interval.high == INT64_MAX ||
          floor_quotient(interval.low, step) != floor_quotient(interval.high, step))
        continue;
      multiples.push_back(Expr(floor_quotient(interval.low, step)));
      return Division{sum(multiples), Expr(divisor / step), division.modulus}.build();
    }
    return std::nullopt;
  }

  /// Division of a remainder: (x div d mod m) div d2 [mod m2].
  static std::optional<Expr> merge_nested(const Division &division) {
    Expr inner = division.x;
    if (inner.kind() == Kind::mod)
      inner = modular_index(inner.operands()[0], 1, inner.operands()[1]);
    if (inner.kind() != Kind::modular_index)
      return std::nullopt;
    Expr x = inner.operands()[0], divisor = inner.operands()[1], modulus = inner.operands()[2];
    // m = d2 * left, so that (x div d mod m) div d2 = x div (d * d2) mod left.
    std::optional<Expr> left;
    if (modulus.kind() != Kind::add && division.divisor.kind() != Kind::add)
      left = divide_term(modulus, division.divisor);
    if (!left)
      return std::nullopt;
    if (!division.modulus)
      return modular_index(x, divisor * division.divisor, *left);
    if (left->kind() != Kind::add && division.modulus->kind() != Kind::add &&
        divide_term(*left, *division.modulus))
      return modular_index(x, divisor * division.divisor, *division.modulus);
    return std::nullopt;
  }

  /// max(a, c + max(b, k)) = max(a, c + b, c + k) for integers c and k, else sizes that are cut
  /// again and again nest as deep.
  static std::vector<Expr> operands_of_extremum(Expr e) {
    std::vector<Expr> result;
    for (Expr operand : e.operands()) {
      const std::span<const Expr> terms = terms_of(operand);
      const auto inner = std::find_if(terms.begin(), terms.end(),
                                      [&](Expr term) { return term.kind() == e.kind(); });
      const auto is_integer = [](Expr part) { return part.is_integer(); };
      const bool opens =
          inner != terms.end() && (operand - *inner).is_integer() &&
          std::any_of(inner->operands().begin(), inner->operands().end(), is_integer);
      if (!opens) {
        result.push_back(operand);
        continue;
      }
      const Expr rest = operand - *inner;
      for (Expr part : inner->operands())
        result.push_back(part + rest);
    }
    return result;
  }

  Expr simplify_extremum(Expr e) {
    bool smallest = e.kind() == Kind::minimum;
    const std::vector<Expr> operands = operands_of_extremum(e);
    std::vector<Expr> kept;
    for (Expr operand : operands) {
      // Among operands known to be equal the first stays.
      auto beaten_by = [&](Expr other) {
        return smallest ? known_less_equal(other, operand, ranges_)
                        : known_less_equal(operand, other, ranges_);
      };
      bool beaten = std::any_of(kept.begin(), kept.end(), beaten_by);
      if (beaten)
        continue;
      kept.erase(std::remove_if(kept.begin(), kept.end(),
                                [&](Expr other) {
                                  return smallest ? known_less_equal(operand, other, ranges_)
                                                  : known_less_equal(other, operand, ranges_);
                                }),
                 kept.end());
      kept.push_back(operand);
    }
    if (std::equal(kept.begin(), kept.end(), e.operands().begin(), e.operands().end()))
      return e;
    return rebuild(e, kept);
  }

  struct DividedTerm { // factor * division
    Expr factor;
    Division division;
  };

  /// c*(x div d mod m) + c*m*(x div (d*m)) = c*(x div d); with a further modulus m2 on the second,
  /// c*(x div d mod (m*m2)).
  Expr join_divisions(Expr e) const {
    std::span<const Expr> terms = e.operands();
    for (size_t i = 0; i < terms.size(); ++i) {
      auto low = divisions_in(terms[i]);
      for (const DividedTerm &inner : low) {
        if (!inner.division.modulus)
          continue;
        for (size_t j = 0; j < terms.size(); ++j) {
          if (i == j)
            continue;
          for (const DividedTerm &outer : divisions_in(terms[j]))
            if (std::optional<Expr> joined = join(inner, outer))
              return e - terms[i] - terms[j] + *joined;
        }
        if (std::optional<Expr> joined = join_apart(e, terms[i], inner))
          return *joined;
        if (inner.division.modulus->kind() == Kind::add)
          if (std::optional<Expr> joined = join_spread(e, terms[i], inner))
            return *joined;
      }
    }
    return e;
  }

  /// As join, where the modulus is a sum: c*m*(x div (d*m)) stands expanded, as several terms.
  static std::optional<Expr> join_spread(Expr e, Expr low_term, const DividedTerm &low) {
    Expr modulus = *low.division.modulus;
    const Expr spread = low.factor * modulus;
    const size_t least = terms_of(spread).size();
    for (Expr term : e.operands()) {
      if (term == low_term)
        continue;
      for (DividedTerm high : divisions_in(term)) {
        high.factor = spread;
        std::optional<Expr> joined = join(low, high);
        if (!joined)
          continue;
        Expr left = e - low_term - spread * high.division.build();
        // One term less for each that the multiple holds: all of them were there.
        const size_t count = left.is_integer(0) ? 0 : terms_of(left).size();
        if (count + least + 1 <= e.operands().size())
          return left + *joined;
      }
    }
    return std::nullopt;
  }

  /// As join, where the remainder holds more than the quotient: of x = g*a + r with 0 <= r < g,
  /// c*(x mod g*m) + c*g*m*(a div m) = c*g*a + c*r.
  std::optional<Expr> join_apart(Expr e, Expr low_term, const DividedTerm &low) const {
    const Division &division = low.division;
    if (!division.divisor.is_integer(1) || !division.modulus->is_integer() ||
        division.x.kind() != Kind::add)
      return std::nullopt;
    const int64_t modulus = division.modulus->value();
    for (Expr term : terms_of(division.x)) {
      const int64_t step = std::gcd(term_of(term).coefficient, modulus);
      if (step <= 1 || step == modulus)
        continue;
      std::vector<Expr> multiples, rest;
      for (Expr other : terms_of(division.x))
        if (term_of(other).coefficient % step == 0)
          multiples.push_back(divide_exactly(other, step));
        else
          rest.push_back(other);
      const Interval left = bounds(sum(rest), ranges_);
      if (left.low < 0 || left.high >= step)
        continue;
      const DividedTerm whole = {low.factor * Expr(step),
                                 {sum(multiples), Expr(1), Expr(modulus / step)}};
      for (Expr outer : e.operands()) {
        if (outer == low_term)
          continue;
        for (const DividedTerm &high : divisions_in(outer))
          if (std::optional<Expr> joined = join(whole, high))
            return e - low_term - outer + *joined + low.factor * sum(rest);
      }
    }
    return std::nullopt;
  }

  static std::vector<DividedTerm> divisions_in(Expr term) {
    std::vector<DividedTerm> found;
    Expr monomial = term_of(term).monomial;
    for (Expr factor : factors_of(monomial)) {
      std::optional<Expr> rest;
      if (factor.kind() == Kind::floor_div || factor.kind() == Kind::modular_index ||
          factor.kind() == Kind::mod)
        rest = divide_term(term, factor);
      if (!rest)
        continue;
      std::span<const Expr> operands = factor.operands();
      if (factor.kind() == Kind::floor_div)
        found.push_back({*rest, {operands[0], operands[1], std::nullopt}});
      else if (factor.kind() == Kind::mod)
        found.push_back({*rest, {operands[0], Expr(1), operands[1]}});
      else
        found.push_back({*rest, {operands[0], operands[1], operands[2]}});
    }
    return found;
  }

  static std::optional<Expr> join(const DividedTerm &low, const DividedTerm &high) {
    Expr modulus = *low.division.modulus;
    if (high.factor != low.factor * modulus)
      return std::nullopt;
    // Compared after cancelling, as construction cancels: x div (d*m), with x and d of `low`.
    if (floor_div(low.division.x, low.division.divisor * modulus) !=
        floor_div(high.division.x, high.division.divisor))
      return std::nullopt;
    Division joined = low.division;
    joined.modulus.reset();
    if (high.division.modulus)
      joined.modulus = modulus * *high.division.modulus;
    return low.factor * joined.build();
  }

  const Ranges &ranges_;
  std::unordered_map<Expr, Expr, ExprHash> memo_;
};

} // namespace

Expr simplify(Expr e, const Ranges &ranges) {
  if (Builder::node(e)->depth == 0)
    return e;
  for (int round = 0; round < kMaxRounds; ++round) {
    Expr simpler = Simplifier(ranges).visit(e);
    if (simpler == e)
      return e;
    e = simpler;
  }
  throw support::InternalError("symbolic", "simplify", "no fixed point for " + print(e));
}

} // namespace tsc::symbolic
