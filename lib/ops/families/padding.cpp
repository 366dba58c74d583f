// Padding: constants are lowered, reflections and replications are gathers.
#include "ops/families/padding.h"

#include "ops/table/memory_format.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

Value constant_pad_value(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  Sizes sizes = self.layout.sizes, pad = call.sizes("pad");
  if (pad.size() % 2 != 0 || pad.size() / 2 > sizes.size())
    call.fail("TSC-O045",
              "aten.constant_pad_nd: " + std::to_string(pad.size()) + " pads for " +
                  std::to_string(sizes.size()) + " dimensions",
              "pass (before, after) for the last dimensions");
  for (size_t i = 0; i < pad.size() / 2; ++i)
    sizes[sizes.size() - 1 - i] += pad[2 * i] + pad[2 * i + 1];
  return value_like(self, self.dtype, sizes);
}

Argument gather_pad(GraphBuilder &builder, const Call &call, std::string_view parameter,
                    Edge edge) {
  const TensorMeta self = call.tensor("self");
  Sizes pad = call.sizes(parameter);
  size_t rank = self.layout.rank();
  if (pad.size() % 2 != 0 || pad.size() / 2 > rank)
    call.fail("TSC-O045",
              call.node().target + ": " + std::to_string(pad.size()) + " pads for " +
                  std::to_string(rank) + " dimensions",
              "pass (before, after) for the last dimensions");
  Argument x = call["self"];
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    size_t dim = rank - 1 - i;
    if (pad[2 * i].is_integer(0) && pad[2 * i + 1].is_integer(0))
      continue;
    Argument positions = padded_positions(builder, self.layout.sizes[dim], pad[2 * i],
                                          pad[2 * i + 1], edge, self.device);
    x = builder.call("aten.index_select.default", {x, static_cast<int64_t>(dim), positions});
  }
  if (edge == Edge::circular)
    return x;
  const Value like = value_like(self, self.dtype, builder.meta(x).layout.sizes);
  return in_layout(builder, x, like.tensor()->layout);
}

Argument pad(GraphBuilder &builder, const Call &call) {
  std::string mode = call.string("mode").value_or("constant");
  if (mode == "reflect" || mode == "replicate" || mode == "circular")
    return gather_pad(builder, call, "pad",
                      mode == "reflect"     ? Edge::reflect
                      : mode == "replicate" ? Edge::replicate
                                            : Edge::circular);
  if (mode != "constant")
    call.refuse("TSC-O005", "aten.pad with mode '" + mode + "' is not supported",
                "use mode 'constant', 'reflect', 'replicate' or 'circular'");
  return builder.call("aten.constant_pad_nd.default",
                      {call["self"], call["pad"], call.has("value") ? call["value"] : Argument(0)});
}

/// Sequences of the longest one's length, side by side.
Argument pad_sequence(GraphBuilder &builder, const Call &call) {
  const std::vector<TensorMeta> metas = call.tensors("sequences");
  const std::string side = call.string("padding_side").value_or("right");
  if (metas.empty() || (side != "left" && side != "right"))
    call.fail("TSC-O045",
              metas.empty() ? call.node().target + " of no sequences"
                            : call.node().target + " on the side '" + side + "'",
              metas.empty() ? "pass one or more" : "use 'left' or 'right'");
  Expr longest = Expr(0);
  for (const TensorMeta &meta : metas) {
    if (meta.layout.rank() == 0)
      call.fail("TSC-O045", call.node().target + " of a tensor without dimensions",
                "pass tensors of one dimension or more");
    longest = symbolic::maximum(longest, meta.layout.sizes[0]);
  }
  longest = symbolic::simplify(longest, call.ranges());
  Arguments padded;
  for (size_t i = 0; i < metas.size(); ++i) {
    const Expr missing = longest - metas[i].layout.sizes[0];
    Sizes pad(2 * metas[i].layout.rank(), Expr(0));
    pad[pad.size() - (side == "left" ? 2 : 1)] = symbolic::simplify(missing, call.ranges());
    const Argument &sequence = call["sequences"].list()->at(i);
    padded.push_back(missing.is_integer(0)
                         ? sequence
                         : builder.call("aten.constant_pad_nd.default",
                                        {sequence, sizes_argument(pad), call["padding_value"]}));
  }
  return builder.call("aten.stack.default", {padded, call.boolean("batch_first") ? 0 : 1});
}

} // namespace

Argument padded_positions(GraphBuilder &builder, Expr size, Expr before, Expr after, Edge edge,
                          tensor::Device device) {
  Argument position = builder.call("aten.arange.start_step",
                                   {size_argument(-before), size_argument(size + after), 1},
                                   {{"dtype", DType::i64}, {"device", device}});
  if (edge == Edge::circular) {
    const Expr first = symbolic::maximum(Expr(0) - before, Expr(0));
    const Expr left = size - first - symbolic::maximum(Expr(0) - after, Expr(0));
    Argument inside = builder.call("aten.remainder.Tensor",
                                   {builder.call(kSub, {position, size_argument(first)}),
                                    size_argument(symbolic::simplify(left, builder.ranges()))});
    return builder.call(kAdd, {inside, size_argument(first)});
  }
  Argument last = size_argument(size - Expr(1));
  if (edge == Edge::replicate)
    return builder.call("aten.clamp.default", {position, 0, last});
  // |x| mirrors at the first element, last - |last - x| at the last.
  Argument mirrored = builder.call("aten.abs.default", {position});
  Argument from_end = builder.call("aten.sub.Tensor", {last, mirrored});
  Argument distance = builder.call("aten.abs.default", {from_end});
  return builder.call("aten.sub.Tensor", {last, distance});
}

void add_padding(Table &table) {
  table
      .add("pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0.0, str "
           "padding_side='right') -> Tensor")
      .decompose(contiguously(pad_sequence));
  table.add("constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor")
      .shape(constant_pad_value)
      .lowers("constant_pad_nd");
  table.add("pad(Tensor self, SymInt[] pad, str mode='constant', float? value=None) -> Tensor")
      .decompose(pad);
  table.add("_pad_circular(Tensor self, SymInt[] pad) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return gather_pad(builder, call, "pad", Edge::circular);
      });
  for (std::string_view kind : {"reflection", "replication"}) {
    Edge edge = kind == "reflection" ? Edge::reflect : Edge::replicate;
    for (std::string_view dims : {"1", "2", "3"})
      table
          .add(keep_text(std::string(kind) + "_pad" + std::string(dims) +
                         "d(Tensor self, SymInt[] padding) -> Tensor"))
          .decompose([edge](GraphBuilder &builder, const Call &call) {
            return gather_pad(builder, call, "padding", edge);
          });
  }
}

} // namespace tsc::ops
