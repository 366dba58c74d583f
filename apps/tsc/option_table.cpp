#include "option_table.h"

#include "support/text.h"

#include <algorithm>

namespace tsc::app {
namespace {

/// The words of CLI::IsMember, which an option's type name ends with: "TEXT:{host,cuda}".
std::vector<std::string> choices_of(const CLI::Option &option) {
  const std::string type = option.get_type_name();
  const size_t begin = type.find(":{"), end = type.rfind('}');
  if (begin == std::string::npos || end == std::string::npos || end < begin)
    return {};
  return support::split(type.substr(begin + 2, end - begin - 2), ',');
}

OptionRow row_of(const CLI::Option &option) {
  OptionRow row;
  row.is_positional = !option.nonpositional();
  if (row.is_positional)
    row.names = {option.get_name(true)};
  for (const std::string &name : option.get_snames())
    row.names.push_back("-" + name);
  for (const std::string &name : option.get_lnames())
    row.names.push_back("--" + name);
  row.text = option.get_description();
  row.choices = choices_of(option);
  row.takes_value = option.get_items_expected_max() > 0;
  row.is_required = option.get_required();
  row.is_repeatable = option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll &&
                      row.takes_value && option.get_allow_extra_args() == false &&
                      option.get_expected_max() > 1;
  return row;
}

void add_options(const CLI::App &app, std::vector<OptionRow> &rows) {
  for (const CLI::Option *option : app.get_options())
    rows.push_back(row_of(*option));
}

} // namespace

std::vector<CommandRow> option_table(const CLI::App &app) {
  std::vector<CommandRow> commands;
  for (const CLI::App *command : app.get_subcommands({})) {
    CommandRow &row = commands.emplace_back();
    row.name = command->get_name();
    row.text = command->get_description();
    add_options(*command, row.options);
    std::stable_partition(row.options.begin(), row.options.end(),
                          [](const OptionRow &option) { return option.is_positional; });
    for (const CLI::Option *option : app.get_options())
      if (!option->check_lname("help") && !option->check_lname("version"))
        row.options.push_back(row_of(*option)); // as --log-level, which every subcommand takes
  }
  return commands;
}

std::string usage_of(const CommandRow &command) {
  std::string text = "tsc " + command.name;
  for (const OptionRow &option : command.options)
    if (option.is_positional)
      text += option.is_required ? " " + option.names[0] : " [" + option.names[0] + "]";
  return text + " [OPTIONS]";
}

std::string spelling_of(const OptionRow &option) {
  const std::string names = support::join(option.names, ",");
  if (option.is_positional || !option.takes_value)
    return names;
  return names +
         (option.choices.empty() ? " VALUE" : " {" + support::join(option.choices, ",") + "}");
}

} // namespace tsc::app
