#include "runtime/engine_session.h"

#include "program/library_call.h"
#include "runtime/input_check.h"
#include "support/diagnostic.h"
#include "tensor/complex_memory.h"
#include "tensor/touch.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <utility>

namespace tsc::runtime {
namespace {

using support::ExitCode;
using support::UserError;
using tensor::HostTensor;

/// What the engine was asked for when it failed: a bad argument is then in the weights, the shapes
/// of the inputs, or the program.
enum class Activity : uint8_t { loading, binding, running };

/// The error that the user sees.
[[noreturn]] void rethrow(const tsc_engine::Error &error, Activity activity) {
  const std::string what = error.what();
  switch (error.status) {
  case tsc_engine::Status::bad_argument:
    if (activity == Activity::loading)
      throw UserError(ExitCode::bad_input,
                      {.code = "TSC-R113",
                       .message = "the weights do not fit the program: " + what,
                       .next_step = "give weights of these names, dtypes and shapes"});
    if (activity == Activity::binding)
      throw UserError(ExitCode::bad_input,
                      {.code = "TSC-R116",
                       .message = "the program cannot run with inputs of these shapes: " + what,
                       .next_step = "compare with the signature of the graph"});
    throw UserError(ExitCode::bad_input, {.code = "TSC-R117",
                                          .message = "the device refuses the program: " + what,
                                          .next_step = "compile the graph again with this tsc"});
  case tsc_engine::Status::assertion:
    if (*error.next_step != '\0') // a value, not what the graph asserts
      throw UserError(ExitCode::bad_input, {.code = "TSC-R127",
                                            .message = "a value is out of range: " + what,
                                            .next_step = error.next_step});
    throw UserError(ExitCode::bad_input, {.code = "TSC-R127",
                                          .message = "the graph asserts: " + what,
                                          .next_step = "give inputs of which it holds"});
  case tsc_engine::Status::out_of_memory:
    throw UserError(ExitCode::device,
                    {.code = "TSC-R015",
                     .message = "the device is out of memory: " + what,
                     .next_step = "free memory on the device, or use smaller inputs"});
  case tsc_engine::Status::device:
    throw UserError(ExitCode::device, {.code = "TSC-R013",
                                       .message = "the device failed: " + what,
                                       .next_step = "run with --device reference to compare"});
  default: // what bind checks: a program.json that was edited, or a fault of the compiler
    throw UserError(ExitCode::bad_input,
                    {.code = "TSC-P012",
                     .message = "the program contradicts itself: " + what,
                     .next_step = "compile the graph again with this version of tsc; if that does "
                                  "not help, report it with the graph"});
  }
}

/// Device memory that grows and is kept between runs.
class DeviceMemory {
public:
  explicit DeviceMemory(tsc_engine::Device &device) : device_(&device) {}
  DeviceMemory(DeviceMemory &&other) noexcept
      : device_(other.device_), memory_(std::exchange(other.memory_, nullptr)),
        bytes_(other.bytes_) {}
  ~DeviceMemory() {
    if (memory_)
      device_->release(memory_);
  }
  void *reserve(size_t bytes) {
    if (memory_ && bytes <= bytes_)
      return memory_;
    if (memory_)
      device_->release(std::exchange(memory_, nullptr));
    memory_ = device_->allocate(bytes);
    bytes_ = bytes;
    return memory_;
  }

private:
  tsc_engine::Device *device_;
  void *memory_ = nullptr;
  size_t bytes_ = 0;
};

class EngineSession final : public Session {
public:
  EngineSession(const program::Program &program, const tensor::TensorMap &weights,
                ReadyDevice device, const Timing &timing)
      : device_(std::move(device)), inputs_(program.inputs), outputs_(program.outputs),
        timing_(timing) {
    for (const program::InputInfo &input : program.inputs)
      input_dtypes_.push_back(program.buffers[input.buffer].dtype);
    for (const program::Step &step : program.steps) {
      if (step.once)
        continue;
      timing_.kernels += std::holds_alternative<program::Launch>(step.kind);
      timing_.library_calls += program::is_library_call(step);
    }
    tables_ = program::build_tables(program);
    load_weights(weights);
    for (size_t i = 0; i < inputs_.size(); ++i)
      input_memory_.emplace_back(*device_.device);
    for (size_t i = 0; i < outputs_.size(); ++i)
      output_memory_.emplace_back(*device_.device);
  }

