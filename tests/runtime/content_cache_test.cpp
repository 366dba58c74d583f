#include "runtime/content_cache.h"
#include "runtime/process.h"
#include "testing/catch.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace tsc::runtime;
namespace fs = std::filesystem;

std::string raw(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}
void overwrite(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}
size_t count_files(const std::string &folder) {
  size_t count = 0;
  for (const auto &entry : fs::directory_iterator(folder))
    count += entry.is_regular_file();
  return count;
}

} // namespace

TEST_CASE("the cache gives back what was stored") {
  const TemporaryFolder folder;
  ContentCache cache(folder.path() + "/deep/er");
  CHECK(!cache.find("k"));
  std::string bytes("with\0zeros", 10);
  REQUIRE(cache.store("k", bytes));
  CHECK(cache.read("k") == bytes);
  REQUIRE(cache.find("k"));
  CHECK(raw(*cache.find("k")).substr(0, bytes.size()) == bytes);
  REQUIRE(cache.store("empty", ""));
  CHECK(cache.read("empty") == std::string());
  // Another process, say.
  CHECK(ContentCache(folder.path() + "/deep/er").read("k") == bytes);
}

TEST_CASE("torn and altered files are not given, and go") {
  const TemporaryFolder folder;
  ContentCache cache(folder.path());
  REQUIRE(cache.store("k", "0123456789"));
  const std::string path = *cache.find("k"), whole = raw(path);
  for (size_t length = 0; length < whole.size(); ++length) {
    overwrite(path, whole.substr(0, length));
    INFO("cut to " << length << " of " << whole.size());
    REQUIRE(!cache.find("k"));
    REQUIRE(!fs::exists(path));
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string altered = whole;
    altered[i] = static_cast<char>(altered[i] ^ 1);
    overwrite(path, altered);
    INFO("byte " << i << " altered");
    REQUIRE(!cache.read("k"));
  }
  overwrite(path, whole);
  CHECK(cache.read("k") == std::string("0123456789"));
}

TEST_CASE("writers in several processes and threads leave whole files") {
  const TemporaryFolder folder;
  const std::string expected(300000, 'x');
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      ContentCache cache(folder.path());
      bool fine = true;
      for (int round = 0; round < 20; ++round) {
        fine = fine && cache.store("k", expected);
        const auto found = cache.read("k");
        fine = fine && found && *found == expected;
      }
      _exit(fine ? 0 : 1);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { ContentCache(folder.path()).store("k", expected); });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(ContentCache(folder.path()).read("k") == expected);
  CHECK(count_files(folder.path()) == 1); // nothing left aside
}

TEST_CASE("the least recently used files go first, and what crashed writers left") {
  const TemporaryFolder folder;
  ContentCache cache(folder.path(), 10000);
  const auto now = fs::file_time_type::clock::now();
  for (int i = 0; i < 5; ++i) {
    const std::string key = "k" + std::to_string(i);
    REQUIRE(cache.store(key, std::string(1900, 'x')));
    fs::last_write_time(folder.path() + "/" + key, now - std::chrono::minutes(100 - i));
  }
  cache.evict();
  CHECK(count_files(folder.path()) == 5); // within the limit
  CHECK(cache.find("k0"));                // used now
  overwrite(folder.path() + "/old.1.2.writing", "half");
  fs::last_write_time(folder.path() + "/old.1.2.writing", now - std::chrono::hours(2));
  overwrite(folder.path() + "/new.1.2.writing", "half");
  REQUIRE(cache.store("k5", std::string(1900, 'x')));
  cache.evict();
  CHECK(cache.find("k0"));
  CHECK(!cache.find("k1"));
  CHECK(!cache.find("k2"));
  CHECK(cache.find("k3"));
  CHECK(cache.find("k5"));
  CHECK(!fs::exists(folder.path() + "/old.1.2.writing"));
  CHECK(fs::exists(folder.path() + "/new.1.2.writing"));
}

TEST_CASE("a folder that cannot be made is no error") {
  const TemporaryFolder folder;
  overwrite(folder.path() + "/file", "");
  ContentCache cache(folder.path() + "/file/folder");
  CHECK(!cache.store("k", "bytes"));
  CHECK(!cache.find("k"));
  cache.evict();
}

TEST_CASE("programs run, fail and are not found") {
  const ProcessResult fine = run_process({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"});
  CHECK(fine.exit_code == 3);
  CHECK(fine.output == "out\nerr\n");
  CHECK(run_process({"/bin/sh", "-c", "kill -9 $$"}).exit_code == 137);
  CHECK(run_process({"/nowhere/at/all"}).exit_code != 0);
  CHECK(find_program("sh") != "");
  CHECK(find_program("a-program-that-is-nowhere") == "");
}
