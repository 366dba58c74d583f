#include "codegen/window_text.h"

#include "codegen/walk_text.h"

#include <algorithm>

namespace tsc::codegen {

using ir::Op;

namespace {

/// Elements are computed in scopes, by how far they reach: what is the same for a whole tile of
/// rows, what the places of its window hold, what a tap brings, what is a row's own. Loads and
/// values that are the same for a run of rows stand in the scope that they belong to; the rest is
/// computed where it is used, for each of the run.
class WindowText : WalkText {
public:
  WindowText(const ir::Module &module, const KernelPlan &plan, const Parameters &parameters,
             const std::string &name, const std::string &path, bool is_part)
      : WalkText(module, plan, parameters, name, path, is_part), walk_(*window_) {}

  WindowsText print() {
    depth_ = is_path() ? 2 : 1;
    rows();
    declare_shared();
    const PhasePlan &phase = plan_.phases.front();
    std::vector<ValueId> inputs;
    for (const ValueId id : phase.reductions)
      inputs.insert(inputs.end(), graph_[id].args.begin(), graph_[id].args.end());
    const std::vector<bool> fed = needed(inputs, false);
    define_all(select([&](ValueId id) { return fed[id] && is_of_tile(id); }));
    declare_accumulators(phase);
    elements(phase, fed, needed(inputs, true));
    if (in_pieces()) {
      results_of_pieces(phase);
      return {shared_struct(), std::move(text_)};
    }
    if (shares_rows()) {
      meet(phase);
      open("if (lane == 0)");
    }
    results(phase, fed);
    if (shares_rows())
      close();
    return {shared_struct(), std::move(text_)};
  }

private:
  const WindowWalk &walk_;

  bool is_tiled() const { return walk_.tile > 1; }
  bool shares_rows() const { return walk_.threads > 1; }
  bool in_pieces() const { return walk_.kept > 0; }
  Expr tile_variable() const { return graph_.row_variables[walk_.along]; }
  Expr tap_variable() const { return graph_.element_variables[walk_.tap]; }
  std::string row_of_tile() const {
    return first_of_tile() + " + p" + (walk_.apart > 1 ? " * " + std::to_string(walk_.apart) : "");
  }
  std::string first_of_tile() const { return tile_variable().spelling() + "_first"; }

  /// `roots` and what they are computed from, except results of reductions; `to_window`: nor what
  /// stands in the window already; nor what `known` are computed from.
  std::vector<bool> needed(const std::vector<ValueId> &roots, bool to_window,
                           const std::vector<ValueId> &known = {}) const {
    std::vector<bool> result(graph_.values.size(), false);
    std::vector<ValueId> work = roots;
    while (!work.empty()) {
      const ValueId id = work.back();
      work.pop_back();
      const bool there = graph_[id].op == Op::reduction || (to_window && plan_.kept[id]) ||
                         std::binary_search(known.begin(), known.end(), id);
      if (there || result[id])
        continue;
      result[id] = true;
      work.insert(work.end(), graph_[id].args.begin(), graph_[id].args.end());
      if (graph_[id].guard != ir::kNone)
        work.push_back(graph_[id].guard);
    }
    return result;
  }
  bool is_once_a_run(ValueId id) const {
    return vector_ == 1 || plan_.uniform[id] || vectors_.count(id) != 0;
  }

  /// Row values that the thread computes once.
  bool is_of_tile(ValueId id) const {
    return graph_[id].level == Level::row && graph_[id].op != Op::reduction &&
           walk_.reach[id] == Reach::all && is_once_a_run(id);
  }

