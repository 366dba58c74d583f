// Builds zip archives byte by byte, so that tests can make them lie.
#pragma once

#include <cstdint>
#include <string>
#include <vector>
#include <zlib.h>

namespace tsc::testing {

struct ZipMember {
  std::string name;
  std::string payload;   // as it stands in the archive
  uint16_t method = 0;   // 0 stored, 8 deflated
  int64_t size = -1;     // unpacked, as claimed; -1: the payload's
  int64_t packed = -1;   // in the archive, as claimed; -1: the payload's
  int64_t offset = -1;   // of the local header, as claimed by the directory; -1: the true one
  uint16_t flags = 0;    // 1: encrypted
  uint32_t checksum = 0; // 0: computed from the payload (which holds for stored members)
};

inline void put(std::string &bytes, uint64_t value, int width) {
  for (int i = 0; i < width; ++i)
    bytes += static_cast<char>(value >> (8 * i) & 0xff);
}

inline std::string zip_bytes(const std::vector<ZipMember> &members) {
  std::string bytes, directory;
  for (const ZipMember &member : members) {
    auto local = static_cast<uint64_t>(bytes.size());
    uint64_t packed =
        member.packed < 0 ? member.payload.size() : static_cast<uint64_t>(member.packed);
    uint64_t size = member.size < 0 ? member.payload.size() : static_cast<uint64_t>(member.size);
    uint32_t checksum = member.checksum;
    if (checksum == 0)
      checksum =
          static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef *>(member.payload.data()),
                                      static_cast<uInt>(member.payload.size())));
    std::string common;
    put(common, 20, 2); // version needed
    put(common, member.flags, 2);
    put(common, member.method, 2);
    put(common, 0, 4); // time and date
    put(common, checksum, 4);
    put(common, packed, 4);
    put(common, size, 4);
    put(common, member.name.size(), 2);
    put(common, 0, 2); // extra field
    put(bytes, 0x04034b50, 4);
    bytes += common + member.name + member.payload;
    put(directory, 0x02014b50, 4);
    put(directory, 20, 2); // version made by
    directory += common;
    put(directory, 0, 2); // comment
    put(directory, 0, 2); // disk
    put(directory, 0, 2); // internal attributes
    put(directory, 0, 4); // external attributes
    put(directory, member.offset < 0 ? local : static_cast<uint64_t>(member.offset), 4);
    directory += member.name;
  }
  auto start = static_cast<uint64_t>(bytes.size());
  bytes += directory;
  put(bytes, 0x06054b50, 4);
  put(bytes, 0, 4); // disks
  put(bytes, members.size(), 2);
  put(bytes, members.size(), 2);
  put(bytes, directory.size(), 4);
  put(bytes, start, 4);
  put(bytes, 0, 2); // comment
  return bytes;
}

} // namespace tsc::testing
