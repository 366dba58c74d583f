#include "engine/bound_shapes.h"
#include "engine/failure.h"
#include "engine/packer.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tsc_engine {
namespace {

/// Bindings that an instance keeps.
constexpr size_t kMaxCached = 16;

/// Reads the symbols out of the shapes.
class ShapeChecker {
public:
  ShapeChecker(const Tables &tables, const int64_t *const *shapes)
      : tables_(tables), shapes_(shapes) {}

  std::vector<int64_t> symbols() {
    for (const Symbol &symbol : tables_.symbols) {
      if (symbol.input < 0) { // the last ones: known when a run is under way
        symbols_.push_back(0);
        continue;
      }
      const int64_t given = size_of(symbol.input, symbol.dimension);
      const int64_t offset = evaluate(tables_, symbol.offset, symbols_.data());
      int64_t multiple = 0;
      const bool fits =
          !__builtin_sub_overflow(given, offset, &multiple) && multiple % symbol.coefficient == 0;
      const int64_t value = fits ? multiple / symbol.coefficient : 0;
      if (!fits || value < symbol.low || value > symbol.high)
        refuse(symbol);
      symbols_.push_back(value);
    }
    for (size_t i = 0; i < tables_.inputs.count; ++i) {
      const Input &input = tables_.inputs[i];
      if (input.is_scalar)
        check(static_cast<int32_t>(i), -1, input.value);
      for (int32_t axis = 0; axis < input.view.sizes.count; ++axis)
        check(static_cast<int32_t>(i), axis,
              tables_.sizes[static_cast<size_t>(input.view.sizes.first + axis)]);
    }
    for (const SizeAssertion &row : tables_.size_assertions)
      if (!is_of_data(tables_, row.condition) &&
          evaluate(tables_, row.condition, symbols_.data()) == 0)
        throw Error(Status::assertion, describe(row.assertion));
    return symbols_;
  }

private:
  /// axis -1: the value of an integer input.
  int64_t size_of(int32_t input, int32_t axis) const {
    return shapes_[static_cast<size_t>(input)][axis < 0 ? 0 : axis];
  }
  const Size &promised(int32_t input, int32_t axis) const {
    const Input &row = tables_.inputs[static_cast<size_t>(input)];
    return axis < 0 ? row.value : tables_.sizes[static_cast<size_t>(row.view.sizes.first + axis)];
  }
  std::string place(int32_t input, int32_t axis) const {
    std::string text =
        std::string("input \"") + tables_.inputs[static_cast<size_t>(input)].name + "\"";
    text += axis < 0 ? ": value " : ", dimension " + std::to_string(axis) + ": size ";
    return text + std::to_string(size_of(input, axis));
  }
  [[noreturn]] void refuse(const Symbol &symbol) const {
    const Size &size = promised(symbol.input, symbol.dimension);
    const std::string range =
        "[" + (symbol.low == INT64_MIN ? "-inf" : std::to_string(symbol.low)) + ", " +
        (symbol.high == INT64_MAX ? "inf" : std::to_string(symbol.high)) + "]";
    const char *text = tables_.expressions[static_cast<size_t>(size.expression)].text;
    if (std::strcmp(text, symbol.name) == 0)
      throw Error(Status::bad_argument, place(symbol.input, symbol.dimension) + " is outside " +
                                            range + ", the range of " + symbol.name);
    throw Error(Status::bad_argument, place(symbol.input, symbol.dimension) + " is not " + text +
                                          " with " + symbol.name + " in " + range);
  }
  void check(int32_t input, int32_t axis, const Size &size) const {
    int64_t expected = evaluate(tables_, size, symbols_.data());
    if (size_of(input, axis) == expected)
      return;
    std::string text = std::to_string(expected);
    if (size.expression >= 0)
      text += std::string(", the value of ") +
              tables_.expressions[static_cast<size_t>(size.expression)].text;
    throw Error(Status::bad_argument, place(input, axis) + ", expected " + text);
  }
  const Tables &tables_;
  const int64_t *const *shapes_;
  std::vector<int64_t> symbols_;
};

} // namespace

