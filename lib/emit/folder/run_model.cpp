// Example of the C ABI: runs the model once and prints each output's shape and checksum.
//
//   run_model [--weights FILE] [--data FOLDER] [--seed N] [--rank R --ranks N --id FILE]
//             [INPUT=SIZE,SIZE,...]...
//
// Inputs are FOLDER/INPUT.raw where there is such a file (contiguous elements), else pseudo-random;
// outputs go to FOLDER/OUTPUT.raw. Sizes that depend on symbols take their lower bound unless
// given. Tensors are taken as contiguous. --seed is that of the model's random numbers. A model
// that communicates runs in N processes of one machine, rank R on GPU R: rank 0 writes the ids of
// its groups to FILE.0, FILE.1, ..., which must not be there before, and the others read them.
#include TSC_MODEL_HEADER

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

const TscModel *const tsc = TSC_MODEL();

[[noreturn]] void fail(const char *what, const char *why) {
  std::fprintf(stderr, "%s: %s\n", what, why);
  std::exit(1);
}
void check(TscStatus status, const char *what, const TscInstance *instance = nullptr) {
  if (status != TSC_OK)
    fail(what, instance != nullptr ? tsc->instance_error(instance) : tsc->create_error());
}

/// Small numbers: floats in [-1, 1), integers 0 and 1, which are indices of almost anything.
void fill_random(std::vector<char> &bytes, TscDType dtype) {
  uint64_t state = 1;
  auto next = [&] {
    return (state = state * 6364136223846793005ull + 1442695040888963407ull) >> 40;
  };
  auto fill = [&](auto zero, auto value) {
    for (size_t i = 0; i + sizeof zero <= bytes.size(); i += sizeof zero) {
      auto element = static_cast<decltype(zero)>(value());
      std::memcpy(&bytes[i], &element, sizeof element);
    }
  };
  auto bit = [&] { return next() >> 23; };
  auto real = [&] { return static_cast<double>(next()) / 8388608.0 - 1.0; };
  switch (dtype) {
  case TSC_F64:
    return fill(double(), real);
  case TSC_F32:
    return fill(float(), real);
  case TSC_F16:
    return fill(uint16_t(), [&] { return bit() << 15 | (next() & 0x3FF) | 0x3800; });
  case TSC_BF16:
    return fill(uint16_t(), [&] { return bit() << 15 | (next() & 0x7F) | 0x3F00; });
  case TSC_I64:
  case TSC_U64:
    return fill(int64_t(), bit);
  case TSC_I32:
  case TSC_U32:
    return fill(int32_t(), bit);
  case TSC_I16:
  case TSC_U16:
    return fill(int16_t(), bit);
  case TSC_BOOL:
  case TSC_I8:
  case TSC_U8:
    return fill(char(), bit);
  case TSC_F8E4M3FN:
  case TSC_F8E5M2:
  case TSC_F8E4M3FNUZ:
  case TSC_F8E5M2FNUZ:
    return fill(uint8_t(), [&] { return bit() << 7 | (next() & 0x7) | 0x30; });
  case TSC_F8E8M0FNU: // 1/2 or 1: exponents, without a sign
    return fill(uint8_t(), [&] { return 0x7E + bit(); });
  }
}

std::vector<int64_t> shape_of(const TscTensorInfo &input,
                              const std::map<std::string, std::string> &given) {
  std::vector<int64_t> sizes;
  auto found = given.find(input.name);
  if (found != given.end())
    for (const char *at = found->second.c_str(); *at != '\0';) {
      char *end = nullptr;
      sizes.push_back(std::strtoll(at, &end, 10));
      at = *end == ',' ? end + 1 : end;
      if (*end != ',' && *end != '\0')
        fail(input.name, "its sizes are no numbers");
    }
  else
    for (int32_t axis = 0; axis < input.rank; ++axis)
      sizes.push_back(input.sizes[axis].expression != nullptr ? input.sizes[axis].low
                                                              : input.sizes[axis].value);
  if (input.value != nullptr && sizes.empty()) // an integer: INPUT=VALUE
    sizes.push_back(input.value->expression != nullptr ? input.value->low : input.value->value);
  if (sizes.size() != static_cast<size_t>(input.value != nullptr ? 1 : input.rank))
    fail(input.name, "wrong number of sizes");
  return sizes;
}

