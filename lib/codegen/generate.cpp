// Schedule -> Program: buffers with roles, kernels, steps in order, signature.
#include "codegen/generate.h"

#include "codegen/attention_kernel.h"
#include "codegen/build_kernel.h"
#include "codegen/communication_steps.h"
#include "codegen/custom_kernel.h"
#include "codegen/finish_program.h"
#include "codegen/join_kernels.h"
#include "codegen/likely_sizes.h"
#include "codegen/product_kernel.h"
#include "codegen/sort_kernels.h"
#include "graph/symbol_names.h"
#include "support/diagnostic.h"
#include "support/text.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>

namespace tsc::codegen {

namespace {

using program::Program;
using program::Role;
using support::require;

/// A module with its schedule: the graph, or one of its subgraphs.
struct Part {
  const ir::Module *module = nullptr;   // the one given, or `extended`
  std::unique_ptr<ir::Module> extended; // with the buffers of partial results, if there are any
  const scheduler::Schedule *schedule = nullptr;
  std::map<size_t, InParts> parts;                     // by group: kernels in the place of one
  std::map<size_t, SortBuffers> sorts;                 // by group
  std::map<size_t, std::vector<BuiltKernel>> by_sizes; // by group of symbols: its kernels
};

/// What the parts of a program have in common.
struct Shared {
  const target::Target &target;
  Tuning *tuning; // or null
  Program program;
  KernelNames kernels;
  std::vector<std::pair<uint32_t, uint32_t>> inplace; // (output, input)
  size_t data_assertions = 0; // of the whole graph: they have the first numbers
  std::vector<program::Assertion> index_assertions; // those that follow
};

Part make_part(const ir::Module &module, const scheduler::Schedule &schedule,
               const target::Target &target, Tuning *tuning) {
  Part part;
  part.module = &module;
  part.schedule = &schedule;
  for (size_t i = 0; i < schedule.groups.size(); ++i) {
    const scheduler::Group &group = schedule.groups[i];
    const ir::Operation *sort = sort_of(module, schedule, group);
    const bool divides = !sort && may_divide(module, group, target);
    const bool has_symbols = !sort && may_build_by_sizes(module, group, target);
    if (!sort && !divides && !has_symbols)
      continue;
    if (!part.extended) {
      part.extended = std::make_unique<ir::Module>(module);
      part.module = part.extended.get();
    }
    if (sort) {
      part.sorts.emplace(i, add_sort_buffers(*part.extended, *sort));
      continue;
    }
    std::optional<InParts> parts;
    if (divides)
      parts = divide(*part.extended, group, target);
    if (has_symbols)
      part.by_sizes.emplace(i, build_by_sizes(*part.extended, schedule, group, target,
                                              parts ? &*parts : nullptr, tuning));
    if (parts)
      part.parts.emplace(i, std::move(*parts));
  }
  return part;
}

class Assembler {
public:
  /// `prefix` stands before the names of the part's own buffers.
  Assembler(Shared &shared, const Part &part, std::string prefix)
      : shared_(shared), program_(shared.program), module_(*part.module), schedule_(*part.schedule),
        target_(shared.target), part_(part), prefix_(std::move(prefix)) {
    buffer_of_.assign(module_.buffers.size(), -1);
  }

  /// The graph itself, with its signature.
  void add_whole() {
    find_outputs();
    add_inputs();
    add_groups();
    add_outputs();
    note_inplace();
  }

  /// A subgraph: its inputs are `inputs`, its results are computed in `results`.
  void add_subgraph(const std::vector<uint32_t> &inputs, const std::vector<uint32_t> &results) {
    for (size_t i = 0; i < inputs.size(); ++i)
      buffer_of_[module_.inputs[i]] = inputs[i];
    for (size_t i = 0; i < results.size(); ++i)
      buffer_of_[storage_of(std::get<ir::BufferView>(module_.outputs[i].value).buffer)] =
          results[i];
    add_groups();
    note_inplace();
  }

private:
  Shared &shared_;
  Program &program_;
  const ir::Module &module_;
  const scheduler::Schedule &schedule_;
  const target::Target &target_;
  const Part &part_;
  std::string prefix_;
  std::vector<int64_t> buffer_of_; // by storage
  std::vector<BufferId> returned_; // storages that a user output owns
  std::vector<std::pair<BufferId, BufferId>> inplace_;

