#include "ops/table/suggest.h"

#include "ops/table/operator.h"
#include "support/diagnostic.h"
#include "support/text.h"

namespace tsc::ops {
namespace {

constexpr std::string_view kList = "docs/operators.md lists what is supported";

struct Replacement {
  std::string_view operation; // without the overload; a prefix if it ends in a dot
  std::string_view advice;
};
constexpr std::string_view
    kNoCudnnCells = "export with torch.backends.cudnn.enabled = False, so that the graph calls "
                    "aten.lstm or aten.gru",
    kWholeAttention = "call scaled_dot_product_attention: this is the kernel behind it",
    kDense = "sparse tensors are not compiled: use dense ones, or indices and values",
    kBeforeInductor = "TorchInductor's own passes make it: give the graph from before them, as "
                      "torch.export saves it",
    kGenerators =
        "states of generators are not carried (docs/random.md): export without activation "
        "checkpointing, or with preserve_rng_state=False",
    kTriton = "bring the kernel as an operator of your own, with --operators FOLDER "
              "(docs/custom-operators.md)",
    kRanks = "of what ranks do together the gathers and reductions of FSDP are compiled "
             "(docs/collectives.md): do the others outside of the graph",
    kOneDnn = "PyTorch's passes for CPUs make it: give the graph from before them, as torch.export "
              "saves it";

/// Operators without a row of their own, and what to do without them.
constexpr Replacement kReplacements[] = {
    {"quantized.", "quantized models are not compiled: export the floating model"},
    {"aten._weight_int4pack_mm_for_cpu",
     "its weights lie in an order that the vector width of the CPU decides where they were packed, "
     "and no file says it: export with the weights as they were before packing"},
    {"aten._convert_weight_to_int4pack_for_cpu",
     "the order of its result depends on the vector width of the CPU: export with the weights as "
     "they are before packing"},
    {"aten._convert_weight_to_int4pack",
     "pack the weights before exporting: aten._weight_int4pack_mm takes them packed"},
    {"aten._weight_int4pack_mm_with_scales_and_zeros",
     "an operator of another kind of GPU: use aten._weight_int4pack_mm"},
    {"aten._dyn_quant_matmul_4bit",
     "its weights lie in an order of the library of one kind of CPU: export with the weights as "
     "they were before packing"},
    {"aten._dyn_quant_pack_4bit_weight",
     "the order of its result is that of the library of one kind of CPU: export with the weights "
     "as they are before packing"},
    {"aten._cudnn_ctc_loss",
     "export with torch.backends.cudnn.enabled = False, so that the graph calls aten._ctc_loss"},
    {"aten._use_cudnn_ctc_loss",
     "export with torch.backends.cudnn.enabled = False, so that the graph calls aten._ctc_loss"},
    {"aten._scaled_grouped_mm_v2", "use aten._scaled_grouped_mm, with one scale a row"},
    {"aten._cudnn_rnn", kNoCudnnCells},
    {"aten._cudnn_rnn_backward", kNoCudnnCells},
    {"aten._flash_attention_forward", kWholeAttention},
    {"aten._flash_attention_backward", kWholeAttention},
    {"aten._efficient_attention_forward", kWholeAttention},
    {"aten._efficient_attention_backward", kWholeAttention},
    {"aten._segment_reduce_backward", "compute the gradient with index_add or scatter_reduce"},
    {"aten._sparse_coo_tensor_with_dims_and_tensors", kDense},
    {"aten._sparse_semi_structured_mm", kDense},
    {"aten._to_sparse", kDense},
    {"aten.to_sparse", kDense},
    {"aten.set_", "make a new tensor instead: reshape, narrow, torch.empty or clone"},
    {"aten.tensor_split.tensor_indices_or_sections",
     "split by a vector of int64, which the data may hold, or by numbers"},
    {"aten._scaled_dot_product_flash_attention.quantized",
     "dequantize queries, keys and values, and call scaled_dot_product_attention"},
    {"aten._foobar", "it is there for PyTorch's own tests: leave it out"},
    {"prims._low_memory_max_pool_with_offsets", kBeforeInductor},
    {"prims._low_memory_max_pool_offsets_to_indices", kBeforeInductor},
    {"prims.inductor_seed", kBeforeInductor},
    {"prims.inductor_seeds", kBeforeInductor},
    {"prims.inductor_lookup_seed", kBeforeInductor},
    {"prims.inductor_random", kBeforeInductor},
    {"prims.inductor_randint", kBeforeInductor},
    {"prims.inductor_cvt_e8m0_rceil",
     "its rounding has no operator in ATen: compute exponents with log2 and ceil"},
    {"prims._make_token", "torch.export gives tokens of effects as inputs: export the model"},
    {"prims._sink_tokens", "torch.export gives tokens of effects as inputs: export the model"},
    {"rngprims.", kGenerators},
    {"higher_order.run_and_save_rng_state", kGenerators},
    {"higher_order.run_with_rng_state", kGenerators},
    {"higher_order.graphsafe_run_with_rng_state", kGenerators},
    {"higher_order.auto_functionalized",
     "export without run_decompositions(): calls that write are made functional here"},
    {"higher_order.auto_functionalized_v2",
     "export without run_decompositions(): calls that write are made functional here"},
    {"higher_order.control_deps", kBeforeInductor},
    {"higher_order.foreach_map", "call the function on each tensor in a loop"},
    {"higher_order.invoke_quant", "call its function directly"},
    {"higher_order.while_loop_stack_output",
     "gradients of while_loop are not compiled: use a loop over a fixed number, or scan"},
    {"higher_order.triton_kernel_wrapper_mutation", kTriton},
    {"higher_order.triton_kernel_wrapper_functional", kTriton},
    {"_c10d_functional.", kRanks},
    {"_dtensor.", kRanks},
    {"fsdp.", kRanks},
    {"streams.", "leave streams out: the compiler decides what runs beside what"},
    {"mkldnn.", kOneDnn},
    {"mkl.", kOneDnn},
    {"onednn.", kOneDnn},
    {"_quantized.", "quantized models are not compiled: export the floating model"},
    {"symm_mem.", "memory that ranks share is not there: use the collectives of c10d"},
    {"aten.miopen_rnn", "an operator of another kind of GPU: export on the CPU"},
    {"aten.miopen_rnn_backward", "an operator of another kind of GPU: export on the CPU"},
    {"aten._scaled_dot_product_attention_math_for_mps",
     "an operator of another kind of GPU: export on the CPU"},
};

/// "aten.add.Tensor" -> "aten.add"; "operator.getitem" stays.
std::string operation_of(std::string_view target) {
  size_t first = target.find('.'), last = target.rfind('.');
  return std::string(first == last ? target : target.substr(0, last));
}

std::string_view replacement_for(const std::string &target) {
  // Higher-order operators have no overloads.
  const std::string operation =
      support::starts_with(target, "higher_order.") ? target : operation_of(target);
  for (const Replacement &row : kReplacements)
    if (row.operation == operation || row.operation == target ||
        (row.operation.back() == '.' && support::starts_with(target, row.operation)))
      return row.advice;
  return {};
}

bool has_namespace_of_torch(const std::string &target) {
  for (std::string_view name : {"aten.", "prims.", "operator.", "higher_order.", "math.", "torch."})
    if (support::starts_with(target, name))
      return true;
  return false;
}

} // namespace

std::string declined_markdown() {
  std::string text = "\n## Declined\n\nWhat has no row of its own, why, and what to do instead. "
                     "A name that ends in a dot stands for all that begin with it.\n\n"
                     "| operator | next step |\n|---|---|\n";
  for (const Replacement &row : kReplacements)
    text += "| `" + std::string(row.operation) + "` | " + std::string(row.advice) + " |\n";
  text += "\nOf operators that have a row these overloads have none: those of named dimensions "
          "(`Dimname`, which torch.export does not keep), and those of numbers, texts and lists "
          "alone, which TorchScript calls and no graph of torch.export holds.\n";
  return text;
}

std::string suggest_operator(const std::string &target) {
  if (std::string_view advice = replacement_for(target); !advice.empty())
    return std::string(advice);
  const std::string operation = operation_of(target);
  std::vector<std::string> overloads, known;
  for (const Operator &row : operators()) {
    known.emplace_back(row.name);
    if (operation_of(row.name) == operation)
      overloads.emplace_back(row.name);
  }
  if (!overloads.empty())
    return "supported forms of it: " + support::join(overloads, ", ");
  if (std::string near = support::did_you_mean(target, known); !near.empty())
    return "did you mean " + near + "? " + std::string(kList);
  if (!has_namespace_of_torch(target))
    return "this is an operator of your own: bring its kernel with --operators FOLDER "
           "(docs/custom-operators.md), or replace it by ATen's with "
           "run_decompositions({op: function}) before saving";
  return std::string(kList);
}

} // namespace tsc::ops