  template <class Wanted> std::vector<ValueId> select(const Wanted &wanted) const {
    std::vector<ValueId> result;
    for (ValueId id = 0; id < graph_.values.size(); ++id)
      if (wanted(id))
        result.push_back(id);
    return result;
  }
  bool mention(std::span<const ValueId> ids, Expr variable) const {
    return std::any_of(ids.begin(), ids.end(), [&](ValueId id) {
      return symbolic::depends_on(graph_[id].index, variable);
    });
  }
  void define_all(std::span<const ValueId> ids) {
    for (const ValueId id : ids)
      define(id);
  }
  void unrolled(const std::string &name, int count) {
    line("TC_UNROLL");
    open("for (int " + name + " = 0; " + name + " < " + std::to_string(count) + "; ++" + name +
         ")");
  }
  /// Opens the loop over the rows of a run.
  int open_run() {
    in_elements_ = true;
    if (vector_ == 1)
      return 0;
    unrolled("j", vector_);
    return 1;
  }
  void close_run(int braces) {
    in_elements_ = false;
    close_runs(braces);
  }

  /// The first row of tile `number`. Tiles whose rows are apart stand side by side; the last ones
  /// move back by whole steps until they fit.
  std::string first_row(size_t loop, const std::string &number) {
    const std::string tile = graph_.row_variables[loop].spelling() + "_tile",
                      apart = std::to_string(walk_.apart);
    std::string first = number + " * " + std::to_string(walk_.tile);
    if (walk_.apart > 1) {
      line("const " + index_ + " " + tile + "s = " + number + ";");
      first = tile + "s / " + apart + " * " + std::to_string(walk_.span()) + " + " + tile + "s % " +
              apart;
    }
    if (!walk_.overlaps)
      return first;
    line("const " + index_ + " " + tile + " = " + first + ";");
    const Expr size = graph_.row_sizes[loop];
    if (walk_.apart == 1) {
      const std::string last = size_text(size - Expr(int64_t{walk_.tile}));
      return tile + " < " + last + " ? " + tile + " : " + last;
    }
    const std::string fits = size_text(size - Expr(int64_t{walk_.span()}));
    return tile + " < " + fits + " ? " + tile + " : " + tile + " - (" + tile + " - " + fits +
           ") / " + apart + " * " + apart;
  }

  // ---- pieces: runs go across the last row loop and the last element loop

