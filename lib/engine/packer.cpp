#include "engine/packer.h"

#include "engine/device.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace tsc_engine {
namespace {

/// Beyond this, placing by size (quadratic) is not tried.
constexpr size_t kMaxBySize = 2000;

int64_t aligned(int64_t bytes) {
  int64_t result = 0;
  if (__builtin_add_overflow(bytes, kPieceAlignment - 1, &result))
    throw Error(Status::bad_argument,
                "the model's intermediate values are beyond 64 bits of memory");
  return result / kPieceAlignment * kPieceAlignment;
}

int64_t end_of(int64_t offset, int64_t bytes) {
  int64_t end = 0;
  if (__builtin_add_overflow(offset, bytes, &end))
    throw Error(Status::bad_argument,
                "the model's intermediate values are beyond 64 bits of memory");
  return end;
}

bool overlap(const Piece &a, const Piece &b) { return a.first <= b.last && b.first <= a.last; }

/// Offset of the tightest gap for `piece` between those placed at the same time, ordered by offset.
int64_t tightest_gap(const std::vector<Piece> &pieces, const std::vector<uint32_t> &placed,
                     const std::vector<int64_t> &offsets, uint32_t piece) {
  int64_t size = aligned(pieces[piece].bytes);
  int64_t best = -1;
  int64_t best_gap = INT64_MAX;
  int64_t free_from = 0;
  for (uint32_t other : placed) {
    if (!overlap(pieces[piece], pieces[other]))
      continue;
    int64_t gap = offsets[other] - free_from;
    if (gap >= size && gap < best_gap) {
      best = free_from;
      best_gap = gap;
    }
    free_from = std::max(free_from, end_of(offsets[other], aligned(pieces[other].bytes)));
  }
  return best >= 0 ? best : free_from;
}

/// Each into the tightest gap, in this order.
Packing pack_in_order(const std::vector<Piece> &pieces, const std::vector<uint32_t> &order) {
  Packing result;
  result.offsets.assign(pieces.size(), 0);
  std::vector<uint32_t> placed; // by offset
  for (uint32_t piece : order) {
    int64_t offset = tightest_gap(pieces, placed, result.offsets, piece);
    result.offsets[piece] = offset;
    result.bytes = std::max(result.bytes, end_of(offset, aligned(pieces[piece].bytes)));
    auto position =
        std::upper_bound(placed.begin(), placed.end(), offset,
                         [&](int64_t at, uint32_t other) { return at < result.offsets[other]; });
    placed.insert(position, piece);
  }
  return result;
}

Packing pack_by_size(const std::vector<Piece> &pieces) {
  std::vector<uint32_t> order(pieces.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return pieces[a].bytes > pieces[b].bytes; });
  return pack_in_order(pieces, order);
}

