// Files that go into every emitted folder as they are.
#pragma once

#include <string_view>
#include <vector>

namespace tsc::emit {

struct EmbeddedFile {
  std::string_view name; // in the folder: "engine/engine.cpp", "run_model.cpp"
  std::string_view text;
};
const std::vector<EmbeddedFile> &embedded_files();

} // namespace tsc::emit
