// Alignments of label sequences with steps of scores: one kernel of ours computes a call whole.
#include "ir/custom_call.h"
#include "lowering/build.h"
#include "lowering/realize.h"
#include "lowering/registry.h"
#include "lowering/tuple_call.h"

#include <algorithm>

namespace tsc::lowering {

namespace {

constexpr int64_t kWarp = 32, kMostThreads = 512, kSharedBytes = 48 * 1024;
constexpr int64_t kThreadsOfSymbol = 256; // where nobody knows how many states there are

ir::CustomArgument pointer(ir::CustomArgument::Kind kind, size_t position) {
  ir::CustomArgument argument;
  argument.kind = kind;
  argument.position = position;
  return argument;
}
ir::CustomArgument integer(Expr value, std::string type = "long long") {
  ir::CustomArgument argument;
  argument.kind = ir::CustomArgument::Kind::integer;
  argument.size = value;
  argument.type = std::move(type);
  return argument;
}

/// `parameter` of the call, int64, each row behind the other.
ir::BufferView integers(Context &context, const ops::Call &call, std::string_view parameter) {
  TensorValue value = tensor_argument(context, call, parameter);
  return require_strides(context, value, tensor::contiguous_strides(value.sizes));
}

/// A block a sequence; the scores are read as they lie. The arguments are those of tc_ctc_paths
/// (templates/alignment/tc_ctc.h).
NodeValue ctc_paths(Context &context, const ops::Call &call) {
  ir::Extern kernel;
  kernel.kernel = call.node().target;
  kernel.ir_class = "FallbackKernel";
  kernel.library = ir::Library::user_kernel;
  TensorValue scores = tensor_argument(context, call, "scores");
  if (scores.dtype != scores.storage->dtype) // reinterpreted bits
    scores = copy(context, scores);
  kernel.inputs.push_back(realized_view(context, scores));
  for (std::string_view parameter : {"labels", "input_lengths", "target_lengths"})
    kernel.inputs.push_back(integers(context, call, parameter));

  const graph::TensorMeta result = *call.node().value->tensor();
  const Expr batch = result.layout.sizes[0], steps = result.layout.sizes[1],
             states = result.layout.sizes[2];
  ir::CustomKernel parallel;
  parallel.file = "tc_ctc.h";
  using Kind = ir::CustomArgument::Kind;
  for (size_t i = 0; i < kernel.inputs.size(); ++i)
    parallel.arguments.push_back(pointer(Kind::input, i));
  parallel.arguments.push_back(pointer(Kind::result, 0));
  for (const Expr stride : kernel.inputs[0].layout.strides)
    parallel.arguments.push_back(integer(stride));
  for (const Expr size : {steps, states, call.tensor("labels").layout.sizes[1], call.size("blank")})
    parallel.arguments.push_back(integer(size));
  ir::CustomKernel alone = parallel;

  const std::string way = call.boolean("backwards") ? "<true>" : "<false>";
  const Expr bytes = states * Expr(2 * static_cast<int64_t>(tensor::size_in_bytes(result.dtype)));
  const bool is_shared = symbolic::bounds(bytes, *context.ranges).high <= kSharedBytes;
  parallel.function = "tc_ctc_paths" + way;
  parallel.arguments.push_back(integer(is_shared ? 1 : 0, "bool"));
  parallel.grid[0] = batch;
  parallel.block[0] = static_cast<int>(
      states.is_integer() ? std::min((states.value() + kWarp - 1) / kWarp * kWarp, kMostThreads)
                          : kThreadsOfSymbol);
  parallel.shared_bytes = is_shared ? bytes : Expr(0);
  alone.function = "tc_ctc_paths_alone" + way;
  alone.arguments.push_back(integer(batch));

  auto custom = std::make_shared<ir::CustomCall>();
  custom->name = call.node().target;
  custom->results = 1;
  custom->cuda = std::move(parallel);
  custom->host = std::move(alone);
  kernel.custom = std::move(custom);
  return std::get<std::vector<TensorValue>>(tuple_call(context, std::move(kernel), {result}))[0];
}

} // namespace

void add_alignments(Registry &registry) { registry["ctc_paths"] = ctc_paths; }

} // namespace tsc::lowering
