#include "ops/families/row_sums.h"

#include "ops/families/checks.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "ops/table/term.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

constexpr std::string_view kIndexPut = "aten.index_put.default",
                           kScatterAdd = "aten.scatter_add.default",
                           kScatterReduce = "aten.scatter_reduce.two", kFull = "aten.full.default",
                           kReshape = "aten.reshape.default";

/// Of what goes where, the smallest type that holds `places` numbers, and the number of place 0.
struct Keys {
  DType dtype = DType::i64;
  int64_t least = 0;
};
Keys keys_of(Expr places, const symbolic::Ranges &ranges) {
  const int64_t most = symbolic::bounds(places, ranges).high;
  if (most <= int64_t{1} << 8)
    return {DType::i8, std::numeric_limits<int8_t>::min()};
  if (most <= int64_t{1} << 16)
    return {DType::i16, std::numeric_limits<int16_t>::min()};
  return {most <= std::numeric_limits<int32_t>::max() ? DType::i32 : DType::i64, 0};
}

/// [rows, columns] of `dtype`: zeros, and to row keys[n] (int64; `rows`: nowhere) row n of `source`
/// added, in the order of n.
Argument sums_of_rows(GraphBuilder &builder, const Argument &source, const Argument &keys,
                      Expr rows, DType dtype) {
  const TensorMeta meta = builder.meta(source);
  const Sizes &sizes = meta.layout.sizes;
  if (sizes[0].is_integer(0) || sizes[1].is_integer(0) || rows.is_integer(0))
    return filled(builder, {rows, sizes[1]}, 0.0, dtype, meta.device);
  const Keys of = keys_of(rows + Expr(1), builder.ranges());
  const Argument narrow = (Term(builder, keys) + Argument(of.least)).as(of.dtype);
  const Argument order = builder.call("aten.sort.stable", {narrow}, {{"stable", true}, {"dim", 0}});
  const Argument sorted = builder.item(order, 0), positions = builder.item(order, 1);
  const Argument starts =
      builder.call("tsc.sum_starts.default", {sorted, size_argument(rows), of.least});
  Argument pieces = graph::None{};
  if (symbolic::bounds(sizes[0], builder.ranges()).high >= kSumPiece)
    pieces = builder.call("tsc.sum_pieces.default", {source, sorted, positions});
  return builder.call("tsc.sum_rows.default",
                      {source, positions, starts, pieces, size_argument(rows), dtype});
}

/// What `x` was widened from, if nothing else was done to it: what is summed up is widened there.
Argument before_widening(const GraphBuilder &builder, const Argument &x) {
  const graph::NodeRef *ref = x.node();
  if (ref == nullptr || builder.meta(x).dtype != DType::f32)
    return x;
  const Node &node = builder.graph().node(ref->id);
  if (node.target != kConvert || !tensor::is_reduced_float(builder.meta(node.args[0]).dtype))
    return x;
  return node.args[0];
}

bool is_zeros(const Graph &graph, const Argument &x) {
  const graph::NodeRef *ref = x.node();
  if (ref == nullptr)
    return false;
  const Node &node = graph.node(ref->id);
  if (node.target == kConvert)
    return is_zeros(graph, node.args[0]);
  if (node.target != kFull || node.args.size() < 2)
    return false;
  const auto *real = std::get_if<double>(&node.args[1].value);
  const auto *whole = std::get_if<int64_t>(&node.args[1].value);
  return (real != nullptr && *real == 0) || (whole != nullptr && *whole == 0);
}

/// `sums` (in the dtype that sums are computed in, or of `self` where that is zeros) on top of
/// `self`.
Argument added_to(GraphBuilder &builder, const Argument &self, const Argument &sums) {
  if (is_zeros(builder.graph(), self))
    return sums;
  const Argument total = builder.call(kAdd, {widen(builder, self), sums});
  return convert(builder, total, builder.meta(self).dtype);
}
DType dtype_of_sums(const GraphBuilder &builder, const Argument &self) {
  const DType dtype = builder.meta(self).dtype;
  return is_zeros(builder.graph(), self) ? dtype : accumulation_dtype(dtype);
}

/// `index` as int64 in [0, size), negative ones counted from the end where they may be.
Argument place(GraphBuilder &builder, const Argument &index, Expr size, bool may_be_negative) {
  Term at(builder, convert(builder, index, DType::i64));
  if (may_be_negative)
    at = where(at < int64_t{0}, at + size_argument(size), at);
  return checked_range(builder, at, size);
}

