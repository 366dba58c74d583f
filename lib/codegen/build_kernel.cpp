#include "codegen/build_kernel.h"

#include "codegen/alignment.h"
#include "codegen/estimate_kernel.h"
#include "codegen/kernel_words.h"
#include "codegen/likely_sizes.h"
#include "codegen/precompute_sizes.h"
#include "graph/symbol_names.h"
#include "support/diagnostic.h"
#include "support/hash.h"
#include "support/text.h"

#include <algorithm>
#include <set>

namespace tsc::codegen {

namespace {

using ir::Op;
using symbolic::SymbolSort;

/// Adds the checks of a graph's run-time indices, each once.
void add_checks(const KernelGraph &graph, std::vector<uint32_t> &checks) {
  for (const Value &value : graph.values)
    if (value.op == Op::set_indirect &&
        std::find(checks.begin(), checks.end(), value.check) == checks.end())
      checks.push_back(value.check);
}

/// Symbols of sizes that a kernel's text may mention.
void add_sizes(const KernelGraph &graph, std::set<Expr, symbolic::ExprLess> &sizes) {
  const auto add = [&](Expr e) {
    for (const Expr symbol : symbolic::free_symbols(e)) {
      const auto is = [&](std::span<const Expr> variables) {
        return std::find(variables.begin(), variables.end(), symbol) != variables.end();
      };
      const bool runtime =
          std::any_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
            return value.op == Op::set_indirect && value.symbol == symbol;
          });
      if (is(graph.row_variables) || is(graph.element_variables) || runtime)
        continue;
      const auto sort = symbol.sort();
      support::require(sort == SymbolSort::size || sort == SymbolSort::data ||
                           sort == SymbolSort::computed_size,
                       "codegen", "a kernel mentions " + symbol.spelling() + ", which is no size");
      sizes.insert(symbol);
    }
  };
  for (const Value &value : graph.values) {
    add(value.index);
    add(value.extent);
  }
  for (const auto *list : {&graph.row_sizes, &graph.element_sizes})
    std::for_each(list->begin(), list->end(), add);
  if (graph.look_back)
    for (const Expr &e : {graph.look_back->part, graph.look_back->row, graph.look_back->parts,
                          graph.look_back->rows})
      add(e);
}

/// Symbols that a kernel declares are of the sorts that kernels have, so that they spell nothing
/// else there.
void check_sorts(const KernelGraph &graph) {
  const auto check = [](Expr symbol) {
    const auto *end = std::end(kKernelSorts);
    support::require(std::find(std::begin(kKernelSorts), end, symbol.sort()) != end, "codegen",
                     "a kernel declares " + symbol.spelling());
  };
  std::for_each(graph.row_variables.begin(), graph.row_variables.end(), check);
  std::for_each(graph.element_variables.begin(), graph.element_variables.end(), check);
  for (const Value &value : graph.values)
    if (value.op == Op::set_indirect)
      check(value.symbol);
}

/// What tc_quotient multiplies by instead of dividing by `divisor`: 0 where positions, of `count`
/// elements, may not fit.
Expr inverse_of(Expr divisor, Expr count) {
  constexpr int64_t kOne = int64_t{1} << 62, kMost = int64_t{1} << 30; // runs may go past the end
  const Expr fits = Expr(1) - symbolic::minimum(Expr(1), symbolic::floor_div(count, Expr(kMost)));
  return (symbolic::floor_div(Expr(kOne), symbolic::maximum(Expr(1), divisor)) + Expr(1)) * fits;
}

/// Sizes of symbols that a kernel divides its positions of 64 bits by, and their inverses.
void add_inverses(const KernelPlan &plan, const std::vector<PrecomputedSize> &computed,
                  std::vector<std::pair<Expr, Expr>> &result) {
  if (!plan.wide_index)
    return;
  const KernelGraph &graph = plan.graph;
  symbolic::Substitution values;
  for (const PrecomputedSize &size : computed)
    values.emplace(size.symbol, size.value);
  const auto add = [&](const std::vector<Expr> &sizes, Expr count) {
    if (graph.varies_by_row(count))
      return;
    for (size_t i = 1; i < sizes.size(); ++i)
      if (!sizes[i].is_integer() &&
          std::none_of(result.begin(), result.end(),
                       [&](const auto &known) { return known.first == sizes[i]; }))
        result.emplace_back(sizes[i], inverse_of(symbolic::substitute(sizes[i], values),
                                                 symbolic::substitute(count, values)));
  };
  add(graph.row_sizes, graph.rows());
  add(graph.element_sizes, graph.elements());
}

