// Kernel plan -> text. Makes no decision.
#pragma once

#include "codegen/plan.h"
#include "program/program.h"

namespace tsc::codegen {

/// The size parameter of a kernel with two paths: 0 where the launch found its sizes aligned.
inline constexpr const char *kMisaligned = "misaligned";
inline constexpr const char *kInverse = "inverse"; // with a number behind it

/// Of a kernel with run-time indices: where it notes that one is out of range, and what it notes.
inline constexpr const char *kFailure = "failure", *kCheck = "check";

/// Of a kernel whose blocks tell each other something: where.
inline constexpr const char *kExchange = "exchange";

/// The kernel's parameters and, by storage buffer, their names.
struct Parameters {
  std::vector<program::KernelParameter> list; // pointers, then sizes
  std::vector<BufferId> storages;             // of the pointers, in order; kFailure: kNone
  std::vector<Expr> sizes;                    // values of the size parameters, in order
  std::vector<bool> narrow;                   // size parameters that fit into 32 bits
  std::vector<bool> restricted;               // pointers: no other pointer sees this memory
  std::vector<uint32_t> checks;               // what the kernel notes is kCheck + its place here
  /// Sizes that positions are divided by, and the size parameters by which tc_quotient does it.
  std::vector<std::pair<Expr, std::string>> inverses;
  const std::string &name_of(BufferId storage) const;
  /// The kernel writes it through no pointer.
  bool only_read(BufferId storage) const;
  /// The kernel reads it through one pointer, and stores over what it has read through another.
  bool stored_over(BufferId storage) const;
};

// Pieces of kernel texts: "const float *TC_RESTRICT ", the line up to the brace, the last line.
// `least_blocks`: large angles are reduced in local memory, and tuples are many registers: there
// ptxas spills to keep the most blocks resident unless the head says how few are enough.
std::string pointer_text(DType dtype, bool is_const, bool restricted);
std::string kernel_head(int block, const std::string &name, const std::string &parameters,
                        int least_blocks);
std::string export_line(const std::string &name, bool has_barriers, bool shared);

/// A kernel as a device function that one of several parts of a launch calls: its first parameter
/// is the number of the part's own block; its last, if `uses_shared`, the part's structure
/// NAME_shared in shared memory.
struct PartText {
  std::string text;
  bool uses_shared = false;
};
PartText print_part(const ir::Module &module, const KernelPlan &plan, const Parameters &parameters,
                    const std::string &name);

/// The definition, without a header comment, for a kernel called `name`.
std::string print_kernel(const ir::Module &module, const KernelPlan &plan,
                         const Parameters &parameters, const std::string &name);

/// What becomes of a run that a ProductWalk computes: stored to memory; given to the product as its
/// operand, `values`; or (copied_load) returned as the place in memory where it is, null for zeros.
enum class RunUse : uint8_t { stored, operand, copied };
/// A load of `bytes` that may happen long before the run is computed: `name` then is a member of
/// what the run is given, as `ahead` or, if all rows have the same, as `along`.
struct AheadLoad {
  std::string type, name, load;
  int bytes;
  bool is_along;
};
/// `ahead`: if not null, gets loads that always happen, of what the kernel does not change before
/// (or changes there alone): those whose place varies with `row`, and those of all rows. The text
/// takes them from there.
std::string print_product_run(const ir::Module &module, const KernelPlan &plan,
                              const Parameters &parameters, RunUse use,
                              std::vector<AheadLoad> *ahead = nullptr, Expr row = Expr(0));
/// The vector load that the plan's only store stores as it is, or zero where a mask hides it; kNone
/// if there is none.
ValueId copied_load(const KernelPlan &plan);

/// Whether `body` holds the name of a parameter as a word.
bool mentions(const std::string &body, const std::string &name);

/// Members of a function object: the parameters that `body` mentions; and how it is made.
struct Members {
  std::string declarations, values;
};
/// "const float *", "long long ".
std::string member_type(const program::KernelParameter &parameter);
Members members_of(const Parameters &parameters, const std::string &body);

} // namespace tsc::codegen