Argument index_put_in_order(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const Argument::List &given = *call["indices"].list();
  Sizes picked; // of the index tensors together
  std::vector<size_t> indexed, others;
  for (size_t k = 0; k < self.layout.rank(); ++k)
    if (k < given.size() && !given[k].is_none()) {
      picked = indexed.empty() ? builder.meta(given[k]).layout.sizes
                               : broadcast(call, {picked, builder.meta(given[k]).layout.sizes});
      indexed.push_back(k);
    } else {
      others.push_back(k);
    }
  // One number for each place.
  Sizes rows, rest;
  Expr places(1);
  Argument key;
  for (const size_t k : indexed) {
    const Expr size = self.layout.sizes[k];
    const Term at(builder, place(builder, given[k], size, true));
    key = key.is_none() ? at.value() : (Term(builder, key) * size_argument(size) + at).value();
    rows.push_back(size);
    places *= size;
  }
  for (const size_t k : others)
    rest.push_back(self.layout.sizes[k]);
  key = builder.call(kReshape, {expanded(Term(builder, key), picked), Arguments{-1}});
  // Values as [index, the rest]: where dimensions are indexed that are neighbours, the index stands
  // in their place, else first.
  const bool beside = indexed.back() - indexed.front() + 1 == indexed.size();
  const size_t before = beside ? indexed.front() : 0;
  Sizes shape(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(before));
  shape.insert(shape.end(), picked.begin(), picked.end());
  shape.insert(shape.end(), rest.begin() + static_cast<ptrdiff_t>(before), rest.end());
  std::vector<size_t> order;
  for (size_t k = 0; k < picked.size(); ++k)
    order.push_back(before + k);
  for (size_t k = 0; k < shape.size(); ++k)
    if (k < before || k >= before + picked.size())
      order.push_back(k);
  Term values(builder, before_widening(builder, convert(builder, call["values"], self.dtype)));
  values = permuted(expanded(values, shape), order);
  values = reshaped(values, {symbolic::numel(picked), symbolic::numel(rest)});
  Term sums(builder,
            sums_of_rows(builder, values, key, places, dtype_of_sums(builder, call["self"])));
  rows.insert(rows.end(), rest.begin(), rest.end());
  std::vector<size_t> back(self.layout.rank());
  for (size_t k = 0; k < back.size(); ++k)
    back[k < indexed.size() ? indexed[k] : others[k - indexed.size()]] = k;
  return added_to(builder, call["self"], permuted(reshaped(sums, rows), back));
}

Argument scatter_in_order(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self"), index = call.tensor("index");
  const size_t dim = normalize_dim(call, call.integer("dim"), self.layout.rank());
  const Sizes &sizes = index.layout.sizes;
  Argument source = call["src"], key;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (!same_size(builder.meta(source).layout.sizes[k], sizes[k], builder.ranges()))
      source = builder.call("aten.slice.Tensor",
                            {source, static_cast<int64_t>(k), 0, size_argument(sizes[k])});
    const Expr size = self.layout.sizes[k];
    Sizes along(sizes.size(), Expr(1));
    along[k] = sizes[k];
    const Term at = k == dim ? Term(builder, place(builder, call["index"], size, false))
                             : reshaped(counting(builder, sizes[k], self.device), along);
    key = key.is_none() ? at.value() : (Term(builder, key) * size_argument(size) + at).value();
  }
  const Expr count = symbolic::numel(sizes);
  source = before_widening(builder, convert(builder, source, self.dtype));
  source = builder.call(kReshape, {source, sizes_argument({count, Expr(1)})});
  key = builder.call(kReshape, {expanded(Term(builder, key), sizes), Arguments{-1}});
  const Term sums(builder, sums_of_rows(builder, source, key, symbolic::numel(self.layout.sizes),
                                        dtype_of_sums(builder, call["self"])));
  return added_to(builder, call["self"], reshaped(sums, self.layout.sizes));
}

/// What sums are rounded to, once.
DType dtype_of_sum_at(const Call &call) {
  return call.dtype("dtype").value_or(call.tensor("source").dtype);
}

/// What tsc.sum_at sums up as [index, columns], and where it goes: each checked, the padding's to
/// 0.
struct SumAt {
  Argument source, places, padding; // of int64 and bool [index]
  Expr rows = 0;
};
SumAt sum_at_of(GraphBuilder &builder, const Call &call) {
  SumAt of;
  of.rows = call.size("rows");
  const Expr count = symbolic::numel(call.tensor("indices").layout.sizes);
  of.source =
      builder.call(kReshape, {call["source"], sizes_argument({count, last_size(call, "source")})});
  const Term indices(builder, builder.call(kReshape, {call["indices"], Arguments{-1}}));
  of.padding = equal(indices, call["padding_idx"]);
  of.places = checked_range(builder, where(Term(builder, of.padding), 0, indices), of.rows);
  return of;
}

