// Sorts of symbols and their spellings.
#include "symbolic/node.h"

#include "support/diagnostic.h"

#include <algorithm>
#include <array>

namespace tsc::symbolic {
namespace {

struct Spelling {
  SymbolSort sort;
  std::string_view word;
  bool numbered = true;
};

constexpr std::array<Spelling, kSymbolSorts> kSpellings = {{
    {SymbolSort::size, "s"},
    {SymbolSort::data, "u"},
    {SymbolSort::computed_size, "ps"},
    {SymbolSort::dimension, "i"},
    {SymbolSort::operand, "v"},
    {SymbolSort::loop, "z"},
    {SymbolSort::log_loop, "p"},
    {SymbolSort::dependency, "d"},
    {SymbolSort::merged_loop, "c"},
    {SymbolSort::passing, "merged"},
    {SymbolSort::unread, "unused"},
    {SymbolSort::whole_row, "y"},
    {SymbolSort::whole_reduced, "q"},
    {SymbolSort::row, "x"},
    {SymbolSort::reduced, "r"},
    {SymbolSort::indirect, "indirect"},
    {SymbolSort::loaded, "tmp"},
    {SymbolSort::run_time, "runtime"},
    {SymbolSort::vector_element, "j", false},
    {SymbolSort::matrix_row, "row", false},
    {SymbolSort::matrix_column, "column", false},
    {SymbolSort::matrix_term, "term", false},
    {SymbolSort::check, "number_of_check", false},
}};

/// Words without digits, each once: word and number can be told from a spelling, so that no two
/// symbols have one.
constexpr bool tells_symbols_apart() {
  for (size_t i = 0; i < kSpellings.size(); ++i) {
    if (kSpellings[i].sort != static_cast<SymbolSort>(i) || kSpellings[i].word.empty())
      return false;
    for (const char c : kSpellings[i].word)
      if ((c < 'a' || c > 'z') && c != '_')
        return false;
    for (size_t k = 0; k < i; ++k)
      if (kSpellings[k].word == kSpellings[i].word)
        return false;
  }
  return true;
}
static_assert(tells_symbols_apart());

} // namespace

std::string_view spelling_of(SymbolSort sort) { return kSpellings[static_cast<size_t>(sort)].word; }
bool has_numbers(SymbolSort sort) { return kSpellings[static_cast<size_t>(sort)].numbered; }

Expr symbol(SymbolSort sort, size_t number) {
  support::require(number < (has_numbers(sort) ? kMostSymbols : 1), "symbolic",
                   "a symbol's number is out of range");
  return Builder::intern_symbol(sort, number);
}

std::optional<Expr> symbol_spelled(std::string_view spelling) {
  const size_t first = std::min(spelling.find_first_of("0123456789"), spelling.size());
  const std::string_view word = spelling.substr(0, first), digits = spelling.substr(first);
  const bool plain = digits.find_first_not_of("0123456789") == std::string_view::npos &&
                     digits.size() <= 10 && (digits.size() < 2 || digits[0] != '0');
  if (!plain)
    return std::nullopt;
  size_t number = 0;
  for (const char c : digits)
    number = number * 10 + static_cast<size_t>(c - '0');
  for (const Spelling &row : kSpellings)
    if (row.word == word && row.numbered == !digits.empty() && number < kMostSymbols)
      return symbol(row.sort, number);
  return std::nullopt;
}

} // namespace tsc::symbolic
