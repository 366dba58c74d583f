#include "support/standard_input.h"

#include <iostream>
#include <iterator>

namespace tsc::support {

std::shared_ptr<const std::string> standard_input() {
  static const auto kBytes = std::make_shared<const std::string>(
      std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  return kBytes;
}

} // namespace tsc::support
