#include "codegen/combine_text.h"

#include "codegen/expression.h"

#include <algorithm>

namespace tsc::codegen {

namespace {

using ir::CombineOp;
using ir::Op;

std::string member(size_t number) { return "m" + std::to_string(number); }

bool is_float(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32;
}

class CombineText {
public:
  explicit CombineText(const ir::Combine &combine) : combine_(combine) {}

  /// Statements, then what is returned.
  std::string body() {
    std::string text, results;
    for (uint32_t id = 0; id < combine_.ops.size(); ++id) {
      texts_.push_back(text_of(combine_.ops[id]));
      if (ir::operand_count(combine_.ops[id].op) <= 0)
        continue;
      const std::string name = "r" + std::to_string(id);
      text += "    const " + std::string(value_type(combine_.ops[id].dtype)) + " " + name + " = " +
              texts_.back() + ";\n";
      texts_.back() = name;
    }
    for (const uint32_t result : combine_.results)
      results += (results.empty() ? "" : ", ") + texts_[result];
    return text + "    return {" + results + "};\n";
  }

private:
  const ir::Combine &combine_;
  std::vector<std::string> texts_; // of ops, as operands

  std::string text_of(const CombineOp &op) const {
    if (op.op == Op::constant)
      return literal(op.constant, op.dtype);
    if (op.op == Op::operand) {
      const auto number = static_cast<size_t>(std::get<int64_t>(op.constant));
      const size_t members = combine_.types.size();
      return (number < members ? "a." : "b.") + member(number % members);
    }
    Value value;
    value.op = op.op;
    value.dtype = op.dtype;
    value.source_dtype = op.source_dtype;
    std::vector<ArgumentText> arguments;
    for (const uint32_t arg : op.args)
      arguments.push_back({texts_[arg], combine_.ops[arg].dtype});
    return operation_text(value, arguments);
  }
};

} // namespace

std::string combine_text(const ir::Combine &combine, const std::string &name) {
  std::string members, each;
  for (size_t k = 0; k < combine.types.size(); ++k) {
    members += "    " + std::string(value_type(combine.types[k])) + " " + member(k) + ";\n";
    each += (k > 0 ? ", " : "") + ("f(x." + member(k) + ")");
  }
  return "struct " + name + " {\n  struct value {\n" + members +
         "  };\n"
         "  template <class Each> TC_FN value each(Each &f, const value &x) {\n    return {" +
         each +
         "};\n  }\n"
         "  TC_FN value apply(const value &a, const value &b) {\n" +
         CombineText(combine).body() + "  }\n};\n\n";
}

ir::CombineFunction widened(const ir::CombineFunction &combine) {
  const auto is_exact = [](const CombineOp &op) {
    return op.op == Op::to_dtype_bitcast || op.op == Op::nextafter ||
           (op.op == Op::to_dtype && tensor::is_reduced_float(op.dtype));
  };
  if (std::any_of(combine.code->ops.begin(), combine.code->ops.end(), is_exact))
    return combine;
  auto wide = std::make_shared<ir::Combine>(*combine.code);
  const auto widen = [](DType &dtype) { dtype = is_float(dtype) ? DType::f64 : dtype; };
  for (DType &type : wide->types)
    widen(type);
  for (CombineOp &op : wide->ops) {
    widen(op.dtype);
    widen(op.source_dtype);
  }
  return {std::move(wide)};
}

bool is_cheap(const ir::Combine &combine) {
  return std::all_of(combine.ops.begin(), combine.ops.end(), [](const CombineOp &op) {
    return ir::operand_count(op.op) <= 0 || ir::op_cost(op.op) == ir::OpCost::instruction;
  });
}

} // namespace tsc::codegen
