#include "emit/package.h"

#include "support/diagnostic.h"
#include "tensor/file_parts.h"
#include "tensor/mapped_file.h"
#include "tensor/stored_zip.h"
#include "tensor/zip_archive.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <set>

namespace tsc::emit {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using support::Diagnostic;
using support::ExitCode;
using support::UserError;
using tensor::Payload;
using tensor::ZipArchive;

constexpr int kVersion = 1;
constexpr const char *kWeights = "weights.safetensors";
constexpr std::string_view kLocalHeader = "PK\003\004";
constexpr size_t kNameAt = 30; // in a member's header

std::string program_name(size_t plan, const program::Program &program) {
  return plan == 0 ? "program.json" : "program_" + program.archs.at(0) + ".json";
}

[[noreturn]] void broken(const std::string &path, const std::string &what) {
  throw UserError(ExitCode::bad_input, Diagnostic{"TSC-E071", "the package " + what, path, "", "",
                                                  "", "write it again with tsc compile -o"});
}

/// The weights that the plans use.
tensor::TensorMap used_weights(std::span<const program::Program> plans,
                               const tensor::TensorMap &weights) {
  tensor::TensorMap used;
  for (const program::Program &program : plans)
    for (const program::Buffer &buffer : program.buffers)
      if (const auto found = weights.find(buffer.weight);
          buffer.role == program::Role::weight && found != weights.end())
        used.insert(*found);
  return used;
}

/// What the archive holds, in its order: the programs with their code, and whether there are
/// weights.
json list_of(std::span<const program::Program> plans, std::span<const program::KernelImages> images,
             bool has_weights) {
  json list = {{"format", kPackageMark}, {"version", kVersion}, {"programs", json::array()}};
  for (size_t plan = 0; plan < plans.size(); ++plan) {
    json row = {{"file", program_name(plan, plans[plan])}, {"code", json::array()}};
    if (plan < images.size()) {
      row["target"] = images[plan].target;
      row["identity"] = images[plan].identity;
      for (size_t unit = 0; unit < images[plan].images.size(); ++unit)
        row["code"].push_back("code/" + std::to_string(plan) + "/unit_" + std::to_string(unit));
    }
    list["programs"].push_back(std::move(row));
  }
  if (has_weights)
    list["weights"] = kWeights;
  return list;
}

/// Reads what the list names, each member once, and refuses what it does not name.
class Reader {
public:
  explicit Reader(const std::string &path) : path_(path), archive_(map(path), path) {
    const std::string_view text = take(kPackageMark, true).text();
    try {
      list_ = json::parse(text);
      if (list_.at("format").get<std::string>() != kPackageMark)
        broken(path_, "has a list of another format");
      if (const int version = list_.at("version").get<int>(); version != kVersion)
        broken(path_, "has version " + std::to_string(version) + ", this tsc reads " +
                          std::to_string(kVersion));
    } catch (const json::exception &error) {
      broken(path_, std::string("has a broken list: ") + error.what());
    }
  }

  Package read() {
    Package package;
    try {
      for (const json &row : list_.at("programs")) {
        const auto file = row.at("file").get<std::string>();
        package.plans.push_back(program::from_json(take(file, true).text(), path_ + ": " + file));
        package.images.push_back(read_images(row));
      }
      if (package.plans.empty())
        broken(path_, "has no program");
      if (const auto weights = list_.find("weights"); weights != list_.end()) {
        // Not checked against a checksum: they are mapped, and touched when they are used.
        const auto file = weights->get<std::string>();
        const Payload payload = take(file, false);
        if (!tensor::is_safetensors(payload.text()))
          broken(path_, "has weights of another format");
        package.weights = tensor::parse_safetensors(payload, path_ + ": " + file);
      }
    } catch (const json::exception &error) {
      broken(path_, std::string("has a broken list: ") + error.what());
    }
    for (const ZipArchive::Member &member : archive_.members())
      if (taken_.count(member.name) == 0)
        broken(path_, "holds '" + member.name + "', which its list does not name");
    return package;
  }

private:
  const std::string &path_;
  ZipArchive archive_;
  json list_;
  std::set<std::string> taken_;

  static Payload map(const std::string &path) {
    std::shared_ptr<tensor::MappedFile> file = tensor::MappedFile::open(path);
    const std::byte *data = file->data();
    const size_t size = file->size();
    return {std::move(file), data, size};
  }

  Payload take(const std::string &name, bool is_verified) {
    const ZipArchive::Member *member = archive_.find(name);
    if (member == nullptr)
      broken(path_, "lacks '" + name + "'");
    if (!taken_.insert(name).second)
      broken(path_, "names '" + name + "' twice");
    if (!member->stored)
      broken(path_, "was packed anew: '" + name + "' is compressed");
    return is_verified ? archive_.read_text(*member) : archive_.read(*member);
  }

  program::KernelImages read_images(const json &row) {
    program::KernelImages images;
    if (row.at("code").empty() && row.find("target") == row.end())
      return images;
    images.target = row.at("target").get<std::string>();
    images.identity = row.at("identity").get<std::string>();
    for (const json &name : row.at("code")) {
      const Payload payload = take(name.get<std::string>(), true);
      images.images.push_back(payload.text());
      images.owner = payload.owner; // of stored members the whole file's
    }
    return images;
  }
};

} // namespace

bool names_package(const std::string &path) {
  std::error_code error;
  return fs::path(path).extension() == kPackageEnding && !fs::is_directory(path, error);
}

bool is_package(const std::string &path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error))
    return false;
  try {
    const std::shared_ptr<tensor::MappedFile> file = tensor::MappedFile::open(path);
    const std::string_view bytes = file->bytes(), mark = kPackageMark;
    return bytes.substr(0, kLocalHeader.size()) == kLocalHeader && bytes.size() > kNameAt &&
           bytes.substr(kNameAt, mark.size()) == mark;
  } catch (const UserError &) {
    return false;
  }
}

void write_package(std::span<const program::Program> plans,
                   std::span<const program::KernelImages> images, const tensor::TensorMap &weights,
                   const std::string &path) {
  std::error_code error;
  if (fs::exists(path, error) && !is_package(path))
    throw UserError(ExitCode::usage,
                    Diagnostic{"TSC-E070", "there is something that tsc did not write", path, "",
                               "", "", "choose another name with -o, or remove this"});
  const tensor::TensorMap used = used_weights(plans, weights);
  const json list = list_of(plans, images, !used.empty());
  tensor::write_aside(path, [&](const std::string &aside) {
    tensor::StoredZip zip(aside);
    zip.add(kPackageMark, list.dump(1) + "\n");
    for (size_t plan = 0; plan < plans.size(); ++plan) {
      const json &row = list["programs"][plan];
      zip.add(row["file"], program::to_json(plans[plan]));
      for (size_t unit = 0; unit < row["code"].size(); ++unit)
        zip.add(row["code"][unit], images[plan].images[unit]);
    }
    if (!used.empty())
      zip.add(kWeights, tensor::safetensors_parts(used));
    zip.close();
  });
}

Package read_package(const std::string &path) { return Reader(path).read(); }

} // namespace tsc::emit
