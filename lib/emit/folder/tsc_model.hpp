// The C ABI of tsc_model.h for C++ programs (C++20): objects that free what they hold, exceptions
// with the library's text, tensors by name.
//
//   tsc::Model model(NAME_model(), "weights.safetensors");
//   std::vector<float> x(2 * 3);
//   tsc::Outputs outputs = model.run({{"x", model.tensor<float>({2, 3}, x)}});
//   std::vector<float> logits = outputs["logits"].to_host<float>();
#pragma once

#include "tsc_model.h"

#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tsc {

class Error : public std::runtime_error {
public:
  Error(TscStatus status, const std::string &text) : std::runtime_error(text), status_(status) {}
  TscStatus status() const { return status_; }

private:
  TscStatus status_;
};

/// The dtype of a C++ type; float16 and the like have none, and are given by name.
template <class T> constexpr TscDType dtype_of() {
  if constexpr (std::is_same_v<T, bool>)
    return TSC_BOOL;
  else if constexpr (std::is_same_v<T, float>)
    return TSC_F32;
  else if constexpr (std::is_same_v<T, double>)
    return TSC_F64;
  else {
    static_assert(std::is_integral_v<T>, "no dtype of the model is this type");
    constexpr int log = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    constexpr TscDType kSigned[] = {TSC_I8, TSC_I16, TSC_I32, TSC_I64};
    constexpr TscDType kUnsigned[] = {TSC_U8, TSC_U16, TSC_U32, TSC_U64};
    return std::is_signed_v<T> ? kSigned[log] : kUnsigned[log];
  }
}
inline size_t bytes_of(TscDType dtype) {
  switch (dtype) {
  case TSC_I64:
  case TSC_U64:
  case TSC_F64:
    return 8;
  case TSC_I32:
  case TSC_U32:
  case TSC_F32:
    return 4;
  case TSC_I16:
  case TSC_U16:
  case TSC_F16:
  case TSC_BF16:
    return 2;
  default:
    return 1;
  }
}

namespace detail {
/// A model's weights, which all that runs them and all memory of their device keep.
struct Weights {
  const TscModel *model = nullptr;
  TscWeights *weights = nullptr;
  explicit Weights(const TscModel *functions) : model(functions) {}
  Weights(const Weights &) = delete;
  Weights &operator=(const Weights &) = delete;
  ~Weights() { model->weights_destroy(weights); }
  void check(TscStatus status) const {
    if (status != TSC_OK)
      throw Error(status, model->create_error());
  }
  bool on_host() const { return std::string_view(model->describe()->device) == "host"; }
};
inline std::shared_ptr<void> allocate(const std::shared_ptr<Weights> &weights, size_t bytes) {
  void *memory = nullptr;
  weights->check(weights->model->memory_allocate(weights->weights, bytes, &memory));
  return {memory,
          [weights](void *held) { weights->model->memory_release(weights->weights, held); }};
}
inline std::vector<int64_t> contiguous(const std::vector<int64_t> &sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t axis = sizes.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * (sizes[axis] > 1 ? sizes[axis] : 1);
  return strides;
}
} // namespace detail

/// Memory of a model's device, or an integer. Copies share the memory. Element (i, j, ..) is at
/// offset + i * strides[0] + j * strides[1] + .. elements.
struct Tensor {
  std::shared_ptr<void> memory;
  TscDType dtype = TSC_F32;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
  int64_t integer = 0; ///< of an input that is an integer
  bool is_integer = false;
  std::string constant; ///< of an output that is no tensor: its text
  std::shared_ptr<detail::Weights> owner;

  static Tensor of_integer(int64_t value) {
    Tensor tensor;
    tensor.integer = value;
    tensor.is_integer = true;
    return tensor;
  }

  size_t count() const {
    size_t elements = 1;
    for (const int64_t size : sizes)
      elements *= static_cast<size_t>(size);
    return elements;
  }
  /// The elements in order of their indices; waits for `stream`.
  template <class T> std::vector<T> to_host(void *stream = nullptr) const {
    static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no elements: ask for uint8_t");
    if (sizeof(T) != bytes_of(dtype) ||
        (std::is_arithmetic_v<T> && dtype_of<T>() != dtype && sizeof(T) > 2))
      throw Error(TSC_BAD_ARGUMENT, "the elements are of another type");
    std::vector<T> result(count());
    if (result.empty())
      return result;
    int64_t last = offset;
    for (size_t axis = 0; axis < sizes.size(); ++axis)
      last += (sizes[axis] - 1) * strides[axis];
    std::vector<T> raw(static_cast<size_t>(last) + 1);
    owner->check(owner->model->memory_download(owner->weights, raw.data(), memory.get(),
                                               raw.size() * sizeof(T), stream));
    std::vector<int64_t> index(sizes.size(), 0);
    for (T &element : result) {
      int64_t at = offset;
      for (size_t axis = 0; axis < sizes.size(); ++axis)
        at += index[axis] * strides[axis];
      element = raw[static_cast<size_t>(at)];
      for (size_t axis = sizes.size(); axis-- > 0 && ++index[axis] == sizes[axis];)
        index[axis] = 0;
    }
    return result;
  }
  /// The contiguous elements where they lie, on the host alone.
  template <class T> std::span<T> span() const {
    if (!owner || !owner->on_host() || dtype_of<T>() != dtype ||
        strides != detail::contiguous(sizes))
      throw Error(TSC_BAD_ARGUMENT, "only contiguous memory of the host, of this type, is a span");
    return {static_cast<T *>(memory.get()) + offset, count()};
  }

