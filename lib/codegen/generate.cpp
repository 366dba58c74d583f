// Schedule -> Program: buffers with roles, kernels, steps in order, signature.
#include "codegen/generate.h"

#include "codegen/attention_kernel.h"
#include "codegen/build_kernel.h"
#include "codegen/communication_steps.h"
#include "codegen/join_kernels.h"
#include "codegen/split_rows.h"
#include "support/diagnostic.h"
#include "support/text.h"

#include <algorithm>
#include <map>
#include <set>

namespace tsc::codegen {

namespace {

using program::Program;
using program::Role;
using support::require;

class Assembler {
public:
  Assembler(const ir::Module &module, const scheduler::Schedule &schedule,
            const CodegenOptions &options, const std::map<size_t, SplitGraphs> &splits)
      : module_(module), schedule_(schedule), target_(*options.target), splits_(splits) {
    program_.archs = {target_.name};
    buffer_of_.assign(module.buffers.size(), -1);
  }

  Program assemble() {
    find_outputs();
    add_inputs();
    for (size_t i = 0; i < schedule_.groups.size();)
      i = schedule_.groups[i].list == ir::kNone ? add_group(i) : add_list(i);
    add_outputs();
    add_symbols();
    check_symbols();
    mark_once();
    apply_inplace();
    return std::move(program_);
  }

private:
  const ir::Module &module_;
  const scheduler::Schedule &schedule_;
  const target::Target &target_;
  const std::map<size_t, SplitGraphs> &splits_; // by group
  Program program_;
  std::vector<int64_t> buffer_of_;            // by storage
  std::vector<BufferId> returned_;            // storages that a user output owns
  std::map<std::string, uint32_t> kernel_of_; // by name
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
    buffer.role = role;
    if (role == Role::weight)
      buffer.weight = source.weight;
    program_.buffers.push_back(std::move(buffer));
    return static_cast<uint32_t>(program_.buffers.size() - 1);
  }

