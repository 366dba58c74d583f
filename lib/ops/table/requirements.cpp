#include "ops/table/requirements.h"

#include "ops/table/argument_values.h"
#include "ops/table/shape_rules.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace tsc::ops {
namespace {

using Check = void (*)(const Call &);

std::string torch(DType dtype) { return std::string(tensor::torch_name(dtype)); }

/// Null if the operator has no such parameter, it is not given, or it is no tensor.
const TensorMeta *tensor_or_null(const Call &call, std::string_view parameter) {
  for (const Parameter &one : call.schema().parameters)
    if (one.name == parameter) {
      const Value *value = call.has(parameter) ? call.value_of(call[parameter]) : nullptr;
      return value != nullptr ? value->tensor() : nullptr;
    }
  return nullptr;
}
const TensorMeta *first_tensor(const Call &call) {
  for (const Parameter &one : call.schema().parameters)
    if (one.type.rfind("Tensor", 0) == 0)
      return tensor_or_null(call, one.name);
  return nullptr;
}

/// "scatter" of "aten.scatter_.src".
std::string_view family(std::string_view target) {
  if (target.rfind("aten.", 0) != 0)
    return "";
  target.remove_prefix(5);
  target = target.substr(0, target.find('.'));
  if (target.size() > 2 && target.back() == '_' && target[target.size() - 2] != '_')
    target.remove_suffix(1);
  return target;
}

// ---- dtypes

/// `visit(argument, meta)` of each argument that is given; meta is null for what is no tensor.
template <class Visit> void for_each_given(const Call &call, const Visit &visit) {
  for (const Parameter &parameter : call.schema().parameters) {
    if (!call.has(parameter.name))
      continue;
    const Argument &argument = call[parameter.name];
    const Value *value = call.value_of(argument);
    visit(argument, value != nullptr ? value->tensor() : nullptr);
  }
}

void integers_only(const Call &call) {
  for_each_given(call, [&](const Argument &argument, const TensorMeta *meta) {
    if (meta != nullptr ? tensor::is_floating(meta->dtype)
                        : std::holds_alternative<double>(argument.value))
      call.fail("TSC-O127",
                call.node().target + " of " + (meta != nullptr ? torch(meta->dtype) : "a float"),
                "give integers or booleans");
  });
}

void floats_only(const Call &call) {
  const TensorMeta *first = first_tensor(call);
  if (first != nullptr && !tensor::is_floating(first->dtype) && !tensor::is_complex(first->dtype))
    call.fail("TSC-O127", call.node().target + " of " + torch(first->dtype),
              "convert it to a floating dtype first");
}

/// Shifts, gcd: PyTorch has kernels for every integer, none for truth values alone.
void some_integer(const Call &call) {
  bool any = false;
  for_each_given(call, [&](const Argument &argument, const TensorMeta *meta) {
    any |= meta != nullptr ? meta->dtype != DType::boolean
                           : !std::holds_alternative<bool>(argument.value);
  });
  if (!any)
    call.fail("TSC-O127", call.node().target + " of torch.bool",
              "give an integer tensor or number");
}

/// Products: PyTorch has kernels for every number, none for truth values.
void numbers_only(const Call &call) {
  const TensorMeta *first = first_tensor(call);
  if (first != nullptr && first->dtype == DType::boolean)
    call.fail("TSC-O127", call.node().target + " of " + torch(first->dtype),
              "convert it to an integer or a floating dtype first");
}

/// Together: an int may meet a float.
void some_float(const Call &call) {
  const TensorMeta *a = tensor_or_null(call, "self"), *b = tensor_or_null(call, "other");
  if (a != nullptr && b != nullptr && !tensor::is_floating(a->dtype) &&
      !tensor::is_floating(b->dtype))
    call.fail("TSC-O127", call.node().target + " of " + torch(a->dtype),
              "convert it to a floating dtype first");
}

// ---- ranks

void need_rank(const Call &call, const char *parameter, size_t least, size_t most = SIZE_MAX) {
  const TensorMeta *meta = tensor_or_null(call, parameter);
  if (meta == nullptr || (meta->layout.rank() >= least && meta->layout.rank() <= most))
    return;
  call.fail("TSC-O128",
            call.node().target + ": '" + parameter + "' has " +
                std::to_string(meta->layout.rank()) + " dimensions, " +
                (least == most                 ? std::to_string(least)
                 : meta->layout.rank() < least ? "at least " + std::to_string(least)
                                               : "at most " + std::to_string(most)) +
                " are needed",
            "reshape it");
}
void self_of_1(const Call &call) { need_rank(call, "self", 1); }
void self_of_2(const Call &call) { need_rank(call, "self", 2); }
void self_of_3(const Call &call) { need_rank(call, "self", 3); }
void input_of_2(const Call &call) { need_rank(call, "input", 2); }
void attention_of_2(const Call &call) {
  for (const char *name : {"query", "key", "value"})
    need_rank(call, name, 2);
}
void attention_of_4(const Call &call) {
  for (const char *name : {"query", "key", "value"})
    need_rank(call, name, 4, 4);
}

// ---- sizes

bool known_different(Expr a, Expr b) { return a.is_integer() && b.is_integer() && a != b; }
bool known_greater(Expr a, Expr b) {
  return a.is_integer() && b.is_integer() && a.value() > b.value();
}
[[noreturn]] void wrong_sizes(const Call &call, const char *a, const TensorMeta &first,
                              const char *b, const TensorMeta &second) {
  call.fail("TSC-O129",
            call.node().target + ": '" + a + "' of sizes " + print_sizes(first.layout.sizes) +
                " does not fit '" + b + "' of sizes " + print_sizes(second.layout.sizes),
            "give tensors of sizes that fit");
}
bool is_empty(const TensorMeta &meta) {
  return std::any_of(meta.layout.sizes.begin(), meta.layout.sizes.end(),
                     [](Expr size) { return size.is_integer(0); });
}
/// The sizes, of a number as of one element.
std::vector<Expr> at_least_1(const TensorMeta &meta) {
  return meta.layout.rank() == 0 ? std::vector<Expr>{1} : meta.layout.sizes;
}
/// Nothing if it is out of range: the rules say so.
std::optional<size_t> dimension(const Call &call, size_t rank) {
  const auto *dim = std::get_if<int64_t>(&call["dim"].value);
  const auto limit = static_cast<int64_t>(rank);
  if (dim == nullptr || *dim < -limit || *dim >= limit)
    return std::nullopt;
  return static_cast<size_t>(*dim < 0 ? *dim + limit : *dim);
}

/// gather and the scatters: as many dimensions as self, none but `dim` longer than self's, none
/// longer than the source's.
void index_within(const Call &call) {
  const TensorMeta *self = tensor_or_null(call, "self"), *index = tensor_or_null(call, "index");
  const TensorMeta *source = tensor_or_null(call, "src");
  if (self == nullptr || index == nullptr || is_empty(*index))
    return;
  const std::vector<Expr> own = at_least_1(*self), places = at_least_1(*index);
  const std::optional<size_t> dim = dimension(call, own.size());
  if (own.size() != places.size())
    wrong_sizes(call, "index", *index, "self", *self);
  for (size_t axis = 0; axis < own.size(); ++axis)
    if (dim && axis != *dim && known_greater(places[axis], own[axis]))
      wrong_sizes(call, "index", *index, "self", *self);
  if (source == nullptr)
    return;
  const std::vector<Expr> given = at_least_1(*source);
  if (given.size() != places.size())
    wrong_sizes(call, "index", *index, "src", *source);
  for (size_t axis = 0; axis < given.size(); ++axis)
    if (known_greater(places[axis], given[axis]))
      wrong_sizes(call, "index", *index, "src", *source);
}

/// index_add, index_copy: a list of places along `dim`, and as many slices.
void slices_at_index(const Call &call) {
  const TensorMeta *self = tensor_or_null(call, "self"), *index = tensor_or_null(call, "index");
  const TensorMeta *source = tensor_or_null(call, "source");
  need_rank(call, "index", 0, 1);
  if (self == nullptr || index == nullptr || source == nullptr)
    return;
  const std::vector<Expr> own = at_least_1(*self), given = at_least_1(*source);
  const std::optional<size_t> dim = dimension(call, own.size());
  if (own.size() != given.size())
    wrong_sizes(call, "source", *source, "self", *self);
  for (size_t axis = 0; dim && axis < own.size(); ++axis)
    if (known_different(given[axis], axis == *dim ? at_least_1(*index)[0] : own[axis]))
      wrong_sizes(call, "source", *source, axis == *dim ? "index" : "self",
                  axis == *dim ? *index : *self);
}
void index_and_number(const Call &call) {
  need_rank(call, "index", 0, 1);
  need_rank(call, "value", 0, 0);
}

/// One slice: what select_scatter puts there.
void slice_of_self(const Call &call) {
  const TensorMeta *self = tensor_or_null(call, "self"), *source = tensor_or_null(call, "src");
  need_rank(call, "self", 1);
  if (self == nullptr || source == nullptr)
    return;
  std::vector<Expr> sizes = self->layout.sizes;
  const std::optional<size_t> dim = dimension(call, sizes.size());
  if (!dim)
    return;
  sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(*dim));
  bool fits = sizes.size() == source->layout.rank();
  for (size_t axis = 0; fits && axis < sizes.size(); ++axis)
    fits = !known_different(sizes[axis], source->layout.sizes[axis]);
  if (!fits)
    wrong_sizes(call, "src", *source, "self", *self);
}

