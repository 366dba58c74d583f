#include "ops/passes/write_through.h"

#include "ops/table/source_line.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <array>

namespace tsc::ops {

using graph::NodeId;
using graph::NodeRef;

namespace {

[[noreturn]] void refuse(const Call &call, std::string code, std::string message,
                         std::string next_step) {
  throw support::UserError(support::ExitCode::unsupported,
                           support::Diagnostic{std::move(code), std::move(message), "", "",
                                               call.node().name, source_line(call.node()),
                                               std::move(next_step)});
}

bool same_elements(const TensorMeta &a, const TensorMeta &b) {
  return a.dtype == b.dtype && a.layout == b.layout;
}

Argument inverse_order(const Node &permute, size_t rank) {
  std::vector<size_t> order(rank);
  const Arguments &dims = *permute.args.at(1).list();
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t dim = std::get<int64_t>(dims[i].value);
    order[static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(rank) : dim)] = i;
  }
  return ints_argument(order);
}

/// Views that only rename elements: what is stored through them, seen from the other side.
std::optional<Argument> renamed_back(GraphBuilder &builder, const Node &view,
                                     const TensorMeta &base, const TensorMeta &seen,
                                     const Argument &value) {
  const std::string &target = view.target;
  if (target == "aten.permute.default")
    return builder.call("aten.permute.default", {value, inverse_order(view, base.layout.rank())});
  if (target == "aten._conj.default" || target == "aten._neg_view.default")
    return builder.call(target, {value});
  if (target == "aten.view_as_real.default") {
    const Argument parts = builder.call("aten.clone.default", {value},
                                        {{"memory_format", graph::MemoryFormat::contiguous}});
    return builder.call("aten.view_as_complex.default", {parts});
  }
  if (target == "aten.view_as_complex.default")
    return builder.call("aten.view_as_real.default", {value});
  if (target == "aten.view.dtype")
    return builder.call("aten.view.dtype", {value, base.dtype});
  const bool one_to_one = target == "aten.expand.default" &&
                          symbolic::numel(seen.layout.sizes) == symbolic::numel(base.layout.sizes);
  if (one_to_one || target == "aten.view.default" || target == "aten.unsqueeze.default" ||
      target == "aten.squeeze.dims")
    return builder.call("aten.reshape.default", {value, sizes_argument(base.layout.sizes)});
  return std::nullopt;
}

/// The operator that stores into the part that such a view sees: (base, value, the view's other
/// arguments).
std::string_view region_operator(std::string_view view) {
  if (view == "aten.slice.Tensor")
    return "aten.slice_scatter.default";
  if (view == "aten.select.int")
    return "aten.select_scatter.default";
  if (view == "aten.diagonal.default")
    return "aten.diagonal_scatter.default";
  if (view == "aten.as_strided.default")
    return "aten.as_strided_scatter.default";
  if (view == "aten.unfold.default")
    return "tsc.unfold_scatter.default";
  return "";
}

/// The operators that PyTorch lets write to an expanded tensor.
bool writes_to_expanded(std::string_view target) {
  static constexpr std::array<std::string_view, 3> kOperators = {
      "aten.index_put_.", "aten.masked_fill_.", "aten.index_fill_."};
  return std::any_of(kOperators.begin(), kOperators.end(),
                     [&](std::string_view name) { return target.substr(0, name.size()) == name; });
}

/// Where the bits of `written` are not those of `before`.
Argument changed(GraphBuilder &builder, const Argument &written, const Argument &before) {
  const Argument differs = builder.call("aten.ne.Tensor", {written, before});
  if (!tensor::is_floating(builder.meta(written).dtype))
    return differs;
  const auto both = [&](std::string_view test, std::string_view join) {
    return builder.call(join, {builder.call(test, {written}), builder.call(test, {before})});
  };
  const Argument number = builder.call("aten.logical_not.default",
                                       {both("aten.isnan.default", "aten.logical_and.default")});
  return builder.call("aten.logical_or.default",
                      {builder.call("aten.logical_and.default", {differs, number}),
                       both("aten.signbit.default", "aten.logical_xor.default")});
}

