#include "codegen/print_kernel.h"

#include "codegen/reduction_text.h"
#include "support/diagnostic.h"

namespace tsc::codegen {

using ir::Op;

const std::string &Parameters::name_of(BufferId storage) const {
  const auto found = std::find(storages.begin(), storages.end(), storage);
  support::require(found != storages.end(), "codegen", "a buffer is no parameter of its kernel");
  return list[static_cast<size_t>(found - storages.begin())].name;
}

namespace {

class Printer : ReductionText {
public:
  /// `path`: which of a kernel's paths this is; "" for a kernel that has one.
  /// `is_part`: of a launch that deals its blocks to several parts; the number of its own block and
  /// its shared memory are parameters then.
  Printer(const ir::Module &module, const KernelPlan &plan, const Parameters &parameters,
          const std::string &name, const std::string &path, bool is_part)
      : ReductionText(module, plan, parameters, name), path_(path), is_part_(is_part) {
    if (is_part)
      block_ = "block";
  }

  /// What the kernel does, indented by `depth`.
  std::string print(int depth) {
    depth_ = depth;
    if (serial_ && graph_.reduces)
      open_serial_rows();
    else
      coordinates();
    load_tiles();
    preloads();
    turn_tiles();
    for (const PhasePlan &phase : plan_.phases)
      print_phase(phase);
    row_stores();
    if (serial_ && graph_.reduces)
      close();
    return std::move(text_);
  }
  /// One run of a ProductWalk.
  std::string print_run(RunUse use) {
    depth_ = 2;
    const PhasePlan &phase = plan_.phases.front();
    for (const ValueId id : phase.row_values)
      define(id);
    const ValueId copied = use == RunUse::copied ? copied_load(plan_) : ir::kNone;
    for (const ValueId id : phase.run_values)
      if (copied == ir::kNone || id != copied)
        define(id);
    if (copied != ir::kNone) {
      const Value &load = graph_[copied];
      line("return " + (load.guard == ir::kNone ? "" : KernelText::use(load.guard) + " ? ") +
           address(load) + (load.guard == ir::kNone ? "" : " : nullptr") + ";");
      return std::move(text_);
    }
    gives_run_ = use == RunUse::operand;
    print_elements(phase);
    return std::move(text_);
  }
  /// The structure in shared memory that the text needs, or nothing. After print.
  std::string shared_struct() const {
    if (shared_.empty())
      return "";
    std::string result = "struct " + shared_type() + " {\n";
    for (const std::string &member : shared_)
      result += "  " + member + ";\n";
    return result + "};\n\n";
  }

private:
  std::string path_;
  bool is_part_;
  bool gives_run_ = false; // what is stored is the product's operand

  // ---- frame

  std::string shared_type() const {
    return kernel_ + "_shared" + (path_.empty() ? "" : "_" + path_);
  }
  std::string as_index(const std::string &text) const {
    return "static_cast<" + index_ + ">(" + text + ")";
  }
  /// Declares variables of a nest from a flat position, those that `used` names (none: all); `flat`
  /// is a name, or the only variable's value.
  void decompose(std::span<const Expr> variables, std::span<const Expr> sizes,
                 const std::string &flat, const std::vector<bool> &used = {}) {
    Expr inner = 1;
    for (size_t i = variables.size(); i-- > 0;) {
      std::string value = inner.is_integer(1) ? flat : flat + " / " + factor(inner);
      if (i > 0)
        value += " % " + factor(sizes[i]);
      if (used.empty() || used[i])
        line("const " + index_ + " " + variables[i].spelling() + " = " + value + ";");
      inner = inner * sizes[i];
    }
  }
  std::string quotient(const std::string &text, Expr divisor) const {
    return divisor.is_integer(1) ? text : text + " / " + factor(divisor);
  }
  std::string remainder(const std::string &text, Expr divisor) const {
    return divisor.is_integer(1) ? "0" : text + " % " + factor(divisor);
  }
  std::string factor(Expr e) const {
    const std::string text = size_text(e);
    return e.is_integer() || e.is_symbol() ? text : "(" + text + ")";
  }

