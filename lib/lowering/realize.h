// From lazy values to buffers: when a value is realized, and how its memory is laid out.
#pragma once

#include "lowering/context.h"

namespace tsc::lowering {

/// Registers a buffer (bufN) for `sizes`, strides still open.
BufferId register_buffer(Context &context, std::vector<Expr> sizes, DType dtype,
                         tensor::Device device);
/// Registers an operation (opN) that produces `outputs`.
ir::OperationId register_operation(Context &context, decltype(ir::Operation::kind) kind,
                                   std::vector<BufferId> outputs);

/// Registers an operation that writes into the memory of `target`; the result names that memory
/// afterwards.
BufferId mutate(Context &context, BufferId target, decltype(ir::Operation::kind) kind);

/// The buffer that holds `storage`, made on first need.
BufferId realize(Context &context, Storage &storage);
/// Realizes a value that several reads would compute again and again, unless it is as cheap as one
/// load: what readers of overlapping elements ask for. `again`: most elements are read several
/// times, so that a function is no cheap operation.
void realize_hint(Context &context, Storage &storage, bool again = false);
/// Realizes what takes functions of inputs alone and is much smaller than the result of `sizes`
/// that reads it again and again.
void realize_for_broadcast(Context &context, Storage &storage, std::span<const Expr> sizes);
/// The policy of seed 004's StorageBox for the value of the current node: realized if it is used
/// often and costs much, if it has accumulated many reads, or if it has grown large.
void realize_by_policy(Context &context, TensorValue &value);

/// Fixes the strides of a buffer: dimensions nested as the reads of its producer suggest.
void decide_layout(Context &context, BufferId buffer);
/// Fixes them as given, if they are still open.
void decide_layout_as(Context &context, BufferId buffer, const std::vector<Expr> &strides);

/// How a realized tensor lies in its buffer; nothing if no strides can say it. Realizes the storage
/// and decides its layout.
std::optional<ir::BufferView> strided_view(Context &context, const TensorValue &value);
/// The same, copying into a buffer of its own where there is no such view.
ir::BufferView realized_view(Context &context, TensorValue &value);
/// `value` (copied if need be) in memory with exactly `strides`, sizes of 1 excepted.
ir::BufferView require_strides(Context &context, TensorValue &value,
                               const std::vector<Expr> &strides);
/// A new realized tensor with the elements of `value`; strides still open.
TensorValue copy(Context &context, const TensorValue &value);

/// True if `strides` lay `sizes` out densely, without gaps or overlaps.
bool is_dense(std::span<const Expr> sizes, std::span<const Expr> strides);

} // namespace tsc::lowering
