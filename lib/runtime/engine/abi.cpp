// The C ABI over the engine: no exception leaves a function of this file.
#include "tsc_model.h"

#include "engine/model_hooks.h"
#include "engine/weights_file.h"

#include <algorithm>
#include <deque>
#include <map>
#include <new>
#include <sys/stat.h>

struct TscWeights {
  std::shared_ptr<tsc_engine::WeightSet> set;
};
struct TscInstance {
  explicit TscInstance(std::shared_ptr<tsc_engine::WeightSet> set) : instance(std::move(set)) {}
  tsc_engine::Instance instance;
  std::string error;
};

namespace {

using namespace tsc_engine;

thread_local std::string create_error;

static_assert(TSC_F64 == static_cast<int>(DType::f64) &&
              TSC_BF16 == static_cast<int>(DType::bf16) && TSC_U16 == static_cast<int>(DType::u16));
static_assert(TSC_INTERNAL == static_cast<int>(Status::internal) &&
              TSC_ASSERTION_FAILED == static_cast<int>(Status::assertion));

/// Calls body(); a failure becomes a status, with its text in `error`.
template <class Body> TscStatus guarded(std::string &error, const Body &body) noexcept {
  try {
    body();
    return TSC_OK;
  } catch (const Error &failure) {
    error = failure.what();
    return static_cast<TscStatus>(failure.status);
  } catch (const std::bad_alloc &) {
    error = "out of host memory";
    return TSC_OUT_OF_MEMORY;
  } catch (const std::exception &failure) {
    error = failure.what();
    return TSC_INTERNAL;
  } catch (...) {
    error = "unknown failure";
    return TSC_INTERNAL;
  }
}

std::shared_ptr<const Model> model() {
  static const std::shared_ptr<const Model> kModel =
      std::make_shared<const Model>(model_tables(), model_plan());
  return kModel;
}

/// Descriptors of the signature, made once.
class Description {
public:
  Description() : tables_(model_tables()) {
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

TscStatus create_weights(int device, const WeightSource &source, TscWeights **weights) {
  *weights = nullptr;
  return guarded(create_error, [&] {
    auto created = std::make_unique<TscWeights>();
    created->set = std::make_shared<WeightSet>(model(), open_model_device(device), source);
    *weights = created.release();
  });
}

} // namespace

const TscModelInfo *tsc_describe(void) {
  static const Description kDescription;
  return kDescription.info();
}

TscStatus tsc_weights_create(int device, const TscTensorData *tensors, size_t count,
                             TscWeights **weights) {
  std::map<std::string, const TscTensorData *> by_name;
  TscStatus status = guarded(create_error, [&] {
    for (size_t i = 0; i < count; ++i)
      by_name[tensors[i].name] = &tensors[i];
  });
  if (status != TSC_OK)
    return status;
  return create_weights(
      device,
      [&](const char *name) -> WeightData {
        auto found = by_name.find(name);
        if (found == by_name.end())
          return {};
        const TscTensorData &tensor = *found->second;
        // An empty tensor may come without memory.
        bool is_empty =
            std::find(tensor.sizes, tensor.sizes + tensor.rank, 0) != tensor.sizes + tensor.rank;
        return {is_empty ? "" : tensor.data, static_cast<DType>(tensor.dtype), tensor.sizes,
                static_cast<size_t>(tensor.rank)};
      },
      weights);
}

TscStatus tsc_weights_load(int device, const char *path, TscWeights **weights) {
  *weights = nullptr;
  std::unique_ptr<WeightsFile> file;
  TscStatus status = guarded(create_error, [&] {
    std::string name = path;
    struct stat info = {};
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
      name += "/weights.safetensors";
    file = std::make_unique<WeightsFile>(name);
  });
  if (status != TSC_OK)
    return status;
  return create_weights(
      device, [&](const char *name) { return file->find(name); }, weights);
}

void tsc_weights_destroy(TscWeights *weights) { delete weights; }
size_t tsc_weights_bytes(const TscWeights *weights) { return weights->set->bytes(); }

TscStatus tsc_instance_create(TscWeights *weights, TscInstance **instance) {
  *instance = nullptr;
  return guarded(create_error, [&] { *instance = new TscInstance(weights->set); });
}
void tsc_instance_destroy(TscInstance *instance) { delete instance; }

TscStatus tsc_instance_bind(TscInstance *instance, const int64_t *const *shapes,
                            size_t *workspace_bytes) {
  return guarded(instance->error, [&] {
    size_t bytes = instance->instance.bind(shapes);
    if (workspace_bytes != nullptr)
      *workspace_bytes = bytes;
  });
}

TscStatus tsc_instance_run(TscInstance *instance, void *stream, void *const *inputs,
                           void *const *outputs, void *workspace) {
  return guarded(instance->error,
                 [&] { instance->instance.run(stream, inputs, outputs, workspace); });
}

TscStatus tsc_instance_check(TscInstance *instance, void *stream) {
  return guarded(instance->error, [&] { instance->instance.check(stream); });
}

TscStatus tsc_instance_bytes(TscInstance *instance, size_t *inputs, size_t *outputs) {
  return guarded(instance->error, [&] {
    const Tables &tables = instance->instance.model().tables;
    for (size_t i = 0; inputs != nullptr && i < tables.inputs.count; ++i)
      inputs[i] = instance->instance.input_bytes(i);
    for (size_t i = 0; outputs != nullptr && i < tables.outputs.count; ++i)
      outputs[i] = instance->instance.output_bytes(i);
  });
}

TscStatus tsc_instance_output(TscInstance *instance, size_t output, int64_t *sizes,
                              int64_t *strides, int64_t *offset) {
  return guarded(instance->error, [&] {
    if (output >= instance->instance.model().tables.outputs.count)
      throw Error(Status::bad_argument, "output " + std::to_string(output) + " does not exist");
    std::vector<int64_t> actual_sizes = instance->instance.output_sizes(output);
    std::vector<int64_t> actual_strides = instance->instance.output_strides(output);
    for (size_t axis = 0; axis < actual_sizes.size(); ++axis) {
      if (sizes != nullptr)
        sizes[axis] = actual_sizes[axis];
      if (strides != nullptr)
        strides[axis] = actual_strides[axis];
    }
    if (offset != nullptr)
      *offset = instance->instance.output_offset(output);
  });
}

void tsc_instance_set_poison(TscInstance *instance, int on) {
  instance->instance.set_poison(on != 0);
}

TscStatus tsc_instance_set_seed(TscInstance *instance, void *stream, uint64_t seed, uint64_t call) {
  return guarded(instance->error, [&] { instance->instance.set_seed(stream, seed, call); });
}

const char *tsc_instance_error(const TscInstance *instance) { return instance->error.c_str(); }
const char *tsc_create_error(void) { return create_error.c_str(); }

TscStatus tsc_memory_allocate(TscWeights *weights, size_t bytes, void **memory) {
  *memory = nullptr;
  return guarded(create_error, [&] { *memory = weights->set->device().allocate(bytes); });
}
void tsc_memory_release(TscWeights *weights, void *memory) {
  if (memory != nullptr)
    weights->set->device().release(memory);
}
TscStatus tsc_memory_upload(TscWeights *weights, void *to, const void *from_host, size_t bytes,
                            void *stream) {
  return guarded(create_error,
                 [&] { weights->set->device().upload(to, from_host, bytes, stream); });
}
TscStatus tsc_memory_download(TscWeights *weights, void *to_host, const void *from, size_t bytes,
                              void *stream) {
  return guarded(create_error, [&] {
    weights->set->device().download(to_host, from, bytes, stream);
    weights->set->device().synchronize(stream);
  });
}
