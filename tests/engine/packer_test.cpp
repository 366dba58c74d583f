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

void check_disjoint(const std::vector<Piece> &pieces, const Packing &packing) {
  size_t shared = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    REQUIRE(packing.offsets[i] % 256 == 0);
    REQUIRE(packing.offsets[i] + pieces[i].bytes <= packing.bytes);
    for (size_t j = 0; j < i; ++j) {
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
