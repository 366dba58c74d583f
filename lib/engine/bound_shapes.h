// What a binding of concrete shapes decides: every size a number, every step resolved down to slots
// for addresses.
#pragma once

#include "engine/engine.h"
#include "engine/recordings.h"
#include "engine/run_streams.h"
#include "engine/solver.h"

namespace tsc_engine {

/// An address that each run fills in: base of a buffer plus an offset.
struct AddressSlot {
  uint32_t buffer = 0;
  int64_t offset = 0; // bytes
};
struct ResolvedLaunch {
  size_t kernel = 0;
  LaunchGeometry geometry;
  size_t first_argument = 0; // in ResolvedSteps::arguments
};
/// A tensor map among a launch's arguments: made anew when its tensor has moved.
struct ResolvedMap {
  TensorMapShape shape;
  size_t pointer = 0;   // in ResolvedSteps::values: where the tensor's memory starts
  int64_t offset = 0;   // bytes behind that
  size_t value = 0;     // in ResolvedSteps::values, kTensorMapBytes from there on
  int64_t made_for = 0; // the address
};
struct ResolvedMatmul {
  size_t plan = 0; // of Device::prepare_matmul
  AddressSlot a, b, c, out;
  bool has_c = false;
  size_t scratch = 0; // bytes into the scratch memory: products of one stream share a place
};
struct ResolvedSolver {
  size_t plan = 0; // of Device::prepare_solver
  /// In the order of SolverMemory; what is not there has no buffer.
  static constexpr uint32_t kNone = UINT32_MAX;
  AddressSlot operands[7];
  size_t scratch = 0; // as of ResolvedMatmul
};
struct ResolvedCopy {
  AddressSlot from, to;
  int64_t bytes = 0;
};
struct ResolvedFill {
  AddressSlot to;
  int64_t bytes = 0;
};
struct ResolvedCollective {
  const Collective *row = nullptr;
  AddressSlot from, to;
  int64_t count = 0; // elements
  std::vector<int64_t> sends, receives;
};
/// A step whose `first` and `second` steps (in ResolvedSteps::steps) follow it.
struct ResolvedControl {
  bool has_predicate = true;
  AddressSlot predicate;
  bool condition = false; // without a predicate
  size_t first = 0, second = 0;
};
struct ResolvedStep {
  uint32_t step = 0; // in Tables::steps
  StepKind kind = StepKind::launch;
  size_t position = 0;
};

/// Steps ready to run; those with nothing to do (an empty grid, an empty product) are left out.
struct ResolvedSteps {
  std::vector<ResolvedStep> steps;
  std::vector<ResolvedLaunch> launches;
  std::vector<ResolvedMatmul> matmuls;
  std::vector<ResolvedSolver> solvers;
  std::vector<ResolvedCopy> copies;
  std::vector<ResolvedFill> fills;
  std::vector<ResolvedCollective> collectives;
  std::vector<ResolvedControl> controls; // conditionals and loops
  size_t scratch_bytes = 0; // of each stream what its neediest product takes, one behind another
  /// Values of all launches' parameters, and tensor maps; slots say which of them are addresses.
  /// arguments[i] points at one of the values.
  std::vector<int64_t> values;
  std::vector<AddressSlot> slots; // parallel to slot_values
  std::vector<size_t> slot_values;
  std::vector<ResolvedMap> maps;
  std::vector<void *> arguments;
};

/// Those of the steps [begin, end), a range that cuts no branch or loop, with this `once`. A step
/// with nothing to do is left out, unless it stands for an order of streams: it is an event then.
/// `buffer_bytes` is the extent of each buffer: no operand of a product or copy may reach beyond.
/// `symbols` is null for run-once steps.
ResolvedSteps resolve_steps(const Model &model, Device &device, const int64_t *symbols,
                            const std::vector<int64_t> &buffer_bytes, bool once, uint32_t begin,
                            uint32_t end);
/// Runs them, waiting for the stream where a predicate in memory decides what runs next: `bases`
/// holds the memory of every buffer, `scratch` has steps.scratch_bytes. Whatever `streams` there
/// are, the run begins and ends on `stream`. Without groups collectives are refused.
/// `watch`: who looks on, or null; with a timer steps are done by it, in order.
void run_steps(const Model &model, Device &device, ResolvedSteps &steps,
               const std::vector<char *> &bases, void *scratch, RunStreams &streams, Stream stream,
               Groups *groups, const StepWatch *watch);

/// What a run does where steps define symbols, in order: each part once what was done before it has
/// said which sizes there are.
struct Part {
  enum class Kind : uint8_t { steps, define, control };
  Kind kind = Kind::steps;
  uint32_t begin = 0, end = 0;     // steps; those that depend on a control are in its parts
  std::vector<Part> first, second; // of a control: then and else, condition and body
  std::vector<int64_t> key;        // the symbols for which `resolved` holds; empty: for none yet
  ResolvedSteps resolved;
};
/// Those of the steps [begin, end), a range that cuts no branch or loop. A branch or loop is a part
/// of its own if a step in it defines a symbol.
std::vector<Part> parts_of(const Tables &tables, uint32_t begin, uint32_t end);

/// An extent that nothing bounds before a run says what it is.
inline constexpr int64_t kUnbounded = INT64_MAX;

/// Memory that a binding keeps: zeros before its first run.
class KeptMemory {
public:
  KeptMemory() = default;
  KeptMemory(Device &device, size_t bytes);
  KeptMemory(KeptMemory &&other) noexcept;
  KeptMemory &operator=(KeptMemory &&other) noexcept;
  ~KeptMemory();
  char *memory() const { return memory_; }

private:
  Device *device_ = nullptr;
  char *memory_ = nullptr;
};

struct BoundShapes {
  std::vector<int64_t> key;       // all sizes of all inputs
  std::vector<int64_t> symbols;   // those that steps define: of the last run
  std::vector<int64_t> low, high; // by symbol: what it may be; steps that define one narrow it
  bool is_complete = true;        // no symbol is to be defined any more
  /// By buffer: the largest extent along its alias chain; of memory that a symbol which a step
  /// defines decides, the most that it may be, or kUnbounded.
  std::vector<int64_t> buffer_bytes;
  std::vector<bool> grows;       // by buffer: nothing bounds its extent; the instance's own memory
  std::vector<int64_t> offsets;  // by lifetime, in the workspace or the output that lends
  std::vector<uint32_t> lenders; // by lifetime: the output in whose memory it lies, or kOwnBlock
  int64_t scratch_offset = 0;    // of the products' scratch memory, behind all pieces
  int64_t workspace_bytes = 0;   // all of it
  KeptMemory exchange;           // of all Model::exchanges, one behind another
  std::vector<int64_t> exchange_offsets;
  ResolvedSteps steps;     // up to the first part that is none of plain steps
  std::vector<Part> later; // that part and those behind it
  Recordings recordings;   // the last: work that is recorded uses all of the above
};

/// Sets what every symbol may be before a run, from `symbols`.
void find_ranges(const Tables &tables, BoundShapes &bound);

/// Extents with aliases followed: a buffer may use all that its memory holds. Symbol k lies in
/// [low[k], high[k]]; both null: no size mentions a symbol, or only buffers without are wanted.
std::vector<int64_t> buffer_extents(const Model &model, const int64_t *low, const int64_t *high);

/// Whether a symbol that a step defines decides where its elements are.
bool is_of_data(const Tables &tables, const TensorView &view);

/// Throws unless every element of every input and output lies in its buffer: callers copy by these
/// views. `of_data`: those whose sizes steps define, or the others.
void check_views(const Model &model, const int64_t *symbols,
                 const std::vector<int64_t> &buffer_bytes, bool of_data);

} // namespace tsc_engine
