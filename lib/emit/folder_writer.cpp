#include "emit/folder_writer.h"

#include "emit/emit.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <array>
#include <csignal>
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

// ---- interruptions: noted, and acted upon between two files

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
volatile std::sig_atomic_t received = 0;
std::array<struct sigaction, kSignals.size()> previous;

void note_signal(int signal) { received = signal; }

void catch_signals() {
  received = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  for (size_t i = 0; i < kSignals.size(); ++i)
    sigaction(kSignals[i], &action, &previous[i]);
  for (size_t i = 0; i < kSignals.size(); ++i) // nohup's choice stands
    if (previous[i].sa_handler == SIG_IGN)
      sigaction(kSignals[i], &previous[i], nullptr);
}

void release_signals() {
  for (size_t i = 0; i < kSignals.size(); ++i)
    sigaction(kSignals[i], &previous[i], nullptr);
  if (const int signal = received; signal != 0) {
    received = 0;
    std::raise(signal);
  }
}

void throw_if_interrupted(const std::string &folder) {
  if (received != 0)
    throw UserError(ExitCode::usage, Diagnostic{"TSC-E006", "interrupted; nothing was written",
                                                folder, "", "", "", "run the command again"});
}

// ---- folders

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
  catch_signals();
}

FolderWriter::~FolderWriter() {
  std::error_code error;
  if (!aside_.empty())
    fs::remove_all(aside_, error);
  release_signals();
}

std::string FolderWriter::add(const std::string &name) {
  throw_if_interrupted(folder_);
  names_.push_back(name);
  const fs::path path = fs::path(aside_) / name;
  std::error_code error; // what cannot be made cannot be written to either
  fs::create_directories(path.parent_path(), error);
  return path.string();
}

void FolderWriter::write(const std::string &name, std::string_view text) {
  const std::string path = add(name);
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file)
    cannot_write((fs::path(folder_) / name).string(), std::generic_category().message(errno));
}

void FolderWriter::commit() {
  std::error_code error;
  std::sort(names_.begin(), names_.end());
  std::string list = "tsc-folder 2\n";
  for (const std::string &name : names_)
    list += name + "\n";
  list += "end\n";
  write(kFileList, list);
  throw_if_interrupted(folder_);
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
