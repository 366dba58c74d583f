#include "tensor/file_parts.h"
#include "tensor/npy.h"

#include <minizip/zip.h>

#include <algorithm>

namespace tsc::tensor {

namespace {

constexpr std::string_view kEnding = ".npy";
constexpr uint64_t kZip64From = 0xf0000000; // bytes; smaller members need no 64-bit fields

class Zip {
public:
  explicit Zip(const std::string &path) : path_(path), handle_(zipOpen64(path.c_str(), 0)) {
    check(handle_ != nullptr);
  }
  ~Zip() {
    if (handle_ != nullptr)
      zipClose(handle_, nullptr);
  }
  Zip(const Zip &) = delete;
  Zip &operator=(const Zip &) = delete;

  void add(const std::string &name, const std::string &header, const HostTensor &tensor) {
    // A fixed date: the same tensors give the same bytes.
    zip_fileinfo info = {};
    info.tmz_date.tm_year = 1980;
    info.tmz_date.tm_mday = 1;
    int zip64 = header.size() + tensor.size_in_bytes() >= kZip64From ? 1 : 0;
    check(zipOpenNewFileInZip64(handle_, name.c_str(), &info, nullptr, 0, nullptr, 0, nullptr, 0, 0,
                                zip64) == ZIP_OK);
    write(header.data(), header.size());
    write(tensor.data(), tensor.size_in_bytes());
    check(zipCloseFileInZip(handle_) == ZIP_OK);
  }
  void close() {
    zipFile handle = handle_;
    handle_ = nullptr;
    check(zipClose(handle, nullptr) == ZIP_OK);
  }

private:
  void write(const void *data, size_t size) {
    const auto *bytes = static_cast<const char *>(data);
    while (size != 0) {
      size_t count = std::min(size, size_t{1} << 30); // minizip counts in 32 bits
      check(zipWriteInFileInZip(handle_, bytes, static_cast<unsigned>(count)) == ZIP_OK);
      bytes += count;
      size -= count;
    }
  }
  void check(bool ok) const {
    if (!ok)
      fail_file("TSC-T005", "cannot write the .npz file", path_);
  }

  std::string path_;
  zipFile handle_;
};

} // namespace

TensorMap parse_npz(const ZipArchive &archive, const std::string &path) {
  TensorMap tensors;
  for (const ZipArchive::Member &member : archive.members()) {
    std::string name = member.name;
    if (name.size() <= kEnding.size() ||
        name.compare(name.size() - kEnding.size(), kEnding.size(), kEnding) != 0)
      fail_file("TSC-T030", "the archive holds '" + name + "', which is no array", path,
                "give an .npz file as numpy.savez writes it");
    name.resize(name.size() - kEnding.size());
    tensors.emplace(name, parse_npy(archive.read(member), path + ": " + member.name));
  }
  return tensors;
}

void write_npz(const std::string &path, const TensorMap &tensors) {
  Zip zip(path);
  for (const auto &entry : tensors) {
    HostTensor tensor = entry.second.contiguous();
    zip.add(entry.first + std::string(kEnding), npy_header(tensor, entry.first), tensor);
  }
  zip.close();
}

} // namespace tsc::tensor