  /// As a DLPack tensor that keeps the memory until its deleter is called. `Managed` is
  /// DLManagedTensor of dlpack.h, which this header does not need.
  template <class Managed> Managed *to_dlpack(int device = 0) const;
};

/// What a run gave: by name ("output_0"), by path in what the user's model gives ("logits"), by
/// position.
class Outputs {
public:
  Outputs(const TscModelInfo *info, std::vector<Tensor> tensors)
      : info_(info), tensors_(std::move(tensors)) {}
  size_t size() const { return tensors_.size(); }
  const Tensor &operator[](size_t position) const { return tensors_.at(position); }
  const Tensor &operator[](const char *name) const {
    std::string known;
    for (size_t i = 0; i < info_->output_count; ++i) {
      const TscTensorInfo &output = info_->outputs[i];
      if (std::strcmp(output.name, name) == 0 ||
          (output.path != nullptr && std::strcmp(output.path, name) == 0))
        return tensors_[i];
      known +=
          (i == 0 ? "" : ", ") + std::string(output.path != nullptr ? output.path : output.name);
    }
    throw Error(TSC_BAD_ARGUMENT,
                "no output is called \"" + std::string(name) + "\"; there are " + known);
  }

private:
  const TscModelInfo *info_;
  std::vector<Tensor> tensors_;
};

/// A model with its weights on a device, used by one thread at a time; another_instance() is for
/// the others and shares the weights.
class Model {
public:
  /// `weights`: a .safetensors file or a folder with weights.safetensors; "": the model has none.
  explicit Model(const TscModel *functions, const std::string &weights = "", int device = 0) {
    if (functions->abi_version != TSC_ABI_VERSION)
      throw Error(TSC_BAD_ARGUMENT, "the model's library has ABI version " +
                                        std::to_string(functions->abi_version) + ", this header " +
                                        std::to_string(TSC_ABI_VERSION));
    weights_ = std::make_shared<detail::Weights>(functions);
    weights_->check(weights.empty()
                        ? functions->weights_create(device, nullptr, 0, &weights_->weights)
                        : functions->weights_load(device, weights.c_str(), &weights_->weights));
    create_instance();
  }
  Model another_instance() const { return Model(weights_); }
  const TscModelInfo &info() const { return *model()->describe(); }

  /// A contiguous tensor on the device, with a copy of `elements`.
  template <class T>
  Tensor tensor(std::vector<int64_t> sizes, std::span<const T> elements,
                void *stream = nullptr) const {
    return tensor(dtype_of<T>(), std::move(sizes), std::as_bytes(elements), stream);
  }
  template <class T>
  Tensor tensor(std::vector<int64_t> sizes, const std::vector<T> &elements) const {
    return tensor<T>(std::move(sizes), std::span<const T>(elements));
  }
  Tensor tensor(TscDType dtype, std::vector<int64_t> sizes, std::span<const std::byte> bytes,
                void *stream = nullptr) const {
    Tensor result;
    result.dtype = dtype;
    result.strides = detail::contiguous(sizes);
    result.sizes = std::move(sizes);
    result.owner = weights_;
    if (result.count() * bytes_of(dtype) != bytes.size())
      throw Error(TSC_BAD_ARGUMENT, "the sizes say " + std::to_string(result.count()) +
                                        " elements, given are " + std::to_string(bytes.size()) +
                                        " bytes");
    result.memory = detail::allocate(weights_, bytes.size());
    weights_->check(model()->memory_upload(weights_->weights, result.memory.get(), bytes.data(),
                                           bytes.size(), stream));
    return result;
  }
  /// The memory of a DLPack tensor, which is given back when the last copy of the result goes.
  template <class Managed> Tensor from_dlpack(Managed *managed) const;

