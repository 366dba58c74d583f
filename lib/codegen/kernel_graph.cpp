#include "codegen/kernel_graph.h"

#include "codegen/value_range.h"

#include "codegen/order_elements.h"
#include "codegen/softmax_statistics.h"
#include "support/diagnostic.h"
#include "symbolic/loops.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace tsc::codegen {

namespace {

using ir::Op;
using ir::ReductionKind;
using support::require;
using symbolic::SymbolSort;

uint64_t mix(uint64_t a, uint64_t b) {
  a ^= b + 0x9e3779b97f4a7c15ull + (a << 6) + (a >> 2);
  return a * 0xff51afd7ed558ccdull;
}

uint64_t hash_value(const Value &value) {
  uint64_t hash = mix(static_cast<uint64_t>(value.op), static_cast<uint64_t>(value.dtype));
  for (const ValueId arg : value.args)
    hash = mix(hash, arg);
  hash = mix(hash, value.index.hash());
  hash = mix(hash, value.buffer);
  return mix(hash, value.guard);
}

/// The group's loops as one nest, and each member's variables over it.
struct CommonLoops {
  std::vector<Expr> row_variables, row_sizes, element_variables, element_sizes;
  std::vector<symbolic::Substitution> of_member;
};

/// Each member has variables of its own, by place: fusion has seen to it that loop i of one is loop
/// i of all. A member without the reduction's loops (what follows a reduction) maps to the outer
/// ones.
void map_member(const ir::LoopBody &body, std::span<const Expr> iteration,
                std::span<const Expr> reduction, symbolic::Substitution &substitution) {
  require(body.iteration_count == iteration.size(), "codegen",
          "members of a group differ in their iteration loops");
  require(!body.is_reduction() || body.reduction_sizes().size() == reduction.size(), "codegen",
          "members of a group differ in their reduction loops");
  for (size_t i = 0; i < body.variables.size(); ++i) {
    const size_t k = i - body.iteration_count;
    substitution.emplace(body.variables[i], i < body.iteration_count ? iteration[i] : reduction[k]);
  }
}

/// Merges loops that every index of the group lets merge: fewer loops are fewer divisions in a
/// kernel, and a long inner loop is what vectors and threads need. It takes all members' indices at
/// once, since a loop that one of them strides through has to stay for all.
CommonLoops common_loops(const scheduler::Group &group, const symbolic::Ranges &module_ranges) {
  const ir::LoopBody *widest = &group.bodies.front();
  for (const ir::LoopBody &body : group.bodies)
    if (body.variables.size() > widest->variables.size())
      widest = &body;
  std::vector<Expr> iteration, reduction;
  symbolic::Ranges ranges = module_ranges;
  for (size_t i = 0; i < widest->variables.size(); ++i) {
    const bool iterates = i < widest->iteration_count;
    const Expr variable =
        symbolic::symbol(iterates ? SymbolSort::whole_row : SymbolSort::whole_reduced,
                         iterates ? iteration.size() : reduction.size());
    (iterates ? iteration : reduction).push_back(variable);
    ranges.set_size(variable, widest->sizes[i]);
  }
  std::vector<symbolic::Substitution> members(group.bodies.size());
  std::vector<Expr> indices;
  for (size_t m = 0; m < group.bodies.size(); ++m) {
    map_member(group.bodies[m], iteration, reduction, members[m]);
    for (const Expr index : group.bodies[m].indices)
      indices.push_back(symbolic::substitute(index, members[m]));
  }
  const bool reduces = widest->is_reduction();
  const symbolic::MergedLoops rows =
      symbolic::merge_loops(iteration, widest->iteration_sizes(), indices,
                            reduces ? SymbolSort::row : SymbolSort::dimension, ranges);
  const symbolic::MergedLoops elements = symbolic::merge_loops(
      reduction, widest->reduction_sizes(), indices, SymbolSort::reduced, ranges);
  symbolic::Substitution merged;
  for (size_t i = 0; i < iteration.size(); ++i)
    merged.emplace(iteration[i], rows.old_variables[i]);
  for (size_t i = 0; i < reduction.size(); ++i)
    merged.emplace(reduction[i], elements.old_variables[i]);
  for (symbolic::Substitution &member : members)
    for (auto &[variable, expression] : member)
      expression = symbolic::substitute(expression, merged);
  CommonLoops loops;
  loops.of_member = std::move(members);
  (reduces ? loops.row_variables : loops.element_variables) = rows.variables;
  (reduces ? loops.row_sizes : loops.element_sizes) = rows.sizes;
  if (reduces) {
    loops.element_variables = elements.variables;
    loops.element_sizes = elements.sizes;
  }
  return loops;
}

class Builder {
public:
  Builder(const ir::Module &module, const scheduler::Group &group, const GraphOptions &options,
          KernelGraph &graph)
      : module_(module), options_(options), graph_(graph), internal_(group.internal_buffers) {
    std::sort(internal_.begin(), internal_.end());
  }

