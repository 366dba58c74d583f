#include "program/validate.h"

#include "program/check_memory.h"
#include "program/step_fields.h"
#include "program/streams.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace tsc::program {
namespace {

using support::Diagnostic;

constexpr size_t kMaxReported = 20;

std::string in_quotes(const std::string &text) {
  std::string result = "\"";
  result += text;
  result += '"';
  return result;
}

/// A visitor of steps' fields that looks at every expression.
template <class Function> struct SizeVisitor {
  Function see;
  void see_operand(const Operand &x) const { see(x.offset); }
  void see_operand(const MatrixOperand &x) const {
    for (const Expr e : {x.offset, x.row_stride, x.column_stride, x.batch_stride})
      see(e);
  }
  template <class X> void see_operand(const std::optional<X> &x) const {
    if (x)
      see_operand(*x);
  }
  template <class... Rest> void index(Rest &&...) const {}
  template <class... Rest> void integer(Rest &&...) const {}
  template <class... Rest> void number(Rest &&...) const {}
  template <class... Rest> void flag(Rest &&...) const {}
  template <class... Rest> void text(Rest &&...) const {}
  template <class... Rest> void label(Rest &&...) const {}
  template <class... Rest> void dtype(Rest &&...) const {}
  template <class... Rest> void word(Rest &&...) const {}
  void size(std::string_view, Expr e, const char *) const { see(e); }
  void size_or(std::string_view, Expr e, int64_t, const char *) const { see(e); }
  void expression(std::string_view, Expr e) const { see(e); }
  void expressions(std::string_view, const std::vector<Expr> &list) const {
    std::for_each(list.begin(), list.end(), see);
  }
  void pointers(std::string_view, const std::vector<Operand> &operands) const {
    for (const Operand &operand : operands)
      see_operand(operand);
  }
  template <class X> void reads(std::string_view, const X &x) const { see_operand(x); }
  template <class X> void writes(std::string_view, const X &x) const { see_operand(x); }
  template <class X> void predicate(std::string_view, const X &x) const { see_operand(x); }
};
template <class Function> SizeVisitor(Function) -> SizeVisitor<Function>;

class Validator {
public:
  explicit Validator(const Program &program) : program_(program) {}

  std::vector<Diagnostic> run() {
    check_symbols();
    for (size_t i = 0; i < program_.buffers.size(); ++i)
      check_buffer(program_.buffers[i], place("buffers", i));
    check_alias_chains();
    for (size_t i = 0; i < program_.kernels.size(); ++i)
      check_kernel(program_.kernels[i], place("kernels", i));
    for (size_t i = 0; i < program_.steps.size(); ++i)
      check_step(program_.steps[i], i, place("steps", i));
    check_control();
    check_signature();
    if (problems_.empty())
      check_order_of_symbols();
    for (size_t i = 0; i < program_.size_assertions.size(); ++i)
      check_symbols_of(program_.size_assertions[i].condition, place("size_assertions", i));
    return std::move(problems_);
  }

private:
  static std::string place(const char *table, size_t i) {
    return std::string("/") + table + "/" + std::to_string(i);
  }
  void report(const char *code, const std::string &message, const std::string &where) {
    if (problems_.size() < kMaxReported)
      problems_.push_back(
          {code, message, "", where, "", "", "compile the graph again with this version of tsc"});
  }

