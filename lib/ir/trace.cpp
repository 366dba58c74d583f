// Tracing: from the loop DAG to straight-line bodies, in the order in which nested calls would
// evaluate.
#include "ir/body.h"

#include "support/diagnostic.h"

#include <deque>
#include <optional>
#include <unordered_map>

namespace tsc::ir {

namespace {

using Index = std::vector<Expr>;

struct IndexHash {
  size_t operator()(const Index &index) const {
    size_t hash = index.size();
    for (Expr e : index)
      hash = hash * 0x9e3779b97f4a7c15ULL + static_cast<size_t>(e.hash());
    return hash;
  }
};

/// What identifies a value inside a body: a node, where it is evaluated, and under which mask.
struct ValueKey {
  LoopId node;
  uint32_t index;
  uint32_t block;
  friend bool operator==(const ValueKey &, const ValueKey &) = default;
};
struct ValueKeyHash {
  size_t operator()(const ValueKey &key) const {
    uint64_t hash = (static_cast<uint64_t>(key.node) << 32) ^
                    (static_cast<uint64_t>(key.index) << 8) ^ key.block;
    hash *= 0x9e3779b97f4a7c15ULL;
    return static_cast<size_t>(hash ^ (hash >> 29));
  }
};

class Tracer {
public:
  Tracer(const Module &module, LoopBody &body, bool simplify)
      : module_(module), body_(body), ranges_(body.ranges(module)), simplify_(simplify) {
    if (body_.blocks.empty())
      body_.blocks.emplace_back();
  }

  /// Evaluates `operand` (its index over variable(k)) where variable(k) = `index`[k], into block 0.
  uint32_t evaluate(const Operand &operand, const Index &index) {
    const uint32_t outer = intern(index);
    return run(operand.node, map_index(operand.index, outer), 0);
  }

  uint32_t emit(BodyOp op, uint32_t block) {
    const uint32_t id = static_cast<uint32_t>(body_.ops.size());
    body_.ops.push_back(std::move(op));
    body_.blocks[block].ops.push_back(id);
    return id;
  }

  /// Position of `expr`, simplified, among the body's distinct indices.
  uint32_t index_position(Expr expr) {
    const Expr simplified = simplify_ ? symbolic::simplify(expr, ranges_) : expr;
    const auto [it, inserted] =
        positions_.emplace(simplified, static_cast<uint32_t>(body_.indices.size()));
    if (inserted)
      body_.indices.push_back(simplified);
    return it->second;
  }

  /// Binds `value`, held to `extent` as row `check` of the module says, to a fresh index symbol (or
  /// the one that already stands for it in this block).
  Expr bind_indirect(uint32_t value, Expr extent, uint32_t check, uint32_t block) {
    const bool wraps = module_.check_of(check).wraps;
    for (const IndirectBinding &known : indirects_)
      if (known.value == value && known.extent == extent && known.wraps == wraps &&
          known.block == block)
        return known.symbol;
    BodyOp op;
    op.op = Op::set_indirect;
    op.dtype = DType::i64;
    op.args = {value};
    op.symbol = symbolic::symbol(symbolic::SymbolSort::indirect, indirects_.size());
    op.extent = extent;
    op.check = check;
    indirects_.push_back({value, block, wraps, op.symbol, extent});
    ranges_.set_size(op.symbol, extent);
    const Expr symbol = op.symbol;
    emit(std::move(op), block);
    return symbol;
  }

private:
  struct Frame {
    LoopId node;
    uint32_t index; // interned
    uint32_t block;
    size_t next = 0;            // operands asked for so far
    std::vector<uint32_t> args; // their ops
    uint32_t child = 0;         // masked: block of operand 1
  };
  struct IndirectBinding {
    uint32_t value;
    uint32_t block;
    bool wraps;
    Expr symbol;
    Expr extent;
  };
  struct Request { // the next operand that a frame needs
    LoopId node;
    uint32_t index;
    uint32_t block;
  };

  const Module &module_;
  LoopBody &body_;
  symbolic::Ranges ranges_;
  bool simplify_;
  std::unordered_map<Index, uint32_t, IndexHash> index_ids_;
  std::deque<Index> indices_;                        // by id; a deque so that references stay valid
  std::deque<symbolic::Substitution> substitutions_; // by id, made on first need
  std::unordered_map<ValueKey, uint32_t, ValueKeyHash> values_;
  std::unordered_map<ValueKey, uint32_t, ValueKeyHash> loads_; // by buffer, index position, block
  std::unordered_map<Expr, uint32_t, symbolic::ExprHash> positions_;
  std::vector<IndirectBinding> indirects_;

