// Which rank this process is, by the variables that torchrun, mpirun, Slurm and tsc's own launcher
// set.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tsc::ranks {

struct Place {
  int64_t rank = 0, world = 1;
  int64_t local_rank = 0;            // of this machine: the number of its GPU
  std::string address = "127.0.0.1"; // of the store
  int port = 0;
  bool is_launched = false; // by tsc: the store is the launcher's
};

/// RANK, WORLD_SIZE and LOCAL_RANK; where there is no RANK those of Open MPI
/// (OMPI_COMM_WORLD_RANK), MPICH (PMI_RANK) and Slurm (SLURM_PROCID), if there are several ranks.
/// MASTER_ADDR (where rank 0 runs) and MASTER_PORT, the store's port; TSC_STORE_PORT comes first,
/// and torchrun's agent has MASTER_PORT itself: the store then takes the next one. Nothing if no
/// rank is named. Errors: UserError (usage) TSC-C050 for what is missing or contradicts itself.
std::optional<Place> place_in_environment();

} // namespace tsc::ranks
