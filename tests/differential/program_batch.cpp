#include "program_batch.h"

#include "runtime/engine_session.h"

#include <cctype>
#include <numeric>
#include <unordered_map>

namespace tsc::differential {
namespace {

using program::Kernel;
using program::Program;

/// One program's share of a device that holds the kernels of many.
class SharedDevice final : public tsc_engine::Device {
public:
  SharedDevice(std::shared_ptr<tsc_engine::Device> whole, size_t first_kernel)
      : whole_(std::move(whole)), first_kernel_(first_kernel) {}
  bool is_host() const override { return whole_->is_host(); }
  void *allocate(size_t bytes) override { return whole_->allocate(bytes); }
  void release(void *memory) override { whole_->release(memory); }
  void upload(void *to, const void *from, size_t bytes, tsc_engine::Stream stream) override {
    whole_->upload(to, from, bytes, stream);
  }
  void download(void *to, const void *from, size_t bytes, tsc_engine::Stream stream) override {
    whole_->download(to, from, bytes, stream);
  }
  void copy(void *to, const void *from, size_t bytes, tsc_engine::Stream stream) override {
    whole_->copy(to, from, bytes, stream);
  }
  void fill(void *memory, int byte, size_t bytes, tsc_engine::Stream stream) override {
    whole_->fill(memory, byte, bytes, stream);
  }
  void synchronize(tsc_engine::Stream stream) override { whole_->synchronize(stream); }
  void launch(size_t kernel, const tsc_engine::LaunchGeometry &geometry, void **arguments,
              tsc_engine::Stream stream) override {
    whole_->launch(first_kernel_ + kernel, geometry, arguments, stream);
  }
  size_t prepare_matmul(const tsc_engine::MatmulShape &shape) override {
    return whole_->prepare_matmul(shape);
  }
  size_t matmul_scratch_bytes(size_t plan) override { return whole_->matmul_scratch_bytes(plan); }
  void matmul(size_t plan, const void *a, const void *b, const void *c, void *out, void *scratch,
              tsc_engine::Stream stream) override {
    whole_->matmul(plan, a, b, c, out, scratch, stream);
  }
  size_t prepare_solver(const tsc_engine::SolverShape &shape) override {
    return whole_->prepare_solver(shape);
  }
  size_t solver_scratch_bytes(size_t plan) override { return whole_->solver_scratch_bytes(plan); }
  void solve(size_t plan, const tsc_engine::SolverMemory &memory, void *scratch,
             tsc_engine::Stream stream) override {
    whole_->solve(plan, memory, scratch, stream);
  }

private:
  std::shared_ptr<tsc_engine::Device> whole_;
  size_t first_kernel_;
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Replaces a name and what begins with it, as NAME_entry does.
void rename(std::string &text, const std::string &from, const std::string &to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    if (at > 0 && is_word(text[at - 1])) {
      at += from.size();
      continue;
    }
    text.replace(at, from.size(), to);
    at += to.size();
  }
}

/// Kernels of several programs may have one name and different texts.
void make_unique(Kernel &kernel, size_t number,
                 std::unordered_map<std::string, std::pair<std::string, std::string>> &texts) {
  const auto [found, is_new] = texts.try_emplace(kernel.name, kernel.cuda.text, kernel.serial.text);
  if (is_new ||
      (found->second.first == kernel.cuda.text && found->second.second == kernel.serial.text))
    return;
  const std::string name = "b" + std::to_string(number) + "_" + kernel.name;
  rename(kernel.cuda.text, kernel.name, name);
  rename(kernel.serial.text, kernel.name, name);
  kernel.name = name;
}

} // namespace

struct ProgramBatch::Parts {
  std::vector<const Program *> programs;
  std::vector<size_t> first_kernels;
  runtime::ReadyDevice device;
  runtime::Timing timing;
};

ProgramBatch::ProgramBatch(std::vector<const Program *> programs,
                           const runtime::SessionOptions &options)
    : parts_(std::make_unique<Parts>()) {
  Program kernels; // nothing else of it is looked at
  std::unordered_map<std::string, std::pair<std::string, std::string>> texts;
  for (const Program *program : programs) {
    parts_->first_kernels.push_back(kernels.kernels.size());
    for (const Kernel &kernel : program->kernels) {
      kernels.kernels.push_back(kernel);
      make_unique(kernels.kernels.back(), kernels.kernels.size(), texts);
    }
  }
  parts_->programs = std::move(programs);
  parts_->device = options.device == runtime::DeviceKind::cuda
                       ? runtime::make_ready_cuda(kernels, options, parts_->timing)
                       : runtime::make_ready_host(kernels, options, parts_->timing);
}
ProgramBatch::~ProgramBatch() = default;
ProgramBatch::ProgramBatch(ProgramBatch &&) noexcept = default;

size_t ProgramBatch::size() const { return parts_->programs.size(); }

std::unique_ptr<runtime::Session> ProgramBatch::session(size_t number,
                                                        const tensor::TensorMap &weights) const {
  runtime::ReadyDevice own = parts_->device;
  own.device = std::make_shared<SharedDevice>(parts_->device.device, parts_->first_kernels[number]);
  return runtime::make_engine_session(*parts_->programs[number], weights, std::move(own), {});
}

void make_batches(
    const std::vector<const Program *> &programs, const runtime::SessionOptions &options,
    const std::function<void(const ProgramBatch &, const std::vector<size_t> &)> &ready,
    const std::function<void(size_t)> &failed) {
  std::vector<std::vector<size_t>> pending(1);
  pending[0].resize(programs.size());
  std::iota(pending[0].begin(), pending[0].end(), size_t{0});
  while (!pending.empty()) {
    const std::vector<size_t> positions = std::move(pending.back());
    pending.pop_back();
    if (positions.empty())
      continue;
    std::vector<const Program *> part;
    for (const size_t position : positions)
      part.push_back(programs[position]);
    std::unique_ptr<ProgramBatch> batch;
    try {
      batch = std::make_unique<ProgramBatch>(std::move(part), options);
    } catch (const std::exception &) {
      if (positions.size() == 1) {
        failed(positions[0]);
      } else {
        const auto half = positions.begin() + static_cast<std::ptrdiff_t>(positions.size() / 2);
        pending.emplace_back(half, positions.end());
        pending.emplace_back(positions.begin(), half);
      }
    }
    if (batch)
      ready(*batch, positions);
  }
}

} // namespace tsc::differential
