#include "codegen/score_text.h"

#include "codegen/expression.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <cmath>

namespace tsc::codegen {

namespace {

using ir::BodyOp;
using ir::Op;

struct Traced {
  ir::LoopBody body;
  uint32_t result = 0;
};
std::vector<Traced> traced(const ir::Module &module, const ir::ScoreFunctions &scores) {
  std::vector<Traced> all(scores.seen ? 2 : 1);
  all[0].body = ir::trace_operand(module, scores.score, scores.sizes, all[0].result);
  if (scores.seen)
    all[1].body = ir::trace_operand(module, *scores.seen, scores.sizes, all[1].result);
  return all;
}

/// Bounds of a value that is computed of positions alone.
std::optional<symbolic::Interval> range_of(const ir::LoopBody &body, uint32_t id,
                                           const symbolic::Ranges &ranges) {
  constexpr int64_t kFar = int64_t{1} << 30; // of an interval that 32 bits hold
  const BodyOp &op = body.ops[id];
  std::optional<symbolic::Interval> result;
  if (op.op == Op::index_expr) {
    result = symbolic::bounds(body.indices[op.index], ranges);
  } else if (op.op == Op::constant) {
    if (const auto *number = std::get_if<int64_t>(&op.constant))
      result = symbolic::Interval{*number, *number};
  } else if (op.op == Op::to_dtype && tensor::is_integral(op.dtype)) {
    result = range_of(body, op.args[0], ranges);
  } else if (op.op == Op::add || op.op == Op::sub || op.op == Op::minimum || op.op == Op::maximum) {
    const auto a = range_of(body, op.args[0], ranges), b = range_of(body, op.args[1], ranges);
    if (a && b && op.op == Op::add)
      result = symbolic::Interval{a->low + b->low, a->high + b->high};
    else if (a && b && op.op == Op::sub)
      result = symbolic::Interval{a->low - b->high, a->high - b->low};
    else if (a && b && op.op == Op::minimum)
      result = symbolic::Interval{std::min(a->low, b->low), std::min(a->high, b->high)};
    else if (a && b)
      result = symbolic::Interval{std::max(a->low, b->low), std::max(a->high, b->high)};
  }
  if (result && (result->low < -kFar || result->high > kFar))
    return std::nullopt;
  return result;
}

/// Whether a run-time index always points somewhere, and counts from the front.
bool is_in_range(const ir::LoopBody &body, const BodyOp &op, const symbolic::Ranges &ranges) {
  const auto range = range_of(body, op.args[0], ranges);
  return range && range->low >= 0 && range->high < symbolic::bounds(op.extent, ranges).low;
}

class FunctionText {
public:
  FunctionText(const ir::Module &module, const ir::LoopBody &body, const Parameters &parameters,
               std::set<std::string> &members)
      : module_(module), body_(body), parameters_(parameters), members_(members),
        ranges_(body.ranges(module)), texts_(body.ops.size()) {}

  std::string print(uint32_t result, DType as) {
    block(0, 2);
    const std::string text = converted(texts_[result], body_.ops[result].dtype, as);
    return text_ + "    return " + text + ";\n";
  }
  bool has_series() const {
    return std::any_of(body_.ops.begin(), body_.ops.end(), [](const BodyOp &op) {
      return ir::operand_count(op.op) > 0 && ir::op_cost(op.op) == ir::OpCost::series;
    });
  }

private:
  const ir::Module &module_;
  const ir::LoopBody &body_;
  const Parameters &parameters_;
  std::set<std::string> &members_;
  symbolic::Ranges ranges_;
  std::vector<std::string> texts_; // of ops, as operands
  std::string text_;

  void line(size_t depth, const std::string &text) {
    text_ += std::string(depth * 2, ' ') + text + "\n";
  }
  std::string number(Expr e) {
    for (const Expr symbol : symbolic::free_symbols(e))
      if (symbol.sort() == symbolic::SymbolSort::size ||
          symbol.sort() == symbolic::SymbolSort::data)
        members_.insert(symbol.spelling());
    return symbolic::print_cpp(e, ranges_);
  }