  uint32_t intern(Index index) {
    const auto [it, inserted] = index_ids_.emplace(index, static_cast<uint32_t>(indices_.size()));
    if (inserted) {
      indices_.push_back(std::move(index));
      substitutions_.emplace_back();
    }
    return it->second;
  }

  Expr map_expr(Expr e, uint32_t outer) {
    const Index &index = indices_[outer];
    if (e.is_integer())
      return e;
    if (e.is_symbol()) {
      for (size_t k = 0; k < index.size(); ++k)
        if (e == variable(k))
          return index[k];
      return e;
    }
    symbolic::Substitution &substitution = substitutions_[outer];
    if (substitution.empty())
      for (size_t k = 0; k < index.size(); ++k)
        substitution.emplace(variable(k), index[k]);
    return symbolic::substitute(e, substitution);
  }

  uint32_t map_index(const Index &inner, uint32_t outer) {
    bool identity = inner.size() == indices_[outer].size();
    for (size_t k = 0; identity && k < inner.size(); ++k)
      identity = inner[k] == variable(k);
    if (identity)
      return outer;
    Index result;
    result.reserve(inner.size());
    for (Expr e : inner)
      result.push_back(map_expr(e, outer));
    return intern(std::move(result));
  }

  uint32_t run(LoopId root, uint32_t index, uint32_t block) {
    uint32_t result = 0;
    std::vector<Frame> stack;
    const auto enter = [&](const Request &request) { // true if the value is there already
      const auto known = values_.find({request.node, request.index, request.block});
      if (known != values_.end()) {
        result = known->second;
        return true;
      }
      Frame frame;
      frame.node = request.node;
      frame.index = request.index;
      frame.block = request.block;
      stack.push_back(std::move(frame));
      return false;
    };
    enter({root, index, block});
    while (!stack.empty()) {
      Frame &frame = stack.back();
      if (const std::optional<Request> request = next_operand(frame)) {
        ++frame.next;
        if (enter(*request))
          frame.args.push_back(result);
        continue;
      }
      result = finish(frame);
      values_.emplace(ValueKey{frame.node, frame.index, frame.block}, result);
      stack.pop_back();
      if (!stack.empty())
        stack.back().args.push_back(result);
    }
    return result;
  }

  /// The operand that `frame` needs next, or nothing if all are there.
  std::optional<Request> next_operand(Frame &frame) {
    const LoopNode &node = module_.loops[frame.node];
    if (node.op == Op::view)
      return next_operand_of_view(frame, node);
    if (frame.next == node.operands.size())
      return std::nullopt;
    uint32_t block = frame.block;
    if (node.op == Op::masked && frame.next == 1) {
      frame.child = block = static_cast<uint32_t>(body_.blocks.size());
      body_.blocks.emplace_back();
    }
    const Operand &operand = node.operands[operand_position(node, frame.next)];
    return Request{operand.node, map_index(operand.index, frame.index), block};
  }

  /// Which operand is computed as number `next`: constants come last, right before the operation
  /// that takes them, as in TorchInductor's bodies.
  size_t operand_position(const LoopNode &node, size_t next) const {
    if (node.op == Op::masked)
      return next;
    size_t position = 0;
    for (const bool constants : {false, true}) {
      for (size_t k = 0; k < node.operands.size(); ++k) {
        const bool is_constant = module_.loops[node.operands[k].node].op == Op::constant;
        if (is_constant == constants && position++ == next)
          return k;
      }
    }
    return next;
  }

  /// Run-time indices first (each bound to a symbol), then the viewed value at the index that they
  /// give.
  std::optional<Request> next_operand_of_view(Frame &frame, const LoopNode &node) {
    if (frame.next == node.operands.size())
      return std::nullopt;
    if (frame.next + 1 < node.operands.size()) {
      const Operand &operand = node.operands[frame.next + 1];
      return Request{operand.node, map_index(operand.index, frame.index), frame.block};
    }
    symbolic::Substitution run_time;
    for (size_t k = 0; k < frame.args.size(); ++k) {
      const uint32_t extent_index = map_index({node.indirect_extents[k]}, frame.index);
      run_time.emplace(operand_value(k + 1), bind_indirect(frame.args[k], indices_[extent_index][0],
                                                           check_at(node.checks, k), frame.block));
    }
    const Operand &viewed = node.operands[0];
    uint32_t index = map_index(viewed.index, frame.index);
    if (!run_time.empty()) {
      Index result = indices_[index];
      for (Expr &e : result)
        e = symbolic::substitute(e, run_time);
      index = intern(std::move(result));
    }
    return Request{viewed.node, index, frame.block};
  }

