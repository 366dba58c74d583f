// The schedule log: byte for byte what the seeds print. docs/schedule-log.md has the grammar.
#include "scheduler/dependency.h"
#include "scheduler/unmerge.h"

#include "support/text.h"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <unordered_set>

namespace tsc::scheduler {

namespace {

/// Python's pprint wraps a list whose one-line form is longer than this.
constexpr size_t kListWidth = 80;

/// pprint indents what it would wrap, and so it does with an only element, but the logs begin a new
/// line only where pprint's text has several.
std::string format_list(const std::vector<std::string> &elements) {
  const std::string line = "[" + support::join(elements, ", ") + "]";
  if (line.size() <= kListWidth)
    return line;
  if (elements.size() == 1)
    return "[   " + elements[0] + "]";
  return "\n    [   " + support::join(elements, ",\n        ") + "]";
}

/// The body as the log shows it: accesses to a slice of a larger buffer count from its start.
ir::LoopBody without_slice_offsets(const ir::Module &module, ir::LoopBody body) {
  const auto offset_of = [&](const ir::BodyOp &op) {
    const bool sliced = op.buffer != ir::kNone && module.buffer(op.buffer).view_of != ir::kNone;
    return sliced ? module.buffer(op.buffer).layout.offset : Expr(0);
  };
  if (std::all_of(body.ops.begin(), body.ops.end(),
                  [&](const ir::BodyOp &op) { return offset_of(op).is_integer(0); }))
    return body;
  std::vector<Expr> indices;
  for (ir::BodyOp &op : body.ops) {
    if (op.index == ir::kNone)
      continue;
    const Expr index = body.indices[op.index] - offset_of(op);
    const auto known = std::find(indices.begin(), indices.end(), index);
    op.index = static_cast<uint32_t>(known - indices.begin());
    if (known == indices.end())
      indices.push_back(index);
  }
  body.indices = std::move(indices);
  return body;
}

/// Indents every line that is not empty.
std::string indent(const std::string &text, const std::string &by) {
  std::string result;
  for (const std::string &line : support::split(text, '\n'))
    result += (line.empty() ? "" : by + line) + "\n";
  result.pop_back();
  return result;
}

std::string format_sizes(std::span<const Expr> sizes, bool as_tuple) {
  std::vector<std::string> texts;
  for (const Expr size : sizes)
    texts.push_back(symbolic::print(size));
  if (!as_tuple)
    return "[" + support::join(texts, ", ") + "]";
  return "(" + support::join(texts, ", ") + (texts.size() == 1 ? ",)" : ")");
}

class LogWriter {
public:
  LogWriter(const ir::Module &module, const Schedule &schedule, const LogOptions &options)
      : module_(module), schedule_(schedule), options_(options) {
    if (options.stage != LogStage::post_fusion)
      for (const Block &block : schedule.blocks)
        blocks_.emplace(block.members[0], &block);
  }

  std::string run() {
    std::string log;
    const std::vector<Group> groups = groups_in_order();
    for (size_t i = 0; i < groups.size(); ++i) {
      const Group &group = groups[i];
      const auto block = blocks_.find(group.members[0]);
      if (block != blocks_.end()) {
        log += block_text(*block->second);
      } else if (group.list != ir::kNone) {
        size_t end = i;
        while (end < groups.size() && groups[end].list == group.list)
          ++end;
        log += list_text(std::span(groups).subspan(i, end - i));
        i = end - 1;
      } else {
        log += group_text(group) + code(std::span(&group, 1));
      }
      log += "\n\n\n";
      for (const NodeId id : group.members)
        log += subgraphs_text(id);
    }
    return log;
  }

private:
  const ir::Module &module_;
  const Schedule &schedule_;
  const LogOptions &options_;
  std::unordered_map<NodeId, const Block *> blocks_; // before fusion, by first member

