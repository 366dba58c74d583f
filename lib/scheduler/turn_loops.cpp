#include "scheduler/turn_loops.h"

#include "scheduler/unmerge.h"
#include "support/text.h"
#include "symbolic/loops.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace tsc::scheduler {

namespace {

/// One loop among those that an index is a sum of: `variable` times `stride`.
struct Digit {
  Expr variable, size, stride;
};

std::vector<Expr> loop_variables(size_t count) {
  std::vector<Expr> variables;
  for (size_t i = 0; i < count; ++i)
    variables.push_back(symbolic::symbol(symbolic::SymbolSort::loop, i));
  return variables;
}

/// q if a == q * b and q is not 1.
std::optional<Expr> proper_quotient(Expr a, Expr b) {
  const std::optional<Expr> quotient = exact_quotient(a, b);
  return quotient && !quotient->is_integer(1) ? quotient : std::nullopt;
}

/// Where `index` cuts `variable`: divisors d of z // d and of (z // d) mod m, and d * m.
void find_divisors(Expr index, Expr variable, std::set<Expr, symbolic::ExprLess> &divisors) {
  std::vector<Expr> open = {index};
  while (!open.empty()) {
    const Expr e = open.back();
    open.pop_back();
    if (e.is_integer() || e.is_symbol())
      continue;
    const std::span<const Expr> operands = e.operands();
    if (!operands.empty() && operands[0] == variable) {
      if (e.kind() == symbolic::Kind::floor_div)
        divisors.insert(operands[1]);
      if (e.kind() == symbolic::Kind::mod)
        divisors.insert(operands[1]);
      if (e.kind() == symbolic::Kind::modular_index) {
        divisors.insert(operands[1]);
        divisors.insert(operands[1] * operands[2]);
      }
    }
    open.insert(open.end(), operands.begin(), operands.end());
  }
}

/// `size` cut at `divisors`, outermost piece first; nothing unless each divides the next.
std::optional<std::vector<Expr>> cut_at(Expr size,
                                        const std::set<Expr, symbolic::ExprLess> &divisors) {
  std::vector<Expr> cuts;
  for (const Expr divisor : divisors)
    if (!divisor.is_integer(1) && divisor != size)
      cuts.push_back(divisor);
  std::sort(cuts.begin(), cuts.end(), [](Expr a, Expr b) { // the smaller first
    if (a.is_integer() && b.is_integer())
      return a.value() < b.value();
    return proper_quotient(b, a).has_value();
  });
  std::vector<Expr> pieces;
  Expr below = 1;
  for (const Expr cut : cuts) {
    const std::optional<Expr> piece = exact_quotient(cut, below);
    if (!piece)
      return std::nullopt;
    pieces.push_back(*piece);
    below = cut;
  }
  const std::optional<Expr> last = exact_quotient(size, below);
  if (!last)
    return std::nullopt;
  pieces.push_back(*last);
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

/// Sizes of the loops cut wherever `index` divides one.
std::optional<std::vector<Expr>> cut_where_divided(Expr index, std::span<const Expr> variables,
                                                   std::span<const Expr> sizes) {
  std::vector<Expr> all;
  for (size_t i = 0; i < variables.size(); ++i) {
    std::set<Expr, symbolic::ExprLess> divisors;
    find_divisors(index, variables[i], divisors);
    const auto pieces = cut_at(sizes[i], divisors);
    if (!pieces)
      return std::nullopt;
    all.insert(all.end(), pieces->begin(), pieces->end());
  }
  return all;
}

/// The loops as digits of `index`, outermost first; nothing unless it is a sum in which each has a
/// stride.
std::optional<std::vector<Digit>> digits_of(Expr index, std::span<const Expr> variables,
                                            std::span<const Expr> sizes,
                                            const symbolic::Ranges &ranges) {
  if (!symbolic::is_affine(index, variables))
    return std::nullopt;
  const std::vector<Expr> strides = symbolic::stride_vars(index, variables);
  std::vector<Digit> digits;
  for (size_t i = 0; i < variables.size(); ++i) {
    if (sizes[i].is_integer(1))
      continue;
    if (strides[i].is_integer(0) || !symbolic::known_nonnegative(strides[i], ranges))
      return std::nullopt; // repeated, or walked backwards
    digits.push_back({variables[i], sizes[i], strides[i]});
  }
  return digits;
}

/// Sizes of the loops cut where a stride of `target` falls inside the part of memory that one of
/// them runs over.
std::vector<Expr> cut_at_strides(const std::vector<Digit> &digits,
                                 const std::vector<Digit> &target) {
  std::vector<Expr> sizes;
  for (const Digit &digit : digits) {
    std::set<Expr, symbolic::ExprLess> divisors;
    for (const Digit &other : target) {
      const auto within = proper_quotient(other.stride, digit.stride);
      if (within && proper_quotient(digit.size, *within))
        divisors.insert(*within);
    }
    const auto pieces = cut_at(digit.size, divisors);
    if (pieces)
      sizes.insert(sizes.end(), pieces->begin(), pieces->end());
    else
      sizes.push_back(digit.size);
  }
  return sizes;
}

/// Positions of `digits` in the order in which `target` nests the parts of memory that they run
/// over; nothing if one fits no loop of it.
std::optional<std::vector<size_t>> order_as(const std::vector<Digit> &target,
                                            const std::vector<Digit> &digits) {
  struct Place {
    size_t loop; // of target
    Expr times;  // stride over the loop's
    size_t digit;
  };
  std::vector<Place> places;
  for (size_t i = 0; i < digits.size(); ++i) {
    const size_t before = places.size();
    for (size_t loop = 0; loop < target.size() && places.size() == before; ++loop) {
      const auto times = exact_quotient(digits[i].stride, target[loop].stride);
      if (times && exact_quotient(target[loop].size, *times * digits[i].size))
        places.push_back({loop, *times, i});
    }
    if (places.size() == before)
      return std::nullopt;
  }
  const auto outer = [](Expr a, Expr b) { // the larger of two strides, one a multiple of the other
    if (a.is_integer() && b.is_integer())
      return a.value() > b.value();
    return a != b && exact_quotient(a, b).has_value();
  };
  std::stable_sort(places.begin(), places.end(), [&](const Place &a, const Place &b) {
    return a.loop != b.loop ? a.loop < b.loop : outer(a.times, b.times);
  });
  std::vector<size_t> order;
  order.reserve(places.size());
  for (const Place &place : places)
    order.push_back(place.digit);
  return order;
}

/// Neighbouring loops merged that every index lets merge, in the order in which they are.
ir::LoopBody merged(const ir::Module &module, const ir::LoopBody &body) {
  std::vector<Expr> indices = body.indices;
  indices.push_back(running_index(body));
  const symbolic::MergedLoops loops = symbolic::merge_loops(
      body.variables, body.sizes, indices, symbolic::SymbolSort::passing, body.ranges(module));
  symbolic::Substitution renumber;
  const std::vector<Expr> variables = loop_variables(loops.variables.size());
  for (size_t i = 0; i < variables.size(); ++i)
    renumber.emplace(loops.variables[i], variables[i]);
  std::vector<Expr> old_variables;
  for (const Expr old : loops.old_variables)
    old_variables.push_back(symbolic::substitute(old, renumber));
  return ir::reindex(body, variables, loops.sizes, variables.size(), old_variables);
}

/// `body` over the loops `sizes` of it in another order.
ir::LoopBody permuted(const ir::LoopBody &body, const std::vector<size_t> &order) {
  std::vector<Expr> sizes, old_variables(body.variables.size());
  const std::vector<Expr> variables = loop_variables(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    sizes.push_back(body.sizes[order[i]]);
    old_variables[order[i]] = variables[i];
  }
  const size_t count = sizes.size();
  return ir::reindex(body, variables, std::move(sizes), count, old_variables);
}

std::string sizes_text(std::span<const Expr> sizes) {
  std::vector<std::string> texts;
  for (const Expr size : sizes)
    texts.push_back(symbolic::print(size));
  return "(" + support::join(texts, ", ") + ")";
}

/// Two accesses to one buffer, by different groups, that touch as many elements and are not equal.
struct AccessPair {
  NodeId member = 0; // of the group that may be turned
  const MemoryDep *own, *other;
  int64_t bytes = 0;
};

class Turner {
public:
  Turner(const Fusion &fusion, GroupId group, GroupId other)
      : fusion_(fusion), module_(fusion.state.module), group_(group), other_(other) {}

  std::optional<TurnedLoops> run() const {
    for (const AccessPair &pair : pairs())
      if (auto turned = turn(pair))
        return turned;
    return cut();
  }

private:
  const Fusion &fusion_;
  const ir::Module &module_;
  const GroupId group_, other_;

  template <class Visit> void for_each_access(GroupId group, const Visit &visit) const {
    for (const NodeId member : fusion_.graph.members(group)) {
      const Node &node = fusion_.node(member);
      for (const std::vector<Dependency> *list : {&node.reads, &node.writes}) {
        for (const Dependency &access : *list) {
          const auto *memory = std::get_if<MemoryDep>(&access);
          if (memory && !is_indirect(*memory))
            visit(member, *memory);
        }
      }
    }
  }

  /// Most bytes first. Only accesses that touch another element at every point of the loops.
  std::vector<AccessPair> pairs() const {
    const Expr numel = fusion_.group(group_).numel;
    std::vector<AccessPair> found;
    for_each_access(other_, [&](NodeId, const MemoryDep &other) {
      const std::vector<BufferId> &buffers = fusion_.group(group_).buffers;
      if (!std::binary_search(buffers.begin(), buffers.end(), other.buffer) ||
          symbolic::numel(other.sizes) != numel)
        return;
      for_each_access(group_, [&](NodeId member, const MemoryDep &own) {
        if (own.buffer == other.buffer && symbolic::numel(own.sizes) == numel &&
            !(own.index == other.index && own.sizes == other.sizes))
          found.push_back({member, &own, &other, bytes_hint(module_, other)});
      });
    });
    std::stable_sort(found.begin(), found.end(),
                     [](const AccessPair &a, const AccessPair &b) { return a.bytes > b.bytes; });
    constexpr size_t kMostPairs = 4;
    if (found.size() > kMostPairs)
      found.resize(kMostPairs);
    return found;
  }

  std::optional<TurnedLoops> turn(const AccessPair &pair) const {
    const auto target =
        digits_of(pair.other->index, pair.other->variables, pair.other->sizes, module_.ranges);
    if (!target)
      return std::nullopt;
    // The member's own access, over loops cut finer and finer.
    const auto pieces = cut_where_divided(pair.own->index, pair.own->variables, pair.own->sizes);
    if (!pieces)
      return std::nullopt;
    const auto whole = digits_over(*pair.own, *pieces);
    if (!whole)
      return std::nullopt;
    const std::vector<Expr> sizes = cut_at_strides(*whole, *target);
    const auto digits = digits_over(*pair.own, sizes);
    if (!digits || digits->size() != sizes.size())
      return std::nullopt;
    const auto order = order_as(*target, *digits);
    if (!order || std::is_sorted(order->begin(), order->end()))
      return std::nullopt;
    return turned_group(sizes, *order);
  }

  /// Loops that walk through a buffer in the order of the other group's already, cut where those
  /// begin anew: what reads a row's results then says so.
  std::optional<TurnedLoops> cut() const {
    const LoopNest &own = fusion_.group(group_).nest, &target = fusion_.group(other_).nest;
    std::vector<Expr> all = target.iteration;
    all.insert(all.end(), target.reduction.begin(), target.reduction.end());
    if (symbolic::numel(all) != fusion_.group(group_).numel || !walk_alike())
      return std::nullopt;
    const std::optional<std::vector<Expr>> sizes = common_refinement(own.iteration, all);
    if (!sizes || *sizes == own.iteration)
      return std::nullopt;
    std::vector<size_t> order(sizes->size());
    std::iota(order.begin(), order.end(), size_t{0});
    return turned_group(*sizes, order);
  }
  /// Whether both access all of a buffer, in one order.
  bool walk_alike() const {
    const Expr numel = fusion_.group(group_).numel;
    bool found = false;
    for_each_access(other_, [&](NodeId, const MemoryDep &other) {
      if (symbolic::numel(other.sizes) == numel)
        for_each_access(group_, [&](NodeId, const MemoryDep &own) {
          found = found || (own.buffer == other.buffer && own.index == other.index &&
                            own.sizes == other.sizes);
        });
    });
    return found;
  }

  std::optional<std::vector<Digit>> digits_over(const MemoryDep &access,
                                                std::span<const Expr> sizes) const {
    const std::vector<Expr> variables = loop_variables(sizes.size());
    const std::vector<Expr> old = symbolic::reshape_index(access.sizes, sizes, variables);
    symbolic::Substitution replacements;
    symbolic::Ranges ranges = module_.ranges;
    for (size_t i = 0; i < sizes.size(); ++i)
      ranges.set_size(variables[i], sizes[i]);
    for (size_t i = 0; i < access.variables.size(); ++i)
      replacements.emplace(access.variables[i], old[i]);
    const Expr index = symbolic::simplify(symbolic::substitute(access.index, replacements), ranges);
    return digits_of(index, variables, sizes, ranges);
  }

  /// All members over `sizes`, which have the group's numel, in `order`.
  std::optional<TurnedLoops> turned_group(const std::vector<Expr> &sizes,
                                          const std::vector<size_t> &order) const {
    TurnedLoops result;
    result.group = group_;
    std::vector<Expr> all;
    for (const NodeId member : fusion_.graph.members(group_)) {
      const Node &node = fusion_.node(member);
      const ir::LoopBody fine = express_over(node.body, LoopNest{sizes, {}, true});
      if (fine.sizes != sizes)
        return std::nullopt;
      LoopsBeforeFusion loops;
      loops.body = merged(module_, permuted(fine, order));
      Accesses accesses = find_named_accesses(module_, node, loops.body);
      loops.reads = std::move(accesses.reads);
      loops.writes = std::move(accesses.writes);
      const std::vector<Expr> &own = loops.body.sizes;
      const auto common = all.empty() ? own : common_refinement(all, own).value_or(own);
      all = common;
      result.members.push_back(std::move(loops));
    }
    result.nest.iteration = all;
    result.text = name_of(fusion_, group_) + " over " + sizes_text(all) + ", was " +
                  sizes_text(fusion_.group(group_).nest.iteration);
    return result;
  }
};

/// How neighbouring threads of a kernel's plan walk: along one loop, and through tiles along
/// another one too, which loads may then be contiguous along.
struct Walk {
  Expr along, tiled_along; // 0: none
};

/// One access over the loops of a nest.
struct NestAccess {
  BufferId buffer = ir::kNone;
  Expr index;
  bool is_store = false;
  double bytes = 0, item_bytes = 0;
  friend bool operator==(const NestAccess &a, const NestAccess &b) {
    return a.buffer == b.buffer && a.index == b.index && a.is_store == b.is_store;
  }
};

class Traffic {
public:
  Traffic(const Fusion &fusion, const std::vector<GroupId> &groups, const LoopNest &nest)
      : module_(fusion.state.module), target_(fusion.state.options.target), nest_(nest),
        variables_(loop_variables(nest.iteration.size() + nest.reduction.size())) {
    std::vector<NodeId> members;
    for (const GroupId group : groups) {
      const std::vector<NodeId> &own = fusion.graph.members(group);
      members.insert(members.end(), own.begin(), own.end());
    }
    std::sort(members.begin(), members.end());
    for (const NodeId member : members)
      add(fusion, member, members);
    waits_for_rows_ = std::any_of(members.begin(), members.end(), [&](NodeId member) {
      const std::vector<Dependency> &reads = fusion.node(member).reads;
      return std::any_of(reads.begin(), reads.end(), [&](const Dependency &read) {
        const NodeId producer = fusion.state.producer[buffer_of(read)];
        return producer != ir::kNone && fusion.node(producer).body.is_reduction() &&
               !fusion.node(producer).body.is_scan() && // results come as the row is walked
               std::binary_search(members.begin(), members.end(), producer);
      });
    });
  }

  double bytes() const {
    const bool reduces = !nest_.reduction.empty();
    const Walk walk = reduces ? choose_reducing() : choose_flat();
    const bool columns = reduces && is_iteration(walk.along);
    double total = 0;
    for (const NestAccess &access : accesses_)
      if (!is_in_runs(access, walk))
        total += access.bytes * std::max(1.0, kSectorBytes / access.item_bytes);
      else
        total += access.bytes * (columns && access.item_bytes < 4 ? kNarrowColumns : 1);
    return reduces ? total * idle_factor(columns) : total;
  }

private:
  static constexpr double kSectorBytes = 32;       // the least that memory moves
  static constexpr int64_t kShortestTileEdge = 16; // as plan_tile's

  static constexpr double kColumnsPerBlock = 32; // as plan_columns'
  /// Columns are walked an element at a time: those of 16 bits reach 70% of the bandwidth
  /// (docs/kernels.md has the figures).
  static constexpr double kNarrowColumns = 1.4;

  const ir::Module &module_;
  const target::Target *target_; // may be null
  const LoopNest &nest_;
  const std::vector<Expr> variables_;
  std::vector<NestAccess> accesses_;
  bool waits_for_rows_ = false; // a member reads what another one reduces

  void add(const Fusion &fusion, NodeId member, const std::vector<NodeId> &members) {
    const ir::LoopBody body = express_over(fusion.node(member).body, nest_);
    for (const ir::BodyOp &op : body.ops) {
      const NodeId producer = op.buffer == ir::kNone ? ir::kNone : fusion.state.producer[op.buffer];
      if (op.op == ir::Op::load && producer != ir::kNone &&
          std::binary_search(members.begin(), members.end(), producer))
        continue; // passed on in a register
      if (op.buffer == ir::kNone || fusion.stays_inside(op.buffer, members))
        continue;
      NestAccess access;
      access.buffer = op.buffer;
      access.index = body.indices[op.index];
      access.is_store = op.op != ir::Op::load;
      access.item_bytes =
          static_cast<double>(tensor::size_in_bytes(module_.buffer(op.buffer).dtype));
      Expr elements = 1;
      for (size_t i = 0; i < body.sizes.size(); ++i)
        if (symbolic::depends_on(access.index, body.variables[i]))
          elements *= body.sizes[i];
      access.bytes = static_cast<double>(size_hint(module_, elements)) * access.item_bytes;
      if (std::find(accesses_.begin(), accesses_.end(), access) == accesses_.end())
        accesses_.push_back(std::move(access));
    }
  }

  static bool steps_by_one(const NestAccess &access, Expr variable) {
    const Expr variables[] = {variable};
    return symbolic::stride_vars(access.index, variables)[0].is_integer(1);
  }
  /// An element that does not move along the walk is met again, or moves to its neighbour.
  static bool is_in_runs(const NestAccess &access, const Walk &walk) {
    if (walk.along.is_integer() || !symbolic::depends_on(access.index, walk.along) ||
        steps_by_one(access, walk.along))
      return true;
    return !access.is_store && !walk.tiled_along.is_integer() &&
           steps_by_one(access, walk.tiled_along);
  }

  Expr innermost(size_t begin, const std::vector<Expr> &sizes) const {
    for (size_t i = sizes.size(); i-- > 0;)
      if (!sizes[i].is_integer(1))
        return variables_[begin + i];
    return 0;
  }
  /// The loop that most bytes of the accesses that count are contiguous along; 0 if none is.
  template <class Counts> Expr most_contiguous(const Counts &counts) const {
    Expr best = 0;
    double most = 0;
    for (size_t i = 0; i < nest_.iteration.size(); ++i) {
      double bytes = 0;
      for (const NestAccess &access : accesses_)
        if (counts(access) && steps_by_one(access, variables_[i]))
          bytes += access.bytes;
      if (bytes > most) {
        most = bytes;
        best = variables_[i];
      }
    }
    return best;
  }
  bool is_long(Expr variable) const {
    const auto at = std::find(variables_.begin(), variables_.end(), variable);
    const auto size = nest_.iteration[static_cast<size_t>(at - variables_.begin())].as_integer();
    return !size || *size >= kShortestTileEdge;
  }

  /// As codegen's plans for kernels that do not reduce: tiles where loads are contiguous along
  /// another loop than the stores, else the innermost loop.
  Walk choose_flat() const {
    const Expr store = most_contiguous([](const NestAccess &access) { return access.is_store; });
    const Expr load = store.is_integer() ? store : most_contiguous([&](const NestAccess &access) {
      return !access.is_store && symbolic::depends_on(access.index, store) &&
             !steps_by_one(access, store);
    });
    if (store.is_integer() || load.is_integer() || !is_long(store) || !is_long(load))
      return {innermost(0, nest_.iteration), 0};
    return {store, load};
  }
  /// How much longer the whole takes because rows, or blocks of columns, do not fill the GPU. Rows
  /// that only reduce are split where they are fewer than half the multiprocessors (split_rows.h).
  double idle_factor(bool columns) const {
    if (!target_)
      return 1;
    const double rows = static_cast<double>(size_hint(module_, symbolic::numel(nest_.iteration)));
    const double blocks = std::max(1.0, columns ? rows / kColumnsPerBlock : rows);
    if (!waits_for_rows_ && blocks * 2 <= target_->multiprocessors)
      return 1;
    return std::max(1.0, target_->multiprocessors / blocks);
  }
  bool is_iteration(Expr variable) const {
    const auto end = variables_.begin() + static_cast<std::ptrdiff_t>(nest_.iteration.size());
    return std::find(variables_.begin(), end, variable) != end;
  }

  /// Rows along the innermost reduction loop, or columns, whichever more bytes are contiguous
  /// along.
  Walk choose_reducing() const {
    const Expr row = innermost(nest_.iteration.size(), nest_.reduction),
               column = innermost(0, nest_.iteration);
    double along_row = 0, along_column = 0;
    for (const NestAccess &access : accesses_) {
      if (!row.is_integer() && steps_by_one(access, row))
        along_row += access.bytes;
      if (!column.is_integer() && steps_by_one(access, column))
        along_column += access.bytes;
    }
    return {along_column > along_row ? column : row, 0};
  }
};

} // namespace

std::optional<TurnedLoops> turn_loops(const Fusion &fusion, GroupId group, GroupId other) {
  if (fusion.group(group).reduces)
    return std::nullopt;
  return Turner(fusion, group, other).run();
}

void exchange(Fusion &fusion, TurnedLoops &turned) {
  const std::vector<NodeId> &members = fusion.graph.members(turned.group);
  std::vector<uint32_t> dependencies;
  for (size_t i = 0; i < members.size(); ++i) {
    Node &node = fusion.state.schedule.nodes[members[i]];
    std::swap(node.body, turned.members[i].body);
    std::swap(node.reads, turned.members[i].reads);
    std::swap(node.writes, turned.members[i].writes);
    for (const std::vector<Dependency> *list : {&node.reads, &node.writes})
      for (const Dependency &dependency : *list)
        dependencies.push_back(fusion.table.number_of(dependency));
  }
  std::sort(dependencies.begin(), dependencies.end());
  dependencies.erase(std::unique(dependencies.begin(), dependencies.end()), dependencies.end());
  fusion.groups[turned.group].dependencies = std::move(dependencies);
  std::swap(fusion.groups[turned.group].nest, turned.nest);
}

double sector_bytes(const Fusion &fusion, std::vector<GroupId> groups, const LoopNest &nest) {
  return Traffic(fusion, groups, nest).bytes();
}

} // namespace tsc::scheduler
