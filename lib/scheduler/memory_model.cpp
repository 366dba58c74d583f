#include "scheduler/memory_model.h"

#include "scheduler/dependency.h"
#include "scheduler/storages.h"
#include "scheduler/weights_only.h"

#include <algorithm>

namespace tsc::scheduler {

namespace {

bool is_mutation(const ir::Output &output) {
  return output.kind == graph::OutputKind::buffer_mutation ||
         output.kind == graph::OutputKind::input_mutation ||
         output.kind == graph::OutputKind::parameter_mutation;
}

class ModelMaker {
public:
  explicit ModelMaker(const State &state)
      : state_(state), module_(state.module), groups_(state.schedule.groups),
        group_of_(state.schedule.nodes.size(), ir::kNone), is_aliased_(find_aliased(state.module)),
        number_(state.module.buffers.size(), ir::kNone) {
    for (uint32_t i = 0; i < groups_.size(); ++i)
      for (const NodeId member : groups_[i].members)
        group_of_[member] = i;
  }

  MemoryModel make() {
    model_.makes.resize(groups_.size());
    model_.uses.resize(groups_.size());
    model_.takeovers.resize(groups_.size());
    model_.made_bytes.assign(groups_.size(), 0);
    find_returned();
    once_ = find_weights_only(state_).buffers;
    for (uint32_t i = 0; i < groups_.size(); ++i)
      add_storages_of(i);
    for (uint32_t i = 0; i < groups_.size(); ++i) {
      add_uses(i);
      add_takeovers(i);
    }
    return std::move(model_);
  }

private:
  const State &state_;
  const ir::Module &module_;
  const std::vector<Group> &groups_;
  std::vector<uint32_t> group_of_; // by node
  std::vector<bool> is_aliased_;
  std::vector<uint32_t> number_; // by buffer: of its storage in the model
  std::vector<bool> returned_, stays_, once_;
  MemoryModel model_;

  void find_returned() {
    returned_.assign(module_.buffers.size(), false);
    stays_.assign(module_.buffers.size(), false);
    for (const ir::Output &output : module_.outputs) {
      const auto *view = std::get_if<ir::BufferView>(&output.value);
      if (!view)
        continue;
      std::vector<BufferId> storages;
      add_storages(module_, view->buffer, storages);
      for (const BufferId storage : storages)
        (is_mutation(output) ? stays_ : returned_)[storage] = true;
    }
  }

  bool is_internal(BufferId buffer, uint32_t group) const {
    return groups_[group].node_class == NodeClass::scheduler &&
           stays_inside(state_, is_aliased_, buffer,
                        [&](NodeId node) { return group_of_[node] == group; });
  }

  void add_storages_of(uint32_t group) {
    for (const NodeId member : groups_[group].members) {
      for (const BufferId output : state_.operation(member).outputs) {
        const BufferId storage = module_.storage_of(output);
        const ir::Buffer &buffer = module_.buffer(storage);
        if (buffer.role != ir::Buffer::Role::computed || returned_[storage] || once_[storage] ||
            buffer.layout_kind == ir::LayoutKind::none ||
            buffer.layout_kind == ir::LayoutKind::multi_output || is_internal(output, group))
          continue;
        add_maker(storage, group);
      }
    }
  }
  void add_maker(BufferId storage, uint32_t group) {
    if (number_[storage] == ir::kNone) {
      number_[storage] = static_cast<uint32_t>(model_.storages.size());
      model_.storages.push_back({storage_bytes(module_, storage), {}, {}, stays_[storage]});
    }
    MemoryModel::Storage &made = model_.storages[number_[storage]];
    if (!made.makers.empty() && made.makers.back() == group)
      return;
    made.makers.push_back(group);
    model_.makes[group].push_back(number_[storage]);
    model_.made_bytes[group] += made.bytes;
  }

