#include "json_mutator.h"

#include <algorithm>
#include <cctype>
#include <cstring>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

namespace tsc::fuzz {
namespace {

constexpr int kMaxDepth = 300; // a little more than the readers take

class Parser {
public:
  explicit Parser(std::string_view text) : text_(text) {}

  bool parse_all(JsonTree &tree) {
    if (!parse(tree, 0))
      return false;
    space();
    return at_ == text_.size();
  }

private:
  void space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0)
      ++at_;
  }
  char peek() {
    space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c)
      return false;
    ++at_;
    return true;
  }
  bool parse_string(std::string &token) {
    if (peek() != '"')
      return false;
    size_t start = at_++;
    while (at_ < text_.size() && text_[at_] != '"')
      at_ += text_[at_] == '\\' ? 2 : 1;
    if (at_ >= text_.size())
      return false;
    token = text_.substr(start, ++at_ - start);
    return true;
  }
  bool parse_word(std::string &token) {
    size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  std::strchr("+-.", text_[at_]) != nullptr))
      ++at_;
    token = text_.substr(start, at_ - start);
    return at_ != start;
  }
  bool parse(JsonTree &tree, int depth) {
    if (depth > kMaxDepth)
      return false;
    char open = peek();
    if (open == '"')
      return parse_string(tree.token);
    if (open != '{' && open != '[')
      return parse_word(tree.token);
    tree.kind = open == '{' ? JsonTree::Kind::object : JsonTree::Kind::array;
    char close = open == '{' ? '}' : ']';
    ++at_;
    if (accept(close))
      return true;
    do {
      JsonMember &member = tree.members.emplace_back();
      if (open == '{' && !(parse_string(member.key) && accept(':')))
        return false;
      if (!parse(member.value, depth + 1))
        return false;
    } while (accept(','));
    return accept(close);
  }

  std::string_view text_;
  size_t at_ = 0;
};

void print(const JsonTree &tree, std::string &text) {
  if (tree.kind == JsonTree::Kind::token) {
    text += tree.token;
    return;
  }
  bool is_object = tree.kind == JsonTree::Kind::object;
  text += is_object ? '{' : '[';
  for (size_t i = 0; i < tree.members.size(); ++i) {
    if (i != 0)
      text += ", ";
    if (is_object)
      text += tree.members[i].key + ": ";
    print(tree.members[i].value, text);
  }
  text += is_object ? '}' : ']';
}

constexpr const char *kTokens[] = {"0",
                                   "1",
                                   "-1",
                                   "2",
                                   "3",
                                   "7",
                                   "8",
                                   "64",
                                   "127",
                                   "255",
                                   "1024",
                                   "65536",
                                   "2147483647",
                                   "-2147483648",
                                   "4294967296",
                                   "4611686018427387904",
                                   "9223372036854775807",
                                   "-9223372036854775808",
                                   "9223372036854775808",
                                   "18446744073709551615",
                                   "18446744073709551616",
                                   "0.0",
                                   "-0.0",
                                   "0.5",
                                   "1e308",
                                   "-1e308",
                                   "1e999",
                                   "5e-324",
                                   "NaN",
                                   "Infinity",
                                   "1e3",
                                   "null",
                                   "true",
                                   "false",
                                   "\"\"",
                                   "\"x\"",
                                   "\"NaN\"",
                                   "\"Infinity\"",
                                   "\"-Infinity\"",
                                   "\"s0\"",
                                   "\"2*s0\"",
                                   "\"s0*s1 + 1\"",
                                   "\"s0//2\"",
                                   "\"FloorDiv(s0, 0)\"",
                                   "\"ModularIndexing(s0, 1, 0)\"",
                                   "\"9223372036854775807*s0\"",
                                   "\"s0**64\"",
                                   "\"-s0\"",
                                   "\"Max(1, s0)\"",
                                   "\"Min(s0, 4)\"",
                                   "\"Mod(s0, s1)\"",
                                   "\"../x\"",
                                   "\"a/b\"",
                                   "\"\\u0000\"",
                                   "\"\\ud800\"",
                                   "\"a b\"",
                                   "\"*/\"",
                                   "\"float32\"",
                                   "\"int64\"",
                                   "\"bool\"",
                                   "\"complex64\""};
