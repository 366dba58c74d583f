// Backward forms of scaled dot product attention. The weights are computed again from the scores
// and the logarithms of their sums, which the forward pass saved; in f32 or wider but for the
// operands of products. Two kernels do it where they can (templates/attention), else products.
#include "ops/families/attention.h"
#include "ops/families/attention_dropout.h"
#include "ops/families/draws.h"
#include "ops/table/memory_format.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "ops/table/term.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

std::optional<std::string_view> mask_of(const Call &call) {
  for (const std::string_view name : {"attn_mask", "attn_bias"})
    if (has_parameter(call, name) && call.has(name))
      return name;
  return std::nullopt;
}

/// query [B, H, L, E], key [B, H / G, S, E], value [B, H / G, S, V].
struct Shapes {
  Expr batch, heads, key_heads, group, rows, columns, depth, value_depth;
};
Shapes shapes_of(const Call &call) {
  const Sizes &q = call.tensor("query").layout.sizes, &k = call.tensor("key").layout.sizes,
              &v = call.tensor("value").layout.sizes;
  const auto wrong = [&] {
    call.fail("TSC-O042",
              call.node().target + ": query " + print_sizes(q) + ", key " + print_sizes(k) +
                  ", value " + print_sizes(v),
              "pass [batch, heads, length, depth], the query's heads a multiple of the key's");
  };
  if (q.size() != 4 || k.size() != 4 || v.size() != 4)
    wrong();
  Shapes s{q[0], q[1], k[1], Expr(1), q[2], k[2], q[3], v[3]};
  s.group = symbolic::simplify(symbolic::floor_div(s.heads, s.key_heads), call.ranges());
  const auto same = [&](Expr a, Expr b) { return may_equal(a, b, call.ranges()); };
  if (s.key_heads.is_integer(0) || !same(q[0], k[0]) || !same(q[0], v[0]) || !same(q[3], k[3]) ||
      !same(k[1], v[1]) || !same(k[2], v[2]) || !same(s.group * s.key_heads, s.heads))
    wrong();
  return s;
}

class Backward {
public:
  Backward(GraphBuilder &builder, const Call &call)
      : builder_(builder), call_(call), shapes_(shapes_of(call)),
        dtype_(call.tensor("query").dtype), dropped_(call.number("dropout_p")) {
    check_probability(call, dropped_);
    if (dropped_ != 0)
      dropout_state_ = given_dropout_state(builder, call);
  }

  /// (of the query, of the key, of the value, of the mask), as `wanted` says.
  Arguments compute(const std::vector<bool> &wanted) const {
    const Shapes &s = shapes_;
    const Expr all_rows = s.group * s.rows;
    const Term query = of_heads(given(builder_, call_, "query"), all_rows, s.depth);
    const Term key = of_heads(given(builder_, call_, "key"), s.columns, s.depth);
    const Term value = of_heads(given(builder_, call_, "value"), s.columns, s.value_depth);
    const std::string_view name = call_.schema().parameters[0].name;
    const Term above = of_heads(given(builder_, call_, name), all_rows, s.value_depth);
    const Term weights = weights_of(query, key);
    Arguments results(wanted.size());
    if (wanted[2])
      results[2] = like(product(turned(narrow(dropped(weights))), above), "value");
    if (!wanted[0] && !wanted[1] && (wanted.size() < 4 || !wanted[3]))
      return results;
    const Term out = of_heads(given(builder_, call_, "out"), all_rows, s.value_depth);
    const Term share =
        reshaped(sum(above.wide() * out.wide(), {2}, true), {s.batch, s.heads, s.rows, Expr(1)});
    const Term passed = weights * (dropped(by_heads(wide_product(above, turned(value)))) - share);
    if (wanted.size() > 3 && wanted[3])
      results[3] = of_mask(passed);
    const Term scores = narrow(passed * scale());
    if (wanted[0])
      results[0] = like(product(scores, key), "query");
    if (wanted[1])
      results[1] = like(product(turned(scores), query), "key");
    return results;
  }

