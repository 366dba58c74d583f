// The operators that draw random numbers: what every random operator decomposes to. Each node has a
// stream of its own (ops::seed_random numbers them), so neither fusion nor order changes its
// numbers. docs/random.md says what they are.
#pragma once

#include "ops/table/builder.h"

namespace tsc::ops {

/// Where a draw goes.
struct DrawnTensor {
  std::vector<Expr> sizes;
  DType dtype = DType::f32;
  tensor::Device device;
};

/// Uniform in [low, high), f16 and bf16 with the bits that they have.
Argument draw_uniform(GraphBuilder &builder, const DrawnTensor &result, double low = 0,
                      double high = 1);
Argument draw_normal(GraphBuilder &builder, const DrawnTensor &result, double mean = 0,
                     double deviation = 1);
Argument draw_exponential(GraphBuilder &builder, const DrawnTensor &result, double rate = 1);
/// int64: 64 fair bits.
Argument draw_bits(GraphBuilder &builder, const DrawnTensor &result);
/// True with `probability`.
Argument draw_bernoulli(GraphBuilder &builder, const DrawnTensor &result, double probability);
/// The same as a function of `state`, int64 [2] that the graph holds, and of the element's
/// position: whoever has the state draws the same again.
Argument draw_bernoulli_of(GraphBuilder &builder, const Argument &state, const DrawnTensor &result,
                           double probability);

/// Throws TSC-O032 unless `probability` is in [0, 1].
void check_probability(const Call &call, double probability);

/// Whether `node` is one of them that takes the program's state.
bool is_seeded_draw(const Node &node);

} // namespace tsc::ops
