#include "runtime/content_cache.h"

#include "support/hash.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>
#include <vector>

namespace tsc::runtime {
namespace {

namespace fs = std::filesystem;
using support::Descriptor;

constexpr std::string_view kMagic = "TSCFILE2";
constexpr std::string_view kPrefix = "tsc-", kWriting = ".writing";
constexpr time_t kAbandonedAfter = 3600; // seconds

/// Magic, size as 8 bytes, hash as 32 digits. Loaders of ELF files ignore what follows the image.
std::string trailer(const std::string &key, std::string_view bytes) {
  const uint64_t size = bytes.size();
  std::string text(kMagic);
  for (int i = 0; i < 8; ++i)
    text += static_cast<char>(size >> (8 * i) & 0xff);
  return text + support::ContentHash().add(key).add(bytes).hex();
}

bool is_trusted(const struct stat &status) {
  return status.st_uid == geteuid() && (status.st_mode & 0022) == 0;
}

/// At most one line a process, however many caches it makes.
void warn(const std::string &folder, const char *why) {
  static std::atomic<bool> warned{false};
  if (!warned.exchange(true))
    std::fprintf(stderr, "warning: the kernel cache '%s' is not used: %s\n", folder.c_str(), why);
}

/// All bytes of a file, if it has as many as it says.
std::optional<std::string> read_all(int file, uint64_t size) {
  std::string text(size, '\0');
  for (size_t done = 0; done < size;) {
    const ssize_t count = pread(file, text.data() + done, size - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return std::nullopt;
    done += static_cast<size_t>(count);
  }
  return text;
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

bool begins_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}
bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
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

/// None if it cannot be used. Everything is opened relative to it: what was checked is what is
/// used.
Descriptor ContentCache::open_folder(bool make) const {
  if (folder_.empty())
    return Descriptor();
  if (make) {
    std::error_code error;
    fs::create_directories(fs::path(folder_).parent_path(), error);
    mkdir(folder_.c_str(), 0700);
  }
  Descriptor folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status = {};
  if (!folder || fstat(folder.get(), &status) != 0)
    return Descriptor();
  if (status.st_uid != geteuid()) {
    warn(folder_, "it belongs to another user");
    return Descriptor();
  }
  if (!is_trusted(status)) {
    warn(folder_, "other users may write there (chmod go-w makes it usable)");
    return Descriptor();
  }
  return folder;
}

Descriptor ContentCache::check(const std::string &key, std::string *bytes) {
  const Descriptor folder = open_folder(false);
  if (!folder)
    return Descriptor();
  const std::string name = file_name(key);
  // Without waiting for a fifo's other end, and not through links.
  Descriptor file(openat(folder.get(), name.c_str(),
                         O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file && errno == ENOENT)
    return Descriptor();
  struct stat status = {};
  std::optional<std::string> text;
  if (file && fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) && is_trusted(status) &&
      status.st_size >= static_cast<off_t>(kTrailerBytes) &&
      static_cast<uint64_t>(status.st_size) <= limit_bytes_)
    text = read_all(file.get(), static_cast<uint64_t>(status.st_size));
  const size_t size = text ? text->size() - kTrailerBytes : 0;
  if (!text || std::string_view(*text).substr(size) !=
                   trailer(key, std::string_view(*text).substr(0, size))) {
    unlinkat(folder.get(), name.c_str(), 0);
    return Descriptor();
  }
  futimens(file.get(), nullptr); // used now
  if (bytes) {
    text->resize(size);
    *bytes = std::move(*text);
  }
  return file;
}

Descriptor ContentCache::open(const std::string &key) { return check(key, nullptr); }

std::optional<std::string> ContentCache::read(const std::string &key) {
  std::string bytes;
  if (!check(key, &bytes))
    return std::nullopt;
  return bytes;
}

bool ContentCache::store(const std::string &key, std::string_view bytes) {
  const Descriptor folder = open_folder(true);
  if (!folder)
    return false;
  static std::atomic<unsigned> serial{0};
  const std::string name = file_name(key);
  const std::string aside = name + "." + std::to_string(getpid()) + "." +
                            std::to_string(serial.fetch_add(1)) + std::string(kWriting);
  unlinkat(folder.get(), aside.c_str(), 0); // of an earlier process of this number
  const Descriptor file(openat(folder.get(), aside.c_str(),
                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file)
    return false;
  if (write_all(file.get(), bytes) && write_all(file.get(), trailer(key, bytes)) &&
      renameat(folder.get(), aside.c_str(), folder.get(), name.c_str()) == 0)
    return true;
  unlinkat(folder.get(), aside.c_str(), 0);
  return false;
}

void ContentCache::evict() {
  struct File {
    timespec used;
    uint64_t bytes;
    std::string name;
  };
  const Descriptor folder = open_folder(false);
  const int listed = folder ? openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  const std::unique_ptr<DIR, int (*)(DIR *)> listing(listed < 0 ? nullptr : fdopendir(listed),
                                                     &closedir);
  if (!listing)
    return;
  std::vector<File> files;
  uint64_t total = 0;
  const time_t now = time(nullptr);
  while (const dirent *entry = readdir(listing.get())) {
    const std::string name = entry->d_name;
    struct stat status = {}; // another process may remove it meanwhile
    if (!begins_with(name, kPrefix) ||
        fstatat(folder.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(status.st_mode))
      continue;
    if (ends_with(name, kWriting)) {
      if (now - status.st_mtim.tv_sec > kAbandonedAfter)
        unlinkat(folder.get(), name.c_str(), 0);
      continue;
    }
    files.push_back({status.st_mtim, static_cast<uint64_t>(status.st_size), name});
    total += files.back().bytes;
  }
  if (total <= limit_bytes_)
    return;
  std::sort(files.begin(), files.end(), [](const File &a, const File &b) {
    const auto key = [](const File &file) {
      return std::tie(file.used.tv_sec, file.used.tv_nsec, file.name);
    };
    return key(a) < key(b);
  });
  for (const File &file : files) {
    if (total <= limit_bytes_ / 10 * 9)
      break;
    unlinkat(folder.get(), file.name.c_str(), 0);
    total -= file.bytes;
  }
}

} // namespace tsc::runtime
