#include "runtime/module_places.h"

#include <filesystem>

namespace tsc::runtime {

std::vector<std::string> module_places(const std::string &name) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    return {};
  std::vector<std::string> places;
  for (const char *relative : {".", "../lib/tsc", "../lib", "../../lib", "../../lib/tsc"}) {
    const auto place = (program.parent_path() / relative / name).lexically_normal();
    if (std::filesystem::exists(place, error))
      places.push_back(place.string());
  }
  return places;
}

} // namespace tsc::runtime