  std::vector<Group> groups_in_order() const {
    if (options_.stage == LogStage::post_fusion)
      return schedule_.groups;
    std::vector<Group> single;
    std::unordered_set<NodeId> in_block;
    for (const Block &block : schedule_.blocks) {
      in_block.insert(block.members.begin(), block.members.end());
      Group group;
      group.members = block.members;
      group.node_class = NodeClass::external;
      single.push_back(std::move(group));
    }
    for (NodeId id = 0; id < schedule_.nodes.size(); ++id) {
      if (in_block.count(id) > 0)
        continue;
      Group group;
      group.members = {id};
      group.node_class = schedule_.nodes[id].node_class;
      single.push_back(std::move(group));
    }
    std::stable_sort(single.begin(), single.end(), [&](const Group &a, const Group &b) {
      return schedule_.nodes[a.members[0]].min_order < schedule_.nodes[b.members[0]].min_order;
    });
    return single;
  }

  /// The subgraphs of a branch or loop follow it, each under a line of its own, then its end.
  std::string subgraphs_text(NodeId id) const {
    const auto *call = std::get_if<ir::Extern>(&operation(id).kind);
    std::string text;
    for (const uint32_t number : call ? call->subgraphs : std::vector<uint32_t>{}) {
      const ir::Module &subgraph = module_.subgraphs[number];
      std::vector<std::string> results;
      for (const ir::Output &output : subgraph.outputs)
        results.push_back(support::python_repr(
            std::string_view(subgraph.buffer(std::get<ir::BufferView>(output.value).buffer).name)));
      text += subgraph.name + ": Subgraph\n" + subgraph.name + ".caller = " + operation(id).name +
              "\n" + subgraph.name + ".outputs = " + format_list(results) + "\n\n\n";
      text += LogWriter(subgraph, schedule_.subgraphs[number], options_).run();
      text += subgraph.name + ": end of Subgraph\n\n\n";
    }
    return text;
  }

  /// Newer logs print loops as lowered until fusion has passed.
  bool prints_unmerged() const {
    return options_.newer_dialect && options_.stage == LogStage::pre_fusion;
  }

  const ir::Operation &operation(NodeId id) const {
    return module_.operations[schedule_.nodes[id].operation];
  }

  static std::string class_name(NodeClass node_class) {
    switch (node_class) {
    case NodeClass::scheduler:
      return "SchedulerNode";
    case NodeClass::external:
      return "ExternKernelSchedulerNode";
    case NodeClass::nop:
      return "NopKernelSchedulerNode";
    case NodeClass::templated:
      return "FusedSchedulerNode";
    }
    return "";
  }

  std::string ir_class(NodeId id) const {
    const auto *call = std::get_if<ir::Extern>(&operation(id).kind);
    return call ? call->ir_class : "ComputedBuffer";
  }

  std::string output_class(NodeId id, BufferId output) const {
    if (output == operation(id).outputs[0])
      return ir_class(id);
    return module_.buffer(output).mutates == ir::kNone ? "MultiOutput" : "MutationOutput";
  }

  std::string layout_text(BufferId id) const {
    const ir::Buffer &buffer = module_.buffer(id);
    const bool cuda = buffer.device.type == tensor::DeviceType::cuda;
    const std::string full = tensor::to_string(buffer.device);
    const std::string type = full.substr(0, full.find(':'));
    const std::string device_object =
        "device(type='" + type + "'" +
        (cuda ? ", index=" + std::to_string(buffer.device.index) : "") + ")";
    if (buffer.layout_kind == ir::LayoutKind::multi_output)
      return "MultiOutputLayout(device=" + device_object + ")";
    if (buffer.layout_kind == ir::LayoutKind::none) {
      if (options_.newer_dialect)
        return "NoneLayout(device=" + device_object + ", size=[0], stride=[0])";
      return "<torch._inductor.ir.NoneLayout object at 0x0>"; // Python prints an address
    }
    std::string kind = "FixedLayout";
    if (buffer.layout_kind == ir::LayoutKind::flexible)
      kind = "FlexibleLayout";
    else if (buffer.layout_kind == ir::LayoutKind::mutation)
      kind = "MutationLayoutSHOULDREMOVE";
    else if (buffer.layout_kind == ir::LayoutKind::non_owning)
      kind = "NonOwningLayout";
    std::string text = kind + "('" + (options_.newer_dialect ? full : type) + "', " +
                       std::string(tensor::torch_name(buffer.dtype)) +
                       ", size=" + format_sizes(buffer.layout.sizes, false) +
                       ", stride=" + format_sizes(buffer.layout.strides, false);
    if (!buffer.layout.offset.is_integer(0) && buffer.view_of == ir::kNone)
      text += ", offset=" + symbolic::print(buffer.layout.offset);
    return text + ")";
  }

