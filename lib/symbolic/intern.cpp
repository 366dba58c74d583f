// The intern table: one node for each content, made once, and freed with its scope if it has one.
#include "symbolic/node.h"

#include "symbolic/expression_scope.h"

#include "support/diagnostic.h"
#include "support/hash.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

namespace tsc::symbolic {
namespace {

constexpr size_t kShards = 64;
constexpr int64_t kSmallestCached = -64, kLargestCached = 1024;
constexpr size_t kPermanentSymbols = 1024; // of each sort

std::mutex scope_mutex;
std::atomic<size_t> scopes = 0; // that are alive; written under the mutex

/// Open addressing; grows at half load. A slot repeats its node's hash, so that a probe reads a
/// node only when it is very likely the right one.
class Shard {
public:
  /// `make` gives a Node that nobody else knows.
  template <class Matches, class Make>
  const Node *find_or_make(uint64_t hash, const Matches &matches, const Make &make) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (2 * (count_ + 1) > slots_.size())
      grow();
    Slot *slot = &slots_[position(hash)];
    while (slot->node != nullptr) {
      if (slot->hash == hash && matches(*slot->node))
        return slot->node;
      slot = slot + 1 == slots_.data() + slots_.size() ? slots_.data() : slot + 1;
    }
    Node *made = make();
    made->is_permanent = scopes == 0 || is_permanent(*made);
    *slot = {hash, made};
    ++count_;
    return made;
  }

  size_t count() {
    std::lock_guard<std::mutex> lock(mutex_);
    return count_;
  }

  /// Frees what is not permanent, and the room for it.
  void clear() {
    std::lock_guard<std::mutex> lock(mutex_);
    const std::vector<Slot> old = std::move(slots_);
    slots_.clear();
    count_ = 0;
    for (const Slot &slot : old) {
      if (slot.node == nullptr)
        continue;
      if (!slot.node->is_permanent) {
        delete slot.node;
        continue;
      }
      if (2 * (count_ + 1) > slots_.size())
        grow();
      place(slot);
      ++count_;
    }
  }

private:
  struct Slot {
    uint64_t hash = 0;
    const Node *node = nullptr;
  };

  size_t position(uint64_t hash) const { return (hash / kShards) & (slots_.size() - 1); }

  void grow() {
    std::vector<Slot> old = std::move(slots_);
    slots_.assign(old.empty() ? 64 : 2 * old.size(), Slot{});
    for (const Slot &slot : old)
      if (slot.node != nullptr)
        place(slot);
  }
  void place(const Slot &slot) {
    size_t at = position(slot.hash);
    while (slots_[at].node != nullptr)
      at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
  }
  static bool is_permanent(const Node &node) {
    return node.kind == Kind::symbol && node.value < static_cast<int64_t>(kPermanentSymbols);
  }

  std::mutex mutex_;
  std::vector<Slot> slots_;
  size_t count_ = 0;
};

/// Lives until the process ends, so that static Exprs may outlive any other static.
std::array<Shard, kShards> &all_shards() {
  static auto *shards = new std::array<Shard, kShards>;
  return *shards;
}
Shard &shard_of(uint64_t hash) { return all_shards()[hash % kShards]; }

uint64_t hash_of(Kind kind, int64_t value) {
  return support::hash_combine(static_cast<uint64_t>(kind) + 1, static_cast<uint64_t>(value));
}

Node *new_integer(int64_t value) {
  auto *node = new Node;
  node->kind = Kind::integer;
  node->value = value;
  node->hash = hash_of(Kind::integer, value);
  return node;
}

[[noreturn]] void throw_too_large(const std::string &how) {
  throw support::UserError(
      support::ExitCode::bad_input,
      support::Diagnostic{"TSC-G092", "an index or size expression " + how, "", "", "", "",
                          "split the graph, or make the tensors in between contiguous"});
}

} // namespace

const Node *Builder::intern_integer(int64_t value) {
  static const auto *cache = [] {
    auto *nodes = new std::array<const Node *, kLargestCached - kSmallestCached + 1>;
    for (int64_t i = kSmallestCached; i <= kLargestCached; ++i)
      (*nodes)[static_cast<size_t>(i - kSmallestCached)] = new_integer(i);
    return nodes;
  }();
  if (value >= kSmallestCached && value <= kLargestCached)
    return (*cache)[static_cast<size_t>(value - kSmallestCached)];
  uint64_t hash = hash_of(Kind::integer, value);
  return shard_of(hash).find_or_make(
      hash, [&](const Node &node) { return node.kind == Kind::integer && node.value == value; },
      [&] { return new_integer(value); });
}

