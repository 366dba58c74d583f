#include "ops/passes/overlap_products.h"

#include "ops/table/operator.h"
#include "ops/table/rewrite.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace tsc::ops {

namespace {

using graph::NodeId;

constexpr std::string_view kGather = "_c10d_functional.all_gather_into_tensor.default",
                           kScatter = "_c10d_functional.reduce_scatter_tensor.default",
                           kReduce = "_c10d_functional.all_reduce.default",
                           kWait = "_c10d_functional.wait_tensor.default",
                           kCast = "prims.convert_element_type.default",
                           kView = "aten.view.default", kProduct = "aten.mm.default";

template <size_t N>
bool is_one_of(std::string_view target, const std::array<std::string_view, N> &list) {
  return std::find(list.begin(), list.end(), target) != list.end();
}

/// What keeps the elements and their order, up to their dtype.
bool keeps_order(const Node &node) {
  return is_one_of(node.target,
                   std::array<std::string_view, 7>{kView, kCast, "aten.reshape.default",
                                                   "aten._unsafe_view.default", "aten.squeeze.dim",
                                                   "aten.squeeze.dims", "aten.unsqueeze.default"});
}

const TensorMeta *tensor_of(const Node &node) {
  return node.value ? node.value->tensor() : nullptr;
}
/// Empty where a size is no number, or there are no elements.
std::vector<int64_t> sizes_of(const TensorMeta &meta) {
  std::vector<int64_t> sizes;
  for (const Expr size : meta.layout.sizes) {
    if (!size.is_integer() || size.value() == 0)
      return {};
    sizes.push_back(size.value());
  }
  return sizes;
}
std::vector<int64_t> sizes_of(const TensorMeta *meta) {
  return meta ? sizes_of(*meta) : std::vector<int64_t>();
}
int64_t count_of(const std::vector<int64_t> &sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes)
    count *= size;
  return count;
}
std::optional<int64_t> number(const Node &node, size_t argument) {
  if (node.args.size() <= argument)
    return std::nullopt;
  const auto *value = std::get_if<int64_t>(&node.args[argument].value);
  return value ? std::optional(*value) : std::nullopt;
}

/// A collective with its wait and the products before or behind it.
struct Match {
  NodeId collective = 0, wait = 0;
  int64_t ranks = 1;
  int64_t rows = 0; // that are cut: of the product, of a rank's part of it, of a shard
  std::vector<NodeId> products;
  std::vector<NodeId> between; // views and casts, in the order of the graph
  bool needs_whole = false;    // somebody else reads what was gathered
  int64_t pieces = 1;
};

class Matches {
public:
  Matches(const Graph &graph, const PassOptions &options) : graph_(graph), options_(options) {
    users_.resize(graph.nodes.size());
    inputs_.resize(graph.nodes.size());
    for (NodeId id = 0; id < graph.nodes.size(); ++id)
      note_inputs(id);
    for (const graph::OutputSpec &output : graph.outputs)
      map_references(output.value, [&](graph::NodeRef ref) {
        users_[ref.id].push_back(graph.nodes.size()); // of nobody whom a match could take in
        return Argument(ref);
      });
    hides_.assign(graph.nodes.size(), false);
  }

  std::vector<Match> find() {
    std::vector<Match> found;
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      std::optional<Match> match = match_at(id);
      if (!match || std::any_of(match->products.begin(), match->products.end(),
                                [&](NodeId node) { return taken_.count(node) != 0; }))
        continue;
      match->pieces = pieces_of(*match);
      if (match->pieces < 2)
        continue;
      for (const NodeId product : match->products)
        taken_.emplace(product, true);
      found.push_back(std::move(*match));
    }
    return found;
  }