Argument sum_at_in_order(GraphBuilder &builder, const Call &call) {
  const SumAt of = sum_at_of(builder, call);
  const Term keys = where(Term(builder, of.padding), size_argument(of.rows), of.places);
  return sums_of_rows(builder, of.source, keys, of.rows, dtype_of_sum_at(call));
}

/// A sum of all rows for each place, of those that go there: the source is read once.
Argument sum_at_few_places(GraphBuilder &builder, const Call &call) {
  const SumAt of = sum_at_of(builder, call);
  // In memory, checked once: not at every element of a row.
  const Argument narrow =
      where(Term(builder, of.padding), size_argument(of.rows), of.places).as(DType::i32);
  const Term keys = Term(builder, builder.call("tsc.stored.default", {narrow}))
                        .then("aten.unsqueeze.default", {-1});
  const Term rows(builder, widen(builder, of.source));
  Arguments sums;
  for (int64_t at = 0; at < of.rows.value(); ++at) {
    const Term chosen = where(equal(keys, at), rows, 0.0);
    sums.push_back(sum(chosen, {0}, false).as(dtype_of_sum_at(call)));
  }
  return builder.call("aten.stack.default", {sums, 0});
}

/// By atomic additions, into zeros.
Argument sum_at(GraphBuilder &builder, const Call &call) {
  const TensorMeta source = call.tensor("source");
  const SumAt of = sum_at_of(builder, call);
  const Argument zeros = filled(builder, {of.rows, last_size(call, "source")}, 0.0,
                                accumulation_dtype(source.dtype), source.device);
  const Term column = Term(builder, of.padding).then("aten.unsqueeze.default", {-1});
  const Argument masked = where(column, 0.0, widen(builder, of.source));
  const Argument total = builder.call(kIndexPut, {zeros, Arguments{of.places}, masked, true});
  return convert(builder, total, dtype_of_sum_at(call));
}

/// The same in float32, rounded once.
Decomposition sum_in_float32(std::string_view target, std::string_view added) {
  return [=](GraphBuilder &builder, const Call &call) -> Argument {
    Arguments arguments;
    Keywords keywords;
    for (const Parameter &parameter : call.schema().parameters) {
      const bool is_sum = parameter.name == "self" || parameter.name == added;
      Argument argument = is_sum ? widen(builder, call[parameter.name]) : call[parameter.name];
      if (parameter.keyword_only)
        keywords.emplace_back(parameter.name, std::move(argument));
      else
        arguments.push_back(std::move(argument));
    }
    const Argument total = builder.call(target, std::move(arguments), std::move(keywords));
    return convert(builder, total, call.tensor("self").dtype);
  };
}

const Argument *argument_of(const Node &node, size_t position, std::string_view name) {
  if (position < node.args.size())
    return &node.args[position];
  for (const auto &[key, value] : node.kwargs)
    if (key == name)
      return &value;
  return nullptr;
}

/// Microseconds, as far as tensors and launches tell.
constexpr double kBytes = 3.5e6, kLaunch = 2.5;

} // namespace

std::string_view in_fixed_order(const Node &node) {
  if (!node.value || !node.value->tensor() || !tensor::is_floating(node.value->tensor()->dtype))
    return "";
  if (node.target == kSumAt)
    return "tsc.sum_at_in_order.default";
  if (node.target == kScatterAdd)
    return "tsc.scatter_add_in_order.default";
  if (node.target == kScatterReduce) {
    const Argument *reduce = argument_of(node, 4, "reduce");
    const auto *name = reduce ? std::get_if<std::string>(&reduce->value) : nullptr;
    return name != nullptr && *name == "sum" ? "tsc.scatter_reduce_in_order.default" : "";
  }
  if (node.target == kIndexPut) {
    const Argument *accumulate = argument_of(node, 3, "accumulate");
    const auto *adds = accumulate ? std::get_if<bool>(&accumulate->value) : nullptr;
    return adds != nullptr && *adds ? "tsc.index_put_in_order.default" : "";
  }
  return "";
}

