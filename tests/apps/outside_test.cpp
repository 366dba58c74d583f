// Attacks from outside on the real binary: signals, compilers that hang, odd files, limits, closed
// and full outputs (docs/outside.md).
#include "tsc_process.h"

#include "testing/catch.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace tsc;
namespace fs = std::filesystem;
using testing::Outcome;
using testing::ramp;
using testing::Workplace;

namespace {

const std::vector<std::string> kRun = {"run", "linear.json", "--device=host", "--weights=random",
                                       "--inputs=random"};

/// A compiler that answers --version, and otherwise does `what`; its path.
std::string compiler(const Workplace &place, const std::string &what) {
  const std::string path = place.file(
      "compiler", "#!/bin/sh\n[ \"$1\" = --version ] && { echo 1; exit 0; }\n" + what + "\n");
  fs::permissions(path, fs::perms(0755));
  return path;
}

/// tsc in the background, with nothing of the test's own handlers.
pid_t start(const Workplace &place, const std::vector<std::string> &arguments,
            const std::vector<std::pair<std::string, std::string>> &environment) {
  const pid_t child = fork();
  if (child != 0)
    return child;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    std::signal(signal, SIG_DFL);
  for (const auto &[name, value] : environment)
    setenv(name.c_str(), value.c_str(), 1);
  setenv("XDG_CACHE_HOME", place.path("cache").c_str(), 1);
  std::vector<std::string> words = {TSC_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char *> pointers;
  for (std::string &word : words)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);
  if (chdir(place.path(".").c_str()) != 0 || !freopen("out", "w", stdout) ||
      !freopen("err", "w", stderr))
    _exit(98);
  execv(TSC_BINARY, pointers.data());
  _exit(99);
}

bool wait_until(const std::function<bool()> &holds) {
  for (int i = 0; i < 3000 && !holds(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return holds();
}
bool is_alive(const std::string &process) {
  std::ifstream status("/proc/" + process + "/status");
  std::string line;
  while (std::getline(status, line))
    if (line.rfind("State:", 0) == 0)
      return line.find('Z') == std::string::npos;
  return false;
}
std::string number_in(const std::string &path) {
  std::string number;
  std::ifstream(path) >> number;
  return number;
}

double child_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_CHILDREN, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec) / 1e6;
}

size_t lines_of(const std::string &text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

} // namespace

TEST_CASE("results that cannot be written are an error of every command") {
  Workplace place;
  place.file("linear.json", testing::linear_graph());
  REQUIRE(place.run({"compile", "linear.json", "-o", "out"}).exit_code == 0);
  const std::string full = "exec > /dev/full", closed = "exec >&-";
  const std::vector<std::vector<std::string>> commands = {
      {"--help"},
      {"--version"},
      {"run", "--help"},
      {"compile", "linear.json", "--emit=fx"},
      {"compile", "linear.json", "--emit=json"},
      {"compile", "linear.json", "--emit=cuda"},
      {"compile", "linear.json", "-o", "out"},
      {"compile", "linear.json", "-o", "out", "--json"},
      {"check", "linear.json"},
      {"check", "linear.json", "--json"},
      {"explain", "linear.json"},
      {"dump-schedule", "linear.json"},
      {"run", "linear.json", "--device=reference", "--weights=random"},
      {"run", "linear.json", "--device=reference", "--weights=random", "--json"}};
  for (const std::vector<std::string> &command : commands) {
    INFO(command[0] << " " << command.back());
    const Outcome outcome = place.run_after(full, command);
    CHECK(outcome.exit_code == 5);
    CHECK(
        outcome.err.find("error TSC-C017: the results cannot be written to stdout: No space left "
                         "on device\n  next: make room there, or see what has closed the pipe\n") !=
        std::string::npos);
  }
  for (const std::vector<std::string> &command : {commands[0], commands[3], commands[6]}) {
    const Outcome outcome = place.run_after(closed, command);
    CHECK(outcome.exit_code == 5);
    CHECK(outcome.err.find("error TSC-C017: ") != std::string::npos);
  }
  // Nothing that tsc writes ends up in a file that took stdout's number.
  CHECK(place.run({"run", "out", "--device=reference", "--weights=random", "--inputs=random"})
            .err.rfind("error TSC-C007: ", 0) == 0);
  CHECK(place.run({"compile", "linear.json", "-o", "out"}).exit_code == 0);
  // A reader that has gone.
  for (const std::string form : {"--emit=cuda", "--emit=fx"}) {
    place.run_after("{ sleep 0.3; \"$0\" \"$@\" 2> err; echo $? > code; } | true; exit",
                    {"compile", "linear.json", form});
    CHECK(number_in(place.path("code")) == "5");
    CHECK(testing::read_text(place.path("err"))
              .rfind("error TSC-C017: the results cannot be written to stdout: Broken pipe\n", 0) ==
          0);
  }
}

TEST_CASE("signals end tsc and its compiler, and leave nothing") {
  const int signal = GENERATE(SIGINT, SIGTERM, SIGHUP);
  Workplace place;
  place.file("linear.json", testing::linear_graph());
  fs::create_directory(place.path("tmp"));
  // A compiler with a temporary file and a child of its own.
  const std::string hanging = compiler(
      place, "echo x > \"$TMPDIR/ccXXXX.s\"; sleep 60 & echo $! > " + place.path("grandchild") +
                 "; echo $$ > " + place.path("child") + "; wait");
  const pid_t process = start(place, kRun, {{"CXX", hanging}, {"TMPDIR", place.path("tmp")}});
  REQUIRE(wait_until([&] { return !number_in(place.path("child")).empty(); }));
  REQUIRE(kill(process, signal) == 0);
  int status = 0;
  REQUIRE(waitpid(process, &status, 0) == process);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == signal);
  CHECK(fs::is_empty(place.path("tmp")));
  CHECK(wait_until([&] { return !is_alive(number_in(place.path("child"))); }));
  CHECK(wait_until([&] { return !is_alive(number_in(place.path("grandchild"))); }));
  CHECK(testing::read_text(place.path("err")).find("error") == std::string::npos);
}

