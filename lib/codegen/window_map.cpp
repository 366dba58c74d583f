#include "codegen/window_map.h"

#include "templates/product/tc_product_geometry.h"

#include <algorithm>
#include <numeric>

namespace tsc::codegen {

namespace {

using ir::Op;

/// What a copy reads at a row and a term: where in memory, or zeros.
class Reader {
public:
  Reader(const KernelGraph &graph, ValueId load, Expr row, Expr term, symbolic::Bindings sizes)
      : graph_(graph), load_(load), row_(row), term_(term), bindings_(std::move(sizes)) {}

  void at(int64_t row, int64_t term) {
    bindings_[row_] = row;
    bindings_[term_] = term;
  }
  int64_t address() const { return symbolic::evaluate(graph_[load_].index, bindings_); }
  /// Nothing if the condition is none that compares sizes and numbers.
  std::optional<bool> is_inside() const {
    const ValueId guard = graph_[load_].guard;
    if (guard == ir::kNone)
      return true;
    const auto value = value_of(guard);
    return value ? std::optional<bool>(*value != 0) : std::nullopt;
  }

private:
  std::optional<int64_t> value_of(ValueId id) const {
    const Value &value = graph_[id];
    if (value.op == Op::index_expr)
      return symbolic::evaluate(value.index, bindings_);
    if (value.op == Op::constant)
      return static_cast<int64_t>(tensor::to_double(value.constant));
    if (value.args.size() == 1 && value.op == Op::to_dtype)
      return value_of(value.args[0]);
    if (value.args.size() != 2)
      return std::nullopt;
    const auto left = value_of(value.args[0]), right = value_of(value.args[1]);
    if (!left || !right)
      return std::nullopt;
    switch (value.op) {
    case Op::ge:
      return *left >= *right;
    case Op::gt:
      return *left > *right;
    case Op::le:
      return *left <= *right;
    case Op::lt:
      return *left < *right;
    case Op::logical_and:
      return *left != 0 && *right != 0;
    default:
      return std::nullopt;
    }
  }

