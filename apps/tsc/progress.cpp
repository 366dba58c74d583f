#include "progress.h"

#include <cstdio>
#include <unistd.h>

namespace tsc::app {
namespace {

constexpr const char *kWipe = "\r\x1b[K"; // to the start of the line, and clear it

} // namespace

Progress::Progress() : is_terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (is_terminal_)
    std::fprintf(stderr, "%s", kWipe);
}

void Progress::show(const std::string &what) {
  if (is_terminal_)
    std::fprintf(stderr, "%s%s ...", kWipe, what.c_str());
}

} // namespace tsc::app
