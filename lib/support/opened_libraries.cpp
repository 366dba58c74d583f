#include "support/opened_libraries.h"

#include <atomic>

namespace tsc::support {
namespace {

std::atomic<void (*)()> watcher{nullptr};

} // namespace

void watch_opened_libraries(void (*watch)()) { watcher = watch; }

void library_was_opened() {
  if (void (*const watch)() = watcher)
    watch();
}

} // namespace tsc::support
