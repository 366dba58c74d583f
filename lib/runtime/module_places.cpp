#include "runtime/module_places.h"

#include <dlfcn.h>
#include <filesystem>

namespace tsc::runtime {
namespace {

/// What is asked about: code of the program itself, or of libtsc_api.so inside another one.
std::filesystem::path folder_of_this_code() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void *>(&module_places), &info) == 0 || !info.dli_fname)
    return {};
  std::error_code error;
  const auto path = std::filesystem::canonical(info.dli_fname, error);
  return error ? std::filesystem::path() : path.parent_path();
}

} // namespace

std::vector<std::string> module_places(const std::string &name) {
  std::error_code error;
  std::vector<std::filesystem::path> folders = {folder_of_this_code()};
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error && program.parent_path() != folders[0])
    folders.push_back(program.parent_path());
  std::vector<std::string> places;
  for (const std::filesystem::path &folder : folders) {
    if (folder.empty())
      continue;
    for (const char *relative : {".", "../lib/tsc", "../lib", "../../lib", "../../lib/tsc"}) {
      const auto place = (folder / relative / name).lexically_normal();
      if (std::filesystem::exists(place, error))
        places.push_back(place.string());
    }
  }
  return places;
}

} // namespace tsc::runtime