  /// Where the bytes of `id` are: through mutations, then views of other buffers.
  BufferId storage_of(BufferId id) const { return module_.storage_of(id); }

  /// User outputs that are the whole value of a computed buffer take the caller's memory.
  void find_outputs() {
    for (const ir::Output &output : module_.outputs) {
      const auto *view = std::get_if<ir::BufferView>(&output.value);
      if (!view || is_mutation(output))
        continue;
      const BufferId storage = storage_of(view->buffer);
      if (module_.buffer(storage).role == ir::Buffer::Role::computed &&
          std::find(returned_.begin(), returned_.end(), storage) == returned_.end())
        returned_.push_back(storage);
    }
  }
  static bool is_mutation(const ir::Output &output) {
    return output.kind == graph::OutputKind::buffer_mutation ||
           output.kind == graph::OutputKind::input_mutation ||
           output.kind == graph::OutputKind::parameter_mutation;
  }

  uint32_t add_buffer(const ir::Buffer &source, Role role, const std::string &name) {
    program::Buffer buffer;
    buffer.name = name;
    buffer.dtype = source.dtype;
    buffer.layout = source.layout;
    buffer.bytes = source.layout.storage_size() *
                   Expr(static_cast<int64_t>(tensor::size_in_bytes(source.dtype)));
    if (role == Role::failure) // the graph sees the first word
      buffer.bytes = program::kFailureBytes;
    buffer.role = role;
    if (role == Role::weight)
      buffer.weight = source.weight;
    program_.buffers.push_back(std::move(buffer));
    return static_cast<uint32_t>(program_.buffers.size() - 1);
  }

  void add_inputs() {
    for (size_t i = 0; i < module_.inputs.size(); ++i) {
      const ir::Buffer &buffer = module_.buffer(module_.inputs[i]);
      const graph::InputKind kind =
          i < module_.input_specs.size() ? module_.input_specs[i].kind : graph::InputKind::user;
      const Role role = kind == graph::InputKind::random_state ? Role::random_state
                        : kind == graph::InputKind::failure    ? Role::failure
                        : buffer.weight.empty()                ? Role::input
                                                               : Role::weight;
      const uint32_t id = add_buffer(buffer, role, buffer.name);
      buffer_of_[module_.inputs[i]] = id;
      if (role == Role::input)
        program_.inputs.push_back({buffer.name, id, false, buffer.scalar});
      if (buffer.scalar)
        program_.buffers[id].bytes = 0;
    }
  }

  uint32_t buffer(BufferId id) {
    const BufferId storage = storage_of(id);
    if (buffer_of_[storage] < 0) {
      const ir::Buffer &source = module_.buffer(storage);
      Role role = Role::intermediate;
      if (source.role == ir::Buffer::Role::exchange)
        role = Role::exchange;
      else if (std::find(returned_.begin(), returned_.end(), storage) != returned_.end())
        role = Role::output;
      else if (!source.weight.empty())
        role = Role::weight;
      require(role != Role::intermediate || source.role == ir::Buffer::Role::computed, "codegen",
              "constant " + source.name + " has no weight to take its data from");
      buffer_of_[storage] = add_buffer(source, role, prefix_ + source.name);
    }
    return static_cast<uint32_t>(buffer_of_[storage]);
  }
  uint32_t written_buffer(BufferId id) {
    const uint32_t result = buffer(id);
    program::Buffer &target = program_.buffers[result];
    target.mutated = target.role == Role::input || target.role == Role::weight;
    return result;
  }

  // ---- steps