/// Pointers in the order of their first use, inputs before outputs; sizes in name order, then what
/// the launch checks.
Parameters find_parameters(const ir::Module &module, const scheduler::Group &group,
                           const KernelPlan &serial, const KernelPlan &cuda,
                           const std::vector<PrecomputedSize> &computed) {
  const KernelGraph &graph = serial.graph;
  std::vector<BufferId> read, written;
  const auto add = [](std::vector<BufferId> &list, BufferId storage) {
    if (std::find(list.begin(), list.end(), storage) == list.end())
      list.push_back(storage);
  };
  for (const Value &value : graph.values)
    if (value.op == Op::load)
      add(read, module.storage_of(value.buffer));
    else if (is_store(value))
      add(written, module.storage_of(value.buffer));
  const auto inplace = [&](BufferId storage) {
    return std::any_of(group.inplace.begin(), group.inplace.end(), [&](const auto &pair) {
      return module.storage_of(pair.first) == storage || module.storage_of(pair.second) == storage;
    });
  };
  Parameters parameters;
  const auto push = [&](BufferId storage, const std::string &name, bool is_const) {
    parameters.list.push_back(
        {program::KernelParameter::Kind::pointer, name, module.buffer(storage).dtype, is_const});
    parameters.storages.push_back(storage);
    parameters.restricted.push_back(!inplace(storage));
  };
  size_t inputs = 0, outputs = 0;
  for (const KernelPlan *plan :
       {&serial, &cuda, static_cast<const KernelPlan *>(cuda.otherwise.get())})
    if (plan)
      add_checks(plan->graph, parameters.checks);
  for (const BufferId storage : read)
    if (std::find(written.begin(), written.end(), storage) == written.end())
      push(storage, "in" + std::to_string(inputs++), true);
  for (const BufferId storage : written)
    push(storage, "out" + std::to_string(outputs++), false);
  if (cuda.graph.look_back) {
    parameters.list.push_back(
        {program::KernelParameter::Kind::pointer, kExchange, DType::i64, false});
    parameters.storages.push_back(cuda.graph.look_back->exchange);
    parameters.restricted.push_back(false);
  }
  if (!parameters.checks.empty()) {
    parameters.list.push_back(
        {program::KernelParameter::Kind::pointer, kFailure, DType::i64, false});
    parameters.storages.push_back(ir::kNone);
    parameters.restricted.push_back(false);
  }
  const auto push_size = [&](const std::string &name, Expr value) {
    constexpr int64_t kLimit = (int64_t{1} << 31) - 1;
    const symbolic::Interval interval = symbolic::bounds(value, module.ranges);
    parameters.list.push_back({program::KernelParameter::Kind::size, name, DType::i64, true});
    parameters.sizes.push_back(value);
    const bool is_inverse = name.rfind(kInverse, 0) == 0;
    parameters.narrow.push_back(name != kMisaligned && name != kCheck && !is_inverse &&
                                interval.low >= -kLimit && interval.high <= kLimit);
  };
  std::set<Expr, symbolic::ExprLess> sizes;
  for (const KernelPlan *plan :
       {&serial, &cuda, static_cast<const KernelPlan *>(cuda.otherwise.get())})
    if (plan)
      add_sizes(plan->graph, sizes);
  for (const Expr size : sizes) {
    const auto found = std::find_if(computed.begin(), computed.end(),
                                    [&](const auto &entry) { return entry.symbol == size; });
    push_size(size.spelling(), found == computed.end() ? size : found->value);
  }
  std::vector<std::pair<Expr, Expr>> inverses;
  for (const KernelPlan *plan : {&cuda, static_cast<const KernelPlan *>(cuda.otherwise.get())})
    if (plan)
      add_inverses(*plan, computed, inverses);
  for (const auto &[size, inverse] : inverses) {
    parameters.inverses.emplace_back(size, kInverse + std::to_string(parameters.inverses.size()));
    push_size(parameters.inverses.back().second, inverse);
  }
  if (!parameters.checks.empty())
    push_size(kCheck, number_of_check());
  if (cuda.otherwise && !cuda.checked.sizes.empty())
    push_size(kMisaligned, remainder_of(cuda.checked));
  return parameters;
}

