#include "emit/out_folder.h"

#include "support/diagnostic.h"
#include "tensor/mapped_file.h"

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

namespace tsc::emit {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostLinks = 50'000;

/// A plain relative path: no way out of the folder.
bool lies_inside(const std::string &name) {
  if (name.empty() || name.front() == '/' || name.back() == '/')
    return false;
  for (size_t start = 0; start <= name.size();) {
    const size_t end = std::min(name.find('/', start), name.size());
    const std::string part = name.substr(start, end - start);
    if (part.empty() || part == "." || part == "..")
      return false;
    start = end + 1;
  }
  return true;
}

/// Whether one of `names` lies below the folder `folder`.
bool has_below(const Names &names, const std::string &folder) {
  const auto next = names.lower_bound(folder + "/");
  return next != names.end() && next->compare(0, folder.size() + 1, folder + "/") == 0;
}

void add_foreign(const fs::path &root, const std::string &below, const Names &own,
                 std::vector<ForeignEntry> &entries) {
  for (const fs::directory_entry &entry : fs::directory_iterator(root / below)) {
    const std::string name = (below.empty() ? "" : below + "/") + entry.path().filename().string();
    if (!fs::is_directory(entry.symlink_status())) {
      if (!own.count(name))
        entries.push_back({name, false});
    } else if (has_below(own, name)) {
      add_foreign(root, name, own, entries);
    } else {
      entries.push_back({name, true});
    }
  }
}

class Linker {
public:
  Linker(const std::string &from, const std::string &to) : from_(from), to_(to) {}

  bool link(const ForeignEntry &entry) {
    return make_parents(entry.name) &&
           (entry.is_folder ? link_folder(entry.name) : link_file(entry.name));
  }

private:
  const fs::path from_, to_;
  size_t links_ = 0;

  bool make_parents(const std::string &name) {
    for (size_t slash = name.find('/'); slash != std::string::npos;
         slash = name.find('/', slash + 1))
      if (!make_folder(name.substr(0, slash)))
        return false;
    return true;
  }
  bool make_folder(const std::string &name) {
    struct stat status = {};
    const fs::path made = to_ / name;
    if (lstat(made.c_str(), &status) == 0)
      return S_ISDIR(status.st_mode);
    return lstat((from_ / name).c_str(), &status) == 0 && mkdir(made.c_str(), 0700) == 0 &&
           chmod(made.c_str(), status.st_mode & 07777) == 0;
  }
  bool link_file(const std::string &name) {
    return ++links_ <= kMostLinks &&
           ::linkat(AT_FDCWD, (from_ / name).c_str(), AT_FDCWD, (to_ / name).c_str(), 0) == 0;
  }
  bool link_folder(const std::string &name) {
    if (++links_ > kMostLinks || !make_folder(name))
      return false;
    std::error_code error;
    for (fs::directory_iterator at(from_ / name, error), end; !error && at != end;
         at.increment(error)) {
      const std::string child = name + "/" + at->path().filename().string();
      const bool is_folder = fs::is_directory(at->symlink_status(error));
      if (error || !(is_folder ? link_folder(child) : link_file(child)))
        return false;
    }
    return !error;
  }
};

bool is_newer(const struct stat &a, const struct stat &b) {
  return a.st_mtim.tv_sec != b.st_mtim.tv_sec ? a.st_mtim.tv_sec > b.st_mtim.tv_sec
                                              : a.st_mtim.tv_nsec > b.st_mtim.tv_nsec;
}

/// Somebody else's file: there is a link to it, or it goes to OUT.
void retire_file(const fs::path &file, const fs::path &place) {
  struct stat status = {}, other = {};
  if (lstat(file.c_str(), &status) != 0)
    return;
  const bool is_taken = lstat(place.c_str(), &other) == 0;
  const bool is_same = is_taken && other.st_dev == status.st_dev && other.st_ino == status.st_ino;
  std::error_code error;
  if (is_same || status.st_nlink > 1 ||
      (is_taken && (S_ISDIR(other.st_mode) || !is_newer(status, other)))) {
    fs::remove(file, error);
    return;
  }
  fs::create_directories(place.parent_path(), error);
  fs::rename(file, place, error);
}

void retire_folder(const fs::path &old, const fs::path &out, const std::string &below,
                   const Names &own) {
  std::error_code error;
  std::vector<fs::path> children;
  for (fs::directory_iterator at(old / below, error), end; !error && at != end; at.increment(error))
    children.push_back(at->path().filename());
  for (const fs::path &child : children) {
    const std::string name = (below.empty() ? "" : below + "/") + child.string();
    if (name == kFileList)
      continue; // last of all: without it a writer's own files would be taken for those of others
    if (fs::is_directory(fs::symlink_status(old / name, error)))
      retire_folder(old, out, name, own);
    else if (own.count(name))
      fs::remove(old / name, error);
    else
      retire_file(old / name, out / name);
  }
  // A folder of others that OUT lacks, empty as it is, goes there too.
  if (!below.empty() && !has_below(own, below) &&
      !fs::exists(fs::symlink_status(out / below, error)))
    fs::create_directories(out / below, error);
  if (below.empty())
    fs::remove(old / kFileList, error);
  fs::remove(old / below, error); // stays if a file has come meanwhile
}

} // namespace