TEST_CASE("what kill -9 leaves in TMPDIR the next run removes, and nobody else's") {
  Workplace place;
  place.file("linear.json", testing::linear_graph());
  fs::create_directories(place.path("tmp/tsc-run-mine00")); // another one's, by its mode
  fs::permissions(place.path("tmp/tsc-run-mine00"), fs::perms(0755));
  const std::string hanging =
      compiler(place, "echo $$ > " + place.path("child") + "; exec sleep 60");
  const pid_t process = start(place, kRun, {{"CXX", hanging}, {"TMPDIR", place.path("tmp")}});
  REQUIRE(wait_until([&] { return !number_in(place.path("child")).empty(); }));
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
  const auto folders = [&] {
    return std::distance(fs::directory_iterator(place.path("tmp")), fs::directory_iterator());
  };
  CHECK(folders() == 2);
  kill(std::stoi(number_in(place.path("child"))), SIGKILL);
  CHECK(place.run_after("export TMPDIR=" + place.path("tmp"), kRun).exit_code == 0);
  CHECK(folders() == 1);
  CHECK(fs::exists(place.path("tmp/tsc-run-mine00")));
}

TEST_CASE("a compiler that hangs is ended with its children, and named") {
  Workplace place;
  place.file("linear.json", testing::linear_graph());
  const std::string limit = "export TSC_COMPILER_SECONDS=1 CXX=" + place.path("compiler");
  compiler(place, "sleep 60 & echo $! > " + place.path("grandchild") + "; wait");
  Outcome outcome = place.run_after(limit, kRun);
  CHECK(outcome.exit_code == 5);
  CHECK(outcome.err.rfind("error TSC-R016: the C++ compiler '" + place.path("compiler") +
                              "' was ended after 1 s\ncommand: ",
                          0) == 0);
  CHECK(outcome.err.find("  next: give it more time with TSC_COMPILER_SECONDS, or choose another "
                         "compiler with CXX\n") != std::string::npos);
  CHECK(wait_until([&] { return !is_alive(number_in(place.path("grandchild"))); }));

  compiler(place, "exec yes an error"); // without end
  outcome = place.run_after(limit, kRun);
  CHECK(outcome.exit_code == 5);
  CHECK(outcome.err.rfind("error TSC-R016: ", 0) == 0);
  CHECK(outcome.err.size() < 10000);

  place.file("compiler", "#!/bin/sh\nexec sleep 60\n"); // already for its version
  outcome = place.run_after(limit, kRun);
  CHECK(outcome.exit_code == 5);
  CHECK(outcome.err.rfind("error TSC-R016: the C++ compiler '" + place.path("compiler") +
                              "' was ended after 1 s\ncommand: " + place.path("compiler") +
                              " --version\n",
                          0) == 0);
}

