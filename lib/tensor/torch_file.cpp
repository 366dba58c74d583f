#include "tensor/torch_file.h"

#include "tensor/file_parts.h"
#include "tensor/storage_view.h"
#include "tensor/torch_pickle.h"

#include <algorithm>

namespace tsc::tensor {

namespace {

constexpr std::string_view kPickle = "data.pkl";

/// "archive/" of archive/data.pkl; nothing if there is no such member.
std::optional<std::string> root_of(const ZipArchive &archive) {
  for (const ZipArchive::Member &member : archive.members()) {
    size_t slash = member.name.find('/');
    if (slash != std::string::npos && member.name.substr(slash + 1) == kPickle)
      return member.name.substr(0, slash + 1);
  }
  return std::nullopt;
}

HostTensor tensor_of(const ZipArchive &archive, const std::string &root,
                     const PickledTensor &pickled, const std::string &label) {
  std::string path = root + "data/" + pickled.storage;
  const ZipArchive::Member *member = archive.find(path);
  std::optional<int64_t> needed = bytes_reached(pickled.view);
  if (!needed || !tensor_bytes(pickled.view.dtype, pickled.view.sizes))
    fail_file("TSC-T042",
              "the tensor '" + pickled.name +
                  "' has sizes, strides or an offset that are negative or leave 64 bits",
              label, "save the file again; it may be damaged");
  if (*needed == 0)
    return HostTensor(pickled.view.dtype, pickled.view.sizes);
  if (member == nullptr)
    fail_file("TSC-T042", "the archive lacks the storage of '" + pickled.name + "'",
              label + ": " + path, "save the file again; it may be damaged");
  if (static_cast<uint64_t>(*needed) > member->size)
    fail_file("TSC-T042",
              "the tensor '" + pickled.name + "' needs " + std::to_string(*needed) +
                  " bytes, its storage has " + std::to_string(member->size),
              label + ": " + path, "save the file again; it may be damaged");
  uint64_t dense = *tensor_bytes(pickled.view.dtype, pickled.view.sizes);
  if (dense > std::max<uint64_t>(kMaxRepeatedBytes, member->size))
    fail_file("TSC-T042",
              "the tensor '" + pickled.name + "' repeats " + std::to_string(member->size) +
                  " stored bytes as " + std::to_string(dense),
              label + ": " + path, "save the file again; it may be damaged");
  return view_storage(archive.read(*member), pickled.view);
}

} // namespace

bool is_torch_file(const ZipArchive &archive) { return root_of(archive).has_value(); }

TensorMap parse_torch_file(const ZipArchive &archive, const std::string &label) {
  std::string root = root_of(archive).value();
  if (const ZipArchive::Member *order = archive.find(root + "byteorder"))
    if (archive.read_text(*order).text() != "little")
      fail_file("TSC-T043", "the file's numbers are not little-endian", label + ": " + order->name,
                "save it on a little-endian machine", support::ExitCode::unsupported);
  const ZipArchive::Member *pickle = archive.find(root + std::string(kPickle));
  Payload text = archive.read_text(*pickle);
  TensorMap tensors;
  for (const PickledTensor &pickled :
       read_pickled_tensors(text.text(), label + ": " + pickle->name))
    tensors.emplace(pickled.name, tensor_of(archive, root, pickled, label));
  return tensors;
}

} // namespace tsc::tensor
