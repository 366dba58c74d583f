// From the loop DAG to a tape.
#include "interpret/tape.h"

#include "support/diagnostic.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <span>

namespace tsc::interpret {
namespace {

using Index = std::vector<Expr>;
using Code = Instruction::Code;

struct IndexHash {
  size_t operator()(const Index &index) const {
    uint64_t hash = index.size();
    for (Expr e : index)
      hash = hash * 0x9e3779b97f4a7c15ull + e.hash();
    return static_cast<size_t>(hash);
  }
};

struct Key { // a value: node (or expression number), index, region
  uint32_t node, index;
  RegionId region;
  friend bool operator==(const Key &, const Key &) = default;
};
struct KeyHash {
  size_t operator()(const Key &key) const {
    uint64_t hash = (uint64_t{key.node} << 32 | key.index) * 0x9e3779b97f4a7c15ull + key.region;
    return static_cast<size_t>(hash ^ (hash >> 31));
  }
};

bool takes_any_kind(Op op) { // operands decide the kind of column, the result is bool
  switch (op) {
  case Op::eq:
  case Op::ne:
  case Op::lt:
  case Op::le:
  case Op::gt:
  case Op::ge:
  case Op::logical_and:
  case Op::logical_or:
  case Op::logical_xor:
  case Op::logical_not:
  case Op::isnan:
  case Op::isinf:
  case Op::signbit:
    return true;
  default:
    return false;
  }
}

} // namespace

class TapeBuilder::Impl {
public:
  Impl(const ir::Module &module, const symbolic::Bindings &bindings, bool round)
      : module_(module), round_(round), parents_{0} {
    tape_.module = &module;
    for (const auto &binding : bindings) {
      sizes_.emplace(binding.first, Expr(binding.second));
      positive_sizes_.emplace(binding.first, Expr(std::max<int64_t>(binding.second, 1)));
      any_is_zero_ = any_is_zero_ || binding.second == 0;
    }
  }

  ValueId value(const ir::Operand &operand, DType dtype) {
    uint32_t index = intern(operand.index);
    return as_kind(run({operand.node, index, 0}), dtype, 0);
  }

  Expr bind_run_time(ValueId value, Expr extent, uint32_t check, RegionId region) {
    Instruction wrap;
    wrap.code = Code::wrap;
    wrap.number = check;
    wrap.region = region;
    wrap.args = {as_kind(value, DType::i64, region), index(extent, region)};
    Expr symbol = symbolic::symbol(symbolic::SymbolSort::run_time, run_time_.size());
    run_time_.emplace(symbol, emit(std::move(wrap)));
    return symbol;
  }

  ValueId index(Expr e, RegionId region) {
    // What divides by a size of 0 is a place in a tensor without elements, which nobody reads.
    return compile(
        symbolic::substitute(e, any_is_zero_ && has_zero_divisor(e) ? positive_sizes_ : sizes_),
        region);
  }

  DType dtype_of(ValueId value) const { return tape_.instructions[value].dtype; }

  Tape finish(std::vector<ValueId> kept) {
    assign_registers(kept);
    tape_.region_count = parents_.size();
    return std::move(tape_);
  }

private:
  struct Frame {
    Key key;
    size_t next = 0;
    std::vector<ValueId> args;
    RegionId inner = 0; // masked: region of operand 1
  };

  // ---- indices
  // -----------------------------------------------------------------------------------

  bool has_zero_divisor(Expr e) const {
    const std::span<const Expr> operands =
        e.is_integer() || e.is_symbol() ? std::span<const Expr>() : e.operands();
    const symbolic::Kind kind = operands.empty() ? symbolic::Kind::integer : e.kind();
    const bool divides = kind == symbolic::Kind::floor_div || kind == symbolic::Kind::mod ||
                         kind == symbolic::Kind::modular_index;
    for (size_t k = 0; k < operands.size(); ++k)
      if (has_zero_divisor(operands[k]) ||
          (divides && k > 0 && !operands[k].is_integer() &&
           symbolic::substitute(operands[k], sizes_).is_integer(0)))
        return true;
    return false;
  }

  uint32_t intern(Index index) {
    auto [it, inserted] = index_ids_.emplace(index, static_cast<uint32_t>(indices_.size()));
    if (inserted)
      indices_.push_back(std::move(index));
    return it->second;
  }

  symbolic::Substitution substitution_for(uint32_t outer) const {
    symbolic::Substitution replacements;
    for (size_t k = 0; k < indices_[outer].size(); ++k)
      replacements.emplace(ir::variable(k), indices_[outer][k]);
    return replacements;
  }

