// WeightSet: weights into device memory, then the steps that depend on them alone.
#include "engine/bound_shapes.h"
#include "engine/failure.h"

#include <algorithm>

namespace tsc_engine {
namespace {

constexpr uintptr_t kWeightAlignment = 64; // bytes, as the host device allocates

std::string shape_text(const int64_t *sizes, size_t rank) {
  std::string text = "[";
  for (size_t i = 0; i < rank; ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
  return text + "]";
}

std::vector<int64_t> constants(const Tables &tables, const Range &range) {
  std::vector<int64_t> result;
  result.reserve(static_cast<size_t>(range.count));
  for (int32_t i = 0; i < range.count; ++i)
    result.push_back(tables.sizes[static_cast<size_t>(range.first + i)].value);
  return result;
}

/// What is wrong with `data` for `weight`; "" if nothing.
std::string mismatch(const Weight &weight, const std::vector<int64_t> &sizes,
                     const WeightData &data) {
  std::string name = std::string("weight \"") + weight.name + "\" ";
  if (data.data == nullptr)
    return name + "is missing";
  if (data.dtype != weight.view.dtype)
    return name + "is " + name_of(data.dtype) + ", the model needs " + name_of(weight.view.dtype);
  if (data.rank != sizes.size() || !std::equal(sizes.begin(), sizes.end(), data.sizes))
    return name + "has shape " + shape_text(data.sizes, data.rank) + ", the model needs " +
           shape_text(sizes.data(), sizes.size());
  return "";
}

} // namespace

WeightSet::WeightSet(std::shared_ptr<const Model> model, std::shared_ptr<Device> device,
                     const WeightSource &source)
    : model_(std::move(model)), device_(std::move(device)) {
  try {
    upload(source);
    run_once_steps();
  } catch (...) {
    release();
    throw;
  }
}

WeightSet::~WeightSet() { release(); }

void WeightSet::release() {
  for (size_t i = 0; i < weights_.size(); ++i)
    if (weights_[i] != nullptr && !owners_[i])
      device_->release(weights_[i]);
  for (void *memory : folded_)
    if (memory != nullptr)
      device_->release(memory);
  weights_.clear();
  owners_.clear();
  folded_.clear();
}

void *WeightSet::allocate(size_t bytes) {
  void *memory = device_->allocate(bytes);
  bytes_ += bytes;
  return memory;
}

void WeightSet::upload(const WeightSource &source) {
  const Tables &tables = model_->tables;
  std::string problems;
  for (const Weight &weight : tables.weights) {
    std::vector<int64_t> sizes = constants(tables, weight.view.sizes);
    WeightData data = source(weight.name);
    std::string problem = mismatch(weight, sizes, data);
    if (!problem.empty())
      problems += (problems.empty() ? "" : "\n") + problem;
    if (!problems.empty())
      continue; // go on only to find every problem
    auto bytes = static_cast<size_t>(weight.bytes);
    std::vector<int64_t> strides = constants(tables, weight.view.strides);
    size_t numel = 1;
    for (int64_t size : sizes)
      numel *= static_cast<size_t>(size);
    size_t data_bytes = numel * size_in_bytes(weight.view.dtype);
    const bool is_whole =
        is_contiguous(sizes, strides) && weight.view.offset.value == 0 && data_bytes == bytes;
    const bool is_aligned = reinterpret_cast<uintptr_t>(data.data) % kWeightAlignment == 0;
    if (is_whole && is_aligned && data.owner && !weight.mutated && device_->is_host()) {
      weights_.push_back(const_cast<void *>(data.data)); // nothing writes to it
      owners_.push_back(std::move(data.owner));
      bytes_ += bytes;
      continue;
    }
    owners_.push_back(nullptr);
    weights_.push_back(nullptr); // released if there is no memory
    weights_.back() = allocate(bytes);
    if (is_whole) {
      device_->upload(weights_.back(), data.data, bytes, nullptr);
      device_->synchronize(nullptr); // the next call of `source` may take its place
      continue;
    }
    std::vector<char> storage(bytes, 0);
    scatter_to_strided(storage.data(), data.data, size_in_bytes(weight.view.dtype), sizes.size(),
                       sizes.data(), strides.data(), weight.view.offset.value);
    device_->upload(weights_.back(), storage.data(), bytes, nullptr);
    device_->synchronize(nullptr); // `storage` goes
  }
  if (!problems.empty())
    throw Error(Status::bad_argument, problems);
  device_->synchronize(nullptr);
}

void WeightSet::run_once_steps() {
  for (int64_t bytes : model_->folded_bytes)
    folded_.push_back(allocate(static_cast<size_t>(bytes)));
  std::vector<char *> bases(model_->tables.buffers.count, nullptr);
  FailureWords failure; // of these steps: runs have their own
  for (size_t i = 0; i < bases.size(); ++i) {
    const Home &home = model_->homes[i];
    if (home.kind == Home::Kind::weight)
      bases[i] = static_cast<char *>(weights_[home.position]);
    else if (home.kind == Home::Kind::folded)
      bases[i] = static_cast<char *>(folded_[home.position]);
    else if (home.kind == Home::Kind::failure) {
      if (failure.memory() == nullptr)
        failure = FailureWords(*device_);
      bases[i] = failure.memory();
    }
  }
  ResolvedSteps steps =
      resolve_steps(*model_, *device_, nullptr, buffer_extents(*model_, nullptr, nullptr), true, 0,
                    static_cast<uint32_t>(model_->tables.steps.count));
  if (steps.steps.empty())
    return;
  RunStreams streams(*device_, *model_);
  void *scratch = device_->allocate(steps.scratch_bytes);
  try {
    run_steps(*model_, *device_, steps, bases, scratch, streams, nullptr, nullptr, nullptr);
    device_->synchronize(nullptr);
    failure.check(model_->tables, nullptr);
  } catch (...) {
    device_->release(scratch);
    throw;
  }
  device_->release(scratch);
  for (size_t i = 0; i < weights_.size(); ++i)
    if (!model_->weight_is_used[i]) {
      release_one(weights_[i], static_cast<size_t>(model_->tables.weights[i].bytes), !owners_[i]);
      owners_[i].reset();
    }
  for (size_t i = 0; i < folded_.size(); ++i)
    if (!model_->folded_is_used[i])
      release_one(folded_[i], static_cast<size_t>(model_->folded_bytes[i]), true);
}

void WeightSet::release_one(void *&memory, size_t bytes, bool is_own) {
  if (is_own)
    device_->release(memory);
  memory = nullptr;
  bytes_ -= bytes;
}

} // namespace tsc_engine
