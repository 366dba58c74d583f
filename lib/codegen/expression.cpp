#include "codegen/expression.h"

#include "support/diagnostic.h"
#include "support/text.h"

#include <array>
#include <cmath>

namespace tsc::codegen {

using ir::Op;
using ir::ReductionKind;

std::string_view storage_type(DType dtype) {
  switch (dtype) {
  case DType::f16:
    return "tc_f16";
  case DType::bf16:
    return "tc_bf16";
  case DType::f8e4m3fn:
    return "tc_f8e4m3fn";
  case DType::f8e5m2:
    return "tc_f8e5m2";
  case DType::f8e4m3fnuz:
    return "tc_f8e4m3fnuz";
  case DType::f8e5m2fnuz:
    return "tc_f8e5m2fnuz";
  case DType::f8e8m0fnu:
    return "tc_f8e8m0fnu";
  default:
    return value_type(dtype);
  }
}

std::string_view value_type(DType dtype) {
  switch (dtype) {
  case DType::boolean:
    return "bool";
  case DType::u8:
    return "unsigned char";
  case DType::i8:
    return "signed char";
  case DType::i16:
    return "short";
  case DType::i32:
    return "int";
  case DType::i64:
    return "long long";
  case DType::u16:
    return "unsigned short";
  case DType::u32:
    return "unsigned";
  case DType::u64:
    return "unsigned long long";
  case DType::f16:
  case DType::bf16:
  case DType::f8e4m3fn:
  case DType::f8e5m2:
  case DType::f8e4m3fnuz:
  case DType::f8e5m2fnuz:
  case DType::f8e8m0fnu:
  case DType::f32:
    return "float";
  case DType::f64:
    return "double";
  default:
    throw support::InternalError(
        "codegen", "", "lowering let " + std::string(tensor::torch_name(dtype)) + " through");
  }
}

std::string literal(const tensor::Scalar &scalar, DType dtype) {
  if (dtype == DType::boolean)
    return tensor::to_double(scalar) != 0 ? "true" : "false";
  if (tensor::is_floating(dtype)) {
    const bool single = dtype != DType::f64;
    double value = tensor::to_double(scalar);
    // Numbers beyond a float's range are infinities or zeros of it; as literals NVRTC refuses them.
    if (single && value == value && static_cast<float>(value) != value &&
        (std::isinf(static_cast<float>(value)) || std::fabs(static_cast<float>(value)) < 1e-37F))
      value = static_cast<double>(static_cast<float>(value));
    const std::string limit = single ? "" : "static_cast<double>";
    if (std::isnan(value))
      return single ? "TC_NAN" : limit + "(TC_NAN)";
    if (std::isinf(single ? static_cast<float>(value) : value))
      return std::string(value < 0 ? "-" : "") + (single ? "TC_INF" : limit + "(TC_INF)");
    return support::python_repr(value) + (single ? "f" : "");
  }
  const tensor::Scalar cast = tensor::cast_scalar(scalar, dtype);
  const int64_t *integer = std::get_if<int64_t>(&cast);
  const int64_t value = integer ? *integer : static_cast<int64_t>(tensor::to_double(cast));
  if (value == INT64_MIN)
    return "(-9223372036854775807ll - 1)";
  if (dtype == DType::u64)
    return std::to_string(static_cast<uint64_t>(value)) + "ull";
  const std::string digits = std::to_string(value);
  if (dtype == DType::i64)
    return digits + "ll";
  if (dtype == DType::u32)
    return digits + "u";
  if (dtype == DType::i32)
    return value == INT32_MIN ? "(-2147483647 - 1)" : digits;
  return "static_cast<" + std::string(value_type(dtype)) + ">(" + digits + ")";
}

std::string converted(const std::string &text, DType from, DType to) {
  if (value_type(from) == value_type(to))
    return text;
  return "tc_to<" + std::string(value_type(to)) + ">(" + text + ")";
}

bool is_alias(const Value &value, const Value &argument) {
  if (value.op != Op::to_dtype || value_type(value.dtype) != value_type(argument.dtype))
    return false;
  // Narrowing to 16 bits rounds, unless the value is rounded to that type already: what is computed
  // in that type is not.
  const bool exact = argument.op == Op::load || argument.op == Op::constant ||
                     argument.op == Op::to_dtype || argument.op == Op::sort;
  return !tensor::is_reduced_float(value.dtype) || (exact && argument.dtype == value.dtype);
}

namespace {

std::string call(std::string_view name, std::span<const std::string> arguments) {
  std::string text = "tc_" + std::string(name) + "(";
  for (size_t i = 0; i < arguments.size(); ++i)
    text += (i ? ", " : "") + arguments[i];
  return text + ")";
}

bool is_comparison(Op op) {
  return op == Op::eq || op == Op::ne || op == Op::lt || op == Op::le || op == Op::gt ||
         op == Op::ge;
}

/// An operator of C++ that means the operation. Arithmetic of integers has none: theirs wraps. Nor
/// have ordered comparisons of floats: ptxas loses NaN in them (prelude/tc_math.h).
const char *infix(Op op, DType dtype) {
  const bool is_ordered = is_comparison(op) && op != Op::eq && op != Op::ne;
  if (tensor::is_floating(dtype) ? is_ordered : !is_comparison(op))
    return nullptr;
  switch (op) {
  case Op::add:
    return " + ";
  case Op::sub:
    return " - ";
  case Op::mul:
    return " * ";
  case Op::truediv:
    return " / ";
  case Op::eq:
    return " == ";
  case Op::ne:
    return " != ";
  case Op::lt:
    return " < ";
  case Op::le:
    return " <= ";
  case Op::gt:
    return " > ";
  case Op::ge:
    return " >= ";
  default:
    return nullptr;
  }
}

bool is_logical(Op op) {
  return op == Op::logical_and || op == Op::logical_or || op == Op::logical_xor ||
         op == Op::logical_not;
}
std::string truth(const ArgumentText &argument) {
  return argument.dtype == DType::boolean ? argument.text : "tc_truth(" + argument.text + ")";
}

std::string logical_text(const Value &value, std::span<const ArgumentText> arguments) {
  const std::string a = truth(arguments[0]);
  if (value.op == Op::logical_not)
    return "!" + a;
  const std::string b = truth(arguments[1]);
  return a +
         (value.op == Op::logical_and  ? " && "
          : value.op == Op::logical_or ? " || "
                                       : " != ") +
         b;
}

std::string cast_text(const Value &value, const ArgumentText &argument) {
  if (value.dtype == DType::f16)
    return "tc_round_f16(" + converted(argument.text, argument.dtype, DType::f32) + ")";
  if (value.dtype == DType::bf16)
    return "tc_round_bf16(" + converted(argument.text, argument.dtype, DType::f32) + ")";
  if (tensor::is_float8(value.dtype))
    return "tc_round<" + std::string(storage_type(value.dtype)) + ">(" +
           converted(argument.text, argument.dtype, DType::f32) + ")";
  return converted(argument.text, argument.dtype, value.dtype);
}

/// Floats of 16 and 8 bits are held as float: their bits are made of it, and it of them.
std::string bitcast_text(const Value &value, const ArgumentText &argument) {
  const DType from = value.source_dtype, to = value.dtype;
  support::require(tensor::size_in_bytes(from) == tensor::size_in_bytes(to), "codegen",
                   "a bitcast between dtypes of different size");
  std::string text = argument.text;
  if (tensor::is_float8(from))
    text = "tc_storage<" + std::string(storage_type(from)) + ">::store(" +
           converted(text, argument.dtype, DType::f32) + ").bits";
  else if (tensor::is_reduced_float(from))
    text = std::string("tc_to_") + (from == DType::f16 ? "f16" : "bf16") + "(" +
           converted(text, argument.dtype, DType::f32) + ").bits";
  if (tensor::is_reduced_float(to))
    return "tc_float(" + std::string(storage_type(to)) + "{tc_bitcast<unsigned " +
           (tensor::is_float8(to) ? "char" : "short") + ">(" + text + ")})";
  return "tc_bitcast<" + std::string(value_type(to)) + ">(" + text + ")";
}

/// seed, stream and offset are 64-bit integers whatever is drawn.
std::string random_text(const Value &value, std::span<const ArgumentText> arguments) {
  std::vector<std::string> texts;
  for (const ArgumentText &argument : arguments)
    texts.push_back(converted(argument.text, argument.dtype, DType::i64));
  return call(std::string(ir::op_name(value.op)) + "<" + std::string(value_type(value.dtype)) + ">",
              texts);
}

/// The dtype in which an operation is computed: its result's, or for predicates that of its
/// arguments.
DType compute_dtype(const Value &value, std::span<const ArgumentText> arguments) {
  const bool predicate = is_comparison(value.op) || value.op == Op::isnan ||
                         value.op == Op::isinf || value.op == Op::signbit;
  if (!predicate)
    return value.dtype;
  DType dtype = arguments[0].dtype;
  for (const ArgumentText &argument : arguments)
    dtype = value_type(argument.dtype) == value_type(dtype)
                ? dtype
                : tensor::promote(dtype, argument.dtype);
  return dtype;
}

} // namespace

std::string operation_text(const Value &value, std::span<const ArgumentText> arguments) {
  if (is_logical(value.op))
    return logical_text(value, arguments);
  if (value.op == Op::to_dtype)
    return cast_text(value, arguments[0]);
  if (value.op == Op::to_dtype_bitcast)
    return bitcast_text(value, arguments[0]);
  if (value.op == Op::where)
    return truth(arguments[0]) + " ? " +
           converted(arguments[1].text, arguments[1].dtype, value.dtype) + " : " +
           converted(arguments[2].text, arguments[2].dtype, value.dtype);
  if (ir::is_random(value.op))
    return random_text(value, arguments);
  const DType dtype = compute_dtype(value, arguments);
  std::vector<std::string> texts;
  for (const ArgumentText &argument : arguments)
    texts.push_back(converted(argument.text, argument.dtype, dtype));
  if (const char *between = infix(value.op, dtype); between && texts.size() == 2)
    return texts[0] + between + texts[1];
  if (value.op == Op::neg && tensor::is_floating(dtype) && texts[0].front() != '-')
    return "-" + texts[0];
  if (value.op == Op::square && tensor::is_floating(dtype))
    return texts[0] + " * " + texts[0];
  if (value.op == Op::nextafter && tensor::is_reduced_float(dtype))
    return call("nextafter<" + std::string(storage_type(dtype)) + ">", texts);
  return call(value.op == Op::mod ? "remainder" : ir::op_name(value.op), texts);
}

std::string combiner(ReductionKind kind) {
  switch (kind) {
  case ReductionKind::welford_reduce:
  case ReductionKind::welford_combine:
    return "tc_welford";
  case ReductionKind::online_softmax_reduce:
    return "tc_online_softmax";
  default:
    return "tc_" + std::string(ir::reduction_name(kind));
  }
}

std::string combiner(ir::ScanKind kind) {
  switch (kind) {
  case ir::ScanKind::sum:
    return "tc_sum";
  case ir::ScanKind::prod:
    return "tc_prod";
  case ir::ScanKind::max:
    return "tc_max";
  case ir::ScanKind::min:
    return "tc_min";
  case ir::ScanKind::logsumexp:
  case ir::ScanKind::combine: // KernelText::combine_type
    break;
  }
  return "tc_logsumexp";
}

bool is_tuple(ReductionKind kind) { return ir::tuple_size(kind) > 1; }

std::string accumulator_type(const Value &reduction) {
  switch (reduction.reduction) {
  case ReductionKind::argmax:
  case ReductionKind::argmin:
    return "tc_place<" + std::string(value_type(reduction.source_dtype)) + ">";
  case ReductionKind::welford_reduce:
  case ReductionKind::welford_combine:
    return "tc_moments<" + std::string(value_type(reduction.dtype)) + ">";
  case ReductionKind::online_softmax_reduce:
    return "tc_exp_sum<" + std::string(value_type(reduction.dtype)) + ">";
  default:
    return std::string(value_type(reduction.dtype));
  }
}

std::string accumulated(const Value &reduction, const std::string &accumulator,
                        std::span<const ArgumentText> inputs, const std::string &position) {
  const std::string op = combiner(reduction.reduction);
  const bool is_part = inputs.size() > 1;
  const auto element = [&](DType dtype, const std::string &further = "") {
    return op + "::take(" + accumulator + ", " + converted(inputs[0].text, inputs[0].dtype, dtype) +
           further + ")";
  };
  const auto part = [&](std::span<const DType> dtypes) {
    std::string text = op + "::apply(" + accumulator + ", " + accumulator_type(reduction) + "{";
    for (size_t i = 0; i < inputs.size(); ++i)
      text += (i ? ", " : "") + converted(inputs[i].text, inputs[i].dtype, dtypes[i]);
    return text + "})";
  };
  switch (reduction.reduction) {
  case ReductionKind::argmax:
  case ReductionKind::argmin:
    return is_part ? part(std::array{reduction.source_dtype, DType::i64})
                   : element(reduction.source_dtype, ", static_cast<long long>(" + position + ")");
  case ReductionKind::welford_reduce:
  case ReductionKind::welford_combine:
  case ReductionKind::online_softmax_reduce:
    return is_part ? part(std::array{reduction.dtype, reduction.dtype, reduction.dtype})
                   : element(reduction.dtype);
  default:
    return op + "::apply(" + accumulator + ", " +
           converted(inputs[0].text, inputs[0].dtype, reduction.dtype) + ")";
  }
}

std::string_view item_name(ReductionKind kind, uint32_t item) {
  if (kind == ReductionKind::argmax || kind == ReductionKind::argmin)
    return item == 0 ? "value" : "index";
  if (kind == ReductionKind::online_softmax_reduce)
    return item == 0 ? "max" : "sum";
  return item == 0 ? "mean" : item == 1 ? "m2" : "weight";
}

} // namespace tsc::codegen
