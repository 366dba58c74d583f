// Random programs of several streams.
#pragma once

#include "sample_program.h"

#include <algorithm>
#include <random>
#include <utility>

namespace tsc::program {

inline constexpr size_t kSize = 16;      // elements of every buffer: 4 x 4
inline constexpr uint32_t kBuffers = 24; // the first is the input

/// Steps over buffers that are alive for a few steps only, so that they share memory, on up to
/// `streams` streams.
inline Program random_program(std::mt19937 &random, unsigned streams) {
  const auto below = [&](size_t n) { return static_cast<uint32_t>(random() % n); };
  Program program;
  const std::vector<symbolic::Expr> sizes = {symbolic::Expr(4), symbolic::Expr(4)};
  program.buffers.push_back(make_buffer("x", Role::input, sizes));
  for (uint32_t i = 0; i + 2 < kBuffers; ++i)
    program.buffers.push_back(make_buffer("b" + std::to_string(i), Role::intermediate, sizes));
  program.buffers.push_back(make_buffer("y", Role::output, sizes));
  for (const auto &[name, statement] :
       {std::pair("twice", "out0[i] = 2 * in0[i];"), std::pair("next", "out0[i] = in0[i] + 1;"),
        std::pair("relu", "out0[i] = in0[i] > 0 ? in0[i] : 0;")})
    program.kernels.push_back(make_kernel(name, "float", DType::f32, statement));
  for (Kernel &kernel : program.kernels)
    kernel.cuda.grid = {symbolic::Expr(1), symbolic::Expr(1), symbolic::Expr(1)};
  std::vector<uint32_t> known = {0}; // buffers that hold something
  const auto recent = [&] {
    return known[known.size() - 1 - below(std::min<size_t>(known.size(), 3))];
  };
  for (int i = 0; i < 40; ++i) {
    Step step;
    step.name = "step" + std::to_string(i);
    step.stream = static_cast<int>(below(streams));
    const uint32_t from = recent(), to = 1 + below(kBuffers - 1);
    const symbolic::Expr four(4), one(1), zero(0), bytes(int64_t(kSize * 4));
    switch (below(5)) {
    case 0:
      step.kind = Copy{{from}, {to}, bytes};
      if (from == to)
        continue;
      break;
    case 1: {
      Matmul product;
      product.m = product.n = product.k = four;
      product.a = {from, zero, four, one, zero};
      product.b = {recent(), zero, four, one, zero};
      product.out = {to, zero, four, one, zero};
      if (product.a.buffer == to || product.b.buffer == to)
        continue;
      product.alpha = 0.125;
      step.kind = product;
      break;
    }
    case 2:
      if (below(3) == 0) {
        step.kind = Event{};
        break;
      }
      [[fallthrough]];
    default:
      step.kind = Launch{below(3), {{from}, {to}}, {symbolic::Expr(int64_t(kSize))}};
    }
    if (!std::holds_alternative<Event>(step.kind))
      known.push_back(to);
    program.steps.push_back(std::move(step));
  }
  Step last;
  last.name = "last";
  last.kind = Launch{1, {{recent()}, {kBuffers - 1}}, {symbolic::Expr(int64_t(kSize))}};
  program.steps.push_back(std::move(last));
  known.push_back(kBuffers - 1);
  InputInfo input;
  input.name = "x";
  program.inputs = {input};
  for (uint32_t buffer = 1; buffer < kBuffers; ++buffer) {
    if (std::find(known.begin(), known.end(), buffer) == known.end())
      continue;
    if (below(8) != 0 && buffer + 1 != kBuffers)
      continue; // its memory may be another's when its last step is done
    OutputInfo output;
    output.name = "output_" + std::to_string(program.outputs.size());
    output.buffer = buffer;
    output.layout = program.buffers[buffer].layout;
    program.outputs.push_back(output);
  }
  return program;
}

} // namespace tsc::program
