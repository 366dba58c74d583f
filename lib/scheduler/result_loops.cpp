#include "scheduler/result_loops.h"

#include "scheduler/dependency.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tsc::scheduler {

namespace {

std::optional<int64_t> constant_of(Expr e) { return e.as_integer(); }

/// Position of an iteration among all, row-major.
Expr flat_position(const ir::LoopBody &body) {
  Expr position = 0, inner = 1;
  for (size_t i = body.variables.size(); i-- > 0;) {
    position = position + body.variables[i] * inner;
    inner = inner * body.sizes[i];
  }
  return position;
}

/// Issue slots of a function of a float32, of Hopper's machine code of the prelude's functions;
/// what special units compute counts fourfold. `is_half`: the result is rounded to 16 bits, for
/// which some have a quicker form.
int64_t instructions_of(ir::Op op, bool is_half) {
  constexpr int64_t kFunction = 40;
  if (ir::op_cost(op) == ir::OpCost::instruction)
    return 1;
  switch (op) {
  case ir::Op::rsqrt:
  case ir::Op::reciprocal:
    return 7;
  case ir::Op::truediv:
    return 10;
  case ir::Op::exp:
  case ir::Op::exp2:
    return is_half ? 5 : 12;
  case ir::Op::erf:
    return is_half ? 14 : 26;
  case ir::Op::sigmoid:
    return 20;
  case ir::Op::tanh:
    return 22;
  case ir::Op::sqrt:
    return 24;
  case ir::Op::log:
  case ir::Op::log2:
    return 29;
  default:
    return kFunction;
  }
}

} // namespace

bool follows(const State &state, const ir::LoopBody &body, BufferId buffer) {
  const tensor::Layout &layout = state.module.buffer(buffer).layout;
  Expr position = flat_position(body);
  if (!layout.is_contiguous()) {
    const size_t last = layout.rank() - 1;
    const Expr columns = layout.sizes[last];
    position = symbolic::floor_div(position, columns) * layout.strides[last - 1] +
               symbolic::mod(position, columns) * layout.strides[last];
  }
  const symbolic::Ranges ranges = body.ranges(state.module);
  return std::all_of(body.ops.begin(), body.ops.end(), [&](const ir::BodyOp &op) {
    return op.buffer != buffer || op.index == ir::kNone ||
           (op.mode == ir::StoreMode::plain &&
            symbolic::simplify(body.indices[op.index] - position, ranges).is_integer(0));
  });
}

bool has_whole_runs(const ir::LoopBody &body, int64_t run) {
  return !body.sizes.empty() && symbolic::known_multiple_of(body.sizes.back(), run);
}

std::optional<int64_t> step_of_matrices(const ir::LoopBody &body, int64_t count) {
  if (body.sizes.empty() || !body.sizes[0].is_integer(count))
    return std::nullopt;
  std::optional<int64_t> result;
  for (const ir::BodyOp &op : body.ops) {
    if (op.index == ir::kNone || op.op == ir::Op::store)
      continue;
    const Expr index = body.indices[op.index];
    const auto step = symbolic::coefficient_of(index, body.variables[0]);
    if (op.op != ir::Op::load && !symbolic::depends_on(index, body.variables[0]))
      continue;
    if (op.op != ir::Op::load || result || !step || !step->is_integer() || step->value() <= 0)
      return std::nullopt;
    result = step->value();
  }
  return result;
}

namespace {

/// The same loops, those apart that the load of `results` divides.
std::vector<ir::LoopBody> with_divided_loops(const std::vector<ir::LoopBody> &bodies,
                                             BufferId results) {
  std::vector<ir::LoopBody> divided = bodies;
  for (size_t i = 0; i < divided.front().variables.size(); ++i) {
    const ir::LoopBody &first = divided.front();
    const Expr variable = first.variables[i];
    const auto size = constant_of(first.sizes[i]);
    int64_t length = 0;
    for (const ir::BodyOp &op : first.ops)
      if (op.op == ir::Op::load && op.buffer == results && length == 0)
        length = symbolic::divisor_of(first.indices[op.index], variable);
    if (length < 2 || !size || length >= *size || *size % length != 0)
      continue;
    const std::vector<Expr> before = first.variables; // those of all bodies, see below
    size_t number = before.size();
    Expr within = symbolic::symbol(symbolic::SymbolSort::loop, number);
    while (std::find(before.begin(), before.end(), within) != before.end())
      within = symbolic::symbol(symbolic::SymbolSort::loop, ++number);
    std::vector<Expr> variables = before, sizes = first.sizes, places = before;
    const auto after = static_cast<std::ptrdiff_t>(i) + 1;
    variables.insert(variables.begin() + after, within);
    sizes[i] = Expr(*size / length);
    sizes.insert(sizes.begin() + after, Expr(length));
    places[i] = variable * Expr(length) + within;
    for (ir::LoopBody &body : divided) {
      if (body.is_reduction() || body.variables != before)
        return bodies;
      body = ir::reindex(body, variables, sizes, sizes.size(), places);
    }
  }
  return divided;
}

} // namespace

