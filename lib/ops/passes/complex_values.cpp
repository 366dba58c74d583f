#include "ops/passes/complex_values.h"

#include "ops/table/complex_calls.h"
#include "ops/table/memory_format.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"

namespace tsc::ops {

using graph::NodeId;
using graph::NodeRef;

Argument ComplexValues::append(const TensorMeta &meta) {
  Node node;
  node.name = builder_->fresh_name("tsc.complex");
  node.target = "aten.complex.default"; // nobody's: it goes once nothing asks for its sizes
  node.value = Value{meta};
  return NodeRef{builder_->append(std::move(node))};
}

void ComplexValues::add_input(NodeId id) { known_[id].is_input = true; }

Argument ComplexValues::add_memory(const Argument &memory, TensorMeta meta) {
  const Argument made = append(meta);
  known_[made.node()->id].memory = memory;
  return made;
}

Argument ComplexValues::add_parts(const Pair &parts, TensorMeta meta) {
  const Argument made = append(meta);
  known_[made.node()->id].parts = {parts.re, parts.im};
  return made;
}

bool ComplexValues::is_complex(const Argument &argument) const {
  return argument.node() != nullptr && known_.count(argument.node()->id) != 0;
}

const Argument *ComplexValues::memory(const Argument &argument) {
  Known &known = known_.at(argument.node()->id);
  if (known.memory.is_none() && known.is_input)
    known.memory = builder_->emit("aten.view_as_real.default", {argument});
  return known.memory.is_none() ? nullptr : &known.memory;
}

Argument ComplexValues::raw_part(NodeId id, size_t index) {
  if (known_.at(id).parts[index].is_none()) {
    const Argument *whole = memory(NodeRef{id});
    const Argument part =
        builder_->call("aten.select.int", {*whole, -1, static_cast<int64_t>(index)});
    known_.at(id).parts[index] = part;
  }
  return known_.at(id).parts[index];
}

Pair ComplexValues::operand(const RealMath &math, const Argument &argument) {
  if (const auto *number = std::get_if<graph::Complex>(&argument.value))
    return {number->real, number->imaginary};
  if (!argument.node())
    return {argument, 0.0};
  if (!is_complex(argument))
    return {convert(*builder_, argument, math.dtype()), 0.0};
  Pair parts;
  for (const size_t index : {size_t{0}, size_t{1}}) {
    const Argument raw = raw_part(argument.node()->id, index);
    (index == 0 ? parts.re : parts.im) = raw.node() ? convert(*builder_, raw, math.dtype()) : raw;
  }
  return parts;
}

Argument ComplexValues::filled(const Argument &x, const TensorMeta &meta) {
  const DType dtype = part_dtype(meta.dtype);
  if (!x.node())
    return builder_->call("aten.full.default", {sizes_argument(meta.layout.sizes), x},
                          {{"dtype", dtype}, {"device", meta.device}});
  const Argument typed = convert(*builder_, x, dtype);
  if (builder_->meta(typed).layout.sizes == meta.layout.sizes)
    return typed;
  return builder_->call("aten.expand.default", {typed, sizes_argument(meta.layout.sizes)});
}

Argument ComplexValues::part(const Argument &argument, size_t index, DType dtype) {
  if (const auto *number = std::get_if<graph::Complex>(&argument.value))
    return index == 0 ? number->real : number->imaginary;
  if (!argument.node())
    return index == 0 ? argument : Argument(0.0);
  TensorMeta meta = builder_->meta(argument);
  if (is_complex(argument)) {
    const Argument whole = filled(raw_part(argument.node()->id, index), meta);
    known_.at(argument.node()->id).parts[index] = whole;
    return convert(*builder_, whole, dtype);
  }
  meta.dtype = dtype;
  return filled(index == 0 ? argument : Argument(0.0), meta);
}

Argument ComplexValues::made_memory(const Argument &argument) {
  if (const Argument *known = memory(argument))
    return *known;
  const TensorMeta meta = builder_->meta(argument);
  Arguments columns;
  for (const size_t index : {size_t{0}, size_t{1}})
    columns.push_back(builder_->call("aten.unsqueeze.default",
                                     {part(argument, index, part_dtype(meta.dtype)), -1}));
  const Argument memory = nested(builder_->call("aten.cat.default", {columns, -1}), meta);
  known_.at(argument.node()->id).memory = memory;
  return memory;
}

Argument ComplexValues::nested(const Argument &memory, const TensorMeta &meta) {
  if (!is_non_overlapping_and_dense(meta.layout, builder_->ranges()))
    return contiguous(*builder_, memory);
  tensor::Layout layout;
  layout.sizes = builder_->meta(memory).layout.sizes;
  for (const Expr stride : meta.layout.strides)
    layout.strides.push_back(stride * Expr(2));
  layout.strides.emplace_back(1);
  return in_layout(*builder_, memory, layout);
}

Argument ComplexValues::copied_memory(const Argument &argument, const TensorMeta &meta) {
  const Argument *known = is_complex(argument) ? memory(argument) : nullptr;
  if (known == nullptr)
    return graph::None{};
  const Argument seen = *known; // calls may move what is known
  return nested(contiguous(*builder_, builder_->call("aten.clone.default", {seen})), meta);
}

} // namespace tsc::ops
