// The fused value graph of a kernel: the bodies of a group's members over one loop nest, in SSA
// form.
//
// Loops are split in two: rows (one thread group or one thread works on a row) and elements of a
// row. A group that reduces has its iteration loops as rows and its reduction loops as elements; a
// pointwise group has all its loops as elements and one row.
//
// Values are hash-consed, so what two members compute alike is computed once. What a member stores
// and a later one loads at the same index is forwarded (unrounded). Masked regions are flat: their
// loads carry a guard, the rest runs unconditionally and is selected.
//
// A reduction splits the kernel in phases: elements are walked once per phase, in order; a
// reduction fed in phase p has its result for row values of phase p + 1, a sort for its elements.
#pragma once

#include "scheduler/schedule.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace tsc::codegen {

using ir::BufferId;
using symbolic::Expr;
using tensor::DType;
using ValueId = uint32_t;

enum class Level : uint8_t {
  row,     // one value a row (or for the whole kernel)
  element, // one value an element
};

struct Value {
  ir::Op op = ir::Op::constant;
  DType dtype = DType::f32;
  std::vector<ValueId> args; // load: the set_indirect values that the index mentions
  Expr index;                // load, store, store_reduction, index_expr
  BufferId buffer = ir::kNone;
  tensor::Scalar constant = 0.0;
  DType source_dtype = DType::f32;
  ir::ReductionKind reduction = ir::ReductionKind::sum;
  ir::ScanKind scan = ir::ScanKind::sum;
  /// scan of tuples: how two are combined. Arguments: the members, then (of a part) those that it
  /// goes on from, and whether there are any.
  ir::CombineFunction combine;
  bool descending = false; // sort
  ir::StoreMode mode = ir::StoreMode::plain;
  uint32_t item = 0;
  /// load: happens only where this holds, else the value is 0; store: happens only there;
  /// set_indirect: the value has to be in range only there.
  ValueId guard = ir::kNone;
  Expr symbol, extent;        // set_indirect
  uint32_t check = ir::kNone; // set_indirect: of ir::Module::checks
  Level level = Level::row;
  uint32_t phase = 0;
  friend bool operator==(const Value &, const Value &) = default;
};
inline bool is_store(const Value &value) {
  return value.op == ir::Op::store || value.op == ir::Op::store_reduction;
}
/// Equal in all members, the constants in every bit: 0.0 and -0.0 are not one value.
bool is_same(const Value &a, const Value &b);
/// 0 or 0.0, not -0.0.
bool is_positive_zero(const tensor::Scalar &constant);

/// Members of what is scanned: 1 but for tuples.
size_t scanned_members(const Value &scan);
DType member_dtype(const Value &scan, size_t member);
/// Arguments that say where a part of a scan goes on, behind its members.
inline bool goes_on(const Value &scan) { return scan.args.size() > scanned_members(scan); }

/// What parts of a scan add up to in: roundings of totals add up over all parts that follow.
DType total_dtype(const Value &scan);
/// Rows in parts, a block each, that are scanned in one launch: the first row variable counts
/// parts. Every scan goes on where the part before it ended (tc_look_back.h).
struct LookBack {
  BufferId exchange = ir::kNone; // int64 words, of Role::exchange
  int threads = 0;               // of a block
  int64_t length = 0;            // elements of all parts of a row but the last
  Expr part, row;                // which part of which row a block has
  Expr parts, rows;              // how many there are
  /// Above 0: so many neighbouring rows are neighbours in memory, and a block has the same part of
  /// all of them. Each goes on from the part before (tc_combine_columns.h).
  int columns = 0;
  friend bool operator==(const LookBack &, const LookBack &) = default;
};
/// Threads of a block of LookBack::columns.
inline constexpr int kColumnPartBlock = 512;
/// Parts that are told of together: those that a warp listens to at once (tc_look_back.h), and of
/// tuples, which are combined in order (tc_combine_parts.h).
inline constexpr int kPartsTogether = 32, kTuplesTogether = 128;
/// Words of LookBack::exchange in front of those of member number `member` of all that is scanned:
/// the first counts launches. With the number of members: all of them.
Expr look_back_words(Expr rows, Expr parts, int64_t member);
/// From one member to the next.
Expr words_of_member(Expr rows, Expr parts);

