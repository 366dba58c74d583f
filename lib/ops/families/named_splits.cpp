// Parts of a tensor by other names than split and chunk: all are views.
#include "graph/indicators.h"
#include "ops/families/assertions.h"
#include "ops/table/builder.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <algorithm>

namespace tsc::ops {
namespace {

/// Parts that end at `ends`, the last at the end of the dimension. Bounds are clamped as slices
/// are.
Argument split_at(GraphBuilder &builder, const Call &call, int64_t dim,
                  const std::vector<Expr> &ends) {
  const TensorMeta self = call.tensor("self");
  size_t d = existing_dim(call, dim, self.layout.rank());
  Argument axis = static_cast<int64_t>(d);
  Arguments parts;
  Expr start(0);
  for (size_t i = 0; i <= ends.size(); ++i) {
    Expr end = i < ends.size() ? ends[i] : self.layout.sizes[d];
    parts.push_back(builder.call("aten.slice.Tensor",
                                 {call["self"], axis, size_argument(start), size_argument(end)}));
    start = end;
  }
  return parts;
}

/// `sections` parts whose sizes differ by one at most, the longer ones first.
Argument split_into(GraphBuilder &builder, const Call &call, int64_t dim, int64_t sections) {
  const TensorMeta self = call.tensor("self");
  size_t d = existing_dim(call, dim, self.layout.rank());
  Expr size = self.layout.sizes[d];
  if (sections < 1)
    call.fail("TSC-O027",
              call.node().target + " of size " + symbolic::print(size) + " into " +
                  std::to_string(sections) + " parts",
              "ask for 1 or more parts");
  const Expr each = symbolic::floor_div(size, Expr(sections));
  const Expr longer = size - each * Expr(sections);
  std::vector<Expr> ends;
  for (int64_t i = 1; i < sections; ++i)
    ends.push_back(each * Expr(i) + symbolic::minimum(Expr(i), longer));
  return split_at(builder, call, dim, ends);
}

/// hsplit, vsplit, dsplit; vectors are split along their only dimension by hsplit.
int64_t named_dim(const Call &call, int64_t dim) {
  return dim == 1 && call.tensor("self").layout.rank() == 1 ? 0 : dim;
}

} // namespace

void add_named_splits(Table &table) {
  auto add = [&](std::string_view schema, Decomposition decomposition) {
    table.add(schema).effect(Effect::view).decompose(std::move(decomposition));
  };
  add("tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]",
      [](GraphBuilder &builder, const Call &call) {
        return split_into(builder, call, call.integer("dim"), call.integer("sections"));
      });
  add("tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]",
      [](GraphBuilder &builder, const Call &call) {
        return split_at(builder, call, call.integer("dim"), call.sizes("indices"));
      });
  struct Named {
    std::string_view name;
    int64_t dim;
  };
  for (const Named &named : {Named{"vsplit", 0}, Named{"hsplit", 1}, Named{"dsplit", 2}}) {
    std::string name(named.name);
    int64_t dim = named.dim;
    add(keep_text(name + ".int(Tensor(a -> *) self, int sections) -> Tensor(a)[]"),
        [dim](GraphBuilder &builder, const Call &call) {
          const std::vector<Expr> sizes = call.tensor("self").layout.sizes;
          const int64_t axis = named_dim(call, dim), sections = call.integer("sections");
          const Expr size = sizes[existing_dim(call, axis, sizes.size())];
          const std::string what = call.node().target + " of size " + symbolic::print(size) +
                                   " into " + std::to_string(sections) + " parts";
          if (size.is_integer() && sections > 0 && size.value() % sections != 0)
            call.fail("TSC-O027", what, "ask for parts of one size");
          if (!size.is_integer() && sections > 0) {
            const Expr left = size - symbolic::floor_div(size, Expr(sections)) * Expr(sections);
            assert_condition(builder, decided(builder, graph::less(left, 1)), what);
          }
          return split_into(builder, call, axis, sections);
        });
    add(keep_text(name + ".array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]"),
        [dim](GraphBuilder &builder, const Call &call) {
          return split_at(builder, call, named_dim(call, dim), call.sizes("indices"));
        });
  }
}

} // namespace tsc::ops