/// From the beginning of the tensor's memory to its last element.
size_t bytes_of(const TscTensorInfo &tensor, const std::vector<int64_t> &sizes,
                const std::vector<int64_t> &strides, int64_t offset) {
  static const size_t kBytes[] = {1, 1, 1, 2, 4, 8, 2, 4, 8, 2, 2, 4, 8}; // by TscDType
  int64_t last = offset;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] == 0)
      return 0;
    last += (sizes[axis] - 1) * strides[axis];
  }
  return static_cast<size_t>(last + 1) * kBytes[tensor.dtype];
}

std::vector<char> read_file(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return std::vector<char>(std::istreambuf_iterator<char>(file), {});
}

/// Which of several processes this is.
struct Ranks {
  int64_t rank = 0, ranks = 1;
  std::string id_file;
};

/// The model's groups, all of which are all ranks.
void connect(TscInstance *instance, const Ranks &ranks) {
  for (size_t i = 0; const char *group = tsc->group_name(i, nullptr); ++i) {
    const std::string path = ranks.id_file + "." + std::to_string(i);
    std::vector<char> id(TSC_COMMUNICATOR_ID_BYTES);
    if (ranks.rank == 0) {
      check(tsc->communicator_id(id.data()), "the id of a group");
      std::ofstream(path + ".new", std::ios::binary)
          .write(id.data(), static_cast<std::streamsize>(id.size()));
      if (std::rename((path + ".new").c_str(), path.c_str()) != 0)
        fail(path.c_str(), "cannot be written");
    }
    for (int tries = 0; ranks.rank != 0 && tries < 600; ++tries) { // a minute
      id = read_file(path);
      if (!id.empty())
        break;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    if (id.size() != TSC_COMMUNICATOR_ID_BYTES)
      fail(path.c_str(), "is no id of a group");
    check(tsc->instance_make_communicator(instance, group, id.data(), ranks.rank, ranks.ranks, 60),
          group, instance);
  }
}

uint64_t checksum(const std::vector<char> &bytes) { // FNV-1a
  uint64_t hash = 0xcbf29ce484222325ull;
  for (char byte : bytes)
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3ull;
  return hash;
}

} // namespace

