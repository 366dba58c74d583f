#include "engine/fibers.h"
#include "engine/host_device.h"
#include "testing/catch.h"

#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

extern "C" {
extern const TcKernelEntry row_sum_entry, reverse_tile_entry, reverse_tile_racy_entry,
    neighbour_racy_entry, warp_operations_entry, early_return_entry, divergent_barriers_entry,
    deadlock_entry, divergent_shuffles_entry, left_out_entry, writes_past_its_end_entry,
    reads_unwritten_entry, wrong_shared_type_entry, absent_lane_entry, coordinates_entry,
    running_order_entry, atomics_entry, forgot_the_flag_entry, traps_entry;
}

namespace {

using namespace tsc_engine;

enum class Order { forward, reverse };

LaunchGeometry geometry(uint32_t grid, uint32_t block, uint32_t shared_bytes = 0) {
  return {{grid, 1, 1}, {block, 1, 1}, shared_bytes};
}

/// Launches one kernel, taking the values of its parameters.
template <class... Values>
void launch(const TcKernelEntry &kernel, const LaunchGeometry &geometry, Order order,
            Values... values) {
  HostDeviceOptions options;
  options.make_block_runner = &make_fiber_runner;
  options.reversed = order == Order::reverse;
  auto device = make_host_device({&kernel}, options);
  void *arguments[] = {static_cast<void *>(&values)...};
  device->launch(0, geometry, arguments, nullptr);
}

const Order kOrders[] = {Order::forward, Order::reverse};

} // namespace

TEST_CASE("a row sum with shuffles, shared memory and a barrier is exact") {
  for (Order order : kOrders) {
    for (uint32_t block : {32u, 256u, 1024u}) {
      for (int64_t columns : {1, 31, 1000, 4096}) {
        const int64_t rows = 67;
        std::vector<float> in(static_cast<size_t>(rows * columns)), out(rows, -1.0f);
        for (size_t i = 0; i < in.size(); ++i)
          in[i] = static_cast<float>(i % 13) - 6.0f;
        launch(row_sum_entry, geometry(rows, block), order, out.data(),
               static_cast<const float *>(in.data()), static_cast<long long>(columns));
        for (int64_t row = 0; row < rows; ++row) {
          auto begin = in.begin() + row * columns;
          CHECK(out[static_cast<size_t>(row)] == std::accumulate(begin, begin + columns, 0.0f));
        }
      }
    }
  }
}

TEST_CASE("dynamic shared memory lasts for a block") {
  for (Order order : kOrders) {
    for (uint32_t block : {1u, 33u, 100u, 1024u}) {
      const uint32_t grid = 9;
      std::vector<int> in(block * grid), out(block * grid, -1);
      std::iota(in.begin(), in.end(), 0);
      launch(reverse_tile_entry, geometry(grid, block, block * 4), order, out.data(),
             static_cast<const int *>(in.data()));
      for (uint32_t i = 0; i < block * grid; ++i)
        REQUIRE(out[i] == static_cast<int>(i / block * block + block - 1 - i % block));
    }
  }
}

TEST_CASE("a missing barrier shows: as NaN, and as results that depend on the order") {
  std::vector<int> in(64, 7), forward(64), reverse(64);
  launch(reverse_tile_racy_entry, geometry(1, 64, 256), Order::forward, forward.data(),
         static_cast<const int *>(in.data()));
  launch(reverse_tile_racy_entry, geometry(1, 64, 256), Order::reverse, reverse.data(),
         static_cast<const int *>(in.data()));
  CHECK(forward != reverse);
  CHECK(forward[0] == -1); // unwritten memory
  CHECK(reverse[0] == 7);

  // This one passes in one of the orders.
  std::vector<float> a(64), b(64);
  launch(neighbour_racy_entry, geometry(1, 64, 256), Order::forward, a.data());
  launch(neighbour_racy_entry, geometry(1, 64, 256), Order::reverse, b.data());
  CHECK(a[5] == 1.0f);
  CHECK(std::isnan(b[5]));
}

