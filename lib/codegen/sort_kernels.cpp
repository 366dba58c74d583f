#include "codegen/sort_kernels.h"

#include "codegen/expression.h"
#include "scheduler/cost.h"
#include "support/diagnostic.h"
#include "templates/sort/tc_radix_geometry.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tsc::codegen {

namespace {

using tensor::DType;

/// Parts of all rows together, blocks for several rounds of a GPU; of sizes that are known, at
/// most: parts of a few tiles leave multiprocessors idle in the last round (611 parts of two tiles
/// are six tiles for some, 1221 of one are five).
constexpr int64_t kParts = 1024, kMostParts = 4096;
constexpr double kCountBlocks = 5; // of the first kernel on a multiprocessor: 48 registers a thread

/// Shared memory of a kernel: bytes that the launch sets, in the place of a structure's name.
constexpr std::string_view kDynamicMemory = "dynamic";

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t size_of(DType dtype) { return static_cast<int64_t>(tensor::size_in_bytes(dtype)); }

/// 1 where a size is more than `most`, else 0.
Expr is_more(Expr size, int64_t most) {
  return symbolic::minimum(Expr(1), symbolic::floor_div(size, Expr(most + 1)));
}

/// How the rows of a sort are cut (tc_radix_rows), and what its kernels count in.
struct Cut {
  Expr rows, length, parts, steps;
  DType count = DType::i32; // of elements of a row, and of positions between passes
};

Cut cut(const ir::Module &module, const tensor::Layout &layout) {
  Cut result;
  result.rows = layout.sizes[0];
  result.length = layout.sizes[1];
  const int64_t longest = symbolic::bounds(result.length, module.ranges).high;
  if (longest < 0 || longest > std::numeric_limits<int32_t>::max())
    result.count = DType::i64;
  const auto rows = result.rows.as_integer(), length = result.length.as_integer();
  if (rows && length) {
    const int64_t tiles = ceil_div(*length, tc_radix_tile);
    const int64_t steps =
        ceil_div(tiles, std::max<int64_t>(1, kMostParts / std::max<int64_t>(1, *rows)));
    result.steps = steps;
    result.parts = ceil_div(tiles, steps);
    return result;
  }
  // One part at least, and tiles enough, whatever the sizes turn out to be.
  result.parts = symbolic::floor_div(Expr(kParts), result.rows + Expr(1)) + Expr(1);
  result.steps = symbolic::floor_div(result.length, result.parts * Expr(tc_radix_tile)) + Expr(1);
  return result;
}

const ir::Extern &call_of(const ir::Operation &operation) {
  return std::get<ir::Extern>(operation.kind);
}
int passes_of(DType dtype) { return static_cast<int>(size_of(dtype)) * 8 / tc_radix_bits; }

/// A pointer parameter in the making.
struct Pointer {
  BufferId buffer = ir::kNone;
  DType dtype = DType::f32;
  bool is_const = true;
};

class SortBuilder {
public:
  SortBuilder(const ir::Module &module, const scheduler::Schedule &schedule,
              const scheduler::Group &group, const ir::Operation &operation,
              const SortBuffers &buffers, const target::Target &target)
      : module_(module), schedule_(schedule), group_(group), call_(call_of(operation)),
        buffers_(buffers), target_(target), cut_(cut(module, call_.inputs[0].layout)),
        dtype_(call_.inputs[0].dtype), passes_(passes_of(dtype_)),
        short_kinds_(
            tc_short_kinds_of(static_cast<int>(size_of(dtype_)), target.shared_bytes_per_block)) {
    if (call_.values)
      values_ = operation.outputs.front();
    if (call_.positions)
      places_ = operation.outputs.back();
  }

