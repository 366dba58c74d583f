// Batch and instance normalization, with the statistics of the input (training) or the recorded
// ones. Results that only a backward pass reads are given as PyTorch's kernels of the input's
// device give them (torch/_decomp: native_batch_norm_helper).
#include "ops/families/normalization.h"
#include "ops/table/memory_format.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

/// The operator's name as ATen has it, also for the functional rows of our own.
std::string name_of(const Call &call) {
  std::string name = call.node().target;
  size_t suffix = name.find("_functional");
  if (name.rfind("tsc.", 0) == 0 && suffix != std::string::npos)
    name = "aten." + name.substr(4, suffix - 4) + name.substr(suffix + 11);
  return name;
}

void require_channels(const Call &call) {
  size_t rank = call.tensor("input").layout.rank();
  if (rank < 2)
    call.fail("TSC-O038", name_of(call) + " of a tensor of " + std::to_string(rank) + " dimensions",
              "pass [batch, channels, ..]");
}

/// 1 / sqrt(variance + eps) of the recorded variance, wide.
Argument recorded_rstd(GraphBuilder &builder, const Call &call) {
  const Argument shifted = builder.call(kAdd, {widen(builder, call["running_var"]), call["eps"]});
  const Argument deviation = builder.call("aten.sqrt.default", {shifted});
  return builder.call("aten.reciprocal.default", {deviation});
}

/// With the recorded statistics: (x - mean) / sqrt(variance + eps) * weight + bias.
Argument with_recorded_statistics(GraphBuilder &builder, const Call &call) {
  require_channels(call);
  if (!call.has("running_mean") || !call.has("running_var"))
    call.fail("TSC-O039", name_of(call) + " outside training has no running statistics",
              "pass running_mean and running_var, or normalize with the input's statistics");
  const TensorMeta input = call.tensor("input");
  size_t rank = input.layout.rank();
  Argument x = widen(builder, call["input"]);
  Argument mean = over_channels(builder, call["running_mean"], rank);
  Argument rstd = over_channels(builder, recorded_rstd(builder, call), rank);
  Argument centred = builder.call(kSub, {x, mean});
  Argument normalized = builder.call(kMul, {centred, rstd});
  Argument weight = over_channels(builder, call["weight"], rank);
  Argument bias = over_channels(builder, call["bias"], rank);
  Argument scaled = scale_and_shift(builder, normalized, weight, bias);
  return convert(builder, scaled, input.dtype);
}

bool is_on_gpu(const Call &call) {
  return call.tensor("input").device.type == tensor::DeviceType::cuda;
}

/// f32 as soon as a parameter is f32, else the input's.
DType parameters_dtype(const Call &call) {
  const DType dtype = call.tensor("input").dtype;
  for (const Parameter &parameter : call.schema().parameters)
    if (parameter.name == "weight" || parameter.name == "bias" ||
        parameter.name == "running_mean" || parameter.name == "running_var")
      if (const TensorMeta *meta = call.optional_tensor(parameter.name))
        if (tensor::is_reduced_float(dtype) && meta->dtype == DType::f32)
          return DType::f32;
  return dtype;
}

/// The dtype of saved statistics: a GPU's kernels save what they compute with.
DType saved_dtype(const Call &call) {
  return is_on_gpu(call) && tensor::is_reduced_float(call.tensor("input").dtype)
             ? DType::f32
             : parameters_dtype(call);
}

Argument empty_statistics(GraphBuilder &builder, const Call &call, DType dtype) {
  return builder.call("aten.full.default", {Arguments{0}, 0.0},
                      {{"dtype", dtype}, {"device", call.tensor("input").device}});
}

/// What is saved outside training: nothing by a CPU's kernels, what they normalize with by a GPU's.
std::pair<Argument, Argument> saved_outside_training(GraphBuilder &builder, const Call &call) {
  const DType dtype = saved_dtype(call);
  if (!is_on_gpu(call)) {
    const Argument empty = empty_statistics(builder, call, dtype);
    return {empty, empty};
  }
  // A value of its own: what is saved does not change with the running one.
  const Argument mean = builder.call("aten.clone.default", {call["running_mean"]});
  return {convert(builder, mean, dtype), convert(builder, recorded_rstd(builder, call), dtype)};
}

