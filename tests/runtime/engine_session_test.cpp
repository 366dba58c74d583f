// What a session says when a program's tables do not fit together.
#include "engine/test_device.h"
#include "program/sample_program.h"
#include "runtime/engine_session.h"

#include "testing/catch.h"

using namespace tsc;

TEST_CASE("a program that contradicts itself is refused, not run") {
  program::Program program = program::sample_program();
  std::get<program::Matmul>(program.steps[2].kind).a.offset = 1;
  tensor::TensorMap weights;
  weights["layer.w"] = tensor::random_tensor(program::DType::f32, {4, 3}, {});
  weights["layer.bias"] = tensor::random_tensor(program::DType::f32, {3}, {});
  weights["layer.count"] = tensor::random_tensor(program::DType::i64, {1}, {});
  runtime::ReadyDevice device;
  device.device = std::make_shared<tsc_engine::TestDevice>();
  auto session = runtime::make_engine_session(program, weights, device, {});
  CHECK_THROWS_WITH(session->run({tensor::random_tensor(program::DType::f32, {2, 4}, {})}),
                    "error TSC-P012: the program contradicts itself: step 2 (matmul): buffer moved "
                    "is too small for it\n  next: compile the graph again with this version of "
                    "tsc; if that does not help, report it with the graph");
}
