// Runs a program's tables on a device.
//
//   Model      what follows from the tables alone (lifetimes, which buffer's memory is whose)
//   WeightSet  weights in device memory, and what the run-once steps computed from them
//   Instance   one user of a weight set: shapes, workspace layout, resolved steps
//
// A WeightSet may be shared by instances on several threads (unless the model mutates weights); an
// instance is used by one thread at a time. The device outlives both.
#pragma once

#include "engine/device.h"
#include "engine/tables.h"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tsc_engine {

/// Whose memory a buffer lives in, once aliases are followed.
struct Home {
  enum class Kind : uint8_t {
    input,        // position: of the input
    weight,       // position: of the weight
    output,       // position: of the first output that shows the buffer
    folded,       // written by run-once steps; position: in Model::folded_bytes
    workspace,    // position: in Model::lifetimes
    random_state, // the instance's
    failure,      // the instance's
    exchange,     // the binding's; position: in Model::exchanges
    none,         // no step touches it
  } kind = Kind::none;
  uint32_t position = 0;
};
/// Steps (inclusive) between which a piece of workspace holds a value. With several streams the
/// last is the last that may run beside a step which touches it.
struct Lifetime {
  uint32_t first = 0, last = 0;
  uint32_t root = 0; // buffer at the end of the alias chain; the largest extent along it counts
};

/// Does a step by calling `run`, once or more, and so learns how long it takes. `step`: its number
/// in the tables.
using StepTimer = std::function<void(uint32_t step, const std::function<void(Stream)> &run)>;
/// Is told when a step is queued: right before its work is on `stream` (`begins`), and right behind
/// it.
using StepMark = std::function<void(uint32_t step, Stream stream, bool begins)>;
/// Who looks on while steps are queued: one of the two.
struct StepWatch {
  StepTimer timer;
  StepMark mark;
};

/// Whether a run waits for the device: to find out what runs next or how large something is, or in
/// a library of linear algebra. Such a run cannot be captured.
bool reads_predicates(const Tables &tables);

struct Model {
  /// `tables` (what it points at) outlives the model.
  Model(const Tables &tables, Plan plan);

  Tables tables;
  Plan plan;
  std::vector<uint32_t> roots;     // by buffer: the end of its alias chain
  std::vector<Home> homes;         // by buffer
  std::vector<Lifetime> lifetimes; // of workspace, in order of first step
  /// By output: the first step that uses the caller's memory for it, or one of the same round of a
  /// loop. Before, workspace may lie there. 0: it may not.
  std::vector<uint32_t> output_unused_until;
  std::vector<int64_t> folded_bytes;
  std::vector<uint32_t> exchanges; // roots of what blocks of a launch tell each other
  /// Outputs whose memory is not their buffer's home: copied to the caller after the last step.
  std::vector<uint32_t> copied_outputs;
  /// Outputs that show a mutated input or weight: copied too, if the caller gives memory.
  std::vector<uint32_t> mutated_outputs;
  /// By position: a run needs it. What only run-once steps read is given back after them.
  std::vector<bool> weight_is_used, folded_is_used;
  size_t streams = 1;           // one more than the highest that a step names
  std::vector<bool> is_awaited; // by step: steps of other streams wait for it
};

/// Device memory in bytes that a run of some shapes holds, besides its inputs and what libraries
/// take for themselves.
struct Footprint {
  int64_t workspace = 0; // without products' scratch memory
  int64_t outputs = 0;   // that have memory of their own
  int64_t weights = 0;   // and what is computed of them once
};
/// `symbols`: their values; null where no size mentions one.
Footprint footprint(const Model &model, const int64_t *symbols);

/// One weight as the caller has it: contiguous, in host memory.
struct WeightData {
  const void *data = nullptr;
  DType dtype = DType::f32;
  const int64_t *sizes = nullptr;
  size_t rank = 0;
  /// Of memory that stays as it is for as long as this is held: a host device then uses it where it
  /// lies. Null: the data is copied.
  std::shared_ptr<const void> owner = nullptr;
};
/// The data of the weight with this name, valid until the next call; nothing (null data) if there
/// is none.
using WeightSource = std::function<WeightData(const char *name)>;

