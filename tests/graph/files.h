// Files of the repository, as the tests read them.
#pragma once

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace tsc::testing {

inline std::string source_path(const std::string &relative) {
  return std::string(TSC_SOURCE_DIR) + "/" + relative;
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
