// Decisions that the GPU's plans share.
#pragma once

#include "codegen/plan.h"

namespace tsc::codegen {

/// What a plan is made for.
struct Request {
  const ir::Module &module;
  const scheduler::Group &group;
  const target::Target &target;
  const KernelGraph *given = nullptr; // the value graph, if not the group's own
  Divisibility checked;               // sizes whose divisibility the launch checks
  const Walk *like = nullptr;         // the grid and the block of this walk
  const PlanChoice *choice = nullptr; // what a tuner found to be faster
  PlanChoice chosen() const { return choice && !like ? *choice : PlanChoice{}; }
};

/// Exponentials of distances from a row's maximum need no digits that sums with the largest of them
/// and results of 16 bits do not show; nor do quotients that are only stored so.
void choose_quick(const ir::Module &module, KernelPlan &plan);

/// Blocks of a multiprocessor that shared memory has room for, the system's share of each counted;
/// one at least. `bytes`: of a block.
int64_t blocks_by_shared_memory(const target::Target &target, int64_t bytes);

/// Fills exact. After choose_quick.
void find_exact(KernelPlan &plan);

/// Neighbouring columns that a block reduces: a warp's loads are 128 bytes of floats.
inline constexpr int kColumnsPerBlock = 32;

/// Threads a row, the fewest: 8 runs of 16 bytes are one 128-byte line.
inline constexpr int kFewestRowThreads = 8;
/// A thread's registers that may hold its part of the row.
inline constexpr int kRegistersForRow = 128;
/// Registers that one element of the row takes a thread: its loads as they come, and values kept
/// between phases.
double registers_per_element(const ir::Module &module, const KernelPlan &plan);

/// True if more bytes are contiguous along the innermost row variable than along the innermost
/// element variable.
bool prefers_columns(const ir::Module &module, const KernelGraph &graph);

/// Neighbouring columns are neighbours in memory as far as the innermost loop over them goes: true
/// where that is known to be less than a warp.
bool has_few_neighbours(const KernelGraph &graph);

/// Loads of elements that may be issued first: no run-time index, no guard, a vector access.
std::vector<ValueId> preload_candidates(const KernelPlan &plan);
/// Issues all of them first.
void preload_all(KernelPlan &plan);
/// A pointwise walk's runs a thread, `wanted` if that leaves enough blocks; its grid, phases and
/// description. Of `walk` the length of runs counts.
void finish_flat(const Request &request, KernelPlan &plan, FlatWalk walk, int wanted);
/// A variable of element loops that the graph has none of.
Expr unused_variable(const KernelGraph &graph);
/// A loop along which a thread takes several elements.
struct DividedLoop {
  size_t loop = 0;       // of the element variables
  int64_t copies = 1;    // elements a thread
  bool overlaps = false; // the last thread starts where it still fits
};
/// The loop as two: threads, and `within` (the last of the element variables then), what a thread
/// takes. Of a loop that is a thread's, the second alone.
KernelGraph divide_loop(KernelGraph graph, const DividedLoop &divided, Expr within);
/// The graph without a short loop: a value that depends on it once for each of its elements.
struct Unrolled {
  KernelGraph graph;                        // phases are not assigned
  std::vector<std::vector<ValueId>> copies; // by value, of each element; one of what is the same
};
/// `loop`: which element variable; its size is a number. `inside`, or kNone: the condition under
/// which an element is one; what others compute is not stored. Nothing where a run-time index
/// depends on the loop, or where the graph would have more than `most_values` values.
std::optional<Unrolled> unroll(const KernelGraph &graph, size_t loop, size_t most_values,
                               ValueId inside = ir::kNone);
/// A graph of rows without one of their loops: what depends on it once for each of its elements,
/// reductions and stores among that. Nothing as above.
std::optional<KernelGraph> unroll_row_loop(const KernelGraph &graph, size_t loop,
                                           size_t most_values);
/// A graph that reduces short rows as one over its rows, a row's elements written out. Nothing
/// where a reduction is more than one operation an element, or as above.
std::optional<KernelGraph> unroll_rows(KernelGraph graph, size_t most_values);
/// A pointwise kernel, or short sums, whose places follow from divisions by a stride (gradients of
/// pools: what the windows hold that cover an element), elements of whole strides a thread; nothing
/// if nothing is divided, or sizes are symbols.
std::optional<KernelPlan> plan_covered(const Request &request, const KernelGraph &graph);
/// What estimate_kernel says that a plan takes, in nanoseconds; 0 where it says nothing.
double planned_time(const Request &request, const KernelPlan &plan);
/// Plans a pointwise kernel of which much is the same along a loop (not the innermost one) and
/// whose instructions take longer than its bytes: several elements along that loop a thread; false,
/// and nothing done, if there is no such loop.
bool plan_shared(const Request &request, KernelPlan &plan);
/// Along which loop a thread takes several elements.
enum class Beside : uint8_t {
  loads, // one that loads are contiguous along and stores are not: what is fetched is used
  any,   // one of which everything is a linear function: places are computed once
  parts, // one over parts that conditions tell apart: tensors one behind another
};
/// Plans a pointwise kernel of several elements a thread along a loop that is not the innermost one
/// (channels that lie beside each other, of a result where they lie apart); false, and nothing
/// done, if there is none.
bool plan_beside(const Request &request, KernelPlan &plan, Beside loops);
/// Nanoseconds in which memory moves what a pointwise kernel reads and writes; 0 if sizes are
/// symbols.
double memory_time(const Request &request, const KernelGraph &graph);
/// The same where what one element gathers just fits in the first-level cache: a thread takes the
/// elements one after the other, so that the threads of a multiprocessor look up in one place at a
/// time; false, and nothing done, if nothing is gathered so.
bool plan_in_turn(const Request &request, KernelPlan &plan);
/// Plans a pointwise kernel whose neighbouring elements look up in parts of tensors that shared
/// memory holds (KernelPlan::tables), each for many elements; false, and nothing done, if there are
/// none.
bool plan_tables(const Request &request, KernelPlan &plan);
enum class Interleaving : uint8_t {
  of_orders, // accesses go through the short loop first, and others last
  of_tables, // something is the same for all but the short loop: a number a channel
};
/// Plans a pointwise kernel with a short loop that is innermost in some accesses only; false, and
/// nothing done, if it has none, or if sizes are symbols that do not divide.
bool plan_interleaved(const Request &request, KernelPlan &plan,
                      Interleaving kind = Interleaving::of_orders);
/// Plans a pointwise kernel whose elements read neighbours of theirs along the innermost loop: in
/// whole runs, of which elements take theirs (KernelPlan::neighbours). False, and nothing done,
/// where nothing is read so, where stores are not whole runs, or nobody knows where runs start.
bool plan_neighbours(const Request &request, KernelPlan &plan);
/// A pointwise walk that reads several numbers of each element, one behind another in memory (taps
/// of a depthwise filter), in whole vectors of a run's elements. False, and `plan` is of no use,
/// where nothing is read so.
bool plan_taps(const Request &request, KernelPlan &plan);
constexpr int kRowBlock = 256; // threads of a block whose rows are parts of warps
/// Rows whose length no run divides, or that start anywhere: runs go by the memory's lines where
/// that makes them longer, and rows are long enough for the parts of runs at both ends not to
/// count. Not where results lie otherwise: neighbouring threads would store a run apart, each time
/// a part of a sector.
void align_in_memory(const ir::Module &module, KernelPlan &plan, RowWalk &walk);
/// What the ends of rows, and how many rows a block takes, ask of a walk whose threads and steps
/// are chosen; the plan's grid.
void finish_rows(const Request &request, KernelPlan &plan, RowWalk &walk);
/// True if what a thread computes of a kept row is more text than is fetched as fast as it runs:
/// elements in registers are computed one after the other, without a loop (measured: 88 elements of
/// a focal loss are 6300 instructions and took 80 us, where 44 were possible).
bool is_long_text(const KernelPlan &plan, const RowWalk &walk);
/// Whether a value differs from row to row, where there are rows.
bool varies_by_row(const KernelGraph &graph, ValueId id);
/// "32 threads a row, 8 rows a block, ", for descriptions.
std::string threads_text(const RowWalk &walk);
/// Plans a pointwise kernel whose innermost size no run divides by its rows, or parts of the one
/// row, in the memory's runs (KernelPlan::origin); false, and nothing done, if that makes no
/// longer accesses of most bytes, or if sizes are symbols.
bool plan_pointwise_rows(const Request &request, KernelPlan &plan);
/// A kernel's plan with one path, of the kind that its loops and accesses ask for.
KernelPlan make_plan(const Request &request);
/// Many elements divided by one number: its reciprocal once, then three instructions an element
/// instead of ten. So of an element's numbers (those of a short row, written out) that are divided
/// by one of them, and of a run's by what is the same for all of it. Powers of two are multiplied
/// with (exact_factor).
void choose_divisions(KernelPlan &plan);
/// What follows from a plan's walk, before it is printed: counts in 64 bits, divisions, functions.
void finish_plan(const Request &request, KernelPlan &plan);
/// One walk over a row gives all that is asked for.
bool reads_once(const KernelGraph &graph);
/// Plans a reduction, scan or sort of rows that neighbouring threads share.
void plan_rows(const Request &request, KernelPlan &plan);
/// The same of rows whose elements conditions tell apart, half of them from the other (rotations of
/// halves): a thread has an element of each part, and asks nothing. As many threads a row as the
/// `whole` one has: each as many elements. (Half of them, which have two runs of each part: 51 us
/// for 48.) Nothing where there are no parts.
std::optional<KernelPlan> plan_row_parts(const Request &request, const KernelGraph &graph,
                                         const RowWalk &whole);
/// The same of rows whose neighbours read the same elements (each item beside all others): threads
/// have `copies` of these rows, and what they read once. Nothing where rows have elements of their
/// own, or where that leaves threads idle.
std::optional<KernelPlan> plan_rows_beside(const Request &request, const KernelGraph &graph,
                                           const RowWalk &alone, int64_t copies);
/// The same, of more threads a row where these are estimated to be faster.
void plan_rows_in_order(const Request &request, KernelPlan &plan);
/// Plans a reduction of short rows of which neighbours share an access or what they read (windows
/// of pools and depthwise convolutions); false, and nothing done, if this one has no such rows.
/// `choice`, or null: of this tile alone.
/// `long_ones`: rows that are long for so few threads, too, where each has a tile of them.
/// `in_runs`: a tile's places may be brought in runs (WindowRun).
bool plan_windows(const ir::Module &module, const scheduler::Group &group, KernelPlan &plan,
                  const target::Target &target, const PlanChoice *choice, bool long_ones,
                  bool in_runs);
/// Plans a reduction, or several walks, of columns (prefers_columns), `columns` of them a block; 0:
/// as many as fill a line, or a sector where some operand lies along the column.
void plan_columns(const Request &request, KernelPlan &plan, int columns = 0);
/// The same of short columns, each in the registers of a thread; false, and nothing done, where
/// what is computed and kept from one walk to the next is too much for one.
bool plan_held_columns(const Request &request, KernelPlan &plan);
/// Whether a block's threads walk over some of their columns more than once.
bool walks_again(const KernelPlan &plan);
/// The same of longer columns that the registers of a block's threads hold, where elements are
/// walked more than once and their number is known; false, and nothing done, where none fit.
bool plan_kept_columns(const Request &request, KernelPlan &plan);
/// Registers in which a thread keeps a row's values from one walk over it to the next.
int64_t held_words(const KernelPlan &plan);
/// Plans short rows, a thread a row; `hold`: what is read stays in its registers.
void plan_short_rows(const ir::Module &module, const scheduler::Group &group, KernelPlan &plan,
                     bool hold);
/// Plans one or the other, as asked for; of operands that lie either way what is estimated to be
/// faster. `plan`: its graph has two-pass statistics.
void plan_rows_or_columns(const Request &request, KernelPlan &plan, bool columns);
/// Plans a reduction of columns of narrow elements (prefers_columns) in runs of neighbouring
/// columns whose elements are one access; false, and nothing done, if they have none, or if a
/// column is walked more than once. `choice`, or null: with as many threads a column. `mixed`:
/// other loads may be contiguous along the column.
bool plan_wide_columns(const ir::Module &module, const scheduler::Group &group, KernelPlan &plan,
                       const target::Target &target, const PlanChoice *choice, bool mixed = false);
/// The plan of rows that are as long as any, where blocks have a row each, most of them that long
/// (parts of a row), and runs then begin and end with them: nothing is asked of an element. Only
/// where much is done with one.
std::optional<KernelPlan> plan_of_full_rows(const KernelPlan &plan);
/// The coefficient of `variable`, if it is a number; 0 if the index does not mention it.
std::optional<int64_t> step_along(Expr index, Expr variable);
/// Bytes of what a thread accumulates for one row.
int64_t accumulator_bytes(const KernelGraph &graph);
/// Plans a reduction that keeps a short innermost loop, in runs of the piece of memory in which its
/// rows lie with the last element loop (WindowWalk::kept): numbers a channel, channels innermost.
/// False, and nothing done, if there is no such piece, or if its size is a symbol.
bool plan_pieces(const Request &request, KernelPlan &plan);
/// Whether the last loop of rows is as short as such a loop is.
bool keeps_few(const KernelGraph &graph);
/// Rows that a block of that plan has, where their elements are parts of sectors; 0: none.
int64_t kept_in_pieces(const ir::Module &module, const KernelGraph &graph,
                       const target::Target &target);
/// Makes loads of single elements that wait for nothing runs of one element (Access::vector), so
/// that those of several runs may be under way before the first is used. After classify_accesses,
/// before fill_phases.
void load_apart(KernelPlan &plan);
/// Runs of a walk in a loop whose loads wait together: as many as few registers hold, and so many
/// that they divide a thread's, if that costs less than half. A run is an access of `vector`
/// elements and stands for `elements` of what is walked over by `threads`, a row's or a column's.
int runs_ahead(const ir::Module &module, const KernelPlan &plan, int vector, int elements,
               int threads);
/// "2 walks over the row", for descriptions.
std::string walks_text(const KernelPlan &plan, const char *over);
/// "16-byte accesses", for descriptions.
std::string access_text(const ir::Module &module, const KernelPlan &plan, int vector);

/// Puts the loop that all stores and most bytes are contiguous along last, where that is another
/// one: loops are those of what the kernel keeps to itself, too, which lies nowhere.
bool order_elements(const ir::Module &module, KernelGraph &graph, bool by_short_ones = false);
/// Which edges plan_tile's tiles may have.
enum class TileEdges : uint8_t {
  long_ones, // of 16 elements and more
  any,       // a loop of a few elements is one, the other one is so much longer
  of_groups, // a few elements are neighbours in what is stored and loaded, groups of them in
             // neither
};
/// Plans a pointwise kernel with transposed operands; false, and nothing done, if there are none.
/// `like`: tiles as large as those; `choice`: elements a thread and of a run, where it says so.
/// `guarded`: also through loads under conditions that follow from an element's place (padding,
/// joins); false if it turns none of these.
bool plan_tile(const ir::Module &module, const scheduler::Group &group, KernelPlan &plan,
               const target::Target &target, const TileWalk *like, const PlanChoice &choice,
               TileEdges edges = TileEdges::long_ones, bool guarded = false);
/// Whether a value is computed, in a few steps, of elements' places and constants alone; the places
/// among what it is computed of, itself included, are added to `places`, if given.
bool is_of_place(const KernelGraph &graph, ValueId id, std::vector<ValueId> *places = nullptr);

/// Rows that are scanned, short enough for a thread's registers, and so many that one a thread
/// fills the machine: neighbouring lanes load and store neighbouring elements through shared
/// memory. (Threads that share a row tell each other what they have in some 50 instructions an
/// element: 418,000 rows of 49 of 16 bits took 58 us for what memory needs 20 for, H200.)
bool holds_own_rows(const ir::Module &module, const KernelPlan &plan, const target::Target &target);
/// Of rows that a thread has alone, and that lie one behind another, what goes by lanes
/// (KernelPlan::by_lanes): lane by lane, each access would leave out what lies between, and write
/// sectors again for each part of the rows.
void find_rows_by_lanes(const ir::Module &module, KernelPlan &plan, const RowWalk &walk);
/// As many such rows a block, at most `most`, as leave each its shared memory.
int own_rows_of_block(const ir::Module &module, const KernelPlan &plan, int most);

} // namespace tsc::codegen
