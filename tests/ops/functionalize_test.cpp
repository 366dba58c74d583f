#include "ops/passes/functionalize.h"
#include "ops/table/in_place_forms.h"
#include "ops/table/operator.h"
#include "sample_graph.h"
#include "support/diagnostic.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::ops;
using graph::Argument;
using graph::InputKind;
using graph::OutputKind;
using tensor::DType;
using testing::calls_of;
using testing::SampleGraph;
using List = Argument::List;

TEST_CASE("writes to a fresh tensor need no output") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4});
  Argument y = sample.call("y", "aten.exp.default", {x});
  sample.call("z", "aten.add_.Tensor", {y, 1});
  Argument w = sample.call("w", "aten.mul.Tensor", {y, 2});
  graph::Graph graph = run_graph_passes(sample.finish({w}), {});
  CHECK(calls_of(graph) == "y = aten.exp.default(%x)\n"
                           "add = aten.add.Tensor(%y, 1)\n"
                           "w = aten.mul.Tensor(%add, 2)\n");
  CHECK(graph.outputs.size() == 1);
}

TEST_CASE("mutated buffers and inputs become outputs, in front") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4});
  Argument count = sample.input("count", DType::i64, {}, InputKind::buffer);
  sample.call("a", "aten.add_.Tensor", {count, 1});
  sample.call("b", "aten.mul_.Tensor", {x, 2});
  Argument y = sample.call("y", "aten.neg.default", {x});
  graph::Graph graph = run_graph_passes(sample.finish({y}), {});
  CHECK(calls_of(graph) == "add = aten.add.Tensor(%count, 1)\n"
                           "mul = aten.mul.Tensor(%x, 2)\n"
                           "y = aten.neg.default(%mul)\n");
  REQUIRE(graph.outputs.size() == 3);
  CHECK(graph.outputs[0].kind == OutputKind::input_mutation);
  CHECK(graph.outputs[0].target == "x");
  CHECK(graph.outputs[1].kind == OutputKind::buffer_mutation);
  CHECK(graph.outputs[1].target == "module.count");
  CHECK(graph.outputs[2].kind == OutputKind::user);
  CHECK(graph.nodes.back().args[0].list()->size() == 3);
}

TEST_CASE("a write through views reaches the base and other views of it") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4, 6});
  Argument base = sample.call("base", "aten.clone.default", {x});
  Argument other = sample.call("other", "aten.transpose.int", {base, 0, 1});
  Argument part = sample.call("part", "aten.slice.Tensor", {base, 1, 2, 4});
  Argument row = sample.call("row", "aten.select.int", {part, 0, 1});
  sample.call("w", "aten.fill_.Scalar", {row, 7.0});
  Argument y = sample.call("y", "aten.neg.default", {other});
  Argument z = sample.call("z", "aten.neg.default", {part});
  graph::Graph graph = run_graph_passes(sample.finish({y, z, row}), {});
  CHECK(calls_of(graph) ==
        "part = aten.slice.Tensor(%x, 1, 2, 4)\n"
        "full = aten.full.default([2], 7.0), kwargs = {dtype: torch.float32, device: cuda:0})\n"
        "select_scatter = aten.select_scatter.default(%part, %full, 0, 1)\n"
        "slice_scatter = aten.slice_scatter.default(%x, %select_scatter, 1, 2, 4, 1)\n"
        "permute_1 = aten.permute.default(%slice_scatter, [1, 0])\n"
        "y = aten.neg.default(%permute_1)\n"
        "z = aten.neg.default(%select_scatter)\n");
}

