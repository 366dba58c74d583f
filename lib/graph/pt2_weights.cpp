#include "graph/pt2_weights.h"

#include "graph/export_values.h"
#include "graph/json_document.h"
#include "tensor/storage_view.h"
#include "tensor/torch_file.h"

#include <algorithm>

namespace tsc::graph {

using support::Diagnostic;
using support::ExitCode;
using support::UserError;
using tensor::HostTensor;
using tensor::Payload;
using tensor::ZipArchive;

namespace {

constexpr const char *kDamaged = "save the model again; the archive may be damaged";

[[noreturn]] void fail(ExitCode exit_code, const char *code, std::string message,
                       std::string member, std::string next_step) {
  throw UserError(exit_code, Diagnostic{code, std::move(message), "", std::move(member), "", "",
                                        std::move(next_step)});
}

struct WeightReader {
  const Pt2Archive &archive;
  Graph &graph;
  Problems &problems;
  std::set<std::string> without_data; // exported without values

  void read_folder(const std::string &folder, const std::string &name, const std::string &kind) {
    std::string config = folder + name + "_" + kind + "_config.json";
    std::string pickled = folder + name + ".pt";
    if (archive.find(config) == nullptr && archive.find(pickled) != nullptr)
      read_pickled(pickled);
    else
      read_config(folder, config);
  }

  void add(const std::string &name, HostTensor tensor, const std::string &place) {
    if (!graph.weights.emplace(name, std::move(tensor)).second)
      fail(ExitCode::bad_input, "TSC-G011", "the name '" + name + "' is given twice", place,
           kDamaged);
  }

  /// A file of torch.save inside the archive; its storages are views of the archive, too.
  void read_pickled(const std::string &path) {
    std::string place = archive.full_name(path);
    ZipArchive file(archive.zip().read(archive.member(path)), archive.label() + ": " + place);
    if (!tensor::is_torch_file(file))
      fail(ExitCode::bad_input, "TSC-G022", "the member is no file of torch.save",
           archive.full_name(path), kDamaged);
    for (auto &entry : tensor::parse_torch_file(file, place))
      add(entry.first, std::move(entry.second), archive.full_name(path));
  }

  /// {"config": {name: payload}}
  void read_config(const std::string &folder, const std::string &config) {
    Payload text = archive.zip().read_text(archive.member(config));
    std::string place = archive.full_name(config);
    std::string label = archive.label() + ": " + place;
    JsonDocument document = JsonDocument::parse(text.text(), label);
    for (const JsonValue &entry : expect_object(member(document.root(), "config"))) {
      try {
        read_payload(entry, folder);
      } catch (const UserError &error) {
        problems.add(error.with_file(label));
      }
    }
  }

  void read_payload(const JsonValue &entry, const std::string &folder) {
    expect_only_keys(entry, {"path_name", "is_param", "use_pickle", "tensor_meta"});
    std::string path = folder + std::string(expect_string(member(entry, "path_name")));
    const JsonValue *meta_value = optional_member(entry, "tensor_meta");
    bool pickled = expect_boolean(member(entry, "use_pickle"));
    if (meta_value == nullptr && pickled)
      return; // a script object: its operators are refused by name, its pickle is never read
    if (meta_value == nullptr)
      fail_at(entry, "TSC-G005", "the key 'tensor_meta' is missing");
    if (pickled)
      fail(ExitCode::unsupported, "TSC-G024",
           "the tensor '" + std::string(entry.key) + "' is pickled: it is a tensor subclass",
           archive.full_name(path), "turn it into a plain tensor before export");
    SymbolNames names; // a weight's sizes are numbers: checked below
    TensorMeta meta = read_export_tensor_meta(*meta_value, names);
    Payload payload = archive.zip().read(archive.member(path));
    if (std::optional<HostTensor> tensor = make_weight(entry, meta, payload, path))
      add(std::string(entry.key), std::move(*tensor), archive.full_name(path));
    else
      without_data.insert(std::string(entry.key));
  }