  void add_member(const ir::LoopBody &body, const symbolic::Substitution &substitution) {
    substitution_ = &substitution;
    body_ = &body;
    indirect_.clear();
    ids_.assign(body.ops.size(), ir::kNone);
    find_guards();
    for (uint32_t i = 0; i < body.ops.size(); ++i)
      ids_[i] = add_op(i);
  }

private:
  const ir::Module &module_;
  const GraphOptions &options_;
  KernelGraph &graph_;
  std::vector<BufferId> internal_;
  std::unordered_map<uint64_t, std::vector<ValueId>> known_; // by hash: equal values are one
  struct Stored {
    Expr index;
    ValueId value;
  };
  /// By storage: what this kernel has stored where. A later member reads it from a register.
  std::unordered_map<BufferId, std::vector<Stored>> stored_;
  uint32_t indirects_ = 0;
  // the member
  const ir::LoopBody *body_ = nullptr;
  const symbolic::Substitution *substitution_ = nullptr;
  symbolic::Substitution indirect_;
  std::vector<ValueId> ids_;                 // by op
  std::vector<uint32_t> block_of_;           // by op
  std::vector<uint32_t> mask_op_of_, outer_; // by block

  void find_guards() {
    block_of_.assign(body_->ops.size(), 0);
    mask_op_of_.assign(body_->blocks.size(), ir::kNone);
    outer_.assign(body_->blocks.size(), 0);
    for (uint32_t b = 0; b < body_->blocks.size(); ++b)
      for (const uint32_t op : body_->blocks[b].ops)
        block_of_[op] = b;
    for (uint32_t i = 0; i < body_->ops.size(); ++i) {
      const ir::BodyOp &op = body_->ops[i];
      if (op.op == Op::masked) {
        mask_op_of_[op.block] = op.args[0];
        outer_[op.block] = block_of_[i];
      }
    }
  }

  /// The condition under which block `block` runs; kNone: always.
  ValueId guard_of(uint32_t block) {
    ValueId guard = ir::kNone;
    for (; block != 0; block = outer_[block]) {
      const ValueId mask = ids_[mask_op_of_[block]];
      guard = guard == ir::kNone ? mask : binary(Op::logical_and, DType::boolean, mask, guard);
    }
    return guard;
  }

