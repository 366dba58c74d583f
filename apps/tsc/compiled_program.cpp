#include "compiled_program.h"

#include "driver/shapes.h"
#include "emit/emit.h"
#include "support/diagnostic.h"
#include "support/text.h"
#include "target/target.h"

#include <algorithm>

namespace tsc::app {
namespace {

/// Which of the plans is asked for.
size_t plan_for(const CompileFlags &flags, const std::vector<program::Program> &plans,
                const std::string &path, const std::string &preferred) {
  const std::string arch =
      flags.archs.empty() ? preferred : target::find_target(archs_of(flags).front()).name;
  std::vector<std::string> there;
  there.reserve(plans.size());
  for (const program::Program &plan : plans)
    there.push_back(plan.archs.front());
  const auto found = std::find(there.begin(), there.end(), arch);
  if (found != there.end())
    return static_cast<size_t>(found - there.begin());
  if (flags.archs.empty())
    return 0;
  throw support::UserError(support::ExitCode::usage,
                           {.code = "TSC-C030",
                            .message = "what was compiled has no plan for " + arch,
                            .file = path,
                            .next_step = "it has plans for " + support::join(there, ", ")});
}

} // namespace

CompiledProgram read_compiled(const CompileFlags &flags, const std::string &path,
                              const std::string &preferred) {
  emit::EmittedFolder folder = emit::read_emitted_folder(path);
  const size_t plan = plan_for(flags, folder.plans, path, preferred);
  CompiledProgram compiled;
  compiled.program = std::move(folder.plans[plan]);
  if (plan < folder.images.size())
    compiled.images = std::make_shared<program::KernelImages>(std::move(folder.images[plan]));
  compiled.weights = std::move(folder.weights);
  return compiled;
}

driver::Compilation compilation_of(program::Program program, const driver::Shapes &shapes) {
  const symbolic::Bindings sizes = driver::bind_shapes(program.symbols, shapes);
  driver::Compilation compilation;
  for (const program::Symbol &symbol : program.symbols) {
    const std::string name = symbol.name.empty() ? symbolic::print(symbol.symbol) : symbol.name;
    symbolic::Interval range{symbol.low, symbol.high};
    if (shapes.count(name) != 0)
      range.low = range.high = sizes.at(symbol.symbol);
    compilation.module.ranges.set(symbol.symbol, range);
    compilation.module.symbols.push_back({symbol.symbol, range.low, range.high, symbol.name});
  }
  compilation.program = std::move(program);
  return compilation;
}

} // namespace tsc::app
