#include "driver/match_inputs.h"

#include "ops/table/describe_call.h"
#include "support/diagnostic.h"
#include "support/text.h"

#include <algorithm>
#include <optional>
#include <set>

namespace tsc::driver {
namespace {

using support::Diagnostic;
using support::ExitCode;
using support::UserError;
using symbolic::Expr;
using tensor::HostTensor;

std::string describe_range(const program::Symbol &symbol) {
  return "[" + std::to_string(symbol.low) + ", " +
         (symbol.high == INT64_MAX ? "inf" : std::to_string(symbol.high)) + "]";
}

/// One look at a file with the program's signature in mind.
class InputMatcher {
public:
  InputMatcher(const program::Program &program, const tensor::TensorMap &file,
               const std::string &path, const Constants &constants)
      : program_(program), file_(file), path_(path), constants_(constants) {}

  std::vector<HostTensor> run() {
    find_names();
    for (size_t i = 0; i < given_.size(); ++i)
      if (given_[i])
        check_type(i);
    bind_symbols();
    for (size_t i = 0; i < given_.size(); ++i)
      if (given_[i])
        check_sizes(i);
    if (!problems_.empty()) {
      problems_.back().next_step += both_sides();
      throw UserError(ExitCode::bad_input, std::move(problems_));
    }
    std::vector<HostTensor> inputs;
    for (const HostTensor *tensor : given_)
      inputs.push_back(tensor->contiguous());
    return inputs;
  }

private:
  static constexpr size_t kMostNames = 20; // of a file's unknown ones that are told one by one
  const program::Program &program_;
  const tensor::TensorMap &file_;
  const std::string &path_;
  const Constants &constants_;
  std::vector<const HostTensor *> given_; // by input; null: missing
  std::vector<std::string> names_;        // in the file
  std::vector<std::string> unknown_;      // names of the file that nothing takes
  std::vector<bool> fits_;                // dtype and rank
  symbolic::Bindings symbols_;
  std::vector<Diagnostic> problems_;

  program::Buffer buffer(size_t input) const {
    return program::seen(program_.buffers[program_.inputs[input].buffer]);
  }
  void add(const char *code, std::string message, std::string next_step) {
    problems_.push_back({code, std::move(message), path_, "", "", "", std::move(next_step)});
  }

  void find_names() {
    std::set<std::string> used;
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      auto found = file_.find(program_.inputs[i].name);
      if (found == file_.end())
        found = file_.find("input_" + std::to_string(i));
      given_.push_back(found == file_.end() ? nullptr : &found->second);
      names_.push_back(found == file_.end() ? "" : found->first);
      used.insert(names_.back());
    }
    fits_.assign(given_.size(), false);
    for (const auto &entry : file_) {
      if (used.count(entry.first))
        continue;
      if (constants_.count(entry.first))
        check_constant(entry.first, entry.second);
      else
        unknown_.push_back(entry.first);
    }
    std::vector<std::string> missing;
    for (size_t i = 0; i < given_.size(); ++i) {
      if (given_[i])
        continue;
      missing.push_back(program_.inputs[i].name);
      const std::string near =
          missing.size() > kMostNames ? "" : support::did_you_mean(missing.back(), unknown_);
      add("TSC-R121",
          "input '" + missing.back() + "' (or 'input_" + std::to_string(i) + "') is missing",
          near.empty() ? "add it to the file" : "is it the file's '" + near + "'? rename that");
    }
    for (size_t i = 0; i < unknown_.size() && i < kMostNames; ++i) {
      const std::string near = support::did_you_mean(unknown_[i], missing);
      add("TSC-R121", "the file holds '" + unknown_[i] + "', which the graph does not take",
          near.empty() ? "remove it" : "did you mean '" + near + "'?");
    }
    if (unknown_.size() > kMostNames)
      add("TSC-R121",
          "the file holds " + std::to_string(unknown_.size() - kMostNames) +
              " more names that the graph does not take",
          "remove them");
  }

