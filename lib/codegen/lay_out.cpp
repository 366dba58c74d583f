#include "codegen/lay_out.h"

#include "codegen/estimate_kernel.h"
#include "codegen/order_elements.h"
#include "codegen/part_graphs.h"
#include "codegen/plan.h"
#include "codegen/split_rows.h"
#include "symbolic/loops.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <limits>
#include <set>

namespace tsc::codegen {

namespace {

using ir::Op;

constexpr double kLaunch = 2500;         // nanoseconds
constexpr double kFewestBytes = 1 << 20; // of an operand, else it is in a cache after one walk
/// Of what a group stores beside what it reduces: rows in parts read it once more, and pay where
/// whole rows go through memory badly.
constexpr double kFewestStored = 1 << 24;
constexpr double kSlow = 1.15;          // of the roof's time
constexpr double kLeastGain = 0.9;      // of the time before
constexpr double kLeastGained = 1000;   // nanoseconds
constexpr int64_t kMostDivided = 16384; // parts that one block merges
constexpr int64_t kFewestDivided = 64;
constexpr size_t kMostLaidOut = 4;
constexpr size_t kNone = std::numeric_limits<size_t>::max();

/// The one loop that an access is contiguous along; kNone if there is none.
size_t unit_loop(Expr index, std::span<const Expr> variables, std::span<const Expr> sizes) {
  for (size_t i = variables.size(); i-- > 0;) {
    if (sizes[i].is_integer(1) || !symbolic::depends_on(index, variables[i]))
      continue;
    const auto step = symbolic::coefficient_of(index, variables[i]);
    if (step && step->is_integer(1))
      return i;
  }
  return kNone;
}

/// Loops of a graph, rows first.
struct Loops {
  std::vector<Expr> variables, sizes;

  explicit Loops(const KernelGraph &graph)
      : variables(graph.row_variables), sizes(graph.row_sizes) {
    variables.insert(variables.end(), graph.element_variables.begin(),
                     graph.element_variables.end());
    sizes.insert(sizes.end(), graph.element_sizes.begin(), graph.element_sizes.end());
  }
  /// How often an index moves.
  double points(Expr index) const {
    double count = 1;
    for (size_t i = 0; i < variables.size(); ++i)
      if (symbolic::depends_on(index, variables[i]))
        count *= static_cast<double>(sizes[i].as_integer().value_or(1));
    return count;
  }
};

double bytes_of(const ir::Module &module, const Loops &loops, const Value &value) {
  const auto size = static_cast<double>(tensor::size_in_bytes(module.buffer(value.buffer).dtype));
  const auto held = module.buffer(value.buffer).layout.storage_size().as_integer();
  const double points = loops.points(value.index);
  return size * (held ? std::min(points, static_cast<double>(*held)) : points);
}

/// Times that a plan, or several kernels, are estimated to take; `roof`: what memory and arithmetic
/// take at least.
struct Times {
  double planned = 0, roof = 0;
  bool is_known = true;