std::string_view in_float32(const Graph &graph, const Node &node) {
  // Times that a place is added to, on average: GPUs add eight neighbours at once (rows that an
  // index picks), so that there it is the roundings that count; else an element takes as long as a
  // float, and what several threads add to one word longer.
  constexpr double kRows = 16, kElements = 1;
  const std::string_view ordered = in_fixed_order(node);
  if (ordered.empty() || node.target == kSumAt)
    return "";
  const TensorMeta &result = *node.value->tensor();
  const bool puts = node.target == kIndexPut;
  const Argument &source = node.args[puts ? 2 : 3];
  if (!tensor::is_reduced_float(result.dtype) || source.node() == nullptr)
    return "";
  const auto sizes_of = [&](const Argument &x) {
    return graph.node(x.node()->id).value->tensor()->layout.sizes;
  };
  Expr added = puts ? symbolic::numel(sizes_of(source)) : symbolic::numel(sizes_of(node.args[2]));
  bool by_rows = false;
  if (puts) { // values may be broadcast
    const Argument::List &indices = *node.args[1].list();
    Expr picked(1);
    by_rows = indices.size() < result.layout.rank() || indices.back().is_none();
    for (const Argument &index : indices)
      if (!index.is_none()) {
        const Expr count = symbolic::numel(sizes_of(index));
        picked = symbolic::known_less(picked, count, {}) ? count : picked;
      }
    for (size_t k = 0; k < result.layout.rank(); ++k)
      if (k >= indices.size() || indices[k].is_none())
        picked = picked * result.layout.sizes[k];
    added = picked;
  }
  const auto count = added.as_integer(), places = symbolic::numel(result.layout.sizes).as_integer();
  if (!count || !places ||
      static_cast<double>(*count) < static_cast<double>(*places) * (by_rows ? kRows : kElements))
    return "";
  return puts                         ? "tsc.index_put_in_float32.default"
         : node.target == kScatterAdd ? "tsc.scatter_add_in_float32.default"
                                      : "tsc.scatter_reduce_in_float32.default";
}

bool fixed_order_pays(const Graph &graph, const Node &node) {
  const bool puts = node.target == kIndexPut;
  if ((!puts && node.target != kSumAt) || in_fixed_order(node).empty() ||
      (puts && !is_zeros(graph, node.args[0])))
    return false;
  const TensorMeta &result = *node.value->tensor();
  const auto meta_of = [&](const Argument &x) {
    return graph.node(x.node()->id).value->tensor()->layout.sizes;
  };
  Argument source = puts ? node.args[2] : node.args[0];
  const Argument *index = &node.args[1];
  if (puts) {
    const Argument::List *list = node.args[1].list();
    if (list == nullptr || list->size() != 1 || (*list)[0].is_none())
      return false;
    index = &(*list)[0];
  }
  const auto places = result.layout.sizes[0].as_integer(),
             columns = symbolic::numel({result.layout.sizes.begin() + 1, result.layout.sizes.end()})
                           .as_integer(),
             count = symbolic::numel(meta_of(*index)).as_integer(),
             elements = symbolic::numel(meta_of(source)).as_integer();
  constexpr int64_t kFewestColumns = 32; // below, a warp's accesses are no whole lines
  if (!places || !columns || !count || !elements || *columns < kFewestColumns ||
      *elements != *count * *columns)
    return false;
  // A value that was computed for this has to be written and read again.
  const Node *from = &graph.node(source.node()->id);
  bool is_memory = false;
  while (
      !is_memory && from->kind == graph::NodeKind::call_function &&
      (from->target == kConvert || from->target == kReshape || from->target == "aten.view.default"))
    from = &graph.node(from->args[0].node()->id);
  is_memory = from->kind == graph::NodeKind::placeholder;
  const auto bytes = [](DType dtype) { return static_cast<double>(tensor::size_in_bytes(dtype)); };
  const double source_bytes = static_cast<double>(*elements) * bytes(from->value->tensor()->dtype);
  const double table = static_cast<double>(*places) * static_cast<double>(*columns);
  const DType wide = accumulation_dtype(result.dtype);
  const double touched = std::min(table, static_cast<double>(*elements));
  // Filled, read, changed and written where something goes; rounded by a kernel of its own.
  double atomically = table * bytes(wide) + source_bytes + 2 * touched * bytes(wide);
  if (wide != result.dtype)
    atomically += table * (bytes(wide) + bytes(result.dtype));
  // Rows of a table that words index are hit as Zipf's law says; those that go to one place wait
  // for each other. Counted where places are few, so that it is no guess that many meet.
  constexpr double kOneAfterAnother = 0.06; // microseconds: 5800 rows of 577 floats in 346
  constexpr int64_t kMany = 16;
  double waits = 0;
  if (node.target == kSumAt && *count >= kMany * *places)
    waits = static_cast<double>(*count) / (std::log(static_cast<double>(*places)) + 1) *
            kOneAfterAnother;
  const double sorted = table * bytes(result.dtype) + source_bytes * (is_memory ? 1 : 3);
  const int64_t passes = *places < int64_t{1} << 8 ? 1 : *places < int64_t{1} << 16 ? 2 : 4;
  const double launches = 4 + 3 * static_cast<double>(passes);
  constexpr double kSortedBytes = 60; // of an index: keys and places, to and fro
  return std::max(atomically / kBytes, waits) + 2 * kLaunch >
         (sorted + kSortedBytes * static_cast<double>(*count)) / kBytes + launches * kLaunch;
}

