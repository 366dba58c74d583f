#include "driver/memory_use.h"

#include "program/tables.h"

namespace tsc::driver {

std::optional<tsc_engine::Footprint> memory_use(const program::Program &program) {
  if (!program.symbols.empty())
    return std::nullopt;
  const program::OwnedTables tables = program::build_tables(program);
  const tsc_engine::Model model(tables.tables, tsc_engine::Plan::cuda);
  return tsc_engine::footprint(model, nullptr);
}

} // namespace tsc::driver
