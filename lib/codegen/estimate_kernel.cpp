#include "codegen/estimate_kernel.h"
#include "codegen/expression.h"
#include "codegen/plan_steps.h"

#include "scheduler/cost.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

namespace tsc::codegen {

namespace {

using ir::Op;

constexpr double kClock = 1.7;        // a nanosecond
constexpr double kLanes = 128;        // instructions of threads a clock and multiprocessor
constexpr double kIssued = 0.75;      // of them, what dependences leave
constexpr double kLatency = 800;      // nanoseconds from memory
constexpr double kSecondLevel = 5500; // bytes a nanosecond from the L2 cache
/// Lines, or parts of them, that warps store: each is a request to the L2 cache, of which it takes
/// so many a nanosecond. Rows of 33 floats by four threads each stored 46, rows of 49 with 64-bit
/// places 64 (H200; ncu: 67 and 81% of the L2's throughput).
constexpr double kStoredLines = 60;
/// Sectors of them, each time that one is written: 768 rows of 13394 numbers of 16 bits, a run of
/// eight a lane stored one by one, took 61 us, 39 more than by neighbouring lanes (H200).
constexpr double kStoredSectors = 110;
/// Sectors that warps change in the L2 cache, by additions and the like, a nanosecond: 72 were by
/// additions of 16 bytes a thread, 63 where threads lie 16 bytes apart and each adds four bytes
/// (H200, places at random).
constexpr double kChangedSectors = 70;
/// Of the L2 cache, what one access finds again: its halves hold what both ask for twice, and
/// results pass through it.
constexpr double kShareOfL2 = 0.4;
constexpr double kFirstLevel = 128 << 10; // bytes that stay in a multiprocessor's own cache
constexpr double kRegisters = 24;         // a thread's, besides what it loads and adds up
constexpr double kLoopsInFlight = 4;      // iterations of a loop whose loads a compiler overlaps
// Of a maximum and a sum of exponentials, in a run: an element, and the run.
constexpr double kExpSumElement = 5, kExpSumRun = 7;
constexpr double kWelfordElement = 3.5, kWelfordRun = 12; // of moments
constexpr double kPlace = 16;   // divisions that find a run, and its address
constexpr double kQuotient = 4; // by a number that is known: a product, shifts, a remainder
constexpr double kQuotientOfSymbols = 20,
                 kWideQuotientOfSymbols = 100; // by one that a launch brings
constexpr double kQuotientByInverse = 6;       // of a position, by a symbol whose inverse it brings
constexpr double kHeld = 0.75;                 // a load of KernelPlan::neighbours
constexpr double kQuick = 2;                   // of KernelPlan::quick
// Where a run of a tile lies, in memory and in shared memory; of single elements threads stay at
// their places in a line (12 kernels on an H200).
constexpr double kTileRun = 20, kTileElement = 8;
constexpr double kRowThread = 30, kToNeighbour = 3;
constexpr double kBlockOfWords = 100;    // ten rounds of Philox
constexpr double kOfScatteredLine = 0.5; // of a clock: a look-up in it by one lane
constexpr double kByLanes = 2;           // an element, through shared memory
constexpr double kEndOfRow = 3;          // an element, where a run may reach past its row
constexpr double kTableBytes = 32;       // a clock, that a multiprocessor brings to shared memory
constexpr int kAnywhere = 1 << 20;       // elements or bytes, between places that are looked up
constexpr int kWarp = 32, kLine = 128, kSector = 32;

/// Divisions and remainders that an index takes; with `symbols`, those by what a launch brings.
double quotients(Expr e, const symbolic::Ranges *symbols = nullptr) {
  if (e.is_integer() || e.is_symbol())
    return 0;
  const bool divides = e.kind() == symbolic::Kind::floor_div || e.kind() == symbolic::Kind::mod ||
                       e.kind() == symbolic::Kind::modular_index;
  const auto is_symbolic = [](Expr divisor) { return !divisor.is_integer(); };
  double count = 0;
  const bool wraps = symbols && e.kind() == symbolic::Kind::mod &&
                     symbolic::wraps_once(e.operands()[0], e.operands()[1], *symbols);
  if (divides && !wraps &&
      (!symbols || std::any_of(e.operands().begin() + 1, e.operands().end(), is_symbolic)))
    count = 1;
  for (const Expr operand : e.operands())
    count += quotients(operand, symbols);
  return count;
}

class Estimator {
public:
  Estimator(const ir::Module &module, const KernelPlan &plan, const target::Target &target,
            const KernelGraph *symbols)
      : module_(module), plan_(plan), graph_(plan.graph), symbols_(symbols), target_(target),
        symbols_quotient_(plan.wide_index ? kWideQuotientOfSymbols : kQuotientOfSymbols),
        place_quotient_(!symbols          ? kQuotient
                        : plan.wide_index ? kQuotientByInverse
                                          : kQuotientOfSymbols),
        rows_(static_cast<double>(graph_.rows().as_integer().value_or(0))),
        elements_(graph_.varies_by_row(graph_.elements())
                      ? static_cast<double>(longest_row(graph_).value_or(0))
                      : static_cast<double>(graph_.elements().as_integer().value_or(0))),
        vector_(vector_of(plan.walk)) {}

