#include "../tensor/pickle_bytes.h"
#include "files.h"
#include "graph/read.h"
#include "support/diagnostic.h"
#include "tensor/zip_archive.h"
#include "testing/catch.h"

#include <cstring>

using namespace tsc::graph;
using tsc::support::UserError;
using tsc::tensor::HostTensor;
using tsc::testing::file_text;
using tsc::testing::replaced;
using tsc::testing::source_path;
using tsc::testing::zip_bytes;
using tsc::testing::ZipMember;

namespace {

/// The members of an archive, to be changed and packed again.
std::vector<ZipMember> members_of(const std::string &bytes) {
  tsc::tensor::ZipArchive archive(
      {nullptr, reinterpret_cast<const std::byte *>(bytes.data()), bytes.size()}, "archive");
  std::vector<ZipMember> members;
  for (const auto &member : archive.members())
    members.push_back({member.name, std::string(archive.read(member).text())});
  return members;
}
std::vector<ZipMember> tiny_members() { return members_of(file_text("tests/graph/data/tiny.pt2")); }

ZipMember &find(std::vector<ZipMember> &members, const std::string &ending) {
  for (ZipMember &member : members)
    if (member.name.size() >= ending.size() &&
        member.name.compare(member.name.size() - ending.size(), ending.size(), ending) == 0)
      return member;
  throw std::runtime_error("no member " + ending);
}

std::string report(const std::vector<ZipMember> &members) {
  try {
    parse_graph(zip_bytes(members), "m.pt2");
  } catch (const UserError &error) {
    return error.what();
  }
  return "nothing";
}

} // namespace

TEST_CASE("weights of an archive are mapped views") {
  Graph graph = read_graph(source_path("tests/graph/data/tiny.pt2"));
  CHECK(graph.weights.size() == 10);
  const HostTensor &tied = graph.weights.at("first.weight");
  CHECK(tied.sizes() == std::vector<int64_t>{5, 3});
  CHECK(tied.data() == graph.weights.at("second.weight").data());
  CHECK_FALSE(tied.writable());
  const HostTensor &strided = graph.weights.at("strided");
  CHECK(strided.sizes() == std::vector<int64_t>{4, 3});
  CHECK(strided.strides() == std::vector<int64_t>{1, 4});
  CHECK(strided.get_double(1) == 4.0);
  const HostTensor &sliced = graph.weights.at("sliced");
  CHECK(sliced.get_double(0) == 4.0);
  CHECK(sliced.get_double(5) == 9.0);
  CHECK(graph.weights.at("wide").dtype() == DType::bf16);
  CHECK(graph.weights.at("wide").get_double(8) == 1.0);
  CHECK(graph.weights.at("count").numel() == 5); // not persistent: among the constants
  CHECK(graph.weights.at("constant").get_double(2) == 3.0);
  CHECK(graph.weights.at("lifted_tensor_0").get_double(0) == 3.0);
  CHECK(graph.inputs[7].kind == InputKind::buffer);
  CHECK(graph.inputs[7].target == "count");
  CHECK_FALSE(graph.inputs[7].persistent);
  CHECK(graph.inputs[11].constant == Argument(3));
  CHECK(graph.inputs[12].constant == Argument(true));
}

TEST_CASE("an archive packed without alignment gives the same weights") {
  std::vector<ZipMember> members = tiny_members();
  Graph packed = parse_graph(zip_bytes(members), "packed");
  Graph graph = read_graph(source_path("tests/graph/data/tiny.pt2"));
  CHECK(to_text(packed) == to_text(graph));
  for (const auto &entry : graph.weights) {
    INFO(entry.first);
    HostTensor a = entry.second.contiguous(), b = packed.weights.at(entry.first).contiguous();
    CHECK(reinterpret_cast<uintptr_t>(b.data()) % tsc::tensor::size_in_bytes(b.dtype()) == 0);
    CHECK(std::memcmp(a.data(), b.data(), a.size_in_bytes()) == 0);
  }
}

