#include "engine/bound_shapes.h"
#include "engine/failure.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tsc_engine {
namespace {

/// Overflow in a byte count or extent is an error of the shapes, never a wrap-around.
int64_t multiply(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result))
    throw Error(Status::bad_argument, "a tensor of these shapes is beyond 64 bits of memory");
  return result;
}
int64_t add(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result))
    throw Error(Status::bad_argument, "a tensor of these shapes is beyond 64 bits of memory");
  return result;
}

class Resolver {
public:
  Resolver(const Model &model, Device &device, const int64_t *symbols,
           const std::vector<int64_t> &buffer_bytes)
      : model_(model), tables_(model.tables), device_(device), symbols_(symbols),
        buffer_bytes_(buffer_bytes) {}

  ResolvedSteps run(bool once, uint32_t begin, uint32_t end) {
    once_ = once;
    resolve_steps(begin, end);
    place_scratch();
    for (const size_t value : arguments_)
      result_.arguments.push_back(&result_.values[value]);
    return std::move(result_);
  }

private:
  void resolve_steps(uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end;) {
      const Step &step = tables_.steps[i];
      auto position = static_cast<size_t>(step.position);
      // Steps that run once do so whatever they are part of.
      if (!once_ && step.kind == StepKind::conditional) {
        const Conditional &row = tables_.conditionals[position];
        i = resolve_control(i, row.then_steps, row.else_steps);
        continue;
      }
      if (!once_ && step.kind == StepKind::while_loop) {
        const WhileLoop &row = tables_.loops[position];
        i = resolve_control(i, row.condition_steps, row.body_steps);
        continue;
      }
      step_ = i++;
      if (step.once != once_)
        continue;
      const size_t before = result_.steps.size();
      if (step.kind == StepKind::launch)
        resolve(tables_.launches[position]);
      else if (step.kind == StepKind::matmul)
        resolve(tables_.matmuls[position]);
      else if (step.kind == StepKind::copy)
        resolve(tables_.copies[position]);
      else if (step.kind == StepKind::fill)
        resolve(tables_.fills[position]);
      else if (step.kind == StepKind::collective)
        resolve(tables_.collectives[position]);
      else if (step.kind == StepKind::solver)
        resolve(tables_.solvers[position]);
      if (result_.steps.size() == before && (model_.is_awaited[step_] || step.waits.count != 0))
        add_step(StepKind::event, 0);
    }
  }
  /// Where the step keeps the place of its scratch memory, and the bytes of that; null for others.
  std::pair<size_t *, size_t> scratch_of(const ResolvedStep &step) {
    if (step.kind == StepKind::matmul) {
      ResolvedMatmul &matmul = result_.matmuls[step.position];
      return {&matmul.scratch, device_.matmul_scratch_bytes(matmul.plan)};
    }
    if (step.kind == StepKind::solver) {
      ResolvedSolver &solver = result_.solvers[step.position];
      return {&solver.scratch, device_.solver_scratch_bytes(solver.plan)};
    }
    return {nullptr, 0};
  }
  /// Products of one stream run one after another, those of different streams perhaps at once.
  void place_scratch() {
    constexpr size_t kAlignment = 256; // Device::matmul's
    std::vector<size_t> bytes(model_.streams, 0), offsets(model_.streams, 0);
    const auto stream_of = [this](const ResolvedStep &step) {
      return static_cast<size_t>(tables_.steps[step.step].stream);
    };
    for (const ResolvedStep &step : result_.steps)
      bytes[stream_of(step)] = std::max(bytes[stream_of(step)], scratch_of(step).second);
    for (size_t stream = 0; stream < bytes.size(); ++stream) {
      if (bytes[stream] == 0)
        continue;
      offsets[stream] = (result_.scratch_bytes + kAlignment - 1) / kAlignment * kAlignment;
      result_.scratch_bytes = offsets[stream] + bytes[stream];
    }
    for (const ResolvedStep &step : result_.steps)
      if (size_t *place = scratch_of(step).first)
        *place = offsets[stream_of(step)];
  }
  /// Returns the step that follows those that depend on step number `step`.
  uint32_t resolve_control(uint32_t step, int32_t first, int32_t second) {
    step_ = step;
    const size_t number = result_.controls.size();
    const auto position = static_cast<size_t>(tables_.steps[step].position);
    ResolvedControl control;
    if (tables_.steps[step].kind == StepKind::while_loop) {
      control.predicate = predicate(tables_.loops[position].predicate);
    } else {
      const Conditional &row = tables_.conditionals[position];
      control.has_predicate = row.has_predicate;
      if (row.has_predicate)
        control.predicate = predicate(row.predicate);
      else
        control.condition = value(row.condition) != 0;
    }
    add_step(tables_.steps[step].kind, number);
    result_.controls.push_back(control);
    const uint32_t middle = step + 1 + static_cast<uint32_t>(first);
    const uint32_t end = middle + static_cast<uint32_t>(second);
    const size_t begin = result_.steps.size();
    resolve_steps(step + 1, middle);
    result_.controls[number].first = result_.steps.size() - begin;
    resolve_steps(middle, end);
    result_.controls[number].second = result_.steps.size() - begin - result_.controls[number].first;
    return end;
  }
  AddressSlot predicate(const Operand &operand) const {
    return slot(operand.buffer, multiply(size(operand.offset), element_bytes(operand.buffer)), 1);
  }
  [[noreturn]] void fail(Status status, const std::string &what) const {
    throw Error(status, std::string("step ") + std::to_string(step_) + " (" +
                            tables_.steps[step_].name + "): " + what);
  }
  int64_t value(const Size &size) const {
    if (size.expression >= 0 && symbols_ == nullptr)
      fail(Status::internal, "a step that runs once depends on the shapes of a run");
    return evaluate(tables_, size, symbols_);
  }
  int64_t size(const Size &size) const {
    int64_t result = value(size);
    if (result < 0)
      fail(Status::bad_argument, "a size is negative for these shapes");
    return result;
  }
  int64_t element_bytes(int32_t buffer) const {
    return static_cast<int64_t>(size_in_bytes(tables_.buffers[static_cast<size_t>(buffer)].dtype));
  }
  /// `extent`: bytes that are touched from the offset on.
  AddressSlot slot(int32_t buffer, int64_t offset_bytes, int64_t extent) const {
    if (add(offset_bytes, extent) > buffer_bytes_[static_cast<size_t>(buffer)])
      fail(Status::internal, std::string("buffer ") +
                                 tables_.buffers[static_cast<size_t>(buffer)].name +
                                 " is too small for it");
    return {static_cast<uint32_t>(buffer), offset_bytes};
  }
  void add_step(StepKind kind, size_t position) {
    result_.steps.push_back({step_, kind, position});
  }

  uint32_t launch_size(const Size &expression, int64_t limit) const {
    int64_t result = size(expression);
    if (result > limit)
      fail(Status::bad_argument, "a launch of " + std::to_string(result) +
                                     " blocks or bytes is more than the device takes (" +
                                     std::to_string(limit) + ")");
    return static_cast<uint32_t>(result);
  }

  void resolve(const Launch &launch) {
    const Kernel &kernel = tables_.kernels[static_cast<size_t>(launch.kernel)];
    const Geometry &geometry = kernel.geometry[static_cast<size_t>(model_.plan)];
    ResolvedLaunch resolved;
    resolved.kernel = static_cast<size_t>(launch.kernel);
    resolved.first_argument = arguments_.size();
    bool is_empty = false;
    for (int axis = 0; axis < 3; ++axis) {
      resolved.geometry.grid[axis] =
          launch_size(geometry.grid[axis], axis == 0 ? INT32_MAX : 65535);
      resolved.geometry.block[axis] = geometry.block[axis];
      is_empty |= resolved.geometry.grid[axis] == 0;
    }
    resolved.geometry.shared_bytes = launch_size(geometry.shared_bytes, INT32_MAX);
    resolved.geometry.together = geometry.together;
    if (is_empty)
      return;
    auto pointer = static_cast<size_t>(launch.pointers.first);
    auto size = static_cast<size_t>(launch.sizes.first);
    for (const char *letter = kernel.parameters; *letter != '\0'; ++letter) {
      arguments_.push_back(result_.values.size());
      if (*letter == 's') {
        result_.values.push_back(value(tables_.sizes[size++]));
        continue;
      }
      const Operand &operand = tables_.operands[pointer++];
      int64_t offset = multiply(this->size(operand.offset), element_bytes(operand.buffer));
      result_.slots.push_back(slot(operand.buffer, offset, 0));
      result_.slot_values.push_back(result_.values.size());
      result_.values.push_back(0);
    }
    if (model_.plan == Plan::cuda)
      for (int32_t i = 0; i < kernel.maps.count; ++i)
        resolve(tables_.maps[static_cast<size_t>(kernel.maps.first + i)], resolved, launch);
    add_step(StepKind::launch, result_.launches.size());
    result_.launches.push_back(resolved);
  }
  /// An argument behind those that `resolved` has.
  void resolve(const TensorMap &row, const ResolvedLaunch &resolved, const Launch &launch) {
    ResolvedMap map;
    map.pointer = arguments_[resolved.first_argument + static_cast<size_t>(row.parameter)];
    const char *letters = tables_.kernels[resolved.kernel].parameters;
    const auto before = static_cast<size_t>(
        std::count_if(letters, letters + row.parameter, [](char c) { return c != 's'; }));
    const Operand &operand = tables_.operands[static_cast<size_t>(launch.pointers.first) + before];
    const int64_t element = element_bytes(operand.buffer);
    map.offset = multiply(size(row.offset), element);
    map.shape.dtype = row.dtype;
    map.shape.rank = row.rank;
    int64_t extent = element;
    bool is_empty = false; // nothing is ever copied by it
    for (int k = 0; k < row.rank; ++k) {
      map.shape.sizes[k] = size(row.sizes[k]);
      map.shape.strides[k] = multiply(size(row.strides[k]), element);
      map.shape.box[k] = row.box[k];
      is_empty |= map.shape.sizes[k] == 0;
      extent = add(extent, multiply(map.shape.sizes[k] - 1, map.shape.strides[k]));
    }
    map.shape.windows = row.windows;
    std::copy(std::begin(row.lower), std::end(row.lower), map.shape.lower);
    std::copy(std::begin(row.upper), std::end(row.upper), map.shape.upper);
    std::copy(std::begin(row.step), std::end(row.step), map.shape.step);
    map.shape.tf32 = row.tf32;
    if (!is_empty)
      slot(operand.buffer, add(multiply(size(operand.offset), element), map.offset), extent);
    map.value = result_.values.size();
    arguments_.push_back(map.value);
    result_.values.resize(map.value + kTensorMapBytes / sizeof(int64_t));
    if (!is_empty)
      result_.maps.push_back(map);
  }

  MatmulShape::Strides strides(const MatrixOperand &operand) const {
    return {size(operand.row), size(operand.column), size(operand.batch)};
  }
  AddressSlot matrix_slot(const MatrixOperand &operand, const MatmulShape::Strides &strides,
                          int64_t batch, int64_t rows, int64_t columns) const {
    int64_t elements = 0;
    if (rows > 0 && columns > 0)
      elements = add(add(multiply(batch - 1, strides.batch), multiply(rows - 1, strides.row)),
                     add(multiply(columns - 1, strides.column), 1));
    int64_t item = element_bytes(operand.buffer);
    return slot(operand.buffer, multiply(size(operand.offset), item), multiply(elements, item));
  }
  void resolve(const Matmul &matmul) {
    MatmulShape shape;
    shape.dtype = matmul.dtype;
    shape.wide = matmul.wide;
    shape.batch = size(matmul.batch);
    shape.m = size(matmul.m);
    shape.n = size(matmul.n);
    shape.k = size(matmul.k);
    if (shape.batch == 0 || shape.m == 0 || shape.n == 0)
      return;
    shape.a = strides(matmul.a);
    shape.b = strides(matmul.b);
    shape.out = strides(matmul.out);
    shape.has_c = matmul.has_c;
    if (matmul.has_c)
      shape.c = strides(matmul.c);
    shape.alpha = matmul.alpha;
    shape.beta = matmul.beta;
    shape.tf32 = matmul.tf32;
    ResolvedMatmul resolved;
    resolved.has_c = matmul.has_c;
    resolved.a = matrix_slot(matmul.a, shape.a, shape.batch, shape.m, shape.k);
    resolved.b = matrix_slot(matmul.b, shape.b, shape.batch, shape.k, shape.n);
    resolved.out = matrix_slot(matmul.out, shape.out, shape.batch, shape.m, shape.n);
    if (matmul.has_c)
      resolved.c = matrix_slot(matmul.c, shape.c, shape.batch, shape.m, shape.n);
    resolved.plan = device_.prepare_matmul(shape);
    add_step(StepKind::matmul, result_.matmuls.size());
    result_.matmuls.push_back(resolved);
  }

  void resolve(const Solver &solver) {
    SolverShape shape;
    shape.routine = solver.routine;
    shape.dtype = solver.dtype;
    shape.flags = solver.flags;
    shape.batch = size(solver.batch);
    shape.m = size(solver.m);
    shape.n = size(solver.n);
    shape.k = size(solver.k);
    if (shape.batch == 0)
      return;
    if (std::max({shape.batch, shape.m, shape.n, shape.k}) > INT32_MAX)
      fail(Status::bad_argument, "linear algebra or a Fourier transform of a size beyond 31 bits");
    if (is_transform(shape.routine) && std::min({shape.m, shape.n, shape.k}) < 1)
      fail(Status::bad_argument, "a Fourier transform of no elements");
    const SolverExtents extents = solver_extents(shape);
    const Operand *operands[] = {&solver.a,      &solver.b,     &solver.c,   &solver.out,
                                 &solver.second, &solver.third, &solver.info};
    const int64_t elements[] = {extents.a,      extents.b,     extents.c,   extents.out,
                                extents.second, extents.third, extents.info};
    ResolvedSolver resolved;
    for (size_t i = 0; i < std::size(operands); ++i) {
      resolved.operands[i].buffer = ResolvedSolver::kNone;
      if (operands[i]->buffer < 0) {
        if (elements[i] != 0)
          fail(Status::internal, "a routine of a library lacks an operand");
        continue;
      }
      const int64_t item = element_bytes(operands[i]->buffer);
      resolved.operands[i] = slot(operands[i]->buffer, multiply(size(operands[i]->offset), item),
                                  multiply(multiply(shape.batch, elements[i]), item));
    }
    resolved.plan = device_.prepare_solver(shape);
    add_step(StepKind::solver, result_.solvers.size());
    result_.solvers.push_back(resolved);
  }

  void resolve(const Copy &copy) {
    ResolvedCopy resolved;
    resolved.bytes = size(copy.bytes);
    if (resolved.bytes == 0)
      return;
    resolved.from =
        slot(copy.from.buffer, multiply(size(copy.from.offset), element_bytes(copy.from.buffer)),
             resolved.bytes);
    resolved.to =
        slot(copy.to.buffer, multiply(size(copy.to.offset), element_bytes(copy.to.buffer)),
             resolved.bytes);
    add_step(StepKind::copy, result_.copies.size());
    result_.copies.push_back(resolved);
  }

  void resolve(const Fill &fill) {
    ResolvedFill resolved;
    resolved.bytes = size(fill.bytes);
    if (resolved.bytes == 0)
      return;
    resolved.to =
        slot(fill.to.buffer, multiply(size(fill.to.offset), element_bytes(fill.to.buffer)),
             resolved.bytes);
    add_step(StepKind::fill, result_.fills.size());
    result_.fills.push_back(resolved);
  }

  std::vector<int64_t> sizes(const Range &range) {
    std::vector<int64_t> values;
    values.reserve(static_cast<size_t>(range.count));
    for (int32_t i = 0; i < range.count; ++i)
      values.push_back(size(tables_.sizes[static_cast<size_t>(range.first + i)]));
    return values;
  }

  /// Kept even if nothing is to be exchanged: all ranks must meet.
  void resolve(const Collective &collective) {
    ResolvedCollective resolved;
    resolved.row = &collective;
    resolved.count = size(collective.count);
    resolved.sends = sizes(collective.sends);
    resolved.receives = sizes(collective.receives);
    const auto bytes = [&](int64_t elements) {
      return multiply(elements, static_cast<int64_t>(size_in_bytes(collective.dtype)));
    };
    const auto sum = [](const std::vector<int64_t> &parts) {
      int64_t total = 0;
      for (const int64_t part : parts)
        total = add(total, part);
      return total;
    };
    const int64_t own = bytes(resolved.count);
    int64_t from = own, to = own;
    if (collective.kind == CollectiveKind::all_gather)
      to = multiply(own, collective.ranks);
    else if (collective.kind == CollectiveKind::reduce_scatter)
      from = multiply(own, collective.ranks);
    else if (collective.kind == CollectiveKind::all_to_all) {
      from = bytes(sum(resolved.sends));
      to = bytes(sum(resolved.receives));
    }
    resolved.from =
        slot(collective.from.buffer,
             multiply(size(collective.from.offset), element_bytes(collective.from.buffer)), from);
    resolved.to =
        slot(collective.to.buffer,
             multiply(size(collective.to.offset), element_bytes(collective.to.buffer)), to);
    add_step(StepKind::collective, result_.collectives.size());
    result_.collectives.push_back(std::move(resolved));
  }

  const Model &model_;
  const Tables &tables_;
  Device &device_;
  const int64_t *symbols_;
  const std::vector<int64_t> &buffer_bytes_;
  ResolvedSteps result_;
  std::vector<size_t> arguments_; // of launches, in result_.values
  uint32_t step_ = 0;
  bool once_ = false;
};