  std::vector<HostTensor> run(const std::vector<HostTensor> &inputs) override;
  void set_seed(uint64_t seed) override { instance_->set_seed(device_.stream, seed, 0); }
  void set_groups(tsc_engine::Groups *groups) override { instance_->set_groups(groups); }
  std::vector<double> bench(const std::vector<HostTensor> &inputs, int repeats) override;
  std::vector<double> time_steps(const std::vector<HostTensor> &inputs, int repeats) override;
  std::vector<RunSpan> profile(const std::vector<HostTensor> &inputs, int repeats) override;
  const Timing &timing() const override { return timing_; }

private:
  void load_weights(const tensor::TensorMap &weights);
  void warm_up(int runs);
  void bind(const std::vector<HostTensor> &inputs);
  void upload(const std::vector<HostTensor> &inputs);
  HostTensor download(size_t output);

  ReadyDevice device_;
  program::OwnedTables tables_;
  std::vector<program::InputInfo> inputs_;
  std::vector<tensor::DType> input_dtypes_;
  std::vector<program::OutputInfo> outputs_;
  Timing timing_;
  std::unique_ptr<tsc_engine::Instance> instance_;
  std::vector<DeviceMemory> input_memory_, output_memory_;
  std::unique_ptr<DeviceMemory> workspace_;
  std::vector<void *> input_pointers_, output_pointers_;
};

void EngineSession::load_weights(const tensor::TensorMap &weights) {
  const auto start = std::chrono::steady_clock::now();
  instance_ = load_instance(device_, tables_, weights, timing_.weight_bytes);
  workspace_ = std::make_unique<DeviceMemory>(*device_.device);
  timing_.load_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

void EngineSession::bind(const std::vector<HostTensor> &inputs) {
  check_inputs(inputs_, input_dtypes_, tables_.tables, inputs);
  std::vector<const int64_t *> shapes;
  std::deque<int64_t> values; // of integer inputs; addresses stay
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs_[i].value)
      shapes.push_back(&values.emplace_back(inputs[i].get_int64(0)));
    else
      shapes.push_back(inputs[i].sizes().data());
  try {
    timing_.workspace_bytes = instance_->bind(shapes.data());
    input_pointers_.clear();
    for (size_t i = 0; i < inputs_.size(); ++i)
      input_pointers_.push_back(input_memory_[i].reserve(instance_->input_bytes(i)));
    output_pointers_.clear();
    for (size_t i = 0; i < outputs_.size(); ++i)
      output_pointers_.push_back(
          outputs_[i].buffer < 0 ? nullptr : output_memory_[i].reserve(instance_->output_bytes(i)));
    workspace_->reserve(timing_.workspace_bytes);
  } catch (const tsc_engine::Error &error) {
    rethrow(error, Activity::binding);
  }
}

void EngineSession::upload(const std::vector<HostTensor> &inputs) {
  std::vector<HostTensor> contiguous; // both alive until the copies are done
  std::vector<std::vector<std::byte>> storages;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs_[i].value)
      continue;
    contiguous.push_back(inputs[i].contiguous());
    const HostTensor &input = contiguous.back();
    const size_t bytes = instance_->input_bytes(i);
    const std::vector<int64_t> strides = instance_->input_strides(i);
    const int64_t offset = instance_->input_offset(i);
    const void *data = input.data();
    if (!tsc_engine::is_contiguous(input.sizes(), strides) || offset != 0 ||
        bytes != input.size_in_bytes()) {
      storages.emplace_back(bytes, std::byte(0));
      tsc_engine::scatter_to_strided(storages.back().data(), data,
                                     tensor::size_in_bytes(input.dtype()), strides.size(),
                                     input.sizes().data(), strides.data(), offset);
      data = storages.back().data();
    }
    device_.device->upload(input_pointers_[i], data, bytes, device_.stream);
  }
  device_.device->synchronize(device_.stream);
}

HostTensor EngineSession::download(size_t output) {
  if (outputs_[output].buffer < 0)
    return HostTensor();
  const std::vector<int64_t> sizes = instance_->output_sizes(output);
  const std::vector<int64_t> strides = instance_->output_strides(output);
  const int64_t offset = instance_->output_offset(output);
  const size_t bytes = instance_->output_bytes(output);
  HostTensor result(outputs_[output].dtype, sizes);
  const void *memory = instance_->output_memory(output, output_pointers_[output]);
  tensor::touch(result);
  const auto fetch = [&](void *to, size_t count) {
    device_.device->download(to, memory, count, device_.stream);
    device_.device->synchronize(device_.stream);
  };
  if (result.numel() == 0)
    return result;
  if (tsc_engine::is_contiguous(sizes, strides) && offset == 0) {
    fetch(result.data(), result.size_in_bytes());
    return result;
  }
  std::vector<std::byte> storage(bytes);
  fetch(storage.data(), bytes);
  tsc_engine::gather_from_strided(result.data(), storage.data(),
                                  tensor::size_in_bytes(result.dtype()), sizes.size(), sizes.data(),
                                  strides.data(), offset);
  return result;
}