  /// The same by kernels of ours: nothing of the size of the scores is ever stored.
  Arguments compute_in_kernels(const std::vector<bool> &wanted) const {
    const Shapes &s = shapes_;
    if (fits_groups(wanted))
      return compute_by_groups(wanted.size());
    const Sizes rows = {s.batch, s.heads, s.rows};
    const Term above = given(builder_, call_, call_.schema().parameters[0].name);
    const Term out = given(builder_, call_, "out");
    const Argument share = sum(above.wide() * out.wide(), {3}, false).value();
    const Argument sums = reshaped(log_sums(), rows).value();
    const std::optional<std::string_view> mask = mask_of(call_);
    Arguments operands = {above.value(),
                          call_["query"],
                          call_["key"],
                          call_["value"],
                          sums,
                          share,
                          mask ? call_[*mask] : Argument(graph::None{}),
                          call_["is_causal"],
                          scale()};
    Arguments results(wanted.size());
    if (wanted[0]) {
      Arguments own = operands;
      own.push_back(ints_argument(order_of("query")));
      results[0] = unordered(builder_.call("tsc.attention_query_gradient.default", own), "query");
    }
    if (wanted[1] || wanted[2]) {
      operands.push_back(ints_argument(order_of("key")));
      operands.push_back(ints_argument(order_of("value")));
      const Argument both = builder_.call("tsc.attention_key_gradients.default", operands);
      results[1] = unordered(builder_.item(both, 0), "key");
      results[2] = unordered(builder_.item(both, 1), "value");
    }
    return results;
  }
  /// Whether they can: 16-bit floats of whole words, sizes that a grid holds, a number for the
  /// scale, nothing asked of the mask.
  bool fits_kernels(const std::vector<bool> &wanted) const {
    constexpr int64_t kFewRows = 16, kMostBlocks = 65535;
    const std::optional<std::string_view> name = mask_of(call_);
    const TensorMeta *mask = name ? &call_.tensor(*name) : nullptr;
    const std::optional<int64_t> depth = shapes_.depth.as_integer();
    const auto few = [](Expr size, int64_t most) {
      return size.is_integer() && size.value() <= most;
    };
    const auto grid_holds = [&](Expr size) { return !size.is_integer() || few(size, kMostBlocks); };
    bool typed = dtype_ == DType::f16 || dtype_ == DType::bf16;
    for (const std::string_view parameter : {std::string_view(call_.schema().parameters[0].name),
                                             std::string_view("key"), std::string_view("value")})
      typed = typed && call_.tensor(parameter).dtype == dtype_;
    const bool masked_well =
        !mask ||
        (mask->layout.rank() <= 4 && (mask->dtype == DType::boolean || mask->dtype == DType::f16 ||
                                      mask->dtype == DType::bf16 || mask->dtype == DType::f32));
    return dropped_ == 0 && typed && masked_well && depth && *depth % 8 == 0 && *depth >= 8 &&
           *depth <= builder_.facilities().attention_backward &&
           shapes_.value_depth == shapes_.depth && !(wanted.size() > 3 && wanted[3]) &&
           !few(shapes_.rows, kFewRows) && !few(shapes_.columns, 0) && !few(shapes_.batch, 0) &&
           !few(shapes_.heads, 0) && grid_holds(shapes_.batch) && grid_holds(shapes_.heads) &&
           call_.tensor("query").layout.sizes[0] == call_.tensor("key").layout.sizes[0] &&
           !scale().node() && order_of("query").back() == 3 && order_of("key").back() == 3 &&
           order_of("value").back() == 3;
  }

private:
  GraphBuilder &builder_;
  const Call &call_;
  Shapes shapes_;
  DType dtype_;
  double dropped_; // the share of the weights that the forward pass dropped
  Argument dropout_state_;

  /// Whether one kernel finds all of it, by wgmma and bulk copies: of queries and of something
  /// else, without a mask, of sizes that are not 0.
  bool fits_groups(const std::vector<bool> &wanted) const {
    const auto some = [&](Expr size) { return symbolic::bounds(size, call_.ranges()).low >= 1; };
    return builder_.facilities().attention_backward_groups && !mask_of(call_) && wanted[0] &&
           (wanted[1] || wanted[2]) && some(shapes_.heads) && some(shapes_.key_heads) &&
           some(shapes_.rows) && some(shapes_.columns);
  }
  /// What comes to queries is added up in memory that the first kernel clears. It reads all
  /// operands of the second one, so that no other call has the same memory.
  Arguments compute_by_groups(size_t count) const {
    const Sizes rows = {shapes_.batch, shapes_.heads, shapes_.rows};
    const Argument above = given(builder_, call_, call_.schema().parameters[0].name).value();
    const Arguments operands = {above, call_["query"], call_["key"], call_["value"]};
    const auto with = [&](Arguments list, const Arguments &more) {
      list.insert(list.end(), more.begin(), more.end());
      return list;
    };
    const Argument causal = call_["is_causal"];
    const Argument start =
        builder_.call("tsc.attention_gradients_start.default",
                      with(operands, {given(builder_, call_, "out").value(),
                                      reshaped(log_sums(), rows).value(), causal, scale()}));
    const Arguments all =
        with(operands, {builder_.item(start, 0), builder_.item(start, 1), builder_.item(start, 2)});
    const Argument both = builder_.call("tsc.attention_gathered_keys.default",
                                        with(all, {causal, scale(), ints_argument(order_of("key")),
                                                   ints_argument(order_of("value"))}));
    const Argument of_key = builder_.item(both, 0);
    Arguments results(count);
    results[0] = unordered(
        builder_.call("tsc.attention_gathered_queries.default",
                      with(all, {of_key, causal, scale(), ints_argument(order_of("query"))})),
        "query");
    results[1] = unordered(of_key, "key");
    results[2] = unordered(builder_.item(both, 1), "value");
    return results;
  }

