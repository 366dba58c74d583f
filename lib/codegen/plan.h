// Kernel plans: everything that the printer needs, decided.
#pragma once

#include "codegen/access.h"
#include "codegen/kernel_graph.h"
#include "codegen/tuning.h"
#include "target/target.h"

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace tsc::codegen {

/// Pointwise on the GPU: block b's threads take `steps` runs of `vector` elements each; step k of
/// thread t is run (b * steps + k) * block + t.
struct FlatWalk {
  int vector = 1, steps = 1, block = 256;
  bool guard = false; // the last block has runs past the end
};
/// Pointwise on the GPU with transposed operands: a block takes a tile of `edge` elements along the
/// innermost variable times `height` along the one before it. Loads marked `tiled` are read in runs
/// of `across` elements along the outer one of them and turned in shared memory; everything else
/// works in `steps` runs of `vector` elements a thread along the inner one.
struct TileWalk {
  int vector = 1, steps = 1, block = 256;
  int edge = 32, height = 32, across = 1;
  bool guard = false; // tiles reach past the end
  /// Neighbours along the edge, from a multiple of their number on, that are neighbours where tiled
  /// loads read, too: a run of these is `across` such groups.
  int group = 1;
  int elements() const { return edge * height; }
  int loaded_run() const { return across * group; } // elements
  /// Runs of a line: where tiled loads read (`turned`) a line goes down, else along the edge.
  int runs_of_line(bool turned) const { return turned ? height / across : edge / vector; }
  /// Lines of which the block's threads take a run each at a time, so that a thread stays at its
  /// place in them; some threads may be left over. 0: a line has more runs than there are threads,
  /// which take one run after the other.
  int lines_at_once(bool turned) const { return block / runs_of_line(turned); }
  int lines(bool turned) const { return turned ? edge / group : height; }
  int steps_of(bool turned) const {
    const int at_once = lines_at_once(turned);
    return at_once > 0 ? (lines(turned) + at_once - 1) / at_once
                       : (lines(turned) * runs_of_line(turned) + block - 1) / block;
  }
  /// Few elements along the outer variable: they lie in lines along the inner one, of which runs
  /// are neighbours then.
  bool lies_across() const { return height < 16; }
};
/// Which runs of a row are thread `lane`'s.
enum class RunOrder : uint8_t {
  interleaved, // lane, lane + threads, ...
  by_warp,     // the same within the neighbouring runs of each warp (scans, packed sorts)
  by_thread,   // neighbours: lane * steps, ... (sorts by comparison)
};
/// `threads` neighbouring threads share a row, `rows` rows share a block. `steps` runs of a thread
/// are kept on chip, or (steps 0) there are as many as it takes, read again in each phase.
struct RowWalk {
  int vector = 1, steps = 0, threads = 32, rows = 1;
  bool guard_row = false, guard_run = false;
  RunOrder order = RunOrder::interleaved;
  /// Runs of as many steps end in the row, wherever it starts; they begin there, too, but for the
  /// first step's where there is a KernelPlan::origin.
  int whole_steps = 0;
  /// steps 0: iterations whose loads are under way at once.
  int ahead = 1;
  /// Above 1 ahead, 0 or: the innermost loop's pieces that the row's threads take at a time, each
  /// thread staying at its place in them; threads that are left over have nothing.
  int pieces = 0;
  /// steps 0, KernelPlan::origin: runs at the row's ends are walked after all others, which lie
  /// whole in it.
  bool ends_apart = false;
  /// A block's rows are neighbours in memory, and so are threads of the same place in them: thread
  /// t is of row t % rows. Of parts that look back (LookBack::columns), and of columns that
  /// registers hold.
  bool columns = false;
  /// Sorts are of elements packed with their places (tc_sort_packed.h).
  bool packed = false;
  int block() const { return threads * rows; }
};
/// Neighbouring threads take neighbouring rows (columns of memory); `threads` threads, `columns`
/// apart, share one. One thread: the row's loop is unrolled, nothing is shared.
struct ColumnWalk {
  int columns = 32, threads = 8;
  bool guard_row = false;
  int ahead = 1;        // elements of a thread whose loads are under way at once
  bool in_turn = false; // one thread: the loop is not unrolled
  int block() const { return columns * threads; }
};
/// How a value of a WindowWalk's row changes over the rows and taps that a thread has.
enum class Reach : uint8_t {
  all,    // the same for all of them
  window, // by where a tap falls: row * stride + tap
  tap,    // by the tap
  own,    // by the row, and maybe by the tap
};
/// A thread takes `vector` neighbouring rows along the last row variable, of each of `tile` rows
/// along row variable `along`, and walks their elements alone. Rows of the tile are `stride` taps
/// of element variable `tap` apart in what they read: each such element is read once for all of
/// them. Tile 1: `along` and `tap` mean nothing.
/// Or (`threads` above 1, tile 1) as many threads, `columns` apart, share the rows: thread `lane`
/// of them takes elements lane, lane + threads, ...
/// Or (`kept` above 0, threads above 1, tile 1) a block has `kept` neighbouring rows, all of the
/// last row loop, which lie with the last element loop in one piece of memory. Runs go through it
/// across both: columns() threads take a stretch of columns() * vector elements, a multiple of
/// `kept`, so that an element of a thread's run is always of the same row; `threads` of them share
/// the stretches.
/// Of a tile along the last row loop, a load whose places lie side by side in memory: a thread
/// brings all places as runs of `vector` elements, the first of which starts `before` elements
/// ahead of the tile's first place. Runs that do not lie in the buffer are zeros, which nothing
/// takes.
struct WindowRun {
  ValueId load = ir::kNone;
  int vector = 1, before = 0;
  int count(int places) const { return (before + places + vector - 1) / vector; }
};
struct WindowWalk {
  int vector = 1, tile = 1, block = 256;
  int threads = 1;
  int kept = 0;
  int ahead = 1; // threads above 1: elements of a thread whose loads are under way at once
  size_t along = 0, tap = 0;
  int stride = 1, taps = 1;
  int apart = 1;      // rows from one of a tile to the next: taps of a dilation lie that far apart
  bool guard = false; // the last block has threads past the end
  /// Tiles do not divide the rows: the last one starts where it still fits.
  bool overlaps = false;
  std::vector<Reach> reach; // by ValueId
  /// `along` the last row variable (vector 1): row stores of which a tile's are one access.
  std::vector<ValueId> tile_stores;
  std::vector<WindowRun> runs;
  const WindowRun *run_of(ValueId load) const {
    const auto is_of = [&](const WindowRun &run) { return run.load == load; };
    const auto found = std::find_if(runs.begin(), runs.end(), is_of);
    return found == runs.end() ? nullptr : &*found;
  }
  bool stores_tile(ValueId store) const {
    return std::find(tile_stores.begin(), tile_stores.end(), store) != tile_stores.end();
  }
  int columns() const { return block / threads; }
  /// Of the last element loop, steps that a stretch takes.
  int turns() const { return kept > 0 ? columns() * vector / kept : 1; }
  /// Rows between the first of a tile and those of tiles beside all of its neighbours.
  int span() const { return tile * apart; }
  /// Places along the tile that its taps fall on.
  int places() const { return (tile - 1) * stride + taps; }
};
/// One thread a block: a loop over `chunk` runs (pointwise) or rows, inner loops of constant length
/// `vector`.
struct SerialWalk {
  int vector = 1;
  int64_t chunk = 1;
};
/// One run of `vector` neighbours along the second of two element variables; the text that calls
/// knows where.
struct ProductWalk {
  int vector = 8;
};
using Walk =
    std::variant<FlatWalk, TileWalk, RowWalk, ColumnWalk, WindowWalk, SerialWalk, ProductWalk>;

/// What one walk over the elements does, in order.
struct PhasePlan {
  std::vector<ValueId> row_values; // before the walk
  std::vector<ValueId>
      run_values; // once a run: vector loads, and values that are the same for the whole run
  /// Of these, vector loads of the row that a later walk makes again, and those that an earlier one
  /// has made and no later one makes: the caches keep the first and let go of the second.
  std::vector<ValueId> read_again, read_last;
  std::vector<ValueId> elements;   // once an element
  std::vector<ValueId> reductions; // fed by this walk
  std::vector<ValueId> stores;     // once an element or a run
  bool empty() const { return reductions.empty() && stores.empty() && elements.empty(); }
};

/// A run that lies in one of several places: the first whose condition holds, else in the last, or
/// nowhere (zeros) where the last one's guard does not hold either. One load, from a place that is
/// looked up, instead of one for each of which all but one do nothing.
struct Choice {
  ValueId root = ir::kNone;                        // the value that is chosen
  std::vector<std::pair<ValueId, ValueId>> places; // condition, load; the last condition: kNone
};

/// Loads, or stores, that share one access: element j of member m is element j * members + m of
/// what lies at the first one's run.
struct Interleaved {
  std::vector<ValueId> members;
  /// Runs are several accesses (of 16 bytes, or of 8 or 4), one thread's behind another's:
  /// neighbouring threads make neighbouring ones, which change lanes through shared memory.
  bool across = false;
};

/// Memory that is changed at run-time indices, of which each block has a copy of its own in shared
/// memory, brought to memory once, at its end.
struct BlockCopy {
  ValueId store = ir::kNone;
  int64_t elements = 0;
  DType dtype = DType::f32; // of the copy: what counts ones is an int32
  int64_t offset = 0;       // bytes from the start of shared memory
  /// ir::StoreMode::plain: where bytes lie that say what was written.
  std::optional<int64_t> marks;
};

/// A part of a tensor that the elements of a block look up in, brought to shared memory first
/// (tc_table.h).
struct HeldTable {
  BufferId buffer = ir::kNone;
  Expr first = 0;                   // of its elements, in the tensor: the same for a block
  int64_t elements = 0, offset = 0; // offset: bytes from the start of shared memory
  std::vector<ValueId> loads;       // that are of it
};

/// A load of a run's elements, the first of which is `at` elements behind where its runs start.
struct Neighbour {
  ValueId load = ir::kNone;
  int at = 0;
};
/// Loads of one buffer that lie near each other: a thread brings the `runs` whole runs from `first`
/// on (of the innermost loop's first element; a multiple of a run), of which each load's elements
/// are some. Runs that do not lie in the buffer are zeros, which nothing takes.
struct Neighbours {
  std::vector<Neighbour> members;
  Expr first = 0;
  int runs = 0;
};

/// Loops that became one, whose runs go on from one row of them to the next: their variables are
/// found for a run's first element and counted on from there.
struct JoinedLoops {
  std::vector<Expr> variables, sizes; // outermost first
  /// By an index over the one loop: the same over these.
  std::map<Expr, Expr, symbolic::ExprLess> places;
  size_t first = 0; // the outermost variable that is counted: loads' places depend on none outside
};

struct KernelPlan {
  KernelGraph graph;
  Walk walk;
  /// RowWalk, rows of any length: runs start at multiples of `vector` in memory. This is where a
  /// row's first element lies, in elements; its first run starts `origin % vector` elements before
  /// it. What lies outside of the row is read (within the tensor) but takes no part.
  std::optional<Expr> origin;
  std::vector<ValueId> preloads; // vector loads issued for all steps before anything else
  std::vector<PhasePlan> phases;
  std::vector<ValueId> row_stores; // at the end, by one thread of the row
  /// They write over what other threads of the row read: all wait for each other before.
  bool row_stores_wait = false;
  // by ValueId
  std::vector<Access> access; // loads and stores of elements
  std::vector<bool> kept;     // element values held on chip from one phase to later ones
  std::vector<bool> preloaded;
  std::vector<bool> tiled;   // loads that go through shared memory (TileWalk)
  std::vector<bool> uniform; // element values that do not change over a run
  /// Vector loads whose runs start so many elements behind an aligned place; 0: at one; kAnyShift:
  /// wherever. Aligned accesses, of which the run is made.
  std::vector<int> shift;
  std::vector<bool> streamed;       // vector loads whose data nothing reads again
  std::vector<bool> divides_by_row; // divisions by a row value, through its reciprocal
  /// Exponentials and quotients whose last digits nothing shows: the fewest instructions.
  std::vector<bool> quick;
  /// Sums, differences and products of which the last bits decide: what is rounded to integers is
  /// made of them. None becomes part of a fused step, which a compiler chooses by what else is
  /// there: another kernel that computes the same has the same bits, and PyTorch's operators have.
  std::vector<bool> exact;
  /// RowWalk: stores of neighbours one by one, which neighbouring lanes make of neighbours through
  /// shared memory (tc_store_lanes), or none; of rows that a thread has alone also its loads
  /// (tc_load_own, tc_store_own).
  std::vector<bool> by_lanes;
  std::vector<bool> by_run;       // reductions that take the elements of a run together
  std::vector<bool> summed_wider; // sums of floats that their own precision would not do for
  /// FlatWalk: draws whose words a warp computes for all of its lanes (tc_draw_words), or none.
  std::vector<bool> by_warp;
  std::vector<Choice> choices;          // FlatWalk
  std::optional<JoinedLoops> joined;    // FlatWalk, if its one loop was several
  std::vector<Interleaved> interleaved; // FlatWalk; loads are preloaded
  std::vector<Neighbours> neighbours;   // FlatWalk
  /// FlatWalk: elements along one loop that a run stands for; their values stand beside each other
  /// in the graph, what they share once.
  int copies = 1;
  /// Of an element's loads, bytes that they have together and the first-level cache does not hold.
  double bytes_shared = 0;
  /// Not empty: `beside` groups of threads of a block do what a block of the walk would do each,
  /// until all `turns` blocks of the walk are done.
  std::vector<BlockCopy> block_copies;
  Expr turns = 0;
  int beside = 1;
  /// RowWalk of a pointwise kernel, a row a block; or (has_turns) as many rows in `turns`, two
  /// halves of shared memory being one row's and the next one's.
  std::vector<HeldTable> tables;
  bool has_turns() const { return !tables.empty() && !turns.is_integer(0); }
  bool wide_index = false;    // 64-bit indices
  std::string description;    // one line
  ValueId result = ir::kNone; // ProductWalk: the load that is the product's results
  Expr grid;
  int shared_bytes = 0; // dynamic
  int block = 1;
  bool has_barriers = false;
  int resident = 0; // blocks a multiprocessor for which registers have to do; 0: any number
  /// Sizes whose divisibility the launch checks for this plan; all other sizes take `otherwise`, a
  /// plan over the same grid and block. Null: this plan serves every size. None to check, of rows
  /// in parts: `otherwise` is for the last part of each row.
  Divisibility checked;
  std::shared_ptr<KernelPlan> otherwise;
};

/// The choice that `id` is the root of; null if it is none.
const Choice *choice_of(const KernelPlan &plan, ValueId id);
/// The accesses that `id` shares one with; null if it is alone.
const Interleaved *interleaved_of(const KernelPlan &plan, ValueId id);
/// The runs in which `load`'s elements are brought; null if it is by itself.
const Neighbours *neighbours_of(const KernelPlan &plan, ValueId load);
/// How many they are; 1 if it is alone.
int interleaved_with(const KernelPlan &plan, ValueId id);
bool is_by_lanes(const KernelPlan &plan, ValueId id);
bool draws_by_warp(const KernelPlan &plan, ValueId id);
/// Times 16 bytes of shared memory that a warp needs for its accesses `across`; 0 if there are
/// none.
int slots_across(const ir::Module &module, const KernelPlan &plan);
int vector_of(const Walk &walk);
int steps_of(const Walk &walk); // 0: not a constant number

/// Plans for the GPU and for one thread a block. `given`: the value graph to plan, if it is not the
/// group's own (it has neither statistics nor scans).
/// `choice`, or null: one of alternatives_of the plan without it.
KernelPlan plan_cuda(const ir::Module &module, const scheduler::Group &group,
                     const target::Target &target, const KernelGraph *given,
                     const PlanChoice *choice = nullptr);
/// Other numbers that plan_cuda can make the same kernel with; none for a plan that depends on
/// symbols.
std::vector<PlanChoice> alternatives_of(const ir::Module &module, const KernelPlan &plan);
KernelPlan plan_serial(const ir::Module &module, const scheduler::Group &group,
                       const KernelGraph *given);

// Shared by the planners.

/// Gives blocks copies of what they change at run-time indices, where those fit in shared memory
/// and that is estimated to be faster (scheduler/cost.h); false, and nothing done, if not.
bool plan_block_copies(const ir::Module &module, const target::Target &target, KernelPlan &plan);
/// The copy that a store changes; null if it changes memory.
const BlockCopy *block_copy_of(const KernelPlan &plan, const Value &store);
/// The table in shared memory that a load is of; null if it is of memory.
const HeldTable *table_of(const KernelPlan &plan, const Value &load);

/// Fills access and uniform for runs of `vector` elements.
void classify_accesses(const ir::Module &module, KernelPlan &plan, int vector);
/// The same for runs of `vector` rows along the last row variable.
void classify_row_accesses(const ir::Module &module, KernelPlan &plan, int vector);
/// Functions computed in f32, narrower floats' too, whose quick form will do (KernelPlan::quick):
/// an error function or a hyperbolic tangent that is only added to 1, which does not show what a
/// number near 0 has in its last places; a sigmoid that is only rounded to 16 bits.
std::vector<bool> quick_functions(const ir::Module &module, const KernelGraph &graph);
/// Makes vectors of loads that step by one element but start between two aligned places, always as
/// far from them, or (`anywhere`) sometimes here, sometimes there; fills shift. After
/// classify_accesses.
void find_shifts(const ir::Module &module, KernelPlan &plan, int vector, bool anywhere = false);
inline constexpr int kAnyShift = -1;
/// Elements that a load's run starts behind an aligned place, or kAnyShift.
int shift_of(const KernelPlan &plan, ValueId id);
/// Fills choices. After classify_accesses, before fill_phases.
void find_choices(const ir::Module &module, KernelPlan &plan);
/// Fills phases, kept and row_stores. `keep`: values needed in a later phase stay on chip; else
/// they are computed again.
void fill_phases(const ir::Module &module, KernelPlan &plan, const scheduler::Group &group,
                 bool keep);
/// Elements that are added to memory, each at an index of its own, the neighbour's being the
/// neighbour where the two indices are the same: what several lanes add to one place waits in turn,
/// what they add to places of one sector does not. (1,543,134 rows of 4 floats, most of whose
/// indices are a few: 0.78 ms in runs of four, 0.55 with an element a lane; H200.)
bool adds_at_own_indices(const KernelGraph &graph, Expr variable);
/// The widest run for which contiguous accesses are vector accesses of 16 bytes (32 for the widest
/// type); 1 where adds_at_own_indices.
int choose_vector(const ir::Module &module, const KernelPlan &plan);
/// Elements that one atomic access may change: additions of floats of up to 4 bytes come in 16
/// bytes (tc_atomic_add_vec), everything else one by one.
int atomic_vector(ir::StoreMode mode, tensor::DType dtype);
/// Runs that start at multiples of `vector` in memory, for rows that start anywhere.
struct RowOrigin {
  Expr index = 0; // KernelPlan::origin
  int vector = 1;
};
/// The widest ones for the accesses that most bytes go through, along the one element variable.
/// Nothing where those rows lie at run-time indices, or the row's size is a symbol.
std::optional<RowOrigin> choose_origin(const ir::Module &module, const KernelGraph &graph);
/// One past the last element that a load may reach: what lies there may be read. Nothing where that
/// cannot be told.
std::optional<Expr> access_end(const ir::Module &module, const KernelGraph &graph,
                               const Value &load);
/// Runs that cover the longest row; with an origin, wherever it starts. Precondition: it has a
/// bound.
int64_t longest_row_in_runs(const KernelPlan &plan, int vector);
/// The same along the last row variable.
int choose_row_vector(const ir::Module &module, const KernelPlan &plan);
bool needs_wide_index(const KernelGraph &graph);
/// Elements of the longest row that the ranges of sizes allow; nothing if there is no bound.
std::optional<int64_t> longest_row(const KernelGraph &graph);
/// The same, or how long it is likely to be; nothing where the graph does not say.
std::optional<int64_t> likely_row(const ir::Module &module, const KernelGraph &graph);

} // namespace tsc::codegen