  /// Turns of the last element loop, or of all of them, that a thread's runs count.
  Expr stretches(Expr elements) const { return symbolic::floor_div(elements, walk_.turns()); }
  /// `first`: where in a stretch the thread's run starts.
  void rows_of_pieces() {
    const std::string columns = std::to_string(walk_.columns());
    const std::span<const Expr> variables(graph_.row_variables), sizes(graph_.row_sizes);
    line("const int lane = static_cast<int>(threadIdx.x) / " + columns + ";");
    line("const int first = static_cast<int>(threadIdx.x) % " + columns +
         (vector_ > 1 ? " * " + std::to_string(vector_) : "") + ";");
    if (variables.size() > 1) {
      line("const " + index_ + " row = " + as_index(block_) + ";");
      decompose(variables.first(variables.size() - 1), sizes.first(variables.size() - 1), "row");
    }
    line("const int " + variables.back().spelling() + " = first % " + std::to_string(walk_.kept) +
         ";");
  }
  /// The last element loop goes on within a run.
  bool turns_in_run() const { return vector_ > 1 && walk_.turns() > 1; }
  /// Where in the element loops the thread's run in stretch `e` is, as far as what is computed
  /// `of_run`, or of each element, mentions it.
  void place_in_pieces(std::span<const ValueId> of_run, std::span<const ValueId> of_each,
                       bool finds_positions) {
    const std::span<const Expr> variables(graph_.element_variables), sizes(graph_.element_sizes);
    const size_t outer = variables.size() - 1;
    const Expr count = stretches(sizes.back()), last = variables.back();
    std::vector<bool> used(outer);
    for (size_t i = 0; i < outer; ++i)
      used[i] = finds_positions || mention(of_run, variables[i]) || mention(of_each, variables[i]);
    if (std::find(used.begin(), used.end(), true) != used.end()) {
      line("const " + index_ + " piece = " + quotient("e", count) + ";");
      decompose(variables.first(outer), sizes.first(outer), "piece", used);
    }
    const bool by_each = finds_positions || mention(of_each, last),
               by_run = mention(of_run, last) || (by_each && !turns_in_run());
    if (by_each || by_run)
      line("const " + index_ + " turn = " + (outer > 0 ? remainder("e", count) : "e") +
           (walk_.turns() > 1 ? " * " + std::to_string(walk_.turns()) : "") + ";");
    if (by_run)
      line("const " + index_ + " " + last.spelling() + " = turn" +
           (walk_.turns() > 1 ? " + first / " + std::to_string(walk_.kept) : "") + ";");
  }
  /// Of a run's element j, its row and its place.
  void element_of_piece(std::span<const ValueId> ids, bool finds_positions) {
    const Expr row = graph_.row_variables.back(), element = graph_.element_variables.back();
    const std::string kept = std::to_string(walk_.kept);
    if (vector_ > 1 && mention(ids, row))
      line("const int " + row.spelling() + " = (first + j) % " + kept + ";");
    if (turns_in_run() && (finds_positions || mention(ids, element)))
      line("const " + index_ + " " + element.spelling() + " = turn + (first + j) / " + kept + ";");
    if (finds_positions && graph_.element_variables.size() > 1)
      line("const " + index_ + " e = " + flat_element() + ";");
  }
  /// What the threads have accumulated, merged; of each row one thread finishes and stores it.
  void results_of_pieces(const PhasePlan &phase) {
    const std::string block = std::to_string(walk_.block), kept = std::to_string(walk_.kept);
    for (const ValueId id : phase.reductions) {
      const std::string name = accumulators_.at(id);
      shared_.push_back(accumulator_type(graph_[id]) + " " + name + "[" +
                        std::to_string(walk_.block * (vector_ > 1 ? vector_ + 1 : 1)) + "]");
      line("tc_pieces_reduce<" + combiner(graph_[id].reduction) + ", " + block + ", " + kept +
           ">(" + name + ", shared." + name + ");");
    }
    std::vector<ValueId> roots;
    for (const ValueId id : plan_.row_stores) {
      roots.insert(roots.end(), graph_[id].args.begin(), graph_[id].args.end());
      if (graph_[id].guard != ir::kNone)
        roots.push_back(graph_[id].guard);
    }
    const std::vector<bool> used = needed(roots, false), follows = follow_reductions();
    open("if (static_cast<int>(threadIdx.x) < " + kept + ")");
    line("const int " + graph_.row_variables.back().spelling() +
         " = static_cast<int>(threadIdx.x);");
    vector_ = 1; // a thread has one row now
    define_all(select([&](ValueId id) { return used[id] && !follows[id]; }));
    finish_reductions(phase);
    define_all(select([&](ValueId id) { return used[id] && follows[id]; }));
    for (const ValueId id : plan_.row_stores)
      line(store_text(graph_[id]));
    close();
  }

  /// Which rows are the thread's.
  void rows() {
    if (in_pieces()) {
      rows_of_pieces();
      return;
    }
    const size_t count = graph_.row_variables.size();
    std::vector<Expr> sizes = graph_.row_sizes;
    sizes.back() = symbolic::floor_div(sizes.back(), vector_);
    if (is_tiled())
      sizes[walk_.along] = symbolic::ceil_div(sizes[walk_.along], walk_.span()) * Expr(walk_.apart);
    std::string flat = "row";
    const std::string columns = std::to_string(walk_.columns());
    if (shares_rows())
      line("const int lane = static_cast<int>(threadIdx.x) / " + columns + ";");
    line("const " + index_ + " row = " + as_index(block_) + " * " + columns +
         " + static_cast<int>(threadIdx.x)" + (shares_rows() ? " % " + columns : "") + ";");
    if (walk_.guard) { // threads past the end work on the last rows and store nothing
      const std::string all = size_text(symbolic::numel(sizes));
      line("const bool live = row < " + all + ";");
      line("const " + index_ + " x = live ? row : " + all + " - 1;");
      flat = "x";
    }
    Expr inner = 1;
    for (size_t i = count; i-- > 0;) {
      std::string value = quotient(flat, inner);
      if (i > 0)
        value += " % " + divisor(sizes[i]);
      const bool tiles = is_tiled() && i == walk_.along;
      if (tiles)
        value = first_row(i, value);
      else if (i + 1 == count && vector_ > 1)
        value += " * " + std::to_string(vector_);
      line("const " + index_ + " " +
           (tiles ? first_of_tile() : graph_.row_variables[i].spelling()) + " = " + value + ";");
      inner = inner * sizes[i];
    }
  }

