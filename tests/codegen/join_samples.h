// Modules whose kernels become one launch.
#pragma once

#include "sample_modules.h"

namespace tsc::test {

/// exp of two vectors of 2048 elements, and minus one of 7.
inline SampleModule equal_and_other() {
  SampleModule m;
  const BufferId a = m.input("a", DType::f32, {2048}), b = m.input("b", DType::f32, {7}),
                 c = m.input("c", DType::f32, {2048});
  m.output(m.pointwise(m.apply(ir::Op::exp, {m.load(a)})));
  m.output(m.pointwise(m.apply(ir::Op::neg, {m.load(b)})));
  m.output(m.pointwise(m.apply(ir::Op::exp, {m.load(c)})));
  return m;
}

/// The sums of the first 40 rows, and of the first 24, of one matrix of wide rows.
inline SampleModule rows_of_one_matrix() {
  SampleModule m;
  const BufferId x = m.input("x", DType::f32, {40, 2048});
  for (const int64_t rows : {40, 24})
    m.output(m.reduce(ir::ReductionKind::sum,
                      m.load_at(x, {Expr(rows), Expr(2048)}, {ir::variable(0), ir::variable(1)}),
                      DType::f32));
  return m;
}

/// exp of two vectors of s0 elements, and minus one of s1.
inline SampleModule symbolic_rows(Expr s0, Expr s1) {
  SampleModule m;
  for (const Expr s : {s0, s1}) {
    m.module.symbols.push_back({s, 1, 1 << 15});
    m.module.ranges.set(s, {1, 1 << 15});
  }
  const BufferId a = m.input("a", DType::f32, {s0}), b = m.input("b", DType::f32, {s1}),
                 c = m.input("c", DType::f32, {s0});
  m.output(m.pointwise(m.apply(ir::Op::exp, {m.load(a)})));
  m.output(m.pointwise(m.apply(ir::Op::neg, {m.load(b)})));
  m.output(m.pointwise(m.apply(ir::Op::exp, {m.load(c)})));
  return m;
}

inline SampleModule pointwise_beside_long_rows() {
  SampleModule m;
  const BufferId x = m.input("x", DType::f32, {64, 8192}), y = m.input("y", DType::f32, {64});
  m.output(m.reduce(ir::ReductionKind::max, m.load(x), DType::f32));
  m.output(m.pointwise(m.apply(ir::Op::exp, {m.load(y)})));
  return m;
}

inline SampleModule many_vectors(int64_t count) {
  SampleModule m;
  for (int64_t i = 0; i < count; ++i) {
    const BufferId x = m.input("x" + std::to_string(i), DType::f32, {Expr(10 + i % 3)});
    m.output(m.pointwise(m.apply(ir::Op::exp, {m.load(x)})));
  }
  return m;
}

} // namespace tsc::test
