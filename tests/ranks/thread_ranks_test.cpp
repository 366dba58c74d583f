#include "ranks/thread_ranks.h"
#include "support/diagnostic.h"

#include "testing/catch.h"

#include <array>
#include <atomic>
#include <mutex>

using namespace tsc;
using tsc_engine::CollectiveCall;
using tsc_engine::CollectiveKind;
using tsc_engine::Reduction;

namespace {

/// What every rank of `table` computes, by rank.
template <class Number>
std::vector<std::vector<Number>>
results(const ranks::GroupTable &table,
        const std::function<std::vector<Number>(int64_t, tsc_engine::Groups &)> &body) {
  std::vector<std::vector<Number>> all(static_cast<size_t>(table.world));
  ranks::run_ranks_as_threads(table, [&](int64_t rank, tsc_engine::Groups &groups) {
    all[static_cast<size_t>(rank)] = body(rank, groups);
  });
  return all;
}

template <class Number>
std::vector<std::vector<Number>> reduced(tsc_engine::DType dtype, Reduction reduction,
                                         const std::vector<std::vector<Number>> &given) {
  ranks::GroupTable table;
  table.world = static_cast<int64_t>(given.size());
  return results<Number>(table, [&](int64_t rank, tsc_engine::Groups &groups) {
    CollectiveCall call;
    call.kind = CollectiveKind::all_reduce;
    call.reduction = reduction;
    call.dtype = dtype;
    call.count = static_cast<int64_t>(given[0].size());
    std::vector<Number> values = given[static_cast<size_t>(rank)]; // in place
    groups.find("0")->run(call, values.data(), values.data(), nullptr);
    return values;
  });
}

} // namespace

TEST_CASE("reductions in place, integers wrapping around", "[ranks]") {
  using tsc_engine::DType;
  using Bytes = std::vector<std::vector<uint8_t>>;
  const Bytes bytes = {{200, 3, 12}, {100, 5, 10}};
  CHECK(reduced(DType::u8, Reduction::sum, bytes)[1] == std::vector<uint8_t>{44, 8, 22});
  CHECK(reduced(DType::u8, Reduction::bit_and, bytes)[0] == std::vector<uint8_t>{64, 1, 8});
  CHECK(reduced(DType::u8, Reduction::bit_xor, bytes)[0] == std::vector<uint8_t>{172, 6, 6});
  CHECK(reduced(DType::boolean, Reduction::sum, Bytes{{0, 1, 0}, {0, 1, 1}})[0] ==
        std::vector<uint8_t>{0, 1, 1});
  CHECK(reduced(DType::boolean, Reduction::product, Bytes{{0, 1, 0}, {0, 1, 1}})[0] ==
        std::vector<uint8_t>{0, 1, 0});
  const std::vector<std::vector<uint64_t>> wide = {{1, UINT64_MAX}, {UINT64_MAX, 2}};
  CHECK(reduced(DType::u64, Reduction::maximum, wide)[0] ==
        std::vector<uint64_t>{UINT64_MAX, UINT64_MAX});
  CHECK(reduced(DType::u64, Reduction::minimum, wide)[1] == std::vector<uint64_t>{1, 2});
  const std::vector<std::vector<float>> floats = {{1, -3}, {2, 5}, {6, -5}};
  CHECK(reduced(DType::f32, Reduction::average, floats)[2] == std::vector<float>{3, -1});
  CHECK(reduced(DType::f32, Reduction::product, floats)[0] == std::vector<float>{12, 75});
  CHECK(reduced(DType::f32, Reduction::minimum, floats)[0] == std::vector<float>{1, -5});
}

TEST_CASE("each rank meets those of its own group", "[ranks]") {
  const ranks::GroupTable table = ranks::make_group_table(4, {"rows=1,0/3,2"}, "");
  const auto gathered = results<int32_t>(table, [](int64_t rank, tsc_engine::Groups &groups) {
    CollectiveCall call;
    call.kind = CollectiveKind::all_gather;
    call.dtype = tsc_engine::DType::i32;
    call.count = 1;
    const auto own = static_cast<int32_t>(rank);
    std::vector<int32_t> all(2);
    tsc_engine::Communicator *row = groups.find("rows");
    row->run(call, &own, all.data(), nullptr);
    all.push_back(static_cast<int32_t>(10 * row->ranks() + row->rank()));
    return all;
  });
  CHECK(gathered[0] == std::vector<int32_t>{1, 0, 21});
  CHECK(gathered[2] == std::vector<int32_t>{3, 2, 21});
  CHECK(gathered[3] == std::vector<int32_t>{3, 2, 20});
}

TEST_CASE("parts of different sizes reach their ranks, and must fit", "[ranks]") {
  ranks::GroupTable table;
  table.world = 2;
  const auto exchange = [&](int64_t room) {
    return results<int32_t>(table, [room](int64_t rank, tsc_engine::Groups &groups) {
      CollectiveCall call;
      call.kind = CollectiveKind::all_to_all;
      call.dtype = tsc_engine::DType::i32;
      const std::array<int64_t, 2> sends = {1, 2 - rank}, receives = {rank == 0 ? 1 : room, 1};
      call.sends = sends.data();
      call.receives = receives.data();
      const auto first = static_cast<int32_t>(10 * rank);
      const std::array<int32_t, 3> given = {first, first + 1, first + 2};
      std::vector<int32_t> taken(4, -1);
      groups.find("")->run(call, given.data(), taken.data(), nullptr);
      return taken;
    });
  };
  CHECK(exchange(2)[0] == std::vector<int32_t>{0, 10, -1, -1});
  CHECK(exchange(2)[1] == std::vector<int32_t>{1, 2, 11, -1});
  try {
    exchange(3);
    FAIL("a part was cut");
  } catch (const support::UserError &error) {
    CHECK(error.diagnostics()[0].code == "TSC-R052");
    CHECK(error.diagnostics()[0].message == "rank 1 of the group has room for 12 bytes from rank "
                                            "0, which gives 8, in step ");
  }
}
