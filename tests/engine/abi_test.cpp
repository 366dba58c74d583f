#include "engine/model_hooks.h"
#include "engine/tsc_model.h"
#include "program/tables.h"
#include "sample_program.h"
#include "test_device.h"

#include "testing/catch.h"

#include <cstring>

namespace tsc_engine {

Table<ArchPlan> arch_plans() {
  static const tsc::program::OwnedTables kOwned =
      tsc::program::build_tables(tsc::program::sample_program());
  static const ArchPlan kPlan = {"sm_90", 0, &kOwned.tables};
  return {&kPlan, 1};
}
Plan model_plan() { return Plan::serial; }
const char *model_device_name() { return "host"; }
Arch model_device_arch(int) { return {"host", 0}; }
std::shared_ptr<Device> open_model_device(int index, size_t) {
  if (index != 0)
    throw Error(Status::device, "there is only device 0");
  return std::make_shared<TestDevice>();
}
std::unique_ptr<Groups> connect_model_group(int, const ModelGroup &) {
  throw Error(Status::bad_argument, "no communicators here");
}
void make_model_communicator_id(void *) {
  throw Error(Status::bad_argument, "no communicators here");
}

} // namespace tsc_engine

namespace {

const TscModel &functions = *tsc_engine::model_functions();

const float kW[12] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0};
const float kBias[3] = {0, 0, 0};
const int64_t kCount[] = {0};
const int64_t kWSizes[] = {4, 3}, kBiasSizes[] = {3}, kCountSizes[] = {1};
const TscTensorData kTensors[] = {{"layer.w", kW, TSC_F32, 2, kWSizes},
                                  {"layer.bias", kBias, TSC_F32, 1, kBiasSizes},
                                  {"layer.count", kCount, TSC_I64, 1, kCountSizes},
                                  {"unknown", nullptr, TSC_F32, 0, nullptr}};

} // namespace

TEST_CASE("The C ABI describes the model", "[engine]") {
  const TscModelInfo *info = functions.describe();
  CHECK(info->abi_version == TSC_ABI_VERSION);
  CHECK(std::strcmp(info->name, "sample") == 0);
  REQUIRE(info->input_count == 1);
  CHECK(info->inputs[0].rank == 2);
  CHECK(std::strcmp(info->inputs[0].sizes[0].expression, "s0") == 0);
  CHECK(info->inputs[0].sizes[0].high == 1024);
  CHECK(info->inputs[0].sizes[1].expression == nullptr);
  CHECK(info->inputs[0].sizes[1].value == 4);
  REQUIRE(info->output_count == 4);
  CHECK(std::strcmp(info->outputs[1].constant, "None") == 0);
  CHECK(info->outputs[3].is_mutated == 1);
  CHECK(info->weight_count == 3);
  CHECK(info->reads_predicates == 0);
}

TEST_CASE("The C ABI runs the model", "[engine]") {
  TscWeights *weights = nullptr;
  REQUIRE(functions.weights_create(0, kTensors, 4, &weights) == TSC_OK);
  TscInstance *instance = nullptr;
  REQUIRE(functions.instance_create(weights, &instance) == TSC_OK);
  functions.weights_destroy(weights); // the instance keeps what it needs
  const int64_t sizes[] = {2, 4};
  const int64_t *shapes[] = {sizes};
  size_t workspace_bytes = 0;
  REQUIRE(functions.instance_bind(instance, shapes, &workspace_bytes) == TSC_OK);
  size_t input_bytes[1], output_bytes[4];
  REQUIRE(functions.instance_bytes(instance, input_bytes, output_bytes) == TSC_OK);
  CHECK(input_bytes[0] == 32);
  CHECK(output_bytes[0] == 24);
  alignas(256) static char workspace[4096];
  alignas(16) float x[8] = {1, 2, 3, 4, -5, 6, 7, 8}, out[6] = {}, same[8] = {};
  REQUIRE(workspace_bytes <= sizeof workspace);
  void *inputs[] = {x};
  void *outputs[] = {out, nullptr, same, nullptr};
  functions.instance_set_poison(instance, 1);
  REQUIRE(functions.instance_run(instance, nullptr, inputs, outputs, workspace) == TSC_OK);
  CHECK(functions.instance_check(instance, nullptr) == TSC_OK);
  CHECK(out[0] == 4);
  CHECK(out[3] == 0);
  CHECK(out[5] == 16);
  int64_t out_sizes[2], offset = -1;
  REQUIRE(functions.instance_output(instance, 0, out_sizes, nullptr, &offset) == TSC_OK);
  CHECK(out_sizes[0] == 2);
  CHECK(out_sizes[1] == 3);
  CHECK(offset == 0);
  functions.instance_destroy(instance);
}

