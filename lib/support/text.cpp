#include "support/text.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace tsc::support {

std::string python_repr(double value) {
  if (std::isnan(value))
    return "nan";
  if (std::isinf(value))
    return value > 0 ? "inf" : "-inf";
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<size_t>(end.ptr - buffer));
  size_t e = text.find('e');
  int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  // Python uses the scientific form from 1e16 on and below 1e-4.
  if (exponent >= 16 || exponent < -4) {
    std::string mantissa(text.substr(0, e));
    std::string digits = std::to_string(std::abs(exponent));
    if (digits.size() < 2)
      digits = "0" + digits;
    return mantissa + (exponent < 0 ? "e-" : "e+") + digits;
  }
  end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
  std::string fixed(buffer, static_cast<size_t>(end.ptr - buffer));
  if (fixed.find('.') == std::string::npos)
    fixed += ".0";
  return fixed;
}

std::string python_repr(std::string_view value) {
  char quote =
      value.find('\'') != std::string_view::npos && value.find('"') == std::string_view::npos
          ? '"'
          : '\'';
  std::string text(1, quote);
  for (char c : value) {
    if (c == quote || c == '\\') {
      text += '\\';
      text += c;
    } else if (c == '\n') {
      text += "\\n";
    } else {
      text += c;
    }
  }
  return text + quote;
}

std::string join(const std::vector<std::string> &parts, std::string_view separator) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i != 0)
      text += separator;
    text += parts[i];
  }
  return text;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || text[i] == separator) {
      parts.emplace_back(text.substr(start, i - start));
      start = i + 1;
    }
  }
  return parts;
}

std::string comment_text(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool opens = text.substr(i, 2) == "/*" || text.substr(i, 2) == "*/";
    result += byte < 0x20 || byte == 0x7f || opens ? ' ' : text[i];
  }
  // A backslash at the end joins the next line, also as ??/ and with spaces behind it.
  while (!result.empty() && (result.back() == '\\' || result.back() == ' ' || result.back() == '/'))
    result.pop_back();
  return result;
}

void replace_all(std::string &text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

} // namespace tsc::support
