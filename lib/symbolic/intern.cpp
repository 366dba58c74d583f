// The intern tables: one node for each content, made once, in the table of the thread's scope, or,
// where it has none, in the one that all threads share.
#include "symbolic/node.h"

#include "symbolic/expression_scope.h"

#include "support/diagnostic.h"
#include "support/hash.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <mutex>

namespace tsc::symbolic {

/// Open addressing; grows at half load. A slot repeats its node's hash, so that a probe reads a
/// node only when it is very likely the right one. For one thread at a time. Nodes go with it.
class NodeTable {
public:
  /// `fill` fills a new node, but for its hash.
  template <class Matches, class Fill>
  const Node *find_or_make(uint64_t hash, const Matches &matches, const Fill &fill) {
    if (2 * (nodes_.size() + 1) > slots_.size())
      grow();
    size_t at = position(hash);
    for (; slots_[at].node != nullptr; at = (at + 1) & (slots_.size() - 1))
      if (slots_[at].hash == hash && matches(*slots_[at].node))
        return slots_[at].node;
    Node &made = nodes_.emplace_back();
    made.hash = hash;
    fill(made);
    slots_[at] = {hash, &made};
    return &made;
  }
  size_t count() const { return nodes_.size(); }

private:
  struct Slot {
    uint64_t hash = 0;
    const Node *node = nullptr;
  };

  size_t position(uint64_t hash) const { return hash / kShards & (slots_.size() - 1); }
  void grow() {
    const std::vector<Slot> old = std::move(slots_);
    slots_.assign(old.empty() ? 64 : 2 * old.size(), Slot{});
    for (const Slot &slot : old) {
      if (slot.node == nullptr)
        continue;
      size_t at = position(slot.hash);
      while (slots_[at].node != nullptr)
        at = (at + 1) & (slots_.size() - 1);
      slots_[at] = slot;
    }
  }

  std::vector<Slot> slots_;
  std::deque<Node> nodes_;

public:
  /// Of the shared table, whose hashes choose one by their lowest bits.
  static constexpr size_t kShards = 64;
};

namespace {

constexpr int64_t kSmallestCached = -64, kLargestCached = 1024;
constexpr size_t kPermanentSymbols = 1024; // of each sort

struct Shard {
  std::mutex mutex;
  NodeTable nodes; // mutex
};
using Shards = std::array<Shard, NodeTable::kShards>;

/// Lives until the process ends, so that static Exprs may outlive any other static.
Shards &all_shards() {
  static auto *shards = new Shards;
  return *shards;
}

/// Of the scope that the thread is in.
thread_local NodeTable *scope_nodes = nullptr;

template <class Matches, class Fill>
const Node *find_or_make_shared(uint64_t hash, const Matches &matches, const Fill &fill) {
  Shard &shard = all_shards()[hash % NodeTable::kShards];
  const std::lock_guard<std::mutex> lock(shard.mutex);
  return shard.nodes.find_or_make(hash, matches, fill);
}

template <class Matches, class Fill>
const Node *find_or_make(uint64_t hash, const Matches &matches, const Fill &fill) {
  NodeTable *const scope = scope_nodes;
  const void *const home = scope ? static_cast<const void *>(scope) : &all_shards();
  const auto fill_at_home = [&](Node &made) {
    fill(made);
    made.home = home;
    for (const Expr operand : made.operands)
      support::require(Builder::node(operand)->home == home || !Builder::node(operand)->home,
                       "symbolic", "expressions of two compilations meet");
  };
  return scope ? scope->find_or_make(hash, matches, fill_at_home)
               : find_or_make_shared(hash, matches, fill_at_home);
}

uint64_t hash_of(Kind kind, int64_t value) {
  return support::hash_combine(static_cast<uint64_t>(kind) + 1, static_cast<uint64_t>(value));
}

void fill_integer(Node &node, int64_t value) {
  node.kind = Kind::integer;
  node.value = value;
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
    auto *nodes = new std::array<Node, kLargestCached - kSmallestCached + 1>;
    for (int64_t i = kSmallestCached; i <= kLargestCached; ++i) {
      Node &node = (*nodes)[static_cast<size_t>(i - kSmallestCached)];
      fill_integer(node, i);
      node.hash = hash_of(Kind::integer, i);
    }
    return nodes;
  }();
  if (value >= kSmallestCached && value <= kLargestCached)
    return &(*cache)[static_cast<size_t>(value - kSmallestCached)];
  return find_or_make(
      hash_of(Kind::integer, value),
      [&](const Node &node) { return node.kind == Kind::integer && node.value == value; },
      [&](Node &made) { fill_integer(made, value); });
}

Expr Builder::intern_symbol(SymbolSort sort, size_t number) {
  static std::array<std::array<std::atomic<const Node *>, kPermanentSymbols>, kSymbolSorts> known;
  const bool is_permanent = number < kPermanentSymbols;
  if (is_permanent)
    if (const Node *node = known[static_cast<size_t>(sort)][number].load(std::memory_order_acquire))
      return Expr(node);
  std::string spelling(spelling_of(sort));
  if (has_numbers(sort))
    spelling += std::to_string(number);
  const uint64_t hash = support::hash_bytes(spelling, static_cast<uint64_t>(Kind::symbol) + 1);
  const auto value = static_cast<int64_t>(number);
  const auto matches = [&](const Node &other) {
    return other.kind == Kind::symbol && other.sort == sort && other.value == value;
  };
  const auto fill = [&](Node &made) {
    made.kind = Kind::symbol;
    made.value = value;
    made.sort = sort;
    made.spelling = std::move(spelling);
    made.symbol_mask = uint64_t{1} << (hash % 64);
  };
  if (!is_permanent)
    return Expr(find_or_make(hash, matches, fill));
  const Node *node = find_or_make_shared(hash, matches, fill);
  known[static_cast<size_t>(sort)][number].store(node, std::memory_order_release);
  return Expr(node);
}

Expr Builder::intern(Kind kind, std::vector<Expr> operands, int64_t value) {
  uint64_t hash = hash_of(kind, value);
  for (Expr operand : operands)
    hash = support::hash_combine(hash, operand.node_->hash);
  auto matches = [&](const Node &other) {
    return other.kind == kind && other.value == value && other.operands == operands;
  };
  // The product without its coefficient is made first: making it changes the table as well.
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
  return Expr(find_or_make(hash, matches, [&](Node &made) {
    made.kind = kind;
    made.value = value;
    made.depth = depth;
    made.parts = static_cast<uint32_t>(parts);
    made.symbol_mask = symbol_mask;
    made.monomial = monomial;
    made.operands = std::move(operands);
  }));
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
  if (scope_nodes == nullptr) {
    nodes_ = std::make_unique<NodeTable>();
    scope_nodes = nodes_.get();
  }
}

ExpressionScope::~ExpressionScope() {
  if (nodes_)
    scope_nodes = nullptr;
}

size_t expression_count() {
  size_t count = scope_nodes ? scope_nodes->count() : 0;
  for (Shard &shard : all_shards()) {
    const std::lock_guard<std::mutex> lock(shard.mutex);
    count += shard.nodes.count();
  }
  return count;
}

} // namespace tsc::symbolic
