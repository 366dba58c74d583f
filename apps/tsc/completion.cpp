#include "completion.h"

#include "support/text.h"

namespace tsc::app {
namespace {

/// Names of everything but positionals.
std::vector<std::string> option_names(const CommandRow &command) {
  std::vector<std::string> names;
  for (const OptionRow &option : command.options)
    if (!option.is_positional)
      names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

std::vector<std::string> choices_of_positionals(const CommandRow &command) {
  for (const OptionRow &option : command.options)
    if (option.is_positional && !option.choices.empty())
      return option.choices;
  return {};
}

std::vector<std::string> names_of(const std::vector<CommandRow> &commands) {
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const CommandRow &command : commands)
    names.push_back(command.name);
  return names;
}

/// In single quotes, for all three shells.
std::string quoted(const std::string &text) {
  std::string result = "'";
  for (const char c : text)
    result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

/// What the option in front of the word takes: words, or (nothing is printed) a file.
std::string bash_values(const CommandRow &command) {
  std::string text;
  for (const OptionRow &option : command.options) {
    if (option.is_positional || !option.takes_value)
      continue;
    text += "      " + support::join(option.names, "|") + ") ";
    text += option.choices.empty()
                ? "COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n"
                : "COMPREPLY=($(compgen -W " + quoted(support::join(option.choices, " ")) +
                      " -- \"$word\")); return ;;\n";
  }
  return text;
}

std::string bash_script(const std::vector<CommandRow> &commands) {
  std::string text =
      "# Completion of tsc for bash: source <(tsc completion bash)\n"
      "_tsc() {\n"
      "  local word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W " +
      quoted(support::join(names_of(commands), " ") + " --help --version") +
      " -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case \"${COMP_WORDS[1]}\" in\n";
  for (const CommandRow &command : commands) {
    text += "  " + command.name + ")\n    case \"$before\" in\n" + bash_values(command) +
            "    esac\n    if [[ \"$word\" == -* ]]; then\n      COMPREPLY=($(compgen -W " +
            quoted(support::join(option_names(command), " ")) + " -- \"$word\"))\n    else\n";
    const std::vector<std::string> choices = choices_of_positionals(command);
    text += choices.empty() ? "      COMPREPLY=($(compgen -f -- \"$word\"))\n"
                            : "      COMPREPLY=($(compgen -W " +
                                  quoted(support::join(choices, " ")) + " -- \"$word\"))\n";
    text += "    fi ;;\n";
  }
  return text + "  esac\n}\ncomplete -o filenames -F _tsc tsc\n";
}

/// Without what zsh's _arguments takes for its own.
std::string zsh_text(const std::string &text) {
  std::string result;
  for (const char c : text)
    result +=
        c == '[' || c == ']' || c == ':' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return result;
}

std::string zsh_script(const std::vector<CommandRow> &commands) {
  std::string text = "#compdef tsc\n# Completion of tsc for zsh: tsc completion zsh > _tsc, in a "
                     "folder of $fpath\n_tsc() {\n  local -a commands\n  commands=(\n";
  for (const CommandRow &command : commands)
    text += "    " + quoted(command.name + ":" + zsh_text(command.text)) + "\n";
  text += "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
          "  local name=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $name in\n";
  for (const CommandRow &command : commands) {
    text += "  " + command.name + ")\n    _arguments \\\n";
    for (const OptionRow &option : command.options) {
      const std::string values = option.choices.empty()
                                     ? ":value:_files"
                                     : ":value:(" + support::join(option.choices, " ") + ")";
      if (option.is_positional) {
        text += "      " +
                quoted((option.is_required ? ":" : "::") + zsh_text(option.names[0]) +
                       values.substr(values.find(':', 1))) +
                " \\\n";
        continue;
      }
      for (const std::string &name : option.names)
        text += "      " +
                quoted((option.is_repeatable ? "*" : "") + name + "[" + zsh_text(option.text) +
                       "]" + (option.takes_value ? values : "")) +
                " \\\n";
    }
    text += "      ;;\n";
  }
  return text + "  esac\n}\ncompdef _tsc tsc\n";
}

std::string fish_script(const std::vector<CommandRow> &commands) {
  std::string text = "# Completion of tsc for fish: tsc completion fish > "
                     "~/.config/fish/completions/tsc.fish\n";
  for (const CommandRow &command : commands)
    text += "complete -c tsc -n __fish_use_subcommand -f -a " + command.name + " -d " +
            quoted(command.text) + "\n";
  for (const CommandRow &command : commands) {
    const std::string start =
        "complete -c tsc -n '__fish_seen_subcommand_from " + command.name + "'";
    for (const OptionRow &option : command.options) {
      if (option.is_positional && !option.choices.empty())
        text += start + " -f -a " + quoted(support::join(option.choices, " ")) + "\n";
      if (option.is_positional)
        continue;
      text += start;
      for (const std::string &name : option.names)
        text += name.rfind("--", 0) == 0 ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (option.takes_value)
        text +=
            option.choices.empty() ? " -r" : " -x -a " + quoted(support::join(option.choices, " "));
      text += " -d " + quoted(option.text) + "\n";
    }
  }
  return text;
}

} // namespace

std::string completion_script(const std::string &shell, const std::vector<CommandRow> &commands) {
  return shell == "bash"  ? bash_script(commands)
         : shell == "zsh" ? zsh_script(commands)
                          : fish_script(commands);
}

} // namespace tsc::app