TEST_CASE("Failures cross the C ABI as status and text", "[engine]") {
  TscWeights *weights = nullptr;
  CHECK(functions.weights_create(0, kTensors, 2, &weights) == TSC_BAD_ARGUMENT);
  CHECK(weights == nullptr);
  CHECK(std::strcmp(functions.create_error(), "weight \"layer.count\" is missing") == 0);
  CHECK(functions.weights_create(1, kTensors, 4, &weights) == TSC_DEVICE_FAILED);
  CHECK(functions.weights_load(0, "/nowhere", &weights) == TSC_BAD_ARGUMENT);
  CHECK(std::strcmp(functions.create_error(), "/nowhere: No such file or directory") == 0);
  REQUIRE(functions.weights_create(0, kTensors, 4, &weights) == TSC_OK);
  TscInstance *instance = nullptr;
  REQUIRE(functions.instance_create(weights, &instance) == TSC_OK);
  const int64_t sizes[] = {2, 9};
  const int64_t *shapes[] = {sizes};
  CHECK(functions.instance_bind(instance, shapes, nullptr) == TSC_BAD_ARGUMENT);
  CHECK(std::strcmp(functions.instance_error(instance),
                    "input \"x\", dimension 1: size 9, expected 4") == 0);
  CHECK(functions.instance_bytes(instance, nullptr, nullptr) ==
        TSC_BAD_ARGUMENT); // nothing is bound
  CHECK(functions.instance_output(instance, 9, nullptr, nullptr, nullptr) == TSC_BAD_ARGUMENT);
  functions.instance_destroy(instance);
  functions.weights_destroy(weights);
}

TEST_CASE("The C ABI connects the groups that the model names, and no others", "[engine]") {
  TscWeights *weights = nullptr;
  REQUIRE(functions.weights_create(0, kTensors, 4, &weights) == TSC_OK);
  TscInstance *instance = nullptr;
  REQUIRE(functions.instance_create(weights, &instance) == TSC_OK);
  int64_t ranks = 7;
  CHECK(functions.group_name(0, &ranks) == nullptr); // the sample does not communicate
  int handle = 0;
  CHECK(functions.instance_set_communicator(instance, "0", &handle) == TSC_BAD_ARGUMENT);
  CHECK(std::string(functions.instance_error(instance)) == "the model has no group '0'");
  CHECK(functions.instance_set_communicator(instance, "0", nullptr) == TSC_BAD_ARGUMENT);
  CHECK(std::string(functions.instance_error(instance)) == "the communicator must not be null");
  CHECK(functions.instance_set_communicator(instance, nullptr, &handle) == TSC_BAD_ARGUMENT);
  CHECK(functions.instance_set_communicator(nullptr, "0", &handle) == TSC_BAD_ARGUMENT);
  CHECK(functions.instance_make_communicator(instance, "0", nullptr, 0, 2, 1) == TSC_BAD_ARGUMENT);
  CHECK(std::string(functions.instance_error(instance)) == "the id must not be null");
  char id[TSC_COMMUNICATOR_ID_BYTES] = {};
  CHECK(functions.instance_make_communicator(instance, "0", id, 2, 2, 1) == TSC_BAD_ARGUMENT);
  CHECK(functions.communicator_id(nullptr) == TSC_BAD_ARGUMENT);
  CHECK(functions.communicator_id(id) == TSC_BAD_ARGUMENT);
  CHECK(std::string(functions.create_error()) == "no communicators here");
  functions.instance_destroy(instance);
  functions.weights_destroy(weights);
}
