// Attention in double precision: scores, softmax and weighted sums of one row at a time.
#include "interpret/machine.h"

#include "support/diagnostic.h"
#include "templates/attention/tc_attention_geometry.h"

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

/// A view with numbers for its sizes and strides, rank 4; a mask may have batches of batches before
/// its heads.
struct View {
  const Storage *storage = nullptr;
  int64_t offset = 0;
  std::vector<int64_t> sizes, strides;

  double at(int64_t batch, int64_t head, int64_t row, int64_t column) const {
    const size_t last = strides.size() - 1;
    int64_t place = batch * strides[0];
    if (last == 4)
      place = batch / sizes[1] * strides[0] + batch % sizes[1] * strides[1];
    return element(*storage, offset + place + head * strides[last - 2] + row * strides[last - 1] +
                                 column * strides[last]);
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

/// Weighted sums of values, what the weights are relative to, as exp(base), and their total.
struct RowSums {
  std::vector<double> sums;
  double base = -INFINITY, total = 0;
};

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
        part[i] =
            masks_ && masks_->integers(shown_)[i] == 0 ? -INFINITY : scores_.floats(changed_)[i];
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

/// The operands of one call, and of the head that is computed.
struct Operands {
  const ir::Extern &call;
  View query, key, value;
  std::optional<View> mask;
  std::optional<ScoreRows> functions;
  std::vector<double> queries, keys, values; // rows of the head

  int64_t depth() const { return query.sizes[3]; }
  int64_t columns() const { return key.sizes[2]; }

  void take_head(int64_t batch, int64_t head) {
    const int64_t group = query.sizes[1] / std::max<int64_t>(1, key.sizes[1]);
    query.copy_head(batch, head, queries);
    if (head % group == 0) {
      key.copy_head(batch, head / group, keys);
      value.copy_head(batch, head / group, values);
    }
  }
  /// Over the keys `from` to `to` - 1.
  RowSums row(int64_t batch, int64_t head, int64_t at, int64_t from, int64_t to) {
    const int64_t end = call.causal ? std::min(at + 1, to) : to, width = value.sizes[3];
    std::vector<double> weights;
    double largest = -INFINITY;
    for (int64_t column = from; column < end; ++column) {
      double score = call.alpha * product_of(queries.data() + at * depth(),
                                             keys.data() + column * depth(), depth());
      if (mask)
        score = masked(score, *mask, batch, head, at, column);
      weights.push_back(score);
    }
    if (functions) // of all columns
      functions->apply(weights, batch, head, at);
    for (const double score : weights)
      largest = std::isnan(score) || score > largest ? score : largest;
    RowSums result{std::vector<double>(static_cast<size_t>(width), 0.0), largest, 0};
    const double base = largest == -INFINITY ? 0 : largest;
    for (size_t k = 0; k < weights.size(); ++k) {
      const double weight = std::exp(weights[k] - base);
      result.total += weight;
      for (int64_t i = 0; i < width; ++i)
        result.sums[static_cast<size_t>(i)] +=
            weight * values[(static_cast<size_t>(from) + k) * static_cast<size_t>(width) +
                            static_cast<size_t>(i)];
    }
    return result;
  }
};

} // namespace

void Machine::attention(const ir::Operation &operation, const ir::Extern &call) {
  const auto view_of = [&](const ir::BufferView &input) {
    return View{&readable(input), value_of(input.layout.offset), values_of(input.layout.sizes),
                values_of(input.layout.strides)};
  };
  Operands operands{call,
                    view_of(call.inputs[0]),
                    view_of(call.inputs[1]),
                    view_of(call.inputs[2]),
                    std::nullopt,
                    std::nullopt,
                    {},
                    {},
                    {}};
  if (const ir::BufferView *added = ir::added_mask(call))
    operands.mask = view_of(*added);
  if (call.scores) {
    TapeBuilder score(module_, bindings_, round_), seen(module_, bindings_, round_);
    const ValueId changed = score.value(call.scores->score, ir::DType::f32);
    const ValueId shown =
        call.scores->seen ? seen.value(*call.scores->seen, ir::DType::boolean) : 0;
    operands.functions.emplace(finish(score, {changed}, operation), changed,
                               call.scores->seen ? std::optional(finish(seen, {shown}, operation))
                                                 : std::nullopt,
                               shown, values_of(call.scores->sizes), by_buffer_, round_);
  }
  Storage &output = output_of(operation);
  const std::vector<int64_t> positions =
      positions_of(module_.buffer(operation.outputs[0]).layout); // row-major over the sizes
  std::vector<Storage *> more;
  for (size_t i = 1; i < operation.outputs.size(); ++i)
    more.push_back(&output_of(operation, i));
  const int64_t rows = operands.query.sizes[2], heads = operands.query.sizes[1],
                batches = operands.query.sizes[0];
  const auto each_row = [&](auto &&function) {
    for (int64_t batch = 0; batch < batches; ++batch)
      for (int64_t head = 0; head < heads; ++head) {
        operands.take_head(batch, head);
        for (int64_t row = 0; row < rows; ++row)
          function(batch, head, row, (batch * heads + head) * rows + row);
      }
  };
  if (call.parts == 0) {
    each_row([&](int64_t batch, int64_t head, int64_t row, int64_t place) {
      const RowSums found = operands.row(batch, head, row, 0, operands.columns());
      const auto width = static_cast<int64_t>(found.sums.size());
      if (!more.empty())
        store(*more[0], place, found.total == 0 ? -INFINITY : found.base + std::log(found.total));
      for (int64_t i = 0; i < width; ++i)
        store(output, positions[static_cast<size_t>(place * width + i)],
              found.total == 0 ? 0.0 : found.sums[static_cast<size_t>(i)] / found.total);
    });
    return;
  }
  const int64_t keys = tc_few_part(operands.columns(), call.parts);
  each_row([&](int64_t batch, int64_t head, int64_t row, int64_t place) {
    for (int64_t part = 0; part < call.parts; ++part) {
      const int64_t from = std::min(part * keys, operands.columns());
      const RowSums found =
          operands.row(batch, head, row, from, std::min(from + keys, operands.columns()));
      const int64_t at = part * batches * heads * rows + place;
      const auto width = static_cast<int64_t>(found.sums.size());
      store(*more[0], at, found.base / std::log(2.0));
      store(*more[1], at, found.total);
      for (int64_t i = 0; i < width; ++i)
        store(output, positions[static_cast<size_t>(at * width + i)],
              found.sums[static_cast<size_t>(i)]);
    }
  });
}

} // namespace tsc::interpret