constexpr const char *kTexts[] = {"[]",
                                  "{}",
                                  "[[]]",
                                  "[null]",
                                  "[0, 0, 0]",
                                  "[1, 1, 1, 1, 1, 1, 1, 1, 1]",
                                  "[-1]",
                                  "{\"node\": \"x\"}",
                                  "{\"expr\": \"s0\"}",
                                  "{\"as_int\": 1}",
                                  "{\"as_none\": true}"};

JsonTree random_value(Random &random, const JsonVocabulary &vocabulary) {
  JsonTree tree;
  size_t choice = below(random, 10);
  if (choice == 0)
    parse_json(kTexts[below(random, std::size(kTexts))], tree);
  else if (choice == 1)
    tree.token = std::to_string(static_cast<int64_t>(random() % 2000) - 1000);
  else if (choice < 5 && !vocabulary.tokens.empty())
    tree.token = vocabulary.tokens[below(random, vocabulary.tokens.size())];
  else
    tree.token = kTokens[below(random, std::size(kTokens))];
  return tree;
}

/// Every value with the container that holds it.
struct Place {
  JsonTree *value = nullptr;
  JsonTree *parent = nullptr; // null: the root
  size_t position = 0;        // in parent->members
};

void collect(JsonTree &tree, JsonTree *parent, size_t position, std::vector<Place> &places) {
  places.push_back({&tree, parent, position});
  for (size_t i = 0; i < tree.members.size(); ++i)
    collect(tree.members[i].value, &tree, i, places);
}

bool is_string(const JsonTree &tree) {
  return tree.kind == JsonTree::Kind::token && tree.token[0] == '"';
}
bool is_number(const JsonTree &tree) {
  return tree.kind == JsonTree::Kind::token &&
         (tree.token[0] == '-' || std::isdigit(static_cast<unsigned char>(tree.token[0])) != 0);
}

std::string changed_number(const std::string &token, Random &random) {
  int64_t value = 0;
  try {
    value = std::stoll(token);
  } catch (const std::exception &) {
    return kTokens[below(random, 21)];
  }
  uint64_t bits = static_cast<uint64_t>(value);
  switch (below(random, 6)) {
  case 0:
    bits += 1;
    break;
  case 1:
    bits -= 1;
    break;
  case 2:
    bits = 0 - bits;
    break;
  case 3:
    bits *= 2;
    break;
  case 4:
    bits /= 2;
    break;
  default:
    bits ^= uint64_t{1} << below(random, 64);
  }
  return std::to_string(static_cast<int64_t>(bits));
}

/// One tree and the mutations of it; each returns whether it did something.
class Mutator {
public:
  Mutator(JsonTree &root, Random &random, const JsonVocabulary &vocabulary)
      : random_(random), vocabulary_(vocabulary) {
    collect(root, nullptr, 0, places_);
  }

  bool mutate() {
    using Mutation = bool (Mutator::*)();
    static constexpr Mutation kMutations[] = {&Mutator::replace,
                                              &Mutator::replace,
                                              &Mutator::copy_value,
                                              &Mutator::copy_value,
                                              &Mutator::copy_at_same_key,
                                              &Mutator::copy_at_same_key,
                                              &Mutator::duplicate,
                                              &Mutator::remove,
                                              &Mutator::swap,
                                              &Mutator::rename_key,
                                              &Mutator::change_string,
                                              &Mutator::rename_everywhere,
                                              &Mutator::change_number,
                                              &Mutator::change_number,
                                              &Mutator::wrap,
                                              &Mutator::unwrap,
                                              &Mutator::repeat,
                                              &Mutator::use_vocabulary,
                                              &Mutator::use_vocabulary,
                                              &Mutator::nest};
    return (this->*kMutations[below(random_, std::size(kMutations))])();
  }

private:
  Place any() { return places_[below(random_, places_.size())]; }
  /// A place for which `accept` holds; a null value if a few tries find none.
  template <class Accept> Place any_where(const Accept &accept) {
    for (int i = 0; i < 20; ++i)
      if (Place place = any(); accept(place))
        return place;
    return {};
  }
  static const std::string &key_of(const Place &place) {
    return place.parent->members[place.position].key;
  }
  static bool is_container(const Place &place) { return !place.value->members.empty(); }

