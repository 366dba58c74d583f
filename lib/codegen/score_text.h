// The functions that attention's scores go through, as a structure in front of its kernel.
#pragma once

#include "codegen/print_kernel.h"

#include <set>

namespace tsc::codegen {

/// Symbols of sizes that the functions mention.
void add_function_sizes(const ir::Module &module, const ir::ScoreFunctions &scores,
                        std::set<Expr, symbolic::ExprLess> &sizes);
/// What their run-time indices are held to, each once.
std::vector<uint32_t> function_checks(const ir::Module &module, const ir::ScoreFunctions &scores);

/// The structure `name`; `inputs`: the call's, as the kernel is given them by `parameters`.
/// Members: pointers that the functions read through, sizes, kFailure and kCheck, each by the name
/// of the parameter that it is.
struct ScoreText {
  std::string structure;
  std::vector<std::string> members;
  bool has_series = false; // calls functions of tc_special.h
};
ScoreText score_text(const ir::Module &module, const ir::ScoreFunctions &scores,
                     const Parameters &parameters, const std::string &name);

} // namespace tsc::codegen
