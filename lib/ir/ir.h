// Loop-level IR. Loops are data.
//
// Two levels:
//   1. The expression DAG (LoopNode): lazy, elementwise tensor values that lowering builds and
//      inlines into each other. A node has a domain (`sizes`); its variables are variable(0) ..
//      variable(rank - 1), spelled i0, i1, ... An operand names another node and gives the
//      operand's index, one expression per dimension of the operand's domain, over this node's
//      variables. So broadcasting, permuting, slicing and reshaping are index maps, and reindexing
//      twice is substitution.
//   2. Operations: what has been realized into buffers (Computed: loops; Extern: a library call;
//      ...), in the order in which they were registered. The scheduler orders and fuses operations.
//
// Units: sizes, strides, offsets and indices are elements, never bytes. Ranges are half-open:
// [0, size).
// Values: f16 and bf16 are computed in f32; where a value is stored it is rounded to the buffer's
// dtype.
// Evaluation order inside a body is the order of BodyOps; there are no side effects but store.
// Ownership: a Module owns everything; ids are positions and stay valid.
#pragma once

#include "graph/graph.h"
#include "symbolic/expr.h"
#include "tensor/dtype.h"
#include "tensor/layout.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tsc::ir {

using symbolic::Expr;
using tensor::Device;
using tensor::DType;
using tensor::Layout;
using tensor::Scalar;

using LoopId = uint32_t;
using BufferId = uint32_t;
using OperationId = uint32_t;
inline constexpr uint32_t kNone = UINT32_MAX;

enum class Op : uint8_t {
#define TSC_OP(name, operands, result, cost, continuity) name,
#include "ir/opcodes.def"
#undef TSC_OP
  // Leaves
  load,       // LoopNode: element of a buffer. BodyOp: at an index
  constant,   // a scalar
  index_expr, // the value of an index expression, as `dtype`
  operand,    // in a scan's combine function: argument `constant` (Scan::combined)
  // Structure
  view,   // LoopNode only: operand 0, reindexed; operands 1.. give run-time indices (see LoopNode)
  masked, // where(operand 0, operand 1, constant), operand 1 evaluated only where operand 0 holds
  // BodyOp only
  store,
  store_reduction,
  reduction,
  scan,
  sort,
  get_item,     // element `item` of a tuple-valued reduction, scan or sort
  set_indirect, // binds a run-time index symbol to a value, wrapped and bounds-checked
};
std::string_view op_name(Op op); // as in the logs: "truediv"
/// Draws random numbers: rand, randn, rand_exponential, rand_bits.
bool is_random(Op op);
/// What one operation on one element takes, roughly.
enum class OpCost : uint8_t { instruction, function, angle, series };
OpCost op_cost(Op op);    // of those in the table; others are an instruction
int operand_count(Op op); // -1 for those below the table
bool jumps(Op op);        // where the last bits of an operand decide; of those in the table

/// Iteration variable k of every LoopNode's domain and of every operation's loops: symbol "i<k>".
Expr variable(size_t k);
/// Stands, inside operand 0's index map of a `view` node (and Scatter's output index), for the
/// value of operand k >= 1, wrapped if negative: symbol "v<k>".
Expr operand_value(size_t k);

struct Operand {
  LoopId node = kNone;
  std::vector<Expr> index;
};

struct LoopNode {
  Op op = Op::constant;
  DType dtype = DType::f32;
  std::vector<Expr> sizes;
  std::vector<Operand> operands;
  BufferId buffer = kNone; // load
  /// load: how to see the buffer's storage (absent: the buffer's own layout).
  std::optional<Layout> layout;
  Scalar constant = 0.0;           // constant; masked: the value elsewhere; operand: which
  Expr expr;                       // index_expr
  DType source_dtype = DType::f32; // to_dtype, to_dtype_bitcast
  /// view with run-time indices: the extent that operand k + 1's value is held to, and how (of
  /// Module::checks; absent: as DataCheck() says).
  std::vector<Expr> indirect_extents;
  std::vector<uint32_t> checks;
  std::vector<uint32_t> origins; // ids of graph nodes
};

