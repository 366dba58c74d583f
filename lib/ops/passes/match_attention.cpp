#include "ops/passes/match_attention.h"

#include "ops/families/flex_attention.h"
#include "ops/passes/attention_pattern.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/rewrite.h"
#include "templates/attention/tc_attention_geometry.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace tsc::ops {

namespace {

using graph::NodeId;
using Sizes = std::vector<Expr>;
using Kind = ScoreChange::Kind;

constexpr double kLowest = -3.3895313892515355e+38; // of bf16, and within fp32

/// Leading dimensions of scores, each way of writing them as parts of one list.
class Frames {
public:
  explicit Frames(const symbolic::Ranges &ranges) : ranges_(ranges) {}

  bool equal(Expr a, Expr b) const {
    return a == b || symbolic::simplify(a - b, ranges_).is_integer(0);
  }
  bool equal(const Sizes &a, const Sizes &b) const {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [&](Expr x, Expr y) { return equal(x, y); });
  }
  /// How many dimensions of `fine` each one of `coarse` stands for.
  std::optional<std::vector<size_t>> split(const Sizes &coarse, const Sizes &fine) const {
    std::vector<size_t> counts;
    size_t at = 0;
    for (const Expr size : coarse) {
      const size_t from = at;
      Expr product = 1;
      while (!equal(product, size)) {
        if (at == fine.size())
          return std::nullopt;
        product = symbolic::simplify(product * fine[at++], ranges_);
      }
      counts.push_back(at - from);
    }
    for (; at < fine.size(); ++at) {
      if (!fine[at].is_integer(1) || counts.empty())
        return std::nullopt;
      ++counts.back();
    }
    return counts;
  }

private:
  const symbolic::Ranges &ranges_;
};

Sizes leading(const Sizes &sizes) { return Sizes(sizes.begin(), sizes.end() - 2); }
Sizes joined(Sizes leading, Expr rows, Expr columns) {
  leading.push_back(rows);
  leading.push_back(columns);
  return leading;
}
Expr product_of(const Sizes &sizes, size_t from, size_t to) {
  Expr product = 1;
  for (size_t i = from; i < to; ++i)
    product = product * sizes[i];
  return product;
}

/// The leading dimensions that attention is computed in.
struct Plan {
  Sizes fine;                 // as fine as anything between the products has them
  std::vector<size_t> groups; // how many of them become one: batches, batches within, heads
  bool grouped = false;       // the last but one is heads of keys, the last those that share them
  Expr rows, columns, depth;

  Sizes merged() const { return merged(fine); }
  Sizes merged(const Sizes &sizes) const {
    Sizes result;
    size_t at = 0;
    for (const size_t count : groups) {
      result.push_back(product_of(sizes, at, at + count));
      at += count;
    }
    return result;
  }
};

/// Of a tensor that is added to scores of size `frame`: its sizes in the dimensions of `fine`, 1
/// where it repeats.
std::optional<Sizes> refined(const Frames &frames, Sizes sizes, const Sizes &frame,
                             const Sizes &fine) {
  if (sizes.size() > frame.size())
    return std::nullopt;
  sizes.insert(sizes.begin(), frame.size() - sizes.size(), Expr(1));
  const auto counts = frames.split(leading(frame), fine);
  if (!counts)
    return std::nullopt;
  Sizes result;
  size_t at = 0;
  for (size_t i = 0; i < counts->size(); ++i) {
    const bool repeats = sizes[i].is_integer(1) && !frame[i].is_integer(1);
    if (!repeats && !frames.equal(sizes[i], frame[i]))
      return std::nullopt;
    for (size_t k = 0; k < (*counts)[i]; ++k, ++at)
      result.push_back(repeats ? Expr(1) : fine[at]);
  }
  result.push_back(sizes[sizes.size() - 2]);
  result.push_back(sizes.back());
  return result;
}

class Planner {
public:
  Planner(const Graph &graph, const symbolic::Ranges &ranges, const AttentionMatch &match)
      : graph_(graph), frames_(ranges), match_(match) {}

