// Standard input as a file: what "-" stands for where a file is asked for.
#pragma once

#include <memory>
#include <string>

namespace tsc::support {

/// All of it, read with the first call; later ones give the same bytes.
std::shared_ptr<const std::string> standard_input();

} // namespace tsc::support