enum class ReductionKind : uint8_t {
  sum,
  prod,
  max,
  min,
  any,
  all,
  xor_sum,
  argmax,
  argmin,
  welford_reduce,        // (mean, m2, weight) of one input
  welford_combine,       // (mean, m2, weight) of three inputs
  online_softmax_reduce, // (max, sum of exp(x - max))
};
std::string_view reduction_name(ReductionKind kind); // as in the logs: "sum", "welford_reduce"
size_t tuple_size(ReductionKind kind);               // values it yields: 1, 2 or 3
/// combine: tuples, by a function of the scan's own.
enum class ScanKind : uint8_t { sum, prod, max, min, logsumexp, combine };
/// How a scattered value meets what is there: in any order, each exactly once (but for plain).
enum class StoreMode : uint8_t { plain, atomic_add, atomic_mul, atomic_max, atomic_min };
std::string_view store_mode_name(StoreMode mode); // "atomic_add"; "" for plain

// ---- operations

/// Stores value(i...) to output[i...]. Domain: the buffer's sizes.
struct Pointwise {
  Operand value;
  bool allocates_only = false; // stores nothing: memory whose contents nobody has written yet
};
/// output[index(i..., v...)] = value(i...), or +=, *=, max=, min= under the atomic modes. `index`
/// is one expression per output dimension over variable(k) and operand_value(k) of `indices`.
/// Domain: `sizes`. The output is a mutation of an existing buffer (MutationLayout).
struct Scatter {
  std::vector<Expr> sizes;
  Operand value;
  std::vector<Operand> indices; // operand_value(1), operand_value(2), ...
  std::vector<Expr> extents;    // one an index
  std::vector<uint32_t> checks; // as LoopNode::checks
  std::vector<Expr> index;
  StoreMode mode = StoreMode::plain;
};
/// Variables: output's 0 .. n-1, then the reduction's n .. n+m-1.
struct Reduction {
  ReductionKind kind = ReductionKind::sum;
  DType source_dtype = DType::f32; // of the inputs
  std::vector<Expr> reduction_sizes;
  std::vector<Operand> inputs; // 1, or 3 for welford_combine
  size_t item = 0;             // which value of the tuple this buffer stores
};
/// Inclusive scan along the last loop: variables as in Reduction, the scanned dimension last.
/// `axis` is its position in the output's sizes.
struct Scan {
  ScanKind kind = ScanKind::sum;
  size_t axis = 0;
  std::vector<Operand> inputs; // 1, or of `combine` one a member of the tuple
  /// combine: f(a, b), one result a member, over Op::operand nodes: of n members 0 .. n - 1 are
  /// those of a, what comes before, n .. 2n - 1 those of b. Associative; nothing else is asked.
  std::vector<Operand> combined;
  size_t item = 0;        // which member this buffer stores
  bool backwards = false; // element i of the scan stands at size - 1 - i of the output
};

/// Sorts `length` elements along the last loop, stably: variables as in Scan. NaN is the largest
/// value, -0.0 and 0.0 are equal. Stores the values in order, or where each of them was: those from
/// place `first` on, as many as the output has along `axis`.
struct Sort {
  size_t axis = 0;
  Expr length;
  Expr first = 0;
  bool descending = false;
  bool positions = false;   // store positions (i64) instead of values
  DType dtype = DType::f32; // of the values
  Operand input;
};

struct BufferView { // what an operand or a graph output sees of a buffer
  BufferId buffer = kNone;
  Layout layout;
  DType dtype = DType::f32;
};

