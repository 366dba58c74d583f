#include "scheduler/turn_loops.h"
#include "target/held_columns.h"

#include <algorithm>
#include <cstdio>
#include <optional>

namespace tsc::scheduler {

namespace {

/// True if all that keeps the two apart is how they walk through memory.
bool differs_in_accesses(Refusal refusal) {
  return refusal == Refusal::memory_deps_differ || refusal == Refusal::no_shared_data ||
         refusal == Refusal::low_score;
}

/// A reduction, and what has one element for each that it reads.
struct ReadBack {
  const target::Target *target;
  int64_t count, length, all; // rows, elements of each, and of all
  bool is_known;              // else rows are as many as they are likely to be
};
std::optional<ReadBack> read_back(const Fusion &fusion, GroupId earlier, GroupId later) {
  const WorkGroup &rows = fusion.group(earlier), &elements = fusion.group(later);
  const target::Target *target = fusion.state.options.target;
  const auto length = rows.reduction_numel.as_integer();
  if (!target || target->is_host || !rows.reduces || elements.reduces || !length ||
      elements.numel != rows.numel * rows.reduction_numel)
    return std::nullopt;
  const int64_t count = size_hint(fusion.state.module, rows.numel);
  return ReadBack{target, count, *length, count * *length, rows.numel.is_integer()};
}

/// True if `later` reads back, for all elements, what `earlier` has for each of its rows, beside
/// the elements that `earlier` reduces; and if what the machine works on at once of them stays in
/// the cache that all blocks share, so that a second walk does not ask memory again.
bool reads_columns_back(const Fusion &fusion, GroupId earlier, GroupId later) {
  constexpr double kColumns = 32 * 8; // of a multiprocessor, at once
  constexpr double kOfCache = 0.5;
  // A block has 32 columns: shorter ones are over before it has begun (log_softmax over 21 channels
  // on an H200: 136 us in one kernel of such blocks, where memory takes 43). Those that a thread
  // can hold have a kernel of their own.
  constexpr int64_t kShortest = 128;
  const std::optional<ReadBack> found = read_back(fusion, earlier, later);
  if (!found)
    return false;
  const auto &[target, count, length, all, is_known] = *found;
  const WorkGroup &rows = fusion.group(earlier), &elements = fusion.group(later);
  double bytes = 0;  // of an element that both read
  int64_t words = 0; // registers for the same
  for (const BufferId buffer : rows.buffers) {
    if (!std::binary_search(elements.buffers.begin(), elements.buffers.end(), buffer))
      continue;
    const ir::Buffer &shared = fusion.state.module.buffer(buffer);
    const Expr held = shared.layout.storage_size();
    if ((is_known && !held.is_integer()) || size_hint(fusion.state.module, held) < all)
      continue;
    bytes += static_cast<double>(tensor::size_in_bytes(shared.dtype));
    words += length * target::registers_of(tensor::size_in_bytes(shared.dtype));
  }
  if (is_known && length <= target::kLongestHeldColumn && words <= target::kHeldColumnRegisters)
    return words > 0 && count >= target::kFewestHeldColumns;
  if (words > 0 && words <= target::kSharedColumnRegisters &&
      count >= target::kFewestSharedColumns * target->multiprocessors)
    return true; // a block's threads hold them
  if (!is_known || length < kShortest)
    return false;
  const double at_once = bytes * static_cast<double>(length) * kColumns * target->multiprocessors;
  return bytes > 0 && at_once <= kOfCache * target->l2_bytes;
}

/// The same of rows whose elements a block holds in registers from its first walk to the second:
/// pieces of memory that lie apart, as a channel's are in a batch of images. They are read once
/// then, but where rows are fewer than multiprocessors some of these store nothing of the results,
/// and pieces of single elements (7 x 7 halves) lose more than they gain (27 to 31 us on an H100).
bool reads_held_rows_back(const Fusion &fusion, GroupId earlier, GroupId later) {
  constexpr int64_t kSectorBytes = 32, kAccessBytes = 8;
  constexpr int64_t kMostRegisters = 32768; // of a block, as plan_rows' rows
  constexpr double kLaunchSeconds = 2e-6;
  const std::optional<ReadBack> found = read_back(fusion, earlier, later);
  if (!found)
    return false;
  const auto &[target, count, length, all, is_known] = *found;
  if (!is_known)
    return false;
  int64_t registers = 0;
  double read = 0;
  for (const NodeId member : fusion.graph.members(earlier))
    for (const Dependency &access : fusion.node(member).reads) {
      const auto *memory = std::get_if<MemoryDep>(&access);
      if (!memory || is_indirect(*memory) || memory->sizes.empty() ||
          symbolic::numel(memory->sizes) != fusion.group(later).numel)
        continue;
      const auto bytes = static_cast<int64_t>(
          tensor::size_in_bytes(fusion.state.module.buffer(memory->buffer).dtype));
      const auto piece = memory->sizes.back().as_integer();
      const auto step = symbolic::coefficient_of(memory->index, memory->variables.back());
      if (!piece || *piece * bytes < kSectorBytes || *piece * bytes % kAccessBytes != 0 || !step ||
          !step->is_integer(1))
        return false;
      registers += length * target::registers_of(static_cast<size_t>(bytes));
      read += static_cast<double>(bytes * all);
    }
  if (registers == 0 || registers > kMostRegisters)
    return false;
  double written = 0;
  for (const NodeId member : fusion.graph.members(later))
    for (const Dependency &access : fusion.node(member).writes)
      if (const auto *memory = std::get_if<MemoryDep>(&access))
        written += static_cast<double>(bytes_hint(fusion.state.module, *memory));
  const double busy =
      std::min(1.0, static_cast<double>(count) / static_cast<double>(target->multiprocessors));
  return written / busy <= read + written + kLaunchSeconds * target->bandwidth;
}

/// True if `later` reads, for each element, what `earlier` has run up to there along its rows: what
/// is scanned is written as it is found, and what follows from it too.
bool reads_scan_back(const Fusion &fusion, GroupId earlier, GroupId later) {
  const WorkGroup &rows = fusion.group(earlier), &elements = fusion.group(later);
  const target::Target *target = fusion.state.options.target;
  if (!target || target->is_host || elements.reduces ||
      elements.numel != rows.numel * rows.reduction_numel)
    return false;
  return std::any_of(
      fusion.graph.members(earlier).begin(), fusion.graph.members(earlier).end(), [&](NodeId id) {
        const Node &node = fusion.node(id);
        return node.body.is_scan() &&
               std::any_of(node.writes.begin(), node.writes.end(), [&](const Dependency &access) {
                 return std::binary_search(elements.buffers.begin(), elements.buffers.end(),
                                           buffer_of(access));
               });
      });
}

/// True if `later` alone reads a value that `earlier` computes element by element, and has an
/// element for each: one kernel then stores it nowhere, whichever way it walks.
bool reads_elements_alone(const Fusion &fusion, GroupId earlier, GroupId later) {
  const WorkGroup &first = fusion.group(earlier), &second = fusion.group(later);
  const target::Target *target = fusion.state.options.target;
  if (!target || target->is_host || first.reduces || second.reduces || first.numel != second.numel)
    return false;
  for (const GroupId group : {earlier, later})
    for (const NodeId member : fusion.graph.members(group))
      if (fusion.node(member).body.is_scan() || fusion.node(member).body.is_reduction())
        return false;
  for (const NodeId member : fusion.graph.members(earlier))
    for (const Dependency &access : fusion.node(member).writes) {
      const auto *memory = std::get_if<MemoryDep>(&access);
      if (!memory || is_indirect(*memory) || symbolic::numel(memory->sizes) != first.numel)
        continue;
      const std::vector<User> &users = fusion.state.schedule.users[memory->buffer];
      if (!users.empty() && std::all_of(users.begin(), users.end(), [&](const User &user) {
            return user.node != ir::kNone && fusion.graph.group_of(user.node) == later;
          }))
        return true;
    }
  return false;
}

/// Of what is turned under no policy that turns all.
bool may_turn(const Fusion &fusion, GroupId earlier, GroupId later) {
  const target::Policy &policy = fusion.state.policy();
  return (policy.columns_turn_readers && (reads_columns_back(fusion, earlier, later) ||
                                          reads_held_rows_back(fusion, earlier, later) ||
                                          reads_scan_back(fusion, earlier, later))) ||
         (policy.elements_turn_readers && reads_elements_alone(fusion, earlier, later));
}

std::string whole_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f", value);
  return text;
}

} // namespace

