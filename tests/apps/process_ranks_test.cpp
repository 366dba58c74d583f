// tsc run as several processes: what they compute, and what becomes of all where one fails.
#include "tsc_process.h"

#include "testing/catch.h"

#include <arpa/inet.h>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace tsc;
using testing::Outcome;
using testing::Workplace;

namespace {

std::string fsdp(const std::string &name, const std::string &part) {
  return std::string(TSC_SOURCE_DIR) + "/tests/cases/fsdp/" + name + "/" + part;
}

/// The arguments of a run of a recorded case.
std::string recorded(const std::string &name) {
  return "run " + fsdp(name, "graph.json") + " --inputs " + fsdp(name, "inputs.safetensors") +
         " --expect " + fsdp(name, "expected.safetensors") + " ";
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}
size_t count(const std::string &text, const std::string &part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

/// Processes that have `word` in their command line.
size_t processes_with(const std::string &word) {
  size_t found = 0;
  std::error_code error;
  for (const auto &entry : std::filesystem::directory_iterator("/proc", error)) {
    std::ifstream file(entry.path() / "cmdline", std::ios::binary);
    const std::string line((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    found += contains(line, word) && contains(line, "--collective-timeout") ? 1 : 0;
  }
  return found;
}

/// A port that nobody uses now.
class Port {
public:
  explicit Port(bool listens) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(bind(socket_, reinterpret_cast<sockaddr *>(&address), size) == 0);
    getsockname(socket_, reinterpret_cast<sockaddr *>(&address), &size);
    number_ = ntohs(address.sin_port);
    if (listens)
      REQUIRE(listen(socket_, 16) == 0);
    else
      release();
  }
  ~Port() { release(); }
  Port(const Port &) = delete;
  Port &operator=(const Port &) = delete;
  std::string number() const { return std::to_string(number_); }

private:
  int socket_ = -1;
  int number_ = 0;
  void release() {
    if (socket_ >= 0)
      close(socket_);
    socket_ = -1;
  }
};

/// What rank 0 (the command itself) and the others left.
struct Ranks {
  Outcome first;
  std::vector<std::string> errors; // stderr of all, rank 0's first
  std::vector<int> exit_codes;
  double seconds = 0;
};

/// Ranks that something else than tsc started, each with variables and arguments of its own.
Ranks run_ranks(Workplace &place, const std::vector<std::string> &variables,
                const std::vector<std::string> &arguments) {
  std::string script = "unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT\n";
  for (size_t rank = 1; rank < variables.size(); ++rank) {
    const std::string own = "rank_" + std::to_string(rank);
    script += "( env " + variables[rank] + " \"$0\" " + arguments[rank] + " > " + own + ".out 2> " +
              own + ".err; echo $? > " + own + ".code ) &\n";
  }
  script += "env " + variables[0] + " \"$0\" " + arguments[0] + "\ncode=$?\nwait\nexit $code\n#";
  const auto start = std::chrono::steady_clock::now();
  Ranks result;
  result.first = place.run_after(script, {});
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.errors.push_back(result.first.err);
  result.exit_codes.push_back(result.first.exit_code);
  for (size_t rank = 1; rank < variables.size(); ++rank) {
    const std::string own = place.path("rank_" + std::to_string(rank));
    result.errors.push_back(testing::read_text(own + ".err"));
    result.exit_codes.push_back(std::atoi(testing::read_text(own + ".code").c_str()));
  }
  return result;
}

std::vector<std::string> places(const std::string &port, size_t ranks) {
  std::vector<std::string> variables;
  for (size_t rank = 0; rank < ranks; ++rank)
    variables.push_back("RANK=" + std::to_string(rank) + " WORLD_SIZE=" + std::to_string(ranks) +
                        " MASTER_PORT=" + port);
  return variables;
}

/// tsc run --processes, words separated by spaces, after shell commands.
Outcome launch(const Workplace &place, const std::string &commands, const std::string &words) {
  return place.run_after(commands + "\nexec \"$0\" " + words + "\n#", {});
}

} // namespace

TEST_CASE("ranks that are processes compute what threads compute") {
  Workplace place;
  for (const std::string device : {"--device=reference", "--device=host"}) {
    const Outcome outcome =
        launch(place, "", recorded("uneven") + "--world-size=3 --processes " + device);
    INFO(device << "\n" << outcome.out << outcome.err);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.err == "");
    CHECK(count(outcome.out, ": agrees, ") == 12);
    CHECK(count(outcome.out, "device: ") == 1);
  }
  const std::string words = recorded("uneven") + "--world-size=3 --device=host --outputs=";
  REQUIRE(launch(place, "", words + "threads.safetensors").exit_code == 0);
  REQUIRE(launch(place, "", words + "processes.safetensors --processes").exit_code == 0);
  CHECK(testing::read_text(place.path("threads.safetensors")) ==
        testing::read_text(place.path("processes.safetensors")));
  const Outcome json = launch(place, "", words + "p.safetensors --processes --json");
  CHECK(count(json.out, "\"agrees\": true") == 12);
  CHECK(contains(json.out, "\"ranks\": 3"));
}

namespace {

/// Three all-gathers, each where its result is needed; three all-reduces and three reduce-scatters.
std::string many_collectives() {
  std::string nodes, results;
  const auto add = [&](const std::string &name, const std::string &target,
                       const std::string &arguments, const std::string &more = "") {
    nodes += R"({"name": ")" + name + R"(", "op": "call_function", "target": ")" + target +
             R"(", "args": [)" + arguments + "]" + more + "},\n";
  };
  const auto node = [](const std::string &name) { return R"({"node": ")" + name + "\"}"; };
  const auto collective = [&](const std::string &name, const std::string &target,
                              const std::string &of, const std::string &more) {
    add(name, "_c10d_functional." + target + ".default", node(of) + ", " + more);
    add(name + "_done", "_c10d_functional.wait_tensor.default", node(name));
    results += node(name + "_done") + ", ";
  };
  for (const auto &[name, sizes] :
       {std::pair{"a", "4, 3"}, std::pair{"b", "6"}, std::pair{"c", "2, 2, 2"},
        std::pair{"s0", "3"}, std::pair{"s1", "2, 2"}, std::pair{"s2", "5"}})
    nodes += std::string(R"({"name": ")") + name + R"(", "op": "placeholder", "val": {"dtype": )" +
             R"("float32", "size": [)" + sizes + "], \"device\": \"cpu\"}},\n";
  std::string last = "a";
  for (const std::string i : {"0", "1", "2"}) {
    add("cast" + i, "aten._to_copy.default", node("s" + i),
        R"(, "kwargs": {"dtype": {"dtype": "bfloat16"}})");
    collective("gather" + i, "all_gather_into_tensor", "cast" + i, R"(2, "0")");
    add("sum" + i, "aten.sum.default", node("gather" + i + "_done"));
    add("y" + i, "aten.mul.Tensor", node(last) + ", " + node("sum" + i));
    last = "y" + i;
  }
  for (const std::string name : {"a", "b", "c"}) {
    collective("all_" + name, "all_reduce", name, R"("sum", "0")");
    collective("part_" + name, "reduce_scatter_tensor", name, R"("avg", 2, "0")");
  }
  return R"({"format": "tsc-graph", "version": 1, "name": "many", "nodes": [)" + nodes +
         R"({"name": "output", "op": "output", "args": [[)" + results + node(last) + "]]}]}";
}

} // namespace

