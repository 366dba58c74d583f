// Who has handlers for forks and for the process's end learns of libraries that were opened later.
#pragma once

namespace tsc::support {

/// `watch` is called after each library that has such handlers of its own, OpenBLAS for one, was
/// opened. Preparations for a fork and the steps of an exit run last registered first, and what the
/// loader itself registers before main() ends all libraries: handlers that must run before theirs
/// are registered anew. One watcher; it may be called by several threads at once.
void watch_opened_libraries(void (*watch)());
/// Called by who opens such a library, before anything of it is used.
void library_was_opened();

} // namespace tsc::support
