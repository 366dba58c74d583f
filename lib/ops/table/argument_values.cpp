#include "ops/table/argument_values.h"

#include "ops/table/shape_rules.h"

#include <algorithm>
#include <unordered_map>

namespace tsc::ops {
namespace {

using Check = void (*)(const Call &);

[[noreturn]] void wrong_number(const Call &call, const char *parameter, const std::string &is,
                               const char *wanted) {
  call.fail("TSC-O156", call.node().target + ": argument '" + parameter + "' is " + is, wanted);
}

std::string text_of(double number) {
  std::string text = std::to_string(number);
  while (text.size() > 1 && text.back() == '0')
    text.pop_back();
  if (text.back() == '.')
    text.pop_back();
  return text;
}

std::optional<double> number_of(const Call &call, std::string_view parameter) {
  for (const Parameter &one : call.schema().parameters)
    if (one.name == parameter && call.has(parameter)) {
      const Argument &argument = call[parameter];
      if (const double *real = std::get_if<double>(&argument.value))
        return *real;
      if (const int64_t *integer = std::get_if<int64_t>(&argument.value))
        return static_cast<double>(*integer);
    }
  return std::nullopt;
}

void positive_delta(const Call &call) {
  if (const std::optional<double> delta = number_of(call, "delta"); delta && !(*delta > 0))
    wrong_number(call, "delta", text_of(*delta), "use a number above 0");
}
void lambda_of_0(const Call &call) {
  if (const std::optional<double> lambda = number_of(call, "lambd"); lambda && !(*lambda >= 0))
    wrong_number(call, "lambd", text_of(*lambda), "use a number of at least 0");
}
void divisor_but_0(const Call &call) {
  if (const std::optional<double> divisor = number_of(call, "divisor_override");
      divisor && *divisor == 0)
    wrong_number(call, "divisor_override", "0", "use another number, or None");
}
void some_samples(const Call &call) {
  if (const std::optional<double> count = number_of(call, "num_samples"); count && *count <= 0)
    wrong_number(call, "num_samples", text_of(*count), "draw at least one");
}

void difference_of_0(const Call &call) {
  if (const std::optional<double> order = number_of(call, "n"); order && *order < 0)
    wrong_number(call, "n", text_of(*order), "use a number of at least 0");
}
void tolerances_of_0(const Call &call) {
  for (const char *name : {"rtol", "atol"})
    if (const std::optional<double> tolerance = number_of(call, name);
        tolerance && !(*tolerance >= 0))
      wrong_number(call, name, text_of(*tolerance), "use a number of at least 0");
}
void slopes_in_order(const Call &call) {
  const std::optional<double> lower = number_of(call, "lower"), upper = number_of(call, "upper");
  if (lower && upper && *lower > *upper)
    wrong_number(call, "lower", text_of(*lower), "use a number up to 'upper'");
}

void step_towards_end(const Call &call) {
  const std::optional<double> start = number_of(call, "start"), end = number_of(call, "end"),
                              step = number_of(call, "step");
  if (start && end && step && ((*step > 0 && *end < *start) || (*step < 0 && *end > *start)))
    wrong_number(call, "step", text_of(*step), "step from the start towards the end");
}

const TensorMeta *meta_of(const Call &call, std::string_view parameter) {
  const Value *value = call.has(parameter) ? call.value_of(call[parameter]) : nullptr;
  return value != nullptr ? value->tensor() : nullptr;
}

void need_rank(const Call &call, std::string_view parameter, size_t least, size_t most) {
  const TensorMeta *meta = meta_of(call, parameter);
  if (meta == nullptr || (meta->layout.rank() >= least && meta->layout.rank() <= most))
    return;
  call.fail("TSC-O128",
            call.node().target + ": '" + std::string(parameter) + "' has " +
                std::to_string(meta->layout.rank()) + " dimensions, " +
                (meta->layout.rank() < least ? "at least " + std::to_string(least)
                                             : "at most " + std::to_string(most)) +
                " are needed",
            "reshape it");
}
void matrix(const Call &call) { need_rank(call, "self", 2, 2); }
void at_most_matrix(const Call &call) { need_rank(call, "self", 0, 2); }
void slices(const Call &call) { need_rank(call, "self", 2, SIZE_MAX); }

void vector_of_slopes(const Call &call) { need_rank(call, "weight", 0, 1); }

/// A bias is of the dtype of what it is added to.
void bias_of_integers(const Call &call) {
  const TensorMeta *input = meta_of(call, "input"), *bias = meta_of(call, "bias");
  if (input && bias && tensor::is_integral(input->dtype) && tensor::is_floating(bias->dtype))
    call.fail("TSC-O127",
              call.node().target + ": 'bias' is " + std::string(tensor::torch_name(bias->dtype)),
              "convert the input to its dtype");
}

void no_bool(const Call &call) {
  if (const TensorMeta *self = meta_of(call, "self"); self && self->dtype == DType::boolean)
    call.fail("TSC-O127", call.node().target + " of torch.bool", "use logical_not");
}
void mask_of_bool(const Call &call) {
  if (const TensorMeta *mask = meta_of(call, "mask"); mask && mask->dtype != DType::boolean)
    call.fail("TSC-O127",
              call.node().target + ": 'mask' is " + std::string(tensor::torch_name(mask->dtype)),
              "compare it, so that it is bool");
}
void real_value(const Call &call) {
  const TensorMeta *self = meta_of(call, "self"), *value = meta_of(call, "value");
  if (self && value && tensor::is_complex(value->dtype) && !tensor::is_complex(self->dtype))
    call.fail("TSC-O127",
              call.node().target + ": 'value' is " + std::string(tensor::torch_name(value->dtype)),
              "give a real value");
}

/// Dimensions that are named one by one, each once.
void dims_once(const Call &call) {
  const TensorMeta *self =
      call.schema().parameters.empty() ? nullptr : meta_of(call, call.schema().parameters[0].name);
  for (const char *parameter : {"dim", "dims"}) {
    bool is_named = false;
    for (const Parameter &one : call.schema().parameters)
      is_named = is_named || one.name == parameter;
    const Argument::List *list = is_named && call.has(parameter) ? call[parameter].list() : nullptr;
    if (self == nullptr || list == nullptr)
      continue;
    std::vector<size_t> seen;
    for (const Argument &dim : *list) {
      const int64_t *number = std::get_if<int64_t>(&dim.value);
      if (number == nullptr)
        continue;
      const size_t place = normalize_dim(call, *number, self->layout.rank());
      if (std::find(seen.begin(), seen.end(), place) != seen.end())
        wrong_number(call, parameter, "dimension " + std::to_string(place) + " twice",
                     "name each dimension once");
      seen.push_back(place);
    }
  }
}

void shifts_of_dims(const Call &call) {
  const Argument::List *shifts = call["shifts"].list(), *dims = call["dims"].list();
  const size_t count = shifts ? shifts->size() : 1, along = dims ? dims->size() : 0;
  if (count == 0 || (along == 0 ? count != 1 : along != count))
    wrong_number(call, "shifts",
                 std::to_string(count) + " numbers for " + std::to_string(along) + " dimensions",
                 "give one shift a dimension");
  const TensorMeta *self = meta_of(call, "self");
  if (self != nullptr && self->layout.rank() == 0 && along != 0)
    need_rank(call, "self", 1, SIZE_MAX);
}

void vectors_of_3(const Call &call) {
  const TensorMeta *self = meta_of(call, "self"), *other = meta_of(call, "other");
  if (self == nullptr || other == nullptr)
    return;
  const std::optional<double> dim = number_of(call, "dim");
  const std::vector<Expr> &a = self->layout.sizes, &b = other->layout.sizes;
  bool fits = a.size() == b.size() && !a.empty();
  if (fits && dim) {
    const size_t place = normalize_dim(call, static_cast<int64_t>(*dim), a.size());
    for (const Expr size : {a[place], b[place]})
      fits = fits && (!size.is_integer() || size.is_integer(3));
  }
  if (!fits)
    call.fail("TSC-O129",
              call.node().target + " of sizes " + print_sizes(a) + " and " + print_sizes(b),
              "give tensors of as many dimensions, 3 elements along one");
}

void padding_of_0(const Call &call) {
  const Argument::List *padding = call.has("padding") ? call["padding"].list() : nullptr;
  for (size_t i = 0; padding != nullptr && i < padding->size(); ++i)
    if (const int64_t *size = std::get_if<int64_t>(&(*padding)[i].value);
        size != nullptr && *size < 0)
      wrong_number(call, "padding", std::to_string(*size), "cut the input with a slice instead");
}

void some_output_sizes(const Call &call) {
  const Argument::List *sizes = call.has("output_size") ? call["output_size"].list() : nullptr;
  if (sizes != nullptr && sizes->empty())
    wrong_number(call, "output_size", "empty", "give one size a dimension");
}

/// Planes of windows: only the batch may be empty.
void planes_but_empty(const Call &call) {
  const TensorMeta *self = meta_of(call, "self");
  const std::string &target = call.node().target; // "aten.max_pool3d.default"
  const size_t rank =
      static_cast<size_t>(target[target.find('d', target.find("pool")) - 1] - '0') + 1;
  if (self == nullptr || self->layout.rank() < rank)
    return;
  for (size_t i = self->layout.rank() - rank; i < self->layout.rank(); ++i)
    if (self->layout.sizes[i].is_integer(0))
      call.fail("TSC-O129", call.node().target + " of sizes " + print_sizes(self->layout.sizes),
                "give planes that are not empty");
}

void some_classes(const Call &call) {
  const TensorMeta *self = meta_of(call, "self");
  if (self != nullptr && self->layout.rank() > 0 && self->layout.sizes.back().is_integer(0))
    call.fail("TSC-O129", call.node().target + " of sizes " + print_sizes(self->layout.sizes),
              "give scores of at least one class");
}

void groups_of_channels(const Call &call) {
  const TensorMeta *input = meta_of(call, "input");
  const std::optional<double> groups = number_of(call, "num_groups");
  if (!input || !groups || input->layout.rank() < 2 || !input->layout.sizes[1].is_integer())
    return;
  const auto count = static_cast<int64_t>(*groups);
  if (count < 1 || input->layout.sizes[1].value() % count != 0)
    wrong_number(call, "num_groups", std::to_string(count),
                 "divide the channels into equal groups");
}

void some_elements(const Call &call) {
  for (const TensorMeta &each : call.tensors("tensors"))
    if (symbolic::numel(each.layout.sizes).is_integer(0))
      call.fail("TSC-O129", call.node().target + " of sizes " + print_sizes(each.layout.sizes),
                "leave out tensors without elements");
}

const std::unordered_map<std::string_view, std::vector<Check>> &table() {
  static const std::unordered_map<std::string_view, std::vector<Check>> checks = {
      {"huber_loss", {positive_delta}},
      {"softshrink", {lambda_of_0}},
      {"avg_pool2d", {divisor_but_0}},
      {"avg_pool3d", {divisor_but_0}},
      {"multinomial", {some_samples}},
      {"arange", {step_towards_end}},
      {"diff", {difference_of_0}},
      {"isclose", {tolerances_of_0}},
      {"allclose", {tolerances_of_0}},
      {"rrelu", {slopes_in_order}},
      {"prelu", {vector_of_slopes}},
      {"diag", {at_most_matrix}},
      {"gradient", {dims_once}},
      {"conv1d", {bias_of_integers}},
      {"conv2d", {bias_of_integers}},
      {"conv3d", {bias_of_integers}},
      {"group_norm", {groups_of_channels}},
      {"adaptive_avg_pool1d", {some_output_sizes}},
      {"adaptive_avg_pool2d", {some_output_sizes}},
      {"adaptive_avg_pool3d", {some_output_sizes}},
      {"adaptive_max_pool1d", {some_output_sizes}},
      {"max_pool1d", {planes_but_empty}},
      {"trace", {matrix}},
      {"t", {at_most_matrix}},
      {"t_copy", {at_most_matrix}},
      {"renorm", {slices}},
      {"neg", {no_bool}},
      {"negative", {no_bool}},
      {"masked_scatter", {mask_of_bool}},
      {"masked_fill", {mask_of_bool, real_value}},
      {"amax", {dims_once}},
      {"amin", {dims_once}},
      {"sum", {dims_once}},
      {"mean", {dims_once}},
      {"var", {dims_once}},
      {"std", {dims_once}},
      {"var_mean", {dims_once}},
      {"std_mean", {dims_once}},
      {"nansum", {dims_once}},
      {"nanmean", {dims_once}},
      {"logsumexp", {dims_once}},
      {"count_nonzero", {dims_once}},
      {"flip", {dims_once}},
      {"rot90", {dims_once}},
      {"roll", {shifts_of_dims}},
      {"linalg_cross", {vectors_of_3}},
      {"convolution", {padding_of_0}},
      {"adaptive_max_pool2d", {some_output_sizes}},
      {"adaptive_max_pool3d", {some_output_sizes}},
      {"max_pool2d_with_indices", {planes_but_empty}},
      {"max_pool3d_with_indices", {planes_but_empty}},
      {"multilabel_margin_loss", {some_classes}},
      {"multilabel_margin_loss_forward", {some_classes}},
      {"_chunk_cat", {some_elements}},
  };
  return checks;
}

} // namespace

void check_argument_values(const Call &call, std::string_view name) {
  const auto found = table().find(name);
  if (found == table().end())
    return;
  for (const Check check : found->second)
    check(call);
}

} // namespace tsc::ops
