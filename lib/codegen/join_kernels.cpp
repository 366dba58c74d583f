#include "codegen/join_kernels.h"

#include "codegen/estimate_kernel.h"
#include "codegen/expression.h"
#include "support/diagnostic.h"
#include "support/text.h"

#include <algorithm>
#include <map>
#include <set>

namespace tsc::codegen {

namespace {

/// Kernels take 4 KiB of parameters everywhere; more than that needs CUDA 12.1 at both ends.
constexpr size_t kMostParameters = 4096 / 8;
constexpr int64_t kLargestGrid = (int64_t{1} << 31) - 1;

/// The launch's own parameters: every storage once, every size once.
class LaunchParameters {
public:
  explicit LaunchParameters(const std::vector<const PlannedKernel *> &parts) {
    for (const bool constant : {true, false})
      for (const PlannedKernel *part : parts)
        add_pointers(*part, constant);
    name_pointers();
    int64_t checks = 0;
    for (const PlannedKernel *part : parts) {
      first_check_.emplace(part, checks);
      checks += static_cast<int64_t>(part->parameters.checks.size());
    }
    for (const PlannedKernel *part : parts)
      for (const Expr size : part->parameters.sizes)
        name_of_size(numbered(*part, size), "n" + std::to_string(sizes.size()));
  }
  /// A size of `part`: its checks are numbered behind those of the parts before it.
  Expr numbered(const PlannedKernel &part, Expr size) const {
    return size == number_of_check() ? size + Expr(first_check_.at(&part)) : size;
  }

  std::vector<program::KernelParameter> pointers;
  std::vector<BufferId> storages;
  std::vector<bool> restricted;
  std::vector<Expr> sizes;
  std::vector<std::string> size_names;

  const std::string &name_of_pointer(BufferId storage) const {
    return pointers.at(position_.at(storage)).name;
  }
  /// The parameter that holds `value`; `name`, if there is none yet.
  std::string name_of_size(Expr value, const std::string &name) {
    const auto found = std::find(sizes.begin(), sizes.end(), value);
    if (found != sizes.end())
      return size_names[static_cast<size_t>(found - sizes.begin())];
    sizes.push_back(value);
    size_names.push_back(name);
    return name;
  }
  std::string list() const {
    std::vector<std::string> texts;
    for (size_t i = 0; i < pointers.size(); ++i)
      texts.push_back(pointer_text(pointers[i].dtype, pointers[i].is_const, restricted[i]) +
                      pointers[i].name);
    for (const std::string &name : size_names)
      texts.push_back("long long " + name);
    return support::join(texts, ", ");
  }
  std::vector<program::KernelParameter> all() const {
    std::vector<program::KernelParameter> result = pointers;
    for (const std::string &name : size_names)
      result.push_back({program::KernelParameter::Kind::size, name, DType::i64, true});
    return result;
  }

private:
  std::map<BufferId, size_t> position_;
  std::map<const PlannedKernel *, int64_t> first_check_;

