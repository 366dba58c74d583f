#include "driver/user_kernels.h"

#include "codegen/custom_kernel.h"
#include "runtime/session.h"
#include "support/diagnostic.h"
#include "support/text.h"

namespace tsc::driver {
namespace {

using Kind = ir::CustomArgument::Kind;
using symbolic::Expr;

program::Buffer buffer(const std::string &name, tensor::DType dtype, tensor::Layout layout,
                       program::Role role) {
  program::Buffer result;
  result.name = name;
  result.dtype = dtype;
  result.bytes = layout.storage_size() * Expr(static_cast<int64_t>(tensor::size_in_bytes(dtype)));
  result.layout = std::move(layout);
  result.role = role;
  return result;
}

tensor::Layout contiguous(const std::vector<int64_t> &sizes) {
  tensor::Layout layout;
  layout.sizes.assign(sizes.begin(), sizes.end());
  layout.strides = tensor::contiguous_strides(layout.sizes);
  return layout;
}

/// A program of this one launch; buffers are inputs, results, workspace.
program::Program program_of(const interpret::UserKernelCall &call) {
  program::Program program;
  program.name = "user_kernel";
  program.archs = {"host"};
  std::vector<tensor::DType> inputs, results;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    inputs.push_back(call.inputs[i].dtype());
    const std::string name = "in" + std::to_string(i);
    program.inputs.push_back({name, static_cast<uint32_t>(program.buffers.size())});
    program.buffers.push_back(
        buffer(name, inputs.back(), call.input_layouts[i], program::Role::input));
  }
  for (size_t i = 0; i < call.results.size(); ++i) {
    results.push_back(call.results[i].dtype());
    program::OutputInfo output;
    output.name = "output_" + std::to_string(i);
    output.buffer = static_cast<int64_t>(program.buffers.size());
    output.layout = contiguous(call.results[i].sizes());
    output.dtype = results.back();
    program.buffers.push_back(
        buffer("out" + std::to_string(i), output.dtype, output.layout, program::Role::output));
    program.outputs.push_back(std::move(output));
  }
  program.buffers.push_back(buffer("workspace", tensor::DType::u8,
                                   contiguous({call.workspace_bytes}),
                                   program::Role::intermediate));
  codegen::CustomKernelParts parts = codegen::custom_kernel(*call.call, inputs, results);
  program::Launch launch;
  for (const codegen::CustomPointer &pointer : parts.pointers)
    launch.pointers.push_back(
        {static_cast<uint32_t>(pointer.kind == Kind::input    ? pointer.position
                               : pointer.kind == Kind::result ? inputs.size() + pointer.position
                                                              : program.buffers.size() - 1),
         0});
  for (const Expr size : parts.sizes)
    launch.sizes.emplace_back(symbolic::evaluate(size, *call.bindings));
  program::Kernel &kernel = parts.kernel;
  kernel.name = "user_kernel";
  kernel.bytes_read = kernel.bytes_written = 0;
  for (std::string *text : {&kernel.cuda.text, &kernel.serial.text}) {
    *text = "#include \"tsc_prelude.h\"\n#include \"" +
            std::string(codegen::custom_header(*call.call)) + "\"\n" + *text;
    support::replace_all(*text, std::string(codegen::kKernelPlaceholder), kernel.name);
  }
  kernel.cuda.grid = {Expr(1), Expr(1), Expr(1)}; // which sizes decide, and nobody launches
  kernel.cuda.shared_bytes = 0;
  program.kernels.push_back(std::move(kernel));
  program.steps.push_back({std::move(launch), "user_kernel"});
  return program;
}

} // namespace

void run_user_kernel(interpret::UserKernelCall &call) {
  if (!call.call->host)
    throw support::UserError(
        support::ExitCode::unsupported,
        {.code = "TSC-R030",
         .message = "the operator " + call.call->name +
                    " has no host function, and the reference runs on the host",
         .next_step = "add \"host\" to its row, or run with --device cuda"});
  const std::unique_ptr<runtime::Session> session =
      runtime::Session::create(program_of(call), {}, {});
  call.results = session->run(call.inputs);
}

} // namespace tsc::driver
