#include "emit/folder_writer.h"

#include "emit/emit.h"
#include "support/diagnostic.h"
#include "support/interruption.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace tsc::emit {
namespace {

namespace fs = std::filesystem;
using support::Descriptor;
using support::Diagnostic;
using support::ExitCode;
using support::UserError;

constexpr const char *kInside = ".tsc-";          // aside, below OUT
constexpr const char *kCommitting = "committing"; // aside: `new` may be what OUT was
constexpr size_t kMostNameLength = 200;           // of OUT's name in a name beside it
constexpr auto kLongestWait = std::chrono::seconds(60);

[[noreturn]] void cannot_write(const std::string &path, const std::string &why) {
  throw UserError(ExitCode::usage, Diagnostic{"TSC-E002", "cannot write: " + why, path, "", "", "",
                                              "choose another folder with -o, or make room there"});
}
[[noreturn]] void cannot_write(const std::string &path) {
  cannot_write(path, std::generic_category().message(errno));
}
[[noreturn]] void not_ours(const std::string &path) {
  throw UserError(ExitCode::usage,
                  Diagnostic{"TSC-E001", "there is something that tsc did not write", path, "", "",
                             "", "choose another folder with -o, or remove this one"});
}

/// Name without trailing slashes and links, so that "beside" has a meaning.
std::string resolved(const std::string &folder) {
  std::error_code error;
  fs::path path = fs::weakly_canonical(fs::absolute(folder, error), error);
  if (error || path.empty())
    cannot_write(folder, error.message());
  if (!path.has_filename())
    path = path.parent_path();
  return path.string();
}

std::string parent_of(const std::string &folder) { return fs::path(folder).parent_path().string(); }
/// How names of what is written beside `folder` begin.
std::string beside(const std::string &folder) {
  return "." + fs::path(folder).filename().string().substr(0, kMostNameLength) + ".tsc-";
}

bool is_same_file(const std::string &a, const std::string &b) {
  struct stat one = {}, other = {};
  return stat(a.c_str(), &one) == 0 && stat(b.c_str(), &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

bool is_mount_point(const std::string &folder) {
#ifdef STATX_ATTR_MOUNT_ROOT
  struct statx status = {};
  if (statx(AT_FDCWD, folder.c_str(), AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &status) == 0 &&
      (status.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0)
    return (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
#endif
  struct stat own = {}, parent = {};
  return stat(folder.c_str(), &own) == 0 && stat(parent_of(folder).c_str(), &parent) == 0 &&
         own.st_dev != parent.st_dev;
}

// renameat2's flags; its wrapper and <linux/fs.h> are not everywhere.
constexpr unsigned kNoReplace = 1, kExchange = 2;
bool rename_with(const std::string &from, const std::string &to, unsigned flags) {
  return syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0;
}

/// One process at a time replaces folders below `parent`. Where the file system has no locks,
/// nothing is locked.
Descriptor lock_replacement(const std::string &parent, const std::string &folder) {
  Descriptor opened(open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto start = std::chrono::steady_clock::now();
  while (opened && flock(opened.get(), LOCK_EX | LOCK_NB) != 0 &&
         (errno == EWOULDBLOCK || errno == EINTR)) {
    if (std::chrono::steady_clock::now() - start > kLongestWait)
      throw UserError(ExitCode::usage,
                      Diagnostic{"TSC-E006", "another process has held the folder for 60 s", folder,
                                 "", "", "",
                                 "see what locks " + parent + ", or choose another -o"});
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return opened;
}

/// What writers left that were killed. Precondition: the lock is held.
void clean_up(const std::string &folder) {
  std::error_code error;
  for (const auto &left : support::abandoned_folders(parent_of(folder), beside(folder))) {
    if (fs::exists(fs::path(left.path) / kCommitting, error) && fs::exists(folder, error)) {
      retire((fs::path(left.path) / "new").string(), folder);
      fs::remove(fs::path(left.path) / kCommitting, error);
      fs::remove(left.path, error); // stays if something in it could not go
    } else {
      fs::remove_all(left.path, error);
    }
  }
  for (const auto &left : support::abandoned_folders(folder, kInside))
    fs::remove_all(left.path, error);
}

/// Files that tsc wrote into `folder`. A folder of before there were lists has what is written now.
Names own_names(const std::string &folder, const Names &written_now) {
  Names own = listed_names(folder);
  if (own.empty() && is_emitted_folder(folder))
    own = written_now;
  own.insert(kFileList);
  return own;
}

} // namespace

FolderWriter::FolderWriter(const std::string &folder, Replacement replacement)
    : folder_(resolved(folder)), replacement_(replacement) {
  check_replaceable();
  make_aside();
  staged_ = aside_->path() + "/new";
  if (mkdir(staged_.c_str(), 0777) != 0)
    cannot_write(folder_);
}

void FolderWriter::check_replaceable() const {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(folder_, error);
  if (!fs::exists(status))
    return;
  if (!fs::is_directory(status))
    not_ours(folder_); // a link that leads nowhere too
  if (is_emitted_folder(folder_))
    return;
  fs::directory_iterator entries(folder_, error);
  if (error)
    cannot_write(folder_, error.message());
  for (const fs::directory_entry &entry : entries)
    if (entry.path().filename().string().rfind(kInside, 0) != 0)
      not_ours(folder_);
}

/// Beside OUT; inside it where it must stay the same folder: a mount point, the working folder of
/// who calls (whose shell would stand nowhere), or below a folder that cannot be written. Nobody
/// exchanges OUT while something is being written inside it.
void FolderWriter::make_aside() {
  std::error_code error;
  const bool exists = fs::is_directory(folder_, error);
  if (exists && (is_mount_point(folder_) || is_same_file(folder_, ".")))
    replacement_ = Replacement::in_place;
  if (!exists)
    fs::create_directories(parent_of(folder_), error);
  try {
    if (replacement_ == Replacement::exchanged)
      aside_.emplace(parent_of(folder_), beside(folder_));
  } catch (const std::system_error &failure) {
    if (!exists)
      cannot_write(folder_, failure.code().message());
    replacement_ = Replacement::in_place;
  }
  try {
    if (!aside_ && exists) {
      lock_ = lock_replacement(parent_of(folder_), folder_);
      aside_.emplace(folder_, kInside);
    } else if (!aside_) {
      aside_.emplace(parent_of(folder_), beside(folder_));
    }
  } catch (const std::system_error &failure) {
    cannot_write(folder_, failure.code().message());
  }
}

std::string FolderWriter::add(const std::string &name) {
  names_.insert(name);
  const fs::path path = fs::path(staged_) / name;
  std::error_code error; // what cannot be made cannot be written to either
  fs::create_directories(path.parent_path(), error);
  return path.string();
}

void FolderWriter::write_staged(const std::string &name, std::string_view text) const {
  std::ofstream file(fs::path(staged_) / name, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file)
    cannot_write((fs::path(folder_) / name).string());
}

void FolderWriter::write(const std::string &name, std::string_view text) {
  add(name);
  write_staged(name, text);
}

void FolderWriter::commit() {
  write_staged(kFileList, list_text(names_, true));
  if (!lock_)
    lock_ = lock_replacement(parent_of(folder_), folder_);
  const support::SignalsWait whole; // a few milliseconds
  clean_up(folder_);
  check_replaceable(); // it may have come meanwhile
  std::error_code error;
  if (!fs::exists(folder_, error)) {
    put_new();
  } else {
    const Names own = own_names(folder_, names_);
    std::vector<ForeignEntry> foreign;
    try {
      foreign = foreign_entries(folder_, own);
    } catch (const fs::filesystem_error &failure) {
      cannot_write(failure.path1().string(), failure.code().message());
    }
    if (const std::string name = entry_in_the_way(foreign, names_); !name.empty())
      not_ours((fs::path(folder_) / name).string());
    if (replacement_ == Replacement::in_place || !put_exchanged(foreign))
      put_in_place(own);
  }
  aside_.reset();
  lock_ = Descriptor();
}

void FolderWriter::put_new() {
  if (!rename_with(staged_, folder_, kNoReplace) &&
      std::rename(staged_.c_str(), folder_.c_str()) != 0) // never onto a folder with files
    cannot_write(folder_);
}

/// False, with nothing changed, where folders cannot be exchanged.
bool FolderWriter::put_exchanged(const std::vector<ForeignEntry> &foreign) {
  struct stat status = {};
  if (stat(folder_.c_str(), &status) != 0 || !link_foreign_entries(folder_, staged_, foreign))
    return false;
  chmod(staged_.c_str(), status.st_mode & 07777);
  const Descriptor marker(
      open((aside_->path() + "/" + kCommitting).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  if (!marker || !rename_with(staged_, folder_, kExchange))
    return false;
  // Folders of others become the very ones that they were: a build that runs there goes on, and a
  // shell still stands somewhere.
  for (const ForeignEntry &entry : foreign)
    if (entry.is_folder)
      rename_with(staged_ + "/" + entry.name, folder_ + "/" + entry.name, kExchange);
  retire(staged_, folder_);
  std::error_code error;
  if (fs::exists(staged_, error)) // something has come there meanwhile: the next writer looks again
    aside_->keep();
  return true;
}

/// The list names old and new files, and has no end, until all are in place.
void FolderWriter::put_in_place(const Names &own) {
  const fs::path from(staged_), to(folder_);
  const auto move = [&](const std::string &name, const std::string &as) {
    if (std::rename((from / name).c_str(), (to / as).c_str()) != 0)
      cannot_write((to / as).string());
  };
  Names both = own;
  both.insert(names_.begin(), names_.end());
  both.erase(kFileList);
  constexpr const char *kUnfinished = "files.txt.unfinished";
  write_staged(kUnfinished, list_text(both, false));
  move(kUnfinished, kFileList);
  Names gone = own;
  for (const std::string &name : names_)
    gone.erase(name);
  gone.erase(kFileList);
  remove_files(folder_, gone);
  std::error_code error;
  for (const std::string &name : names_) {
    fs::create_directories((to / name).parent_path(), error);
    move(name, name);
  }
  move(kFileList, kFileList);
}

} // namespace tsc::emit
