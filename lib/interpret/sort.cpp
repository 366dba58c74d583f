// Sorting along a dimension.
#include "interpret/machine.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace tsc::interpret {

namespace {

/// Strict order of the elements of a row; equal elements keep their order. NaN is the largest.
bool comes_before(double a, double b, bool descending) {
  if (descending)
    std::swap(a, b);
  return a < b || (std::isnan(b) && !std::isnan(a));
}
bool comes_before(DType dtype, int64_t a, int64_t b, bool descending) {
  if (descending)
    std::swap(a, b);
  return dtype == DType::u64 ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}

} // namespace

void Machine::sort(const ir::Operation &operation, const ir::Sort &sort) {
  // Loops: the output's dimensions without `axis`, then `axis`.
  tensor::Layout moved = module_.buffer(operation.outputs[0]).layout;
  const auto axis = static_cast<std::ptrdiff_t>(sort.axis);
  std::rotate(moved.sizes.begin() + axis, moved.sizes.begin() + axis + 1, moved.sizes.end());
  std::rotate(moved.strides.begin() + axis, moved.strides.begin() + axis + 1, moved.strides.end());
  const std::vector<int64_t> positions = positions_of(moved);
  const auto count = static_cast<size_t>(value_of(moved.sizes.back())), // places that are stored
      first = static_cast<size_t>(value_of(sort.first));
  moved.sizes.back() = sort.length;
  const Domain domain{values_of(moved.sizes)};
  Storage &output = output_of(operation);
  TapeBuilder builder(module_, bindings_, round_);
  const DType dtype = sort.dtype;
  const ValueId value = builder.value(sort.input, dtype);
  const Tape tape = finish(builder, {value}, operation);
  TapeRunner runner(tape, domain, by_buffer_, round_);
  const bool floating = tensor::is_floating(dtype);
  const auto length = static_cast<size_t>(domain.sizes.back());
  std::vector<double> reals;
  std::vector<int64_t> integers;
  size_t row = 0; // position of its first stored element
  const auto finish_row = [&] {
    std::vector<size_t> order(length);
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return floating ? comes_before(reals[a], reals[b], sort.descending)
                      : comes_before(dtype, integers[a], integers[b], sort.descending);
    });
    for (size_t i = 0; i < count; ++i) {
      const int64_t at = positions[row + i];
      const size_t source = order[first + i];
      if (sort.positions)
        store(output, at, static_cast<int64_t>(source));
      else if (floating)
        store(output, at, reals[source]);
      else
        store(output, at, integers[source]);
    }
    row += count;
    reals.clear();
    integers.clear();
  };
  for (int64_t begin = 0; begin < domain.numel(); begin += TapeRunner::kChunk) {
    const int64_t count = std::min(TapeRunner::kChunk, domain.numel() - begin);
    runner.run(begin, count);
    for (int64_t p = 0; p < count; ++p) {
      if (floating)
        reals.push_back(runner.floats(value)[p]);
      else
        integers.push_back(runner.integers(value)[p]);
      if (std::max(reals.size(), integers.size()) == length)
        finish_row();
    }
  }
}

void Machine::sort_rows(const ir::Operation &operation, const ir::Extern &call) {
  const ir::BufferView &view = call.inputs[0];
  const std::vector<int64_t> sizes = values_of(view.layout.sizes);
  const int64_t rows = sizes[0], length = sizes[1];
  const Storage &in = readable(view);
  for (const ir::BufferId output : operation.outputs)
    allocate(output);
  Storage *values = call.values ? &memory(operation.outputs.front()) : nullptr;
  Storage *places = call.positions ? &memory(operation.outputs.back()) : nullptr;
  const bool floating = in.is_float();
  std::vector<int64_t> order(static_cast<size_t>(length));
  for (int64_t row = 0; row < rows; ++row) {
    const auto start = static_cast<size_t>(value_of(view.layout.offset) + row * length);
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const size_t at = start + static_cast<size_t>(a), other = start + static_cast<size_t>(b);
      return floating
                 ? comes_before(in.floats[at], in.floats[other], call.descending)
                 : comes_before(in.dtype, in.integers[at], in.integers[other], call.descending);
    });
    for (int64_t i = 0; i < length; ++i) {
      const int64_t source = order[static_cast<size_t>(i)];
      const size_t from = start + static_cast<size_t>(source);
      if (values != nullptr && floating)
        store(*values, row * length + i, in.floats[from]);
      else if (values != nullptr)
        store(*values, row * length + i, in.integers[from]);
      if (places != nullptr)
        store(*places, row * length + i, source);
    }
  }
}

} // namespace tsc::interpret
