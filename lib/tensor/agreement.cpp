// When numbers agree: the rule of docs/numbers.md.
#include "tensor/host_tensor.h"

#include "support/text.h"
#include "tensor/complex_memory.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tsc::tensor {

namespace {

/// Distance from 1 to the next number, the smallest positive number, and the largest.
struct Precision {
  double epsilon, smallest, largest;
};

/// How far eager mode may be from its own reference: so many times the norm bound over the whole
/// tensor, and so many times what rule 5 allows for one element.
constexpr double kEagerNorms = 2, kEagerElements = 16;

Precision precision_of(DType dtype) {
  switch (dtype) {
  case DType::f16:
    return {0x1p-10, 0x1p-24, 65504};
  case DType::bf16:
    return {0x1p-7, 0x1p-133, 0x1.fep127};
  case DType::f32:
    return {0x1p-23, 0x1p-149, std::numeric_limits<float>::max()};
  case DType::f8e4m3fn:
    return {0x1p-3, 0x1p-9, 448};
  case DType::f8e5m2:
    return {0x1p-2, 0x1p-16, 57344};
  case DType::f8e4m3fnuz:
    return {0x1p-3, 0x1p-10, 240};
  case DType::f8e5m2fnuz:
    return {0x1p-2, 0x1p-17, 57344};
  case DType::f8e8m0fnu:
    return {1, 0x1p-127, 0x1p127};
  default:
    return {0x1p-52, 0x1p-1074, std::numeric_limits<double>::max()};
  }
}

double default_norm_bound(DType dtype) {
  switch (dtype) {
  case DType::f64:
    return 1e-10;
  case DType::f32:
    return 1e-5;
  case DType::f16:
    return 5e-3;
  case DType::bf16:
    return 2e-2;
  default:
    return 0.2; // 8-bit floats
  }
}

std::string shape_text(const HostTensor &tensor) {
  std::string text(torch_name(tensor.dtype()));
  text += "[";
  for (size_t i = 0; i < tensor.sizes().size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(tensor.sizes()[i]);
  return text + "]";
}

std::string position_text(const HostTensor &tensor, int64_t index) {
  std::vector<int64_t> position(tensor.sizes().size());
  for (size_t i = position.size(); i-- > 0;) {
    position[i] = index % tensor.sizes()[i];
    index /= tensor.sizes()[i];
  }
  std::string text = "[";
  for (size_t i = 0; i < position.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(position[i]);
  return text + "]";
}

void compare_exact(const HostTensor &actual, const HostTensor &expected, Agreement &result) {
  result.ok = true;
  for (int64_t i = 0, count = expected.numel(); i < count; ++i) {
    int64_t a = actual.get_int64(i), e = expected.get_int64(i);
    if (a == e || (expected.dtype() == DType::boolean && (a != 0) == (e != 0)))
      continue;
    result.ok = false;
    result.worst_index = i;
    result.norm_error = result.worst_element = std::numeric_limits<double>::infinity();
    result.reason = "the value at " + position_text(expected, i) + " is " + std::to_string(a) +
                    ", expected " + std::to_string(e);
    return;
  }
}

bool same_kind(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b))
    return a == b;
  return true;
}

/// One comparison of floats, row by row.
class FloatComparison {
public:
  FloatComparison(const HostTensor &actual, const HostTensor &expected, const HostTensor *reference,
                  const AgreementRule &rule)
      : actual_(actual), expected_(expected),
        reference_(reference == nullptr ? expected : *reference),
        precision_(precision_of(expected.dtype())) {
    bool wide = expected.dtype() == DType::f32 || expected.dtype() == DType::f64;
    ulps_ = rule.ulps > 0 ? rule.ulps : wide ? 16 : 4;
    result_.norm_bound =
        rule.norm_bound > 0 ? rule.norm_bound : default_norm_bound(expected.dtype());
  }

  Agreement run() {
    find_unit();
    if (!eager_agrees() || !scan())
      return result_;
    int64_t count = expected_.numel();
    int64_t row = expected_.sizes().empty() ? 1 : expected_.sizes().back();
    for (int64_t start = 0; start < count; start += row)
      compare_row(start, start + row);
    result_.norm_error = relative(difference_squares_, reference_squares_);
    judge();
    return result_;
  }

private:
  static double relative(double difference_squares, double reference_squares) {
    return difference_squares == 0  ? 0
           : reference_squares == 0 ? std::numeric_limits<double>::infinity()
                                    : std::sqrt(difference_squares / reference_squares);
  }

