#include "tensor/mapped_file.h"

#include "support/diagnostic.h"
#include "support/interruption.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <set>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace tsc::tensor {

namespace {

[[noreturn]] void throw_unreadable(const std::string &path, const std::string &reason) {
  support::Diagnostic diagnostic;
  diagnostic.code = "TSC-T002";
  diagnostic.message = "cannot read the file: " + reason;
  diagnostic.file = path;
  throw support::UserError(support::ExitCode::bad_input, diagnostic);
}

support::Diagnostic changed(const std::string &path, const std::string &how) {
  return {"TSC-T006", "the file was " + how + " while it was read",  path, "", "",
          "",         "run it again when nothing writes to the file"};
}
[[noreturn]] void throw_changed(const std::string &path, const std::string &how) {
  throw support::UserError(support::ExitCode::bad_input, changed(path, how));
}

bool is_unchanged(const struct stat &before, const struct stat &now) {
  return before.st_size == now.st_size && before.st_mtim.tv_sec == now.st_mtim.tv_sec &&
         before.st_mtim.tv_nsec == now.st_mtim.tv_nsec;
}

// ---- mapped files, as the handler of SIGBUS sees them: static and lock-free

struct Slot {
  std::atomic<bool> is_taken{false};
  std::atomic<uintptr_t> begin{0};
  std::atomic<size_t> size{0};
  std::atomic<const char *> path{nullptr};
};
constexpr int kSlots = 4096; // mapped files; further ones are read
Slot slots[kSlots];
struct sigaction previous_bus;
std::mutex files_mutex;
std::set<const MappedFile *> mapped_files; // files_mutex

void say(const char *text) { (void)!write(STDERR_FILENO, text, std::strlen(text)); }

void on_bus_error(int signal, siginfo_t *info, void *context) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (const Slot &slot : slots) {
    const uintptr_t begin = slot.begin.load();
    const char *path = slot.path.load();
    if (begin == 0 || address < begin || address - begin >= slot.size.load() || !path)
      continue;
    say("error TSC-T006: the file was cut short while it was read\n  at ");
    say(path);
    say("\n  next: run it again when nothing writes to the file\n");
    support::remove_registered();
    _exit(static_cast<int>(support::ExitCode::bad_input));
  }
  if ((previous_bus.sa_flags & SA_SIGINFO) != 0)
    previous_bus.sa_sigaction(signal, info, context);
  else if (previous_bus.sa_handler != SIG_DFL && previous_bus.sa_handler != SIG_IGN)
    previous_bus.sa_handler(signal);
  else
    std::signal(signal, SIG_DFL); // it happens again, and ends the process
}

void take_bus_errors() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGBUS, &action, &previous_bus);
  });
}

int take_slot() {
  for (int i = 0; i < kSlots; ++i) {
    bool is_free = false;
    if (slots[i].is_taken.compare_exchange_strong(is_free, true))
      return i;
  }
  return -1;
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
  file->status_ = status;
  file->size_ = static_cast<size_t>(status.st_size);
  if (file->size_ == 0) // mmap refuses empty mappings
    return file;
  if (file->size_ > kReadBytes)
    file->slot_ = take_slot();
  if (file->slot_ < 0)
    file->read(descriptor.value);
  else
    file->map(descriptor.value);
  return file;
}

void MappedFile::read(int descriptor) {
  read_ = std::make_unique<std::byte[]>(size_);
  data_ = read_.get();
  for (size_t done = 0; done < size_;) {
    const ssize_t count = ::pread(descriptor, data_ + done, size_ - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      throw_unreadable(path_, std::strerror(errno));
    if (count == 0)
      throw_changed(path_, "cut short");
    done += static_cast<size_t>(count);
  }
  struct stat now = {};
  if (::fstat(descriptor, &now) == 0 && !is_unchanged(status_, now))
    throw_changed(path_, "changed");
}

void MappedFile::map(int descriptor) {
  take_bus_errors();
  Slot &slot = slots[slot_];
  void *address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (address == MAP_FAILED) {
    const int reason = errno;
    slot.is_taken.store(false);
    slot_ = -1;
    throw_unreadable(path_, std::strerror(reason));
  }
  data_ = static_cast<std::byte *>(address);
  slot.path.store(path_.c_str());
  slot.size.store(size_);
  slot.begin.store(reinterpret_cast<uintptr_t>(address));
  const std::lock_guard<std::mutex> lock(files_mutex);
  mapped_files.insert(this);
}

MappedFile::~MappedFile() {
  if (slot_ < 0)
    return;
  {
    const std::lock_guard<std::mutex> lock(files_mutex);
    mapped_files.erase(this);
  }
  Slot &slot = slots[slot_];
  slot.begin.store(0);
  slot.path.store(nullptr);
  ::munmap(data_, size_);
  slot.is_taken.store(false);
}

void check_files_unchanged() {
  std::vector<support::Diagnostic> problems;
  const std::lock_guard<std::mutex> lock(files_mutex);
  for (const MappedFile *file : mapped_files) {
    struct stat now = {};
    if (::stat(file->path_.c_str(), &now) != 0 || now.st_dev != file->status_.st_dev ||
        now.st_ino != file->status_.st_ino || is_unchanged(file->status_, now))
      continue;
    problems.push_back(
        changed(file->path_, now.st_size < file->status_.st_size ? "cut short" : "changed"));
  }
  if (!problems.empty())
    throw support::UserError(support::ExitCode::bad_input, std::move(problems));
}

} // namespace tsc::tensor
