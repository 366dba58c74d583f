// What comes to queries, keys and values of attention: two kernels of ours, each an operator whole
// (templates/attention/tc_attention_backward.h).
#include "ir/custom_call.h"
#include "lowering/attention_operands.h"
#include "lowering/build.h"
#include "lowering/registry.h"
#include "lowering/tuple_call.h"
#include "support/diagnostic.h"
#include "templates/attention/tc_attention_backward_geometry.h"

namespace tsc::lowering {

namespace {

using Kind = ir::CustomArgument::Kind;

ir::CustomArgument argument(Kind kind, size_t position = 0) {
  ir::CustomArgument result;
  result.kind = kind;
  result.position = position;
  return result;
}
ir::CustomArgument integer(Expr value, std::string type) {
  ir::CustomArgument result = argument(Kind::integer);
  result.size = value;
  result.type = std::move(type);
  return result;
}

/// Strides of [batch, heads, rows] in memory that holds the dimensions in `order`.
void add_strides(std::vector<ir::CustomArgument> &arguments, const graph::TensorMeta &meta,
                 const std::vector<int64_t> &order) {
  const std::vector<Expr> strides = tensor::contiguous_strides(meta.layout.sizes);
  for (int64_t dimension = 0; dimension < 3; ++dimension)
    for (size_t k = 0; k < order.size(); ++k)
      if (order[k] == dimension)
        arguments.push_back(integer(strides[k], "long long"));
}

std::string mask_type(const ops::Call &call) {
  const graph::TensorMeta *mask = call.optional_tensor("mask");
  if (mask == nullptr)
    return "tc_unmasked";
  return mask->dtype == DType::boolean ? "bool"
         : mask->dtype == DType::f16   ? "tc_f16"
         : mask->dtype == DType::bf16  ? "tc_bf16"
                                       : "float";
}

/// Operands and sizes in the order of tc_attention_backward's parameters.
class BackwardCall {
public:
  BackwardCall(Context &context, const ops::Call &call, bool keys)
      : context_(context), call_(call), keys_(keys),
        results_(call.node().value->tensor()
                     ? std::vector<graph::TensorMeta>{*call.node().value->tensor()}
                     : std::vector<graph::TensorMeta>{*(*call.node().value->list())[0].tensor(),
                                                      *(*call.node().value->list())[1].tensor()}) {
    kernel_.kernel = call.node().target;
    kernel_.ir_class = "FallbackKernel";
    kernel_.library = ir::Library::user_kernel;
    for (const char *name : {"query", "key", "value", "above"})
      kernel_.inputs.push_back(rows_operand(context, tensor_argument(context, call, name)));
    for (const char *name : {"sums", "share"}) {
      TensorValue value = tensor_argument(context, call, name);
      kernel_.inputs.push_back(
          require_strides(context, value, tensor::contiguous_strides(value.sizes)));
    }
    if (call.has("mask"))
      kernel_.inputs.push_back(mask_operand(
          context, tensor_argument(context, call, "mask"),
          {layout(0).sizes[0], layout(0).sizes[1], layout(0).sizes[2], layout(1).sizes[2]}));
  }

  NodeValue finish() {
    auto custom = std::make_shared<ir::CustomCall>();
    custom->name = call_.node().target;
    custom->results = results_.size();
    custom->matrix_operations = operations();
    custom->cuda = kernel(false);
    custom->host = kernel(true);
    kernel_.custom = std::move(custom);
    const NodeValue values = tuple_call(context_, std::move(kernel_), results_);
    if (!keys_)
      return std::get<std::vector<TensorValue>>(values)[0];
    return values;
  }

private:
  Context &context_;
  const ops::Call &call_;
  bool keys_;
  std::vector<graph::TensorMeta> results_;
  ir::Extern kernel_;

  const tensor::Layout &layout(size_t input) const { return kernel_.inputs[input].layout; }

