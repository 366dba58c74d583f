// A program as plain tables: arrays of structs that an emitted model.cpp states as static
// initializers and that `tsc run` fills from a program::Program (program/tables.h). Both are run by
// the same engine.
//
// Units: bytes where a name says bytes, else elements. Positions refer to the table that a comment
// names; ranges are {first, count} in a pool. Every table is complete and checked before it gets
// here: the engine indexes without looking, except where a size known only at bind time decides.
#pragma once

#include "engine/communicator.h"
#include "engine/device.h"
#include "engine/solver.h"

#include <cstddef>
#include <cstdint>

namespace tsc_engine {

template <class Row> struct Table {
  const Row *rows = nullptr;
  size_t count = 0;
  const Row &operator[](size_t i) const { return rows[i]; }
  const Row *begin() const { return rows; }
  const Row *end() const { return rows + count; }
};
struct Range { // of a pool
  int32_t first = 0, count = 0;
};

/// Words of an expression's code: a stack machine over int64, in postfix order. `push` and `symbol`
/// take the next word as operand.
enum class Opcode : int64_t {
  push,         // the next word
  symbol,       // value of the symbol whose position is the next word
  add,          // a b -> a + b
  multiply,     // a b -> a * b
  floor_divide, // a b -> a / b, toward minus infinity
  modulo,       // a b -> a mod b, in [0, b)
  minimum,
  maximum,
};
struct Expression {
  const char *text = "";             // as the program prints it: "4*s0 + 1"
  Range code;                        // words of Tables::code
  int64_t low = 0, high = INT64_MAX; // bounds over the ranges of the symbols
};
/// A number, or (expression >= 0) the value of Tables::expressions[expression].
struct Size {
  int64_t value = 0;
  int32_t expression = -1;
};

/// Bound from dimension `dimension` of input `input`, whose size is coefficient * symbol + offset;
/// the offset is over symbols that come earlier. Dimension -1: the value of an integer input. Input
/// -1: a step of the kind define says what it is, while a run is under way; such symbols come last,
/// in the order of their steps.
struct Symbol {
  const char *name = "";
  int64_t low = 0, high = INT64_MAX; // inclusive
  int32_t input = 0, dimension = 0;
  int64_t coefficient = 1;
  Size offset;
};

enum class Role : int32_t { input, weight, output, intermediate, random_state, failure, exchange };
struct Buffer {
  const char *name = "";
  DType dtype = DType::f32;
  Role role = Role::intermediate;
  Size bytes;            // extent of the storage from element 0
  int32_t alias_of = -1; // buffer whose memory this one takes over
  int32_t weight = -1;   // position in Tables::weights
};

/// What the caller sees of an input, output or weight. sizes and strides are ranges of
/// Tables::sizes.
struct TensorView {
  DType dtype = DType::f32;
  Range sizes, strides;
  Size offset;
};
struct Weight {
  const char *name = ""; // qualified name: "transformer.h.0.ln_1.weight"
  TensorView view;       // layout of the storage; its data is given contiguous
  int64_t bytes = 0;     // of the storage
  bool mutated = false;
};
struct Input {
  const char *name = "";
  int32_t buffer = 0;
  TensorView view;
  bool mutated = false;
  /// An integer, not a tensor: bind takes `value` in the place of sizes, run needs no memory.
  bool is_scalar = false;
  Size value;
};
struct Output {
  const char *name = "";
  int32_t buffer = -1; // -1: a constant, given as `text`
  TensorView view;
  bool is_mutation = false;
  const char *text = "";
  const char *path = ""; // as in TscTensorInfo; "": not known
};

/// Launch geometry under one plan.
struct Geometry {
  Size grid[3];
  uint32_t block[3] = {1, 1, 1};
  Size shared_bytes;
  bool together = false; // as LaunchGeometry has it
};
enum class Plan : int32_t { cuda, serial };
/// An argument behind a kernel's parameters under the plan `cuda`: what a GPU's bulk copies are
/// told of a tensor (device.h, TensorMapShape). Dimensions from the innermost one on.
struct TensorMap {
  int32_t parameter = 0; // the kernel's pointer at which the tensor starts, `offset` elements later
  DType dtype = DType::f32;
  int32_t rank = 1;
  Size offset, sizes[5], strides[5]; // elements
  uint32_t box[5] = {};
  int32_t windows = 0; // dimensions that windows slide over; 0: boxes
  int32_t lower[3] = {}, upper[3] = {};
  uint32_t step[3] = {};
  bool tf32 = false;
};
struct Kernel {
  const char *name = "";
  const char *parameters =
      ""; // one letter each: p a pointer that is only read, w one that is written, s an int64 size
  Geometry geometry[2]; // by Plan
  Range maps = {};      // of Tables::maps
};

struct Operand {
  int32_t buffer = 0;
  Size offset;
};
struct Launch {
  int32_t kernel = 0;
  Range pointers; // of Tables::operands
  Range sizes;    // of Tables::sizes
};
struct MatrixOperand {
  int32_t buffer = 0;
  Size offset, row, column, batch; // strides; 0 broadcasts
};
struct Matmul {
  DType dtype = DType::f32;
  Size batch, m, n, k;
  MatrixOperand a, b, out, c;
  bool has_c = false;
  double alpha = 1, beta = 0;
  bool tf32 = false;
  bool wide = false; // MatmulShape's
};
struct Copy {
  Operand from, to;
  Size bytes;
};
struct Fill { // zeros
  Operand to;
  Size bytes;
};
/// What all ranks of a group do together; see communicator.h.
struct Collective {
  CollectiveKind kind = CollectiveKind::all_gather;
  Reduction reduction = Reduction::sum;
  DType dtype = DType::f32;
  int64_t ranks = 1; // 0: as many as the group has
  const char *group = "";
  Operand from, to;
  Size count; // elements that a rank gives (all_gather), gets (reduce_scatter) or has; see there
  Range sends = {}, receives = {}; // all_to_all: of Tables::sizes
  int64_t root = 0;                // broadcast
  const char *node = "";           // of the graph
};
/// The `then_steps` steps that follow run if it holds, else the `else_steps` ones after those. The
/// host reads the predicate, a bool; without one the condition, a size, decides.
struct Conditional {
  bool has_predicate = false;
  Operand predicate;
  Size condition;
  int32_t then_steps = 0, else_steps = 0;
};
/// The condition's steps follow, then the body's.
struct WhileLoop {
  Operand predicate;
  int32_t condition_steps = 0, body_steps = 0;
};
/// The host reads a number (int64) and gives it to a symbol; it must lie in the symbol's range and
/// not be beyond `bound`, which is over symbols that are known before. No step in front of this one
/// mentions the symbol, and none of them is part of a branch or loop.
struct Define {
  Operand number;
  int32_t symbol = 0;
  Size bound; // INT64_MAX: none
};
/// A routine of linear algebra (solver.h). An operand that it does not have is of buffer -1.
struct Solver {
  Routine routine = Routine::cholesky;
  DType dtype = DType::f32;
  int64_t flags = 0;
  Size batch, m, n, k;
  Operand a, b, c;
  Operand out, second, third, info;
};
/// An event does nothing: other steps wait for it, and it for others.
enum class StepKind : int32_t {
  launch,
  matmul,
  copy,
  fill,
  collective,
  conditional,
  while_loop,
  event,
  define,
  solver
};
struct Step {
  const char *name = "";
  StepKind kind = StepKind::launch;
  int32_t position = 0; // in launches, matmuls, copies, fills, collectives, ...
  bool once = false;    // when weights are loaded
  int32_t stream = 0;   // 0: the caller's, else one beside it
  Range waits = {};     // of Tables::waits
};

/// What must hold of data.
struct Assertion {
  const char *message = "", *node = "", *source_line = "";
};
/// What must hold of sizes: the condition is 1, or 0.
struct SizeAssertion {
  Size condition;
  Assertion assertion;
};

struct Tables {
  const char *name = "";
  Table<Symbol> symbols;
  Table<int64_t> code;
  Table<Expression> expressions;
  Table<Size> sizes;
  Table<Buffer> buffers;
  Table<Weight> weights;
  Table<Input> inputs;
  Table<Output> outputs;
  Table<Kernel> kernels;
  Table<Operand> operands;
  Table<Launch> launches;
  Table<Matmul> matmuls;
  Table<Copy> copies;
  Table<Fill> fills;
  Table<Collective> collectives;
  Table<Conditional> conditionals;
  Table<WhileLoop> loops;
  Table<Solver> solvers;
  Table<Step> steps;
  Table<int32_t> waits;        // earlier steps, of other streams
  Table<Assertion> assertions; // of data: number k + 1 in the failure buffer
  Table<SizeAssertion> size_assertions;
  Table<Define> defines = {}; // left out where there are none
  Table<TensorMap> maps = {}; // likewise
};

/// Values of `symbols` in, value out. Throws Error (bad_argument) on overflow of int64 and on a
/// divisor that is not positive, with the expression's text.
int64_t evaluate(const Tables &tables, const Size &size, const int64_t *symbols);

/// The largest value that `size` may have where symbol k lies in [low[k], high[k]]: INT64_MAX where
/// nothing bounds it or the bound is beyond 64 bits. Not below the largest value; where a symbol
/// occurs several times, perhaps above it.
int64_t most(const Tables &tables, const Size &size, const int64_t *low, const int64_t *high);

/// The last of the symbols that steps define which `size` mentions: it is known when this one is.
/// -1: none, it is known when shapes are bound.
int32_t last_defined(const Tables &tables, const Size &size);
inline bool is_of_data(const Tables &tables, const Size &size) {
  return last_defined(tables, size) >= 0;
}

} // namespace tsc_engine
