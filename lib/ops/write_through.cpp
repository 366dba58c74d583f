#include "ops/write_through.h"

#include "ops/source_line.h"
#include "support/diagnostic.h"

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

} // namespace

NodeId write_through(GraphBuilder &builder, const Node &view, NodeId viewed, NodeId before,
                     NodeId written, const Call &call) {
  const TensorMeta base = *builder.graph().node(viewed).value->tensor();
  const TensorMeta seen = *view.value->tensor();
  if (same_elements(base, seen))
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
  if (view.target == "aten.expand.default")
    refuse(call, "TSC-O072",
           call.node().target + " writes through aten.expand.default: several elements are one in "
                                "memory",
           "clone() the expanded tensor before writing to it");
  throw support::InternalError("functionalize", call.node().name,
                               "nothing is known of writes through " + view.target);
}

} // namespace tsc::ops
