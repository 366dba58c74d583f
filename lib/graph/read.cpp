#include "graph/read.h"

#include "graph/export_reader.h"
#include "graph/graph_json.h"
#include "graph/json_document.h"
#include "graph/pt2_archive.h"
#include "tensor/mapped_file.h"

#include <cstring>

namespace tsc::graph {

using support::Diagnostic;
using support::ExitCode;
using support::UserError;

namespace {

/// As torch.save wrote before it wrote zip archives, and as pickle writes.
bool is_bare_pickle(std::string_view bytes) {
  return bytes.size() > 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
}

[[noreturn]] void throw_unrecognized(const std::string &label) {
  throw UserError(ExitCode::bad_input,
                  Diagnostic{"TSC-G001", "this is no graph file", label, "", "", "",
                             "give tsc's graph JSON, a torch.export model.json, or a .pt2 archive "
                             "written by torch.export.save"});
}

Graph parse_json(std::string_view bytes, const std::string &label) {
  if (is_bare_pickle(bytes))
    throw UserError(
        ExitCode::unsupported,
        Diagnostic{"TSC-G021", "this is a pickled PyTorch file, not an exported program", label, "",
                   "", "",
                   "export the model: "
                   "torch.export.save(torch.export.export(model, inputs), 'model.pt2')"});
  size_t first = bytes.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || bytes[first] != '{')
    throw_unrecognized(label);
  JsonDocument document = JsonDocument::parse(bytes, label);
  if (is_export_program(document.root()))
    return read_export_program(document.root(), label);
  if (is_graph_json(document.root()))
    return read_graph_json(document.root(), label);
  throw_unrecognized(label);
}

} // namespace

Graph parse_graph(std::string_view bytes, const std::string &label) {
  if (tensor::ZipArchive::is_zip(bytes)) {
    // Weights are views of the archive: they keep a copy of it alive.
    auto copy = std::make_shared<std::vector<std::byte>>(bytes.size());
    std::memcpy(copy->data(), bytes.data(), bytes.size());
    const std::byte *data = copy->data();
    return read_pt2({std::move(copy), data, bytes.size()}, label);
  }
  return parse_json(bytes, label);
}

Graph read_graph(const std::string &path) {
  std::shared_ptr<tensor::MappedFile> file = tensor::MappedFile::open(path);
  if (!tensor::ZipArchive::is_zip(file->bytes()))
    return parse_json(file->bytes(), path);
  const std::byte *data = file->data();
  size_t size = file->size();
  return read_pt2({std::move(file), data, size}, path);
}

} // namespace tsc::graph
