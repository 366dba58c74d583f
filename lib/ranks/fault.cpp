#include "ranks/fault.h"

#include "support/text.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <unistd.h>

namespace tsc::ranks {
namespace {

std::map<std::string, std::string> read_fault() {
  std::map<std::string, std::string> fault;
  if (const char *text = std::getenv("TSC_FAULT"))
    for (const std::string &part : support::split(text, ','))
      if (const size_t equals = part.find('='); equals != std::string::npos)
        fault[part.substr(0, equals)] = part.substr(equals + 1);
  return fault;
}

} // namespace

void meet_fault(int64_t rank, uint64_t collective, FaultPoint point) {
  static const std::map<std::string, std::string> kFault = read_fault();
  if (kFault.empty())
    return;
  const char *const names[] = {"before", "within", "after"};
  const auto is = [&](const char *key, const std::string &value) {
    const auto found = kFault.find(key);
    return found != kFault.end() && found->second == value;
  };
  if (!is("rank", std::to_string(rank)) || !is("collective", std::to_string(collective)) ||
      !is("at", names[static_cast<size_t>(point)]))
    return;
  if (is("do", "kill"))
    kill(getpid(), SIGKILL);
  if (is("do", "exit"))
    _exit(0);
  const auto action = kFault.find("do");
  const int64_t milliseconds = action == kFault.end() || action->second == "stop"
                                   ? 24 * 3600 * 1000
                                   : std::atoll(action->second.c_str());
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

} // namespace tsc::ranks