private:
  const Graph &graph_;
  const PassOptions &options_;
  std::vector<std::vector<NodeId>> users_, inputs_;
  std::map<NodeId, bool> taken_;
  std::vector<bool> hides_; // products that already run beside a collective

  void note_inputs(NodeId id) {
    const auto note = [&](graph::NodeRef ref) {
      users_[ref.id].push_back(id);
      inputs_[id].push_back(ref.id);
      return Argument(ref);
    };
    for (const Argument &argument : graph_.node(id).args)
      map_references(argument, note);
    for (const auto &entry : graph_.node(id).kwargs)
      map_references(entry.second, note);
  }

  /// Of a product with numbers for its sizes: rows, terms, columns.
  std::optional<ProductSizes> sizes_of_product(NodeId id) const {
    const Node &node = graph_.node(id);
    if (node.target != kProduct || node.args.size() < 2 || !node.args[0].node() ||
        !node.args[1].node())
      return std::nullopt;
    const TensorMeta *left = tensor_of(graph_.node(node.args[0].node()->id));
    const std::vector<int64_t> sizes = sizes_of(left), result = sizes_of(tensor_of(node));
    if (sizes.size() != 2 || result.size() != 2)
      return std::nullopt;
    return ProductSizes{sizes[0], sizes[1], result[1], left->dtype};
  }

  std::optional<Match> match_at(NodeId id) const {
    const Node &node = graph_.node(id);
    const bool gathers = node.target == kGather;
    if ((!gathers && node.target != kScatter && node.target != kReduce) || users_[id].size() != 1 ||
        users_[id][0] >= graph_.nodes.size() || graph_.node(users_[id][0]).target != kWait ||
        node.args.empty() || !node.args[0].node())
      return std::nullopt;
    Match match;
    match.collective = id;
    match.wait = users_[id][0];
    if (node.target != kReduce) {
      const std::optional<int64_t> ranks = number(node, gathers ? 1 : 2);
      if (!ranks || *ranks < 1)
        return std::nullopt;
      match.ranks = *ranks;
    }
    return gathers ? gathered(std::move(match)) : reduced(std::move(match));
  }

  /// Backwards from a reduction to the product whose result it alone takes.
  std::optional<Match> reduced(Match match) const {
    NodeId at = graph_.node(match.collective).args[0].node()->id;
    while (users_[at].size() == 1 && keeps_order(graph_.node(at)) &&
           graph_.node(at).args[0].node()) {
      match.between.push_back(at);
      at = graph_.node(at).args[0].node()->id;
    }
    const std::optional<ProductSizes> sizes = sizes_of_product(at);
    if (users_[at].size() != 1 || !sizes || sizes->rows % match.ranks != 0 ||
        sizes_of(tensor_of(graph_.node(match.wait))).empty())
      return std::nullopt;
    std::reverse(match.between.begin(), match.between.end());
    match.products = {at};
    match.rows = sizes->rows / match.ranks;
    return match;
  }

  /// Forwards from what is gathered to the products that read its rows.
  std::optional<Match> gathered(Match match) const {
    const Node &node = graph_.node(match.collective);
    const std::vector<int64_t> shard = sizes_of(tensor_of(graph_.node(node.args[0].node()->id)));
    if (shard.empty())
      return std::nullopt;
    match.rows = shard[0];
    std::vector<NodeId> open = {match.wait};
    for (size_t next = 0; next < open.size(); ++next)
      for (const NodeId user : users_[open[next]]) {
        if (user >= graph_.nodes.size()) {
          match.needs_whole = true;
          continue;
        }
        const Node &reader = graph_.node(user);
        const std::optional<ProductSizes> sizes = sizes_of_product(user);
        if (sizes && reader.args[0].node()->id == open[next] &&
            reader.args[1].node()->id != open[next] &&
            sizes->rows % (match.rows * match.ranks) == 0) {
          match.products.push_back(user);
        } else if (keeps_order(reader) && leads_to_product(user)) {
          match.between.push_back(user);
          open.push_back(user);
        } else {
          match.needs_whole = true;
        }
      }
    if (match.products.empty())
      return std::nullopt;
    std::sort(match.between.begin(), match.between.end());
    std::sort(match.products.begin(), match.products.end());
    return match;
  }
  bool leads_to_product(NodeId id) const {
    return std::any_of(users_[id].begin(), users_[id].end(), [&](NodeId user) {
      return user < graph_.nodes.size() &&
             (sizes_of_product(user) || (keeps_order(graph_.node(user)) && leads_to_product(user)));
    });
  }

  int64_t pieces_of(const Match &match) {
    OverlapWork work;
    work.product = *sizes_of_product(match.products[0]);
    for (size_t i = 1; i < match.products.size(); ++i)
      work.product.columns += sizes_of_product(match.products[i])->columns;
    const Node &collective = graph_.node(match.collective);
    const bool gathers = collective.target == kGather, twice = collective.target == kReduce;
    const double bytes = bytes_of(collective.args[0].node()->id);
    work.ranks = twice ? group_size(collective) : match.ranks;
    work.cut_rows = match.rows;
    const auto ranks = static_cast<double>(work.ranks);
    work.sent = gathers ? bytes * (ranks - 1) : bytes * (ranks - 1) / ranks * (twice ? 2 : 1);
    // What is put together again is read and written, but where loops read it: they take each
    // element from its piece.
    if (match.needs_whole)
      work.copied += 2 * bytes * ranks;
    if (gathers)
      for (const NodeId product : match.products)
        work.copied += is_read_whole(product) ? 2 * bytes_of(product) : 0;
    const std::vector<NodeId> others = independent_products(match);
    for (const NodeId other : others)
      work.beside.push_back(*sizes_of_product(other));
    const Overlap overlap = options_.overlap(work);
    for (size_t i = 0; i < overlap.beside && i < others.size(); ++i)
      hides_[others[i]] = true;
    tell(match, overlap);
    return overlap.pieces;
  }
  /// Whether somebody takes it as one tensor in memory: a library, a template, the caller.
  bool is_read_whole(NodeId id) const {
    return std::any_of(users_[id].begin(), users_[id].end(), [&](NodeId user) {
      if (user >= graph_.nodes.size())
        return true;
      const Node &reader = graph_.node(user);
      if (keeps_order(reader))
        return is_read_whole(user);
      const Operator *row = find_operator(reader.target);
      return row == nullptr || row->effect == Effect::ordered ||
             is_one_of(row->lowering,
                       std::array<std::string_view, 5>{"mm", "bmm", "addmm", "fused_attention",
                                                       "fused_flex_attention"});
    });
  }
  double bytes_of(NodeId id) const {
    const TensorMeta &meta = *tensor_of(graph_.node(id));
    return static_cast<double>(count_of(sizes_of(meta))) *
           static_cast<double>(size_in_bytes(meta.dtype));
  }

  /// What other collectives say of the group of an all-reduce, which says nothing; else two.
  int64_t group_size(const Node &reduce) const {
    for (const Node &node : graph_.nodes)
      if ((node.target == kGather || node.target == kScatter) && group_of(node) == group_of(reduce))
        if (const std::optional<int64_t> ranks = number(node, node.target == kGather ? 1 : 2))
          return *ranks;
    return 2;
  }
  static std::string group_of(const Node &node) {
    const auto *text = std::get_if<std::string>(&node.args.back().value);
    return text ? *text : "";
  }

  /// Products that neither lead to the collective nor need what it brings, and that no collective
  /// before counts on: the nearest first.
  std::vector<NodeId> independent_products(const Match &match) const {
    std::vector<bool> bound(graph_.nodes.size(), false);
    mark(match.collective, inputs_, bound);
    mark(match.wait, users_, bound);
    std::vector<NodeId> result;
    for (NodeId id = 0; id < graph_.nodes.size(); ++id)
      if (!bound[id] && !hides_[id] && sizes_of_product(id))
        result.push_back(id);
    const auto distance = [&](NodeId id) {
      return id > match.collective ? id - match.collective : match.collective - id;
    };
    std::sort(result.begin(), result.end(),
              [&](NodeId a, NodeId b) { return distance(a) < distance(b); });
    return result;
  }
  static void mark(NodeId start, const std::vector<std::vector<NodeId>> &edges,
                   std::vector<bool> &marked) {
    std::vector<NodeId> open = {start};
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (id >= marked.size() || (marked[id] && id != start))
        continue;
      marked[id] = true;
      for (const NodeId next : edges[id])
        if (next < marked.size() && !marked[next])
          open.push_back(next);
    }
  }

  void tell(const Match &match, const Overlap &overlap) const {
    if (options_.choices == nullptr)
      return;
    const auto microseconds = [](double nanoseconds) {
      return std::to_string(static_cast<int64_t>(nanoseconds / 1000 + 0.5)) + " us";
    };
    std::string names;
    for (const NodeId product : match.products)
      names += (names.empty() ? "" : ", ") + graph_.node(product).name;
    const std::string &collective = graph_.node(match.collective).name;
    options_.choices->push_back(
        overlap.pieces > 1
            ? names + " and " + collective + " run in " + std::to_string(overlap.pieces) +
                  " pieces: " + microseconds(overlap.computing) + " of products beside " +
                  microseconds(overlap.sending) + " of communication, expected " +
                  microseconds(overlap.in_pieces) + " in place of " + microseconds(overlap.whole)
            : names + " and " + collective + " stay whole: " + microseconds(overlap.whole) +
                  ", in pieces " + microseconds(overlap.in_pieces));
  }
};