class WeightSet {
public:
  /// Uploads every weight, runs the run-once steps and waits for them. Errors: Error (bad_argument)
  /// naming every weight that is missing or differs in dtype or shape; Error (assertion) if values
  /// of the weights are out of range where a run-once step uses them.
  WeightSet(std::shared_ptr<const Model> model, std::shared_ptr<Device> device,
            const WeightSource &source);
  ~WeightSet();
  WeightSet(const WeightSet &) = delete;
  WeightSet &operator=(const WeightSet &) = delete;

  const Model &model() const { return *model_; }
  Device &device() const { return *device_; }
  size_t bytes() const { return bytes_; } // device memory held, or used where it lies
  /// Device memory of a weight's storage, e.g. to read a mutated one back; null if no run needs it.
  void *weight(size_t position) const { return weights_[position]; }
  void *folded(size_t position) const { return folded_[position]; }

private:
  friend class Instance;
  void upload(const WeightSource &source);
  void run_once_steps();
  void release();
  void *allocate(size_t bytes);
  void release_one(void *&memory, size_t bytes, bool is_own);

  std::shared_ptr<const Model> model_;
  std::shared_ptr<Device> device_;
  std::vector<void *> weights_, folded_;
  std::vector<std::shared_ptr<const void>> owners_; // by weight; null: the memory is the device's
  size_t bytes_ = 0;
  std::mutex prepare_; // Device::prepare_matmul is called by one instance at a time
};

struct BoundShapes;
struct Part;
struct ResolvedSteps;
class FailureWords;
class RunStreams;

class Instance {
public:
  explicit Instance(std::shared_ptr<WeightSet> weights);
  ~Instance();

  /// `shapes[i]` points at the sizes of input i (as many as its rank), or at the value of an
  /// integer input. Returns the workspace that run needs. Shapes seen before cost a lookup. Errors:
  /// Error (bad_argument) naming input, dimension, value and what is allowed; the instance keeps
  /// its last good binding.
  size_t bind(const int64_t *const *shapes);

  /// Runs all steps on `stream`: no allocation (but where it records, see set_recording, and where
  /// nothing bounds a size that the data decides), no synchronization (but where the data decides
  /// what runs or a size), first error thrown. `inputs[i]`
  /// and `outputs[i]` are device memory of input_bytes(i) and output_bytes(i), at least 16-byte
  /// aligned; `workspace` is 256-byte aligned, at least what bind returned. No two of them overlap.
  /// An output that is a mutation or a constant may be null. Precondition: bind succeeded.
  void run(Stream stream, void *const *inputs, void *const *outputs, void *workspace);

  /// A run whose steps `timer` does, one after the other, on whatever stream it gives them; never
  /// recorded. A step that is done twice and writes what it reads leaves other numbers, so outputs
  /// are not to be used. Precondition: as run.
  void time_steps(Stream stream, void *const *inputs, void *const *outputs, void *workspace,
                  const StepTimer &timer);
  /// A run as any, on all its streams, but never recorded. Precondition: as run.
  void run_marked(Stream stream, void *const *inputs, void *const *outputs, void *workspace,
                  const StepMark &mark);

  /// Where output number `output` of the last run is: `given`, what the caller gave for it, or, if
  /// output_bytes was 0 because nothing bounds its size, memory of the instance's, good until the
  /// next run.
  void *output_memory(size_t output, void *given) const;

  // Of the bound shapes. What the data decides: of the last run, an error before.
  std::vector<int64_t> output_sizes(size_t output) const;
  std::vector<int64_t> output_strides(size_t output) const;
  int64_t output_offset(size_t output) const; // elements
  /// Of its storage; 0 for constants. Where the data decides its size: the most that it may be; 0
  /// before a run if nothing says that.
  size_t output_bytes(size_t output) const;
  std::vector<int64_t> input_strides(size_t input) const;
  int64_t input_offset(size_t input) const;
  size_t input_bytes(size_t input) const;
  size_t workspace_bytes() const;
  /// Values of the symbols, for texts of constant outputs that name them.
  const std::vector<int64_t> &symbols() const;

  /// From the next run on random numbers are those of `seed`, the first run being number `call`. An
  /// instance starts with (0, 0); every run of a program that draws adds 1 to the call number, in
  /// device memory: runs that are replayed from a captured graph count as well. Queued on `stream`.
  void set_seed(Stream stream, uint64_t seed, uint64_t call);

