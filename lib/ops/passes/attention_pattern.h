// What a program writes out that is attention: a softmax between two products, and what happens to
// the scores and the factors on the way.
#pragma once

#include "ops/table/builder.h"

#include <map>

namespace tsc::ops {

/// A factor of a product: a tensor of 16 bits, or of float32 where it comes from none, and what
/// lies between it and the product.
struct AttentionFactor {
  graph::NodeId base = 0;
  std::vector<Node> views; // in the order of the graph
  double scale = 1;
  DType dtype = DType::f32; // of the base
  std::vector<Expr> sizes;  // at the product
  size_t base_rank = 0;
};

/// What happens to scores between the first product and the softmax.
struct ScoreChange {
  enum class Kind : uint8_t {
    add,  // `number` times a tensor is added
    hide, // where a tensor of bool is true (false: `inverted`), `number` takes their place
    scale // they are multiplied by a tensor (divided: `inverted`), the same for all keys
  } kind = Kind::add;
  graph::NodeId tensor = 0;
  double number = 1; // hide: -INFINITY, or a number so low that it hides
  bool inverted = false;
  std::vector<Expr> frame; // sizes of the scores there
};

struct AttentionMatch {
  AttentionFactor query, key, value;
  std::vector<ScoreChange> changes;      // the last first
  std::vector<std::vector<Expr>> frames; // sizes that views on the way give scores
  /// Scores are `scale` times the products; capped: then `cap` times their tangent.
  double scale = 1;
  std::optional<double> cap;
  std::vector<Expr> scores, weights; // sizes at the products
  std::vector<Expr> result;
  DType dtype = DType::f32; // of the result
};

/// Whether the elements of what `node` takes stay in their order: views of other sizes, and copies.
bool is_reshape(const Node &node);
/// Whether all elements of what `node` takes, or some of them, are elsewhere, and stay what they
/// are.
bool moves_elements(const Node &node);
/// Whether `node` exchanges the last two dimensions of what it views, all others staying.
bool exchanges_last_two(const Node &node, size_t rank);

/// Finds attention in a graph that stays.
class AttentionPattern {
public:
  explicit AttentionPattern(const Graph &graph);
  /// Whether `id` is the second product. Numbers, dtypes and users fit; sizes are for the caller.
  std::optional<AttentionMatch> match(graph::NodeId id) const;
  size_t rank_of(graph::NodeId id) const { return tensor(id)->layout.rank(); }
  graph::NodeId before_merging(graph::NodeId id, const std::vector<Expr> &wanted) const;

private:
  /// One node between the softmax and the product of queries and keys.
  struct Step {
    size_t scores = 0; // which argument they are
    double scale = 1;
    std::optional<ScoreChange> change;
    enum class Kind : uint8_t {
      plain,
      shift, // a number is added, which a softmax does not see
      cap    // a tangent
    } kind = Kind::plain;
  };

  const Graph &graph_;
  std::map<std::string, const tensor::HostTensor *> constants_;
  std::vector<std::vector<graph::NodeId>> users_;
  std::map<graph::NodeId, std::string> constant_inputs_; // by placeholder

  const TensorMeta *tensor(graph::NodeId id) const;
  std::optional<double> number_in(const Argument &argument) const;
  std::optional<graph::NodeId> alone(const Argument &argument) const;
  bool keeps_order(graph::NodeId id) const;
  std::optional<graph::NodeId> before_turns(graph::NodeId id) const;
  bool only_read_by(graph::NodeId id, std::initializer_list<graph::NodeId> readers) const;
  std::optional<graph::NodeId> call_of(const Argument &argument, std::string_view target) const;
  std::optional<graph::NodeId> softmax_with_zeros(graph::NodeId id) const;
  std::optional<graph::NodeId> scores_of_quotient(graph::NodeId id) const;
  std::optional<graph::NodeId> scores_before(const Argument &argument) const;
  std::vector<Step> steps_of(graph::NodeId id) const;
  void add_sum_steps(const Node &node, const std::vector<Expr> &frame,
                     std::vector<Step> &steps) const;
  void add_scale_steps(const Node &node, const std::vector<Expr> &frame,
                       std::vector<Step> &steps) const;
  void add_choice_steps(const Node &node, const std::vector<Expr> &frame,
                        std::vector<Step> &steps) const;
  bool is_added(const Argument &argument) const;
  static bool take(const Step &step, AttentionMatch &match);
  bool find_scores(graph::NodeId id, AttentionMatch &match, int choices) const;
  bool find_factors(graph::NodeId product, AttentionMatch &match) const;
  std::optional<AttentionFactor> factor(const Argument &argument, bool scales) const;
  bool is_narrowed(graph::NodeId id, DType dtype) const;
};

} // namespace tsc::ops
