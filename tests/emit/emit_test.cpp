#include "emit/emit.h"
#include "emit/model_name.h"
#include "engine/tsc_model.h"
#include "sample_program.h"
#include "support/diagnostic.h"
#include "temporary_folder.h"

#include "testing/catch.h"

#include <cstdlib>
#include <map>

using namespace tsc;
namespace fs = std::filesystem;

namespace {

std::map<std::string, std::string> files_of(const fs::path &folder) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry &entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      files[fs::relative(entry.path(), folder).string()] = read_text(entry.path());
  return files;
}

std::string error_of_emit(const fs::path &folder) {
  try {
    emit::emit(program::sample_program(), folder.string(), {});
  } catch (const support::UserError &error) {
    return error.what();
  }
  return "";
}

} // namespace

TEST_CASE("A folder holds sources, tables, engine and program", "[emit]") {
  TemporaryFolder temporary;
  fs::path out = temporary.path / "deep" / "out";
  emit::emit(program::sample_program(), out.string(), {});
  std::map<std::string, std::string> files = files_of(out);
  for (const char *name :
       {"program.json", "model.cpp", "README.md", "CMakeLists.txt", "sources.cmake", "tsc_model.h",
        "tsc_model.hpp", "sample_model.h", "exports.map", "install.cmake", "run_model.cpp",
        "kernels/relu.cu", "kernels/serial/relu.cpp", "kernels/units/unit_0.cu",
        "prelude/tsc_prelude.h", "engine/engine.cpp", "engine/tables.h"})
    CHECK(files.count(name) == 1);
  CHECK(files.count("weights.safetensors") == 0);
  CHECK(files.count("engine/fibers.cpp") == 0);
  CHECK(files["model.cpp"].find("\"out\", DType::f32, Role::output, {0, ") != std::string::npos);
  CHECK(files["model.cpp"].find("// 7: takes over the memory of y") != std::string::npos);
  CHECK(files["model.cpp"].find("// 0: y = moved @ twice + bias") != std::string::npos);
  CHECK(files["model.cpp"].find("// 0: double_it, once, when weights are loaded") !=
        std::string::npos);
  CHECK(emit::is_emitted_folder(out.string()));
  CHECK(program::to_json(emit::read_emitted_plans(out.string()).at(0)) ==
        program::to_json(program::sample_program()));
  CHECK(emit::read_emitted_weights(out.string()).empty());
  // Nothing is left beside it.
  CHECK(std::distance(fs::directory_iterator(out.parent_path()), fs::directory_iterator()) == 1);
}

TEST_CASE("A model's name is an identifier of its own", "[emit]") {
  CHECK(emit::model_name("resnet_50") == "resnet_50");
  CHECK(emit::model_name("") == "model");
  CHECK(emit::model_name("tsc") == "model_tsc");
  CHECK(emit::model_name("_x") == "model__x");
  CHECK(emit::model_name("50-layers \xc3\xa4.v2") == "model_50_layers____v2");
  CHECK(emit::model_name(std::string(100, 'x')) == std::string(64, 'x'));
  emit::check_model_name("gpt2");
  CHECK_THROWS_WITH(emit::check_model_name("a-b"),
                    contains_text("error TSC-E011: a model cannot be called 'a-b'") &&
                        contains_text("as in --name=a_b"));
}

TEST_CASE("A folder holds the plans of several architectures", "[emit]") {
  TemporaryFolder temporary;
  const fs::path out = temporary.path / "out";
  std::vector<program::Program> plans(2, program::sample_program());
  plans[1].archs = {"sm_120"};
  plans[1].kernels[0].name = "other_" + plans[1].kernels[0].name;
  plans[1].kernels[0].cuda.shared_bytes = 4096;
  emit::emit(plans, out.string(), {});
  std::map<std::string, std::string> files = files_of(out);
  CHECK(files["model.cpp"].find("{\"sm_90\", 0, &plan_0::kTables},") != std::string::npos);
  CHECK(files["model.cpp"].find("{\"sm_120\", 4096, &plan_1::kTables},") != std::string::npos);
  // Units of kernels that both have, that the first alone has, and the second.
  CHECK(files["sources.cmake"].find("set(TSC_PROGRAM_ARCHS sm_90 sm_120)") != std::string::npos);
  for (const char *archs : {"_ARCHS sm_90 sm_120)", "_ARCHS sm_90)", "_ARCHS sm_120)"})
    CHECK(files["sources.cmake"].find(archs) != std::string::npos);
  const std::vector<program::Program> read = emit::read_emitted_plans(out.string());
  REQUIRE(read.size() == 2);
  CHECK(program::to_json(read[1]) == program::to_json(plans[1]));

  plans[1].outputs.pop_back();
  CHECK_THROWS_AS(emit::emit(plans, out.string(), {}), support::InternalError);
  plans[1] = plans[0];
  plans[1].archs = {"sm_80"};
  plans[1].kernels[0].cuda.text.insert(0, "// from elsewhere\n");
  emit::emit(plans, out.string(), {});
  CHECK(files_of(out).count("kernels/" + plans[0].kernels[0].name + "_2.cu") == 0);
  plans[1].kernels[0].cuda.text += "// another\n";
  emit::emit(plans, out.string(), {});
  CHECK(files_of(out).count("kernels/" + plans[0].kernels[0].name + "_2.cu") == 1);
}

TEST_CASE("The same program gives the same bytes", "[emit]") {
  TemporaryFolder temporary;
  emit::emit(program::sample_program(), (temporary.path / "a").string(), {});
  emit::emit(program::sample_program(), (temporary.path / "b").string(), {});
  CHECK(files_of(temporary.path / "a") == files_of(temporary.path / "b"));
}

