// Keys and values that attention of few queries computes as it reads them: a cache of 8-bit
// numbers, rows of pages that a table names (docs/attention.md).
#include "scheduler/cost.h"
#include "scheduler/dependency.h"
#include "scheduler/few_queries.h"
#include "scheduler/result_loops.h"
#include "scheduler/steps.h"
#include "scheduler/template_fuser.h"

#include <algorithm>
#include <array>

namespace tsc::scheduler {

namespace {

constexpr int64_t kRun = 8; // elements that are computed together, at least
/// Of an element, that wait in shared memory or registers: two steps of keys and values of depth
/// 128 take 32 KiB each byte.
constexpr int64_t kMostBytes = 4;
/// Of an element: runs of 32 are written out (OperandText).
constexpr size_t kMostOperations = 100;
/// Instructions of a key's or value's element beside its own: shared memory, places.
constexpr double kOfElement = 2;

class AttentionFuser : TemplateFuser {
public:
  explicit AttentionFuser(State &state) : TemplateFuser(state) {}

  void run() {
    for (size_t at = 0; at < groups_.size(); ++at)
      if (groups_[at].node_class == NodeClass::templated && groups_[at].members.size() == 1)
        if (const auto *call =
                std::get_if<ir::Extern>(&state_.operation(groups_[at].members[0]).kind);
            call != nullptr && call->library == ir::Library::attention &&
            tensor::size_in_bytes(call->inputs[0].dtype) == 2 &&
            is_of_few_queries(*state_.options.target, *call))
          try_operands(at, *call);
    remove_empty_groups();
  }

private:
  static constexpr std::array<size_t, 2> kSides = {1, 2}; // inputs: keys, values

  /// The groups that compute keys and values of the attention that group `at` is.
  void try_operands(size_t at, const ir::Extern &call) {
    std::vector<size_t> found;
    for (const size_t side : kSides) {
      const NodeId producer = state_.producer[call.inputs[side].buffer];
      if (producer != ir::kNone &&
          std::find(found.begin(), found.end(), group_of_[producer]) == found.end())
        found.push_back(group_of_[producer]);
    }
    double brought = 0; // bytes that are computed from, of what has joined
    for (const size_t group : found) {
      const NodeId node = groups_[at].members.back(); // attention is behind what computes for it
      if (const Objection objection = object(at, call, group); objection.refusal != Refusal::none) {
        refuse(node, groups_[group].members[0], objection.refusal, objection.text);
        continue;
      }
      const int64_t bytes =
          elements_of(group) * static_cast<int64_t>(tensor::size_in_bytes(call.inputs[0].dtype));
      const double source = static_cast<double>(source_bytes(group) * times_read(call));
      const double apart = nanoseconds(at, call, ir::kNone, brought),
                   together = nanoseconds(at, call, group, brought + source);
      const double separate =
          apart + kernel_nanoseconds(*state_.options.target,
                                     static_cast<double>(bytes + source_bytes(group)));
      const bool slower = together >= separate;
      record(groups_[group].members[0], node, slower ? Refusal::slower : Refusal::none, 2 * bytes,
             call.kernel + " of " + state_.operation(node).name + ": keys or values stored " +
                 microseconds(separate) + ", computed as they are read " + microseconds(together));
      if (slower)
        continue;
      brought += source;
      join(at, call, group, together);
    }
  }

  /// Whether `side` of the call is what a member of the group computes; which one.
  NodeId member_of(const ir::Extern &call, size_t side, size_t group) const {
    const NodeId producer = state_.producer[call.inputs[side].buffer];
    return producer != ir::kNone && group_of_[producer] == group ? producer : ir::kNone;
  }

