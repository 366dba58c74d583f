// Communication between ranks, and the operators that FSDP2 puts around it: copies into and out of
// gathered memory, storage that is set and freed. Their schemas are PyTorch's; all of them work in
// place and in order.
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <algorithm>
#include <array>

namespace tsc::ops {
namespace {

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

/// More ranks than any machine has: each has copies of its own in the program.
constexpr int64_t kMostRanks = 1 << 16;

/// The number of ranks that an argument names.
int64_t rank_count(const Call &call, std::string_view parameter) {
  const int64_t size = call.integer(parameter);
  if (size < 1 || size > kMostRanks)
    call.fail("TSC-O110", "a group of " + std::to_string(size) + " ranks",
              "give the number of ranks of the group, 1 to " + std::to_string(kMostRanks));
  return size;
}

/// Copies for each rank are made when compiling.
void require_number(const Call &call, Expr size) {
  if (!size.is_integer())
    call.refuse("TSC-O121", "the size " + symbolic::print(size) + " is cut among ranks",
                "make it static when exporting");
}

Expr numel(const TensorMeta &meta) { return symbolic::numel(meta.layout.sizes); }

void require_equal(const Call &call, Expr given, Expr expected, const std::string &what) {
  if (!same_size(given, expected, call.ranges()))
    call.fail("TSC-O111",
              what + " has " + symbolic::print(given) + " elements, " + symbolic::print(expected) +
                  " are needed",
              "the memory that a collective or a copy around it works on fits exactly");
}

void require_dtype(const Call &call, DType given, DType expected, const std::string &what) {
  if (given != expected)
    call.refuse("TSC-O112",
                what + " is " + std::string(tensor::torch_name(given)) +
                    ", the memory it meets is " + std::string(tensor::torch_name(expected)),
                "convert it before: collectives and the copies around them convert nothing");
}

/// The concatenated shards of this rank, and memory for those of all ranks.
Value copy_in_value(const Call &call) {
  const std::vector<TensorMeta> inputs = call.tensors("all_gather_inputs");
  const std::vector<Expr> splits = call.sizes("inp_split_sizes");
  const Expr count = call.size("all_gather_input_numel");
  const DType dtype = *call.dtype("dtype");
  if (splits.size() != inputs.size())
    call.fail("TSC-O113",
              std::to_string(inputs.size()) + " tensors for " + std::to_string(splits.size()) +
                  " sizes",
              "give one size a tensor");
  Expr sum(0);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string what = "tensor " + std::to_string(i);
    require_equal(call, numel(inputs[i]), splits[i], what);
    require_dtype(call, inputs[i].dtype, dtype, what);
    sum += splits[i];
  }
  require_equal(call, sum, count, "the input of the all-gather");
  const Expr ranks(rank_count(call, "world_size"));
  const tensor::Device device = device_argument(call, {});
  Value::List values;
  values.push_back(contiguous_value(dtype, {count}, device));
  values.push_back(contiguous_value(dtype, {count * ranks}, device));
  Value result;
  result.value = std::move(values);
  return result;
}

/// Rows of `all_gather_output`, a rank each, cut into the columns that belong to one tensor.
Value copy_out_value(const Call &call) {
  const TensorMeta whole = call.tensor("all_gather_output");
  const std::vector<TensorMeta> outs = call.tensors("out");
  const std::vector<Expr> splits = call.sizes("all_gather_input_split_sizes");
  if (whole.layout.rank() != 2 || normalize_dim(call, call.integer("dim"), 2) != 1)
    call.refuse("TSC-O114", "the gathered memory is not cut along the second of two dimensions",
                "view it as [ranks, elements of a rank] and split dimension 1, as FSDP2 does");
  require_number(call, whole.layout.sizes[0]);
  if (splits.size() != outs.size())
    call.fail("TSC-O113",
              std::to_string(outs.size()) + " tensors for " + std::to_string(splits.size()) +
                  " sizes",
              "give one size a tensor");
  Expr sum(0);
  for (size_t i = 0; i < outs.size(); ++i) {
    const std::string what = "out " + std::to_string(i);
    require_equal(call, numel(outs[i]), splits[i] * whole.layout.sizes[0], what);
    require_dtype(call, outs[i].dtype, whole.dtype, what);
    sum += splits[i];
  }
  require_equal(call, whole.layout.sizes[1], sum, "a row of the gathered memory");
  return Value{};
}

/// Row r of `out` is chunk r of every tensor, one after the other, each filled up with zeros.
Value chunk_cat_value(const Call &call) {
  const TensorMeta out = call.tensor("out");
  const int64_t chunks = call.integer("num_chunks"), dim = call.integer("dim");
  if (chunks < 1 || chunks > kMostRanks || dim != 0)
    call.refuse("TSC-O115",
                "chunk_cat into " + std::to_string(chunks) + " chunks along dimension " +
                    std::to_string(dim),
                "cut along dimension 0 into at least one chunk, as FSDP2 does");
  Expr row(0);
  for (const TensorMeta &tensor : call.tensors("tensors")) {
    if (tensor.layout.rank() == 0)
      call.fail("TSC-O116", "a tensor without dimensions has no chunks", "give it one dimension");
    require_number(call, tensor.layout.sizes[0]);
    require_dtype(call, tensor.dtype, out.dtype, "a tensor");
    std::vector<Expr> sizes = tensor.layout.sizes;
    sizes[0] = symbolic::ceil_div(sizes[0], Expr(chunks));
    row += symbolic::numel(sizes);
  }
  require_equal(call, numel(out), row * Expr(chunks), "out");
  return Value{};
}

Value set_value(const Call &call) {
  const TensorMeta tensor = call.tensor("tensor"), data = call.tensor("data");
  require_equal(call, numel(data), numel(tensor), "data");
  require_dtype(call, data.dtype, tensor.dtype, "data");
  return Value{};
}

Value all_gather_value(const Call &call) {
  const TensorMeta input = call.tensor("input"), out = call.tensor("out");
  require_equal(call, numel(out), numel(input) * Expr(rank_count(call, "group_size")), "out");
  require_dtype(call, input.dtype, out.dtype, "the input");
  return *call.value_of(call["out"]);
}

Value reduce_scatter_value(const Call &call) {
  constexpr std::array<std::string_view, 3> kReductions = {"sum", "avg", "max"};
  const TensorMeta input = call.tensor("input");
  const std::string operation = call.string("reduce_op").value_or("");
  if (std::find(kReductions.begin(), kReductions.end(), operation) == kReductions.end())
    call.refuse("TSC-O117", "the reduction " + quoted(operation) + " is not supported",
                "reduce with 'sum', 'avg' or 'max'");
  if (operation == "avg" && !tensor::is_floating(input.dtype))
    call.refuse("TSC-O117",
                "the reduction 'avg' of " + std::string(tensor::torch_name(input.dtype)) +
                    " is not supported",
                "reduce with 'sum' and divide as you need");
  std::vector<Expr> sizes = input.layout.sizes;
  const Expr ranks(rank_count(call, "group_size"));
  if (sizes.empty() ||
      !same_size(symbolic::floor_div(sizes[0], ranks) * ranks, sizes[0], call.ranges()))
    call.fail("TSC-O118",
              "the first dimension does not divide among " + symbolic::print(ranks) + " ranks",
              "pad it: each rank gets an equal part");
  sizes[0] = symbolic::floor_div(sizes[0], ranks);
  return contiguous_value(input.dtype, std::move(sizes), input.device);
}

} // namespace

