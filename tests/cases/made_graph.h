// Graphs that a test makes: a table of calls, compiled and run against the reference.
#pragma once

#include "driver/compile.h"
#include "runtime/session.h"
#include "tensor/host_tensor.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace tsc::testing {

struct MadeInput {
  std::string name, dtype;
  std::vector<int64_t> sizes;
  double low = -2, high = 2; // of its random elements
};

struct MadeGraph {
  std::string name;
  std::vector<MadeInput> inputs;
  nlohmann::json calls; // name, target, arguments, perhaps keywords; "$x" is node x
  std::vector<std::string> outputs;
  std::vector<std::string> policy_options;             // over the default policy's
  bool inputs_are_alike = false;                       // in their first dimension
  nlohmann::json subgraphs = nlohmann::json::object(); // names -> {"nodes": [..]}, as in a file
  std::string device = "cpu"; // that the graph was exported on: layouts may follow from it
  std::string arch = "sm_90"; // target::find_target
  int64_t least = 2;          // of the first dimension, where it is a symbol
};

/// `is_dynamic`: the first dimension of the first input (or of all, if they are alike) is a symbol
/// of at least `least`.
driver::Compilation compile_made(const MadeGraph &graph, bool is_dynamic);

/// Runs with random inputs, each in each of `ways`, and checks that outputs agree with the
/// reference. `first`: that dimension; 0: as the graph says.
void check_made(const MadeGraph &graph, const driver::Compilation &compilation, int64_t first,
                const std::vector<runtime::SessionOptions> &ways);

/// The same against the reference of `oracle`, another way of computing the graph.
void check_made(const MadeGraph &graph, const driver::Compilation &compilation,
                const driver::Compilation &oracle, int64_t first,
                const std::vector<runtime::SessionOptions> &ways);

/// Random inputs, and what the reference computes of them: with buffers rounded to their dtypes,
/// and not.
struct MadeRun {
  std::vector<tensor::HostTensor> inputs, expected, reference;
};
/// The two steps of check_made, for plans that share the answers.
MadeRun make_run(const MadeGraph &graph, const driver::Compilation &oracle, int64_t first);
void check_run(const MadeGraph &graph, const MadeRun &run, const driver::Compilation &compilation,
               const std::vector<runtime::SessionOptions> &ways);

/// The host with the serial plan and with the GPU's.
std::vector<runtime::SessionOptions> host_ways();
/// The host with the GPU's plan: for what only that plan does (half the compiler's time).
std::vector<runtime::SessionOptions> plan_ways();
/// The GPU; nothing, and the test is noted as skipped, where there is none.
std::vector<runtime::SessionOptions> gpu_ways();

} // namespace tsc::testing
