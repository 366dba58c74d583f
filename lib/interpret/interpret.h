// The oracle: evaluates a Module's operations one buffer at a time in double precision, straight
// from the loop DAG, with no scheduling, fusion or kernels. Every result is rounded to float32
// unless it is float64, and to its buffer's dtype where it is stored; sums once, at their end.
#pragma once

#include "engine/communicator.h"
#include "ir/custom_call.h"
#include "ir/ir.h"
#include "ranks/group_table.h"
#include "tensor/host_tensor.h"

#include <functional>

namespace tsc::interpret {

/// A kernel that the user brought, with everything that a run knows.
struct UserKernelCall {
  const ir::CustomCall *call = nullptr;
  std::vector<tensor::HostTensor> inputs;    // contiguous, of the dtypes that the kernel takes
  std::vector<tensor::Layout> input_layouts; // as it is to see them; numbers
  /// Zeros, as many and as large as it yields.
  std::vector<tensor::HostTensor> results;
  int64_t workspace_bytes = 0;
  const symbolic::Bindings *bindings = nullptr;
};
/// Runs a call: fills its results.
using UserKernelRunner = std::function<void(UserKernelCall &)>;
/// Is told of each operation before it is evaluated (`begins`), and after. By its number in the
/// module.
using OperationMark = std::function<void(size_t operation, bool begins)>;

struct Result {
  /// Parallel to module.outputs; 0-d for scalars, empty for None.
  std::vector<tensor::HostTensor> outputs;
  /// What is wrong with the first value that a check of the module refuses (its index was taken for
  /// 0 then), or "".
  std::string failure;
};
/// Throws UserError (TSC-R127) if `result` has a failure.
void check(const Result &result);
/// `inputs` parallel to module.inputs; contiguous data, laid out by the input's layout here. Sizes
/// are bound from the inputs' shapes. round_buffers = false rounds nothing (float64
/// reference). Throws as check does.
Result run(const ir::Module &module, const std::vector<tensor::HostTensor> &inputs,
           bool round_buffers = true);

/// How ranks reach each other. Without `groups` all of them run here, numbered from 0; else one
/// does, number `rank`, and the others are behind these connections.
struct Links {
  ranks::GroupTable table;
  tsc_engine::Groups *groups = nullptr;
  int64_t rank = 0;
};

/// The same on several ranks at once, inputs[rank]: collectives exchange what the ranks hold. One
/// result a rank. `kernels` runs what users brought, and is needed for modules with such calls.
/// All ranks here do an operation, then the next.
std::vector<Result> run_ranks(const ir::Module &module,
                              const std::vector<std::vector<tensor::HostTensor>> &inputs,
                              const Links &links, bool round_buffers = true,
                              const UserKernelRunner &kernels = nullptr,
                              const OperationMark &mark = nullptr);

} // namespace tsc::interpret