  void check_symbols() {
    for (const Symbol &symbol : program_.symbols) {
      if (!is_of_programs(symbol.symbol)) {
        report("TSC-P008", in_quotes(symbolic::print(symbol.symbol)) + " is no symbol", "/symbols");
        continue;
      }
      if (!declared_.insert(symbol.symbol).second)
        report("TSC-P008",
               "the symbol " + in_quotes(symbolic::print(symbol.symbol)) + " is declared twice",
               "/symbols");
      ranges_.set(symbol.symbol, {symbol.low, symbol.high});
    }
    for (size_t i = 0; i < program_.symbols.size(); ++i) {
      if (binding_of(program_, i))
        continue;
      unknown_.insert(program_.symbols[i].symbol); // until its step
      if (definition_of(program_, i) == nullptr)
        report("TSC-P008",
               "no dimension of an input says what \"" +
                   symbolic::print(program_.symbols[i].symbol) + "\" is: nothing binds it",
               place("symbols", i));
    }
  }
  /// Of a step: what it mentions is known when it runs.
  void check_known(Expr e, const std::string &where) {
    if (e.is_integer() || unknown_.empty())
      return;
    for (const Expr symbol : symbolic::free_symbols(e))
      if (unknown_.count(symbol) != 0)
        report("TSC-P008",
               "\"" + symbolic::print(symbol) + "\" is used before a step says what it is", where);
  }
  /// Of those that depend on a step, those that come first.
  static uint32_t first_steps(const Step &step) {
    const auto *conditional = std::get_if<Conditional>(&step.kind);
    const auto *loop = std::get_if<WhileLoop>(&step.kind);
    return conditional ? conditional->then_steps : loop ? loop->condition_steps : 0;
  }
  static uint32_t second_steps(const Step &step) {
    const auto *conditional = std::get_if<Conditional>(&step.kind);
    const auto *loop = std::get_if<WhileLoop>(&step.kind);
    return conditional ? conditional->else_steps : loop ? loop->body_steps : 0;
  }
  /// Each step by itself, in order: from its step on, to the end of the branch or loop that it is
  /// part of, a symbol that one defines is known.
  void check_order_of_symbols() {
    if (unknown_.empty())
      return;
    const auto check = [this](const std::string &where) {
      return [this, where](Expr e) { check_known(e, where); };
    };
    for (const InputInfo &input : program_.inputs) {
      const Layout &layout = program_.buffers[input.buffer].layout;
      std::for_each(layout.sizes.begin(), layout.sizes.end(), check("/inputs"));
      std::for_each(layout.strides.begin(), layout.strides.end(), check("/inputs"));
      check_known(layout.offset, "/inputs");
      check_known(program_.buffers[input.buffer].bytes, "/inputs");
    }
    std::vector<std::pair<size_t, std::vector<Expr>>> parts; // end, what its steps say
    std::unordered_set<Expr, symbolic::ExprHash> to_come = unknown_;
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      for (; !parts.empty() && parts.back().first <= i; parts.pop_back())
        unknown_.insert(parts.back().second.begin(), parts.back().second.end());
      const Step &step = program_.steps[i];
      const std::string where = place("steps", i);
      if (const auto *define = std::get_if<Define>(&step.kind)) {
        check_known(define->bound, where);
        check_known(define->number.offset, where);
        unknown_.erase(define->symbol);
        to_come.erase(define->symbol);
        if (!parts.empty())
          parts.back().second.push_back(define->symbol);
        // The engine tells by its place among the symbols when one is known.
        if (!to_come.empty() && std::any_of(program_.symbols.begin(), program_.symbols.end(),
                                            [&, is_before = true](const Symbol &symbol) mutable {
                                              is_before =
                                                  is_before && symbol.symbol != define->symbol;
                                              return is_before && to_come.count(symbol.symbol) != 0;
                                            }))
          report("TSC-P009", "symbols are not in the order of the steps that say what they are",
                 where);
        continue;
      }
      std::visit([&](const auto &kind) { visit_fields(kind, SizeVisitor{check(where)}); },
                 step.kind);
      if (const size_t middle = i + 1 + first_steps(step), end = middle + second_steps(step);
          end > i + 1) {
        parts.push_back({end, {}});
        if (middle > i + 1 && middle < end)
          parts.push_back({middle, {}});
      }
      if (const auto *launch = std::get_if<Launch>(&step.kind))
        for (const KernelVariant *variant :
             {&program_.kernels[launch->kernel].cuda, &program_.kernels[launch->kernel].serial}) {
          std::for_each(variant->grid.begin(), variant->grid.end(), check(where));
          check_known(variant->shared_bytes, where);
        }
    }
  }