  /// Of threads that share rows: loads of elements that wait for nothing else.
  std::vector<ValueId> loads_ahead(const std::vector<bool> &fed) const {
    if (walk_.ahead == 1)
      return {};
    return select([&](ValueId id) {
      const Value &value = graph_[id];
      return fed[id] && value.op == Op::load && value.level == Level::element &&
             value.args.empty() && value.guard == ir::kNone &&
             (vectors_.count(id) != 0 || is_one_of_element(id));
    });
  }
  /// One number that all of an element's columns have: a row's weight.
  bool is_one_of_element(ValueId id) const {
    return vector_ > 1 && graph_[id].op == Op::load && plan_.uniform[id] && vectors_.count(id) == 0;
  }
  std::string ahead_name(ValueId id) const {
    return vectors_.count(id) != 0 ? vectors_.at(id)
                                   : "t" + std::to_string(numbers_[id]) + "_ahead";
  }
  /// Whether what is computed of an element, once it is loaded, asks where it is.
  bool mentions_place(const std::vector<bool> &fed) const {
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      if (finds_position(id))
        return true;
      if (!fed[id] || ahead_.count(id) != 0)
        continue;
      for (const Expr variable : graph_.element_variables)
        if (symbolic::depends_on(graph_[id].index, variable))
          return true;
    }
    return false;
  }
  /// place_in_pieces of the loads that are made first, or of what is computed of `fed` besides.
  void place_in_pieces(const std::vector<bool> &fed, bool loads) {
    if (loads) {
      place_in_pieces(loads_ahead(fed), {}, false);
      return;
    }
    const auto of = [&](bool run) {
      return select(
          [&](ValueId id) { return fed[id] && ahead_.count(id) == 0 && is_once_a_run(id) == run; });
    };
    bool finds_positions = false;
    for (ValueId id = 0; id < graph_.values.size(); ++id)
      finds_positions = finds_positions || finds_position(id);
    place_in_pieces(of(true), of(false), finds_positions);
  }
  /// The loop over elements whose loads are under way together: which one is at place u.
  int open_ahead(bool uses_place, bool loads, const std::vector<bool> &fed) {
    const bool one = graph_.element_variables.size() == 1 && !in_pieces();
    const std::string e = one ? graph_.element_variables[0].spelling() : "e",
                      threads = std::to_string(walk_.threads);
    const Expr count = stretches(graph_.elements());
    unrolled("u", walk_.ahead);
    const bool divides =
        symbolic::known_multiple_of(count, int64_t{walk_.threads} * walk_.ahead, graph_.ranges);
    const bool clamps = loads && !divides && loads_last_run(int64_t{walk_.threads} * walk_.ahead);
    const std::string at = "k + u * " + threads;
    if (clamps)
      line("const " + index_ + " " + e + " = " + at + " < " + size_text(count) + " ? " + at +
           " : " + size_text(count - Expr(1)) + ";");
    else if (uses_place || !divides)
      line("const " + index_ + " " + e + " = " + at + ";");
    if (!divides && !clamps)
      open("if (" + e + " < " + size_text(count) + ")");
    if (in_pieces() && uses_place)
      place_in_pieces(fed, loads);
    else if (!one && uses_place)
      decompose(graph_.element_variables, graph_.element_sizes, e);
    return divides || clamps ? 1 : 2;
  }
  int open_shared_elements(const std::vector<ValueId> &loads, const std::vector<bool> &fed) {
    const std::string count = size_text(stretches(graph_.elements()));
    if (!loads.empty()) {
      open("for (" + index_ + " k = lane; k < " + count +
           "; k += " + std::to_string(walk_.threads * walk_.ahead) + ")");
      for (const ValueId id : loads)
        line((is_one_of_element(id)
                  ? std::string(storage_type(module_.buffer(graph_[id].buffer).dtype))
                  : vector_type(id)) +
             " " + ahead_name(id) + "[" + std::to_string(walk_.ahead) + "];");
      int braces = open_ahead(true, true, fed);
      ahead_.insert(loads.begin(), loads.end());
      for (const ValueId id : loads)
        line(ahead_name(id) + "[u] = " +
             (is_one_of_element(id) ? element_of(graph_[id]) : run_load("tc_load_vec", id)) + ";");
      close_runs(braces);
      braces = 1 + open_ahead(mentions_place(fed), false, fed);
      for (const ValueId id : loads)
        if (is_one_of_element(id))
          line("const " + std::string(value_type(dtype_of(id))) + " t" +
               std::to_string(numbers_[id]) + " = tc_get(" + ahead_name(id) + "[u]);");
      return braces;
    }
    const bool one = graph_.element_variables.size() == 1 && !in_pieces();
    const std::string e = one ? graph_.element_variables[0].spelling() : "e";
    open("for (" + index_ + " " + e + " = lane; " + e + " < " + count + "; " + e +
         " += " + std::to_string(walk_.threads) + ")");
    if (in_pieces())
      place_in_pieces(fed, false);
    else if (!one)
      decompose(graph_.element_variables, graph_.element_sizes, e);
    return 1;
  }
  int open_elements() {
    int braces = 0;
    int64_t bodies = int64_t{walk_.tile} * (is_tiled() ? walk_.taps : 1);
    for (size_t i = 0; i < graph_.element_variables.size(); ++i)
      if (!is_tiled() || i != walk_.tap)
        bodies *= graph_.element_sizes[i].value();
    constexpr int64_t kMostUnrolled = 128;
    for (size_t i = 0; i < graph_.element_variables.size(); ++i) {
      if (is_tiled() && i == walk_.tap)
        continue;
      const std::string name = graph_.element_variables[i].spelling();
      if (bodies <= kMostUnrolled)
        line("TC_UNROLL");
      open("for (int " + name + " = 0; " + name + " < " + size_text(graph_.element_sizes[i]) +
           "; ++" + name + ")");
      ++braces;
    }
    return braces;
  }

