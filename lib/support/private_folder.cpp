#include "support/private_folder.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace tsc::support {
namespace {

namespace fs = std::filesystem;

constexpr size_t kRandomLetters = 6;
constexpr int kOpenFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

bool is_still_at(int descriptor, const std::string &path) {
  struct stat opened = {}, named = {};
  return fstat(descriptor, &opened) == 0 && lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

bool is_ours(int descriptor) {
  struct stat status = {};
  return fstat(descriptor, &status) == 0 && status.st_uid == geteuid() &&
         (status.st_mode & 0077) == 0;
}

} // namespace

Descriptor::~Descriptor() {
  if (value_ >= 0)
    close(value_);
}

Descriptor &Descriptor::operator=(Descriptor &&other) noexcept {
  std::swap(value_, other.value_);
  return *this;
}

PrivateFolder::PrivateFolder(const std::string &parent, const std::string &prefix) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    path_ = parent + "/" + prefix + std::string(kRandomLetters, 'X');
    if (mkdtemp(path_.data()) == nullptr)
      throw std::system_error(errno, std::generic_category());
    on_signal_ = std::make_unique<RemovedOnSignal>(path_);
    lock_ = Descriptor(open(path_.c_str(), kOpenFolder));
    // Who looks for abandoned folders may have seen it before it was locked: then it is theirs.
    if (lock_ && (flock(lock_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) &&
        is_still_at(lock_.get(), path_))
      return;
    on_signal_.reset();
  }
  throw std::system_error(EBUSY, std::generic_category());
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  if (!path_.empty())
    fs::remove_all(path_, ignored);
}

void PrivateFolder::keep() {
  on_signal_.reset();
  path_.clear();
}

std::vector<AbandonedFolder> abandoned_folders(const std::string &parent,
                                               const std::string &prefix) {
  std::vector<AbandonedFolder> found;
  std::error_code error;
  for (fs::directory_iterator at(parent, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.size() != prefix.size() + kRandomLetters ||
        name.compare(0, prefix.size(), prefix) != 0)
      continue;
    Descriptor opened(open(at->path().c_str(), kOpenFolder));
    if (opened && is_ours(opened.get()) && flock(opened.get(), LOCK_EX | LOCK_NB) == 0 &&
        is_still_at(opened.get(), at->path().string()))
      found.push_back({at->path().string(), std::move(opened)});
  }
  return found;
}

} // namespace tsc::support
