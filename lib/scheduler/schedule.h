// Operations -> Schedule: dependencies, fusion, order, last uses, in-place reuse.
#pragma once

#include "ir/body.h"
#include "ir/ir.h"
#include "target/policy.h"
#include "target/target.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tsc::scheduler {

using ir::BufferId;
using ir::Expr;
using ir::OperationId;
using NodeId = uint32_t; // position in Schedule::nodes

/// Exact read or write: element `index` for all values of `variables` (c0, c1, ... after
/// normalization).
struct MemoryDep {
  BufferId buffer = ir::kNone;
  Expr index;
  std::vector<Expr> variables;
  std::vector<Expr> sizes;
  ir::StoreMode mode = ir::StoreMode::plain;
  friend bool operator==(const MemoryDep &, const MemoryDep &) = default;
};
struct StarDep { // the whole buffer
  BufferId buffer = ir::kNone;
  ir::StoreMode mode = ir::StoreMode::plain; // of the mutation that waits for the buffer
  friend bool operator==(const StarDep &, const StarDep &) = default;
};
struct WeakDep { // order only: the writer of `mutating` comes after this reader
  BufferId buffer = ir::kNone;
  BufferId mutating = ir::kNone;
  friend bool operator==(const WeakDep &, const WeakDep &) = default;
};
using Dependency = std::variant<MemoryDep, StarDep, WeakDep>;

enum class NodeClass : uint8_t {
  scheduler,
  external,
  nop,
  templated, // groups only: a root with its prologue and epilogue, in one kernel of a template
};

struct User {
  NodeId node = ir::kNone; // kNone: the graph's output
  bool can_inplace = false;
  bool is_weak = false;
};

/// Loops and accesses of a node as create-nodes made them.
struct LoopsBeforeFusion {
  ir::LoopBody body;
  std::vector<Dependency> reads, writes;
};

/// One operation.
struct Node {
  OperationId operation = ir::kNone;
  NodeClass node_class = NodeClass::scheduler;
  ir::LoopBody body;                     // scheduler nodes
  std::vector<Dependency> reads, writes; // in body order
  std::vector<Dependency> pruned;        // reads that only gave an order, which others imply
  Expr numel, reduction_numel;           // group.iteration
  std::vector<NodeId> ancestors_hint;    // direct predecessors, ascending
  size_t min_order = 0, max_order = 0;
  /// Where fusion turned the loops: what body, reads and writes were before. Else null.
  std::shared_ptr<const LoopsBeforeFusion> before_fusion;
};

/// Why two groups were not fused. Every refusal has a kind, the two sides, and bytes at stake.
enum class Refusal : uint8_t {
  none,
  not_loops,
  order,
  no_shared_data,
  device,
  too_large,
  reduction_shapes,
  shapes,
  memory_deps_differ,
  intermediate_nodes,
  cycle,
  far_apart,
  peak_memory,
  atomic,
  low_score,
  // Between lists, and between kernels of one launch
  list_lengths,
  list_reduction,
  list_element,
  list_order,
  large_kernel,
  weights_only,
  loop_order,  // turned loops would make them fit, but not walk through memory in runs
  no_template, // what no kernel of ours computes with a product or attention
  slower,      // measured; of a product's kernel, estimated
};
std::string_view to_string(Refusal refusal);
struct FusionDecision {
  NodeId first = 0, second = 0; // representative (first) members
  Refusal refusal = Refusal::none;
  int64_t shared_bytes = 0;
  std::string detail; // one sentence with names, sizes, indices
  std::string turned; // whose loops were turned for it, and how; "" if none were
  int round = 0;      // of fusion; 0: about one launch, not one kernel
};

struct TemplateParts;