  /// Nothing where sizes are not those of attention that a kernel computes.
  std::optional<Plan> plan(int64_t deepest) {
    const Sizes &scores = match_.scores, &query = match_.query.sizes, &key = match_.key.sizes,
                &value = match_.value.sizes;
    if (scores.size() < 2 || scores.size() > 6 || query.size() != scores.size() ||
        match_.weights.size() != match_.result.size() || match_.weights.size() < 2)
      return std::nullopt;
    Plan plan;
    plan.rows = scores[scores.size() - 2];
    plan.columns = scores.back();
    plan.depth = query.back();
    plan.fine = leading(scores);
    if (!plan.depth.is_integer() || plan.depth.value() % 8 != 0 || plan.depth.value() < 8 ||
        plan.depth.value() > deepest || !frames_.equal(match_.result.back(), plan.depth) ||
        !frames_.equal(leading(query), plan.fine))
      return std::nullopt;
    const std::optional<bool> keys = shares(key, plan.fine),
                              values = shares(value, leading(match_.weights));
    if (!keys || !values || *keys != *values)
      return std::nullopt;
    plan.grouped = *keys;
    const Sizes of_product = plan.fine;
    if (!refine(plan) || !choose_groups(plan, of_product))
      return std::nullopt;
    return plan;
  }

private:
  const Graph &graph_;
  Frames frames_;
  const AttentionMatch &match_;

  const Sizes &sizes_of(NodeId id) const { return graph_.node(id).value->tensor()->layout.sizes; }
  /// Whether a right factor has one head for all of the last of `batch`; nothing: it does not fit.
  std::optional<bool> shares(const Sizes &factor, const Sizes &batch) const {
    if (factor.size() != batch.size() + 2)
      return std::nullopt;
    if (frames_.equal(leading(factor), batch))
      return false;
    Sizes one = batch;
    if (one.size() < 2)
      return std::nullopt;
    one.back() = 1;
    return frames_.equal(leading(factor), one) ? std::optional<bool>(true) : std::nullopt;
  }
  /// The finest of all frames; every other one must be a way to write it.
  bool refine(Plan &plan) const {
    const Sizes first = plan.fine;
    std::vector<const Sizes *> all = {&match_.scores, &match_.weights};
    for (const ScoreChange &change : match_.changes)
      all.push_back(&change.frame);
    // Views need not be of rows and columns; of those that are, finer ones spare copies of factors.
    for (const Sizes &frame : match_.frames)
      if (frame.size() >= 2 && frames_.equal(frame[frame.size() - 2], plan.rows) &&
          frames_.equal(frame.back(), plan.columns) &&
          (!plan.grouped || frame.size() - 2 <= first.size()) &&
          (frames_.split(leading(frame), first) || frames_.split(first, leading(frame))))
        all.push_back(&frame);
    for (const Sizes *frame : all) {
      if (frame->size() < 2 || !frames_.equal((*frame)[frame->size() - 2], plan.rows) ||
          !frames_.equal(frame->back(), plan.columns))
        return false;
      if (frame->size() - 2 > plan.fine.size())
        plan.fine = leading(*frame);
    }
    if (plan.grouped && plan.fine.size() != first.size())
      return false;
    return std::all_of(all.begin(), all.end(), [&](const Sizes *frame) {
      return frames_.split(leading(*frame), plan.fine).has_value();
    });
  }
  /// Which dimensions become one, so that three are left at most: those that masks agree about,
  /// and first those that were one for the product.
  bool choose_groups(Plan &plan, const Sizes &of_product) const {
    std::vector<bool> repeats(plan.fine.size(), true);
    for (const ScoreChange &change : match_.changes) {
      const auto sizes = refined(frames_, sizes_of(change.tensor), change.frame, plan.fine);
      if (!sizes)
        return false;
      for (size_t i = 0; i < plan.fine.size() && change.kind != Kind::scale; ++i)
        repeats[i] = repeats[i] && (*sizes)[i].is_integer(1);
    }
    std::vector<size_t> groups(plan.fine.size(), 1);
    const auto merge = [&](size_t first) { // two groups, if masks let
      size_t at = 0;
      for (size_t i = 0; i < first; ++i)
        at += groups[i];
      const size_t next = at + groups[first];
      if (repeats[at] != repeats[next] && !product_of(plan.fine, at, next).is_integer(1) &&
          !product_of(plan.fine, next, next + groups[first + 1]).is_integer(1))
        return false;
      groups[first] += groups[first + 1];
      groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(first) + 1);
      return true;
    };
    if (plan.grouped && !merge(groups.size() - 2))
      return false;
    const auto counts = *frames_.split(of_product, plan.fine);
    size_t end = 0;
    for (size_t i = 0; i < counts.size() && counts.size() > 1 && !plan.grouped; ++i, ++end)
      for (size_t k = 1; k < counts[i] && groups.size() > 2; ++k)
        if (!merge(end))
          ++end;
    while (groups.size() > 2 && merge(0)) {
    }
    for (size_t i = 1; i + 1 < groups.size() && groups.size() > 3;)
      if (!merge(i))
        ++i;
    plan.groups = groups;
    return groups.size() <= 3;
  }
};

