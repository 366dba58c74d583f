// What came of one case on one device, as a line of JSON.
#pragma once

#include <string>
#include <string_view>

namespace tsc::differential {

/// The code of a device's failure, after which a process has no use of it.
inline constexpr std::string_view kDeviceFailed = "TSC-R013";

enum class Status : unsigned char {
  agree,
  differ,         // other numbers, dtypes or shapes; an output that is missing or not expected
  refused,        // a coded error about the graph or its inputs
  crash,          // a signal, a sanitizer's report, a device that failed, memory beyond the limit
  compiler_error, // the compiler of kernels refused their text
  internal_error, // what only tsc can be guilty of
  hang,           // longer than the limit
};
std::string_view to_string(Status status);

struct Verdict {
  std::string case_name, device;
  Status status = Status::agree;
  std::string output;       // that differs
  std::string code, reason; // of an error; why an output differs
};

/// One line, no newline.
std::string to_json(const Verdict &verdict);
/// What to_json wrote. Throws nlohmann::json's errors.
Verdict verdict_from_json(std::string_view line);

/// Inside a catch block: fills status, code and reason from what was thrown.
void describe_exception(Verdict &verdict);

} // namespace tsc::differential
