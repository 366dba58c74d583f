// Quantization that is trained with: what an integer of a few values stands for, in floats.
#include "ops/families/fake_quantization.h"

#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <string>

namespace tsc::ops {
namespace {

void check_input(const Call &call) {
  const int64_t low = call.integer("quant_min"), high = call.integer("quant_max");
  if (!tensor::is_floating(call.tensor("self").dtype))
    call.fail("TSC-O127",
              call.node().target + " of " +
                  std::string(tensor::torch_name(call.tensor("self").dtype)),
              "give a tensor of floats");
  if (low > high)
    call.fail("TSC-O127",
              call.node().target + " from " + std::to_string(low) + " to " + std::to_string(high),
              "give the lower bound first");
}

/// PyTorch has numbers as float32, and multiplies by the reciprocal.
Parameters by_numbers(const Call &call) {
  const auto scale = static_cast<float>(call.number("scale"));
  return {static_cast<double>(scale), static_cast<double>(1.0f / scale), call["zero_point"]};
}

/// `is_cut`: a zero point that is no whole number is cut to one, as PyTorch does for one tensor,
/// but not for channels.
Parameters by_tensors(GraphBuilder &builder, const Call &call, const std::vector<Expr> &sizes,
                      bool is_cut) {
  const auto element = [&](std::string_view name, DType dtype) {
    if (!taken_equal(call, symbolic::numel(call.tensor(name).layout.sizes), symbolic::numel(sizes)))
      call.fail("TSC-O129",
                call.node().target + ": '" + std::string(name) + "' of sizes " +
                    print_sizes(call.tensor(name).layout.sizes) + " for " +
                    print_sizes(call.tensor("self").layout.sizes),
                "give one number for each that is quantized by itself");
    return reshaped(Term(builder, convert(builder, call[name], dtype)), sizes);
  };
  const Term scale = element("scale", DType::f32);
  const bool is_whole = is_cut || !tensor::is_floating(call.tensor("zero_point").dtype);
  return {scale, 1.0 / scale, element("zero_point", is_whole ? DType::i64 : DType::f32), is_whole};
}

Parameters by_channels(GraphBuilder &builder, const Call &call) {
  return by_tensors(builder, call, channel_sizes(call, "axis"), false);
}

} // namespace

std::vector<Expr> channel_sizes(const Call &call, std::string_view axis) {
  const std::vector<Expr> &self = call.tensor("self").layout.sizes;
  const int64_t given = call.integer(axis);
  if (given < 0)
    call.fail("TSC-O021", call.node().target + ": the axis is " + std::to_string(given),
              "count from the first dimension");
  const size_t channel = normalize_dim(call, given, self.size());
  std::vector<Expr> sizes(self.size(), Expr(1));
  if (channel < self.size())
    sizes[channel] = self[channel];
  return sizes;
}

/// (result, mask): the mask holds where nothing was cut off. NaN becomes the lowest; the result is
/// computed in float32 also of wider ones.
Arguments quantized(GraphBuilder &builder, const Call &call, const Parameters &by) {
  check_input(call);
  const DType dtype = call.tensor("self").dtype;
  const Term scaled = wide(builder, call, "self") * by.inverse;
  const Term places = by.is_whole ? scaled.then("aten.round.default") + by.zero_point
                                  : (scaled + by.zero_point).then("aten.round.default");
  const Argument &low = call["quant_min"], &high = call["quant_max"];
  const Term is_number = equal(places, places);
  const Term cut = places.then("aten.clamp.default", {low, high});
  const Term kept(builder, where(is_number, cut, low).as(DType::f32));
  const Term result = (kept - by.zero_point) * by.scale;
  return {result.as(dtype), both(places >= low, places <= high)};
}

namespace {

using Rule = Parameters (*)(GraphBuilder &, const Call &);

Parameters of_numbers(GraphBuilder &, const Call &call) { return by_numbers(call); }
Parameters of_one_tensor(GraphBuilder &builder, const Call &call) {
  return by_tensors(builder, call, {}, true);
}

/// Where the flag is 0 the input stays as it is, and nothing counts as cut off.
Argument quantized_if_enabled(GraphBuilder &builder, const Call &call) {
  const Arguments results = quantized(builder, call, of_one_tensor(builder, call));
  const Term is_enabled =
      reshaped(given(builder, call, "fake_quant_enabled"), {}).then("aten.ne.Scalar", {0});
  return Arguments{where(is_enabled, results[0], call["self"]),
                   where(is_enabled, results[1], true)};
}

} // namespace

void add_fake_quantization(Table &table) {
  struct Form {
    std::string_view name, parameters;
    Rule rule;
    bool has_mask;
  };
  const Form forms[] = {
      {"per_tensor_affine", "float scale, int zero_point", of_numbers, false},
      {"per_tensor_affine.tensor_qparams", "Tensor scale, Tensor zero_point", of_one_tensor, false},
      {"per_tensor_affine_cachemask", "float scale, int zero_point", of_numbers, true},
      {"per_channel_affine", "Tensor scale, Tensor zero_point, int axis", by_channels, false},
      {"per_channel_affine_cachemask", "Tensor scale, Tensor zero_point, int axis", by_channels,
       true}};
  for (const Form &form : forms) {
    const std::string results = form.has_mask ? "(Tensor output, Tensor mask)" : "Tensor";
    table
        .add(keep_text("fake_quantize_" + std::string(form.name) + "(Tensor self, " +
                       std::string(form.parameters) + ", int quant_min, int quant_max) -> " +
                       results))
        .decompose([form](GraphBuilder &builder, const Call &call) {
          Arguments both = quantized(builder, call, form.rule(builder, call));
          return form.has_mask ? Argument(std::move(both)) : both[0];
        });
  }
  table
      .add("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(Tensor self, Tensor scale, "
           "Tensor zero_point, Tensor fake_quant_enabled, int quant_min, int quant_max) -> (Tensor "
           "output, Tensor mask)")
      .decompose(quantized_if_enabled);
  for (const std::string_view name : {"per_tensor_affine", "per_channel_affine"})
    table
        .add(keep_text("fake_quantize_" + std::string(name) +
                       "_cachemask_backward(Tensor grad, Tensor mask) -> Tensor"))
        .decompose([](GraphBuilder &builder, const Call &call) -> Argument {
          return given(builder, call, "grad") * call["mask"];
        });
}

} // namespace tsc::ops
