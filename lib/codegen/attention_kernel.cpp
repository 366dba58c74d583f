#include "codegen/attention_kernel.h"

#include "codegen/attention_operands.h"
#include "codegen/expression.h"
#include "codegen/score_text.h"
#include "ir/custom_call.h"
#include "scheduler/few_queries.h"
#include "support/diagnostic.h"
#include "support/hash.h"
#include "support/text.h"
#include "templates/attention/tc_attention_geometry.h"

#include <algorithm>
#include <array>
#include <set>

namespace tsc::codegen {

namespace {

struct Shape {
  int depth = 0;
  bool costly_mask = false;  // in registers
  bool masked = false;       // by a tensor or by a function
  int groups = 0;            // of warps that compute, 0: the form without wgmma
  bool bulk = false;         // groups: bulk copies bring queries, keys and values
  int tiles = 0, stages = 0; // the form for few queries: rows of 16 of a block, steps at a time
  bool boxes = false;        // that form: bulk copies bring keys and values
  int few_groups = 1;        // of warps, of a block
  int step_bytes = 0, once_bytes = 0; // its shared memory: of a step, and beside them
  int float_rows = 0;                 // the form for floats: rows of a block

  bool few() const { return tiles > 0; }
  bool floats() const { return float_rows > 0; }
  std::string_view header() const {
    return few()        ? "tc_attention_few.h"
           : groups > 0 ? "tc_attention_groups.h"
           : floats()   ? "tc_attention_floats.h"
                        : "tc_attention.h";
  }
  /// Of a block on the device, as are the bytes of shared memory.
  int threads() const {
    return few()        ? few_groups * tc_few_threads
           : groups > 0 ? tc_attention_group_threads(groups)
           : floats()   ? tc_float_threads(float_rows)
                        : tc_attention_threads(costly_mask);
  }
  int shared_bytes() const {
    return few()        ? tc_few_bytes(depth, step_bytes, once_bytes, stages, few_groups)
           : groups > 0 ? group_bytes()
           : floats()   ? tc_float_bytes(depth, float_rows)
                        : tc_attention_shared_bytes(depth);
  }
  /// Of a head that a block computes.
  int rows() const {
    return groups > 0 ? groups * tc_group_rows : floats() ? float_rows : tc_attention_rows;
  }
  int group_keys() const { return tc_attention_group_keys(depth, groups, masked); }
  int group_bytes() const { return tc_attention_group_bytes(depth, groups, masked); }
};

/// The map by which bulk copies bring `rows` rows of a head; nothing where strides are not whole
/// words of 16 bytes, or not known to be positive.
std::optional<program::TensorMap> map_of(const tensor::Layout &layout, int rows,
                                         const symbolic::Ranges &ranges) {
  const std::optional<tensor::Layout> boxes = ir::boxes_of(layout, ranges);
  if (!boxes)
    return std::nullopt;
  program::TensorMap map;
  map.offset = boxes->offset;
  map.sizes.assign(boxes->sizes.rbegin(), boxes->sizes.rend());
  map.strides.assign(boxes->strides.rbegin(), boxes->strides.rend());
  map.box = {tc_group_block, rows, 1, 1};
  return map;
}

constexpr const char *kOperandNames[] = {"_keys", "_values"};

class AttentionText {
public:
  AttentionText(const ir::Module &module, const ir::Operation &operation,
                const scheduler::TemplateParts &parts, const target::Target &target)
      : module_(module), call_(std::get<ir::Extern>(operation.kind)),
        out_(module.buffer(operation.outputs[0])), out_id_(operation.outputs[0]) {
    shape_.depth = static_cast<int>(call_.inputs[0].layout.sizes[3].value());
    shape_.masked = is_masked();
    if (module.buffer(call_.inputs[0].buffer).dtype == tensor::DType::f32) {
      const auto known = [&](Expr size) {
        return symbolic::simplify(size, module.ranges).as_integer();
      };
      const auto heads = known(query().sizes[1] * query().sizes[0]), rows = known(query().sizes[2]);
      shape_.float_rows = tc_float_rows(shape_.depth, heads && rows ? *heads : 0, rows.value_or(0),
                                        target.multiprocessors);
    } else if (scheduler::is_of_few_queries(target, call_)) {
      shape_.tiles = tc_few_tiles(shape_.depth, block_rows().value());
      plan_operands(parts, target);
    } else if (target.has_wgmma) {
      const auto heads = (query().sizes[0] * query().sizes[1]).as_integer(),
                 rows = query().sizes[2].as_integer();
      const auto groups = [&](int most) {
        return tc_attention_groups(shape_.depth, shape_.masked, call_.causal, rows.value_or(0),
                                   heads.value_or(0), target.multiprocessors, most);
      };
      constexpr int kMost = 4, kMostWithoutBulk = 3; // four were measured with bulk copies alone
      shape_.groups = groups(kMost);
      make_maps();
      if (!shape_.bulk)
        shape_.groups = groups(kMostWithoutBulk);
    }
    shape_.costly_mask =
        is_masked() &&
        !(ir::added_mask(call_) && together(2) &&
          tensor::size_in_bytes(module_.buffer(ir::added_mask(call_)->buffer).dtype) == 2);
    for (size_t i = 0; i < call_.inputs.size(); ++i)
      if (const std::optional<OperandText> *operand = computed(i); operand && *operand)
        add_operand(**operand);
      else
        add_pointer(call_.inputs[i].buffer, "in", true);
    for (const BufferId output : operation.outputs)
      add_pointer(output, "out", false);
    if (call_.parts > 0)
      for (size_t i = 3; i > 0; --i)
        parts_.push_back(parameters_.list[parameters_.list.size() - i].name);
    else if (operation.outputs.size() > 1)
      sums_ = parameters_.list.back().name;
    if (call_.scores) {
      parameters_.checks = function_checks(module_, *call_.scores);
      add_function_sizes(module_, *call_.scores, symbols_);
    }
    if (!parameters_.checks.empty()) {
      parameters_.list.push_back(
          {program::KernelParameter::Kind::pointer, kFailure, tensor::DType::i64, false});
      parameters_.storages.push_back(ir::kNone);
      parameters_.restricted.push_back(false);
    }
    for (size_t i = 0; i < strided_inputs(); ++i)
      add_sizes(call_.inputs[i].layout);
    for (const std::optional<OperandText> &operand : operands_)
      if (operand)
        add_operand_sizes(*operand);
    if (call_.parts == 0)
      add_sizes(out_.layout);
    for (size_t i = 0; i < maps_.size(); ++i)
      maps_[i].parameter = static_cast<uint32_t>(
          std::find(parameters_.storages.begin(), parameters_.storages.end(),
                    module_.storage_of(call_.inputs[shape_.boxes ? i + 1 : i].buffer)) -
          parameters_.storages.begin());
    for (const Expr size : symbols_) {
      parameters_.list.push_back(
          {program::KernelParameter::Kind::size, size.spelling(), tensor::DType::i64, true});
      parameters_.sizes.push_back(size);
    }
    if (!parameters_.checks.empty()) {
      parameters_.list.push_back(
          {program::KernelParameter::Kind::size, kCheck, tensor::DType::i64, true});
      parameters_.sizes.push_back(number_of_check());
    }
  }

