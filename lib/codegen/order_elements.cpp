#include "codegen/order_elements.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tsc::codegen {

using ir::Op;

void merge_variables(KernelGraph &graph, Expr inner, Expr outer) {
  const auto place = [&](Expr variable) {
    return static_cast<size_t>(
        std::find(graph.element_variables.begin(), graph.element_variables.end(), variable) -
        graph.element_variables.begin());
  };
  const Expr size = graph.element_sizes[place(inner)],
             all = size * graph.element_sizes[place(outer)];
  const symbolic::Substitution apart = {{outer, symbolic::floor_div(inner, size)},
                                        {inner, symbolic::mod(inner, size)}};
  graph.element_sizes[place(inner)] = all;
  graph.ranges.set_size(inner, all);
  for (Value &value : graph.values) {
    const auto step = symbolic::coefficient_of(value.index, inner),
               outer_step = symbolic::coefficient_of(value.index, outer);
    if (!symbolic::depends_on(value.index, inner) && !symbolic::depends_on(value.index, outer))
      continue;
    value.index = step && outer_step && *outer_step == *step * size
                      ? symbolic::substitute(value.index, {{outer, Expr(0)}})
                      : symbolic::simplify(symbolic::substitute(value.index, apart), graph.ranges);
  }
  const auto at = static_cast<std::ptrdiff_t>(place(outer));
  graph.element_variables.erase(graph.element_variables.begin() + at);
  graph.element_sizes.erase(graph.element_sizes.begin() + at);
}

namespace {

bool keeps_order(const KernelGraph &graph) {
  return std::any_of(graph.values.begin(), graph.values.end(), [](const Value &value) {
    return value.op == Op::scan || value.op == Op::sort ||
           (value.op == Op::reduction && (value.reduction == ir::ReductionKind::argmax ||
                                          value.reduction == ir::ReductionKind::argmin));
  });
}

/// How often elements of `graph` ask for the same place by `index`: the loops that do not move it.
double repeats_of(const KernelGraph &graph, Expr index) {
  double repeats = 1;
  for (size_t i = 0; i < graph.element_variables.size(); ++i)
    if (!symbolic::depends_on(index, graph.element_variables[i]))
      repeats *= static_cast<double>(
          std::max<int64_t>(1, symbolic::bounds(graph.element_sizes[i], graph.ranges).high));
  return repeats;
}

/// Bytes of an element's loads and stores that are neighbours along each loop. What stays where it
/// is along another loop (statistics of a row) counts as often as it is moved, not as it is read.
std::vector<double> contiguous_bytes(const ir::Module &module, const KernelGraph &graph) {
  std::vector<double> bytes(graph.element_variables.size(), 0);
  for (const Value &value : graph.values) {
    if (value.op != Op::load && value.op != Op::store)
      continue;
    for (size_t i = 0; i < bytes.size(); ++i) {
      const auto step = symbolic::coefficient_of(value.index, graph.element_variables[i]);
      if (step && step->is_integer(1))
        bytes[i] += static_cast<double>(tensor::size_in_bytes(module.buffer(value.buffer).dtype)) /
                    repeats_of(graph, value.index);
    }
  }
  return bytes;
}

/// The loop at `place` of the elements, or of the rows, as two, the inner one of `length`.
void divide(KernelGraph &graph, size_t place, int64_t length, bool rows = false) {
  std::vector<Expr> &variables = rows ? graph.row_variables : graph.element_variables,
                    &sizes = rows ? graph.row_sizes : graph.element_sizes;
  const Expr variable = variables[place], size = sizes[place];
  size_t next = 0;
  for (const Expr other : variables)
    next = std::max(next, other.number() + 1);
  const Expr within = symbolic::symbol(variable.sort(), next);
  const Expr around = symbolic::floor_div(size, length);
  const auto at = static_cast<ptrdiff_t>(place);
  sizes[place] = around;
  variables.insert(variables.begin() + at + 1, within);
  sizes.insert(sizes.begin() + at + 1, Expr(length));
  graph.ranges.set_size(variable, around);
  graph.ranges.set_size(within, length);
  const symbolic::Substitution parts = {{variable, variable * Expr(length) + within}};
  for (Value &value : graph.values)
    value.index = symbolic::simplify(symbolic::substitute(value.index, parts), graph.ranges);
}

} // namespace

void divide_row_loop(KernelGraph &graph, size_t place, int64_t length) {
  divide(graph, place, length, true);
}

