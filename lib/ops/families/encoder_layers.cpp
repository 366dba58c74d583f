// Layers of a transformer as one operator each, which torch.nn's MultiheadAttention and
// TransformerEncoderLayer call where nothing asks for gradients.
#include "ops/table/builder.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/table.h"

#include <array>
#include <utility>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

/// What self-attention takes from a call: of _native_multi_head_attention, and as
/// _transformer_encoder_layer_fwd calls it.
struct Attention {
  Argument query, key, value; // [N, L, E], [N, S, E], [N, S, E]
  Expr heads;
  Argument mask;         // true where a key is hidden, or none
  int64_t mask_type = 2; // 0: [L, S] of all, 1: [N, S] of keys, 2: broadcast to [N, heads, L, S]
  bool weights = false, average = false;
};

Argument linear(GraphBuilder &builder, const Argument &x, const Argument &weight,
                const Argument &bias) {
  return builder.call("aten.linear.default", {x, weight, bias});
}

/// Query, key and value, [N, heads, length, depth] each, of one weight [3 E, E].
std::array<Argument, 3> projected(GraphBuilder &builder, const Call &call, const Attention &a) {
  const Argument given[] = {a.query, a.key, a.value}, weight = call["qkv_weight"],
                 bias = call["qkv_bias"];
  const Expr embedded = symbolic::floor_div(builder.meta(weight).layout.sizes[0], Expr(3));
  const auto same = [](const Argument &x, const Argument &y) {
    return x.node() && y.node() && x.node()->id == y.node()->id;
  };
  const bool shared = same(a.query, a.key) && same(a.key, a.value);
  const Argument all = shared ? linear(builder, a.query, weight, bias) : Argument();
  std::array<Argument, 3> result;
  for (int64_t i = 0; i < 3; ++i) {
    const auto part = [&](const Argument &x, int64_t dimension) {
      return builder.call("aten.slice.Tensor", {x, dimension, size_argument(embedded * Expr(i)),
                                                size_argument(embedded * Expr(i + 1))});
    };
    const Argument flat =
        shared ? part(all, 2) : linear(builder, given[i], part(weight, 0), part(bias, 0));
    const Sizes sizes = builder.meta(flat).layout.sizes;
    const Sizes apart = {sizes[0], sizes[1], a.heads, symbolic::floor_div(embedded, a.heads)};
    result[static_cast<size_t>(i)] =
        builder.call("aten.permute.default",
                     {builder.call("aten.reshape.default", {flat, sizes_argument(apart)}),
                      Arguments{0, 2, 1, 3}});
  }
  return result;
}

/// The mask as attention takes it: true where a key is seen, broadcast to [N, heads, L, S].
Argument seen(GraphBuilder &builder, const Attention &a) {
  if (a.mask.is_none())
    return a.mask;
  const Argument hidden = builder.call("aten.to.dtype", {a.mask, tensor::DType::boolean});
  Argument visible = builder.call("aten.logical_not.default", {hidden});
  if (a.mask_type == 1) {
    visible = builder.call("aten.unsqueeze.default", {visible, 1});
    visible = builder.call("aten.unsqueeze.default", {visible, 1});
  }
  return visible;
}

/// (result [N, L, E], weights or none)
std::pair<Argument, Argument> attend(GraphBuilder &builder, const Call &call, const Attention &a) {
  const auto [q, k, v] = projected(builder, call, a);
  const Argument mask = seen(builder, a);
  Argument values, weights;
  if (a.weights) { // which takes what is added to the scores: 0 or -inf
    const Argument added =
        mask.is_none()
            ? mask
            : builder.call("aten.log.default", {convert(builder, mask, builder.meta(q).dtype)});
    const Argument both = builder.call("aten._scaled_dot_product_attention_math.default",
                                       {q, k, v, added, 0.0, false});
    values = builder.item(both, 0);
    weights = builder.item(both, 1);
    if (a.average)
      weights = builder.call("aten.mean.dim", {weights, Arguments{1}, false});
  } else {
    values = builder.call("aten.scaled_dot_product_attention.default", {q, k, v, mask});
  }
  const Sizes sizes = builder.meta(values).layout.sizes;
  const Argument turned = builder.call("aten.permute.default", {values, Arguments{0, 2, 1, 3}});
  const Argument flat = builder.call(
      "aten.reshape.default", {turned, sizes_argument({sizes[0], sizes[2], sizes[1] * sizes[3]})});
  return {linear(builder, flat, call["proj_weight"], call["proj_bias"]), weights};
}

int64_t mask_type_of(const Call &call) {
  return call.has("mask_type") ? call.integer("mask_type") : 2;
}

Argument native_multi_head_attention(GraphBuilder &builder, const Call &call) {
  Attention a{call["query"], call["key"], call["value"], Expr(call.integer("num_head")),
              call["mask"]};
  a.mask_type = mask_type_of(call);
  a.weights = call.boolean("need_weights");
  a.average = call.boolean("average_attn_weights");
  const auto [result, weights] = attend(builder, call, a);
  if (a.weights)
    return Arguments{result, weights};
  return Arguments{result, builder.call("aten.full.default", {Arguments{0}, 0.0},
                                        {{"dtype", builder.meta(result).dtype}})};
}

Argument encoder_layer(GraphBuilder &builder, const Call &call) {
  const bool first = call.boolean("norm_first");
  const auto norm = [&](const Argument &x, const std::string &number) {
    const Sizes last = {builder.meta(x).layout.sizes.back()};
    return builder.call("aten.layer_norm.default",
                        {x, sizes_argument(last), call["norm_weight_" + number],
                         call["norm_bias_" + number], call["eps"]});
  };
  const Argument given = call["src"], normed = first ? norm(given, "1") : given;
  Attention a{normed, normed, normed, Expr(call.integer("num_heads")), call["mask"]};
  a.mask_type = mask_type_of(call);
  Argument x = builder.call(kAdd, {attend(builder, call, a).first, given});
  x = first ? x : norm(x, "1");
  const Argument inside =
      linear(builder, first ? norm(x, "2") : x, call["ffn_weight_1"], call["ffn_bias_1"]);
  const Argument active =
      builder.call(call.boolean("use_gelu") ? "aten.gelu.default" : "aten.relu.default", {inside});
  x = builder.call(kAdd, {linear(builder, active, call["ffn_weight_2"], call["ffn_bias_2"]), x});
  return first ? x : norm(x, "2");
}

} // namespace

void add_encoder_layers(Table &table) {
  table
      .add("_native_multi_head_attention(Tensor query, Tensor key, Tensor value, int embed_dim, "
           "int num_head, Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor "
           "proj_bias, Tensor? mask=None, bool need_weights=True, bool average_attn_weights=True, "
           "int? mask_type=None) -> (Tensor, Tensor)")
      .decompose(native_multi_head_attention);
  table
      .add(
          "_transformer_encoder_layer_fwd(Tensor src, int embed_dim, int num_heads, Tensor "
          "qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, bool use_gelu, bool "
          "norm_first, float eps, Tensor norm_weight_1, Tensor norm_bias_1, Tensor norm_weight_2, "
          "Tensor norm_bias_2, Tensor ffn_weight_1, Tensor ffn_bias_1, Tensor ffn_weight_2, Tensor "
          "ffn_bias_2, Tensor? mask=None, int? mask_type=None) -> Tensor")
      .decompose(encoder_layer);
}

} // namespace tsc::ops
