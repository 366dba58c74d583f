#include "tensor/stored_zip.h"

#include <zlib.h>

#include <algorithm>

namespace tsc::tensor {
namespace {

constexpr uint64_t kMost32 = 0xFFFFFFFF; // stands for "in the zip64 field"
constexpr uint16_t kZip64 = 0x0001,
                   kPadding = 0xD935; // extra fields; the second aligns, as zipalign
constexpr uint16_t kVersion64 = 45;   // of the format, with zip64
constexpr uint16_t kFirstDay = 0x21;  // 1980-01-01: archives do not depend on the day

/// Little-endian numbers behind each other.
class Fields {
public:
  Fields &u16(uint64_t value) { return add(value, 2); }
  Fields &u32(uint64_t value) { return add(value, 4); }
  Fields &u64(uint64_t value) { return add(value, 8); }
  Fields &text(std::string_view value) {
    text_ += value;
    return *this;
  }
  const std::string &bytes() const { return text_; }

private:
  Fields &add(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i)
      text_ += static_cast<char>(value >> (8 * i) & 0xFF);
    return *this;
  }
  std::string text_;
};

uint32_t checksum_of(const std::vector<Payload> &parts) {
  uLong checksum = crc32_z(0, nullptr, 0);
  for (const Payload &part : parts)
    if (part.size != 0)
      checksum = crc32_z(checksum, reinterpret_cast<const Bytef *>(part.data), part.size);
  return static_cast<uint32_t>(checksum);
}

/// version, flags, method, time, date, checksum, sizes: what both headers of a member have.
void add_common(Fields &fields, uint32_t checksum, uint64_t size) {
  const uint64_t size32 = std::min(size, kMost32);
  fields.u16(kVersion64).u16(0).u16(0).u16(0).u16(kFirstDay).u32(checksum).u32(size32).u32(size32);
}

} // namespace

void StoredZip::write(const std::string &bytes) {
  file_.write(bytes.data(), bytes.size());
  position_ += bytes.size();
}

void StoredZip::add(const std::string &name, std::string_view bytes) {
  add(name, {Payload{nullptr, reinterpret_cast<const std::byte *>(bytes.data()), bytes.size()}});
}

void StoredZip::add(const std::string &name, const std::vector<Payload> &parts) {
  uint64_t size = 0;
  for (const Payload &part : parts)
    size += part.size;
  const Entry entry{name, size, position_, checksum_of(parts)};
  Fields extra;
  if (entry.size >= kMost32)
    extra.u16(kZip64).u16(16).u64(entry.size).u64(entry.size);
  constexpr uint64_t kLocalHeader = 30, kFieldHeader = 4;
  const uint64_t end = position_ + kLocalHeader + name.size() + extra.bytes().size() + kFieldHeader;
  const uint64_t padding = (kMemberAlignment - end % kMemberAlignment) % kMemberAlignment;
  extra.u16(kPadding).u16(padding).text(std::string(padding, '\0'));
  Fields header;
  header.u32(0x04034b50);
  add_common(header, entry.checksum, entry.size);
  header.u16(name.size()).u16(extra.bytes().size()).text(name).text(extra.bytes());
  write(header.bytes());
  for (const Payload &part : parts)
    file_.write(part.data, part.size);
  position_ += size;
  entries_.push_back(entry);
}

void StoredZip::close() {
  const uint64_t start = position_;
  for (const Entry &entry : entries_) {
    Fields extra;
    if (entry.size >= kMost32 || entry.offset >= kMost32) {
      extra.u16(kZip64).u16((entry.size >= kMost32 ? 16 : 0) + (entry.offset >= kMost32 ? 8 : 0));
      if (entry.size >= kMost32)
        extra.u64(entry.size).u64(entry.size);
      if (entry.offset >= kMost32)
        extra.u64(entry.offset);
    }
    Fields header;
    header.u32(0x02014b50).u16(kVersion64);
    add_common(header, entry.checksum, entry.size);
    header.u16(entry.name.size()).u16(extra.bytes().size()).u16(0).u16(0).u16(0).u32(0);
    header.u32(std::min(entry.offset, kMost32)).text(entry.name).text(extra.bytes());
    write(header.bytes());
  }
  const uint64_t size = position_ - start, end = position_, count = entries_.size();
  constexpr uint64_t kMost16 = 0xFFFF;
  Fields last;
  if (start >= kMost32 || size >= kMost32 || count >= kMost16) {
    last.u32(0x06064b50).u64(44).u16(kVersion64).u16(kVersion64).u32(0).u32(0);
    last.u64(count).u64(count).u64(size).u64(start);
    last.u32(0x07064b50).u32(0).u64(end).u32(1);
  }
  last.u32(0x06054b50).u16(0).u16(0).u16(std::min(count, kMost16)).u16(std::min(count, kMost16));
  last.u32(std::min(size, kMost32)).u32(std::min(start, kMost32)).u16(0);
  write(last.bytes());
  file_.close();
}

} // namespace tsc::tensor
