#include "ranks/thread_ranks.h"
#include "runtime/content_cache.h"
#include "runtime/process.h"
#include "support/diagnostic.h"
#include "testing/catch.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
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
  CHECK(!cache.open("k"));
  std::string bytes("with\0zeros", 10);
  REQUIRE(cache.store("k", bytes));
  CHECK(cache.read("k") == bytes);
  const auto file = cache.open("k");
  REQUIRE(file);
  CHECK(raw("/proc/self/fd/" + std::to_string(file.get())).substr(0, bytes.size()) == bytes);
  REQUIRE(cache.store("empty", ""));
  CHECK(cache.read("empty") == std::string());
  // Another process, say.
  CHECK(ContentCache(folder.path() + "/deep/er").read("k") == bytes);
}

TEST_CASE("torn and altered files are not given, and go") {
  const TemporaryFolder folder;
  ContentCache cache(folder.path());
  REQUIRE(cache.store("k", "0123456789"));
  const std::string path = folder.path() + "/" + ContentCache::file_name("k"), whole = raw(path);
  for (size_t length = 0; length < whole.size(); ++length) {
    overwrite(path, whole.substr(0, length));
    INFO("cut to " << length << " of " << whole.size());
    REQUIRE(!cache.open("k"));
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
    fs::last_write_time(folder.path() + "/tsc-" + key, now - std::chrono::minutes(100 - i));
  }
  cache.evict();
  CHECK(count_files(folder.path()) == 5); // within the limit
  CHECK(cache.open("k0"));                // used now
  overwrite(folder.path() + "/tsc-old.1.2.writing", "half");
  fs::last_write_time(folder.path() + "/tsc-old.1.2.writing", now - std::chrono::hours(2));
  overwrite(folder.path() + "/tsc-new.1.2.writing", "half");
  REQUIRE(cache.store("k5", std::string(1900, 'x')));
  overwrite(folder.path() + "/thesis", std::string(20000, 'x')); // not the cache's
  cache.evict();
  CHECK(fs::exists(folder.path() + "/thesis"));
  CHECK(cache.open("k0"));
  CHECK(!cache.open("k1"));
  CHECK(!cache.open("k2"));
  CHECK(cache.open("k3"));
  CHECK(cache.open("k5"));
  CHECK(!fs::exists(folder.path() + "/tsc-old.1.2.writing"));
  CHECK(fs::exists(folder.path() + "/tsc-new.1.2.writing"));
}

TEST_CASE("a folder that cannot be made is no error") {
  const TemporaryFolder folder;
  overwrite(folder.path() + "/file", "");
  ContentCache cache(folder.path() + "/file/folder");
  CHECK(!cache.store("k", "bytes"));
  CHECK(!cache.open("k"));
  cache.evict();
}

TEST_CASE("an entry that is not plainly this user's is not given") {
  const TemporaryFolder folder, elsewhere;
  ContentCache cache(folder.path());
  REQUIRE(cache.store("k", "bytes"));
  const std::string path = folder.path() + "/tsc-k", whole = raw(path);
  const auto plant = [&](const std::function<void()> &how) {
    fs::remove_all(path);
    how();
  };
  SECTION("a link to a good one") {
    overwrite(elsewhere.path() + "/good", whole);
    plant([&] { fs::create_symlink(elsewhere.path() + "/good", path); });
  }
  SECTION("a link to what never ends") {
    plant([&] { fs::create_symlink("/dev/zero", path); });
  }
  SECTION("a fifo that nobody writes to") {
    plant([&] { mkfifo(path.c_str(), 0600); });
  }
  SECTION("a folder") {
    plant([&] { fs::create_directory(path); });
  }
  SECTION("others may write to it") { chmod(path.c_str(), 0666); }
  SECTION("the group may write to it") { chmod(path.c_str(), 0620); }
  SECTION("it belongs to another user") {
    if (chown(path.c_str(), 65534, 65534) != 0)
      return; // only root can make one
  }
  SECTION("it is another key's") {
    REQUIRE(cache.store("other", "other bytes"));
    plant([&] { fs::rename(folder.path() + "/tsc-other", path); });
  }
  SECTION("it is larger than the cache may be") { fs::resize_file(path, uint64_t{1} << 40); }
  CHECK(!cache.open("k"));
  CHECK(!cache.read("k"));
  // Made anew, unless a folder is in the way.
  CHECK((cache.store("k", "bytes") ? cache.read("k") == std::string("bytes")
                                   : fs::is_directory(path)));
}

