// Steps of several streams: the same numbers as on one, in whatever order a device runs what is not
// ordered, and a refusal where a wait is missing.
#include "engine/engine.h"
#include "engine/stream_order.h"
#include "program/streams.h"
#include "program/tables.h"
#include "random_streams.h"
#include "stream_device.h"
#include "testing/catch.h"

#include <algorithm>
#include <cstring>
#include <set>

using namespace tsc;
using namespace tsc_engine;
using program::Program;

namespace {

using program::kBuffers;
using program::kSize;
using program::random_program;

/// What a run writes, one output behind the other.
std::vector<float> run(const Program &program, TestDevice &device_to_use,
                       const StepMark *mark = nullptr) {
  const program::OwnedTables owned = program::build_tables(program);
  const auto model = std::make_shared<const Model>(owned.tables, tsc_engine::Plan::cuda);
  // Not the test's to delete.
  const std::shared_ptr<Device> device(&device_to_use, [](Device *) {});
  const auto weights =
      std::make_shared<WeightSet>(model, device, [](const char *) { return WeightData(); });
  Instance instance(weights);
  const int64_t sizes[] = {4, 4};
  const int64_t *shapes[] = {sizes};
  const size_t bytes = instance.bind(shapes);
  alignas(256) static float x[kSize];
  for (size_t i = 0; i < kSize; ++i)
    x[i] = static_cast<float>(int(i % 7) - 3) / 4;
  void *workspace = device->allocate(bytes);
  std::vector<void *> outputs;
  for (size_t i = 0; i < program.outputs.size(); ++i)
    outputs.push_back(device->allocate(kSize * 4));
  instance.set_poison(true);
  void *inputs[] = {x};
  // Twice: a second run begins while nothing waits for the first.
  for (int round = 0; round < 2; ++round)
    if (mark != nullptr)
      instance.run_marked(nullptr, inputs, outputs.data(), workspace, *mark);
    else
      instance.run(nullptr, inputs, outputs.data(), workspace);
  device->synchronize(nullptr);
  std::vector<float> results;
  for (void *output : outputs) {
    const auto *values = static_cast<const float *>(output);
    results.insert(results.end(), values, values + kSize);
    device->release(output);
  }
  device->release(workspace);
  return results;
}

bool are_equal(const std::vector<float> &a, const std::vector<float> &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 4) == 0;
}

} // namespace

TEST_CASE("Steps on several streams give the numbers of one", "[engine]") {
  size_t swaps = 0, waits = 0, needless = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    Program program = random_program(random, 1 + seed % 4);
    Program alone = program;
    for (program::Step &step : alone.steps)
      step.stream = 0;
    program::add_waits(program);
    INFO("seed " << seed << "\n" << program::to_json(program));
    REQUIRE(program::check_streams(program).empty());
    TestDevice plain;
    StreamDevice device(seed);
    CHECK(are_equal(run(program, device), run(alone, plain)));
    CHECK(device.made == device.released);
    CHECK(device.live.empty());
    swaps += device.swaps;
    // Each wait is one that somebody needs.
    for (size_t i = 0; i < program.steps.size(); ++i)
      for (size_t k = 0; k < program.steps[i].waits.size(); ++k) {
        Program wrong = program;
        wrong.steps[i].waits.erase(wrong.steps[i].waits.begin() + std::ptrdiff_t(k));
        ++waits;
        needless += program::check_streams(wrong).empty();
      }
  }
  CHECK(swaps > 1000); // the device does run things in another order
  CHECK(waits > 500);
  CHECK(needless == 0);
}