int main(int argc, char **argv) {
  std::string weights_path = "weights.safetensors", data;
  std::map<std::string, std::string> shapes_given;
  uint64_t seed = 0;
  Ranks ranks;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    size_t equals = argument.find('=');
    if ((argument == "--weights" || argument == "--data") && i + 1 < argc)
      (argument == "--data" ? data : weights_path) = argv[++i];
    else if (argument == "--seed" && i + 1 < argc)
      seed = std::strtoull(argv[++i], nullptr, 10);
    else if ((argument == "--rank" || argument == "--ranks") && i + 1 < argc)
      (argument == "--rank" ? ranks.rank : ranks.ranks) = std::strtoll(argv[++i], nullptr, 10);
    else if (argument == "--id" && i + 1 < argc)
      ranks.id_file = argv[++i];
    else if (equals != std::string::npos)
      shapes_given[argument.substr(0, equals)] = argument.substr(equals + 1);
    else
      fail(argv[i],
           "expected --weights FILE, --data FOLDER, --seed N, --rank R, --ranks N, --id FILE or "
           "INPUT=SIZE,SIZE,...");
  }

  const TscModelInfo *model = tsc->describe();
  TscWeights *weights = nullptr;
  if (model->weight_count == 0)
    check(tsc->weights_create(static_cast<int>(ranks.rank), nullptr, 0, &weights), "weights");
  else
    check(tsc->weights_load(static_cast<int>(ranks.rank), weights_path.c_str(), &weights),
          "weights");
  TscInstance *instance = nullptr;
  check(tsc->instance_create(weights, &instance), "instance");
  if (ranks.ranks > 1)
    connect(instance, ranks);

  std::vector<std::vector<int64_t>> sizes;
  std::vector<const int64_t *> shapes;
  for (size_t i = 0; i < model->input_count; ++i)
    sizes.push_back(shape_of(model->inputs[i], shapes_given));
  for (const std::vector<int64_t> &shape : sizes)
    shapes.push_back(shape.data());
  size_t workspace_bytes = 0;
  check(tsc->instance_bind(instance, shapes.data(), &workspace_bytes), "bind", instance);
  std::vector<size_t> input_bytes(model->input_count), output_bytes(model->output_count);
  check(tsc->instance_bytes(instance, input_bytes.data(), output_bytes.data()), "bytes", instance);

  void *workspace = nullptr;
  check(tsc->memory_allocate(weights, workspace_bytes, &workspace), "workspace");
  std::vector<void *> inputs(model->input_count), outputs(model->output_count);
  for (size_t i = 0; i < model->input_count; ++i) {
    std::vector<char> bytes = read_file(data + "/" + model->inputs[i].name + ".raw");
    if (bytes.empty()) {
      bytes.resize(input_bytes[i]);
      fill_random(bytes, model->inputs[i].dtype);
    }
    if (bytes.size() != input_bytes[i])
      fail(model->inputs[i].name, "its file has another size than the bound shape");
    check(tsc->memory_allocate(weights, input_bytes[i], &inputs[i]), "input");
    check(tsc->memory_upload(weights, inputs[i], bytes.data(), bytes.size(), nullptr), "upload");
  }
  for (size_t i = 0; i < model->output_count; ++i)
    check(tsc->memory_allocate(weights, output_bytes[i], &outputs[i]), "output");

  // Sizes that the data decides are known after the run.
  std::vector<bool> of_data(model->output_count, false);
  for (size_t i = 0; i < model->output_count; ++i)
    of_data[i] = model->outputs[i].constant == nullptr &&
                 tsc->instance_output(instance, i, nullptr, nullptr, nullptr) != TSC_OK;

  check(tsc->instance_set_seed(instance, nullptr, seed, 0), "seed", instance);
  check(tsc->instance_run(instance, nullptr, inputs.data(), outputs.data(), workspace), "run",
        instance);
  check(tsc->instance_check(instance, nullptr), "check", instance);

  for (size_t i = 0; i < model->output_count; ++i) {
    const TscTensorInfo &output = model->outputs[i];
    if (output.constant != nullptr) {
      std::printf("%s: %s\n", output.name, output.constant);
      continue;
    }
    std::vector<int64_t> shape(static_cast<size_t>(output.rank)), strides(shape.size());
    int64_t offset = 0;
    check(tsc->instance_output(instance, i, shape.data(), strides.data(), &offset), "output",
          instance);
    std::vector<char> bytes(of_data[i] ? bytes_of(output, shape, strides, offset)
                                       : output_bytes[i]);
    void *memory = nullptr;
    check(tsc->instance_output_memory(instance, i, outputs[i], &memory), "output", instance);
    check(tsc->memory_download(weights, bytes.data(), memory, bytes.size(), nullptr), "download");
    std::printf("%s: [", output.name);
    for (size_t axis = 0; axis < shape.size(); ++axis)
      std::printf("%s%lld", axis == 0 ? "" : ", ", static_cast<long long>(shape[axis]));
    std::printf("] %zu bytes, checksum %016llx\n", bytes.size(),
                static_cast<unsigned long long>(checksum(bytes)));
    if (!data.empty()) {
      std::ofstream file(data + "/" + output.name + ".raw", std::ios::binary);
      file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      file.close();
      if (!file)
        fail(output.name, "its file cannot be written");
    }
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    fail("stdout", "the results cannot be written");

  for (void *memory : inputs)
    tsc->memory_release(weights, memory);
  for (void *memory : outputs)
    tsc->memory_release(weights, memory);
  tsc->memory_release(weights, workspace);
  tsc->instance_destroy(instance);
  tsc->weights_destroy(weights);
  return 0;
}