  /// Runs on `stream` and, as `check` says, waits for it and sees whether what the model asserts
  /// held. The instance's own memory is used anew by the next run, so runs follow one another.
  Outputs run(const std::vector<Tensor> &inputs, void *stream = nullptr, bool check = true) {
    const TscModelInfo &signature = info();
    if (inputs.size() != signature.input_count)
      throw Error(TSC_BAD_ARGUMENT, "the model has " + std::to_string(signature.input_count) +
                                        " inputs, given are " + std::to_string(inputs.size()));
    std::vector<const int64_t *> shapes;
    std::vector<void *> input_memory, output_memory;
    for (size_t i = 0; i < inputs.size(); ++i) {
      check_input(signature.inputs[i], inputs[i]);
      shapes.push_back(inputs[i].is_integer ? &inputs[i].integer : inputs[i].sizes.data());
      input_memory.push_back(static_cast<char *>(inputs[i].memory.get()));
    }
    size_t bytes = 0;
    need(model()->instance_bind(instance_.get(), shapes.data(), &bytes));
    for (size_t i = 0; i < inputs.size(); ++i)
      check_place(signature.inputs[i], inputs[i]);
    if (bytes > workspace_bytes_ || !workspace_) {
      workspace_ = detail::allocate(weights_, bytes);
      workspace_bytes_ = bytes;
    }
    std::vector<size_t> output_bytes(signature.output_count);
    need(model()->instance_bytes(instance_.get(), nullptr, output_bytes.data()));
    std::vector<Tensor> outputs(signature.output_count);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (signature.outputs[i].constant == nullptr)
        outputs[i].memory = detail::allocate(weights_, output_bytes[i]);
      output_memory.push_back(outputs[i].memory.get());
    }
    need(model()->instance_run(instance_.get(), stream, input_memory.data(), output_memory.data(),
                               workspace_.get()));
    if (check)
      need(model()->instance_check(instance_.get(), stream));
    for (size_t i = 0; i < outputs.size(); ++i)
      describe(i, outputs[i]);
    return Outputs(&signature, std::move(outputs));
  }
  /// Inputs by name, in any order.
  Outputs run(std::initializer_list<std::pair<std::string_view, Tensor>> named,
              void *stream = nullptr, bool check = true) {
    const TscModelInfo &signature = info();
    std::vector<Tensor> inputs(signature.input_count);
    std::vector<bool> given(inputs.size(), false);
    for (const auto &[name, tensor] : named) {
      size_t i = 0;
      while (i < inputs.size() && name != signature.inputs[i].name)
        ++i;
      if (i == inputs.size() || given[i])
        throw Error(TSC_BAD_ARGUMENT,
                    (i == inputs.size() ? "no input is called \"" : "given twice is input \"") +
                        std::string(name) + "\"");
      given[i] = true;
      inputs[i] = tensor;
    }
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!given[i])
        throw Error(TSC_BAD_ARGUMENT,
                    "input \"" + std::string(signature.inputs[i].name) + "\" is missing");
    return run(inputs, stream, check);
  }
  void set_seed(uint64_t seed, uint64_t call = 0, void *stream = nullptr) {
    need(model()->instance_set_seed(instance_.get(), stream, seed, call));
  }

private:
  explicit Model(std::shared_ptr<detail::Weights> weights) : weights_(std::move(weights)) {
    create_instance();
  }
  const TscModel *model() const { return weights_->model; }
  void create_instance() {
    TscInstance *created = nullptr;
    weights_->check(model()->instance_create(weights_->weights, &created));
    instance_ = {created, model()->instance_destroy};
  }
  void need(TscStatus status) const {
    if (status != TSC_OK)
      throw Error(status, model()->instance_error(instance_.get()));
  }
  static void check_input(const TscTensorInfo &input, const Tensor &given) {
    const std::string what = "input \"" + std::string(input.name) + "\" ";
    if (given.is_integer != (input.value != nullptr))
      throw Error(TSC_BAD_ARGUMENT, what + (given.is_integer ? "is no integer" : "is an integer"));
    if (given.is_integer)
      return;
    if (given.dtype != input.dtype)
      throw Error(TSC_BAD_ARGUMENT, what + "has another dtype");
    if (given.sizes.size() != static_cast<size_t>(input.rank))
      throw Error(TSC_BAD_ARGUMENT, what + "has " + std::to_string(input.rank) + " dimensions");
  }
  /// Precondition: the sizes are bound, so they are the model's.
  static void check_place(const TscTensorInfo &input, const Tensor &given) {
    const std::string what = "input \"" + std::string(input.name) + "\" ";
    if (given.is_integer)
      return;
    for (size_t axis = 0; axis < given.sizes.size(); ++axis)
      if (input.strides[axis].expression == nullptr && given.sizes[axis] > 1 &&
          given.strides[axis] != input.strides[axis].value)
        throw Error(TSC_BAD_ARGUMENT, what + "has stride " +
                                          std::to_string(input.strides[axis].value) +
                                          " in dimension " + std::to_string(axis));
    if (input.offset.expression == nullptr && given.offset != input.offset.value)
      throw Error(TSC_BAD_ARGUMENT, what + "has another offset in its memory");
    if (reinterpret_cast<uintptr_t>(given.memory.get()) % 16 != 0)
      throw Error(TSC_BAD_ARGUMENT, what + "is not aligned to 16 bytes");
  }
  /// Sizes and strides as they are after the run.
  void describe(size_t i, Tensor &output) {
    const TscTensorInfo &row = info().outputs[i];
    output.owner = weights_;
    if (row.constant != nullptr) {
      output.constant = row.constant;
      return;
    }
    output.dtype = row.dtype;
    output.sizes.resize(static_cast<size_t>(row.rank));
    output.strides.resize(output.sizes.size());
    need(model()->instance_output(instance_.get(), i, output.sizes.data(), output.strides.data(),
                                  &output.offset));
    void *memory = nullptr;
    need(model()->instance_output_memory(instance_.get(), i, output.memory.get(), &memory));
    if (memory != output.memory.get()) // the instance's, until its next run
      output.memory = std::shared_ptr<void>(instance_, memory);
  }

  std::shared_ptr<detail::Weights> weights_;
  std::shared_ptr<TscInstance> instance_;
  std::shared_ptr<void> workspace_;
  size_t workspace_bytes_ = 0;
};

