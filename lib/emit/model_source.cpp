#include "emit/model_source.h"

#include "emit/model_name.h"
#include "engine/tsc_model.h"
#include "program/step_fields.h"
#include "program/tables.h"
#include "support/text.h"

#include <cmath>

namespace tsc::emit {
namespace {

using namespace tsc_engine;

/// A C++ string literal of any bytes.
std::string literal(const char *text) {
  std::string result = "\"";
  for (const char *c = text; *c != '\0'; ++c) {
    auto byte = static_cast<unsigned char>(*c);
    if (byte >= 0x20 && byte < 0x7F && byte != '"' && byte != '\\' && byte != '?') {
      result += *c;
      continue;
    }
    result += '\\'; // three octal digits never run into what follows
    result += static_cast<char>('0' + byte / 64);
    result += static_cast<char>('0' + byte / 8 % 8);
    result += static_cast<char>('0' + byte % 8);
  }
  return result + "\"";
}

/// `text` as the end of a line comment: nothing in it may continue the comment or end it.
std::string comment(const std::string &text) {
  std::string result = " // ";
  for (char c : text) {
    bool is_plain = static_cast<unsigned char>(c) >= 0x20 && c != '\\' && c != '?' && c != 0x7F;
    result += is_plain ? c : ' ';
  }
  return result;
}

std::string number(double value) {
  if (std::isnan(value))
    return "__builtin_nan(\"\")";
  if (std::isinf(value))
    return value > 0 ? "__builtin_inf()" : "-__builtin_inf()";
  return support::python_repr(value);
}
std::string number(int64_t value) {
  if (value == INT64_MIN)
    return "INT64_MIN";
  return value == INT64_MAX ? "INT64_MAX" : std::to_string(value);
}

std::string braces(const std::vector<std::string> &parts) {
  return "{" + support::join(parts, ", ") + "}";
}
std::string text(const Size &size) {
  if (size.expression < 0)
    return "{" + number(size.value) + "}";
  return "{0, " + std::to_string(size.expression) + "}";
}
std::string text(const Range &range) {
  return "{" + std::to_string(range.first) + ", " + std::to_string(range.count) + "}";
}
std::string text(DType dtype) {
  return std::string("DType::") + (dtype == DType::boolean ? "boolean" : name_of(dtype));
}
std::string text(Role role) {
  static const char *const kNames[] = {"input",        "weight",  "output",  "intermediate",
                                       "random_state", "failure", "exchange"};
  return std::string("Role::") + kNames[static_cast<size_t>(role)];
}
std::string text(bool value) { return value ? "true" : "false"; }
std::string text(const TensorView &view) {
  return braces({text(view.dtype), text(view.sizes), text(view.strides), text(view.offset)});
}

class Printer {
public:
  explicit Printer(const program::Program &program)
      : program_(program), owned_(program::build_tables(program)), tables_(owned_.tables) {}

  /// The tables, kTables last, in the namespace `name`.
  std::string run(const std::string &name) {
    out_ = "\nnamespace " + name + " {\n";
    symbols();
    pools();
    buffers();
    signature();
    kernels();
    launches();
    products();
    communication();
    control();
    steps();
    assertions();
    defines();
    out_ += "\nconst Tables kTables = {" + literal(tables_.name) + fields_ +
            "};\n\n} // namespace " + name + "\n";
    return std::move(out_);
  }

private:
  /// Prints a table through line(row number); C++ has no empty arrays.
  template <class Row, class Line>
  void table(const char *type, const char *name, const Table<Row> &rows, const Line &line) {
    if (rows.count == 0) {
      fields_ += ",\n                                 {}";
      return;
    }
    out_ += std::string("\nconst ") + type + " " + name + "[] = {\n";
    for (size_t i = 0; i < rows.count; ++i)
      out_ += "    " + line(i) + "\n";
    out_ += "};\n";
    fields_ += std::string(",\n                                 {") + name + ", " +
               std::to_string(rows.count) + "}";
  }
  static std::string row(const std::vector<std::string> &parts) { return braces(parts) + ","; }
  std::string buffer_name(int32_t buffer) const {
    return tables_.buffers[static_cast<size_t>(buffer)].name;
  }
  /// "in0 = x, out0 = y" is what a reader of a launch wants to know.
  std::string operand_names(const program::Launch &launch) const {
    std::vector<std::string> names;
    size_t pointer = 0;
    for (const program::KernelParameter &parameter : program_.kernels[launch.kernel].parameters)
      if (parameter.kind == program::KernelParameter::Kind::pointer)
        names.push_back(parameter.name + " = " +
                        program_.buffers[launch.pointers[pointer++].buffer].name);
    return support::join(names, ", ");
  }