  void coordinates() {
    if (row_) {
      const std::string threads = std::to_string(row_->threads);
      if (row_->rows == 1) {
        line("const int lane = static_cast<int>(threadIdx.x);");
        row_coordinates(as_index(block_), false);
      } else {
        line("const int lane = static_cast<int>(threadIdx.x) % " + threads + ";");
        row_coordinates(as_index(block_) + " * " + std::to_string(row_->rows) +
                            " + static_cast<int>(threadIdx.x) / " + threads,
                        row_->guard_row);
      }
    } else if (alone()) {
      row_coordinates(as_index(block_) + " * " + std::to_string(column_->columns) +
                          " + static_cast<int>(threadIdx.x)",
                      column_->guard_row);
    } else if (column_) {
      const std::string columns = std::to_string(column_->columns);
      line("const int lane = static_cast<int>(threadIdx.x) / " + columns + ";");
      row_coordinates(as_index(block_) + " * " + columns + " + static_cast<int>(threadIdx.x) % " +
                          columns,
                      column_->guard_row);
    }
    if (tile_)
      tile_coordinates();
    if (row_ && graph_.sorts())
      line("TC_DYN_SMEM(unsigned char, merging);");
    if (has_shared() && (!is_part_ || !path_.empty()))
      line(path_.empty() ? "TC_SMEM(" + shared_type() + ", shared);"
                         : shared_type() + " &shared = memory." + path_ + ";");
  }
  /// Each thread has a row of its own.
  bool has_shared() const {
    const bool reduces = std::any_of(graph_.values.begin(), graph_.values.end(),
                                     [](const Value &value) { return value.op == Op::reduction; });
    const bool scans = graph_.scans_end_phases &&
                       std::any_of(graph_.values.begin(), graph_.values.end(),
                                   [](const Value &value) { return value.op == Op::scan; });
    return tile_ || scans || (reduces && ((column_ && !alone()) || (row_ && row_->threads > 32)));
  }
  void row_coordinates(const std::string &row, bool guard) {
    if (graph_.row_variables.empty() && !guard)
      return;
    line("const " + index_ + " row = " + row + ";");
    std::string flat = "row";
    if (guard) { // threads past the end work on the last row and store nothing
      const std::string rows = size_text(graph_.rows());
      line("const bool live = row < " + rows + ";");
      if (!graph_.row_variables.empty())
        line("const " + index_ + " x = live ? row : " + rows + " - 1;");
      flat = "x";
    }
    decompose(graph_.row_variables, graph_.row_sizes, flat);
  }
  void open_serial_rows() {
    const std::string chunk = std::to_string(serial_->chunk), rows = size_text(graph_.rows());
    line("const " + index_ + " first = " + as_index(block_) + " * " + chunk + ";");
    line("const " + index_ + " last = first + " + chunk + " < " + rows + " ? first + " + chunk +
         " : " + rows + ";");
    open("for (" + index_ + " row = first; row < last; ++row)");
    decompose(graph_.row_variables, graph_.row_sizes, "row");
  }

  // ---- runs: loop k, its coordinates and its guard

  /// What statements mention of where they are.
  struct Position {
    std::vector<bool> variables; // of graph_.element_variables
    bool flat = false;           // the place in the row
    bool tiles = false;          // a tile's elements, or (its guard) the place in it
    bool any() const {
      return flat || std::find(variables.begin(), variables.end(), true) != variables.end();
    }
  };
  Position nowhere() const {
    return {std::vector<bool>(graph_.element_variables.size()), false, tile_ && tile_->guard};
  }
  void mark(Position &position, std::span<const ValueId> ids) const {
    for (const ValueId id : ids) {
      position.flat |= finds_position(id);
      for (size_t i = 0; i < position.variables.size(); ++i)
        if (symbolic::depends_on(graph_[id].index, graph_.element_variables[i]))
          position.variables[i] = true;
    }
    position.tiles = position.tiles || (tile_ && position.variables[tile_down()]);
  }
  Position position_of(const PhasePlan &phase) const {
    Position position = nowhere();
    for (const auto *ids : {&phase.run_values, &phase.elements, &phase.stores, &phase.reductions})
      for (const ValueId id : *ids)
        if (tiles_.count(id) != 0)
          position.tiles = true;
        else if (!plan_.preloaded[id]) // those were loaded before
          mark(position, {{id}});
    return position;
  }
  Position everywhere() const { // that a thread needs in any phase
    Position position = nowhere();
    mark(position, plan_.preloads);
    for (const PhasePlan &phase : plan_.phases) {
      const Position here = position_of(phase);
      position.flat |= here.flat;
      for (size_t i = 0; i < position.variables.size(); ++i)
        position.variables[i] = position.variables[i] || here.variables[i];
    }
    return position;
  }

