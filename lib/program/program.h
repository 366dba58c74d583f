// The compiled artefact as data, complete: what runs it needs nothing else but the weights.
#pragma once

#include "engine/communicator.h"
#include "engine/solver.h"
#include "symbolic/expr.h"
#include "tensor/dtype.h"
#include "tensor/layout.h"
#include "tensor/structure.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tsc::program {

using symbolic::Expr;
using tensor::DType;
using tensor::Layout;

inline constexpr int kVersion = 1;

/// A size known only at bind time; bound from the first input dimension (or integer input) that is
/// exactly this symbol, or else from the first that is a multiple of it plus what earlier symbols
/// say: program::binding_of finds it. Or one known only while a run is under way: a Define step
/// says what it is. These come last, in the order of their steps.
struct Symbol {
  Expr symbol; // of the sort size or data
  int64_t low = 0, high = INT64_MAX;
  /// What the user calls it; "" where that is the symbol's spelling.
  std::string name = {};
};
/// Sorts that sizes of a program may be over.
inline bool is_of_programs(Expr symbol) {
  return symbol.is_symbol(symbolic::SymbolSort::size) ||
         symbol.is_symbol(symbolic::SymbolSort::data);
}
/// Prints symbols by the user's names; `symbols` outlives it.
symbolic::SymbolWriter symbol_writer(const std::vector<Symbol> &symbols);

enum class Role : uint8_t {
  input,        // user input: the caller's memory, read (or mutated) in place
  weight,       // parameter, buffer or constant: owned by the weight set
  output,       // user output: the caller's memory
  intermediate, // packed into the workspace
  random_state, // {seed, call number}, int64: the instance's own, kept between runs
  failure,      // what does not hold of data, 0 before (Assertion), int64: the instance's own
  /// What the blocks of one launch tell each other: the instance's own, kept between runs, zeros
  /// before the first one of some shapes. Every launch can tell what an earlier one left.
  exchange,
};
inline constexpr int64_t kFailureBytes = 32;
inline constexpr int64_t kRandomStateBytes = 16;
struct Buffer {
  std::string name;
  DType dtype = DType::f32;
  Layout layout; // sizes, strides, offset in elements
  Expr bytes;    // extent of its storage, from element 0
  Role role = Role::intermediate;
  /// This buffer takes over the memory of that one (in place); -1: its own.
  int32_t alias_of = -1;
  std::string weight;   // role weight: qualified name
  bool mutated = false; // weight or input that steps write
  /// Of an input or a weight: its last dimension, of 2, holds the parts of complex numbers, which
  /// is what the user sees.
  bool is_complex = false;
};

struct KernelParameter {
  enum class Kind : uint8_t { pointer, size } kind = Kind::pointer;
  std::string name; // in the text: "in0", "out0", "s0"
  DType dtype = DType::f32;
  bool is_const = true;
};
/// What bulk copies of a tensor's boxes into shared memory are told (CUDA's tensor map, as
/// cuTensorMapEncodeTiled makes it): an argument of the kernel behind its parameters. Words of 16
/// bytes of a line are permuted by the line's number modulo 8; what lies outside reads as zeros.
struct TensorMap {
  uint32_t parameter = 0;    // of the kernel, a pointer: where the tensor starts, `offset` later
  Expr offset = 0;           // elements
  std::vector<Expr> sizes;   // 1 to 5, innermost first
  std::vector<Expr> strides; // elements; of the first dimension 1; others whole 16-byte words
  /// Elements of each dimension that one copy brings: of the first 128, 64, 32 or (no windows)
  /// 16 bytes, whose words are permuted among as many lines fewer, if at all.
  std::vector<int> box;
  /// Not empty: one tap of sliding windows (im2col) instead of a box. The first dimension holds
  /// channels, the last one the batch, those between, for each of which here is a number, what
  /// windows slide over: positions from `lower` to size - 1 + `upper`, `step` apart. A copy brings
  /// box[1] positions, one after another.
  std::vector<int> lower, upper, step;
  bool tf32 = false; // of f32: copies round to 10 bits of mantissa, as matrix units read TF32
};
/// Launch geometry and text under one plan. Grid over expressions of the program's symbols.
struct KernelVariant {
  /// One TC_KERNEL function with its helpers and a header comment; needs only the prelude.
  std::string text;
  std::array<Expr, 3> grid = {Expr(1), Expr(1), Expr(1)};
  std::array<int, 3> block = {1, 1, 1};
  Expr shared_bytes = 0;     // dynamic
  bool has_barriers = false; // uses __syncthreads or warp operations
  /// Blocks wait for one another: all of them run at once. grid[0] is the most; a device that holds
  /// fewer runs as many as it does, and the kernel divides its work among those that there are.
  bool together = false;
  std::vector<TensorMap> maps; // on the GPU alone
};
/// What the GPU's plan makes of the target, in nanoseconds without the launch. The first two are
/// the roof; the others are the plan's own, and the longest of all is what the kernel takes.
struct KernelEstimate {
  bool is_known = false;   // sizes are numbers, and the kernel is one over loops
  double memory = 0;       // every byte once, at the bandwidth that kernels reach
  double arithmetic = 0;   // its operations at the target's rate
  double accesses = 0;     // lines that the load and store units move
  double instructions = 0; // issued
  double latency = 0;      // what is read, with as much under way as its threads ask for at once
  int64_t blocks = 0, threads_in_flight = 0;
  double waves = 0;      // of blocks that the target holds at once
  double sectors = 0;    // of 32 bytes, that a warp's access touches on average
  double read_again = 0; // bytes that pass through memory a further time
  double roof() const { return std::max(memory, arithmetic); }
  double planned() const { return std::max({roof(), accesses, instructions, latency}); }
  /// Of the roof, what the plan reaches: launch and the last wave's end count for both.
  double share() const {
    constexpr double kStart = 2000;
    return (roof() + kStart) / (planned() + kStart);
  }
};
struct Kernel {
  std::string name; // stable: content decides it
  std::vector<KernelParameter> parameters;
  KernelVariant cuda, serial;
  Expr bytes_read, bytes_written;   // each buffer element touched counted once
  std::vector<std::string> origins; // user's nodes
  std::string plan;                 // one line: "row reduction, 8 rows a block, 16-byte loads"
  KernelEstimate estimate;
};

