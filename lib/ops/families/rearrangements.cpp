// Elements in another order: pixel and channel shuffles, stacks by name, rotations, diagonals,
// index grids.
#include "ops/table/builder.h"
#include "ops/table/memory_format.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <algorithm>
#include <numeric>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

constexpr std::string_view kReshape = "aten.reshape.default", kPermute = "aten.permute.default",
                           kCat = "aten.cat.default";

Argument reshape(GraphBuilder &builder, const Argument &x, const Sizes &sizes) {
  return builder.call(kReshape, {x, sizes_argument(sizes)});
}

Argument counting(GraphBuilder &builder, Expr count, tensor::Device device, DType dtype) {
  return builder.call("aten.arange.default", {size_argument(count)},
                      {{"dtype", dtype}, {"device", device}});
}

/// [.., c r^2, h, w] to [.., c, h r, w r], or back.
Argument pixel_shuffle(GraphBuilder &builder, const Call &call, bool back) {
  Sizes sizes = call.tensor("self").layout.sizes;
  int64_t r = call.integer(call.schema().parameters[1].name);
  size_t lead = sizes.size() < 3 ? 0 : sizes.size() - 3;
  Expr channels = sizes.size() < 3 ? Expr(0) : sizes[lead];
  bool fits = sizes.size() >= 3 && r >= 1;
  auto divides = [&](Expr size, int64_t by) {
    return !size.is_integer() || size.value() % by == 0;
  };
  if (fits)
    fits = back ? divides(sizes[lead + 1], r) && divides(sizes[lead + 2], r)
                : divides(channels, r * r);
  if (!fits)
    call.fail("TSC-O100",
              call.node().target + " of sizes " + print_sizes(sizes) + " by " + std::to_string(r),
              back ? "make height and width multiples of the factor"
                   : "make the channels a multiple of the factor squared");
  Sizes apart(sizes.begin(), sizes.begin() + static_cast<ptrdiff_t>(lead)), merged = apart;
  std::vector<size_t> order(lead);
  std::iota(order.begin(), order.end(), size_t{0});
  Expr height = sizes[lead + 1], width = sizes[lead + 2], factor(r);
  auto divided = [&](Expr size, Expr by) {
    return symbolic::simplify(symbolic::floor_div(size, by), call.ranges());
  };
  if (back) {
    apart.insert(apart.end(),
                 {channels, divided(height, factor), factor, divided(width, factor), factor});
    for (size_t offset : {0, 2, 4, 1, 3})
      order.push_back(lead + offset);
    merged.insert(merged.end(),
                  {channels * factor * factor, divided(height, factor), divided(width, factor)});
  } else {
    apart.insert(apart.end(), {divided(channels, factor * factor), factor, factor, height, width});
    for (size_t offset : {0, 3, 1, 4, 2})
      order.push_back(lead + offset);
    merged.insert(merged.end(),
                  {divided(channels, factor * factor), height * factor, width * factor});
  }
  Argument x = reshape(builder, call["self"], apart);
  x = builder.call(kPermute, {x, ints_argument(order)});
  return reshape(builder, x, merged);
}

