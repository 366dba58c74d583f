#include "scheduler/schedule.h"

#include <map>

namespace tsc::scheduler {

namespace {

/// "2 node, 5 access": how many changes of each kind, kinds in the order of their first change.
std::string counts_text(const std::vector<StepChange> &changes) {
  std::vector<std::string> kinds;
  std::map<std::string, size_t> counts;
  for (const StepChange &change : changes)
    if (counts[change.kind]++ == 0)
      kinds.push_back(change.kind);
  std::string text;
  for (const std::string &kind : kinds)
    text += (text.empty() ? "" : ", ") + std::to_string(counts[kind]) + " " + kind;
  return text.empty() ? "nothing" : text;
}

} // namespace

std::string to_text(const std::vector<StepRecord> &records) {
  std::string text;
  for (const StepRecord &record : records) {
    text += (text.empty() ? "" : "\n") + record.step + ": looks at " + record.looks_at +
            "\n  changed: " + counts_text(record.changes) +
            "\n  after it: " + std::to_string(record.nodes) + " nodes, " +
            std::to_string(record.groups) + " groups\n";
    for (const StepChange &change : record.changes)
      text += "    " + change.kind + " " + change.subject + ": " + change.text + "\n";
  }
  return text;
}

} // namespace tsc::scheduler