/// Complex numbers as their parts.
std::vector<HostTensor> parts_of(const std::vector<HostTensor> &inputs) {
  std::vector<HostTensor> parts;
  parts.reserve(inputs.size());
  for (const HostTensor &input : inputs)
    parts.push_back(tensor::as_real(input));
  return parts;
}

std::vector<HostTensor> EngineSession::run(const std::vector<HostTensor> &given) {
  const std::vector<HostTensor> inputs = parts_of(given);
  bind(inputs);
  std::vector<HostTensor> results;
  try {
    const double began = now_us();
    upload(inputs);
    const double uploaded = now_us();
    instance_->set_poison(true);
    instance_->run(device_.stream, input_pointers_.data(), output_pointers_.data(),
                   workspace_->reserve(0));
    instance_->check(device_.stream);
    device_.device->synchronize(device_.stream);
    const double ran = now_us();
    for (size_t i = 0; i < outputs_.size(); ++i)
      results.push_back(outputs_[i].is_complex ? tensor::as_complex(download(i)) : download(i));
    timing_.upload_ms = (uploaded - began) / 1000;
    timing_.steps_ms = (ran - uploaded) / 1000;
    timing_.download_ms = (now_us() - ran) / 1000;
  } catch (const tsc_engine::Error &error) {
    rethrow(error, Activity::running);
  }
  return results;
}

std::vector<double> EngineSession::bench(const std::vector<HostTensor> &given, int repeats) {
  const std::vector<HostTensor> inputs = parts_of(given);
  bind(inputs);
  try {
    upload(inputs);
    instance_->set_poison(false);
    warm_up(2);
    std::vector<double> samples = device_.time(
        [this](tsc_engine::Stream stream) {
          instance_->run(stream, input_pointers_.data(), output_pointers_.data(),
                         workspace_->reserve(0));
        },
        repeats, 2); // the first allocates what is left to allocate, the second records
    timing_.replayed_runs = instance_->replayed();
    return samples;
  } catch (const tsc_engine::Error &error) {
    rethrow(error, Activity::running);
  }
}

/// The first run allocates what is left to allocate, the second records what later ones replay.
void EngineSession::warm_up(int runs) {
  timing_.warm_up_ms.clear();
  for (int i = 0; i < runs; ++i) {
    const double began = now_us();
    instance_->run(device_.stream, input_pointers_.data(), output_pointers_.data(),
                   workspace_->reserve(0));
    device_.device->synchronize(device_.stream);
    timing_.warm_up_ms.push_back((now_us() - began) / 1000);
  }
}

/// The events of one run: where it begins and ends, and before and behind each step.
class StepEvents {
public:
  StepEvents(tsc_engine::Device &device, tsc_engine::Stream stream)
      : device_(device), stream_(stream) {}
  ~StepEvents() {
    for (const tsc_engine::Event event : events_)
      device_.release_event(event);
  }
  StepEvents(const StepEvents &) = delete;
  StepEvents &operator=(const StepEvents &) = delete;

  void begin_run() {
    used_ = 0;
    span_ = {};
    device_.synchronize(stream_);
    span_.began_us = now_us(); // the stream is idle: its first event is reached now
    device_.record(next(), stream_);
  }
  void mark(uint32_t step, tsc_engine::Stream stream, bool begins) {
    if (begins)
      span_.steps.push_back({step, now_us(), 0, 0, 0});
    device_.record(next(), stream);
    if (!begins)
      span_.steps.back().queued_for_us = now_us() - span_.steps.back().queued_us;
  }
  RunSpan end_run() {
    span_.queued_for_us = now_us() - span_.began_us;
    device_.record(next(), stream_);
    device_.synchronize(stream_);
    const auto since_start = [&](size_t event) {
      return 1000 * device_.milliseconds_between(events_[0], events_[event]);
    };
    for (size_t i = 0; i < span_.steps.size(); ++i) {
      StepSpan &step = span_.steps[i];
      const double began = since_start(1 + 2 * i);
      step.began_us = span_.began_us + began;
      step.took_us = since_start(2 + 2 * i) - began;
    }
    span_.took_us = since_start(used_ - 1);
    return std::move(span_);
  }

private:
  tsc_engine::Event next() {
    if (used_ == events_.size())
      events_.push_back(device_.make_timed_event());
    return events_[used_++];
  }
  tsc_engine::Device &device_;
  const tsc_engine::Stream stream_;
  std::vector<tsc_engine::Event> events_; // kept from run to run
  size_t used_ = 0;
  RunSpan span_;
};

