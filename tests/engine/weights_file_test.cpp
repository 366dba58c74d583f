#include "engine/weights_file.h"

#include "testing/catch.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <unistd.h>

using namespace tsc_engine;

namespace {

/// A file that goes with the object.
struct TemporaryFile {
  std::string path = "/tmp/tsc_weights_" + std::to_string(getpid()) + ".safetensors";
  TemporaryFile(const std::string &header, const std::string &payload) {
    std::ofstream file(path, std::ios::binary);
    uint64_t length = header.size();
    file.write(reinterpret_cast<const char *>(&length), 8);
    file << header << payload;
  }
  ~TemporaryFile() { std::remove(path.c_str()); }
};

std::string error_of(const std::string &header, const std::string &payload) {
  TemporaryFile file(header, payload);
  try {
    WeightsFile weights(file.path);
  } catch (const Error &error) {
    return std::string(error.what()).substr(file.path.size() + 2);
  }
  return "";
}

const std::string kHeader =
    R"({"__metadata__": {"by": "x"}, "a\"b\u00e9": {"dtype":"F32","shape":[2, 1],"data_offsets":[0,8]},)"
    R"( "e": {"dtype":"BF16","shape":[0,3],"data_offsets":[8,8]}, "q": {"dtype":"F4","shape":[1],"data_offsets":[8,9]} })";

} // namespace

TEST_CASE("Weights come out of a safetensors file", "[engine]") {
  float values[2] = {1.5f, -2};
  TemporaryFile file(kHeader, std::string(reinterpret_cast<const char *>(values), 8) + "x");
  WeightsFile weights(file.path);
  WeightData data = weights.find("a\"b\xc3\xa9");
  REQUIRE(data.data != nullptr);
  CHECK(data.dtype == DType::f32);
  REQUIRE(data.rank == 2);
  CHECK(data.sizes[0] == 2);
  CHECK(std::memcmp(data.data, values, 8) == 0);
  CHECK(weights.find("e").data != nullptr);
  CHECK(weights.find("e").dtype == DType::bf16);
  CHECK(weights.find("q").data == nullptr);
  CHECK(weights.find("nothing").data == nullptr);
}

TEST_CASE("A broken weights file is refused", "[engine]") {
  CHECK(error_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "1234567") ==
        "the bytes of tensor \"a\" do not fit its shape or the file");
  CHECK(error_of(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "12345678") ==
        "the bytes of tensor \"a\" do not fit its shape or the file");
  CHECK(error_of(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})",
                 "") == "the bytes of tensor \"a\" do not fit its shape or the file");
  CHECK(error_of(R"({"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,0]}})",
                 "") == "a number beyond 64 bits at byte 55 of its header");
  CHECK(error_of("{} x", "") == "text after the end at byte 11 of its header");
  CHECK(error_of(R"({"a\q":1})", "") == "an unknown escape at byte 13 of its header");
  CHECK_THROWS_WITH(WeightsFile("/nowhere/w.safetensors"),
                    "/nowhere/w.safetensors: No such file or directory");
}

TEST_CASE("A weights file cut anywhere does not crash", "[engine]") {
  for (size_t length = 0; length < kHeader.size(); ++length)
    CHECK(error_of(kHeader.substr(0, length), "123456789") != "");
}