  void add(const program::KernelEstimate &estimate) {
    is_known = is_known && estimate.is_known;
    planned += kLaunch + estimate.planned();
    roof += kLaunch + estimate.roof();
  }
};

// ---- sizes that are symbols, at what they are likely to be

/// Of the symbols in a graph's sizes; nothing where one is not known.
std::optional<symbolic::Substitution> likely_values(const ir::Module &module,
                                                    const KernelGraph &graph) {
  symbolic::Substitution values;
  for (const std::vector<Expr> *sizes : {&graph.row_sizes, &graph.element_sizes})
    for (const Expr size : *sizes)
      for (const Expr symbol : symbolic::free_symbols(size)) {
        const auto value = likely(module, symbol);
        if (!value)
          return std::nullopt;
        values.emplace(symbol, Expr(*value));
      }
  return values;
}

KernelGraph with_numbers(const KernelGraph &graph, const symbolic::Substitution &values) {
  if (values.empty())
    return graph;
  KernelGraph result = graph;
  const auto replace = [&](Expr &e) { e = symbolic::substitute(e, values); };
  std::for_each(result.row_sizes.begin(), result.row_sizes.end(), replace);
  std::for_each(result.element_sizes.begin(), result.element_sizes.end(), replace);
  for (size_t i = 0; i < result.row_variables.size(); ++i)
    result.ranges.set_size(result.row_variables[i], result.row_sizes[i]);
  for (size_t i = 0; i < result.element_variables.size(); ++i)
    result.ranges.set_size(result.element_variables[i], result.element_sizes[i]);
  for (Value &value : result.values)
    value.index = symbolic::simplify(symbolic::substitute(value.index, values), result.ranges);
  return result;
}

ir::Buffer with_numbers(ir::Buffer buffer, const symbolic::Substitution &values) {
  for (std::vector<Expr> *list : {&buffer.layout.sizes, &buffer.layout.strides})
    for (Expr &e : *list)
      e = symbolic::substitute(e, values);
  buffer.layout.offset = symbolic::substitute(buffer.layout.offset, values);
  return buffer;
}

/// Plans kernels of a group, and estimates them at the likely sizes.
class Estimates {
public:
  Estimates(const ir::Module &module, const scheduler::Group &group, const target::Target &target,
            const symbolic::Substitution &values)
      : module_(module), group_(group), target_(target), values_(values) {}

  /// The module, its buffers having numbers for sizes.
  const ir::Module &numbers() {
    if (values_.empty())
      return module_;
    numbers_.buffers.resize(std::min(numbers_.buffers.size(), known_));
    while (numbers_.buffers.size() < module_.buffers.size())
      numbers_.buffers.push_back(with_numbers(module_.buffers[numbers_.buffers.size()], values_));
    return numbers_;
  }

  /// `given`: or null, for the group's own graph.
  void add(Times &times, const KernelGraph *given) {
    KernelPlan plan = plan_cuda(module_, group_, target_, given);
    plan.graph = with_numbers(plan.graph, values_);
    plan.grid = symbolic::substitute(plan.grid, values_);
    const ir::Module &module = numbers();
    const Loops loops(plan.graph);
    double read = 0, written = 0;
    std::set<std::pair<BufferId, bool>> seen;
    for (const Value &value : plan.graph.values)
      if ((value.op == Op::load || is_store(value)) &&
          seen.insert({value.buffer, is_store(value)}).second)
        (is_store(value) ? written : read) += bytes_of(module, loops, value);
    times.add(estimate_kernel(module, plan, static_cast<int64_t>(read),
                              static_cast<int64_t>(written), target_));
  }
  Times of(const std::vector<KernelGraph> &graphs) {
    Times times;
    for (const KernelGraph &graph : graphs)
      add(times, &graph);
    return times;
  }

private:
  const ir::Module &module_;
  const scheduler::Group &group_;
  const target::Target &target_;
  const symbolic::Substitution &values_;
  const size_t known_ = module_.buffers.size(); // those behind are of one way, and go again
  ir::Module numbers_;
};

// ---- what may be done

/// One way: values that are stored first, in an order of the loops (outermost first); results that
/// are stored in such an order, and then turned; or a loop whose elements become parts of rows; or
/// rows in parts though a kernel of whole rows has blocks enough.
struct Way {
  std::vector<ValueId> values, results;
  std::vector<size_t> order;
  size_t divided = kNone; // among the element loops
  bool in_parts = false;

  bool is_none() const {
    return values.empty() && results.empty() && divided == kNone && !in_parts;
  }
};

class Ways {
public:
  Ways(const ir::Module &module, const KernelGraph &graph)
      : module_(module), graph_(graph), loops_(graph), large_(graph.values.size(), false),
        unit_(graph.values.size(), kNone) {
    for (ValueId id = 0; id < graph.values.size(); ++id) {
      const Value &value = graph[id];
      if (value.buffer == ir::kNone || value.level != Level::element)
        continue;
      large_[id] = bytes_of(module, loops_, value) >= kFewestBytes;
      unit_[id] = unit_loop(value.index, loops_.variables, loops_.sizes);
    }
  }

