// Pointwise kernels with a short loop that is innermost in some accesses, and in others not: a
// pixel shuffle, channels of an image put last or first, real and imaginary parts. A thread takes
// all of the short loop, so that both kinds of access are whole vectors, and the elements change
// their places in registers. So it is with short rows whose statistics every element needs: they
// are computed once, and rows that lie behind each other are read and stored as whole vectors.
#include "codegen/order_elements.h"
#include "codegen/plan.h"
#include "codegen/plan_steps.h"

#include <algorithm>
#include <numeric>

namespace tsc::codegen {

namespace {

using ir::Op;

constexpr int64_t kLongest = 8;      // of the short loop
constexpr size_t kMostValues = 320;  // that a thread computes for an element of the others
constexpr int64_t kAccessBytes = 16; // of what lies interleaved; more are several such accesses
constexpr int64_t kLeastAccessBytes = 4;
constexpr int64_t kLeastAcross = 12; // bytes of a thread's that lanes exchange
constexpr int64_t kMostBytes = 112;  // of a thread's
constexpr int kRunsInFlight = 2;     // of vectors, which are loaded before anything is stored
// Elements of a thread where something is divided: the rare cases of that are calls, around which
// more would be spilled.
constexpr int64_t kMostQuotients = 24;

int64_t bytes_of(const ir::Module &module, const Value &value) {
  return static_cast<int64_t>(tensor::size_in_bytes(module.buffer(value.buffer).dtype));
}

/// Accesses of elements that a vector may make: unconditional, and at indices known before.
bool is_plain(const Value &value) {
  if (value.level != Level::element || value.guard != ir::kNone)
    return false;
  return value.op == Op::load ? value.args.empty()
                              : value.op == Op::store && value.args.size() == 1 &&
                                    value.mode == ir::StoreMode::plain;
}

bool steps_by(const Value &value, Expr variable, const Expr &step) {
  const auto found = symbolic::coefficient_of(value.index, variable);
  return found && *found == step;
}

/// The innermost loop as two where an access takes it apart: a shuffle that something is computed
/// with has the loops of its result.
KernelGraph with_short_loop(KernelGraph graph) {
  if (graph.element_variables.empty())
    return graph;
  const Expr variable = graph.element_variables.back(), size = graph.element_sizes.back();
  int64_t length = 0;
  for (const Value &value : graph.values)
    if (value.op == Op::load && length == 0)
      length = symbolic::divisor_of(value.index, variable);
  if (length < 2 || length > kLongest || !symbolic::known_multiple_of(size, length, graph.ranges))
    return graph;
  const Expr within = unused_variable(graph);
  const Expr around = symbolic::floor_div(size, length);
  graph.element_sizes.back() = around;
  graph.element_variables.push_back(within);
  graph.element_sizes.emplace_back(length);
  graph.ranges.set_size(variable, around);
  graph.ranges.set_size(within, length);
  const symbolic::Substitution place = {{variable, variable * Expr(length) + within}};
  for (Value &value : graph.values)
    value.index = symbolic::simplify(symbolic::substitute(value.index, place), graph.ranges);
  return graph;
}

void put_last(KernelGraph &graph, Expr variable) {
  const auto found =
      std::find(graph.element_variables.begin(), graph.element_variables.end(), variable);
  const auto size = graph.element_sizes.begin() + (found - graph.element_variables.begin());
  std::rotate(found, found + 1, graph.element_variables.end());
  std::rotate(size, size + 1, graph.element_sizes.end());
}

/// The short loop, and the one that it stands in, by position.
struct Loops {
  size_t within = 0, around = 0;
  int64_t length = 0; // of the short one
};

/// Accesses that go through the short loop first, then the other; and those that go through the
/// other one first.
bool is_interleaved(const KernelGraph &graph, const Value &value, const Loops &loops) {
  return is_plain(value) && steps_by(value, graph.element_variables[loops.within], 1) &&
         steps_by(value, graph.element_variables[loops.around], loops.length);
}
bool goes_around(const KernelGraph &graph, const Value &value, const Loops &loops) {
  const bool accesses = is_plain(value) || (value.op == Op::load && value.args.empty() &&
                                            value.level == Level::element);
  return accesses && steps_by(value, graph.element_variables[loops.around], 1);
}

/// Accesses of an element of their row that does not depend on the short loop: all of its elements
/// need it.
bool is_of_row(const KernelGraph &graph, const Value &value, const Loops &loops) {
  return value.op == Op::load && is_plain(value) &&
         !symbolic::depends_on(value.index, graph.element_variables[loops.within]) &&
         steps_by(value, graph.element_variables[loops.around], loops.length);
}

/// Numbers of the short loop's elements, the same for all of the others: a thread has each once.
bool is_of_table(const KernelGraph &graph, const Value &value, const Loops &loops) {
  return value.op == Op::load && value.args.empty() && value.guard == ir::kNone &&
         steps_by(value, graph.element_variables[loops.within], 1) &&
         std::none_of(graph.element_variables.begin(), graph.element_variables.end(),
                      [&](const Expr &variable) {
                        return variable != graph.element_variables[loops.within] &&
                               symbolic::depends_on(value.index, variable);
                      });
}

/// One of the two is the graph's innermost loop. Nothing: there are none of one kind of access.
std::optional<Loops> find_loops(const KernelGraph &graph, Interleaving kind) {
  const size_t count = graph.element_variables.size();
  for (Loops loops; loops.within < count; ++loops.within)
    for (loops.around = 0; loops.around < count; ++loops.around) {
      const auto length = graph.element_sizes[loops.within].as_integer();
      if (loops.within == loops.around || !length || *length < 2 || *length > kLongest ||
          std::max(loops.within, loops.around) + 1 != count)
        continue;
      loops.length = *length;
      const auto any = [&](const auto &is) {
        return std::any_of(graph.values.begin(), graph.values.end(),
                           [&](const Value &value) { return is(graph, value, loops); });
      };
      const bool rows = loops.within == loops.around + 1 && loops.within + 1 == count;
      const bool fits = kind == Interleaving::of_tables
                            ? rows && any(is_of_table)
                            : any(goes_around) || (rows && any(is_of_row));
      if (any(is_interleaved) && fits)
        return loops;
    }
  return std::nullopt;
}

/// Two short loops as one, where an access goes through the one, then through the other, then along
/// a third: rows and columns of the pixels among which a shuffle divides channels. None: the same.
KernelGraph with_joined_loops(KernelGraph graph) {
  const size_t count = graph.element_variables.size();
  const auto length = [&](size_t at) { return graph.element_sizes[at].as_integer().value_or(0); };
  for (size_t inner = 0; inner < count; ++inner)
    for (size_t outer = 0; outer < count; ++outer)
      for (size_t around = 0; around < count; ++around) {
        const int64_t all = length(inner) * length(outer);
        if (inner == outer || around == inner || around == outer || length(inner) < 2 ||
            length(outer) < 2 || all > kLongest)
          continue;
        const auto goes = [&](const Value &value) {
          return is_plain(value) && steps_by(value, graph.element_variables[inner], 1) &&
                 steps_by(value, graph.element_variables[outer], length(inner)) &&
                 steps_by(value, graph.element_variables[around], all);
        };
        if (std::none_of(graph.values.begin(), graph.values.end(), goes))
          continue;
        const Expr short_loop = graph.element_variables[inner],
                   next = graph.element_variables[around];
        merge_variables(graph, short_loop, graph.element_variables[outer]);
        put_last(graph, next);
        put_last(graph, short_loop);
        return graph;
      }
  return graph;
}

/// Bytes of the accesses that `bytes` of a thread are made of: the largest that divides them.
int64_t access_of(int64_t bytes) { return std::gcd(bytes, kAccessBytes); }

/// The fewest elements along the other loop with which all that is interleaved is accesses of whole
/// 16 bytes, or as many of them as its size is a multiple of, if that leaves accesses of 4; 0 if
/// they are too many or too few.
int choose_run(const ir::Module &module, const KernelGraph &graph, const Loops &loops) {
  int64_t run = 1;
  for (const Value &value : graph.values)
    if (is_interleaved(graph, value, loops)) {
      const int64_t bytes = loops.length * bytes_of(module, value);
      run = std::max(run, kAccessBytes / std::gcd(bytes, kAccessBytes));
      if (run * bytes > kMostBytes)
        return 0;
    }
  const auto divides = [&](int64_t by) {
    return symbolic::known_multiple_of(graph.element_sizes[loops.around], by, graph.ranges);
  };
  if (divides(run))
    return static_cast<int>(run);
  while (run > 1 && !divides(run))
    run /= 2;
  const auto serves = [&](const Value &value) {
    return !is_interleaved(graph, value, loops) ||
           access_of(run * loops.length * bytes_of(module, value)) >= kLeastAccessBytes;
  };
  return run > 1 && std::all_of(graph.values.begin(), graph.values.end(), serves)
             ? static_cast<int>(run)
             : 0;
}

/// Whether runs of `run`, of `bytes` with the short loop, start where their accesses may.
bool is_aligned(const ir::Module &module, const KernelGraph &graph, ValueId first, int run,
                int64_t bytes) {
  const Value &value = graph[first];
  const Expr around = graph.element_variables.back();
  const Expr starts = symbolic::substitute(value.index, {{around, around * Expr(run)}});
  return symbolic::known_multiple_of(starts, access_of(bytes) / bytes_of(module, value),
                                     graph.ranges);
}

bool divides(const KernelGraph &graph) {
  return std::any_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
    return value.op == Op::truediv && value.level == Level::element &&
           graph[value.args[1]].op != Op::constant;
  });
}