  std::string dependencies_line(const std::string &label,
                                const std::vector<Dependency> &dependencies) const {
    std::vector<std::string> texts;
    texts.reserve(dependencies.size());
    for (const Dependency &dependency : dependencies)
      texts.push_back(to_text(module_, dependency, options_.newer_dialect));
    std::sort(texts.begin(), texts.end());
    return label + " = " + format_list(texts) + "\n";
  }

  std::string names_line(const std::string &label, const std::vector<BufferId> &buffers) const {
    std::vector<std::string> texts;
    texts.reserve(buffers.size());
    for (const BufferId buffer : buffers)
      texts.push_back(support::python_repr(std::string_view(module_.buffer(buffer).name)));
    return label + " = " + format_list(texts) + "\n";
  }

  std::string user_text(const User &user) const {
    std::string node = "OUTPUT";
    if (user.node != ir::kNone)
      node = class_name(schedule_.nodes[user.node].node_class) +
             "(name=" + support::python_repr(std::string_view(operation(user.node).name)) + ")";
    return "NodeUser(node=" + node + ", can_inplace=" + (user.can_inplace ? "True" : "False") +
           ", is_weak=" + (user.is_weak ? "True" : "False") + ")";
  }

  std::string users_text(BufferId buffer) const {
    const std::vector<User> &users = schedule_.users[buffer];
    if (users.empty())
      return "[]\n";
    if (users.size() == 1)
      return "[" + user_text(users[0]) + "]\n";
    std::string text = "[\n";
    for (const User &user : users)
      text += "        " + user_text(user) + ",\n";
    return text + "    ]\n";
  }

  std::string output_text(NodeId id, BufferId output) const {
    const ir::Buffer &buffer = module_.buffer(output);
    const std::string name = "    " + buffer.name;
    std::string text = name + ": " + output_class(id, output) + "\n";
    text += name + ".layout = " + layout_text(output) + "\n";
    if (!buffer.aliases.empty())
      text += names_line(name + ".aliases", buffer.aliases);
    if (buffer.mutates != ir::kNone)
      text += names_line(name + ".mutations", {buffer.mutates});
    return text + name + ".users = " + users_text(output);
  }

  /// True if no other step of the graph computes what is read. In a fused group that includes what
  /// a member wrote elsewhere: met is what is not unmet.
  bool is_met(const Dependency &read, const std::vector<NodeId> &members) const {
    const BufferId buffer = buffer_of(read);
    if (module_.buffer(buffer).role != ir::Buffer::Role::computed)
      return true;
    return std::any_of(members.begin(), members.end(), [&](NodeId id) {
      const std::vector<BufferId> &outputs = operation(id).outputs;
      return std::find(outputs.begin(), outputs.end(), buffer) != outputs.end();
    });
  }

  /// writes, unmet and met dependencies, and the outputs of `members`.
  std::string sections(const std::string &name, const std::vector<Dependency> &writes,
                       const std::vector<Dependency> &reads,
                       const std::vector<NodeId> &members) const {
    std::vector<Dependency> met, unmet;
    for (const Dependency &read : reads)
      (is_met(read, members) ? met : unmet).push_back(read);
    std::string text = dependencies_line(name + ".writes", writes) +
                       dependencies_line(name + ".unmet_dependencies", unmet) +
                       dependencies_line(name + ".met_dependencies", met) + name + ".outputs = [\n";
    for (const NodeId id : members)
      for (const BufferId output : operation(id).outputs)
        text += output_text(id, output);
    return text + "]\n";
  }

