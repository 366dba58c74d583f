#include "codegen/order_elements.h"
#include "codegen/plan_steps.h"

#include <algorithm>
#include <unordered_map>

namespace tsc::codegen {

namespace {

using ir::Op;

/// The values of a graph that is made anew: what is computed alike is one value, and what is known
/// is not computed.
class Values {
public:
  explicit Values(KernelGraph &graph) : graph_(graph) {}

  ValueId add(Value value) {
    if (value.guard != ir::kNone)
      if (const std::optional<bool> holds = truth(value.guard)) {
        if (!*holds && value.op == Op::load)
          return constant(0.0, value.dtype);
        value.guard = *holds ? ir::kNone : value.guard;
      }
    if (const std::optional<ValueId> known = decided(value))
      return *known;
    const bool unique = value.op == Op::store || value.op == Op::store_reduction ||
                        value.op == Op::set_indirect || ir::is_random(value.op);
    if (!unique) {
      std::vector<ValueId> &same = known_[hash_of(value)];
      for (const ValueId id : same)
        if (is_same(graph_.values[id], value))
          return id;
      same.push_back(static_cast<ValueId>(graph_.values.size()));
    }
    graph_.values.push_back(std::move(value));
    return static_cast<ValueId>(graph_.values.size() - 1);
  }

  /// The value that is the same already, if there is one.
  std::optional<ValueId> find(const Value &value) const {
    const auto same = known_.find(hash_of(value));
    if (same != known_.end())
      for (const ValueId id : same->second)
        if (is_same(graph_.values[id], value))
          return id;
    return std::nullopt;
  }

private:
  KernelGraph &graph_;
  std::unordered_map<uint64_t, std::vector<ValueId>> known_; // by hash

