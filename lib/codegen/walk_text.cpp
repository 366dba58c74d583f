#include "codegen/walk_text.h"

#include <algorithm>

namespace tsc::codegen {

using ir::Op;

std::string WalkText::shared_type() const {
  return kernel_ + "_shared" + (path_.empty() ? "" : "_" + path_);
}

std::string WalkText::as_index(const std::string &text) const {
  return "static_cast<" + index_ + ">(" + text + ")";
}

std::string WalkText::bring_runs(const Value &load, int vector, int count, Expr first,
                                 const std::vector<std::string> &places) {
  const ir::Buffer &buffer = module_.buffer(load.buffer);
  const std::string width = std::to_string(vector),
                    name = "n" + std::to_string(&load - graph_.values.data());
  line("tc_vec<" + std::string(storage_type(buffer.dtype)) + ", " + width + "> " + name + "[" +
       std::to_string(count) + "];");
  line("TC_UNROLL");
  open("for (int q = 0; q < " + std::to_string(count) + "; ++q)");
  for (const std::string &place : places)
    line(place);
  line("const " + index_ + " at = " + index_text(first) + " + q * " + width + ";");
  line(name + "[q] = tc_load_vec_where<" + width + ">(at >= 0 && at < " +
       size_text(buffer.layout.storage_size()) + ", " +
       parameters_.name_of(module_.storage_of(load.buffer)) + " + at);");
  close();
  return name;
}

std::string WalkText::element_of_runs(const std::string &runs, const std::string &place, int before,
                                      int vector) {
  const std::string at = before > 0 ? "(" + place + " + " + std::to_string(before) + ")" : place,
                    width = std::to_string(vector);
  return runs + "[" + at + " / " + width + "].at[" + at + " % " + width + "]";
}

void WalkText::decompose(std::span<const Expr> variables, std::span<const Expr> sizes,
                         const std::string &flat, const std::vector<bool> &used) {
  if (decompose_by_inverses(variables, sizes, flat, used))
    return;
  Expr inner = 1;
  for (size_t i = variables.size(); i-- > 0;) {
    std::string value = quotient(flat, inner);
    if (i > 0)
      value += " % " + divisor(sizes[i]);
    if (used.empty() || used[i])
      line("const " + index_ + " " + variables[i].spelling() + " = " + value + ";");
    inner = inner * sizes[i];
  }
}

bool WalkText::decompose_by_inverses(std::span<const Expr> variables, std::span<const Expr> sizes,
                                     const std::string &flat, const std::vector<bool> &used) {
  const auto inverse = [&](Expr size) {
    const auto found = std::find_if(parameters_.inverses.begin(), parameters_.inverses.end(),
                                    [&](const auto &one) { return one.first == size; });
    return found == parameters_.inverses.end() ? "" : found->second;
  };
  if (serial_ || !plan_.wide_index || sizes.size() < 2 ||
      std::none_of(sizes.begin() + 1, sizes.end(),
                   [&](Expr size) { return !inverse(size).empty(); }))
    return false;
  const auto is_used = [&](size_t i) { return used.empty() || used[i]; };
  std::string rest = flat; // where the loops up to i are
  for (size_t i = variables.size() - 1; i > 0; --i) {
    size_t outer = 0; // loops further out that are asked for
    for (size_t k = 0; k < i; ++k)
      outer += is_used(k);
    if (!is_used(i) && outer == 0)
      return true;
    const std::string name = variables[i].spelling(), by = inverse(sizes[i]),
                      beyond = i == 1 ? variables[0].spelling() : name + "_beyond";
    line("const " + index_ + " " + beyond + " = " +
         (by.empty() ? quotient(rest, sizes[i])
                     : "tc_quotient(" + rest + ", " + size_text(sizes[i]) + ", " + by + ")") +
         ";");
    if (is_used(i))
      line("const " + index_ + " " + name + " = " + rest + " - " + beyond + " * " +
           factor(sizes[i]) + ";");
    rest = beyond;
  }
  return true;
}

std::string WalkText::quotient(const std::string &text, Expr divisor) const {
  return divisor.is_integer(1) ? text : text + " / " + this->divisor(divisor);
}

std::string WalkText::remainder(const std::string &text, Expr divisor) const {
  return divisor.is_integer(1) ? "0" : text + " % " + this->divisor(divisor);
}

std::string WalkText::divisor(Expr e) const { return symbolic::print_cpp_divisor(e, ranges_); }

std::string WalkText::factor(Expr e) const {
  const std::string text = size_text(e);
  return e.is_integer() || e.is_symbol() ? text : "(" + text + ")";
}

void WalkText::coordinates() {
  if (row_ && row_->columns && graph_.look_back) {
    column_parts();
  } else if (row_ && row_->columns) {
    const std::string columns = std::to_string(row_->rows);
    line("const int lane = " + thread_ + " / " + columns + ";");
    row_coordinates(as_index(block_) + " * " + columns + " + " + thread_ + " % " + columns,
                    row_->guard_row);
  } else if (row_) {
    const std::string threads = std::to_string(row_->threads);
    if (row_->rows == 1) {
      line("const int lane = " + thread_ + ";");
      row_coordinates(as_index(block_), false);
    } else {
      line("const int lane = " + thread_ + " % " + threads + ";");
      row_coordinates(as_index(block_) + " * " + std::to_string(row_->rows) + " + " + thread_ +
                          " / " + threads,
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
  if (plan_.origin)
    line("const " + index_ + " before = (" + size_text(*plan_.origin) + ") & " +
         std::to_string(vector_ - 1) + ";");
  if (tile_)
    tile_coordinates();
  if (row_ && graph_.sorts())
    line("TC_DYN_SMEM(unsigned char, merging);");
  declare_shared();
  if (graph_.look_back) { // what it takes to know the launch is done while loads are under way
    line("unsigned long long counted = 0;");
    line(row_->columns ? "if (threadIdx.x == 0)" : "if (lane == 0)");
    line("  counted = tc_count_block(" + std::string(kExchange) + ");");
  }
}

std::string WalkText::shared_struct() const {
  if (shared_.empty())
    return "";
  std::string result = "struct " + shared_type() + " {\n";
  for (const std::string &member : shared_)
    result += "  " + member + ";\n";
  return result + "};\n\n";
}

void WalkText::declare_shared() {
  if (has_shared() && (!is_part_ || !path_.empty()))
    line(path_.empty() ? "TC_SMEM(" + shared_type() + ", shared);"
                       : shared_type() + " &shared = memory." + path_ + ";");
}

bool WalkText::has_shared() const {
  const bool reduces = std::any_of(graph_.values.begin(), graph_.values.end(),
                                   [](const Value &value) { return value.op == Op::reduction; });
  const bool scans = graph_.scans_end_phases &&
                     std::any_of(graph_.values.begin(), graph_.values.end(),
                                 [](const Value &value) { return value.op == Op::scan; });
  return tile_ || scans || across_slots() > 0 || !plan_.by_lanes.empty() ||
         !plan_.by_warp.empty() || (window_ && window_->threads > 1) ||
         (reduces && ((column_ && !alone()) || (row_ && (row_->threads > 32 || row_->columns))));
}

void WalkText::row_coordinates(const std::string &row, bool guard) {
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

void WalkText::open_serial_rows() {
  const std::string chunk = std::to_string(serial_->chunk), rows = size_text(graph_.rows());
  line("const " + index_ + " first = " + as_index(block_) + " * " + chunk + ";");
  line("const " + index_ + " last = first + " + chunk + " < " + rows + " ? first + " + chunk +
       " : " + rows + ";");
  open("for (" + index_ + " row = first; row < last; ++row)");
  decompose(graph_.row_variables, graph_.row_sizes, "row");
}

/// Blocks have all columns of a part before any of the next.
void WalkText::column_parts() {
  const Expr rows = graph_.look_back->rows, groups = symbolic::ceil_div(rows, row_->rows);
  const std::string columns = std::to_string(row_->rows), count = size_text(rows);
  line("const int lane = static_cast<int>(threadIdx.x) / " + columns + ";");
  line("const " + index_ + " column = " + remainder(as_index(block_), groups) + " * " + columns +
       " + static_cast<int>(threadIdx.x) % " + columns + ";");
  if (row_->guard_row) // threads past the end work on the last column and store nothing
    line("const bool live = column < " + count + ";");
  line("const " + index_ + " row = " + quotient(as_index(block_), groups) + " * " + factor(rows) +
       " + " + (row_->guard_row ? "(live ? column : " + count + " - 1)" : std::string("column")) +
       ";");
  decompose(graph_.row_variables, graph_.row_sizes, "row");
}

WalkText::Position WalkText::nowhere() const {
  return {std::vector<bool>(graph_.element_variables.size()), false, tile_ && tile_->guard};
}

void WalkText::mark(Position &position, std::span<const ValueId> ids) const {
  for (const ValueId id : ids) {
    if (const Choice *choice = choice_of(plan_, id))
      for (const auto &[condition, load] : choice->places)
        mark(position, {{load}});
    const bool counts = beside_flat(graph_[id].index).has_value();
    position.flat |= counts || finds_position(id);
    for (size_t i = 0; i < position.variables.size(); ++i)
      if (!counts && symbolic::depends_on(graph_[id].index, graph_.element_variables[i]))
        position.variables[i] = true;
  }
  position.tiles = position.tiles || (tile_ && position.variables[tile_down()]);
}

WalkText::Position WalkText::position_of(const PhasePlan &phase) const {
  Position position = nowhere();
  for (const auto *ids : {&phase.run_values, &phase.elements, &phase.stores, &phase.reductions})
    for (const ValueId id : *ids)
      if (tiles_.count(id) != 0)
        position.tiles = true;
      else if (!plan_.preloaded[id] && ahead_.count(id) == 0) // those were loaded before
        mark(position, {{id}});
  return position;
}

WalkText::Position WalkText::everywhere() const {
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

std::string WalkText::scaled(const std::string &run) const {
  if (vector_ == 1)
    return run;
  const bool simple = run.find(' ') == std::string::npos;
  return (simple ? run : "(" + run + ")") + " * " + std::to_string(vector_);
}

int WalkText::open_runs(const Position &position) {
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
            std::to_string(flat_->block) + " + " + thread_;
    } else {
      run = as_index(block_) + " * " + std::to_string(flat_->block) + " + " + thread_;
    }
    guard = flat_->guard ? size_text(graph_.elements()) : "";
  } else if (row_ && steps_ > 0) {
    if (steps_ > 1) {
      line("TC_UNROLL");
      open("for (int k = 0; k < " + std::to_string(steps_) + "; ++k)");
      ++braces;
      const std::string steps = std::to_string(steps_);
      run = row_->order == RunOrder::by_thread ? "lane * " + steps + " + k"
            : row_->order == RunOrder::by_warp && row_->threads > 32
                ? "(lane / 32 * " + steps + " + k) * 32 + lane % 32"
                : "k * " + std::to_string(row_->threads) + " + lane";
    } else {
      run = "lane";
    }
    guard = row_->guard_run ? size_text(graph_.elements()) : "";
    whole_ = steps_ > 1 && row_->whole_steps > 0 ? "whole" : "";
  } else {
    if (alone())
      line(column_->in_turn ? "TC_NO_UNROLL" : "TC_UNROLL");
    if (row_ && row_->ends_apart)
      whole_ = kAlways;
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

std::vector<ValueId> WalkText::loads_ahead(const PhasePlan &phase) const {
  std::vector<ValueId> result;
  for (const ValueId id : phase.run_values)
    if (ahead() > 1 && vectors_.count(id) != 0 && graph_[id].args.empty() &&
        graph_[id].guard == ir::kNone)
      result.push_back(id);
  return result;
}

int WalkText::open_ahead_runs() {
  whole_ = row_ && row_->ends_apart ? kAlways : "";
  if (column_ || row_->pieces == 0) {
    open(loop_header(ahead()));
    return 1;
  }
  const int runs = static_cast<int>(graph_.element_sizes.back().value()) / vector_;
  const std::string count = size_text(pieces()), first = "lane / " + std::to_string(runs);
  const int busy = row_->pieces * runs;
  open("for (" + index_ + " k = " +
       (busy == row_->threads ? first
                              : "lane < " + std::to_string(busy) + " ? " + first + " : " + count) +
       "; k < " + count + "; k += " + std::to_string(row_->pieces * row_->ahead) + ")");
  line("const " + index_ + " " + graph_.element_variables.back().spelling() + " = " +
       scaled("lane % " + std::to_string(runs)) + ";");
  return 1;
}

Expr WalkText::pieces() const {
  return symbolic::numel(std::span(graph_.element_sizes).first(graph_.element_sizes.size() - 1));
}

int WalkText::open_ahead_pieces(const Position &position) {
  const std::span<const Expr> variables(graph_.element_variables), sizes(graph_.element_sizes);
  const size_t outer = variables.size() - 1;
  const std::string flat = outer == 1 ? variables[0].spelling() : "e";
  line("const " + index_ + " " + flat + " = k + u * " + std::to_string(row_->pieces) + ";");
  if (outer > 1)
    decompose(variables.first(outer), sizes.first(outer), flat, position.variables);
  if (symbolic::known_multiple_of(pieces(), int64_t{row_->pieces} * row_->ahead, graph_.ranges))
    return 0;
  open("if (" + flat + " < " + size_text(pieces()) + ")");
  return 1;
}

bool WalkText::loads_last_run(int64_t at_once) const {
  constexpr int64_t kLoads = 2; // for each that is wanted, at most
  const std::optional<int64_t> elements = likely_row(module_, graph_);
  return !plan_.origin && elements && !graph_.elements().is_integer() &&
         !graph_.varies_by_row(graph_.elements()) &&
         (*elements + at_once - 1) / at_once * at_once <= kLoads * *elements;
}

int WalkText::open_ahead(const Position &position, bool stores, bool loads) {
  line("TC_UNROLL");
  open("for (int u = 0; u < " + std::to_string(ahead()) + "; ++u)");
  if (row_ && row_->pieces > 0)
    return 1 + open_ahead_pieces(position);
  const int threads = row_ ? row_->threads : column_->threads;
  // Between stores, ptxas moves loads to where they are used unless a branch stands in between.
  const bool divides =
      !stores && symbolic::known_multiple_of(runs(), int64_t{threads} * ahead(), graph_.ranges);
  const std::string run = "k + u * " + std::to_string(threads);
  if (loads && !stores && !divides && loads_last_run(int64_t{threads} * ahead() * vector_))
    return 1 + run_coordinates("(" + run + " < " + size_text(runs()) + " ? " + run + " : " +
                                   size_text(runs() - Expr(1)) + ")",
                               "", position);
  const std::string guard = row_ && row_->ends_apart
                                ? size_text(graph_.elements() - Expr(vector_ - 1))
                            : divides ? ""
                                      : size_text(graph_.elements());
  return 1 + run_coordinates(run, guard, position);
}

int WalkText::open_end_runs(const Position &position) {
  open("if (lane < 2)");
  line("const " + index_ + " k = lane == 0 ? 0 : " + whole_runs() + ";");
  return 1 + run_coordinates("k", size_text(graph_.elements()), position);
}

std::string WalkText::whole_runs() const {
  return "(before + " + size_text(graph_.elements()) + ") / " + std::to_string(vector_);
}

bool WalkText::computes_again() const {
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

std::string WalkText::loop_header(int at_once) const {
  const std::string count = plan_.origin
                                ? "(before + " + size_text(graph_.elements() + Expr(vector_ - 1)) +
                                      ") / " + std::to_string(vector_)
                                : size_text(runs());
  if (row_ && row_->ends_apart)
    return "for (" + index_ + " k = lane + 1; k < " + whole_runs() +
           "; k += " + std::to_string(row_->threads * at_once) + ")";
  if (row_)
    return "for (" + index_ + " k = lane; k < " + count +
           "; k += " + std::to_string(row_->threads * at_once) + ")";
  if (alone())
    return "for (" + index_ + " k = 0; k < " + count +
           (at_once == 1 ? "; ++k)" : "; k += " + std::to_string(at_once) + ")");
  if (column_)
    return "for (" + index_ + " k = lane; k < " + count +
           "; k += " + std::to_string(column_->threads * at_once) + ")";
  if (graph_.reduces)
    return "for (" + index_ + " k = 0; k < " + count + "; ++k)";
  return "for (" + index_ + " k = first; k < last; ++k)";
}

int WalkText::run_coordinates(const std::string &run, const std::string &guard,
                              const Position &position) {
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
  if (has_idle_runs()) {
    const std::string at = scaled(run), is_live = at + " < " + guard;
    if (phase_ != nullptr) // else loads alone
      line("const bool live = " + is_live + ";");
    line("const " + index_ + " " + flat + " = " + is_live + " ? " + at + " : " +
         size_text(graph_.elements() - Expr(vector_)) + ";");
    if (graph_.element_variables.size() > 1)
      decompose(graph_.element_variables, graph_.element_sizes, "e", wanted.variables);
    return 0;
  }
  if ((wanted.any() || !guard.empty()) && (!once || !run_declared_)) {
    line("const " + index_ + " " + flat + " = " + scaled(run) + (plan_.origin ? " - before" : "") +
         ";");
    if (graph_.element_variables.size() > 1)
      decompose(graph_.element_variables, graph_.element_sizes, "e", wanted.variables);
    run_declared_ = true;
  }
  if (guard.empty())
    return 0;
  const bool knows = !whole_.empty() && whole_ != kAlways;
  if (knows)
    line("const bool " + whole_ + " = k < " + std::to_string(row_->whole_steps) + ";");
  open("if (" + (knows ? whole_ + " || " : "") + flat + " < " + guard + ")");
  return 1;
}

void WalkText::close_runs(int braces) {
  for (int i = 0; i < braces; ++i)
    close();
}

void WalkText::tile_coordinates() {
  const size_t down = tile_down();
  const Expr across_tiles = symbolic::ceil_div(graph_.element_sizes.back(), tile_->edge);
  const Expr down_tiles = symbolic::ceil_div(graph_.element_sizes[down], tile_->height);
  line("const " + index_ + " tile = " + as_index(block_) + ";");
  const auto first = [&](size_t variable, const std::string &position) {
    line("const " + index_ + " " + graph_.element_variables[variable].spelling() + "_first = " +
         (position == "0"
              ? "0"
              : position + " * " + std::to_string(variable == down ? tile_->height : tile_->edge)) +
         ";");
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

int WalkText::open_tile_runs(bool turned, bool down_used) {
  const int width = turned ? tile_->across : vector_, runs = tile_->runs_of_line(turned),
            lines = tile_->lines(turned), at_once = tile_->lines_at_once(turned),
            steps = tile_->steps_of(turned);
  if (steps > 1)
    line("TC_UNROLL");
  open(steps > 1 ? "for (int k = 0; k < " + std::to_string(steps) + "; ++k)" : "");
  const std::string runs_text = std::to_string(runs),
                    times = width > 1 ? " * " + std::to_string(width) : "";
  const bool has_rest = at_once > 0 && lines % at_once != 0; // lines that are left over at last
  std::string place = "thread % " + runs_text + times, line_of = "thread / " + runs_text, condition;
  line("const int thread = " +
       (at_once == 0 && steps > 1 ? "k * " + std::to_string(tile_->block) + " + " : std::string()) +
       "static_cast<int>(threadIdx.x);");
  if (at_once == 0) {
    if (lines * runs % tile_->block != 0)
      condition = "thread < " + std::to_string(lines * runs);
  } else {
    if (steps > 1)
      line_of += " + k * " + std::to_string(at_once);
    if (tile_->block % runs != 0)
      condition = "thread < " + std::to_string(at_once * runs);
    if (has_rest)
      condition += (condition.empty() ? "" : " && ") + std::string(turned ? "across" : "down") +
                   " < " + std::to_string(turned ? tile_->edge : lines);
  }
  if (turned && tile_->group > 1)
    line_of = (steps > 1 && at_once > 0 ? "(" + line_of + ")" : line_of) + " * " +
              std::to_string(tile_->group);
  line("const int across = " + (turned ? line_of : place) +
       (down_used || (has_rest && !turned) ? ", down = " + (turned ? place : line_of) : "") + ";");
  if (condition.empty())
    return 1;
  open("if (" + condition + ")");
  return 2;
}

int WalkText::open_tile_elements(int braces, const Position &position) {
  const Expr inner = graph_.element_variables.back(), outer = graph_.element_variables[tile_down()];
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

void WalkText::draw_words(ValueId id) {
  const std::string number = std::to_string(id), blocks = std::to_string(8 * steps_);
  shared_.push_back("tc_random_words words" + number + "[" + std::to_string(flat_->block / 32) +
                    "][" + blocks + "]");
  line("tc_draw_words<" + blocks + ">(" + use(graph_[id].args[0]) + ", " + use(graph_[id].args[1]) +
       ", static_cast<long long>(" + block_ + ") * " +
       std::to_string(int64_t{flat_->block} * steps_) + " + " + thread_ + " / 32 * 32, " +
       std::to_string(flat_->block) + ", shared.words" + number + "[threadIdx.x / 32]);");
}

bool WalkText::stores_lanes(const PhasePlan &phase) const {
  return std::any_of(phase.stores.begin(), phase.stores.end(),
                     [&](ValueId id) { return is_by_lanes(plan_, id); });
}

std::string WalkText::lanes_memory(ValueId id) {
  return "shared.lanes" + std::to_string(id) + "[threadIdx.x / 32]";
}

void WalkText::put_lane(ValueId id, const std::string &run) {
  if (row_->threads > 1)
    line("tc_put_lane(" + run + ", " + lanes_memory(id) + ");");
  else
    line("tc_put_own<" + std::to_string(vector_ * steps_) + ">(" + run + ", " + lanes_memory(id) +
         ", " + graph_.element_variables[0].spelling() + ");");
}

Value WalkText::start_of_row(ValueId id) const {
  Value row = graph_[id];
  row.index = symbolic::simplify(
      symbolic::substitute(row.index, {{graph_.element_variables[0], Expr(0)}}), graph_.ranges);
  return row;
}

void WalkText::declare_lanes(ValueId id) {
  const int row = vector_ * steps_;
  const int kept = row_->threads > 1 ? vector_ : row % 2 == 0 ? row + 1 : row; // see tc_own_slot
  shared_.push_back("alignas(16) " +
                    std::string(storage_type(module_.buffer(graph_[id].buffer).dtype)) + " lanes" +
                    std::to_string(id) + "[" + std::to_string(plan_.block / 32) + "][" +
                    std::to_string(32 * kept) + "]");
}

void WalkText::load_own_row(ValueId id, const std::string &vectors) {
  declare_lanes(id);
  line("tc_load_own<" + std::to_string(vector_ * steps_) + ">(" + address(start_of_row(id)) + ", " +
       lanes_memory(id) + ", " + size_text(graph_.rows()) + " - row, " + vectors + ");");
}

void WalkText::store_lanes(const PhasePlan &phase) {
  for (const ValueId id : phase.stores) {
    if (!is_by_lanes(plan_, id))
      continue;
    declare_lanes(id);
    const std::string start = address(start_of_row(id)) + ", " + lanes_memory(id) + ", ";
    if (row_->threads == 1)
      line("tc_store_own<" + std::to_string(vector_ * steps_) + ">(" + start +
           size_text(graph_.rows()) + " - row);");
    else
      line("tc_store_lanes<" + std::to_string(vector_) + ", " +
           std::to_string(std::min(32, row_->threads)) + ">(" + start +
           graph_.element_variables[0].spelling() + ", " + size_text(graph_.elements()) +
           (has_idle_rows() ? ", live" : "") + ");");
  }
}

} // namespace tsc::codegen
