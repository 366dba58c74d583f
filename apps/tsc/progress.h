// What is being done, for people who wait.
#pragma once

#include <string>

namespace tsc::app {

/// One line on stderr, replaced by the next and wiped in the end; nothing at all where stderr is no
/// terminal. Lives in the scope of the work, so that reports and errors come after it is gone.
class Progress {
public:
  Progress();
  ~Progress();
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  void show(const std::string &what);
  /// What was shown last in this process, also without a terminal; "" before.
  static const char *last();

private:
  const bool is_terminal_;
};

} // namespace tsc::app