struct Training {
  Argument output;
  Argument mean, rstd;                // [C], wide
  Argument running_mean, running_var; // None without running statistics
};

/// momentum * observed + (1 - momentum) * recorded, in the recorded dtype.
Argument moved(GraphBuilder &builder, const Argument &recorded, const Argument &observed,
               double momentum) {
  DType dtype = builder.meta(recorded).dtype;
  Argument old_part = builder.call(kMul, {widen(builder, recorded), 1 - momentum});
  Argument new_part = builder.call(kMul, {observed, momentum});
  return convert(builder, builder.call(kAdd, {new_part, old_part}), dtype);
}

/// variance * n / (n - 1)
Argument unbiased(GraphBuilder &builder, const Argument &variance, Expr count) {
  if (count.is_integer()) {
    double n = static_cast<double>(count.value());
    return builder.call(kMul, {variance, n / (n - 1)});
  }
  Argument scaled = builder.call(kMul, {variance, size_argument(count)});
  return builder.call(kDiv, {scaled, size_argument(count - Expr(1))});
}

/// `dims` are what the statistics go over, `averaged` what the running statistics are averaged over
/// besides (the batch, for instance normalization).
Training train(GraphBuilder &builder, const Call &call, const std::vector<size_t> &dims,
               const std::vector<size_t> &averaged) {
  require_channels(call);
  const TensorMeta input = call.tensor("input");
  size_t rank = input.layout.rank();
  Normalized normalized = normalize(builder, call["input"], dims, call.number("eps"));
  Training result;
  Argument weight = over_channels(builder, call["weight"], rank);
  Argument bias = over_channels(builder, call["bias"], rank);
  result.output =
      convert(builder, scale_and_shift(builder, normalized.values, weight, bias), input.dtype);
  auto per_channel = [&](Argument statistic) {
    if (!averaged.empty())
      statistic = builder.call("aten.mean.dim", {statistic, ints_argument(averaged), true});
    std::vector<size_t> others = dims;
    others.insert(others.end(), averaged.begin(), averaged.end());
    return builder.call("aten.squeeze.dims", {statistic, ints_argument(others)});
  };
  result.mean = per_channel(normalized.mean);
  result.rstd = per_channel(normalized.rstd);
  bool recorded = false;
  for (const Parameter &parameter : call.schema().parameters)
    recorded = recorded || (parameter.name == "running_mean" && call.has("running_mean"));
  if (recorded) {
    Expr count(1);
    for (size_t dim : dims)
      count *= input.layout.sizes[dim];
    double momentum = call.number("momentum");
    result.running_mean = moved(builder, call["running_mean"], result.mean, momentum);
    Argument variance = unbiased(builder, per_channel(normalized.variance), count);
    result.running_var = moved(builder, call["running_var"], variance, momentum);
  }
  return result;
}

/// Batch normalization: everything but the channels.
Training train_batch(GraphBuilder &builder, const Call &call) {
  std::vector<size_t> dims = {0};
  for (size_t i = 2; i < call.tensor("input").layout.rank(); ++i)
    dims.push_back(i);
  return train(builder, call, dims, {});
}

/// Instance normalization: each channel of each element of the batch by itself.
Training train_instances(GraphBuilder &builder, const Call &call) {
  std::vector<size_t> dims;
  for (size_t i = 2; i < call.tensor("input").layout.rank(); ++i)
    dims.push_back(i);
  Training result = train(builder, call, dims, {0});
  result.output = contiguous(builder, result.output);
  return result;
}

bool in_training(const Call &call) {
  for (const Parameter &parameter : call.schema().parameters)
    if (parameter.name == "training" || parameter.name == "use_input_stats")
      return call.boolean(parameter.name);
  return call.node().target.find("with_update") != std::string::npos;
}