/// How a step sees a buffer.
struct Operand {
  uint32_t buffer = 0;
  Expr offset = 0; // elements
};
struct MatrixOperand {
  uint32_t buffer = 0;
  Expr offset = 0;                                          // elements
  Expr row_stride = 0, column_stride = 0, batch_stride = 0; // elements; 0 broadcasts
};

struct Launch {
  uint32_t kernel = 0;
  std::vector<Operand> pointers; // in the order of the kernel's pointer parameters
  std::vector<Expr> sizes;       // in the order of its size parameters
};
/// out[b, i, j] = alpha * sum_k a[b, i, k] * b[b, k, j] + beta * c[b, i, j]. Floats accumulate in
/// f32 (f64: f64).
struct Matmul {
  Expr batch = 1, m, n, k;
  DType dtype = DType::f32;         // of a and b
  std::optional<DType> result = {}; // of c and out, if another: f32 of f16 and bf16
  MatrixOperand a, b, out;
  std::optional<MatrixOperand> c; // row_stride 0: a bias over columns
  double alpha = 1, beta = 0;
  bool tf32 = false; // of f32: a GPU may round factors to TF32
};
/// Copies `bytes` between contiguous ranges (outputs that alias inputs).
struct Copy {
  Operand from, to; // offsets in elements of their buffers
  Expr bytes;
};
/// Sets `bytes` from the operand on to zero.
struct Fill {
  Operand to; // offset in elements of its buffer
  Expr bytes;
};
/// What all ranks of a group do together, each with memory of its own, contiguous from the operands
/// on. Every rank runs the same collectives in the same order.
struct Collective {
  enum class Kind : uint8_t {
    all_gather,     // `to` holds the `count` elements of each rank's `from`, in the order of ranks
    reduce_scatter, // `from` holds `count` elements for each rank; `to` gets this rank's, reduced
    all_reduce,     // `to` gets the `count` elements of `from`, reduced; may be the same memory
    broadcast,      // `to` gets the `count` elements of rank `root`'s `from`; likewise
    all_to_all,     // `from` holds sends[r] elements for each rank, `to` gets receives[r] of each
  } kind = Kind::all_gather;
  using Reduction = tsc_engine::Reduction;
  Reduction reduction = Reduction::sum;
  DType dtype = DType::f32;
  int64_t ranks = 1; // of the group; 0: nothing says how many
  std::string group;
  Operand from, to;
  Expr count = 0; // elements
  std::vector<Expr> sends = {}, receives = {};
  int64_t root = 0;
  std::string node = ""; // of the graph
};
/// The `then_steps` steps that follow run if it holds, else the `else_steps` steps after those.
/// What decides: a bool in memory, which the host reads (a run waits for it), or, without a
/// predicate, a size: 1 or 0.
struct Conditional {
  std::optional<Operand> predicate;
  Expr condition = 1;
  uint32_t then_steps = 0, else_steps = 0;
};
/// The `condition_steps` steps that follow run first; while the predicate (as above) then holds,
/// the `body_steps` steps after those run, and the condition's again.
struct WhileLoop {
  Operand predicate;
  uint32_t condition_steps = 0, body_steps = 0;
};
/// A routine of linear algebra; engine/solver.h says what it reads and writes, and how that lies.
struct Solver {
  tsc_engine::Routine routine = tsc_engine::Routine::cholesky;
  int64_t flags = 0; // of tsc_engine::SolverFlag
  DType dtype = DType::f32;
  Expr batch = 1, m = 0, n = 0, k = 0;
  Operand a;
  std::optional<Operand> b, c;
  Operand out;
  std::optional<Operand> second, third, info;
};
/// Does nothing but be there for others to wait for; it waits itself as any step does.
struct Event {};
/// A size that the data decides: the host waits until the steps so far are done, and reads what
/// `symbol` is from now on. The number lies in the symbol's range and is at most `bound`, an
/// expression over symbols that are known before (kUnbounded: nothing but the range holds it).
/// Steps in front of this one do not mention the symbol. Part of no branch or loop.
struct Define {
  static constexpr int64_t kUnbounded = INT64_MAX;
  Operand number; // an int64
  Expr symbol;
  Expr bound = kUnbounded;
};
struct Step {
  std::variant<Launch, Matmul, Copy, Fill, Collective, Conditional, WhileLoop, Event, Define,
               Solver>
      kind;
  std::string name;  // for profiles and errors
  bool once = false; // depends on weights alone: run when weights are loaded
  /// Stream 0 is the caller's; the others begin when a run does and end before it does.
  int stream = 0, device = 0;
  /// Earlier steps, of other streams, that must be done before this one begins (program/streams.h).
  std::vector<uint32_t> waits;
};