  Expr runs() const { return symbolic::floor_div(graph_.elements(), vector_); }
  std::string scaled(const std::string &run) const {
    if (vector_ == 1)
      return run;
    const bool simple = run.find(' ') == std::string::npos;
    return (simple ? run : "(" + run + ")") + " * " + std::to_string(vector_);
  }
  /// Opens the loop over runs; returns how many braces to close.
  int open_runs(const Position &position) {
    int braces = 0;
    std::string run, guard;
    if (tile_)
      return open_tile_elements(open_tile_runs(false, position.tiles), position);
    if (flat_) {
      if (steps_ > 1) {
        line("TC_UNROLL");
        open("for (int k = 0; k < " + std::to_string(steps_) + "; ++k)");
        ++braces;
        run = "(" + as_index(block_) + " * " + std::to_string(steps_) + " + k) * " +
              std::to_string(flat_->block) + " + static_cast<int>(threadIdx.x)";
      } else {
        run = as_index(block_) + " * " + std::to_string(flat_->block) +
              " + static_cast<int>(threadIdx.x)";
      }
      guard = flat_->guard ? size_text(graph_.elements()) : "";
    } else if (row_ && steps_ > 0) {
      if (steps_ > 1) {
        line("TC_UNROLL");
        open("for (int k = 0; k < " + std::to_string(steps_) + "; ++k)");
        ++braces;
        run = row_->blocked ? "lane * " + std::to_string(steps_) + " + k"
                            : "k * " + std::to_string(row_->threads) + " + lane";
      } else {
        run = "lane";
      }
      guard = row_->guard_run ? size_text(graph_.elements()) : "";
    } else {
      if (alone())
        line("TC_UNROLL");
      open(loop_header());
      ++braces;
      run = "k";
    }
    braces += run_coordinates(run, guard, position);
    if (braces == 0 && computes_again()) { // each phase has names of its own
      open("");
      return 1;
    }
    return braces;
  }
  /// True if a value is computed in more than one phase.
  bool computes_again() const {
    std::vector<bool> computed(graph_.values.size(), false);
    for (const PhasePlan &phase : plan_.phases)
      for (const std::vector<ValueId> *list : {&phase.run_values, &phase.elements})
        for (const ValueId id : *list) {
          if (computed[id])
            return true;
          computed[id] = true;
        }
    return false;
  }
  std::string loop_header() const {
    const std::string count = size_text(runs());
    if (row_)
      return "for (" + index_ + " k = lane; k < " + count +
             "; k += " + std::to_string(row_->threads) + ")";
    if (alone())
      return "for (" + index_ + " k = 0; k < " + count + "; ++k)";
    if (column_)
      return "for (" + index_ + " k = lane; k < " + count +
             "; k += " + std::to_string(column_->threads) + ")";
    if (graph_.reduces)
      return "for (" + index_ + " k = 0; k < " + count + "; ++k)";
    return "for (" + index_ + " k = first; k < last; ++k)";
  }
  int run_coordinates(const std::string &run, const std::string &guard, const Position &position) {
    if (graph_.element_variables.empty()) {
      if (!flat_ && !(row_ && steps_ > 0))
        return 0;
      open("if (" + run + " == 0)"); // one element in all
      return 1;
    }
    const std::string flat =
        graph_.element_variables.size() == 1 ? graph_.element_variables[0].spelling() : "e";
    const bool once = steps_ == 1; // one run a thread: good for the whole kernel
    const Position wanted = once ? everywhere() : position;
    if ((wanted.any() || !guard.empty()) && (!once || !run_declared_)) {
      line("const " + index_ + " " + flat + " = " + scaled(run) + ";");
      if (graph_.element_variables.size() > 1)
        decompose(graph_.element_variables, graph_.element_sizes, "e", wanted.variables);
      run_declared_ = true;
    }
    if (guard.empty())
      return 0;
    open("if (" + flat + " < " + guard + ")");
    return 1;
  }
  void close_runs(int braces) {
    for (int i = 0; i < braces; ++i)
      close();
  }

