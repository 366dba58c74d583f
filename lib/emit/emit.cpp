#include "emit/emit.h"

#include "emit/embedded_files.h"
#include "emit/folder_writer.h"
#include "emit/kernel_files.h"
#include "emit/model_source.h"
#include "emit/readme.h"
#include "support/diagnostic.h"

#include <filesystem>
#include <fstream>
#include <sstream>

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

/// The weights that the program uses; nothing if it has none or none were given.
tensor::TensorMap used_weights(const program::Program &program, const tensor::TensorMap *weights) {
  tensor::TensorMap used;
  if (weights == nullptr || weights->empty())
    return used;
  std::vector<Diagnostic> problems;
  for (const program::Buffer &buffer : program.buffers) {
    if (buffer.role != program::Role::weight)
      continue;
    auto found = weights->find(buffer.weight);
    if (found != weights->end())
      used.insert(*found);
    else
      problems.push_back({"TSC-E003", "weight \"" + buffer.weight + "\" is missing", "", "",
                          buffer.name, "", "give a file that has every weight of the graph"});
  }
  if (!problems.empty())
    throw UserError(ExitCode::bad_input, std::move(problems));
  return used;
}

/// The first bytes of a file, filled up with zeros.
std::string head_of(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  std::string head(kRecognizedBytes, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  return head;
}

/// Every file that the list names must be there. A folder without a list is one of an older tsc, or
/// a program alone.
void check_files(const std::string &folder) {
  std::ifstream list(fs::path(folder) / kFileList);
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
  while (std::getline(list, name)) {
    if (name == "end")
      ends = true;
    else if (!fs::exists(fs::path(folder) / name, error))
      add(name);
  }
  if (!ends)
    add("the end of " + std::string(kFileList));
  if (!problems.empty())
    throw UserError(ExitCode::bad_input, std::move(problems));
}

} // namespace

void emit(const program::Program &program, const std::string &folder, const EmitOptions &options) {
  tensor::TensorMap weights = used_weights(program, options.weights);
  FolderWriter writer(folder);
  writer.write(kProgramFile, program::to_json(program));
  writer.write("model.cpp", model_source(program));
  writer.write("README.md", readme(program, !weights.empty()));
  write_kernels(program, writer);
  for (const EmbeddedFile &file : embedded_files())
    writer.write(std::string(file.name), file.text);
  if (!weights.empty())
    tensor::write_tensors(writer.add(kWeightsFile), weights);
  writer.commit();
}

bool is_emitted_folder(const std::string &path) {
  return head_of(fs::path(path) / kFileList).rfind("tsc-folder ", 0) == 0 ||
         head_of(fs::path(path) / kProgramFile).find("\"format\": \"tsc-program\"") !=
             std::string::npos;
}

program::Program read_emitted_program(const std::string &folder) {
  check_files(folder);
  std::string path = (fs::path(folder) / kProgramFile).string();
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf(); // fails without throwing, on a folder too
  const std::string text = std::move(bytes).str();
  if (!file || text.empty())
    throw UserError(ExitCode::bad_input,
                    Diagnostic{"TSC-E004", "the program cannot be read", path, "", "", "",
                               "give a folder that tsc compile wrote"});
  return program::from_json(text, path);
}

tensor::TensorMap read_emitted_weights(const std::string &folder) {
  fs::path path = fs::path(folder) / kWeightsFile;
  std::error_code error;
  if (!fs::exists(path, error))
    return {};
  return tensor::read_tensors(path.string());
}

} // namespace tsc::emit
