// cat, stack, flip, roll, repeat.
#include "ops/table/memory_format.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <algorithm>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

/// A 1-D tensor without elements joins anything.
bool is_legacy_empty(const TensorMeta &meta) {
  return meta.layout.rank() == 1 && meta.layout.sizes[0].is_integer(0);
}

bool all_channels_last(const std::vector<TensorMeta> &tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const TensorMeta &meta) { return is_channels_last(meta.layout); });
}

Value cat_value(const Call &call) {
  std::vector<TensorMeta> tensors = call.tensors("tensors");
  std::vector<ElementwiseOperand> operands;
  const TensorMeta *first = nullptr;
  for (const TensorMeta &meta : tensors) {
    operands.push_back({&meta, int64_t{0}});
    if (!first && !is_legacy_empty(meta))
      first = &meta;
  }
  if (tensors.empty())
    call.fail("TSC-O044", "aten.cat of no tensors", "pass one or more");
  DType dtype = promote_operands(operands);
  if (!first)
    return contiguous_value(dtype, {Expr(0)}, tensors[0].device);
  size_t dim = normalize_dim(call, call.integer("dim"), first->layout.rank());
  Sizes sizes = first->layout.sizes;
  if (sizes.empty())
    call.fail("TSC-O044", "aten.cat of tensors without dimensions", "use torch.stack");
  Expr total(0);
  for (const TensorMeta &meta : tensors) {
    if (is_legacy_empty(meta))
      continue;
    bool fits = meta.layout.rank() == sizes.size();
    for (size_t i = 0; fits && i < sizes.size(); ++i)
      fits = i == dim || !meta.layout.sizes[i].is_integer() || !sizes[i].is_integer() ||
             meta.layout.sizes[i] == sizes[i];
    if (!fits)
      call.fail("TSC-O044",
                "aten.cat: sizes " + print_sizes(meta.layout.sizes) + " and " + print_sizes(sizes) +
                    " differ outside dimension " + std::to_string(dim),
                "make all other sizes equal");
    total += meta.layout.sizes[dim];
  }
  sizes[dim] = total;
  if (all_channels_last(tensors)) // so has the result
    return tensor_value(dtype, sizes, channels_last_strides(sizes), first->device);
  return contiguous_value(dtype, sizes, first->device);
}

/// Without legacy empties; one tensor alone is a copy.
Argument cat(GraphBuilder &builder, const Call &call) {
  Arguments tensors;
  const Arguments *given = call["tensors"].list();
  for (const Argument &item : *given)
    if (!is_legacy_empty(builder.meta(item)))
      tensors.push_back(item);
  if (tensors.size() == given->size() && call.node().target == "aten.cat.default" &&
      tensors.size() > 1)
    return builder.keep(call);
  const Value value = cat_value(call);
  if (tensors.empty())
    return builder.call("aten.clone.default",
                        {convert(builder, given->front(), value.tensor()->dtype)});
  if (tensors.size() == 1) {
    const Argument only = convert(builder, tensors[0], value.tensor()->dtype);
    return builder.call("aten.clone.default", {only},
                        {{"memory_format", graph::MemoryFormat::contiguous}});
  }
  // The dtype of what is empty counts.
  tensors.front() = convert(builder, tensors.front(), value.tensor()->dtype);
  return builder.emit("aten.cat.default", {tensors, call["dim"]});
}

Argument stack(GraphBuilder &builder, const Call &call) {
  std::vector<TensorMeta> metas = call.tensors("tensors");
  if (metas.empty())
    call.fail("TSC-O044", "aten.stack of no tensors", "pass one or more");
  int64_t dim =
      static_cast<int64_t>(normalize_dim(call, call.integer("dim"), metas[0].layout.rank() + 1));
  // PyTorch's goes through cat, whose order is kept: channels last apart from the new dimension.
  Sizes sizes = metas[0].layout.sizes;
  const bool are_equal = std::all_of(metas.begin(), metas.end(), [&](const TensorMeta &meta) {
    return meta.layout.sizes == sizes; // else cat refuses the unsqueezed ones
  });
  if (static_cast<size_t>(dim) < sizes.size() && are_equal && all_channels_last(metas)) {
    const Argument joined = builder.call("aten.cat.default", {call["tensors"], dim});
    sizes.insert(sizes.begin() + static_cast<ptrdiff_t>(dim),
                 Expr(static_cast<int64_t>(metas.size())));
    return builder.call("aten.view.default", {joined, sizes_argument(sizes)});
  }
  Arguments parts;
  for (const Argument &item : *call["tensors"].list())
    parts.push_back(builder.call("aten.unsqueeze.default", {item, dim}));
  return builder.call("aten.cat.default", {parts, dim});
}