  std::vector<Way> find() {
    std::vector<Way> ways;
    std::vector<size_t> units;
    for (ValueId id = 0; id < graph_.values.size(); ++id)
      if (large_[id] && unit_[id] != kNone &&
          std::find(units.begin(), units.end(), unit_[id]) == units.end())
        units.push_back(unit_[id]);
    if (std::find(units.begin(), units.end(), loops_.variables.size() - 1) == units.end())
      units.push_back(loops_.variables.size() - 1);
    for (const size_t unit : units) {
      const std::vector<size_t> order = order_along(unit);
      for (const std::vector<ValueId> &values :
           {loads_along_others(unit), closed(unit, false), closed(unit, true)}) {
        const auto same = [&](const Way &way) {
          return way.values == values && way.order == order;
        };
        if (!values.empty() && values.size() <= kMostLaidOut &&
            std::none_of(ways.begin(), ways.end(), same))
          ways.push_back({values, {}, order, kNone, false});
      }
      if (Way turned = results_along(unit, order); !turned.results.empty())
        ways.push_back(std::move(turned));
    }
    for (size_t i = 0; i < graph_.element_variables.size(); ++i)
      if (may_divide(units, i))
        ways.push_back({{}, {}, {}, i, false});
    ways.push_back({{}, {}, {}, kNone, true});
    return ways;
  }

private:
  const ir::Module &module_;
  const KernelGraph &graph_;
  Loops loops_;
  std::vector<bool> large_; // accesses of memory worth a kernel
  std::vector<size_t> unit_;

  bool is_stored(BufferId buffer) const {
    return std::any_of(graph_.stores.begin(), graph_.stores.end(), [&](ValueId id) {
      return module_.storage_of(graph_[id].buffer) == module_.storage_of(buffer);
    });
  }
  bool is_movable(const Value &value) const {
    return value.args.empty() && value.guard == ir::kNone && value.phase == 0 &&
           !is_stored(value.buffer);
  }

  /// The order of the largest access that is contiguous along `unit`.
  std::vector<size_t> order_along(size_t unit) const {
    const Value *model = nullptr;
    for (ValueId id = 0; id < graph_.values.size(); ++id)
      if (large_[id] && unit_[id] == unit &&
          (!model || loops_.points(graph_[id].index) > loops_.points(model->index)))
        model = &graph_[id];
    std::vector<size_t> order(loops_.variables.size());
    for (size_t i = 0; i < order.size(); ++i)
      order[i] = i;
    const auto step = [&](size_t loop) {
      const Expr variable = loops_.variables[loop];
      if (!symbolic::depends_on(model->index, variable))
        return std::numeric_limits<int64_t>::max();
      const auto found = symbolic::coefficient_of(model->index, variable);
      return found && found->is_integer() ? found->value() : std::numeric_limits<int64_t>::max();
    };
    if (model)
      std::stable_sort(order.begin(), order.end(),
                       [&](size_t a, size_t b) { return step(a) > step(b); });
    return order;
  }

  /// Where operands are contiguous along a loop of rows, the results that are so along another one.
  Way results_along(size_t unit, const std::vector<size_t> &order) const {
    Way way;
    const size_t rows = graph_.row_variables.size();
    if (unit >= rows)
      return way;
    for (const size_t loop : order)
      if (loop < rows)
        way.order.push_back(loop);
    for (const ValueId id : graph_.stores) {
      const Value &value = graph_[id];
      if (value.level == Level::row && value.guard == ir::kNone && value.args.size() == 1 &&
          bytes_of(module_, loops_, value) >= kFewestBytes &&
          unit_loop(value.index, loops_.variables, loops_.sizes) != unit)
        way.results.push_back(id);
    }
    return way;
  }

