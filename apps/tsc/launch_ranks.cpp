#include "launch_ranks.h"

#include "ranks/launcher.h"
#include "runtime/cuda_ranks.h"
#include "runtime/process.h"
#include "support/diagnostic.h"
#include "support/standard_input.h"
#include "support/text.h"
#include "tensor/host_tensor.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>

namespace tsc::app {
namespace {

using nlohmann::json;
using ranks::LaunchedRank;

constexpr const char *kFolder = "TSC_LAUNCH_FOLDER";

/// This command as it was called, the program by its path.
std::vector<std::string> own_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::string> words = support::split(text, '\0');
  if (!words.empty() && words.back().empty())
    words.pop_back();
  words[0] = std::filesystem::read_symlink("/proc/self/exe").string();
  return words;
}

/// Lines that rank 0, whose are printed already, does not have.
void print_messages(const std::vector<LaunchedRank> &ranks) {
  std::set<std::string> known;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (const std::string &line : support::split(ranks[rank].err, '\n'))
      if (known.insert(line).second && rank > 0 && !line.empty())
        std::fprintf(stderr, "[rank %zu] %s\n", rank, line.c_str());
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].signal == 0)
      continue;
    const support::Diagnostic diagnostic{
        "TSC-R050",
        "rank " + std::to_string(rank) + " was ended by signal " +
            std::to_string(ranks[rank].signal) + " (" + strsignal(ranks[rank].signal) + ")" +
            (ranks[rank].was_ended ? ", because another rank failed" : ""),
        "",
        "",
        "",
        "",
        "see what the other ranks say, and whether memory ran out"};
    std::fprintf(stderr, "%s\n", support::to_string(diagnostic).c_str());
  }
}

int exit_code_of(const std::vector<LaunchedRank> &ranks) {
  for (const LaunchedRank &rank : ranks)
    if (rank.exit_code != 0 && rank.signal == 0)
      return rank.exit_code;
  const bool all_ended = std::all_of(ranks.begin(), ranks.end(),
                                     [](const LaunchedRank &rank) { return rank.signal == 0; });
  return static_cast<int>(all_ended ? support::ExitCode::ok : support::ExitCode::device);
}

/// Rank 0's report with the comparisons of all.
std::string merged_json(const std::vector<LaunchedRank> &ranks) {
  json merged = json::parse(ranks[0].out);
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    const json own = json::parse(ranks[rank].out);
    for (const json &comparison : own["comparisons"])
      merged["comparisons"].push_back(comparison);
  }
  merged["ranks"] = ranks.size();
  return merged.dump(2) + "\n";
}

void print_results(const std::vector<LaunchedRank> &ranks, const LaunchRequest &request,
                   int exit_code) {
  const bool differs = exit_code == static_cast<int>(support::ExitCode::numbers_differ);
  std::FILE *stream = request.outputs == "-" ? stderr : stdout;
  if (request.json && (exit_code == 0 || differs)) {
    std::fputs(merged_json(ranks).c_str(), stream);
    return;
  }
  for (const LaunchedRank &rank : ranks) {
    if (request.json && rank.exit_code != exit_code)
      continue;
    std::fputs(rank.out.c_str(), stream);
    if (request.json)
      return; // the first problem, as one object
  }
}

/// Standard input as a file in `folder`, as each rank is to read all of it.
std::string write_input(const std::string &folder) {
  std::string path = folder + "/input";
  std::ofstream file(path, std::ios::binary);
  file << *support::standard_input();
  file.close();
  if (!file)
    throw support::UserError(support::ExitCode::device,
                             {.code = "TSC-R014",
                              .message = "standard input cannot be written aside for the ranks",
                              .file = path,
                              .next_step = "see whether the disk is full, or give a file"});
  return path;
}

void merge_outputs(const LaunchRequest &request) {
  tensor::TensorMap all;
  for (int64_t rank = 0; rank < request.ranks; ++rank)
    for (auto &[name, tensor] : tensor::read_tensors(outputs_of_launched_rank(rank)))
      all.emplace(name, tensor);
  tensor::write_tensors(request.outputs, all);
}

} // namespace

std::string outputs_of_launched_rank(int64_t rank) {
  const char *folder = std::getenv(kFolder);
  return folder == nullptr || *folder == '\0'
             ? ""
             : std::string(folder) + "/rank_" + std::to_string(rank) + ".safetensors";
}

int launch_ranks(const LaunchRequest &request) {
  if (request.device == "cuda")
    runtime::need_cuda_device(request.ranks - 1, request.ranks - 1);
  std::optional<runtime::TemporaryFolder> folder;
  if (!request.outputs.empty() || request.reads_input)
    setenv(kFolder, folder.emplace().path().c_str(), 1);
  const std::vector<std::string> command = own_command();
  ranks::LaunchOptions options;
  options.ranks = request.ranks;
  options.arguments = [&](int64_t) { return command; };
  if (request.reads_input)
    options.input = write_input(folder->path());
  const std::vector<LaunchedRank> results = ranks::launch(options);
  print_messages(results);
  const int exit_code = exit_code_of(results);
  const bool has_outputs =
      exit_code == 0 || exit_code == static_cast<int>(support::ExitCode::numbers_differ);
  if (!request.outputs.empty() && has_outputs)
    merge_outputs(request);
  print_results(results, request, exit_code);
  return exit_code;
}

} // namespace tsc::app