Value flip_value(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  for (int64_t dim : call.integers("dims"))
    normalize_dim(call, dim, self.layout.rank());
  return tensor_value(self.dtype, self.layout.sizes, preserved_strides(self.layout, call.ranges()),
                      self.device);
}

Value rotate_value(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  return contiguous_value(self.dtype, self.layout.sizes, self.device);
}

/// The last `shift` elements move to the front, dimension by dimension: positions wrap around while
/// they are read. Whole runs of the innermost dimension stay runs if its two parts are joined.
Argument roll(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const Sizes shifts = call.sizes("shifts");
  std::vector<int64_t> dims = call.integers("dims");
  Argument x = call["self"];
  Sizes sizes = self.layout.sizes;
  if (dims.empty()) {
    x = builder.call("aten.reshape.default", {x, Arguments{-1}});
    dims.assign(shifts.size(), 0);
    sizes = {symbolic::numel(sizes)};
  }
  for (size_t i = 0; i < dims.size() && i < shifts.size(); ++i) {
    size_t d = normalize_dim(call, dims[i], sizes.size());
    int64_t dim = static_cast<int64_t>(d);
    if (sizes[d].is_integer(0))
      continue;
    const Expr shift = symbolic::simplify(symbolic::mod(shifts[i], sizes[d]), call.ranges());
    if (shift.is_integer(0))
      continue;
    constexpr int64_t kRun = 8;
    const bool keeps_runs = d + 1 == sizes.size() && symbolic::known_multiple_of(shift, kRun) &&
                            symbolic::known_multiple_of(sizes[d], kRun);
    if (!keeps_runs) {
      x = builder.call("tsc.rotate.default", {x, dim, size_argument(sizes[d] - shift)});
      continue;
    }
    Argument split = size_argument(sizes[d] - shift), end = size_argument(sizes[d]);
    Argument tail = builder.call("aten.slice.Tensor", {x, dim, split, end});
    Argument head = builder.call("aten.slice.Tensor", {x, dim, 0, split});
    x = builder.call("aten.cat.default", {Arguments{tail, head}, dim});
  }
  if (call.integers("dims").empty())
    return builder.call("aten.reshape.default", {x, sizes_argument(self.layout.sizes)});
  return x == call["self"] ? builder.call("aten.clone.default", {x}) : x;
}

/// [s0, s1] repeated (r0, r1) times: expand [1, s0, 1, s1] to [r0, s0, r1, s1], then merge.
Argument repeat(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  Sizes repeats = call.sizes("repeats"), sizes = self.layout.sizes;
  if (repeats.size() < sizes.size())
    call.fail("TSC-O045", "aten.repeat: fewer repeats than dimensions",
              "pass one repeat a dimension");
  sizes.insert(sizes.begin(), repeats.size() - sizes.size(), Expr(1));
  Sizes apart, expanded, merged;
  for (size_t i = 0; i < sizes.size(); ++i) {
    apart.push_back(Expr(1));
    apart.push_back(sizes[i]);
    expanded.push_back(repeats[i]);
    expanded.push_back(sizes[i]);
    merged.push_back(repeats[i] * sizes[i]);
  }
  Argument x = builder.call("aten.reshape.default", {call["self"], sizes_argument(apart)});
  x = builder.call("aten.expand.default", {x, sizes_argument(expanded)});
  x = builder.call("aten.clone.default", {x}, {{"memory_format", graph::MemoryFormat::contiguous}});
  return builder.call("aten.view.default", {x, sizes_argument(merged)});
}