  static uint64_t hash_of(const Value &value) {
    uint64_t hash = static_cast<uint64_t>(value.op) * 0x9e3779b97f4a7c15ull ^ value.index.hash();
    for (const ValueId arg : value.args)
      hash = (hash ^ arg) * 0xff51afd7ed558ccdull;
    return (hash ^ value.guard) * 0xff51afd7ed558ccdull ^ value.buffer;
  }
  ValueId constant(tensor::Scalar scalar, DType dtype) {
    Value value;
    value.dtype = dtype;
    value.constant = tensor::cast_scalar(scalar, dtype);
    return add(std::move(value));
  }
  std::optional<bool> truth(ValueId id) const {
    const Value &value = graph_[id];
    if (value.op != Op::constant || value.dtype != DType::boolean)
      return std::nullopt;
    return tensor::to_double(value.constant) != 0;
  }
  /// Of an integer that loops or literals give.
  std::optional<symbolic::Interval> interval_of(ValueId id) const {
    const Value &value = graph_[id];
    if (value.op == Op::index_expr && value.args.empty())
      return symbolic::bounds(value.index, graph_.ranges);
    const auto *number = value.op == Op::constant ? std::get_if<int64_t>(&value.constant) : nullptr;
    return number ? std::optional(symbolic::Interval{*number, *number}) : std::nullopt;
  }
  std::optional<bool> compared(const Value &value) const {
    if (value.args.size() != 2 || value.dtype != DType::boolean)
      return std::nullopt;
    const auto a = interval_of(value.args[0]), b = interval_of(value.args[1]);
    if (!a || !b)
      return std::nullopt;
    const auto is_less = [](const symbolic::Interval &x, const symbolic::Interval &y,
                            int64_t more) -> std::optional<bool> { // x < y + more
      if (x.high < y.low + more)
        return true;
      return x.low >= y.high + more ? std::optional(false) : std::nullopt;
    };
    const auto turned = [](std::optional<bool> holds) {
      return holds ? std::optional(!*holds) : std::nullopt;
    };
    constexpr int64_t kFar = int64_t{1} << 62;
    if (std::max({a->high, b->high}) > kFar || std::min({a->low, b->low}) < -kFar)
      return std::nullopt;
    switch (value.op) {
    case Op::lt:
      return is_less(*a, *b, 0);
    case Op::le:
      return is_less(*a, *b, 1);
    case Op::gt:
      return turned(is_less(*a, *b, 1));
    case Op::ge:
      return turned(is_less(*a, *b, 0));
    case Op::eq:
      if (a->low == a->high && b->low == b->high && a->low == b->low)
        return true;
      return a->high < b->low || b->high < a->low ? std::optional(false) : std::nullopt;
    default:
      return std::nullopt;
    }
  }
  /// The value that stands for `value` already, if there is one.
  std::optional<ValueId> decided(const Value &value) {
    if (const std::optional<bool> holds = compared(value))
      return constant(*holds, DType::boolean);
    if (value.op == Op::where)
      if (const std::optional<bool> holds = truth(value.args[0]);
          holds && graph_[value.args[*holds ? 1 : 2]].dtype == value.dtype)
        return value.args[*holds ? 1 : 2];
    if (value.op != Op::logical_and && value.op != Op::logical_or)
      return std::nullopt;
    for (const size_t side : {0, 1}) {
      const ValueId other = value.args[1 - side];
      const std::optional<bool> holds = truth(value.args[side]);
      if (!holds || graph_[other].dtype != DType::boolean)
        continue;
      return *holds == (value.op == Op::logical_and) ? other : value.args[side];
    }
    return std::nullopt;
  }
};

/// The operation by which a reduction takes one more element; nothing if it is more than one.
std::optional<Op> step_of(ir::ReductionKind kind) {
  switch (kind) {
  case ir::ReductionKind::sum:
    return Op::add;
  case ir::ReductionKind::prod:
    return Op::mul;
  case ir::ReductionKind::max:
    return Op::maximum;
  case ir::ReductionKind::min:
    return Op::minimum;
  case ir::ReductionKind::any:
    return Op::logical_or;
  case ir::ReductionKind::all:
    return Op::logical_and;
  default:
    return std::nullopt;
  }
}

/// Takes one loop out of a graph.
class Unroller {
public:
  /// `rows`: one of the graph's rows, whose reductions go on for each; else of a row's elements.
  Unroller(const KernelGraph &graph, bool rows, size_t loop, ValueId inside)
      : graph_(graph), variable_((rows ? graph.row_variables : graph.element_variables)[loop]),
        inside_(inside), length_((rows ? graph.row_sizes : graph.element_sizes)[loop].value()),
        rows_(rows), result_{graph, {}}, values_(result_.graph) {
    KernelGraph &unrolled = result_.graph;
    unrolled.values.clear();
    unrolled.stores.clear();
    const auto at = static_cast<std::ptrdiff_t>(loop);
    for (std::vector<Expr> *list : {rows ? &unrolled.row_variables : &unrolled.element_variables,
                                    rows ? &unrolled.row_sizes : &unrolled.element_sizes})
      list->erase(list->begin() + at);
  }

  std::optional<Unrolled> run(size_t most_values) {
    for (const Value &source : graph_.values)
      if (!(source.op == Op::reduction && !rows_ ? reduce(source) : copy(source)) ||
          result_.graph.values.size() > most_values)
        return std::nullopt;
    for (const ValueId store : graph_.stores)
      result_.graph.stores.insert(result_.graph.stores.end(), result_.copies[store].begin(),
                                  result_.copies[store].end());
    return std::move(result_);
  }

private:
  const KernelGraph &graph_;
  const Expr variable_;
  const ValueId inside_; // where the loop is; kNone: everywhere
  const int64_t length_;
  const bool rows_;
  Unrolled result_;
  Values values_;

