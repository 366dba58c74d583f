#include "program/tables.h"

#include "support/diagnostic.h"

#include <deque>
#include <unordered_map>

namespace tsc::program {
namespace {

namespace engine = tsc_engine;

/// Deeper than the engine's stack; index expressions of real graphs need fewer than ten.
constexpr int kMaxDepth = 60;
/// Words of one expression: powers of powers would multiply them.
constexpr size_t kMaxWords = 65536;
/// 2**63 is beyond int64.
constexpr int64_t kMaxExponent = 62;

static_assert(static_cast<int>(DType::boolean) == static_cast<int>(engine::DType::boolean) &&
              static_cast<int>(DType::i64) == static_cast<int>(engine::DType::i64) &&
              static_cast<int>(DType::f16) == static_cast<int>(engine::DType::f16) &&
              static_cast<int>(DType::f8e8m0fnu) == static_cast<int>(engine::DType::f8e8m0fnu));
static_assert(static_cast<int>(Role::input) == static_cast<int>(engine::Role::input) &&
              static_cast<int>(Role::exchange) == static_cast<int>(engine::Role::exchange));

template <class Kind, engine::StepKind number>
constexpr bool kIsNumbered =
    std::is_same_v<std::variant_alternative_t<static_cast<size_t>(number), decltype(Step::kind)>,
                   Kind>;
static_assert(kIsNumbered<Launch, engine::StepKind::launch> &&
              kIsNumbered<Matmul, engine::StepKind::matmul> &&
              kIsNumbered<Copy, engine::StepKind::copy> &&
              kIsNumbered<Fill, engine::StepKind::fill> &&
              kIsNumbered<Collective, engine::StepKind::collective> &&
              kIsNumbered<Conditional, engine::StepKind::conditional> &&
              kIsNumbered<WhileLoop, engine::StepKind::while_loop> &&
              kIsNumbered<Define, engine::StepKind::define> &&
              kIsNumbered<Solver, engine::StepKind::solver>);

struct Storage {
  std::deque<std::string> texts; // addresses stay
  std::vector<engine::Symbol> symbols;
  std::vector<int64_t> code;
  std::vector<engine::Expression> expressions;
  std::vector<engine::Size> sizes;
  std::vector<engine::Buffer> buffers;
  std::vector<engine::Weight> weights;
  std::vector<engine::Input> inputs;
  std::vector<engine::Output> outputs;
  std::vector<engine::Kernel> kernels;
  std::vector<engine::TensorMap> maps;
  std::vector<engine::Operand> operands;
  std::vector<engine::Launch> launches;
  std::vector<engine::Matmul> matmuls;
  std::vector<engine::Copy> copies;
  std::vector<engine::Fill> fills;
  std::vector<engine::Collective> collectives;
  std::vector<engine::Conditional> conditionals;
  std::vector<engine::WhileLoop> loops;
  std::vector<engine::Define> defines;
  std::vector<engine::Solver> solvers;
  std::vector<engine::Step> steps;
  std::vector<int32_t> waits;
  std::vector<engine::Assertion> assertions;
  std::vector<engine::SizeAssertion> size_assertions;
};

engine::DType convert(DType dtype) { return static_cast<engine::DType>(dtype); }

/// Expressions to code, each distinct one once, numbered by first use.
class ExpressionTable {
public:
  ExpressionTable(const Program &program, Storage &storage)
      : storage_(storage), name_of_(symbol_writer(program.symbols)) {
    for (const Symbol &symbol : program.symbols) {
      symbols_.emplace(symbol.symbol, static_cast<int64_t>(symbols_.size()));
      ranges_.set(symbol.symbol, {symbol.low, symbol.high});
    }
  }

