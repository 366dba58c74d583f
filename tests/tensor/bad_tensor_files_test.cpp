#include "support/diagnostic.h"
#include "tensor/host_tensor.h"
#include "tensor/zip_archive.h"
#include "testing/catch.h"
#include "zip_bytes.h"

#include <filesystem>

using namespace tsc::tensor;
using tsc::testing::zip_bytes;
using tsc::testing::ZipMember;

namespace {

TensorMap parse(const std::string &bytes) {
  auto owner = std::make_shared<std::string>(bytes);
  return parse_tensors(owner, *owner, "t");
}

std::string safetensors(const std::string &header, size_t data = 0) {
  std::string bytes;
  tsc::testing::put(bytes, header.size(), 8);
  return bytes + header + std::string(data, '\0');
}

std::string npy(std::string header, size_t data = 0) {
  header += '\n';
  std::string bytes("\x93NUMPY\1\0", 8);
  tsc::testing::put(bytes, header.size(), 2);
  return bytes + header + std::string(data, '\0');
}

std::string npz(const std::string &array) { return zip_bytes({{"a.npy", array}}); }

} // namespace

TEST_CASE("what is no tensor file says so") {
  CHECK_THROWS_WITH(parse("hello"),
                    "error TSC-T030: this is no tensor file\n  at t\n"
                    "  next: give a .safetensors or .npz file, or a folder of .npy files");
  CHECK_THROWS_WITH(parse(npy("{'descr': '<f4', 'fortran_order': False, 'shape': ()}", 4)),
                    "error TSC-T030: a single .npy file has no tensor name\n  at t\n"
                    "  next: put it into a folder as NAME.npy and give the folder");
  CHECK_THROWS_WITH(parse(zip_bytes({{"readme.txt", "x"}})),
                    "error TSC-T030: the archive holds 'readme.txt', which is no array\n  at t\n"
                    "  next: give an .npz file as numpy.savez writes it");
  CHECK_THROWS_WITH(read_tensors("/nonexistent/x.npz"),
                    "error TSC-T002: cannot read the file: No such file or directory\n"
                    "  at /nonexistent/x.npz");
}