TEST_CASE("A collective begins where it stands, so that memory is free by then", "[engine]") {
  std::mt19937 random(0);
  Program program = random_program(random, 1);
  program.steps.clear();
  const auto launch = [&](uint32_t from, uint32_t to) {
    program::Step step;
    step.name = "s";
    step.kind = program::Launch{0, {{from}, {to}}, {symbolic::Expr(int64_t(kSize))}};
    program.steps.push_back(step);
  };
  launch(0, 1);
  launch(0, 2); // nothing that the collective needs
  program::Step step;
  step.name = "c";
  program::Collective collective;
  collective.kind = program::Collective::Kind::all_reduce;
  collective.from = {1};
  collective.to = {1};
  collective.count = int64_t(kSize);
  step.kind = collective;
  step.stream = 1;
  program.steps.push_back(step);
  launch(2, 3);
  launch(1, kBuffers - 1);
  program::add_waits(program);
  CHECK(program.steps[2].waits == std::vector<uint32_t>{1});
  CHECK(program.steps[3].waits.empty()); // what follows does not wait for it
  CHECK(program.steps[4].waits == std::vector<uint32_t>{2});
  CHECK(program::check_streams(program).empty());
}

TEST_CASE("A wait that is missing changes the numbers on some device", "[engine]") {
  // x -> a on stream 1, a -> y on stream 0 without a wait.
  std::mt19937 random(0);
  Program program = random_program(random, 1);
  program.steps.clear();
  const auto launch = [&](uint32_t kernel, uint32_t from, uint32_t to, int stream) {
    program::Step step;
    step.name = "s";
    step.kind = program::Launch{kernel, {{from}, {to}}, {symbolic::Expr(int64_t(kSize))}};
    step.stream = stream;
    program.steps.push_back(step);
  };
  launch(0, 0, 1, 1);
  launch(1, 1, kBuffers - 1, 0);
  program.outputs.resize(1);
  program.outputs[0].buffer = kBuffers - 1;
  const auto problems = program::check_streams(program);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].code == "TSC-P014");
  CHECK(problems[0].message.find(
            "touches buffer \"b0\" and does not wait for step 0 of stream 1") != std::string::npos);
  Program right = program;
  program::add_waits(right);
  CHECK(right.steps[1].waits == std::vector<uint32_t>{0});
  TestDevice plain;
  const std::vector<float> expected = run(right, plain);
  bool differs = false;
  for (unsigned seed = 0; seed < 16; ++seed) {
    StreamDevice device(seed);
    differs |= !are_equal(run(program, device), expected);
    StreamDevice other(seed);
    CHECK(are_equal(run(right, other), expected));
  }
  CHECK(differs);
}

namespace {

/// Notes what runs that are recorded ask of it.
class NotingGroups final : public tsc_engine::Groups {
public:
  struct Recorded final : tsc_engine::RecordedCollectives {
    explicit Recorded(size_t &alive) : alive(alive) { ++alive; }
    ~Recorded() override { --alive; }
    size_t &alive;
  };
  tsc_engine::Communicator *find(const char *) override { return nullptr; }
  const char *why_not_recorded() const override { return may_record ? nullptr : "not here"; }
  void begin_recording() override { log += "["; }
  std::unique_ptr<tsc_engine::RecordedCollectives> end_recording(Stream) override {
    log += "]";
    return std::make_unique<Recorded>(alive);
  }
  void give_up_recording() override { log += "!"; }
  void begin_replay(const tsc_engine::RecordedCollectives &, Stream) override { log += "<"; }
  void end_replay(const tsc_engine::RecordedCollectives &, Stream) override { log += ">"; }
  bool may_record = false;
  size_t alive = 0;
  std::string log;
};

} // namespace