TEST_CASE("a view of what was written sees the same memory as older views") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4, 6});
  Argument base = sample.call("base", "aten.exp.default", {x});
  Argument all = sample.call("all", "aten.view.default", {base, List{24}});
  sample.call("w1", "aten.add_.Tensor", {base, 1});
  Argument row = sample.call("row", "aten.select.int", {base, 0, 2});
  sample.call("w2", "aten.mul_.Tensor", {row, 3});
  Argument y = sample.call("y", "aten.neg.default", {all});
  graph::Graph graph = run_graph_passes(sample.finish({y}), {});
  CHECK(calls_of(graph) == "base = aten.exp.default(%x)\n"
                           "add = aten.add.Tensor(%base, 1)\n"
                           "row = aten.select.int(%add, 0, 2)\n"
                           "mul = aten.mul.Tensor(%row, 3)\n"
                           "select_scatter = aten.select_scatter.default(%add, %mul, 0, 2)\n"
                           "view = aten.view.default(%select_scatter, [24])\n"
                           "y = aten.neg.default(%view)\n");
}

TEST_CASE("a copy keeps the old value of an input that is written later") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4});
  Argument old = sample.call("old", "aten.clone.default", {x});
  sample.call("w", "aten.zero_.default", {x});
  graph::Graph graph = run_graph_passes(sample.finish({old}), {});
  CHECK(calls_of(graph).find("old = aten.clone.default(%x)") != std::string::npos);
  CHECK(graph.outputs.size() == 2);
}

TEST_CASE("the stored value takes the dtype of the memory") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f16, {4});
  Argument y = sample.call("y", "aten.exp.default", {x});
  Argument wide = sample.input("wide", DType::f32, {4});
  Argument z = sample.call("z", "aten.copy_.default", {y, wide});
  graph::Graph graph = run_graph_passes(sample.finish({z}), {});
  CHECK(calls_of(graph).find("prims.convert_element_type.default(%wide, torch.float16)") !=
        std::string::npos);
}

namespace {

std::string message_of(const graph::Graph &graph) {
  try {
    run_graph_passes(graph, {});
  } catch (const support::UserError &error) {
    return error.what();
  }
  return "no error";
}

graph::Graph functionalized(const graph::Graph &graph) {
  return functionalize(infer_shapes(graph, {}), {});
}

} // namespace

TEST_CASE("a write through a diagonal stores the diagonal's elements") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4, 5});
  Argument d = sample.call("d", "aten.diagonal.default", {x, 1});
  sample.call("w", "aten.neg_.default", {d});
  CHECK(calls_of(functionalized(sample.finish({x}))) ==
        "d = aten.diagonal.default(%x, 1)\n"
        "neg = aten.neg.default(%d)\n"
        "diagonal = aten.diagonal.default(%x, 1, 0, 1)\n"
        "iota = prims.iota.default(4), kwargs = {start: 0, step: 1, dtype: torch.int64, device: "
        "cuda:0, requires_grad: False})\n"
        "iota_1 = prims.iota.default(4), kwargs = {start: 1, step: 1, dtype: torch.int64, device: "
        "cuda:0, requires_grad: False})\n"
        "permute = aten.permute.default(%neg, [0])\n"
        "index_put = aten.index_put.default(%x, [%iota, %iota_1], %permute)\n");
}

TEST_CASE("a view of the whole, or one that renames elements, is written to as the whole") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4, 6});
  Argument all = sample.call("all", "aten.slice.Tensor", {x, 0, 0, INT64_MAX});
  Argument same = sample.call("same", "aten.view.default", {all, List{4, 6}});
  Argument turned = sample.call("turned", "aten.permute.default", {same, List{1, 0}});
  Argument bits = sample.call("bits", "aten.view.dtype", {turned, DType::i32});
  sample.call("w", "aten.add_.Tensor", {bits, 1});
  CHECK(calls_of(functionalized(sample.finish({x}))) ==
        "all = aten.slice.Tensor(%x, 0, 0, 9223372036854775807)\n"
        "same = aten.view.default(%all, [4, 6])\n"
        "turned = aten.permute.default(%same, [1, 0])\n"
        "bits = aten.view.dtype(%turned, torch.int32)\n"
        "add = aten.add.Tensor(%bits, 1)\n"
        "view = aten.view.dtype(%add, torch.float32)\n"
        "permute = aten.permute.default(%view, [1, 0])\n");
}

