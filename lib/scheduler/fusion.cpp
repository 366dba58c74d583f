#include "scheduler/fusion.h"

#include "scheduler/storages.h"

#include <algorithm>
#include <iterator>

namespace tsc::scheduler {

namespace {

/// Ascending lists; `into` may be long where `from` is short.
void unite(std::vector<uint32_t> &into, const std::vector<uint32_t> &from) {
  constexpr size_t kFew = 8;
  if (from.size() <= kFew) {
    for (const uint32_t one : from) {
      const auto place = std::lower_bound(into.begin(), into.end(), one);
      if (place == into.end() || *place != one)
        into.insert(place, one);
    }
    return;
  }
  std::vector<uint32_t> all;
  all.reserve(into.size() + from.size());
  std::set_union(into.begin(), into.end(), from.begin(), from.end(), std::back_inserter(all));
  into = std::move(all);
}

/// What `a` uses with what `b` uses, and where the two stand.
void join_uses(WorkGroup &a, const WorkGroup &b) {
  a.reduces = a.reduces || b.reduces;
  unite(a.dependencies, b.dependencies);
  unite(a.buffers, b.buffers);
  a.min_order = std::min(a.min_order, b.min_order);
  a.max_order = std::max(a.max_order, b.max_order);
}

/// One kernel of two, over the loops of `nest`.
void join(WorkGroup &a, const WorkGroup &b, LoopNest nest) {
  const WorkGroup &whole = a.reduces ? a : b;
  const Expr numel = whole.numel, reduction_numel = whole.reduction_numel;
  a.numel = numel;
  a.reduction_numel = reduction_numel;
  a.nest = std::move(nest);
  a.members.insert(a.members.end(), b.members.begin(), b.members.end());
  join_uses(a, b);
}

WorkGroup make_group(const State &state, DependencyTable &table, NodeId id) {
  const Node &node = state.schedule.nodes[id];
  WorkGroup group;
  group.node_class = node.node_class;
  group.device = state.operation(id).device;
  group.numel = node.numel;
  group.reduction_numel = node.reduction_numel;
  group.min_order = node.min_order;
  group.max_order = node.max_order;
  if (node.node_class == NodeClass::scheduler) {
    group.reduces = node.body.is_reduction();
    const auto iteration = node.body.iteration_sizes(), reduction = node.body.reduction_sizes();
    group.nest.iteration.assign(iteration.begin(), iteration.end());
    group.nest.reduction.assign(reduction.begin(), reduction.end());
  }
  for (const std::vector<Dependency> *list : {&node.reads, &node.writes}) {
    for (const Dependency &dependency : *list) {
      group.dependencies.push_back(table.number_of(dependency));
      group.buffers.push_back(buffer_of(dependency));
    }
  }
  std::sort(group.dependencies.begin(), group.dependencies.end());
  group.dependencies.erase(std::unique(group.dependencies.begin(), group.dependencies.end()),
                           group.dependencies.end());
  std::sort(group.buffers.begin(), group.buffers.end());
  group.buffers.erase(std::unique(group.buffers.begin(), group.buffers.end()), group.buffers.end());
  return group;
}

/// `list`'s nodes as one group of one element each.
void make_list(Fusion &fusion, const std::vector<NodeId> &nodes, uint32_t list) {
  WorkGroup whole = fusion.groups[nodes[0]];
  whole.list = list;
  for (const NodeId node : nodes) {
    WorkGroup element = std::move(fusion.groups[node]);
    element.members = {node};
    fusion.groups[node].alive = false;
    fusion.element_of[node] = static_cast<uint32_t>(whole.elements.size());
    join_uses(whole, element);
    whole.elements.push_back(std::move(element));
  }
  fusion.groups[nodes[0]] = std::move(whole);
}

} // namespace

Fusion::Fusion(State &s)
    : state(s), table(s.module), graph(s), element_of(s.schedule.nodes.size(), 0),
      is_aliased(find_aliased(s.module)) {
  for (NodeId id = 0; id < s.schedule.nodes.size(); ++id)
    groups.push_back(make_group(s, table, id));
  for (uint32_t list = 0; list < s.lists.size(); ++list)
    make_list(*this, s.lists[list], list);
  for (const std::vector<NodeId> &block : s.blocks) { // a block joins no other group
    WorkGroup &whole = groups[block[0]];
    whole.node_class = NodeClass::external;
    for (const NodeId member : block) {
      whole.min_order = std::min(whole.min_order, groups[member].min_order);
      whole.max_order = std::max(whole.max_order, groups[member].max_order);
      groups[member].alive = member == block[0];
    }
  }
}

bool Fusion::stays_inside(BufferId buffer, const std::vector<NodeId> &members) const {
  return scheduler::stays_inside(state, is_aliased, buffer, [&](NodeId node) {
    return std::binary_search(members.begin(), members.end(), node);
  });
}

int64_t Fusion::shared_bytes(const WorkGroup &a, const WorkGroup &b) const {
  const std::vector<uint32_t> &in_a = a.dependencies, &in_b = b.dependencies;
  int64_t bytes = 0;
  for (size_t i = 0, j = 0; i < in_a.size() && j < in_b.size();) {
    if (in_a[i] < in_b[j]) {
      ++i;
    } else if (in_b[j] < in_a[i]) {
      ++j;
    } else {
      bytes += table.bytes(in_a[i]);
      ++i;
      ++j;
    }
  }
  return bytes;
}

size_t Fusion::distance(const WorkGroup &a, const WorkGroup &b) {
  const auto difference = [](size_t x, size_t y) { return x < y ? y - x : x - y; };
  return std::max(difference(a.min_order, b.max_order), difference(b.min_order, a.max_order));
}

bool Fusion::is_direct(Part earlier, Part later) const {
  const std::vector<NodeId> &waiting = members(later);
  return std::any_of(waiting.begin(), waiting.end(), [&](NodeId id) {
    const std::vector<NodeId> &awaited = graph.predecessors(id);
    return std::any_of(awaited.begin(), awaited.end(),
                       [&](NodeId producer) { return holds(earlier, producer); });
  });
}

void merge_work(Fusion &fusion, GroupId earlier, GroupId later, Verdict verdict) {
  WorkGroup &a = fusion.groups[earlier], &b = fusion.groups[later];
  const bool a_was_list = a.is_list();
  if (!a.is_list() && !b.is_list()) {
    join(a, b, std::move(verdict.nests[0]));
    return;
  }
  const auto as_element = [&](GroupId id) {
    WorkGroup element = fusion.groups[id];
    element.members = fusion.graph.members(id);
    return element;
  };
  if (!a.is_list()) { // takes its place in the list
    const uint32_t place = verdict.pairs[0].later.element;
    WorkGroup element = as_element(earlier);
    join(element, b.elements[place], std::move(verdict.nests[0]));
    a.list = b.list;
    a.elements = std::move(b.elements);
    a.elements[place] = std::move(element);
  } else if (!b.is_list()) {
    join(a.elements[verdict.pairs[0].earlier.element], as_element(later),
         std::move(verdict.nests[0]));
  } else {
    for (size_t i = 0; i < a.elements.size(); ++i)
      join(a.elements[i], b.elements[i], std::move(verdict.nests[i]));
    std::string &made_by = fusion.state.schedule.lists[a.list].made_by;
    made_by += ", " + fusion.state.schedule.lists[b.list].made_by;
  }
  join_uses(a, b);
  for (const PartPair &pair : verdict.pairs) { // members that were no elements of this list
    const uint32_t element = a_was_list ? pair.earlier.element : pair.later.element;
    for (const NodeId member : a.elements[element].members)
      fusion.element_of[member] = element;
  }
}

} // namespace tsc::scheduler
