#include "scheduler/verify_schedule.h"

#include "scheduler/dependency.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <optional>

namespace tsc::scheduler {
namespace {

[[noreturn]] void fail(std::string_view step, const std::string &place,
                       const std::string &message) {
  throw support::InternalError("verifier after " + std::string(step), place, message);
}

// ---- order

/// Positions in which nodes run: of the groups, or of the order as long as there are none.
std::vector<size_t> positions_of(const State &state, std::string_view step) {
  const Schedule &schedule = state.schedule;
  std::vector<size_t> positions(schedule.nodes.size(), SIZE_MAX);
  size_t next = 0;
  const auto place = [&](NodeId node) {
    if (node >= positions.size())
      fail(step, "node " + std::to_string(node), "it does not exist");
    if (positions[node] != SIZE_MAX)
      fail(step, state.operation(node).name, "it runs twice");
    positions[node] = next++;
  };
  if (schedule.groups.empty())
    std::for_each(state.order.begin(), state.order.end(), place);
  for (const Group &group : schedule.groups)
    std::for_each(group.members.begin(), group.members.end(), place);
  for (NodeId node = 0; next != 0 && node < positions.size(); ++node)
    if (positions[node] == SIZE_MAX)
      fail(step, state.operation(node).name, "it never runs");
  return positions;
}

// ---- bodies

class BodyVerifier {
public:
  BodyVerifier(const ir::Module &module, const ir::LoopBody &body, std::string_view step,
               const std::string &place)
      : module_(module), body_(body), step_(step), place_(place) {}

  void run() const {
    if (body_.blocks.empty())
      return;
    // A sort stores the places that are asked for, not one a loop.
    const bool sorts = std::any_of(body_.ops.begin(), body_.ops.end(),
                                   [](const ir::BodyOp &op) { return op.op == ir::Op::sort; });
    for (const uint32_t position : body_.blocks[0].ops) {
      const ir::BodyOp &op = body_.ops[position];
      const bool stores = op.op == ir::Op::store || op.op == ir::Op::store_reduction;
      if ((stores ? sorts : op.op != ir::Op::load) || op.index == ir::kNone ||
          op.buffer == ir::kNone)
        continue;
      const size_t loops =
          op.op == ir::Op::store_reduction ? body_.iteration_count : body_.variables.size();
      const std::optional<Access> access = affine(body_.indices[op.index], loops);
      if (!access)
        continue;
      const bool is_empty =
          std::find(access->sizes.begin(), access->sizes.end(), 0) != access->sizes.end();
      if (is_empty)
        continue;
      check_bounds(op, *access, stores);
      if (stores && op.mode == ir::StoreMode::plain && op.args.size() < 2)
        check_cover(op, *access);
    }
  }

private:
  /// offset + sum(stride * variable), with numbers only.
  struct Access {
    int64_t offset = 0;
    std::vector<int64_t> strides, sizes;
  };
  const ir::Module &module_;
  const ir::LoopBody &body_;
  std::string_view step_;
  const std::string &place_;

  std::optional<Access> affine(Expr index, size_t loops) const {
    const std::span<const Expr> variables(body_.variables.data(), loops);
    if (!symbolic::is_affine(index, variables))
      return std::nullopt;
    Access access;
    const std::optional<int64_t> offset = symbolic::offset_of(index, variables).as_integer();
    if (!offset)
      return std::nullopt;
    access.offset = *offset;
    const std::vector<Expr> strides = symbolic::stride_vars(index, variables);
    for (size_t i = 0; i < loops; ++i) {
      const std::optional<int64_t> stride = strides[i].as_integer(),
                                   size = body_.sizes[i].as_integer();
      if (!stride || !size)
        return std::nullopt;
      access.strides.push_back(*stride);
      access.sizes.push_back(*size);
    }
    return access;
  }

  void check_bounds(const ir::BodyOp &op, const Access &access, bool stores) const {
    const ir::Buffer &storage = module_.buffer(module_.storage_of(op.buffer));
    if (storage.dtype != module_.buffer(op.buffer).dtype)
      return;
    const Expr reach = storage.layout.offset + storage.layout.storage_size();
    if (!reach.is_integer())
      return;
    int64_t low = access.offset, high = access.offset;
    for (size_t i = 0; i < access.sizes.size(); ++i)
      (access.strides[i] < 0 ? low : high) += access.strides[i] * (access.sizes[i] - 1);
    if (low < 0 || high >= reach.value())
      fail(step_, place_,
           std::string(stores ? "it stores" : "it loads") + " elements " + std::to_string(low) +
               " to " + std::to_string(high) + " of " + storage.name + ", which has " +
               std::to_string(reach.value()));
  }

  void check_cover(const ir::BodyOp &op, const Access &access) const {
    const ir::Buffer &buffer = module_.buffer(op.buffer);
    const Expr numel = symbolic::numel(buffer.layout.sizes);
    if (!numel.is_integer() || buffer.layout_kind == ir::LayoutKind::mutation)
      return;
    std::vector<std::pair<int64_t, int64_t>> loops; // stride, size
    int64_t count = 1;
    for (size_t i = 0; i < access.sizes.size(); ++i)
      if (access.sizes[i] != 1) {
        count *= access.sizes[i];
        loops.emplace_back(std::abs(access.strides[i]), access.sizes[i]);
      }
    std::sort(loops.begin(), loops.end());
    int64_t reach = 0; // of the loops before
    for (const auto &[stride, size] : loops) {
      if (stride <= reach)
        fail(step_, place_, "it stores some element of " + buffer.name + " more than once");
      reach += stride * (size - 1);
    }
    if (count != numel.value())
      fail(step_, place_,
           "it stores " + std::to_string(count) + " elements of " + buffer.name + ", which has " +
               std::to_string(numel.value()));
  }
};

} // namespace

void verify_order(const State &state, std::string_view step) {
  const Schedule &schedule = state.schedule;
  std::vector<NodeId> producers(state.module.buffers.size(), ir::kNone);
  for (NodeId node = 0; node < schedule.nodes.size(); ++node)
    for (const BufferId output : state.operation(node).outputs) {
      if (producers[output] != ir::kNone)
        fail(step, state.module.buffer(output).name, "two operations produce it");
      producers[output] = node;
    }
  const std::vector<size_t> positions = positions_of(state, step);
  for (NodeId node = 0; node < schedule.nodes.size(); ++node) {
    if (positions[node] == SIZE_MAX) // there is no order yet
      continue;
    const auto check = [&](const Dependency &dependency) {
      const BufferId buffer = buffer_of(dependency);
      if (buffer == ir::kNone || producers[buffer] == ir::kNone || producers[buffer] == node)
        return;
      if (positions[producers[buffer]] > positions[node])
        fail(step, state.operation(node).name,
             "it runs before " + state.operation(producers[buffer]).name +
                 ", which it waits for because of " + state.module.buffer(buffer).name);
    };
    for (const Dependency &dependency : schedule.nodes[node].reads)
      check(dependency);
    for (const Dependency &dependency : schedule.nodes[node].pruned)
      check(dependency);
  }
}

void verify_bodies(const State &state, std::string_view step) {
  for (NodeId node = 0; node < state.schedule.nodes.size(); ++node)
    BodyVerifier(state.module, state.schedule.nodes[node].body, step, state.operation(node).name)
        .run();
  for (const Group &group : state.schedule.groups)
    for (size_t i = 0; i < group.bodies.size(); ++i)
      BodyVerifier(state.module, group.bodies[i], step, state.operation(group.members[i]).name)
          .run();
}

} // namespace tsc::scheduler
