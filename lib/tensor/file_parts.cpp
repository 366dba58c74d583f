#include "tensor/file_parts.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace tsc::tensor {

void fail_file(const char *code, std::string message, std::string place, std::string next_step,
               support::ExitCode exit_code) {
  throw support::UserError(exit_code,
                           support::Diagnostic{code, std::move(message), "", std::move(place), "",
                                               "", std::move(next_step)});
}

std::optional<uint64_t> tensor_bytes(DType dtype, const std::vector<int64_t> &sizes) {
  auto extent = static_cast<int64_t>(size_in_bytes(dtype));
  bool empty = false;
  for (int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(extent, std::max<int64_t>(size, 1), &extent))
      return std::nullopt;
    empty = empty || size == 0;
  }
  return empty ? 0 : static_cast<uint64_t>(extent);
}

HostTensor view_payload(const Payload &payload, uint64_t offset, DType dtype,
                        std::vector<int64_t> sizes, bool fortran) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    size_t dimension = fortran ? i : sizes.size() - 1 - i;
    strides[dimension] = stride;
    stride *= std::max<int64_t>(sizes[dimension], 1);
  }
  // Mapped pages are read-only; nothing writes to a tensor that is not writable().
  auto *data = const_cast<std::byte *>(payload.data) + offset;
  HostTensor view(dtype, std::move(sizes), std::move(strides), payload.owner, data, false);
  size_t element = size_in_bytes(dtype);
  bool aligned = reinterpret_cast<uintptr_t>(data) % std::min<size_t>(element, 8) == 0;
  return aligned ? view : view.clone();
}

OutputFile::OutputFile(const std::string &path) : path_(path) {
  descriptor_ = path == "-" ? ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)
                            : ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0)
    fail_file("TSC-T005", std::string("cannot write the file: ") + std::strerror(errno), path);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

void OutputFile::write(const void *data, size_t size) {
  const auto *bytes = static_cast<const char *>(data);
  while (size != 0) {
    ssize_t count = ::write(descriptor_, bytes, std::min(size, size_t{1} << 30));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      fail_file("TSC-T005", std::string("cannot write the file: ") + std::strerror(errno), path_);
    bytes += count;
    size -= static_cast<size_t>(count);
  }
}

void OutputFile::close() {
  int descriptor = descriptor_;
  descriptor_ = -1;
  if (::close(descriptor) != 0)
    fail_file("TSC-T005", std::string("cannot write the file: ") + std::strerror(errno), path_);
}

void write_aside(const std::string &path, const std::function<void(const std::string &)> &write) {
  std::string aside = path + ".part-" + std::to_string(::getpid());
  std::error_code ignored;
  try {
    write(aside);
    std::error_code error;
    std::filesystem::rename(aside, path, error);
    if (error)
      fail_file("TSC-T005", "cannot write the file: " + error.message(), path);
  } catch (const support::UserError &error) {
    std::filesystem::remove_all(aside, ignored);
    // The user knows the file by its own name.
    std::vector<support::Diagnostic> problems = error.diagnostics();
    for (support::Diagnostic &problem : problems)
      if (problem.place.rfind(aside, 0) == 0)
        problem.place = path + problem.place.substr(aside.size());
    throw support::UserError(error.exit_code(), std::move(problems));
  } catch (...) {
    std::filesystem::remove_all(aside, ignored);
    throw;
  }
}

} // namespace tsc::tensor