Expr Builder::intern_symbol(SymbolSort sort, size_t number) {
  std::string spelling(spelling_of(sort));
  if (has_numbers(sort))
    spelling += std::to_string(number);
  const uint64_t hash = support::hash_bytes(spelling, static_cast<uint64_t>(Kind::symbol) + 1);
  const auto value = static_cast<int64_t>(number);
  const Node *node = shard_of(hash).find_or_make(
      hash,
      [&](const Node &other) {
        return other.kind == Kind::symbol && other.sort == sort && other.value == value;
      },
      [&] {
        auto *made = new Node;
        made->kind = Kind::symbol;
        made->hash = hash;
        made->value = value;
        made->sort = sort;
        made->spelling = std::move(spelling);
        made->symbol_mask = uint64_t{1} << (hash % 64);
        return made;
      });
  return Expr(node);
}

Expr Builder::intern(Kind kind, std::vector<Expr> operands, int64_t value) {
  uint64_t hash = hash_of(kind, value);
  for (Expr operand : operands)
    hash = support::hash_combine(hash, operand.node_->hash);
  auto matches = [&](const Node &other) {
    return other.kind == kind && other.value == value && other.operands == operands;
  };
  // The product without its coefficient is made first: making it takes a shard's lock as well.
  const Node *monomial = nullptr;
  if (kind == Kind::mul && value != 1) {
    if (operands.size() == 2)
      monomial = operands[1].node_;
    else
      monomial = intern(Kind::mul, {operands.begin() + 1, operands.end()}, 1).node_;
  }
  uint32_t depth = 0;
  uint64_t symbol_mask = 0, parts = 1;
  for (Expr operand : operands) {
    depth = std::max(depth, operand.node_->depth);
    parts += operand.node_->parts;
    symbol_mask |= operand.node_->symbol_mask;
  }
  if (kind != Kind::add && kind != Kind::mul && kind != Kind::power)
    ++depth;
  if (depth > kMaxDepth)
    throw_too_large("nests deeper than " + std::to_string(kMaxDepth) + " divisions");
  if (parts > kMaxParts)
    throw_too_large("has more than " + std::to_string(kMaxParts) + " parts");
  const Node *node = shard_of(hash).find_or_make(hash, matches, [&] {
    auto *made = new Node;
    made->kind = kind;
    made->hash = hash;
    made->value = value;
    made->depth = depth;
    made->parts = static_cast<uint32_t>(parts);
    made->symbol_mask = symbol_mask;
    made->monomial = monomial;
    made->operands = std::move(operands);
    return made;
  });
  return Expr(node);
}

Expr::Expr(int64_t value) : node_(Builder::intern_integer(value)) {}

Kind Expr::kind() const { return node_->kind; }
uint64_t Expr::hash() const { return node_->hash; }
std::span<const Expr> Expr::operands() const { return node_->operands; }

int64_t Expr::value() const {
  support::require(is_integer(), "symbolic", "value() of an expression that is not an integer");
  return node_->value;
}

std::optional<int64_t> Expr::as_integer() const {
  if (!is_integer())
    return std::nullopt;
  return node_->value;
}

SymbolSort Expr::sort() const {
  support::require(is_symbol(), "symbolic", "sort() of an expression that is not a symbol");
  return node_->sort;
}
size_t Expr::number() const {
  support::require(is_symbol(), "symbolic", "number() of an expression that is not a symbol");
  return static_cast<size_t>(node_->value);
}
const std::string &Expr::spelling() const {
  support::require(is_symbol(), "symbolic", "spelling() of an expression that is not a symbol");
  return node_->spelling;
}

Expr integer(int64_t value) { return Expr(value); }

ExpressionScope::ExpressionScope() {
  const std::lock_guard<std::mutex> lock(scope_mutex);
  ++scopes;
}

ExpressionScope::~ExpressionScope() {
  const std::lock_guard<std::mutex> lock(scope_mutex); // no other scope begins meanwhile
  if (--scopes == 0)
    for (Shard &shard : all_shards())
      shard.clear();
}

size_t expression_count() {
  size_t count = 0;
  for (Shard &shard : all_shards())
    count += shard.count();
  return count;
}

} // namespace tsc::symbolic