TEST_CASE("a compiler that is killed, or whose parts are, is said to be") {
  Workplace place;
  place.file("linear.json", testing::linear_graph());
  const std::string chosen = "export CXX=" + compiler(place, "echo working; kill -9 $$");
  Outcome outcome = place.run_after(chosen, kRun);
  CHECK(outcome.exit_code == 5);
  CHECK(outcome.err.rfind("error TSC-R017: the C++ compiler '" + place.path("compiler") +
                              "' was killed by signal 9 (Killed):\nworking\n",
                          0) == 0);
  CHECK(outcome.err.find("  next: if memory ran out, compile fewer kernels at a time with "
                         "TSC_THREADS=1\n") != std::string::npos);
  compiler(place, "echo 'g++: fatal error: Killed signal terminated program cc1plus'; exit 1");
  outcome = place.run_after(chosen, kRun);
  CHECK(outcome.exit_code == 5);
  CHECK(outcome.err.rfind("error TSC-R017: ", 0) == 0);
  // A child that lives on with the output open is not waited for.
  compiler(place, "sleep 60 & exec g++ \"$@\"");
  const auto begin = std::chrono::steady_clock::now();
  CHECK(place.run_after(chosen, kRun).exit_code == 0);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(50));
}

TEST_CASE("numbers in the environment that are none are refused") {
  Workplace place;
  place.file("linear.json", testing::linear_graph());
  const std::vector<std::string> check = {"check", "linear.json"};
  for (const char *value :
       {"abc", "0", "-1", "1e3", " 4", "4 ", "1000000", "99999999999999999999"}) {
    INFO(value);
    const Outcome outcome =
        place.run_after(std::string("export TSC_THREADS='") + value + "'", check);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err == std::string("error TSC-C016: TSC_THREADS is '") + value +
                             "'\n  next: give a whole number from 1 to 1024, or unset it\n");
  }
  CHECK(place.run_after("export TSC_THREADS=", check).exit_code == 0);
  CHECK(place.run_after("export TSC_THREADS=1024", check).exit_code == 0);
  CHECK(place.run_after("export TSC_COMPILER_SECONDS=soon", kRun)
            .err.rfind("error TSC-C016: TSC_COMPILER_SECONDS is 'soon'\n", 0) == 0);
  for (const char *variable : {"OMP_NUM_THREADS=abc", "OPENBLAS_NUM_THREADS=-5",
                               "OMP_NUM_THREADS=0", "OPENBLAS_NUM_THREADS=99999999"}) {
    INFO(variable);
    CHECK(place.run_after(std::string("export ") + variable, kRun).exit_code == 0);
  }
  CHECK(place.run({"run", "linear.json", "--world-size", "1000000"}).exit_code == 2);
  CHECK(place.run({"run", "linear.json", "--bench", "99999999"}).exit_code == 2);
}

