// The files of the page, as they stand beside this one.
#pragma once

#include <map>
#include <string>

namespace tsc::report {

const std::map<std::string, std::string> &page_files();

} // namespace tsc::report