  void add_pointers(const PlannedKernel &part, bool constant) {
    const Parameters &own = part.parameters;
    for (size_t i = 0; i < own.storages.size(); ++i) {
      const program::KernelParameter &parameter = own.list[i];
      const auto [found, inserted] = position_.emplace(own.storages[i], pointers.size());
      if (!inserted) {
        pointers[found->second].is_const = pointers[found->second].is_const && parameter.is_const;
        restricted[found->second] = restricted[found->second] && own.restricted[i];
        continue;
      }
      if (parameter.is_const != constant) { // written ones stand behind
        position_.erase(found);
        continue;
      }
      pointers.push_back(parameter);
      storages.push_back(own.storages[i]);
      restricted.push_back(own.restricted[i]);
    }
  }
  void name_pointers() {
    size_t inputs = 0, outputs = 0;
    for (program::KernelParameter &pointer : pointers)
      pointer.name =
          pointer.is_const ? "in" + std::to_string(inputs++) : "out" + std::to_string(outputs++);
  }
};

/// Parts whose text and grid are equal: they differ in their arguments alone.
struct Form {
  PartText text;
  Expr grid; // of blocks of its own size
  std::vector<const PlannedKernel *> parts;
  int beside = 1; // its blocks, of fewer threads, that a block of the launch works for
  /// Of blocks of the launch, for one of its parts.
  Expr launched() const { return beside == 1 ? grid : symbolic::ceil_div(grid, Expr(beside)); }
};

/// Whether threads of a block know nothing of each other but in their warp, so that a larger block
/// may work for several of them.
bool may_stand_beside(const KernelPlan &plan, int block) {
  constexpr int kWarp = 32;
  return !plan.has_barriers && plan.shared_bytes == 0 && plan.interleaved.empty() &&
         !plan.otherwise && plan.resident == 0 && plan.grid.is_integer() &&
         plan.block % kWarp == 0 && block % plan.block == 0;
}

/// Prints one variant (GPU or serial) of a launch.
class LaunchText {
public:
  LaunchText(const ir::Module &module, const std::vector<const PlannedKernel *> &parts,
             KernelPlan PlannedKernel::*plan, const std::string &prefix,
             LaunchParameters &parameters, bool in_turn)
      : name_(kKernelPlaceholder), prefix_(prefix), parameters_(parameters) {
    const std::string part_name = name_ + "_part";
    for (const PlannedKernel *part : parts)
      block_ = std::max(block_, (part->*plan).block);
    for (const PlannedKernel *part : parts) {
      const KernelPlan &own = part->*plan;
      PartText text = print_part(module, own, part->parameters, part_name);
      const auto same = std::find_if(forms_.begin(), forms_.end(), [&](const Form &form) {
        return form.text.text == text.text && form.grid == own.grid;
      });
      if (same != forms_.end())
        same->parts.push_back(part);
      else
        forms_.push_back({std::move(text), own.grid, {part}, block_ / own.block});
      has_barriers_ = has_barriers_ || own.has_barriers;
      shared_bytes_ = std::max(shared_bytes_, own.shared_bytes);
    }
    find_ends();
    in_turn_ = in_turn && total_.is_integer();
  }

  program::KernelVariant print() {
    std::string body = "  const int block = static_cast<int>(blockIdx.x);\n";
    body += in_turn_ ? dealt_in_turn() : dealt_one_after_the_other();
    program::KernelVariant variant;
    std::string types, functions;
    for (size_t i = 0; i < forms_.size(); ++i) {
      std::string text = forms_[i].text.text;
      support::replace_all(text, name_ + "_part", part_name(i));
      if (forms_[i].beside > 1)
        support::replace_all(text, "threadIdx.x",
                             "(threadIdx.x % " + std::to_string(block_ / forms_[i].beside) + ")");
      functions += text;
      if (forms_[i].text.uses_shared)
        types += "  " + part_name(i) + "_shared part" + std::to_string(i) + ";\n";
    }
    if (!types.empty()) {
      types = "union " + name_ + "_shared {\n" + types + "};\n\n";
      body = "  TC_SMEM(" + name_ + "_shared, memory);\n" + body;
    }
    variant.text = functions + types + kernel_head(block_, name_, parameters_.list(), 0) + body +
                   "}\n" + export_line(name_, has_barriers_, !types.empty());
    variant.grid[0] = total_;
    variant.block = {block_, 1, 1};
    variant.has_barriers = has_barriers_;
    variant.shared_bytes = shared_bytes_;
    return variant;
  }

private:
  std::string name_, prefix_;
  LaunchParameters &parameters_;
  std::vector<Form> forms_;
  std::vector<std::string> ends_;  // by form: the first block behind its own
  std::vector<std::string> grids_; // by form: blocks of each of its parts
  Expr total_ = 0;
  int block_ = 1, shared_bytes_ = 0;
  bool has_barriers_ = false, in_turn_ = false;

