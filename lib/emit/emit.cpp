#include "emit/emit.h"

#include "emit/embedded_files.h"
#include "emit/folder_writer.h"
#include "emit/kernel_files.h"
#include "emit/model_name.h"
#include "emit/model_source.h"
#include "emit/package.h"
#include "emit/readme.h"
#include "support/diagnostic.h"
#include "tensor/mapped_file.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>
#include <sys/stat.h>
#include <thread>

namespace tsc::emit {
namespace {

namespace fs = std::filesystem;
using support::Diagnostic;
using support::ExitCode;
using support::UserError;

constexpr const char *kProgramFile = "program.json";
constexpr const char *kWeightsFile = "weights.safetensors";
/// program.json and the list of files begin with their format: that much is read to recognize
/// them.
constexpr size_t kRecognizedBytes = 64;

/// The file of plan number `plan`; the first is the folder's program.json.
std::string program_file(size_t plan, const program::Program &program) {
  return plan == 0 ? std::string(kProgramFile) : "program_" + program.archs.at(0) + ".json";
}

/// The weights that the plans use; nothing if they have none or none were given.
tensor::TensorMap used_weights(std::span<const program::Program> plans,
                               const tensor::TensorMap *weights) {
  tensor::TensorMap used;
  if (weights == nullptr || weights->empty())
    return used;
  std::vector<Diagnostic> problems;
  std::set<std::string> missing;
  for (const program::Program &program : plans)
    for (const program::Buffer &buffer : program.buffers) {
      if (buffer.role != program::Role::weight)
        continue;
      auto found = weights->find(buffer.weight);
      if (found != weights->end())
        used.insert(*found);
      else if (missing.insert(buffer.weight).second)
        problems.push_back({"TSC-E003", "weight \"" + buffer.weight + "\" is missing", "", "",
                            buffer.name, "", "give a file that has every weight of the graph"});
    }
  if (!problems.empty())
    throw UserError(ExitCode::bad_input, std::move(problems));
  return used;
}

/// What a caller sees of a program, as text.
std::string signature_of(const program::Program &program) {
  program::Program seen;
  seen.symbols = program.symbols;
  std::string names;
  for (const program::InputInfo &input : program.inputs) {
    seen.buffers.push_back(program.buffers[input.buffer]);
    names += input.name + (input.mutated ? "!," : ",");
  }
  for (const program::OutputInfo &output : program.outputs) {
    seen.outputs.push_back(output);
    seen.outputs.back().buffer = std::min<int64_t>(output.buffer, 0);
  }
  return names + program::to_json(seen);
}

void require_one_signature(std::span<const program::Program> plans) {
  support::require(!plans.empty(), "emit", "no program is given");
  const std::string first = signature_of(plans[0]);
  for (const program::Program &plan : plans.subspan(1))
    support::require(signature_of(plan) == first, "emit",
                     "plans of two architectures have two signatures");
}

/// A file's bytes; nothing if it is none that can be read.
std::optional<std::string> text_of(const fs::path &path) {
  try {
    return std::string(tensor::MappedFile::open(path.string())->bytes());
  } catch (const UserError &) {
    return std::nullopt;
  }
}

/// The first bytes of a file.
std::string head_of(const fs::path &path) {
  try {
    return std::string(
        tensor::MappedFile::open(path.string())->bytes().substr(0, kRecognizedBytes));
  } catch (const UserError &) {
    return "";
  }
}

/// Which list a folder has: another one after each replacement.
struct Identity {
  struct stat status = {};
  bool exists = false;
  explicit Identity(const std::string &folder)
      : exists(stat((fs::path(folder) / kFileList).c_str(), &status) == 0) {}
  bool operator==(const Identity &other) const {
    const auto &a = status, &b = other.status;
    return exists == other.exists && a.st_dev == b.st_dev && a.st_ino == b.st_ino &&
           a.st_ctim.tv_sec == b.st_ctim.tv_sec && a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
  }
};

/// Every file that the list names must be there. A folder without a list is one of an older tsc, or
/// a program alone.
void check_files(const std::string &folder) {
  std::istringstream list(text_of(fs::path(folder) / kFileList).value_or(""));
  std::string name;
  if (!std::getline(list, name)) // the first line says what the file is
    return;
  bool ends = name == "tsc-folder 1";
  std::vector<Diagnostic> problems;
  std::error_code error;
  const auto add = [&](const std::string &what) {
    problems.push_back({"TSC-E005", "the folder lacks " + what, folder, "", "", "",
                        "copy the whole folder, or write it again with tsc compile"});
  };
  while (std::getline(list, name))
    if (name == "end")
      ends = true;
    else if (!fs::exists(fs::path(folder) / name, error))
      add(name);
  if (!ends)
    add("the end of " + std::string(kFileList));
  if (!problems.empty())
    throw UserError(ExitCode::bad_input, std::move(problems));
}

} // namespace

void emit(std::span<const program::Program> given, const std::string &folder,
          const EmitOptions &options) {
  require_one_signature(given);
  const std::vector<program::Program> plans = name_apart(given);
  tensor::TensorMap weights = used_weights(plans, options.weights);
  FolderWriter writer(folder);
  for (size_t plan = 0; plan < plans.size(); ++plan)
    writer.write(program_file(plan, plans[plan]), program::to_json(plans[plan]));
  writer.write("model.cpp", model_source(plans));
  const std::string name = model_name(plans.front().name);
  writer.write(name + "_model.h", model_header(name));
  writer.write("exports.map", exports(name));
  writer.write("README.md", readme(plans, !weights.empty()));
  write_kernels(plans, writer);
  for (const EmbeddedFile &file : embedded_files())
    writer.write(std::string(file.name), file.text);
  if (!weights.empty())
    tensor::write_tensors(writer.add(kWeightsFile), weights);
  tensor::check_files_unchanged();
  writer.commit();
}

bool is_emitted(const std::string &path) { return is_package(path) || is_emitted_folder(path); }

bool is_emitted_folder(const std::string &path) {
  return head_of(fs::path(path) / kFileList).rfind("tsc-folder ", 0) == 0 ||
         head_of(fs::path(path) / kProgramFile).find("\"format\": \"tsc-program\"") !=
             std::string::npos;
}

std::vector<program::Program> read_emitted_plans(const std::string &folder) {
  check_files(folder);
  std::vector<std::string> names = {kProgramFile};
  std::istringstream list(text_of(fs::path(folder) / kFileList).value_or(""));
  for (std::string name; std::getline(list, name);)
    if (name.rfind("program_", 0) == 0 && fs::path(name).extension() == ".json")
      names.push_back(name);
  std::vector<program::Program> plans;
  for (const std::string &name : names) {
    const std::string path = (fs::path(folder) / name).string();
    const std::optional<std::string> text = text_of(path);
    if (!text || text->empty())
      throw UserError(ExitCode::bad_input,
                      Diagnostic{"TSC-E004", "the program cannot be read", path, "", "", "",
                                 "give a folder that tsc compile wrote"});
    plans.push_back(program::from_json(*text, path));
  }
  return plans;
}

tensor::TensorMap read_emitted_weights(const std::string &folder) {
  fs::path path = fs::path(folder) / kWeightsFile;
  std::error_code error;
  if (!fs::exists(path, error))
    return {};
  return tensor::read_tensors(path.string());
}

EmittedFolder read_emitted_folder(const std::string &folder) {
  if (is_package(folder)) {
    Package package = read_package(folder);
    return {std::move(package.plans), std::move(package.weights), std::move(package.images)};
  }
  // A writer that replaces files one by one is waited for.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  for (;;) {
    const Identity before(folder);
    const bool may_wait = std::chrono::steady_clock::now() < until;
    try {
      EmittedFolder read{read_emitted_plans(folder), read_emitted_weights(folder), {}};
      if (Identity(folder) == before || !may_wait)
        return read;
    } catch (const UserError &) {
      const std::string list = text_of(fs::path(folder) / kFileList).value_or("end\n");
      const bool is_unfinished = list.size() < 5 || list.substr(list.size() - 5) != "\nend\n";
      if ((Identity(folder) == before && !is_unfinished) || !may_wait)
        throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
}

} // namespace tsc::emit
