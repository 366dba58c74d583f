#include "lowering/concatenation.h"

#include "ir/body.h"
#include "lowering/build.h"
#include "lowering/realize.h"
#include "lowering/registry.h"
#include "ops/table/shape_rules.h"
#include "symbolic/loops.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

namespace tsc::lowering {

namespace {

/// Lowering keys of operators that compute element by element.
const std::set<std::string_view> &elementwise_keys() {
  static const std::set<std::string_view> keys = [] {
    Registry registry;
    add_elementwise(registry);
    add_conversions(registry);
    std::set<std::string_view> result = {"cat", "constant_pad_nd"}; // masked, so they are as well
    for (const auto &[key, lowering] : registry)
      result.insert(key);
    return result;
  }();
  return keys;
}

/// Operators that read their tensors from memory.
bool reads_memory(std::string_view key) {
  static constexpr std::array<std::string_view, 5> kKeys = {"mm", "bmm", "addmm", "fused_attention",
                                                            "fused_flex_attention"};
  return std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end();
}

/// True if `holds` is true of the lowering key of every user of `node`, where users that are views
/// stand for their own users. The graph's output has the key "output".
template <class Predicate>
bool all_uses(const Context &context, graph::NodeId node, const Predicate &holds) {
  std::vector<graph::NodeId> open = {node};
  for (size_t i = 0; i < open.size(); ++i) {
    for (const graph::NodeId user : context.users[open[i]]) {
      const graph::Node &use = context.graph.node(user);
      if (use.kind == graph::NodeKind::output) {
        if (!holds(std::string_view("output")))
          return false;
        continue;
      }
      const ops::Operator *row = ops::find_operator(use.target);
      if (row != nullptr && row->effect == ops::Effect::view)
        open.push_back(user);
      else if (!holds(row == nullptr ? std::string_view() : row->lowering))
        return false;
    }
  }
  return true;
}

/// The result's memory: as PyTorch lays it out where that leaves no gaps, else row-major.
Layout result_layout(const Context &context) {
  const Layout &meta = result_meta(context).layout;
  Layout layout = tensor::contiguous_layout(meta.sizes);
  if (is_dense(meta.sizes, meta.strides))
    layout.strides = meta.strides;
  return layout;
}

/// The same memory with all of a part together: `dimension` outermost, the others in their order.
Layout parts_apart(const Layout &layout, size_t dimension) {
  Layout result = layout;
  const Expr size = layout.sizes[dimension], step = layout.strides[dimension];
  Expr outermost = 1;
  for (size_t k = 0; k < layout.rank(); ++k) {
    if (k == dimension)
      continue;
    outermost = outermost * layout.sizes[k];
    if (layout.strides[k].value() > step.value())
      result.strides[k] = Expr(layout.strides[k].value() / size.value());
  }
  result.strides[dimension] = outermost;
  return result;
}

/// True if the argument that `value` came from, and the nodes that it is a view of, are used by
/// this node alone: nobody else knows how its memory lies.
bool is_used_here_alone(const Context &context, graph::NodeId node) {
  while (true) {
    if (context.users[node].size() != 1 || context.returned[node])
      return false;
    const graph::Node &made = context.graph.node(node);
    const ops::Operator *row = ops::find_operator(made.target);
    if (row == nullptr || row->effect != ops::Effect::view)
      return true;
    const graph::NodeRef *viewed = made.args.empty() ? nullptr : made.args[0].node();
    if (viewed == nullptr)
      return false;
    node = viewed->id;
  }
}

/// The memory of a concatenation: that which parts are in already, or new one.
BufferId memory_of_join(Context &context, graph::NodeId join, const Layout &layout) {
  if (const auto found = context.joined.find(join); found != context.joined.end())
    return found->second;
  const graph::TensorMeta &meta = *context.graph.node(join).value->tensor();
  const BufferId whole = register_buffer(context, meta.layout.sizes, meta.dtype, context.device);
  context.module.buffers[whole].layout = layout;
  context.module.buffers[whole].layout_kind = ir::LayoutKind::fixed;
  return whole;
}

void put_into(Context &context, BufferId part, BufferId whole) {
  context.module.buffers[part].view_of = whole;
  context.module.buffers[part].aliases = {whole};
}

class Concatenation {
public:
  Concatenation(Context &context, const ops::Call &call, std::vector<TensorValue> &tensors,
                size_t dimension)
      : context_(context), tensors_(tensors), dimension_(dimension),
        result_(result_layout(context)) {
    find_arguments(call, dimension);
    find_slices();
  }
  /// Parts that lie as `slices` say in `result`, which they fill.
  Concatenation(Context &context, std::vector<TensorValue> &tensors, Layout result,
                std::vector<Layout> slices)
      : context_(context), tensors_(tensors), dimension_(0), result_(std::move(result)),
        slices_(std::move(slices)) {
    arguments_.resize(tensors_.size());
  }