  void block(uint32_t which, size_t depth) {
    for (const uint32_t id : body_.blocks[which].ops) {
      const BodyOp &op = body_.ops[id];
      if (op.op == Op::set_indirect) {
        bind(op, depth);
        continue;
      }
      if (op.op == Op::masked) {
        masked(id, depth);
        continue;
      }
      texts_[id] = is_soft_cap(id) ? "tc_quick_tanh(" + texts_[op.args[0]] + ")" : text_of(op);
      if (op.op == Op::constant || op.op == Op::operand)
        continue;
      const std::string name = "r" + std::to_string(id);
      line(depth,
           "const " + std::string(value_type(op.dtype)) + " " + name + " = " + texts_[id] + ";");
      texts_[id] = name;
    }
  }
  /// A tanh that is the score, or that a number of no more than `kLargest` multiplies, and that
  /// then is only added to, compared or chosen: what counts is how far, not by what ratio, it is
  /// off.
  bool is_soft_cap(uint32_t id) const {
    if (body_.ops[id].op != Op::tanh || body_.ops[id].dtype != DType::f32)
      return false;
    constexpr double kLargest = 1024;
    const auto scales = [&](const BodyOp &op) {
      return op.op == Op::mul && std::any_of(op.args.begin(), op.args.end(), [&](uint32_t arg) {
               const auto *cap = std::get_if<double>(&body_.ops[arg].constant);
               return body_.ops[arg].op == Op::constant && cap && std::abs(*cap) <= kLargest;
             });
    };
    const auto keeps = [](Op op) {
      return op == Op::add || op == Op::sub || op == Op::where || op == Op::minimum ||
             op == Op::maximum;
    };
    std::vector<bool> scaled(body_.ops.size(), false);
    for (uint32_t user = 0; user < body_.ops.size(); ++user) // behind what they use
      for (const uint32_t arg : body_.ops[user].args) {
        if (arg != id && !scaled[arg])
          continue;
        if (arg == id ? !scales(body_.ops[user]) : !keeps(body_.ops[user].op))
          return false;
        scaled[user] = true;
      }
    return std::none_of(body_.blocks.begin() + 1, body_.blocks.end(), [&](const auto &block) {
      return !block.ops.empty() && (block.ops.back() == id || scaled[block.ops.back()]);
    });
  }
  void bind(const BodyOp &op, size_t depth) {
    const std::string start = "const long long " + op.symbol.spelling() + " = ";
    ranges_.set_size(op.symbol, op.extent);
    if (is_in_range(body_, op, ranges_)) {
      line(depth, start + texts_[op.args[0]] + ";");
      return;
    }
    members_.insert(kFailure);
    members_.insert(kCheck);
    const auto place = std::find(parameters_.checks.begin(), parameters_.checks.end(), op.check);
    const std::string extent = number(op.extent);
    line(depth, start + "tc_check_index(" + texts_[op.args[0]] + ", " +
                    (module_.check_of(op.check).wraps ? number(Expr(0) - op.extent) : "0") + ", " +
                    extent + ", " + kFailure + ", " + kCheck + " + " +
                    std::to_string(place - parameters_.checks.begin()) + ");");
  }
  void masked(uint32_t id, size_t depth) {
    const BodyOp &op = body_.ops[id];
    const std::string name = "r" + std::to_string(id), type(value_type(op.dtype));
    line(depth, type + " " + name + " = " + literal(op.constant, op.dtype) + ";");
    line(depth, "if (" + texts_[op.args[0]] + ") {");
    block(op.block, depth + 1);
    const uint32_t last = body_.blocks[op.block].ops.back();
    line(depth + 1, name + " = " + converted(texts_[last], body_.ops[last].dtype, op.dtype) + ";");
    line(depth, "}");
    texts_[id] = name;
  }
  /// What the prelude has for functions of scores in place of an operation that is a call, or
  /// branches, on a device.
  std::string_view straight_form(const BodyOp &op) const {
    const bool of_floats =
        op.dtype == DType::f32 && std::all_of(op.args.begin(), op.args.end(), [&](uint32_t arg) {
          return body_.ops[arg].dtype == DType::f32;
        });
    if (!of_floats || op.op != Op::truediv)
      return {};
    const BodyOp &divisor = body_.ops[op.args[1]];
    const bool inverts = divisor.op == Op::constant &&
                         std::isnormal(1 / static_cast<float>(tensor::to_double(divisor.constant)));
    return inverts ? "tc_score_part" : "tc_score_quotient";
  }
  static std::string call_of(std::string_view function,
                             const std::vector<ArgumentText> &arguments) {
    std::string list;
    for (const ArgumentText &argument : arguments)
      list += (list.empty() ? "" : ", ") + argument.text;
    return std::string(function) + "(" + list + ")";
  }
  std::string text_of(const BodyOp &op) {
    switch (op.op) {
    case Op::constant:
      return literal(op.constant, op.dtype);
    case Op::operand:
      return "score";
    case Op::index_expr:
      return "static_cast<" + std::string(value_type(op.dtype)) + ">(" +
             number(body_.indices[op.index]) + ")";
    case Op::load: {
      const std::string &base = parameters_.name_of(module_.storage_of(op.buffer));
      members_.insert(base);
      const std::string load = "tc_get(" + base + "[" + number(body_.indices[op.index]) + "])";
      std::string where; // no run-time index is right in a dimension without elements
      for (const Expr symbol : symbolic::free_symbols(body_.indices[op.index]))
        for (const BodyOp &bound : body_.ops)
          if (bound.op == Op::set_indirect && bound.symbol == symbol &&
              symbolic::bounds(bound.extent, ranges_).low < 1)
            where += (where.empty() ? "" : " && ") + number(bound.extent) + " > 0";
      return where.empty()
                 ? load
                 : where + " ? " + load + " : " + literal(tensor::Scalar(int64_t{0}), op.dtype);
    }
    default: {
      support::require(ir::operand_count(op.op) > 0 && !ir::is_random(op.op), "codegen",
                       "a function of scores has ops." + std::string(ir::op_name(op.op)));
      Value value;
      value.op = op.op;
      value.dtype = op.dtype;
      value.source_dtype = op.source_dtype;
      std::vector<ArgumentText> arguments;
      for (const uint32_t arg : op.args)
        arguments.push_back({texts_[arg], body_.ops[arg].dtype});
      const std::string_view straight = straight_form(op);
      return straight.empty() ? operation_text(value, arguments) : call_of(straight, arguments);
    }
    }
  }
};

} // namespace

void add_function_sizes(const ir::Module &module, const ir::ScoreFunctions &scores,
                        std::set<Expr, symbolic::ExprLess> &sizes) {
  const auto add = [&](Expr e) {
    for (const Expr symbol : symbolic::free_symbols(e))
      if (symbol.sort() == symbolic::SymbolSort::size ||
          symbol.sort() == symbolic::SymbolSort::data)
        sizes.insert(symbol);
  };
  for (const Traced &each : traced(module, scores)) {
    std::for_each(each.body.indices.begin(), each.body.indices.end(), add);
    for (const BodyOp &op : each.body.ops)
      if (op.op == Op::set_indirect)
        add(op.extent);
  }
}

std::vector<uint32_t> function_checks(const ir::Module &module, const ir::ScoreFunctions &scores) {
  std::vector<uint32_t> checks;
  for (const Traced &each : traced(module, scores)) {
    const symbolic::Ranges ranges = each.body.ranges(module);
    for (const BodyOp &op : each.body.ops)
      if (op.op == Op::set_indirect && !is_in_range(each.body, op, ranges) &&
          std::find(checks.begin(), checks.end(), op.check) == checks.end())
        checks.push_back(op.check);
  }
  return checks;
}

ScoreText score_text(const ir::Module &module, const ir::ScoreFunctions &scores,
                     const Parameters &parameters, const std::string &name) {
  const std::vector<Traced> all = traced(module, scores);
  std::set<std::string> members;
  ScoreText result;
  const auto function = [&](const Traced &each, DType as) {
    FunctionText text(module, each.body, parameters, members);
    std::string body = text.print(each.result, as);
    result.has_series = result.has_series || text.has_series();
    return body;
  };
  std::string functions =
      "  TC_MEMBER float changed([[maybe_unused]] float score, [[maybe_unused]] long long i0, "
      "[[maybe_unused]] long long i1,\n                          [[maybe_unused]] long long i2, "
      "[[maybe_unused]] long long i3) const {\n" +
      function(all[0], DType::f32) + "  }\n";
  functions += "  TC_MEMBER bool seen([[maybe_unused]] long long i0, [[maybe_unused]] long long "
               "i1, [[maybe_unused]] long long i2,\n                      [[maybe_unused]] long "
               "long i3) const {\n" +
               (all.size() > 1 ? function(all[1], DType::boolean) : "    return true;\n") + "  }\n";
  std::string declared;
  for (const program::KernelParameter &parameter : parameters.list) {
    if (members.count(parameter.name) == 0)
      continue;
    result.members.push_back(parameter.name);
    if (parameter.kind == program::KernelParameter::Kind::size)
      declared += "  long long " + parameter.name + ";\n";
    else
      declared += "  " + std::string(parameter.is_const ? "const " : "") +
                  std::string(storage_type(parameter.dtype)) + " *" + parameter.name + ";\n";
  }
  const bool hides = all.size() > 1;
  result.structure =
      "struct " + name + " : tc_score_functions<" + std::string(hides ? "true" : "false") + ", " +
      std::to_string(scores.block_rows) + ", " + std::to_string(scores.block_columns) + "> {\n" +
      declared + functions + "};\n\n";
  return result;
}

} // namespace tsc::codegen