  /// Dimensions of the gradient of `parameter` as PyTorch lays them out, outermost first.
  std::vector<size_t> order_of(std::string_view parameter) const {
    return tensor::stride_order(preserved_strides(call_.tensor(parameter).layout, call_.ranges()));
  }
  /// What lies in that order, in the order of `parameter`.
  Argument unordered(const Argument &x, std::string_view parameter) const {
    const std::vector<size_t> order = order_of(parameter);
    std::vector<size_t> inverse(order.size());
    for (size_t i = 0; i < order.size(); ++i)
      inverse[order[i]] = i;
    return permuted(Term(builder_, x), inverse).value();
  }

  static Term product(const Term &a, const Term &b) {
    return a.then("aten.bmm.default", {b.value()});
  }
  /// In f32 or wider: scores that were rounded to 16 bits would move the weights by as much as they
  /// are large.
  static Term wide_product(const Term &a, const Term &b) {
    const DType dtype = a.meta().dtype;
    if (dtype == b.meta().dtype && tensor::is_reduced_float(dtype))
      return a.then("aten.bmm.dtype", {b.value(), DType::f32});
    return product(a.wide(), b.wide());
  }
  static Term turned(const Term &x) { return permuted(x, {0, 2, 1}); }
  /// [B, H, L, ..] as [B * H / G, G * L, ..].
  Term of_heads(const Term &x, Expr rows, Expr columns) const {
    return reshaped(x, {shapes_.batch * shapes_.key_heads, rows, columns});
  }
  /// [B * H / G, G * L, S] as [B, H, L, S].
  Term by_heads(const Term &x) const {
    return reshaped(x, {shapes_.batch, shapes_.heads, shapes_.rows, shapes_.columns});
  }
  /// [B, H, L, S] where the forward pass dropped weights: 0, or multiplied as what stayed was.
  Term dropped(const Term &x) const {
    return dropped_ == 0
               ? x
               : Term(builder_, dropped_weights(builder_, x.value(), dropout_state_, dropped_));
  }
  /// [B, H, L, S] as an operand of products.
  Term narrow(const Term &x) const {
    return of_heads({builder_, x.as(dtype_)}, shapes_.group * shapes_.rows, shapes_.columns);
  }
  /// A result in the sizes of `parameter`, and in its order, as PyTorch leaves it.
  Argument like(const Term &x, std::string_view parameter) const {
    const TensorMeta &meta = call_.tensor(parameter);
    const Sizes strides = preserved_strides(meta.layout, call_.ranges());
    return in_layout(builder_, reshaped(x, meta.layout.sizes).as(meta.dtype),
                     {meta.layout.sizes, strides, Expr(0)});
  }

  Argument scale() const {
    if (call_.has("scale"))
      return call_["scale"];
    if (shapes_.depth.is_integer())
      return 1 / std::sqrt(static_cast<double>(shapes_.depth.value()));
    return filled(builder_, {}, size_argument(shapes_.depth), accumulation_dtype(dtype_),
                  call_.tensor("query").device)
        .then("aten.rsqrt.default")
        .value();
  }