  /// Whether the parts are to be stored apart; settles where.
  bool is_wanted() {
    if (context_.policy.concatenation != target::Concatenation::fewest_launches)
      return is_wanted_by_seed();
    if (saves_launches())
      return true;
    find_runs();
    if (lie_differently() || follow_reductions())
      return true;
    if (!has_too_many_masks())
      return false;
    turns_ = longest_run_ < kSector;
    if (turns_) {
      result_ = parts_apart(result_, dimension_);
      find_slices();
    }
    return true;
  }

  TensorValue build() {
    std::vector<BufferId> parts;
    for (size_t k = 0; k < tensors_.size(); ++k)
      parts.push_back(realize_into_slice(k));
    list_copies();
    ir::Extern call;
    call.ir_class = "ConcatKernel";
    call.library = ir::Library::concatenate;
    for (const BufferId part : parts) {
      const ir::Buffer &buffer = context_.module.buffer(part);
      call.inputs.push_back({part, buffer.layout, buffer.dtype});
    }
    const BufferId whole = memory_of_join(context_, context_.current, result_);
    register_operation(context_, std::move(call), {whole});
    for (size_t k = 0; k < parts.size(); ++k)
      if (!is_placed(k))
        put_into(context_, parts[k], whole);
    const TensorValue value = tensor_of_buffer(context_, whole);
    if (!turns_)
      return value;
    return tensor_of(context_,
                     view_loop(context_, value.dtype, value.sizes, operand_of(context_, value)));
  }

private:
  static constexpr int64_t kSector = 32, kVector = 16; // bytes of memory that is accessed together

  Context &context_;
  std::vector<TensorValue> &tensors_;
  size_t dimension_;
  Layout result_;
  /// Bytes that lie together of a part: the longest, the shortest, and what divides all of them.
  /// Parts whose size is a symbol are taken as long.
  int64_t longest_run_ = INT64_MAX, shortest_run_ = INT64_MAX, common_run_ = 0;
  bool turns_ = false; // parts stand one behind the other, and whoever reads them turns them
  std::vector<Layout> slices_;                          // by tensor
  std::vector<std::optional<graph::NodeId>> arguments_; // by tensor: its node
  std::vector<ir::OperationId> copies_;                 // of the graph's inputs

  /// Arguments without elements were left out of the tensors.
  void find_arguments(const ops::Call &call, size_t dimension) {
    for (const graph::Argument &argument : *call["tensors"].list()) {
      const graph::NodeRef *node = argument.node();
      const TensorValue *value =
          node ? std::get_if<TensorValue>(&context_.values[node->id]) : nullptr;
      if (value == nullptr || value->sizes.size() <= dimension ||
          !value->sizes[dimension].is_integer(0))
        arguments_.push_back(node ? std::optional(node->id) : std::nullopt);
    }
    arguments_.resize(tensors_.size());
  }