  std::string dealt_one_after_the_other() const {
    std::string body;
    for (size_t i = 0; i < forms_.size(); ++i) {
      const bool last = i + 1 == forms_.size();
      body += i == 0 ? "  " : " else ";
      body += last ? "{" : "if (block < " + ends_[i] + ") {";
      body += comment(forms_[i]) + "\n" +
              form_call(i, i == 0 ? "block" : "block - " + ends_[i - 1]) + "  }";
    }
    return body + "\n";
  }
  /// Each form has its blocks spread evenly among those of the forms behind it.
  std::string dealt_in_turn() const {
    std::string body, rest = "block";
    int64_t total = total_.value();
    for (size_t i = 0; i + 1 < forms_.size(); ++i) {
      const int64_t own = blocks_of(forms_[i]).value();
      const std::string number = std::to_string(i), before = "before" + number;
      body += "  const int " + before + " = static_cast<int>(" + rest + " * " +
              std::to_string(own) + "LL / " + std::to_string(total) + ");\n";
      body += "  if ((" + rest + " + 1) * " + std::to_string(own) + "LL / " +
              std::to_string(total) + " > " + before + ") {" + comment(forms_[i]) + "\n" +
              form_call(i, before) + "    return;\n  }\n";
      body += "  const int rest" + number + " = " + rest + " - " + before + ";\n";
      rest = "rest" + number;
      total -= own;
    }
    const size_t last = forms_.size() - 1;
    return body + "  {" + comment(forms_[last]) + "\n" + form_call(last, rest) + "  }\n";
  }
  static Expr blocks_of(const Form &form) {
    return form.launched() * Expr(static_cast<int64_t>(form.parts.size()));
  }

  std::string part_name(size_t form) const { return name_ + "_part" + std::to_string(form); }

  /// Numbers of blocks as texts: literals, or parameters that the launch computes.
  std::string count_text(Expr count, const std::string &name) {
    if (count.is_integer())
      return symbolic::print(count);
    return "static_cast<int>(" + parameters_.name_of_size(count, prefix_ + name) + ")";
  }
  void find_ends() {
    for (size_t i = 0; i < forms_.size(); ++i) {
      const Form &form = forms_[i];
      total_ = total_ + blocks_of(form);
      const bool last = i + 1 == forms_.size();
      ends_.push_back(last ? "" : count_text(total_, "end" + std::to_string(i)));
      grids_.push_back(
          form.parts.size() == 1 ? "" : count_text(form.launched(), "blocks" + std::to_string(i)));
    }
  }

  static std::string comment(const Form &form) {
    return form.parts.size() == 1 ? ""
                                  : " // " + std::to_string(form.parts.size()) + " of one form";
  }

  std::string argument(const PlannedKernel &part, size_t i) const {
    const Parameters &own = part.parameters;
    if (i < own.storages.size())
      return parameters_.name_of_pointer(own.storages[i]);
    const auto found = std::find(parameters_.sizes.begin(), parameters_.sizes.end(),
                                 parameters_.numbered(part, own.sizes[i - own.storages.size()]));
    return parameters_.size_names[static_cast<size_t>(found - parameters_.sizes.begin())];
  }

  std::string call(size_t form, std::string block,
                   const std::vector<std::string> &arguments) const {
    std::string text;
    if (const int beside = forms_[form].beside; beside > 1) {
      text = "    const int own = (" + block + ") * " + std::to_string(beside) +
             " + static_cast<int>(threadIdx.x) / " + std::to_string(block_ / beside) + ";\n";
      if (forms_[form].grid.value() % beside != 0)
        text += "    if (own < " + symbolic::print(forms_[form].grid) + ")\n  ";
      block = "own";
    }
    text += "    " + part_name(form) + "(" + block;
    for (const std::string &argument : arguments)
      text += ", " + argument;
    if (forms_[form].text.uses_shared)
      text += ", memory.part" + std::to_string(form);
    return text + ");\n";
  }