/// By step: bytes of the pieces that are alive. No packing has less than the most of them.
std::vector<int64_t> alive_bytes(const std::vector<Piece> &pieces) {
  uint32_t last = 0;
  for (const Piece &piece : pieces)
    last = std::max(last, piece.last);
  std::vector<int64_t> bytes(size_t(last) + 2, 0);
  for (const Piece &piece : pieces) {
    bytes[piece.first] += aligned(piece.bytes);
    bytes[size_t(piece.last) + 1] -= aligned(piece.bytes);
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  return bytes;
}

/// Orders that leave fewer gaps than by size alone, one or the other.
enum class PieceOrder : uint8_t {
  size_then_steps, // the largest first, of equal ones those that stay longest
  magnitude,       // sizes between two powers of two count as equal
  crowd,           // those of the fullest steps first
};

std::vector<uint32_t> order_of(const std::vector<Piece> &pieces, const std::vector<int64_t> &alive,
                               PieceOrder kind) {
  using Key = std::tuple<int64_t, int64_t, int64_t>;
  std::vector<std::pair<Key, uint32_t>> keyed;
  for (uint32_t i = 0; i < pieces.size(); ++i) {
    const Piece &piece = pieces[i];
    const int64_t steps = int64_t(piece.last) - piece.first;
    int64_t first = piece.bytes;
    if (kind == PieceOrder::magnitude)
      for (first = 0; piece.bytes >> first > 1;)
        ++first;
    else if (kind == PieceOrder::crowd)
      first = *std::max_element(alive.begin() + piece.first, alive.begin() + piece.last + 1);
    keyed.push_back({{-first, -steps, -piece.bytes}, i});
  }
  std::sort(keyed.begin(), keyed.end());
  std::vector<uint32_t> order;
  order.reserve(keyed.size());
  for (const auto &[key, piece] : keyed)
    order.push_back(piece);
  return order;
}

/// Tries other orders, and in each to place earlier what came to lie at the end, until nothing is
/// lost between pieces, little is, or it has taken long.
void pack_tighter(const std::vector<Piece> &pieces, Packing &best) {
  constexpr int kRounds = 24;
  constexpr int64_t kLittle = 1 << 20;     // bytes
  constexpr double kMostComparisons = 3e7; // some 30 ms
  const std::vector<int64_t> alive = alive_bytes(pieces);
  const int64_t least = *std::max_element(alive.begin(), alive.end());
  double left = kMostComparisons;
  for (const PieceOrder kind :
       {PieceOrder::size_then_steps, PieceOrder::magnitude, PieceOrder::crowd}) {
    std::vector<uint32_t> order = order_of(pieces, alive, kind);
    for (int round = 0; round < kRounds && best.bytes - least > std::max(kLittle, least / 512);
         ++round) {
      left -= static_cast<double>(pieces.size()) * static_cast<double>(pieces.size());
      if (left < 0)
        return;
      Packing packing = pack_in_order(pieces, order);
      const auto is_last = [&](uint32_t piece) {
        return packing.offsets[piece] + aligned(pieces[piece].bytes) == packing.bytes;
      };
      const auto last = std::find_if(order.begin(), order.end(), is_last);
      if (last == order.end())
        break;
      std::rotate(order.begin() + (last - order.begin()) / 2, last, last + 1);
      if (packing.bytes < best.bytes)
        best = std::move(packing);
    }
  }
}

/// Free ranges of the block, by offset and by size.
class FreeRanges {
public:
  /// Takes `size` bytes from the tightest range, or grows the block (reusing a free end).
  int64_t take(int64_t size) {
    auto found = by_size_.lower_bound({size, 0});
    if (found != by_size_.end()) {
      int64_t offset = found->second;
      int64_t length = found->first;
      remove(offset, length);
      if (length > size)
        add(offset + size, length - size);
      return offset;
    }
    int64_t offset = end_;
    if (!by_offset_.empty()) {
      auto last = std::prev(by_offset_.end());
      if (last->first + last->second == end_) {
        offset = last->first;
        remove(last->first, last->second);
      }
    }
    end_ = end_of(offset, size);
    return offset;
  }
  void give(int64_t offset, int64_t size) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && offset + size == next->first) {
      int64_t length = next->second;
      remove(next->first, length);
      size += length;
    }
    next = by_offset_.lower_bound(offset);
    if (next != by_offset_.begin()) {
      auto [before, length] = *std::prev(next);
      if (before + length == offset) {
        remove(before, length);
        offset = before;
        size += length;
      }
    }
    add(offset, size);
  }
  int64_t end() const { return end_; }

private:
  void add(int64_t offset, int64_t size) {
    by_offset_[offset] = size;
    by_size_.insert({size, offset});
  }
  void remove(int64_t offset, int64_t size) {
    by_offset_.erase(offset);
    by_size_.erase({size, offset});
  }
  std::map<int64_t, int64_t> by_offset_;
  std::set<std::pair<int64_t, int64_t>> by_size_;
  int64_t end_ = 0;
};

Packing pack_in_time(const std::vector<Piece> &pieces) {
  Packing result;
  result.offsets.assign(pieces.size(), 0);
  FreeRanges free;
  std::set<std::pair<uint32_t, uint32_t>> live; // {last, piece}
  for (uint32_t piece = 0; piece < pieces.size(); ++piece) {
    while (!live.empty() && live.begin()->first < pieces[piece].first) {
      uint32_t done = live.begin()->second;
      free.give(result.offsets[done], aligned(pieces[done].bytes));
      live.erase(live.begin());
    }
    if (pieces[piece].bytes == 0)
      continue;
    result.offsets[piece] = free.take(aligned(pieces[piece].bytes));
    live.insert({pieces[piece].last, piece});
  }
  result.bytes = free.end();
  return result;
}

Packing pack_block(const std::vector<Piece> &pieces) {
  Packing in_time = pack_in_time(pieces);
  if (pieces.size() > kMaxBySize)
    return in_time;
  Packing by_size = pack_by_size(pieces);
  Packing best = by_size.bytes <= in_time.bytes ? std::move(by_size) : std::move(in_time);
  pack_tighter(pieces, best);
  return best;
}

