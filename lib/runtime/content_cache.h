// Files by content: compiled kernels, kept between runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tsc::runtime {

/// Folder that may be shared by any number of processes. A file is written aside and renamed, and
/// ends with its size and hash, so that what find() gives was written completely, whatever
/// happened. Least recently used files go when the folder outgrows its limit.
class ContentCache {
public:
  /// `folder` "": $XDG_CACHE_HOME/tsc, or ~/.cache/tsc. Made when first written to.
  explicit ContentCache(std::string folder = "", uint64_t limit_bytes = 1ull << 30);

  /// Path of the file stored under `key` and marks it as used; nothing if there is none or it is
  /// torn (it is removed then). The file is the bytes given to store() and kTrailerBytes more.
  std::optional<std::string> find(const std::string &key);
  /// The bytes given to store().
  std::optional<std::string> read(const std::string &key);
  /// False if it could not be written (no home, no space, no permission): callers then do without.
  bool store(const std::string &key, std::string_view bytes);
  /// Removes least recently used files until the folder is within its limit, and what crashed
  /// writers left.
  void evict();

  const std::string &folder() const { return folder_; }
  static constexpr size_t kTrailerBytes = 48;

private:
  std::optional<std::string> check(const std::string &key, std::string *bytes);
  std::string folder_;
  uint64_t limit_bytes_;
};

/// The default folder, "" if there is no home.
std::string default_cache_folder();

} // namespace tsc::runtime