  /// The block's part, its arguments, and the call; `own`: the block's number among the form's.
  std::string form_call(size_t i, const std::string &own) const {
    const Form &form = forms_[i];
    const size_t count = form.parts[0]->parameters.list.size();
    std::vector<std::string> arguments;
    if (form.parts.size() == 1) {
      for (size_t k = 0; k < count; ++k)
        arguments.push_back(argument(*form.parts[0], k));
      return call(i, own, arguments);
    }
    const std::string first = own.find(' ') == std::string::npos ? own : "(" + own + ")";
    std::string text, cases;
    std::vector<size_t> differing;
    for (size_t k = 0; k < count; ++k) {
      const std::string common = argument(*form.parts[0], k);
      const bool differs =
          std::any_of(form.parts.begin(), form.parts.end(),
                      [&](const PlannedKernel *part) { return argument(*part, k) != common; });
      arguments.push_back(differs ? "p" + std::to_string(k) : common);
      if (!differs)
        continue;
      const program::KernelParameter &parameter = form.parts[0]->parameters.list[k];
      differing.push_back(k);
      text += "    " +
              (parameter.kind == program::KernelParameter::Kind::size
                   ? std::string("long long ")
                   : pointer_text(parameter.dtype, parameter.is_const, false)) +
              arguments.back() + ";\n";
    }
    const bool one_block = grids_[i] == "1";
    const std::string count_of_parts = std::to_string(form.parts.size()),
                      part_of_block = in_turn_    ? first + " % " + count_of_parts
                                      : one_block ? own
                                                  : first + " / " + grids_[i],
                      block_of_part = in_turn_    ? first + " / " + count_of_parts
                                      : one_block ? "0"
                                                  : first + " % " + grids_[i];
    if (!differing.empty()) {
      text += "    switch (" + part_of_block + ") {\n";
      for (size_t part = 0; part < form.parts.size(); ++part) {
        const bool last = part + 1 == form.parts.size();
        text += last ? "    default:" : "    case " + std::to_string(part) + ":";
        for (const size_t k : differing)
          text += " " + arguments[k] + " = " + argument(*form.parts[part], k) + ";";
        text += last ? "\n" : " break;\n";
      }
      text += "    }\n";
    }
    return text + call(i, block_of_part, arguments);
  }
};

/// "3 kernels in one launch: 2 x pointwise, ...; row reduction, ...".
std::string describe(const std::vector<const PlannedKernel *> &parts,
                     KernelPlan PlannedKernel::*plan) {
  std::vector<std::pair<std::string, size_t>> kinds;
  for (const PlannedKernel *part : parts) {
    const std::string &description = (part->*plan).description;
    const auto known = std::find_if(kinds.begin(), kinds.end(),
                                    [&](const auto &kind) { return kind.first == description; });
    if (known == kinds.end())
      kinds.emplace_back(description, 1);
    else
      ++known->second;
  }
  std::vector<std::string> texts;
  texts.reserve(kinds.size());
  for (const auto &[description, count] : kinds)
    texts.push_back((count > 1 ? std::to_string(count) + " x " : "") + description);
  return std::to_string(parts.size()) + " kernels in one launch: " + support::join(texts, "; ");
}

std::vector<const ir::Origin *> origins_of(const std::vector<const PlannedKernel *> &parts) {
  std::set<const ir::Origin *> all; // of one vector: their addresses are in graph order
  for (const PlannedKernel *part : parts)
    all.insert(part->origins.begin(), part->origins.end());
  return {all.begin(), all.end()};
}

/// Storages and sizes that a launch of these passes, at most, with the ends of its parts.
struct Room {
  std::set<BufferId> storages;
  std::set<Expr, symbolic::ExprLess> sizes;
  size_t parts = 0;
  int64_t blocks = 0; // as far as they are known

