#include "scheduler/dependency.h"

#include "support/hash.h"
#include "support/text.h"
#include "symbolic/loops.h"

#include <algorithm>
#include <unordered_set>

namespace tsc::scheduler {

using symbolic::SymbolSort;

namespace {

/// An index over merged loops c0, c1, ...
struct NormalizedIndex {
  Expr index;
  std::vector<Expr> variables, sizes;
};

void drop_unused_trailing(NormalizedIndex &normalized) {
  while (!normalized.variables.empty() &&
         !symbolic::depends_on(normalized.index, normalized.variables.back())) {
    normalized.variables.pop_back();
    normalized.sizes.pop_back();
  }
}

NormalizedIndex normalize(const ir::LoopBody &body, Expr index, const symbolic::Ranges &ranges) {
  const Expr indices[] = {index, running_index(body)};
  const symbolic::MergedLoops merged =
      symbolic::merge_loops(body.variables, body.sizes, indices, SymbolSort::merged_loop, ranges);
  symbolic::Substitution replacements;
  for (size_t i = 0; i < body.variables.size(); ++i)
    replacements.emplace(body.variables[i], merged.old_variables[i]);
  symbolic::Ranges merged_ranges = ranges;
  for (size_t i = 0; i < merged.variables.size(); ++i)
    merged_ranges.set_size(merged.variables[i], merged.sizes[i]);
  NormalizedIndex result;
  result.index = symbolic::simplify(symbolic::substitute(index, replacements), merged_ranges);
  result.variables = merged.variables;
  result.sizes = merged.sizes;
  drop_unused_trailing(result);
  return result;
}

NormalizedIndex rename_loops(const ir::LoopBody &body, Expr index, const symbolic::Ranges &) {
  NormalizedIndex result;
  symbolic::Substitution replacements;
  for (size_t i = 0; i < body.variables.size(); ++i) {
    result.variables.push_back(symbolic::symbol(SymbolSort::dependency, i));
    replacements.emplace(body.variables[i], result.variables.back());
  }
  result.index = symbolic::substitute(index, replacements);
  result.sizes = body.sizes;
  drop_unused_trailing(result);
  return result;
}

using Normalize = NormalizedIndex (*)(const ir::LoopBody &, Expr, const symbolic::Ranges &);

Accesses find_accesses_by(const ir::Module &module, const ir::LoopBody &body, Normalize normalize) {
  const symbolic::Ranges ranges = body.ranges(module);
  std::vector<std::optional<NormalizedIndex>> normalized(body.indices.size());
  Accesses accesses;
  for (const ir::BodyOp &op : body.ops) {
    const bool is_read = op.op == ir::Op::load;
    if (!is_read && op.op != ir::Op::store && op.op != ir::Op::store_reduction)
      continue;
    std::optional<NormalizedIndex> &index = normalized[op.index];
    if (!index)
      index = normalize(body, body.indices[op.index], ranges);
    MemoryDep dependency{op.buffer, index->index, index->variables, index->sizes,
                         is_read ? ir::StoreMode::plain : op.mode};
    (is_read ? accesses.reads : accesses.writes).push_back(std::move(dependency));
  }
  remove_duplicates(accesses.reads);
  remove_duplicates(accesses.writes);
  return accesses;
}

/// A value loaded at run time is indirectN in a body and tmpN in a dependency.
Expr with_loaded_values(Expr index) {
  symbolic::Substitution replacements;
  for (const Expr symbol : symbolic::free_symbols(index))
    if (symbol.sort() == SymbolSort::indirect)
      replacements.emplace(symbol, symbolic::symbol(SymbolSort::loaded, symbol.number()));
  return replacements.empty() ? index : symbolic::substitute(index, replacements);
}

std::string quoted(const ir::Module &module, BufferId buffer) {
  return support::python_repr(std::string_view(module.buffer(buffer).name));
}

std::string memory_text(const ir::Module &module, const MemoryDep &dependency, bool newer_dialect) {
  std::vector<std::string> ranges;
  for (size_t i = 0; i < dependency.variables.size(); ++i)
    ranges.push_back(symbolic::print(dependency.variables[i]) + ": " +
                     symbolic::print(dependency.sizes[i]));
  // A slice of a larger buffer is a buffer of its own in the log.
  const ir::Buffer &buffer = module.buffer(dependency.buffer);
  const Expr index =
      buffer.view_of == ir::kNone ? dependency.index : dependency.index - buffer.layout.offset;
  std::string text = "MemoryDep(" + quoted(module, dependency.buffer) + ", " +
                     symbolic::print(with_loaded_values(index)) + ", {" +
                     support::join(ranges, ", ") + "}";
  if (dependency.mode != ir::StoreMode::plain)
    text += ", " + std::string(ir::store_mode_name(dependency.mode));
  else if (!newer_dialect)
    text += ", None";
  return text + ")";
}

} // namespace

Expr running_index(const ir::LoopBody &body) {
  Expr index, stride = 1;
  for (size_t i = body.variables.size(); i-- > 0;) {
    index += body.variables[i] * stride;
    stride *= body.sizes[i];
  }
  return index;
}

BufferId buffer_of(const Dependency &dependency) {
  return std::visit([](const auto &d) { return d.buffer; }, dependency);
}

void set_buffer(Dependency &dependency, BufferId buffer) {
  std::visit([&](auto &d) { d.buffer = buffer; }, dependency);
}

bool is_weak(const Dependency &dependency) { return std::holds_alternative<WeakDep>(dependency); }

bool is_indirect(const MemoryDep &dependency) {
  for (const Expr symbol : symbolic::free_symbols(dependency.index))
    if (symbol.sort() == SymbolSort::indirect || symbol.sort() == SymbolSort::loaded)
      return true;
  return false;
}

void remove_duplicates(std::vector<Dependency> &list) {
  if (list.size() < 2)
    return;
  std::unordered_set<Dependency, DependencyHash> seen;
  const auto repeated = [&](const Dependency &d) { return !seen.insert(d).second; };
  list.erase(std::remove_if(list.begin(), list.end(), repeated), list.end());
}

Accesses find_accesses(const ir::Module &module, const ir::LoopBody &body) {
  return find_accesses_by(module, body, normalize);
}

Accesses find_unmerged_accesses(const ir::Module &module, const ir::LoopBody &body) {
  return find_accesses_by(module, body, rename_loops);
}

int64_t size_hint(const ir::Module &module, Expr size) {
  if (const auto value = size.as_integer())
    return *value;
  constexpr int64_t kMost = int64_t{1} << 48; // more than any memory holds: a hint is no error
  symbolic::Ranges likely;
  for (const Expr symbol : symbolic::free_symbols(size)) {
    const symbolic::Interval interval = module.ranges.interval_of(symbol);
    const auto known =
        std::find_if(module.symbols.begin(), module.symbols.end(),
                     [&](const graph::SymbolRange &range) { return range.symbol == symbol; });
    const int64_t hint =
        known == module.symbols.end() ? kSizeHint : known->hint.value_or(kSizeHint);
    const int64_t value =
        std::clamp(hint, std::max<int64_t>(interval.low, 0), std::max<int64_t>(interval.high, 0));
    likely.set(symbol, {value, value});
  }
  return std::clamp<int64_t>(symbolic::bounds(size, likely).low, 0, kMost);
}

int64_t bytes_hint(const ir::Module &module, const Dependency &dependency) {
  if (is_weak(dependency))
    return 1;
  const ir::Buffer &buffer = module.buffer(buffer_of(dependency));
  const auto item = static_cast<int64_t>(tensor::size_in_bytes(buffer.dtype));
  const MemoryDep *memory = std::get_if<MemoryDep>(&dependency);
  Expr elements(1);
  if (memory && !is_indirect(*memory)) {
    for (size_t i = 0; i < memory->variables.size(); ++i)
      if (symbolic::depends_on(memory->index, memory->variables[i]))
        elements *= memory->sizes[i];
  } else {
    elements = symbolic::numel(buffer.layout.sizes);
  }
  return size_hint(module, elements) * item;
}

size_t DependencyHash::operator()(const Dependency &dependency) const {
  uint64_t hash = support::hash_combine(dependency.index(), buffer_of(dependency));
  if (const MemoryDep *memory = std::get_if<MemoryDep>(&dependency)) {
    hash = support::hash_combine(hash, memory->index.hash());
    for (const Expr size : memory->sizes)
      hash = support::hash_combine(hash, size.hash());
  } else if (const WeakDep *weak = std::get_if<WeakDep>(&dependency)) {
    hash = support::hash_combine(hash, weak->mutating);
  }
  return hash;
}

uint32_t DependencyTable::number_of(const Dependency &dependency) {
  const auto next = static_cast<uint32_t>(bytes_.size());
  const auto [entry, inserted] = numbers_.emplace(dependency, next);
  if (inserted)
    bytes_.push_back(bytes_hint(module_, dependency));
  return entry->second;
}

std::string to_text(const ir::Module &module, const Dependency &dependency, bool newer_dialect) {
  if (const MemoryDep *memory = std::get_if<MemoryDep>(&dependency))
    return memory_text(module, *memory, newer_dialect);
  if (const WeakDep *weak = std::get_if<WeakDep>(&dependency))
    return "WeakDep(name=" + quoted(module, weak->buffer) +
           ", mutating_buf=" + quoted(module, weak->mutating) + ")";
  const StarDep &star = std::get<StarDep>(dependency);
  const bool plain = star.mode == ir::StoreMode::plain;
  return "StarDep(name=" + quoted(module, star.buffer) +
         ", mode=" + (plain ? "None" : "'" + std::string(ir::store_mode_name(star.mode)) + "'") +
         ")";
}

} // namespace tsc::scheduler
