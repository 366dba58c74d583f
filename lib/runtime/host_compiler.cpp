#include "runtime/host_compiler.h"

#include "codegen/generate.h"
#include "runtime/kernel_units.h"
#include "runtime/process.h"
#include "support/diagnostic.h"
#include "support/hash.h"
#include "support/text.h"
#include "support/thread_pool.h"

#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <optional>
#include <sstream>
#include <unordered_map>

namespace tsc::runtime {
namespace {

using support::Diagnostic;
using support::ExitCode;
using support::UserError;

constexpr size_t kMostOutput = 4000; // characters of a compiler's output in an error

bool has_v3() {
#ifdef __x86_64__
  // Every processor with these has the rest of x86-64-v3 too.
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
#else
  return false;
#endif
}

void write_file(const std::string &path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.flush();
  if (!file)
    throw UserError(ExitCode::device, {.code = "TSC-R014",
                                       .message = "'" + path + "' cannot be written",
                                       .next_step = "free some space, or set TMPDIR"});
}

std::string read_file(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

[[noreturn]] void fail_to_compile(const std::vector<std::string> &command,
                                  const ProcessResult &result) {
  std::string output = result.output.substr(0, kMostOutput);
  if (output.size() < result.output.size())
    output += "...";
  throw UserError(ExitCode::device,
                  {.code = "TSC-R011",
                   .message = "the C++ compiler failed on kernels with exit code " +
                              std::to_string(result.exit_code) + ":\n" + output +
                              "\ncommand: " + support::join(command, " "),
                   .next_step = "try another compiler with CXX=clang++, or report this text"});
}

std::shared_ptr<void> open_library(const std::string &path) {
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *why = dlerror();
    throw UserError(
        ExitCode::device,
        {.code = "TSC-R012",
         .message = std::string("compiled kernels cannot be loaded: ") + (why ? why : path),
         .next_step = "remove the cache folder, and see that it allows execution"});
  }
  return std::shared_ptr<void>(handle, [](void *library) { dlclose(library); });
}

/// Compiles units in a folder that goes when all are loaded.
class UnitCompiler {
public:
  UnitCompiler(const HostCompiler &compiler, const std::vector<std::string> &flags)
      : compiler_(compiler), flags_(flags) {
    for (const codegen::PreludeFile &file : codegen::prelude_files())
      write_file(folder_.path() + "/" + std::string(file.name), file.text);
  }