  /// [B, H, L, 1] of what kernels save as [B, H, L], [B, H, L, 1] or with rows that fill it up.
  Term log_sums() const {
    Term saved = wide(builder_, call_, "logsumexp");
    const Sizes sizes = saved.meta().layout.sizes;
    if (sizes.size() == 4)
      saved = saved.then("aten.squeeze.dims", {Argument(Arguments{3})});
    const Sizes expected = {shapes_.batch, shapes_.heads};
    const bool fits = (sizes.size() == 3 || (sizes.size() == 4 && sizes[3].is_integer(1))) &&
                      std::equal(expected.begin(), expected.end(), sizes.begin(),
                                 [&](Expr a, Expr b) { return may_equal(a, b, call_.ranges()); }) &&
                      !(sizes[2].is_integer() && shapes_.rows.is_integer() &&
                        sizes[2].value() < shapes_.rows.value());
    if (!fits)
      call_.fail("TSC-O129",
                 call_.node().target + ": 'logsumexp' of sizes " + print_sizes(sizes) +
                     " is not what the forward pass of " +
                     print_sizes({shapes_.batch, shapes_.heads, shapes_.rows}) + " rows saves",
                 "keep the forward operator as it is when decomposing: its decomposition yields "
                 "the weights instead");
    if (sizes[2] != shapes_.rows)
      saved = saved.then("aten.slice.Tensor", {2, 0, size_argument(shapes_.rows)});
    return reshaped(saved, {shapes_.batch, shapes_.heads, shapes_.rows, Expr(1)});
  }

  /// exp(scores - their logarithmic sum): 0 where the mask hides a column, or a whole row.
  Term weights_of(const Term &query, const Term &key) const {
    Term scores = by_heads(wide_product(query, turned(key))) * scale();
    const Term sums = log_sums();
    std::optional<Term> hidden;
    if (call_.boolean("is_causal")) {
      const tensor::Device device = call_.tensor("query").device;
      const Term rows = counting(builder_, shapes_.rows, device);
      hidden =
          counting(builder_, shapes_.columns, device) > rows.then("aten.unsqueeze.default", {-1});
    }
    if (const std::optional<std::string_view> name = mask_of(call_)) {
      const Term mask = given(builder_, call_, *name);
      if (mask.meta().dtype != DType::boolean)
        scores = scores + mask;
      const Term closed = mask.meta().dtype == DType::boolean
                              ? mask.then("aten.logical_not.default")
                              : equal(sums, -INFINITY);
      hidden = hidden ? either(*hidden, closed) : closed;
    }
    Term weights = exp(scores - sums);
    if (dropped_ != 0) // of a mask that cannot be drawn again nothing is known
      weights = where({builder_, is_own_dropout_state(builder_, dropout_state_)}, weights, NAN);
    return hidden ? where(*hidden, 0.0, weights) : weights;
  }

  /// What came to the scores, added up where the mask was broadcast.
  Argument of_mask(const Term &passed) const {
    const std::optional<std::string_view> name = mask_of(call_);
    if (!name)
      return graph::None{};
    const TensorMeta &mask = call_.tensor(*name);
    return passed.then("aten.sum_to_size.default", {sizes_argument(mask.layout.sizes)})
        .as(mask.dtype);
  }
};

Argument of_attention(GraphBuilder &builder, const Call &call) {
  std::vector<bool> wanted(call.schema().returns.size(), true);
  if (has_parameter(call, "grad_input_mask")) {
    const Arguments *mask = call["grad_input_mask"].list();
    for (size_t i = 0; mask && i < mask->size() && i < wanted.size(); ++i)
      wanted[i] = (*mask)[i] == Argument(true);
  }
  const Backward backward(builder, call);
  return backward.fits_kernels(wanted) ? backward.compute_in_kernels(wanted)
                                       : backward.compute(wanted);
}

/// The gradient of `parameter`, its dimensions in `order`.
graph::Value gradient_value(const Call &call, std::string_view parameter, std::string_view order) {
  const TensorMeta &meta = call.tensor(parameter);
  Sizes sizes;
  for (const int64_t dimension : call.integers(order))
    sizes.push_back(meta.layout.sizes.at(static_cast<size_t>(dimension)));
  return contiguous_value(meta.dtype, sizes, meta.device);
}

