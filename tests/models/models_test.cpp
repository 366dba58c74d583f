// The models of graphs/zoo: each as torch.export.export wrote it, undecomposed, with what PyTorch
// computed (scripts/export/model_zoo.py). The GPU's turn is in scripts/gpu_check.
#include "driver/expected.h"
#include "driver/inputs.h"
#include "driver/reference.h"
#include "graph/read.h"
#include "runtime/session.h"
#include "testing/catch.h"

#include <filesystem>
#include <set>

using namespace tsc;

namespace {

const std::filesystem::path kZoo = std::filesystem::path(TSC_UNPACKED_DIR) / "graphs" / "zoo";

/// Every model below; each is a case of its own so that ctest runs them side by side.
std::set<std::string> &listed() {
  static std::set<std::string> names;
  return names;
}
struct Listed {
  explicit Listed(const char *name) { listed().insert(name); }
};

struct Model {
  driver::Compilation compilation;
  std::vector<tensor::HostTensor> inputs;
  tensor::TensorMap weights;
  std::string expect;
};

Model load(const std::string &name) {
  const std::filesystem::path folder = kZoo / name;
  Model model;
  model.compilation = driver::compile(graph::read_graph((folder / "default.pt2").string()), {});
  const program::Program &program = model.compilation.program;
  model.inputs =
      driver::load_inputs(program, driver::parse_data_source((folder / "inputs.npz").string()), {});
  model.weights = driver::load_weights(program, model.compilation.graph.weights, std::nullopt);
  model.expect = (folder / "expected.npz").string();
  return model;
}

void check(const Model &model, const std::vector<tensor::HostTensor> &outputs) {
  for (const driver::OutputAgreement &output :
       driver::compare_with_file(model.compilation.program, outputs, model.expect)) {
    INFO(output.name << ": " << output.agreement.reason);
    CHECK(output.agreement.ok);
  }
}

void run(const std::string &name) {
  const Model model = load(name);
  {
    INFO("device reference");
    check(model, driver::run_reference(model.compilation, model.inputs, model.weights));
  }
  for (const runtime::Plan plan : {runtime::Plan::serial, runtime::Plan::cuda}) {
    INFO("device host, plan " << (plan == runtime::Plan::serial ? "serial" : "cuda"));
    runtime::SessionOptions options;
    options.plan = plan;
    const auto session =
        runtime::Session::create(model.compilation.program, model.weights, options);
    check(model, session->run(model.inputs));
  }
}

} // namespace

#define TSC_MODEL(name)                                                                            \
  static const Listed listed_##name(#name);                                                        \
  TEST_CASE(#name " agrees with PyTorch") { run(#name); }

#include "models.def" // NOLINT

TEST_CASE("every model of the zoo is tested") {
  std::set<std::string> found;
  for (const auto &entry : std::filesystem::directory_iterator(kZoo))
    found.insert(entry.path().filename().string());
  CHECK(found == listed());
}
