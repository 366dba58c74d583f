// A collective of a few bytes takes its latency, whatever its size: many of them are joined end to
// end. Sizes are numbers here; what else there is stays as it is.
#include "ops/passes/bucket_collectives.h"

#include "ops/table/operator.h"
#include "ops/table/rewrite.h"

#include <algorithm>
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
                           kWait = "_c10d_functional.wait_tensor.default";

std::optional<int64_t> elements_of(const TensorMeta &meta) {
  int64_t count = 1;
  for (const Expr size : meta.layout.sizes) {
    if (!size.is_integer())
      return std::nullopt;
    count *= size.value();
  }
  return count;
}

struct Member {
  NodeId collective = 0, wait = 0;
  int64_t elements = 0; // of its input
};
struct Bucket {
  std::vector<Member> members;
  int64_t bytes = 0;
};

/// Which collectives become one, found before anything is rewritten.
class Buckets {
public:
  Buckets(const Graph &graph, int64_t most_bytes) : graph_(graph), most_bytes_(most_bytes) {
    users_.resize(graph.nodes.size());
    inputs_.resize(graph.nodes.size());
    for (NodeId id = 0; id < graph.nodes.size(); ++id)
      note_inputs(id);
    find_tainted();
  }

  std::vector<Bucket> find() {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id)
      if (const std::optional<Member> member = member_of(id))
        add(*member);
    for (auto &entry : open_)
      close(entry.second);
    return std::move(found_);
  }

  bool is_gather(NodeId id) const { return graph_.node(id).target == kGather; }
  const std::vector<NodeId> &inputs_of(NodeId id) const { return inputs_[id]; }

private:
  const Graph &graph_;
  const int64_t most_bytes_;
  std::vector<std::vector<NodeId>> users_, inputs_;
  std::vector<bool> tainted_; // by node: needs what a collective yields
  std::map<std::string, Bucket> open_;
  std::vector<Bucket> found_;

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

  void find_tainted() {
    tainted_.assign(graph_.nodes.size(), false);
    for (NodeId id = 0; id < graph_.nodes.size(); ++id)
      tainted_[id] = graph_.node(id).target == kWait ||
                     std::any_of(inputs_[id].begin(), inputs_[id].end(),
                                 [&](NodeId input) { return tainted_[input]; });
  }

  /// One whose result is waited for once and taken by nobody else.
  std::optional<Member> member_of(NodeId id) const {
    const Node &node = graph_.node(id);
    if ((node.target != kGather && node.target != kScatter && node.target != kReduce) ||
        users_[id].size() != 1 || graph_.node(users_[id][0]).target != kWait || node.args.empty() ||
        node.args[0].node() == nullptr || (node.target == kGather && tainted_[id]))
      return std::nullopt;
    const std::optional<graph::Value> &value = graph_.node(node.args[0].node()->id).value;
    const TensorMeta *meta = value ? value->tensor() : nullptr;
    const std::optional<int64_t> elements = meta ? elements_of(*meta) : std::nullopt;
    if (!elements || *elements == 0)
      return std::nullopt;
    return Member{id, users_[id][0], *elements};
  }

  const TensorMeta &input_meta(const Member &member) const {
    return *graph_.node(graph_.node(member.collective).args[0].node()->id).value->tensor();
  }

  std::string key_of(const Member &member) const {
    const Node &node = graph_.node(member.collective);
    std::string key = node.target + " " + std::string(tensor::torch_name(input_meta(member).dtype));
    for (size_t i = 1; i < node.args.size(); ++i)
      if (const auto *text = std::get_if<std::string>(&node.args[i].value))
        key += " " + *text;
      else if (const auto *number = std::get_if<int64_t>(&node.args[i].value))
        key += " " + std::to_string(*number);
    return key;
  }

  int64_t bytes_of(const Member &member) const {
    const Node &node = graph_.node(member.collective);
    const auto *ranks = node.target == kGather && node.args.size() > 1
                            ? std::get_if<int64_t>(&node.args[1].value)
                            : nullptr;
    return member.elements * static_cast<int64_t>(size_in_bytes(input_meta(member).dtype)) *
           (ranks ? *ranks : 1);
  }

  void add(const Member &member) {
    Bucket &bucket = open_[key_of(member)];
    const int64_t bytes = bytes_of(member);
    const bool fits = bytes <= most_bytes_ - bucket.bytes && may_join(bucket, member);
    if (!fits)
      close(bucket);
    if (bytes > most_bytes_)
      return;
    bucket.members.push_back(member);
    bucket.bytes += bytes;
  }

  /// Reductions are put off to where the last of them stands: nobody may need one before.
  bool may_join(const Bucket &bucket, const Member &member) const {
    if (is_gather(member.collective))
      return true;
    return std::all_of(bucket.members.begin(), bucket.members.end(), [&](const Member &other) {
      return std::all_of(users_[other.wait].begin(), users_[other.wait].end(),
                         [&](NodeId user) { return user > member.collective; });
    });
  }

  void close(Bucket &bucket) {
    if (bucket.members.size() > 1)
      found_.push_back(std::move(bucket));
    bucket = {};
  }
};

