#include "support/interruption.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <mutex>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace tsc::support {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
constexpr int kSlots = 64;
constexpr int kDeepest = 12; // folders below a registered one that the handler enters

// All that the handler reads is static and lock-free. A slot belongs to the process that filled it:
// a fork has none.
struct PathSlot {
  std::atomic<pid_t> owner{0}; // 0: free, -1: being filled
  char path[PATH_MAX];
};
struct GroupSlot {
  std::atomic<pid_t> owner{0};
  std::atomic<pid_t> group{0};
};
PathSlot path_slots[kSlots];
GroupSlot group_slots[kSlots];
std::array<struct sigaction, kSignals.size()> previous;
std::atomic<bool> ending{false};
std::atomic<int> waiting{0}; // SignalsWait objects
std::atomic<int> held{0};    // the signal that came meanwhile

/// What the kernel fills in; glibc's readdir allocates.
struct KernelEntry {
  uint64_t inode;
  int64_t offset;
  unsigned short length;
  unsigned char type;
  char name[1];
};

/// False if it is still there.
bool remove_at(int folder, const char *name, int depth) {
  if (unlinkat(folder, name, 0) == 0)
    return true;
  const int opened =
      depth > kDeepest ? -1 : openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (opened < 0)
    return false;
  alignas(KernelEntry) char buffer[1024];
  // What is removed while it is listed may hide others: again until a round removes nothing.
  for (bool removed = true; removed;) {
    removed = false;
    lseek(opened, 0, SEEK_SET);
    const long bytes = syscall(SYS_getdents64, opened, buffer, sizeof buffer);
    for (long at = 0; at < bytes;) {
      const auto *entry = reinterpret_cast<const KernelEntry *>(buffer + at);
      at += entry->length;
      const char *child = entry->name;
      if (std::strcmp(child, ".") != 0 && std::strcmp(child, "..") != 0)
        removed |= remove_at(opened, child, depth + 1);
    }
  }
  close(opened);
  return unlinkat(folder, name, AT_REMOVEDIR) == 0;
}

void kill_groups() {
  const pid_t self = getpid();
  for (GroupSlot &slot : group_slots)
    if (slot.owner.load() == self)
      kill(-slot.group.load(), SIGKILL);
  // They are gone when they can no longer write: at most 100 ms are waited for that.
  for (GroupSlot &slot : group_slots) {
    const timespec millisecond = {0, 1000000};
    for (int i = 0; i < 100 && slot.owner.load() == self && kill(-slot.group.load(), 0) == 0; ++i)
      nanosleep(&millisecond, nullptr);
  }
}

void handle(int signal) {
  const int kept = errno;
  if (waiting.load() > 0) {
    held.store(signal);
    errno = kept;
    return;
  }
  if (ending.exchange(true)) // another thread is at it
    return;
  remove_registered();
  for (size_t i = 0; i < kSignals.size(); ++i)
    if (kSignals[i] == signal)
      sigaction(signal, &previous[i], nullptr);
  if (const auto found = std::find(kSignals.begin(), kSignals.end(), signal);
      previous[static_cast<size_t>(found - kSignals.begin())].sa_handler != SIG_DFL)
    ending.store(false); // who had it before may go on
  raise(signal);         // delivered when this returns
  errno = kept;
}

/// Again each time: somebody may have set handlers since.
void take_signals() {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  struct sigaction action = {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  for (const int signal : kSignals)
    sigaddset(&action.sa_mask, signal);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction now = {};
    sigaction(kSignals[i], nullptr, &now);
    if (now.sa_handler == SIG_IGN || now.sa_handler == handle)
      continue;
    previous[i] = now;
    sigaction(kSignals[i], &action, nullptr);
  }
}

template <class Slot> int take_slot(Slot (&slots)[kSlots]) {
  take_signals();
  for (int i = 0; i < kSlots; ++i) {
    pid_t free = 0;
    if (slots[i].owner.compare_exchange_strong(free, -1))
      return i;
  }
  return -1;
}

} // namespace

void remove_registered() {
  kill_groups();
  const pid_t self = getpid();
  for (PathSlot &slot : path_slots)
    if (slot.owner.load() == self)
      remove_at(AT_FDCWD, slot.path, 0);
}

RemovedOnSignal::RemovedOnSignal(const std::string &path)
    : slot_(path.size() < PATH_MAX ? take_slot(path_slots) : -1) {
  if (slot_ < 0)
    return;
  std::memcpy(path_slots[slot_].path, path.c_str(), path.size() + 1);
  path_slots[slot_].owner.store(getpid());
}

RemovedOnSignal::~RemovedOnSignal() {
  if (slot_ >= 0)
    path_slots[slot_].owner.store(0);
}

KilledOnSignal::KilledOnSignal(pid_t group) : slot_(take_slot(group_slots)) {
  if (slot_ < 0)
    return;
  group_slots[slot_].group.store(group);
  group_slots[slot_].owner.store(getpid());
}

KilledOnSignal::~KilledOnSignal() {
  if (slot_ >= 0)
    group_slots[slot_].owner.store(0);
}

SignalsWait::SignalsWait() {
  take_signals();
  waiting.fetch_add(1);
}

SignalsWait::~SignalsWait() {
  if (waiting.fetch_sub(1) != 1)
    return;
  if (const int signal = held.exchange(0); signal != 0)
    raise(signal);
}

void wait_if_ending() {
  while (ending.load())
    pause();
}

} // namespace tsc::support
