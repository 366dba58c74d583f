// Formulas of decompositions, written as on paper: a Term is a value under construction with the
// operators of arithmetic. Every operator is one call of the builder.
#pragma once

#include "ops/table/builder.h"

namespace tsc::ops {

/// A tensor, or a number. The builder must outlive it.
class Term {
public:
  Term(GraphBuilder &builder, Argument value) : builder_(&builder), value_(std::move(value)) {}
  GraphBuilder &builder() const { return *builder_; }
  const Argument &value() const { return value_; }
  operator const Argument &() const { return value_; } // NOLINT: what builders take
  /// `target` of this term and what follows.
  Term then(std::string_view target, Arguments others = {}, Keywords keywords = {}) const;
  /// The end of a formula: its value in the dtype of the result.
  Argument as(DType dtype) const;
  Term wide() const; // f16 and bf16 as f32
  TensorMeta meta() const { return builder_->meta(value_); }

private:
  GraphBuilder *builder_;
  Argument value_;
};

Term operator+(const Term &a, const Argument &b);
Term operator-(const Term &a, const Argument &b);
Term operator*(const Term &a, const Argument &b);
Term operator/(const Term &a, const Argument &b);
Term operator-(double a, const Term &b);
Term operator/(double a, const Term &b);
Term operator-(const Term &a);
/// Elementwise comparisons: bool tensors.
Term operator<(const Term &a, const Argument &b);
Term operator>(const Term &a, const Argument &b);
Term operator<=(const Term &a, const Argument &b);
Term operator>=(const Term &a, const Argument &b);
Term equal(const Term &a, const Argument &b);
Term either(const Term &a, const Argument &b);
Term both(const Term &a, const Argument &b);

Term where(const Term &condition, const Argument &yes, const Argument &no);
Term exp(const Term &x);
Term log(const Term &x);
Term tanh(const Term &x);
Term sigmoid(const Term &x);
Term sqrt(const Term &x);
Term abs(const Term &x);
Term square(const Term &x);
/// Over these dimensions (none: over none; all of a tensor's: list them).
Term sum(const Term &x, const std::vector<size_t> &dims, bool keep);
Term reshaped(const Term &x, const std::vector<Expr> &sizes);
Term permuted(const Term &x, const std::vector<size_t> &order);
Term expanded(const Term &x, const std::vector<Expr> &sizes);
/// 0, 1, .. count - 1 as int64.
Term counting(GraphBuilder &builder, Expr count, tensor::Device device);
/// Zeros, or another number.
Term filled(GraphBuilder &builder, const std::vector<Expr> &sizes, const Argument &number,
            DType dtype, tensor::Device device);

/// The tensor `parameter` of `call` as it is, and widened (f16 and bf16 as f32).
Term given(GraphBuilder &builder, const Call &call, std::string_view parameter);
Term wide(GraphBuilder &builder, const Call &call, std::string_view parameter);

} // namespace tsc::ops