  void add_groups() {
    for (size_t i = 0; i < schedule_.groups.size();)
      i = schedule_.groups[i].list == ir::kNone ? add_group(i) : add_list(i);
  }
  /// Gives the next group.
  size_t add_group(size_t i) {
    const scheduler::Group &group = schedule_.groups[i];
    if (group.node_class == scheduler::NodeClass::external) {
      for (const scheduler::NodeId member : group.members)
        add_extern(module_.operations[schedule_.nodes[member].operation], group);
    } else if (const auto sort = part_.sorts.find(i); sort != part_.sorts.end()) {
      for (BuiltKernel &kernel :
           build_sort(module_, schedule_, group, *sort_of(module_, schedule_, group), sort->second,
                      target_))
        add_kernel(std::move(kernel));
    } else if (group.node_class == scheduler::NodeClass::templated) {
      add_kernel(build_template(group));
    } else if (const auto built = part_.by_sizes.find(i); built != part_.by_sizes.end()) {
      for (const BuiltKernel &kernel : built->second)
        add_kernel(kernel);
    } else if (group.node_class == scheduler::NodeClass::scheduler) {
      const auto parts = part_.parts.find(i);
      const bool divided = parts != part_.parts.end();
      for (BuiltKernel &kernel : build_kernels(module_, schedule_, group, target_,
                                               divided ? &parts->second.graphs : nullptr,
                                               divided ? parts->second.why : "", shared_.tuning))
        add_kernel(std::move(kernel));
    }
    return i + 1;
  }
  BuiltKernel build_template(const scheduler::Group &group) const {
    const ir::Operation &root = module_.operations[schedule_.nodes[group.parts->root].operation];
    if (std::get<ir::Extern>(root.kind).library == ir::Library::attention)
      return build_attention(module_, schedule_, group, root, target_);
    return build_product(module_, schedule_, group, target_, shared_.tuning);
  }
  /// Groups of one list, in as few launches as they go into; gives the group behind them.
  size_t add_list(size_t first) {
    std::vector<PlannedKernel> kernels;
    size_t end = first;
    for (; end < schedule_.groups.size() &&
           schedule_.groups[end].list == schedule_.groups[first].list;
         ++end)
      if (part_.parts.count(end) == 0)
        kernels.push_back(plan_kernel(module_, schedule_, schedule_.groups[end], target_));
      else
        add_group(end); // launches that wait for each other
    const int64_t together = schedule_.lists[schedule_.groups[first].list].read_together;
    for (const std::vector<size_t> &launch : divide_into_launches(kernels, together > 0)) {
      std::vector<const PlannedKernel *> parts;
      parts.reserve(launch.size());
      for (const size_t i : launch)
        parts.push_back(&kernels[i]);
      add_kernel(parts.size() == 1 ? print_planned(module_, *parts[0])
                                   : join_kernels(module_, parts, together));
    }
    return end;
  }
  /// `offsets`: of the pointers, elements; all 0 where there are none.
  void add_kernel(BuiltKernel built, const std::vector<Expr> &offsets = {}) {
    inplace_.insert(inplace_.end(), built.inplace.begin(), built.inplace.end());
    const auto next = static_cast<uint32_t>(program_.kernels.size());
    program::Launch launch;
    launch.kernel = shared_.kernels.number_of(built, next);
    for (size_t i = 0; i < built.pointers.size(); ++i) {
      if (built.pointers[i] == ir::kNone) {
        launch.pointers.push_back({failure(), 0});
        continue;
      }
      const bool is_const = built.kernel.parameters[i].is_const;
      launch.pointers.push_back(
          {is_const ? buffer(built.pointers[i]) : written_buffer(built.pointers[i]),
           offsets.empty() ? Expr(0) : offsets[i]});
    }
    launch.sizes = number_checks(built);
    const uint32_t number = launch.kernel;
    note_tunable(std::move(built.tunable), number);
    if (number == next)
      program_.kernels.push_back(std::move(built.kernel));
    else
      for (const std::string &origin : built.kernel.origins)
        program_.kernels[number].origins.push_back(origin);
    program_.steps.push_back({std::move(launch), program_.kernels[number].name});
  }

  void note_tunable(TunableKernel tunable, uint32_t number) {
    if (tunable.key.empty())
      return;
    tunable.kernel = number;
    std::vector<TunableKernel> &known = shared_.tuning->kernels;
    if (std::none_of(known.begin(), known.end(),
                     [&](const TunableKernel &other) { return other.key == tunable.key; }))
      known.push_back(std::move(tunable));
  }

