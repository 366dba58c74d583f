#include "engine/packer.h"

#include "testing/catch.h"

#include <algorithm>

using namespace tsc_engine;

namespace {

/// Most bytes alive at one time: no packing is smaller.
int64_t floor_of(const std::vector<Piece> &pieces) {
  int64_t most = 0;
  for (const Piece &at : pieces) {
    int64_t sum = 0;
    for (const Piece &piece : pieces)
      if (piece.first <= at.first && at.first <= piece.last)
        sum += (piece.bytes + 255) / 256 * 256;
    most = std::max(most, sum);
  }
  return most;
}

void check_disjoint(const std::vector<Piece> &pieces, const Packing &packing,
                    const std::vector<Lender> &lenders = {}) {
  size_t shared = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const uint32_t lender = packing.lenders[i];
    REQUIRE(packing.offsets[i] % 256 == 0);
    REQUIRE((lender == kOwnBlock || lender < lenders.size()));
    REQUIRE(packing.offsets[i] + pieces[i].bytes <=
            (lender == kOwnBlock ? packing.bytes : lenders[lender].bytes));
    if (lender != kOwnBlock)
      REQUIRE(pieces[i].last < lenders[lender].until);
    for (size_t j = 0; j < i; ++j) {
      if (packing.lenders[j] != lender)
        continue;
      bool same_time = pieces[i].first <= pieces[j].last && pieces[j].first <= pieces[i].last;
      bool same_bytes = packing.offsets[i] < packing.offsets[j] + pieces[j].bytes &&
                        packing.offsets[j] < packing.offsets[i] + pieces[i].bytes;
      shared += same_time && same_bytes && pieces[i].bytes > 0 && pieces[j].bytes > 0;
    }
  }
  CHECK(shared == 0);
}

uint64_t next(uint64_t &state) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return state >> 33;
}

std::vector<Piece> random_pieces(size_t count, uint64_t seed) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < count; ++i) {
    auto first = static_cast<uint32_t>(i / 2);
    pieces.push_back({static_cast<int64_t>(next(seed) % 5000), first,
                      first + static_cast<uint32_t>(next(seed) % 6)});
  }
  return pieces;
}

} // namespace

TEST_CASE("A chain takes two pieces of memory", "[engine]") {
  std::vector<Piece> chain;
  for (uint32_t i = 0; i < 100; ++i)
    chain.push_back({1000, i, i + 1});
  CHECK(pack(chain).bytes == 2 * 1024);
}

TEST_CASE("Pieces alive together never share bytes", "[engine]") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    std::vector<Piece> pieces = random_pieces(seed * 3, seed);
    Packing packing = pack(pieces);
    check_disjoint(pieces, packing);
    CHECK(packing.bytes >= floor_of(pieces));
    CHECK(packing.bytes <= floor_of(pieces) * 5 / 4 + 4096);
  }
}

TEST_CASE("Gaps of a MiB and more are packed away", "[engine]") {
  // Tensors of a few sizes, as programs have them.
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    uint64_t state = seed;
    std::vector<Piece> pieces;
    for (uint32_t i = 0; i < 200; ++i) {
      const int64_t bytes = int64_t(1) << (20 + next(state) % 6);
      const auto steps = static_cast<uint32_t>(next(state) % (next(state) % 4 == 0 ? 120 : 6));
      pieces.push_back({bytes + bytes / 2 * static_cast<int64_t>(next(state) % 2), i, i + steps});
    }
    Packing packing = pack(pieces);
    check_disjoint(pieces, packing);
    CHECK(packing.bytes >= floor_of(pieces));
    CHECK(packing.bytes <= floor_of(pieces) * 103 / 100);
    CHECK(pack(pieces).offsets == packing.offsets);
  }
}

TEST_CASE("Memory that is not used yet is lent", "[engine]") {
  // Two of three pieces are gone before the lender's memory is used; it has room for one.
  const std::vector<Piece> pieces = {{1000, 0, 1}, {3000, 0, 2}, {2000, 1, 3}};
  const Packing packing = pack(pieces, {{4000, 3}});
  CHECK(packing.lenders == std::vector<uint32_t>{kOwnBlock, 0, kOwnBlock});
  CHECK(packing.bytes == 1024 + 2048);
  // One after the other in the same place.
  const Packing twice = pack({{1000, 0, 0}, {1000, 1, 1}}, {{1000, 2}});
  CHECK(twice.lenders == std::vector<uint32_t>{0, 0});
  CHECK(twice.bytes == 0);
  // What would not make the block smaller stays in it.
  const Packing same = pack({{1000, 0, 0}, {2000, 1, 1}}, {{1000, 1}});
  CHECK(same.lenders == std::vector<uint32_t>{kOwnBlock, kOwnBlock});
  CHECK(same.bytes == 2048);
  CHECK(pack(pieces, {{0, 9}, {999, 9}, {4000, 0}}).bytes == pack(pieces).bytes);
  // Of pieces as large the one that the fullest step holds, though the other one comes first.
  const Packing fullest = pack({{4096, 0, 4}, {4096, 4, 6}, {16384, 5, 6}}, {{4096, 9}});
  CHECK(fullest.lenders == std::vector<uint32_t>{kOwnBlock, 0, kOwnBlock});
  CHECK(fullest.bytes == 16384);
  size_t lent = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const std::vector<Piece> many = random_pieces(seed * 3, seed);
    std::vector<Lender> lenders;
    for (uint64_t i = 0; i < seed % 4; ++i)
      lenders.push_back({static_cast<int64_t>(seed * 150 * i), static_cast<uint32_t>(seed)});
    const Packing some = pack(many, lenders);
    check_disjoint(many, some, lenders);
    CHECK(some.bytes <= pack(many).bytes);
    for (const uint32_t lender : some.lenders)
      lent += lender != kOwnBlock ? 1 : 0;
  }
  CHECK(lent > 100);
}

TEST_CASE("Many pieces are packed in order of time", "[engine]") {
  std::vector<Piece> pieces = random_pieces(2500, 7);
  check_disjoint(pieces, pack(pieces));
  std::vector<Piece> many = random_pieces(200000, 9);
  CHECK(pack(many).bytes < 64 * 5120);
}

TEST_CASE("Nothing takes nothing", "[engine]") {
  CHECK(pack({}).bytes == 0);
  CHECK(pack({{0, 0, 1}, {0, 1, 2}}).bytes == 0);
  CHECK_THROWS_WITH(pack({{INT64_MAX - 100, 0, 1}}),
                    "the model's intermediate values are beyond 64 bits of memory");
}
