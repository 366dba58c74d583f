#include "codegen/likely_sizes.h"

#include "codegen/estimate_kernel.h"
#include "codegen/lay_out.h"
#include "codegen/split_rows.h"
#include "graph/symbol_names.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>

namespace tsc::codegen {

namespace {

using Symbols = std::set<Expr, symbolic::ExprLess>;

constexpr double kLaunch = 1000; // nanoseconds in which any kernel begins and ends

void note(Symbols &symbols, Expr e) {
  for (const Expr symbol : symbolic::free_symbols(e))
    if (symbol.is_symbol(symbolic::SymbolSort::size))
      symbols.insert(symbol);
}
void note(Symbols &symbols, const tensor::Layout &layout) {
  for (const std::vector<Expr> *list : {&layout.sizes, &layout.strides})
    for (const Expr e : *list)
      note(symbols, e);
  note(symbols, layout.offset);
}

/// The likely values of symbols; nothing where there is none, or one of them has none.
std::optional<Sizes> likely_values(const ir::Module &module, const Symbols &symbols) {
  Sizes sizes;
  for (const Expr symbol : symbols) {
    const std::optional<int64_t> value = likely(module, symbol);
    if (!value)
      return std::nullopt;
    sizes.emplace_back(symbol, *value);
  }
  return sizes.empty() ? std::nullopt : std::optional(sizes);
}

/// Puts numbers into what plans are made of.
class Fixing {
public:
  explicit Fixing(const Sizes &sizes) : sizes_(sizes) {
    for (const auto &[symbol, value] : sizes)
      numbers_.emplace(symbol, Expr(value));
  }

  Expr of(Expr e) const { return symbolic::substitute(e, numbers_); }
  void fix(Expr &e) const { e = of(e); }
  void fix(std::vector<Expr> &list) const {
    for (Expr &e : list)
      fix(e);
  }
  void fix(tensor::Layout &layout) const {
    fix(layout.sizes);
    fix(layout.strides);
    fix(layout.offset);
  }

  symbolic::Ranges ranges(symbolic::Ranges ranges) const {
    for (const auto &[symbol, value] : sizes_)
      ranges.set(symbol, {value, value});
    return ranges;
  }

  void fix(ir::LoopBody &body, const symbolic::Ranges &of_symbols) const {
    fix(body.sizes);
    symbolic::Ranges ranges = of_symbols;
    for (size_t i = 0; i < body.variables.size(); ++i)
      ranges.set_size(body.variables[i], body.sizes[i]);
    for (Expr &index : body.indices)
      index = symbolic::simplify(of(index), ranges);
    for (ir::BodyOp &op : body.ops)
      fix(op.extent);
  }

  /// What kernels over loops are planned from: without the loops' own nodes.
  ir::Module module(const ir::Module &module) const {
    ir::Module fixed;
    fixed.name = module.name;
    fixed.operations = module.operations;
    fixed.inputs = module.inputs;
    fixed.origins = module.origins;
    fixed.lists = module.lists;
    fixed.symbols = module.symbols;
    fixed.checks = module.checks;
    fixed.assertions = module.assertions;
    fixed.ranges = ranges(module.ranges);
    fixed.windows = module.windows;
    for (ir::Windows &windows : fixed.windows) {
      fix(windows.batch);
      fix(windows.sizes);
      fix(windows.positions);
    }
    add_buffers(module, fixed);
    return fixed;
  }
  /// Those that `module` has more.
  void add_buffers(const ir::Module &module, ir::Module &fixed) const {
    for (size_t id = fixed.buffers.size(); id < module.buffers.size(); ++id) {
      fixed.buffers.push_back(module.buffers[id]);
      fix(fixed.buffers.back().layout);
    }
  }

  scheduler::Group group(scheduler::Group group, const ir::Module &fixed) const {
    fix(group.numel);
    fix(group.reduction_numel);
    fix(group.iteration_sizes);
    fix(group.reduction_sizes);
    for (ir::LoopBody &body : group.bodies)
      fix(body, fixed.ranges);
    return group;
  }