  /// The values of the size parameters, the numbers of the launch's own checks among them.
  std::vector<Expr> number_checks(const BuiltKernel &built) {
    std::vector<Expr> sizes = built.sizes;
    const auto first =
        static_cast<int64_t>(shared_.data_assertions + shared_.index_assertions.size() + 1);
    for (Expr &size : sizes)
      size = symbolic::substitute(size, {{number_of_check(), Expr(first)}});
    for (const uint32_t check : built.checks) {
      const graph::Assertion &text = module_.check_of(check).assertion;
      shared_.index_assertions.push_back({text.message, text.node, text.source_line});
    }
    return sizes;
  }
  /// Where steps note the first assertion that does not hold.
  uint32_t failure() {
    for (uint32_t i = 0; i < program_.buffers.size(); ++i)
      if (program_.buffers[i].role == Role::failure)
        return i;
    ir::Buffer source;
    source.dtype = DType::i64;
    return add_buffer(source, Role::failure, "failure");
  }

  /// A view as a matrix of a batch, in the shape [batch, rows, columns] with leading sizes of 1
  /// broadcast.
  program::MatrixOperand matrix(uint32_t buffer, const tensor::Layout &layout) {
    program::MatrixOperand operand;
    operand.buffer = buffer;
    operand.offset = layout.offset;
    const size_t rank = layout.rank();
    const auto stride = [&](size_t from_last) {
      if (rank < from_last || layout.sizes[rank - from_last].is_integer(1))
        return Expr(0);
      return layout.strides[rank - from_last];
    };
    operand.column_stride = stride(1);
    operand.row_stride = stride(2);
    operand.batch_stride = stride(3);
    return operand;
  }

  void add_extern(const ir::Operation &operation, const scheduler::Group &group) {
    const auto &call = std::get<ir::Extern>(operation.kind);
    if (call.library == ir::Library::user_kernel) {
      std::vector<Expr> offsets;
      const std::vector<BufferId> items =
          items_of(operation, call.custom->results + (call.custom->has_workspace ? 1 : 0));
      BuiltKernel built = build_custom(module_, schedule_, group, operation, items, offsets);
      add_kernel(std::move(built), offsets);
      return;
    }
    if (call.library == ir::Library::conditional) {
      add_conditional(operation, call);
      return;
    }
    if (call.library == ir::Library::while_loop) {
      add_loop(operation, call);
      return;
    }
    if (call.library == ir::Library::define_size) {
      program::Define define;
      define.number = {buffer(call.inputs[0].buffer), call.inputs[0].layout.offset};
      define.symbol = call.symbol;
      define.bound = call.bound.value_or(Expr(program::Define::kUnbounded));
      program_.steps.push_back({std::move(define), prefix_ + "define_" + operation.name});
      return;
    }
    if (call.library == ir::Library::solver) {
      add_solver(operation, call);
      return;
    }
    if (ir::is_between_ranks(call.library)) {
      const MemoryOf memory = [this](BufferId id, bool written) {
        return written ? written_buffer(id) : buffer(id);
      };
      std::vector<program::Step> steps = communication_steps(module_, operation, memory);
      std::move(steps.begin(), steps.end(), std::back_inserter(program_.steps));
      return;
    }
    require(call.library == ir::Library::matmul, "codegen", "no library runs " + call.kernel);
    const ir::Buffer &out = module_.buffer(operation.outputs[0]);
    const tensor::Layout &a = call.inputs[0].layout, &b = call.inputs[1].layout;
    const size_t rank = out.layout.rank();
    require((rank == 2 || rank == 3) && a.rank() == rank && b.rank() == rank, "codegen",
            "the product " + operation.name + " is not over matrices or one batch of them");
    program::Matmul product;
    product.batch = rank == 3 ? out.layout.sizes[0] : Expr(1);
    product.m = a.sizes[rank - 2];
    product.k = a.sizes[rank - 1];
    product.n = b.sizes[rank - 1];
    product.dtype = call.inputs[0].dtype;
    if (out.dtype != product.dtype)
      product.result = out.dtype;
    product.a = matrix(buffer(call.inputs[0].buffer), a);
    product.b = matrix(buffer(call.inputs[1].buffer), b);
    if (call.inputs.size() > 2 && call.beta != 0)
      product.c = matrix(buffer(call.inputs[2].buffer), call.inputs[2].layout);
    product.out = matrix(written_buffer(operation.outputs[0]), out.layout);
    product.alpha = call.alpha;
    product.beta = product.c ? call.beta : 0;
    product.tf32 = call.tf32;
    const size_t dot = call.kernel.rfind('.');
    const std::string short_name =
        dot == std::string::npos ? call.kernel : call.kernel.substr(dot + 1);
    program_.steps.push_back({std::move(product), short_name + "_" + out.name});
  }