std::vector<RunSpan> EngineSession::profile(const std::vector<HostTensor> &given, int repeats) {
  const std::vector<HostTensor> inputs = parts_of(given);
  bind(inputs);
  std::vector<RunSpan> runs;
  try {
    upload(inputs);
    instance_->set_poison(false);
    StepEvents events(*device_.device, device_.stream);
    for (int i = -2; i < repeats; ++i) {
      events.begin_run();
      instance_->run_marked(device_.stream, input_pointers_.data(), output_pointers_.data(),
                            workspace_->reserve(0),
                            [&](uint32_t step, tsc_engine::Stream stream, bool begins) {
                              events.mark(step, stream, begins);
                            });
      RunSpan run = events.end_run();
      if (i >= 0)
        runs.push_back(std::move(run));
    }
  } catch (const tsc_engine::Error &error) {
    rethrow(error, Activity::running);
  }
  return runs;
}

std::vector<double> EngineSession::time_steps(const std::vector<HostTensor> &given, int repeats) {
  const std::vector<HostTensor> inputs = parts_of(given);
  bind(inputs);
  std::vector<std::vector<double>> samples(tables_.tables.steps.count);
  std::vector<double> medians(samples.size(), 0);
  try {
    upload(inputs);
    instance_->set_poison(false);
    // Each step once a run: a step that changes what it reads (a sort's counts) would not find
    // again what the steps before it left.
    for (int i = -1; i < repeats; ++i) // the first run warms up
      instance_->time_steps(device_.stream, input_pointers_.data(), output_pointers_.data(),
                            workspace_->reserve(0),
                            [&](uint32_t step, const std::function<void(tsc_engine::Stream)> &run) {
                              const std::vector<double> once = device_.time(run, 1, 0);
                              if (i >= 0)
                                samples[step].insert(samples[step].end(), once.begin(), once.end());
                            });
    device_.device->synchronize(device_.stream);
    for (size_t step = 0; step < samples.size(); ++step) {
      std::sort(samples[step].begin(), samples[step].end());
      medians[step] = samples[step].empty() ? 0 : samples[step][samples[step].size() / 2];
    }
  } catch (const tsc_engine::Error &error) {
    rethrow(error, Activity::running);
  }
  return medians;
}

} // namespace

std::unique_ptr<tsc_engine::Instance> load_instance(const ReadyDevice &device,
                                                    const program::OwnedTables &tables,
                                                    const tensor::TensorMap &weights,
                                                    size_t &weight_bytes) {
  HostTensor current; // alive until the next weight is asked for
  const auto source = [&](const char *name) {
    tsc_engine::WeightData data;
    const auto found = weights.find(name);
    if (found == weights.end())
      return data;
    current = tensor::as_real(found->second).contiguous();
    static const std::byte kNothing{};
    data.data = current.data() ? current.data() : &kNothing;
    data.dtype = static_cast<tsc_engine::DType>(current.dtype());
    data.sizes = current.sizes().data();
    data.rank = current.sizes().size();
    if (!current.writable()) // a mapped file
      data.owner = std::make_shared<HostTensor>(current);
    return data;
  };
  try {
    auto model = std::make_shared<tsc_engine::Model>(tables.tables, device.plan);
    auto set = std::make_shared<tsc_engine::WeightSet>(model, device.device, source);
    weight_bytes = set->bytes();
    auto instance = std::make_unique<tsc_engine::Instance>(set);
    instance->set_recording(device.use_graphs);
    return instance;
  } catch (const tsc_engine::Error &error) {
    rethrow(error, Activity::loading);
  }
}

std::unique_ptr<Session> make_engine_session(const program::Program &program,
                                             const tensor::TensorMap &weights, ReadyDevice device,
                                             const Timing &timing) {
  return std::make_unique<EngineSession>(program, weights, std::move(device), timing);
}

} // namespace tsc::runtime
