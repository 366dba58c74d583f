// The schedule log's text of a loop body. Statement names follow FX: the operation's name, with _1,
// _2, ... for repeats within one block; a name that is a Python builtin starts at _1.
#include "ir/body.h"

#include "support/diagnostic.h"
#include "support/text.h"

#include <map>

namespace tsc::ir {

namespace {

std::string repr(const Scalar &scalar) {
  if (const bool *b = std::get_if<bool>(&scalar))
    return *b ? "True" : "False";
  if (const int64_t *i = std::get_if<int64_t>(&scalar))
    return std::to_string(*i);
  return support::python_repr(std::get<double>(scalar));
}

class BodyPrinter {
public:
  BodyPrinter(const Module &module, const LoopBody &body, const BodyTextOptions &options)
      : module_(module), body_(body), options_(options), names_(body.ops.size()) {}

  std::string print(std::string_view name) {
    text_ = "class " + std::string(name) + ":\n    var_ranges = {";
    for (size_t i = 0; i < body_.variables.size(); ++i) {
      text_ += (i ? ", " : "") + symbolic::print(body_.variables[i]) + ": " +
               symbolic::print(body_.sizes[i]);
    }
    text_ += "}\n";
    for (size_t i = 0; i < body_.indices.size(); ++i)
      text_ += "    index" + std::to_string(i) + " = " + symbolic::print(body_.indices[i]) + "\n";
    number_blocks();
    for (uint32_t block : block_order_)
      print_block(block);
    text_.pop_back(); // no newline at the end
    return std::move(text_);
  }

private:
  const Module &module_;
  const LoopBody &body_;
  const BodyTextOptions &options_;
  std::vector<std::string> names_;             // of the ops' statements
  std::map<uint32_t, std::string> submodules_; // op -> name of the submodule it calls
  std::vector<uint32_t> block_order_;
  std::vector<std::string> block_names_;
  std::map<std::string, int> counts_;
  std::string text_;

  /// Submodules are numbered in the order in which tracing meets them, get_index being number 0; a
  /// masked block is entered where it is met. set_indirectK carries the number of its symbol.
  void number_blocks() {
    block_names_.assign(body_.blocks.size(), "body");
    size_t submodules = 1;
    std::vector<std::pair<uint32_t, size_t>> stack = {{0, 0}};
    block_order_ = {0};
    while (!stack.empty()) {
      const uint32_t block = stack.back().first;
      const std::vector<uint32_t> &ops = body_.blocks[block].ops;
      if (stack.back().second == ops.size()) {
        stack.pop_back();
        continue;
      }
      const uint32_t id = ops[stack.back().second++];
      const BodyOp &op = body_.ops[id];
      if (op.op == Op::set_indirect) {
        submodules_[id] = "set_" + symbolic::print(op.symbol);
        ++submodules;
      } else if (op.op == Op::scan) {
        submodules_[id] = "scan" + std::to_string(submodules++);
      } else if (op.op == Op::masked) {
        submodules_[id] = "masked_subblock" + std::to_string(submodules++);
        block_names_[op.block] = submodules_[id];
        block_order_.push_back(op.block);
        stack.emplace_back(op.block, 0);
      }
    }
  }

  void print_block(uint32_t block) {
    counts_.clear();
    text_ += "    def " + block_names_[block] + "(self, ops):\n";
    const std::vector<uint32_t> &ops = body_.blocks[block].ops;
    std::string result = "None";
    for (uint32_t id : ops)
      result = print_op(id);
    text_ += "        return " + result + "\n";
  }

  std::string unique(std::string_view base) {
    static const std::vector<std::string_view> builtins = {"abs", "pow", "round"};
    bool builtin = false;
    for (std::string_view name : builtins)
      builtin = builtin || name == base;
    const int count = counts_[std::string(base)]++ + (builtin ? 1 : 0);
    return count == 0 ? std::string(base) : std::string(base) + "_" + std::to_string(count);
  }

  std::string statement(std::string_view base, const std::string &expression) {
    std::string name = unique(base);
    text_ += "        " + name + " = " + expression + "\n";
    return name;
  }

  std::string get_index(const BodyOp &op) {
    return statement("get_index", "self.get_index('index" + std::to_string(op.index) + "')");
  }

  std::string arguments(const BodyOp &op) const {
    std::string text;
    for (size_t i = 0; i < op.args.size(); ++i)
      text += (i ? ", " : "") + names_[op.args[i]];
    return text;
  }