  /// A routine of linear algebra; its results are the items of the tuple, which follow it.
  void add_solver(const ir::Operation &operation, const ir::Extern &call) {
    program::Solver solver;
    solver.routine = static_cast<tsc_engine::Routine>(call.solver.routine);
    solver.flags = call.solver.flags;
    solver.dtype = call.inputs[0].dtype;
    solver.batch = call.solver.batch;
    solver.m = call.solver.m;
    solver.n = call.solver.n;
    solver.k = call.solver.k;
    const auto read = [&](size_t i) -> std::optional<program::Operand> {
      if (i >= call.inputs.size())
        return std::nullopt;
      return program::Operand{buffer(call.inputs[i].buffer), call.inputs[i].layout.offset};
    };
    solver.a = *read(0);
    solver.b = read(1);
    solver.c = read(2);
    std::vector<program::Operand> results;
    for (auto id = static_cast<size_t>(&operation - module_.operations.data()) + 1;
         id < module_.operations.size(); ++id) {
      const auto *item = std::get_if<ir::Extern>(&module_.operations[id].kind);
      if (item == nullptr || item->library != ir::Library::tuple_item ||
          item->inputs[0].buffer != operation.outputs[0])
        break;
      results.push_back({written_buffer(module_.operations[id].outputs[0]), 0});
    }
    const bool has_info = call.solver.has_info;
    const size_t values = results.size() - (has_info ? 1 : 0);
    require(values >= 1 && values <= 3, "codegen", "results of " + call.kernel);
    solver.out = results[0];
    if (values > 1)
      solver.second = results[1];
    if (values > 2)
      solver.third = results[2];
    if (has_info)
      solver.info = results.back();
    program_.steps.push_back({std::move(solver), prefix_ + call.kernel + "_" + operation.name});
  }

  // ---- branches and loops

  /// The items of the tuple that `operation` yields, which follow it; those that nobody wants are
  /// not in the schedule, and get memory all the same.
  std::vector<BufferId> items_of(const ir::Operation &operation, size_t count) const {
    const auto first = static_cast<size_t>(&operation - module_.operations.data()) + 1;
    std::vector<BufferId> items;
    for (size_t i = 0; i < count; ++i)
      items.push_back(module_.operations[first + i].outputs[0]);
    return items;
  }
  std::vector<uint32_t> item_buffers(const ir::Operation &operation, const ir::Extern &call) {
    const ir::Module &subgraph = module_.subgraphs[call.subgraphs[1]];
    std::vector<uint32_t> buffers;
    for (const BufferId item : items_of(operation, subgraph.outputs.size()))
      buffers.push_back(written_buffer(item));
    return buffers;
  }
  /// New memory for the results of a subgraph.
  std::vector<uint32_t> result_buffers(const ir::Module &subgraph) {
    std::vector<uint32_t> buffers;
    for (const ir::Output &output : subgraph.outputs) {
      const ir::Buffer &source = subgraph.buffer(std::get<ir::BufferView>(output.value).buffer);
      buffers.push_back(
          add_buffer(source, Role::intermediate, prefix_ + subgraph.name + "/" + source.name));
    }
    return buffers;
  }
  /// Returns the number of steps.
  uint32_t add_part(uint32_t subgraph, const std::vector<uint32_t> &inputs,
                    const std::vector<uint32_t> &results) {
    const size_t before = program_.steps.size();
    const ir::Module &module = module_.subgraphs[subgraph];
    const Part part = make_part(module, schedule_.subgraphs[subgraph], target_, shared_.tuning);
    Assembler(shared_, part, prefix_ + module.name + "/").add_subgraph(inputs, results);
    return static_cast<uint32_t>(program_.steps.size() - before);
  }