  engine::Size size(Expr e) {
    if (e.is_integer())
      return {e.value(), -1};
    auto [entry, is_new] = numbers_.emplace(e, static_cast<int32_t>(storage_.expressions.size()));
    if (is_new)
      storage_.expressions.push_back(compile(e));
    return {0, entry->second};
  }

private:
  engine::Expression compile(Expr e) {
    engine::Expression row;
    storage_.texts.push_back(symbolic::print(e, name_of_));
    row.text = storage_.texts.back().c_str();
    row.code.first = static_cast<int32_t>(storage_.code.size());
    start_ = storage_.code.size();
    emit(e, 0);
    row.code.count = static_cast<int32_t>(storage_.code.size()) - row.code.first;
    symbolic::Interval interval = symbolic::bounds(e, ranges_);
    row.low = interval.low;
    row.high = interval.high;
    return row;
  }
  void word(engine::Opcode opcode) { storage_.code.push_back(static_cast<int64_t>(opcode)); }
  void push(engine::Opcode opcode, int64_t operand) {
    word(opcode);
    storage_.code.push_back(operand);
  }
  void fold(Expr e, engine::Opcode opcode, int depth) {
    bool is_first = true;
    for (Expr operand : e.operands()) {
      emit(operand, depth + (is_first ? 0 : 1));
      if (!is_first)
        word(opcode);
      is_first = false;
    }
  }
  /// Leaves the value of `e` on the stack, which holds `depth` values before. Recursion is as deep
  /// as the expression nests, which the parser bounds.
  void emit(Expr e, int depth) {
    if (depth >= kMaxDepth || storage_.code.size() - start_ > kMaxWords)
      too_large(e);
    switch (e.kind()) {
    case symbolic::Kind::integer:
      return push(engine::Opcode::push, e.value());
    case symbolic::Kind::symbol:
      return push(engine::Opcode::symbol, symbols_.at(e));
    case symbolic::Kind::add:
      return fold(e, engine::Opcode::add, depth);
    case symbolic::Kind::mul:
      return fold(e, engine::Opcode::multiply, depth);
    case symbolic::Kind::power:
      return emit_power(e, depth);
    case symbolic::Kind::floor_div:
      return fold(e, engine::Opcode::floor_divide, depth);
    case symbolic::Kind::modular_index:
      emit(e.operands()[0], depth);
      emit(e.operands()[1], depth + 1);
      word(engine::Opcode::floor_divide);
      emit(e.operands()[2], depth + 1);
      return word(engine::Opcode::modulo);
    case symbolic::Kind::identity:
      return emit(e.operands()[0], depth);
    case symbolic::Kind::mod:
      return fold(e, engine::Opcode::modulo, depth);
    case symbolic::Kind::minimum:
      return fold(e, engine::Opcode::minimum, depth);
    case symbolic::Kind::maximum:
      return fold(e, engine::Opcode::maximum, depth);
    }
  }
  [[noreturn]] void too_large(Expr e) const {
    throw support::UserError(
        support::ExitCode::bad_input,
        support::Diagnostic{"TSC-P010",
                            "the size expression " + symbolic::print(e, name_of_) +
                                " is too large to evaluate when shapes are bound",
                            "", "", "", "", "make the symbol's dimension static"});
  }
  void emit_power(Expr e, int depth) {
    int64_t exponent = e.operands()[1].value();
    if (exponent > kMaxExponent)
      too_large(e);
    emit(e.operands()[0], depth);
    for (int64_t i = 1; i < exponent; ++i) {
      emit(e.operands()[0], depth + 1);
      word(engine::Opcode::multiply);
    }
  }

  Storage &storage_;
  symbolic::SymbolWriter name_of_;
  size_t start_ = 0; // in the code, of the expression being compiled
  symbolic::Ranges ranges_;
  std::unordered_map<Expr, int64_t, symbolic::ExprHash> symbols_;
  std::unordered_map<Expr, int32_t, symbolic::ExprHash> numbers_;
};

class Builder {
public:
  Builder(const Program &program, Storage &storage)
      : program_(program), storage_(storage), expressions_(program, storage) {}

  void run() {
    for (size_t i = 0; i < program_.symbols.size(); ++i)
      add_symbol(i);
    for (const Buffer &buffer : program_.buffers)
      add_buffer(buffer);
    for (const InputInfo &input : program_.inputs)
      add_input(input);
    const std::vector<std::string> paths = output_paths(program_);
    for (size_t i = 0; i < program_.outputs.size(); ++i)
      add_output(program_.outputs[i], paths[i]);
    for (const Kernel &kernel : program_.kernels)
      add_kernel(kernel);
    for (const Step &step : program_.steps)
      add_step(step);
    for (const Assertion &assertion : program_.assertions)
      storage_.assertions.push_back(texts(assertion));
    for (const SizeAssertion &row : program_.size_assertions)
      storage_.size_assertions.push_back({expressions_.size(row.condition), texts(row.assertion)});
  }

private:
  const char *text(const std::string &text) {
    storage_.texts.push_back(text);
    return storage_.texts.back().c_str();
  }
  engine::Range sizes(const std::vector<Expr> &list) {
    engine::Range range{static_cast<int32_t>(storage_.sizes.size()),
                        static_cast<int32_t>(list.size())};
    for (Expr e : list)
      storage_.sizes.push_back(expressions_.size(e));
    return range;
  }
  engine::TensorView view(DType dtype, const Layout &layout) {
    engine::TensorView view;
    view.dtype = convert(dtype);
    view.sizes = sizes(layout.sizes);
    view.strides = sizes(layout.strides);
    view.offset = expressions_.size(layout.offset);
    return view;
  }