  void check_symbols_of(Expr e, const std::string &where) {
    if (e.is_integer())
      return;
    for (Expr symbol : symbolic::free_symbols(e))
      if (declared_.count(symbol) == 0)
        report("TSC-P008", "the symbol \"" + symbolic::print(symbol) + "\" is not declared", where);
  }
  /// A size, byte count or offset: never negative.
  void check_size(Expr e, const std::string &where, const char *what) {
    check_symbols_of(e, where);
    if (e.is_integer() ? e.value() < 0 : symbolic::bounds(e, ranges_).high < 0)
      report("TSC-P007", std::string(what) + " " + symbolic::print(e) + " is negative", where);
  }
  bool check_index(uint64_t index, size_t count, const char *what, const std::string &where) {
    if (index < count)
      return true;
    report("TSC-P006",
           std::string(what) + " " + std::to_string(index) + " does not exist: there are " +
               std::to_string(count),
           where);
    return false;
  }
  bool check_buffer_index(uint64_t index, const std::string &where) {
    return check_index(index, program_.buffers.size(), "buffer", where);
  }

  void check_layout(const Layout &layout, const std::string &where) {
    for (Expr size : layout.sizes)
      check_size(size, where, "size");
    for (Expr stride : layout.strides)
      check_size(stride, where, "stride");
    check_size(layout.offset, where, "offset");
    if (layout.sizes.size() != layout.strides.size())
      report("TSC-P009",
             std::to_string(layout.sizes.size()) + " sizes but " +
                 std::to_string(layout.strides.size()) + " strides",
             where);
  }

  void check_buffer(const Buffer &buffer, const std::string &where) {
    check_layout(buffer.layout, where);
    check_size(buffer.bytes, where, "byte count");
    if (!may_pass(buffer.role))
      check_dtype(buffer.dtype, where);
    if (buffer.alias_of >= 0)
      check_buffer_index(static_cast<uint64_t>(buffer.alias_of), where);
    if ((buffer.role == Role::weight) == buffer.weight.empty())
      report("TSC-P009",
             buffer.role == Role::weight ? "a weight without a name"
                                         : "\"weight\" on a buffer of another role",
             where);
    if (buffer.role == Role::weight)
      check_weight(buffer, where);
    if (buffer.role == Role::random_state &&
        (buffer.dtype != DType::i64 || !buffer.bytes.is_integer(kRandomStateBytes)))
      report("TSC-P009", "a random state that is not two int64 numbers", where);
    if (buffer.role == Role::failure &&
        (buffer.dtype != DType::i64 || !buffer.bytes.is_integer(kFailureBytes)))
      report("TSC-P009", "a failure that is not four int64 numbers", where);
  }
  void check_weight(const Buffer &buffer, const std::string &where) {
    bool is_static = buffer.bytes.is_integer() && buffer.layout.offset.is_integer();
    for (Expr size : buffer.layout.sizes)
      is_static &= size.is_integer();
    for (Expr stride : buffer.layout.strides)
      is_static &= stride.is_integer();
    if (!is_static)
      report("TSC-P009", "the size of a weight is no number", where);
    const Buffer &first = *weights_.emplace(buffer.weight, &buffer).first->second;
    if (first.bytes != buffer.bytes || first.dtype != buffer.dtype)
      report("TSC-P009", "weight " + in_quotes(buffer.weight) + " has two sizes or element types",
             where);
    if (is_static && !is_inside(buffer))
      report("TSC-P009",
             "the layout of weight " + in_quotes(buffer.weight) + " reaches beyond its bytes",
             where);
  }
  /// Weights are laid out by the engine: no element may lie outside.
  static bool is_inside(const Buffer &buffer) {
    int64_t last = buffer.layout.offset.value();
    for (size_t axis = 0; axis < buffer.layout.sizes.size(); ++axis) {
      int64_t size = buffer.layout.sizes[axis].value();
      int64_t reach = 0;
      if (size <= 0)
        return true;
      if (__builtin_mul_overflow(size - 1, buffer.layout.strides[axis].value(), &reach) ||
          __builtin_add_overflow(last, reach, &last))
        return false;
    }
    return last < buffer.bytes.value() / static_cast<int64_t>(tensor::size_in_bytes(buffer.dtype));
  }
  /// Every chain of alias_of ends: each buffer is walked once.
  void check_alias_chains() {
    std::vector<size_t> walk_of(program_.buffers.size(), SIZE_MAX);
    for (size_t start = 0; start < program_.buffers.size(); ++start) {
      size_t at = start;
      while (walk_of[at] == SIZE_MAX) {
        walk_of[at] = start;
        int32_t next = program_.buffers[at].alias_of;
        if (next < 0 || static_cast<size_t>(next) >= program_.buffers.size())
          break;
        at = static_cast<size_t>(next);
        if (walk_of[at] == start)
          report("TSC-P009",
                 "the buffers that buffer " + std::to_string(at) + " takes over form a circle",
                 place("buffers", at));
      }
    }
  }
  /// What comes in may go out as it is, whatever its type; kernels name the types that they take.
  static bool may_pass(Role role) {
    return role == Role::input || role == Role::weight || role == Role::output;
  }
  void check_dtype(DType dtype, const std::string &where) {
    if (tensor::is_complex(dtype))
      report("TSC-P005",
             "element type \"" + std::string(tensor::short_name(dtype)) + "\" cannot be run",
             where);
  }