Argument repeat_interleave(GraphBuilder &builder, const Call &call) {
  Argument x = call["self"];
  if (!call.has("dim"))
    x = builder.call("aten.reshape.default", {x, Arguments{-1}});
  Sizes sizes = builder.meta(x).layout.sizes;
  size_t dim = call.has("dim") ? existing_dim(call, call.integer("dim"), sizes.size()) : 0;
  Sizes expanded = sizes, merged = sizes;
  expanded.insert(expanded.begin() + static_cast<ptrdiff_t>(dim) + 1, call.size("repeats"));
  merged[dim] = sizes[dim] * call.size("repeats");
  x = builder.call("aten.unsqueeze.default", {x, static_cast<int64_t>(dim) + 1});
  x = builder.call("aten.expand.default", {x, sizes_argument(expanded)});
  x = builder.call("aten.clone.default", {x}, {{"memory_format", graph::MemoryFormat::contiguous}});
  return builder.call("aten.view.default", {x, sizes_argument(merged)});
}

/// Each tensor padded with zeros along `dim` to `num_chunks` equal chunks, a chunk's elements
/// flattened; chunks side by side.
Argument chunk_cat(GraphBuilder &builder, const Call &call) {
  const std::vector<TensorMeta> tensors = call.tensors("tensors");
  const int64_t chunks = call.integer("num_chunks");
  if (tensors.empty() || chunks < 1)
    call.fail("TSC-O044",
              call.node().target + " of " + std::to_string(tensors.size()) + " tensors in " +
                  std::to_string(chunks) + " chunks",
              "pass one or more of each");
  const size_t dim = existing_dim(call, call.integer("dim"), tensors.front().layout.rank());
  Arguments parts;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Argument x = call["tensors"].list()->at(i);
    const Sizes &sizes = tensors[i].layout.sizes;
    if (sizes.size() <= dim)
      call.fail("TSC-O021",
                call.node().target + ": no dimension " + std::to_string(dim) + " in " +
                    print_sizes(sizes),
                "name a dimension that all have");
    const Expr even = symbolic::ceil_div(sizes[dim], Expr(chunks)) * Expr(chunks);
    const Expr missing = symbolic::simplify(even - sizes[dim], builder.ranges());
    if (!missing.is_integer(0)) {
      Sizes pad(2 * (sizes.size() - dim), Expr(0));
      pad.back() = missing;
      x = builder.call("aten.constant_pad_nd.default", {x, sizes_argument(pad), 0});
    }
    Sizes shape(sizes.begin(), sizes.begin() + static_cast<ptrdiff_t>(dim));
    shape.emplace_back(chunks);
    shape.emplace_back(-1);
    parts.push_back(builder.call("aten.reshape.default", {x, sizes_argument(shape)}));
  }
  return builder.call("aten.cat.default", {parts, static_cast<int64_t>(dim) + 1});
}

} // namespace

void add_joining(Table &table) {
  for (std::string_view name : {"cat", "concat", "concatenate"}) {
    Row row = table.add(keep_text(std::string(name) + "(Tensor[] tensors, int dim=0) -> Tensor"));
    row.shape(cat_value).decompose(cat);
    if (name == "cat")
      row.lowers("cat");
  }
  table.add("stack(Tensor[] tensors, int dim=0) -> Tensor").decompose(stack);
  table.add("_chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor").decompose(chunk_cat);
  table.add("flip(Tensor self, int[] dims) -> Tensor").shape(flip_value).lowers("flip");
  table.add("tsc::rotate(Tensor self, int dim, SymInt first) -> Tensor")
      .shape(rotate_value)
      .lowers("rotate");
  table.add("roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor")
      .decompose(in_format_of("self", roll));
  table.add("repeat(Tensor self, SymInt[] repeats) -> Tensor").decompose(repeat);
  table.add("tile(Tensor self, SymInt[] dims) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        Sizes repeats = call.sizes("dims");
        size_t rank = call.tensor("self").layout.rank();
        if (repeats.size() < rank)
          repeats.insert(repeats.begin(), rank - repeats.size(), Expr(1));
        return builder.call("aten.repeat.default", {call["self"], sizes_argument(repeats)});
      });
  table
      .add("repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? "
           "output_size=None) -> "
           "Tensor")
      .decompose(repeat_interleave);
}

} // namespace tsc::ops
