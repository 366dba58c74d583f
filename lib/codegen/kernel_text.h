// What printing every kind of walk shares: lines, names of values, expressions and definitions.
#pragma once

#include "codegen/combine_text.h"
#include "codegen/expression.h"
#include "codegen/print_kernel.h"
#include "codegen/tile_place.h"
#include "codegen/value_range.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace tsc::codegen {

class KernelText {
protected:
  KernelText(const ir::Module &module, const KernelPlan &plan, const Parameters &parameters,
             const std::string &name, const std::string &scope)
      : module_(module), plan_(plan), graph_(plan.graph), parameters_(parameters), kernel_(name),
        scope_(scope), vector_(vector_of(plan.walk)), steps_(steps_of(plan.walk)),
        index_(plan.wide_index ? "long long" : "int"), ranges_(plan.graph.ranges) {
    flat_ = std::get_if<FlatWalk>(&plan.walk);
    tile_ = std::get_if<TileWalk>(&plan.walk);
    row_ = std::get_if<RowWalk>(&plan.walk);
    column_ = std::get_if<ColumnWalk>(&plan.walk);
    window_ = std::get_if<WindowWalk>(&plan.walk);
    serial_ = std::get_if<SerialWalk>(&plan.walk);
    ranges_.set_size(symbolic::symbol(symbolic::SymbolSort::vector_element), vector_);
    number_values();
  }

  static constexpr const char *kAlways = "true"; // of whole_

  const ir::Module &module_;
  const KernelPlan &plan_;
  const KernelGraph &graph_;
  const Parameters &parameters_;
  std::string kernel_, scope_;       // scope_: what names of a path's own types start with
  std::string block_ = "blockIdx.x"; // where the number of the block stands
  std::string thread_ = "static_cast<int>(threadIdx.x)"; // where the thread's number in it stands
  int vector_, steps_;
  std::string index_;
  symbolic::Ranges ranges_;
  const FlatWalk *flat_ = nullptr;
  const TileWalk *tile_ = nullptr;
  const RowWalk *row_ = nullptr;
  const ColumnWalk *column_ = nullptr;
  const WindowWalk *window_ = nullptr;
  const SerialWalk *serial_ = nullptr;
  std::string text_;
  int depth_ = 0;
  std::vector<uint32_t> numbers_;          // of t0, t1, ... by value
  std::vector<bool> used_;                 // by other values
  std::map<ValueId, std::string> vectors_; // names of vector loads
  const PhasePlan *phase_ = nullptr;       // that is being printed
  std::map<ValueId, std::string> tiles_;   // names of loads that go through shared memory
  std::map<ValueId, std::string> staged_;  // names of arrays that vector stores are made of
  int stages_ = 0;                         // of these, declared so far: a store may have several
  std::map<ValueId, std::string> accumulators_;
  std::set<std::string> inverses_;  // row values whose reciprocal is there
  std::vector<std::string> shared_; // members of the shared structure
  bool in_elements_ = false;        // inside the innermost loop
  bool selects_ = false;            // elements outside of the row are computed, and not taken
  bool loads_inside_ = false;       // single elements are loaded where they lie in the row
  std::string whole_;         // what says that a run does not reach the row's end, if anything
  std::set<ValueId> ahead_;   // loads of several runs that were made together
  bool run_declared_ = false; // one run a thread: its coordinates are there
  bool notes_later_ = false;  // a thread has several elements
  std::map<ValueId, std::string> noted_later_; // indices whose failures a variable has
  std::map<ValueId, std::string> held_;        // loads that runs in registers hold, by place
  std::string place_ = "0"; // WindowWalk: where in the window, and which row of the tile
  std::string tile_row_ = "0";

  void line(const std::string &text) {
    text_.append(static_cast<size_t>(depth_) * 2, ' ');
    text_ += text;
    text_ += '\n';
  }
  void open(const std::string &text) {
    line(text.empty() ? "{" : text + " {");
    ++depth_;
  }
  void close() {
    --depth_;
    line("}");
  }

  /// Declares, from `start` on, what failures are noted in, and notes them where the text ends.
  void note_failures(size_t start) {
    std::string declared;
    for (const auto &[id, name] : noted_later_) {
      declared +=
          std::string(static_cast<size_t>(depth_) * 2, ' ') + "long long " + name + " = 0;\n";
      const std::string extent = size_text(graph_[id].extent);
      open("if (!tc_is_index(" + name + ", " + lowest(graph_[id]) + ", " + extent + "))");
      line("tc_note_failure(" + std::string(kFailure) + ", " + check_number(graph_[id]) + ", " +
           name + ", " + extent + ");");
      close();
    }
    text_.insert(start, declared);
    noted_later_.clear();
  }

  // ---- names and expressions

