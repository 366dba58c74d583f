#include "driver/shapes.h"

#include "support/diagnostic.h"
#include "support/text.h"

#include <algorithm>
#include <charconv>

namespace tsc::driver {
namespace {

using support::Diagnostic;
using support::ExitCode;
using support::UserError;

template <class Symbol> std::string name_of(const Symbol &symbol) {
  return symbol.name.empty() ? symbolic::print(symbol.symbol) : symbol.name;
}
/// What only a run shows cannot be chosen.
template <class Symbol> bool is_size(const Symbol &symbol) {
  return symbol.symbol.is_symbol(symbolic::SymbolSort::size);
}
template <class Symbol> std::string range_of(const Symbol &symbol) {
  return std::to_string(symbol.low) + " to " +
         (symbol.high == INT64_MAX ? "any" : std::to_string(symbol.high));
}

/// "the graph has batch (2 to 64), seq (1 to any)".
template <class Symbol> std::string known(const std::vector<Symbol> &symbols) {
  std::vector<std::string> all;
  for (const Symbol &symbol : symbols)
    if (is_size(symbol))
      all.push_back(name_of(symbol) + " (" + range_of(symbol) + ")");
  return all.empty() ? "all sizes of the graph are numbers: leave --shapes out"
                     : "the graph has " + support::join(all, ", ");
}

template <class Symbol> void check(const std::vector<Symbol> &symbols, const Shapes &shapes) {
  std::vector<Diagnostic> problems;
  for (const auto &given : shapes) {
    const std::string &name = given.first;
    const auto size = given.second;
    const auto found = std::find_if(symbols.begin(), symbols.end(), [&](const Symbol &symbol) {
      return is_size(symbol) && name_of(symbol) == name;
    });
    if (found == symbols.end())
      problems.push_back({"TSC-C027", "no size of the graph is called '" + name + "'", "", "", "",
                          "", known(symbols)});
    else if (size < found->low || size > found->high)
      problems.push_back(
          {"TSC-C028",
           name + "=" + std::to_string(size) + " is not in its range, " + range_of(*found), "", "",
           "", "", known(symbols)});
  }
  if (!problems.empty())
    throw UserError(ExitCode::usage, std::move(problems));
}

} // namespace

Shapes parse_shapes(const std::string &text) {
  Shapes shapes;
  for (const std::string &part : support::split(text, ',')) {
    const size_t at = part.find('=');
    int64_t size = 0;
    const char *end = part.data() + part.size();
    const bool is_whole = at != std::string::npos && at > 0 && [&] {
      const auto read = std::from_chars(part.data() + at + 1, end, size);
      return read.ec == std::errc() && read.ptr == end && size >= 0;
    }();
    if (!is_whole || !shapes.emplace(part.substr(0, at), size).second)
      throw UserError(ExitCode::usage,
                      Diagnostic{"TSC-C026", "'" + part + "' gives no size to a name", "", "", "",
                                 "", "write each name once, as in --shapes batch=8,seq=512"});
  }
  return shapes;
}

void hint_shapes(std::vector<graph::SymbolRange> &symbols, const Shapes &shapes) {
  check(symbols, shapes);
  for (graph::SymbolRange &symbol : symbols)
    if (const auto found = shapes.find(name_of(symbol)); found != shapes.end())
      symbol.hint = found->second;
}

symbolic::Bindings bind_shapes(const std::vector<program::Symbol> &symbols, const Shapes &shapes) {
  check(symbols, shapes);
  constexpr int64_t kSmall = 8;
  symbolic::Bindings bindings;
  for (const program::Symbol &symbol : symbols) {
    const auto found = shapes.find(name_of(symbol));
    bindings[symbol.symbol] = found != shapes.end()
                                  ? found->second
                                  : std::clamp<int64_t>(kSmall, symbol.low, symbol.high);
  }
  return bindings;
}

} // namespace tsc::driver
