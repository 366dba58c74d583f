// The steps of scheduling, in the order in which the pipeline runs them. Each takes the state that
// the one before left; docs/scheduler.md explains them in depth.
#pragma once

#include "scheduler/state.h"

namespace tsc::scheduler {

/// One node an operation, with its body, its loop counts and what it reads and writes.
void create_nodes(State &state);
/// Users of every buffer, and the order that mutations impose. Afterwards reads name the buffer
/// version that holds the value they want.
void compute_dependencies(State &state);
/// `state.order`: producers before consumers, else in operation order.
void sort_nodes(State &state);
/// Drops nodes whose results nobody needs, and numbers the others anew.
void remove_dead_nodes(State &state);
/// Position of each node in the order, and its direct predecessors. Leaves one group a node.
void number_nodes(State &state);
/// Finds blocks: a collective and the copies around it. Without collectives this and the other
/// steps about them do nothing.
void group_collectives(State &state);
/// One order of all collectives: `state.awaited`, and `state.order` with blocks whole.
void order_collectives(State &state);
/// Makes lists of the elements of list operators, where none waits for another: one group each
/// while nodes are fused. `state.order` with lists whole.
void create_lists(State &state);
/// Merges groups that may and should run as one kernel.
void fuse_nodes(State &state);
/// Another order of the groups, if that lowers the peak of memory alive at once.
void reorder_for_peak_memory(State &state);
/// Moves waits, and what depends on them, as far back as dependencies allow.
void sink_waits(State &state);
/// Moves collectives, and what they depend on, as far forward as dependencies allow.
void raise_collectives(State &state);
/// Moves computation between a collective and what waits for it, until their estimated times are
/// equal.
void reorder_for_overlap(State &state);
/// Makes every node of a block a group of its own.
void split_blocks(State &state);
/// Gives groups that do not wait for each other, and that nothing fused, a list: one launch.
void combine_kernels(State &state);
/// Drops order-only dependencies that another dependency on the same group implies.
void prune_weak_dependencies(State &state);
/// Bodies of all members over the loops of their group.
void express_bodies(State &state);
/// Joins a product with the groups that compute its operand and read its result, where the kernel
/// template takes them and is estimated to be faster than the library and kernels apart.
void fuse_templates(State &state);
/// Of it: groups that compute keys and values join the attention of few queries that reads them.
void fuse_attention(State &state);
/// Which buffers nothing reads after a group.
void find_last_uses(State &state);
/// Which buffers need not be stored.
void find_internal_buffers(State &state);
/// Which outputs take over the memory of an input.
void decide_inplace(State &state);

/// A group of one node, as `number_nodes` leaves it.
Group group_of_one(const Schedule &schedule, NodeId id);

} // namespace tsc::scheduler