  void find_slices() {
    slices_.clear();
    Expr start = 0;
    for (const TensorValue &tensor : tensors_) {
      Layout slice = result_;
      slice.sizes[dimension_] = tensor.sizes[dimension_];
      slice.offset = start * result_.strides[dimension_];
      start = start + tensor.sizes[dimension_];
      slices_.push_back(std::move(slice));
    }
  }
  void find_runs() {
    const auto is_number = [](Expr e) { return e.is_integer(); };
    if (!std::all_of(result_.sizes.begin(), result_.sizes.end(), is_number))
      return;
    const auto bytes = static_cast<int64_t>(tensor::size_in_bytes(result_meta(context_).dtype));
    longest_run_ = 0;
    for (const TensorValue &tensor : tensors_) {
      if (!tensor.sizes[dimension_].is_integer()) {
        longest_run_ = shortest_run_ = INT64_MAX;
        return;
      }
      const int64_t run =
          tensor.sizes[dimension_].value() * result_.strides[dimension_].value() * bytes;
      longest_run_ = std::max(longest_run_, run);
      shortest_run_ = std::min(shortest_run_, run);
      common_run_ = std::gcd(common_run_, run);
    }
  }
  bool aligned(Expr elements, DType dtype) const {
    const int64_t unit =
        context_.policy.product_row_alignment / static_cast<int64_t>(tensor::size_in_bytes(dtype));
    return unit <= 1 || symbolic::known_multiple_of(elements, unit, *context_.ranges);
  }
  /// The matrix libraries want a unit stride, and are slow where rows are not aligned.
  bool serves_product(const Layout &slice, DType dtype) const {
    const size_t rank = slice.rank();
    if (!slice.strides[rank - 1].is_integer(1) || !aligned(slice.offset, dtype))
      return false;
    for (size_t k = 0; k + 1 < rank; ++k)
      if (!aligned(slice.strides[k], dtype))
        return false;
    return true;
  }

  /// How the memory of `tensor`'s storage would lie if `tensor` were the slice; nothing if its
  /// producer cannot store there.
  std::optional<Layout> layout_in_slice(size_t k) const {
    const TensorValue &tensor = tensors_[k];
    const Storage &storage = *tensor.storage;
    if (!storage.realized() || storage.dtype != tensor.dtype)
      return std::nullopt;
    const ir::Buffer &buffer = context_.module.buffer(storage.buffer);
    if (buffer.role != ir::Buffer::Role::computed || buffer.operation == kNone)
      return std::nullopt;
    const auto &kind = context_.module.operations[buffer.operation].kind;
    const auto *call = std::get_if<ir::Extern>(&kind);
    const bool is_product = call != nullptr && call->library == ir::Library::matmul;
    if ((call != nullptr && !is_product) || std::holds_alternative<ir::Scatter>(kind))
      return std::nullopt;
    std::optional<Layout> layout;
    if (!tensor.is_view()) {
      if (buffer.layout_kind == ir::LayoutKind::flexible ||
          buffer.layout_kind == ir::LayoutKind::movable)
        layout = slices_[k];
    } else if (context_.policy.concatenation == target::Concatenation::fewest_launches) {
      layout = layout_behind_view(tensor, buffer, k);
    }
    if (layout && is_product && !serves_product(*layout, buffer.dtype))
      return std::nullopt;
    return layout;
  }

  /// True if another part is in the same storage: it would be seen with the strides from before
  /// this one was placed.
  bool is_other_part(size_t k) const {
    for (size_t other = 0; other < tensors_.size(); ++other)
      if (other != k && tensors_[other].storage == tensors_[k].storage)
        return true;
    return false;
  }

  /// The same for a reshaped storage that nobody else has looked at.
  std::optional<Layout> layout_behind_view(const TensorValue &tensor, const ir::Buffer &buffer,
                                           size_t k) const {
    if (buffer.layout_kind == ir::LayoutKind::non_owning ||
        buffer.layout_kind == ir::LayoutKind::mutation || !tensor.layout ||
        context_.strided_loads.count(tensor.storage->buffer) > 0 || !arguments_[k] ||
        is_other_part(k) || !is_used_here_alone(context_, *arguments_[k]))
      return std::nullopt;
    const bool reshaped = tensor.layout->is_contiguous() && tensor.layout->offset.is_integer(0) &&
                          buffer.layout.is_contiguous() &&
                          symbolic::numel(tensor.sizes) == symbolic::numel(buffer.layout.sizes);
    if (!reshaped)
      return std::nullopt;
    const std::optional<std::vector<Expr>> strides =
        ops::view_strides(slices_[k], buffer.layout.sizes, *context_.ranges);
    if (!strides)
      return std::nullopt;
    return Layout{buffer.layout.sizes, *strides, slices_[k].offset};
  }

