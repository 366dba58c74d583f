// Work in processes of its own, so that a crash, a hang or a hunger for memory costs one case.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tsc::differential {

struct Limits {
  double seconds = 60; // without a line
  size_t memory_mib = 6144;
};

/// How a process ended that did not say that it was done.
struct Death {
  bool timed_out = false;
  std::string reason; // "signal 11 (Segmentation fault)", and the end of its stderr
};

/// Runs jobs in up to `parallel` processes, each forked from this one. This process must have no
/// threads.
class Workers {
public:
  Workers(size_t parallel, const Limits &limits);
  ~Workers();

  struct Job {
    /// In the process: hands lines (without newlines) to its parent.
    std::function<void(const std::function<void(std::string_view)> &send)> body;
    /// In the parent.
    std::function<void(std::string_view line)> receive;
    std::function<void(const Death *)> ended; // null: as it should
    /// How many times the limit is given at the moment; empty: once.
    std::function<double()> patience;
  };
  /// Jobs may be added while others run, also by `ended`.
  void add(Job job) { waiting_.push_back(std::move(job)); }
  /// Returns when none are left.
  void run();

private:
  struct Child;
  void start(Job job);
  bool read_lines(Child &child);
  void finish(Child &child, bool timed_out);

  size_t parallel_;
  Limits limits_;
  std::vector<Job> waiting_;
  std::vector<Child> children_;
};

} // namespace tsc::differential
