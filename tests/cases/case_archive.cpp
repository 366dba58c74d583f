#include "case_archive.h"

#include "tensor/zip_archive.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>

namespace tsc::testing {
namespace {

namespace fs = std::filesystem;
using tensor::DType;
using tensor::HostTensor;

fs::path root() {
  // For tests that run elsewhere than they were built.
  const char *moved = std::getenv("TSC_SOURCE_DIR");
  return fs::path(moved ? moved : TSC_SOURCE_DIR) / "tests" / "cases";
}

std::string text_of(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw std::runtime_error("no recorded cases in " + path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

DType dtype_of(const std::string &name) {
  const std::optional<DType> dtype = tensor::parse_safetensors_dtype(name);
  if (!dtype)
    throw std::runtime_error("recorded cases hold no tensors of dtype " + name);
  return *dtype;
}

/// The bits of element `i` in the wider dtype `wider`; 0 for what is not finite.
uint64_t widened(const HostTensor &output, int64_t i, DType wider) {
  const double value = output.get_double(i);
  const double finite = std::isfinite(value) ? value : 0;
  uint64_t bits = 0;
  if (wider == DType::f64) {
    std::memcpy(&bits, &finite, sizeof(double));
  } else {
    const float narrow = static_cast<float>(finite);
    std::memcpy(&bits, &narrow, sizeof(float));
  }
  return bits;
}

/// One FAMILY.zip.
class Reader {
public:
  explicit Reader(const fs::path &path)
      : Reader(path, std::make_shared<std::string>(text_of(path))) {}

  std::string graphs() { return std::string(member("graphs.json")); }

  tensor::TensorMap tensors() {
    const nlohmann::json listed = nlohmann::json::parse(member("tensors.json"));
    std::vector<HostTensor> read;
    std::vector<std::string> names;
    std::map<size_t, DType> folded; // place of a reference -> dtype of the output it is told from
    for (const nlohmann::json &entry : listed) {
      names.push_back(entry.at(0));
      const nlohmann::json &stream = entry.at(3);
      if (stream.is_number()) { // filled in below: what it repeats may be a reference
        read.emplace_back();
        continue;
      }
      const DType dtype = dtype_of(entry.at(1));
      read.push_back(next_of(stream, dtype, entry.at(2)));
      const std::string name = stream;
      if (const size_t dash = name.find('-'); dash != std::string::npos)
        folded.emplace(read.size() - 1, dtype_of(name.substr(dash + 1)));
    }
    std::map<std::string, size_t> places;
    for (size_t i = 0; i < names.size(); ++i)
      places.emplace(names[i], i);
    // What a tensor repeats stands before it and repeats nothing itself.
    const auto origin = [&](size_t place) {
      const nlohmann::json &stream = listed.at(place).at(3);
      return stream.is_number() ? stream.get<size_t>() : place;
    };
    // An output is told from nothing, so that the references may be unfolded in any order.
    for (const auto &[place, narrow] : folded) {
      std::string output = names[place];
      for (size_t at = 0; (at = output.find("reference_", at)) != std::string::npos;)
        output.replace(at, std::strlen("reference_"), "output_");
      unfold(read[place], read.at(origin(places.at(output))), narrow);
    }
    tensor::TensorMap result;
    for (size_t i = 0; i < names.size(); ++i) {
      if (listed.at(i).at(3).is_number()) { // a copy: of the same bytes, perhaps of another shape
        const HostTensor &same = read[origin(i)];
        read[i] = HostTensor(same.dtype(), listed.at(i).at(2));
        std::memcpy(read[i].data(), same.data(), same.size_in_bytes());
      }
      result.emplace(names[i], read[i]);
    }
    return result;
  }

private:
  Reader(const fs::path &path, const std::shared_ptr<std::string> &bytes)
      : path_(path.string()),
        archive_({bytes, reinterpret_cast<const std::byte *>(bytes->data()), bytes->size()},
                 path_) {}

  std::string_view member(const std::string &name) {
    auto found = payloads_.find(name);
    if (found == payloads_.end()) {
      const tensor::ZipArchive::Member *entry = archive_.find(name);
      if (!entry)
        throw std::runtime_error(path_ + " has no " + name);
      found = payloads_.emplace(name, archive_.read(*entry)).first;
    }
    return found->second.text();
  }

  /// The next elements of a stream, put together from its bytes.
  HostTensor next_of(const std::string &stream, DType dtype, const std::vector<int64_t> &sizes) {
    HostTensor tensor(dtype, sizes);
    const size_t width = tensor::size_in_bytes(dtype), count = static_cast<size_t>(tensor.numel());
    const size_t begin = position_[stream];
    position_[stream] = begin + count;
    for (size_t byte = 0; byte < width; ++byte) {
      const std::string_view plane = member(stream + "/" + std::to_string(byte));
      if (plane.size() < begin + count)
        throw std::runtime_error(path_ + ": " + stream + " ends too early");
      for (size_t i = 0; i < count; ++i)
        tensor.data()[i * width + byte] = static_cast<std::byte>(plane[begin + i]);
    }
    return tensor;
  }

  /// Adds the output's bits to the recorded differences.
  void unfold(HostTensor &reference, const HostTensor &output, DType narrow) {
    if (output.dtype() != narrow || output.numel() != reference.numel())
      throw std::runtime_error(path_ + ": a reference is told from a tensor of another kind");
    const size_t width = tensor::size_in_bytes(reference.dtype());
    for (int64_t i = 0; i < reference.numel(); ++i) {
      std::byte *at = reference.data() + static_cast<size_t>(i) * width;
      uint64_t difference = 0;
      std::memcpy(&difference, at, width);
      const uint64_t sign = (difference & 1) != 0 ? ~uint64_t{0} : 0;
      const uint64_t bits = ((difference >> 1) ^ sign) + widened(output, i, reference.dtype());
      std::memcpy(at, &bits, width);
    }
  }

  std::string path_;
  tensor::ZipArchive archive_;
  std::map<std::string, tensor::Payload> payloads_;
  std::map<std::string, size_t> position_; // elements of each stream that are used up
};

} // namespace

CaseFiles read_case_files(const std::string &family) {
  const fs::path folder = root() / family;
  if (fs::exists(folder / "graphs.json"))
    return {text_of(folder / "graphs.json"),
            tensor::read_tensors((folder / "tensors.safetensors").string())};
  Reader reader(folder.string() + ".zip");
  return {reader.graphs(), reader.tensors()};
}

std::vector<std::string> case_families() {
  std::set<std::string> names;
  for (const fs::directory_entry &entry : fs::directory_iterator(root()))
    if (entry.path().extension() == ".zip")
      names.insert(entry.path().stem().string());
    else if (fs::exists(entry.path() / "graphs.json"))
      names.insert(entry.path().filename().string());
  return {names.begin(), names.end()};
}

} // namespace tsc::testing
