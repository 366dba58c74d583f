// tsc compile -o NAME.tsc: one file that runs without a compiler.
#include "tsc_process.h"

#include "tensor/stored_zip.h"
#include "tensor/zip_archive.h"

#include "testing/catch.h"

#include <cstdlib>
#include <filesystem>
#include <memory>

using namespace tsc;
using testing::Outcome;
using testing::Workplace;

namespace {

const std::string kNoCompiler = "export PATH=/nonexistent CXX=/nonexistent";

Workplace &with_files(Workplace &place) {
  place.file("linear.json", testing::linear_graph());
  place.tensors("x.npz", {{"x", testing::ramp({2, 4}, 0, 1)}});
  place.tensors("w.safetensors", {{"fc.weight", testing::ramp({3, 4}, 0, 0.5)},
                                  {"fc.bias", testing::ramp({3}, 1, 0)}});
  return place;
}

} // namespace

TEST_CASE("a package runs without a compiler, with its weights or others") {
  Workplace place;
  with_files(place);
  Outcome outcome = place.run(
      {"compile", "linear.json", "--arch=host", "--weights=w.safetensors", "-o", "linear.tsc"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  REQUIRE(std::filesystem::is_regular_file(place.path("linear.tsc")));
  REQUIRE(place
              .run({"run", "linear.json", "--device=reference", "--inputs=x.npz",
                    "--weights=w.safetensors", "--outputs=y.npz"})
              .exit_code == 0);
  const std::vector<std::string> run = {
      "run", "linear.tsc", "--device=host", "--inputs=x.npz", "--no-cache", "--expect=y.npz"};
  outcome = place.run_after(kNoCompiler, run);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.find("(0 compiled, 1 from the cache)") != std::string::npos);
  // The same graph needs one.
  CHECK(place
            .run_after(kNoCompiler, {"run", "linear.json", "--device=host", "--inputs=x.npz",
                                     "--weights=w.safetensors", "--no-cache"})
            .err.find("TSC-R010") != std::string::npos);

  REQUIRE(place
              .run({"compile", "linear.json", "--arch=host", "--weights-from=w.safetensors", "-o",
                    "bare.tsc"})
              .exit_code == 0);
  CHECK(place.run({"run", "bare.tsc", "--device=host", "--inputs=x.npz"}).exit_code == 3);
  CHECK(place
            .run({"run", "bare.tsc", "--device=host", "--inputs=x.npz",
                  "--weights-from=w.safetensors", "--expect=y.npz"})
            .exit_code == 0);
  CHECK(place.run({"compile", "linear.json", "--arch=host", "--weights-from=x.npz", "-o", "no.tsc"})
            .exit_code == 3);
  CHECK_FALSE(std::filesystem::exists(place.path("no.tsc")));
}

TEST_CASE("what is no package of tsc's is left alone, and a broken one is refused") {
  Workplace place;
  with_files(place);
  place.file("other.tsc", "somebody's");
  const std::vector<std::string> compile = {"compile", "linear.json", "--arch=host",
                                            "--weights=w.safetensors", "-o"};
  const auto to = [&](const std::string &name) {
    std::vector<std::string> arguments = compile;
    arguments.push_back(name);
    return place.run(arguments);
  };
  CHECK(to("other.tsc").err == "error TSC-E070: there is something that tsc did not write\n  at "
                               "other.tsc\n  next: choose another name with -o, or remove this\n");
  CHECK(testing::read_text(place.path("other.tsc")) == "somebody's");
  REQUIRE(to("one.tsc").exit_code == 0);
  REQUIRE(to("two.tsc").exit_code == 0);
  std::string bytes = testing::read_text(place.path("one.tsc"));
  CHECK(bytes == testing::read_text(place.path("two.tsc"))); // the same graph, the same bytes
  REQUIRE(to("one.tsc").exit_code == 0);                     // replaced
  for (const size_t cut : {bytes.size() / 2, bytes.size() - 30, size_t{100}}) {
    place.file("cut.tsc", bytes.substr(0, cut));
    CHECK(place.run({"run", "cut.tsc", "--device=host", "--inputs=x.npz"}).exit_code == 3);
  }
}

namespace {

struct Member {
  std::string name, bytes;
};

/// What a package holds, to be written anew with something else in it.
std::vector<Member> members_of(const std::string &path) {
  const auto bytes = std::make_shared<std::string>(testing::read_text(path));
  const tensor::ZipArchive archive(
      {bytes, reinterpret_cast<const std::byte *>(bytes->data()), bytes->size()}, path);
  std::vector<Member> members;
  for (const tensor::ZipArchive::Member &member : archive.members())
    members.push_back({member.name, std::string(archive.read(member).text())});
  return members;
}

void write(const std::string &path, const std::vector<Member> &members) {
  tensor::StoredZip zip(path);
  for (const Member &member : members)
    zip.add(member.name, member.bytes);
  zip.close();
}

} // namespace

TEST_CASE("a package whose code is of elsewhere is compiled anew, or says why it cannot run") {
  Workplace place;
  with_files(place);
  REQUIRE(place
              .run({"compile", "linear.json", "--arch=host", "--weights=w.safetensors", "-o",
                    "linear.tsc"})
              .exit_code == 0);
  const std::vector<std::string> run = {"run", "changed.tsc", "--device=host", "--inputs=x.npz",
                                        "--no-cache"};
  const auto check = [&](const std::string &what, const std::string &with, const std::string &why) {
    std::vector<Member> members = members_of(place.path("linear.tsc"));
    const size_t at = members[0].bytes.find(what);
    REQUIRE(at != std::string::npos);
    members[0].bytes.replace(at, what.size(), with);
    write(place.path("changed.tsc"), members);
    const Outcome alone = place.run_after(kNoCompiler, run);
    INFO(alone.err);
    CHECK(alone.exit_code == 5);
    CHECK(alone.err.find("TSC-R032: the package's code cannot be used here: " + why) !=
          std::string::npos);
    CHECK(place.run(run).exit_code == 0); // compiled from its text
  };
  check("\"target\": \"", "\"target\": \"other_", "it is for other_");
  check("\"identity\": \"", "\"identity\": \"0", "it is of other kernels");
  // The same name, other code.
  std::vector<Member> members = members_of(place.path("linear.tsc"));
  for (Member &member : members)
    if (member.name.find("unit_0") != std::string::npos)
      member.bytes = "no library";
  write(place.path("changed.tsc"), members);
  CHECK(place.run_after(kNoCompiler, run).err.find("TSC-R032") != std::string::npos);
}

TEST_CASE("two packages in one program") {
  Workplace place;
  place.file("first.json", testing::linear_graph());
  std::string second = testing::linear_graph();
  for (size_t at; (at = second.find("[2, 4]")) != std::string::npos;)
    second.replace(at, 6, "[2, 3]");
  for (size_t at; (at = second.find("[3, 4]")) != std::string::npos;)
    second.replace(at, 6, "[3, 3]");
  place.file("second.json", second);
  place.tensors("first.safetensors", {{"fc.weight", testing::ramp({3, 4}, 0, 0.5)},
                                      {"fc.bias", testing::ramp({3}, 1, 0)}});
  place.tensors("second.safetensors", {{"fc.weight", testing::ramp({3, 3}, 0, 1)},
                                       {"fc.bias", testing::ramp({3}, 0, 0)}});
  place.tensors("bias.safetensors", {{"fc.bias", testing::ramp({3}, 100, 0)}});
  for (const std::string name : {"first", "second"}) {
    const Outcome outcome = place.run({"compile", name + ".json", "--arch=host",
                                       "--weights=" + name + ".safetensors", "-o", name + ".tsc"});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
  }
  const std::string command = "cd " + place.path("") + " && PATH=/nonexistent CXX=/nonexistent " +
                              std::string(TSC_TWO_PACKAGES) +
                              " first.tsc second.tsc bias.safetensors > out.txt 2> err.txt";
  CHECK(std::system(command.c_str()) == 0);
  INFO(testing::read_text(place.path("err.txt")));
  CHECK(testing::read_text(place.path("out.txt")) == "first: 8 20 32 20 64 108\n"
                                                     "second: 84 264 444 280 856 1432\n"
                                                     "other weights: 184 364 544 380 956 1532\n"
                                                     "status 2: error TSC-C009\n"
                                                     "status 2: error TSC-C009\n"
                                                     "status 3\n");
}
