#include "tensor/zip_archive.h"

#include "support/diagnostic.h"

#include <minizip/unzip.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

namespace tsc::tensor {

using support::Diagnostic;
using support::ExitCode;
using support::UserError;

namespace {

// Deflate cannot pack better than this; what claims more lies about its size.
constexpr uint64_t kMaxDeflateRatio = 1032;
constexpr size_t kMaxNameLength = 4096; // bytes
// What is parsed may unpack into this much, or into kTextRatio times its packed bytes.
constexpr uint64_t kPlainText = uint64_t{1} << 28, kTextRatio = 100;
constexpr size_t kStep = size_t{1} << 24; // zlib and minizip count in 32 bits
constexpr uint16_t kEncryptedFlag = 1;
constexpr uint16_t kStored = 0, kDeflated = 8;

[[noreturn]] void fail(const std::string &label, const char *code, std::string message,
                       std::string member, ExitCode exit_code = ExitCode::bad_input,
                       std::string next_step = "write the file again; it may be damaged") {
  throw UserError(exit_code, Diagnostic{code, std::move(message), label, std::move(member), "", "",
                                        std::move(next_step)});
}

/// The archive in memory as the stream that minizip reads.
struct MemoryStream {
  const std::byte *data;
  uint64_t size;
  uint64_t position = 0;
};

voidpf open_stream(voidpf opaque, const void *, int) { return opaque; }
uLong read_stream(voidpf, voidpf stream, void *buffer, uLong size) {
  auto *memory = static_cast<MemoryStream *>(stream);
  uint64_t count = std::min<uint64_t>(size, memory->size - memory->position);
  if (count != 0)
    std::memcpy(buffer, memory->data + memory->position, count);
  memory->position += count;
  return static_cast<uLong>(count);
}
uLong write_stream(voidpf, voidpf, const void *, uLong) { return 0; }
ZPOS64_T tell_stream(voidpf, voidpf stream) {
  return static_cast<MemoryStream *>(stream)->position;
}
long seek_stream(voidpf, voidpf stream, ZPOS64_T offset, int origin) {
  auto *memory = static_cast<MemoryStream *>(stream);
  uint64_t base = origin == ZLIB_FILEFUNC_SEEK_CUR   ? memory->position
                  : origin == ZLIB_FILEFUNC_SEEK_END ? memory->size
                                                     : 0;
  if (offset > memory->size || base > memory->size - offset)
    return -1;
  memory->position = base + offset;
  return 0;
}
int close_stream(voidpf, voidpf) { return 0; }
int error_stream(voidpf, voidpf) { return 0; }

/// An open minizip handle over a MemoryStream.
class Unzip {
public:
  Unzip(const Payload &bytes, const std::string &label) : stream_{bytes.data, bytes.size} {
    zlib_filefunc64_def functions = {open_stream, read_stream,  write_stream, tell_stream,
                                     seek_stream, close_stream, error_stream, &stream_};
    handle_ = unzOpen2_64("", &functions);
    if (handle_ == nullptr)
      fail(label, "TSC-T010", "the zip archive has no readable directory; it may be cut off", "");
  }
  ~Unzip() { unzClose(handle_); }
  Unzip(const Unzip &) = delete;
  Unzip &operator=(const Unzip &) = delete;
  unzFile handle() const { return handle_; }

private:
  MemoryStream stream_;
  unzFile handle_;
};

bool is_safe_name(std::string_view name) {
  if (name.empty() || name[0] == '/' || name.find('\\') != std::string_view::npos ||
      name.find('\0') != std::string_view::npos)
    return false;
  for (size_t start = 0; start <= name.size();) {
    size_t end = std::min(name.find('/', start), name.size());
    if (name.substr(start, end - start) == "..")
      return false;
    start = end + 1;
  }
  return true;
}

/// Reads the current member's entry, and its local header for the payload's offset.
ZipArchive::Member read_member(unzFile handle, const Payload &bytes, const std::string &label) {
  unz_file_info64 info = {};
  std::string name(kMaxNameLength, '\0');
  if (unzGetCurrentFileInfo64(handle, &info, name.data(), kMaxNameLength, nullptr, 0, nullptr, 0) !=
      UNZ_OK)
    fail(label, "TSC-T010", "the zip archive's directory is damaged", "");
  if (info.size_filename >= kMaxNameLength)
    fail(label, "TSC-T012", "a zip member's name is longer than 4096 bytes", "");
  name.resize(info.size_filename);
  if (!is_safe_name(name))
    fail(label, "TSC-T012", "the zip member's name '" + name + "' is no plain relative path", "");
  if ((info.flag & kEncryptedFlag) != 0 ||
      (info.compression_method != kStored && info.compression_method != kDeflated))
    fail(label, "TSC-T014", "the zip member is encrypted or compressed by an unknown method", name,
         ExitCode::unsupported, "write the archive with stored or deflated members");
  if (unzOpenCurrentFile(handle) != UNZ_OK)
    fail(label, "TSC-T011", "the zip member's header contradicts the archive's directory", name);
  ZipArchive::Member member;
  member.name = std::move(name);
  member.size = info.uncompressed_size;
  member.compressed_size = info.compressed_size;
  member.offset = unzGetCurrentFileZStreamPos64(handle);
  member.stored = info.compression_method == kStored;
  member.checksum = static_cast<uint32_t>(info.crc);
  unzCloseCurrentFile(handle);
  unz64_file_pos position = {};
  unzGetFilePos64(handle, &position);
  member.directory_position = position.pos_in_zip_directory;
  member.directory_index = position.num_of_file;
  if (member.offset > bytes.size || member.compressed_size > bytes.size - member.offset)
    fail(label, "TSC-T011",
         "the zip member claims " + std::to_string(member.compressed_size) + " bytes at offset " +
             std::to_string(member.offset) + ", the file has " + std::to_string(bytes.size),
         member.name);
  if (member.stored ? member.size != member.compressed_size
                    : member.size / kMaxDeflateRatio > member.compressed_size)
    fail(label, "TSC-T011",
         "the zip member claims " + std::to_string(member.size) + " bytes unpacked from " +
             std::to_string(member.compressed_size),
         member.name);
  return member;
}

/// Members that share bytes would let a small file unpack into any amount of memory.
void check_overlap(const std::vector<ZipArchive::Member> &members, const std::string &label) {
  std::vector<const ZipArchive::Member *> order;
  for (const ZipArchive::Member &member : members)
    if (member.compressed_size != 0)
      order.push_back(&member);
  std::sort(order.begin(), order.end(),
            [](const auto *a, const auto *b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i]->offset < order[i - 1]->offset + order[i - 1]->compressed_size)
      fail(label, "TSC-T011", "the zip member overlaps '" + order[i - 1]->name + "'",
           order[i]->name);
}

} // namespace

bool ZipArchive::is_zip(std::string_view bytes) {
  return bytes.substr(0, 4) == std::string_view("PK\3\4", 4) ||
         bytes.substr(0, 4) == std::string_view("PK\5\6", 4);
}

ZipArchive::ZipArchive(Payload bytes, std::string label)
    : bytes_(std::move(bytes)), label_(std::move(label)) {
  Unzip archive(bytes_, label_);
  int status = unzGoToFirstFile(archive.handle());
  while (status == UNZ_OK) {
    members_.push_back(read_member(archive.handle(), bytes_, label_));
    status = unzGoToNextFile(archive.handle());
  }
  if (status != UNZ_END_OF_LIST_OF_FILE)
    fail(label_, "TSC-T010", "the zip archive's directory is damaged", "");
  check_overlap(members_, label_);
  for (size_t i = 0; i < members_.size(); ++i)
    if (!by_name_.emplace(members_[i].name, i).second)
      fail(label_, "TSC-T013", "the zip archive holds a member twice", members_[i].name);
}

const ZipArchive::Member *ZipArchive::find(std::string_view name) const {
  auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &members_[found->second];
}

Payload ZipArchive::read(const Member &member) const {
  if (!member.stored)
    return unpack(member);
  if (member.size <= kVerifiedBytes)
    verify(member);
  return {bytes_.owner, bytes_.data + member.offset, static_cast<size_t>(member.size)};
}

Payload ZipArchive::read_text(const Member &member) const {
  if (member.size > kPlainText && member.size / kTextRatio > member.compressed_size)
    fail(label_, "TSC-T011",
         "the zip member claims " + std::to_string(member.size) + " bytes of text unpacked from " +
             std::to_string(member.compressed_size),
         member.name);
  if (member.stored && member.size > kVerifiedBytes)
    verify(member);
  return read(member);
}

/// Of a stored member.
void ZipArchive::verify(const Member &member) const {
  auto checksum = crc32(0, nullptr, 0);
  for (uint64_t done = 0; done < member.size;) {
    uint64_t count = std::min<uint64_t>(kStep, member.size - done);
    checksum = crc32(checksum, reinterpret_cast<const Bytef *>(bytes_.data + member.offset + done),
                     static_cast<uInt>(count));
    done += count;
  }
  if (static_cast<uint32_t>(checksum) != member.checksum)
    fail(label_, "TSC-T011", "the zip member's checksum is wrong", member.name);
}

Payload ZipArchive::unpack(const Member &member) const {
  Unzip archive(bytes_, label_);
  unz64_file_pos position = {member.directory_position, member.directory_index};
  if (unzGoToFilePos64(archive.handle(), &position) != UNZ_OK ||
      unzOpenCurrentFile(archive.handle()) != UNZ_OK)
    fail(label_, "TSC-T011", "the zip member's header contradicts the archive's directory",
         member.name);
  auto size = static_cast<size_t>(member.size);
  std::shared_ptr<std::byte[]> memory(new std::byte[size == 0 ? 1 : size]);
  size_t done = 0;
  while (done < size) {
    int count = unzReadCurrentFile(archive.handle(), memory.get() + done,
                                   static_cast<unsigned>(std::min(kStep, size - done)));
    if (count <= 0)
      fail(label_, "TSC-T011", "the zip member's compressed bytes are damaged", member.name);
    done += static_cast<size_t>(count);
  }
  if (unzCloseCurrentFile(archive.handle()) != UNZ_OK)
    fail(label_, "TSC-T011", "the zip member's checksum is wrong", member.name);
  std::byte *data = memory.get();
  return {std::move(memory), data, size};
}

} // namespace tsc::tensor