  program::KernelEstimate estimate(double read, double written) {
    const double bytes = read + written;
    program::KernelEstimate result;
    const auto blocks = plan_.grid.as_integer();
    if (!blocks || *blocks == 0 || rows_ == 0 || elements_ == 0 || graph_.sorts() ||
        std::holds_alternative<ProductWalk>(plan_.walk) ||
        std::holds_alternative<SerialWalk>(plan_.walk))
      return result;
    if (const auto *window = std::get_if<WindowWalk>(&plan_.walk))
      count_windows(*window);
    else
      count_phases();
    result.is_known = true;
    result.blocks = *blocks;
    const double multiprocessors = target_.multiprocessors;
    const double resident =
        !plan_.tables.empty()
            ? std::max(1, plan_.resident)
            : std::max(
                  1.0,
                  std::min(
                      {std::floor(static_cast<double>(target_.max_threads_per_multiprocessor) /
                                  plan_.block),
                       std::floor(target_.registers_per_multiprocessor /
                                  (registers() * static_cast<double>(plan_.block))),
                       static_cast<double>(blocks_by_shared_memory(target_, plan_.shared_bytes)),
                       32.0}));
    const double at_once = std::min(static_cast<double>(*blocks), resident * multiprocessors);
    result.threads_in_flight = static_cast<int64_t>(at_once) * plan_.block;
    result.waves = static_cast<double>(*blocks) / (resident * multiprocessors);
    // Multiprocessors without a block do nothing.
    const double busy = std::min(1.0, static_cast<double>(*blocks) / multiprocessors);
    const double clocks = kClock * multiprocessors * busy;
    result.memory =
        scheduler::kernel_nanoseconds(target_, bytes) - scheduler::kernel_nanoseconds(target_, 0);
    result.arithmetic = scheduler::kernel_nanoseconds(target_, 0, operations_) -
                        scheduler::kernel_nanoseconds(target_, 0);
    const double moved_again = scheduler::kernel_nanoseconds(target_, bytes + from_memory_again_) -
                               scheduler::kernel_nanoseconds(target_, 0);
    result.accesses =
        std::max({(lines_ + table_lines()) / clocks,
                  second_level_ / kSecondLevel +
                      std::max(stored_lines_ / kStoredLines, stored_sectors_ / kStoredSectors) +
                      changed_sectors_ / kChangedSectors,
                  from_memory_again_ > 0 ? moved_again : 0});
    if (const auto *tile = std::get_if<TileWalk>(&plan_.walk)) // what is left over of tiles
      instructions_ *= static_cast<double>(*blocks) * tile->block * tile->steps_of(false) *
                       vector_ / (rows_ * elements_);
    const auto *row = std::get_if<RowWalk>(&plan_.walk);
    if (row && row->steps > 0 && graph_.reduces) // threads that lie behind the row's end
      instructions_ *= std::max(1.0, row->threads * row->steps * vector_ / elements_);
    result.instructions = instructions_ / (clocks * kLanes * kIssued);
    // Threads of a block that have no row wait for the others.
    const double working = std::min(static_cast<double>(result.threads_in_flight),
                                    row && !row->columns ? rows_ * row->threads
                                                         : std::numeric_limits<double>::infinity());
    const double in_flight = std::max(1.0, bytes_a_thread_) * std::max(1.0, working);
    if (!plan_.tables.empty()) {      // a block waits for its table, and all do so at once
      constexpr double kFirst = 1200; // nanoseconds
      const double rows = rows_, grid = static_cast<double>(*blocks),
                   held = plan_.shared_bytes / (plan_.has_turns() ? 2.0 : 1.0),
                   all = held * (plan_.has_turns() ? grid : rows),
                   waits = std::ceil(result.waves) * kFirst + all / kTableBytes / clocks,
                   at_most = plan_.has_turns() ? grid : resident * multiprocessors,
                   whole = std::ceil(rows / at_most) * at_most / rows; // the last round's idle ones
      result.accesses = result.accesses * whole + waits;
      result.instructions = result.instructions * whole + waits;
    }
    const double again = walked_again(read, at_once) + from_memory_again_;
    result.latency = (read + again) / in_flight * kLatency;
    result.read_again = again;
    result.sectors = requests_ == 0 ? 0 : sectors_ / requests_;
    for (double *value : {&result.memory, &result.arithmetic, &result.accesses,
                          &result.instructions, &result.latency, &result.read_again})
      *value = std::round(*value);
    for (double *value : {&result.waves, &result.sectors})
      *value = std::round(*value * 100) / 100;
    return result;
  }

private:
  const ir::Module &module_;
  const KernelPlan &plan_;
  const KernelGraph &graph_;
  std::vector<bool> decided_ = decided_by_data(graph_);
  const KernelGraph *symbols_; // the same with symbols, by which it divides; or null
  const target::Target &target_;
  double symbols_quotient_;
  double place_quotient_; // of the place of a row or an element
  double rows_, elements_;
  int vector_;
  double requests_ = 0, lines_ = 0, sectors_ = 0; // of warps
  double second_level_ = 0;                       // bytes that warps fetch from the L2 cache
  double from_memory_again_ = 0;                  // bytes of sectors that it no longer has
  double stored_lines_ = 0;                       // requests of warps that store
  double stored_sectors_ = 0;                     // of those
  double changed_sectors_ = 0;                    // of warps that change memory
  double instructions_ = 0, operations_ = 0;      // of threads
  double bytes_a_thread_ = 0;                     // that a thread has under way
  double bytes_a_row_ = 0, walks_ = 0;            // of rows that do not stay on the chip