  void declare_vectors(ValueId id) {
    line(vector_type(graph_[id]) + " " + vectors_[id] +
         (steps_ > 1 ? "[" + std::to_string(steps_) + "]" : "") + ";");
  }
  void preloads() {
    if (plan_.preloads.empty())
      return;
    for (const ValueId id : plan_.preloads)
      declare_vectors(id);
    Position position = nowhere();
    mark(position, plan_.preloads);
    const int braces = open_runs(position);
    for (const ValueId id : plan_.preloads)
      line(vectors_[id] + (steps_ > 1 ? "[k]" : "") + " = " +
           (plan_.streamed[id] ? "tc_stream_vec<" : "tc_load_vec<") + std::to_string(vector_) +
           ">(" + address(graph_[id]) + ");");
    close_runs(braces);
  }

  // ---- tiles through shared memory

  size_t tile_down() const { return graph_.element_variables.size() - 2; }
  /// Where the block's tile starts, and the variables outside of it.
  void tile_coordinates() {
    const size_t down = tile_down();
    const std::string edge = std::to_string(tile_->edge);
    const Expr across_tiles = symbolic::ceil_div(graph_.element_sizes.back(), tile_->edge);
    const Expr down_tiles = symbolic::ceil_div(graph_.element_sizes[down], tile_->edge);
    line("const " + index_ + " tile = " + as_index(block_) + ";");
    const auto first = [&](size_t variable, const std::string &position) {
      line("const " + index_ + " " + graph_.element_variables[variable].spelling() +
           "_first = " + (position == "0" ? "0" : position + " * " + edge) + ";");
    };
    first(graph_.element_variables.size() - 1, remainder("tile", across_tiles));
    const std::string beyond = quotient("tile", across_tiles);
    first(down, down > 0 ? remainder(beyond, down_tiles) : beyond);
    if (down == 0)
      return;
    line("const " + index_ + " outer = " + quotient("tile", across_tiles * down_tiles) + ";");
    const std::span<const Expr> variables(graph_.element_variables), sizes(graph_.element_sizes);
    decompose(variables.first(down), sizes.first(down), "outer");
  }
  /// Runs of a tile: along the inner variable, or (`turned`) along the outer one.
  int open_tile_runs(bool turned, bool down_used) {
    const int width = turned ? tile_->across : vector_;
    const std::string runs = std::to_string(tile_->edge / width);
    const int steps = tile_->edge * tile_->edge / (width * tile_->block);
    if (steps > 1)
      line("TC_UNROLL");
    open(steps > 1 ? "for (int k = 0; k < " + std::to_string(steps) + "; ++k)" : "");
    line("const int run = " +
         (steps > 1 ? "k * " + std::to_string(tile_->block) + " + " : std::string()) +
         "static_cast<int>(threadIdx.x);");
    const std::string along = "run % " + runs + (width > 1 ? " * " + std::to_string(width) : "");
    line("const int across = " + (turned ? "run / " + runs : along) +
         (down_used ? ", down = " + (turned ? along : "run / " + runs) : "") + ";");
    return 1;
  }
  /// Declares the variables of the tile and opens the guard of tiles that reach past the end.
  int open_tile_elements(int braces, const Position &position) {
    const Expr inner = graph_.element_variables.back(),
               outer = graph_.element_variables[tile_down()];
    std::string declared;
    const auto declare = [&](size_t variable, const char *offset) {
      const std::string name = graph_.element_variables[variable].spelling();
      if (tile_->guard || position.variables[variable])
        declared += (declared.empty() ? "" : ", ") + name + " = " + name + "_first + " + offset;
    };
    declare(graph_.element_variables.size() - 1, "across");
    declare(tile_down(), "down");
    if (!declared.empty())
      line("const " + index_ + " " + declared + ";");
    if (!tile_->guard)
      return braces;
    open("if (" + inner.spelling() + " < " + size_text(graph_.element_sizes.back()) + " && " +
         outer.spelling() + " < " + size_text(graph_.element_sizes[tile_down()]) + ")");
    return braces + 1;
  }
  std::string tile_run(const std::string &name) const {
    return name + (tile_->edge * tile_->edge > tile_->across * tile_->block ? "[k]" : "");
  }
  /// All loads of the tile are under way before the first is used.
  void load_tiles() {
    if (!tile_)
      return;
    const std::string width = std::to_string(tile_->across);
    const int steps = tile_->edge * tile_->edge / (tile_->across * tile_->block);
    for (const auto &[id, name] : tiles_) {
      const std::string type = std::string(storage_type(module_.buffer(graph_[id].buffer).dtype));
      shared_.push_back(type + " " + name + "[" +
                        std::to_string(tile_->edge * tile_pitch(graph_[id])) + "]");
      line("tc_vec<" + type + ", " + width + "> " + name +
           (steps > 1 ? "[" + std::to_string(steps) + "]" : "") + ";");
    }
    Position position = nowhere();
    for (const auto &[id, name] : tiles_)
      mark(position, {{id}});
    const int braces = open_tile_elements(open_tile_runs(true, true), position);
    for (const auto &[id, name] : tiles_)
      line(tile_run(name) + " = tc_load_vec<" + width + ">(" + address(graph_[id]) + ");");
    close_runs(braces);
  }
  void turn_tiles() {
    if (!tile_)
      return;
    const int braces = open_tile_runs(true, true);
    line("TC_UNROLL");
    open("for (int j = 0; j < " + std::to_string(tile_->across) + "; ++j)");
    for (const auto &[id, name] : tiles_)
      line("shared." + name + "[across * " + std::to_string(tile_pitch(graph_[id])) +
           " + down + j] = " + tile_run(name) + ".at[j];");
    close_runs(braces + 1);
    line("TC_BARRIER();");
  }