TEST_CASE("collectives that become one compute what each of them does") {
  Workplace place;
  const std::string graph = place.path("many.json");
  std::ofstream(graph) << many_collectives();
  const std::string words = "run " + graph + " --world-size=2 --device=";
  const Outcome apart = launch(place, "", words + "reference --outputs=apart.safetensors");
  INFO(apart.out << apart.err);
  REQUIRE(apart.exit_code == 0);
  const std::string joined = "--policy-option=bucket_bytes=1000";
  for (const std::string device : {"reference ", "host ", "host --processes "}) {
    const Outcome outcome = launch(
        place, "", words + device + "--expect=apart.safetensors --policy-option=bucket_bytes=1000");
    INFO(outcome.out << outcome.err);
    CHECK(outcome.exit_code == 0);
    CHECK(count(outcome.out, ": agrees, ") == 20);
  }
  const Outcome all = launch(place, "", "explain " + graph + " --arch=sm_90 " + joined);
  for (const char *text : {"3 times all_gather_into_tensor become one of 48 bytes",
                           "3 times all_reduce become one of 104 bytes",
                           "3 times reduce_scatter_tensor become one of 104 bytes"})
    CHECK(contains(all.out, text));
  // Only two fit, and then none.
  const auto explain = [&](const std::string &bytes) {
    return launch(place, "",
                  "explain " + graph + " --arch=sm_90 --policy-option=bucket_bytes=" + bytes)
        .out;
  };
  CHECK(contains(explain("72"), "2 times all_reduce become one of 72 bytes"));
  CHECK(!contains(explain("20"), " become one of "));
  CHECK(!contains(explain("0"), " become one of "));
}

