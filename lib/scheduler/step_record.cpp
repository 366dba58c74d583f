#include "scheduler/step_record.h"

#include "scheduler/dependency.h"
#include "support/text.h"

#include <algorithm>
#include <map>

namespace tsc::scheduler {

namespace {

std::string sizes_text(std::span<const Expr> sizes) {
  std::vector<std::string> texts;
  for (const Expr size : sizes)
    texts.push_back(symbolic::print(size));
  return "[" + support::join(texts, ", ") + "]";
}

std::string_view class_text(NodeClass node_class) {
  switch (node_class) {
  case NodeClass::scheduler:
    return "loops";
  case NodeClass::external:
    return "library call";
  case NodeClass::nop:
    return "only allocates";
  case NodeClass::templated:
    return "a template's root and loops";
  }
  return "";
}

class ChangeFinder {
public:
  ChangeFinder(const State &state, const StateCopy &before)
      : module_(state.module), before_(before), schedule_(state.schedule), state_(state) {
    old_node_.assign(module_.operations.size(), ir::kNone);
    for (NodeId id = 0; id < before.schedule.nodes.size(); ++id)
      old_node_[before.schedule.nodes[id].operation] = id;
  }

  std::vector<StepChange> run() {
    compare_nodes();
    compare_versions();
    compare_users();
    compare_order();
    list_decisions();
    compare_groups();
    compare_memory_order();
    list_blocks();
    list_launches();
    return std::move(changes_);
  }

private:
  const ir::Module &module_;
  const StateCopy &before_;
  const Schedule &schedule_;
  const State &state_;
  std::vector<NodeId> old_node_; // by operation
  std::vector<StepChange> changes_;

  void add(std::string_view kind, std::string subject, std::string text) {
    changes_.push_back({std::string(kind), std::move(subject), std::move(text)});
  }

  const std::string &name_of(OperationId id) const { return module_.operations[id].name; }
  const std::string &buffer_name(BufferId id) const { return module_.buffer(id).name; }
  std::string group_name(const Schedule &schedule, const Group &group) const {
    std::vector<std::string> names;
    for (const NodeId member : group.members)
      names.push_back(name_of(schedule.nodes[member].operation));
    return support::join(names, "_");
  }

  // ---- nodes

  void compare_nodes() {
    std::vector<bool> kept(module_.operations.size(), false);
    for (const Node &node : schedule_.nodes) {
      kept[node.operation] = true;
      const NodeId old = old_node_[node.operation];
      if (old == ir::kNone)
        add("node", name_of(node.operation), "made: " + node_text(node));
      const Node none;
      const Node &was = old == ir::kNone ? none : before_.schedule.nodes[old];
      compare_accesses(node.operation, "reads", was.reads, node.reads);
      compare_accesses(node.operation, "writes", was.writes, node.writes);
      compare_place(node, was);
    }
    for (const Node &node : before_.schedule.nodes)
      if (!kept[node.operation])
        add("node", name_of(node.operation), "removed: nothing needs " + outputs_text(node));
  }

  std::string node_text(const Node &node) const {
    std::string text(class_text(node.node_class));
    if (const auto *call = std::get_if<ir::Extern>(&module_.operations[node.operation].kind))
      return text + (call->kernel.empty() ? "" : " " + call->kernel);
    if (node.node_class == NodeClass::nop)
      return text;
    return text + " " + sizes_text(node.body.iteration_sizes()) + " " +
           sizes_text(node.body.reduction_sizes()) + ", " + symbolic::print(node.numel) + " x " +
           symbolic::print(node.reduction_numel);
  }

  std::string outputs_text(const Node &node) const {
    std::vector<std::string> names;
    for (const BufferId output : module_.operations[node.operation].outputs)
      names.push_back(buffer_name(output));
    return support::join(names, ", ");
  }

  void compare_accesses(OperationId id, const std::string &list,
                        const std::vector<Dependency> &old_ones,
                        const std::vector<Dependency> &new_ones) {
    const auto missing_in = [](const std::vector<Dependency> &all, const Dependency &one) {
      return std::find(all.begin(), all.end(), one) == all.end();
    };
    for (const Dependency &one : old_ones)
      if (missing_in(new_ones, one))
        add("access", name_of(id), list + " - " + to_text(module_, one, false));
    for (const Dependency &one : new_ones)
      if (missing_in(old_ones, one))
        add("access", name_of(id), list + " + " + to_text(module_, one, false));
  }

