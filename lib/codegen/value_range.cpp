#include "codegen/value_range.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace tsc::codegen {

namespace {

using ir::Op;

constexpr double kInf = HUGE_VAL;
constexpr double kLargest = 1LL << 31; // beyond it nothing is said: float32 and wrapping stay away

/// As value_range, with infinite bounds on one side where a minimum or maximum is all that is
/// known.
struct Bounds {
  double low = -kInf, high = kInf;
  bool is_number = false; // never NaN
  /// Else NaN only where this value is, itself perhaps.
  ValueId nan_of = ir::kNone;
};

/// Where two values are NaN, one of which a third is: `other` has it if the first never is.
void take_nan(Bounds &bounds, const Bounds &a, const Bounds &b) {
  bounds.is_number = a.is_number && b.is_number;
  bounds.nan_of = a.is_number                           ? b.nan_of
                  : b.is_number || a.nan_of == b.nan_of ? a.nan_of
                                                        : ir::kNone;
}

Bounds exactly(double x) { return {x, x, !std::isnan(x)}; }

/// Float32 rounds by at most a part in 2^24 at each step; 16-bit floats by one in 2^8.
Bounds rounded(Bounds b, DType dtype) {
  if (!tensor::is_floating(dtype))
    return b;
  const double part = tensor::is_reduced_float(dtype) ? 1e-2 : 1e-6;
  b.low -= std::abs(b.low) * part;
  b.high += std::abs(b.high) * part;
  return b;
}

bool is_finite(const Bounds &b) { return b.is_number && b.low > -kLargest && b.high < kLargest; }

/// Of arithmetic: nothing unless both operands have finite bounds.
template <class F> Bounds combined(const Bounds &a, const Bounds &b, DType dtype, const F &f) {
  if (!is_finite(a) || !is_finite(b))
    return {};
  const double corners[] = {f(a.low, b.low), f(a.low, b.high), f(a.high, b.low), f(a.high, b.high)};
  return rounded(
      {*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4), true},
      dtype);
}

Bounds converted(Bounds a, const Value &value) {
  if (tensor::is_floating(value.dtype))
    return rounded(a, value.dtype);
  if (value.dtype != DType::i64 && value.dtype != DType::i32)
    return {};
  // NaN and what is too large become the lowest integer.
  if (!is_finite(a))
    return {};
  return {std::trunc(a.low), std::trunc(a.high), true};
}

/// What is known of the values that were looked at.
using Known = std::map<ValueId, Bounds>;

Bounds bounds_of(const KernelGraph &graph, ValueId id, Known &known);

/// What is left of a value's bounds where `condition` holds: comparisons of it with numbers, all of
/// which do. NaN is none of them.
void hold(const KernelGraph &graph, ValueId condition, ValueId id, Bounds &bounds, Known &known) {
  const Value &value = graph[condition];
  if (value.op == Op::logical_and ||
      (value.op == Op::bitwise_and && value.dtype == DType::boolean)) {
    hold(graph, value.args[0], id, bounds, known);
    hold(graph, value.args[1], id, bounds, known);
    return;
  }
  const bool least = value.op == Op::ge || value.op == Op::gt,
             most = value.op == Op::le || value.op == Op::lt;
  if ((!least && !most) || (value.args[0] == id) == (value.args[1] == id))
    return;
  const bool is_first = value.args[0] == id;
  const Bounds other = bounds_of(graph, value.args[is_first ? 1 : 0], known);
  if (!other.is_number)
    return;
  bounds.is_number = true;
  if (least == is_first)
    bounds.low = std::max(bounds.low, other.low);
  else
    bounds.high = std::min(bounds.high, other.high);
}

