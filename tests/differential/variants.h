// Other ways to say, or to compile, the same program: all must agree.
#pragma once

#include "random_graph.h"

#include "driver/compile.h"

#include <optional>
#include <string>
#include <vector>

namespace tsc::differential {

struct Variant {
  std::string name; // what was done, with what
  Subject subject;
  driver::CompileOptions compile;
  /// For output i of the original user outputs, its position among the variant's; -1: dropped.
  std::vector<int64_t> outputs;
};

/// Names of all kinds, in the order of their numbers.
const std::vector<std::string> &variant_kinds();

/// The variant of kind `kind`; nothing where it does not apply (no dimension to make symbolic,
/// say).
std::optional<Variant> make_variant(const Subject &subject, size_t kind, RandomSource &random);

/// The subject with every 16-bit float result rounded to its dtype, as nothing has to be that a
/// kernel hands on.
Subject rounded(const Subject &subject);

/// Whether a node computes a mean beside a variance, or from both.
bool computes_moments(const graph::Node &node);
/// The subject with NaN for the infinities of which moments are computed: which of the two a mean
/// of infinities is, the order of the walk decides, in PyTorch too (docs/numbers.md).
Subject without_infinities(const Subject &subject);

/// The subject with every float input and result scaled by a unit in the last place or so, up or
/// down: where that changes more than so little, rounding decides, and no two ways need agree.
Subject perturbed(const Subject &subject, RandomSource &random);

} // namespace tsc::differential
