#include "lowering/realize.h"

#include "graph/data_symbols.h"
#include "ir/body.h"
#include "lowering/build.h"
#include "support/diagnostic.h"
#include "symbolic/loops.h"

#include <algorithm>
#include <array>
#include <set>

namespace tsc::lowering {

namespace {

/// Beyond this many operations a value is realized however it is used (TorchInductor's bound, which
/// keeps bodies readable).
constexpr size_t kLargestInlined = 100;
constexpr size_t kLargestLookups = 200; // of a sum of lookups (Policy::sums_take_lookups)

/// Bytes of the memory behind `buffer`, if an all-gather fills it and its size is known; else 0.
int64_t gathered_bytes(const Context &context, BufferId buffer) {
  const ir::Buffer &memory = context.module.buffer(context.module.storage_of(buffer));
  const ir::Operation *producer =
      memory.operation == kNone ? nullptr : &context.module.operations[memory.operation];
  const auto *call = producer ? std::get_if<ir::Extern>(&producer->kind) : nullptr;
  if (call == nullptr || call->library != ir::Library::all_gather)
    return 0;
  return symbolic::numel(memory.layout.sizes).as_integer().value_or(0) *
         static_cast<int64_t>(tensor::size_in_bytes(memory.dtype));
}

const LoopCost &cost_of(Context &context, Storage &storage) {
  if (!storage.cost) {
    const ir::LoopBody body = ir::trace_value(context.module, storage.loop);
    LoopCost cost;
    for (const ir::BodyOp &op : body.ops) {
      ++cost.operations;
      if (op.op == Op::load) {
        ++cost.reads;
        cost.nontrivial_reads += body.indices[op.index].is_integer() ? 0 : 1;
        cost.gathered_bytes = std::max(cost.gathered_bytes, gathered_bytes(context, op.buffer));
      }
      cost.draws += ir::is_random(op.op) ? 1 : 0;
      cost.functions += ir::op_cost(op.op) == ir::OpCost::instruction ? 0 : 1;
      cost.lookups += op.op == Op::set_indirect ? 1 : 0;
    }
    storage.cost = cost;
  }
  return *storage.cost;
}

bool same_strides(std::span<const Expr> sizes, std::span<const Expr> a, std::span<const Expr> b) {
  for (size_t k = 0; k < sizes.size(); ++k)
    if (!sizes[k].is_integer(1) && a[k] != b[k])
      return false;
  return true;
}

bool is_empty(std::span<const Expr> sizes) {
  return std::any_of(sizes.begin(), sizes.end(), [](Expr size) { return size.is_integer(0); });
}

bool reads_inputs_alone(const Context &context, const Storage &storage) {
  const ir::LoopBody body = ir::trace_value(context.module, storage.loop);
  return std::all_of(body.ops.begin(), body.ops.end(), [&](const ir::BodyOp &op) {
    return op.op != Op::load || context.module.buffer(op.buffer).operation == ir::kNone;
  });
}

} // namespace

BufferId register_buffer(Context &context, std::vector<Expr> sizes, DType dtype,
                         tensor::Device device) {
  ir::Buffer buffer;
  buffer.name = "buf" + std::to_string(context.buffer_count++);
  buffer.dtype = dtype;
  buffer.device = device;
  buffer.layout = tensor::contiguous_layout(std::move(sizes));
  buffer.layout_kind = ir::LayoutKind::flexible;
  context.module.buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(context.module.buffers.size() - 1);
}

ir::OperationId register_operation(Context &context, decltype(ir::Operation::kind) kind,
                                   std::vector<BufferId> outputs) {
  const auto id = static_cast<ir::OperationId>(context.module.operations.size());
  ir::Operation operation;
  operation.name = "op" + std::to_string(id);
  operation.kind = std::move(kind);
  operation.device = context.device;
  operation.origins = {context.current};
  for (BufferId output : outputs)
    context.module.buffers[output].operation = id;
  operation.outputs = std::move(outputs);
  context.module.operations.push_back(std::move(operation));
  return id;
}

BufferId mutate(Context &context, BufferId target, decltype(ir::Operation::kind) kind) {
  decide_layout(context, target);
  const ir::Buffer before = context.module.buffer(target);
  const BufferId after = register_buffer(context, before.layout.sizes, before.dtype, before.device);
  ir::Buffer &buffer = context.module.buffers[after];
  buffer.layout = before.layout;
  buffer.layout_kind = ir::LayoutKind::mutation;
  buffer.mutates = target;
  register_operation(context, std::move(kind), {after});
  return after;
}

BufferId realize(Context &context, Storage &storage) {
  if (storage.realized())
    return storage.buffer;
  const bool reads_nothing = cost_of(context, storage).reads == 0;
  storage.buffer = register_buffer(context, storage.sizes, storage.dtype, storage.device);
  ir::Pointwise pointwise;
  pointwise.value = {storage.loop, identity_index(storage.sizes.size())};
  const ir::OperationId operation =
      register_operation(context, std::move(pointwise), {storage.buffer});
  context.module.operations[operation].list = storage.list;
  if (!reads_nothing)
    storage.loop = kNone;
  return storage.buffer;
}

void realize_hint(Context &context, Storage &storage, bool again) {
  constexpr size_t kCheap = 6; // operations: a load, a conversion, one comparison and a choice
  if (storage.realized())
    return;
  const LoopCost &cost = cost_of(context, storage);
  if (cost.nontrivial_reads > 1 ||
      (cost.reads > 0 && (cost.operations > kCheap || (again && cost.functions > 0))))
    realize(context, storage);
}

void realize_for_broadcast(Context &context, Storage &storage, std::span<const Expr> sizes) {
  constexpr int64_t kOften = 64;        // readers of an element
  constexpr int64_t kWorthIt = 1 << 21; // functions that are not computed again: a launch's time
  if (storage.realized() || !context.policy.compute_channels_once)
    return;
  const auto result = symbolic::numel(sizes).as_integer(),
             own = symbolic::numel(storage.sizes).as_integer();
  if (!result || !own || *own == 0 || *result / *own < kOften)
    return;
  const LoopCost &cost = cost_of(context, storage);
  if (cost.reads == 0 || static_cast<int64_t>(cost.functions) * *result < kWorthIt)
    return;
  if (reads_inputs_alone(context, storage))
    realize(context, storage);
}

namespace {

/// Of the tensor that a node gives; null if it gives none, or several.
const std::vector<Expr> *sizes_of(const graph::Node &node) {
  const graph::TensorMeta *meta = node.value ? node.value->tensor() : nullptr;
  return meta ? &meta->layout.sizes : nullptr;
}

/// Whether reductions alone ask for a value, at once or of what one choice makes of it, element by
/// element. They read the same elements, and fuse: each is computed once where it is added up,
/// however much that takes.
bool is_for_reductions(const Context &context, const std::vector<graph::NodeId> &users) {
  static constexpr std::array<std::string_view, 5> kReductions = {
      "aten.sum.dim_IntList", "aten.amax.default", "aten.amin.default", "aten.var_mean.correction",
      "aten.prod.dim_int"};
  const auto reduces = [&](graph::NodeId user) {
    return std::find(kReductions.begin(), kReductions.end(), context.graph.node(user).target) !=
           kReductions.end();
  };
  if (users.size() == 1 && context.graph.node(users[0]).target == "aten.where.self") {
    const graph::Node &choice = context.graph.node(users[0]);
    const std::vector<graph::NodeId> &next = context.users[users[0]];
    return sizes_of(choice) && sizes_of(context.graph.node(context.current)) &&
           *sizes_of(choice) == *sizes_of(context.graph.node(context.current)) && !next.empty() &&
           std::all_of(next.begin(), next.end(), reduces);
  }
  return !users.empty() && std::all_of(users.begin(), users.end(), reduces);
}

/// Realizes the value of the current node; where that is one of fewer bytes made wider (what was
/// rounded to 16 bits, as f32 to compute with), that one: everybody widens what they read of it.
void realize_narrowest(Context &context, TensorValue &value) {
  const graph::Node &node = context.graph.node(context.current);
  const graph::NodeRef *argument =
      node.target == "prims.convert_element_type.default" ? node.args[0].node() : nullptr;
  const auto *source = argument ? std::get_if<TensorValue>(&context.values[argument->id]) : nullptr;
  const bool widens = source && context.policy.casts_in_bodies && !source->is_view() &&
                      !value.is_view() && tensor::is_floating(source->dtype) &&
                      tensor::is_floating(value.dtype) &&
                      tensor::size_in_bytes(source->dtype) < tensor::size_in_bytes(value.dtype);
  if (!widens) {
    realize(context, *value.storage);
    return;
  }
  realize(context, *source->storage);
  value = convert(context, *source, value.dtype);
}

/// Whether several readers of a value would keep a gathered weight alive, which has many times its
/// bytes: all of it until the last of them has run.
bool keeps_gathered(const Context &context, const Storage &storage, const LoopCost &cost) {
  constexpr int64_t kTimes = 4;
  if (cost.gathered_bytes == 0 || !context.policy.reorder_for_peak_memory)
    return false;
  const auto own = symbolic::numel(storage.sizes).as_integer();
  return own && *own * static_cast<int64_t>(tensor::size_in_bytes(storage.dtype)) <=
                    cost.gathered_bytes / kTimes;
}

/// Products read their operands from memory.
bool is_product(const graph::Node &node) {
  static constexpr std::array<std::string_view, 6> kProducts = {
      "aten.mm.default", "aten.bmm.default",           "aten.mm.dtype",
      "aten.bmm.dtype",  "tsc.convolution_mm.default", "tsc.convolution_bmm.default"};
  return std::find(kProducts.begin(), kProducts.end(), node.target) != kProducts.end();
}

/// Whether a value is made of all that a product gives and of something else as large (a residual).
/// The product's kernel can add it, in place of the other term.
bool adds_to_product(const Context &context, const Storage &storage) {
  const Expr elements = symbolic::numel(storage.sizes);
  const ir::LoopBody body = ir::trace_value(context.module, storage.loop);
  std::set<BufferId> terms;
  bool has_product = false;
  for (const ir::BodyOp &op : body.ops) {
    if (op.op != Op::load)
      continue;
    const ir::Buffer &buffer = context.module.buffer(op.buffer);
    if (symbolic::numel(buffer.layout.sizes) != elements)
      continue;
    terms.insert(op.buffer);
    const auto *call =
        buffer.operation == kNone
            ? nullptr
            : std::get_if<ir::Extern>(&context.module.operations[buffer.operation].kind);
    has_product = has_product || (call && call->library == ir::Library::matmul);
  }
  return has_product && terms.size() > 1;
}

bool is_view(const graph::Node &node) {
  static constexpr std::array<std::string_view, 8> kViews = {
      "aten.unsqueeze.default", "aten.expand.default", "aten.view.default", "aten.reshape.default",
      "aten.permute.default",   "aten.slice.Tensor",   "aten.select.int",   "aten.squeeze.dims"};
  return std::find(kViews.begin(), kViews.end(), node.target) != kViews.end();
}

/// What reads a node's value, also through views of it.
std::set<graph::NodeId> readers_behind(const Context &context, graph::NodeId node) {
  std::set<graph::NodeId> readers;
  std::vector<graph::NodeId> open = {node};
  while (!open.empty()) {
    const graph::NodeId at = open.back();
    open.pop_back();
    for (const graph::NodeId user : context.users[at]) // of a view one node is the source
      if (is_view(context.graph.node(user)))
        open.push_back(user);
      else
        readers.insert(user);
  }
  return readers;
}

/// Whether the current node's value is read before and behind a product that depends on it: until
/// then either it stays in memory, or all that it is made of does.
bool outlasts_product(const Context &context) {
  const auto multiplies = [&](graph::NodeId id) {
    const graph::Node &node = context.graph.node(id);
    return is_product(node) || node.target == "aten.addmm.default" ||
           node.target == "aten.baddbmm.default";
  };
  std::set<graph::NodeId> open = readers_behind(context, context.current);
  if (open.size() < 2)
    return false;
  const graph::NodeId last = *open.rbegin();
  while (*open.begin() < last) {
    const graph::NodeId at = *open.begin();
    open.erase(open.begin());
    if (multiplies(at))
      return true;
    open.insert(context.users[at].begin(), context.users[at].end());
  }
  return false;
}

/// Elements of what reads a node's value, also through views of it.
int64_t elements_behind(const Context &context, graph::NodeId node) {
  int64_t elements = 0;
  for (const graph::NodeId reader : readers_behind(context, node))
    if (const std::vector<Expr> *sizes = sizes_of(context.graph.node(reader)))
      elements += symbolic::numel(*sizes).as_integer().value_or(0);
  return elements;
}

/// Whether a value is a small table of angles' functions (or of series) of inputs that many
/// elements look into: rotary embeddings, for all heads, of all layers. Computed once it costs a
/// launch, and reading it a cache's bandwidth. Cheaper functions are not worth that: weights of
/// samples in a grid, say, are shared by the elements of a thread.
bool is_table(Context &context, Storage &storage, const LoopCost &cost) {
  constexpr int64_t kOften = 16;        // readers of an element
  constexpr int64_t kWorthIt = 1 << 22; // functions that are not computed again: a launch's time
  const auto own = symbolic::numel(storage.sizes).as_integer();
  if (!context.policy.compute_channels_once || cost.functions == 0 || cost.reads == 0 || !own)
    return false;
  const int64_t readers = elements_behind(context, context.current);
  if (readers < kOften * *own || static_cast<int64_t>(cost.functions) * readers < kWorthIt ||
      !reads_inputs_alone(context, storage))
    return false;
  const ir::LoopBody body = ir::trace_value(context.module, storage.loop);
  return std::any_of(body.ops.begin(), body.ops.end(),
                     [](const ir::BodyOp &op) { return ir::op_cost(op.op) >= ir::OpCost::angle; });
}

/// Whether a value has few elements, each computed in many steps, which very many others are made
/// of: what follows from the statistics of a channel. Else what it takes stands in each of these,
/// and they are as large as what is realized for its own sake.
bool is_condensed(const Context &context, const Storage &storage, const LoopCost &cost) {
  constexpr int64_t kOften = 256; // readers of an element
  constexpr int64_t kFewest = 8;  // elements: fewer are all threads' at once
  constexpr size_t kSteps = 12;
  constexpr int64_t kWorthIt = 1 << 27; // steps that are not computed again: a launch's time
  const auto own = symbolic::numel(storage.sizes).as_integer();
  if (!context.policy.compute_channels_once || cost.operations < kSteps || cost.reads == 0 ||
      !own || *own < kFewest)
    return false;
  const int64_t readers = elements_behind(context, context.current);
  return readers >= kOften * *own && static_cast<int64_t>(cost.operations) * readers >= kWorthIt;
}

} // namespace

void realize_by_policy(Context &context, TensorValue &value) {
  Storage &storage = *value.storage;
  const std::vector<graph::NodeId> &users = context.users[context.current];
  if (storage.realized())
    return;
  const LoopCost cost = cost_of(context, storage);
  const target::Policy &policy = context.policy;
  const bool large = cost.operations > policy.realize_opcount_threshold;
  // What a product and other nodes read is better realized once.
  if (users.size() > 1 && cost.nontrivial_reads > 1 &&
      std::any_of(users.begin(), users.end(),
                  [&](graph::NodeId user) { return is_product(context.graph.node(user)); })) {
    realize(context, storage);
    return;
  }
  // A draw costs more than reading a mask of one byte an element does.
  const bool inlined = policy.reductions_take_values && is_for_reductions(context, users);
  const bool reused =
      users.size() > 1 && !inlined && (cost.reads > policy.realize_reads_threshold || large);
  const bool sums_lookups = policy.sums_take_lookups && users.size() == 1 && cost.lookups > 1;
  const bool accumulated = (cost.reads > policy.realize_accumulated_reads_threshold || large) &&
                           cost.nontrivial_reads > 1 && !inlined && !sums_lookups;
  const bool kept = users.size() > 1 && keeps_gathered(context, storage, cost);
  const bool residual = policy.product_templates && cost.nontrivial_reads > 1 &&
                        !is_view(context.graph.node(context.current)) &&
                        adds_to_product(context, storage) && outlasts_product(context);
  if (reused || residual || (users.size() > 1 && cost.draws > 0) || accumulated || kept ||
      cost.operations > (sums_lookups ? kLargestLookups : kLargestInlined) ||
      is_table(context, storage, cost) || is_condensed(context, storage, cost))
    realize_narrowest(context, value);
}

namespace {

/// Whether what the operation at `place` computes moves with `variable`.
bool moves_with(const ir::LoopBody &body, uint32_t place, Expr variable) {
  std::vector<uint32_t> open = {place};
  std::vector<bool> seen(body.ops.size(), false);
  while (!open.empty()) {
    const uint32_t at = open.back();
    open.pop_back();
    if (seen[at])
      continue;
    seen[at] = true;
    const ir::BodyOp &op = body.ops[at];
    if (op.index != ir::kNone && symbolic::depends_on(body.indices[op.index], variable))
      return true;
    open.insert(open.end(), op.args.begin(), op.args.end());
    if (op.block != ir::kNone)
      open.insert(open.end(), body.blocks[op.block].ops.begin(), body.blocks[op.block].ops.end());
  }
  return false;
}

/// Where a lookup moves with a dimension that the index itself does not mention, neighbours along
/// that dimension are taken to be neighbours in what is looked up.
void follow_lookups(const ir::LoopBody &body, Expr index, std::span<const Expr> dimensions,
                    std::vector<Expr> &strides) {
  for (uint32_t place = 0; place < body.ops.size(); ++place) {
    const ir::BodyOp &op = body.ops[place];
    if (op.op != Op::set_indirect || !symbolic::depends_on(index, op.symbol))
      continue;
    const auto step = symbolic::coefficient_of(index, op.symbol);
    for (size_t k = 0; k < dimensions.size() && step; ++k)
      if (strides[k].is_integer(0) && moves_with(body, place, dimensions[k]))
        strides[k] = *step;
  }
}

/// Strides of the distinct reads over the buffer's dimensions, reduction variables at 0.
std::vector<std::vector<Expr>> read_strides(const ir::LoopBody &body,
                                            std::span<const Expr> dimensions, bool with_lookups) {
  symbolic::Substitution no_reduction;
  for (size_t i = body.iteration_count; i < body.variables.size(); ++i)
    no_reduction.emplace(body.variables[i], Expr(0));
  std::vector<std::pair<BufferId, uint32_t>> seen;
  std::vector<std::vector<Expr>> strides;
  for (const ir::BodyOp &op : body.ops) {
    if (op.op != Op::load ||
        std::find(seen.begin(), seen.end(), std::pair{op.buffer, op.index}) != seen.end())
      continue;
    seen.emplace_back(op.buffer, op.index);
    const Expr index = symbolic::substitute(body.indices[op.index], no_reduction);
    strides.push_back(symbolic::stride_vars(index, dimensions));
    if (with_lookups)
      follow_lookups(body, index, dimensions, strides.back());
  }
  return strides;
}

/// Buffers that `body` reads and whose layouts are not decided yet.
std::vector<BufferId> undecided_reads(const Context &context, const ir::LoopBody &body,
                                      BufferId but) {
  std::vector<BufferId> found;
  for (const ir::BodyOp &op : body.ops)
    if (op.op == Op::load && op.buffer != but &&
        context.module.buffer(op.buffer).layout_kind == ir::LayoutKind::flexible)
      found.push_back(op.buffer);
  return found;
}

/// As the reads of the operation that computes it lie: their layouts are what they are.
void decide_by_reads(Context &context, BufferId id) {
  ir::Buffer &buffer = context.module.buffers[id];
  buffer.layout_kind = ir::LayoutKind::fixed;
  const ir::Operation &operation = context.module.operations[buffer.operation];
  if (!operation.is_loops() || buffer.layout.rank() < 2 || is_empty(buffer.layout.sizes))
    return;
  // The trace drops loops of size 1: a symbol of our own stands for their dimension, no read
  // mentions it.
  const ir::LoopBody body = ir::trace(context.module, operation, symbolic::SymbolSort::dependency);
  std::vector<Expr> dimensions;
  size_t next = 0;
  for (Expr size : buffer.layout.sizes) {
    dimensions.push_back(size.is_integer(1)
                             ? symbolic::symbol(symbolic::SymbolSort::unread, dimensions.size())
                             : body.variables[next++]);
  }
  const auto *scan = std::get_if<ir::Scan>(&operation.kind);
  const auto *sort = std::get_if<ir::Sort>(&operation.kind);
  if (scan || sort) { // that dimension is the last loop
    const size_t axis = scan ? scan->axis : sort->axis;
    std::rotate(dimensions.begin() + static_cast<std::ptrdiff_t>(axis), dimensions.end() - 1,
                dimensions.end());
  }
  const std::vector<std::vector<Expr>> strides =
      read_strides(body, dimensions, context.policy.layouts_follow_reads);
  if (!strides.empty()) {
    std::vector<size_t> order = symbolic::pick_loop_order(strides, buffer.layout.sizes);
    std::reverse(order.begin(),
                 order.end()); // the seed's order names the innermost dimension first
    buffer.layout.strides = tensor::strides_in_order(buffer.layout.sizes, order);
  }
}

} // namespace

void decide_layout(Context &context, BufferId id) {
  if (context.module.buffer(id).layout_kind == ir::LayoutKind::movable)
    context.module.buffers[id].layout_kind = ir::LayoutKind::fixed;
  std::vector<BufferId> open = {id};
  while (!open.empty()) {
    const ir::Buffer &buffer = context.module.buffer(open.back());
    if (buffer.layout_kind != ir::LayoutKind::flexible) {
      open.pop_back();
      continue;
    }
    const ir::Operation &operation = context.module.operations[buffer.operation];
    std::vector<BufferId> before;
    if (context.policy.layouts_follow_reads && operation.is_loops()) {
      before = undecided_reads(
          context, ir::trace(context.module, operation, symbolic::SymbolSort::dependency),
          open.back());
    }
    if (before.empty())
      decide_by_reads(context, open.back());
    else
      open.insert(open.end(), before.begin(), before.end());
  }
}

void decide_layout_as(Context &context, BufferId id, const std::vector<Expr> &strides) {
  ir::Buffer &buffer = context.module.buffers[id];
  if (buffer.layout_kind == ir::LayoutKind::flexible) {
    buffer.layout_kind = ir::LayoutKind::fixed;
    buffer.layout.strides = strides;
  }
}

namespace {

/// `value`, an index map over a storage laid out as `base`, as strides; nothing if it has none.
std::optional<Layout> strides_over(const Context &context, const TensorValue &value,
                                   const Layout &base) {
  symbolic::Ranges ranges = *context.ranges;
  const std::vector<Expr> variables = identity_index(value.sizes.size());
  symbolic::Substitution unit;
  for (size_t k = 0; k < variables.size(); ++k) {
    ranges.set_size(variables[k], value.sizes[k]);
    if (value.sizes[k].is_integer(1))
      unit.emplace(variables[k], Expr(0));
  }
  const Expr index =
      symbolic::simplify(symbolic::substitute(base.linear_index(*value.index), unit), ranges);
  if (!symbolic::is_affine(index, variables) || graph::depends_on_data(index))
    return std::nullopt;
  Layout layout;
  layout.sizes = value.sizes;
  layout.strides = symbolic::stride_vars(index, variables);
  layout.offset = symbolic::offset_of(index, variables);
  if (std::any_of(layout.strides.begin(), layout.strides.end(),
                  [](Expr s) { return s.is_integer() && s.value() < 0; }))
    return std::nullopt; // libraries and PyTorch know no negative strides
  return layout;
}

/// Decides how the storage behind an index map lies: as what it reads does, if the map is then rows
/// (or columns) of memory, as a product of pixels with their channels innermost is; else
/// contiguous, which is what most index maps can be strides on.
void decide_layout_under(Context &context, const TensorValue &value, BufferId id) {
  const ir::Buffer before = context.module.buffer(id);
  if (before.layout_kind != ir::LayoutKind::flexible)
    return;
  const size_t rank = value.sizes.size();
  std::optional<Layout> view;
  if (context.policy.layouts_follow_reads) {
    decide_layout(context, id);
    view = strides_over(context, value, context.module.buffer(id).layout);
  }
  const bool rows =
      view && rank >= 2 &&
      (view->strides[rank - 1].is_integer(1) || view->strides[rank - 2].is_integer(1));
  if (!rows) {
    context.module.buffers[id] = before;
    decide_layout_as(context, id, tensor::contiguous_strides(value.storage->sizes));
  }
}

} // namespace

std::optional<ir::BufferView> strided_view(Context &context, const TensorValue &value) {
  const BufferId buffer = realize(context, *value.storage);
  if (value.index && !value.layout)
    decide_layout_under(context, value, buffer);
  decide_layout(context, buffer);
  ir::BufferView view;
  view.buffer = buffer;
  view.dtype = value.dtype;
  if (value.layout) {
    view.layout = *value.layout;
    return view;
  }
  const Layout &base = context.module.buffer(buffer).layout;
  if (!value.index) {
    view.layout = base;
    return view;
  }
  const std::optional<Layout> layout = strides_over(context, value, base);
  if (!layout)
    return std::nullopt;
  view.layout = *layout;
  return view;
}

TensorValue copy(Context &context, const TensorValue &value) {
  TensorValue result =
      tensor_of(context, view_loop(context, value.dtype, value.sizes, operand_of(context, value)));
  realize(context, *result.storage);
  return result;
}

ir::BufferView realized_view(Context &context, TensorValue &value) {
  if (std::optional<ir::BufferView> view = strided_view(context, value))
    return *view;
  value = copy(context, value);
  return *strided_view(context, value);
}

ir::BufferView require_strides(Context &context, TensorValue &value,
                               const std::vector<Expr> &strides) {
  if (!value.is_view())
    decide_layout_as(context, realize(context, *value.storage), strides);
  std::optional<ir::BufferView> view = strided_view(context, value);
  if (!view ||
      (!is_empty(value.sizes) && !same_strides(value.sizes, view->layout.strides, strides))) {
    value = copy(context, value);
    decide_layout_as(context, value.storage->buffer, strides);
    view = strided_view(context, value);
  }
  view->layout.strides = strides; // strides of sizes of 1 as asked for
  return *view;
}

bool is_dense(std::span<const Expr> sizes, std::span<const Expr> strides) {
  const std::vector<size_t> order = tensor::stride_order(strides);
  Expr expected = 1;
  for (size_t i = order.size(); i-- > 0;) {
    if (sizes[order[i]].is_integer(1))
      continue;
    if (strides[order[i]] != expected)
      return false;
    expected = expected * sizes[order[i]];
  }
  return true;
}

} // namespace tsc::lowering