std::string list_text(const Names &names, bool complete) {
  std::string text = "tsc-folder 2\n";
  for (const std::string &name : names)
    text += name + "\n";
  return complete ? text + "end\n" : text;
}

Names listed_names(const std::string &folder) {
  Names names;
  try {
    const auto file = tensor::MappedFile::open((fs::path(folder) / kFileList).string());
    std::istringstream list{std::string(file->bytes())};
    std::string name;
    if (!std::getline(list, name) || name.rfind("tsc-folder ", 0) != 0)
      return names;
    while (std::getline(list, name))
      if (name != "end" && lies_inside(name))
        names.insert(name);
  } catch (const support::UserError &) { // none that can be read
  }
  return names;
}

std::vector<ForeignEntry> foreign_entries(const std::string &folder, const Names &own) {
  std::vector<ForeignEntry> entries;
  add_foreign(folder, "", own, entries);
  std::sort(entries.begin(), entries.end(),
            [](const ForeignEntry &a, const ForeignEntry &b) { return a.name < b.name; });
  return entries;
}

std::string entry_in_the_way(const std::vector<ForeignEntry> &entries, const Names &names) {
  for (const ForeignEntry &entry : entries)
    if (names.count(entry.name) || (!entry.is_folder && has_below(names, entry.name)))
      return entry.name;
  return "";
}

bool link_foreign_entries(const std::string &from, const std::string &to,
                          const std::vector<ForeignEntry> &entries) {
  Linker linker(from, to);
  return std::all_of(entries.begin(), entries.end(),
                     [&](const ForeignEntry &entry) { return linker.link(entry); });
}

void retire(const std::string &old, const std::string &out) {
  retire_folder(old, out, "", listed_names(old));
}

void remove_files(const std::string &folder, const Names &names) {
  std::error_code error;
  const fs::path root(folder);
  for (const std::string &name : names) {
    // Only through folders that are such: a link on the way leads to what is not tsc's.
    fs::path below = root;
    bool is_inside = true;
    for (const fs::path &part : fs::path(name).parent_path())
      is_inside = is_inside && fs::is_directory(fs::symlink_status(below /= part, error));
    if (!is_inside)
      continue;
    if (!fs::is_directory(fs::symlink_status(root / name, error)))
      fs::remove(root / name, error);
    for (fs::path parent = (root / name).parent_path(); parent != root && !parent.empty();
         parent = parent.parent_path())
      if (::rmdir(parent.c_str()) != 0)
        break;
  }
}

} // namespace tsc::emit