bool divide_element_loops(KernelGraph &graph) {
  const size_t before = graph.element_variables.size();
  for (size_t i = 0; i < graph.element_variables.size(); ++i)
    for (const Value &value : graph.values) {
      const auto size = graph.element_sizes[i].as_integer();
      if (!size)
        return false;
      const int64_t length =
          value.op == Op::load ? symbolic::divisor_of(value.index, graph.element_variables[i]) : 0;
      if (length < 2 || length >= *size || *size % length != 0)
        continue;
      divide(graph, i, length);
      break;
    }
  return graph.element_variables.size() > before;
}

std::optional<size_t> divide_into_parts(KernelGraph &graph, int64_t most) {
  for (size_t i = 0; i < graph.element_variables.size(); ++i) {
    const auto size = graph.element_sizes[i].as_integer();
    int64_t length = size.value_or(1); // of a part
    for (const Value &value : graph.values) {
      if (value.dtype != DType::boolean || value.args.size() != 2)
        continue;
      for (const size_t side : {0, 1}) {
        const Value &place = graph[value.args[side]], &limit = graph[value.args[1 - side]];
        const auto *number =
            limit.op == Op::constant ? std::get_if<int64_t>(&limit.constant) : nullptr;
        const auto from = place.op == Op::index_expr && number
                              ? (place.index - graph.element_variables[i]).as_integer()
                              : std::nullopt;
        const int64_t at = from ? *number - *from : 0;
        if (size && at > 0 && at < *size)
          length = std::gcd(length, at);
      }
    }
    if (!size || length == *size || *size / length > most)
      continue;
    if (length > 1) // else the loop is over parts
      divide(graph, i, length);
    return i;
  }
  return std::nullopt;
}

void order_row_elements(const ir::Module &module, KernelGraph &graph) {
  if (!graph.reduces || keeps_order(graph) || graph.element_variables.empty())
    return;
  KernelGraph divided = graph;
  if (!divide_element_loops(divided))
    return;
  const std::vector<double> before = contiguous_bytes(module, graph),
                            after = contiguous_bytes(module, divided);
  const auto best = std::max_element(after.begin(), after.end());
  if (*best <= before.back() || best + 1 == after.end())
    return;
  const auto at = best - after.begin();
  for (std::vector<Expr> *list : {&divided.element_variables, &divided.element_sizes})
    std::rotate(list->begin() + at, list->begin() + at + 1, list->end());
  graph = std::move(divided);
}

std::optional<KernelGraph> join_element_loops(const KernelGraph &graph) {
  const bool keeps = std::any_of(graph.values.begin(), graph.values.end(), [](const Value &value) {
    return value.op == Op::scan || value.op == Op::sort;
  });
  if (keeps || !std::all_of(graph.element_sizes.begin(), graph.element_sizes.end(),
                            [](Expr size) { return size.is_integer(); }))
    return std::nullopt;
  const std::vector<bool> fed = fed_values(graph);
  KernelGraph joined = graph;
  for (size_t i = graph.element_sizes.size(); i-- > 1;) {
    const Expr outer = joined.element_variables[i - 1], inner = joined.element_variables[i],
               size = joined.element_sizes[i];
    bool serves = true;
    for (ValueId id = 0; id < joined.values.size() && serves; ++id) {
      const Expr index = joined[id].index;
      if (!fed[id] || (!symbolic::depends_on(index, outer) && !symbolic::depends_on(index, inner)))
        continue;
      const auto step = symbolic::coefficient_of(index, inner),
                 far = symbolic::coefficient_of(index, outer);
      serves = step && far && *far == *step * size;
    }
    if (!serves)
      continue;
    const Expr all = joined.element_sizes[i - 1] * size;
    joined.ranges.set_size(inner, all);
    const symbolic::Substitution same = {{outer, Expr(0)}},
                                 apart = {{outer, symbolic::floor_div(inner, size)},
                                          {inner, symbolic::mod(inner, size)}};
    for (ValueId id = 0; id < joined.values.size(); ++id) {
      Expr &index = joined.values[id].index;
      index =
          symbolic::simplify(symbolic::substitute(index, fed[id] ? same : apart), joined.ranges);
    }
    joined.element_sizes[i] = all;
    joined.element_variables.erase(joined.element_variables.begin() + static_cast<ptrdiff_t>(i) -
                                   1);
    joined.element_sizes.erase(joined.element_sizes.begin() + static_cast<ptrdiff_t>(i) - 1);
  }
  if (joined.element_sizes.size() == graph.element_sizes.size())
    return std::nullopt;
  return joined;
}