  void number_values() {
    numbers_.assign(graph_.values.size(), 0);
    used_.assign(graph_.values.size(), false);
    for (const Value &value : graph_.values) {
      for (const ValueId arg : value.args)
        used_[arg] = true;
      if (value.guard != ir::kNone)
        used_[value.guard] = true;
    }
    uint32_t next = 0;
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      const Value &value = graph_[id];
      const bool named = value.op != ir::Op::constant && value.op != ir::Op::store &&
                         value.op != ir::Op::store_reduction && value.op != ir::Op::set_indirect &&
                         !aliased(id) && choice_of(plan_, id) == nullptr &&
                         !(value.op == ir::Op::load && (plan_.access[id] == Access::vector ||
                                                        plan_.tiled[id] || is_preloaded(id)));
      numbers_[id] = named ? next++ : 0;
    }
    size_t vectors = 0, tiles = 0;
    for (ValueId id = 0; id < graph_.values.size(); ++id)
      if (plan_.tiled[id])
        tiles_[id] = "w" + std::to_string(tiles++);
    const auto is_vector = [&](ValueId id) {
      return (graph_[id].op == ir::Op::load &&
              (plan_.access[id] == Access::vector || is_preloaded(id))) ||
             choice_of(plan_, id) != nullptr;
    };
    for (ValueId id = 0; id < graph_.values.size(); ++id)
      if (is_vector(id) && is_first(id))
        vectors_[id] = "v" + std::to_string(vectors++);
    for (ValueId id = 0; id < graph_.values.size(); ++id)
      if (is_vector(id) && !is_first(id))
        vectors_[id] = vectors_.at(interleaved_of(plan_, id)->members.front());
  }
  /// Of the accesses that share one; true of one that is alone.
  bool is_first(ValueId id) const {
    const Interleaved *with = interleaved_of(plan_, id);
    return with == nullptr || with->members.front() == id;
  }
  /// Elements of a vector access of `id`, with those of the accesses that share it.
  int width_of(ValueId id) const {
    return is_single(id) ? 1 : vector_ * interleaved_with(plan_, id);
  }
  /// One element that stands for the whole run.
  bool is_single(ValueId id) const {
    return is_preloaded(id) && plan_.access[id] != Access::vector;
  }
  bool is_preloaded(ValueId id) const { return !plan_.preloaded.empty() && plan_.preloaded[id]; }
  bool is_across(ValueId id) const {
    const Interleaved *with = interleaved_of(plan_, id);
    return with != nullptr && with->across;
  }
  /// Of a warp's shared memory for such accesses, in 16 bytes (tc_across.h).
  int across_slots() const { return slots_across(module_, plan_); }
  /// Runs from the thread's own on.
  std::string runs_left() const {
    if (!flat_->guard)
      return "32";
    const std::string flat =
        graph_.element_variables.size() == 1 ? graph_.element_variables[0].spelling() : "e";
    const std::string left = "(" + size_text(graph_.elements()) + " - " + flat + ")";
    return vector_ == 1 ? left : left + " / " + std::to_string(vector_);
  }
  /// What a warp changes lanes through.
  std::string across() const { return "shared.across[threadIdx.x / 32], " + runs_left(); }
  /// Where element `j` of the run stands in it.
  std::string place_in_access(ValueId id, const std::string &j) const {
    const Interleaved *with = interleaved_of(plan_, id);
    if (with == nullptr)
      return is_single(id) ? "0" : j;
    const auto member = std::find(with->members.begin(), with->members.end(), id);
    const std::string number = std::to_string(member - with->members.begin());
    return j == "0" ? number : j + " * " + std::to_string(with->members.size()) + " + " + number;
  }
  bool aliased(ValueId id) const {
    const Value &value = graph_[id];
    return value.args.size() == 1 && is_alias(value, graph_[value.args[0]]) && !plan_.kept[id];
  }
  bool finds_position(ValueId id) const {
    const Value &value = graph_[id];
    return value.op == ir::Op::reduction && (value.reduction == ir::ReductionKind::argmax ||
                                             value.reduction == ir::ReductionKind::argmin);
  }
  std::string position(const std::string &j) const { // of an element in a kept array
    if (window_)
      return in_vectors(place_, j);
    if (steps_ == 1 && !serial_)
      return j;
    if (vector_ == 1)
      return "k";
    return "k * " + std::to_string(vector_) + " + " + j;
  }
  std::string run_position() const {
    return window_ ? place_ : steps_ == 1 && !serial_ ? "0" : "k";
  }
  /// Element j of the vector that stands at `place` of an array of vectors.
  std::string in_vectors(const std::string &place, const std::string &j) const {
    if (vector_ == 1)
      return place;
    const bool simple = place.find(' ') == std::string::npos;
    return (simple ? place : "(" + place + ")") + " * " + std::to_string(vector_) + " + " + j;
  }
  /// The array that says where the elements of a sorted row were.
  std::string places(ValueId sort) const { return "p" + std::to_string(numbers_[sort]); }
  /// The current value as an operand. Loads that are vectors are unpacked.
  std::string use(ValueId id) const {
    const Value &value = graph_[id];
    if (value.op == ir::Op::constant)
      return literal(value.constant, value.dtype);
    if (aliased(id))
      return use(value.args[0]);
    const auto vector = vectors_.find(id);
    const std::string j = vector_ == 1 ? "0" : "j";
    if (vector != vectors_.end())
      return "tc_get(" + vector_name(id) + ".at[" + place_in_access(id, j) + "])";
    if (const auto tile = tiles_.find(id); tile != tiles_.end())
      return "tc_get(shared." + tile->second + "[" +
             tile_place(value).text("across", vector_ == 1 ? "" : " + j", "down") + "])";
    const std::string name = "t" + std::to_string(numbers_[id]);
    if (plan_.kept[id]) // what is the same for a run is kept once a run
      return name + "[" + (plan_.uniform[id] ? run_position() : position(j)) + "]";
    return finds_position(id) ? name + ".index" : name;
  }
  /// Of a run's load: one of an array where a thread holds the runs of several steps.
  std::string vector_name(ValueId id) const {
    if (ahead_.count(id) != 0)
      return vectors_.at(id) + "[u]";
    if (window_)
      return vectors_.at(id) + (plan_.kept[id] ? "[" + place_ + "]" : "");
    const bool array = (is_preloaded(id) || plan_.kept[id]) && steps_ > 1;
    return vectors_.at(id) + (array ? "[k]" : "");
  }
  DType dtype_of(ValueId id) const {
    const Value &value = graph_[id];
    if (finds_position(id))
      return DType::i64;
    return aliased(id) ? dtype_of(value.args[0]) : value.dtype;
  }
  TilePlace tile_place(const Value &value) const {
    return {*tile_, tensor::size_in_bytes(module_.buffer(value.buffer).dtype), vector_};
  }
  /// Of an index that counts elements in the order of the loops, what it has besides; nothing of
  /// others. Its terms need no place along each loop, which takes divisions.
  std::optional<Expr> beside_flat(Expr index) const {
    const std::vector<Expr> &variables = graph_.element_variables;
    if (!flat_ || variables.size() < 2)
      return std::nullopt;
    const Expr rest = symbolic::simplify(index - graph_.place_in_order(), ranges_);
    if (std::any_of(variables.begin(), variables.end(),
                    [&](Expr variable) { return symbolic::depends_on(rest, variable); }))
      return std::nullopt;
    return rest;
  }
  std::string index_text(Expr index) const {
    if (const std::optional<Expr> rest = beside_flat(index))
      return std::string(in_elements_ && vector_ > 1 ? "e + j" : "e") +
             (rest->is_integer(0) ? "" : " + " + symbolic::print_cpp(*rest, ranges_));
    if (in_elements_ && vector_ > 1 && plan_.joined)
      if (const auto place = plan_.joined->places.find(index); place != plan_.joined->places.end())
        return symbolic::print_cpp(place->second, ranges_);
    if (in_elements_ && vector_ > 1 && !(window_ && window_->kept > 0)) {
      const Expr variable = window_ ? graph_.row_variables.back() : graph_.element_variables.back();
      index = symbolic::substitute(
          index, {{variable, variable + symbolic::symbol(symbolic::SymbolSort::vector_element)}});
    }
    return symbolic::print_cpp(index, ranges_);
  }
  std::string size_text(Expr size) const { return symbolic::print_cpp(size, ranges_); }
  /// A block's own copies are copy0, copy1, ...
  std::string base_of(const Value &value) const {
    if (const BlockCopy *copy = block_copy_of(plan_, value))
      return copy_name(*copy);
    return parameters_.name_of(module_.storage_of(value.buffer));
  }
  std::string copy_name(const BlockCopy &copy) const {
    return "copy" + std::to_string(&copy - plan_.block_copies.data());
  }
  std::string marks_name(const BlockCopy &copy) const {
    return "marks" + std::to_string(&copy - plan_.block_copies.data());
  }
  std::string address(const Value &value) const {
    const std::string base = base_of(value);
    return value.index.is_integer(0) ? base : base + " + " + index_text(value.index);
  }
  std::string table_name(const HeldTable &table) const {
    return "table" + std::to_string(&table - plan_.tables.data());
  }
  std::string element_of(const Value &value) const {
    if (const HeldTable *table = table_of(plan_, value))
      return table_name(*table) + "[" +
             index_text(symbolic::simplify(value.index - table->first, ranges_)) + "]";
    return parameters_.name_of(module_.storage_of(value.buffer)) + "[" + index_text(value.index) +
           "]";
  }

  // ---- statements

  bool divides_by_row(ValueId id) const {
    return !plan_.divides_by_row.empty() && plan_.divides_by_row[id];
  }
  bool is_quick(ValueId id) const { return !plan_.quick.empty() && plan_.quick[id]; }
  /// Of a value that a variable t0, t1... holds; a constant's text, say, is a literal.
  static bool is_variable(const std::string &text) {
    return text.size() > 1 && text[0] == 't' &&
           text.find_first_not_of("0123456789", 1) == std::string::npos;
  }
  /// The reciprocal of a row value: a variable, or what the compiler folds.
  std::string inverse(ValueId id) const {
    const std::string divisor = use(id);
    return is_variable(divisor) ? divisor + "_inverse" : "1.0f / " + divisor;
  }
  void define_inverse(ValueId id) {
    const auto is_divisor = [&](ValueId divisor) {
      while (divisor != id && aliased(divisor))
        divisor = graph_[divisor].args[0];
      return divisor == id;
    };
    for (ValueId user = id + 1; user < graph_.values.size(); ++user)
      if (divides_by_row(user) && is_divisor(graph_[user].args[1]) && is_variable(use(id)) &&
          inverses_.insert(use(id)).second)
        line("const float " + inverse(id) + " = 1.0f / " + use(id) + ";");
  }

  /// A value that follows from the element's place (is_of_place), written out.
  std::string of_place(ValueId id) const {
    const Value &value = graph_[id];
    if (value.op == ir::Op::constant)
      return literal(value.constant, value.dtype);
    if (value.op == ir::Op::index_expr)
      return computation(id);
    if (aliased(id))
      return of_place(value.args[0]);
    std::vector<ArgumentText> arguments;
    for (const ValueId arg : value.args)
      arguments.push_back({of_place(arg), dtype_of(arg)});
    return "(" + operation_text(value, arguments) + ")";
  }
  /// Where a load happens: under its guard, and not at all in a dimension without elements, in
  /// which no run-time index is right. "": always.
  std::string load_condition(const Value &load) const {
    std::vector<std::string> conditions;
    if (loads_inside_ && load.level == Level::element)
      conditions.push_back("inside");
    if (load.guard != ir::kNone)
      conditions.push_back(use(load.guard));
    for (const ValueId arg : load.args)
      if (graph_[arg].op == ir::Op::set_indirect &&
          symbolic::bounds(graph_[arg].extent, graph_.ranges).low < 1)
        conditions.push_back(size_text(graph_[arg].extent) + " > 0");
    std::string text;
    for (const std::string &condition : conditions)
      text += (text.empty() ? "" : " && ") + condition;
    return text;
  }
  /// Where a store happens: under its guard, and only at run-time indices that are in range. "":
  /// always.
  std::string store_condition(const Value &store) const {
    std::string text = store.guard == ir::kNone ? "" : use(store.guard);
    for (size_t i = 1; i < store.args.size(); ++i) {
      const Value &index = graph_[store.args[i]];
      if (index.op == ir::Op::set_indirect)
        text += (text.empty() ? "" : " && ") + std::string("tc_is_index(") + use(index.args[0]) +
                ", " + lowest(index) + ", " + size_text(index.extent) + ")";
    }
    return text;
  }

  /// True if a run-time index is computed from positions alone and always points somewhere.
  bool is_in_range(const Value &index) const {
    const std::optional<ValueRange> range = value_range(graph_, index.args[0]);
    return range && range->low >= 0 &&
           range->high < static_cast<double>(symbolic::bounds(index.extent, graph_.ranges).low);
  }

  /// The lowest value that a run-time index may have.
  std::string lowest(const Value &index) const {
    return module_.check_of(index.check).wraps ? size_text(Expr(0) - index.extent) : "0";
  }
  std::string check_number(const Value &index) const {
    const auto place = std::find(parameters_.checks.begin(), parameters_.checks.end(), index.check);
    const auto number = place - parameters_.checks.begin();
    return number == 0 ? kCheck : kCheck + (" + " + std::to_string(number));
  }

  /// True of a draw whose offset stands for all of a run.
  bool draws_by_place(const Value &value) const {
    if (!ir::is_random(value.op) || vector_ == 1 || !plan_.uniform[value.args[2]])
      return false;
    const Expr variable = window_ ? graph_.row_variables.back() : graph_.element_variables.back();
    return symbolic::depends_on(graph_[value.args[2]].index, variable);
  }
  /// Whether all conditions of loads that are under way at once find room in a GPU's predicates:
  /// those of a window's places, if they are not more (measured: a window of 7 places of 16
  /// channels is slower by two fifths where conversions have no conditions, windows of 8 and 10 are
  /// faster by a tenth and a sixth).
  bool has_few_conditions() const {
    constexpr int kPredicates = 7;
    return window_ && window_->tile > 1 && window_->places() <= kPredicates;
  }
  /// The right-hand side that computes a value.
  std::string computation(ValueId id) const {
    const Value &value = graph_[id];
    switch (value.op) {
    case ir::Op::load: {
      const auto held = held_.find(id);
      const std::string load =
          "tc_get(" + (held == held_.end() ? element_of(value) : held->second) + ")";
      const std::string condition = load_condition(value);
      if (condition.empty())
        return load;
      if (const DType memory = module_.buffer(value.buffer).dtype;
          storage_type(memory) != value_type(memory) && !has_few_conditions() &&
          held == held_.end())
        return "tc_load_where(" + condition + ", " + address(value) + ")";
      return condition + " ? " + load + " : " + literal(tensor::Scalar(int64_t{0}), value.dtype);
    }
    case ir::Op::index_expr:
      return "static_cast<" + std::string(value_type(value.dtype)) + ">(" +
             index_text(value.index) + ")";
    case ir::Op::get_item:
      if (graph_[value.args[0]].op == ir::Op::sort)
        return "static_cast<long long>(" + places(value.args[0]) + "[" +
               position(vector_ == 1 ? "0" : "j") + "])";
      if (const Value &scan = graph_[value.args[0]]; scan.combine)
        return converted(use(value.args[0]) + ".m" + std::to_string(value.item),
                         function_of(scan).code->types[value.item], value.dtype);
      return "t" + std::to_string(numbers_[value.args[0]]) + "." +
             std::string(item_name(graph_[value.args[0]].reduction, value.item));
    default: {
      if (!plan_.exact.empty() && plan_.exact[id]) {
        const auto operand = [&](size_t i) {
          return converted(use(value.args[i]), dtype_of(value.args[i]), value.dtype);
        };
        return "tc_plain_" + std::string(ir::op_name(value.op)) + "(" + operand(0) + ", " +
               operand(1) + ")";
      }
      if (value.op == ir::Op::to_dtype && value.dtype == DType::i64 &&
          tensor::is_floating(dtype_of(value.args[0])) && value_range(graph_, id))
        return "static_cast<long long>(tc_to<int>(" + use(value.args[0]) +
               "))"; // from 64 bits it takes four times as long
      if (is_quick(id) && value.op == ir::Op::erf)
        return "tc_quick_erf(" + use(value.args[0]) + ")";
      if (const ValueId tangent = tangent_beside_one(id); tangent != ir::kNone)
        return "tc_tanh_plus_1(" + use(graph_[tangent].args[0]) + ")";
      if (is_quick(id) && value.op == ir::Op::sigmoid)
        return "tc_quick_sigmoid(" + use(value.args[0]) + ")";
      if (is_quick(id) && value.op == ir::Op::tanh)
        return "tc_near_tanh(" + use(value.args[0]) + ")";
      if (is_quick(id) && value.op == ir::Op::log1p)
        return "tc_quick_log1p(" + use(value.args[0]) + ")";
      if (is_quick(id) && value.op == ir::Op::exp)
        return "tc_quick_exp(" + use(value.args[0]) + ")";
      if (const std::optional<double> factor = exact_factor(graph_, value))
        return use(value.args[0]) + " * " + literal(tensor::Scalar(*factor), value.dtype);
      if (divides_by_row(id))
        return std::string(is_quick(id) ? "tc_quick_divide(" : "tc_divide(") + use(value.args[0]) +
               ", " + use(value.args[1]) + ", " + inverse(value.args[1]) + ")";
      std::vector<ArgumentText> arguments;
      for (const ValueId arg : value.args)
        arguments.push_back({use(arg), dtype_of(arg)});
      if (draws_by_place(value)) // the offset is the run's
        arguments[2].text =
            (vector_ % 4 == 0 ? "tc_run_offset{" : "tc_pair_offset{") + arguments[2].text + ", j}";
      else if (draws_by_warp(plan_, id)) // tc_draw_words
        arguments[2].text = "tc_held_offset{shared.words" + std::to_string(id) +
                            "[threadIdx.x / 32] + k * 8, static_cast<int>(threadIdx.x & 31u)}";
      return operation_text(value, arguments);
    }
    }
  }
  /// A quick hyperbolic tangent is this, or for results of 16 bits (nothing is added to it).
  bool is_tangent_beside_one(ValueId id) const {
    return graph_[id].op == ir::Op::tanh && is_quick(id) &&
           std::any_of(graph_.values.begin(), graph_.values.end(), [&](const Value &user) {
             return user.op == ir::Op::add &&
                    std::find(user.args.begin(), user.args.end(), id) != user.args.end();
           });
  }
  /// The hyperbolic tangent that a value adds 1 to, if that is all that becomes of it.
  ValueId tangent_beside_one(ValueId id) const {
    if (graph_[id].op == ir::Op::add)
      for (const ValueId arg : graph_[id].args)
        if (is_tangent_beside_one(arg))
          return arg;
    return ir::kNone;
  }
  /// Whether a product's run may load a vector before other runs' stores, and without a condition.
  bool loads_early(ValueId id) const {
    const BufferId storage = module_.storage_of(graph_[id].buffer);
    return std::holds_alternative<ProductWalk>(plan_.walk) && load_condition(graph_[id]).empty() &&
           (parameters_.only_read(storage) || parameters_.stored_over(storage));
  }
  /// How a vector is loaded in the walk at hand.
  std::string vector_load(ValueId id) const {
    const auto has = [&](const std::vector<ValueId> &list) {
      return std::find(list.begin(), list.end(), id) != list.end();
    };
    if (phase_ != nullptr && has(phase_->read_again))
      return "tc_keep_vec";
    // Runs of results are finished one after another: the next one's loads need not wait for the
    // stores before them.
    if (loads_early(id))
      return parameters_.only_read(module_.storage_of(graph_[id].buffer)) ? "tc_constant_vec"
                                                                          : "tc_ahead_vec";
    return phase_ != nullptr && has(phase_->read_last) ? "tc_stream_vec" : "tc_load_vec";
  }
  /// Where the run starts in its row, by KernelPlan::origin before it maybe.
  std::string row_element() const { return graph_.element_variables.back().spelling(); }
  /// True of a run that lies whole in its row, by whole_: the first step's may begin before it.
  std::string lies_inside() const { return whole_ + " && k > 0"; }
  /// A run's load; with an origin, as much of it as lies in the tensor.
  std::string run_load(const std::string &how, ValueId id) const {
    const Value &load = graph_[id];
    if (shift_of(plan_, id) == kAnyShift)
      return "tc_load_anywhere<" + std::to_string(vector_) + ">(" + address(load) + ", " +
             index_text(load.index) + ", " + size_text(access_end(module_, graph_, load).value()) +
             ")";
    if (const int shift = shift_of(plan_, id); shift > 0) {
      const Expr variable = graph_.element_variables.back();
      const auto moved = [&](int by) {
        Value from = load;
        from.index = symbolic::simplify(
            symbolic::substitute(load.index, {{variable, variable + Expr(by)}}), graph_.ranges);
        return address(from);
      };
      return "tc_load_shifted<" + std::to_string(vector_) + ", " + std::to_string(shift) + ">(" +
             moved(-shift) + ", " + moved(vector_ - shift) + ")";
    }
    const std::string width = "<" + std::to_string(width_of(id)) + ">(";
    if (is_across(id))
      return "tc_load_across" + width + address(load) + ", " + runs_left() + ")";
    const std::string plain = how + width + address(load) + ")";
    if (!plan_.origin || whole_ == kAlways)
      return plain;
    const Expr end = access_end(module_, graph_, load).value();
    return (whole_.empty() ? "" : whole_ + " ? " + plain + " : ") + how + "_inside" + width +
           address(load) + ", " + size_text(end) + " - (" + index_text(load.index) + "))";
  }
  /// Whether there are threads whose rows are others' (`live` is false): these may have stored
  /// already what is read again.
  bool has_idle_rows() const {
    return (row_ && row_->guard_row) || (column_ && column_->guard_row) ||
           (window_ && window_->guard) || has_idle_runs();
  }
  /// Whether threads whose run lies past the end load the last one (`live` is false) and store
  /// nothing: between branches, a thread's runs would be loaded one after another.
  bool has_idle_runs() const {
    return flat_ && flat_->guard && steps_ > 1 && (!plan_.has_barriers || !plan_.by_warp.empty()) &&
           across_slots() == 0;
  }
  /// An index that moves with elements and points nowhere is noted when the thread is done: its
  /// branch would stand between the loads of neighbours, which then wait for each other. `extent`
  /// is positive, so that 0 is an index that does.
  bool notes_later(const Value &index) const {
    return notes_later_ && index.level == Level::element &&
           symbolic::bounds(index.extent, graph_.ranges).low > 0;
  }
  bool looks_up_few() const {
    constexpr ptrdiff_t kMost = 3; // each is two registers
    return std::count_if(graph_.values.begin(), graph_.values.end(), [](const Value &value) {
             return value.op == ir::Op::set_indirect;
           }) <= kMost;
  }
  /// Where an index counts; "": everywhere.
  std::string when_checked(const Value &value) const {
    const std::string guard = value.guard == ir::kNone ? "" : use(value.guard);
    if (!has_idle_rows() || (flat_ && value.level == Level::row)) // that of all threads
      return guard;
    return guard.empty() ? "live" : "live && " + guard;
  }
  /// A run-time index that points somewhere: of 32 bits, as all that is computed with it, if
  /// indices are.
  std::string declared_place(const Value &value, const std::string &place) const {
    return "const " + index_ + " " + value.symbol.spelling() + " = " +
           (plan_.wide_index ? place : "static_cast<int>(" + place + ")") + ";";
  }
  void define(ValueId id) {
    const Value &value = graph_[id];
    if (value.op == ir::Op::constant || aliased(id) ||
        (value.op == ir::Op::index_expr && !used_[id]) || // of conditions that were decided
        is_tangent_beside_one(id))                        // said where 1 is added to it
      return;
    if (value.combine) { // the one thread of the row carries it along
      const std::string name = "c" + std::to_string(numbers_[id]);
      line(name + " = tc_next(" + name + ", " + combined_input(id) + ");");
      line((plan_.kept[id] ? "" : "const " + element_type(id) + " ") + use(id) + " = " + name +
           ".value;");
      return;
    }
    if (value.op == ir::Op::scan) { // the one thread of the row carries it along
      const std::string name = "c" + std::to_string(numbers_[id]);
      const std::string type(value_type(value.dtype)), running = scan_type(value);
      const auto as = [](const std::string &wanted, const std::string &has, const std::string &x) {
        return wanted == has ? x : "static_cast<" + wanted + ">(" + x + ")";
      };
      line(name + " = " + combiner(value.scan) + "::apply(" + name + ", " +
           as(running, type, scan_input(value)) + ");");
      line((plan_.kept[id] ? "" : "const " + type + " ") + use(id) + " = " +
           as(type, running, name) + ";");
      return;
    }
    if (value.op == ir::Op::set_indirect && is_in_range(value)) {
      line(declared_place(value, use(value.args[0])));
      return;
    }
    if (value.op == ir::Op::set_indirect) {
      const std::string when = when_checked(value).empty() ? "" : ", " + when_checked(value),
                        limits = lowest(value) + ", " + size_text(value.extent);
      if (!notes_later(value)) {
        line(declared_place(value, "tc_check_index(" + use(value.args[0]) + ", " + limits + ", " +
                                       kFailure + ", " + check_number(value) + when + ")"));
        return;
      }
      const std::string &bad =
          noted_later_.try_emplace(id, "bad" + std::to_string(noted_later_.size())).first->second;
      line(declared_place(value, "tc_find_index(" + use(value.args[0]) + ", " + limits + ", " +
                                     bad + when + ")"));
      return;
    }
    if (id == plan_.result && vector_ == 1) {
      line("const float t" + std::to_string(numbers_[id]) + " = results[0];");
      return;
    }
    if (id == plan_.result) {
      line("const tc_vec<float, " + std::to_string(vector_) + "> " + vector_name(id) +
           " = tc_run_of(results);");
      return;
    }
    if (const Choice *choice = choice_of(plan_, id)) {
      define_choice(*choice);
      return;
    }
    if (vectors_.count(id) != 0) {
      const std::string type = vector_type(id), condition = load_condition(value),
                        how = vector_load(id), width = "<" + std::to_string(vector_) + ">(";
      std::string load = run_load(how, id);
      if (!condition.empty())
        load = how == "tc_load_vec" && (!plan_.origin || whole_ == kAlways)
                   ? how + "_where" + width + condition + ", " + address(value) + ")"
                   : condition + " ? " + (whole_.empty() ? load : "(" + load + ")") + " : " + type +
                         "{}";
      line((plan_.kept[id] ? "" : "const " + type + " ") + vector_name(id) + " = " + load + ";");
      return;
    }
    if (plan_.kept[id])
      line(use(id) + " = " + computation(id) + ";");
    else
      line("const " + std::string(value_type(value.dtype)) + " t" + std::to_string(numbers_[id]) +
           " = " + computation(id) + ";");
  }
  /// "if (..)" before a store that does not always happen.
  std::string where_stored(const Value &value) const {
    const std::string where = store_condition(value);
    return where.empty()
               ? ""
               : "if (" + where + ")\n" + std::string(static_cast<size_t>(depth_) * 2 + 2, ' ');
  }
  std::string store_text(const Value &value) const {
    std::string x = converted(use(value.args[0]), dtype_of(value.args[0]), value.dtype);
    if (const BlockCopy *copy = block_copy_of(plan_, value); copy && copy->dtype != value.dtype)
      x = "static_cast<" + std::string(value_type(copy->dtype)) + ">(" + x + ")";
    if (const BlockCopy *copy = block_copy_of(plan_, value); copy && copy->marks)
      return where_stored(value) + "tc_put(" + copy_name(*copy) + ", " + marks_name(*copy) + ", " +
             index_text(value.index) + ", " + x + ");";
    const bool plain = value.mode == ir::StoreMode::plain;
    return where_stored(value) + "tc_" +
           std::string(plain ? "store" : ir::store_mode_name(value.mode)) + "(" + address(value) +
           ", " + x + ");";
  }
  /// Of `count` neighbours.
  std::string store_run_text(ValueId id, int count) const {
    if (plan_.origin && whole_ != kAlways)
      return where_stored(graph_[id]) + "tc_store_vec_inside<" + std::to_string(vector_) + ">(" +
             address(graph_[id]) + ", " + row_element() + ", " + size_text(graph_.elements()) +
             ", " + staged_.at(id) + (whole_.empty() ? "" : ", " + lies_inside()) + ");";
    if (is_across(id))
      return "tc_store_across<" + std::to_string(count) + ">(" + address(graph_[id]) + ", " +
             staged_.at(id) + ", " + across() + ");";
    const bool adds = graph_[id].mode == ir::StoreMode::atomic_add;
    const bool own = block_copy_of(plan_, graph_[id]) != nullptr;
    return where_stored(graph_[id]) +
           (own    ? "tc_atomic_add_each<"
            : adds ? "tc_atomic_add_vec<"
                   : "tc_store_vec<") +
           std::to_string(count) + ">(" + address(graph_[id]) + ", " + staged_.at(id) + ");";
  }
  bool is_vector_store(ValueId id) const { return plan_.access[id] == Access::vector; }
  /// Declares the array that a vector store of `count` elements is made of.
  void stage(ValueId id, int count) {
    // Symbols of sizes are called s0, s1, ... already.
    staged_[id] = (parameters_.sizes.empty() ? "s" : "y") + std::to_string(stages_++);
    line(std::string(value_type(graph_[id].dtype)) + " " + staged_[id] + "[" +
         std::to_string(count) + "];");
  }
  void define_choice(const Choice &choice) {
    const std::string name = vectors_.at(choice.root), width = std::to_string(vector_);
    const Value &last = graph_[choice.places.back().second];
    const std::string type(storage_type(module_.buffer(last.buffer).dtype));
    line("const " + type + " *" + name + "_place = " + address(last) + ";");
    std::string any;
    for (size_t i = choice.places.size() - 1; i-- > 0;) { // the first that holds wins
      const auto &[condition, load] = choice.places[i];
      any = use(condition) + (any.empty() ? "" : " || " + any);
      line(name + "_place = " + use(condition) + " ? " + address(graph_[load]) + " : " + name +
           "_place;");
    }
    const bool always = last.guard == ir::kNone;
    line("const tc_vec<" + type + ", " + width + "> " + name + " = " +
         (always ? "tc_load_vec<" : "tc_load_vec_where<") + width + ">(" +
         (always ? "" : any + " || " + use(last.guard) + ", ") + name + "_place);");
  }
  /// Of a scan's running value: the one thread of a row adds up far more than float keeps apart.
  std::string scan_type(const Value &value) const {
    const bool adds_up = value.scan == ir::ScanKind::sum || value.scan == ir::ScanKind::prod ||
                         (value.scan == ir::ScanKind::logsumexp && serial_ != nullptr);
    return std::string(!graph_.scans_end_phases && adds_up && tensor::is_floating(value.dtype)
                           ? "double"
                           : value_type(value.dtype));
  }
  // ---- scans of tuples
  /// What combines them here: one thread carries a tuple along in double if that takes no
  /// functions.
  ir::CombineFunction function_of(const Value &scan) const {
    const bool widens =
        !graph_.scans_end_phases && (serial_ != nullptr || is_cheap(*scan.combine.code));
    return widens ? widened(scan.combine) : scan.combine;
  }
  std::string combine_type(ValueId id) const {
    return scope_ + "_scan" + std::to_string(numbers_[id]);
  }
  /// The structures in front of the kernel.
  std::string combine_structs() const {
    std::string text;
    for (ValueId id = 0; id < graph_.values.size(); ++id)
      if (graph_[id].combine)
        text += combine_text(*function_of(graph_[id]).code, combine_type(id));
    return text;
  }
  /// Of a value, also of one that is a tuple.
  std::string element_type(ValueId id) const {
    return graph_[id].combine ? combine_type(id) + "::value"
                              : std::string(value_type(graph_[id].dtype));
  }
  /// Arguments `first` and those behind it, as a tuple.
  std::string tuple_text(ValueId id, size_t first) const {
    const Value &value = graph_[id];
    const ir::CombineFunction function = function_of(value);
    std::string members;
    for (size_t k = 0; k < function.code->types.size(); ++k) {
      const ValueId arg = value.args[first + k];
      members += (k > 0 ? ", " : "") + converted(use(arg), dtype_of(arg), function.code->types[k]);
    }
    return combine_type(id) + "::value{" + members + "}";
  }
  std::string combined_input(ValueId id) const { return tuple_text(id, 0); }
  /// What the row's first element follows.
  std::string combine_start(ValueId id) const {
    const Value &value = graph_[id];
    const size_t members = scanned_members(value);
    return "tc_running<" + combine_type(id) + ">{" +
           (goes_on(value) ? use(value.args[2 * members]) + ", " + tuple_text(id, members)
                           : "false, " + combine_type(id) + "::value{}") +
           "}";
  }
  std::string scan_input(const Value &value) const {
    return converted(use(value.args[0]), dtype_of(value.args[0]), value.dtype);
  }
  std::string vector_type(ValueId id) const {
    return "tc_vec<" + std::string(storage_type(module_.buffer(graph_[id].buffer).dtype)) + ", " +
           std::to_string(width_of(id)) + ">";
  }
};

} // namespace tsc::codegen
