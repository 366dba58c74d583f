#include "interpret/communicate.h"

#include "support/diagnostic.h"

#include <algorithm>

namespace tsc::interpret {

namespace {

using ir::BufferView;
using ir::Library;

/// A buffer as one rank holds it, from the first element of a view on.
class Elements {
public:
  Elements(Machine &machine, const BufferView &view)
      : storage_(machine.memory(view.buffer)), first_(machine.value_of(view.layout.offset)) {}

  bool is_float() const { return storage_.is_float(); }
  double real(int64_t i) const { return storage_.floats[at(i)]; }
  int64_t integer(int64_t i) const { return storage_.integers[at(i)]; }
  void set_real(int64_t i, double value) { storage_.floats[at(i)] = value; }
  void set_integer(int64_t i, int64_t value) { storage_.integers[at(i)] = value; }
  void copy(int64_t to, const Elements &other, int64_t from, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      if (is_float())
        set_real(to + i, other.real(from + i));
      else
        set_integer(to + i, other.integer(from + i));
  }
  void clear(int64_t from, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      if (is_float())
        set_real(from + i, 0);
      else
        set_integer(from + i, 0);
  }

private:
  Storage &storage_;
  int64_t first_;

  size_t at(int64_t i) const {
    support::require(first_ + i >= 0 && first_ + i < storage_.size(), "interpret",
                     "an access outside of a buffer");
    return static_cast<size_t>(first_ + i);
  }
};

int64_t numel(const Machine &machine, const BufferView &view) {
  return machine.value_of(symbolic::numel(view.layout.sizes));
}

BufferView whole(const ir::Module &module, ir::BufferId id) {
  BufferView view;
  view.buffer = id;
  view.layout = module.buffer(id).layout;
  view.dtype = module.buffer(id).dtype;
  return view;
}

/// The result's tuple is memory of its own for each item: what the items see is written here.
void copy_in(const ir::Module &module, const ir::Operation &operation, const ir::Extern &call,
             Machine &machine) {
  const auto next = static_cast<size_t>(&operation - module.operations.data()) + 1;
  support::require(next < module.operations.size(), "interpret", "a tuple without items");
  Elements part(machine, whole(module, module.operations[next].outputs[0]));
  int64_t offset = 0;
  for (const BufferView &input : call.inputs) {
    const int64_t count = numel(machine, input);
    part.copy(offset, Elements(machine, input), 0, count);
    offset += count;
  }
}

void copy_out(const ir::Extern &call, Machine &machine) {
  const BufferView &gathered = call.inputs[0];
  const int64_t ranks = machine.value_of(gathered.layout.sizes[0]);
  const int64_t row = machine.value_of(gathered.layout.sizes[1]);
  int64_t column = 0;
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    const int64_t count = numel(machine, call.inputs[i]) / ranks;
    Elements out(machine, call.inputs[i]);
    for (int64_t rank = 0; rank < ranks; ++rank)
      out.copy(rank * count, Elements(machine, gathered), rank * row + column, count);
    column += count;
  }
}

void chunk_concat(const ir::Extern &call, Machine &machine) {
  const int64_t ranks = call.group.size;
  const int64_t row = numel(machine, call.inputs.back()) / ranks;
  Elements out(machine, call.inputs.back());
  int64_t column = 0;
  for (size_t i = 0; i + 1 < call.inputs.size(); ++i) {
    const int64_t slices = machine.value_of(call.inputs[i].layout.sizes[0]);
    const int64_t size = slices == 0 ? 0 : numel(machine, call.inputs[i]) / slices;
    const int64_t chunk = (slices + ranks - 1) / ranks;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const int64_t first = std::min(rank * chunk, slices);
      const int64_t present = std::min(chunk, slices - first);
      const int64_t at = rank * row + column;
      out.copy(at, Elements(machine, call.inputs[i]), first * size, present * size);
      out.clear(at + present * size, (chunk - present) * size);
    }
    column += chunk * size;
  }
}

void all_gather(const ir::Extern &call, std::deque<Machine> &machines) {
  for (Machine &machine : machines) {
    Elements out(machine, call.inputs[1]);
    const int64_t count = numel(machine, call.inputs[0]);
    for (size_t rank = 0; rank < machines.size(); ++rank)
      out.copy(static_cast<int64_t>(rank) * count, Elements(machines[rank], call.inputs[0]), 0,
               count);
  }
}

template <class Number> Number combine(Number a, Number b, const std::string &reduction) {
  if (reduction != "max")
    return a + b;
  return a > b || a != a ? a : b;
}

void reduce_scatter(const ir::Module &module, const ir::Operation &operation,
                    const ir::Extern &call, std::deque<Machine> &machines) {
  const BufferView result = whole(module, operation.outputs[0]);
  for (size_t rank = 0; rank < machines.size(); ++rank) {
    machines[rank].allocate(result.buffer);
    Elements out(machines[rank], result);
    const int64_t count = numel(machines[rank], result);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = static_cast<int64_t>(rank) * count + i;
      double real = 0;
      int64_t integer = 0;
      for (size_t other = 0; other < machines.size(); ++other) {
        const Elements given(machines[other], call.inputs[0]);
        if (out.is_float())
          real = other == 0 ? given.real(at) : combine(real, given.real(at), call.reduction);
        else
          integer =
              other == 0 ? given.integer(at) : combine(integer, given.integer(at), call.reduction);
      }
      const bool average = call.reduction == "avg";
      if (out.is_float())
        machines[rank].put(result.buffer, i,
                           average ? real / static_cast<double>(machines.size()) : real);
      else
        out.set_integer(i, average ? integer / static_cast<int64_t>(machines.size()) : integer);
    }
  }
}

void check_ranks(const ir::Operation &operation, const ir::Extern &call, size_t ranks) {
  if (call.group.size == static_cast<int64_t>(ranks))
    return;
  throw support::UserError(
      support::ExitCode::bad_input,
      {.code = "TSC-R126",
       .message = operation.name + " communicates among " + std::to_string(call.group.size) +
                  " ranks, and this run has " + std::to_string(ranks),
       .next_step = "run with --world-size " + std::to_string(call.group.size)});
}

} // namespace

bool is_communication(const ir::Operation &operation) {
  const auto *call = std::get_if<ir::Extern>(&operation.kind);
  return call != nullptr && ir::is_between_ranks(call->library);
}

void communicate(const ir::Module &module, const ir::Operation &operation,
                 std::deque<Machine> &machines) {
  const auto &call = std::get<ir::Extern>(operation.kind);
  if (ir::is_collective(call.library))
    check_ranks(operation, call, machines.size());
  if (call.library == Library::all_gather)
    return all_gather(call, machines);
  if (call.library == Library::reduce_scatter)
    return reduce_scatter(module, operation, call, machines);
  for (Machine &machine : machines) {
    if (call.library == Library::gather_copy_in) {
      for (size_t next = static_cast<size_t>(&operation - module.operations.data()) + 1;
           next < module.operations.size(); ++next) {
        const auto *item = std::get_if<ir::Extern>(&module.operations[next].kind);
        if (item == nullptr || item->library != Library::tuple_item)
          break;
        machine.allocate(module.operations[next].outputs[0]);
      }
      copy_in(module, operation, call, machine);
    } else if (call.library == Library::split_copy_out) {
      copy_out(call, machine);
    } else if (call.library == Library::chunk_concat) {
      chunk_concat(call, machine);
    } else if (call.library == Library::set_storage) {
      Elements(machine, call.inputs[0])
          .copy(0, Elements(machine, call.inputs[1]), 0, numel(machine, call.inputs[0]));
    }
  }
}

} // namespace tsc::interpret