  std::string node_text(NodeId id) const {
    Node node = schedule_.nodes[id];
    const std::string &name = operation(id).name;
    if (options_.stage == LogStage::pre_fusion && node.before_fusion) {
      node.body = node.before_fusion->body;
      node.reads = node.before_fusion->reads;
      node.writes = node.before_fusion->writes;
    } else if (options_.stage == LogStage::pre_fusion) {
      node.reads.insert(node.reads.end(), node.pruned.begin(), node.pruned.end());
    }
    if (prints_unmerged()) {
      UnmergedNode unmerged = unmerge(module_, node);
      node.body = std::move(unmerged.body);
      node.reads = std::move(unmerged.reads);
      node.writes = std::move(unmerged.writes);
    }
    std::string text = name + ": " + class_name(node.node_class) + "(" + ir_class(id) + ")\n";
    text += sections(name, node.writes, node.reads, {id});
    const auto *call = std::get_if<ir::Extern>(&operation(id).kind);
    if (call && node.node_class == NodeClass::external)
      return text + name + ".node.kernel = " + (call->kernel.empty() ? "None" : call->kernel);
    if (node.node_class == NodeClass::scheduler)
      return text + loops_text(node);
    text.pop_back();
    return text;
  }

  std::string loops_text(const Node &node) const {
    const ir::Operation &operation = module_.operations[node.operation];
    const std::string &name = operation.name;
    const bool tuples = options_.newer_dialect && !prints_unmerged();
    std::string text = name + ".group.device = " + tensor::to_string(operation.device) + "\n" +
                       name + ".group.iteration = (" + symbolic::print(node.numel) + ", " +
                       symbolic::print(node.reduction_numel) + ")\n" + name + ".sizes = (" +
                       format_sizes(node.body.iteration_sizes(), tuples) + ", " +
                       format_sizes(node.body.reduction_sizes(), tuples) + ")\n";
    for (const std::vector<Dependency> *list : {&node.reads, &node.writes}) {
      for (const Dependency &dependency : *list) {
        const BufferId buffer = buffer_of(dependency);
        if (!is_weak(dependency))
          text += module_.buffer(buffer).name + "_layout = " + layout_text(buffer) + "\n";
      }
    }
    ir::BodyTextOptions body_options;
    body_options.newer_dialect = options_.newer_dialect;
    const ir::LoopBody body = without_slice_offsets(module_, node.body);
    return text + ir::to_text(module_, options_.newer_dialect ? renamed(body) : body,
                              name + "_loop_body", body_options);
  }

  /// Newer logs name loops p0, p1, ...
  static ir::LoopBody renamed(const ir::LoopBody &body) {
    std::vector<Expr> variables;
    for (size_t i = 0; i < body.variables.size(); ++i)
      variables.push_back(symbolic::symbol(symbolic::SymbolSort::log_loop, i));
    return ir::reindex(body, variables, body.sizes, body.iteration_count, variables);
  }

  std::string block_text(const Block &block) const {
    std::vector<std::string> names;
    std::vector<Dependency> reads, writes;
    for (const NodeId id : block.members) {
      const Node &node = schedule_.nodes[id];
      names.push_back(operation(id).name);
      for (const std::vector<Dependency> *list : {&node.reads, &node.pruned})
        reads.insert(reads.end(), list->begin(), list->end());
      writes.insert(writes.end(), node.writes.begin(), node.writes.end());
    }
    for (const BufferId buffer : block.awaited)
      reads.push_back(WeakDep{buffer, operation(block.members[0]).outputs[0]});
    remove_duplicates(reads);
    remove_written(reads, writes);
    const std::string name = support::join(names, "_");
    std::string text =
        name + ": GroupedSchedulerNode(NoneType)\n" + sections(name, writes, reads, block.members);
    text.pop_back();
    return text;
  }