/// Finds room for pieces in the lenders' memory; the rest stays where it is.
class Lending {
public:
  Lending(const std::vector<Piece> &pieces, const std::vector<Lender> &lenders)
      : pieces_(pieces), lenders_(lenders), placed_(lenders.size()) {
    packing_.offsets.assign(pieces.size(), 0);
    packing_.lenders.assign(pieces.size(), kOwnBlock);
    by_size_.resize(pieces.size());
    std::iota(by_size_.begin(), by_size_.end(), 0U);
    std::stable_sort(by_size_.begin(), by_size_.end(),
                     [&](uint32_t a, uint32_t b) { return pieces[a].bytes > pieces[b].bytes; });
    by_size_.resize(std::min(by_size_.size(), kMostPieces));
  }

  /// The largest first, into one lender's memory after another.
  Packing by_size() && {
    for (uint32_t lender = 0; lender < lenders_.size(); ++lender)
      for (const uint32_t piece : by_size_)
        if (packing_.lenders[piece] == kOwnBlock)
          place(piece, lender);
    return std::move(packing_);
  }

  /// One of the fullest step's after another, until none of those has room.
  Packing by_crowd() && {
    std::vector<int64_t> alive = alive_bytes(pieces_);
    for (size_t round = 0; round < kMostPieces; ++round) {
      const auto fullest =
          static_cast<uint32_t>(std::max_element(alive.begin(), alive.end()) - alive.begin());
      const auto lent = std::find_if(by_size_.begin(), by_size_.end(), [&](uint32_t piece) {
        if (pieces_[piece].first > fullest || pieces_[piece].last < fullest ||
            packing_.lenders[piece] != kOwnBlock)
          return false;
        for (uint32_t lender = 0; lender < lenders_.size(); ++lender)
          if (place(piece, lender))
            return true;
        return false;
      });
      if (lent == by_size_.end())
        break;
      for (uint32_t step = pieces_[*lent].first; step <= pieces_[*lent].last; ++step)
        alive[step] -= aligned(pieces_[*lent].bytes);
    }
    return std::move(packing_);
  }

private:
  static constexpr size_t kMostPieces =
      500; // that are looked at; each is compared with those placed
  const std::vector<Piece> &pieces_;
  const std::vector<Lender> &lenders_;
  std::vector<uint32_t> by_size_;
  std::vector<std::vector<uint32_t>> placed_; // by lender, each by offset
  Packing packing_;

  bool place(uint32_t piece, uint32_t lender) {
    if (pieces_[piece].bytes == 0 || pieces_[piece].last >= lenders_[lender].until)
      return false;
    std::vector<uint32_t> &placed = placed_[lender];
    const int64_t offset = tightest_gap(pieces_, placed, packing_.offsets, piece);
    if (end_of(offset, pieces_[piece].bytes) > lenders_[lender].bytes)
      return false;
    packing_.offsets[piece] = offset;
    packing_.lenders[piece] = lender;
    auto position =
        std::upper_bound(placed.begin(), placed.end(), offset,
                         [&](int64_t at, uint32_t other) { return at < packing_.offsets[other]; });
    placed.insert(position, piece);
    return true;
  }
};

} // namespace

Packing pack(const std::vector<Piece> &pieces, const std::vector<Lender> &lenders) {
  Packing best = pack_block(pieces);
  best.lenders.assign(pieces.size(), kOwnBlock);
  if (lenders.empty() || best.bytes == 0)
    return best;
  for (Packing &lent : std::array<Packing, 2>{Lending(pieces, lenders).by_size(),
                                              Lending(pieces, lenders).by_crowd()}) {
    std::vector<Piece> left = pieces; // those that were lent memory take none of the block's
    for (size_t i = 0; i < pieces.size(); ++i)
      if (lent.lenders[i] != kOwnBlock)
        left[i].bytes = 0;
    const Packing rest = pack_block(left);
    if (rest.bytes >= best.bytes)
      continue;
    lent.bytes = rest.bytes;
    for (size_t i = 0; i < pieces.size(); ++i)
      if (lent.lenders[i] == kOwnBlock)
        lent.offsets[i] = rest.offsets[i];
    best = std::move(lent);
  }
  return best;
}

} // namespace tsc_engine