  void add_symbol(size_t number) {
    const Symbol &symbol = program_.symbols[number];
    const std::optional<Binding> binding = binding_of(program_, number);
    support::require(binding.has_value() || definition_of(program_, number) != nullptr,
                     "program tables",
                     symbol.symbol.spelling() + ": no input binds it, no step defines it");
    engine::Symbol row;
    row.name = text(symbol.name.empty() ? symbol.symbol.spelling() : symbol.name);
    row.low = symbol.low;
    row.high = symbol.high;
    row.input = -1;
    if (binding) {
      row.input = static_cast<int32_t>(binding->input);
      row.dimension = binding->dimension;
      row.coefficient = binding->coefficient;
      row.offset = expressions_.size(binding->offset);
    }
    storage_.symbols.push_back(row);
  }
  void add_input(const InputInfo &input) {
    const Buffer &buffer = program_.buffers[input.buffer];
    engine::Input row;
    row.name = text(input.name);
    row.buffer = static_cast<int32_t>(input.buffer);
    row.view = view(buffer.dtype, buffer.layout);
    row.mutated = input.mutated;
    row.is_scalar = input.value.has_value();
    if (input.value)
      row.value = expressions_.size(*input.value);
    storage_.inputs.push_back(row);
  }

  void add_buffer(const Buffer &buffer) {
    engine::Buffer row;
    row.name = text(buffer.name);
    row.dtype = convert(buffer.dtype);
    row.role = static_cast<engine::Role>(buffer.role);
    row.bytes = expressions_.size(buffer.bytes);
    row.alias_of = buffer.alias_of;
    if (buffer.role == Role::weight)
      row.weight = weight_of(buffer);
    storage_.buffers.push_back(row);
  }
  /// Buffers of one name share one weight.
  int32_t weight_of(const Buffer &buffer) {
    auto [entry, is_new] =
        weights_.emplace(buffer.weight, static_cast<int32_t>(storage_.weights.size()));
    if (is_new)
      storage_.weights.push_back({text(buffer.weight), view(buffer.dtype, buffer.layout),
                                  buffer.bytes.value(), buffer.mutated});
    engine::Weight &weight = storage_.weights[static_cast<size_t>(entry->second)];
    support::require(weight.bytes == buffer.bytes.value() &&
                         weight.view.dtype == convert(buffer.dtype),
                     "program tables", "weight " + buffer.weight + " has two forms");
    weight.mutated |= buffer.mutated;
    return entry->second;
  }

  void add_output(const OutputInfo &output, const std::string &path) {
    engine::Output row;
    row.name = text(output.name);
    row.buffer = static_cast<int32_t>(output.buffer);
    if (output.buffer >= 0)
      row.view = view(output.dtype, output.layout);
    row.is_mutation = output.is_mutation;
    row.text = text(output.text);
    row.path = text(path);
    storage_.outputs.push_back(row);
  }

