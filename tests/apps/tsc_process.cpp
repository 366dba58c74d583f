#include "tsc_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

extern char **environ;

namespace tsc::testing {

Workplace::Workplace() {
  std::string name = (std::filesystem::temp_directory_path() / "tsc_apps_XXXXXX").string();
  if (!mkdtemp(name.data()))
    throw std::runtime_error("no temporary folder");
  folder_ = name;
}

Workplace::~Workplace() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string Workplace::file(const std::string &name, const std::string &text) const {
  std::ofstream(path(name), std::ios::binary) << text;
  return path(name);
}

std::string Workplace::tensors(const std::string &name, const tensor::TensorMap &tensors) const {
  tensor::write_tensors(path(name), tensors);
  return path(name);
}

Outcome Workplace::run(const std::vector<std::string> &arguments) const {
  std::vector<std::string> words = {TSC_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return spawn(std::move(words), path(".stderr"));
}

Outcome Workplace::run_after(const std::string &commands,
                             const std::vector<std::string> &arguments) const {
  std::vector<std::string> words = {"/bin/sh", "-c", commands + "\nexec \"$0\" \"$@\"", TSC_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return spawn(std::move(words), path(".stderr"));
}

Outcome Workplace::run_on_terminal(const std::vector<std::string> &arguments) const {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0)
    throw std::runtime_error("no terminal can be made");
  const int other_end = open(ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC); // keeps it alive
  std::vector<std::string> words = {TSC_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  Outcome outcome = spawn(std::move(words), ptsname(terminal));
  fcntl(terminal, F_SETFL, O_NONBLOCK);
  char buffer[4096];
  outcome.err.clear();
  for (ssize_t count = 0; (count = read(terminal, buffer, sizeof buffer)) > 0;)
    outcome.err.append(buffer, static_cast<size_t>(count));
  close(other_end);
  close(terminal);
  return outcome;
}

Outcome Workplace::spawn(std::vector<std::string> command, const std::string &err) const {
  std::vector<std::string> words = {"/usr/bin/env", "-C",      folder_,
                                    "-u",           "TSC_LOG", "XDG_CACHE_HOME=" + path("cache")};
  words.insert(words.end(), command.begin(), command.end());
  std::vector<char *> pointers;
  for (std::string &word : words)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);

  const std::string out = path(".stdout");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY, 0600);
  pid_t process = 0;
  int failed = posix_spawn(&process, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed)
    throw std::runtime_error(std::string("tsc does not start: ") + std::strerror(failed));
  int status = 0;
  waitpid(process, &status, 0);
  const bool is_file = std::filesystem::is_regular_file(err);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_text(out),
          is_file ? read_text(err) : ""};
}

std::string linear_graph() {
  return R"({"format": "tsc-graph", "version": 1, "name": "linear",
    "nodes": [
      {"name": "w", "op": "placeholder", "val": {"dtype": "float32", "size": [3, 4]}},
      {"name": "b", "op": "placeholder", "val": {"dtype": "float32", "size": [3]}},
      {"name": "x", "op": "placeholder", "val": {"dtype": "float32", "size": [2, 4]}},
      {"name": "y", "op": "call_function", "target": "aten.linear.default",
       "args": [{"node": "x"}, {"node": "w"}, {"node": "b"}]},
      {"name": "z", "op": "call_function", "target": "aten.relu.default", "args": [{"node": "y"}]},
      {"name": "output", "op": "output", "args": [[{"node": "z"}]]}],
    "signature": {
      "inputs": [{"node": "w", "kind": "parameter", "target": "fc.weight"},
                 {"node": "b", "kind": "parameter", "target": "fc.bias"},
                 {"node": "x", "kind": "user"}],
      "outputs": [{"kind": "user", "value": {"node": "z"}}]}})";
}

std::string sample(const std::string &name) {
  return std::string(TSC_SOURCE_DIR) + "/graphs/" + name;
}

std::string read_text(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

tensor::HostTensor ramp(std::vector<int64_t> sizes, double first, double step) {
  tensor::HostTensor tensor(tensor::DType::f32, std::move(sizes));
  for (int64_t i = 0; i < tensor.numel(); ++i)
    tensor.set_double(i, first + static_cast<double>(i) * step);
  return tensor;
}

} // namespace tsc::testing