  uint32_t finish(Frame &frame) {
    const LoopNode &node = module_.loops[frame.node];
    BodyOp op;
    op.op = node.op;
    op.dtype = node.dtype;
    switch (node.op) {
    case Op::view:
      return frame.args.back();
    case Op::load: {
      op.buffer = node.buffer;
      op.index = index_position(linear_index(node, indices_[frame.index]));
      // Two views of one buffer may name the same element.
      const auto [it, inserted] = loads_.emplace(ValueKey{op.buffer, op.index, frame.block},
                                                 static_cast<uint32_t>(body_.ops.size()));
      if (!inserted)
        return it->second;
      break;
    }
    case Op::constant:
    case Op::operand:
      op.constant = node.constant;
      break;
    case Op::index_expr:
      op.index = index_position(map_expr(node.expr, frame.index));
      break;
    case Op::masked: {
      const std::vector<uint32_t> &inside = body_.blocks[frame.child].ops;
      const uint32_t value = frame.args[1];
      if (inside.empty() || inside.back() != value) // a block's result is its last op
        emit(BodyOp(body_.ops[value]), frame.child);
      op.args = {frame.args[0]};
      op.block = frame.child;
      op.constant = node.constant;
      break;
    }
    default:
      op.args.resize(frame.args.size());
      for (size_t k = 0; k < frame.args.size(); ++k)
        op.args[operand_position(node, k)] = frame.args[k];
      op.source_dtype = node.source_dtype;
    }
    return emit(std::move(op), frame.block);
  }

  Expr linear_index(const LoopNode &node, const Index &index) const {
    const Layout &layout = node.layout ? *node.layout : module_.buffer(node.buffer).layout;
    std::vector<Expr> terms = {layout.offset};
    for (size_t k = 0; k < layout.rank(); ++k)
      if (!layout.sizes[k].is_integer(1))
        terms.push_back(index[k] * layout.strides[k]);
    return symbolic::sum(terms);
  }
};

/// All loops of an operation, iteration loops first, before sizes of 1 are dropped.
struct Loops {
  std::vector<Expr> sizes;
  size_t iteration_count = 0;
};

Loops loops_of(const Module &module, const Operation &operation) {
  Loops loops;
  loops.sizes = module.buffer(operation.outputs[0]).layout.sizes;
  loops.iteration_count = loops.sizes.size();
  if (const auto *scatter = std::get_if<Scatter>(&operation.kind)) {
    loops.sizes = scatter->sizes;
    loops.iteration_count = loops.sizes.size();
  } else if (const auto *reduction = std::get_if<Reduction>(&operation.kind)) {
    loops.sizes.insert(loops.sizes.end(), reduction->reduction_sizes.begin(),
                       reduction->reduction_sizes.end());
  } else if (const auto *scan = std::get_if<Scan>(&operation.kind)) {
    const Expr scanned = loops.sizes[scan->axis];
    loops.sizes.erase(loops.sizes.begin() + static_cast<std::ptrdiff_t>(scan->axis));
    loops.sizes.push_back(scanned);
    --loops.iteration_count;
  } else if (const auto *sort = std::get_if<Sort>(&operation.kind)) {
    loops.sizes.erase(loops.sizes.begin() + static_cast<std::ptrdiff_t>(sort->axis));
    loops.sizes.push_back(sort->length);
    --loops.iteration_count;
  }
  return loops;
}

/// Names a variable for every loop whose size is not 1; the others' index is 0.
Index name_variables(const Loops &loops, symbolic::SymbolSort sort, LoopBody &body) {
  Index index;
  for (size_t k = 0; k < loops.sizes.size(); ++k) {
    if (loops.sizes[k].is_integer(1)) {
      index.emplace_back(0);
      continue;
    }
    const Expr named = symbolic::symbol(sort, body.variables.size());
    body.variables.push_back(named);
    body.sizes.push_back(loops.sizes[k]);
    body.iteration_count += k < loops.iteration_count ? 1 : 0;
    index.push_back(named);
  }
  return index;
}

CombineFunction combine_of(const Module &module, const Scan &scan) {
  LoopBody body;
  Tracer tracer(module, body, true);
  auto code = std::make_shared<Combine>();
  for (const Operand &result : scan.combined) {
    code->results.push_back(tracer.evaluate(result, {}));
    code->types.push_back(module.loops[result.node].dtype);
  }
  for (const BodyOp &op : body.ops) {
    const bool has_meaning =
        op.op == Op::constant || op.op == Op::operand || operand_count(op.op) > 0;
    if (!has_meaning || is_random(op.op))
      throw support::InternalError("ir", "trace",
                                   "a scan combines with ops." + std::string(op_name(op.op)));
    code->ops.push_back({op.op, op.dtype, op.source_dtype, op.constant, op.args});
  }
  return {std::move(code)};
}

class OperationTracer {
public:
  OperationTracer(const Module &module, const Operation &operation, const Index &index,
                  LoopBody &body)
      : module_(module), output_(operation.outputs[0]), layout_(module.buffer(output_).layout),
        dtype_(module.buffer(output_).dtype), index_(index), tracer_(module, body, true) {}

