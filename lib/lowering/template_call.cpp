#include "lowering/template_call.h"

#include "lowering/realize.h"
#include "lowering/tuple_call.h"

namespace tsc::lowering {

namespace {

using Kind = ir::CustomArgument::Kind;

ir::CustomArgument argument(Kind kind, size_t position = 0) {
  ir::CustomArgument result;
  result.kind = kind;
  result.position = position;
  return result;
}

/// The argument as a tensor of its storage's own dtype.
TensorValue own_bits(Context &context, const ops::Call &call, std::string_view parameter) {
  TensorValue value = tensor_argument(context, call, parameter);
  return value.dtype == value.storage->dtype ? value : copy(context, value);
}

} // namespace

TemplateCall::TemplateCall(Context &context, const ops::Call &call, const std::string &header)
    : context_(context), call_(call) {
  kernel_.kernel = call.node().target;
  kernel_.ir_class = "FallbackKernel";
  kernel_.library = ir::Library::user_kernel;
  parallel.file = header;
}

ir::CustomArgument TemplateCall::result(size_t position) {
  return argument(Kind::result, position);
}
ir::CustomArgument TemplateCall::absent() { return argument(Kind::absent); }
ir::CustomArgument TemplateCall::exchange() { return argument(Kind::exchange); }
ir::CustomArgument TemplateCall::integer(Expr value) {
  ir::CustomArgument result = argument(Kind::integer);
  result.size = value;
  result.type = "long long";
  return result;
}

const ir::BufferView &TemplateCall::add(std::string_view parameter) {
  TensorValue value = own_bits(context_, call_, parameter);
  return add(realized_view(context_, value));
}
const ir::BufferView &TemplateCall::add_dense(std::string_view parameter) {
  TensorValue value = own_bits(context_, call_, parameter);
  return add(require_strides(context_, value, tensor::contiguous_strides(value.sizes)));
}
const ir::BufferView &TemplateCall::add(ir::BufferView view) {
  parallel.arguments.push_back(argument(Kind::input, kernel_.inputs.size()));
  kernel_.inputs.push_back(std::move(view));
  return kernel_.inputs.back();
}

NodeValue TemplateCall::finish(const std::string &function, const std::string &of_types,
                               const std::string &alone_types,
                               const std::vector<ir::CustomArgument> &alone) {
  const graph::Value &value = *call_.node().value;
  std::vector<graph::TensorMeta> results;
  if (value.tensor() != nullptr)
    results.push_back(*value.tensor());
  else
    for (const graph::Value &item : *value.list())
      results.push_back(*item.tensor());
  auto custom = std::make_shared<ir::CustomCall>();
  custom->name = call_.node().target;
  custom->results = results.size();
  custom->exchange = exchange_words;
  ir::CustomKernel serial;
  serial.file = parallel.file;
  serial.function = function + "_alone" + alone_types;
  serial.arguments = parallel.arguments;
  serial.arguments.insert(serial.arguments.end(), alone.begin(), alone.end());
  custom->host = std::move(serial);
  parallel.function = function + of_types;
  custom->cuda = std::move(parallel);
  kernel_.custom = std::move(custom);
  const bool is_one = value.tensor() != nullptr;
  NodeValue made = tuple_call(context_, std::move(kernel_), results);
  return is_one ? NodeValue(std::get<std::vector<TensorValue>>(made)[0]) : made;
}

} // namespace tsc::lowering