  void add_inputs() {
    for (size_t i = 0; i < module_.inputs.size(); ++i) {
      const ir::Buffer &buffer = module_.buffer(module_.inputs[i]);
      const bool random = i < module_.input_specs.size() &&
                          module_.input_specs[i].kind == graph::InputKind::random_state;
      const Role role = random                  ? Role::random_state
                        : buffer.weight.empty() ? Role::input
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
      if (std::find(returned_.begin(), returned_.end(), storage) != returned_.end())
        role = Role::output;
      else if (!source.weight.empty())
        role = Role::weight;
      require(role != Role::intermediate || source.role == ir::Buffer::Role::computed, "codegen",
              "constant " + source.name + " has no weight to take its data from");
      buffer_of_[storage] = add_buffer(source, role, source.name);
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

  /// Gives the next group.
  size_t add_group(size_t i) {
    const scheduler::Group &group = schedule_.groups[i];
    const auto split = splits_.find(i);
    if (group.node_class == scheduler::NodeClass::external) {
      for (const scheduler::NodeId member : group.members)
        add_extern(group, module_.operations[schedule_.nodes[member].operation]);
    } else if (group.node_class == scheduler::NodeClass::scheduler && split == splits_.end()) {
      add_kernel(build_kernel(module_, schedule_, group, target_));
    } else if (group.node_class == scheduler::NodeClass::scheduler) {
      scheduler::Group apart = group; // what one kernel reads and the other writes shares no memory
      apart.inplace.clear();
      add_kernel(build_kernel(module_, schedule_, apart, target_, &split->second.parts));
      add_kernel(build_kernel(module_, schedule_, apart, target_, &split->second.merge));
    }
    return i + 1;
  }
  /// Groups of one list, in as few launches as they go into; gives the group behind them.
  size_t add_list(size_t first) {
    std::vector<PlannedKernel> kernels;
    size_t end = first;
    for (; end < schedule_.groups.size() &&
           schedule_.groups[end].list == schedule_.groups[first].list;
         ++end)
      if (splits_.count(end) == 0)
        kernels.push_back(plan_kernel(module_, schedule_, schedule_.groups[end], target_));
      else
        add_group(end); // two launches, the second waits for the first
    for (const std::vector<size_t> &launch : divide_into_launches(kernels)) {
      std::vector<const PlannedKernel *> parts;
      for (const size_t i : launch)
        parts.push_back(&kernels[i]);
      add_kernel(parts.size() == 1 ? print_planned(module_, *parts[0])
                                   : join_kernels(module_, parts));
    }
    return end;
  }
  void add_kernel(BuiltKernel built) {
    inplace_.insert(inplace_.end(), built.inplace.begin(), built.inplace.end());
    const std::string name = built.kernel.name;
    const auto [found, inserted] =
        kernel_of_.emplace(name, static_cast<uint32_t>(program_.kernels.size()));
    program::Launch launch;
    launch.kernel = found->second;
    for (size_t i = 0; i < built.pointers.size(); ++i) {
      const bool is_const = built.kernel.parameters[i].is_const;
      launch.pointers.push_back(
          {is_const ? buffer(built.pointers[i]) : written_buffer(built.pointers[i]), 0});
    }
    launch.sizes = built.sizes;
    if (inserted)
      program_.kernels.push_back(std::move(built.kernel));
    else
      for (const std::string &origin : built.kernel.origins)
        program_.kernels[found->second].origins.push_back(origin);
    program_.steps.push_back({std::move(launch), name});
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

  void add_extern(const scheduler::Group &group, const ir::Operation &operation) {
    const auto &call = std::get<ir::Extern>(operation.kind);
    if (call.library == ir::Library::attention) {
      add_kernel(build_attention(module_, schedule_, group, operation));
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
    product.dtype = out.dtype;
    product.a = matrix(buffer(call.inputs[0].buffer), a);
    product.b = matrix(buffer(call.inputs[1].buffer), b);
    if (call.inputs.size() > 2 && call.beta != 0)
      product.c = matrix(buffer(call.inputs[2].buffer), call.inputs[2].layout);
    product.out = matrix(written_buffer(operation.outputs[0]), out.layout);
    product.alpha = call.alpha;
    product.beta = product.c ? call.beta : 0;
    const size_t dot = call.kernel.rfind('.');
    const std::string short_name =
        dot == std::string::npos ? call.kernel : call.kernel.substr(dot + 1);
    program_.steps.push_back({std::move(product), short_name + "_" + out.name});
  }

  // ---- outputs

  void add_outputs() {
    size_t number = 0;
    std::vector<BufferId> given;
    for (const ir::Output &output : module_.outputs) {
      program::OutputInfo info;
      if (is_mutation(output)) {
        add_mutation(output, info);
        if (program_.buffers[static_cast<size_t>(info.buffer)].role == Role::random_state)
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
  static std::string constant_text(const ir::Output &output) {
    if (const auto *e = std::get_if<Expr>(&output.value))
      return symbolic::print(*e);
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
    for (const BufferId input : module_.inputs) {
      const ir::Buffer &buffer = module_.buffer(input);
      if (buffer.weight == output.target || buffer.name == output.target)
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

  // ---- the whole

  /// Every symbol that an input says, each after those that its own dimension needs.
  void add_symbols() {
    std::vector<graph::SymbolRange> left = module_.symbols;
    for (bool progress = true; progress;) {
      progress = false;
      for (auto range = left.begin(); range != left.end();) {
        program_.symbols.push_back({range->symbol, range->low, range->high});
        if (program::binding_of(program_, program_.symbols.size() - 1)) {
          range = left.erase(range);
          progress = true;
        } else {
          program_.symbols.pop_back();
          ++range;
        }
      }
    }
  }

  /// Every symbol that memory, results or launches need has a value when shapes are bound.
  void check_symbols() {
    std::set<std::string> unbound;
    const auto check = [&](Expr e) {
      for (const Expr symbol : symbolic::free_symbols(e))
        if (std::none_of(program_.symbols.begin(), program_.symbols.end(),
                         [&](const program::Symbol &known) { return known.symbol == symbol; }))
          unbound.insert(symbol.name());
    };
    const auto check_layout = [&](const tensor::Layout &layout) {
      std::for_each(layout.sizes.begin(), layout.sizes.end(), check);
      std::for_each(layout.strides.begin(), layout.strides.end(), check);
      check(layout.offset);
    };
    for (const program::Buffer &buffer : program_.buffers) {
      check_layout(buffer.layout);
      check(buffer.bytes);
    }
    for (const program::OutputInfo &output : program_.outputs)
      check_layout(output.layout);
    for (const program::Step &step : program_.steps)
      if (const auto *launch = std::get_if<program::Launch>(&step.kind))
        std::for_each(launch->sizes.begin(), launch->sizes.end(), check);
    if (!unbound.empty())
      throw support::UserError(
          support::ExitCode::unsupported,
          {.code = "TSC-K004",
           .message = "no dimension of an input is exactly " +
                      support::join({unbound.begin(), unbound.end()}, ", ") +
                      ": nothing gives it a value when the program runs",
           .next_step = "make it static, or pass a tensor that has it as a dimension"});
  }

  /// Steps that depend on weights alone, and whose result nothing else changes, run when weights
  /// are loaded.
  void mark_once() {
    enum class State : uint8_t { unwritten, once, varies };
    std::vector<State> state(program_.buffers.size(), State::unwritten);
    std::vector<size_t> writers(program_.buffers.size(), 0);
    for (const program::Step &step : program_.steps)
      for (const uint32_t id : program::writes(program_, step))
        ++writers[id];
    for (program::Step &step : program_.steps) {
      const auto constant = [&](uint32_t id) {
        const program::Buffer &buffer = program_.buffers[id];
        return (buffer.role == Role::weight && !buffer.mutated) || state[id] == State::once;
      };
      const std::vector<uint32_t> read = program::reads(program_, step),
                                  written = program::writes(program_, step);
      const bool together = std::holds_alternative<program::Collective>(step.kind);
      step.once = !together && std::all_of(read.begin(), read.end(), constant) &&
                  std::all_of(written.begin(), written.end(), [&](uint32_t id) {
                    return program_.buffers[id].role == Role::intermediate && writers[id] == 1 &&
                           program_.buffers[id].bytes.is_integer();
                  });
      for (const uint32_t id : written)
        state[id] = step.once ? State::once : State::varies;
    }
  }

  /// An output takes over the memory of an input that nothing reads later, where both live in the
  /// workspace.
  void apply_inplace() {
    std::vector<bool> kept(program_.buffers.size(), false); // written once: must survive the run
    for (const program::Step &step : program_.steps)
      if (step.once)
        for (const uint32_t id : program::writes(program_, step))
          kept[id] = true;
    for (const auto &[output, input] : inplace_) {
      const int64_t into = buffer_of_[storage_of(output)], from = buffer_of_[storage_of(input)];
      if (into < 0 || from < 0 || into == from || kept[static_cast<size_t>(into)] ||
          kept[static_cast<size_t>(from)])
        continue;
      program::Buffer &target = program_.buffers[static_cast<size_t>(into)];
      const program::Buffer &source = program_.buffers[static_cast<size_t>(from)];
      if (target.role == Role::intermediate && source.role == Role::intermediate &&
          target.alias_of < 0 && target.bytes == source.bytes)
        target.alias_of = static_cast<int32_t>(from);
    }
  }
};

} // namespace

Program generate(const ir::Module &module, const scheduler::Schedule &schedule,
                 const CodegenOptions &options) {
  require(options.target != nullptr, "codegen", "no target is given");
  std::map<size_t, SplitGraphs> splits;
  std::optional<ir::Module> extended; // with the buffers of partial results, if there are any
  for (size_t i = 0; i < schedule.groups.size(); ++i) {
    if (!may_split_rows(schedule.groups[i], *options.target))
      continue;
    if (!extended)
      extended = module;
    if (auto split = split_rows(*extended, schedule.groups[i], *options.target))
      splits.emplace(i, std::move(*split));
  }
  return Assembler(splits.empty() ? module : *extended, schedule, options, splits).assemble();
}

std::string prelude_includes(const std::vector<std::string_view> &texts) {
  std::string lines;
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
