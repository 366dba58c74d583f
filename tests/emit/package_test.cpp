// A package: what is written is read back, mapped; what lacks something is refused.
#include "emit/emit.h"
#include "emit/package.h"
#include "sample_program.h"
#include "support/diagnostic.h"
#include "temporary_folder.h"
#include "tensor/mapped_file.h"
#include "tensor/stored_zip.h"
#include "tensor/zip_archive.h"

#include "testing/catch.h"

#include <cstring>
#include <fstream>
#include <iterator>

using namespace tsc;
namespace fs = std::filesystem;

namespace {

tensor::TensorMap weights() {
  tensor::TensorMap map;
  map["layer.w"] = tensor::random_tensor(program::DType::f32, {4, 3}, {});
  map["layer.bias"] = tensor::random_tensor(program::DType::f32, {3}, {});
  map["layer.count"] = tensor::random_tensor(program::DType::i64, {1}, {});
  return map;
}

std::string error_of_read(const fs::path &path) {
  try {
    emit::read_package(path.string());
  } catch (const support::UserError &error) {
    return error.what();
  }
  return "";
}

} // namespace

TEST_CASE("A package holds programs, code and weights", "[emit]") {
  TemporaryFolder temporary;
  const std::string path = (temporary.path / "sample.tsc").string();
  std::vector<program::Program> plans(2, program::sample_program());
  plans[1].archs = {"sm_120"};
  std::vector<program::KernelImages> images(2);
  const std::string first = "one", second(100'000, 'x');
  images[0] = {"x86_64", "identity", {first, second}, nullptr};
  images[1] = {"sm_120", "other", {}, nullptr};
  emit::write_package(plans, images, weights(), path);
  CHECK(emit::is_package(path));
  CHECK(emit::is_emitted(path));
  CHECK_FALSE(emit::is_emitted_folder(path));
  const emit::EmittedFolder read = emit::read_emitted_folder(path);
  REQUIRE(read.plans.size() == 2);
  CHECK(program::to_json(read.plans[1]) == program::to_json(plans[1]));
  REQUIRE(read.images.size() == 2);
  CHECK(read.images[0].target == "x86_64");
  CHECK(read.images[0].images == std::vector<std::string_view>{first, second});
  CHECK(read.images[0].identity == "identity");
  CHECK(read.images[1].target == "sm_120");
  REQUIRE(read.weights.size() == 3);
  const tensor::TensorMap given = weights();
  CHECK(std::memcmp(read.weights.at("layer.w").data(), given.at("layer.w").data(), 48) == 0);
}

namespace {

const std::string kProgram = program::to_json(program::sample_program());

/// What reading a package of these members says, behind the code.
std::string error_of(const fs::path &path,
                     const std::vector<std::pair<std::string, std::string>> &members) {
  tensor::StoredZip zip(path.string());
  for (const auto &[name, bytes] : members)
    zip.add(name, bytes);
  zip.close();
  const std::string error = error_of_read(path);
  return error.substr(0, error.find('\n'));
}

std::string list(const std::string &programs, const std::string &rest = "") {
  return R"({"format": "tsc-package", "version": 1, "programs": )" + programs + rest + "}";
}

} // namespace

TEST_CASE("A package that is not whole is refused", "[emit]") {
  TemporaryFolder temporary;
  const fs::path path = temporary.path / "bad.tsc";
  const std::string mark = emit::kPackageMark, one = R"([{"file": "program.json", "code": []}])";
  const std::string coded = "error TSC-E071: the package ";
  CHECK(error_of(path, {{mark, list(one)}, {"program.json", kProgram}}).empty());
  CHECK(error_of(path, {{mark, "1\n"}}).rfind(coded + "has a broken list: ", 0) == 0);
  CHECK(error_of(path, {{mark, "[]"}}).rfind(coded + "has a broken list: ", 0) == 0);
  CHECK(error_of(path, {{mark, R"({"format": "tsc-package", "version": 2})"}}) ==
        coded + "has version 2, this tsc reads 1");
  CHECK(error_of(path, {{mark, R"({"format": "other", "version": 1})"}}) ==
        coded + "has a list of another format");
  CHECK(error_of(path, {{mark, list("[]")}}) == coded + "has no program");
  CHECK(error_of(path, {{mark, list("[{}]")}}).rfind(coded + "has a broken list: ", 0) == 0);
  CHECK(error_of(path, {{mark, list(one)}}) == coded + "lacks 'program.json'");
  CHECK(error_of(path, {{mark, list(one)}, {"program.json", kProgram}, {"more", ""}}) ==
        coded + "holds 'more', which its list does not name");
  CHECK(error_of(path, {{mark, list(R"([{"file": "tsc-package", "code": []}])")}}) ==
        coded + "names 'tsc-package' twice");
  const std::string code = R"([{"file": "program.json", "target": "x86_64", "identity": "0",
                                "code": ["a", "a"]}])";
  CHECK(error_of(path, {{mark, list(code)}, {"program.json", kProgram}, {"a", ""}}) ==
        coded + "names 'a' twice");
  const std::string weights = R"(, "weights": "w")";
  CHECK(error_of(path, {{mark, list(one, weights)}, {"program.json", kProgram}, {"w", "PK"}}) ==
        coded + "has weights of another format");
  // What the archive itself is checked for.
  CHECK(error_of(path, {{mark, list(one)}, {"program.json", kProgram}, {"../up", ""}})
            .rfind("error TSC-T012", 0) == 0);
  CHECK(error_of(path, {{mark, list(one)}, {"program.json", kProgram}, {mark, "{}"}})
            .rfind("error TSC-T013", 0) == 0);
}

TEST_CASE("A package that is cut short or damaged anywhere is refused, or the same", "[emit]") {
  TemporaryFolder temporary;
  const fs::path path = temporary.path / "bad.tsc";
  const std::string whole_path = (temporary.path / "whole.tsc").string();
  const std::vector<program::Program> plans(1, program::sample_program());
  const std::vector<program::KernelImages> images = {{"x86_64", "identity", {"code"}, nullptr}};
  emit::write_package(plans, images, weights(), whole_path);
  std::ifstream file(whole_path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto write = [&](const std::string &bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  };
  for (size_t size = 0; size < whole.size(); size += 97) {
    write(whole.substr(0, size));
    CHECK(error_of_read(path).rfind("error TSC-T01", 0) == 0);
  }
  size_t refused = 0, tried = 0;
  for (size_t at = 0; at < whole.size(); at += 41, ++tried) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x40);
    write(bytes);
    refused += error_of_read(path).empty() ? 0 : 1; // what is not: weights, dates, padding
  }
  CHECK(refused > tried / 2);
}

TEST_CASE("An archive of more than 65,535 members is written as zip64", "[emit]") {
  TemporaryFolder temporary;
  const std::string path = (temporary.path / "many.zip").string();
  tensor::StoredZip zip(path);
  for (int i = 0; i < 65'540; ++i)
    zip.add(std::to_string(i), "x");
  zip.close();
  const std::shared_ptr<tensor::MappedFile> file = tensor::MappedFile::open(path);
  const tensor::ZipArchive archive({file, file->data(), file->size()}, path);
  CHECK(archive.members().size() == 65'540);
  CHECK(archive.read(*archive.find("65539")).text() == "x");
}