/// A mask in the dimensions of a plan.
class MaskBuilder {
public:
  MaskBuilder(Rewrite &rewrite, const Frames &frames, const Plan &plan)
      : rewrite_(rewrite), builder_(rewrite.builder()), frames_(frames), plan_(plan) {}

  void add(const ScoreChange &change) {
    Argument tensor = in_plan(change);
    if (change.kind == Kind::hide) {
      if (!change.inverted)
        tensor = builder_.call("aten.logical_not.default", {tensor});
      visible_ = visible_.is_none() ? tensor
                                    : builder_.call("aten.logical_and.default", {visible_, tensor});
      is_low_ = is_low_ || std::isfinite(change.number);
      return;
    }
    if (change.number != 1 || !added_.is_none())
      is_computed_ = true;
    if (change.number != 1)
      tensor = builder_.call("aten.mul.Tensor", {tensor, change.number});
    added_ = added_.is_none() ? tensor : builder_.call("aten.add.Tensor", {added_, tensor});
  }
  /// What attention takes; a row that a low number hides throughout keeps equal weights, as it has
  /// in the program.
  Argument finish() {
    if (visible_.is_none())
      return padded(added_);
    if (added_.is_none() && !is_low_)
      return padded(visible_);
    is_computed_ = true;
    const double number = is_low_ ? kLowest : -INFINITY;
    Argument shown = added_;
    if (shown.is_none())
      return padded(choose(full(0.0), number));
    if (is_low_ && builder_.meta(shown).dtype == DType::f16) // the number has no place there
      shown = builder_.call("prims.convert_element_type.default", {shown, DType::f32});
    return padded(choose(shown, number));
  }
  /// Scores as functions at them have them, of `scores` there: what is added, and what hides by a
  /// low number. What hides by -inf is `seen`.
  struct AtScores {
    Argument scores, seen;
  };
  AtScores at_scores(Argument scores) {
    if (!added_.is_none()) {
      Argument more = added_;
      if (builder_.meta(more).dtype != DType::f32)
        more = builder_.call("prims.convert_element_type.default", {more, DType::f32});
      scores = builder_.call("aten.add.Tensor", {scores, more});
    }
    if (!is_low_)
      return {scores, visible_};
    return {builder_.call("aten.where.ScalarOther", {visible_, scores, kLowest}), Argument()};
  }
  /// The tensor of a change in the plan's dimensions.
  Argument in_plan(const ScoreChange &change) {
    Argument tensor = rewrite_.mapped(graph::NodeRef{change.tensor});
    const Sizes own = builder_.meta(tensor).layout.sizes;
    Sizes fine = *refined(frames_, own, change.frame, plan_.fine), spread = fine;
    size_t at = 0;
    for (const size_t count : plan_.groups) {
      const auto first = fine.begin() + static_cast<std::ptrdiff_t>(at),
                 last = first + static_cast<std::ptrdiff_t>(count);
      if (std::any_of(first, last, [](Expr size) { return !size.is_integer(1); }))
        std::copy_n(plan_.fine.begin() + static_cast<std::ptrdiff_t>(at), count,
                    spread.begin() + static_cast<std::ptrdiff_t>(at));
      at += count;
    }
    const Sizes result = joined(plan_.merged(spread), fine[fine.size() - 2], fine.back());
    if (own == result)
      return tensor;
    if (spread != fine)
      tensor =
          builder_.call("aten.expand.default", {reshaped(tensor, fine), sizes_argument(spread)});
    return reshaped(tensor, result);
  }

private:
  Rewrite &rewrite_;
  GraphBuilder &builder_;
  const Frames &frames_;
  const Plan &plan_;
  Argument added_, visible_; // None: there is none
  bool is_low_ = false;      // what hides is a finite number
  bool is_computed_ = false; // it is written anyway