  const KernelGraph &graph_;
  ValueId load_;
  Expr row_, term_;
  symbolic::Bindings bindings_;
};

template <class T> std::vector<T> reversed(std::vector<T> values) {
  std::reverse(values.begin(), values.end());
  return values;
}
/// Numbers for all that windows and their reader are sized by: none where all is known; of an
/// `example` others than of another, apart by no multiple of a stride.
symbolic::Bindings some_sizes(const ir::Windows &hint, const KernelGraph &graph, int64_t example) {
  constexpr int64_t kFirst = 17, kApart = 11; // more than taps reach; than the longest stride
  symbolic::Bindings sizes;
  const auto add = [&](Expr e) {
    for (const Expr symbol : symbolic::free_symbols(e)) {
      if (symbol.sort() != symbolic::SymbolSort::size &&
          symbol.sort() != symbolic::SymbolSort::data &&
          symbol.sort() != symbolic::SymbolSort::computed_size)
        continue;
      const symbolic::Interval range = graph.ranges.interval_of(symbol);
      const auto next = static_cast<int64_t>(sizes.size());
      sizes.emplace(symbol, std::clamp(kFirst + 6 * next + kApart * example, range.low,
                                       std::max(range.low, range.high)));
    }
  };
  add(hint.batch);
  std::for_each(hint.sizes.begin(), hint.sizes.end(), add);
  std::for_each(hint.positions.begin(), hint.positions.end(), add);
  for (const Value &value : graph.values)
    add(value.index);
  return sizes;
}
int64_t product(const std::vector<int64_t> &values) {
  return std::accumulate(values.begin(), values.end(), int64_t{1}, std::multiplies<>());
}

/// The numbers that mixed-radix digits of these sizes, innermost first, have for `value`; what is
/// left goes to the end.
std::vector<int64_t> digits(int64_t value, const std::vector<int64_t> &sizes) {
  std::vector<int64_t> result;
  for (const int64_t size : sizes) {
    result.push_back(value % size);
    value /= size;
  }
  result.push_back(value);
  return result;
}

/// Where borders and middles of so many are, and some between.
std::vector<int64_t> samples(int64_t count, std::vector<int64_t> steps) {
  std::vector<int64_t> result = {0, count - 1, count / 2, count / 3};
  for (const int64_t step : steps)
    for (const int64_t at : {step - 1, step, 2 * step, count - step, count - step - 1})
      result.push_back(at);
  for (int64_t i = 1; i < 12; ++i)
    result.push_back((i * 2654435761) % count);
  std::erase_if(result, [&](int64_t at) { return at < 0 || at >= count; });
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

struct Geometry {
  int64_t word; // elements of 16 bytes
  int64_t channels, batch, offset = 0;
  std::vector<int64_t> sizes, positions, kernel, stride, padding, dilation; // innermost first
  bool of_any_size = false;
  std::vector<int64_t> strides = {}; // of memory, elements; the batch's last

  size_t rank() const { return sizes.size(); }

  /// Finds the strides of memory: by the next position, or the next tap, of each dimension.
  bool find_strides(Reader &reader) {
    const auto address = [&](int64_t row, int64_t term) {
      reader.at(row, term);
      return reader.address();
    };
    const int64_t start = address(0, 0);
    int64_t row = 1, tap = 1;
    offset = start;
    for (size_t k = 0; k < rank(); ++k) {
      const bool by_position = positions[k] > 1;
      const int64_t by = by_position ? stride[k] : dilation[k],
                    further = by_position     ? address(row, 0)
                              : kernel[k] > 1 ? address(0, tap * channels)
                                              : start + by * word;
      if (by <= 0 || (further - start) % by != 0)
        return false;
      strides.push_back((further - start) / by);
      offset += padding[k] * strides[k];
      row *= positions[k];
      tap *= kernel[k];
    }
    strides.push_back(batch > 1 ? address(row, 0) - start : strides.back() * sizes.back());
    return std::all_of(strides.begin(), strides.end(),
                       [&](int64_t s) { return s > 0 && s % word == 0; }) &&
           offset % word == 0;
  }
  /// Whether the graph reads just that.
  bool agrees(Reader &reader) const {
    const auto rows = samples(batch * product(positions), {positions[0], product(positions)}),
               terms = samples(product(kernel) * channels, {channels, channels * kernel[0]});
    for (const int64_t row : rows)
      for (const int64_t term : terms) {
        reader.at(row, term);
        const std::vector<int64_t> position = digits(row, positions),
                                   tap = digits(term / channels, kernel);
        int64_t address = offset + term % channels + position.back() * strides.back();
        bool inside = true;
        for (size_t k = 0; k < rank(); ++k) {
          const int64_t at = position[k] * stride[k] + tap[k] * dilation[k] - padding[k];
          inside = inside && at >= 0 && at < sizes[k];
          address += at * strides[k];
        }
        if (reader.is_inside() != inside || (inside && reader.address() != address))
          return false;
      }
    return true;
  }
  /// Whether an instruction has bits for it.
  bool reaches() const {
    constexpr int64_t kTap[] = {65535, 255, 31}, kBorder[] = {32767, 127, 15};
    for (size_t k = 0; k < rank(); ++k) {
      const int64_t most = kBorder[rank() - 1];
      if (stride[k] < 1 || stride[k] > 8 || dilation[k] < 1 ||
          (kernel[k] - 1) * dilation[k] > kTap[rank() - 1] || std::abs(padding[k]) > most ||
          std::abs(upper(k)) > most)
        return false;
    }
    return true;
  }
  /// Of the last position, beyond the last element; of any size, where windows end that reach as
  /// far as the padding does: the next position would begin behind it.
  int64_t upper(size_t k) const {
    return of_any_size ? padding[k] - (kernel[k] - 1) * dilation[k]
                       : (positions[k] - 1) * stride[k] - padding[k] - sizes[k] + 1;
  }
  bool ends_there(size_t k) const {
    const int64_t reach = sizes[k] - 1 + upper(k) + padding[k];
    return reach >= 0 && reach / stride[k] + 1 == positions[k];
  }
};

} // namespace

std::optional<WindowMap> window_map(const ir::Windows &noted, const GroupsOfChannels &groups,
                                    const KernelGraph &graph, ValueId load, ir::DType dtype,
                                    Expr row, Expr term, int rows) {
  const auto size = static_cast<int64_t>(tensor::size_in_bytes(dtype)), line = 128 / size;
  const Expr terms = graph.element_sizes.back();
  if (groups.count < 1 || noted.channels % groups.count != 0 ||
      !terms.is_integer(noted.channels / groups.count * product(noted.kernel)) ||
      (groups.count > 1 && groups.step != noted.channels / groups.count))
    return std::nullopt;
  ir::Windows hint = noted;
  hint.channels /= groups.count;
  if (hint.channels == 0 || product(hint.kernel) == 0)
    return std::nullopt;
  const auto held = (hint.batch * symbolic::numel(hint.sizes) * Expr(hint.channels)).as_integer();
  int parts = groups.count == 1
                  ? tc_parts_of_line(static_cast<int>(size), hint.channels, held.value_or(0) * size)
                  : 1;
  if (parts == 1 && hint.channels * groups.together % line != 0)
    parts = 0;
  if (parts == 0 && (groups.count > 1 || hint.channels * size % 16 != 0))
    return std::nullopt;
  std::vector<Geometry> examples;
  const bool known = some_sizes(hint, graph, 0).empty();
  for (int64_t example = 0; example < (known ? 1 : 2); ++example) {
    const symbolic::Bindings sizes = some_sizes(hint, graph, example);
    const auto numbers = [&](const std::vector<Expr> &list) {
      std::vector<int64_t> result;
      for (const Expr e : reversed(list))
        result.push_back(symbolic::evaluate(e, sizes));
      return result;
    };
    Geometry geometry{16 / size,
                      hint.channels,
                      symbolic::evaluate(hint.batch, sizes),
                      0,
                      numbers(hint.sizes),
                      numbers(hint.positions),
                      reversed(hint.kernel),
                      reversed(hint.stride),
                      reversed(hint.padding),
                      reversed(hint.dilation),
                      !known};
    Reader reader(graph, load, row, term, sizes);
    if (geometry.batch <= 0 || product(geometry.positions) <= 0 || product(geometry.sizes) <= 0 ||
        !geometry.reaches() || !geometry.find_strides(reader) || !geometry.agrees(reader))
      return std::nullopt;
    examples.push_back(std::move(geometry));
  }
  const Geometry &geometry = examples.front();
  const std::vector<Expr> sizes = reversed(hint.sizes);
  std::vector<Expr> strides(geometry.strides.begin(), geometry.strides.end());
  if (!known)
    for (size_t k = 0; k < geometry.rank(); ++k) {
      strides[k + 1] = strides[k] * sizes[k];
      for (const Geometry &each : examples)
        if (each.offset != geometry.offset || each.strides[0] != geometry.strides[0] ||
            each.strides[k + 1] != each.strides[k] * each.sizes[k] || !each.ends_there(k))
          return std::nullopt;
    }

  WindowMap result{{},
                   geometry.channels,
                   reversed(hint.positions),
                   geometry.kernel,
                   geometry.stride,
                   geometry.padding,
                   geometry.dilation,
                   parts};
  program::TensorMap &map = result.map;
  map.offset = geometry.offset;
  map.sizes = {Expr(noted.channels)};
  map.strides = {Expr(1)};
  map.box = {static_cast<int>(line) / std::max(parts, 1), rows};
  for (size_t k = 0; k < geometry.rank(); ++k) {
    map.sizes.push_back(sizes[k]);
    map.strides.push_back(strides[k]);
    map.lower.push_back(static_cast<int>(-geometry.padding[k]));
    map.upper.push_back(static_cast<int>(geometry.upper(k)));
    map.step.push_back(static_cast<int>(geometry.stride[k]));
  }
  map.sizes.push_back(hint.batch);
  map.strides.push_back(strides.back());
  return result;
}

} // namespace tsc::codegen
