#include "graph/pt2_archive.h"

#include "graph/export_reader.h"
#include "graph/export_values.h"
#include "graph/json_document.h"
#include "graph/problems.h"
#include "support/text.h"

#include <algorithm>
#include <cstring>

namespace tsc::graph {

using support::Diagnostic;
using support::ExitCode;
using support::UserError;
using tensor::HostTensor;
using tensor::Payload;
using tensor::ZipArchive;

namespace {

[[noreturn]] void fail(ExitCode exit_code, const char *code, std::string message,
                       std::string member, std::string next_step) {
  throw UserError(exit_code, Diagnostic{code, std::move(message), "", std::move(member), "", "",
                                        std::move(next_step)});
}

constexpr const char *kSaveAgain =
    "load it with the PyTorch that wrote it and save it again with PyTorch 2.9 to 2.11: "
    "torch.export.save(torch.export.load(OLD), NEW)";

bool ends_with(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

std::string trimmed(std::string_view text) {
  size_t end = text.find_last_not_of(" \r\n\t");
  return std::string(text.substr(0, end == std::string_view::npos ? 0 : end + 1));
}

/// The archive with its members' common root folder known.
class Pt2Archive {
public:
  explicit Pt2Archive(const ZipArchive &zip) : zip_(zip) {
    for (const ZipArchive::Member &member : zip.members())
      if (ends_with(member.name, "/archive_format"))
        root_ = member.name.substr(0, member.name.size() - std::strlen("archive_format"));
    if (root_.empty() || trimmed(text("archive_format")) != "pt2")
      fail_old();
    if (find("byteorder") != nullptr && trimmed(text("byteorder")) != "little")
      fail(ExitCode::unsupported, "TSC-G022", "the archive's numbers are not little-endian",
           root_ + "byteorder", "save it on a little-endian machine");
  }

  const ZipArchive::Member *find(const std::string &name) const { return zip_.find(root_ + name); }
  Payload read(const std::string &name) const {
    const ZipArchive::Member *member = find(name);
    if (member == nullptr)
      fail(ExitCode::bad_input, "TSC-G022", "the archive lacks the member '" + root_ + name + "'",
           "", "save the model again with torch.export.save");
    return zip_.read(*member);
  }
  std::string text(const std::string &name) const { return std::string(read(name).text()); }
  std::string full_name(const std::string &name) const { return root_ + name; }

  /// "model" of models/model.json; the archive must hold one program.
  std::string model_name() const {
    std::vector<std::string> names;
    for (const ZipArchive::Member &member : zip_.members()) {
      std::string prefix = root_ + "models/";
      if (support::starts_with(member.name, prefix) && ends_with(member.name, ".json"))
        names.push_back(member.name.substr(prefix.size(), member.name.size() - prefix.size() - 5));
    }
    if (names.empty())
      fail(ExitCode::bad_input, "TSC-G022", "the archive holds no exported program",
           root_ + "models/", "write it with torch.export.save");
    if (names.size() > 1)
      fail(ExitCode::unsupported, "TSC-G025",
           "the archive holds several programs: " + support::join(names, ", "), root_ + "models/",
           "save each program in an archive of its own");
    return names[0];
  }

private:
  [[noreturn]] void fail_old() const {
    for (const ZipArchive::Member &member : zip_.members()) {
      if (ends_with(member.name, "serialized_exported_program.json"))
        fail(ExitCode::unsupported, "TSC-G021", "the archive was written by PyTorch 2.7 or older",
             member.name, kSaveAgain);
      if (ends_with(member.name, "data.pkl"))
        fail(
            ExitCode::unsupported, "TSC-G021",
            "this is a pickled PyTorch file, not an exported program", member.name,
            "export the model: torch.export.save(torch.export.export(model, inputs), 'model.pt2')");
    }
    fail(ExitCode::bad_input, "TSC-G001", "this zip archive is no exported program", "",
         "give an archive written by torch.export.save");
  }

  const ZipArchive &zip_;
  std::string root_; // with its slash
};

/// Bytes of storage that a tensor reaches; checked for overflow by check_tensor_size and here.
int64_t storage_bytes(const JsonValue &at, const TensorMeta &meta) {
  int64_t last = meta.layout.offset.value();
  bool overflow = last < 0;
  for (size_t i = 0; i < meta.layout.sizes.size(); ++i) {
    int64_t size = meta.layout.sizes[i].value(), stride = meta.layout.strides[i].value(), step = 0;
    if (size == 0)
      return 0;
    overflow = overflow || stride < 0 || __builtin_mul_overflow(size - 1, stride, &step) ||
               __builtin_add_overflow(last, step, &last);
  }
  auto bytes = static_cast<int64_t>(tensor::size_in_bytes(meta.dtype));
  overflow = overflow || __builtin_add_overflow(last, int64_t{1}, &last) ||
             __builtin_mul_overflow(last, bytes, &last);
  if (overflow)
    fail_at(at, "TSC-G014", "the tensor's strides or offset leave 64 bits, or are negative");
  return last;
}

std::vector<int64_t> integers(const JsonValue &at, const std::vector<Expr> &expressions) {
  std::vector<int64_t> values;
  for (Expr expression : expressions) {
    if (!expression.is_integer())
      fail_at(at, "TSC-G015", "a weight has the symbolic size " + symbolic::print(expression));
    values.push_back(expression.value());
  }
  return values;
}

HostTensor make_weight(const JsonValue &at, const TensorMeta &meta, const Payload &payload,
                       const std::string &member) {
  std::vector<int64_t> sizes = integers(at, meta.layout.sizes);
  std::vector<int64_t> strides = integers(at, meta.layout.strides);
  integers(at, {meta.layout.offset});
  int64_t needed = storage_bytes(at, meta);
  if (needed > static_cast<int64_t>(payload.size))
    fail(ExitCode::bad_input, "TSC-G023",
         "the tensor '" + std::string(at.key) + "' needs " + std::to_string(needed) +
             " bytes, its member has " + std::to_string(payload.size),
         member, "save the model again; the archive may be damaged");
  if (needed == 0) // an empty tensor: its offset may lie outside
    return HostTensor(meta.dtype, std::move(sizes));
  auto element = static_cast<int64_t>(tensor::size_in_bytes(meta.dtype));
  std::shared_ptr<void> owner = payload.owner;
  // Mapped pages are read-only; nothing writes to a tensor that is not writable().
  auto *storage = const_cast<std::byte *>(payload.data);
  // torch aligns members to 64 bytes; another writer's may not even be aligned to their elements.
  if (reinterpret_cast<uintptr_t>(storage) %
          std::min<uintptr_t>(static_cast<uintptr_t>(element), 8) !=
      0) {
    HostTensor copy(DType::u8, {needed});
    std::memcpy(copy.data(), storage, static_cast<size_t>(needed));
    storage = copy.data();
    owner = std::make_shared<HostTensor>(std::move(copy));
  }
  return HostTensor(meta.dtype, std::move(sizes), std::move(strides), std::move(owner),
                    storage + meta.layout.offset.value() * element, false);
}

/// Reads one config file {"config": {name: payload}} and adds its tensors to `weights`.
void read_payloads(const Pt2Archive &archive, const std::string &folder, const std::string &config,
                   const std::string &label, tensor::TensorMap &weights, Problems &problems) {
  Payload text = archive.read(folder + config);
  std::string place = archive.full_name(folder + config);
  JsonDocument document = JsonDocument::parse(text.text(), label + ": " + place);
  for (const JsonValue &entry : expect_object(member(document.root(), "config"))) {
    try {
      expect_only_keys(entry, {"path_name", "is_param", "use_pickle", "tensor_meta"});
      std::string path = folder + std::string(expect_string(member(entry, "path_name")));
      const JsonValue *meta_value = optional_member(entry, "tensor_meta");
      if (expect_boolean(member(entry, "use_pickle")) || meta_value == nullptr)
        fail(ExitCode::unsupported, "TSC-G024",
             "the tensor '" + std::string(entry.key) +
                 "' is pickled: it is a script object or a tensor subclass",
             archive.full_name(path), "turn it into a plain tensor before export");
      TensorMeta meta = read_export_tensor_meta(*meta_value);
      HostTensor tensor = make_weight(entry, meta, archive.read(path), archive.full_name(path));
      weights.insert_or_assign(std::string(entry.key), std::move(tensor));
    } catch (const UserError &error) {
      problems.add(error.with_file(label + ": " + place));
    }
  }
}

/// Throws unless every parameter, buffer and constant of the signature is there with its dtype and
/// sizes.
void check_weights(const Graph &graph, Problems &problems) {
  for (const InputSpec &input : graph.inputs) {
    if (input.kind != InputKind::parameter && input.kind != InputKind::buffer &&
        input.kind != InputKind::constant_tensor)
      continue;
    const Node &node = graph.node(input.node);
    auto found = graph.weights.find(input.target);
    std::string problem;
    if (found == graph.weights.end()) {
      problem = "the archive holds no tensor for '" + input.target + "'";
    } else if (const TensorMeta *meta = node.value ? node.value->tensor() : nullptr) {
      std::vector<Expr> sizes(found->second.sizes().begin(), found->second.sizes().end());
      if (meta->dtype != found->second.dtype() || meta->layout.sizes != sizes)
        problem = "the stored tensor '" + input.target +
                  "' has another dtype or shape than the graph says";
    }
    if (!problem.empty())
      problems.add(UserError(ExitCode::bad_input,
                             Diagnostic{"TSC-G023", problem, "", "", node.name, "",
                                        "save the model again with torch.export.save"}));
  }
}

} // namespace

Graph read_pt2(Payload bytes, const std::string &label) {
  Problems problems;
  Graph graph;
  try {
    ZipArchive zip(std::move(bytes), label);
    Pt2Archive archive(zip);
    std::string name = archive.model_name();
    if (archive.find("data/weights/" + name + ".pt") != nullptr)
      fail(ExitCode::unsupported, "TSC-G021",
           "the archive's weights are pickled, as PyTorch 2.8 wrote them",
           archive.full_name("data/weights/" + name + ".pt"), kSaveAgain);
    std::string model = "models/" + name + ".json";
    Payload text = archive.read(model);
    std::string model_label = label + ": " + archive.full_name(model);
    JsonDocument document = JsonDocument::parse(text.text(), model_label);
    graph = read_export_program(document.root(), model_label);
    read_payloads(archive, "data/weights/", name + "_weights_config.json", label, graph.weights,
                  problems);
    read_payloads(archive, "data/constants/", name + "_constants_config.json", label, graph.weights,
                  problems);
    if (!problems.any())
      check_weights(graph, problems);
  } catch (const UserError &error) {
    problems.add(error);
  }
  problems.throw_if_any(label);
  return graph;
}

} // namespace tsc::graph
