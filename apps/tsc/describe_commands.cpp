// tsc completion and tsc manual: the command line, about itself.
#include "commands.h"
#include "completion.h"
#include "manual.h"
#include "option_table.h"

#include "support/diagnostic.h"
#include "support/text.h"

#include <algorithm>
#include <cstdio>
#include <memory>

namespace tsc::app {
namespace {

void print(const std::string &text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void print_manual(const CLI::App &app, const std::string &form, const std::string &name) {
  const std::vector<CommandRow> commands = option_table(app);
  if (form == "man")
    return print(man_page(commands));
  std::vector<std::string> names;
  for (const CommandRow &command : commands) {
    if (command.name == name)
      return print(command_page(command));
    names.push_back(command.name);
  }
  throw support::UserError(
      support::ExitCode::usage,
      {.code = "TSC-C072",
       .message = name.empty() ? "no command is named" : "no command is called '" + name + "'",
       .next_step = "name one of: " + support::join(names, ", ")});
}

} // namespace

void add_describe_commands(CLI::App &app, int &exit_code) {
  const auto shell = std::make_shared<std::string>();
  CLI::App *completion =
      app.add_subcommand("completion", "print the script by which a shell completes tsc's options");
  completion->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kShells), std::end(kShells))));
  completion->callback([shell, &app, &exit_code] {
    print(completion_script(*shell, option_table(app)));
    exit_code = 0;
  });
  const auto form = std::make_shared<std::string>(), name = std::make_shared<std::string>();
  CLI::App *manual = app.add_subcommand(
      "manual", "print the man page, or the page of docs/commands about a command");
  manual->add_option("FORM", *form, "man or markdown")
      ->required()
      ->check(CLI::IsMember({"man", "markdown"}));
  manual->add_option("COMMAND", *name, "of markdown: the command");
  manual->callback([form, name, &app, &exit_code] {
    print_manual(app, *form, *name);
    exit_code = 0;
  });
}

} // namespace tsc::app
