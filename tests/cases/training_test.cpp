// Whole training steps, run again and again: the losses are those of an ordinary training loop in
// PyTorch.
#include "case_archive.h"
#include "case_file.h"

#include "driver/compile.h"
#include "graph/read.h"
#include "runtime/session.h"
#include "testing/catch.h"
#include "testing/skip.h"

using namespace tsc;
using testing::Case;

namespace {

/// The losses of as many runs as were recorded, each of which goes on from the weights and the
/// optimizer's state that the last one left in the session.
tensor::HostTensor losses_of(const Case &one, int64_t count,
                             const runtime::SessionOptions &options) {
  const driver::Compilation compilation =
      driver::compile(graph::parse_graph(one.model, one.name), {});
  const std::unique_ptr<runtime::Session> session =
      runtime::Session::create(compilation.program, one.weights, options);
  tensor::HostTensor losses(tensor::DType::f32, {count});
  for (int64_t i = 0; i < count; ++i)
    losses.set_double(i, session->run(one.inputs).back().get_double(0));
  return losses;
}

void check_losses(const runtime::SessionOptions &options) {
  const tensor::TensorMap tensors = testing::read_case_files("training").tensors;
  size_t checked = 0;
  for (const Case &one : testing::read_cases("training")) {
    const auto expected = tensors.find(one.name + "/losses");
    if (expected == tensors.end())
      continue;
    const tensor::HostTensor losses = losses_of(one, expected->second.numel(), options);
    tensor::AgreementRule rule;
    rule.norm_bound = 1e-5;
    const tensor::Agreement agreement =
        tensor::compare(losses, expected->second, &tensors.at(one.name + "/wide_losses"), rule);
    INFO(one.name << ": " << agreement.reason);
    CHECK(agreement.ok);
    CHECK(losses.get_double(losses.numel() - 1) < 0.9 * losses.get_double(0));
    ++checked;
  }
  CHECK(checked == 8);
}

} // namespace

TEST_CASE("20 training steps go down as PyTorch's do, host, serial plan") { check_losses({}); }

TEST_CASE("20 training steps go down as PyTorch's do, host, cuda plan") {
  runtime::SessionOptions options;
  options.plan = runtime::Plan::cuda;
  check_losses(options);
}

TEST_CASE("20 training steps go down as PyTorch's do, on the GPU", "[gpu]") {
  std::string why;
  if (!runtime::cuda_available(&why)) {
    testing::skip("there is no GPU: " + why);
    return;
  }
  runtime::SessionOptions options;
  options.device = runtime::DeviceKind::cuda;
  check_losses(options);
}