  // ---- phases

  void declare_kept(const PhasePlan &phase) {
    const auto declare = [&](ValueId id) {
      if (!plan_.kept[id])
        return;
      if (vectors_.count(id) != 0) {
        declare_vectors(id);
        return;
      }
      const std::string count =
          steps_ > 0 ? std::to_string(steps_ * vector_) : size_text(graph_.elements());
      line(std::string(value_type(graph_[id].dtype)) + " t" + std::to_string(numbers_[id]) + "[" +
           count + "];");
    };
    for (const ValueId id : phase.run_values)
      declare(id);
    for (const ValueId id : phase.elements)
      declare(id);
  }
  bool is_vector_store(ValueId id) const { return plan_.access[id] == Access::vector; }

  void print_phase(const PhasePlan &phase) {
    phase_ = &phase;
    for (const ValueId id : phase.row_values) {
      define(id);
      define_inverse(id);
    }
    if (phase.empty())
      return;
    declare_kept(phase);
    declare_accumulators(phase);
    restart_scans(phase);
    if (serial_ && !graph_.reduces) {
      const std::string chunk = std::to_string(serial_->chunk), count = size_text(runs());
      line("const " + index_ + " first = " + as_index(block_) + " * " + chunk + ";");
      line("const " + index_ + " last = first + " + chunk + " < " + count + " ? first + " + chunk +
           " : " + count + ";");
    }
    const int braces = open_runs(position_of(phase));
    for (const ValueId id : phase.run_values)
      define(id);
    print_elements(phase);
    close_runs(braces);
    finish_reductions(phase);
  }
  void print_elements(const PhasePlan &phase) {
    for (const ValueId id : phase.stores)
      if (is_vector_store(id)) {
        // Symbols of sizes are called s0, s1, ... already.
        staged_[id] = (parameters_.sizes.empty() ? "s" : "y") + std::to_string(staged_.size());
        line(std::string(value_type(graph_[id].dtype)) + " " + staged_[id] + "[" +
             std::to_string(vector_) + "];");
      }
    if (vector_ > 1) {
      line("TC_UNROLL");
      open("for (int j = 0; j < " + std::to_string(vector_) + "; ++j)");
    }
    in_elements_ = true;
    for (const ValueId id : phase.elements)
      define(id);
    accumulate(phase);
    for (const ValueId id : phase.stores)
      store_element(id);
    in_elements_ = false;
    if (vector_ > 1)
      close();
    for (const ValueId id : phase.stores)
      if (is_vector_store(id))
        store_run(id);
  }
  std::string live(const std::string &statement) const {
    const bool guarded = (row_ && row_->guard_row) || (column_ && column_->guard_row);
    return guarded
               ? "if (live)\n" + std::string(static_cast<size_t>(depth_) * 2 + 2, ' ') + statement
               : statement;
  }
  /// "if (..)" before a store that does not always happen.
  std::string where_stored(const Value &value) const {
    const std::string where = store_condition(value);
    return where.empty()
               ? ""
               : "if (" + where + ")\n" + std::string(static_cast<size_t>(depth_) * 2 + 2, ' ');
  }
  std::string store_text(const Value &value) const {
    const std::string x = converted(use(value.args[0]), dtype_of(value.args[0]), value.dtype);
    const bool plain = value.mode == ir::StoreMode::plain;
    return where_stored(value) + "tc_" +
           std::string(plain ? "store" : ir::store_mode_name(value.mode)) + "(" + address(value) +
           ", " + x + ");";
  }
  void store_element(ValueId id) {
    const Value &value = graph_[id];
    if (is_vector_store(id))
      line(staged_[id] + "[" + (vector_ > 1 ? "j" : "0") +
           "] = " + converted(use(value.args[0]), dtype_of(value.args[0]), value.dtype) + ";");
    else
      line(live(store_text(value)));
  }
  void store_run(ValueId id) {
    if (gives_run_) {
      line("tc_give_run(" + staged_[id] + ", values);");
      return;
    }
    line(live(where_stored(graph_[id]) + "tc_store_vec<" + std::to_string(vector_) + ">(" +
              address(graph_[id]) + ", " + staged_[id] + ");"));
  }
  void row_stores() {
    if (plan_.row_stores.empty())
      return;
    if (plan_.row_stores_wait && (row_ || (column_ && !alone())))
      line("TC_BARRIER();");
    std::vector<std::string> conditions;
    if (row_ || (column_ && !alone()))
      conditions.push_back("lane == 0");
    if ((row_ && row_->guard_row) || (column_ && column_->guard_row))
      conditions.push_back("live");
    if (flat_ || tile_)
      conditions.push_back(block_ + " == 0 && threadIdx.x == 0");
    std::string condition;
    for (const std::string &part : conditions)
      condition += (condition.empty() ? "" : " && ") + part;
    if (!condition.empty())
      open("if (" + condition + ")");
    for (const ValueId id : plan_.row_stores)
      line(store_text(graph_[id]));
    if (!condition.empty())
      close();
  }
};

/// Sizes of kernels that count in 32 bits are 32-bit numbers: dividing by them costs a fraction.
bool is_narrow(const KernelPlan &plan, const Parameters &parameters, size_t size) {
  const bool wide = plan.wide_index || (plan.otherwise && plan.otherwise->wide_index);
  return !wide && parameters.narrow[size];
}
std::string narrowed_sizes(const KernelPlan &plan, const Parameters &parameters,
                           const std::string &body) {
  std::string lines;
  size_t size = 0;
  for (const program::KernelParameter &parameter : parameters.list)
    if (parameter.kind == program::KernelParameter::Kind::size &&
        is_narrow(plan, parameters, size++) && mentions(body, parameter.name))
      lines +=
          "  const int " + parameter.name + " = static_cast<int>(" + parameter.name + "_64);\n";
  return lines;
}

std::string parameter_list(const KernelPlan &plan, const Parameters &parameters) {
  std::string list;
  size_t pointer = 0, size = 0;
  for (const program::KernelParameter &parameter : parameters.list) {
    if (!list.empty())
      list += ", ";
    if (parameter.kind == program::KernelParameter::Kind::size) {
      list += "long long " + parameter.name + (is_narrow(plan, parameters, size++) ? "_64" : "");
      continue;
    }
    list += pointer_text(parameter.dtype, parameter.is_const, parameters.restricted[pointer++]) +
            parameter.name;
  }
  return list;
}

/// What stands between a kernel's braces, and the types in front of it.
struct KernelBody {
  std::string types;  // structures in shared memory
  std::string shared; // the type of all of it; "" if there is none
  std::string text;
};

KernelBody print_body(const ir::Module &module, const KernelPlan &plan,
                      const Parameters &parameters, const std::string &name, bool is_part) {
  KernelBody body;
  if (!plan.otherwise) {
    Printer printer(module, plan, parameters, name, "", is_part);
    body.text = printer.print(1);
    body.types = printer.shared_struct();
    body.shared = body.types.empty() ? "" : name + "_shared";
    body.text = narrowed_sizes(plan, parameters, body.text) + body.text;
    return body;
  }
  Printer aligned(module, plan, parameters, name, "aligned", is_part);
  Printer other(module, *plan.otherwise, parameters, name, "other", is_part);
  const std::string bodies = "  if (" + std::string(kMisaligned) + " == 0) {\n" + aligned.print(2) +
                             "  } else {\n" + other.print(2) + "  }\n";
  body.types = aligned.shared_struct() + other.shared_struct();
  std::string declared;
  if (!body.types.empty()) {
    body.types += "union " + name + "_shared {\n";
    for (const auto &[path, used] : {std::pair("aligned", !aligned.shared_struct().empty()),
                                     std::pair("other", !other.shared_struct().empty())})
      if (used)
        body.types += "  " + name + "_shared_" + path + " " + path + ";\n";
    body.types += "};\n\n";
    body.shared = name + "_shared";
    if (!is_part)
      declared = "  TC_SMEM(" + name + "_shared, memory);\n";
  }
  body.text = narrowed_sizes(plan, parameters, bodies) + declared + bodies;
  return body;
}

} // namespace

std::string pointer_text(DType dtype, bool is_const, bool restricted) {
  return (is_const ? "const " : "") + std::string(storage_type(dtype)) + " *" +
         (restricted ? "TC_RESTRICT " : "");
}

std::string kernel_head(int block, const std::string &name, const std::string &parameters) {
  return "TC_KERNEL void __launch_bounds__(" + std::to_string(block) + ") " + name + "(" +
         parameters + ") {\n";
}

std::string export_line(const std::string &name, bool has_barriers, bool shared) {
  return "TC_EXPORT(" + name + ", " + (has_barriers ? "TC_HAS_BARRIERS" : "0") +
         (shared ? ", " + name + "_shared" : "") + ")\n";
}

bool mentions(const std::string &body, const std::string &name) {
  const auto in_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  for (size_t at = body.find(name); at != std::string::npos; at = body.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || !in_word(body[at - 1])) && (end == body.size() || !in_word(body[end])))
      return true;
  }
  return false;
}
std::string print_kernel(const ir::Module &module, const KernelPlan &plan,
                         const Parameters &parameters, const std::string &name) {
  const KernelBody body = print_body(module, plan, parameters, name, false);
  return body.types + kernel_head(plan.block, name, parameter_list(plan, parameters)) + body.text +
         "}\n" + export_line(name, plan.has_barriers, !body.shared.empty());
}