struct KernelGraph {
  std::vector<Expr> row_variables, row_sizes;         // x0, x1, ... outermost first
  std::vector<Expr> element_variables, element_sizes; // r0, r1, ... (i0, i1, ... if pointwise)
  bool reduces = false;
  bool scans_end_phases = true;
  std::vector<Value> values;   // arguments before users
  std::vector<ValueId> stores; // in the order of the members
  std::optional<LookBack> look_back;
  symbolic::Ranges ranges; // of the variables and of the module's symbols
  uint32_t phases = 1;

  const Value &operator[](ValueId id) const { return values[id]; }
  Expr rows() const { return symbolic::numel(row_sizes); }
  Expr elements() const { return symbolic::numel(element_sizes); }
  /// Of an element, how many come before it in the order of the loops.
  Expr place_in_order() const {
    Expr place = 0;
    for (size_t i = 0; i < element_variables.size(); ++i)
      place = place * element_sizes[i] + element_variables[i];
    return place;
  }
  /// Of a row, how many come before it in the order of the loops.
  Expr row_in_order() const {
    Expr place = 0;
    for (size_t i = 0; i < row_variables.size(); ++i)
      place = place * row_sizes[i] + row_variables[i];
    return place;
  }
  /// True of a size that not all rows share: the last of the parts that a row is divided in.
  bool varies_by_row(Expr size) const {
    return std::any_of(row_variables.begin(), row_variables.end(),
                       [&](Expr variable) { return symbolic::depends_on(size, variable); });
  }
  bool is_reduction(ValueId id) const { return values[id].op == ir::Op::reduction; }
  bool sorts() const;
  /// True if all sorts are of elements that fit 32 bits, with their places where these are asked
  /// for: of 16 bits, or integers of 32 alone.
  bool sorts_packed() const;
  /// True if `id`, a sort, also says where elements were.
  bool finds_positions(ValueId id) const;
};

struct GraphOptions {
  /// welford_reduce and online_softmax_reduce as two plain reductions each, the second over
  /// distances from the first's result: the most exact way, and the cheaper one when the row stays
  /// on chip. Without it, a maximum and the sum of exponentials of distances to it are one
  /// online_softmax_reduce (join_softmax_statistics).
  bool two_pass_statistics = false;
  /// A scan ends a phase, as a reduction does: its result is there once all threads are done. Else
  /// it is a running value of the one thread that walks the row.
  bool scans_end_phases = true;
};
/// Precondition: group.bodies are there, parallel to the members.
KernelGraph build_kernel_graph(const ir::Module &module, const scheduler::Group &group,
                               const GraphOptions &options);

/// Drops values that no store and no check needs. For whoever changes a graph, before
/// assign_phases.
void remove_dead_values(KernelGraph &graph);

/// Moves arguments and guards before their users, after values were added behind them.
void put_in_order(KernelGraph &graph);

/// Loads of one element under conditions that leave out no place of one position (parts of a
/// tensor that lie side by side again) are one load; what is computed of them alike is computed
/// once. `where(c, f(a), g(b))` takes from each side what is left of it where c, or not c, holds.
void join_guarded_loads(KernelGraph &graph);

/// What is looked up and then not taken where a condition fails (samples outside of what a grid
/// points into) is not loaded there, if whatever shares the place shares the condition.
void guard_lookups(KernelGraph &graph);

/// Of each value whether it depends on what was loaded; whether it depends on a variable.
std::vector<bool> decided_by_data(const KernelGraph &graph);
std::vector<bool> varying(const KernelGraph &graph, Expr variable);

/// Of each value whether a reduction is computed from it, of any level.
std::vector<bool> fed_values(const KernelGraph &graph);

/// What a size may well be: its value, or that for the likely values of its symbols
/// (graph::SymbolRange::hint). Nothing where one of them has none.
std::optional<int64_t> likely(const ir::Module &module, Expr size);

/// The number that a floating value's dividend may be multiplied with, the same bits: the
/// reciprocal of a divisor that is a power of two. Nothing where `value` is no such division.
std::optional<double> exact_factor(const KernelGraph &graph, const Value &value);

/// Whether tuples are scanned by functions of their own.
bool combines(const KernelGraph &graph);

/// Whether `holds` of an operation that the kernel computes, those of combine functions included.
template <class Predicate> bool any_computes(const KernelGraph &graph, Predicate holds) {
  return std::any_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
    return holds(value.op) ||
           (value.combine &&
            std::any_of(value.combine.code->ops.begin(), value.combine.code->ops.end(),
                        [&](const ir::CombineOp &op) { return holds(op.op); }));
  });
}

/// Recomputes level and phase of every value, and `phases`. For whoever changes a graph.
void assign_phases(KernelGraph &graph);

} // namespace tsc::codegen
