// Complex tensors of the graph's signature as what lies in memory.
#pragma once

#include "graph/graph.h"

namespace tsc::lowering {

/// How a tensor lies in memory: complex numbers as their parts, in a last dimension of 2.
inline graph::TensorMeta memory_of(graph::TensorMeta meta) {
  if (!tensor::is_complex(meta.dtype))
    return meta;
  meta.dtype = meta.dtype == tensor::DType::c128 ? tensor::DType::f64 : tensor::DType::f32;
  for (symbolic::Expr &stride : meta.layout.strides)
    stride = stride * symbolic::Expr(2);
  meta.layout.offset = meta.layout.offset * symbolic::Expr(2);
  meta.layout.sizes.emplace_back(2);
  meta.layout.strides.emplace_back(1);
  return meta;
}

} // namespace tsc::lowering
