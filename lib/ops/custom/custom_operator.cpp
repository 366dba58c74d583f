#include "ops/custom/custom_operator.h"

#include "ops/custom/call_names.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "support/diagnostic.h"

#include <algorithm>

namespace tsc::ops {
namespace {

bool is_tensor(const Parameter &parameter) {
  return parameter.type == "Tensor" || parameter.type == "Tensor?";
}

/// Throws TSC-O210 for a tensor of a dtype or rank that the row does not take.
void check_inputs(const Call &call, const CustomOperator &row) {
  for (const auto &[name, input] : row.inputs) {
    const TensorMeta *meta = call.optional_tensor(name);
    if (meta == nullptr)
      continue;
    if (!input.dtypes.empty() &&
        std::find(input.dtypes.begin(), input.dtypes.end(), meta->dtype) == input.dtypes.end())
      call.fail("TSC-O210",
                call.node().target + ": '" + name + "' is " +
                    std::string(tensor::torch_name(meta->dtype)) +
                    ", which the operator's row does not take",
                "convert it before the call, or add the type to \"dtypes\" of the row");
    if (input.rank && meta->layout.rank() != *input.rank)
      call.fail("TSC-O210",
                call.node().target + ": '" + name + "' has rank " +
                    std::to_string(meta->layout.rank()) + ", the operator's row says " +
                    std::to_string(*input.rank),
                "pass a tensor of that rank, or change \"rank\" of the row");
  }
  for (const Parameter &parameter : call.schema().parameters) {
    const TensorMeta *meta = is_tensor(parameter) ? call.optional_tensor(parameter.name) : nullptr;
    if (meta != nullptr && meta->dtype > DType::f64)
      call.refuse("TSC-O210",
                  call.node().target + ": '" + parameter.name + "' is " +
                      std::string(tensor::torch_name(meta->dtype)) + ", which no kernel takes",
                  "convert it before the call");
  }
}

/// Throws TSC-O211 for a condition that cannot hold.
void check_requirements(const Call &call, const CustomOperator &row, const RowNames &names) {
  for (const std::string &text : row.requirements)
    if (symbolic::bounds(requirement(call, text, names), names.ranges).high < 1)
      call.fail("TSC-O211", call.node().target + ": the operator's row requires " + text,
                "pass arguments of which it holds, or change \"require\" of the row");
}

Value result_value(const Call &call, const CustomResult &result, const RowNames &names,
                   tensor::Device device) {
  const auto *name = std::get_if<std::string>(&result.dtype);
  const DType dtype = name ? call.tensor(*name).dtype : std::get<DType>(result.dtype);
  std::vector<Expr> sizes;
  if (!result.like.empty())
    sizes = call.tensor(result.like).layout.sizes;
  for (const std::string &text : result.sizes) {
    sizes.push_back(evaluated(call, text, names));
    if (symbolic::bounds(sizes.back(), names.ranges).high < 0)
      call.fail("TSC-O211",
                call.node().target + ": the size " + text + " of '" + result.name + "' is " +
                    symbolic::print(sizes.back()),
                "pass arguments for which no size is negative, or change \"sizes\" of the row");
  }
  return contiguous_value(dtype, std::move(sizes), device);
}

Value result_values(const Call &call, const CustomOperator &row) {
  check_inputs(call, row);
  const RowNames names = call_names(call, row);
  check_requirements(call, row, names);
  tensor::Device device;
  for (const Parameter &parameter : call.schema().parameters)
    if (const TensorMeta *meta =
            is_tensor(parameter) ? call.optional_tensor(parameter.name) : nullptr) {
      device = meta->device;
      break;
    }
  Value::List values;
  for (const CustomResult &result : row.results)
    values.push_back(result_value(call, result, names, device));
  return values.size() == 1 ? values[0] : Value{std::move(values)};
}

thread_local const CustomOperators *current_operators = nullptr;

} // namespace

RowNames call_names(const Call &call, const CustomOperator &row) {
  RowNames names;
  names.ranges = call.ranges();
  for (const Parameter &parameter : call.schema().parameters) {
    if (is_tensor(parameter)) {
      const TensorMeta *meta = call.optional_tensor(parameter.name);
      if (meta == nullptr)
        continue;
      TensorMeta seen = *meta;
      if (!row.is_strided(parameter.name))
        seen.layout.strides = tensor::contiguous_strides(seen.layout.sizes);
      names.tensors.emplace(parameter.name, std::move(seen));
    } else if (parameter.type != "float") {
      names.integers.emplace(parameter.name, call.size(parameter.name));
    }
  }
  return names;
}

Expr evaluated(const Call &call, const std::string &text, const RowNames &names) {
  try {
    return read_expression(text, names);
  } catch (const ExpressionError &error) {
    call.fail("TSC-O212",
              call.node().target + ": \"" + text + "\" of the operator's row, column " +
                  std::to_string(error.column()) + ": " + error.what(),
              "pass arguments for which it has a value, or change the row");
  }
}

Expr requirement(const Call &call, const std::string &text, const RowNames &names) {
  try {
    return symbolic::simplify(indicator(read_condition(text, names)), names.ranges);
  } catch (const ExpressionError &error) {
    call.fail("TSC-O212",
              call.node().target + ": \"" + text + "\" of the operator's row, column " +
                  std::to_string(error.column()) + ": " + error.what(),
              "pass arguments for which it has a value, or change the row");
  }
}

bool CustomOperator::is_strided(const std::string &parameter) const {
  const auto found = inputs.find(parameter);
  return found != inputs.end() && found->second.strided;
}

std::string custom_operator_name(const std::string &schema) {
  std::string name = schema.substr(0, schema.find('('));
  const size_t colons = name.find("::");
  if (colons != std::string::npos)
    name.replace(colons, 2, ".");
  return name.find('.', colons + 1) == std::string::npos ? name + ".default" : name;
}

CustomOperators::CustomOperators(std::vector<CustomOperator> rows) {
  for (CustomOperator &row : rows) {
    const std::string name = custom_operator_name(row.schema);
    const auto [at, is_new] = definitions_.emplace(name, std::move(row));
    support::require(is_new, "custom operators", "two rows are named " + name);
    const CustomOperator *definition = &at->second;
    Operator operation;
    operation.name = at->first;
    operation.schema = parse_schema(definition->schema);
    operation.shape = [definition](const Call &call) { return result_values(call, *definition); };
    operation.lowering = kUserKernel;
    rows_.emplace(name, std::move(operation));
  }
}

const Operator *CustomOperators::find(std::string_view name) const {
  const auto found = rows_.find(name);
  return found == rows_.end() ? nullptr : &found->second;
}

const CustomOperator *CustomOperators::definition(std::string_view name) const {
  const auto found = definitions_.find(name);
  return found == definitions_.end() ? nullptr : &found->second;
}

CustomOperatorScope::CustomOperatorScope(std::shared_ptr<const CustomOperators> operators)
    : operators_(std::move(operators)), before_(current_operators) {
  if (operators_)
    current_operators = operators_.get();
}
CustomOperatorScope::~CustomOperatorScope() { current_operators = before_; }

const CustomOperators *CustomOperatorScope::current() { return current_operators; }

} // namespace tsc::ops