  uint32_t compose(const Index &inner, uint32_t outer,
                   const symbolic::Substitution &run_time = {}) {
    bool same = inner.size() == indices_[outer].size();
    for (size_t k = 0; same && k < inner.size(); ++k)
      same = inner[k] == ir::variable(k);
    if (same)
      return outer;
    symbolic::Substitution replacements = substitution_for(outer);
    replacements.insert(run_time.begin(), run_time.end());
    Index result;
    for (Expr e : inner)
      result.push_back(symbolic::substitute(e, replacements));
    return intern(std::move(result));
  }

  /// Nesting of expressions is bounded (symbolic: TSC-G092), so this may recurse.
  ValueId compile(Expr e, RegionId region) {
    if (e.is_symbol()) {
      auto found = run_time_.find(e);
      if (found != run_time_.end())
        return found->second;
    }
    for (RegionId r = region;; r = parents_[r]) {
      auto found = compiled_.find({e.hash(), r});
      if (found != compiled_.end() && found->second.first == e)
        return found->second.second;
      if (r == 0)
        break;
    }
    Instruction made;
    made.region = region;
    switch (e.kind()) {
    case symbolic::Kind::integer:
      made.code = Code::constant;
      made.number = e.value();
      break;
    case symbolic::Kind::symbol:
      made.code = Code::variable;
      made.number = variable_number(e);
      made.region = region = 0;
      break;
    case symbolic::Kind::add:
      made.code = Code::linear;
      for (Expr term : e.operands())
        add_term(made, term, region);
      break;
    case symbolic::Kind::identity:
      return compile(e.operands()[0], region);
    default:
      return compile_chain(e, region);
    }
    return remember(e, region, emit(std::move(made)));
  }

  void add_term(Instruction &sum, Expr term, RegionId region) {
    if (term.is_integer()) {
      sum.number = term.value();
      return;
    }
    int64_t coefficient = 1;
    if (term.kind() == symbolic::Kind::mul && term.operands()[0].is_integer()) {
      coefficient = term.operands()[0].value();
      term = symbolic::product(term.operands().subspan(1));
    }
    sum.args.push_back(compile(term, region));
    sum.coefficients.push_back(coefficient);
  }

  /// Left-to-right over the operands: products, powers, divisions, extremes.
  ValueId compile_chain(Expr e, RegionId region) {
    using symbolic::Kind;
    std::vector<Expr> operands(e.operands().begin(), e.operands().end());
    Code code = e.kind() == Kind::floor_div || e.kind() == Kind::modular_index
                    ? Code::floor_quotient
                : e.kind() == Kind::mod     ? Code::remainder
                : e.kind() == Kind::minimum ? Code::smallest
                : e.kind() == Kind::maximum ? Code::largest
                                            : Code::product;
    if (e.kind() == Kind::power)
      operands.assign(static_cast<size_t>(e.operands()[1].value()), e.operands()[0]);
    ValueId result = compile(operands[0], region);
    for (size_t i = 1; i < operands.size(); ++i) {
      ValueId right = compile(operands[i], region);
      Instruction step;
      step.code = e.kind() == Kind::modular_index && i == 2 ? Code::remainder : code;
      step.region = region;
      step.args = {result, right};
      result = emit(std::move(step));
    }
    return remember(e, region, result);
  }

  ValueId remember(Expr e, RegionId region, ValueId value) {
    compiled_[{e.hash(), region}] = {e, value};
    return value;
  }

  static int64_t variable_number(Expr e) {
    support::require(e.sort() == symbolic::SymbolSort::dimension, "interpret",
                     "no value for symbol " + e.spelling() + " in an index expression");
    return static_cast<int64_t>(e.number());
  }

  // ---- values
  // --------------------------------------------------------------------------------------

  ValueId emit(Instruction instruction) {
    tape_.instructions.push_back(std::move(instruction));
    return static_cast<ValueId>(tape_.instructions.size() - 1);
  }

  /// `value` in a column of dtype's kind: a cast if the kinds differ.
  ValueId as_kind(ValueId value, DType dtype, RegionId region) {
    DType source = dtype_of(value);
    if (tensor::is_floating(source) == tensor::is_floating(dtype))
      return value;
    Instruction cast;
    cast.code = Code::convert;
    cast.region = region;
    cast.dtype = dtype;
    cast.source_dtype = source;
    cast.args = {value};
    return emit(std::move(cast));
  }

  const ValueId *find(Key key) const {
    for (;; key.region = parents_[key.region]) {
      auto found = values_.find(key);
      if (found != values_.end())
        return &found->second;
      if (key.region == 0)
        return nullptr;
    }
  }