TEST_CASE("warp operations give what CUDA documents") {
  for (Order order : kOrders) {
    const int count = 96;
    std::vector<int> out(16 * count, -12345);
    LaunchGeometry shape{{1, 1, 1}, {32, 3, 1}, 0};
    launch(warp_operations_entry, shape, order, out.data());
    for (int i = 0; i < count; ++i) {
      INFO("thread " << i);
      const int *mine = out.data() + 16 * i, lane = i % 32, base = i - lane;
      REQUIRE(mine[0] == base + 3);
      REQUIRE(mine[1] == (lane < 1 ? i : i - 1));
      REQUIRE(mine[2] == (lane + 2 > 31 ? i : i + 2));
      REQUIRE(mine[3] == (i ^ 5));
      REQUIRE(mine[4] == i / 8 * 8 + 1);
      REQUIRE(mine[5] == (i % 8 < 3 ? i : i - 3));
      REQUIRE(mine[6] == (i % 16 + 3 > 15 ? i : i + 3));
      REQUIRE(mine[7] == (i ^ 6));
      unsigned ballot = 0;
      for (int l = 0; l < 32; ++l)
        ballot |= ((base + l) % 3 == 0 ? 1u : 0u) << l;
      REQUIRE(static_cast<unsigned>(mine[8]) == ballot);
      REQUIRE(mine[9] == (base == 32));
      REQUIRE(mine[10] == (base == 0));
      REQUIRE(mine[11] == (lane < 16 ? i ^ 1 : -(i ^ 2)));
      REQUIRE(mine[12] == count / 2);
      REQUIRE(mine[13] == 1);
      REQUIRE(mine[14] == 1);
      REQUIRE(mine[15] == base + 7);
    }
  }
}

TEST_CASE("threads that returned hold up nobody") {
  for (Order order : kOrders) {
    std::vector<int> out(128, -1);
    launch(early_return_entry, geometry(1, 128), order, out.data(), 40);
    for (int i = 0; i < 128; ++i)
      CHECK(out[static_cast<size_t>(i)] == (i < 32 ? 40032 : i < 40 ? 40008 : -1));
  }
}

TEST_CASE("a lane that does not exist gives NaN") {
  std::vector<float> out(33, 0.0f);
  launch(absent_lane_entry, geometry(1, 33), Order::forward, out.data());
  CHECK(out[0] == 1.0f);
  CHECK(std::isnan(out[32]));
}

TEST_CASE("threads that wait for each other in vain are reported") {
  std::vector<int> out(64);
  CHECK_THROWS_WITH(launch(divergent_barriers_entry, geometry(1, 64), Order::forward, out.data()),
                    "kernel divergent_barriers, block (0, 0, 0), thread (32, 0, 0): divergent "
                    "barriers: thread (0, 0, 0) waits at another one (line 102) (line 104)");
  CHECK_THROWS_WITH(launch(deadlock_entry, geometry(1, 64), Order::forward, out.data()),
                    "kernel deadlock, block (0, 0, 0), deadlock: thread (0, 0, 0) waits in a warp "
                    "operation (line "
                    "203), thread (5, 0, 0) waits in a barrier (line 202); 64 of 64 threads wait, "
                    "the others have "
                    "returned");
  CHECK_THROWS_WITH(launch(divergent_shuffles_entry, geometry(1, 32), Order::forward, out.data()),
                    "kernel divergent_shuffles, block (0, 0, 0), thread (31, 0, 0): divergent warp "
                    "operations: thread (0, 0, 0) is in another one (line 304) (line 302)");
  CHECK_THROWS_WITH(launch(left_out_entry, geometry(1, 32), Order::forward, out.data()),
                    "kernel left_out, block (0, 0, 0), thread (4, 0, 0): calls a warp operation "
                    "whose mask leaves it out (line 400)");
  // A runner that reported an error serves the next block.
  std::vector<int> in(64, 7);
  launch(reverse_tile_entry, geometry(1, 64, 256), Order::forward, out.data(),
         static_cast<const int *>(in.data()));
  CHECK(out[63] == 7);
}

