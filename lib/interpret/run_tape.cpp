// Runs tapes: one instruction at a time over a chunk of points.
#include "interpret/random.h"
#include "interpret/tape.h"

#include "support/diagnostic.h"

#include <algorithm>

namespace tsc::interpret {
namespace {

using Code = Instruction::Code;

int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t wrapping_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

int64_t floor_quotient(int64_t a, int64_t b) {
  int64_t quotient = a / b;
  return a % b < 0 ? quotient - 1 : quotient;
}

int64_t floor_remainder(int64_t a, int64_t b) {
  int64_t rest = a % b;
  return rest < 0 ? rest + b : rest;
}

} // namespace

support::UserError value_error(const std::string &failure) {
  return {support::ExitCode::bad_input,
          support::Diagnostic{.code = "TSC-R127",
                              .message = "a value is out of range: " + failure,
                              .next_step = "give values in that range"}};
}

int64_t Domain::numel() const {
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= size;
  return count;
}

TapeRunner::TapeRunner(const Tape &tape, const Domain &domain,
                       const std::vector<Storage *> &storages, bool round)
    : tape_(tape), domain_(domain), storages_(storages), round_(round),
      floats_(size_t{tape.float_registers} * kChunk),
      integers_(size_t{tape.integer_registers} * kChunk), lists_(tape.region_count),
      points_(tape.region_count) {}

double *TapeRunner::float_column(ValueId value) {
  return floats_.data() + size_t{tape_.instructions[value].result} * kChunk;
}
int64_t *TapeRunner::integer_column(ValueId value) {
  return integers_.data() + size_t{tape_.instructions[value].result} * kChunk;
}
const double *TapeRunner::floats(ValueId value) const {
  return floats_.data() + size_t{tape_.instructions[value].result} * kChunk;
}
const int64_t *TapeRunner::integers(ValueId value) const {
  return integers_.data() + size_t{tape_.instructions[value].result} * kChunk;
}

void TapeRunner::run(int64_t begin, int64_t count) {
  points_[0] = {nullptr, static_cast<size_t>(count)};
  for (const Instruction &instruction : tape_.instructions)
    execute(instruction, begin);
}

void TapeRunner::execute(const Instruction &instruction, int64_t begin) {
  const Points &points = points_[instruction.region];
  double *floats = floats_.data() + size_t{instruction.result} * kChunk;
  int64_t *integers = integers_.data() + size_t{instruction.result} * kChunk;
  switch (instruction.code) {
  case Code::variable:
    return fill_variable(instruction, begin);
  case Code::linear:
  case Code::product:
  case Code::floor_quotient:
  case Code::remainder:
  case Code::smallest:
  case Code::largest:
    return index_arithmetic(instruction, points);
  case Code::wrap:
    return wrap_index(instruction, points);
  case Code::load:
    return load(instruction, points);
  case Code::constant:
    if (instruction.is_float())
      return points.for_each([&](size_t p) { floats[p] = instruction.real; });
    return points.for_each([&](size_t p) { integers[p] = instruction.number; });
  case Code::convert:
    return convert(instruction, points);
  case Code::region:
    return start_region(instruction, points);
  case Code::select:
    return select(instruction, points);
  case Code::apply:
    return apply(instruction, points);
  case Code::operand: {
    const Column &from = operands_.at(static_cast<size_t>(instruction.number));
    if (instruction.is_float())
      return points.for_each([&](size_t p) { floats[p] = from.floats[p]; });
    return points.for_each([&](size_t p) { integers[p] = from.integers[p]; });
  }
  }
}

void TapeRunner::apply(const Instruction &instruction, const Points &points) {
  double *floats = floats_.data() + size_t{instruction.result} * kChunk;
  int64_t *integers = integers_.data() + size_t{instruction.result} * kChunk;
  const double *float_args[3] = {};
  const int64_t *integer_args[3] = {};
  for (size_t i = 0; i < instruction.args.size(); ++i) {
    float_args[i] = float_column(instruction.args[i]);
    integer_args[i] = integer_column(instruction.args[i]);
  }
  if (instruction.op == Op::where) {
    const int64_t *condition = integer_args[0];
    if (instruction.is_float())
      points.for_each([&](size_t p) { floats[p] = float_args[condition[p] != 0 ? 1 : 2][p]; });
    else
      points.for_each([&](size_t p) { integers[p] = integer_args[condition[p] != 0 ? 1 : 2][p]; });
  } else if (instruction.op == Op::to_dtype_bitcast) {
    DType from = instruction.source_dtype, to = instruction.dtype;
    support::require(tensor::size_in_bytes(from) == tensor::size_in_bytes(to), "interpret",
                     "to_dtype_bitcast between dtypes of different size");
    points.for_each([&](size_t p) {
      int64_t bits =
          tensor::is_floating(from) ? float_bits(from, float_args[0][p]) : integer_args[0][p];
      if (tensor::is_floating(to))
        floats[p] = float_from_bits(to, bits);
      else
        integers[p] = wrap_to(to, bits);
    });
  } else if (ir::is_random(instruction.op)) {
    const int64_t *const *args = integer_args; // seed, stream, offset
    points.for_each([&](size_t p) {
      if (instruction.is_float())
        floats[p] =
            random_real(instruction.op, instruction.dtype, args[0][p], args[1][p], args[2][p]);
      else
        integers[p] = random_bits(args[0][p], args[1][p], args[2][p]);
    });
  } else if (instruction.is_float()) {
    apply_float(instruction.op, instruction.dtype, points, float_args, floats);
    if (round_ && instruction.dtype != DType::f64) // half types are computed in f32
      points.for_each([&](size_t p) { floats[p] = round_to(DType::f32, floats[p]); });
  } else if (tensor::is_floating(instruction.source_dtype)) {
    apply_float_predicate(instruction.op, points, float_args, integers);
  } else if (instruction.dtype == DType::boolean) {
    apply_integer_predicate(instruction.op, instruction.source_dtype, points, integer_args,
                            integers);
  } else {
    apply_integer(instruction.op, instruction.dtype, points, integer_args, integers);
  }
}

void TapeRunner::fill_variable(const Instruction &instruction, int64_t begin) {
  auto dimension = static_cast<size_t>(instruction.number);
  support::require(dimension < domain_.sizes.size(), "interpret", "a loop variable out of rank");
  int64_t inner = 1;
  for (size_t k = dimension + 1; k < domain_.sizes.size(); ++k)
    inner *= domain_.sizes[k];
  int64_t size = domain_.sizes[dimension];
  int64_t value = begin / inner % size, left = inner - begin % inner;
  int64_t *column = integers_.data() + size_t{instruction.result} * kChunk;
  for (size_t p = 0; p < points_[0].count; ++p) {
    column[p] = value;
    if (--left == 0) {
      left = inner;
      value = value + 1 == size ? 0 : value + 1;
    }
  }
}

void TapeRunner::index_arithmetic(const Instruction &instruction, const Points &points) {
  int64_t *result = integers_.data() + size_t{instruction.result} * kChunk;
  if (instruction.code == Code::linear) {
    points.for_each([&](size_t p) { result[p] = instruction.number; });
    for (size_t i = 0; i < instruction.args.size(); ++i) {
      const int64_t *arg = integer_column(instruction.args[i]);
      int64_t coefficient = instruction.coefficients[i];
      points.for_each([&](size_t p) {
        result[p] = wrapping_add(result[p], wrapping_mul(coefficient, arg[p]));
      });
    }
    return;
  }
  const int64_t *a = integer_column(instruction.args[0]);
  const int64_t *b = integer_column(instruction.args[1]);
  auto divisor = [&](size_t p) {
    support::require(b[p] > 0, "interpret", "a divisor in an index that is not positive");
    return b[p];
  };
  switch (instruction.code) {
  case Code::product:
    return points.for_each([&](size_t p) { result[p] = wrapping_mul(a[p], b[p]); });
  case Code::floor_quotient:
    return points.for_each([&](size_t p) { result[p] = floor_quotient(a[p], divisor(p)); });
  case Code::remainder:
    return points.for_each([&](size_t p) { result[p] = floor_remainder(a[p], divisor(p)); });
  case Code::smallest:
    return points.for_each([&](size_t p) { result[p] = std::min(a[p], b[p]); });
  default:
    return points.for_each([&](size_t p) { result[p] = std::max(a[p], b[p]); });
  }
}

void TapeRunner::wrap_index(const Instruction &instruction, const Points &points) {
  int64_t *result = integers_.data() + size_t{instruction.result} * kChunk;
  const int64_t *values = integer_column(instruction.args[0]);
  const int64_t *extents = integer_column(instruction.args[1]);
  const ir::DataCheck &check = tape_.module->check_of(static_cast<uint32_t>(instruction.number));
  points.for_each([&](size_t p) {
    int64_t value = values[p], extent = extents[p];
    if (value < (check.wraps ? -extent : 0) || value >= extent) {
      if (tape_.failure->empty())
        *tape_.failure = ir::failure_text(check, value, extent);
      if (extent <= 0) // there is not even an element 0
        throw value_error(*tape_.failure);
      value = 0;
    }
    result[p] = value < 0 ? value + extent : value;
  });
}

void TapeRunner::load(const Instruction &instruction, const Points &points) {
  const Storage *storage = storages_[instruction.buffer];
  if (storage == nullptr || !storage->present)
    throw support::UserError(
        support::ExitCode::bad_input,
        support::Diagnostic{"TSC-R104", "a tensor that the graph reads was not given", "",
                            tape_.operation, tape_.node, "",
                            "pass every weight and input (tsc run --weights, --inputs)"});
  const int64_t *positions = integer_column(instruction.args[0]);
  int64_t size = storage->size();
  points.for_each([&](size_t p) {
    if (positions[p] < 0 || positions[p] >= size)
      throw support::InternalError("interpret", tape_.operation,
                                   "a load at element " + std::to_string(positions[p]) + " of " +
                                       std::to_string(size));
  });
  if (storage->is_float()) {
    double *result = floats_.data() + size_t{instruction.result} * kChunk;
    const double *from = storage->floats.data();
    points.for_each([&](size_t p) { result[p] = from[positions[p]]; });
  } else {
    int64_t *result = integers_.data() + size_t{instruction.result} * kChunk;
    const int64_t *from = storage->integers.data();
    points.for_each([&](size_t p) { result[p] = from[positions[p]]; });
  }
}

void TapeRunner::convert(const Instruction &instruction, const Points &points) {
  DType from = instruction.source_dtype, to = instruction.dtype;
  const double *floats = float_column(instruction.args[0]);
  const int64_t *integers = integer_column(instruction.args[0]);
  double *float_result = floats_.data() + size_t{instruction.result} * kChunk;
  int64_t *integer_result = integers_.data() + size_t{instruction.result} * kChunk;
  if (!tensor::is_floating(to)) {
    if (tensor::is_floating(from))
      points.for_each([&](size_t p) { integer_result[p] = to_integer(to, floats[p]); });
    else
      points.for_each([&](size_t p) { integer_result[p] = wrap_to(to, integers[p]); });
    return;
  }
  // An explicit narrowing cast rounds, also to the 16 bits that a value was computed for; widening
  // leaves the value.
  bool narrows = round_ && (!tensor::is_floating(from) ||
                            tensor::size_in_bytes(to) < tensor::size_in_bytes(from) ||
                            tensor::is_reduced_float(to));
  DType rounded = narrows ? to : DType::f64;
  if (tensor::is_floating(from))
    points.for_each([&](size_t p) { float_result[p] = round_to(rounded, floats[p]); });
  else
    points.for_each(
        [&](size_t p) { float_result[p] = round_to(rounded, to_float(from, integers[p])); });
}

void TapeRunner::start_region(const Instruction &instruction, const Points &points) {
  auto region = static_cast<size_t>(instruction.number);
  const int64_t *mask = integer_column(instruction.args[0]);
  std::vector<uint32_t> &list = lists_[region];
  list.clear();
  points.for_each([&](size_t p) {
    if (mask[p] != 0)
      list.push_back(static_cast<uint32_t>(p));
  });
  // An empty list still needs an address: null means every point.
  if (list.capacity() == 0)
    list.reserve(1);
  points_[region] = {list.data(), list.size()};
}

void TapeRunner::select(const Instruction &instruction, const Points &points) {
  const int64_t *mask = integer_column(instruction.args[0]);
  if (instruction.is_float()) {
    double *result = floats_.data() + size_t{instruction.result} * kChunk;
    const double *inside = float_column(instruction.args[1]);
    points.for_each([&](size_t p) { result[p] = mask[p] != 0 ? inside[p] : instruction.real; });
  } else {
    int64_t *result = integers_.data() + size_t{instruction.result} * kChunk;
    const int64_t *inside = integer_column(instruction.args[1]);
    points.for_each([&](size_t p) { result[p] = mask[p] != 0 ? inside[p] : instruction.number; });
  }
}

} // namespace tsc::interpret
