#include "random_graph.h"

#include "random_arguments.h"
#include "rebuild.h"

#include "ops/table/builder.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace tsc::differential {
namespace {

using graph::Argument;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::NodeKind;
using graph::NodeRef;
using graph::TensorMeta;
using tensor::DType;
using tensor::HostTensor;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Results that are undefined, random, or of sizes that data decides; calls that are no
/// computation; what tells the sign of a NaN, which is the processor's.
bool is_excluded(const ops::Operator &row) {
  if (row.effect == ops::Effect::random || row.effect == ops::Effect::assertion ||
      row.effect == ops::Effect::ordered || row.name.rfind("tsc.", 0) == 0)
    return true;
  for (const char *part :
       {"empty",         "rand",          "bernoulli",     "multinomial", "nonzero", "unique",
        "masked_select", "item",          "_local_scalar", "sym_",        "_assert", "resize",
        "set_",          "operator.",     "normal",        "exponential", "_c10d",   "fsdp",
        "poisson",       "uniform",       "cauchy",        "geometric",   "lift",    "higher_order",
        "detach_",       "requires_grad", "dropout",       "device",      "copy_to", "signbit",
        "copysign"})
    if (contains(row.name, part))
      return true;
  return false;
}

unsigned weight_of(const ops::Operator &row) {
  if (row.effect == ops::Effect::view)
    return 6;
  if (row.schema.is_mutable())
    return 2;
  for (const char *part : {"foreach", "lstm", "gru", "rnn", "conv", "attention", "upsample", "pool",
                           "loss", "fft", "special"})
    if (contains(row.name, part))
      return 2;
  for (const char *part : {"cat", "stack", "sum", "mean", "max", "min", "sort", "index", "gather",
                           "scatter", "where", "pad", "softmax", "cum", "add", "mul", "copy"})
    if (contains(row.name, part))
      return 8;
  return 4;
}

/// Values that 16 bits hold exactly, mostly; now and then any, now and then special ones.
HostTensor random_values(RandomSource &random, DType dtype, const std::vector<int64_t> &sizes,
                         int64_t low, int64_t high) {
  HostTensor tensor(dtype, sizes);
  const size_t style = random.below(10);
  static const std::vector<double> kSpecial = {0.0, -0.0, INFINITY, -INFINITY,
                                               NAN, 1.0,  -1.0,     65504};
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    if (dtype == DType::boolean)
      tensor.set_int64(i, random.chance(50));
    else if (!tensor::is_floating(dtype))
      tensor.set_int64(i, random.between(dtype == DType::u8 ? std::max<int64_t>(low, 0) : low,
                                         std::max<int64_t>(high, dtype == DType::u8 ? 0 : low)));
    else if (style < 6)
      tensor.set_double(i, static_cast<double>(random.between(-16, 16)) / 4);
    else if (style < 9)
      tensor.set_double(i, static_cast<double>(random.between(-1000000, 1000000)) / 333333);
    else
      tensor.set_double(i, random.chance(20) ? random.pick(kSpecial)
                                             : static_cast<double>(random.between(-8, 8)) / 2);
  }
  return tensor;
}

/// A graph that grows; inputs stand where they were first needed until it is done.
class Growing {
public:
  Growing(Subject subject, RandomSource &random, int64_t most_elements)
      : subject_(std::move(subject)), random_(random), most_elements_(most_elements),
        ranges_(std::make_shared<const symbolic::Ranges>(subject_.graph.ranges())) {
    surroundings_.graph = &subject_.graph;
    for (NodeId id = 0; id < subject_.graph.nodes.size(); ++id) {
      taken_.insert(subject_.graph.nodes[id].name);
      offer(id);
    }
    surroundings_.new_input = [this](DType dtype, std::vector<int64_t> sizes, int64_t low,
                                     int64_t high) {
      return new_input(dtype, std::move(sizes), low, high);
    };
  }
  bool new_inputs = true;
  const ops::Operator *only = nullptr;