std::vector<ir::LoopBody> in_order_of(const State &state, const std::vector<ir::LoopBody> &given,
                                      BufferId results) {
  const std::vector<ir::LoopBody> bodies = with_divided_loops(given, results);
  const ir::LoopBody &first = bodies.front();
  const auto load = std::find_if(first.ops.begin(), first.ops.end(), [&](const ir::BodyOp &op) {
    return op.op == ir::Op::load && op.buffer == results;
  });
  if (load == first.ops.end() || !state.module.buffer(results).layout.is_contiguous() ||
      !symbolic::is_affine(first.indices[load->index], first.variables))
    return {};
  const std::vector<Expr> strides =
      symbolic::stride_vars(first.indices[load->index], first.variables);
  std::vector<size_t> order(strides.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Of sizes that are known at run time only: as is likely, and of equal ones those that grow with
  // a size go around the others. Who asks sees whether the loops then follow the results.
  const auto key = [&](size_t i) {
    return std::pair(size_hint(state.module, strides[i]), !strides[i].is_integer());
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) > key(b); });
  std::vector<Expr> variables, sizes;
  for (const size_t i : order) {
    variables.push_back(first.variables[i]);
    sizes.push_back(first.sizes[i]);
  }
  std::vector<ir::LoopBody> result;
  for (const ir::LoopBody &body : bodies) {
    if (body.is_reduction() || body.sizes != first.sizes || body.variables != first.variables)
      return {};
    result.push_back(ir::reindex(body, variables, sizes, sizes.size(), body.variables));
  }
  return result;
}

bool stores_along_rows(const std::vector<ir::LoopBody> &bodies, int64_t columns, int64_t run) {
  constexpr int64_t kFewest = 8; // neighbours
  for (const ir::LoopBody &body : bodies) {
    size_t split = body.variables.size();
    int64_t inside = 1;
    while (split > 0 && inside < columns)
      inside *= constant_of(body.sizes[--split]).value_or(columns + 1);
    const int64_t rows = split == 0 ? 0 : constant_of(body.sizes[split - 1]).value_or(0);
    if (inside != columns || rows < kFewest || rows % run != 0)
      return false;
    for (const ir::BodyOp &op : body.ops) {
      if (op.op != ir::Op::store)
        continue;
      const auto step = symbolic::coefficient_of(body.indices[op.index], body.variables[split - 1]);
      if (!step || !step->is_integer(1))
        return false;
    }
  }
  return true;
}

bool stores_in_runs(const std::vector<ir::LoopBody> &bodies, int64_t run) {
  return std::all_of(bodies.begin(), bodies.end(), [&](const ir::LoopBody &body) {
    const Expr variable = body.variables.back();
    return std::all_of(body.ops.begin(), body.ops.end(), [&](const ir::BodyOp &op) {
      if (op.op != ir::Op::store)
        return true;
      const Expr index = body.indices[op.index];
      const auto step = symbolic::coefficient_of(index, variable);
      return step && step->is_integer(1) &&
             symbolic::known_multiple_of(symbolic::substitute(index, {{variable, Expr(0)}}), run);
    });
  });
}

bool is_copy(const State &state, const ir::LoopBody &body, tensor::DType dtype) {
  const Expr innermost = body.variables.back();
  size_t loads = 0;
  for (const ir::BodyOp &op : body.ops) {
    switch (op.op) {
    case ir::Op::load: {
      const auto step = symbolic::coefficient_of(body.indices[op.index], innermost);
      if (state.module.buffer(op.buffer).dtype != dtype || !step || !step->is_integer(1))
        return false;
      ++loads;
      break;
    }
    case ir::Op::index_expr: // of a mask: the same for the whole run
      if (symbolic::depends_on(body.indices[op.index], innermost))
        return false;
      break;
    case ir::Op::masked:
      if (tensor::to_double(op.constant) != 0 || std::signbit(tensor::to_double(op.constant)))
        return false;
      break;
    case ir::Op::store:
    case ir::Op::constant:
    case ir::Op::ge:
    case ir::Op::gt:
    case ir::Op::le:
    case ir::Op::lt:
    case ir::Op::logical_and:
    case ir::Op::to_dtype: // there and back
      break;
    default:
      return false;
    }
  }
  return loads == 1;
}

int64_t instructions_of(const ir::LoopBody &body, int64_t columns, bool is_half) {
  const bool merged = *constant_of(body.sizes.back()) > columns; // the innermost loop spans rows
  const auto varies = [&](Expr index) {
    return std::any_of(body.variables.begin(), body.variables.end() - (merged ? 0 : 1),
                       [&](Expr variable) { return symbolic::depends_on(index, variable); });
  };
  std::vector<bool> by_row(body.ops.size(), false);
  int64_t count = 0;
  for (size_t i = 0; i < body.ops.size(); ++i) {
    const ir::BodyOp &op = body.ops[i];
    by_row[i] = op.block != ir::kNone || (op.index != ir::kNone && varies(body.indices[op.index]));
    for (const uint32_t arg : op.args)
      by_row[i] = by_row[i] || by_row[arg];
    if (!by_row[i])
      continue;
    count += instructions_of(op.op, is_half);
  }
  return count;
}