  /// Clocks in which blocks bring what their elements look up in while they work.
  double table_lines() const {
    if (!plan_.has_turns()) // before they look up, which estimate adds
      return 0;
    double bytes = 0;
    for (const HeldTable &table : plan_.tables)
      bytes += static_cast<double>(table.elements) * size_of(graph_[table.loads.front()]);
    return bytes * rows_ / kTableBytes;
  }
  /// The variable along which neighbouring threads lie, and how many of its steps apart.
  std::pair<Expr, double> lanes() const {
    const auto *row = std::get_if<RowWalk>(&plan_.walk);
    const bool takes_rows = std::holds_alternative<ColumnWalk>(plan_.walk) ||
                            std::holds_alternative<WindowWalk>(plan_.walk) ||
                            (row && (row->threads == 1 || row->columns));
    if (takes_rows && !graph_.row_variables.empty()) {
      const auto *window = std::get_if<WindowWalk>(&plan_.walk);
      const bool tiles = window && window->along + 1 == graph_.row_variables.size();
      const bool has_rows = row && !row->columns; // a thread a row
      return {graph_.row_variables.back(), has_rows ? 1 : vector_ * (tiles ? window->tile : 1)};
    }
    if (graph_.element_variables.empty())
      return {Expr(0), 0};
    return {graph_.element_variables.back(),
            row && row->order == RunOrder::by_thread ? vector_ * std::max(1, row->steps) : vector_};
  }
  /// Whether an access goes to a place that is looked up anew for neighbours along a loop;
  /// `anywhere`: that the data decides.
  bool is_looked_up(const Value &value, Expr variable, bool anywhere = false) const {
    if (value.op != Op::load && value.op != Op::store)
      return false;
    return std::any_of(value.args.begin(), value.args.end(), [&](ValueId id) {
      return graph_[id].op == Op::set_indirect && (!anywhere || decided_[id]) &&
             symbolic::depends_on(value.index, graph_[id].symbol) && varies_along(id, variable);
    });
  }
  bool varies_along(ValueId id, Expr variable) const {
    std::vector<ValueId> open = {id};
    std::vector<bool> seen(graph_.values.size(), false);
    while (!open.empty()) {
      const ValueId next = open.back();
      open.pop_back();
      if (seen[next])
        continue;
      seen[next] = true;
      const Value &value = graph_[next];
      if ((value.buffer != ir::kNone || value.op == Op::index_expr) &&
          symbolic::depends_on(value.index, variable))
        return true;
      open.insert(open.end(), value.args.begin(), value.args.end());
    }
    return false;
  }
  double size_of(const Value &value) const {
    return static_cast<double>(tensor::size_in_bytes(module_.buffer(value.buffer).dtype));
  }