  bool add_call(bool mutating) {
    const ops::Operator &row = only ? *only : choose_row(mutating);
    for (int attempt = 0; attempt < 12; ++attempt) {
      const size_t nodes = subject_.graph.nodes.size(), inputs = subject_.graph.inputs.size();
      const std::vector<NodeId> offered = surroundings_.tensors;
      if (try_call(row))
        return true;
      subject_.graph.nodes.resize(nodes);
      subject_.graph.inputs.resize(inputs);
      subject_.inputs.resize(subject_.inputs.size() - (added_inputs_ - inputs));
      added_inputs_ = inputs;
      surroundings_.tensors = offered;
    }
    return false;
  }

  /// Calls that nothing uses are results, and some others.
  void choose_outputs() {
    Graph &graph = subject_.graph;
    const std::vector<uint32_t> users = graph::count_users(graph);
    for (const NodeId id : surroundings_.tensors)
      if (graph.nodes[id].kind == NodeKind::call_function && (users[id] == 0 || random_.chance(12)))
        graph.outputs.push_back({graph::OutputKind::user, NodeRef{id}, ""});
    if (graph.outputs.empty() && !surroundings_.tensors.empty())
      graph.outputs.push_back({graph::OutputKind::user, NodeRef{surroundings_.tensors.back()}, ""});
  }
  Subject take() {
    Node output;
    output.name = "output";
    output.kind = NodeKind::output;
    output.target = "output";
    subject_.graph.nodes.push_back(std::move(output));
    subject_.graph = inputs_first(subject_.graph);
    refresh_output_node(subject_.graph);
    return std::move(subject_);
  }
  const std::vector<NodeId> &tensors() const { return surroundings_.tensors; }
  void start_inputs() { added_inputs_ = subject_.graph.inputs.size(); }

private:
  Subject subject_;
  RandomSource &random_;
  int64_t most_elements_;
  std::shared_ptr<const symbolic::Ranges> ranges_;
  Surroundings surroundings_;
  size_t added_inputs_ = 0;
  size_t names_ = 0;
  std::set<std::string> taken_; // before it grew

  std::string fresh_name(const char *prefix) {
    std::string name;
    do
      name = prefix + std::to_string(++names_);
    while (taken_.count(name) != 0);
    return name;
  }

  /// Whether later calls may refer to it.
  void offer(NodeId id) {
    const Node &node = subject_.graph.nodes[id];
    if (node.kind == NodeKind::output || !fits(node.value))
      return;
    surroundings_.tensors.push_back(id);
  }
  bool fits(const std::optional<graph::Value> &value) const {
    const auto sizes = static_sizes(value);
    if (!sizes || tensor::is_complex(value->tensor()->dtype))
      return false;
    int64_t count = 1;
    for (const int64_t size : *sizes)
      count *= size;
    return count <= most_elements_;
  }

  const ops::Operator &choose_row(bool mutating) {
    static const unsigned total = [] {
      unsigned sum = 0;
      for (const VocabularyEntry &entry : vocabulary())
        sum += entry.weight;
      return sum;
    }();
    for (;;) {
      size_t place = random_.below(total);
      for (const VocabularyEntry &entry : vocabulary()) {
        if (place < entry.weight) {
          if (entry.row->schema.is_mutable() && !mutating)
            break;
          return *entry.row;
        }
        place -= entry.weight;
      }
    }
  }

  std::optional<NodeId> new_input(DType dtype, std::vector<int64_t> sizes, int64_t low,
                                  int64_t high) {
    if (!new_inputs || subject_.graph.inputs.size() > 10)
      return std::nullopt;
    TensorMeta meta;
    meta.dtype = dtype;
    std::vector<symbolic::Expr> symbolic_sizes(sizes.begin(), sizes.end());
    meta.layout = tensor::contiguous_layout(symbolic_sizes);
    if (sizes.size() > 1 && random_.chance(12)) { // strides of another order
      std::vector<size_t> order(sizes.size());
      for (size_t i = 0; i < order.size(); ++i)
        order[i] = i;
      random_.shuffle(order);
      meta.layout.strides = tensor::strides_in_order(symbolic_sizes, order);
    }
    Node node;
    node.name = fresh_name("x");
    node.kind = NodeKind::placeholder;
    node.target = node.name;
    node.value = graph::Value{meta};
    if (!fits(node.value))
      return std::nullopt;
    const NodeId id = static_cast<NodeId>(subject_.graph.nodes.size());
    subject_.graph.nodes.push_back(std::move(node));
    graph::InputSpec spec;
    spec.node = id;
    subject_.graph.inputs.push_back(spec);
    subject_.inputs.push_back(random_values(random_, dtype, sizes, low, high));
    ++added_inputs_;
    surroundings_.tensors.push_back(id);
    return id;
  }