  Argument reshaped(const Argument &tensor, const Sizes &sizes) {
    return builder_.call("aten.reshape.default", {tensor, sizes_argument(sizes)});
  }
  Argument full(double number) {
    return builder_.call("aten.full.default", {Arguments{}, number},
                         {{"dtype", DType::bf16}, {"device", builder_.meta(visible_).device}});
  }
  Argument choose(const Argument &shown, double number) {
    return builder_.call("aten.where.ScalarOther", {visible_, shown, number});
  }
  /// Rows of an odd number of keys start where runs do, if the mask is written anyway, or it is so
  /// much smaller than the scores that a copy of it costs little.
  Argument padded(const Argument &mask) {
    constexpr int64_t kTogether = 8;
    if (mask.is_none())
      return mask;
    const TensorMeta meta = builder_.meta(mask);
    const Expr columns = meta.layout.sizes.back();
    const Expr all = product_of(plan_.fine, 0, plan_.fine.size()) * plan_.rows * plan_.columns,
               own = symbolic::numel(meta.layout.sizes);
    if (!columns.is_integer() || columns.is_integer(1) || columns.value() % kTogether == 0 ||
        (!is_computed_ &&
         (!all.is_integer() || !own.is_integer() || all.value() < own.value() * kTogether)))
      return mask;
    const int64_t more = kTogether - columns.value() % kTogether;
    const Argument wide =
        builder_.call("aten.constant_pad_nd.default", {mask, Arguments{int64_t{0}, more}, 0.0});
    const auto last = static_cast<int64_t>(meta.layout.rank()) - 1;
    return builder_.call("aten.slice.Tensor", {wide, last, 0, columns.value()});
  }
};

/// A factor's tensor and the views of it in the new graph.
Argument rebuilt(Rewrite &rewrite, const AttentionFactor &factor) {
  Argument result = rewrite.mapped(graph::NodeRef{factor.base});
  for (const Node &view : factor.views) {
    Arguments args = {result};
    for (size_t i = 1; i < view.args.size(); ++i)
      args.push_back(rewrite.mapped(view.args[i]));
    // Without what was between, elements may lie where a view of these sizes is a copy.
    const bool is_view =
        view.target == "aten.view.default" || view.target == "aten._unsafe_view.default";
    result = rewrite.builder().call(is_view ? "aten.reshape.default" : view.target, std::move(args),
                                    view.kwargs);
  }
  return result;
}
Argument in_sizes(GraphBuilder &builder, const Argument &x, const Sizes &sizes) {
  return builder.meta(x).layout.sizes == sizes
             ? x
             : builder.call("aten.reshape.default", {x, sizes_argument(sizes)});
}
/// The view, or where there is none the base, that gives a factor's elements in their order.
const Node &last_of(const Graph &source, const AttentionFactor &factor) {
  return factor.views.empty() ? source.node(factor.base) : factor.views.back();
}
const Sizes &sizes_of(const Node &node) { return node.value->tensor()->layout.sizes; }
void take_last(AttentionFactor &factor, const Node &last) {
  if (factor.views.empty())
    factor.base = last.args[0].node()->id;
  else
    factor.views.pop_back();
}
/// A factor without what only writes its elements in their order, as products of three dimensions
/// want it of the heads of a projection: the kernel reads them where they lie. What is computed is
/// written once anyway, and stays as it is.
AttentionFactor uncopied(const Graph &source, const AttentionFactor &factor) {
  AttentionFactor result = factor;
  const auto keeps_order = [&](const Node &node) {
    if (node.args.empty() || node.args[0].node() == nullptr)
      return false;
    return is_reshape(node) || (node.target == "aten.expand.default" &&
                                sizes_of(node) == sizes_of(source.node(node.args[0].node()->id)));
  };
  while (keeps_order(last_of(source, result))) {
    const Node last = last_of(source, result);
    take_last(result, last);
  }
  const bool is_of_base = result.base != factor.base;
  return is_of_base && !moves_elements(source.node(result.base)) ? factor : result;
}
/// A factor [leading, rows, depth]; `columns`: what the graph has is [leading, depth, rows].
Argument rows_of(Rewrite &rewrite, const AttentionFactor &given, const Sizes &sizes, bool columns) {
  GraphBuilder &builder = rewrite.builder();
  const Graph &source = rewrite.source();
  AttentionFactor factor = uncopied(source, given);
  if (!columns)
    return in_sizes(builder, rebuilt(rewrite, factor), sizes);
  Sizes turned = sizes;
  std::swap(turned[turned.size() - 2], turned.back());
  const Node last = last_of(source, factor);
  const Sizes &there = sizes_of(last);
  if (exchanges_last_two(last, there.size()) &&
      std::equal(there.end() - 2, there.end(), turned.end() - 2)) {
    take_last(factor, last);
    return in_sizes(builder, rebuilt(rewrite, factor), sizes);
  }
  return builder.call("aten.transpose.int",
                      {in_sizes(builder, rebuilt(rewrite, factor), turned), -2, -1});
}