/// A library call. Which library runs it is the program's business; here it is only what is
/// computed.
enum class Library : uint8_t {
  /// out = alpha * (a @ b) + beta * c; inputs a, b[, c]; 2-D or with one batch dimension. c
  /// broadcasts.
  matmul,
  /// Rows in sections: out[i] = inputs[0][i] @ inputs[1][section of i]; inputs [rows, terms],
  /// [sections, terms, columns], and i32 [sections], neighbours, where each section ends. An end
  /// before the last one, or behind all rows, is taken for that; rows behind the last section are
  /// zeros. Always in a template's kernel.
  sectioned_matmul,
  /// out = softmax(alpha * query @ key^T + mask) @ value; inputs query, key, value[, mask], all of
  /// rank 4: [batch, heads, length, depth], the mask [batch, heads, rows, columns], broadcast
  /// dimensions with stride 0. Keys and values may have fewer heads, each shared by a group. A bool
  /// mask hides where it is false. Outputs: the result[, the logarithms of the sums of weights,
  /// f32];
  /// with `parts`, all f32 and of each of so many parts of the keys (the first tc_few_part of them,
  /// the next ..): sums of weighted values [parts, batch, heads, length, depth], and [parts, batch,
  /// heads, length] the powers of two that weights are relative to, and their totals.
  attention,
  /// Sorts the rows of inputs[0], [rows, length] and contiguous, as Sort does; for rows that no
  /// block holds. Outputs: the values in order, where each of them was (i64), or both in this
  /// order, contiguous.
  sort,
  /// The output is made of the inputs, one after the other along a dimension. Nothing is left to
  /// do: each input's memory is its slice of the output (LayoutKind::non_owning).
  concatenate,
  /// Runs one of two subgraphs, operands inputs[1..] (or all inputs where `condition` decides). The
  /// predicate inputs[0] is a bool of rank 0. Output: a tuple of what the subgraphs yield.
  conditional,
  /// Runs subgraph 1 while subgraph 0 yields true; both take the inputs. The first `carried` of
  /// them are replaced by what subgraph 1 yields, and are the output, a tuple.
  while_loop,
  /// A kernel that the user brought, or one of ours that computes an operator whole (`custom`).
  /// Output: a tuple of its results and, where it has one, its workspace, which nobody reads.
  user_kernel,
  /// The host reads the number inputs[0] (i64, rank 0), which is what the size `symbol` is from
  /// then
  /// on. Output: i64 of rank 0 that nobody writes; what mentions the symbol depends on it.
  define_size,
  /// A routine of linear algebra (Solver) over dense matrices, columns one after another, batches
  /// outside. Inputs and the items of the tuple that is its output: engine/solver.h, in that order.
  solver,
  // Between ranks, and around that. "Writes x" below: an output of the operation mutates x.
  gather_copy_in, // inputs: this rank's shards; outputs a tuple: their concatenation, and memory
                  // for the concatenations of all ranks
  tuple_item,     // inputs[0]: the tuple; output `item` of it
  // Collectives read inputs[0] and write inputs[1] (which may be the same), or, where there is
  // none, the output.
  all_gather,     // this rank's part; all ranks' parts in order
  reduce_scatter, // `group.size` equal parts; this rank's, reduced over ranks
  all_reduce,     // a tensor; the same reduced over ranks
  broadcast,      // a tensor; that of rank `root` of the group
  all_to_all,     // parts of `sends` elements for each rank; parts of `receives` from each
  wait,           // inputs[0]: what a collective writes or yields; done when it is
  split_copy_out, // inputs[0]: [ranks, columns]; writes inputs[1..], their columns in order
  chunk_concat,   // inputs[0..n-2]; writes inputs[n-1], [ranks, ..]: row r holds chunk r of each,
                  // filled up with zeros
  set_storage,    // inputs[0] takes over the memory of inputs[1]; writes both
  resize_storage, // frees or makes the storage of inputs[0]
};
/// conditional and while_loop.
bool has_subgraphs(Library library);
/// True for gather_copy_in and what follows it.
bool is_between_ranks(Library library);
/// True for what ranks do together: every rank does them in the same order.
bool is_collective(Library library);
struct CustomCall; // ir/custom_call.h
struct ProcessGroup {
  std::string name;
  int64_t size = 1; // ranks; 0: nothing says how many
};
/// What is asked of a library; engine/solver.h says what the routines are.
struct Solver {
  uint8_t routine = 0; // tsc_engine::Routine
  uint8_t flags = 0;   // tsc_engine::SolverFlag
  Expr batch = 1, m = 0, n = 0, k = 0;
  bool has_info = false; // the tuple's last item
};
/// Attention whose scores go through a function, over variables [batch, head, row, column].
struct ScoreFunctions {
  std::vector<Expr> sizes;     // of the four variables
  Operand score;               // what becomes of a score, f32; Op::operand is the score before it
  std::optional<Operand> seen; // bool: whether it counts; absent: it does
  /// Rows and columns of the blocks that lists say to compute, or 0: there are no lists. They are
  /// inputs[3] to inputs[6], i32: how many blocks of columns count in part for
  /// [batch, head, block of rows], which [batch, head, block of rows, place]; and two of those that
  /// count whole. Each may have one batch or head for all. What no list names is not seen.
  int64_t block_rows = 0, block_columns = 0;
};
struct Extern {
  std::string kernel;                       // as in the logs: "extern_kernels.mm"
  std::string ir_class = "ExternKernelOut"; // as in the logs
  Library library = Library::matmul;
  std::vector<BufferView> inputs;
  double alpha = 1, beta = 1;
  bool tf32 = false;   // product of f32: factors may be rounded to TF32
  bool causal = false; // attention: row i sees columns 0 to i
  int64_t parts = 0;   // attention: what is yielded of each, 0: the result
  /// attention: inputs from [3] on are then its lists, and what the functions read.
  std::shared_ptr<const ScoreFunctions> scores;
  bool descending = false;           // sort
  bool values = false;               // sort: the first output is the values
  bool positions = false;            // sort: the last output is where they were
  ProcessGroup group;                // collectives
  std::string reduction;             // reduce_scatter, all_reduce: of tensor::kRankReductions
  int64_t root = 0;                  // broadcast
  std::vector<Expr> sends, receives; // all_to_all: elements, by rank
  size_t item = 0;                   // tuple_item
  std::vector<uint32_t> subgraphs;   // of the module: conditional {true, false}, while_loop
  std::optional<Expr> condition;     // conditional: over sizes, 1 or 0
  size_t carried = 0;                // while_loop
  std::shared_ptr<const CustomCall> custom; // user_kernel
  Expr symbol;                              // define_size
  std::optional<Expr> bound;                // define_size: the most that it can be
  Solver solver;                            // solver
};