  std::vector<BuiltKernel> run() {
    std::vector<BuiltKernel> kernels;
    if (!cut_.length.is_integer())
      for (int kind = 0; kind < short_kinds_; ++kind)
        kernels.push_back(whole(kind));
    BufferId from = call_.inputs[0].buffer, were = ir::kNone;
    for (int pass = 0; pass < passes_; ++pass) {
      const bool last = pass == passes_ - 1;
      const int turn = (passes_ - 1 - pass) % 2;
      // The last pass's values come from values[0], those from the output or values[1], and so on.
      const BufferId to = last || (turn == 0 && call_.values) ? values_
                          : turn == 0                         ? buffers_.values[1]
                                                              : buffers_.values[0];
      const BufferId places = !call_.positions ? ir::kNone
                              : last           ? places_
                                               : buffers_.places[turn == 0 ? 1 : 0];
      kernels.push_back(count(from, pass));
      kernels.push_back(scan());
      kernels.push_back(move(from, were, to, places, pass));
      from = to;
      were = places;
    }
    return kernels;
  }

private:
  const ir::Module &module_;
  const scheduler::Schedule &schedule_;
  const scheduler::Group &group_;
  const ir::Extern &call_;
  const SortBuffers &buffers_;
  const target::Target &target_;
  const Cut cut_;
  const DType dtype_;
  const int passes_;
  const int short_kinds_; // of rows that a launch finds to be short
  BufferId values_ = ir::kNone, places_ = ir::kNone;

  std::string descending() const { return call_.descending ? "true" : "false"; }
  std::string pass_text(int pass) const {
    return "radix sort of rows, pass " + std::to_string(pass + 1) + " of " +
           std::to_string(passes_) + " by 8 bits";
  }
  Expr elements() const { return cut_.rows * cut_.length; }
  /// 1 where rows are cut, 0 where a launch finds them to be short: nothing is launched then.
  Expr is_cut() const {
    return cut_.length.is_integer() ? Expr(1)
                                    : is_more(cut_.length, tc_short_length(short_kinds_ - 1));
  }

  /// Rows that a launch finds to be longer than those of the kind before, and no longer than this
  /// one's.
  BuiltKernel whole(int kind) {
    std::vector<Pointer> pointers = {{call_.inputs[0].buffer, dtype_, true}};
    if (call_.values)
      pointers.push_back({values_, dtype_, false});
    if (call_.positions)
      pointers.push_back({places_, module_.buffer(places_).dtype, false});
    BuiltKernel built = begin(pointers, {cut_.length, cut_.rows, Expr(0), Expr(0)});
    program::Kernel &kernel = built.kernel;
    const Expr is_this = is_more(cut_.length, kind == 0 ? 0 : tc_short_length(kind - 1)) -
                         is_more(cut_.length, tc_short_length(kind));
    kernel.bytes_read = elements() * Expr(size_of(dtype_)) * is_this;
    kernel.bytes_written = elements() *
                           Expr((call_.values ? size_of(dtype_) : 0) +
                                (call_.positions ? size_of(module_.buffer(places_).dtype) : 0)) *
                           is_this;
    const int bytes = static_cast<int>(size_of(dtype_));
    kernel.plan = std::string(tc_short_packs(kind, bytes) ? "bitonic sort" : "merge sort") +
                  " of rows of up to " + std::to_string(tc_short_length(kind)) +
                  " elements, where a launch finds them to be, " +
                  std::to_string(tc_short_threads(kind)) + " threads a row" +
                  (tc_short_packs(kind, bytes) ? ", elements packed with their places" : "");
    const std::string call = "<" + descending() + ", " + std::to_string(kind) + ">(in0, " +
                             (call_.values ? "out0" : "tc_radix_none()") + ", " +
                             (!call_.positions ? "tc_radix_none()"
                              : call_.values   ? "out1"
                                               : "out0") +
                             ", problem";
    // Of keys of 64 bits ptxas spills some, to have a block more, unless it is told otherwise.
    const int dynamic = tc_short_dynamic(kind, bytes);
    kernel.cuda.shared_bytes = Expr(dynamic);
    variant(kernel.cuda, built, "tc_short_rows_sort" + call,
            dynamic > 0 ? std::string(kDynamicMemory)
                        : "tc_short_memory<" + std::string(storage_type(dtype_)) + ", " +
                              std::to_string(kind) + ">",
            tc_short_block(kind),
            bytes <= 4  ? 0
            : kind <= 2 ? 2
                        : 1);
    variant(kernel.serial, built, "tc_short_rows_sort_alone" + call, "", 1);
    kernel.cuda.grid[0] = kernel.serial.grid[0] =
        symbolic::ceil_div(cut_.rows, Expr(tc_short_rows(kind))) * is_this;
    return finish(std::move(built));
  }
  Expr table_elements() const { return cut_.rows * (cut_.parts + Expr(1)) * Expr(tc_radix_digits); }

