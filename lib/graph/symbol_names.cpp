#include "graph/symbol_names.h"

#include "graph/data_symbols.h"
#include "support/text.h"

#include <algorithm>

namespace tsc::graph {

using symbolic::SymbolSort;

namespace {

/// Numbers of symbols that no list of the file declares, and whose own number is another's.
constexpr size_t kFirstUndeclared = size_t{1} << 20;

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// The symbol that PyTorch means: s0, u0.
std::optional<Expr> own_symbol(std::string_view name) {
  std::optional<Expr> symbol = symbolic::symbol_spelled(name);
  const bool known = symbol && (symbol->sort() == SymbolSort::size || is_data_symbol(*symbol)) &&
                     symbol->number() < kFirstUndeclared;
  return known ? symbol : std::nullopt;
}

bool in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool mentions(const std::string &text, const std::string &word) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !in_word(text[at - 1])) && (end == text.size() || !in_word(text[end])))
      return true;
  }
  return false;
}

} // namespace

bool is_symbol_name(std::string_view text) {
  return !text.empty() && !(text[0] >= '0' && text[0] <= '9') &&
         std::all_of(text.begin(), text.end(), in_word);
}

void SymbolNames::declare(const std::vector<std::string> &names) {
  for (const std::string &name : names)
    if (const std::optional<Expr> own = own_symbol(name); own && taken_.insert(*own).second)
      symbols_.emplace(name, *own);
  for (const std::string &name : names)
    add(name, 0);
}

void SymbolNames::add(const std::string &name, size_t first_number) {
  if (symbols_.count(name) != 0)
    return;
  const bool of_data = name[0] == 'u' && is_digits(std::string_view(name).substr(1));
  const SymbolSort sort = of_data ? SymbolSort::data : SymbolSort::size;
  const std::optional<Expr> own = own_symbol(name);
  size_t number = own ? own->number() : first_number;
  while (!taken_.insert(symbolic::symbol(sort, number)).second)
    number = std::max(number + 1, first_number);
  const Expr symbol = symbolic::symbol(sort, number);
  symbols_.emplace(name, symbol);
  if (symbol.spelling() != name)
    names_.emplace(symbol, name);
}

Expr SymbolNames::symbol_of(std::string_view name) {
  const std::string text(name);
  add(text, kFirstUndeclared);
  return symbols_.at(text);
}

std::string SymbolNames::name_of(Expr symbol) const {
  const auto found = names_.find(symbol);
  return found == names_.end() ? "" : found->second;
}

std::optional<int64_t> SymbolNames::hint_of(Expr symbol) const {
  const auto found = hints_.find(symbol);
  return found == hints_.end() ? std::nullopt : std::optional(found->second);
}

symbolic::SymbolWriter symbol_writer(const std::vector<SymbolRange> &ranges) {
  return [&ranges](Expr symbol) -> std::string {
    for (const SymbolRange &range : ranges)
      if (range.symbol == symbol && !range.name.empty())
        return range.name;
    return symbol.spelling();
  };
}

void name_symbols(const std::vector<SymbolRange> &ranges,
                  std::vector<support::Diagnostic> &diagnostics) {
  for (support::Diagnostic &diagnostic : diagnostics) {
    std::vector<std::string> named;
    for (const SymbolRange &range : ranges)
      if (!range.name.empty() && mentions(diagnostic.message, range.symbol.spelling()))
        named.push_back(range.symbol.spelling() + " is '" + range.name + "' in the file");
    const std::string note = " (" + support::join(named, ", ") + ")";
    if (!named.empty() && diagnostic.message.find(note) == std::string::npos)
      diagnostic.message += note;
  }
}

} // namespace tsc::graph