PartText print_part(const ir::Module &module, const KernelPlan &plan, const Parameters &parameters,
                    const std::string &name) {
  const KernelBody body = print_body(module, plan, parameters, name, true);
  std::string list = parameter_list(plan, parameters);
  if (!body.shared.empty())
    list += ", " + body.shared + (plan.otherwise ? " &memory" : " &shared");
  return {body.types + "TC_FN void " + name + "(const int block, " + list + ") {\n" + body.text +
              "}\n\n",
          !body.shared.empty()};
}

ValueId copied_load(const KernelPlan &plan) {
  const KernelGraph &graph = plan.graph;
  if (graph.stores.size() != 1)
    return ir::kNone;
  const Value &store = graph[graph.stores[0]];
  ValueId id = store.args[0];
  const auto is_zero = [&](ValueId other) {
    return graph[other].op == Op::constant && is_positive_zero(graph[other].constant);
  };
  // where(mask, load under that mask, 0)
  if (graph[id].op == Op::where && is_zero(graph[id].args[2])) {
    const ValueId mask = graph[id].args[0];
    id = graph[id].args[1];
    if (graph[id].guard != mask)
      return ir::kNone;
  }
  const Value &load = graph[id];
  const bool whole = load.op == Op::load && load.dtype == store.dtype && load.args.empty() &&
                     plan.access[id] == Access::vector;
  return whole ? id : ir::kNone;
}

std::string print_product_run(const ir::Module &module, const KernelPlan &plan,
                              const Parameters &parameters, RunUse use) {
  return Printer(module, plan, parameters, "", "", false).print_run(use);
}

} // namespace tsc::codegen
