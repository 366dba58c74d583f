#include "codegen/custom_kernel.h"

#include "codegen/expression.h"
#include "support/text.h"

#include <algorithm>
#include <regex>
#include <set>

namespace tsc::codegen {

namespace {

using Kind = ir::CustomArgument::Kind;

/// The user's text as a text of functions that a kernel of ours calls. Lines stay where they are.
std::string as_functions(const std::string &text) {
  static const std::pair<std::regex, const char *> changes[] = {
      // One text may be part of several kernels: no name of it is the program's.
      {std::regex(R"(\bextern[ \t]*"C"[ \t]*\{)"), "inline namespace tc_user {"},
      {std::regex(R"(\bextern[ \t]*"C"[ \t]*)"), ""},
      {std::regex(
           R"(\bextern[ \t]+__shared__[ \t]+(__align__\(\d+\)[ \t]*)?([A-Za-z_][\w: ]*?)[ \t]+(\w+)[ \t]*\[[ \t]*\][ \t]*;)"),
       "TC_DYN_SMEM($2, $3);"},
      {std::regex(R"(\b__global__\b)"), "__device__"},
      {std::regex(R"(\b__launch_bounds__\b)"), "TC_NO_BOUNDS"},
  };
  std::string result = text;
  for (const auto &[what, with] : changes)
    result = std::regex_replace(result, what, with);
  if (result.empty() || result.back() != '\n')
    result += '\n';
  return result;
}

/// Parameters of the kernel: they are those of both texts.
class SharedParameters {
public:
  explicit SharedParameters(CustomKernelParts &parts) : parts_(parts) {}