TEST_CASE("a launch of more blocks than a device takes is refused") {
  Workplace place;
  place.file("linear.json", testing::linear_graph());
  REQUIRE(place.run({"compile", "linear.json", "-o", "out", "--weights=random"}).exit_code == 0);
  const std::string program = testing::read_text(place.path("out/program.json"));
  for (const char *blocks : {"4611686018427387904", "4294967296", "2147483648"}) {
    std::string changed = program;
    for (size_t at = 0; (at = changed.find("\"grid\": [", at)) != std::string::npos; at += 9) {
      const size_t end = changed.find_first_of(",]", at + 9);
      changed.replace(at + 9, end - at - 9, blocks);
    }
    REQUIRE(changed != program);
    place.file("out/program.json", changed);
    const Outcome outcome = place.run({"run", "out", "--device=host", "--inputs=random"});
    INFO(outcome.err);
    CHECK(outcome.exit_code == 3);
    CHECK(outcome.err.find("error TSC-") == 0);
  }
}

TEST_CASE("with little memory there is a result or an error, in time") {
  Workplace place;
  place.file("linear.json", testing::linear_graph());
  REQUIRE(place.run(kRun).exit_code == 0); // kernels are in the cache
  CHECK(place.run_after("ulimit -v 150000", {"--version"}).exit_code == 0);
  size_t fine = 0;
  for (const int kilobytes : {30000, 60000, 90000, 120000, 160000, 250000, 400000, 700000}) {
    INFO(kilobytes);
    const Outcome outcome =
        place.run_after("ulimit -v " + std::to_string(kilobytes) + "; ulimit -t 20", kRun);
    INFO(outcome.err);
    // 127: the loader found no room for a library, before tsc began.
    CHECK((outcome.exit_code == 0 || outcome.exit_code == 5 || outcome.exit_code == 127));
    CHECK((outcome.exit_code != 5 || outcome.err.find("error TSC-R") != std::string::npos));
    fine += outcome.exit_code == 0;
  }
  CHECK(fine >= 2);
  const Outcome slow = place.run_after("ulimit -v 250000", kRun);
  CHECK(slow.err.find("warning: matrix products run in plain loops, without OpenBLAS: too little "
                      "memory\n") != std::string::npos);
}

TEST_CASE("files that are no files are refused at once") {
  Workplace place;
  place.file("linear.json", testing::linear_graph());
  REQUIRE(mkfifo(place.path("fifo").c_str(), 0600) == 0);
  fs::create_directory(place.path("empty"));
  fs::create_symlink("loop", place.path("loop"));
  const auto check_refused = [&](const std::string &odd, const std::vector<std::string> &command) {
    const Outcome outcome = place.run_after("ulimit -v 1000000; ulimit -t 20", command);
    INFO(odd << " for " << command[0] << ": " << outcome.err);
    CHECK((outcome.exit_code == 3 || (outcome.exit_code == 2 && odd == "empty")));
    CHECK(outcome.err.find("error TSC-") != std::string::npos);
    CHECK_FALSE(fs::exists(place.path("out")));
  };
  for (const std::string odd : {"fifo", "/dev/zero", "/dev/null", "empty", "loop", "/dev/stdin",
                                "/proc/self/status", "/proc/self/mem"}) {
    check_refused(odd, {"run", odd});
    check_refused(odd, {"run", "linear.json", "--device=reference", "--weights", odd});
  }
  for (const std::string odd : {"fifo", "/dev/zero"}) {
    check_refused(odd, {"check", odd});
    check_refused(odd, {"compile", odd, "-o", "out"});
    for (const std::string option : {"--inputs", "--expect"})
      check_refused(odd,
                    {"run", "linear.json", "--device=reference", "--weights=random", option, odd});
  }
}

