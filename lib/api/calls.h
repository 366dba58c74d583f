// The calls of the C functions that are at work, for when their process forks or exits.
#pragma once

namespace tsc::api {

/// One call, on the thread that made it. A fork waits, 10 s at most, until other threads' calls are
/// done, and holds new ones off meanwhile: the child, which has one thread, then finds no lock held
/// and nothing half made. Forks that waited in vain have children in which every call fails. An
/// exit waits likewise, ends compilers that calls wait for, and lets no call begin.
class Call {
public:
  /// Errors: UserError (device) TSC-R019 in such a child, and in a process that is ending.
  Call();
  ~Call();
  Call(const Call &) = delete;
  Call &operator=(const Call &) = delete;
};

} // namespace tsc::api
