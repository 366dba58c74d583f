#include "zip_mutator.h"

#include "tensor_mutator.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

namespace tsc::fuzz {
namespace {

constexpr uint32_t kLocalMagic = 0x04034b50, kEntryMagic = 0x02014b50, kEndMagic = 0x06054b50;
constexpr size_t kLocalSize = 30, kEndSize = 22;
constexpr uint16_t kStored = 0, kDeflated = 8;
constexpr size_t kMaxUnpacked = 1 << 20, kMaxMembers = 64; // bytes of one member

struct Member {
  std::string name, data; // unpacked
  uint16_t method = kStored;
};

uint32_t number(std::string_view bytes, size_t at, size_t count) {
  uint32_t value = 0;
  for (size_t i = count; i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}
void put(std::string &bytes, uint64_t value, size_t count) {
  for (size_t i = 0; i < count; ++i)
    bytes += static_cast<char>(value >> (8 * i) & 0xff);
}

std::string packed(const std::string &data) {
  z_stream stream = {};
  std::string result(compressBound(data.size()) + 16, '\0');
  deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef *>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  deflate(&stream, Z_FINISH);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}
std::string unpacked(std::string_view data) {
  z_stream stream = {};
  std::string result(kMaxUnpacked, '\0');
  inflateInit2(&stream, -MAX_WBITS);
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef *>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  inflate(&stream, Z_FINISH);
  result.resize(stream.total_out);
  inflateEnd(&stream);
  return result;
}

/// Walks the local headers: simpler than the directory, and these archives are our own or nearly
/// so.
std::vector<Member> read_members(std::string_view bytes) {
  std::vector<Member> members;
  size_t at = 0;
  while (members.size() < kMaxMembers && bytes.size() - at >= kLocalSize &&
         number(bytes, at, 4) == kLocalMagic) {
    size_t size = number(bytes, at + 18, 4), name = number(bytes, at + 26, 2),
           extra = number(bytes, at + 28, 2);
    size_t start = at + kLocalSize + name + extra;
    if (start > bytes.size() || size > bytes.size() - start)
      break;
    // A streamed member has its size after the data (flag 8): up to the next header then.
    if ((number(bytes, at + 6, 2) & 8) != 0 && size == 0) {
      size_t next = bytes.find(std::string_view("PK", 2), start);
      size = (next == std::string_view::npos ? bytes.size() : next) - start;
    }
    Member member;
    member.method = static_cast<uint16_t>(number(bytes, at + 8, 2));
    member.name = bytes.substr(at + kLocalSize, name);
    std::string_view data = bytes.substr(start, size);
    member.data = member.method == kDeflated ? unpacked(data) : std::string(data);
    members.push_back(std::move(member));
    at = start + size;
    if (bytes.size() - at >= 16 && number(bytes, at, 4) == 0x08074b50) // data descriptor
      at += 16;
  }
  return members;
}

std::string write_members(const std::vector<Member> &members) {
  std::string bytes, directory;
  for (const Member &member : members) {
    std::string data = member.method == kDeflated ? packed(member.data) : member.data;
    auto crc = crc32(0, reinterpret_cast<const Bytef *>(member.data.data()),
                     static_cast<uInt>(member.data.size()));
    std::string common; // of both headers
    put(common, 20, 2);
    put(common, 0, 2);
    put(common, member.method, 2);
    put(common, 0x00210000, 4); // time and date
    put(common, crc, 4);
    put(common, data.size(), 4);
    put(common, member.data.size(), 4);
    put(common, member.name.size(), 2);
    put(common, 0, 2);
    size_t offset = bytes.size();
    put(bytes, kLocalMagic, 4);
    bytes += common + member.name + data;
    put(directory, kEntryMagic, 4);
    put(directory, 20, 2);
    directory += common;
    directory.append(10, '\0');
    put(directory, offset, 4);
    directory += member.name;
  }
  size_t start = bytes.size();
  bytes += directory;
  put(bytes, kEndMagic, 4);
  put(bytes, 0, 4);
  put(bytes, members.size(), 2);
  put(bytes, members.size(), 2);
  put(bytes, directory.size(), 4);
  put(bytes, start, 4);
  put(bytes, 0, 2);
  return bytes;
}

void mutate_member(Member &member, size_t max_size, Random &random) {
  if (member.data.size() > 6 && member.data.compare(1, 5, "NUMPY") == 0)
    member.data = mutate_npy(member.data, max_size, random);
  else if (!member.data.empty() && member.data[0] == '{')
    member.data = mutate_json(member.data, max_size, random);
  else if (one_in(random, 2))
    member.data.resize(below(random, 2 * member.data.size() + 16));
  else
    member.data = mutate_bytes(member.data, max_size);
}

void rename(Member &member, const std::vector<Member> &members, Random &random) {
  static constexpr const char *kNames[] = {"../x",
                                           "/x",
                                           "a\\b",
                                           "",
                                           "x/../../y",
                                           "archive_format",
                                           "byteorder",
                                           "model/archive_format",
                                           "data/weights/model.pt",
                                           ".npy",
                                           "a.npy"};
  switch (below(random, 3)) {
  case 0:
    member.name = kNames[below(random, std::size(kNames))];
    break;
  case 1:
    member.name = std::string(members[below(random, members.size())].name);
    break;
  default:
    member.name = mutate_bytes(member.name, 200);
  }
}

void mutate_members(std::vector<Member> &members, size_t max_size, Random &random) {
  if (members.empty())
    return;
  size_t at = below(random, members.size());
  auto position = members.begin() + static_cast<std::ptrdiff_t>(at);
  switch (below(random, 12)) {
  case 0:
    rename(members[at], members, random);
    break;
  case 1: {
    Member copy = members[at];
    if (one_in(random, 2))
      copy.name += "2";
    members.insert(position, std::move(copy));
    break;
  }
  case 2:
    members.erase(position);
    break;
  case 3:
    std::swap(members[at], members[below(random, members.size())]);
    break;
  case 4:
    members[at].method = members[at].method == kStored ? kDeflated : kStored;
    break;
  default:
    mutate_member(members[at], max_size, random);
  }
}

/// Positions and widths of header fields, relative to the header's start.
struct Field {
  size_t offset, width;
};
constexpr Field kLocalFields[] = {{0, 4},  {4, 2},  {6, 2},  {8, 2}, {14, 4},
                                  {18, 4}, {22, 4}, {26, 2}, {28, 2}};
constexpr Field kEntryFields[] = {{0, 4},  {8, 2},  {10, 2}, {16, 4}, {20, 4}, {24, 4},
                                  {28, 2}, {30, 2}, {32, 2}, {34, 2}, {42, 4}};
constexpr Field kEndFields[] = {{0, 4}, {4, 2}, {6, 2}, {8, 2}, {10, 2}, {12, 4}, {16, 4}, {20, 2}};

template <size_t count> Field pick(const Field (&fields)[count], Random &random) {
  return fields[below(random, count)];
}

/// Overwrites one header field.
void lie(std::string &bytes, Random &random) {
  std::vector<size_t> headers;
  for (size_t at = bytes.find("PK"); at != std::string::npos; at = bytes.find("PK", at + 1))
    if (bytes.size() - at >= kEndSize)
      headers.push_back(at);
  if (headers.empty())
    return;
  size_t at = headers[below(random, headers.size())];
  uint32_t magic = number(bytes, at, 4);
  Field field = magic == kLocalMagic   ? pick(kLocalFields, random)
                : magic == kEntryMagic ? pick(kEntryFields, random)
                                       : pick(kEndFields, random);
  if (at + field.offset + field.width > bytes.size())
    return;
  static constexpr uint32_t kLies[] = {
      0, 1, 2, 8, 9, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff, 0xffff, 0x10000};
  uint32_t value = number(bytes, at + field.offset, field.width);
  switch (below(random, 3)) {
  case 0:
    value = kLies[below(random, std::size(kLies))];
    break;
  case 1:
    value += one_in(random, 2) ? 1 : UINT32_MAX;
    break;
  default:
    value ^= 1U << below(random, 8 * field.width);
  }
  std::string text;
  put(text, value, field.width);
  bytes.replace(at + field.offset, field.width, text);
}

std::string finish(const std::vector<Member> &members, std::string_view original, size_t max_size,
                   Random &random) {
  std::string result = write_members(members);
  if (one_in(random, 3))
    lie(result, random);
  if (result.size() > max_size)
    return mutate_bytes(std::string(original), max_size);
  return result;
}

} // namespace

std::string mutate_zip(std::string_view bytes, size_t max_size, Random &random) {
  if (bytes.size() > 6 && bytes.substr(1, 5) == "NUMPY")
    return mutate_npy(bytes, max_size, random);
  std::vector<Member> members = read_members(bytes);
  if (members.empty() || one_in(random, 20))
    return mutate_bytes(std::string(bytes), max_size);
  for (size_t count = 1 + below(random, 3); count != 0; --count)
    mutate_members(members, max_size, random);
  return finish(members, bytes, max_size, random);
}

std::string cross_zip(std::string_view a, std::string_view b, size_t max_size, Random &random) {
  std::vector<Member> members = read_members(a), others = read_members(b);
  if (members.empty() || others.empty())
    return mutate_bytes(std::string(a), max_size);
  Member &from = others[below(random, others.size())];
  auto same = std::find_if(members.begin(), members.end(),
                           [&](const Member &m) { return m.name == from.name; });
  if (same != members.end() && one_in(random, 2))
    same->data = cross_json(same->data, from.data, max_size, random);
  else if (same != members.end())
    same->data = from.data;
  else
    members.push_back(from);
  return finish(members, a, max_size, random);
}

} // namespace tsc::fuzz