void communicate(Groups *groups, const ResolvedCollective &collective, const char *step,
                 const char *from, char *to, Stream stream) {
  const Collective &row = *collective.row;
  Communicator *communicator = groups == nullptr ? nullptr : groups->find(row.group);
  if (communicator == nullptr || (row.ranks != 0 && communicator->ranks() != row.ranks) ||
      (row.kind == CollectiveKind::all_to_all &&
       communicator->ranks() != static_cast<int64_t>(collective.sends.size())))
    throw Error(Status::bad_argument,
                "it communicates among " + (row.ranks == 0 ? "the" : std::to_string(row.ranks)) +
                    " ranks of group '" + row.group + "', and this run has " +
                    std::to_string(communicator == nullptr ? 1 : communicator->ranks()));
  CollectiveCall call;
  call.kind = row.kind;
  call.reduction = row.reduction;
  call.dtype = row.dtype;
  call.count = collective.count;
  call.root = row.root;
  call.sends = collective.sends.data();
  call.receives = collective.receives.data();
  call.step = step;
  call.node = row.node;
  communicator->run(call, from, to, stream);
}

void run_step(Device &device, ResolvedSteps &steps, const ResolvedStep &step,
              const std::vector<char *> &bases, void *scratch, Stream stream, Groups *groups,
              const Tables &tables) {
  auto address = [&](const AddressSlot &slot) { return bases[slot.buffer] + slot.offset; };
  if (step.kind == StepKind::launch) {
    const ResolvedLaunch &launch = steps.launches[step.position];
    device.launch(launch.kernel, launch.geometry, steps.arguments.data() + launch.first_argument,
                  stream);
  } else if (step.kind == StepKind::matmul) {
    const ResolvedMatmul &matmul = steps.matmuls[step.position];
    device.matmul(matmul.plan, address(matmul.a), address(matmul.b),
                  matmul.has_c ? address(matmul.c) : nullptr, address(matmul.out),
                  static_cast<char *>(scratch) + matmul.scratch, stream);
  } else if (step.kind == StepKind::solver) {
    const ResolvedSolver &solver = steps.solvers[step.position];
    const auto at = [&](size_t i) -> char * {
      const AddressSlot &slot = solver.operands[i];
      return slot.buffer == ResolvedSolver::kNone ? nullptr : address(slot);
    };
    device.solve(solver.plan, {at(0), at(1), at(2), at(3), at(4), at(5), at(6)},
                 static_cast<char *>(scratch) + solver.scratch, stream);
  } else if (step.kind == StepKind::copy) {
    const ResolvedCopy &copy = steps.copies[step.position];
    device.copy(address(copy.to), address(copy.from), static_cast<size_t>(copy.bytes), stream);
  } else if (step.kind == StepKind::fill) {
    const ResolvedFill &fill = steps.fills[step.position];
    device.fill(address(fill.to), 0, static_cast<size_t>(fill.bytes), stream);
  } else if (step.kind == StepKind::collective) {
    const ResolvedCollective &collective = steps.collectives[step.position];
    communicate(groups, collective, tables.steps[step.step].name, address(collective.from),
                address(collective.to), stream);
  }
}

