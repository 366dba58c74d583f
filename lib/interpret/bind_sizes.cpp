// Size symbols from the shapes of the inputs.
#include "interpret/machine.h"

#include "support/diagnostic.h"
#include "support/text.h"

namespace tsc::interpret {
namespace {

[[noreturn]] void fail_shape(const ir::Buffer &buffer, const tensor::HostTensor &data) {
  std::vector<std::string> expected, given;
  for (Expr size : buffer.layout.sizes)
    expected.push_back(symbolic::print(size));
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

/// Solves `size` == value for its only unbound symbol, where it is affine in it.
void bind_affine(Expr size, int64_t value, symbolic::Bindings &bindings) {
  symbolic::Substitution known;
  for (const auto &binding : bindings)
    known.emplace(binding.first, Expr(binding.second));
  Expr left = symbolic::substitute(size, known);
  std::vector<Expr> symbols = symbolic::free_symbols(left);
  if (symbols.size() != 1)
    return;
  std::optional<Expr> coefficient = symbolic::coefficient_of(left, symbols[0]);
  Expr rest = symbolic::offset_of(left, symbols);
  if (!coefficient || !coefficient->is_integer() || !rest.is_integer() ||
      coefficient->is_integer(0) || (value - rest.value()) % coefficient->value() != 0)
    return;
  bindings[symbols[0]] = (value - rest.value()) / coefficient->value();
}

bool is_bound(Expr e, const symbolic::Bindings &bindings) {
  for (Expr symbol : symbolic::free_symbols(e)) {
    if (bindings.count(symbol) == 0)
      return false;
  }
  return true;
}

} // namespace

symbolic::Bindings bind_sizes(const ir::Module &module,
                              const std::vector<tensor::HostTensor> &inputs) {
  support::require(inputs.size() == module.inputs.size(), "interpret", "one tensor an input");
  symbolic::Bindings bindings;
  // Sizes that are a symbol first: they decide what the others are.
  for (bool symbols_only : {true, false}) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ir::Buffer &buffer = module.buffer(module.inputs[i]);
      if (is_left_out(buffer, inputs[i]))
        continue;
      if (inputs[i].sizes().size() != buffer.layout.sizes.size())
        fail_shape(buffer, inputs[i]);
      for (size_t k = 0; k < buffer.layout.sizes.size(); ++k) {
        Expr size = buffer.layout.sizes[k];
        if (size.is_symbol() && symbols_only)
          bindings.emplace(size, inputs[i].sizes()[k]);
        else if (!symbols_only && !is_bound(size, bindings))
          bind_affine(size, inputs[i].sizes()[k], bindings);
      }
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ir::Buffer &buffer = module.buffer(module.inputs[i]);
    if (is_left_out(buffer, inputs[i]))
      continue;
    for (size_t k = 0; k < buffer.layout.sizes.size(); ++k) {
      Expr size = buffer.layout.sizes[k];
      if (!is_bound(size, bindings) || symbolic::evaluate(size, bindings) != inputs[i].sizes()[k])
        fail_shape(buffer, inputs[i]);
    }
  }
  for (const graph::SymbolRange &range : module.symbols) {
    auto found = bindings.find(range.symbol);
    if (found == bindings.end() || (found->second >= range.low && found->second <= range.high))
      continue;
    throw support::UserError(
        support::ExitCode::bad_input,
        support::Diagnostic{"TSC-R102",
                            "size " + range.symbol.name() + " is " + std::to_string(found->second) +
                                ", but the graph allows " + std::to_string(range.low) + " to " +
                                std::to_string(range.high),
                            "", "", "", "", "pass inputs of sizes in that range"});
  }
  return bindings;
}

} // namespace tsc::interpret