/// put: as many values as places.
void as_many_values(const Call &call) {
  const TensorMeta *index = tensor_or_null(call, "index"), *source = tensor_or_null(call, "source");
  if (index != nullptr && source != nullptr &&
      known_different(symbolic::numel(index->layout.sizes), symbolic::numel(source->layout.sizes)))
    wrong_sizes(call, "source", *source, "index", *index);
}

/// Losses of classes: the target lacks the dimension of classes, which is 1, or 0 of one row. The
/// rules compare the ranks.
void class_target(const Call &call) {
  const TensorMeta *self = tensor_or_null(call, "self"), *target = tensor_or_null(call, "target");
  if (self == nullptr || target == nullptr)
    return;
  const bool as_probabilities = call.node().target.find("cross_entropy") != std::string::npos &&
                                tensor::is_floating(target->dtype);
  std::vector<Expr> sizes = self->layout.sizes;
  if (!as_probabilities) {
    if (target->dtype != DType::i64 && target->dtype != DType::u8)
      call.fail("TSC-O127", call.node().target + ": 'target' is " + torch(target->dtype),
                "give class numbers as torch.int64");
    if (!sizes.empty())
      sizes.erase(sizes.begin() + (sizes.size() == 1 ? 0 : 1));
  }
  if (sizes.size() != target->layout.rank())
    return; // the rules say so
  bool fits = true;
  for (size_t axis = 0; fits && axis < sizes.size(); ++axis)
    fits = !known_different(sizes[axis], target->layout.sizes[axis]);
  if (!fits)
    wrong_sizes(call, "target", *target, "self", *self);
}