void put_neighbours_last(const ir::Module &module, KernelGraph &graph) {
  if (graph.element_variables.size() < 2 || keeps_order(graph))
    return;
  const std::vector<double> bytes = contiguous_bytes(module, graph);
  if (bytes.front() <= bytes.back())
    return;
  for (std::vector<Expr> *list : {&graph.element_variables, &graph.element_sizes})
    std::rotate(list->begin(), list->begin() + 1, list->end());
}

void bring_out_loop(KernelGraph &graph, int64_t parts) {
  const size_t loops = graph.element_sizes.size();
  if (loops < 2 || keeps_order(graph) ||
      !std::all_of(graph.element_sizes.begin(), graph.element_sizes.end(),
                   [](Expr size) { return size.is_integer(); }))
    return;
  size_t longest = 0;
  for (size_t i = 1; i < loops; ++i)
    if (graph.element_sizes[i].value() > graph.element_sizes[longest].value())
      longest = i;
  if (longest == 0 || graph.element_sizes[0].value() * 2 >= parts)
    return;
  const int64_t size = graph.element_sizes[longest].value();
  constexpr double kFarFromWanted = 1; // twice, or half
  double least = kFarFromWanted;
  int64_t count = 1;
  for (int64_t p = std::max<int64_t>(2, parts / 2); p <= std::min(2 * parts, size / 2); ++p) {
    if (size % p != 0)
      continue;
    double cost = std::fabs(std::log2(static_cast<double>(p) / static_cast<double>(parts)));
    for (int64_t width = 4; width <= 16; width *= 2) // vectors stay whole
      cost += size % width == 0 && size / p % width != 0 ? kFarFromWanted : 0;
    if (cost <= least) {
      least = cost;
      count = p;
    }
  }
  // Runs of the innermost loop stay what is contiguous, if there is any number of them.
  constexpr int64_t kShortest = 32;
  if (count == 1 && longest + 1 == loops)
    for (int64_t p = std::min(parts, size / kShortest);
         p > std::max(2 * graph.element_sizes[0].value(), parts / 4); --p)
      if (size % p == 0) {
        count = p;
        break;
      }
  if (count > 1)
    divide(graph, longest, size / count);
  const auto at = static_cast<ptrdiff_t>(longest);
  for (std::vector<Expr> *list : {&graph.element_variables, &graph.element_sizes})
    std::rotate(list->begin(), list->begin() + at, list->begin() + at + 1);
}

void divide_row_loops(const ir::Module &module, KernelGraph &graph) {
  if (!graph.reduces || keeps_order(graph) || !graph.rows().is_integer())
    return;
  const auto contiguous = [&](const KernelGraph &over, Expr variable) {
    size_t bytes = 0;
    for (const Value &value : over.values)
      if (const auto step = symbolic::coefficient_of(value.index, variable);
          value.op == Op::load && step && step->is_integer(1))
        bytes += tensor::size_in_bytes(module.buffer(value.buffer).dtype);
    return bytes;
  };
  for (size_t i = 0; i < graph.row_variables.size(); ++i) {
    int64_t length = 0;
    for (const Value &value : graph.values)
      if (value.op == Op::load && length == 0)
        length = symbolic::divisor_of(value.index, graph.row_variables[i]);
    const int64_t size = graph.row_sizes[i].value();
    if (length < 2 || length >= size || size % length != 0)
      continue;
    KernelGraph divided = graph;
    divide(divided, i, length, true);
    if (contiguous(divided, divided.row_variables[i + 1]) >
        contiguous(graph, graph.row_variables[i]))
      graph = std::move(divided);
  }
}

