// What a tuner may choose of kernels: the numbers of their plans that change speed alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tsc::codegen {

/// Numbers to plan with instead of the planner's own. 0: the planner's.
struct PlanChoice {
  int vector = 0;  // elements of a run: pointwise
  int steps = 0;   // runs a thread: pointwise
  int block = 0;   // threads a block: pointwise
  int threads = 0; // that share a row or column: row and column reductions
  int rows = 0;    // a block: row reductions; results a block: products
  int columns = 0; // a block: column reductions; results a block: products
  int tile = 0;    // rows a thread: windows; elements a thread: tiles through shared memory
  int turns = 0;   // groups of warps that take tiles in turns: products
  int pair = 0;    // blocks that bring operands for each other: products
  bool is_planned() const { return *this == PlanChoice{}; }
  friend bool operator==(const PlanChoice &, const PlanChoice &) = default;
};
/// "steps=2 block=128"; "" for the planner's.
std::string to_text(const PlanChoice &choice);
/// The same back; nothing if `text` is no choice.
std::optional<PlanChoice> parse_choice(std::string_view text);

/// A kernel whose plan leaves something to choose.
struct TunableKernel {
  /// Follows from all that the kernel computes and from the target, not from the choice. Two
  /// kernels of one key would only be given the same choice, which each must have among its own.
  std::string key;
  uint32_t kernel = 0;                  // of the program
  std::vector<PlanChoice> alternatives; // to the planner's; at most seven
  bool is_chosen = false;               // Tuning::chosen has it, and it is an alternative
};

struct Tuning {
  std::map<std::string, PlanChoice> chosen; // by key
  std::vector<TunableKernel> kernels;       // filled by generate, each key once
};

} // namespace tsc::codegen