class Cutter {
public:
  Cutter(Graph graph, const PassOptions &options)
      : options_(options), matches_(Matches(graph, options).find()), rewrite_(std::move(graph)) {}

  Graph run() {
    std::unordered_map<NodeId, const Match *> waits, products;
    std::vector<bool> goes(rewrite_.source().nodes.size(), false);
    for (const Match &match : matches_) {
      waits[match.wait] = &match;
      goes[match.collective] = true;
      const bool gathers = is_gather(match);
      for (const NodeId product : match.products)
        gathers ? void(products[product] = &match) : void(goes[product] = true);
      for (const NodeId node : match.between)
        goes[node] = !match.needs_whole;
    }
    for (NodeId id = 0; id < goes.size(); ++id)
      if (const auto wait = waits.find(id); wait != waits.end())
        is_gather(*wait->second) ? gather(*wait->second) : reduce(*wait->second);
      else if (const auto product = products.find(id); product != products.end())
        multiply_pieces(*product->second, id);
      else if (!goes[id])
        rewrite_.copy(id);
    Graph result = rewrite_.take();
    return matches_.empty() ? result
                            : decompose_keeping(std::move(result), {}, {options_.product_kernels});
  }

private:
  const PassOptions &options_;
  const std::vector<Match> matches_;
  Rewrite rewrite_;
  std::unordered_map<NodeId, Arguments> gathered_; // by collective: pieces

