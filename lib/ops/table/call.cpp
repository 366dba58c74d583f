// The arguments of one call, bound to the operator's schema.
#include "ops/table/describe_call.h"
#include "ops/table/operator.h"
#include "ops/table/source_line.h"
#include "support/diagnostic.h"

namespace tsc::ops {

using support::Diagnostic;
using support::ExitCode;
using support::UserError;

Call::Call(const Graph &graph, const Node &node, const Schema &schema,
           std::shared_ptr<const symbolic::Ranges> ranges)
    : graph_(&graph), node_(&node), schema_(&schema), ranges_(std::move(ranges)),
      arguments_(schema.parameters.size()), metas_(schema.parameters.size()) {
  const std::vector<Parameter> &parameters = schema.parameters;
  const auto known_form = [&] {
    return "the form that tsc knows: " + describe_schema(node.target, schema);
  };
  if (node.args.size() > parameters.size())
    fail("TSC-O010",
         node.target + " takes " + std::to_string(parameters.size()) + " arguments, " +
             std::to_string(node.args.size()) + " given",
         known_form());
  std::vector<bool> given(parameters.size(), false);
  for (size_t i = 0; i < node.args.size(); ++i) {
    arguments_[i] = node.args[i];
    given[i] = true;
  }
  for (const auto &keyword : node.kwargs) {
    size_t i = 0;
    while (i < parameters.size() && parameters[i].name != keyword.first)
      ++i;
    if (i == parameters.size())
      fail("TSC-O011", node.target + " has no argument '" + keyword.first + "'", known_form());
    if (given[i])
      fail("TSC-O012", node.target + ": argument '" + keyword.first + "' is given twice",
           "give it once, by position or by name");
    arguments_[i] = keyword.second;
    given[i] = true;
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (given[i])
      continue;
    if (parameters[i].default_value)
      arguments_[i] = *parameters[i].default_value;
    else if (parameters[i].type.back() != '?')
      fail("TSC-O013", node.target + ": argument '" + parameters[i].name + "' is missing",
           known_form());
  }
}

size_t Call::position(std::string_view parameter) const {
  for (size_t i = 0; i < schema_->parameters.size(); ++i)
    if (schema_->parameters[i].name == parameter)
      return i;
  throw support::InternalError("ops", node_->target,
                               "no parameter '" + std::string(parameter) + "' in the schema");
}

void Call::fail(std::string code, std::string message, std::string next_step) const {
  throw UserError(ExitCode::bad_input,
                  Diagnostic{std::move(code), std::move(message), "", "", users_name(*node_),
                             source_line(*node_), std::move(next_step)});
}

void Call::refuse(std::string code, std::string message, std::string next_step) const {
  throw UserError(ExitCode::unsupported,
                  Diagnostic{std::move(code), std::move(message), "", "", users_name(*node_),
                             source_line(*node_), std::move(next_step)});
}

const symbolic::Ranges &Call::ranges() const { return *shared_ranges(); }

const std::shared_ptr<const symbolic::Ranges> &Call::shared_ranges() const {
  if (!ranges_)
    ranges_ = std::make_shared<const symbolic::Ranges>(graph_->ranges());
  return ranges_;
}

const Argument &Call::operator[](std::string_view parameter) const {
  return arguments_[position(parameter)];
}

bool Call::has(std::string_view parameter) const { return !(*this)[parameter].is_none(); }

const Value *Call::value_of(const Argument &argument) const {
  const graph::NodeRef *reference = argument.node();
  if (!reference || !graph_->node(reference->id).value)
    return nullptr;
  return &*graph_->node(reference->id).value;
}

const TensorMeta *Call::optional_tensor(std::string_view parameter) const {
  size_t i = position(parameter);
  if (!metas_[i]) {
    const Value *value = value_of(arguments_[i]);
    if (!value || !value->tensor())
      return nullptr;
    metas_[i] = *value->tensor();
  }
  return &*metas_[i];
}

const TensorMeta &Call::tensor(std::string_view parameter) const {
  const TensorMeta *meta = optional_tensor(parameter);
  if (!meta)
    fail("TSC-O014", node_->target + ": argument '" + std::string(parameter) + "' is not a tensor",
         "pass a tensor");
  return *meta;
}

std::vector<TensorMeta> Call::tensors(std::string_view parameter) const {
  const Argument::List *list = (*this)[parameter].list();
  std::vector<TensorMeta> metas;
  for (const Argument &item : list ? *list : Argument::List{}) {
    const Value *value = value_of(item);
    if (!value || !value->tensor())
      fail("TSC-O014",
           node_->target + ": argument '" + std::string(parameter) +
               "' holds something not a tensor",
           "pass a list of tensors");
    metas.push_back(*value->tensor());
  }
  return metas;
}

namespace {

/// The int that `argument` stands for: a number, an expression, or a node that yields one.
std::optional<Expr> size_of(const Call &call, const Argument &argument) {
  if (const int64_t *value = std::get_if<int64_t>(&argument.value))
    return Expr(*value);
  if (const bool *value = std::get_if<bool>(&argument.value))
    return Expr(*value ? 1 : 0);
  if (const Expr *value = std::get_if<Expr>(&argument.value))
    return *value;
  const Value *value = call.value_of(argument);
  if (value && std::holds_alternative<Expr>(value->value))
    return std::get<Expr>(value->value);
  if (value && std::holds_alternative<bool>(value->value))
    return Expr(std::get<bool>(value->value) ? 1 : 0);
  return std::nullopt;
}

} // namespace

Expr Call::size(std::string_view parameter) const {
  std::optional<Expr> value = size_of(*this, (*this)[parameter]);
  if (!value && schema_->parameters[position(parameter)].type == "Tensor") // or a number
    fail("TSC-O014", node_->target + ": argument '" + std::string(parameter) + "' is not a tensor",
         "pass a tensor");
  if (!value)
    fail("TSC-O015",
         node_->target + ": argument '" + std::string(parameter) + "' is not an integer",
         "pass an integer");
  return *value;
}

int64_t Call::integer(std::string_view parameter) const {
  Expr value = size(parameter);
  if (!value.is_integer())
    refuse("TSC-O016",
           node_->target + ": argument '" + std::string(parameter) + "' is '" +
               symbolic::print(value) + "', a number is needed",
           "make this value static when exporting");
  return value.value();
}

double Call::number(std::string_view parameter) const {
  return tensor::to_double(scalar(parameter));
}

bool Call::boolean(std::string_view parameter) const {
  const Argument &argument = (*this)[parameter];
  if (const bool *value = std::get_if<bool>(&argument.value))
    return *value;
  return integer(parameter) != 0;
}

tensor::Scalar Call::scalar(std::string_view parameter) const {
  const Argument &argument = (*this)[parameter];
  if (const bool *value = std::get_if<bool>(&argument.value))
    return *value;
  if (const double *value = std::get_if<double>(&argument.value))
    return *value;
  const Value *value = value_of(argument);
  if (value && std::holds_alternative<double>(value->value))
    return std::get<double>(value->value);
  if (value && std::holds_alternative<bool>(value->value))
    return std::get<bool>(value->value);
  return integer(parameter);
}

std::vector<Expr> Call::sizes(std::string_view parameter) const {
  const Argument &argument = (*this)[parameter];
  std::vector<Expr> result;
  if (argument.is_none())
    return result;
  const Argument::List *list = argument.list();
  if (!list)
    return {size(parameter)}; // int[1] takes a bare int
  for (const Argument &item : *list) {
    std::optional<Expr> value = size_of(*this, item);
    if (!value)
      fail("TSC-O015",
           node_->target + ": argument '" + std::string(parameter) +
               "' holds something not an integer",
           "pass a list of integers");
    result.push_back(*value);
  }
  return result;
}

std::vector<int64_t> Call::integers(std::string_view parameter) const {
  std::vector<int64_t> result;
  for (Expr value : sizes(parameter)) {
    if (!value.is_integer())
      refuse("TSC-O016",
             node_->target + ": argument '" + std::string(parameter) + "' holds '" +
                 symbolic::print(value) + "', numbers are needed",
             "make this value static when exporting");
    result.push_back(value.value());
  }
  return result;
}

std::optional<DType> Call::dtype(std::string_view parameter) const {
  if (const DType *value = std::get_if<DType>(&(*this)[parameter].value))
    return *value;
  return std::nullopt;
}

std::optional<std::string> Call::string(std::string_view parameter) const {
  if (const std::string *value = std::get_if<std::string>(&(*this)[parameter].value))
    return *value;
  return std::nullopt;
}

} // namespace tsc::ops
