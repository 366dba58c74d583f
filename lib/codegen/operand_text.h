// The text of an operand that is computed as it is read (a product's right one, attention's keys
// and values): runs of terms of a row, every element of a run written out, so that what memory
// holds packed (8 bits, 4 bits) is loaded in whole words and conditions on places are decided. The
// type of tc_operand_runs.h.
#pragma once

#include "codegen/kernel_graph.h"
#include "codegen/print_kernel.h"

#include <optional>
#include <string>

namespace tsc::codegen {

class OperandText {
public:
  /// `graph`: over the variables `place` of a row and `term`, of `terms` terms, which stores each
  /// element once. Runs are as long as it takes for what memory holds to be words of 16 bytes, 8 to
  /// 32 terms: neighbours, or (`may_pair`) pairs (scheduler::term_of_pairs). Nothing where places
  /// are looked up for single terms or under conditions, or `terms` is no multiple of 8. At most
  /// `most_words` accesses of a run wait in shared memory; others in registers.
  static std::optional<OperandText> make(const ir::Module &module, const KernelGraph &graph,
                                         const std::vector<Expr> &place, Expr term, int64_t terms,
                                         int most_words, bool may_pair = true);

  int run() const { return run_; }
  /// Accesses of 16 bytes of a run that wait in shared memory.
  int words() const { return words_; }
  /// Whether a run is words whose elements are the operand's as they are, of type `factor`.
  bool is_copy(DType factor) const;
  /// Of a run that is loaded one by one, under a condition.
  bool has_conditions() const;
  /// What run-time indices are held to, each once.
  std::vector<uint32_t> checks() const;
  /// Over place and run: what indices read and which memory.
  const KernelGraph &graph() const { return graph_; }
  /// Instructions of an element, about.
  double instructions() const;
  /// The members of the type but its pointers and sizes; its runs in pairs of `factor`, a 16-bit
  /// float, on a device, and as floats on the host.
  std::string print(const ir::Module &module, const Parameters &parameters, DType factor) const;

private:
  /// Neighbours that one access loads.
  struct Load {
    std::vector<ValueId> elements;
    std::string name;
    bool is_word = false; // 16 bytes, by way of shared memory
  };
  KernelGraph graph_;
  std::vector<Expr> place_;
  Expr term_;
  bool wide_ = false;            // places of elements may be beyond 32 bits
  std::vector<bool> used_;       // by results, without what only finds run-time indices
  std::vector<ValueId> lookups_; // set_indirect
  std::vector<ValueId> results_; // of the run's elements
  std::vector<Load> loads_;
  int run_ = 0, words_ = 0;
  bool paired_ = false; // scheduler::term_of_pairs
  int64_t widest_ = 0;  // bytes of an access

  void find_loads(const ir::Module &module, int most_words);
  void find_used(const ir::Module &module);
  /// Declarations of the parameters that say which run.
  std::string parameters() const;
};

} // namespace tsc::codegen