  ir::CustomKernel kernel(bool alone) const {
    const std::vector<Expr> &query = layout(0).sizes, &key = layout(1).sizes;
    const bool masked = call_.has("mask");
    const auto depth = static_cast<int>(query[3].value());
    ir::CustomKernel result;
    result.file = "tc_attention_backward.h";
    result.function = "tc_attention_backward<" + std::to_string(depth) +
                      (keys_ ? ", true" : ", false") +
                      (call_.boolean("is_causal") ? ", true" : ", false") +
                      (alone ? ", true, " : ", false, ") + mask_type(call_) + ">";
    result.arguments = arguments();
    if (alone)
      return result;
    const Expr rows = keys_ ? key[2] : query[2], heads = keys_ ? key[1] : query[1];
    result.grid = {symbolic::ceil_div(rows, Expr(tc_backward_rows(depth, keys_, masked))), heads,
                   query[0]};
    result.block = {tc_backward_threads, 1, 1};
    result.shared_bytes = tc_backward_bytes(depth, keys_, masked);
    return result;
  }

  std::vector<ir::CustomArgument> arguments() const {
    const size_t inputs = kernel_.inputs.size();
    std::vector<ir::CustomArgument> list = {argument(Kind::result, 0),
                                            argument(keys_ ? Kind::result : Kind::absent, 1)};
    for (size_t i = 0; i < inputs; ++i)
      list.push_back(argument(Kind::input, i));
    const bool masked = inputs > 6;
    if (!masked)
      list.push_back(argument(Kind::absent));
    add_strides(list, results_[0], call_.integers(keys_ ? "key_order" : "query_order"));
    add_strides(list, results_.back(), call_.integers(keys_ ? "value_order" : "query_order"));
    for (size_t i = 0; i < 4; ++i)
      for (size_t k = 0; k < 3; ++k)
        list.push_back(integer(layout(i).strides[k], "long long"));
    for (size_t k = 0; k < 4; ++k)
      list.push_back(integer(masked ? layout(6).strides[k] : Expr(0), "long long"));
    const std::vector<Expr> &query = layout(0).sizes, &key = layout(1).sizes;
    for (const Expr size :
         {query[2], key[2], query[0], query[1],
          symbolic::simplify(symbolic::floor_div(query[1], key[1]), *context_.ranges)})
      list.push_back(integer(size, "int"));
    list.push_back(argument(Kind::number));
    list.back().number = call_.number("scale");
    list.back().type = "float";
    return list;
  }

  /// Of matrix units: three products for queries, four for keys and values; half under causality.
  Expr operations() const {
    const Expr all = symbolic::numel(layout(0).sizes) * layout(1).sizes[2];
    return all * Expr((keys_ ? 8 : 6) / (call_.boolean("is_causal") ? 2 : 1));
  }
};

/// The kernels of tc_attention_backward_groups.h, each an operator. Under `deterministic` nothing
/// is gathered: what comes to queries is found by a kernel that holds queries.
class GroupCall {
public:
  GroupCall(Context &context, const ops::Call &call)
      : context_(context), call_(call), gathers_(!context.policy.deterministic) {
    kernel_.kernel = call.node().target;
    kernel_.ir_class = "FallbackKernel";
    kernel_.library = ir::Library::user_kernel;
    if (const graph::TensorMeta *one = call.node().value->tensor())
      results_ = {*one};
    else
      for (const graph::Value &each : *call.node().value->list())
        results_.push_back(*each.tensor());
    for (const char *name : {"query", "key", "value", "above"})
      add_boxes(name);
    is_causal_ = call.boolean("is_causal");
    depth_ = static_cast<int>(layout(0).sizes[3].value());
  }

  NodeValue start() {
    support::require(results_[2].layout.sizes[3].is_integer(tc_backward_group_depth(depth_)),
                     "lowering", "elements of what is added up are not those of the kernel");
    kernel_.inputs.push_back(rows_operand(context_, tensor_argument(context_, call_, "out")));
    add_dense("sums");
    const graph::TensorMeta gathered = results_[2];
    if (!gathers_)
      results_.pop_back();
    const auto kernel = [&](bool alone) {
      ir::CustomKernel result =
          named("start<" + std::to_string(depth_) + (gathers_ ? ", true" : ", false"), alone);
      for (size_t i = 0; i < 3; ++i)
        result.arguments.push_back(i < results_.size() ? argument(Kind::result, i)
                                                       : argument(Kind::absent));
      for (const size_t input : {3u, 4u, 5u})
        result.arguments.push_back(argument(Kind::input, input));
      for (const size_t input : {3u, 4u})
        add_layout(result, input);
      add_sizes(result, {layout(0).sizes[2], layout(0).sizes[0], layout(0).sizes[1]});
      if (!alone)
        launch_rows(result, 0);
      return result;
    };
    NodeValue values = finish(kernel(false), kernel(true), 0);
    if (!gathers_) // nobody reads it, so that nothing computes it
      std::get<std::vector<TensorValue>>(values).push_back(zeros(gathered));
    return values;
  }

