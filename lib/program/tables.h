// Program -> the plain tables that the engine runs and that emit prints.
#pragma once

#include "engine/tables.h"
#include "program/program.h"

#include <memory>

namespace tsc::program {

/// Tables with what they point at: copies share it.
struct OwnedTables {
  tsc_engine::Tables tables;
  std::shared_ptr<const void> storage;
};

/// Precondition: validate(program) holds. Copies all texts: `program` may go afterwards. Errors:
/// UserError (unsupported) TSC-P011 for steps on other streams or devices.
OwnedTables build_tables(const Program &program);

} // namespace tsc::program