TEST_CASE("Runs with groups are recorded where these let them, and let go of them", "[engine]") {
  std::mt19937 random(7);
  Program program = random_program(random, 3);
  program::add_waits(program);
  const program::OwnedTables owned = program::build_tables(program);
  const auto model = std::make_shared<const Model>(owned.tables, tsc_engine::Plan::cuda);
  StreamDevice device(1);
  const auto weights =
      std::make_shared<WeightSet>(model, std::shared_ptr<Device>(&device, [](Device *) {}),
                                  [](const char *) { return WeightData(); });
  const int64_t sizes[] = {4, 4};
  const int64_t *shapes[] = {sizes};
  alignas(256) static float x[8][kSize], y[kBuffers][kSize];
  alignas(256) static char workspace[1 << 16];
  void *outputs[kBuffers];
  for (size_t i = 0; i < kBuffers; ++i)
    outputs[i] = y[i];
  NotingGroups groups;
  Instance instance(weights);
  instance.set_recording(true);
  instance.set_groups(&groups);
  const auto run = [&](size_t set) {
    REQUIRE(instance.bind(shapes) <= sizeof workspace);
    void *inputs[] = {x[set]};
    instance.run(nullptr, inputs, outputs, workspace);
    device.synchronize(nullptr);
  };
  run(0);
  run(0);
  CHECK(groups.log.empty());
  CHECK(device.recorded == 0);
  groups.may_record = true;
  run(0);
  CHECK(groups.log.empty()); // the first
  run(0);
  CHECK(groups.log == "[]<>");
  run(0);
  CHECK(groups.log == "[]<><>");
  for (size_t set : {1, 2, 3})
    run(set);
  CHECK(groups.log == "[]<><>[]<>[]<>[]<>");
  CHECK(groups.alive == 4);
  // No recording is brought up to date: the collectives of other addresses are others.
  run(4);
  run(2);
  CHECK(groups.log == "[]<><>[]<>[]<>[]<><>");
  CHECK(device.recorded == 4);
  CHECK(device.updated == 0);
  CHECK(instance.replayed() == 6);
  instance.set_groups(nullptr);
  CHECK(groups.alive == 0);
  device.can_record = false;
  Instance refused(weights);
  refused.set_recording(true);
  refused.set_groups(&groups);
  groups.log.clear();
  REQUIRE(refused.bind(shapes) <= sizeof workspace);
  for (int i = 0; i < 3; ++i) {
    void *inputs[] = {x[0]};
    refused.run(nullptr, inputs, outputs, workspace);
    device.synchronize(nullptr);
  }
  CHECK(groups.log == "[!");
  CHECK(refused.replayed() == 0);
}