/// Of attention: the tensor that is added to the scores, or null.
inline const BufferView *added_mask(const Extern &call) {
  return !call.scores && call.inputs.size() > 3 ? &call.inputs[3] : nullptr;
}

/// Layouts that are not plain memory.
enum class LayoutKind : uint8_t {
  fixed,
  flexible,   // strides may still be chosen (before freezing)
  movable,    // strides are chosen, the memory may still become a slice of another buffer's
  non_owning, // storage is a slice of that of `view_of`
  mutation,   // storage is that of `mutates`
  none,       // no tensor
  multi_output,
};
struct Buffer {
  std::string name; // "buf0"; inputs and constants: their graph name
  DType dtype = DType::f32;
  Device device;
  Layout layout;
  LayoutKind layout_kind = LayoutKind::fixed;
  enum class Role : uint8_t {
    input,
    constant,
    computed,
    exchange, // of a kernel's own: what blocks tell each other (program::Role::exchange)
  } role = Role::computed;
  OperationId operation = kNone; // the producer
  BufferId mutates = kNone;      // layout_kind mutation: the target
  /// layout_kind non_owning: the buffer in whose storage this one lies; `layout` is over that
  /// storage, the slice's offset included.
  BufferId view_of = kNone;
  std::vector<BufferId> aliases; // buffers whose storage this one shares
  /// Constant or input that is a parameter, buffer or constant: its qualified name.
  std::string weight;
  /// Input that is an integer of the caller, not a tensor (dtype i64, rank 0): its value over the
  /// symbols. No operation reads it; it binds symbols.
  std::optional<Expr> scalar;
};

