// A fuzz target as a plain program: runs it once for each file of the given folders (or files).
// usage: replay_NAME PATH...
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_of(const fs::path &path) {
  if (!fs::is_directory(path))
    return {path};
  std::vector<fs::path> files;
  for (const fs::directory_entry &entry : fs::directory_iterator(path))
    if (entry.is_regular_file())
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

} // namespace

int main(int count, char **arguments) {
  size_t done = 0;
  for (int i = 1; i < count; ++i)
    for (const fs::path &path : files_of(arguments[i])) {
      std::ifstream file(path, std::ios::binary);
      std::string bytes((std::istreambuf_iterator<char>(file)), {});
      std::fprintf(stderr, "%s\n", path.c_str()); // the last name tells which file broke it
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
      ++done;
    }
  std::printf("%zu files\n", done);
  return done == 0 ? 1 : 0; // nothing to replay: a wrong path
}