/// Whether the place of an access is known at run time only.
bool is_indirect(const Value &value) {
  return value.op == Op::load ? !value.args.empty() : value.args.size() > 1;
}

/// Elements that an access touches: those of the loops that its index follows, the storage at most.
Expr touched_elements(const ir::Module &module, const KernelGraph &graph, const Value &value) {
  Expr count = 1;
  bool in_parts = false; // of rows: together all of it
  const auto multiply = [&](std::span<const Expr> variables, std::span<const Expr> sizes) {
    for (size_t i = 0; i < variables.size(); ++i) {
      if (!symbolic::depends_on(value.index, variables[i]))
        continue;
      if (graph.varies_by_row(sizes[i]))
        in_parts = true;
      else
        count = count * sizes[i];
    }
  };
  multiply(graph.row_variables, graph.row_sizes);
  multiply(graph.element_variables, graph.element_sizes);
  const auto storage_of = [&](const Value &access) {
    const tensor::Layout &layout = module.buffer(access.buffer).layout;
    return layout.storage_size() - layout.offset;
  };
  const Expr storage = storage_of(value);
  if (in_parts && is_indirect(value)) // as many as there are indices
    for (const Value &index : graph.values)
      if (index.op == Op::load && index.level == Level::element && !is_indirect(index))
        return storage_of(index);
  if (in_parts || (!is_indirect(value) && symbolic::known_less(storage, count, graph.ranges)))
    count = storage;
  return count;
}

/// What all accesses of a buffer touch, each of another index adding its own (windows written out,
/// pieces of a concatenation), the storage at most. Of run-time indices, and where sizes are
/// symbols, what the first access does.
class Touched {
public:
  void add(const ir::Module &module, const KernelGraph &graph, const Value &value) {
    const Expr count = touched_elements(module, graph, value);
    if (indices_.empty())
      first_ = count;
    known_ = known_ && !is_indirect(value) && count.is_integer();
    if (indices_.insert(value.index).second && known_)
      sum_ += count.value();
    const Expr storage = module.buffer(value.buffer).layout.storage_size();
    most_ = storage.is_integer() ? storage.value() : 0;
  }
  Expr elements() const {
    return known_ && most_ > 0 ? Expr(std::max(std::min(sum_, most_), first_.value())) : first_;
  }

private:
  std::set<Expr, symbolic::ExprLess> indices_;
  Expr first_ = 0;
  int64_t sum_ = 0, most_ = 0;
  bool known_ = true;
};

void count_bytes(const ir::Module &module, const KernelGraph &graph, PlannedKernel &kernel) {
  std::map<std::pair<BufferId, bool>, Touched> touched;
  for (const Value &value : graph.values)
    if (value.op == Op::load || is_store(value))
      touched[{value.buffer, is_store(value)}].add(module, graph, value);
  kernel.bytes_read = 0;
  kernel.bytes_written = 0;
  for (const auto &[access, elements] : touched) {
    const DType dtype = module.buffer(access.first).dtype;
    (access.second ? kernel.bytes_written : kernel.bytes_read) +=
        elements.elements() * Expr(static_cast<int64_t>(tensor::size_in_bytes(dtype)));
  }
}

/// "aten._softmax.default" -> "softmax".
std::string short_target(const std::string &target) {
  const std::vector<std::string> parts = support::split(target, '.');
  std::string name = parts.size() > 1 ? parts[1] : parts[0];
  while (!name.empty() && name[0] == '_')
    name.erase(0, 1);
  std::string result;
  for (const char c : name)
    result += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'
                  ? c
                  : '_';
  return result;
}