  /// Path of the shared object of unit number `number`.
  std::string compile(size_t number, const KernelUnit &unit) const {
    const std::string base = folder_.path() + "/unit_" + std::to_string(number);
    write_file(base + ".cpp", unit.text);
    std::vector<std::string> command = compiler_.command;
    command.insert(command.end(), flags_.begin(), flags_.end());
    // Without start files the link takes 8 ms, not 33; libm gives expf and its kin.
    command.insert(command.end(), {"-I" + folder_.path(), "-shared", "-nostdlib", "-o",
                                   base + ".so", base + ".cpp", "-lm", "-lc"});
    const ProcessResult result = run_process(command);
    if (result.exit_code != 0)
      fail_to_compile(command, result);
    return base + ".so";
  }

private:
  const HostCompiler &compiler_;
  const std::vector<std::string> &flags_;
  TemporaryFolder folder_;
};

/// Entries by name, in the order of the program's kernels.
void find_entries(const program::Program &program, const std::vector<KernelUnit> &units,
                  HostKernels &kernels) {
  std::unordered_map<std::string, const TcKernelEntry *> entries; // only looked up
  for (size_t i = 0; i < units.size(); ++i) {
    for (uint32_t kernel : units[i].kernels) {
      const std::string &name = program.kernels[kernel].name;
      const void *entry = dlsym(kernels.libraries[i].get(), (name + "_entry").c_str());
      if (!entry)
        throw support::InternalError("host kernels", name,
                                     "its text exports no " + name + "_entry");
      entries[name] = static_cast<const TcKernelEntry *>(entry);
    }
  }
  for (const program::Kernel &kernel : program.kernels)
    kernels.entries.push_back(entries.at(kernel.name));
}

/// What an earlier run left; null if nothing.
std::shared_ptr<void> open_cached(ContentCache *cache, const std::string &key) {
  if (!cache)
    return nullptr;
  const std::optional<std::string> path = cache->find(key);
  if (!path)
    return nullptr;
  try {
    return open_library(*path);
  } catch (const UserError &) { // removed by another process just now, or not executable there
    return nullptr;
  }
}

} // namespace

HostCompiler find_host_compiler() {
  std::vector<std::string> tried;
  for (const char *name : {"$CXX", "g++", "clang++", "c++"}) {
    std::string text = name;
    if (text == "$CXX") {
      const char *chosen = std::getenv("CXX");
      if (!chosen || !*chosen)
        continue;
      text = chosen;
    }
    tried.push_back(text);
    HostCompiler compiler;
    for (const std::string &word : support::split(text, ' '))
      if (!word.empty())
        compiler.command.push_back(word);
    if (compiler.command.empty())
      continue;
    compiler.command[0] = find_program(compiler.command[0]);
    if (compiler.command[0].empty())
      continue;
    std::vector<std::string> command = compiler.command;
    command.push_back("--version");
    const ProcessResult version = run_process(command);
    if (version.exit_code != 0)
      continue;
    compiler.identity = support::join(compiler.command, " ") + "\n" + version.output;
    compiler.is_clang = version.output.find("clang") != std::string::npos;
    return compiler;
  }
  throw UserError(ExitCode::device,
                  {.code = "TSC-R010",
                   .message = "no C++ compiler was found (tried " + support::join(tried, ", ") +
                              "); kernels for the host need one",
                   .next_step = "install g++ or clang++, set CXX, or use --device reference"});
}

std::vector<std::string> kernel_flags(const HostCompiler &compiler, Plan plan) {
  std::vector<std::string> flags = {"-x",
                                    "c++",
                                    "-std=c++17",
                                    plan == Plan::serial ? "-O2" : "-O1",
                                    "-fPIC",
                                    "-w",
                                    "-ffp-contract=off",
                                    "-fno-trapping-math",
                                    "-fno-math-errno",
                                    "-fno-strict-aliasing",
                                    "-fvisibility=hidden"};
  if (has_v3())
    flags.push_back("-march=x86-64-v3");
  if (!compiler.is_clang) {
    flags.push_back("-fno-gnu-unique");
    if (plan == Plan::serial) // loops of run-time length are vectorized too
      flags.push_back("-fvect-cost-model=dynamic");
  }
  return flags;
}

HostKernels load_host_kernels(const program::Program &program, Plan plan, ContentCache *cache) {
  HostKernels kernels;
  if (program.kernels.empty())
    return kernels;
  const HostCompiler compiler = find_host_compiler();
  const std::vector<std::string> flags = kernel_flags(compiler, plan);
  support::ContentHash identity;
  identity.add("host kernels 1").add(compiler.identity).add(support::join(flags, " "));
  for (const codegen::PreludeFile &file : codegen::prelude_files())
    identity.add(file.name).add(file.text);
  const std::vector<KernelUnit> units = make_kernel_units(program, plan);
  kernels.libraries.resize(units.size());
  std::vector<std::string> keys;
  std::vector<size_t> missing;
  for (size_t i = 0; i < units.size(); ++i) {
    keys.push_back(support::ContentHash(identity).add(units[i].text).hex() + ".so");
    kernels.libraries[i] = open_cached(cache, keys[i]);
    if (!kernels.libraries[i])
      missing.push_back(i);
    (kernels.libraries[i] ? kernels.from_cache : kernels.compiled) += units[i].kernels.size();
  }
  if (!missing.empty()) {
    const UnitCompiler unit_compiler(compiler, flags);
    support::parallel_for(missing.size(), [&](size_t i) {
      const std::string path = unit_compiler.compile(missing[i], units[missing[i]]);
      if (cache)
        cache->store(keys[missing[i]], read_file(path));
      kernels.libraries[missing[i]] = open_library(path);
    });
    if (cache)
      cache->evict();
  }
  find_entries(program, units, kernels);
  return kernels;
}

} // namespace tsc::runtime