TEST_CASE("older and foreign archives say how to save again") {
  CHECK(report({{"serialized_exported_program.json", "{}"}, {"version", "7"}})
            .find("error TSC-G021: the archive was written by PyTorch 2.7 or older\n"
                  "  at m.pt2: serialized_exported_program.json\n"
                  "  next: load it with the PyTorch that wrote it and save it again") == 0);
  CHECK(report({{"m/data.pkl", ""}, {"m/constants.pkl", ""}, {"m/code/m.py", ""}}) ==
        "error TSC-G021: this is a TorchScript file, not an exported program\n"
        "  at m.pt2: m/constants.pkl\n"
        "  next: export the model that it was made from: "
        "torch.export.save(torch.export.export(model, inputs), 'model.pt2')");
  CHECK_THROWS_WITH(
      parse_graph("\x80\x02\x8a\nl\xfc\x9c", "old.pt"),
      "error TSC-G021: this is a pickled PyTorch file, not an exported program\n  at old.pt\n"
      "  next: export the model: "
      "torch.export.save(torch.export.export(model, inputs), 'model.pt2')");
  CHECK(
      report({{"model/data.pkl", ""}})
          .find("error TSC-G021: this is a pickled PyTorch file, not an exported program\n"
                "  at m.pt2: model/data.pkl\n"
                "  next: export the model: torch.export.save(torch.export.export(model, inputs)") ==
      0);
  // What AOTInductor packs.
  CHECK(report({{"m/archive_format", "pt2"},
                {"m/byteorder", "little"},
                {"m/data/aotinductor/model/m.so", "ELF"}}) ==
        "error TSC-G022: the archive holds no exported program\n  at m.pt2: m/models/\n"
        "  next: write it with torch.export.save");
  CHECK(report({{"readme", ""}}) ==
        "error TSC-G001: this zip archive is no exported program\n  at m.pt2\n"
        "  next: give an archive written by torch.export.save");
}

TEST_CASE("archives that lack or contradict something") {
  std::vector<ZipMember> members = tiny_members();
  find(members, "/weight_1").payload.resize(56);
  CHECK(report(members) ==
        "error TSC-G023: the tensor 'first.weight' needs 60 bytes, its member has 56\n"
        "  at m.pt2: tiny/data/weights/model_weights_config.json: tiny/data/weights/weight_1\n"
        "  next: save the model again; the archive may be damaged\n"
        "error TSC-G023: the tensor 'second.weight' needs 60 bytes, its member has 56\n"
        "  at m.pt2: tiny/data/weights/model_weights_config.json: tiny/data/weights/weight_1\n"
        "  next: save the model again; the archive may be damaged");

  members = tiny_members();
  find(members, "/weight_1").name = "tiny/data/weights/elsewhere";
  CHECK(report(members).find(
            "error TSC-G022: the archive lacks the member 'tiny/data/weights/weight_1'") == 0);

  members = tiny_members();
  ZipMember &config = find(members, "weights_config.json");
  config.payload = replaced(config.payload, "\"first.weight\"", "\"other.weight\"");
  CHECK(report(members) ==
        "error TSC-G023: the archive holds no tensor for 'first.weight'\n"
        "  at m.pt2 (node p_first_weight)\n  next: save the model again with torch.export.save");

  members = tiny_members();
  ZipMember &strides = find(members, "weights_config.json");
  strides.payload =
      replaced(strides.payload, R"("strides": [{"as_int": 3})", R"("strides": [{"as_int": -3})");
  CHECK(report(members).find("error TSC-G013: a tensor has the negative stride -3") == 0);

  members = tiny_members();
  ZipMember &pickled = find(members, "constants_config.json");
  pickled.payload = replaced(pickled.payload, "\"use_pickle\": false", "\"use_pickle\": true");
  CHECK(
      report(members) ==
      "error TSC-G024: the tensor 'constant' is pickled: it is a tensor subclass\n"
      "  at m.pt2: tiny/data/constants/model_constants_config.json: tiny/data/constants/tensor_0\n"
      "  next: turn it into a plain tensor before export");

  members = tiny_members();
  members.push_back({"tiny/models/second.json", "{}"});
  CHECK(report(members).find("error TSC-G025: the archive holds several programs: model, second") ==
        0);

  members = tiny_members();
  find(members, "/byteorder").payload = "big";
  CHECK(report(members).find("error TSC-G022: the archive's numbers are not little-endian") == 0);
}

TEST_CASE("archives that are damaged or made to mislead") {
  std::vector<ZipMember> members = tiny_members();
  find(members, "/weight_1").checksum = 1;
  CHECK(report(members).find("error TSC-T011: the zip member's checksum is wrong\n"
                             "  at m.pt2: tiny/data/weights/weight_1\n") == 0);

  members = tiny_members();
  find(members, "models/model.json").checksum = 1;
  CHECK(report(members) == "error TSC-T011: the zip member's checksum is wrong\n"
                           "  at m.pt2: tiny/models/model.json\n"
                           "  next: write the file again; it may be damaged");

  members = tiny_members();
  ZipMember &escaping = find(members, "weights_config.json");
  escaping.payload = replaced(escaping.payload, "\"path_name\": \"weight_0\"",
                              "\"path_name\": \"../../../etc/passwd\"");
  CHECK(report(members).find("error TSC-G022: the archive lacks the member "
                             "'tiny/data/weights/../../../etc/passwd'\n"
                             "  at m.pt2: tiny/data/weights/model_weights_config.json\n"
                             "  next: save the model again with torch.export.save") == 0);

  members = tiny_members();
  find(members, "weights_config.json").name = "tiny/data/weights/other_weights_config.json";
  CHECK(report(members) == "error TSC-G022: the archive lacks the member "
                           "'tiny/data/weights/model_weights_config.json'\n"
                           "  at m.pt2\n  next: save the model again with torch.export.save");

  members = tiny_members();
  ZipMember &dtype = find(members, "weights_config.json");
  dtype.payload = replaced(dtype.payload, "\"dtype\": 7", "\"dtype\": 5");
  CHECK(report(members).find("needs ") != std::string::npos);
  dtype.payload = replaced(dtype.payload, "\"dtype\": 5", "\"dtype\": 6");
  CHECK(report(members).find("' has another dtype or shape than the graph says\n"
                             "  at m.pt2 (node ") != std::string::npos);

  members = tiny_members();
  ZipMember &twice = find(members, "constants_config.json");
  twice.payload = replaced(twice.payload, "\"constant\"", "\"first.weight\"");
  CHECK(report(members).find("error TSC-G011: the name 'first.weight' is given twice\n"
                             "  at m.pt2: tiny/data/constants/model_constants_config.json: "
                             "tiny/data/constants/") == 0);

  members = tiny_members();
  members.push_back({"second/archive_format", "pt2"});
  CHECK(report(members) == "error TSC-G022: the archive has several root folders\n"
                           "  at m.pt2: second/archive_format\n"
                           "  next: save the model again with torch.export.save");
}