  /// Nothing if the program was exported without values (fake or meta tensors).
  std::optional<HostTensor> make_weight(const JsonValue &at, const TensorMeta &meta,
                                        const Payload &payload, const std::string &path) const {
    tensor::StorageView view;
    view.dtype = meta.dtype;
    view.sizes = integers(at, meta.layout.sizes);
    view.strides = integers(at, meta.layout.strides);
    view.offset = integers(at, {meta.layout.offset})[0];
    std::optional<int64_t> needed = tensor::bytes_reached(view);
    support::require(needed.has_value(), "make_weight", "the layout was checked");
    if (*needed != 0 && payload.size == 0)
      return std::nullopt;
    if (*needed > static_cast<int64_t>(payload.size))
      fail(ExitCode::bad_input, "TSC-G023",
           "the tensor '" + std::string(at.key) + "' needs " + std::to_string(*needed) +
               " bytes, its member has " + std::to_string(payload.size),
           archive.full_name(path), kDamaged);
    int64_t bytes = dense_bytes(view);
    if (bytes > std::max(tensor::kMaxRepeatedBytes, static_cast<int64_t>(payload.size)))
      fail_at(at, "TSC-G014",
              "the tensor repeats " + std::to_string(payload.size) + " stored bytes as " +
                  std::to_string(bytes),
              kDamaged);
    return tensor::view_storage(payload, view);
  }

  /// Sizes are checked (check_tensor_size), so that the product fits.
  static int64_t dense_bytes(const tensor::StorageView &view) {
    auto bytes = static_cast<int64_t>(tensor::size_in_bytes(view.dtype));
    for (int64_t size : view.sizes)
      if (size == 0)
        return 0;
    for (int64_t size : view.sizes)
      bytes *= size;
    return bytes;
  }

  static std::vector<int64_t> integers(const JsonValue &at, const std::vector<Expr> &expressions) {
    std::vector<int64_t> values;
    for (Expr expression : expressions) {
      if (!expression.is_integer())
        fail_at(at, "TSC-G015", "a weight has the symbolic size " + symbolic::print(expression));
      values.push_back(expression.value());
    }
    return values;
  }

  /// Every parameter, buffer and constant of the signature is there with its dtype and sizes.
  void check() {
    for (const InputSpec &input : graph.inputs) {
      if (input.kind != InputKind::parameter && input.kind != InputKind::buffer &&
          input.kind != InputKind::constant_tensor)
        continue;
      auto found = graph.weights.find(input.target);
      std::string problem;
      if (found == graph.weights.end() && without_data.count(input.target) == 0)
        problem = "the archive holds no tensor for '" + input.target + "'";
      else if (found != graph.weights.end() && !fits(graph.node(input.node), found->second))
        problem = "the stored tensor '" + input.target +
                  "' has another dtype or shape than the graph says";
      if (!problem.empty())
        problems.add(UserError(ExitCode::bad_input,
                               Diagnostic{"TSC-G023", problem, "", "", graph.node(input.node).name,
                                          "", "save the model again with torch.export.save"}));
    }
  }

  static bool fits(const Node &node, const HostTensor &tensor) {
    const TensorMeta *meta = node.value ? node.value->tensor() : nullptr;
    if (meta == nullptr)
      return true;
    std::vector<Expr> sizes(tensor.sizes().begin(), tensor.sizes().end());
    return meta->dtype == tensor.dtype() && meta->layout.sizes == sizes;
  }
};

} // namespace

void read_pt2_weights(const Pt2Archive &archive, const std::string &name, Graph &graph,
                      Problems &problems) {
  WeightReader reader{archive, graph, problems, {}};
  reader.read_folder("data/weights/", name, "weights");
  reader.read_folder("data/constants/", name, "constants");
  if (!problems.any())
    reader.check();
}

} // namespace tsc::graph