  const Node &source(NodeId id) const { return rewrite_.source().node(id); }
  bool is_gather(const Match &match) const { return source(match.collective).target == kGather; }
  static int64_t begin_of(const Match &match, int64_t piece) {
    return match.rows * piece / match.pieces;
  }
  Argument call(std::string_view target, Arguments args) {
    return rewrite_.builder().call(target, std::move(args));
  }
  Argument reshaped(const Argument &tensor, const std::vector<int64_t> &sizes) {
    return call("aten.reshape.default", {tensor, Arguments(sizes.begin(), sizes.end())});
  }
  Argument slice(const Argument &tensor, int64_t dimension, int64_t begin, int64_t end) {
    return call("aten.slice.Tensor", {tensor, dimension, begin, end});
  }
  /// `tensor` in the dtype of what is between `match`'s product and collective, up to `last`.
  Argument cast_like(const Argument &tensor, const Node &node) {
    const DType dtype = tensor_of(node)->dtype;
    return rewrite_.builder().meta(tensor).dtype == dtype ? tensor : call(kCast, {tensor, dtype});
  }
  /// Every cast of the way from `first` to `node`, which stands behind it, in order.
  Argument cast_along(Argument tensor, NodeId first, NodeId node) {
    std::vector<NodeId> way;
    for (NodeId at = node; at != first; at = source(at).args[0].node()->id)
      way.push_back(at);
    for (auto at = way.rbegin(); at != way.rend(); ++at)
      tensor = cast_like(tensor, source(*at));
    return tensor;
  }
  Argument collective(const Match &match, const Argument &input, bool waits) {
    const Node &node = source(match.collective);
    Arguments args = {input};
    args.insert(args.end(), node.args.begin() + 1, node.args.end());
    Argument result = call(node.target, std::move(args));
    return waits ? call(kWait, {result}) : result;
  }

