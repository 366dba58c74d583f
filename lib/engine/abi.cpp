// The C ABI over the engine: no exception leaves a function of this file.
#include "tsc_model.h"

#include "engine/model_hooks.h"
#include "engine/weights_file.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <new>
#include <sys/stat.h>

struct TscWeights {
  std::shared_ptr<tsc_engine::WeightSet> set;
  int device = 0;
};

namespace {

/// The groups that an instance was given, each with a connection of its own.
class GivenGroups final : public tsc_engine::Groups {
public:
  tsc_engine::Communicator *find(const char *name) override {
    const auto found = groups_.find(name);
    return found == groups_.end() ? nullptr : found->second->find("");
  }
  void check() override {
    for (auto &entry : groups_)
      entry.second->check();
  }
  void set(const char *name, std::unique_ptr<tsc_engine::Groups> connection) {
    groups_[name] = std::move(connection);
  }

private:
  std::map<std::string, std::unique_ptr<tsc_engine::Groups>> groups_;
};

} // namespace

struct TscInstance {
  TscInstance(std::shared_ptr<tsc_engine::WeightSet> set, int device)
      : instance(std::move(set)), device(device) {
    instance.set_recording(true);
  }
  GivenGroups groups;
  tsc_engine::Instance instance;
  int device;
  std::string error;
};