/// (output, saved mean, saved rstd).
Argument with_saved(GraphBuilder &builder, const Call &call) {
  DType dtype = saved_dtype(call);
  if (!in_training(call)) {
    const Argument output = with_recorded_statistics(builder, call);
    const auto [mean, rstd] = saved_outside_training(builder, call);
    return Arguments{output, mean, rstd};
  }
  Training result = train_batch(builder, call);
  return Arguments{result.output, convert(builder, result.mean, dtype),
                   convert(builder, result.rstd, dtype)};
}

/// (output, saved mean, saved rstd, [reserve,] running mean, running variance): the running ones
/// are what the mutating form leaves in its arguments.
Argument functional(GraphBuilder &builder, const Call &call) {
  DType dtype = saved_dtype(call);
  Arguments results;
  if (in_training(call)) {
    Training trained = train_batch(builder, call);
    results = {trained.output, convert(builder, trained.mean, dtype),
               convert(builder, trained.rstd, dtype), trained.running_mean, trained.running_var};
  } else {
    const Argument output = with_recorded_statistics(builder, call);
    const auto [mean, rstd] = saved_outside_training(builder, call);
    results = {output, mean, rstd, call["running_mean"], call["running_var"]};
  }
  if (call.schema().returns.size() == 6)
    results.insert(results.begin() + 3, empty_statistics(builder, call, DType::u8));
  return results;
}

/// The output alone: calls that write running statistics are functionalized before.
Argument batch_norm(GraphBuilder &builder, const Call &call) {
  return in_training(call) || !call.has("running_mean") ? train_batch(builder, call).output
                                                        : with_recorded_statistics(builder, call);
}
Argument instance_norm(GraphBuilder &builder, const Call &call) {
  return in_training(call) ? train_instances(builder, call).output
                           : contiguous(builder, with_recorded_statistics(builder, call));
}

bool writes_statistics(const Call &call) { return in_training(call) && call.has("running_mean"); }

constexpr std::string_view kInput = "(Tensor input, Tensor? weight, Tensor? bias, ";

/// `statistics` is "Tensor" or "Tensor?"; `written` marks them as ATen does, or as it does not
/// where writing depends on a flag.
std::string_view form(std::string_view name, std::string_view statistics, bool written,
                      std::string_view rest) {
  std::string type(statistics.substr(0, 6)), optional(statistics.substr(6));
  std::string mean = type + (written ? "(a!)" : "") + optional + " running_mean, ";
  std::string variance = type + (written ? "(b!)" : "") + optional + " running_var, ";
  return keep_text(std::string(name) + std::string(kInput) + mean + variance + std::string(rest));
}

/// NAME, which writes the running statistics in training, and tsc::NAME_functional, which yields
/// them.
void add_updating(Table &table, std::string_view name, std::string_view flags,
                  Training (*train_function)(GraphBuilder &, const Call &),
                  Argument (*alone)(GraphBuilder &, const Call &)) {
  std::string functional = std::string(name) + "_functional";
  table
      .add(form(keep_text("tsc::" + functional), "Tensor?", false,
                keep_text(std::string(flags) + ") -> (Tensor, Tensor, Tensor)")))
      .decompose([train_function](GraphBuilder &builder, const Call &call) {
        Training trained = train_function(builder, call);
        return Arguments{trained.output, trained.running_mean, trained.running_var};
      });
  table
      .add_mutating(form(name, "Tensor?", true, keep_text(std::string(flags) + ") -> Tensor")),
                    keep_text("tsc." + functional + ".default"))
      .mutates_if(writes_statistics)
      .decompose(alone);
}