namespace detail {
struct DlpackType {
  TscDType dtype;
  int code, bits;
};
/// Codes of DLPack: 0 int, 1 unsigned, 2 float, 4 bfloat, 6 bool.
inline constexpr DlpackType kDlpackTypes[] = {
    {TSC_BOOL, 6, 8},  {TSC_U8, 1, 8},   {TSC_I8, 0, 8},   {TSC_I16, 0, 16}, {TSC_I32, 0, 32},
    {TSC_I64, 0, 64},  {TSC_U16, 1, 16}, {TSC_U32, 1, 32}, {TSC_U64, 1, 64}, {TSC_F16, 2, 16},
    {TSC_BF16, 4, 16}, {TSC_F32, 2, 32}, {TSC_F64, 2, 64}};
inline constexpr int kDlpackHost = 1, kDlpackCuda = 2;
} // namespace detail

template <class Managed> Tensor Model::from_dlpack(Managed *managed) const {
  const auto &from = managed->dl_tensor;
  const int device = weights_->on_host() ? detail::kDlpackHost : detail::kDlpackCuda;
  if (static_cast<int>(from.device.device_type) != device)
    throw Error(TSC_BAD_ARGUMENT, "the DLPack tensor is on another device");
  Tensor tensor;
  bool is_known = false;
  for (const detail::DlpackType &row : detail::kDlpackTypes)
    if (row.code == from.dtype.code && row.bits == from.dtype.bits && from.dtype.lanes == 1) {
      tensor.dtype = row.dtype;
      is_known = true;
    }
  if (!is_known)
    throw Error(TSC_BAD_ARGUMENT, "the DLPack tensor has a dtype that models do not take");
  tensor.sizes.assign(from.shape, from.shape + from.ndim);
  tensor.strides = detail::contiguous(tensor.sizes);
  if (from.strides != nullptr)
    tensor.strides.assign(from.strides, from.strides + from.ndim);
  tensor.owner = weights_;
  tensor.memory = {static_cast<char *>(from.data) + from.byte_offset, [managed](void *) {
                     if (managed->deleter != nullptr)
                       managed->deleter(managed);
                   }};
  return tensor;
}

template <class Managed> Managed *Tensor::to_dlpack(int device) const {
  struct Kept {
    Managed managed = {};
    Tensor tensor;
  };
  for (const detail::DlpackType &row : detail::kDlpackTypes) {
    if (row.dtype != dtype || !owner || !constant.empty())
      continue;
    auto kept = std::make_unique<Kept>();
    kept->tensor = *this;
    auto &to = kept->managed.dl_tensor;
    to.data = memory.get();
    to.byte_offset = static_cast<uint64_t>(offset) * bytes_of(dtype);
    to.device.device_type = static_cast<decltype(to.device.device_type)>(
        owner->on_host() ? detail::kDlpackHost : detail::kDlpackCuda);
    to.device.device_id = owner->on_host() ? 0 : device;
    to.ndim = static_cast<int32_t>(sizes.size());
    to.dtype = {static_cast<uint8_t>(row.code), static_cast<uint8_t>(row.bits), 1};
    to.shape = kept->tensor.sizes.data();
    to.strides = kept->tensor.strides.data();
    kept->managed.manager_ctx = kept.get();
    kept->managed.deleter = [](Managed *self) { delete static_cast<Kept *>(self->manager_ctx); };
    return &kept.release()->managed;
  }
  throw Error(TSC_BAD_ARGUMENT, "this value has no form in DLPack");
}

} // namespace tsc
