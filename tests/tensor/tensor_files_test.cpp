#include "tensor/host_tensor.h"
#include "testing/catch.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <unistd.h>

using namespace tsc::tensor;
namespace fs = std::filesystem;

namespace {

struct TemporaryFolder {
  fs::path path = fs::temp_directory_path() / ("tsc-tensor-test-" + std::to_string(::getpid()));
  TemporaryFolder() { fs::create_directories(path); }
  ~TemporaryFolder() { fs::remove_all(path); }
  std::string operator/(const std::string &name) const { return (path / name).string(); }
};

std::string file_bytes(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TensorMap sample() {
  TensorMap tensors;
  for (auto d = static_cast<int>(DType::boolean); d <= static_cast<int>(DType::f64); ++d) {
    auto dtype = static_cast<DType>(d);
    tensors.emplace(std::string(short_name(dtype)), random_tensor(dtype, {3, 5}, RandomSpec{9}));
  }
  tensors.emplace("scalar", random_tensor(DType::f32, {}, {}));
  tensors.emplace("empty", HostTensor(DType::f16, {2, 0, 3}));
  tensors.emplace("row", random_tensor(DType::i64, {4}, {}));
  return tensors;
}

void check_equal(const TensorMap &a, const TensorMap &b) {
  REQUIRE(a.size() == b.size());
  for (const auto &entry : a) {
    INFO(entry.first);
    const HostTensor &other = b.at(entry.first);
    CHECK(entry.second.dtype() == other.dtype());
    CHECK(entry.second.sizes() == other.sizes());
    CHECK(std::memcmp(entry.second.contiguous().data(), other.contiguous().data(),
                      other.size_in_bytes()) == 0);
  }
}

} // namespace

TEST_CASE("tensor files give back what was written, in the same bytes each time") {
  TemporaryFolder folder;
  for (const char *name : {"t.safetensors", "t.npz", "t"}) {
    INFO(name);
    std::string path = folder / name;
    write_tensors(path, sample());
    check_equal(read_tensors(path), sample());
    if (fs::is_directory(path)) {
      write_tensors(path, sample()); // into a folder that is there
      check_equal(read_tensors(path), sample());
      continue;
    }
    std::string first = file_bytes(path);
    write_tensors(path, sample());
    CHECK(file_bytes(path) == first);
  }
  for (const auto &entry : fs::recursive_directory_iterator(folder.path))
    CHECK(entry.path().string().find(".part-") == std::string::npos);
}

TEST_CASE("safetensors of every dtype, names with slashes included") {
  TemporaryFolder folder;
  TensorMap tensors;
  for (auto d = static_cast<int>(DType::boolean); d <= static_cast<int>(DType::c128); ++d) {
    HostTensor tensor(static_cast<DType>(d), {3});
    std::memset(tensor.data(), 1, tensor.size_in_bytes());
    tensors.emplace("a/b." + std::to_string(d), std::move(tensor));
  }
  write_tensors(folder / "t.safetensors", tensors);
  check_equal(read_tensors(folder / "t.safetensors"), tensors);
}

TEST_CASE("stored payloads are used where the file is mapped") {
  TemporaryFolder folder;
  TensorMap tensors;
  tensors.emplace("x", random_tensor(DType::f32, {1024}, {}));
  write_tensors(folder / "t.safetensors", tensors);
  HostTensor x = read_tensors(folder / "t.safetensors").at("x");
  CHECK_FALSE(x.writable());
  CHECK(x.clone().writable());
  CHECK(x.get_double(1023) == tensors.at("x").get_double(1023));
}

TEST_CASE("a strided tensor is written densely, Fortran order is read") {
  TemporaryFolder folder;
  HostTensor base = random_tensor(DType::f32, {2, 3}, {});
  HostTensor view(DType::f32, {3, 2}, {1, 3}, std::make_shared<HostTensor>(base), base.data(),
                  false);
  TensorMap tensors;
  tensors.emplace("v", view);
  write_tensors(folder / "t.npz", tensors);
  HostTensor back = read_tensors(folder / "t.npz").at("v");
  CHECK(back.is_contiguous());
  CHECK(back.get_double(1) == base.get_double(3));

  std::string header = "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }";
  header.resize(117, ' ');
  header += '\n';
  std::string bytes = std::string("\x93NUMPY\1\0", 8) + '\x76' + '\0' + header;
  for (int32_t i = 0; i < 6; ++i)
    bytes.append(reinterpret_cast<const char *>(&i), sizeof i);
  fs::create_directory(folder / "f");
  std::ofstream(folder / "f/a.npy", std::ios::binary) << bytes;
  HostTensor fortran = read_tensors(folder / "f").at("a");
  CHECK(fortran.get_int64(0) == 0);
  CHECK(fortran.get_int64(1) == 2);
  CHECK(fortran.get_int64(3) == 1);
}
