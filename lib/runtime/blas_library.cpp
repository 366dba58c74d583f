// engine/host_blas.h for tsc itself: the library comes with the first product.
#include "engine/host_blas.h"
#include "engine/host_threads.h"
#include "runtime/module_places.h"
#include "support/opened_libraries.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

namespace tsc_engine {
namespace {

// OpenBLAS takes this much address space for each thread (a buffer and a stack) and besides. Where
// it cannot have that it tries for ever.
constexpr size_t kThreadBytes = size_t{144} << 20, kOtherBytes = size_t{192} << 20;

bool has_memory_for(unsigned threads) {
  const size_t bytes = threads * kThreadBytes + kOtherBytes;
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return false;
  munmap(memory, bytes);
  return true;
}

/// How many threads can be had, `wanted` at most. OpenBLAS ends the process where it gets fewer
/// than it asks for.
unsigned available_threads(unsigned wanted) {
  std::mutex mutex;
  std::condition_variable done;
  bool is_done = false;
  std::vector<std::thread> threads;
  try {
    while (threads.size() + 1 < wanted)
      threads.emplace_back([&] {
        std::unique_lock<std::mutex> lock(mutex);
        done.wait(lock, [&] { return is_done; });
      });
  } catch (const std::system_error &) {
  }
  {
    const std::lock_guard<std::mutex> lock(mutex);
    is_done = true;
  }
  done.notify_all();
  for (std::thread &thread : threads)
    thread.join();
  return static_cast<unsigned>(threads.size()) + 1;
}

const HostBlas *without(const std::string &why) {
  std::fprintf(stderr, "warning: matrix products run in plain loops, without OpenBLAS: %s\n",
               why.c_str());
  return nullptr;
}

/// While it lives, the environment has one variable more, if it has none of that name. Other
/// threads may read it meanwhile: setenv might free the array that they are in, this frees nothing.
class VariableMeanwhile {
public:
  VariableMeanwhile(const std::string &name, const std::string &value) : before_(environ) {
    if (getenv(name.c_str()) != nullptr)
      return;
    auto *text = new std::string(name + "=" + value);
    auto *variables = new std::vector<char *>;
    for (char **at = before_; at != nullptr && *at != nullptr; ++at)
      variables->push_back(*at);
    variables->insert(variables->end(), {text->data(), nullptr});
    environ = ours_ = variables->data();
  }
  ~VariableMeanwhile() {
    if (ours_ != nullptr && environ == ours_)
      environ = before_;
  }
  VariableMeanwhile(const VariableMeanwhile &) = delete;
  VariableMeanwhile &operator=(const VariableMeanwhile &) = delete;

private:
  char **const before_;
  char **ours_ = nullptr;
};

const HostBlas *load() {
#ifdef TSC_HAS_BLAS_MODULE
  unsigned threads = HostThreads::shared()->size();
  threads = has_memory_for(threads) ? available_threads(threads) : 1;
  if (!has_memory_for(threads))
    return without("too little memory");
  const VariableMeanwhile count("OPENBLAS_NUM_THREADS",
                                std::to_string(threads)); // if not the user's
  std::string why = "libtsc_blas.so is not beside the program";
  for (const std::string &place : tsc::runtime::module_places("libtsc_blas.so")) {
    void *handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      const char *error = dlerror();
      why = error ? error : place;
      continue;
    }
    tsc::support::library_was_opened();
    using Get = const HostBlas *(*)();
    if (const auto get = reinterpret_cast<Get>(dlsym(handle, "tsc_blas_module")))
      return get();
  }
  return without(why);
#else
  return nullptr;
#endif
}

} // namespace

const HostBlas *host_blas() {
  static const HostBlas *blas = load();
  return blas;
}

} // namespace tsc_engine
