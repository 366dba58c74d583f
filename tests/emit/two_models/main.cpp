// Two models in one program: what one gives, the other takes.
//
//   two_models SCALER_WEIGHTS SHIFTER_WEIGHTS
#include "scaler_model.h"
#include "shifter_model.h"
#include "tsc_model.hpp"

#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

namespace {

// As in dlpack.h, which a program with other libraries for tensors has.
struct DLDevice {
  int device_type, device_id;
};
struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DLTensor {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(DLManagedTensor *);
};

void print(const char *name, const tsc::Tensor &tensor) {
  std::printf("%s:", name);
  for (const float element : tensor.to_host<float>())
    std::printf(" %g", element);
  std::printf("\n");
}

int run(const char *scaler_weights, const char *shifter_weights) {
  tsc::Model scaler(scaler_model(), scaler_weights), shifter(shifter_model(), shifter_weights);
  const std::vector<float> rows = {1, 2, 3, 4, 5, 6, 7, 8};
  const tsc::Tensor x = scaler.tensor({2, 4}, rows);
  const tsc::Outputs scaled = scaler.run({{"x", x}});
  print("scaler", scaled["result"]);
  // As another library gives and takes tensors: memory is shared, and freed by who comes last.
  auto *managed = scaled["more.0"].to_dlpack<DLManagedTensor>();
  const tsc::Outputs shifted = shifter.run({{"x", shifter.from_dlpack(managed)}});
  print("shifter", shifted["output_0"]);
  tsc::Model other = shifter.another_instance();
  print("other", other.run({{"x", x}})["output_0"]);
  try {
    shifter.run({{"x", shifter.tensor({4, 2}, rows)}});
  } catch (const tsc::Error &error) {
    std::printf("error %d: %s\n", error.status(), error.what());
  }
  try {
    (void)scaled["logits"];
  } catch (const tsc::Error &error) {
    std::printf("error %d: %s\n", error.status(), error.what());
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  try {
    return argc == 3 ? run(argv[1], argv[2]) : 2;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
