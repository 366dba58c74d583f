// Size symbols from the shapes of the inputs.
#include "interpret/machine.h"

#include "graph/symbol_names.h"
#include "support/diagnostic.h"
#include "support/text.h"

#include <algorithm>

namespace tsc::interpret {
namespace {

[[noreturn]] void fail_shape(const ir::Module &module, const ir::Buffer &buffer,
                             const tensor::HostTensor &data) {
  std::vector<std::string> expected, given;
  for (Expr size : buffer.layout.sizes)
    expected.push_back(symbolic::print(size, graph::symbol_writer(module.symbols)));
  for (int64_t size : data.sizes())
    given.push_back(std::to_string(size));
  throw support::UserError(
      support::ExitCode::bad_input,
      support::Diagnostic{"TSC-R101",
                          "input " + buffer.name + " has shape [" + support::join(given, ", ") +
                              "], but the graph takes [" + support::join(expected, ", ") + "]",
                          "", "", buffer.name, "", "pass a tensor of that shape"});
}

/// A weight that nothing reads may be left out: it comes as an empty tensor.
bool is_left_out(const ir::Buffer &buffer, const tensor::HostTensor &data) {
  return !buffer.weight.empty() && data.sizes() == std::vector<int64_t>{0};
}

bool is_bound(Expr e, const symbolic::Bindings &bindings) {
  for (Expr symbol : symbolic::free_symbols(e))
    if (bindings.count(symbol) == 0)
      return false;
  return true;
}

/// What an input says about the symbols: `size` is `value`.
struct Statement {
  Expr size;
  int64_t value = 0;
  std::string place; // "input \"x\", dimension 0: size 5"
  std::string text;  // of `size`, by the file's names
  bool exact = false;
};

std::vector<Statement> statements_of(const ir::Module &module,
                                     const std::vector<tensor::HostTensor> &inputs) {
  const symbolic::SymbolWriter name_of = graph::symbol_writer(module.symbols);
  std::vector<Statement> statements;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ir::Buffer &buffer = module.buffer(module.inputs[i]);
    if (is_left_out(buffer, inputs[i]))
      continue;
    if (inputs[i].sizes().size() != buffer.layout.sizes.size())
      fail_shape(module, buffer, inputs[i]);
    const auto add = [&](Expr size, int64_t value, const std::string &what) {
      statements.push_back({size, value,
                            "input \"" + buffer.name + "\"" + what + " " + std::to_string(value),
                            symbolic::print(size, name_of), size.is_symbol()});
    };
    if (buffer.scalar)
      add(*buffer.scalar, inputs[i].get_int64(0), ": value");
    for (size_t k = 0; k < buffer.layout.sizes.size(); ++k)
      add(buffer.layout.sizes[k], inputs[i].sizes()[k],
          ", dimension " + std::to_string(k) + ": size");
  }
  return statements;
}

[[noreturn]] void contradict(const Statement &statement, const symbolic::Bindings &bindings) {
  std::string expected = statement.text;
  if (is_bound(statement.size, bindings))
    expected = std::to_string(symbolic::evaluate(statement.size, bindings)) +
               (statement.size.is_integer() ? "" : ", the value of " + expected);
  throw support::UserError(support::ExitCode::bad_input,
                           support::Diagnostic{"TSC-R101",
                                               statement.place + ", expected " + expected, "", "",
                                               "", "", "pass a tensor of that shape"});
}

[[noreturn]] void refuse(const Statement &statement, const graph::SymbolRange &range) {
  const std::string bounds = "[" + (range.low == INT64_MIN ? "-inf" : std::to_string(range.low)) +
                             ", " + (range.high == INT64_MAX ? "inf" : std::to_string(range.high)) +
                             "]";
  const std::string name = range.name.empty() ? range.symbol.spelling() : range.name;
  throw support::UserError(
      support::ExitCode::bad_input,
      support::Diagnostic{
          "TSC-R102",
          statement.place + (statement.exact
                                 ? " is outside " + bounds + ", the range of " + name
                                 : " is not " + statement.text + " with " + name + " in " + bounds),
          "", "", "", "", "pass inputs of sizes in that range"});
}

/// Solves the statement for its only unbound symbol, where it is affine in it, and checks the
/// symbol's range. Gives whether it is bound now.
bool bind(const Statement &statement, const ir::Module &module, symbolic::Bindings &bindings) {
  symbolic::Substitution known;
  for (const auto &binding : bindings)
    known.emplace(binding.first, Expr(binding.second));
  const Expr left = symbolic::substitute(statement.size, known);
  const std::vector<Expr> symbols = symbolic::free_symbols(left);
  if (symbols.size() != 1)
    return false;
  const std::optional<Expr> coefficient = symbolic::coefficient_of(left, symbols[0]);
  const Expr rest = symbolic::offset_of(left, symbols);
  if (!coefficient || !coefficient->is_integer() || !rest.is_integer() || coefficient->value() <= 0)
    return false;
  int64_t multiple = 0;
  const bool fits = !__builtin_sub_overflow(statement.value, rest.value(), &multiple) &&
                    multiple % coefficient->value() == 0;
  const int64_t value = fits ? multiple / coefficient->value() : 0;
  for (const graph::SymbolRange &range : module.symbols)
    if (range.symbol == symbols[0] && (!fits || value < range.low || value > range.high))
      refuse(statement, range);
  bindings[symbols[0]] = value;
  return true;
}

void check(const ir::SizeAssertion &row, const symbolic::Bindings &bindings) {
  if (symbolic::evaluate(row.condition, bindings) == 0)
    throw support::UserError(
        support::ExitCode::bad_input,
        support::Diagnostic{"TSC-R127", "the graph asserts: " + graph::to_string(row.assertion), "",
                            "", "", "", "give inputs of which it holds"});
}

} // namespace

