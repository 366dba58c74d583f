// What symbols are called, and which input says what one is.
#include "program/program.h"

#include <algorithm>

namespace tsc::program {
namespace {

/// `size` as coefficient * symbol + offset, if the offset needs only the first `known` symbols.
std::optional<Binding> affine(const Program &program, Expr size, size_t known) {
  const Expr symbol = program.symbols[known].symbol;
  if (!symbolic::depends_on(size, symbol))
    return std::nullopt;
  const std::optional<Expr> coefficient = symbolic::coefficient_of(size, symbol);
  if (!coefficient || !coefficient->is_integer() || coefficient->value() <= 0)
    return std::nullopt;
  Binding binding;
  binding.coefficient = coefficient->value();
  binding.offset = symbolic::offset_of(size, std::vector<Expr>{symbol});
  for (const Expr other : symbolic::free_symbols(binding.offset))
    if (std::none_of(program.symbols.begin(),
                     program.symbols.begin() + static_cast<std::ptrdiff_t>(known),
                     [&](const Symbol &earlier) { return earlier.symbol == other; }))
      return std::nullopt;
  return binding;
}

} // namespace

symbolic::SymbolWriter symbol_writer(const std::vector<Symbol> &symbols) {
  return [&symbols](Expr symbol) {
    for (const Symbol &known : symbols)
      if (known.symbol == symbol && !known.name.empty())
        return known.name;
    return symbol.spelling();
  };
}

std::optional<Binding> binding_of(const Program &program, size_t symbol) {
  std::optional<Binding> found;
  for (size_t input = 0; input < program.inputs.size(); ++input) {
    const InputInfo &info = program.inputs[input];
    std::vector<Expr> sizes;
    if (info.value)
      sizes = {*info.value};
    else if (info.buffer < program.buffers.size())
      sizes = program.buffers[info.buffer].layout.sizes;
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      const bool exact = sizes[axis] == program.symbols[symbol].symbol;
      if (found && !exact)
        continue;
      std::optional<Binding> binding = affine(program, sizes[axis], symbol);
      if (!binding)
        continue;
      binding->input = input;
      binding->dimension = info.value ? -1 : static_cast<int>(axis);
      found = binding;
      if (exact)
        return found;
    }
  }
  return found;
}

const Define *definition_of(const Program &program, size_t symbol) {
  for (const Step &step : program.steps)
    if (const auto *define = std::get_if<Define>(&step.kind);
        define != nullptr && define->symbol == program.symbols[symbol].symbol)
      return define;
  return nullptr;
}

namespace {

template <class Row> Row as_complex(Row row) {
  if (!row.is_complex)
    return row;
  row.dtype = row.dtype == DType::f64 ? DType::c128 : DType::c64;
  row.layout.sizes.pop_back();
  row.layout.strides.pop_back();
  for (Expr &stride : row.layout.strides)
    stride = symbolic::floor_div(stride, Expr(2));
  row.layout.offset = symbolic::floor_div(row.layout.offset, Expr(2));
  return row;
}

} // namespace

Buffer seen(const Buffer &buffer) { return as_complex(buffer); }
OutputInfo seen(const OutputInfo &output) { return as_complex(output); }

std::vector<std::string> output_paths(const Program &program) {
  std::vector<std::string> paths(program.outputs.size());
  if (!program.structure)
    return paths;
  size_t next = 0;
  const std::vector<std::string> of_leaves = tensor::paths_of(*program.structure);
  for (size_t i = 0; i < paths.size(); ++i)
    if (!program.outputs[i].is_mutation)
      paths[i] = of_leaves.at(next++);
  return paths;
}

} // namespace tsc::program
