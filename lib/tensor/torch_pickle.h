// The pickle inside a file of torch.save, for one shape of content: a dict of plain tensors.
//
// A pickle is a program. This reader runs none of it: it knows the opcodes that build such a dict,
// and of the functions that the pickle names it knows those that rebuild a tensor from a storage,
// which it performs itself. Everything else is refused. Internal to lib/tensor.
#pragma once

#include "tensor/storage_view.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tsc::tensor {

/// A tensor of the dict, its storage still a name: "0" of the archive's data/0.
struct PickledTensor {
  std::string name;
  std::string storage;
  StorageView view;
};

/// Tensors in the dict's order. `label` stands for the file in messages. Errors: UserError
/// (bad_input) TSC-T040 (not a well-formed pickle of a dict); (unsupported) TSC-T041 (it names or
/// does something else than a dict of tensors needs). Memory is bounded by kMaxItems and the text.
std::vector<PickledTensor> read_pickled_tensors(std::string_view pickle, const std::string &label);

} // namespace tsc::tensor