  /// Places are given by number-nodes, when the first group is made.
  void compare_place(const Node &node, const Node &was) {
    if (schedule_.groups.empty() ||
        (!before_.schedule.groups.empty() && node.min_order == was.min_order &&
         node.ancestors_hint == was.ancestors_hint))
      return;
    std::vector<std::string> after;
    for (const NodeId id : node.ancestors_hint)
      after.push_back(name_of(schedule_.nodes[id].operation));
    add("place", name_of(node.operation),
        std::to_string(node.min_order) +
            (after.empty() ? ", after nothing" : ", after " + support::join(after, " ")));
  }

  // ---- buffers

  void compare_versions() {
    for (BufferId id = 0; id < state_.renamed.size(); ++id)
      if (state_.renamed[id] != ir::kNone &&
          (id >= before_.renamed.size() || before_.renamed[id] != state_.renamed[id]))
        add("version", buffer_name(id), "is read as " + buffer_name(state_.renamed[id]));
  }

  std::vector<std::string> user_texts(const Schedule &schedule, BufferId buffer) const {
    std::vector<std::string> texts;
    if (buffer >= schedule.users.size())
      return texts;
    for (const User &user : schedule.users[buffer])
      texts.push_back(
          (user.node == ir::kNone ? "OUTPUT" : name_of(schedule.nodes[user.node].operation)) +
          std::string(user.can_inplace ? ", in place" : "") + (user.is_weak ? ", order only" : ""));
    return texts;
  }

  void compare_users() {
    for (BufferId id = 0; id < schedule_.users.size(); ++id) {
      const std::vector<std::string> old_ones = user_texts(before_.schedule, id);
      const std::vector<std::string> new_ones = user_texts(schedule_, id);
      const auto report = [&](const auto &some, const auto &others, const std::string &sign) {
        for (const std::string &text : some)
          if (std::find(others.begin(), others.end(), text) == others.end())
            add("user", buffer_name(id), sign + text);
      };
      report(old_ones, new_ones, "- ");
      report(new_ones, old_ones, "+ ");
    }
  }

  // ---- order

  /// Of the nodes that stay, those whose rank among them changed. Before there is an order, nodes
  /// stand as lowering made them.
  void compare_order() {
    std::vector<OperationId> old_order, new_order;
    std::vector<bool> stays(module_.operations.size(), false);
    for (const NodeId id : state_.order) {
      new_order.push_back(schedule_.nodes[id].operation);
      stays[new_order.back()] = true;
    }
    if (new_order.empty())
      return;
    for (const NodeId id : before_.order)
      old_order.push_back(before_.schedule.nodes[id].operation);
    if (old_order.empty()) {
      old_order = new_order;
      std::sort(old_order.begin(), old_order.end());
    }
    old_order.erase(std::remove_if(old_order.begin(), old_order.end(),
                                   [&](OperationId id) { return !stays[id]; }),
                    old_order.end());
    std::vector<size_t> old_rank(module_.operations.size(), 0);
    for (size_t i = 0; i < old_order.size(); ++i)
      old_rank[old_order[i]] = i;
    for (size_t i = 0; i < new_order.size(); ++i) {
      if (old_rank[new_order[i]] != i)
        add("order", name_of(new_order[i]),
            "moved from " + std::to_string(old_rank[new_order[i]]) + " to " + std::to_string(i));
    }
  }

  void list_blocks() {
    for (size_t i = before_.schedule.blocks.size(); i < schedule_.blocks.size(); ++i) {
      const Block &block = schedule_.blocks[i];
      std::vector<std::string> names, awaited;
      for (const NodeId member : block.members)
        names.push_back(name_of(schedule_.nodes[member].operation));
      for (const BufferId buffer : block.awaited)
        awaited.push_back(buffer_name(buffer));
      add("block", support::join(names, "_"),
          awaited.empty() ? "made" : "made, after " + support::join(awaited, ", "));
    }
  }

  /// Lists of groups that one launch runs.
  void list_launches() {
    for (size_t i = before_.schedule.lists.size(); i < schedule_.lists.size(); ++i) {
      std::vector<std::string> names;
      for (const Group &group : schedule_.groups)
        if (group.list == i)
          names.push_back(group_name(schedule_, group));
      const GroupList &list = schedule_.lists[i];
      add("list", support::join(names, " | "),
          list.kind == GroupList::Kind::combo ? "made: one launch" : "made of " + list.made_by);
    }
  }

