// Whole training steps in mixed precision, run again and again: the losses are as near to those of
// float64 as PyTorch's own.
#include "case_archive.h"
#include "case_file.h"

#include "driver/compile.h"
#include "driver/reference.h"
#include "graph/read.h"
#include "runtime/session.h"
#include "testing/catch.h"
#include "testing/skip.h"

#include <algorithm>
#include <cmath>
#include <functional>

using namespace tsc;
using testing::Case;

namespace {

using Tensors = std::vector<tensor::HostTensor>;
/// One run of a compiled graph.
using Run = std::function<Tensors(const Tensors &)>;
using MakeRun = std::function<Run(const driver::Compilation &)>;

/// The first output is the loss, the others are the inputs that follow the batch, next time.
std::vector<double> losses_of(const Run &run, Tensors inputs, int64_t count) {
  std::vector<double> losses;
  for (int64_t i = 0; i < count; ++i) {
    Tensors outputs = run(inputs);
    losses.push_back(outputs.at(0).get_double(0));
    const size_t batch = inputs.size() - (outputs.size() - 1);
    std::move(outputs.begin() + 1, outputs.end(),
              inputs.begin() + static_cast<std::ptrdiff_t>(batch));
  }
  return losses;
}

double largest_distance(const std::vector<double> &losses, const tensor::HostTensor &from) {
  double largest = 0;
  for (size_t i = 0; i < losses.size(); ++i)
    largest = std::max(largest, std::abs(losses[i] - from.get_double(static_cast<int64_t>(i))));
  return largest;
}
std::vector<double> numbers_of(const tensor::HostTensor &x) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < x.numel(); ++i)
    numbers.push_back(x.get_double(i));
  return numbers;
}

/// Roundings to 8 bits of mantissa fall otherwise in another order of sums: three times PyTorch's
/// own distance is allowed.
void check_losses(const MakeRun &make) {
  const tensor::TensorMap tensors = testing::read_case_files("mixed_steps").tensors;
  size_t checked = 0;
  for (const Case &one : testing::read_cases("mixed_steps")) {
    const driver::Compilation compilation =
        driver::compile(graph::parse_graph(one.model, one.name), {});
    const tensor::HostTensor &eager = tensors.at(one.name + "/losses"),
                             &wide = tensors.at(one.name + "/wide_losses");
    const std::vector<double> losses = losses_of(make(compilation), one.inputs, eager.numel());
    const double own = largest_distance(losses, wide),
                 recorded = largest_distance(numbers_of(eager), wide);
    INFO(one.name << ": " << own << " from float64, PyTorch " << recorded);
    CHECK(own <= 3 * recorded);
    CHECK(losses.back() < 0.98 * losses.front());
    ++checked;
  }
  CHECK(checked == 2);
}

MakeRun in_session(const runtime::SessionOptions &options) {
  return [options](const driver::Compilation &compilation) -> Run {
    const std::shared_ptr<runtime::Session> session =
        runtime::Session::create(compilation.program, {}, options);
    return [session](const Tensors &inputs) { return session->run(inputs); };
  };
}

} // namespace

TEST_CASE("20 steps in mixed precision go down as PyTorch's do, reference") {
  check_losses([](const driver::Compilation &compilation) -> Run {
    return [&compilation](const Tensors &inputs) {
      return driver::run_reference(compilation, inputs, {});
    };
  });
}

TEST_CASE("20 steps in mixed precision go down as PyTorch's do, host, serial plan") {
  check_losses(in_session({}));
}

TEST_CASE("20 steps in mixed precision go down as PyTorch's do, host, cuda plan") {
  runtime::SessionOptions options;
  options.plan = runtime::Plan::cuda;
  check_losses(in_session(options));
}

TEST_CASE("20 steps in mixed precision go down as PyTorch's do, on the GPU", "[gpu]") {
  std::string why;
  if (!runtime::cuda_available(&why)) {
    testing::skip("there is no GPU: " + why);
    return;
  }
  runtime::SessionOptions options;
  options.device = runtime::DeviceKind::cuda;
  check_losses(in_session(options));
}
