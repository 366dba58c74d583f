// A call of a function of a template that computes all of an operator (ir/custom_call.h), in the
// making.
#pragma once

#include "ir/custom_call.h"
#include "lowering/build.h"
#include "lowering/registry.h"

#include <string>
#include <vector>

namespace tsc::lowering {

class TemplateCall {
public:
  /// `header`: the template's.
  TemplateCall(Context &context, const ops::Call &call, const std::string &header);

  static ir::CustomArgument result(size_t position);
  static ir::CustomArgument absent();
  static ir::CustomArgument exchange();
  static ir::CustomArgument integer(Expr value);

  /// Adds the tensor `parameter` as it lies.
  const ir::BufferView &add(std::string_view parameter);
  /// The same without gaps.
  const ir::BufferView &add_dense(std::string_view parameter);
  /// The call of `function` + `of_types`, and of `function` + "_alone" + `alone_types` by one
  /// thread that does everything, which is told `alone` too.
  NodeValue finish(const std::string &function, const std::string &of_types,
                   const std::string &alone_types, const std::vector<ir::CustomArgument> &alone);

  ir::CustomKernel parallel;
  BufferId exchange_words = kNone; // CustomCall::exchange

private:
  Context &context_;
  const ops::Call &call_;
  ir::Extern kernel_;

  const ir::BufferView &add(ir::BufferView view);
};

} // namespace tsc::lowering
