// Files mapped into memory: payloads are used where they lie.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace tsc::tensor {

/// A whole file, mapped read-only.
class MappedFile {
public:
  /// Throws UserError (bad_input) TSC-T002 if `path` cannot be opened or is no regular file.
  static std::shared_ptr<MappedFile> open(const std::string &path);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  const std::string &path() const { return path_; }
  size_t size() const { return size_; }
  std::byte *data() const { return data_; }
  std::string_view bytes() const { return {reinterpret_cast<const char *>(data_), size_}; }

private:
  MappedFile() = default;
  std::string path_;
  std::byte *data_ = nullptr;
  size_t size_ = 0;
};

} // namespace tsc::tensor
