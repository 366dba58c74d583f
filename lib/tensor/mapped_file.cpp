#include "tensor/mapped_file.h"

#include "support/diagnostic.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tsc::tensor {

namespace {

[[noreturn]] void throw_unreadable(const std::string &path, const std::string &reason) {
  support::Diagnostic diagnostic;
  diagnostic.code = "TSC-T002";
  diagnostic.message = "cannot read the file: " + reason;
  diagnostic.file = path;
  throw support::UserError(support::ExitCode::bad_input, diagnostic);
}

struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0)
      ::close(value);
  }
};

} // namespace

std::shared_ptr<MappedFile> MappedFile::open(const std::string &path) {
  Descriptor descriptor{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (descriptor.value < 0)
    throw_unreadable(path, std::strerror(errno));
  struct stat status = {};
  if (::fstat(descriptor.value, &status) != 0)
    throw_unreadable(path, std::strerror(errno));
  if (S_ISDIR(status.st_mode))
    throw_unreadable(path, "it is a folder");
  if (!S_ISREG(status.st_mode))
    throw_unreadable(path, "it is not a regular file");
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->path_ = path;
  file->size_ = static_cast<size_t>(status.st_size);
  if (file->size_ == 0) // mmap refuses empty mappings
    return file;
  void *address = ::mmap(nullptr, file->size_, PROT_READ, MAP_PRIVATE, descriptor.value, 0);
  if (address == MAP_FAILED)
    throw_unreadable(path, std::strerror(errno));
  file->data_ = static_cast<std::byte *>(address);
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr)
    ::munmap(data_, size_);
}

} // namespace tsc::tensor