  /// Launches: one for each part that must be copied (or is not computed yet), against one for all
  /// under masks, which vanishes in users that compute element by element or reduce.
  bool saves_launches() const {
    size_t further_kernels = 0, stored_at_once = 0;
    std::set<const Storage *> seen; // a storage lies in one place
    for (size_t k = 0; k < tensors_.size(); ++k) {
      const bool first = seen.insert(tensors_[k].storage.get()).second;
      ++(first && layout_in_slice(k) ? stored_at_once : further_kernels);
    }
    return stored_at_once > 0 && further_kernels <= 1 && is_read_from_memory();
  }

  /// Under masks each element asks for every part. Where parts are many that takes longer than to
  /// store them apart, in one launch; more so where elements are accessed one by one. (By the cost
  /// model of sm_90, a part an element: 0.07 ps of runs, 0.27 ps of elements; memory 0.49 ps a byte
  /// that is read and written.) Users that could have computed under the masks read them again.
  bool has_too_many_masks() const {
    const size_t parts = tensors_.size(), most = context_.policy.max_masked_parts;
    const bool from_memory = is_read_from_memory();
    if (parts > (from_memory ? most : 2 * most))
      return true;
    const size_t bytes = tensor::size_in_bytes(result_meta(context_).dtype);
    return from_memory && common_run_ % kVector != 0 && longest_run_ >= kSector &&
           parts >= std::max<size_t>(4, 2 * bytes) &&
           std::all_of(tensors_.begin(), tensors_.end(), [&](const TensorValue &tensor) {
             return tensor.storage->realized() && is_static_input(tensor.storage->buffer);
           });
  }

  /// True of inputs of which some have neighbours where the result has them, and others along
  /// another dimension: one kernel for all would read those one by one, a kernel for each turns
  /// them by tiles. (H200: bytes, 3.2 times a copy's time under masks.) Not of runs that leave most
  /// of a line to other parts (rows of 12 numbers of 8 bytes in five parts: 524 us so).
  bool lie_differently() const {
    constexpr int64_t kMany = int64_t{1} << 20; // bytes: less is a launch
    constexpr int64_t kApart = 2 * kSector;
    const auto elements = symbolic::numel(result_.sizes).as_integer();
    if (!elements ||
        *elements * static_cast<int64_t>(tensor::size_in_bytes(result_meta(context_).dtype)) <
            kMany ||
        shortest_run_ < kApart || !is_read_from_memory())
      return false;
    bool some_along = false, some_across = false;
    for (const TensorValue &tensor : tensors_) {
      if (!tensor.storage->realized() || !is_static_input(tensor.storage->buffer))
        return false;
      const Layout layout =
          tensor.layout ? *tensor.layout : context_.module.buffer(tensor.storage->buffer).layout;
      if (layout.rank() != result_.rank())
        return false;
      for (size_t k = 0; k < layout.rank(); ++k)
        if (layout.strides[k].is_integer(1) && !layout.sizes[k].is_integer(1))
          (result_.strides[k].is_integer(1) ? some_along : some_across) = true;
    }
    return some_along && some_across;
  }
  /// True of parts of one size that are all computed, some from what is reduced to each of their
  /// elements or rows: the kernel that reduces stores all of them, where one under masks would read
  /// again what is reduced. Not where most of a sector is other parts'.
  bool follow_reductions() const {
    constexpr int64_t kApart = 2 * kSector;
    if (shortest_run_ < kApart || tensors_.size() > context_.policy.max_masked_parts ||
        !is_read_from_memory())
      return false;
    const auto is_computed = [&](const TensorValue &tensor) {
      return !tensor.storage->realized() && tensor.sizes == tensors_[0].sizes;
    };
    return std::all_of(tensors_.begin(), tensors_.end(), is_computed) &&
           std::any_of(tensors_.begin(), tensors_.end(),
                       [&](const TensorValue &tensor) { return reads_reduction(tensor); });
  }
  bool is_read_from_memory() const {
    return all_uses(context_, context_.current,
                    [](std::string_view key) { return key == "output" || reads_memory(key); });
  }

