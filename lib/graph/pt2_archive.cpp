#include "graph/pt2_archive.h"

#include "graph/export_reader.h"
#include "graph/json_document.h"
#include "graph/pt2_weights.h"
#include "support/text.h"

#include <cstring>

namespace tsc::graph {

using support::Diagnostic;
using support::ExitCode;
using support::UserError;
using tensor::Payload;
using tensor::ZipArchive;

namespace {

[[noreturn]] void fail(ExitCode exit_code, const char *code, std::string message,
                       std::string member, std::string next_step) {
  throw UserError(exit_code, Diagnostic{code, std::move(message), "", std::move(member), "", "",
                                        std::move(next_step)});
}

bool ends_with(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

std::string trimmed(std::string_view text) {
  size_t end = text.find_last_not_of(" \r\n\t");
  return std::string(text.substr(0, end == std::string_view::npos ? 0 : end + 1));
}

} // namespace

Pt2Archive::Pt2Archive(const ZipArchive &zip, const std::string &label) : zip_(zip), label_(label) {
  for (const ZipArchive::Member &member : zip.members())
    if (ends_with(member.name, "/archive_format")) {
      if (!root_.empty())
        fail(ExitCode::bad_input, "TSC-G022", "the archive has several root folders", member.name,
             "save the model again with torch.export.save");
      root_ = member.name.substr(0, member.name.size() - std::strlen("archive_format"));
    }
  if (root_.empty() || text("archive_format") != "pt2")
    fail_old();
  if (find("byteorder") != nullptr && text("byteorder") != "little")
    fail(ExitCode::unsupported, "TSC-G022", "the archive's numbers are not little-endian",
         root_ + "byteorder", "save it on a little-endian machine");
}

const ZipArchive::Member &Pt2Archive::member(const std::string &name) const {
  const ZipArchive::Member *found = find(name);
  if (found == nullptr)
    fail(ExitCode::bad_input, "TSC-G022", "the archive lacks the member '" + root_ + name + "'", "",
         "save the model again with torch.export.save");
  return *found;
}

std::string Pt2Archive::text(const std::string &name) const {
  return trimmed(zip_.read_text(member(name)).text());
}

std::string Pt2Archive::model_name() const {
  std::vector<std::string> names;
  std::string prefix = root_ + "models/";
  for (const ZipArchive::Member &member : zip_.members())
    if (support::starts_with(member.name, prefix) && ends_with(member.name, ".json"))
      names.push_back(member.name.substr(prefix.size(), member.name.size() - prefix.size() - 5));
  if (names.empty())
    fail(ExitCode::bad_input, "TSC-G022", "the archive holds no exported program",
         root_ + "models/", "write it with torch.export.save");
  if (names.size() > 1)
    fail(ExitCode::unsupported, "TSC-G025",
         "the archive holds several programs: " + support::join(names, ", "), root_ + "models/",
         "save each program in an archive of its own");
  return names[0];
}

void Pt2Archive::fail_old() const {
  for (const ZipArchive::Member &member : zip_.members())
    if (ends_with(member.name, "serialized_exported_program.json"))
      fail(ExitCode::unsupported, "TSC-G021", "the archive was written by PyTorch 2.7 or older",
           member.name,
           "load it with the PyTorch that wrote it and save it again with PyTorch 2.8 to 2.11: "
           "torch.export.save(torch.export.load(OLD), NEW)");
  for (const ZipArchive::Member &member : zip_.members())
    if (ends_with(member.name, "/constants.pkl"))
      fail(ExitCode::unsupported, "TSC-G021", "this is a TorchScript file, not an exported program",
           member.name,
           "export the model that it was made from: "
           "torch.export.save(torch.export.export(model, inputs), 'model.pt2')");
  for (const ZipArchive::Member &member : zip_.members())
    if (ends_with(member.name, "/data.pkl"))
      fail(ExitCode::unsupported, "TSC-G021",
           "this is a pickled PyTorch file, not an exported program", member.name,
           "export the model: torch.export.save(torch.export.export(model, inputs), 'model.pt2')");
  fail(ExitCode::bad_input, "TSC-G001", "this zip archive is no exported program", "",
       "give an archive written by torch.export.save");
}

Graph read_pt2(Payload bytes, const std::string &label) {
  Problems problems;
  Graph graph;
  try {
    ZipArchive zip(std::move(bytes), label);
    Pt2Archive archive(zip, label);
    std::string name = archive.model_name();
    std::string model = "models/" + name + ".json";
    Payload text = zip.read_text(archive.member(model));
    std::string model_label = label + ": " + archive.full_name(model);
    JsonDocument document = JsonDocument::parse(text.text(), model_label);
    graph = read_export_program(document.root(), model_label);
    read_pt2_weights(archive, name, graph, problems);
  } catch (const UserError &error) {
    problems.add(error);
  }
  problems.throw_if_any(label);
  return graph;
}

} // namespace tsc::graph
