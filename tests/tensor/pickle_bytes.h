// Builds files of torch.save by hand, so that tests can make them lie.
#pragma once

#include "zip_bytes.h"

#include <string>
#include <vector>

namespace tsc::testing::pickle {

inline std::string text(const std::string &value) {
  std::string bytes = "X";
  put(bytes, value.size(), 4);
  return bytes + value;
}
inline std::string integer(int64_t value) {
  std::string bytes = "\x8a\x08"; // LONG1 of 8 bytes
  put(bytes, static_cast<uint64_t>(value), 8);
  return bytes;
}
inline std::string tuple(const std::vector<std::string> &items) {
  std::string bytes = "(";
  for (const std::string &item : items)
    bytes += item;
  return bytes + "t";
}
inline std::string integers(const std::vector<int64_t> &values) {
  std::vector<std::string> items;
  for (int64_t value : values)
    items.push_back(integer(value));
  return tuple(items);
}
inline std::string function(const std::string &module, const std::string &name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string call(const std::string &module, const std::string &name,
                        const std::vector<std::string> &arguments) {
  return function(module, name) + tuple(arguments) + "R";
}
inline std::string storage(const std::string &key, int64_t elements,
                           const std::string &type = "FloatStorage") {
  return tuple({text("storage"), function("torch", type), text(key), text("cpu"),
                integer(elements)}) +
         "Q";
}
inline std::string tensor(const std::string &storage, const std::vector<int64_t> &sizes,
                          const std::vector<int64_t> &strides, int64_t offset = 0) {
  return call("torch._utils", "_rebuild_tensor_v2",
              {storage, integer(offset), integers(sizes), integers(strides), "\x89",
               call("collections", "OrderedDict", {})});
}
/// A dict, as a whole pickle.
inline std::string dictionary(const std::vector<std::pair<std::string, std::string>> &entries) {
  std::string bytes = "\x80\x02}(";
  for (const auto &entry : entries)
    bytes += text(entry.first) + entry.second;
  return bytes + "u.";
}
/// The file: its storages are named "0", "1", ...
inline std::string file(const std::string &pickle, const std::vector<std::string> &storages,
                        const std::string &order = "little") {
  std::vector<ZipMember> members = {{"archive/data.pkl", pickle}, {"archive/byteorder", order}};
  for (size_t i = 0; i < storages.size(); ++i)
    members.push_back({"archive/data/" + std::to_string(i), storages[i]});
  return zip_bytes(members);
}

} // namespace tsc::testing::pickle
