// The names that a file gives its symbols, and the symbols that they mean.
#pragma once

#include "graph/graph.h"
#include "support/diagnostic.h"

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tsc::graph {

/// True of [A-Za-z_][A-Za-z0-9_]*.
bool is_symbol_name(std::string_view text);

/// Names of one file. PyTorch's own, s0 and u0 and their like, mean the symbols that are spelled
/// so; any other means a size that no name of the file is spelled like, or a number of the data if
/// it is u and digits. So nothing that a file says can be taken for a symbol of tsc's own.
class SymbolNames {
public:
  /// Names in the order in which the file has them; symbols are numbered in it.
  void declare(const std::vector<std::string> &names);
  /// Declares the name if it is new: behind all numbers that declared names can have.
  Expr symbol_of(std::string_view name);
  /// The user's name, "" if it is the symbol's spelling.
  std::string name_of(Expr symbol) const;
  /// A value of the symbol that the file mentions; the first one counts.
  void note_hint(Expr symbol, int64_t value) { hints_.emplace(symbol, value); }
  std::optional<int64_t> hint_of(Expr symbol) const;

private:
  std::unordered_map<std::string, Expr> symbols_;
  std::map<Expr, std::string, symbolic::ExprLess> names_; // where they differ from the spelling
  std::set<Expr, symbolic::ExprLess> taken_;
  std::map<Expr, int64_t, symbolic::ExprLess> hints_;

  void add(const std::string &name, size_t first_number);
};

/// Prints symbols by the user's names; `ranges` outlives it.
symbolic::SymbolWriter symbol_writer(const std::vector<SymbolRange> &ranges);

/// A problem of a file whose text mentions symbols that the file has other names for says so.
void name_symbols(const std::vector<SymbolRange> &ranges,
                  std::vector<support::Diagnostic> &diagnostics);

} // namespace tsc::graph
