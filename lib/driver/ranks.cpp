#include "driver/ranks.h"

#include "program/program.h"
#include "ranks/thread_ranks.h"
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

namespace {

[[noreturn]] void refuse(const char *code, std::string message, std::string next_step) {
  throw support::UserError(
      support::ExitCode::usage,
      {.code = code, .message = std::move(message), .next_step = std::move(next_step)});
}

/// The groups that nobody described are the world: then they have as many ranks.
void check_size_of_world(const std::map<std::string, int64_t> &sizes, const RanksAsked &asked) {
  const std::string given = asked.world_size == 0 ? "not given" : std::to_string(asked.world_size);
  int64_t most = 0;
  for (const auto &entry : sizes)
    most = std::max(most, entry.second);
  if (asked.groups.empty() && asked.mesh.empty() &&
      std::all_of(sizes.begin(), sizes.end(),
                  [&](const auto &entry) { return entry.second == 0 || entry.second == most; })) {
    if (most != 0 && asked.world_size != most)
      refuse("TSC-C011",
             "the graph communicates among " + std::to_string(most) +
                 " ranks, and --world-size is " + given,
             "give --world-size " + std::to_string(most));
  }
  if (asked.world_size == 0)
    refuse("TSC-C011", "the graph communicates, and --world-size is not given",
           "give --world-size, the number of all ranks");
}

} // namespace

ranks::GroupTable group_table(const program::Program &program, const RanksAsked &asked) {
  if (!has_collectives(program)) {
    if (asked.world_size > 1 || !asked.groups.empty() || !asked.mesh.empty())
      refuse("TSC-C011",
             "the graph has no collectives, and " +
                 (asked.world_size > 1 ? "--world-size is " + std::to_string(asked.world_size)
                                       : std::string("groups are described")),
             "leave --world-size out");
    return {};
  }
  const std::map<std::string, int64_t> sizes = program::group_sizes(program);
  check_size_of_world(sizes, asked);
  ranks::GroupTable table = ranks::make_group_table(asked.world_size, asked.groups, asked.mesh);
  std::vector<std::string> names;
  for (const auto &[name, size] : sizes) {
    names.push_back("'" + name + "'");
    const auto has = static_cast<int64_t>(table.members(name, 0).size());
    if (size != 0 && size != has)
      refuse("TSC-C052",
             "the group '" + name + "' has " + std::to_string(size) + " ranks in the graph, and " +
                 (table.groups.count(name) != 0
                      ? std::to_string(has) + " as it is described"
                      : "nothing says which of the " + std::to_string(has) + " of the run"),
             "describe it: --group '" + name + "=0,1/2,3', or --mesh NAME=SIZE,NAME=SIZE");
  }
  for (const auto &entry : table.groups)
    if (sizes.count(entry.first) == 0)
      refuse("TSC-C052", "the graph has no group '" + entry.first + "'",
             "its groups are " + support::join(names, ", "));
  return table;
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
                             int64_t first, int64_t count,
                             const std::map<std::string, DataHint> &hints,
                             const Constants &constants, const Shapes &shapes) {
  RankTensors inputs;
  tensor::TensorMap file;
  if (!source.random)
    file = tensor::read_tensors(source.path);
  for (int64_t rank = first; rank < first + count; ++rank) {
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
                          const tensor::TensorMap &weights, const ranks::GroupTable &table,
                          const runtime::SessionOptions &options, uint64_t seed,
                          const RepeatedRuns &repeated) {
  std::vector<std::unique_ptr<runtime::Session>> sessions;
  for (size_t rank = 0; rank < inputs.size(); ++rank) // the first compiles, the others find it
    sessions.push_back(runtime::Session::create(program, weights, options));
  RankRun result;
  result.outputs.resize(inputs.size());
  result.profiles.resize(repeated.profiled > 0 ? inputs.size() : 0);
  ranks::run_ranks_as_threads(table, [&](int64_t number, tsc_engine::Groups &others) {
    const auto rank = static_cast<size_t>(number);
    runtime::Session &session = *sessions[rank];
    session.set_groups(&others);
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
