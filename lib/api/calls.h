// The calls of the C functions that are at work, for when their process forks or ends.
#pragma once

namespace tsc::api {

/// One call, on the thread that made it. A fork waits, 10 s at most, until other threads' calls are
/// done, and holds new ones off meanwhile: the child, which has one thread, then finds no lock held
/// and nothing half made. Forks that waited in vain have children in which every call fails.
class Call {
public:
  /// Errors: UserError (device) TSC-R019 in such a child.
  Call();
  ~Call();
  Call(const Call &) = delete;
  Call &operator=(const Call &) = delete;
};

} // namespace tsc::api
