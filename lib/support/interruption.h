// What must not outlive the process when a signal ends it: temporary files and children.
#pragma once

#include <string>
#include <sys/types.h>

namespace tsc::support {

// The first of these objects takes over SIGINT, SIGTERM and SIGHUP (but for those that are ignored,
// as under nohup). When one arrives, groups of children are killed, paths are removed, and the
// signal is raised again for who had it before: by default it ends the process, so that a shell
// sees what ended it. At most 64 of each are known at a time; further ones are left to their
// destructors.

/// While it lives, the signals remove `path`: a file, or a folder with everything in it.
class RemovedOnSignal {
public:
  explicit RemovedOnSignal(const std::string &path);
  ~RemovedOnSignal();
  RemovedOnSignal(const RemovedOnSignal &) = delete;
  RemovedOnSignal &operator=(const RemovedOnSignal &) = delete;

private:
  int slot_;
};

/// While it lives, the signals kill the process group `group`.
class KilledOnSignal {
public:
  explicit KilledOnSignal(pid_t group);
  ~KilledOnSignal();
  KilledOnSignal(const KilledOnSignal &) = delete;
  KilledOnSignal &operator=(const KilledOnSignal &) = delete;

private:
  int slot_;
};

/// While one lives, the signals wait: for what must be done whole.
class SignalsWait {
public:
  SignalsWait();
  ~SignalsWait();
  SignalsWait(const SignalsWait &) = delete;
  SignalsWait &operator=(const SignalsWait &) = delete;
};

/// Does not return while a signal is ending the process: for who would report a child that was
/// killed because of it.
void wait_if_ending();

/// Removes registered paths of this process now, and kills registered groups. Async-signal-safe.
void remove_registered();

} // namespace tsc::support