  /// Waits for the stream, and throws Error (assertion) naming the first assertion about data that
  /// did not hold in any run since the last check, or the first value that was out of range; Error
  /// (device) if communication failed. What
  /// such a run left in outputs and mutated
  /// tensors is not to be used. The host checks at the end of each run.
  void check(Stream stream);

  /// Fills workspace and outputs with 0xFF before each run: a read of what was never written shows
  /// as NaN.
  void set_poison(bool poison) { poison_ = poison; }
  /// Whether runs of shapes that ran before are recorded and replayed (recordings.h). A run whose
  /// steps depend on data is not, nor one with groups that say why not.
  void set_recording(bool recording) {
    is_recording_ = recording && !reads_predicates(model().tables);
  }
  /// The connections to the other ranks, which must outlive the runs, and recordings of them: those
  /// that there are end here. Null: there are none.
  void set_groups(Groups *groups);
  /// Runs of the shapes that are kept that were replayed from a recording.
  size_t replayed() const;
  const Model &model() const { return weights_->model(); }
  WeightSet &weights() const { return *weights_; }

private:
  char *random_state();
  char *workspace_piece(size_t lifetime, void *const *outputs, void *workspace) const;
  void set_bases(void *const *inputs, void *const *outputs, void *workspace);
  /// Queues a run that was recorded, or records it; false if it has to be queued step by step.
  bool replay(Stream stream, void *const *inputs, void *const *outputs, void *workspace);
  void check_arguments(void *const *inputs, void *const *outputs, void *workspace) const;
  /// Queues a run, step by step; `watch` may be null.
  void queue(Stream stream, void *const *outputs, void *workspace,
             const StepWatch *watch = nullptr);
  void poison(Stream stream, void *const *outputs, void *workspace);
  void copy_outputs(Stream stream, void *const *outputs);

  /// Sizes that the data decides are not known any more.
  void reset_data_sizes();
  /// Waits for the stream and reads the number; Error (assertion) if it is none that the symbol may
  /// be.
  void define_symbol(uint32_t step, Stream stream);
  /// Memory for what a symbol that was just defined decides, and nothing bounded before.
  void grow(Stream stream);
  /// Does the parts in order; what they define is not known before.
  void run_parts(std::vector<Part> &parts, Stream stream, void *scratch, const StepWatch *watch);
  void run_control(Part &part, Stream stream, void *scratch, const StepWatch *watch);
  /// The symbols that the parts define, and the memory that they decide, are not known any more.
  void forget(const std::vector<Part> &parts);
  /// The steps of a part, for the symbols as they are.
  ResolvedSteps &resolved(Part &part);
  bool holds(uint32_t step, Stream stream);
  /// Whether a loop after so many rounds met a value out of range, and may never end.
  bool is_lost(size_t rounds, Stream stream);
  bool is_grown(size_t output) const;
  void need_complete(size_t output) const;

  struct Grown {
    void *memory = nullptr;
    size_t bytes = 0;
  };

  std::shared_ptr<WeightSet> weights_;
  std::map<uint32_t, Grown> grown_;                 // by root
  std::vector<std::shared_ptr<BoundShapes>> cache_; // latest last
  std::shared_ptr<BoundShapes> bound_;
  std::vector<char *> bases_;    // by buffer
  void *random_state_ = nullptr; // {seed, call number}; null if nothing draws
  std::unique_ptr<FailureWords> failure_;
  std::unique_ptr<RunStreams> streams_;
  bool poison_ = false, is_recording_ = false;
  std::vector<void *> addresses_; // what a recording depends on: all that the caller gives to a run
  Groups *groups_ = nullptr;
};

/// Row-major without gaps; strides of single elements do not count, an empty tensor is.
bool is_contiguous(const std::vector<int64_t> &sizes, const std::vector<int64_t> &strides);
/// Copies a contiguous tensor into strided storage (strides and offset in elements), and back. Host
/// memory.
void scatter_to_strided(void *storage, const void *contiguous, size_t element_bytes, size_t rank,
                        const int64_t *sizes, const int64_t *strides, int64_t offset);
void gather_from_strided(void *contiguous, const void *storage, size_t element_bytes, size_t rank,
                         const int64_t *sizes, const int64_t *strides, int64_t offset);

} // namespace tsc_engine
