// A folder that appears whole or not at all.
#pragma once

#include <string>
#include <string_view>

namespace tsc::emit {

/// Writes beside `folder` and takes its place on commit(). What is not committed is removed.
/// Errors: UserError (usage) TSC-E001 when something stands there that tsc did not write, TSC-E002
/// when a file cannot be written.
class FolderWriter {
public:
  explicit FolderWriter(const std::string &folder);
  ~FolderWriter();
  FolderWriter(const FolderWriter &) = delete;
  FolderWriter &operator=(const FolderWriter &) = delete;

  /// `name` may have folders: "kernels/relu.cu".
  void write(const std::string &name, std::string_view text);
  /// Where to write a file by other means.
  std::string path_of(const std::string &name) const { return aside_ + "/" + name; }
  void commit();

private:
  std::string folder_, aside_;
};

} // namespace tsc::emit