TEST_CASE("a stored value that repeats without end is no weight") {
  std::vector<ZipMember> members = tiny_members();
  ZipMember &config = find(members, "weights_config.json");
  size_t at = config.payload.find("\"sizes\": [");
  size_t end = config.payload.find("\"layout\"", at);
  config.payload.replace(
      at, end - at,
      R"("sizes": [{"as_int": 1048576}, {"as_int": 1048576}], "requires_grad": false,
         "device": {"type": "cpu", "index": null}, "strides": [{"as_int": 0}, {"as_int": 0}],
         "storage_offset": {"as_int": 0}, )");
  std::string text = report(members);
  CHECK(text.find("error TSC-G014: the tensor repeats ") == 0);
  CHECK(text.find("  next: save the model again; the archive may be damaged") != std::string::npos);
}

TEST_CASE("sample inputs and script objects are never read") {
  std::vector<ZipMember> members = tiny_members();
  find(members, "sample_inputs/model.pt").payload = "cos\nsystem\n(X\4\0\0\0exittR.";
  CHECK(report(members) == "nothing");
  ZipMember &config = find(members, "constants_config.json");
  config.payload =
      replaced(config.payload, "{\"config\": {",
               R"({"config": {"object": {"path_name": "custom_obj_0", "is_param": false,
                               "use_pickle": true, "tensor_meta": null}, )");
  CHECK(report(members) == "nothing");
}

TEST_CASE("a program that was exported without values has no weights") {
  std::vector<ZipMember> members = tiny_members();
  find(members, "/weight_1").payload.clear(); // first.weight and second.weight
  Graph graph = parse_graph(zip_bytes(members), "m.pt2");
  CHECK(graph.weights.count("first.weight") == 0);
  CHECK(graph.weights.count("first.bias") == 1);
}

TEST_CASE("pickled weights of PyTorch 2.8 that lie") {
  namespace pickle = tsc::testing::pickle;
  const std::string path = "tests/graph/data/2.8/weights.pt2";
  auto with_weights = [&](const std::string &bytes) {
    std::vector<ZipMember> members = members_of(file_text(path));
    find(members, "data/weights/model.pt").payload = bytes;
    return report(members);
  };
  std::string evil = "\x80\x02" + pickle::call("os", "system", {pickle::text("id")}) + ".";
  CHECK(with_weights(pickle::file(evil, {})) ==
        "error TSC-T041: the pickle is no dict of plain tensors: it names 'os.system'\n"
        "  at m.pt2: weights/data/weights/model.pt: archive/data.pkl: byte 2\n"
        "  next: nothing of it was run; save a dict of plain tensors, or write .safetensors");
  CHECK(with_weights("not a zip") ==
        "error TSC-T010: the zip archive has no readable directory; it may be cut off\n"
        "  at m.pt2: weights/data/weights/model.pt\n"
        "  next: write the file again; it may be damaged");
  CHECK(with_weights(zip_bytes({{"archive/version", "3"}})) ==
        "error TSC-G022: the member is no file of torch.save\n"
        "  at m.pt2: weights/data/weights/model.pt\n"
        "  next: save the model again; the archive may be damaged");
  CHECK(with_weights(pickle::file(pickle::dictionary({}), {}))
            .find("error TSC-G023: the archive holds no tensor for 'first.weight'\n"
                  "  at m.pt2 (node p_first_weight)") != std::string::npos);
}

TEST_CASE("every prefix of an archive is an error, never a crash") {
  std::string bytes = file_text("tests/graph/data/branch.pt2");
  // The last 22 bytes repeat what the archive's 64-bit directory says.
  for (size_t length = 0; length + 22 < bytes.size(); length += 7)
    CHECK_THROWS_AS(parse_graph(bytes.substr(0, length), "m.pt2"), UserError);
}
