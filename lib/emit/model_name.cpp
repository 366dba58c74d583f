#include "emit/model_name.h"

#include "support/diagnostic.h"

#include <cctype>

namespace tsc::emit {

std::string model_name(const std::string &name) {
  constexpr size_t kMostCharacters = 64;
  std::string result;
  for (const char c : name.substr(0, kMostCharacters)) {
    const auto byte = static_cast<unsigned char>(c);
    result += byte < 0x80 && std::isalnum(byte) != 0 ? c : '_';
  }
  if (result.empty())
    return "model";
  // tsc_model is the name of the C ABI itself.
  if (result == "tsc" || std::isalpha(static_cast<unsigned char>(result[0])) == 0)
    result = ("model_" + result).substr(0, kMostCharacters);
  return result;
}

void check_model_name(const std::string &name) {
  if (model_name(name) != name)
    throw support::UserError(
        support::ExitCode::usage,
        support::Diagnostic{"TSC-E011", "a model cannot be called '" + name + "'", "", "", "", "",
                            "give --name a letter, then letters, digits and _, at most 64 and not "
                            "tsc alone, as in --name=" +
                                model_name(name)});
}

std::string model_header(const std::string &name) {
  return "/* The model " + name + ": tsc_model.h says what can be done with it. */\n#ifndef TSC_" +
         name + "_MODEL_H\n#define TSC_" + name +
         "_MODEL_H\n\n#include \"tsc_model.h\"\n\n"
         "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\nTSC_API const TscModel *" +
         name + "_model(void);\n\n#ifdef __cplusplus\n}\n#endif\n#endif\n";
}

std::string exports(const std::string &name) {
  return "/* Nothing else: several models live in one process without sharing symbols. */\n"
         "{\n  global:\n    " +
         name + "_model; tsc_model;\n  local: *;\n};\n";
}

} // namespace tsc::emit
