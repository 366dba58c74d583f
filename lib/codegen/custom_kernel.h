// Calls that one kernel computes whole -> kernels: the text of the user, or a header of ours, and
// around its function one that has the parameters of all kernels.
#pragma once

#include "codegen/build_kernel.h"
#include "ir/custom_call.h"

namespace tsc::codegen {

/// What stands behind the pointers of a call's kernel.
struct CustomPointer {
  ir::CustomArgument::Kind kind = ir::CustomArgument::Kind::input; // or result, workspace, exchange
  size_t position = 0;
};
struct CustomKernelParts {
  program::Kernel kernel;              // without a name, and with kKernelPlaceholder in the texts
  std::vector<CustomPointer> pointers; // in the order of the pointer parameters
  std::vector<Expr> sizes;             // in the order of the size parameters
};
/// What the texts of the call's kernel include besides the prelude: its functions, or what kernels
/// of users may take for granted.
std::string_view custom_header(const ir::CustomCall &call);
/// `inputs` and `results`: element types of the call's. Without a host function kernel.serial has
/// no text.
CustomKernelParts custom_kernel(const ir::CustomCall &call, const std::vector<DType> &inputs,
                                const std::vector<DType> &results);

/// The call `operation`, an ir::Extern of ir::Library::user_kernel, with `items` the buffers of its
/// tuple. The pointers of the launch have offsets: `offsets` gets them, in elements.
BuiltKernel build_custom(const ir::Module &module, const scheduler::Schedule &schedule,
                         const scheduler::Group &group, const ir::Operation &operation,
                         const std::vector<BufferId> &items, std::vector<Expr> &offsets);

/// Lines that include headers of the system in texts of users, each once, told by place.
std::string system_includes(const std::vector<std::string_view> &texts);

} // namespace tsc::codegen
