// Files that change under who reads them.
#include "support/diagnostic.h"
#include "tensor/mapped_file.h"

#include "testing/catch.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace tsc;
using tensor::MappedFile;
namespace fs = std::filesystem;

namespace {

constexpr size_t kLarge = 4 * MappedFile::kReadBytes;

struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "tsc_mapped_XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }
  std::string file(size_t bytes, char content = 'x') const {
    std::ofstream(path / "file", std::ios::binary) << std::string(bytes, content);
    return (path / "file").string();
  }
};

std::string error_of_check() {
  try {
    tensor::check_files_unchanged();
  } catch (const support::UserError &error) {
    return error.what();
  }
  return "";
}

/// Ends as `action` ends in a process whose stderr is `err`.
template <class Action> int in_child(const fs::path &err, const Action &action) {
  const pid_t child = fork();
  if (child == 0) {
    const int file = open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(file, STDERR_FILENO);
    std::signal(SIGBUS, SIG_DFL);
    action();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}
std::string read_text(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

} // namespace

TEST_CASE("a mapped file that is cut short is an error, not SIGBUS") {
  const Folder folder;
  const std::string path = folder.file(kLarge);
  const int status = in_child(folder.path / "err", [&] {
    const auto file = MappedFile::open(path);
    fs::resize_file(path, 10);
    volatile char last = file->bytes()[kLarge - 1];
    (void)last;
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 3);
  CHECK(read_text(folder.path / "err") ==
        "error TSC-T006: the file was cut short while it was read\n  at " + path +
            "\n  next: run it again when nothing writes to the file\n");
}

TEST_CASE("SIGBUS of another mapping stays what it is") {
  const Folder folder;
  const std::string path = folder.file(kLarge);
  const int status = in_child(folder.path / "err", [&] {
    const auto file = MappedFile::open(path);
    const int other = open((folder.path / "other").c_str(), O_RDWR | O_CREAT, 0600);
    void *memory = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, other, 0); // of an empty file
    volatile char first = *static_cast<char *>(memory);
    (void)first;
  });
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGBUS);
}

TEST_CASE("a change within the last page, or in place, is found by asking") {
  const Folder folder;
  const std::string path = folder.file(kLarge);
  const auto file = MappedFile::open(path);
  CHECK(error_of_check() == "");
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
  CHECK(error_of_check() == "error TSC-T006: the file was changed while it was read\n  at " + path +
                                "\n  next: run it again when nothing writes to the file");
  fs::resize_file(path, kLarge - 1);
  CHECK(error_of_check().rfind("error TSC-T006: the file was cut short while it was read\n", 0) ==
        0);
  // Another file in its place, or none: what was opened is as it was.
  fs::remove(path);
  CHECK(error_of_check() == "");
  folder.file(10);
  CHECK(error_of_check() == "");
  CHECK(file->bytes()[0] == 'x');
}

TEST_CASE("small files are read, and not looked at again") {
  const Folder folder;
  const std::string path = folder.file(1000, 'a');
  const auto file = MappedFile::open(path);
  folder.file(0);
  CHECK(file->bytes() == std::string(1000, 'a'));
  CHECK(error_of_check() == "");
}
