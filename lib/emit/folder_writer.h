// A folder that appears whole or not at all.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tsc::emit {

/// Name of the list of files that every folder holds: "tsc-folder 2", one name a line, "end" (which
/// version 1 did not have).
inline constexpr const char *kFileList = "files.txt";

/// Writes beside `folder` and takes its place on commit(). What is not committed is removed, also
/// when the process is interrupted (SIGINT, SIGTERM, SIGHUP): the next call throws, and the signal
/// is raised again once nothing is left behind. One writer at a time in a process.
/// Errors: UserError (usage) TSC-E001 when something stands there that tsc did not write, TSC-E002
/// when a file cannot be written, TSC-E006 after an interruption.
class FolderWriter {
public:
  explicit FolderWriter(const std::string &folder);
  ~FolderWriter();
  FolderWriter(const FolderWriter &) = delete;
  FolderWriter &operator=(const FolderWriter &) = delete;

  /// `name` may have folders: "kernels/relu.cu".
  void write(const std::string &name, std::string_view text);
  /// Where to write a file by other means.
  std::string add(const std::string &name);
  /// Writes the list of files too.
  void commit();

private:
  std::string folder_, aside_;
  std::vector<std::string> names_;
};

} // namespace tsc::emit