  /// The seed's choice: masks for few parts, where that saves storing one of them and only
  /// elementwise operators read the result, or where every part would be copied.
  bool is_wanted_by_seed() const {
    if (tensors_.size() > context_.policy.max_masked_parts)
      return true;
    bool some_masked = false, all_masked = true, some_reduced = false;
    for (size_t k = 0; k < tensors_.size(); ++k) {
      const TensorValue &tensor = tensors_[k];
      const bool masked =
          tensor.storage->realized() ? !layout_in_slice(k).has_value() : !tensor.is_view();
      some_masked = some_masked || masked;
      all_masked = all_masked && masked;
      some_reduced = some_reduced || reads_reduction(tensor);
    }
    const bool elementwise_uses = all_uses(context_, context_.current, [](std::string_view key) {
      return elementwise_keys().count(key) > 0;
    });
    return !(some_masked && elementwise_uses) && !(all_masked && !some_reduced);
  }

  bool is_reduction(BufferId buffer) const {
    const ir::OperationId operation = context_.module.buffer(buffer).operation;
    return operation != kNone &&
           std::holds_alternative<ir::Reduction>(context_.module.operations[operation].kind);
  }
  /// True of a reduction, and of an unrealized value that reads one.
  bool reads_reduction(const TensorValue &tensor) const {
    const Storage &storage = *tensor.storage;
    if (storage.realized())
      return is_reduction(storage.buffer);
    const ir::LoopBody body = ir::trace_value(context_.module, storage.loop);
    return std::any_of(body.ops.begin(), body.ops.end(), [&](const ir::BodyOp &op) {
      return op.op == Op::load && is_reduction(op.buffer);
    });
  }

  bool is_static_input(BufferId id) const {
    const ir::Buffer &buffer = context_.module.buffer(id);
    return buffer.role == ir::Buffer::Role::input && buffer.layout.storage_size().is_integer();
  }

  /// Copies of the graph's inputs are a list, as the elements of a list operator are.
  void list_copies() {
    if (copies_.size() < 2)
      return;
    for (const ir::OperationId copy : copies_)
      context_.module.operations[copy].list = static_cast<uint32_t>(context_.module.lists.size());
    context_.module.lists.push_back(context_.graph.node(context_.current).name);
  }

  /// Whether the part is where it belongs: of several equal ones, one is.
  bool is_placed(size_t k) const {
    const auto whole = context_.joined.find(context_.current);
    if (whole == context_.joined.end() || !tensors_[k].storage->realized())
      return false;
    const BufferId part = tensors_[k].storage->buffer;
    return context_.module.storage_of(part) == whole->second &&
           context_.module.buffer(part).layout.offset == slices_[k].offset;
  }