  void check_kernel(const Kernel &kernel, const std::string &where) {
    check_variant(kernel.cuda, where + "/cuda");
    for (const TensorMap &map : kernel.cuda.maps)
      check_map(kernel, map, where + "/cuda/maps");
    if (!kernel.serial.maps.empty())
      report("TSC-P009", "a kernel for the host takes no tensor maps", where + "/serial");
    check_variant(kernel.serial, where + "/serial");
    check_size(kernel.bytes_read, where, "byte count");
    check_size(kernel.bytes_written, where, "byte count");
    bool is_word = !kernel.name.empty() && kernel.name.size() <= 200;
    for (char c : kernel.name)
      is_word &=
          (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (!is_word) // becomes a file name and an identifier
      report("TSC-P009", in_quotes(kernel.name) + " is no kernel name", where);
    const Kernel &first = *kernels_by_name_.emplace(kernel.name, &kernel).first->second;
    if (first.cuda.text != kernel.cuda.text || first.serial.text != kernel.serial.text)
      report("TSC-P009", "two kernels with different texts are named " + in_quotes(kernel.name),
             where);
  }
  void check_map(const Kernel &kernel, const TensorMap &map, const std::string &where) {
    if (map.parameter >= kernel.parameters.size() ||
        kernel.parameters[map.parameter].kind != KernelParameter::Kind::pointer) {
      report("TSC-P009", "a tensor map is of no pointer", where);
      return;
    }
    const auto bytes =
        static_cast<int64_t>(tensor::size_in_bytes(kernel.parameters[map.parameter].dtype));
    const size_t rank = map.sizes.size();
    const size_t windows = map.lower.size(), boxed = windows > 0 ? 2 : rank;
    const auto is_line = [&](int64_t line) {
      return line == 128 || line == 64 || line == 32 || (windows == 0 && line == 16);
    };
    bool fits = rank >= 1 && rank <= 5 && map.strides.size() == rank && map.box.size() == boxed &&
                map.strides[0].is_integer(1) && is_line(map.box[0] * bytes) &&
                map.upper.size() == windows && map.step.size() == windows &&
                (windows == 0 || (windows <= 3 && rank == windows + 2));
    for (const int size : map.box)
      fits = fits && size >= 1 && size <= 256;
    for (size_t k = 0; fits && k < rank; ++k) {
      check_size(map.sizes[k], where, "size");
      check_size(map.strides[k], where, "stride");
      const auto stride = map.strides[k].as_integer();
      fits = k == 0 || !stride || *stride * bytes % 16 == 0;
    }
    check_size(map.offset, where, "offset");
    fits = fits && (!map.tf32 || kernel.parameters[map.parameter].dtype == DType::f32);
    if (!fits)
      report("TSC-P009",
             "a tensor map has 1 to 5 sizes, the first one's neighbours 128, 64 or 32 "
             "bytes of a box (without windows 16, too), others "
             "whole words of 16 bytes apart; only floats of 32 bits are rounded to TF32",
             where);
  }
  void check_variant(const KernelVariant &variant, const std::string &where) {
    int64_t threads = 1;
    for (size_t axis = 0; axis < 3; ++axis) {
      check_size(variant.grid[axis], where, "grid size");
      if (variant.block[axis] < 1 || variant.block[axis] > 1024)
        report("TSC-P007",
               "block size " + std::to_string(variant.block[axis]) + " is not in [1, 1024]", where);
      else
        threads *= variant.block[axis];
    }
    if (threads > 1024)
      report("TSC-P007", std::to_string(threads) + " threads a block are more than 1024", where);
    check_size(variant.shared_bytes, where, "shared memory");
  }

  void check_step(const Step &step, size_t position, const std::string &where) {
    std::visit(
        [&](const auto &kind) {
          visit_fields(kind, FieldCheck{this, &where});
          check_whole(kind, where);
        },
        step.kind);
    for (uint32_t wait : step.waits)
      if (check_index(wait, program_.steps.size(), "step", where) && wait >= position)
        report("TSC-P009",
               "the step waits for step " + std::to_string(wait) + ", which comes later", where);
    if (step.once)
      check_once(step, where);
  }
  void check_once(const Step &step, const std::string &where) {
    if (!problems_.empty())
      return; // reads() and writes() need a sound step
    for (uint32_t buffer : reads(program_, step))
      check_once_buffer(buffer, where);
    for (uint32_t buffer : writes(program_, step))
      check_once_buffer(buffer, where);
  }
  void check_once_buffer(uint32_t buffer, const std::string &where) {
    const Buffer &row = program_.buffers[buffer];
    if (row.role == Role::input || row.role == Role::output || row.role == Role::random_state ||
        row.role == Role::exchange || !row.bytes.is_integer())
      report("TSC-P009",
             "a step that runs once touches buffer \"" + row.name + "\", which belongs to a run",
             where);
  }
  /// What holds of each field by its sort; of indices what they count says, in check_whole or where
  /// control is checked.
  struct FieldCheck {
    Validator *self;
    const std::string *where;

    void index(std::string_view, uint32_t) const {}
    void integer(std::string_view, int64_t, int64_t, int64_t) const {}
    void number(std::string_view, double) const {}
    void flag(std::string_view, bool) const {}
    void text(std::string_view, const std::string &) const {}
    void label(std::string_view, const std::string &) const {}
    template <class Word, class Names> void word(std::string_view, Word, const Names &) const {}
    void dtype(std::string_view, DType dtype) const { self->check_dtype(dtype, *where); }
    void dtype(std::string_view, const std::optional<DType> &dtype) const {
      if (dtype)
        self->check_dtype(*dtype, *where);
    }
    void size(std::string_view, Expr value, const char *noun) const {
      self->check_size(value, *where, noun);
    }
    void size_or(std::string_view, Expr value, int64_t, const char *noun) const {
      self->check_size(value, *where, noun);
    }
    void expression(std::string_view, Expr value) const { self->check_symbols_of(value, *where); }
    void expressions(std::string_view, const std::vector<Expr> &values) const {
      for (const Expr value : values)
        self->check_symbols_of(value, *where);
    }
    void pointers(std::string_view, const std::vector<Operand> &operands) const {
      for (const Operand &operand : operands)
        self->check_operand(operand, *where);
    }
    template <class X> void reads(std::string_view name, const X &x) const {
      self->check_operand(x, *where + "/" + std::string(name));
    }
    template <class X> void reads(std::string_view name, const std::optional<X> &x) const {
      if (x)
        reads(name, *x);
    }
    template <class X> void writes(std::string_view name, const X &x) const { reads(name, x); }
    void predicate(std::string_view name, const Operand &x) const {
      reads(name, x);
      if (x.buffer < self->program_.buffers.size() &&
          self->program_.buffers[x.buffer].dtype != DType::boolean)
        self->report("TSC-P009", "a predicate that is no bool", *where);
    }
    void predicate(std::string_view name, const std::optional<Operand> &x) const {
      if (x)
        predicate(name, *x);
    }
  };
  /// What holds of several fields together.
  template <class Kind> void check_whole(const Kind &, const std::string &) {}
  void check_whole(const Launch &launch, const std::string &where) {
    if (!check_index(launch.kernel, program_.kernels.size(), "kernel", where))
      return;
    size_t pointers = 0;
    for (const KernelParameter &parameter : program_.kernels[launch.kernel].parameters)
      pointers += parameter.kind == KernelParameter::Kind::pointer;
    size_t sizes = program_.kernels[launch.kernel].parameters.size() - pointers;
    if (launch.pointers.size() != pointers || launch.sizes.size() != sizes)
      report("TSC-P009",
             "kernel \"" + program_.kernels[launch.kernel].name + "\" takes " +
                 std::to_string(pointers) + " pointers and " + std::to_string(sizes) +
                 " sizes, the step gives " + std::to_string(launch.pointers.size()) + " and " +
                 std::to_string(launch.sizes.size()),
             where);
  }
  void check_whole(const Matmul &product, const std::string &where) {
    const DType given = product.dtype, result = product.result.value_or(given);
    if (tensor::is_complex(given) || tensor::is_complex(result)) // said of the field
      return;
    if (result != given && static_cast<tsc_engine::DType>(result) !=
                               tsc_engine::wide_product(static_cast<tsc_engine::DType>(given)))
      report("TSC-P009",
             "a product of " + std::string(tensor::short_name(given)) + " that is " +
                 std::string(tensor::short_name(result)),
             where);
    const auto check = [&](const MatrixOperand &operand, DType dtype, const char *name) {
      if (operand.buffer >= program_.buffers.size())
        return;
      const Buffer &buffer = program_.buffers[operand.buffer];
      if (buffer.dtype != dtype)
        report("TSC-P009",
               std::string(name) + " of a product is " + std::string(tensor::short_name(dtype)) +
                   ", its buffer " + std::string(tensor::short_name(buffer.dtype)),
               where);
    };
    check(product.a, given, "a");
    check(product.b, given, "b");
    if (product.c)
      check(*product.c, result, "c");
    check(product.out, result, "out");
  }
  void check_operand(const Operand &operand, const std::string &where) {
    check_buffer_index(operand.buffer, where);
    check_size(operand.offset, where, "offset");
  }
  void check_operand(const MatrixOperand &operand, const std::string &where) {
    check_buffer_index(operand.buffer, where);
    check_size(operand.offset, where, "offset");
    check_size(operand.row_stride, where, "stride");
    check_size(operand.column_stride, where, "stride");
    check_size(operand.batch_stride, where, "stride");
  }
  void check_whole(const Define &define, const std::string &where) {
    if (define.number.buffer < program_.buffers.size() &&
        program_.buffers[define.number.buffer].dtype != DType::i64)
      report("TSC-P009", "a size that is no int64", where);
    if (!defined_.insert(define.symbol).second || unknown_.count(define.symbol) == 0)
      report("TSC-P009",
             in_quotes(symbolic::print(define.symbol)) +
                 " is no symbol that one step, and nothing else, says",
             where);
  }
  void check_whole(const Collective &collective, const std::string &where) {
    using Kind = Collective::Kind;
    const int64_t most = group_sizes(program_).at(collective.group);
    const bool scales =
        collective.kind == Kind::all_gather || collective.kind == Kind::reduce_scatter;
    if (collective.ranks < (scales ? 1 : 0))
      report("TSC-P007", "a group of " + std::to_string(collective.ranks) + " ranks", where);
    else if (collective.ranks != 0 && collective.ranks != most)
      report("TSC-P009",
             "a group of " + std::to_string(collective.ranks) + " ranks beside one of " +
                 std::to_string(most),
             where);
    else if (collective.kind == Kind::all_to_all &&
             (static_cast<int64_t>(collective.sends.size()) != collective.ranks ||
              collective.receives.size() != collective.sends.size()))
      report("TSC-P009", "parts for another number of ranks than the group has", where);
    else if (most != 0 && collective.root >= most)
      report("TSC-P009",
             "rank " + std::to_string(collective.root) + " in a group of " + std::to_string(most),
             where);
  }

  /// The steps that depend on a step end before those around it do.
  void check_control() {
    std::vector<size_t> ends = {program_.steps.size()};
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      while (ends.back() == i)
        ends.pop_back();
      const Step &step = program_.steps[i];
      if (!decides(step))
        continue;
      const auto *conditional = std::get_if<Conditional>(&step.kind);
      const auto *loop = std::get_if<WhileLoop>(&step.kind);
      if (conditional == nullptr && loop == nullptr) { // a Define
        if (step.once)
          report("TSC-P009", "a step that says what a size is runs once", place("steps", i));
        continue;
      }
      const size_t first = conditional ? conditional->then_steps : loop->condition_steps;
      const size_t second = conditional ? conditional->else_steps : loop->body_steps;
      const size_t left = ends.back() - i - 1;
      if (step.once)
        report("TSC-P009", "a step that others depend on runs once", place("steps", i));
      if (first > left || second > left - first) {
        report("TSC-P009",
               std::to_string(first) + " and " + std::to_string(second) +
                   " steps depend on the step, and " + std::to_string(left) + " follow it",
               place("steps", i));
        return;
      }
      if (second != 0)
        ends.push_back(i + 1 + first + second);
      if (first != 0)
        ends.push_back(i + 1 + first);
    }
  }