/// Both of one dtype, where both are given.
void one_dtype(const Call &call, std::string_view first, std::string_view second) {
  const TensorMeta *a = tensor_or_null(call, first), *b = tensor_or_null(call, second);
  if (a != nullptr && b != nullptr && a->dtype != b->dtype)
    call.fail("TSC-O041", call.node().target + " of " + torch(a->dtype) + " and " + torch(b->dtype),
              "convert both to one dtype");
}
/// What is written somewhere is of the dtype of what it is written to.
void one_dtype_with_source(const Call &call) {
  for (const Parameter &parameter : call.schema().parameters)
    for (const std::string_view name : {"src", "source", "values"})
      if (parameter.name == name)
        one_dtype(call, "self", name);
}
/// dot, vdot: vectors of one length.
void two_vectors(const Call &call) {
  const std::string second = call.schema().parameters[1].name;
  need_rank(call, "self", 1, 1);
  need_rank(call, second.c_str(), 1, 1);
  one_dtype(call, "self", second);
  const TensorMeta *a = tensor_or_null(call, "self"), *b = tensor_or_null(call, second);
  if (a != nullptr && b != nullptr && known_different(a->layout.sizes[0], b->layout.sizes[0]))
    wrong_sizes(call, second.c_str(), *b, "self", *a);
}
void outer_vectors(const Call &call) {
  need_rank(call, "self", 1, 1);
  need_rank(call, "vec2", 1, 1);
}
void sum_and_vectors(const Call &call) {
  need_rank(call, "vec1", 1, 1);
  need_rank(call, "vec2", 1, 1);
}
void matrix_and_vector(const Call &call) {
  need_rank(call, "self", 2, 2);
  need_rank(call, "vec", 1, 1);
}
void sum_matrix_and_vector(const Call &call) {
  need_rank(call, "mat", 2, 2);
  need_rank(call, "vec", 1, 1);
}

