// What becomes of a product's results, and an operand that memory has, as loops over rows and
// columns.
#pragma once

#include "codegen/kernel_graph.h"

#include <array>

namespace tsc::codegen {

/// Whether `value` reads the results of a product that would be stored in `out`.
bool reads_results(const ir::Module &module, const Value &value, BufferId out);

/// Nothing follows the product: its results are stored.
KernelGraph stored_results(const ir::Module &module, BufferId out, Expr rows, int64_t columns);

/// Where the product is alpha * a @ b + beta * c, that: readers of the results get it, all of them
/// one value. `at`: product of a batch, row and column of a result.
KernelGraph with_results(const ir::Module &module, const ir::Extern &call, BufferId out,
                         KernelGraph graph, const std::array<Expr, 3> &at);

/// The right operand [terms, columns] as it lies in memory: loops over its columns and terms that
/// load each element and store it where it is.
KernelGraph moved_operand(const ir::Module &module, const ir::BufferView &operand, Expr column,
                          Expr term);

/// Whether finishing a result takes two or more functions or divisions that are many instructions
/// each: the text of 64 runs of them takes the compiler a minute, and the batch norm of each result
/// would be computed again for every row.
bool is_heavy(const KernelGraph &finish);

} // namespace tsc::codegen