  bool try_call(const ops::Operator &row) {
    const auto arguments = random_arguments(row, surroundings_, random_);
    if (!arguments)
      return false;
    Node node;
    node.name = fresh_name("n");
    node.target = std::string(row.name);
    node.args = arguments->args;
    node.kwargs = arguments->kwargs;
    try {
      node.value = ops::infer_value(subject_.graph, node, ranges_);
    } catch (const support::UserError &) {
      return false;
    }
    const graph::Value::List *list = node.value->list();
    bool sound = !list || !list->empty();
    if (list)
      for (const graph::Value &item : *list)
        sound &= !item.tensor() || fits(item);
    else
      sound = fits(node.value);
    if (!sound)
      return false;
    const NodeId id = static_cast<NodeId>(subject_.graph.nodes.size());
    subject_.graph.nodes.push_back(std::move(node));
    if (list)
      return take_items(id);
    surroundings_.tensors.push_back(id);
    return true;
  }
  bool take_items(NodeId id) {
    const size_t count = subject_.graph.nodes[id].value->list()->size();
    bool any = false;
    for (size_t i = 0; i < count; ++i) {
      const graph::Value item = (*subject_.graph.nodes[id].value->list())[i];
      if (!item.tensor() || (!random_.chance(70) && (any || i + 1 < count)))
        continue;
      any = true;
      Node node;
      node.name = fresh_name("n");
      node.target = "operator.getitem";
      node.args = {NodeRef{id}, static_cast<int64_t>(i)};
      node.value = item;
      surroundings_.tensors.push_back(static_cast<NodeId>(subject_.graph.nodes.size()));
      subject_.graph.nodes.push_back(std::move(node));
    }
    return any;
  }
};

} // namespace

const std::vector<VocabularyEntry> &vocabulary() {
  static const std::vector<VocabularyEntry> entries = [] {
    std::vector<VocabularyEntry> result;
    for (const ops::Operator &row : ops::operators())
      if (!is_excluded(row))
        result.push_back({&row, weight_of(row)});
    return result;
  }();
  return entries;
}

Subject extended(Subject subject, RandomSource &random, const GrammarOptions &options) {
  const bool mutating = random.chance(options.mutating_percent);
  const size_t count =
      options.least_calls + random.below(options.most_calls - options.least_calls + 1);
  if (!subject.graph.nodes.empty() && subject.graph.nodes.back().kind == NodeKind::output)
    subject.graph.nodes.pop_back();
  Growing growing(std::move(subject), random, options.most_elements);
  growing.start_inputs();
  growing.only = options.only;
  for (size_t added = 0, attempts = 0; added < count && attempts < 40 * count; ++attempts)
    added += growing.add_call(mutating);
  growing.choose_outputs();
  return growing.take();
}

Subject random_subject(RandomSource &random, const GrammarOptions &options) {
  return extended({}, random, options);
}

size_t add_calls(Subject &subject, RandomSource &random, size_t count, int64_t most_elements,
                 bool mutating, bool new_inputs) {
  subject.graph.nodes.pop_back();
  Growing growing(std::move(subject), random, most_elements);
  growing.start_inputs();
  growing.new_inputs = new_inputs;
  size_t added = 0;
  for (size_t i = 0; i < count; ++i)
    added += growing.add_call(mutating);
  subject = growing.take();
  return added;
}

bool has_mutations(const Graph &graph) {
  for (const Node &node : graph.nodes)
    if (const ops::Operator *row = ops::find_operator(node.target))
      if (row->schema.is_mutable())
        return true;
  return false;
}

} // namespace tsc::differential