  BufferId realize_into_slice(size_t k) {
    TensorValue &tensor = tensors_[k];
    if (is_placed(k))
      return tensor.storage->buffer;
    if (!tensor.storage->realized() && !tensor.is_view())
      realize(context_, *tensor.storage);
    std::optional<Layout> layout = layout_in_slice(k);
    if (!layout) {
      const bool of_input = tensor.storage->realized() && is_static_input(tensor.storage->buffer);
      tensor = copy(context_, tensor);
      layout = slices_[k];
      if (of_input)
        copies_.push_back(context_.module.buffer(tensor.storage->buffer).operation);
    }
    const BufferId id = tensor.storage->buffer;
    ir::Buffer &buffer = context_.module.buffers[id];
    buffer.layout = *layout;
    buffer.layout_kind = ir::LayoutKind::non_owning;
    return id;
  }
};

} // namespace

void plan_slices(Context &context) {
  constexpr std::array<std::string_view, 4> kScatters = {"index_put", "scatter", "scatter_add",
                                                         "scatter_reduce"};
  constexpr std::array<std::string_view, 3> kReshapes = {"view", "unsqueeze", "squeeze"};
  constexpr int64_t kAligned = 16; // bytes
  if (context.in_place_operators ||
      context.policy.concatenation != target::Concatenation::fewest_launches)
    return;
  const auto key_of = [&](graph::NodeId id) {
    const graph::Node &node = context.graph.node(id);
    const ops::Operator *row =
        node.kind == graph::NodeKind::call_function ? ops::find_operator(node.target) : nullptr;
    return row ? std::string_view(row->lowering) : std::string_view();
  };
  const auto is_one_of = [](std::string_view key, const auto &keys) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  const auto meta_of = [&](graph::NodeId id) {
    const graph::Node &node = context.graph.node(id);
    return node.value ? node.value->tensor() : nullptr;
  };
  for (graph::NodeId join = 0; join < context.graph.nodes.size(); ++join) {
    if (key_of(join) != "cat")
      continue;
    const graph::Node &node = context.graph.node(join);
    const ops::Call call(context.graph, node, ops::find_operator(node.target)->schema);
    const graph::TensorMeta &whole = *meta_of(join);
    const Layout &layout = whole.layout;
    const size_t dimension = dimension_argument(call, "dim", layout.rank());
    const graph::Argument::List &parts = *call["tensors"].list();
    // Parts one behind the other.
    bool fits = parts.size() > 1 && layout.is_contiguous() && layout.storage_size().is_integer();
    for (size_t k = 0; k < dimension && fits; ++k)
      fits = layout.sizes[k].is_integer(1);
    Expr start = 0;
    for (size_t i = 0; i < parts.size() && fits; ++i) {
      graph::NodeId part = parts[i].node()->id;
      const Expr offset = start;
      start = start + symbolic::numel(meta_of(part)->layout.sizes);
      while (is_one_of(key_of(part), kReshapes))
        part = context.graph.node(part).args[0].node()->id;
      const graph::TensorMeta *meta = meta_of(part);
      if (!is_one_of(key_of(part), kScatters) || context.in_place.count(part) != 0 ||
          meta->dtype != whole.dtype || !symbolic::numel(meta->layout.sizes).is_integer() ||
          offset.value() * static_cast<int64_t>(tensor::size_in_bytes(meta->dtype)) % kAligned != 0)
        continue;
      PlannedSlice slice{join, tensor::contiguous_layout(meta->layout.sizes)};
      slice.layout.offset = offset;
      context.slices.emplace(part, std::move(slice)); // where it is a part of several, of the first
    }
  }
}

bool store_in_slice(Context &context, BufferId target) {
  const auto slice = context.slices.find(context.current);
  if (slice == context.slices.end())
    return false;
  const graph::NodeId join = slice->second.join;
  const BufferId whole =
      memory_of_join(context, join, context.graph.node(join).value->tensor()->layout);
  context.joined.emplace(join, whole);
  ir::Buffer &buffer = context.module.buffers[target];
  buffer.layout = slice->second.layout;
  buffer.layout_kind = ir::LayoutKind::non_owning;
  put_into(context, target, whole);
  return true;
}

std::optional<TensorValue> concatenate_in_place(Context &context, const ops::Call &call,
                                                std::vector<TensorValue> &tensors,
                                                size_t dimension) {
  const std::vector<Expr> &sizes = result_meta(context).layout.sizes;
  // Where collectives write in place, memory is theirs to arrange.
  if (tensors.size() < 2 || symbolic::numel(sizes).is_integer(0) || context.in_place_operators)
    return std::nullopt;
  Concatenation concatenation(context, call, tensors, dimension);
  if (context.joined.count(context.current) == 0 && !concatenation.is_wanted())
    return std::nullopt;
  return concatenation.build();
}

std::optional<TensorValue> interleave_in_place(Context &context, std::vector<TensorValue> &parts,
                                               std::span<const int64_t> strides) {
  if (context.in_place_operators)
    return std::nullopt;
  const Layout whole = result_meta(context).layout;
  const size_t first_spatial = whole.rank() - strides.size();
  const auto places = static_cast<size_t>(
      std::accumulate(strides.begin(), strides.end(), int64_t{1}, std::multiplies<>()));
  std::vector<Layout> slices;
  Expr sample = 0;
  for (size_t k = 0; k < parts.size(); ++k) {
    Layout slice{parts[k].sizes, whole.strides, sample * whole.strides[0]};
    auto rest = static_cast<int64_t>(k % places);
    for (size_t i = strides.size(); i-- > 0; rest /= strides[i]) {
      const Expr step = whole.strides[first_spatial + i];
      slice.offset = slice.offset + Expr(rest % strides[i]) * step;
      slice.strides[first_spatial + i] = step * Expr(strides[i]);
    }
    slices.push_back(std::move(slice));
    if ((k + 1) % places == 0)
      sample = sample + parts[k].sizes[0];
  }
  return Concatenation(context, parts, whole, std::move(slices)).build();
}

} // namespace tsc::lowering
