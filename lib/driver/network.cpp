#include "driver/network.h"

#include "driver/group_cost.h"
#include "driver/group_kernels.h"
#include "driver/memory_use.h"
#include "support/diagnostic.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>

namespace tsc::driver {
namespace {

using tsc_engine::CollectiveKind;

[[noreturn]] void refuse(const std::string &path, const std::string &why) {
  throw support::UserError(
      support::ExitCode::bad_input,
      {.code = "TSC-C054",
       .message = "this is no network: " + why,
       .file = path,
       .next_step = "give {\"name\": \"..\", \"levels\": [{\"ranks\": 8, "
                    "\"gigabytes_per_second\": 450, \"microseconds\": 2}, ..]}, the innermost "
                    "level first"});
}

/// By level, from the inside: how many units of the one below a unit of these ranks has.
std::vector<double> units_of(const Network &network, const std::vector<int64_t> &members) {
  std::vector<double> units;
  auto below = static_cast<double>(members.size());
  int64_t size = 1;
  for (const NetworkLevel &level : network.levels) {
    size *= level.ranks;
    std::set<int64_t> here;
    for (const int64_t member : members)
      here.insert(member / size);
    units.push_back(below / static_cast<double>(here.size()));
    below = static_cast<double>(here.size());
  }
  return units;
}

/// Of `bytes` in the end.
double gather_seconds(const Network &network, const std::vector<double> &units, double bytes,
                      double ranks) {
  double seconds = 0, has = bytes / ranks;
  for (size_t i = units.size(); i-- > 0;) {
    if (units[i] <= 1)
      continue;
    seconds += has * (units[i] - 1) / network.levels[i].bandwidth +
               std::ceil(std::log2(units[i])) * network.levels[i].latency;
    has *= units[i];
  }
  return seconds;
}

double broadcast_seconds(const Network &network, const std::vector<double> &units, double bytes) {
  double slowest = 0, latency = 0;
  for (size_t i = 0; i < units.size(); ++i) {
    if (units[i] <= 1)
      continue;
    slowest = std::max(slowest, bytes / network.levels[i].bandwidth);
    latency += std::ceil(std::log2(units[i])) * network.levels[i].latency;
  }
  return slowest + latency;
}

double exchange_seconds(const Network &network, const std::vector<double> &units, double bytes,
                        double ranks) {
  double seconds = 0, inside = 1; // ranks of the unit that is looked at
  for (size_t i = 0; i < units.size(); ++i) {
    if (units[i] > 1)
      seconds += bytes / ranks * inside * (units[i] - 1) / network.levels[i].bandwidth +
                 network.levels[i].latency;
    inside *= units[i];
  }
  return seconds;
}

CollectiveKind kind_of(ir::Library library) {
  return static_cast<CollectiveKind>(static_cast<int>(library) -
                                     static_cast<int>(ir::Library::all_gather));
}

/// A rank's run on two streams, step by step.
class Simulation {
public:
  Simulation(const Compilation &compilation, const target::Target &target, const Network &network,
             const ranks::GroupTable &table)
      : compilation_(compilation), module_(compilation.module), target_(target), network_(network),
        table_(table) {}

  CommunicationPlan run() {
    const std::vector<std::vector<uint32_t>> kernels = kernels_of_groups(compilation_);
    for (size_t g = 0; g < kernels.size(); ++g) {
      const scheduler::Group &group = compilation_.schedule.groups[g];
      const ir::Operation &operation =
          module_.operations[compilation_.schedule.nodes[group.members[0]].operation];
      const auto *call = std::get_if<ir::Extern>(&operation.kind);
      if (call != nullptr && ir::is_collective(call->library)) {
        begin(operation, *call);
      } else if (call != nullptr && call->library == ir::Library::wait) {
        wait(*call);
      } else {
        const double seconds =
            expected_cost(compilation_.program, {module_, compilation_.schedule, group}, kernels[g],
                          target_)
                .nanoseconds *
            1e-9;
        plan_.computing += seconds;
        now_ += seconds;
      }
    }
    for (const auto &entry : running_)
      expose(entry.second);
    plan_.total = now_;
    const std::optional<tsc_engine::Footprint> memory = memory_use(compilation_.program);
    plan_.memory = memory ? memory->workspace + memory->outputs + memory->weights : -1;
    return std::move(plan_);
  }

private:
  const Compilation &compilation_;
  const ir::Module &module_;
  const target::Target &target_;
  const Network &network_;
  const ranks::GroupTable &table_;
  CommunicationPlan plan_;
  double now_ = 0, links_free_ = 0;
  std::vector<double> ends_;               // by collective
  std::map<ir::BufferId, size_t> running_; // by the storage that it writes: the collective