TEST_CASE("bad .npy headers") {
  CHECK_THROWS_WITH(parse(npz("NOTNUMPY??")),
                    "error TSC-T020: this is no .npy file\n  at t: a.npy\n"
                    "  next: write it with numpy.save");
  CHECK_THROWS_WITH(parse(npz(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", 4))),
                    "error TSC-T022: the NumPy dtype '>f4' is not supported\n  at t: a.npy\n"
                    "  next: save the array in little-endian byte order");
  CHECK_THROWS_WITH(parse(npz(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", 8))),
                    "error TSC-T021: the array needs 12 bytes from byte 66 on, the file has 8\n"
                    "  at t: a.npy\n  next: copy the file again; it is not complete");
  CHECK_THROWS_WITH(parse(npz(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 8))),
                    "error TSC-T020: the .npy shape is negative or exceeds 2^63 - 1 bytes\n"
                    "  at t: a.npy");
  CHECK_THROWS_WITH(
      parse(
          npz(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296)}"))),
      "error TSC-T020: the .npy shape is negative or exceeds 2^63 - 1 bytes\n  at t: a.npy");
  CHECK_THROWS_WITH(
      parse(npz(npy("{'descr': '<f8', 'shape': (1,)}", 8))),
      "error TSC-T020: the .npy header is malformed: descr, fortran_order or shape is "
      "missing\n  at t: a.npy\n  next: write the file again with numpy.save");
  CHECK_THROWS_WITH(
      parse(npz(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}"))),
      "error TSC-T022: structured NumPy dtypes are not supported\n  at t: a.npy\n"
      "  next: save one plain array for each field");
  CHECK_THROWS_WITH(parse(npz(std::string("\x93NUMPY\1\0\xff\xff{}", 12))),
                    "error TSC-T021: the .npy header claims 65535 bytes, the file ends before\n"
                    "  at t: a.npy\n  next: copy the file again; it is not complete");
}

TEST_CASE("bad .safetensors headers") {
  const char *good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  CHECK(parse(safetensors(good, 8)).size() == 1);
  CHECK_THROWS_WITH(parse(safetensors(good, 4)),
                    "error TSC-T021: the tensor ends at byte 8 of the data, the file has 4\n"
                    "  at t: a\n  next: copy the file again; it is not complete");
  CHECK_THROWS_WITH(
      parse(safetensors(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8)),
      "error TSC-T031: the .safetensors header is malformed: the offsets [0, 8] "
      "contradict the shape\n  at t: a\n"
      "  next: write the file again; it may be damaged");
  CHECK_THROWS_WITH(
      parse(safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                        R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                        8)),
      "error TSC-T031: the .safetensors header is malformed: two tensors overlap at byte 4 of the "
      "data\n  at t\n  next: write the file again; it may be damaged");
  CHECK_THROWS_WITH(
      parse(safetensors(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                        R"("a":{"dtype":"F32","shape":[],"data_offsets":[4,8]}})",
                        8)),
      "error TSC-T031: the .safetensors header is malformed: the tensor 'a' stands twice\n  at t\n"
      "  next: write the file again; it may be damaged");
  CHECK_THROWS_WITH(
      parse(safetensors(R"({"a":{"dtype":"F33","shape":[],"data_offsets":[0,4]}})", 4)),
      "error TSC-T032: the dtype 'F33' is not supported\n  at t: a");
  CHECK_THROWS_WITH(parse(safetensors("{\"a\":[[[[[[1]]]]]]}")),
                    "error TSC-T031: the .safetensors header is malformed: it is nested too deep\n"
                    "  at t\n  next: write the file again; it may be damaged");
  CHECK_THROWS_WITH(parse(safetensors("{\"a\":")),
                    "error TSC-T031: the .safetensors header is malformed: it is no JSON object\n"
                    "  at t\n  next: write the file again; it may be damaged");
  CHECK_THROWS_WITH(parse(std::string("\xff\0\0\0\0\0\0\0{}", 10)),
                    "error TSC-T021: the header claims 255 bytes, the file has 2\n  at t\n"
                    "  next: copy the file again; it is not complete");
  CHECK_THROWS_WITH(
      parse(safetensors(
          R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", 8)),
      "error TSC-T031: the .safetensors header is malformed: the offsets [0, 8] contradict the "
      "shape\n  at t: a\n  next: write the file again; it may be damaged");
}

TEST_CASE("zip archives that lie") {
  std::string damaged = "\n  next: write the file again; it may be damaged";
  ZipMember good{"a.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 4)};
  CHECK(parse(zip_bytes({good})).size() == 1);

  std::string cut = zip_bytes({good});
  cut.resize(cut.size() - 30);
  CHECK_THROWS_WITH(parse(cut), "error TSC-T010: the zip archive has no readable directory; it may "
                                "be cut off\n  at t" +
                                    damaged);

  ZipMember longer = good;
  longer.size = longer.packed = 100000;
  CHECK_THROWS_WITH(
      parse(zip_bytes({longer})),
      "error TSC-T011: the zip member claims 100000 bytes at offset 35, the file has " +
          std::to_string(zip_bytes({longer}).size()) + "\n  at t: a.npy" + damaged);

  ZipMember bomb = good;
  bomb.method = 8;
  bomb.size = 1 << 30;
  CHECK_THROWS_WITH(parse(zip_bytes({bomb})),
                    "error TSC-T011: the zip member claims 1073741824 bytes unpacked from " +
                        std::to_string(good.payload.size()) + "\n  at t: a.npy" + damaged);

  ZipMember garbage = good;
  garbage.method = 8;
  CHECK_THROWS_WITH(parse(zip_bytes({garbage})),
                    "error TSC-T011: the zip member's compressed bytes are damaged\n  at t: a.npy" +
                        damaged);

  ZipMember escaping = good;
  escaping.name = "../a.npy";
  CHECK_THROWS_WITH(parse(zip_bytes({escaping})),
                    "error TSC-T012: the zip member's name '../a.npy' is no plain relative path\n"
                    "  at t" +
                        damaged);
  escaping.name = "/etc/a.npy";
  CHECK_THROWS_AS(parse(zip_bytes({escaping})), tsc::support::UserError);

  CHECK_THROWS_WITH(parse(zip_bytes({good, good})),
                    "error TSC-T013: the zip archive holds a member twice\n  at t: a.npy" +
                        damaged);

  ZipMember encrypted = good;
  encrypted.flags = 1;
  CHECK_THROWS_WITH(
      parse(zip_bytes({encrypted})),
      "error TSC-T014: the zip member is encrypted or compressed by an unknown method\n"
      "  at t: a.npy\n  next: write the archive with stored or deflated members");

  ZipMember aliased = good;
  aliased.name = "b.npy";
  aliased.offset = 0;
  CHECK_THROWS_AS(parse(zip_bytes({good, aliased})), tsc::support::UserError);
}

TEST_CASE("names that cannot be files are refused before anything is written") {
  TensorMap tensors;
  tensors.emplace("../x", HostTensor(DType::f32, {1}));
  std::string path = (std::filesystem::temp_directory_path() / "tsc-refused.npz").string();
  CHECK_THROWS_WITH(write_tensors(path, tensors),
                    "error TSC-T012: the tensor's name '../x' cannot be a file's name\n  at " +
                        path + "\n  next: write a .safetensors file");
  CHECK_FALSE(std::filesystem::exists(path));
}
