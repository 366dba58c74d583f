#include "driver/process_ranks.h"

#include "driver/match_inputs.h"
#include "driver/operation_spans.h"
#include "program/step_fields.h"
#include "ranks/socket_groups.h"
#include "runtime/cuda_ranks.h"
#include "support/hash.h"
#include "support/text.h"

#include <algorithm>

namespace tsc::driver {
namespace {

/// The value, or the expression where the inputs do not say it.
std::string number_text(symbolic::Expr e, const symbolic::Bindings &symbols) {
  const std::vector<symbolic::Expr> needed = symbolic::free_symbols(e);
  const bool is_known = std::all_of(needed.begin(), needed.end(),
                                    [&](symbolic::Expr s) { return symbols.count(s) != 0; });
  return is_known ? std::to_string(symbolic::evaluate(e, symbols)) : symbolic::print(e);
}

/// What a collective is, by whatever name its graph has for it.
std::string exchange_text(const program::Collective &collective) {
  return "kind " + std::to_string(static_cast<int>(collective.kind)) + " of " +
         std::string(tensor::torch_name(collective.dtype)) + ", reduction " +
         std::to_string(static_cast<int>(collective.reduction)) + ", root " +
         std::to_string(collective.root) + ", in group '" + collective.group + "'";
}

/// What must be the same on all ranks: a line for each thing that a difference can be in.
std::string record_of(const program::Program &program, const ProcessRank &how,
                      const std::vector<tensor::HostTensor> &inputs) {
  const symbolic::Bindings symbols = input_sizes(program, inputs);
  std::string text = "version: tsc " TSC_VERSION "\n";
  text += "device: " + how.device + "\n";
  if (!how.has_own_graph)
    text += "graph: " + program.name + "\n";
  text += "architecture: " + support::join(program.archs, ", ") + "\n";
  if (how.has_own_graph)
    text += "graphs: one for each rank\n";
  else
    text += "program: hash " + support::ContentHash().add(program::to_json(program)).hex() + "\n";
  text += "groups: " + how.table.text() + "\n";
  text += "runs: " + std::to_string(how.repeated.bench) + " timed, " +
          std::to_string(how.repeated.profiled) + " profiled\n";
  size_t number = 0;
  for (const program::Step &step : program.steps) {
    const auto *collective = std::get_if<program::Collective>(&step.kind);
    if (collective == nullptr)
      continue;
    text += "collective " + std::to_string(++number) + " (";
    text += how.has_own_graph ? exchange_text(*collective) : step.name;
    text += "): ";
    if (collective->kind == program::Collective::Kind::all_to_all)
      text += "parts for " + std::to_string(collective->sends.size()) + " ranks\n";
    else
      text += number_text(collective->count, symbols) + " elements\n";
  }
  return text;
}

/// Errors: TSC-R043, on all ranks the same.
void compare_records(ranks::World &world, const std::vector<std::string> &records) {
  const std::vector<std::string> first = support::split(records[0], '\n');
  for (size_t rank = 1; rank < records.size(); ++rank) {
    if (records[rank] == records[0])
      continue;
    const std::vector<std::string> other = support::split(records[rank], '\n');
    for (size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
      const std::string here = i < first.size() ? first[i] : "nothing",
                        there = i < other.size() ? other[i] : "nothing";
      if (here == there)
        continue;
      const std::string what = here.substr(0, here.find(": "));
      const auto value = [](const std::string &line) {
        const size_t colon = line.find(": ");
        return colon == std::string::npos ? line : line.substr(colon + 2);
      };
      world.fail("TSC-R043", "rank " + std::to_string(rank) + " and rank 0 differ in " + what +
                                 ": " + value(there) + " there, " + value(here) + " on rank 0");
      world.throw_failure();
    }
  }
}

std::set<std::string> group_names(const program::Program &program) {
  std::set<std::string> names;
  for (const auto &entry : program::group_sizes(program))
    names.insert(entry.first);
  return names;
}

std::unique_ptr<tsc_engine::Groups> connect(ranks::World &world, const program::Program &program,
                                            const ProcessRank &how) {
  return how.device == "cuda" ? runtime::make_cuda_ranks(world, how.table, group_names(program),
                                                         how.session.device_index)
                              : ranks::make_socket_groups(world, how.table);
}

ProcessRun run_session(ranks::World &world, const program::Program &program,
                       const std::vector<tensor::HostTensor> &inputs,
                       const tensor::TensorMap &weights, const ProcessRank &how) {
  ProcessRun result;
  // The first of a machine compiles the kernels, the others find them.
  const bool shares = how.session.use_cache && world.size() > 1;
  if (shares && world.rank() != 0)
    world.wait_for("kernels");
  const std::unique_ptr<runtime::Session> session =
      runtime::Session::create(program, weights, how.session);
  if (shares && world.rank() == 0)
    world.store().set("kernels", "");
  const std::unique_ptr<tsc_engine::Groups> groups = connect(world, program, how);
  session->set_groups(groups.get());
  // Recorded runs hold on to their groups: they end first, after an error too.
  const std::unique_ptr<runtime::Session, void (*)(runtime::Session *)> parted(
      session.get(), [](runtime::Session *one) { one->set_groups(nullptr); });
  session->set_seed(how.seed);
  result.outputs = session->run(inputs);
  if (how.repeated.bench > 0) {
    result.samples_ms = session->bench(inputs, how.repeated.bench);
    session->set_seed(how.seed); // what was timed is what is compared: runs from CUDA graphs, too
    result.outputs = session->run(inputs);
  }
  if (how.repeated.profiled > 0)
    result.profile = session->profile(inputs, how.repeated.profiled);
  result.timing = session->timing();
  world.exchange("done", ""); // what another rank still needs of this one's memory is there
  return result;
}

ProcessRun run_reference_rank(ranks::World &world, const Compilation &compilation,
                              const std::vector<tensor::HostTensor> &inputs,
                              const tensor::TensorMap &weights, const ProcessRank &how) {
  const std::unique_ptr<tsc_engine::Groups> groups = connect(world, compilation.program, how);
  ReferenceOptions options;
  options.seed = how.seed;
  OperationSpans spans(options);
  ProcessRun result;
  result.outputs = std::move(run_reference_ranks(
      compilation, {inputs}, weights, {how.table, groups.get(), world.rank()}, options)[0]);
  if (how.repeated.profiled > 0)
    result.profile = {spans.finish()};
  world.exchange("done", "");
  return result;
}

} // namespace

void tell_others(ranks::World &world, const std::function<void()> &body) {
  try {
    body();
  } catch (const support::UserError &error) {
    if (world.is_failing())
      world.throw_failure();
    const std::string what = error.what();
    world.fail("TSC-R051", "rank " + std::to_string(world.rank()) +
                               " failed: " + what.substr(0, what.find('\n')));
    throw;
  } catch (const std::exception &error) {
    world.fail("TSC-R051", "rank " + std::to_string(world.rank()) + " failed: " + error.what());
    throw;
  }
}

ProcessRun run_process_rank(ranks::World &world, const Compilation &compilation,
                            const std::vector<tensor::HostTensor> &inputs,
                            const tensor::TensorMap &weights, const ProcessRank &how) {
  ProcessRun result;
  tell_others(world, [&] {
    const program::Program &program = compilation.program;
    compare_records(world, world.exchange("record", record_of(program, how, inputs)));
    result = how.device == "reference"
                 ? run_reference_rank(world, compilation, inputs, weights, how)
                 : run_session(world, program, inputs, weights, how);
    world.leave();
  });
  return result;
}

} // namespace tsc::driver
