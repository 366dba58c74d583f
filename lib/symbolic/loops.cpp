#include "symbolic/loops.h"

#include "symbolic/node.h"

#include "support/diagnostic.h"

#include <algorithm>

namespace tsc::symbolic {
namespace {

/// What a symbolic size counts as where only an order of magnitude is asked for: TorchInductor's
/// hint for sizes unknown at compile time.
constexpr int64_t kSizeHint = 8192;

int64_t hint_of(Expr e) {
  if (e.is_integer())
    return e.value();
  Ranges hints;
  for (Expr symbol : free_symbols(e))
    hints.set(symbol, {kSizeHint, kSizeHint});
  return bounds(e, hints).low;
}

class LoopMerger {
public:
  LoopMerger(std::span<const Expr> variables, std::span<const Expr> sizes,
             std::span<const Expr> indices, const Ranges &ranges)
      : variables_(variables), sizes_(sizes.begin(), sizes.end()),
        indices_(indices.begin(), indices.end()), ranges_(ranges) {
    for (size_t i = 0; i < sizes_.size(); ++i) {
      ranges_.set_size(variables_[i], sizes_[i]);
      dropped_.push_back(sizes_[i].is_integer(1));
      if (dropped_[i])
        set_to_zero(variables_[i]);
    }
    for (Expr index : indices_)
      strides_.push_back(stride_vars(index, variables_));
  }

  void run() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t inner = sizes_.size(); inner-- > 0;) {
        for (size_t outer = sizes_.size(); outer-- > 0;) {
          if (inner == outer || dropped_[inner] || dropped_[outer] || !can_merge(inner, outer))
            continue;
          merge(inner, outer);
          changed = true;
        }
      }
    }
  }

  MergedLoops result(SymbolSort sort) const {
    MergedLoops merged;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      if (dropped_[i]) {
        merged.old_variables.push_back(Expr(0));
        continue;
      }
      Expr variable = symbol(sort, merged.sizes.size());
      merged.sizes.push_back(sizes_[i]);
      merged.variables.push_back(variable);
      merged.old_variables.push_back(variable);
    }
    return merged;
  }

private:
  void set_to_zero(Expr variable) {
    for (Expr &index : indices_)
      index = substitute(index, {{variable, Expr(0)}});
  }

  bool can_merge(size_t inner, size_t outer) const {
    for (size_t k = 0; k < indices_.size(); ++k)
      if (strides_[k][inner] * sizes_[inner] != strides_[k][outer])
        return false;
    // The strides are exact for affine indices only: check the replacement itself.
    Substitution joined{{variables_[inner], variables_[inner] + sizes_[inner] * variables_[outer]},
                        {variables_[outer], Expr(0)}};
    for (Expr index : indices_) {
      Expr replaced = substitute(index, joined);
      if (replaced != index && simplify(replaced, ranges_) != simplify(index, ranges_))
        return false;
    }
    return true;
  }

  void merge(size_t inner, size_t outer) {
    sizes_[inner] = sizes_[inner] * sizes_[outer];
    dropped_[outer] = true;
    ranges_.set_size(variables_[inner], sizes_[inner]);
    set_to_zero(variables_[outer]);
  }

  std::span<const Expr> variables_;
  std::vector<Expr> sizes_;
  std::vector<Expr> indices_;
  Ranges ranges_;
  std::vector<bool> dropped_;
  std::vector<std::vector<Expr>> strides_; // one row an index
};

/// CPython's sort for fewer than 64 elements: an initial run, then binary insertion. The relation
/// that pick_loop_order sorts by is not transitive, so the outcome depends on the algorithm.
template <class Less> void sort_as_python(std::vector<size_t> &order, const Less &less) {
  if (order.size() < 2)
    return;
  size_t run = 2;
  if (less(order[1], order[0])) {
    while (run < order.size() && less(order[run], order[run - 1]))
      ++run;
    std::reverse(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(run));
  } else {
    while (run < order.size() && !less(order[run], order[run - 1]))
      ++run;
  }
  for (; run < order.size(); ++run) {
    size_t pivot = order[run], low = 0, high = run;
    while (low < high) {
      size_t middle = low + (high - low) / 2;
      if (less(pivot, order[middle]))
        high = middle;
      else
        low = middle + 1;
    }
    auto at = order.begin() + static_cast<std::ptrdiff_t>(low);
    std::rotate(at, order.begin() + static_cast<std::ptrdiff_t>(run),
                order.begin() + static_cast<std::ptrdiff_t>(run) + 1);
  }
}