  void elements(const PhasePlan &phase, const std::vector<bool> &fed,
                const std::vector<bool> &of_taps) {
    const auto once = [&](Reach reach, Level level) {
      return select([&](ValueId id) {
        return fed[id] && window_->reach[id] == reach && graph_[id].level == level &&
               is_once_a_run(id);
      });
    };
    const int braces =
        shares_rows() ? open_shared_elements(loads_ahead(fed), fed) : open_elements();
    for (const ValueId id : once(Reach::all, Level::element))
      if (ahead_.count(id) == 0)
        define(id);
    if (is_tiled()) {
      window(fed);
      const std::string tap = tap_variable().spelling();
      unrolled(tap, walk_.taps);
      define_all(once(Reach::tap, Level::element));
      unrolled("p", walk_.tile);
      tile_row_ = "p";
      place_ = (walk_.stride == 1 ? "p" : "p * " + std::to_string(walk_.stride)) + " + " + tap;
    }
    const std::vector<ValueId> own = select([&](ValueId id) {
      return of_taps[id] && (window_->reach[id] == Reach::own || !is_once_a_run(id));
    });
    if (is_tiled() && mention(own, tile_variable()))
      line("const " + index_ + " " + tile_variable().spelling() + " = " + row_of_tile() + ";");
    const bool finds_positions = std::any_of(phase.reductions.begin(), phase.reductions.end(),
                                             [&](ValueId id) { return finds_position(id); });
    if (finds_positions && graph_.element_variables.size() > 1 && !shares_rows())
      line("const int e = " + flat_element() + ";");
    define_all(select([&](ValueId id) {
      return of_taps[id] && window_->reach[id] == Reach::own && is_once_a_run(id);
    }));
    const int run = open_run();
    const std::vector<ValueId> each =
        select([&](ValueId id) { return of_taps[id] && !is_once_a_run(id); });
    if (in_pieces())
      element_of_piece(each, finds_positions);
    define_all(each);
    accumulate(phase);
    close_run(run);
    close_runs(braces + (is_tiled() ? 2 : 0));
    ahead_.clear();
  }
  std::string flat_element() const {
    Expr flat = 0;
    for (size_t i = 0; i < graph_.element_variables.size(); ++i)
      flat = flat * graph_.element_sizes[i] + graph_.element_variables[i];
    return size_text(flat);
  }