  /// `times`: by how many threads, all in all.
  void count(ValueId id, double times) {
    const Value &value = graph_[id];
    if (const Choice *choice = choice_of(plan_, id)) {
      const double bytes = size_of(graph_[choice->places.front().second]) * vector_;
      constexpr double kEachPlace = 4; // an address, compared and taken
      instructions_ += (kEachPlace * static_cast<double>(choice->places.size()) + vector_) * times;
      requests_ += times / kWarp;
      lines_ += std::max(1.0, bytes * kWarp / kLine) * times / kWarp;
      sectors_ += std::max(1.0, bytes * kWarp / kSector) * times / kWarp;
      return;
    }
    const bool is_vector = plan_.access[id] == Access::vector && value.buffer != ir::kNone;
    const bool is_in_table = table_of(plan_, value) != nullptr;
    const bool is_held = neighbours_of(plan_, id) != nullptr; // by registers, once it is there
    const bool by_run = !plan_.by_run.empty() && plan_.by_run[id];
    const bool moments = value.reduction == ir::ReductionKind::welford_reduce;
    instructions_ += (by_run ? (moments ? kWelfordElement : kExpSumElement) +
                                   (moments ? kWelfordRun : kExpSumRun) / vector_
                      : !plan_.quick.empty() && plan_.quick[id] ? kQuick
                      : is_held                                 ? kHeld
                                                                : instructions_of(graph_, value)) *
                     times;
    if (ir::is_random(value.op)) // four share a block of words where they are drawn together
      instructions_ += kBlockOfWords * times /
                       (draws_by_warp(plan_, id)       ? 4
                        : plan_.uniform[value.args[2]] ? std::min(vector_, 4)
                                                       : 1);
    if (value.op == Op::load && is_vector) // unpacked where they are used
      instructions_ += times * vector_;
    const double all = quotients(value.index),
                 slow = symbols_
                            ? std::min(all, quotients((*symbols_)[id].index, &symbols_->ranges))
                            : 0;
    instructions_ += (kQuotient * (all - slow) + symbols_quotient_ * slow) * times;
    if (value.buffer == ir::kNone && value.op != Op::index_expr && value.op != Op::constant &&
        tensor::is_floating(value.dtype))
      operations_ += times;
    const Interleaved *with = interleaved_of(plan_, id);
    const Neighbours *near = neighbours_of(plan_, id);
    if (is_in_table) {
      lines_ += kBanksMet * times / kWarp;
      return;
    }
    if (value.buffer == ir::kNone || (with && with->members.front() != id) ||
        (near && near->members.front().load != id))
      return;
    if (near)
      times *= near->runs / static_cast<double>(vector_);
    const double width = is_vector ? vector_ * interleaved_with(plan_, id) : 1;
    const auto *window = std::get_if<WindowWalk>(&plan_.walk);
    const WindowRun *brought = window ? window->run_of(id) : nullptr;
    const bool is_tile = window && window->stores_tile(id); // stores what all of a tile have
    double bytes = size_of(value) * (near      ? vector_
                                     : brought ? brought->vector
                                     : is_tile ? window->tile
                                               : width);
    double apart = 0; // bytes between neighbouring threads
    if (!plan_.tiled.empty() && plan_.tiled[id]) {
      const int run = std::get<TileWalk>(plan_.walk).loaded_run();
      bytes = apart = size_of(value) * run;
      times *= static_cast<double>(vector_) / run;
    } else if (const auto [variable, steps] = lanes(); steps > 0) {
      const auto step = symbolic::depends_on(value.index, variable)
                            ? symbolic::coefficient_of(value.index, variable)
                            : std::optional<Expr>(Expr(0));
      const bool is_number = step && step->is_integer() && !is_looked_up(value, variable);
      const bool scattered = !is_number && !value.args.empty() && value.op == Op::load;
      apart = scattered                ? kLine
              : is_by_lanes(plan_, id) ? size_of(value)
              : is_number ? std::fabs(static_cast<double>(step->value())) * steps * size_of(value)
                          : bytes; // in pieces, mostly of neighbours
    }
    if (with && (bytes > 16 || with->across)) { // a request a piece; through shared memory,
                                                // neighbours'
      const auto piece = static_cast<double>(std::gcd(static_cast<int>(bytes), 16));
      const double pieces = bytes / piece;
      instructions_ += (with->across ? 4 : 1) * pieces * times;
      lines_ += with->across ? 2 * bytes / kLine * times : 0;
      apart = with->across ? piece : apart;
      bytes = piece;
      times *= pieces;
    }
    const auto [groups, groups_apart] = groups_of_warp(value);
    const bool is_split = has_split_sectors(value);
    const auto touched = [&, groups = groups, groups_apart = groups_apart](double unit) {
      const double least = std::max(1.0, bytes / unit), lanes = kWarp / groups;
      double of_group =
          std::clamp(lanes * std::max(apart, apart == 0 ? 0 : bytes) / unit, least, lanes * least);
      if (is_split && apart != 0) // they start at multiples of what they have in common with it
        of_group = std::min((lanes * std::max(apart, bytes) + unit -
                             std::gcd(static_cast<int>(lanes * apart), static_cast<int>(unit))) /
                                unit,
                            lanes * least);
      else if (groups > 1 && apart != 0 &&
               std::fmod(groups_apart, unit) != 0) // they start anywhere
        of_group = std::min(of_group + 1 - size_of(value) / unit, lanes * least);
      const double of_all = of_group * std::clamp(groups * groups_apart / unit, 1.0, groups);
      const double all_apart = groups * std::max(groups_apart, bytes);
      return groups > 1 && apart != 0 ? std::min(of_all, std::max(of_group, all_apart / unit + 1))
                                      : of_all;
    };
    const bool anywhere = is_gathered(value);
    const auto held = module_.buffer(value.buffer).layout.storage_size().as_integer();
    const double most = anywhere && held // lines of a small table are few
                            ? static_cast<double>(*held) * size_of(value) / parts_of(value)
                            : kWarp * kLine;
    const std::optional<double> lines = counted(value, bytes, kLine),
                                sectors = counted(value, bytes, kSector);
    if (shift_of(plan_, id) > 0) { // twice, and put together
      instructions_ += (3 + vector_) * times;
      times *= 2;
    } else if (shift_of(plan_, id) == kAnyShift) { // words are chosen twice, and then turned
      instructions_ += (8 + bytes) * times;
      times *= 2;
    }
    if (is_by_lanes(plan_, id))
      instructions_ += kByLanes * times;
    const double share = share_of(value);
    const double of_lines = (anywhere ? kOfScatteredLine : 1) *
                            std::min(lines ? *lines : touched(kLine), std::max(1.0, most / kLine)),
                 of_sectors =
                     std::min(sectors ? *sectors : touched(kSector), std::max(1.0, most / kSector));
    requests_ += times / kWarp * share;
    lines_ += of_lines * times / kWarp * share;
    sectors_ += of_sectors * times / kWarp * share;
    const bool stores = value.op == Op::store || value.op == Op::store_reduction;
    if (stores && value.mode == ir::StoreMode::plain) {
      stored_lines_ += of_lines * times / kWarp * share;
      stored_sectors_ += of_sectors * times / kWarp * share;
    }
    if (stores && value.mode != ir::StoreMode::plain)
      changed_sectors_ += of_sectors * times / kWarp * share;
    const auto changes = [](const Value &other) { // sectors that change are counted
      return other.op == Op::store && other.mode != ir::StoreMode::plain;
    };
    if (anywhere && std::none_of(graph_.values.begin(), graph_.values.end(), changes))
      second_level_ += missed(value) * of_sectors * kSector * times / kWarp * share;
    if (is_read_apart(id)) {
      second_level_ += of_sectors * kSector * times / kWarp * share;
      from_memory_again_ += read_again_of(value);
    }
  }
  /// Pieces of `unit` bytes that a warp of a flat walk touches, on average of its first warps, lane
  /// by lane; nothing where an index is no sum of the loops' multiples.
  std::optional<double> counted(const Value &value, double bytes, int unit) const {
    constexpr int kWarps = 8;
    const size_t loops = graph_.element_variables.size();
    if (!std::holds_alternative<FlatWalk>(plan_.walk) || loops < 2 || !plan_.interleaved.empty())
      return std::nullopt;
    std::vector<std::pair<int64_t, int64_t>> sizes; // and steps, the innermost loop first
    int64_t runs = 1;
    for (size_t i = loops; i-- > 0 && runs < int64_t{kWarps} * kWarp;) {
      const auto size = graph_.element_sizes[i].as_integer();
      const auto step =
          value.op == Op::load && is_looked_up(value, graph_.element_variables[i], true)
              ? std::optional<Expr>(Expr(kAnywhere))
              : symbolic::coefficient_of(value.index, graph_.element_variables[i]);
      if (!size || !step || !step->is_integer() || (sizes.empty() && *size % vector_ != 0))
        return std::nullopt;
      const bool innermost = sizes.empty();
      sizes.emplace_back(innermost ? *size / vector_ : *size,
                         step->value() * (innermost ? vector_ : 1));
      runs *= sizes.back().first;
    }
    std::vector<int64_t> pieces;
    double count = 0;
    for (int warp = 0; warp < kWarps; ++warp) {
      pieces.clear();
      for (int lane = 0; lane < kWarp; ++lane) {
        int64_t rest = int64_t{warp} * kWarp + lane, place = 0;
        for (const auto &[size, step] : sizes) {
          place += rest % size * step;
          rest /= size;
        }
        const double first = static_cast<double>(place) * size_of(value);
        for (auto piece = static_cast<int64_t>(std::floor(first / unit));
             static_cast<double>(piece) * unit < first + bytes; ++piece)
          pieces.push_back(piece);
      }
      std::sort(pieces.begin(), pieces.end());
      count += static_cast<double>(std::unique(pieces.begin(), pieces.end()) - pieces.begin());
    }
    return count / kWarps;
  }
  /// Whether neighbouring threads look up what they load, each somewhere.
  bool is_gathered(const Value &value) const {
    const auto [variable, steps] = lanes();
    return value.op == Op::load && !value.args.empty() && steps > 0 &&
           is_looked_up(value, variable, true);
  }
  /// Parts of its buffer that loops go through in order, in each of which it is gathered.
  double parts_of(const Value &value) const {
    double parts = 1;
    const auto go_through = [&](const std::vector<Expr> &variables,
                                const std::vector<Expr> &sizes) {
      for (size_t i = 0; i < variables.size(); ++i)
        if (symbolic::depends_on(value.index, variables[i]))
          parts *= static_cast<double>(sizes[i].as_integer().value_or(1));
    };
    go_through(graph_.row_variables, graph_.row_sizes);
    go_through(graph_.element_variables, graph_.element_sizes);
    return parts;
  }
  /// Of what is gathered, the share that the first-level cache does not have: blocks of a
  /// multiprocessor look up in parts of their own, what streams by lets go of them.
  double missed(const Value &value) const {
    constexpr double kMostBlocks = 8; // of a multiprocessor
    const auto held = module_.buffer(value.buffer).layout.storage_size().as_integer();
    if (!held)
      return 0;
    const double parts = parts_of(value);
    const double of_part = std::max(1.0, rows_ * elements_ / parts), // elements
        of_block = static_cast<double>(plan_.block) * vector_ * std::max(1, steps_of(plan_.walk)),
                 blocks = std::min(
                     kMostBlocks,
                     std::floor(static_cast<double>(target_.max_threads_per_multiprocessor) /
                                plan_.block)),
                 at_once =
                     std::min(blocks * std::ceil(of_block / of_part),
                              std::ceil(blocks * of_block * target_.multiprocessors / of_part));
    const double bytes = static_cast<double>(*held) * size_of(value) / parts * plan_.copies *
                         std::min(at_once, parts),
                 kept = std::min(1.0, kFirstLevel / bytes);
    return 1 - kept * kept;
  }
  /// Bytes of sectors that a load comes back to, for what lies beside in them, when the L2 cache
  /// has them no more: neighbours along a loop around many elements.
  double read_again_of(const Value &value) const {
    const auto held = module_.buffer(value.buffer).layout.storage_size().as_integer();
    if (!std::holds_alternative<FlatWalk>(plan_.walk) || !held)
      return 0;
    double within = 1, again = 0; // elements of the loops within
    for (size_t i = graph_.element_variables.size(); i-- > 0;) {
      const auto size = graph_.element_sizes[i].as_integer();
      const auto step = symbolic::coefficient_of(value.index, graph_.element_variables[i]);
      if (!size || !step || !step->is_integer())
        return 0;
      const double apart = std::fabs(static_cast<double>(step->value())) * size_of(value);
      if (apart > 0 && apart < kSector && within * kSector > kShareOfL2 * target_.l2_bytes)
        again = std::max(again, std::min(static_cast<double>(*size), kSector / apart) - 1);
      within *= static_cast<double>(*size);
    }
    return again * static_cast<double>(*held) * size_of(value);
  }
  /// Accesses of which no other load of the kernel finds the sectors in the first-level cache:
  /// channels, each read by other blocks, which come much later where planes are apart (colours as
  /// sums of three: 98 us, 53 where a thread has all three). Of several elements along a loop that
  /// is left open.
  bool is_read_apart(ValueId id) const {
    const Value &value = graph_[id];
    const bool single = value.op == Op::load && value.args.empty() && value.guard == ir::kNone &&
                        (plan_.tiled.empty() || !plan_.tiled[id]) &&
                        (std::holds_alternative<FlatWalk>(plan_.walk) || has_few_columns() ||
                         has_split_sectors(value) || lies_among_rows(value)) &&
                        interleaved_with(plan_, id) == 1;
    const auto held =
        single ? module_.buffer(value.buffer).layout.storage_size().as_integer() : std::nullopt;
    constexpr double kFarApart = 1 << 20; // bytes
    const auto may_help = [&](const Value &other) {
      const auto apart = (other.index - value.index).as_integer();
      return other.op == Op::load && other.buffer == value.buffer && &other != &value &&
             (plan_.copies > 1 || !apart ||
              std::fabs(static_cast<double>(*apart)) * size_of(value) < kFarApart);
    };
    return held && static_cast<double>(*held) * size_of(value) > kFirstLevel &&
           std::none_of(graph_.values.begin(), graph_.values.end(), may_help);
  }
  /// Of neighbouring columns that a warp has, those of one piece of memory, in runs, where the last
  /// row loop is shorter than that; 0 where it is not.
  double runs_of_short_rows() const {
    const auto *column = std::get_if<ColumnWalk>(&plan_.walk);
    const auto *window = std::get_if<WindowWalk>(&plan_.walk);
    if ((!column && (!window || window->threads == 1 || window->kept > 0)) ||
        graph_.row_variables.size() < 2)
      return 0;
    const auto shortest = graph_.row_sizes.back().as_integer();
    const double runs = shortest ? static_cast<double>(*shortest) / vector_ : 0;
    return runs < std::min(kWarp, column ? column->columns : window->columns()) ? runs : 0;
  }
  /// Rows whose elements lie apart, what is between them being other rows'.
  bool lies_among_rows(const Value &value) const {
    const auto *row = std::get_if<RowWalk>(&plan_.walk);
    if (!row || row->threads == 1 || row->columns || graph_.element_variables.empty())
      return false;
    const double apart = bytes_along(value, graph_.element_variables.back());
    return apart > size_of(value) && apart < kLine &&
           std::any_of(
               graph_.row_variables.begin(), graph_.row_variables.end(),
               [&](Expr variable) { return bytes_along(value, variable) == size_of(value); });
  }
  /// Columns of short pieces of memory that threads share: sectors at the ends of pieces, and those
  /// that the next element is in, are asked for again by other warps.
  bool has_split_sectors(const Value &value) const {
    const auto *column = std::get_if<ColumnWalk>(&plan_.walk);
    return runs_of_short_rows() > 0 && (!column || column->threads > 1) &&
           std::fmod(runs_of_short_rows() * vector_ * size_of(value), kSector) != 0;
  }
  /// The elements that lie together where a block has all rows of a short loop.
  double elements_of_piece(const WindowWalk &walk) const {
    const auto steps = graph_.element_sizes.back().as_integer();
    return static_cast<double>(walk.kept) * (steps ? static_cast<double>(*steps) : elements_);
  }
  /// Blocks whose columns are less than a warp's: their neighbours are other blocks'.
  bool has_few_columns() const {
    const auto *column = std::get_if<ColumnWalk>(&plan_.walk);
    return column && column->columns < kWarp;
  }
  /// Groups of a warp's threads, each of which lies along lanes(), and bytes between what
  /// neighbouring groups access: of rows that share a warp, of elements of few columns, or of
  /// columns whose loop is shorter than a warp.
  std::pair<double, double> groups_of_warp(const Value &value) const {
    const size_t elements = graph_.element_variables.size();
    const auto *tile = std::get_if<TileWalk>(&plan_.walk);
    if ((tile || std::holds_alternative<FlatWalk>(plan_.walk)) && elements > 1) {
      const auto size = graph_.element_sizes.back().as_integer();
      int64_t runs = size ? (*size + vector_ - 1) / vector_ : kWarp;
      if (tile)
        runs = std::min<int64_t>(runs, tile->edge / vector_);
      size_t around = elements - 2; // of more than the one step that is left of a loop
      while (around > 0 && graph_.element_sizes[around].is_integer(1))
        --around;
      const auto step = symbolic::coefficient_of(value.index, graph_.element_variables[around]);
      if (runs > 0 && runs < kWarp && step && step->is_integer())
        return {static_cast<double>(kWarp) / static_cast<double>(runs),
                std::fabs(static_cast<double>(step->value())) * size_of(value)};
    }
    if (const double runs = runs_of_short_rows(); runs > 0)
      return {kWarp / runs,
              bytes_along(value, graph_.row_variables[graph_.row_variables.size() - 2])};
    if (const auto *column = std::get_if<ColumnWalk>(&plan_.walk);
        column && column->columns < kWarp && !graph_.element_variables.empty())
      return {static_cast<double>(kWarp / column->columns),
              bytes_along(value, graph_.element_variables.back())};
    if (const auto *window = std::get_if<WindowWalk>(&plan_.walk); window && window->kept > 0) {
      const double runs = elements_of_piece(*window) / vector_;
      return runs >= kWarp || elements < 2
                 ? std::pair(1.0, 0.0)
                 : std::pair(kWarp / runs,
                             bytes_along(value, graph_.element_variables[elements - 2]));
    }
    if (const auto *window = std::get_if<WindowWalk>(&plan_.walk);
        window && window->threads > 1 && window->columns() < kWarp &&
        !graph_.element_variables.empty())
      return {static_cast<double>(kWarp / window->columns()),
              bytes_along(value, graph_.element_variables.back())};
    const auto *row = std::get_if<RowWalk>(&plan_.walk);
    const size_t loops = graph_.row_variables.size();
    if (row && row->columns && !graph_.look_back && row->rows < kWarp &&
        !graph_.element_variables.empty())
      return {kWarp / row->rows, bytes_along(value, graph_.element_variables.back())};
    if (!row || row->columns || row->threads <= 1 || row->threads >= kWarp || loops == 0)
      return {1, 0};
    const double rows = std::min(row->rows, kWarp / row->threads);
    return {rows, bytes_along(value, graph_.row_variables.back())};
  }
  /// Between what an access reaches at neighbours along a loop; a line where that is no number.
  double bytes_along(const Value &value, Expr variable) const {
    if (is_looked_up(value, variable))
      return kAnywhere;
    if (!symbolic::depends_on(value.index, variable))
      return 0;
    const auto step = symbolic::coefficient_of(value.index, variable);
    return step && step->is_integer()
               ? std::fabs(static_cast<double>(step->value())) * size_of(value)
               : kLine;
  }
  /// Where an access happens for a part of the elements: each of the memory's once.
  double share_of(const Value &value) const {
    const auto held = module_.buffer(value.buffer).layout.storage_size().as_integer();
    if (value.guard == ir::kNone || !held || graph_.reduces)
      return 1;
    return std::min(1.0, static_cast<double>(*held) / (rows_ * elements_));
  }

