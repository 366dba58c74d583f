#include "runtime/host_compiler.h"

#include "codegen/generate.h"
#include "runtime/kernel_units.h"
#include "runtime/process.h"
#include "support/diagnostic.h"
#include "support/environment.h"
#include "support/hash.h"
#include "support/text.h"
#include "support/thread_pool.h"
#include "support/verify.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <unordered_map>

namespace tsc::runtime {
namespace {

using support::Diagnostic;
using support::ExitCode;
using support::UserError;

constexpr size_t kMostOutput = 4000; // characters of a compiler's output in an error
constexpr int64_t kCompilerSeconds = 600, kMostCompilerSeconds = 86400;
constexpr int64_t kVersionSeconds = 10; // what --version may take at most
// What besides its command line decides what a compiler does.
constexpr const char *kCompilerVariables[] = {
    "CPATH",         "C_INCLUDE_PATH",  "LIBRARY_PATH",    "CPLUS_INCLUDE_PATH",
    "COMPILER_PATH", "GCC_EXEC_PREFIX", "LD_LIBRARY_PATH", "CCC_OVERRIDE_OPTIONS"};

int64_t compiler_seconds() {
  return support::environment_number("TSC_COMPILER_SECONDS", 1, kMostCompilerSeconds)
      .value_or(kCompilerSeconds);
}

[[noreturn]] void took_too_long(const std::vector<std::string> &command, int64_t seconds) {
  throw UserError(ExitCode::device,
                  {.code = "TSC-R016",
                   .message = "the C++ compiler '" + command[0] + "' was ended after " +
                              std::to_string(seconds) +
                              " s\ncommand: " + support::join(command, " "),
                   .next_step = "give it more time with TSC_COMPILER_SECONDS, or choose another "
                                "compiler with CXX"});
}

/// Size and time of a file: another one of the same name is another one.
std::string stamp_of(const std::string &path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0)
    return "";
  return std::to_string(status.st_size) + " " + std::to_string(status.st_mtim.tv_sec) + "." +
         std::to_string(status.st_mtim.tv_nsec);
}

/// The machine, the compiler and what it reads from the environment.
std::string identity_of(const HostCompiler &compiler, const std::string &version) {
  utsname machine = {};
  uname(&machine);
  std::error_code error;
  const std::string real = std::filesystem::canonical(compiler.command[0], error).string();
  std::string identity = support::join(compiler.command, " ") + "\n" + real + "\n" +
                         stamp_of(real) + "\n" + machine.machine + "\n" + version;
  for (const char *name : kCompilerVariables)
    if (const char *value = std::getenv(name))
      identity += std::string("\n") + name + "=" + value;
  return identity;
}

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
  if (result.timed_out)
    took_too_long(command, compiler_seconds());
  std::string output = result.output.substr(0, kMostOutput);
  if (output.size() < result.output.size())
    output += "...";
  // Its parts may be what was killed: g++ says so and exits with 1.
  const bool is_killed =
      result.signal != 0 || output.find("Killed signal terminated program") != std::string::npos;
  if (is_killed)
    throw UserError(ExitCode::device,
                    {.code = "TSC-R017",
                     .message = "the C++ compiler '" + command[0] + "' was killed" +
                                (result.signal != 0
                                     ? std::string(" by signal ") + std::to_string(result.signal) +
                                           " (" + strsignal(result.signal) + ")"
                                     : "") +
                                ":\n" + output + "\ncommand: " + support::join(command, " "),
                     .next_step = "if memory ran out, compile fewer kernels at a time with "
                                  "TSC_THREADS=1"});
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
    ProcessOptions options;
    options.limit = std::chrono::seconds(compiler_seconds());
    options.environment = {"TMPDIR=" + folder_.path()}; // what is left when it is killed goes too
    const ProcessResult result = run_process(command, options);
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

/// Throws TSC-R031 for kernels that have no text for the host: a user brought them for GPUs alone.
void check_texts(const program::Program &program, Plan plan) {
  std::vector<support::Diagnostic> problems;
  for (const program::Kernel &kernel : program.kernels)
    if (plan == Plan::serial && kernel.serial.text.empty())
      problems.push_back(
          {.code = "TSC-R031",
           .message = "the kernel " + kernel.name + " (" + kernel.plan + ") has no host function",
           .next_step = "add \"host\" to its operator's row and compile again, or "
                        "run with --device cuda"});
  if (!problems.empty())
    throw UserError(ExitCode::unsupported, std::move(problems));
}

/// The library that an open file holds, which stays open as long. The loader takes equal names for
/// the same library, also that of a file long closed whose library is still in use elsewhere, and
/// numbers of files come again: each time the path is spelled as it never was, by the bits of a
/// serial number ("/" or "./").
std::shared_ptr<void> open_file(std::shared_ptr<support::Descriptor> file) {
  static std::atomic<uint64_t> serial{0};
  std::string path = "/proc/self/fd/";
  for (uint64_t bits = serial.fetch_add(1); bits != 0; bits /= 2)
    path += bits % 2 ? "/" : "./";
  std::shared_ptr<void> library = open_library(path + std::to_string(file->get()));
  void *handle = library.get();
  return std::shared_ptr<void>(handle, [library, file](void *) mutable {
    library.reset();
    file.reset();
  });
}

/// What an earlier run left; null if nothing.
std::shared_ptr<void> open_cached(ContentCache *cache, const std::string &key) {
  if (!cache)
    return nullptr;
  auto file = std::make_shared<support::Descriptor>(cache->open(key));
  if (!*file)
    return nullptr;
  try {
    return open_file(file);     // the very one that was checked
  } catch (const UserError &) { // no /proc, or not executable there
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
    ProcessOptions options;
    const int64_t seconds = std::min(kVersionSeconds, compiler_seconds());
    options.limit = std::chrono::seconds(seconds);
    const ProcessResult version = run_process(command, options);
    if (version.timed_out)
      took_too_long(command, seconds);
    if (version.exit_code != 0)
      continue;
    compiler.identity = identity_of(compiler, version.output);
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
                                    plan == Plan::serial ? "-O2"
                                                         : "-Og", // two thirds of the time of -O1
                                    "-fPIC",
                                    "-w",
                                    "-ffp-contract=off",
                                    "-fno-trapping-math",
                                    "-fno-math-errno",
                                    "-fno-strict-aliasing",
                                    "-fvisibility=hidden"};
  if (has_v3())
    flags.push_back("-march=x86-64-v3");
  if (plan == Plan::cuda && support::verifies_passes())
    flags.push_back("-DTC_VERIFY"); // what a device faults at ends the process
  if (!compiler.is_clang) {
    flags.push_back("-fno-gnu-unique");
    if (plan == Plan::serial) // loops of run-time length are vectorized too
      flags.push_back("-fvect-cost-model=dynamic");
    // Sums of comparisons in integers of 8 and 16 bits have the wrong sign (g++ 12).
    flags.push_back("-fno-tree-slp-vectorize");
  }
  return flags;
}

namespace {

/// What images of the host are for: "x86_64-v3".
std::string host_target(bool v3) {
  utsname machine = {};
  uname(&machine);
  return std::string(machine.machine) + (v3 ? "-v3" : "");
}

/// A shared object in memory, as a library.
std::shared_ptr<void> open_image(std::string_view image, const std::string &name) {
  auto file = std::make_shared<support::Descriptor>(memfd_create(name.c_str(), MFD_CLOEXEC));
  for (size_t at = 0; *file && at < image.size();) {
    const ssize_t count = ::write(file->get(), image.data() + at, image.size() - at);
    if (count <= 0)
      return nullptr;
    at += static_cast<size_t>(count);
  }
  if (!*file)
    return nullptr;
  return open_file(file);
}

} // namespace

program::KernelImages compile_host_images(const program::Program &program) {
  check_texts(program, Plan::serial);
  const std::vector<KernelUnit> units = make_package_units(program, Plan::serial);
  const auto texts = std::make_shared<std::vector<std::string>>(units.size());
  if (!units.empty()) {
    const HostCompiler compiler = find_host_compiler();
    const std::vector<std::string> flags = kernel_flags(compiler, Plan::serial);
    const UnitCompiler unit_compiler(compiler, flags);
    support::parallel_for(units.size(), [&](size_t i) {
      (*texts)[i] = read_file(unit_compiler.compile(i, units[i]));
    });
  }
  program::KernelImages result;
  result.target = host_target(has_v3());
  result.identity = identity_of(units);
  result.images.assign(texts->begin(), texts->end());
  result.owner = texts;
  return result;
}

std::optional<HostKernels> load_host_images(const program::Program &program, Plan plan,
                                            const program::KernelImages &images, std::string &why) {
  if (images.target.empty() || plan != Plan::serial) {
    why = "it is for another plan of the program";
    return std::nullopt;
  }
  if (images.target != host_target(false) && (!has_v3() || images.target != host_target(true))) {
    why = "it is for " + images.target + ", this machine is " + host_target(has_v3());
    return std::nullopt;
  }
  const std::vector<KernelUnit> units = make_package_units(program, plan);
  if (units.size() != images.images.size() || images.identity != identity_of(units)) {
    why = "it is of other kernels than the program's, or of another version of tsc";
    return std::nullopt;
  }
  HostKernels kernels;
  try {
    for (size_t i = 0; i < units.size(); ++i) {
      std::shared_ptr<void> library = open_image(images.images[i], "tsc_unit_" + std::to_string(i));
      if (!library) {
        why = "there is no memory for it";
        return std::nullopt;
      }
      for (const uint32_t kernel : units[i].kernels)
        if (!dlsym(library.get(), (program.kernels[kernel].name + "_entry").c_str())) {
          why = "it lacks the kernel " + program.kernels[kernel].name;
          return std::nullopt;
        }
      kernels.libraries.push_back(std::move(library));
    }
  } catch (const UserError &error) { // of a newer C library, no /proc, or not executable there
    why = error.diagnostics().front().message;
    return std::nullopt;
  }
  find_entries(program, units, kernels);
  kernels.from_cache = program.kernels.size();
  return kernels;
}

HostKernels load_host_kernels(const program::Program &program, Plan plan, ContentCache *cache) {
  HostKernels kernels;
  if (program.kernels.empty())
    return kernels;
  check_texts(program, plan);
  const HostCompiler compiler = find_host_compiler();
  const std::vector<std::string> flags = kernel_flags(compiler, plan);
  support::ContentHash identity;
  identity.add("host kernels 2, tsc " TSC_VERSION)
      .add(compiler.identity)
      .add(support::join(flags, " "));
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
