// Two packages in one program: what one gives, the other takes; then other weights.
//
//   two_packages FIRST.tsc SECOND.tsc WEIGHTS
#include "api/tsc_package.hpp"

#include <chrono>
#include <cstdio>
#include <exception>
#include <new>
#include <vector>

namespace {

void print(const char *what, const tsc_package::Output &output) {
  std::printf("%s:", what);
  for (const float element : output.elements<float>())
    std::printf(" %g", element);
  std::printf("\n");
}

int run(const char *first_path, const char *second_path, const char *weights) {
  const char *const host = R"({"device": "host", "use_cache": false})";
  const auto start = std::chrono::steady_clock::now();
  tsc_package::Package first(first_path, host), second(second_path, host);
  const auto took = std::chrono::steady_clock::now() - start;
  std::fprintf(stderr, "loaded in %.2f ms\n",
               std::chrono::duration<double, std::milli>(took).count());

  alignas(64) static const float rows[2 * 4] = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto between = first.run({{rows, {2, 4}}});
  const tsc_package::Output &middle = between.begin()->second;
  print("first", middle);
  const auto outputs = second.run({{middle.memory.get(), middle.sizes}});
  print("second", outputs.begin()->second);

  second.load_weights(weights);
  print("other weights", second.run({{middle.memory.get(), middle.sizes}}).begin()->second);

  for (const char *wrong : {"nothing.tsc", weights}) {
    try {
      tsc_package::Package missing(wrong, host);
    } catch (const tsc_package::Error &error) {
      std::printf("status %d: %.14s\n", error.status(), error.what());
    }
  }
  try {
    second.run({{rows, {4, 2}}});
  } catch (const tsc_package::Error &error) {
    std::printf("status %d\n", error.status());
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  try {
    return argc == 4 ? run(argv[1], argv[2], argv[3]) : 2;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