TEST_CASE("ranks may have graphs of their own that exchange the same") {
  Workplace place;
  const auto write = [&](const std::string &name, const std::string &rows,
                         const std::string &nodes) {
    std::ofstream(place.path(name))
        << R"({"format": "tsc-graph", "version": 1, "name": ")" << name << R"(", "nodes": [)"
        << R"({"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": [)" << rows
        << R"(], "device": "cpu"}},)" << nodes
        << R"({"name": "done", "op": "call_function", "target": )"
        << R"("_c10d_functional.wait_tensor.default", "args": [{"node": "all"}]},)"
        << R"({"name": "output", "op": "output", "args": [[{"node": "done"}]]}]})";
  };
  const std::string call = R"(", "op": "call_function", "target": ")",
                    gather = "_c10d_functional.all_gather_into_tensor.default";
  write("graph_0.json", "3",
        R"({"name": "all)" + call + gather + R"(", "args": [{"node": "x"}, 2, "0"]},)");
  write("graph_1.json", "1",
        R"({"name": "filled)" + call +
            R"(aten.constant_pad_nd.default", "args": [{"node": "x"}, [0, 2], 0.0]},)" +
            R"({"name": "all)" + call + gather + R"(", "args": [{"node": "filled"}, 2, "0"]},)");
  const std::string words = "run " + place.path("graph_{rank}.json") + " --world-size=2 ";
  for (const std::string device : {"reference", "host"}) {
    const Outcome outcome = launch(place, "", words + "--processes --device=" + device);
    INFO(outcome.out << outcome.err);
    CHECK(outcome.exit_code == 0);
    const std::string first = "rank_0/output_0", second = "rank_1/output_0";
    const size_t at = outcome.out.find(first), other = outcome.out.find(second);
    REQUIRE(at != std::string::npos);
    REQUIRE(other != std::string::npos);
    CHECK(outcome.out.substr(at + first.size(), 40) ==
          outcome.out.substr(other + first.size(), 40));
  }
  const Outcome threads = launch(place, "", words + "--device=host");
  CHECK(threads.exit_code == 2);
  CHECK(contains(threads.err, "error TSC-C011: ranks that have graphs of their own are processes"));
  write("graph_1.json", "1",
        R"({"name": "all)" + call +
            R"(_c10d_functional.all_reduce.default", "args": [{"node": "x"}, "sum", "0"]},)");
  const Outcome differs =
      launch(place, "", words + "--processes --device=reference --collective-timeout=5");
  INFO(differs.out << differs.err);
  CHECK(differs.exit_code == 3);
  CHECK(contains(differs.err, "error TSC-R043"));
}

TEST_CASE("every rank reads all of standard input") {
  Workplace place;
  const std::string words =
      "run " + fsdp("sum", "graph.json") + " --expect " + fsdp("sum", "expected.safetensors") +
      " --inputs - --world-size=2 --device=host --processes < " + fsdp("sum", "inputs.safetensors");
  const Outcome outcome = launch(place, "", words);
  INFO(outcome.out << outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(count(outcome.out, ": agrees, ") == 2 * 8); // of each rank
}

TEST_CASE("ranks that another program starts find each other") {
  Workplace place;
  const Port port(false);
  const std::string words = recorded("sum") + "--device=host --outputs y.safetensors";
  const Ranks ranks = run_ranks(place, places(port.number(), 2), {words, words});
  INFO(ranks.errors[0] << ranks.errors[1]);
  CHECK(ranks.exit_codes == std::vector<int>{0, 0});
  CHECK(count(ranks.first.out, "rank_0/output_0: agrees") == 1);
  CHECK(tensor::read_tensors(place.path("y.rank_0.safetensors")).count("rank_0/output_0") == 1);
  CHECK(tensor::read_tensors(place.path("y.rank_1.safetensors")).count("rank_1/output_0") == 1);
}

TEST_CASE("a rank that fails ends all of them with a code") {
  Workplace place;
  const std::string words =
      recorded("uneven") + "--world-size=3 --processes --device=reference --collective-timeout=1";
  struct Fault {
    const char *fault, *code, *text;
  };
  const Fault faults[] = {
      {"rank=1,collective=1,at=before,do=kill", "TSC-R040",
       "rank 1 ended without a word (signal 9: Killed)"},
      {"rank=1,collective=2,at=before,do=kill", "TSC-R040", "in collective 2, step "},
      {"rank=2,collective=2,at=within,do=kill", "TSC-R040", "rank 2 ended without a word"},
      {"rank=0,collective=2,at=after,do=kill", "TSC-R040", "rank 0 ended without a word"},
      {"rank=1,collective=1,at=before,do=exit", "TSC-R040",
       "rank 1 ended without a word (exit code 0)"},
      {"rank=1,collective=2,at=before,do=stop", "TSC-R041", "has not ended within 1 s: rank "},
      {"rank=1,collective=1,at=before,do=1500", "TSC-R041", "ranks 0, 2 have come and rank 1 not"}};
  for (const Fault &fault : faults) {
    const auto start = std::chrono::steady_clock::now();
    const Outcome outcome = launch(place, std::string("export TSC_FAULT=") + fault.fault, words);
    INFO(fault.fault << "\n" << outcome.out << outcome.err);
    CHECK(outcome.exit_code == 5);
    CHECK(outcome.out == "");
    CHECK(contains(outcome.err, fault.code));
    CHECK(contains(outcome.err, fault.text));
    CHECK(contains(outcome.err, " of 3: "));
    CHECK(contains(outcome.err, "error TSC-R050: rank") == contains(fault.fault, "do=kill"));
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(14));
  }
  CHECK(processes_with(place.path("")) == 0);
  const Outcome slow =
      launch(place, "export TSC_FAULT=rank=1,collective=1,at=before,do=300", words);
  CHECK(slow.exit_code == 0);
}

