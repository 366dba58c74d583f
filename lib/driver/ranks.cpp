#include "driver/ranks.h"

#include "runtime/local_ranks.h"
#include "support/diagnostic.h"
#include "support/text.h"

#include <algorithm>

namespace tsc::driver {

namespace {

/// The rank that a name is of, and the rest of it; nothing without a rank.
std::optional<std::pair<int64_t, std::string>> split_name(const std::string &name) {
  constexpr std::string_view kPrefix = "rank_";
  const size_t slash = name.find('/');
  if (!support::starts_with(name, kPrefix) || slash == std::string::npos ||
      slash == kPrefix.size() || slash > kPrefix.size() + 9)
    return std::nullopt;
  const std::string digits = name.substr(kPrefix.size(), slash - kPrefix.size());
  if (digits.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return std::pair{std::stoll(digits), name.substr(slash + 1)};
}

} // namespace

bool has_collectives(const program::Program &program) {
  return std::any_of(program.steps.begin(), program.steps.end(), [](const program::Step &step) {
    return std::holds_alternative<program::Collective>(step.kind);
  });
}

int64_t check_world_size(const program::Program &program, int64_t asked,
                         const std::string &device) {
  const bool together = has_collectives(program);
  const int64_t ranks = program::world_size(program);
  const std::string given = asked == 0 ? "not given" : std::to_string(asked);
  if (together && asked != ranks)
    throw support::UserError(support::ExitCode::usage,
                             {.code = "TSC-C011",
                              .message = "the graph communicates among " + std::to_string(ranks) +
                                         " ranks, and --world-size is " + given,
                              .next_step = "give --world-size " + std::to_string(ranks) +
                                           ": all ranks run in this process"});
  if (!together && asked > 1)
    throw support::UserError(
        support::ExitCode::usage,
        {.code = "TSC-C011",
         .message = "the graph has no collectives, and --world-size is " + given,
         .next_step = "leave --world-size out"});
  if (together && device != "reference" && device != "host")
    throw support::UserError(support::ExitCode::unsupported,
                             {.code = "TSC-R021",
                              .message = "collectives do not run on the device " + device,
                              .next_step = "run with --device host or --device reference"});
  return ranks;
}

tensor::TensorMap tensors_of_rank(const tensor::TensorMap &file, int64_t rank) {
  tensor::TensorMap own;
  for (const auto &[name, tensor] : file) {
    const auto split = split_name(name);
    if (!split)
      own.emplace(name, tensor); // unless the rank has one of that name
    else if (split->first == rank)
      own.insert_or_assign(split->second, tensor);
  }
  return own;
}

std::string name_of_rank(int64_t rank, const std::string &name) {
  return "rank_" + std::to_string(rank) + "/" + name;
}

RankTensors load_rank_inputs(const program::Program &program, const DataSource &source,
                             int64_t ranks, const std::map<std::string, DataHint> &hints,
                             const Constants &constants, const Shapes &shapes) {
  RankTensors inputs;
  tensor::TensorMap file;
  if (!source.random)
    file = tensor::read_tensors(source.path);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    if (source.random) {
      DataSource own = source;
      own.seed += static_cast<uint64_t>(rank);
      inputs.push_back(load_inputs(program, own, hints, constants, shapes));
    } else {
      inputs.push_back(match_inputs(program, tensors_of_rank(file, rank), source.path, constants));
    }
  }
  return inputs;
}

RankRun run_ranks_on_host(const program::Program &program, const RankTensors &inputs,
                          const tensor::TensorMap &weights, const runtime::SessionOptions &options,
                          uint64_t seed, const RepeatedRuns &repeated) {
  std::vector<std::unique_ptr<runtime::Session>> sessions;
  for (size_t rank = 0; rank < inputs.size(); ++rank) // the first compiles, the others find it
    sessions.push_back(runtime::Session::create(program, weights, options));
  RankRun result;
  result.outputs.resize(inputs.size());
  result.profiles.resize(repeated.profiled > 0 ? inputs.size() : 0);
  runtime::run_local_ranks(
      static_cast<int64_t>(inputs.size()), [&](int64_t number, tsc_engine::Communicator &others) {
        const auto rank = static_cast<size_t>(number);
        runtime::Session &session = *sessions[rank];
        session.set_communicator(&others);
        session.set_seed(seed);
        result.outputs[rank] = session.run(inputs[rank]);
        if (repeated.bench > 0) {
          std::vector<double> samples = session.bench(inputs[rank], repeated.bench);
          if (rank == 0)
            result.samples_ms = std::move(samples);
        }
        if (repeated.profiled > 0)
          result.profiles[rank] = session.profile(inputs[rank], repeated.profiled);
      });
  result.timing = sessions[0]->timing();
  return result;
}

} // namespace tsc::driver