void add_collectives(Table &table) {
  const auto add = [&](std::string_view schema, ShapeRule rule, std::string_view key) {
    table.add(schema).shape(std::move(rule)).effect(Effect::ordered).lowers(key);
  };
  add("fsdp::all_gather_copy_in(Tensor[] all_gather_inputs, SymInt[] inp_split_sizes, SymInt "
      "all_gather_input_numel, SymInt world_size, SymInt rank, ScalarType dtype, Device device) -> "
      "(Tensor, Tensor)",
      copy_in_value, "gather_copy_in");
  add("fsdp::split_with_sizes_copy(Tensor all_gather_output, SymInt[] "
      "all_gather_input_split_sizes, int dim=0, *, Tensor(a!)[] out) -> ()",
      copy_out_value, "split_copy_out");
  add("fsdp::chunk_cat(Tensor[] tensors, int dim, int num_chunks, *, Tensor(a!) out) -> ()",
      chunk_cat_value, "chunk_concat");
  add("fsdp::set_(Tensor(a!) tensor, Tensor data) -> ()", set_value, "set_storage");
  add(
      "inductor::resize_storage_bytes_(Tensor(a!) variable, SymInt new_size) -> ()",
      [](const Call &) { return Value{}; }, "resize_storage");
  add("_c10d_functional::all_gather_into_tensor_out(Tensor input, int group_size, str group_name, "
      "*, Tensor(a!) out) -> Tensor(a!)",
      all_gather_value, "all_gather");
  add("_c10d_functional::reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str "
      "group_name) -> Tensor",
      reduce_scatter_value, "reduce_scatter");
  add(
      "_c10d_functional::wait_tensor(Tensor tensor) -> Tensor",
      [](const Call &call) { return *call.value_of(call["tensor"]); }, "wait");
}

} // namespace tsc::ops
