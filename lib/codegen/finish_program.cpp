// What follows from all steps of a program together.
#include "codegen/finish_program.h"

#include "program/streams.h"
#include "support/diagnostic.h"
#include "support/text.h"

#include <algorithm>
#include <set>

namespace tsc::codegen {

namespace {

using program::Program;
using program::Role;
using symbolic::Expr;

/// The symbols of a module and of its subgraphs, which may have sizes of their own.
void gather_symbols(const ir::Module &module, std::vector<graph::SymbolRange> &symbols) {
  for (const graph::SymbolRange &range : module.symbols)
    if (std::none_of(symbols.begin(), symbols.end(),
                     [&](const graph::SymbolRange &known) { return known.symbol == range.symbol; }))
      symbols.push_back(range);
  for (const ir::Module &subgraph : module.subgraphs)
    gather_symbols(subgraph, symbols);
}

/// Every symbol that an input says, each after those that its own dimension needs.
void add_symbols(const ir::Module &module, Program &program) {
  std::vector<graph::SymbolRange> left;
  gather_symbols(module, left);
  for (bool progress = true; progress;) {
    progress = false;
    for (auto range = left.begin(); range != left.end();) {
      program.symbols.push_back({range->symbol, range->low, range->high, range->name});
      if (program::binding_of(program, program.symbols.size() - 1)) {
        range = left.erase(range);
        progress = true;
      } else {
        program.symbols.pop_back();
        ++range;
      }
    }
  }
  // Those that steps say, in the order of the steps.
  for (const program::Step &step : program.steps)
    if (const auto *define = std::get_if<program::Define>(&step.kind))
      for (const graph::SymbolRange &range : left)
        if (range.symbol == define->symbol)
          program.symbols.push_back({range.symbol, range.low, range.high, range.name});
}

/// Every symbol that memory, results or launches need has a value when shapes are bound.
void check_symbols(const Program &program) {
  std::set<std::string> unbound;
  const auto check = [&](Expr e) {
    for (const Expr symbol : symbolic::free_symbols(e))
      if (std::none_of(program.symbols.begin(), program.symbols.end(),
                       [&](const program::Symbol &known) { return known.symbol == symbol; }))
        unbound.insert(symbol.spelling());
  };
  const auto check_layout = [&](const tensor::Layout &layout) {
    std::for_each(layout.sizes.begin(), layout.sizes.end(), check);
    std::for_each(layout.strides.begin(), layout.strides.end(), check);
    check(layout.offset);
  };
  for (const program::Buffer &buffer : program.buffers) {
    check_layout(buffer.layout);
    check(buffer.bytes);
  }
  for (const program::OutputInfo &output : program.outputs)
    check_layout(output.layout);
  for (const program::Step &step : program.steps)
    if (const auto *launch = std::get_if<program::Launch>(&step.kind))
      std::for_each(launch->sizes.begin(), launch->sizes.end(), check);
    else if (const auto *conditional = std::get_if<program::Conditional>(&step.kind))
      check(conditional->condition);
    else if (const auto *collective = std::get_if<program::Collective>(&step.kind))
      for (const std::vector<Expr> *parts : {&collective->sends, &collective->receives})
        std::for_each(parts->begin(), parts->end(), check);
  for (const program::SizeAssertion &row : program.size_assertions)
    check(row.condition);
  if (!unbound.empty())
    throw support::UserError(
        support::ExitCode::unsupported,
        {.code = "TSC-K004",
         .message = "no dimension of an input is exactly " +
                    support::join({unbound.begin(), unbound.end()}, ", ") +
                    ": nothing gives it a value when the program runs",
         .next_step = "make it static, or pass a tensor that has it as a dimension"});
}

/// True if the kernel takes a size that only a run knows.
bool takes_run_sizes(const program::Step &step) {
  const auto *launch = std::get_if<program::Launch>(&step.kind);
  return launch && std::any_of(launch->sizes.begin(), launch->sizes.end(),
                               [](Expr size) { return !size.is_integer(); });
}

/// Steps that depend on weights alone, and whose result nothing else changes, run when weights
/// are loaded.
void mark_once(Program &program, const std::set<size_t> &each_time) {
  enum class State : uint8_t { unwritten, once, varies };
  std::vector<State> state(program.buffers.size(), State::unwritten);
  std::vector<size_t> writers(program.buffers.size(), 0);
  for (const program::Step &step : program.steps)
    for (const uint32_t id : program::writes(program, step))
      ++writers[id];
  for (program::Step &step : program.steps) {
    const auto constant = [&](uint32_t id) {
      const program::Buffer &buffer = program.buffers[id];
      return (buffer.role == Role::weight && !buffer.mutated) || state[id] == State::once;
    };
    const std::vector<uint32_t> read = program::reads(program, step),
                                written = program::writes(program, step);
    const bool stays = std::holds_alternative<program::Collective>(step.kind) ||
                       program::decides(step) || takes_run_sizes(step) ||
                       each_time.count(static_cast<size_t>(&step - program.steps.data())) > 0;
    step.once = !stays && std::all_of(read.begin(), read.end(), constant) &&
                std::all_of(written.begin(), written.end(), [&](uint32_t id) {
                  const program::Buffer &buffer = program.buffers[id];
                  return buffer.role == Role::failure || // belongs to runs: nobody's here
                         (buffer.role == Role::intermediate && writers[id] == 1 &&
                          buffer.bytes.is_integer());
                });
    for (const uint32_t id : written)
      state[id] = step.once ? State::once : State::varies;
  }
}

/// Weights that are packed (8 or 4 bits) are so for memory's sake: where what is computed of them
/// ahead takes much more than they do, in all, it is computed in each run.
void limit_growth(Program &program) {
  constexpr int64_t kMost = int64_t{256} << 20; // bytes
  constexpr double kGrows = 1.25;
  std::set<size_t> growing;
  int64_t more = 0;
  const auto bytes_of = [&](const std::vector<uint32_t> &buffers) {
    int64_t bytes = 0;
    for (const uint32_t id : buffers)
      bytes += program.buffers[id].bytes.as_integer().value_or(0);
    return bytes;
  };
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const program::Step &step = program.steps[i];
    if (!step.once)
      continue;
    const int64_t read = bytes_of(program::reads(program, step)),
                  written = bytes_of(program::writes(program, step));
    if (static_cast<double>(written) > kGrows * static_cast<double>(read)) {
      growing.insert(i);
      more += written - read;
    }
  }
  if (more > kMost)
    mark_once(program, growing);
}

/// A result takes over the memory of an operand of the workspace. A result of the program, too: its
/// memory is the caller's from the first buffer of the chain on, and the workspace needs none.
void apply_inplace(const std::vector<std::pair<uint32_t, uint32_t>> &inplace, Program &program) {
  std::vector<bool> kept(program.buffers.size(), false); // written once: must survive the run
  for (const program::Step &step : program.steps)
    if (step.once)
      for (const uint32_t id : program::writes(program, step))
        kept[id] = true;
  for (const auto &[into, from] : inplace) {
    if (kept[into] || kept[from])
      continue;
    program::Buffer &target = program.buffers[into];
    const program::Buffer &source = program.buffers[from];
    if ((target.role == Role::intermediate || target.role == Role::output) &&
        source.role == Role::intermediate && target.alias_of < 0 && target.bytes == source.bytes)
      target.alias_of = static_cast<int32_t>(from);
  }
}

void add_assertions(const ir::Module &module, Program &program) {
  const auto row = [](const graph::Assertion &assertion) {
    return program::Assertion{assertion.message, assertion.node, assertion.source_line};
  };
  for (const graph::Assertion &assertion : module.assertions)
    program.assertions.push_back(row(assertion));
  const auto add_size_assertions = [&](const ir::Module &part, const auto &add_again) -> void {
    for (const ir::SizeAssertion &assertion : part.size_assertions)
      program.size_assertions.push_back({assertion.condition, row(assertion.assertion)});
    for (const ir::Module &subgraph : part.subgraphs)
      add_again(subgraph, add_again);
  };
  add_size_assertions(module, add_size_assertions);
}

/// What ranks do together runs beside what each computes: the scheduler has put it as early, and
/// what needs it as late, as that pays. Where a condition decides, all stays in one order.
void overlap_communication(Program &program) {
  bool communicates = false;
  for (program::Step &step : program.steps) {
    if (program::decides(step))
      return;
    communicates |= std::holds_alternative<program::Collective>(step.kind);
  }
  if (!communicates)
    return;
  for (program::Step &step : program.steps)
    if (std::holds_alternative<program::Collective>(step.kind) && !step.once)
      step.stream = 1;
  program::add_waits(program);
}

} // namespace

void finish_program(const ir::Module &module,
                    const std::vector<std::pair<uint32_t, uint32_t>> &inplace, Program &program) {
  add_assertions(module, program);
  add_symbols(module, program);
  check_symbols(program);
  mark_once(program, {});
  limit_growth(program);
  apply_inplace(inplace, program);
  overlap_communication(program);
}

} // namespace tsc::codegen
