// Complex arithmetic over pairs of real nodes: what ops::split_complex computes with.
#pragma once

#include "ops/table/builder.h"

#include <complex>

namespace tsc::ops {

/// A part is a real tensor, or a number (double).
struct Pair {
  Argument re, im;
};

/// Emits real arithmetic. Operands are tensors of `dtype` or numbers; what two numbers make is a
/// number again.
class RealMath {
public:
  RealMath(GraphBuilder &builder, DType dtype, tensor::Device device)
      : builder_(&builder), dtype_(dtype), device_(device) {}

  /// The same in another dtype.
  RealMath in(DType dtype) const { return {*builder_, dtype, device_}; }
  Pair converted(const Pair &a) const;

  GraphBuilder &builder() const { return *builder_; }
  DType dtype() const { return dtype_; }
  /// The largest number of `dtype`, and the distance from 1 to the next.
  double largest() const;
  double epsilon() const;

  Argument add(const Argument &a, const Argument &b) const;
  Argument sub(const Argument &a, const Argument &b) const;
  Argument mul(const Argument &a, const Argument &b) const;
  Argument div(const Argument &a, const Argument &b) const;
  Argument negate(const Argument &a) const;
  /// "exp" and the like, of a tensor or of a number.
  Argument call(std::string_view function, const Argument &a) const;
  /// "atan2", "hypot", "copysign", "maximum", "minimum".
  Argument call(std::string_view function, const Argument &a, const Argument &b) const;
  /// "lt", "eq" ...: a bool tensor.
  Argument compare(std::string_view comparison, const Argument &a, const Argument &b) const;
  Argument both(const Argument &a, const Argument &b) const;
  Argument either(const Argument &a, const Argument &b) const;
  Argument where(const Argument &condition, const Argument &a, const Argument &b) const;
  /// A number as a tensor of rank 0; a tensor as it is.
  Argument as_tensor(const Argument &a) const;

private:
  GraphBuilder *builder_;
  DType dtype_;
  tensor::Device device_;
};

// The formulas are those of PyTorch's CPU kernels where these say what happens at infinities and
// at branch cuts; NaN may stand in the other part than there.
namespace pairs {

Pair add(const RealMath &math, const Pair &a, const Pair &b);
Pair subtract(const RealMath &math, const Pair &a, const Pair &b);
Pair multiply(const RealMath &math, const Pair &a, const Pair &b);
/// Scaled by the larger part of the divisor (Smith).
Pair divide(const RealMath &math, const Pair &a, const Pair &b);
Argument magnitude(const RealMath &math, const Pair &a);
Argument angle(const RealMath &math, const Pair &a);
/// Whether it is not 0.
Argument truth(const RealMath &math, const Pair &a);
Argument equal(const RealMath &math, const Pair &a, const Pair &b);
Pair choose(const RealMath &math, const Argument &condition, const Pair &a, const Pair &b);

/// "exp", "log", ..., "sgn"; null for what is no function of one complex number here.
using Function = Pair (*)(const RealMath &, const Pair &);
Function find_function(std::string_view name);

Pair power(const RealMath &math, const Pair &base, const Pair &exponent);
/// With the short ways that PyTorch takes.
Pair power(const RealMath &math, const Pair &base, std::complex<double> exponent);

} // namespace pairs
} // namespace tsc::ops