  /// Parts of complex numbers lie in a last dimension of 2.
  void check_parts(const Layout &layout, DType dtype, const std::string &at) {
    if (layout.rank() == 0 || !layout.sizes.back().is_integer(2) ||
        layout.strides.size() != layout.rank() || (dtype != DType::f32 && dtype != DType::f64))
      report("TSC-P009", "complex numbers have parts of f32 or f64 in a last dimension of 2", at);
  }

  void check_signature() {
    for (size_t i = 0; i < program_.buffers.size(); ++i)
      if (program_.buffers[i].is_complex)
        check_parts(program_.buffers[i].layout, program_.buffers[i].dtype, place("buffers", i));
    std::set<std::string> names;
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      const InputInfo &input = program_.inputs[i];
      if (check_buffer_index(input.buffer, place("inputs", i)) &&
          program_.buffers[input.buffer].role != Role::input)
        report("TSC-P009", "the buffer of input \"" + input.name + "\" is no input",
               place("inputs", i));
      if (input.value)
        check_symbols_of(*input.value, place("inputs", i));
      if (!names.insert(input.name).second)
        report("TSC-P009", "two inputs are named \"" + input.name + "\"", place("inputs", i));
    }
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      const OutputInfo &output = program_.outputs[i];
      if (output.buffer < 0)
        continue;
      check_layout(output.layout, place("outputs", i));
      if (output.is_complex)
        check_parts(output.layout, output.dtype, place("outputs", i));
      if (check_buffer_index(static_cast<uint64_t>(output.buffer), place("outputs", i)) &&
          !may_pass(program_.buffers[static_cast<size_t>(output.buffer)].role))
        check_dtype(output.dtype, place("outputs", i));
    }
    const auto results = static_cast<size_t>(
        std::count_if(program_.outputs.begin(), program_.outputs.end(),
                      [](const OutputInfo &output) { return !output.is_mutation; }));
    if (program_.structure && tensor::count_leaves(*program_.structure) != results)
      report("TSC-P009",
             "the structure has " + std::to_string(tensor::count_leaves(*program_.structure)) +
                 " results, the program " + std::to_string(results),
             "/structure");
  }

  const Program &program_;
  symbolic::Ranges ranges_;
  std::unordered_set<Expr, symbolic::ExprHash> declared_;
  std::unordered_set<Expr, symbolic::ExprHash> unknown_; // that no input binds
  std::unordered_set<Expr, symbolic::ExprHash> defined_; // by a step
  std::unordered_map<std::string, const Kernel *> kernels_by_name_;
  std::unordered_map<std::string, const Buffer *> weights_;
  std::vector<Diagnostic> problems_;
};

} // namespace

void validate(const Program &program, const std::string &label) {
  std::vector<Diagnostic> problems = Validator(program).run();
  if (problems.empty())
    problems = check_memory(program);
  if (problems.empty())
    problems = check_streams(program);
  if (problems.empty())
    return;
  if (problems.size() > kMaxReported)
    problems.resize(kMaxReported);
  for (Diagnostic &problem : problems)
    problem.file = label;
  throw support::UserError(support::ExitCode::bad_input, std::move(problems));
}

} // namespace tsc::program