  /// A scalar that the export made part of the graph.
  void check_constant(const std::string &name, const HostTensor &tensor) {
    std::string given = describe_tensor(tensor);
    if (tensor.sizes().empty())
      given = tensor.dtype() == tensor::DType::boolean ? tensor.get_int64(0) ? "True" : "False"
              : tensor::is_floating(tensor.dtype())    ? support::python_repr(tensor.get_double(0))
                                                       : std::to_string(tensor.get_int64(0));
    if (given != constants_.at(name))
      add("TSC-R115",
          "input '" + name + "' is " + given + ", the graph was exported with " +
              constants_.at(name),
          "leave it out, or export the graph with this value");
  }

  void check_type(size_t i) {
    const std::string name = program_.inputs[i].name, given = describe_tensor(*given_[i]),
                      taken = describe_tensor(buffer(i).dtype, buffer(i).layout.sizes,
                                              program_.symbols);
    fits_[i] = given_[i]->sizes().size() == buffer(i).layout.rank();
    if (given_[i]->dtype() != buffer(i).dtype)
      add("TSC-R111", "input '" + name + "' is " + given + ", the graph takes " + taken,
          "convert it before it is saved");
    if (!fits_[i])
      add("TSC-R112", "input '" + name + "' is " + given + ", the graph takes " + taken,
          "give a tensor of " + std::to_string(buffer(i).layout.rank()) + " dimensions");
  }

  /// Symbols as the engine binds them. One that no input of the file decides is left open.
  void bind_symbols() {
    for (size_t number = 0; number < program_.symbols.size(); ++number) {
      const std::optional<program::Binding> binding = program::binding_of(program_, number);
      if (binding && fits_[binding->input])
        bind(program_.symbols[number], *binding);
    }
  }
  void bind(const program::Symbol &symbol, const program::Binding &binding) {
    const HostTensor &given = *given_[binding.input];
    const std::optional<int64_t> offset = evaluate(binding.offset);
    const bool is_dimension = binding.dimension >= 0;
    if (!is_dimension && given.dtype() != tensor::DType::i64)
      return; // reported
    const int64_t said =
        is_dimension ? given.sizes()[static_cast<size_t>(binding.dimension)] : given.get_int64(0);
    int64_t multiple = 0;
    if (!offset || __builtin_sub_overflow(said, *offset, &multiple) ||
        multiple % binding.coefficient != 0)
      return; // binding refuses it
    const int64_t value = multiple / binding.coefficient;
    symbols_[symbol.symbol] = value;
    if (value >= symbol.low && value <= symbol.high)
      return;
    const std::string name = symbol.name.empty() ? symbol.symbol.spelling() : symbol.name;
    std::string what = is_dimension ? "size " + std::to_string(said) + " of dimension " +
                                          std::to_string(binding.dimension)
                                    : "the value " + std::to_string(said);
    if (value != said)
      what += " makes " + name + " " + std::to_string(value) + ", which";
    add("TSC-R114",
        "input '" + program_.inputs[binding.input].name + "' is " + describe_tensor(given) + ": " +
            what + " is outside " + describe_range(symbol) + ", the range of " + name,
        "give a size in the range, or export the graph with another one");
  }

  void check_sizes(size_t i) {
    const std::vector<Expr> sizes = buffer(i).layout.sizes;
    for (size_t axis = 0; fits_[i] && axis < sizes.size(); ++axis) {
      const int64_t value = given_[i]->sizes()[axis];
      const std::optional<int64_t> expected = evaluate(sizes[axis]);
      if (!expected || *expected == value)
        continue;
      const std::string name = program_.inputs[i].name, given = describe_tensor(*given_[i]),
                        taken = describe_tensor(buffer(i).dtype, sizes, program_.symbols);
      if (sizes[axis].is_integer()) {
        add("TSC-R112", "input '" + name + "' is " + given + ", the graph takes " + taken,
            "give a tensor of this shape, or export the graph with dynamic shapes");
        return;
      }
      add("TSC-R112",
          "input '" + name + "' is " + given + ", the graph takes " + taken + ": size " +
              std::to_string(value) + " of dimension " + std::to_string(axis) + ", expected " +
              symbolic::print(sizes[axis], program::symbol_writer(program_.symbols)) + " = " +
              std::to_string(*expected),
          "make the sizes of all inputs agree");
    }
  }