  /// Squares are of multiples of a power of two, so that none overflows or vanishes.
  void find_unit() {
    double largest = 0;
    for (int64_t i = 0, count = expected_.numel(); i < count; ++i)
      if (std::isfinite(target(i)))
        largest = std::max(largest, std::fabs(target(i)));
    unit_ = largest == 0 ? 1 : std::ldexp(1, std::ilogb(largest));
  }
  double square(double x) const { return x / unit_ * (x / unit_); }

  /// Whether `expected` may be eager mode's rounding of the reference `r`, as far as NaN and
  /// infinities tell: what is too large for the dtype becomes infinity.
  bool is_rounding(double e, double r) const {
    if (std::isinf(e) && std::isfinite(r))
      return std::signbit(e) == std::signbit(r) &&
             std::fabs(r) >= precision_.largest * (1 - result_.norm_bound);
    return same_kind(e, r);
  }

  void disagree(std::string reason) {
    result_.norm_error = result_.worst_element = std::numeric_limits<double>::infinity();
    result_.reason =
        "the expected values and their reference disagree with each other: " + std::move(reason);
  }
  std::string both_at(int64_t i) const {
    return "the value at " + position_text(expected_, i) + " is " +
           support::python_repr(expected_.get_double(i)) + ", its reference " +
           support::python_repr(reference_.get_double(i));
  }

  /// False if expected values and reference are not of the same computation. Without this a wrong
  /// expected value would only widen the bounds of rule 5.
  bool eager_agrees() {
    if (&reference_ == &expected_)
      return true;
    const double bound =
        kEagerNorms * std::max(result_.norm_bound, default_norm_bound(expected_.dtype()));
    double squares = 0, differences = 0;
    int64_t finite = 0;
    const int64_t count = expected_.numel();
    for (int64_t i = 0; i < count; ++i) {
      const double e = expected_.get_double(i), r = reference_.get_double(i);
      if (!is_rounding(e, r)) {
        result_.worst_index = i;
        disagree(both_at(i));
        return false;
      }
      if (!std::isfinite(e) || !std::isfinite(r))
        continue;
      squares += square(r);
      differences += square(e - r);
      ++finite;
    }
    const double error = relative(differences, squares);
    if (error > bound) {
      disagree("the relative error of the norm is " + support::python_repr(error) + ", at most " +
               support::python_repr(bound) + " is allowed");
      return false;
    }
    const double rms = finite == 0 ? 0 : unit_ * std::sqrt(squares / static_cast<double>(finite));
    for (int64_t i = 0; i < count; ++i) {
      const double e = expected_.get_double(i), r = reference_.get_double(i);
      const double scale = std::max(rms, std::fabs(r));
      if (std::isfinite(e) && std::isfinite(r) &&
          std::fabs(e - r) >
              kEagerElements * ulps_ * std::max(scale * precision_.epsilon, precision_.smallest)) {
        result_.worst_index = i;
        disagree(both_at(i));
        return false;
      }
    }
    return true;
  }

  /// Finds eager's largest error; false if NaN and infinities differ.
  bool scan() {
    for (int64_t i = 0, count = expected_.numel(); i < count; ++i) {
      double a = actual_.get_double(i), e = expected_.get_double(i);
      if (!std::isfinite(e))
        ++result_.nonfinite;
      if (!same_kind(a, e)) {
        result_.worst_index = i;
        result_.norm_error = result_.worst_element = std::numeric_limits<double>::infinity();
        result_.reason = "the value at " + position_text(expected_, i) + " is " +
                         support::python_repr(a) + ", expected " + support::python_repr(e);
        return false;
      }
      double r = reference_.get_double(i);
      if (std::isfinite(e) && std::isfinite(r))
        eager_error_ = std::max(eager_error_, std::fabs(e - r));
    }
    return true;
  }

  /// What to compare element i with: the reference, or the expected value where that has overflowed
  /// its dtype.
  double target(int64_t i) const {
    double r = reference_.get_double(i);
    return std::isfinite(r) ? r : expected_.get_double(i);
  }