void add_native_forms(Table &table) {
  constexpr std::string_view kRates = "float momentum, float eps";
  auto rates = [&](std::string_view results) {
    return keep_text(std::string(kRates) + ") -> " + std::string(results));
  };
  auto training_and_rates = [&](std::string_view results) {
    return keep_text("bool training, " + std::string(kRates) + ") -> " + std::string(results));
  };
  constexpr std::string_view kThree = "(Tensor, Tensor, Tensor)",
                             kFour = "(Tensor, Tensor, Tensor, Tensor)";
  table.add(form("_native_batch_norm_legit_no_training", "Tensor", false, rates(kThree)))
      .decompose(with_saved);
  table
      .add(keep_text("_native_batch_norm_legit.no_stats" + std::string(kInput) +
                     std::string(training_and_rates(kThree))))
      .decompose([](GraphBuilder &builder, const Call &call) {
        DType dtype = saved_dtype(call);
        Training result = train_batch(builder, call);
        return Arguments{result.output, convert(builder, result.mean, dtype),
                         convert(builder, result.rstd, dtype)};
      });
  table
      .add(form("_native_batch_norm_legit_functional", "Tensor", false,
                training_and_rates("(Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor "
                                   "running_var_out)")))
      .decompose(functional);
  table
      .add_mutating(form("_native_batch_norm_legit", "Tensor", true, training_and_rates(kThree)),
                    "aten._native_batch_norm_legit_functional.default")
      .mutates_if(in_training)
      .decompose(with_saved);
  table
      .add(form("_batch_norm_with_update_functional", "Tensor", false,
                rates("(Tensor, Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor "
                      "running_var_out)")))
      .decompose(functional);
  table.add_mutating(form("_batch_norm_with_update", "Tensor", true, rates(kFour)),
                     "aten._batch_norm_with_update_functional.default");
  table.add(form("_batch_norm_no_update", "Tensor?", false, rates(kFour)))
      .decompose([](GraphBuilder &builder, const Call &call) {
        Argument results = with_saved(builder, call);
        Arguments list = *results.list();
        list.push_back(empty_statistics(builder, call, DType::u8));
        return list;
      });
  table
      .add(form("tsc::native_batch_norm_functional", "Tensor?", false,
                training_and_rates("(Tensor, Tensor, Tensor, Tensor, Tensor)")))
      .decompose(functional);
  table
      .add_mutating(form("native_batch_norm", "Tensor?", true, training_and_rates(kThree)),
                    "tsc.native_batch_norm_functional.default")
      .mutates_if(writes_statistics)
      .decompose(with_saved);
}

/// cuDNN's: the native forms with a reserve for its backward pass, which holds nothing here;
/// outside training nothing is saved.
void add_cudnn_forms(Table &table) {
  constexpr std::string_view kFlags =
      "bool training, float exponential_average_factor, float epsilon) -> (Tensor, Tensor, Tensor, "
      "Tensor";
  const auto native = [](std::string_view target) {
    return [target](GraphBuilder &builder, const Call &call) -> Argument {
      const Argument computed =
          builder.call(target, {call["input"], call["weight"], call["bias"], call["running_mean"],
                                call["running_var"], call["training"],
                                call["exponential_average_factor"], call["epsilon"]});
      Arguments results = *computed.list();
      if (!in_training(call))
        results[1] = results[2] = empty_statistics(builder, call, parameters_dtype(call));
      results.insert(results.begin() + 3, empty_statistics(builder, call, DType::u8));
      return results;
    };
  };
  table
      .add(form("tsc::cudnn_batch_norm_functional", "Tensor?", false,
                keep_text(std::string(kFlags) + ", Tensor, Tensor)")))
      .decompose(native("tsc.native_batch_norm_functional.default"));
  table
      .add_mutating(form("cudnn_batch_norm", "Tensor?", true, keep_text(std::string(kFlags) + ")")),
                    "tsc.cudnn_batch_norm_functional.default")
      .mutates_if(writes_statistics)
      .decompose(native("aten.native_batch_norm.default"));
}

} // namespace

void add_batch_normalization(Table &table) {
  add_native_forms(table);
  add_cudnn_forms(table);
  add_updating(table, "batch_norm", "bool training, float momentum, float eps, bool cudnn_enabled",
               train_batch, batch_norm);
  add_updating(table, "instance_norm",
               "bool use_input_stats, float momentum, float eps, bool cudnn_enabled",
               train_instances, instance_norm);
}

} // namespace tsc::ops