  /// Stores are kept apart even if they are equal: each has a place in the order.
  ValueId add(Value value) {
    if (value.op == Op::where)
      for (const size_t side : {1, 2}) // what the same condition chose is known
        while (is_choice_of(graph_.values[value.args[side]], value))
          value.args[side] = graph_.values[value.args[side]].args[side];
    if (is_zero_elsewhere(value))
      return value.args[1];
    if (const auto [arm, other, place] = same_operation(value); place) {
      const size_t at = *place;
      Value chosen = value, applied = graph_[arm];
      chosen.args = {value.args[0], graph_[arm].args[at], graph_[other].args[at]};
      chosen.dtype = graph_[chosen.args[1]].dtype;
      applied.args[at] = add(std::move(chosen));
      return add(std::move(applied));
    }
    const bool unique = value.op == Op::store || value.op == Op::store_reduction;
    if (!unique) {
      std::vector<ValueId> &same = known_[hash_value(value)];
      for (const ValueId id : same)
        if (is_same(graph_.values[id], value))
          return id;
      same.push_back(static_cast<ValueId>(graph_.values.size()));
    }
    graph_.values.push_back(std::move(value));
    return static_cast<ValueId>(graph_.values.size() - 1);
  }
  static bool is_positive(const Value &value) {
    const auto *number = std::get_if<double>(&value.constant);
    return value.op == Op::constant && number && *number > 0 && std::isfinite(*number);
  }
  /// where(mask, what is loaded under that mask, 0): there is 0 elsewhere already.
  bool is_zero_elsewhere(const Value &value) const {
    if (value.op != Op::where || graph_[value.args[1]].dtype != value.dtype)
      return false;
    const Value &otherwise = graph_[value.args[2]];
    const Value *load = &graph_[value.args[1]];
    if (load->op == Op::mul && is_positive(graph_[load->args[1]])) // 0 stays 0
      load = &graph_[load->args[0]];
    if (load->op == Op::to_dtype)
      load = &graph_[load->args[0]];
    return load->op == Op::load && load->guard == value.args[0] && otherwise.op == Op::constant &&
           is_positive_zero(otherwise.constant);
  }
  struct SameOperation {
    ValueId arm = ir::kNone, other = ir::kNone;
    std::optional<size_t> place; // of the one operand that differs
  };
  /// where(c, f(a), f(b)) is f(where(c, a, b)), in every bit.
  SameOperation same_operation(const Value &value) const {
    if (value.op != Op::where)
      return {};
    const ValueId left = value.args[1], right = value.args[2];
    const Value &a = graph_[left], &b = graph_[right];
    const bool computes = ir::operand_count(a.op) > 0 && a.op != Op::where &&
                          !ir::is_random(a.op) && a.guard == ir::kNone && b.guard == ir::kNone;
    if (!computes || left == right || a.op != b.op || a.dtype != b.dtype ||
        a.source_dtype != b.source_dtype || a.args.size() != b.args.size() ||
        value.dtype != a.dtype)
      return {};
    SameOperation result{left, right, std::nullopt};
    for (size_t i = 0; i < a.args.size(); ++i) {
      if (a.args[i] == b.args[i])
        continue;
      if (result.place || graph_[a.args[i]].dtype != graph_[b.args[i]].dtype)
        return {};
      result.place = i;
    }
    return result;
  }
  static bool is_choice_of(const Value &inner, const Value &outer) {
    return inner.op == Op::where && inner.dtype == outer.dtype && inner.args[0] == outer.args[0];
  }
  ValueId binary(Op op, DType dtype, ValueId a, ValueId b) {
    Value value;
    value.op = op;
    value.dtype = dtype;
    value.args = {a, b};
    return add(std::move(value));
  }
  ValueId unary(Op op, DType dtype, ValueId a) {
    Value value;
    value.op = op;
    value.dtype = dtype;
    value.source_dtype = graph_[a].dtype;
    value.args = {a};
    return add(std::move(value));
  }
  ValueId reduce(ReductionKind kind, DType dtype, ValueId a) {
    Value value;
    value.op = Op::reduction;
    value.dtype = dtype;
    value.source_dtype = graph_[a].dtype;
    value.reduction = kind;
    value.args = {a};
    return add(std::move(value));
  }
  ValueId constant(tensor::Scalar scalar, DType dtype) {
    Value value;
    value.dtype = dtype;
    value.constant = scalar;
    return add(std::move(value));
  }

  /// The index over the kernel's loops. The values that it reads by run-time symbols become
  /// arguments, so that order, phases and liveness see them.
  Expr index_of(const ir::BodyOp &op, std::vector<ValueId> &args) {
    Expr index = symbolic::substitute(body_->indices[op.index], *substitution_);
    if (!indirect_.empty()) {
      index = symbolic::substitute(index, indirect_);
      for (ValueId id = 0; id < graph_.values.size(); ++id)
        if (graph_[id].op == Op::set_indirect && symbolic::depends_on(index, graph_[id].symbol))
          args.push_back(id);
    }
    return symbolic::simplify(index, graph_.ranges);
  }

