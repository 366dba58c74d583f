// Files of the repository, as the tests read them.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace tsc::testing {

/// A file or folder of the checkout; where it is not there, what its folder's archive holds
/// (scripts/archive).
inline std::string source_path(const std::string &relative) {
  const std::string path = std::string(TSC_SOURCE_DIR) + "/" + relative;
  return std::filesystem::exists(path) ? path : std::string(TSC_UNPACKED_DIR) + "/" + relative;
}

/// The paths of all files under a folder, those of its archive too, sorted by their place.
inline std::vector<std::string> source_files(const std::string &folder) {
  namespace fs = std::filesystem;
  std::map<std::string, std::string> found;
  for (const char *root : {TSC_SOURCE_DIR, TSC_UNPACKED_DIR}) {
    const fs::path top = fs::path(root) / folder;
    if (!fs::exists(top))
      continue;
    for (const fs::directory_entry &entry : fs::recursive_directory_iterator(top))
      if (entry.is_regular_file())
        found.emplace(entry.path().lexically_relative(root).string(), entry.path().string());
  }
  std::vector<std::string> paths;
  for (const auto &[place, path] : found)
    paths.push_back(path);
  return paths;
}

inline std::string file_text(const std::string &relative) {
  std::ifstream file(source_path(relative), std::ios::binary);
  if (!file)
    throw std::runtime_error("cannot read " + relative);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// `text` with the first `from` replaced; throws if there is none, so that a test cannot miss its
/// point.
inline std::string replaced(std::string text, const std::string &from, const std::string &to) {
  size_t at = text.find(from);
  if (at == std::string::npos)
    throw std::runtime_error("'" + from + "' is not in the text");
  return text.replace(at, from.size(), to);
}

} // namespace tsc::testing