TEST_CASE("shared memory is as large as declared, and garbage at first") {
  CHECK_THROWS_WITH(launch(writes_past_its_end_entry, geometry(1, 1, 64), Order::forward, 16),
                    "kernel writes_past_its_end, block (0, 0, 0), wrote past the end of its shared "
                    "memory");
  launch(writes_past_its_end_entry, geometry(1, 1, 64), Order::forward, 15);
  float out = 0;
  launch(reads_unwritten_entry, geometry(1, 1), Order::forward, &out);
  CHECK(std::isnan(out));
  CHECK_THROWS_WITH(
      launch(wrong_shared_type_entry, geometry(1, 1), Order::forward, &out),
      "kernel wrong_shared_type, block (0, 0, 0), thread (0, 0, 0): TC_SMEM of a type "
      "larger than the one TC_EXPORT names (line 501)");
}

TEST_CASE("blocks and threads have three dimensions") {
  for (Order order : kOrders) {
    std::vector<long long> out(2 * 3 * 4 * 5 * 2 * 3, -1);
    LaunchGeometry shape{{2, 3, 4}, {5, 2, 3}, 0};
    launch(coordinates_entry, shape, order, out.data());
    size_t i = 0;
    for (int bz = 0; bz < 4; ++bz)
      for (int by = 0; by < 3; ++by)
        for (int bx = 0; bx < 2; ++bx)
          for (int tz = 0; tz < 3; ++tz)
            for (int ty = 0; ty < 2; ++ty)
              for (int tx = 0; tx < 5; ++tx)
                REQUIRE(out[i++] == ((bx * 10 + by) * 10 + bz) * 1000 + (tx * 10 + ty) * 10 + tz);
  }
}

TEST_CASE("threads without barriers run in the order asked for") {
  std::vector<int> order(8);
  int count = 0;
  launch(running_order_entry, geometry(1, 8), Order::forward, order.data(), &count);
  CHECK(order == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  count = 0;
  launch(running_order_entry, geometry(1, 8), Order::reverse, order.data(), &count);
  CHECK(order == std::vector<int>{7, 6, 5, 4, 3, 2, 1, 0});
}

TEST_CASE("atomics hold between blocks") {
  int integers[4] = {0, 0, 0, 0};
  float sum = 0;
  double wide_sum = 0;
  launch(atomics_entry, geometry(4000, 64), Order::forward, &integers[0], &sum, &wide_sum);
  CHECK(integers[0] == 256000);
  CHECK(integers[1] == 255999);
  CHECK(integers[2] == -255999);
  CHECK(integers[3] == 256000);
  CHECK(sum == 128000.0f);
  CHECK(wide_sum == 64000.0);
}

TEST_CASE("launches that no GPU would take are refused") {
  std::vector<int> out(64);
  int *pointer = out.data();
  CHECK_THROWS_WITH(launch(forgot_the_flag_entry, geometry(1, 32), Order::forward, pointer),
                    "kernel forgot_the_flag, block (0, 0, 0), waits for other threads (line 100), "
                    "but was exported without TC_HAS_BARRIERS");
  CHECK_THROWS_WITH(launch(traps_entry, geometry(1, 32), Order::forward, pointer),
                    "kernel traps, block (0, 0, 0), __trap (line 200)");
  CHECK_THROWS_WITH(launch(traps_entry, geometry(1, 1025), Order::forward, pointer),
                    "kernel traps: blocks of 1025 threads (1 to 1024 can be)");
  CHECK_THROWS_WITH(launch(traps_entry, geometry(1, 32, 300000), Order::forward, pointer),
                    "kernel traps: 300000 bytes of shared memory (at most 232448)");
  HostDeviceOptions serial_only;
  CHECK_THROWS_WITH(make_host_device({&row_sum_entry}, serial_only),
                    "kernel row_sum has barriers, and this build runs serial kernels only");
}

TEST_CASE("an empty grid runs nothing") {
  launch(traps_entry, geometry(0, 32), Order::forward, static_cast<int *>(nullptr));
}
