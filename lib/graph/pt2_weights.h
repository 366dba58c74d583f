// The weights of a .pt2 archive, in the two forms that torch.export.save has written them. Internal
// to lib/graph.
#pragma once

#include "graph/graph.h"
#include "graph/problems.h"
#include "tensor/zip_archive.h"

#include <set>
#include <string>

namespace tsc::graph {

/// The archive with its members' common root folder known.
class Pt2Archive {
public:
  /// Throws unless this is an archive of exported programs (TSC-G001, TSC-G021, TSC-G022).
  Pt2Archive(const tensor::ZipArchive &zip, const std::string &label);

  const tensor::ZipArchive &zip() const { return zip_; }
  const std::string &label() const { return label_; }
  /// `name` is relative to the root folder.
  const tensor::ZipArchive::Member *find(const std::string &name) const {
    return zip_.find(full_name(name));
  }
  /// Throws TSC-G022 if there is no such member.
  const tensor::ZipArchive::Member &member(const std::string &name) const;
  std::string full_name(const std::string &name) const { return root_ + name; }
  /// "model" of models/model.json; the archive must hold one program (TSC-G022, TSC-G025).
  std::string model_name() const;

private:
  [[noreturn]] void fail_old() const;
  std::string text(const std::string &name) const;

  const tensor::ZipArchive &zip_;
  const std::string &label_;
  std::string root_; // with its slash
};

/// Adds parameters, buffers and constants to `graph.weights` and compares them with what the graph
/// says of them: views of the archive, tied ones of one storage. PyTorch 2.9 and later store raw
/// bytes beside a description (data/weights/NAME_weights_config.json), PyTorch 2.8 a pickled dict
/// (data/weights/NAME.pt). Script objects are left where they are.
void read_pt2_weights(const Pt2Archive &archive, const std::string &name, Graph &graph,
                      Problems &problems);

} // namespace tsc::graph
