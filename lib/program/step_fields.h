// The kinds of steps and their fields, once: JSON both ways, the buffers that a step touches and
// what must hold of each field are visitors of this table.
//
// A visitor has one function for each sort of field; `name` is the field's in program.json:
//   index(name, uint32_t &)                   of a row, or a number of steps
//   integer(name, int64_t &, low, high)       both inclusive
//   number(name, double &)
//   text(name, std::string &)
//   label(name, std::string &)                left out of program.json where it is empty
//   flag(name, bool &)                        left out of program.json where it does not hold
//   dtype(name, DType &), and an optional one that is left out of program.json
//   word(name, enumerator &, names)           one of a kind's own words
//   size(name, Expr &, noun)                  not negative; `noun` names it in messages
//   size_or(name, Expr &, default, noun)      left out of program.json where it is the default
//   expression(name, Expr &), expressions(name, std::vector<Expr> &)   of any value
//   reads(name, X &), writes(name, X &)       X: Operand, MatrixOperand, or an optional one
//   predicate(name, X &)                      X: Operand or an optional one; a bool that is read
//   pointers(name, std::vector<Operand> &)    what the kernel says of each
#pragma once

#include "program/program.h"
#include "tensor/rank_reductions.h"

#include <array>
#include <string_view>
#include <type_traits>

