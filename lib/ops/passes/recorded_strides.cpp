#include "ops/passes/recorded_strides.h"

#include "ops/families/storage_bounds.h"
#include "ops/table/shape_rules.h"
#include "ops/table/source_line.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <array>

namespace tsc::ops {

namespace {

/// The node that a view operator views; null for other operators.
const Node *viewed_by(const Graph &graph, const Node &node) {
  const bool is_view = find_operator(node.target)->effect == Effect::view && !node.args.empty() &&
                       node.args[0].node() != nullptr;
  return is_view ? &graph.node(node.args[0].node()->id) : nullptr;
}

/// Whether strides differ that say where elements are; nothing where there are none, or a size has
/// no value: it divides by a sixteenth of n, say, and this n is too small.
std::optional<bool> differ_at(const symbolic::Bindings &sample, const tensor::Layout &a,
                              const tensor::Layout &b) try {
  const auto number = [&](Expr e) -> std::optional<int64_t> {
    if (e.is_integer())
      return e.value();
    for (const Expr symbol : symbolic::free_symbols(e))
      if (sample.count(symbol) == 0)
        return std::nullopt;
    return symbolic::evaluate(e, sample);
  };
  bool any = false;
  for (size_t i = 0; i < a.rank(); ++i) {
    const std::optional<int64_t> size = number(b.sizes[i]);
    if (size == 0)
      return std::nullopt;
    if (size != 1)
      any = any || number(a.strides[i]) != number(b.strides[i]);
  }
  return any;
} catch (const support::UserError &) {
  return std::nullopt;
}

} // namespace

void RecordedStrides::fill_samples() {
  static constexpr std::array<int64_t, 5> kPrimes = {11, 13, 7, 17, 5};
  symbolic::Bindings primes, likely;
  for (size_t i = 0; i < graph_->symbols.size(); ++i) {
    const graph::SymbolRange &range = graph_->symbols[i];
    const int64_t prime = std::clamp(kPrimes[i % kPrimes.size()], range.low, range.high);
    primes[range.symbol] = prime;
    likely[range.symbol] = range.hint.value_or(prime);
  }
  samples_ = {primes, likely};
}

bool RecordedStrides::differ(const TensorMeta &recorded, const TensorMeta &inferred) {
  const tensor::Layout &a = recorded.layout, &b = inferred.layout;
  if (a.strides == b.strides || a.rank() != b.rank())
    return false;
  if (samples_.empty())
    fill_samples();
  for (const symbolic::Bindings &sample : samples_)
    if (const std::optional<bool> known = differ_at(sample, a, b))
      return *known;
  return false;
}

void RecordedStrides::note(Node &node, const TensorMeta &recorded) {
  const TensorMeta *inferred = node.value ? node.value->tensor() : nullptr;
  if (!inferred)
    return;
  const Node *viewed = viewed_by(*graph_, node);
  if (viewed ? !viewed->recorded_strides.empty() : differ(recorded, *inferred))
    node.recorded_strides = recorded.layout.strides;
}

void RecordedStrides::check_use(const Node &node) const {
  if (node.target.rfind("aten.as_strided", 0) != 0 || node.args.empty() || !node.args[0].node())
    return;
  const Node &self = graph_->node(node.args[0].node()->id);
  if (self.recorded_strides.empty())
    return;
  throw support::UserError(
      support::ExitCode::unsupported,
      support::Diagnostic{"TSC-O082",
                          node.target + " of " + self.name + ", whose strides the file says are " +
                              print_sizes(self.recorded_strides) + ", not " +
                              print_sizes(self.value->tensor()->layout.strides),
                          "", "", node.name, source_line(node),
                          "clone(memory_format=torch.contiguous_format) it before"});
}

bool is_view_as_recorded(const Graph &graph, const Node &node, const Operator &row,
                         const std::shared_ptr<const symbolic::Ranges> &ranges) {
  const DecomposedAlone alone =
      decompose_alone(graph, node, row, ranges, nullptr, ArgumentStrides::recorded);
  const graph::NodeRef *result = alone.result.node();
  return result && alone.graph.node(chain_of_views(alone.graph, result->id).back()).kind ==
                       graph::NodeKind::placeholder;
}

} // namespace tsc::ops