  void trace(const Pointwise &pointwise) {
    store(Op::store, tracer_.evaluate(pointwise.value, index_), index_);
  }

  void trace(const Scatter &scatter) {
    symbolic::Substitution at;
    for (size_t k = 0; k < index_.size(); ++k)
      at.emplace(variable(k), index_[k]);
    for (size_t k = 0; k < scatter.indices.size(); ++k) {
      const uint32_t value = tracer_.evaluate(scatter.indices[k], index_);
      at.emplace(operand_value(k + 1),
                 tracer_.bind_indirect(value, scatter.extents[k], check_at(scatter.checks, k), 0));
    }
    Index target;
    for (Expr e : scatter.index)
      target.push_back(symbolic::substitute(e, at));
    const uint32_t value = tracer_.evaluate(scatter.value, index_);
    store(Op::store, value, target, scatter.mode);
  }

  void trace(const Reduction &reduction) {
    BodyOp op;
    op.op = Op::reduction;
    op.dtype = dtype_;
    op.source_dtype = reduction.source_dtype;
    op.reduction = reduction.kind;
    for (const Operand &input : reduction.inputs)
      op.args.push_back(tracer_.evaluate(input, index_));
    uint32_t value = tracer_.emit(std::move(op), 0);
    const size_t count = tuple_size(reduction.kind);
    if (count > 1)
      value = get_items(value, std::vector<DType>(count, dtype_))[reduction.item];
    store(Op::store_reduction, value,
          Index(index_.begin(), index_.begin() + iteration_rank(reduction)));
  }

  void trace(const Scan &scan) {
    BodyOp op;
    op.op = Op::scan;
    op.dtype = dtype_;
    op.scan = scan.kind;
    std::vector<DType> types = {dtype_};
    if (scan.kind == ScanKind::combine) {
      op.combine = combine_of(module_, scan);
      types = op.combine.code->types;
      op.dtype = types[0];
    }
    for (const Operand &input : scan.inputs)
      op.args.push_back(tracer_.evaluate(input, index_));
    const uint32_t scanned = tracer_.emit(std::move(op), 0);
    Index target(index_.begin(), index_.end() - 1);
    target.insert(target.begin() + static_cast<std::ptrdiff_t>(scan.axis),
                  scan.backwards ? layout_.sizes[scan.axis] - 1 - index_.back() : index_.back());
    store(Op::store, get_items(scanned, types)[scan.item], target);
  }