  const Parameters &parameters() const { return parameters_; }
  const Shape &shape() const { return shape_; }
  /// One each for queries, keys and values, or none.
  const std::vector<program::TensorMap> &maps() const { return maps_; }
  const tensor::Layout &query() const { return call_.inputs[0].layout; }
  /// Queries of all heads that share keys.
  Expr block_rows() const { return scheduler::rows_that_share_keys(call_); }
  /// Whether all queries that share keys share a row of the mask.
  bool shares_mask() const {
    const ir::BufferView *mask = ir::added_mask(call_);
    if (!mask)
      return false;
    const tensor::Layout &layout = mask->layout;
    const size_t rank = layout.rank();
    return (group().is_integer(1) || layout.strides[rank - 3].is_integer(0)) &&
           (query().sizes[2].is_integer(1) || layout.strides[rank - 2].is_integer(0));
  }
  /// Whether input `i` is computed as it is read.
  bool is_computed(size_t i) const {
    const std::optional<OperandText> *operand = computed(i);
    return operand != nullptr && operand->has_value();
  }
  /// What keys and values that are computed are made of, of each buffer all that it has.
  Expr operand_bytes() const {
    std::set<BufferId> seen;
    Expr bytes = 0;
    for (const std::optional<OperandText> &operand : operands_)
      if (operand)
        for (const Value &value : operand->graph().values)
          if (value.op == ir::Op::load && seen.insert(module_.storage_of(value.buffer)).second)
            bytes = bytes + module_.buffer(value.buffer).layout.storage_size() *
                                Expr(static_cast<int64_t>(
                                    tensor::size_in_bytes(module_.buffer(value.buffer).dtype)));
    return bytes;
  }
  bool functions_call_series() const { return functions("").has_series; }