  void symbols() {
    table("Symbol", "kSymbols", tables_.symbols, [&](size_t i) {
      const Symbol &symbol = tables_.symbols[i];
      return row({literal(symbol.name), number(symbol.low), number(symbol.high),
                  std::to_string(symbol.input), std::to_string(symbol.dimension),
                  number(symbol.coefficient), text(symbol.offset)}) +
             comment(source_of(symbol));
    });
  }
  std::string source_of(const Symbol &symbol) const {
    if (symbol.input < 0)
      return "a step defines it";
    return (symbol.dimension < 0 ? std::string("input ")
                                 : "dimension " + std::to_string(symbol.dimension) + " of input ") +
           tables_.inputs[static_cast<size_t>(symbol.input)].name;
  }
  void pools() {
    // Sixteen words a line; expressions below say where each begins.
    std::string words;
    for (size_t i = 0; i < tables_.code.count; ++i)
      words += (i % 16 == 0 ? "\n    " : " ") + number(tables_.code[i]) + ",";
    if (tables_.code.count > 0) {
      out_ += "\nconst int64_t kCode[] = {" + words + "\n};\n";
      fields_ +=
          ",\n                                 {kCode, " + std::to_string(tables_.code.count) + "}";
    } else {
      fields_ += ",\n                                 {}";
    }
    table("Expression", "kExpressions", tables_.expressions, [&](size_t i) {
      const Expression &expression = tables_.expressions[i];
      return row({literal(expression.text), text(expression.code), number(expression.low),
                  number(expression.high)}) +
             comment(std::to_string(i));
    });
    std::string sizes;
    for (size_t i = 0; i < tables_.sizes.count; ++i)
      sizes += (i % 16 == 0 ? "\n    " : " ") + text(tables_.sizes[i]) + ",";
    if (tables_.sizes.count > 0) {
      out_ += "\nconst Size kSizes[] = {" + sizes + "\n};\n";
      fields_ += ",\n                                 {kSizes, " +
                 std::to_string(tables_.sizes.count) + "}";
    } else {
      fields_ += ",\n                                 {}";
    }
  }
  void buffers() {
    table("Buffer", "kBuffers", tables_.buffers, [&](size_t i) {
      const Buffer &buffer = tables_.buffers[i];
      std::string note = std::to_string(i);
      if (buffer.alias_of >= 0)
        note += ": takes over the memory of " + buffer_name(buffer.alias_of);
      return row({literal(buffer.name), text(buffer.dtype), text(buffer.role), text(buffer.bytes),
                  std::to_string(buffer.alias_of), std::to_string(buffer.weight)}) +
             comment(note);
    });
    table("Weight", "kWeights", tables_.weights, [&](size_t i) {
      const Weight &weight = tables_.weights[i];
      return row(
          {literal(weight.name), text(weight.view), number(weight.bytes), text(weight.mutated)});
    });
  }
  void signature() {
    table("Input", "kInputs", tables_.inputs, [&](size_t i) {
      const Input &input = tables_.inputs[i];
      return row({literal(input.name), std::to_string(input.buffer), text(input.view),
                  text(input.mutated), text(input.is_scalar), text(input.value)});
    });
    table("Output", "kOutputs", tables_.outputs, [&](size_t i) {
      const Output &output = tables_.outputs[i];
      std::vector<std::string> fields = {literal(output.name), std::to_string(output.buffer),
                                         text(output.view), text(output.is_mutation),
                                         literal(output.text)};
      if (*output.path != '\0')
        fields.push_back(literal(output.path));
      return row(fields) + (output.buffer < 0 ? "" : comment(buffer_name(output.buffer)));
    });
  }
  static std::string text_of(const Geometry &geometry) {
    std::string grid =
        braces({text(geometry.grid[0]), text(geometry.grid[1]), text(geometry.grid[2])});
    std::string block =
        braces({std::to_string(geometry.block[0]), std::to_string(geometry.block[1]),
                std::to_string(geometry.block[2])});
    std::vector<std::string> fields = {grid, block, text(geometry.shared_bytes)};
    if (geometry.together)
      fields.push_back(text(geometry.together));
    return braces(fields);
  }
  void kernels() {
    table("Kernel", "kKernels", tables_.kernels, [&](size_t i) {
      const Kernel &kernel = tables_.kernels[i];
      return row({literal(kernel.name), literal(kernel.parameters),
                  "{" + text_of(kernel.geometry[0]) + ", " + text_of(kernel.geometry[1]) + "}" +
                      (kernel.maps.count > 0 ? ", " + text(kernel.maps) : "")}) +
             comment(std::to_string(i) + ": " + program_.kernels[i].plan);
    });
  }
  static std::string text_of(const Operand &operand) {
    return braces({std::to_string(operand.buffer), text(operand.offset)});
  }
  void launches() {
    table("Operand", "kOperands", tables_.operands, [&](size_t i) {
      return text_of(tables_.operands[i]) + "," + comment(buffer_name(tables_.operands[i].buffer));
    });
    std::vector<const program::Launch *> sources;
    for (const program::Step &step : program_.steps)
      if (const auto *launch = std::get_if<program::Launch>(&step.kind))
        sources.push_back(launch);
    table("Launch", "kLaunches", tables_.launches, [&](size_t i) {
      const Launch &launch = tables_.launches[i];
      return row({std::to_string(launch.kernel), text(launch.pointers), text(launch.sizes)}) +
             comment(std::to_string(i) + ": " + operand_names(*sources[i]));
    });
  }
  static std::string text_of(const MatrixOperand &operand) {
    return braces({std::to_string(operand.buffer), text(operand.offset), text(operand.row),
                   text(operand.column), text(operand.batch)});
  }
  void products() {
    table("Matmul", "kMatmuls", tables_.matmuls, [&](size_t i) {
      const Matmul &matmul = tables_.matmuls[i];
      std::vector<std::string> fields = {
          text(matmul.dtype), text(matmul.batch), text(matmul.m),       text(matmul.n),
          text(matmul.k),     text_of(matmul.a),  text_of(matmul.b),    text_of(matmul.out),
          text_of(matmul.c),  text(matmul.has_c), number(matmul.alpha), number(matmul.beta)};
      if (matmul.tf32 || matmul.wide)
        fields.push_back(text(matmul.tf32));
      if (matmul.wide)
        fields.push_back(text(true));
      return row(fields) +
             comment(std::to_string(i) + ": " + buffer_name(matmul.out.buffer) + " = " +
                     buffer_name(matmul.a.buffer) + " @ " + buffer_name(matmul.b.buffer) +
                     (matmul.has_c ? " + " + buffer_name(matmul.c.buffer) : ""));
    });
    table("Copy", "kCopies", tables_.copies, [&](size_t i) {
      const Copy &copy = tables_.copies[i];
      return row({text_of(copy.from), text_of(copy.to), text(copy.bytes)});
    });
  }
  void communication() {
    table("Fill", "kFills", tables_.fills, [&](size_t i) {
      const Fill &fill = tables_.fills[i];
      return row({text_of(fill.to), text(fill.bytes)});
    });
    static const char *const kKinds[] = {
        "CollectiveKind::all_gather", "CollectiveKind::reduce_scatter",
        "CollectiveKind::all_reduce", "CollectiveKind::broadcast", "CollectiveKind::all_to_all"};
    static const char *const kReductions[] = {
        "Reduction::sum",     "Reduction::average", "Reduction::maximum", "Reduction::minimum",
        "Reduction::product", "Reduction::bit_and", "Reduction::bit_or",  "Reduction::bit_xor"};
    table("Collective", "kCollectives", tables_.collectives, [&](size_t i) {
      const Collective &collective = tables_.collectives[i];
      return row({kKinds[static_cast<size_t>(collective.kind)],
                  kReductions[static_cast<size_t>(collective.reduction)], text(collective.dtype),
                  std::to_string(collective.ranks), literal(collective.group),
                  text_of(collective.from), text_of(collective.to), text(collective.count),
                  text(collective.sends), text(collective.receives),
                  std::to_string(collective.root), literal(collective.node)});
    });
  }
  void control() {
    table("Conditional", "kConditionals", tables_.conditionals, [&](size_t i) {
      const Conditional &conditional = tables_.conditionals[i];
      return row({text(conditional.has_predicate), text_of(conditional.predicate),
                  text(conditional.condition), std::to_string(conditional.then_steps),
                  std::to_string(conditional.else_steps)}) +
             (conditional.has_predicate ? comment(buffer_name(conditional.predicate.buffer)) : "");
    });
    table("WhileLoop", "kLoops", tables_.loops, [&](size_t i) {
      const WhileLoop &loop = tables_.loops[i];
      return row({text_of(loop.predicate), std::to_string(loop.condition_steps),
                  std::to_string(loop.body_steps)}) +
             comment(buffer_name(loop.predicate.buffer));
    });
    table("Solver", "kSolvers", tables_.solvers, [&](size_t i) {
      const Solver &solver = tables_.solvers[i];
      const size_t routine = static_cast<size_t>(solver.routine);
      return row({"Routine::" + std::string(program::kRoutineNames[routine]), text(solver.dtype),
                  std::to_string(solver.flags), text(solver.batch), text(solver.m), text(solver.n),
                  text(solver.k), text_of(solver.a), text_of(solver.b), text_of(solver.c),
                  text_of(solver.out), text_of(solver.second), text_of(solver.third),
                  text_of(solver.info)}) +
             comment(std::to_string(i) + ": " + buffer_name(solver.out.buffer) + " of " +
                     buffer_name(solver.a.buffer));
    });
  }
  static std::string text_of(const Assertion &assertion) {
    return braces(
        {literal(assertion.message), literal(assertion.node), literal(assertion.source_line)});
  }
  void assertions() {
    table("Assertion", "kAssertions", tables_.assertions, [&](size_t i) {
      return text_of(tables_.assertions[i]) + "," + comment(std::to_string(i + 1));
    });
    table("SizeAssertion", "kSizeAssertions", tables_.size_assertions, [&](size_t i) {
      const SizeAssertion &assertion = tables_.size_assertions[i];
      return row({text(assertion.condition), text_of(assertion.assertion)});
    });
  }
  void defines() { // the last tables, left out where there are none
    if (tables_.defines.count == 0 && tables_.maps.count == 0)
      return;
    table("Define", "kDefines", tables_.defines, [&](size_t i) {
      const Define &define = tables_.defines[i];
      return row({text_of(define.number), std::to_string(define.symbol), text(define.bound)}) +
             comment(tables_.symbols[static_cast<size_t>(define.symbol)].name);
    });
    if (tables_.maps.count == 0)
      return;
    table("TensorMap", "kMaps", tables_.maps, [&](size_t i) {
      const TensorMap &map = tables_.maps[i];
      std::vector<std::string> sizes, strides, box;
      for (size_t k = 0; k < static_cast<size_t>(map.rank); ++k) {
        sizes.push_back(text(map.sizes[k]));
        strides.push_back(text(map.strides[k]));
        if (map.box[k] > 0)
          box.push_back(std::to_string(map.box[k]));
      }
      std::vector<std::string> fields = {std::to_string(map.parameter),
                                         text(map.dtype),
                                         std::to_string(map.rank),
                                         text(map.offset),
                                         braces(sizes),
                                         braces(strides),
                                         braces(box)};
      if (map.windows > 0 || map.tf32) {
        std::vector<std::string> lower, upper, step;
        for (size_t k = 0; k < static_cast<size_t>(map.windows); ++k) {
          lower.push_back(std::to_string(map.lower[k]));
          upper.push_back(std::to_string(map.upper[k]));
          step.push_back(std::to_string(map.step[k]));
        }
        fields.push_back(std::to_string(map.windows));
        for (const auto *list : {&lower, &upper, &step})
          fields.push_back(braces(*list));
      }
      if (map.tf32)
        fields.emplace_back("true");
      return row(fields);
    });
  }
  void steps() {
    table("Step", "kSteps", tables_.steps, [&](size_t i) {
      const Step &step = tables_.steps[i];
      std::string note = std::to_string(i);
      if (step.kind == StepKind::launch)
        note += std::string(": ") +
                tables_
                    .kernels[static_cast<size_t>(
                        tables_.launches[static_cast<size_t>(step.position)].kernel)]
                    .name;
      if (step.once)
        note += ", once, when weights are loaded";
      std::vector<std::string> fields = {
          literal(step.name),
          "StepKind::" + std::string(program::kStepKindNames[static_cast<size_t>(step.kind)]),
          std::to_string(step.position), text(step.once)};
      if (step.stream != 0 || step.waits.count != 0) {
        fields.push_back(std::to_string(step.stream));
        fields.push_back(text(step.waits));
      }
      return row(fields) + comment(note);
    });
    table("int32_t", "kWaits", tables_.waits, [&](size_t i) {
      return std::to_string(tables_.waits[i]) + "," +
             comment(tables_.steps[static_cast<size_t>(tables_.waits[i])].name);
    });
  }

