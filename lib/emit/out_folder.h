// The folder OUT as it is found: which of its files tsc wrote, and which are others'.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace tsc::emit {

/// Name of the list of files that every folder holds: "tsc-folder 2", one name a line, "end" (which
/// version 1 did not have, and which is missing while files are replaced one by one).
inline constexpr const char *kFileList = "files.txt";

/// Paths relative to the folder, with / between names.
using Names = std::set<std::string>;

/// Text of a list.
std::string list_text(const Names &names, bool complete);
/// Names of a folder's list that lie inside it, without the list itself. Empty if there is none.
Names listed_names(const std::string &folder);

/// What a folder holds besides `own` files and the folders they are in. A folder without an own
/// file is one entry, whatever is in it; links are entries and not followed.
struct ForeignEntry {
  std::string name;
  bool is_folder = false;
};
/// Throws std::filesystem::filesystem_error where something cannot be listed.
std::vector<ForeignEntry> foreign_entries(const std::string &folder, const Names &own);

/// The first of `entries` that stands where one of `names`, or a folder on its way, has to be; ""
/// if none does.
std::string entry_in_the_way(const std::vector<ForeignEntry> &entries, const Names &names);

/// Gives `to` the same foreign entries as `from`: hard links to files, folders of such links.
/// False, with part of it done, where that cannot be (other file systems below, no links, no
/// permission, more than 50,000 files).
bool link_foreign_entries(const std::string &from, const std::string &to,
                          const std::vector<ForeignEntry> &entries);

/// Removes `old`, a folder that OUT was once: the files of its list, and links to what OUT holds
/// still. Anything else goes to its place in OUT, unless something newer is there.
void retire(const std::string &old, const std::string &out);

/// Removes files, and the folders that are empty then.
void remove_files(const std::string &folder, const Names &names);

} // namespace tsc::emit