std::string stem(const std::vector<const ir::Origin *> &origins) {
  constexpr size_t kLongest = 48;
  std::vector<std::string> names;
  for (const ir::Origin *origin : origins) {
    const std::string name = short_target(origin->target);
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  }
  std::string result = "tsc";
  for (const std::string &name : names) {
    if (result.size() + name.size() + 1 > kLongest)
      break;
    result += "_" + name;
  }
  return result;
}

bool draws(const KernelGraph &graph) {
  return std::any_of(graph.values.begin(), graph.values.end(),
                     [](const Value &value) { return ir::is_random(value.op); });
}

bool has_series(const KernelGraph &graph) {
  return any_computes(graph, [](ir::Op op) { return ir::op_cost(op) == ir::OpCost::series; });
}

void include_once(std::vector<std::string_view> &includes, std::string_view file) {
  if (std::find(includes.begin(), includes.end(), file) == includes.end())
    includes.push_back(file);
}

std::string header(const program::Kernel &kernel, const std::vector<const ir::Origin *> &origins,
                   const std::string &plan, std::span<const std::string_view> further_includes) {
  constexpr size_t kMostNodes = 24;
  std::string text = "// " + kernel.name + "\n";
  std::string last_source;
  for (size_t i = 0; i < origins.size() && i < kMostNodes; ++i) {
    text += "//   " + support::comment_text(origins[i]->node + ": " + origins[i]->target) + "\n";
    const std::string source = support::comment_text(origins[i]->source_line);
    if (!source.empty() && source != last_source)
      text += "//     " + source + "\n";
    last_source = source;
  }
  if (origins.size() > kMostNodes)
    text += "//   and " + std::to_string(origins.size() - kMostNodes) + " more nodes\n";
  text += "// Reads " + symbolic::print(kernel.bytes_read) + " bytes, writes " +
          symbolic::print(kernel.bytes_written) + ".\n// Plan: " + plan +
          ".\n#include \"tsc_prelude.h\"\n";
  for (const std::string_view file : further_includes)
    text += "#include \"" + std::string(file) + "\"\n";
  return text + "\n";
}

program::KernelVariant variant(const KernelPlan &plan, std::string text) {
  program::KernelVariant result;
  result.text = std::move(text);
  result.grid[0] = plan.grid;
  result.block = {plan.block, 1, 1};
  result.has_barriers = plan.has_barriers;
  result.shared_bytes = plan.shared_bytes;
  return result;
}

/// Eight digits that follow from texts and grid.
std::string name_digits(const program::Kernel &kernel) {
  std::vector<std::string> parts = {kernel.cuda.text, kernel.serial.text,
                                    symbolic::print(kernel.cuda.grid[0])};
  for (const size_t axis : {1, 2})
    if (!kernel.cuda.grid[axis].is_integer(1))
      parts.push_back(symbolic::print(kernel.cuda.grid[axis]));
  uint64_t hash = 0xc2b2ae3d27d4eb4full;
  for (const std::string &part : parts) {
    hash = support::hash_combine(hash, ~static_cast<uint64_t>(part.size()));
    hash = support::hash_combine(hash, support::hash_bytes(part, 0x5bd1e995));
  }
  std::string digits;
  for (int shift = 60; shift > 28; shift -= 4)
    digits += "0123456789abcdef"[hash >> shift & 15];
  return digits;
}

/// Equal for kernels that are the same whatever their origins, and for no others.
std::string content_of(const program::Kernel &kernel, std::span<const std::string_view> includes) {
  std::string content;
  const auto add = [&content](std::string_view part) {
    content += std::to_string(part.size()) + ":";
    content += part;
  };
  for (const program::KernelVariant *variant : {&kernel.cuda, &kernel.serial}) {
    add(variant->text);
    for (size_t axis = 0; axis < 3; ++axis) {
      add(symbolic::print(variant->grid[axis]));
      add(std::to_string(variant->block[axis]));
    }
    add(symbolic::print(variant->shared_bytes));
    add(variant->has_barriers ? "barriers" : "");
  }
  for (const program::KernelParameter &parameter : kernel.parameters) {
    add(parameter.name);
    add(std::to_string(static_cast<int>(parameter.kind)) + " " +
        std::to_string(static_cast<int>(parameter.dtype)) + (parameter.is_const ? " const" : ""));
  }
  add("includes");
  for (const std::string_view file : includes)
    add(file);
  return content;
}

} // namespace