/// Splits and merges dimensions from the innermost outwards; nothing if boundaries do not meet.
std::optional<std::vector<Expr>> match_dimensions(std::span<const Expr> from,
                                                  std::span<const Expr> to,
                                                  std::span<const Expr> index) {
  std::vector<Expr> result; // innermost first
  size_t i = from.size(), j = to.size();
  while (i > 0 && j > 0) {
    Expr size_from = from[i - 1], size_to = to[j - 1], at = index[j - 1];
    if (size_from.is_integer(1)) {
      result.push_back(Expr(0));
      --i;
      continue;
    }
    --j;
    if (size_to.is_integer(1))
      continue;
    --i;
    while (hint_of(size_to) < hint_of(size_from)) {
      if (j == 0)
        return std::nullopt;
      --j;
      at = index[j] * size_to + at;
      size_to = size_to * to[j];
    }
    if (size_to == size_from) {
      result.push_back(at);
      continue;
    }
    if (to[j] != size_to) // dimensions of `to` were merged and overshoot
      return std::nullopt;
    Expr divisor = size_from;
    result.push_back(modular_index(at, 1, size_from));
    while (hint_of(divisor) < hint_of(size_to)) {
      if (i == 0)
        return std::nullopt;
      --i;
      result.push_back(modular_index(at, divisor, from[i]));
      divisor = divisor * from[i];
    }
    if (divisor != size_to)
      return std::nullopt;
  }
  for (; i > 0; --i) {
    if (!from[i - 1].is_integer(1))
      return std::nullopt;
    result.push_back(Expr(0));
  }
  for (; j > 0; --j)
    if (!to[j - 1].is_integer(1))
      return std::nullopt;
  std::reverse(result.begin(), result.end());
  return result;
}

/// Through the row-major position: always possible.
std::vector<Expr> reshape_through_position(std::span<const Expr> from, std::span<const Expr> to,
                                           std::span<const Expr> index) {
  Expr position = 0, stride = 1;
  for (size_t j = to.size(); j-- > 0;) {
    position = position + index[j] * stride;
    stride = stride * to[j];
  }
  std::vector<Expr> result(from.size());
  Expr divisor = 1;
  for (size_t i = from.size(); i-- > 0;) {
    if (from[i].is_integer(1))
      continue;
    result[i] = modular_index(position, divisor, from[i]);
    divisor = divisor * from[i];
  }
  return result;
}

} // namespace

MergedLoops merge_loops(std::span<const Expr> variables, std::span<const Expr> sizes,
                        std::span<const Expr> indices, SymbolSort sort, const Ranges &ranges) {
  support::require(variables.size() == sizes.size(), "symbolic",
                   "merge_loops: one size a variable");
  LoopMerger merger(variables, sizes, indices, ranges);
  merger.run();
  return merger.result(sort);
}

std::vector<size_t> pick_loop_order(const std::vector<std::vector<Expr>> &strides,
                                    std::span<const Expr> sizes) {
  std::vector<std::vector<int64_t>> lengths;
  for (const std::vector<Expr> &row : strides) {
    std::vector<int64_t> &length = lengths.emplace_back();
    for (Expr stride : row) {
      int64_t hint = hint_of(stride);
      length.push_back(hint < 0 ? -hint : hint); // a flipped dimension is as near as its mirror
    }
  }
  auto less = [&](size_t a, size_t b) {
    bool a_is_one = sizes[a].is_integer(1), b_is_one = sizes[b].is_integer(1);
    if (a_is_one || b_is_one)
      return !a_is_one && b_is_one;
    size_t a_first = 0, b_first = 0;
    for (const std::vector<int64_t> &row : lengths) {
      a_first += row[b] == 0 || row[a] < row[b] ? 1 : 0;
      b_first += row[a] == 0 || row[b] < row[a] ? 1 : 0;
    }
    return a_first != b_first ? a_first > b_first : b < a;
  };
  std::vector<size_t> order(sizes.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = order.size() - 1 - i;
  sort_as_python(order, less);
  return order;
}

std::vector<Expr> reshape_index(std::span<const Expr> from, std::span<const Expr> to,
                                std::span<const Expr> index) {
  support::require(index.size() == to.size(), "symbolic", "reshape_index: one index a dimension");
  auto is_empty = [](Expr size) { return size.is_integer(0); };
  if (std::any_of(to.begin(), to.end(), is_empty) ||
      std::any_of(from.begin(), from.end(), is_empty))
    return std::vector<Expr>(from.size(), Expr(0));
  if (auto matched = match_dimensions(from, to, index))
    return *matched;
  return reshape_through_position(from, to, index);
}

} // namespace tsc::symbolic