/// Attention whose scores are capped, of [batch, heads, rows, depth] each: a function at the
/// scores.
Argument capped(GraphBuilder &builder, const AttentionMatch &match, MaskBuilder &masks,
                Arguments factors) {
  const TensorMeta query = builder.meta(factors[0]);
  Sizes scores = query.layout.sizes;
  scores[3] = builder.meta(factors[1]).layout.sizes[2];
  Argument score = builder.call(kScoreOperand, {0, sizes_argument(scores)},
                                {{"dtype", DType::f32}, {"device", query.device}});
  score = builder.call("aten.tanh.default", {score});
  score = builder.call("aten.mul.Tensor", {score, *match.cap});
  const MaskBuilder::AtScores at = masks.at_scores(score);
  for (Argument argument : {at.scores, at.seen, Argument(Arguments{}),
                            Argument(Arguments{int64_t{0}, int64_t{0}}), Argument(match.scale)})
    factors.push_back(std::move(argument));
  return builder.call(kFusedFlexAttention, std::move(factors));
}

/// The operator that stands for a match, in the sizes of its second product.
Argument attention(Rewrite &rewrite, const AttentionMatch &match, const Plan &plan) {
  GraphBuilder &builder = rewrite.builder();
  const Frames frames(builder.ranges());
  Sizes heads = plan.merged(), key_heads = heads;
  if (plan.grouped)
    key_heads.back() = plan.fine[plan.fine.size() - 2];
  if (heads.empty())
    heads = key_heads = {Expr(1)};
  if (match.cap && heads.size() == 1) { // that kernel has batches and heads
    heads.insert(heads.begin(), Expr(1));
    key_heads.insert(key_heads.begin(), Expr(1));
  }
  const auto rows = [&](const AttentionFactor &factor, const Sizes &batch, Expr count,
                        bool columns) {
    return rows_of(rewrite, factor, joined(batch, count, plan.depth), columns);
  };
  Argument query = rows(match.query, heads, plan.rows, false);
  const Argument key = rows(match.key, key_heads, plan.columns, true),
                 value = rows(match.value, key_heads, plan.columns, false);
  MaskBuilder masks(rewrite, frames, plan);
  for (const ScoreChange &change : match.changes) {
    if (change.kind != Kind::scale) {
      masks.add(change);
      continue;
    }
    query = builder.call(change.inverted ? "aten.div.Tensor" : "aten.mul.Tensor",
                         {query, masks.in_plan(change)});
    if (builder.meta(query).dtype != match.query.dtype)
      query = builder.call("prims.convert_element_type.default", {query, match.query.dtype});
  }
  Argument result = match.cap
                        ? capped(builder, match, masks, {query, key, value})
                        : builder.emit("aten.scaled_dot_product_attention.default",
                                       {query, key, value, masks.finish(), 0.0, false},
                                       {{"scale", match.scale}, {"enable_gqa", plan.grouped}});
  result = in_sizes(builder, result, match.result);
  if (match.dtype != match.query.dtype)
    result = builder.call("prims.convert_element_type.default", {result, match.dtype});
  return result;
}

/// Factors come from where their leading dimensions are those of the plan, if that is before copies
/// that make one of them.
void find_unmerged(const AttentionPattern &pattern, const Plan &plan, AttentionMatch &match) {
  const Sizes heads = plan.merged();
  const auto find = [&](AttentionFactor &factor, Expr rows, Expr columns) {
    const NodeId base = factor.base;
    if (factor.views.empty() && !plan.grouped)
      factor.base = pattern.before_merging(base, joined(heads, rows, columns));
    if (factor.views.empty() && !plan.grouped && factor.base == base)
      factor.base = pattern.before_merging(base, joined(plan.fine, rows, columns));
    factor.base_rank = pattern.rank_of(factor.base);
  };
  find(match.query, plan.rows, plan.depth);
  find(match.key, plan.depth, plan.columns);
  find(match.value, plan.columns, plan.depth);
}

