// The fused cells of recurrent layers, whose forward pass saves its gates in a workspace, and their
// backward forms. All in f32 or wider.
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "ops/table/term.h"

namespace tsc::ops {
namespace {

/// `count` equal parts of the last dimension.
std::vector<Term> parts_of(const Term &x, int64_t count) {
  const Argument parts = x.then("aten.chunk.default", {count, -1}).value();
  std::vector<Term> result;
  for (int64_t i = 0; i < count; ++i)
    result.emplace_back(x.builder(), x.builder().item(parts, i));
  return result;
}

Argument joined(const std::vector<Term> &parts, DType dtype) {
  Arguments list;
  for (const Term &part : parts)
    list.push_back(part.as(dtype));
  return parts.front().builder().call("aten.cat.default", {list, -1});
}

/// Gates come in as many parts of a state's size.
void require_gates(const Call &call, std::string_view gates, std::string_view state,
                   int64_t count) {
  const std::vector<Expr> &given = call.tensor(gates).layout.sizes,
                          &own = call.tensor(state).layout.sizes;
  if (given.size() != 2 || own.size() != 2 || !may_equal(given[0], own[0], call.ranges()) ||
      !may_equal(given[1], own[1] * Expr(count), call.ranges()))
    call.fail("TSC-O129",
              call.node().target + ": '" + std::string(gates) + "' of sizes " + print_sizes(given) +
                  " does not fit '" + std::string(state) + "' of sizes " + print_sizes(own),
              "give tensors of sizes that fit");
}

Term with_bias(GraphBuilder &builder, const Call &call, std::string_view gates,
               std::string_view bias) {
  const Term x = wide(builder, call, gates);
  return call.has(bias) ? x + wide(builder, call, bias) : x;
}

/// The slope of a sigmoid or of a tanh from its result.
Term sigmoid_slope(const Term &y) { return y * (1.0 - y); }
Term tanh_slope(const Term &y) { return 1.0 - square(y); }

/// (hidden state, cell state, gates): input, forget, cell, output.
Argument lstm_cell(GraphBuilder &builder, const Call &call) {
  require_gates(call, "input_gates", "cx", 4);
  const DType dtype = call.tensor("input_gates").dtype;
  const std::vector<Term> x = parts_of(with_bias(builder, call, "input_gates", "input_bias") +
                                           with_bias(builder, call, "hidden_gates", "hidden_bias"),
                                       4);
  const Term in = sigmoid(x[0]), keep = sigmoid(x[1]), cell = tanh(x[2]), out = sigmoid(x[3]);
  const Term state = keep * wide(builder, call, "cx") + in * cell;
  return Arguments{(out * tanh(state)).as(dtype), state.as(call.tensor("cx").dtype),
                   joined({in, keep, cell, out}, dtype)};
}

/// A gradient that may be absent.
Term or_zeros(GraphBuilder &builder, const Call &call, std::string_view name,
              const TensorMeta &like) {
  if (call.has(name))
    return wide(builder, call, name);
  return filled(builder, like.layout.sizes, 0.0, accumulation_dtype(like.dtype), like.device);
}

struct LstmGradients {
  Argument gates, state, bias; // bias: None without one
};
LstmGradients of_lstm_cell(GraphBuilder &builder, const Call &call) {
  require_gates(call, "workspace", "cx", 4);
  const TensorMeta cx = call.tensor("cx");
  const DType dtype = call.tensor("workspace").dtype;
  const std::vector<Term> gates = parts_of(wide(builder, call, "workspace"), 4);
  const Term &in = gates[0], &keep = gates[1], &cell = gates[2], &out = gates[3];
  const Term curve = tanh(wide(builder, call, "cy"));
  const Term hidden = or_zeros(builder, call, "grad_hy", cx);
  const Term state = hidden * out * tanh_slope(curve) + or_zeros(builder, call, "grad_cy", cx);
  LstmGradients result;
  result.gates = joined({state * cell * sigmoid_slope(in),
                         state * wide(builder, call, "cx") * sigmoid_slope(keep),
                         state * in * tanh_slope(cell), hidden * curve * sigmoid_slope(out)},
                        dtype);
  result.state = (state * keep).as(cx.dtype);
  if (call.boolean("has_bias"))
    result.bias = sum(Term(builder, result.gates).wide(), {0}, false).as(dtype);
  return result;
}

/// (hidden state, workspace): reset, update, new, the old state, the new gate's hidden part.
Argument gru_cell(GraphBuilder &builder, const Call &call) {
  require_gates(call, "input_gates", "hx", 3);
  const DType dtype = call.tensor("input_gates").dtype;
  const std::vector<Term> x = parts_of(with_bias(builder, call, "input_gates", "input_bias"), 3);
  const std::vector<Term> h = parts_of(with_bias(builder, call, "hidden_gates", "hidden_bias"), 3);
  const Term reset = sigmoid(x[0] + h[0]), update = sigmoid(x[1] + h[1]);
  const Term fresh = tanh(x[2] + reset * h[2]), old = wide(builder, call, "hx");
  return Arguments{(fresh + update * (old - fresh)).as(dtype),
                   joined({reset, update, fresh, old, h[2]}, dtype)};
}

/// (of the input's gates, of the hidden ones, of the state, of both biases).
Argument of_gru_cell(GraphBuilder &builder, const Call &call) {
  require_gates(call, "workspace", "grad_hy", 5);
  const DType dtype = call.tensor("workspace").dtype;
  const std::vector<Term> saved = parts_of(wide(builder, call, "workspace"), 5);
  const Term &reset = saved[0], &update = saved[1], &fresh = saved[2], &old = saved[3];
  const Term above = wide(builder, call, "grad_hy");
  const Term of_fresh = above * (1.0 - update) * tanh_slope(fresh);
  const Term of_update = above * (old - fresh) * sigmoid_slope(update);
  const Term of_reset = of_fresh * saved[4] * sigmoid_slope(reset);
  const Argument input = joined({of_reset, of_update, of_fresh}, dtype);
  const Argument hidden = joined({of_reset, of_update, of_fresh * reset}, dtype);
  Argument input_bias, hidden_bias;
  if (call.boolean("has_bias")) {
    input_bias = sum(Term(builder, input).wide(), {0}, false).as(dtype);
    hidden_bias = sum(Term(builder, hidden).wide(), {0}, false).as(dtype);
  }
  return Arguments{input, hidden, (above * update).as(call.tensor("grad_hy").dtype), input_bias,
                   hidden_bias};
}

} // namespace

void add_recurrent_gradients(Table &table) {
  const std::string gates = "_cell(Tensor input_gates, Tensor hidden_gates, ",
                    biases = ", Tensor? input_bias=None, Tensor? hidden_bias=None) -> ",
                    five = "(Tensor, Tensor, Tensor, Tensor, Tensor)";
  const std::string lstm = "(Tensor? grad_hy, Tensor? grad_cy, Tensor cx, Tensor cy, Tensor "
                           "workspace, bool has_bias) -> ";
  table
      .add(
          keep_text("_thnn_fused_lstm" + gates + "Tensor cx" + biases + "(Tensor, Tensor, Tensor)"))
      .decompose(lstm_cell);
  table.add(keep_text("_thnn_fused_lstm_cell_backward" + lstm + five))
      .decompose([](GraphBuilder &builder, const Call &call) {
        const LstmGradients own = of_lstm_cell(builder, call);
        return Arguments{own.gates, own.gates, own.state, own.bias, own.bias};
      });
  table.add(keep_text("_thnn_fused_lstm_cell_backward_impl" + lstm + "(Tensor, Tensor, Tensor)"))
      .decompose([](GraphBuilder &builder, const Call &call) {
        const LstmGradients own = of_lstm_cell(builder, call);
        return Arguments{own.gates, own.state, own.bias};
      });
  table.add(keep_text("_thnn_fused_gru" + gates + "Tensor hx" + biases + "(Tensor, Tensor)"))
      .decompose(gru_cell);
  table
      .add(keep_text("_thnn_fused_gru_cell_backward(Tensor grad_hy, Tensor workspace, bool "
                     "has_bias) -> " +
                     five))
      .decompose(of_gru_cell);
}

} // namespace tsc::ops