TEST_CASE("as_strided sees the whole memory, whatever it is taken of") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4, 6});
  Argument y = sample.call("y", "aten.exp.default", {x});
  Argument part = sample.call("part", "aten.slice.Tensor", {y, 0, 1, 4});
  sample.call("w1", "aten.add_.Tensor", {part, 1});
  Argument strided = sample.call("strided", "aten.as_strided.default", {part, List{2}, List{7}});
  sample.call("w2", "aten.mul_.Tensor", {y, 2});
  Argument z = sample.call("z", "aten.neg.default", {strided});
  CHECK(calls_of(functionalized(sample.finish({z}))) ==
        "y = aten.exp.default(%x)\n"
        "part = aten.slice.Tensor(%y, 0, 1, 4)\n"
        "add = aten.add.Tensor(%part, 1)\n"
        "slice_scatter = aten.slice_scatter.default(%y, %add, 0, 1, 4, 1)\n"
        "strided = aten.as_strided.default(%slice_scatter, [2], [7], 6)\n"
        "mul = aten.mul.Tensor(%slice_scatter, 2)\n"
        "as_strided = aten.as_strided.default(%mul, [2], [7], 6)\n"
        "z = aten.neg.default(%as_strided)\n");
}

TEST_CASE("as_strided of an input sees no element before the input's own") {
  const auto from = [](int64_t offset) {
    SampleGraph sample;
    Argument x = sample.input("x", DType::f32, {10});
    sample.record({DType::f32, {{10}, {1}, 5}}); // what it is part of begins 5 elements earlier
    Argument s = sample.call("s", "aten.as_strided.default", {x, List{3}, List{2}, offset});
    return sample.finish({s});
  };
  CHECK(calls_of(functionalized(from(5))) == "s = aten.as_strided.default(%x, [3], [2], 5)\n");
  CHECK(
      message_of(from(4)) ==
      "error TSC-O079: aten.as_strided.default leaves its memory: element 4 lies before the input, "
      "whose memory is given from element 5 on\n"
      "  at node s\n"
      "  in File \"model.py\", line 1, in forward: y = f(x)\n"
      "  next: choose sizes, strides and an offset within the tensor's memory");
}

TEST_CASE("views in place are views: sizes change, memory does not") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4, 6});
  Argument e = sample.call("e", "aten.exp.default", {x});
  Argument y = sample.call("y", "aten.unsqueeze_.default", {e, 0});
  Argument z = sample.call("z", "aten.transpose_.default", {y, 1, 2});
  sample.call("w", "aten.add_.Tensor", {z, 1});
  graph::Graph graph = functionalized(sample.finish({z}));
  CHECK(calls_of(graph) == "e = aten.exp.default(%x)\n"
                           "unsqueeze = aten.unsqueeze.default(%e, 0)\n"
                           "permute = aten.permute.default(%unsqueeze, [0, 2, 1])\n"
                           "add = aten.add.Tensor(%permute, 1)\n"
                           "permute_1 = aten.permute.default(%add, [0, 2, 1])\n"
                           "view = aten.view.default(%permute_1, [4, 6])\n");
  REQUIRE(graph.outputs.size() == 1);
}

TEST_CASE("an input keeps its sizes and strides") {
  for (const bool turns : {true, false}) {
    SampleGraph sample;
    Argument x = sample.input("x", DType::f32, {4, 6});
    Argument y = sample.call("y", "aten.transpose_.default", {x, 0, turns ? 1 : 0});
    const graph::Graph graph = sample.finish({y});
    if (turns)
      CHECK(message_of(graph) ==
            "error TSC-O080: aten.transpose_.default gives the input x other "
            "sizes or strides, which its owner would not see\n"
            "  at node y\n"
            "  in File \"model.py\", line 1, in forward: y = f(x)\n"
            "  next: take a view of it (without the underscore) and return that");
    else
      CHECK(functionalized(graph).outputs.size() == 1);
  }
}

