#include "codegen/tuning.h"

#include "support/text.h"

#include <charconv>

namespace tsc::codegen {

namespace {

struct Field {
  std::string_view name;
  int PlanChoice::*number;
};
constexpr Field kFields[] = {
    {"vector", &PlanChoice::vector}, {"steps", &PlanChoice::steps},
    {"block", &PlanChoice::block},   {"threads", &PlanChoice::threads},
    {"rows", &PlanChoice::rows},     {"columns", &PlanChoice::columns},
    {"tile", &PlanChoice::tile},
};

} // namespace

std::string to_text(const PlanChoice &choice) {
  std::string text;
  for (const Field &field : kFields)
    if (const int number = choice.*field.number; number != 0)
      text += (text.empty() ? "" : " ") + std::string(field.name) + "=" + std::to_string(number);
  return text;
}

std::optional<PlanChoice> parse_choice(std::string_view text) {
  PlanChoice choice;
  if (text.empty())
    return choice;
  for (const std::string &word : support::split(std::string(text), ' ')) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos)
      return std::nullopt;
    int number = 0;
    const char *end = word.data() + word.size();
    const auto [at, error] = std::from_chars(word.data() + equals + 1, end, number);
    if (error != std::errc() || at != end || number < 1)
      return std::nullopt;
    bool known = false;
    for (const Field &field : kFields)
      if (field.name == std::string_view(word).substr(0, equals) && choice.*field.number == 0) {
        choice.*field.number = number;
        known = true;
      }
    if (!known)
      return std::nullopt;
  }
  return choice;
}

} // namespace tsc::codegen
