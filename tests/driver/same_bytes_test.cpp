// Same graph, same bytes: nothing that differs between two compilations (addresses, time, what was
// compiled before) reaches a program, and neither does a `val` that the shape rules give as well.
// scripts/compare_outputs does the same for two builds of tsc.
#include "driver/compile.h"
#include "driver/operators_folder.h"
#include "emit/emit.h"
#include "graph/read.h"
#include "temporary_folder.h"
#include "testing/catch.h"

#include <algorithm>
#include <map>

using namespace tsc;

namespace {

/// Every sample graph, relative to graphs/, in name order.
std::vector<std::string> graph_files() {
  const std::filesystem::path root = std::filesystem::path(TSC_SOURCE_DIR) / "graphs";
  std::vector<std::string> files;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(root))
    if ((entry.path().extension() == ".json" || entry.path().extension() == ".pt2") &&
        entry.path().parent_path().filename() != "operators") // rows of custom operators
      files.push_back(std::filesystem::relative(entry.path(), root).string());
  std::sort(files.begin(), files.end());
  REQUIRE(files.size() >= 12);
  return files;
}

graph::Graph read(const std::string &file) {
  return graph::read_graph(std::string(TSC_SOURCE_DIR) + "/graphs/" + file);
}

driver::Compilation compile(graph::Graph graph, const std::string &policy) {
  driver::CompileOptions options;
  options.policy = policy;
  options.operators =
      driver::read_operators(std::string(TSC_SOURCE_DIR) + "/graphs/custom_operators/operators");
  return driver::compile(std::move(graph), options);
}

/// Contents by path within `folder`.
std::map<std::string, std::string> contents(const std::filesystem::path &folder) {
  std::map<std::string, std::string> files;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      files[std::filesystem::relative(entry.path(), folder).string()] = read_text(entry.path());
  return files;
}

std::map<std::string, std::string> compile_to_folder(const std::string &file,
                                                     const std::string &policy) {
  TemporaryFolder temporary;
  const driver::Compilation compilation = compile(read(file), policy);
  emit::EmitOptions options;
  options.weights = &compilation.graph.weights;
  const std::string folder = (temporary.path / "out").string();
  emit::emit(compilation.program, folder, options);
  return contents(folder);
}

/// The first place where two texts differ, with what stands around it: "" if they are equal. (A
/// failing CHECK on the texts themselves would print megabytes.)
std::string difference(const std::string &a, const std::string &b) {
  if (a == b)
    return "";
  const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const size_t at = static_cast<size_t>(in_a - a.begin());
  const size_t from = at < 60 ? 0 : at - 60;
  return "at byte " + std::to_string(at) + ":\n" + a.substr(from, 120) + "\n---\n" +
         b.substr(from, 120);
}

/// Removes `val` from every call, subgraphs' included; gives how many had one.
size_t remove_values(graph::Graph &graph) {
  size_t removed = 0;
  std::vector<graph::Graph *> pending = {&graph};
  while (!pending.empty()) {
    graph::Graph *current = pending.back();
    pending.pop_back();
    for (graph::Node &node : current->nodes)
      if (node.kind == graph::NodeKind::call_function && node.value) {
        node.value.reset();
        ++removed;
      }
    for (auto &[name, subgraph] : current->subgraphs)
      pending.push_back(&subgraph);
  }
  return removed;
}

} // namespace

TEST_CASE("compiling a graph twice writes the same bytes") {
  for (const char *policy : {"default", "inductor-2.5"})
    for (const std::string &file : graph_files()) {
      INFO(file << ", " << policy);
      const auto first = compile_to_folder(file, policy);
      const auto second = compile_to_folder(file, policy);
      REQUIRE(first.count("program.json") == 1);
      CHECK(first.size() == second.size());
      for (const auto &[name, text] : first) {
        INFO(name);
        REQUIRE(second.count(name) == 1);
        CHECK(difference(text, second.at(name)) == "");
      }
    }
}

TEST_CASE("a graph whose calls have no val compiles to the same program") {
  size_t removed = 0;
  for (const std::string &file : graph_files()) {
    INFO(file);
    graph::Graph bare = read(file);
    removed += remove_values(bare);
    const driver::Compilation with = compile(read(file), "default");
    const driver::Compilation without = compile(std::move(bare), "default");
    CHECK(difference(program::to_json(with.program), program::to_json(without.program)) == "");
  }
  CHECK(removed > 500); // gpt2 alone has 590 nodes
}