  /// Whether the scan at `position` goes over so few elements that roundings of f32 are a small
  /// part of those to 16 bits that everything it is used for begins with.
  bool is_rounded_short_scan(uint32_t position) const {
    constexpr int64_t kFew = 1024;
    const auto elements = symbolic::numel(graph_.element_sizes).as_integer();
    return elements && *elements <= kFew && is_rounded_by_users(position);
  }
  bool is_rounded_by_users(uint32_t position) const {
    for (uint32_t at = 0; at < body_->ops.size(); ++at) {
      const ir::BodyOp &user = body_->ops[at];
      if (std::find(user.args.begin(), user.args.end(), position) == user.args.end())
        continue;
      const bool rounds = user.op == Op::get_item ? is_rounded_by_users(at)
                          : user.op == Op::store
                              ? tensor::is_reduced_float(module_.buffer(user.buffer).dtype)
                              : user.op == Op::to_dtype && tensor::is_reduced_float(user.dtype);
      if (!rounds)
        return false;
    }
    return true;
  }

  ValueId add_op(uint32_t position) {
    const ir::BodyOp &op = body_->ops[position];
    switch (op.op) {
    case Op::load:
      return add_load(op, guard_of(block_of_[position]));
    case Op::store:
    case Op::store_reduction:
      return add_store(op);
    case Op::masked: { // the block's loads have its mask as guard; all else in it may run anywhere
      Value value;
      value.op = Op::where;
      value.dtype = op.dtype;
      const ValueId other = constant(op.constant, op.dtype);
      value.args = {ids_[op.args[0]], ids_[body_->blocks[op.block].ops.back()], other};
      return add(std::move(value));
    }
    case Op::reduction:
      return add_reduction(op);
    case Op::get_item:
      return add_item(op);
    case Op::set_indirect:
      return add_indirect(op, guard_of(block_of_[position]));
    default: {
      Value value;
      value.op = op.op;
      value.dtype = op.dtype;
      value.source_dtype = op.source_dtype;
      value.constant = op.constant;
      value.scan = op.scan;
      value.combine = op.combine;
      value.descending = op.descending;
      for (const uint32_t arg : op.args)
        value.args.push_back(ids_[arg]);
      if (op.op == Op::index_expr)
        value.index = index_of(op, value.args);
      // Each product's rounding goes into all that follow.
      const bool is_product = op.op == Op::scan && op.scan == ir::ScanKind::prod;
      if (is_product && tensor::is_floating(op.dtype) && op.dtype != DType::f64 &&
          !is_rounded_short_scan(position)) {
        value.dtype = DType::f64;
        return convert(add(std::move(value)), DType::f32);
      }
      return add(std::move(value));
    }
    }
  }

  ValueId add_load(const ir::BodyOp &op, ValueId guard) {
    Value value;
    value.op = Op::load;
    value.dtype = op.dtype;
    value.buffer = op.buffer;
    value.guard = guard;
    value.index = index_of(op, value.args);
    const auto found = stored_.find(module_.storage_of(op.buffer));
    if (found != stored_.end()) {
      // The latest store to this very index counts.
      for (auto it = found->second.rbegin(); it != found->second.rend(); ++it)
        if (it->index == value.index)
          return convert(it->value, module_.buffer(op.buffer).dtype);
    }
    require(!std::binary_search(internal_.begin(), internal_.end(), op.buffer), "codegen",
            "internal buffer " + module_.buffer(op.buffer).name + " is read at " +
                symbolic::print(value.index) +
                ", which its kernel does not store at the same point");
    value.dtype = module_.buffer(op.buffer).dtype;
    return add(std::move(value));
  }

  /// What storing to `dtype` and loading again gives, but for the rounding of 16-bit floats.
  ValueId convert(ValueId id, DType dtype) {
    const DType from = graph_[id].dtype;
    const auto is_float = [](DType one) {
      return one == DType::f16 || one == DType::bf16 || one == DType::f32;
    };
    const bool both_float = is_float(from) && is_float(dtype);
    return from == dtype || both_float ? id : unary(Op::to_dtype, dtype, id);
  }

