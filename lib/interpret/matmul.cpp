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

/// Sizes of out[batches, rows, columns] = a[batches, rows, inner] @ b[batches, inner, columns].
struct ProductShape {
  int64_t batches = 1, rows = 0, columns = 0, inner = 0;
};

ProductShape product_shape(const std::vector<int64_t> &out, const std::vector<int64_t> &a,
                           const std::vector<int64_t> &b) {
  size_t rank = out.size();
  support::require(rank >= 2 && a.size() == rank && b.size() == rank &&
                       a[rank - 1] == b[rank - 2] && a[rank - 2] == out[rank - 2] &&
                       b[rank - 1] == out[rank - 1],
                   "interpret", "shapes of a matrix product");
  ProductShape shape{1, out[rank - 2], out[rank - 1], a[rank - 1]};
  for (size_t k = 0; k + 2 < rank; ++k) {
    support::require(a[k] == out[k] && b[k] == out[k], "interpret",
                     "batch sizes of a matrix product");
    shape.batches *= out[k];
  }
  return shape;
}

template <class T>
std::vector<T> products(const ProductShape &shape, const std::vector<T> &a,
                        const std::vector<T> &b) {
  std::vector<T> result(static_cast<size_t>(shape.batches * shape.rows * shape.columns), T(0));
  for (int64_t batch = 0; batch < shape.batches; ++batch)
    multiply(
        a.data() + batch * shape.rows * shape.inner, b.data() + batch * shape.inner * shape.columns,
        result.data() + batch * shape.rows * shape.columns, shape.rows, shape.inner, shape.columns);
  return result;
}

} // namespace

std::vector<int64_t> Machine::broadcast_positions(tensor::Layout from,
                                                  const tensor::Layout &to) const {
  tensor::Layout wide = to;
  wide.offset = from.offset;
  size_t missing = to.rank() - from.rank();
  for (size_t k = 0; k < to.rank(); ++k) {
    bool repeats = k < missing || value_of(from.sizes[k - missing]) == 1;
    wide.strides[k] = repeats ? Expr(0) : from.strides[k - missing];
  }
  return positions_of(wide);
}

void Machine::matmul(const ir::Operation &operation, const ir::Extern &call) {
  support::require(call.library == ir::Library::matmul, "interpret",
                   operation.name + " calls " + call.kernel);
  support::require(call.inputs.size() >= 2, "interpret", "a matrix product of two operands");
  const tensor::Layout &layout = module_.buffer(operation.outputs[0]).layout;
  ProductShape shape =
      product_shape(values_of(layout.sizes), values_of(call.inputs[0].layout.sizes),
                    values_of(call.inputs[1].layout.sizes));
  std::vector<int64_t> positions = positions_of(layout);
  Storage &output = output_of(operation);

  auto compute = [&](auto zero) {
    using T = decltype(zero);
    auto operand = [&](size_t k, const std::vector<int64_t> &at) {
      return gather<T>(readable(call.inputs[k]), at);
    };
    std::vector<T> result = products(shape, operand(0, positions_of(call.inputs[0].layout)),
                                     operand(1, positions_of(call.inputs[1].layout)));
    std::vector<T> c; // beta == 0: not read, as in BLAS
    if (call.inputs.size() > 2 && call.beta != 0)
      c = operand(2, broadcast_positions(call.inputs[2].layout, layout));
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

void Machine::sectioned_matmul(const ir::Operation &operation, const ir::Extern &call) {
  support::require(call.inputs.size() == 3, "interpret", "a product of rows in sections");
  const tensor::Layout &layout = module_.buffer(operation.outputs[0]).layout;
  const std::vector<int64_t> a = values_of(call.inputs[0].layout.sizes),
                             b = values_of(call.inputs[1].layout.sizes);
  const auto operand = [&](size_t k) {
    return gather<double>(readable(call.inputs[k]), positions_of(call.inputs[k].layout));
  };
  const std::vector<double> left = operand(0), right = operand(1), ends = operand(2);
  std::vector<double> result(static_cast<size_t>(a[0] * b[2]), 0.0);
  int64_t start = 0;
  for (int64_t section = 0; section < b[0]; ++section) {
    const int64_t end =
        std::clamp(static_cast<int64_t>(ends[static_cast<size_t>(section)]), start, a[0]);
    multiply(left.data() + start * a[1], right.data() + section * b[1] * b[2],
             result.data() + start * b[2], end - start, a[1], b[2]);
    start = end;
  }
  const std::vector<int64_t> positions = positions_of(layout);
  Storage &output = output_of(operation);
  for (size_t i = 0; i < positions.size(); ++i)
    store(output, positions[i], result[i]);
}

} // namespace tsc::interpret