TEST_CASE("Only an empty folder and tsc's own are taken", "[emit]") {
  TemporaryFolder temporary;
  fs::path out = temporary.path / "out";
  fs::create_directory(out);
  CHECK(error_of_emit(out).empty());                // empty
  CHECK(error_of_emit(out.string() + "/").empty()); // tsc's own

  fs::path other = temporary.path / "other";
  fs::create_directory(other);
  std::ofstream(other / "thesis.txt") << "years of work";
  CHECK(error_of_emit(other) == "error TSC-E001: there is something that tsc did not write\n  at " +
                                    fs::canonical(other).string() +
                                    "\n  next: choose another folder with -o, or remove this one");
  CHECK(read_text(other / "thesis.txt") == "years of work");
  CHECK(error_of_emit(other / "thesis.txt").find("TSC-E001") != std::string::npos);
  CHECK(error_of_emit("/proc/out").find("TSC-E002: cannot write: ") != std::string::npos);
}

TEST_CASE("Names of any bytes stay inside their literals and comments", "[emit]") {
  TemporaryFolder temporary;
  program::Program program = program::sample_program();
  std::string hostile = "a\"b\\\n*/ \xff?\?/";
  program.steps[1].name = hostile;
  program.buffers[0].name = hostile;
  program.kernels[0].plan = hostile;
  program.outputs[1].text = hostile;
  emit::emit(program, (temporary.path / "out").string(), {});
  std::string model = read_text(temporary.path / "out" / "model.cpp");
  CHECK(model.find("\"a\\042b\\134\\012*/ \\377\\077\\077/\"") != std::string::npos);
  std::string command =
      std::string(TSC_TEST_CXX) + " -std=c++17 -Wall -Wextra -Werror -fsyntax-only -I" +
      (temporary.path / "out").string() + " " + (temporary.path / "out" / "model.cpp").string();
  CHECK(std::system(command.c_str()) == 0);
}

TEST_CASE("Missing weights are named before anything is written", "[emit]") {
  TemporaryFolder temporary;
  tensor::TensorMap weights;
  weights["layer.w"] = tensor::HostTensor(tensor::DType::f32, {4, 3});
  emit::EmitOptions options;
  options.weights = &weights;
  CHECK_THROWS_WITH(
      emit::emit(program::sample_program(), (temporary.path / "out").string(), options),
      contains_text("error TSC-E003: weight \"layer.bias\" is missing") &&
          contains_text("weight \"layer.count\" is missing"));
  CHECK(fs::is_empty(temporary.path));
}

TEST_CASE("The tables say which version of the engine they are for", "[emit]") {
  TemporaryFolder temporary;
  const fs::path out = temporary.path / "out";
  emit::emit(program::sample_program(), out.string(), {});
  const std::string command = std::string(TSC_TEST_CXX) + " -std=c++17 -fsyntax-only -I" +
                              out.string() + " " + (out / "model.cpp").string() + " 2> " +
                              (temporary.path / "errors").string();
  CHECK(std::system(command.c_str()) == 0);
  std::string header = read_text(out / "tsc_model.h");
  const std::string version = "#define TSC_ABI_VERSION " + std::to_string(TSC_ABI_VERSION) + "u";
  REQUIRE(header.find(version) != std::string::npos);
  std::ofstream(out / "tsc_model.h")
      << header.replace(header.find(version), version.size(), "#define TSC_ABI_VERSION 99u");
  CHECK(std::system(command.c_str()) != 0);
  CHECK(read_text(temporary.path / "errors")
            .find("TSC-E007: these tables and the engine are of two versions of tsc") !=
        std::string::npos);
}

TEST_CASE("CMake names what a folder lacks", "[emit]") {
  TemporaryFolder temporary;
  const fs::path out = temporary.path / "out";
  emit::emit(program::sample_program(), out.string(), {});
  fs::remove(out / "engine" / "packer.h");
  const std::string command = std::string(TSC_TEST_CMAKE) + " -G Ninja -S " + out.string() +
                              " -B " + (temporary.path / "build").string() +
                              " -DTSC_DEVICE=host > " + (temporary.path / "log").string() + " 2>&1";
  CHECK(std::system(command.c_str()) != 0);
  CHECK(read_text(temporary.path / "log").find("TSC-E005: the folder lacks engine/packer.h") !=
        std::string::npos);
}

TEST_CASE("A folder that is planned for the host builds for it where there is CUDA too", "[emit]") {
  TemporaryFolder temporary;
  const fs::path out = temporary.path / "out";
  program::Program program = program::sample_program();
  program.archs = {"host"};
  emit::emit(program, out.string(), {});
  const auto configure = [&](const std::string &options) {
    const std::string command = std::string(TSC_TEST_CMAKE) + " -G Ninja -S " + out.string() +
                                " -B " + (temporary.path / "build").string() + options + " > " +
                                (temporary.path / "log").string() + " 2>&1";
    return std::system(command.c_str()) == 0;
  };
  CHECK(configure(""));
  CHECK(read_text(temporary.path / "log").find("Device: host") != std::string::npos);
#ifdef TSC_WITH_CUDA
  CHECK_FALSE(configure(" -DTSC_DEVICE=cuda"));
  CHECK(read_text(temporary.path / "log").find("TSC-E008: the program is planned for the host") !=
        std::string::npos);
  CHECK(configure(" -DTSC_DEVICE=cuda -DTSC_ARCHS=sm_90"));
#endif
}