TEST_CASE("weights that are cut short or changed while tsc runs are an error") {
  Workplace place;
  place.file("big.json", R"({"format": "tsc-graph", "version": 1, "name": "big",
    "nodes": [
      {"name": "w", "op": "placeholder", "val": {"dtype": "float32", "size": [100000]}},
      {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": [100000]}},
      {"name": "y", "op": "call_function", "target": "aten.mul.Tensor",
       "args": [{"node": "x"}, {"node": "w"}]},
      {"name": "output", "op": "output", "args": [[{"node": "y"}]]}],
    "signature": {"inputs": [{"node": "w", "kind": "parameter", "target": "w"},
                             {"node": "x", "kind": "user"}],
      "outputs": [{"kind": "user", "value": {"node": "y"}}]}})");
  place.tensors("w.safetensors", {{"w", ramp({100000}, 0, 1)}});
  fs::copy(place.path("w.safetensors"), place.path("kept"));
  const auto run_while = [&](const std::string &what) {
    fs::copy(place.path("kept"), place.path("w.safetensors"), fs::copy_options::overwrite_existing);
    const std::string chosen = "export CXX=" + compiler(place, what + "\nexec g++ \"$@\"");
    return place.run_after(chosen, {"run", "big.json", "--device=host", "--weights=w.safetensors",
                                    "--inputs=random", "--no-cache", "--outputs=y.npz"});
  };
  for (const char *bytes : {"100000", "0"}) {
    const Outcome cut = run_while(std::string("truncate -s ") + bytes + " w.safetensors");
    CHECK(cut.exit_code == 3);
    CHECK(cut.out == "");
    CHECK(cut.err == "error TSC-T006: the file was cut short while it was read\n"
                     "  at w.safetensors\n  next: run it again when nothing writes to the file\n");
    CHECK_FALSE(fs::exists(place.path("y.npz")));
  }
  // Within the last page: nothing faults.
  const Outcome little = run_while("truncate -s -8 w.safetensors");
  CHECK(little.exit_code == 3);
  CHECK(little.err.rfind("error TSC-T006: the file was cut short while it was read\n", 0) == 0);
  const Outcome changed =
      run_while("sleep 0.1; printf x | dd of=w.safetensors conv=notrunc bs=1 seek=1000 2> dd");
  CHECK(changed.exit_code == 3);
  CHECK(changed.err.rfind("error TSC-T006: the file was changed while it was read\n", 0) == 0);
  // Another file of the name is another file.
  CHECK(run_while("cp kept new; mv new w.safetensors").exit_code == 0);
}

TEST_CASE("two hundred thousand unknown names are told in a few lines and at once") {
  Workplace place;
  place.file("linear.json", testing::linear_graph());
  std::string header = "{";
  for (int i = 0; i < 200000; ++i)
    header += "\"fc.weigh" + std::to_string(i) +
              "\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[" + std::to_string(4 * i) +
              "," + std::to_string(4 * i + 4) + "]},";
  header.back() = '}';
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i)
    length[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  place.file("many.safetensors", length + header + std::string(800000, '\0'));
  const auto check_told = [&](const std::vector<std::string> &options, const std::string &text) {
    std::vector<std::string> command = {"run", "linear.json", "--device=reference"};
    command.insert(command.end(), options.begin(), options.end());
    const double before = child_seconds();
    const Outcome outcome = place.run(command);
    INFO(outcome.err.substr(0, 3000));
    CHECK(outcome.exit_code == 3);
    CHECK(lines_of(outcome.err) < 100);
    CHECK(outcome.err.find(text) != std::string::npos);
    CHECK(child_seconds() - before < 4.0); // 0.6 where the machine is idle, minutes if quadratic
  };
  check_told({"--weights=many.safetensors"}, "error TSC-R124: no name in the file is a weight");
  check_told({"--weights=random", "--inputs=many.safetensors"},
             "error TSC-R121: the file holds 199980 more names that the graph does not take\n"
             "  at many.safetensors\n  next: remove them\n");
  check_told({"--weights=random", "--expect=many.safetensors"},
             "error TSC-R123: the file holds 199980 more names that are no outputs of the graph\n");
}

TEST_CASE("a cache that others can write to is not used, and that is said once") {
  Workplace place;
  place.file("linear.json", testing::linear_graph());
  fs::create_directories(place.path("cache/tsc"));
  fs::permissions(place.path("cache/tsc"), fs::perms(0777));
  const Outcome outcome = place.run(kRun);
  CHECK(outcome.exit_code == 0);
  CHECK(fs::is_empty(place.path("cache/tsc")));
  CHECK(outcome.err == "warning: the kernel cache '" + place.path("cache/tsc") +
                           "' is not used: other users may write there (chmod go-w makes it "
                           "usable)\n");
}