struct InputInfo {
  std::string name; // user input's name
  uint32_t buffer = 0;
  bool mutated = false;
  /// An integer, not a tensor: its value over the symbols. Its buffer (i64, rank 0, no bytes) is
  /// nobody's operand.
  std::optional<Expr> value = std::nullopt;
};
struct OutputInfo {
  std::string name; // "output_0", "mutated_NAME"
  /// Tensor: a buffer. Constant outputs have none and carry `text` (None, ints, floats).
  int64_t buffer = -1;
  Layout layout; // as the caller sees it; shapes over symbols
  DType dtype = DType::f32;
  bool is_mutation = false; // value lives in the mutated input or weight
  std::string text;
  bool is_complex = false; // as of a Buffer
};
/// As the user sees them: complex, without the dimension of parts.
Buffer seen(const Buffer &buffer);
OutputInfo seen(const OutputInfo &output);

/// What must hold of data while steps run. Steps note the number of the first that does not (from
/// 1) in the buffer of role failure: the graph's own assertions, which have the first numbers, in
/// its first word; checks of values, whose messages have {value} and {size} in the places of what
/// was found, in its second word, with the value and the extent behind it.
struct Assertion {
  std::string message, node, source_line;
};
/// What must hold of sizes, checked when they are bound: a condition that is 1, or 0.
struct SizeAssertion {
  Expr condition;
  Assertion assertion;
};

struct Program {
  int version = kVersion;
  std::string name;
  std::vector<std::string> archs; // {"sm_90"}
  std::string
      part; // whose facts the plan is made for, as target::find_target takes it; "": of archs
  std::vector<Symbol> symbols;
  std::vector<Buffer> buffers;
  std::vector<Kernel> kernels;
  std::vector<Step> steps;
  std::vector<InputInfo> inputs;
  std::vector<OutputInfo> outputs;
  /// How outputs that are no mutations lie in what the user's model gives, if that is known.
  std::optional<tensor::Structure> structure;
  std::vector<Assertion> assertions;
  std::vector<SizeAssertion> size_assertions;
};

/// Where a symbol's value comes from: dimension `dimension` of input `input` (-1: the value of an
/// integer input) is coefficient * symbol + offset, offset over symbols that come earlier.
struct Binding {
  size_t input = 0;
  int dimension = -1;
  int64_t coefficient = 1;
  Expr offset = 0;
};
/// Nothing if no input says what symbol number `symbol` is.
std::optional<Binding> binding_of(const Program &program, size_t symbol);
/// By output: where it is in what the user's model gives (tensor::paths_of); "" if it is a
/// mutation, or that is not known.
std::vector<std::string> output_paths(const Program &program);
/// The Define step that says what symbol number `symbol` is; null if none does.
const Define *definition_of(const Program &program, size_t symbol);

/// By name: how many ranks the groups of its collectives have; 0 where nothing says that. Empty for
/// a program that does not communicate.
std::map<std::string, int64_t> group_sizes(const Program &program);

/// The most dynamic shared memory that a block of its kernels for GPUs asks for, bytes, as far as
/// no size of a run decides it.
int64_t shared_bytes(const Program &program);

/// A Conditional, a WhileLoop or a Define: steps that follow depend on it.
bool decides(const Step &step);

/// Buffers that a step reads and writes, each once, ascending.
std::vector<uint32_t> reads(const Program &program, const Step &step);
std::vector<uint32_t> writes(const Program &program, const Step &step);

/// JSON text; from_json(to_json(p)) equals p and to_json is stable. Errors: UserError (bad_input)
/// TSC-P0nn, every index and size checked: a program that parses cannot make the runtime read out
/// of its tables.
std::string to_json(const Program &program);
Program from_json(std::string_view text, const std::string &label);

} // namespace tsc::program
