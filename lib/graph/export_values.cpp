#include "graph/export_values.h"

#include "graph/sympy_text.h"

#include <algorithm>
#include <limits>

namespace tsc::graph {

using support::UserError;

DType read_export_dtype(const JsonValue &value) {
  int64_t number = expect_integer(value);
  if (std::optional<DType> dtype = tensor::dtype_from_export(number))
    return *dtype;
  fail_unsupported_at(
      value, "TSC-G012", "the scalar type " + std::to_string(number) + " is not supported",
      "convert the tensor to a type from torch.bool to torch.float64 before export");
}

MemoryFormat read_export_memory_format(const JsonValue &value) {
  switch (expect_integer(value)) {
  case 1:
    return MemoryFormat::contiguous;
  case 2:
    return MemoryFormat::channels_last;
  case 3:
    return MemoryFormat::channels_last_3d;
  case 4:
    return MemoryFormat::preserve;
  default:
    fail_at(value, "TSC-G007",
            "the memory format " + std::to_string(value.integer) + " is unknown");
  }
}

TensorLayoutKind read_export_layout(const JsonValue &value) {
  constexpr const char *kNames[] = {nullptr,
                                    "torch.sparse_coo",
                                    "torch.sparse_csr",
                                    "torch.sparse_csc",
                                    "torch.sparse_bsr",
                                    "torch.sparse_bsc",
                                    "torch._mkldnn",
                                    "torch.strided"};
  int64_t number = expect_integer(value);
  if (number < 1 || number > 7)
    fail_at(value, "TSC-G007", "the tensor layout " + std::to_string(number) + " is unknown");
  return TensorLayoutKind{kNames[number]};
}

Device read_export_device(const JsonValue &value) {
  expect_only_keys(value, {"type", "index"});
  const JsonValue &type = member(value, "type");
  std::string_view name = expect_string(type);
  Device device;
  if (name == "cuda")
    device.type = tensor::DeviceType::cuda;
  else if (name == "cpu")
    device.type = tensor::DeviceType::cpu;
  else if (name == "meta")
    device.type = tensor::DeviceType::meta;
  else
    fail_unsupported_at(type, "TSC-G019", "the device '" + std::string(name) + "' is not supported",
                        "export the model on cuda or cpu");
  if (const JsonValue *index = optional_member(value, "index")) {
    int64_t number = expect_integer(*index);
    if (number < 0 || number > std::numeric_limits<int16_t>::max())
      fail_at(*index, "TSC-G019",
              "the device index " + std::to_string(number) + " is out of range");
    device.index = static_cast<int>(number);
  }
  return device;
}

Expr read_export_sym_int(const JsonValue &value, SymbolNames &names) {
  const JsonValue &choice = expect_union(value);
  if (choice.key == "as_int")
    return expect_integer(choice);
  if (choice.key != "as_expr")
    fail_at(choice, "TSC-G007",
            "the kind of size '" + std::string(choice.key) + "' is not known here");
  expect_only_keys(choice, {"expr_str", "hint"});
  const JsonValue &text = member(choice, "expr_str");
  try {
    const Expr size = parse_sympy(expect_string(text),
                                  [&](std::string_view name) { return names.symbol_of(name); });
    const JsonValue *hint = optional_member(choice, "hint");
    if (hint != nullptr && !hint->is_null() && size.is_symbol())
      if (const JsonValue *number = optional_member(*hint, "as_int"); number != nullptr)
        names.note_hint(size, expect_integer(*number));
    return size;
  } catch (const UserError &error) {
    std::vector<support::Diagnostic> diagnostics = error.diagnostics();
    for (support::Diagnostic &diagnostic : diagnostics)
      if (diagnostic.place.empty())
        diagnostic.place = json_pointer(text);
    throw UserError(error.exit_code(), std::move(diagnostics));
  }
}

void check_tensor_size(const JsonValue &at, const TensorMeta &meta) {
  auto bytes = static_cast<int64_t>(tensor::size_in_bytes(meta.dtype));
  for (Expr size : meta.layout.sizes) {
    std::optional<int64_t> value = size.as_integer();
    if (!value)
      continue;
    if (*value < 0)
      fail_at(at, "TSC-G013", "a tensor has the negative size " + std::to_string(*value));
    if (*value != 0 && __builtin_mul_overflow(bytes, *value, &bytes))
      fail_at(at, "TSC-G014", "a tensor has more than 2^63 - 1 bytes");
  }
}

void check_tensor_strides(const JsonValue &at, const TensorMeta &meta) {
  auto known = [&](const char *what, Expr e) {
    std::optional<int64_t> value = e.as_integer();
    if (value && *value < 0)
      fail_at(at, "TSC-G013",
              std::string("a tensor has the negative ") + what + " " + std::to_string(*value));
    return value.value_or(0);
  };
  int64_t last = known("offset", meta.layout.offset);
  bool fits = true, is_empty = false;
  for (size_t axis = 0; axis < meta.layout.strides.size(); ++axis) {
    int64_t size = meta.layout.sizes[axis].as_integer().value_or(1);
    int64_t reach = known("stride", meta.layout.strides[axis]);
    is_empty |= size == 0;
    fits &= size < 1 || (!__builtin_mul_overflow(size - 1, reach, &reach) &&
                         !__builtin_add_overflow(last, reach, &last));
  }
  auto element = static_cast<int64_t>(tensor::size_in_bytes(meta.dtype));
  if (!is_empty && (!fits || last >= INT64_MAX / element))
    fail_at(at, "TSC-G014", "a tensor has more than 2^63 - 1 bytes");
}

namespace {

std::vector<Expr> read_sizes(const JsonValue &value, SymbolNames &names) {
  std::vector<Expr> sizes;
  sizes.reserve(expect_array(value).count);
  for (const JsonValue &size : value)
    sizes.push_back(read_export_sym_int(size, names));
  return sizes;
}

} // namespace

TensorMeta read_export_tensor_meta(const JsonValue &value, SymbolNames &names) {
  expect_only_keys(
      value, {"dtype", "sizes", "requires_grad", "device", "strides", "storage_offset", "layout"});
  TensorMeta meta;
  meta.dtype = read_export_dtype(member(value, "dtype"));
  meta.layout.sizes = read_sizes(member(value, "sizes"), names);
  meta.layout.strides = read_sizes(member(value, "strides"), names);
  meta.layout.offset = read_export_sym_int(member(value, "storage_offset"), names);
  meta.device = read_export_device(member(value, "device"));
  meta.requires_grad = expect_boolean(member(value, "requires_grad"));
  const JsonValue &layout = member(value, "layout");
  TensorLayoutKind kind = read_export_layout(layout);
  if (kind.name != "torch.strided")
    fail_unsupported_at(layout, "TSC-G019", "tensors of layout " + kind.name + " are not supported",
                        "convert the tensor with .to_dense() before export");
  if (meta.layout.strides.size() != meta.layout.sizes.size())
    fail_at(value, "TSC-G015",
            "a tensor of " + std::to_string(meta.layout.sizes.size()) + " sizes has " +
                std::to_string(meta.layout.strides.size()) + " strides");
  check_tensor_size(member(value, "sizes"), meta);
  check_tensor_strides(member(value, "strides"), meta);
  return meta;
}

} // namespace tsc::graph