  NodeValue keys() {
    add_saved();
    const auto form = gathers_ ? tc_backward_form::gathered : tc_backward_form::keys;
    return finish(groups(form, false), groups(form, true), gathers_ ? 10 : 8);
  }

  NodeValue queries() {
    add_saved();
    if (!gathers_)
      return finish(groups(tc_backward_form::queries, false),
                    groups(tc_backward_form::queries, true), 6);
    // What is added up is there when what comes to keys is.
    TensorValue after = tensor_argument(context_, call_, "after");
    kernel_.inputs.push_back(realized_view(context_, after));
    const auto kernel = [&](bool alone) {
      ir::CustomKernel result = named("round<" + std::to_string(depth_) + causal(), alone);
      result.arguments.push_back(argument(Kind::result, 0));
      add_inputs(result);
      add_strides(result.arguments, results_[0], call_.integers("query_order"));
      add_problem(result);
      if (!alone)
        launch_rows(result, tc_backward_bytes(depth_, false, false));
      return result;
    };
    return finish(kernel(false), kernel(true), 0);
  }

private:
  Context &context_;
  const ops::Call &call_;
  std::vector<graph::TensorMeta> results_;
  ir::Extern kernel_;
  int depth_ = 0;
  bool is_causal_ = false, gathers_;

  TensorValue zeros(const graph::TensorMeta &meta) const {
    LoopNode node;
    node.op = ir::Op::constant;
    node.dtype = meta.dtype;
    node.sizes = meta.layout.sizes;
    node.constant = tensor::cast_scalar(int64_t{0}, meta.dtype);
    return tensor_of(context_, add_loop(context_, std::move(node)));
  }
  const tensor::Layout &layout(size_t input) const { return kernel_.inputs[input].layout; }
  std::string causal() const { return is_causal_ ? ", true" : ", false"; }