/// [n, groups, c / groups, ..] with the middle two exchanged.
Argument channel_shuffle(GraphBuilder &builder, const Call &call) {
  Sizes sizes = call.tensor("self").layout.sizes, apart = sizes;
  Expr groups = call.size("groups");
  if (sizes.size() < 3)
    call.fail("TSC-O100", call.node().target + " of sizes " + print_sizes(sizes),
              "pass [batch, channels, ..]");
  Expr each = symbolic::simplify(symbolic::floor_div(sizes[1], groups), call.ranges());
  apart[1] = groups;
  apart.insert(apart.begin() + 2, each);
  Argument x = reshape(builder, call["self"], apart);
  std::vector<size_t> order(apart.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::swap(order[1], order[2]);
  x = builder.call(kPermute, {x, ints_argument(order)});
  return reshape(builder, x, sizes);
}

/// At least `rank` dimensions: vectors become rows, matrices get a last dimension.
Argument at_least(GraphBuilder &builder, const Argument &x, size_t rank) {
  Sizes sizes = builder.meta(x).layout.sizes;
  if (sizes.size() >= rank)
    return x;
  if (sizes.empty())
    sizes.push_back(Expr(1));
  if (sizes.size() == 1 && rank >= 2)
    sizes.insert(sizes.begin(), Expr(1));
  if (sizes.size() == 2 && rank >= 3)
    sizes.push_back(Expr(1));
  return builder.call("aten.view.default", {x, sizes_argument(sizes)});
}

const Arguments &tensors_of(const Call &call) {
  const Arguments *list = call["tensors"].list();
  if (!list || list->empty())
    call.fail("TSC-O044", call.node().target + " of no tensors", "pass one or more");
  return *list;
}

Argument joined(GraphBuilder &builder, const Call &call, size_t rank, size_t dim) {
  Arguments parts;
  for (const Argument &item : tensors_of(call))
    parts.push_back(at_least(builder, item, rank));
  if (rank == 1 && builder.meta(parts[0]).layout.rank() > 1)
    dim = 1; // hstack joins matrices by columns
  return builder.call(kCat, {parts, static_cast<int64_t>(dim)});
}

Argument column_stack(GraphBuilder &builder, const Call &call) {
  Arguments parts;
  for (const Argument &item : tensors_of(call)) {
    Sizes sizes = builder.meta(item).layout.sizes;
    parts.push_back(sizes.size() <= 1 ? reshape(builder, item, {symbolic::numel(sizes), Expr(1)})
                                      : item);
  }
  return builder.call(kCat, {parts, 1});
}

/// The operands along the diagonal, zeros elsewhere.
Argument block_diag(GraphBuilder &builder, const Call &call) {
  Arguments matrices;
  Expr columns(0), before(0);
  for (const Argument &item : tensors_of(call)) {
    matrices.push_back(at_least(builder, item, 2));
    columns += builder.meta(matrices.back()).layout.sizes[1];
  }
  Arguments rows;
  for (const Argument &matrix : matrices) {
    Expr width = builder.meta(matrix).layout.sizes[1];
    Argument pad = sizes_argument({before, columns - before - width});
    rows.push_back(builder.call("aten.constant_pad_nd.default", {matrix, pad}));
    before += width;
  }
  return builder.call(kCat, {rows, 0});
}

/// One tensor a dimension, each expanded to all: "ij" or, by default for two and more, the same;
/// "xy" exchanges the first two dimensions.
Argument meshgrid(GraphBuilder &builder, const Call &call) {
  const Arguments &tensors = tensors_of(call);
  bool exchange = call.schema().parameters.size() > 1 &&
                  call.string("indexing").value_or("ij") == "xy" && tensors.size() >= 2;
  Sizes all;
  for (const Argument &item : tensors)
    all.push_back(symbolic::numel(builder.meta(item).layout.sizes));
  if (exchange)
    std::swap(all[0], all[1]);
  Arguments results;
  for (size_t i = 0; i < tensors.size(); ++i) {
    size_t dim = exchange && i < 2 ? 1 - i : i;
    Sizes own(all.size(), Expr(1));
    own[dim] = all[dim];
    Argument x = builder.call("aten.view.default", {tensors[i], sizes_argument(own)});
    results.push_back(builder.call("aten.expand.default", {x, sizes_argument(all)}));
  }
  return results;
}

Argument cartesian_product(GraphBuilder &builder, const Call &call) {
  const Arguments &tensors = tensors_of(call);
  if (tensors.size() == 1)
    return tensors[0];
  Argument grids = builder.call("aten.meshgrid.default", {tensors});
  Arguments columns;
  for (const Argument &grid : *grids.list())
    columns.push_back(builder.call(kReshape, {grid, Arguments{-1}}));
  return builder.call("aten.stack.default", {columns, 1});
}

Argument rotate(GraphBuilder &builder, const Call &call) {
  std::vector<int64_t> dims = call.integers("dims");
  size_t rank = call.tensor("self").layout.rank();
  if (dims.size() != 2)
    call.fail("TSC-O024", "aten.rot90: the plane needs two dimensions", "pass two dimensions");
  size_t a = normalize_dim(call, dims[0], rank), b = normalize_dim(call, dims[1], rank);
  int64_t quarter = ((call.integer("k") % 4) + 4) % 4;
  auto flipped = [&](const Argument &x, std::vector<size_t> which) {
    return builder.call("aten.flip.default", {x, ints_argument(which)});
  };
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  std::swap(order[a], order[b]);
  Argument order_argument = ints_argument(order);
  if (quarter == 1)
    return builder.call(kPermute, {flipped(call["self"], {b}), order_argument});
  if (quarter == 2)
    return flipped(call["self"], {a, b});
  if (quarter == 3)
    return builder.call(kPermute, {flipped(call["self"], {a}), order_argument});
  return builder.call("aten.clone.default", {call["self"]});
}

/// A vector's elements on the diagonal that `offset` names of dimensions dim1 and dim2.
Argument diagonal_embedding(GraphBuilder &builder, const Call &call, int64_t offset, int64_t dim1,
                            int64_t dim2, const Argument &x) {
  TensorMeta meta = builder.meta(x);
  size_t rank = meta.layout.rank() + 1;
  size_t first = normalize_dim(call, dim1, rank), second = normalize_dim(call, dim2, rank);
  if (first == second)
    call.fail("TSC-O024", call.node().target + ": the two dimensions are one", "name two");
  if (first > second) {
    std::swap(first, second);
    offset = -offset;
  }
  Expr length = meta.layout.sizes.back();
  Expr side = length + Expr(offset < 0 ? -offset : offset);
  // Row r holds element r (+ offset) in the one column that is its own.
  Argument padded = x;
  if (offset != 0)
    padded = builder.call("aten.constant_pad_nd.default",
                          {x, offset > 0 ? Arguments{0, offset} : Arguments{-offset, 0}});
  Argument spread = builder.call("aten.unsqueeze.default", {padded, -1});
  Argument rows = builder.call("aten.unsqueeze.default",
                               {counting(builder, side, meta.device, DType::i64), -1});
  Argument columns = counting(builder, side, meta.device, DType::i64);
  Argument own = builder.call("aten.eq.Tensor", {builder.call(kSub, {columns, rows}), offset});
  Argument zero = tensor::is_floating(meta.dtype) ? Argument(0.0)
                  : meta.dtype == DType::boolean  ? Argument(false)
                                                  : Argument(0);
  Argument matrix = builder.call(kWhere, {own, spread, zero}); // [.., side, side]
  return builder.call("aten.movedim.intlist",
                      {matrix, Arguments{-2, -1},
                       Arguments{static_cast<int64_t>(first), static_cast<int64_t>(second)}});
}

Argument diag(GraphBuilder &builder, const Call &call) {
  size_t rank = call.tensor("self").layout.rank();
  if (rank == 1)
    return diagonal_embedding(builder, call, call.integer("diagonal"), 0, 1, call["self"]);
  Argument diagonal = builder.call("aten.diagonal.default", {call["self"], call["diagonal"], 0, 1});
  return builder.call("aten.clone.default", {diagonal});
}

/// Rows and columns of a triangle's elements, in row order. Row r holds `counts[r]` of them; the
/// row of element p is the number of later rows that start at or before p.
Argument triangle_indices(GraphBuilder &builder, const Call &call, bool lower) {
  int64_t rows = call.integer("row"), columns = call.integer("col"),
          offset = call.integer("offset");
  DType dtype = call.dtype("dtype").value_or(DType::i64);
  tensor::Device device = device_argument(call, {});
  auto count = [&](int64_t r) {
    int64_t end = std::clamp<int64_t>(r + offset + (lower ? 1 : 0), 0, columns);
    return lower ? end : columns - end;
  };
  int64_t total = 0;
  for (int64_t r = 0; r < rows; ++r)
    total += count(r);
  Argument row_numbers = counting(builder, Expr(rows), device, DType::i64);
  Argument ends = builder.call(kAdd, {row_numbers, offset + (lower ? 1 : 0)});
  ends = builder.call("aten.clamp.default", {ends, 0, columns});
  Argument counts = lower ? ends : builder.call("aten.rsub.Scalar", {ends, columns});
  Argument past = builder.call("aten.cumsum.default", {counts, 0});
  Argument starts = builder.call(kSub, {past, counts});
  Argument element = counting(builder, Expr(total), device, DType::i64);
  Argument column = builder.call("aten.unsqueeze.default", {element, -1});
  Argument behind = builder.call("aten.ge.Tensor", {column, past});
  Argument row = builder.call("aten.sum.dim_IntList", {behind, Arguments{1}});
  Argument start = builder.call("aten.index.Tensor", {starts, Arguments{row}});
  Argument within = builder.call(kSub, {element, start});
  if (!lower)
    within =
        builder.call(kAdd, {within, builder.call("aten.index.Tensor", {ends, Arguments{row}})});
  Argument pair = builder.call("aten.stack.default", {Arguments{row, within}, 0});
  return dtype == DType::i64 ? pair : builder.call(kConvert, {pair, dtype});
}

void add_shuffles(Table &table) {
  table.add("pixel_shuffle(Tensor self, int upscale_factor) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return pixel_shuffle(builder, call, false);
      });
  table.add("pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor")
      .decompose(in_format_of("self", [](GraphBuilder &builder, const Call &call) {
        return pixel_shuffle(builder, call, true);
      }));
  for (std::string_view name : {"channel_shuffle", "native_channel_shuffle"})
    table.add(keep_text(std::string(name) + "(Tensor self, SymInt groups) -> Tensor"))
        .decompose(in_format_of("self", channel_shuffle));
}

