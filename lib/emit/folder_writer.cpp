#include "emit/folder_writer.h"

#include "emit/emit.h"
#include "support/diagnostic.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tsc::emit {
namespace {

namespace fs = std::filesystem;
using support::Diagnostic;
using support::ExitCode;
using support::UserError;

[[noreturn]] void cannot_write(const std::string &path, const std::string &why) {
  throw UserError(ExitCode::usage, Diagnostic{"TSC-E002", "cannot write: " + why, path, "", "", "",
                                              "choose another folder with -o, or make room there"});
}

void check_replaceable(const std::string &folder) {
  std::error_code error;
  if (!fs::exists(folder, error))
    return;
  if (fs::is_directory(folder, error) && (fs::is_empty(folder, error) || is_emitted_folder(folder)))
    return;
  throw UserError(ExitCode::usage,
                  Diagnostic{"TSC-E001", "there is something that tsc did not write", folder, "",
                             "", "", "choose another folder with -o, or remove this one"});
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

std::string make_aside(const std::string &folder) {
  std::error_code error;
  fs::create_directories(fs::path(folder).parent_path(), error);
  std::string name = folder + ".XXXXXX";
  if (mkdtemp(name.data()) == nullptr)
    cannot_write(folder, std::generic_category().message(errno));
  // mkdtemp makes it private; the folder is an ordinary one.
  fs::permissions(name, fs::perms(0755), error);
  return name;
}

} // namespace

FolderWriter::FolderWriter(const std::string &folder) : folder_(resolved(folder)) {
  check_replaceable(folder_);
  aside_ = make_aside(folder_);
}

FolderWriter::~FolderWriter() {
  std::error_code error;
  if (!aside_.empty())
    fs::remove_all(aside_, error);
}

void FolderWriter::write(const std::string &name, std::string_view text) {
  fs::path path = path_of(name);
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file)
    cannot_write(path.string(), std::generic_category().message(errno));
}

void FolderWriter::commit() {
  std::error_code error;
  check_replaceable(folder_); // it may have come meanwhile
  std::string old;
  if (fs::exists(folder_, error)) {
    old = make_aside(folder_);
    fs::rename(folder_, old, error); // onto an empty folder
    if (error)
      cannot_write(folder_, error.message());
  }
  fs::rename(aside_, folder_, error);
  if (error) {
    std::error_code ignored;
    if (!old.empty())
      fs::rename(old, folder_, ignored);
    cannot_write(folder_, error.message());
  }
  aside_.clear();
  if (!old.empty())
    fs::remove_all(old, error);
}

} // namespace tsc::emit