TEST_CASE("a view of sizes that nothing proves to be equal is written through") {
  const symbolic::Expr n = symbolic::symbol(symbolic::SymbolSort::size, 0);
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {n, 6});
  Argument e = sample.call("e", "aten.exp.default", {x});
  Argument v = sample.call("v", "aten.view.default", {e, List{3, 4}});
  sample.call("w", "aten.mul_.Tensor", {v, 2});
  graph::Graph graph = functionalized(sample.finish({e}));
  const std::string calls = calls_of(graph);
  INFO(calls);
  CHECK(calls.find("tsc.assert.default") != std::string::npos); // that the sizes are those of it
  CHECK(calls.find("mul = aten.mul.Tensor(%v, 2)\n") != std::string::npos);
  CHECK(calls.find("view = aten.view.default(%mul, [s0, 6])\n") != std::string::npos);
}

TEST_CASE("a view that may be a copy is not written to") {
  const symbolic::Expr n = symbolic::symbol(symbolic::SymbolSort::size, 0);
  for (const bool writes : {true, false}) {
    SampleGraph sample;
    Argument x = sample.input("x", DType::f32, {n, 6});
    Argument e = sample.call("e", "aten.exp.default", {x});
    Argument t = sample.call("t", "aten.slice.Tensor", {e, 1, 0, 4});
    Argument v = sample.call("v", "aten.view.default", {t, List{3, 4}});
    sample.call("w", "aten.mul_.Tensor", {writes ? v : x, 2});
    const graph::Graph graph = sample.finish({e, v});
    if (writes)
      CHECK(message_of(graph) ==
            "error TSC-O081: nothing says how the view v, which is written to, lies in what it "
            "views\n"
            "  at node v\n"
            "  in File \"model.py\", line 3, in forward: y = f(x)\n"
            "  next: write before the view is taken, or export with fixed sizes");
    else
      CHECK(functionalized(graph).outputs.size() == 3);
  }
}

TEST_CASE("what depends on strides that the file says otherwise is not written to") {
  // exp of a contiguous tensor, whose strides the file says are transposed: v would be a copy.
  const auto graph_of = [](const std::string &view, bool writes,
                           const std::vector<symbolic::Expr> &strides) {
    SampleGraph sample;
    Argument x = sample.input("x", DType::f32, {4, 6});
    Argument e = sample.call("e", "aten.exp.default", {x});
    sample.record({DType::f32, {{4, 6}, strides, 0}});
    Argument t = sample.call("t", "aten.slice.Tensor", {e, 0, 0, 2});
    sample.record({DType::f32, {{2, 6}, strides, 0}});
    Argument v = view == "aten.reshape.default" ? sample.call("v", view, {t, List{3, 4}})
                                                : sample.call("v", view, {t});
    sample.call("w", "aten.mul_.Tensor", {writes ? v : x, 2});
    return sample.finish({e, v});
  };
  for (const char *view : {"aten.reshape.default", "aten.contiguous.default"}) {
    CHECK(message_of(graph_of(view, true, {1, 4})).find("TSC-O081") != std::string::npos);
    CHECK(functionalized(graph_of(view, true, {6, 1})).outputs.size() == 2);
    CHECK(functionalized(graph_of(view, false, {1, 4})).outputs.size() == 3);
  }
  // A view either way.
  CHECK(functionalized(graph_of("aten.alias.default", true, {1, 4})).outputs.size() == 2);
}

TEST_CASE("what memory holds is not asked of strides that the file says otherwise") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4, 6});
  Argument e = sample.call("e", "aten.exp.default", {x});
  sample.record({DType::f32, {{4, 6}, {1, 4}, 0}});
  Argument s = sample.call("s", "aten.as_strided.default", {e, List{3}, List{5}});
  CHECK(message_of(sample.finish({s})) ==
        "error TSC-O082: aten.as_strided.default of e, whose strides the file says are [1, 4], not "
        "[6, 1]\n"
        "  at node s\n"
        "  in File \"model.py\", line 2, in forward: y = f(x)\n"
        "  next: clone(memory_format=torch.contiguous_format) it before");
}