  ValueId run(Key root) {
    if (const ValueId *known = find(root))
      return *known;
    std::vector<Frame> stack{{root, 0, {}, 0}};
    ValueId result = 0;
    while (!stack.empty()) {
      std::optional<Key> wanted = next_operand(stack.back());
      if (wanted) {
        ++stack.back().next;
        if (const ValueId *known = find(*wanted))
          stack.back().args.push_back(*known);
        else
          stack.push_back({*wanted, 0, {}, 0});
        continue;
      }
      result = finish_node(stack.back());
      values_.emplace(stack.back().key, result);
      stack.pop_back();
      if (!stack.empty())
        stack.back().args.push_back(result);
    }
    return result;
  }

  std::optional<Key> next_operand(Frame &frame) {
    const ir::LoopNode &node = module_.loops[frame.key.node];
    size_t count = node.operands.size();
    if (frame.next == count)
      return std::nullopt;
    size_t which = frame.next;
    RegionId region = frame.key.region;
    symbolic::Substitution run_time;
    if (node.op == Op::view) { // operands 1.. first, then the viewed value
      which = (frame.next + 1) % count;
      if (which == 0) {
        for (size_t k = 0; k + 1 < count; ++k) {
          Expr extent =
              symbolic::substitute(node.indirect_extents[k], substitution_for(frame.key.index));
          Expr symbol = bind_run_time(frame.args[k], extent, ir::check_at(node.checks, k), region);
          run_time.emplace(ir::operand_value(k + 1), symbol);
        }
      }
    } else if (node.op == Op::masked && which == 1) {
      frame.inner = region = region_of(frame.args[0], region);
    }
    const ir::Operand &operand = node.operands[which];
    return Key{operand.node, compose(operand.index, frame.key.index, run_time), region};
  }

  RegionId region_of(ValueId mask, RegionId outer) {
    mask = as_kind(mask, DType::boolean, outer);
    auto [it, inserted] =
        regions_.emplace(uint64_t{mask} << 32 | outer, static_cast<RegionId>(parents_.size()));
    if (inserted) {
      parents_.push_back(outer);
      Instruction start;
      start.code = Code::region;
      start.region = outer;
      start.number = it->second;
      start.args = {mask};
      emit(std::move(start));
    }
    return it->second;
  }

  ValueId finish_node(Frame &frame) {
    const ir::LoopNode &node = module_.loops[frame.key.node];
    RegionId region = frame.key.region;
    Instruction made;
    made.region = region;
    made.dtype = node.dtype;
    switch (node.op) {
    case Op::view:
      return frame.args.back();
    case Op::load: {
      const tensor::Layout &layout =
          node.layout ? *node.layout : module_.buffer(node.buffer).layout;
      made.code = Code::load;
      made.buffer = node.buffer;
      made.args = {index(layout.linear_index(indices_[frame.key.index]), region)};
      return emit(std::move(made));
    }
    case Op::constant:
      made.code = Code::constant;
      set_constant(made, node.constant);
      return emit(std::move(made));
    case Op::operand:
      made.code = Code::operand;
      made.number = std::get<int64_t>(node.constant);
      return emit(std::move(made));
    case Op::index_expr: {
      Expr e = symbolic::substitute(node.expr, substitution_for(frame.key.index));
      const ValueId position = index(e, region);
      if (!tensor::is_integral(node.dtype) || node.dtype == DType::i64)
        return as_kind(position, node.dtype, region);
      made.code = Code::convert; // wraps in a narrower dtype, as in kernels
      made.source_dtype = DType::i64;
      made.args = {position};
      return emit(std::move(made));
    }
    case Op::masked:
      made.code = Code::select;
      made.args = {as_kind(frame.args[0], DType::boolean, region),
                   as_kind(frame.args[1], node.dtype, frame.inner)};
      set_constant(made, node.constant);
      return emit(std::move(made));
    case Op::to_dtype:
      made.code = Code::convert;
      made.args = std::move(frame.args);
      made.source_dtype = dtype_of(made.args[0]);
      return emit(std::move(made));
    default:
      return finish_elementwise(frame, std::move(made));
    }
  }

  ValueId finish_elementwise(Frame &frame, Instruction made) {
    const ir::LoopNode &node = module_.loops[frame.key.node];
    support::require(ir::operand_count(node.op) == static_cast<int>(frame.args.size()), "interpret",
                     "operand count of ops." + std::string(ir::op_name(node.op)));
    made.code = Code::apply;
    made.op = node.op;
    DType operand_dtype = ir::is_random(node.op) ? DType::i64 : node.dtype;
    if (takes_any_kind(node.op)) {
      // Floats if any operand is one; the operands' dtype matters for unsigned comparison.
      operand_dtype = dtype_of(frame.args[0]);
      for (ValueId arg : frame.args)
        if (tensor::is_floating(dtype_of(arg)))
          operand_dtype = dtype_of(arg);
      if (!tensor::is_floating(operand_dtype) && (node.op == Op::isnan || node.op == Op::isinf))
        operand_dtype = DType::f64;
    }
    made.source_dtype = node.op == Op::to_dtype_bitcast ? dtype_of(frame.args[0]) : operand_dtype;
    for (size_t i = 0; i < frame.args.size(); ++i)
      if (node.op == Op::to_dtype_bitcast)
        made.args.push_back(frame.args[i]);
      else if (node.op == Op::where && i == 0)
        made.args.push_back(as_kind(frame.args[i], DType::boolean, made.region));
      else
        made.args.push_back(as_kind(frame.args[i], operand_dtype, made.region));
    return emit(std::move(made));
  }