  Objection object(size_t at, const ir::Extern &call, size_t found) const {
    const Group &group = groups_[found];
    const NodeId node = groups_[at].members.back(), first = group.members[0];
    if (group.node_class != NodeClass::scheduler)
      return {Refusal::not_loops, "its keys or values are not computed by a kernel over loops",
              first};
    if (group.list != ir::kNone || found >= at)
      return {Refusal::no_template, "what computes its keys or values is launched with others",
              first};
    for (size_t i = 0; i < group.members.size(); ++i) {
      const NodeId member = group.members[i];
      const BufferId out = state_.operation(member).outputs[0];
      if (member_of(call, 1, found) != member && member_of(call, 2, found) != member)
        return {Refusal::no_template,
                "the kernel of its keys or values computes something else, too", member};
      if (!users_are(out, [&](NodeId user) { return user == node; }))
        return {Refusal::no_template, "its keys or values are read elsewhere, too, and are stored",
                member};
      if (const std::string why = unfit(group, group.bodies[i], out); !why.empty())
        return {Refusal::shapes, why, member};
      for (const size_t side : kSides)
        if (member_of(call, side, found) == member)
          if (const std::string why = unread(call.inputs[side].layout, group.bodies[i]);
              !why.empty())
            return {Refusal::shapes, why, member};
      if (call.inputs[0].buffer == out)
        return {Refusal::no_template, "its queries are its keys, too", member};
      if (call.inputs.size() > 3 && call.inputs[3].buffer == out)
        return {Refusal::no_template, "its keys are its mask, too", member};
    }
    if (source_bytes(found) > kMostBytes * elements_of(found))
      return {Refusal::shapes, "what its keys or values are made of is more than a block holds",
              first};
    if (writes_between(found, at, {{found}}))
      return {Refusal::intermediate_nodes,
              "what its keys or values are made of is overwritten before", first};
    return {};
  }

  /// Why `view`, of what `body` computes, cannot be read in runs.
  std::string unread(const tensor::Layout &view, const ir::LoopBody &body) const {
    std::vector<Expr> place;
    for (size_t k = 0; k < view.rank(); ++k)
      place.push_back(symbolic::symbol(symbolic::SymbolSort::row, k)); // that no body has
    const auto loops = loops_at(view, place, body.sizes, state_.module.ranges);
    if (!loops || !view.strides.back().is_integer(1))
      return "its keys or values are not all that a kernel computes, in rows";
    std::vector<bool> varies(body.ops.size(), false); // along a row
    for (size_t i = 0; i < body.ops.size(); ++i) {
      const ir::BodyOp &op = body.ops[i];
      for (size_t k = 0; k < loops->size() && op.index != ir::kNone; ++k)
        varies[i] = varies[i] || (symbolic::depends_on((*loops)[k], place.back()) &&
                                  symbolic::depends_on(body.indices[op.index], body.variables[k]));
      for (const uint32_t arg : op.args)
        varies[i] = varies[i] || varies[arg];
      if (op.op == ir::Op::set_indirect && varies[i])
        return "elements of a key's row are looked up one by one";
    }
    return "";
  }
  /// Why runs of a key's row cannot be computed where they are read.
  std::string unfit(const Group &group, const ir::LoopBody &body, BufferId out) const {
    const tensor::Layout &layout = buffer(out).layout;
    if (!state_.owns_memory(out) || !layout.is_contiguous() || body.is_reduction() ||
        !group.reduction_numel.is_integer(1) ||
        !symbolic::simplify(symbolic::numel(body.sizes) - symbolic::numel(layout.sizes),
                            state_.module.ranges)
             .is_integer(0) ||
        !has_whole_runs(body, kRun) || !follows(state_, body, out))
      return "the loops of its keys or values do not go along their rows";
    if (body.ops.size() > kMostOperations)
      return "its keys or values take too many operations";
    if (std::any_of(body.ops.begin(), body.ops.end(), [](const ir::BodyOp &op) {
          return op.op == ir::Op::masked || op.op == ir::Op::scan || op.op == ir::Op::sort ||
                 op.op == ir::Op::reduction || ir::is_random(op.op);
        }))
      return "its keys or values are computed under conditions, or along their rows";
    if (!reads_neighbours(state_.module, body))
      return "what its keys or values are made of does not lie along the depth";
    return "";
  }

