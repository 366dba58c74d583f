// Reductions that keep a short innermost loop, in runs of the memory in which its rows lie.
#include "codegen/plan.h"
#include "codegen/plan_steps.h"

#include <algorithm>
#include <numeric>

namespace tsc::codegen {

namespace {

using ir::Op;

constexpr int64_t kMostKept = 64, kSector = 32;
constexpr int64_t kMostShared = 24 << 10;
constexpr int64_t kMostWords = 48;      // that a thread adds up in
constexpr int64_t kTable = 16;          // elements of the kernel for each of one
constexpr int64_t kFewestStretches = 2; // of a thread

/// The two loops that go through a piece: the rows that are kept, and elements.
struct Piece {
  Expr row, element;
  int64_t kept = 0;
  Expr steps = 0; // of the last of a row's parts less, maybe
};

/// Whether a load's elements are neighbours through a piece, and where pieces start is a multiple
/// of `vector`.
bool lies_in_piece(const KernelGraph &graph, const Piece &piece, const Value &value, int vector) {
  if (value.op != Op::load || value.level != Level::element || !value.args.empty() ||
      value.guard != ir::kNone)
    return false;
  const auto by_row = step_along(value.index, piece.row),
             by_element = step_along(value.index, piece.element);
  if (!by_row || *by_row != 1 || !by_element || *by_element != piece.kept)
    return false;
  const Expr start = symbolic::simplify(
      symbolic::substitute(value.index, {{piece.row, Expr(0)}, {piece.element, Expr(0)}}),
      graph.ranges);
  return symbolic::known_multiple_of(start, vector, graph.ranges);
}

/// One walk over elements, of which nothing is stored or looked up.
bool serves(const KernelGraph &graph) {
  return reads_once(graph) &&
         std::none_of(graph.values.begin(), graph.values.end(), [](const Value &value) {
           return value.op == Op::set_indirect || value.op == Op::scan || value.op == Op::sort ||
                  ir::is_random(value.op) || (value.level == Level::element && is_store(value));
         });
}

/// The two loops of a graph whose sizes are numbers, but for the last part of each row; nothing if
/// it serves no such walk.
std::optional<Piece> find_piece(const KernelGraph &graph) {
  if (!keeps_few(graph) || graph.element_variables.empty() || !serves(graph) ||
      !graph.rows().is_integer() ||
      !(graph.elements().is_integer() || graph.varies_by_row(graph.elements())) ||
      !longest_row(graph))
    return std::nullopt;
  const Piece piece{graph.row_variables.back(), graph.element_variables.back(),
                    graph.row_sizes.back().value(), graph.element_sizes.back()};
  return *longest_row(graph) < 1 ? std::nullopt : std::optional(piece);
}

/// The longest runs of 16 bytes of the narrowest loads that divide the piece; 0 if nothing, or not
/// all that is large, lies in pieces.
int choose_run(const ir::Module &module, const KernelGraph &graph, const Piece &piece) {
  const int64_t all = graph.rows().value() * longest_row(graph).value();
  size_t narrowest = 16, widest = 1;
  bool any = false;
  for (const Value &value : graph.values) {
    if (value.op != Op::load || value.level != Level::element)
      continue;
    const size_t bytes = tensor::size_in_bytes(module.buffer(value.buffer).dtype);
    if (!lies_in_piece(graph, piece, value, 1)) {
      const auto held = module.buffer(value.buffer).layout.storage_size().as_integer();
      if (!held || *held * kTable > all)
        return 0;
      continue;
    }
    any = true;
    narrowest = std::min(narrowest, bytes);
    widest = std::max(widest, bytes);
  }
  if (!any)
    return 0;
  const auto divides = [&](int vector) {
    return symbolic::known_multiple_of(piece.steps, vector / std::gcd<int64_t>(vector, piece.kept),
                                       graph.ranges) &&
           std::all_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
             return !lies_in_piece(graph, piece, value, 1) ||
                    lies_in_piece(graph, piece, value, vector);
           });
  };
  const int64_t words = std::max<int64_t>(1, accumulator_bytes(graph) / 4);
  int vector = static_cast<int>(std::min(16 / narrowest, std::max<size_t>(1, 32 / widest)));
  while (vector > 1 && (!divides(vector) || words * vector > kMostWords))
    vector /= 2;
  return vector;
}