  /// As far as estimates look at it.
  void fix(KernelPlan &plan) const {
    KernelGraph &graph = plan.graph;
    graph.ranges = ranges(std::move(graph.ranges));
    const auto fix_loops = [&](const std::vector<Expr> &variables, std::vector<Expr> &sizes) {
      for (size_t i = 0; i < variables.size(); ++i) {
        sizes[i] = symbolic::simplify(of(sizes[i]), graph.ranges);
        graph.ranges.set_size(variables[i], sizes[i]);
      }
    };
    fix_loops(graph.row_variables, graph.row_sizes);
    fix_loops(graph.element_variables, graph.element_sizes);
    for (Value &value : graph.values) {
      value.index = symbolic::simplify(of(value.index), graph.ranges);
      fix(value.extent);
    }
    if (graph.look_back)
      for (Expr *e : {&graph.look_back->part, &graph.look_back->row, &graph.look_back->parts,
                      &graph.look_back->rows})
        fix(*e);
    fix(plan.grid);
    fix(plan.turns);
    if (plan.origin)
      fix(*plan.origin);
  }

private:
  const Sizes &sizes_;
  symbolic::Substitution numbers_;
};

Symbols symbols_of(const KernelPlan &plan) {
  Symbols symbols;
  note(symbols, plan.grid);
  for (const std::vector<Expr> *sizes : {&plan.graph.row_sizes, &plan.graph.element_sizes})
    for (const Expr size : *sizes)
      note(symbols, size);
  for (const Value &value : plan.graph.values) {
    note(symbols, value.index);
    note(symbols, value.extent);
  }
  return symbols;
}

Symbols symbols_of(const ir::Module &module, const scheduler::Group &group) {
  Symbols symbols;
  for (const ir::LoopBody &body : group.bodies) {
    for (const std::vector<Expr> *list : {&body.sizes, &body.indices})
      for (const Expr e : *list)
        note(symbols, e);
    for (const ir::BodyOp &op : body.ops) {
      note(symbols, op.extent);
      if (op.buffer != ir::kNone)
        note(symbols, module.buffer(op.buffer).layout);
    }
  }
  return symbols;
}

/// The path that the launch chooses.
const KernelPlan &chosen_path(const KernelPlan &plan, const Fixing &fixing) {
  if (!plan.otherwise)
    return plan;
  const bool holds =
      std::all_of(plan.checked.sizes.begin(), plan.checked.sizes.end(), [&](Expr size) {
        const auto value = fixing.of(size).as_integer();
        return value && *value % plan.checked.of == 0;
      });
  return holds ? plan : *plan.otherwise;
}

/// Nanoseconds of kernels one after the other; nothing where one is not known.
std::optional<double> time_of(const std::vector<BuiltKernel> &kernels) {
  double time = 0;
  for (const BuiltKernel &built : kernels) {
    if (!built.kernel.estimate.is_known)
      return std::nullopt;
    time += kLaunch + built.kernel.estimate.planned();
  }
  return time;
}

/// That no kernels in their place can undercut: what one of them moves and computes.
double least_time_of(const std::vector<BuiltKernel> &kernels) {
  double least = 0;
  for (const BuiltKernel &built : kernels)
    least = std::max(least, built.kernel.estimate.roof());
  return kLaunch + least;
}

std::string text_of(const ir::Module &module, const Sizes &sizes) {
  std::string text;
  for (const auto &[symbol, value] : sizes)
    text += (text.empty() ? "" : ", ") +
            symbolic::print(symbol, graph::symbol_writer(module.symbols)) + " = " +
            std::to_string(value);
  return text;
}

/// Kernels that do nothing where `when` is 0.
void run_where(std::vector<BuiltKernel> &kernels, Expr when, const std::string &text) {
  for (BuiltKernel &built : kernels) {
    program::Kernel &kernel = built.kernel;
    for (program::KernelVariant *variant : {&kernel.cuda, &kernel.serial})
      variant->grid[0] *= when;
    kernel.plan += text;
    built.content += symbolic::print(when);
    built.inplace.clear(); // the one that does nothing still counts as a reader
  }
}

/// Memory that has no bytes where `when` is 0: `first` and those behind it.
void keep_where(ir::Module &module, size_t first, size_t end, Expr when) {
  for (size_t id = first; id < end; ++id) {
    std::vector<Expr> &sizes = module.buffers[id].layout.sizes;
    if (!sizes.empty())
      sizes[0] *= when;
  }
}

/// A group's kernels with numbers for some of its symbols.
class KernelsOfSizes {
public:
  KernelsOfSizes(const ir::Module &module, const scheduler::Schedule &schedule,
                 const scheduler::Group &group, const target::Target &target, Tuning *tuning,
                 Sizes sizes)
      : sizes(std::move(sizes)), fixing_(this->sizes), module(fixing_.module(module)) {
    const scheduler::Group fixed = fixing_.group(group, this->module);
    const std::optional<InParts> parts = divide(this->module, fixed, target);
    kernels = build_kernels(this->module, schedule, fixed, target, parts ? &parts->graphs : nullptr,
                            parts ? parts->why : "", tuning);
    time = time_of(kernels);
  }

