// One group of loops -> one kernel: parameters, texts of both plans, geometry, bytes, header.
#pragma once

#include "codegen/print_kernel.h"

#include <map>
#include <set>

namespace tsc::codegen {

/// Stands in BuiltKernel::sizes for the number of the launch's first check (parameter kCheck).
Expr number_of_check();

struct BuiltKernel {
  program::Kernel kernel;
  /// All that makes the kernel what it is, origins left out: kernels are one if this is equal.
  std::string content;
  std::vector<BufferId> pointers; // storage buffers, in the order of the pointer parameters; kNone:
                                  // the program's failure
  std::vector<std::pair<BufferId, BufferId>>
      inplace;             // the group's pairs whose accesses are at one index
  std::vector<Expr> sizes; // in the order of the size parameters
  /// What the launch checks of its run-time indices, numbered in this order: of the module's checks
  /// (kNone: DataCheck() as it is).
  std::vector<uint32_t> checks;
  /// What a tuner can choose, if there is one; else no key.
  TunableKernel tunable;
};
/// A group's kernel before it is printed: alone, or as a part of a launch (join_kernels.h).
struct PlannedKernel {
  KernelPlan cuda, serial;
  Parameters parameters;
  Expr bytes_read, bytes_written;
  program::KernelEstimate estimate;
  std::vector<std::pair<BufferId, BufferId>> inplace; // as in BuiltKernel
  std::vector<const ir::Origin *> origins;            // user nodes, each once, in graph order
  std::vector<std::string_view> includes;             // besides the prelude
};
PlannedKernel plan_kernel(const ir::Module &module, const scheduler::Schedule &schedule,
                          const scheduler::Group &group, const target::Target &target,
                          const KernelGraph *given = nullptr, const PlanChoice *choice = nullptr);
BuiltKernel print_planned(const ir::Module &module, const PlannedKernel &planned);

/// `given`: a part of the group's work, as split_rows makes it; else all of it. `tuning`: what to
/// choose, or null.
BuiltKernel build_kernel(const ir::Module &module, const scheduler::Schedule &schedule,
                         const scheduler::Group &group, const target::Target &target,
                         const KernelGraph *given = nullptr, const Tuning *tuning = nullptr);

/// Tuning::chosen asked for the kernel that was built as planned. What it says to take, if that is
/// one of `alternatives`; null otherwise. Fills built.tunable.
const PlanChoice *choose(BuiltKernel &built, std::vector<PlanChoice> alternatives,
                         const target::Target &target, const Tuning &tuning);

/// Adds the files of the prelude whose functions the values of `graph` call, each once.
void include_functions(const KernelGraph &graph, std::vector<std::string_view> &includes);

/// Names a kernel after its origins and a hash of its texts, in which it is called
/// kKernelPlaceholder so far, and puts the header comment and the includes above them. The hash
/// keeps names stable; it is no identity, which is `content`: two kernels may get one name here,
/// and KernelNames gives the second another.
inline constexpr std::string_view kKernelPlaceholder = "tsc_kernel_name";
void finish_kernel(BuiltKernel &built, const std::vector<const ir::Origin *> &origins,
                   const std::string &serial_plan,
                   std::span<const std::string_view> further_includes);

/// The kernels of a program by content, each under a name of its own.
class KernelNames {
public:
  /// The number of the kernel that is the same as `built`. If there is none yet, `next`, and the
  /// kernel has a name that no other has.
  uint32_t number_of(BuiltKernel &built, uint32_t next);

private:
  std::map<std::string, uint32_t> numbers_; // by content
  std::set<std::string> taken_;
};

/// Whether every element of `input` that the kernel reads is the one of `output` that it writes at
/// the same point.
bool same_elements(const ir::Module &module, const KernelGraph &graph, BufferId output,
                   BufferId input);

/// Origins of a group's operations: user nodes, each once, in graph order.
std::vector<const ir::Origin *> origins_of(const ir::Module &module,
                                           const scheduler::Schedule &schedule,
                                           const scheduler::Group &group);

} // namespace tsc::codegen