  void in_flight(ValueId id, double copies) {
    if (const Neighbours *near = neighbours_of(plan_, id)) {
      bytes_a_thread_ +=
          near->members.front().load == id ? near->runs * vector_ * size_of(graph_[id]) : 0;
      return;
    }
    const Choice *choice = choice_of(plan_, id);
    const Value &value = choice ? graph_[choice->places.front().second] : graph_[id];
    if (value.op == Op::load)
      bytes_a_thread_ +=
          copies * size_of(value) *
          (choice || plan_.access[id] == Access::vector ? vector_ * interleaved_with(plan_, id)
                                                        : 1);
  }

  void count_phases() {
    const double runs = rows_ * elements_ / vector_, all = rows_ * elements_;
    const int steps = steps_of(plan_.walk);
    const auto *row = std::get_if<RowWalk>(&plan_.walk);
    const auto *column = std::get_if<ColumnWalk>(&plan_.walk);
    const double threads = row ? row->threads : column ? column->threads : 1;
    const bool loops = steps == 0; // else what is loaded first is all on its way at once
    const double ahead = std::max(kLoopsInFlight, static_cast<double>(row      ? row->ahead
                                                                      : column ? column->ahead
                                                                               : 1));
    double most = 0;
    for (const ValueId id : plan_.preloads) {
      count(id, runs);
      in_flight(id, std::max(1, steps));
    }
    const auto *tile = std::get_if<TileWalk>(&plan_.walk);
    if (tile)
      for (ValueId id = 0; id < graph_.values.size(); ++id)
        if (plan_.tiled[id]) {
          count(id, runs);
          instructions_ += (tile->loaded_run() == 1 ? kTileElement : kTileRun) * runs * vector_ /
                           tile->loaded_run();
          bytes_a_thread_ += size_of(graph_[id]) * elements_ /
                             static_cast<double>(plan_.grid.as_integer().value()) / tile->block;
        }
    if (tile)
      instructions_ += (tile->vector == 1 ? kTileElement : kTileRun) * runs;
    if (std::holds_alternative<FlatWalk>(plan_.walk) && graph_.element_variables.size() > 1)
      instructions_ += 2 * place_quotient_ *
                       static_cast<double>(graph_.element_variables.size() - 1) *
                       runs; // which element a run starts with
    for (const PhasePlan &phase : plan_.phases) {
      for (const ValueId id : phase.row_values)
        count(id, rows_ * threads);
      if (phase.empty())
        continue;
      const double before = bytes_a_thread_;
      double bytes = 0;
      for (const auto *list :
           {&phase.run_values, &phase.elements, &phase.stores, &phase.reductions})
        for (const ValueId id : *list) {
          const bool once = list == &phase.run_values ||
                            (list == &phase.stores && plan_.access[id] == Access::vector);
          count(id, once ? runs : all);
          in_flight(id, (once ? 1 : vector_) * (loops ? ahead : std::max(1, steps)));
          if (graph_[id].op == Op::load)
            bytes += size_of(graph_[id]);
        }
      if (plan_.origin)
        instructions_ += kEndOfRow * all * share_of_ends();
      if (row && row->steps == 0 && graph_.element_variables.size() > 1) // where a run is
        instructions_ += (row->pieces > 0 ? 1 : kPlace) * runs *
                         static_cast<double>(graph_.element_variables.size() - 1);
      walks_ += bytes > 0 ? 1 : 0;
      bytes_a_row_ = std::max(bytes_a_row_, bytes * elements_);
      most = std::max(most, bytes_a_thread_ - before);
      bytes_a_thread_ = before;
    }
    bytes_a_thread_ += most;
    if (row)
      instructions_ *= lanes_of_element(*row);
    if (row && (!row->columns || !graph_.look_back))
      instructions_ += rows_ * threads * of_row_thread(row->threads);
    if (column && column->threads > 1)
      count_sharing(rows_, column->threads, 1);
    if (!loops)
      walks_ = 1;
    for (const ValueId id : plan_.row_stores)
      count(id, rows_);
  }