  void compare_memory_order() {
    const MemoryOrder &order = schedule_.memory_order;
    if (!before_.schedule.memory_order.heuristic.empty() || order.heuristic.empty())
      return;
    const bool lower = order.bytes < order.bytes_before;
    add("peak memory", "all groups",
        std::to_string(order.bytes_before) + " bytes" +
            (lower ? ", " + std::to_string(order.bytes) + " by " + order.heuristic
                   : ", no order is lower"));
  }

  // ---- groups

  void list_decisions() {
    for (size_t i = before_.schedule.decisions.size(); i < schedule_.decisions.size(); ++i) {
      const FusionDecision &decision = schedule_.decisions[i];
      const bool fused = decision.refusal == Refusal::none;
      std::string text = name_of(schedule_.nodes[decision.second].operation);
      if (decision.round > 0)
        text += " in round " + std::to_string(decision.round) + ", " +
                std::to_string(decision.shared_bytes) + " bytes shared";
      if (!fused)
        text += ": " + std::string(to_string(decision.refusal)) +
                (decision.detail.empty() ? "" : " (" + decision.detail + ")");
      else if (!decision.turned.empty())
        text += ", " + decision.turned;
      add(fused ? "fusion" : "refusal", name_of(schedule_.nodes[decision.first].operation),
          (fused ? "with " : "not with ") + text);
    }
  }

  void compare_groups() {
    std::map<std::string, const Group *> old_groups;
    std::vector<std::string> old_names, new_names;
    for (const Group &group : before_.schedule.groups) {
      old_names.push_back(group_name(before_.schedule, group));
      old_groups.emplace(old_names.back(), &group);
    }
    for (const Group &group : schedule_.groups) {
      new_names.push_back(group_name(schedule_, group));
      const auto old = old_groups.find(new_names.back());
      if (old == old_groups.end())
        add("group", new_names.back(), group_text(group));
      static const Group none;
      compare_group(new_names.back(), old == old_groups.end() ? none : *old->second, group);
    }
    if (!old_names.empty() && old_names != new_names)
      compare_group_order(old_names, new_names);
  }

  std::string group_text(const Group &group) const {
    std::string text = "made: " + std::string(class_text(group.node_class));
    if (group.node_class == NodeClass::scheduler)
      text += ", " + symbolic::print(group.numel) + " x " + symbolic::print(group.reduction_numel);
    return text;
  }

  void compare_group(const std::string &name, const Group &was, const Group &group) {
    if (was.bodies.empty() && !group.bodies.empty())
      add("bodies", name,
          "over " + sizes_text(group.iteration_sizes) + " " + sizes_text(group.reduction_sizes));
    const auto compare = [&](std::string_view kind, const std::vector<BufferId> &old_ones,
                             const std::vector<BufferId> &new_ones) {
      for (const BufferId id : old_ones) {
        if (std::find(new_ones.begin(), new_ones.end(), id) == new_ones.end())
          add(kind, name, "- " + buffer_name(id));
      }
      for (const BufferId id : new_ones) {
        if (std::find(old_ones.begin(), old_ones.end(), id) == old_ones.end())
          add(kind, name, "+ " + buffer_name(id));
      }
    };
    compare("last use", was.last_uses, group.last_uses);
    compare("internal buffer", was.internal_buffers, group.internal_buffers);
    for (const auto &[output, input] : group.inplace) {
      if (std::find(was.inplace.begin(), was.inplace.end(), std::pair{output, input}) ==
          was.inplace.end())
        add("in place", name,
            buffer_name(output) + " takes over the memory of " + buffer_name(input));
    }
  }

  /// Of the groups that stay as they are, those whose rank among them changed.
  void compare_group_order(const std::vector<std::string> &old_names,
                           const std::vector<std::string> &new_names) {
    std::map<std::string, size_t> old_rank;
    const std::vector<std::string> sorted = [&] {
      std::vector<std::string> copy = new_names;
      std::sort(copy.begin(), copy.end());
      return copy;
    }();
    for (const std::string &name : old_names)
      if (std::binary_search(sorted.begin(), sorted.end(), name))
        old_rank.emplace(name, old_rank.size());
    size_t rank = 0;
    for (const std::string &name : new_names) {
      const auto old = old_rank.find(name);
      if (old == old_rank.end())
        continue;
      if (old->second != rank)
        add("group order", name,
            "moved from " + std::to_string(old->second) + " to " + std::to_string(rank));
      ++rank;
    }
  }
};

} // namespace

StateCopy copy_of(const State &state) { return {state.schedule, state.renamed, state.order}; }

std::vector<StepChange> find_changes(const State &state, const StateCopy &before) {
  return ChangeFinder(state, before).run();
}

} // namespace tsc::scheduler
