#include "ops/table/term.h"

#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"

namespace tsc::ops {
namespace {

Term binary(std::string_view target, const Term &a, const Argument &b) {
  return {a.builder(), a.builder().call(target, {a.value(), b})};
}

} // namespace

Term Term::then(std::string_view target, Arguments others, Keywords keywords) const {
  others.insert(others.begin(), value_);
  return {*builder_, builder_->call(target, std::move(others), std::move(keywords))};
}
Argument Term::as(DType dtype) const { return convert(*builder_, value_, dtype); }
Term Term::wide() const { return {*builder_, widen(*builder_, value_)}; }

Term operator+(const Term &a, const Argument &b) { return binary(kAdd, a, b); }
Term operator-(const Term &a, const Argument &b) { return binary(kSub, a, b); }
Term operator*(const Term &a, const Argument &b) { return binary(kMul, a, b); }
Term operator/(const Term &a, const Argument &b) { return binary(kDiv, a, b); }
Term operator-(double a, const Term &b) {
  return {b.builder(), b.builder().call(kSub, {a, b.value()})};
}
Term operator/(double a, const Term &b) {
  return {b.builder(), b.builder().call(kDiv, {a, b.value()})};
}
Term operator-(const Term &a) { return a.then("aten.neg.default"); }
Term operator<(const Term &a, const Argument &b) { return binary("aten.lt.Tensor", a, b); }
Term operator>(const Term &a, const Argument &b) { return binary("aten.gt.Tensor", a, b); }
Term operator<=(const Term &a, const Argument &b) { return binary("aten.le.Tensor", a, b); }
Term operator>=(const Term &a, const Argument &b) { return binary("aten.ge.Tensor", a, b); }
Term equal(const Term &a, const Argument &b) { return binary("aten.eq.Tensor", a, b); }
Term either(const Term &a, const Argument &b) { return binary("aten.logical_or.default", a, b); }
Term both(const Term &a, const Argument &b) { return binary("aten.logical_and.default", a, b); }

Term where(const Term &condition, const Argument &yes, const Argument &no) {
  return condition.then(kWhere, {yes, no});
}
Term exp(const Term &x) { return x.then("aten.exp.default"); }
Term log(const Term &x) { return x.then("aten.log.default"); }
Term tanh(const Term &x) { return x.then("aten.tanh.default"); }
Term sigmoid(const Term &x) { return x.then("aten.sigmoid.default"); }
Term sqrt(const Term &x) { return x.then("aten.sqrt.default"); }
Term abs(const Term &x) { return x.then("aten.abs.default"); }
Term square(const Term &x) { return x * x; }

Term sum(const Term &x, const std::vector<size_t> &dims, bool keep) {
  if (dims.empty())
    return x;
  return x.then("aten.sum.dim_IntList", {ints_argument(dims), keep});
}
Term reshaped(const Term &x, const std::vector<Expr> &sizes) {
  return x.then("aten.reshape.default", {sizes_argument(sizes)});
}
Term permuted(const Term &x, const std::vector<size_t> &order) {
  return x.then("aten.permute.default", {ints_argument(order)});
}
Term expanded(const Term &x, const std::vector<Expr> &sizes) {
  return x.then("aten.expand.default", {sizes_argument(sizes)});
}
Term counting(GraphBuilder &builder, Expr count, tensor::Device device) {
  return {builder, builder.call("aten.arange.start_step", {0, size_argument(count), 1},
                                {{"dtype", DType::i64}, {"device", device}})};
}
Term filled(GraphBuilder &builder, const std::vector<Expr> &sizes, const Argument &number,
            DType dtype, tensor::Device device) {
  return {builder, builder.call("aten.full.default", {sizes_argument(sizes), number},
                                {{"dtype", dtype}, {"device", device}})};
}

Term given(GraphBuilder &builder, const Call &call, std::string_view parameter) {
  return {builder, call[parameter]};
}
Term wide(GraphBuilder &builder, const Call &call, std::string_view parameter) {
  return given(builder, call, parameter).wide();
}

} // namespace tsc::ops