namespace {

/// Bytes that all accesses by `value` move; each place counts as often as it is moved.
double bytes_moved(const ir::Module &module, const KernelGraph &graph, const Value &value) {
  constexpr int64_t kManyOfAnyNumber = 4096;
  double bytes = static_cast<double>(tensor::size_in_bytes(module.buffer(value.buffer).dtype));
  const auto count = [&](std::span<const Expr> variables, std::span<const Expr> sizes) {
    for (size_t i = 0; i < variables.size(); ++i)
      if (symbolic::depends_on(value.index, variables[i]))
        bytes *= static_cast<double>(likely(module, sizes[i]).value_or(kManyOfAnyNumber));
  };
  count(graph.row_variables, graph.row_sizes);
  count(graph.element_variables, graph.element_sizes);
  return bytes;
}

/// Whether accesses of neighbours along a loop of rows are neighbours in memory: their elements, or
/// pieces of a row too short for a thread's accesses to be whole lines.
bool are_neighbours(const ir::Module &module, const KernelGraph &graph, const Value &value,
                    Expr variable) {
  const auto step = symbolic::coefficient_of(value.index, variable);
  if (!step || !step->is_integer())
    return false;
  if (step->is_integer(1) || graph.element_variables.empty())
    return step->is_integer(1);
  const int64_t longest = graph.element_variables.size() > 1 ? 256 : 64; // bytes
  const auto inner = symbolic::coefficient_of(value.index, graph.element_variables.back());
  const auto size = static_cast<int64_t>(tensor::size_in_bytes(module.buffer(value.buffer).dtype));
  return inner && inner->is_integer(1) && *step == graph.element_sizes.back() &&
         step->value() * size <= longest;
}

} // namespace

void order_rows(const ir::Module &module, KernelGraph &graph) {
  const size_t loops = graph.row_variables.size();
  const bool is_ordered =
      std::any_of(graph.values.begin(), graph.values.end(),
                  [](const Value &value) { return value.op == Op::scan || value.op == Op::sort; });
  if (!graph.reduces || loops < 2 || is_ordered)
    return;
  std::vector<double> bytes(loops, 0), most(loops, 0); // along a loop; of one access
  std::vector<const Value *> largest(loops, nullptr);
  for (const Value &value : graph.values) {
    const bool stores = value.op == Op::store || value.op == Op::store_reduction;
    if (value.buffer == ir::kNone || value.op == Op::set_indirect ||
        (!stores && !value.args.empty()))
      continue;
    const double moved = bytes_moved(module, graph, value);
    for (size_t i = 0; i < loops; ++i) {
      if (!are_neighbours(module, graph, value, graph.row_variables[i]))
        continue;
      bytes[i] += moved;
      if (moved > most[i]) {
        most[i] = moved;
        largest[i] = &value;
      }
    }
  }
  const auto best =
      static_cast<size_t>(std::max_element(bytes.begin(), bytes.end()) - bytes.begin());
  constexpr double kLeastGain = 1.25;
  if (best + 1 == loops || bytes[best] <= kLeastGain * bytes.back())
    return;
  // What does not move along a few steps of a loop is asked for once by neighbours, and not once
  // more for each step by blocks that come much later.
  constexpr int64_t kFewSteps = 8;
  std::vector<std::pair<int64_t, size_t>> order; // steps, the longest first
  for (size_t i = 0; i < loops; ++i) {
    const Expr index = largest[best]->index, variable = graph.row_variables[i];
    const auto size = graph.row_sizes[i].as_integer();
    const auto step =
        symbolic::depends_on(index, variable)
            ? symbolic::coefficient_of(index, variable)
            : std::optional<Expr>(size && *size <= kFewSteps ? Expr(0)
                                                             : Expr(INT64_MAX)); // the outermost
    if (!step || !step->is_integer() || step->value() < 0)
      return;
    order.emplace_back(-step->value(), i);
  }
  std::stable_sort(order.begin(), order.end());
  for (std::vector<Expr> *list : {&graph.row_variables, &graph.row_sizes}) {
    const std::vector<Expr> before = *list;
    for (size_t i = 0; i < loops; ++i)
      (*list)[i] = before[order[i].second];
  }
}

void make_pointwise(KernelGraph &graph) {
  graph.element_variables.insert(graph.element_variables.begin(), graph.row_variables.begin(),
                                 graph.row_variables.end());
  graph.element_sizes.insert(graph.element_sizes.begin(), graph.row_sizes.begin(),
                             graph.row_sizes.end());
  graph.row_variables.clear();
  graph.row_sizes.clear();
  graph.reduces = false;
  symbolic::Substitution names;
  for (size_t i = 0; i < graph.element_variables.size(); ++i) {
    const Expr name = symbolic::symbol(symbolic::SymbolSort::dimension, i);
    names.emplace(graph.element_variables[i], name);
    graph.ranges.set_size(name, graph.element_sizes[i]);
    graph.element_variables[i] = name;
  }
  for (Value &value : graph.values) {
    value.index = symbolic::substitute(value.index, names);
    if (value.op == Op::store_reduction)
      value.op = Op::store;
  }
  assign_phases(graph);
}

} // namespace tsc::codegen