void add_stacks(Table &table) {
  struct Form {
    std::string_view name;
    size_t rank, dim;
  };
  for (const Form &form :
       {Form{"hstack", 1, 0}, Form{"vstack", 2, 0}, Form{"row_stack", 2, 0}, Form{"dstack", 3, 2}})
    table.add(keep_text(std::string(form.name) + "(Tensor[] tensors) -> Tensor"))
        .decompose([form](GraphBuilder &builder, const Call &call) {
          return joined(builder, call, form.rank, form.dim);
        });
  table.add("column_stack(Tensor[] tensors) -> Tensor").decompose(column_stack);
  table.add("block_diag(Tensor[] tensors) -> Tensor").decompose(block_diag);
  table.add("cartesian_prod(Tensor[] tensors) -> Tensor")
      .effect(Effect::view) // of one tensor
      .decompose(cartesian_product);
  for (std::string_view rest : {"(Tensor[] tensors) -> Tensor[]",
                                ".indexing(Tensor[] tensors, *, str indexing) -> Tensor[]"})
    table.add(keep_text("meshgrid" + std::string(rest))).effect(Effect::view).decompose(meshgrid);
  table.add("broadcast_tensors(Tensor[] tensors) -> Tensor[]")
      .effect(Effect::view)
      .decompose([](GraphBuilder &builder, const Call &call) {
        std::vector<Sizes> shapes;
        for (const Argument &item : tensors_of(call))
          shapes.push_back(builder.meta(item).layout.sizes);
        Argument sizes = sizes_argument(broadcast(call, shapes));
        Arguments results;
        for (const Argument &item : tensors_of(call))
          results.push_back(builder.call("aten.expand.default", {item, sizes}));
        return results;
      });
  for (size_t rank : {1, 2, 3}) {
    std::string name = "atleast_" + std::to_string(rank) + "d";
    table.add(keep_text(name + "(Tensor(a) self) -> Tensor(a)"))
        .effect(Effect::view)
        .decompose([rank](GraphBuilder &builder, const Call &call) {
          return at_least(builder, call["self"], rank);
        });
    table.add(keep_text(name + ".Sequence(Tensor[] tensors) -> Tensor[]"))
        .effect(Effect::view)
        .decompose([rank](GraphBuilder &builder, const Call &call) {
          Arguments results;
          for (const Argument &item : tensors_of(call))
            results.push_back(at_least(builder, item, rank));
          return results;
        });
  }
}

