// Narrow floats, packed weights and quantization: what is refused, and by which words.
#include "driver/check.h"
#include "testing/catch.h"
#include "wrong_graph.h"

using namespace tsc;
using nlohmann::json;
using testing::WrongGraph;

namespace {

/// "CODE message" of the only problem.
std::string refusal_of(WrongGraph &graph) {
  const driver::CheckReport report = driver::check(graph.graph({"y"}), {});
  REQUIRE(report.problems.size() == 1);
  return report.problems[0].diagnostic.code + " " + report.problems[0].diagnostic.message;
}

json dtype(const char *name) { return {{"dtype", name}}; }

/// "none", "bias", .. of one scaled product of [4, 32] and [32, 16].
WrongGraph scaled(const std::string &given, const json &scale_a, const json &scale_b,
                  const json &more = json::object()) {
  WrongGraph graph;
  graph.input("a", given, {4, 32})
      .input("b", given, {32, 16})
      .input("s", "float32", scale_a)
      .input("t", "float32", scale_b);
  json arguments = {{"out_dtype", dtype("bfloat16")}};
  arguments.update(more);
  graph.call("y", "aten._scaled_mm.default", {"$a", "$b", "$s", "$t"}, arguments);
  return graph;
}

} // namespace

TEST_CASE("nothing computes with 8-bit floats, decomposed operators neither") {
  for (const char *target : {"aten.neg.default", "aten.relu.default", "aten.sum.default",
                             "aten.gelu.default", "aten.sigmoid.default"}) {
    INFO(target);
    WrongGraph graph;
    graph.input("x", "float8_e5m2", {2, 3}).call("y", target, {"$x"});
    CHECK(refusal_of(graph) == "TSC-K001 kernels cannot compute with torch.float8_e5m2");
  }
  WrongGraph product;
  product.input("x", "float8_e4m3fn", {4, 4}).call("y", "aten.mm.default", {"$x", "$x"});
  CHECK(refusal_of(product) == "TSC-K001 kernels cannot compute with torch.float8_e4m3fn");
}

TEST_CASE("products with scales say what they take") {
  WrongGraph good = scaled("float8_e4m3fn", json::array(), json::array());
  CHECK(driver::check(good.graph({"y"}), {}).problems.empty());
  WrongGraph of_blocks = scaled("float8_e4m3fn", {4, 1}, {1, 16});
  CHECK(driver::check(of_blocks.graph({"y"}), {}).problems.empty());
  WrongGraph halves = scaled("bfloat16", json::array(), json::array());
  CHECK(refusal_of(halves) == "TSC-O127 aten._scaled_mm.default of torch.bfloat16[4, 32] and "
                              "torch.bfloat16[32, 16]");
  WrongGraph columns = scaled("float8_e4m3fn", {3, 1}, json::array());
  CHECK(refusal_of(columns) == "TSC-O217 aten._scaled_mm.default in a form that is not computed: "
                               "'scale_a' torch.float32[3, 1]");
  WrongGraph vector = scaled("float8_e4m3fn", json::array(), {16});
  CHECK(refusal_of(vector) == "TSC-O217 aten._scaled_mm.default in a form that is not computed: "
                              "'scale_b' torch.float32[16]");
  WrongGraph doubles =
      scaled("float8_e4m3fn", json::array(), json::array(), {{"out_dtype", dtype("float64")}});
  CHECK(refusal_of(doubles) == "TSC-O127 aten._scaled_mm.default with out_dtype torch.float64");
  WrongGraph biased = scaled("float8_e4m3fn", json::array(), json::array(), {{"bias", "$s"}});
  CHECK(refusal_of(biased) == "TSC-O129 aten._scaled_mm.default: 'bias' torch.float32[]");
  WrongGraph result =
      scaled("float8_e4m3fn", json::array(), json::array(), {{"scale_result", "$s"}});
  CHECK(refusal_of(result) ==
        "TSC-O217 aten._scaled_mm.default in a form that is not computed: 'scale_result'");
}

