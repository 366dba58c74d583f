#include "pickle_bytes.h"
#include "support/diagnostic.h"
#include "tensor/host_tensor.h"
#include "testing/catch.h"

#include <cstring>
#include <random>

using namespace tsc::tensor;
using namespace tsc::testing;
using namespace std::string_literals;
using tsc::support::ExitCode;
using tsc::support::UserError;

namespace {

/// Floats 0, 1, ..., count - 1.
std::string floats(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    float value = static_cast<float>(i);
    bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
  }
  return bytes;
}

TensorMap parse(const std::string &bytes) {
  auto owner = std::make_shared<std::string>(bytes);
  return parse_tensors(owner, *owner, "t.pt");
}

/// What reading a file of this pickle and one storage of 6 floats reports.
std::string report(const std::string &pickle_text, ExitCode code = ExitCode::bad_input) {
  try {
    parse(pickle::file(pickle_text, {floats(6)}));
  } catch (const UserError &error) {
    CHECK(error.exit_code() == code);
    return error.what();
  }
  return "nothing";
}

std::string one(const std::string &value) { return pickle::dictionary({{"w", value}}); }

} // namespace

TEST_CASE("a dict of tensors as torch.save writes it") {
  std::string shared = pickle::storage("0", 6);
  std::string weight = pickle::tensor(shared, {2, 3}, {3, 1});
  std::string parameter = pickle::call("torch._utils", "_rebuild_parameter",
                                       {pickle::tensor(shared, {2}, {2}, 1), "\x88",
                                        pickle::call("collections", "OrderedDict", {})});
  std::string half = pickle::call(
      "torch._utils", "_rebuild_tensor_v3",
      {pickle::tuple({pickle::text("storage"), pickle::function("torch.storage", "UntypedStorage"),
                      pickle::text("1"), pickle::text("cuda:0"), pickle::integer(4)}) +
           "Q",
       pickle::integer(1), pickle::integers({1}), pickle::integers({1}), "\x89",
       pickle::call("collections", "OrderedDict", {}), pickle::function("torch", "float16")});
  std::string empty = pickle::tensor(pickle::storage("7", 0), {0, 3}, {3, 1});
  TensorMap tensors = parse(
      pickle::file(pickle::dictionary({{"a", weight}, {"b", parameter}, {"c", half}, {"e", empty}}),
                   {floats(6), std::string("\0\x3c\0\xc0", 4)}));
  REQUIRE(tensors.size() == 4);
  CHECK(tensors.at("a").sizes() == std::vector<int64_t>{2, 3});
  CHECK(tensors.at("a").get_double(4) == 4.0);
  CHECK(tensors.at("b").strides() == std::vector<int64_t>{2});
  CHECK(tensors.at("b").get_double(1) == 3.0);
  CHECK(tensors.at("c").dtype() == DType::f16);
  CHECK(tensors.at("c").get_double(0) == -2.0);
  CHECK(tensors.at("e").numel() == 0);
}

TEST_CASE("newer pickle protocols say the same") {
  // Protocol 4: a frame, short texts, names from the stack, the memo by counting.
  auto text = [](const std::string &value) {
    return "\x8c"s + static_cast<char>(value.size()) + value + "\x94";
  };
  auto name = [&](const std::string &module, const std::string &function) {
    return text(module) + text(function) + "\x93\x94";
  };
  std::string storage = "(" + text("storage") + name("torch", "LongStorage") + text("0") +
                        text("cpu") + "K\x03t\x94Q";
  std::string tensor = name("torch._utils", "_rebuild_tensor_v2") + "(" + storage +
                       "K\0K\x03\x85\x94K\x01\x85\x94\x89"s + name("collections", "OrderedDict") +
                       ")R\x94t\x94R\x94";
  std::string pickle_text =
      "\x80\x04\x95"s + std::string(8, '\0') + "}\x94(" + text("n") + tensor + "u.";
  std::string numbers(24, '\0');
  numbers[16] = 5;
  TensorMap tensors = parse(pickle::file(pickle_text, {numbers}));
  CHECK(tensors.at("n").dtype() == DType::i64);
  CHECK(tensors.at("n").get_int64(2) == 5);
}

