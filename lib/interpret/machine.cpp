#include "interpret/machine.h"

#include "interpret/accumulate.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <type_traits>

namespace tsc::interpret {

Machine::Machine(const ir::Module &module, symbolic::Bindings bindings, bool round,
                 std::shared_ptr<std::string> failure)
    : module_(module), bindings_(std::move(bindings)), round_(round),
      by_buffer_(module.buffers.size(), nullptr), failure_(std::move(failure)) {}

std::vector<int64_t> Machine::values_of(std::span<const Expr> sizes) const {
  std::vector<int64_t> values;
  for (Expr size : sizes)
    values.push_back(value_of(size));
  return values;
}

int64_t Machine::element_count(const tensor::Layout &layout) const {
  return std::max<int64_t>(value_of(layout.storage_size()), 0);
}

std::vector<int64_t> Machine::positions_of(const tensor::Layout &layout) const {
  std::vector<int64_t> sizes = values_of(layout.sizes), strides = values_of(layout.strides);
  Domain domain{sizes};
  std::vector<int64_t> positions(static_cast<size_t>(domain.numel()));
  std::vector<int64_t> index(sizes.size(), 0);
  int64_t position = value_of(layout.offset);
  for (int64_t &slot : positions) {
    slot = position;
    for (size_t k = sizes.size(); k-- > 0;) { // the next index, like an odometer
      position += strides[k];
      if (++index[k] < sizes[k])
        break;
      position -= strides[k] * sizes[k];
      index[k] = 0;
    }
  }
  return positions;
}

void Machine::set_input(ir::BufferId id, const tensor::HostTensor &data) {
  const ir::Buffer &buffer = module_.buffer(id);
  Storage &storage = storages_.emplace_back();
  by_buffer_[id] = &storage;
  std::vector<int64_t> positions = positions_of(buffer.layout);
  if (data.numel() != static_cast<int64_t>(positions.size()))
    return; // a weight that was left out; reading it is the error
  tensor::HostTensor contiguous = data.contiguous();
  storage.allocate(buffer.dtype, element_count(buffer.layout));
  for (size_t i = 0; i < positions.size(); ++i)
    read_element(storage, positions[i], contiguous, static_cast<int64_t>(i));
}

Storage &Machine::output_of(const ir::Operation &operation, size_t output) {
  ir::BufferId id = operation.outputs[output];
  const ir::Buffer &buffer = module_.buffer(id);
  ir::BufferId target = module_.storage_of(id);
  if (target == id && !buffer.aliases.empty())
    target = module_.storage_of(buffer.aliases[0]);
  if (by_buffer_[target] == nullptr) {
    Storage &storage = storages_.emplace_back();
    const ir::Buffer &owner = module_.buffer(target);
    storage.allocate(owner.dtype, element_count(owner.layout));
    by_buffer_[target] = &storage;
  }
  by_buffer_[id] = by_buffer_[target];
  return *by_buffer_[id];
}

Storage &Machine::memory(ir::BufferId buffer) {
  Storage *storage = by_buffer_[module_.storage_of(buffer)];
  if (storage == nullptr || !storage->present)
    throw support::InternalError("interpret", module_.buffer(buffer).name, "is not computed");
  return *storage;
}

void Machine::allocate(ir::BufferId buffer) {
  Storage *&slot = by_buffer_[buffer];
  if (slot != nullptr)
    return;
  slot = &storages_.emplace_back();
  slot->allocate(module_.buffer(buffer).dtype, element_count(module_.buffer(buffer).layout));
}

void Machine::put(ir::BufferId buffer, int64_t position, double value) {
  store(memory(buffer), position, value);
}

void Machine::store(Storage &storage, int64_t position, double value) const {
  support::require(position >= 0 && position < storage.size(), "interpret",
                   "a store outside of its buffer");
  if (!storage.is_float())
    storage.integers[static_cast<size_t>(position)] = to_integer(storage.dtype, value);
  else
    storage.floats[static_cast<size_t>(position)] = round_ ? round_to(storage.dtype, value) : value;
}

void Machine::store(Storage &storage, int64_t position, int64_t value) const {
  if (storage.is_float())
    return store(storage, position, static_cast<double>(value));
  support::require(position >= 0 && position < storage.size(), "interpret",
                   "a store outside of its buffer");
  storage.integers[static_cast<size_t>(position)] = wrap_to(storage.dtype, value);
}

Tape Machine::finish(TapeBuilder &builder, std::vector<ValueId> kept,
                     const ir::Operation &operation) const {
  Tape tape = builder.finish(std::move(kept));
  tape.operation = operation.name;
  tape.failure = failure_.get();
  if (!operation.origins.empty() && operation.origins.back() < module_.origins.size())
    tape.node = module_.origins[operation.origins.back()].node;
  return tape;
}

void Machine::execute(const ir::Operation &operation) {
  if (const auto *loops = std::get_if<ir::Pointwise>(&operation.kind))
    pointwise(operation, *loops);
  else if (const auto *stores = std::get_if<ir::Scatter>(&operation.kind))
    scatter(operation, *stores);
  else if (const auto *reduces = std::get_if<ir::Reduction>(&operation.kind))
    reduction(operation, *reduces);
  else if (const auto *scans = std::get_if<ir::Scan>(&operation.kind))
    scan(operation, *scans);
  else if (const auto *sorts = std::get_if<ir::Sort>(&operation.kind))
    sort(operation, *sorts);
  else if (const auto &call = std::get<ir::Extern>(operation.kind);
           call.library == ir::Library::attention)
    attention(operation, call);
  else if (call.library == ir::Library::sectioned_matmul)
    sectioned_matmul(operation, call);
  else if (call.library == ir::Library::sort)
    sort_rows(operation, call);
  else if (call.library == ir::Library::concatenate)
    output_of(operation); // its parts are there
  else if (call.library == ir::Library::conditional)
    conditional(operation, call);
  else if (call.library == ir::Library::while_loop)
    while_loop(operation, call);
  else if (call.library == ir::Library::user_kernel)
    user_kernel(operation, call);
  else if (call.library == ir::Library::define_size)
    define_size(operation, call);
  else if (call.library == ir::Library::solver)
    solver(operation, call);
  else
    matmul(operation, call);
}

void Machine::pointwise(const ir::Operation &operation, const ir::Pointwise &pointwise) {
  const tensor::Layout &layout = module_.buffer(operation.outputs[0]).layout;
  Domain domain{values_of(layout.sizes)};
  Storage &output = output_of(operation);
  TapeBuilder builder(module_, bindings_, round_);
  ValueId value = builder.value(pointwise.value, output.dtype);
  Tape tape = finish(builder, {value}, operation);
  std::vector<int64_t> positions = positions_of(layout);
  TapeRunner runner(tape, domain, by_buffer_, round_);
  auto numel = static_cast<int64_t>(positions.size());
  for (int64_t begin = 0; begin < numel; begin += TapeRunner::kChunk) {
    int64_t count = std::min(TapeRunner::kChunk, numel - begin);
    runner.run(begin, count);
    for (int64_t p = 0; p < count; ++p) {
      int64_t position = positions[static_cast<size_t>(begin + p)];
      if (output.is_float())
        store(output, position, runner.floats(value)[p]);
      else
        store(output, position, runner.integers(value)[p]);
    }
  }
}

namespace {

/// What a scattered value makes of what is there. Integers wrap; NaN is larger and smaller than
/// anything.
template <class T> T met(ir::StoreMode mode, T old, T value) {
  const auto wrapped = [](uint64_t result) { return static_cast<T>(static_cast<int64_t>(result)); };
  constexpr bool kInteger = std::is_same_v<T, int64_t>;
  switch (mode) {
  case ir::StoreMode::plain:
    return value;
  case ir::StoreMode::atomic_add:
    if constexpr (kInteger)
      return wrapped(static_cast<uint64_t>(old) + static_cast<uint64_t>(value));
    return old + value;
  case ir::StoreMode::atomic_mul:
    if constexpr (kInteger)
      return wrapped(static_cast<uint64_t>(old) * static_cast<uint64_t>(value));
    return old * value;
  case ir::StoreMode::atomic_max:
    return value > old || value != value ? value : old;
  case ir::StoreMode::atomic_min:
    return value < old || value != value ? value : old;
  }
  throw support::InternalError("interpret", "scatter", "unknown mode of a store");
}

} // namespace

void Machine::scatter(const ir::Operation &operation, const ir::Scatter &scatter) {
  const tensor::Layout &layout = module_.buffer(operation.outputs[0]).layout;
  Domain domain{values_of(scatter.sizes)};
  Storage &output = output_of(operation);
  TapeBuilder builder(module_, bindings_, round_);
  symbolic::Substitution run_time;
  for (size_t k = 0; k < scatter.indices.size(); ++k) {
    ValueId index = builder.value(scatter.indices[k], DType::i64);
    run_time.emplace(
        ir::operand_value(k + 1),
        builder.bind_run_time(index, scatter.extents[k], ir::check_at(scatter.checks, k)));
  }
  std::vector<Expr> target;
  for (Expr e : scatter.index)
    target.push_back(symbolic::substitute(e, run_time));
  ValueId position = builder.index(layout.linear_index(target));
  ValueId value = builder.value(scatter.value, output.dtype);
  Tape tape = finish(builder, {position, value}, operation);
  TapeRunner runner(tape, domain, by_buffer_, round_);
  for (int64_t begin = 0; begin < domain.numel(); begin += TapeRunner::kChunk) {
    int64_t count = std::min(TapeRunner::kChunk, domain.numel() - begin);
    runner.run(begin, count);
    for (int64_t p = 0; p < count; ++p) {
      int64_t at = runner.integers(position)[p];
      support::require(at >= 0 && at < output.size(), "interpret", "a store outside of its buffer");
      auto slot = static_cast<size_t>(at);
      if (!output.is_float())
        output.integers[slot] = wrap_to(
            output.dtype, met(scatter.mode, output.integers[slot], runner.integers(value)[p]));
      else
        output.floats[slot] = met(scatter.mode, output.floats[slot], runner.floats(value)[p]);
    }
  }
  // Sums are rounded once, not after every addition: the order of additions is nobody's promise.
  if (output.is_float() && round_)
    for (double &element : output.floats)
      element = round_to(output.dtype, element);
}

void Machine::reduction(const ir::Operation &operation, const ir::Reduction &reduction) {
  const tensor::Layout &layout = module_.buffer(operation.outputs[0]).layout;
  std::vector<int64_t> positions = positions_of(layout);
  Domain domain{values_of(layout.sizes)};
  Domain reduced{values_of(reduction.reduction_sizes)};
  int64_t length = reduced.numel();
  domain.sizes.insert(domain.sizes.end(), reduced.sizes.begin(), reduced.sizes.end());
  Storage &output = output_of(operation);
  bool welford = reduction.kind == ir::ReductionKind::welford_combine;
  TapeBuilder builder(module_, bindings_, round_);
  std::vector<ValueId> inputs;
  for (const ir::Operand &input : reduction.inputs)
    inputs.push_back(builder.value(input, welford ? DType::f64 : reduction.source_dtype));
  DType source = welford ? DType::f64 : builder.dtype_of(inputs[0]);
  Tape tape = finish(builder, inputs, operation);
  TapeRunner runner(tape, domain, by_buffer_, round_);
  Accumulator accumulator(reduction.kind, source);
  bool is_float = tensor::is_floating(source);
  size_t at = 0;    // output element
  int64_t seen = 0; // of its inputs
  auto finish_output = [&] {
    if (accumulator.yields_float())
      store(output, positions[at], accumulator.real(reduction.item));
    else
      store(output, positions[at], accumulator.integer(reduction.item));
    accumulator.reset();
    ++at;
    seen = 0;
  };
  if (length == 0) {
    while (at < positions.size())
      finish_output();
    return;
  }
  for (int64_t begin = 0; begin < domain.numel(); begin += TapeRunner::kChunk) {
    int64_t count = std::min(TapeRunner::kChunk, domain.numel() - begin);
    runner.run(begin, count);
    for (int64_t p = 0; p < count; ++p) {
      Element element;
      for (size_t k = 0; k < inputs.size(); ++k)
        if (is_float)
          element.real[k] = runner.floats(inputs[k])[p];
        else
          element.integer[k] = runner.integers(inputs[k])[p];
      accumulator.add(element);
      if (++seen == length)
        finish_output();
    }
  }
}

void Machine::scan(const ir::Operation &operation, const ir::Scan &scan) {
  if (scan.kind == ir::ScanKind::combine)
    return combine(operation, scan);
  const tensor::Layout &layout = module_.buffer(operation.outputs[0]).layout;
  // Loops: the output's dimensions without `axis`, then `axis`.
  auto axis = static_cast<std::ptrdiff_t>(scan.axis);
  tensor::Layout moved = layout;
  if (scan.backwards) {
    Expr &stride = moved.strides[scan.axis];
    moved.offset += (moved.sizes[scan.axis] - 1) * stride;
    stride = Expr(0) - stride;
  }
  std::rotate(moved.sizes.begin() + axis, moved.sizes.begin() + axis + 1, moved.sizes.end());
  std::rotate(moved.strides.begin() + axis, moved.strides.begin() + axis + 1, moved.strides.end());
  std::vector<int64_t> positions = positions_of(moved);
  Domain domain{values_of(moved.sizes)};
  Storage &output = output_of(operation);
  TapeBuilder builder(module_, bindings_, round_);
  ValueId value = builder.value(scan.inputs[0], output.dtype);
  ScanState state(scan.kind, builder.dtype_of(value));
  Tape tape = finish(builder, {value}, operation);
  TapeRunner runner(tape, domain, by_buffer_, round_);
  for (int64_t begin = 0; begin < domain.numel(); begin += TapeRunner::kChunk) {
    int64_t count = std::min(TapeRunner::kChunk, domain.numel() - begin);
    runner.run(begin, count);
    for (int64_t p = 0; p < count; ++p) {
      if ((begin + p) % domain.sizes.back() == 0)
        state.reset();
      int64_t position = positions[static_cast<size_t>(begin + p)];
      if (output.is_float())
        store(output, position, state.next(runner.floats(value)[p]));
      else
        store(output, position, state.next(runner.integers(value)[p]));
    }
  }
}

const Storage &Machine::readable(const ir::BufferView &view) const {
  const Storage *storage = by_buffer_[view.buffer];
  if (storage == nullptr)
    storage = by_buffer_[module_.storage_of(view.buffer)];
  if (storage == nullptr || !storage->present)
    throw support::UserError(
        support::ExitCode::bad_input,
        support::Diagnostic{"TSC-R104", "a tensor that the graph reads was not given", "", "",
                            module_.buffer(view.buffer).name, "",
                            "pass every weight and input (tsc run --weights, --inputs)"});
  return *storage;
}

tensor::HostTensor Machine::read(const ir::BufferView &view) const {
  const Storage &storage = readable(view);
  DType dtype = storage.is_float() && !round_ ? DType::f64 : storage.dtype;
  tensor::HostTensor result(dtype, values_of(view.layout.sizes));
  std::vector<int64_t> positions = positions_of(view.layout);
  for (size_t i = 0; i < positions.size(); ++i)
    write_element(result, static_cast<int64_t>(i), storage, positions[i]);
  return result;
}

} // namespace tsc::interpret