TEST_CASE("Runs of the same shapes are recorded and replayed, whatever the addresses", "[engine]") {
  std::mt19937 random(7);
  Program program = random_program(random, 3);
  program::add_waits(program);
  const program::OwnedTables owned = program::build_tables(program);
  const auto model = std::make_shared<const Model>(owned.tables, tsc_engine::Plan::cuda);
  StreamDevice device(1);
  const auto weights =
      std::make_shared<WeightSet>(model, std::shared_ptr<Device>(&device, [](Device *) {}),
                                  [](const char *) { return WeightData(); });
  const size_t count = program.outputs.size();
  const int64_t sizes[] = {4, 4};
  const int64_t *shapes[] = {sizes};
  alignas(256) static float x[12][kSize], y[12][kBuffers][kSize];
  alignas(256) static char workspace[1 << 16];

  // Runs on set number `set` of inputs and outputs, and on numbers that are new each time.
  unsigned round = 0;
  const auto run_on = [&](Instance &instance, size_t set, Stream stream = nullptr) {
    REQUIRE(instance.bind(shapes) <= sizeof workspace);
    ++round;
    for (size_t i = 0; i < kSize; ++i)
      x[set][i] = static_cast<float>((i * round) % 11) / 8;
    void *inputs[] = {x[set]};
    void *outputs[kBuffers];
    for (size_t i = 0; i < count; ++i)
      outputs[i] = y[set][i];
    instance.run(stream, inputs, outputs, workspace);
    device.synchronize(nullptr);
    std::vector<float> results;
    for (size_t i = 0; i < count; ++i)
      results.insert(results.end(), y[set][i], y[set][i] + kSize);
    return results;
  };
  Instance plain(weights), instance(weights);
  instance.set_recording(true);
  const auto check_on = [&](size_t set, Stream stream = nullptr) {
    const unsigned before = round;
    const std::vector<float> expected = run_on(plain, 11);
    round = before; // the same numbers again
    CHECK(are_equal(run_on(instance, set, stream), expected));
  };

  check_on(0);
  CHECK(device.recorded == 0);
  for (int i = 0; i < 3; ++i)
    check_on(0);
  CHECK(device.recorded == 1);
  CHECK(device.replayed == 3);
  for (size_t set : {1, 2, 3, 0, 1, 2, 3})
    check_on(set);
  CHECK(device.recorded == 4);
  CHECK(device.updated == 0);
  check_on(4); // takes the place of 0
  CHECK(device.recorded == 5);
  CHECK(device.updated == 1);
  for (size_t set : {1, 2, 3, 4})
    check_on(set);
  CHECK(device.recorded == 5);

  // With poison a run is another one.
  instance.set_poison(true);
  check_on(4);
  CHECK(device.recorded == 6);
  instance.set_poison(false);

  // A stream that its owner records gets the steps themselves.
  const size_t replayed = device.replayed;
  char mark = 0;
  device.captured = &mark;
  check_on(4, device.captured);
  CHECK(device.replayed == replayed);
  device.captured = &device;

  // Addresses that never come back: each time one recording is brought up to date.
  Instance wanderer(weights);
  wanderer.set_recording(true);
  size_t before = device.recorded, updated = device.updated;
  for (size_t i = 0; i < 40; ++i)
    run_on(wanderer, i % 11);
  CHECK(device.recorded == before + 39);
  CHECK(device.updated == updated + 35);

  // Where that cannot be done the recordings that there are stay in use.
  device.can_update = false;
  Instance settled(weights);
  settled.set_recording(true);
  before = device.recorded;
  updated = device.updated;
  for (size_t round_of_sets = 0; round_of_sets < 3; ++round_of_sets)
    for (size_t set : {0, 1, 2, 3, 4, 5}) {
      const unsigned same = round;
      const std::vector<float> expected = run_on(plain, 11);
      round = same;
      CHECK(are_equal(run_on(settled, set), expected));
    }
  CHECK(device.recorded == before + 5);
  CHECK(device.updated == updated);
  const size_t hits = device.replayed;
  for (size_t set : {2, 3, 4, 0})
    run_on(settled, set);
  CHECK(device.replayed == hits + 4);

  // What cannot be recorded runs all the same.
  device.can_record = false;
  Instance refused(weights);
  refused.set_recording(true);
  for (int i = 0; i < 3; ++i) {
    const unsigned same = round;
    const std::vector<float> expected = run_on(plain, 11);
    round = same;
    CHECK(are_equal(run_on(refused, 0), expected));
  }
  CHECK(device.recorded == before + 5);
}

TEST_CASE("A run that is looked at marks each step on its stream, and gives the same numbers",
          "[engine]") {
  size_t several = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    Program program = random_program(random, 1 + seed % 4);
    program::add_waits(program);
    StreamDevice device(seed), plain(seed);
    std::vector<uint32_t> marked;
    std::set<Stream> streams;
    const StepMark mark = [&](uint32_t step, Stream stream, bool begins) {
      streams.insert(stream);
      if (begins)
        marked.push_back(step);
      else
        CHECK(marked.back() == step);
    };
    CHECK(are_equal(run(program, device, &mark), run(program, plain)));
    CHECK(std::is_sorted(marked.begin(), marked.begin() + static_cast<long>(marked.size() / 2)));
    CHECK(marked.size() > program.steps.size()); // those with nothing to do are left out
    several += streams.size() > 1;
  }
  CHECK(several > 10);
}

TEST_CASE("What a condition may leave out orders nothing behind it", "[engine]") {
  StreamOrder order(2);
  order.add(1, nullptr, 0); // 0
  order.add(0, nullptr, 0); // 1: decides
  order.begin_conditional();
  const int32_t first[] = {0};
  order.add(0, first, 1); // 2: waits, if it runs
  CHECK(order.is_before(0, 2));
  order.end_conditional();
  order.add(0, nullptr, 0); // 3
  CHECK_FALSE(order.is_before(0, 3));
  CHECK(order.is_before(2, 3));
  CHECK(order.last_beside() == std::vector<uint32_t>{3, 1, 2, 3});
}
