// Linear algebra and Fourier transforms: the same libraries as the host device's, always in double
// precision.
#include "interpret/machine.h"

#include "engine/host_fourier.h"
#include "engine/host_solver.h"
#include "engine/solver.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <iterator>

namespace tsc::interpret {
namespace {

using tensor::HostTensor;

/// Matrices of `sizes`, each element `numbers` of them (a last dimension of 2, of complex ones).
struct Matrices {
  int64_t rows, columns, numbers;
  Matrices(const std::vector<int64_t> &sizes, bool paired) : numbers(paired ? 2 : 1) {
    const size_t rank = sizes.size() - (paired ? 1 : 0);
    rows = sizes[rank - 2];
    columns = sizes[rank - 1];
  }
  /// Where number `i` of rows lies in columns.
  int64_t in_columns(int64_t i) const {
    const int64_t area = rows * columns * numbers, start = i / area * area;
    const int64_t element = i % area / numbers;
    return start + (element % columns * rows + element / columns) * numbers + i % numbers;
  }
};

/// What `view` sees, columns of each matrix one after another.
HostTensor in_columns(const HostTensor &value, bool paired) {
  const HostTensor dense = value.contiguous();
  HostTensor result(dense.dtype(), dense.sizes());
  const Matrices matrices(dense.sizes(), paired);
  for (int64_t i = 0; i < dense.numel(); ++i)
    result.set_double(matrices.in_columns(i), dense.get_double(i));
  return result;
}

/// The reverse.
HostTensor in_rows(const HostTensor &value, bool paired) {
  HostTensor result(value.dtype(), value.sizes());
  const Matrices matrices(value.sizes(), paired);
  for (int64_t i = 0; i < value.numel(); ++i)
    result.set_double(i, value.get_double(matrices.in_columns(i)));
  return result;
}

} // namespace

void Machine::solver(const ir::Operation &operation, const ir::Extern &call) {
  tsc_engine::SolverShape shape;
  shape.routine = static_cast<tsc_engine::Routine>(call.solver.routine);
  shape.dtype = tsc_engine::DType::f64;
  shape.flags = call.solver.flags;
  shape.batch = value_of(call.solver.batch);
  shape.m = value_of(call.solver.m);
  shape.n = value_of(call.solver.n);
  shape.k = value_of(call.solver.k);
  const tsc_engine::SolverExtents extents = solver_extents(shape);
  const bool paired = shape.has(tsc_engine::kComplex);
  const bool by_rows = tsc_engine::is_transform(shape.routine);

  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const HostTensor value = read(call.inputs[i]);
    HostTensor wide(tensor::is_floating(value.dtype()) ? DType::f64 : DType::i32, value.sizes());
    const HostTensor dense = value.contiguous();
    for (int64_t k = 0; k < dense.numel(); ++k)
      wide.set_double(k, dense.get_double(k));
    // Pivots and the factors of reflections are vectors.
    const bool is_vector = i == 2 || (i == 1 && shape.routine == tsc_engine::Routine::orthogonal);
    inputs.push_back(is_vector || by_rows ? wide : in_columns(wide, paired));
  }
  std::vector<HostTensor> outputs;
  const int64_t elements[] = {extents.out, extents.second, extents.third};
  auto next = static_cast<size_t>(&operation - module_.operations.data()) + 1;
  std::vector<const ir::Buffer *> items;
  for (; next < module_.operations.size(); ++next) {
    const auto *item = std::get_if<ir::Extern>(&module_.operations[next].kind);
    if (item == nullptr || item->library != ir::Library::tuple_item ||
        item->inputs[0].buffer != operation.outputs[0])
      break;
    items.push_back(&module_.buffer(module_.operations[next].outputs[0]));
  }
  outputs.reserve(items.size());
  for (const ir::Buffer *item : items)
    outputs.emplace_back(tensor::is_floating(item->dtype) ? DType::f64 : DType::i32,
                         values_of(item->layout.sizes));
  const size_t values = outputs.size() - (call.solver.has_info ? 1 : 0);
  support::require(values <= std::size(elements), "interpret", "results of " + call.kernel);
  for (size_t i = 0; i < std::min(values, std::size(elements)); ++i)
    support::require(outputs[i].numel() == shape.batch * elements[i], "interpret",
                     "a result of " + call.kernel + " has another size");

  tsc_engine::SolverMemory memory;
  const auto input = [&](size_t i) { return i < inputs.size() ? inputs[i].data() : nullptr; };
  const auto output = [&](size_t i) { return i < values ? outputs[i].data() : nullptr; };
  memory.a = input(0);
  memory.b = input(1);
  memory.c = input(2);
  memory.out = output(0);
  memory.second = output(1);
  memory.third = output(2);
  if (call.solver.has_info)
    memory.info = outputs.back().data();
  try {
    if (by_rows)
      tsc_engine::host_fourier(shape, memory, nullptr, 0);
    else
      tsc_engine::host_solver(shape, memory);
  } catch (const tsc_engine::Error &error) {
    throw support::UserError(
        support::ExitCode::device,
        {.code = "TSC-R131",
         .message = (by_rows ? "a Fourier transform cannot run: " : "linear algebra cannot run: ") +
                    operation.name + " (" + call.kernel + "): " + error.what(),
         .next_step = error.next_step});
  }
  const bool gives_pairs = paired || shape.routine == tsc_engine::Routine::eigen;
  for (size_t i = 0; i < values && !by_rows; ++i)
    if (i != 1) // a vector
      outputs[i] = in_rows(outputs[i], gives_pairs);
  store_items(operation, outputs);
}

} // namespace tsc::interpret