  /// `groups` of threads that share columns, `rows` of them beside each other: those that have no
  /// element, where they are, and what they tell one another.
  void count_sharing(double groups, int threads, double rows) {
    instructions_ *= std::ceil(elements_ / threads) * threads / elements_;
    instructions_ += groups * threads * rows * of_row_thread(threads);
    if (symbols_ && graph_.element_variables.size() > 1) // where an element is
      instructions_ += groups * elements_ * 2 * place_quotient_ *
                       static_cast<double>(graph_.element_variables.size() - 1);
  }

  /// Instructions of a thread, besides those for its elements: which row it has and where that
  /// lies, and what threads that share a row tell one another.
  double of_row_thread(int threads) const {
    const size_t loops = graph_.row_variables.size();
    double count =
        kRowThread + (loops > 1 ? 2 * place_quotient_ * static_cast<double>(loops - 1) : 0);
    for (const Value &value : graph_.values)
      if (value.op == Op::reduction || value.op == Op::scan)
        count += kToNeighbour * std::log2(threads);
    return count;
  }

  /// Lanes of a warp for each that has a run: pointwise rows that share warps, or have one, leave
  /// some idle.
  double lanes_of_element(const RowWalk &row) const {
    const double held = static_cast<double>(row.threads) * row.steps * row.vector;
    return graph_.reduces || row.threads > kWarp || row.steps == 0
               ? 1
               : std::max(1.0, held / elements_);
  }

