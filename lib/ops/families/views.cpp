// Views that lowering knows: an index map, no computation. Strides and offsets are exact.
#include "graph/data_symbols.h"
#include "graph/indicators.h"
#include "ops/families/assertions.h"
#include "ops/families/slice_bounds.h"
#include "ops/families/storage_bounds.h"
#include "ops/table/builder.h"
#include "ops/table/memory_format.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "support/diagnostic.h"

#include <algorithm>

namespace tsc::ops {

namespace {

/// The Value of a view of `self` with another layout.
Value view_of(const TensorMeta &self, std::vector<Expr> sizes, std::vector<Expr> strides,
              Expr offset) {
  return tensor_value(self.dtype, std::move(sizes), std::move(strides), self.device, offset);
}

Value view_value(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  std::vector<Expr> sizes = resolve_view_sizes(call, self.layout.sizes, call.sizes("size"));
  std::optional<std::vector<Expr>> strides = view_strides(self.layout, sizes, call.ranges());
  // As recorded it was a view; with the strides that we infer it may need the copy that decompose()
  // inserts.
  return view_of(self, sizes, strides ? *strides : tensor::contiguous_strides(sizes),
                 strides ? self.layout.offset : Expr(0));
}

/// Symbolic sizes say whether both have as many elements when they are known.
void assert_same_elements(GraphBuilder &builder, const Call &call, const std::vector<Expr> &from,
                          const std::vector<Expr> &to) {
  const Expr held = symbolic::numel(from), asked = symbolic::numel(to);
  if (same_size(held, asked, builder.ranges()) || graph::depends_on_data(held) ||
      graph::depends_on_data(asked))
    return;
  assert_condition(builder, decided(builder, graph::negation(graph::unequal(held, asked))),
                   call.node().target + ": sizes " + print_sizes(to) + " do not hold the " +
                       symbolic::print(held) + " elements of " + print_sizes(from));
}

Argument view(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  std::vector<Expr> sizes = resolve_view_sizes(call, self.layout.sizes, call.sizes("size"));
  Argument base = call["self"];
  assert_same_elements(builder, call, self.layout.sizes, sizes);
  if (!view_strides(self.layout, sizes, call.ranges()))
    base = builder.call("aten.clone.default", {base},
                        {{"memory_format", graph::MemoryFormat::contiguous}});
  else if (call.node().target == "aten.view.default")
    return builder.keep(call, {base, sizes_argument(sizes)}); // -1 resolved
  return builder.emit("aten.view.default", {base, sizes_argument(sizes)});
}

Value permute_value(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  std::vector<int64_t> dims = call.integers("dims");
  std::vector<bool> seen(self.layout.rank(), false);
  std::vector<Expr> sizes, strides;
  for (int64_t dim : dims) {
    size_t d = normalize_dim(call, dim, self.layout.rank());
    if (d < seen.size() && !seen[d]) {
      seen[d] = true;
      sizes.push_back(self.layout.sizes[d]);
      strides.push_back(self.layout.strides[d]);
    }
  }
  if (sizes.size() != self.layout.rank() || dims.size() != sizes.size())
    call.fail("TSC-O024",
              "aten.permute: the dimensions do not name each of the " +
                  std::to_string(self.layout.rank()) + " dimensions once",
              "pass a permutation");
  return view_of(self, sizes, strides, self.layout.offset);
}

Value expand_value(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  std::vector<Expr> sizes = call.sizes("size"), strides(sizes.size(), Expr(0));
  if (sizes.size() < self.layout.rank())
    call.fail("TSC-O020",
              "aten.expand: " + print_sizes(self.layout.sizes) + " has more dimensions than " +
                  print_sizes(sizes),
              "name a size for every dimension");
  size_t added = sizes.size() - self.layout.rank();
  for (size_t i = 0; i < sizes.size(); ++i) {
    bool fresh = i < added;
    Expr size = fresh ? Expr(1) : self.layout.sizes[i - added];
    if (sizes[i].is_integer(-1) && !fresh)
      sizes[i] = size;
    bool same = same_size(size, sizes[i], call.ranges());
    if (!same && size.is_integer() && !size.is_integer(1) && sizes[i].is_integer())
      call.fail("TSC-O020",
                "aten.expand: dimension " + std::to_string(i) + " of " +
                    print_sizes(self.layout.sizes) + " cannot become " + symbolic::print(sizes[i]),
                "only dimensions of size 1 expand");
    if (fresh) // PyTorch: the stride that the dimension would have, 0 once it is broadcast
      strides[i] = Expr(0);
    else if (same || !size.is_integer(1))
      strides[i] = self.layout.strides[i - added];
  }
  // Added dimensions of size 1 continue the strides of what follows.
  for (size_t i = added; i-- > 0;)
    if (sizes[i].is_integer(1) && self.layout.rank() > 0)
      strides[i] = i + 1 < sizes.size() ? sizes[i + 1] * strides[i + 1] : Expr(1);
  return view_of(self, sizes, strides, self.layout.offset);
}

/// -1 stands for the size that the dimension has.
Argument expand(GraphBuilder &builder, const Call &call) {
  std::vector<Expr> sizes = expand_value(call).tensor()->layout.sizes;
  return builder.keep(call, {call["self"], sizes_argument(sizes)});
}

Value unsqueeze_value(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  size_t rank = self.layout.rank();
  size_t dim = normalize_dim(call, call.integer("dim"), rank + 1);
  std::vector<Expr> sizes = self.layout.sizes, strides = self.layout.strides;
  Expr stride = dim < rank ? sizes[dim] * strides[dim] : Expr(1);
  sizes.insert(sizes.begin() + static_cast<ptrdiff_t>(dim), Expr(1));
  strides.insert(strides.begin() + static_cast<ptrdiff_t>(dim), stride);
  return view_of(self, sizes, strides, self.layout.offset);
}

Value squeeze_value(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  std::vector<bool> drop(self.layout.rank() + 1, false);
  for (int64_t dim : call.integers("dim"))
    drop[normalize_dim(call, dim, self.layout.rank())] = true;
  std::vector<Expr> sizes, strides;
  for (size_t i = 0; i < self.layout.rank(); ++i) {
    if (drop[i] && self.layout.sizes[i].is_integer(1))
      continue;
    sizes.push_back(self.layout.sizes[i]);
    strides.push_back(self.layout.strides[i]);
  }
  return view_of(self, sizes, strides, self.layout.offset);
}

/// A size that may be 1 is taken not to be.
Argument squeeze(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  for (int64_t dim : call.integers("dim")) {
    if (self.layout.rank() == 0)
      break;
    const Expr size = self.layout.sizes[normalize_dim(call, dim, self.layout.rank())];
    if (!size.is_integer() && !graph::depends_on_data(size))
      assert_condition(builder, decided(builder, graph::unequal(size, 1)),
                       call.node().target + ": size " + symbolic::print(size) + " is not 1");
  }
  return builder.keep(call);
}

Value slice_value(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  SliceBounds bounds = slice_bounds(call, self.layout.sizes);
  std::vector<Expr> sizes = self.layout.sizes, strides = self.layout.strides;
  sizes[bounds.dim] = bounds.length;
  Expr offset = self.layout.offset + bounds.start * strides[bounds.dim];
  strides[bounds.dim] = strides[bounds.dim] * bounds.step;
  return view_of(self, sizes, strides, offset);
}

Value select_value(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  size_t dim = existing_dim(call, call.integer("dim"), self.layout.rank());
  Expr index = call.size("index"), size = self.layout.sizes[dim];
  if (index.is_integer() && size.is_integer() &&
      (index.value() >= size.value() || index.value() < -size.value()))
    call.fail("TSC-O025",
              "aten.select: index " + symbolic::print(index) + " is outside size " +
                  symbolic::print(size),
              "choose an index that the dimension has");
  if (symbolic::bounds(index, call.ranges()).high < 0)
    index = index + size;
  std::vector<Expr> sizes = self.layout.sizes, strides = self.layout.strides;
  Expr offset = self.layout.offset + index * strides[dim];
  sizes.erase(sizes.begin() + static_cast<ptrdiff_t>(dim));
  strides.erase(strides.begin() + static_cast<ptrdiff_t>(dim));
  return view_of(self, sizes, strides, offset);
}

/// Of symbolic sizes: they say whether there is such an element when they are known.
Argument select(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const size_t dim = existing_dim(call, call.integer("dim"), self.layout.rank());
  const Expr index = call.size("index"), size = self.layout.sizes[dim];
  const bool is_known = index.is_integer() && size.is_integer();
  if (!is_known && !graph::depends_on_data(index) && !graph::depends_on_data(size))
    assert_condition(
        builder,
        decided(builder, symbolic::minimum(graph::less(index, size),
                                           graph::less_or_equal(Expr(0) - size, index))),
        call.node().target + ": index " + symbolic::print(index) + " is outside size " +
            symbolic::print(size));
  return builder.keep(call);
}

Value as_strided_value(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  Expr offset = call.has("storage_offset") ? call.size("storage_offset") : self.layout.offset;
  std::vector<Expr> sizes = call.sizes("size"), strides = call.sizes("stride");
  require_strides(call, sizes, strides);
  return view_of(self, std::move(sizes), std::move(strides), offset);
}

/// Of the whole memory that `self` is a part of, and within it.
Argument as_strided(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const std::vector<Expr> sizes = call.sizes("size"), strides = call.sizes("stride");
  const Expr offset = call.has("storage_offset") ? call.size("storage_offset") : self.layout.offset;
  const graph::NodeId whole = chain_of_views(builder.graph(), call["self"].node()->id).back();
  const TensorMeta memory = *builder.graph().node(whole).value->tensor();
  require_within(builder, call, {sizes, strides, offset}, memory.layout.storage_size());
  if (builder.graph().node(whole).kind == graph::NodeKind::placeholder &&
      !memory.layout.offset.is_integer(0))
    require_behind_start(builder, call, {sizes, strides, offset}, memory.layout.offset);
  if (tensor::size_in_bytes(memory.dtype) != tensor::size_in_bytes(self.dtype))
    call.refuse("TSC-O002", call.node().target + " of bits that are seen in another element size",
                "take the strided view first, or copy what view.dtype gives");
  const Arguments rest = {sizes_argument(sizes), sizes_argument(strides), size_argument(offset)};
  const auto of = [&](graph::NodeId id) {
    return Arguments{graph::NodeRef{id}, rest[0], rest[1], rest[2]};
  };
  if (memory.dtype == self.dtype)
    return builder.keep(call, of(whole));
  return builder.call("aten.view.dtype",
                      {builder.emit("aten.as_strided.default", of(whole)), self.dtype});
}

/// What resize_ makes of a tensor whose memory is large enough: the same memory from the same
/// element on, in the order of `memory_format`; a tensor that has the sizes stays as it is.
Value resize_value(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  const bool by_other = call.schema().parameters[1].name == "the_template";
  const std::vector<Expr> sizes =
      by_other ? call.tensor("the_template").layout.sizes : call.sizes("size");
  const auto *format = std::get_if<graph::MemoryFormat>(&call["memory_format"].value);
  if (sizes == self.layout.sizes && !format)
    return view_of(self, sizes, self.layout.strides, self.layout.offset);
  tensor::Layout layout = tensor::contiguous_layout(sizes);
  if (format && *format == graph::MemoryFormat::preserve && by_other) {
    // resize_as_ takes the template's suggest_memory_format(): channels last, or contiguous.
    if (is_channels_last(call.tensor("the_template").layout))
      layout.strides = strides_in_format(call, layout,
                                         sizes.size() == 5 ? graph::MemoryFormat::channels_last_3d
                                                           : graph::MemoryFormat::channels_last);
  } else if (format)
    layout.strides = strides_in_format(call, layout, *format);
  return view_of(self, sizes, layout.strides, self.layout.offset);
}

Argument resize(GraphBuilder &builder, const Call &call) {
  const tensor::Layout to = resize_value(call).tensor()->layout;
  const TensorMeta self = call.tensor("self");
  if (to == self.layout)
    return call["self"];
  const graph::NodeId whole = chain_of_views(builder.graph(), call["self"].node()->id).back();
  const Expr memory = builder.graph().node(whole).value->tensor()->layout.storage_size();
  if (!symbolic::known_less_equal(to.storage_size(), memory, builder.ranges()))
    call.refuse("TSC-O070",
                call.node().target + " gives a tensor other memory: " + print_sizes(to.sizes) +
                    " in place of " + print_sizes(self.layout.sizes),
                "make a new tensor instead: reshape, narrow, torch.empty or clone");
  return builder.call("aten.as_strided.default",
                      {call["self"], sizes_argument(to.sizes), sizes_argument(to.strides),
                       size_argument(to.offset)});
}

Value diagonal_value(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  size_t rank = self.layout.rank();
  size_t dim1 = existing_dim(call, call.integer("dim1"), rank);
  size_t dim2 = existing_dim(call, call.integer("dim2"), rank);
  if (dim1 == dim2)
    call.fail("TSC-O024", call.node().target + ": the two dimensions are one", "name two");
  int64_t shift = call.integer("offset");
  Expr rows = self.layout.sizes[dim1], columns = self.layout.sizes[dim2];
  Expr length = shift >= 0 ? symbolic::minimum(rows, columns - Expr(shift))
                           : symbolic::minimum(rows + Expr(shift), columns);
  length = symbolic::simplify(symbolic::maximum(length, Expr(0)), call.ranges());
  Expr offset = self.layout.offset;
  if (!length.is_integer(0))
    offset += shift >= 0 ? Expr(shift) * self.layout.strides[dim2]
                         : Expr(-shift) * self.layout.strides[dim1];
  std::vector<Expr> sizes, strides;
  for (size_t i = 0; i < rank; ++i) {
    if (i == dim1 || i == dim2)
      continue;
    sizes.push_back(self.layout.sizes[i]);
    strides.push_back(self.layout.strides[i]);
  }
  sizes.push_back(length);
  strides.push_back(self.layout.strides[dim1] + self.layout.strides[dim2]);
  return view_of(self, sizes, strides, offset);
}

/// Windows of `size` elements, `step` apart, in a last dimension of their own: memory seen twice
/// where they overlap.
Value unfold_value(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  const size_t rank = self.layout.rank();
  const size_t dim = normalize_dim(call, call.integer("dimension"), rank);
  const Expr length = call.size("size"), step = call.size("step");
  std::vector<Expr> sizes = self.layout.sizes, strides = self.layout.strides;
  const Expr extent = rank == 0 ? Expr(1) : sizes[dim];
  if (step.is_integer() && step.value() < 1)
    call.fail("TSC-O026", call.node().target + ": the step is " + symbolic::print(step),
              "use a positive step");
  if (length.is_integer() && extent.is_integer() &&
      (length.value() < 0 || length.value() > extent.value()))
    call.fail("TSC-O025",
              call.node().target + ": a window of " + symbolic::print(length) +
                  " is outside size " + symbolic::print(extent),
              "choose a window that fits");
  strides.push_back(rank == 0 ? Expr(1) : strides[dim]);
  sizes.push_back(length);
  if (rank > 0) {
    const Expr count = symbolic::floor_div(extent - length, step) + Expr(1);
    sizes[dim] = symbolic::simplify(count, call.ranges());
    strides[dim] = strides[dim] * step;
  }
  return view_of(self, sizes, strides, self.layout.offset);
}

/// A place that counts from the end if it is negative. Of `x[-n:]` the trace has decided that n is
/// no 0; which sign a difference of sizes has is known when they are. What the data decides has the
/// sign that the trace has seen.
Expr counted_from_front(const Call &call, Expr value, Expr size) {
  const symbolic::Interval interval = symbolic::bounds(value, call.ranges());
  if (graph::depends_on_data(value))
    return interval.high < 0 ? value + size : value;
  return interval.low >= 0    ? value
         : interval.high <= 0 ? value + size
                              : value + size * graph::less(value, 0);
}

} // namespace

SliceBounds slice_bounds(const Call &call, const std::vector<Expr> &sizes) {
  SliceBounds bounds;
  bounds.dim = existing_dim(call, call.integer("dim"), sizes.size());
  Expr size = sizes[bounds.dim];
  bounds.step = call.size("step");
  if (bounds.step.is_integer() && bounds.step.value() <= 0)
    call.fail("TSC-O026", call.node().target + ": the step is " + symbolic::print(bounds.step),
              "use a positive step");
  const auto in_front = [&](Expr value) {
    if (value.is_integer() && value.value() == INT64_MAX)
      return size; // "to the end"
    return counted_from_front(call, value, size);
  };
  auto clamp = [&](Expr value) {
    value = in_front(value);
    Expr clamped = symbolic::maximum(symbolic::minimum(value, size), Expr(0));
    return symbolic::simplify(clamped, call.ranges());
  };
  if (call.has("start") && call.has("end")) {
    const Expr start = in_front(call.size("start")), end = in_front(call.size("end"));
    if (graph::depends_on_data(start) && !graph::depends_on_data(end - start)) {
      bounds.start = start;
      bounds.end = end;
      bounds.length = symbolic::maximum(symbolic::ceil_div(end - start, bounds.step), Expr(0));
      bounds.length = symbolic::simplify(bounds.length, call.ranges());
      return bounds;
    }
  }
  bounds.start = call.has("start") ? clamp(call.size("start")) : Expr(0);
  bounds.end = call.has("end") ? clamp(call.size("end")) : size;
  // An end within the dimension less a start beyond it is negative, too.
  Expr first = call.has("start") ? in_front(call.size("start")) : Expr(0);
  if (symbolic::bounds(first, call.ranges()).low < 0)
    first = bounds.start;
  Expr length = symbolic::ceil_div(bounds.end - first, bounds.step);
  bounds.length = symbolic::simplify(symbolic::maximum(length, Expr(0)), call.ranges());
  return bounds;
}

void add_views(Table &table) {
  auto add = [&](std::string_view schema, ShapeRule shape, std::string_view key) {
    return table.add(schema).shape(std::move(shape)).effect(Effect::view).lowers(key);
  };
  add("view(Tensor(a) self, SymInt[] size) -> Tensor(a)", view_value, "view").decompose(view);
  table.add("_unsafe_view(Tensor self, SymInt[] size) -> Tensor")
      .shape(view_value)
      .effect(Effect::view)
      .decompose(view);
  add("permute(Tensor(a) self, int[] dims) -> Tensor(a)", permute_value, "permute");
  add("expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)", expand_value,
      "expand")
      .decompose(expand);
  add("unsqueeze(Tensor(a) self, int dim) -> Tensor(a)", unsqueeze_value, "unsqueeze");
  add("squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)", squeeze_value, "squeeze")
      .decompose(squeeze);
  add("slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt "
      "step=1) -> "
      "Tensor(a)",
      slice_value, "slice");
  add("select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)", select_value, "select")
      .decompose(select);
  add("as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> "
      "Tensor(a)",
      as_strided_value, "as_strided")
      .decompose(as_strided);
  table
      .add(
          "resize(Tensor(a) self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor(a)")
      .shape(resize_value)
      .effect(Effect::view)
      .decompose(resize);
  table
      .add("resize_as(Tensor(a) self, Tensor the_template, *, MemoryFormat? memory_format=None) -> "
           "Tensor(a)")
      .shape(resize_value)
      .effect(Effect::view)
      .decompose(resize);
  add("diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)", diagonal_value,
      "diagonal");
  add("unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)", unfold_value,
      "unfold");
}

} // namespace tsc::ops
