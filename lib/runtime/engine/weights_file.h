// Weights out of a .safetensors file, mapped into memory, not copied.
#pragma once

#include "engine/engine.h"

#include <map>

namespace tsc_engine {

class WeightsFile {
public:
  /// Maps `path` and reads its header. Errors: Error (bad_argument) with the path and what is
  /// wrong; nothing of the file is trusted, and memory use is bounded by its size.
  explicit WeightsFile(const std::string &path);
  ~WeightsFile();
  WeightsFile(const WeightsFile &) = delete;
  WeightsFile &operator=(const WeightsFile &) = delete;

  /// Null data if the file has no tensor of this name and a known element type. Valid while the
  /// file is.
  WeightData find(const std::string &name) const;

private:
  struct Entry {
    DType dtype = DType::f32;
    std::vector<int64_t> sizes;
    size_t begin = 0; // in the mapped file
  };
  void read_header();

  size_t bytes_ = 0; // before data_, whose initializer sets it
  const char *data_;
  std::map<std::string, Entry> entries_;
};

} // namespace tsc_engine