  void reduce(const Match &match) {
    const Node product = source(match.products[0]);
    const Argument left = rewrite_.mapped(product.args[0]),
                   right = rewrite_.mapped(product.args[1]);
    const std::vector<int64_t> factor = sizes_of(rewrite_.builder().meta(left)),
                               result = sizes_of(tensor_of(product));
    rewrite_.builder().set_source(product);
    Arguments parts;
    for (int64_t piece = 0; piece < match.pieces; ++piece) {
      const int64_t begin = begin_of(match, piece), end = begin_of(match, piece + 1);
      Argument part;
      if (match.ranks == 1) {
        part = call(kProduct, {slice(left, 0, begin, end), right});
      } else { // rows of every rank, where they are
        const Argument by_rank = reshaped(left, {match.ranks, match.rows, factor[1]});
        const Argument weights =
            call("aten.expand.default", {call("aten.unsqueeze.default", {right, 0}),
                                         Arguments{match.ranks, factor[1], result[1]}});
        part = call("aten.bmm.default", {slice(by_rank, 1, begin, end), weights});
        part = reshaped(part, {match.ranks * (end - begin), result[1]});
      }
      const NodeId last = match.between.empty() ? match.products[0] : match.between.back();
      parts.push_back(collective(match, cast_along(part, match.products[0], last), false));
    }
    for (Argument &part : parts)
      part = call(kWait, {part});
    rewrite_.replace(match.wait, reshaped(call("aten.cat.default", {parts, 0}),
                                          sizes_of(tensor_of(source(match.wait)))));
  }

  void gather(const Match &match) {
    const Node node = source(match.collective);
    const Argument shard = rewrite_.mapped(node.args[0]);
    std::vector<int64_t> sizes = sizes_of(rewrite_.builder().meta(shard));
    rewrite_.builder().set_source(node);
    Arguments &pieces = gathered_[match.collective];
    for (int64_t piece = 0; piece < match.pieces; ++piece)
      pieces.push_back(collective(
          match, slice(shard, 0, begin_of(match, piece), begin_of(match, piece + 1)), false));
    for (Argument &piece : pieces)
      piece = call(kWait, {piece});
    if (!match.needs_whole)
      return;
    sizes[0] *= match.ranks;
    rewrite_.replace(match.wait, reshaped(joined(match, pieces), sizes));
  }
  /// Pieces that have rows of every rank each, as rows of one rank after the other.
  Argument joined(const Match &match, const Arguments &pieces) {
    Arguments parts;
    for (int64_t piece = 0; piece < match.pieces; ++piece) {
      const int64_t rows = begin_of(match, piece + 1) - begin_of(match, piece);
      std::vector<int64_t> sizes =
          sizes_of(rewrite_.builder().meta(pieces[static_cast<size_t>(piece)]));
      sizes = {match.ranks, rows, count_of(sizes) / match.ranks / rows};
      parts.push_back(reshaped(pieces[static_cast<size_t>(piece)], sizes));
    }
    return call("aten.cat.default", {parts, 1});
  }

  void multiply_pieces(const Match &match, NodeId id) {
    const Node product = source(id);
    const Argument right = rewrite_.mapped(product.args[1]);
    const int64_t terms = sizes_of(tensor_of(source(product.args[0].node()->id)))[1];
    rewrite_.builder().set_source(product);
    Arguments parts;
    for (const Argument &piece : gathered_[match.collective]) {
      const Argument rows =
          reshaped(cast_along(piece, match.wait, product.args[0].node()->id), {-1, terms});
      parts.push_back(call(kProduct, {rows, right}));
    }
    rewrite_.replace(id, reshaped(joined(match, parts), sizes_of(tensor_of(product))));
  }
};

} // namespace

graph::Graph overlap_products(graph::Graph graph, const PassOptions &options) {
  if (!options.overlap || !has_ordered_operators(graph) || writes_in_place(graph))
    return graph;
  return Cutter(std::move(graph), options).run();
}

} // namespace tsc::ops
