// Backward forms of what picks elements: views, gathers, selections, scans. What was not picked
// gets 0, what was picked twice the sum.
#include "ops/families/windows.h"
#include "ops/table/memory_format.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "ops/table/term.h"

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

/// Zeros of the sizes that `parameter` lists, in the dtype and on the device of `like`.
Term zeros_of(GraphBuilder &builder, const Call &call, std::string_view parameter,
              std::string_view like) {
  const TensorMeta &meta = call.tensor(like);
  return filled(builder, call.sizes(parameter), 0, meta.dtype, meta.device);
}
Term zeros_like(GraphBuilder &builder, const Call &call, std::string_view like,
                std::string_view dtype_of) {
  const TensorMeta &meta = call.tensor(like);
  return filled(builder, meta.layout.sizes, 0, call.tensor(dtype_of).dtype, meta.device);
}

/// `scatter` of what comes from above into zeros, with the call's arguments behind the sizes.
Decomposition put_into_zeros(std::string_view scatter) {
  return [scatter](GraphBuilder &builder, const Call &call) -> Argument {
    const std::vector<Parameter> &parameters = call.schema().parameters;
    Arguments rest = {call[parameters[0].name]};
    for (size_t i = 2; i < parameters.size(); ++i)
      rest.push_back(call[parameters[i].name]);
    return zeros_of(builder, call, parameters[1].name, parameters[0].name)
        .then(scatter, std::move(rest))
        .value();
  };
}

/// [.., positions, .., size] back to [.., length, ..]: the windows that reach an element, added up.
/// Other dimensions may be 1 where the result's are not, as those of istft's windows.
Argument of_unfold(GraphBuilder &builder, const Call &call) {
  const TensorMeta above = call.tensor("grad_in");
  const Sizes sizes = call.sizes("input_sizes");
  if (sizes.empty())
    return builder.call("aten.reshape.default", {call["grad_in"], Arguments{}});
  const size_t dim = normalize_dim(call, call.integer("dim"), sizes.size());
  std::vector<size_t> order, back; // the unfolded dimension before its windows
  for (size_t i = 0; i < sizes.size(); ++i)
    if (i != dim)
      order.push_back(i);
  order.push_back(dim);
  for (size_t i = 0; i < sizes.size(); ++i)
    back.push_back(i < dim ? i : i == dim ? sizes.size() - 1 : i - 1);
  std::vector<size_t> with_windows = order;
  with_windows.push_back(sizes.size());
  const Window window = {{call.size("size")}, {call.size("step")}, {Expr(0)}, {Expr(1)}};
  const Term turned = permuted(wide(builder, call, "grad_in"), with_windows);
  const Term reached(builder, covering_windows_of(builder, turned, {sizes[dim]}, window));
  const Term total = permuted(sum(reached, {sizes.size()}, false), back);
  return contiguous(builder, expanded(Term(builder, total.as(above.dtype)), sizes));
}

/// PyTorch steps through the flattened matrix and over its end: of more rows than columns, elements
/// below the diagonal get the gradient, too.
Argument of_trace(GraphBuilder &builder, const Call &call) {
  const Sizes sizes = call.sizes("sizes");
  if (sizes.size() != 2)
    call.fail("TSC-O128", call.node().target + ": " + std::to_string(sizes.size()) + " sizes",
              "pass the sizes of a matrix");
  const TensorMeta above = call.tensor("grad");
  const Term places = reshaped(counting(builder, symbolic::numel(sizes), above.device), sizes);
  const Term steps = places.then("aten.remainder.Scalar", {size_argument(sizes[1] + Expr(1))});
  return where(equal(steps, 0), call["grad"], 0).as(above.dtype);
}

/// Of one element of each row: max, min, median and their kin.
Argument of_selection(GraphBuilder &builder, const Call &call) {
  const size_t rank = call.sizes("sizes").size();
  Term above = given(builder, call, "grad"), indices = given(builder, call, "indices");
  if (!call.boolean("keepdim") && rank > 0) {
    above = above.then("aten.unsqueeze.default", {call["dim"]});
    indices = indices.then("aten.unsqueeze.default", {call["dim"]});
  }
  return zeros_of(builder, call, "sizes", "grad")
      .then("aten.scatter.src", {call["dim"], indices.value(), above.value()})
      .value();
}

Argument of_index_select(GraphBuilder &builder, const Call &call) {
  return zeros_of(builder, call, "self_sizes", "grad")
      .then("aten.index_add.default", {call["dim"], call["index"], call["grad"]})
      .value();
}

/// gather, and running extremes, whose places repeat.
Decomposition added_at(std::string_view self, std::string_view index) {
  return [self, index](GraphBuilder &builder, const Call &call) -> Argument {
    return zeros_like(builder, call, self, "grad")
        .then("aten.scatter_add.default", {call["dim"], call[index], call["grad"]})
        .value();
  };
}

Term from_the_end(const Term &x, const Argument &dim) {
  const Argument dims = Arguments{dim};
  return x.then("aten.flip.default", {dims})
      .then("aten.cumsum.default", {dim})
      .then("aten.flip.default", {dims});
}