  void add(const PlannedKernel &kernel) {
    storages.insert(kernel.parameters.storages.begin(), kernel.parameters.storages.end());
    ++parts;
    for (const Expr size : kernel.parameters.sizes) // every part has its own first check
      sizes.insert(size == number_of_check() ? size + Expr(static_cast<int64_t>(parts)) : size);
    blocks += std::max(kernel.cuda.grid.as_integer().value_or(0),
                       kernel.serial.grid.as_integer().value_or(0));
    const bool dynamic = !kernel.cuda.grid.is_integer() || !kernel.serial.grid.is_integer();
    any_dynamic = any_dynamic || dynamic;
  }
  bool fits() const {
    const size_t ends = any_dynamic ? 4 * parts : 0; // an end and a count for either plan
    return storages.size() + sizes.size() + ends <= kMostParameters && blocks <= kLargestGrid;
  }

private:
  bool any_dynamic = false;
};

/// Parts in turn read `bytes` once that they would else read again.
void count_once(program::Kernel &kernel, int64_t bytes) {
  kernel.plan += "; blocks in turn, " + std::to_string(bytes) + " bytes are read together";
  const Expr read = kernel.bytes_read, moved = read + kernel.bytes_written;
  if (!moved.is_integer() || moved.value() <= bytes || !read.is_integer() || read.value() <= bytes)
    return;
  kernel.estimate.memory *= 1 - static_cast<double>(bytes) / static_cast<double>(moved.value());
  kernel.bytes_read = read - Expr(bytes);
}

} // namespace

std::vector<std::vector<size_t>> divide_into_launches(const std::vector<PlannedKernel> &kernels,
                                                      bool beside) {
  std::vector<std::vector<size_t>> launches;
  int largest = 1;
  for (const PlannedKernel &kernel : kernels)
    largest = std::max(largest, kernel.cuda.block);
  // By block size, and whether blocks ask for shared memory at launch, which all would get: a
  // launch with room left.
  std::map<std::pair<int, bool>, std::pair<size_t, Room>> open;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const bool may_stand = beside && may_stand_beside(kernels[i].cuda, largest);
    const std::pair<int, bool> kind = {may_stand ? largest : kernels[i].cuda.block,
                                       kernels[i].cuda.shared_bytes != 0};
    const auto found = open.find(kind);
    if (found != open.end()) {
      Room larger = found->second.second;
      larger.add(kernels[i]);
      if (larger.fits()) {
        launches[found->second.first].push_back(i);
        found->second.second = std::move(larger);
        continue;
      }
    }
    Room room;
    room.add(kernels[i]);
    open[kind] = {launches.size(), std::move(room)};
    launches.push_back({i});
  }
  return launches;
}

BuiltKernel join_kernels(const ir::Module &module, const std::vector<const PlannedKernel *> &parts,
                         int64_t read_together) {
  LaunchParameters parameters(parts);
  // Both variants take the same parameters: those of the second are known when the first is
  // printed.
  LaunchText cuda(module, parts, &PlannedKernel::cuda, "", parameters, read_together > 0);
  LaunchText serial(module, parts, &PlannedKernel::serial, "serial_", parameters, false);
  BuiltKernel built;
  program::Kernel &kernel = built.kernel;
  kernel.cuda = cuda.print();
  kernel.serial = serial.print();
  kernel.parameters = parameters.all();
  kernel.plan = describe(parts, &PlannedKernel::cuda);
  kernel.bytes_read = kernel.bytes_written = 0;
  kernel.estimate.is_known = true;
  std::vector<std::string_view> includes;
  for (const PlannedKernel *part : parts) {
    add_part(kernel.estimate, part->estimate);
    kernel.estimate.is_known = kernel.estimate.is_known && part->estimate.is_known;
    kernel.bytes_read += part->bytes_read;
    kernel.bytes_written += part->bytes_written;
    built.inplace.insert(built.inplace.end(), part->inplace.begin(), part->inplace.end());
    built.checks.insert(built.checks.end(), part->parameters.checks.begin(),
                        part->parameters.checks.end());
    for (const std::string_view include : part->includes)
      if (std::find(includes.begin(), includes.end(), include) == includes.end())
        includes.push_back(include);
  }
  if (read_together > 0)
    count_once(kernel, read_together);
  finish_kernel(built, origins_of(parts), describe(parts, &PlannedKernel::serial), includes);
  built.pointers = parameters.storages;
  built.sizes = parameters.sizes;
  return built;
}

} // namespace tsc::codegen
