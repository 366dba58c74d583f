#include "ops/passes/branch_results.h"

#include "graph/data_symbols.h"
#include "ops/families/assertions.h"
#include "ops/table/rewrite.h"
#include "ops/table/source_line.h"
#include "support/diagnostic.h"
#include "tensor/layout.h"

#include <algorithm>

namespace tsc::ops {

using graph::NodeId;
using graph::NodeKind;
using graph::NodeRef;

namespace {

/// The most that nothing bounds, or next to it, in a file.
constexpr int64_t kNoBound = INT64_MAX - 1;

const std::vector<Expr> &sizes_of(const Graph &branch, size_t result) {
  return branch.node(branch.outputs[result].value.node()->id).value->tensor()->layout.sizes;
}

} // namespace

BranchResults::BranchResults(Node &call, std::vector<Graph> &branches,
                             const symbolic::Ranges &ranges) {
  const Value::List *values = call.value ? call.value->list() : nullptr;
  const auto yields = [&](const Graph &branch) {
    return values && branch.outputs.size() == values->size() &&
           std::all_of(branch.outputs.begin(), branch.outputs.end(),
                       [](const graph::OutputSpec &output) { return output.value.node(); });
  };
  if (!std::all_of(branches.begin(), branches.end(), yields))
    return;
  for (const Value &value : *values) {
    if (!value.tensor())
      return;
    results_.push_back(*value.tensor());
  }
  find(call, branches, ranges);
  if (sizes_.empty())
    return;
  for (Graph &branch : branches)
    branch = padded(std::move(branch));
  Value::List next;
  for (TensorMeta meta : results_) {
    for (Expr &size : meta.layout.sizes)
      if (const Size *known = size_of(size))
        size = Expr(known->bound);
    meta.layout = tensor::contiguous_layout(meta.layout.sizes);
    next.push_back(Value{meta});
  }
  TensorMeta number;
  number.dtype = DType::i64;
  number.device = results_.front().device;
  next.insert(next.end(), sizes_.size(), Value{number});
  call.value = Value{std::move(next)};
}

const BranchResults::Size *BranchResults::size_of(Expr size) const {
  const auto found = std::find_if(sizes_.begin(), sizes_.end(),
                                  [&](const Size &known) { return known.symbol == size; });
  return found == sizes_.end() ? nullptr : &*found;
}

void BranchResults::find(const Node &call, const std::vector<Graph> &branches,
                         const symbolic::Ranges &ranges) {
  for (size_t k = 0; k < results_.size(); ++k) {
    const std::vector<Expr> &sizes = results_[k].layout.sizes;
    for (size_t dim = 0; dim < sizes.size(); ++dim) {
      const Expr size = sizes[dim];
      const bool differs = std::any_of(branches.begin(), branches.end(), [&](const Graph &branch) {
        return sizes_of(branch, k).size() == sizes.size() && sizes_of(branch, k)[dim] != size;
      });
      if (!differs || !size.is_symbol() || size_of(size))
        continue;
      const int64_t bound = ranges.interval_of(size).high;
      if (bound >= kNoBound)
        throw support::UserError(support::ExitCode::unsupported,
                                 {"TSC-O125",
                                  "the call of " + call.target + ": result " + std::to_string(k) +
                                      " has a size that its branches decide and nothing bounds",
                                  "", "", call.origins.empty() ? call.name : call.origins.front(),
                                  source_line(call),
                                  "say how large it can be: torch._check(result.shape[" +
                                      std::to_string(dim) + "] <= N)"});
      sizes_.push_back({size, bound, k, dim});
    }
  }
}

Graph BranchResults::padded(Graph branch) const {
  std::vector<Expr> numbers;
  for (const Size &size : sizes_)
    numbers.push_back(sizes_of(branch, size.result)[size.dim]);
  std::map<std::string, Graph> inner = std::move(branch.subgraphs);
  Rewrite rewrite(std::move(branch));
  const auto last = static_cast<NodeId>(rewrite.source().nodes.size() - 1);
  for (NodeId id = 0; id < last; ++id)
    rewrite.copy(id);
  GraphBuilder &builder = rewrite.builder();
  Node output = rewrite.take_mapped(last);
  builder.set_source(output);
  Arguments yielded;
  for (size_t k = 0; k < results_.size(); ++k) {
    Argument value = rewrite.mapped(rewrite.source().outputs[k].value);
    const std::vector<Expr> &sizes = results_[k].layout.sizes;
    const std::vector<Expr> given = builder.meta(value).layout.sizes;
    Arguments pads; // from the last dimension on
    for (size_t dim = sizes.size(); dim-- > 0;) {
      const Size *known = size_of(sizes[dim]);
      pads.emplace_back(0);
      pads.push_back(known ? size_argument(Expr(known->bound) - given[dim]) : Argument(0));
    }
    if (std::any_of(sizes.begin(), sizes.end(), [&](Expr size) { return size_of(size); }))
      value = builder.call("aten.constant_pad_nd.default", {value, std::move(pads), 0});
    yielded.push_back(std::move(value));
  }
  for (const Expr number : numbers)
    yielded.push_back(builder.call("aten.full.default", {Arguments{}, size_argument(number)},
                                   {{"dtype", DType::i64}, {"device", results_.front().device}}));
  output.args.at(0) = yielded;
  builder.append(std::move(output));
  Graph result = rewrite.take();
  result.subgraphs = std::move(inner);
  result.outputs.clear();
  for (const Argument &value : yielded)
    result.outputs.push_back({graph::OutputKind::user, value, ""});
  return result;
}

Arguments BranchResults::cut(GraphBuilder &builder, const Argument &call) const {
  for (size_t i = 0; i < sizes_.size(); ++i)
    builder.emit(kDefine, {builder.item(call, static_cast<int64_t>(results_.size() + i)),
                           sizes_[i].symbol, sizes_[i].bound});
  Arguments results;
  for (size_t k = 0; k < results_.size(); ++k) {
    Argument value = builder.item(call, static_cast<int64_t>(k));
    const std::vector<Expr> &sizes = results_[k].layout.sizes;
    bool is_dense = true;
    for (size_t dim = 0; dim < sizes.size(); ++dim)
      if (const Size *known = size_of(sizes[dim])) {
        value = builder.call("aten.slice.Tensor",
                             {value, static_cast<int64_t>(dim), 0, size_argument(known->symbol)});
        is_dense = is_dense && dim == 0;
      }
    results.push_back(is_dense ? value : builder.call("aten.clone.default", {value}));
  }
  return results;
}

} // namespace tsc::ops
