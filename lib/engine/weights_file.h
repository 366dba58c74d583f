// Weights out of a .safetensors file, one tensor in memory at a time.
#pragma once

#include "engine/engine.h"

#include <map>
#include <string>
#include <vector>

namespace tsc_engine {

class WeightsFile {
public:
  /// Opens `path` and reads its header. Errors: Error (bad_argument) with the path and what is
  /// wrong; nothing of the file is trusted, and memory use is bounded by its size.
  explicit WeightsFile(const std::string &path);
  ~WeightsFile();
  WeightsFile(const WeightsFile &) = delete;
  WeightsFile &operator=(const WeightsFile &) = delete;

  /// Null data if the file has no tensor of this name and a known element type. Valid until the
  /// next call: tensors are read one after the other, not mapped, because a mapped file that is cut
  /// short ends the process, which is not ours. Errors: Error (bad_argument) if that happens.
  WeightData find(const std::string &name);

private:
  struct Entry {
    DType dtype = DType::f32;
    std::vector<int64_t> sizes;
    size_t begin = 0, bytes = 0; // in the file
  };
  void read_header();
  void read(char *to, size_t begin, size_t bytes) const;

  std::string path_;
  size_t bytes_ = 0; // before file_, whose initializer sets it
  int file_ = -1;
  std::vector<char> data_; // of the tensor asked for last
  std::map<std::string, Entry> entries_;
};

} // namespace tsc_engine
