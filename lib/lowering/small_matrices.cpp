#include "lowering/small_matrices.h"

#include "engine/solver.h"
#include "ir/custom_call.h"

#include <string>

namespace tsc::lowering {

namespace {

using symbolic::Expr;
using tsc_engine::Routine;

constexpr int64_t kMost = 32; // tc_matrix_most
constexpr int kBlock = 128;   // threads

/// A routine's function, by its name behind "tc_matrix_".
struct Form {
  std::string name;
  std::string numbers; // of the template: sizes and flags
  int64_t rows = 0;    // lanes share a matrix of so many
  size_t results = 1;
  bool takes_columns = false; // of right sides
};

std::optional<int64_t> size(Expr value) {
  return value.is_integer() && value.value() >= 1 && value.value() <= kMost
             ? std::optional(value.value())
             : std::nullopt;
}

std::optional<Form> form_of(const ir::Extern &call) {
  const auto &solver = call.solver;
  const auto has = [&](tsc_engine::SolverFlag flag) { return (solver.flags & flag) != 0; };
  const auto flag = [&](tsc_engine::SolverFlag one) {
    return has(one) ? std::string(", true") : std::string(", false");
  };
  const std::optional<int64_t> m = size(solver.m), n = size(solver.n);
  if (!m || !n || has(tsc_engine::kComplex))
    return std::nullopt;
  const std::string rows = std::to_string(*m), columns = std::to_string(*n);
  switch (static_cast<Routine>(solver.routine)) {
  case Routine::cholesky:
    return Form{"cholesky", columns + flag(tsc_engine::kUpper), *n, 2, false};
  case Routine::lu:
    return Form{"lu", rows + ", " + columns, *m, 3, false};
  case Routine::lu_solve:
    return Form{"lu_solve", columns + flag(tsc_engine::kTransposed), *n, 1, true};
  case Routine::triangular_solve:
    return Form{"triangular_solve",
                columns + flag(tsc_engine::kUpper) + flag(tsc_engine::kTransposed) +
                    flag(tsc_engine::kUnit),
                *n, 1, true};
  case Routine::qr:
    return Form{"qr", rows + ", " + columns, *m, 2, false};
  case Routine::orthogonal:
    if (const std::optional<int64_t> k = size(solver.k))
      return Form{"orthogonal", rows + ", " + columns + ", " + std::to_string(*k), *m, 1, false};
    return std::nullopt;
  default:
    return std::nullopt;
  }
}

ir::CustomArgument pointer(ir::CustomArgument::Kind kind, size_t position) {
  ir::CustomArgument argument;
  argument.kind = kind;
  argument.position = position;
  return argument;
}
ir::CustomArgument integer(Expr value) {
  ir::CustomArgument argument;
  argument.kind = ir::CustomArgument::Kind::integer;
  argument.size = value;
  argument.type = "long long";
  return argument;
}

} // namespace

bool solve_in_kernel(ir::Extern &call, const target::Target *target) {
  if (target == nullptr || target->is_host)
    return false;
  const std::optional<Form> form = form_of(call);
  if (!form)
    return false;
  ir::CustomKernel parallel;
  parallel.file = "tc_matrices.h";
  using Kind = ir::CustomArgument::Kind;
  for (size_t i = 0; i < call.inputs.size(); ++i)
    parallel.arguments.push_back(pointer(Kind::input, i));
  for (size_t i = 0; i < form->results; ++i)
    parallel.arguments.push_back(pointer(Kind::result, i));
  if (form->takes_columns)
    parallel.arguments.push_back(integer(call.solver.k));
  parallel.arguments.push_back(integer(call.solver.batch));
  ir::CustomKernel alone = parallel;
  parallel.function = "tc_matrix_" + form->name + "<" + form->numbers + ">";
  alone.function = "tc_matrix_" + form->name + "_alone<" + form->numbers + ">";
  int64_t lanes = 1;
  while (lanes < form->rows)
    lanes *= 2;
  parallel.block[0] = kBlock;
  parallel.grid[0] = symbolic::ceil_div(call.solver.batch * Expr(lanes), Expr(kBlock));

  auto custom = std::make_shared<ir::CustomCall>();
  custom->name = call.kernel;
  custom->results = form->results;
  custom->cuda = std::move(parallel);
  custom->host = std::move(alone);
  call.custom = std::move(custom);
  call.library = ir::Library::user_kernel;
  return true;
}

} // namespace tsc::lowering