  std::optional<int64_t> evaluate(Expr size) const {
    for (Expr symbol : symbolic::free_symbols(size))
      if (!symbols_.count(symbol))
        return std::nullopt; // its input is missing, or of another rank
    return symbolic::evaluate(size, symbols_);
  }

  /// A line an input: what the graph takes, and what was given.
  std::string both_sides() const {
    std::string text = "\n  the graph takes, and the file gives:";
    for (size_t i = 0; i < given_.size(); ++i)
      text += "\n    " + program_.inputs[i].name + " " +
              describe_tensor(buffer(i).dtype, buffer(i).layout.sizes, program_.symbols) + ", " +
              (given_[i] ? names_[i] + " " + describe_tensor(*given_[i]) : "nothing");
    for (const auto &[name, value] : constants_)
      text += "\n    " + name + " = " + value + ", " +
              (file_.count(name) ? name + " " + describe_tensor(file_.at(name)) : "nothing");
    for (size_t i = 0; i < unknown_.size() && i < kMostNames; ++i)
      text += "\n    nothing, " + unknown_[i] + " " + describe_tensor(file_.at(unknown_[i]));
    if (unknown_.size() > kMostNames)
      text += "\n    nothing, " + std::to_string(unknown_.size() - kMostNames) + " more";
    return text;
  }
};

} // namespace

std::string describe_tensor(tensor::DType dtype, const std::vector<Expr> &sizes,
                            const std::vector<program::Symbol> &symbols) {
  const symbolic::SymbolWriter name_of = program::symbol_writer(symbols);
  std::vector<std::string> parts;
  parts.reserve(sizes.size());
  for (Expr size : sizes)
    parts.push_back(symbolic::print(size, name_of));
  return std::string(tensor::torch_name(dtype)).substr(6) + "[" + support::join(parts, ", ") + "]";
}

std::string describe_tensor(const HostTensor &tensor) {
  return describe_tensor(tensor.dtype(), {tensor.sizes().begin(), tensor.sizes().end()});
}

Constants constants_of(const graph::Graph &graph) {
  Constants constants;
  for (const graph::InputSpec &input : graph.inputs)
    if (input.kind == graph::InputKind::user && input.constant)
      constants.emplace(graph.node(input.node).name,
                        ops::describe_argument(graph, *input.constant));
  return constants;
}

std::vector<HostTensor> match_inputs(const program::Program &program, const tensor::TensorMap &file,
                                     const std::string &path, const Constants &constants) {
  return InputMatcher(program, file, path, constants).run();
}

symbolic::Bindings input_sizes(const program::Program &program,
                               const std::vector<HostTensor> &inputs) {
  symbolic::Bindings symbols;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const std::vector<Expr> sizes =
        program::seen(program.buffers[program.inputs[i].buffer]).layout.sizes;
    for (size_t axis = 0; axis < sizes.size(); ++axis)
      symbols.try_emplace(sizes[axis], inputs[i].sizes()[axis]);
  }
  return symbols;
}

std::vector<std::vector<int64_t>> output_sizes(const program::Program &program,
                                               const std::vector<HostTensor> &inputs) {
  const symbolic::Bindings symbols = input_sizes(program, inputs);
  std::vector<std::vector<int64_t>> result;
  for (const program::OutputInfo &output : program.outputs) {
    result.emplace_back();
    for (Expr size : program::seen(output).layout.sizes) {
      const std::vector<Expr> needed = symbolic::free_symbols(size);
      const bool known = std::all_of(needed.begin(), needed.end(),
                                     [&](Expr symbol) { return symbols.count(symbol) != 0; });
      result.back().push_back(known ? symbolic::evaluate(size, symbols) : kUnknownSize);
    }
  }
  return result;
}

} // namespace tsc::driver