  void compare_row(int64_t begin, int64_t end) {
    double squares = 0;
    int64_t finite = 0;
    for (int64_t i = begin; i < end; ++i) {
      double r = target(i);
      if (!std::isfinite(r) || !std::isfinite(expected_.get_double(i)))
        continue;
      squares += square(r);
      ++finite;
    }
    if (finite == 0)
      return;
    reference_squares_ += squares;
    double rms = unit_ * std::sqrt(squares / static_cast<double>(finite));
    for (int64_t i = begin; i < end; ++i) {
      if (!std::isfinite(expected_.get_double(i)))
        continue;
      double r = target(i);
      double difference = std::fabs(actual_.get_double(i) - r);
      difference_squares_ += square(difference);
      // An element far above its row's rms cannot be closer than its own rounding.
      double scale = std::max(rms, std::fabs(r));
      double allowed =
          ulps_ * std::max(scale * precision_.epsilon, precision_.smallest) + 3 * eager_error_;
      double share = difference / allowed;
      if (share > result_.worst_element || result_.worst_index < 0) {
        result_.worst_element = share;
        result_.worst_index = i;
        worst_allowed_ = allowed;
      }
    }
  }

  void judge() {
    bool norm_ok = result_.norm_error <= result_.norm_bound;
    bool element_ok = result_.worst_element <= 1;
    result_.ok = norm_ok && element_ok;
    if (!norm_ok)
      result_.reason = "the relative error of the norm is " +
                       support::python_repr(result_.norm_error) + ", at most " +
                       support::python_repr(result_.norm_bound) + " is allowed";
    else if (!element_ok)
      result_.reason = "the value at " + position_text(expected_, result_.worst_index) + " is " +
                       support::python_repr(actual_.get_double(result_.worst_index)) +
                       ", expected " + support::python_repr(target(result_.worst_index)) +
                       " within " + support::python_repr(worst_allowed_);
  }

  const HostTensor &actual_, &expected_, &reference_;
  Precision precision_;
  double ulps_ = 0, unit_ = 1, eager_error_ = 0, worst_allowed_ = 0;
  double reference_squares_ = 0, difference_squares_ = 0;
  Agreement result_;
};

/// The parts of a complex tensor, those of a row in one row; both are NaN where one is.
HostTensor parts_of(const HostTensor &tensor) {
  HostTensor parts = as_real(tensor).clone();
  for (int64_t i = 0; i + 1 < parts.numel(); i += 2)
    if (std::isnan(parts.get_double(i)) || std::isnan(parts.get_double(i + 1))) {
      parts.set_double(i, std::numeric_limits<double>::quiet_NaN());
      parts.set_double(i + 1, std::numeric_limits<double>::quiet_NaN());
    }
  std::vector<int64_t> sizes = tensor.sizes();
  if (sizes.empty())
    sizes.push_back(1);
  sizes.back() *= 2;
  HostTensor rows(parts.dtype(), sizes);
  std::copy_n(parts.data(), parts.size_in_bytes(), rows.data());
  return rows;
}

Agreement compare_complex(const HostTensor &actual, const HostTensor &expected,
                          const HostTensor *reference, const AgreementRule &rule) {
  if (reference != nullptr && !is_complex(reference->dtype())) {
    Agreement result;
    result.reason = "the reference of a complex tensor is real";
    return result;
  }
  const HostTensor wide = reference != nullptr ? parts_of(*reference) : HostTensor();
  return compare(parts_of(actual), parts_of(expected), reference != nullptr ? &wide : nullptr,
                 rule);
}

} // namespace

Agreement compare(const HostTensor &actual, const HostTensor &expected, const HostTensor *reference,
                  const AgreementRule &rule) {
  Agreement result;
  bool same_shape = actual.dtype() == expected.dtype() && actual.sizes() == expected.sizes();
  if (!same_shape || (reference != nullptr && reference->sizes() != expected.sizes())) {
    result.reason = "the result is " + shape_text(actual) + ", expected " + shape_text(expected);
    if (same_shape)
      result.reason = "the reference is " + shape_text(*reference) + ", expected the shape of " +
                      shape_text(expected);
    return result;
  }
  if (is_complex(expected.dtype()))
    return compare_complex(actual, expected, reference, rule);
  if (!is_floating(expected.dtype())) {
    compare_exact(actual, expected, result);
    return result;
  }
  return FloatComparison(actual, expected, reference, rule).run();
}

} // namespace tsc::tensor