  std::string print(const std::string &name, int threads) const {
    const tensor::Layout &key = call_.inputs[1].layout;
    const std::string type(storage_type(module_.buffer(call_.inputs[0].buffer).dtype));
    std::string list;
    size_t pointer = 0;
    for (const program::KernelParameter &parameter : parameters_.list) {
      list += list.empty() ? "" : ", ";
      if (parameter.kind == program::KernelParameter::Kind::size)
        list += "long long " + parameter.name;
      else
        list +=
            pointer_text(parameter.dtype, parameter.is_const, parameters_.restricted[pointer++]) +
            parameter.name;
    }
    if (threads > 1 && shape_.bulk)
      list += ", TC_TENSOR_MAP query_map, TC_TENSOR_MAP key_map, TC_TENSOR_MAP value_map";
    if (threads > 1 && shape_.boxes)
      list += ", TC_TENSOR_MAP key_map, TC_TENSOR_MAP value_map";
    // All registers that a thread can have: 256 threads a multiprocessor, or one block.
    const std::string blocks =
        threads == 1 ? "" : ", " + std::to_string(shape_.groups > 0 ? 1 : blocks_at_once(threads));
    std::string text = call_.scores ? functions(name).structure : "";
    for (const size_t side : {0, 1})
      if (operands_[side])
        text += operand_struct(name, side);
    text += "TC_KERNEL void __launch_bounds__(" + std::to_string(threads) + blocks + ") " + name +
            "(" + list + ") {\n";
    text += "  tc_attention_problem<" + type + ", " + mask_type(name) + "> problem;\n";
    for (size_t i = 0; i < 3; ++i)
      if (i == 0 || !operands_[i - 1])
        text += rows(i == 0   ? "query"
                     : i == 1 ? "key"
                              : "value",
                     call_.inputs[i].buffer, call_.inputs[i].layout);
    tensor::Layout out = out_.layout;
    if (out.rank() == 5) { // batches of batches are one list of them
      out.sizes[1] = out.sizes[0] * out.sizes[1];
      if (out_.layout.sizes[1].is_integer(1))
        out.strides[1] = out.strides[0];
      out.sizes.erase(out.sizes.begin());
      out.strides.erase(out.strides.begin());
    }
    while (out.rank() < 4) {
      out.sizes.insert(out.sizes.begin(), Expr(1));
      out.strides.insert(out.strides.begin(), Expr(0));
    }
    if (call_.parts == 0)
      text += rows("out", out_id_, out);
    if (const ir::BufferView *mask = ir::added_mask(call_)) {
      const bool is_split = mask->layout.rank() == 5; // batches of batches
      tensor::Layout places = mask->layout;
      if (is_split)
        places.strides.erase(places.strides.begin() + 1);
      text += rows("mask.rows", mask->buffer, places);
      text += "  problem.mask.column_stride = " + number(mask->layout.strides.back()) + ";\n";
      if (is_split)
        text += "  problem.mask.within = " + integer(mask->layout.sizes[1]) +
                ";\n  problem.mask.within_stride = " + number(mask->layout.strides[1]) + ";\n";
    }
    if (call_.scores)
      text += function_members(name);
    text += "  problem.rows = " + integer(query().sizes[2]) + ";\n";
    text += "  problem.columns = " + integer(key.sizes[2]) + ";\n";
    text += "  problem.heads = " + integer(query().sizes[1]) + ";\n";
    text += "  problem.batches = " + integer(query().sizes[0]) + ";\n";
    text += "  problem.group = " + integer(group()) + ";\n";
    text += "  problem.scale = " + literal(call_.alpha, tensor::DType::f32) + ";\n";
    if (!sums_.empty())
      text += "  problem.sums = " + sums_ + ";\n";
    if (shape_.few())
      return text + few_text(name, threads) + "TC_EXPORT(" + name + ", 0)\n";
    if (shape_.floats())
      return text + floats_text(threads) + "TC_EXPORT(" + name + ", 0)\n";
    const bool bulk = threads > 1 && shape_.bulk;
    if (bulk)
      for (const char *name : {"query_map", "key_map", "value_map"})
        text += "  problem." + std::string(name) + " = &" + name + ";\n";
    const std::string depth = std::to_string(shape_.depth), groups = std::to_string(shape_.groups);
    if (threads > 1 && shape_.groups > 0)
      text += "  static_assert(tc_attention_group_threads(" + groups +
              ") == " + std::to_string(threads) + " && tc_attention_group_bytes(" + depth + ", " +
              groups + (shape_.masked ? ", true" : ", false") +
              ") == " + std::to_string(shape_.group_bytes()) + ", \"as the launch has it\");\n";
    else if (threads > 1)
      text += "  static_assert(tc_attention_threads(" + mask_type(name) +
              "::costly) == " + std::to_string(threads) + " && tc_attention_shared_bytes(" + depth +
              ") == " + std::to_string(tc_attention_shared_bytes(shape_.depth)) +
              ", \"as the launch has it\");\n";
    text += (shape_.groups > 0 ? "  tc_attention_by_groups<" + depth + ", " + groups + ", "
                               : "  tc_attention<" + depth + ", ") +
            (call_.causal ? "true" : "false") +
            (shape_.groups == 0 ? ""
             : bulk             ? ", true"
                                : ", false") +
            ">(problem);\n}\n";
    return text + "TC_EXPORT(" + name + ", 0)\n";
  }

private:
  const ir::Module &module_;
  const ir::Extern &call_;
  const ir::Buffer &out_;
  BufferId out_id_;
  Shape shape_;
  std::array<std::optional<OperandText>, 2> operands_; // keys, values: computed as they are read
  Parameters parameters_;
  std::vector<program::TensorMap> maps_;
  std::set<Expr, symbolic::ExprLess> symbols_;
  size_t inputs_ = 0, results_ = 0;
  std::string sums_;               // the parameter that logarithms of sums go to, if any
  std::vector<std::string> parts_; // those of sums, bases and totals of parts