KeptMemory::KeptMemory(Device &device, size_t bytes)
    : device_(&device), memory_(static_cast<char *>(device.allocate(bytes))) {
  device.fill(memory_, 0, bytes, nullptr);
  device.synchronize(nullptr); // the first run may be on another stream
}
KeptMemory::KeptMemory(KeptMemory &&other) noexcept
    : device_(other.device_), memory_(std::exchange(other.memory_, nullptr)) {}
KeptMemory &KeptMemory::operator=(KeptMemory &&other) noexcept {
  std::swap(device_, other.device_);
  std::swap(memory_, other.memory_);
  return *this;
}
KeptMemory::~KeptMemory() {
  if (memory_ != nullptr)
    device_->release(memory_);
}

namespace {

std::vector<int64_t> key_of(const Tables &tables, const int64_t *const *shapes) {
  std::vector<int64_t> key;
  for (size_t i = 0; i < tables.inputs.count; ++i) {
    const Input &input = tables.inputs[i];
    const int32_t count = input.is_scalar ? 1 : input.view.sizes.count;
    for (int32_t axis = 0; axis < count; ++axis)
      key.push_back(shapes[i][axis]);
  }
  return key;
}

/// `bytes`: by buffer, the largest extent along its alias chain. What nothing bounds has no place
/// in it.
Packing pack_model(const Model &model, const std::vector<int64_t> &bytes) {
  const auto bounded = [&](uint32_t buffer) {
    return bytes[buffer] == kUnbounded ? 0 : bytes[buffer];
  };
  std::vector<Piece> pieces;
  for (const Lifetime &lifetime : model.lifetimes)
    pieces.push_back({bounded(lifetime.root), lifetime.first, lifetime.last});
  std::vector<Lender> lenders;
  for (size_t i = 0; i < model.tables.outputs.count; ++i) {
    const int32_t buffer = model.tables.outputs[i].buffer;
    lenders.push_back(
        {buffer < 0 ? 0 : bounded(static_cast<uint32_t>(buffer)), model.output_unused_until[i]});
  }
  return pack(pieces, lenders);
}

/// Of products whose shapes only a run knows: enough for any, of each stream.
int64_t later_scratch_bytes(const Model &model, Device &device) {
  if (model.tables.defines.count == 0 || model.tables.matmuls.count == 0)
    return 0;
  return static_cast<int64_t>(model.streams * device.most_matmul_scratch_bytes());
}

void pack_workspace(const Model &model, Device &device, BoundShapes &bound) {
  const int64_t scratch_bytes =
      std::max(static_cast<int64_t>(bound.steps.scratch_bytes), later_scratch_bytes(model, device));
  Packing packing = pack_model(model, bound.buffer_bytes);
  bound.offsets = std::move(packing.offsets);
  bound.lenders = std::move(packing.lenders);
  bound.workspace_bytes = packing.bytes;
  bound.scratch_offset = packing.bytes;
  if (scratch_bytes == 0)
    return;
  int64_t end = 0;
  if (__builtin_add_overflow(packing.bytes, kPieceAlignment - 1, &end) ||
      __builtin_add_overflow(end, scratch_bytes, &bound.workspace_bytes))
    throw Error(Status::bad_argument, "the workspace of these shapes is beyond 64 bits of memory");
  bound.scratch_offset = end / kPieceAlignment * kPieceAlignment;
  bound.workspace_bytes = bound.scratch_offset + scratch_bytes;
}

/// Places, one behind another, of what the blocks of launches tell each other; gives the bytes.
int64_t place_exchanges(const Model &model, const std::vector<int64_t> &bytes,
                        std::vector<int64_t> &offsets) {
  int64_t end = 0;
  for (const uint32_t root : model.exchanges) {
    offsets.push_back(end);
    end += (bytes[root] + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment;
  }
  return end;
}

} // namespace

Footprint footprint(const Model &model, const int64_t *symbols) {
  const std::vector<int64_t> bytes = buffer_extents(model, symbols, symbols);
  Footprint result;
  std::vector<int64_t> offsets;
  result.workspace = pack_model(model, bytes).bytes + place_exchanges(model, bytes, offsets);
  for (size_t i = 0; i < model.homes.size(); ++i) {
    if (model.roots[i] != i) // seen where its memory is
      continue;
    const Home &home = model.homes[i];
    if (home.kind == Home::Kind::output)
      result.outputs += bytes[i];
    else if (home.kind == Home::Kind::folded && model.folded_is_used[home.position])
      result.weights += bytes[i];
    else if (home.kind == Home::Kind::weight && model.weight_is_used[home.position])
      result.weights += bytes[i];
  }
  for (const uint32_t output : model.copied_outputs)
    result.outputs += bytes[static_cast<size_t>(model.tables.outputs[output].buffer)];
  return result;
}

namespace {

/// Texts are made only for an error: a run does not allocate.
void check_memory(const void *memory, size_t bytes, size_t alignment, const char *kind,
                  const char *name) {
  if (memory == nullptr && bytes > 0)
    throw Error(Status::bad_argument, std::string(kind) + " \"" + name + "\" is null, but " +
                                          std::to_string(bytes) + " bytes are needed");
  if (reinterpret_cast<uintptr_t>(memory) % alignment != 0)
    throw Error(Status::bad_argument, std::string(kind) + " \"" + name + "\" is not aligned to " +
                                          std::to_string(alignment) + " bytes");
}

std::vector<int64_t> evaluate_all(const Tables &tables, const Range &range,
                                  const std::vector<int64_t> &symbols) {
  std::vector<int64_t> result;
  result.reserve(static_cast<size_t>(range.count));
  for (int32_t i = 0; i < range.count; ++i)
    result.push_back(
        evaluate(tables, tables.sizes[static_cast<size_t>(range.first + i)], symbols.data()));
  return result;
}

const BoundShapes &need(const std::shared_ptr<BoundShapes> &bound) {
  if (bound == nullptr)
    throw Error(Status::bad_argument, "no shapes are bound: call bind first");
  return *bound;
}

} // namespace

Instance::Instance(std::shared_ptr<WeightSet> weights)
    : weights_(std::move(weights)), bases_(model().tables.buffers.count, nullptr),
      failure_(std::make_unique<FailureWords>()),
      streams_(std::make_unique<RunStreams>(weights_->device(), model())),
      addresses_(model().tables.inputs.count + model().tables.outputs.count + 2, nullptr) {
  for (size_t i = 0; i < bases_.size(); ++i) {
    const Home &home = model().homes[i];
    if (home.kind == Home::Kind::weight)
      bases_[i] = static_cast<char *>(weights_->weight(home.position));
    else if (home.kind == Home::Kind::folded)
      bases_[i] = static_cast<char *>(weights_->folded(home.position));
    else if (home.kind == Home::Kind::random_state)
      bases_[i] = random_state();
    else if (home.kind == Home::Kind::failure) {
      if (failure_->memory() == nullptr)
        *failure_ = FailureWords(weights_->device());
      bases_[i] = failure_->memory();
    }
  }
}
Instance::~Instance() {
  for (const auto &entry : grown_)
    weights_->device().release(entry.second.memory);
  if (random_state_ != nullptr)
    weights_->device().release(random_state_);
}

void Instance::check(Stream stream) {
  if (groups_ != nullptr) { // before values are looked at that nobody sent
    weights_->device().synchronize(stream);
    groups_->check();
  }
  failure_->check(model().tables, stream);
}

char *Instance::random_state() {
  if (random_state_ == nullptr) {
    random_state_ = weights_->device().allocate(2 * sizeof(uint64_t));
    set_seed(nullptr, 0, 0);
    weights_->device().synchronize(nullptr); // the first run may be on another stream
  }
  return static_cast<char *>(random_state_);
}

void Instance::set_seed(Stream stream, uint64_t seed, uint64_t call) {
  const uint64_t state[] = {seed, call};
  if (random_state_ != nullptr)
    weights_->device().upload(random_state_, state, sizeof state, stream);
}

size_t Instance::bind(const int64_t *const *shapes) {
  const Tables &tables = model().tables;
  std::vector<int64_t> key = key_of(tables, shapes);
  auto found =
      std::find_if(cache_.begin(), cache_.end(),
                   [&](const std::shared_ptr<BoundShapes> &entry) { return entry->key == key; });
  std::shared_ptr<BoundShapes> bound;
  if (found != cache_.end()) {
    bound = *found;
    cache_.erase(found);
  } else {
    bound = std::make_shared<BoundShapes>();
    bound->key = std::move(key);
    bound->symbols = ShapeChecker(tables, shapes).symbols();
    find_ranges(tables, *bound);
    bound->later = parts_of(tables, 0, static_cast<uint32_t>(tables.steps.count));
    uint32_t plain = 0; // steps that need no symbol of later ones
    if (!bound->later.empty() && bound->later[0].kind == Part::Kind::steps) {
      plain = bound->later[0].end;
      bound->later.erase(bound->later.begin());
    }
    bound->buffer_bytes = buffer_extents(model(), bound->low.data(), bound->high.data());
    for (const int64_t bytes : bound->buffer_bytes)
      bound->grows.push_back(bytes == kUnbounded);
    check_views(model(), bound->symbols.data(), bound->buffer_bytes, false);
    {
      std::lock_guard<std::mutex> lock(weights_->prepare_);
      bound->steps = resolve_steps(model(), weights_->device(), bound->symbols.data(),
                                   bound->buffer_bytes, false, 0, plain);
    }
    pack_workspace(model(), weights_->device(), *bound);
    if (const int64_t bytes =
            place_exchanges(model(), bound->buffer_bytes, bound->exchange_offsets);
        bytes > 0)
      bound->exchange = KeptMemory(weights_->device(), static_cast<size_t>(bytes));
  }
  if (cache_.size() >= kMaxCached)
    cache_.erase(cache_.begin());
  cache_.push_back(bound);
  bound_ = std::move(bound);
  bound_->is_complete = bound_->later.empty(); // of sizes that a run decides those since now count
  return static_cast<size_t>(bound_->workspace_bytes);
}

char *Instance::workspace_piece(size_t lifetime, void *const *outputs, void *workspace) const {
  if (bound_->grows[model().lifetimes[lifetime].root])
    return nullptr; // until a run knows its size
  const uint32_t lender = bound_->lenders[lifetime];
  return static_cast<char *>(lender == kOwnBlock ? workspace : outputs[lender]) +
         bound_->offsets[lifetime];
}

void Instance::set_bases(void *const *inputs, void *const *outputs, void *workspace) {
  for (size_t i = 0; i < bases_.size(); ++i) {
    const Home &home = model().homes[i];
    if (home.kind == Home::Kind::input)
      bases_[i] = static_cast<char *>(inputs[home.position]);
    else if (home.kind == Home::Kind::output)
      bases_[i] = is_grown(home.position) ? nullptr : static_cast<char *>(outputs[home.position]);
    else if (home.kind == Home::Kind::exchange)
      bases_[i] = bound_->exchange.memory() + bound_->exchange_offsets[home.position];
    else if (home.kind == Home::Kind::workspace)
      bases_[i] = workspace_piece(home.position, outputs, workspace);
  }
}

void Instance::poison(Stream stream, void *const *outputs, void *workspace) {
  constexpr int kPoison = 0xFF; // NaN as any float, -1 as any signed integer
  Device &device = weights_->device();
  if (bound_->workspace_bytes > 0)
    device.fill(workspace, kPoison, static_cast<size_t>(bound_->workspace_bytes), stream);
  for (size_t i = 0; i < model().tables.outputs.count; ++i)
    if (outputs[i] != nullptr && !is_grown(i) && output_bytes(i) > 0)
      device.fill(outputs[i], kPoison, output_bytes(i), stream);
}

void Instance::copy_outputs(Stream stream, void *const *outputs) {
  auto copy = [&](uint32_t position) {
    auto buffer = static_cast<size_t>(model().tables.outputs[position].buffer);
    auto bytes = static_cast<size_t>(bound_->buffer_bytes[buffer]);
    if (bytes > 0 && !is_grown(position) && bases_[buffer] != outputs[position])
      weights_->device().copy(outputs[position], bases_[buffer], bytes, stream);
  };
  for (uint32_t position : model().copied_outputs)
    copy(position);
  for (uint32_t position : model().mutated_outputs)
    if (outputs[position] != nullptr)
      copy(position);
}

void Instance::check_arguments(void *const *inputs, void *const *outputs, void *workspace) const {
  need(bound_);
  const Tables &tables = model().tables;
  constexpr size_t kTensorAlignment = 16; // the widest load of a kernel
  for (size_t i = 0; i < tables.inputs.count; ++i)
    check_memory(inputs[i], input_bytes(i), kTensorAlignment, "input", tables.inputs[i].name);
  for (size_t i = 0; i < tables.outputs.count; ++i)
    check_memory(outputs[i], tables.outputs[i].is_mutation ? 0 : output_bytes(i), kTensorAlignment,
                 "output", tables.outputs[i].name);
  check_memory(workspace, static_cast<size_t>(bound_->workspace_bytes), kPieceAlignment, "memory",
               "workspace");
}

void Instance::time_steps(Stream stream, void *const *inputs, void *const *outputs, void *workspace,
                          const StepTimer &timer) {
  reset_data_sizes();
  check_arguments(inputs, outputs, workspace);
  set_bases(inputs, outputs, workspace);
  const StepWatch watch = {timer, nullptr};
  queue(stream, outputs, workspace, &watch);
}

void Instance::run_marked(Stream stream, void *const *inputs, void *const *outputs, void *workspace,
                          const StepMark &mark) {
  reset_data_sizes();
  check_arguments(inputs, outputs, workspace);
  set_bases(inputs, outputs, workspace);
  const StepWatch watch = {nullptr, mark};
  queue(stream, outputs, workspace, &watch);
  if (weights_->device().is_host())
    check(stream);
}

void Instance::run(Stream stream, void *const *inputs, void *const *outputs, void *workspace) {
  reset_data_sizes();
  check_arguments(inputs, outputs, workspace);
  set_bases(inputs, outputs, workspace);
  if (!replay(stream, inputs, outputs, workspace))
    queue(stream, outputs, workspace);
  if (weights_->device().is_host())
    check(stream);
}

void Instance::queue(Stream stream, void *const *outputs, void *workspace, const StepWatch *watch) {
  if (poison_)
    poison(stream, outputs, workspace);
  char *scratch = static_cast<char *>(workspace) + bound_->scratch_offset;
  run_steps(model(), weights_->device(), bound_->steps, bases_, scratch, *streams_, stream, groups_,
            watch);
  run_parts(bound_->later, stream, scratch, watch);
  if (!bound_->later.empty())
    check_views(model(), bound_->symbols.data(), bound_->buffer_bytes, true);
  bound_->is_complete = true;
  copy_outputs(stream, outputs);
}

void Instance::set_groups(Groups *groups) {
  groups_ = groups;
  for (const std::shared_ptr<BoundShapes> &bound : cache_)
    bound->recordings = Recordings();
}

size_t Instance::replayed() const {
  size_t runs = 0;
  for (const std::shared_ptr<BoundShapes> &bound : cache_)
    runs += bound->recordings.replayed();
  return runs;
}

bool Instance::is_grown(size_t output) const {
  const int32_t buffer = model().tables.outputs[output].buffer;
  return buffer >= 0 && bound_->grows[static_cast<size_t>(buffer)];
}

void *Instance::output_memory(size_t output, void *given) const {
  need(bound_);
  return is_grown(output) ? bases_[static_cast<size_t>(model().tables.outputs[output].buffer)]
                          : given;
}

bool Instance::replay(Stream stream, void *const *inputs, void *const *outputs, void *workspace) {
  if (!is_recording_ || (groups_ != nullptr && groups_->why_not_recorded() != nullptr))
    return false;
  size_t next = 0;
  for (size_t i = 0; i < model().tables.inputs.count; ++i)
    addresses_[next++] = model().tables.inputs[i].is_scalar ? nullptr : inputs[i];
  for (size_t i = 0; i < model().tables.outputs.count; ++i)
    addresses_[next++] = outputs[i];
  addresses_[next++] = workspace;
  addresses_[next] = poison_ ? this : nullptr; // not an address, but a run is another with it
  Recordings &recordings = bound_->recordings;
  Device &device = weights_->device();
  if (recordings.replay(device, stream, addresses_, groups_))
    return true;
  return recordings.is_wanted(device, stream, model().tables.steps.count, groups_) &&
         recordings.record(
             device, stream, addresses_, groups_,
             [this, outputs, workspace](Stream recorded) { queue(recorded, outputs, workspace); });
}

/// Nobody is told a size that no run has decided yet.
void Instance::need_complete(size_t output) const {
  const Tables &tables = model().tables;
  if (!need(bound_).is_complete && tables.outputs[output].buffer >= 0 &&
      is_of_data(tables, tables.outputs[output].view))
    throw Error(Status::bad_argument,
                std::string("the sizes of output \"") + tables.outputs[output].name +
                    "\" are decided by a run, and none was done since shapes were bound");
}

std::vector<int64_t> Instance::output_sizes(size_t output) const {
  need_complete(output);
  return evaluate_all(model().tables, model().tables.outputs[output].view.sizes,
                      need(bound_).symbols);
}
std::vector<int64_t> Instance::output_strides(size_t output) const {
  need_complete(output);
  return evaluate_all(model().tables, model().tables.outputs[output].view.strides,
                      need(bound_).symbols);
}
int64_t Instance::output_offset(size_t output) const {
  need_complete(output);
  return evaluate(model().tables, model().tables.outputs[output].view.offset,
                  need(bound_).symbols.data());
}
size_t Instance::output_bytes(size_t output) const {
  int32_t buffer = model().tables.outputs[output].buffer;
  need(bound_);
  if (buffer < 0 || (is_grown(output) && !bound_->is_complete))
    return 0;
  return static_cast<size_t>(bound_->buffer_bytes[static_cast<size_t>(buffer)]);
}
std::vector<int64_t> Instance::input_strides(size_t input) const {
  return evaluate_all(model().tables, model().tables.inputs[input].view.strides,
                      need(bound_).symbols);
}
int64_t Instance::input_offset(size_t input) const {
  return evaluate(model().tables, model().tables.inputs[input].view.offset,
                  need(bound_).symbols.data());
}
size_t Instance::input_bytes(size_t input) const {
  auto buffer = static_cast<size_t>(model().tables.inputs[input].buffer);
  return static_cast<size_t>(need(bound_).buffer_bytes[buffer]);
}
size_t Instance::workspace_bytes() const {
  return static_cast<size_t>(need(bound_).workspace_bytes);
}
const std::vector<int64_t> &Instance::symbols() const { return need(bound_).symbols; }

} // namespace tsc_engine
