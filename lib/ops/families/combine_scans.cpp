// The function of a scan stands in the graph beside it, over tensors of one element: every pass and
// lowering treats it as what it is, elementwise arithmetic, and the scan takes what comes of it.
#include "ops/families/combine_scans.h"

#include "ops/families/batched_graph.h"
#include "ops/table/rewrite.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <algorithm>

namespace tsc::ops {
namespace {

using graph::NodeId;
using graph::NodeKind;
using graph::NodeRef;

constexpr size_t kMostMembers = 8; // which a thread keeps in registers, several times over
constexpr std::string_view kFull = "aten.full.default";

std::vector<Expr> ones(size_t rank) { return std::vector<Expr>(rank, Expr(1)); }

/// A number, or a tensor that is one number.
bool is_number(const GraphBuilder &builder, const Argument &argument) {
  const NodeRef *node = argument.node();
  return !node || builder.graph().node(node->id).target == kFull;
}

bool are_alike(const Call &call, const GraphBuilder &builder, const Arguments &xs) {
  const TensorMeta first = builder.meta(xs[0]);
  return std::all_of(xs.begin(), xs.end(), [&](const Argument &x) {
    const TensorMeta meta = builder.meta(x);
    bool same = meta.layout.rank() == first.layout.rank() && !tensor::is_complex(meta.dtype);
    for (size_t k = 0; same && k < meta.layout.rank(); ++k)
      same = taken_equal(call, meta.layout.sizes[k], first.layout.sizes[k]);
    return same;
  });
}

/// The body's nodes over tensors with one element, which have the slices' rank: dtypes are promoted
/// by it.
class Splicer {
public:
  Splicer(GraphBuilder &builder, const Graph &body)
      : builder_(builder), body_(body), values_(body.nodes.size()) {}

  std::vector<Argument> run(const std::vector<Argument> &inputs) {
    for (NodeId id = 0; id < body_.nodes.size(); ++id) {
      const Node &node = body_.node(id);
      if (node.kind == NodeKind::placeholder)
        values_[id] = inputs.at(id);
      else if (node.kind == NodeKind::output)
        break;
      else
        values_[id] = computed(node);
    }
    std::vector<Argument> results;
    for (const graph::OutputSpec &output : body_.outputs)
      results.push_back(values_[output.value.node()->id]);
    return results;
  }

private:
  GraphBuilder &builder_;
  const Graph &body_;
  std::vector<Argument> values_;

  Argument mapped(const Argument &argument) const {
    return map_references(argument, [&](NodeRef reference) { return values_[reference.id]; });
  }
  Argument computed(const Node &node) {
    if (copies_elements(node.target))
      return values_[node.args[0].node()->id];
    Arguments args;
    Keywords kwargs;
    for (const Argument &argument : node.args)
      args.push_back(mapped(argument));
    for (const auto &[name, argument] : node.kwargs)
      kwargs.emplace_back(name, mapped(argument));
    if (node.target == kFull)
      args[0] = sizes_argument(ones(node.value->tensor()->layout.rank()));
    return builder_.call(node.target, std::move(args), std::move(kwargs));
  }
};

bool computes_elements(const Graph &body) {
  return std::all_of(body.nodes.begin(), body.nodes.end(), [](const Node &node) {
    return node.kind != NodeKind::call_function || node.target == kFull ||
           is_elementwise(node.target);
  });
}

/// Each lies in memory as its tensor does, as a clone of it.
Value scanned_value(const Call &call) {
  Value::List values;
  const std::vector<TensorMeta> xs = call.tensors("xs"); // taken to be of one size
  for (const TensorMeta &x : xs)
    values.push_back(tensor_value(x.dtype, xs[0].layout.sizes,
                                  preserved_strides(x.layout, call.ranges()), x.device));
  return Value{std::move(values)};
}

} // namespace

std::optional<Argument> scanned_at_once(GraphBuilder &builder, const Call &call, const Graph &body,
                                        const Arguments &xs, const Arguments &others) {
  const auto is_constant = [&](const Argument &other) { return is_number(builder, other); };
  if (xs.size() > kMostMembers || !computes_elements(body) || !are_alike(call, builder, xs) ||
      !std::all_of(others.begin(), others.end(), is_constant))
    return std::nullopt;
  std::vector<Argument> inputs;
  for (size_t i = 0; i < 2 * xs.size(); ++i) {
    const TensorMeta x = builder.meta(xs[i % xs.size()]);
    inputs.push_back(builder.call(
        kCombineOperand, {static_cast<int64_t>(i), static_cast<int64_t>(x.layout.rank() - 1)},
        {{"dtype", x.dtype}, {"device", x.device}}));
  }
  inputs.insert(inputs.end(), others.begin(), others.end());
  std::vector<Argument> results = Splicer(builder, body).run(inputs);
  for (size_t k = 0; k < xs.size(); ++k) {
    const TensorMeta x = builder.meta(xs[k]), result = builder.meta(results[k]);
    if (result.dtype != x.dtype || result.layout.sizes != ones(x.layout.rank() - 1))
      return std::nullopt;
  }
  const Argument whole = builder.call("tsc.associative_scan.default",
                                      {xs, Arguments(results.begin(), results.end()), 0});
  Arguments items;
  for (size_t k = 0; k < xs.size(); ++k)
    items.push_back(builder.item(whole, static_cast<int64_t>(k)));
  return items;
}

void add_combine_scans(Table &table) {
  table
      .add("tsc::combine_operand(int number, int rank, *, ScalarType dtype, Device? device=None) "
           "-> Tensor")
      .shape([](const Call &call) {
        const auto rank = static_cast<size_t>(call.integer("rank"));
        return contiguous_value(*call.dtype("dtype"), ones(rank), device_argument(call, {}));
      })
      .lowers("combine_operand");
  table.add("tsc::associative_scan(Tensor[] xs, Tensor[] combined, int dim) -> Tensor[]")
      .shape(scanned_value)
      .lowers("associative_scan");
}

} // namespace tsc::ops
