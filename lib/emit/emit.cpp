#include "emit/emit.h"

#include "emit/embedded_files.h"
#include "emit/folder_writer.h"
#include "emit/kernel_files.h"
#include "emit/model_source.h"
#include "emit/readme.h"
#include "support/diagnostic.h"

#include <filesystem>
#include <fstream>
#include <iterator>

namespace tsc::emit {
namespace {

namespace fs = std::filesystem;
using support::Diagnostic;
using support::ExitCode;
using support::UserError;

constexpr const char *kProgramFile = "program.json";
constexpr const char *kWeightsFile = "weights.safetensors";
/// program.json begins with its format: that much is read to recognize it.
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
    tensor::write_tensors(writer.path_of(kWeightsFile), weights);
  writer.commit();
}

bool is_emitted_folder(const std::string &path) {
  std::ifstream file(fs::path(path) / kProgramFile, std::ios::binary);
  std::string head(kRecognizedBytes, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  return head.find("\"format\": \"tsc-program\"") != std::string::npos;
}

program::Program read_emitted_program(const std::string &folder) {
  std::string path = (fs::path(folder) / kProgramFile).string();
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  if (file.bad() || text.empty())
    throw UserError(ExitCode::bad_input, Diagnostic{"TSC-E004", "cannot be read", path, "", "", "",
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
