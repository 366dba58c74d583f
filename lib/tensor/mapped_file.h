// Files mapped into memory: payloads are used where they lie.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <sys/stat.h>

namespace tsc::tensor {

/// A whole file, read-only: mapped, or read if it is small. If a mapped file is cut short, who
/// reads behind its end gets SIGBUS: a handler (set with the first mapping, and only for addresses
/// in these files) then says TSC-T006 on stderr, removes temporary files and ends the process with
/// exit code 3. This costs nothing where nothing happens. What a mapping cannot see, a change in
/// place or the rest of a last page, check_files_unchanged() does.
class MappedFile {
public:
  /// Throws UserError (bad_input) TSC-T002 if `path` cannot be opened or is no regular file,
  /// TSC-T006 if it is cut short while it is read.
  static std::shared_ptr<MappedFile> open(const std::string &path);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  const std::string &path() const { return path_; }
  size_t size() const { return size_; }
  std::byte *data() const { return data_; }
  std::string_view bytes() const { return {reinterpret_cast<const char *>(data_), size_}; }

  static constexpr size_t kReadBytes = size_t{64} << 10; // files up to this are read

private:
  MappedFile() = default;
  void read(int descriptor);
  void map(int descriptor);
  friend void check_files_unchanged();

  std::string path_;
  struct stat status_ = {};           // when it was opened
  std::unique_ptr<std::byte[]> read_; // of small files
  std::byte *data_ = nullptr;
  size_t size_ = 0;
  int slot_ = -1; // among mapped files
};

/// Throws UserError (bad_input) TSC-T006 for every mapped file whose size or time of change is not
/// what it was when it was opened. A file that another one has replaced is as it was.
void check_files_unchanged();

} // namespace tsc::tensor