TEST_CASE("recorded strides of sizes that few sizes have a value at are compared where they have") {
  // A sixteenth of n divides: there is none of the sizes below 16, which a sample may be.
  const symbolic::Expr n = symbolic::symbol(symbolic::SymbolSort::size),
                       part = symbolic::floor_div(n, 16), rest = symbolic::floor_div(n, part);
  const auto graph_of = [&](const symbolic::Expr &stride, std::optional<int64_t> hint) {
    SampleGraph sample;
    Argument x = sample.input("x", DType::f32, {part, rest});
    Argument e = sample.call("e", "aten.exp.default", {x});
    sample.record({DType::f32, {{part, rest}, {stride, 1}, 0}});
    Argument s = sample.call("s", "aten.as_strided.default", {e, List{3}, List{1}});
    graph::Graph graph = sample.finish({s});
    graph.symbols.push_back({.symbol = n, .low = 2, .hint = hint});
    return graph;
  };
  const auto is_refused = [](const graph::Graph &graph) {
    return message_of(graph).find("TSC-O082") != std::string::npos;
  };
  CHECK(!is_refused(graph_of(rest, 32)));
  CHECK(!is_refused(graph_of(symbolic::maximum(rest, 1), 32)));
  CHECK(is_refused(graph_of(rest * 2, 32)));
  CHECK(!is_refused(graph_of(rest * 2, std::nullopt))); // nothing is known
}

TEST_CASE("a source that overlaps what it is written to is read first") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {5});
  Argument from = sample.call("from", "aten.slice.Tensor", {x, 0, 0, 4});
  Argument to = sample.call("to", "aten.slice.Tensor", {x, 0, 1, 5});
  sample.call("w", "aten.copy_.default", {to, from});
  CHECK(calls_of(run_graph_passes(sample.finish({x}), {})) ==
        "from = aten.slice.Tensor(%x, 0, 0, 4)\n"
        "clone = aten.clone.default(%from)\n"
        "slice_scatter = aten.slice_scatter.default(%x, %clone, 0, 1, 5, 1)\n");
}

TEST_CASE("an operator that writes nothing for its arguments leaves its input alone") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4});
  Argument y = sample.call("y", "aten.dropout_.default", {x, 0.5, false});
  graph::Graph graph = functionalized(sample.finish({y}));
  CHECK(calls_of(graph).empty());
  CHECK(graph.outputs.size() == 1);
}

TEST_CASE("constants of the file that are inputs are mutated by name") {
  SampleGraph sample;
  Argument c = sample.input("c", DType::f32, {4}, InputKind::constant_tensor);
  sample.call("w", "aten.add_.Tensor", {c, 1});
  graph::Graph graph = functionalized(sample.finish({c}));
  REQUIRE(graph.outputs.size() == 2);
  CHECK(graph.outputs[0].kind == OutputKind::buffer_mutation);
  CHECK(graph.outputs[0].target == "module.c");
}

TEST_CASE("a write that does not fit, or reaches an element twice, says so") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {1, 4});
  Argument e = sample.call("e", "aten.expand.default", {x, List{3, 4}});
  sample.call("w", "aten.zero_.default", {e});
  CHECK(message_of(sample.finish({x})) ==
        "error TSC-O072: aten.zero_.default writes through aten.expand.default: several elements "
        "are one in memory\n"
        "  at node w\n"
        "  in File \"model.py\", line 2, in forward: y = f(x)\n"
        "  next: clone() the expanded tensor before writing to it");
  SampleGraph strided;
  Argument s = strided.input("s", DType::f32, {8});
  Argument v = strided.call("v", "aten.as_strided.default", {s, List{3, 3}, List{2, 1}});
  strided.call("w", "aten.zero_.default", {v});
  CHECK(message_of(strided.finish({s})) ==
        "error TSC-O072: a write goes through aten.as_strided: several elements are one in memory\n"
        "  at node w\n"
        "  in File \"model.py\", line 2, in forward: y = f(x)\n"
        "  next: use sizes and strides that reach each element once");
  SampleGraph larger;
  Argument a = larger.input("a", DType::f32, {4});
  Argument b = larger.input("b", DType::f32, {3, 4});
  larger.call("w", "aten.add_.Tensor", {a, b});
  CHECK(message_of(larger.finish({b})) ==
        "error TSC-O047: aten.add_.Tensor would store sizes [3, 4] in [4]\n"
        "  at node w\n"
        "  in File \"model.py\", line 2, in forward: y = f(x)\n"
        "  next: make the result's sizes those of the tensor that is written");
  SampleGraph region;
  Argument r = region.input("r", DType::f32, {4, 4});
  Argument d = region.call("d", "aten.diagonal_scatter.default", {r, r});
  CHECK(message_of(region.finish({d})) ==
        "error TSC-O074: aten.diagonal_scatter.default: src has sizes [4, 4], the region has [4]\n"
        "  at node d\n"
        "  in File \"model.py\", line 1, in forward: y = f(x)\n"
        "  next: pass a src of the region's sizes");
}