class Joiner {
public:
  Joiner(Graph graph, const PassOptions &options)
      : options_(options), rewrite_(std::move(graph)),
        buckets_(rewrite_.source(), options.bucket_bytes), found_(buckets_.find()),
        done_(rewrite_.source().nodes.size(), false) {}

  Graph run() {
    std::unordered_map<NodeId, const Bucket *> at; // where a bucket is joined
    std::vector<bool> belongs(done_.size(), false);
    for (const Bucket &bucket : found_) {
      const bool gathers = buckets_.is_gather(bucket.members[0].collective);
      at[(gathers ? bucket.members.front() : bucket.members.back()).collective] = &bucket;
      for (const Member &member : bucket.members)
        belongs[member.collective] = belongs[member.wait] = true;
    }
    for (NodeId id = 0; id < done_.size(); ++id)
      if (const auto found = at.find(id); found != at.end())
        join(*found->second);
      else if (!belongs[id])
        copy(id);
    Graph result = rewrite_.take();
    return found_.empty() ? result
                          : decompose_keeping(std::move(result), {}, {options_.product_kernels});
  }

private:
  const PassOptions &options_;
  Rewrite rewrite_;
  Buckets buckets_;
  const std::vector<Bucket> found_;
  std::vector<bool> done_; // by node: something stands for it

  /// The node, after what it needs: that may stand behind where it is wanted now.
  void copy(NodeId id) {
    if (done_[id])
      return;
    std::vector<NodeId> open = {id};
    while (!open.empty()) {
      const NodeId node = open.back();
      const auto missing =
          std::find_if(buckets_.inputs_of(node).begin(), buckets_.inputs_of(node).end(),
                       [&](NodeId input) { return !done_[input]; });
      if (missing != buckets_.inputs_of(node).end()) {
        open.push_back(*missing);
        continue;
      }
      open.pop_back();
      if (!done_[node])
        rewrite_.copy(node);
      done_[node] = true;
    }
  }

  void join(const Bucket &bucket) {
    for (const Member &member : bucket.members)
      for (const NodeId input : buckets_.inputs_of(member.collective))
        copy(input);
    const Node &first = rewrite_.source().node(bucket.members[0].collective);
    const std::string target = first.target;
    const int64_t ranks = target == kReduce ? 1 : rank_count(first);
    Arguments rows;
    int64_t length = 0;
    for (const Member &member : bucket.members) {
      const Argument &input = rewrite_.mapped(rewrite_.source().node(member.collective).args[0]);
      rows.push_back(target == kScatter ? reshaped(input, {ranks, -1}) : reshaped(input, {-1}));
      length += member.elements / (target == kScatter ? ranks : 1);
    }
    tell(bucket, target);
    Arguments more(first.args.begin() + 1, first.args.end());
    rewrite_.builder().set_source(first);
    Argument joined =
        rewrite_.builder().call("aten.cat.default", {rows, target == kScatter ? 1 : 0});
    if (target == kScatter)
      joined = reshaped(joined, {-1});
    more.insert(more.begin(), joined);
    Argument result = rewrite_.builder().call(target, std::move(more));
    result = rewrite_.builder().call(kWait, {result});
    if (target == kGather)
      result = reshaped(result, {ranks, length});
    cut(bucket, target, ranks, result);
  }

  /// What each member's wait yields.
  void cut(const Bucket &bucket, const std::string &target, int64_t ranks, const Argument &result) {
    int64_t at = 0;
    for (const Member &member : bucket.members) {
      const int64_t own = member.elements / (target == kScatter ? ranks : 1);
      const Argument part = rewrite_.builder().call(
          "aten.slice.Tensor", {result, target == kGather ? 1 : 0, at, at + own});
      Arguments sizes;
      const graph::Value &value = *rewrite_.source().node(member.wait).value;
      for (const Expr size : value.tensor()->layout.sizes)
        sizes.push_back(size.value());
      const Argument whole = rewrite_.builder().call("aten.reshape.default", {part, sizes});
      for (const NodeId node : {member.collective, member.wait}) {
        rewrite_.replace(node, whole);
        done_[node] = true;
      }
      at += own;
    }
  }

  int64_t rank_count(const Node &node) const {
    return std::get<int64_t>(node.args[node.target == kGather ? 1 : 2].value);
  }

  Argument reshaped(const Argument &tensor, std::initializer_list<int64_t> sizes) {
    Arguments list;
    for (const int64_t size : sizes)
      list.push_back(size);
    return rewrite_.builder().call("aten.reshape.default", {tensor, list});
  }

  void tell(const Bucket &bucket, const std::string &target) {
    if (options_.choices == nullptr)
      return;
    const size_t start = target.find('.') + 1;
    options_.choices->push_back(std::to_string(bucket.members.size()) + " times " +
                                target.substr(start, target.rfind('.') - start) +
                                " become one of " + std::to_string(bucket.bytes) +
                                " bytes: " + std::to_string(bucket.members.size() - 1) +
                                " latencies of the network fewer, for copies around it");
  }
};

} // namespace

graph::Graph bucket_collectives(graph::Graph graph, const PassOptions &options) {
  if (options.bucket_bytes == 0 || !has_ordered_operators(graph) || writes_in_place(graph))
    return graph;
  return Joiner(std::move(graph), options).run();
}

} // namespace tsc::ops
