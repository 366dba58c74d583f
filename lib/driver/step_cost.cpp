#include "driver/step_cost.h"

namespace tsc::driver {
namespace {

using scheduler::Cost;
using Number = std::function<double(symbolic::Expr)>;

Cost cost_of(const program::Kernel &kernel, const target::Target &target, const Number &number) {
  Cost cost;
  if (number(kernel.cuda.grid[0]) == 0)
    return cost;
  cost.bytes = number(kernel.bytes_read) + number(kernel.bytes_written);
  cost.nanoseconds = kernel.estimate.is_known
                         ? kernel.estimate.planned() + scheduler::kernel_nanoseconds(target, 0)
                         : scheduler::kernel_nanoseconds(target, cost.bytes);
  return cost;
}

Cost cost_of(const program::Matmul &product, const target::Target &target, const Number &number) {
  const double batch = number(product.batch), m = number(product.m), n = number(product.n),
               k = number(product.k);
  Cost cost;
  cost.bytes =
      batch * (m * k + k * n + m * n) * static_cast<double>(tensor::size_in_bytes(product.dtype));
  cost.operations = 2 * batch * m * n * k;
  cost.nanoseconds = scheduler::library_nanoseconds(
      target, cost.bytes, cost.operations, product.dtype, product.tf32,
      scheduler::is_between_vectors(product.dtype, static_cast<int64_t>(n)));
  cost.nanoseconds = std::max(
      cost.nanoseconds,
      scheduler::library_batch_nanoseconds(target, product.dtype, product.tf32, batch, m, n, k));
  return cost;
}

} // namespace

Cost step_cost(const program::Program &program, const program::Step &step,
               const target::Target &target, const Number &number) {
  if (const auto *launch = std::get_if<program::Launch>(&step.kind))
    return cost_of(program.kernels[launch->kernel], target, number);
  if (const auto *product = std::get_if<program::Matmul>(&step.kind))
    return cost_of(*product, target, number);
  Cost cost;
  if (const auto *copy = std::get_if<program::Copy>(&step.kind))
    cost.bytes = 2 * number(copy->bytes); // read and written
  else if (const auto *fill = std::get_if<program::Fill>(&step.kind))
    cost.bytes = number(fill->bytes);
  return cost;
}

const target::Target &target_of(const program::Program &program) {
  if (!program.part.empty())
    return target::find_target(program.part);
  return target::find_target(program.archs.empty() ? "host" : program.archs.front());
}

} // namespace tsc::driver
