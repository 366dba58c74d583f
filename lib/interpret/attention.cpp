// Attention in double precision: scores, softmax and weighted sums of one row at a time.
#include "interpret/machine.h"

#include "support/diagnostic.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace tsc::interpret {
namespace {

double element(const Storage &storage, int64_t position) {
  if (position < 0 || position >= storage.size())
    support::require(false, "interpret", "attention reads outside of its buffer");
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

  /// Rows of one head behind each other.
  void copy_head(int64_t batch, int64_t head, std::vector<double> &rows) const {
    rows.clear();
    for (int64_t row = 0; row < sizes[2]; ++row)
      for (int64_t column = 0; column < sizes[3]; ++column)
        rows.push_back(at(batch, head, row, column));
  }
};

double product_of(const double *one, const double *other, int64_t size) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i)
    sum += one[i] * other[i];
  return sum;
}

double masked(double score, const View &mask, int64_t batch, int64_t head, int64_t row,
              int64_t column) {
  const double added = mask.at(batch, head, row, column);
  if (mask.storage->is_float())
    return score + added;
  return added != 0 ? score : -INFINITY;
}

/// The functions of scores: of all columns of a row at a time.
class ScoreRows {
public:
  ScoreRows(Tape score, ValueId changed, std::optional<Tape> seen, ValueId shown,
            std::vector<int64_t> sizes, const std::vector<Storage *> &storages, bool round)
      : domain_{std::move(sizes)}, score_(std::move(score)), seen_(std::move(seen)),
        changed_(changed), shown_(shown), scores_(score_, domain_, storages, round) {
    if (seen_)
      masks_.emplace(*seen_, domain_, storages, round);
  }

  void apply(std::vector<double> &scores, int64_t batch, int64_t head, int64_t row) {
    const auto columns = static_cast<int64_t>(scores.size());
    const int64_t first =
        ((batch * domain_.sizes[1] + head) * domain_.sizes[2] + row) * domain_.sizes[3];
    for (int64_t begin = 0; begin < columns; begin += TapeRunner::kChunk) {
      const int64_t count = std::min(TapeRunner::kChunk, columns - begin);
      double *part = scores.data() + begin;
      scores_.give({{part, nullptr}});
      scores_.run(first + begin, count);
      if (masks_)
        masks_->run(first + begin, count);
      for (int64_t i = 0; i < count; ++i)
        part[i] = masks_ && masks_->integers(shown_)[i] == 0 ? -INFINITY
                                                              : scores_.floats(changed_)[i];
    }
  }

private:
  Domain domain_;
  Tape score_;
  std::optional<Tape> seen_;
  ValueId changed_, shown_;
  TapeRunner scores_;
  std::optional<TapeRunner> masks_;
};

} // namespace

void Machine::attention(const ir::Operation &operation, const ir::Extern &call) {
  const auto view_of = [&](const ir::BufferView &input) {
    return View{&readable(input), value_of(input.layout.offset), values_of(input.layout.sizes),
                values_of(input.layout.strides)};
  };
  const View query = view_of(call.inputs[0]), key = view_of(call.inputs[1]),
             value = view_of(call.inputs[2]);
  View mask; // without a storage: there is none
  if (const ir::BufferView *added = ir::added_mask(call))
    mask = view_of(*added);
  Storage &output = output_of(operation);
  const std::vector<int64_t> positions =
      positions_of(module_.buffer(operation.outputs[0]).layout); // row-major over the sizes
  const int64_t depth = query.sizes[3], value_depth = value.sizes[3], columns = key.sizes[2];
  const int64_t group = query.sizes[1] / std::max<int64_t>(1, key.sizes[1]);
  size_t next = 0, next_sum = 0;
  Storage *log_sums = operation.outputs.size() > 1 ? &output_of(operation, 1) : nullptr;
  std::vector<double> weights(static_cast<size_t>(columns)), sums;
  std::vector<double> queries, keys, values; // of one head
  std::optional<ScoreRows> functions;
  if (call.scores) {
    TapeBuilder score(module_, bindings_, round_), seen(module_, bindings_, round_);
    const ValueId changed = score.value(call.scores->score, ir::DType::f32);
    const ValueId shown = call.scores->seen ? seen.value(*call.scores->seen, ir::DType::boolean) : 0;
    functions.emplace(finish(score, {changed}, operation), changed,
                      call.scores->seen ? std::optional(finish(seen, {shown}, operation))
                                        : std::nullopt,
                      shown, values_of(call.scores->sizes), by_buffer_, round_);
  }
  for (int64_t batch = 0; batch < query.sizes[0]; ++batch)
    for (int64_t head = 0; head < query.sizes[1]; ++head) {
      query.copy_head(batch, head, queries);
      if (head % group == 0) {
        key.copy_head(batch, head / group, keys);
        value.copy_head(batch, head / group, values);
      }
      for (int64_t row = 0; row < query.sizes[2]; ++row) {
        const int64_t visible = call.causal ? std::min(row + 1, columns) : columns;
        double largest = -INFINITY, total = 0;
        for (int64_t column = 0; column < visible; ++column) {
          double score = call.alpha * product_of(queries.data() + row * depth,
                                                 keys.data() + column * depth, depth);
          if (mask.storage)
            score = masked(score, mask, batch, head, row, column);
          weights[static_cast<size_t>(column)] = score;
        }
        if (functions)
          functions->apply(weights, batch, head, row);
        for (int64_t column = 0; column < visible; ++column) {
          const double score = weights[static_cast<size_t>(column)];
          largest = std::isnan(score) || score > largest ? score : largest;
        }
        const double base = largest == -INFINITY ? 0 : largest;
        sums.assign(static_cast<size_t>(value_depth), 0.0);
        for (int64_t column = 0; column < visible; ++column) {
          const double weight = std::exp(weights[static_cast<size_t>(column)] - base);
          total += weight;
          for (int64_t i = 0; i < value_depth; ++i)
            sums[static_cast<size_t>(i)] +=
                weight * values[static_cast<size_t>(column * value_depth + i)];
        }
        if (log_sums)
          store(*log_sums, static_cast<int64_t>(next_sum++),
                total == 0 ? -INFINITY : base + std::log(total));
        for (const double sum : sums)
          store(output, positions[next++], total == 0 ? 0.0 : sum / total);
      }
    }
}

} // namespace tsc::interpret