TEST_CASE("windows that overlap are not written through") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {6});
  Argument w = sample.input("w", DType::f32, {3, 3});
  Argument y = sample.call("y", "tsc.unfold_scatter.default", {x, w, 0, 3, 1});
  CHECK(message_of(sample.finish({y})) ==
        "error TSC-O072: a write goes through overlapping windows of aten.unfold: several elements "
        "are one in memory\n"
        "  at node y\n"
        "  in File \"model.py\", line 2, in forward: y = f(x)\n"
        "  next: clone() the windows before writing to them");
}

TEST_CASE("every functional operator that ATen has an in-place form of has it here") {
  std::string_view last;
  size_t known = 0;
  for (const InPlaceForm &form : in_place_forms()) {
    CHECK(last < form.name);
    last = form.name;
    const Operator *functional = find_operator("aten." + std::string(form.functional));
    const Operator *in_place = find_operator("aten." + std::string(form.name));
    INFO(form.name);
    CHECK((in_place != nullptr) >= (functional != nullptr));
    if (!functional || !in_place)
      continue;
    ++known;
    CHECK(in_place->effect == (form.is_view ? Effect::view : Effect::mutates));
    CHECK(in_place->schema.parameters.size() == functional->schema.parameters.size());
    CHECK((form.is_view || in_place->schema.is_mutable()));
  }
  CHECK(known > 180);
}

TEST_CASE("memory that cannot be followed says so") {
  SampleGraph gaps;
  graph::Graph with_gaps = [&] {
    Argument x = gaps.input("x", DType::f32, {4, 3});
    gaps.call("w", "aten.add_.Tensor", {x, 1});
    Argument v = gaps.call("v", "aten.as_strided.default", {x, List{2}, List{5}});
    return gaps.finish({v});
  }();
  graph::TensorMeta meta = *with_gaps.nodes[0].value->tensor();
  meta.layout.strides = {6, 2};
  with_gaps.nodes[0].value = graph::Value{meta};
  CHECK(message_of(with_gaps) ==
        "error TSC-O071: as_strided of memory with gaps that has been written to is not supported\n"
        "  at node v\n"
        "  in File \"model.py\", line 2, in forward: y = f(x)\n"
        "  next: take slices of the tensor, or call contiguous() before writing");
  SampleGraph constant;
  Argument c = constant.input("c", DType::f32, {4});
  constant.call("w", "aten.add_.Tensor", {c, 1});
  graph::Graph graph = constant.finish({c});
  graph.nodes[0].kind = graph::NodeKind::get_attr;
  graph.inputs.clear();
  CHECK(message_of(graph) == "error TSC-O073: aten.add_.Tensor writes to the constant c\n"
                             "  at node w\n"
                             "  in File \"model.py\", line 1, in forward: y = f(x)\n"
                             "  next: clone() it before, or make it a buffer of the model");
}

