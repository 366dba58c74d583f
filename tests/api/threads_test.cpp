// Threads that compile and run at once, forks, and the end of a process with calls at work.
#include "host_runs.h"
#include "testing/catch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using tsc::compile_host;
using tsc::contains_text;
using tsc::HostProgram;
using tsc::run_host;

namespace {

constexpr int kThreads = 8;

/// A cache of kernels of a test's own, empty at first.
class CacheFolder {
public:
  CacheFolder() {
    std::string name = std::filesystem::temp_directory_path() / "tsc-threads-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~CacheFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string options(const std::string &more = "") const {
    return R"({"device": "host", "cache_folder": ")" + path_ + "/cache\"" + more + "}";
  }

  const std::string &path() const { return path_; }

private:
  std::string path_;
};

struct Graph {
  std::string text;
  std::vector<std::vector<int64_t>> sizes; // of its inputs, in a run
  std::string more;                        // options
};

std::string input(const std::string &name, const std::string &sizes,
                  const std::string &dtype = "float32") {
  return R"({"name": ")" + name + R"(", "op": "placeholder", "val": {"dtype": ")" + dtype +
         R"(", "size": )" + sizes + "}},\n";
}

std::string call(const std::string &name, const std::string &target, const std::string &arguments) {
  return R"({"name": ")" + name + R"(", "op": "call_function", "target": "aten.)" + target +
         R"(", "args": [)" + arguments + "]},\n";
}

std::string node(const std::string &name) { return R"({"node": ")" + name + "\"}"; }

/// Of the nodes; gives the last of them.
std::string graph(const std::string &nodes, const std::string &last,
                  const std::string &symbols = "{}") {
  return R"({"format": "tsc-graph", "version": 1, "symbols": )" + symbols + R"(, "nodes": [)" +
         nodes + R"({"name": "output", "op": "output", "args": [[)" + node(last) + "]]}]}";
}

/// Graphs of all sorts, no two alike; the last two are refused.
std::vector<Graph> make_graphs() {
  std::vector<Graph> graphs;
  const std::string x = node("x"), y = node("y");
  graphs.push_back({graph(input("x", "[31, 4]") + call("a", "relu.default", x) +
                              call("b", "add.Tensor", node("a") + ", 1.5"),
                          "b"),
                    {{31, 4}},
                    ""});
  graphs.push_back(
      {graph(input("x", R"(["s0", 9])") + call("a", "_softmax.default", x + ", 1, false"), "a",
             R"({"s0": [1, 512]})"),
       {{77, 9}},
       ""});
  graphs.push_back(
      {graph(input("x", R"(["s0", 2000])") + input("y", "[2000, 5]") +
                 call("a", "mm.default", x + ", " + y) + call("b", "gelu.default", node("a")),
             "b", R"({"s0": [1, 512]})"),
       {{6, 2000}, {2000, 5}},
       ""});
  graphs.push_back({graph(input("x", R"(["s0", "s1"])") + input("y", R"(["s1", "s0"])") +
                              call("a", "permute.default", y + ", [1, 0]") +
                              call("b", "mul.Tensor", x + ", " + node("a")) +
                              call("c", "sum.dim_IntList", node("b") + ", [0]"),
                          "c", R"({"s0": [2, 4096], "s1": [2, 4096]})"),
                    {{300, 40}, {40, 300}},
                    ""});
  graphs.push_back({graph(input("x", "[1500, 64]") + call("a", "mean.dim", x + ", [1], true") +
                              call("b", "sub.Tensor", x + ", " + node("a")),
                          "b"),
                    {{1500, 64}},
                    R"(, "plan": "cuda")"});
  graphs.push_back({graph(input("x", "[5, 300]") + input("y", R"(["s0"])", "int64") +
                              call("a", "index_select.default", x + ", 0, " + y),
                          "a", R"({"s0": [1, 64]})"), // 5 and 6 are out of range
                    {{5, 300}, {7}},
                    ""});
  graphs.push_back(
      {graph(input("x", "[3, 3]") + call("a", "no_such_operator.default", x), "a"), {}, ""});
  graphs.push_back(
      {graph(input("x", "[3, 4]") + input("y", "[3, 5]") + call("a", "mm.default", x + ", " + y),
             "a"),
       {},
       ""});
  return graphs;
}