  ValueId add_store(const ir::BodyOp &op) {
    const BufferId storage = module_.storage_of(op.buffer);
    Value value;
    value.op = op.op;
    value.dtype = module_.buffer(op.buffer).dtype;
    value.buffer = op.buffer;
    value.mode = op.mode;
    value.args = {ids_[op.args[0]]};
    std::vector<ValueId> indirect;
    value.index = index_of(op, indirect);
    value.args.insert(value.args.end(), indirect.begin(), indirect.end());
    if (op.args.size() > 1)
      value.guard = ids_[op.args[1]];
    // Where the guard of a new buffer's store does not hold, there is no element to be read.
    const bool is_new = module_.buffer(op.buffer).mutates == ir::kNone && storage == op.buffer;
    if (op.mode == ir::StoreMode::plain && (value.guard == ir::kNone || is_new))
      stored_[storage].push_back({value.index, value.args[0]});
    if (std::binary_search(internal_.begin(), internal_.end(), op.buffer))
      return value.args[0];
    strip_rounding(value);
    const ValueId id = add(std::move(value));
    graph_.stores.push_back(id);
    return id;
  }

  /// Storing to 16 bits rounds: a cast to that type right before it does the same.
  void strip_rounding(Value &store) const {
    const Value &value = graph_[store.args[0]];
    if (store.mode != ir::StoreMode::plain || value.op != Op::to_dtype ||
        value.dtype != store.dtype || !tensor::is_reduced_float(value.dtype))
      return;
    const DType source = graph_[value.args[0]].dtype;
    if (source == DType::f32 || tensor::is_reduced_float(source)) // held as float: rounded once
      store.args[0] = value.args[0];
  }

  static bool is_position(ReductionKind kind) {
    return kind == ReductionKind::argmax || kind == ReductionKind::argmin;
  }
  ValueId add_reduction(const ir::BodyOp &op) {
    const bool single =
        !body_->is_reduction() && !is_position(op.reduction) && ir::tuple_size(op.reduction) == 1;
    if (single) // over one element: the element
      return convert(ids_[op.args[0]], op.dtype);
    Value value;
    value.op = Op::reduction;
    value.dtype = op.dtype;
    value.source_dtype = op.source_dtype;
    value.reduction = op.reduction;
    for (const uint32_t arg : op.args)
      value.args.push_back(ids_[arg]);
    return add(std::move(value));
  }

  /// Element `item` of a tuple: with two-pass statistics, the plain reductions that give it.
  ValueId add_item(const ir::BodyOp &op) {
    const ValueId tuple = ids_[op.args[0]];
    const Value &source = graph_[tuple];
    const bool statistics = source.op == Op::reduction && options_.two_pass_statistics;
    if (statistics && source.reduction == ReductionKind::welford_reduce)
      return two_pass_moment(source.args[0], op);
    if (statistics && source.reduction == ReductionKind::online_softmax_reduce)
      return two_pass_softmax(source.args[0], op);
    const bool scans = source.op == Op::scan ||
                       (source.op == Op::to_dtype && graph_[source.args[0]].op == Op::scan);
    if ((scans && !source.combine) || (source.op == Op::sort && op.item == 0))
      return tuple;
    Value value;
    value.op = Op::get_item;
    value.dtype = op.dtype;
    value.item = op.item;
    value.args = {tuple};
    return add(std::move(value));
  }
  /// Count, mean and sum of squared distances by a sum each. Two sums over registers or over a row
  /// that is still in the cache take less than the division that each step of Welford's way needs,
  /// and are as exact: the distances are to the mean itself.
  ValueId two_pass_moment(ValueId x, const ir::BodyOp &op) {
    Value count;
    count.op = Op::index_expr;
    count.dtype = op.dtype;
    count.index = graph_.elements();
    const ValueId n =
        count.index.is_integer() ? constant(count.index.value(), op.dtype) : add(std::move(count));
    if (op.item == 2)
      return n;
    const ValueId mean = binary(Op::truediv, op.dtype, reduce(ReductionKind::sum, op.dtype, x), n);
    if (op.item == 0)
      return mean;
    const ValueId distance = binary(Op::sub, op.dtype, x, mean);
    return reduce(ReductionKind::sum, op.dtype, binary(Op::mul, op.dtype, distance, distance));
  }
  /// The largest, then the sum of exponentials of distances to it.
  ValueId two_pass_softmax(ValueId x, const ir::BodyOp &op) {
    const ValueId max = reduce(ReductionKind::max, op.dtype, x);
    if (op.item == 0)
      return max;
    const ValueId distance = binary(Op::sub, op.dtype, x, max);
    return reduce(ReductionKind::sum, op.dtype, unary_same(Op::exp, op.dtype, distance));
  }
  ValueId unary_same(Op op, DType dtype, ValueId a) {
    Value value;
    value.op = op;
    value.dtype = dtype;
    value.args = {a};
    return add(std::move(value));
  }

