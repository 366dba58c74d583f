// Files by content: compiled kernels, kept between runs.
#pragma once

#include "support/private_folder.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tsc::runtime {

/// Folder that may be shared by any number of processes of one user. A file is written aside and
/// renamed, and ends with its size and a hash of its key and bytes, so that what is given was
/// written completely and for this key, whatever happened. Least recently used files go when the
/// folder outgrows its limit. Only what belongs to this user, and what nobody else may write, is
/// trusted: a folder that is not so is left alone (with one warning a process), a file is written
/// anew.
class ContentCache {
public:
  /// `folder` "": $XDG_CACHE_HOME/tsc, or ~/.cache/tsc. Made when first written to, for this user
  /// alone.
  explicit ContentCache(std::string folder = "", uint64_t limit_bytes = 1ull << 30);

  /// The file stored under `key`, checked and open for reading, and marks it as used; none if there
  /// is none or a check fails (it is removed then). It holds the bytes given to store() and
  /// kTrailerBytes more.
  support::Descriptor open(const std::string &key);
  /// The bytes given to store().
  std::optional<std::string> read(const std::string &key);
  /// False if it could not be written (no home, no space, no permission): callers then do without.
  bool store(const std::string &key, std::string_view bytes);
  /// Removes least recently used files until the folder is within its limit, and what crashed
  /// writers left. Files that are not the cache's are left alone.
  void evict();

  const std::string &folder() const { return folder_; }
  /// What the file of `key` is called.
  static std::string file_name(const std::string &key) { return "tsc-" + key; }
  static constexpr size_t kTrailerBytes = 48;

private:
  support::Descriptor check(const std::string &key, std::string *bytes);
  support::Descriptor open_folder(bool make) const;
  std::string folder_;
  uint64_t limit_bytes_;
};

/// The default folder, "" if there is no home.
std::string default_cache_folder();

} // namespace tsc::runtime