/// The numbers of one graph, or what is wrong with it.
std::string compile_and_run(const Graph &graph, const CacheFolder &cache) {
  const HostProgram program = compile_host(graph.text, cache.options(graph.more));
  if (!program)
    return std::string("refused ") + tsc_api_error();
  return run_host(program.get(), graph.sizes);
}

/// How a child of this process that calls `body` ends: its status, or -1 if it hangs.
template <class Body> int status_of_child(const Body &body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0)
    body();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return status;
}

/// Takes ten minutes for a kernel.
struct SlowCompiler {
  explicit SlowCompiler(const CacheFolder &folder)
      : path(folder.path() + "/compiler"), started(folder.path() + "/started") {
    std::ofstream(path) << "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 1; exit; fi\n"
                        << "echo $$ > " << started << ".new; mv " << started << ".new " << started
                        << "\nsleep 600\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  /// Returns when the compiler is at work.
  void compile_in_thread(const Graph &graph, const CacheFolder &cache) const {
    setenv("CXX", path.c_str(), 1);
    std::thread([&] { compile_and_run(graph, cache); }).detach();
    while (!std::filesystem::exists(started))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const std::string path;
  const std::string started; // a file with the process's number
};

/// Threads that do one thing again and again until they are stopped.
class Background {
public:
  template <class Body> Background(int count, const Body &body) {
    for (int i = 0; i < count; ++i)
      threads_.emplace_back([this, i, body] {
        while (!stops_) {
          body(i);
          ++rounds_;
        }
      });
  }
  ~Background() {
    stops_ = true;
    for (std::thread &thread : threads_)
      thread.join();
  }
  void wait_for_rounds(int count) const {
    for (const int before = rounds_; rounds_ < before + count;)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

private:
  std::atomic<bool> stops_{false};
  std::atomic<int> rounds_{0};
  std::vector<std::thread> threads_;
};

} // namespace

TEST_CASE("Eight threads compile and run different graphs at once, with the numbers of one") {
  const CacheFolder cache; // empty: several threads compile the same kernels, too
  const std::vector<Graph> graphs = make_graphs();
  std::vector<std::vector<std::string>> found(kThreads);
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      for (size_t i = 0; i < 2 * graphs.size(); ++i)
        found[thread].push_back(compile_and_run(graphs[(thread + i) % graphs.size()], cache));
    });
  for (std::thread &thread : threads)
    thread.join();
  std::vector<std::string> expected;
  for (const Graph &one : graphs)
    expected.push_back(compile_and_run(one, cache));
  for (size_t thread = 0; thread < kThreads; ++thread)
    for (size_t i = 0; i < found[thread].size(); ++i) {
      const std::string &one = expected[(thread + i) % graphs.size()];
      INFO("thread " << thread << ", graph " << (thread + i) % graphs.size() << ": "
                     << found[thread][i].substr(0, 200));
      CHECK((found[thread][i] == one));
    }
  CHECK(expected[0].size() == 31 * 4 * sizeof(float));
  CHECK(expected[1].size() == 77 * 9 * sizeof(float));
  CHECK(expected[2].size() == 6 * 5 * sizeof(float));
  CHECK(expected[3].size() == 40 * sizeof(float));
  CHECK(expected[4].size() == 1500 * 64 * sizeof(float));
  CHECK_THAT(expected[5], contains_text("error index 5 of input 'y' is not in [0, 5)"));
  CHECK_THAT(expected[6], contains_text("refused ") && contains_text("no_such_operator"));
  CHECK_THAT(expected[7], contains_text("refused ") && contains_text("mm"));
}