TEST_CASE("ranks that do not fit each other are told apart before they communicate") {
  Workplace place;
  const Port port(false);
  const std::string timeout = " --device=reference --collective-timeout=2";
  const std::string bf16 = recorded("bf16") + timeout, sum = recorded("sum") + timeout;
  struct Fault {
    std::vector<std::string> variables, arguments;
    const char *code, *text;
  };
  const std::vector<std::string> two = places(port.number(), 2);
  const std::string one_of = " MASTER_PORT=" + port.number();
  const Fault faults[] = {
      {two,
       {bf16, sum},
       "TSC-R043",
       "rank 1 and rank 0 differ in graph: fsdp_sum there, fsdp_bf16 on rank 0"},
      {two,
       {sum, sum + " --group=0=1,0"},
       "TSC-R043",
       "differ in groups: 0=1,0 of 2 there, of 2 on rank 0"},
      {two, {sum, sum + " --device=host"}, "TSC-C025", ""},
      {{two[0], "RANK=1 WORLD_SIZE=3" + one_of},
       {sum, recorded("uneven") + timeout},
       "TSC-R047",
       "rank 1 is one of 3 ranks, and rank 0 one of 2"},
      {{two[0], two[0]}, {sum, sum}, "TSC-R04", ""}};
  for (const Fault &fault : faults) {
    const Ranks ranks = run_ranks(place, fault.variables, fault.arguments);
    INFO(fault.code << "\n" << ranks.errors[0] << ranks.errors[1]);
    CHECK(ranks.exit_codes[0] != 0);
    CHECK(ranks.exit_codes[1] != 0);
    CHECK((contains(ranks.errors[0], fault.code) || contains(ranks.errors[1], fault.code)));
    CHECK(contains(ranks.errors[0] + ranks.errors[1], fault.text));
    CHECK(contains(ranks.errors[0], "error TSC-"));
    CHECK(contains(ranks.errors[1], "error TSC-"));
    CHECK(ranks.seconds < 10);
  }
}

TEST_CASE("the others are told what a rank that fails says") {
  Workplace place;
  const Port port(false);
  const std::string words = recorded("sum") + "--device=host --no-cache --collective-timeout=5";
  std::vector<std::string> variables = places(port.number(), 2);
  variables[1] += " PATH=/nowhere CXX=";
  const Ranks ranks = run_ranks(place, variables, {words, words});
  INFO(ranks.errors[0] << ranks.errors[1]);
  CHECK(ranks.exit_codes == std::vector<int>{5, 5});
  CHECK(contains(ranks.errors[1], "error TSC-R010: no C++ compiler was found"));
  CHECK(contains(ranks.errors[0], "error TSC-R051: rank 0 of 2: rank 1 failed: error TSC-R010"));
}