  /// What the places of the tile's window hold. A place is a tap of the tile's first row, also
  /// beyond its last tap.
  void window(const std::vector<bool> &fed) {
    const std::string tap = tap_variable().spelling();
    const auto is_shared = [&](ValueId id) { return plan_.kept[id]; };
    const auto is_run = [&](ValueId id) { return is_shared(id) && vectors_.count(id) != 0; };
    for (const ValueId id : select(is_shared)) {
      const bool vector = vectors_.count(id) != 0;
      const int each = vector || plan_.uniform[id] ? 1 : vector_;
      line((vector
                ? vector_type(id) + " " + vectors_[id]
                : std::string(value_type(graph_[id].dtype)) + " t" + std::to_string(numbers_[id])) +
           "[" + std::to_string(walk_.places() * each) + "];");
    }
    const symbolic::Ranges ranges = ranges_;
    ranges_.set_size(tap_variable(), walk_.places());
    place_ = tap;
    for (const WindowRun &run : walk_.runs)
      bring(run);
    const std::vector<ValueId> runs = select(is_run);
    const std::vector<bool> before = needed(runs, false);
    if (!runs.empty()) // all loads are under way before the first is used
      each_place(select([&](ValueId id) {
        return before[id] && window_->reach[id] == Reach::window && is_once_a_run(id);
      }));
    const std::vector<bool> after = needed(select(is_shared), false, runs);
    each_place(select([&](ValueId id) {
      return fed[id] && after[id] && !is_run(id) &&
             (window_->reach[id] == Reach::window || !is_once_a_run(id));
    }));
    ranges_ = ranges;
  }
  /// Loads the runs that hold all places of the window.
  void bring(const WindowRun &run) {
    const Value &value = graph_[run.load];
    const Expr first = symbolic::simplify(
        symbolic::substitute(value.index, {{tap_variable(), Expr(0)}}) - Expr(run.before), ranges_);
    const std::string name = bring_runs(
        value, run.vector, run.count(walk_.places()), first,
        {"const " + index_ + " " + tile_variable().spelling() + " = " + first_of_tile() + ";"});
    held_[run.load] = element_of_runs(name, tap_variable().spelling(), run.before, run.vector);
  }
  void each_place(const std::vector<ValueId> &values) {
    const auto once = [&](ValueId id) { return is_once_a_run(id); };
    if (values.empty())
      return;
    unrolled(tap_variable().spelling(), walk_.places());
    if (mention(values, tile_variable()))
      line("const " + index_ + " " + tile_variable().spelling() + " = " + first_of_tile() + ";");
    for (const ValueId id : values)
      if (once(id))
        define(id);
    if (!std::all_of(values.begin(), values.end(), once)) {
      const int run = open_run();
      for (const ValueId id : values)
        if (!once(id))
          define(id);
      close_run(run);
    }
    close();
  }

  std::vector<bool> follow_reductions() const {
    std::vector<bool> result(graph_.values.size(), false);
    for (ValueId id = 0; id < graph_.values.size(); ++id)
      result[id] = graph_[id].op == Op::reduction ||
                   std::any_of(graph_[id].args.begin(), graph_[id].args.end(),
                               [&](ValueId arg) { return result[arg]; });
    return result;
  }

