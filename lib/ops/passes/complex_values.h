// The complex values of a graph that is being rewritten to real ones.
#pragma once

#include "ops/passes/complex_arithmetic.h"

#include <array>
#include <unordered_map>

namespace tsc::ops {

/// Complex tensors by the node that stands for them (their value is that of the tensor; nothing
/// computes it). One is known by the memory that its parts alternate in, a real tensor with a last
/// dimension of 2, or by two parts, or by both.
class ComplexValues {
public:
  explicit ComplexValues(GraphBuilder &builder) : builder_(&builder) {}

  /// The node `id` of the new graph, an input, is complex memory.
  void add_input(graph::NodeId id);
  /// A node for the tensor `meta` whose memory is `memory`, or whose parts are `parts`: numbers, or
  /// tensors that broadcast to its sizes.
  Argument add_memory(const Argument &memory, TensorMeta meta);
  Argument add_parts(const Pair &parts, TensorMeta meta);

  bool is_complex(const Argument &argument) const;
  /// As elementwise arithmetic of `math` takes it: complex and real tensors, numbers.
  Pair operand(const RealMath &math, const Argument &argument);
  /// Part 0 or 1 as a tensor of all its sizes. Of a real tensor part 1 is zeros; of numbers the
  /// parts are numbers.
  Argument part(const Argument &argument, size_t index, DType dtype);
  /// Null unless it is known.
  const Argument *memory(const Argument &argument);
  /// Made from the parts where it is not known, nested as the tensor's strides say.
  Argument made_memory(const Argument &argument);
  /// A copy of the memory, where it is known, nested as the strides of `meta` say; else None. Parts
  /// that stay together are copied together.
  Argument copied_memory(const Argument &argument, const TensorMeta &meta);
  /// `x` with the sizes and the dtype of `meta`; a number becomes a tensor.
  Argument filled(const Argument &x, const TensorMeta &meta);

private:
  struct Known {
    Argument memory;
    std::array<Argument, 2> parts;
    bool is_input = false;
  };
  GraphBuilder *builder_;
  std::unordered_map<graph::NodeId, Known> known_;

  Argument raw_part(graph::NodeId id, size_t index);
  /// `memory` with the strides of the complex tensor `meta`, where these leave no gaps.
  Argument nested(const Argument &memory, const TensorMeta &meta);
  Argument append(const TensorMeta &meta);
};

} // namespace tsc::ops