struct Operation {
  std::string name; // "op0"
  std::variant<Pointwise, Scatter, Reduction, Scan, Sort, Extern> kind;
  std::vector<BufferId> outputs; // the first is the operation's own buffer
  Device device;
  std::vector<uint32_t> origins; // ids of graph nodes, ascending
  /// What it computes is an element of the result of the list operator Module::lists[list].
  uint32_t list = kNone;
  bool has_side_effects = false;
  bool is_loops() const { return !std::holds_alternative<Extern>(kind); }
};

struct Output {
  std::variant<BufferView, Expr, double, bool, graph::None> value;
  graph::OutputKind kind = graph::OutputKind::user;
  std::string target; // mutated buffer's or input's name
};

/// Where a name in the IR comes from, for comments and `tsc explain`.
struct Origin {
  std::string node;        // the user's node
  std::string target;      // its operator
  std::string source_line; // the user's code
};

/// Sliding windows over [N, C, sizes..] as a convolution reads them: position p and tap t of
/// dimension k are at p * stride[k] + t * dilation[k] - padding[k], zeros outside. What is slid
/// over, and how many positions there are, may be known at run time only.
struct Windows {
  uint32_t origin = 0; // the graph node
  Expr batch = 0;
  int64_t channels = 0;
  std::vector<Expr> sizes, positions; // outermost first
  std::vector<int64_t> kernel, stride, padding, dilation;
};

/// What must hold of sizes: checked when they are known.
struct SizeAssertion {
  Expr condition; // 1 or 0
  graph::Assertion assertion;
};

/// What a run-time index is held to, and what is said when it is not: the message has {value} and
/// {size} in the places of the index and of the extent ({float32} or {float64} where the index is
/// the bits of such a number).
struct DataCheck {
  bool wraps = true; // in [-extent, extent), negative ones count from the end; else in [0, extent)
  graph::Assertion assertion = {"index {value} is not in [-{size}, {size})", "", ""};
};
/// What is said of `value`: "index 7 of input 'ids' is not in [0, 5) (node embedding)".
std::string failure_text(const DataCheck &check, int64_t value, int64_t extent);

/// Entry k of a list of checks that may be shorter than the list of indices: kNone beyond.
inline uint32_t check_at(const std::vector<uint32_t> &checks, size_t k) {
  return k < checks.size() ? checks[k] : kNone;
}

struct Module {
  std::string name; // of a subgraph
  std::vector<LoopNode> loops;
  std::vector<Buffer> buffers;
  std::vector<Operation> operations;
  std::vector<BufferId> inputs; // in placeholder order
  std::vector<Output> outputs;
  std::vector<Origin> origins;
  std::vector<Windows> windows;   // hints: loops say what is computed
  std::vector<std::string> lists; // the user's list operators (aten._foreach_*), by node name
  symbolic::Ranges ranges;
  std::vector<graph::SymbolRange> symbols;
  std::vector<graph::InputSpec> input_specs; // parallel to inputs
  /// Their outputs are computed buffers, each of its own, laid out as the tuple's items are.
  std::vector<Module> subgraphs;
  std::vector<graph::Assertion> assertions; // of data, also those of subgraphs
  std::vector<SizeAssertion> size_assertions;
  std::vector<DataCheck> checks; // of this module's own loops

  /// Row `id` of `checks`; kNone: what holds where nothing else is said.
  const DataCheck &check_of(uint32_t id) const;
  const Buffer &buffer(BufferId id) const { return buffers[id]; }
  /// The buffer at the end of the `mutates` and `view_of` chain: where the bytes are.
  BufferId storage_of(BufferId id) const;
  /// The windows among what `operation` computes, null if there are none or several.
  const Windows *windows_of(const Operation &operation) const;
};

} // namespace tsc::ir