/// Behind the first zero of a row everything is 0 but what that zero itself kept small.
Argument of_cumprod(GraphBuilder &builder, const Call &call) {
  const Term x = wide(builder, call, "input"), above = wide(builder, call, "grad"),
             product = wide(builder, call, "output");
  const DType dtype = call.tensor("grad").dtype;
  if (x.meta().layout.rank() == 0)
    return above.as(dtype);
  const Argument dim = call["dim"];
  const Term zero = equal(x, 0);
  const Term zeros = where(zero, 1, 0).then("aten.cumsum.default", {dim});
  const Term first = both(zero, equal(zeros, 1));
  const Term without = where(first, 1.0, x).then("aten.cumprod.default", {dim});
  const Term before = from_the_end(above * product, dim) / x;
  const Term at = from_the_end(above * without, dim);
  return where(equal(zeros, 0), before, where(first, at, 0.0)).as(dtype);
}

/// The elements of `grad_output` where the mask is set, in order, then zeros.
Argument of_masked_scatter(GraphBuilder &builder, const Call &call) {
  const TensorMeta above = call.tensor("grad_output");
  const Expr count = symbolic::numel(call.sizes("sizes"));
  const Sizes all = {symbolic::numel(above.layout.sizes)};
  const Term mask = reshaped(expanded(given(builder, call, "mask"), above.layout.sizes), all);
  const Term number = mask.then("aten.cumsum.default", {0}) - 1;
  const Argument beyond = size_argument(count); // a place that is cut off again
  const Term place = where(mask, number, beyond).then("aten.clamp_max.default", {beyond});
  const Term taken =
      filled(builder, {count + Expr(1)}, 0, above.dtype, above.device)
          .then("aten.scatter.src",
                {0, place.value(), reshaped(given(builder, call, "grad_output"), all).value()});
  return reshaped(taken.then("aten.slice.Tensor", {0, 0, beyond}), call.sizes("sizes")).value();
}

Argument of_masked_select(GraphBuilder &builder, const Call &call) {
  const TensorMeta &input = call.tensor("input");
  const Sizes sizes = broadcast(call, {input.layout.sizes, call.tensor("mask").layout.sizes});
  const Term spread = filled(builder, sizes, 0, call.tensor("grad").dtype, input.device)
                          .then("aten.masked_scatter.default", {call["mask"], call["grad"]});
  return spread.then("aten.sum_to_size.default", {sizes_argument(input.layout.sizes)}).value();
}

void add_picks(Table &table) {
  table
      .add("value_selecting_reduction_backward(Tensor grad, int dim, Tensor indices, SymInt[] "
           "sizes, bool keepdim) -> Tensor")
      .decompose(of_selection);
  table
      .add("index_select_backward(Tensor grad, SymInt[] self_sizes, int dim, Tensor index) -> "
           "Tensor")
      .decompose(of_index_select);
  table
      .add("gather_backward(Tensor grad, Tensor self, int dim, Tensor index, bool sparse_grad) -> "
           "Tensor")
      .decompose(added_at("self", "index"));
  table.add("cummaxmin_backward(Tensor grad, Tensor input, Tensor indices, int dim) -> Tensor")
      .decompose(added_at("input", "indices"));
  table.add("cumprod_backward(Tensor grad, Tensor input, int dim, Tensor output) -> Tensor")
      .decompose(of_cumprod);
  table.add("masked_scatter_backward(Tensor grad_output, Tensor mask, SymInt[] sizes) -> Tensor")
      .decompose(of_masked_scatter);
  table.add("masked_select_backward(Tensor grad, Tensor input, Tensor mask) -> Tensor")
      .decompose(of_masked_select);
  table
      .add("embedding_backward(Tensor grad, Tensor indices, SymInt num_weights, SymInt "
           "padding_idx, bool scale_grad_by_freq, bool sparse) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        if (call.boolean("sparse"))
          call.refuse("TSC-O005", call.node().target + " with a sparse gradient is not supported",
                      "use an embedding with sparse=False");
        return builder.call("aten.embedding_dense_backward.default",
                            {call["grad"], call["indices"], call["num_weights"],
                             call["padding_idx"], call["scale_grad_by_freq"]});
      });
}

} // namespace

void add_view_gradients(Table &table) {
  table
      .add("select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> "
           "Tensor")
      .decompose(put_into_zeros("aten.select_scatter.default"));
  table
      .add("slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt "
           "end, SymInt step) -> Tensor")
      .decompose(put_into_zeros("aten.slice_scatter.default"));
  table
      .add("diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int "
           "dim2) -> Tensor")
      .decompose(put_into_zeros("aten.diagonal_scatter.default"));
  table
      .add("unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> "
           "Tensor")
      .decompose(of_unfold);
  table.add("trace_backward(Tensor grad, SymInt[] sizes) -> Tensor").decompose(of_trace);
  add_picks(table);
}

} // namespace tsc::ops