  std::vector<ValueId> loads_along_others(size_t unit) const {
    std::vector<ValueId> result;
    for (ValueId id = 0; id < graph_.values.size(); ++id)
      if (graph_[id].op == Op::load && large_[id] && unit_[id] != unit && is_movable(graph_[id]))
        result.push_back(id);
    return result;
  }

  /// The last values that are computed from loads along other loops (`all`: and from any others):
  /// what the rest of the kernel takes of them.
  std::vector<ValueId> closed(size_t unit, bool all) const {
    const size_t count = graph_.values.size();
    std::vector<bool> turned(count, false), fits(count, false), asked(count, false);
    for (ValueId id = 0; id < count; ++id) {
      const Value &value = graph_[id];
      const bool computes = ir::operand_count(value.op) > 0 || value.op == Op::constant ||
                            value.op == Op::index_expr || value.op == Op::where;
      if (value.op == Op::load) {
        const bool other = large_[id] && unit_[id] != unit;
        turned[id] = other;
        fits[id] = is_movable(value) && (all || other || !large_[id]);
        continue;
      }
      fits[id] = computes && !ir::is_random(value.op) && value.guard == ir::kNone &&
                 value.phase == 0 && value.op != Op::reduction;
      for (const ValueId arg : value.args) {
        fits[id] = fits[id] && fits[arg];
        turned[id] = turned[id] || turned[arg];
      }
    }
    const auto is_closed = [&](ValueId id) {
      return fits[id] && turned[id] && graph_[id].level == Level::element && !is_store(graph_[id]);
    };
    for (ValueId id = 0; id < count; ++id)
      for (const ValueId arg : graph_[id].args)
        asked[arg] = asked[arg] || !is_closed(id);
    std::vector<ValueId> result;
    for (ValueId id = 0; id < count; ++id) {
      if (!asked[id] || !is_closed(id))
        continue;
      ValueId narrow = id; // what was made wider is stored as it was
      while (graph_[narrow].op == Op::to_dtype &&
             tensor::size_in_bytes(graph_[graph_[narrow].args[0]].dtype) <
                 tensor::size_in_bytes(graph_[narrow].dtype) &&
             is_closed(graph_[narrow].args[0]))
        narrow = graph_[narrow].args[0];
      if (std::find(result.begin(), result.end(), narrow) == result.end())
        result.push_back(narrow);
    }
    return result;
  }