  std::string pointer(Kind kind, size_t position, DType dtype) {
    const bool is_const = kind == Kind::input;
    for (size_t i = 0; i < parts_.pointers.size(); ++i)
      if (parts_.pointers[i].kind == kind && parts_.pointers[i].position == position)
        return names_[i];
    const std::string name = kind == Kind::workspace ? "workspace"
                             : kind == Kind::exchange
                                 ? "exchange"
                                 : (is_const ? "in" : "out") + std::to_string(position);
    names_.push_back(name);
    parts_.pointers.push_back({kind, position});
    pointers_.push_back({program::KernelParameter::Kind::pointer, name, dtype, is_const});
    return name;
  }
  std::string map(const ir::CustomArgument &argument, DType dtype) {
    const std::string of = pointer(Kind::input, argument.position, dtype);
    program::TensorMap map;
    map.parameter =
        static_cast<uint32_t>(std::find(names_.begin(), names_.end(), of) - names_.begin());
    map.sizes.assign(argument.boxes.sizes.rbegin(), argument.boxes.sizes.rend());
    map.strides.assign(argument.boxes.strides.rbegin(), argument.boxes.strides.rend());
    map.box = argument.box;
    parts_.kernel.cuda.maps.push_back(std::move(map));
    return "map" + std::to_string(parts_.kernel.cuda.maps.size() - 1);
  }
  std::string size(Expr value) {
    const auto known = std::find(parts_.sizes.begin(), parts_.sizes.end(), value);
    if (known != parts_.sizes.end())
      return sizes_[static_cast<size_t>(known - parts_.sizes.begin())].name;
    const std::string name = "s" + std::to_string(parts_.sizes.size());
    parts_.sizes.push_back(value);
    sizes_.push_back({program::KernelParameter::Kind::size, name, DType::i64, true});
    return name;
  }
  std::vector<program::KernelParameter> list() const {
    std::vector<program::KernelParameter> all = pointers_;
    all.insert(all.end(), sizes_.begin(), sizes_.end());
    return all;
  }

private:
  CustomKernelParts &parts_;
  std::vector<std::string> names_; // of pointers
  std::vector<program::KernelParameter> pointers_, sizes_;
};

/// "static_cast<int>(s0)", "in0", "1e-05f".
std::string argument_text(const ir::CustomArgument &argument, const std::vector<DType> &inputs,
                          const std::vector<DType> &results, SharedParameters &parameters) {
  switch (argument.kind) {
  case Kind::input:
    return parameters.pointer(argument.kind, argument.position, inputs[argument.position]);
  case Kind::result:
    return parameters.pointer(argument.kind, argument.position, results[argument.position]);
  case Kind::workspace:
    return parameters.pointer(argument.kind, argument.position, DType::u8);
  case Kind::exchange:
    return parameters.pointer(argument.kind, argument.position, DType::i64);
  case Kind::map:
    return "&" + parameters.map(argument, inputs[argument.position]);
  case Kind::absent:
    return "nullptr";
  case Kind::number:
    return literal(argument.number, argument.type == "float" ? DType::f32 : DType::f64);
  case Kind::integer:
    break;
  }
  const std::string value = argument.size.is_integer() ? literal(argument.size.value(), DType::i64)
                                                       : parameters.size(argument.size);
  return "static_cast<" + argument.type + ">(" + value + ")";
}

std::string call_text(const ir::CustomKernel &kernel, const std::vector<DType> &inputs,
                      const std::vector<DType> &results, SharedParameters &parameters) {
  std::string arguments;
  for (const ir::CustomArgument &argument : kernel.arguments)
    arguments +=
        (arguments.empty() ? "" : ", ") + argument_text(argument, inputs, results, parameters);
  return kernel.function + "(" + arguments + ");";
}

std::string parameter_list(const std::vector<program::KernelParameter> &parameters) {
  std::string list;
  for (const program::KernelParameter &parameter : parameters) {
    list += list.empty() ? "" : ", ";
    if (parameter.kind == program::KernelParameter::Kind::size)
      list += "long long " + parameter.name;
    else
      list += (parameter.is_const ? "const " : "") + std::string(storage_type(parameter.dtype)) +
              " *" + parameter.name;
  }
  return list;
}

std::string whole_text(const ir::CustomKernel &kernel, const std::string &call,
                       const std::string &list, const std::string &bounds,
                       const std::string &flags) {
  const std::string name(kKernelPlaceholder);
  const std::string functions = kernel.text.empty() ? std::string()
                                                    : "#line 1 \"" + kernel.file + "\"\n" +
                                                          as_functions(kernel.text) + "#line 1 \"" +
                                                          name + ".launch\"\n";
  return functions + "TC_KERNEL void " + bounds + name + "(" + list + ") {\n  " + call +
         "\n}\nTC_EXPORT(" + name + ", " + flags + ")\n";
}

Expr bytes_of(const ir::Module &module, BufferId buffer, const tensor::Layout &layout) {
  return symbolic::numel(layout.sizes) *
         Expr(static_cast<int64_t>(tensor::size_in_bytes(module.buffer(buffer).dtype)));
}

} // namespace

std::string_view custom_header(const ir::CustomCall &call) {
  return call.cuda.text.empty() ? std::string_view(call.cuda.file) : "tc_custom.h";
}

CustomKernelParts custom_kernel(const ir::CustomCall &call, const std::vector<DType> &inputs,
                                const std::vector<DType> &results) {
  CustomKernelParts parts;
  SharedParameters parameters(parts);
  const std::string cuda = call_text(call.cuda, inputs, results, parameters);
  const std::string host =
      call.host ? call_text(*call.host, inputs, results, parameters) : std::string();
  program::Kernel &kernel = parts.kernel;
  kernel.parameters = parameters.list();
  const std::string list = parameter_list(kernel.parameters);
  const std::array<int, 3> &block = call.cuda.block;
  std::string bounds = std::to_string(block[0] * block[1] * block[2]), maps;
  if (call.cuda.blocks > 0)
    bounds += ", " + std::to_string(call.cuda.blocks);
  for (size_t i = 0; i < kernel.cuda.maps.size(); ++i)
    maps += ", TC_TENSOR_MAP map" + std::to_string(i);
  const std::string cluster =
      call.cuda.cluster > 1 ? "TC_CLUSTER(" + std::to_string(call.cuda.cluster) + ") " : "";
  kernel.cuda.text = whole_text(call.cuda, cuda, list + maps,
                                cluster + "__launch_bounds__(" + bounds + ") ", "TC_HAS_BARRIERS");
  kernel.cuda.grid = call.cuda.grid;
  kernel.cuda.block = block;
  kernel.cuda.shared_bytes = call.cuda.shared_bytes;
  kernel.cuda.has_barriers = true; // for all that is known
  kernel.cuda.together = call.cuda.together;
  if (call.host)
    kernel.serial.text = whole_text(*call.host, host, list, "", "0");
  kernel.plan = call.cuda.function + " of " + call.cuda.file;
  return parts;
}

BuiltKernel build_custom(const ir::Module &module, const scheduler::Schedule &schedule,
                         const scheduler::Group &group, const ir::Operation &operation,
                         const std::vector<BufferId> &items, std::vector<Expr> &offsets) {
  const auto &call = std::get<ir::Extern>(operation.kind);
  std::vector<DType> inputs, results;
  for (const ir::BufferView &input : call.inputs)
    inputs.push_back(input.dtype);
  for (size_t i = 0; i < call.custom->results; ++i)
    results.push_back(module.buffer(items[i]).dtype);
  CustomKernelParts parts = custom_kernel(*call.custom, inputs, results);
  BuiltKernel built;
  built.kernel = std::move(parts.kernel);
  built.sizes = std::move(parts.sizes);
  for (const CustomPointer &pointer : parts.pointers) {
    if (pointer.kind == Kind::exchange) {
      built.pointers.push_back(call.custom->exchange);
      offsets.emplace_back(0);
      continue;
    }
    const bool is_input = pointer.kind == Kind::input;
    const size_t item = pointer.kind == Kind::workspace ? items.size() - 1 : pointer.position;
    built.pointers.push_back(
        module.storage_of(is_input ? call.inputs[pointer.position].buffer : items[item]));
    offsets.push_back(is_input ? call.inputs[pointer.position].layout.offset
                               : module.buffer(items[item]).layout.offset);
  }
  built.kernel.bytes_read = 0;
  for (const ir::BufferView &input : call.inputs)
    built.kernel.bytes_read += bytes_of(module, input.buffer, input.layout);
  built.kernel.bytes_written = 0;
  for (size_t i = 0; i < results.size(); ++i)
    built.kernel.bytes_written += bytes_of(module, items[i], module.buffer(items[i]).layout);
  const bool has_host = call.custom->host.has_value();
  const std::string_view includes[] = {custom_header(*call.custom)};
  finish_kernel(built, origins_of(module, schedule, group),
                has_host ? call.custom->host->function + " of " + call.custom->host->file : "",
                includes);
  if (!has_host)
    built.kernel.serial.text.clear(); // the header alone would say that there is something
  return built;
}

std::string system_includes(const std::vector<std::string_view> &texts) {
  static const std::regex include(R"([ \t]*#[ \t]*include[ \t]*<([^>]+)>.*)");
  static const std::regex place(R"re(#line (\d+) "(.*)")re");
  std::set<std::string> seen;
  std::string lines;
  for (const std::string_view text : texts) {
    if (text.find("#include \"tc_custom.h\"") == std::string_view::npos)
      continue;
    std::string file;
    int64_t number = 0;
    for (const std::string &line : support::split(text, '\n')) {
      std::smatch parts;
      if (std::regex_match(line, parts, place)) {
        file = parts[2];
        number = std::stoll(parts[1]) - 1;
      } else if (!file.empty() && std::regex_match(line, parts, include) &&
                 seen.insert(parts[1]).second) {
        lines += "#line " + std::to_string(number) + " \"" + file + "\"\n#include <" +
                 parts[1].str() + ">\n";
      }
      ++number;
    }
  }
  return lines.empty() ? lines : lines + "#line 1 \"kernels\"\n";
}

} // namespace tsc::codegen