symbolic::Bindings bind_sizes(const ir::Module &module,
                              const std::vector<tensor::HostTensor> &inputs) {
  support::require(inputs.size() == module.inputs.size(), "interpret", "one tensor an input");
  const std::vector<Statement> statements = statements_of(module, inputs);
  symbolic::Bindings bindings;
  // Sizes that are a symbol first: they decide what the others are.
  for (const Statement &statement : statements)
    if (statement.exact)
      bind(statement, module, bindings);
  for (bool progress = true; progress;) {
    progress = false;
    for (const Statement &statement : statements)
      progress = bind(statement, module, bindings) || progress;
  }
  for (const Statement &statement : statements)
    if (!is_bound(statement.size, bindings) ||
        symbolic::evaluate(statement.size, bindings) != statement.value)
      contradict(statement, bindings);
  for (const ir::SizeAssertion &row : module.size_assertions)
    if (is_bound(row.condition, bindings))
      check(row, bindings);
  return bindings;
}

void bind_data_size(const ir::Module &module, Expr symbol, std::optional<Expr> bound, int64_t value,
                    symbolic::Bindings &bindings) {
  bindings[symbol] = value;
  for (const ir::SizeAssertion &row : module.size_assertions)
    if (symbolic::depends_on(row.condition, symbol) && is_bound(row.condition, bindings))
      check(row, bindings);
  int64_t low = 0, high = INT64_MAX;
  std::string name = symbol.spelling();
  for (const graph::SymbolRange &range : module.symbols)
    if (range.symbol == symbol) {
      low = range.low;
      high = range.high;
      name = range.name.empty() ? name : range.name;
    }
  if (bound)
    high = std::min(high, symbolic::evaluate(*bound, bindings));
  if (value < low || value > high)
    throw support::UserError(
        support::ExitCode::bad_input,
        support::Diagnostic{"TSC-R127",
                            "a value is out of range: the size " + name + " is " +
                                std::to_string(value) + ", not in [" +
                                (low == INT64_MIN ? "-inf" : std::to_string(low)) + ", " +
                                (high >= INT64_MAX - 1 ? "inf" : std::to_string(high)) + "]",
                            "", "", "", "", "give inputs for which it lies in that range"});
}

} // namespace tsc::interpret
