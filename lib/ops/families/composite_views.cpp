// Views that are other views: transpose is permute, split is slices, reshape is view or a copy.
#include "graph/data_symbols.h"
#include "graph/indicators.h"
#include "ops/families/assertions.h"
#include "ops/table/builder.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <algorithm>
#include <numeric>

namespace tsc::ops {
namespace {

constexpr std::string_view kView = "aten.view.default", kPermute = "aten.permute.default",
                           kSlice = "aten.slice.Tensor", kSelect = "aten.select.int";

std::vector<size_t> identity_order(size_t rank) {
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

Argument transpose_dims(GraphBuilder &builder, const Call &call, int64_t first, int64_t second) {
  size_t rank = call.tensor("self").layout.rank();
  std::vector<size_t> order = identity_order(rank);
  size_t a = normalize_dim(call, first, rank), b = normalize_dim(call, second, rank);
  if (rank == 0)
    return call["self"];
  std::swap(order[a], order[b]);
  return builder.call(kPermute, {call["self"], ints_argument(order)});
}

void add_transposes(Table &table) {
  for (std::string_view name : {"transpose", "swapdims", "swapaxes"}) {
    bool axes = name == "swapaxes";
    std::string overload = name == "transpose" ? ".int" : "";
    std::string first = axes ? "axis0" : "dim0", second = axes ? "axis1" : "dim1";
    table
        .add(keep_text(std::string(name) + overload + "(Tensor(a) self, int " + first + ", int " +
                       second + ") -> Tensor(a)"))
        .effect(Effect::view)
        .decompose([first, second](GraphBuilder &builder, const Call &call) {
          return transpose_dims(builder, call, call.integer(first), call.integer(second));
        });
  }
  auto reversed = [](GraphBuilder &builder, const Call &call) {
    size_t rank = call.tensor("self").layout.rank();
    if (rank < 2)
      return call["self"];
    std::vector<size_t> order = identity_order(rank);
    return builder.call(kPermute, {call["self"], ints_argument({order.rbegin(), order.rend()})});
  };
  table.add("t(Tensor(a) self) -> Tensor(a)").effect(Effect::view).decompose(reversed);
  table.add("numpy_T(Tensor(a) self) -> Tensor(a)").effect(Effect::view).decompose(reversed);
  for (std::string_view name : {"mT", "mH", "matrix_H", "adjoint"})
    table.add(keep_text(std::string(name) + "(Tensor(a) self) -> Tensor(a)"))
        .effect(Effect::view)
        .decompose([conjugates = name != "mT"](GraphBuilder &builder, const Call &call) {
          const Argument turned = transpose_dims(builder, call, -2, -1);
          return conjugates ? builder.call("aten.conj.default", {turned}) : turned;
        });
  auto move = [](GraphBuilder &builder, const Call &call) {
    size_t rank = call.tensor("self").layout.rank();
    std::vector<int64_t> from = call.integers("source"), to = call.integers("destination");
    std::vector<std::optional<size_t>> slots(std::max<size_t>(rank, 1));
    std::vector<bool> moved(slots.size(), false);
    bool each_once = from.size() == to.size();
    for (size_t i = 0; i < from.size() && each_once; ++i) {
      const size_t source = normalize_dim(call, from[i], rank);
      std::optional<size_t> &slot = slots[normalize_dim(call, to[i], rank)];
      each_once = !slot && !moved[source];
      slot = source;
      moved[source] = true;
    }
    if (!each_once)
      call.fail("TSC-O024",
                call.node().target + ": source and destination do not name dimensions in pairs",
                "name each dimension that moves once, and a place of its own for it");
    if (rank == 0)
      return call["self"];
    size_t next = 0;
    std::vector<size_t> order;
    for (const std::optional<size_t> &slot : slots) {
      while (!slot && moved[next])
        ++next;
      order.push_back(slot ? *slot : next++);
    }
    return builder.call(kPermute, {call["self"], ints_argument(order)});
  };
  for (std::string_view name : {"movedim", "moveaxis"})
    for (std::string_view form :
         {".int(Tensor(a) self, int source, int destination) -> Tensor(a)",
          ".intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)"})
      table.add(keep_text(std::string(name) + std::string(form)))
          .effect(Effect::view)
          .decompose(move);
}

/// view() inserts the copy where strides need it.
Argument reshape_to(GraphBuilder &builder, const Call &call, const std::vector<Expr> &sizes) {
  const TensorMeta self = call.tensor("self");
  std::vector<Expr> resolved = resolve_view_sizes(call, self.layout.sizes, sizes);
  return builder.call(kView, {call["self"], sizes_argument(resolved)});
}

Argument flatten(GraphBuilder &builder, const Call &call) {
  std::vector<Expr> sizes = call.tensor("self").layout.sizes;
  if (sizes.empty())
    return reshape_to(builder, call, {Expr(1)});
  size_t start = normalize_dim(call, call.integer("start_dim"), sizes.size());
  size_t end = normalize_dim(call, call.integer("end_dim"), sizes.size());
  if (start > end)
    call.fail("TSC-O021", "aten.flatten: start_dim is after end_dim", "swap them");
  if (start == end)
    return call["self"];
  std::vector<Expr> result(sizes.begin(), sizes.begin() + static_cast<ptrdiff_t>(start));
  Expr merged(1);
  for (size_t i = start; i <= end; ++i)
    merged *= sizes[i];
  result.push_back(merged);
  result.insert(result.end(), sizes.begin() + static_cast<ptrdiff_t>(end) + 1, sizes.end());
  return reshape_to(builder, call, result);
}

Argument unflatten(GraphBuilder &builder, const Call &call) {
  std::vector<Expr> sizes = call.tensor("self").layout.sizes;
  size_t dim = existing_dim(call, call.integer("dim"), sizes.size());
  std::vector<Expr> inner = resolve_view_sizes(call, {sizes[dim]}, call.sizes("sizes"));
  sizes.erase(sizes.begin() + static_cast<ptrdiff_t>(dim));
  sizes.insert(sizes.begin() + static_cast<ptrdiff_t>(dim), inner.begin(), inner.end());
  return reshape_to(builder, call, sizes);
}

void add_reshapes(Table &table) {
  auto add = [&](std::string_view schema, Decomposition decomposition) {
    table.add(schema).effect(Effect::view).decompose(std::move(decomposition));
  };
  add("reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)",
      [](GraphBuilder &builder, const Call &call) {
        return reshape_to(builder, call, call.sizes("shape"));
      });
  add("_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)",
      [](GraphBuilder &builder, const Call &call) {
        const Argument result = reshape_to(builder, call, call.sizes("size"));
        const tensor::Layout layout = builder.meta(result).layout;
        const std::vector<Expr> strides = call.sizes("stride");
        for (size_t i = 0; i < layout.rank(); ++i)
          if (strides.size() != layout.rank() ||
              (strides[i] != layout.strides[i] && !layout.sizes[i].is_integer(1)))
            call.fail("TSC-O079",
                      call.node().target + " has strides " + print_sizes(strides) +
                          ", a view of these sizes has " + print_sizes(layout.strides),
                      "use as_strided for other strides");
        return result;
      });
  auto as_other = [](GraphBuilder &builder, const Call &call) {
    return reshape_to(builder, call, call.tensor("other").layout.sizes);
  };
  add("view_as(Tensor(a) self, Tensor other) -> Tensor(a)", as_other);
  add("reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)", as_other);
  add("flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)", flatten);
  add("unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)", unflatten);
  // contiguous().view(-1): what is not contiguous is copied, even where one stride would do.
  add("ravel(Tensor(a) self) -> Tensor(a)", [](GraphBuilder &builder, const Call &call) {
    const Argument self = builder.call("aten.contiguous.default", {call["self"]});
    const Expr count = symbolic::numel(call.tensor("self").layout.sizes);
    return builder.call(kView, {self, sizes_argument({count})});
  });
  add("expand_as(Tensor(a) self, Tensor other) -> Tensor(a)",
      [](GraphBuilder &builder, const Call &call) {
        return builder.call("aten.expand.default",
                            {call["self"], sizes_argument(call.tensor("other").layout.sizes)});
      });
  add("broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)",
      [](GraphBuilder &builder, const Call &call) {
        return builder.call("aten.expand.default", {call["self"], call["size"]});
      });
  add("squeeze(Tensor(a) self) -> Tensor(a)", [](GraphBuilder &builder, const Call &call) {
    std::vector<size_t> dims = identity_order(call.tensor("self").layout.rank());
    return builder.call("aten.squeeze.dims", {call["self"], ints_argument(dims)});
  });
  add("squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)",
      [](GraphBuilder &builder, const Call &call) {
        return builder.call("aten.squeeze.dims", {call["self"], Arguments{call["dim"]}});
      });
}

Argument slice_of(GraphBuilder &builder, const Call &call, int64_t dim, Expr start, Expr end) {
  return builder.call(kSlice, {call["self"], dim, size_argument(start), size_argument(end)});
}

/// A part of a dimension must lie in it; PyTorch's slices, which parts become, are cut instead.
void assert_inside(GraphBuilder &builder, const Call &call, Expr start, Expr length, Expr size) {
  const Expr holds = symbolic::minimum(
      symbolic::minimum(graph::less_or_equal(0, start), graph::less_or_equal(0, length)),
      graph::less_or_equal(start + length, size));
  if (graph::depends_on_data(holds))
    return; // held to the dimension when it is read
  assert_condition(builder, decided(builder, holds),
                   call.node().target + ": " + symbolic::print(length) + " elements from " +
                       symbolic::print(start) + " on are outside size " + symbolic::print(size));
}

Argument split_sizes(GraphBuilder &builder, const Call &call, const std::vector<Expr> &sizes) {
  const TensorMeta self = call.tensor("self");
  size_t dim = existing_dim(call, call.integer("dim"), self.layout.rank());
  Arguments parts;
  Expr start(0);
  for (Expr size : sizes) {
    if (!size.is_integer() || !start.is_integer())
      assert_inside(builder, call, start, size, self.layout.sizes[dim]);
    parts.push_back(slice_of(builder, call, static_cast<int64_t>(dim), start, start + size));
    start += size;
  }
  if (!taken_equal(call, start, self.layout.sizes[dim]))
    call.fail("TSC-O027",
              call.node().target + ": the parts hold " + symbolic::print(start) +
                  " elements, dimension " + std::to_string(dim) + " has " +
                  symbolic::print(self.layout.sizes[dim]),
              "make the parts sum to the dimension's size");
  return parts;
}

/// As many parts as the graph takes apart: that of the node's value in the file, or nothing.
std::optional<int64_t> recorded_parts(const Call &call) {
  const std::optional<graph::Value> &value = call.node().value;
  if (!value || !value->list())
    return std::nullopt;
  return static_cast<int64_t>(value->list()->size());
}

/// Pieces of `each` elements; the last may be shorter. Their number must be known: of sizes that
/// are symbols it is the one that the graph was exported with, to which the sizes are held.
Argument split_evenly(GraphBuilder &builder, const Call &call, Expr each) {
  const TensorMeta self = call.tensor("self");
  size_t dim = existing_dim(call, call.integer("dim"), self.layout.rank());
  Expr size = self.layout.sizes[dim];
  if (each.is_integer() && (each.value() < 0 || (each.is_integer(0) && !size.is_integer(0))))
    call.fail("TSC-O027",
              call.node().target + " of size " + symbolic::print(size) + " into parts of " +
                  symbolic::print(each),
              "ask for parts of 1 or more");
  if (each.is_integer(0)) // of nothing, which is one part
    return Arguments{slice_of(builder, call, static_cast<int64_t>(dim), Expr(0), size)};
  Expr pieces = symbolic::simplify(symbolic::ceil_div(size, each), call.ranges());
  const std::optional<int64_t> recorded = recorded_parts(call);
  if (!pieces.is_integer() && recorded && *recorded > 0) {
    const Expr before = Expr(*recorded - 1) * each;
    for (const Expr condition :
         {graph::less(before, size), graph::less_or_equal(size, before + each)})
      assert_condition(builder, decided(builder, condition),
                       call.node().target + ": size " + symbolic::print(size) + " in parts of " +
                           symbolic::print(each) + " is not the " + std::to_string(*recorded) +
                           " parts that the graph was exported with");
    pieces = Expr(*recorded);
  }
  if (!pieces.is_integer())
    call.refuse("TSC-O016",
                call.node().target + ": the number of parts, " + symbolic::print(pieces) +
                    ", depends on a symbol",
                "make the size of the dimension static");
  Arguments parts;
  for (int64_t i = 0; i < std::max<int64_t>(pieces.value(), 1); ++i) {
    Expr start = Expr(i) * each;
    Expr end = i + 1 == pieces.value() ? size : start + each;
    parts.push_back(slice_of(builder, call, static_cast<int64_t>(dim), start, end));
  }
  return parts;
}

Argument chunk(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  size_t dim = existing_dim(call, call.integer("dim"), self.layout.rank());
  int64_t chunks = call.integer("chunks");
  if (chunks < 1)
    call.fail("TSC-O027", "aten.chunk into " + std::to_string(chunks) + " parts",
              "ask for 1 or more");
  Expr each =
      symbolic::simplify(symbolic::ceil_div(self.layout.sizes[dim], Expr(chunks)), call.ranges());
  if (each.is_integer(0)) {
    Arguments parts(static_cast<size_t>(chunks), call["self"]);
    return parts;
  }
  return split_evenly(builder, call, each);
}

Argument unbind(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  size_t dim = existing_dim(call, call.integer("dim"), self.layout.rank());
  Expr size = self.layout.sizes[dim];
  if (!size.is_integer())
    call.refuse("TSC-O016", "aten.unbind of a dimension of symbolic size " + symbolic::print(size),
                "make the size of the dimension static");
  Arguments parts;
  for (int64_t i = 0; i < size.value(); ++i)
    parts.push_back(builder.call(kSelect, {call["self"], static_cast<int64_t>(dim), i}));
  return parts;
}

void add_splits(Table &table) {
  auto add = [&](std::string_view schema, Decomposition decomposition) {
    table.add(schema).effect(Effect::view).decompose(std::move(decomposition));
  };
  auto by_size = [](GraphBuilder &builder, const Call &call) {
    return split_evenly(builder, call, call.size("split_size"));
  };
  auto by_sizes = [](GraphBuilder &builder, const Call &call) {
    return split_sizes(builder, call, call.sizes(call.schema().parameters[1].name));
  };
  add("split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]", by_size);
  add("split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]", by_sizes);
  add("split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]",
      by_sizes);
  add("chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]", chunk);
  add("unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]", by_size);
  add("unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
      by_sizes);
  add("unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]", chunk);
  add("unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]", unbind);
  add("narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)",
      [](GraphBuilder &builder, const Call &call) {
        const TensorMeta self = call.tensor("self");
        size_t dim = existing_dim(call, call.integer("dim"), self.layout.rank());
        Expr start = call.size("start");
        const Expr length = call.size("length"), size = self.layout.sizes[dim];
        if (start.is_integer() && start.value() < 0)
          start = start + size;
        if (!start.is_integer() && !symbolic::known_nonnegative(start, call.ranges()))
          start = start + size * graph::less(start, 0);
        if (start.is_integer() && length.is_integer() && size.is_integer() &&
            (start.value() < 0 || length.value() < 0 ||
             start.value() > size.value() - length.value()))
          call.fail("TSC-O025",
                    "aten.narrow: " + symbolic::print(length) + " elements from " +
                        symbolic::print(start) + " on are outside size " + symbolic::print(size),
                    "choose a part that the dimension has");
        if (!start.is_integer() || !length.is_integer() || !size.is_integer())
          assert_inside(builder, call, start, length, size);
        return slice_of(builder, call, static_cast<int64_t>(dim), start, start + length);
      });
}

} // namespace

void add_composite_views(Table &table) {
  add_transposes(table);
  add_reshapes(table);
  add_splits(table);
}

} // namespace tsc::ops