  /// That the group's kernel writes.
  int64_t elements_of(size_t group) const {
    int64_t elements = 0;
    for (const ir::LoopBody &body : groups_[group].bodies)
      elements += size_hint(state_.module, symbolic::numel(body.sizes));
    return elements;
  }
  /// That the group reads.
  int64_t source_bytes(size_t group) const {
    return moved_bytes(state_.module, state_.schedule, groups_[group].members, [&](BufferId id) {
      const NodeId producer = state_.producer[id];
      return producer != ir::kNone && group_of_[producer] == group;
    });
  }

  /// How often keys and values are: by each block of queries that share them.
  int64_t times_read(const ir::Extern &call) const {
    const int64_t rows = size_hint(state_.module, rows_that_share_keys(call)),
                  of_block =
                      16 *
                      tc_few_tiles(static_cast<int>(call.inputs[0].layout.sizes[3].value()), rows);
    return (rows + of_block - 1) / of_block;
  }
  /// Of the attention that group `at` is, with what it computes already and with group `more`,
  /// which read `brought` bytes together.
  double nanoseconds(size_t at, const ir::Extern &call, size_t more, double brought) const {
    const target::Target &target = *state_.options.target;
    const auto count = [&](const std::vector<Expr> &sizes) {
      return static_cast<double>(size_hint(state_.module, symbolic::numel(sizes)));
    };
    const std::vector<Expr> &query = call.inputs[0].layout.sizes,
                            &key = call.inputs[1].layout.sizes;
    const TemplateParts &parts = *groups_[at].parts;
    double bytes = 4 * count(query) + brought, instructions = 0;
    for (const size_t side : kSides) {
      const double elements =
          count(call.inputs[side].layout.sizes) * static_cast<double>(times_read(call));
      const std::optional<Group> &own = side == 1 ? parts.keys : parts.values;
      const ir::LoopBody *body = own ? &own->bodies[0] : nullptr;
      if (more != ir::kNone)
        if (const NodeId member = member_of(call, side, more); member != ir::kNone)
          body = &body_of(more, member);
      if (body != nullptr)
        instructions += elements * (kOfElement + static_cast<double>(elements_instructions(*body)));
      else
        bytes += elements * static_cast<double>(tensor::size_in_bytes(call.inputs[side].dtype));
    }
    const double operations =
        4 * count(query) * static_cast<double>(size_hint(state_.module, key[2]));
    // Half of the instructions are under way while others wait for memory.
    return attention_nanoseconds(target, bytes, operations, call.inputs[0].dtype) +
           instruction_nanoseconds(target, instructions, target.multiprocessors) / 2;
  }
  const ir::LoopBody &body_of(size_t group, NodeId member) const {
    const std::vector<NodeId> &members = groups_[group].members;
    return groups_[group].bodies[static_cast<size_t>(
        std::find(members.begin(), members.end(), member) - members.begin())];
  }

  void join(size_t at, const ir::Extern &call, size_t found, double nanoseconds) {
    Group whole = groups_[at];
    TemplateParts parts = *whole.parts;
    parts.nanoseconds = nanoseconds;
    const Group group = std::move(groups_[found]);
    groups_[found] = {};
    for (size_t i = 0; i < group.members.size(); ++i) {
      Group one = group;
      one.members = {group.members[i]};
      one.bodies = {group.bodies[i]};
      for (const size_t side : kSides)
        if (state_.producer[call.inputs[side].buffer] == group.members[i])
          (side == 1 ? parts.keys : parts.values) = one;
    }
    whole.members.insert(whole.members.begin(), group.members.begin(), group.members.end());
    whole.parts = std::make_shared<const TemplateParts>(std::move(parts));
    for (const NodeId member : whole.members)
      group_of_[member] = static_cast<uint32_t>(at);
    groups_[at] = std::move(whole);
  }
};

} // namespace

void fuse_attention(State &state) { AttentionFuser(state).run(); }

} // namespace tsc::scheduler
