// What OUT is promised to be: whole, whatever ends a writer and however many there are, and never
// without a file that tsc did not write.
#include "emit/emit.h"
#include "emit/folder_writer.h"
#include "sample_program.h"
#include "support/diagnostic.h"
#include "temporary_folder.h"

#include "testing/catch.h"
#include "testing/skip.h"

#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <grp.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace tsc;
using emit::FolderWriter;
using emit::Replacement;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kFiles = {"a.txt", "kernels/b.cu", "kernels/serial/c.cpp",
                                         "program.json"};

/// Every file holds `version`, one of them is this version's alone.
void write_version(const fs::path &out, int version, Replacement how = Replacement::exchanged) {
  FolderWriter writer(out.string(), how);
  for (const std::string &name : kFiles)
    writer.write(name, std::to_string(version));
  writer.write("kernels/only_" + std::to_string(version) + ".cu", std::to_string(version));
  writer.commit();
}

void write_file(const fs::path &path, const std::string &text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

/// Files of others, in tsc's folders and in their own.
void add_foreign(const fs::path &out) {
  write_file(out / "build/CMakeFiles/model.o", "object");
  write_file(out / "notes.txt", "notes");
  write_file(out / "kernels/mine.cu", "mine");
  write_file(out / "kernels/tried/1.cu", "tried");
  fs::create_directory(out / "empty");
  fs::create_symlink("notes.txt", out / "link");
  fs::create_symlink("/nowhere/at/all", out / "kernels/dangling");
}
bool has_foreign(const fs::path &out) {
  return read_text(out / "build/CMakeFiles/model.o") == "object" &&
         read_text(out / "notes.txt") == "notes" && read_text(out / "kernels/mine.cu") == "mine" &&
         read_text(out / "kernels/tried/1.cu") == "tried" && fs::is_directory(out / "empty") &&
         fs::is_symlink(out / "link") && fs::is_symlink(out / "kernels/dangling");
}

/// The version that all files of OUT have; -1 if they are not one version's.
int version_of(const fs::path &out) {
  const std::string version = read_text(out / "a.txt");
  if (version.empty())
    return -1;
  for (const std::string &name : kFiles)
    if (read_text(out / name) != version)
      return -1;
  int own = 0;
  for (const fs::directory_entry &entry : fs::directory_iterator(out / "kernels"))
    own += entry.path().filename().string().rfind("only_", 0) == 0;
  return own == 1 && fs::exists(out / ("kernels/only_" + version + ".cu")) ? std::stoi(version)
                                                                           : -1;
}
bool is_finished(const fs::path &out) {
  const std::string list = read_text(out / "files.txt");
  return list.size() > 5 && list.substr(list.size() - 5) == "\nend\n";
}

size_t entries_in(const fs::path &folder) {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}
ino_t inode_of(const fs::path &path) {
  struct stat status = {};
  return lstat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

std::string error_of(const std::function<void()> &action) {
  try {
    action();
  } catch (const support::UserError &error) {
    return error.what();
  }
  return "";
}
std::string not_written_by_tsc(const fs::path &path) {
  return "error TSC-E001: there is something that tsc did not write\n  at " + path.string() +
         "\n  next: choose another folder with -o, or remove this one";
}

/// Runs `action` in a process of its own; its exit status as waitpid gives it.
int in_child(const std::function<int()> &action) {
  const pid_t child = fork();
  if (child == 0) {
    int result = 99;
    try {
      result = action();
    } catch (...) {
    }
    _exit(result);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

/// Runs `action` in a process of its own and calls `at_stop` before each call of the system that it
/// makes, while it stands still. False where processes may not be traced.
bool at_each_call(const std::function<void()> &action, const std::function<void()> &at_stop) {
  const pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0)
      _exit(77);
    raise(SIGSTOP);
    action();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status))
    return false;
  for (bool is_before = false; WIFSTOPPED(status); is_before = !is_before) {
    if (is_before)
      at_stop();
    ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    waitpid(child, &status, 0);
  }
  REQUIRE((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  return true;
}

} // namespace

TEST_CASE("Files of others stay, tsc's own are replaced", "[folder]") {
  const Replacement how = GENERATE(Replacement::exchanged, Replacement::in_place);
  TemporaryFolder temporary;
  const fs::path out = temporary.path / "out";
  write_version(out, 1, how);
  CHECK(version_of(out) == 1);
  add_foreign(out);
  const ino_t build = inode_of(out / "build"), notes = inode_of(out / "notes.txt");
  const size_t before = entries_in(out);
  for (const int version : {2, 2, 3}) {
    write_version(out, version, how);
    CHECK(version_of(out) == version);
    CHECK(has_foreign(out));
    CHECK(entries_in(out) == before);
    CHECK(inode_of(out / "build") == build); // a build that runs there goes on
    CHECK(inode_of(out / "notes.txt") == notes);
    CHECK(is_finished(out));
  }
  CHECK(entries_in(temporary.path) == 1);
}

TEST_CASE("A file of others where tsc's has to be is named, and nothing is changed", "[folder]") {
  const Replacement how = GENERATE(Replacement::exchanged, Replacement::in_place);
  TemporaryFolder temporary;
  const fs::path out = temporary.path / "out";
  const fs::path real = fs::canonical(temporary.path) / "out";
  write_version(out, 1, how);
  write_file(out / "kernels/only_2.cu", "mine");
  CHECK(error_of([&] { write_version(out, 2, how); }) ==
        not_written_by_tsc(real / "kernels/only_2.cu"));
  CHECK(read_text(out / "kernels/only_2.cu") == "mine");
  CHECK(read_text(out / "a.txt") == "1");
  fs::remove(out / "kernels/only_2.cu");
  // What tsc wrote was moved away, and a link put in its place.
  fs::rename(out / "kernels", temporary.path / "elsewhere");
  fs::create_symlink("../elsewhere", out / "kernels");
  CHECK(error_of([&] { write_version(out, 2, how); }) == not_written_by_tsc(real / "kernels"));
  CHECK(read_text(temporary.path / "elsewhere/b.cu") == "1");
  fs::remove_all(temporary.path / "elsewhere");
  CHECK(entries_in(temporary.path) == 1);
}

TEST_CASE("A list leads nowhere outside of its folder", "[folder]") {
  const Replacement how = GENERATE(Replacement::exchanged, Replacement::in_place);
  TemporaryFolder temporary;
  const fs::path out = temporary.path / "out";
  write_file(temporary.path / "precious", "precious");
  write_version(out, 1, how);
  fs::create_directory(temporary.path / "folder");
  write_file(temporary.path / "folder/file", "precious");
  fs::create_symlink("../folder", out / "linked");
  std::ofstream(out / "files.txt")
      << "tsc-folder 2\n../precious\n"
      << (temporary.path / "precious").string()
      << "\nlinked/file\na.txt\nkernels/b.cu\nkernels/serial/c.cpp\n"
         "kernels/only_1.cu\n./kernels/../../precious\nprogram.json\nend\n";
  write_version(out, 2, how);
  CHECK(version_of(out) == 2);
  CHECK(read_text(temporary.path / "precious") == "precious");
  CHECK(read_text(temporary.path / "folder/file") == "precious");
  CHECK(fs::is_symlink(out / "linked"));
}

TEST_CASE("A writer killed at any instant leaves one whole version", "[folder]") {
  const Replacement how = GENERATE(Replacement::exchanged, Replacement::in_place);
  TemporaryFolder temporary;
  const fs::path written = temporary.path / "written", left = temporary.path / "left";
  write_version(written / "out", 1, how);
  add_foreign(written / "out");
  const size_t before = entries_in(written / "out");
  const std::string copy =
      "rm -rf '" + left.string() + "' && cp -a '" + written.string() + "' '" + left.string() + "'";
  int instants = 0;
  // What a writer would leave that is killed now, and what the next one makes of that.
  const auto check = [&] {
    INFO("before call " << instants++);
    REQUIRE(std::system(copy.c_str()) == 0);
    const fs::path out = left / "out";
    if (how == Replacement::exchanged) {
      REQUIRE(version_of(out) > 0);
      REQUIRE(is_finished(out));
    } else { // files go one by one, which has to be seen
      REQUIRE((!is_finished(out) || version_of(out) > 0));
    }
    REQUIRE(has_foreign(out));
    write_version(out, 3, how);
    REQUIRE(version_of(out) == 3);
    REQUIRE(has_foreign(out));
    REQUIRE(entries_in(out) == before);
    REQUIRE(entries_in(left) == 1);
  };
  if (!at_each_call([&] { write_version(written / "out", 2, how); }, check)) {
    testing::skip("processes may not be traced here");
    return;
  }
  CHECK(instants > 50);
  CHECK(version_of(written / "out") == 2);
}

TEST_CASE("Of sixteen writers at once one is left, whole", "[folder]") {
  TemporaryFolder temporary;
  const fs::path out = temporary.path / "out";
  const bool is_there = GENERATE(true, false);
  if (is_there) {
    write_version(out, 100);
    add_foreign(out);
  }
  std::vector<pid_t> children;
  for (int writer = 1; writer <= 16; ++writer) {
    const pid_t child = fork();
    if (child == 0) {
      for (int round = 0; round < 3; ++round)
        write_version(out, writer, // some stand in the folder, say
                      writer % 8 == 0 && is_there ? Replacement::in_place : Replacement::exchanged);
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  const int version = version_of(out);
  CHECK((version >= 1 && version <= 16));
  CHECK((!is_there || has_foreign(out)));
  CHECK(entries_in(temporary.path) == 1);
  for (const fs::directory_entry &entry : fs::directory_iterator(out))
    CHECK(entry.path().filename().string().rfind(".tsc-", 0) == std::string::npos);
}

TEST_CASE("Readers never see parts of two versions", "[folder]") {
  const Replacement how = GENERATE(Replacement::exchanged, Replacement::in_place);
  TemporaryFolder temporary;
  const fs::path out = temporary.path / "out";
  const auto write = [&](int version) {
    program::Program program = program::sample_program();
    program.name = "version_" + std::to_string(version);
    tensor::TensorMap weights;
    weights["w"] = tensor::HostTensor(tensor::DType::i64, {1});
    weights["w"].set_int64(0, version);
    FolderWriter writer(out.string(), how);
    writer.write("program.json", program::to_json(program));
    tensor::write_tensors(writer.add("weights.safetensors"), weights);
    writer.commit();
  };
  write(0);
  const pid_t child = fork();
  if (child == 0)
    for (int version = 1;; ++version)
      write(version);
  std::string last;
  int changes = 0, mixed = 0;
  const auto start = std::chrono::steady_clock::now();
  const auto passed = [&] { return std::chrono::steady_clock::now() - start; };
  while (passed() < std::chrono::milliseconds(700) ||
         (changes <= 2 && passed() < std::chrono::seconds(60))) {
    const emit::EmittedFolder read = emit::read_emitted_folder(out.string());
    mixed +=
        read.plans.at(0).name != "version_" + std::to_string(read.weights.at("w").get_int64(0));
    changes += read.plans.at(0).name != last;
    last = read.plans.at(0).name;
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  CHECK(mixed == 0);
  CHECK(changes > 2);
}

TEST_CASE("OUT may be a link, and not a file, a dangling link or the root", "[folder]") {
  TemporaryFolder temporary;
  const fs::path real = fs::canonical(temporary.path);
  fs::create_directory(real / "target");
  fs::create_symlink("target", real / "link");
  write_version(real / "link", 1);
  write_version(real / "link" / "", 2);
  CHECK(fs::is_symlink(real / "link"));
  CHECK(version_of(real / "target") == 2);
  fs::create_symlink("nowhere", real / "dangling");
  CHECK(error_of([&] { write_version(real / "dangling", 1); }) ==
        not_written_by_tsc(real / "dangling"));
  CHECK(fs::is_symlink(real / "dangling"));
  write_file(real / "file", "mine");
  CHECK(error_of([&] { write_version(real / "file", 1); }) == not_written_by_tsc(real / "file"));
  CHECK(error_of([&] { write_version(real / "file" / "below", 1); }).rfind("error TSC-E002: ", 0) ==
        0);
  REQUIRE(mkfifo((real / "fifo").c_str(), 0600) == 0);
  CHECK(error_of([&] { write_version(real / "fifo", 1); }) == not_written_by_tsc(real / "fifo"));
  CHECK(error_of([&] { write_version("/", 1); }) == not_written_by_tsc("/"));
  // Lists and programs that would never end.
  fs::create_directory(real / "odd");
  REQUIRE(mkfifo((real / "odd/files.txt").c_str(), 0600) == 0);
  fs::create_symlink("/dev/zero", real / "odd/program.json");
  CHECK_FALSE(emit::is_emitted_folder((real / "odd").string()));
  CHECK(error_of([&] { write_version(real / "odd", 1); }) == not_written_by_tsc(real / "odd"));
  CHECK(entries_in(real) == 6);
}

TEST_CASE("The working folder stays the one in which the caller stands", "[folder]") {
  TemporaryFolder temporary;
  const fs::path out = fs::canonical(temporary.path) / "out";
  fs::create_directory(out);
  const ino_t inode = inode_of(out);
  CHECK(in_child([&] {
          if (chdir(out.c_str()) != 0)
            return 1;
          write_version(".", 1);
          write_version(out, 2);
          return fs::current_path() == out && fs::exists("a.txt") ? 0 : 2;
        }) == 0);
  CHECK(inode_of(out) == inode);
  CHECK(version_of(out) == 2);
  CHECK(entries_in(temporary.path) == 1);
}

TEST_CASE("A mount point is written to in place", "[folder]") {
  TemporaryFolder temporary;
  const fs::path out = temporary.path / "out";
  fs::create_directory(out);
  constexpr int kNoMounts = 77;
  const int status = in_child([&] {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      return kNoMounts;
    fs::create_directory(temporary.path / "bound");
    if (mount((temporary.path / "bound").c_str(), out.c_str(), nullptr, MS_BIND, nullptr) != 0)
      return kNoMounts;
    write_version(out, 1);
    add_foreign(out);
    write_version(out, 2);
    return version_of(out) == 2 && has_foreign(out) && version_of(temporary.path / "bound") == 2
               ? 0
               : 1;
  });
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoMounts)
    testing::skip("this user can mount nothing");
  else
    CHECK(status == 0);
}

TEST_CASE("A folder below one that cannot be written is written to in place", "[folder]") {
  TemporaryFolder temporary;
  const fs::path out = temporary.path / "below/out";
  fs::create_directories(out);
  chmod(temporary.path.c_str(), 0755);
  chmod(out.c_str(), 0777);
  chmod(out.parent_path().c_str(), 0555);
  CHECK(in_child([&] {
          if (geteuid() == 0 &&
              (setgroups(0, nullptr) != 0 || setgid(65534) != 0 || setuid(65534) != 0))
            return 1;
          write_version(out, 1);
          add_foreign(out);
          write_version(out, 2);
          return error_of([&] {
                   write_version(out.parent_path() / "new", 1);
                 }).find("error TSC-E002: cannot write: Permission denied\n") == 0
                     ? 0
                     : 2;
        }) == 0);
  CHECK(version_of(out) == 2);
  CHECK(has_foreign(out));
  chmod(out.parent_path().c_str(), 0755);
}

TEST_CASE("A signal ends a writer as itself, and leaves nothing", "[folder]") {
  const int signal = GENERATE(SIGINT, SIGTERM, SIGHUP);
  TemporaryFolder temporary;
  const fs::path out = temporary.path / "out";
  const int status = in_child([&] {
    std::signal(signal, SIG_DFL); // not the test's own handler
    FolderWriter writer(out.string());
    writer.write("kernels/a.cu", "a");
    raise(signal);
    return 0;
  });
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == signal);
  CHECK(fs::is_empty(temporary.path));
}

TEST_CASE("A new folder has the mode that the user's mask says", "[folder]") {
  TemporaryFolder temporary;
  const fs::path out = temporary.path / "out";
  CHECK(in_child([&] {
          umask(027);
          write_version(out, 1);
          return 0;
        }) == 0);
  CHECK(fs::status(out).permissions() == fs::perms(0750));
  fs::permissions(out, fs::perms(0700));
  write_version(out, 2);
  CHECK(fs::status(out).permissions() == fs::perms(0700));
}

TEST_CASE("A lock that is never let go is an error in the end", "[folder][.slow]") {
  TemporaryFolder temporary;
  const int held = open(temporary.path.c_str(), O_RDONLY | O_DIRECTORY);
  REQUIRE(flock(held, LOCK_EX) == 0);
  CHECK(error_of([&] { write_version(temporary.path / "out", 1); }) ==
        "error TSC-E006: another process has held the folder for 60 s\n  at " +
            (fs::canonical(temporary.path) / "out").string() + "\n  next: see what locks " +
            fs::canonical(temporary.path).string() + ", or choose another -o");
  close(held);
  CHECK(fs::is_empty(temporary.path));
}