  bool replace() {
    *any().value = random_value(random_, vocabulary_);
    return true;
  }
  bool copy_value() {
    JsonTree copy = *any().value;
    *any().value = std::move(copy);
    return true;
  }
  /// What stands under the same key elsewhere is likely of the right kind.
  bool copy_at_same_key() {
    Place to = any_where([](const Place &place) { return place.parent != nullptr; });
    if (to.value == nullptr)
      return false;
    Place from = any_where([&](const Place &place) {
      return place.parent != nullptr && place.value != to.value && key_of(place) == key_of(to);
    });
    if (from.value == nullptr)
      return false;
    JsonTree copy = *from.value;
    *to.value = std::move(copy);
    return true;
  }
  bool duplicate() {
    Place place = any_where(is_container);
    if (place.value == nullptr)
      return false;
    auto &members = place.value->members;
    JsonMember member = members[below(random_, members.size())];
    if (!one_in(random_, 3) && member.key.size() >= 2)
      member.key.insert(member.key.size() - 1, "_");
    members.insert(members.begin() +
                       static_cast<std::ptrdiff_t>(below(random_, members.size() + 1)),
                   std::move(member));
    return true;
  }
  bool remove() {
    Place place = any_where(is_container);
    if (place.value == nullptr)
      return false;
    auto &members = place.value->members;
    members.erase(members.begin() + static_cast<std::ptrdiff_t>(below(random_, members.size())));
    return true;
  }
  bool swap() {
    Place place = any_where([](const Place &at) { return at.value->members.size() > 1; });
    if (place.value == nullptr)
      return false;
    auto &members = place.value->members;
    size_t a = below(random_, members.size()), b = below(random_, members.size());
    if (one_in(random_, 2)) // the values alone
      std::swap(members[a].value, members[b].value);
    else
      std::swap(members[a], members[b]);
    return a != b;
  }
  bool rename_key() {
    auto in_object = [](const Place &place) {
      return place.parent != nullptr && place.parent->kind == JsonTree::Kind::object;
    };
    Place to = any_where(in_object), from = any_where(in_object);
    if (to.value == nullptr || from.value == nullptr)
      return false;
    to.parent->members[to.position].key = key_of(from);
    return true;
  }
  bool change_string() {
    Place place = any_where([](const Place &at) { return is_string(*at.value); });
    if (place.value == nullptr)
      return false;
    if (one_in(random_, 2)) { // a reference to something else
      Place other = any_where([](const Place &at) { return is_string(*at.value); });
      if (other.value == nullptr)
        return false;
      place.value->token = std::string(other.value->token);
      return true;
    }
    std::string text = place.value->token.substr(1, place.value->token.size() - 2);
    place.value->token = "\"" + mutate_bytes(std::move(text), 64) + "\"";
    return true;
  }
  /// A reference and what it refers to keep fitting.
  bool rename_everywhere() {
    Place from = any_where([](const Place &at) { return is_string(*at.value); });
    if (from.value == nullptr)
      return false;
    std::string old_token = from.value->token;
    Place to = any_where([](const Place &at) { return is_string(*at.value); });
    if (to.value == nullptr)
      return false;
    std::string token = to.value->token;
    if (one_in(random_, 2))
      token.insert(token.size() - 1, "_1");
    for (const Place &place : places_) {
      if (place.value->token == old_token)
        place.value->token = token;
      for (auto &member : place.value->members)
        if (member.key == old_token)
          member.key = token;
    }
    return true;
  }
  bool change_number() {
    Place place = any_where([](const Place &at) { return is_number(*at.value); });
    if (place.value == nullptr)
      return false;
    place.value->token = changed_number(place.value->token, random_);
    return true;
  }
  bool wrap() {
    Place place = any();
    JsonTree inner = *place.value;
    JsonTree outer;
    outer.kind = one_in(random_, 2) ? JsonTree::Kind::array : JsonTree::Kind::object;
    std::string key = "\"node\"";
    if (Place other = any_where([](const Place &at) { return at.parent != nullptr; });
        other.value != nullptr && !key_of(other).empty())
      key = key_of(other);
    outer.members.push_back({outer.kind == JsonTree::Kind::object ? key : "", std::move(inner)});
    *place.value = std::move(outer);
    return true;
  }
  bool unwrap() {
    Place place = any_where(is_container);
    if (place.value == nullptr)
      return false;
    JsonTree inner = place.value->members[below(random_, place.value->members.size())].value;
    *place.value = std::move(inner);
    return true;
  }
  bool repeat() {
    Place place = any_where([](const Place &at) {
      return at.value->kind == JsonTree::Kind::array && !at.value->members.empty();
    });
    if (place.value == nullptr || !one_in(random_, 4))
      return false;
    JsonMember member = place.value->members[below(random_, place.value->members.size())];
    if (to_text(member.value).size() > 64)
      return false;
    place.value->members.resize(place.value->members.size() + (size_t{1} << below(random_, 9)),
                                member);
    return true;
  }
  bool use_vocabulary() {
    if (vocabulary_.tokens.empty())
      return false;
    // An operator takes an operator's place: strings with dots.
    Place place = any_where([](const Place &at) {
      return is_string(*at.value) &&
             std::count(at.value->token.begin(), at.value->token.end(), '.') >= 1;
    });
    if (place.value == nullptr)
      return false;
    bool is_exported = place.value->token.compare(0, 11, "\"torch.ops.") == 0;
    place.value->token = vocabulary_.tokens[below(random_, vocabulary_.tokens.size())];
    if (is_exported && place.value->token[0] == '"')
      place.value->token.insert(1, "torch.ops.");
    return true;
  }
  bool nest() {
    if (!one_in(random_, 50))
      return false;
    std::string text;
    size_t depth = below(random_, 300);
    text.append(depth, '[').append(depth, ']');
    any().value->members.clear();
    return parse_json(depth == 0 ? "[]" : text, *any().value);
  }