TEST_CASE("products of 16-bit floats are of their dtype or of float32") {
  WrongGraph graph;
  graph.input("a", "bfloat16", {4, 8})
      .input("b", "bfloat16", {8, 3})
      .call("y", "aten.mm.dtype", {"$a", "$b", dtype("float16")});
  CHECK(refusal_of(graph) ==
        "TSC-O127 aten.mm.dtype of torch.bfloat16 with out_dtype torch.float16");
  WrongGraph sum;
  sum.input("c", "float16", {3})
      .input("a", "bfloat16", {4, 8})
      .input("b", "bfloat16", {8, 3})
      .call("y", "aten.addmm.dtype", {"$c", "$a", "$b", dtype("float32")});
  CHECK(refusal_of(sum) == "TSC-O127 aten.addmm.dtype: self is torch.float16");
  WrongGraph wide;
  wide.input("c", "float32", {3})
      .input("a", "bfloat16", {2, 4, 8})
      .input("b", "bfloat16", {2, 8, 3})
      .call("y", "aten.baddbmm.dtype", {"$c", "$a", "$b", dtype("float32")}, {{"beta", 2}});
  CHECK(driver::check(wide.graph({"y"}), {}).problems.empty());
}

TEST_CASE("quantization is asked for numbers that fit") {
  WrongGraph bounds;
  bounds.input("x", "float32", {4})
      .call("y", "quantized_decomposed.quantize_per_tensor.default",
            {"$x", 0.5, 0, -129, 127, dtype("int8")});
  CHECK(refusal_of(bounds) == "TSC-O127 quantized_decomposed.quantize_per_tensor.default from -129 "
                              "to 127 in torch.int8");
  WrongGraph stored;
  stored.input("x", "uint8", {4})
      .call("y", "quantized_decomposed.dequantize_per_tensor.default",
            {"$x", 0.5, 0, -128, 127, dtype("int8")});
  CHECK(refusal_of(stored) == "TSC-O127 quantized_decomposed.dequantize_per_tensor.default of "
                              "torch.uint8[4] as torch.int8");
  WrongGraph channels;
  channels.input("x", "float32", {4, 3})
      .input("s", "float32", {4})
      .input("z", "int64", {4})
      .call("y", "quantized_decomposed.quantize_per_channel.default",
            {"$x", "$s", "$z", 1, -128, 127, dtype("int8")});
  CHECK(refusal_of(channels) ==
        "TSC-O129 quantized_decomposed.quantize_per_channel.default: 'scales' torch.float32[4] for "
        "dimension 1 of [4, 3]");
  WrongGraph groups;
  groups.input("x", "int8", {4, 30})
      .input("s", "float32", {4, 2})
      .call("y", "quantized_decomposed.dequantize_per_channel_group.default",
            {"$x", "$s", nullptr, -8, 7, dtype("int8"), 16, dtype("float32")});
  CHECK(refusal_of(groups) == "TSC-O129 quantized_decomposed.dequantize_per_channel_group.default: "
                              "groups of 16 in [4, 30]");
}

TEST_CASE("weights that a CPU packed are declined with the reason") {
  WrongGraph graph;
  graph.input("x", "float32", {4, 64})
      .input("w", "uint8", {16, 32})
      .input("s", "float32", {2, 16, 2})
      .call("y", "aten._weight_int4pack_mm_for_cpu.default", {"$x", "$w", 32, "$s"});
  const driver::CheckReport report = driver::check(graph.graph({"y"}), {});
  REQUIRE(report.problems.size() == 1);
  CHECK(report.problems[0].diagnostic.code == "TSC-O001");
  CHECK(report.problems[0].diagnostic.next_step ==
        "its weights lie in an order that the vector width of the CPU decides where they were "
        "packed, and no file says it: export with the weights as they were before packing");
}