struct StepRunner {
  const Model &model;
  Device &device;
  ResolvedSteps &steps;
  const std::vector<char *> &bases;
  void *scratch;
  RunStreams &streams;
  Stream stream; // the caller's
  Groups *groups;
  const StepWatch *watch; // or null

  void run(size_t begin, size_t end) {
    for (size_t i = begin; i < end;) {
      const ResolvedStep &step = steps.steps[i++];
      if (step.kind == StepKind::conditional) {
        const ResolvedControl &control = steps.controls[step.position];
        const size_t middle = i + control.first;
        if (holds(step, control))
          run(i, middle);
        else
          run(middle, middle + control.second);
        i = middle + control.second;
      } else if (step.kind == StepKind::while_loop) {
        const ResolvedControl &control = steps.controls[step.position];
        const size_t middle = i + control.first;
        size_t rounds = 0;
        for (run(i, middle); holds(step, control) && !is_lost(++rounds); run(i, middle))
          run(middle, middle + control.second);
        i = middle + control.second;
      } else {
        named(step, [&] {
          const ShownRange range(device, model.tables.steps[step.step].name);
          if (watch != nullptr && watch->timer) {
            watch->timer(step.step, [&](Stream on) {
              run_step(device, steps, step, bases, scratch, on, groups, model.tables);
            });
            return;
          }
          const Stream on = streams.before(step.step);
          mark(step, on, true);
          run_step(device, steps, step, bases, scratch, on, groups, model.tables);
          mark(step, on, false);
          streams.after(step.step);
        });
      }
    }
  }

private:
  /// What profilers show the step's queueing as.
  struct ShownRange {
    ShownRange(Device &device, const char *name) : device(device) { device.begin_range(name); }
    ~ShownRange() { device.end_range(); }
    ShownRange(const ShownRange &) = delete;
    ShownRange &operator=(const ShownRange &) = delete;
    Device &device;
  };
  void mark(const ResolvedStep &step, Stream on, bool begins) const {
    if (watch != nullptr && watch->mark)
      watch->mark(step.step, on, begins);
  }
  /// Reads the predicate, for which the stream must be done.
  bool holds(const ResolvedStep &step, const ResolvedControl &control) {
    if (!control.has_predicate)
      return control.condition;
    uint8_t truth = 0;
    named(step, [&] {
      device.download(&truth, bases[control.predicate.buffer] + control.predicate.offset,
                      sizeof truth, stream);
      device.synchronize(stream);
    });
    return truth != 0;
  }
  /// A loop ends where a value was out of range, since nobody knows when it would otherwise; the
  /// check behind the run says so. Few loops have as many rounds as it takes to ask.
  bool is_lost(size_t rounds) {
    constexpr size_t kRounds = 64;
    if (rounds % kRounds != 0)
      return false;
    for (size_t i = 0; i < model.homes.size(); ++i)
      if (model.homes[i].kind == Home::Kind::failure)
        return is_value_noted(device, bases[i], stream);
    return false;
  }
  /// Says in an error which step it was.
  template <class Body> void named(const ResolvedStep &step, const Body &body) {
    const char *name = model.tables.steps[step.step].name;
    try {
      body();
    } catch (const Error &error) {
      throw Error(error.status,
                  "step " + std::to_string(step.step) + " (" + name + "): " + error.what(),
                  error.next_step);
    }
  }
};