/// Whether the runs of neighbouring threads, through all of the loops, lie one behind another.
bool are_neighbours(const KernelGraph &graph, ValueId first, int64_t length) {
  Expr step = length;
  for (size_t i = graph.element_variables.size(); i-- > 0;) {
    if (!steps_by(graph[first], graph.element_variables[i], step))
      return false;
    step *= graph.element_sizes[i];
  }
  return true;
}

/// Loads of all elements of a row, by place, that no loop over it names: those of statistics that
/// are written out.
std::vector<std::vector<ValueId>> loads_of_rows(const KernelGraph &graph, int64_t length) {
  std::vector<std::vector<ValueId>> result;
  for (ValueId first = 0; first < graph.values.size(); ++first) {
    const Value &value = graph[first];
    if (value.op != Op::load || !is_plain(value) ||
        !steps_by(value, graph.element_variables.back(), Expr(length)))
      continue;
    std::vector<ValueId> members(static_cast<size_t>(length), ir::kNone);
    for (ValueId id = 0; id < graph.values.size(); ++id) {
      const Value &other = graph[id];
      if (other.op != Op::load || other.buffer != value.buffer || !is_plain(other))
        continue;
      const auto apart = (other.index - value.index).as_integer();
      if (apart && *apart >= 0 && *apart < length)
        members[static_cast<size_t>(*apart)] = id;
    }
    if (std::find(members.begin(), members.end(), ir::kNone) == members.end() &&
        symbolic::known_multiple_of(value.index, length, graph.ranges))
      result.push_back(std::move(members));
  }
  return result;
}

