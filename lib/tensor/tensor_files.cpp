// read_tensors and write_tensors: which format, and folders of .npy.
#include "support/standard_input.h"
#include "tensor/file_parts.h"
#include "tensor/mapped_file.h"
#include "tensor/npy.h"
#include "tensor/torch_file.h"

#include <filesystem>

namespace tsc::tensor {

namespace fs = std::filesystem;

namespace {

bool ends_with(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

Payload map_payload(const std::string &path) {
  std::shared_ptr<MappedFile> file = MappedFile::open(path);
  const std::byte *data = file->data();
  size_t size = file->size();
  return {std::move(file), data, size};
}

TensorMap read_folder(const std::string &path) {
  TensorMap tensors;
  std::error_code error;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    if (!ends_with(name, ".npy"))
      continue;
    std::string file = at->path().string();
    tensors.emplace(name.substr(0, name.size() - 4), parse_npy(map_payload(file), file));
  }
  if (error)
    fail_file("TSC-T002", "cannot read the folder: " + error.message(), path);
  if (tensors.empty())
    fail_file("TSC-T030", "the folder holds no .npy file", path,
              "give a .safetensors or .npz file, or a folder of .npy files");
  return tensors;
}

void write_npy(const std::string &path, const std::string &name, const HostTensor &value) {
  HostTensor tensor = value.contiguous();
  std::string header = npy_header(tensor, name);
  OutputFile file(path);
  file.write(header.data(), header.size());
  file.write(tensor.data(), tensor.size_in_bytes());
  file.close();
}

/// A name becomes a file's: it must not leave the folder or the archive.
void check_names(const TensorMap &tensors, const std::string &path) {
  for (const auto &entry : tensors) {
    const std::string &name = entry.first;
    bool plain = !name.empty() && name[0] != '.' && name.find('/') == std::string::npos &&
                 name.find('\\') == std::string::npos && name.find('\0') == std::string::npos;
    if (!plain)
      fail_file("TSC-T012", "the tensor's name '" + name + "' cannot be a file's name", path,
                "write a .safetensors file");
  }
}

void write_folder(const std::string &path, const TensorMap &tensors) {
  check_names(tensors, path);
  auto write_all = [&](const std::string &folder) {
    std::error_code error;
    fs::create_directory(folder, error);
    if (error)
      fail_file("TSC-T005", "cannot make the folder: " + error.message(), path);
    for (const auto &entry : tensors)
      write_npy((fs::path(folder) / (entry.first + ".npy")).string(), entry.first, entry.second);
  };
  std::error_code error;
  if (!fs::exists(path, error)) {
    write_aside(path, write_all);
    return;
  }
  // A folder that is there keeps its other files; each array replaces its own.
  for (const auto &entry : tensors)
    write_aside((fs::path(path) / (entry.first + ".npy")).string(),
                [&](const std::string &aside) { write_npy(aside, entry.first, entry.second); });
}

} // namespace

TensorMap parse_tensors(const std::shared_ptr<void> &owner, std::string_view bytes,
                        const std::string &label) {
  Payload payload{owner, reinterpret_cast<const std::byte *>(bytes.data()), bytes.size()};
  if (ZipArchive::is_zip(bytes)) {
    ZipArchive archive(payload, label);
    return is_torch_file(archive) ? parse_torch_file(archive, label) : parse_npz(archive, label);
  }
  if (is_safetensors(bytes))
    return parse_safetensors(payload, label);
  if (bytes.substr(0, 6) == std::string_view("\x93NUMPY", 6))
    fail_file("TSC-T030", "a single .npy file has no tensor name", label,
              "put it into a folder as NAME.npy and give the folder");
  fail_file("TSC-T030", "this is no tensor file", label,
            "give a .safetensors or .npz file, or a folder of .npy files");
}

TensorMap read_tensors(const std::string &path) {
  if (path == "-") {
    const std::shared_ptr<const std::string> bytes = support::standard_input();
    return parse_tensors(std::const_pointer_cast<std::string>(bytes), *bytes, path);
  }
  std::error_code error;
  if (fs::is_directory(path, error))
    return read_folder(path);
  Payload payload = map_payload(path);
  return parse_tensors(payload.owner, payload.text(), path);
}

void write_tensors(const std::string &path, const TensorMap &tensors) {
  std::string trimmed = path;
  while (trimmed.size() > 1 && trimmed.back() == '/')
    trimmed.pop_back();
  if (trimmed == "-") {
    write_safetensors(trimmed, tensors);
  } else if (ends_with(trimmed, ".safetensors")) {
    write_aside(trimmed, [&](const std::string &aside) { write_safetensors(aside, tensors); });
  } else if (ends_with(trimmed, ".npz")) {
    check_names(tensors, trimmed);
    write_aside(trimmed, [&](const std::string &aside) { write_npz(aside, tensors); });
  } else {
    write_folder(trimmed, tensors);
  }
}

} // namespace tsc::tensor