  /// Of a row's runs, those that are not known to lie whole in it.
  double share_of_ends() const {
    const auto *row = std::get_if<RowWalk>(&plan_.walk);
    if (!row || row->ends_apart)
      return 0;
    return row->steps == 0 || row->whole_steps == 0
               ? 1
               : 1 - (row->whole_steps - 1.0) / static_cast<double>(row->steps);
  }

  /// See WindowText: what reaches how far stands in which loop.
  void count_windows(const WindowWalk &walk) {
    const bool tiled = walk.tile > 1;
    const double threads = rows_ / vector_ / walk.tile;
    const double outer = elements_ / (tiled ? walk.taps : 1);
    const std::vector<bool> fed = fed_values(graph_);
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      const bool once = plan_.uniform[id] || plan_.access[id] == Access::vector;
      const double each = once ? 1 : vector_;
      if (!fed[id] && graph_[id].op != Op::reduction) { // of what is left of a row
        count(id, threads * (walk.stores_tile(id) ? 1 : walk.tile * each));
        continue;
      }
      double times = outer;
      const WindowRun *run = walk.run_of(id);
      const int places = run ? run->count(walk.places()) : walk.places();
      if (tiled && graph_[id].op != Op::reduction && walk.reach[id] == Reach::window)
        times *= places;
      else if (tiled && graph_[id].op != Op::reduction && walk.reach[id] == Reach::tap)
        times *= walk.taps;
      else if (tiled && (graph_[id].op == Op::reduction || walk.reach[id] == Reach::own))
        times *= static_cast<double>(walk.taps) * walk.tile;
      if (graph_[id].level == Level::row && walk.reach[id] == Reach::all)
        times = walk.threads;
      count(id, threads * times * each);
      in_flight(
          id, tiled && walk.reach[id] == Reach::window
                  ? walk.places() * each
                  : std::max(kLoopsInFlight, static_cast<double>(walk.kept > 0 ? walk.ahead : 1)) *
                        each);
    }
    if (walk.kept > 0)
      count_pieces(walk);
    else if (walk.threads > 1)
      count_sharing(threads, walk.threads, vector_);
    walks_ = 1;
  }
  /// Of blocks that have all rows of a short loop: threads that have no run, where runs are, and
  /// what is merged in shared memory.
  void count_pieces(const WindowWalk &walk) {
    constexpr double kMerge = 4, kMergeMoments = 16; // of two values
    const double blocks = rows_ / walk.kept, stretches = elements_ / walk.turns();
    instructions_ *= std::ceil(stretches / walk.threads) * walk.threads / stretches;
    instructions_ += place_quotient_ * static_cast<double>(graph_.element_variables.size()) *
                     blocks * stretches * walk.columns();
    double merged = 0;
    for (const Value &value : graph_.values)
      if (value.op == Op::reduction)
        merged +=
            vector_ * (2 * words_of(value) + (is_tuple(value.reduction) ? kMergeMoments : kMerge));
    instructions_ += blocks * walk.block *
                     (kRowThread + merged +
                      2 * place_quotient_ * static_cast<double>(graph_.row_variables.size()));
  }
  static double words_of(const Value &reduction) {
    return ir::tuple_size(reduction.reduction) *
           std::max(1.0, static_cast<double>(tensor::size_in_bytes(reduction.dtype)) / 4);
  }