  Expr group() const {
    return symbolic::floor_div(query().sizes[1], call_.inputs[1].layout.sizes[1]);
  }
  /// Whether input `i` is computed as it is read, and by what; null: it never is.
  const std::optional<OperandText> *computed(size_t i) const {
    return i == 1 || i == 2 ? &operands_[i - 1] : nullptr;
  }
  /// Of an operand that is computed: its elements are in memory as products have them.
  bool is_copied(const OperandText &operand) const {
    return operand.is_copy(module_.buffer(call_.inputs[0].buffer).dtype);
  }
  /// Keys and values that are computed as they are read, as many of their words in shared memory as
  /// it has room for.
  void plan_operands(const scheduler::TemplateParts &parts, const target::Target &target) {
    const Expr keys = call_.inputs[1].layout.sizes[2];
    const int64_t of_part =
        keys.is_integer() ? tc_few_part(keys.value(), std::max<int64_t>(1, call_.parts)) : 0;
    const int64_t steps = (of_part + tc_few_keys - 1) / tc_few_keys;
    shape_.boxes = !parts.keys && !parts.values && makes_few_maps(target);
    for (const int words : {8, 4, 2, 1, 0}) {
      shape_.step_bytes = shape_.once_bytes = 0;
      for (const size_t side : {0, 1}) {
        const std::optional<scheduler::Group> &group = side == 0 ? parts.keys : parts.values;
        const int stored = tc_few_step_bytes(shape_.depth);
        if (group)
          operands_[side] = attention_operand(module_, *group, call_.inputs[side + 1], words);
        const bool waits = group && !is_copied(*operands_[side]);
        shape_.step_bytes += waits ? tc_few_words_bytes(shape_.depth, operands_[side]->run(),
                                                        operands_[side]->words())
                             : shape_.boxes ? tc_few_boxed_bytes(shape_.depth)
                                            : stored;
        shape_.once_bytes += waits ? stored : 0;
      }
      shape_.once_bytes += shape_.boxes ? tc_few_boxed_once : 0;
      shape_.few_groups = tc_few_groups(most_few_groups(), operands_[0] || operands_[1],
                                        likely_few_blocks(), steps, target.multiprocessors);
      for (; shape_.few_groups > 0; --shape_.few_groups) {
        shape_.stages = tc_few_stages(shape_.step_bytes, shape_.once_bytes, shape_.few_groups,
                                      target.shared_bytes_per_block, of_part);
        if (shape_.shared_bytes() <= target.shared_bytes_per_block)
          return;
      }
    }
    support::require(false, "codegen", "keys and values that are computed do not fit a block");
  }
  int most_few_groups() const {
    const bool masked = ir::added_mask(call_) != nullptr;
    return tc_few_most_groups(shape_.depth, shape_.tiles > 1, masked, masked && !together(2));
  }
  /// Blocks of the form for few queries, 0: not known.
  int64_t likely_few_blocks() const {
    return likely(module_, Expr(std::max<int64_t>(1, call_.parts)) *
                               symbolic::ceil_div(block_rows(), Expr(16 * shape_.tiles)) *
                               call_.inputs[1].layout.sizes[1] * query().sizes[0])
        .value_or(0);
  }
  void add_operand(const OperandText &operand) {
    for (const Value &value : operand.graph().values)
      if (value.op == ir::Op::load)
        add_pointer(value.buffer, "in", true);
    for (const uint32_t check : operand.checks())
      if (std::find(parameters_.checks.begin(), parameters_.checks.end(), check) ==
          parameters_.checks.end())
        parameters_.checks.push_back(check);
  }
  void add_operand_sizes(const OperandText &operand) {
    for (const Value &value : operand.graph().values)
      for (const Expr e : {value.index, value.extent})
        for (const Expr symbol : symbolic::free_symbols(e))
          if (symbol.sort() == symbolic::SymbolSort::size ||
              symbol.sort() == symbolic::SymbolSort::data ||
              symbol.sort() == symbolic::SymbolSort::computed_size)
            symbols_.insert(symbol);
  }
  /// The type of keys (0) or values (1) that are computed.
  std::string operand_struct(const std::string &name, size_t side) const {
    const OperandText &operand = *operands_[side];
    const std::string body =
        operand.print(module_, parameters_, module_.buffer(call_.inputs[0].buffer).dtype);
    return "struct " + name + kOperandNames[side] + " {\n" +
           members_of(parameters_, body).declarations +
           "  static constexpr bool copied = " + (is_copied(operand) ? "true" : "false") + ";\n" +
           body + "};\n\n";
  }
  /// Keys (0) or values (1) as an argument.
  std::string operand_argument(const std::string &name, size_t side, bool serial) const {
    const std::string stem = side == 0 ? "key" : "value";
    if (shape_.boxes && !serial)
      return "tc_few_boxes<" +
             std::string(storage_type(module_.buffer(call_.inputs[0].buffer).dtype)) +
             ">{problem." + stem + ", &" + stem + "_map}";
    if (!operands_[side])
      return "problem." + stem;
    const std::string body =
        operands_[side]->print(module_, parameters_, module_.buffer(call_.inputs[0].buffer).dtype);
    return name + kOperandNames[side] + "{" + members_of(parameters_, body).values + "}";
  }
  /// Blocks of a multiprocessor for which registers are shared out.
  int blocks_at_once(int threads) const {
    constexpr int kShallow = 32; // deeper heads would not fit the registers of four blocks
    if (shape_.floats())
      return tc_float_blocks(shape_.depth, shape_.float_rows, shape_.masked);
    if (!shape_.few())
      return 256 / threads;
    const Expr keys = call_.inputs[1].layout.sizes[2];
    const bool is_one_step = keys.is_integer() && keys.value() <= tc_few_keys;
    if (shape_.few_groups > 1)
      return std::max(1, most_few_groups() / shape_.few_groups);
    return shape_.depth > 128 ? 1 : is_one_step && shape_.depth <= kShallow ? 4 : 2;
  }
  std::string few_text(const std::string &name, int threads) const {
    const std::string depth = std::to_string(shape_.depth);
    const int64_t parts = std::max<int64_t>(1, call_.parts);
    const Expr steps = symbolic::ceil_div(
        symbolic::ceil_div(call_.inputs[1].layout.sizes[2], Expr(tc_few_keys)), Expr(parts));
    std::string text = "  tc_few_results parts = {";
    for (const std::string &name : parts_)
      text += name + ", ";
    text += (parts_.empty() ? "nullptr, nullptr, nullptr, " : "") + std::to_string(parts) + ", " +
            number(steps * Expr(tc_few_keys)) + "};\n";
    if (threads > 1)
      text += "  static_assert(" + std::to_string(shape_.few_groups) +
              " * tc_few_threads == " + std::to_string(threads) + " && tc_few_bytes(" + depth +
              ", " + std::to_string(shape_.step_bytes) + ", " + std::to_string(shape_.once_bytes) +
              ", " + std::to_string(shape_.stages) + ", " + std::to_string(shape_.few_groups) +
              ") == " + std::to_string(shape_.shared_bytes()) + ", \"as the launch has it\");\n";
    return text + "  tc_attention_few<" + depth + ", " + std::to_string(shape_.tiles) + ", " +
           std::to_string(shape_.stages) + ", " + std::to_string(shape_.few_groups) +
           (call_.causal ? ", true" : ", false") + (call_.parts > 0 ? ", true" : ", false") +
           (shares_mask() ? ", true" : ", false") + ">(problem, parts, " +
           operand_argument(name, 0, threads == 1) + ", " +
           operand_argument(name, 1, threads == 1) + ");\n}\n";
  }

