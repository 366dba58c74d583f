// Communication between ranks, and the operators that FSDP2 puts around it: copies into and out of
// gathered memory, storage that is set and freed. Their schemas are PyTorch's; all of them work in
// place and in order.
#include "ops/table/builder.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "support/text.h"
#include "tensor/rank_reductions.h"

#include <algorithm>

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

Value gather_into_value(const Call &call) {
  const TensorMeta input = call.tensor("input"), out = call.tensor("out");
  require_equal(call, numel(out), numel(input) * Expr(rank_count(call, "group_size")), "out");
  require_dtype(call, input.dtype, out.dtype, "the input");
  return *call.value_of(call["out"]);
}

/// Every rank's tensor, one after the other along the first dimension.
Value all_gather_value(const Call &call) {
  const TensorMeta input = call.tensor("input");
  const Expr ranks(rank_count(call, "group_size"));
  std::vector<Expr> sizes = input.layout.sizes;
  if (sizes.empty())
    sizes = {Expr(1)};
  sizes[0] = sizes[0] * ranks;
  return contiguous_value(input.dtype, std::move(sizes), input.device);
}

void require_reduction(const Call &call, DType dtype) {
  const std::string operation = call.string("reduce_op").value_or("");
  const std::vector<std::string> names(tensor::kRankReductions.begin(),
                                       tensor::kRankReductions.end());
  if (std::find(names.begin(), names.end(), operation) == names.end())
    call.refuse("TSC-O117", "the reduction " + quoted(operation) + " is not supported",
                "reduce with one of " + support::join(names, ", "));
  const bool is_bitwise = operation[0] == 'b';
  if (is_bitwise ? tensor::is_floating(dtype) : operation == "avg" && !tensor::is_floating(dtype))
    call.refuse("TSC-O117",
                "the reduction " + quoted(operation) + " of " +
                    std::string(tensor::torch_name(dtype)) + " is not supported",
                is_bitwise ? "reduce integers bit by bit"
                           : "reduce with 'sum' and divide as you need");
}

std::vector<Expr> scattered_sizes(const Call &call, const TensorMeta &input) {
  std::vector<Expr> sizes = input.layout.sizes;
  const Expr ranks(rank_count(call, "group_size"));
  if (sizes.empty() ||
      !same_size(symbolic::floor_div(sizes[0], ranks) * ranks, sizes[0], call.ranges()))
    call.fail("TSC-O118",
              "the first dimension does not divide among " + symbolic::print(ranks) + " ranks",
              "pad it: each rank gets an equal part");
  sizes[0] = symbolic::floor_div(sizes[0], ranks);
  return sizes;
}

Value reduce_scatter_value(const Call &call) {
  const TensorMeta input = call.tensor("input");
  require_reduction(call, input.dtype);
  return contiguous_value(input.dtype, scattered_sizes(call, input), input.device);
}

Value reduce_scatter_into_value(const Call &call) {
  const TensorMeta input = call.tensor("input"), out = call.tensor("out");
  require_reduction(call, input.dtype);
  require_equal(call, numel(out), symbolic::numel(scattered_sizes(call, input)), "out");
  require_dtype(call, input.dtype, out.dtype, "the input");
  return *call.value_of(call["out"]);
}

Value as_contiguous(const Call &call) {
  const TensorMeta input = call.tensor("input");
  return contiguous_value(input.dtype, input.layout.sizes, input.device);
}
Value all_reduce_value(const Call &call) {
  require_reduction(call, call.tensor("input").dtype);
  return as_contiguous(call);
}
Value all_reduce_in_place_value(const Call &call) {
  require_reduction(call, call.tensor("input").dtype);
  return *call.value_of(call["input"]);
}

/// A rank of the group, of which nothing says here how many there are.
void require_rank(const Call &call) {
  const int64_t rank = call.integer("src");
  if (rank < 0 || rank >= kMostRanks)
    call.fail("TSC-O110", "rank " + std::to_string(rank) + " of a group",
              "ranks are numbered from 0");
}

