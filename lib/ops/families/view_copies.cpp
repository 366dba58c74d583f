// The copies that functionalized graphs hold in place of views: NAME_copy is NAME, cloned to
// contiguous memory.
#include "ops/table/builder.h"
#include "ops/table/memory_format.h"
#include "ops/table/table.h"

namespace tsc::ops {
namespace {

Argument contiguous_clone(GraphBuilder &builder, const Argument &x) {
  return builder.call("aten.clone.default", {x},
                      {{"memory_format", graph::MemoryFormat::contiguous}});
}

/// What `view` yields for the same arguments, each of its tensors cloned.
Decomposition copied(std::string view) {
  return [view = std::move(view)](GraphBuilder &builder, const Call &call) {
    Arguments arguments;
    for (const Parameter &parameter : call.schema().parameters)
      if (!parameter.keyword_only)
        arguments.push_back(call[parameter.name]);
    Argument result = builder.call(view, std::move(arguments));
    if (const auto *list = std::get_if<Arguments>(&result.value)) {
      Arguments copies;
      for (const Argument &each : *list)
        copies.push_back(contiguous_clone(builder, each));
      return Argument(std::move(copies));
    }
    return contiguous_clone(builder, result);
  };
}

/// c10's narrow: a start below zero counts from the end.
Argument narrow_copy(GraphBuilder &builder, const Call &call) {
  return contiguous_clone(builder,
                          builder.call("aten.narrow.default",
                                       {call["self"], call["dim"], call["start"], call["length"]}));
}

} // namespace

void add_view_copies(Table &table) {
  struct Copy {
    std::string_view schema, view;
  };
  static constexpr Copy copies[] = {
      {"alias_copy(Tensor self) -> Tensor", "aten.alias.default"},
      {"as_strided_copy(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) "
       "-> Tensor",
       "aten.as_strided.default"},
      {"detach_copy(Tensor self) -> Tensor", "aten.detach.default"},
      {"diagonal_copy(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor",
       "aten.diagonal.default"},
      {"expand_copy(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor",
       "aten.expand.default"},
      {"permute_copy(Tensor self, int[] dims) -> Tensor", "aten.permute.default"},
      {"_reshape_copy(Tensor self, SymInt[] size) -> Tensor", "aten.reshape.default"},
      {"select_copy.int(Tensor self, int dim, SymInt index) -> Tensor", "aten.select.int"},
      {"slice_copy.Tensor(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt "
       "step=1) -> Tensor",
       "aten.slice.Tensor"},
      {"split_copy.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
       "aten.split.Tensor"},
      {"split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
       "aten.split_with_sizes.default"},
      {"squeeze_copy(Tensor self) -> Tensor", "aten.squeeze.default"},
      {"squeeze_copy.dim(Tensor self, int dim) -> Tensor", "aten.squeeze.dim"},
      {"squeeze_copy.dims(Tensor self, int[] dim) -> Tensor", "aten.squeeze.dims"},
      {"t_copy(Tensor self) -> Tensor", "aten.t.default"},
      {"transpose_copy.int(Tensor self, int dim0, int dim1) -> Tensor", "aten.transpose.int"},
      {"unbind_copy.int(Tensor self, int dim=0) -> Tensor[]", "aten.unbind.int"},
      {"unfold_copy(Tensor self, int dimension, int size, int step) -> Tensor",
       "aten.unfold.default"},
      {"unsqueeze_copy(Tensor self, int dim) -> Tensor", "aten.unsqueeze.default"},
      {"view_copy(Tensor self, SymInt[] size) -> Tensor", "aten.reshape.default"},
      {"view_copy.dtype(Tensor self, ScalarType dtype) -> Tensor", "aten.view.dtype"},
  };
  for (const Copy &each : copies)
    table.add(each.schema).passes_elements().decompose(copied(std::string(each.view)));
  table.add("narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor")
      .passes_elements()
      .decompose(narrow_copy);
}

} // namespace tsc::ops