TEST_CASE("a store that cannot be made or found is an error") {
  Workplace place;
  const Port busy(true), unused(false);
  const std::string words =
      recorded("sum") + "--device=reference --collective-timeout=0.5 --world-size=2";
  const auto run = [&](const std::string &variables) {
    return launch(place, "export " + variables, words);
  };
  const Outcome taken = run("RANK=0 WORLD_SIZE=2 MASTER_PORT=" + busy.number());
  CHECK(taken.exit_code == 5);
  CHECK(contains(taken.err, "error TSC-R044: rank 0: the store cannot listen on port " +
                                busy.number() + ": Address already in use"));
  const Outcome stranger = run("RANK=1 WORLD_SIZE=2 MASTER_PORT=" + busy.number());
  CHECK(contains(stranger.err, "error TSC-R046: rank 1: at 127.0.0.1:" + busy.number() +
                                   " is no store of tsc: it does not answer as one"));
  const Outcome nobody = run("RANK=1 WORLD_SIZE=2 MASTER_PORT=" + unused.number());
  CHECK(contains(nobody.err, "error TSC-R045: rank 1: the store of rank 0 at 127.0.0.1:" +
                                 unused.number() + " cannot be reached: Connection refused"));
  const Outcome alone = run("RANK=0 WORLD_SIZE=2 MASTER_PORT=" + unused.number());
  CHECK(contains(alone.err, "error TSC-R045: rank 0 of 2: rank 1 has not come within the time"));
}

TEST_CASE("what the environment and the options say of ranks is checked") {
  Workplace place;
  const auto error = [&](const std::string &variables, const std::string &words) {
    const Outcome outcome = launch(place, variables.empty() ? "" : "export " + variables,
                                   recorded("sum") + "--device=reference " + words);
    CHECK(outcome.exit_code == 2);
    return outcome.err;
  };
  CHECK(contains(error("RANK=0", ""), "error TSC-C050: RANK is set, and WORLD_SIZE is not"));
  CHECK(contains(error("RANK=2 WORLD_SIZE=2", ""),
                 "error TSC-C050: RANK=2 is no rank of WORLD_SIZE=2"));
  CHECK(contains(error("RANK=x WORLD_SIZE=2", ""), "error TSC-C016: RANK is 'x'"));
  CHECK(contains(error("RANK=0 WORLD_SIZE=2", "--world-size=4"),
                 "error TSC-C053: --world-size is 4, and this is one of 2 ranks"));
  CHECK(contains(error("RANK=0 WORLD_SIZE=3", ""),
                 "error TSC-C011: the graph communicates among 2 ranks, and --world-size is 3"));
  CHECK(contains(error("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=3", ""), "TSC-C011"));
  CHECK(contains(error("SLURM_PROCID=0 SLURM_NTASKS=1", ""), // one task is no rank
                 "error TSC-C011: the graph communicates among 2 ranks, and --world-size is not"));
  CHECK(contains(error("", "--world-size=2 --group=0=0,1/1"),
                 "error TSC-C051: --group '0=0,1/1' has rank 1 twice"));
  CHECK(contains(error("", "--world-size=2 --group=0=0"), "leaves out rank 1"));
  CHECK(contains(error("", "--world-size=4 --mesh=a=2,b=3"),
                 "error TSC-C051: --mesh 'a=2,b=3' does not have 4 ranks"));
  CHECK(contains(error("", "--world-size=4 --mesh=a=2,b=2"),
                 "error TSC-C052: the group '0' has 2 ranks in the graph, and nothing says which "
                 "of the 4 of the run"));
  CHECK(contains(error("", "--world-size=2 --mesh=a=2"),
                 "error TSC-C052: the graph has no group 'a'\n  next: its groups are '0'"));
}

TEST_CASE("signals end all ranks") {
  Workplace place;
  // Under a name of its own: other tests run the same graph beside this one.
  const std::string graph = place.path("graph_of_signals.json");
  std::filesystem::copy_file(fsdp("sum", "graph.json"), graph);
  const std::string words =
      "run " + graph + " --inputs " + fsdp("sum", "inputs.safetensors") +
      " --device=reference --world-size=2 --processes --collective-timeout=60";
  for (const char *signal : {"TERM", "HUP", "KILL"}) {
    const Outcome outcome =
        place.run_after("export TSC_FAULT=rank=1,collective=1,at=before,do=stop\n\"$0\" " + words +
                            " &\nsleep 0.5\nkill -" + signal + " $!\nwait $!\nexit $?\n#",
                        {});
    INFO(signal << "\n" << outcome.out << outcome.err);
    CHECK(outcome.exit_code > 128);
    for (int i = 0; i < 100 && processes_with(graph) > 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(processes_with(graph) == 0);
  }
}

TEST_CASE("ranks on GPUs that are not there are an error before anything starts") {
  Workplace place;
  const Outcome outcome = launch(
      place, "export CUDA_VISIBLE_DEVICES=", recorded("sum") + "--device=cuda --world-size=2");
  CHECK(outcome.exit_code == 5);
  CHECK(contains(outcome.err, "error TSC-R020: CUDA cannot be used: "));
}
