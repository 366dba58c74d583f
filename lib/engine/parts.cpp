// Runs in which steps define symbols: part by part, each resolved when its sizes are known.
#include "engine/bound_shapes.h"
#include "engine/failure.h"

#include <algorithm>
#include <utility>

namespace tsc_engine {
namespace {

/// Without a bound exports write the largest number but one.
int64_t high_of(int64_t high) { return high >= INT64_MAX - 1 ? kUnbounded : high; }

/// What `define` may give its symbol before it does.
void widen(const Tables &tables, const Define &define, BoundShapes &bound) {
  const auto symbol = static_cast<size_t>(define.symbol);
  const int64_t bound_of_step = most(tables, define.bound, bound.low.data(), bound.high.data());
  bound.low[symbol] = tables.symbols[symbol].low;
  bound.high[symbol] = high_of(std::min(tables.symbols[symbol].high, bound_of_step));
}

const Define &define_of(const Tables &tables, uint32_t step) {
  return tables.defines[static_cast<size_t>(tables.steps[step].position)];
}

/// (steps of the first part, of the second) of a branch or loop; (0, 0) of other steps.
std::pair<uint32_t, uint32_t> dependent_steps(const Tables &tables, uint32_t step) {
  const auto position = static_cast<size_t>(tables.steps[step].position);
  if (tables.steps[step].kind == StepKind::conditional) {
    const Conditional &row = tables.conditionals[position];
    return {static_cast<uint32_t>(row.then_steps), static_cast<uint32_t>(row.else_steps)};
  }
  if (tables.steps[step].kind == StepKind::while_loop) {
    const WhileLoop &row = tables.loops[position];
    return {static_cast<uint32_t>(row.condition_steps), static_cast<uint32_t>(row.body_steps)};
  }
  return {0, 0};
}

bool defines(const Tables &tables, uint32_t begin, uint32_t end) {
  for (uint32_t step = begin; step < end; ++step)
    if (tables.steps[step].kind == StepKind::define)
      return true;
  return false;
}

} // namespace

void find_ranges(const Tables &tables, BoundShapes &bound) {
  bound.low = bound.high = bound.symbols;
  for (const Define &define : tables.defines)
    widen(tables, define, bound);
}

std::vector<Part> parts_of(const Tables &tables, uint32_t begin, uint32_t end) {
  std::vector<Part> parts;
  if (!defines(tables, begin, end)) {
    if (begin < end)
      parts.push_back({Part::Kind::steps, begin, end, {}, {}, {}, {}});
    return parts;
  }
  uint32_t open = begin; // of the plain steps
  const auto add = [&](Part part, uint32_t behind) {
    if (open < part.begin)
      parts.push_back({Part::Kind::steps, open, part.begin, {}, {}, {}, {}});
    parts.push_back(std::move(part));
    open = behind;
  };
  for (uint32_t step = begin; step < end;) {
    const auto [first, second] = dependent_steps(tables, step);
    const uint32_t middle = step + 1 + first, behind = middle + second;
    if (tables.steps[step].kind == StepKind::define)
      add({Part::Kind::define, step, behind, {}, {}, {}, {}}, behind);
    else if (defines(tables, step + 1, behind))
      add({Part::Kind::control,
           step,
           behind,
           parts_of(tables, step + 1, middle),
           parts_of(tables, middle, behind),
           {},
           {}},
          behind);
    step = behind;
  }
  if (open < end)
    parts.push_back({Part::Kind::steps, open, end, {}, {}, {}, {}});
  return parts;
}

void Instance::reset_data_sizes() {
  if (bound_ == nullptr || bound_->later.empty())
    return;
  find_ranges(model().tables, *bound_);
  bound_->buffer_bytes = buffer_extents(model(), bound_->low.data(), bound_->high.data());
  bound_->is_complete = false;
}

void Instance::forget(const std::vector<Part> &parts) {
  const Tables &tables = model().tables;
  for (const Part &part : parts)
    for (uint32_t step = part.begin; step < part.end; ++step)
      if (tables.steps[step].kind == StepKind::define)
        widen(tables, define_of(tables, step), *bound_);
  const std::vector<int64_t> bytes =
      buffer_extents(model(), bound_->low.data(), bound_->high.data());
  for (size_t buffer = 0; buffer < bytes.size(); ++buffer)
    if (bound_->grows[buffer])
      bound_->buffer_bytes[buffer] = bytes[buffer];
}

void Instance::define_symbol(uint32_t step, Stream stream) {
  const Tables &tables = model().tables;
  const Define &define = define_of(tables, step);
  const auto symbol = static_cast<size_t>(define.symbol);
  const int64_t offset = evaluate(tables, define.number.offset, bound_->symbols.data());
  int64_t value = 0;
  Device &device = weights_->device();
  device.download(&value,
                  bases_[static_cast<size_t>(define.number.buffer)] +
                      offset * static_cast<int64_t>(sizeof value),
                  sizeof value, stream);
  device.synchronize(stream);
  bound_->symbols[symbol] = value;
  // What the graph says of it first: its words are the user's.
  for (const SizeAssertion &row : tables.size_assertions)
    if (last_defined(tables, row.condition) == define.symbol &&
        evaluate(tables, row.condition, bound_->symbols.data()) == 0) {
      check(stream); // that may be why
      throw Error(Status::assertion, describe(row.assertion));
    }
  const int64_t low = tables.symbols[symbol].low;
  const int64_t high =
      std::min(tables.symbols[symbol].high, evaluate(tables, define.bound, bound_->symbols.data()));
  if (value < low || value > high) {
    check(stream);
    throw Error(Status::assertion,
                std::string("the size ") + tables.symbols[symbol].name + " is " +
                    std::to_string(value) + ", not in [" +
                    (low == INT64_MIN ? "-inf" : std::to_string(low)) + ", " +
                    (high >= INT64_MAX - 1 ? "inf" : std::to_string(high)) + "] (" +
                    tables.steps[step].name + ")",
                "give inputs for which it lies in that range");
  }
  bound_->low[symbol] = bound_->high[symbol] = value;
}

void Instance::grow(Stream stream) {
  const Model &model = this->model();
  Device &device = weights_->device();
  const std::vector<int64_t> bytes = buffer_extents(model, bound_->low.data(), bound_->high.data());
  for (uint32_t buffer = 0; buffer < bytes.size(); ++buffer) {
    if (bound_->buffer_bytes[buffer] != kUnbounded || bytes[buffer] == kUnbounded)
      continue;
    bound_->buffer_bytes[buffer] = bytes[buffer];
    Grown &grown = grown_[model.roots[buffer]];
    const auto needed = static_cast<size_t>(bytes[buffer]);
    if (grown.memory == nullptr || grown.bytes < needed) {
      // Nothing is at work that was queued before the size was read.
      if (grown.memory != nullptr)
        device.release(std::exchange(grown.memory, nullptr));
      grown.bytes = 0;
      grown.memory = device.allocate(needed);
      grown.bytes = needed;
    }
    if (poison_ && needed > 0 && model.roots[buffer] == buffer)
      device.fill(grown.memory, 0xFF, needed, stream);
    bases_[buffer] = static_cast<char *>(grown.memory);
  }
}

ResolvedSteps &Instance::resolved(Part &part) {
  const Tables &tables = model().tables;
  std::ptrdiff_t known = 0; // symbols: those of inputs come first
  for (uint32_t step = 0; step < part.begin; ++step)
    if (tables.steps[step].kind == StepKind::define)
      known = std::max<std::ptrdiff_t>(known, define_of(tables, step).symbol + 1);
  std::vector<int64_t> key(bound_->symbols.begin(), bound_->symbols.begin() + known);
  key.push_back(known); // never empty
  if (part.key != key) {
    std::lock_guard<std::mutex> lock(weights_->prepare_);
    part.key.clear();
    part.resolved = resolve_steps(model(), weights_->device(), bound_->symbols.data(),
                                  bound_->buffer_bytes, false, part.begin, part.end);
    part.key = std::move(key);
  }
  return part.resolved;
}

void Instance::run_parts(std::vector<Part> &parts, Stream stream, void *scratch,
                         const StepWatch *watch) {
  for (Part &part : parts)
    if (part.kind == Part::Kind::define) {
      define_symbol(part.begin, stream);
      grow(stream);
    } else if (part.kind == Part::Kind::control) {
      run_control(part, stream, scratch, watch);
    } else {
      run_steps(model(), weights_->device(), resolved(part), bases_, scratch, *streams_, stream,
                groups_, watch);
    }
}

void Instance::run_control(Part &part, Stream stream, void *scratch, const StepWatch *watch) {
  if (model().tables.steps[part.begin].kind == StepKind::conditional) {
    run_parts(holds(part.begin, stream) ? part.first : part.second, stream, scratch, watch);
    return;
  }
  run_parts(part.first, stream, scratch, watch);
  for (size_t rounds = 1; holds(part.begin, stream) && !is_lost(rounds, stream); ++rounds) {
    run_parts(part.second, stream, scratch, watch);
    forget(part.second);
    forget(part.first);
    run_parts(part.first, stream, scratch, watch);
  }
}

bool Instance::holds(uint32_t step, Stream stream) {
  const Tables &tables = model().tables;
  const auto position = static_cast<size_t>(tables.steps[step].position);
  const bool loops = tables.steps[step].kind == StepKind::while_loop;
  if (!loops && !tables.conditionals[position].has_predicate)
    return evaluate(tables, tables.conditionals[position].condition, bound_->symbols.data()) != 0;
  const Operand &predicate =
      loops ? tables.loops[position].predicate : tables.conditionals[position].predicate;
  uint8_t truth = 0;
  Device &device = weights_->device();
  device.download(&truth,
                  bases_[static_cast<size_t>(predicate.buffer)] +
                      evaluate(tables, predicate.offset, bound_->symbols.data()),
                  sizeof truth, stream);
  device.synchronize(stream);
  return truth != 0;
}

bool Instance::is_lost(size_t rounds, Stream stream) {
  constexpr size_t kRounds = 64; // few loops have as many as it takes to ask
  if (rounds % kRounds != 0)
    return false;
  for (size_t i = 0; i < model().homes.size(); ++i)
    if (model().homes[i].kind == Home::Kind::failure)
      return is_value_noted(weights_->device(), bases_[i], stream);
  return false;
}

} // namespace tsc_engine