  BuiltKernel count(BufferId from, int pass) {
    BuiltKernel built = begin({{from, dtype_, true}, {buffers_.table, cut_.count, false}}, pass);
    program::Kernel &kernel = built.kernel;
    kernel.bytes_read = elements() * Expr(size_of(dtype_));
    kernel.bytes_written = table_elements() * Expr(size_of(cut_.count));
    kernel.plan = "radix sort of rows: how often each digit stands in each part, a block a part";
    const std::string call = "<" + descending() + ">(in0, out0, problem";
    variant(kernel.cuda, built, "tc_radix_count" + call, "tc_radix_count_memory", tc_radix_threads);
    variant(kernel.serial, built, "tc_radix_count_alone" + call, "", 1);
    kernel.cuda.grid[0] = kernel.serial.grid[0] = cut_.rows * cut_.parts * is_cut();
    estimate(kernel, scheduler::radix_count_instructions(), kCountBlocks);
    return finish(std::move(built));
  }

  BuiltKernel scan() {
    BuiltKernel built = begin({{buffers_.table, cut_.count, false}}, 0);
    program::Kernel &kernel = built.kernel;
    kernel.bytes_read = kernel.bytes_written = table_elements() * Expr(size_of(cut_.count));
    kernel.plan = "radix sort of rows: how often each digit stands in the parts before";
    const auto parts = cut_.parts.as_integer();
    const bool few = parts && *parts <= tc_radix_few_parts;
    if (few)
      variant(kernel.cuda, built, "tc_radix_scan_few(out0, problem", "", tc_radix_digits);
    else
      variant(kernel.cuda, built, "tc_radix_scan(out0, problem",
              "tc_radix_scan_memory<" + std::string(storage_type(cut_.count)) + ">",
              tc_radix_scan_threads);
    variant(kernel.serial, built, "tc_radix_scan_alone(out0, problem", "", 1);
    kernel.serial.grid[0] = cut_.rows * is_cut();
    kernel.cuda.grid[0] =
        kernel.serial.grid[0] * Expr(few ? 1 : tc_radix_digits / tc_radix_scan_digits);
    return finish(std::move(built));
  }