  void add_uses(uint32_t group) {
    std::vector<BufferId> storages;
    for (const NodeId member : groups_[group].members) {
      const Node &node = state_.schedule.nodes[member];
      for (const std::vector<Dependency> *list : {&node.reads, &node.writes}) {
        for (const Dependency &access : *list)
          if (!is_weak(access))
            add_storages(module_, buffer_of(access), storages);
      }
    }
    std::vector<uint32_t> &uses = model_.uses[group];
    for (const BufferId storage : storages)
      if (number_[storage] != ir::kNone)
        uses.push_back(number_[storage]);
    std::sort(uses.begin(), uses.end());
    uses.erase(std::unique(uses.begin(), uses.end()), uses.end());
    for (const uint32_t storage : uses)
      model_.storages[storage].users.push_back(group);
  }

  /// Pairs of a member's output and an input that it may overwrite; decide-inplace asks more, but
  /// once the order is known.
  void add_takeovers(uint32_t group) {
    if (groups_[group].node_class != NodeClass::scheduler)
      return;
    for (const NodeId member : groups_[group].members) {
      const Node &node = state_.schedule.nodes[member];
      if (node.writes.size() != 1)
        continue;
      const BufferId output = buffer_of(node.writes[0]);
      if (number_[output] == ir::kNone || is_aliased_[output])
        continue;
      for (const Dependency &read : node.reads) {
        const BufferId input = buffer_of(read);
        if (is_weak(read) || number_[input] == ir::kNone || is_aliased_[input] ||
            module_.buffer(input).dtype != module_.buffer(output).dtype ||
            model_.storages[number_[input]].bytes != model_.storages[number_[output]].bytes ||
            makes(group, number_[input]) || !may_overwrite(member, input))
          continue;
        model_.takeovers[group].push_back({number_[output], number_[input]});
      }
    }
  }
  bool makes(uint32_t group, uint32_t storage) const {
    const std::vector<uint32_t> &made = model_.makes[group];
    return std::find(made.begin(), made.end(), storage) != made.end();
  }
  bool may_overwrite(NodeId member, BufferId input) const {
    const std::vector<User> &users = state_.schedule.users[input];
    return std::any_of(users.begin(), users.end(),
                       [&](const User &user) { return user.node == member && user.can_inplace; });
  }
};

} // namespace

MemoryModel make_memory_model(const State &state) { return ModelMaker(state).make(); }

int64_t peak_bytes(const MemoryModel &model, const std::vector<uint32_t> &order) {
  const std::vector<int64_t> bytes = alive_bytes(model, order);
  return bytes.empty() ? 0 : std::max<int64_t>(0, *std::max_element(bytes.begin(), bytes.end()));
}

std::vector<int64_t> alive_bytes(const MemoryModel &model, const std::vector<uint32_t> &order) {
  std::vector<uint32_t> uses_left(model.storages.size());
  for (size_t i = 0; i < uses_left.size(); ++i)
    uses_left[i] = static_cast<uint32_t>(model.storages[i].users.size());
  std::vector<bool> alive(model.storages.size(), false), taken(model.storages.size(), false);
  int64_t bytes = 0;
  std::vector<int64_t> result;
  for (const uint32_t group : order) {
    for (const uint32_t storage : model.makes[group]) {
      if (!alive[storage])
        bytes += model.storages[storage].bytes;
      alive[storage] = true;
    }
    uint32_t placed = ir::kNone; // the last output that took over an input
    for (const MemoryModel::Takeover &pair : model.takeovers[group]) {
      const MemoryModel::Storage &input = model.storages[pair.input];
      if (pair.output != placed && uses_left[pair.input] == 1 && !input.stays &&
          !taken[pair.input]) {
        placed = pair.output;
        taken[pair.input] = true;
        bytes -= input.bytes;
      }
    }
    result.push_back(bytes);
    for (const uint32_t storage : model.uses[group])
      if (--uses_left[storage] == 0 && !model.storages[storage].stays && !taken[storage])
        bytes -= model.storages[storage].bytes;
  }
  return result;
}

} // namespace tsc::scheduler