Verdict judge_and_turn(Fusion &fusion, GroupId earlier, GroupId later) {
  Verdict refused = judge(fusion, earlier, later);
  const bool turns_all = fusion.state.policy().loop_ordering_after_fusion;
  if (!differs_in_accesses(refused.refusal) || fusion.group(earlier).is_list() ||
      fusion.group(later).is_list() || (!turns_all && !may_turn(fusion, earlier, later)))
    return refused;
  Verdict best;
  double least = 0, apart = -1;
  for (const auto &[group, other] : {std::pair{earlier, later}, std::pair{later, earlier}}) {
    if (group == earlier && !turns_all)
      continue;
    std::optional<TurnedLoops> turned = turn_loops(fusion, group, other);
    if (!turned)
      continue;
    if (apart < 0)
      apart = sector_bytes(fusion, {earlier}, fusion.group(earlier).nest) +
              sector_bytes(fusion, {later}, fusion.group(later).nest);
    exchange(fusion, *turned);
    Verdict verdict = judge(fusion, earlier, later);
    const double together = verdict.refusal == Refusal::none
                                ? sector_bytes(fusion, {earlier, later}, verdict.nests[0])
                                : 0;
    exchange(fusion, *turned);
    if (verdict.refusal != Refusal::none)
      continue;
    if (together >= apart) {
      refused.refusal = Refusal::loop_order;
      refused.text = "with " + turned->text + ", memory would move " + whole_number(together) +
                     " bytes; for two kernels it moves " + whole_number(apart);
    } else if (!best.turned || together < least) {
      least = together;
      best = std::move(verdict);
      best.turned = std::make_shared<TurnedLoops>(std::move(*turned));
      best.turned->text +=
          ": memory moves " + whole_number(together) + " bytes instead of " + whole_number(apart);
    }
  }
  return best.turned ? best : refused;
}

} // namespace tsc::scheduler
