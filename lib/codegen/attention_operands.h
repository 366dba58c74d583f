// Keys and values of attention of few queries that are computed as they are read.
#pragma once

#include "codegen/operand_text.h"
#include "scheduler/schedule.h"

namespace tsc::codegen {

/// Where a run of a key's row is: batch, head of keys, key, and which run of the row.
struct AttentionPlaces {
  std::vector<Expr> row;
  Expr run;
};
AttentionPlaces attention_places();

/// What `group`, of one member, computes where `view`, keys or values of rank 4, is read. At most
/// `words` accesses of a run wait in shared memory.
OperandText attention_operand(const ir::Module &module, const scheduler::Group &group,
                              const ir::BufferView &view, int words);

} // namespace tsc::codegen