  /// Returns the name that the block's `return` would give.
  std::string print_op(uint32_t id) {
    const BodyOp &op = body_.ops[id];
    const std::string dtype(tensor::torch_name(op.dtype));
    switch (op.op) {
    case Op::load: {
      const std::string index = get_index(op);
      names_[id] =
          statement("load", "ops.load('" + module_.buffer(op.buffer).name + "', " + index + ")");
      break;
    }
    case Op::constant:
      names_[id] = statement("constant", "ops.constant(" + repr(op.constant) + ", " + dtype + ")");
      break;
    case Op::index_expr: {
      const std::string index = get_index(op);
      names_[id] = statement("index_expr", "ops.index_expr(" + index + ", " + dtype + ")");
      break;
    }
    case Op::to_dtype:
    case Op::to_dtype_bitcast: {
      const std::string source(tensor::torch_name(op.source_dtype));
      const bool keyword = op.op == Op::to_dtype;
      names_[id] = statement(op_name(op.op),
                             "ops." + std::string(op_name(op.op)) + "(" + arguments(op) + ", " +
                                 dtype + (keyword ? ", src_dtype = " : ", ") + source + ")");
      break;
    }
    case Op::masked:
      names_[id] = statement(submodules_[id], "self." + submodules_[id] + "(" + names_[op.args[0]] +
                                                  ", " + repr(op.constant) + ")");
      break;
    case Op::set_indirect:
      names_[id] =
          statement(submodules_[id], "self." + submodules_[id] + "(" + arguments(op) + ")");
      break;
    case Op::store: {
      const std::string index = get_index(op);
      const std::string mode =
          op.mode == StoreMode::plain ? "None" : "'" + std::string(store_mode_name(op.mode)) + "'";
      names_[id] = statement("store", "ops.store('" + module_.buffer(op.buffer).name + "', " +
                                          index + ", " + arguments(op) + ", " + mode + ")");
      break;
    }
    default:
      return print_reduction_or_elementwise(id);
    }
    return names_[id];
  }

  std::string print_reduction_or_elementwise(uint32_t id) {
    const BodyOp &op = body_.ops[id];
    const std::string dtype(tensor::torch_name(op.dtype));
    switch (op.op) {
    case Op::reduction: {
      std::string value = arguments(op);
      if (op.args.size() > 1) {
        value.insert(value.begin(), '(');
        value.push_back(')');
      }
      names_[id] = statement("reduction", "ops.reduction(" + dtype + ", " +
                                              std::string(tensor::torch_name(op.source_dtype)) +
                                              ", '" + std::string(reduction_name(op.reduction)) +
                                              "', " + value + ")");
      break;
    }
    case Op::scan: {
      std::string dtypes = dtype;
      for (size_t i = 1; op.combine && i < op.args.size(); ++i)
        dtypes += ", " + std::string(tensor::torch_name(op.combine.code->types[i]));
      const std::string end = op.args.size() > 1 ? ")" : ",)"; // tuples of Python
      names_[id] = statement(submodules_[id], "self." + submodules_[id] + "((" + dtypes + end +
                                                  ", (" + arguments(op) + end + ")");
      break;
    }
    case Op::sort:
      names_[id] = statement("sort", "ops.sort((" + dtype + ", torch.int64), (" + arguments(op) +
                                         ",), True, " + (op.descending ? "True" : "False") + ")");
      break;
    case Op::get_item:
      names_[id] = statement("getitem", names_[op.args[0]] + "[" + std::to_string(op.item) + "]");
      break;
    case Op::store_reduction: {
      const std::string index = get_index(op);
      names_[id] =
          statement("store_reduction", "ops.store_reduction('" + module_.buffer(op.buffer).name +
                                           "', " + index + ", " + arguments(op) + ")");
      // PyTorch 2.11 returns the stored value of a tuple-valued reduction only.
      if (options_.newer_dialect && body_.ops[op.args[0]].op != Op::get_item)
        return "None";
      break;
    }
    default:
      names_[id] = statement(op_name(op.op),
                             "ops." + std::string(op_name(op.op)) + "(" + arguments(op) + ")");
    }
    return names_[id];
  }
};

} // namespace

std::string to_text(const Module &module, const LoopBody &body, std::string_view name,
                    const BodyTextOptions &options) {
  return BodyPrinter(module, body, options).print(name);
}

} // namespace tsc::ir
