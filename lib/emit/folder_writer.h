// A folder that appears whole or not at all.
#pragma once

#include "emit/out_folder.h"
#include "support/private_folder.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tsc::emit {

/// How the files come into an OUT that is there already.
enum class Replacement {
  exchanged, ///< the whole folder at once; in place where that cannot be
  in_place,  ///< one by one, under a list that says so
};

/// Writes aside and takes the place of `folder` on commit(). What is not committed is removed, also
/// when the process is ended by a signal; what kill -9 leaves, the next writer removes. Files of
/// others that are in the folder stay (docs/outside.md says what is promised).
/// Errors: UserError (usage) TSC-E001 when something stands there that tsc did not write, TSC-E002
/// when a file cannot be written, TSC-E006 when another process does not let go of the folder.
class FolderWriter {
public:
  explicit FolderWriter(const std::string &folder,
                        Replacement replacement = Replacement::exchanged);
  FolderWriter(const FolderWriter &) = delete;
  FolderWriter &operator=(const FolderWriter &) = delete;

  /// `name` may have folders: "kernels/relu.cu".
  void write(const std::string &name, std::string_view text);
  /// Where to write a file by other means.
  std::string add(const std::string &name);
  /// Writes the list of files too.
  void commit();

private:
  std::string folder_;
  Replacement replacement_;
  support::Descriptor lock_; // one writer at a time replaces folders below OUT's parent
  std::optional<support::PrivateFolder> aside_;
  std::string staged_; // the new folder, inside aside_
  Names names_;

  void make_aside();
  void write_staged(const std::string &name, std::string_view text) const;
  void check_replaceable() const;
  void put_new();
  bool put_exchanged(const std::vector<ForeignEntry> &foreign);
  void put_in_place(const Names &own);
};

} // namespace tsc::emit
