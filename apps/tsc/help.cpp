#include "help.h"

#include "support/text.h"

#include <algorithm>
#include <string>
#include <vector>

namespace tsc::app {
namespace {

struct Footer {
  const char *command;
  std::vector<const char *> examples;
  const char *pages; // of docs/
};

const std::vector<Footer> &footers() {
  static const std::vector<Footer> kFooters = {
      {"compile",
       {"tsc compile model.pt2 -o out", "tsc compile --arch sm_90 --arch host model.pt2 -o out",
        "tsc compile model.pt2 --emit=cuda"},
       "program.md, abi.md, kernels.md"},
      {"run",
       {"tsc run model.pt2 --inputs inputs.safetensors --expect expected.npz",
        "tsc run --bench model.pt2 --shapes batch=8,seq=512", "tsc run out --outputs y.npz"},
       "runtime.md, numbers.md"},
      {"dump-schedule",
       {"tsc dump-schedule model.pt2 --no-code", "tsc dump-schedule model.pt2 --stage=init"},
       "schedule-log.md, scheduler.md"},
      {"check", {"tsc check model.pt2", "tsc check model.pt2 --json"}, "operators.md, errors.md"},
      {"tune",
       {"tsc tune model.pt2 -o tsc.lock", "tsc compile model.pt2 --lock tsc.lock -o out"},
       "tuning.md"},
      {"explain",
       {"tsc explain model.pt2", "tsc explain model.pt2 tsc_fused_add_1f2e3d",
        "tsc explain model.pt2 op0 op1"},
       "scheduler.md, templates.md"},
      {"report",
       {"tsc report model.pt2 -o report.html", "tsc report model.pt2 -o report.html --run"},
       "report.md, scheduler.md"},
      {"verify",
       {"tsc verify model.pt2", "tsc verify model.pt2 --device host --plan cuda"},
       "numbers.md, testing.md"},
      {"diff",
       {"tsc diff before.pt2 after.pt2", "tsc diff out_of_yesterday model.pt2 --arch sm_90"},
       "program.md, scheduler.md"},
      {"completion", {"source <(tsc completion bash)"}, "install.md"},
      {"manual", {"tsc manual man | man -l -", "tsc manual markdown run"}, "README.md"},
  };
  return kFooters;
}

const Footer &footer_of(const std::string &name) {
  return *std::find_if(footers().begin(), footers().end(),
                       [&](const Footer &footer) { return footer.command == name; });
}

} // namespace

std::vector<std::string> examples_of(const std::string &name) {
  const Footer &footer = footer_of(name);
  return {footer.examples.begin(), footer.examples.end()};
}

std::vector<std::string> pages_of(const std::string &name) {
  std::vector<std::string> pages;
  for (const std::string &page : support::split(footer_of(name).pages, ','))
    pages.push_back(page.substr(page.find_first_not_of(' ')));
  pages.insert(pages.end(), {"errors.md", "command-line-json.md"});
  return pages;
}

void add_footers(CLI::App &app) {
  for (const Footer &footer : footers()) {
    std::string text = "Examples:\n";
    for (const char *example : footer.examples)
      text += std::string("  ") + example + "\n";
    text += "\nExit codes:";
    for (const ExitCodeRow &row : kExitCodes)
      text += (row.code == 0   ? " "
               : row.code == 5 ? ",\n  "
                               : ", ") +
              std::to_string(row.code) + " " + row.text;
    text += "\nPages of docs/: " + support::join(pages_of(footer.command), ", ");
    app.get_subcommand(footer.command)->footer(text);
  }
}

} // namespace tsc::app