namespace {

using namespace tsc_engine;

thread_local std::string last_error;

static_assert(TSC_F64 == static_cast<int>(DType::f64) &&
              TSC_F8E8M0FNU == static_cast<int>(DType::f8e8m0fnu) &&
              TSC_BF16 == static_cast<int>(DType::bf16) && TSC_U16 == static_cast<int>(DType::u16));
static_assert(TSC_INTERNAL == static_cast<int>(Status::internal) &&
              TSC_ASSERTION_FAILED == static_cast<int>(Status::assertion));

/// A text may need memory that is not there: the status then says it all.
TscStatus failed(TscStatus status, std::string &error, const char *text) noexcept {
  try {
    error = text;
  } catch (...) {
    error.clear();
  }
  return status;
}

/// Calls body(); a failure becomes a status, with its text in `error`.
template <class Body> TscStatus guarded(std::string &error, const Body &body) noexcept {
  try {
    body();
    return TSC_OK;
  } catch (const Error &failure) {
    return failed(static_cast<TscStatus>(failure.status), error, failure.what());
  } catch (const std::bad_alloc &) {
    return failed(TSC_OUT_OF_MEMORY, error, "out of host memory");
  } catch (const std::exception &failure) {
    return failed(TSC_INTERNAL, error, failure.what());
  } catch (...) {
    return failed(TSC_INTERNAL, error, "unknown failure");
  }
}

/// The same for a call on an instance, which may be null.
template <class Body> TscStatus guarded(TscInstance *instance, const Body &body) noexcept {
  return instance == nullptr ? failed(TSC_BAD_ARGUMENT, last_error, "the instance must not be null")
                             : guarded(instance->error, [&] { body(instance->instance); });
}

void need(const void *pointer, const char *what) {
  if (pointer == nullptr)
    throw Error(Status::bad_argument, std::string(what) + " must not be null");
}
/// An array of `count` elements, which may be null if there are none.
void need_array(const void *array, size_t count, const char *what) {
  if (count != 0)
    need(array, what);
}

/// By plan number.
const std::vector<std::shared_ptr<const Model>> &models() {
  static const std::vector<std::shared_ptr<const Model>> kModels = [] {
    std::vector<std::shared_ptr<const Model>> made;
    for (const ArchPlan &plan : arch_plans())
      made.push_back(std::make_shared<const Model>(*plan.tables, model_plan()));
    return made;
  }();
  return kModels;
}

size_t plan_for(int device) {
  std::vector<Arch> plans;
  for (const ArchPlan &plan : arch_plans())
    plans.push_back({plan.arch, plan.shared_bytes});
  return plans.size() == 1 ? 0 : choose_arch(plans, model_device_arch(device));
}

/// Descriptors of the signature, made once.
class Description {
public:
  Description() : tables_(*arch_plans()[0].tables) {
    for (const Input &input : tables_.inputs) {
      inputs_.push_back(tensor(input.name, input.view, input.mutated));
      if (input.is_scalar) {
        sizes_.push_back({size(input.value)});
        inputs_.back().value = sizes_.back().data();
      }
    }
    for (const Output &output : tables_.outputs) {
      outputs_.push_back(tensor(output.name, output.view, output.is_mutation));
      if (output.buffer < 0)
        outputs_.back().constant = output.text;
      if (*output.path != '\0')
        outputs_.back().path = output.path;
    }
    for (const Weight &weight : tables_.weights)
      weights_.push_back(tensor(weight.name, weight.view, weight.mutated));
    info_ = {TSC_ABI_VERSION,     tables_.name,
             model_device_name(), inputs_.size(),
             outputs_.size(),     weights_.size(),
             inputs_.data(),      outputs_.data(),
             weights_.data(),     reads_predicates(tables_) ? 1 : 0};
  }
  const TscModelInfo *info() const { return &info_; }

private:
  TscSize size(const Size &size) const {
    if (size.expression < 0)
      return {size.value, nullptr, size.value, size.value};
    const Expression &row = tables_.expressions[static_cast<size_t>(size.expression)];
    return {0, row.text, row.low, row.high};
  }
  const TscSize *sizes(const Range &range) {
    std::vector<TscSize> list;
    list.reserve(static_cast<size_t>(range.count));
    for (int32_t i = 0; i < range.count; ++i)
      list.push_back(size(tables_.sizes[static_cast<size_t>(range.first + i)]));
    sizes_.push_back(std::move(list));
    return sizes_.back().data();
  }
  TscTensorInfo tensor(const char *name, const TensorView &view, bool is_mutated) {
    TscTensorInfo info = {};
    info.name = name;
    info.dtype = static_cast<TscDType>(view.dtype);
    info.rank = view.sizes.count;
    info.sizes = sizes(view.sizes);
    info.strides = sizes(view.strides);
    info.offset = size(view.offset);
    info.is_mutated = is_mutated ? 1 : 0;
    return info;
  }
  const Tables &tables_;
  std::vector<TscTensorInfo> inputs_, outputs_, weights_;
  std::deque<std::vector<TscSize>> sizes_;
  TscModelInfo info_ = {};
};

std::unique_ptr<TscWeights> create_weights(int device, const WeightSource &source) {
  auto created = std::make_unique<TscWeights>();
  const size_t plan = plan_for(device);
  created->device = device;
  created->set =
      std::make_shared<WeightSet>(models()[plan], open_model_device(device, plan), source);
  return created;
}

/// What the caller says of a tensor, before any of it is followed.
void check_tensor(const TscTensorData &tensor, size_t position) {
  if (tensor.name == nullptr)
    throw Error(Status::bad_argument,
                "the name of tensor " + std::to_string(position) + " must not be null");
  const std::string what = std::string("weight \"") + tensor.name + "\" ";
  if (tensor.rank < 0)
    throw Error(Status::bad_argument, what + "has rank " + std::to_string(tensor.rank));
  if (tensor.sizes == nullptr && tensor.rank != 0)
    throw Error(Status::bad_argument, what + "has no sizes");
}

WeightData weight_data(const TscTensorData &tensor) {
  const int64_t *end = tensor.rank == 0 ? tensor.sizes : tensor.sizes + tensor.rank;
  const bool is_empty = std::find(tensor.sizes, end, 0) != end; // may come without memory
  return {is_empty ? "" : tensor.data, static_cast<DType>(tensor.dtype), tensor.sizes,
          static_cast<size_t>(tensor.rank)};
}

const TscModelInfo *describe(void) {
  try {
    static const Description kDescription;
    return kDescription.info();
  } catch (...) { // memory of the host
    failed(TSC_OUT_OF_MEMORY, last_error, "out of host memory");
    return nullptr;
  }
}

TscStatus weights_create(int device, const TscTensorData *tensors, size_t count,
                         TscWeights **weights) {
  return guarded(last_error, [&] {
    need(weights, "the place for the weights");
    *weights = nullptr;
    need_array(tensors, count, "the array of tensors");
    std::map<std::string, const TscTensorData *> by_name;
    for (size_t i = 0; i < count; ++i) {
      check_tensor(tensors[i], i);
      if (!by_name.emplace(tensors[i].name, &tensors[i]).second)
        throw Error(Status::bad_argument,
                    std::string("weight \"") + tensors[i].name + "\" is given twice");
    }
    const auto source = [&](const char *name) {
      auto found = by_name.find(name);
      return found == by_name.end() ? WeightData() : weight_data(*found->second);
    };
    *weights = create_weights(device, source).release();
  });
}

TscStatus weights_load(int device, const char *path, TscWeights **weights) {
  return guarded(last_error, [&] {
    need(weights, "the place for the weights");
    *weights = nullptr;
    need(path, "the path of the weights");
    std::string name = path;
    struct stat info = {};
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
      name += "/weights.safetensors";
    WeightsFile file(name);
    const auto source = [&](const char *weight) { return file.find(weight); };
    *weights = create_weights(device, source).release();
  });
}

void weights_destroy(TscWeights *weights) { delete weights; }
size_t weights_bytes(const TscWeights *weights) {
  return weights == nullptr ? 0 : weights->set->bytes();
}

TscStatus instance_create(TscWeights *weights, TscInstance **instance) {
  return guarded(last_error, [&] {
    need(instance, "the place for the instance");
    *instance = nullptr;
    need(weights, "the weights");
    *instance = new TscInstance(weights->set, weights->device);
  });
}
void instance_destroy(TscInstance *instance) { delete instance; }

TscStatus instance_bind(TscInstance *instance, const int64_t *const *shapes,
                        size_t *workspace_bytes) {
  return guarded(instance, [&](Instance &bound) {
    const Tables &tables = bound.model().tables;
    need_array(shapes, tables.inputs.count, "the array of shapes");
    for (size_t i = 0; i < tables.inputs.count; ++i) {
      const Input &input = tables.inputs[i];
      if (shapes[i] == nullptr && (input.is_scalar || input.view.sizes.count != 0))
        throw Error(Status::bad_argument,
                    std::string(input.is_scalar ? "the place of the value" : "the array of sizes") +
                        " of input \"" + input.name + "\" must not be null");
    }
    size_t bytes = bound.bind(shapes);
    if (workspace_bytes != nullptr)
      *workspace_bytes = bytes;
  });
}

TscStatus instance_run(TscInstance *instance, void *stream, void *const *inputs,
                       void *const *outputs, void *workspace) {
  return guarded(instance, [&](Instance &bound) {
    const Tables &tables = bound.model().tables;
    need_array(inputs, tables.inputs.count, "the array of inputs");
    need_array(outputs, tables.outputs.count, "the array of outputs");
    bound.run(stream, inputs, outputs, workspace);
  });
}

TscStatus instance_check(TscInstance *instance, void *stream) {
  return guarded(instance, [&](Instance &bound) { bound.check(stream); });
}

TscStatus instance_bytes(TscInstance *instance, size_t *inputs, size_t *outputs) {
  return guarded(instance, [&](Instance &bound) {
    bound.workspace_bytes(); // fails if no shapes are bound
    const Tables &tables = bound.model().tables;
    for (size_t i = 0; inputs != nullptr && i < tables.inputs.count; ++i)
      inputs[i] = bound.input_bytes(i);
    for (size_t i = 0; outputs != nullptr && i < tables.outputs.count; ++i)
      outputs[i] = bound.output_bytes(i);
  });
}

TscStatus instance_output(TscInstance *instance, size_t output, int64_t *sizes, int64_t *strides,
                          int64_t *offset) {
  return guarded(instance, [&](Instance &bound) {
    if (output >= bound.model().tables.outputs.count)
      throw Error(Status::bad_argument, "output " + std::to_string(output) + " does not exist");
    std::vector<int64_t> actual_sizes = bound.output_sizes(output);
    std::vector<int64_t> actual_strides = bound.output_strides(output);
    for (size_t axis = 0; axis < actual_sizes.size(); ++axis) {
      if (sizes != nullptr)
        sizes[axis] = actual_sizes[axis];
      if (strides != nullptr)
        strides[axis] = actual_strides[axis];
    }
    if (offset != nullptr)
      *offset = bound.output_offset(output);
  });
}

TscStatus instance_output_memory(TscInstance *instance, size_t output, void *given, void **memory) {
  return guarded(instance, [&](Instance &bound) {
    if (output >= bound.model().tables.outputs.count)
      throw Error(Status::bad_argument, "output " + std::to_string(output) + " does not exist");
    need(memory, "the place for the memory");
    *memory = bound.output_memory(output, given);
  });
}

void instance_set_graphs(TscInstance *instance, int on) {
  if (instance != nullptr)
    instance->instance.set_recording(on != 0);
}

void instance_set_poison(TscInstance *instance, int on) {
  if (instance != nullptr)
    instance->instance.set_poison(on != 0);
}

TscStatus instance_set_seed(TscInstance *instance, void *stream, uint64_t seed, uint64_t call) {
  return guarded(instance, [&](Instance &bound) { bound.set_seed(stream, seed, call); });
}

const char *instance_error(const TscInstance *instance) {
  return instance == nullptr ? last_error.c_str() : instance->error.c_str();
}
const char *create_error(void) { return last_error.c_str(); }

TscStatus memory_allocate(TscWeights *weights, size_t bytes, void **memory) {
  return guarded(last_error, [&] {
    need(memory, "the place for the memory");
    *memory = nullptr;
    need(weights, "the weights");
    *memory = weights->set->device().allocate(bytes);
  });
}
void memory_release(TscWeights *weights, void *memory) {
  if (weights != nullptr && memory != nullptr)
    weights->set->device().release(memory);
}
TscStatus memory_upload(TscWeights *weights, void *to, const void *from_host, size_t bytes,
                        void *stream) {
  return guarded(last_error, [&] {
    need(weights, "the weights");
    need_array(to, bytes, "the memory that bytes are copied to");
    need_array(from_host, bytes, "the memory that bytes are copied from");
    weights->set->device().upload(to, from_host, bytes, stream);
  });
}
TscStatus memory_download(TscWeights *weights, void *to_host, const void *from, size_t bytes,
                          void *stream) {
  return guarded(last_error, [&] {
    need(weights, "the weights");
    need_array(to_host, bytes, "the memory that bytes are copied to");
    need_array(from, bytes, "the memory that bytes are copied from");
    weights->set->device().download(to_host, from, bytes, stream);
    weights->set->device().synchronize(stream);
  });
}

/// By name, in the order in which the program first names them: how many ranks they have.
const std::vector<std::pair<const char *, int64_t>> &groups_of_model() {
  static const std::vector<std::pair<const char *, int64_t>> kGroups = [] {
    std::vector<std::pair<const char *, int64_t>> groups;
    for (const Collective &collective : arch_plans()[0].tables->collectives) {
      const auto found = std::find_if(groups.begin(), groups.end(), [&](const auto &group) {
        return std::strcmp(group.first, collective.group) == 0;
      });
      if (found == groups.end())
        groups.emplace_back(collective.group, collective.ranks);
      else
        found->second = std::max(found->second, collective.ranks);
    }
    return groups;
  }();
  return kGroups;
}

const char *group_name(size_t index, int64_t *ranks) {
  try {
    if (index >= groups_of_model().size())
      return nullptr;
    if (ranks != nullptr)
      *ranks = groups_of_model()[index].second;
    return groups_of_model()[index].first;
  } catch (...) { // memory of the host
    failed(TSC_OUT_OF_MEMORY, last_error, "out of host memory");
    return nullptr;
  }
}

TscStatus connect(TscInstance *instance, const char *name, const ModelGroup &group) {
  return guarded(instance, [&](Instance &connected) {
    need(name, "the name of the group");
    const auto &groups = groups_of_model();
    if (std::none_of(groups.begin(), groups.end(),
                     [&](const auto &known) { return std::strcmp(known.first, name) == 0; }))
      throw Error(Status::bad_argument, std::string("the model has no group '") + name + "'");
    if (group.communicator == nullptr && (group.rank < 0 || group.rank >= group.ranks))
      throw Error(Status::bad_argument, "rank " + std::to_string(group.rank) + " is none of " +
                                            std::to_string(group.ranks));
    instance->groups.set(name, connect_model_group(instance->device, group));
    connected.set_groups(&instance->groups);
  });
}

TscStatus instance_set_communicator(TscInstance *instance, const char *group, void *nccl_comm) {
  if (instance != nullptr && nccl_comm == nullptr)
    return failed(TSC_BAD_ARGUMENT, instance->error, "the communicator must not be null");
  ModelGroup given;
  given.communicator = nccl_comm;
  return connect(instance, group, given);
}
TscStatus communicator_id(void *id) {
  return guarded(last_error, [&] {
    need(id, "the place for the id");
    make_model_communicator_id(id);
  });
}
TscStatus instance_make_communicator(TscInstance *instance, const char *group, const void *id,
                                     int64_t rank, int64_t ranks, double timeout_seconds) {
  if (instance != nullptr && id == nullptr)
    return failed(TSC_BAD_ARGUMENT, instance->error, "the id must not be null");
  return connect(instance, group, {nullptr, id, rank, ranks, timeout_seconds});
}

} // namespace

namespace tsc_engine {

const TscModel *model_functions() {
  static const TscModel kFunctions = {
      TSC_ABI_VERSION,
      describe,
      weights_create,
      weights_load,
      weights_destroy,
      weights_bytes,
      instance_create,
      instance_destroy,
      instance_bind,
      instance_run,
      instance_check,
      instance_bytes,
      instance_output,
      instance_output_memory,
      instance_set_poison,
      instance_set_graphs,
      instance_set_seed,
      instance_error,
      create_error,
      memory_allocate,
      memory_release,
      memory_upload,
      memory_download,
      group_name,
      instance_set_communicator,
      communicator_id,
      instance_make_communicator,
  };
  return &kFunctions;
}

} // namespace tsc_engine