  BuiltKernel move(BufferId from, BufferId were, BufferId to, BufferId places, int pass) {
    const DType place_type = places == ir::kNone ? cut_.count : module_.buffer(places).dtype;
    std::vector<Pointer> pointers = {{from, dtype_, true}};
    if (were != ir::kNone)
      pointers.push_back({were, cut_.count, true});
    pointers.push_back({buffers_.table, cut_.count, true});
    if (to != ir::kNone)
      pointers.push_back({to, dtype_, false});
    if (places != ir::kNone)
      pointers.push_back({places, place_type, false});
    BuiltKernel built = begin(pointers, pass);
    program::Kernel &kernel = built.kernel;
    const int64_t table = size_of(cut_.count);
    kernel.bytes_read =
        elements() * Expr(size_of(dtype_) + (were != ir::kNone ? size_of(cut_.count) : 0)) +
        table_elements() * Expr(table);
    kernel.bytes_written = elements() * Expr((to != ir::kNone ? size_of(dtype_) : 0) +
                                             (places != ir::kNone ? size_of(place_type) : 0));
    kernel.plan = "radix sort of rows: elements go where their digits belong, a block a part, "
                  "in order of digits in shared memory";
    const bool reads_places = were != ir::kNone;
    const std::string source = !call_.positions ? "tc_radix_none()"
                               : reads_places   ? "in1"
                                                : "tc_radix_here()";
    const std::string call = "<" + descending() + ">(in0, " + source + ", " +
                             (reads_places ? "in2" : "in1") + ", " +
                             (to != ir::kNone ? "out0" : "tc_radix_none()") + ", " +
                             (places == ir::kNone ? "tc_radix_none()"
                              : to != ir::kNone   ? "out1"
                                                  : "out0") +
                             ", problem";
    variant(kernel.cuda, built, "tc_radix_move" + call,
            "tc_radix_move_memory<" + std::string(storage_type(dtype_)) + ", " +
                std::string(storage_type(cut_.count)) + ">",
            tc_radix_threads, tc_radix_blocks);
    variant(kernel.serial, built, "tc_radix_move_alone" + call, "", 1);
    kernel.cuda.grid[0] = kernel.serial.grid[0] = cut_.rows * cut_.parts * is_cut();
    estimate(kernel, scheduler::radix_move_instructions(call_.positions), tc_radix_blocks);
    return finish(std::move(built));
  }

  BuiltKernel begin(const std::vector<Pointer> &pointers, int pass) const {
    return begin(pointers, {cut_.length, cut_.parts, cut_.steps, Expr(pass * tc_radix_bits)});
  }
  /// Parameters: the pointers, then what tc_radix_rows holds.
  BuiltKernel begin(const std::vector<Pointer> &pointers, std::vector<Expr> rows) const {
    BuiltKernel built;
    int inputs = 0, outputs = 0;
    for (const Pointer &pointer : pointers) {
      const std::string name =
          pointer.is_const ? "in" + std::to_string(inputs++) : "out" + std::to_string(outputs++);
      built.kernel.parameters.push_back(
          {program::KernelParameter::Kind::pointer, name, pointer.dtype, pointer.is_const});
      built.pointers.push_back(module_.storage_of(pointer.buffer));
    }
    built.sizes = std::move(rows);
    for (size_t i = 0; i < built.sizes.size(); ++i)
      built.kernel.parameters.push_back(
          {program::KernelParameter::Kind::size, "n" + std::to_string(i), DType::i64, true});
    return built;
  }

  /// A kernel that does nothing but call a function of the template, up to its last argument.
  /// `memory`: the structure in shared memory that it takes, kDynamicMemory, or "".
  /// `blocks`: that a multiprocessor is to hold, or 0.
  static void variant(program::KernelVariant &variant, const BuiltKernel &built,
                      const std::string &call, const std::string &memory, int threads,
                      int blocks = 0) {
    const std::string name(kKernelPlaceholder);
    std::string list;
    for (const program::KernelParameter &parameter : built.kernel.parameters) {
      list += list.empty() ? "" : ", ";
      list += parameter.kind == program::KernelParameter::Kind::size
                  ? "long long " + parameter.name
                  : pointer_text(parameter.dtype, parameter.is_const, true) + parameter.name;
    }
    std::string text;
    const bool is_static = !memory.empty() && memory != kDynamicMemory;
    if (is_static)
      text += "struct " + name + "_shared : " + memory + " {};\n\n";
    text += "TC_KERNEL void __launch_bounds__(" + std::to_string(threads) +
            (blocks > 0 ? ", " + std::to_string(blocks) : "") + ") " + name + "(" + list + ") {\n";
    if (is_static)
      text += "  TC_SMEM(" + name + "_shared, memory);\n";
    else if (!memory.empty())
      text += "  TC_DYN_SMEM(unsigned char, memory);\n";
    text += "  const tc_radix_rows problem = {n0, n1, n2, static_cast<int>(n3)};\n  " + call +
            (memory.empty() ? "" : ", memory") + ");\n}\n";
    variant.text = text + export_line(name, !memory.empty(), is_static);
    variant.block = {threads, 1, 1};
    variant.has_barriers = !memory.empty();
  }