/// No element of `view` may lie outside its buffer of `bytes`.
void check_view(const Tables &tables, const TensorView &view, int64_t bytes, const int64_t *symbols,
                const std::string &what) {
  auto value = [&](const Range &range, int32_t axis) {
    int64_t result =
        evaluate(tables, tables.sizes[static_cast<size_t>(range.first + axis)], symbols);
    if (result < 0)
      throw Error(Status::bad_argument,
                  "a size or stride of " + what + " is negative for these shapes");
    return result;
  };
  int64_t last = evaluate(tables, view.offset, symbols);
  if (last < 0)
    throw Error(Status::bad_argument, "the offset of " + what + " is negative for these shapes");
  bool is_empty = false;
  for (int32_t axis = 0; axis < view.sizes.count; ++axis) {
    int64_t size = value(view.sizes, axis), stride = value(view.strides, axis);
    is_empty |= size == 0;
    if (size > 0)
      last = add(last, multiply(size - 1, stride));
  }
  auto element = static_cast<int64_t>(size_in_bytes(view.dtype));
  if (!is_empty && multiply(add(last, 1), element) > bytes)
    throw Error(Status::internal,
                what + " reaches beyond its buffer of " + std::to_string(bytes) + " bytes");
}

} // namespace

bool is_of_data(const Tables &tables, const TensorView &view) {
  for (const Range &range : {view.sizes, view.strides})
    for (int32_t i = 0; i < range.count; ++i)
      if (is_of_data(tables, tables.sizes[static_cast<size_t>(range.first + i)]))
        return true;
  return is_of_data(tables, view.offset);
}