  void add_conditional(const ir::Operation &operation, const ir::Extern &call) {
    program::Conditional conditional;
    std::vector<uint32_t> inputs;
    for (const ir::BufferView &input : call.inputs)
      inputs.push_back(buffer(input.buffer));
    if (call.condition) {
      conditional.condition = *call.condition;
    } else {
      conditional.predicate = program::Operand{inputs[0], call.inputs[0].layout.offset};
      inputs.erase(inputs.begin());
    }
    const std::vector<uint32_t> results = item_buffers(operation, call);
    const size_t step = program_.steps.size();
    program_.steps.push_back({conditional, prefix_ + "cond_" + operation.name});
    conditional.then_steps = add_part(call.subgraphs[0], inputs, results);
    conditional.else_steps = add_part(call.subgraphs[1], inputs, results);
    program_.steps[step].kind = std::move(conditional);
  }

  void add_loop(const ir::Operation &operation, const ir::Extern &call) {
    const std::vector<uint32_t> carried = item_buffers(operation, call);
    std::vector<uint32_t> inputs = carried;
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const ir::BufferView &input = call.inputs[i];
      if (i < carried.size())
        add_dense_copy({buffer(input.buffer), input.layout.offset}, input, carried[i]);
      else
        inputs.push_back(buffer(input.buffer));
    }
    const ir::Module &body = module_.subgraphs[call.subgraphs[1]];
    const uint32_t predicate = result_buffers(module_.subgraphs[call.subgraphs[0]]).front();
    const std::vector<uint32_t> next = result_buffers(body);
    program::WhileLoop loop;
    loop.predicate = {predicate, 0};
    const size_t step = program_.steps.size();
    program_.steps.push_back({loop, prefix_ + "while_" + operation.name});
    loop.condition_steps = add_part(call.subgraphs[0], inputs, {predicate});
    loop.body_steps = add_part(call.subgraphs[1], inputs, next);
    for (size_t i = 0; i < next.size(); ++i, ++loop.body_steps)
      add_dense_copy({next[i], 0}, std::get<ir::BufferView>(body.outputs[i].value), carried[i]);
    program_.steps[step].kind = loop;
  }
  /// The elements of `view`, dense from `from` on, to the beginning of `to`.
  void add_dense_copy(const program::Operand &from, const ir::BufferView &view, uint32_t to) {
    program::Copy copy;
    copy.from = from;
    copy.to = {to, 0};
    copy.bytes = symbolic::numel(view.layout.sizes) *
                 Expr(static_cast<int64_t>(tensor::size_in_bytes(view.dtype)));
    program_.steps.push_back({std::move(copy), "copy_" + program_.buffers[to].name});
  }

  // ---- outputs