/// The same where what comes to queries is added up in memory: what is cleared and filled up first,
/// the kernel, and what rounds the sums, `after` it.
void add_group_kernels(Table &table) {
  const std::string operands = "(Tensor above, Tensor query, Tensor key, Tensor value, ",
                    saved = "Tensor sums, Tensor share, Tensor gathered, ",
                    how = "bool is_causal, float scale";
  table
      .add(keep_text("tsc::attention_gradients_start" + operands + "Tensor out, Tensor sums, " +
                     how + ") -> (Tensor sums, Tensor share, Tensor gathered)"))
      .shape([](const Call &call) {
        const TensorMeta &query = call.tensor("query");
        Sizes sizes = query.layout.sizes;
        // Filled up to whole steps; lowering holds it against the kernel's geometry.
        sizes[2] = symbolic::ceil_div(sizes[2], Expr(128)) * Expr(128);
        sizes[3] = Expr((sizes[3].value() + 63) / 64 * 64);
        const Sizes rows(sizes.begin(), sizes.begin() + 3);
        return graph::Value{graph::Value::List{contiguous_value(DType::f32, rows, query.device),
                                               contiguous_value(DType::f32, rows, query.device),
                                               contiguous_value(DType::f32, sizes, query.device)}};
      })
      .lowers("attention_gradients_start");
  table
      .add(keep_text("tsc::attention_gathered_keys" + operands + saved + how +
                     ", int[] key_order, int[] value_order) -> (Tensor of_key, Tensor of_value)"))
      .shape([](const Call &call) {
        return graph::Value{graph::Value::List{gradient_value(call, "key", "key_order"),
                                               gradient_value(call, "value", "value_order")}};
      })
      .lowers("attention_gathered_keys");
  table
      .add(keep_text("tsc::attention_gathered_queries" + operands + saved + "Tensor after, " + how +
                     ", int[] query_order) -> Tensor"))
      .shape([](const Call &call) { return gradient_value(call, "query", "query_order"); })
      .lowers("attention_gathered_queries");
}

void add_kernels(Table &table) {
  const std::string operands =
      "(Tensor above, Tensor query, Tensor key, Tensor value, Tensor sums, Tensor share, Tensor? "
      "mask, bool is_causal, float scale, ";
  table.add(keep_text("tsc::attention_query_gradient" + operands + "int[] query_order) -> Tensor"))
      .shape([](const Call &call) { return gradient_value(call, "query", "query_order"); })
      .lowers("attention_query_gradient");
  table
      .add(keep_text("tsc::attention_key_gradients" + operands +
                     "int[] key_order, int[] value_order) -> (Tensor of_key, Tensor of_value)"))
      .shape([](const Call &call) {
        return graph::Value{graph::Value::List{gradient_value(call, "key", "key_order"),
                                               gradient_value(call, "value", "value_order")}};
      })
      .lowers("attention_key_gradients");
  add_group_kernels(table);
}

} // namespace

const std::vector<std::string_view> &attention_backward_forms() {
  static const std::vector<std::string_view> forms = {
      "aten._scaled_dot_product_flash_attention_backward.default",
      "aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
      "aten._scaled_dot_product_efficient_attention_backward.default",
      "aten._scaled_dot_product_cudnn_attention_backward.default",
      "aten._scaled_dot_product_fused_attention_overrideable_backward.default"};
  return forms;
}
bool is_attention_backward(std::string_view target) {
  const std::vector<std::string_view> &forms = attention_backward_forms();
  return std::find(forms.begin(), forms.end(), target) != forms.end();
}

void add_attention_gradients(Table &table) {
  const std::string inputs = "Tensor query, Tensor key, Tensor value, ";
  const std::string saved = "Tensor out, Tensor logsumexp, ",
                    lengths = "Tensor? cum_seq_q, Tensor? cum_seq_k, SymInt max_q, SymInt max_k, ",
                    seeds = "Tensor? philox_seed, Tensor? philox_offset",
                    how = "float dropout_p, bool is_causal";
  const std::string three = "*, float? scale=None) -> (Tensor grad_query, Tensor grad_key, Tensor "
                            "grad_value)";
  const std::string four = "*, float? scale=None) -> (Tensor, Tensor, Tensor, Tensor)";
  const std::string name = "_scaled_dot_product_", above = "_backward(Tensor grad_out, ";
  const std::string forms[] = {
      name + "flash_attention" + above + inputs + saved + lengths + how + ", " + seeds + ", " +
          three,
      name + "flash_attention_for_cpu" + above + inputs + saved + how +
          ", *, Tensor? attn_mask=None, " + three.substr(3),
      name + "efficient_attention_backward(Tensor grad_out_, " + inputs + "Tensor? attn_bias, " +
          saved + seeds + ", float dropout_p, bool[4] grad_input_mask, bool is_causal=False, " +
          four,
      name + "cudnn_attention" + above + inputs + saved + seeds + ", Tensor? attn_bias, " +
          lengths + how + ", " + three,
      name + "fused_attention_overrideable" + above + inputs +
          "Tensor? attn_bias, bool[4] grad_input_mask, " + saved + lengths + how + ", " + seeds +
          ", " + four};
  for (const std::string &form : forms)
    table.add(keep_text(form)).decompose(of_attention);
  add_kernels(table);
}

} // namespace tsc::ops
