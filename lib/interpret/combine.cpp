// Scans by a combine function: place after place, for many rows at once.
#include "interpret/machine.h"

#include <algorithm>

namespace tsc::interpret {

namespace {

/// A tuple at as many rows as a chunk has: members are columns.
struct Tuples {
  std::vector<std::vector<double>> floats;
  std::vector<std::vector<int64_t>> integers;

  explicit Tuples(size_t members) : floats(members), integers(members) {}
  void take(const TapeRunner &runner, const std::vector<ValueId> &values,
            const std::vector<bool> &is_float, int64_t count) {
    for (size_t k = 0; k < values.size(); ++k)
      if (is_float[k])
        floats[k].assign(runner.floats(values[k]), runner.floats(values[k]) + count);
      else
        integers[k].assign(runner.integers(values[k]), runner.integers(values[k]) + count);
  }
};

} // namespace

void Machine::combine(const ir::Operation &operation, const ir::Scan &scan) {
  // Loops: the scanned dimension, then the output's others.
  const tensor::Layout &layout = module_.buffer(operation.outputs[0]).layout;
  const auto axis = static_cast<std::ptrdiff_t>(scan.axis);
  tensor::Layout moved = layout;
  if (scan.backwards) {
    Expr &stride = moved.strides[scan.axis];
    moved.offset += (moved.sizes[scan.axis] - 1) * stride;
    stride = Expr(0) - stride;
  }
  std::rotate(moved.sizes.begin(), moved.sizes.begin() + axis, moved.sizes.begin() + axis + 1);
  std::rotate(moved.strides.begin(), moved.strides.begin() + axis,
              moved.strides.begin() + axis + 1);
  const std::vector<int64_t> positions = positions_of(moved);
  const Domain domain{values_of(moved.sizes)};
  symbolic::Substitution places; // operands have the scanned dimension last
  for (size_t k = 0; k < layout.rank(); ++k)
    places.emplace(ir::variable(k), ir::variable((k + 1) % layout.rank()));
  Storage &output = output_of(operation);

  TapeBuilder inputs(module_, bindings_, round_), function(module_, bindings_, round_);
  std::vector<ValueId> members, results;
  std::vector<bool> is_float;
  for (size_t k = 0; k < scan.inputs.size(); ++k) {
    const DType dtype = module_.loops[scan.combined[k].node].dtype;
    ir::Operand input = scan.inputs[k];
    for (Expr &index : input.index)
      index = symbolic::substitute(index, places);
    members.push_back(inputs.value(input, dtype));
    results.push_back(function.value(scan.combined[k], dtype));
    is_float.push_back(tensor::is_floating(dtype));
  }
  const Tape input_tape = finish(inputs, members, operation);
  const Tape function_tape = finish(function, results, operation);
  const Domain no_loops;
  TapeRunner reader(input_tape, domain, by_buffer_, round_),
      combiner(function_tape, no_loops, by_buffer_, round_);
  const int64_t length = domain.sizes[0], rows = length == 0 ? 0 : domain.numel() / length;
  for (int64_t first = 0; first < rows; first += TapeRunner::kChunk) {
    const int64_t count = std::min(TapeRunner::kChunk, rows - first);
    Tuples before(members.size()), next(members.size());
    for (int64_t place = 0; place < length; ++place) {
      reader.run(place * rows + first, count);
      next.take(reader, members, is_float, count);
      if (place > 0) {
        std::vector<TapeRunner::Column> operands;
        for (const Tuples *side : {&before, &next})
          for (size_t k = 0; k < members.size(); ++k)
            operands.push_back({side->floats[k].data(), side->integers[k].data()});
        combiner.give(std::move(operands));
        combiner.run(0, count);
        before.take(combiner, results, is_float, count);
      } else {
        std::swap(before, next);
      }
      for (int64_t p = 0; p < count; ++p) {
        const int64_t position = positions[static_cast<size_t>(place * rows + first + p)];
        if (is_float[scan.item])
          store(output, position, before.floats[scan.item][static_cast<size_t>(p)]);
        else
          store(output, position, before.integers[scan.item][static_cast<size_t>(p)]);
      }
    }
  }
}

} // namespace tsc::interpret
