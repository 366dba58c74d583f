// What flex_attention and its backward pass are made of: operands, functions over all scores, and
// products of heads.
#pragma once

#include "ops/families/batched_graph.h"
#include "ops/table/shape_rules.h"

namespace tsc::ops::flex {

using Sizes = std::vector<Expr>;

struct Operands {
  TensorMeta query, key, value;
  Expr groups = 1; // query heads that share a key's
};
/// Errors: TSC-O128 for sizes that do not fit.
Operands operands_of(const Call &call);

/// What a function is called with in front of its captured tensors: so many scores, the four
/// places, and so many scores again.
struct Signature {
  size_t before = 0, after = 0;
};

/// A function of scores or places, traced over single elements.
class Function {
public:
  /// `buffers`: the parameter that lists the captured tensors. Errors: TSC-O125 for a function that
  /// a batch cannot be computed with.
  Function(GraphBuilder &builder, const Call &call, Graph body, Signature signature,
           std::string_view buffers, DType wide);

  /// Whether it yields its first argument.
  bool is_identity() const { return body_.outputs[0].value.node()->id == 0; }
  /// Whether it is `row >= column`.
  bool is_causal() const;
  /// Whether it is always true.
  bool is_true() const;
  /// Whether every element is computed from elements alone, which a kernel can do where it is.
  bool is_of_elements() const { return computes_single_elements(body_); }

  /// Its results over a batch [batch, heads, rows, columns]; `scores` has that many dimensions.
  /// `inside`: as what a kernel computes where the scores are.
  std::vector<BatchedValue> results(const std::vector<Argument> &scores, const Sizes &batch,
                                    bool inside = false) const;
  BatchedValue operator()(const std::vector<Argument> &scores, const Sizes &batch,
                          bool inside = false) const {
    return results(scores, batch, inside).front();
  }

private:
  GraphBuilder &builder_;
  Signature signature_;
  Graph body_;
  std::vector<BatchedValue> others_;

  const Node &yielded() const { return body_.node(body_.outputs[0].value.node()->id); }
};

/// The functions of one call.
struct Functions {
  Function score, mask;
  Sizes batch; // [batch, heads, rows, columns]
  DType wide;  // of scores
};
/// `score`: the parameter that names the score function.
Functions functions_of(GraphBuilder &builder, const Call &call, std::string_view score);

/// `a` [batch, heads, rows, n] times `b` [batch, heads, n, columns], each element of f32 or wider.
Argument wide_product(GraphBuilder &builder, const Argument &a, const Argument &b, DType wide);
/// Keys or values for every batch and head of the queries.
Argument for_every_head(GraphBuilder &builder, const Argument &x, const Operands &of);
/// The last two dimensions change places.
Argument turned(GraphBuilder &builder, const Argument &x);

struct Scores {
  Argument before, after; // the functions
};
Scores scores_of(GraphBuilder &builder, const Call &call, const Functions &functions);

/// `x` in memory in the order of the dimensions of `like`.
Argument in_order_of(GraphBuilder &builder, const Argument &x, const TensorMeta &like);
/// A result of such sizes in the order of the dimensions of `like`.
Value value_in_order_of(const TensorMeta &like, const Sizes &sizes);

} // namespace tsc::ops::flex
