// Operators that the user brought: a kernel's launch with everything evaluated that the row gives
// as expressions, on operands in memory.
#include "graph/data_symbols.h"
#include "graph/indicators.h"
#include "ir/custom_call.h"
#include "lowering/build.h"
#include "lowering/realize.h"
#include "lowering/registry.h"
#include "lowering/tuple_call.h"
#include "ops/custom/call_names.h"
#include "ops/table/source_line.h"
#include "support/diagnostic.h"
#include "target/target.h"

#include <algorithm>

namespace tsc::lowering {

namespace {

constexpr int64_t kMostBlocks[] = {INT32_MAX, 65535, 65535};

class CallBuilder {
public:
  CallBuilder(Context &context, const ops::Call &call, const ops::CustomOperator &row)
      : context_(context), call_(call), row_(row), names_(ops::call_names(call, row)) {}

  NodeValue build() {
    check_requirements();
    ir::Extern kernel;
    kernel.kernel = call_.node().target;
    kernel.ir_class = "UserDefinedKernel";
    kernel.library = ir::Library::user_kernel;
    add_inputs(kernel);
    const std::vector<graph::TensorMeta> results = results_of_call();
    for (size_t i = 0; i < results.size(); ++i)
      names_.tensors[row_.results[i].name] = results[i];
    auto custom = std::make_shared<ir::CustomCall>();
    custom->name = call_.node().target;
    custom->results = results.size();
    custom->has_workspace = !row_.workspace_bytes.empty();
    custom->cuda = function(row_.cuda);
    add_launch(custom->cuda);
    if (row_.host)
      custom->host = function(*row_.host);
    else if (context_.target != nullptr && context_.target->is_host)
      call_.refuse("TSC-O213",
                   call_.node().target + " has no host function, and the program is for the host",
                   "add \"host\" to its row, or plan for a GPU: --arch=sm_90");
    kernel.custom = std::move(custom);
    return register_call(std::move(kernel), results);
  }

private:
  Context &context_;
  const ops::Call &call_;
  const ops::CustomOperator &row_;
  ops::RowNames names_;
  std::map<std::string, size_t> inputs_; // given tensors: their places among the inputs

  Expr value(const std::string &text) const { return ops::evaluated(call_, text, names_); }

  /// Holds `condition` of sizes when they are known; throws where it never holds, or where nobody
  /// would look.
  void assert_sizes(Expr condition, const std::string &message) {
    const symbolic::Interval known = symbolic::bounds(condition, *context_.ranges);
    if (known.low >= 1)
      return;
    if (known.high < 1)
      call_.fail("TSC-O211", call_.node().target + ": it does not hold that " + message,
                 "pass arguments of which it holds, or change the operator's row");
    if (context_.results != nullptr || graph::depends_on_data(condition))
      call_.refuse("TSC-O214",
                   call_.node().target + ": nothing says whether " + message +
                       " when sizes are given",
                   "export with sizes that decide it, and call the operator outside of branches "
                   "and loops");
    ir::SizeAssertion row;
    row.condition = condition;
    row.assertion = {call_.node().target + ": " + message, ops::users_name(call_.node()),
                     ops::source_line(call_.node())};
    std::vector<ir::SizeAssertion> &rows = context_.module.size_assertions;
    if (std::none_of(rows.begin(), rows.end(),
                     [&](const ir::SizeAssertion &other) { return other.condition == condition; }))
      rows.push_back(std::move(row));
  }
  void check_requirements() {
    for (const std::string &text : row_.requirements)
      assert_sizes(ops::requirement(call_, text, names_), text);
  }

  /// Contiguous, unless the row takes the tensor as it lies: then its strides are what lies there.
  void add_inputs(ir::Extern &kernel) {
    for (const ops::Parameter &parameter : call_.schema().parameters) {
      const auto meta = names_.tensors.find(parameter.name);
      if (meta == names_.tensors.end())
        continue;
      TensorValue value = tensor_argument(context_, call_, parameter.name);
      if (value.dtype != value.storage->dtype) // reinterpreted bits
        value = copy(context_, value);
      const bool strided = row_.is_strided(parameter.name);
      const ir::BufferView view =
          strided ? realized_view(context_, value)
                  : require_strides(context_, value, meta->second.layout.strides);
      if (strided)
        meta->second.layout = view.layout;
      inputs_.emplace(parameter.name, kernel.inputs.size());
      kernel.inputs.push_back(view);
    }
  }

  std::vector<graph::TensorMeta> results_of_call() const {
    std::vector<graph::TensorMeta> results;
    const graph::Value &value = *call_.node().value;
    if (value.list() == nullptr)
      return {*value.tensor()};
    for (const graph::Value &item : *value.list())
      results.push_back(*item.tensor());
    return results;
  }