/// addmm and its kin: `self` broadcasts to the product of the last two tensors. The rules look at
/// those.
void added_to_product(const Call &call) {
  const std::vector<Parameter> &parameters = call.schema().parameters;
  const TensorMeta *self = tensor_or_null(call, "self");
  const TensorMeta *a = tensor_or_null(call, parameters[1].name);
  const TensorMeta *b = tensor_or_null(call, parameters[2].name);
  if (self == nullptr || a == nullptr || b == nullptr)
    return;
  const std::vector<Expr> &x = a->layout.sizes, &y = b->layout.sizes;
  std::vector<Expr> product;
  if (y.size() == 1) { // mv, outer
    product = {x[0]};
    if (x.size() == 1)
      product.push_back(y[0]);
  } else {
    const std::string_view name = family(call.node().target);
    if (parameters[3].name != "out_dtype") // those rows say themselves what self may be
      one_dtype(call, "self", parameters[1].name);
    if (x.size() != y.size() || y.size() != (name == "addmm" ? 2 : 3))
      return;
    product = {x[x.size() - 2], y.back()};
    if (name == "baddbmm")
      product.insert(product.begin(), x[0]);
  }
  require_expandable(call, "self", self->layout.sizes, product);
}

/// searchsorted: one sequence, or one for each row of what is sought.
void sequences_of_rows(const Call &call) {
  const TensorMeta *sorted = tensor_or_null(call, "sorted_sequence");
  const TensorMeta *sought = tensor_or_null(call, "self");
  const TensorMeta *sorter = tensor_or_null(call, "sorter");
  need_rank(call, "sorted_sequence", 1);
  if (sorted == nullptr)
    return;
  const auto differ = [](const TensorMeta &a, const TensorMeta &b, size_t but) {
    bool differ = a.layout.rank() != b.layout.rank();
    for (size_t axis = 0; !differ && axis + but < a.layout.rank(); ++axis)
      differ = known_different(a.layout.sizes[axis], b.layout.sizes[axis]);
    return differ;
  };
  if (sorter != nullptr && differ(*sorter, *sorted, 0))
    wrong_sizes(call, "sorter", *sorter, "sorted_sequence", *sorted);
  if (sorted->layout.rank() == 1)
    return;
  if (sought == nullptr)
    need_rank(call, "sorted_sequence", 1, 1);
  else if (differ(*sought, *sorted, 1))
    wrong_sizes(call, "self", *sought, "sorted_sequence", *sorted);
}
void one_sequence(const Call &call) { need_rank(call, "boundaries", 1, 1); }

/// The gradient of a result over windows, padded or resampled: as many dimensions as the input has.
void gradient_of_windows(const Call &call) {
  size_t wanted = 0;
  for (const Parameter &parameter : call.schema().parameters) {
    if (parameter.name == "self" || parameter.name == "input")
      wanted = call.tensor(parameter.name).layout.rank();
    if (parameter.name == "input_size")
      wanted = call.sizes("input_size").size();
  }
  const size_t given = call.tensor("grad_output").layout.rank();
  if (given != wanted)
    call.fail("TSC-O128",
              call.node().target + ": 'grad_output' has " + std::to_string(given) +
                  " dimensions, the input has " + std::to_string(wanted),
              "pass the gradient of the forward pass's result");
}

/// multi_margin_loss: rows of scores, one class each.
void class_of_rows(const Call &call) {
  const TensorMeta *self = tensor_or_null(call, "self"), *target = tensor_or_null(call, "target");
  const TensorMeta *weight = tensor_or_null(call, "weight");
  need_rank(call, "self", 0, 2);
  need_rank(call, "target", 0, 1);
  need_rank(call, "weight", 0, 1);
  if (self == nullptr || target == nullptr)
    return;
  const std::vector<Expr> sizes = at_least_1(*self);
  if (sizes.back().is_integer(0) ||
      known_different(sizes.size() == 2 ? sizes[0] : Expr(1), at_least_1(*target)[0]))
    wrong_sizes(call, "target", *target, "self", *self);
  if (weight != nullptr && known_different(at_least_1(*weight)[0], sizes.back()))
    wrong_sizes(call, "weight", *weight, "self", *self);
}

/// A cell's state: h and c.
void two_states(const Call &call) {
  const Argument::List *states = call["hx"].list();
  if (states != nullptr && states->size() != 2)
    call.fail("TSC-O129",
              call.node().target + ": 'hx' holds " + std::to_string(states->size()) + " tensors",
              "give the hidden and the cell state");
}