void check_views(const Model &model, const int64_t *symbols,
                 const std::vector<int64_t> &buffer_bytes, bool of_data) {
  const Tables &tables = model.tables;
  for (const Input &input : tables.inputs)
    if (!input.is_scalar && !of_data) // has no memory
      check_view(tables, input.view, buffer_bytes[static_cast<size_t>(input.buffer)], symbols,
                 std::string("input \"") + input.name + "\"");
  for (const Output &output : tables.outputs)
    if (output.buffer >= 0 && is_of_data(tables, output.view) == of_data)
      check_view(tables, output.view, buffer_bytes[static_cast<size_t>(output.buffer)], symbols,
                 std::string("output \"") + output.name + "\"");
}

ResolvedSteps resolve_steps(const Model &model, Device &device, const int64_t *symbols,
                            const std::vector<int64_t> &buffer_bytes, bool once, uint32_t begin,
                            uint32_t end) {
  return Resolver(model, device, symbols, buffer_bytes).run(once, begin, end);
}

void run_steps(const Model &model, Device &device, ResolvedSteps &steps,
               const std::vector<char *> &bases, void *scratch, RunStreams &streams, Stream stream,
               Groups *groups, const StepWatch *watch) {
  for (size_t i = 0; i < steps.slots.size(); ++i)
    steps.values[steps.slot_values[i]] =
        reinterpret_cast<intptr_t>(bases[steps.slots[i].buffer] + steps.slots[i].offset);
  for (ResolvedMap &map : steps.maps) {
    const int64_t address = steps.values[map.pointer] + map.offset;
    if (address == map.made_for)
      continue;
    device.make_tensor_map(map.shape, reinterpret_cast<const void *>(address),
                           &steps.values[map.value]);
    map.made_for = address;
  }
  streams.begin(stream);
  try {
    StepRunner{model, device, steps, bases, scratch, streams, stream, groups, watch}.run(
        0, steps.steps.size());
  } catch (...) {
    streams.end(); // whoever waits for the caller's stream finds nothing at work
    throw;
  }
  streams.end();
}

