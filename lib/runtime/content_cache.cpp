#include "runtime/content_cache.h"

#include "support/hash.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace tsc::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "TSCFILE1";
constexpr const char *kWriting = ".writing";
constexpr auto kAbandonedAfter = std::chrono::hours(1);

/// Magic, size as 8 bytes, hash as 32 digits. Loaders of ELF files ignore what follows the image.
std::string trailer(std::string_view bytes) {
  const uint64_t size = bytes.size();
  std::string text(kMagic);
  for (int i = 0; i < 8; ++i)
    text += static_cast<char>(size >> (8 * i) & 0xff);
  return text + support::ContentHash().add(bytes).hex();
}

std::optional<std::string> read_file(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return file.bad() ? std::nullopt : std::optional<std::string>(std::move(text).str());
}

} // namespace

std::string default_cache_folder() {
  if (const char *base = std::getenv("XDG_CACHE_HOME"); base && base[0] == '/')
    return std::string(base) + "/tsc";
  if (const char *home = std::getenv("HOME"); home && home[0] == '/')
    return std::string(home) + "/.cache/tsc";
  return "";
}

ContentCache::ContentCache(std::string folder, uint64_t limit_bytes)
    : folder_(folder.empty() ? default_cache_folder() : std::move(folder)),
      limit_bytes_(limit_bytes) {}

std::optional<std::string> ContentCache::check(const std::string &key, std::string *bytes) {
  if (folder_.empty())
    return std::nullopt;
  const std::string path = folder_ + "/" + key;
  std::optional<std::string> text = read_file(path);
  if (!text)
    return std::nullopt;
  const size_t size = text->size();
  const std::string_view content(text->data(), size < kTrailerBytes ? 0 : size - kTrailerBytes);
  if (size < kTrailerBytes ||
      std::string_view(*text).substr(size - kTrailerBytes) != trailer(content)) {
    std::error_code ignored;
    fs::remove(path, ignored);
    return std::nullopt;
  }
  utimensat(AT_FDCWD, path.c_str(), nullptr, 0); // used now
  if (bytes) {
    text->resize(size - kTrailerBytes);
    *bytes = std::move(*text);
  }
  return path;
}

std::optional<std::string> ContentCache::find(const std::string &key) {
  return check(key, nullptr);
}

std::optional<std::string> ContentCache::read(const std::string &key) {
  std::string bytes;
  if (!check(key, &bytes))
    return std::nullopt;
  return bytes;
}

bool ContentCache::store(const std::string &key, std::string_view bytes) {
  if (folder_.empty())
    return false;
  std::error_code error;
  fs::create_directories(folder_, error);
  static std::atomic<unsigned> serial{0};
  const std::string aside = folder_ + "/" + key + "." + std::to_string(getpid()) + "." +
                            std::to_string(serial.fetch_add(1)) + kWriting;
  bool written = false;
  {
    std::ofstream file(aside, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    const std::string end = trailer(bytes);
    file.write(end.data(), static_cast<std::streamsize>(end.size()));
    file.flush();
    written = file.good();
  }
  if (written)
    fs::rename(aside, folder_ + "/" + key, error);
  if (!written || error) {
    std::error_code ignored;
    fs::remove(aside, ignored);
    return false;
  }
  return true;
}

void ContentCache::evict() {
  if (folder_.empty())
    return;
  struct File {
    fs::file_time_type used;
    uint64_t bytes;
    fs::path path;
  };
  std::vector<File> files;
  uint64_t total = 0;
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone; // another process may remove it meanwhile
    const auto used = entry->last_write_time(gone);
    const uint64_t bytes = gone ? 0 : entry->file_size(gone);
    if (gone)
      continue;
    if (entry->path().extension() == kWriting) {
      if (now - used > kAbandonedAfter)
        fs::remove(entry->path(), gone);
      continue;
    }
    files.push_back({used, bytes, entry->path()});
    total += bytes;
  }
  if (total <= limit_bytes_)
    return;
  std::sort(files.begin(), files.end(), [](const File &a, const File &b) {
    return a.used != b.used ? a.used < b.used : a.path < b.path;
  });
  for (const File &file : files) {
    if (total <= limit_bytes_ / 10 * 9)
      break;
    std::error_code ignored;
    fs::remove(file.path, ignored);
    total -= file.bytes;
  }
}

} // namespace tsc::runtime