TEST_CASE("Memory of expressions does not wait until no thread compiles") {
  const std::string graph = make_graphs()[3].text;
  const auto check = [&](int number) {
    std::string other = graph; // sizes that no other compilation has
    const std::string limit = std::to_string(5000 + number);
    for (size_t at; (at = other.find("4096")) != std::string::npos;)
      other.replace(at, 4, limit);
    const char *report = nullptr;
    return tsc_api_check(other.data(), other.size(), "", R"({"device": "host"})", &report);
  };
  REQUIRE(check(0) == TSC_API_OK);
  const size_t first = tsc_api_expression_count();
  std::atomic<int> failures{0}, number{0};
  const Background others(3, [&](int) { failures += check(++number) != TSC_API_OK; });
  for (int i = 0; i < 20; ++i) {
    others.wait_for_rounds(3);
    CHECK(tsc_api_expression_count() == first);
  }
  CHECK(failures == 0);
}

TEST_CASE("A program that was compiled in one thread runs in another") {
  const CacheFolder cache;
  const std::vector<Graph> graphs = make_graphs();
  for (size_t i = 0; i < 5; ++i) {
    HostProgram program = compile_host(graphs[i].text, cache.options(graphs[i].more));
    REQUIRE(program);
    const std::string expected = run_host(program.get(), graphs[i].sizes);
    std::string found;
    std::thread([&] {
      found = run_host(program.get(), graphs[i].sizes);
      program.reset();
    }).join();
    CHECK((found == expected));
  }
}

TEST_CASE("Kernels of one cached library are not taken for another's") {
  const CacheFolder cache;
  const Graph one = make_graphs()[0];
  Graph other = one; // its kernel has the same name
  const size_t at = other.text.find("1.5");
  other.text.replace(at, 3, "2.5");
  const std::string one_result = compile_and_run(one, cache);
  const std::string other_result = compile_and_run(other, cache);
  REQUIRE((one_result != other_result));
  // The file of the first is closed while its library, which the second has too, stays.
  HostProgram first = compile_host(one.text, cache.options());
  const HostProgram second = compile_host(one.text, cache.options());
  REQUIRE(first);
  REQUIRE(second);
  first.reset();
  const HostProgram third = compile_host(other.text, cache.options());
  REQUIRE(third);
  CHECK((run_host(second.get(), one.sizes) == one_result));
  CHECK((run_host(third.get(), other.sizes) == other_result));
}

TEST_CASE("The child of a fork compiles, and runs what its parent compiled") {
  const CacheFolder cache;
  const std::vector<Graph> graphs = make_graphs();
  std::vector<HostProgram> programs;
  std::vector<std::string> expected;
  for (size_t i = 0; i < 5; ++i) { // the threads of all pools are there then
    programs.push_back(compile_host(graphs[i].text, cache.options(graphs[i].more)));
    REQUIRE(programs.back());
    expected.push_back(run_host(programs.back().get(), graphs[i].sizes));
  }
  const int status = status_of_child([&] {
    int wrong = 0;
    for (size_t i = 0; i < 5; ++i) {
      wrong += run_host(programs[i].get(), graphs[i].sizes) != expected[i];
      wrong += compile_and_run(graphs[i], cache) != expected[i];
    }
    programs.clear();
    {
      const CacheFolder empty; // compilers, too
      wrong += compile_and_run(graphs[0], empty) != expected[0];
    }
    std::exit(wrong);
  });
  CHECK(status == 0);
  for (size_t i = 0; i < 5; ++i)
    CHECK((run_host(programs[i].get(), graphs[i].sizes) == expected[i]));
}

TEST_CASE("A process forks while its threads compile and run") {
  const CacheFolder cache;
  const std::vector<Graph> graphs = make_graphs();
  std::vector<std::string> expected;
  for (const Graph &one : graphs)
    expected.push_back(compile_and_run(one, cache));
  std::atomic<int> wrong{0};
  const Background others(4, [&](int thread) {
    const size_t i = static_cast<size_t>(thread) + 1;
    wrong += compile_and_run(graphs[i], cache) != expected[i];
  });
  for (size_t round = 0; round < 10; ++round) {
    others.wait_for_rounds(1);
    const int status = status_of_child([&] {
      const size_t i = round % graphs.size();
      std::_Exit(compile_and_run(graphs[i], cache) != expected[i]);
    });
    INFO("round " << round);
    CHECK(status == 0);
  }
  CHECK(wrong == 0);
}