  /// What is under way, what is added up, and room to compute in.
  double registers() const {
    double results = 0;
    const auto *window = std::get_if<WindowWalk>(&plan_.walk);
    for (ValueId id = 0; id < graph_.values.size(); ++id)
      if (graph_[id].op == Op::reduction)
        results += !window            ? 1
                   : window->kept > 0 ? window->vector * words_of(graph_[id])
                                      : window->tile * window->vector;
      else if (plan_.kept[id])
        results += window ? window->places() * window->vector
                          : steps_of(plan_.walk) * vector_ *
                                static_cast<double>(scanned_members(graph_[id]));
    return std::clamp(kRegisters + bytes_a_thread_ / 4 + results, kRegisters, 168.0);
  }

  /// Bytes of rows that a later walk reads from memory again: those that the L2 cache does not keep
  /// while they are worked on.
  double walked_again(double bytes, double blocks) const {
    const auto *row = std::get_if<RowWalk>(&plan_.walk);
    const double at_once = bytes_a_row_ * blocks * (row ? row->rows : 1);
    return walks_ > 1 && at_once > target_.l2_bytes ? bytes * (walks_ - 1) / walks_ : 0;
  }
};

} // namespace

program::KernelEstimate estimate_kernel(const ir::Module &module, const KernelPlan &plan, Expr read,
                                        Expr written, const target::Target &target,
                                        const KernelGraph *symbols) {
  const auto in = read.as_integer(), out = written.as_integer();
  if (!in || !out || target.is_host)
    return {};
  return Estimator(module, plan, target, symbols)
      .estimate(static_cast<double>(*in), static_cast<double>(*out));
}

void add_part(program::KernelEstimate &launch, const program::KernelEstimate &part) {
  const auto beside = [&](double &time, double more) {
    time = part.waves < 1 ? std::max(time, more) : time + more;
  };
  launch.memory += part.memory;
  launch.arithmetic += part.arithmetic;
  beside(launch.accesses, part.accesses);
  beside(launch.instructions, part.instructions);
  beside(launch.latency, part.latency);
  launch.sectors = launch.blocks + part.blocks == 0
                       ? 0
                       : (launch.sectors * static_cast<double>(launch.blocks) +
                          part.sectors * static_cast<double>(part.blocks)) /
                             static_cast<double>(launch.blocks + part.blocks);
  launch.blocks += part.blocks;
  launch.threads_in_flight += part.threads_in_flight;
  launch.waves += part.waves;
  launch.read_again += part.read_again;
}

} // namespace tsc::codegen