/// Several elements of an expanded tensor are one of its base: of those that a write changes, the
/// last one stays.
Argument write_to_expanded(GraphBuilder &builder, const TensorMeta &base, const TensorMeta &seen,
                           NodeId before, const Argument &written) {
  const std::vector<Expr> &sizes = seen.layout.sizes, &own = base.layout.sizes;
  if (symbolic::numel(sizes).is_integer(0))
    return NodeRef{before};
  const size_t added = sizes.size() - own.size();
  std::vector<size_t> order, repeated;
  std::vector<Expr> rows;
  Expr count(1);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i < added || (own[i - added].is_integer(1) && !sizes[i].is_integer(1))) {
      repeated.push_back(i);
      count = count * sizes[i];
    } else {
      order.push_back(i);
      rows.push_back(sizes[i]);
    }
  }
  order.insert(order.end(), repeated.begin(), repeated.end());
  rows.push_back(count);
  const auto in_rows = [&](const Argument &x) { // the elements that are one, in a last dimension
    const Argument ordered = builder.call("aten.permute.default", {x, ints_argument(order)});
    return builder.call("aten.reshape.default", {ordered, sizes_argument(rows)});
  };
  const auto in_base = [&](const Argument &x) {
    return builder.call("aten.reshape.default", {x, sizes_argument(own)});
  };
  const Argument expanded =
      builder.call("aten.expand.default", {NodeRef{before}, sizes_argument(sizes)});
  const Argument places = builder.call("prims.iota.default", {size_argument(count)},
                                       {{"start", 1},
                                        {"step", 1},
                                        {"dtype", DType::i64},
                                        {"device", base.device},
                                        {"requires_grad", false}});
  const Argument scores =
      builder.call("aten.where.self", {in_rows(changed(builder, written, expanded)), places, 0});
  const Argument last = builder.call("aten.amax.default", {scores, Arguments{-1}, true});
  const Argument position =
      builder.call("aten.maximum.default", {builder.call("aten.sub.Tensor", {last, 1}), 0});
  const Argument chosen = builder.call("aten.gather.default", {in_rows(written), -1, position});
  return builder.call("aten.where.self", {in_base(builder.call("aten.gt.Scalar", {last, 0})),
                                          in_base(chosen), NodeRef{before}});
}

} // namespace

bool repeats_elements(const WrittenView &through) {
  return through.view.target == "aten.expand.default" &&
         symbolic::numel(through.seen.layout.sizes) != symbolic::numel(through.base.layout.sizes);
}

NodeId write_through(GraphBuilder &builder, const WrittenView &through, NodeId before,
                     NodeId written, const Call &call) {
  const Node &view = through.view;
  const TensorMeta &base = through.base, &seen = through.seen;
  const bool changes_sign =
      view.target == "aten._conj.default" || view.target == "aten._neg_view.default";
  if (same_elements(base, seen) && !changes_sign)
    return written; // x[:]
  const Argument value = NodeRef{written};
  if (const std::optional<Argument> result = renamed_back(builder, view, base, seen, value))
    return result->node()->id;
  if (const std::string_view target = region_operator(view.target); !target.empty()) {
    const Call bound(builder.graph(), view, find_operator(view.target)->schema);
    Arguments args = {NodeRef{before}, value};
    for (size_t i = 1; i < bound.schema().parameters.size(); ++i)
      args.push_back(bound[bound.schema().parameters[i].name]);
    return builder.call(target, args).node()->id;
  }
  if (view.target == "aten.expand.default" && writes_to_expanded(call.node().target))
    return write_to_expanded(builder, base, seen, before, value).node()->id;
  if (view.target == "aten.expand.default")
    refuse(call, "TSC-O072",
           call.node().target + " writes through aten.expand.default: several elements are one in "
                                "memory",
           "clone() the expanded tensor before writing to it");
  throw support::InternalError("functionalize", call.node().name,
                               "nothing is known of writes through " + view.target);
}

} // namespace tsc::ops
