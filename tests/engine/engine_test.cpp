#include "engine/engine.h"
#include "program/tables.h"
#include "sample_program.h"
#include "test_device.h"

#include "testing/catch.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>

namespace {
bool counting = false;
size_t allocations = 0;
} // namespace

// Counts what a run allocates on the host. Inlined into each other's users, they would make g++
// warn that free() takes what operator new gave.
[[gnu::noinline]] void *operator new(size_t bytes) {
  allocations += counting;
  void *memory = std::malloc(bytes);
  if (memory == nullptr)
    throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void *operator new(size_t bytes, const std::nothrow_t &) noexcept {
  allocations += counting;
  return std::malloc(bytes);
}
[[gnu::noinline]] void operator delete(void *memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void *memory, size_t) noexcept { std::free(memory); }

namespace {

using namespace tsc;
using namespace tsc_engine;

const float kW[12] = {1, 2, 3, 4, 5, 6, -7, 8, 9, 10, -11, 12};
const float kBias[3] = {1, -2, 3};
const int64_t kWSizes[] = {4, 3}, kBiasSizes[] = {3}, kCountSizes[] = {1};
const int64_t kCount[] = {41};

WeightData weight(const char *name) {
  if (std::strcmp(name, "layer.w") == 0)
    return {kW, tsc_engine::DType::f32, kWSizes, 2};
  if (std::strcmp(name, "layer.bias") == 0)
    return {kBias, tsc_engine::DType::f32, kBiasSizes, 1};
  return {kCount, tsc_engine::DType::i64, kCountSizes, 1};
}

/// The sample program on a test device.
struct Sample {
  program::OwnedTables owned;
  std::shared_ptr<TestDevice> device = std::make_shared<TestDevice>();
  std::shared_ptr<const Model> model;
  std::shared_ptr<WeightSet> weights;

  explicit Sample(const program::Program &program = program::sample_program())
      : owned(program::build_tables(program)),
        model(std::make_shared<const Model>(owned.tables, tsc_engine::Plan::cuda)),
        weights(std::make_shared<WeightSet>(model, device, weight)) {}
};

float expected(const std::vector<float> &x, size_t row, size_t column) {
  float sum = kBias[column];
  for (size_t k = 0; k < 4; ++k)
    sum += (x[row * 4 + k] + 1) * 2 * kW[k * 3 + column];
  return sum > 0 ? sum : 0;
}

struct alignas(256) Memory {
  char bytes[65536];
};

/// Binds `rows`, runs, checks output_0 and output_2. Returns the counter.
int64_t run_and_check(Instance &instance, int64_t rows) {
  const int64_t sizes[] = {rows, 4};
  const int64_t *shapes[] = {sizes};
  size_t workspace_bytes = instance.bind(shapes);
  static Memory workspace, input, out, same, count;
  REQUIRE(workspace_bytes <= sizeof(Memory));
  std::vector<float> x;
  for (int64_t i = 0; i < rows * 4; ++i)
    x.push_back(static_cast<float>(i % 7) - 4);
  std::memcpy(input.bytes, x.data(), x.size() * 4);
  void *inputs[] = {input.bytes};
  void *outputs[] = {out.bytes, nullptr, same.bytes, count.bytes};
  counting = true;
  size_t before = allocations;
  instance.run(nullptr, inputs, outputs, workspace.bytes);
  counting = false;
  CHECK(allocations == before);
  const auto *result = reinterpret_cast<const float *>(out.bytes);
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row)
    for (size_t column = 0; column < 3; ++column)
      CHECK(result[row * 3 + column] == expected(x, row, column));
  CHECK(std::memcmp(same.bytes, x.data(), x.size() * 4) == 0);
  return *reinterpret_cast<const int64_t *>(count.bytes);
}

std::string error_of_bind(Instance &instance, int64_t rows, int64_t columns) {
  const int64_t sizes[] = {rows, columns};
  const int64_t *shapes[] = {sizes};
  try {
    instance.bind(shapes);
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

} // namespace

TEST_CASE("Homes and lifetimes follow from the tables", "[engine]") {
  Sample sample;
  const Model &model = *sample.model;
  CHECK(model.homes[0].kind == Home::Kind::input);
  CHECK(model.homes[1].kind == Home::Kind::weight);
  CHECK(model.homes[4].kind == Home::Kind::folded);
  CHECK(model.homes[5].kind == Home::Kind::workspace);
  CHECK(model.homes[6].kind == Home::Kind::output); // y lives where out, which takes it over, lives
  CHECK(model.homes[7].kind == Home::Kind::output);
  REQUIRE(model.lifetimes.size() == 1);
  CHECK(model.lifetimes[0].first == 1);
  CHECK(model.lifetimes[0].last == 2);
  CHECK(model.copied_outputs == std::vector<uint32_t>{2});
  CHECK(model.mutated_outputs == std::vector<uint32_t>{3});
  CHECK_FALSE(model.weight_is_used[0]); // only the run-once step reads w
}

TEST_CASE("What was there before a loop stays until its end", "[engine]") {
  program::Program sample;
  for (const char *name : {"x", "before", "inside", "y"})
    sample.buffers.push_back(
        program::make_buffer(name, program::Role::intermediate, {symbolic::Expr(4)}));
  program::Buffer truth =
      program::make_buffer("truth", program::Role::intermediate, {symbolic::Expr(1)});
  truth.dtype = tensor::DType::boolean;
  truth.bytes = 1;
  sample.buffers.push_back(truth);
  sample.buffers[0].role = program::Role::input;
  sample.buffers[3].role = program::Role::output;
  sample.inputs.push_back({"x", 0, false, std::nullopt});
  const auto copy = [&](uint32_t from, uint32_t to, int64_t bytes) {
    sample.steps.push_back({program::Copy{{from, 0}, {to, 0}, bytes}, "copy"});
  };
  copy(0, 1, 16);
  sample.steps.push_back({program::WhileLoop{{4, 0}, 2, 2}, "loop"});
  copy(0, 4, 1);  // the predicate, not the last step of the condition
  copy(0, 2, 16); // of its own
  copy(1, 2, 16);
  copy(2, 3, 16);
  const program::OwnedTables owned = program::build_tables(sample);
  const Model model(owned.tables, Plan::serial);
  std::map<std::string, std::pair<uint32_t, uint32_t>> lifetimes;
  for (const Lifetime &lifetime : model.lifetimes)
    lifetimes[owned.tables.buffers[lifetime.root].name] = {lifetime.first, lifetime.last};
  CHECK(lifetimes.at("before") == std::pair{0u, 5u});
  CHECK(lifetimes.at("truth") == std::pair{1u, 3u});
  CHECK(lifetimes.at("inside") == std::pair{3u, 5u});
  CHECK(reads_predicates(owned.tables));
}

TEST_CASE("A program runs, for one shape after another", "[engine]") {
  Sample sample;
  Instance instance(sample.weights);
  instance.set_poison(true);
  CHECK(run_and_check(instance, 5) == 42);
  CHECK(run_and_check(instance, 1) == 43);
  CHECK(run_and_check(instance, 1024) == 44);
  size_t prepared = sample.device->prepared;
  CHECK(run_and_check(instance, 5) == 45);
  CHECK(sample.device->prepared == prepared); // bound before
  CHECK(instance.output_sizes(0) == std::vector<int64_t>{5, 3});
  CHECK(instance.output_strides(0) == std::vector<int64_t>{3, 1});
  CHECK(instance.output_bytes(0) == 60);
  CHECK(instance.output_bytes(1) == 0);
  Instance second(sample.weights);
  CHECK(run_and_check(second, 3) == 46); // the counter is the weight set's
}

TEST_CASE("Tensor maps are arguments, made when their tensor has moved", "[engine]") {
  program::Program program = program::sample_program();
  const symbolic::Expr rows = symbolic::symbol(symbolic::SymbolSort::size, 0);
  program.kernels[1].cuda.maps = {{0, 0, {4, rows}, {1, 4}, {32, 16}}};
  Sample sample(program);
  Instance instance(sample.weights);
  run_and_check(instance, 5);
  CHECK(sample.device->maps == 1);
  CHECK(sample.device->map_launches == 1);
  CHECK(sample.device->last_map.rank == 2);
  CHECK(sample.device->last_map.sizes[1] == 5);
  CHECK(sample.device->last_map.strides[1] == 16);
  CHECK(sample.device->last_map.box[0] == 32);
  run_and_check(instance, 5); // where it was
  CHECK(sample.device->maps == 1);
  run_and_check(instance, 7);
  CHECK(sample.device->maps == 2);
  CHECK(sample.device->map_launches == 3);
  program.kernels[1].cuda.maps[0].strides[1] = 8; // beyond the input
  Sample wrong(program);
  Instance other(wrong.weights);
  CHECK(error_of_bind(other, 5, 4).find("too small") != std::string::npos);
}

TEST_CASE("What only run-once steps read is given back", "[engine]") {
  auto device = std::make_shared<TestDevice>();
  {
    Sample sample;
    device = sample.device;
    CHECK(device->live.size() == 3); // bias, count, twice
    CHECK(sample.weights->bytes() == 12 + 8 + 48);
  }
  CHECK(device->live.empty());
}

TEST_CASE("Errors of bind name input, dimension and range", "[engine]") {
  Sample sample;
  Instance instance(sample.weights);
  CHECK(error_of_bind(instance, 0, 4) ==
        "input \"x\", dimension 0: size 0 is outside [1, 1024], the range of s0");
  CHECK(error_of_bind(instance, 2, 5) == "input \"x\", dimension 1: size 5, expected 4");
  void *none[] = {nullptr, nullptr, nullptr, nullptr};
  CHECK_THROWS_WITH(instance.run(nullptr, none, none, nullptr),
                    "no shapes are bound: call bind first");
  CHECK(run_and_check(instance, 2) == 42);
  CHECK(error_of_bind(instance, 2, 5) != "");
  CHECK(instance.output_sizes(0) == std::vector<int64_t>{2, 3}); // the last good binding stays
  CHECK_THROWS_WITH(instance.run(nullptr, none, none, nullptr),
                    "input \"x\" is null, but 32 bytes are needed");
}

TEST_CASE("A failing step is named", "[engine]") {
  Sample sample;
  Instance instance(sample.weights);
  sample.device->fail_at_launch = sample.device->launches + 1;
  const int64_t sizes[] = {2, 4};
  const int64_t *shapes[] = {sizes};
  instance.bind(shapes);
  static Memory memory[5];
  void *inputs[] = {memory[0].bytes};
  void *outputs[] = {memory[1].bytes, nullptr, memory[2].bytes, nullptr};
  CHECK_THROWS_WITH(instance.run(nullptr, inputs, outputs, memory[4].bytes),
                    "step 3 (relu): the device is tired");
}

TEST_CASE("Weights that do not fit are all named", "[engine]") {
  program::OwnedTables owned = program::build_tables(program::sample_program());
  auto model = std::make_shared<const Model>(owned.tables, tsc_engine::Plan::cuda);
  auto device = std::make_shared<TestDevice>();
  auto source = [](const char *name) -> WeightData {
    if (std::strcmp(name, "layer.w") == 0)
      return {kW, tsc_engine::DType::f32, kBiasSizes, 1};
    if (std::strcmp(name, "layer.bias") == 0)
      return {kBias, tsc_engine::DType::f16, kBiasSizes, 1};
    return {};
  };
  CHECK_THROWS_WITH(WeightSet(model, device, source),
                    "weight \"layer.w\" has shape [3], the model needs [4, 3]\n"
                    "weight \"layer.bias\" is f16, the model needs f32\n"
                    "weight \"layer.count\" is missing");
  auto unknown = [](const char *) -> WeightData {
    return {kW, static_cast<tsc_engine::DType>(60), kBiasSizes, 1}; // a type that files may hold
  };
  CHECK_THROWS_WITH(WeightSet(model, device, unknown),
                    "weight \"layer.w\" is of another type, the model needs f32\n"
                    "weight \"layer.bias\" is of another type, the model needs f32\n"
                    "weight \"layer.count\" is of another type, the model needs i64");
  CHECK(device->live.empty());
}

TEST_CASE("Weights are laid out as the model stores them", "[engine]") {
  program::Program program = program::sample_program();
  program.steps.erase(program.steps.begin(), program.steps.begin() + 1);
  program.buffers[1].layout.strides = {symbolic::Expr(1), symbolic::Expr(5)};
  program.buffers[1].layout.offset = 1;
  program.buffers[1].bytes = 64;
  auto &matmul = std::get<program::Matmul>(program.steps[1].kind);
  matmul.b = {1, symbolic::Expr(1), symbolic::Expr(1), symbolic::Expr(5), symbolic::Expr(0)};
  matmul.alpha = 2;
  Sample sample(program);
  Instance instance(sample.weights);
  CHECK(run_and_check(instance, 6) == 42);
}

TEST_CASE("A product that reaches beyond its buffer is refused at bind", "[engine]") {
  program::Program program = program::sample_program();
  std::get<program::Matmul>(program.steps[2].kind).a.offset = 1;
  Sample sample(program);
  Instance instance(sample.weights);
  CHECK(error_of_bind(instance, 2, 4) == "step 2 (matmul): buffer moved is too small for it");
}

TEST_CASE("An input or output that reaches beyond its buffer is refused at bind", "[engine]") {
  program::Program program = program::sample_program();
  program.outputs[0].layout.sizes[1] = 4;
  {
    Sample sample(program);
    Instance instance(sample.weights);
    CHECK(error_of_bind(instance, 2, 4) ==
          "output \"output_0\" reaches beyond its buffer of 24 bytes");
  }
  program = program::sample_program();
  program.buffers[0].bytes = 8;
  {
    Sample sample(program);
    Instance instance(sample.weights);
    CHECK(error_of_bind(instance, 2, 4) == "input \"x\" reaches beyond its buffer of 8 bytes");
  }
  program = program::sample_program();
  symbolic::Expr s0 = symbolic::symbol(symbolic::SymbolSort::size, 0);
  program.outputs[0].layout.strides[0] = 4 - s0;
  Sample sample(program);
  Instance instance(sample.weights);
  CHECK(error_of_bind(instance, 5, 4) ==
        "a size or stride of output \"output_0\" is negative for these shapes");
}

TEST_CASE("A buffer over folded memory is no larger than what was folded", "[engine]") {
  program::Program program = program::sample_program();
  symbolic::Expr s0 = symbolic::symbol(symbolic::SymbolSort::size, 0);
  program::Buffer alias = program::make_buffer("alias", program::Role::intermediate, {s0});
  alias.alias_of = 4; // twice, 48 bytes
  program.buffers.push_back(alias);
  auto last = static_cast<uint32_t>(program.buffers.size() - 1);
  program.steps.push_back({program::Copy{{0, 0}, {last, 0}, 4 * s0}, "copy"});
  Sample sample(program);
  Instance instance(sample.weights);
  CHECK(error_of_bind(instance, 12, 4).empty());
  CHECK(error_of_bind(instance, 13, 4) == "step 5 (copy): buffer alias is too small for it");
}

namespace {

/// One of two ranks, the other one's memory being a constant.
class HalfPair final : public Communicator, public Groups {
public:
  int64_t rank() const override { return 1; }
  int64_t ranks() const override { return 2; }
  Communicator *find(const char *name) override {
    return std::string(name) == "pair" ? this : nullptr;
  }
  void check() override {
    if (has_failed)
      throw Error(Status::device, "the other half is gone");
  }
  void run(const CollectiveCall &call, const void *from, void *to, Stream) override {
    calls.push_back(std::string(call.step) + " of " + call.node);
    if (call.kind == CollectiveKind::all_to_all) {
      CHECK(std::vector<int64_t>(call.sends, call.sends + 2) == std::vector<int64_t>{2, 6});
      CHECK(std::vector<int64_t>(call.receives, call.receives + 2) == std::vector<int64_t>{8, 8});
      return;
    }
    CHECK(call.kind == CollectiveKind::all_gather);
    const size_t bytes = static_cast<size_t>(call.count) * size_in_bytes(call.dtype);
    std::memset(to, 0, bytes);
    std::memcpy(static_cast<char *>(to) + bytes, from, bytes);
  }
  std::vector<std::string> calls;
  bool has_failed = false;
};

} // namespace

TEST_CASE("Collectives go through the communicator, and are refused without", "[engine]") {
  program::Program program = program::sample_program();
  const symbolic::Expr s0 = symbolic::symbol(symbolic::SymbolSort::size, 0);
  program.buffers.push_back(program::make_buffer("gathered", program::Role::output, {8 * s0}));
  const auto gathered = static_cast<uint32_t>(program.buffers.size() - 1);
  program::Collective gather;
  gather.ranks = 2;
  gather.group = "pair";
  gather.node = "ag0";
  gather.from = {0, 0};
  gather.to = {gathered, 0};
  gather.count = 4 * s0;
  program.steps.push_back({gather, "gather"});
  program.steps.push_back({program::Fill{{gathered, 4 * s0}, 4}, "zeros"});
  program.outputs.push_back(
      {"output_3", gathered, program.buffers[gathered].layout, program::DType::f32, false, ""});
  Sample sample(program);
  Instance instance(sample.weights);
  REQUIRE(error_of_bind(instance, 2, 4).empty());
  static Memory workspace, input, out, same, count, all;
  auto *x = reinterpret_cast<float *>(input.bytes);
  for (int i = 0; i < 8; ++i)
    x[i] = static_cast<float>(i + 1);
  void *inputs[] = {input.bytes};
  void *outputs[] = {out.bytes, nullptr, same.bytes, count.bytes, all.bytes};
  std::string error;
  try {
    instance.run(nullptr, inputs, outputs, workspace.bytes);
  } catch (const Error &refused) {
    error = refused.what();
  }
  CHECK(error ==
        "step 5 (gather): it communicates among 2 ranks of group 'pair', and this run has 1");
  HalfPair pair;
  instance.set_groups(&pair);
  instance.run(nullptr, inputs, outputs, workspace.bytes);
  const auto *result = reinterpret_cast<const float *>(all.bytes);
  for (int i = 0; i < 16; ++i)
    CHECK(result[i] == (i <= 8 ? 0.0f : static_cast<float>(i - 7))); // element 8 was cleared
  CHECK(pair.calls == std::vector<std::string>{"gather of ag0"});
  pair.has_failed = true;
  try {
    instance.run(nullptr, inputs, outputs, workspace.bytes);
    CHECK(false);
  } catch (const Error &failed) {
    CHECK(std::string(failed.what()) == "the other half is gone");
  }
}

TEST_CASE("Parts of an exchange among all ranks follow from the shapes", "[engine]") {
  program::Program program = program::sample_program();
  const symbolic::Expr s0 = symbolic::symbol(symbolic::SymbolSort::size, 0);
  program.buffers.push_back(program::make_buffer("received", program::Role::output, {8 * s0}));
  const auto received = static_cast<uint32_t>(program.buffers.size() - 1);
  program::Collective exchange;
  exchange.kind = program::Collective::Kind::all_to_all;
  exchange.ranks = 2;
  exchange.group = "pair";
  exchange.from = {0, 0};
  exchange.to = {received, 0};
  exchange.sends = {s0, 3 * s0};
  exchange.receives = {4 * s0, 4 * s0};
  program.steps.push_back({exchange, "exchange"});
  program.outputs.push_back(
      {"output_3", received, program.buffers[received].layout, program::DType::f32, false, ""});
  Sample sample(program);
  Instance instance(sample.weights);
  REQUIRE(error_of_bind(instance, 2, 4).empty());
  static Memory workspace, input, out, same, count, all;
  void *inputs[] = {input.bytes};
  void *outputs[] = {out.bytes, nullptr, same.bytes, count.bytes, all.bytes};
  HalfPair pair;
  instance.set_groups(&pair);
  instance.run(nullptr, inputs, outputs, workspace.bytes);
  CHECK(pair.calls == std::vector<std::string>{"exchange of "});
}

TEST_CASE("Sizes beyond 64 bits are errors", "[engine]") {
  program::Program program = program::sample_program();
  symbolic::Expr s0 = symbolic::symbol(symbolic::SymbolSort::size, 0);
  program.symbols[0].high = INT64_MAX;
  program.buffers[5].bytes = s0 * s0 * 16;
  Sample sample(program);
  Instance instance(sample.weights);
  CHECK(error_of_bind(instance, int64_t(1) << 40, 4) ==
        "the size " + symbolic::print(s0 * s0 * 16) + " is beyond 64 bits for these shapes");
}

TEST_CASE("Copies between contiguous and strided storage undo each other", "[engine]") {
  const int64_t sizes[] = {2, 3, 2}, strides[] = {1, 4, 2};
  int32_t contiguous[12], back[12], storage[16] = {};
  for (int i = 0; i < 12; ++i)
    contiguous[i] = i + 1;
  scatter_to_strided(storage, contiguous, 4, 3, sizes, strides, 1);
  CHECK(storage[1 + 1 * 1 + 2 * 4 + 1 * 2] == 12);
  CHECK(storage[0] == 0);
  gather_from_strided(back, storage, 4, 3, sizes, strides, 1);
  CHECK(std::memcmp(contiguous, back, sizeof back) == 0);
  int32_t scalar = 7, copy = 0;
  scatter_to_strided(&copy, &scalar, 4, 0, nullptr, nullptr, 0);
  CHECK(copy == 7);
}