  /// `instructions`: of a thread, for each element. `resident`: blocks on a multiprocessor.
  void estimate(program::Kernel &kernel, double instructions, double resident) const {
    const auto read = kernel.bytes_read.as_integer(), written = kernel.bytes_written.as_integer(),
               blocks = kernel.cuda.grid[0].as_integer(), all = elements().as_integer();
    if (!read || !written || !blocks || !all || target_.is_host)
      return;
    program::KernelEstimate &result = kernel.estimate;
    result.is_known = true;
    result.blocks = *blocks;
    const double multiprocessors = target_.multiprocessors;
    const double at_once = std::min(static_cast<double>(*blocks), resident * multiprocessors);
    result.threads_in_flight = static_cast<int64_t>(at_once) * tc_radix_threads;
    result.waves =
        std::round(static_cast<double>(*blocks) / (resident * multiprocessors) * 100) / 100;
    result.memory =
        std::round(scheduler::kernel_nanoseconds(target_, static_cast<double>(*read + *written)) -
                   scheduler::kernel_nanoseconds(target_, 0));
    result.instructions = std::round(scheduler::instruction_nanoseconds(
        target_, static_cast<double>(*all) * instructions, at_once));
    result.sectors = std::max(1.0, static_cast<double>(size_of(dtype_)));
  }

  BuiltKernel finish(BuiltKernel built) const {
    constexpr std::string_view kIncludes[] = {"tc_radix.h"};
    finish_kernel(built, origins_of(module_, schedule_, group_),
                  built.kernel.plan + "; one thread a block", kIncludes);
    return built;
  }
};

} // namespace

const ir::Operation *sort_of(const ir::Module &module, const scheduler::Schedule &schedule,
                             const scheduler::Group &group) {
  if (group.node_class != scheduler::NodeClass::templated)
    return nullptr;
  const ir::Operation &operation = module.operations[schedule.nodes[group.parts->root].operation];
  const auto *call = std::get_if<ir::Extern>(&operation.kind);
  return call && call->library == ir::Library::sort ? &operation : nullptr;
}

SortBuffers add_sort_buffers(ir::Module &module, const ir::Operation &operation) {
  const ir::Extern call = call_of(operation); // the module's buffers move
  const Cut rows = cut(module, call.inputs[0].layout);
  const auto add = [&](const char *stem, DType dtype, std::vector<Expr> sizes) {
    ir::Buffer buffer;
    buffer.name = stem + std::to_string(module.buffers.size());
    buffer.dtype = dtype;
    buffer.layout = tensor::contiguous_layout(std::move(sizes));
    buffer.role = ir::Buffer::Role::computed;
    module.buffers.push_back(std::move(buffer));
    return static_cast<BufferId>(module.buffers.size() - 1);
  };
  SortBuffers result;
  const DType dtype = call.inputs[0].dtype;
  const int passes = passes_of(dtype);
  const std::vector<Expr> all = {rows.rows, rows.length};
  result.table =
      add("digits", rows.count, {rows.rows, rows.parts + Expr(1), Expr(tc_radix_digits)});
  if (passes > 1)
    result.values[0] = add("keys", dtype, all);
  if (passes > 2 && !call.values)
    result.values[1] = add("keys", dtype, all);
  if (passes > 1 && call.positions)
    result.places[0] = add("places", rows.count, all);
  if (passes > 2 && call.positions)
    result.places[1] = add("places", rows.count, all);
  return result;
}

std::vector<BuiltKernel> build_sort(const ir::Module &module, const scheduler::Schedule &schedule,
                                    const scheduler::Group &group, const ir::Operation &operation,
                                    const SortBuffers &buffers, const target::Target &target) {
  return SortBuilder(module, schedule, group, operation, buffers, target).run();
}

} // namespace tsc::codegen
