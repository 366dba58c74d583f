#include "report/rows.h"

#include "engine/engine.h"
#include "program/tables.h"
#include "scheduler/dependency.h"
#include "support/diagnostic.h"

#include <algorithm>

namespace tsc::report {

Json memory_of(const driver::Compilation &compilation, bool on_host) {
  const program::Program &program = compilation.program;
  try {
    const program::OwnedTables tables = program::build_tables(program);
    const tsc_engine::Model model(tables.tables,
                                  on_host ? tsc_engine::Plan::serial : tsc_engine::Plan::cuda);
    std::vector<int64_t> bytes(program.buffers.size()); // the largest extent of an alias chain
    for (size_t i = 0; i < program.buffers.size(); ++i)
      bytes[model.roots[i]] =
          std::max(bytes[model.roots[i]],
                   scheduler::size_hint(compilation.module, program.buffers[i].bytes));
    Json pieces = Json::array();
    for (const tsc_engine::Lifetime &lifetime : model.lifetimes)
      pieces.push_back(
          Json::array({lifetime.root, bytes[lifetime.root], lifetime.first, lifetime.last}));
    return {{"pieces", std::move(pieces)}};
  } catch (const support::UserError &error) { // what one device's engine does not run
    return {{"unknown", error.diagnostics().front().message}};
  }
}

} // namespace tsc::report