  /// `guard`: where the index counts, and has to be in range.
  ValueId add_indirect(const ir::BodyOp &op, ValueId guard) {
    // What follows from positions is an index as any other, and need not be checked.
    if (const std::optional<Expr> index = value_index(graph_, ids_[op.args[0]])) {
      const symbolic::Interval bounds = symbolic::bounds(*index, graph_.ranges);
      if (bounds.low >= 0 && bounds.high < symbolic::bounds(op.extent, graph_.ranges).low) {
        indirect_[op.symbol] = *index;
        return ids_[op.args[0]];
      }
    }
    Value value;
    value.op = Op::set_indirect;
    value.dtype = DType::i64;
    value.args = {ids_[op.args[0]]};
    value.extent = op.extent;
    value.check = op.check;
    value.guard = guard;
    const bool wraps = module_.check_of(op.check).wraps;
    // One symbol a (value, extent, guard): look for it before a new one is made.
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      const Value &other = graph_[id];
      if (other.op == Op::set_indirect && other.args == value.args &&
          other.extent == value.extent && other.guard == guard &&
          module_.check_of(other.check).wraps == wraps) {
        indirect_[op.symbol] = other.symbol;
        return id;
      }
    }
    value.symbol = symbolic::symbol(SymbolSort::loaded, indirects_++);
    graph_.ranges.set_size(value.symbol, value.extent);
    indirect_[op.symbol] = value.symbol;
    return add(std::move(value));
  }
};

bool mentions(Expr index, std::span<const Expr> variables) {
  return std::any_of(variables.begin(), variables.end(),
                     [&](Expr variable) { return symbolic::depends_on(index, variable); });
}

} // namespace

bool is_same(const Value &a, const Value &b) {
  const auto sign = [](const Value &value) {
    const double *real = std::get_if<double>(&value.constant);
    return real != nullptr && std::signbit(*real);
  };
  return a == b && sign(a) == sign(b);
}

bool is_positive_zero(const tensor::Scalar &constant) {
  const double value = tensor::to_double(constant);
  return value == 0 && !std::signbit(value);
}

/// From the stores backwards; values are in the order of evaluation before and after.
void remove_dead_values(KernelGraph &graph) {
  std::vector<bool> live(graph.values.size(), false);
  for (const ValueId store : graph.stores)
    live[store] = true;
  for (size_t i = 0; i < graph.values.size(); ++i) // checked though no address depends on it
    if (graph.values[i].op == Op::set_indirect)
      live[i] = true;
  for (size_t i = graph.values.size(); i-- > 0;) {
    if (!live[i])
      continue;
    for (const ValueId arg : graph.values[i].args)
      live[arg] = true;
    if (graph.values[i].guard != ir::kNone)
      live[graph.values[i].guard] = true;
  }
  std::vector<ValueId> renumbered(graph.values.size(), ir::kNone);
  std::vector<Value> values;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (!live[i])
      continue;
    Value value = std::move(graph.values[i]);
    for (ValueId &arg : value.args)
      arg = renumbered[arg];
    if (value.guard != ir::kNone)
      value.guard = renumbered[value.guard];
    renumbered[i] = static_cast<ValueId>(values.size());
    values.push_back(std::move(value));
  }
  for (ValueId &store : graph.stores)
    store = renumbered[store];
  graph.values = std::move(values);
}