/// What runs as one step, alone or with the others of its list: a fused kernel, a library call, or
/// a node that only allocates.
struct Group {
  std::vector<NodeId> members; // in order; one unless fused
  NodeClass node_class = NodeClass::scheduler;
  Expr numel, reduction_numel; // of the group: reduction_numel 1 for pointwise
  std::vector<Expr> iteration_sizes,
      reduction_sizes; // the loops that members share, outermost first
  /// One a member (loops only): Node::body over the group's loops. All have the same iteration
  /// sizes; reduction sizes are the group's, or none (a member that works once a row, or a group
  /// that does not reduce). A member with reduction loops need not reduce: it may be pointwise over
  /// the whole row.
  std::vector<ir::LoopBody> bodies;
  /// Buffers written and read only inside this group: never stored.
  std::vector<BufferId> internal_buffers;
  /// (output, input): output takes over the input's memory, every element read before it is written
  /// by the same iteration.
  std::vector<std::pair<BufferId, BufferId>> inplace;
  /// Buffers (inputs excluded) that nothing reads after this group.
  std::vector<BufferId> last_uses;
  /// Position in Schedule::lists: launched together with the groups before and behind it that have
  /// the same one. None of them waits for another.
  uint32_t list = ir::kNone;
  /// node_class templated: what its members do. Else null.
  std::shared_ptr<const TemplateParts> parts;
};

/// Groups that are launched together, blocks of one grid being dealt to them.
struct GroupList {
  /// foreach: the elements of a list operator, one list from before fusion on. combo: kernels that
  /// nothing fused.
  enum class Kind : uint8_t { foreach, combo } kind = Kind::combo;
  std::string made_by; // foreach: the list operators whose elements these are
  /// combo of large kernels: bytes that more than one of them reads, all walking through them in
  /// the order of their blocks. Blocks are dealt to the kernels in turn, so that what one has read
  /// is still in the second-level cache when the other asks for it. 0: one kernel's blocks after
  /// the other's.
  int64_t read_together = 0;
};

/// A way for one kernel to compute a product: blocks of `rows` x `columns` results, `blocks` of
/// them on a multiprocessor. What the kernel's template takes; figures in cost.cpp.
struct ProductTile {
  int rows = 128, columns = 128;
  int stages = 3; // steps of 128 bytes of terms in shared memory
  int lag = 0;    // 1: a step's product may still run when the next one starts
  int blocks = 2;
  /// Groups of warps divide the work, and blocks compute one tile after another.
  bool groups = false;
  int splits = 1; // blocks, a cluster, that share the terms of a tile; then each has one tile
  /// Each group of warps that multiplies has tiles of its own, which it finishes while the other
  /// multiplies.
  bool turns = false;
  /// Two blocks, a cluster, have tiles below each other, and each brings half of the columns'
  /// operand for both: the right operand has to be brought by bulk copies.
  bool pair = false;
  /// Products of a batch beside each other in a tile: a line of the left operand (bulk copies of
  /// windows) holds a step of each, and its slices are multiplied by their own columns alone.
  int products = 1;
  friend bool operator==(const ProductTile &, const ProductTile &) = default;
};
/// What a template's kernel computes. The root: attention, a sort of long rows (several kernels),
/// or `batches` products of floats, [rows, terms] @ [terms, columns], to which all else belongs.
struct TemplateParts {
  NodeId root = ir::kNone;
  Expr rows = 0, batches = 1;     // of a product; may be known at run time only
  int64_t columns = 0, terms = 0; // 0: no product
  int64_t sections = 0;           // of rows, each with a right operand of its own; 0: they share it
  ProductTile candidate;          // of those that the target allows, the one taken
  /// Neighbouring results of a row that are finished at once: 8 (tc_product_run), or 1 where rows
  /// of results, or of what reads them, do not divide into such runs.
  int run = 8;
  /// Results are finished one by one, neighbouring threads having neighbouring rows: what reads
  /// them stores along the rows (channels outermost).
  bool along_rows = false;
  bool by_tf32 = false;   // a product of f32 whose factors are rounded
  double nanoseconds = 0; // that the kernel is estimated to take (cost.h)
  /// Of a product, what that was estimated from: bytes that pass through memory, instructions for
  /// each result behind its sum.
  int64_t bytes = 0, instructions = 0;
  /// Computes the left operand, which nothing else reads, while it is read.
  std::optional<Group> prologue;
  /// Of a batch: elements of memory from what the prologue reads for one product to the next one's.
  int64_t prologue_step = 0;
  /// A product of few rows (tc_product_few.h), which has no prologue, and whose tile the generator
  /// chooses (cost.h, few_choice): what computes its right operand while it is read; nothing:
  /// memory has it.
  bool few = false;
  std::optional<Group> right;
  /// Attention of few queries: what computes keys, or values, while they are read, one member each;
  /// nothing: memory has them.
  std::optional<Group> keys, values;
  /// Reads the results, which nothing else reads, before they leave the kernel.
  std::optional<Group> epilogue;
};