  Random &random_;
  const JsonVocabulary &vocabulary_;
  std::vector<Place> places_;
};

std::string fitted(std::string text, std::string_view original, size_t max_size) {
  if (text.size() <= max_size)
    return text;
  return mutate_bytes(std::string(original.substr(0, max_size)), max_size);
}

} // namespace

size_t give(const std::string &text, uint8_t *data, size_t max_size) {
  const size_t size = std::min(text.size(), max_size);
  std::memcpy(data, text.data(), size);
  return size;
}

std::string mutate_bytes(std::string bytes, size_t max_size) {
  size_t size = std::min(bytes.size(), max_size);
  bytes.resize(std::max<size_t>(max_size, 1));
  bytes.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(bytes.data()), size, bytes.size()));
  return bytes;
}

bool parse_json(std::string_view text, JsonTree &tree) { return Parser(text).parse_all(tree); }

std::string to_text(const JsonTree &tree) {
  std::string text;
  print(tree, text);
  return text;
}

std::string mutate_json(std::string_view text, size_t max_size, Random &random,
                        const JsonVocabulary &vocabulary) {
  JsonTree tree;
  if (one_in(random, 20) || !parse_json(text, tree))
    return mutate_bytes(std::string(text), max_size);
  size_t count = 1 + below(random, 1 + below(random, 5));
  for (size_t tries = 0; count != 0 && tries < 40; ++tries)
    if (Mutator(tree, random, vocabulary).mutate()) // anew: mutations move values
      --count;
  return fitted(to_text(tree), text, max_size);
}

std::string cross_json(std::string_view a, std::string_view b, size_t max_size, Random &random) {
  JsonTree to, from;
  if (!parse_json(a, to) || !parse_json(b, from))
    return mutate_bytes(std::string(a), max_size);
  std::vector<Place> to_places, from_places;
  collect(to, nullptr, 0, to_places);
  collect(from, nullptr, 0, from_places);
  for (int tries = 0; tries < 30; ++tries) {
    const Place &target = to_places[below(random, to_places.size())];
    const Place &source = from_places[below(random, from_places.size())];
    if (target.parent == nullptr || source.parent == nullptr ||
        target.parent->members[target.position].key != source.parent->members[source.position].key)
      continue;
    if (one_in(random, 2) || target.parent->kind == JsonTree::Kind::object)
      *target.value = *source.value;
    else
      target.parent->members.insert(target.parent->members.begin() +
                                        static_cast<std::ptrdiff_t>(target.position),
                                    {"", *source.value});
    break;
  }
  return fitted(to_text(to), a, max_size);
}

} // namespace tsc::fuzz
