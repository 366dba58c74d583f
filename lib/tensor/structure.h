// How a model's results lie in each other: what PyTorch calls a treespec. Results themselves are
// its leaves, from left to right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tsc::tensor {

struct Structure {
  enum class Kind : uint8_t {
    leaf,
    none, // a field that was None and is no result
    tuple,
    list,
    dict,
    record, // named fields: a namedtuple, a dataclass, a model's own output class
  } kind = Kind::leaf;
  std::string type;              // of a record: the name that it is registered by
  std::vector<std::string> keys; // of a dict or record, one a child
  std::vector<Structure> children;
  friend bool operator==(const Structure &, const Structure &) = default;
};

/// Structures are not read deeper than this.
inline constexpr size_t kMaxStructureDepth = 64;

size_t count_leaves(const Structure &structure);
/// By leaf: keys and positions with dots between ("logits", "past.0.key"); "" if there is only one
/// and it is in nothing.
std::vector<std::string> paths_of(const Structure &structure);

/// "*" for a leaf, null, {"tuple": [..]}, {"list": [..]}, {"dict": [[KEY, ..], ..]},
/// {"record": TYPE, "fields": [[KEY, ..], ..]}; one line.
std::string to_json(const Structure &structure);
/// Throws std::invalid_argument, which says what is wrong.
Structure structure_from_json(std::string_view text);

} // namespace tsc::tensor