  void add_outputs() {
    size_t number = 0;
    std::vector<BufferId> given;
    for (const ir::Output &output : module_.outputs) {
      program::OutputInfo info;
      if (is_mutation(output)) {
        add_mutation(output, info);
        const Role role = program_.buffers[static_cast<size_t>(info.buffer)].role;
        if (role == Role::random_state || role == Role::failure)
          continue; // nobody's output
      } else if (const auto *view = std::get_if<ir::BufferView>(&output.value)) {
        info.name = "output_" + std::to_string(number++);
        add_user_output(*view, info, given);
      } else {
        info.name = "output_" + std::to_string(number++);
        info.text = constant_text(output);
      }
      program_.outputs.push_back(std::move(info));
    }
  }
  std::string constant_text(const ir::Output &output) const {
    if (const auto *e = std::get_if<Expr>(&output.value))
      return symbolic::print(*e, graph::symbol_writer(module_.symbols));
    if (const auto *d = std::get_if<double>(&output.value))
      return support::python_repr(*d);
    if (const auto *b = std::get_if<bool>(&output.value))
      return *b ? "True" : "False";
    return "None";
  }
  void add_user_output(const ir::BufferView &view, program::OutputInfo &info,
                       std::vector<BufferId> &given) {
    info.layout = view.layout;
    info.dtype = view.dtype;
    const BufferId storage = storage_of(view.buffer);
    const uint32_t source = buffer(view.buffer);
    const bool own = program_.buffers[source].role == Role::output &&
                     std::find(given.begin(), given.end(), storage) == given.end();
    if (own) {
      given.push_back(storage);
      info.buffer = source;
      return;
    }
    // Memory that the caller or another output owns already: a copy of the whole storage.
    const uint32_t copy = add_buffer(module_.buffer(storage), Role::output, info.name);
    add_copy(source, copy);
    info.buffer = copy;
  }
  void add_mutation(const ir::Output &output, program::OutputInfo &info) {
    info.name = "mutated_" + output.target;
    info.is_mutation = true;
    const auto *view = std::get_if<ir::BufferView>(&output.value);
    require(view != nullptr, "codegen", "the mutation of " + output.target + " has no tensor");
    const BufferId target = find_input(output);
    const uint32_t source = buffer(view->buffer), into = static_cast<uint32_t>(buffer_of_[target]);
    if (source != into) { // the new value stands elsewhere: bring it home
      require(view->layout.is_contiguous() && module_.buffer(target).layout.is_contiguous(),
              "codegen", "the new value of " + output.target + " is not laid out as its input is");
      program::Copy copy;
      copy.from = {source, view->layout.offset};
      copy.to = {into, module_.buffer(target).layout.offset};
      copy.bytes = symbolic::numel(view->layout.sizes) *
                   Expr(static_cast<int64_t>(tensor::size_in_bytes(module_.buffer(target).dtype)));
      program_.steps.push_back({std::move(copy), "copy_to_" + output.target});
    }
    program_.buffers[into].mutated = true;
    info.buffer = into;
    info.layout = module_.buffer(target).layout;
    info.dtype = module_.buffer(target).dtype;
    for (program::InputInfo &input : program_.inputs)
      input.mutated = input.mutated || input.buffer == into;
  }
  BufferId find_input(const ir::Output &output) const {
    // An input may be called as a weight is.
    const bool by_name = output.kind == graph::OutputKind::input_mutation;
    for (const BufferId input : module_.inputs) {
      const ir::Buffer &buffer = module_.buffer(input);
      if (by_name ? buffer.weight.empty() && buffer.name == output.target
                  : buffer.weight == output.target)
        return input;
    }
    throw support::InternalError("codegen", "outputs", "no input is called " + output.target);
  }
  void add_copy(uint32_t from, uint32_t to) {
    program::Copy copy;
    copy.from = {from, 0};
    copy.to = {to, 0};
    copy.bytes = program_.buffers[from].bytes;
    program_.steps.push_back({std::move(copy), "copy_" + program_.buffers[to].name});
  }

  /// An output takes over the memory of an input that nothing reads later.
  void note_inplace() {
    for (const auto &[output, input] : inplace_) {
      const int64_t into = buffer_of_[storage_of(output)], from = buffer_of_[storage_of(input)];
      if (into >= 0 && from >= 0 && into != from)
        shared_.inplace.emplace_back(static_cast<uint32_t>(into), static_cast<uint32_t>(from));
    }
  }
};

} // namespace

Program generate(const ir::Module &module, const scheduler::Schedule &schedule,
                 const CodegenOptions &options) {
  if (options.target == nullptr)
    throw support::InternalError("codegen", "", "no target is given");
  Shared shared{*options.target, options.tuning, {}, {}, {}, module.assertions.size(), {}};
  shared.program.archs = {options.target->name};
  if (options.target->part != options.target->name)
    shared.program.part = options.target->part;
  const Part part = make_part(module, schedule, *options.target, options.tuning);
  Assembler(shared, part, "").add_whole();
  finish_program(module, shared.inplace, shared.program);
  for (program::Assertion &assertion : shared.index_assertions)
    shared.program.assertions.push_back(std::move(assertion));
  return std::move(shared.program);
}

std::string prelude_includes(const std::vector<std::string_view> &texts) {
  // The system's before words of the prelude that mean something else there.
  std::string lines = system_includes(texts);
  for (const PreludeFile &file : prelude_files()) {
    const std::string line = "#include \"" + std::string(file.name) + "\"\n";
    const auto includes = [&](std::string_view text) {
      return text.find(line) != std::string_view::npos;
    };
    if (file.name == "tsc_prelude.h" || std::any_of(texts.begin(), texts.end(), includes))
      lines += line;
  }
  return lines;
}

} // namespace tsc::codegen
