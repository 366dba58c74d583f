// A tape: the loop DAG of one operation as straight-line instructions over columns of values, one
// value a point of the operation's domain. Built once an operation, run over chunks of points.
#pragma once

#include "interpret/storage.h"
#include "ir/ir.h"
#include "support/diagnostic.h"

#include <memory>

namespace tsc::interpret {

using ir::Op;
using symbolic::Expr;

using ValueId = uint32_t;  // position of the instruction that yields the value
using RegionId = uint32_t; // 0: every point; others: the points where a mask holds

struct Instruction {
  enum class Code : uint8_t {
    // Index arithmetic: integers from integers
    variable,       // loop variable `number`
    linear,         // number + sum(coefficients[i] * args[i])
    product,        // args[0] * args[1]
    floor_quotient, // args[0] // args[1]
    remainder,      // args[0] mod args[1], in [0, args[1])
    smallest,
    largest,
    wrap, // args[0] if it lies in [0, e), + e if in [-e, 0) and check `number` of the module
          // wraps, else 0 and that check's failure; e = args[1]
    // Values
    load,     // element args[0] of the storage of `buffer`
    constant, // number or real
    convert,  // args[0] from source_dtype's kind of column to dtype's, as a cast
    region,   // starts region `number`: the points of `region` where args[0] holds
    select,   // args[0] ? args[1] : constant, args[1] from another region
    apply,    // op(args)
    operand,  // argument `number` of a combine function (TapeRunner::give)
  };
  Code code = Code::constant;
  Op op = Op::constant;
  DType dtype = DType::i64;
  DType source_dtype = DType::i64;
  RegionId region = 0;
  ir::BufferId buffer = ir::kNone;
  std::vector<ValueId> args;
  std::vector<int64_t> coefficients;
  int64_t number = 0;
  double real = 0;
  uint32_t result = 0; // register, by kind of column

  bool is_float() const { return tensor::is_floating(dtype); }
};

struct Tape {
  std::vector<Instruction> instructions;
  size_t region_count = 1;
  uint32_t float_registers = 0, integer_registers = 0;
  const ir::Module *module = nullptr;
  std::string *failure = nullptr; // the first value that a check refuses is noted here
  std::string operation;          // for messages: its name
  std::string node;               // the user's node that it came from
};

/// Builds a tape by worklist, memoized per (loop node, index, region). `bindings` gives values to
/// size symbols.
class TapeBuilder {
public:
  TapeBuilder(const ir::Module &module, const symbolic::Bindings &bindings, bool round);
  ~TapeBuilder();
  /// Value of `operand`, its index over the domain's variables. Conversions make it a column of
  /// `dtype`'s kind.
  ValueId value(const ir::Operand &operand, DType dtype);
  /// `value`, brought into [0, extent) as check `check` of the module says, as a symbol that later
  /// indices may mention.
  Expr bind_run_time(ValueId value, Expr extent, uint32_t check);
  ValueId index(Expr e);
  DType dtype_of(ValueId value) const;
  /// Assigns registers; `kept` stay readable after the run.
  Tape finish(std::vector<ValueId> kept);

private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// TSC-R127: a value that a check refuses.
support::UserError value_error(const std::string &failure);

/// The points of an operation: row-major over `sizes`.
struct Domain {
  std::vector<int64_t> sizes;
  int64_t numel() const;
};

/// The points of a chunk at which a region's instructions are evaluated: rows of the columns.
struct Points {
  const uint32_t *list = nullptr; // null: 0 .. count - 1
  size_t count = 0;

  template <class F> void for_each(const F &body) const {
    if (list == nullptr)
      for (size_t p = 0; p < count; ++p)
        body(p);
    else
      for (size_t i = 0; i < count; ++i)
        body(list[i]);
  }
};

/// Runs a tape over a chunk of points and shows the kept columns.
class TapeRunner {
public:
  static constexpr int64_t kChunk = 4096; // points; a column stays in the first-level cache

  /// `storages` by buffer: where a buffer's bytes are.
  TapeRunner(const Tape &tape, const Domain &domain, const std::vector<Storage *> &storages,
             bool round);
  /// Columns that instructions `operand` read from now on, by number; of the kinds that they have.
  struct Column {
    const double *floats = nullptr;
    const int64_t *integers = nullptr;
  };
  void give(std::vector<Column> operands) { operands_ = std::move(operands); }
  /// Points [begin, begin + count); count <= kChunk.
  void run(int64_t begin, int64_t count);
  const double *floats(ValueId value) const;
  const int64_t *integers(ValueId value) const;

private:
  void execute(const Instruction &instruction, int64_t begin);
  void fill_variable(const Instruction &instruction, int64_t begin);
  void index_arithmetic(const Instruction &instruction, const Points &points);
  void wrap_index(const Instruction &instruction, const Points &points);
  void load(const Instruction &instruction, const Points &points);
  void convert(const Instruction &instruction, const Points &points);
  void start_region(const Instruction &instruction, const Points &points);
  void select(const Instruction &instruction, const Points &points);
  void apply(const Instruction &instruction, const Points &points);
  double *float_column(ValueId value);
  int64_t *integer_column(ValueId value);

  const Tape &tape_;
  const Domain &domain_;
  const std::vector<Storage *> &storages_;
  bool round_;
  std::vector<double> floats_;
  std::vector<int64_t> integers_;
  std::vector<std::vector<uint32_t>> lists_; // by region
  std::vector<Points> points_;
  std::vector<Column> operands_;
};

/// Columns of one kind: result[i] = op(args[0][i], ...) for operations on floats.
void apply_float(Op op, DType dtype, const Points &points, const double *const *args,
                 double *result);
/// As apply_float, for comparisons and predicates: 0 or 1.
void apply_float_predicate(Op op, const Points &points, const double *const *args, int64_t *result);
/// Integers and bools of `dtype`; the result wraps in it.
void apply_integer(Op op, DType dtype, const Points &points, const int64_t *const *args,
                   int64_t *result);
void apply_integer_predicate(Op op, DType dtype, const Points &points, const int64_t *const *args,
                             int64_t *result);

} // namespace tsc::interpret