/// Nodes that stayed together while the groups were put in order, and buffers after whose writers
/// they ran without reading them.
struct Block {
  std::vector<NodeId> members; // in order
  std::vector<BufferId> awaited;
};

/// What reorder-for-peak-memory found: bytes of the program's own memory alive at once, at most.
struct MemoryOrder {
  int64_t bytes_before = 0, bytes = 0; // equal if nothing is lower than the order of fusion
  std::string heuristic;               // of the order taken; "" if nothing was looked at
};

struct Schedule {
  std::vector<Node> nodes;               // by operation order, dead ones removed
  std::vector<Group> groups;             // in execution order
  std::vector<std::vector<User>> users;  // by BufferId
  std::vector<Block> blocks;             // collectives with the copies around them
  std::vector<GroupList> lists;          // what Group::list names
  std::vector<FusionDecision> decisions; // accepted and refused, in the order they were made
  MemoryOrder memory_order;
  std::vector<Schedule> subgraphs; // of ir::Module::subgraphs
};

/// One thing that a step of the pipeline changed.
struct StepChange {
  std::string kind;    // node, access, version, user, order, fusion, refusal, group, ...
  std::string subject; // an operation, a buffer, or a group as op0_op1
  std::string text;
};
/// What one step looked at, what it changed, and how much there was afterwards.
struct StepRecord {
  std::string step, looks_at;
  size_t nodes = 0, groups = 0;
  std::vector<StepChange> changes;
};

struct ScheduleOptions {
  const target::Policy *policy = &target::default_policy();
  const target::Target *target = nullptr;
  /// Called with each pipeline step's name and the state after it (--dump-after, --time-passes).
  std::function<void(std::string_view, const Schedule &)> after;
  /// If not null, gets one record a step (`dump-schedule --stage=init`): copies of the state are
  /// made for it.
  std::vector<StepRecord> *records = nullptr;
  /// If set, two groups that may be fused are only if one kernel takes less time than two: gets a
  /// schedule of one group, complete with bodies and internal buffers, and gives nanoseconds, or
  /// nothing if the group cannot be timed (then no rule but the others decides).
  std::function<std::optional<double>(const Schedule &)> fusion_timer;
};
Schedule schedule(const ir::Module &module, const ScheduleOptions &options);

enum class LogStage : uint8_t { pre_fusion, post_fusion };
struct LogOptions {
  LogStage stage = LogStage::post_fusion;
  bool newer_dialect = false; // PyTorch 2.11's spelling instead of 2.5's
  /// Kernel text of a group of a schedule, for "opN CUDA code:"; empty function: no code section.
  std::function<std::string(const Schedule &, const Group &)> kernel_text;
};
/// `dump-schedule --stage=init`: every step in order, with the changes grouped by kind.
std::string to_text(const std::vector<StepRecord> &records);
/// The log, byte for byte in the form of the seeds (docs/schedule-log.md).
std::string to_log(const ir::Module &module, const Schedule &schedule, const LogOptions &options);

} // namespace tsc::scheduler