  engine::Geometry geometry(const KernelVariant &variant) {
    engine::Geometry row;
    for (size_t axis = 0; axis < 3; ++axis) {
      row.grid[axis] = expressions_.size(variant.grid[axis]);
      row.block[axis] = static_cast<uint32_t>(variant.block[axis]);
    }
    row.shared_bytes = expressions_.size(variant.shared_bytes);
    row.together = variant.together;
    return row;
  }
  engine::TensorMap tensor_map(const Kernel &kernel, const TensorMap &map) {
    engine::TensorMap row;
    row.parameter = static_cast<int32_t>(map.parameter);
    row.dtype = convert(kernel.parameters[map.parameter].dtype);
    row.rank = static_cast<int32_t>(map.sizes.size());
    row.offset = expressions_.size(map.offset);
    for (size_t k = 0; k < map.sizes.size(); ++k) {
      row.sizes[k] = expressions_.size(map.sizes[k]);
      row.strides[k] = expressions_.size(map.strides[k]);
      if (k < map.box.size())
        row.box[k] = static_cast<uint32_t>(map.box[k]);
    }
    row.windows = static_cast<int32_t>(map.lower.size());
    for (size_t k = 0; k < map.lower.size(); ++k) {
      row.lower[k] = map.lower[k];
      row.upper[k] = map.upper[k];
      row.step[k] = static_cast<uint32_t>(map.step[k]);
    }
    row.tf32 = map.tf32;
    return row;
  }
  void add_kernel(const Kernel &kernel) {
    std::string letters;
    for (const KernelParameter &parameter : kernel.parameters)
      if (parameter.kind == KernelParameter::Kind::size)
        letters += 's';
      else
        letters += parameter.is_const ? 'p' : 'w';
    engine::Kernel row;
    row.name = text(kernel.name);
    row.parameters = text(letters);
    row.geometry[static_cast<size_t>(engine::Plan::cuda)] = geometry(kernel.cuda);
    row.geometry[static_cast<size_t>(engine::Plan::serial)] = geometry(kernel.serial);
    row.maps = {static_cast<int32_t>(storage_.maps.size()),
                static_cast<int32_t>(kernel.cuda.maps.size())};
    for (const TensorMap &map : kernel.cuda.maps)
      storage_.maps.push_back(tensor_map(kernel, map));
    storage_.kernels.push_back(row);
  }

  engine::Assertion texts(const Assertion &assertion) {
    return {text(assertion.message), text(assertion.node), text(assertion.source_line)};
  }

  engine::Operand operand(const Operand &operand) {
    return {static_cast<int32_t>(operand.buffer), expressions_.size(operand.offset)};
  }
  engine::MatrixOperand matrix(const MatrixOperand &operand) {
    engine::MatrixOperand row;
    row.buffer = static_cast<int32_t>(operand.buffer);
    row.offset = expressions_.size(operand.offset);
    row.row = expressions_.size(operand.row_stride);
    row.column = expressions_.size(operand.column_stride);
    row.batch = expressions_.size(operand.batch_stride);
    return row;
  }
  void add_step(const Step &step) {
    if (step.device != 0)
      throw support::UserError(support::ExitCode::unsupported,
                               support::Diagnostic{"TSC-P011",
                                                   "step \"" + step.name + "\" runs on device " +
                                                       std::to_string(step.device),
                                                   "", "", "", "",
                                                   "a run has one device: give each rank a run"});
    engine::Step row;
    row.name = text(step.name);
    row.once = step.once;
    row.kind = static_cast<engine::StepKind>(step.kind.index());
    row.position = std::visit([this](const auto &kind) { return add(kind); }, step.kind);
    row.stream = step.stream;
    row.waits = {static_cast<int32_t>(storage_.waits.size()),
                 static_cast<int32_t>(step.waits.size())};
    storage_.waits.insert(storage_.waits.end(), step.waits.begin(), step.waits.end());
    storage_.steps.push_back(row);
  }
  /// The position of `row`, the last of its table.
  template <class Row> static int32_t append(std::vector<Row> &rows, Row row) {
    rows.push_back(row);
    return static_cast<int32_t>(rows.size() - 1);
  }
  int32_t add(const Event &) { return 0; }
  int32_t add(const Fill &fill) {
    return append(storage_.fills, {operand(fill.to), expressions_.size(fill.bytes)});
  }
  int32_t add(const WhileLoop &loop) {
    return append(storage_.loops,
                  {operand(loop.predicate), static_cast<int32_t>(loop.condition_steps),
                   static_cast<int32_t>(loop.body_steps)});
  }
  int32_t add(const Define &define) {
    engine::Define row;
    row.number = operand(define.number);
    row.bound = expressions_.size(define.bound);
    for (size_t i = 0; i < program_.symbols.size(); ++i)
      if (program_.symbols[i].symbol == define.symbol)
        row.symbol = static_cast<int32_t>(i);
    return append(storage_.defines, row);
  }
  int32_t add(const Launch &launch) {
    engine::Launch row;
    row.kernel = static_cast<int32_t>(launch.kernel);
    row.pointers = {static_cast<int32_t>(storage_.operands.size()),
                    static_cast<int32_t>(launch.pointers.size())};
    for (const Operand &pointer : launch.pointers)
      storage_.operands.push_back(operand(pointer));
    row.sizes = sizes(launch.sizes);
    return append(storage_.launches, row);
  }
  int32_t add(const Conditional &conditional) {
    engine::Conditional row;
    row.has_predicate = conditional.predicate.has_value();
    if (conditional.predicate)
      row.predicate = operand(*conditional.predicate);
    row.condition = expressions_.size(conditional.condition);
    row.then_steps = static_cast<int32_t>(conditional.then_steps);
    row.else_steps = static_cast<int32_t>(conditional.else_steps);
    return append(storage_.conditionals, row);
  }
  int32_t add(const Matmul &matmul) {
    engine::Matmul row;
    row.dtype = convert(matmul.dtype);
    row.batch = expressions_.size(matmul.batch);
    row.m = expressions_.size(matmul.m);
    row.n = expressions_.size(matmul.n);
    row.k = expressions_.size(matmul.k);
    row.a = matrix(matmul.a);
    row.b = matrix(matmul.b);
    row.out = matrix(matmul.out);
    row.has_c = matmul.c.has_value();
    if (matmul.c)
      row.c = matrix(*matmul.c);
    row.alpha = matmul.alpha;
    row.beta = matmul.beta;
    row.tf32 = matmul.tf32;
    row.wide = matmul.result && *matmul.result != matmul.dtype;
    return append(storage_.matmuls, row);
  }
  engine::Operand operand(const std::optional<Operand> &operand) {
    return operand ? this->operand(*operand) : engine::Operand{-1, {}};
  }
  int32_t add(const Solver &solver) {
    engine::Solver row;
    row.routine = solver.routine;
    row.dtype = convert(solver.dtype);
    row.flags = solver.flags;
    row.batch = expressions_.size(solver.batch);
    row.m = expressions_.size(solver.m);
    row.n = expressions_.size(solver.n);
    row.k = expressions_.size(solver.k);
    row.a = operand(solver.a);
    row.b = operand(solver.b);
    row.c = operand(solver.c);
    row.out = operand(solver.out);
    row.second = operand(solver.second);
    row.third = operand(solver.third);
    row.info = operand(solver.info);
    return append(storage_.solvers, row);
  }
  int32_t add(const Copy &copy) {
    engine::Copy row;
    row.from = operand(copy.from);
    row.to = operand(copy.to);
    row.bytes = expressions_.size(copy.bytes);
    return append(storage_.copies, row);
  }
  int32_t add(const Collective &collective) {
    engine::Collective row;
    row.kind = static_cast<engine::CollectiveKind>(collective.kind);
    row.reduction = collective.reduction;
    row.dtype = convert(collective.dtype);
    row.ranks = collective.ranks;
    row.group = text(collective.group);
    row.from = operand(collective.from);
    row.to = operand(collective.to);
    row.count = expressions_.size(collective.count);
    row.sends = sizes(collective.sends);
    row.receives = sizes(collective.receives);
    row.root = collective.root;
    row.node = text(collective.node);
    return append(storage_.collectives, row);
  }