TEST_CASE("buffers that are one tensor under two names are written once, under the first") {
  SampleGraph sample;
  Argument a = sample.input("a", DType::f32, {4}, InputKind::buffer);
  Argument b = sample.input("b", DType::f32, {4}, InputKind::buffer);
  sample.call("w", "aten.add_.Tensor", {a, 1});
  Argument y = sample.call("y", "aten.neg.default", {b});
  graph::Graph graph = sample.finish({y});
  tensor::HostTensor memory(DType::f32, {4});
  graph.weights = {{"module.a", memory}, {"module.b", memory}};
  graph = functionalized(graph);
  CHECK(calls_of(graph) == "add = aten.add.Tensor(%a, 1)\n"
                           "y = aten.neg.default(%add)\n");
  REQUIRE(graph.outputs.size() == 2);
  CHECK(graph.outputs[0].target == "module.a");
}

TEST_CASE("a write to a buffer that another one is a part of says so") {
  SampleGraph sample;
  Argument a = sample.input("a", DType::f32, {4}, InputKind::buffer);
  Argument b = sample.input("b", DType::f32, {2}, InputKind::buffer);
  sample.call("w", "aten.add_.Tensor", {a, 1});
  Argument y = sample.call("y", "aten.neg.default", {b});
  graph::Graph graph = sample.finish({y});
  auto memory = std::make_shared<tensor::HostTensor>(DType::f32, std::vector<int64_t>{4});
  tensor::HostTensor part(DType::f32, {2}, {1}, memory, memory->data() + 8, true);
  graph.weights = {{"module.a", *memory}, {"module.b", part}};
  CHECK(message_of(graph) ==
        "error TSC-O075: the graph writes to a, a part of whose memory is b\n"
        "  at node a\n"
        "  next: register one of them and take a view of it in forward(), or clone() the other");
}

TEST_CASE("resize_ takes the memory that there is, and none of a caller grows") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4});
  Argument y = sample.call("y", "aten.view.default", {x, List{2, 2}});
  sample.call("larger", "aten.resize_.default", {y, List{3, 2}});
  CHECK(message_of(sample.finish({y})) ==
        "error TSC-O070: aten.resize.default gives a tensor other memory: [3, 2] in place of [2, "
        "2] (in the decomposition of aten.resize_.default)\n"
        "  at node larger\n"
        "  in File \"model.py\", line 2, in forward: y = f(x)\n"
        "  next: make a new tensor instead: reshape, narrow, torch.empty or clone");
}

TEST_CASE("resize_ of memory of the graph's own may need more than there is") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4});
  Argument y = sample.call("y", "aten.clone.default", {x});
  Argument larger = sample.call("larger", "aten.resize_.default", {y, List{3, 2}});
  CHECK(message_of(sample.finish({larger})) == "no error");
}

TEST_CASE("what is written through bits of another width is refused") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::i32, {4});
  Argument bits = sample.call("bits", "aten.view.dtype", {x, DType::i16});
  sample.call("write", "aten.zero_.default", {bits});
  CHECK(message_of(sample.finish({x})).rfind("error TSC-O081", 0) == 0);
}

TEST_CASE("a tensor given for a result has its sizes and a dtype that can hold it") {
  const auto said = [](std::vector<Expr> sizes, DType dtype, DType of) {
    SampleGraph sample;
    Argument x = sample.input("x", of, {4, 3});
    Argument out = sample.input("out", dtype, std::move(sizes));
    sample.call("sum", "aten.add.out", {x, x}, {{"out", out}});
    return message_of(sample.finish({x}));
  };
  CHECK(said({4, 3}, DType::f64, DType::f32) == "no error");
  CHECK(said({4, 3}, DType::f32, DType::i64) == "no error");
  const std::string sizes = "error TSC-O070: the result has the sizes [4, 3], the tensor given for "
                            "it [2, 4, 3]";
  CHECK(said({2, 4, 3}, DType::f32, DType::f32).rfind(sizes, 0) == 0);
  const std::string dtype = "error TSC-O070: a result of torch.float32 is not written to a tensor "
                            "of torch.int64";
  CHECK(said({4, 3}, DType::i64, DType::f32).rfind(dtype, 0) == 0);
  const auto largest = [](DType given) { // no TensorIterator, which would cast
    SampleGraph sample;
    Argument x = sample.input("x", DType::f32, {4, 3});
    Argument out = sample.input("out", given, {4});
    sample.call("most", "aten.amax.out", {x, Argument::List{1}}, {{"out", out}});
    return message_of(sample.finish({x}));
  };
  CHECK(largest(DType::f32) == "no error");
  CHECK(largest(DType::f64)
            .rfind("error TSC-O070: a result of torch.float32 is not written to a "
                   "tensor of torch.float64",
                   0) == 0);
}