  void set_constant(Instruction &made, const tensor::Scalar &scalar) const {
    if (made.is_float()) {
      made.real = tensor::to_double(scalar);
      if (round_) // half types are computed in f32: lowering rounds what PyTorch rounds further
        made.real =
            round_to(tensor::is_reduced_float(made.dtype) ? DType::f32 : made.dtype, made.real);
      return;
    }
    tensor::Scalar cast = tensor::cast_scalar(scalar, made.dtype);
    if (const bool *truth = std::get_if<bool>(&cast))
      made.number = *truth ? 1 : 0;
    else
      made.number = std::get<int64_t>(cast);
  }

  // ---- registers
  // -----------------------------------------------------------------------------------

  /// A register is free again after the last instruction that reads it.
  void assign_registers(const std::vector<ValueId> &kept) {
    std::vector<Instruction> &instructions = tape_.instructions;
    std::vector<size_t> last_use(instructions.size());
    for (size_t i = 0; i < instructions.size(); ++i) {
      last_use[i] = i;
      for (ValueId arg : instructions[i].args)
        last_use[arg] = i;
    }
    for (ValueId value : kept)
      last_use[value] = std::numeric_limits<size_t>::max();
    std::vector<std::vector<ValueId>> dying(instructions.size());
    for (ValueId value = 0; value < instructions.size(); ++value)
      if (last_use[value] < instructions.size())
        dying[last_use[value]].push_back(value);
    std::vector<uint32_t> free_floats, free_integers;
    for (size_t i = 0; i < instructions.size(); ++i) {
      Instruction &instruction = instructions[i];
      std::vector<uint32_t> &free = instruction.is_float() ? free_floats : free_integers;
      uint32_t &count = instruction.is_float() ? tape_.float_registers : tape_.integer_registers;
      if (free.empty()) {
        instruction.result = count++;
      } else {
        instruction.result = free.back();
        free.pop_back();
      }
      for (ValueId value : dying[i])
        (instructions[value].is_float() ? free_floats : free_integers)
            .push_back(instructions[value].result);
    }
  }

  struct CompiledKey {
    uint64_t hash;
    RegionId region;
    friend bool operator==(const CompiledKey &, const CompiledKey &) = default;
  };
  struct CompiledKeyHash {
    size_t operator()(const CompiledKey &key) const {
      return static_cast<size_t>(key.hash + key.region * 0x9e3779b97f4a7c15ull);
    }
  };

  const ir::Module &module_;
  bool round_;
  symbolic::Substitution sizes_;          // size symbols -> integers
  symbolic::Substitution positive_sizes_; // the same, 1 for 0
  bool any_is_zero_ = false;
  Tape tape_;
  std::unordered_map<Index, uint32_t, IndexHash> index_ids_;
  std::deque<Index> indices_; // references stay valid
  std::unordered_map<Key, ValueId, KeyHash> values_;
  std::unordered_map<CompiledKey, std::pair<Expr, ValueId>, CompiledKeyHash> compiled_;
  std::unordered_map<Expr, ValueId, symbolic::ExprHash> run_time_;
  std::unordered_map<uint64_t, RegionId> regions_;
  std::vector<RegionId> parents_; // by region
};

TapeBuilder::TapeBuilder(const ir::Module &module, const symbolic::Bindings &bindings, bool round)
    : impl_(std::make_unique<Impl>(module, bindings, round)) {}
TapeBuilder::~TapeBuilder() = default;
ValueId TapeBuilder::value(const ir::Operand &operand, DType dtype) {
  return impl_->value(operand, dtype);
}
Expr TapeBuilder::bind_run_time(ValueId value, Expr extent, uint32_t check) {
  return impl_->bind_run_time(value, extent, check, 0);
}
ValueId TapeBuilder::index(Expr e) { return impl_->index(e, 0); }
DType TapeBuilder::dtype_of(ValueId value) const { return impl_->dtype_of(value); }
Tape TapeBuilder::finish(std::vector<ValueId> kept) { return impl_->finish(std::move(kept)); }

} // namespace tsc::interpret
