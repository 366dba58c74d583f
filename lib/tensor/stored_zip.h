// Writes zip archives whose members are stored as they are, at places where they can be mapped.
#pragma once

#include "tensor/file_parts.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tsc::tensor {

/// Payloads begin at multiples of this many bytes of the file.
inline constexpr uint64_t kMemberAlignment = 64;

/// The same members give the same bytes. Errors: UserError (bad_input) TSC-T005.
class StoredZip {
public:
  explicit StoredZip(const std::string &path) : file_(path) {}
  void add(const std::string &name, std::string_view bytes);
  /// A member of several parts, one behind the other.
  void add(const std::string &name, const std::vector<Payload> &parts);
  /// Writes the directory; nothing is added afterwards.
  void close();

private:
  struct Entry {
    std::string name;
    uint64_t size = 0, offset = 0; // of the header
    uint32_t checksum = 0;
  };
  void write(const std::string &bytes);
  OutputFile file_;
  uint64_t position_ = 0;
  std::vector<Entry> entries_;
};

} // namespace tsc::tensor