TEST_CASE("A process forks and ends while its threads multiply matrices with OpenBLAS's threads") {
  const CacheFolder cache;
  const std::string x = node("x");
  const Graph product = {
      graph(input("x", "[400, 400]") + call("a", "mm.default", x + ", " + x), "a"),
      {{400, 400}},
      ""};
  const HostProgram program = compile_host(product.text, cache.options());
  REQUIRE(program);
  const std::string expected = run_host(program.get(), product.sizes);
  std::atomic<int> wrong{0};
  std::vector<HostProgram> programs; // one a thread
  for (int i = 0; i < 3; ++i)
    programs.push_back(compile_host(product.text, cache.options()));
  const auto run = [&](int thread) {
    wrong += run_host(programs[static_cast<size_t>(thread)].get(), product.sizes) != expected;
  };
  {
    const Background others(3, run);
    for (int round = 0; round < 10; ++round) {
      others.wait_for_rounds(1);
      const int status =
          status_of_child([&] { std::_Exit(run_host(program.get(), product.sizes) != expected); });
      INFO("round " << round);
      CHECK(status == 0);
    }
  }
  CHECK(wrong == 0);
  for (int round = 0; round < 10; ++round) {
    const int status = status_of_child([&] {
      const Background *others = new Background(3, run);
      others->wait_for_rounds(1 + round % 3);
      std::exit(0);
    });
    INFO("round " << round);
    CHECK(status == 0);
  }
}

TEST_CASE("A process ends while its threads compile and run") {
  const CacheFolder cache;
  const std::vector<Graph> graphs = make_graphs();
  for (const Graph &one : graphs)
    compile_and_run(one, cache);
  for (int round = 0; round < 10; ++round) {
    const int status = status_of_child([&] {
      const Background *others = new Background(
          4, [&](int thread) { compile_and_run(graphs[static_cast<size_t>(thread) + 1], cache); });
      others->wait_for_rounds(round);
      std::exit(0);
    });
    INFO("round " << round);
    CHECK(status == 0);
  }
}

TEST_CASE("A process that ends takes its compilers and their files with it") {
  const CacheFolder cache, temporary;
  const SlowCompiler compiler(cache);
  const Graph one = make_graphs()[0];
  const int status = status_of_child([&] {
    setenv("TMPDIR", temporary.path().c_str(), 1);
    compiler.compile_in_thread(one, cache);
    std::exit(0);
  });
  CHECK(status == 0);
  CHECK(std::filesystem::is_empty(temporary.path()));
  pid_t process = 0;
  REQUIRE(std::ifstream(compiler.started) >> process);
  bool is_gone = false;
  for (int i = 0; i < 500 && !is_gone; ++i) { // whoever inherits it reaps it
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::string word, state;
    std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
    is_gone = !(stat >> word >> word >> state) || state == "Z" || state == "X";
  }
  CHECK(is_gone);
}

TEST_CASE("A fork that waited in vain leaves a child that says so in each call") {
  const CacheFolder cache;
  const SlowCompiler compiler(cache);
  const std::vector<Graph> graphs = make_graphs();
  const HostProgram program = compile_host(graphs[0].text, cache.options());
  REQUIRE(program);
  const std::string expected = run_host(program.get(), graphs[0].sizes);
  const int status = status_of_child([&] {
    compiler.compile_in_thread(graphs[3], cache);
    const int child = status_of_child([&] {
      TscApiProgram *made = nullptr;
      const std::string &text = graphs[1].text;
      int wrong = tsc_api_compile(text.data(), text.size(), "", "", &made) != TSC_API_DEVICE;
      wrong += std::strstr(tsc_api_error(), "TSC-R019: this process was forked while another "
                                            "thread was compiling or running a program") == nullptr;
      wrong += made != nullptr;
      wrong += tsc_api_run(program.get(), nullptr, nullptr, nullptr, nullptr) != TSC_API_DEVICE;
      tsc_api_destroy(program.get());
      std::exit(wrong);
    });
    std::exit(child + (run_host(program.get(), graphs[0].sizes) != expected));
  });
  CHECK(status == 0);
}
