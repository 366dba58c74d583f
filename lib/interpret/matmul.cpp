// Library calls: matrix products in double precision (integers: exact).
#include "interpret/machine.h"

#include "support/diagnostic.h"

#include <algorithm>

namespace tsc::interpret {
namespace {

/// c[m, n] += a[m, k] * b[k, n], row-major. The middle loop over k keeps rows of b and c in cache.
template <class T>
void multiply(const T *a, const T *b, T *c, int64_t rows, int64_t inner, int64_t columns) {
  constexpr int64_t kBlock = 64;
  for (int64_t k0 = 0; k0 < inner; k0 += kBlock) {
    int64_t k1 = std::min(k0 + kBlock, inner);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t k = k0; k < k1; ++k) {
        T factor = a[i * inner + k];
        const T *row = b + k * columns;
        T *out = c + i * columns;
        for (int64_t j = 0; j < columns; ++j)
          out[j] += factor * row[j];
      }
    }
  }
}

/// What `positions` name, as T: double, or integers as unsigned so that sums wrap.
template <class T>
std::vector<T> gather(const Storage &storage, const std::vector<int64_t> &positions) {
  std::vector<T> values;
  values.reserve(positions.size());
  for (int64_t position : positions) {
    support::require(position >= 0 && position < storage.size(), "interpret",
                     "an operand of a library call reads outside of its buffer");
    auto at = static_cast<size_t>(position);
    if constexpr (std::is_floating_point_v<T>)
      values.push_back(storage.is_float() ? storage.floats[at]
                                          : to_float(storage.dtype, storage.integers[at]));
    else
      values.push_back(static_cast<T>(storage.integers[at]));
  }
  return values;
}

} // namespace

void Machine::matmul(const ir::Operation &operation, const ir::Extern &call) {
  if (call.library != ir::Library::matmul)
    throw support::UserError(
        support::ExitCode::unsupported,
        support::Diagnostic{"TSC-R106", "the reference device cannot run " + call.kernel, "",
                            operation.name, "", "", "run on the host or on the GPU instead"});
  support::require(call.inputs.size() >= 2, "interpret", "a matrix product of two operands");
  const tensor::Layout &layout = module_.buffer(operation.outputs[0]).layout;
  std::vector<int64_t> sizes = values_of(layout.sizes);
  std::vector<int64_t> a_sizes = values_of(call.inputs[0].layout.sizes);
  std::vector<int64_t> b_sizes = values_of(call.inputs[1].layout.sizes);
  size_t rank = sizes.size();
  support::require(rank >= 2 && a_sizes.size() == rank && b_sizes.size() == rank &&
                       a_sizes[rank - 1] == b_sizes[rank - 2] &&
                       a_sizes[rank - 2] == sizes[rank - 2] && b_sizes[rank - 1] == sizes[rank - 1],
                   "interpret", "shapes of a matrix product");
  int64_t rows = sizes[rank - 2], columns = sizes[rank - 1], inner = a_sizes[rank - 1];
  int64_t batches = 1;
  for (size_t k = 0; k + 2 < rank; ++k) {
    support::require(a_sizes[k] == sizes[k] && b_sizes[k] == sizes[k], "interpret",
                     "batch sizes of a matrix product");
    batches *= sizes[k];
  }
  std::vector<int64_t> c_positions;
  if (call.inputs.size() > 2 && call.beta != 0) {
    // Broadcast: missing and size-1 dimensions of c repeat.
    tensor::Layout c = call.inputs[2].layout, wide = layout;
    wide.offset = c.offset;
    size_t missing = rank - c.rank();
    for (size_t k = 0; k < rank; ++k) {
      bool repeats = k < missing || value_of(c.sizes[k - missing]) == 1;
      wide.strides[k] = repeats ? Expr(0) : c.strides[k - missing];
    }
    c_positions = positions_of(wide);
  }
  std::vector<int64_t> a_positions = positions_of(call.inputs[0].layout);
  std::vector<int64_t> b_positions = positions_of(call.inputs[1].layout);
  std::vector<int64_t> positions = positions_of(layout);
  Storage &output = output_of(operation);

  auto compute = [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> a = gather<T>(readable(call.inputs[0]), a_positions);
    std::vector<T> b = gather<T>(readable(call.inputs[1]), b_positions);
    std::vector<T> c, result(positions.size(), zero);
    if (!c_positions.empty())
      c = gather<T>(readable(call.inputs[2]), c_positions);
    for (int64_t batch = 0; batch < batches; ++batch)
      multiply(a.data() + batch * rows * inner, b.data() + batch * inner * columns,
               result.data() + batch * rows * columns, rows, inner, columns);
    for (size_t i = 0; i < positions.size(); ++i) {
      if constexpr (std::is_floating_point_v<T>) {
        double value = call.alpha * result[i];
        store(output, positions[i], c.empty() ? value : value + call.beta * c[i]);
      } else {
        T value = static_cast<T>(static_cast<int64_t>(call.alpha)) * result[i];
        if (!c.empty())
          value += static_cast<T>(static_cast<int64_t>(call.beta)) * c[i];
        store(output, positions[i], static_cast<int64_t>(value));
      }
    }
  };
  if (output.is_float())
    compute(0.0);
  else
    compute(uint64_t{0});
}

} // namespace tsc::interpret