/// Makes one access of the loads `members`, of each element of a run one after another, if it may
/// be one.
void join_loads(const ir::Module &module, KernelPlan &plan, const std::vector<ValueId> &members,
                int run) {
  const auto length = static_cast<int64_t>(members.size());
  const int64_t bytes = run * length * bytes_of(module, plan.graph[members.front()]);
  if (!is_aligned(module, plan.graph, members.front(), run, bytes) ||
      interleaved_of(plan, members.front()))
    return;
  for (const ValueId member : members)
    plan.access[member] = Access::vector;
  plan.interleaved.push_back({members, bytes > access_of(bytes) && bytes >= kLeastAcross &&
                                           are_neighbours(plan.graph, members.front(), length)});
}

/// The first one's load is that of all.
void preload_joined(KernelPlan &plan) {
  preload_all(plan);
  for (const Interleaved &each : plan.interleaved)
    for (const ValueId member : each.members)
      if (member != each.members.front())
        std::erase(plan.preloads, member);
}

} // namespace

bool plan_taps(const Request &request, KernelPlan &plan) {
  const ir::Module &module = request.module;
  FlatWalk walk;
  std::vector<std::vector<ValueId>> rows;
  for (int64_t length = 2; length <= kLongest; ++length)
    for (std::vector<ValueId> &members : loads_of_rows(plan.graph, length))
      rows.push_back(std::move(members));
  const auto fit = [&](const std::vector<ValueId> &members) {
    return walk.vector * static_cast<int64_t>(members.size()) *
               bytes_of(module, plan.graph[members.front()]) <=
           kMostBytes;
  };
  const int longest = choose_vector(module, plan);
  for (walk.vector = longest; walk.vector > 1; walk.vector /= 2)
    if (std::all_of(rows.begin(), rows.end(), fit))
      break;
  if (walk.vector == 1)
    walk.vector = longest; // some of them
  if (walk.vector == 1 || rows.empty())
    return false;
  classify_accesses(module, plan, walk.vector);
  for (const std::vector<ValueId> &members : rows)
    if (fit(members))
      join_loads(module, plan, members, walk.vector);
  if (plan.interleaved.empty())
    return false;
  preload_joined(plan);
  plan.has_barriers = slots_across(module, plan) > 0;
  finish_flat(request, plan, walk, 1);
  plan.description = "pointwise, numbers of an element together, " + plan.description;
  return true;
}