  ir::CustomArgument pointer(const std::string &name) const {
    ir::CustomArgument argument;
    if (name == ops::kWorkspace) {
      argument.kind = ir::CustomArgument::Kind::workspace;
      return argument;
    }
    for (size_t i = 0; i < row_.results.size(); ++i)
      if (row_.results[i].name == name) {
        argument.kind = ir::CustomArgument::Kind::result;
        argument.position = i;
        return argument;
      }
    const auto found = inputs_.find(name);
    argument.kind =
        found == inputs_.end() ? ir::CustomArgument::Kind::absent : ir::CustomArgument::Kind::input;
    argument.position = found == inputs_.end() ? 0 : found->second;
    return argument;
  }
  /// A number of the schema, or one that the row writes.
  double real(const std::string &text) const {
    const auto &parameters = call_.schema().parameters;
    const bool named = std::any_of(parameters.begin(), parameters.end(),
                                   [&](const ops::Parameter &p) { return p.name == text; });
    return named ? call_.number(text) : std::stod(text);
  }
  ir::CustomArgument argument(const ops::CustomParameter &given) {
    if (given.type.empty())
      return pointer(given.text);
    ir::CustomArgument argument;
    argument.type = given.type == "int64" ? "long long" : given.type;
    if (given.type == "float" || given.type == "double") {
      argument.kind = ir::CustomArgument::Kind::number;
      argument.number = real(given.text);
      return argument;
    }
    argument.kind = ir::CustomArgument::Kind::integer;
    argument.size = value(given.text);
    if (given.type == "int") {
      assert_sizes(graph::less_or_equal(argument.size, INT32_MAX),
                   given.text + ", which is passed as int, is below 2**31");
      assert_sizes(graph::less_or_equal(INT32_MIN, argument.size),
                   given.text + ", which is passed as int, is not below -2**31");
    }
    return argument;
  }
  ir::CustomKernel function(const ops::CustomFunction &given) {
    ir::CustomKernel kernel;
    kernel.file = given.file;
    kernel.text = given.text;
    kernel.function = given.function;
    for (const ops::CustomParameter &parameter : given.parameters)
      kernel.arguments.push_back(argument(parameter));
    return kernel;
  }

  void add_launch(ir::CustomKernel &kernel) {
    const size_t axes = std::min(kernel.grid.size(), row_.cuda.grid.size());
    for (size_t axis = 0; axis < axes; ++axis) {
      const std::string &text = row_.cuda.grid[axis];
      kernel.grid[axis] = value(text);
      check_size(kernel.grid[axis], "grid size " + text, kMostBlocks[axis]);
    }
    kernel.block = row_.cuda.block;
    kernel.shared_bytes = value(row_.cuda.shared_bytes);
    const bool is_gpu = context_.target != nullptr && !context_.target->is_host;
    check_size(kernel.shared_bytes, "shared memory of " + row_.cuda.shared_bytes + " bytes",
               is_gpu ? context_.target->shared_bytes_per_block : INT32_MAX);
  }
  /// What sizes decide at run time is looked at then.
  void check_size(Expr size, const std::string &what, int64_t most) const {
    const symbolic::Interval known = symbolic::bounds(size, *context_.ranges);
    if (known.high < 0 || known.low > most)
      call_.fail("TSC-O215",
                 call_.node().target + ": the " + what + " is " + symbolic::print(size) +
                     ", the device takes 0 to " + std::to_string(most),
                 "change the operator's row, or pass smaller tensors");
  }

  /// The call, and behind it an operation for each item of its tuple.
  NodeValue register_call(ir::Extern kernel, const std::vector<graph::TensorMeta> &results) {
    std::vector<graph::TensorMeta> items = results;
    if (!row_.workspace_bytes.empty()) {
      graph::TensorMeta workspace;
      workspace.dtype = DType::u8;
      workspace.layout = tensor::Layout{{value(row_.workspace_bytes)}, {Expr(1)}, Expr(0)};
      check_size(workspace.layout.sizes[0], "workspace of " + row_.workspace_bytes + " bytes",
                 INT64_MAX);
      items.push_back(std::move(workspace));
    }
    for (graph::TensorMeta &item : items)
      item.layout.strides = tensor::contiguous_strides(item.layout.sizes);
    NodeValue made = tuple_call(context_, std::move(kernel), items);
    auto &values = std::get<std::vector<TensorValue>>(made);
    values.resize(results.size()); // nobody reads the workspace
    if (call_.node().value->list() == nullptr)
      return values[0];
    return values;
  }
};

NodeValue user_kernel(Context &context, const ops::Call &call) {
  const ops::CustomOperators *operators = ops::CustomOperatorScope::current();
  const ops::CustomOperator *row =
      operators != nullptr ? operators->definition(call.node().target) : nullptr;
  if (row == nullptr)
    throw support::InternalError("lowering", "", "no row of " + call.node().target + " is here");
  return CallBuilder(context, call, *row).build();
}

} // namespace

void add_user_kernels(Registry &registry) { registry[ops::kUserKernel] = user_kernel; }

} // namespace tsc::lowering