TEST_CASE("complex values are not put into a real tensor") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4}), z = sample.input("z", DType::c64, {2});
  Argument at = sample.input("at", DType::i64, {2});
  sample.call("put", "aten.index_put.default", {x, List{at}, z});
  CHECK(
      message_of(sample.finish({x})).rfind("error TSC-O070: aten.index_put.default: complex", 0) ==
      0);
}

TEST_CASE("ways of writing that no graph can hold say what to write instead") {
  SampleGraph sample;
  Argument x = sample.input("x", DType::f32, {4});
  sample.call("a", "aten.split_copy.Tensor_out", {x, 2}, {{"out", List{x, x}}});
  sample.call("b", "aten._foobar.out", {x}, {{"out", x}});
  sample.call("c", "aten._resize_output_.default", {x, List{2}});
  sample.call("d", "aten.set_.source_Tensor", {x, x});
  sample.call("e", "aten._foreach_powsum.Scalar", {List{x, x}, 1});
  CHECK(message_of(sample.finish({x})) ==
        "error TSC-O070: aten.split_copy.Tensor_out writes its results to tensors given as out= (1 "
        "call)\n"
        "  at node a\n"
        "  in File \"model.py\", line 1, in forward: y = f(x)\n"
        "  next: call it without out=, and copy_() each result where it belongs\n"
        "error TSC-O070: aten._foobar.out writes its results to tensors given as out= (1 call)\n"
        "  at node b\n"
        "  in File \"model.py\", line 2, in forward: y = f(x)\n"
        "  next: call it without out=, and copy_() each result where it belongs\n"
        "error TSC-O070: aten._resize_output_.default gives a tensor other memory (1 call)\n"
        "  at node c\n"
        "  in File \"model.py\", line 3, in forward: y = f(x)\n"
        "  next: make a new tensor instead: reshape, narrow, torch.empty or clone\n"
        "error TSC-O070: aten.set_.source_Tensor gives a tensor other memory (1 call)\n"
        "  at node d\n"
        "  in File \"model.py\", line 4, in forward: y = f(x)\n"
        "  next: make a new tensor instead: reshape, narrow, torch.empty or clone\n"
        "error TSC-O070: aten._foreach_powsum.Scalar works on lists of tensors (1 call)\n"
        "  at node e\n"
        "  in File \"model.py\", line 5, in forward: y = f(x)\n"
        "  next: call the operator on each tensor in a loop (optimizers: foreach=False)");
}

TEST_CASE("what a decomposed export stores gets the dtype and sizes of what it is stored in") {
  SampleGraph sample;
  const Argument x = sample.input("x", DType::f32, {1});
  const Argument count = sample.input("count", DType::i64, {3}, InputKind::buffer);
  const Argument y = sample.call("y", "aten.exp.default", {x});
  const Argument z = sample.call("z", "aten.neg.default", {count});
  graph::Graph written = sample.finish({y, z});
  written.outputs[0].kind = OutputKind::buffer_mutation;
  written.outputs[0].target = "module.count";
  const graph::Graph graph = run_graph_passes(written, {});
  const graph::Node &stored = graph.node(graph.outputs[0].value.node()->id);
  CHECK(stored.value->tensor()->dtype == DType::i64);
  CHECK(stored.value->tensor()->layout.sizes == std::vector<symbolic::Expr>{3});
  // By way of a conversion; the other output is as it was.
  CHECK(calls_of(graph).find("prims.convert_element_type.default(%y") != std::string::npos);
  CHECK(graph.node(graph.outputs[1].value.node()->id).name == "z");
}
