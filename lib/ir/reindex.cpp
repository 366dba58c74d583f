// Bodies over other loops: substitution, and the choice of loops by the strides of the accesses.
#include "ir/body.h"

#include "support/diagnostic.h"
#include "symbolic/loops.h"

#include <unordered_map>

namespace tsc::ir {

namespace {

bool accesses_memory(const BodyOp &op) {
  return op.op == Op::load || op.op == Op::store || op.op == Op::store_reduction;
}

/// The part of the loops that is reordered on its own: iteration or reduction.
struct LoopRange {
  std::vector<Expr> variables;
  std::vector<Expr> sizes;
};

/// Stores first, then loads, as seed 004 ranks them.
std::vector<Expr> memory_indices(const LoopBody &body) {
  std::vector<Expr> writes, reads;
  for (const BodyOp &op : body.ops)
    if (accesses_memory(op))
      (op.op == Op::load ? reads : writes).push_back(body.indices[op.index]);
  writes.insert(writes.end(), reads.begin(), reads.end());
  return writes;
}

LoopRange reorder(LoopRange loops, const std::vector<Expr> &accesses) {
  std::vector<std::vector<Expr>> strides;
  strides.reserve(accesses.size());
  for (Expr index : accesses)
    strides.push_back(symbolic::stride_vars(index, loops.variables));
  LoopRange result;
  if (strides.empty() || loops.variables.empty())
    return loops;
  // The seed's order names the innermost loop first.
  const std::vector<size_t> order = symbolic::pick_loop_order(strides, loops.sizes);
  for (size_t i = order.size(); i-- > 0;) {
    result.variables.push_back(loops.variables[order[i]]);
    result.sizes.push_back(loops.sizes[order[i]]);
  }
  return result;
}

/// Neighbours merged that every index lets merge, as symbols of a sort of their own: the body's
/// variables may have the result's already.
symbolic::MergedLoops merge(const LoopRange &loops, const LoopBody &body,
                            const symbolic::Ranges &ranges) {
  return symbolic::merge_loops(loops.variables, loops.sizes, body.indices,
                               symbolic::SymbolSort::passing, ranges);
}

symbolic::MergedLoops keep_apart(const LoopRange &loops) {
  return {loops.sizes, loops.variables, loops.variables};
}

LoopBody choose_loops(const Module &module, const LoopBody &body, symbolic::SymbolSort sort,
                      bool merges) {
  const std::vector<Expr> accesses = memory_indices(body);
  const symbolic::Ranges ranges = body.ranges(module);
  const size_t split = body.iteration_count;
  const size_t count = body.variables.size();

  std::vector<Expr> variables, sizes;
  symbolic::Substitution old_to_new;
  size_t iteration_count = 0;
  for (const auto &[first, last] : {std::pair{size_t{0}, split}, std::pair{split, count}}) {
    LoopRange loops;
    loops.variables.assign(body.variables.begin() + static_cast<std::ptrdiff_t>(first),
                           body.variables.begin() + static_cast<std::ptrdiff_t>(last));
    loops.sizes.assign(body.sizes.begin() + static_cast<std::ptrdiff_t>(first),
                       body.sizes.begin() + static_cast<std::ptrdiff_t>(last));
    if (loops.variables.empty())
      continue; // the reduction loops of a result without dimensions start at 0 as well
    loops = reorder(std::move(loops), accesses);
    const symbolic::MergedLoops merged = merges ? merge(loops, body, ranges) : keep_apart(loops);
    symbolic::Substitution renumber;
    for (size_t i = 0; i < merged.variables.size(); ++i) {
      const Expr named = symbolic::symbol(sort, variables.size());
      renumber.emplace(merged.variables[i], named);
      variables.push_back(named);
      sizes.push_back(merged.sizes[i]);
    }
    for (size_t i = 0; i < loops.variables.size(); ++i) {
      old_to_new.emplace(loops.variables[i],
                         symbolic::substitute(merged.old_variables[i], renumber));
    }
    if (last == split)
      iteration_count = variables.size();
  }
  std::vector<Expr> old_variables;
  for (Expr variable : body.variables)
    old_variables.push_back(old_to_new.at(variable));
  return reindex(body, std::move(variables), std::move(sizes), iteration_count, old_variables);
}

} // namespace

LoopBody reindex(const LoopBody &body, std::vector<Expr> variables, std::vector<Expr> sizes,
                 size_t iteration_count, std::span<const Expr> old_variables) {
  LoopBody result;
  result.variables = std::move(variables);
  result.sizes = std::move(sizes);
  result.iteration_count = iteration_count;
  result.ops = body.ops;
  result.blocks = body.blocks;

  symbolic::Ranges ranges;
  for (size_t i = 0; i < result.variables.size(); ++i)
    ranges.set_size(result.variables[i], result.sizes[i]);
  symbolic::Substitution replacements;
  for (size_t i = 0; i < body.variables.size(); ++i)
    replacements.emplace(body.variables[i], old_variables[i]);
  for (const BodyOp &op : body.ops)
    if (op.op == Op::set_indirect)
      ranges.set_size(op.symbol, op.extent);
  std::unordered_map<Expr, uint32_t, symbolic::ExprHash> positions;
  for (BodyOp &op : result.ops) {
    if (op.op == Op::set_indirect)
      op.extent = symbolic::substitute(op.extent, replacements);
    if (op.index == kNone)
      continue;
    const Expr index =
        symbolic::simplify(symbolic::substitute(body.indices[op.index], replacements), ranges);
    const auto [it, inserted] =
        positions.emplace(index, static_cast<uint32_t>(result.indices.size()));
    if (inserted)
      result.indices.push_back(index);
    op.index = it->second;
  }
  return result;
}

LoopBody simplify_and_reorder(const Module &module, const LoopBody &body,
                              symbolic::SymbolSort sort) {
  return choose_loops(module, body, sort, true);
}

LoopBody reorder_loops(const Module &module, const LoopBody &body, symbolic::SymbolSort sort) {
  return choose_loops(module, body, sort, false);
}

} // namespace tsc::ir