/// Whether the kernel with functions at the scores takes the sizes.
bool fits_cap(const Plan &plan) {
  Sizes query = plan.merged();
  if (query.size() > 2)
    return false;
  query.insert(query.begin(), 2 - query.size(), Expr(1));
  return fits_flex_kernel(joined(query, plan.rows, plan.depth), plan.columns);
}

/// What the work is, where sizes that a run decides are taken to be large.
bool pays(const PassOptions &options, const AttentionMatch &match, const Plan &plan) {
  const bool floats = match.query.dtype == DType::f32;
  if (floats ? !options.float_attention_pays : !options.attention_pays)
    return !floats;
  constexpr int64_t kGuess = 1024;
  const auto known = [](Expr size) { return size.is_integer() ? size.value() : kGuess; };
  const Sizes heads = plan.merged();
  AttentionWork work;
  work.batches = known(product_of(heads, 0, heads.empty() ? 0 : heads.size() - 1));
  work.heads = work.key_heads = heads.empty() ? 1 : known(heads.back());
  if (plan.grouped)
    work.key_heads = known(plan.fine[plan.fine.size() - 2]);
  work.queries = known(plan.rows);
  work.keys = known(plan.columns);
  work.depth = plan.depth.value();
  work.changes = static_cast<int64_t>(match.changes.size());
  work.in_floats = match.dtype == DType::f32;
  if (floats)
    return options.float_attention_pays({work.batches, work.heads, work.key_heads, work.queries,
                                         work.keys, static_cast<int>(work.depth)},
                                        false);
  return options.attention_pays(work);
}

/// Products and sums that stand in one operator become operators of their own.
Graph without_einsum(Graph graph) {
  constexpr std::string_view kEinsum = "aten.einsum.default";
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(),
                   [&](const Node &node) { return node.target == kEinsum; }))
    return graph;
  Rewrite rewrite(std::move(graph));
  for (NodeId id = 0; id < rewrite.source().nodes.size(); ++id) {
    if (rewrite.source().node(id).target != kEinsum) {
      rewrite.copy(id);
      continue;
    }
    const Node node = rewrite.take_mapped(id);
    rewrite.builder().set_source(node);
    const Operator &row = *find_operator(node.target);
    rewrite.replace(id, row.decompose(rewrite.builder(), rewrite.call(node, row)));
  }
  return rewrite.take();
}

} // namespace

graph::Graph match_attention(graph::Graph graph, const PassOptions &options) {
  const auto is_softmax = [](const Node &node) {
    return node.target == "aten._softmax.default" || node.target == "aten.softmax.int" ||
           node.target == "aten._safe_softmax.default" || node.target == "aten.amax.default";
  };
  if (options.fused_attention == 0 ||
      std::none_of(graph.nodes.begin(), graph.nodes.end(), is_softmax))
    return graph;
  graph = without_einsum(std::move(graph));
  std::map<NodeId, std::pair<AttentionMatch, Plan>> matches;
  {
    const symbolic::Ranges ranges = graph.ranges();
    const AttentionPattern pattern(graph);
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
      std::optional<AttentionMatch> match = pattern.match(id);
      if (!match)
        continue;
      const bool floats = match->query.dtype == DType::f32;
      const std::optional<Plan> plan =
          Planner(graph, ranges, *match).plan(floats ? tc_float_depth : options.fused_attention);
      if (!plan || (match->cap && (floats || !fits_cap(*plan))) || !pays(options, *match, *plan))
        continue;
      find_unmerged(pattern, *plan, *match);
      matches.emplace(id, std::pair(std::move(*match), *plan));
    }
  }
  if (matches.empty())
    return graph;
  Rewrite rewrite(std::move(graph));
  for (NodeId id = 0; id < rewrite.source().nodes.size(); ++id) {
    const auto match = matches.find(id);
    if (match == matches.end()) {
      rewrite.copy(id);
      continue;
    }
    const Node node = rewrite.take_mapped(id);
    rewrite.builder().set_source(node);
    if (options.choices)
      options.choices->push_back(node.name +
                                 ": a softmax between two products, taken as attention" +
                                 (match->second.first.cap ? " of capped scores" : ""));
    rewrite.replace(id, attention(rewrite, match->second.first, match->second.second));
  }
  return rewrite.take();
}

} // namespace tsc::ops