  /// What bulk copies take; copied where it lies otherwise (repeated heads).
  void add_boxes(const char *name) {
    TensorValue value = tensor_argument(context_, call_, name);
    ir::BufferView view = rows_operand(context_, value);
    if (!ir::boxes_of(view.layout, *context_.ranges)) {
      TensorValue dense = copy(context_, value);
      decide_layout_as(context_, dense.storage->buffer, tensor::contiguous_strides(dense.sizes));
      view = rows_operand(context_, dense);
    }
    kernel_.inputs.push_back(view);
  }
  void add_dense(const char *name) {
    TensorValue value = tensor_argument(context_, call_, name);
    kernel_.inputs.push_back(
        require_strides(context_, value, tensor::contiguous_strides(value.sizes)));
  }
  void add_saved() {
    add_dense("sums");
    add_dense("share");
    if (gathers_)
      add_dense("gathered");
  }
  /// Queries, keys, values, what came to results, what was saved, and what is added up.
  void add_inputs(ir::CustomKernel &kernel) const {
    for (size_t i = 0; i < 6; ++i)
      kernel.arguments.push_back(argument(Kind::input, i));
    kernel.arguments.push_back(gathers_ ? argument(Kind::input, 6) : argument(Kind::absent));
  }
  ir::CustomArgument map_of(size_t input, tc_backward_form form) const {
    ir::CustomArgument result = argument(Kind::map, input);
    result.boxes = *ir::boxes_of(layout(input), *context_.ranges);
    const bool is_query = input == 0 || input == 3,
               is_own = is_query == (form == tc_backward_form::queries);
    result.box = {tc_group_block,
                  is_own ? tc_backward_group_own : tc_backward_group_step(depth_, form), 1, 1};
    return result;
  }
  ir::CustomKernel groups(tc_backward_form form, bool alone) const {
    const bool of_queries = form == tc_backward_form::queries;
    ir::CustomKernel result = named("groups<" + std::to_string(depth_) + ", tc_backward_form::" +
                                        (of_queries                           ? "queries"
                                         : form == tc_backward_form::gathered ? "gathered"
                                                                              : "keys") +
                                        causal(),
                                    alone);
    result.arguments = {argument(Kind::result, 0),
                        of_queries ? argument(Kind::absent) : argument(Kind::result, 1)};
    add_inputs(result);
    for (size_t i = 0; i < 4; ++i)
      result.arguments.push_back(alone ? argument(Kind::absent) : map_of(i, form));
    add_strides(result.arguments, results_[0],
                call_.integers(of_queries ? "query_order" : "key_order"));
    add_strides(result.arguments, results_.back(),
                call_.integers(of_queries ? "query_order" : "value_order"));
    add_problem(result);
    if (alone)
      return result;
    const std::vector<Expr> &own = layout(of_queries ? 0 : 1).sizes;
    result.grid[0] =
        symbolic::minimum(symbolic::ceil_div(own[2], Expr(tc_backward_group_own)) * own[1] * own[0],
                          Expr(context_.target->multiprocessors));
    result.block = {tc_backward_group_threads, 1, 1};
    result.shared_bytes = tc_backward_group_bytes(depth_, form);
    result.blocks = 1;
    return result;
  }
  static ir::CustomKernel named(const std::string &start, bool alone) {
    ir::CustomKernel result;
    result.file = "tc_attention_backward_groups.h";
    result.function = "tc_attention_backward_" + start + (alone ? ", true>" : ", false>");
    return result;
  }
  void add_layout(ir::CustomKernel &kernel, size_t input) const {
    for (size_t k = 0; k < 3; ++k)
      kernel.arguments.push_back(integer(layout(input).strides[k], "long long"));
  }
  static void add_sizes(ir::CustomKernel &kernel, const std::vector<Expr> &sizes) {
    for (const Expr size : sizes)
      kernel.arguments.push_back(integer(size, "int"));
  }
  /// What both kernels of attention take last.
  void add_problem(ir::CustomKernel &kernel) const {
    for (size_t i = 0; i < 4; ++i)
      add_layout(kernel, i);
    const std::vector<Expr> &query = layout(0).sizes, &key = layout(1).sizes;
    add_sizes(kernel,
              {query[2], key[2], query[0], query[1],
               symbolic::simplify(symbolic::floor_div(query[1], key[1]), *context_.ranges)});
    kernel.arguments.push_back(argument(Kind::number));
    kernel.arguments.back().number = call_.number("scale");
    kernel.arguments.back().type = "float";
  }
  /// 128 rows of a head a block.
  void launch_rows(ir::CustomKernel &kernel, int shared_bytes) const {
    const std::vector<Expr> &query = layout(0).sizes;
    kernel.grid = {symbolic::ceil_div(query[2], Expr(128)), query[1], query[0]};
    kernel.block = {tc_backward_threads, 1, 1};
    kernel.shared_bytes = shared_bytes;
  }
  /// `products`: floating point operations of matrix units, of a query, a key and an element.
  NodeValue finish(ir::CustomKernel cuda, ir::CustomKernel host, int products) {
    auto custom = std::make_shared<ir::CustomCall>();
    custom->name = call_.node().target;
    custom->results = results_.size();
    custom->matrix_operations = symbolic::numel(layout(0).sizes) * layout(1).sizes[2] *
                                Expr(products / (is_causal_ ? 2 : 1));
    custom->by_groups = true;
    custom->cuda = std::move(cuda);
    custom->host = std::move(host);
    kernel_.custom = std::move(custom);
    const NodeValue values = tuple_call(context_, std::move(kernel_), results_);
    if (results_.size() == 1)
      return std::get<std::vector<TensorValue>>(values)[0];
    return values;
  }
};

} // namespace

void add_attention_gradients(Registry &registry) {
  registry["attention_gradients_start"] = [](Context &context, const ops::Call &call) {
    return GroupCall(context, call).start();
  };
  registry["attention_gathered_keys"] = [](Context &context, const ops::Call &call) {
    return GroupCall(context, call).keys();
  };
  registry["attention_gathered_queries"] = [](Context &context, const ops::Call &call) {
    return GroupCall(context, call).queries();
  };
  registry["attention_query_gradient"] = [](Context &context, const ops::Call &call) {
    return BackwardCall(context, call, false).finish();
  };
  registry["attention_key_gradients"] = [](Context &context, const ops::Call &call) {
    return BackwardCall(context, call, true).finish();
  };
}

} // namespace tsc::lowering