/// What is one access, and what is the same for all of a run.
void classify(const KernelGraph &graph, const Piece &piece, KernelPlan &plan, int vector) {
  const size_t count = graph.values.size();
  plan.access.assign(count, Access::element);
  plan.uniform.assign(count, false);
  plan.streamed.assign(count, false);
  for (ValueId id = 0; id < count; ++id) {
    const Value &value = graph[id];
    if (value.op == Op::reduction || is_store(value))
      continue;
    if (lies_in_piece(graph, piece, value, vector)) {
      plan.access[id] = Access::vector;
      continue;
    }
    const bool steady = !symbolic::depends_on(value.index, piece.row) &&
                        !symbolic::depends_on(value.index, piece.element) &&
                        std::all_of(value.args.begin(), value.args.end(),
                                    [&](ValueId arg) { return plan.uniform[arg]; }) &&
                        (value.guard == ir::kNone || plan.uniform[value.guard]);
    plan.uniform[id] = steady;
    plan.access[id] = steady ? Access::constant : Access::element;
  }
}

/// Threads of a block: few that have much each, if they fill the machine.
int choose_block(const target::Target &target, int64_t blocks, int64_t stretches, int columns) {
  constexpr int64_t kThreads = 1024; // of a multiprocessor
  constexpr int kLeast = 64, kMost = 512;
  int block = kLeast * 2;
  while (block < kMost && blocks * block < kThreads * target.multiprocessors &&
         stretches >= 2 * kFewestStretches * (block / columns))
    block *= 2;
  while (block > kLeast && stretches < kFewestStretches * (block / columns))
    block /= 2;
  return block;
}

} // namespace

bool keeps_few(const KernelGraph &graph) {
  const auto kept = graph.row_sizes.empty() ? std::nullopt : graph.row_sizes.back().as_integer();
  return kept && *kept >= 2 && *kept <= kMostKept;
}

int64_t kept_in_pieces(const ir::Module &module, const KernelGraph &graph,
                       const target::Target &target) {
  const std::optional<Piece> piece = find_piece(graph);
  if (!piece || target.is_host || choose_run(module, graph, *piece) == 0)
    return 0;
  const bool splits_sectors =
      std::any_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
        return lies_in_piece(graph, *piece, value, 1) &&
               piece->kept *
                       static_cast<int64_t>(
                           tensor::size_in_bytes(module.buffer(value.buffer).dtype)) %
                       kSector !=
                   0;
      });
  return splits_sectors ? piece->kept : 0;
}

bool plan_pieces(const Request &request, KernelPlan &plan) {
  const auto &[module, group, target, given, checked, like, choice] = request;
  if (like || choice || !checked.sizes.empty() || target.is_host)
    return false;
  KernelPlan wanted;
  wanted.graph = given ? plan.graph : build_kernel_graph(module, group, {});
  const KernelGraph &graph = wanted.graph;
  const std::optional<Piece> piece = find_piece(graph);
  if (!piece)
    return false;
  WindowWalk walk;
  walk.vector = choose_run(module, graph, *piece);
  if (walk.vector == 0)
    return false;
  walk.kept = static_cast<int>(piece->kept);
  const int columns = walk.kept / std::gcd(walk.vector, walk.kept);
  const int64_t turns = int64_t{columns} * walk.vector / piece->kept,
                stretches = longest_row(graph).value() / turns;
  int block = choose_block(target, graph.rows().value() / piece->kept, stretches, columns);
  const auto shared = [&] {
    return int64_t{block / columns * columns} * (walk.vector + 1) * accumulator_bytes(graph);
  };
  while (shared() > kMostShared)
    block /= 2;
  walk.threads = block / columns;
  walk.block = walk.threads * columns;
  if (walk.threads < 2 || walk.block < walk.kept || stretches < kFewestStretches * walk.threads)
    return false;
  classify(graph, *piece, wanted, walk.vector);
  wanted.preloaded.assign(graph.values.size(), false);
  fill_phases(module, wanted, group, false);
  walk.ahead = runs_ahead(module, wanted, walk.vector, static_cast<int>(turns), walk.threads);
  walk.reach.assign(graph.values.size(), Reach::all);
  wanted.grid = symbolic::floor_div(graph.rows(), Expr(piece->kept));
  wanted.block = walk.block;
  wanted.has_barriers = true;
  wanted.description = "reduction of pieces, " + std::to_string(walk.kept) +
                       " neighbouring rows a block of " + std::to_string(walk.block) +
                       " threads, 1 walk over the rows, " +
                       access_text(module, wanted, walk.vector);
  wanted.walk = std::move(walk);
  plan = std::move(wanted);
  return true;
}

} // namespace tsc::codegen
