// Recurrent layers. The input's part of the gates is one product over the whole sequence. What is
// left is one kernel over all steps (tsc.recurrent_steps, tsc.lstm_steps) on a GPU, and where the
// length is a symbol; else steps are written out, one product with the state and elementwise work.
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

namespace tsc::ops {
namespace {

enum class Cell : uint8_t { lstm, gru, tanh, relu };

/// One direction of one layer. Biases and the projection are None where the layer has none.
struct Weights {
  Argument input, hidden, input_bias = graph::None{}, hidden_bias = graph::None{};
  Argument projection = graph::None{};
};

/// What a step hands on: h in the layer's dtype, the cell c in f32 or wider (LSTM only).
struct State {
  Argument hidden, cell;
};

Argument transposed(GraphBuilder &builder, const Argument &matrix) {
  return builder.call("aten.permute.default", {matrix, Arguments{1, 0}});
}

/// Part `index` of gates [rows, count * width], f32 or wider.
Argument gate(GraphBuilder &builder, const Argument &gates, int64_t index, int64_t count) {
  Expr width = symbolic::floor_div(builder.meta(gates).layout.sizes[1], Expr(count));
  return builder.call("aten.slice.Tensor", {gates, 1, size_argument(Expr(index) * width),
                                            size_argument(Expr(index + 1) * width)});
}

Argument product(GraphBuilder &builder, const Argument &x, const Argument &matrix,
                 const Argument &added) {
  if (added.is_none())
    return builder.call("aten.mm.default", {x, matrix});
  return builder.call("aten.addmm.default", {added, x, matrix});
}

/// i, f, g, o: c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c').
State lstm_step(GraphBuilder &builder, const Argument &gates, const State &state,
                const Argument &projection) {
  Argument wide = widen(builder, gates);
  auto sigmoid = [&](int64_t index) {
    return builder.call("aten.sigmoid.default", {gate(builder, wide, index, 4)});
  };
  Argument input = sigmoid(0);
  Argument forget = sigmoid(1);
  Argument candidate = builder.call("aten.tanh.default", {gate(builder, wide, 2, 4)});
  Argument output = sigmoid(3);
  Argument kept = builder.call(kMul, {forget, state.cell});
  Argument added = builder.call(kMul, {input, candidate});
  State next;
  next.cell = builder.call(kAdd, {kept, added});
  Argument squashed = builder.call("aten.tanh.default", {next.cell});
  Argument hidden = builder.call(kMul, {output, squashed});
  next.hidden = convert(builder, hidden, builder.meta(gates).dtype);
  if (!projection.is_none())
    next.hidden = builder.call("aten.mm.default", {next.hidden, projection});
  return next;
}

/// r, z, n: n = tanh(x_n + r h_n), h' = n + z (h - n). `recurrent` is the state's part.
State gru_step(GraphBuilder &builder, const Argument &gates, const Argument &recurrent,
               const State &state) {
  Argument x = widen(builder, gates);
  Argument h = widen(builder, recurrent);
  auto sigmoid_of_sum = [&](int64_t index) {
    Argument from_input = gate(builder, x, index, 3);
    Argument from_state = gate(builder, h, index, 3);
    Argument sum = builder.call(kAdd, {from_input, from_state});
    return builder.call("aten.sigmoid.default", {sum});
  };
  Argument reset = sigmoid_of_sum(0);
  Argument update = sigmoid_of_sum(1);
  Argument candidate_state = gate(builder, h, 2, 3);
  Argument remembered = builder.call(kMul, {reset, candidate_state});
  Argument candidate_input = gate(builder, x, 2, 3);
  Argument sum = builder.call(kAdd, {candidate_input, remembered});
  Argument candidate = builder.call("aten.tanh.default", {sum});
  Argument difference = builder.call(kSub, {widen(builder, state.hidden), candidate});
  Argument step = builder.call(kMul, {update, difference});
  Argument hidden = builder.call(kAdd, {candidate, step});
  return {convert(builder, hidden, builder.meta(gates).dtype), {}};
}

/// What a direction needs that does not depend on the step.
struct Prepared {
  Argument hidden_matrix;           // [hidden, gates]
  Argument projection, hidden_bias; // the bias of the GRU's recurrent part, else None
};

/// The gates' part that the input [rows, features] gives, with every bias that can be added there.
Argument input_part(GraphBuilder &builder, Cell cell, const Weights &weights,
                    const Argument &input) {
  Argument bias = weights.input_bias;
  if (cell != Cell::gru && !bias.is_none() && !weights.hidden_bias.is_none())
    bias = builder.call(kAdd, {bias, weights.hidden_bias});
  return product(builder, input, transposed(builder, weights.input), bias);
}

Prepared prepare(GraphBuilder &builder, Cell cell, const Weights &weights) {
  Prepared prepared;
  prepared.hidden_matrix = transposed(builder, weights.hidden);
  prepared.projection =
      weights.projection.is_none() ? weights.projection : transposed(builder, weights.projection);
  prepared.hidden_bias = cell == Cell::gru ? weights.hidden_bias : Argument(graph::None{});
  return prepared;
}

State step(GraphBuilder &builder, Cell cell, const Prepared &prepared, const Argument &from_input,
           const State &state) {
  if (cell == Cell::gru) {
    Argument recurrent =
        product(builder, state.hidden, prepared.hidden_matrix, prepared.hidden_bias);
    return gru_step(builder, from_input, recurrent, state);
  }
  Argument gates = product(builder, state.hidden, prepared.hidden_matrix, from_input);
  if (cell == Cell::lstm)
    return lstm_step(builder, gates, state, prepared.projection);
  return {builder.call(cell == Cell::tanh ? "aten.tanh.default" : "aten.relu.default", {gates}),
          {}};
}

/// The layer as its call describes it: input [length, batch, features] whatever batch_first says.
struct Layer {
  Cell cell;
  Argument input;
  Expr length, batch;
  int64_t directions, count; // of the states: count layers of so many directions
  bool has_biases, projected;
  Arguments parameters;
  Argument hidden, cells; // initial states [count * directions, batch, width]
};

size_t parameters_per_direction(const Layer &layer) {
  return 2 + (layer.has_biases ? 2 : 0) + (layer.projected ? 1 : 0);
}

void check_length(const Call &call, Expr length) {
  if (length.is_integer() && length.value() < 1)
    call.fail("TSC-O090",
              call.node().target + ": the sequence length is " + symbolic::print(length),
              "export with a sequence length of 1 or more");
}

Layer layer_of(const Call &call, Cell cell) {
  const TensorMeta &input = call.tensor("input");
  Layer layer;
  layer.cell = cell;
  layer.directions = call.boolean("bidirectional") ? 2 : 1;
  layer.count = call.integer("num_layers");
  layer.has_biases = call.boolean("has_biases");
  if (input.layout.rank() != 3)
    call.fail("TSC-O090",
              call.node().target + ": the input has " + std::to_string(input.layout.rank()) +
                  " dimensions",
              "pass [length, batch, features], or [batch, length, features] with batch_first");
  bool batch_first = call.boolean("batch_first");
  layer.length = input.layout.sizes[batch_first ? 1 : 0];
  layer.batch = input.layout.sizes[batch_first ? 0 : 1];
  check_length(call, layer.length);
  if (call.boolean("train") && call.number("dropout") != 0 && layer.count > 1)
    call.fail("TSC-O032", call.node().target + " in training mode draws random numbers",
              "call model.eval() before exporting");
  const Arguments *parameters = call["params"].list();
  layer.parameters = parameters ? *parameters : Arguments{};
  const Arguments *states = call["hx"].list();
  if (cell == Cell::lstm && (!states || states->size() != 2))
    call.fail("TSC-O090", call.node().target + " takes two initial states", "pass (h_0, c_0)");
  layer.hidden = states ? (*states)[0] : call["hx"];
  if (cell == Cell::lstm)
    layer.cells = (*states)[1];
  size_t cells = static_cast<size_t>(layer.count * layer.directions);
  layer.projected =
      cell == Cell::lstm && layer.parameters.size() == cells * (layer.has_biases ? 5 : 3);
  if (layer.parameters.size() != cells * parameters_per_direction(layer))
    call.fail("TSC-O090",
              call.node().target + ": " + std::to_string(layer.parameters.size()) +
                  " parameters for " + std::to_string(layer.count) + " layers of " +
                  std::to_string(layer.directions) + " directions",
              "pass weights, and biases if has_biases says so, for every layer and direction");
  return layer;
}

Weights weights_of(const Layer &layer, int64_t index) {
  size_t width = parameters_per_direction(layer), first = static_cast<size_t>(index) * width;
  Weights weights;
  weights.input = layer.parameters[first];
  weights.hidden = layer.parameters[first + 1];
  if (layer.has_biases) {
    weights.input_bias = layer.parameters[first + 2];
    weights.hidden_bias = layer.parameters[first + 3];
  }
  if (layer.projected)
    weights.projection = layer.parameters[first + width - 1];
  return weights;
}

struct Direction {
  Argument outputs; // [length, batch, width]
  State last;
};

/// Steps that are written out on a GPU, too: as many products fuse with their neighbours.
constexpr int64_t kFewSteps = 3;

/// Whether one kernel does all steps.
bool has_kernel(const GraphBuilder &builder, const Call &call, const Layer &layer) {
  const bool is_symbol = !layer.length.is_integer();
  const Value *weights = call.value_of(layer.parameters[1]);
  const bool is_wide_by_symbol = weights != nullptr && weights->tensor() != nullptr &&
                                 !weights->tensor()->layout.sizes.back().is_integer();
  if (is_wide_by_symbol) {
    if (is_symbol)
      call.refuse("TSC-O090",
                  call.node().target +
                      ": a layer whose width is a symbol over a sequence whose length is " +
                      symbolic::print(layer.length),
                  "export with a sequence length or a width that is a number");
    return false;
  }
  return is_symbol || (builder.facilities().product_kernels && layer.length.value() > kFewSteps);
}

/// A projected LSTM as one without: with m the state before its projection R, h = R m and U h =
/// (U R) m, so that steps need U R alone and all their outputs are one product behind them. What
/// h_0 gives is added to the first step's part.
struct Unprojected {
  Argument parts, weights, hidden;
};

Unprojected without_projection(GraphBuilder &builder, const Weights &weights, const Argument &parts,
                               const State &state, bool batch_first, bool backwards) {
  const int64_t steps = batch_first ? 1 : 0, first = backwards ? -1 : 0;
  const Argument part = builder.call("aten.select.int", {parts, steps, first});
  const Argument begun = product(builder, state.hidden, transposed(builder, weights.hidden), part);
  const TensorMeta of_part = builder.meta(part);
  const Expr width = builder.meta(weights.projection).layout.sizes[1];
  Unprojected result;
  result.parts = builder.call("aten.select_scatter.default", {parts, begun, steps, first});
  result.weights = builder.call("aten.mm.default", {weights.hidden, weights.projection});
  result.hidden =
      builder.call("aten.full.default", {sizes_argument({of_part.layout.sizes[0], width}), 0},
                   {{"dtype", of_part.dtype}, {"device", of_part.device}});
  return result;
}

/// Each output of `m` [.., .., width] times the projection.
Argument projected(GraphBuilder &builder, const Argument &m, const Argument &projection) {
  const std::vector<Expr> sizes = builder.meta(m).layout.sizes;
  const Argument rows =
      builder.call("aten.reshape.default", {m, sizes_argument({sizes[0] * sizes[1], sizes[2]})});
  const Argument outputs = builder.call("aten.mm.default", {rows, transposed(builder, projection)});
  const Expr width = builder.meta(projection).layout.sizes[0];
  return builder.call("aten.view.default", {outputs, sizes_argument({sizes[0], sizes[1], width})});
}

/// All steps of a direction by one kernel. `parts` and the outputs have batches first or last.
Direction run_in_kernel(GraphBuilder &builder, const Layer &layer, Weights weights, Argument parts,
                        State state, bool batch_first, bool backwards) {
  const Prepared prepared = prepare(builder, layer.cell, weights);
  if (layer.projected) {
    const Unprojected plain =
        without_projection(builder, weights, parts, state, batch_first, backwards);
    parts = plain.parts;
    weights.hidden = plain.weights;
    state.hidden = plain.hidden;
  }
  Direction result;
  if (layer.cell == Cell::lstm) {
    const Argument both =
        builder.call("tsc.lstm_steps.default",
                     {parts, weights.hidden, state.hidden, state.cell, batch_first, backwards});
    result.outputs = builder.item(both, 0);
    result.last.cell = builder.item(both, 1);
    if (layer.projected)
      result.outputs = projected(builder, result.outputs, weights.projection);
  } else {
    result.outputs = builder.call("tsc.recurrent_steps.default",
                                  {parts, weights.hidden, prepared.hidden_bias, state.hidden,
                                   static_cast<int64_t>(layer.cell), batch_first, backwards});
  }
  result.last.hidden =
      builder.call("aten.select.int", {result.outputs, batch_first ? 1 : 0, backwards ? 0 : -1});
  return result;
}

/// One direction of one layer; `index` counts directions over the layers. `batch_first`: of input
/// and outputs, where one kernel does all steps.
Direction run_direction(GraphBuilder &builder, const Layer &layer, const Argument &input,
                        int64_t index, bool backwards, bool in_kernel, bool batch_first) {
  Weights weights = weights_of(layer, index);
  Expr features = builder.meta(input).layout.sizes[2];
  Argument rows = builder.call("aten.reshape.default",
                               {input, sizes_argument({layer.length * layer.batch, features})});
  Argument parts = input_part(builder, layer.cell, weights, rows);
  Expr width = builder.meta(parts).layout.sizes[1];
  parts = builder.call(
      "aten.view.default",
      {parts, sizes_argument(batch_first ? std::vector<Expr>{layer.batch, layer.length, width}
                                         : std::vector<Expr>{layer.length, layer.batch, width})});
  State state;
  state.hidden = builder.call("aten.select.int", {layer.hidden, 0, index});
  if (layer.cell == Cell::lstm)
    state.cell = widen(builder, builder.call("aten.select.int", {layer.cells, 0, index}));
  if (in_kernel)
    return run_in_kernel(builder, layer, weights, parts, state, batch_first, backwards);
  Prepared prepared = prepare(builder, layer.cell, weights);
  int64_t length = layer.length.value();
  Arguments outputs(static_cast<size_t>(length));
  for (int64_t i = 0; i < length; ++i) {
    int64_t at = backwards ? length - 1 - i : i;
    Argument part = builder.call("aten.select.int", {parts, 0, at});
    state = step(builder, layer.cell, prepared, part, state);
    outputs[static_cast<size_t>(at)] = state.hidden;
  }
  Direction result;
  result.outputs = builder.call("aten.stack.default", {outputs, 0});
  result.last = state;
  return result;
}

const TensorMeta &state_meta(const Call &call, const Argument &state) {
  const Value *value = call.value_of(state);
  if (!value || !value->tensor())
    call.fail("TSC-O090", call.node().target + ": an initial state is not a tensor",
              "pass tensors as initial states");
  return *value->tensor();
}

Value layer_value(const Call &call, Cell cell) {
  Layer layer = layer_of(call, cell);
  const TensorMeta &input = call.tensor("input");
  const TensorMeta &hidden = state_meta(call, layer.hidden);
  if (hidden.layout.rank() != 3)
    call.fail("TSC-O090",
              call.node().target + ": an initial state has " +
                  std::to_string(hidden.layout.rank()) + " dimensions",
              "pass [layers * directions, batch, width]");
  Expr width = hidden.layout.sizes.back();
  std::vector<Expr> sizes = {layer.length, layer.batch, Expr(layer.directions) * width};
  std::vector<Expr> strides = tensor::contiguous_strides(sizes);
  if (call.boolean("batch_first")) {
    std::swap(sizes[0], sizes[1]);
    std::swap(strides[0], strides[1]);
  }
  const Value output = tensor_value(input.dtype, sizes, strides, input.device);
  const Value state = contiguous_value(input.dtype, hidden.layout.sizes, input.device);
  if (cell != Cell::lstm)
    return Value{Value::List{output, state}};
  const std::vector<Expr> &cells = state_meta(call, layer.cells).layout.sizes;
  return Value{Value::List{output, state, contiguous_value(input.dtype, cells, input.device)}};
}

/// (output, h_n[, c_n])
Argument run_layers(GraphBuilder &builder, const Call &call, Cell cell) {
  Layer layer = layer_of(call, cell);
  DType dtype = call.tensor("input").dtype;
  const bool in_kernel = has_kernel(builder, call, layer),
             batch_first = call.boolean("batch_first"), turns = batch_first && !in_kernel;
  Argument x = call["input"];
  if (turns)
    x = builder.call("aten.permute.default", {x, Arguments{1, 0, 2}});
  Arguments hidden, cells;
  for (int64_t i = 0; i < layer.count; ++i) {
    Arguments outputs;
    for (int64_t j = 0; j < layer.directions; ++j) {
      Direction direction = run_direction(builder, layer, x, i * layer.directions + j, j == 1,
                                          in_kernel, batch_first && in_kernel);
      outputs.push_back(direction.outputs);
      hidden.push_back(direction.last.hidden);
      if (cell == Cell::lstm)
        cells.push_back(convert(builder, direction.last.cell, dtype));
    }
    x = outputs.size() == 1 ? outputs[0] : builder.call("aten.cat.default", {outputs, 2});
  }
  if (turns)
    x = builder.call("aten.permute.default", {x, Arguments{1, 0, 2}});
  Arguments results{x, builder.call("aten.stack.default", {hidden, 0})};
  if (cell == Cell::lstm)
    results.push_back(builder.call("aten.stack.default", {cells, 0}));
  return results;
}

Argument refuse_packed(GraphBuilder &, const Call &call) {
  call.refuse("TSC-O091", call.node().target + ": packed sequences are not supported",
              "pass a padded tensor instead of a PackedSequence");
}

/// A single step on [batch, features] or [features].
Argument single_step(GraphBuilder &builder, const Call &call, Cell cell) {
  Weights weights;
  weights.input = call["w_ih"];
  weights.hidden = call["w_hh"];
  weights.input_bias = call["b_ih"];
  weights.hidden_bias = call["b_hh"];
  bool unbatched = call.tensor("input").layout.rank() == 1;
  auto rows = [&](const Argument &x) {
    return unbatched ? builder.call("aten.unsqueeze.default", {x, 0}) : x;
  };
  auto unrows = [&](const Argument &x) {
    return unbatched ? builder.call("aten.squeeze.dims", {x, Arguments{0}}) : x;
  };
  const Arguments *states = call["hx"].list();
  State state;
  state.hidden = rows(states ? states->at(0) : call["hx"]);
  if (cell == Cell::lstm)
    state.cell = widen(builder, rows(states ? states->at(1) : call["hx"]));
  Argument part = input_part(builder, cell, weights, rows(call["input"]));
  State next = step(builder, cell, prepare(builder, cell, weights), part, state);
  if (cell != Cell::lstm)
    return unrows(next.hidden);
  Argument hidden = unrows(next.hidden);
  Argument cells = unrows(convert(builder, next.cell, call.tensor("input").dtype));
  return Arguments{hidden, cells};
}

void add_layer(Table &table, std::string_view name, Cell cell) {
  std::string text(name), states = cell == Cell::lstm ? "Tensor[] hx" : "Tensor hx";
  std::string results = cell == Cell::lstm ? "(Tensor, Tensor, Tensor)" : "(Tensor, Tensor)";
  std::string rest = states + ", Tensor[] params, bool has_biases, int num_layers, float dropout, "
                              "bool train, bool bidirectional";
  table.add(keep_text(text + ".input(Tensor input, " + rest + ", bool batch_first) -> " + results))
      .shape([cell](const Call &call) { return layer_value(call, cell); })
      .decompose([cell](GraphBuilder &builder, const Call &call) {
        return run_layers(builder, call, cell);
      });
  table.add(keep_text(text + ".data(Tensor data, Tensor batch_sizes, " + rest + ") -> " + results))
      .decompose(refuse_packed);
}

void add_cell(Table &table, std::string_view name, Cell cell) {
  bool lstm = cell == Cell::lstm;
  table
      .add(keep_text(std::string(name) + "(Tensor input, " + (lstm ? "Tensor[] hx" : "Tensor hx") +
                     ", Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> " +
                     (lstm ? "(Tensor, Tensor)" : "Tensor")))
      .decompose([cell](GraphBuilder &builder, const Call &call) {
        return single_step(builder, call, cell);
      });
}

/// The outputs of all steps: of `parts` [length, batch, gates * width], or the first two swapped.
Value steps_value(const Call &call) {
  const TensorMeta &parts = call.tensor("parts");
  std::vector<Expr> sizes = parts.layout.sizes;
  sizes.back() = call.tensor("weights").layout.sizes[1];
  return contiguous_value(parts.dtype, sizes, parts.device);
}

void add_steps(Table &table) {
  table
      .add("tsc::recurrent_steps(Tensor parts, Tensor weights, Tensor? bias, Tensor hidden, int "
           "cell, bool batch_first, bool backwards) -> Tensor")
      .shape(steps_value)
      .lowers("recurrent_steps");
  table
      .add("tsc::lstm_steps(Tensor parts, Tensor weights, Tensor hidden, Tensor cells, bool "
           "batch_first, bool backwards) -> (Tensor outputs, Tensor last)")
      .shape([](const Call &call) {
        const TensorMeta &cells = call.tensor("cells");
        return Value{Value::List{steps_value(call),
                                 contiguous_value(cells.dtype, cells.layout.sizes, cells.device)}};
      })
      .lowers("recurrent_steps");
}

/// What PyTorch decomposes an LSTM into on a CPU: one direction of one layer, for inference.
Layer direction_alone(const Call &call) {
  constexpr int64_t kLstm = 2; // oneDNN's number
  if (const Arguments *batches = call["batch_sizes"].list(); batches && !batches->empty())
    call.refuse("TSC-O091", call.node().target + ": packed sequences are not supported",
                "pass a padded tensor instead of a PackedSequence");
  if (call.integer("mode") != kLstm || call.integer("num_layers") != 1 ||
      call.boolean("bidirectional") || call.boolean("batch_first") || call.boolean("train"))
    call.refuse("TSC-O090", call.node().target + " of another form than decomposed LSTMs have",
                "give the graph from before PyTorch's passes, as torch.export saves it");
  const tensor::Layout &input = call.tensor("input").layout;
  if (input.rank() != 3)
    call.fail("TSC-O090",
              call.node().target + ": the input has " + std::to_string(input.rank()) +
                  " dimensions",
              "pass [length, batch, features]");
  check_length(call, input.sizes[0]);
  Layer layer;
  layer.cell = Cell::lstm;
  layer.input = call["input"];
  layer.length = input.sizes[0];
  layer.batch = input.sizes[1];
  layer.directions = layer.count = 1;
  layer.has_biases = call.boolean("has_biases");
  layer.projected = false;
  layer.parameters = {call["weight0"], call["weight1"]};
  if (layer.has_biases)
    layer.parameters.insert(layer.parameters.end(), {call["weight2"], call["weight3"]});
  layer.hidden = call["hx_"];
  layer.cells = call["cx_"];
  return layer;
}

void add_direction(Table &table) {
  table
      .add("mkldnn_rnn_layer(Tensor input, Tensor weight0, Tensor weight1, Tensor weight2, Tensor "
           "weight3, Tensor hx_, Tensor cx_, bool reverse, int[] batch_sizes, int mode, int "
           "hidden_size, int num_layers, bool has_biases, bool bidirectional, bool batch_first, "
           "bool train) -> (Tensor, Tensor, Tensor, Tensor)")
      .shape([](const Call &call) {
        const Layer layer = direction_alone(call);
        const TensorMeta &input = call.tensor("input");
        const std::vector<Expr> &state = call.tensor("hx_").layout.sizes;
        const std::vector<Expr> output = {layer.length, layer.batch, state.back()};
        return Value{Value::List{
            contiguous_value(input.dtype, output, input.device),
            contiguous_value(input.dtype, state, input.device),
            contiguous_value(input.dtype, call.tensor("cx_").layout.sizes, input.device),
            contiguous_value(DType::u8, {Expr(0)}, input.device)}}; // a workspace of training
      })
      .decompose([](GraphBuilder &builder, const Call &call) -> Argument {
        const Layer layer = direction_alone(call);
        const TensorMeta &input = call.tensor("input");
        const Direction direction =
            run_direction(builder, layer, layer.input, 0, call.boolean("reverse"),
                          has_kernel(builder, call, layer), false);
        const Argument cell = convert(builder, direction.last.cell, input.dtype);
        return Arguments{direction.outputs,
                         builder.call("aten.unsqueeze.default", {direction.last.hidden, 0}),
                         builder.call("aten.unsqueeze.default", {cell, 0}),
                         builder.call("aten.full.default", {Arguments{0}, 0},
                                      {{"dtype", DType::u8}, {"device", input.device}})};
      });
}

} // namespace

void add_recurrent(Table &table) {
  add_layer(table, "lstm", Cell::lstm);
  add_layer(table, "gru", Cell::gru);
  add_layer(table, "rnn_tanh", Cell::tanh);
  add_layer(table, "rnn_relu", Cell::relu);
  add_direction(table);
  add_steps(table);
  add_cell(table, "lstm_cell", Cell::lstm);
  add_cell(table, "gru_cell", Cell::gru);
  add_cell(table, "rnn_tanh_cell", Cell::tanh);
  add_cell(table, "rnn_relu_cell", Cell::relu);
}

} // namespace tsc::ops
