#include "ops/table/shape_rules.h"

#include <algorithm>

namespace tsc::ops {

using symbolic::Ranges;

std::string print_sizes(const std::vector<Expr> &sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i)
    text += (i ? ", " : "") + symbolic::print(sizes[i]);
  return text + "]";
}

bool same_size(Expr a, Expr b, const Ranges &ranges) {
  if (a == b)
    return true;
  if (a.is_integer() && b.is_integer())
    return false;
  Expr difference = symbolic::simplify(a - b, ranges);
  return difference.is_integer(0);
}

bool may_equal(Expr a, Expr b, const Ranges &ranges) {
  if (a.is_integer() && b.is_integer())
    return a == b;
  symbolic::Interval ia = symbolic::bounds(a, ranges), ib = symbolic::bounds(b, ranges);
  return ia.low <= ib.high && ib.low <= ia.high;
}

bool taken_equal(const Call &call, Expr a, Expr b) {
  if (!may_equal(a, b, call.ranges()))
    return false;
  if (call.equal_sizes() != nullptr && !same_size(a, b, call.ranges()))
    call.equal_sizes()->emplace_back(a, b);
  return true;
}

void require_expandable(const Call &call, std::string_view name, const std::vector<Expr> &sizes,
                        const std::vector<Expr> &target) {
  bool fits = sizes.size() <= target.size();
  for (size_t i = 0; fits && i < sizes.size(); ++i)
    fits = sizes[i].is_integer(1) ||
           taken_equal(call, sizes[i], target[target.size() - sizes.size() + i]);
  if (!fits)
    call.fail("TSC-O020",
              call.node().target + ": '" + std::string(name) + "' of sizes " + print_sizes(sizes) +
                  " does not broadcast to " + print_sizes(target),
              "make the sizes equal, or its own 1");
}

void require_sizes(const Call &call, std::string_view name, const std::vector<Expr> &region) {
  const std::vector<Expr> &sizes = call.tensor(name).layout.sizes;
  bool same = sizes.size() == region.size();
  for (size_t i = 0; same && i < sizes.size(); ++i)
    same = taken_equal(call, sizes[i], region[i]);
  if (!same)
    call.fail("TSC-O074",
              call.node().target + ": " + std::string(name) + " has sizes " + print_sizes(sizes) +
                  ", the region has " + print_sizes(region),
              "pass a " + std::string(name) + " of the region's sizes");
}

std::vector<Expr> broadcast(const Call &call, const std::vector<std::vector<Expr>> &shapes) {
  size_t rank = 0;
  for (const std::vector<Expr> &shape : shapes)
    rank = std::max(rank, shape.size());
  std::vector<Expr> result(rank, Expr(1));
  for (const std::vector<Expr> &shape : shapes) {
    for (size_t i = 0; i < shape.size(); ++i) {
      Expr &size = result[rank - shape.size() + i];
      if (shape[i].is_integer(1) || size == shape[i])
        continue;
      if (size.is_integer(1)) {
        size = shape[i];
      } else if (!taken_equal(call, size, shape[i])) {
        std::string text;
        for (const std::vector<Expr> &each : shapes)
          text += (text.empty() ? "" : " and ") + print_sizes(each);
        call.fail("TSC-O020",
                  call.node().target + ": sizes " + text + " do not broadcast (dimension " +
                      std::to_string(rank - shape.size() + i) + ")",
                  "make the sizes equal, or one of them 1");
      } else if (shape[i].is_integer()) {
        size = shape[i]; // the export guarded the symbol to this number
      }
    }
  }
  return result;
}

Value tensor_value(DType dtype, std::vector<Expr> sizes, std::vector<Expr> strides,
                   tensor::Device device, Expr offset) {
  TensorMeta meta;
  meta.dtype = dtype;
  meta.layout = tensor::Layout{std::move(sizes), std::move(strides), offset};
  meta.device = device;
  return Value{std::move(meta)};
}

Value contiguous_value(DType dtype, std::vector<Expr> sizes, tensor::Device device) {
  std::vector<Expr> strides = tensor::contiguous_strides(sizes);
  return tensor_value(dtype, std::move(sizes), std::move(strides), device);
}

