#include "codegen/split_rows.h"

#include "codegen/order_elements.h"
#include "codegen/part_graphs.h"
#include "codegen/plan.h"
#include "codegen/plan_steps.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tsc::codegen {

namespace {

using ir::Op;

constexpr int64_t kSmallestRow = 1 << 15;  // elements that a block would take: some 10 microseconds
constexpr int64_t kSmallestPart = 1 << 11; // elements of a part: enough for a block
/// Elements that are looked up wait for their index and then for a line of their own: each counts
/// as so many. (A block took 66 us for 29,822 of them, H200.)
constexpr int64_t kLookUp = 4;
constexpr int64_t kMostParts = 4096; // of a row: one block merges them in a few loads a thread
constexpr int kBlocksPerMultiprocessor = 8;
constexpr int kBlocksForAnyLength = 1; // a multiprocessor, of rows that may turn out short
/// Scans: elements that one block had better carry along itself, and those of a part.
constexpr int64_t kLongestScan = 1 << 16, kSmallestScanPart = 1 << 10, kScanPartBytes = 1 << 15;
constexpr int64_t kScanPartsOfAnyLength = 1 << 12;
constexpr int64_t kLargestScanPart = 1 << 15, kMostScanParts = 1 << 13;
/// Tuples of a row that leave a multiprocessor room for another: while one loads, one combines.
constexpr int64_t kHeldTuplesBytes = 1 << 15;
/// Of what is scanned, in 64 registers of 512 threads. (H100: rows by 1024 threads with 36 floats
/// each took 1.55 times as long as a copy, by 512 with 64 1.01; of 32768 floats scanned as doubles
/// 1.48, in parts 1.18.)
constexpr int64_t kHeldScanBytes = 64 * 512 * 4;
/// Of parts that look back at those before them: elements a thread keeps, and threads. The larger a
/// part, the less waiting counts, if nothing but sums is to be done: then two blocks' parts fill
/// the registers of a multiprocessor. (Measured on an H200: sums of 67108864 floats 203 us in the
/// smaller parts, 166 in the larger ones; logarithms of sums 171 and 249, maxima and their places
/// 138 and 172, rows that start anywhere 75 and 83.)
constexpr int64_t kThreadElements = 16, kThreadBytes = 128, kWideThreadBytes = 96;
constexpr int64_t kTuplePartBytes = 1 << 14, kSmallestLookBack = 1 << 10;
constexpr int64_t kFewestThreads = 1 << 7, kSomeThreads = 1 << 8, kMostThreads = 1 << 9;
constexpr int kLookBackBlocks = 4; // a multiprocessor, that are wanted of short rows
/// Columns that are scanned: a thread carries a part of one. Threads a multiprocessor that hide
/// what memory takes, and elements that are worth a thread, and three kernels.
constexpr int64_t kColumnThreads = 1024, kSmallestColumnPart = 64;
constexpr int64_t kMostColumnParts = 1 << 14; // one block scans them in its registers
constexpr int64_t kSmallestColumns = 1 << 20;
/// Columns that look back: bytes of tuples a thread has, and columns whose parts keep a GPU busy
/// while each waits for the one before.
constexpr int64_t kColumnBytes = 64, kFewestColumns = 2048;
constexpr int64_t kPieceRuns = 16;
constexpr int64_t kWholeRuns = 256; // parts are multiples of it where runs are vectors

bool few_blocks(int64_t blocks, const target::Target &target) {
  return blocks > 0 && blocks * 2 <= target.multiprocessors;
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Whether what memory could move while multiprocessors have no row of a kernel's is worth the
/// launches (`kernels` in the place of one) that give them parts: of 80 rows 52 multiprocessors
/// have none. What is stored of each element counts, too.
bool leaves_idle(const ir::Module &module, const KernelGraph &graph, int64_t rows, int64_t blocks,
                 bool columns, int64_t elements, int64_t kernels, const target::Target &target) {
  constexpr double kLaunch = 2.5e-6; // seconds
  constexpr int64_t kWhole = 16;     // bytes of an access
  double bytes = 0;
  bool is_narrow = columns;
  for (const Value &value : graph.values) {
    if ((value.op != Op::load && !is_store(value)) || value.level != Level::element)
      continue;
    const auto size =
        static_cast<int64_t>(tensor::size_in_bytes(module.buffer(value.buffer).dtype));
    bytes += static_cast<double>(size);
    is_narrow = is_narrow || (value.op == Op::load && // of one loop, runs go by memory's lines
                              graph.element_sizes.size() > 1 &&
                              graph.element_sizes.back().value() * size % kWhole != 0);
  }
  // One block of narrow accesses does not keep as much under way as its multiprocessor could.
  const double fills = (is_narrow ? 1.5 : 1.0) * target.multiprocessors;
  double busy = static_cast<double>(blocks) / fills;
  // Of 300 rows some multiprocessors have three, most two; rows in pieces are had as pieces then.
  // (128 x 300 x 1000 masked floats over the first and the last 67.2 us, in parts 56.4; rows of one
  // loop 0.94 to 1.14 of the time.)
  if (busy > 1 && !columns && kernels == 2 && graph.element_sizes.size() > 1)
    busy /= std::ceil(busy);
  const double moves = bytes * static_cast<double>(rows) * static_cast<double>(elements);
  return blocks > 0 && busy < 1 &&
         moves / target.bandwidth * (1 / busy - 1) > kLaunch * static_cast<double>(kernels - 1);
}

/// Whether parts of a row can be worked on apart.
bool is_divisible(const ir::Module &module, const KernelGraph &graph) {
  const auto reads = [&](BufferId buffer, Expr index, bool elsewhere_only) {
    return std::any_of(graph.values.begin(), graph.values.end(), [&](const Value &value) {
      return value.op == Op::load && module.storage_of(value.buffer) == module.storage_of(buffer) &&
             !(elsewhere_only &&
               symbolic::simplify(value.index - index, graph.ranges).is_integer(0));
    });
  };
  // An index that follows from a reduction is checked where rows are merged, or elements stored.
  const bool stores_elements =
      std::any_of(graph.stores.begin(), graph.stores.end(),
                  [&](ValueId id) { return graph[id].level == Level::element; });
  for (const Value &value : graph.values) {
    if (value.op == Op::sort || (value.op == Op::set_indirect && value.phase > 0 &&
                                 value.level == Level::element && !stores_elements))
      return false;
    // Kernels before the last one that reads must not write there; in the last one, blocks do not
    // wait for each other.
    if (is_store(value) && reads(value.buffer, value.index, value.level == Level::element))
      return false;
  }
  return true;
}

/// So many elements an element counts as.
int64_t weight_of(const KernelGraph &graph) {
  return std::any_of(graph.values.begin(), graph.values.end(),
                     [](const Value &value) {
                       return value.op == Op::load && value.level == Level::element &&
                              !value.args.empty();
                     })
             ? kLookUp
             : 1;
}

/// As many parts of a size that the launch knows.
Division in_parts(const KernelGraph &graph, Expr parts) {
  return {parts, symbolic::ceil_div(graph.element_sizes[0], parts)};
}

/// Of columns whose outermost loop has less than half of the `wanted` turns: each of its turns is
/// parts of the next loop. (Gradients of a depthwise convolution's weights, 16 channels innermost,
/// 12 images of 168 x 168: 168 lines gave a sixth of the machine threads.)
std::optional<Division> divide_two_loops(const KernelGraph &graph, double wanted, int64_t together,
                                         int64_t smallest) {
  const std::vector<Expr> &sizes = graph.element_sizes;
  if (together == 1 || sizes.size() < 2)
    return std::nullopt;
  const int64_t turns = sizes[0].value(), next = sizes[1].value(),
                elements = graph.elements().value();
  if (turns < 2 || 2.0 * static_cast<double>(turns) > wanted)
    return std::nullopt;
  const int64_t parts = std::min({static_cast<int64_t>(wanted) / turns, next, kMostParts / turns,
                                  elements * together / smallest / turns});
  if (parts < 2)
    return std::nullopt;
  const int64_t length = ceil_div(next, parts);
  return Division{ceil_div(next, length), length, 1};
}

/// Parts that fill the GPU with blocks, leave each of them enough elements and keep vectors whole:
/// equal ones where the size has a fitting divisor.
/// `rows` (the launch may know better) are `blocks` of a kernel, each of which takes as many
/// `together` where neighbouring threads take neighbouring rows.
Division divide(const ir::Module &module, const KernelGraph &graph, int64_t rows, int64_t blocks,
                int64_t together, const target::Target &target) {
  const bool columns = together > 1;
  if (!graph.elements().is_integer()) {
    const auto expected = likely(module, graph.elements());
    if (!expected)
      return in_parts(graph,
                      ceil_div(int64_t{target.multiprocessors} * kBlocksForAnyLength, blocks));
    const std::vector<Expr> &sizes = graph.element_sizes;
    const int64_t outermost = likely(module, sizes[0]).value_or(1),
                  most = std::min(
                      {kMostParts, *expected * together / kSmallestPart,
                       int64_t{target.multiprocessors} * kBlocksPerMultiprocessor / blocks});
    // Of few turns each is parts of the next loop.
    if (sizes.size() > 1 && 2 * outermost <= most && !sizes[1].is_integer(1))
      if (const int64_t parts = std::min(most / outermost, likely(module, sizes[1]).value_or(1));
          parts > 1)
        return {parts, symbolic::ceil_div(sizes[1], parts), 1};
    return in_parts(graph, std::clamp<int64_t>(most, 1, std::max<int64_t>(1, outermost)));
  }
  // Parts of fewer columns than a block has share blocks.
  const double shared = columns ? static_cast<double>(rows) / static_cast<double>(together) : 1;
  const double wanted = static_cast<double>(target.multiprocessors) * kBlocksPerMultiprocessor /
                        (shared < 1 ? shared : static_cast<double>(blocks));
  const int64_t outermost = *graph.element_sizes[0].as_integer();
  const int64_t elements = *graph.elements().as_integer();
  const bool vectors = !columns && graph.element_sizes.size() == 1;
  const int64_t smallest = kSmallestPart / weight_of(graph);
  if (const auto both = divide_two_loops(graph, wanted, together, smallest))
    return *both;
  const auto are_few = [&](int64_t parts) { return elements / parts * together >= smallest; };
  constexpr double kFarFromWanted = 1; // twice, or half
  double best = 1e30;
  int64_t even_parts = 1;
  for (int64_t parts = 2; parts <= std::min(kMostParts, outermost); ++parts) {
    if (outermost % parts != 0 || !are_few(parts))
      continue;
    double cost = std::fabs(std::log2(static_cast<double>(parts) / wanted));
    for (int64_t width = 4; vectors && width <= 16; width *= 2)
      cost += outermost % width == 0 && outermost / parts % width != 0 ? 1.5 : 0;
    if (cost < best) {
      best = cost;
      even_parts = parts;
    }
  }
  const int64_t most = std::min({kMostParts, outermost, elements * together / smallest,
                                 std::max<int64_t>(1, static_cast<int64_t>(wanted))});
  const double even = std::fabs(
      std::log2(static_cast<double>(even_parts) / static_cast<double>(std::max<int64_t>(1, most))));
  if (most < 2 || (even_parts > 1 && std::min(even, best) <= kFarFromWanted))
    return {even_parts, outermost / even_parts};
  // Whole runs of few columns that lie together, of up to 16 elements each.
  const bool pieces = columns && together < kColumnsPerBlock && graph.element_sizes.size() == 1;
  const int64_t unit = vectors ? std::min<int64_t>(kWholeRuns, smallest) : pieces ? kPieceRuns : 1;
  const int64_t length = ceil_div(ceil_div(outermost, most), unit) * unit;
  return {ceil_div(outermost, length), length};
}

/// Parts of a row, as many as are likely.
int64_t parts_of(const ir::Module &module, const KernelGraph &graph, const Division &division) {
  int64_t parts = division.parts.value();
  for (size_t loop = 0; loop < division.outer; ++loop)
    parts *= likely(module, graph.element_sizes[loop]).value_or(1);
  return parts;
}

/// Whether runs that are reduced along the innermost loop would begin between two places that a
/// whole access may begin at, its length being no multiple of them.
bool has_odd_runs(const ir::Module &module, const KernelGraph &graph) {
  constexpr int64_t kWhole = 16; // bytes
  const Expr inner = graph.element_variables.back();
  bool odd = false;
  for (const Value &value : graph.values) {
    if (value.op != Op::load || value.level != Level::element ||
        !symbolic::depends_on(value.index, inner))
      continue;
    const auto step = symbolic::coefficient_of(value.index, inner);
    if (!step || !step->is_integer(1))
      return false;
    const auto size =
        static_cast<int64_t>(tensor::size_in_bytes(module.buffer(value.buffer).dtype));
    odd = odd || graph.element_sizes.back().value() * size % kWhole != 0;
  }
  return odd;
}

/// Loops that memory is contiguous along, but no whole number of accesses: parts lie inside of one
/// turn of the loops around them, so that each is a row that starts anywhere. (Parts that take some
/// of each turn are read element by element, each of them placed by two divisions: 16.2 million
/// elements of two tensors in rows of 42,678 of 16 bits took 75 us more than they need, H200.)
std::optional<Division> divide_inside(const ir::Module &module, const KernelGraph &graph,
                                      int64_t blocks, const target::Target &target) {
  constexpr int64_t kShortestTurn = 256, kMostTurns = 1 << 15;
  const std::vector<Expr> &sizes = graph.element_sizes;
  if (sizes.size() < 2 ||
      !std::all_of(sizes.begin(), sizes.end(), [](Expr size) { return size.is_integer(); }))
    return std::nullopt;
  const int64_t length = sizes.back().value();
  const int64_t turns = graph.elements().value() / std::max<int64_t>(1, length);
  if (length < kShortestTurn || turns > kMostTurns || !has_odd_runs(module, graph))
    return std::nullopt;
  const int64_t wanted =
      ceil_div(int64_t{target.multiprocessors} * kBlocksPerMultiprocessor, blocks * turns);
  const int64_t pieces = std::max<int64_t>(1, std::min(wanted, length / kSmallestPart));
  const int64_t piece =
      pieces == 1 ? length : ceil_div(ceil_div(length, pieces), kWholeRuns) * kWholeRuns;
  return Division{ceil_div(length, piece), piece, sizes.size() - 1};
}

/// Bytes of the widest elements that are scanned, of each member at least four.
int64_t scanned_bytes(const KernelGraph &graph) {
  size_t widest = 4;
  for (const Value &value : graph.values) {
    size_t bytes = 0;
    for (size_t k = 0; value.op == Op::scan && k < scanned_members(value); ++k)
      bytes += std::max<size_t>(4, tensor::size_in_bytes(member_dtype(value, k)));
    widest = std::max(widest, bytes);
  }
  return static_cast<int64_t>(widest);
}

/// Of rows that are scanned: parts that a block holds. Of rows of any length, if they are likely to
/// have few of them, as many as a row turns out to have, which one thread carries along; else as
/// many parts as threads carry well, each by one.
std::optional<Division> divide_scan(const ir::Module &module, const KernelGraph &graph,
                                    std::optional<int64_t> known_rows,
                                    const target::Target &target) {
  const std::optional<int64_t> known = graph.elements().as_integer(),
                               expected = likely(module, graph.elements());
  if (!known && expected.value_or(kLongestScan) >= kLongestScan)
    return in_parts(graph, kScanPartsOfAnyLength);
  const int64_t elements = *expected;
  const int64_t rows = known_rows.value_or(1);
  const int64_t fills = int64_t{target.multiprocessors} * kBlocksPerMultiprocessor;
  int64_t length = std::clamp(ceil_div(elements * std::min(rows, fills), fills), kSmallestScanPart,
                              kScanPartBytes / scanned_bytes(graph));
  length = std::max(length, ceil_div(elements, kMostScanParts));
  length = ceil_div(length, kWholeRuns) * kWholeRuns;
  if (!known) {
    while (length > kWholeRuns && length / 2 >= elements)
      length /= 2;
    return Division{symbolic::ceil_div(graph.elements(), length), length};
  }
  if (length > kLargestScanPart || length >= elements)
    return std::nullopt;
  return Division{ceil_div(elements, length), length};
}

/// Whether a thread for each of so many columns keeps about as much under way as parts of them
/// would, which are read twice, by three kernels. (H200, columns by one thread each beside two or
/// three parts: 41511 of 300 masked floats 55 and 68 us, 40000 of 1000 floats 123 and 138, 50000
/// maxima of 256 38 and 50; 34000 of 3000 floats 345 and 335, 60000 of 500 of 16 bits 76 and 71.)
/// As many as turn out to be there may be few.
bool are_many_columns(const ir::Module &module, const KernelGraph &graph, int64_t rows,
                      int64_t elements, const target::Target &target) {
  constexpr int64_t kLongest = 2048, kParts = 4;
  constexpr size_t kLeastBytes = 4;
  size_t bytes = 0;
  for (const Value &value : graph.values)
    if (value.op == Op::load && value.level == Level::element)
      bytes = std::max(bytes, tensor::size_in_bytes(module.buffer(value.buffer).dtype));
  return graph.rows().is_integer() && bytes >= kLeastBytes && elements <= kLongest &&
         target.multiprocessors * kColumnThreads / rows < kParts;
}

/// The same of columns: enough parts for the threads that a GPU runs at once.
std::optional<Division> divide_columns(const ir::Module &module, const KernelGraph &graph,
                                       int64_t rows, int64_t elements,
                                       const target::Target &target) {
  const int64_t parts = std::min({target.multiprocessors * kColumnThreads / rows,
                                  elements / kSmallestColumnPart, kMostColumnParts});
  if (parts < 2 || rows * elements < kSmallestColumns ||
      are_many_columns(module, graph, rows, elements, target))
    return std::nullopt;
  const int64_t length = ceil_div(elements, parts);
  return Division{ceil_div(elements, length), length};
}

/// Whether parts of scanned rows can be blocks of one launch: everything that needs all of a row is
/// a scan, and how many parts there are is known when shapes are bound.
bool may_look_back(const KernelGraph &graph, const target::Target &target) {
  const auto is_of_data = [](Expr size) {
    const auto symbols = symbolic::free_symbols(size);
    return std::any_of(symbols.begin(), symbols.end(),
                       [](Expr symbol) { return symbol.is_symbol(symbolic::SymbolSort::data); });
  };
  return !target.is_host && graph.element_sizes.size() == 1 && !is_of_data(graph.rows()) &&
         !is_of_data(graph.elements()) &&
         std::none_of(graph.values.begin(), graph.values.end(),
                      [](const Value &value) { return value.op == Op::reduction; }) &&
         std::all_of(graph.stores.begin(), graph.stores.end(),
                     [&](ValueId id) { return graph[id].level == Level::element; });
}

struct LookBackPart {
  int64_t length = 0; // elements: whole runs, and one less where rows start anywhere
  int threads = 0;
};
/// What is kept of an element: what is scanned, and what is loaded once for before and after.
int64_t kept_bytes(const KernelGraph &graph) {
  const auto bytes = [](const Value &value) {
    return std::max<int64_t>(4, static_cast<int64_t>(tensor::size_in_bytes(value.dtype)));
  };
  std::vector<bool> used_later(graph.values.size(), false);
  for (const Value &value : graph.values)
    for (const ValueId arg : value.args)
      used_later[arg] = used_later[arg] || value.phase > 0;
  int64_t result = 0;
  for (ValueId id = 0; id < graph.values.size(); ++id)
    if (graph[id].op == Op::scan ||
        (graph[id].op == Op::load && used_later[id] && graph[id].level == Level::element))
      result += bytes(graph[id]);
  return result;
}
LookBackPart choose_part(const KernelGraph &graph, std::optional<int64_t> rows,
                         std::optional<int64_t> elements, const target::Target &target) {
  constexpr int64_t kRun = 16;
  const int64_t bytes = std::max<int64_t>(4, kept_bytes(graph));
  const auto known = graph.elements().as_integer();
  const bool anywhere = known && *known % kRun != 0 && !graph.rows().is_integer(1);
  int scans = 0;
  bool costly = false;
  for (const Value &value : graph.values)
    if (value.op == Op::scan) {
      ++scans;
      costly = costly || value.scan == ir::ScanKind::logsumexp;
    }
  int64_t threads = bytes > 4 ? kFewestThreads : kSomeThreads, each = kThreadElements;
  if (scans == 1 && !costly && !anywhere) {
    threads = kMostThreads;
    each = bytes > 4 ? std::max<int64_t>(1, kWideThreadBytes / bytes) : kThreadBytes / bytes;
  }
  LookBackPart part;
  part.length = threads * each;
  if (combines(graph)) // as many runs as threads
    part.length = static_cast<int64_t>(
        std::bit_floor(static_cast<uint64_t>(kTuplePartBytes / scanned_bytes(graph))));
  if (rows && elements) {
    const int64_t wanted = int64_t{target.multiprocessors} * kLookBackBlocks;
    while (part.length > kSmallestLookBack && *rows * ceil_div(*elements, part.length) < wanted) {
      part.length /= 2;
      threads = std::max(kFewestThreads, threads / 2);
    }
  }
  // Rows of any length that are likely to be short: a part of several is a compromise.
  constexpr int64_t kLikely = 4;
  while (!known && elements && part.length > kSmallestLookBack &&
         part.length / 2 >= kLikely * *elements) {
    part.length /= 2;
    threads = std::max(kFewestThreads, threads / 2);
  }
  part.threads = static_cast<int>(threads);
  if (anywhere && !combines(graph)) // of tuples a total has all that threads hold
    part.length -= kRun;
  return part;
}

/// Columns of tuples: a part of so many neighbours a block.
struct ColumnParts {
  int columns = 0;
  int64_t length = 0;
};
/// Nothing if other ways take less: few columns, whose parts would wait for one another in a chain,
/// and so many that each is one thread's.
std::optional<ColumnParts> divide_among_columns(const ir::Module &module, const KernelGraph &graph,
                                                const target::Target &target) {
  const auto is_of_tuples = [](const Value &value) {
    return value.op != Op::scan || value.combine;
  };
  const auto rows = graph.rows().as_integer(), elements = graph.elements().as_integer();
  if (!may_look_back(graph, target) || !prefers_columns(module, graph) ||
      !std::all_of(graph.values.begin(), graph.values.end(), is_of_tuples) ||
      (rows && (*rows < kFewestColumns || *rows >= target.multiprocessors * kColumnThreads)))
    return std::nullopt;
  size_t widest = 1;
  for (const Value &value : graph.values)
    if (value.level == Level::element && value.buffer != ir::kNone)
      widest = std::max(widest, tensor::size_in_bytes(module.buffer(value.buffer).dtype));
  ColumnParts parts;
  parts.columns = widest < 4 ? 64 : 32; // whole lines, or sectors
  const int64_t lanes = kColumnPartBlock / parts.columns;
  int64_t each = std::clamp<int64_t>(kColumnBytes / scanned_bytes(graph), 2, 16);
  if (elements)
    each = std::min(each, ceil_div(*elements, lanes));
  parts.length = lanes * each;
  return parts;
}

bool has_scan(const KernelGraph &graph) {
  return std::any_of(graph.values.begin(), graph.values.end(),
                     [](const Value &value) { return value.op == Op::scan; });
}

/// Kernels in the place of one.
int64_t kernels_of(const KernelGraph &graph) {
  std::vector<bool> phases(graph.phases, false);
  int64_t count = 0;
  for (const Value &value : graph.values)
    if (is_barrier(value) && !phases[value.phase]) {
      phases[value.phase] = true;
      count += 2;
    }
  return count + std::any_of(graph.stores.begin(), graph.stores.end(),
                             [&](ValueId id) { return graph[id].level == Level::element; });
}

constexpr int64_t kMostTaps = 9, kMostSums = 64; // along a loop of rows; of one row
constexpr size_t kMostTapValues = 700;

/// Whether a load goes along the rows' loop `variable` while another that every element makes does
/// not, and would be made again for each of these rows.
bool reads_again_along(const KernelGraph &graph, Expr variable) {
  bool moves = false, stays = false;
  for (const Value &value : graph.values) {
    if (value.op != Op::load || value.level != Level::element)
      continue;
    const bool depends = symbolic::depends_on(value.index, variable);
    moves = moves || depends;
    stays = stays || !depends;
  }
  return moves && stays;
}

/// Sums whose rows are taps of a window (gradients of weights that no channels share) read one and
/// the same operand for each tap: a row takes all of its taps, so that it is read once. Nothing
/// where there are none.
std::optional<KernelGraph> join_taps(const KernelGraph &graph) {
  const auto is_number = [](Expr e) { return e.is_integer(); };
  const bool sums =
      graph.phases == 2 &&
      std::all_of(graph.values.begin(), graph.values.end(), [](const Value &value) {
        return value.op != Op::set_indirect && value.op != Op::scan && value.op != Op::sort &&
               (value.op != Op::reduction || value.reduction == ir::ReductionKind::sum) &&
               (!is_store(value) || value.level == Level::row);
      });
  if (!sums || !std::all_of(graph.row_sizes.begin(), graph.row_sizes.end(), is_number) ||
      !std::all_of(graph.element_sizes.begin(), graph.element_sizes.end(), is_number) ||
      graph.elements().value() < kSmallestPart)
    return std::nullopt;
  std::optional<KernelGraph> result;
  int64_t taken = 1;
  for (size_t loop = graph.row_variables.size(); loop-- > 0;) {
    const int64_t size = graph.row_sizes[loop].value();
    if (size < 2 || size > kMostTaps || taken * size > kMostSums ||
        !reads_again_along(graph, graph.row_variables[loop]))
      continue;
    std::optional<KernelGraph> joined =
        unroll_row_loop(result ? *result : graph, loop, kMostTapValues);
    if (!joined)
      break;
    taken *= size;
    result = std::move(joined);
  }
  if (result && result->element_sizes.size() > 1) { // the longest loop is divided best
    std::vector<Expr> &sizes = result->element_sizes, &variables = result->element_variables;
    const auto longest = std::max_element(sizes.begin(), sizes.end() - 1,
                                          [](Expr a, Expr b) { return a.value() < b.value(); }) -
                         sizes.begin();
    std::rotate(sizes.begin(), sizes.begin() + longest, sizes.begin() + longest + 1);
    std::rotate(variables.begin(), variables.begin() + longest, variables.begin() + longest + 1);
  }
  return result;
}

/// Whether the kernel that reduces parts had better take columns: what is stored for each element
/// is another kernel's then, and lies as it likes.
bool reduces_columns(const ir::Module &module, const KernelGraph &graph) {
  KernelGraph reduced = graph;
  std::erase_if(reduced.stores, [&](ValueId id) { return graph[id].level == Level::element; });
  for (ValueId id = 0; id < reduced.values.size(); ++id) // which have no other store, maybe
    if (graph.is_reduction(id))
      reduced.stores.push_back(id);
  remove_dead_values(reduced);
  assign_phases(reduced);
  return prefers_columns(module, reduced);
}

/// The kernels of a graph whose rows keep too few blocks busy, or that scans; nothing where one
/// kernel does.
std::optional<std::vector<KernelGraph>> divide_rows(ir::Module &module, const KernelGraph &graph,
                                                    const target::Target &target, Rows which) {
  const auto likely_rows = likely(module, graph.rows()),
             likely_elements = likely(module, graph.elements());
  const int64_t longest = longest_row(graph).value_or(INT64_MAX);
  if (has_scan(graph)) {
    if (const auto columns = divide_among_columns(module, graph, target)) {
      const Expr parts = symbolic::ceil_div(graph.elements(), columns->length);
      return std::vector{look_back_graph(module, graph, parts, columns->length, kColumnPartBlock,
                                         columns->columns)};
    }
    if (likely_rows && likely_elements && graph.element_sizes.size() == 1 &&
        prefers_columns(module, graph)) {
      auto division = divide_columns(module, graph, *likely_rows, *likely_elements, target);
      if (!division)
        return std::nullopt;
      if (!graph.elements().is_integer())
        division = in_parts(graph, division->parts);
      return graphs_of_parts(module, graph, *division);
    }
    const bool few = likely_rows && few_blocks(*likely_rows, target) && likely_elements &&
                     *likely_elements >= kSmallestRow;
    const bool looks_back = may_look_back(graph, target) && !prefers_columns(module, graph);
    const int64_t held = combines(graph) ? kHeldTuplesBytes / scanned_bytes(graph)
                         : looks_back    ? kHeldScanBytes / scanned_bytes(graph)
                                         : kHeldScanBytes / kept_bytes(graph);
    if (!few && longest <= held)
      return std::nullopt;
    if (looks_back) {
      const LookBackPart part = choose_part(graph, likely_rows, likely_elements, target);
      const Expr parts = symbolic::ceil_div(graph.elements(), part.length);
      return std::vector{look_back_graph(module, graph, parts, part.length, part.threads)};
    }
    const auto division = divide_scan(module, graph, likely_rows, target);
    if (!division || graph.element_sizes.size() > 1)
      return std::nullopt;
    return graphs_of_parts(module, graph, *division);
  }
  if (!likely_rows)
    return std::nullopt;
  const bool columns = reduces_columns(module, graph);
  // A block has all rows of a short loop, or a line of columns.
  const int64_t kept = columns ? kept_in_pieces(module, graph, target) : 0;
  const int64_t together = kept > 0 ? kept : columns ? kColumnsPerBlock : 1;
  const int64_t blocks = ceil_div(std::max<int64_t>(1, *likely_rows), together);
  // Of each kernel a launch: the more there are, the more a block would have to do alone. Rows that
  // may have any size are divided for one more launch, not for several.
  const int64_t kernels = kernels_of(graph);
  const bool few = few_blocks(blocks, target) ||
                   (graph.elements().is_integer() && kernels > 1 &&
                    blocks <= (kernels == 2 ? 3 : 2) * int64_t{target.multiprocessors} &&
                    leaves_idle(module, graph, *likely_rows, blocks, columns, *likely_elements,
                                kernels, target));
  const bool are_short =
      likely_elements.value_or(longest) < kSmallestRow * kernels / 2 / together / weight_of(graph);
  if (kernels == 0 || (which == Rows::few && (!few || are_short)) ||
      (!likely_elements && (kernels > 2 || which == Rows::any)))
    return std::nullopt;
  const std::optional<KernelGraph> joined = join_element_loops(graph);
  KernelGraph reordered = joined ? *joined : graph;
  const bool divides = which == Rows::few || blocks < 2 * int64_t{target.multiprocessors};
  std::optional<Division> division;
  if (divides && !columns)
    division = divide_inside(module, reordered, blocks, target);
  if (!division) {
    bring_out_loop(reordered,
                   ceil_div(int64_t{target.multiprocessors} * kBlocksPerMultiprocessor, blocks));
    division = Division{1, reordered.element_sizes[0]};
    if (divides)
      division =
          divide(module, reordered, std::max<int64_t>(1, *likely_rows), blocks, together, target);
  }
  if (which == Rows::few && parts_of(module, reordered, *division) * blocks <
                                std::min<int64_t>(blocks * 4, target.multiprocessors / 4))
    return std::nullopt;
  return graphs_of_parts(module, reordered, *division, joined ? &graph : nullptr);
}

} // namespace

bool may_split_rows(const scheduler::Group &group, const target::Target &target) {
  return std::any_of(group.bodies.begin(), group.bodies.end(), [&](const ir::LoopBody &body) {
    const Expr all = symbolic::numel(body.sizes), rows = symbolic::numel(body.iteration_sizes());
    bool reduces = false, scans = false, combines = false, looks_up = false;
    for (const ir::BodyOp &op : body.ops) {
      // Reductions over everything may come with all loops counted as iteration loops.
      reduces = reduces || op.op == Op::store_reduction;
      scans = scans || op.op == Op::scan;
      combines = combines || op.combine;
      looks_up = looks_up || op.op == Op::set_indirect;
    }
    if (!reduces && !scans)
      return false;
    if (!all.is_integer() || !rows.is_integer())
      return true;
    if (scans && all.value() >= kSmallestColumns)
      return true;
    const std::span<const Expr> outer = body.iteration_sizes();
    const bool taps = std::any_of(outer.begin(), outer.end(), [](Expr size) {
      return size.value() >= 2 && size.value() <= kMostTaps;
    });
    if (reduces && taps && all.value() >= kSmallestColumns)
      return true;
    if (combines && rows.value() >= kFewestColumns)
      return all.value() >= kSmallestRow;
    if (all.value() < kSmallestRow / (looks_up && !scans ? kLookUp : 1) ||
        (scans && rows.value() > 0 && all.value() / rows.value() > kLongestScan))
      return all.value() >= kSmallestRow;
    return !body.is_reduction() ||
           rows.value() / kColumnsPerBlock + 1 <= 2 * int64_t{target.multiprocessors};
  });
}

std::optional<std::vector<KernelGraph>>
split_rows(ir::Module &module, const scheduler::Group &group, const target::Target &target) {
  return split_rows(module, build_kernel_graph(module, group, {.two_pass_statistics = false}),
                    target);
}

std::optional<std::vector<KernelGraph>> split_rows(ir::Module &module, const KernelGraph &graph,
                                                   const target::Target &target, Rows rows) {
  if (!graph.reduces || graph.rows().is_integer(0) || graph.element_sizes.empty() ||
      !is_divisible(module, graph))
    return std::nullopt;
  const std::optional<KernelGraph> joined = target.is_host ? std::nullopt : join_taps(graph);
  if (!joined)
    return divide_rows(module, graph, target, rows);
  auto divided = divide_rows(module, *joined, target, rows);
  return divided ? std::move(divided) : std::vector{*joined};
}

} // namespace tsc::codegen
