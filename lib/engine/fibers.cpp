// Scheduling of fibers. A thread that waits jumps straight to the next runnable one (its own warp
// first: 32 warm stacks), so a wait costs one switch. Fibers of a block stay on one OS thread, and
// nothing is thrown across a switch: errors are noted and reported by run().
#include "engine/fibers.h"

#define TC_HOST_ABI_ONLY
#include "tc_host.h"

#include <boost/context/detail/fcontext.hpp>

#include <algorithm>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define TC_WITH_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TC_WITH_ASAN
#endif
#endif
#ifdef TC_WITH_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace tsc_engine {
namespace {

using boost::context::detail::fcontext_t;
using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

constexpr unsigned kMaxThreads = 1024;
constexpr size_t kStackBytes = 64 * 1024; // 0.5 to 5 KB are used; the rest is never touched

// AddressSanitizer keeps the bounds of the running stack; nothing without it.
#ifdef TC_WITH_ASAN
void before_switch(void **fake, const void *bottom, size_t bytes) {
  __sanitizer_start_switch_fiber(fake, bottom, bytes);
}
void after_switch(void *fake, const void **bottom, size_t *bytes) {
  __sanitizer_finish_switch_fiber(fake, bottom, bytes);
}
void forget_frames(void *bottom, size_t bytes) { ASAN_UNPOISON_MEMORY_REGION(bottom, bytes); }
#else
void before_switch(void **, const void *, size_t) {}
void after_switch(void *, const void **, size_t *) {}
void forget_frames(void *, size_t) {}
#endif

/// Stacks with a guard page below each: a kernel's local array that overflows faults at once.
class Stacks {
public:
  ~Stacks() {
    if (base_)
      munmap(base_, stride() * count_);
  }
  void reserve(unsigned count) {
    if (count <= count_)
      return;
    if (base_)
      munmap(base_, stride() * count_);
    count_ = 0;
    void *memory = mmap(nullptr, stride() * count, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    base_ = memory == MAP_FAILED ? nullptr : static_cast<char *>(memory);
    if (!base_)
      throw Error(Status::out_of_memory, "no memory for the stacks of a block's threads");
    count_ = count;
    for (unsigned i = 0; i < count; ++i)
      mprotect(base_ + stride() * i, page(), PROT_NONE);
  }
  /// Tops are staggered by 64 bytes: page-aligned ones would share one set of the L1 cache.
  void *top(unsigned i) const { return base_ + stride() * (i + 1) - 64 * (i % 32); }
  void *bottom(unsigned i) const { return base_ + stride() * i + page(); }
  size_t usable_bytes() const { return kStackBytes - 64 * 32; }

private:
  static size_t page() {
    static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return bytes;
  }
  static size_t stride() { return kStackBytes + page(); }
  char *base_ = nullptr;
  unsigned count_ = 0;
};

struct Fiber {
  TcThread thread; // first: what kernels hold is a pointer to it
  fcontext_t context;
  unsigned number; // linear index in the block
  // What it waits for in a warp operation, or at a barrier.
  unsigned mask;
  void *slot;
  TcDeliver deliver;
  int line;
};

struct Warp {
  unsigned runnable = 0, exited = 0; // lanes; lanes that do not exist count as exited
  unsigned in_operation = 0, at_barrier = 0;
};

class FiberRunner final : public BlockRunner {
public:
  explicit FiberRunner(bool reversed) : reversed_(reversed), fibers_(new Fiber[kMaxThreads]) {}

  void run(const TcKernelEntry &kernel, void **arguments, const TcThread &thread) override;