/// A phase is one walk over the elements of a row: what needs the result of a reduction has to wait
/// for all of them, and so comes in a later one.
void assign_phases(KernelGraph &graph) {
  graph.phases = 1;
  // Where nothing is a row, what is added is added for each element, be it the same for all.
  const bool is_flat =
      std::none_of(graph.values.begin(), graph.values.end(), [](const Value &value) {
        return value.op == Op::reduction || value.op == Op::scan || value.op == Op::sort;
      });
  const auto adds_each = [&](const Value &value) {
    return is_flat && !graph.element_variables.empty() && value.op == Op::store &&
           (value.mode == ir::StoreMode::atomic_add || value.mode == ir::StoreMode::atomic_mul);
  };
  for (Value &value : graph.values) {
    uint32_t phase = 0;
    bool element = adds_each(value) || mentions(value.index, graph.element_variables);
    const auto take = [&](ValueId id) {
      const Value &arg = graph.values[id];
      const bool splits = arg.op == Op::reduction || arg.op == Op::sort ||
                          (arg.op == Op::scan && graph.scans_end_phases);
      phase = std::max(phase, arg.phase + (splits ? 1 : 0));
      element = element || (arg.level == Level::element && arg.op != Op::reduction);
    };
    for (const ValueId arg : value.args)
      take(arg);
    if (value.guard != ir::kNone)
      take(value.guard);
    // A reduction runs in the phase of its input; its users are one later. It counts as an element
    // value there.
    value.phase = phase;
    const bool ends_phase =
        value.op == Op::reduction || value.op == Op::scan || value.op == Op::sort;
    value.level = element || ends_phase ? Level::element : Level::row;
    graph.phases = std::max(graph.phases, phase + 1);
  }
}

KernelGraph build_kernel_graph(const ir::Module &module, const scheduler::Group &group,
                               const GraphOptions &options) {
  require(!group.bodies.empty() && group.bodies.size() == group.members.size(), "codegen",
          "a group of loops comes without its bodies");
  // A reduction over everything may come with its loops counted as iteration loops: what it stores
  // does not move with them, so they all reduce. Whatever else the group holds then walks over the
  // elements of that one row.
  const auto reduces_all = [](const ir::LoopBody &body) {
    return body.iteration_count > 0 && !body.is_reduction() &&
           std::any_of(body.ops.begin(), body.ops.end(), [&](const ir::BodyOp &op) {
             return op.op == Op::store_reduction &&
                    !mentions(body.indices[op.index], body.variables);
           });
  };
  if (std::any_of(group.bodies.begin(), group.bodies.end(), reduces_all)) {
    scheduler::Group whole = group;
    for (ir::LoopBody &body : whole.bodies)
      body.iteration_count = 0;
    return build_kernel_graph(module, whole, options);
  }
  KernelGraph graph;
  graph.scans_end_phases = options.scans_end_phases;
  CommonLoops loops = common_loops(group, module.ranges);
  graph.reduces = !loops.row_variables.empty() ||
                  std::any_of(group.bodies.begin(), group.bodies.end(),
                              [](const ir::LoopBody &body) { return body.is_reduction(); });
  graph.row_variables = std::move(loops.row_variables);
  graph.row_sizes = std::move(loops.row_sizes);
  graph.element_variables = std::move(loops.element_variables);
  graph.element_sizes = std::move(loops.element_sizes);
  graph.ranges = module.ranges;
  for (size_t i = 0; i < graph.row_variables.size(); ++i)
    graph.ranges.set_size(graph.row_variables[i], graph.row_sizes[i]);
  for (size_t i = 0; i < graph.element_variables.size(); ++i)
    graph.ranges.set_size(graph.element_variables[i], graph.element_sizes[i]);
  Builder builder(module, group, options, graph);
  for (size_t m = 0; m < group.bodies.size(); ++m)
    builder.add_member(group.bodies[m], loops.of_member[m]);
  remove_dead_values(graph);
  join_guarded_loads(graph);
  guard_lookups(graph);
  order_row_elements(module, graph);
  divide_row_loops(module, graph);
  order_rows(module, graph);
  assign_phases(graph);
  if (!options.two_pass_statistics)
    join_softmax_statistics(graph);
  return graph;
}

} // namespace tsc::codegen