std::vector<int64_t> buffer_extents(const Model &model, const int64_t *low, const int64_t *high) {
  const Tables &tables = model.tables;
  std::vector<int64_t> by_root(tables.buffers.count, 0);
  for (size_t i = 0; i < tables.buffers.count; ++i) {
    const Buffer &buffer = tables.buffers[i];
    if (buffer.bytes.expression >= 0 && low == nullptr)
      continue; // belongs to a run, not to the run-once steps
    const bool of_data = is_of_data(tables, buffer.bytes);
    int64_t bytes = of_data ? std::max<int64_t>(most(tables, buffer.bytes, low, high), 0)
                            : evaluate(tables, buffer.bytes, low);
    if (bytes < 0)
      throw Error(Status::bad_argument,
                  std::string("the size of ") + buffer.name + " is negative for these shapes");
    by_root[model.roots[i]] = std::max(by_root[model.roots[i]], bytes);
  }
  std::vector<int64_t> result(tables.buffers.count);
  for (size_t i = 0; i < tables.buffers.count; ++i) {
    // Memory that the caller or the weight set gives is as large as its own buffer, whatever
    // aliases say.
    const Home &home = model.homes[i];
    result[i] = by_root[model.roots[i]];
    if (home.kind == Home::Kind::weight)
      result[i] = tables.weights[home.position].bytes;
    if (home.kind == Home::Kind::folded)
      result[i] = model.folded_bytes[home.position];
    if (home.kind == Home::Kind::input && low != nullptr) {
      auto buffer = static_cast<size_t>(tables.inputs[home.position].buffer);
      result[i] = evaluate(tables, tables.buffers[buffer].bytes, low);
    }
  }
  return result;
}

} // namespace tsc_engine