std::vector<const ir::Origin *> origins_of(const ir::Module &module,
                                           const scheduler::Schedule &schedule,
                                           const scheduler::Group &group) {
  std::set<uint32_t> ids;
  for (const scheduler::NodeId member : group.members) {
    const ir::Operation &operation = module.operations[schedule.nodes[member].operation];
    ids.insert(operation.origins.begin(), operation.origins.end());
  }
  std::vector<const ir::Origin *> result;
  for (const uint32_t id : ids)
    if (id < module.origins.size() && !module.origins[id].node.empty())
      result.push_back(&module.origins[id]);
  return result;
}

void finish_kernel(BuiltKernel &built, const std::vector<const ir::Origin *> &origins,
                   const std::string &serial_plan,
                   std::span<const std::string_view> further_includes) {
  program::Kernel &kernel = built.kernel;
  built.content = content_of(kernel, further_includes);
  kernel.name = stem(origins) + "_" + name_digits(kernel);
  for (const ir::Origin *origin : origins)
    kernel.origins.push_back(origin->node);
  const auto finish = [&](std::string &text, const std::string &plan) {
    text = header(kernel, origins, plan, further_includes) + text;
    support::replace_all(text, std::string(kKernelPlaceholder), kernel.name);
  };
  finish(kernel.cuda.text, kernel.plan);
  finish(kernel.serial.text, serial_plan);
}

uint32_t KernelNames::number_of(BuiltKernel &built, uint32_t next) {
  const auto [found, inserted] = numbers_.emplace(built.content, next);
  if (!inserted)
    return found->second;
  program::Kernel &kernel = built.kernel;
  const std::string hashed = kernel.name;
  for (size_t i = 2; !taken_.insert(kernel.name).second; ++i)
    kernel.name = hashed + "_" + std::to_string(i);
  if (kernel.name != hashed) // one text in 2^32, or one made for it
    for (std::string *text : {&kernel.cuda.text, &kernel.serial.text})
      support::replace_all(*text, hashed, kernel.name);
  return next;
}

Expr number_of_check() {
  static const Expr symbol = symbolic::symbol(symbolic::SymbolSort::check);
  return symbol;
}

void include_functions(const KernelGraph &graph, std::vector<std::string_view> &includes) {
  if (draws(graph))
    include_once(includes, "tc_random.h");
  if (has_series(graph))
    include_once(includes, "tc_special.h");
}

PlannedKernel plan_kernel(const ir::Module &module, const scheduler::Schedule &schedule,
                          const scheduler::Group &group, const target::Target &target,
                          const KernelGraph *given, const PlanChoice *choice) {
  PlannedKernel planned;
  planned.cuda = plan_cuda(module, group, target, given, choice);
  // One thread carries a scan along all of the row.
  planned.serial = plan_serial(module, group, given && given->look_back ? nullptr : given);
  KernelPlan &cuda = planned.cuda, &serial = planned.serial;
  count_bytes(module, serial.graph, planned); // over the program's own symbols
  planned.estimate =
      estimate_kernel(module, cuda, planned.bytes_read, planned.bytes_written, target);
  if (!planned.estimate.is_known)
    planned.estimate =
        estimate_likely(module, cuda, planned.bytes_read, planned.bytes_written, target);
  planned.origins = origins_of(module, schedule, group);
  std::vector<PrecomputedSize> computed;
  for (KernelPlan *plan : {&serial, &cuda, cuda.otherwise.get()})
    if (plan) {
      precompute_sizes(plan->graph, computed);
      check_sorts(plan->graph);
    }
  planned.parameters = find_parameters(module, group, serial, cuda, computed);
  include_functions(cuda.graph, planned.includes);
  if (cuda.graph.sorts())
    planned.includes.push_back(cuda.graph.sorts_packed() ? "tc_sort_packed.h" : "tc_sort.h");
  if (cuda.graph.look_back)
    planned.includes.push_back("tc_look_back.h");
  if (combines(cuda.graph))
    planned.includes.push_back("tc_combine.h");
  if (combines(cuda.graph) && cuda.graph.look_back)
    planned.includes.push_back("tc_combine_parts.h");
  if (cuda.graph.look_back && cuda.graph.look_back->columns > 0)
    planned.includes.push_back("tc_combine_columns.h");
  if (slots_across(module, cuda) > 0 || !cuda.by_lanes.empty() ||
      (cuda.otherwise && !cuda.otherwise->by_lanes.empty()))
    planned.includes.push_back("tc_across.h");
  if (!cuda.tables.empty())
    planned.includes.push_back("tc_table.h");
  for (const auto &pair : group.inplace)
    if (same_elements(module, serial.graph, pair.first, pair.second))
      planned.inplace.push_back(pair);
  return planned;
}

