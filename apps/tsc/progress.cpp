#include "progress.h"

#include <cstdio>
#include <unistd.h>

namespace tsc::app {
namespace {

constexpr const char *kWipe = "\r\x1b[K"; // to the start of the line, and clear it

char last_shown[256] = ""; // read when there is no memory left

} // namespace

Progress::Progress() : is_terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (is_terminal_)
    std::fprintf(stderr, "%s", kWipe);
}

const char *Progress::last() { return last_shown; }

void Progress::show(const std::string &what) {
  std::snprintf(last_shown, sizeof last_shown, "%s", what.c_str());
  if (is_terminal_)
    std::fprintf(stderr, "%s%s ...", kWipe, what.c_str());
}

} // namespace tsc::app
