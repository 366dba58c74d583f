#include "graph/read.h"

#include "graph/export_reader.h"
#include "graph/json_document.h"
#include "tensor/mapped_file.h"

namespace tsc::graph {

using support::Diagnostic;
using support::ExitCode;
using support::UserError;

namespace {

[[noreturn]] void throw_unrecognized(const std::string &label) {
  throw UserError(ExitCode::bad_input,
                  Diagnostic{"TSC-G001", "this is no graph file", label, "", "", "",
                             "give tsc's graph JSON, a torch.export model.json, or a .pt2 archive "
                             "written by torch.export.save"});
}

} // namespace

Graph parse_graph(std::string_view bytes, const std::string &label) {
  size_t first = bytes.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || bytes[first] != '{')
    throw_unrecognized(label);
  JsonDocument document = JsonDocument::parse(bytes, label);
  if (is_export_program(document.root()))
    return read_export_program(document.root(), label);
  throw_unrecognized(label);
}

Graph read_graph(const std::string &path) {
  std::shared_ptr<tensor::MappedFile> file = tensor::MappedFile::open(path);
  return parse_graph(file->bytes(), path);
}

} // namespace tsc::graph
