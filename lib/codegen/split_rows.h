// Few long rows: kernels that reduce parts of each row on the whole GPU, and others that merge
// them.
#pragma once

#include "codegen/kernel_graph.h"
#include "target/target.h"

namespace tsc::codegen {

/// Kernels in the place of a group's one, in order, where its rows are too few for the GPU, or are
/// scanned and too long for a block. Rows that are scanned and nothing else are one kernel, whose
/// blocks look back (KernelGraph::look_back). Otherwise, for each phase of the group: one reduces
/// parts of rows (of what is scanned, their totals), one merges them (scans the totals) and stores
/// what each row gives; a last one works on the elements, if any are stored. Appends the buffers
/// between them to `module`. Nothing: the group runs as one kernel. Deterministic: which elements a
/// part holds depends on sizes and target alone.
std::optional<std::vector<KernelGraph>>
split_rows(ir::Module &module, const scheduler::Group &group, const target::Target &target);
/// Which rows are reduced in parts: those that are too few for the GPU, or however many there are.
enum class Rows : uint8_t { few, any };
/// The same of a graph that is a part of a group's work.
std::optional<std::vector<KernelGraph>> split_rows(ir::Module &module, const KernelGraph &graph,
                                                   const target::Target &target,
                                                   Rows rows = Rows::few);

/// A cheap test that fails for most groups that split_rows leaves alone.
bool may_split_rows(const scheduler::Group &group, const target::Target &target);

} // namespace tsc::codegen
