// Attention in double precision: scores, softmax and weighted sums of one row at a time.
#include "interpret/machine.h"

#include "support/diagnostic.h"

#include <algorithm>
#include <cmath>

namespace tsc::interpret {
namespace {

double element(const Storage &storage, int64_t position) {
  support::require(position >= 0 && position < storage.size(), "interpret",
                   "attention reads outside of its buffer");
  const auto at = static_cast<size_t>(position);
  return storage.is_float() ? storage.floats[at] : to_float(storage.dtype, storage.integers[at]);
}

/// A view with numbers for its sizes and strides, rank 4.
struct View {
  const Storage *storage = nullptr;
  int64_t offset = 0;
  std::vector<int64_t> sizes, strides;

  double at(int64_t batch, int64_t head, int64_t row, int64_t column) const {
    return element(*storage, offset + batch * strides[0] + head * strides[1] + row * strides[2] +
                                 column * strides[3]);
  }
};

double score_of(const View &query, const View &key, const View *mask, const ir::Extern &call,
                int64_t batch, int64_t head, int64_t key_head, int64_t row, int64_t column) {
  double sum = 0;
  for (int64_t i = 0; i < query.sizes[3]; ++i)
    sum += query.at(batch, head, row, i) * key.at(batch, key_head, column, i);
  sum *= call.alpha;
  if (!mask)
    return sum;
  const double added = mask->at(batch, head, row, column);
  if (mask->storage->is_float())
    return sum + added;
  return added != 0 ? sum : -INFINITY;
}

} // namespace

void Machine::attention(const ir::Operation &operation, const ir::Extern &call) {
  const auto view_of = [&](const ir::BufferView &input) {
    return View{&readable(input), value_of(input.layout.offset), values_of(input.layout.sizes),
                values_of(input.layout.strides)};
  };
  const View query = view_of(call.inputs[0]), key = view_of(call.inputs[1]),
             value = view_of(call.inputs[2]);
  const std::optional<View> mask =
      call.inputs.size() > 3 ? std::optional<View>(view_of(call.inputs[3])) : std::nullopt;
  Storage &output = output_of(operation);
  const std::vector<int64_t> positions =
      positions_of(module_.buffer(operation.outputs[0]).layout); // row-major over the sizes
  const int64_t depth = query.sizes[3], columns = key.sizes[2];
  const int64_t group = query.sizes[1] / std::max<int64_t>(1, key.sizes[1]);
  size_t next = 0;
  std::vector<double> weights(static_cast<size_t>(columns));
  for (int64_t batch = 0; batch < query.sizes[0]; ++batch)
    for (int64_t head = 0; head < query.sizes[1]; ++head)
      for (int64_t row = 0; row < query.sizes[2]; ++row) {
        const int64_t key_head = head / group;
        const int64_t visible = call.causal ? std::min(row + 1, columns) : columns;
        double largest = -INFINITY, total = 0;
        for (int64_t column = 0; column < visible; ++column) {
          double &score = weights[static_cast<size_t>(column)];
          score = score_of(query, key, mask ? &*mask : nullptr, call, batch, head, key_head, row,
                           column);
          largest = std::isnan(score) || score > largest ? score : largest;
        }
        const double base = largest == -INFINITY ? 0 : largest;
        for (int64_t column = 0; column < visible; ++column)
          total += weights[static_cast<size_t>(column)] =
              std::exp(weights[static_cast<size_t>(column)] - base);
        for (int64_t i = 0; i < depth; ++i) {
          double sum = 0;
          for (int64_t column = 0; column < visible; ++column)
            sum += weights[static_cast<size_t>(column)] * value.at(batch, key_head, column, i);
          store(output, positions[next++], total == 0 ? 0.0 : sum / total);
        }
      }
}

} // namespace tsc::interpret