void add_diagonals(Table &table) {
  table.add("diag(Tensor self, int diagonal=0) -> Tensor").decompose(diag);
  table.add("diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor")
      .decompose(contiguously([](GraphBuilder &builder, const Call &call) {
        return diagonal_embedding(builder, call, call.integer("offset"), call.integer("dim1"),
                                  call.integer("dim2"), call["self"]);
      }));
  table.add("diagflat(Tensor self, int offset=0) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        Argument flat = builder.call(kReshape, {call["self"], Arguments{-1}});
        return diagonal_embedding(builder, call, call.integer("offset"), 0, 1, flat);
      });
  for (bool lower : {true, false})
    table
        .add(keep_text(std::string(lower ? "tril" : "triu") +
                       "_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, Layout? "
                       "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"))
        .decompose([lower](GraphBuilder &builder, const Call &call) {
          return triangle_indices(builder, call, lower);
        });
}

void add_turns(Table &table) {
  table.add("rot90(Tensor self, int k=1, int[] dims=[0,1]) -> Tensor").decompose(rotate);
  for (bool columns : {true, false})
    table.add(columns ? "fliplr(Tensor self) -> Tensor" : "flipud(Tensor self) -> Tensor")
        .decompose([columns](GraphBuilder &builder, const Call &call) {
          return builder.call("aten.flip.default", {call["self"], Arguments{columns ? 1 : 0}});
        });
}

} // namespace

void add_rearrangements(Table &table) {
  add_shuffles(table);
  add_stacks(table);
  add_diagonals(table);
  add_turns(table);
}

} // namespace tsc::ops