  std::string floats_text(int threads) const {
    const std::string sizes =
        std::to_string(shape_.depth) + ", " + std::to_string(shape_.float_rows);
    const std::string check = "  static_assert(tc_float_bytes(" + sizes +
                              ") == " + std::to_string(shape_.shared_bytes()) +
                              ", \"as the launch has it\");\n";
    return (threads > 1 ? check : "") + "  tc_attention_floats<" + sizes +
           (call_.causal ? ", true" : ", false") + ">(problem);\n}\n";
  }

  bool is_masked() const { return call_.scores || ir::added_mask(call_); }
  /// Of the call: those that the text itself steps through.
  size_t strided_inputs() const {
    return !call_.scores ? call_.inputs.size() : call_.scores->block_rows > 0 ? 7 : 3;
  }
  ScoreText functions(const std::string &name) const {
    return score_text(module_, *call_.scores, parameters_, name + "_scores");
  }
  /// One of the lists of blocks: numbers and places.
  std::string block_list(size_t first) const {
    std::string text;
    for (size_t i = first; i < first + 2; ++i) {
      const ir::BufferView &view = call_.inputs[i];
      const std::string offset =
          view.layout.offset.is_integer(0) ? "" : " + " + number(view.layout.offset);
      text +=
          (i > first ? ", " : "") + parameters_.name_of(module_.storage_of(view.buffer)) + offset;
      for (size_t k = 0; k < view.layout.rank(); ++k)
        text += ", " + (view.layout.sizes[k].is_integer(1) ? std::string("0")
                                                           : number(view.layout.strides[k]));
    }
    return "{" + text + "}";
  }
  std::string function_members(const std::string &name) const {
    std::string text;
    for (const std::string &member : functions(name).members)
      text += "  problem.mask." + member + " = " + member + ";\n";
    if (call_.scores->block_rows > 0) {
      text += "  problem.mask.in_part = " + block_list(3) + ";\n";
      text += "  problem.mask.whole = " + block_list(5) + ";\n";
    }
    return text;
  }

