#include "interpret/accumulate.h"

#include "support/diagnostic.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tsc::interpret {
namespace {

using ir::ReductionKind;
using ir::ScanKind;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t wrapping_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

bool less(DType dtype, int64_t a, int64_t b) {
  return dtype == DType::u64 ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}

/// The least (or greatest) value of an integral dtype: what a max (or min) of nothing is.
int64_t extreme_of(DType dtype, bool least) {
  if (dtype == DType::boolean)
    return least ? 0 : 1;
  auto width = static_cast<int>(8 * tensor::size_in_bytes(dtype));
  if (!tensor::is_signed(dtype))
    return least ? 0 : wrap_to(dtype, -1);
  int64_t greatest = static_cast<int64_t>((uint64_t{1} << (width - 1)) - 1);
  return least ? -greatest - 1 : greatest;
}

double log_add_exp(double a, double b) {
  double high = std::max(a, b), low = std::min(a, b);
  if (std::isnan(a) || std::isnan(b))
    return a + b;
  return std::isinf(high) ? high : high + std::log1p(std::exp(low - high));
}

} // namespace

Accumulator::Accumulator(ReductionKind kind, DType source)
    : kind_(kind), source_(source), is_float_(tensor::is_floating(source)) {
  reset();
}

void Accumulator::reset() {
  first_ = second_ = third_ = 0;
  exact_ = 0;
  count_ = position_ = 0;
  found_nan_ = false;
  switch (kind_) {
  case ReductionKind::prod:
    first_ = 1;
    exact_ = 1;
    break;
  case ReductionKind::max:
  case ReductionKind::argmax:
    first_ = -kInfinity;
    exact_ = extreme_of(source_, true);
    break;
  case ReductionKind::min:
  case ReductionKind::argmin:
    first_ = kInfinity;
    exact_ = extreme_of(source_, false);
    break;
  case ReductionKind::all:
    exact_ = 1;
    break;
  case ReductionKind::online_softmax_reduce:
    first_ = -kInfinity;
    break;
  default:
    break;
  }
}

bool Accumulator::yields_float() const {
  switch (kind_) {
  case ReductionKind::argmax:
  case ReductionKind::argmin:
  case ReductionKind::any:
  case ReductionKind::all:
    return false;
  case ReductionKind::welford_reduce:
  case ReductionKind::welford_combine:
  case ReductionKind::online_softmax_reduce:
    return true;
  default:
    return is_float_;
  }
}

double Accumulator::real(size_t item) const {
  return item == 0 ? first_ : item == 1 ? second_ : third_;
}

int64_t Accumulator::integer(size_t) const {
  return kind_ == ReductionKind::argmax || kind_ == ReductionKind::argmin ? position_ : exact_;
}

void Accumulator::add(const Element &element) {
  double as_real = is_float_ ? element.real[0] : to_float(source_, element.integer[0]);
  switch (kind_) {
  case ReductionKind::any:
  case ReductionKind::all: {
    bool truth = is_float_ ? element.real[0] != 0 : element.integer[0] != 0;
    exact_ = kind_ == ReductionKind::any ? exact_ | int64_t{truth} : exact_ & int64_t{truth};
    break;
  }
  case ReductionKind::welford_reduce:
    add_welford(as_real, as_real - as_real, 1); // NaN of an infinity
    break;
  case ReductionKind::welford_combine:
    add_welford(element.real[0], element.real[1], element.real[2]);
    break;
  case ReductionKind::online_softmax_reduce:
    add_online_softmax(as_real);
    break;
  default:
    if (is_float_)
      add_real(element.real[0]);
    else
      add_integer(element.integer[0]);
  }
  ++count_;
}

void Accumulator::add_real(double x) {
  switch (kind_) {
  case ReductionKind::sum:
    first_ += x;
    return;
  case ReductionKind::prod:
    first_ *= x;
    return;
  case ReductionKind::max:
    if (!std::isnan(first_) && (std::isnan(x) || x > first_))
      first_ = x;
    return;
  case ReductionKind::min:
    if (!std::isnan(first_) && (std::isnan(x) || x < first_))
      first_ = x;
    return;
  case ReductionKind::argmax:
  case ReductionKind::argmin: {
    bool better = kind_ == ReductionKind::argmax ? x > first_ : x < first_;
    add_position(better, std::isnan(x));
    if (position_ == count_)
      first_ = x;
    return;
  }
  default:
    throw support::InternalError("interpret", std::string(ir::reduction_name(kind_)),
                                 "no meaning for floating-point inputs");
  }
}