  void trace(const Sort &sort) {
    const DType values = sort.dtype;
    BodyOp op;
    op.op = Op::sort;
    op.args = {tracer_.evaluate(sort.input, index_)};
    op.dtype = values;
    op.descending = sort.descending;
    const uint32_t sorted = tracer_.emit(std::move(op), 0);
    BodyOp item;
    item.op = Op::get_item;
    item.dtype = sort.positions ? DType::i64 : values;
    item.args = {sorted};
    item.item = sort.positions ? 1 : 0;
    const uint32_t value = tracer_.emit(std::move(item), 0);
    const Expr place = index_.back(), count = layout_.sizes[sort.axis];
    std::optional<uint32_t> stored; // whether this place is
    if (!sort.first.is_integer(0))
      stored = compare(Op::ge, place, sort.first);
    if (sort.first + count != sort.length) {
      const uint32_t below = compare(Op::lt, place, sort.first + count);
      stored = stored ? both(*stored, below) : below;
    }
    Index target(index_.begin(), index_.end() - 1);
    target.insert(target.begin() + static_cast<std::ptrdiff_t>(sort.axis), place - sort.first);
    store(Op::store, value, target, StoreMode::plain, stored);
  }

  void trace(const Extern &) {
    throw support::InternalError("ir", "trace", "a library call has no loops");
  }

private:
  const Module &module_;
  BufferId output_;
  const Layout &layout_;
  DType dtype_;
  const Index &index_;
  Tracer tracer_;

  std::ptrdiff_t iteration_rank(const Reduction &reduction) const {
    return static_cast<std::ptrdiff_t>(index_.size() - reduction.reduction_sizes.size());
  }

  std::vector<uint32_t> get_items(uint32_t tuple, const std::vector<DType> &types) {
    std::vector<uint32_t> items;
    for (size_t item = 0; item < types.size(); ++item) {
      BodyOp op;
      op.op = Op::get_item;
      op.dtype = types[item];
      op.args = {tuple};
      op.item = static_cast<uint32_t>(item);
      items.push_back(tracer_.emit(std::move(op), 0));
    }
    return items;
  }

  uint32_t index_value(Expr expr) {
    BodyOp op;
    op.op = Op::index_expr;
    op.dtype = DType::i64;
    op.index = tracer_.index_position(expr);
    return tracer_.emit(std::move(op), 0);
  }
  uint32_t compare(Op comparison, Expr left, Expr right) {
    BodyOp op;
    op.op = comparison;
    op.dtype = DType::boolean;
    op.args = {index_value(left)};
    op.args.push_back(index_value(right));
    return tracer_.emit(std::move(op), 0);
  }
  uint32_t both(uint32_t left, uint32_t right) {
    BodyOp op;
    op.op = Op::logical_and;
    op.dtype = DType::boolean;
    op.args = {left, right};
    return tracer_.emit(std::move(op), 0);
  }

  void store(Op kind, uint32_t value, const Index &index, StoreMode mode = StoreMode::plain,
             std::optional<uint32_t> condition = std::nullopt) {
    BodyOp op;
    op.op = kind;
    op.dtype = dtype_;
    op.args = {value};
    if (condition)
      op.args.push_back(*condition);
    op.buffer = output_;
    op.mode = mode;
    op.index = tracer_.index_position(layout_.linear_index(index));
    tracer_.emit(std::move(op), 0);
  }
};

} // namespace

LoopBody trace(const Module &module, const Operation &operation, symbolic::SymbolSort sort) {
  LoopBody body;
  const Index index = name_variables(loops_of(module, operation), sort, body);
  OperationTracer tracer(module, operation, index, body);
  std::visit([&](const auto &kind) { tracer.trace(kind); }, operation.kind);
  return body;
}

LoopBody trace_value(const Module &module, LoopId node) {
  LoopBody body;
  Operand operand;
  operand.node = node;
  Index index;
  const std::vector<Expr> &sizes = module.loops[node].sizes;
  for (size_t k = 0; k < sizes.size(); ++k) {
    operand.index.push_back(variable(k));
    index.push_back(sizes[k].is_integer(1) ? Expr(0) : variable(k));
    body.variables.push_back(variable(k));
    body.sizes.push_back(sizes[k]);
  }
  body.iteration_count = sizes.size();
  Tracer(module, body, false).evaluate(operand, index);
  return body;
}

LoopBody trace_operand(const Module &module, const Operand &operand, std::span<const Expr> sizes,
                       uint32_t &result) {
  LoopBody body;
  Index index;
  for (size_t k = 0; k < sizes.size(); ++k) {
    index.push_back(sizes[k].is_integer(1) ? Expr(0) : variable(k));
    body.variables.push_back(variable(k));
    body.sizes.push_back(sizes[k]);
  }
  body.iteration_count = sizes.size();
  result = Tracer(module, body, true).evaluate(operand, index);
  return body;
}

} // namespace tsc::ir