bool few_places_pay(const Graph &graph, const Node &node) {
  if (node.target != kSumAt || in_fixed_order(node).empty() || node.args[0].node() == nullptr)
    return false;
  // Instructions: two a place and element, beside those of the load. Few places, too, for the
  // kernel has a sum of each in registers.
  constexpr int64_t kMostPlaces = 8, kFewestElements = 1 << 15;
  constexpr double kInstructions = 28e6; // a microsecond, of a GPU's 132 multiprocessors
  const TensorMeta &source = *graph.node(node.args[0].node()->id).value->tensor();
  const auto places = node.value->tensor()->layout.sizes[0].as_integer(),
             elements = symbolic::numel(source.layout.sizes).as_integer();
  if (!places || !elements || *places < 1 || *places > kMostPlaces || *elements < kFewestElements)
    return false;
  const auto count = static_cast<double>(*elements),
             bytes = count * static_cast<double>(tensor::size_in_bytes(source.dtype));
  const double computing = count * (2 * static_cast<double>(*places) + 3) / kInstructions;
  return computing < 2 * bytes / kBytes + 4 * kLaunch; // what ten launches of a sort take, at least
}

namespace {

Value pieces_value(const Call &call) {
  const TensorMeta &source = call.tensor("source");
  return contiguous_value(
      accumulation_dtype(source.dtype),
      {symbolic::floor_div(call.tensor("order").layout.sizes[0], Expr(kSumPiece)),
       source.layout.sizes[1]},
      source.device);
}
Value rows_value(const Call &call) {
  const TensorMeta &source = call.tensor("source");
  return contiguous_value(*call.dtype("dtype"), {call.size("rows"), source.layout.sizes[1]},
                          source.device);
}

} // namespace

void add_row_sums(Table &table) {
  const std::string at = "(Tensor source, Tensor indices, SymInt rows, SymInt padding_idx, *, "
                         "ScalarType? dtype=None) -> Tensor";
  table.add("tsc::sum_at" + at).decompose(sum_at);
  table.add("tsc::sum_at_few_places" + at).decompose(sum_at_few_places);
  table.add("tsc::sum_at_in_order" + at).decompose(sum_at_in_order);
  table
      .add("tsc::index_put_in_order(Tensor self, Tensor?[] indices, Tensor values, bool "
           "accumulate=True) -> Tensor")
      .decompose(index_put_in_order);
  table.add("tsc::scatter_add_in_order(Tensor self, int dim, Tensor index, Tensor src) -> Tensor")
      .decompose(scatter_in_order);
  table
      .add("tsc::scatter_reduce_in_order(Tensor self, int dim, Tensor index, Tensor src, str "
           "reduce, *, bool include_self=True) -> Tensor")
      .decompose(scatter_in_order);
  table
      .add("tsc::index_put_in_float32(Tensor self, Tensor?[] indices, Tensor values, bool "
           "accumulate=True) -> Tensor")
      .decompose(sum_in_float32(kIndexPut, "values"));
  table.add("tsc::scatter_add_in_float32(Tensor self, int dim, Tensor index, Tensor src) -> Tensor")
      .decompose(sum_in_float32(kScatterAdd, "src"));
  table
      .add("tsc::scatter_reduce_in_float32(Tensor self, int dim, Tensor index, Tensor src, str "
           "reduce, *, bool include_self=True) -> Tensor")
      .decompose(sum_in_float32(kScatterReduce, "src"));
  table.add("tsc::sum_starts(Tensor keys, SymInt rows, int least) -> Tensor")
      .shape([](const Call &call) {
        return contiguous_value(DType::i64, {call.size("rows") + Expr(1)},
                                call.tensor("keys").device);
      })
      .lowers("sum_starts");
  table.add("tsc::sum_pieces(Tensor source, Tensor keys, Tensor order) -> Tensor")
      .shape(pieces_value)
      .lowers("sum_pieces");
  table
      .add("tsc::sum_rows(Tensor source, Tensor order, Tensor starts, Tensor? pieces, SymInt rows, "
           "ScalarType dtype) -> Tensor")
      .shape(rows_value)
      .lowers("sum_rows");
}

} // namespace tsc::ops