  /// What the threads of a row have accumulated, merged in the first one.
  void meet(const PhasePlan &phase) {
    for (const ValueId id : phase.reductions) {
      const Value &value = graph_[id];
      const std::string name = accumulators_.at(id), columns = std::to_string(walk_.columns());
      const int slots = std::max(1, walk_.block / 32) * walk_.columns() * vector_;
      shared_.push_back(accumulator_type(value) + " " + name + "[" + std::to_string(slots) + "]");
      line("tc_columns_reduce<" + combiner(value.reduction) + ", " + columns + ", " +
           std::to_string(walk_.threads) + ">(" + name + ", shared." + name + ");");
    }
  }

  /// What is left of each row, and what is computed of it and stored.
  void results(const PhasePlan &phase, const std::vector<bool> &fed) {
    const std::vector<ValueId> &stores = plan_.row_stores;
    std::vector<ValueId> roots;
    for (const ValueId id : stores) {
      roots.insert(roots.end(), graph_[id].args.begin(), graph_[id].args.end());
      if (graph_[id].guard != ir::kNone)
        roots.push_back(graph_[id].guard);
    }
    const std::vector<bool> used = needed(roots, false);
    // Where there is no tile, what follows a reduction reaches all rows of it: there is one.
    const std::vector<bool> follows = follow_reductions();
    const auto before = [&](ValueId id) { return is_of_tile(id) && !follows[id]; };
    define_all(select([&](ValueId id) { return used[id] && !fed[id] && before(id); }));
    for (const ValueId id : walk_.tile_stores)
      stage(id, walk_.tile);
    if (is_tiled())
      unrolled("p", walk_.tile);
    tile_row_ = is_tiled() ? "p" : "0";
    std::vector<ValueId> all = select([&](ValueId id) { return used[id] && !before(id); });
    all.insert(all.end(), stores.begin(), stores.end());
    if (is_tiled() && mention(all, tile_variable()))
      line("const " + index_ + " " + tile_variable().spelling() + " = " + row_of_tile() + ";");
    define_all(select(
        [&](ValueId id) { return used[id] && !before(id) && !follows[id] && is_once_a_run(id); }));
    for (const ValueId id : stores)
      if (is_vector_store(id))
        stage(id, vector_);
    const bool guards = walk_.guard && vector_ == 1 && walk_.tile_stores.size() < stores.size();
    if (guards)
      open("if (live)");
    const int run = open_run();
    finish_reductions(phase);
    define_all(select([&](ValueId id) { return used[id] && (follows[id] || !is_once_a_run(id)); }));
    for (const ValueId id : stores)
      if (is_vector_store(id) || walk_.stores_tile(id))
        line(staged_[id] + (walk_.stores_tile(id) ? "[p] = " : "[j] = ") +
             converted(use(graph_[id].args[0]), dtype_of(graph_[id].args[0]), graph_[id].dtype) +
             ";");
      else
        line((walk_.guard && vector_ > 1 ? "if (live) " : "") + store_text(graph_[id]));
    close_run(run);
    if (guards)
      close();
    for (const ValueId id : stores)
      if (is_vector_store(id))
        line((walk_.guard ? "if (live) " : "") + store_run_text(id, vector_));
    if (is_tiled())
      close();
    if (walk_.tile_stores.empty())
      return;
    line("const " + index_ + " " + tile_variable().spelling() + " = " + first_of_tile() + ";");
    for (const ValueId id : walk_.tile_stores)
      line((walk_.guard ? "if (live) " : "") + store_run_text(id, walk_.tile));
  }
};

} // namespace

WindowsText print_windows(const ir::Module &module, const KernelPlan &plan,
                          const Parameters &parameters, const std::string &name,
                          const std::string &path, bool is_part) {
  return WindowText(module, plan, parameters, name, path, is_part).print();
}

} // namespace tsc::codegen
