#include "driver/compile.h"

#include "codegen/generate.h"
#include "driver/fusion_timer.h"
#include "driver/lock.h"
#include "driver/shapes.h"
#include "graph/read.h"
#include "graph/symbol_names.h"
#include "lowering/lower.h"
#include "ops/custom/custom_operator.h"
#include "ops/passes/passes.h"
#include "program/validate.h"
#include "scheduler/cost.h"
#include "support/diagnostic.h"
#include "target/policy.h"
#include "target/target.h"
#include "templates/attention/tc_attention_backward_geometry.h"

#include <algorithm>
#include <chrono>
#include <set>

namespace tsc::driver {
namespace {

struct State {
  Compilation result;
  const CompileOptions *options;
  target::Policy policy;
  const target::Target *target;
  std::optional<runtime::SessionOptions> timing_device;
  std::chrono::steady_clock::time_point last;

  /// Records the time since the previous pass and offers a dump.
  void finished(std::string_view name, const std::function<std::string()> &text) {
    auto now = std::chrono::steady_clock::now();
    result.times.push_back(
        {std::string(name), std::chrono::duration<double, std::milli>(now - last).count(),
         std::chrono::duration<double, std::micro>(last.time_since_epoch()).count()});
    if (options->after)
      options->after(name, text);
    last = std::chrono::steady_clock::now();
  }
};

/// Elements of a row that kernels of attention's backward pass have shared memory for.
int64_t deepest_backward(const target::Target &target) {
  int depth = tc_backward_depth;
  while (depth > 0 && tc_backward_bytes(depth, false, false) > target.shared_bytes_per_block)
    depth -= 8;
  return depth;
}

/// Products that hide the whole collective are counted until they do.
ops::Overlap overlap_of(const State &state, const ops::OverlapWork &work) {
  const target::Target &target = *state.target;
  const auto sent_product = [](const ops::ProductSizes &sizes) {
    scheduler::SentProduct result;
    result.rows = sizes.rows;
    result.terms = sizes.terms;
    result.columns = sizes.columns;
    result.dtype = sizes.dtype;
    return result;
  };
  scheduler::SentProduct product = sent_product(work.product);
  product.ranks = work.ranks;
  product.cut_rows = work.cut_rows;
  product.sent = work.sent;
  product.copied = work.copied;
  ops::Overlap result;
  const double sending = scheduler::pieces_of(target, product, 1, 1).sending;
  for (; product.beside < sending && result.beside < work.beside.size(); ++result.beside)
    product.beside +=
        scheduler::pieces_of(target, sent_product(work.beside[result.beside]), 1, 1).computing;
  const scheduler::Pieces pieces =
      scheduler::pieces_of(target, product, state.policy.product_pieces,
                           static_cast<double>(state.policy.product_pieces_percent) / 100);
  result.pieces = pieces.count;
  result.computing = pieces.computing;
  result.sending = pieces.sending;
  result.whole = pieces.whole;
  result.in_pieces = pieces.in_pieces;
  return result;
}

void run_graph_passes(State &state) {
  ops::PassOptions pass_options;
  if (state.policy.fused_attention) // deeper: without wgmma, sums would not fit the registers
    pass_options.fused_attention = state.target->has_wgmma ? 256 : 128;
  if (state.policy.fused_attention)
    pass_options.attention_parts = [&state](const tc_few_work &work) {
      return scheduler::attention_parts(*state.target, work);
    };
  if (state.policy.fused_attention && !state.target->is_host)
    pass_options.float_attention_pays = [&state](const tc_few_work &work, bool causal) {
      return scheduler::float_attention_pays(*state.target, work, causal);
    };
  if (state.policy.fused_attention)
    pass_options.attention_pays = [&state](const ops::AttentionWork &work) {
      const tc_few_work sizes = {work.batches, work.heads, work.key_heads,
                                 work.queries, work.keys,  static_cast<int>(work.depth)};
      return scheduler::attention_way(*state.target, sizes).nanoseconds <
             scheduler::written_attention_nanoseconds(
                 *state.target, sizes, static_cast<int>(work.changes), work.in_floats);
    };
  if (state.policy.fused_attention)
    pass_options.attention_backward = deepest_backward(*state.target);
  if (state.policy.product_row_alignment > 1 && !state.target->is_host)
    pass_options.pays_to_align = [&state](const ops::ProductCopies &work) {
      return scheduler::pays_to_align(*state.target,
                                      {work.operations, work.bytes, work.tiles, work.tile_bytes,
                                       work.shared_terms, work.copied_bytes, work.copies});
    };
  pass_options.attention_backward_groups = state.target->has_wgmma;
  pass_options.product_kernels =
      state.policy.product_templates && !scheduler::template_ways(*state.target, {}).empty();
  pass_options.tf32_convolutions = state.policy.tf32 == target::Tf32::conv;
  pass_options.sorted_sums = state.policy.sorted_sums;
  pass_options.deterministic = state.policy.deterministic;
  pass_options.bucket_bytes = state.policy.bucket_bytes;
  if (state.policy.product_pieces > 1)
    pass_options.overlap = [&state](const ops::OverlapWork &work) {
      return overlap_of(state, work);
    };
  pass_options.choices = &state.result.choices;
  pass_options.cleanup = state.result.graph.stage != "post_grad";
  state.result.graph = ops::run_graph_passes(
      std::move(state.result.graph), pass_options,
      [&](std::string_view name, const graph::Graph &graph) {
        state.finished(name, [&graph] { return graph::to_text(graph) + "\n"; });
      });
}

void lower(State &state) {
  state.result.module = lowering::lower(state.result.graph, {&state.policy, state.target});
  state.finished("lower", [&] { return render(state.result, Form::ir); });
}

void schedule(State &state) {
  scheduler::ScheduleOptions schedule_options;
  schedule_options.policy = &state.policy;
  schedule_options.target = state.target;
  if (!state.options->benchmark_fusion.empty())
    schedule_options.fusion_timer = make_fusion_timer(
        state.result.module, *state.target, timing_device(state.options->benchmark_fusion));
  if (state.options->record_scheduling)
    schedule_options.records = &state.result.scheduling;
  schedule_options.after = [&](std::string_view name, const scheduler::Schedule &schedule) {
    state.finished(name, [&] { return scheduler::to_log(state.result.module, schedule, {}); });
  };
  state.result.schedule = scheduler::schedule(state.result.module, schedule_options);
}

/// A program that nobody may run is never handed out.
void require_sound(const program::Program &program) {
  try {
    program::validate(program, "");
  } catch (const support::UserError &error) {
    const support::Diagnostic &first = error.diagnostics().front();
    throw support::InternalError("program", first.place, first.message);
  }
}

/// A kernel that its target cannot launch is never handed out.
void require_fits(const program::Program &program, const target::Target &target) {
  if (target.is_host)
    return;
  for (const program::Kernel &kernel : program.kernels) {
    const program::KernelVariant &variant = kernel.cuda;
    const int threads = variant.block[0] * variant.block[1] * variant.block[2];
    const bool fits = threads <= target.max_threads_per_block &&
                      (!variant.shared_bytes.is_integer() ||
                       variant.shared_bytes.value() <= target.shared_bytes_per_block);
    support::require(fits, "codegen",
                     kernel.name + " does not fit " + target.name + ": " + std::to_string(threads) +
                         " threads, " + symbolic::print(variant.shared_bytes) +
                         " bytes of shared memory");
  }
}

/// What the user sees as complex numbers: the graph says it, what follows computes with parts.
void mark_complex(const graph::Graph &graph, program::Program &program) {
  const auto is_complex = [](const graph::Node &node) {
    const graph::TensorMeta *meta = node.value ? node.value->tensor() : nullptr;
    return meta != nullptr && tensor::is_complex(meta->dtype);
  };
  std::set<std::string> inputs, weights, outputs;
  for (const graph::InputSpec &input : graph.inputs)
    if (const graph::Node &node = graph.node(input.node); is_complex(node))
      (input.target.empty() ? inputs : weights)
          .insert(input.target.empty() ? node.name : input.target);
  for (const graph::Node &node : graph.nodes)
    if (node.kind == graph::NodeKind::get_attr && is_complex(node))
      weights.insert(node.target);
  size_t number = 0; // of outputs that are no mutations
  for (const graph::OutputSpec &output : graph.outputs) {
    const bool is_mutation = output.kind == graph::OutputKind::buffer_mutation ||
                             output.kind == graph::OutputKind::input_mutation ||
                             output.kind == graph::OutputKind::parameter_mutation;
    const std::string name =
        is_mutation ? "mutated_" + output.target : "output_" + std::to_string(number++);
    if (const graph::NodeRef *node = output.value.node(); node && is_complex(graph.node(node->id)))
      outputs.insert(name);
  }
  for (program::Buffer &buffer : program.buffers)
    buffer.is_complex = (buffer.role == program::Role::input && inputs.count(buffer.name) != 0) ||
                        (buffer.role == program::Role::weight && weights.count(buffer.weight) != 0);
  for (program::OutputInfo &output : program.outputs)
    output.is_complex = output.buffer >= 0 && outputs.count(output.name) != 0;
}

void generate(State &state) {
  codegen::Tuning tuning;
  for (const std::string &path : state.options->locks)
    for (const LockedKernel &kernel : read_lock(path).kernels)
      tuning.chosen[kernel.key] = kernel.choice;
  const bool is_locked = !state.options->locks.empty();
  state.result.program = codegen::generate(state.result.module, state.result.schedule,
                                           {state.target, is_locked ? &tuning : nullptr});
  for (const codegen::TunableKernel &kernel : tuning.kernels)
    if (!kernel.is_chosen)
      state.result.unlocked.push_back(state.result.program.kernels[kernel.kernel].name);
  state.result.program.name = state.result.graph.name;
  mark_complex(state.result.graph, state.result.program);
  state.result.program.structure = state.result.graph.structure;
  require_sound(state.result.program);
  require_fits(state.result.program, *state.target);
  state.finished("generate", [&] { return render(state.result, Form::cuda); });
}

struct Stage {
  std::string_view name;
  void (*function)(State &);
  Form gives;
};

constexpr Stage kStages[] = {
    {"graph", run_graph_passes, Form::graph},
    {"lower", lower, Form::ir},
    {"schedule", schedule, Form::schedule},
    {"generate", generate, Form::program},
};

std::string ir_text(const Compilation &compilation) {
  std::string text;
  const ir::Module &module = compilation.module;
  for (const ir::Operation &operation : module.operations) {
    text += operation.name + " -> " + module.buffer(operation.outputs[0]).name;
    for (uint32_t origin : operation.origins)
      text += " " + module.origins[origin].node;
    text += '\n';
    if (operation.is_loops())
      text +=
          ir::to_text(module, ir::trace(module, operation), operation.name + "_loop_body") + "\n";
    else
      text += std::get<ir::Extern>(operation.kind).kernel + "\n";
  }
  return text;
}

std::string cuda_text(const Compilation &compilation) {
  std::string text;
  for (const program::Kernel &kernel : compilation.program.kernels)
    text += kernel.cuda.text + "\n";
  return text;
}

} // namespace

Compilation compile(graph::Graph graph, const CompileOptions &options) {
  const ops::CustomOperatorScope operators(options.operators);
  State state;
  state.options = &options;
  state.policy = target::find_policy(options.policy);
  state.policy.foreach_lists = options.foreach_lists.value_or(state.policy.foreach_lists);
  state.policy.combo_kernels = options.combo_kernels.value_or(state.policy.combo_kernels);
  for (const std::string &option : options.policy_options)
    target::set_option(state.policy, option);
  if (options.tf32 != target::Tf32::off)
    state.policy.tf32 = options.tf32;
  if (options.deterministic)
    state.policy.deterministic = true;
  state.target = &target::find_target(options.arch);
  if (!options.benchmark_fusion.empty())
    state.timing_device = timing_device(options.benchmark_fusion);
  if (options.keep_as_read) {
    state.result.as_read = graph;
    state.result.as_read.weights.clear();
  }
  state.result.graph = std::move(graph);
  state.last = std::chrono::steady_clock::now();
  if (!options.shapes.empty())
    hint_shapes(state.result.graph.symbols, options.shapes);
  const std::vector<graph::SymbolRange> symbols = state.result.graph.symbols;
  try {
    for (const Stage &stage : kStages) {
      stage.function(state);
      if (stage.gives == options.last)
        break;
    }
  } catch (const support::UserError &error) {
    if (std::all_of(symbols.begin(), symbols.end(),
                    [](const graph::SymbolRange &range) { return range.name.empty(); }))
      throw;
    std::vector<support::Diagnostic> diagnostics = error.diagnostics();
    graph::name_symbols(symbols, diagnostics);
    throw support::UserError(error.exit_code(), std::move(diagnostics));
  }
  return std::move(state.result);
}

std::string render(const Compilation &compilation, Form form) {
  switch (form) {
  case Form::graph:
    return graph::to_text(compilation.graph) + "\n";
  case Form::ir:
    return ir_text(compilation);
  case Form::schedule:
    return scheduler::to_log(compilation.module, compilation.schedule, {});
  case Form::cuda:
    return cuda_text(compilation);
  case Form::program:
    return program::to_json(compilation.program);
  }
  return "";
}

} // namespace tsc::driver
