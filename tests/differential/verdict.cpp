#include "verdict.h"

#include "support/diagnostic.h"

#include <nlohmann/json.hpp>

#include <array>
#include <new>
#include <stdexcept>

namespace tsc::differential {
namespace {

constexpr std::array<std::string_view, 7> kStatuses = {
    "agree", "differ", "refused", "crash", "compiler_error", "internal_error", "hang"};

/// Coded errors that a sound compiler never lets a graph come to.
Status status_of(const std::string &code) {
  if (code == "TSC-R011" || code == "TSC-R012" || code == "TSC-R020") // R020: NVRTC
    return Status::compiler_error;
  if (code == kDeviceFailed)
    return Status::crash;
  // A program that contradicts itself, or that the device refuses.
  if (code.rfind("TSC-P", 0) == 0 || code == "TSC-R117")
    return Status::internal_error;
  return Status::refused;
}

} // namespace

std::string_view to_string(Status status) { return kStatuses[static_cast<size_t>(status)]; }

std::string to_json(const Verdict &verdict) {
  nlohmann::ordered_json line = {{"case", verdict.case_name},
                                 {"device", verdict.device},
                                 {"status", to_string(verdict.status)},
                                 {"output", verdict.output},
                                 {"code", verdict.code},
                                 {"reason", verdict.reason}};
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Verdict verdict_from_json(std::string_view line) {
  const nlohmann::json json = nlohmann::json::parse(line);
  Verdict verdict{json.at("case"),   json.at("device"), Status::agree,
                  json.at("output"), json.at("code"),   json.at("reason")};
  const std::string status = json.at("status");
  for (size_t i = 0; i < kStatuses.size(); ++i)
    if (kStatuses[i] == status)
      verdict.status = static_cast<Status>(i);
  return verdict;
}

void describe_exception(Verdict &verdict) {
  try {
    throw;
  } catch (const support::UserError &error) {
    const support::Diagnostic &first = error.diagnostics().front();
    verdict.code = first.code;
    verdict.reason = first.message;
    if (!first.node.empty())
      verdict.reason += " (node " + first.node + ")";
    verdict.status = status_of(first.code);
  } catch (const std::bad_alloc &) {
    verdict.status = Status::crash;
    verdict.reason = "out of memory";
  } catch (const std::exception &error) { // InternalError, and what should have been one
    verdict.status = Status::internal_error;
    verdict.reason = error.what();
  }
}

} // namespace tsc::differential