  // Called by kernels, on a fiber.
  unsigned barrier(Fiber &self, int predicate, int line);
  void warp_operation(Fiber &self, unsigned mask, void *slot, TcDeliver deliver, int line);
  void note(const Fiber &self, const std::string &what, int line);
  /// Back to run(). Frames of fibers are abandoned: none may hold what must be destroyed.
  [[noreturn]] void leave();

private:
  static void fiber_main(transfer_t from);
  void start_block(const TcThread &thread);
  [[noreturn]] void exit_fiber(Fiber &self);
  void wait(Fiber &self);
  void switch_to(Fiber &next, fcontext_t &left);
  Fiber *next_after(unsigned number);
  Fiber &first_runnable();
  void release_barrier();
  bool finish_operation(Fiber &self, Warp &warp, unsigned base, unsigned mask);
  void finish_operations_without(const Fiber &gone);
  std::string deadlock() const;

  const bool reversed_;
  std::unique_ptr<Fiber[]> fibers_;
  Stacks stacks_;
  Warp warps_[kMaxThreads / 32];
  unsigned count_ = 0, warp_count_ = 0, live_ = 0;
  unsigned waiting_ = 0, predicates_ = 0, barrier_result_ = 0;
  int barrier_line_ = 0;
  unsigned barrier_first_ = 0; // number of the first thread that waits
  const TcKernelEntry *kernel_ = nullptr;
  void **arguments_ = nullptr;
  fcontext_t main_ = nullptr;
  const void *main_bottom_ = nullptr;
  size_t main_bytes_ = 0;
  Fiber *running_ = nullptr;
  std::string error_;
};

/// The runner whose fibers run on this OS thread.
thread_local FiberRunner *current = nullptr;

Fiber &fiber_of(TcThread *thread) { return *reinterpret_cast<Fiber *>(thread); }

const TcRuntime kRuntime = {
    [](TcThread *self, int predicate, int line) {
      return current->barrier(fiber_of(self), predicate, line);
    },
    [](TcThread *self, unsigned mask, void *slot, TcDeliver deliver, int line) {
      current->warp_operation(fiber_of(self), mask, slot, deliver, line);
    },
    [](TcThread *self, const char *what, int line) {
      current->note(fiber_of(self), what, line);
      current->leave();
    },
};

std::string at_line(int line) { return " (line " + std::to_string(line) + ")"; }

std::string thread_text(const Fiber &fiber) {
  const TcDim3 &t = fiber.thread.thread;
  return "thread (" + std::to_string(t.x) + ", " + std::to_string(t.y) + ", " +
         std::to_string(t.z) + ")";
}

void FiberRunner::run(const TcKernelEntry &kernel, void **arguments, const TcThread &thread) {
  const TcDim3 &size = thread.block_size;
  count_ = size.x * size.y * size.z;
  if (count_ == 0 || count_ > kMaxThreads)
    throw Error(Status::bad_argument, "a block of " + std::to_string(count_) + " threads");
  stacks_.reserve(count_);
  kernel_ = &kernel;
  arguments_ = arguments;
  error_.clear();
  start_block(thread);
  current = this;
  switch_to(first_runnable(), main_);
  current = nullptr;
  if (!error_.empty())
    throw Error(Status::device, error_);
}

void FiberRunner::start_block(const TcThread &thread) {
  const TcDim3 &size = thread.block_size;
  live_ = count_;
  waiting_ = predicates_ = 0;
  for (unsigned i = 0; i < count_; ++i) {
    Fiber &fiber = fibers_[i];
    fiber.thread = thread;
    fiber.thread.thread = {i % size.x, i / size.x % size.y, i / (size.x * size.y)};
    fiber.thread.runtime = &kRuntime;
    fiber.number = i;
    forget_frames(stacks_.bottom(i), kStackBytes); // of threads that were abandoned
    fiber.context = make_fcontext(stacks_.top(i), stacks_.usable_bytes(), &fiber_main);
  }
  warp_count_ = (count_ + 31) / 32;
  for (unsigned w = 0; w < warp_count_; ++w) {
    unsigned lanes = std::min(32u, count_ - 32 * w);
    warps_[w] = Warp();
    warps_[w].runnable = lanes == 32 ? ~0u : (1u << lanes) - 1;
    warps_[w].exited = ~warps_[w].runnable;
  }
}

/// Jumps to `next`. What runs next on this stack notes in `left` of whoever jumps back where that
/// one was.
void FiberRunner::switch_to(Fiber &next, fcontext_t &left) {
  warps_[next.number / 32].runnable &= ~(1u << next.number % 32);
  running_ = &next;
  void *fake = nullptr;
  before_switch(&fake, stacks_.bottom(next.number), kStackBytes);
  transfer_t back = jump_fcontext(next.context, &left);
  after_switch(fake, nullptr, nullptr);
  *static_cast<fcontext_t *>(back.data) = back.fctx;
}

void FiberRunner::fiber_main(transfer_t from) {
  FiberRunner &runner = *current;
  const bool from_main = from.data == &runner.main_;
  after_switch(nullptr, from_main ? &runner.main_bottom_ : nullptr,
               from_main ? &runner.main_bytes_ : nullptr);
  *static_cast<fcontext_t *>(from.data) = from.fctx;
  Fiber &self = *runner.running_;
  runner.kernel_->thunk(runner.arguments_, &self.thread);
  runner.exit_fiber(self);
}

void FiberRunner::leave() {
  fcontext_t abandoned;
  before_switch(nullptr, main_bottom_, main_bytes_);
  jump_fcontext(main_, &abandoned);
  __builtin_unreachable();
}

void FiberRunner::note(const Fiber &self, const std::string &what, int line) {
  error_ = thread_text(self) + ": " + what + at_line(line);
}

/// Lowest (reversed: highest) lane of `lanes`, which is not 0.
unsigned first_lane(unsigned lanes, bool reversed) {
  return reversed ? 31u - static_cast<unsigned>(__builtin_clz(lanes))
                  : static_cast<unsigned>(__builtin_ctz(lanes));
}

/// The next runnable thread in order after `number`: its own warp first, around the end.
Fiber *FiberRunner::next_after(unsigned number) {
  const unsigned lane = number % 32;
  unsigned w = number / 32;
  if (unsigned lanes = warps_[w].runnable) {
    unsigned later = reversed_ ? lanes & ((1u << lane) - 1) : lanes & ~((2u << lane) - 1);
    return &fibers_[32 * w + first_lane(later ? later : lanes, reversed_)];
  }
  for (unsigned i = 1; i < warp_count_; ++i) {
    w = reversed_ ? (w == 0 ? warp_count_ : w) - 1 : (w + 1 == warp_count_ ? 0 : w + 1);
    if (warps_[w].runnable)
      return &fibers_[32 * w + first_lane(warps_[w].runnable, reversed_)];
  }
  return nullptr;
}

Fiber &FiberRunner::first_runnable() {
  Warp &warp = warps_[reversed_ ? warp_count_ - 1 : 0];
  unsigned first = reversed_ ? 32 * warp_count_ - 32 : 0;
  if (warp.runnable)
    return fibers_[first + first_lane(warp.runnable, reversed_)];
  return *next_after(reversed_ ? first : 0);
}

/// Lets others run until somebody makes `self` runnable.
void FiberRunner::wait(Fiber &self) {
  Fiber *next = next_after(self.number);
  if (!next) {
    error_ = deadlock();
    leave();
  }
  switch_to(*next, self.context);
}

void FiberRunner::release_barrier() {
  barrier_result_ = predicates_ | waiting_ << 16;
  waiting_ = predicates_ = 0;
  for (unsigned w = 0; w < warp_count_; ++w) {
    warps_[w].runnable |= warps_[w].at_barrier;
    warps_[w].at_barrier = 0;
  }
}

unsigned FiberRunner::barrier(Fiber &self, int predicate, int line) {
  if (waiting_ == 0) {
    barrier_line_ = line;
    barrier_first_ = self.number;
  } else if (line != barrier_line_) {
    note(self,
         "divergent barriers: " + thread_text(fibers_[barrier_first_]) + " waits at another one" +
             at_line(barrier_line_),
         line);
    leave();
  }
  ++waiting_;
  predicates_ += predicate != 0;
  self.line = line;
  warps_[self.number / 32].at_barrier |= 1u << self.number % 32;
  if (waiting_ < live_) {
    wait(self);
    return barrier_result_;
  }
  release_barrier();
  Fiber &first = first_runnable(); // in order again, as before the barrier
  if (&first != &self)
    switch_to(first, self.context);
  else
    warps_[self.number / 32].runnable &= ~(1u << self.number % 32);
  return barrier_result_;
}

void FiberRunner::warp_operation(Fiber &self, unsigned mask, void *slot, TcDeliver deliver,
                                 int line) {
  const unsigned bit = 1u << self.number % 32;
  Warp &warp = warps_[self.number / 32];
  if (!(mask & bit)) {
    note(self, "calls a warp operation whose mask leaves it out", line);
    leave();
  }
  self.mask = mask;
  self.slot = slot;
  self.deliver = deliver;
  self.line = line;
  warp.in_operation |= bit;
  if (finish_operation(self, warp, self.number & ~31u, mask))
    warp.runnable &= ~bit; // the last to arrive goes on
  else
    wait(self);
}

/// Delivers the operation of `mask` once all its lanes that have not returned are in it.
bool FiberRunner::finish_operation(Fiber &self, Warp &warp, unsigned base, unsigned mask) {
  const unsigned needed = mask & ~warp.exited;
  if ((warp.in_operation & needed) != needed)
    return false;
  void *slots[32];
  for (unsigned lanes = needed; lanes; lanes &= lanes - 1) {
    unsigned lane = static_cast<unsigned>(__builtin_ctz(lanes));
    const Fiber &other = fibers_[base + lane];
    if (other.mask != mask)
      return false; // in an operation of other lanes
    if (other.deliver != self.deliver || other.line != self.line) {
      note(self,
           "divergent warp operations: " + thread_text(other) + " is in another one" +
               at_line(other.line),
           self.line);
      leave();
    }
    slots[lane] = other.slot;
  }
  self.deliver(slots, needed);
  warp.in_operation &= ~needed;
  warp.runnable |= needed;
  return true;
}

/// After `gone` returned, those that waited for it alone go on.
void FiberRunner::finish_operations_without(const Fiber &gone) {
  Warp &warp = warps_[gone.number / 32];
  const unsigned base = gone.number & ~31u;
  for (unsigned lanes = warp.in_operation; lanes; lanes &= warp.in_operation) {
    unsigned lane = static_cast<unsigned>(__builtin_ctz(lanes));
    Fiber &waiting = fibers_[base + lane];
    finish_operation(waiting, warp, base, waiting.mask);
    lanes &= ~waiting.mask;
  }
  if (waiting_ != 0 && waiting_ == live_)
    release_barrier();
}

void FiberRunner::exit_fiber(Fiber &self) {
  warps_[self.number / 32].exited |= 1u << self.number % 32;
  if (--live_ == 0)
    leave();
  finish_operations_without(self);
  wait(self);
  __builtin_unreachable();
}

std::string FiberRunner::deadlock() const {
  std::string text = "deadlock: ";
  unsigned listed = 0, waiting = 0;
  // One thread of each place where threads wait.
  std::string places;
  for (unsigned i = 0; i < count_; ++i) {
    const Warp &warp = warps_[i / 32];
    const unsigned bit = 1u << i % 32;
    if (warp.exited & bit)
      continue;
    ++waiting;
    std::string place = std::string(warp.at_barrier & bit ? "a barrier" : "a warp operation") +
                        at_line(fibers_[i].line);
    if (places.find(place) != std::string::npos || listed == 4)
      continue;
    places += (listed++ ? ", " : "") + thread_text(fibers_[i]) + " waits in " + place;
  }
  return text + places + "; " + std::to_string(waiting) + " of " + std::to_string(count_) +
         " threads wait, the others have returned";
}

} // namespace

std::unique_ptr<BlockRunner> make_fiber_runner(bool reversed) {
  return std::make_unique<FiberRunner>(reversed);
}

} // namespace tsc_engine