  const program::Program &program_;
  program::OwnedTables owned_;
  const Tables &tables_;
  std::string out_, fields_;
};

} // namespace

std::string model_source(std::span<const program::Program> plans) {
  std::string text =
      "// The program as tables: what engine/engine.cpp walks. Sizes are {number} or {0, "
      "expression}.\n"
      "#include \"engine/model_hooks.h\"\n#include \"tsc_model.h\"\n\n"
      "static_assert(TSC_ABI_VERSION == " +
      std::to_string(TSC_ABI_VERSION) +
      ", \"TSC-E007: these tables and the engine are of two versions of tsc\");\n\n"
      "namespace tsc_engine {\nnamespace {\n";
  std::string rows;
  for (const program::Program &plan : plans) {
    const std::string arch = plan.archs.empty() ? "" : plan.archs.front();
    const std::string name = "plan_" + std::to_string(&plan - plans.data());
    text += Printer(plan).run(name);
    rows += "      " +
            braces({literal(arch.c_str()), number(program::shared_bytes(plan)),
                    "&" + name + "::kTables"}) +
            ",\n";
  }
  text += "\n} // namespace\n\nTable<ArchPlan> arch_plans() {\n"
          "  static const ArchPlan kPlans[] = {\n" +
          rows + "  };\n  return {kPlans, " + std::to_string(plans.size()) +
          "};\n}\n\n} // namespace tsc_engine\n\n";
  // Both names are for others: each asks for what this library alone has.
  for (const std::string &name :
       {model_name(plans.front().name) + "_model", std::string("tsc_model")})
    text += "extern \"C\" TSC_API const TscModel *" + name + "(void);\nconst TscModel *" + name +
            "(void) { return tsc_engine::model_functions(); }\n";
  return text;
}

} // namespace tsc::emit