  const Program &program_;
  Storage &storage_;
  ExpressionTable expressions_;
  std::unordered_map<std::string, int32_t> weights_;
};

template <class Row> engine::Table<Row> table(const std::vector<Row> &rows) {
  return {rows.data(), rows.size()};
}

} // namespace

OwnedTables build_tables(const Program &program) {
  auto storage = std::make_shared<Storage>();
  Builder(program, *storage).run();
  storage->texts.push_back(program.name);
  OwnedTables result;
  engine::Tables &tables = result.tables;
  tables.name = storage->texts.back().c_str();
  tables.symbols = table(storage->symbols);
  tables.code = table(storage->code);
  tables.expressions = table(storage->expressions);
  tables.sizes = table(storage->sizes);
  tables.buffers = table(storage->buffers);
  tables.weights = table(storage->weights);
  tables.inputs = table(storage->inputs);
  tables.outputs = table(storage->outputs);
  tables.kernels = table(storage->kernels);
  tables.operands = table(storage->operands);
  tables.launches = table(storage->launches);
  tables.matmuls = table(storage->matmuls);
  tables.copies = table(storage->copies);
  tables.fills = table(storage->fills);
  tables.collectives = table(storage->collectives);
  tables.conditionals = table(storage->conditionals);
  tables.loops = table(storage->loops);
  tables.defines = table(storage->defines);
  tables.solvers = table(storage->solvers);
  tables.steps = table(storage->steps);
  tables.waits = table(storage->waits);
  tables.assertions = table(storage->assertions);
  tables.size_assertions = table(storage->size_assertions);
  tables.maps = table(storage->maps);
  result.storage = std::move(storage);
  return result;
}

} // namespace tsc::program