TEST_CASE("a folder that is not this user's alone is no cache") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/cache";
  ContentCache cache(path);
  REQUIRE(cache.store("k", "bytes"));
  CHECK(fs::status(path).permissions() == fs::perms(0700));
  for (const unsigned mode : {0777, 0770, 0702}) {
    chmod(path.c_str(), mode);
    CHECK(!cache.open("k"));
    CHECK(!cache.store("other", "bytes"));
    cache.evict();
    CHECK(count_files(path) == 1);
  }
  chmod(path.c_str(), 0755);
  CHECK(cache.open("k"));
  if (chown(path.c_str(), 65534, 65534) == 0) { // as root
    CHECK(!cache.open("k"));
    CHECK(!cache.store("other", "bytes"));
  }
}

TEST_CASE("programs run, fail and are not found") {
  const ProcessResult fine = run_process({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"});
  CHECK(fine.exit_code == 3);
  CHECK(fine.output == "out\nerr\n");
  const ProcessResult killed = run_process({"/bin/sh", "-c", "kill -9 $$"});
  CHECK(killed.exit_code == 137);
  CHECK(killed.signal == 9);
  CHECK(run_process({"/nowhere/at/all"}).exit_code != 0);
  CHECK(find_program("sh") != "");
  CHECK(find_program("a-program-that-is-nowhere") == "");
}

TEST_CASE("programs have a limit, bounded output and variables of their own") {
  ProcessOptions options;
  options.limit = std::chrono::milliseconds(200);
  const auto start = std::chrono::steady_clock::now();
  CHECK(run_process({"/bin/sh", "-c", "sleep 60 & sleep 60"}, options).timed_out);
  CHECK(run_process({"/bin/sh", "-c", "exec >&- 2>&-; sleep 60"}, options).timed_out);
  options.most_output = 1000;
  options.limit = std::chrono::seconds(3); // for a busy machine to write that much
  const ProcessResult flood = run_process({"/bin/sh", "-c", "yes"}, options);
  CHECK(flood.timed_out);
  CHECK(flood.output.size() == 1000);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
  options.limit = std::chrono::seconds(60);
  options.environment = {"HOME=/nowhere", "TSC_NEW=1"};
  CHECK(run_process({"/bin/sh", "-c", "echo $HOME $TSC_NEW"}, options).output == "/nowhere 1\n");
}

TEST_CASE("ranks that cannot all be started are an error") {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit = {uint64_t{1} << 30, uint64_t{1} << 30}; // stacks of 8 MiB
    setrlimit(RLIMIT_AS, &limit);
    try {
      tsc::ranks::GroupTable table;
      table.world = 4096;
      tsc::ranks::run_ranks_as_threads(table, [](int64_t, tsc_engine::Groups &others) {
        char byte = 0;
        std::vector<char> all(4096);
        tsc_engine::CollectiveCall call;
        call.kind = tsc_engine::CollectiveKind::all_gather;
        call.count = 1;
        others.find("")->run(call, &byte, all.data(), nullptr);
      });
    } catch (const tsc::support::UserError &error) {
      const std::string what = error.what();
      _exit(what.rfind("error TSC-R018: only ", 0) == 0 &&
                    // A stack that does not fit is "temporarily unavailable", a word beside it is
                    // "cannot allocate".
                    (what.find(": Resource temporarily unavailable\n") != std::string::npos ||
                     what.find(": Cannot allocate memory\n") != std::string::npos) &&
                    what.find(" of 4096 ranks could be started: ") != std::string::npos &&
                    what.find("\n  next: raise the limits on processes and memory, or "
                              "run fewer ranks") != std::string::npos
                ? 0
                : 1);
    }
    _exit(2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}