  Sizes sizes;

private:
  Fixing fixing_;

public:
  ir::Module module; // with the buffers between the kernels
  std::vector<BuiltKernel> kernels;
  std::optional<double> time;
};

} // namespace

Expr are(const Sizes &sizes) {
  Expr all = 1;
  for (const auto &[symbol, value] : sizes)
    all *= Expr(1) - symbolic::minimum(
                         Expr(1), symbolic::maximum(symbol - Expr(value), Expr(value) - symbol));
  return all;
}

program::KernelEstimate estimate_likely(const ir::Module &module, const KernelPlan &plan, Expr read,
                                        Expr written, const target::Target &target) {
  const std::optional<Sizes> sizes = likely_values(module, symbols_of(plan));
  if (!sizes || target.is_host)
    return {};
  const Fixing fixing(*sizes);
  const KernelPlan chosen = chosen_path(plan, fixing);
  KernelPlan fixed = chosen;
  fixing.fix(fixed);
  ir::Module buffers; // those that the kernel sees
  buffers.buffers.resize(module.buffers.size());
  for (const Value &value : fixed.graph.values)
    if (value.buffer != ir::kNone) {
      buffers.buffers[value.buffer] = module.buffer(value.buffer);
      fixing.fix(buffers.buffers[value.buffer].layout);
    }
  return estimate_kernel(buffers, fixed, fixing.of(read), fixing.of(written), target,
                         &chosen.graph);
}

std::vector<BuiltKernel> build_kernels(const ir::Module &module,
                                       const scheduler::Schedule &schedule,
                                       const scheduler::Group &group, const target::Target &target,
                                       const std::vector<KernelGraph> *given,
                                       const std::string &why, Tuning *tuning) {
  std::vector<BuiltKernel> kernels;
  if (!given) {
    kernels.push_back(build_kernel(module, schedule, group, target, nullptr, tuning));
    return kernels;
  }
  scheduler::Group apart = group; // what one kernel reads and the other writes shares no memory
  apart.inplace.clear();
  for (const KernelGraph &graph : *given)
    kernels.push_back(
        build_kernel(module, schedule, graph.look_back ? group : apart, target, &graph, tuning));
  if (!why.empty())
    kernels.front().kernel.plan += "; " + why;
  return kernels;
}

std::optional<InParts> divide(ir::Module &module, const scheduler::Group &group,
                              const target::Target &target) {
  std::optional<InParts> parts;
  if (may_split_rows(group, target))
    if (auto split = split_rows(module, group, target))
      parts = InParts{std::move(*split), ""};
  if (may_lay_out(module, group, target))
    if (auto laid = lay_out(module, group, target, parts ? &parts->graphs : nullptr))
      parts = InParts{std::move(laid->graphs), std::move(laid->why)};
  return parts;
}

bool may_divide(const ir::Module &module, const scheduler::Group &group,
                const target::Target &target) {
  return may_split_rows(group, target) || may_lay_out(module, group, target);
}

bool may_build_by_sizes(const ir::Module &module, const scheduler::Group &group,
                        const target::Target &target) {
  if (target.is_host || group.node_class != scheduler::NodeClass::scheduler ||
      group.list != ir::kNone || module.symbols.empty())
    return false;
  return !symbols_of(module, group).empty();
}

std::vector<BuiltKernel> build_by_sizes(ir::Module &module, const scheduler::Schedule &schedule,
                                        const scheduler::Group &group, const target::Target &target,
                                        const InParts *parts, Tuning *tuning) {
  constexpr double kWorth = 0.7;  // of the time before: estimates are right within a third
  constexpr double kNeeded = 1.1; // of the best time: what a symbol may cost that stays one
  std::vector<BuiltKernel> any =
      build_kernels(module, schedule, group, target, parts ? &parts->graphs : nullptr,
                    parts ? parts->why : "", tuning);
  std::optional<Sizes> sizes = likely_values(module, symbols_of(module, group));
  const std::optional<double> before = time_of(any);
  if (!sizes || !before || kWorth * *before < least_time_of(any))
    return any;
  const auto of = [&](Sizes fixed) {
    return std::make_unique<KernelsOfSizes>(module, schedule, group, target, tuning,
                                            std::move(fixed));
  };
  std::unique_ptr<KernelsOfSizes> best = of(*sizes);
  if (!best->time || *best->time > kWorth * *before)
    return any;
  // The largest one first: batches and lengths are what changes most often.
  std::stable_sort(sizes->begin(), sizes->end(),
                   [](const auto &a, const auto &b) { return a.second > b.second; });
  const double most = std::min(kNeeded * *best->time, kWorth * *before);
  for (const auto &[symbol, value] : *sizes) {
    Sizes fewer = best->sizes;
    std::erase_if(fewer, [&, symbol = symbol](const auto &one) { return one.first == symbol; });
    if (fewer.empty())
      break;
    std::unique_ptr<KernelsOfSizes> other = of(std::move(fewer));
    if (other->time && *other->time <= most)
      best = std::move(other);
  }
  const Expr when = are(best->sizes), otherwise = Expr(1) - when;
  const std::string text = text_of(module, best->sizes);
  run_where(any, otherwise, "; where not " + text);
  run_where(best->kernels, when, "; where " + text);
  const size_t first = module.buffers.size();
  for (size_t id = first; id < best->module.buffers.size(); ++id)
    module.buffers.push_back(best->module.buffers[id]);
  keep_where(module, first, module.buffers.size(), when);
  any.insert(any.end(), std::make_move_iterator(best->kernels.begin()),
             std::make_move_iterator(best->kernels.end()));
  return any;
}

} // namespace tsc::codegen
