// Zip archives (.pt2, .npz): a directory of members whose stored payloads are used where they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tsc::tensor {

/// Bytes, and what keeps them alive.
struct Payload {
  std::shared_ptr<void> owner;
  const std::byte *data = nullptr;
  size_t size = 0;
  std::string_view text() const { return {reinterpret_cast<const char *>(data), size}; }
};

class ZipArchive {
public:
  struct Member {
    std::string name;
    uint64_t size = 0;            // bytes, unpacked
    uint64_t compressed_size = 0; // bytes in the archive
    uint64_t offset = 0;          // of the payload, from the start of the archive
    bool stored = true;           // else deflated
    uint32_t checksum = 0;        // CRC-32 of the unpacked bytes, as the directory says
    uint64_t directory_position = 0, directory_index = 0; // where minizip finds the entry again
  };

  /// True if `bytes` begins as a zip archive does.
  static bool is_zip(std::string_view bytes);

  /// Reads the directory. Every member's payload is checked to lie inside the archive and its name
  /// to be a plain relative path. `label` stands for the path in messages. Errors: UserError
  /// (bad_input) TSC-T010 (not readable), TSC-T011 (sizes or offsets contradict the file,
  /// or members overlap), TSC-T012
  /// (unsafe name), TSC-T013 (a name twice); (unsupported) TSC-T014 (encrypted, or another
  /// compression).
  ZipArchive(Payload bytes, std::string label);

  const std::vector<Member> &members() const { return members_; } // in archive order
  const Member *find(std::string_view name) const;
  /// A stored member's bytes as a view of the archive, a deflated one's unpacked. Checksums are
  /// compared but for stored members of more than kVerifiedBytes: those are mapped and not touched,
  /// so that a large file opens at once. Errors: TSC-T011.
  Payload read(const Member &member) const;
  /// The same for what is parsed: the checksum is always compared, and a member that claims to
  /// unpack into far more than the archive could mean is refused.
  Payload read_text(const Member &member) const;
  static constexpr uint64_t kVerifiedBytes = uint64_t{1} << 20;

  ZipArchive(const ZipArchive &) = delete;
  ZipArchive &operator=(const ZipArchive &) = delete;

private:
  Payload unpack(const Member &member) const;
  void verify(const Member &member) const;

  Payload bytes_;
  std::string label_;
  std::vector<Member> members_;
  std::unordered_map<std::string_view, size_t> by_name_; // keys lie in members_
};

} // namespace tsc::tensor