TEST_CASE("a pickle that wants more than tensors is refused, and nothing of it is run") {
  CHECK(report("\x80\x02" + pickle::call("os", "system", {pickle::text("touch x")}) + ".",
               ExitCode::unsupported) ==
        "error TSC-T041: the pickle is no dict of plain tensors: it names 'os.system'\n"
        "  at t.pt: archive/data.pkl: byte 2\n"
        "  next: nothing of it was run; save a dict of plain tensors, or write .safetensors");
  auto refused = [](const std::string &pickle_text) {
    std::string text = report(pickle_text, ExitCode::unsupported);
    const std::string start = "error TSC-T041: the pickle is no dict of plain tensors: ";
    REQUIRE(text.find(start) == 0);
    return text.substr(start.size(), text.find('\n') - start.size());
  };
  CHECK(refused("\x80\x02K\x01.") == "it holds no dict of tensors");
  CHECK(refused(one("K\x01")) == "'w' is no tensor");
  CHECK(refused(std::string("\x80\x02") + "iposix\nsystem\n.") == "opcode 0x69");
  CHECK(refused("\x80\x01.") == "pickle protocol 1");
  CHECK(refused("\x80\x02\x8a\x09.........") == "an integer of more than 64 bits");
  CHECK(refused(one(pickle::call("torch._utils", "_rebuild_tensor_v2", {}))) ==
        "it calls 'torch._utils _rebuild_tensor_v2' with 0 arguments");
  CHECK(refused(one(pickle::integer(1) + ")R")) == "it calls what is no function");
  CHECK(refused(one(pickle::tensor(pickle::tuple({pickle::text("x")}) + "Q", {1}, {1}))) ==
        "a persistent id that is no storage");
  CHECK(refused(one(pickle::tensor(pickle::storage("0", 1, "float16"), {1}, {1}))) ==
        "a storage of the type 'torch float16'");
  CHECK(refused(one(pickle::tensor(pickle::storage(std::string(65, '0'), 1), {1}, {1}))) ==
        "a storage's name of 65 bytes");
  CHECK(refused("\x80\x02K\x01}b.") == "it sets the state of an object");
  CHECK(refused("\x80\x02" + std::string(3000000, 'N')) == "it has more than 2097152 items");
  CHECK(refused("\x80\x02K\x01" + std::string(1000000, '\x85') + ".") ==
        "it holds no dict of tensors"); // nested a million deep
}

TEST_CASE("damaged pickles say where") {
  CHECK(report("\x80\x02}") == "error TSC-T040: the pickle is damaged: it breaks off\n"
                               "  at t.pt: archive/data.pkl: byte 3\n"
                               "  next: save the file again with torch.save");
  auto damaged = [](const std::string &pickle_text) {
    std::string text = report(pickle_text);
    const std::string start = "error TSC-T040: the pickle is damaged: ";
    REQUIRE(text.find(start) == 0);
    return text.substr(start.size(), text.find('\n') - start.size());
  };
  CHECK(damaged("\x80\x02.") == "its stack runs empty");
  CHECK(damaged("\x80\x02t.") == "it has no mark");
  CHECK(damaged("\x80\x02h\x05.") == "it uses what it has not stored");
  CHECK(damaged("\x80\x02K\x01K\x02"
                "a.") == "it adds items to something else than a list or a dict");
  CHECK(damaged(one(pickle::tensor("N", {1}, {1}))) == "a tensor has no storage");
  CHECK(damaged(one(pickle::tensor(pickle::storage("0", 6), {2, 3}, {1}))) ==
        "a tensor of 2 sizes has 1 strides");
  CHECK(damaged(pickle::dictionary({{"w", pickle::tensor(pickle::storage("0", 6), {1}, {1})},
                                    {"w", pickle::tensor(pickle::storage("0", 6), {1}, {1})}})) ==
        "'w' stands in the dict twice");
  CHECK(damaged("\x80\x02}(K\x01K\x02u.") == "a text is expected");
  CHECK(damaged(one(pickle::tensor(pickle::storage("0", 6), std::vector<int64_t>(65, 1),
                                   std::vector<int64_t>(65, 1)))) ==
        "a tuple of at most 64 items is expected");
  CHECK(damaged(one(pickle::call("torch._utils", "_rebuild_tensor_v2",
                                 {pickle::storage("0", 6), pickle::text("x"), "N", "N", "N",
                                  "N"}))) == "an integer is expected");
  CHECK(damaged(one(pickle::call("torch._utils", "_rebuild_tensor_v3",
                                 {pickle::storage("0", 6), "N", "N", "N", "N", "N", "N"}))) ==
        "a dtype is expected");
}