Value elementwise_value(const Call &call, const std::vector<ElementwiseOperand> &operands,
                        DType dtype) {
  std::vector<std::vector<Expr>> shapes;
  std::vector<const tensor::Layout *> layouts;
  std::optional<tensor::Device> device;
  for (const ElementwiseOperand &operand : operands) {
    if (!operand.tensor)
      continue;
    shapes.push_back(operand.tensor->layout.sizes);
    layouts.push_back(&operand.tensor->layout);
    // A 0-d CPU tensor goes along with tensors of any device.
    if (!device || (device->type == tensor::DeviceType::cpu && operand.tensor->layout.rank() > 0))
      device = operand.tensor->device;
  }
  if (layouts.empty()) // numbers alone, as torch.ops take them: computed on the host in eager mode
    device = tensor::Device{tensor::DeviceType::cpu, 0};
  std::vector<Expr> sizes = broadcast(call, shapes);
  std::vector<Expr> strides = elementwise_strides(sizes, layouts, call.ranges());
  return tensor_value(dtype, std::move(sizes), std::move(strides), *device);
}

size_t normalize_dim(const Call &call, int64_t dim, size_t rank) {
  int64_t limit = std::max<int64_t>(static_cast<int64_t>(rank), 1);
  if (dim < -limit || dim >= limit)
    call.fail("TSC-O021",
              call.node().target + ": dimension " + std::to_string(dim) + " is not in [" +
                  std::to_string(-limit) + ", " + std::to_string(limit - 1) + "]",
              "choose a dimension that the tensor has");
  return static_cast<size_t>(dim < 0 ? dim + limit : dim);
}

size_t existing_dim(const Call &call, int64_t dim, size_t rank) {
  if (rank == 0)
    call.fail("TSC-O021", call.node().target + " of a tensor without dimensions",
              "reshape it to a vector");
  return normalize_dim(call, dim, rank);
}

Expr last_size(const Call &call, std::string_view parameter) {
  const std::vector<Expr> &sizes = call.tensor(parameter).layout.sizes;
  return sizes[existing_dim(call, -1, sizes.size())];
}

std::vector<size_t> reduced_dims(const Call &call, std::string_view parameter, size_t rank) {
  constexpr size_t kMostDims = 64; // a mask of bits in ATen (make_dim_mask)
  if (rank > kMostDims)
    call.fail("TSC-O021",
              call.node().target + " of a tensor of " + std::to_string(rank) + " dimensions",
              "reshape it to 64 dimensions or fewer");
  std::vector<size_t> dims;
  for (int64_t dim : call.integers(parameter))
    dims.push_back(normalize_dim(call, dim, rank));
  if (dims.empty())
    for (size_t i = 0; i < rank; ++i)
      dims.push_back(i);
  if (rank == 0)
    return {};
  std::sort(dims.begin(), dims.end());
  dims.erase(std::unique(dims.begin(), dims.end()), dims.end());
  return dims;
}

std::vector<Expr> resolve_view_sizes(const Call &call, const std::vector<Expr> &sizes,
                                     const std::vector<Expr> &requested) {
  Expr numel = symbolic::numel(sizes), known(1);
  std::vector<Expr> result = requested;
  std::optional<size_t> inferred;
  for (size_t i = 0; i < requested.size(); ++i) {
    if (!requested[i].is_integer(-1))
      known *= requested[i];
    else if (!inferred)
      inferred = i;
    else
      call.fail("TSC-O022", call.node().target + ": two sizes are -1 in " + print_sizes(requested),
                "leave one size to be inferred");
  }
  bool possible = true;
  if (inferred) {
    if (numel.is_integer() && known.is_integer())
      possible = known.value() > 0 && numel.value() % known.value() == 0;
    if (possible)
      result[*inferred] =
          known.is_integer(1)
              ? numel
              : symbolic::simplify(symbolic::floor_div(numel, known), call.ranges());
  } else {
    possible = taken_equal(call, numel, known);
  }
  if (!possible)
    call.fail("TSC-O022",
              call.node().target + ": sizes " + print_sizes(requested) + " do not hold the " +
                  symbolic::print(numel) + " elements of " + print_sizes(sizes),
              "choose sizes with the same product");
  return result;
}

tensor::Device device_argument(const Call &call, tensor::Device fallback) {
  for (const Parameter &parameter : call.schema().parameters)
    if (parameter.name == "device")
      if (const tensor::Device *device = std::get_if<tensor::Device>(&call["device"].value))
        return *device;
  return fallback;
}

} // namespace tsc::ops
