#include "manual.h"

#include "help.h"
#include "support/text.h"

namespace tsc::app {
namespace {

/// As roff takes it: what it would read as its own is escaped.
std::string roff(const std::string &text) {
  std::string result;
  for (const char c : text)
    result += c == '-' || c == '\\' ? std::string(c == '-' ? "\\-" : "\\e") : std::string(1, c);
  const bool is_request = !result.empty() && (result[0] == '.' || result[0] == '\'');
  return (is_request ? "\\&" : "") + result;
}

std::string roff_option(const OptionRow &option) {
  return ".TP\n\\fB" + roff(spelling_of(option)) + "\\fR\n" + roff(option.text) +
         (option.is_required && !option.is_positional ? " (required)" : "") + "\n";
}

/// As a cell of a table in Markdown.
std::string cell(const std::string &text) {
  std::string result;
  for (const char c : text)
    result += c == '|' || c == '<' || c == '*' || c == '_' || c == '[' ? std::string("\\") + c
                                                                       : std::string(1, c);
  return result;
}

/// A cell of code: a bar ends the cell in code, too.
std::string code_cell(const std::string &text) {
  std::string result = "`";
  for (const char c : text)
    result += c == '|' ? std::string("\\|") : std::string(1, c);
  return result + "`";
}

} // namespace

std::string man_page(const std::vector<CommandRow> &commands) {
  std::string text = ".\\\" Written by tsc manual man.\n.TH TSC 1 \"\" \"tsc " TSC_VERSION
                     "\" \"User Commands\"\n.SH NAME\ntsc \\- compile PyTorch graphs to CUDA C++, "
                     "and run them\n.SH SYNOPSIS\n";
  for (const CommandRow &command : commands)
    text += ".B " + roff(usage_of(command)) + "\n.br\n";
  text +=
      ".SH DESCRIPTION\nGraphs are torch.export archives (.pt2), model.json files, or tsc's own "
      "graph JSON. Results go to standard output, everything else to standard error.\n.SH "
      "COMMANDS\n";
  for (const CommandRow &command : commands) {
    text += ".SS " + roff(usage_of(command)) + "\n" + roff(command.text) + ".\n";
    for (const OptionRow &option : command.options)
      text += roff_option(option);
    for (const std::string &example : examples_of(command.name))
      text += ".PP\n.RS\n.nf\n" + roff(example) + "\n.fi\n.RE\n";
  }
  text += ".SH EXIT STATUS\n";
  for (const ExitCodeRow &row : kExitCodes)
    text += ".TP\n.B " + std::to_string(row.code) + "\n" + roff(row.text) + "\n";
  return text + ".SH SEE ALSO\nThe pages of docs/, one of them for each command.\n";
}

std::string command_page(const CommandRow &command) {
  std::string text = "<!-- Written by tsc manual markdown " + command.name +
                     "; a test compares. -->\n# tsc " + command.name + "\n\n" +
                     static_cast<char>(std::toupper(static_cast<unsigned char>(command.text[0]))) +
                     command.text.substr(1) + ".\n\n    " + usage_of(command) + "\n\n";
  text += "| option | |\n|---|---|\n";
  for (const OptionRow &option : command.options)
    text += "| " + code_cell(spelling_of(option)) + " | " + cell(option.text) +
            (option.is_required && !option.is_positional ? " (required)" : "") + " |\n";
  text += "\n## Examples\n\n";
  for (const std::string &example : examples_of(command.name))
    text += "    " + example + "\n";
  text += "\n## Exit codes\n\n| code | |\n|---|---|\n";
  for (const ExitCodeRow &row : kExitCodes)
    text += "| " + std::to_string(row.code) + " | " + row.text + " |\n";
  std::vector<std::string> links;
  for (const std::string &page : pages_of(command.name))
    links.push_back("[" + page + "](../" + page + ")");
  return text + "\nSee " + support::join(links, ", ") + ".\n";
}

} // namespace tsc::app
