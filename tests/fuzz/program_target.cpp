// A compiled folder: program.json, a zero byte, weights.safetensors. Read, made ready and run up to
// the kernels, by both readers of weights.
#include "bounded_device.h"
#include "engine/weights_file.h"
#include "program/program.h"
#include "program/tables.h"
#include "runtime/engine_session.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sys/mman.h>
#include <unistd.h>

namespace {

using namespace tsc;

constexpr size_t kDeviceBytes = size_t{16} << 20;
constexpr int64_t kMaxElements = int64_t{1} << 18; // of one input or output

/// A file in memory with a path.
class MemoryFile {
public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(memfd_create("weights", MFD_CLOEXEC)) {
    if (descriptor_ < 0 ||
        write(descriptor_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      std::abort();
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

private:
  int descriptor_;
};

/// The weights as the C ABI of an emitted folder takes them.
void load_as_emitted(const program::OwnedTables &tables, std::string_view bytes) {
  MemoryFile file(bytes);
  try {
    tsc_engine::WeightsFile weights(file.path());
    auto model = std::make_shared<tsc_engine::Model>(tables.tables, tsc_engine::Plan::cuda);
    tsc_engine::WeightSet set(model, std::make_shared<fuzz::BoundedDevice>(kDeviceBytes),
                              [&](const char *name) { return weights.find(name); });
  } catch (const tsc_engine::Error &error) {
    if (error.status == tsc_engine::Status::internal)
      throw;
  }
}

int64_t symbol_value(const tsc_engine::Symbol &symbol, int choice) {
  int64_t value = choice == 0 ? symbol.low : symbol.low + 3;
  return std::min(std::max(value, symbol.low), symbol.high);
}

/// Sizes of a view for these symbols; nothing if there is no value or it is more than a fuzzer's
/// run should hold.
std::optional<std::vector<int64_t>> sizes_of(const tsc_engine::Tables &tables,
                                             const tsc_engine::TensorView &view,
                                             const std::vector<int64_t> &symbols) {
  std::vector<int64_t> sizes;
  int64_t elements = 1;
  for (int32_t i = 0; i < view.sizes.count; ++i) {
    int64_t size = 0;
    try {
      size = tsc_engine::evaluate(tables, tables.sizes[static_cast<size_t>(view.sizes.first + i)],
                                  symbols.data());
    } catch (const tsc_engine::Error &) {
      return std::nullopt;
    }
    if (size < 0 || __builtin_mul_overflow(elements, std::max<int64_t>(size, 1), &elements) ||
        elements > kMaxElements)
      return std::nullopt;
    sizes.push_back(size);
  }
  return sizes;
}

void run_session(const program::Program &program, const program::OwnedTables &owned,
                 const tensor::TensorMap &weights, tsc_engine::Plan plan, int choice) {
  const tsc_engine::Tables &tables = owned.tables;
  std::vector<int64_t> symbols;
  for (const tsc_engine::Symbol &symbol : tables.symbols)
    symbols.push_back(symbol_value(symbol, choice));
  std::vector<tensor::HostTensor> inputs;
  for (const tsc_engine::Input &input : tables.inputs) {
    std::optional<std::vector<int64_t>> sizes = sizes_of(tables, input.view, symbols);
    if (!sizes)
      return;
    inputs.push_back(
        tensor::random_tensor(static_cast<tensor::DType>(input.view.dtype), *sizes, {}));
  }
  for (const tsc_engine::Output &output : tables.outputs)
    if (output.buffer >= 0 && !sizes_of(tables, output.view, symbols))
      return;
  runtime::ReadyDevice device;
  device.device = std::make_shared<fuzz::BoundedDevice>(kDeviceBytes);
  device.plan = plan;
  runtime::make_engine_session(program, weights, device, {})->run(inputs);
}

void run_program(std::string_view json, std::string_view weight_bytes) {
  program::Program program = program::from_json(json, "fuzz");
  std::string text = program::to_json(program);
  if (program::to_json(program::from_json(text, "again")) != text)
    std::abort();
  program::OwnedTables tables = program::build_tables(program);
  load_as_emitted(tables, weight_bytes);
  tensor::TensorMap weights;
  if (!weight_bytes.empty()) {
    auto owner = std::make_shared<std::string>(weight_bytes);
    weights = tensor::parse_tensors(owner, *owner, "fuzz");
  }
  for (int choice : {0, 1})
    for (tsc_engine::Plan plan : {tsc_engine::Plan::cuda, tsc_engine::Plan::serial}) {
      try {
        run_session(program, tables, weights, plan, choice);
      } catch (const support::UserError &) {
      }
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char *>(data), size);
  size_t end = std::min(bytes.find('\0'), bytes.size());
  try {
    run_program(bytes.substr(0, end), bytes.substr(std::min(end + 1, bytes.size())));
  } catch (const support::UserError &) {
  }
  return 0;
}