  ValueId copy_of(ValueId id, int64_t element) const {
    const std::vector<ValueId> &copies = result_.copies[id];
    return copies[copies.size() == 1 ? 0 : static_cast<size_t>(element)];
  }
  bool copy(const Value &source) {
    bool varies = symbolic::depends_on(source.index, variable_);
    for (const ValueId arg : source.args)
      varies = varies || result_.copies[arg].size() > 1;
    varies = varies || (source.guard != ir::kNone && result_.copies[source.guard].size() > 1);
    if (varies && source.op == Op::set_indirect) // its symbol stands in indices
      return false;
    std::vector<ValueId> copies;
    for (int64_t element = 0; element < (varies ? length_ : 1); ++element) {
      Value value = source;
      for (ValueId &arg : value.args)
        arg = copy_of(arg, element);
      if (value.guard != ir::kNone)
        value.guard = copy_of(value.guard, element);
      value.index = symbolic::simplify(
          symbolic::substitute(value.index, {{variable_, Expr(element)}}), graph_.ranges);
      copies.push_back(inside_ != ir::kNone && value.buffer != ir::kNone && varies
                           ? add_inside(std::move(value), element)
                           : values_.add(std::move(value)));
    }
    result_.copies.push_back(std::move(copies));
    return true;
  }
  /// An access that happens only where the loop is, unless another element makes it anyway: what
  /// comes of it is not stored.
  ValueId add_inside(Value value, int64_t element) {
    if (value.op == Op::load)
      if (const std::optional<ValueId> made = values_.find(value))
        return *made;
    const ValueId inside = copy_of(inside_, element);
    if (value.guard != ir::kNone) {
      Value both;
      both.op = Op::logical_and;
      both.dtype = DType::boolean;
      both.source_dtype = DType::boolean;
      both.args = {value.guard, inside};
      value.guard = values_.add(std::move(both));
    } else {
      value.guard = inside;
    }
    return values_.add(std::move(value));
  }
  /// One of what is left of its loops, over what this one gives.
  bool reduce(const Value &source) {
    const std::optional<Op> step = step_of(source.reduction);
    if (!step || source.args.size() != 1 || graph_[source.args[0]].dtype != source.dtype)
      return false;
    ValueId total = copy_of(source.args[0], 0);
    for (int64_t element = 1; element < length_; ++element) {
      Value value;
      value.op = *step;
      value.dtype = source.dtype;
      value.source_dtype = source.dtype;
      value.args = {total, copy_of(source.args[0], element)};
      total = values_.add(std::move(value));
    }
    if (!result_.graph.element_variables.empty()) {
      Value value = source;
      value.args = {total};
      total = values_.add(std::move(value));
    }
    result_.copies.push_back({total});
    return true;
  }
};

} // namespace

Expr unused_variable(const KernelGraph &graph) {
  const auto is_taken = [&](Expr symbol) {
    return std::find(graph.element_variables.begin(), graph.element_variables.end(), symbol) !=
           graph.element_variables.end();
  };
  size_t number = 0;
  while (is_taken(symbolic::symbol(symbolic::SymbolSort::dimension, number)))
    ++number;
  return symbolic::symbol(symbolic::SymbolSort::dimension, number);
}

std::optional<Unrolled> unroll(const KernelGraph &graph, size_t loop, size_t most_values,
                               ValueId inside) {
  return Unroller(graph, false, loop, inside).run(most_values);
}

std::optional<KernelGraph> unroll_row_loop(const KernelGraph &graph, size_t loop,
                                           size_t most_values) {
  std::optional<Unrolled> unrolled = Unroller(graph, true, loop, ir::kNone).run(most_values);
  if (!unrolled)
    return std::nullopt;
  assign_phases(unrolled->graph);
  return std::move(unrolled->graph);
}

std::optional<KernelGraph> unroll_rows(KernelGraph graph, size_t most_values) {
  while (!graph.element_variables.empty()) {
    std::optional<Unrolled> unrolled =
        unroll(graph, graph.element_variables.size() - 1, most_values);
    if (!unrolled)
      return std::nullopt;
    graph = std::move(unrolled->graph);
  }
  remove_dead_values(graph);
  make_pointwise(graph);
  return graph;
}

} // namespace tsc::codegen
