// The identifiers of kernels. Symbols spell themselves; what else printers declare is here, so that
// a test can hold the one against the other: nothing in a kernel has two meanings.
#pragma once

#include "symbolic/expr.h"

#include <string_view>

namespace tsc::codegen {

/// Sorts of symbols that kernels mention.
inline constexpr symbolic::SymbolSort kKernelSorts[] = {
    symbolic::SymbolSort::size,          symbolic::SymbolSort::data,
    symbolic::SymbolSort::computed_size, symbolic::SymbolSort::dimension,
    symbolic::SymbolSort::row,           symbolic::SymbolSort::reduced,
    symbolic::SymbolSort::loaded,        symbolic::SymbolSort::vector_element,
    symbolic::SymbolSort::matrix_row,    symbolic::SymbolSort::matrix_column,
    symbolic::SymbolSort::matrix_term,
};

/// Words with a number behind them: values (t), vectors of them (v), tiles (w), what is stored in
/// one go (y; s in a kernel without sizes), running values (a, c), elements that one of them takes
/// together (g), positions of sorted elements (p), parameters (in, out, n, inverse) and parts of a
/// launch.
inline constexpr std::string_view kNumberedWords[] = {
    "t",    "v",    "w",       "y",          "a",
    "c",    "g",    "p",       "in",         "out",
    "n",    "end",  "blocks",  "serial_end", "serial_blocks",
    "part", "told", "inverse", "bad"};
/// Words alone. `row`, `column`, `term` and `j` are those of the symbols that are spelled so.
inline constexpr std::string_view kWords[] = {
    "across", "aligned", "at",       "block",   "check",  "copied",  "counted",    "deep",
    "down",   "e",       "exchange", "failure", "finish", "first",   "inside",     "k",
    "lane",   "last",    "left",     "live",    "memory", "merging", "misaligned", "other",
    "outer",  "place",   "problem",  "results", "right",  "run",     "shared",     "tile",
    "u",      "values",  "whole",    "x"};

} // namespace tsc::codegen