int64_t elements_instructions(const ir::LoopBody &body) {
  int64_t halves = 2; // packed, and multiplied
  for (const ir::BodyOp &op : body.ops)
    if (ir::operand_count(op.op) > 0)
      switch (ir::op_cost(op.op)) {
      case ir::OpCost::instruction:
        halves += 1;
        break;
      case ir::OpCost::function:
        halves += 16;
        break;
      case ir::OpCost::angle:
      case ir::OpCost::series:
        halves += 80;
        break;
      }
  return halves / 2;
}

namespace {

/// Whether what is loaded of much is neighbours along a run: `place_of(index)` over `variable`, the
/// place in it; `ranges` of its symbols.
bool loads_neighbours(const ir::Module &module, const ir::LoopBody &body, Expr variable,
                      const symbolic::Ranges &all, const auto &place_of) {
  // Elements that one of memory holds, or stands for, at most.
  constexpr int64_t kPacked = 8, kGroup = 1024;
  constexpr int64_t kLeastAccess = 8; // bytes
  const Expr elements = symbolic::numel(body.sizes),
             each = symbolic::symbol(symbolic::SymbolSort::vector_element);
  const auto steps = [&](Expr given, int64_t size) {
    const int64_t access = std::max<int64_t>(1, kLeastAccess / size);
    const Expr index = place_of(given);
    if (!symbolic::depends_on(index, variable))
      return true;
    for (int64_t packed = 1; packed <= kGroup; packed *= 2) {
      symbolic::Ranges ranges = all;
      ranges.set_size(each, Expr(packed));
      const Expr apart = symbolic::simplify(
          symbolic::substitute(index, {{variable, variable * Expr(packed) + each}}), ranges);
      if (symbolic::coefficient_of(apart, variable) == Expr(1))
        return symbolic::known_multiple_of(
            symbolic::substitute(index, {{variable, variable * Expr(packed * access)}}), access,
            ranges);
    }
    return false;
  };
  return std::all_of(body.ops.begin(), body.ops.end(), [&](const ir::BodyOp &op) {
    if (op.op != ir::Op::load)
      return true;
    const Expr held = module.buffer(op.buffer).layout.storage_size() * Expr(kPacked);
    return !symbolic::known_less_equal(elements, held, module.ranges) ||
           steps(body.indices[op.index],
                 static_cast<int64_t>(tensor::size_in_bytes(module.buffer(op.buffer).dtype)));
  });
}

} // namespace

bool reads_neighbours(const ir::Module &module, const ir::LoopBody &body) {
  return loads_neighbours(module, body, body.variables.back(), body.ranges(module),
                          [](Expr index) { return index; });
}

Expr term_of_pairs(Expr run, Expr within, int64_t length) {
  constexpr int64_t kLanes = 4, kPair = 2, kApart = kLanes * kPair;
  return symbolic::floor_div(run, kLanes) * Expr(kLanes * length) +
         symbolic::floor_div(within, kPair) * Expr(kApart) +
         symbolic::mod(run, kLanes) * Expr(kPair) + symbolic::mod(within, kPair);
}

bool reads_pairs(const ir::Module &module, const ir::LoopBody &body, int64_t terms) {
  constexpr int64_t kLength = 32, kLanes = 4;
  const auto elements = symbolic::numel(body.sizes).as_integer();
  if (!elements || terms % (kLanes * kLength) != 0)
    return false;
  // Symbols that no body has: those of rows.
  const Expr column = symbolic::symbol(symbolic::SymbolSort::row, 0),
             run = symbolic::symbol(symbolic::SymbolSort::row, 1),
             within = symbolic::symbol(symbolic::SymbolSort::row, 2);
  symbolic::Ranges ranges = body.ranges(module);
  ranges.set_size(column, Expr(*elements / terms));
  ranges.set_size(run, Expr(terms / kLength));
  ranges.set_size(within, Expr(kLength));
  const Expr flat = column * Expr(terms) + term_of_pairs(run, within, kLength);
  symbolic::Substitution place;
  Expr inner = 1;
  for (size_t i = body.sizes.size(); i-- > 0;) {
    place.emplace(body.variables[i],
                  symbolic::simplify(i == 0 ? symbolic::floor_div(flat, inner)
                                            : symbolic::modular_index(flat, inner, body.sizes[i]),
                                     ranges));
    inner = inner * body.sizes[i];
  }
  return loads_neighbours(module, body, within, ranges, [&](Expr index) {
    return symbolic::simplify(symbolic::substitute(index, place), ranges);
  });
}

} // namespace tsc::scheduler
