// What comes to queries, keys and values of attention: two kernels of ours, each an operator whole
// (templates/attention/tc_attention_backward.h).
#include "ir/custom_call.h"
#include "lowering/attention_operands.h"
#include "lowering/registry.h"
#include "lowering/tuple_call.h"
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
      kernel_.inputs.push_back(mask_operand(context, tensor_argument(context, call, "mask"),
                                            layout(0), layout(1).sizes[2]));
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

} // namespace

void add_attention_gradients(Registry &registry) {
  registry["attention_query_gradient"] = [](Context &context, const ops::Call &call) {
    return BackwardCall(context, call, false).finish();
  };
  registry["attention_key_gradients"] = [](Context &context, const ops::Call &call) {
    return BackwardCall(context, call, true).finish();
  };
}

} // namespace tsc::lowering