  /// What members write for each other is no read of the group.
  static void remove_written(std::vector<Dependency> &reads,
                             const std::vector<Dependency> &writes) {
    const std::unordered_set<Dependency, DependencyHash> written(writes.begin(), writes.end());
    reads.erase(std::remove_if(reads.begin(), reads.end(),
                               [&](const Dependency &read) { return written.count(read) > 0; }),
                reads.end());
  }

  /// Without kernels.
  std::string group_text(const Group &group) const {
    return group.members.size() > 1 ? fused_text(group) : node_text(group.members[0]);
  }

  std::string fused_text(const Group &group) const {
    std::vector<std::string> classes, blocks;
    for (const NodeId id : group.members) {
      classes.push_back(class_name(schedule_.nodes[id].node_class));
      blocks.push_back(node_text(id));
    }
    return joined_text("FusedSchedulerNode", group.members, classes, blocks);
  }

  /// Combo kernels are foreach nodes there.
  std::string list_text(std::span<const Group> groups) const {
    std::vector<std::string> classes, blocks;
    std::vector<NodeId> members;
    for (const Group &group : groups) {
      classes.push_back(group.members.size() > 1
                            ? "FusedSchedulerNode"
                            : class_name(schedule_.nodes[group.members[0]].node_class));
      blocks.push_back(group_text(group));
      members.insert(members.end(), group.members.begin(), group.members.end());
    }
    return joined_text("ForeachKernelSchedulerNode", members, classes, blocks) + code(groups);
  }

  /// Sections of `members` together, then the text of each part.
  std::string joined_text(const std::string &class_text, const std::vector<NodeId> &members,
                          const std::vector<std::string> &part_classes,
                          const std::vector<std::string> &parts) const {
    std::vector<Dependency> reads, writes;
    for (const NodeId id : members) {
      const Node &node = schedule_.nodes[id];
      const UnmergedNode as_printed = options_.newer_dialect
                                          ? unmerge(module_, node)
                                          : UnmergedNode{{}, node.reads, node.writes};
      reads.insert(reads.end(), as_printed.reads.begin(), as_printed.reads.end());
      writes.insert(writes.end(), as_printed.writes.begin(), as_printed.writes.end());
    }
    remove_duplicates(reads);
    remove_duplicates(writes);
    remove_written(reads, writes);
    const std::string name = name_of(members);
    std::string text = name + ": " + class_text + "(" + support::join(part_classes, ",") + ")\n" +
                       sections(name, writes, reads, members);
    for (size_t i = 0; i < parts.size(); ++i)
      text += name + ".snodes[" + std::to_string(i) + "] =\n" + parts[i] + "\n";
    text.pop_back();
    return text;
  }
  std::string name_of(const std::vector<NodeId> &members) const {
    std::string name;
    for (const NodeId id : members)
      name += (name.empty() ? "" : "_") + operation(id).name;
    return name;
  }

  /// The kernels of one launch: one, unless the launch had to be cut.
  std::string code(std::span<const Group> groups) const {
    const bool is_kernel = groups[0].node_class == NodeClass::scheduler ||
                           groups[0].node_class == NodeClass::templated;
    if (!is_kernel || !options_.kernel_text)
      return "";
    std::vector<NodeId> members;
    std::vector<std::string> kernels;
    for (const Group &group : groups) {
      members.insert(members.end(), group.members.begin(), group.members.end());
      std::string kernel = options_.kernel_text(schedule_, group);
      while (!kernel.empty() && kernel.back() == '\n')
        kernel.pop_back();
      if (std::find(kernels.begin(), kernels.end(), kernel) == kernels.end())
        kernels.push_back(kernel);
    }
    return "\n" + name_of(members) + " CUDA code:\n" +
           indent(support::join(kernels, "\n\n"), "    ");
  }
};

} // namespace

std::string to_log(const ir::Module &module, const Schedule &schedule, const LogOptions &options) {
  return LogWriter(module, schedule, options).run();
}

} // namespace tsc::scheduler