  /// Whether some large operands are contiguous along element loop `loop`, and others along another
  /// element loop.
  bool may_divide(const std::vector<size_t> &units, size_t loop) const {
    const size_t rows = graph_.row_variables.size();
    const auto size = graph_.element_sizes[loop].as_integer();
    const bool keeps_order =
        std::any_of(graph_.values.begin(), graph_.values.end(), [](const Value &value) {
          return value.op == Op::reduction && (value.reduction == ir::ReductionKind::argmax ||
                                               value.reduction == ir::ReductionKind::argmin);
        });
    return size && *size >= kFewestDivided && *size <= kMostDivided &&
           graph_.element_variables.size() > 1 && (loop == 0 || !keeps_order) &&
           std::find(units.begin(), units.end(), rows + loop) != units.end() &&
           std::any_of(units.begin(), units.end(),
                       [&](size_t unit) { return unit >= rows && unit != rows + loop; });
  }
};

// ---- doing it

/// Merges loops that all indices let merge, and gives them their names.
void merge(KernelGraph &graph, bool rows) {
  std::vector<Expr> &variables = rows ? graph.row_variables : graph.element_variables,
                    &sizes = rows ? graph.row_sizes : graph.element_sizes;
  std::vector<Expr> indices;
  for (const Value &value : graph.values)
    indices.push_back(value.index);
  const symbolic::MergedLoops merged =
      symbolic::merge_loops(variables, sizes, indices,
                            rows            ? symbolic::SymbolSort::row
                            : graph.reduces ? symbolic::SymbolSort::reduced
                                            : symbolic::SymbolSort::dimension,
                            graph.ranges);
  symbolic::Substitution names;
  for (size_t i = 0; i < variables.size(); ++i)
    names.emplace(variables[i], merged.old_variables[i]);
  for (size_t i = 0; i < merged.variables.size(); ++i)
    graph.ranges.set_size(merged.variables[i], merged.sizes[i]);
  for (Value &value : graph.values)
    value.index = symbolic::simplify(symbolic::substitute(value.index, names), graph.ranges);
  variables = merged.variables;
  sizes = merged.sizes;
}

/// Loops that `id`, or what it is computed from, depends on.
std::vector<bool> loops_of(const KernelGraph &graph, const Loops &loops, ValueId id) {
  std::vector<bool> needed(graph.values.size(), false), result(loops.variables.size(), false);
  needed[id] = true;
  for (ValueId next = id + 1; next-- > 0;) {
    if (!needed[next])
      continue;
    for (const ValueId arg : graph[next].args)
      needed[arg] = true;
    for (size_t i = 0; i < result.size(); ++i)
      result[i] = result[i] || symbolic::depends_on(graph[next].index, loops.variables[i]);
  }
  return result;
}

/// 16-bit floats that are computed are held as floats.
DType stored_dtype(const KernelGraph &graph, ValueId id) {
  const Value &value = graph[id];
  const bool rounded = value.op == Op::load || value.op == Op::to_dtype;
  return tensor::is_reduced_float(value.dtype) && !rounded ? DType::f32 : value.dtype;
}

/// Makes `id` of `graph` a load of a new buffer; the kernel that fills that.
KernelGraph lay_out_value(ir::Module &module, KernelGraph &graph, ValueId id,
                          std::span<const size_t> order) {
  const Loops loops(graph);
  const std::vector<bool> needed = loops_of(graph, loops, id);
  KernelGraph filling = graph;
  filling.row_variables.clear();
  filling.row_sizes.clear();
  filling.element_variables.clear();
  filling.element_sizes.clear();
  for (const size_t loop : order)
    if (needed[loop]) {
      filling.element_variables.push_back(loops.variables[loop]);
      filling.element_sizes.push_back(loops.sizes[loop]);
    }
  ir::Buffer buffer;
  buffer.name = "laid" + std::to_string(module.buffers.size());
  buffer.dtype = stored_dtype(graph, id);
  buffer.layout = tensor::contiguous_layout(filling.element_sizes);
  buffer.role = ir::Buffer::Role::computed;
  module.buffers.push_back(buffer);

  Value store;
  store.op = Op::store;
  store.dtype = buffer.dtype;
  store.buffer = static_cast<BufferId>(module.buffers.size() - 1);
  store.args = {id};
  store.index = buffer.layout.linear_index(filling.element_variables);
  Value load = store;
  load.op = Op::load;
  load.args.clear();
  graph.values[id] = std::move(load);
  filling.values.push_back(std::move(store));
  filling.stores = {static_cast<ValueId>(filling.values.size() - 1)};
  filling.reduces = false;
  remove_dead_values(filling);
  merge(filling, false);
  assign_phases(filling);
  return filling;
}

/// Makes the store `id` of `graph` one to a new buffer, its rows in `order`; the kernel that stores
/// from there what it stored.
KernelGraph turn_result(ir::Module &module, KernelGraph &graph, ValueId id,
                        std::span<const size_t> order) {
  std::vector<Expr> variables, sizes;
  for (const size_t loop : order) {
    variables.push_back(graph.row_variables[loop]);
    sizes.push_back(graph.row_sizes[loop]);
  }
  ir::Buffer buffer;
  buffer.name = "laid" + std::to_string(module.buffers.size());
  buffer.dtype = module.buffer(graph[id].buffer).dtype;
  buffer.layout = tensor::contiguous_layout(sizes);
  buffer.role = ir::Buffer::Role::computed;
  module.buffers.push_back(buffer);

  KernelGraph turning = graph;
  turning.row_variables.clear();
  turning.row_sizes.clear();
  turning.element_variables = graph.row_variables;
  turning.element_sizes = graph.row_sizes;
  turning.reduces = false;
  Value load, store;
  load.op = Op::load;
  load.dtype = buffer.dtype;
  load.buffer = static_cast<BufferId>(module.buffers.size() - 1);
  load.index = buffer.layout.linear_index(variables);
  store.op = Op::store;
  store.dtype = graph[id].dtype;
  store.buffer = graph[id].buffer;
  store.index = graph[id].index;
  store.args = {0};
  graph.values[id].buffer = load.buffer;
  graph.values[id].index = load.index;
  turning.values = {std::move(load), std::move(store)};
  turning.stores = {1};
  merge(turning, false);
  assign_phases(turning);
  return turning;
}

/// What is left once operands lie as they should.
void tidy(const ir::Module &module, KernelGraph &graph) {
  remove_dead_values(graph);
  merge(graph, true);
  merge(graph, false);
  order_row_elements(module, graph);
  order_rows(module, graph);
  assign_phases(graph);
}

/// `splits`: where rows are few, the kernels over their parts.
std::vector<KernelGraph> follow(ir::Module &module, const KernelGraph &graph, const Way &way,
                                const target::Target &target, bool splits) {
  std::vector<KernelGraph> result;
  if (way.in_parts) {
    auto parts = split_rows(module, graph, target, Rows::any);
    return parts ? *std::move(parts) : std::vector{graph};
  }
  KernelGraph rest = graph;
  if (way.divided != kNone) {
    const auto at = static_cast<ptrdiff_t>(way.divided);
    for (std::vector<Expr> *list : {&rest.element_variables, &rest.element_sizes})
      std::rotate(list->begin(), list->begin() + at, list->begin() + at + 1);
    result = graphs_of_parts(module, rest, {rest.element_sizes[0], 1});
    for (KernelGraph &part : result) {
      if (part.reduces) {
        order_rows(module, part);
        assign_phases(part);
      }
    }
    return result;
  }
  for (const ValueId id : way.values)
    result.push_back(lay_out_value(module, rest, id, way.order));
  std::vector<KernelGraph> turning;
  for (const ValueId id : way.results)
    turning.push_back(turn_result(module, rest, id, way.order));
  tidy(module, rest);
  std::optional<std::vector<KernelGraph>> parts;
  if (splits)
    parts = split_rows(module, rest, target);
  if (parts)
    std::move(parts->begin(), parts->end(), std::back_inserter(result));
  else
    result.push_back(std::move(rest));
  std::move(turning.begin(), turning.end(), std::back_inserter(result));
  return result;
}

bool is_simple(const KernelGraph &graph) {
  return graph.reduces && !graph.element_variables.empty() && !graph.rows().is_integer(0) &&
         !graph.elements().is_integer(0) &&
         std::none_of(graph.values.begin(), graph.values.end(), [](const Value &value) {
           return value.op == Op::set_indirect || value.op == Op::scan || value.op == Op::sort ||
                  (is_store(value) && value.mode != ir::StoreMode::plain);
         });
}

std::string microseconds(double nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f us", nanoseconds / 1000);
  return text;
}

std::string reason(const ir::Module &module, const KernelGraph &graph, const Way &way,
                   double before, double after) {
  std::string text;
  if (way.in_parts) {
    text = "rows are reduced in parts, and their elements computed by another kernel";
  } else if (!way.results.empty()) {
    for (const ValueId id : way.results)
      text += (text.empty() ? "" : " and ") + module.buffer(graph[id].buffer).name;
    text += " stored as operands lie, and turned by another kernel";
  } else if (way.divided != kNone) {
    text = "rows are divided along a loop that some operands are contiguous along, others along "
           "another one";
  } else {
    for (const ValueId id : way.values)
      text += (text.empty() ? "" : " and ") + (graph[id].op == Op::load
                                                   ? module.buffer(graph[id].buffer).name
                                                   : "what is computed from operands");
    text += " laid out as the kernel behind reads, others being contiguous along another loop";
  }
  return text + ": " + microseconds(after) + " estimated, " + microseconds(before) + " without";
}

} // namespace

bool may_lay_out(const ir::Module &module, const scheduler::Group &group,
                 const target::Target &target) {
  if (target.is_host || group.node_class != scheduler::NodeClass::scheduler ||
      group.list != ir::kNone)
    return false;
  constexpr size_t kOpen = kNone - 1; // no access yet
  size_t unit = kOpen;
  bool differs = false, reduces = false, stores = false;
  for (const ir::LoopBody &body : group.bodies)
    for (const ir::BodyOp &op : body.ops) {
      if (op.op == Op::set_indirect || op.op == Op::scan || op.op == Op::sort)
        return false;
      reduces = reduces || op.op == Op::store_reduction;
      if ((op.op != Op::load && op.op != Op::store && op.op != Op::store_reduction) ||
          op.buffer == ir::kNone)
        continue;
      double bytes = static_cast<double>(tensor::size_in_bytes(module.buffer(op.buffer).dtype));
      const Expr index = body.indices[op.index];
      for (size_t i = 0; i < body.variables.size(); ++i)
        if (symbolic::depends_on(index, body.variables[i]))
          bytes *= static_cast<double>(likely(module, body.sizes[i]).value_or(1));
      if (bytes < kFewestBytes)
        continue;
      stores = stores || (op.op == Op::store && bytes >= kFewestStored);
      const size_t found = unit_loop(index, body.variables, body.sizes);
      differs = differs || found == kNone || (unit != kOpen && unit != found);
      unit = found;
    }
  return reduces && (differs || stores);
}

std::optional<LaidOut> lay_out(ir::Module &module, const scheduler::Group &group,
                               const target::Target &target,
                               const std::vector<KernelGraph> *split) {
  const KernelGraph forms[] = {build_kernel_graph(module, group, {.two_pass_statistics = false}),
                               build_kernel_graph(module, group, {.two_pass_statistics = true})};
  const auto values = likely_values(module, forms[0]);
  if (!is_simple(forms[0]) || !values)
    return std::nullopt;
  const bool one_form = forms[0].values == forms[1].values;
  scheduler::Group apart = group; // what one kernel reads and the other writes shares no memory
  apart.inplace.clear();
  Estimates estimates(module, apart, target, *values);
  Times before;
  if (split)
    before = estimates.of(*split);
  else
    estimates.add(before, nullptr);
  if (!before.is_known || before.planned < kSlow * before.roof + kLeastGained)
    return std::nullopt;
  double least = std::min(kLeastGain * before.planned, before.planned - kLeastGained);
  Way best;
  size_t best_form = 0;
  const size_t buffers = module.buffers.size();
  for (size_t form = 0; form < (one_form ? 1 : 2); ++form) {
    const KernelGraph numeric = with_numbers(forms[form], *values);
    for (Way &way : Ways(estimates.numbers(), numeric).find()) {
      if ((form > 0 && (way.divided != kNone || way.in_parts)) || (split && way.in_parts))
        continue;
      const Times times = estimates.of(follow(module, forms[form], way, target, form == 0));
      module.buffers.resize(buffers);
      if (!times.is_known || times.planned >= least)
        continue;
      least = times.planned;
      best = std::move(way);
      best_form = form;
    }
  }
  if (best.is_none())
    return std::nullopt;
  LaidOut result;
  result.why = reason(module, forms[best_form], best, before.planned, least);
  result.graphs = follow(module, forms[best_form], best, target, best_form == 0);
  return result;
}

} // namespace tsc::codegen
