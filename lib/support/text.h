// Text whose form must not depend on the locale or the standard library.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tsc::support {

/// Shortest decimal text that reads back as the same double, in Python's repr form: "1e-05", "0.5",
/// "3.0", "inf", "-inf", "nan".
std::string python_repr(double value);

/// Python's repr of a string: single quotes, escapes.
std::string python_repr(std::string_view value);

std::string join(const std::vector<std::string> &parts, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);
/// `text` as the end of a line comment of C++, CMake or anything else: nothing in it ends the
/// comment, continues it on the next line or cuts the file short.
std::string comment_text(std::string_view text);
/// Every `from`, which is not empty, in `text` becomes `to`.
void replace_all(std::string &text, std::string_view from, std::string_view to);
bool starts_with(std::string_view text, std::string_view prefix);

} // namespace tsc::support