namespace tsc::program {

/// In the order of Step::kind and of engine::StepKind.
constexpr std::array<std::string_view, std::variant_size_v<decltype(Step::kind)>> kStepKindNames = {
    "launch",      "matmul",     "copy",  "fill",   "collective",
    "conditional", "while_loop", "event", "define", "solver"};
constexpr std::array<std::string_view, 5> kCollectiveNames = {
    "all_gather", "reduce_scatter", "all_reduce", "broadcast", "all_to_all"};

constexpr std::array<std::string_view, tsc_engine::kRoutines> kRoutineNames = {"cholesky",
                                                                               "lu",
                                                                               "lu_solve",
                                                                               "triangular_solve",
                                                                               "qr",
                                                                               "orthogonal",
                                                                               "symmetric_eigen",
                                                                               "svd",
                                                                               "ldl",
                                                                               "ldl_solve",
                                                                               "eigen",
                                                                               "fourier",
                                                                               "fourier_of_real",
                                                                               "fourier_to_real"};

/// S is Kind or const Kind.
template <class S, class Kind>
concept FieldsOf = std::is_same_v<std::remove_const_t<S>, Kind>;

template <FieldsOf<Launch> S, class Visitor> void visit_fields(S &step, Visitor &&fields) {
  fields.index("kernel", step.kernel);
  fields.pointers("pointers", step.pointers);
  fields.expressions("sizes", step.sizes);
}
template <FieldsOf<Matmul> S, class Visitor> void visit_fields(S &step, Visitor &&fields) {
  fields.dtype("dtype", step.dtype);
  fields.dtype("result", step.result);
  fields.size_or("batch", step.batch, 1, "size");
  fields.size("m", step.m, "size");
  fields.size("n", step.n, "size");
  fields.size("k", step.k, "size");
  fields.reads("a", step.a);
  fields.reads("b", step.b);
  fields.reads("c", step.c);
  fields.writes("out", step.out);
  fields.number("alpha", step.alpha);
  fields.number("beta", step.beta);
  fields.flag("tf32", step.tf32);
}
template <FieldsOf<Copy> S, class Visitor> void visit_fields(S &step, Visitor &&fields) {
  fields.reads("from", step.from);
  fields.writes("to", step.to);
  fields.size("bytes", step.bytes, "byte count");
}
template <FieldsOf<Fill> S, class Visitor> void visit_fields(S &step, Visitor &&fields) {
  fields.writes("to", step.to);
  fields.size("bytes", step.bytes, "byte count");
}
template <FieldsOf<Collective> S, class Visitor> void visit_fields(S &step, Visitor &&fields) {
  fields.word("collective", step.kind, kCollectiveNames);
  using Kind = Collective::Kind;
  if (step.kind == Kind::reduce_scatter || step.kind == Kind::all_reduce)
    fields.word("reduction", step.reduction, tensor::kRankReductions);
  fields.dtype("dtype", step.dtype);
  fields.integer("ranks", step.ranks, 0, 1 << 20);
  fields.text("group", step.group);
  fields.reads("from", step.from);
  fields.writes("to", step.to);
  if (step.kind == Kind::all_to_all) {
    fields.expressions("sends", step.sends);
    fields.expressions("receives", step.receives);
  } else {
    fields.size("count", step.count, "element count");
  }
  if (step.kind == Kind::broadcast)
    fields.integer("root", step.root, 0, 1 << 20);
  fields.label("node", step.node);
}
template <FieldsOf<Conditional> S, class Visitor> void visit_fields(S &step, Visitor &&fields) {
  fields.predicate("predicate", step.predicate);
  if (!step.predicate)
    fields.expression("condition", step.condition);
  fields.index("then_steps", step.then_steps);
  fields.index("else_steps", step.else_steps);
}
template <FieldsOf<WhileLoop> S, class Visitor> void visit_fields(S &step, Visitor &&fields) {
  fields.predicate("predicate", step.predicate);
  fields.index("condition_steps", step.condition_steps);
  fields.index("body_steps", step.body_steps);
}
template <FieldsOf<Solver> S, class Visitor> void visit_fields(S &step, Visitor &&fields) {
  fields.word("routine", step.routine, kRoutineNames);
  fields.integer("flags", step.flags, 0, tsc_engine::kSolverFlags);
  fields.dtype("dtype", step.dtype);
  fields.size_or("batch", step.batch, 1, "size");
  fields.size_or("m", step.m, 0, "size");
  fields.size_or("n", step.n, 0, "size");
  fields.size_or("k", step.k, 0, "size");
  fields.reads("a", step.a);
  fields.reads("b", step.b);
  fields.reads("c", step.c);
  fields.writes("out", step.out);
  fields.writes("second", step.second);
  fields.writes("third", step.third);
  fields.writes("info", step.info);
}
template <FieldsOf<Event> S, class Visitor> void visit_fields(S &, Visitor &&) {}
template <FieldsOf<Define> S, class Visitor> void visit_fields(S &step, Visitor &&fields) {
  fields.reads("number", step.number);
  fields.expression("symbol", step.symbol);
  fields.size_or("bound", step.bound, Define::kUnbounded, "bound");
}

/// A visitor that looks at operands alone: `operand(name, Operand or MatrixOperand, is_written)`.
/// Those of a launch are the kernel's.
template <class Function> class OperandVisitor {
public:
  explicit OperandVisitor(Function function) : function_(std::move(function)) {}
  template <class X> void reads(std::string_view name, const X &x) { give(name, x, false); }
  template <class X> void writes(std::string_view name, const X &x) { give(name, x, true); }
  template <class X> void predicate(std::string_view name, const X &x) { give(name, x, false); }
  template <class... Rest> void index(Rest &&...) {}
  template <class... Rest> void integer(Rest &&...) {}
  template <class... Rest> void number(Rest &&...) {}
  template <class... Rest> void flag(Rest &&...) {}
  template <class... Rest> void text(Rest &&...) {}
  template <class... Rest> void label(Rest &&...) {}
  template <class... Rest> void dtype(Rest &&...) {}
  template <class... Rest> void word(Rest &&...) {}
  template <class... Rest> void size(Rest &&...) {}
  template <class... Rest> void size_or(Rest &&...) {}
  template <class... Rest> void expression(Rest &&...) {}
  template <class... Rest> void expressions(Rest &&...) {}
  template <class... Rest> void pointers(Rest &&...) {}

private:
  Function function_;
  template <class X> void give(std::string_view name, const X &x, bool is_written) {
    function_(name, x, is_written);
  }
  template <class X> void give(std::string_view name, const std::optional<X> &x, bool is_written) {
    if (x)
      function_(name, *x, is_written);
  }
};

} // namespace tsc::program