/// Rows of the input for each rank, and rows of each rank.
Value all_to_all_value(const Call &call) {
  const TensorMeta input = call.tensor("input");
  const std::vector<Expr> sends = call.sizes("input_split_sizes");
  const std::vector<Expr> receives = call.sizes("output_split_sizes");
  if (input.layout.rank() == 0)
    call.fail("TSC-O116", "a tensor without dimensions has no parts", "give it one dimension");
  if (sends.size() != receives.size() || sends.empty())
    call.fail("TSC-O113",
              std::to_string(sends.size()) + " parts that are sent, and " +
                  std::to_string(receives.size()) + " that are received",
              "give one of each for every rank of the group");
  const auto sum = [](const std::vector<Expr> &parts) {
    Expr total(0);
    for (const Expr part : parts)
      total += part;
    return total;
  };
  if (!taken_equal(call, sum(sends), input.layout.sizes[0]))
    call.fail("TSC-O111",
              "the parts that are sent have " + symbolic::print(sum(sends)) + " rows, the input " +
                  symbolic::print(input.layout.sizes[0]),
              "send every row to one rank");
  std::vector<Expr> sizes = input.layout.sizes;
  sizes[0] = sum(receives);
  return contiguous_value(input.dtype, std::move(sizes), input.device);
}

/// One call of `target` for each tensor of the list that is the first argument.
Decomposition for_each_tensor(std::string_view target) {
  return [target](GraphBuilder &builder, const Call &call) -> graph::Argument {
    graph::Argument::List results;
    for (const graph::Argument &tensor : *call["inputs"].list()) {
      Arguments own = {tensor};
      for (size_t i = 1; i < call.schema().parameters.size(); ++i)
        own.push_back(call[call.schema().parameters[i].name]);
      results.push_back(builder.call(target, std::move(own)));
    }
    return results;
  };
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
  const std::string group = "int group_size, str group_name", functional = "_c10d_functional::";
  const std::string gather = "all_gather_into_tensor", scatter = "reduce_scatter_tensor";
  add(keep_text(functional + gather + "_out(Tensor input, " + group +
                ", *, Tensor(a!) out) -> Tensor(a!)"),
      gather_into_value, "all_gather");
  add(keep_text(functional + scatter + "_out(Tensor input, str reduce_op, " + group +
                ", *, Tensor(a!) out) -> Tensor(a!)"),
      reduce_scatter_into_value, "reduce_scatter");
  // Those that autograd sees through compute the same.
  for (const std::string &space : {functional, std::string("_c10d_functional_autograd::")}) {
    add(keep_text(space + gather + "(Tensor input, " + group + ") -> Tensor"), all_gather_value,
        "all_gather");
    add(keep_text(space + scatter + "(Tensor input, str reduce_op, " + group + ") -> Tensor"),
        reduce_scatter_value, "reduce_scatter");
    add(keep_text(space + "all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] "
                          "input_split_sizes, str group_name) -> Tensor"),
        all_to_all_value, "all_to_all");
  }
  add("_c10d_functional::all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor",
      all_reduce_value, "all_reduce");
  add("_c10d_functional::all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> "
      "Tensor(a!)",
      all_reduce_in_place_value, "all_reduce");
  add(
      "_c10d_functional::broadcast(Tensor input, int src, str group_name) -> Tensor",
      [](const Call &call) {
        require_rank(call);
        return as_contiguous(call);
      },
      "broadcast");
  add(
      "_c10d_functional::broadcast_(Tensor(a!) input, int src, str group_name) -> Tensor(a!)",
      [](const Call &call) {
        require_rank(call);
        return *call.value_of(call["input"]);
      },
      "broadcast");
  const auto add_list = [&](const std::string &schema, std::string_view target) {
    table.add(keep_text(functional + schema))
        .effect(Effect::ordered)
        .decompose(for_each_tensor(target));
  };
  add_list("all_reduce_coalesced(Tensor[] inputs, str reduce_op, str group_name) -> Tensor[]",
           "_c10d_functional.all_reduce.default");
  add_list("all_reduce_coalesced_(Tensor(a!)[] inputs, str reduce_op, str group_name) -> "
           "Tensor[]",
           "_c10d_functional.all_reduce_.default");
  add_list(gather + "_coalesced(Tensor[] inputs, " + group + ") -> Tensor[]",
           "_c10d_functional.all_gather_into_tensor.default");
  add_list(scatter + "_coalesced(Tensor[] inputs, str reduce_op, " + group + ") -> Tensor[]",
           "_c10d_functional.reduce_scatter_tensor.default");
  add(
      "_c10d_functional::wait_tensor(Tensor tensor) -> Tensor",
      [](const Call &call) { return *call.value_of(call["tensor"]); }, "wait");
}

} // namespace tsc::ops