  double bytes_of(const ir::BufferView &view) const {
    double elements = 1;
    for (const symbolic::Expr size : view.layout.sizes)
      elements *= static_cast<double>(size.is_integer() ? size.value()
                                                        : module_.ranges.interval_of(size).low);
    return elements * static_cast<double>(tensor::size_in_bytes(view.dtype));
  }

  void begin(const ir::Operation &operation, const ir::Extern &call) {
    const std::vector<int64_t> members = table_.members(call.group.name, 0);
    PlannedCollective planned;
    planned.name = operation.name;
    planned.group = call.group.name;
    if (!operation.origins.empty())
      planned.node = module_.origins[operation.origins[0]].node;
    static constexpr const char *kNames[] = {"all_gather", "reduce_scatter", "all_reduce",
                                             "broadcast", "all_to_all"};
    const CollectiveKind kind = kind_of(call.library);
    planned.what = kNames[static_cast<size_t>(kind)];
    planned.bytes = bytes_of(call.inputs[0]) *
                    (kind == CollectiveKind::all_gather ? static_cast<double>(members.size()) : 1);
    planned.seconds = collective_seconds(network_, members, kind, planned.bytes);
    plan_.communicating += planned.seconds;
    links_free_ = std::max(now_, links_free_) + planned.seconds;
    const ir::BufferId to = call.inputs.size() > 1 ? call.inputs[1].buffer : operation.outputs[0];
    running_[module_.storage_of(to)] = plan_.collectives.size();
    ends_.push_back(links_free_);
    plan_.collectives.push_back(std::move(planned));
  }

  void wait(const ir::Extern &call) {
    const auto found = running_.find(module_.storage_of(call.inputs[0].buffer));
    if (found == running_.end())
      return;
    expose(found->second);
    running_.erase(found);
  }

  void expose(size_t collective) {
    const double waits = std::max(0.0, ends_[collective] - now_);
    plan_.collectives[collective].exposed += waits;
    plan_.exposed += waits;
    now_ += waits;
  }
};

} // namespace

Network read_network(const std::string &path, int64_t world) {
  std::ifstream file(path);
  const nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("levels") || !json["levels"].is_array())
    refuse(path, file ? "it has no list of levels" : "it cannot be read");
  Network network;
  network.name = json.value("name", path);
  int64_t ranks = 1;
  for (const nlohmann::json &row : json["levels"]) {
    const auto number = [&](const char *key) {
      if (!row.is_object() || !row.contains(key) || !row[key].is_number() ||
          !(row[key].get<double>() > 0))
        refuse(path, std::string("a level has no '") + key + "' above 0");
      return row[key].get<double>();
    };
    NetworkLevel level;
    level.ranks = static_cast<int64_t>(number("ranks"));
    level.bandwidth = number("gigabytes_per_second") * 1e9;
    level.latency = number("microseconds") * 1e-6;
    ranks = std::min(ranks * level.ranks, int64_t{1} << 40);
    network.levels.push_back(level);
  }
  if (ranks < world)
    refuse(path, "it joins " + std::to_string(ranks) + " ranks, and the run has " +
                     std::to_string(world));
  return network;
}

double collective_seconds(const Network &network, const std::vector<int64_t> &members,
                          CollectiveKind kind, double bytes) {
  const std::vector<double> units = units_of(network, members);
  const auto ranks = static_cast<double>(members.size());
  switch (kind) {
  case CollectiveKind::all_gather:
  case CollectiveKind::reduce_scatter:
    return gather_seconds(network, units, bytes, ranks);
  case CollectiveKind::all_reduce:
    return 2 * gather_seconds(network, units, bytes, ranks);
  case CollectiveKind::broadcast:
    return broadcast_seconds(network, units, bytes);
  case CollectiveKind::all_to_all:
    return exchange_seconds(network, units, bytes, ranks);
  case CollectiveKind::barrier:
    break;
  }
  return 2 * gather_seconds(network, units, 0, ranks);
}

CommunicationPlan plan_communication(const Compilation &compilation, const target::Target &target,
                                     const Network &network, const ranks::GroupTable &table) {
  return Simulation(compilation, target, network, table).run();
}

} // namespace tsc::driver