TEST_CASE("storages that are missing, too short or reached from afar") {
  CHECK(report(one(pickle::tensor(pickle::storage("1", 6), {6}, {1}))) ==
        "error TSC-T042: the archive lacks the storage of 'w'\n  at t.pt: archive/data/1\n"
        "  next: save the file again; it may be damaged");
  CHECK(report(one(pickle::tensor(pickle::storage("../data.pkl", 6), {6}, {1})))
            .find("error TSC-T042: the archive lacks the storage of 'w'") == 0);
  CHECK(report(one(pickle::tensor(pickle::storage("0", 7), {7}, {1}))) ==
        "error TSC-T042: the tensor 'w' needs 28 bytes, its storage has 24\n"
        "  at t.pt: archive/data/0\n  next: save the file again; it may be damaged");
  for (const std::string &tensor :
       {pickle::tensor(pickle::storage("0", 6), {-1}, {1}),
        pickle::tensor(pickle::storage("0", 6), {2}, {-1}),
        pickle::tensor(pickle::storage("0", 6), {2}, {1}, -1),
        pickle::tensor(pickle::storage("0", 6), {2}, {1}, INT64_MAX),
        pickle::tensor(pickle::storage("0", 6), {INT64_MAX}, {3}),
        pickle::tensor(pickle::storage("0", 6), {int64_t{1} << 40, int64_t{1} << 40}, {0, 0})})
    CHECK(report(one(tensor)) ==
          "error TSC-T042: the tensor 'w' has sizes, strides or an offset that are negative or "
          "leave 64 bits\n  at t.pt\n  next: save the file again; it may be damaged");
  CHECK(report(one(pickle::tensor(pickle::storage("0", 6), {1 << 20, 1 << 20}, {0, 0}))) ==
        "error TSC-T042: the tensor 'w' repeats 24 stored bytes as 4398046511104\n"
        "  at t.pt: archive/data/0\n  next: save the file again; it may be damaged");
  try {
    parse(pickle::file(one(pickle::tensor(pickle::storage("0", 6), {6}, {1})), {floats(6)}, "big"));
    FAIL("no error");
  } catch (const UserError &error) {
    CHECK(std::string(error.what()) == "error TSC-T043: the file's numbers are not little-endian\n"
                                       "  at t.pt: archive/byteorder\n"
                                       "  next: save it on a little-endian machine");
  }
}

TEST_CASE("no change of a pickle does more than fail") {
  std::string good =
      pickle::dictionary({{"a", pickle::tensor(pickle::storage("0", 6), {2, 3}, {3, 1})},
                          {"b", pickle::tensor(pickle::storage("0", 6), {6}, {1})}});
  for (size_t length = 0; length < good.size(); ++length)
    CHECK_THROWS_AS(parse(pickle::file(good.substr(0, length), {floats(6)})), UserError);
  std::mt19937 random(1);
  size_t read = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string changed = good;
    for (int k = 0; k < 3; ++k)
      changed[random() % changed.size()] = static_cast<char>(random());
    try {
      read += parse(pickle::file(changed, {floats(6)})).size();
    } catch (const UserError &) {
    }
  }
  CHECK(read > 0);
}

TEST_CASE("checksums of stored members") {
  std::vector<ZipMember> members = {
      {"archive/data.pkl", one(pickle::tensor(pickle::storage("0", 6), {6}, {1}))},
      {"archive/data/0", floats(6)}};
  members[1].checksum = 1;
  CHECK_THROWS_WITH(
      parse(zip_bytes(members)),
      "error TSC-T011: the zip member's checksum is wrong\n  at t.pt: archive/data/0\n"
      "  next: write the file again; it may be damaged");
  members[1].checksum = 0;
  members[0].checksum = 1;
  CHECK_THROWS_WITH(
      parse(zip_bytes(members)),
      "error TSC-T011: the zip member's checksum is wrong\n  at t.pt: archive/data.pkl\n"
      "  next: write the file again; it may be damaged");
  members[0].checksum = 0;
  members[1].payload.resize((1 << 20) + 1); // mapped, not touched
  members[1].checksum = 1;
  CHECK(parse(zip_bytes(members)).at("w").get_double(5) == 5.0);
}