void Accumulator::add_integer(int64_t x) {
  switch (kind_) {
  case ReductionKind::sum:
    exact_ = wrapping_add(exact_, x);
    return;
  case ReductionKind::prod:
    exact_ = wrapping_mul(exact_, x);
    return;
  case ReductionKind::xor_sum:
    exact_ ^= x;
    return;
  case ReductionKind::max:
    exact_ = less(source_, exact_, x) ? x : exact_;
    return;
  case ReductionKind::min:
    exact_ = less(source_, x, exact_) ? x : exact_;
    return;
  case ReductionKind::argmax:
  case ReductionKind::argmin:
    add_position(kind_ == ReductionKind::argmax ? less(source_, exact_, x)
                                                : less(source_, x, exact_),
                 false);
    if (position_ == count_)
      exact_ = x;
    return;
  default:
    throw support::InternalError("interpret", std::string(ir::reduction_name(kind_)),
                                 "no meaning for integer inputs");
  }
}

/// The first NaN wins over everything, then the first of equals.
void Accumulator::add_position(bool better, bool not_a_number) {
  if (found_nan_)
    return;
  if (count_ == 0 || better || not_a_number)
    position_ = count_;
  found_nan_ = not_a_number;
}

void Accumulator::add_welford(double mean, double m2, double weight) {
  double total = third_ + weight;
  if (weight == 0)
    return;
  double delta = mean - first_;
  double share = weight / total;
  first_ += delta * share;
  second_ += m2 + delta * delta * third_ * share;
  third_ = total;
}

/// (max, sum of exp(x - max)), as two passes would give it.
void Accumulator::add_online_softmax(double x) {
  if (std::isnan(first_) || std::isnan(x)) {
    first_ = second_ = std::numeric_limits<double>::quiet_NaN();
    return;
  }
  if (x > first_) {
    // At -inf nothing has counted yet: those terms are exp(-inf).
    double scaled = first_ == -kInfinity ? 0 : second_ * std::exp(first_ - x);
    second_ = scaled + std::exp(x - x);
    first_ = x;
  } else if (x == first_ && x == -kInfinity) {
    second_ =
        std::numeric_limits<double>::quiet_NaN(); // exp(-inf + inf), unless a larger one comes
  } else {
    second_ += std::exp(x - first_);
  }
}

ScanState::ScanState(ScanKind kind, DType source) : kind_(kind), source_(source) {}

void ScanState::reset() { empty_ = true; }

double ScanState::next(double x) {
  if (empty_) {
    empty_ = false;
    return real_ = x;
  }
  switch (kind_) {
  case ScanKind::sum:
    return real_ += x;
  case ScanKind::prod:
    return real_ *= x;
  case ScanKind::max:
    return real_ = std::isnan(real_) || real_ > x ? real_ : x;
  case ScanKind::min:
    return real_ = std::isnan(real_) || real_ < x ? real_ : x;
  case ScanKind::logsumexp:
    return real_ = log_add_exp(real_, x);
  case ScanKind::combine:
    break;
  }
  throw support::InternalError("interpret", "scan", "tuples are combined elsewhere");
}

int64_t ScanState::next(int64_t x) {
  if (empty_) {
    empty_ = false;
    return exact_ = x;
  }
  switch (kind_) {
  case ScanKind::sum:
    return exact_ = wrapping_add(exact_, x);
  case ScanKind::prod:
    return exact_ = wrapping_mul(exact_, x);
  case ScanKind::max:
    return exact_ = less(source_, exact_, x) ? x : exact_;
  case ScanKind::min:
    return exact_ = less(source_, x, exact_) ? x : exact_;
  case ScanKind::logsumexp:
  case ScanKind::combine:
    break;
  }
  throw support::InternalError("interpret", "scan", "no meaning for integers of one input");
}

} // namespace tsc::interpret