bool same_elements(const ir::Module &module, const KernelGraph &graph, BufferId output,
                   BufferId input) {
  const Value *store = nullptr;
  for (const Value &value : graph.values)
    if (is_store(value) && module.storage_of(value.buffer) == module.storage_of(output))
      store = &value;
  return store && std::all_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
           return value.op != Op::load ||
                  module.storage_of(value.buffer) != module.storage_of(input) ||
                  (value.index == store->index && value.args.empty());
         });
}

BuiltKernel print_planned(const ir::Module &module, const PlannedKernel &planned) {
  const std::string placeholder(kKernelPlaceholder);
  BuiltKernel built;
  program::Kernel &kernel = built.kernel;
  kernel.bytes_read = planned.bytes_read;
  kernel.bytes_written = planned.bytes_written;
  kernel.parameters = planned.parameters.list;
  kernel.plan = planned.cuda.description;
  kernel.estimate = planned.estimate;
  kernel.cuda =
      variant(planned.cuda, print_kernel(module, planned.cuda, planned.parameters, placeholder));
  kernel.serial = variant(planned.serial,
                          print_kernel(module, planned.serial, planned.parameters, placeholder));
  finish_kernel(built, planned.origins, planned.serial.description, planned.includes);
  built.pointers = planned.parameters.storages;
  built.sizes = planned.parameters.sizes;
  built.inplace = planned.inplace;
  built.checks = planned.parameters.checks;
  return built;
}

BuiltKernel build_kernel(const ir::Module &module, const scheduler::Schedule &schedule,
                         const scheduler::Group &group, const target::Target &target,
                         const KernelGraph *given, const Tuning *tuning) {
  const PlannedKernel planned = plan_kernel(module, schedule, group, target, given);
  BuiltKernel built = print_planned(module, planned);
  if (!tuning)
    return built;
  const PlanChoice *choice = choose(built, alternatives_of(module, planned.cuda), target, *tuning);
  if (!choice)
    return built;
  TunableKernel tunable = std::move(built.tunable);
  built = print_planned(module, plan_kernel(module, schedule, group, target, given, choice));
  built.tunable = std::move(tunable);
  return built;
}

const PlanChoice *choose(BuiltKernel &built, std::vector<PlanChoice> alternatives,
                         const target::Target &target, const Tuning &tuning) {
  if (alternatives.empty())
    return nullptr;
  TunableKernel &tunable = built.tunable;
  tunable.key = support::ContentHash().add(target.name).add(built.content).hex();
  tunable.alternatives = std::move(alternatives);
  const auto found = tuning.chosen.find(tunable.key);
  if (found == tuning.chosen.end())
    return nullptr;
  tunable.is_chosen = found->second.is_planned() ||
                      std::find(tunable.alternatives.begin(), tunable.alternatives.end(),
                                found->second) != tunable.alternatives.end();
  return tunable.is_chosen && !found->second.is_planned() ? &found->second : nullptr;
}

} // namespace tsc::codegen