Bounds look_at(const KernelGraph &graph, ValueId id, Known &known) {
  const Value &value = graph[id];
  const auto arg = [&](size_t i) { return bounds_of(graph, value.args[i], known); };
  switch (value.op) {
  case Op::constant:
    return exactly(std::visit([](auto x) { return static_cast<double>(x); }, value.constant));
  case Op::index_expr: {
    if (!value.args.empty())
      return {};
    const symbolic::Interval interval = symbolic::bounds(value.index, graph.ranges);
    return {static_cast<double>(interval.low), static_cast<double>(interval.high), true};
  }
  case Op::to_dtype:
    return converted(arg(0), value);
  case Op::add:
    return combined(arg(0), arg(1), value.dtype, [](double a, double b) { return a + b; });
  case Op::sub:
    return combined(arg(0), arg(1), value.dtype, [](double a, double b) { return a - b; });
  case Op::neg:
    return combined(arg(0), {0, 0, true}, value.dtype, [](double a, double) { return -a; });
  case Op::mul:
    return combined(arg(0), arg(1), value.dtype, [](double a, double b) { return a * b; });
  case Op::fma: {
    const Bounds product =
        combined(arg(0), arg(1), value.dtype, [](double a, double b) { return a * b; });
    return combined(product, arg(2), value.dtype, [](double a, double b) { return a + b; });
  }
  case Op::minimum: {
    const Bounds a = arg(0), b = arg(1);
    Bounds result{std::min(a.low, b.low), std::min(a.high, b.high)};
    take_nan(result, a, b);
    return result;
  }
  case Op::maximum: {
    const Bounds a = arg(0), b = arg(1);
    Bounds result{std::max(a.low, b.low), std::max(a.high, b.high)};
    take_nan(result, a, b);
    return result;
  }
  case Op::where: {
    Bounds a = arg(1), b = arg(2);
    hold(graph, value.args[0], value.args[1], a, known);
    if (const Value &condition = graph[value.args[0]]; condition.op == Op::isnan) {
      if (bounds_of(graph, condition.args[0], known).is_number)
        return b;
      b.is_number = b.is_number || b.nan_of == condition.args[0];
    }
    Bounds result{std::min(a.low, b.low), std::max(a.high, b.high)};
    take_nan(result, a, b);
    return result;
  }
  case Op::floor:
  case Op::ceil:
  case Op::round:
  case Op::trunc: {
    const Bounds a = arg(0);
    return {std::floor(a.low), std::ceil(a.high), a.is_number, a.nan_of};
  }
  default:
    return {-kInf, kInf, !tensor::is_floating(value.dtype)};
  }
}

Bounds bounds_of(const KernelGraph &graph, ValueId id, Known &known) {
  constexpr size_t kMostValues = 512;
  if (const auto found = known.find(id); found != known.end())
    return found->second;
  if (known.size() >= kMostValues)
    return {};
  known[id] = {}; // counts from here on
  Bounds bounds = look_at(graph, id, known);
  bounds.is_number |= !tensor::is_floating(graph[id].dtype); // whatever it is
  bounds.nan_of = bounds.nan_of == ir::kNone ? id : bounds.nan_of;
  known[id] = bounds;
  return bounds;
}

} // namespace

std::optional<ValueRange> value_range(const KernelGraph &graph, ValueId id) {
  Known known;
  const Bounds bounds = bounds_of(graph, id, known);
  if (!is_finite(bounds))
    return std::nullopt;
  return ValueRange{bounds.low, bounds.high};
}

namespace {

class IndexOfValue {
public:
  explicit IndexOfValue(const KernelGraph &graph) : graph_(graph) {}

  std::optional<Expr> operator()(ValueId id) {
    constexpr int kMost = 64; // of the text of an index
    const Value &value = graph_[id];
    if (++seen_ > kMost || (value.dtype != DType::i64 && value.dtype != DType::i32))
      return std::nullopt;
    const std::optional<Expr> index = computed(value);
    if (!index)
      return std::nullopt;
    const symbolic::Interval bounds = symbolic::bounds(*index, graph_.ranges);
    return bounds.low >= INT32_MIN && bounds.high <= INT32_MAX ? index : std::nullopt;
  }

private:
  const KernelGraph &graph_;
  int seen_ = 0;

  std::optional<Expr> computed(const Value &value) {
    if (value.op == Op::index_expr)
      return value.args.empty() ? std::optional<Expr>(value.index) : std::nullopt;
    if (value.op == Op::constant) {
      const auto *number = std::get_if<int64_t>(&value.constant);
      return number ? std::optional<Expr>(Expr(*number)) : std::nullopt;
    }
    const bool unary = value.op == Op::neg || value.op == Op::to_dtype;
    const bool binary = value.op == Op::add || value.op == Op::sub || value.op == Op::mul ||
                        value.op == Op::minimum || value.op == Op::maximum;
    if (value.args.size() != (unary ? 1u : 2u) || !(unary || binary))
      return std::nullopt;
    const std::optional<Expr> a = (*this)(value.args[0]);
    const std::optional<Expr> b = a && binary ? (*this)(value.args[1]) : std::nullopt;
    if (!a || (binary && !b))
      return std::nullopt;
    switch (value.op) {
    case Op::neg:
      return Expr(0) - *a;
    case Op::add:
      return *a + *b;
    case Op::sub:
      return *a - *b;
    case Op::mul:
      return a->is_integer() || b->is_integer() ? std::optional<Expr>(*a * *b) : std::nullopt;
    case Op::minimum:
      return symbolic::minimum(*a, *b);
    case Op::maximum:
      return symbolic::maximum(*a, *b);
    default:
      return a;
    }
  }
};

} // namespace

std::optional<Expr> value_index(const KernelGraph &graph, ValueId id) {
  return IndexOfValue(graph)(id);
}

} // namespace tsc::codegen