/// Resampling: from something, to something.
void resampled(const Call &call) {
  const TensorMeta *self = first_tensor(call);
  if (self == nullptr)
    return;
  const std::string &target = call.node().target; // "aten.upsample_nearest2d.vec"
  const size_t spatial = static_cast<size_t>(target[target.find("d.") - 1] - '0');
  if (target.find(".vec") == std::string::npos) // whose decomposition says more
    need_rank(call, call.schema().parameters[0].name.c_str(), spatial + 2, spatial + 2);
  for (size_t axis = 2; axis < self->layout.rank(); ++axis)
    if (self->layout.sizes[axis].is_integer(0))
      call.fail("TSC-O129", call.node().target + " of sizes " + print_sizes(self->layout.sizes),
                "give planes that are not empty");
  const Argument::List *sizes = call.has("output_size") ? call["output_size"].list() : nullptr;
  for (size_t i = 0; sizes != nullptr && i < sizes->size(); ++i)
    if (const auto *size = std::get_if<int64_t>(&(*sizes)[i].value); size != nullptr && *size < 1)
      call.fail("TSC-O129", call.node().target + " to the size " + std::to_string(*size),
                "give sizes of at least 1");
}

const std::unordered_map<std::string_view, std::vector<Check>> &table() {
  static const std::unordered_map<std::string_view, std::vector<Check>> checks = [] {
    std::unordered_map<std::string_view, std::vector<Check>> result;
    const auto add = [&](Check check, std::initializer_list<std::string_view> names) {
      for (const std::string_view name : names)
        result[name].push_back(check);
    };
    add(integers_only,
        {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "bitwise_left_shift",
         "bitwise_right_shift", "__and__", "__or__", "__xor__", "__lshift__", "__rshift__",
         "__iand__", "__ior__", "__ixor__", "__ilshift__", "__irshift__"});
    add(some_integer, {"bitwise_left_shift", "bitwise_right_shift", "__lshift__", "__rshift__",
                       "__ilshift__", "__irshift__"});
    add(integers_only, {"gcd", "lcm"});
    add(some_integer, {"gcd", "lcm"});
    add(some_float,
        {"hypot", "nextafter", "igamma", "igammac", "special_gammainc", "special_gammaincc"});
    add(one_dtype_with_source, {"scatter", "scatter_add", "scatter_reduce", "index_reduce",
                                "index_copy", "put", "heaviside"});
    add(floats_only, {"silu", "mish", "elu", "celu", "selu", "gelu", "glu", "hardsigmoid",
                      "hardswish", "hardshrink", "softshrink", "softplus", "log_sigmoid",
                      "log_sigmoid_forward", "linalg_vector_norm"});
    add(floats_only, {"frexp",
                      "layer_norm",
                      "native_layer_norm",
                      "group_norm",
                      "native_group_norm",
                      "batch_norm",
                      "native_batch_norm",
                      "instance_norm",
                      "_native_batch_norm_legit",
                      "_native_batch_norm_legit_functional",
                      "_native_batch_norm_legit_no_training",
                      "_batch_norm_with_update",
                      "_batch_norm_with_update_functional",
                      "_batch_norm_no_update",
                      "var",
                      "std",
                      "var_mean",
                      "std_mean",
                      "cdist",
                      "_cdist_forward",
                      "_euclidean_dist",
                      "linalg_vecdot",
                      "scaled_dot_product_attention",
                      "_scaled_dot_product_attention_math",
                      "_scaled_dot_product_cudnn_attention",
                      "_scaled_dot_product_efficient_attention",
                      "_scaled_dot_product_flash_attention",
                      "_scaled_dot_product_flash_attention_for_cpu",
                      "_scaled_dot_product_fused_attention_overrideable"});
    add(numbers_only, {"mm",
                       "bmm",
                       "addmm",
                       "baddbmm",
                       "addbmm",
                       "mv",
                       "addmv",
                       "dot",
                       "vdot",
                       "matmul",
                       "linear",
                       "inner",
                       "tensordot",
                       "bilinear",
                       "conv1d",
                       "conv2d",
                       "conv3d",
                       "convolution",
                       "_convolution",
                       "conv_transpose1d",
                       "conv_transpose2d",
                       "conv_transpose3d"});
    add(self_of_1, {"unbind", "chunk", "split", "unsafe_chunk", "unsafe_split", "split_with_sizes",
                    "unsafe_split_with_sizes", "tensor_split", "hsplit", "flipud", "unflatten"});
    add(self_of_2, {"diagonal", "diagonal_scatter", "fliplr", "vsplit"});
    add(self_of_3, {"dsplit"});
    add(input_of_2, {"group_norm", "native_group_norm"});
    add(attention_of_2, {"_scaled_dot_product_attention_math"});
    add(attention_of_4,
        {"_scaled_dot_product_cudnn_attention", "_scaled_dot_product_efficient_attention",
         "_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_for_cpu",
         "_scaled_dot_product_fused_attention_overrideable"});
    add(index_within, {"gather", "scatter", "scatter_add", "scatter_reduce"});
    add(slices_at_index, {"index_add", "index_copy"});
    add(index_and_number, {"index_fill"});
    add(slice_of_self, {"select_scatter"});
    add(as_many_values, {"put"});
    add(class_target, {"nll_loss", "nll_loss_forward", "nll_loss2d", "nll_loss2d_forward",
                       "cross_entropy_loss", "nll_loss_nd"});
    add(two_vectors, {"dot", "vdot"});
    add(outer_vectors, {"outer", "ger"});
    add(sum_and_vectors, {"addr"});
    add(matrix_and_vector, {"mv"});
    add(sum_matrix_and_vector, {"addmv"});
    add(added_to_product, {"addmm", "addmv", "addr", "addbmm", "baddbmm"});
    add(sequences_of_rows, {"searchsorted"});
    add(one_sequence, {"bucketize"});
    add(class_of_rows, {"multi_margin_loss"});
    add(two_states, {"lstm_cell"});
    add(gradient_of_windows, {"avg_pool2d_backward",
                              "avg_pool3d_backward",
                              "_adaptive_avg_pool2d_backward",
                              "_adaptive_avg_pool3d_backward",
                              "adaptive_max_pool2d_backward",
                              "adaptive_max_pool3d_backward",
                              "max_pool2d_with_indices_backward",
                              "max_pool3d_with_indices_backward",
                              "fractional_max_pool2d_backward",
                              "fractional_max_pool3d_backward",
                              "reflection_pad1d_backward",
                              "reflection_pad2d_backward",
                              "reflection_pad3d_backward",
                              "replication_pad1d_backward",
                              "replication_pad2d_backward",
                              "replication_pad3d_backward",
                              "grid_sampler_2d_backward",
                              "grid_sampler_3d_backward",
                              "upsample_nearest1d_backward",
                              "upsample_nearest2d_backward",
                              "upsample_nearest3d_backward",
                              "_upsample_nearest_exact1d_backward",
                              "_upsample_nearest_exact2d_backward",
                              "_upsample_nearest_exact3d_backward",
                              "upsample_linear1d_backward",
                              "upsample_bilinear2d_backward",
                              "upsample_trilinear3d_backward",
                              "upsample_bicubic2d_backward",
                              "_upsample_bilinear2d_aa_backward",
                              "_upsample_bicubic2d_aa_backward"});
    add(resampled,
        {"upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
         "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d",
         "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d"});
    return result;
  }();
  return checks;
}

void check_layout(const Call &call, const TensorMeta &meta) {
  for (const Expr size : meta.layout.sizes)
    if (size.is_integer() && size.value() < 0)
      call.fail("TSC-O129", call.node().target + " yields sizes " + print_sizes(meta.layout.sizes),
                "give arguments that yield no negative size");
  if (meta.layout.sizes.size() != meta.layout.strides.size())
    call.fail("TSC-O129",
              call.node().target + ": " + std::to_string(meta.layout.sizes.size()) +
                  " sizes, but " + std::to_string(meta.layout.strides.size()) + " strides",
              "give one stride a size");
}

} // namespace

void check_requirements(const Call &call) {
  check_argument_values(call, family(call.node().target));
  const auto found = table().find(family(call.node().target));
  if (found == table().end())
    return;
  for (const Check check : found->second)
    check(call);
}

void check_result(const Call &call, const Value &value) {
  if (const TensorMeta *meta = value.tensor())
    check_layout(call, *meta);
  if (const Value::List *list = value.list())
    for (const Value &item : *list)
      check_result(call, item);
}

} // namespace tsc::ops