  /// Maps by which bulk copies bring keys and values of the form for few queries. Under causality
  /// what nobody sees is left out, which boxes would bring.
  bool makes_few_maps(const target::Target &target) {
    maps_.clear();
    if (!target.has_bulk_copies || call_.causal)
      return false;
    for (const size_t i : {1, 2}) {
      std::optional<program::TensorMap> map =
          map_of(call_.inputs[i].layout, tc_few_keys, module_.ranges);
      if (!map) {
        maps_.clear();
        return false;
      }
      maps_.push_back(std::move(*map));
    }
    return true;
  }
  void make_maps() {
    // Threads put keys in the order of a mask.
    if (shape_.groups == 0 || ir::added_mask(call_))
      return;
    for (size_t i = 0; i < 3; ++i) {
      const int rows = i == 0 ? shape_.groups * tc_group_rows : shape_.group_keys();
      std::optional<program::TensorMap> map = map_of(call_.inputs[i].layout, rows, module_.ranges);
      if (!map) {
        maps_.clear();
        return;
      }
      maps_.push_back(std::move(*map));
    }
    shape_.bulk = true;
  }
  void add_pointer(BufferId buffer, const std::string &stem, bool is_const) {
    const BufferId storage = module_.storage_of(buffer);
    if (std::find(parameters_.storages.begin(), parameters_.storages.end(), storage) !=
        parameters_.storages.end())
      return;
    const std::string name = stem + std::to_string(is_const ? inputs_++ : results_++);
    parameters_.list.push_back(
        {program::KernelParameter::Kind::pointer, name, module_.buffer(storage).dtype, is_const});
    parameters_.storages.push_back(storage);
    parameters_.restricted.push_back(true);
  }
  void add_sizes(const tensor::Layout &layout) {
    const auto add = [&](Expr e) {
      for (const Expr symbol : symbolic::free_symbols(e))
        symbols_.insert(symbol);
    };
    std::for_each(layout.sizes.begin(), layout.sizes.end(), add);
    std::for_each(layout.strides.begin(), layout.strides.end(), add);
    add(layout.offset);
  }
  std::string number(Expr e) const { return symbolic::print_cpp(e, module_.ranges); }
  std::string integer(Expr e) const {
    return e.is_integer() ? number(e) : "static_cast<int>(" + number(e) + ")";
  }
  std::string rows(const std::string &field, BufferId buffer, const tensor::Layout &layout) const {
    const std::string offset = layout.offset.is_integer(0) ? "" : " + " + number(layout.offset);
    return "  problem." + field + " = {" + parameters_.name_of(module_.storage_of(buffer)) +
           offset + ", " + number(layout.strides[0]) + ", " + number(layout.strides[1]) + ", " +
           number(layout.strides[2]) + "};\n";
  }
  /// Whether a run of `count` that begins within a row of the mask is within its memory.
  bool has_room_after(const tensor::Layout &mask, int64_t count) const {
    Expr end = mask.offset + symbolic::ceil_div(mask.sizes.back(), Expr(count)) * Expr(count);
    for (size_t k = 0; k + 1 < mask.rank(); ++k)
      end = end + (mask.sizes[k] - Expr(1)) * mask.strides[k];
    const ir::BufferId storage = module_.storage_of(ir::added_mask(call_)->buffer);
    const tensor::Layout &memory = module_.buffer(storage).layout;
    Expr all = 1;
    for (size_t k = 0; k < memory.rank(); ++k)
      all = all + (memory.sizes[k] - Expr(1)) * memory.strides[k];
    const Expr room = symbolic::simplify(all - end, module_.ranges);
    return room.is_integer() && room.value() >= 0;
  }
  /// `count` neighbours of a row lie in one aligned run, and no row ends within.
  bool together(int64_t count) const {
    const tensor::Layout &mask = ir::added_mask(call_)->layout;
    const auto whole = [&](Expr e) {
      return symbolic::simplify(symbolic::mod(e, Expr(count)), module_.ranges).is_integer(0);
    };
    const size_t last = mask.rank() - 1;
    // Where a row does not end with a run, what follows it is of the same memory.
    const bool ends = whole(mask.sizes[last]) || has_room_after(mask, count);
    return mask.strides[last].is_integer(1) &&
           std::all_of(mask.strides.begin(), mask.strides.end() - 1, whole) && whole(mask.offset) &&
           ends;
  }
  std::string mask_type(const std::string &name) const {
    if (call_.scores)
      return name + "_scores";
    if (!ir::added_mask(call_))
      return "tc_no_mask";
    const tensor::DType dtype = module_.buffer(ir::added_mask(call_)->buffer).dtype;
    int64_t run = 8;
    while (run > 1 && !together(run))
      run /= 2;
    return "tc_mask<" + std::string(storage_type(dtype)) + ", " + std::to_string(run) + ">";
  }
};

Expr bytes_of(const ir::Module &module, const tensor::Layout &layout, BufferId buffer) {
  Expr count = 1;
  for (size_t k = 0; k < layout.rank(); ++k)
    if (!layout.strides[k].is_integer(0))
      count = count * layout.sizes[k];
  return count * Expr(static_cast<int64_t>(tensor::size_in_bytes(module.buffer(buffer).dtype)));
}

std::string plan_text(const Shape &shape, int64_t parts) {
  const auto number = [](int64_t value) { return std::to_string(value); };
  if (shape.few())
    return "attention of few queries, " + number(shape.tiles * 16) +
           " rows of heads that share keys a block, keys in " +
           number(std::max<int64_t>(1, parts)) + (parts > 1 ? " parts, " : " part, ") +
           number(tc_few_keys) + " a step, " +
           (shape.few_groups > 1 ? number(shape.few_groups) + " groups of warps, " : "") +
           number(shape.stages) + " steps at a time" + (shape.boxes ? " by bulk copies" : "") +
           ", products on tensor cores";
  if (shape.floats())
    return "attention of floats, " + number(shape.float_rows) + " rows a block, " +
           number(tc_float_keys) + " keys a step, scores in registers, products by threads";
  if (shape.groups > 0)
    return "attention, " + number(shape.groups * tc_group_rows) + " rows a block, " +
           number(shape.groups) + " groups of warps that compute and one " +
           (shape.bulk ? "whose bulk copies bring " : "that brings ") + number(shape.group_keys()) +
           " keys a step, scores in registers, products by warp groups";
  return "attention, " + number(tc_attention_rows) + " rows a block, " +
         number(tc_attention_rows_a_warp(shape.costly_mask)) + " a warp, " +
         number(tc_attention_keys(shape.depth)) +
         " keys a step, scores in registers, products on tensor cores";
}

} // namespace

BuiltKernel build_attention(const ir::Module &module, const scheduler::Schedule &schedule,
                            const scheduler::Group &group, const ir::Operation &operation,
                            const target::Target &target) {
  const auto &call = std::get<ir::Extern>(operation.kind);
  const AttentionText text(module, operation, *group.parts, target);
  const tensor::Layout &query = text.query();
  const Shape &shape = text.shape();
  const bool groups = shape.groups > 0;

  BuiltKernel built;
  program::Kernel &kernel = built.kernel;
  kernel.parameters = text.parameters().list;
  kernel.bytes_read = 0;
  kernel.bytes_read += text.operand_bytes();
  for (size_t i = 0; i < call.inputs.size(); ++i)
    if (!text.is_computed(i))
      kernel.bytes_read += bytes_of(module, call.inputs[i].layout, call.inputs[i].buffer);
  kernel.bytes_written = 0;
  for (const BufferId output : operation.outputs)
    kernel.bytes_written += bytes_of(module, module.buffer(output).layout, output);
  kernel.plan = plan_text(shape, call.parts);
  if (shape.few() && text.shares_mask())
    kernel.plan += ", steps that the mask hides left out";
  for (const size_t i : {1, 2})
    if (text.is_computed(i))
      kernel.plan +=
          i == 1 ? ", keys computed as they are read" : ", values computed as they are read";
  if (call.scores)
    kernel.plan += std::string(", functions of scores where they are") +
                   (call.scores->block_rows > 0 ? ", steps by lists of blocks" : "");
  const Expr row_blocks = symbolic::ceil_div(query.sizes[2], Expr(shape.rows()));
  const auto variant = [&](int threads) {
    program::KernelVariant result;
    result.text = text.print(std::string(kKernelPlaceholder), threads);
    if (shape.few())
      result.grid = {Expr(std::max<int64_t>(1, call.parts)),
                     symbolic::ceil_div(text.block_rows(), Expr(16 * shape.tiles)) *
                         call.inputs[1].layout.sizes[1],
                     query.sizes[0]};
    else if (groups) // blocks stay and compute one item after another
      result.grid = {symbolic::minimum(row_blocks * query.sizes[1] * query.sizes[0],
                                       Expr(target.multiprocessors)),
                     Expr(1), Expr(1)};
    else
      result.grid = {row_blocks, query.sizes[1], query.sizes[0]};
    result.block = {threads, 1, 1};
    return result; // the host needs no shared memory
  };
  kernel.cuda = variant(shape.threads());
  kernel.cuda.shared_bytes = Expr(shape.shared_bytes());
  kernel.cuda.maps = text.maps();
  kernel.serial = variant(1);
  std::vector<std::string_view> includes = {shape.header()};
  if (call.scores && text.functions_call_series())
    includes.push_back("tc_special.h");
  finish_kernel(built, origins_of(module, schedule, group), "attention, row by row", includes);
  built.pointers = text.parameters().storages;
  built.sizes = text.parameters().sizes;
  built.checks = text.parameters().checks;
  return built;
}

} // namespace tsc::codegen