bool plan_interleaved(const Request &request, KernelPlan &plan, Interleaving kind) {
  const ir::Module &module = request.module;
  if (request.like || !request.checked.sizes.empty())
    return false;
  KernelGraph graph = with_short_loop(plan.graph);
  std::optional<Loops> loops = find_loops(graph, kind);
  if (!loops) {
    KernelGraph apart = plan.graph;
    graph = with_joined_loops(divide_element_loops(apart) ? std::move(apart) : plan.graph);
    loops = find_loops(graph, kind);
  }
  int run = loops ? choose_run(module, graph, *loops) : 0;
  if (kind == Interleaving::of_tables && divides(graph))
    while (run > 1 && run * loops->length > kMostQuotients)
      run /= 2;
  if (run == 0 || (run * loops->length > kMostQuotients && divides(graph)))
    return false;
  std::optional<Unrolled> unrolled = unroll(graph, loops->within, kMostValues);
  if (!unrolled)
    return false;
  KernelPlan fresh;
  fresh.graph = std::move(unrolled->graph);
  assign_phases(fresh.graph);
  FlatWalk walk;
  walk.vector = run;
  classify_accesses(module, fresh, run);
  for (ValueId id = 0; id < graph.values.size(); ++id)
    if (is_interleaved(graph, graph[id], *loops))
      join_loads(module, fresh, unrolled->copies[id], run);
  for (const std::vector<ValueId> &members : loads_of_rows(fresh.graph, loops->length))
    join_loads(module, fresh, members, run);
  if (fresh.interleaved.empty())
    return false;
  preload_joined(fresh);
  plan = std::move(fresh);
  plan.walk = walk;
  plan.has_barriers = slots_across(module, plan) > 0; // warps wait for their lanes
  finish_flat(request, plan, walk, run > 1 && !plan.has_barriers ? kRunsInFlight : 1);
  plan.description = "pointwise, a short loop a thread, " + std::to_string(loops->length) + " x " +
                     plan.description + (plan.has_barriers ? " side by side" : "");
  return true;
}

} // namespace tsc::codegen
