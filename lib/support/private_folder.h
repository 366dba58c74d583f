// Temporary folders that one process uses, and that do not stay when it is killed.
#pragma once

#include "support/interruption.h"

#include <memory>
#include <string>
#include <vector>

namespace tsc::support {

/// A file descriptor that is closed at the end.
class Descriptor {
public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor();
  Descriptor(Descriptor &&other) noexcept : value_(other.value_) { other.value_ = -1; }
  Descriptor &operator=(Descriptor &&other) noexcept;
  int get() const { return value_; }
  explicit operator bool() const { return value_ >= 0; }

private:
  int value_;
};

/// A new folder PARENT/PREFIXxxxxxx of mode 0700. Its lock (flock) says that the process lives. It
/// goes with everything in it by the destructor, by SIGINT, SIGTERM and SIGHUP, and after kill -9
/// by who calls abandoned_folders() next.
class PrivateFolder {
public:
  /// Throws std::system_error.
  PrivateFolder(const std::string &parent, const std::string &prefix);
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder &) = delete;
  PrivateFolder &operator=(const PrivateFolder &) = delete;
  const std::string &path() const { return path_; }
  /// Leaves it to who calls abandoned_folders() next.
  void keep();

private:
  std::string path_;
  Descriptor lock_;
  std::unique_ptr<RemovedOnSignal> on_signal_;
};

/// A folder that its process left behind, locked as long as this lives.
struct AbandonedFolder {
  std::string path;
  Descriptor lock;
};
/// PrivateFolders of `parent` and `prefix` that belong to this user and whose process is gone.
/// Where the file system has no locks there are none.
std::vector<AbandonedFolder> abandoned_folders(const std::string &parent,
                                               const std::string &prefix);

} // namespace tsc::support
