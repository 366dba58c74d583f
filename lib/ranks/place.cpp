#include "ranks/place.h"

#include "support/diagnostic.h"
#include "support/environment.h"

#include <cstdlib>

namespace tsc::ranks {
namespace {

constexpr int64_t kMostRanks = 1 << 20;

struct Names {
  const char *rank, *world, *local_rank;
};
constexpr Names kOwn = {"RANK", "WORLD_SIZE", "LOCAL_RANK"};
constexpr Names kStarters[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}};

std::string text_of(const char *name) {
  const char *value = std::getenv(name);
  return value == nullptr ? "" : value;
}

[[noreturn]] void refuse(const char *code, const std::string &message,
                         const std::string &next_step) {
  throw support::UserError(support::ExitCode::usage,
                           {.code = code, .message = message, .next_step = next_step});
}

int port_of_store() {
  constexpr int64_t kMostPorts = 65535;
  if (const auto own = support::environment_number("TSC_STORE_PORT", 1, kMostPorts))
    return static_cast<int>(*own);
  const auto port = support::environment_number("MASTER_PORT", 1, kMostPorts - 1);
  if (!port)
    return 29511; // the same on all ranks
  // There torchrun's own store listens.
  return static_cast<int>(*port) + (text_of("TORCHELASTIC_USE_AGENT_STORE") == "True" ? 1 : 0);
}

std::optional<Place> place_by(const Names &names) {
  const auto rank = support::environment_number(names.rank, 0, kMostRanks);
  const auto world = support::environment_number(names.world, 1, kMostRanks);
  if (!rank && !world)
    return std::nullopt;
  if (!rank || !world)
    refuse("TSC-C050",
           std::string(rank ? names.rank : names.world) + " is set, and " +
               (rank ? names.world : names.rank) + " is not",
           "set both, as torchrun does, or neither");
  if (*rank >= *world)
    refuse("TSC-C050",
           std::string(names.rank) + "=" + std::to_string(*rank) + " is no rank of " + names.world +
               "=" + std::to_string(*world),
           "ranks are numbered from 0");
  Place place;
  place.rank = *rank;
  place.world = *world;
  place.local_rank = support::environment_number(names.local_rank, 0, kMostRanks).value_or(*rank);
  place.port = port_of_store();
  if (const std::string address = text_of("MASTER_ADDR"); !address.empty())
    place.address = address;
  else if (const std::string node = text_of("SLURM_LAUNCH_NODE_IPADDR"); !node.empty())
    place.address = node;
  place.is_launched = !text_of("TSC_LAUNCHED").empty();
  return place;
}

} // namespace

std::optional<Place> place_in_environment() {
  if (std::optional<Place> place = place_by(kOwn))
    return place;
  for (const Names &names : kStarters)
    if (!text_of(names.rank).empty())
      if (std::optional<Place> place = place_by(names); place && place->world > 1)
        return place;
  return std::nullopt;
}

} // namespace tsc::ranks
